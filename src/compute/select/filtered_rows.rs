//! The rows found by a condition. Their numbers are known; the first use of a column copies it for all of them, on all
//! threads. Aggregations read the rows in place.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use super::row_set::RowSet;
use super::take::{BATCH, RowSelection};
use crate::array::{UncheckedArray, byte_size, merge_dictionaries};
use crate::compute::frame::{ANYWHERE, BLOCK, Frame};
#[cfg(feature = "compute")]
use crate::dataset::Zones;
use crate::dataset::{
    Batches, ColumnWidths, ConstantColumn, Dataset, Facts, FixedWidthValues, Footprint, RowLocation, Source,
    SourceSlice, ViewSource,
};
use crate::error::{Error, Result};
use crate::map::ChangeCheck;
use crate::parallel;
use crate::types::has_bits;

/// Blocks per batch of the result.
const BLOCKS: usize = BATCH / BLOCK;

/// Rows of a dataset, in their order.
#[derive(Debug)]
pub(super) struct FilteredRows {
    dataset: Dataset,
    rows: Arc<RowSet>,
    /// The blocks of each batch; there are rows in each.
    batches: Vec<Range<usize>>,
    /// The copies of each column, a batch each.
    columns: Vec<OnceLock<Vec<ArrayData>>>,
    /// Held while columns are copied: other threads wait for the copies.
    copying: Mutex<()>,
}

impl FilteredRows {
    pub(super) fn new(dataset: Dataset, rows: Arc<RowSet>) -> Result<FilteredRows> {
        let blocks = Frame::try_new(&dataset)?.num_blocks();
        let batches = (0..blocks).step_by(BLOCKS).map(|start| start..blocks.min(start + BLOCKS));
        let has_rows = |batch: &Range<usize>| rows.before_block(batch.start) < rows.before_block(batch.end);
        let batches = batches.filter(has_rows).collect();
        let columns = (0..dataset.num_columns()).map(|_| OnceLock::new()).collect();
        Ok(FilteredRows { dataset, rows, batches, columns, copying: Mutex::new(()) })
    }

    /// The rows of a batch.
    fn picked(&self, frame: &Frame<'_>, batch: usize) -> RowSelection {
        let mut picked = RowSelection::default();
        for block in self.batches[batch].clone() {
            if self.rows.before_block(block) == self.rows.before_block(block + 1) {
                continue;
            }
            for (part, rows) in frame.spans(block) {
                let start = frame.row_number(part, rows.start);
                let mask = self.rows.mask(start..start + rows.len() as u64);
                picked.add(part, rows, mask);
            }
        }
        picked
    }

