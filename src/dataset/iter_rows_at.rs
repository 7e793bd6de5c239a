//! Rows by their numbers, the values of later ones being loaded while earlier ones are read.

use std::collections::VecDeque;

use super::dataset::Dataset;
use super::row::Row;
use crate::error::{Error, Result};
use crate::map::guard;

/// The rows whose values are on the way: the values of a row are as many waits for memory, which processors do side by side only
/// if they know of them.
const AHEAD: usize = 8;

impl Dataset {
    /// Rows `rows`, in that order, each as by [`row`](Dataset::row). Of rows that lie anywhere in large data this takes a fraction
    /// of the time, as the values of later rows are loaded while earlier ones are read.
    ///
    /// ```
    /// # use arrowwood::*;
    /// # use std::sync::Arc;
    /// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    /// # let batch = arrow_array::RecordBatch::try_from_iter([("n", array)]).unwrap();
    /// # let dataset = Dataset::try_from(vec![batch])?;
    /// let some = dataset.iter_rows_at([2, 0]).map(|row| Ok(row?.get(0)?.to_string()));
    /// assert_eq!(some.collect::<Result<Vec<_>>>()?, ["3", "1"]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// For a row: as [`row`](Dataset::row).
    pub fn iter_rows_at<I: IntoIterator<Item = u64>>(
        &self,
        rows: I,
    ) -> impl Iterator<Item = Result<Row<'_>>> + use<'_, I> {
        // It is asked again while rows that it gave are left.
        let mut rows = rows.into_iter().fuse();
        let mut ahead: VecDeque<Result<Row<'_>>> = VecDeque::with_capacity(AHEAD);
        std::iter::from_fn(move || {
            while ahead.len() < AHEAD
                && let Some(row) = rows.next()
            {
                ahead.push_back(self.row(row).map(Row::for_random_access));
                let of = |number: Option<usize>| number.and_then(|number| ahead.get(number)?.as_ref().ok());
                let loaded = guard(|| {
                    of(ahead.len().checked_sub(1)).inspect(|row| row.load_soon());
                    // By now it is known where their texts are.
                    of(ahead.len().checked_sub(AHEAD / 2)).inspect(|row| row.load_texts_soon());
                    Ok::<(), Error>(())
                });
                // What is lost is found so by who reads it.
                drop(loaded);
            }
            ahead.pop_front()
        })
    }
}
