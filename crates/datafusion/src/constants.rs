//! Constants of a plan, such as `repeat('x', 1000000)`, which is computed when the statement is planned, and types
//! whose nulls take memory. Where rows are made with one, it is there once for each row of a batch, and DataFusion's
//! pool does not know of it.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, InListExpr, LikeExpr, Literal, TryCastExpr};
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs};

use crate::bounded_function::check_bounded;
use crate::result_bounds::width;
use crate::result_budget::ResultBudget;
use crate::scan::Scan;

/// Refuses a plan whose constants would take more memory than there is, in batches of `size` rows.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>, size: usize, budget: &ResultBudget) -> Result<()> {
    plan.apply(|node| {
        let mut bytes = 0_u128;
        node.apply_expressions(&mut |expr| {
            bytes = bytes.saturating_add(constants(expr)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if bytes > 0 {
            let rows = node.children().iter().map(|input| rows(input)).max().unwrap_or(1).min(size);
            budget.reserve(bytes.saturating_mul(rows as u128), "a constant in each row")?;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

/// The bytes of constants that an expression may write into a row, not of those that values are compared with; and of
/// values of a type that has a width, which their nulls have too.
fn constants(expr: &Arc<dyn PhysicalExpr>) -> Result<u128> {
    check_bounded(expr)?;
    if let Some(constant) = expr.downcast_ref::<Literal>() {
        let value = constant.value();
        // Without what a number takes, too.
        let owned = value.size().saturating_sub(size_of::<ScalarValue>()) as u128;
        return Ok(owned.max(wide(&value.data_type())));
    }
    let cast = expr.downcast_ref::<CastExpr>().map(CastExpr::cast_type);
    let cast = cast.or_else(|| expr.downcast_ref::<TryCastExpr>().map(TryCastExpr::cast_type));
    let is_compared = expr.is::<BinaryExpr>() || expr.is::<InListExpr>() || expr.is::<LikeExpr>();
    let inner = expr.children().into_iter().filter(|inner| !is_compared || !inner.is::<Literal>());
    inner.map(constants).try_fold(cast.map_or(0, wide), |sum, inner| Ok(sum.saturating_add(inner?)))
}

/// The bytes of a value of a type that is wider than numbers and views.
fn wide(data_type: &DataType) -> u128 {
    let width = width(data_type);
    if width > 32 { width } else { 0 }
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
    let statistics = StatisticsContext::new().compute(node.as_ref(), &StatisticsArgs::new());
    match statistics.map(|statistics| statistics.num_rows) {
        Ok(Precision::Exact(rows)) => rows,
        // The rows before a condition.
        Ok(Precision::Inexact(rows)) if node.is::<Scan>() => rows,
        _ => match node.children()[..] {
            // Groups of no rows are one.
            [input] if FEWER.contains(&node.name()) => rows(input).max(1),
            _ => usize::MAX,
        },
    }
}
