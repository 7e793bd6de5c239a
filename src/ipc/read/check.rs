//! Checks all of a file or stream: the footer against the messages, every message and every value. Findings have their
//! byte.
//!
//! A reader reads as little as it can, and each fact in one place. The check compares what is stored twice: the schema
//! in front and in the footer, the lengths in a block and in its message, null counts and bitmaps, the end of one
//! message and the start of the next.

use std::ops::Range;

use super::source::IpcSource;
use crate::array::{UncheckedArray, check_null_counts};
use crate::dataset::Batches;
use crate::error::{Error, Findings, Result, none_if_corrupt};
use crate::ipc::framing::{
    BatchHeader, DictionaryHeader, FlatTable, Footer, FooterBlocks, IpcSchema, MessageHeader, MessageKind, NextMessage,
    Node, Window, find_message, first_message,
};
use crate::parallel;

/// The largest alignment of messages, in bytes.
const ALIGNMENT: usize = 64;
/// Number of batches checked between two reports of progress.
const STEP: usize = 64;

/// The sound part of a file or stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckSummary {
    /// Rows of all batches whose row count can be read.
    pub rows: u64,
    pub batches: usize,
    /// Number of batches before the first bad one.
    pub good: usize,
    /// Whether the schemas in front and in the footer are both readable and differ, so that neither can be trusted.
    pub is_disputed: bool,
}

impl IpcSource {
    /// Checks everything. The dataset should be opened as `thorough`.
    pub(crate) fn check_all(&self, found: &mut Findings, progress: &mut dyn FnMut(u64, u64)) -> CheckSummary {
        let mut sound = match &self.data.footer {
            Some(footer) => self.check_footer(footer, found),
            None => {
                if let Err(e) = self.count_until(u64::MAX) {
                    found.error(None, &e);
                }
                let batches = self.entries.len();
                CheckSummary { rows: 0, batches, good: batches, is_disputed: false }
            }
        };
        for key in &self.data.schema.left_out {
            found.note(None, format!("the metadata '{}' is not UTF-8, and is left out", key.escape_debug()));
        }
        let batches = sound.batches;
        for start in (0..batches).step_by(STEP) {
            progress(start as u64, batches as u64);
            self.check_batches(start..(start + STEP).min(batches), found, &mut sound);
        }
        progress(batches as u64, batches as u64);
        sound
    }

    fn check_batches(&self, batches: Range<usize>, found: &mut Findings, sound: &mut CheckSummary) {
        let columns = self.data.schema.columns.len();
        let headers: Vec<_> = batches.clone().map(|batch| self.check_header(batch)).collect();
        let rows: usize = headers.iter().flatten().sum();
        // The columns of a bad header are unknown.
        let check = |job: usize| match headers[job / columns] {
            Ok(_) => self.checked_column(batches.start + job / columns, job % columns).map(drop),
            Err(_) => Ok(()),
        };
        let checked = parallel::map(columns * headers.len(), rows.saturating_mul(4 * columns), check);
        for (number, header) in headers.iter().enumerate() {
            let batch = batches.start + number;
            let mut is_good = header.is_ok();
            let at = self.frame_of(batch).map(|frame| frame.offset as u64).ok();
            match header {
                Ok(rows) => sound.rows = sound.rows.saturating_add(*rows as u64),
                Err(e) => found.error(at, e),
            }
            for e in checked[columns * number..columns * (number + 1)].iter().filter_map(|done| done.as_ref().err()) {
                is_good = false;
                found.error(at, e);
            }
            if !is_good {
                sound.good = sound.good.min(batch);
            }
        }
    }

    /// Returns the rows of a batch with a sound header.
    fn check_header(&self, batch: usize) -> Result<usize> {
        let decoded = self.decoded(batch)?;
        check_places(&decoded.batch.header).map_err(|e| e.context(format_args!("batch {batch}")))?;
        Ok(decoded.batch.header.rows)
    }

    fn check_footer(&self, footer: &Footer, found: &mut Findings) -> CheckSummary {
        let mut window = Window::new();
        let is_disputed = self.check_front(&mut window, found);
        let mut messages = Vec::new();
        let mut ends = Vec::new();
        let mut dictionaries_are_good = true;
        for (blocks, kind) in
            [(&footer.dictionaries, MessageKind::DictionaryBatch), (&footer.batches, MessageKind::RecordBatch)]
        {
            for number in 0..blocks.len() {
                let at = u64::try_from(blocks.block_at(number)[0]).ok();
                match self.check_block(blocks, number, kind, &mut window) {
                    Ok(range) => {
                        ends.extend((kind == MessageKind::RecordBatch).then_some(range.end));
                        messages.push(range);
                    }
                    // A missing record batch is reported with its values.
                    Err(_) if kind == MessageKind::RecordBatch && self.decoded(number).is_err() => {
                        ends.push(usize::MAX)
                    }
                    Err(e) => {
                        dictionaries_are_good &= kind == MessageKind::RecordBatch;
                        ends.extend((kind == MessageKind::RecordBatch).then_some(usize::MAX));
                        found.error_in(at, &format!("block {number} of the footer: "), &e);
                    }
                }
            }
        }
        messages.sort_by_key(|range| range.start);
        let ordered = self.check_order(&messages, &mut window, found);
        let good = ends.iter().take_while(|&&end| end <= ordered).count();
        let good = if dictionaries_are_good && !is_disputed { good } else { 0 };
        CheckSummary { rows: 0, batches: footer.batches.len(), good, is_disputed }
    }

