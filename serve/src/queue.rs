//! [`Queue`]: the batches that wait for a table's writer.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread;

use arrow_schema::SchemaRef;
use arrowwood::Dataset;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::producers::Numbered;
use crate::refusal::Result;

/// When a batch is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    /// When it survives a power cut.
    Durable,
    /// When readers see it.
    Visible,
}

/// Rows to be appended, all or none.
pub(crate) struct Batch {
    pub rows: Dataset,
    pub ack: Ack,
    pub numbered: Option<Numbered>,
    /// Its share of the memory for rows that are not committed, given back with the last batch that has it.
    pub _share: Arc<OwnedSemaphorePermit>,
    pub reply: oneshot::Sender<Result<Receipt>>,
}

/// What a producer learns of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Of a duplicate: where it is known.
    pub first_row: Option<u64>,
    pub rows: u64,
    /// The row behind the last one that readers see.
    pub committed: u64,
    /// The row behind the last one that survives a power cut.
    pub durable: u64,
    pub is_duplicate: bool,
}

/// The batches that wait for a table's writer.
#[derive(Default)]
pub(crate) struct Queue {
    pub state: Mutex<State>,
}

/// The thread that takes the batches, and how to send it some.
#[derive(Default)]
pub(crate) struct State {
    pub sender: Option<Sender<Batch>>,
    pub thread: Option<thread::JoinHandle<()>>,
    /// What the table has while the thread has it open: nobody else changes it then.
    pub schema: Option<SchemaRef>,
    pub is_closed: bool,
}
