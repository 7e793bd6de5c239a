//! Finds encapsulated messages and parses their headers into plain numbers.
//!
//! ```text
//! 0xFFFFFFFF  i32 metadata length  metadata (flatbuffer, padded)  body
//! └─ absent before format 0.15 ─┘  └ read: copied, then parsed ┘  └ stays in place
//! ```
//! (Arrow Columnar Format, *Encapsulated message format*.)

use std::collections::HashMap;
use std::ops::Range;

use super::fields;
use super::flatbuffer::{FlatTable, Vector};
use crate::array::Bytes;
use crate::error::{Error, Result};
use crate::parallel;

/// MetadataVersion V5, as numbered in Schema.fbs.
pub(in crate::ipc) const V5: i16 = 4;
/// The oldest version whose record batches have today's shape.
const V4: i16 = 3;

/// The word in front of a message since format 0.15. It is followed by the length of the metadata.
pub(in crate::ipc) const CONTINUATION: u32 = u32::MAX;

/// The number of bytes in front of a message's metadata: the continuation marker and the length.
pub(in crate::ipc) const PREFIX: usize = 8;

/// The number of bytes in front of a message's metadata before format 0.15: the length alone.
pub(in crate::ipc) const LEGACY_PREFIX: usize = 4;

/// The end-of-stream marker: the prefix of a message without metadata.
pub(in crate::ipc) const END_OF_STREAM: [u8; PREFIX] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The smallest alignment of messages and bodies, in bytes.
pub(in crate::ipc) const MIN_ALIGNMENT: usize = 8;

/// The size in bytes of a field node and of a buffer in a RecordBatch: two numbers of 64 bits.
const PAIR: usize = 16;
/// The offset of the second number of a pair.
const SECOND: usize = 8;

/// The two framings of Arrow IPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Has a footer with the positions of the batches: random access.
    #[default]
    File,
    /// Message after message, written and read from front to back.
    Stream,
}

/// The position of a message in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageFrame {
    /// The first byte of the message, at its length prefix.
    pub offset: usize,
    /// The first byte of the flatbuffer.
    pub metadata: usize,
    /// The length of the flatbuffer in bytes, with padding.
    pub metadata_len: usize,
}

impl MessageFrame {
    /// Returns true for the framing before format 0.15, which has no continuation marker.
    pub(crate) fn is_legacy(&self) -> bool {
        self.metadata == self.offset + LEGACY_PREFIX
    }

    /// Returns the first byte of the body.
    pub(crate) fn body(&self) -> usize {
        self.metadata + self.metadata_len
    }
}

/// The content of a stream at an offset.
pub(crate) enum NextMessage {
    Message(MessageFrame),
    /// The end-of-stream marker, or the end of the bytes between two messages.
    End,
    /// A single zero word: the end-of-stream marker before format 0.15, bytes that were never written in later formats.
    Zeros,
}

/// Reads small pieces of a file, many with one system call.
///
/// The window proper is `bytes`, the last part of the file that was read. A request inside it takes no call; any other
/// request moves the window, and `read_len` follows the largest request so far.
///
/// A walk over all messages spends its time waiting for these calls. Messages are often equally spaced, so after two
/// equal distances several threads read further pieces at that distance into `prefetched`. A wrong guess costs only
/// time: pieces are found by offset. Callers that want all messages set `is_scanning` first.
#[derive(Debug)]
pub(crate) struct Window {
    /// The offset of `bytes` in the file.
    start: usize,
    bytes: Vec<u8>,
    /// The number of bytes to read at once.
    read_len: usize,
    /// The end of the last request.
    last_end: usize,
    /// The largest piece requested so far.
    largest: usize,
    /// The offsets of the last two pieces read.
    last_starts: [usize; 2],
    /// Set if all messages are wanted: reads ahead.
    pub(crate) is_scanning: bool,
    prefetched: PrefetchedPieces,
}

