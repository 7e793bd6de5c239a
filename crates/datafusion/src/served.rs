//! Plans as a server runs them: they can be given up, and keep account of the rows of files as they are.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};

use crate::scan::Scan;
use crate::stop::Stop;

/// Operators that pass rows on and keep none.
const STREAMING: &[&str] = &[
    "ArrowwoodScan",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "FilterExec",
    "GlobalLimitExec",
    "LocalLimitExec",
    "ProjectionExec",
];

/// The plan as a server runs it. Scans and joins end after `stop`: DataFusion's joins go on by themselves as long as they
/// find nothing. Joins make room for other tasks after each batch, as scans do. Where operators keep rows, those of files
/// count for what they are.
pub(crate) fn served(plan: Arc<dyn ExecutionPlan>, stop: &Stop) -> Result<Arc<dyn ExecutionPlan>> {
    let is_streaming = !plan.exists(|node| Ok(!STREAMING.contains(&node.name())))?;
    let change = |node: Arc<dyn ExecutionPlan>| {
        if let Some(scan) = node.downcast_ref::<Scan>() {
            return Ok(Transformed::yes(Arc::new(scan.served(stop.clone(), !is_streaming)) as Arc<dyn ExecutionPlan>));
        }
        if !node.name().contains("Join") && node.name() != "UnnestExec" {
            return Ok(Transformed::no(node));
        }
        let node = stopping(node, stop)?;
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>))
    };
    plan.transform_up(change).data()
}

/// The join with a condition that fails after `stop`.
fn stopping(node: Arc<dyn ExecutionPlan>, stop: &Stop) -> Result<Arc<dyn ExecutionPlan>> {
    let stopping = |filter: &JoinFilter| {
        let condition = Stopping { condition: filter.expression().clone(), stop: stop.clone() };
        Some(JoinFilter::new(Arc::new(condition), filter.column_indices().to_vec(), filter.schema().clone()))
    };
    if let Some(join) = node.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return HashJoinExecBuilder::from(join).with_filter(stopping(filter)).build_exec();
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        return Ok(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(stopping(filter)).build()?));
    }
    Ok(node)
}

/// A condition, until the query is given up.
#[derive(Debug)]
struct Stopping {
    condition: Arc<dyn PhysicalExpr>,
    stop: Stop,
}

impl PartialEq for Stopping {
    fn eq(&self, other: &Stopping) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Stopping {}

impl Hash for Stopping {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Stopping {
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
        Ok(Arc::new(Stopping { condition, stop: self.stop.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
