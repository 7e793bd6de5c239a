//! `aggregate`: sums, means and so on of groups of rows, in one pass, including the filter.
//!
//! Rows are processed in blocks of 16,384, independent of batches and threads: each block finds its groups and their
//! states, and blocks are merged in order. If the first has very many groups, rows are processed in partitions by their
//! keys instead. So the result depends only on the rows.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Schema};

use super::block::{ComputedColumns, states_of_bits};
use super::fused_sum::FusedSum;
use super::groups::{GroupScratch, Groups, check_claim, check_keys, group, with_plain_booleans};
use super::memory::MemoryEstimate;
use super::output::{self, AggregateFunction};
use super::radix_partition::{CHUNK, InputColumns, PARTITIONS, Wave};
use super::state::{GroupState, StateKind, ValueKind, is_stored_as_integer};
use super::table::{GroupTable, OrderedGroups};
use crate::array::slice;
use crate::compute::frame::{Frame, RowRanks, ValueOrder};
use crate::compute::reduce::is_number;
use crate::compute::select::{
    BoundExpression, BoundPredicate, Categories, Expression, Mask, Predicate, RowSet, check_result_memory, col,
    filter_input, gather_rows,
};
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::map::ChangeCheck;
use crate::parallel;
use crate::types::type_name;

/// The rows of a block: each thread reuses its memory for per-row data.
pub(super) const BLOCK: usize = 1 << 14;
/// Blocks whose groups are held until they are merged.
const WAVE: usize = 256;
/// The same where a block has more groups than `FEW`: the merge of two blocks costs time for each of their groups.
const MIDDLE: usize = 1 << 17;
/// The same with more of them, of which the table still fits into a processor's own cache.
const WIDE: usize = 1 << 18;
/// The same with very many groups, where blocks are merged as a dataset grows.
const LARGE: usize = 1 << 19;

/// The most groups in a first block for each of these sizes but the last.
const FEW: usize = 256;
const SOME: usize = BLOCK / 8;
pub(super) const MANY: usize = BLOCK / 8 * 5;

/// An aggregation of groups of a dataset's rows, made by [`Dataset::aggregate`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Aggregation<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) by: Vec<String>,
    pub(super) predicate: Option<Predicate>,
    /// The rows that are looked at, if not all.
    pub(super) rows: Option<Arc<RowSet>>,
    pub(super) outputs: Vec<AggregateExpr>,
    pub(super) watch: Option<ProgressCallback<'a>>,
    /// The most bytes that groups may take.
    pub(super) memory: Option<u64>,
}

/// How far an aggregation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationProgress {
    /// Rows that were read.
    pub rows: u64,
    /// All rows that are to be read.
    pub of: u64,
    /// Groups that were found in them.
    pub groups: usize,
}

/// What is told how far an aggregation is, and may stop it.
#[derive(Clone, Copy)]
pub(super) struct ProgressCallback<'a> {
    watch: &'a (dyn Fn(AggregationProgress) -> Result<()> + Sync),
    /// The most rows between two calls.
    rows: usize,
}

impl fmt::Debug for ProgressCallback<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AggregationWatch")
    }
}

#[derive(Clone, Debug)]
pub(super) struct AggregateExpr {
    name: String,
    /// None for the number of rows.
    pub of: Option<(Expression, AggregateFunction)>,
}

impl Dataset {
    /// Aggregates groups of rows with the same values in the columns `by`, or all rows if `by` is empty. Groups are in
    /// order of appearance.
    ///
    /// ```
    /// # use arrowwood::*;
    /// # use std::sync::Arc;
    /// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    /// # let batch = arrow_array::RecordBatch::try_from_iter([("symbol", array.clone()), ("price", array)]).unwrap();
    /// # let dataset = Dataset::try_from(vec![batch])?;
    /// let means = dataset
    ///     .aggregate(&["symbol"])
    ///     .filter(col("price").gt(1))
    ///     .column("price", AggregateFunction::Mean)
    ///     .column_as("n", "price", AggregateFunction::Count)
    ///     .finish()?;
    /// assert_eq!(means.len()?, 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn aggregate<N: AsRef<str>>(&self, by: &[N]) -> Aggregation<'_> {
        let by = by.iter().map(|name| name.as_ref().to_string()).collect();
        let outputs = Vec::new();
        Aggregation { dataset: self, by, predicate: None, rows: None, outputs, watch: None, memory: None }
    }
}

impl Dataset {
    /// The first row of each group of rows that have the same values in the columns `names`, or in all columns if there are
    /// none of them; in their order.
    ///
    /// # Errors
    /// `ColumnNotFound`; `Unsupported` for columns of nested types.
    pub fn unique<N: AsRef<str>>(&self, names: &[N]) -> Result<Dataset> {
        let mut keys = names.iter().map(|name| self.index_of(name.as_ref())).collect::<Result<Vec<_>>>()?;
        if keys.is_empty() {
            keys = (0..self.num_columns()).collect();
        }
        let schema = self.schema();
        check_keys(&keys, self)?;
        if keys.is_empty() {
            return self.head(0);
        }
        let names: Vec<String> = keys.iter().map(|&key| schema.field(key).name().clone()).collect();
        let plain = with_plain_booleans(self, &names)?;
        let plan = GroupPlan::empty(plain.as_ref().unwrap_or(self), keys, None);
        self.with_change_check(ChangeCheck::Now, || {
            let (_, found) = plan.grouped(plain.as_ref().unwrap_or(self), None)?;
            gather_rows(self, &Frame::try_new(self)?, found.firsts.len(), |group| found.firsts[group])
        })
    }
}

