//! Encapsulated messages: framing, headers, and their fields as plain numbers.
//!
//! ```text
//! 0xFFFFFFFF  i32 metadata length  metadata (flatbuffer, padded)  body
//! └─ absent before format 0.15 ─┘  └ read: copied, then parsed ┘  └ stays in place
//! ```
//! (Arrow Columnar Format, *Encapsulated message format*.)

use std::collections::HashMap;

use super::flat::{Table, Vector};
use crate::buffer::Bytes;
use crate::error::{Error, Result};

/// MetadataVersion V5, as the number in Schema.fbs.
pub(super) const V5: i16 = 4;
/// The oldest version whose record batches have today's shape.
const V4: i16 = 3;

const CONTINUATION: u32 = u32::MAX;

/// Where a message stands in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The first byte of the message, at its length prefix.
    pub offset: usize,
    /// The first byte of the flatbuffer.
    pub metadata: usize,
    /// Bytes of the flatbuffer with padding.
    pub metadata_len: usize,
}

impl Frame {
    /// Whether the framing is that of formats before 0.15: no continuation marker.
    pub(crate) fn is_legacy(&self) -> bool {
        self.metadata == self.offset + 4
    }

    /// The first byte of the body.
    pub(crate) fn body(&self) -> usize {
        self.metadata + self.metadata_len
    }
}

/// What stands at an offset of a stream.
pub(crate) enum Found {
    Message(Frame),
    /// The end-of-stream marker, or the end of the bytes between two messages.
    End,
    /// A zero word alone: the end-of-stream marker before format 0.15; since then, bytes that were never written.
    Zeros,
}

/// Reads small pieces of a file, several of which often come with one system call.
#[derive(Debug)]
pub(crate) struct Window {
    at: usize,
    held: Vec<u8>,
    ahead: usize,
}

impl Window {
    pub(crate) fn new() -> Window {
        // The first look takes in schema, dictionaries and the first batch of most files; later ones are isolated.
        Window { at: 0, held: Vec::new(), ahead: 2048 }
    }

    /// The `len` bytes at `at`, or an error where the bytes end before.
    pub(crate) fn get(&mut self, bytes: &Bytes, at: usize, len: usize) -> Result<&[u8]> {
        let inside = at >= self.at && at.saturating_add(len) <= self.at + self.held.len();
        if !inside {
            let room = bytes.len().saturating_sub(at);
            if len > room {
                let size = bytes.len();
                return Err(Error::invalid(format!(
                    "truncated: {len} bytes of metadata at byte {at} end behind the {size} bytes there are"
                )));
            }
            // Not kept on failure: half-filled bytes must not be found again.
            let mut fresh = std::mem::take(&mut self.held);
            fresh.resize(len.max(self.ahead).min(room), 0);
            bytes.read_at(at, &mut fresh)?;
            (self.at, self.held, self.ahead) = (at, fresh, 512);
        }
        Ok(&self.held[at - self.at..at - self.at + len])
    }
}

/// Looks at the length prefix at `offset`.
pub(crate) fn find(bytes: &Bytes, window: &mut Window, offset: usize) -> Result<Found> {
    let room = bytes.len().saturating_sub(offset);
    if room == 0 {
        return Ok(Found::End);
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
        return Ok(if first == CONTINUATION { Found::End } else { Found::Zeros });
    }
    let metadata_len = i32::try_from(len).ok().and_then(|len| usize::try_from(len).ok());
    match metadata_len {
        Some(metadata_len) if metadata_len <= bytes.len() - metadata => {
            Ok(Found::Message(Frame { offset, metadata, metadata_len }))
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
pub enum Kind {
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

impl Kind {
    /// The name in Message.fbs.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Schema => "Schema",
            Kind::DictionaryBatch => "DictionaryBatch",
            Kind::RecordBatch => "RecordBatch",
            Kind::Tensor => "Tensor",
            Kind::SparseTensor => "SparseTensor",
        }
    }
}

/// A message's own table.
#[derive(Debug)]
pub(crate) struct Header<'a> {
    pub version: i16,
    pub kind: Kind,
    pub table: Table<'a>,
    pub body_len: usize,
    message: Table<'a>,
}

impl<'a> Header<'a> {
    pub(crate) fn parse(metadata: &'a [u8]) -> Result<Header<'a>> {
        let message = Table::root(metadata)?;
        let version = message.i16(0)?;
        if !(V4..=V5).contains(&version) {
            return Err(Error::unsupported(format!(
                "metadata version V{} is not one of V4 and V5",
                i32::from(version) + 1
            )));
        }
        let kind = match message.u8(1)? {
            1 => Kind::Schema,
            2 => Kind::DictionaryBatch,
            3 => Kind::RecordBatch,
            4 => Kind::Tensor,
            5 => Kind::SparseTensor,
            other => return Err(Error::invalid(format!("a message's kind is a number from 1 to 5, got {other}"))),
        };
        let table = message.table(2)?;
        let table = table.ok_or_else(|| Error::invalid(format!("a {} message has no header", kind.name())))?;
        let body_len = length("body length", message.i64(3)?)?;
        Ok(Header { version, kind, table, body_len, message })
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
    pub data: Table<'a>,
}

impl<'a> DictionaryHeader<'a> {
    pub(crate) fn parse(table: Table<'a>) -> Result<DictionaryHeader<'a>> {
        let data = table.table(1)?.ok_or_else(|| Error::invalid("a dictionary batch has no record batch"))?;
        Ok(DictionaryHeader { id: table.i64(0)?, is_delta: table.bool(2)?, data })
    }
}

/// The number of rows of a RecordBatch table.
pub(crate) fn rows_of(table: Table<'_>) -> Result<usize> {
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
#[derive(Debug)]
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
    pub(crate) fn parse(table: Table<'_>) -> Result<BatchHeader> {
        let pairs = |vector: Option<Vector<'_>>| -> Result<Vec<(i64, i64)>> {
            let Some(vector) = vector else { return Ok(Vec::new()) };
            (0..vector.len()).map(|i| Ok((vector.i64(i, 0)?, vector.i64(i, 8)?))).collect()
        };
        let variadics = match table.vector(4, 8)? {
            Some(counts) => (0..counts.len()).map(|i| counts.i64(i, 0)).collect::<Result<_>>()?,
            None => Vec::new(),
        };
        Ok(BatchHeader {
            rows: rows_of(table)?,
            nodes: pairs(table.vector(1, 16)?)?,
            buffers: pairs(table.vector(2, 16)?)?,
            variadics,
            compression: table.table(3)?.map(compression).transpose()?,
        })
    }
}

fn compression(table: Table<'_>) -> Result<Compression> {
    match (table.u8(0)?, table.u8(1)?) {
        (0, 0) => Ok(Compression::Lz4),
        (1, 0) => Ok(Compression::Zstd),
        (codec, method) => Err(Error::unsupported(format!("compression codec {codec} with method {method}"))),
    }
}

/// A length that the format writes as i64 and that must not be negative.
pub(crate) fn length(what: &str, value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::invalid(format!("a {what} can't be negative, got {value}")))
}
