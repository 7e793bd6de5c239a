//! Frames: what a process for queries and whoever started it tell each other through pipes, each with its length.

use std::io::{self, Read, Write};

use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use prost::Message;

/// The bytes before a frame: its kind, and its length.
const HEAD: usize = 16;
/// The most bytes of a frame that is none of rows.
const MOST: u64 = 64 << 20;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To the process: a query.
    Query = 1,
    /// To the process: the answer to what it has asked.
    Answer = 2,
    /// From the process: for which tables there are, or for one of them.
    Asked = 3,
    /// From the process: the columns and the parameters of a statement.
    Planned = 4,
    /// From the process: the next part of an Arrow IPC stream.
    Rows = 5,
    /// From the process: the end of the query.
    Ended = 6,
}

impl Kind {
    fn of(number: u64) -> io::Result<Kind> {
        let kinds = [Kind::Query, Kind::Answer, Kind::Asked, Kind::Planned, Kind::Rows, Kind::Ended];
        let found = kinds.into_iter().find(|kind| *kind as u64 == number);
        found.ok_or_else(|| invalid(format!("a frame of kind {number}")))
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The head of a frame whose content is read next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub kind: Kind,
    pub len: u64,
}

impl Head {
    /// The next frame's; `None` at the end.
    ///
    /// # Errors
    /// Those of reading; for what is none.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Head>> {
        let mut head = [0; HEAD];
        match from.read(&mut head[..1])? {
            0 => return Ok(None),
            _ => from.read_exact(&mut head[1..])?,
        }
        let (kind, len) = head.split_at(HEAD / 2);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let head = Head { kind: Kind::of(number(kind))?, len: number(len) };
        if head.kind != Kind::Rows && head.len > MOST {
            return Err(invalid(format!("a message of {} bytes; at most {MOST} are expected", head.len)));
        }
        Ok(Some(head))
    }

    /// The message of the frame.
    ///
    /// # Errors
    /// Those of reading; for what is no such message.
    pub fn message<M: Message + Default>(&self, from: &mut impl Read) -> io::Result<M> {
        M::decode(self.rows(from)?.as_slice()).map_err(|e| invalid(format!("a message: {e}")))
    }

    /// The content of the frame.
    ///
    /// # Errors
    /// Those of reading.
    pub fn rows(&self, from: &mut impl Read) -> io::Result<Buffer> {
        let len = usize::try_from(self.len).map_err(|_| invalid(format!("rows of {} bytes", self.len)))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        from.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Writes a frame.
///
/// # Errors
/// Those of writing.
pub(crate) fn write(to: &mut impl Write, kind: Kind, content: &[u8]) -> io::Result<()> {
    let mut head = [0; HEAD];
    head[..HEAD / 2].copy_from_slice(&(kind as u64).to_le_bytes());
    head[HEAD / 2..].copy_from_slice(&(content.len() as u64).to_le_bytes());
    to.write_all(&head)?;
    to.write_all(content)?;
    to.flush()
}

/// Writes a message as a frame.
///
/// # Errors
/// Those of writing.
pub(crate) fn tell(to: &mut impl Write, kind: Kind, message: &impl Message) -> io::Result<()> {
    write(to, kind, &message.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut pipe = Vec::new();
        write(&mut pipe, Kind::Rows, b"rows").unwrap();
        write(&mut pipe, Kind::Ended, b"").unwrap();
        let mut from = pipe.as_slice();
        let head = Head::read(&mut from).unwrap().unwrap();
        assert_eq!((head.kind, head.rows(&mut from).unwrap().as_slice()), (Kind::Rows, &b"rows"[..]));
        assert_eq!(Head::read(&mut from).unwrap().unwrap().kind, Kind::Ended);
        assert!(Head::read(&mut from).unwrap().is_none());
        // Half a frame, and what is none.
        assert!(Head::read(&mut &pipe[..9]).is_err());
        let head = Head::read(&mut &pipe[..]).unwrap().unwrap();
        assert!(head.rows(&mut &pipe[16..18]).is_err());
        assert!(Head::read(&mut &[7; 16][..]).is_err());
        let mut large = [0; 16];
        large[0] = Kind::Query as u8;
        large[15] = 1;
        assert!(Head::read(&mut &large[..]).is_err());
    }
}