impl<'a> Aggregation<'a> {
    /// Includes only rows for which `predicate` is true.
    pub fn filter(mut self, predicate: Predicate) -> Aggregation<'a> {
        self.predicate = Some(match self.predicate {
            Some(before) => before & predicate,
            None => predicate,
        });
        self
    }

    /// Adds `function` of column `name`, as a column of the same name.
    pub fn column(self, name: &str, function: AggregateFunction) -> Aggregation<'a> {
        self.column_as(name, name, function)
    }

    /// Adds `function` of column `column`, as a column called `name`.
    pub fn column_as(self, name: &str, column: &str, function: AggregateFunction) -> Aggregation<'a> {
        self.expression_as(name, col(column), function)
    }

    /// Adds `function` of what `expression` is in each row, as a column called `name`. It is computed block by block, of
    /// rows that the filter includes, and stored nowhere.
    ///
    /// ```
    /// # use arrowwood::*;
    /// # use std::sync::Arc;
    /// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    /// # let batch = arrow_array::RecordBatch::try_from_iter([("price", array.clone()), ("qty", array)]).unwrap();
    /// # let dataset = Dataset::try_from(vec![batch])?;
    /// let volume = col("price") * col("qty");
    /// let total = dataset.aggregate::<&str>(&[]).expression_as("volume", volume, AggregateFunction::Sum).finish()?;
    /// assert_eq!(total.row(0)?.get(0)?.to_string(), "14");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn expression_as(mut self, name: &str, expression: Expression, function: AggregateFunction) -> Aggregation<'a> {
        self.outputs.push(AggregateExpr { name: name.into(), of: Some((expression, function)) });
        self
    }

    /// Adds the number of rows, as a column called `name`.
    pub fn count_rows(mut self, name: &str) -> Aggregation<'a> {
        self.outputs.push(AggregateExpr { name: name.into(), of: None });
        self
    }

    /// Calls `watch` on the caller's thread before every `rows` rows or so, and at least before every few million. If it returns
    /// an error, the aggregation stops with that. Many groups take longer in small steps.
    pub fn on_progress(
        mut self,
        rows: usize,
        watch: &'a (dyn Fn(AggregationProgress) -> Result<()> + Sync),
    ) -> Aggregation<'a> {
        self.watch = Some(ProgressCallback { watch, rows });
        self
    }

    /// Lets groups take at most `most` bytes of memory. Without, it is what the system has left when they begin to be many.
    pub fn memory_limit(mut self, most: u64) -> Aggregation<'a> {
        self.memory = Some(most);
        self
    }

    /// The groups' keys and the results, as a dataset with a row per group.
    ///
    /// # Errors
    /// `ColumnNotFound`; `Unsupported` for keys or functions that a type does not support; `InvalidArgument` for two
    /// columns of one name, or a sum that overflows its type; `Io` before groups take more memory than there is.
    pub fn finish(&self) -> Result<Dataset> {
        match filter_input(self.dataset) {
            Some((base, rows)) => Aggregation { dataset: &base, rows: Some(rows), ..self.clone() }.finish_all(),
            None => self.finish_all(),
        }
    }

    fn finish_all(&self) -> Result<Dataset> {
        match with_plain_booleans(self.dataset, &self.by)? {
            Some(plain) => Aggregation { dataset: &plain, ..self.clone() }.finish_plain(),
            None => self.finish_plain(),
        }
    }

    fn finish_plain(&self) -> Result<Dataset> {
        let mut plan = GroupPlan::try_new(self)?;
        self.dataset.with_change_check(ChangeCheck::Now, || {
            let bounded = match &self.predicate {
                Some(predicate) if self.rows.is_none() => &self.dataset.prune_inner(predicate)?,
                _ => self.dataset,
            };
            let others = plan.count_in_sets(bounded, self.watch)?;
            self.count_distinct(&mut plan, others)?;
            if let Some(found) = plan.run(bounded, self.watch)? {
                return Ok(found);
            }
            // There are many more groups than in the first rows.
            let mut plan = GroupPlan::try_new(self)?;
            let all = plan.asked_distinct();
            self.count_distinct(&mut plan, all)?;
            plan.run(bounded, self.watch)?.ok_or_else(|| Error::internal("sets of integers that nobody asked for"))
        })
    }

    /// Counts the distinct values of the outputs `numbers`.
    fn count_distinct(&self, plan: &mut GroupPlan, numbers: Vec<usize>) -> Result<()> {
        for number in numbers {
            if let Some(column) = self.outputs[number].of.as_ref().and_then(|(of, _)| of.name()) {
                plan.distinct.push((number, self.distinct(column)?));
            }
        }
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        let names: Vec<&String> = self.by.iter().chain(self.outputs.iter().map(|output| &output.name)).collect();
        let twice = names.iter().enumerate().find(|(number, name)| names[..*number].contains(name));
        twice.map_or(Ok(()), |(_, name)| {
            Err(Error::invalid_argument(format!("aggregate would return two columns called '{name}'; rename one")))
        })
    }
}

