//! A dataset's rows by number: the batch of each row, and blocks of rows for threads.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow_data::ArrayData;

use crate::array::UncheckedArray;
use crate::dataset::{BatchIndex, BatchSlice, Dataset, FixedWidthValues, SourceSlice};
use crate::error::{Error, Result};
use crate::types::is_text_or_binary;

/// The rows of a block.
pub(super) const BLOCK: usize = 1 << 16;
/// Batches that a thread finds at once.
pub(super) const AT_ONCE: usize = 1 << 10;

/// The cost of a random access, in bytes read sequentially in the same time.
pub(super) const ANYWHERE: usize = 64;

/// A dataset's batches, with their row counts, in blocks.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pieces: &'a [SourceSlice],
    index: &'a BatchIndex,
    /// The rows of a block.
    block: usize,
    /// The dataset of which this is a part, as a condition leaves it over.
    whole: Option<&'a Dataset>,
    /// The rows of which those asked about are a part.
    ranks: Option<&'a dyn RowRanks>,
    /// Orders of values by the number of their column.
    orders: &'a [(usize, Box<dyn ValueOrder>)],
}

/// The order of a column's values, where it is not that of their bytes.
pub(super) trait ValueOrder: Debug + Send + Sync {
    /// Bytes that have the order of the value of row `row` of `array`; `None` for null.
    fn sort_key(&self, array: &ArrayData, row: usize) -> Result<Option<&[u8]>>;
}

/// A set of rows that tells how many of them there are before another.
pub(super) trait RowRanks: Debug + Send + Sync {
    fn rank(&self, row: u64) -> u64;
}

/// Rows of one batch: its number, and the rows inside it.
pub(super) type BatchSpan = (usize, Range<usize>);

impl<'a> Frame<'a> {
    pub(super) fn try_new(dataset: &'a Dataset) -> Result<Frame<'a>> {
        let index = dataset.index()?;
        Ok(Frame { pieces: dataset.pieces(), index, block: BLOCK, whole: None, ranks: None, orders: &[] })
    }

    /// The frame of some rows of `whole`, for errors that name one of them.
    pub(super) fn for_part(dataset: &'a Dataset, whole: &'a Dataset) -> Result<Frame<'a>> {
        Ok(Frame { whole: Some(whole), ..Frame::try_new(dataset)? })
    }

    /// The same, whose rows errors number as rows of a set of them.
    pub(super) fn with_ranks(self, ranks: Option<&'a dyn RowRanks>) -> Frame<'a> {
        Frame { ranks, ..self }
    }

    /// The same with the orders of some columns' values.
    pub(super) fn with_orders(self, orders: &'a [(usize, Box<dyn ValueOrder>)]) -> Frame<'a> {
        Frame { orders, ..self }
    }

    /// The order of the values of column number `column`, where it is not that of their bytes.
    pub(super) fn value_order(&self, column: usize) -> Option<&'a dyn ValueOrder> {
        self.orders.iter().find(|(known, _)| *known == column).map(|(_, order)| order.as_ref())
    }

    /// The same in blocks of `block` rows.
    pub(super) fn with_block_rows(self, block: usize) -> Frame<'a> {
        Frame { block, ..self }
    }

    pub(super) fn num_rows(&self) -> u64 {
        self.index.rows()
    }

    /// The number of batches.
    pub(super) fn num_parts(&self) -> usize {
        self.index.len()
    }

    /// The batch that holds row `row`, and the row inside it; `None` past the last. Tries `hint` first.
    #[inline]
    pub(super) fn locate(&self, row: u64, hint: usize) -> Option<(usize, usize)> {
        let number = self.index.locate(row, hint)?;
        Some((number, self.index.rows_of(number).start + (row - self.index.start(number)) as usize))
    }

    /// The batch that holds row `row`; `None` past the last.
    #[inline]
    pub(super) fn part_at(&self, row: u64) -> Option<usize> {
        self.index.locate(row, usize::MAX)
    }

    /// The dataset's row at which batch `number` begins.
    #[inline]
    pub(super) fn start(&self, number: usize) -> u64 {
        self.index.start(number)
    }

    /// The rows of batch `number` that are in the dataset.
    pub(super) fn rows_of(&self, number: usize) -> Range<usize> {
        self.index.rows_of(number)
    }

    /// The number of row `row` of batch `number` in the dataset, or in the one of which this is a part, or among the rows of
    /// which those asked about are.
    pub(super) fn original_row(&self, number: usize, row: usize) -> Result<u64> {
        let row = self.row_of_part(number, row)?;
        Ok(self.ranks.map_or(row, |ranks| ranks.rank(row)))
    }

