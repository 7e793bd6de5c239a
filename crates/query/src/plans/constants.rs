//! Limits the memory that constants of a plan take when they are repeated in each row of a batch.
//!
//! DataFusion evaluates constants such as `repeat('x', 1000000)` when it plans a statement, and its memory pool does
//! not account for their copies. Nulls of types with a fixed width take memory, too.

use std::sync::Arc;

use arrowwood_datafusion::Scan;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, InListExpr, LikeExpr, Literal, TryCastExpr};
use datafusion::physical_plan::statistics::StatisticsContext;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs};

use crate::functions::{ResultBudget, check_bounded, width};

/// Values of at most this width are numbers and views, which are not counted.
const MAX_NARROW_BYTES: u128 = 32;

/// Returns an error if the constants of a plan would take more memory than is free, in batches of `batch_rows` rows.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>, batch_rows: usize, budget: &ResultBudget) -> Result<()> {
    plan.apply(|node| {
        let mut bytes = 0_u128;
        node.apply_expressions(&mut |expr| {
            bytes = bytes.saturating_add(constant_bytes(expr)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if bytes > 0 {
            let input_rows = node.children().iter().map(|input| max_rows(input)).max().unwrap_or(1);
            let rows = input_rows.min(batch_rows);
            budget.reserve(bytes.saturating_mul(rows as u128), "a constant in each row")?;
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

/// Returns the bytes that an expression may write into each row: its constants, without those that values are compared
/// with, and values of types with a fixed width.
fn constant_bytes(expr: &Arc<dyn PhysicalExpr>) -> Result<u128> {
    check_bounded(expr)?;
    if let Some(constant) = expr.downcast_ref::<Literal>() {
        let value = constant.value();
        // A value without heap memory takes no more than any number.
        let heap_bytes = value.size().saturating_sub(size_of::<ScalarValue>()) as u128;
        return Ok(heap_bytes.max(wide_type_bytes(&value.data_type())));
    }
    let cast_type = expr.downcast_ref::<CastExpr>().map(CastExpr::cast_type);
    let cast_type = cast_type.or_else(|| expr.downcast_ref::<TryCastExpr>().map(TryCastExpr::cast_type));
    let is_comparison = expr.is::<BinaryExpr>() || expr.is::<InListExpr>() || expr.is::<LikeExpr>();
    let mut bytes = cast_type.map_or(0, wide_type_bytes);
    for operand in expr.children() {
        if !is_comparison || !operand.is::<Literal>() {
            bytes = bytes.saturating_add(constant_bytes(operand)?);
        }
    }
    Ok(bytes)
}

/// Returns the bytes of a value of a type that is wider than numbers and views, and zero for others.
fn wide_type_bytes(data_type: &DataType) -> u128 {
    let width = width(data_type);
    if width > MAX_NARROW_BYTES { width } else { 0 }
}

/// Returns the maximum number of rows that an operator returns.
fn max_rows(node: &Arc<dyn ExecutionPlan>) -> usize {
    /// Operators that return no more rows than their input has.
    const NOT_GROWING: &[&str] = &[
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
        // The rows before filtering.
        Ok(Precision::Inexact(rows)) if node.is::<Scan>() => rows,
        _ => match node.children()[..] {
            // An aggregate of no rows returns one.
            [input] if NOT_GROWING.contains(&node.name()) => max_rows(input).max(1),
            _ => usize::MAX,
        },
    }
}