/// An aggregation by numbers of columns.
pub(super) struct GroupPlan {
    /// The dataset of whose rows errors tell.
    pub whole: Dataset,
    pub keys: Vec<usize>,
    condition: Option<BoundPredicate>,
    /// The rows of which errors tell, if not all of the dataset.
    found: Option<Arc<RowSet>>,
    /// The number of the dataset's columns; what is computed is numbered behind them.
    columns: usize,
    computed: Vec<BoundExpression>,
    /// The states, each once.
    pub kinds: Vec<StateKind>,
    pub outputs: Vec<OutputColumn>,
    /// Numbers of distinct values, by the number of their output.
    distinct: Vec<(usize, ArrayData)>,
    /// The most bytes that groups may take.
    pub memory: Option<u64>,
    /// The orders of the columns of which extremes are asked, where they are not those of their bytes.
    orders: Vec<(usize, Box<dyn ValueOrder>)>,
}

/// A column of the result.
pub(super) struct OutputColumn {
    field: FieldRef,
    /// The type of its source column.
    pub of: DataType,
    pub function: AggregateFunction,
    /// The state it is made from, and of which column.
    pub kind: usize,
    pub column: Option<usize>,
}

impl GroupPlan {
    pub(super) fn try_new(asked: &Aggregation<'_>) -> Result<GroupPlan> {
        asked.check_names()?;
        let dataset = asked.dataset;
        let keys = asked.by.iter().map(|name| dataset.index_of(name)).collect::<Result<Vec<_>>>()?;
        check_keys(&keys, dataset)?;
        let condition = asked.predicate.as_ref();
        let condition = condition.map(|predicate| BoundPredicate::bind(predicate, dataset));
        let found = asked.rows.clone();
        let condition = match (found.clone().map(BoundPredicate::Rows), condition.transpose()?) {
            (Some(rows), Some(condition)) => Some(BoundPredicate::And(Box::new(rows), Box::new(condition))),
            (rows, condition) => rows.or(condition),
        };
        let mut plan = GroupPlan::empty(dataset, keys, condition);
        plan.memory = asked.memory;
        plan.found = found;
        for output in &asked.outputs {
            plan.add(dataset, output)?;
        }
        let columns: Vec<usize> = plan.kinds.iter().filter_map(StateKind::column).collect();
        if plan.condition.is_some() || !plan.computed.is_empty() {
            check_result_memory(dataset, dataset.len()?.div_ceil(8))?;
        } else if plan.keys.is_empty() {
            check_claim(&columns, dataset)?;
        }
        Ok(plan)
    }

    /// Groups by these keys, of which nothing is asked.
    fn empty(dataset: &Dataset, keys: Vec<usize>, condition: Option<BoundPredicate>) -> GroupPlan {
        GroupPlan {
            whole: dataset.clone(),
            keys,
            condition,
            found: None,
            columns: dataset.num_columns(),
            computed: Vec::new(),
            kinds: Vec::new(),
            outputs: Vec::new(),
            distinct: Vec::new(),
            memory: None,
            orders: Vec::new(),
        }
    }

    fn add(&mut self, dataset: &Dataset, output: &AggregateExpr) -> Result<()> {
        let is_row = |function| matches!(function, AggregateFunction::First | AggregateFunction::Last);
        let (kind, of, function, column) = match &output.of {
            None => (StateKind::RowCount, DataType::Null, AggregateFunction::Count, None),
            Some((expression, function)) => {
                let (column, of) = self.column(dataset, expression, *function)?;
                let kind = output::kind_of(*function, &of, column, self.is_ordered(column)).ok_or_else(|| {
                    let shown = match expression.name() {
                        Some(name) => format!("column '{name}'"),
                        None => expression.to_string(),
                    };
                    let message = format!("{function} of {shown} of type {} is not supported", type_name(&of));
                    Error::new(ErrorKind::Unsupported, message)
                })?;
                (kind, of, *function, Some(column))
            }
        };
        let kind = self.number_of(kind);
        let is_nullable = !matches!(function, AggregateFunction::Count | AggregateFunction::NUnique);
        let is_extreme = matches!(function, AggregateFunction::Min | AggregateFunction::Max);
        let is_own = |column: &usize| is_row(function) || is_extreme && self.is_ordered(*column);
        let field = match column.filter(is_own) {
            Some(column) => dataset.schema().field(column).clone().with_name(&output.name).with_nullable(true),
            None => Field::new(&output.name, output::type_of(function, &of), is_nullable),
        };
        let field = Arc::new(field);
        self.outputs.push(OutputColumn { field, of, function, kind, column });
        Ok(())
    }

