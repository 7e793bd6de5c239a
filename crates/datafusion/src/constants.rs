//! Large constants of a plan, such as `repeat('x', 1000000)`, which is computed when the statement is planned. Where rows are made
//! with one, it is there once for each row of a batch, and DataFusion's pool does not know of it.

use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, InListExpr, LikeExpr, Literal};
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs};

use crate::bounded::Most;
use crate::scan::Scan;

/// Constants below this are not counted.
const SMALL: usize = 1 << 10;

/// Refuses a plan whose constants would take more memory than there is, in batches of `size` rows.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>, size: usize, most: &Most) -> Result<()> {
    plan.apply(|node| {
        let mut bytes = 0;
        node.apply_expressions(&mut |expr| {
            bytes += constants(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if bytes > 0 {
            let rows = node.children().iter().map(|input| rows(input)).max().unwrap_or(1).min(size);
            most.reserve(bytes as u128 * rows as u128, "a constant in each row")?;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

/// The bytes of constants that an expression may write into rows: not of those that values are compared with.
fn constants(expr: &Arc<dyn PhysicalExpr>) -> Result<usize> {
    if let Some(constant) = expr.downcast_ref::<Literal>() {
        return Ok(Some(constant.value().size()).filter(|size| *size >= SMALL).unwrap_or(0));
    }
    let is_compared = expr.is::<BinaryExpr>() || expr.is::<InListExpr>() || expr.is::<LikeExpr>();
    let inner = expr.children().into_iter().filter(|inner| !is_compared || !inner.is::<Literal>());
    inner.map(constants).sum()
}

/// How many rows a step returns, at most.
fn rows(node: &Arc<dyn ExecutionPlan>) -> usize {
    /// Steps that return no more rows than they get.
    const FEWER: &[&str] = &[
        "AggregateExec",
        "CoalescePartitionsExec",
        "CooperativeExec",
        "FilterExec",
        "GlobalLimitExec",
        "LocalLimitExec",
        "ProjectionExec",
        "RepartitionExec",
        "SortExec",
        "SortPreservingMergeExec",
    ];
    let known = StatisticsContext::new().compute(node.as_ref(), &StatisticsArgs::new());
    match known.map(|known| known.num_rows) {
        Ok(Precision::Exact(rows)) => rows,
        // Those before a condition.
        Ok(Precision::Inexact(rows)) if node.is::<Scan>() => rows,
        _ => match node.children()[..] {
            // Groups of no rows are one.
            [input] if FEWER.contains(&node.name()) => rows(input).max(1),
            _ => usize::MAX,
        },
    }
}
