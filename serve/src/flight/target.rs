//! The table that a call is about, and how: text of a ticket or a command, or the path of a descriptor.

use super::messages::{DescriptorType, FlightDescriptor, Ticket};
use crate::query::Query;
use crate::refusal::{Refusal, Result};

/// The table that a descriptor means, and its parameters, which are among those `known`.
pub(super) fn target_of(descriptor: &FlightDescriptor, known: &[&str]) -> Result<(String, Query)> {
    match (descriptor.kind(), &descriptor.path[..]) {
        (DescriptorType::Path, [name]) => Ok((name.clone(), Query::parse(None, &[])?)),
        (DescriptorType::Command, _) => {
            let text = std::str::from_utf8(&descriptor.command);
            parse_target(text.map_err(|_| Refusal::bad_request("the command is not UTF-8"))?, known)
        }
        _ => Err(Refusal::bad_request("a descriptor is a path of one name, a table's, or a command")),
    }
}

/// The same of a ticket.
pub(super) fn target_of_ticket(ticket: &Ticket, known: &[&str]) -> Result<(String, Query)> {
    let text = std::str::from_utf8(&ticket.ticket);
    parse_target(text.map_err(|_| Refusal::bad_request("the ticket is not UTF-8"))?, known)
}

/// The same of the text of a ticket or a command: `ticks?from=10`.
fn parse_target(text: &str, known: &[&str]) -> Result<(String, Query)> {
    let (name, query) = text.split_once('?').map_or((text, None), |(name, query)| (name, Some(query)));
    Ok((name.to_owned(), Query::parse(query, known)?))
}