    /// The number of a state, which is added if there is none.
    pub(super) fn number_of(&mut self, kind: StateKind) -> usize {
        let number = self.kinds.iter().position(|known| *known == kind).unwrap_or(self.kinds.len());
        if number == self.kinds.len() {
            self.kinds.push(kind);
        }
        number
    }

    /// The groups; `None` if there are too many for sets of their integers.
    fn run(&self, dataset: &Dataset, watch: Option<ProgressCallback<'_>>) -> Result<Option<Dataset>> {
        let (frame, found) = self.grouped(dataset, watch)?;
        if found.tables.iter().any(GroupTable::is_too_large) {
            return Ok(None);
        }
        self.finish(dataset, &frame, &found).map(Some)
    }

    /// Whether a column's values have an order that is not that of their bytes.
    fn is_ordered(&self, column: usize) -> bool {
        self.orders.iter().any(|(known, _)| *known == column)
    }

    /// The number of a column, or of what is computed, and the type of its values.
    fn column(&mut self, dataset: &Dataset, of: &Expression, function: AggregateFunction) -> Result<(usize, DataType)> {
        let is_row = matches!(function, AggregateFunction::First | AggregateFunction::Last);
        if let Some(name) = of.name() {
            let column = dataset.index_of(name)?;
            if matches!(function, AggregateFunction::Min | AggregateFunction::Max)
                && !self.is_ordered(column)
                && let Some(categories) = Categories::load(dataset, column)?
            {
                self.orders.push((column, Box::new(categories)));
            }
            let data_type = match dataset.schema().field(column).data_type() {
                DataType::Dictionary(_, values) if !is_row && (is_number(values) || is_stored_as_integer(values)) => {
                    values
                }
                own => own,
            };
            return Ok((column, data_type.clone()));
        }
        if is_row || function == AggregateFunction::NUnique {
            let message =
                format!("{function} is that of columns, and {of} is computed: ask DuckDB or Polars: ds.sql(…)");
            return Err(Error::unsupported(message));
        }
        let formula = BoundExpression::bind(of, dataset.schema(), &|name| dataset.index_of(name))?;
        let data_type = formula.data_type();
        self.computed.push(formula);
        Ok((dataset.num_columns() + self.computed.len() - 1, data_type))
    }

