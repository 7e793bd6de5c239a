//! Commits the batches of many producers together: each table that is written has a writer, and a thread that commits
//! the waiting batches.
//!
//! Batches that arrive during a commit or a sync wait, and go into the next one together. A request whose batches wait
//! for no others commits them itself. Only an invalid batch is refused.
//!
//! # The life of a table's thread
//!
//! The table's [`Queue`] has the channel to its thread and the [`Committer`], which has the writer.
//! [`TableWriter::append`] sends a request through the channel under the lock of `state`, and starts a thread if there
//! is no channel, or if its thread has panicked. The thread takes all requests that wait, commits them with the
//! committer locked, and answers them. When no request came for a while, it removes the channel under the lock of
//! `state`, after it has looked for a last request under the same lock: so every request is either sent before, and
//! taken, or finds no channel, and starts the next thread. The next thread first waits for the end of the previous one,
//! which closes the writer, as only one writer can have a table open.
//!
//! A thread of the server may commit a small request itself ([`TableWriter::append_here`]). It needs the committer's
//! lock, so it never writes at the same time as the table's thread.
//!
//! # Locks
//!
//! In this order: [`WriterPool::inline_commit`], the committer, `state`. Only `inline_commit` and the committer are
//! held while the disk is waited for; threads of the server only try to lock them, and `state` is held for moments. So
//! are the locks of `Producers` and of the table's progress, which the committing thread takes, too.
//! `waiting` and `open` are counts that are changed with relaxed ordering, as no other data is published by them:
//! `waiting` is a hint that others wait, and `open` limits the number of slots by itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use arrowwood::mapping::MutexExt;
use arrowwood::{Error, ErrorKind, Writer, WriterOptions};
use hyper::StatusCode;

use super::append_batches::{PendingAck, append_all};
use super::producers::PendingProducers;
use super::queue::{Ack, AppendRequest, Committer, Queue, QueueState, WriterSlot};
use crate::catalog::Table;
use crate::http::{Problem, Result, ResultExt};
use crate::ops::{Metrics, Readiness, log};

/// The maximum number of requests whose batches are in one commit.
const MAX_GROUP: usize = 4_096;
/// The interval at which the thread checks for durable rows, and for being idle.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum time of a commit, with its sync, for which a thread of the server may be blocked.
const MAX_INLINE_COMMIT: Duration = Duration::from_millis(1);

/// What the threads of all tables share: the limit on their number, and the server's disk and counters.
pub(crate) struct WriterPool {
    pub metrics: Arc<Metrics>,
    /// The time after which an idle table is closed.
    pub idle_timeout: Duration,
    /// The maximum number of tables that are open at once.
    pub max_open: usize,
    /// The number of slots taken: of tables that are open, or about to be.
    pub open: Arc<AtomicUsize>,
    /// Locked by the thread of the server that commits rows itself: at most one is blocked by the disk.
    pub inline_commit: Arc<Mutex<()>>,
    /// How tables are opened: their disk.
    pub options: WriterOptions,
    pub readiness: Arc<Readiness>,
}

impl WriterPool {
    /// Takes a slot for another table.
    ///
    /// # Errors
    /// 503 if all slots are taken.
    fn take_slot(&self) -> Result<Arc<WriterSlot>> {
        if let Some(slot) = WriterSlot::take(&self.open, self.max_open) {
            return Ok(Arc::new(slot));
        }
        let detail = format!(
            "{} tables are being written, as many as the server may have open, and nothing was appended; send it \
             again, write to fewer tables at once, or let the server open more files (LimitNOFILE)",
            self.max_open
        );
        Err(Problem::unavailable(detail))
    }

    /// Returns the time after which an idle table is closed: less if more than half of the slots are taken.
    fn current_idle_timeout(&self) -> Duration {
        let is_crowded = self.open.load(Ordering::Relaxed) > self.max_open / 2;
        if is_crowded { self.idle_timeout.min(CHECK_INTERVAL) } else { self.idle_timeout }
    }
}

/// A table that is written, with its queue, and what the threads of all tables share.
#[derive(Clone)]
pub(crate) struct TableWriter {
    pub table: Arc<Table>,
    pub queue: Arc<Queue>,
    pub pool: Arc<WriterPool>,
}

impl TableWriter {
    /// Commits few rows on this thread and answers them, if no others wait or are being committed: waking another
    /// thread, and being woken by it, takes as long as a quick sync. Otherwise passes them to the table's thread.
    ///
    /// Blocks at most one thread of the server, for a commit that is expected to take less than [`MAX_INLINE_COMMIT`].
    pub fn append_here(&self, request: AppendRequest) -> Result<()> {
        // While others wait, the table's thread is waiting for the lock, and would be overtaken again and again.
        let is_alone = self.queue.waiting.load(Ordering::Relaxed) == 0;
        if is_alone
            && let Ok(_inline_commit) = self.pool.inline_commit.try_lock()
            && let Ok(mut committer) = self.queue.committer.try_lock()
            && committer.is_quick()
        {
            committer.commit(self, vec![request]);
            return Ok(());
        }
        self.append(request)
    }

