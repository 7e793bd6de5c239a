//! [`BatchIndex`]: finds the batch of a row. Built on the first bulk lookup of a dataset, and cached.

use std::ops::Range;

use super::source::{BatchSlice, SourceSlice};
use crate::error::{Error, Result};

/// The batches of a dataset that have rows, with their row counts.
///
/// A lookup starts at the bucket of the row and searches the few batches of the bucket.
#[derive(Debug)]
pub(crate) struct BatchIndex {
    batches: Vec<IndexedBatch>,
    /// The row after each batch's last; strictly increasing.
    ends: Vec<u64>,
    /// The batch of each 2^`shift`th row.
    buckets: Vec<u32>,
    shift: u32,
}

/// The dataset's part of one batch.
#[derive(Debug)]
struct IndexedBatch {
    piece: u32,
    batch: u32,
    /// The first row inside the batch.
    first: usize,
}

impl BatchIndex {
    /// Finds all batches of `pieces`.
    ///
    /// # Errors
    /// `InvalidData` for more than 2^64 rows; `Unsupported` for more than 2^32 batches; errors of reading the pieces.
    pub(crate) fn build(pieces: &[SourceSlice]) -> Result<BatchIndex> {
        let mut batches = Vec::new();
        let mut ends = Vec::new();
        let mut end = 0u64;
        for (number, piece) in pieces.iter().enumerate() {
            for part in piece.parts() {
                let part = part?;
                if part.rows.is_empty() {
                    continue;
                }
                let (Ok(piece), Ok(batch)) = (u32::try_from(number), u32::try_from(part.batch)) else {
                    return Err(Error::unsupported("more than 2^32 batches"));
                };
                end = end.checked_add(part.rows.len() as u64).ok_or_else(|| Error::invalid("more than 2^64 rows"))?;
                batches.push(IndexedBatch { piece, batch, first: part.rows.start });
                ends.push(end);
            }
        }
        debug_assert!(ends.is_sorted_by(|a, b| a < b), "batches without rows are left out");
        assert!(ends.len() as u64 <= end, "{} batches with {end} rows", ends.len());

        // Makes at most as many buckets as batches.
        let shift = end.max(1).ilog2() + 1 - ends.len().max(1).ilog2();
        assert!(shift < u64::BITS, "{} batches with {end} rows", ends.len());
        let buckets = fill_buckets(&ends, end, shift);
        Ok(BatchIndex { batches, ends, buckets, shift })
    }

    /// Returns the number of rows in all batches.
    pub(crate) fn rows(&self) -> u64 {
        self.ends.last().map_or(0, |&end| end)
    }

    /// Returns the number of batches.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Finds the batch that holds row `row`; `None` past the last. Tries `hint` first.
    #[inline]
    pub(crate) fn locate(&self, row: u64, hint: usize) -> Option<usize> {
        if self.ends.get(hint).is_some_and(|&end| row < end) && row >= self.start(hint) {
            return Some(hint);
        }
        let bucket = usize::try_from(row >> self.shift).ok()?;
        let low = *self.buckets.get(bucket)? as usize;
        let high = self.buckets.get(bucket + 1).map_or(self.ends.len(), |&high| high as usize + 1);
        let number = low + self.ends.get(low..high)?.partition_point(|&end| end <= row);
        (number < self.ends.len()).then_some(number)
    }

    /// Returns the dataset's row at which batch `number` begins.
    #[inline]
    pub(crate) fn start(&self, number: usize) -> u64 {
        if number == 0 { 0 } else { self.ends[number - 1] }
    }

    /// Returns the part of batch `number` in the dataset, whose pieces are `pieces`.
    #[inline]
    pub(crate) fn part<'a>(&self, pieces: &'a [SourceSlice], number: usize) -> BatchSlice<'a> {
        let IndexedBatch { piece, batch, .. } = self.batches[number];
        BatchSlice { piece: &pieces[piece as usize], batch: batch as usize, rows: self.rows_of(number) }
    }

    /// Returns the rows of batch `number` that are in the dataset.
    #[inline]
    pub(crate) fn rows_of(&self, number: usize) -> Range<usize> {
        let first = self.batches[number].first;
        first..first + (self.ends[number] - self.start(number)) as usize
    }
}

/// Returns the batch of each 2^`shift`th of `rows` rows, for batches that end at `ends`.
fn fill_buckets(ends: &[u64], rows: u64, shift: u32) -> Vec<u32> {
    let mut batch = 0;
    let mut buckets = Vec::new();
    for bucket in 0..rows.div_ceil(1 << shift) {
        while ends[batch] <= bucket << shift {
            batch += 1;
        }
        buckets.push(batch as u32);
    }
    buckets
}
