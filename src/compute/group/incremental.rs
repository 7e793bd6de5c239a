//! An aggregation of a dataset that grows, of which the states of the groups are kept between two answers.
//!
//! Kept are the states after the last full block of rows, as `aggregate` merges them, so that the answer is the same bit
//! for bit; but for sums of floats by very many groups, which `aggregate` finds in partitions. They refer to rows by number only: the keys of groups are found again in their first rows.

use super::aggregate::{AggregateExpr, Aggregation, GroupPlan, InputBlocks};
use super::groups::{key_part, with_plain_booleans};
use super::output::AggregateFunction;
use super::snapshot::StateSnapshot;
use super::table::{GroupTable, OrderedGroups};
use crate::compute::select::Predicate;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::ChangeCheck;

/// An aggregation of a table that grows, made by [`Aggregation::incremental`]. Each answer is that of
/// [`Aggregation::finish`] for all rows that are there, and costs time for the new rows and for the groups.
#[derive(Debug)]
pub struct IncrementalAggregation {
    /// The rows of the last answer.
    dataset: Dataset,
    by: Vec<String>,
    predicate: Option<Predicate>,
    outputs: Vec<AggregateExpr>,
    kept: Option<GroupSnapshot>,
    rows_read: u64,
}

/// The groups after the last full block.
#[derive(Debug)]
struct GroupSnapshot {
    /// The row of the dataset with which the first block begins: rows before it are excluded by the dataset's order.
    start: u64,
    blocks: usize,
    block_rows: usize,
    /// That of the blocks if it was looked for.
    size: Option<usize>,
    /// The first row of each group, counted from `start`.
    firsts: Vec<u64>,
    states: Vec<StateSnapshot>,
}

impl Aggregation<'_> {
    /// The same aggregation for a dataset that grows: it keeps the states of the groups, so that later answers look only at
    /// new rows. Nothing is read yet.
    ///
    /// # Errors
    /// As [`finish`](Aggregation::finish); `Unsupported` for `Median` and `NUnique`, whose states are as large as the rows, and
    /// for groups by columns of `arrow.bool8`.
    pub fn incremental(&self) -> Result<IncrementalAggregation> {
        GroupPlan::try_new(self)?;
        let functions = self.outputs.iter().filter_map(|output| output.of.as_ref());
        for (_, function) in functions {
            if matches!(function, AggregateFunction::Median | AggregateFunction::NUnique) {
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
            kept: None,
            rows_read: 0,
        })
    }
}

impl IncrementalAggregation {
    /// The dataset that the last answer is of.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// How many rows were read for the last answer: those that are new, and those of the block that was not full before.
    pub fn rows_read(&self) -> u64 {
        self.rows_read
    }

    /// The answer for `newer`. If it `goes_on`, it has the rows of the last one's dataset, and others only behind them.
    ///
    /// # Errors
    /// As [`Aggregation::finish`]. The next answer reads all rows again.
    pub(crate) fn advance(&mut self, newer: Dataset, goes_on: bool) -> Result<Dataset> {
        let kept = self.kept.take().filter(|_| goes_on);
        self.dataset = newer.clone();
        self.rows_read = 0;
        let Some(start) = kept.as_ref().map_or_else(|| self.first_row(), |kept| Ok(Some(kept.start)))? else {
            // No row is between the bounds: the first that is begins the first block.
            return self.asked(&self.dataset.head(0)?).finish();
        };
        let rows = if start == 0 { newer.clone() } else { newer.slice(start, u64::MAX)? };
        let mut plan = GroupPlan::try_new(&self.asked(&rows))?;
        plan.whole = newer;
        let (answer, kept, rows_read) = rows.with_change_check(ChangeCheck::Now, || plan.go_on(&rows, kept, start))?;
        self.kept = Some(kept);
        self.rows_read = rows_read;
        Ok(answer)
    }

    /// The first row that the predicate's bounds on a sorted column leave; `None` if there is none.
    fn first_row(&self) -> Result<Option<u64>> {
        let Some(predicate) = &self.predicate else { return Ok(Some(0)) };
        let inside = self.dataset.prune_contiguous(predicate)?;
        let is_empty = inside.is_empty()?;
        Ok((!is_empty).then(|| inside.first_row().saturating_sub(self.dataset.first_row())))
    }

    fn asked<'a>(&self, dataset: &'a Dataset) -> Aggregation<'a> {
        let by = self.by.clone();
        Aggregation {
            rows: None,
            dataset,
            by,
            predicate: self.predicate.clone(),
            outputs: self.outputs.clone(),
            watch: None,
            memory: None,
        }
    }
}

impl GroupPlan {
    /// The answer for `rows`, the groups to keep, and how many rows were read.
    fn go_on(&self, rows: &Dataset, kept: Option<GroupSnapshot>, start: u64) -> Result<(Dataset, GroupSnapshot, u64)> {
        let mut size = kept.as_ref().and_then(|kept| kept.size);
        let blocks = self.blocks(rows, &mut size)?;
        let block_rows = blocks.frame.block_rows();
        let kept = kept.filter(|kept| kept.block_rows == block_rows);
        let known = kept.as_ref().map_or(0, |kept| kept.blocks);
        let mut table = GroupTable::new(self.keys.len(), &self.kinds);
        if let Some(kept) = &kept {
            self.restore(kept, &blocks, &mut table)?;
        }
        let full = usize::try_from(blocks.frame.num_rows() / block_rows as u64).unwrap_or(usize::MAX);
        self.add_blocks(&blocks, known..full, None, &mut table)?;
        let kept = match kept.filter(|_| full == known) {
            Some(kept) => GroupSnapshot { size, ..kept },
            None => {
                let states = table.states.iter().map(|state| state.kept()).collect();
                GroupSnapshot { start, blocks: full, block_rows, size, firsts: table.firsts.clone(), states }
            }
        };
        self.add_blocks(&blocks, full..blocks.frame.num_blocks(), None, &mut table)?;
        let rows_read = blocks.frame.num_rows() - blocks.frame.block_start(known);
        Ok((self.finish(rows, &blocks.frame, &OrderedGroups::from_table(table))?, kept, rows_read))
    }

    /// Puts the kept groups into an empty table.
    fn restore<'a>(&self, kept: &GroupSnapshot, blocks: &InputBlocks<'a>, table: &mut GroupTable<'a>) -> Result<()> {
        let frame = &blocks.frame;
        let mut hint = 0;
        let mut cells = Vec::with_capacity(self.keys.len());
        for &first in &kept.firsts {
            let located = frame.locate(first, hint);
            let (part, row) = located.ok_or_else(|| Error::internal(format!("row {first} of a group is gone")))?;
            hint = part;
            cells.clear();
            for &key in &self.keys {
                cells.push(key_part(frame.checked(part, key)?, row)?);
            }
            table.find(&cells, first);
        }
        if table.firsts.len() != kept.firsts.len() {
            return Err(Error::internal("groups that were kept have one key"));
        }
        let states = self.kinds.iter().zip(&kept.states);
        table.states = states.map(|(&kind, state)| state.state(kind, frame)).collect::<Result<_>>()?;
        Ok(())
    }
}
