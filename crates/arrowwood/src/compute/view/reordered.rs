//! Implements views: datasets that have rows of another dataset, in an order that a list of row numbers gives. Nothing
//! is copied until a column is used: single rows are read in place, and a batch of a column is gathered on first use,
//! and cached.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use super::batch_size::{gathers, rows_that_fit};
use super::row_order::{RowOrder, try_collect};
use crate::array::{UncheckedArray, merge_dictionaries, require_little_endian};
use crate::compute::gather::{RowSelection, resolve_views};
use crate::compute::scan::{BLOCK, Frame};
#[cfg(feature = "compute")]
use crate::dataset::Zones;
use crate::dataset::{
    Batches, ConstantColumn, Dataset, Facts, Footprint, RowLocation, Source, SourceSlice, ViewSource,
};
use crate::error::{Error, Result};
use crate::map::ChangeCheck;

/// Returns a view of the rows of `dataset` in the order of their numbers in `order`; each number must be less than the
/// dataset's length.
pub(in crate::compute) fn reordered_view(dataset: &Dataset, order: RowOrder) -> Result<Dataset> {
    require_little_endian("reordering rows")?;
    let rows = 0..order.len();
    Ok(Dataset::from_source(Arc::new(ReorderedView::new(dataset.clone(), Arc::new(order), rows, Arc::default()))))
}

/// # Rows in another order
impl Dataset {
    /// Returns the rows with the numbers `rows`, in that order: a view, like the result of [`Dataset::sort`].
    ///
    /// # Errors
    /// `RowOutOfRange` for a number past the end; as [`Dataset::len`].
    pub fn rows_at(&self, rows: &[u64]) -> Result<Dataset> {
        let len = self.len()?;
        match rows.iter().find(|&&row| row >= len) {
            Some(&row) => Err(self.row_out_of_range(row)),
            None => reordered_view(self, RowOrder::try_from_rows(len, rows.iter().copied())?),
        }
    }

    /// Returns every `step`th of the rows `start .. end`, backwards from the last one if `step` is negative.
    ///
    /// The result is a view, like that of [`Dataset::sort`].
    ///
    /// # Errors
    /// `InvalidArgument` for a step of 0; as [`Dataset::len`].
    pub fn slice_with_step(&self, rows: Range<u64>, step: i64) -> Result<Dataset> {
        let rows = rows.start..rows.end.min(self.len()?);
        let Ok(size) = usize::try_from(step.unsigned_abs()) else { return self.slice(rows.start, 1) };
        match step {
            0 => Err(Error::invalid_argument("the step of a slice must not be 0")),
            1.. => reordered_view(self, RowOrder::try_from_rows(self.len()?, rows.step_by(size))?),
            _ => reordered_view(self, RowOrder::try_from_rows(self.len()?, rows.rev().step_by(size))?),
        }
    }

    /// Returns the dataset behind a view of rows in another order, and their numbers there.
    ///
    /// `None` if this dataset is no such view. Another process can make the same view by [`rows_at`](Dataset::rows_at).
    ///
    /// # Errors
    /// As [`Dataset::len`].
    pub fn resolve_view(&self) -> Result<Option<(Dataset, Vec<u64>)>> {
        match self.pieces() {
            [only] if gathers(only) => resolve_views(self, try_collect(0..self.len()?)?).map(Some),
            _ => Ok(None),
        }
    }
}

/// Returns the maximum number of rows of a batch: fewer than a block if the merged values of several dictionaries might
/// exceed narrow keys.
fn max_batch_rows(dataset: &Dataset) -> Result<usize> {
    let mut rows = BLOCK;
    for (column, field) in dataset.schema().fields().iter().enumerate() {
        let capacity = merge_dictionaries::min_key_capacity(field.data_type());
        if capacity < rows && !has_at_most_distinct(&Frame::try_new(dataset)?, column, capacity)? {
            rows = capacity;
        }
    }
    Ok(rows)
}

/// Returns true if a column's dictionaries have at most `max` distinct values together.
pub(super) fn has_at_most_distinct(frame: &Frame<'_>, column: usize, max: usize) -> Result<bool> {
    let mut dictionaries = Vec::with_capacity(frame.num_parts());
    for part in 0..frame.num_parts() {
        let array = frame.unchecked(part, column)?;
        if !matches!(array.data_type(), DataType::Dictionary(..)) {
            return Ok(false);
        }
        dictionaries.push(merge_dictionaries::dictionary_of(array)?);
    }
    merge_dictionaries::has_at_most_distinct(&dictionaries, max)
}

/// A source with rows of a dataset in another order.
///
/// All slices of a view share `order` and `batch_rows`. Each has its own gathered columns, which are set once and read
/// without a lock. Threads that need the same column at the same time may both gather it, and the first copy is kept.
#[derive(Debug)]
struct ReorderedView {
    dataset: Dataset,
    order: Arc<RowOrder>,
    /// The part of `order` that the view shows.
    range: Range<u64>,
    /// The number of rows of a batch, computed when a batch is first used, as single rows need no batches.
    batch_rows: Arc<OnceLock<usize>>,
    /// The gathered columns of each batch: all columns of the first batch, then of the next.
    gathered: OnceLock<Vec<OnceLock<ArrayData>>>,
}

