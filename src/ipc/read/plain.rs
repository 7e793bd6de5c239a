//! Finds the values of columns of numbers from a batch's header, without decoding: arrays would take most of the time
//! and memory of copying a million small batches. Offsets are cached for repeated gathers.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::DataType;

use super::data::IpcData;
use super::decode::Batch;
use crate::array::is_trivial;
use crate::dataset::{ColumnWidths, FixedWidthValues};
use crate::error::Result;
use crate::ipc::framing::{Node, length};

/// The limit of cached offsets: 32 MiB.
const MOST_OFFSETS: usize = 1 << 22;

/// A cache of the offsets of columns' values: 8 bytes for each column of each batch, those of a batch side by side, so
/// that rows of many batches touch few cache lines.
#[derive(Debug, Default)]
pub(super) struct ValueOffsets(OnceLock<Box<[AtomicU64]>>);

/// The offset of values in the file, and whether there are nulls among them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ValueOffset {
    offset: usize,
    has_nulls: bool,
}

impl ValueOffsets {
    /// Returns one for each column of batch `batch`; none if they would be too many.
    pub(super) fn for_batch(
        &self,
        batch: usize,
        columns: usize,
        batches: impl FnOnce() -> usize,
    ) -> Option<&[AtomicU64]> {
        let made = || {
            let all = batches().saturating_mul(columns);
            (0..if all > MOST_OFFSETS { 0 } else { all }).map(|_| AtomicU64::new(0)).collect()
        };
        self.0.get_or_init(made).get(batch * columns..(batch + 1) * columns)
    }
}

impl ValueOffset {
    /// Marks a column that only the decoder can read.
    const NONE: u64 = 1;

    /// Set in every cached word, so that it is neither 0, which means not cached, nor `NONE`.
    fn packed(self) -> u64 {
        (self.offset as u64 + 1) << 1 | u64::from(self.has_nulls)
    }

    fn unpacked(word: u64) -> Option<ValueOffset> {
        let offset = usize::try_from((word >> 1).checked_sub(1)?).ok()?;
        Some(ValueOffset { offset, has_nulls: word & 1 == 1 })
    }
}

/// A batch whose values are read as bytes.
pub(super) struct PlainBatch<'a> {
    pub data: &'a IpcData,
    /// The cached offsets of its columns; empty if none are cached.
    pub kept: Option<&'a [AtomicU64]>,
}

impl<'a> PlainBatch<'a> {
    /// The first `rows` rows: see [`Source::plain`](crate::dataset::Source::plain). Reads the batch's header if a column's
    /// offset is not cached.
    pub(super) fn columns(
        &self,
        rows: usize,
        columns: ColumnWidths<'_>,
        header: impl Fn() -> Result<Cow<'a, Batch>>,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        let mut known = None;
        for (column, width) in columns {
            let kept = self.kept.and_then(|kept| kept.get(column));
            // Relaxed: the word depends on nothing else.
            let mut word = kept.map_or(0, |kept| kept.load(Ordering::Relaxed));
            if word == 0 {
                if known.is_none() {
                    known = Some(header()?);
                }
                word = known.as_deref().map_or(ValueOffset::NONE, |header| self.word(header, column, width));
                kept.inspect(|kept| kept.store(word, Ordering::Relaxed));
            }
            into.push(match ValueOffset::unpacked(word) {
                Some(found) => self.values(found, rows, width)?,
                None => None,
            });
        }
        Ok(())
    }

