//! Gathers the selected rows of a dataset, batch by batch and column by column.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};
use hashbrown::HashMap;

use super::fixed_width::FixedWidthColumns;
use crate::array::gather::{Pick, gather, gather_column};
use crate::array::merge_dictionaries::collect_dictionaries;
use crate::array::{UncheckedArray, byte_size, check_memory, require_little_endian};
use crate::compute::scan::{Frame, RANDOM_ACCESS_BYTES};
use crate::compute::selection::{Mask, SelectedRows};
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::map::{GrowableBuffer, free_memory};
use crate::parallel;

/// The maximum number of rows of a batch of gathered rows.
pub(in crate::compute) const BATCH: usize = 1 << 20;

/// Gathers `count` rows of `dataset`. Row `i` of the result is row `row(i)`, which must exist.
pub(in crate::compute) fn gather_rows(
    dataset: &Dataset,
    frame: &Frame<'_>,
    count: usize,
    row: impl Fn(usize) -> u64 + Sync,
) -> Result<Dataset> {
    require_little_endian("gathering rows")?;
    let chunks: Vec<_> = (0..count).step_by(BATCH).map(|start| start..count.min(start + BATCH)).collect();
    let selections = parallel::map(chunks.len(), count.saturating_mul(size_of::<Pick>()), |chunk| {
        RowSelection::from_rows(frame, chunks[chunk].clone().map(&row))
    });
    gather_selections(dataset, frame, selections)
}

/// Gathers all columns of the selected rows, a batch for each selection, or several if one would be too large.
pub(in crate::compute) fn gather_selections(
    dataset: &Dataset,
    frame: &Frame<'_>,
    mut selections: Vec<RowSelection>,
) -> Result<Dataset> {
    let schema = dataset.schema();
    let columns = schema.fields().len();
    selections.retain(|selection| selection.len() > 0);
    loop {
        let rows: usize = selections.iter().map(RowSelection::len).sum();
        let bytes = rows.saturating_mul(columns).saturating_mul(RANDOM_ACCESS_BYTES);
        let fixed_width =
            parallel::map(selections.len(), bytes, |batch| selections[batch].fixed_width_columns(frame, schema, None));
        let fixed_width = fixed_width.into_iter().collect::<Result<Vec<_>>>()?;

        // A sum for an estimate, which needs no ordering.
        let gathered_bytes = AtomicU64::new(0);
        let arrays: Vec<Result<_>> = parallel::map(selections.len() * columns, bytes, |job| {
            check_memory_for_more(gathered_bytes.load(Ordering::Relaxed))?;
            let batch = job / columns;
            let array = selections[batch].gather_column(frame, &fixed_width[batch], schema, job % columns)?;
            gathered_bytes.fetch_add(byte_size(UncheckedArray::from_ref(&array), 0..array.len()), Ordering::Relaxed);
            Ok(array)
        });
        assert!(arrays.len() == selections.len() * columns, "{} arrays for {columns} columns", arrays.len());

        // Offsets or keys too narrow for all rows are wide enough for fewer.
        let mut is_too_large = Vec::with_capacity(selections.len());
        for batch in 0..selections.len() {
            let arrays = &arrays[batch * columns..][..columns];
            is_too_large.push(arrays.iter().any(|array| matches!(array, Err(e) if e.kind() == ErrorKind::Unsupported)));
        }
        // A single row that is too large can't be divided, and its error is returned.
        let is_divisible = is_too_large.iter().zip(&selections).all(|(too_large, rows)| !too_large || rows.len() > 1);
        if is_divisible && is_too_large.contains(&true) {
            let mut halves = Vec::new();
            for (selection, too_large) in selections.into_iter().zip(is_too_large) {
                if too_large {
                    halves.extend(selection.split());
                } else {
                    halves.push(selection);
                }
            }
            selections = halves;
            continue;
        }
        let mut arrays = arrays.into_iter();
        let mut batches = Vec::with_capacity(selections.len());
        for selection in &selections {
            batches.push((selection.len(), arrays.by_ref().take(columns).collect::<Result<_>>()?));
        }
        return Ok(Dataset::from_arrays(schema.clone(), batches));
    }
}

