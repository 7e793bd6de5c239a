//! Finds a dataset's rows by number: the batch of each row, and blocks of rows for threads.
//!
//! Three divisions of the rows meet here:
//! - A *batch* is what a file or another source stores together, of any number of rows. Its number in the dataset is
//!   called `number` or `part`. A dataset may begin and end inside of a batch, so the rows of a batch that are in the
//!   dataset are a range, [`Frame::rows_of`], whose numbers count from the first row of the batch.
//! - A *block* has the same number of rows everywhere but at the end, wherever batches begin. It is a thread's unit of
//!   work, so that results do not depend on batches.
//! - A *span* is the part of a block that lies in one batch: [`Frame::spans`] divides a block into these.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow_data::ArrayData;

use crate::array::UncheckedArray;
use crate::dataset::{BatchIndex, BatchSlice, Dataset, FixedWidthValues, SourceSlice};
use crate::error::{Error, Result};
use crate::types::is_text_or_binary;

/// The number of rows of a block, unless [`Frame::with_block_rows`] sets another.
pub(in crate::compute) const BLOCK: usize = 1 << 16;
/// The number of batches whose columns a thread looks up at a time.
pub(in crate::compute) const BATCHES_AT_ONCE: usize = 1 << 10;

/// The cost of a random access, in bytes that are read in sequence in the same time.
pub(in crate::compute) const RANDOM_ACCESS_BYTES: usize = 64;

/// The batches and blocks of a dataset.
///
/// A frame borrows the dataset and reads no values until it is asked for a column of a batch. It is made for one call,
/// and its settings tell how errors number rows and how values are ordered.
#[derive(Debug)]
pub(in crate::compute) struct Frame<'a> {
    pieces: &'a [SourceSlice],
    index: &'a BatchIndex,
    /// The number of rows of a block; the last block may have fewer.
    block_rows: usize,
    /// The dataset of which this one is a part, if errors number rows by their position in that.
    whole: Option<&'a Dataset>,
    /// The set of rows that a query reads; errors number rows by their rank in it.
    ranks: Option<&'a dyn RowRanks>,
    /// Orders of values by the number of their column.
    orders: &'a [(usize, Box<dyn ValueOrder>)],
}

/// The order of a column's values, where it differs from the order of their bytes.
pub(in crate::compute) trait ValueOrder: Debug + Send + Sync {
    /// Returns bytes that have the order of the value of row `row` of `array`; `None` for null.
    fn sort_key(&self, array: &ArrayData, row: usize) -> Result<Option<&[u8]>>;
}

/// A set of rows that numbers its members.
pub(in crate::compute) trait RowRanks: Debug + Send + Sync {
    /// Returns the number of rows of the set before row `row`.
    fn rank(&self, row: u64) -> u64;
}

/// A span: the number of its batch, and the rows inside the batch.
pub(super) type BatchSpan = (usize, Range<usize>);

impl<'a> Frame<'a> {
    /// Creates the frame of a dataset, in blocks of [`BLOCK`] rows. Finds the batches, which takes time the first time.
    pub(in crate::compute) fn try_new(dataset: &'a Dataset) -> Result<Frame<'a>> {
        let index = dataset.index()?;
        Ok(Frame { pieces: dataset.pieces(), index, block_rows: BLOCK, whole: None, ranks: None, orders: &[] })
    }

    /// Creates the frame of some rows of `whole`, whose numbers errors use.
    pub(in crate::compute) fn for_part(dataset: &'a Dataset, whole: &'a Dataset) -> Result<Frame<'a>> {
        Ok(Frame { whole: Some(whole), ..Frame::try_new(dataset)? })
    }

    /// Lets errors number rows by their rank in a set of rows.
    pub(in crate::compute) fn with_ranks(self, ranks: Option<&'a dyn RowRanks>) -> Frame<'a> {
        Frame { ranks, ..self }
    }

    /// Sets the orders of some columns' values.
    pub(in crate::compute) fn with_orders(self, orders: &'a [(usize, Box<dyn ValueOrder>)]) -> Frame<'a> {
        Frame { orders, ..self }
    }

    /// Returns the order of the values of column number `column`, where it differs from the order of their bytes.
    pub(in crate::compute) fn value_order(&self, column: usize) -> Option<&'a dyn ValueOrder> {
        self.orders.iter().find(|(number, _)| *number == column).map(|(_, order)| order.as_ref())
    }

    /// Sets the number of rows of a block.
    pub(in crate::compute) fn with_block_rows(self, block_rows: usize) -> Frame<'a> {
        assert!(block_rows > 0, "a block has rows");
        Frame { block_rows, ..self }
    }

    /// Returns the number of rows of the dataset.
    pub(in crate::compute) fn num_rows(&self) -> u64 {
        self.index.rows()
    }

    /// Returns the number of batches.
    pub(in crate::compute) fn num_parts(&self) -> usize {
        self.index.len()
    }

    /// Returns the batch that holds row `row`, and the row inside it; `None` past the last. Tries `hint` first.
    #[inline]
    pub(in crate::compute) fn locate(&self, row: u64, hint: usize) -> Option<(usize, usize)> {
        let number = self.index.locate(row, hint)?;
        debug_assert!(self.index.start(number) <= row, "row {row} is before batch {number}");
        Some((number, self.index.rows_of(number).start + (row - self.index.start(number)) as usize))
    }

    /// Returns the batch that holds row `row`; `None` past the last.
    #[inline]
    pub(in crate::compute) fn part_at(&self, row: u64) -> Option<usize> {
        self.index.locate(row, usize::MAX)
    }

    /// Returns the dataset's row at which batch `number` begins.
    #[inline]
    pub(in crate::compute) fn start(&self, number: usize) -> u64 {
        self.index.start(number)
    }

