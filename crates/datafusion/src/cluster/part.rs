//! [`PartExec`]: what one task reads of one server's table, and its way through the network.

use std::fmt;
use std::sync::Arc;

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

use crate::cancel_token::CancelToken;
use crate::cluster::messages::{FilterMessage, PartMessage};
use crate::cluster::snapshots::CallerSnapshots;
use crate::pushdown::Condition;
use crate::scan::{Scan, ScanRequest};
use crate::served_plan::{keeps_rows, stopped};

/// The most partitions of a part.
pub(crate) const PART_PARTITIONS: u32 = 64;

/// The rows of one server's table. Only that server has them.
#[derive(Clone, Debug)]
pub(crate) struct PartExec {
    message: Arc<PartMessage>,
    schema: SchemaRef,
    /// Where this is the server that has them.
    rows: Option<Arc<Scan>>,
    properties: Arc<PlanProperties>,
}

impl PartExec {
    /// Creates the part that a caller sends.
    pub fn to_send(message: PartMessage, schema: SchemaRef) -> PartExec {
        let properties = properties(&schema, message.partitions as usize);
        PartExec { message: Arc::new(message), schema, rows: None, properties: Arc::new(properties) }
    }

    /// Creates the part that a server reads.
    fn received(message: PartMessage, asked: &CallerSnapshots, context: &TaskContext) -> Result<PartExec> {
        let Some(schema) = &message.schema else { return plan_err!("a part names no columns") };
        let schema: SchemaRef = Arc::new(Schema::try_from(schema)?);
        if !(1..=PART_PARTITIONS).contains(&message.partitions) {
            return plan_err!("a part has {} partitions; expected 1 to {PART_PARTITIONS}", message.partitions);
        }
        let mut part = PartExec::to_send(message, schema);
        // A part without a server has no rows.
        if !part.message.process.is_empty() {
            part.rows = Some(Arc::new(scan(&part.message, &part.schema, asked, context)?));
        }
        Ok(part)
    }
}

/// The plan of a task as a server runs it, node for node: parts and joins end after `stop`, and rows count at their
/// size for operators that keep account.
pub(crate) fn served(plan: Arc<dyn ExecutionPlan>, stop: &CancelToken) -> Result<Arc<dyn ExecutionPlan>> {
    let is_counted = keeps_rows(&plan)?;
    let plan = plan.transform_up(|node| {
        let Some(part) = node.downcast_ref::<PartExec>() else { return Ok(Transformed::no(node)) };
        let rows = part.rows.as_ref().map(|rows| Arc::new(rows.served(stop.clone(), is_counted, false)));
        Ok(Transformed::yes(Arc::new(PartExec { rows, ..part.clone() }) as Arc<dyn ExecutionPlan>))
    });
    stopped(plan.data()?, stop, false)
}

/// Returns the scan that a message requests, of the rows that the query has fixed.
fn scan(message: &PartMessage, schema: &SchemaRef, asked: &CallerSnapshots, context: &TaskContext) -> Result<Scan> {
    let snapshot = asked.rows(message)?;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let number = snapshot.schema().index_of(field.name())?;
        let own = snapshot.schema().field(number).data_type();
        if own != field.data_type() {
            return plan_err!(
                "column '{}' of table '{}' is {own}, and {} was asked for",
                field.name(),
                message.table,
                field.data_type()
            );
        }
        columns.push(number);
    }
    let mut conditions = Vec::with_capacity(message.filters.len());
    for filter in &message.filters {
        let expr = Expr::from_bytes_with_ctx(&filter.expr, context)?;
        match Condition::bind(&expr, &snapshot) {
            Some(condition) if condition.is_exact || !filter.is_exact => conditions.push(condition),
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
        splits: message.partitions as usize,
        is_copied: true,
    })
}

/// `expr` as it is sent.
pub(crate) fn filter(expr: &Expr, is_exact: bool) -> Result<FilterMessage> {
    Ok(FilterMessage { expr: expr.to_bytes()?.to_vec(), is_exact })
}

pub(crate) fn properties(schema: &SchemaRef, partitions: usize) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(schema.clone()),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

impl DisplayAs for PartExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rows {
            Some(rows) => rows.fmt_as(form, f),
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
        match &self.rows {
            None if !is_empty => exec_err!("rows of table '{}' can be read by their server alone", self.message.table),
            Some(rows) if partition < rows.properties().output_partitioning().partition_count() => {
                rows.execute(partition, context)
            }
            // A table with few rows has fewer partitions.
            _ => Ok(Box::pin(EmptyRecordBatchStream::new(self.schema.clone()))),
        }
    }
}

/// Sends parts, and receives the parts of one caller.
#[derive(Debug)]
pub(crate) struct PartCodec {
    /// `None` where nothing is received.
    pub asked: Option<CallerSnapshots>,
}

impl PhysicalExtensionCodec for PartCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(asked) = self.asked.as_ref().filter(|_| inputs.is_empty()) else {
            return internal_err!("a part is received by a server, and has no inputs");
        };
        let message = PartMessage::decode(bytes).map_err(|e| DataFusionError::Plan(format!("reading a part: {e}")))?;
        Ok(Arc::new(PartExec::received(message, asked, context)?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        into: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.downcast_ref::<PartExec>() {
            Some(part) => {
                into.extend(part.message.encode_to_vec());
                Ok(())
            }
            None => plan_err!("{} can't be sent to another server", node.name()),
        }
    }
}
