//! Many producers, one commit: a thread for each written table, which owns the table's writer.
//!
//! Batches that arrive during a commit or a sync wait, and go into the next one together. Only an invalid batch is
//! refused.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use arrowwood::simulate::Medium;
use arrowwood::{Error, ErrorKind, Writer, WriterOptions};
use hyper::StatusCode;
use tokio::sync::oneshot;

use crate::metrics::Metrics;
use crate::producers::{Ahead, Position, RowSpan, Verdict, judge};
use crate::queue::{Ack, Batch, Receipt};
use crate::refusal::{Refusal, Result};
use crate::table::Table;

/// The maximum number of batches in one commit.
const GROUP: usize = 4_096;
/// The interval at which the thread checks for durable rows, and whether it is still needed.
const TICK: Duration = Duration::from_millis(100);

/// The state shared by the threads.
#[derive(Clone)]
pub(crate) struct Writing {
    pub metrics: Arc<Metrics>,
    /// The time after which an idle table is closed.
    pub idle: Duration,
    /// The disk of the tables.
    pub medium: Medium,
}

impl Table {
    /// Passes a batch to the table's thread, starting it if necessary.
    pub fn append(self: &Arc<Self>, batch: Batch, writing: &Writing) -> Result<()> {
        let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(Refusal::unavailable("the server is stopping"));
        }
        let mut batch = batch;
        if let Some(sender) = &state.sender {
            match sender.send(batch) {
                Ok(()) => return Ok(()),
                Err(unsent) => batch = unsent.0,
            }
        }
        let (sender, coming) = channel();
        let before = state.thread.take();
        let (table, writing) = (self.clone(), writing.clone());
        let run = Run { table, writing, writer: None, has_unsynced_positions: true, coming, before };
        let spawned = thread::Builder::new().name("arrowwood-write".into()).spawn(move || run.run());
        let failed = |e: std::io::Error| Refusal::of_table(&Error::io("starting a thread", &e));
        state.thread = Some(spawned.map_err(failed)?);
        let sent = sender.send(batch).map_err(|_| Refusal::internal("the table's writer has stopped"));
        state.sender = Some(sender);
        sent
    }

    /// The schema, while the table's thread has it open for writing.
    pub fn schema_written(&self) -> Option<SchemaRef> {
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).schema.clone()
    }

    /// Refuses further batches, and waits until accepted ones are committed and on the disk. Blocks.
    pub fn close(&self) {
        let thread = {
            let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.is_closed, state.sender) = (true, None);
            state.thread.take()
        };
        if let Some(thread) = thread {
            // It doesn't panic, and if it did, its batches were not acknowledged.
            let _ = thread.join();
        }
    }
}

/// The thread of a table.
struct Run {
    table: Arc<Table>,
    writing: Writing,
    /// Open while there are batches, and for a while afterwards.
    writer: Option<Writer>,
    /// Whether producers may have positions that are not on the disk yet: those of a commit without rows follow no row.
    has_unsynced_positions: bool,
    coming: Receiver<Batch>,
    /// The previous thread, which may still be closing the table.
    before: Option<thread::JoinHandle<()>>,
}

/// An appended batch to be acknowledged.
struct Appended {
    batch: Batch,
    receipt: Receipt,
    /// The row after its last one.
    end: u64,
}

