//! Continues aggregations with new rows of a table.

use super::table::goes_on;
use crate::compute::IncrementalAggregation;
use crate::dataset::Dataset;
use crate::error::{ErrorKind, Result};

/// The maximum number of attempts if rows are dropped after a refresh and before they are read.
const MAX_ATTEMPTS: usize = 16;

impl IncrementalAggregation {
    /// Returns the groups' keys and the results for all committed rows.
    ///
    /// They are those of [`Aggregation::finish`], bit for bit. After the first call only new rows are read, and the
    /// rows of the last block if it was not full. All rows are read again if earlier ones may have changed, because
    /// rows were dropped or sorted, or the schema has changed. A dataset of more than one table, such as one of
    /// partitions, is read again at each change.
    ///
    /// Only floats may differ in their last bits: if zones of an indexed column let [`Aggregation::finish`] skip blocks
    /// of rows, or if there are thousands of groups, whose rows it adds up in other portions.
    ///
    /// ```no_run
    /// # use arrowwood::*;
    /// let ticks = open("ticks")?;
    /// let asked = ticks
    ///     .aggregate(&["symbol"])
    ///     .column("price", AggregateFunction::Mean)
    ///     .column_as("last", "price", AggregateFunction::Last);
    /// let mut means = asked.incremental()?;
    /// for rows in follow(&ticks, None, None)? {
    ///     println!("{} more rows: {}", rows?.len()?, means.refresh()?);
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Dataset::refresh`] and [`Aggregation::finish`]; the next call reads all rows again.
    ///
    /// [`Aggregation::finish`]: crate::Aggregation::finish
    pub fn refresh(&mut self) -> Result<Dataset> {
        let mut answer = self.refresh_once();
        for _ in 1..MAX_ATTEMPTS {
            // A segment that was not found is not in the next dataset.
            if !matches!(&answer, Err(e) if e.kind() == ErrorKind::NotFound) {
                break;
            }
            answer = self.refresh_once();
        }
        answer
    }

    fn refresh_once(&mut self) -> Result<Dataset> {
        let newest = self.dataset().refresh()?;
        let is_continuation = goes_on(self.dataset(), &newest)?;
        self.advance(newest, is_continuation)
    }
}