/// Pieces of equal length at equal distances, read ahead.
#[derive(Debug, Default)]
struct PrefetchedPieces {
    start: usize,
    stride: usize,
    piece_len: usize,
    /// The bytes read by each job.
    data: Vec<Vec<u8>>,
}

/// The size in bytes of the smallest piece, of which all sizes are multiples.
const MIN_PIECE: usize = 512;
/// The size in bytes of the largest piece.
const MAX_PIECE: usize = 16 << 10;
/// Gaps of fewer bytes than this are read rather than skipped.
const NEAR_GAP: usize = 2 << 10;
/// The number of pieces read ahead at once.
const PREFETCHED_PIECES: usize = 2048;
/// The number of pieces that a thread reads ahead.
const PIECES_PER_JOB: usize = 64;
/// The number of bytes of a file's first read, which covers schema, dictionaries and the first batch of most files.
const FIRST_READ: usize = 2048;
/// The work of a job that reads ahead, in bytes as [`parallel::map`] counts them: it waits rather than computes.
const BYTES_PER_JOB: usize = 1 << 20;

impl Window {
    pub(crate) fn new() -> Window {
        Window {
            start: 0,
            bytes: Vec::new(),
            read_len: FIRST_READ,
            last_end: 0,
            largest: 0,
            last_starts: [0; 2],
            is_scanning: false,
            prefetched: PrefetchedPieces::default(),
        }
    }

    /// Returns the `len` bytes at `offset`, or an error if the file ends before.
    pub(crate) fn get(&mut self, file: &Bytes, offset: usize, len: usize) -> Result<&[u8]> {
        let last_end = std::mem::replace(&mut self.last_end, offset.saturating_add(len));
        if offset >= self.start && offset.saturating_add(len) <= self.start + self.bytes.len() {
            return Ok(&self.bytes[offset - self.start..offset - self.start + len]);
        }

        // Small messages close together are read at once. The parts of a message follow each other without a gap.
        let is_near = !self.bytes.is_empty() && offset > last_end && offset - last_end < NEAR_GAP;
        if self.is_scanning && !is_near && self.prefetched.find(offset, len).is_none() {
            self.prefetch(file, offset);
        }
        if let Some((job, range)) = self.prefetched.find(offset, len) {
            return Ok(&self.prefetched.data[job][range]);
        }
        self.read(file, offset, len.max(if is_near { MAX_PIECE } else { self.read_len }), len)?;
        Ok(&self.bytes[..len])
    }

    /// Reads `wanted` bytes at `offset`, or as many as there are, of which `len` are required.
    fn read(&mut self, file: &Bytes, offset: usize, wanted: usize, len: usize) -> Result<()> {
        assert!(len <= wanted, "{len} bytes of {wanted} are required");
        let room = file.len().saturating_sub(offset);
        if len > room {
            let size = file.len();
            return Err(Error::invalid(format!(
                "truncated: {len} bytes of metadata at byte {offset} end past the last of {size} bytes"
            )));
        }
        // The window stays empty on failure, so that half-filled bytes are not returned later.
        let mut fresh = std::mem::take(&mut self.bytes);
        file.read_into(offset, wanted.min(room), &mut fresh)?;
        self.largest = self.largest.max(len);
        self.read_len = self.largest.next_multiple_of(MIN_PIECE).clamp(MIN_PIECE, MAX_PIECE);
        self.last_starts = [self.last_starts[1], offset];
        self.start = offset;
        self.bytes = fresh;
        Ok(())
    }