impl Run {
    fn run(mut self) {
        if let Some(before) = self.before.take() {
            // In any case, the table's lock is free now.
            let _ = before.join();
        }
        let mut busy = Instant::now();
        loop {
            match self.coming.recv_timeout(TICK) {
                Ok(first) => {
                    let mut group = vec![first];
                    group.extend(self.coming.try_iter().take(GROUP - 1));
                    self.commit(group);
                    self.note_schema();
                    busy = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) if busy.elapsed() >= self.writing.idle && self.may_end() => break,
                Err(RecvTimeoutError::Timeout) => self.note_durable(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(writer) = self.writer.take() {
            let end = writer.rows();
            match writer.close() {
                Ok(()) => self.table.made_durable(end),
                Err(e) => eprintln!("arrowwood: closing a table: {e}"),
            }
        }
    }

    /// Whether no batch waits; then no further batch is sent to this thread.
    fn may_end(&self) -> bool {
        let mut state = self.table.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Batches are sent under the lock.
        let Ok(batch) = self.coming.try_recv() else {
            (state.sender, state.schema) = (None, None);
            return true;
        };
        if let Some(sender) = &state.sender {
            // The receiver is this thread's.
            let _ = sender.send(batch);
        }
        false
    }

    fn note_schema(&self) {
        let schema = self.writer.as_ref().map(|writer| writer.schema().clone());
        self.table.queue.state.lock().unwrap_or_else(PoisonError::into_inner).schema = schema;
    }

    fn note_durable(&self) {
        if let Some(writer) = &self.writer {
            self.table.made_durable(writer.durable_rows());
        }
    }

    fn commit(&mut self, group: Vec<Batch>) {
        let count = group.len();
        let mut writer = match self.open() {
            Ok(writer) => writer,
            Err(e) => {
                group.into_iter().for_each(|batch| answer(batch.reply, Err(Refusal::of_table(&e))));
                return;
            }
        };
        let mut ahead = Ahead::of(&self.table.producers, writer.positions().len());
        let mut appended = append_all(&mut writer, &mut ahead, group);
        let positions = ahead.positions();
        let positions: Vec<(&str, i64)> = positions.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        if let Err(e) = writer.commit_with(&positions) {
            writer.rollback();
            // The writer is dropped: the next batch reopens the table, and gets the error.
            appended.into_iter().for_each(|it| answer(it.batch.reply, Err(Refusal::of_table(&e))));
            return;
        }
        self.has_unsynced_positions |= !positions.is_empty();
        ahead.committed();
        let rows = appended.iter().filter(|it| !it.receipt.is_duplicate).map(|it| it.receipt.rows).sum();
        self.writing.metrics.committed(count, rows);
        for it in appended.extract_if(.., |it| it.batch.ack == Ack::Visible) {
            it.acknowledge(&writer);
        }
        match self.sync(&mut writer, &appended) {
            Ok(()) => {
                appended.into_iter().for_each(|it| it.acknowledge(&writer));
                self.table.made_durable(writer.durable_rows());
                self.writer = Some(writer);
            }
            Err(e) => appended.into_iter().for_each(|it| {
                let detail =
                    "the rows can be seen, and may not survive a power cut; send them again as they were numbered";
                let refusal = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "not_durable", detail);
                answer(it.batch.reply, Err(refusal.logged(&e)));
            }),
        }
    }

    fn open(&mut self) -> arrowwood::Result<Writer> {
        if let Some(mut writer) = self.writer.take() {
            // After a failed background sync this writer refuses to write; a new one is opened.
            let is_closed = writer.commit().is_err_and(|e| e.kind() == ErrorKind::Closed);
            if !is_closed {
                return Ok(writer);
            }
        }
        let options = WriterOptions { medium: self.writing.medium.clone(), ..WriterOptions::default() };
        // Never creates a table: it may have been removed.
        let writer = Writer::open(&self.table.path, None, &options)?;
        self.table.producers.load(&writer.positions());
        self.has_unsynced_positions = true;
        Ok(writer)
    }

    /// Syncs rows that clients wait for.
    fn sync(&mut self, writer: &mut Writer, waiting: &[Appended]) -> arrowwood::Result<()> {
        let Some(end) = waiting.iter().map(|it| it.end).max() else { return Ok(()) };
        if writer.durable_rows() >= end && !self.has_unsynced_positions {
            return Ok(());
        }
        let begun = Instant::now();
        let synced = writer.sync();
        self.writing.metrics.synced(begun.elapsed());
        self.has_unsynced_positions &= synced.is_err();
        synced
    }
}

/// Appends the valid batches, and refuses the others.
fn append_all(writer: &mut Writer, ahead: &mut Ahead<'_>, group: Vec<Batch>) -> Vec<Appended> {
    let mut appended = Vec::with_capacity(group.len());
    for batch in group {
        match append_one(writer, ahead, &batch) {
            Ok((receipt, end)) => appended.push(Appended { batch, receipt, end }),
            Err(refusal) => answer(batch.reply, Err(refusal)),
        }
    }
    appended
}

/// Appends a batch, unless it is in the table already; returns its result, and the row that must become durable for it.
fn append_one(writer: &mut Writer, ahead: &mut Ahead<'_>, batch: &Batch) -> Result<(Receipt, u64)> {
    if let Some(numbered) = &batch.numbered {
        let verdict = judge(ahead.get(&numbered.producer), numbered);
        // A repeat by a producer that has replaced another one is recorded, too.
        if matches!(verdict, Verdict::Next | Verdict::Duplicate(_)) && !ahead.has_room(numbered) {
            let detail = "the table keeps the positions of 256 producers and has no room for another one; \
                          use a name again, or a table for each group of producers";
            return Err(Refusal::conflict("too_many_producers", detail));
        }
        match verdict {
            Verdict::Next => (),
            Verdict::Duplicate(position) => {
                ahead.fence(numbered);
                return Ok(duplicate(writer, numbered.sequence, position));
            }
            Verdict::Gap { .. } | Verdict::Old { .. } => return Err(refusal_of(verdict)),
        }
    }
    let first_row = writer.rows();
    writer.append_dataset(&batch.rows).map_err(|e| Refusal::of_input(&e).logged(&e))?;
    let end = writer.rows();
    if let Some(numbered) = &batch.numbered {
        ahead.set(numbered, RowSpan { first_row, end });
    }
    let rows = end - first_row;
    Ok((Receipt { first_row: Some(first_row), rows, committed: 0, durable: 0, is_duplicate: false }, end))
}

/// The answer to a batch already in the table, as far as its producer's position tells.
fn duplicate(writer: &Writer, sequence: u64, position: Position) -> (Receipt, u64) {
    let last = position.rows.filter(|_| sequence == position.sequence);
    let first_row = last.map(|rows| rows.first_row);
    let rows = last.map_or(0, |rows| rows.end - rows.first_row);
    // Rows committed by another server are only known to be at or before the last one.
    let end = position.rows.map_or(writer.committed_rows(), |rows| rows.end);
    (Receipt { first_row, rows, committed: 0, durable: 0, is_duplicate: true }, end)
}

impl Appended {
    fn acknowledge(self, writer: &Writer) {
        let receipt = Receipt { committed: writer.committed_rows(), durable: writer.durable_rows(), ..self.receipt };
        answer(self.batch.reply, Ok(receipt));
    }
}

fn answer(reply: oneshot::Sender<Result<Receipt>>, answer: Result<Receipt>) {
    // A disconnected client gets no answer; it will send the batch again.
    let _ = reply.send(answer);
}

fn refusal_of(verdict: Verdict) -> Refusal {
    match verdict {
        Verdict::Old { epoch } => {
            let detail = format!("the producer was replaced: its epoch is {epoch} now");
            Refusal::conflict("old_epoch", detail).fact("epoch", epoch)
        }
        Verdict::Gap { expected } => {
            let detail = format!("batches are missing: sequence {expected} is the next");
            Refusal::conflict("sequence_gap", detail).fact("expected", expected)
        }
        // Those are no reason to refuse anything.
        Verdict::Next | Verdict::Duplicate(_) => Refusal::internal("a batch was refused without a reason"),
    }
}
