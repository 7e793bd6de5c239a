//! Shows the rows that satisfy a condition. The rows are selected once; the first use of a column copies it for all of
//! them, on all threads. Aggregations read the rows in place.
//!
//! They are selected at once because their number must be known, and because errors of the condition belong to the call
//! that has it. Columns are copied later because many are never used.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use super::reordered::has_at_most_distinct;
use crate::array::{UncheckedArray, byte_size, merge_dictionaries};
use crate::compute::gather::{BATCH, RowSelection, select_columns};
use crate::compute::scan::{BLOCK, Frame, RANDOM_ACCESS_BYTES};
use crate::compute::selection::RowSet;
#[cfg(feature = "compute")]
use crate::dataset::Zones;
use crate::dataset::{
    Batches, ConstantColumn, Dataset, Facts, Footprint, RowLocation, Source, SourceSlice, ViewSource,
};
use crate::error::{Error, Result};
use crate::map::{ChangeCheck, MutexExt};
use crate::parallel;
use crate::types::has_bits;

/// The number of blocks of a batch of the result.
const BATCH_BLOCKS: usize = BATCH / BLOCK;

/// A source with the rows of a dataset that a filter selected, in the dataset's order.
///
/// Columns are copied on demand, each once for all batches. `columns` has the copies that are complete; reading it
/// takes no lock. A thread that needs a missing column takes the lock `copying`, looks again, copies, and sets the
/// column. A copy that fails leaves the column missing, so that the next use tries again.
#[derive(Debug)]
pub(super) struct FilteredRows {
    dataset: Dataset,
    rows: Arc<RowSet>,
    /// The blocks of each batch. Each batch has rows.
    batches: Vec<Range<usize>>,
    /// The copies of each column, one for each batch.
    columns: Vec<OnceLock<Vec<ArrayData>>>,
    /// Locked while columns are copied, so that other threads wait for the copies instead of making their own.
    copying: Mutex<()>,
}

impl FilteredRows {
    /// Creates the source of the rows `rows` of `dataset`.
    pub(super) fn new(dataset: Dataset, rows: Arc<RowSet>) -> Result<FilteredRows> {
        let blocks = Frame::try_new(&dataset)?.num_blocks();
        let mut batches = Vec::new();
        for start in (0..blocks).step_by(BATCH_BLOCKS) {
            let batch = start..blocks.min(start + BATCH_BLOCKS);
            if rows.before_block(batch.start) < rows.before_block(batch.end) {
                batches.push(batch);
            }
        }
        let columns = (0..dataset.num_columns()).map(|_| OnceLock::new()).collect();
        Ok(FilteredRows { dataset, rows, batches, columns, copying: Mutex::new(()) })
    }

    /// Selects the rows of a batch.
    fn select(&self, frame: &Frame<'_>, batch: usize) -> RowSelection {
        let mut selection = RowSelection::default();
        for block in self.batches[batch].clone() {
            if self.rows.before_block(block) == self.rows.before_block(block + 1) {
                continue;
            }
            for (part, rows) in frame.spans(block) {
                let start = frame.row_number(part, rows.start);
                let mask = self.rows.mask(start..start + rows.len() as u64);
                selection.add(part, rows, mask);
            }
        }
        selection
    }

    fn is_missing(&self, column: usize) -> bool {
        self.columns.get(column).is_some_and(|copies| copies.get().is_none())
    }

    /// Copies the columns that are missing. Returns once none is.
    fn copy(&self, columns: &[usize]) -> Result<()> {
        if !columns.iter().any(|&column| self.is_missing(column)) {
            return Ok(());
        }
        let _copying = self.copying.lock_ignoring_poison();
        // Another thread may have copied them in the meantime.
        let mut missing: Vec<usize> = columns.iter().copied().filter(|&column| self.is_missing(column)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        missing.dedup();

        let frame = Frame::try_new(&self.dataset)?;
        let schema = self.dataset.schema();
        let rows = usize::try_from(self.rows.len()).unwrap_or(usize::MAX);
        let bytes = rows.saturating_mul(missing.len()).saturating_mul(RANDOM_ACCESS_BYTES);
        let selections = parallel::map(self.batches.len(), bytes, |batch| self.select(&frame, batch));
        let num_selected: usize = selections.iter().map(RowSelection::len).sum();
        assert!(num_selected as u64 == self.rows.len(), "{num_selected} of {} rows selected", self.rows.len());

        let jobs = self.batches.len() * missing.len();
        let arrays = parallel::map(jobs, bytes, |job| {
            let column = missing[job / selections.len()];
            let selection = &selections[job % selections.len()];
            let fixed_width = selection.fixed_width_columns(&frame, schema, Some(column))?;
            selection.gather_column(&frame, &fixed_width, schema, column)
        });

        let mut arrays = arrays.into_iter();
        for column in missing {
            let copies = arrays.by_ref().take(self.batches.len()).collect::<Result<Vec<_>>>()?;
            self.columns[column].get_or_init(|| copies);
        }
        Ok(())
    }
}

impl Batches for FilteredRows {
    fn schema(&self) -> &SchemaRef {
        self.dataset.schema()
    }

    fn count_until(&self, _until: u64) -> Result<u64> {
        Ok(self.rows.len())
    }

    fn num_batches(&self) -> Result<usize> {
        Ok(self.batches.len())
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        let Some(blocks) = self.batches.get(batch) else { return Ok(None) };
        Ok(Some(self.rows.before_block(blocks.start)..self.rows.before_block(blocks.end)))
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        let batch = self.batches.partition_point(|blocks| self.rows.before_block(blocks.end) <= row);
        Ok((batch < self.batches.len()).then_some(batch))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        self.locate_by_len(back)
    }

    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray> {
        self.checked_column(batch, column).map(UncheckedArray::from_ref)
    }

    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        self.copy(&[column])?;
        let array = self.columns.get(column).and_then(OnceLock::get).and_then(|copies| copies.get(batch));
        array.ok_or_else(|| Error::invalid_argument(format!("batch {batch}, column {column}")))
    }

