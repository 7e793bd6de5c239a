//! Parses the table and the parameters of a call from a ticket's or a command's text, or from a descriptor's path.

use super::messages::{DescriptorType, FlightDescriptor, Ticket};
use crate::http::{Problem, Query, Result};

/// Returns the table of a descriptor and its parameters, which must be among `parameters`.
pub(super) fn parse_descriptor(descriptor: &FlightDescriptor, parameters: &[&str]) -> Result<(String, Query)> {
    match (descriptor.kind(), &descriptor.path[..]) {
        (DescriptorType::Path, [name]) => Ok((name.clone(), Query::parse(None, &[])?)),
        (DescriptorType::Command, _) => {
            let text = std::str::from_utf8(&descriptor.command);
            parse_target(text.map_err(|_| Problem::bad_request("the command is not UTF-8"))?, parameters)
        }
        _ => Err(Problem::bad_request("a descriptor is a path of one name, a table's, or a command")),
    }
}

/// Returns the table of a ticket and its parameters, which must be among `parameters`.
pub(super) fn parse_ticket(ticket: &Ticket, parameters: &[&str]) -> Result<(String, Query)> {
    let text = std::str::from_utf8(&ticket.ticket);
    parse_target(text.map_err(|_| Problem::bad_request("the ticket is not UTF-8"))?, parameters)
}

/// Parses the text of a ticket or a command, such as `ticks?from=10`.
fn parse_target(text: &str, parameters: &[&str]) -> Result<(String, Query)> {
    let (name, query) = text.split_once('?').map_or((text, None), |(name, query)| (name, Some(query)));
    Ok((name.to_owned(), Query::parse(query, parameters)?))
}
