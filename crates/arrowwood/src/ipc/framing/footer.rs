//! Reads the footer of an IPC file: the schema and the positions of the batches.

use std::ops::Range;
use std::sync::Arc;

use super::fields;
use super::flatbuffer::FlatTable;
use super::message::{END_OF_STREAM, MIN_ALIGNMENT, MessageFrame, NextMessage, PREFIX, Window, find_message};
use super::schema::{IpcSchema, SchemaCache};
use crate::array::Bytes;
use crate::dataset::PushedRows;
use crate::error::{Error, Result};

/// The first bytes of a file, and its last.
pub(in crate::ipc) const MAGIC: &[u8; 6] = b"ARROW1";

/// The first byte at which a file's first message may begin: most writers pad the magic to 8 bytes.
pub(in crate::ipc) const FIRST_MESSAGE: usize = 8;

/// The last byte at which a file's first message may begin: arrow-rs pads the magic to 64 bytes.
const LAST_FIRST_MESSAGE: usize = 64;

/// The number of bytes after a footer's flatbuffer: its length as i32, and the magic.
const TRAILER: usize = 4 + MAGIC.len();

/// The size in bytes of a `Block` of File.fbs.
const BLOCK: usize = 24;

/// Blocks of an IPC file, as its footer lists them.
#[derive(Debug)]
pub(in crate::ipc) struct Footer {
    pub(in crate::ipc) dictionaries: FooterBlocks,
    pub(in crate::ipc) batches: FooterBlocks,
    /// The content of [`ZONES`].
    pub(in crate::ipc) zones: Option<String>,
    /// The content of [`ROWS`]: the rows of each record batch.
    pub(in crate::ipc) rows: Option<Vec<u64>>,
    /// The content of [`TABLE`].
    pub(in crate::ipc) table: Option<PushedRows>,
}

/// The key of a dense segment's footer metadata that holds the zones of its blocks.
pub(crate) const ZONES: &str = "arrowwood.zones";

/// The key of the footer's own metadata that says how many rows the file's batches have, as in `1000x4096 1x17`: the
/// footer of the format doesn't, and a reader of a store would have to fetch each header to find a row.
pub(in crate::ipc) const ROWS: &str = "arrowwood.rows";

/// The key of the footer's own metadata that says which rows of which table an object of a store has.
pub(in crate::ipc) const TABLE: &str = "arrowwood.table";

/// The blocks of one kind, undecoded as in the footer: a file may have millions of them.
#[derive(Debug)]
pub(in crate::ipc) struct FooterBlocks(Vec<[u8; BLOCK]>);

/// A message as a footer describes it (File.fbs, `Block`). The numbers are unchecked.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ipc) struct FooterBlock {
    /// The first byte of the message.
    pub offset: i64,
    /// The length of prefix and metadata, with padding.
    pub metadata_len: i64,
    /// The length of the body.
    pub body_len: i64,
}

/// Reads the schema and the blocks of a file's footer, which is at the file's end: its flatbuffer, its length as i32,
/// the magic.
pub(in crate::ipc) fn read_footer(bytes: &Bytes, schema_cache: &SchemaCache) -> Result<(Arc<IpcSchema>, Footer)> {
    /// The number of bytes that are read at once from the end of a file; a longer footer takes another read.
    const TAIL: usize = 4096;
    /// The same for an object of a store. Its first answer, which tells the object's size, has as many bytes.
    const FETCHED_TAIL: usize = 64 << 10;
    let size = bytes.len();
    let tail_len = size.min(if bytes.fetch().is_some() { FETCHED_TAIL } else { TAIL });
    let tail = bytes.read_to_vec(size - tail_len, tail_len)?;
    let Some((rest, magic)) = tail.split_last_chunk::<{ MAGIC.len() }>() else { return Err(no_footer()) };
    let Some((rest, len)) = rest.split_last_chunk::<4>() else { return Err(no_footer()) };
    if magic != MAGIC || size < FIRST_MESSAGE + TRAILER {
        return Err(no_footer());
    }
    let len = i32::from_le_bytes(*len);
    let start = usize::try_from(len).ok().and_then(|len| (size - TRAILER).checked_sub(len));
    let start = start.filter(|&start| start >= FIRST_MESSAGE);
    let Some(start) = start else {
        return Err(Error::invalid(format!("the footer has a length of {len} bytes in a file of {size}")));
    };

    let len = size - TRAILER - start;
    let more;
    let metadata = match rest.len().checked_sub(len) {
        Some(at) => &rest[at..],
        None => {
            more = bytes.read_to_vec(start, len)?;
            &more
        }
    };

    let table = FlatTable::root(metadata)?;
    let schema = table.table(fields::footer::SCHEMA)?.ok_or_else(|| Error::invalid("the footer has no schema"))?;
    let schema = schema_cache.parse(schema, metadata.len())?;
    let dictionaries = FooterBlocks::parse(table, fields::footer::DICTIONARIES)?;
    let batches = FooterBlocks::parse(table, fields::footer::RECORD_BATCHES)?;
    check_is_single_file(bytes, &[&dictionaries, &batches], start)?;

    let rows = note(table, ROWS).and_then(|text| parse_rows_note(text, batches.len()));
    let zones = note(table, ZONES).map(Into::into);
    let table = note(table, TABLE).and_then(PushedRows::parse);
    Ok((schema, Footer { dictionaries, batches, zones, rows, table }))
}

