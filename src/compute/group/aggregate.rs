//! Implements `aggregate`: sums, means and other functions of groups of rows, in one pass that includes the filter.
//!
//! Rows are processed in blocks of 16,384, independent of batches and threads: each block finds its groups and their
//! states, and blocks are merged in order. If the first block has very many groups, rows are processed in partitions by
//! their keys instead. Therefore the result depends only on the rows.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Schema};

use super::block::{ComputedColumns, states_from_masks};
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
use crate::map::{ChangeCheck, MutexExt};
use crate::parallel;
use crate::types::type_name;

/// The rows of a block: each thread reuses its memory for per-row data.
pub(super) const BLOCK: usize = 1 << 14;
/// The rows of a block with more than `FEW_GROUPS`: merging two blocks takes time for each of their groups.
const MIDDLE_BLOCK: usize = 1 << 17;
/// The rows of a block with more than `SOME_GROUPS`, whose table still fits into the cache of one core.
const WIDE_BLOCK: usize = 1 << 18;
/// The rows of a block with more than `MANY_GROUPS`. Such blocks are merged only where a dataset grows.
const LARGE_BLOCK: usize = 1 << 19;
/// The number of blocks of `BLOCK` rows whose groups are held until they are merged.
const WAVE_BLOCKS: usize = 256;

/// The maximum number of groups in the first `BLOCK` rows for blocks of `BLOCK`, `MIDDLE_BLOCK` and `WIDE_BLOCK` rows.
const FEW_GROUPS: usize = 256;
const SOME_GROUPS: usize = BLOCK / 8;
pub(super) const MANY_GROUPS: usize = BLOCK / 8 * 5;

/// An aggregation of groups of a dataset's rows, made by [`Dataset::aggregate`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Aggregation<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) by: Vec<String>,
    pub(super) predicate: Option<Predicate>,
    /// The rows to aggregate; `None` for all.
    pub(super) rows: Option<Arc<RowSet>>,
    pub(super) outputs: Vec<AggregateExpr>,
    pub(super) watch: Option<ProgressCallback<'a>>,
    /// The maximum number of bytes that groups may take.
    pub(super) memory: Option<u64>,
}

/// The progress of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationProgress {
    /// The number of rows that were read.
    pub rows: u64,
    /// The number of rows that are read in all.
    pub of: u64,
    /// The number of groups in the rows that were read.
    pub groups: usize,
}

/// A callback that receives the progress of an aggregation, and stops it by returning an error.
#[derive(Clone, Copy)]
pub(super) struct ProgressCallback<'a> {
    watch: &'a (dyn Fn(AggregationProgress) -> Result<()> + Sync),
    /// The maximum number of rows between two calls.
    rows: usize,
}

impl fmt::Debug for ProgressCallback<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressCallback").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// An output of an aggregation.
#[derive(Clone, Debug)]
pub(super) struct AggregateExpr {
    name: String,
    /// The aggregated expression and the function; `None` for the number of rows.
    pub input: Option<(Expression, AggregateFunction)>,
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
    /// Returns the first row of each group of rows that have the same values in the columns `names`, or in all columns
    /// if `names` is empty. Rows keep their order.
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
            let (_, groups) = plan.group_rows(plain.as_ref().unwrap_or(self), None)?;
            gather_rows(self, &Frame::try_new(self)?, groups.firsts.len(), |group| groups.firsts[group])
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

