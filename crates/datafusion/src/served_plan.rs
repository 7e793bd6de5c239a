//! Plans as a server runs them: with an end, and with the rows of files counted at their size.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

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

use crate::cancel_token::CancelToken;
use crate::scan::Scan;

/// Operators that pass rows on and keep none.
const STREAMING: &[&str] = &[
    "ArrowwoodPart",
    "ArrowwoodScan",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "FilterExec",
    "GlobalLimitExec",
    "LocalLimitExec",
    "ProjectionExec",
];
/// The operators of [`STREAMING`] that compute nothing from rows.
const PASSING: &[&str] =
    &["ArrowwoodScan", "CoalescePartitionsExec", "CooperativeExec", "GlobalLimitExec", "LocalLimitExec"];

/// The plan as a server runs it. Scans and joins end after `stop`: joins of DataFusion check nothing as long as they
/// find nothing. Joins make room for other tasks after each batch, as scans do. Rows of files in the memory of
/// operators count at their size.
pub(crate) fn served(plan: Arc<dyn ExecutionPlan>, stop: &CancelToken) -> Result<Arc<dyn ExecutionPlan>> {
    let is_whole = passes_rows_on(&plan)?;
    let plan = stopped(plan, stop, is_whole)?;
    plan.transform_up(|node| {
        if !node.name().contains("Join") && node.name() != "UnnestExec" {
            return Ok(Transformed::no(node));
        }
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>))
    })
    .data()
}

/// The plan, node for node, with scans and joins that end after `stop`. With `is_whole`, scans return as many rows in a
/// batch as they read at once.
pub(crate) fn stopped(
    plan: Arc<dyn ExecutionPlan>,
    stop: &CancelToken,
    is_whole: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_counted = keeps_rows(&plan)?;
    plan.transform_up(|node| {
        if let Some(scan) = node.downcast_ref::<Scan>() {
            let scan = scan.served(stop.clone(), is_counted, is_whole);
            return Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>));
        }
        Ok(stopping(&node, stop)?.map_or(Transformed::no(node), Transformed::yes))
    })
    .data()
}

/// Returns true if operators of the plan keep rows, and account of them.
pub(crate) fn keeps_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(!STREAMING.contains(&node.name())))
}

/// Returns true if all steps of a plan return rows as they come, and compute nothing from them.
pub(crate) fn passes_rows_on(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(!plan.exists(|node| Ok(!passes(node)))?)
}

/// Returns true if a step returns rows as they come, at most with fewer columns.
fn passes(node: &Arc<dyn ExecutionPlan>) -> bool {
    match node.downcast_ref::<ProjectionExec>() {
        Some(projection) => projection.expr().iter().all(|shown| shown.expr.is::<Column>()),
        None => PASSING.contains(&node.name()),
    }
}

/// A join with a condition that fails after `stop`; `None` for other steps.
fn stopping(node: &Arc<dyn ExecutionPlan>, stop: &CancelToken) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return HashJoinExecBuilder::from(join).with_filter(Some(stopping_filter(filter, stop))).build_exec().map(Some);
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(stopping_filter(filter, stop))).build()?;
        return Ok(Some(Arc::new(join)));
    }
    Ok(None)
}

fn stopping_filter(filter: &JoinFilter, stop: &CancelToken) -> JoinFilter {
    let condition = CancellableExpr { condition: filter.expression().clone(), stop: stop.clone() };
    JoinFilter::new(Arc::new(condition), filter.column_indices().to_vec(), filter.schema().clone())
}

/// A condition, until the end of the query.
#[derive(Debug)]
struct CancellableExpr {
    condition: Arc<dyn PhysicalExpr>,
    stop: CancelToken,
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
        self.stop.check()?;
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
        Ok(Arc::new(CancellableExpr { condition, stop: self.stop.clone() }))
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
    async fn joins_that_find_nothing_end_with_the_time_of_the_query() {
        let context = SessionContext::new();
        let numbers = "(select value as n from generate_series(1, 3000))";
        let joins = [
            format!("select * from {numbers} a join {numbers} b on a.n + b.n < 0"),
            format!("select * from {numbers} a join {numbers} b on a.n % 2 = b.n % 2 and a.n + b.n < 0"),
        ];
        for sql in joins {
            let run = async |time: Duration| {
                let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
                collect(stopped(plan, &CancelToken::after(time), false).unwrap(), context.task_ctx()).await
            };
            let found = run(Duration::from_secs(3600)).await.unwrap();
            assert!(found.iter().all(|batch| batch.num_rows() == 0), "{sql}");
            let ended = run(Duration::ZERO).await.unwrap_err().to_string();
            assert!(ended.contains("--query-timeout"), "{sql}: {ended}");
        }
    }
}
