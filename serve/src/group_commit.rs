//! Many producers, one commit: a writer for each written table, and a thread that commits what waits for it.
//!
//! Batches that arrive during a commit or a sync wait, and go into the next one together. A request whose batches wait for
//! no others commits them itself. Only an invalid batch is refused.

use arrowwood::mapping::MutexExt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use arrowwood::simulate::FileSystem;
use arrowwood::{Dataset, Error, ErrorKind, REPLICA, Writer, WriterOptions};
use hyper::StatusCode;

use crate::log;
use crate::metrics::Metrics;
use crate::problem::{Problem, Result};
use crate::producers::{BatchId, PendingProducers, ProducerState, RowSpan, Verdict, judge};
use crate::queue::{Ack, AppendRequest, AppendResults, Committer, Receipt};
use crate::readiness::Readiness;
use crate::table::Table;

/// The maximum number of requests whose batches are in one commit.
const GROUP: usize = 4_096;
/// The interval at which the thread checks for durable rows, and whether it is still needed.
const TICK: Duration = Duration::from_millis(100);
/// The time of a commit, with its sync, for which a thread of the server may be blocked.
const QUICK: Duration = Duration::from_millis(1);

/// The state shared by the threads.
#[derive(Clone)]
pub(crate) struct WriterPool {
    pub metrics: Arc<Metrics>,
    /// The time after which an idle table is closed.
    pub idle: Duration,
    /// The number of tables that may be open at once.
    pub most: usize,
    /// The number of tables that are, or may be.
    pub open: Arc<AtomicUsize>,
    /// Locked by the thread of the server that commits rows itself.
    pub here: Arc<Mutex<()>>,
    /// The disk of the tables.
    pub medium: FileSystem,
    pub readiness: Arc<Readiness>,
}

/// A place among the tables that are open for writing.
pub(crate) struct WriterSlot(Arc<AtomicUsize>);

impl Drop for WriterSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WriterPool {
    /// A place for another table.
    ///
    /// # Errors
    /// 503 if as many are open as may be.
    fn place(&self) -> Result<WriterSlot> {
        let open = self.open.fetch_add(1, Ordering::Relaxed);
        let place = WriterSlot(self.open.clone());
        if open < self.most {
            return Ok(place);
        }
        let detail = format!(
            "{} tables are being written, as many as the server may have open, and nothing was appended; send it again, write \
             to fewer tables at once, or let the server open more files (LimitNOFILE)",
            self.most
        );
        Err(Problem::unavailable(detail))
    }

    /// The time after which an idle table is closed now.
    fn idle_now(&self) -> Duration {
        let is_crowded = self.open.load(Ordering::Relaxed) > self.most / 2;
        if is_crowded { self.idle.min(TICK) } else { self.idle }
    }
}

impl Table {
    /// Commits few rows on this thread and answers them, if no others wait or are being committed: waking another thread, and
    /// being woken by it, takes as long as a quick sync. Otherwise passes them to the table's thread. Blocks a thread of the
    /// server, one at most, for a commit that is expected to take less than [`QUICK`].
    pub fn append_here(self: &Arc<Self>, batches: AppendRequest, writing: &WriterPool) -> Result<()> {
        // A thread that only tries to lock would go ahead of the table's, which waits for the lock, again and again.
        let is_alone = self.queue.waiting.load(Ordering::Relaxed) == 0;
        if is_alone
            && let Ok(_here) = writing.here.try_lock()
            && let Ok(mut committer) = self.queue.committer.try_lock()
            && committer.is_quick()
        {
            committer.commit(self, writing, vec![batches]);
            return Ok(());
        }
        self.append(batches, writing)
    }

    /// A place for the table, `None` if it has one: before batches for several tables are passed on, which may not be appended to
    /// some of them only.
    ///
    /// # Errors
    /// 503 if there is none.
    pub fn place(&self, writing: &WriterPool) -> Result<Option<WriterSlot>> {
        let state = self.queue.state.lock_ignoring_poison();
        if state.sender.is_some() { Ok(None) } else { writing.place().map(Some) }
    }

    /// Passes batches to the table's thread, starting it if necessary.
    pub fn append(self: &Arc<Self>, batches: AppendRequest, writing: &WriterPool) -> Result<()> {
        self.append_in(None, batches, writing)
    }