    /// Adds `function` of `expression`, as a column called `name`. The expression is computed block by block for the
    /// rows that the filter includes; its values are not stored.
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
        self.outputs.push(AggregateExpr { name: name.into(), input: Some((expression, function)) });
        self
    }

    /// Adds the number of rows, as a column called `name`.
    pub fn count_rows(mut self, name: &str) -> Aggregation<'a> {
        self.outputs.push(AggregateExpr { name: name.into(), input: None });
        self
    }

    /// Calls `watch` on the caller's thread before about every `rows` rows, and at least before every few million. If
    /// it returns an error, the aggregation stops with that error. Small steps slow down aggregations with many groups.
    pub fn on_progress(
        mut self,
        rows: usize,
        watch: &'a (dyn Fn(AggregationProgress) -> Result<()> + Sync),
    ) -> Aggregation<'a> {
        self.watch = Some(ProgressCallback { watch, rows });
        self
    }

    /// Limits the memory of groups to `bytes`. The default limit is the memory that the system has left when there
    /// begin to be many groups.
    pub fn memory_limit(mut self, bytes: u64) -> Aggregation<'a> {
        self.memory = Some(bytes);
        self
    }

    /// Returns the groups' keys and the results, as a dataset with a row per group.
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
            let uncounted = plan.count_in_sets(bounded, self.watch)?;
            self.count_distinct(&mut plan, uncounted)?;
            if let Some(result) = plan.run(bounded, self.watch)? {
                return Ok(result);
            }
            // There are many more groups than in the first rows: count all distinct values by groups of their own.
            let mut plan = GroupPlan::try_new(self)?;
            let uncounted = plan.distinct_outputs();
            self.count_distinct(&mut plan, uncounted)?;
            plan.run(bounded, self.watch)?.ok_or_else(|| Error::internal("sets of integers that nobody asked for"))
        })
    }

    /// Counts the distinct values of the outputs with the numbers `outputs`, by groups of their own.
    fn count_distinct(&self, plan: &mut GroupPlan, outputs: Vec<usize>) -> Result<()> {
        for number in outputs {
            if let Some((expression, _)) = &self.outputs[number].input
                && let Some(column) = expression.name()
            {
                plan.distinct.push((number, self.distinct(column)?));
            }
        }
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        let names: Vec<&String> = self.by.iter().chain(self.outputs.iter().map(|output| &output.name)).collect();
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                let message = format!("aggregate would return two columns called '{name}'; rename one");
                return Err(Error::invalid_argument(message));
            }
        }
        Ok(())
    }
}

/// An aggregation bound to a dataset, with columns by number.
pub(super) struct GroupPlan {
    /// The dataset whose row numbers error messages contain.
    pub whole: Dataset,
    pub keys: Vec<usize>,
    condition: Option<BoundPredicate>,
    /// The rows of the dataset that are aggregated, which error messages count; `None` for all.
    row_set: Option<Arc<RowSet>>,
    /// The number of the dataset's columns. Computed columns have the numbers behind them.
    columns: usize,
    computed: Vec<BoundExpression>,
    /// The states that outputs need, without duplicates.
    pub kinds: Vec<StateKind>,
    pub outputs: Vec<OutputColumn>,
    /// The numbers of distinct values that were counted by groups of their own, by the number of their output.
    distinct: Vec<(usize, ArrayData)>,
    /// The maximum number of bytes that groups may take.
    pub memory: Option<u64>,
    /// The orders of columns with a minimum or maximum whose values are not ordered by their bytes.
    orders: Vec<(usize, Box<dyn ValueOrder>)>,
}

/// A column of the result.
pub(super) struct OutputColumn {
    field: FieldRef,
    /// The type of the aggregated column.
    pub source_type: DataType,
    pub function: AggregateFunction,
    /// The number of the state in [`GroupPlan::kinds`] that has the result.
    pub kind: usize,
    /// The aggregated column; `None` for the number of rows.
    pub column: Option<usize>,
}

impl GroupPlan {
    pub(super) fn try_new(aggregation: &Aggregation<'_>) -> Result<GroupPlan> {
        aggregation.check_names()?;
        let dataset = aggregation.dataset;
        let keys = aggregation.by.iter().map(|name| dataset.index_of(name)).collect::<Result<Vec<_>>>()?;
        check_keys(&keys, dataset)?;
        let predicate = match &aggregation.predicate {
            Some(predicate) => Some(BoundPredicate::bind(predicate, dataset)?),
            None => None,
        };
        let rows = aggregation.rows.clone().map(BoundPredicate::Rows);
        let condition = match (rows, predicate) {
            (Some(rows), Some(predicate)) => Some(BoundPredicate::And(Box::new(rows), Box::new(predicate))),
            (rows, predicate) => rows.or(predicate),
        };
        let mut plan = GroupPlan::empty(dataset, keys, condition);
        plan.memory = aggregation.memory;
        plan.row_set = aggregation.rows.clone();
        for output in &aggregation.outputs {
            plan.add_output(dataset, output)?;
        }
        let columns: Vec<usize> = plan.kinds.iter().filter_map(StateKind::column).collect();
        if plan.condition.is_some() || !plan.computed.is_empty() {
            check_result_memory(dataset, dataset.len()?.div_ceil(8))?;
        } else if plan.keys.is_empty() {
            check_claim(&columns, dataset)?;
        }
        Ok(plan)
    }

