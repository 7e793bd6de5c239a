//! Holds the batches that wait for a table's writer in a [`Queue`], and the writer itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use arrowwood::mapping::MutexExt;
use arrowwood::{Dataset, Writer};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::producers::{BatchId, Producers};
use crate::http::Problem;

/// When a batch is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    /// The batch would survive a power cut.
    Durable,
    /// Readers see the batch.
    Visible,
}

/// Batches of one request, which are appended in order: of each batch all rows or none, and none after a refused batch.
pub(crate) struct AppendRequest {
    pub rows: Dataset,
    /// The end of each batch: the row after its last one in `rows`.
    pub ends: Vec<u64>,
    pub ack: Ack,
    /// The number of the first batch; the others have the following ones.
    pub numbered: Option<BatchId>,
    /// The share of memory for uncommitted rows, released with the last batches that have it.
    pub share: Arc<OwnedSemaphorePermit>,
    /// Set by the writer once it has refused a batch of this request: later batches of it are refused, too.
    pub is_over: Arc<AtomicBool>,
    pub reply: oneshot::Sender<AppendResults>,
}

/// The results of batches in their order, up to the first refused one.
pub(crate) struct AppendResults {
    pub receipts: Vec<Receipt>,
    /// The reason why the batches after these were not appended.
    pub refusal: Option<Problem>,
}

impl From<Problem> for AppendResults {
    fn from(refusal: Problem) -> AppendResults {
        AppendResults { receipts: Vec::new(), refusal: Some(refusal) }
    }
}

/// The result of a batch for its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The number of the first row. It may be unknown for a duplicate.
    pub first_row: Option<u64>,
    pub rows: u64,
    /// The row after the last visible one.
    pub committed: u64,
    /// The row after the last durable one.
    pub durable: u64,
    pub is_duplicate: bool,
}

/// The batches waiting for a table's writer, the writer, and the producers of the batches. See
/// [`group_commit`](super::group_commit) for the protocol.
#[derive(Default)]
pub(crate) struct Queue {
    pub state: Mutex<QueueState>,
    /// The number of requests that were sent and not taken by the table's thread yet. Increased under the lock of
    /// `state`, before the request is sent.
    pub waiting: AtomicUsize,
    /// Locked by the thread that commits. A thread that has it waits for no lock that is held for long.
    pub committer: Mutex<Committer>,
    pub producers: Producers,
}

impl Queue {
    /// Returns true if a thread may have the table open for writing.
    pub fn has_thread(&self) -> bool {
        self.state.lock_ignoring_poison().thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Refuses further batches, and waits until accepted ones are committed and on the disk. Blocks.
    pub fn close(&self) {
        let thread = {
            let mut state = self.state.lock_ignoring_poison();
            state.is_closed = true;
            state.sender = None;
            state.thread.take()
        };
        if let Some(thread) = thread {
            // If it has panicked, its last batches were not acknowledged: their producers send them again.
            let _ = thread.join();
        }
    }
}

/// The thread that takes the batches, and its channel.
#[derive(Default)]
pub(crate) struct QueueState {
    /// The channel to the thread; `None` before the first request, and once the thread takes no more requests.
    pub sender: Option<Sender<AppendRequest>>,
    /// The last thread that was started, which may have ended.
    pub thread: Option<thread::JoinHandle<()>>,
    /// The slot of the thread, until the thread has closed the table.
    pub slot: Weak<WriterSlot>,
    /// The table's schema while its writer is open: no other process changes it then.
    pub schema: Option<SchemaRef>,
    /// Set once the server stops: no further batches are accepted.
    pub is_closed: bool,
}

/// The right of a table to be open for writing. A table has one, from before its writer is opened until it is closed.
pub(crate) struct WriterSlot {
    /// The number of slots taken.
    open: Arc<AtomicUsize>,
}

impl WriterSlot {
    /// Takes one of `max` slots; `None` if all are taken.
    pub fn take(open: &Arc<AtomicUsize>, max: usize) -> Option<WriterSlot> {
        let previous = open.fetch_add(1, Ordering::Relaxed);
        // If it is one too many, it is returned when it is dropped.
        let slot = WriterSlot { open: open.clone() };
        (previous < max).then_some(slot)
    }
}

impl Drop for WriterSlot {
    fn drop(&mut self) {
        let open = self.open.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(open > 0, "more slots were returned than taken");
    }
}

/// The writer of a table, and the state of its commits.
#[derive(Default)]
pub(crate) struct Committer {
    /// The writer, which is open while there are batches, and for a while afterwards.
    pub writer: Option<Writer>,
    /// Set if positions of producers may not be on the disk yet. A commit without rows does not change `durable_rows`.
    pub has_unsynced_positions: bool,
    /// The time of the last commit.
    pub last_commit: Option<Instant>,
    /// The duration of the last commit.
    pub commit_duration: Duration,
}