    /// The number of row `row` of batch `number` in the dataset.
    pub(super) fn row_number(&self, number: usize, row: usize) -> u64 {
        self.start(number) + row.saturating_sub(self.rows_of(number).start) as u64
    }

    fn row_of_part(&self, number: usize, row: usize) -> Result<u64> {
        let Some(whole) = self.whole else {
            return Ok(self.row_number(number, row));
        };
        let BatchSlice { piece, batch, .. } = self.part(number);
        let lost = || Error::internal("a part of a dataset has a row that the dataset has not");
        let row = piece.source.span(batch)?.ok_or_else(lost)?.start + row as u64;
        let mut before = 0;
        for candidate in whole.pieces() {
            let rows = candidate.rows()?;
            let inside = row.checked_sub(candidate.start).filter(|inside| *inside < rows);
            if let Some(inside) = inside.filter(|_| Arc::ptr_eq(&candidate.source, &piece.source)) {
                return Ok(before + inside);
            }
            before += rows;
        }
        Err(lost())
    }

    /// The number of blocks.
    pub(super) fn num_blocks(&self) -> usize {
        usize::try_from(self.num_rows().div_ceil(self.block as u64)).unwrap_or(usize::MAX)
    }

    /// The rows of a block.
    pub(super) fn block_rows(&self) -> usize {
        self.block
    }

    /// The first row of block `block`.
    pub(super) fn block_start(&self, block: usize) -> u64 {
        block as u64 * self.block as u64
    }

    /// Block `block`, batch by batch.
    pub(super) fn spans(&self, block: usize) -> impl Iterator<Item = BatchSpan> {
        let start = self.block_start(block);
        let end = start.saturating_add(self.block as u64);
        let first = self.index.locate(start, 0).unwrap_or(self.num_parts());
        (first..self.num_parts()).take_while(move |&number| self.index.start(number) < end).filter_map(move |number| {
            let before = self.index.start(number);
            let rows = self.index.rows_of(number);
            let inside = |row: u64| rows.len().min(row.saturating_sub(before) as usize);
            let from = inside(start);
            let to = inside(end);
            (from < to).then(|| (number, rows.start + from..rows.start + to))
        })
    }

    fn part(&self, number: usize) -> BatchSlice<'a> {
        self.index.part(self.pieces, number)
    }

    /// Column number `column` of the dataset in batch `number`, with checked values.
    pub(super) fn checked(&self, number: usize, column: usize) -> Result<&'a ArrayData> {
        let part = self.part(number);
        part.checked(part.piece.columns[column])
    }

    /// Rows `rows` of column number `column` in batch `number` with checked values: an array and the rows' place in it.
    /// Of text of which the dataset has at most half a batch here, as zones leave it over, only `rows` are checked, each time: a
    /// check reads what it checks.
    pub(super) fn checked_rows(
        &self,
        number: usize,
        column: usize,
        rows: &Range<usize>,
    ) -> Result<(Cow<'a, ArrayData>, Range<usize>)> {
        let whole = self.unchecked(number, column)?;
        if is_text_or_binary(whole.data_type()) && 2 * self.rows_of(number).len() <= whole.len() {
            let here = |e: Error| {
                e.context(format_args!("column {column}, in the rows from {} of batch {number}", rows.start))
            };
            let part = whole.slice(rows.start, rows.len()).checked(&[]).map_err(here)?;
            return Ok((Cow::Owned(part), 0..rows.len()));
        }
        Ok((Cow::Borrowed(self.checked(number, column)?), rows.clone()))
    }

    /// Fixed-width columns, given with their widths, as bytes from the first row of batch `number` on; keys are not
    /// checked.
    pub(super) fn fixed_width_columns(
        &self,
        number: usize,
        columns: impl Iterator<Item = (usize, usize)>,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        let BatchSlice { piece, batch, rows } = self.part(number);
        let mut own = columns.map(|(column, width)| (piece.columns[column], width));
        piece.source.fixed_width_values(batch, rows.end, &mut own, true, into)
    }

    /// The checked dictionary of column number `column`, if all batches are known to share it.
    pub(super) fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        let Some(last) = self.num_parts().checked_sub(1) else { return Ok(None) };
        let piece = self.part(0).piece;
        if std::ptr::eq(piece, self.part(last).piece) {
            piece.source.dictionary(piece.columns[column])
        } else {
            Ok(None)
        }
    }

    /// Column number `column` of the dataset in batch `number`, with unchecked values.
    pub(super) fn unchecked(&self, number: usize, column: usize) -> Result<&'a UncheckedArray> {
        let part = self.part(number);
        part.piece.source.column(part.batch, part.piece.columns[column])
    }
}
