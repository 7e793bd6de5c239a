//! Frames: the messages that a query process and the process that started it exchange through pipes, each with its
//! length.

use std::io::{self, Read, Write};

use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use prost::Message;

/// The bytes before a frame: its kind, and its length.
const HEAD: usize = 16;
/// The maximum bytes of a frame that holds no rows.
const MAX_MESSAGE: u64 = 64 << 20;

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// To the process: a query.
    Query = 1,
    /// To the process: the answer to its request.
    Response = 2,
    /// From the process: asks for the names of the tables, for one table, or for memory.
    Request = 3,
    /// From the process: the columns and the parameters of a statement.
    Plan = 4,
    /// From the process: the next part of an Arrow IPC stream.
    Rows = 5,
    /// From the process: the end of the query.
    End = 6,
}

impl FrameKind {
    fn try_from_number(number: u64) -> io::Result<FrameKind> {
        match number {
            1 => Ok(FrameKind::Query),
            2 => Ok(FrameKind::Response),
            3 => Ok(FrameKind::Request),
            4 => Ok(FrameKind::Plan),
            5 => Ok(FrameKind::Rows),
            6 => Ok(FrameKind::End),
            _ => Err(invalid(format!("a frame of kind {number}"))),
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    debug_assert!(bytes.len() <= 8, "a number of a header has at most 8 bytes");
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The header of a frame whose content is read next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeader {
    pub kind: FrameKind,
    pub len: u64,
}

impl FrameHeader {
    /// Reads the header of the next frame; returns `None` at the end.
    ///
    /// # Errors
    /// Errors of reading; `InvalidData` for bytes that are no header.
    pub fn read(from: &mut impl Read) -> io::Result<Option<FrameHeader>> {
        let mut head = [0; HEAD];
        match from.read(&mut head[..1])? {
            0 => return Ok(None),
            _ => from.read_exact(&mut head[1..])?,
        }
        let (kind, len) = head.split_at(HEAD / 2);
        let kind = FrameKind::try_from_number(little_endian(kind))?;
        let head = FrameHeader { kind, len: little_endian(len) };
        if head.kind != FrameKind::Rows && head.len > MAX_MESSAGE {
            return Err(invalid(format!("a message of {} bytes; at most {MAX_MESSAGE} are expected", head.len)));
        }
        Ok(Some(head))
    }

    /// Reads the message of the frame.
    ///
    /// # Errors
    /// Errors of reading; `InvalidData` for bytes that are no such message.
    pub fn message<M: Message + Default>(&self, from: &mut impl Read) -> io::Result<M> {
        M::decode(self.rows(from)?.as_slice()).map_err(|e| invalid(format!("a message: {e}")))
    }

    /// Reads the content of the frame.
    ///
    /// # Errors
    /// Errors of reading.
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
/// Errors of writing.
pub(crate) fn write(to: &mut impl Write, kind: FrameKind, content: &[u8]) -> io::Result<()> {
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
/// Errors of writing.
pub(crate) fn tell(to: &mut impl Write, kind: FrameKind, message: &impl Message) -> io::Result<()> {
    write(to, kind, &message.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut pipe = Vec::new();
        write(&mut pipe, FrameKind::Rows, b"rows").unwrap();
        write(&mut pipe, FrameKind::End, b"").unwrap();
        let mut from = pipe.as_slice();
        let head = FrameHeader::read(&mut from).unwrap().unwrap();
        assert_eq!((head.kind, head.rows(&mut from).unwrap().as_slice()), (FrameKind::Rows, &b"rows"[..]));
        assert_eq!(FrameHeader::read(&mut from).unwrap().unwrap().kind, FrameKind::End);
        assert!(FrameHeader::read(&mut from).unwrap().is_none());
        // Half a frame, and what is none.
        assert!(FrameHeader::read(&mut &pipe[..9]).is_err());
        let head = FrameHeader::read(&mut &pipe[..]).unwrap().unwrap();
        assert!(head.rows(&mut &pipe[16..18]).is_err());
        assert!(FrameHeader::read(&mut &[7; 16][..]).is_err());
        let mut large = [0; 16];
        large[0] = FrameKind::Query as u8;
        large[15] = 1;
        assert!(FrameHeader::read(&mut &large[..]).is_err());
    }
}