    /// Returns the table's slot, also while the table is being closed; takes one if it has none.
    ///
    /// Rows for several tables need a slot for each before any of them is appended to.
    ///
    /// # Errors
    /// 503 if all slots are taken.
    pub fn reserve_slot(&self) -> Result<Arc<WriterSlot>> {
        table_slot(&self.queue.state.lock_ignoring_poison(), &self.pool)
    }

    /// Passes batches to the table's thread, starting it if necessary.
    pub fn append(&self, request: AppendRequest) -> Result<()> {
        self.append_in(None, request)
    }

    /// Passes batches to the table's thread, starting it in the [reserved](TableWriter::reserve_slot) slot if
    /// necessary.
    pub fn append_in(&self, slot: Option<Arc<WriterSlot>>, request: AppendRequest) -> Result<()> {
        let mut state = self.queue.state.lock_ignoring_poison();
        if state.is_closed {
            return Err(Problem::unavailable("the server is stopping"));
        }

        let mut request = request;
        if let Some(sender) = &state.sender {
            self.queue.waiting.fetch_add(1, Ordering::Relaxed);
            match sender.send(request) {
                Ok(()) => return Ok(()),
                // The thread has panicked: another one takes its place.
                Err(unsent) => request = unsent.0,
            }
        }

        let slot = match slot {
            Some(slot) => slot,
            None => table_slot(&state, &self.pool)?,
        };
        state.slot = Arc::downgrade(&slot);
        let (sender, requests) = channel();
        let previous = state.thread.take();
        let writer_thread = WriterThread { writer: self.clone(), requests, previous, slot };
        let thread = thread::Builder::new()
            .name("arrowwood-write".into())
            .spawn(move || writer_thread.run())
            .map_err(|e| Error::io("starting a thread", &e))
            .or_table_problem()?;
        state.thread = Some(thread);

        // Requests that were sent to a thread which has stopped are lost, so only this one waits.
        self.queue.waiting.store(1, Ordering::Relaxed);
        let sent = sender.send(request).map_err(|_| Problem::internal("the table's writer has stopped"));
        state.sender = Some(sender);
        sent
    }

    /// Returns the schema, while the table is open for writing.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.queue.state.lock_ignoring_poison().schema.clone()
    }

    fn committer(&self) -> MutexGuard<'_, Committer> {
        // A commit takes the writer out, so a commit that panicked has left none behind.
        self.queue.committer.lock_ignoring_poison()
    }
}

/// Returns the slot of a table, or takes one for it.
fn table_slot(state: &QueueState, pool: &WriterPool) -> Result<Arc<WriterSlot>> {
    match state.slot.upgrade() {
        Some(slot) => Ok(slot),
        None => pool.take_slot(),
    }
}

/// The thread of a table.
struct WriterThread {
    writer: TableWriter,
    requests: Receiver<AppendRequest>,
    /// The previous thread, which may still be closing the table.
    previous: Option<thread::JoinHandle<()>>,
    slot: Arc<WriterSlot>,
}

impl WriterThread {
    fn run(mut self) {
        if let Some(previous) = self.previous.take() {
            // The table's lock is free now, even if that thread has panicked.
            let _ = previous.join();
        }
        loop {
            let first = match self.requests.recv_timeout(CHECK_INTERVAL) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) if self.is_idle() => match self.first_or_end() {
                    Some(first) => Some(first),
                    None => break,
                },
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut committer = self.writer.committer();
            match first {
                Some(first) => {
                    let mut group = vec![first];
                    group.extend(self.requests.try_iter().take(MAX_GROUP - 1));
                    self.writer.queue.waiting.fetch_sub(group.len(), Ordering::Relaxed);
                    committer.commit(&self.writer, group);
                }
                None => committer.note_durable(&self.writer.table),
            }
        }
        self.writer.committer().close(&self.writer);
        // Under the lock: rows that come meanwhile find this slot, or a free one.
        let state = self.writer.queue.state.lock_ignoring_poison();
        drop(self.slot);
        drop(state);
    }

    fn is_idle(&self) -> bool {
        let last_commit = self.writer.committer().last_commit;
        last_commit.is_none_or(|time| time.elapsed() >= self.writer.pool.current_idle_timeout())
    }

    /// Returns the first waiting request. If there is none, further ones are not sent to this thread.
    fn first_or_end(&self) -> Option<AppendRequest> {
        // Requests are sent under the lock, so none is sent between the check and the end.
        let mut state = self.writer.queue.state.lock_ignoring_poison();
        let first = self.requests.try_recv().ok();
        if first.is_none() {
            state.sender = None;
        }
        first
    }
}

impl Committer {
    /// Commits the batches of a group of requests, syncs them if necessary, and answers each request.
    fn commit(&mut self, target: &TableWriter, group: Vec<AppendRequest>) {
        let start = Instant::now();
        self.commit_all(target, group);
        self.last_commit = Some(Instant::now());
        self.commit_duration = start.elapsed();
        self.note_schema(&target.queue);
    }

