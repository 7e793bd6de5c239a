//! [`ClusterTable`]: the rows of a table on all servers, as a table of DataFusion.

use std::fmt;
use std::sync::Arc;

use arrowwood::Dataset;
use arrowwood_datafusion::Condition;
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, exec_err, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs};
use url::Url;

use crate::cluster::messages::{FilterMessage, PartMessage};
use crate::cluster::part::{self, PartExec};

/// The part of a table that one server has.
#[derive(Clone, Debug)]
pub(super) struct ServerShare {
    pub url: Url,
    /// The process that has fixed the rows; empty if the server does not have the table.
    pub process: Vec<u8>,
    pub rows: u64,
}

/// A table whose rows are on several servers.
pub(super) struct ClusterTable {
    pub name: String,
    pub schema: SchemaRef,
    /// A dataset without rows, which conditions are bound to.
    pub empty: Dataset,
    /// The random number of the query.
    pub query: Vec<u8>,
    /// The shares of all servers, in the order of the list of servers.
    pub shares: Arc<[ServerShare]>,
    pub partitions: u32,
}

impl ClusterTable {
    /// Returns the number of all rows. Saturates, as a server may report any number.
    fn count_rows(&self) -> usize {
        let rows = self.shares.iter().map(|share| share.rows).fold(0, u64::saturating_add);
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    /// Returns true if servers apply `filter` exactly, and `None` if they can't apply it.
    fn is_exact(&self, filter: &Expr) -> Option<bool> {
        Condition::bind(filter, &self.empty).map(|condition| condition.is_exact())
    }
}

impl fmt::Debug for ClusterTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterTable").field("name", &self.name).field("shares", &self.shares).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for ClusterTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let mut supported = Vec::with_capacity(filters.len());
        for filter in filters {
            supported.push(match self.is_exact(filter) {
                Some(true) => TableProviderFilterPushDown::Exact,
                Some(false) => TableProviderFilterPushDown::Inexact,
                None => TableProviderFilterPushDown::Unsupported,
            });
        }
        Ok(supported)
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        statistics.num_rows = Precision::Exact(self.count_rows());
        Some(statistics)
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => self.schema.clone(),
        };
        let mut messages = Vec::new();
        for filter in filters {
            if let Some(is_exact) = self.is_exact(filter) {
                messages.push(part::encode_filter(filter, is_exact)?);
            }
        }
        let mut statistics = Statistics::new_unknown(&schema);
        let rows = self.count_rows();
        let is_complete = filters.is_empty() && limit.is_none();
        statistics.num_rows = if is_complete { Precision::Exact(rows) } else { Precision::Inexact(rows) };
        Ok(Arc::new(ClusterScan {
            table: self.name.clone(),
            query: self.query.clone(),
            properties: Arc::new(part::plan_properties(&schema, self.partitions as usize)),
            schema,
            filters: messages.into(),
            limit: limit.map(|limit| limit as u64),
            shares: self.shares.clone(),
            partitions: self.partitions,
            statistics: Arc::new(statistics),
        }))
    }
}

/// Scans a table on all servers. The engine replaces it by a [`PartExec`] for each of them.
#[derive(Clone, Debug)]
pub(super) struct ClusterScan {
    table: String,
    query: Vec<u8>,
    schema: SchemaRef,
    filters: Arc<[FilterMessage]>,
    limit: Option<u64>,
    shares: Arc<[ServerShare]>,
    partitions: u32,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
}

impl ClusterScan {
    /// Returns the servers, in the order of [`parts`](ClusterScan::parts).
    pub fn urls(&self) -> Vec<Url> {
        self.shares.iter().map(|share| share.url.clone()).collect()
    }

    /// Returns a part for each server.
    pub fn parts(&self) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let schema = datafusion_proto::protobuf::Schema::try_from(self.schema.as_ref())?;
        let mut parts = Vec::with_capacity(self.shares.len());
        for share in self.shares.iter() {
            let message = PartMessage {
                query: self.query.clone(),
                process: share.process.clone(),
                table: self.table.clone(),
                schema: Some(schema.clone()),
                partitions: self.partitions,
                filters: self.filters.to_vec(),
                limit: self.limit,
            };
            parts.push(Arc::new(PartExec::new(message, self.schema.clone())) as Arc<dyn ExecutionPlan>);
        }
        assert_eq!(parts.len(), self.shares.len(), "each server has a part");
        Ok(parts)
    }
}

impl DisplayAs for ClusterScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let servers = self.shares.iter().filter(|share| !share.process.is_empty()).count();
        write!(f, "ClusterScan: {} of {servers} servers, projection=[{}]", self.table, names.join(", "))?;
        write!(f, ", conditions={}", self.filters.len())?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ClusterScan {
    fn name(&self) -> &str {
        "ClusterScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        exec_err!("table '{}' is read by its servers; the plan would have read it elsewhere", self.table)
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(self.statistics.clone()),
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema))),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn row_counts_saturate() {
        let schema: SchemaRef = Arc::new(Schema::empty());
        let share = ServerShare { url: Url::parse("http://127.0.0.1:1").unwrap(), process: vec![1], rows: u64::MAX };
        let table = ClusterTable {
            name: "t".into(),
            empty: Dataset::from_batches(schema.clone(), Vec::new()).unwrap(),
            schema,
            query: Vec::new(),
            shares: vec![share.clone(), share].into(),
            partitions: 1,
        };
        assert_eq!(table.statistics().unwrap().num_rows, Precision::Exact(usize::MAX));
    }
}
