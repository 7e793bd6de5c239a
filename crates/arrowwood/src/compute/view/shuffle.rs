//! Shuffles rows.

use super::reordered::reordered_view;
use super::row_order::{RowOrder, try_collect};
use crate::compute::random::SplitMix64;
use crate::dataset::Dataset;
use crate::error::Result;

/// # Rows in random order
impl Dataset {
    /// Returns all rows in a uniformly random order. The same `seed` gives the same order on every machine.
    ///
    /// The result is a view of four or eight bytes a row: [`row`](Dataset::row) reads a row in place; columns used as a
    /// whole are gathered, in batches of at most 65,536 rows, and cached by the view. A slice gathers its own rows.
    ///
    /// # Errors
    /// As [`Dataset::len`]; `Io` if memory has no room for the order.
    pub fn shuffle(&self, seed: u64) -> Result<Dataset> {
        let rows = self.len()?;
        let order = match u32::try_from(rows) {
            Ok(rows) => RowOrder::Short(shuffle(0..rows, seed)?),
            Err(_) => RowOrder::Long(shuffle(0..rows, seed)?),
        };
        reordered_view(self, order)
    }
}

fn shuffle<T>(rows: impl Iterator<Item = T>, seed: u64) -> Result<Vec<T>> {
    let mut order = try_collect(rows)?;
    SplitMix64::new(seed).shuffle(&mut order);
    Ok(order)
}
