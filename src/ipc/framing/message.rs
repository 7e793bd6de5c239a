//! Encapsulated messages: framing, headers, and their fields as plain numbers.
//!
//! ```text
//! 0xFFFFFFFF  i32 metadata length  metadata (flatbuffer, padded)  body
//! └─ absent before format 0.15 ─┘  └ read: copied, then parsed ┘  └ stays in place
//! ```
//! (Arrow Columnar Format, *Encapsulated message format*.)

use std::collections::HashMap;
use std::ops::Range;

use super::flatbuffer::{FlatTable, Vector};
use crate::array::Bytes;
use crate::error::{Error, Result};
use crate::parallel;

/// MetadataVersion V5, as the number in Schema.fbs.
pub(in crate::ipc) const V5: i16 = 4;
/// The oldest version whose record batches have today's shape.
const V4: i16 = 3;

pub(in crate::ipc) const CONTINUATION: u32 = u32::MAX;

/// The two framings of Arrow IPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// With a footer that says where the batches are: random access.
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
    /// Bytes of the flatbuffer with padding.
    pub metadata_len: usize,
}

impl MessageFrame {
    /// Whether the framing is that of formats before 0.15: no continuation marker.
    pub(crate) fn is_legacy(&self) -> bool {
        self.metadata == self.offset + 4
    }

    /// The first byte of the body.
    pub(crate) fn body(&self) -> usize {
        self.metadata + self.metadata_len
    }
}

/// What is at an offset of a stream.
pub(crate) enum NextMessage {
    Message(MessageFrame),
    /// The end-of-stream marker, or the end of the bytes between two messages.
    End,
    /// A single zero word: the end-of-stream marker before format 0.15, and bytes that were never written since.
    Zeros,
}

/// Reads small pieces of a file, many with one system call.
///
/// A walk over all messages spends its time waiting for these calls. Messages are often equally spaced, so after two
/// equal distances several threads read further pieces at that distance. A wrong guess costs only time: pieces are
/// looked up by offset.
#[derive(Debug)]
pub(crate) struct Window {
    at: usize,
    held: Vec<u8>,
    ahead: usize,
    /// The end of the last request.
    asked: usize,
    /// The largest piece requested so far.
    largest: usize,
    /// The offsets of the last two pieces read.
    last: [usize; 2],
    /// Whether to read ahead, because all messages are wanted.
    pub(crate) reads_on: bool,
    guessed: PrefetchedPieces,
}

/// Pieces of equal length at equal distances, read ahead.
#[derive(Debug, Default)]
struct PrefetchedPieces {
    start: usize,
    stride: usize,
    piece: usize,
    /// The bytes read by each job.
    data: Vec<Vec<u8>>,
}

/// The sizes in bytes of the smallest and the largest piece.
const PIECE: (usize, usize) = (512, 16 << 10);
/// Gaps of fewer bytes than this are read rather than skipped.
const NEAR: usize = 2 << 10;
/// The number of pieces read ahead at once, and the number that each thread takes.
const GUESSES: usize = 2048;
const GUESSES_PER_JOB: usize = 64;

impl Window {
    pub(crate) fn new() -> Window {
        // The first read covers schema, dictionaries and the first batch of most files; later ones are isolated.
        Window {
            at: 0,
            held: Vec::new(),
            ahead: 2048,
            asked: 0,
            largest: 0,
            last: [0; 2],
            reads_on: false,
            guessed: PrefetchedPieces::default(),
        }
    }

    /// Returns the `len` bytes at `at`, or an error if the bytes end before.
    pub(crate) fn get(&mut self, bytes: &Bytes, at: usize, len: usize) -> Result<&[u8]> {
        let before = std::mem::replace(&mut self.asked, at.saturating_add(len));
        let inside = at >= self.at && at.saturating_add(len) <= self.at + self.held.len();
        if inside {
            return Ok(&self.held[at - self.at..at - self.at + len]);
        }
        // Small messages close together are read at once. The parts of a message follow each other without a gap.
        let is_near = !self.held.is_empty() && at > before && at - before < NEAR;
        if self.reads_on && !is_near && self.guessed.find_message(at, len).is_none() {
            self.guess(bytes, at);
        }
        if let Some((job, range)) = self.guessed.find_message(at, len) {
            return Ok(&self.guessed.data[job][range]);
        }
        self.read(bytes, at, len.max(if is_near { PIECE.1 } else { self.ahead }), len)?;
        Ok(&self.held[..len])
    }

