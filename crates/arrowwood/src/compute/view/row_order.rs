//! Stores the numbers of rows in the order of a view.

use crate::array::room_for;
use crate::error::Result;

/// Row numbers, in the bytes they need.
#[derive(Debug)]
pub(in crate::compute) enum RowOrder {
    Short(Vec<u32>),
    Long(Vec<u64>),
}

impl RowOrder {
    /// Collects `rows`, each of which is less than `end`.
    ///
    /// # Errors
    /// `Io` if memory has no room for them.
    pub(in crate::compute) fn try_from_rows(end: u64, rows: impl Iterator<Item = u64>) -> Result<RowOrder> {
        Ok(match u32::try_from(end) {
            Ok(_) => RowOrder::Short(try_collect(rows.map(|row| {
                debug_assert!(row < end, "row {row} of {end}");
                row as u32
            }))?),
            Err(_) => RowOrder::Long(try_collect(rows)?),
        })
    }

    pub(in crate::compute) fn into_row_numbers(self) -> Result<Vec<u64>> {
        match self {
            RowOrder::Short(rows) => try_collect(rows.into_iter().map(u64::from)),
            RowOrder::Long(rows) => Ok(rows),
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            RowOrder::Short(rows) => rows.len() as u64,
            RowOrder::Long(rows) => rows.len() as u64,
        }
    }

    pub(super) fn get(&self, row: u64) -> Option<u64> {
        let row = usize::try_from(row).ok()?;
        match self {
            RowOrder::Short(rows) => rows.get(row).map(|&row| row.into()),
            RowOrder::Long(rows) => rows.get(row).copied(),
        }
    }
}

/// Collects the numbers of rows. Data without bytes may claim any number of rows.
///
/// # Errors
/// `Io` if memory has no room for them.
pub(in crate::compute) fn try_collect<T>(rows: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut numbers = room_for(rows.size_hint().0 as u64, "numbers of rows")?;
    numbers.extend(rows);
    Ok(numbers)
}