    /// Returns a plan that groups by `keys`, without outputs.
    fn empty(dataset: &Dataset, keys: Vec<usize>, condition: Option<BoundPredicate>) -> GroupPlan {
        GroupPlan {
            whole: dataset.clone(),
            keys,
            condition,
            row_set: None,
            columns: dataset.num_columns(),
            computed: Vec::new(),
            kinds: Vec::new(),
            outputs: Vec::new(),
            distinct: Vec::new(),
            memory: None,
            orders: Vec::new(),
        }
    }

    fn add_output(&mut self, dataset: &Dataset, output: &AggregateExpr) -> Result<()> {
        let Some((expression, function)) = &output.input else {
            let field = Arc::new(Field::new(&output.name, DataType::Int64, false));
            let kind = self.add_kind(StateKind::RowCount);
            let function = AggregateFunction::Count;
            let source_type = DataType::Null;
            self.outputs.push(OutputColumn { field, source_type, function, kind, column: None });
            return Ok(());
        };
        let function = *function;
        let (column, source_type) = self.bind_column(dataset, expression, function)?;
        let Some(kind) = output::state_kind(function, &source_type, column, self.is_ordered(column)) else {
            let shown = match expression.name() {
                Some(name) => format!("column '{name}'"),
                None => expression.to_string(),
            };
            let message = format!("{function} of {shown} of type {} is not supported", type_name(&source_type));
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let returns_column_value = match function {
            AggregateFunction::First | AggregateFunction::Last => true,
            AggregateFunction::Min | AggregateFunction::Max => self.is_ordered(column),
            _ => false,
        };
        let field = if returns_column_value {
            dataset.schema().field(column).clone().with_name(&output.name).with_nullable(true)
        } else {
            let is_nullable = !matches!(function, AggregateFunction::Count | AggregateFunction::NUnique);
            Field::new(&output.name, output::result_type(function, &source_type), is_nullable)
        };
        let kind = self.add_kind(kind);
        let field = Arc::new(field);
        self.outputs.push(OutputColumn { field, source_type, function, kind, column: Some(column) });
        Ok(())
    }

    /// Returns the number of a state, which is added if the plan does not have it.
    pub(super) fn add_kind(&mut self, kind: StateKind) -> usize {
        if let Some(number) = self.kinds.iter().position(|existing| *existing == kind) {
            return number;
        }
        self.kinds.push(kind);
        self.kinds.len() - 1
    }

    /// Returns the result; `None` if there are too many groups for sets of their integers.
    fn run(&self, dataset: &Dataset, watch: Option<ProgressCallback<'_>>) -> Result<Option<Dataset>> {
        let (frame, groups) = self.group_rows(dataset, watch)?;
        if groups.tables.iter().any(GroupTable::is_too_large) {
            return Ok(None);
        }
        self.finish(dataset, &frame, &groups).map(Some)
    }

    /// Returns true if a column's values have an order other than the order of their bytes.
    fn is_ordered(&self, column: usize) -> bool {
        self.orders.iter().any(|(ordered, _)| *ordered == column)
    }

    /// Returns the number of a column, or of a computed one, and the type of its values.
    fn bind_column(
        &mut self,
        dataset: &Dataset,
        expression: &Expression,
        function: AggregateFunction,
    ) -> Result<(usize, DataType)> {
        let is_row = matches!(function, AggregateFunction::First | AggregateFunction::Last);
        if let Some(name) = expression.name() {
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
                column_type => column_type,
            };
            return Ok((column, data_type.clone()));
        }
        if is_row || function == AggregateFunction::NUnique {
            let message =
                format!("{function} is that of columns, and {expression} is computed: ask DuckDB or Polars: ds.sql(…)");
            return Err(Error::unsupported(message));
        }
        let formula = BoundExpression::bind(expression, dataset.schema(), &|name| dataset.index_of(name))?;
        let data_type = formula.data_type();
        self.computed.push(formula);
        Ok((dataset.num_columns() + self.computed.len() - 1, data_type))
    }

