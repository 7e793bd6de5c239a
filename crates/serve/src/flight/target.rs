//! Parses the table and the parameters of a call.

use arrowwood_flight::{FlightDescriptor, Target, Ticket};

use crate::http::{Query, Result};

/// Returns the table of a descriptor and its parameters, which must be among `parameters`.
pub(super) fn parse_descriptor(descriptor: &FlightDescriptor, parameters: &[&str]) -> Result<(String, Query)> {
    parse_target(Target::from_descriptor(descriptor)?, parameters)
}

/// Returns the table of a ticket and its parameters, which must be among `parameters`.
pub(super) fn parse_ticket(ticket: &Ticket, parameters: &[&str]) -> Result<(String, Query)> {
    parse_target(Target::from_ticket(ticket)?, parameters)
}

fn parse_target(target: Target<'_>, parameters: &[&str]) -> Result<(String, Query)> {
    Ok((target.table.to_owned(), Query::parse(target.query, parameters)?))
}