    /// Reads `ahead` bytes, or as many as there are, of which `len` are required.
    fn read(&mut self, bytes: &Bytes, at: usize, ahead: usize, len: usize) -> Result<()> {
        let room = bytes.len().saturating_sub(at);
        if len > room {
            let size = bytes.len();
            return Err(Error::invalid(format!(
                "truncated: {len} bytes of metadata at byte {at} end past the last of {size} bytes"
            )));
        }
        // Not kept on failure: half-filled bytes must not be found again.
        let mut fresh = std::mem::take(&mut self.held);
        fresh.resize(ahead.min(room), 0);
        bytes.read_at(at, &mut fresh)?;
        self.largest = self.largest.max(len);
        self.ahead = self.largest.next_multiple_of(PIECE.0).clamp(PIECE.0, PIECE.1);
        self.last = [self.last[1], at];
        (self.at, self.held) = (at, fresh);
        Ok(())
    }

    /// Reads ahead from `at` if it is as far from the last piece as that was from the one before.
    fn guess(&mut self, bytes: &Bytes, at: usize) {
        let [before, last] = self.last;
        let stride = at.saturating_sub(last);
        let piece = self.ahead;
        if stride <= piece || last.saturating_sub(before) != stride {
            return;
        }
        let count = (bytes.len().saturating_sub(at + piece) / stride).min(GUESSES);
        let read = |job: usize| {
            let mut data = vec![0; (count - job).min(GUESSES_PER_JOB) * piece];
            let pieces = data.chunks_exact_mut(piece).enumerate();
            let read = pieces.map(|(number, into)| bytes.read_at(at + (job + number) * stride, into));
            read.collect::<Result<()>>().map(|()| data)
        };
        let jobs = count / GUESSES_PER_JOB;
        let read = parallel::map(jobs, jobs << 20, |job| read(job * GUESSES_PER_JOB));
        if let Ok(data) = read.into_iter().collect::<Result<Vec<_>>>() {
            self.guessed = PrefetchedPieces { start: at, stride, piece, data };
            // The next guess begins where this one ends.
            let end = at + jobs * GUESSES_PER_JOB * stride;
            self.last = [end.saturating_sub(2 * stride), end.saturating_sub(stride)];
        }
    }
}

impl PrefetchedPieces {
    /// Returns the job that read the `len` bytes at `at`, and their range in its bytes.
    fn find_message(&self, at: usize, len: usize) -> Option<(usize, Range<usize>)> {
        let behind = at.checked_sub(self.start)?;
        let number = behind.checked_div(self.stride)?;
        let offset = behind % self.stride;
        let start = number % GUESSES_PER_JOB * self.piece + offset;
        let job = number / GUESSES_PER_JOB;
        let fits = offset.checked_add(len)? <= self.piece && start + len <= self.data.get(job)?.len();
        fits.then(|| (job, start..start + len))
    }
}

