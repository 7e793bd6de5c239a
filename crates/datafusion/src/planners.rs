//! Plans the functions, operators, literals and types of a statement as bounded ones.

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

use crate::bounded_function::{bounded, bounded_within};
use crate::concat_op::ConcatOp;
use crate::result_bounds::WIDEST;
use crate::result_budget::ResultBudget;

/// Puts bounded functions in the place of those that a session has.
pub(crate) fn bound(builder: &mut SessionStateBuilder, budget: &Arc<ResultBudget>) {
    for function in builder.scalar_functions().iter_mut().flatten() {
        if let Some(bounded) = bounded(function, budget) {
            *function = bounded;
        }
    }
    let joined = Arc::new(ScalarUDF::new_from_impl(ConcatOp::new(budget)));
    let operators = BoundedExprPlanner { budget: budget.clone(), joined };
    // Before DataFusion's own.
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(operators));
    *builder.type_planner() = Some(Arc::new(BoundedTypePlanner));
}

/// Plans operators and literals of lists as DataFusion does, with bounded functions, and `||` of texts as a function
/// that is bounded, too.
#[derive(Debug)]
struct BoundedExprPlanner {
    budget: Arc<ResultBudget>,
    joined: Arc<ScalarUDF>,
}

impl BoundedExprPlanner {
    /// The same call of a bounded function.
    fn bounded<T>(&self, planned: PlannerResult<T>) -> PlannerResult<T> {
        match planned {
            PlannerResult::Planned(Expr::ScalarFunction(call)) => {
                let func = bounded(&call.func, &self.budget).unwrap_or(call.func);
                PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args: call.args }))
            }
            other => other,
        }
    }

    /// A chain of `||` as one function of all its parts: DataFusion names each function after its arguments, which of
    /// nested ones takes a time that grows with the cube of their number.
    fn chain(&self, left: Expr, right: Expr) -> Expr {
        let mut parts = match left {
            Expr::ScalarFunction(chain) if chain.func == self.joined => chain.args,
            first => vec![first],
        };
        parts.push(right);
        Expr::ScalarFunction(ScalarFunction::new_udf(self.joined.clone(), parts))
    }
}

impl ExprPlanner for BoundedExprPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        Ok(match NestedFunctionPlanner.plan_binary_op(expr, schema)? {
            PlannerResult::Original(expr) if expr.op == BinaryOperator::StringConcat => {
                PlannerResult::Planned(self.chain(expr.left, expr.right))
            }
            other => self.bounded(other),
        })
    }

    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(self.bounded(NestedFunctionPlanner.plan_array_literal(exprs, schema)?))
    }

    fn plan_make_map(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        // The planner makes the two lists of a map, too.
        Ok(match NestedFunctionPlanner.plan_make_map(args)? {
            PlannerResult::Planned(map) => PlannerResult::Planned(bounded_within(map, &self.budget)?),
            original => original,
        })
    }
}

/// Refuses lists of a length that is part of their type, where that is too large: each null of them takes as much.
#[derive(Debug)]
struct BoundedTypePlanner;

impl TypePlanner for BoundedTypePlanner {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let (mut within, mut len) = (sql_type, 1_u128);
        while let SqlType::Array(ArrayElemTypeDef::SquareBracket(inner, size)) = within {
            len = len.saturating_mul(size.unwrap_or(1).into());
            within = inner;
        }
        /// A value of any type of SQL's takes no more.
        const EACH: u128 = 16;
        if len > WIDEST / EACH {
            return plan_err!("a type with {len} elements in each value; at most {} are expected", WIDEST / EACH);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    use datafusion::logical_expr::LogicalPlan;
    use datafusion::prelude::SessionContext;

    use super::*;

    fn context() -> SessionContext {
        let mut builder = SessionStateBuilder::new().with_default_features();
        let budget = Arc::new(ResultBudget::default());
        budget.set_query_memory(1 << 30);
        bound(&mut builder, &budget);
        SessionContext::new_with_state(builder.build())
    }

    #[tokio::test]
    async fn chains_of_texts_are_those_of_datafusion() {
        let rows = "(values ('a', 1, null), ('b', 2, 'z'), (null, 3, '')) t (word, n, other)";
        let large = "arrow_cast(word, 'LargeUtf8') || other || arrow_cast(word, 'Utf8View')";
        for shown in
            ["word || 'x' || other", "word || n || 'x' || word", "'a' || ('b' || word) || n", large, "'a' || 'b'"]
        {
            let sql = format!("select {shown} as joined from {rows}");
            let [ours, own] = [context(), SessionContext::new()].map(async |context| {
                let answer = context.sql(&sql).await.unwrap().collect().await.unwrap();
                pretty_format_batches(&answer).unwrap().to_string()
            });
            assert_eq!(ours.await, own.await, "{sql}");
        }
    }

    #[tokio::test]
    async fn steps_that_come_back_are_refused() {
        let list = |of: &str| format!("select cardinality(generate_series({of}))");
        for of in [
            "timestamp '2020-04-01', timestamp '2021-01-01', interval '1 month -30 days'",
            "date '2021-01-01', date '2020-01-01', interval '1 month -31 days'",
        ] {
            let answer = context().sql(&list(of)).await;
            let error = match answer {
                Ok(rows) => rows.collect().await.unwrap_err(),
                Err(e) => e,
            };
            assert!(error.to_string().contains("one direction"), "{of}: {error}");
        }
        let whole = list("date '2020-01-01', date '2021-01-01', interval '1 month 2 days'");
        assert_eq!(context().sql(&whole).await.unwrap().collect().await.unwrap()[0].num_rows(), 1);
    }

    #[tokio::test]
    async fn comparisons_that_would_not_end_are_refused() {
        let answer = async |of: &str| {
            let rows = context().sql(&format!("select {of} as found")).await?;
            rows.collect().await
        };
        for of in [
            "levenshtein(repeat('a', 100000), repeat('b', 100000))",
            "array_has_all(range(0, 100000), range(100000, 200000))",
            "array_has_any(range(0, 100000), range(100000, 200000))",
        ] {
            let error = answer(of).await.unwrap_err().to_string();
            assert!(error.contains("would compare 10000000000 times"), "{of}: {error}");
        }
        for of in ["levenshtein('kitten', 'sitting') = 3", "array_has_all([1, 2], [2])", "array_has_any(['a'], ['a'])"]
        {
            let found = answer(of).await.unwrap();
            assert!(found[0].column(0).as_boolean().value(0), "{of}");
        }
    }

    #[tokio::test]
    async fn a_chain_of_texts_is_one_function() {
        let state = context().state();
        let sql = format!("select word{} from (values ('a')) t (word)", " || word".repeat(50));
        let plan = state.create_logical_plan(&sql).await.unwrap();
        let LogicalPlan::Projection(projection) = plan else { panic!("no projection") };
        let mut functions = Vec::new();
        let found = projection.expr[0].apply(|expr| {
            if let Expr::ScalarFunction(function) = expr {
                functions.push(function.args.len());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found.unwrap();
        assert_eq!(functions, [51]);
    }
}