    /// See [`Source::stored_value`](crate::dataset::Source::stored_value). The first call finds the offsets of all columns, so that
    /// the header is read once.
    #[inline]
    pub(super) fn value(
        &self,
        (row, column, width): (usize, usize, usize),
        header: impl FnOnce() -> Result<Cow<'a, Batch>>,
    ) -> Option<&'a [u8]> {
        let word = self.kept?.get(column)?;
        if word.load(Ordering::Relaxed) == 0 {
            self.find_all(&*header().ok()?);
        }
        let found = ValueOffset::unpacked(word.load(Ordering::Relaxed)).filter(|found| !found.has_nulls)?;
        let start = found.offset.checked_add(row.checked_mul(width)?)?;
        self.data.bytes.get(start, width).ok()?
    }

    /// Caches the offsets of all columns of primitive types.
    #[cold]
    fn find_all(&self, header: &Batch) {
        let columns = self.data.schema.columns.iter().enumerate().zip(self.kept.unwrap_or_default());
        for ((column, node), kept) in columns.filter(|(_, kept)| kept.load(Ordering::Relaxed) == 0) {
            let Some(width) = node.data_type().primitive_width() else { continue };
            kept.store(self.word(header, column, width), Ordering::Relaxed);
        }
    }

    /// What is cached of a column.
    fn word(&self, header: &Batch, column: usize, width: usize) -> u64 {
        value_offset(self.data, header, column, width).map_or(ValueOffset::NONE, ValueOffset::packed)
    }

    #[inline]
    fn values(&self, found: ValueOffset, rows: usize, width: usize) -> Result<Option<FixedWidthValues<'a>>> {
        let Some(len) = rows.checked_mul(width) else { return Ok(None) };
        let values = self.data.bytes.get(found.offset, len)?;
        Ok(values.map(|values| FixedWidthValues { values, has_nulls: found.has_nulls }))
    }
}

/// `None` for anything unusual: the decoder reads it or reports it.
fn value_offset(data: &IpcData, batch: &Batch, column: usize, width: usize) -> Option<ValueOffset> {
    let mut node = data.schema.columns.get(column)?;
    let as_stored = batch.header.compression.is_none() && !data.schema.big_endian && !data.options.thorough;
    let (mut number, mut buffer) = batch.start_of(column)?;
    let mut rows = batch.header.rows;
    let mut has_nulls = has_nulls(batch, number, rows)?;
    // Lists of one length have no buffer but validity; their items are the next node.
    while let DataType::FixedSizeList(_, size) = node.data_type() {
        node = node.children.first()?;
        number += 1;
        buffer += 1;
        rows = rows.checked_mul(usize::try_from(*size).ok()?)?;
        has_nulls |= self::has_nulls(batch, number, rows)?;
    }
    if !as_stored || !is_plain(node) {
        return None;
    }
    // The first buffer is the validity bitmap.
    let &(offset, len) = batch.header.buffers.get(buffer + 1)?;
    let offset = length("buffer offset", offset).ok()?;
    let len = length("buffer length", len).ok()?;
    let (body, body_len) = batch.body;
    let needed = batch.header.rows.checked_mul(width)?;
    let fits = needed <= len && offset.checked_add(len)? <= body_len;
    fits.then_some(ValueOffset { offset: body.checked_add(offset)?, has_nulls })
}

/// Whether field node `number` of a batch declares nulls; `None` if it has not `rows` rows.
fn has_nulls(batch: &Batch, number: usize, rows: usize) -> Option<bool> {
    let &(len, nulls) = batch.header.nodes.get(number)?;
    (usize::try_from(len).ok()? == rows && (0..=len).contains(&nulls)).then_some(nulls > 0)
}

/// Whether a column has a bitmap and values that can be anything, or keys.
fn is_plain(node: &Node) -> bool {
    (node.dictionary.is_some() || is_trivial(node.data_type())) && node.layout.has_validity()
}

#[cfg(test)]
mod tests {
    use super::super::plain::ValueOffset;

    #[test]
    fn spots_fit_into_words() {
        for (offset, has_nulls) in [(0, false), (0, true), (1, false), (usize::MAX >> 2, true)] {
            let found = ValueOffset { offset, has_nulls };
            assert!(found.packed() > ValueOffset::NONE);
            assert_eq!(ValueOffset::unpacked(found.packed()), Some(found));
        }
        assert_eq!(ValueOffset::unpacked(ValueOffset::NONE), None);
    }
}
