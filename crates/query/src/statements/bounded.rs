//! Decides whether the memory and time of a statement are known to be bounded.
//!
//! The operators of a bounded statement account for what they retain or retain little, and end with the query's
//! timeout. All other statements run in [separate processes](crate::processes), which the system limits.
//!
//! The lists here name what is bounded; everything else is not. A value is small if its type has a fixed width, so that
//! texts and lists are not small.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, GroupByExpr, ObjectName, Query, Select, Statement as SqlStatement,
    TableFactor, UnaryOperator, Visit, Visitor,
};

use crate::functions::{CONCAT_NAME, Check, Growth, find_check};

/// Functions that return small values, and need memory for one value at a time only.
const SMALL_RESULT_FUNCTIONS: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "array_length",
    "array_ndims",
    "arrow_typeof",
    "ascii",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bit_length",
    "cardinality",
    "cbrt",
    "ceil",
    "character_length",
    "contains",
    "cos",
    "cosh",
    "cot",
    "current_date",
    "current_time",
    "date_bin",
    "date_part",
    "date_trunc",
    "degrees",
    "empty",
    "ends_with",
    "exp",
    "factorial",
    "floor",
    "from_unixtime",
    "gcd",
    "isnan",
    "iszero",
    "lcm",
    "ln",
    "log",
    "log10",
    "log2",
    "make_date",
    "make_time",
    "nanvl",
    "now",
    "octet_length",
    "pi",
    "power",
    "radians",
    "random",
    "round",
    "signum",
    "sin",
    "sinh",
    "sqrt",
    "starts_with",
    "strpos",
    "tan",
    "tanh",
    "to_date",
    "to_local_time",
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    "trunc",
    "version",
];

/// Functions that return one of their arguments: bounded if that is small.
const SELECTING_FUNCTIONS: &[&str] = &["coalesce", "greatest", "least", "nullif", "nvl", "nvl2"];

/// Aggregates whose state has a fixed size if values are small.
const FIXED_SIZE_AGGREGATES: &[&str] = &[
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "min",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

/// Operators that retain nothing, or account for what they retain. Joins have [their own rules](is_bounded_join).
const BOUNDED_OPERATORS: &[&str] = &[
    "AggregateExec",
    "AnalyzeExec",
    "ArrowwoodScan",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "DataSourceExec",
    "EmptyExec",
    "ExplainExec",
    "FilterExec",
    "GlobalLimitExec",
    "InterleaveExec",
    "LazyMemoryExec",
    "LocalLimitExec",
    "PartialSortExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "RepartitionExec",
    "ScalarSubqueryExec",
    "SortExec",
    "SortExec(TopK)",
    "SortPreservingMergeExec",
    "StreamingTableExec",
    "UnionExec",
];

// ---- statements ----

/// The maximum number of mentions of common table expressions, beyond the first mention of each. A plan has a copy for
/// each mention, with copies of the expressions that it mentions.
const MAX_REPEATED_MENTIONS: usize = 4;

/// Returns true if a statement can be planned cheaply, so as to find out whether it is bounded.
///
/// Its plan is not much larger than the statement, and the arguments of table functions, which are evaluated for a
/// plan, are literals.
pub(crate) fn has_plannable_tables(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => is_plannable(statement),
        Statement::Explain(explain) => has_plannable_tables(&explain.statement),
        // Planning rejects these.
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => true,
    }
}

fn is_plannable(statement: &SqlStatement) -> bool {
    let mut visitor = PlannableVisitor::default();
    if statement.visit(&mut visitor).is_break() {
        return false;
    }
    let mut repeated_mentions = 0;
    for name in &visitor.common_tables {
        if let Some(mentions) = visitor.mentions.get(name) {
            repeated_mentions += mentions - 1;
        }
    }
    repeated_mentions <= MAX_REPEATED_MENTIONS
}

/// Counts the mentions of tables, and breaks off at what makes a plan large or expensive.
#[derive(Default)]
struct PlannableVisitor {
    /// The names of common table expressions.
    common_tables: HashSet<String>,
    /// How often each table is mentioned: at least once.
    mentions: HashMap<String, usize>,
}