    /// The groups of all rows, and their states.
    fn grouped<'a>(
        &'a self,
        dataset: &'a Dataset,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<(Frame<'a>, OrderedGroups<'a>)> {
        if self.needs_no_values() {
            let blocks = InputBlocks { frame: self.frame(dataset)?.with_block_rows(usize::MAX), fused: None };
            return self.in_one_table(blocks, watch);
        }
        let blocks = self.blocks(dataset, &mut None)?;
        if blocks.frame.block_rows() == LARGE && self.computed.is_empty() && self.orders.is_empty() {
            let frame = self.frame(dataset)?.with_block_rows(CHUNK);
            match self.in_partitions(dataset, &frame, watch) {
                Ok(found) => return Ok((frame, found)),
                // Long texts, and dictionaries of more values than there are keys, stay where they are.
                Err(e) if e.kind() == ErrorKind::Unsupported => {}
                Err(e) => return Err(e),
            }
        }
        self.in_one_table(blocks, watch)
    }

    fn in_one_table<'a>(
        &self,
        blocks: InputBlocks<'a>,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<(Frame<'a>, OrderedGroups<'a>)> {
        let mut table = GroupTable::new(self.keys.len(), &self.kinds);
        self.add_blocks(&blocks, 0..blocks.frame.num_blocks(), watch, &mut table)?;
        Ok((blocks.frame, OrderedGroups::from_table(table)))
    }

    /// Whether numbers of rows are all that is asked for: then any number of rows is one block.
    fn needs_no_values(&self) -> bool {
        let is_number = |kind: &StateKind| matches!(kind, StateKind::RowCount | StateKind::Row(_));
        self.keys.is_empty() && self.condition.is_none() && self.kinds.iter().all(is_number)
    }

    pub(super) fn frame<'a>(&'a self, dataset: &'a Dataset) -> Result<Frame<'a>> {
        let ranks = self.found.as_deref().map(|found| found as &dyn RowRanks);
        Ok(Frame::for_part(dataset, &self.whole)?.with_ranks(ranks).with_orders(&self.orders))
    }

    /// The rows in blocks. Their size, by the number of groups in the first of them, is put into `size` where it was looked for.
    pub(super) fn blocks<'a>(&'a self, dataset: &'a Dataset, size: &mut Option<usize>) -> Result<InputBlocks<'a>> {
        let frame = self.frame(dataset)?.with_block_rows(BLOCK);
        let fused = if self.computed.is_empty() {
            FusedSum::try_new(&frame, &self.keys, self.condition.as_ref(), &self.kinds)?
        } else {
            None
        };
        // A first block that is not full yet is the only one.
        let is_open = fused.is_none() && !self.keys.is_empty() && frame.num_blocks() > 1;
        if is_open && size.is_none() {
            *size = Some(block_rows(self.first_groups(&frame)?));
        }
        let frame = frame.with_block_rows(size.filter(|_| is_open).unwrap_or(BLOCK));
        Ok(InputBlocks { frame, fused })
    }

    /// Adds some blocks to `table`, which has all before them.
    pub(super) fn add_blocks<'a>(
        &self,
        InputBlocks { frame, fused }: &InputBlocks<'a>,
        blocks: Range<usize>,
        watch: Option<ProgressCallback<'_>>,
        table: &mut GroupTable<'a>,
    ) -> Result<()> {
        let columns = self.keys.len() + self.kinds.len() + 1;
        let wave = (step(watch, WAVE * BLOCK) / frame.block_rows()).max(1);
        let is_any_new = frame.block_rows() == LARGE;
        let mut cost = MemoryEstimate::new(self.keys.len(), &self.kinds, self.memory, is_any_new);
        for start in blocks.clone().step_by(wave) {
            let blocks = start..blocks.end.min(start + wave);
            tell(watch, frame, start, table.firsts.len())?;
            cost.check(rows_of(frame, &blocks), frame.num_rows(), table.firsts.len())?;
            let bytes = blocks.len().saturating_mul(8 * columns).saturating_mul(frame.block_rows());
            let done = parallel::map_with(blocks.len(), bytes, GroupScratch::default, |memory, job| {
                self.block(frame, start + job, fused.as_ref(), memory)
            });
            for (block, done) in blocks.zip(done) {
                let mut done = done?;
                if !done.in_order && !table.knows(&done.groups) {
                    // First rows are only needed if there are new groups.
                    done = self.block(frame, block, None, &mut GroupScratch::default())?;
                }
                table.add(frame.block_start(block), &done.groups, &done.states)?;
            }
            if table.is_too_large() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Finds the groups of each partition.
    fn in_partitions<'a>(
        &'a self,
        dataset: &Dataset,
        frame: &Frame<'a>,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<OrderedGroups<'a>> {
        let needed = InputColumns::build(dataset, frame, &self.keys, &self.kinds)?;
        let tables: Vec<_> =
            (0..PARTITIONS).map(|_| Mutex::new(GroupTable::new(self.keys.len(), &self.kinds))).collect();
        let size = step(watch, needed.wave_rows(dataset)).div_ceil(CHUNK).max(1);
        let mut cost = MemoryEstimate::new(self.keys.len(), &self.kinds, self.memory, true);
        for start in (0..frame.num_blocks()).step_by(size) {
            let groups = tables.iter().map(|table| parallel::lock(table).firsts.len()).sum();
            tell(watch, frame, start, groups)?;
            let chunks = start..frame.num_blocks().min(start + size);
            cost.check(rows_of(frame, &chunks), frame.num_rows(), groups)?;
            let is_only = frame.num_blocks() <= size;
            let wave = Wave::build(frame, &needed, chunks, |block| self.masks(frame, block))?;
            let bytes = wave.rows().saturating_mul(16 * (self.keys.len() + self.kinds.len()));
            let jobs = wave.jobs();
            let done = parallel::map_with(jobs.len(), bytes, GroupScratch::default, |memory, number| {
                let job = &jobs[number];
                if !job.is_whole {
                    return wave.groups(job, memory).map(Some);
                }
                let mut table = parallel::lock(&tables[job.partition]);
                if is_only {
                    *table = wave.table(job, memory)?;
                    return Ok(None);
                }
                let (groups, states) = wave.groups(job, memory)?;
                table.add(frame.block_start(start), &groups, &states).map(|()| None)
            });
            let done = done.into_iter().collect::<Result<Vec<_>>>()?;
            let mut parts: Vec<_> = jobs.iter().zip(done).filter_map(|(job, done)| Some((job, done?))).collect();
            parts.sort_unstable_by_key(|(job, _)| (job.partition, job.chunks.start));
            for (job, (groups, states)) in parts {
                parallel::lock(&tables[job.partition]).add(frame.block_start(start), &groups, &states)?;
            }
        }
        let tables = tables.into_iter().map(|table| table.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(OrderedGroups::from_tables(tables.collect(), frame.num_rows()))
    }

    /// The number of groups in the first block, of `BLOCK` rows.
    pub(super) fn first_groups(&self, frame: &Frame<'_>) -> Result<usize> {
        let first = group(frame, 0, &self.keys, &self.masks(frame, 0)?, &mut GroupScratch::default())?;
        Ok(first.count())
    }

    fn masks(&self, frame: &Frame<'_>, block: usize) -> Result<Vec<Option<Mask>>> {
        let mask = |(part, rows)| self.condition.as_ref().map(|c| c.mask(frame, part, &rows, true)).transpose();
        frame.spans(block).map(mask).collect()
    }

    /// The groups of a block, and their states.
    fn block<'a>(
        &self,
        frame: &Frame<'a>,
        block: usize,
        fused: Option<&FusedSum<'a>>,
        memory: &mut GroupScratch,
    ) -> Result<BlockResult<'a>> {
        if let Some((groups, states)) = fused.map_or(Ok(None), |fused| fused.block(frame, block))? {
            return Ok(BlockResult { groups, states, in_order: false });
        }
        if let Some(states) = self.plain_states(frame, block)? {
            let firsts = vec![0];
            let groups = Groups { ids: Vec::new(), cells: Vec::new(), width: 0, firsts, is_sparse: false };
            return Ok(BlockResult { groups, states, in_order: true });
        }
        let mut groups = group(frame, block, &self.keys, &self.masks(frame, block)?, memory)?;
        memory.expected = groups.count();
        let computed = ComputedColumns { columns: self.columns, formulas: &self.computed };
        let states = self.kinds.iter().map(|&kind| GroupState::from_block(kind, frame, block, &groups, &computed));
        let states = states.collect::<Result<_>>()?;
        memory.reuse(&mut groups);
        Ok(BlockResult { groups, states, in_order: true })
    }

    /// The states of all rows of a block as one group, where no row's number is needed for them.
    fn plain_states<'a>(&self, frame: &Frame<'a>, block: usize) -> Result<Option<Vec<GroupState<'a>>>> {
        if !self.keys.is_empty() || !self.computed.is_empty() {
            return Ok(None);
        }
        if self.condition.is_some() {
            if !self.kinds.iter().all(|kind| matches!(kind, StateKind::RowCount | StateKind::Row(_))) {
                return Ok(None);
            }
            return Ok(states_of_bits(&self.kinds, frame, block, &self.masks(frame, block)?));
        }
        let mut states = Vec::with_capacity(self.kinds.len());
        for &kind in &self.kinds {
            match GroupState::from_ungrouped_block(kind, frame, block)? {
                Some(state) => states.push(state),
                None => return Ok(None),
            }
        }
        Ok(Some(states))
    }

    pub(super) fn finish(&self, dataset: &Dataset, frame: &Frame<'_>, found: &OrderedGroups<'_>) -> Result<Dataset> {
        let keys = dataset.select_at(&self.keys)?;
        let rows = if self.keys.is_empty() { 1 } else { found.firsts.len() };
        let mut columns = Vec::with_capacity(self.outputs.len());
        for (number, output) in self.outputs.iter().enumerate() {
            let distinct = self.distinct.iter().find(|(of, _)| *of == number);
            columns.push(match distinct {
                Some((_, counts)) => counts.clone(),
                None => self.result(dataset, frame, found, output, rows)?,
            });
        }
        let fields: Vec<FieldRef> = keys.schema().fields().iter().cloned().chain(self.fields()).collect();
        let schema = Arc::new(Schema::new(fields));
        if self.keys.is_empty() {
            return Ok(Dataset::from_arrays(schema, vec![(1, columns)]));
        }
        if let Some(mut all) = self.keys_of(&keys, found)? {
            all.extend(columns);
            return Ok(Dataset::from_arrays(schema, vec![(rows, all)]));
        }
        let keys = gather_rows(&keys, &Frame::try_new(&keys)?, rows, |group| found.firsts[group])?;
        beside(&keys, &columns, schema)
    }

    /// The key columns, if the groups have them, and they fit one batch.
    fn keys_of(&self, keys: &Dataset, found: &OrderedGroups<'_>) -> Result<Option<Vec<ArrayData>>> {
        if !found.has_keys() {
            return Ok(None);
        }
        let types = keys.schema().fields().iter().enumerate();
        let own = types.map(|(number, key)| found.column(key.data_type(), |table, _| Ok(table.keys[number].clone())));
        match own.collect::<Result<_>>() {
            Ok(all) => Ok(Some(all)),
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A column of the result, of `rows` rows.
    fn result(
        &self,
        dataset: &Dataset,
        frame: &Frame<'_>,
        found: &OrderedGroups<'_>,
        output: &OutputColumn,
        rows: usize,
    ) -> Result<ArrayData> {
        if let (StateKind::Extreme { values: ValueKind::Texts, .. } | StateKind::Row(_), Some(column)) =
            (self.kinds[output.kind], output.column)
        {
            let best = found.in_order(|table| table.states[output.kind].rows());
            return output::gather_group_rows(dataset, frame, column, rows, &best);
        }
        let data_type = output.field.data_type();
        let own = |table: &GroupTable<'_>, groups: usize| {
            output::array(&table.states[output.kind], output.function, &output.of, data_type, groups)
        };
        found.column(data_type, own).map_err(|e| e.context(format_args!("column '{}'", output.field.name())))
    }

    fn fields(&self) -> impl Iterator<Item = FieldRef> {
        self.outputs.iter().map(|output| output.field.clone())
    }
}

