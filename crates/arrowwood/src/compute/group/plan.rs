//! Plans an aggregation for the columns of a dataset, and runs the plan.
//!
//! Rows are processed in blocks, independent of batches and threads: each block finds its groups and their states, and
//! blocks are merged in order. The number of groups in the first block decides how large blocks are; if it has very
//! many groups, rows are processed in partitions by their keys instead. Therefore the result depends only on the rows.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Schema};

use super::aggregate::{AggregateExpr, Aggregation, AggregationProgress, ProgressCallback};
use super::fused_sum::FusedSum;
use super::keys::{GroupScratch, Groups, check_claim, check_keys, group};
use super::radix::{CHUNK, InputColumns, PARTITIONS, PartitionJob, Wave};
use super::state::{
    AggregateFunction, ComputedColumns, GroupState, GroupTable, MemoryEstimate, OrderedGroups, StateKind, ValueKind,
    gather_group_rows, is_stored_as_integer, result_type, state_kind, state_to_array, states_from_masks,
};
use crate::array::{require_little_endian, slice};
use crate::compute::expr::{BoundExpression, BoundPredicate, Expression};
use crate::compute::gather::gather_rows;
use crate::compute::kernels::is_number;
use crate::compute::scan::{Categories, Frame, RowRanks, ValueOrder};
use crate::compute::selection::{Mask, RowSet};
use crate::compute::view::check_result_memory;
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::map::MutexExt;
use crate::parallel;
use crate::types::type_name;

/// The number of rows of a block with few groups: what a thread stores for each row stays in a cache.
pub(super) const BLOCK: usize = 1 << 14;
/// The number of rows of a block with more than `FEW_GROUPS`: merging two blocks takes time for each of their groups.
const MIDDLE_BLOCK: usize = 1 << 17;
/// The number of rows of a block with more than `SOME_GROUPS`, whose table still fits into the cache of one core.
const WIDE_BLOCK: usize = 1 << 18;
/// The number of rows of a block with more than `MANY_GROUPS`. Such blocks are merged only where a dataset grows.
const LARGE_BLOCK: usize = 1 << 19;
/// The number of blocks of `BLOCK` rows whose groups are held until they are merged.
const WAVE_BLOCKS: usize = 256;

/// The maximum number of groups in the first `BLOCK` rows for blocks of `BLOCK` rows.
const FEW_GROUPS: usize = 256;
/// The maximum number of groups in the first `BLOCK` rows for blocks of `MIDDLE_BLOCK` rows.
const SOME_GROUPS: usize = BLOCK / 8;
/// The maximum number of groups in the first `BLOCK` rows for blocks of `WIDE_BLOCK` rows.
pub(super) const MANY_GROUPS: usize = BLOCK / 8 * 5;

/// The approximate number of bytes of a column that are read and written for each row of a block.
const BLOCK_BYTES_PER_ROW: usize = 8;
/// The approximate number of bytes of a column that are read and written for each row of a partition.
const PARTITION_BYTES_PER_ROW: usize = 16;

/// An aggregation whose columns are known by their numbers in a dataset.
///
/// Each output refers to one of `kinds`, the states that are computed for each group; several outputs may share a
/// state. [`try_new`](GroupPlan::try_new) binds the names, [`run`](GroupPlan::run) groups all rows and makes the
/// result, and an incremental aggregation adds the blocks step by step.
pub(super) struct GroupPlan {
    /// The dataset whose row numbers error messages contain.
    pub whole: Dataset,
    /// The columns that rows are grouped by.
    pub keys: Vec<usize>,
    /// The rows that are included; `None` for all.
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
    pub distinct: Vec<(usize, ArrayData)>,
    /// The maximum number of bytes that groups may take; `None` for the memory that the system has left.
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
    /// Binds an aggregation to its dataset.
    ///
    /// # Errors
    /// Those of [`Aggregation::finish`] that do not depend on values.
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
            check_result_memory(dataset, dataset.len()?.div_ceil(u8::BITS.into()))?;
        } else if plan.keys.is_empty() {
            check_claim(&columns, dataset)?;
        }
        Ok(plan)
    }

    /// Returns a plan that groups by `keys`, without outputs.
    pub(super) fn empty(dataset: &Dataset, keys: Vec<usize>, condition: Option<BoundPredicate>) -> GroupPlan {
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

    /// Adds a column of the result, and the state that it needs.
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
        let Some(kind) = state_kind(function, &source_type, column, self.is_ordered(column)) else {
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
            Field::new(&output.name, result_type(function, &source_type), is_nullable)
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
    pub(super) fn run(&self, dataset: &Dataset, watch: Option<ProgressCallback<'_>>) -> Result<Option<Dataset>> {
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
    pub(super) fn group_rows<'a>(
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

    /// Groups all rows block by block, in one table.
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

    /// Returns the frame of `dataset`, whose errors number rows as the caller does.
    pub(super) fn frame<'a>(&'a self, dataset: &'a Dataset) -> Result<Frame<'a>> {
        require_little_endian("grouping rows")?;
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

            let bytes = blocks.len().saturating_mul(BLOCK_BYTES_PER_ROW * columns).saturating_mul(frame.block_rows());
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
    ///
    /// A table is locked by the job that has all rows of its partition, of which there is one in a wave, or by this
    /// thread when no job runs. No thread ever waits for a lock or holds two.
    fn group_in_partitions<'a>(
        &'a self,
        dataset: &Dataset,
        frame: &Frame<'a>,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<OrderedGroups<'a>> {
        let needed = InputColumns::build(dataset, frame, &self.keys, &self.kinds)?;
        let tables: Vec<_> =
            (0..PARTITIONS).map(|_| Mutex::new(GroupTable::new(self.keys.len(), &self.kinds))).collect();
        let wave_chunks = limit_to_callback(watch, needed.wave_rows(dataset)?).div_ceil(CHUNK).max(1);
        let is_only_wave = frame.num_blocks() <= wave_chunks;
        let mut memory = MemoryEstimate::new(self.keys.len(), &self.kinds, self.memory, true);

        for start in (0..frame.num_blocks()).step_by(wave_chunks) {
            let num_groups = tables.iter().map(|table| table.lock_ignoring_poison().firsts.len()).sum();
            report_progress(watch, frame, start, num_groups)?;
            let chunks = start..frame.num_blocks().min(start + wave_chunks);
            memory.check(row_range(frame, &chunks), frame.num_rows(), num_groups)?;

            let wave = Wave::build(frame, &needed, chunks, |block| self.masks(frame, block))?;
            let columns = self.keys.len() + self.kinds.len();
            let bytes = wave.rows().saturating_mul(PARTITION_BYTES_PER_ROW * columns);
            let jobs = wave.jobs();
            // A job with all rows of its partition adds them to its table at once. The groups of other jobs are
            // returned, and are added in the order of rows.
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

            let mut parts: Vec<(&PartitionJob, _, _)> = Vec::new();
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
                // Distinct values are counted in a pass of their own, and another process may have written to the file
                // between the passes.
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
            return gather_group_rows(dataset, frame, column, rows, &group_rows);
        }
        let data_type = output.field.data_type();
        let column = groups.column(data_type, |table, rows| {
            let state = &table.states[output.kind];
            state_to_array(state, output.function, &output.source_type, data_type, rows)
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