    /// Groups all rows, and aggregates each group.
    fn group_rows<'a>(
        &'a self,
        dataset: &'a Dataset,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<(Frame<'a>, OrderedGroups<'a>)> {
        if self.needs_no_values() {
            let blocks = InputBlocks { frame: self.frame(dataset)?.with_block_rows(usize::MAX), fused: None };
            return self.group_in_one_table(blocks, watch);
        }
        let blocks = self.blocks(dataset, &mut None)?;
        if blocks.frame.block_rows() == LARGE_BLOCK && self.computed.is_empty() && self.orders.is_empty() {
            let frame = self.frame(dataset)?.with_block_rows(CHUNK);
            match self.group_in_partitions(dataset, &frame, watch) {
                Ok(groups) => return Ok((frame, groups)),
                // Partitions copy rows, which is not worthwhile for long texts and for dictionaries with more values
                // than there are keys: one table groups these in place.
                Err(e) if e.kind() == ErrorKind::Unsupported => {}
                Err(e) => return Err(e),
            }
        }
        self.group_in_one_table(blocks, watch)
    }

    fn group_in_one_table<'a>(
        &self,
        blocks: InputBlocks<'a>,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<(Frame<'a>, OrderedGroups<'a>)> {
        let mut table = GroupTable::new(self.keys.len(), &self.kinds);
        self.add_blocks(&blocks, 0..blocks.frame.num_blocks(), watch, &mut table)?;
        Ok((blocks.frame, OrderedGroups::from_table(table)))
    }

    /// Returns true if all outputs are numbers of rows, so that any number of rows can be one block.
    fn needs_no_values(&self) -> bool {
        self.keys.is_empty() && self.condition.is_none() && self.kinds.iter().all(StateKind::needs_only_row_numbers)
    }

    pub(super) fn frame<'a>(&'a self, dataset: &'a Dataset) -> Result<Frame<'a>> {
        let ranks = self.row_set.as_deref().map(|rows| rows as &dyn RowRanks);
        Ok(Frame::for_part(dataset, &self.whole)?.with_ranks(ranks).with_orders(&self.orders))
    }

    /// Divides the rows into blocks of `size` rows. If `size` is `None`, the number of groups in the first block
    /// determines it, and it is set unless the size of blocks does not matter.
    pub(super) fn blocks<'a>(&'a self, dataset: &'a Dataset, size: &mut Option<usize>) -> Result<InputBlocks<'a>> {
        let frame = self.frame(dataset)?.with_block_rows(BLOCK);
        let fused = if self.computed.is_empty() {
            FusedSum::try_new(&frame, &self.keys, self.condition.as_ref(), &self.kinds)?
        } else {
            None
        };
        if fused.is_some() || self.keys.is_empty() || frame.num_blocks() <= 1 {
            return Ok(InputBlocks { frame, fused });
        }
        let rows = match *size {
            Some(rows) => rows,
            None => *size.insert(block_rows(self.count_first_groups(&frame)?)),
        };
        Ok(InputBlocks { frame: frame.with_block_rows(rows), fused })
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
        let wave = (limit_to_callback(watch, WAVE_BLOCKS * BLOCK) / frame.block_rows()).max(1);
        let may_all_be_new = frame.block_rows() == LARGE_BLOCK;
        let mut memory = MemoryEstimate::new(self.keys.len(), &self.kinds, self.memory, may_all_be_new);
        for start in blocks.clone().step_by(wave) {
            let blocks = start..blocks.end.min(start + wave);
            report_progress(watch, frame, start, table.firsts.len())?;
            memory.check(row_range(frame, &blocks), frame.num_rows(), table.firsts.len())?;
            let bytes = blocks.len().saturating_mul(8 * columns).saturating_mul(frame.block_rows());
            let results = parallel::map_with(blocks.len(), bytes, GroupScratch::default, |scratch, job| {
                self.aggregate_block(frame, start + job, fused.as_ref(), scratch)
            });
            for (block, result) in blocks.zip(results) {
                let mut result = result?;
                if !result.in_order && !table.has_all(&result.groups) {
                    // The table needs the first rows of new groups, which the fused loop does not determine.
                    result = self.aggregate_block(frame, block, None, &mut GroupScratch::default())?;
                    assert!(result.in_order, "block {block} has new groups without their first rows");
                }
                table.add(frame.block_start(block), &result.groups, &result.states)?;
            }
            if table.is_too_large() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Groups the rows of each partition in a table of its own.
    fn group_in_partitions<'a>(
        &'a self,
        dataset: &Dataset,
        frame: &Frame<'a>,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<OrderedGroups<'a>> {
        let needed = InputColumns::build(dataset, frame, &self.keys, &self.kinds)?;
        let tables: Vec<_> =
            (0..PARTITIONS).map(|_| Mutex::new(GroupTable::new(self.keys.len(), &self.kinds))).collect();
        let wave_chunks = limit_to_callback(watch, needed.wave_rows(dataset)).div_ceil(CHUNK).max(1);
        let is_only_wave = frame.num_blocks() <= wave_chunks;
        let mut memory = MemoryEstimate::new(self.keys.len(), &self.kinds, self.memory, true);
        for start in (0..frame.num_blocks()).step_by(wave_chunks) {
            let num_groups = tables.iter().map(|table| table.lock_ignoring_poison().firsts.len()).sum();
            report_progress(watch, frame, start, num_groups)?;
            let chunks = start..frame.num_blocks().min(start + wave_chunks);
            memory.check(row_range(frame, &chunks), frame.num_rows(), num_groups)?;
            let wave = Wave::build(frame, &needed, chunks, |block| self.masks(frame, block))?;
            let bytes = wave.rows().saturating_mul(16 * (self.keys.len() + self.kinds.len()));
            let jobs = wave.jobs();
            // Jobs with all rows of a partition add them to its table at once. The results of others are returned, and
            // added in the order of rows.
            let results = parallel::map_with(jobs.len(), bytes, GroupScratch::default, |scratch, number| {
                let job = &jobs[number];
                if !job.is_whole {
                    return wave.groups(job, scratch).map(Some);
                }
                let mut table = tables[job.partition].lock_ignoring_poison();
                if is_only_wave {
                    *table = wave.table(job, scratch)?;
                    return Ok(None);
                }
                let (groups, states) = wave.groups(job, scratch)?;
                table.add(frame.block_start(start), &groups, &states).map(|()| None)
            });
            let mut parts = Vec::new();
            for (job, result) in jobs.iter().zip(results) {
                if let Some((groups, states)) = result? {
                    parts.push((job, groups, states));
                }
            }
            parts.sort_unstable_by_key(|(job, ..)| (job.partition, job.chunks.start));
            for (job, groups, states) in parts {
                tables[job.partition].lock_ignoring_poison().add(frame.block_start(start), &groups, &states)?;
            }
        }
        let tables = tables.into_iter().map(|table| table.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(OrderedGroups::from_tables(tables.collect(), frame.num_rows()))
    }

    /// Returns the number of groups in the first block, which has `BLOCK` rows.
    pub(super) fn count_first_groups(&self, frame: &Frame<'_>) -> Result<usize> {
        let groups = group(frame, 0, &self.keys, &self.masks(frame, 0)?, &mut GroupScratch::default())?;
        Ok(groups.count())
    }

    /// Returns the rows of each span of a block that the condition includes; `None` for all rows of a span.
    fn masks(&self, frame: &Frame<'_>, block: usize) -> Result<Vec<Option<Mask>>> {
        let mut masks = Vec::new();
        for (part, rows) in frame.spans(block) {
            masks.push(match &self.condition {
                Some(condition) => Some(condition.mask(frame, part, &rows)?),
                None => None,
            });
        }
        Ok(masks)
    }

    /// Groups the rows of a block, and aggregates each group.
    fn aggregate_block<'a>(
        &self,
        frame: &Frame<'a>,
        block: usize,
        fused: Option<&FusedSum<'a>>,
        scratch: &mut GroupScratch,
    ) -> Result<BlockResult<'a>> {
        if let Some(fused) = fused
            && let Some((groups, states)) = fused.aggregate_block(frame, block)?
        {
            return Ok(BlockResult { groups, states, in_order: false });
        }
        if let Some(states) = self.ungrouped_states(frame, block)? {
            let firsts = vec![0];
            let groups = Groups { ids: Vec::new(), cells: Vec::new(), width: 0, firsts, is_sparse: false };
            return Ok(BlockResult { groups, states, in_order: true });
        }
        let mut groups = group(frame, block, &self.keys, &self.masks(frame, block)?, scratch)?;
        scratch.expected = groups.count();
        let computed = ComputedColumns { columns: self.columns, formulas: &self.computed };
        let mut states = Vec::with_capacity(self.kinds.len());
        for &kind in &self.kinds {
            states.push(GroupState::from_block(kind, frame, block, &groups, &computed)?);
        }
        scratch.reuse(&mut groups);
        Ok(BlockResult { groups, states, in_order: true })
    }

    /// Returns the states of all rows of a block as one group; `None` if a state needs the group of each row.
    fn ungrouped_states<'a>(&self, frame: &Frame<'a>, block: usize) -> Result<Option<Vec<GroupState<'a>>>> {
        if !self.keys.is_empty() || !self.computed.is_empty() {
            return Ok(None);
        }
        if self.condition.is_some() {
            if !self.kinds.iter().all(StateKind::needs_only_row_numbers) {
                return Ok(None);
            }
            return Ok(states_from_masks(&self.kinds, frame, block, &self.masks(frame, block)?));
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

    /// Returns the result for `groups`: the keys and the outputs of each.
    pub(super) fn finish(&self, dataset: &Dataset, frame: &Frame<'_>, groups: &OrderedGroups<'_>) -> Result<Dataset> {
        let keys = dataset.select_at(&self.keys)?;
        let rows = if self.keys.is_empty() { 1 } else { groups.firsts.len() };
        let mut columns = Vec::with_capacity(self.outputs.len());
        for (number, output) in self.outputs.iter().enumerate() {
            let counted = self.distinct.iter().find(|(output, _)| *output == number);
            let column = match counted {
                Some((_, counts)) => counts.clone(),
                None => self.result_column(dataset, frame, groups, output, rows)?,
            };
            if column.len() != rows {
                // Distinct values are counted in a pass of their own, between which another process may write to the
                // file.
                let message = format!("column '{}' has {} rows for {rows} groups", output.field.name(), column.len());
                return Err(Error::internal(message));
            }
            columns.push(column);
        }
        let output_fields = self.outputs.iter().map(|output| output.field.clone());
        let fields: Vec<FieldRef> = keys.schema().fields().iter().cloned().chain(output_fields).collect();
        let schema = Arc::new(Schema::new(fields));
        if self.keys.is_empty() {
            return Ok(Dataset::from_arrays(schema, vec![(1, columns)]));
        }
        if let Some(mut all) = self.key_columns(&keys, groups)? {
            all.extend(columns);
            return Ok(Dataset::from_arrays(schema, vec![(rows, all)]));
        }
        let keys = gather_rows(&keys, &Frame::try_new(&keys)?, rows, |group| groups.firsts[group])?;
        append_columns(&keys, &columns, schema)
    }

    /// Returns the key columns, if the groups have them, and they fit one batch.
    fn key_columns(&self, keys: &Dataset, groups: &OrderedGroups<'_>) -> Result<Option<Vec<ArrayData>>> {
        if !groups.has_keys() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(self.keys.len());
        for (number, key) in keys.schema().fields().iter().enumerate() {
            match groups.column(key.data_type(), |table, _| Ok(table.keys[number].clone())) {
                Ok(column) => columns.push(column),
                Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        Ok(Some(columns))
    }

    /// Returns a column of the result, which has `rows` rows.
    fn result_column(
        &self,
        dataset: &Dataset,
        frame: &Frame<'_>,
        groups: &OrderedGroups<'_>,
        output: &OutputColumn,
        rows: usize,
    ) -> Result<ArrayData> {
        if let (StateKind::Extreme { values: ValueKind::Texts, .. } | StateKind::Row(_), Some(column)) =
            (self.kinds[output.kind], output.column)
        {
            let group_rows = groups.in_order(|table| table.states[output.kind].rows());
            return output::gather_group_rows(dataset, frame, column, rows, &group_rows);
        }
        let data_type = output.field.data_type();
        let column = groups.column(data_type, |table, rows| {
            let state = &table.states[output.kind];
            output::state_to_array(state, output.function, &output.source_type, data_type, rows)
        });
        column.map_err(|e| e.context(format_args!("column '{}'", output.field.name())))
    }
}

/// The rows of a dataset in blocks, and the fused loop for them if the query has one.
pub(super) struct InputBlocks<'a> {
    pub frame: Frame<'a>,
    fused: Option<FusedSum<'a>>,
}

/// Returns the number of rows of a block, if the first `BLOCK` rows have `groups` groups.
pub(super) fn block_rows(groups: usize) -> usize {
    // A block of the middle size sees most groups many times.
    if groups <= FEW_GROUPS {
        BLOCK
    } else if groups <= SOME_GROUPS {
        MIDDLE_BLOCK
    } else if groups <= MANY_GROUPS {
        WIDE_BLOCK
    } else {
        LARGE_BLOCK
    }
}

/// Returns the rows of some blocks.
fn row_range(frame: &Frame<'_>, blocks: &Range<usize>) -> Range<u64> {
    frame.block_start(blocks.start)..frame.num_rows().min(frame.block_start(blocks.end))
}

/// Limits the `rows` of a wave to the maximum number of rows between two calls of `watch`.
fn limit_to_callback(watch: Option<ProgressCallback<'_>>, rows: usize) -> usize {
    watch.map_or(rows, |watch| rows.min(watch.rows))
}

/// Calls `watch` before block `block`, when the blocks before it have `groups` groups.
pub(super) fn report_progress(
    watch: Option<ProgressCallback<'_>>,
    frame: &Frame<'_>,
    block: usize,
    groups: usize,
) -> Result<()> {
    let Some(ProgressCallback { watch, .. }) = watch else { return Ok(()) };
    watch(AggregationProgress { rows: frame.block_start(block), of: frame.num_rows(), groups })
}

/// The groups of a block and their states.
struct BlockResult<'a> {
    groups: Groups<'a>,
    states: Vec<GroupState<'a>>,
    /// True if the groups are numbered in order of appearance, and their first rows are known.
    in_order: bool,
}