    /// Reads ahead from `offset` if it is as far from the last piece as the last piece is from the one before.
    fn prefetch(&mut self, file: &Bytes, offset: usize) {
        let [before, last] = self.last_starts;
        let stride = offset.saturating_sub(last);
        let piece_len = self.read_len;
        if stride <= piece_len || last.saturating_sub(before) != stride {
            return;
        }

        let count = (file.len().saturating_sub(offset + piece_len) / stride).min(PREFETCHED_PIECES);
        let jobs = count / PIECES_PER_JOB;
        let read = parallel::map(jobs, jobs * BYTES_PER_JOB, |job| {
            let mut data = vec![0; PIECES_PER_JOB * piece_len];
            for (number, piece) in data.chunks_exact_mut(piece_len).enumerate() {
                file.read_at(offset + (job * PIECES_PER_JOB + number) * stride, piece)?;
            }
            Ok(data)
        });
        if let Ok(data) = read.into_iter().collect::<Result<Vec<_>>>() {
            self.prefetched = PrefetchedPieces { start: offset, stride, piece_len, data };
            // The next prefetch begins where this one ends.
            let end = offset + jobs * PIECES_PER_JOB * stride;
            self.last_starts = [end.saturating_sub(2 * stride), end.saturating_sub(stride)];
        }
    }
}

impl PrefetchedPieces {
    /// Returns the job that read the `len` bytes at `offset`, and their range in its bytes.
    fn find(&self, offset: usize, len: usize) -> Option<(usize, Range<usize>)> {
        let distance = offset.checked_sub(self.start)?;
        let number = distance.checked_div(self.stride)?;
        let rest = distance % self.stride;
        let start = number % PIECES_PER_JOB * self.piece_len + rest;
        let job = number / PIECES_PER_JOB;
        let fits = rest.checked_add(len)? <= self.piece_len && start + len <= self.data.get(job)?.len();
        fits.then(|| (job, start..start + len))
    }
}

/// Reads the length prefix at `offset` and returns the frame of the message there.
pub(crate) fn find_message(bytes: &Bytes, window: &mut Window, offset: usize) -> Result<NextMessage> {
    let room = bytes.len().saturating_sub(offset);
    if room == 0 {
        return Ok(NextMessage::End);
    }
    let truncated = |what: &str, left: usize| {
        Error::invalid(format!("truncated: the message at byte {offset} has {what}, but only {left} follow"))
    };
    if room < LEGACY_PREFIX {
        return Err(truncated("a prefix of 4 bytes", room));
    }
    // Without a continuation marker, the prefix is one word, which may be all that is left.
    let (words, _) = window.get(bytes, offset, room.min(PREFIX))?.as_chunks::<LEGACY_PREFIX>();
    let first = u32::from_le_bytes(words[0]);
    let (metadata, len) = match words.get(1) {
        Some(&second) if first == CONTINUATION => (offset + PREFIX, u32::from_le_bytes(second)),
        None if first == CONTINUATION => return Err(truncated("4 bytes of length", room - LEGACY_PREFIX)),
        _ => (offset + LEGACY_PREFIX, first),
    };
    if len == 0 {
        return Ok(if first == CONTINUATION { NextMessage::End } else { NextMessage::Zeros });
    }
    let metadata_len = i32::try_from(len).ok().and_then(|len| usize::try_from(len).ok());
    match metadata_len {
        Some(metadata_len) if metadata_len <= bytes.len() - metadata => {
            Ok(NextMessage::Message(MessageFrame { offset, metadata, metadata_len }))
        }
        Some(len) => Err(truncated(&format!("{len} bytes of metadata"), bytes.len() - metadata)),
        None => Err(Error::invalid(format!("the message at byte {offset} has a negative length of metadata"))),
    }
}

/// The kind of a message, numbered as in the union `MessageHeader` of Message.fbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// The schema.
    Schema,
    /// Values of a dictionary.
    DictionaryBatch,
    /// Rows.
    RecordBatch,
    /// A tensor, which is not part of a table.
    Tensor,
    /// A sparse tensor, which is not part of a table.
    SparseTensor,
}

impl MessageKind {
    /// Returns the name in Message.fbs.
    pub fn name(self) -> &'static str {
        match self {
            MessageKind::Schema => "Schema",
            MessageKind::DictionaryBatch => "DictionaryBatch",
            MessageKind::RecordBatch => "RecordBatch",
            MessageKind::Tensor => "Tensor",
            MessageKind::SparseTensor => "SparseTensor",
        }
    }
}