/// Checks that memory is left for another array, in addition to `gathered` bytes: a few bytes in a file may say that
/// many rows are the same large one.
fn check_memory_for_more(gathered: u64) -> Result<()> {
    /// Memory that is assumed to be available, and that is left for others.
    const RESERVE: u64 = 256 << 20;
    check_memory()?;
    if gathered < RESERVE || free_memory().is_none_or(|free| free > RESERVE) {
        return Ok(());
    }
    Err(Error::out_of_memory(format!("no memory is left for more rows than those of {gathered} bytes; take fewer")))
}

/// The rows of a batch that will be gathered: the batches that they come from, and the rows in these. Rows are listed
/// one by one, in any order, or selected by bits, in the order of the dataset.
#[derive(Debug, Default)]
pub(in crate::compute) struct RowSelection {
    /// The source batches. Picks and spans have indices in this list.
    parts: Vec<usize>,
    /// Rows one by one; if rows are selected by bits, computed when a column needs them.
    picks: OnceLock<Vec<Pick>>,
    /// Rows in order, as bits.
    spans: Vec<SelectedRows>,
    len: usize,
}

impl RowSelection {
    /// Selects the rows `rows` of a dataset.
    pub(in crate::compute) fn from_rows(frame: &Frame<'_>, rows: impl Iterator<Item = u64>) -> RowSelection {
        const NOT_LISTED: u32 = u32::MAX;
        let mut parts = Vec::new();
        // The index in `parts` of each batch.
        let mut indices = vec![NOT_LISTED; frame.num_parts()];
        let mut picks = Vec::with_capacity(rows.size_hint().0);
        // The batch of the previous row: its rows in the dataset, its index in `parts`, and its first row.
        let (mut part_rows, mut index, mut first) = (0..0, 0, 0);
        for row in rows {
            if !part_rows.contains(&row) {
                let part = frame.part_at(row);
                debug_assert!(part.is_some(), "row {row} of {}", frame.num_rows());
                let Some(part) = part else { continue };
                let rows_in_batch = frame.rows_of(part);
                let start = frame.start(part);
                part_rows = start..start + rows_in_batch.len() as u64;
                first = rows_in_batch.start;
                if indices[part] == NOT_LISTED {
                    indices[part] = parts.len() as u32;
                    parts.push(part);
                }
                index = indices[part];
            }
            picks.push((index, first + (row - part_rows.start) as usize));
        }
        RowSelection { parts, len: picks.len(), picks: OnceLock::from(picks), spans: Vec::new() }
    }

    /// Appends the selected rows among `rows` of batch `part`.
    pub(in crate::compute) fn add(&mut self, part: usize, rows: Range<usize>, mask: Mask) {
        assert!(self.picks.get().is_none(), "rows are added after they were picked");
        let count = mask.count();
        if count == 0 {
            return;
        }
        if self.parts.last() != Some(&part) {
            self.parts.push(part);
        }
        self.len += count;
        self.spans.push(SelectedRows { part: self.parts.len() as u32 - 1, rows, mask });
    }

    /// Returns the number of rows.
    pub(in crate::compute) fn len(&self) -> usize {
        self.len
    }

    fn picks(&self) -> &[Pick] {
        self.picks.get_or_init(|| {
            let mut picks = Vec::with_capacity(self.len);
            for span in &self.spans {
                picks.extend(span.mask.rows().map(|row| (span.part, span.rows.start + row)));
            }
            assert!(picks.len() == self.len, "{} of {} rows picked", picks.len(), self.len);
            picks
        })
    }

    /// Returns the first and the second half of the rows.
    fn split(self) -> [RowSelection; 2] {
        let (first, second) = self.picks().split_at(self.len / 2);
        [self.with_picks(first), self.with_picks(second)]
    }

