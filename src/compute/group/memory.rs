//! What groups take of memory, and an error before they take more than there is.

use std::ops::Range;

use super::state::StateKind;
use crate::array::check_memory;
use crate::error::{Error, Result};
use crate::map::{can_allocate, free_memory};

/// So many bytes are there, unless the process may not have them.
const LITTLE: u64 = 1 << 28;
/// For so many bytes it is not worth to ask.
const FEW_BYTES: u64 = 1 << 20;
/// New groups for which there is always room.
const FEW: u64 = 1 << 16;
/// The bytes of a key: its cell, its place in a table, and in the result.
const KEY: u64 = 24 + 24 + 16;
/// The bytes of a group beside its keys and states: its first row and its place in the result.
const GROUP: u64 = 24;
/// The bytes of a column of the result.
const RESULT: u64 = 16;

/// The memory that the groups of an aggregation take.
#[derive(Debug)]
pub(super) struct MemoryEstimate {
    /// The bytes of a group, without its sets.
    group: u64,
    /// The bytes of its sets of integers. They are given up where there are many groups, so new ones don't count.
    sets: u64,
    /// The bytes that are kept of each row.
    row: u64,
    /// The most bytes that may be taken, where somebody has said so.
    most: Option<u64>,
    /// The groups before the last rows that were looked at; `None` before the first ones of which any may be a new group.
    before: Option<u64>,
}

impl MemoryEstimate {
    /// `is_any_new` tells whether each of the first rows may be a new group.
    pub(super) fn new(keys: usize, kinds: &[StateKind], most: Option<u64>, is_any_new: bool) -> MemoryEstimate {
        let is_set = |kind: &&StateKind| matches!(kind, StateKind::Distinct { .. });
        let sets: usize = kinds.iter().filter(is_set).map(StateKind::bytes).sum();
        let states = kinds.iter().map(StateKind::bytes).sum::<usize>() - sets;
        let group = GROUP + keys as u64 * KEY + states as u64 + kinds.len() as u64 * RESULT;
        let row = kinds.iter().filter(|kind| matches!(kind, StateKind::Values(_))).count() as u64 * 16;
        MemoryEstimate { group, sets: sets as u64, row, most, before: (!is_any_new).then_some(0) }
    }

    /// Checks that there is memory for rows `rows` of `of`, before which there are `groups` groups.
    ///
    /// # Errors
    /// `Io` if there is not.
    pub(super) fn check(&mut self, rows: Range<u64>, of: u64, groups: usize) -> Result<()> {
        check_memory()?;
        let groups = groups as u64;
        let len = rows.end - rows.start;
        // Rows go on as those before them, or a little worse.
        let new = self.before.map_or(len, |before| len.min(groups.saturating_sub(before).saturating_mul(2).max(FEW)));
        self.before = Some(groups);
        let sets = groups.saturating_mul(self.sets);
        let bytes = |groups: u64, rows: u64| {
            groups.saturating_mul(self.group).saturating_add(rows.saturating_mul(self.row)).saturating_add(sets)
        };
        let (taken, needed) = (bytes(groups, rows.start), bytes(groups.saturating_add(new), rows.end));
        let more = needed.saturating_sub(taken);
        let is_little = needed <= LITTLE && (more <= FEW_BYTES || can_allocate(more as usize));
        if self.most.is_none() && is_little {
            return Ok(());
        }
        let most = self.most.or_else(|| free_memory().map(|free| free.saturating_add(taken)));
        match most {
            Some(most) if needed > most => Err(Error::out_of_memory(format!(
                "grouping {of} rows: there are {groups} groups in the first {}, and with the next {len} they may take {needed} \
                 bytes of memory, of which there are {most}; group parts of the rows by conditions, or by fewer columns, or \
                 ask an engine that puts groups on the disk, as DuckDB by ds.sql(…)",
                rows.start
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};

    use crate::{AggregateFunction, Dataset, ErrorKind};

    #[test]
    fn groups_that_need_more_memory_than_there_may_be_are_an_error_that_says_how_much() {
        let n: ArrayRef = Arc::new(Int64Array::from_iter_values((0..300_000).map(|row| row * 7919)));
        let few: ArrayRef = Arc::new(Int64Array::from_iter_values((0..300_000).map(|row| row % 7)));
        let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", n), ("few", few)]).unwrap()]).unwrap();
        let of = |by: &str, most| dataset.aggregate(&[by]).count_rows("rows").memory_limit(most).finish();
        let error = of("n", 20_000_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains("take 33600000 bytes of memory, of which there are 20000000"), "{error}");
        assert_eq!(of("n", 40_000_000).unwrap().len().unwrap(), 300_000);
        assert_eq!(of("few", 20_000_000).unwrap().len().unwrap(), 7);
        // A median keeps all values.
        let median = |most| {
            dataset.aggregate(&["few"]).column_as("median", "n", AggregateFunction::Median).memory_limit(most).finish()
        };
        assert_eq!(median(1_000_000).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(median(40_000_000).unwrap().len().unwrap(), 7);
    }
}
