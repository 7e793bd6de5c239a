//! The index of a dataset's batches by row: built on the first bulk lookup, and cached.

use std::ops::Range;

use super::source::{BatchSlice, SourceSlice};
use crate::error::{Error, Result};

/// The batches of a dataset that have rows, with their row counts.
#[derive(Debug)]
pub(crate) struct BatchIndex {
    batches: Vec<IndexedBatch>,
    /// The row after each batch's last.
    ends: Vec<u64>,
    /// The batch of each 2^`shift`th row: any row's batch is a few steps from there.
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
                end = end.saturating_add(part.rows.len() as u64);
                batches.push(IndexedBatch { piece, batch, first: part.rows.start });
                ends.push(end);
            }
        }
        let shift = (end.max(1).ilog2() + 1).saturating_sub(ends.len().max(1).ilog2());
        let mut index = BatchIndex { batches, ends, buckets: Vec::new(), shift };
        index.buckets = index.buckets();
        Ok(index)
    }

    fn buckets(&self) -> Vec<u32> {
        let mut batch = 0;
        let holder = |bucket: u64| {
            while self.ends[batch] <= bucket << self.shift {
                batch += 1;
            }
            batch as u32
        };
        (0..self.rows().div_ceil(1 << self.shift)).map(holder).collect()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The number of batches.
    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// The batch that holds row `row`; `None` past the last. Tries `hint` first.
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

    /// The dataset's row at which batch `number` begins.
    #[inline]
    pub(crate) fn start(&self, number: usize) -> u64 {
        if number == 0 { 0 } else { self.ends[number - 1] }
    }

    /// The part of batch `number` in the dataset, whose pieces are `pieces`.
    #[inline]
    pub(crate) fn part<'a>(&self, pieces: &'a [SourceSlice], number: usize) -> BatchSlice<'a> {
        let IndexedBatch { piece, batch, .. } = self.batches[number];
        BatchSlice { piece: &pieces[piece as usize], batch: batch as usize, rows: self.rows_of(number) }
    }

    /// The rows of batch `number` that are in the dataset.
    #[inline]
    pub(crate) fn rows_of(&self, number: usize) -> Range<usize> {
        let first = self.batches[number].first;
        first..first + (self.ends[number] - self.start(number)) as usize
    }
}