    /// Returns a selection of some of the rows. It lists only the batches that it uses: halves of halves would keep the
    /// list of all batches for each of their rows.
    fn with_picks(&self, picks: &[Pick]) -> RowSelection {
        let mut indices = HashMap::new();
        let mut parts = Vec::new();
        let mut new_picks: Vec<Pick> = Vec::with_capacity(picks.len());
        for &(part, row) in picks {
            let index = *indices.entry(part).or_insert_with(|| {
                parts.push(self.parts[part as usize]);
                parts.len() as u32 - 1
            });
            new_picks.push((index, row));
        }
        RowSelection { parts, len: new_picks.len(), picks: OnceLock::from(new_picks), spans: Vec::new() }
    }

    /// Finds the columns of the rows' batches that can be copied unchanged, one or all.
    pub(in crate::compute) fn fixed_width_columns<'a>(
        &self,
        frame: &Frame<'a>,
        schema: &SchemaRef,
        column: Option<usize>,
    ) -> Result<FixedWidthColumns<'a>> {
        let columns = column.map_or(0..schema.fields().len(), |column| column..column + 1);
        FixedWidthColumns::load(frame, schema, columns, &self.parts)
    }

    /// Copies the rows of column number `column` as bytes side by side, if it can be copied unchanged.
    pub(super) fn block(&self, fixed_width: &FixedWidthColumns<'_>, column: usize) -> Result<Option<GrowableBuffer>> {
        fixed_width.block(column, self.picks())
    }

    /// Copies the rows of column number `column`, if it can be copied unchanged.
    fn gather_fixed_width(
        &self,
        fixed_width: &FixedWidthColumns<'_>,
        data_type: &DataType,
        column: usize,
    ) -> Result<Option<ArrayData>> {
        if !self.spans.is_empty()
            && let Some(array) = fixed_width.compress(data_type, column, &self.spans, self.len)?
        {
            return Ok(Some(array));
        }
        fixed_width.gather(data_type, column, self.picks())
    }

    /// Copies the rows of column number `column`.
    pub(in crate::compute) fn gather_column<'a>(
        &self,
        frame: &Frame<'a>,
        fixed_width: &FixedWidthColumns<'a>,
        schema: &SchemaRef,
        column: usize,
    ) -> Result<ArrayData> {
        let field = schema.field(column);
        let data_type = field.data_type();
        let gathered = match self.gather_fixed_width(fixed_width, data_type, column) {
            Ok(Some(array)) => Ok(array),
            Ok(None) if has_dictionary(data_type) => {
                // A gathered column shares dictionaries with its batches, where they have to be checked, once.
                let arrays = self.parts.iter().map(|&part| frame.checked(part, column)).collect::<Result<Vec<_>>>()?;
                let from: Vec<&UncheckedArray> = arrays.iter().map(|array| UncheckedArray::from_ref(array)).collect();
                let mut dictionaries = Vec::new();
                for array in arrays {
                    collect_dictionaries(array, &mut dictionaries);
                }
                gather_column(field, &from, self.picks()).and_then(|array| array.checked(&dictionaries))
            }
            Ok(None) => {
                let from = self.parts.iter().map(|&part| frame.unchecked(part, column)).collect::<Result<Vec<_>>>()?;
                gather(data_type, &from, self.picks()).and_then(|array| array.checked(&[]))
            }
            Err(e) => Err(e),
        };
        let array = gathered.map_err(|e| e.context(format!("column '{}'", field.name())))?;
        assert!(array.len() == self.len, "{} of {} rows gathered", array.len(), self.len);
        Ok(array)
    }
}

fn has_dictionary(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(..) => true,
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => has_dictionary(field.data_type()),
        FixedSizeList(field, _) | Map(field, _) | RunEndEncoded(_, field) => has_dictionary(field.data_type()),
        Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        Union(fields, _) => fields.iter().any(|(_, field)| has_dictionary(field.data_type())),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_keep_only_the_chunks_of_their_rows() {
        let picks = vec![(0, 1), (2, 3), (0, 5), (1, 1), (1, 0)];
        let whole = RowSelection { parts: vec![7, 8, 9], len: 5, picks: OnceLock::from(picks), spans: Vec::new() };
        let halves = whole.split().map(|half| (half.parts.clone(), half.picks().to_vec()));
        assert_eq!(halves, [(vec![7, 9], vec![(0, 1), (1, 3)]), (vec![7, 8], vec![(0, 5), (1, 1), (1, 0)])]);
    }
}