impl ReorderedView {
    fn new(
        dataset: Dataset,
        order: Arc<RowOrder>,
        range: Range<u64>,
        batch_rows: Arc<OnceLock<usize>>,
    ) -> ReorderedView {
        assert!(range.start <= range.end && range.end <= order.len(), "rows {range:?} of {}", order.len());
        ReorderedView { dataset, order, range, batch_rows, gathered: OnceLock::new() }
    }

    fn batch_rows(&self) -> Result<usize> {
        if let Some(&rows) = self.batch_rows.get() {
            return Ok(rows);
        }
        let rows = self.dataset.with_change_check(ChangeCheck::Seldom, || {
            rows_that_fit(&self.dataset, &self.order, max_batch_rows(&self.dataset)?)
        })?;
        assert!(rows > 0, "a batch has rows");
        Ok(*self.batch_rows.get_or_init(|| rows))
    }

    fn gathered(&self) -> Result<&[OnceLock<ArrayData>]> {
        let arrays = self.num_batches()? * self.dataset.num_columns();
        Ok(self.gathered.get_or_init(|| (0..arrays).map(|_| OnceLock::new()).collect()))
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns the number that row `row` of the view has in `dataset`.
    fn base_row(&self, row: u64) -> Option<u64> {
        if row < self.len() { self.order.get(self.range.start + row) } else { None }
    }

    fn gather(&self, batch: usize, column: usize) -> Result<ArrayData> {
        let frame = Frame::try_new(&self.dataset)?;
        let Some(rows) = self.span(batch)? else { return Err(no_such_array(batch, column)) };
        let selection = RowSelection::from_rows(&frame, rows.filter_map(|row| self.base_row(row)));
        let fixed_width = selection.fixed_width_columns(&frame, self.dataset.schema(), Some(column))?;
        selection.gather_column(&frame, &fixed_width, self.dataset.schema(), column)
    }
}

impl Batches for ReorderedView {
    fn schema(&self) -> &SchemaRef {
        self.dataset.schema()
    }

    fn count_until(&self, _until: u64) -> Result<u64> {
        Ok(self.len())
    }

    fn num_batches(&self) -> Result<usize> {
        Ok(self.len().div_ceil(self.batch_rows()? as u64) as usize)
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        let rows = self.batch_rows()? as u64;
        let start = batch as u64 * rows;
        Ok((start < self.len()).then(|| start..self.len().min(start + rows)))
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        let rows = self.batch_rows()?;
        Ok((row < self.len()).then_some(row as usize / rows))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        self.locate_by_len(back)
    }

    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray> {
        self.checked_column(batch, column).map(UncheckedArray::from_ref)
    }

    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        let Some(gathered) = self.gathered()?.get(batch * self.dataset.num_columns() + column) else {
            return Err(no_such_array(batch, column));
        };
        match gathered.get() {
            Some(array) => Ok(array),
            None => {
                let array = self.gather(batch, column)?;
                Ok(gathered.get_or_init(|| array))
            }
        }
    }

    fn footprint(&self) -> Footprint {
        self.dataset.footprint()
    }

    fn check_unchanged(&self, _batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.dataset.with_change_check(when, || Ok(()))
    }

    fn resident(&self) -> Result<u64> {
        self.dataset.resident()
    }
}

impl Source for ReorderedView {
    fn facts(&self) -> Facts<'_> {
        Facts::default()
    }

    fn constants(&self) -> &[ConstantColumn] {
        &[]
    }

    fn view(&self) -> Option<&dyn ViewSource> {
        Some(self)
    }

    fn adapted(&self) -> Option<&dyn Source> {
        None
    }

    fn adapted_column(&self, _column: usize) -> Option<usize> {
        None
    }

    #[cfg(feature = "compute")]
    fn has_zones(&self, _column: usize) -> bool {
        false
    }

    #[cfg(feature = "compute")]
    fn zones(&self, _batch: usize, _column: usize) -> Result<Option<Zones>> {
        Ok(None)
    }
}

impl ViewSource for ReorderedView {
    fn resolve_row(&self, row: u64) -> Result<Option<RowLocation<'_>>> {
        let Some(row) = self.base_row(row) else { return Ok(None) };
        self.dataset.location(row)
    }

    /// Returns another view: a batch of this one would be gathered as a whole for a few of its rows.
    fn slice(&self, rows: Range<u64>) -> Option<Arc<dyn Source>> {
        if rows.end > self.len() || rows == (0..self.len()) {
            return None;
        }
        let range = self.range.start + rows.start..self.range.start + rows.end;
        let cut = ReorderedView::new(self.dataset.clone(), self.order.clone(), range, self.batch_rows.clone());
        Some(Arc::new(cut))
    }

    fn resolve_rows(&self, rows: &mut dyn Iterator<Item = u64>) -> Option<(&[SourceSlice], Vec<u64>)> {
        let base_rows = rows.map(|row| self.base_row(row)).collect::<Option<_>>()?;
        Some((self.dataset.pieces(), base_rows))
    }
}

fn no_such_array(batch: usize, column: usize) -> Error {
    Error::invalid_argument(format!("batch {batch}, column {column}"))
}