/// Returns the columns of `keys`, which may be in several batches, followed by `columns`.
fn append_columns(keys: &Dataset, columns: &[ArrayData], schema: Arc<Schema>) -> Result<Dataset> {
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
    debug_assert!(columns.iter().all(|column| column.len() == start), "keys and outputs have the same number of rows");
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

    /// Returns a batch with keys of all types, an integer and a float.
    fn batch(rows: &[TestRow], start: usize) -> RecordBatch {
        let words = || rows.iter().map(|row| row.0.map(|key| WORDS[usize::from(key) % 6]));
        // Each batch has another dictionary, with some words repeated.
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

    fn query<'a>(dataset: &'a Dataset, by: &[&str]) -> Aggregation<'a> {
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
        dataset.rows().map(|result| row(result.unwrap())).collect()
    }

    /// Returns the rows of each word, in order of appearance.
    fn naive(rows: &[TestRow]) -> Vec<Vec<TestRow>> {
        let (mut numbers, mut groups) = (HashMap::new(), Vec::<Vec<TestRow>>::new());
        for row in rows.iter().filter(|row| row.1 != Some(3)) {
            let group = *numbers.entry(row.0.map(|key| key % 6)).or_insert(groups.len());
            groups.resize(groups.len().max(group + 1), Vec::new());
            groups[group].push(*row);
        }
        groups
    }

    fn check(result: &[String], group: &[TestRow]) {
        let sum: i64 = group.iter().filter_map(|row| row.1).sum();
        let min = group.iter().filter_map(|row| row.1).min().map_or("null".into(), |min| min.to_string());
        assert_eq!(result[..3], [group.len().to_string(), sum.to_string(), min]);
        let x: Vec<f64> = group.iter().filter_map(|row| row.2).collect();
        let close = |result: &str, expected: Option<f64>| match expected {
            Some(expected) => assert!((result.parse::<f64>().unwrap() - expected).abs() < 1e-6, "{result} {expected}"),
            None => assert_eq!(result, "null"),
        };
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        close(&result[3], (!x.is_empty()).then_some(mean));
        close(&result[4], x.iter().copied().reduce(f64::max));
        let squares: f64 = x.iter().map(|x| (x - mean) * (x - mean)).sum();
        close(&result[5], (x.len() > 1).then(|| squares / (x.len() - 1) as f64));
        assert_eq!(result[6], group[0].0.map_or("null", |key| WORDS[usize::from(key) % 6]));
    }

    fn test_row() -> impl Strategy<Value = TestRow> {
        let option = |weight| prop::option::weighted(weight, any::<u8>());
        (option(0.9), prop::option::weighted(0.8, -9i64..9), prop::option::weighted(0.8, -1e3..1e3f64))
    }

    proptest! {
        #[test]
        fn groups_equal_a_naive_loop_for_all_types_of_keys(
            rows in prop::collection::vec(test_row(), 1..300), cuts in prop::collection::vec(any::<usize>(), 0..5),
        ) {
            let dataset = dataset(&rows, &cuts);
            let groups = naive(&rows);
            for key in ["text", "view", "narrow", "wide", "small", "large", "real", "exact"] {
                for by in [&[key][..], &["text", key], &[key, "small", "wide"]] {
                    if by[1..].contains(&key) || by[0] == "text" && by.len() > 1 && key == "text" {
                        continue;
                    }
                    let result = query(&dataset, by).finish().unwrap();
                    result.validate(|_, _| ()).unwrap();
                    let result = cells(&result);
                    prop_assert_eq!(result.len(), groups.len(), "{:?}", by);
                    result.iter().zip(&groups).for_each(|(result, group)| check(&result[by.len()..], group));
                }
            }
        }
    }

    /// Results are equal bit for bit, whether blocks end inside of batches or batches inside of blocks, and for one thread
    /// and several.
    #[test]
    fn results_do_not_depend_on_threads_or_batches() {
        let row = |i: u32| (Some((i.wrapping_mul(2_654_435_761) >> 13) as u8), Some(1), Some(f64::from(i).sin() * 1e9));
        let rows: Vec<TestRow> = (0..300_000).map(row).collect();
        let expected = cells(&query(&dataset(&rows, &[]), &["wide"]).finish().unwrap());
        let cuts: Vec<usize> = (0..50).map(|i| i * i * 7919).collect();
        assert_eq!(cells(&query(&dataset(&rows, &cuts), &["wide"]).finish().unwrap()), expected);
        let groups = naive(&rows);
        expected.iter().zip(&groups).for_each(|(result, group)| {
            let mean = group.iter().filter_map(|row| row.2).sum::<f64>() / group.len() as f64;
            assert!((result[4].parse::<f64>().unwrap() - mean).abs() < 1e-3);
        });
    }

    #[test]
    fn aggregations_report_progress_and_can_be_stopped() {
        let rows: Vec<TestRow> = vec![(Some(1), Some(1), None); 9_000_000];
        let dataset = dataset(&rows, &[]).select(&["small", "n"]).unwrap();
        let reported = std::sync::Mutex::new(Vec::new());
        let watch = |progress: AggregationProgress| {
            reported.lock().unwrap().push((progress.rows, progress.of, progress.groups));
            Ok(())
        };
        let counted = dataset.aggregate(&["small"]).count_rows("rows").on_progress(1 << 20, &watch).finish().unwrap();
        assert_eq!(cells(&counted), [["-2", "9000000"]]);
        let waves: Vec<_> = (0..9).map(|wave| (wave << 20, 9_000_000, usize::from(wave > 0))).collect();
        assert_eq!(*reported.lock().unwrap(), waves);
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
