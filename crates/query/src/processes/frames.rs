//! The framing of messages between a query process and its parent, which are connected by pipes. A frame is the kind
//! and the length of its content as little-endian `u64`, followed by the content.

use std::io::{self, Read, Write};

use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use prost::Message;

/// The bytes of a number of a header.
const NUMBER_BYTES: usize = size_of::<u64>();
/// The bytes of a header: the kind and the length.
const HEADER_BYTES: usize = 2 * NUMBER_BYTES;
/// The maximum length of a frame other than [`FrameKind::Rows`].
const MAX_MESSAGE_BYTES: u64 = 64 << 20;

/// The kind of a frame: `Query` and `Response` are sent to the query process, all others by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// A query.
    Query = 1,
    /// The response to a request.
    Response = 2,
    /// A request for the names of the tables, for one table, or for memory.
    Request = 3,
    /// The columns and the parameters of a statement.
    Plan = 4,
    /// The next part of an Arrow IPC stream.
    Rows = 5,
    /// The end of the query.
    End = 6,
}

impl FrameKind {
    const ALL: [FrameKind; 6] =
        [FrameKind::Query, FrameKind::Response, FrameKind::Request, FrameKind::Plan, FrameKind::Rows, FrameKind::End];

    fn try_from_number(number: u64) -> io::Result<FrameKind> {
        let kind = FrameKind::ALL.into_iter().find(|kind| *kind as u64 == number);
        kind.ok_or_else(|| invalid_data(format!("a frame of kind {number}")))
    }
}

fn invalid_data(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// The header of a frame. The caller reads the content with [`read_message`](FrameHeader::read_message) or
/// [`read_content`](FrameHeader::read_content).
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    pub kind: FrameKind,
    pub len: u64,
}

impl FrameHeader {
    /// Reads the header of the next frame. Returns `None` at the end of the input.
    ///
    /// # Errors
    /// Errors of reading; `InvalidData` for an unknown kind or a message that is too long.
    pub fn read(input: &mut impl Read) -> io::Result<Option<FrameHeader>> {
        let mut numbers = [[0; NUMBER_BYTES]; 2];
        let bytes = numbers.as_flattened_mut();
        match input.read(&mut bytes[..1])? {
            0 => return Ok(None),
            _ => input.read_exact(&mut bytes[1..])?,
        }
        let [kind, len] = numbers.map(u64::from_le_bytes);
        let kind = FrameKind::try_from_number(kind)?;
        if kind != FrameKind::Rows && len > MAX_MESSAGE_BYTES {
            return Err(invalid_data(format!("a message of {len} bytes; at most {MAX_MESSAGE_BYTES} are expected")));
        }
        Ok(Some(FrameHeader { kind, len }))
    }

    /// Reads the content of the frame as a message.
    ///
    /// # Errors
    /// Errors of reading; `InvalidData` if it can't be decoded.
    pub fn read_message<M: Message + Default>(&self, input: &mut impl Read) -> io::Result<M> {
        M::decode(self.read_content(input)?.as_slice()).map_err(|e| invalid_data(format!("a message: {e}")))
    }

    /// Reads the content of the frame.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn read_content(&self, input: &mut impl Read) -> io::Result<Buffer> {
        let len = usize::try_from(self.len).map_err(|_| invalid_data(format!("rows of {} bytes", self.len)))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        input.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Writes a frame.
///
/// # Errors
/// Errors of writing.
pub(super) fn write_frame(output: &mut impl Write, kind: FrameKind, content: &[u8]) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    header[..NUMBER_BYTES].copy_from_slice(&(kind as u64).to_le_bytes());
    header[NUMBER_BYTES..].copy_from_slice(&(content.len() as u64).to_le_bytes());
    output.write_all(&header)?;
    output.write_all(content)?;
    output.flush()
}

/// Writes a message as a frame.
///
/// # Errors
/// Errors of writing.
pub(super) fn write_message(output: &mut impl Write, kind: FrameKind, message: &impl Message) -> io::Result<()> {
    write_frame(output, kind, &message.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_written() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, FrameKind::Rows, b"rows").unwrap();
        write_frame(&mut pipe, FrameKind::End, b"").unwrap();
        let mut input = pipe.as_slice();
        let header = FrameHeader::read(&mut input).unwrap().unwrap();
        assert_eq!(header.kind, FrameKind::Rows);
        assert_eq!(header.read_content(&mut input).unwrap().as_slice(), b"rows");
        assert_eq!(FrameHeader::read(&mut input).unwrap().unwrap().kind, FrameKind::End);
        assert!(FrameHeader::read(&mut input).unwrap().is_none());
    }

    #[test]
    fn truncated_and_invalid_frames_are_rejected() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, FrameKind::Rows, b"rows").unwrap();
        // Half a header, and half a content.
        assert!(FrameHeader::read(&mut &pipe[..HEADER_BYTES / 2]).is_err());
        let header = FrameHeader::read(&mut &pipe[..]).unwrap().unwrap();
        assert!(header.read_content(&mut &pipe[HEADER_BYTES..HEADER_BYTES + 2]).is_err());
        // An unknown kind.
        assert!(FrameHeader::read(&mut &[7; HEADER_BYTES][..]).is_err());
        // A message that is too long.
        let mut large = [0; HEADER_BYTES];
        large[0] = FrameKind::Query as u8;
        large[HEADER_BYTES - 1] = 1;
        assert!(FrameHeader::read(&mut &large[..]).is_err());
    }
}