    /// Returns the rows of batch `number` that are in the dataset.
    pub(in crate::compute) fn rows_of(&self, number: usize) -> Range<usize> {
        self.index.rows_of(number)
    }

    /// Returns the number by which errors name row `row` of batch `number`: in the whole dataset, if this is a part of
    /// one, and by its rank in a set of rows, if there is one.
    pub(in crate::compute) fn original_row(&self, number: usize, row: usize) -> Result<u64> {
        let row = match self.whole {
            Some(whole) => self.row_in_whole(whole, number, row)?,
            None => self.row_number(number, row),
        };
        Ok(self.ranks.map_or(row, |ranks| ranks.rank(row)))
    }

    /// Returns the number of row `row` of batch `number` in the dataset.
    pub(in crate::compute) fn row_number(&self, number: usize, row: usize) -> u64 {
        let rows = self.rows_of(number);
        debug_assert!(rows.start <= row, "row {row} of batch {number} is not in the dataset");
        self.start(number) + row.saturating_sub(rows.start) as u64
    }

    /// Returns the number of row `row` of batch `number` in the dataset `whole`, which has the same source.
    fn row_in_whole(&self, whole: &Dataset, number: usize, row: usize) -> Result<u64> {
        let BatchSlice { piece, batch, .. } = self.part(number);
        if let Some(span) = piece.source.span(batch)? {
            let row = span.start + row as u64;
            let mut before = 0;
            for candidate in whole.pieces() {
                let rows = candidate.rows()?;
                if Arc::ptr_eq(&candidate.source, &piece.source)
                    && row.checked_sub(candidate.start).is_some_and(|inside| inside < rows)
                {
                    return Ok(before + row - candidate.start);
                }
                before += rows;
            }
        }
        Err(Error::internal("a part of a dataset has a row that the dataset has not"))
    }

    /// Returns the number of blocks.
    pub(in crate::compute) fn num_blocks(&self) -> usize {
        usize::try_from(self.num_rows().div_ceil(self.block_rows as u64)).unwrap_or(usize::MAX)
    }

    /// Returns the number of rows of a block.
    pub(in crate::compute) fn block_rows(&self) -> usize {
        self.block_rows
    }

    /// Returns the first row of block `block`.
    pub(in crate::compute) fn block_start(&self, block: usize) -> u64 {
        block as u64 * self.block_rows as u64
    }

    /// Returns the spans of block `block`, in order. None is empty.
    pub(in crate::compute) fn spans(&self, block: usize) -> impl Iterator<Item = BatchSpan> {
        let start = self.block_start(block);
        let end = start.saturating_add(self.block_rows as u64);
        let first = self.index.locate(start, 0).unwrap_or(self.num_parts());
        (first..self.num_parts()).take_while(move |&number| self.index.start(number) < end).filter_map(move |number| {
            let before = self.index.start(number);
            let rows = self.index.rows_of(number);
            let from = rows.len().min(start.saturating_sub(before) as usize);
            let to = rows.len().min((end - before) as usize);
            (from < to).then(|| (number, rows.start + from..rows.start + to))
        })
    }

    fn part(&self, number: usize) -> BatchSlice<'a> {
        self.index.part(self.pieces, number)
    }

    /// Returns column number `column` of the dataset in batch `number`, with checked values.
    pub(in crate::compute) fn checked(&self, number: usize, column: usize) -> Result<&'a ArrayData> {
        let part = self.part(number);
        part.checked(part.piece.columns[column])
    }

    /// Returns an array with checked values, and the range in it that holds rows `rows` of column number `column` in
    /// batch `number`.
    ///
    /// A check reads what it checks, and the check of a whole batch is remembered. If at most half of a batch of text
    /// is in the dataset, as zones ruled out the other rows, only `rows` are checked, on each call.
    pub(in crate::compute) fn checked_rows(
        &self,
        number: usize,
        column: usize,
        rows: &Range<usize>,
    ) -> Result<(Cow<'a, ArrayData>, Range<usize>)> {
        let whole = self.unchecked(number, column)?;
        if is_text_or_binary(whole.data_type()) && self.rows_of(number).len() <= whole.len() / 2 {
            let part = whole.slice(rows.start, rows.len()).checked(&[]).map_err(|e| {
                e.context(format_args!("column {column}, in the rows from {} of batch {number}", rows.start))
            })?;
            return Ok((Cow::Owned(part), 0..rows.len()));
        }
        Ok((Cow::Borrowed(self.checked(number, column)?), rows.clone()))
    }

    /// Appends fixed-width columns, given with their widths, as bytes from the first row of batch `number` on. Keys
    /// are not checked.
    pub(in crate::compute) fn fixed_width_columns(
        &self,
        number: usize,
        columns: impl Iterator<Item = (usize, usize)>,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        let BatchSlice { piece, batch, rows } = self.part(number);
        let mut source_columns = columns.map(|(column, width)| (piece.columns[column], width));
        piece.source.fixed_width_values(batch, rows.end, &mut source_columns, true, into)
    }

    /// Returns the checked dictionary of column number `column`, if all batches are known to share it.
    pub(in crate::compute) fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        let Some(last) = self.num_parts().checked_sub(1) else { return Ok(None) };
        let piece = self.part(0).piece;
        if std::ptr::eq(piece, self.part(last).piece) {
            piece.source.dictionary(piece.columns[column])
        } else {
            Ok(None)
        }
    }

    /// Returns column number `column` of the dataset in batch `number`, with unchecked values.
    pub(in crate::compute) fn unchecked(&self, number: usize, column: usize) -> Result<&'a UncheckedArray> {
        let part = self.part(number);
        part.piece.source.column(part.batch, part.piece.columns[column])
    }
}
