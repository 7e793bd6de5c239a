//! Aggregates a dataset that grows, and keeps the states of the groups between two answers.
//!
//! The states after the last full block of rows are kept. They are merged as in `aggregate`, so that answers are the
//! same bit for bit, except for sums of floats by very many groups, which `aggregate` computes in partitions. States
//! refer to rows by number: the keys of a group are read again from its first row.
//!
//! The rows after the last full block are read again for each answer: if a sum of floats went on within a block, its
//! last bits would differ.

use std::fmt;

use super::aggregate::{AggregateExpr, Aggregation};
use super::keys::{key_part, with_plain_booleans};
use super::plan::{GroupPlan, InputBlocks};
use super::state::{AggregateFunction, GroupState, GroupTable, OrderedGroups, StateSnapshot};
use crate::compute::expr::Predicate;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;

/// An aggregation of a table that grows, made by [`Aggregation::incremental`].
///
/// Each answer equals the result of [`Aggregation::finish`] for all rows of the table, and takes time for the new rows
/// and for the groups.
#[derive(Debug)]
pub struct IncrementalAggregation {
    /// The rows of the last answer.
    dataset: Dataset,
    by: Vec<String>,
    predicate: Option<Predicate>,
    outputs: Vec<AggregateExpr>,
    snapshot: Option<GroupSnapshot>,
    rows_read: u64,
}

/// The groups after the last full block.
struct GroupSnapshot {
    /// The row of the dataset where the first block begins: the order of the dataset excludes the rows before it.
    start: u64,
    /// The number of full blocks.
    blocks: usize,
    /// The number of rows of each.
    block_rows: usize,
    /// The same number, if the number of groups in the first block has decided about it. The next answer decides again
    /// if it has not.
    size: Option<usize>,
    /// The first row of each group, counted from `start`.
    firsts: Vec<u64>,
    states: Vec<StateSnapshot>,
}

/// Shows how many groups there are: they may be millions.
impl fmt::Debug for GroupSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("GroupSnapshot");
        shown.field("blocks", &self.blocks).field("groups", &self.firsts.len()).finish_non_exhaustive()
    }
}

impl Aggregation<'_> {
    /// Returns the same aggregation for a dataset that grows.
    ///
    /// It keeps the states of the groups, so that later answers read only new rows. This function reads no rows.
    ///
    /// # Errors
    /// The errors of [`finish`](Aggregation::finish); `Unsupported` for `Median` and `NUnique`, whose states are as
    /// large as the rows, and for groups by columns of `arrow.bool8`.
    pub fn incremental(&self) -> Result<IncrementalAggregation> {
        GroupPlan::try_new(self)?;
        for output in &self.outputs {
            if let Some((_, function @ (AggregateFunction::Median | AggregateFunction::NUnique))) = &output.input {
                let message = format!("{function} can't be kept up to date without all rows; aggregate them each time");
                return Err(Error::unsupported(message));
            }
        }
        if with_plain_booleans(&self.dataset.head(0)?, &self.by)?.is_some() {
            let message = "groups by columns of arrow.bool8 can't be kept up to date; aggregate the rows each time";
            return Err(Error::unsupported(message));
        }
        Ok(IncrementalAggregation {
            dataset: self.dataset.clone(),
            by: self.by.clone(),
            predicate: self.predicate.clone(),
            outputs: self.outputs.clone(),
            snapshot: None,
            rows_read: 0,
        })
    }
}

impl IncrementalAggregation {
    /// Returns the dataset of the last answer.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Returns the number of rows that were read for the last answer.
    ///
    /// These are the new rows, and the rows of the block that was not full before.
    pub fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// Returns the answer for `newer`. With `is_continuation`, it has the rows of the dataset before, and others only
    /// after them.
    ///
    /// # Errors
    /// The errors of [`Aggregation::finish`]. The next answer reads all rows again.
    pub(crate) fn advance(&mut self, newer: Dataset, is_continuation: bool) -> Result<Dataset> {
        let snapshot = self.snapshot.take().filter(|_| is_continuation);
        self.dataset = newer.clone();
        self.rows_read = 0;
        let start = match &snapshot {
            Some(snapshot) => Some(snapshot.start),
            None => self.first_row()?,
        };
        let Some(start) = start else {
            // No row is between the bounds: the first block will begin at the first row that is.
            return self.aggregation(&self.dataset.head(0)?).finish();
        };
        let rows = if start == 0 { newer.clone() } else { newer.slice(start, u64::MAX)? };
        let mut plan = GroupPlan::try_new(&self.aggregation(&rows))?;
        plan.whole = newer;
        let (answer, snapshot, rows_read) =
            rows.with_change_check(ChangeCheck::Now, || plan.advance(&rows, snapshot, start))?;
        self.snapshot = Some(snapshot);
        self.rows_read = rows_read;
        Ok(answer)
    }

