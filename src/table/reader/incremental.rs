//! Aggregations that go on with the rows of a table as they come.

use super::table::goes_on;
use crate::compute::IncrementalAggregation;
use crate::dataset::Dataset;
use crate::error::Result;

impl IncrementalAggregation {
    /// The groups' keys and the results for the rows that are committed now, as [`Aggregation::finish`] would return them,
    /// bit for bit. After the first call only new rows are read, and those of a block that was not full; all rows again
    /// where earlier ones may be others, as rows were dropped or put in order, or where the schema has changed. So they are
    /// of a dataset that is more than one table, such as one of partitions, whenever rows have come.
    ///
    /// Only floats may differ in their last bits, where zones of an indexed column let [`Aggregation::finish`] leave out
    /// blocks of rows, and where there are thousands of groups, whose rows it adds up in other portions.
    ///
    /// ```no_run
    /// # use arrowwood::*;
    /// let ticks = open("ticks")?;
    /// let asked = ticks.aggregate(&["symbol"]).column("price", Function::Mean).named("last", "price", Function::Last);
    /// let mut means = asked.incremental()?;
    /// for rows in follow(&ticks, None, None)? {
    ///     println!("{} more rows: {}", rows?.len()?, means.refresh()?);
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Dataset::refresh`] and [`Aggregation::finish`]; the next call reads all rows again.
    ///
    /// [`Aggregation::finish`]: crate::Aggregation::finish
    pub fn refresh(&mut self) -> Result<Dataset> {
        let newest = self.dataset().refresh()?;
        let goes_on = goes_on(self.dataset(), &newest)?;
        self.advance(newest, goes_on)
    }
}
