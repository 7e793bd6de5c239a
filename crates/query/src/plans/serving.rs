//! Prepares plans for a server: they can be cancelled, and mapped rows count at their own size in the memory of
//! operators.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrowwood_datafusion::{CancelToken, Scan, ScanOptions};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use datafusion::physical_plan::projection::ProjectionExec;

/// Operators that retain no rows.
const STREAMING_OPERATORS: &[&str] = &[
    "ArrowwoodPart",
    "ArrowwoodScan",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "FilterExec",
    "GlobalLimitExec",
    "LocalLimitExec",
    "ProjectionExec",
];
/// The operators of [`STREAMING_OPERATORS`] that compute nothing from rows.
const PASSING_OPERATORS: &[&str] =
    &["ArrowwoodScan", "CoalescePartitionsExec", "CooperativeExec", "GlobalLimitExec", "LocalLimitExec"];

/// Prepares a plan for a server: scans and joins end when `cancel` says so, joins yield to other tasks after each
/// batch, and rows of files count at their own size in the memory of operators.
pub(crate) fn prepare_for_serving(
    plan: Arc<dyn ExecutionPlan>,
    cancel: &CancelToken,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_unsliced = only_passes_rows(&plan)?;
    let plan = make_cancellable(plan, cancel, is_unsliced)?;
    plan.transform_up(|node| {
        if !node.name().contains("Join") && node.name() != "UnnestExec" {
            return Ok(Transformed::no(node));
        }
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>))
    })
    .data()
}

/// Replaces the scans and joins of a plan, node for node, with ones that end when `cancel` says so. DataFusion's joins
/// check nothing as long as no rows match.
///
/// With `is_unsliced`, scans return as many rows in a batch as they read at once.
pub(crate) fn make_cancellable(
    plan: Arc<dyn ExecutionPlan>,
    cancel: &CancelToken,
    is_unsliced: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ScanOptions { cancel: cancel.clone(), has_exact_buffers: retains_rows(&plan)?, is_unsliced };
    plan.transform_up(|node| {
        if let Some(scan) = node.downcast_ref::<Scan>() {
            let scan = scan.with_options(options.clone());
            return Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>));
        }
        Ok(match cancellable_join(&node, cancel)? {
            Some(join) => Transformed::yes(join),
            None => Transformed::no(node),
        })
    })
    .data()
}

/// Returns true if operators of the plan retain rows, and account for their memory.
pub(crate) fn retains_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(!STREAMING_OPERATORS.contains(&node.name())))
}

/// Returns true if all operators of a plan pass rows on as they come, and compute nothing from them.
pub(crate) fn only_passes_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(!plan.exists(|node| Ok(!is_passing_operator(node)))?)
}

/// Returns true if an operator passes rows on as they come, though perhaps with fewer columns.
fn is_passing_operator(node: &Arc<dyn ExecutionPlan>) -> bool {
    match node.downcast_ref::<ProjectionExec>() {
        Some(projection) => projection.expr().iter().all(|output| output.expr.is::<Column>()),
        None => PASSING_OPERATORS.contains(&node.name()),
    }
}

/// Returns the join with a condition that fails after cancellation; `None` for other operators.
fn cancellable_join(node: &Arc<dyn ExecutionPlan>, cancel: &CancelToken) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        let filter = cancellable_filter(filter, cancel);
        return HashJoinExecBuilder::from(join).with_filter(Some(filter)).build_exec().map(Some);
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let filter = cancellable_filter(filter, cancel);
        return Ok(Some(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?)));
    }
    Ok(None)
}

fn cancellable_filter(filter: &JoinFilter, cancel: &CancelToken) -> JoinFilter {
    let condition = CancellableExpr { condition: filter.expression().clone(), cancel: cancel.clone() };
    JoinFilter::new(Arc::new(condition), filter.column_indices().to_vec(), filter.schema().clone())
}

/// A condition whose evaluation fails after cancellation.
///
/// Two of them are equal if their conditions are.
#[derive(Debug)]
struct CancellableExpr {
    condition: Arc<dyn PhysicalExpr>,
    cancel: CancelToken,
}

impl PartialEq for CancellableExpr {
    fn eq(&self, other: &CancellableExpr) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for CancellableExpr {}

impl Hash for CancellableExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for CancellableExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for CancellableExpr {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.cancel.check()?;
        self.condition.evaluate(batch)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(input_schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.into_iter().next().unwrap_or_else(|| self.condition.clone());
        Ok(Arc::new(CancellableExpr { condition, cancel: self.cancel.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn joins_without_matches_are_cancelled() {
        let context = SessionContext::new();
        let numbers = "(select value as n from generate_series(1, 3000))";
        for sql in [
            format!("select * from {numbers} a join {numbers} b on a.n + b.n < 0"),
            format!("select * from {numbers} a join {numbers} b on a.n % 2 = b.n % 2 and a.n + b.n < 0"),
        ] {
            let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
            let in_time = make_cancellable(plan, &CancelToken::after(Duration::from_secs(3600)), false).unwrap();
            let batches = collect(in_time, context.task_ctx()).await.unwrap();
            assert!(batches.iter().all(|batch| batch.num_rows() == 0), "{sql}");

            let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
            let too_late = make_cancellable(plan, &CancelToken::after(Duration::ZERO), false).unwrap();
            let error = collect(too_late, context.task_ctx()).await.unwrap_err().to_string();
            assert!(error.contains("--query-timeout"), "{sql}: {error}");
        }
    }
}
