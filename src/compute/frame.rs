//! A dataset's rows as numbers: which batch holds a row, and blocks of rows for threads to work on.

use std::ops::Range;

use arrow_data::ArrayData;

use super::blocks::BLOCK;
use crate::dataset::{Dataset, Part, Plain};
use crate::error::Result;

/// The batches of a dataset, counted.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    parts: Vec<Part<'a>>,
    /// The row after each batch's last.
    ends: Vec<u64>,
    /// The rows of a block.
    block: usize,
}

/// Rows of one batch: its number, and the rows inside it.
pub(super) type Span = (usize, Range<usize>);

impl<'a> Frame<'a> {
    pub(super) fn of(dataset: &'a Dataset) -> Result<Frame<'a>> {
        let parts = dataset.parts().collect::<Result<Vec<_>>>()?;
        let mut end = 0u64;
        let ends = parts.iter().map(|part| {
            end = end.saturating_add(part.rows.len() as u64);
            end
        });
        Ok(Frame { ends: ends.collect(), parts, block: BLOCK })
    }

    /// The same in blocks of `block` rows.
    pub(super) fn in_blocks_of(self, block: usize) -> Frame<'a> {
        Frame { block, ..self }
    }

    pub(super) fn rows(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    pub(super) fn num_parts(&self) -> usize {
        self.parts.len()
    }

    /// The batch that holds row `row`, and the row inside it; `None` past the last. `hint` is looked at first.
    #[inline]
    pub(super) fn locate(&self, row: u64, hint: usize) -> Option<(usize, usize)> {
        let inside = |number: usize| row >= self.start(number) && row < self.ends[number];
        let number = match hint < self.ends.len() && inside(hint) {
            true => hint,
            false => self.ends.partition_point(|&end| end <= row),
        };
        let part = self.parts.get(number)?;
        Some((number, part.rows.start + (row - self.start(number)) as usize))
    }

    #[inline]
    fn start(&self, number: usize) -> u64 {
        if number == 0 { 0 } else { self.ends[number - 1] }
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> usize {
        usize::try_from(self.rows().div_ceil(self.block as u64)).unwrap_or(usize::MAX)
    }

    /// The rows of a block.
    pub(super) fn block_rows(&self) -> usize {
        self.block
    }

    /// The row that block `block` begins with.
    pub(super) fn block_start(&self, block: usize) -> u64 {
        block as u64 * self.block as u64
    }

    /// Block `block`, batch by batch.
    pub(super) fn spans(&self, block: usize) -> impl Iterator<Item = Span> {
        let start = self.block_start(block);
        let end = start.saturating_add(self.block as u64);
        let first = self.ends.partition_point(|&end| end <= start);
        (first..self.parts.len()).take_while(move |&number| self.start(number) < end).filter_map(move |number| {
            let (before, part) = (self.start(number), &self.parts[number]);
            let inside = |row: u64| part.rows.len().min(row.saturating_sub(before) as usize);
            let (from, to) = (inside(start), inside(end));
            (from < to).then(|| (number, part.rows.start + from..part.rows.start + to))
        })
    }

    /// Column number `column` of the dataset in batch `number`, values checked.
    pub(super) fn checked(&self, number: usize, column: usize) -> Result<&'a ArrayData> {
        let part = &self.parts[number];
        part.checked(part.piece.columns[column])
    }

    /// Columns of fixed width, given with their widths, as bytes from the first row of batch `number` on; keys are not
    /// checked.
    pub(super) fn plain(
        &self,
        number: usize,
        columns: impl Iterator<Item = (usize, usize)>,
        into: &mut Vec<Option<Plain<'a>>>,
    ) -> Result<()> {
        let part = &self.parts[number];
        let mut own = columns.map(|(column, width)| (part.piece.columns[column], width));
        part.piece.source.plain(part.batch, &mut own, true, into)
    }

    /// The values that keys of column number `column` stand for, checked, where all batches are known to have the same.
    pub(super) fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        let Some(first) = self.parts.first() else { return Ok(None) };
        if !self.parts.last().is_some_and(|last| std::ptr::eq(first.piece, last.piece)) {
            return Ok(None);
        }
        first.piece.source.dictionary(first.piece.columns[column])
    }

    /// Column number `column` of the dataset in batch `number`, values not checked.
    pub(super) fn unchecked(&self, number: usize, column: usize) -> Result<&'a ArrayData> {
        let part = &self.parts[number];
        part.piece.source.column(part.batch, part.piece.columns[column])
    }
}