/// The rows of a dataset in blocks, and what does them in one loop, if that can be.
pub(super) struct InputBlocks<'a> {
    pub frame: Frame<'a>,
    fused: Option<FusedSum<'a>>,
}

/// The rows of blocks where the first one, of `BLOCK` rows, has so many groups.
pub(super) fn block_rows(groups: usize) -> usize {
    // A block of the middle size sees most groups many times.
    if groups <= FEW {
        BLOCK
    } else if groups <= SOME {
        MIDDLE
    } else if groups <= MANY {
        WIDE
    } else {
        LARGE
    }
}

/// The rows of some blocks.
fn rows_of(frame: &Frame<'_>, blocks: &Range<usize>) -> Range<u64> {
    frame.block_start(blocks.start)..frame.num_rows().min(frame.block_start(blocks.end))
}

/// The rows of a wave that would have `rows` of them if nobody watched.
fn step(watch: Option<ProgressCallback<'_>>, rows: usize) -> usize {
    watch.map_or(rows, |watch| rows.min(watch.rows))
}

/// Tells how far the aggregation is, before block `block`.
pub(super) fn tell(watch: Option<ProgressCallback<'_>>, frame: &Frame<'_>, block: usize, groups: usize) -> Result<()> {
    let Some(ProgressCallback { watch, .. }) = watch else { return Ok(()) };
    watch(AggregationProgress { rows: frame.block_start(block), of: frame.num_rows(), groups })
}