    fn prepare(&self, columns: &[usize]) -> Result<()> {
        self.copy(columns)
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }

    fn check_unchanged(&self, _batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.dataset.with_change_check(when, || Ok(()))
    }

    fn resident(&self) -> Result<u64> {
        Ok(0)
    }
}

impl Source for FilteredRows {
    fn facts(&self) -> Facts<'_> {
        Facts { holds_others: true, ..Facts::default() }
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

impl ViewSource for FilteredRows {
    fn resolve_row(&self, row: u64) -> Result<Option<RowLocation<'_>>> {
        let Some(row) = self.rows.get(row) else { return Ok(None) };
        self.dataset.location(row)
    }

    /// Returns `None`: columns are copied for all rows at once, and a slice with a source of its own would copy its
    /// rows again.
    fn slice(&self, _rows: Range<u64>) -> Option<Arc<dyn Source>> {
        None
    }

    /// Returns `None`: rows that were copied are not gathered again.
    fn resolve_rows(&self, _rows: &mut dyn Iterator<Item = u64>) -> Option<(&[SourceSlice], Vec<u64>)> {
        None
    }
}

/// Returns the input of a filter whose result `dataset` is, with the columns of `dataset`, and the set of its rows that
/// the filter selected; `None` if `dataset` is no such result, or only a part of one.
pub(in crate::compute) fn filter_input(dataset: &Dataset) -> Option<(Dataset, Arc<RowSet>)> {
    let [SourceSlice { source, columns, start: 0, rows: None }] = dataset.pieces() else { return None };
    let FilteredRows { dataset: base, rows, .. } = source.find()?;
    let pieces = base.pieces().iter().map(|piece| select_columns(piece, columns)).collect();
    Some((Dataset::from_slices(dataset.schema().clone(), pieces), rows.clone()))
}

/// Returns true if the rows `rows` of each column fit into arrays of its type, batch by batch. Returns false if in
/// doubt.
pub(super) fn fits(dataset: &Dataset, frame: &Frame<'_>, rows: &RowSet) -> Result<bool> {
    for (column, field) in dataset.schema().fields().iter().enumerate() {
        let max_bytes = match SizeLimit::for_type(field.data_type()) {
            SizeLimit::Unlimited => continue,
            SizeLimit::Unknown => return Ok(false),
            SizeLimit::Dictionary => {
                let capacity = merge_dictionaries::min_key_capacity(field.data_type());
                if capacity < BATCH
                    && frame.dictionary(column)?.is_none()
                    && !has_at_most_distinct(frame, column, capacity)?
                {
                    return Ok(false);
                }
                continue;
            }
            SizeLimit::Bytes(max_bytes) => max_bytes,
        };
        for start in (0..frame.num_blocks()).step_by(BATCH_BLOCKS) {
            let blocks = start..frame.num_blocks().min(start + BATCH_BLOCKS);
            if rows.before_block(blocks.start) == rows.before_block(blocks.end) {
                continue;
            }
            let mut bytes = 0u64;
            for (part, rows) in blocks.flat_map(|block| frame.spans(block)) {
                bytes = bytes.saturating_add(byte_size(frame.unchecked(part, column)?, rows));
            }
            if bytes > max_bytes {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// What limits the number of rows of one array.
enum SizeLimit {
    /// Any number of rows fit.
    Unlimited,
    /// Offsets of 32 bits limit the bytes of values.
    Bytes(u64),
    /// The width of keys limits the values of merged dictionaries.
    Dictionary,
    /// A limit that is not computed.
    Unknown,
}

impl SizeLimit {
    fn for_type(data_type: &DataType) -> SizeLimit {
        use DataType::*;
        match data_type {
            Utf8 | Binary => SizeLimit::Bytes(i32::MAX as u64),
            Dictionary(_, values)
                if matches!(SizeLimit::for_type(values), SizeLimit::Unlimited | SizeLimit::Bytes(_)) =>
            {
                SizeLimit::Dictionary
            }
            // An item has a bit or more.
            List(item) | LargeList(item) | Map(item, _) => match SizeLimit::for_type(item.data_type()) {
                SizeLimit::Unlimited | SizeLimit::Bytes(_) if has_bits(item.data_type()) => {
                    SizeLimit::Bytes(i32::MAX as u64 / u64::from(u8::BITS))
                }
                _ => SizeLimit::Unknown,
            },
            FixedSizeList(item, _) => SizeLimit::for_type(item.data_type()).nested(),
            Struct(fields) => fields
                .iter()
                .fold(SizeLimit::Unlimited, |all, field| all.and(SizeLimit::for_type(field.data_type()).nested())),
            Dictionary(..) | ListView(_) | LargeListView(_) | RunEndEncoded(..) | Union(..) => SizeLimit::Unknown,
            _ => SizeLimit::Unlimited,
        }
    }

    /// Returns the limit of a type with a child that has this limit.
    fn nested(self) -> SizeLimit {
        if let SizeLimit::Dictionary = self { SizeLimit::Unknown } else { self }
    }

    fn and(self, other: SizeLimit) -> SizeLimit {
        match (self, other) {
            (SizeLimit::Unlimited, other) => other,
            (one, SizeLimit::Unlimited) => one,
            (SizeLimit::Bytes(a), SizeLimit::Bytes(b)) => SizeLimit::Bytes(a.min(b)),
            _ => SizeLimit::Unknown,
        }
    }
}