    /// As [`Table::append`], in that [place](Table::place) if the table has none.
    pub fn append_in(
        self: &Arc<Self>,
        place: Option<WriterSlot>,
        batches: AppendRequest,
        writing: &WriterPool,
    ) -> Result<()> {
        let mut state = self.queue.state.lock_ignoring_poison();
        if state.is_closed {
            return Err(Problem::unavailable("the server is stopping"));
        }
        let mut batches = batches;
        if let Some(sender) = &state.sender {
            self.queue.waiting.fetch_add(1, Ordering::Relaxed);
            match sender.send(batches) {
                Ok(()) => return Ok(()),
                Err(unsent) => batches = unsent.0,
            }
        }
        let place = place.map_or_else(|| writing.place(), Ok)?;
        let (sender, coming) = channel();
        let before = state.thread.take();
        let (table, writing) = (self.clone(), writing.clone());
        let run = WriterThread { table, writing, coming, before, _place: place };
        let spawned = thread::Builder::new().name("arrowwood-write".into()).spawn(move || run.run());
        let failed = |e: std::io::Error| Problem::from_table_error(&Error::io("starting a thread", &e));
        state.thread = Some(spawned.map_err(failed)?);
        // Those that were sent to a thread that has stopped are lost.
        self.queue.waiting.store(1, Ordering::Relaxed);
        let sent = sender.send(batches).map_err(|_| Problem::internal("the table's writer has stopped"));
        state.sender = Some(sender);
        sent
    }

    /// The schema, while the table is open for writing.
    pub fn schema_written(&self) -> Option<SchemaRef> {
        self.queue.state.lock_ignoring_poison().schema.clone()
    }

    /// Refuses further batches, and waits until accepted ones are committed and on the disk. Blocks.
    pub fn close(&self) {
        let thread = {
            let mut state = self.queue.state.lock_ignoring_poison();
            (state.is_closed, state.sender) = (true, None);
            state.thread.take()
        };
        if let Some(thread) = thread {
            // It doesn't panic, and if it did, its batches were not acknowledged.
            let _ = thread.join();
        }
    }

    fn committer(&self) -> MutexGuard<'_, Committer> {
        // A commit takes the writer out, so that none is left by one that panicked.
        self.queue.committer.lock_ignoring_poison()
    }
}

/// The thread of a table.
struct WriterThread {
    table: Arc<Table>,
    writing: WriterPool,
    coming: Receiver<AppendRequest>,
    /// The previous thread, which may still be closing the table.
    before: Option<thread::JoinHandle<()>>,
    _place: WriterSlot,
}

/// Appended batches to be acknowledged.
struct PendingAck {
    batches: AppendRequest,
    receipts: Vec<Receipt>,
    /// The reason why the last batches were not appended.
    refusal: Option<Problem>,
    /// The row that must become durable, with all before it.
    end: u64,
}

impl WriterThread {
    fn run(mut self) {
        if let Some(before) = self.before.take() {
            // In any case, the table's lock is free now.
            let _ = before.join();
        }
        loop {
            let first = match self.coming.recv_timeout(TICK) {
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
                    group.extend(self.coming.try_iter().take(GROUP - 1));
                    self.table.queue.waiting.fetch_sub(group.len(), Ordering::Relaxed);
                    committer.commit(&self.table, &self.writing, group);
                }
                None => committer.note_durable(&self.table),
            }
        }
        self.table.committer().close(&self.table, &self.writing);
    }

    fn is_idle(&self) -> bool {
        self.table.committer().used.is_none_or(|used| used.elapsed() >= self.writing.idle_now())
    }

    /// The first of the batches that wait; if there are none, no further ones are sent to this thread.
    fn first_or_end(&self) -> Option<AppendRequest> {
        let mut state = self.table.queue.state.lock_ignoring_poison();
        // Batches are sent under the lock.
        let first = self.coming.try_recv().ok();
        if first.is_none() {
            state.sender = None;
        }
        first
    }
}

impl Committer {
    fn commit(&mut self, table: &Table, writing: &WriterPool, group: Vec<AppendRequest>) {
        let begun = Instant::now();
        self.commit_all(table, writing, group);
        self.used = Some(Instant::now());
        self.took = begun.elapsed();
        self.note_schema(table);
    }

    fn is_quick(&self) -> bool {
        self.writer.is_some() && self.took < QUICK
    }

    fn note_schema(&self, table: &Table) {
        let schema = self.writer.as_ref().map(|writer| writer.schema().clone());
        table.queue.state.lock_ignoring_poison().schema = schema;
    }

    fn note_durable(&self, table: &Table) {
        if let Some(writer) = &self.writer {
            table.made_durable(writer.durable_rows());
        }
    }

