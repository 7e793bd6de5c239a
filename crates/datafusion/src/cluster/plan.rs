//! How the engine distributes a plan: each part of a table to its server, and nothing that it could get wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::config_err;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
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

use crate::cluster::messages::STEP_PARTITIONS;
use crate::cluster::table::ClusterScan;

/// The steps that may be done on several servers at once, and by a server for a caller. All others are done where the
/// question is asked, with the rows of all.
const KNOWN: &[&str] = &[
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

/// Returns true if a server does this step of a plan for others.
fn is_known(step: &Arc<dyn ExecutionPlan>) -> bool {
    let values = step.downcast_ref::<DataSourceExec>().map(|source| source.data_source().is::<MemorySourceConfig>());
    values.unwrap_or_else(|| KNOWN.contains(&step.name()))
}

/// Refuses a plan with a step that isn't known: one that reads files, or writes.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plan.apply(|step| {
        if !is_known(step) {
            return plan_err!("{} is not done for others", step.name());
        }
        let partitions = step.output_partitioning().partition_count();
        if partitions > STEP_PARTITIONS {
            return plan_err!("{} has {partitions} partitions; at most {STEP_PARTITIONS} are expected", step.name());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

/// Returns true if all steps of a plan may be distributed.
pub(crate) fn is_distributable(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(!plan.exists(|step| Ok(!is_known(step)))?)
}

/// The state of the planning of one query.
#[derive(Debug, Default)]
pub(crate) struct PlanningState {
    /// True if the rows of all tables are gathered where the question is asked.
    pub is_gathered: AtomicBool,
    /// True if the engine would have read a table elsewhere than on its servers.
    pub is_misplaced: AtomicBool,
}

/// How many tasks a scan has: one for each server.
pub(crate) fn desired(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    let scan = event.plan.downcast_ref::<ClusterScan>()?;
    Some(Ok(DesiredTaskCountEventResponse::desired(scan.urls().len())))
}

/// Makes a scan a part for each task, which is the one of that server.
pub(crate) fn scale_up(
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

/// Sends the tasks of a stage that reads a table to its servers.
pub(crate) fn route(event: &RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    let mut urls = None;
    let walked = event.plan.apply(|step| {
        let scan =
            step.downcast_ref::<DistributedLeafExec>().and_then(|leaf| leaf.original().downcast_ref::<ClusterScan>());
        urls = scan.map(ClusterScan::urls);
        Ok(if urls.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    match walked {
        Err(e) => Some(Err(e)),
        Ok(_) => urls.map(|urls| Ok(RouteTasksEventResponse::new(urls))),
    }
}

/// Gathers the rows of each scan before anything else is done with them, where that was asked for.
#[derive(Debug)]
pub(crate) struct GatherRule(pub Arc<PlanningState>);

impl PhysicalOptimizerRule for GatherRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.0.is_gathered.load(Ordering::Relaxed) {
            return Ok(plan);
        }
        let gathered = plan.transform_up(|step| {
            if step.is::<ClusterScan>() {
                Ok(Transformed::yes(Arc::new(CoalescePartitionsExec::new(step)) as Arc<dyn ExecutionPlan>))
            } else {
                Ok(Transformed::no(step))
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
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::prelude::{CsvReadOptions, SessionContext};

    use super::*;

    #[tokio::test]
    async fn plans_that_reach_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.csv");
        std::fs::write(&path, "a\n1\n").unwrap();
        let context = SessionContext::new();
        let values = context.sql("select column1 from (values (1), (2)) where column1 > 1").await.unwrap();
        check(&values.create_physical_plan().await.unwrap()).unwrap();
        let secret = context.read_csv(path.to_str().unwrap(), CsvReadOptions::new()).await.unwrap();
        let refused = check(&secret.create_physical_plan().await.unwrap()).unwrap_err().to_string();
        assert!(refused.contains("DataSourceExec"), "{refused}");
        let copy =
            context.sql(&format!("copy (select 1) to '{}'", folder.path().join("out.csv").display())).await.unwrap();
        let refused = check(&copy.create_physical_plan().await.unwrap()).unwrap_err().to_string();
        assert!(refused.contains("not done for others"), "{refused}");
    }

    #[test]
    fn plans_with_very_many_partitions_are_refused() {
        let empty = Arc::new(EmptyExec::new(Arc::new(datafusion::arrow::datatypes::Schema::empty())));
        let spread = |count| {
            RepartitionExec::try_new(empty.clone(), datafusion::physical_plan::Partitioning::RoundRobinBatch(count))
        };
        check(&(Arc::new(spread(8).unwrap()) as Arc<dyn ExecutionPlan>)).unwrap();
        assert!(check(&(Arc::new(spread(1 << 20).unwrap()) as Arc<dyn ExecutionPlan>)).is_err());
    }
}
