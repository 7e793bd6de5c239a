//! Estimates the memory of groups, and returns an error before they take more than there is.

use std::ops::Range;

use super::group_state::StateKind;
use crate::array::check_memory;
use crate::compute::group::keys::KeyPart;
use crate::error::{Error, Result};
use crate::map::{can_allocate, free_memory};

/// The maximum number of bytes of groups that are allowed without asking how much memory is free, if the system
/// allocates them.
const SMALL_TOTAL: u64 = 1 << 28;
/// The maximum number of bytes of new groups that are allowed without a test allocation, too.
const SMALL_GROWTH: u64 = 1 << 20;
/// The maximum number of new groups that are expected for each new group of the previous step.
const MAX_ACCELERATION: u64 = 2;
/// The number of new groups that are always expected.
const MIN_NEW_GROUPS: u64 = 1 << 16;
/// The bytes of a key as a group has it.
const CELL_BYTES: u64 = size_of::<KeyPart<'_>>() as u64;
/// The bytes of a key: its cell, its entry in a table, of about the same size, and its value in the result.
const KEY_BYTES: u64 = 2 * CELL_BYTES + RESULT_BYTES;
/// The bytes of a group besides its keys and states: its first row and its entry in the order of groups.
const GROUP_BYTES: u64 = 24;
/// The bytes of a group in a column of the result.
const RESULT_BYTES: u64 = 16;
/// The bytes of a row for each state that keeps all values.
const VALUE_BYTES: u64 = 16;

/// The memory that the groups of an aggregation take. Rows are grouped in steps, and [`check`](MemoryEstimate::check)
/// is called before each: it assumes that new groups go on to appear at most twice as fast as in the step before.
#[derive(Debug)]
pub(in crate::compute::group) struct MemoryEstimate {
    /// The bytes of a group, without its sets.
    group: u64,
    /// The bytes of the sets of integers of a group. They are not counted for expected groups, as the sets are dropped
    /// where there are many groups.
    sets: u64,
    /// The bytes that are kept of each row.
    row: u64,
    /// The maximum number of bytes, if the caller has set one.
    max_bytes: Option<u64>,
    /// The number of groups at the previous check; `None` before the first check if each row may be a new group.
    previous_groups: Option<u64>,
}

impl MemoryEstimate {
    /// Creates an estimate for groups with `keys` keys and states of `kinds`. With `may_all_be_new`, each of the first
    /// rows may be a new group.
    pub(in crate::compute::group) fn new(
        keys: usize,
        kinds: &[StateKind],
        max_bytes: Option<u64>,
        may_all_be_new: bool,
    ) -> MemoryEstimate {
        let mut group = GROUP_BYTES + keys as u64 * KEY_BYTES + kinds.len() as u64 * RESULT_BYTES;
        let mut sets = 0;
        let mut row = 0;
        for kind in kinds {
            let bytes = kind.bytes() as u64;
            match kind {
                StateKind::Distinct { .. } => sets += bytes,
                StateKind::Values(_) => {
                    group += bytes;
                    row += VALUE_BYTES;
                }
                _ => group += bytes,
            }
        }
        let previous_groups = if may_all_be_new { None } else { Some(0) };
        MemoryEstimate { group, sets, row, max_bytes, previous_groups }
    }

    /// Checks that there is memory for rows `rows` of `num_rows`, when the rows before them have `groups` groups.
    ///
    /// # Errors
    /// `Io` if there is not.
    pub(in crate::compute::group) fn check(&mut self, rows: Range<u64>, num_rows: u64, groups: usize) -> Result<()> {
        check_memory()?;
        assert!(rows.start <= rows.end && rows.end <= num_rows, "rows {rows:?} of {num_rows}");
        let groups = groups as u64;
        let len = rows.end - rows.start;
        let new_groups = match self.previous_groups {
            None => len,
            Some(previous) => {
                assert!(previous <= groups, "{groups} groups after {previous}");
                len.min((groups - previous).saturating_mul(MAX_ACCELERATION).max(MIN_NEW_GROUPS))
            }
        };
        self.previous_groups = Some(groups);

        let sets = groups.saturating_mul(self.sets);
        let taken = self.bytes(groups, rows.start).saturating_add(sets);
        let needed = self.bytes(groups.saturating_add(new_groups), rows.end).saturating_add(sets);
        let growth = needed - taken;

        let max_bytes = match self.max_bytes {
            Some(max_bytes) => max_bytes,
            None if needed <= SMALL_TOTAL && (growth <= SMALL_GROWTH || can_allocate(growth as usize)) => return Ok(()),
            None => match free_memory() {
                Some(free) => free.saturating_add(taken),
                None => return Ok(()),
            },
        };
        if needed > max_bytes {
            return Err(Error::out_of_memory(format!(
                "grouping {num_rows} rows: there are {groups} groups in the first {}, and with the next {len} they may \
                 take {needed} bytes of memory, of which there are {max_bytes}; group parts of the rows by conditions, \
                 or by fewer columns, or ask an engine that puts groups on the disk, as DuckDB by ds.sql(…)",
                rows.start
            )));
        }
        Ok(())
    }

    /// Returns the bytes of `groups` groups, without their sets, and of `rows` rows.
    fn bytes(&self, groups: u64, rows: u64) -> u64 {
        groups.saturating_mul(self.group).saturating_add(rows.saturating_mul(self.row))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};

    use crate::{AggregateFunction, Dataset, ErrorKind};

    #[test]
    fn exceeding_the_memory_limit_is_an_error_with_both_numbers() {
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values((0..300_000).map(|row| row * 7919)));
        let few: ArrayRef = Arc::new(Int64Array::from_iter_values((0..300_000).map(|row| row % 7)));
        let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", n), ("few", few)]).unwrap()]).unwrap();
        let count = |by: &str, limit| dataset.aggregate(&[by]).count_rows("rows").memory_limit(limit).finish();
        let error = count("n", 20_000_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains("take 33600000 bytes of memory, of which there are 20000000"), "{error}");
        assert_eq!(count("n", 40_000_000).unwrap().len().unwrap(), 300_000);
        assert_eq!(count("few", 20_000_000).unwrap().len().unwrap(), 7);
        // A median keeps all values.
        let median = |limit| {
            dataset.aggregate(&["few"]).column_as("median", "n", AggregateFunction::Median).memory_limit(limit).finish()
        };
        assert_eq!(median(1_000_000).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(median(40_000_000).unwrap().len().unwrap(), 7);
    }
}