    /// Returns the first row between the predicate's bounds on a sorted column; `None` if there is none.
    fn first_row(&self) -> Result<Option<u64>> {
        let Some(predicate) = &self.predicate else { return Ok(Some(0)) };
        let between_bounds = self.dataset.prune_contiguous(predicate)?;
        if between_bounds.is_empty()? {
            return Ok(None);
        }
        let first = between_bounds.first_row().checked_sub(self.dataset.first_row());
        first.map(Some).ok_or_else(|| Error::internal("rows between bounds lie before their dataset"))
    }

    fn aggregation<'a>(&self, dataset: &'a Dataset) -> Aggregation<'a> {
        Aggregation {
            rows: None,
            dataset,
            by: self.by.clone(),
            predicate: self.predicate.clone(),
            outputs: self.outputs.clone(),
            watch: None,
            memory: None,
        }
    }
}

impl GroupPlan {
    /// Returns the answer for `rows`, the snapshot for the next answer, and the number of rows that were read.
    fn advance(
        &self,
        rows: &Dataset,
        snapshot: Option<GroupSnapshot>,
        start: u64,
    ) -> Result<(Dataset, GroupSnapshot, u64)> {
        let mut size = snapshot.as_ref().and_then(|snapshot| snapshot.size);
        let blocks = self.blocks(rows, &mut size)?;
        let block_rows = blocks.frame.block_rows();
        let snapshot = snapshot.filter(|snapshot| snapshot.block_rows == block_rows);
        let snapshot_blocks = snapshot.as_ref().map_or(0, |snapshot| snapshot.blocks);
        let mut table = GroupTable::new(self.keys.len(), &self.kinds);
        if let Some(snapshot) = &snapshot {
            self.restore(snapshot, &blocks, &mut table)?;
        }

        let full_blocks = usize::try_from(blocks.frame.num_rows() / block_rows as u64).unwrap_or(usize::MAX);
        if full_blocks < snapshot_blocks {
            return Err(Error::internal(format!("{full_blocks} blocks continue a snapshot of {snapshot_blocks}")));
        }
        self.add_blocks(&blocks, snapshot_blocks..full_blocks, None, &mut table)?;
        let snapshot = match snapshot {
            Some(snapshot) if full_blocks == snapshot_blocks => GroupSnapshot { size, ..snapshot },
            _ => {
                let states = table.states.iter().map(GroupState::snapshot).collect();
                GroupSnapshot { start, blocks: full_blocks, block_rows, size, firsts: table.firsts.clone(), states }
            }
        };

        self.add_blocks(&blocks, full_blocks..blocks.frame.num_blocks(), None, &mut table)?;
        let rows_read = blocks.frame.num_rows() - blocks.frame.block_start(snapshot_blocks);
        let answer = self.finish(rows, &blocks.frame, &OrderedGroups::from_table(table))?;
        Ok((answer, snapshot, rows_read))
    }

    /// Adds the groups of a snapshot to an empty table.
    fn restore<'a>(
        &self,
        snapshot: &GroupSnapshot,
        blocks: &InputBlocks<'a>,
        table: &mut GroupTable<'a>,
    ) -> Result<()> {
        assert!(table.firsts.is_empty(), "a snapshot is restored into a table with groups");
        let frame = &blocks.frame;
        let mut hint = 0;
        let mut cells = Vec::with_capacity(self.keys.len());
        for &first in &snapshot.firsts {
            let Some((part, row)) = frame.locate(first, hint) else {
                return Err(Error::internal(format!("row {first} of a group is gone")));
            };
            hint = part;
            cells.clear();
            for &key in &self.keys {
                cells.push(key_part(frame.checked(part, key)?, row)?);
            }
            table.find_or_insert(&cells, first);
        }
        if table.firsts.len() != snapshot.firsts.len() {
            return Err(Error::internal("groups that were kept have one key"));
        }
        assert_eq!(snapshot.states.len(), self.kinds.len(), "a snapshot has all states of its aggregation");
        table.states.clear();
        for (&kind, state) in self.kinds.iter().zip(&snapshot.states) {
            table.states.push(state.restore(kind, frame)?);
        }
        Ok(())
    }
}
