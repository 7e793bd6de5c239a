//! Columns of numbers as bytes, straight from a batch's header. Who copies a million small batches would spend its time
//! and memory on arrays that nobody looks at again, so nothing is decoded here. Who gathers rows comes again, and finds
//! kept where the values lie.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::data::IpcData;
use super::decode::Batch;
use crate::array::is_trivial;
use crate::dataset::{Plain, Widths};
use crate::error::Result;
use crate::ipc::framing::{Node, length};

/// The most places that are kept: 32 MiB.
const MOST_OFFSETS: usize = 1 << 22;

/// Where the values of columns begin, as far as they were asked for: 8 bytes for each column of each batch, those of a
/// batch side by side, so that rows of many batches are found in few cache lines.
#[derive(Debug, Default)]
pub(super) struct ValueOffsets(OnceLock<Box<[AtomicU64]>>);

/// Where values begin in the file, and whether nulls are among them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ValueOffset {
    offset: usize,
    has_nulls: bool,
}

impl ValueOffsets {
    /// One for each column of batch `batch`; none where they would be too many.
    pub(super) fn of_batch(
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
    /// What is out of the ordinary.
    const NONE: u64 = 1;

    /// In a word that is neither 0, which is for what nobody has asked for, nor `NONE`.
    fn packed(self) -> u64 {
        (self.offset as u64 + 1) << 1 | u64::from(self.has_nulls)
    }

    fn unpacked(word: u64) -> Option<ValueOffset> {
        let offset = usize::try_from((word >> 1).checked_sub(1)?).ok()?;
        Some(ValueOffset { offset, has_nulls: word & 1 == 1 })
    }
}

/// A batch whose values are asked for as bytes.
pub(super) struct PlainBatch<'a> {
    pub data: &'a IpcData,
    /// What is kept of its columns; none where nothing is.
    pub kept: Option<&'a [AtomicU64]>,
    /// Its first rows, which are asked for.
    pub rows: usize,
}

impl<'a> PlainBatch<'a> {
    /// See [`Source::plain`](crate::dataset::Source::plain). The batch's header is asked for where a column's place is
    /// not kept.
    pub(super) fn columns(
        &self,
        columns: Widths<'_>,
        header: impl Fn() -> Result<Cow<'a, Batch>>,
        into: &mut Vec<Option<Plain<'a>>>,
    ) -> Result<()> {
        let mut known = None;
        for (column, width) in columns {
            let kept = self.kept.and_then(|kept| kept.get(column));
            // Relaxed: the word is all there is to it.
            let mut word = kept.map_or(0, |kept| kept.load(Ordering::Relaxed));
            if word == 0 {
                if known.is_none() {
                    known = Some(header()?);
                }
                let found = known.as_deref().and_then(|header| value_offset(self.data, header, column, width));
                word = found.map_or(ValueOffset::NONE, ValueOffset::packed);
                kept.inspect(|kept| kept.store(word, Ordering::Relaxed));
            }
            into.push(ValueOffset::unpacked(word).and_then(|ValueOffset { offset, has_nulls }| {
                let values = self.data.bytes.get(offset, self.rows.checked_mul(width)?)?;
                Some(Plain { values, has_nulls })
            }));
        }
        Ok(())
    }
}

/// `None` where anything is out of the ordinary: the decoder knows what to do, or what to say.
fn value_offset(data: &IpcData, batch: &Batch, column: usize, width: usize) -> Option<ValueOffset> {
    let node = data.schema.columns.get(column)?;
    let as_stored = batch.header.compression.is_none() && !data.schema.big_endian && !data.options.thorough;
    if !as_stored || !is_plain(node) {
        return None;
    }
    let (number, buffer) = batch.start_of(column)?;
    let &(len, nulls) = batch.header.nodes.get(number)?;
    if usize::try_from(len).ok()? != batch.header.rows || !(0..=len).contains(&nulls) {
        return None;
    }
    // The first buffer is the validity bitmap.
    let &(offset, len) = batch.header.buffers.get(buffer + 1)?;
    let offset = length("buffer offset", offset).ok()?;
    let len = length("buffer length", len).ok()?;
    let (body, body_len) = batch.body;
    let needed = batch.header.rows.checked_mul(width)?;
    let fits = needed <= len && offset.checked_add(len)? <= body_len;
    fits.then_some(ValueOffset { offset: body.checked_add(offset)?, has_nulls: nulls > 0 })
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