/// Looks at the length prefix at `offset`.
pub(crate) fn find_message(bytes: &Bytes, window: &mut Window, offset: usize) -> Result<NextMessage> {
    let room = bytes.len().saturating_sub(offset);
    if room == 0 {
        return Ok(NextMessage::End);
    }
    let word = |window: &mut Window, at: usize| -> Result<u32> {
        let raw: [u8; 4] = window.get(bytes, at, 4)?.try_into().unwrap_or_default();
        Ok(u32::from_le_bytes(raw))
    };
    let first = word(window, offset)?;
    let (metadata, len) = match first {
        CONTINUATION => (offset + 8, word(window, offset + 4)?),
        legacy => (offset + 4, legacy),
    };
    if len == 0 {
        return Ok(if first == CONTINUATION { NextMessage::End } else { NextMessage::Zeros });
    }
    let metadata_len = i32::try_from(len).ok().and_then(|len| usize::try_from(len).ok());
    match metadata_len {
        Some(metadata_len) if metadata_len <= bytes.len() - metadata => {
            Ok(NextMessage::Message(MessageFrame { offset, metadata, metadata_len }))
        }
        Some(len) => Err(Error::invalid(format!(
            "truncated: the message at byte {offset} has {len} bytes of metadata, but only {} follow",
            bytes.len() - metadata
        ))),
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
    /// The name in Message.fbs.
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

/// A message's own table.
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
        let version = message.i16(0)?;
        if !(V4..=V5).contains(&version) {
            return Err(Error::unsupported(format!(
                "metadata version V{} is not one of V4 and V5",
                i32::from(version) + 1
            )));
        }
        let kind = match message.u8(1)? {
            1 => MessageKind::Schema,
            2 => MessageKind::DictionaryBatch,
            3 => MessageKind::RecordBatch,
            4 => MessageKind::Tensor,
            5 => MessageKind::SparseTensor,
            other => return Err(Error::invalid(format!("a message's kind is a number from 1 to 5, got {other}"))),
        };
        let table = message.table(2)?;
        let table = table.ok_or_else(|| Error::invalid(format!("a {} message has no header", kind.name())))?;
        let body_len = length("body length", message.i64(3)?)?;
        Ok(MessageHeader { version, kind, table, body_len, message })
    }

    /// The message's own key-value metadata.
    pub(crate) fn custom_metadata(&self) -> Result<HashMap<String, String>> {
        let mut found = HashMap::new();
        for pair in self.message.tables(4)? {
            let pair = pair?;
            found.insert(pair.string(0)?.unwrap_or_default().into(), pair.string(1)?.unwrap_or_default().into());
        }
        Ok(found)
    }
}

/// A DictionaryBatch before its record batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DictionaryHeader<'a> {
    pub id: i64,
    pub is_delta: bool,
    pub data: FlatTable<'a>,
}

impl<'a> DictionaryHeader<'a> {
    pub(crate) fn parse(table: FlatTable<'a>) -> Result<DictionaryHeader<'a>> {
        let data = table.table(1)?.ok_or_else(|| Error::invalid("a dictionary batch has no record batch"))?;
        Ok(DictionaryHeader { id: table.i64(0)?, is_delta: table.bool(2)?, data })
    }
}

/// The number of rows of a RecordBatch table.
pub(crate) fn row_count(table: FlatTable<'_>) -> Result<usize> {
    length("number of rows", table.i64(0)?)
}

/// How bodies are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

impl Compression {
    /// The name of the codec.
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
        let pairs = |vector: Option<Vector<'_>>| -> Result<Vec<(i64, i64)>> {
            let Some(vector) = vector else { return Ok(Vec::new()) };
            // Headers of many small batches are read for little else: the vector must not grow step by step.
            let mut pairs = Vec::with_capacity(vector.len());
            for i in 0..vector.len() {
                pairs.push((vector.i64(i, 0)?, vector.i64(i, 8)?));
            }
            Ok(pairs)
        };
        let variadics = match table.vector(4, 8)? {
            Some(counts) => (0..counts.len()).map(|i| counts.i64(i, 0)).collect::<Result<_>>()?,
            None => Vec::new(),
        };
        Ok(BatchHeader {
            rows: row_count(table)?,
            nodes: pairs(table.vector(1, 16)?)?,
            buffers: pairs(table.vector(2, 16)?)?,
            variadics,
            compression: table.table(3)?.map(compression).transpose()?,
        })
    }
}

fn compression(table: FlatTable<'_>) -> Result<Compression> {
    match (table.u8(0)?, table.u8(1)?) {
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
    fn only_small_messages_are_read_with_what_lies_between() {
        let bytes = Bytes::from(vec![0; 1 << 20]);
        for (distance, reads_whole) in [(700, true), (1500, true), (4000, false), (17_000, false)] {
            let mut window = Window::new();
            let mut read = 0;
            for at in (0..bytes.len() - 300).step_by(distance) {
                let before = window.at;
                window.get(&bytes, at, 8).unwrap();
                window.get(&bytes, at + 8, 200).unwrap();
                read += if window.at == before && at > 0 { 0 } else { window.held.len() };
            }
            assert_eq!(read > bytes.len() / 2, reads_whole, "{distance}: {read}");
        }
    }
}