    /// Copies columns that are not there yet.
    fn copy(&self, columns: &[usize]) -> Result<()> {
        let is_missing = |&column: &usize| self.columns.get(column).is_some_and(|copies| copies.get().is_none());
        if !columns.iter().any(is_missing) {
            return Ok(());
        }
        let _copying = parallel::lock(&self.copying);
        // Another thread may have copied them in the meantime.
        let mut missing: Vec<usize> = columns.iter().copied().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        missing.dedup();
        let (frame, schema) = (Frame::try_new(&self.dataset)?, self.dataset.schema());
        let rows = usize::try_from(self.rows.len()).unwrap_or(usize::MAX);
        let bytes = rows.saturating_mul(missing.len()).saturating_mul(ANYWHERE);
        let picked = parallel::map(self.batches.len(), bytes, |batch| self.picked(&frame, batch));
        let jobs = self.batches.len() * missing.len();
        let arrays = parallel::map(jobs, bytes, |job| {
            let (column, picked) = (missing[job / picked.len()], &picked[job % picked.len()]);
            let plains = picked.fixed_width_columns(&frame, schema, Some(column))?;
            picked.gather_column(&frame, &plains, schema, column)
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
        let rows = |blocks: &Range<usize>| self.rows.before_block(blocks.start)..self.rows.before_block(blocks.end);
        Ok(self.batches.get(batch).map(rows))
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
        let found = self.columns.get(column).and_then(OnceLock::get).and_then(|copies| copies.get(batch));
        found.ok_or_else(|| Error::invalid_argument(format!("batch {batch}, column {column}")))
    }

    fn prepare(&self, columns: &[usize]) -> Result<()> {
        self.copy(columns)
    }

    fn validate_column(&self, batch: usize, column: usize) -> Result<()> {
        self.checked_column(batch, column).map(drop)
    }

    fn fixed_width_values<'a>(
        &'a self,
        _batch: usize,
        _rows: usize,
        columns: ColumnWidths<'_>,
        _keep: bool,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        into.extend(columns.map(|_| None));
        Ok(())
    }

    fn value_bytes(&self, _batch: usize, _row: usize, _column: usize, _width: usize) -> Option<&[u8]> {
        None
    }

    fn dictionary(&self, _column: usize) -> Result<Option<ArrayData>> {
        Ok(None)
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

    /// None: columns are copied for all rows at once, and a cut would copy its own.
    fn slice(&self, _rows: Range<u64>) -> Option<Arc<dyn Source>> {
        None
    }

    /// None: rows that were copied are not gathered again.
    fn resolve_rows(&self, _rows: &mut dyn Iterator<Item = u64>) -> Option<(&[SourceSlice], Vec<u64>)> {
        None
    }
}

/// If `dataset` is all rows found by a condition: the searched rows, with the columns of `dataset`, and the set of found ones.
pub(in crate::compute) fn filter_input(dataset: &Dataset) -> Option<(Dataset, Arc<RowSet>)> {
    let [SourceSlice { source, columns, start: 0, rows: None }] = dataset.pieces() else { return None };
    let FilteredRows { dataset: base, rows, .. } = source.find()?;
    let narrow = |piece: &SourceSlice| {
        let columns = columns.iter().map(|&column| piece.columns[column]).collect();
        SourceSlice { columns, ..piece.clone() }
    };
    let pieces = base.pieces().iter().map(narrow).collect();
    Some((Dataset::from_slices(dataset.schema().clone(), pieces), rows.clone()))
}

/// Whether the rows `rows` of each column fit into arrays of its type, batch by batch. If in doubt, they do not.
pub(super) fn fits(dataset: &Dataset, frame: &Frame<'_>, rows: &RowSet) -> Result<bool> {
    for (column, field) in dataset.schema().fields().iter().enumerate() {
        let most = match SizeLimit::for_type(field.data_type()) {
            SizeLimit::Unlimited => continue,
            SizeLimit::Unknown => return Ok(false),
            SizeLimit::Dictionary => {
                let narrowest = merge_dictionaries::min_key_capacity(field.data_type());
                if narrowest >= BATCH || frame.dictionary(column)?.is_some() {
                    continue;
                }
                if !super::reordered_view::shares(frame, column, narrowest)? {
                    return Ok(false);
                }
                continue;
            }
            SizeLimit::Bytes(most) => most,
        };
        for start in (0..frame.num_blocks()).step_by(BLOCKS) {
            let blocks = start..frame.num_blocks().min(start + BLOCKS);
            if rows.before_block(blocks.start) == rows.before_block(blocks.end) {
                continue;
            }
            let mut bytes = 0u64;
            for (part, rows) in blocks.flat_map(|block| frame.spans(block)) {
                bytes = bytes.saturating_add(byte_size(frame.unchecked(part, column)?, rows));
            }
            if bytes > most {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// What rows of a type have to fit into.
enum SizeLimit {
    /// There is always room.
    Unlimited,
    /// Offsets of 32 bits: at most so many bytes of values.
    Bytes(u64),
    /// Keys for the values of several dictionaries.
    Dictionary,
    /// Not known.
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
            // A bit is the smallest item.
            List(item) | LargeList(item) | Map(item, _) => match SizeLimit::for_type(item.data_type()) {
                SizeLimit::Unlimited | SizeLimit::Bytes(_) if has_bits(item.data_type()) => {
                    SizeLimit::Bytes(i32::MAX as u64 / 8)
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

    /// That of a child.
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
