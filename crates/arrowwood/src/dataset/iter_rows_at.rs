//! [`Dataset::iter_rows_at`]: reads scattered rows, and loads the values of later rows while earlier ones are read.

use std::collections::VecDeque;

use super::dataset::Dataset;
use super::row::Row;
use crate::error::{Error, Result};
use crate::map::guard;

/// The number of rows whose values are being loaded. Each value of a row is a wait for memory; processors overlap these
/// waits only if they know the addresses in advance. Looking ahead by themselves doesn't suffice if the caller makes an
/// object of each value. With eight rows at a time, a row of 17 columns takes half the time.
const AHEAD: usize = 8;

/// # Scattered rows
impl Dataset {
    /// Returns rows `rows`, in that order, each as [`row`](Dataset::row) would.
    ///
    /// Takes a fraction of the time for scattered rows of large data, as the values of later rows are loaded while
    /// earlier ones are read.
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
        // Fused, since it is polled again after its end, while rows are left in the queue.
        let mut rows = rows.into_iter().fuse();
        let mut ahead: VecDeque<Result<Row<'_>>> = VecDeque::with_capacity(AHEAD);
        std::iter::from_fn(move || {
            while ahead.len() < AHEAD
                && let Some(row) = rows.next()
            {
                ahead.push_back(self.row(row).map(Row::for_random_access));
                // A fault is reported when the row is read.
                drop(guard(|| {
                    if let Some(Ok(row)) = ahead.back() {
                        row.load_soon();
                    }
                    // The offsets of an earlier row have arrived by now, so the addresses of its texts are known.
                    if let Some(earlier) = ahead.len().checked_sub(AHEAD / 2)
                        && let Some(Ok(row)) = ahead.get(earlier)
                    {
                        row.load_texts_soon();
                    }
                    Ok::<(), Error>(())
                }));
            }
            ahead.pop_front()
        })
    }
}
