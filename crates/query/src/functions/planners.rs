//! Replaces functions, operators, literals and types of a statement with ones whose results are bounded.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::functions_nested::planner::NestedFunctionPlanner;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, TypePlanner};
use datafusion::logical_expr::{Expr, ScalarUDF};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, BinaryOperator, DataType as SqlType};

use crate::functions::concat_op::ConcatOp;
use crate::functions::result_budget::ResultBudget;
use crate::functions::value_bytes::MAX_VALUE_BYTES;
use crate::functions::wrapper::{replace_functions, to_bounded_function};

/// Replaces the functions and planners of a session with bounded ones.
pub(crate) fn install_bounded_functions(builder: &mut SessionStateBuilder, budget: &Arc<ResultBudget>) {
    for function in builder.scalar_functions().iter_mut().flatten() {
        if let Some(bounded) = to_bounded_function(function, budget) {
            *function = bounded;
        }
    }
    let concat = Arc::new(ScalarUDF::new_from_impl(ConcatOp::new(budget)));
    let planner = BoundedExprPlanner { budget: budget.clone(), concat };
    // First, so that it is asked before DataFusion's planners.
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(planner));
    *builder.type_planner() = Some(Arc::new(BoundedTypePlanner));
}

/// Plans operators and literals of lists as DataFusion does, but with bounded functions, and `||` of texts as
/// [`ConcatOp`].
#[derive(Debug)]
struct BoundedExprPlanner {
    budget: Arc<ResultBudget>,
    concat: Arc<ScalarUDF>,
}

impl BoundedExprPlanner {
    /// Replaces the function of a planned call with a bounded one.
    fn replace_function<T>(&self, planned: PlannerResult<T>) -> PlannerResult<T> {
        match planned {
            PlannerResult::Planned(Expr::ScalarFunction(call)) => {
                let func = to_bounded_function(&call.func, &self.budget).unwrap_or(call.func);
                PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args: call.args }))
            }
            other => other,
        }
    }

    /// Plans a chain of `||` as one call with all operands. DataFusion names each call after its arguments, which takes
    /// cubic time for nested calls.
    fn plan_concat(&self, left: Expr, right: Expr) -> Expr {
        let mut operands = match left {
            Expr::ScalarFunction(chain) if chain.func == self.concat => chain.args,
            first => vec![first],
        };
        operands.push(right);
        Expr::ScalarFunction(ScalarFunction::new_udf(self.concat.clone(), operands))
    }
}

impl ExprPlanner for BoundedExprPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        Ok(match NestedFunctionPlanner.plan_binary_op(expr, schema)? {
            PlannerResult::Original(expr) if expr.op == BinaryOperator::StringConcat => {
                PlannerResult::Planned(self.plan_concat(expr.left, expr.right))
            }
            other => self.replace_function(other),
        })
    }

    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(self.replace_function(NestedFunctionPlanner.plan_array_literal(exprs, schema)?))
    }

    fn plan_make_map(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        // The planned call contains two more calls, which make the lists of keys and values.
        Ok(match NestedFunctionPlanner.plan_make_map(args)? {
            PlannerResult::Planned(map) => PlannerResult::Planned(replace_functions(map, &self.budget)?),
            original => original,
        })
    }
}

/// Rejects types of lists with a large fixed length, as each null takes as much memory as a value.
#[derive(Debug)]
struct BoundedTypePlanner;

impl TypePlanner for BoundedTypePlanner {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        /// The maximum bytes of a value of a scalar SQL type.
        const MAX_SCALAR_BYTES: u128 = 16;
        const MAX_ELEMENTS: u128 = MAX_VALUE_BYTES / MAX_SCALAR_BYTES;
        let mut element_type = sql_type;
        let mut len = 1_u128;
        while let SqlType::Array(ArrayElemTypeDef::SquareBracket(inner, size)) = element_type {
            len = len.saturating_mul(size.unwrap_or(1).into());
            element_type = inner;
        }
        if len > MAX_ELEMENTS {
            return plan_err!("a type with {len} elements in each value; at most {MAX_ELEMENTS} are expected");
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, RecordBatch};
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::logical_expr::LogicalPlan;
    use datafusion::prelude::SessionContext;

    use super::*;

    fn bounded_context() -> SessionContext {
        let mut builder = SessionStateBuilder::new().with_default_features();
        let budget = Arc::new(ResultBudget::default());
        budget.set_query_memory(1 << 30);
        install_bounded_functions(&mut builder, &budget);
        SessionContext::new_with_state(builder.build())
    }

    async fn query(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
        context.sql(sql).await?.collect().await
    }

    #[tokio::test]
    async fn concatenation_matches_datafusion() {
        let rows = "(values ('a', 1, null), ('b', 2, 'z'), (null, 3, '')) t (word, n, other)";
        for expression in [
            "word || 'x' || other",
            "word || n || 'x' || word",
            "'a' || ('b' || word) || n",
            "arrow_cast(word, 'LargeUtf8') || other || arrow_cast(word, 'Utf8View')",
            "'a' || 'b'",
        ] {
            let sql = format!("select {expression} as joined from {rows}");
            let actual = query(&bounded_context(), &sql).await.unwrap();
            let expected = query(&SessionContext::new(), &sql).await.unwrap();
            assert_eq!(
                pretty_format_batches(&actual).unwrap().to_string(),
                pretty_format_batches(&expected).unwrap().to_string(),
                "{sql}"
            );
        }
    }

    #[tokio::test]
    async fn series_reject_steps_of_mixed_signs() {
        for arguments in [
            "timestamp '2020-04-01', timestamp '2021-01-01', interval '1 month -30 days'",
            "date '2021-01-01', date '2020-01-01', interval '1 month -31 days'",
        ] {
            let sql = format!("select cardinality(generate_series({arguments}))");
            let error = query(&bounded_context(), &sql).await.unwrap_err();
            assert!(error.to_string().contains("one direction"), "{arguments}: {error}");
        }
        let sql =
            "select cardinality(generate_series(date '2020-01-01', date '2021-01-01', interval '1 month 2 days'))";
        assert_eq!(query(&bounded_context(), sql).await.unwrap()[0].num_rows(), 1);
    }

    #[tokio::test]
    async fn functions_reject_too_many_comparisons() {
        let context = bounded_context();
        for call in [
            "levenshtein(repeat('a', 100000), repeat('b', 100000))",
            "array_has_all(range(0, 100000), range(100000, 200000))",
            "array_has_any(range(0, 100000), range(100000, 200000))",
        ] {
            let error = query(&context, &format!("select {call}")).await.unwrap_err().to_string();
            assert!(error.contains("would compare 10000000000 times"), "{call}: {error}");
        }
        for condition in
            ["levenshtein('kitten', 'sitting') = 3", "array_has_all([1, 2], [2])", "array_has_any(['a'], ['a'])"]
        {
            let batches = query(&context, &format!("select {condition}")).await.unwrap();
            assert!(batches[0].column(0).as_boolean().value(0), "{condition}");
        }
    }

    #[tokio::test]
    async fn chained_concatenation_is_one_call() {
        let state = bounded_context().state();
        let sql = format!("select word{} from (values ('a')) t (word)", " || word".repeat(50));
        let plan = state.create_logical_plan(&sql).await.unwrap();
        let LogicalPlan::Projection(projection) = plan else { panic!("no projection") };
        let mut argument_counts = Vec::new();
        projection.expr[0]
            .apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    argument_counts.push(call.args.len());
                }
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
        assert_eq!(argument_counts, [51]);
    }
}
