//! Commits the batches of many producers together: each table that is written has a writer, and a thread that commits
//! the waiting batches.
//!
//! Batches that arrive during a commit or a sync wait, and go into the next one together. A request whose batches wait for
//! no others commits them itself. Only an invalid batch is refused.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use arrowwood::mapping::MutexExt;
use arrowwood::simulate::FileSystem;
use arrowwood::{Error, ErrorKind, REPLICA, Writer, WriterOptions};
use hyper::StatusCode;

use crate::log;
use crate::metrics::Metrics;
use crate::problem::{Problem, Result, ResultExt};
use crate::producers::{BatchId, PendingProducers, ProducerState, RowSpan, Verdict, judge};
use crate::queue::{Ack, AppendRequest, AppendResults, Committer, QueueState, Receipt, WriterSlot};
use crate::readiness::Readiness;
use crate::table::Table;

/// The maximum number of requests whose batches are in one commit.
const MAX_GROUP: usize = 4_096;
/// The interval at which the thread checks for durable rows, and for being idle.
const TICK: Duration = Duration::from_millis(100);
/// The maximum time of a commit, with its sync, for which a thread of the server may be blocked.
const MAX_INLINE_COMMIT: Duration = Duration::from_millis(1);

/// The state that the threads of all tables share.
#[derive(Clone)]
pub(crate) struct WriterPool {
    pub metrics: Arc<Metrics>,
    /// The time after which an idle table is closed.
    pub idle: Duration,
    /// The maximum number of tables that are open at once.
    pub most: usize,
    /// The number of slots taken: of tables that are open, or about to be.
    pub open: Arc<AtomicUsize>,
    /// Locked by the thread of the server that commits rows itself.
    pub here: Arc<Mutex<()>>,
    /// The disk of the tables.
    pub medium: FileSystem,
    pub readiness: Arc<Readiness>,
}

impl WriterPool {
    /// Takes a slot for another table.
    ///
    /// # Errors
    /// 503 if all slots are taken.
    fn take_slot(&self) -> Result<Arc<WriterSlot>> {
        if let Some(slot) = WriterSlot::take(&self.open, self.most) {
            return Ok(Arc::new(slot));
        }
        let detail = format!(
            "{} tables are being written, as many as the server may have open, and nothing was appended; send it again, write \
             to fewer tables at once, or let the server open more files (LimitNOFILE)",
            self.most
        );
        Err(Problem::unavailable(detail))
    }

    /// Returns the time after which an idle table is closed: less if more than half of the slots are taken.
    fn idle_timeout(&self) -> Duration {
        let is_crowded = self.open.load(Ordering::Relaxed) > self.most / 2;
        if is_crowded { self.idle.min(TICK) } else { self.idle }
    }
}

impl Table {
    /// Commits few rows on this thread and answers them, if no others wait or are being committed: waking another thread,
    /// and being woken by it, takes as long as a quick sync. Otherwise passes them to the table's thread.
    ///
    /// Blocks at most one thread of the server, for a commit that is expected to take less than [`MAX_INLINE_COMMIT`].
    pub fn append_here(self: &Arc<Self>, request: AppendRequest, writing: &WriterPool) -> Result<()> {
        // A thread that only tries to lock would overtake the table's thread, which waits for the lock, again and again.
        let is_alone = self.queue.waiting.load(Ordering::Relaxed) == 0;
        if is_alone
            && let Ok(_here) = writing.here.try_lock()
            && let Ok(mut committer) = self.queue.committer.try_lock()
            && committer.is_quick()
        {
            committer.commit(self, writing, vec![request]);
            return Ok(());
        }
        self.append(request, writing)
    }

    /// Returns the table's slot, also while the table is being closed; takes one if it has none.
    ///
    /// Rows for several tables need a slot for each before any of them is appended to.
    ///
    /// # Errors
    /// 503 if all slots are taken.
    pub fn reserve_slot(&self, writing: &WriterPool) -> Result<Arc<WriterSlot>> {
        table_slot(&self.queue.state.lock_ignoring_poison(), writing)
    }