fn no_footer() -> Error {
    Error::invalid(
        "truncated: an Arrow IPC file ends with its footer and 'ARROW1', this one does not; it may still be being \
         written, or cut off",
    )
}

/// Checks that the file does not consist of several files in a row. The footer at `start` would belong to the last one,
/// and its offsets would lead into the first.
fn check_is_single_file(bytes: &Bytes, blocks: &[&FooterBlocks], start: usize) -> Result<()> {
    /// The end of a file, and the beginning of another.
    const SEAM: &[u8; 12] = b"ARROW1ARROW1";
    /// The limit of bytes between the last message and the footer: the end marker, and padding.
    const PADDING: usize = END_OF_STREAM.len() + 64;

    let ends = blocks.iter().filter_map(|blocks| blocks.end_of_last());
    let gap = start.saturating_sub(ends.max().unwrap_or(start));
    // An object of a store would need another request. Reading its first batch fails, unless both files have the same
    // layout.
    if gap <= PADDING || bytes.fetch().is_some() {
        return Ok(());
    }

    // The gap is the number of bytes in front of the last file, give or take the padding.
    let from = (gap - PADDING).saturating_sub(SEAM.len() / 2);
    let searched = bytes.read_to_vec(from, (PADDING + SEAM.len()).min(bytes.len() - from))?;
    match searched.windows(SEAM.len()).position(|window| window == SEAM) {
        Some(offset) => Err(Error::invalid(format!(
            "another file begins at byte {}, and the footer is of the last one: open each by itself",
            from + offset + SEAM.len() / 2
        ))),
        None => Ok(()),
    }
}

/// Returns the footer's metadata under `key`. Other metadata there, readable or not, is ignored.
fn note<'a>(footer: FlatTable<'a>, key: &str) -> Option<&'a str> {
    let mut pairs = footer.tables(fields::footer::CUSTOM_METADATA).ok()?.filter_map(|pair| pair.ok());
    let is_wanted = |pair: &FlatTable<'_>| matches!(pair.string(fields::key_value::KEY), Ok(Some(name)) if name == key);
    pairs.find(is_wanted)?.string(fields::key_value::VALUE).ok()?
}

/// Parses the rows of each of `batches` batches; `None` for a text that doesn't list as many. The numbers are compared
/// with the batches' headers later.
fn parse_rows_note(text: &str, batches: usize) -> Option<Vec<u64>> {
    let mut batch_rows = Vec::new();
    for run in text.split_ascii_whitespace() {
        let (count, rows) = run.split_once('x')?;
        let count: usize = count.parse().ok().filter(|&count| count <= batches - batch_rows.len())?;
        batch_rows.resize(batch_rows.len() + count, rows.parse().ok()?);
        debug_assert!(batch_rows.len() <= batches, "more numbers of rows than batches");
    }
    (batch_rows.len() == batches).then_some(batch_rows)
}

/// Formats the rows of each batch as [`parse_rows_note`] parses them.
#[cfg(feature = "write")]
pub(in crate::ipc) fn rows_note(rows: &[u64]) -> String {
    let runs = rows.chunk_by(|a, b| a == b).map(|run| format!("{}x{}", run.len(), run[0]));
    runs.collect::<Vec<_>>().join(" ")
}

