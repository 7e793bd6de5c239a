//! [`MessageReader`]: reads the messages of an IPC stream from a pipe.

use std::io::{self, IoSliceMut, Read};

use super::data::{at_message, never_written, unexpected};
use crate::array::Bytes;
use crate::error::{Error, Result};
use crate::ipc::framing::{CONTINUATION, END_OF_STREAM, IpcSchema, MessageFrame, MessageHeader, MessageKind};

/// The size in bytes of a word: a continuation marker or a length.
const WORD: usize = 4;

/// Reads the messages of a stream in order: a message's metadata, then its body, which the caller must read before the
/// next message.
pub(super) struct MessageReader<R> {
    input: R,
    /// The number of bytes read.
    position: usize,
    /// True for the framing before format 0.15, once the schema was read.
    is_legacy: bool,
}

/// A message without its body.
pub(super) struct StreamMessage {
    pub frame: MessageFrame,
    metadata: Vec<u8>,
}

impl StreamMessage {
    pub(super) fn header(&self) -> Result<MessageHeader<'_>> {
        MessageHeader::parse(&self.metadata).map_err(|e| at_message(e, self.frame))
    }
}

impl<R: Read> MessageReader<R> {
    pub(super) fn new(input: R) -> MessageReader<R> {
        MessageReader { input, position: 0, is_legacy: false }
    }

    /// Reads the schema, which is the first message and tells the framing.
    pub(super) fn read_schema(&mut self) -> Result<IpcSchema> {
        let message = self.read_message()?.ok_or_else(|| Error::invalid("an Arrow stream without a schema"))?;
        self.is_legacy = message.frame.is_legacy();
        let header = message.header()?;
        match header.kind {
            MessageKind::Schema => IpcSchema::parse(header.table, message.metadata.len()),
            other => Err(unexpected(message.frame, MessageKind::Schema, other)),
        }
    }

    /// Reads the next message; `None` at the end of the stream.
    pub(super) fn read_message(&mut self) -> Result<Option<StreamMessage>> {
        /// The limit of zeros after a zero word that ends a stream: together they are as long as the marker.
        const MAX_PADDING: usize = END_OF_STREAM.len() - WORD;

        let offset = self.position;
        let Some(first) = self.read_word(offset)? else { return Ok(None) };
        let len = match first {
            CONTINUATION => self.read_word(offset)?.ok_or_else(|| truncated(offset, "4 bytes of length", 0))?,
            legacy => legacy,
        };
        if len == 0 {
            // As in a file, a single zero word is the end in the framing before format 0.15, or with at most padding
            // after it.
            let has_more = first == 0 && !self.is_legacy && self.read_up_to(MAX_PADDING + 1)?.len() > MAX_PADDING;
            return if has_more { Err(never_written(offset)) } else { Ok(None) };
        }

        let Some(metadata_len) = i32::try_from(len).ok().and_then(|len| usize::try_from(len).ok()) else {
            return Err(Error::invalid(format!("the message at byte {offset} has a negative length of metadata")));
        };
        let frame = MessageFrame { offset, metadata: self.position, metadata_len };
        let metadata = self.read_up_to(metadata_len)?;
        if metadata.len() < metadata_len {
            return Err(truncated(offset, &format!("{metadata_len} bytes of metadata"), metadata.len()));
        }
        Ok(Some(StreamMessage { frame, metadata }))
    }

    /// Reads the body of a message into memory of its own.
    pub(super) fn read_body(&mut self, frame: MessageFrame, len: usize) -> Result<Bytes> {
        self.read_filled(frame, len, |source, out| source.read_slices(frame, len, &mut [IoSliceMut::new(out)]))
    }

    /// Allocates `len` bytes, and returns them after `fill` has read into them. The memory is not touched before bytes
    /// arrive.
    pub(super) fn read_filled(
        &mut self,
        frame: MessageFrame,
        len: usize,
        fill: impl FnOnce(&mut Self, &mut [u8]) -> Result<()>,
    ) -> Result<Bytes> {
        let buffer = Bytes::build_buffer(
            len,
            |out| fill(self, out),
            |e| at_message(Error::io(&format!("taking memory for a body of {len} bytes"), &e), frame),
        )?;
        Ok(Bytes::from(buffer))
    }

    /// Fills the slices, which have the `len` bytes of a body.
    pub(super) fn read_slices(
        &mut self,
        frame: MessageFrame,
        len: usize,
        mut slices: &mut [IoSliceMut<'_>],
    ) -> Result<()> {
        /// The limit of slices of one call on Linux and macOS (readv(2), `IOV_MAX`).
        const MAX_SLICES: usize = 1024;

        let start = self.position;
        IoSliceMut::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let count = slices.len().min(MAX_SLICES);
            match self.input.read_vectored(&mut slices[..count]) {
                Ok(0) => return Err(truncated(frame.offset, &format!("a body of {len} bytes"), self.position - start)),
                Ok(more) => {
                    self.position += more;
                    IoSliceMut::advance_slices(&mut slices, more);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return Err(read_error(&e)),
            }
        }
        assert_eq!(self.position - start, len, "the slices are not as long as the body");
        Ok(())
    }

    /// Reads four bytes as a number; `None` at the end of the input.
    fn read_word(&mut self, offset: usize) -> Result<Option<u32>> {
        match self.read_up_to(WORD)?[..] {
            [] => Ok(None),
            [a, b, c, d] => Ok(Some(u32::from_le_bytes([a, b, c, d]))),
            ref some => Err(truncated(offset, "4 bytes of length", some.len())),
        }
    }

    /// Reads `len` bytes, or as many as there are. Allocates memory as they arrive.
    fn read_up_to(&mut self, len: usize) -> Result<Vec<u8>> {
        /// The number of bytes that memory is first allocated for; it doubles with each step.
        const FIRST_STEP: usize = 64 << 10;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let step = (len - bytes.len()).min(bytes.len().max(FIRST_STEP));
            bytes
                .try_reserve_exact(step)
                .map_err(|_| Error::out_of_memory(format!("no memory for a message of {len} bytes")))?;
            let more = (&mut self.input).take(step as u64).read_to_end(&mut bytes).map_err(|e| read_error(&e))?;
            self.position += more;
            if more < step {
                break;
            }
        }
        Ok(bytes)
    }
}

fn truncated(offset: usize, what: &str, got: usize) -> Error {
    Error::invalid(format!("truncated: the message at byte {offset} has {what}, but the input ends after {got}"))
}

pub(super) fn read_error(e: &io::Error) -> Error {
    Error::io("reading an Arrow stream", e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_allocated_as_bytes_arrive() {
        let mut source = MessageReader::new(io::repeat(7).take(10));
        let bytes = source.read_up_to(i32::MAX as usize).unwrap();
        assert!(bytes.len() == 10 && bytes.capacity() <= 64 << 10);
        let mut source = MessageReader::new(io::repeat(7).take(1_000_000));
        let bytes = source.read_up_to(usize::MAX / 2).unwrap();
        assert!(bytes.len() == 1_000_000 && bytes.capacity() <= 2_000_000 && source.position == 1_000_000);
    }
}
