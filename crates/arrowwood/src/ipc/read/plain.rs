//! Finds the values of columns of numbers from a batch's header, without decoding: arrays would take most of the time
//! and memory of copying a million small batches. Offsets are cached for repeated reads of scattered rows.

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
const MAX_OFFSETS: usize = 1 << 22;

/// A cache of the offsets of columns' values: 8 bytes for each column of each batch. The offsets of a batch are
/// adjacent, so that rows of many batches touch few cache lines.
///
/// A column's word is 0 until its offset is known: see [`ValueOffset::to_word`]. Any thread may find the offset and
/// store the word. All loads and stores are relaxed: threads that find the same offset store the same word, and a word
/// leads to no memory other than the file's bytes, which were there before.
#[derive(Debug, Default)]
pub(super) struct ValueOffsets(OnceLock<Box<[AtomicU64]>>);

/// The offset of a column's values in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ValueOffset {
    offset: usize,
    has_nulls: bool,
}

impl ValueOffsets {
    /// Returns the cached words of the columns of batch `batch`; `None` if all of them would take too much memory.
    pub(super) fn for_batch(
        &self,
        batch: usize,
        columns: usize,
        batches: impl FnOnce() -> usize,
    ) -> Option<&[AtomicU64]> {
        let words = self.0.get_or_init(|| {
            let all = batches().saturating_mul(columns);
            let count = if all <= MAX_OFFSETS { all } else { 0 };
            (0..count).map(|_| AtomicU64::new(0)).collect()
        });
        words.get(batch * columns..(batch + 1) * columns)
    }
}

impl ValueOffset {
    /// Marks a column that only the decoder can read.
    const NONE: u64 = 1;

    /// Packs the offset, plus one, and the flag into a word that is neither 0, which means not cached, nor `NONE`.
    fn to_word(self) -> u64 {
        debug_assert!((self.offset as u64) < u64::MAX >> 1, "an offset of {} doesn't fit into a word", self.offset);
        (self.offset as u64 + 1) << 1 | u64::from(self.has_nulls)
    }

    fn from_word(word: u64) -> Option<ValueOffset> {
        let offset = usize::try_from((word >> 1).checked_sub(1)?).ok()?;
        Some(ValueOffset { offset, has_nulls: word & 1 == 1 })
    }
}

/// A batch whose values are read as bytes.
pub(super) struct PlainBatch<'a> {
    pub data: &'a IpcData,
    /// The cached words of its columns; `None` if none are cached.
    pub cached: Option<&'a [AtomicU64]>,
}

impl<'a> PlainBatch<'a> {
    /// Appends the values of the first `rows` rows of each column to `into`: see
    /// [`Batches::fixed_width_values`](crate::dataset::Batches::fixed_width_values). Reads the batch's header if the
    /// offset of a column is not cached.
    pub(super) fn columns(
        &self,
        rows: usize,
        columns: ColumnWidths<'_>,
        header: impl Fn() -> Result<Cow<'a, Batch>>,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        let mut batch_header = None;
        for (column, width) in columns {
            let cached = self.cached.and_then(|words| words.get(column));
            let mut word = cached.map_or(0, |cached| cached.load(Ordering::Relaxed));
            if word == 0 {
                let header = match &batch_header {
                    Some(header) => header,
                    None => batch_header.insert(header()?),
                };
                word = self.find_word(header, column, width);
                if let Some(cached) = cached {
                    cached.store(word, Ordering::Relaxed);
                }
            }
            into.push(match ValueOffset::from_word(word) {
                Some(offset) => self.values(offset, rows, width)?,
                None => None,
            });
        }
        Ok(())
    }

    /// Returns the bytes of a value: see [`Batches::value_bytes`](crate::dataset::Batches::value_bytes). The first call
    /// finds the offsets of all columns, so that the header is read once.
    #[inline]
    pub(super) fn value(
        &self,
        row: usize,
        column: usize,
        width: usize,
        header: impl FnOnce() -> Result<Cow<'a, Batch>>,
    ) -> Option<&'a [u8]> {
        let words = self.cached?;
        let word = words.get(column)?;
        if word.load(Ordering::Relaxed) == 0 {
            self.find_all_words(words, &*header().ok()?);
        }
        let values = ValueOffset::from_word(word.load(Ordering::Relaxed)).filter(|values| !values.has_nulls)?;
        let start = values.offset.checked_add(row.checked_mul(width)?)?;
        self.data.bytes.get(start, width).ok()?
    }

    /// Caches the offsets of all columns of primitive types.
    #[cold]
    fn find_all_words(&self, words: &[AtomicU64], header: &Batch) {
        debug_assert_eq!(words.len(), self.data.schema.columns.len(), "a word for each column");
        for ((column, node), word) in self.data.schema.columns.iter().enumerate().zip(words) {
            if word.load(Ordering::Relaxed) != 0 {
                continue;
            }
            let Some(width) = node.data_type().primitive_width() else { continue };
            word.store(self.find_word(header, column, width), Ordering::Relaxed);
        }
    }

    /// Returns the word to cache for a column.
    fn find_word(&self, header: &Batch, column: usize, width: usize) -> u64 {
        value_offset(self.data, header, column, width).map_or(ValueOffset::NONE, ValueOffset::to_word)
    }

    #[inline]
    fn values(&self, offset: ValueOffset, rows: usize, width: usize) -> Result<Option<FixedWidthValues<'a>>> {
        let Some(len) = rows.checked_mul(width) else { return Ok(None) };
        let values = self.data.bytes.get(offset.offset, len)?;
        Ok(values.map(|values| FixedWidthValues { values, has_nulls: offset.has_nulls }))
    }
}

/// Finds the values of a column by its batch's header. Returns `None` for anything unusual, which the decoder reads or
/// reports.
fn value_offset(data: &IpcData, batch: &Batch, column: usize, width: usize) -> Option<ValueOffset> {
    let mut node = data.schema.columns.get(column)?;
    let as_stored = batch.header.compression.is_none() && !data.schema.big_endian && !data.options.thorough;
    let (mut number, mut buffer) = batch.column_start(column)?;
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
    let body = batch.body;
    let needed = batch.header.rows.checked_mul(width)?;
    let fits = needed <= len && offset.checked_add(len)? <= body.len;
    fits.then_some(ValueOffset { offset: body.offset.checked_add(offset)?, has_nulls })
}

/// Returns true if field node `number` of a batch declares nulls; `None` if it does not have `rows` rows.
fn has_nulls(batch: &Batch, number: usize, rows: usize) -> Option<bool> {
    let &(len, nulls) = batch.header.nodes.get(number)?;
    (usize::try_from(len).ok()? == rows && (0..=len).contains(&nulls)).then_some(nulls > 0)
}

/// Returns true if a column has a bitmap and values without constraints, or keys.
fn is_plain(node: &Node) -> bool {
    (node.dictionary.is_some() || is_trivial(node.data_type())) && node.layout.has_validity()
}

#[cfg(test)]
mod tests {
    use super::ValueOffset;

    #[test]
    fn offsets_fit_into_words() {
        for (offset, has_nulls) in [(0, false), (0, true), (1, false), (usize::MAX >> 2, true)] {
            let value_offset = ValueOffset { offset, has_nulls };
            assert!(value_offset.to_word() > ValueOffset::NONE);
            assert_eq!(ValueOffset::from_word(value_offset.to_word()), Some(value_offset));
        }
        assert_eq!(ValueOffset::from_word(ValueOffset::NONE), None);
    }
}