/// Returns the first message of a file; `None` if there is none where one may begin.
pub(in crate::ipc) fn first_message(bytes: &Bytes, window: &mut Window) -> Result<Option<MessageFrame>> {
    for offset in (FIRST_MESSAGE..=LAST_FIRST_MESSAGE).step_by(MIN_ALIGNMENT) {
        if let NextMessage::Message(frame) = find_message(bytes, window, offset)? {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}

impl Footer {
    /// Returns the rows of record batch `batch`, if the footer says them.
    pub(in crate::ipc) fn batch_rows(&self, batch: usize) -> Option<u64> {
        self.rows.as_ref()?.get(batch).copied()
    }

    /// Returns the frames of the schema's and the blocks' messages. Arbitrary bytes may lie between them.
    pub(in crate::ipc) fn frames(&self, bytes: &Bytes, window: &mut Window) -> Result<Vec<MessageFrame>> {
        let mut frames = Vec::with_capacity(1 + self.dictionaries.len() + self.batches.len());
        frames.extend(first_message(bytes, window)?);
        for blocks in [&self.dictionaries, &self.batches] {
            for number in 0..blocks.len() {
                frames.push(blocks.frame(number, bytes, window)?);
            }
        }
        frames.sort_by_key(|frame| frame.offset);
        frames.dedup();
        Ok(frames)
    }
}

impl FooterBlocks {
    pub(in crate::ipc) fn parse(footer: FlatTable<'_>, field: usize) -> Result<FooterBlocks> {
        let bytes = footer.vector(field, BLOCK)?.map_or(&[][..], |blocks| blocks.bytes());
        Ok(FooterBlocks(bytes.as_chunks().0.to_vec()))
    }

    pub(in crate::ipc) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the end of the last block's message; `None` if there is no block.
    fn end_of_last(&self) -> Option<usize> {
        let FooterBlock { offset, metadata_len, body_len } = self.block_at(self.len().checked_sub(1)?);
        usize::try_from(offset.checked_add(metadata_len)?.checked_add(body_len)?).ok()
    }

    /// Returns block number `number`; one of zeros, which is no message, past the last.
    pub(in crate::ipc) fn block_at(&self, number: usize) -> FooterBlock {
        self.0.get(number).map_or(FooterBlock::default(), |block| {
            let (words, _) = block.as_chunks::<8>();
            let [offset, metadata_len, body_len] = [0, 1, 2].map(|word| i64::from_le_bytes(words[word]));
            // The length in the middle is an i32, followed by padding.
            FooterBlock { offset, metadata_len: i64::from(metadata_len as i32), body_len }
        })
    }

    /// Returns the bytes of a block's message: its metadata, and its body if it has at most `max_body` bytes. `None` if
    /// they are not in a file of `size` bytes.
    pub(in crate::ipc) fn message_range(&self, number: usize, max_body: usize, size: usize) -> Option<Range<usize>> {
        let FooterBlock { offset, metadata_len, body_len } = self.block_at(number);
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(metadata_len).ok()?).filter(|&end| end <= size)?;
        let whole = end.checked_add(usize::try_from(body_len).ok()?);
        let whole = whole.filter(|&whole| whole <= size && whole - end <= max_body);
        Some(start..whole.unwrap_or(end))
    }

    /// Returns the frame of a block's message as the footer describes it, without reading the message.
    pub(in crate::ipc) fn unread_frame(&self, number: usize) -> Option<MessageFrame> {
        let FooterBlock { offset, metadata_len, .. } = self.block_at(number);
        let offset = usize::try_from(offset).ok()?;
        let metadata_len = usize::try_from(metadata_len).ok()?.checked_sub(PREFIX)?;
        Some(MessageFrame { offset, metadata: offset.checked_add(PREFIX)?, metadata_len })
    }

    /// Reads the frame of a block's message.
    pub(in crate::ipc) fn frame(&self, number: usize, bytes: &Bytes, window: &mut Window) -> Result<MessageFrame> {
        /// The limit of padding before the body that the message's own prefix may leave out. With more, a small message
        /// could claim a large part of the file.
        const MAX_PADDING: usize = 128;
        let FooterBlock { offset, metadata_len, .. } = self.block_at(number);
        if let (Ok(start), Ok(len)) = (usize::try_from(offset), usize::try_from(metadata_len))
            && let Some(body) = start.checked_add(len).filter(|&body| body <= bytes.len())
            && let NextMessage::Message(frame) = find_message(bytes, window, start)?
            && frame.body() <= body
            && body - frame.body() <= MAX_PADDING
        {
            return Ok(MessageFrame { metadata_len: body - frame.metadata, ..frame });
        }
        let size = bytes.len();
        Err(Error::invalid(format!(
            "block {number} of the footer: offset {offset} and metadata length {metadata_len} fit no message in a file \
             of {size} bytes"
        )))
    }
}