    /// Passes batches to the table's thread, starting it if necessary.
    pub fn append(self: &Arc<Self>, request: AppendRequest, writing: &WriterPool) -> Result<()> {
        self.append_in(None, request, writing)
    }

    /// Passes batches to the table's thread, starting it in the [reserved](Table::reserve_slot) slot if necessary.
    pub fn append_in(
        self: &Arc<Self>,
        slot: Option<Arc<WriterSlot>>,
        request: AppendRequest,
        writing: &WriterPool,
    ) -> Result<()> {
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
            None => table_slot(&state, writing)?,
        };
        state.slot = Arc::downgrade(&slot);
        let (sender, requests) = channel();
        let previous = state.thread.take();
        let (table, writing) = (self.clone(), writing.clone());
        let writer_thread = WriterThread { table, writing, requests, previous, slot };
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
    pub fn schema_written(&self) -> Option<SchemaRef> {
        self.queue.state.lock_ignoring_poison().schema.clone()
    }

    /// Refuses further batches, and waits until accepted ones are committed and on the disk. Blocks.
    pub fn close(&self) {
        let thread = {
            let mut state = self.queue.state.lock_ignoring_poison();
            state.is_closed = true;
            state.sender = None;
            state.thread.take()
        };
        if let Some(thread) = thread {
            // If it has panicked, its last batches were not acknowledged: their producers send them again.
            let _ = thread.join();
        }
    }

    fn committer(&self) -> MutexGuard<'_, Committer> {
        // A commit takes the writer out, so a commit that panicked has left none behind.
        self.queue.committer.lock_ignoring_poison()
    }
}

/// Returns the slot of a table, or takes one for it.
fn table_slot(state: &QueueState, writing: &WriterPool) -> Result<Arc<WriterSlot>> {
    match state.slot.upgrade() {
        Some(slot) => Ok(slot),
        None => writing.take_slot(),
    }
}

/// The thread of a table.
struct WriterThread {
    table: Arc<Table>,
    writing: WriterPool,
    requests: Receiver<AppendRequest>,
    /// The previous thread, which may still be closing the table.
    previous: Option<thread::JoinHandle<()>>,
    slot: Arc<WriterSlot>,
}

/// Appended batches to be acknowledged.
struct PendingAck {
    request: AppendRequest,
    /// The receipts of the first batches of the request.
    receipts: Vec<Receipt>,
    /// The reason why the other batches were not appended.
    refusal: Option<Problem>,
    /// The row after the last one that must be durable.
    end: u64,
}

impl WriterThread {
    fn run(mut self) {
        if let Some(previous) = self.previous.take() {
            // The table's lock is free now, even if that thread has panicked.
            let _ = previous.join();
        }
        loop {
            let first = match self.requests.recv_timeout(TICK) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) if self.is_idle() => match self.first_or_end() {
                    Some(first) => Some(first),
                    None => break,
                },
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut committer = self.table.committer();
            match first {
                Some(first) => {
                    let mut group = vec![first];
                    group.extend(self.requests.try_iter().take(MAX_GROUP - 1));
                    self.table.queue.waiting.fetch_sub(group.len(), Ordering::Relaxed);
                    committer.commit(&self.table, &self.writing, group);
                }
                None => committer.note_durable(&self.table),
            }
        }
        self.table.committer().close(&self.table, &self.writing);
        // Under the lock: rows that come meanwhile find this slot, or a free one.
        let state = self.table.queue.state.lock_ignoring_poison();
        drop(self.slot);
        drop(state);
    }

    fn is_idle(&self) -> bool {
        self.table.committer().used.is_none_or(|used| used.elapsed() >= self.writing.idle_timeout())
    }

    /// Returns the first waiting request. If there is none, further ones are not sent to this thread.
    fn first_or_end(&self) -> Option<AppendRequest> {
        // Requests are sent under the lock, so none is sent between the check and the end.
        let mut state = self.table.queue.state.lock_ignoring_poison();
        let first = self.requests.try_recv().ok();
        if first.is_none() {
            state.sender = None;
        }
        first
    }
}