impl Visitor for PlannableVisitor {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.common_tables.extend(tables.map(|table| table.alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        *self.mentions.entry(name.to_string().trim_matches('"').to_lowercase()).or_default() += 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<()> {
        // A cube has as many groupings as its columns have subsets.
        match expr {
            SqlExpr::Cube(_) | SqlExpr::Rollup(_) | SqlExpr::GroupingSets(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let modifiers = match &select.group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
        };
        if modifiers.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        let is_cheap = match table {
            TableFactor::Table { args: Some(arguments), .. } => arguments.args.iter().all(is_literal),
            TableFactor::Table { args: None, .. } => true,
            TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => true,
            _ => false,
        };
        if is_cheap { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn is_literal(argument: &FunctionArg) -> bool {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return false };
    match expr {
        SqlExpr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            matches!(**expr, SqlExpr::Value(_))
        }
        other => matches!(other, SqlExpr::Value(_)),
    }
}

/// Returns true if all expressions and nodes of a plan that is not optimized yet are bounded.
pub(crate) fn is_bounded(plan: &LogicalPlan) -> Result<bool> {
    let mut is_bounded = true;
    plan.apply_with_subqueries(|node| {
        is_bounded = is_bounded_node(node) && has_bounded_expressions(node)?;
        Ok(if is_bounded { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_bounded)
}

fn is_bounded_node(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::DescribeTable(_) => true,
        LogicalPlan::Window(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Copy(_) => false,
    }
}

fn has_bounded_expressions(node: &LogicalPlan) -> Result<bool> {
    let schema = match node {
        LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
        other => merge_schema(&other.inputs()),
    };
    let mut is_bounded = true;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            is_bounded = is_bounded_expression(expr, &schema)?;
            Ok(if is_bounded { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    })?;
    Ok(is_bounded)
}

/// Returns true if an expression is bounded, provided that the expressions in it are.
fn is_bounded_expression(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    match expr {
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::Literal(..)
        | Expr::Placeholder(_)
        | Expr::Like(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::InList(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_) => Ok(true),
        Expr::BinaryExpr(binary) => Ok(is_bounded_operator(binary.op)),
        // The value is copied into each row.
        Expr::Case(_) | Expr::ScalarSubquery(_) => Ok(is_small(&expr.get_type(schema)?)),
        Expr::Cast(cast) => is_bounded_cast(&cast.expr, cast.field.data_type(), schema),
        Expr::TryCast(cast) => is_bounded_cast(&cast.expr, cast.field.data_type(), schema),
        Expr::ScalarFunction(call) => {
            let name = call.func.name();
            let is_checked = match find_check(name) {
                // A compiled pattern takes megabytes, and each row may have another one.
                Some(Check::ResultBytes(Growth::Pattern)) => false,
                Some(Check::ResultBytes(_) | Check::Comparisons | Check::TypeWidth) => true,
                None => name == CONCAT_NAME,
            };
            if is_checked || SMALL_RESULT_FUNCTIONS.contains(&name) {
                return Ok(true);
            }
            Ok(SELECTING_FUNCTIONS.contains(&name) && is_small(&expr.get_type(schema)?))
        }
        Expr::AggregateFunction(call) => is_bounded_aggregate(call, schema),
        _ => Ok(false),
    }
}

/// Returns true for comparisons, `like`, arithmetic and logic, but not for regular expressions.
fn is_bounded_operator(operator: Operator) -> bool {
    use Operator::*;
    let is_comparison = matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
    let is_like = matches!(operator, LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch);
    let is_arithmetic = matches!(operator, Plus | Minus | Multiply | Divide | Modulo | IntegerDivide);
    let is_logic =
        matches!(operator, BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseShiftLeft | BitwiseShiftRight | And | Or);
    is_comparison || is_like || is_arithmetic || is_logic
}

/// Returns true for a cast to a small value, or from a small value to a text, which is not much larger.
fn is_bounded_cast(operand: &Expr, to: &DataType, schema: &DFSchema) -> Result<bool> {
    let is_text = matches!(to, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    Ok(is_small(to) || (is_text && is_small(&operand.get_type(schema)?)))
}

fn is_bounded_aggregate(call: &AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let name = call.func.name();
    if !FIXED_SIZE_AGGREGATES.contains(&name) || call.params.distinct {
        return Ok(false);
    }
    // `count` retains no values.
    if name != "count" {
        for value in &call.params.args {
            if !is_small(&value.get_type(schema)?) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns true if values of a type are small.
fn is_small(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null)
}

// ---- plans ----

/// Returns true if all operators of a plan are bounded.
pub(crate) fn is_bounded_plan(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(!plan.exists(|operator| Ok(!(BOUNDED_OPERATORS.contains(&operator.name()) || is_bounded_join(operator))))?)
}

/// Returns true for a join that compares values, and copies only small ones for each pair of rows.
///
/// A join without a condition runs on after the query's timeout, and large values make batches of any size.
fn is_bounded_join(operator: &Arc<dyn ExecutionPlan>) -> bool {
    let (join_type, has_condition) = if let Some(join) = operator.downcast_ref::<HashJoinExec>() {
        (*join.join_type(), true)
    } else if let Some(join) = operator.downcast_ref::<NestedLoopJoinExec>() {
        (*join.join_type(), join.filter().is_some())
    } else {
        return false;
    };
    has_condition && (returns_rows_once(join_type) || has_small_columns(&operator.schema()))
}

/// Returns true if a join returns no row more than once.
fn returns_rows_once(join_type: JoinType) -> bool {
    match join_type {
        JoinType::LeftSemi | JoinType::RightSemi | JoinType::LeftAnti | JoinType::RightAnti => true,
        JoinType::LeftMark | JoinType::RightMark => true,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => false,
    }
}

fn has_small_columns(schema: &Schema) -> bool {
    schema.fields().iter().all(|field| is_small(field.data_type()))
}