    fn is_quick(&self) -> bool {
        self.writer.is_some() && self.commit_duration < MAX_INLINE_COMMIT
    }

    fn note_schema(&self, queue: &Queue) {
        let schema = self.writer.as_ref().map(|writer| writer.schema().clone());
        queue.state.lock_ignoring_poison().schema = schema;
    }

    fn note_durable(&self, table: &Table) {
        if let Some(writer) = &self.writer {
            table.on_durable(writer.durable_rows());
        }
    }

    fn close(&mut self, target: &TableWriter) {
        if let Some(writer) = self.writer.take() {
            let end = writer.rows();
            match writer.close() {
                Ok(()) => target.table.on_durable(end),
                Err(e) => {
                    target.pool.readiness.on_failure(&e);
                    log::message(format_args!("closing a table: {e}"));
                }
            }
            self.note_schema(&target.queue);
        }
    }

    fn commit_all(&mut self, target: &TableWriter, group: Vec<AppendRequest>) {
        let TableWriter { table, queue, pool } = target;
        let mut writer = match self.open(target) {
            Ok(writer) => writer,
            Err(e) => {
                pool.readiness.on_failure(&e);
                group.into_iter().for_each(|request| request.refuse(not_appended(table, &e)));
                return;
            }
        };

        let mut producers = PendingProducers::new(&queue.producers, writer.positions().len());
        let mut pending = append_all(&mut writer, &mut producers, group, &pool.readiness);

        let positions = producers.positions();
        let positions: Vec<(&str, i64)> = positions.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        if let Err(e) = writer.commit_with(&positions) {
            writer.rollback();
            pool.readiness.on_failure(&e);
            // The writer is dropped: the next request reopens the table, or is refused with the error.
            pending.into_iter().for_each(|ack| ack.request.refuse(not_appended(table, &e)));
            return;
        }
        self.has_unsynced_positions |= !positions.is_empty();
        producers.on_committed();

        let mut batches = 0;
        let mut rows = 0;
        for ack in &pending {
            let committed = writer.committed_rows();
            assert!(ack.appended_end() <= Some(committed), "{:?} of {committed} rows", ack.appended_end());
            batches += ack.receipts.len();
            rows +=
                ack.receipts.iter().filter(|receipt| !receipt.is_duplicate).map(|receipt| receipt.rows).sum::<u64>();
        }
        pool.metrics.committed(batches, rows);

        for ack in pending.extract_if(.., |ack| ack.request.ack == Ack::Visible) {
            ack.acknowledge(&writer);
        }
        match self.sync(pool, &mut writer, &pending) {
            Ok(()) => {
                for ack in pending {
                    let durable = writer.durable_rows();
                    assert!(ack.appended_end() <= Some(durable), "{:?} of {durable} rows", ack.appended_end());
                    ack.acknowledge(&writer);
                }
                table.on_durable(writer.durable_rows());
                self.writer = Some(writer);
            }
            Err(e) => {
                pool.readiness.on_failure(&e);
                for ack in pending {
                    let detail =
                        "the rows can be seen, and may not survive a power cut; send them again as they were numbered";
                    let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "not_durable", detail);
                    ack.request.refuse(problem.with_error(&e));
                }
            }
        }
    }

    /// Takes the writer, or opens one.
    fn open(&mut self, target: &TableWriter) -> arrowwood::Result<Writer> {
        let TableWriter { table, queue, pool } = target;
        let open = self.writer.take();
        if !table.is_same()? {
            let message = "the table was removed or replaced while rows were received";
            return Err(Error::new(ErrorKind::FileChanged, message).at(&table.path));
        }
        if let Some(mut writer) = open {
            // After a failed background sync this writer refuses to write; a new one is opened, or says why it can't
            // be.
            match writer.commit() {
                Ok(_) => return Ok(writer),
                Err(e) => pool.readiness.on_failure(&e),
            }
        }
        // Never creates a table: it may have been removed.
        let writer = Writer::open(&table.path, None, &pool.options)?;
        queue.producers.load(&writer.positions());
        self.has_unsynced_positions = true;
        Ok(writer)
    }

    /// Syncs rows that clients wait for.
    fn sync(&mut self, pool: &WriterPool, writer: &mut Writer, waiting: &[PendingAck]) -> arrowwood::Result<()> {
        let Some(end) = waiting.iter().map(|ack| ack.end).max() else { return Ok(()) };
        if writer.durable_rows() >= end && !self.has_unsynced_positions {
            return Ok(());
        }
        let start = Instant::now();
        let synced = writer.sync();
        pool.metrics.synced(start.elapsed());
        self.has_unsynced_positions &= synced.is_err();
        synced
    }
}

/// Returns the problem for an error before any rows were committed.
fn not_appended(table: &Table, e: &Error) -> Problem {
    if e.kind() == ErrorKind::FileChanged && table.is_same().is_ok_and(|is_same| !is_same) {
        let detail =
            "the table was removed or replaced since the request began, and nothing was appended; make another request";
        return Problem::conflict("file_changed", detail).with_error(e);
    }
    Problem::from_table_error(e)
}