    /// Whether the schema in front is readable and differs from that of the footer.
    fn check_front(&self, window: &mut Window, found: &mut Findings) -> bool {
        let in_front = || -> Result<(u64, bool)> {
            let frame = first_message(&self.data.bytes, window)?.ok_or_else(|| Error::invalid("no message"))?;
            let metadata = window.get(&self.data.bytes, frame.metadata, frame.metadata_len)?;
            Ok((frame.offset as u64, same_schema(&IpcSchema::parse_message(metadata)?, &self.data.schema)))
        };
        match { in_front }() {
            Ok((_, true)) => return false,
            Ok((at, false)) => found.damage(at, "the schema in front of the file is not the one in its footer"),
            Err(e) => {
                match self.has_bare_schema() {
                    Ok(true) => (),
                    seen => found.error_in(8, "the schema in front of the file: ", &seen.err().unwrap_or(e)),
                }
                return false;
            }
        }
        true
    }

    /// Whether the schema message follows the magic without its length, as Polars writes it.
    fn has_bare_schema(&self) -> Result<bool> {
        let mut bytes = vec![0; self.data.bytes.len().saturating_sub(8).min(1 << 20)];
        self.data.bytes.read_at(8, &mut bytes)?;
        let schema = IpcSchema::parse_message(&bytes);
        Ok(schema.is_ok_and(|schema| same_schema(&schema, &self.data.schema)))
    }

    /// Returns the range of a block's message, whose lengths must be those of the block.
    fn check_block(
        &self,
        blocks: &FooterBlocks,
        number: usize,
        kind: MessageKind,
        window: &mut Window,
    ) -> Result<Range<usize>> {
        let frame = blocks.frame(number, &self.data.bytes, window)?;
        let [_, metadata_len, body_len] = blocks.block_at(number);
        let seen = self.data.read_summary(frame, window)?;
        if seen.kind != kind {
            let expected = kind.name();
            let got = seen.kind.name();
            return Err(Error::invalid(format!("expected a {expected}, got a {got}")));
        }
        let got = (seen.end - frame.body()) as i64;
        if got != body_len {
            return Err(Error::invalid(format!("a body of {body_len} bytes, the message says {got}")));
        }
        if kind == MessageKind::DictionaryBatch {
            let metadata = window.get(&self.data.bytes, frame.metadata, frame.metadata_len)?;
            check_places(&BatchHeader::parse(DictionaryHeader::parse(MessageHeader::parse(metadata)?.table)?.data)?)?;
        }
        // Some writers do not count the padding before the body in the message's prefix.
        let body = match find_message(&self.data.bytes, window, frame.offset)? {
            NextMessage::Message(own) => own.body(),
            _ => frame.body(),
        };
        if frame.body() != body && frame.body() != body.next_multiple_of(8) && frame.body() != body.next_multiple_of(64)
        {
            let own = body - frame.offset;
            return Err(Error::invalid(format!("metadata of {metadata_len} bytes, the message says {own}")));
        }
        Ok(frame.offset..seen.end)
    }

    /// Checks that messages follow one another and that the footer lists all of them. Returns the byte up to which that
    /// is so.
    fn check_order(&self, messages: &[Range<usize>], window: &mut Window, found: &mut Findings) -> usize {
        let front = none_if_corrupt(first_message(&self.data.bytes, window)).unwrap_or_else(|e| {
            found.error(None, &e);
            None
        });
        let mut next = front.flatten().map_or(8, |frame| frame.body());
        let mut ordered = self.data.bytes.len();
        let end = self.data.bytes.len()..self.data.bytes.len();
        for range in messages.iter().cloned().chain(std::iter::once(end)) {
            if range.start < next {
                let message = format!("a message that the footer lists begins before byte {next}, where another ends");
                found.damage(range.start as u64, message);
                ordered = ordered.min(range.start);
            }
            match self.unlisted(next, range.start, window) {
                Ok(None) => (),
                Ok(Some(at)) => {
                    found.damage(at as u64, "a message that the footer doesn't list");
                    ordered = ordered.min(at);
                }
                Err(e) => found.error(None, &e),
            }
            next = next.max(range.end);
        }
        ordered
    }

