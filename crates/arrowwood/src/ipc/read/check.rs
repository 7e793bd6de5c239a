//! Checks all of a file or stream: the footer against the messages, every message and every value. Findings have byte
//! offsets.
//!
//! Readers read as little as they can, and each fact from one place. The check compares all copies of a fact: the
//! schema in front and in the footer, the lengths in a block and in its message, null counts and bitmaps, the end of
//! one message and the start of the next.

use std::ops::{Range, RangeInclusive};

use super::source::IpcSource;
use crate::array::{UncheckedArray, check_null_counts};
use crate::dataset::Batches;
use crate::error::{Error, Findings, Result, none_if_corrupt};
use crate::ipc::framing::{
    BatchHeader, DictionaryHeader, FIRST_MESSAGE, FlatTable, Footer, FooterBlock, FooterBlocks, IpcSchema,
    MIN_ALIGNMENT, MessageHeader, MessageKind, NextMessage, PREFIX, Window, fields, find_message, first_message,
};
use crate::parallel;

/// The largest alignment of messages and bodies, in bytes.
const MAX_ALIGNMENT: usize = 64;
/// The number of batches checked between two reports of progress.
const BATCHES_PER_REPORT: usize = 64;
/// An estimate of the bytes of a value, to decide how many threads are worthwhile.
const VALUE_BYTES: usize = 4;

/// The sound part of a file or stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckSummary {
    /// The rows of all batches with a readable row count.
    pub rows: u64,
    pub batches: usize,
    /// The number of batches before the first bad one.
    pub good: usize,
    /// True if the schemas in front and in the footer are both readable and differ, so that neither can be trusted.
    pub is_disputed: bool,
}

impl IpcSource {
    /// Checks everything. The dataset should be opened as `thorough`.
    pub(crate) fn check_all(&self, findings: &mut Findings, progress: &mut dyn FnMut(u64, u64)) -> CheckSummary {
        let mut summary = match &self.data.footer {
            Some(footer) => self.check_footer(footer, findings),
            None => {
                if let Err(e) = self.count_until(u64::MAX) {
                    findings.error(None, &e);
                }
                let batches = self.entries.len();
                CheckSummary { rows: 0, batches, good: batches, is_disputed: false }
            }
        };
        for key in &self.data.schema.left_out {
            findings.note(None, format!("the metadata '{}' is not UTF-8, and is left out", key.escape_debug()));
        }
        let batches = summary.batches;
        for start in (0..batches).step_by(BATCHES_PER_REPORT) {
            progress(start as u64, batches as u64);
            self.check_batches(start..(start + BATCHES_PER_REPORT).min(batches), findings, &mut summary);
        }
        progress(batches as u64, batches as u64);
        assert!(summary.good <= batches, "{} good batches of {batches}", summary.good);
        summary
    }

    fn check_batches(&self, batches: Range<usize>, findings: &mut Findings, summary: &mut CheckSummary) {
        let columns = self.data.schema.columns.len();
        let headers: Vec<_> = batches.clone().map(|batch| self.check_header(batch)).collect();
        let rows: usize = headers.iter().flatten().sum();
        let bytes = rows.saturating_mul(VALUE_BYTES * columns);
        let checked = parallel::map(columns * headers.len(), bytes, |job| match headers[job / columns] {
            Ok(_) => self.checked_column(batches.start + job / columns, job % columns).map(drop),
            // The columns of a bad header are unknown.
            Err(_) => Ok(()),
        });

        for (number, header) in headers.iter().enumerate() {
            let batch = batches.start + number;
            let mut is_good = header.is_ok();
            let offset = self.batch_frame(batch).map(|frame| frame.offset as u64).ok();
            match header {
                Ok(rows) => summary.rows = summary.rows.saturating_add(*rows as u64),
                Err(e) => findings.error(offset, e),
            }
            for column in &checked[columns * number..columns * (number + 1)] {
                if let Err(e) = column {
                    is_good = false;
                    findings.error(offset, e);
                }
            }
            if !is_good {
                summary.good = summary.good.min(batch);
            }
        }
    }

    /// Checks the header of a batch, and returns its rows.
    fn check_header(&self, batch: usize) -> Result<usize> {
        let decoded = self.decoded(batch)?;
        check_buffer_offsets(&decoded.batch.header).map_err(|e| e.context(format_args!("batch {batch}")))?;
        Ok(decoded.batch.header.rows)
    }