/// The header of a message: its own table, and the table of its kind.
#[derive(Debug)]
pub(crate) struct MessageHeader<'a> {
    pub version: i16,
    pub kind: MessageKind,
    pub table: FlatTable<'a>,
    pub body_len: usize,
    message: FlatTable<'a>,
}

impl<'a> MessageHeader<'a> {
    pub(crate) fn parse(metadata: &'a [u8]) -> Result<MessageHeader<'a>> {
        let message = FlatTable::root(metadata)?;
        let version = message.i16(fields::message::VERSION)?;
        if !(V4..=V5).contains(&version) {
            return Err(Error::unsupported(format!(
                "metadata version V{} is not one of V4 and V5",
                i32::from(version) + 1
            )));
        }
        let kind = match message.u8(fields::message::HEADER_TYPE)? {
            1 => MessageKind::Schema,
            2 => MessageKind::DictionaryBatch,
            3 => MessageKind::RecordBatch,
            4 => MessageKind::Tensor,
            5 => MessageKind::SparseTensor,
            other => return Err(Error::invalid(format!("a message's kind is a number from 1 to 5, got {other}"))),
        };
        let table = message.table(fields::message::HEADER)?;
        let table = table.ok_or_else(|| Error::invalid(format!("a {} message has no header", kind.name())))?;
        let body_len = length("body length", message.i64(fields::message::BODY_LENGTH)?)?;
        Ok(MessageHeader { version, kind, table, body_len, message })
    }

    /// Returns the message's own key-value metadata.
    pub(crate) fn custom_metadata(&self) -> Result<HashMap<String, String>> {
        let mut metadata = HashMap::new();
        for pair in self.message.tables(fields::message::CUSTOM_METADATA)? {
            let pair = pair?;
            let key = pair.string(fields::key_value::KEY)?.unwrap_or("");
            let value = pair.string(fields::key_value::VALUE)?.unwrap_or("");
            metadata.insert(key.into(), value.into());
        }
        Ok(metadata)
    }
}

/// The fields of a DictionaryBatch, whose values are the record batch `data`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DictionaryHeader<'a> {
    pub id: i64,
    pub is_delta: bool,
    pub data: FlatTable<'a>,
}