    /// Returns the columns of a batch that are sound but, perhaps, for values of some rows.
    pub(crate) fn sound_columns(&self, batch: usize) -> Result<Vec<UncheckedArray>> {
        self.check_header(batch)?;
        let column = |(number, node): (usize, &Node)| {
            self.resolver(batch, node)?.checked(node)?;
            let array = self.column(batch, number)?;
            check_null_counts(array)?;
            Ok(array.clone())
        };
        self.data.schema.columns.iter().enumerate().map(column).collect()
    }

    /// Reports a message between two others, or after the last.
    fn unlisted(&self, from: usize, to: usize, window: &mut Window) -> Result<Option<usize>> {
        let places = (from.next_multiple_of(8)..to).step_by(8).take_while(|&at| at <= from.next_multiple_of(ALIGNMENT));
        for at in places.filter(|&at| at + 8 < to) {
            let Some(NextMessage::Message(frame)) = none_if_corrupt(find_message(&self.data.bytes, window, at))? else {
                continue;
            };
            if frame.is_legacy() {
                continue;
            }
            let seen = none_if_corrupt(self.data.read_summary(frame, window))?;
            if seen.is_some_and(|seen| seen.kind != MessageKind::Schema && seen.end <= to) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

/// Checks that buffers are contiguous in the order of the columns, each at a multiple of some number: the only evidence
/// that the offset of a buffer of numbers is wrong. Files with most buffers elsewhere have another layout, which the
/// format allows.
fn check_places(header: &BatchHeader) -> Result<()> {
    let places = || header.buffers.iter().enumerate().filter(|(_, (_, len))| *len > 0);
    let odd = |alignment: i64| {
        let mut next = 0i64;
        let odd = places().filter(|&(_, &(at, len))| {
            let expected = next.checked_add(alignment - 1).map_or(next, |last| last - last % alignment);
            next = at.saturating_add(len);
            at != expected
        });
        odd.map(|(number, _)| number).collect::<Vec<_>>()
    };
    let best = (3..=16).map(|bits| odd(1 << bits)).min_by_key(Vec::len).unwrap_or_default();
    match best[..] {
        [] => Ok(()),
        [first, ..] if best.len() <= 2 => {
            let at = header.buffers[first].0;
            Err(Error::invalid(format!("buffer {first} is at byte {at} of the body, not after the one before it")))
        }
        _ => Ok(()),
    }
}

/// Whether two schemas are equal, dictionary ids included.
pub(crate) fn same_schema(a: &IpcSchema, b: &IpcSchema) -> bool {
    let ids = |schema: &IpcSchema| {
        let mut ids = Vec::new();
        schema.columns.iter().for_each(|column| column.dictionaries(&mut |id, _| ids.push(id)));
        ids
    };
    a.schema == b.schema && a.big_endian == b.big_endian && ids(a) == ids(b)
}

/// Reads a record batch or dictionary batch message as numbers. Returns also the length of its body and the
/// dictionary's id.
pub(crate) fn read_batch(metadata: &[u8]) -> Result<(BatchHeader, usize, Option<i64>)> {
    let header = MessageHeader::parse(metadata)?;
    match header.kind {
        MessageKind::RecordBatch => Ok((BatchHeader::parse(header.table)?, header.body_len, None)),
        MessageKind::DictionaryBatch => {
            let dictionary = DictionaryHeader::parse(header.table)?;
            if dictionary.is_delta {
                return Err(Error::invalid("expected a whole dictionary, got a delta"));
            }
            Ok((BatchHeader::parse(dictionary.data)?, header.body_len, Some(dictionary.id)))
        }
        other => Err(Error::invalid(format!("expected a batch, got a {}", other.name()))),
    }
}

/// A footer as numbers: for each block offset, length of prefix and metadata, and length of the body.
pub(crate) struct ParsedFooter {
    pub schema: IpcSchema,
    pub dictionaries: Vec<[i64; 3]>,
    pub batches: Vec<[i64; 3]>,
}

/// Reads a footer's flatbuffer.
pub(crate) fn read_footer(metadata: &[u8]) -> Result<ParsedFooter> {
    let table = FlatTable::root(metadata)?;
    let schema = table.table(1)?.ok_or_else(|| Error::invalid("the footer has no schema"))?;
    let places = |field: usize| -> Result<Vec<[i64; 3]>> {
        let blocks = FooterBlocks::parse(table, field)?;
        Ok((0..blocks.len()).map(|number| blocks.block_at(number)).collect())
    };
    Ok(ParsedFooter {
        schema: IpcSchema::parse(schema, metadata.len())?,
        dictionaries: places(2)?,
        batches: places(3)?,
    })
}

/// Reads a schema that is a buffer's root, as footers share it.
pub(crate) fn read_schema(metadata: &[u8]) -> Result<IpcSchema> {
    IpcSchema::parse(FlatTable::root(metadata)?, metadata.len())
}
