//! Keeps sorts within the memory of a query, however wide rows are.
//!
//! A sort has to retain whole batches until it spills and merges them. [`slice_sort_inputs`] cuts the batches that
//! sorts receive to a size that they can handle, and [`max_batch_rows`] limits the rows that scans return in a batch.

use std::fmt;
use std::sync::{Arc, Mutex};

use arrowwood::mapping::MutexExt;
use arrowwood_datafusion::{Scan, shrink_to_fit};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::functions::width;

/// A batch may take one part in so many of a sort's memory, as a sort counts batches twice and merges several.
const BATCH_MEMORY_DIVISOR: usize = 32;
/// Batches of at most so many bytes are not cut.
const MIN_SLICE_BYTES: usize = 16 << 10;
/// The number of rows that the width of a batch's rows is estimated from.
const SAMPLE_ROWS: usize = 256;

/// Returns the maximum bytes of a batch of `plan`, in a query with `query_bytes` of memory.
fn max_batch_bytes(plan: &Arc<dyn ExecutionPlan>, query_bytes: usize) -> usize {
    let partitions = plan.output_partitioning().partition_count().max(1);
    (query_bytes / BATCH_MEMORY_DIVISOR / partitions).max(MIN_SLICE_BYTES)
}

/// Returns the number of rows of a batch, at most `batch_rows`, with which the batches of scans and projections in
/// `plan` fit into the memory of a sort, before and after filters.
pub(crate) fn max_batch_rows(plan: &Arc<dyn ExecutionPlan>, batch_rows: usize, query_bytes: usize) -> Result<usize> {
    let mut rows = batch_rows;
    plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<Scan>() {
            let fitting_rows = max_batch_bytes(node, query_bytes) as u64 / scan.row_width()?.max(1);
            rows = rows.min(usize::try_from(fitting_rows).unwrap_or(usize::MAX));
        }
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            rows = rows.min(max_batch_bytes(node, query_bytes) / computed_row_width(projection).max(1));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows.max(1))
}

/// Estimates the bytes of a row that a projection computes. Texts are counted where functions make them, and literals
/// in [`constants`](crate::plans::constants).
fn computed_row_width(projection: &ProjectionExec) -> usize {
    let mut row_width = 0_u128;
    for (output, field) in projection.expr().iter().zip(projection.schema().fields()) {
        if !output.expr.is::<Column>() && !output.expr.is::<Literal>() {
            row_width = row_width.saturating_add(width(field.data_type()));
        }
    }
    usize::try_from(row_width).unwrap_or(usize::MAX)
}

/// Wraps the sorts of a plan in [`SlicedSortExec`].
pub(crate) fn slice_sort_inputs(plan: Arc<dyn ExecutionPlan>, query_bytes: usize) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
        let max_bytes = max_batch_bytes(sort.input(), query_bytes);
        Ok(Transformed::yes(Arc::new(SlicedSortExec { sort: node, max_bytes }) as Arc<dyn ExecutionPlan>))
    })
    .data()
}

/// A sort whose input batches are cut into slices of at most `max_bytes`, and whose output batches have no more rows
/// than such a slice.
#[derive(Debug)]
struct SlicedSortExec {
    sort: Arc<dyn ExecutionPlan>,
    max_bytes: usize,
}

impl DisplayAs for SlicedSortExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrowwoodSliced: bytes={}", self.max_bytes)
    }
}

impl ExecutionPlan for SlicedSortExec {
    fn name(&self) -> &str {
        "ArrowwoodSliced"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.sort.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.sort]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([sort]) = <[_; 1]>::try_from(children) else { return internal_err!("batches are cut for one sort") };
        Ok(Arc::new(SlicedSortExec { sort, max_bytes: self.max_bytes }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(sort) = self.sort.downcast_ref::<SortExec>() else {
            return internal_err!("batches are cut for a sort");
        };
        let mut input = sort.input().execute(partition, context.clone())?;
        let input_properties = sort.input().properties().clone();
        let sort = self.sort.clone();
        let max_bytes = self.max_bytes;

        let start = async move {
            let first = input.next().await.transpose()?;
            let slice_rows = match &first {
                Some(first) => fitting_rows(first, max_bytes)?,
                None => usize::MAX,
            };

            let schema = input.schema();
            let batches = stream::iter(first.map(Ok)).chain(input);
            let slices = batches.flat_map(move |batch| stream::iter(slices(batch, max_bytes)));
            let slices: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, slices));
            let input = StartedExec { properties: input_properties, batches: Mutex::new(Some(slices)) };
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            let sort = sort.replace_children(vec![Arc::new(input)], options)?;

            let batch_rows = context.session_config().batch_size().min(slice_rows);
            let config = context.session_config().clone().with_batch_size(batch_rows);
            // Functions are resolved when a plan is made, so that this context needs none.
            let context = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
            sort.execute(partition, Arc::new(context))
        };
        let sorted = stream::once(Box::pin(start)).try_flatten();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), sorted))))
    }
}

