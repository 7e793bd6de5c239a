//! Which statements are known to be bounded: what their steps keep counts in the memory of the query or is small, and
//! they end with its time. All others are run by [processes of their own](crate::apart), which the system limits.
//!
//! Everything that is not listed here is not known. A value is small if its type says how many bytes it has; a text or
//! a list is none.

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

use crate::concat_op::JOINED;
use crate::result_bounds::{FUNCTIONS, Growth};

/// Functions that make small values out of any, and take no memory for longer than for one of them.
const SMALL: &[&str] = &[
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

/// Functions that return one of their values, which is known if that is small.
const CHOOSING: &[&str] = &["coalesce", "greatest", "least", "nullif", "nvl", "nvl2"];

/// Aggregates of a size that does not depend on their number of rows, for small values.
const AGGREGATES: &[&str] = &[
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

/// Steps that keep nothing, or count what they keep. Joins have rules of their own.
const STEPS: &[&str] = &[
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

/// The most mentions of tables of a `with` beyond the first one of each: a plan has all of them, and those in them
/// again.
const AGAIN: usize = 4;

/// Returns true if a statement can be planned to find out whether it is known: its plan is not much larger than itself,
/// and the arguments of functions in the place of tables, which are computed for that, are nothing but literals.
pub(crate) fn names_known_tables(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => names_known(statement),
        Statement::Explain(explain) => names_known_tables(&explain.statement),
        // Refused when they are planned.
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => true,
    }
}

fn names_known(statement: &SqlStatement) -> bool {
    #[derive(Default)]
    struct TableVisitor {
        /// The names of the tables of each `with`.
        named: HashSet<String>,
        mentions: HashMap<String, usize>,
    }

    impl Visitor for TableVisitor {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.named.extend(tables.map(|table| table.alias.name.value.to_lowercase()));
            ControlFlow::Continue(())
        }

        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
            *self.mentions.entry(name.to_string().trim_matches('"').to_lowercase()).or_default() += 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<()> {
            // As many groupings as there are subsets of columns.
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
            let is_known = match table {
                TableFactor::Table { args: Some(of), .. } => of.args.iter().all(is_literal),
                TableFactor::Table { args: None, .. } => true,
                TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => true,
                _ => false,
            };
            if is_known { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }

    let mut tables = TableVisitor::default();
    let is_known = statement.visit(&mut tables).is_continue();
    let again = tables.named.iter().filter_map(|name| tables.mentions.get(name)).map(|count| count.saturating_sub(1));
    is_known && again.sum::<usize>() <= AGAIN
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

/// Returns true if a plan, as it was before anything of it was computed, has only expressions and steps that are known.
pub(crate) fn is_known(plan: &LogicalPlan) -> Result<bool> {
    let mut is_known = true;
    plan.apply_with_subqueries(|step| {
        is_known = is_known_step(step) && has_known_expressions(step)?;
        Ok(if is_known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_known)
}

fn is_known_step(step: &LogicalPlan) -> bool {
    match step {
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

fn has_known_expressions(step: &LogicalPlan) -> Result<bool> {
    let schema = match step {
        LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
        other => merge_schema(&other.inputs()),
    };
    let mut is_known = true;
    step.apply_expressions(|expr| {
        expr.apply(|expr| {
            is_known = is_known_expression(expr, &schema)?;
            Ok(if is_known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    })?;
    Ok(is_known)
}

/// Returns true if an expression is known, apart from the expressions in it.
fn is_known_expression(expr: &Expr, schema: &DFSchema) -> Result<bool> {
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
        Expr::BinaryExpr(binary) => Ok(is_known_operator(binary.op)),
        // Its value is written into each row.
        Expr::Case(_) | Expr::ScalarSubquery(_) => Ok(is_small(&expr.get_type(schema)?)),
        Expr::Cast(cast) => is_known_cast(&cast.expr, cast.field.data_type(), schema),
        Expr::TryCast(cast) => is_known_cast(&cast.expr, cast.field.data_type(), schema),
        Expr::ScalarFunction(call) => {
            let name = call.func.name();
            // A pattern takes megabytes, and may be another one in each row.
            let growth = FUNCTIONS.iter().find(|(counted, _)| *counted == name).map(|(_, growth)| *growth);
            let is_counted = name == JOINED || growth.is_some_and(|growth| growth != Growth::Pattern);
            if is_counted || SMALL.contains(&name) {
                return Ok(true);
            }
            Ok(CHOOSING.contains(&name) && is_small(&expr.get_type(schema)?))
        }
        Expr::AggregateFunction(call) => is_known_aggregate(call, schema),
        _ => Ok(false),
    }
}

/// Comparisons and arithmetic, and none by patterns.
fn is_known_operator(operator: Operator) -> bool {
    use Operator::*;
    let is_comparison = matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
    let is_like = matches!(operator, LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch);
    let is_sum = matches!(operator, Plus | Minus | Multiply | Divide | Modulo | IntegerDivide);
    let is_of_bits =
        matches!(operator, BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseShiftLeft | BitwiseShiftRight | And | Or);
    is_comparison || is_like || is_sum || is_of_bits
}

/// A cast to a small value; or of one to a text, which is not much larger.
fn is_known_cast(of: &Expr, to: &DataType, schema: &DFSchema) -> Result<bool> {
    let is_text = matches!(to, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    Ok(is_small(to) || (is_text && is_small(&of.get_type(schema)?)))
}

fn is_known_aggregate(call: &AggregateFunction, schema: &DFSchema) -> Result<bool> {
    if !AGGREGATES.contains(&call.func.name()) || call.params.distinct {
        return Ok(false);
    }
    // A number of values is none of them.
    let mut values = call.params.args.iter().filter(|_| call.func.name() != "count");
    values.try_fold(true, |are, value| Ok(are && is_small(&value.get_type(schema)?)))
}

fn is_small(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null)
}

// ---- plans ----

/// Returns true if all steps of a plan are known.
pub(crate) fn is_known_plan(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(!plan.exists(|step| Ok(!(STEPS.contains(&step.name()) || is_known_join(step))))?)
}

/// A join that compares values, and copies none but small ones for each pair of rows that it finds. Other joins go on
/// for longer than the time of a query, or make batches of any size.
fn is_known_join(step: &Arc<dyn ExecutionPlan>) -> bool {
    let (kind, filter) = if let Some(join) = step.downcast_ref::<HashJoinExec>() {
        (*join.join_type(), true)
    } else if let Some(join) = step.downcast_ref::<NestedLoopJoinExec>() {
        (*join.join_type(), join.filter().is_some())
    } else {
        return false;
    };
    filter && (returns_each_once(kind) || has_small_columns(&step.schema()))
}

/// Returns true if a join returns no row more than once.
fn returns_each_once(kind: JoinType) -> bool {
    match kind {
        JoinType::LeftSemi | JoinType::RightSemi | JoinType::LeftAnti | JoinType::RightAnti => true,
        JoinType::LeftMark | JoinType::RightMark => true,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => false,
    }
}

fn has_small_columns(schema: &Schema) -> bool {
    schema.fields().iter().all(|field| is_small(field.data_type()))
}
