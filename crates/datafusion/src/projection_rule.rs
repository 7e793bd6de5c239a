//! [`ProjectionRule`]: DataFusion's rule for projections, kept from one that it would leave out.
//!
//! DataFusion 55 computes only one of two projections that are written alike and follow each other, as in `select a + 1
//! as a from (select a + 1 as a from …)`. It is mended in the version after 55.2 (apache/datafusion#24686): then this
//! file goes.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, Projection};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Puts it in the place of DataFusion's rule.
pub(crate) fn kept_apart(builder: &mut SessionStateBuilder) {
    for rule in &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules {
        if rule.name() == ProjectionRule::NAME {
            *rule = Arc::new(ProjectionRule(OptimizeProjections::new()));
        }
    }
}

#[derive(Debug)]
struct ProjectionRule(OptimizeProjections);

impl ProjectionRule {
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
        let apart = plan.transform_up_with_subqueries(apart)?;
        let done = self.0.rewrite(apart.data, config)?;
        if apart.transformed {
            done.transform_data(|plan| plan.transform_up_with_subqueries(together))
        } else {
            Ok(done)
        }
    }
}

/// Puts a limit of all rows under a projection that computes a column of a name that one below computes, too.
fn apart(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(Transformed::no(plan)) };
    let names: HashSet<String> = computed(&projection).map(str::to_owned).collect();
    let mut below = &projection.input;
    while let LogicalPlan::Projection(next) = below.as_ref() {
        if computed(next).any(|name| names.contains(name)) {
            let limit = LogicalPlan::Limit(Limit { skip: None, fetch: None, input: projection.input });
            let projection = Projection::try_new_with_schema(projection.expr, Arc::new(limit), projection.schema)?;
            return Ok(Transformed::yes(LogicalPlan::Projection(projection)));
        }
        below = &next.input;
    }
    Ok(Transformed::no(LogicalPlan::Projection(projection)))
}

/// Takes such limits away.
fn together(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Limit(Limit { skip: None, fetch: None, input }) => Transformed::yes(Arc::unwrap_or_clone(input)),
        other => Transformed::no(other),
    })
}

/// The names of the columns that a projection does not only hand on.
fn computed(projection: &Projection) -> impl Iterator<Item = &str> {
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
        kept_apart(&mut builder);
        let context = SessionContext::new_with_state(builder.build());
        for (steps, expected) in [
            (vec!["a + 1 as a"; 1], 8),
            (vec!["a + 1 as a"; 2], 9),
            (vec!["a + 1 as a"; 7], 14),
            (vec!["b + 1 as a", "a * 2 as b", "b + 1 as a", "a * 2 as b"], 31),
            (vec!["a + 1 as a", "a * 2 as a", "a * 2 + 1 as a"], 31),
            (vec!["a + 1 as a", "a", "a + 1 as a"], 9),
            (vec!["a + (1 + 1) as a", "a + 2 as a"], 11),
        ] {
            let mut sql = "select value as a from generate_series(7, 7)".to_owned();
            steps.iter().rev().for_each(|step| sql = format!("select {step} from ({sql})"));
            for sql in [sql.clone(), format!("select 0 + ({sql}) as a")] {
                let found = context.sql(&sql).await.unwrap().collect().await.unwrap();
                assert_eq!(found[0].column(0).as_primitive::<Int64Type>().value(0), expected, "{sql}");
            }
        }
    }
}
