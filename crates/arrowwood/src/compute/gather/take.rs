//! Gathers any rows of a dataset: `take` and `sample`.

use super::row_selection::gather_rows;
use crate::array::room_for;
use crate::compute::random::SplitMix64;
use crate::compute::scan::Frame;
use crate::dataset::{Dataset, SourceSlice};
use crate::error::{Error, ErrorKind, Result};
use crate::map::ChangeCheck;

/// # Copies of some rows
impl Dataset {
    /// Copies the rows `indices`, in that order, to new memory.
    ///
    /// Negative indices count from the end; rows may be repeated. The cost depends on the rows, not on the dataset's
    /// size; if batches have their own dictionaries, the first call checks a column of keys as a whole.
    ///
    /// ```
    /// # use arrowwood::{CsvOptions, Dataset, Value, read_csv_from};
    /// # let (schema, batches) = read_csv_from("n\n10\n20\n30\n".as_bytes(), &CsvOptions::default())?;
    /// # let dataset = Dataset::from_batches(schema, batches)?;
    /// let rows = dataset.take(&[2, 0, -1])?;
    /// assert!(matches!(rows.column("n")?.sum()?, Value::Int128(70)));
    /// # Ok::<(), arrowwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// `RowOutOfRange`, naming the first index out of range.
    pub fn take(&self, indices: &[i64]) -> Result<Dataset> {
        self.with_change_check(ChangeCheck::Now, || {
            let (dataset, rows) = resolve_views(self, resolve_indices(indices, self.index()?.rows())?)?;
            gather_rows(&dataset, &Frame::try_new(&dataset)?, rows.len(), |i| rows[i])
        })
    }

    /// Returns `n` distinct rows, chosen uniformly, in the order drawn.
    ///
    /// The same `seed` and number of rows give the same sample on every machine.
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

/// Returns the dataset behind the views that this one consists of, and the numbers that rows `rows` have there: a
/// view itself would gather whole batches. If the dataset is no view, returns it and `rows`.
pub(in crate::compute) fn resolve_views(view: &Dataset, mut rows: Vec<u64>) -> Result<(Dataset, Vec<u64>)> {
    let mut dataset = view.clone();
    loop {
        let [SourceSlice { source, columns, start, .. }] = dataset.pieces() else { return Ok((dataset, rows)) };
        let mut view_rows = rows.iter().map(|row| start.saturating_add(*row));
        let Some((base, base_rows)) = source.view().and_then(|view| view.resolve_rows(&mut view_rows)) else {
            return Ok((dataset, rows));
        };
        assert!(base_rows.len() == rows.len(), "{} rows behind {} of a view", base_rows.len(), rows.len());
        let pieces = base.iter().map(|piece| select_columns(piece, columns)).collect();
        dataset = Dataset::from_slices(dataset.schema().clone(), pieces);
        rows = base_rows;
    }
}

/// Returns the piece with some of its columns only.
pub(in crate::compute) fn select_columns(piece: &SourceSlice, columns: &[usize]) -> SourceSlice {
    SourceSlice { columns: columns.iter().map(|&column| piece.columns[column]).collect(), ..piece.clone() }
}

/// Resolves `indices`, of which negative ones count from the end, among `rows` rows.
fn resolve_indices(indices: &[i64], rows: u64) -> Result<Vec<u64>> {
    let mut resolved = room_for(indices.len() as u64, "rows to take")?;
    for &index in indices {
        let row = match u64::try_from(index) {
            Ok(row) if row < rows => Some(row),
            Ok(_) => None,
            Err(_) => rows.checked_sub(index.unsigned_abs()),
        };
        let Some(row) = row else {
            return Err(Error::new(ErrorKind::RowOutOfRange, format!("row {index} of a dataset of {rows} rows")));
        };
        resolved.push(row);
    }
    Ok(resolved)
}
