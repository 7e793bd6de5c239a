//! The table and parameters of a call: from the text of a ticket or a command, or the path of a descriptor.

use super::messages::{DescriptorType, FlightDescriptor, Ticket};
use crate::problem::{Problem, Result};
use crate::query::Query;

/// The table of a descriptor, and its parameters, which must be among `known`.
pub(super) fn target_of(descriptor: &FlightDescriptor, known: &[&str]) -> Result<(String, Query)> {
    match (descriptor.kind(), &descriptor.path[..]) {
        (DescriptorType::Path, [name]) => Ok((name.clone(), Query::parse(None, &[])?)),
        (DescriptorType::Command, _) => {
            let text = std::str::from_utf8(&descriptor.command);
            parse_target(text.map_err(|_| Problem::bad_request("the command is not UTF-8"))?, known)
        }
        _ => Err(Problem::bad_request("a descriptor is a path of one name, a table's, or a command")),
    }
}

/// The same for a ticket.
pub(super) fn target_of_ticket(ticket: &Ticket, known: &[&str]) -> Result<(String, Query)> {
    let text = std::str::from_utf8(&ticket.ticket);
    parse_target(text.map_err(|_| Problem::bad_request("the ticket is not UTF-8"))?, known)
}

/// The same for the text of a ticket or a command: `ticks?from=10`.
fn parse_target(text: &str, known: &[&str]) -> Result<(String, Query)> {
    let (name, query) = text.split_once('?').map_or((text, None), |(name, query)| (name, Some(query)));
    Ok((name.to_owned(), Query::parse(query, known)?))
}
