//! [`follow`]: a table as a stream that doesn't end.

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

use crate::external;
use crate::scan::{adopted, is_ordered_alike};

/// How long a thread waits for rows before it looks whether anybody still wants them.
const PATIENCE: Duration = Duration::from_millis(100);

/// The rows of the table `dataset` from row number `start` on, or from those committed after the query began, and then
/// those that are committed while it runs, which it does until it is dropped. Each mention in a query is a stream of
/// its own. Batches are the memory of the files.
///
/// DataFusion's filters gather `datafusion.execution.batch_size` rows before they pass them on, 8192 by default: for
/// rows that are to come at once, make that few.
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
/// let mut large = context.sql("select * from new where price > 100").await?.execute_stream().await?;
/// while let Some(batch) = large.next().await {
///     println!("{:?}", batch?);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Errors of [`arrowwood::follow`].
pub fn follow(dataset: &Dataset, start: Option<u64>) -> arrowwood::Result<StreamingTable> {
    // A table that can't be followed is an error now, not in a query.
    arrowwood::follow(dataset, start, None)?;
    let schema = Arc::new(Schema::new(dataset.schema().fields().clone()));
    let rows = Arc::new(FollowStream { dataset: dataset.clone(), start, schema: schema.clone() });
    let order = dataset.sorted_by().filter(|field| is_ordered_alike(field.data_type()));
    let order = order.map(|field| col(datafusion::common::Column::from_name(field.name())).sort(true, false));
    let table = StreamingTable::try_new(schema, vec![rows]).map_err(|e| {
        let message = format!("making a stream for DataFusion: {e}");
        arrowwood::Error::new(arrowwood::ErrorKind::InvalidArgument, message)
    })?;
    Ok(table.with_infinite_table(true).with_sort_order(order.into_iter().collect()))
}

/// The rows of a table that are followed.
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
        let size = context.session_config().batch_size().max(1);
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema.clone(), 2);
        let sender = stream.tx();
        let schema = self.schema.clone();
        let begun = arrowwood::follow(&self.dataset, self.start, None);
        stream.spawn_blocking(move || {
            let mut rows = begun.map_err(external)?;
            while !sender.is_closed() {
                for batch in batches(&mut rows, &schema, size)? {
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

/// The next rows; none where there were none for a while.
fn batches(follow: &mut TableFollower, schema: &SchemaRef, size: usize) -> Result<Vec<RecordBatch>> {
    let Some(rows) = follow.poll(PATIENCE).map_err(external)? else { return Ok(Vec::new()) };
    let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
    let rows = rows.select(&names).map_err(external)?;
    let mut slices = Vec::new();
    for batch in rows.to_record_batches() {
        let batch = adopted(batch.map_err(external)?, schema).map_err(external)?;
        let starts = (0..batch.num_rows()).step_by(size);
        slices.extend(starts.map(|start| batch.slice(start, size.min(batch.num_rows() - start))));
    }
    Ok(slices)
}
