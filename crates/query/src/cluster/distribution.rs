//! Controls how the engine distributes a plan: each part of a table is read on its server, and operators that the
//! engine could distribute wrongly run on the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{config_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedLeafExec, RouteTasksEvent,
    RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
};

use crate::cluster::messages::MAX_PARTITIONS;
use crate::cluster::table::ClusterScan;

/// The operators that may run on several servers at once, and on a server for a caller. All others run on the caller,
/// over the rows of all servers.
const DISTRIBUTABLE_OPERATORS: &[&str] = &[
    "AggregateExec",
    "ArrowwoodPart",
    "BoundedWindowAggExec",
    "BroadcastExec",
    "ClusterScan",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "CrossJoinExec",
    "DistributedExec",
    "DistributedLeafExec",
    "EmptyExec",
    "FilterExec",
    "GlobalLimitExec",
    "HashJoinExec",
    "LocalLimitExec",
    "NestedLoopJoinExec",
    "NetworkBroadcastExec",
    "NetworkCoalesceExec",
    "NetworkShuffleExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "RepartitionExec",
    "SortExec",
    "SortMergeJoinExec",
    "SortPreservingMergeExec",
    "UnionExec",
    "UnnestExec",
    "WindowAggExec",
];

/// Returns true if a server runs this operator for others.
fn is_distributable_operator(operator: &Arc<dyn ExecutionPlan>) -> bool {
    match operator.downcast_ref::<DataSourceExec>() {
        // Literal rows in the statement; all other sources are files.
        Some(source) => source.data_source().is::<MemorySourceConfig>(),
        None => DISTRIBUTABLE_OPERATORS.contains(&operator.name()),
    }
}

/// Returns an error for a plan with an operator that is not known to be harmless, such as one that reads or writes
/// files.
pub(crate) fn check_plan(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plan.apply(|operator| {
        if !is_distributable_operator(operator) {
            return plan_err!("{} is not done for others", operator.name());
        }
        let partitions = operator.output_partitioning().partition_count();
        if partitions > MAX_PARTITIONS {
            return plan_err!("{} has {partitions} partitions; at most {MAX_PARTITIONS} are expected", operator.name());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

/// Returns true if all operators of a plan may be distributed.
pub(super) fn is_distributable(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(!plan.exists(|operator| Ok(!is_distributable_operator(operator)))?)
}

/// The state of the planning of one query, which the planner and the hooks of the engine share.
///
/// A plan is made at most twice. [`split_scan`] sets `is_misplaced` if the first plan can't be distributed; the planner
/// then sets `is_gathered`, which [`GatherRule`] reads when the second plan is made. These steps
/// follow each other, as the planner awaits each plan, so that their order of memory is relaxed.
#[derive(Debug, Default)]
pub(super) struct PlanningState {
    /// True if the caller gathers the rows of all tables before it does anything else with them.
    pub is_gathered: AtomicBool,
    /// True if the engine tried to read a table elsewhere than on its servers.
    pub is_misplaced: AtomicBool,
}

/// Returns the number of tasks of a scan: one for each server.
pub(super) fn desired_tasks(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let scan = event.plan.downcast_ref::<ClusterScan>()?;
    Some(Ok(DesiredTaskCountEventResponse::desired(scan.urls().len())))
}

/// Replaces a scan by its parts, one for each task.
pub(super) fn split_scan(
    planning: &PlanningState,
    event: &ScaleUpLeafNodeEvent<'_>,
) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<ClusterScan>()?;
    let servers = scan.urls().len();
    if event.task_count != servers {
        planning.is_misplaced.store(true, Ordering::Relaxed);
        return Some(config_err!("a table of {servers} servers would be read by {} tasks", event.task_count));
    }
    let parts = scan.parts().and_then(|parts| DistributedLeafExec::try_new(event.plan.clone(), parts));
    Some(parts.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// Sends the tasks of a stage that reads a table to the table's servers.
pub(super) fn route_tasks(event: &RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    let mut urls = None;
    let result = event.plan.apply(|operator| {
        if let Some(leaf) = operator.downcast_ref::<DistributedLeafExec>() {
            urls = leaf.original().downcast_ref::<ClusterScan>().map(ClusterScan::urls);
        }
        Ok(if urls.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    match result {
        Err(e) => Some(Err(e)),
        Ok(_) => urls.map(|urls| Ok(RouteTasksEventResponse::new(urls))),
    }
}

/// Inserts an operator above each scan that gathers its rows, if [`PlanningState::is_gathered`].
#[derive(Debug)]
pub(super) struct GatherRule(pub Arc<PlanningState>);

impl PhysicalOptimizerRule for GatherRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.0.is_gathered.load(Ordering::Relaxed) {
            return Ok(plan);
        }
        let gathered = plan.transform_up(|operator| {
            if operator.is::<ClusterScan>() {
                Ok(Transformed::yes(Arc::new(CoalescePartitionsExec::new(operator)) as Arc<dyn ExecutionPlan>))
            } else {
                Ok(Transformed::no(operator))
            }
        });
        gathered.data()
    }

    fn name(&self) -> &str {
        "gather"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::Partitioning;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::prelude::{CsvReadOptions, SessionContext};

    use super::*;

    async fn physical_plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
        context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
    }

    fn with_partitions(count: usize) -> Arc<dyn ExecutionPlan> {
        let empty = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        Arc::new(RepartitionExec::try_new(empty, Partitioning::RoundRobinBatch(count)).unwrap())
    }

    #[tokio::test]
    async fn plans_that_access_files_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret.csv");
        std::fs::write(&path, "a\n1\n").unwrap();
        let context = SessionContext::new();
        let harmless = "select column1 from (values (1), (2)) where column1 > 1";
        check_plan(&physical_plan(&context, harmless).await).unwrap();

        let read = context.read_csv(path.to_str().unwrap(), CsvReadOptions::new()).await.unwrap();
        let error = check_plan(&read.create_physical_plan().await.unwrap()).unwrap_err().to_string();
        assert!(error.contains("DataSourceExec"), "{error}");

        let copy = format!("copy (select 1) to '{}'", directory.path().join("out.csv").display());
        let error = check_plan(&physical_plan(&context, &copy).await).unwrap_err().to_string();
        assert!(error.contains("not done for others"), "{error}");
    }

    #[test]
    fn plans_with_too_many_partitions_are_rejected() {
        check_plan(&with_partitions(8)).unwrap();
        assert!(check_plan(&with_partitions(1 << 20)).is_err());
    }
}
