//! `take` and `sample`: gather any rows of a dataset.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};
use hashbrown::HashMap;

use super::fixed_width::FixedWidthColumns;
use super::mask::{Mask, SelectedRows};
use super::random::SplitMix64;
use crate::array::gather::{Pick, gather, gather_column};
use crate::array::merge_dictionaries::collect_dictionaries;
use crate::array::{UncheckedArray, byte_size, check_memory, room_for};
use crate::compute::frame::{ANYWHERE, Frame};
use crate::dataset::{Dataset, SourceSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::map::{ChangeCheck, GrowableBuffer, free_memory};
use crate::parallel;

/// The maximum rows in a batch of gathered rows.
pub(super) const BATCH: usize = 1 << 20;

impl Dataset {
    /// The rows `indices`, in that order, copied to new memory. Negative indices count from the end; rows may be
    /// repeated. The cost depends on the rows, not on the dataset's size; if batches have their own dictionaries, the
    /// first call checks a column of keys as a whole.
    ///
    /// # Errors
    /// `RowOutOfRange`, naming the first index out of range.
    pub fn take(&self, indices: &[i64]) -> Result<Dataset> {
        self.with_change_check(ChangeCheck::Now, || {
            let (dataset, rows) = self.behind(positions(indices, self.index()?.rows())?)?;
            gather_rows(&dataset, &Frame::try_new(&dataset)?, rows.len(), |i| rows[i])
        })
    }

    /// Rows `rows` as rows of the dataset behind the views that this one is made of, if it is only of them: a view gathers
    /// whole batches.
    pub(super) fn behind(&self, mut rows: Vec<u64>) -> Result<(Dataset, Vec<u64>)> {
        let mut dataset = self.clone();
        loop {
            let [SourceSlice { source, columns, start, .. }] = dataset.pieces() else { return Ok((dataset, rows)) };
            let mut shown = rows.iter().map(|row| start.saturating_add(*row));
            let Some((base, numbers)) = source.view().and_then(|view| view.resolve_rows(&mut shown)) else {
                return Ok((dataset, rows));
            };
            let narrow = |piece: &SourceSlice| {
                let columns = columns.iter().map(|&column| piece.columns[column]).collect();
                SourceSlice { columns, ..piece.clone() }
            };
            let pieces = base.iter().map(narrow).collect();
            dataset = Dataset::from_slices(dataset.schema().clone(), pieces);
            rows = numbers;
        }
    }

    /// `n` distinct rows, chosen uniformly, in the order drawn. The same `seed` and number of rows give the same sample
    /// on every machine.
    ///
    /// # Errors
    /// `InvalidArgument` if the dataset has fewer rows.
    pub fn sample(&self, n: u64, seed: u64) -> Result<Dataset> {
        let rows = self.len()?;
        if n > rows {
            return Err(Error::invalid_argument(format!("a sample of {n} different rows of only {rows}")));
        }
        let drawn = SplitMix64::new(seed).sample(n, rows)?;
        self.with_change_check(ChangeCheck::Now, || {
            gather_rows(self, &Frame::try_new(self)?, drawn.len(), |i| drawn[i])
        })
    }
}

/// Resolves `indices` among `rows`.
fn positions(indices: &[i64], rows: u64) -> Result<Vec<u64>> {
    let mut found = room_for(indices.len() as u64, "rows to take")?;
    for &index in indices {
        let row = match u64::try_from(index) {
            Ok(row) => Some(row).filter(|&row| row < rows),
            Err(_) => rows.checked_sub(index.unsigned_abs()),
        };
        let outside = || Error::new(ErrorKind::RowOutOfRange, format!("row {index} of a dataset of {rows} rows"));
        found.push(row.ok_or_else(outside)?);
    }
    Ok(found)
}

/// `count` rows of `dataset`, the one at `i` being `row(i)`, which must exist.
pub(in crate::compute) fn gather_rows(
    dataset: &Dataset,
    frame: &Frame<'_>,
    count: usize,
    row: impl Fn(usize) -> u64 + Sync,
) -> Result<Dataset> {
    let chunks: Vec<_> = (0..count).step_by(BATCH).map(|start| start..count.min(start + BATCH)).collect();
    let picked = parallel::map(chunks.len(), count.saturating_mul(16), |chunk| {
        RowSelection::from_rows(frame, chunks[chunk].clone().map(&row))
    });
    gather_picked(dataset, frame, picked)
}

/// A dataset of the rows of each of `picked`, with all columns.
pub(super) fn gather_picked(dataset: &Dataset, frame: &Frame<'_>, picked: Vec<RowSelection>) -> Result<Dataset> {
    let schema = dataset.schema();
    let mut picked: Vec<RowSelection> = picked.into_iter().filter(|picked| picked.len() > 0).collect();
    let columns = schema.fields().len();
    loop {
        let rows: usize = picked.iter().map(RowSelection::len).sum();
        let bytes = rows.saturating_mul(columns).saturating_mul(ANYWHERE);
        let plains = parallel::map(picked.len(), bytes, |batch| picked[batch].fixed_width_columns(frame, schema, None));
        let plains = plains.into_iter().collect::<Result<Vec<_>>>()?;
        let made = AtomicU64::new(0);
        let arrays = parallel::map(picked.len() * columns, bytes, |job| {
            check_more(made.load(Ordering::Relaxed))?;
            let array = picked[job / columns].gather_column(frame, &plains[job / columns], schema, job % columns)?;
            made.fetch_add(byte_size(UncheckedArray::from_ref(&array), 0..array.len()), Ordering::Relaxed);
            Ok(array)
        });
        let too_large = |e: &Error| e.kind() == ErrorKind::Unsupported;
        let split: Vec<bool> = (0..picked.len())
            .map(|batch| arrays[batch * columns..][..columns].iter().any(|a| a.as_ref().err().is_some_and(too_large)))
            .collect();
        // A row that is too large alone stays so, however the others are cut.
        let is_divisible = split.iter().zip(&picked).all(|(split, picked)| !split || picked.len() > 1);
        if is_divisible && split.contains(&true) {
            // Offsets or keys too narrow for all rows are wide enough for fewer.
            picked = picked.into_iter().zip(split).flat_map(|(picked, split)| picked.halves(split)).collect();
            continue;
        }
        let mut arrays = arrays.into_iter();
        let batch = |picked: &RowSelection| Ok((picked.len(), arrays.by_ref().take(columns).collect::<Result<_>>()?));
        let batches = picked.iter().map(batch).collect::<Result<Vec<_>>>()?;
        return Ok(Dataset::from_arrays(schema.clone(), batches));
    }
}

/// Checks that memory is left for another array beside those of `made` bytes: a few bytes may say that many rows are the
/// same large one.
fn check_more(made: u64) -> Result<()> {
    /// The memory that is always there, and that is left for others.
    const LITTLE: u64 = 256 << 20;
    check_memory()?;
    if made < LITTLE || free_memory().is_none_or(|free| free > LITTLE) {
        return Ok(());
    }
    Err(Error::out_of_memory(format!("no memory is left for more rows than those of {made} bytes; take fewer")))
}

/// Rows of a future batch: their source batches, and the rows in them.
#[derive(Debug, Default)]
pub(in crate::compute) struct RowSelection {
    parts: Vec<usize>,
    /// Rows one by one; if selected by bits, only made if a column needs them.
    picks: OnceLock<Vec<Pick>>,
    /// Rows in order, as bits.
    spans: Vec<SelectedRows>,
    len: usize,
}

impl RowSelection {
    /// The rows `rows` of a dataset.
    pub(in crate::compute) fn from_rows(frame: &Frame<'_>, rows: impl Iterator<Item = u64>) -> RowSelection {
        let mut picked = RowSelection::default();
        let mut numbers = vec![u32::MAX; frame.num_parts()];
        let mut picks = Vec::with_capacity(rows.size_hint().0);
        // The batch of the row before: its rows in the dataset, its number here, and its first row.
        let (mut near, mut number, mut first) = (0..0, 0, 0);
        for row in rows {
            if !near.contains(&row) {
                let Some(part) = frame.part_at(row) else { continue };
                let inside = frame.rows_of(part);
                let start = frame.start(part);
                near = start..start + inside.len() as u64;
                first = inside.start;
                if numbers[part] == u32::MAX {
                    numbers[part] = picked.parts.len() as u32;
                    picked.parts.push(part);
                }
                number = numbers[part];
            }
            picks.push((number, first + (row - near.start) as usize));
        }
        RowSelection { len: picks.len(), picks: OnceLock::from(picks), ..picked }
    }

    /// Appends the selected rows among `rows` of batch `part`.
    pub(super) fn add(&mut self, part: usize, rows: Range<usize>, mask: Mask) {
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

    /// The number of rows.
    pub(in crate::compute) fn len(&self) -> usize {
        self.len
    }

    fn picks(&self) -> &[Pick] {
        let rows = |span: &SelectedRows| {
            let part = span.part;
            let start = span.rows.start;
            span.mask.rows().map(move |row| (part, start + row)).collect::<Vec<_>>()
        };
        self.picks.get_or_init(|| self.spans.iter().flat_map(rows).collect())
    }

    fn halves(self, split: bool) -> Vec<RowSelection> {
        if !split || self.len < 2 {
            return vec![self];
        }
        // Only the parts that it uses: halves of halves would keep the list of all parts for each of their rows.
        let half = |picks: &[Pick]| {
            let mut numbers = HashMap::new();
            let mut parts = Vec::new();
            let own = |&(part, row): &Pick| {
                let number = *numbers.entry(part).or_insert_with(|| {
                    parts.push(self.parts[part as usize]);
                    parts.len() as u32 - 1
                });
                (number, row)
            };
            let picks: Vec<Pick> = picks.iter().map(own).collect();
            RowSelection { parts, len: picks.len(), picks: OnceLock::from(picks), spans: Vec::new() }
        };
        let (first, second) = self.picks().split_at(self.len / 2);
        vec![half(first), half(second)]
    }

    /// The columns of the rows' batches that can be copied unchanged, one or all.
    pub(in crate::compute) fn fixed_width_columns<'a>(
        &self,
        frame: &Frame<'a>,
        schema: &SchemaRef,
        column: Option<usize>,
    ) -> Result<FixedWidthColumns<'a>> {
        let columns = column.map_or(0..schema.fields().len(), |column| column..column + 1);
        FixedWidthColumns::load(frame, schema, columns, &self.parts)
    }

    /// The rows of column number `column` as bytes side by side, if it can be copied unchanged.
    pub(super) fn block(&self, plains: &FixedWidthColumns<'_>, column: usize) -> Result<Option<GrowableBuffer>> {
        plains.block(column, self.picks())
    }

    /// The rows of column number `column`, if it can be copied unchanged.
    fn plain(&self, plains: &FixedWidthColumns<'_>, data_type: &DataType, column: usize) -> Result<Option<ArrayData>> {
        if !self.spans.is_empty()
            && let Some(array) = plains.compress(data_type, column, &self.spans, self.len)?
        {
            return Ok(Some(array));
        }
        plains.gather(data_type, column, self.picks())
    }

    /// Column number `column` of the rows.
    pub(in crate::compute) fn gather_column<'a>(
        &self,
        frame: &Frame<'a>,
        plains: &FixedWidthColumns<'a>,
        schema: &SchemaRef,
        column: usize,
    ) -> Result<ArrayData> {
        let field = schema.field(column);
        let data_type = field.data_type();
        let name = || format!("column '{}'", field.name());
        if let Some(array) = self.plain(plains, data_type, column).map_err(|e| e.context(name()))? {
            return Ok(array);
        }
        // Parts shared by a gathered column with its batches have to be checked there, once.
        if !has_dictionary(data_type) {
            let from = self.parts.iter().map(|&part| frame.unchecked(part, column)).collect::<Result<Vec<_>>>()?;
            let gathered = gather(data_type, &from, self.picks()).and_then(|gathered| gathered.checked(&[]));
            return gathered.map_err(|e| e.context(name()));
        }
        let shared = self.parts.iter().map(|&part| frame.checked(part, column)).collect::<Result<Vec<_>>>()?;
        let from: Vec<&UncheckedArray> = shared.iter().map(|array| UncheckedArray::from_ref(array)).collect();
        let mut known = Vec::new();
        shared.iter().for_each(|array| collect_dictionaries(array, &mut known));
        let gathered = gather_column(field, &from, self.picks()).and_then(|gathered| gathered.checked(&known));
        gathered.map_err(|e| e.context(name()))
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
    fn halves_keep_only_the_parts_of_their_rows() {
        let of = |parts: Vec<usize>, picks: Vec<Pick>| RowSelection {
            parts,
            len: picks.len(),
            picks: OnceLock::from(picks),
            spans: Vec::new(),
        };
        let whole = of(vec![7, 8, 9], vec![(0, 1), (2, 3), (0, 5), (1, 1), (1, 0)]);
        let found = whole.halves(true);
        let found: Vec<_> = found.iter().map(|half| (half.parts.clone(), half.picks().to_vec())).collect();
        assert_eq!(found, [(vec![7, 9], vec![(0, 1), (1, 3)]), (vec![7, 8], vec![(0, 5), (1, 1), (1, 0)])]);
        assert_eq!(of(vec![7], vec![(0, 1)]).halves(true).len(), 1);
        assert_eq!(of(vec![7], vec![(0, 1), (0, 2)]).halves(false).len(), 1);
    }
}