/// The result of one block.
struct BlockResult<'a> {
    groups: Groups<'a>,
    states: Vec<GroupState<'a>>,
    /// Whether the groups are numbered in order of appearance, with known first rows.
    in_order: bool,
}

/// The columns of `keys`, which may be in several batches, followed by `columns`.
fn beside(keys: &Dataset, columns: &[ArrayData], schema: Arc<Schema>) -> Result<Dataset> {
    let mut batches = Vec::new();
    let mut start = 0;
    for part in keys.parts() {
        let part = part?;
        let len = part.rows.len();
        let mut arrays = part.columns()?;
        arrays.extend(columns.iter().map(|column| slice(column, start, len)));
        batches.push((len, arrays));
        start += len;
    }
    Ok(Dataset::from_arrays(schema, batches))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_array::types::{Int8Type, UInt16Type};
    use arrow_array::*;
    use proptest::prelude::*;

    use super::*;
    use crate::col;

    type TestRow = (Option<u8>, Option<i64>, Option<f64>);

    const WORDS: [&str; 6] = ["", "fig", "pear", "apple", "a word of many letters", "another word of many"];

    /// Columns of the rows: keys of every kind, an integer, a float.
    fn batch(rows: &[TestRow], start: usize) -> RecordBatch {
        let words = || rows.iter().map(|row| row.0.map(|key| WORDS[usize::from(key) % 6]));
        // Another dictionary in each batch, some words of it twice.
        let turned: Vec<&str> = (0..12).map(|i| WORDS[(i + start) % 6]).collect();
        let keys = |key: u8| (12 + usize::from(key) % 6 - start % 6) % 6 + if key > 100 { 6 } else { 0 };
        let narrow: Int8Array = rows.iter().map(|row| row.0.map(|key| keys(key) as i8)).collect();
        let wide: UInt16Array = rows.iter().map(|row| row.0.map(|key| keys(key) as u16)).collect();
        let dictionary = Arc::new(StringArray::from(turned)) as ArrayRef;
        let number = |scale: i64| rows.iter().map(move |row| row.0.map(|key| i64::from(key % 6) * scale - 3));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("text", Arc::new(words().collect::<StringArray>())),
            ("view", Arc::new(words().collect::<StringViewArray>())),
            ("narrow", Arc::new(DictionaryArray::<Int8Type>::new(narrow, dictionary.clone()))),
            ("wide", Arc::new(DictionaryArray::<UInt16Type>::new(wide, dictionary))),
            ("small", Arc::new(number(1).map(|n| n.map(|n| n as i8)).collect::<Int8Array>())),
            ("large", Arc::new(number(1 << 40).collect::<Int64Array>())),
            ("real", Arc::new(number(1).map(|n| n.map(|n| n as f64)).collect::<Float64Array>())),
            ("exact", Arc::new(number(7).map(|n| n.map(i128::from)).collect::<Decimal128Array>())),
            ("n", Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>())),
            ("x", Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
    }

    fn dataset(rows: &[TestRow], cuts: &[usize]) -> Dataset {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (rows.len() + 1)).chain([0, rows.len()]).collect();
        ends.sort_unstable();
        let batches = ends.windows(2).map(|ends| batch(&rows[ends[0]..ends[1]], ends[0]));
        Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
    }

    fn asked<'a>(dataset: &'a Dataset, by: &[&str]) -> Aggregation<'a> {
        dataset
            .aggregate(by)
            .filter(col("n").ne(3) | col("n").is_null())
            .count_rows("rows")
            .column_as("sum", "n", AggregateFunction::Sum)
            .column_as("min", "n", AggregateFunction::Min)
            .column_as("mean", "x", AggregateFunction::Mean)
            .column_as("max", "x", AggregateFunction::Max)
            .column_as("var", "x", AggregateFunction::Var)
            .column_as("first", "text", AggregateFunction::Min)
    }

    fn cells(dataset: &Dataset) -> Vec<Vec<String>> {
        let row = |row: crate::Row<'_>| row.iter().map(|(_, value)| value.unwrap().to_string()).collect();
        dataset.rows().map(|found| row(found.unwrap())).collect()
    }

    /// The rows of each word, in the order in which words appear.
    fn naive(rows: &[TestRow]) -> Vec<Vec<TestRow>> {
        let (mut numbers, mut groups) = (HashMap::new(), Vec::<Vec<TestRow>>::new());
        for row in rows.iter().filter(|row| row.1 != Some(3)) {
            let group = *numbers.entry(row.0.map(|key| key % 6)).or_insert(groups.len());
            groups.resize(groups.len().max(group + 1), Vec::new());
            groups[group].push(*row);
        }
        groups
    }

    fn check(found: &[String], group: &[TestRow]) {
        let sum: i64 = group.iter().filter_map(|row| row.1).sum();
        let min = group.iter().filter_map(|row| row.1).min().map_or("null".into(), |min| min.to_string());
        assert_eq!(found[..3], [group.len().to_string(), sum.to_string(), min]);
        let x: Vec<f64> = group.iter().filter_map(|row| row.2).collect();
        let close = |found: &str, expected: Option<f64>| match expected {
            Some(expected) => assert!((found.parse::<f64>().unwrap() - expected).abs() < 1e-6, "{found} {expected}"),
            None => assert_eq!(found, "null"),
        };
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        close(&found[3], (!x.is_empty()).then_some(mean));
        close(&found[4], x.iter().copied().reduce(f64::max));
        let squares: f64 = x.iter().map(|x| (x - mean) * (x - mean)).sum();
        close(&found[5], (x.len() > 1).then(|| squares / (x.len() - 1) as f64));
        assert_eq!(found[6], group[0].0.map_or("null", |key| WORDS[usize::from(key) % 6]));
    }

    fn given() -> impl Strategy<Value = TestRow> {
        let option = |weight| prop::option::weighted(weight, any::<u8>());
        (option(0.9), prop::option::weighted(0.8, -9i64..9), prop::option::weighted(0.8, -1e3..1e3f64))
    }

    proptest! {
        #[test]
        fn groups_are_those_of_a_naive_loop_whatever_the_key(
            rows in prop::collection::vec(given(), 1..300), cuts in prop::collection::vec(any::<usize>(), 0..5),
        ) {
            let dataset = dataset(&rows, &cuts);
            let groups = naive(&rows);
            for key in ["text", "view", "narrow", "wide", "small", "large", "real", "exact"] {
                for by in [&[key][..], &["text", key], &[key, "small", "wide"]] {
                    if by[1..].contains(&key) || by[0] == "text" && by.len() > 1 && key == "text" {
                        continue;
                    }
                    let found = asked(&dataset, by).finish().unwrap();
                    found.validate(|_, _| ()).unwrap();
                    let found = cells(&found);
                    prop_assert_eq!(found.len(), groups.len(), "{:?}", by);
                    found.iter().zip(&groups).for_each(|(found, group)| check(&found[by.len()..], group));
                }
            }
        }
    }

    /// Blocks that end inside of batches and batches inside of blocks, on one thread and several, give the same bits.
    #[test]
    fn neither_threads_nor_batches_change_a_result() {
        let row = |i: u32| (Some((i.wrapping_mul(2_654_435_761) >> 13) as u8), Some(1), Some(f64::from(i).sin() * 1e9));
        let rows: Vec<TestRow> = (0..300_000).map(row).collect();
        let whole = cells(&asked(&dataset(&rows, &[]), &["wide"]).finish().unwrap());
        let cuts: Vec<usize> = (0..50).map(|i| i * i * 7919).collect();
        assert_eq!(cells(&asked(&dataset(&rows, &cuts), &["wide"]).finish().unwrap()), whole);
        let groups = naive(&rows);
        whole.iter().zip(&groups).for_each(|(found, group)| {
            let mean = group.iter().filter_map(|row| row.2).sum::<f64>() / group.len() as f64;
            assert!((found[4].parse::<f64>().unwrap() - mean).abs() < 1e-3);
        });
    }

    #[test]
    fn an_aggregation_tells_how_far_it_is_and_can_be_stopped() {
        let rows: Vec<TestRow> = vec![(Some(1), Some(1), None); 9_000_000];
        let dataset = dataset(&rows, &[]).select(&["small", "n"]).unwrap();
        let seen = std::sync::Mutex::new(Vec::new());
        let watch = |progress: AggregationProgress| {
            seen.lock().unwrap().push((progress.rows, progress.of, progress.groups));
            Ok(())
        };
        let counted = dataset.aggregate(&["small"]).count_rows("rows").on_progress(1 << 20, &watch).finish().unwrap();
        assert_eq!(cells(&counted), [["-2", "9000000"]]);
        let waves: Vec<_> = (0..9).map(|wave| (wave << 20, 9_000_000, usize::from(wave > 0))).collect();
        assert_eq!(*seen.lock().unwrap(), waves);
        let stop = |progress: AggregationProgress| match progress.rows {
            0 => Ok(()),
            rows => Err(Error::invalid_argument(format!("stopped at {rows}"))),
        };
        for function in [AggregateFunction::Sum, AggregateFunction::NUnique] {
            let stopped =
                dataset.aggregate(&["small"]).column("n", function).on_progress(1 << 20, &stop).finish().unwrap_err();
            assert_eq!(stopped.message(), "stopped at 1048576");
        }
    }
}
