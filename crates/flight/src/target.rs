//! Parses the table and the parameters of a call from a ticket's or a command's text, or from a descriptor's path.

use crate::messages::{DescriptorType, FlightDescriptor, Ticket};
use crate::status::Status;

/// The table that a call is about, and its parameters. Clients can write them by hand: `ticks?from=10&columns=price`.
///
/// ```
/// use arrowwood_flight::{Target, Ticket};
///
/// let ticket = Ticket { ticket: "ticks?from=10".into() };
/// assert_eq!(Target::from_ticket(&ticket)?, Target { table: "ticks", query: Some("from=10") });
/// # Ok::<(), arrowwood_flight::Status>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The name of the table.
    pub table: &'a str,
    /// The parameters, encoded as in a URL after its `?`.
    pub query: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Returns the target of a descriptor, which is a path of one name, or a command in the text of a ticket.
    ///
    /// # Errors
    /// `InvalidArgument` for another path, or a command that is no text.
    pub fn from_descriptor(descriptor: &'a FlightDescriptor) -> Result<Target<'a>, Status> {
        match (descriptor.r#type(), &descriptor.path[..]) {
            (DescriptorType::Path, [name]) => Ok(Target { table: name, query: None }),
            (DescriptorType::Cmd, _) => {
                let text = std::str::from_utf8(&descriptor.cmd);
                Ok(Target::from_text(text.map_err(|_| Status::invalid_argument("the command is not UTF-8"))?))
            }
            _ => Err(Status::invalid_argument("a descriptor is a path of one name, a table's, or a command")),
        }
    }

    /// Returns the target of a ticket.
    ///
    /// # Errors
    /// `InvalidArgument` for a ticket that is no text.
    pub fn from_ticket(ticket: &'a Ticket) -> Result<Target<'a>, Status> {
        let text = std::str::from_utf8(&ticket.ticket);
        Ok(Target::from_text(text.map_err(|_| Status::invalid_argument("the ticket is not UTF-8"))?))
    }

    /// Splits the text of a ticket or a command.
    fn from_text(text: &'a str) -> Target<'a> {
        let (table, query) = text.split_once('?').map_or((text, None), |(table, query)| (table, Some(query)));
        Target { table, query }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn descriptor(kind: DescriptorType, cmd: &'static [u8], path: &[&str]) -> FlightDescriptor {
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        FlightDescriptor { r#type: kind.into(), cmd: Bytes::from_static(cmd), path }
    }

    #[test]
    fn descriptors_name_one_table() {
        let path = descriptor(DescriptorType::Path, b"", &["a?b"]);
        assert_eq!(Target::from_descriptor(&path), Ok(Target { table: "a?b", query: None }));
        let command = descriptor(DescriptorType::Cmd, b"a?b=c?d", &["ignored"]);
        assert_eq!(Target::from_descriptor(&command), Ok(Target { table: "a", query: Some("b=c?d") }));
        for wrong in [
            descriptor(DescriptorType::Path, b"a", &[]),
            descriptor(DescriptorType::Path, b"", &["a", "b"]),
            descriptor(DescriptorType::Unknown, b"a", &["a"]),
            descriptor(DescriptorType::Cmd, b"\xff", &[]),
        ] {
            assert!(Target::from_descriptor(&wrong).is_err(), "{wrong:?}");
        }
    }
}