    fn close(&mut self, table: &Table, writing: &WriterPool) {
        if let Some(writer) = self.writer.take() {
            let end = writer.rows();
            match writer.close() {
                Ok(()) => table.made_durable(end),
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
                group.into_iter().for_each(|batches| batches.refuse(not_appended(table, &e)));
                return;
            }
        };
        let mut ahead = PendingProducers::new(&table.producers, writer.positions().len());
        let mut appended = append_all(&mut writer, &mut ahead, group, &writing.readiness);
        let positions = ahead.positions();
        let positions: Vec<(&str, i64)> = positions.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        if let Err(e) = writer.commit_with(&positions) {
            writer.rollback();
            writing.readiness.on_failure(&e);
            // The writer is dropped: the next batch reopens the table, and gets the error.
            appended.into_iter().for_each(|it| it.batches.refuse(not_appended(table, &e)));
            return;
        }
        self.has_unsynced_positions |= !positions.is_empty();
        ahead.committed();
        let receipts = || appended.iter().flat_map(|it| &it.receipts);
        let rows = receipts().filter(|receipt| !receipt.is_duplicate).map(|receipt| receipt.rows).sum();
        writing.metrics.committed(receipts().count(), rows);
        for it in appended.extract_if(.., |it| it.batches.ack == Ack::Visible) {
            it.acknowledge(&writer);
        }
        match self.sync(writing, &mut writer, &appended) {
            Ok(()) => {
                appended.into_iter().for_each(|it| it.acknowledge(&writer));
                table.made_durable(writer.durable_rows());
                self.writer = Some(writer);
            }
            Err(e) => {
                writing.readiness.on_failure(&e);
                appended.into_iter().for_each(|it| {
                    let detail =
                        "the rows can be seen, and may not survive a power cut; send them again as they were numbered";
                    let refusal = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "not_durable", detail);
                    it.batches.refuse(refusal.with_error(&e));
                });
            }
        }
    }

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
        let Some(end) = waiting.iter().map(|it| it.end).max() else { return Ok(()) };
        if writer.durable_rows() >= end && !self.has_unsynced_positions {
            return Ok(());
        }
        let begun = Instant::now();
        let synced = writer.sync();
        writing.metrics.synced(begun.elapsed());
        self.has_unsynced_positions &= synced.is_err();
        synced
    }
}

/// For an error before any rows were committed.
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
    ahead: &mut PendingProducers<'_>,
    group: Vec<AppendRequest>,
    readiness: &Readiness,
) -> Vec<PendingAck> {
    let mut appended = Vec::with_capacity(group.len());
    for batches in group {
        let mut it = PendingAck { receipts: Vec::with_capacity(batches.ends.len()), batches, refusal: None, end: 0 };
        it.refusal = it.append(writer, ahead).err();
        it.refusal.iter().filter_map(Problem::error).for_each(|e| readiness.on_failure(e));
        match it.refusal {
            Some(refusal) if it.receipts.is_empty() => it.batches.refuse(refusal),
            Some(_) => {
                it.batches.is_over.store(true, Ordering::Relaxed);
                appended.push(it);
            }
            None => appended.push(it),
        }
    }
    appended
}

/// The number of batches that are in the table already, of `count` whose first one is `numbered`, and their producer's
/// position.
fn duplicates(
    ahead: &mut PendingProducers<'_>,
    numbered: &BatchId,
    count: usize,
) -> Result<Option<(usize, ProducerState)>> {
    let verdict = judge(ahead.get(&numbered.producer), numbered);
    // A repeat by a producer that has replaced another one is recorded, too.
    if matches!(verdict, Verdict::Next | Verdict::Duplicate(_)) && !ahead.has_room(numbered) {
        let detail = "the table keeps the positions of 256 producers and has no room for another one; \
                      use a name again, or a table for each group of producers";
        return Err(Problem::conflict("too_many_producers", detail));
    }
    match verdict {
        Verdict::Next => Ok(None),
        Verdict::Duplicate(position) => {
            ahead.fence(numbered);
            let known = usize::try_from(position.sequence - numbered.sequence).map_or(count, |more| more + 1);
            Ok(Some((known.min(count), position)))
        }
        Verdict::Gap { .. } | Verdict::Old { .. } => Err(refusal_of(verdict)),
    }
}

/// The answer to a batch already in the table, as far as its producer's position tells.
fn duplicate(writer: &Writer, sequence: u64, position: ProducerState) -> (Receipt, u64) {
    let last = position.rows.filter(|_| sequence == position.sequence);
    let first_row = last.map(|rows| rows.first_row);
    let rows = last.map_or(0, |rows| rows.end - rows.first_row);
    // Rows committed by another server are only known to be at or before the last one.
    let end = position.rows.map_or(writer.committed_rows(), |rows| rows.end);
    (Receipt { first_row, rows, committed: 0, durable: 0, is_duplicate: true }, end)
}

