//! Sorts that fit into the memory of a query, however wide rows are: [`sliced`] has them keep no more of a batch than
//! they can write to a file and merge, and [`rows_at_once`] says how many rows of files are that much.

use arrowwood::mapping::MutexExt;
use std::fmt;
use std::sync::{Arc, Mutex};

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

use crate::exact_size::BufferOrigin;
use crate::result_bounds::width;
use crate::scan::Scan;

/// The part of its memory that a sort may keep of one batch: it counts batches twice, and merges several.
const PART: usize = 32;
/// Batches of fewer bytes are not cut.
const LEAST: usize = 16 << 10;

/// How many bytes a batch of `plan` may have, in a query of `most` bytes.
fn bytes_at_once(plan: &Arc<dyn ExecutionPlan>, most: usize) -> usize {
    let partitions = plan.output_partitioning().partition_count().max(1);
    (most / PART / partitions).max(LEAST)
}

/// Returns how many rows a batch may have, at most `size`, so that the rows of the files that `plan` reads take no more
/// than a sort may keep, before and after a condition.
pub(crate) fn rows_at_once(plan: &Arc<dyn ExecutionPlan>, size: usize, most: usize) -> Result<usize> {
    let mut rows = size;
    plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<Scan>() {
            let fitting = bytes_at_once(node, most) as u64 / scan.width()?.max(1);
            rows = rows.min(usize::try_from(fitting).unwrap_or(usize::MAX));
        }
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            rows = rows.min(bytes_at_once(node, most) / computed_width(projection).max(1));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(rows.max(1))
}

/// About how many bytes a row takes of what a projection computes. Texts are counted where they are made, and
/// [constants](crate::constants) for themselves.
fn computed_width(projection: &ProjectionExec) -> usize {
    let schema = projection.schema();
    let shown = projection.expr().iter().zip(schema.fields());
    let computed = shown.filter(|(shown, _)| !shown.expr.is::<Column>() && !shown.expr.is::<Literal>());
    computed.map(|(_, field)| usize::try_from(width(field.data_type())).unwrap_or(usize::MAX)).sum()
}

/// The plan with sorts that keep no more of a batch than a part of `most`.
pub(crate) fn sliced(plan: Arc<dyn ExecutionPlan>, most: usize) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
        let bytes = bytes_at_once(sort.input(), most);
        Ok(Transformed::yes(Arc::new(SlicedSortExec { sort: node, bytes }) as Arc<dyn ExecutionPlan>))
    })
    .data()
}

/// A sort that gets batches of many bytes as several, and writes such of no more rows than these have.
#[derive(Debug)]
struct SlicedSortExec {
    sort: Arc<dyn ExecutionPlan>,
    bytes: usize,
}

impl DisplayAs for SlicedSortExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrowwoodSliced: bytes={}", self.bytes)
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
        Ok(Arc::new(SlicedSortExec { sort, bytes: self.bytes }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(sort) = self.sort.downcast_ref::<SortExec>() else {
            return internal_err!("batches are cut for a sort");
        };
        let mut batches = sort.input().execute(partition, context.clone())?;
        let properties = sort.input().properties().clone();
        let sort = self.sort.clone();
        let bytes = self.bytes;
        let begun = async move {
            let first = batches.next().await.transpose()?;
            let rows = first.as_ref().map_or(Ok(usize::MAX), |first| rows_within(first, bytes))?;
            let schema = batches.schema();
            let all = stream::iter(first.map(Ok)).chain(batches);
            let slices = all.flat_map(move |batch| stream::iter(slices(batch, bytes)));
            let slices: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, slices));
            let input = OnceExec { properties, batches: Mutex::new(Some(slices)) };
            let kept = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            let sort = sort.replace_children(vec![Arc::new(input)], kept)?;
            let size = context.session_config().batch_size().min(rows);
            let config = context.session_config().clone().with_batch_size(size);
            // A plan that runs needs no functions of the session.
            let context = TaskContext::default().with_session_config(config).with_runtime(context.runtime_env());
            sort.execute(partition, Arc::new(context))
        };
        let sorted = stream::once(Box::pin(begun)).try_flatten();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(self.schema(), sorted))))
    }
}

/// The stream of a step that has begun.
struct OnceExec {
    properties: Arc<PlanProperties>,
    batches: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for OnceExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }
}

impl DisplayAs for OnceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArrowwoodOnce")
    }
}

impl ExecutionPlan for OnceExec {
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

/// How many rows like the first ones of a batch are so many bytes.
fn rows_within(batch: &RecordBatch, most: usize) -> Result<usize> {
    const FEW: usize = 256;
    let few = counted(&batch.slice(0, batch.num_rows().min(FEW)))?;
    let width = bytes_of(&few) / few.num_rows().max(1);
    Ok((most / width.max(1)).max(1))
}

/// The slices of a batch of more than `most` bytes, each made when it is taken.
fn slices(batch: Result<RecordBatch>, most: usize) -> impl Iterator<Item = Result<RecordBatch>> {
    let cut = batch.map(|batch| cut(&batch, most).ok_or(batch));
    let (slices, whole) = match cut {
        Ok(Ok(slices)) => (slices, None),
        Ok(Err(batch)) => (Vec::new(), Some(Ok(batch))),
        Err(e) => (Vec::new(), Some(Err(e))),
    };
    slices.into_iter().map(|slice| counted(&slice)).chain(whole)
}

/// Copies a slice, so that an operator that keeps it keeps nothing else.
fn counted(slice: &RecordBatch) -> Result<RecordBatch> {
    Ok(BufferOrigin::Owned.counted(slice)?)
}

/// A batch of more than `most` bytes as slices.
fn cut(batch: &RecordBatch, most: usize) -> Option<Vec<RecordBatch>> {
    let rows = batch.num_rows();
    let bytes = bytes_of(batch);
    if bytes <= most || rows < 2 {
        return None;
    }
    let size = rows.div_ceil(bytes.div_ceil(most)).max(1);
    let slices: Vec<_> = (0..rows).step_by(size).map(|start| batch.slice(start, size.min(rows - start))).collect();
    let count: usize = slices.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(count, rows, "the slices of a batch have all of its rows");
    Some(slices)
}

/// The bytes of a batch. The values of a dictionary belong to all batches.
fn bytes_of(batch: &RecordBatch) -> usize {
    let mut bytes = 0;
    for column in batch.columns() {
        bytes += match column.data_type() {
            DataType::Dictionary(keys, _) => column.len() * keys.primitive_width().unwrap_or(8),
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
    fn batches_are_cut_to_their_bytes() {
        let words: Vec<String> = (0..1000).map(|n| format!("{n:0>1000}")).collect();
        let columns: [ArrayRef; 2] = [
            Arc::new(words.iter().map(Some).collect::<StringArray>()),
            Arc::new(words.iter().map(Some).collect::<StringViewArray>()),
        ];
        for column in columns {
            let batch = RecordBatch::try_from_iter([("word", column)]).unwrap();
            let slices: Vec<_> = cut(&batch, 100_000).unwrap().iter().map(|slice| counted(slice).unwrap()).collect();
            assert!(slices.len() >= 10);
            assert!(slices.iter().all(|slice| bytes_of(slice) < 120_000));
            assert_eq!(concat_batches(&batch.schema(), &slices).unwrap(), batch);
        }
        // Values that all batches have make none of them larger.
        let words: DictionaryArray<Int32Type> = words.iter().map(String::as_str).collect();
        let batch = RecordBatch::try_from_iter([("word", Arc::new(words) as ArrayRef)]).unwrap();
        assert!(cut(&batch, 100_000).is_none());
    }
}
