//! [`PartExec`]: the operator that reads one server's rows of a table, and its encoding for the network.

use std::fmt;
use std::sync::Arc;

use arrowwood_datafusion::{CancelToken, Condition, Scan, ScanOptions, ScanRequest};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{exec_err, internal_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion_proto::bytes::Serializeable;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use prost::Message;

use crate::cluster::messages::{FilterMessage, PartMessage};
use crate::cluster::snapshots::CallerSnapshots;
use crate::plans::{make_cancellable, retains_rows};

/// The maximum number of partitions of a part.
pub(super) const MAX_PART_PARTITIONS: u32 = 64;

/// Reads the rows of a table that one server has. Only that server can execute it.
#[derive(Clone, Debug)]
pub(super) struct PartExec {
    message: Arc<PartMessage>,
    schema: SchemaRef,
    /// The scan of the rows; `None` on other machines, and for a part without rows.
    scan: Option<Arc<Scan>>,
    properties: Arc<PlanProperties>,
}

impl PartExec {
    /// Creates a part for sending to its server.
    pub fn new(message: PartMessage, schema: SchemaRef) -> PartExec {
        let properties = plan_properties(&schema, message.partitions as usize);
        PartExec { message: Arc::new(message), schema, scan: None, properties: Arc::new(properties) }
    }

    /// Creates a part that this server has received, and can execute.
    fn from_message(message: PartMessage, snapshots: &CallerSnapshots, context: &TaskContext) -> Result<PartExec> {
        let Some(schema) = &message.schema else { return plan_err!("a part names no columns") };
        let schema: SchemaRef = Arc::new(Schema::try_from(schema)?);
        if !(1..=MAX_PART_PARTITIONS).contains(&message.partitions) {
            return plan_err!("a part has {} partitions; expected 1 to {MAX_PART_PARTITIONS}", message.partitions);
        }
        let mut part = PartExec::new(message, schema);
        // A part without a server has no rows.
        if !part.message.process.is_empty() {
            part.scan = Some(Arc::new(create_scan(&part.message, &part.schema, snapshots, context)?));
        }
        Ok(part)
    }
}

/// Prepares the plan of a task for this server, node for node: parts and joins end when `cancel` says so, and rows
/// count at their own size in the memory of operators.
pub(crate) fn prepare_for_serving(
    plan: Arc<dyn ExecutionPlan>,
    cancel: &CancelToken,
) -> Result<Arc<dyn ExecutionPlan>> {
    let has_exact_buffers = retains_rows(&plan)?;
    let options = ScanOptions { cancel: cancel.clone(), has_exact_buffers, is_unsliced: false };
    let plan = plan.transform_up(|node| {
        let Some(part) = node.downcast_ref::<PartExec>() else { return Ok(Transformed::no(node)) };
        let scan = part.scan.as_ref().map(|scan| Arc::new(scan.with_options(options.clone())));
        Ok(Transformed::yes(Arc::new(PartExec { scan, ..part.clone() }) as Arc<dyn ExecutionPlan>))
    });
    make_cancellable(plan.data()?, cancel, false)
}

/// Returns the scan that a message requests, over the rows that the query has fixed.
fn create_scan(
    message: &PartMessage,
    schema: &SchemaRef,
    snapshots: &CallerSnapshots,
    context: &TaskContext,
) -> Result<Scan> {
    let snapshot = snapshots.rows(message)?;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let index = snapshot.schema().index_of(field.name())?;
        let data_type = snapshot.schema().field(index).data_type();
        if data_type != field.data_type() {
            return plan_err!(
                "column '{}' of table '{}' is {data_type}, and {} was asked for",
                field.name(),
                message.table,
                field.data_type()
            );
        }
        columns.push(index);
    }
    assert_eq!(columns.len(), schema.fields().len(), "each requested column is read");
    let mut conditions = Vec::with_capacity(message.filters.len());
    for filter in &message.filters {
        let expr = Expr::from_bytes_with_ctx(&filter.expr, context)?;
        match Condition::bind(&expr, &snapshot) {
            Some(condition) if condition.is_exact() || !filter.is_exact => conditions.push(condition),
            _ => {
                return plan_err!("table '{}' can't be filtered by {expr}, as this server was asked to", message.table);
            }
        }
    }
    Scan::try_new(ScanRequest {
        snapshot: snapshot.clone(),
        columns,
        schema: schema.clone(),
        conditions,
        limit: message.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        target_splits: message.partitions as usize,
        is_copied: true,
    })
}

/// Encodes a condition.
pub(super) fn encode_filter(expr: &Expr, is_exact: bool) -> Result<FilterMessage> {
    Ok(FilterMessage { expr: expr.to_bytes()?.to_vec(), is_exact })
}

pub(super) fn plan_properties(schema: &SchemaRef, partitions: usize) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(schema.clone()),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

impl DisplayAs for PartExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scan {
            Some(scan) => scan.fmt_as(form, f),
            None if self.message.process.is_empty() => write!(f, "ArrowwoodPart: no rows"),
            None => write!(f, "ArrowwoodPart: {}", self.message.table),
        }
    }
}

impl ExecutionPlan for PartExec {
    fn name(&self) -> &str {
        "ArrowwoodPart"
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
        if children.is_empty() { Ok(self) } else { internal_err!("a part has no children") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let is_empty = self.message.process.is_empty();
        match &self.scan {
            None if !is_empty => exec_err!("rows of table '{}' can be read by their server alone", self.message.table),
            Some(scan) if partition < scan.properties().output_partitioning().partition_count() => {
                scan.execute(partition, context)
            }
            // A scan of few rows has fewer partitions than its part.
            _ => Ok(Box::pin(EmptyRecordBatchStream::new(self.schema.clone()))),
        }
    }
}

/// Encodes and decodes parts.
#[derive(Debug)]
pub(super) struct PartCodec {
    /// The rows for the parts of one caller; `None` if no parts are received.
    pub snapshots: Option<CallerSnapshots>,
}

impl PhysicalExtensionCodec for PartCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(snapshots) = self.snapshots.as_ref().filter(|_| inputs.is_empty()) else {
            return internal_err!("a part is received by a server, and has no inputs");
        };
        let message = PartMessage::decode(bytes).map_err(|e| DataFusionError::Plan(format!("reading a part: {e}")))?;
        Ok(Arc::new(PartExec::from_message(message, snapshots, context)?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        output: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.downcast_ref::<PartExec>() {
            Some(part) => {
                output.extend(part.message.encode_to_vec());
                Ok(())
            }
            None => plan_err!("{} can't be sent to another server", node.name()),
        }
    }
}