impl PendingAck {
    /// Appends the batches that are not in the table already, up to the first invalid one.
    fn append(&mut self, writer: &mut Writer, ahead: &mut PendingProducers<'_>) -> Result<()> {
        let AppendRequest { ends, numbered, is_over, .. } = &self.batches;
        if is_over.load(Ordering::Relaxed) {
            return Err(Problem::bad_request("an earlier batch of the call was refused"));
        }
        if numbered.is_some() && writer.is_replica() {
            return Err(Problem::conflict("replica", REPLICA));
        }
        let mut first = 0;
        if let Some(numbered) = numbered
            && let Some((known, position)) = duplicates(ahead, numbered, ends.len())?
        {
            for number in 0..known {
                let (receipt, end) = duplicate(writer, numbered.sequence + number as u64, position);
                self.receipts.push(receipt);
                self.end = self.end.max(end);
            }
            first = known;
        }
        if first == ends.len() {
            return Ok(());
        }
        let first_row = writer.rows();
        let (end, failed) = append_from(&self.batches, first, writer);
        self.record(ahead, first..end, first_row);
        match failed {
            Some(e) => Err(Problem::from_input_error(&e)),
            None => Ok(()),
        }
    }

    /// Records that batches were appended, the first of them at row `first_row`.
    fn record(&mut self, ahead: &mut PendingProducers<'_>, appended: Range<usize>, mut first_row: u64) {
        let last = appended.end;
        for number in appended {
            let rows = self.batches.span(number);
            let rows = rows.end - rows.start;
            let end = first_row + rows;
            self.receipts.push(Receipt {
                first_row: Some(first_row),
                rows,
                committed: 0,
                durable: 0,
                is_duplicate: false,
            });
            if let Some(numbered) = self.batches.numbered.as_ref().filter(|_| number + 1 == last) {
                ahead.set(&numbered.at(number), RowSpan { first_row, end });
            }
            first_row = end;
            self.end = end;
        }
    }

    fn acknowledge(self, writer: &Writer) {
        let (committed, durable) = (writer.committed_rows(), writer.durable_rows());
        let receipts = self.receipts.into_iter().map(|receipt| Receipt { committed, durable, ..receipt }).collect();
        self.batches.answer(AppendResults { receipts, refusal: self.refusal });
    }
}

/// Appends batches from number `first` on. Returns the number of the first one that was not appended, and why.
fn append_from(batches: &AppendRequest, first: usize, writer: &mut Writer) -> (usize, Option<Error>) {
    let count = batches.ends.len();
    let mut append = |range| batches.rows_of(range).and_then(|rows| writer.append_dataset(&rows)).err();
    // Together, which takes less time.
    match append(first..count) {
        None => (count, None),
        Some(e) if first + 1 == count => (first, Some(e)),
        // Those before the invalid one stay.
        Some(_) => (first..count)
            .find_map(|number| append(number..number + 1).map(|e| (number, Some(e))))
            .unwrap_or((count, None)),
    }
}

impl AppendRequest {
    /// The rows of batch `number`, by their numbers in `rows`.
    fn span(&self, number: usize) -> Range<u64> {
        let end = |number: usize| self.ends.get(number).copied().unwrap_or(0);
        number.checked_sub(1).map_or(0, end)..end(number)
    }

    fn rows_of(&self, numbers: Range<usize>) -> arrowwood::Result<Dataset> {
        if numbers == (0..self.ends.len()) {
            return Ok(self.rows.clone());
        }
        let start = self.span(numbers.start).start;
        self.rows.slice(start, self.span(numbers.end.saturating_sub(1)).end - start)
    }

    /// Refuses all of them, and later ones of the same request.
    fn refuse(self, refusal: Problem) {
        self.is_over.store(true, Ordering::Relaxed);
        self.answer(refusal.into());
    }

    fn answer(self, answers: AppendResults) {
        let AppendRequest { rows, _share: share, reply, .. } = self;
        // Their memory is free once they are answered: the client may need it for the next ones.
        drop((rows, share));
        // A disconnected client gets no answer; it will send the batches again.
        let _ = reply.send(answers);
    }
}

fn refusal_of(verdict: Verdict) -> Problem {
    match verdict {
        Verdict::Old { epoch } => {
            let detail = format!("the producer was replaced: its epoch is {epoch} now");
            Problem::conflict("old_epoch", detail).with_member("epoch", epoch)
        }
        Verdict::Gap { expected } => {
            let detail = format!("batches are missing: sequence {expected} is the next");
            Problem::conflict("sequence_gap", detail).with_member("expected", expected)
        }
        // Those are no reason to refuse anything.
        Verdict::Next | Verdict::Duplicate(_) => Problem::internal("a batch was refused without a reason"),
    }
}