impl Committer {
    /// Commits the batches of a group of requests, syncs them if necessary, and answers each request.
    fn commit(&mut self, table: &Table, writing: &WriterPool, group: Vec<AppendRequest>) {
        let start = Instant::now();
        self.commit_all(table, writing, group);
        self.used = Some(Instant::now());
        self.took = start.elapsed();
        self.note_schema(table);
    }

    fn is_quick(&self) -> bool {
        self.writer.is_some() && self.took < MAX_INLINE_COMMIT
    }

    fn note_schema(&self, table: &Table) {
        let schema = self.writer.as_ref().map(|writer| writer.schema().clone());
        table.queue.state.lock_ignoring_poison().schema = schema;
    }

    fn note_durable(&self, table: &Table) {
        if let Some(writer) = &self.writer {
            table.on_durable(writer.durable_rows());
        }
    }

    fn close(&mut self, table: &Table, writing: &WriterPool) {
        if let Some(writer) = self.writer.take() {
            let end = writer.rows();
            match writer.close() {
                Ok(()) => table.on_durable(end),
                Err(e) => {
                    writing.readiness.on_failure(&e);
                    log::message(format_args!("closing a table: {e}"));
                }
            }
            self.note_schema(table);
        }
    }

    fn commit_all(&mut self, table: &Table, writing: &WriterPool, group: Vec<AppendRequest>) {
        let mut writer = match self.open(table, writing) {
            Ok(writer) => writer,
            Err(e) => {
                writing.readiness.on_failure(&e);
                group.into_iter().for_each(|request| request.refuse(not_appended(table, &e)));
                return;
            }
        };
        let mut producers = PendingProducers::new(&table.producers, writer.positions().len());
        let mut pending = append_all(&mut writer, &mut producers, group, &writing.readiness);
        let positions = producers.positions();
        let positions: Vec<(&str, i64)> = positions.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        if let Err(e) = writer.commit_with(&positions) {
            writer.rollback();
            writing.readiness.on_failure(&e);
            // The writer is dropped: the next batch reopens the table, and gets the error.
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
        writing.metrics.committed(batches, rows);
        for ack in pending.extract_if(.., |ack| ack.request.ack == Ack::Visible) {
            ack.acknowledge(&writer);
        }
        match self.sync(writing, &mut writer, &pending) {
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
                writing.readiness.on_failure(&e);
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
    fn open(&mut self, table: &Table, writing: &WriterPool) -> arrowwood::Result<Writer> {
        let open = self.writer.take();
        if !table.is_same()? {
            let message = "the table was removed or replaced while rows were received";
            return Err(Error::new(ErrorKind::FileChanged, message).at(&table.path));
        }
        if let Some(mut writer) = open {
            // After a failed background sync this writer refuses to write; a new one is opened, or says why it can't be.
            match writer.commit() {
                Ok(_) => return Ok(writer),
                Err(e) => writing.readiness.on_failure(&e),
            }
        }
        let options = WriterOptions { medium: writing.medium.clone(), ..WriterOptions::default() };
        // Never creates a table: it may have been removed.
        let writer = Writer::open(&table.path, None, &options)?;
        table.producers.load(&writer.positions());
        self.has_unsynced_positions = true;
        Ok(writer)
    }

    /// Syncs rows that clients wait for.
    fn sync(&mut self, writing: &WriterPool, writer: &mut Writer, waiting: &[PendingAck]) -> arrowwood::Result<()> {
        let Some(end) = waiting.iter().map(|ack| ack.end).max() else { return Ok(()) };
        if writer.durable_rows() >= end && !self.has_unsynced_positions {
            return Ok(());
        }
        let start = Instant::now();
        let synced = writer.sync();
        writing.metrics.synced(start.elapsed());
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

/// Appends the valid batches, and refuses the others.
fn append_all(
    writer: &mut Writer,
    producers: &mut PendingProducers<'_>,
    group: Vec<AppendRequest>,
    readiness: &Readiness,
) -> Vec<PendingAck> {
    let mut pending = Vec::with_capacity(group.len());
    for request in group {
        let receipts = Vec::with_capacity(request.ends.len());
        let mut ack = PendingAck { receipts, request, refusal: None, end: 0 };
        ack.refusal = ack.append(writer, producers).err();
        if let Some(e) = ack.refusal.as_ref().and_then(Problem::error) {
            readiness.on_failure(e);
        }
        match ack.refusal {
            Some(refusal) if ack.receipts.is_empty() => ack.request.refuse(refusal),
            Some(_) => {
                ack.request.is_over.store(true, Ordering::Relaxed);
                pending.push(ack);
            }
            None => {
                let (receipts, batches) = (ack.receipts.len(), ack.request.ends.len());
                assert!(receipts == batches, "{receipts} receipts for {batches} batches");
                pending.push(ack);
            }
        }
    }
    pending
}

/// Returns how many of `count` batches, the first of which is `first`, are in the table already, and their producer's
/// position; `None` if none is.
fn duplicates(
    producers: &mut PendingProducers<'_>,
    first: &BatchId,
    count: usize,
) -> Result<Option<(usize, ProducerState)>> {
    let verdict = judge(producers.get(&first.producer), first);
    // A repeat by a producer that has replaced another one is recorded, too.
    if matches!(verdict, Verdict::Next | Verdict::Duplicate(_)) && !producers.has_room(first) {
        let detail = "the table keeps the positions of 256 producers and has no room for another one; \
                      use a name again, or a table for each group of producers";
        return Err(Problem::conflict("too_many_producers", detail));
    }
    match verdict {
        Verdict::Next => Ok(None),
        Verdict::Duplicate(position) => {
            producers.fence(first);
            assert!(first.sequence <= position.sequence, "batch {} is no duplicate", first.sequence);
            let duplicates = usize::try_from(position.sequence - first.sequence).map_or(count, |more| more + 1);
            Ok(Some((duplicates.min(count), position)))
        }
        Verdict::Old { epoch } => {
            let detail = format!("the producer was replaced: its epoch is {epoch} now");
            Err(Problem::conflict("old_epoch", detail).with_member("epoch", epoch))
        }
        Verdict::Gap { expected } => {
            let detail = format!("batches are missing: sequence {expected} is the next");
            Err(Problem::conflict("sequence_gap", detail).with_member("expected", expected))
        }
    }
}

/// Returns the receipt of a batch that is in the table already, as far as its producer's position tells, and the row that
/// must be durable before it is acknowledged.
fn duplicate_receipt(writer: &Writer, sequence: u64, position: ProducerState) -> (Receipt, u64) {
    let span = position.rows.filter(|_| sequence == position.sequence);
    let first_row = span.map(|rows| rows.first_row);
    let rows = span.map_or(0, |rows| rows.end - rows.first_row);
    // The rows of a batch that another server has committed may be anywhere in the table.
    let end = position.rows.map_or(writer.committed_rows(), |rows| rows.end);
    (Receipt { first_row, rows, committed: 0, durable: 0, is_duplicate: true }, end)
}

impl PendingAck {
    /// Appends the batches that are not in the table already, up to the first invalid one.
    fn append(&mut self, writer: &mut Writer, producers: &mut PendingProducers<'_>) -> Result<()> {
        let AppendRequest { ends, numbered, is_over, .. } = &self.request;
        if is_over.load(Ordering::Relaxed) {
            return Err(Problem::bad_request("an earlier batch of the call was refused"));
        }
        if numbered.is_some() && writer.is_replica() {
            return Err(Problem::conflict("replica", REPLICA));
        }
        let mut first = 0;
        if let Some(id) = numbered
            && let Some((count, position)) = duplicates(producers, id, ends.len())?
        {
            for number in 0..count {
                let (receipt, end) = duplicate_receipt(writer, id.sequence + number as u64, position);
                self.receipts.push(receipt);
                self.end = self.end.max(end);
            }
            first = count;
        }
        if first == ends.len() {
            return Ok(());
        }
        let first_row = writer.rows();
        let (end, result) = append_from(&self.request, first, writer);
        self.record(producers, first..end, first_row);
        assert!(
            end == first || self.end == writer.rows(),
            "batches up to row {} were recorded, and rows up to {} appended",
            self.end,
            writer.rows()
        );
        result.or_input_problem()
    }

    /// Records that batches were appended, the first of them at row `first_row`.
    fn record(&mut self, producers: &mut PendingProducers<'_>, appended: Range<usize>, mut first_row: u64) {
        let last = appended.end;
        for number in appended {
            let span = self.request.span(number);
            let rows = span.end - span.start;
            let end = first_row + rows;
            self.receipts.push(Receipt {
                first_row: Some(first_row),
                rows,
                committed: 0,
                durable: 0,
                is_duplicate: false,
            });
            if let Some(first_id) = self.request.numbered.as_ref().filter(|_| number + 1 == last) {
                producers.set(&first_id.nth_after(number), RowSpan { first_row, end });
            }
            first_row = end;
            self.end = end;
        }
    }

    /// Returns the row after the last one that this request has appended, if any.
    fn appended_end(&self) -> Option<u64> {
        self.receipts.last().filter(|receipt| !receipt.is_duplicate).map(|_| self.end)
    }

    fn acknowledge(self, writer: &Writer) {
        let (committed, durable) = (writer.committed_rows(), writer.durable_rows());
        let receipts = self.receipts.into_iter().map(|receipt| Receipt { committed, durable, ..receipt }).collect();
        self.request.answer(AppendResults { receipts, refusal: self.refusal });
    }
}

/// Appends batches from number `first` on. Returns the number of the first batch that was not appended, and why.
fn append_from(request: &AppendRequest, first: usize, writer: &mut Writer) -> (usize, arrowwood::Result<()>) {
    let count = request.ends.len();
    // Appending all batches together takes less time.
    match request.append_to(writer, first..count) {
        Ok(()) => return (count, Ok(())),
        Err(e) if first + 1 == count => return (first, Err(e)),
        Err(_) => (),
    }
    // One of them is invalid: the batches before it stay.
    for number in first..count {
        if let Err(e) = request.append_to(writer, number..number + 1) {
            return (number, Err(e));
        }
    }
    (count, Ok(()))
}

impl AppendRequest {
    /// Returns the rows of batch `number`, by their numbers in `rows`.
    fn span(&self, number: usize) -> Range<u64> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        let end = self.ends[number];
        assert!(start <= end, "batch {number} ends at row {end}, before it begins at row {start}");
        start..end
    }

    /// Appends the rows of some batches.
    fn append_to(&self, writer: &mut Writer, numbers: Range<usize>) -> arrowwood::Result<()> {
        assert!(!numbers.is_empty() && numbers.end <= self.ends.len(), "batches {numbers:?} of {}", self.ends.len());
        if numbers == (0..self.ends.len()) {
            return writer.append_dataset(&self.rows);
        }
        let start = self.span(numbers.start).start;
        let end = self.span(numbers.end - 1).end;
        writer.append_dataset(&self.rows.slice(start, end - start)?)
    }

    /// Refuses all batches, and later ones of the same call.
    fn refuse(self, refusal: Problem) {
        self.is_over.store(true, Ordering::Relaxed);
        self.answer(refusal.into());
    }

    fn answer(self, results: AppendResults) {
        let AppendRequest { rows, _share: share, reply, .. } = self;
        // Frees the memory first: the client may need it for the next batches as soon as it has the response.
        drop((rows, share));
        // A disconnected client gets no response; it will send the batches again.
        let _ = reply.send(results);
    }
}
