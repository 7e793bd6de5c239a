//! [`AnswerStream`]: the rows of an answer on their way from the task or process of its query.

use std::any::Any;

use arrowwood::Dataset;
use arrowwood_serve::{SqlError, SqlFuture, SqlRows};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tokio::sync::{mpsc, oneshot};

use crate::engine::errors::unfinished_error;

/// The maximum number of batches that wait for their receiver.
pub(crate) const MAX_QUEUED_BATCHES: usize = 2;

/// Receives the batches of an answer, and `None` at its end.
pub(super) type BatchReceiver = mpsc::Receiver<Result<Option<RecordBatch>, SqlError>>;

/// Sends the columns of an answer, or `None` for a statement out of scope, followed by its batches.
pub(super) struct AnswerSender {
    pub schema: oneshot::Sender<Result<Option<SchemaRef>, SqlError>>,
    pub batches: mpsc::Sender<Result<Option<RecordBatch>, SqlError>>,
}

/// The rows of an answer, as they arrive.
pub(crate) struct AnswerStream {
    schema: SchemaRef,
    batches: BatchReceiver,
    is_finished: bool,
    /// Ends the query when it is dropped.
    _guard: Box<dyn Any + Send>,
}

impl AnswerStream {
    pub fn new(schema: SchemaRef, batches: BatchReceiver, guard: Box<dyn Any + Send>) -> AnswerStream {
        AnswerStream { schema, batches, is_finished: false, _guard: guard }
    }

    async fn next_batch(&mut self) -> Result<Option<Dataset>, SqlError> {
        if self.is_finished {
            return Ok(None);
        }
        let Some(batch) = self.batches.recv().await.ok_or_else(unfinished_error)?? else {
            self.is_finished = true;
            return Ok(None);
        };
        Ok(Some(Dataset::from_batches(self.schema.clone(), vec![batch])?))
    }
}

impl SqlRows for AnswerStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> SqlFuture<'_, Option<Dataset>> {
        Box::pin(self.next_batch())
    }
}