    /// Checks the footer against the schema in front and the messages. The rows of the batches are still unknown.
    fn check_footer(&self, footer: &Footer, findings: &mut Findings) -> CheckSummary {
        let mut window = Window::new();
        let is_disputed = self.check_front(&mut window, findings);
        let mut messages = Vec::new();
        // The end of each record batch; past the file for a bad one.
        let mut ends = Vec::new();
        let mut dictionaries_are_good = true;
        for (blocks, kind) in
            [(&footer.dictionaries, MessageKind::DictionaryBatch), (&footer.batches, MessageKind::RecordBatch)]
        {
            for number in 0..blocks.len() {
                let offset = u64::try_from(blocks.block_at(number).offset).ok();
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
                        findings.error_in(offset, &format!("block {number} of the footer: "), &e);
                    }
                }
            }
        }

        assert_eq!(ends.len(), footer.batches.len(), "each record batch has an end");

        messages.sort_by_key(|range| range.start);
        let ordered_end = self.check_order(&messages, &mut window, findings);
        let good = ends.iter().take_while(|&&end| end <= ordered_end).count();
        let good = if dictionaries_are_good && !is_disputed { good } else { 0 };
        CheckSummary { rows: 0, batches: footer.batches.len(), good, is_disputed }
    }

    /// Returns true if the schema in front is readable and differs from the one in the footer.
    fn check_front(&self, window: &mut Window, findings: &mut Findings) -> bool {
        let (offset, schema) = match self.read_front(window) {
            Ok(front) => front,
            Err(e) => {
                let problem = match self.has_bare_schema() {
                    Ok(true) => return false,
                    Ok(false) => e,
                    Err(e) => e,
                };
                findings.error_in(FIRST_MESSAGE as u64, "the schema in front of the file: ", &problem);
                return false;
            }
        };
        if same_schema(&schema, &self.data.schema) {
            return false;
        }
        findings.damage(offset, "the schema in front of the file is not the one in its footer");
        true
    }

    /// Reads the schema in front. Also returns the offset of its message.
    fn read_front(&self, window: &mut Window) -> Result<(u64, IpcSchema)> {
        let frame = first_message(&self.data.bytes, window)?.ok_or_else(|| Error::invalid("no message"))?;
        let metadata = window.get(&self.data.bytes, frame.metadata, frame.metadata_len)?;
        Ok((frame.offset as u64, IpcSchema::parse_message(metadata)?))
    }

    /// Returns true if the schema message follows the magic without its length, as Polars writes it.
    fn has_bare_schema(&self) -> Result<bool> {
        /// The limit of bytes of a schema that is looked for.
        const MAX_SCHEMA: usize = 1 << 20;
        let len = self.data.bytes.len().saturating_sub(FIRST_MESSAGE).min(MAX_SCHEMA);
        let bytes = self.data.bytes.read_to_vec(FIRST_MESSAGE, len)?;
        let schema = IpcSchema::parse_message(&bytes);
        Ok(schema.is_ok_and(|schema| same_schema(&schema, &self.data.schema)))
    }

    /// Checks that a block has the lengths of its message, and returns the range of the message.
    fn check_block(
        &self,
        blocks: &FooterBlocks,
        number: usize,
        kind: MessageKind,
        window: &mut Window,
    ) -> Result<Range<usize>> {
        let frame = blocks.frame(number, &self.data.bytes, window)?;
        let FooterBlock { metadata_len, body_len, .. } = blocks.block_at(number);
        let message = self.data.read_summary(frame, window)?;
        if message.kind != kind {
            let expected = kind.name();
            let got = message.kind.name();
            return Err(Error::invalid(format!("expected a {expected}, got a {got}")));
        }
        let got = (message.end - frame.body()) as i64;
        if got != body_len {
            return Err(Error::invalid(format!("a body of {body_len} bytes, the message says {got}")));
        }
        if kind == MessageKind::DictionaryBatch {
            let metadata = window.get(&self.data.bytes, frame.metadata, frame.metadata_len)?;
            let dictionary = DictionaryHeader::parse(MessageHeader::parse(metadata)?.table)?;
            check_buffer_offsets(&BatchHeader::parse(dictionary.data)?)?;
        }

        // Some writers do not count the padding before the body in the message's prefix.
        let body = match find_message(&self.data.bytes, window, frame.offset)? {
            NextMessage::Message(unpadded) => unpadded.body(),
            _ => frame.body(),
        };
        if ![body, body.next_multiple_of(MIN_ALIGNMENT), body.next_multiple_of(MAX_ALIGNMENT)].contains(&frame.body()) {
            let got = body - frame.offset;
            return Err(Error::invalid(format!("metadata of {metadata_len} bytes, the message says {got}")));
        }
        Ok(frame.offset..message.end)
    }

    /// Checks that messages follow one another and that the footer lists all of them. Returns the first byte for which
    /// this fails, or the length of the file.
    fn check_order(&self, messages: &[Range<usize>], window: &mut Window, findings: &mut Findings) -> usize {
        let front = match none_if_corrupt(first_message(&self.data.bytes, window)) {
            Ok(front) => front.flatten(),
            Err(e) => {
                findings.error(None, &e);
                None
            }
        };

        let mut next = front.map_or(FIRST_MESSAGE, |frame| frame.body());
        let mut ordered_end = self.data.bytes.len();
        let end = self.data.bytes.len()..self.data.bytes.len();
        for range in messages.iter().cloned().chain(std::iter::once(end)) {
            if range.start < next {
                let message = format!("a message that the footer lists begins before byte {next}, where another ends");
                findings.damage(range.start as u64, message);
                ordered_end = ordered_end.min(range.start);
            }
            match self.find_unlisted(next, range.start, window) {
                Ok(None) => (),
                Ok(Some(offset)) => {
                    findings.damage(offset as u64, "a message that the footer doesn't list");
                    ordered_end = ordered_end.min(offset);
                }
                Err(e) => findings.error(None, &e),
            }
            next = next.max(range.end);
        }
        ordered_end
    }

    /// Returns the columns of a batch, if they are sound except, perhaps, for values of some rows.
    pub(crate) fn sound_columns(&self, batch: usize) -> Result<Vec<UncheckedArray>> {
        self.check_header(batch)?;
        let mut columns = Vec::with_capacity(self.data.schema.columns.len());
        for (number, node) in self.data.schema.columns.iter().enumerate() {
            self.resolver(batch, node)?.checked_dictionaries(node)?;
            let array = self.column(batch, number)?;
            check_null_counts(array)?;
            columns.push(array.clone());
        }
        Ok(columns)
    }

    /// Returns the offset of a message between two others, which end at `from` and begin at `to`; `None` if there is
    /// none.
    fn find_unlisted(&self, from: usize, to: usize, window: &mut Window) -> Result<Option<usize>> {
        let last = from.next_multiple_of(MAX_ALIGNMENT);
        for offset in (from.next_multiple_of(MIN_ALIGNMENT)..to).step_by(MIN_ALIGNMENT) {
            if offset > last || offset + PREFIX >= to {
                break;
            }
            let next = none_if_corrupt(find_message(&self.data.bytes, window, offset))?;
            let Some(NextMessage::Message(frame)) = next else { continue };
            if frame.is_legacy() {
                continue;
            }
            let message = none_if_corrupt(self.data.read_summary(frame, window))?;
            if message.is_some_and(|message| message.kind != MessageKind::Schema && message.end <= to) {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }
}

/// Checks that buffers are contiguous in the order of the columns, each at a multiple of some number: the only evidence
/// that the offset of a buffer of numbers is wrong. Files with most buffers elsewhere have another layout, which the
/// format allows.
fn check_buffer_offsets(header: &BatchHeader) -> Result<()> {
    /// The limit of misplaced buffers that are taken for damage rather than for another layout.
    const MAX_DAMAGED: usize = 2;
    /// The alignments that writers use, as powers of 2: from 8 bytes to 64 KiB.
    const ALIGNMENTS: RangeInclusive<u32> = 3..=16;
    let misplaced = ALIGNMENTS.map(|power| misplaced_buffers(header, 1 << power)).min_by_key(Vec::len);
    let Some(misplaced) = misplaced else { return Ok(()) };
    match misplaced.first() {
        Some(&first) if misplaced.len() <= MAX_DAMAGED => {
            let offset = header.buffers[first].0;
            Err(Error::invalid(format!("buffer {first} is at byte {offset} of the body, not after the one before it")))
        }
        _ => Ok(()),
    }
}

/// Returns the numbers of the buffers that are not at the next multiple of `alignment` after the one before them.
fn misplaced_buffers(header: &BatchHeader, alignment: i64) -> Vec<usize> {
    let mut misplaced = Vec::new();
    let mut end = 0i64;
    for (number, &(offset, len)) in header.buffers.iter().enumerate() {
        if len <= 0 {
            continue;
        }
        let expected = end.checked_add(alignment - 1).map_or(end, |last| last - last % alignment);
        if offset != expected {
            misplaced.push(number);
        }
        end = offset.saturating_add(len);
    }
    misplaced
}

/// Returns true if two schemas are equal, including the dictionary ids.
pub(crate) fn same_schema(a: &IpcSchema, b: &IpcSchema) -> bool {
    a.schema == b.schema && a.big_endian == b.big_endian && dictionary_ids(a) == dictionary_ids(b)
}

fn dictionary_ids(schema: &IpcSchema) -> Vec<i64> {
    let mut ids = Vec::new();
    for column in &schema.columns {
        column.dictionaries(&mut |id, _| ids.push(id));
    }
    ids
}

/// Reads the header of a record batch or dictionary batch. Also returns the length of its body and the dictionary's id.
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
    let schema = table.table(fields::footer::SCHEMA)?.ok_or_else(|| Error::invalid("the footer has no schema"))?;
    Ok(ParsedFooter {
        schema: IpcSchema::parse(schema, metadata.len())?,
        dictionaries: read_blocks(table, fields::footer::DICTIONARIES)?,
        batches: read_blocks(table, fields::footer::RECORD_BATCHES)?,
    })
}

fn read_blocks(footer: FlatTable<'_>, field: usize) -> Result<Vec<[i64; 3]>> {
    let blocks = FooterBlocks::parse(footer, field)?;
    let numbers = (0..blocks.len()).map(|number| {
        let FooterBlock { offset, metadata_len, body_len } = blocks.block_at(number);
        [offset, metadata_len, body_len]
    });
    Ok(numbers.collect())
}

/// Reads a schema that is the root of its buffer: several footers share it.
pub(crate) fn read_schema(metadata: &[u8]) -> Result<IpcSchema> {
    IpcSchema::parse(FlatTable::root(metadata)?, metadata.len())
}
