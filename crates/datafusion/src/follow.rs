//! [`follow`]: a growing table as an unbounded stream.

use std::sync::Arc;
use std::time::Duration;

use arrowwood::{Dataset, TableFollower};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::col;

use crate::error::to_external_error;
use crate::scan::{has_same_order, replace_schema};

/// How long a thread waits for rows before it checks whether the query was dropped.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The number of batches that may wait for the query.
const MAX_QUEUED_BATCHES: usize = 2;

/// Returns the table `dataset` as an unbounded stream of its rows.
///
/// The stream begins at row number `start` or, without one, with the rows that are committed after the query began. It
/// returns rows as they are committed until it is dropped. Each mention in a query is a separate stream. Batches are
/// mapped memory of the files.
///
/// DataFusion's filters gather `datafusion.execution.batch_size` rows, 8192 by default, before they pass them on. Set a
/// small batch size to receive rows immediately.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use futures::StreamExt;
///
/// let context = datafusion::prelude::SessionContext::new();
/// let new = arrowwood_datafusion::follow(&arrowwood::open("ticks")?, None)?;
/// context.register_table("new", Arc::new(new))?;
/// let mut expensive = context.sql("select * from new where price > 100").await?.execute_stream().await?;
/// while let Some(batch) = expensive.next().await {
///     println!("{:?}", batch?);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Errors of [`arrowwood::follow`].
pub fn follow(dataset: &Dataset, start: Option<u64>) -> arrowwood::Result<StreamingTable> {
    // Report a table that can't be followed now, rather than in a query.
    arrowwood::follow(dataset, start, None)?;
    let schema = Arc::new(Schema::new(dataset.schema().fields().clone()));
    let rows = Arc::new(FollowStream { dataset: dataset.clone(), start, schema: schema.clone() });
    let order = dataset.sorted_by().filter(|field| has_same_order(field.data_type()));
    let order = order.map(|field| col(datafusion::common::Column::from_name(field.name())).sort(true, false));
    let table = StreamingTable::try_new(schema, vec![rows]).map_err(|e| {
        let message = format!("making a stream for DataFusion: {e}");
        arrowwood::Error::new(arrowwood::ErrorKind::InvalidArgument, message)
    })?;
    Ok(table.with_infinite_table(true).with_sort_order(order.into_iter().collect()))
}

/// The stream of a followed table.
#[derive(Debug)]
struct FollowStream {
    dataset: Dataset,
    start: Option<u64>,
    schema: SchemaRef,
}

impl PartitionStream for FollowStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batch_size = context.session_config().batch_size().max(1);
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), MAX_QUEUED_BATCHES);
        let sender = stream.tx();
        let schema = self.schema.clone();
        let follower = arrowwood::follow(&self.dataset, self.start, None);
        stream.spawn_blocking(move || {
            let mut follower = follower.map_err(to_external_error)?;
            while !sender.is_closed() {
                for batch in poll_batches(&mut follower, &schema, batch_size)? {
                    if sender.blocking_send(Ok(batch)).is_err() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        stream.build()
    }
}

/// Returns the next rows as batches, or nothing if no rows were committed within [`POLL_INTERVAL`].
fn poll_batches(follower: &mut TableFollower, schema: &SchemaRef, batch_size: usize) -> Result<Vec<RecordBatch>> {
    let Some(rows) = follower.poll(POLL_INTERVAL).map_err(to_external_error)? else { return Ok(Vec::new()) };
    let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
    let rows = rows.select(&names).map_err(to_external_error)?;
    let mut slices = Vec::new();
    for batch in rows.to_record_batches() {
        let batch = replace_schema(batch.map_err(to_external_error)?, schema).map_err(to_external_error)?;
        for start in (0..batch.num_rows()).step_by(batch_size) {
            slices.push(batch.slice(start, batch_size.min(batch.num_rows() - start)));
        }
    }
    Ok(slices)
}