/// An operator that was started already: hands its stream on once.
struct StartedExec {
    properties: Arc<PlanProperties>,
    batches: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for StartedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartedExec")
    }
}

impl DisplayAs for StartedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArrowwoodOnce")
    }
}

impl ExecutionPlan for StartedExec {
    fn name(&self) -> &str {
        "ArrowwoodOnce"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a step that has begun has no children") }
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.batches.lock_ignoring_poison().take();
        batches.ok_or_else(|| internal_datafusion_err!("a step is begun once"))
    }
}

/// Returns the number of rows that take at most `max_bytes`, if they are as wide as the first ones of a batch.
fn fitting_rows(batch: &RecordBatch, max_bytes: usize) -> Result<usize> {
    let sample = copy_slice(&batch.slice(0, batch.num_rows().min(SAMPLE_ROWS)))?;
    let row_width = batch_bytes(&sample) / sample.num_rows().max(1);
    Ok((max_bytes / row_width.max(1)).max(1))
}

/// Returns a batch as slices of at most `max_bytes`, each copied when it is taken, or as it is if it is small enough.
fn slices(batch: Result<RecordBatch>, max_bytes: usize) -> impl Iterator<Item = Result<RecordBatch>> {
    let mut slices = Vec::new();
    let mut unsliced = None;
    match batch {
        Err(e) => unsliced = Some(Err(e)),
        Ok(batch) => match cut_batch(&batch, max_bytes) {
            Some(cut) => slices = cut,
            None => unsliced = Some(Ok(batch)),
        },
    }
    slices.into_iter().map(|slice| copy_slice(&slice)).chain(unsliced)
}

/// Copies a slice, so that an operator that retains it does not retain the whole batch.
fn copy_slice(slice: &RecordBatch) -> Result<RecordBatch> {
    Ok(shrink_to_fit(slice)?)
}

/// Cuts a batch of more than `max_bytes` into slices. Returns `None` for smaller batches.
fn cut_batch(batch: &RecordBatch, max_bytes: usize) -> Option<Vec<RecordBatch>> {
    let rows = batch.num_rows();
    let bytes = batch_bytes(batch);
    if bytes <= max_bytes || rows < 2 {
        return None;
    }
    let slice_rows = rows.div_ceil(bytes.div_ceil(max_bytes)).max(1);
    let mut slices = Vec::with_capacity(rows.div_ceil(slice_rows));
    for start in (0..rows).step_by(slice_rows) {
        slices.push(batch.slice(start, slice_rows.min(rows - start)));
    }
    let count: usize = slices.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(count, rows, "the slices of a batch have all of its rows");
    Some(slices)
}

/// Returns the bytes of a batch without the values of dictionaries, which all batches share.
fn batch_bytes(batch: &RecordBatch) -> usize {
    /// The bytes of a key of the widest type.
    const MAX_KEY_BYTES: usize = 8;
    let mut bytes = 0;
    for column in batch.columns() {
        bytes += match column.data_type() {
            DataType::Dictionary(keys, _) => column.len() * keys.primitive_width().unwrap_or(MAX_KEY_BYTES),
            _ => column.get_array_memory_size(),
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, DictionaryArray, StringArray, StringViewArray};
    use datafusion::arrow::compute::concat_batches;
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn large_batches_are_cut_into_slices() {
        let words: Vec<String> = (0..1000).map(|n| format!("{n:0>1000}")).collect();
        let columns: [ArrayRef; 2] = [
            Arc::new(words.iter().map(Some).collect::<StringArray>()),
            Arc::new(words.iter().map(Some).collect::<StringViewArray>()),
        ];
        for column in columns {
            let batch = RecordBatch::try_from_iter([("word", column)]).unwrap();
            let slices = cut_batch(&batch, 100_000).unwrap();
            let slices: Vec<_> = slices.iter().map(|slice| copy_slice(slice).unwrap()).collect();
            assert!(slices.len() >= 10);
            assert!(slices.iter().all(|slice| batch_bytes(slice) < 120_000));
            assert_eq!(concat_batches(&batch.schema(), &slices).unwrap(), batch);
        }
        // The values of a dictionary do not count, as all batches share them.
        let words: DictionaryArray<Int32Type> = words.iter().map(String::as_str).collect();
        let batch = RecordBatch::try_from_iter([("word", Arc::new(words) as ArrayRef)]).unwrap();
        assert!(cut_batch(&batch, 100_000).is_none());
    }
}