impl<'a> DictionaryHeader<'a> {
    pub(crate) fn parse(table: FlatTable<'a>) -> Result<DictionaryHeader<'a>> {
        let data = table.table(fields::dictionary_batch::DATA)?;
        let data = data.ok_or_else(|| Error::invalid("a dictionary batch has no record batch"))?;
        let id = table.i64(fields::dictionary_batch::ID)?;
        let is_delta = table.bool(fields::dictionary_batch::IS_DELTA)?;
        Ok(DictionaryHeader { id, is_delta, data })
    }
}

/// Returns the number of rows of a RecordBatch table.
pub(crate) fn row_count(table: FlatTable<'_>) -> Result<usize> {
    length("number of rows", table.i64(fields::record_batch::LENGTH)?)
}

/// The codec of compressed bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

impl Compression {
    /// Returns the name of the codec.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// A RecordBatch table as plain numbers, copied out of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub rows: usize,
    /// Length and null count of each field node.
    pub nodes: Vec<(i64, i64)>,
    /// Offset in the body, and length, of each buffer.
    pub buffers: Vec<(i64, i64)>,
    /// Number of data buffers of each view column.
    pub variadics: Vec<i64>,
    pub compression: Option<Compression>,
}

impl BatchHeader {
    pub(in crate::ipc) fn parse(table: FlatTable<'_>) -> Result<BatchHeader> {
        let variadics = match table.vector(fields::record_batch::VARIADIC_BUFFER_COUNTS, size_of::<i64>())? {
            Some(counts) => (0..counts.len()).map(|i| counts.i64(i, 0)).collect::<Result<_>>()?,
            None => Vec::new(),
        };
        Ok(BatchHeader {
            rows: row_count(table)?,
            nodes: read_pairs(table.vector(fields::record_batch::NODES, PAIR)?)?,
            buffers: read_pairs(table.vector(fields::record_batch::BUFFERS, PAIR)?)?,
            variadics,
            compression: table.table(fields::record_batch::COMPRESSION)?.map(parse_compression).transpose()?,
        })
    }
}

fn read_pairs(vector: Option<Vector<'_>>) -> Result<Vec<(i64, i64)>> {
    let Some(vector) = vector else { return Ok(Vec::new()) };
    // This takes most of the time of reading the headers of many small batches: the pairs must not grow step by step.
    let mut pairs = Vec::with_capacity(vector.len());
    for i in 0..vector.len() {
        pairs.push((vector.i64(i, 0)?, vector.i64(i, SECOND)?));
    }
    Ok(pairs)
}

fn parse_compression(table: FlatTable<'_>) -> Result<Compression> {
    match (table.u8(fields::body_compression::CODEC)?, table.u8(fields::body_compression::METHOD)?) {
        (0, 0) => Ok(Compression::Lz4),
        (1, 0) => Ok(Compression::Zstd),
        (codec, method) => Err(Error::unsupported(format!("compression codec {codec} with method {method}"))),
    }
}

/// Converts a length, which the format stores as i64 and which must not be negative.
pub(crate) fn length(what: &str, value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::invalid(format!("a {what} can't be negative, got {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: bytes read ahead counted as near, so messages up to 18 KiB apart were read whole.
    #[test]
    fn only_small_messages_are_read_with_the_bytes_between_them() {
        let bytes = Bytes::from(vec![0; 1 << 20]);
        for (distance, reads_whole) in [(700, true), (1500, true), (4000, false), (17_000, false)] {
            let mut window = Window::new();
            let mut read = 0;
            for at in (0..bytes.len() - 300).step_by(distance) {
                let start = window.start;
                window.get(&bytes, at, 8).unwrap();
                window.get(&bytes, at + 8, 200).unwrap();
                read += if window.start == start && at > 0 { 0 } else { window.bytes.len() };
            }
            assert_eq!(read > bytes.len() / 2, reads_whole, "{distance}: {read}");
        }
    }

    #[test]
    fn prefixes_end_a_stream_frame_a_message_or_are_truncated() {
        fn describe(bytes: &[u8]) -> String {
            let bytes = Bytes::from(bytes.to_vec());
            match find_message(&bytes, &mut Window::new(), 0) {
                Ok(NextMessage::Message(frame)) => format!("{} bytes at {}", frame.metadata_len, frame.metadata),
                Ok(NextMessage::End) => "end".into(),
                Ok(NextMessage::Zeros) => "zeros".into(),
                Err(e) => e.message().into(),
            }
        }

        let cases: &[(&[u8], &str)] = &[
            (&[], "end"),
            (&[255; 3], "truncated: the message at byte 0 has a prefix of 4 bytes, but only 3 follow"),
            (&[255; 4], "truncated: the message at byte 0 has 4 bytes of length, but only 0 follow"),
            (
                &[255, 255, 255, 255, 0, 0, 0],
                "truncated: the message at byte 0 has 4 bytes of length, but only 3 follow",
            ),
            (&END_OF_STREAM, "end"),
            (&[255; 8], "the message at byte 0 has a negative length of metadata"),
            (
                &[255, 255, 255, 255, 1, 0, 0, 0],
                "truncated: the message at byte 0 has 1 bytes of metadata, but only 0 follow",
            ),
            (&[255, 255, 255, 255, 1, 0, 0, 0, 7], "1 bytes at 8"),
            (&[0; 4], "zeros"),
            (&[0; 7], "zeros"),
            (&[2, 0, 0, 0, 7], "truncated: the message at byte 0 has 2 bytes of metadata, but only 1 follow"),
            (&[2, 0, 0, 0, 7, 7], "2 bytes at 4"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(describe(bytes), *expected, "{bytes:?}");
        }
    }
}
