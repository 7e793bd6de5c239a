//! [`Queue`]: the batches waiting for a table's writer.

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
    /// Once it would survive a power cut.
    Durable,
    /// Once readers see it.
    Visible,
}

/// Rows to append, all or none.
pub(crate) struct Batch {
    pub rows: Dataset,
    pub ack: Ack,
    pub numbered: Option<Numbered>,
    /// Its share of the memory for uncommitted rows, released with the last batch that has it.
    pub _share: Arc<OwnedSemaphorePermit>,
    pub reply: oneshot::Sender<Result<Receipt>>,
}

/// The result of a batch for its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// For a duplicate: if known.
    pub first_row: Option<u64>,
    pub rows: u64,
    /// The row after the last visible one.
    pub committed: u64,
    /// The row after the last durable one.
    pub durable: u64,
    pub is_duplicate: bool,
}

/// The batches waiting for a table's writer.
#[derive(Default)]
pub(crate) struct Queue {
    pub state: Mutex<State>,
}

/// The thread that takes the batches, and its channel.
#[derive(Default)]
pub(crate) struct State {
    pub sender: Option<Sender<Batch>>,
    pub thread: Option<thread::JoinHandle<()>>,
    /// The table's schema while the thread has it open: no other process changes it then.
    pub schema: Option<SchemaRef>,
    pub is_closed: bool,
}
