//! A workaround for projections that DataFusion's optimizer removes by mistake.
//!
//! DataFusion 55 computes only one of two projections that are written alike and follow each other, as in `select a + 1
//! as a from (select a + 1 as a from …)`. Remove this file with the first version after 55.2, which fixes this
//! (apache/datafusion#24686).

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, Projection};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Replaces DataFusion's projection rule with [`ProjectionRule`].
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    for rule in &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules {
        if rule.name() == ProjectionRule::NAME {
            *rule = Arc::new(ProjectionRule(OptimizeProjections::new()));
        }
    }
}

/// Runs DataFusion's rule with a barrier between projections that it would merge by mistake.
#[derive(Debug)]
struct ProjectionRule(OptimizeProjections);

impl ProjectionRule {
    /// The name of DataFusion's rule.
    const NAME: &str = "optimize_projections";
}

impl OptimizerRule for ProjectionRule {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let separated = plan.transform_up_with_subqueries(insert_barrier)?;
        let optimized = self.0.rewrite(separated.data, config)?;
        if separated.transformed {
            optimized.transform_data(|plan| plan.transform_up_with_subqueries(remove_barrier))
        } else {
            Ok(optimized)
        }
    }
}

/// Inserts a limit that keeps all rows below a projection that computes a column of the same name as one below it.
fn insert_barrier(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(Transformed::no(plan)) };
    let names: HashSet<String> = computed_columns(&projection).map(str::to_owned).collect();
    let mut input = &projection.input;
    while let LogicalPlan::Projection(lower) = input.as_ref() {
        if computed_columns(lower).any(|name| names.contains(name)) {
            let barrier = LogicalPlan::Limit(Limit { skip: None, fetch: None, input: projection.input });
            let projection = Projection::try_new_with_schema(projection.expr, Arc::new(barrier), projection.schema)?;
            return Ok(Transformed::yes(LogicalPlan::Projection(projection)));
        }
        input = &lower.input;
    }
    Ok(Transformed::no(LogicalPlan::Projection(projection)))
}

/// Removes a limit that keeps all rows.
fn remove_barrier(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Limit(Limit { skip: None, fetch: None, input }) => Transformed::yes(Arc::unwrap_or_clone(input)),
        other => Transformed::no(other),
    })
}

/// Returns the names of the columns that a projection computes rather than passes on.
fn computed_columns(projection: &Projection) -> impl Iterator<Item = &str> {
    projection.expr.iter().filter_map(|expr| match expr {
        Expr::Alias(alias) if !matches!(*alias.expr, Expr::Column(_)) => Some(alias.name.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn each_projection_is_computed() {
        let mut builder = SessionStateBuilder::new().with_default_features();
        install(&mut builder);
        let context = SessionContext::new_with_state(builder.build());
        // The projections from the outermost to the innermost, and their result for an `a` of 7.
        for (projections, expected) in [
            (vec!["a + 1 as a"; 1], 8),
            (vec!["a + 1 as a"; 2], 9),
            (vec!["a + 1 as a"; 7], 14),
            (vec!["b + 1 as a", "a * 2 as b", "b + 1 as a", "a * 2 as b"], 31),
            (vec!["a + 1 as a", "a * 2 as a", "a * 2 + 1 as a"], 31),
            (vec!["a + 1 as a", "a", "a + 1 as a"], 9),
            (vec!["a + (1 + 1) as a", "a + 2 as a"], 11),
        ] {
            let mut sql = "select value as a from generate_series(7, 7)".to_owned();
            for projection in projections.iter().rev() {
                sql = format!("select {projection} from ({sql})");
            }
            for sql in [sql.clone(), format!("select 0 + ({sql}) as a")] {
                let batches = context.sql(&sql).await.unwrap().collect().await.unwrap();
                assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), expected, "{sql}");
            }
        }
    }
}
