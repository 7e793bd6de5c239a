//! Many producers, one commit: a thread for each table that is written, which owns the table's writer.
//!
//! What arrives while a commit or a sync is under way waits, and goes into the next one together. A batch with an error
//! is refused alone.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arrowwood::{Error, Writer, WriterOptions};
use hyper::StatusCode;
use tokio::sync::oneshot;

use crate::metrics::Metrics;
use crate::producers::{Numbered, Position, Verdict, judge};
use crate::queue::{Ack, Batch, Receipt};
use crate::refusal::{Refusal, Result};
use crate::table::Table;

/// The most batches of one commit.
const GROUP: usize = 4_096;
/// How often the thread looks what is durable, and whether it is still needed.
const TICK: Duration = Duration::from_millis(100);

/// What the threads share.
#[derive(Clone)]
pub(crate) struct Writing {
    pub metrics: Arc<Metrics>,
    /// How long a table that nobody appends to stays open.
    pub idle: Duration,
}

impl Table {
    /// Hands a batch to the table's thread, which is started where there is none.
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
        let run = Run { table: self.clone(), writing: writing.clone(), writer: None, coming, before };
        let spawned = thread::Builder::new().name("arrowwood-write".into()).spawn(move || run.run());
        let failed = |e: std::io::Error| Refusal::of_table(&Error::io("starting a thread", &e));
        state.thread = Some(spawned.map_err(failed)?);
        let sent = sender.send(batch).map_err(|_| Refusal::internal("the table's writer has stopped"));
        state.sender = Some(sender);
        sent
    }

    /// Takes no batch any more, and waits until those that were taken are committed and on the disk. Blocks.
    pub fn close(&self) {
        let thread = {
            let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.is_closed, state.sender) = (true, None);
            state.thread.take()
        };
        if let Some(thread) = thread {
            // It doesn't panic, and if it did its batches were not acknowledged.
            let _ = thread.join();
        }
    }
}

/// The thread of a table.
struct Run {
    table: Arc<Table>,
    writing: Writing,
    /// Open while there is something to write, and for a while afterwards.
    writer: Option<Writer>,
    coming: Receiver<Batch>,
    /// The thread before this one, which may still be closing the table.
    before: Option<thread::JoinHandle<()>>,
}

/// A batch that was appended, and is to be acknowledged.
struct Appended {
    batch: Batch,
    receipt: Receipt,
    /// The row behind its last.
    end: u64,
}

impl Run {
    fn run(mut self) {
        if let Some(before) = self.before.take() {
            // Whatever became of it, the table's lock is free now.
            let _ = before.join();
        }
        let mut busy = Instant::now();
        loop {
            match self.coming.recv_timeout(TICK) {
                Ok(first) => {
                    let mut group = vec![first];
                    group.extend(self.coming.try_iter().take(GROUP - 1));
                    self.commit(group);
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

    /// Whether nothing waits; then nothing more comes to this thread.
    fn may_end(&self) -> bool {
        let mut state = self.table.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Batches are sent under the lock.
        let Ok(batch) = self.coming.try_recv() else {
            state.sender = None;
            return true;
        };
        if let Some(sender) = &state.sender {
            // The receiver is this thread's.
            let _ = sender.send(batch);
        }
        false
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
        let mut appended = self.append_all(&mut writer, group);
        if let Err(e) = writer.commit() {
            writer.rollback();
            // Not put back: what is wrong with it the next one finds out.
            appended.into_iter().for_each(|it| answer(it.batch.reply, Err(Refusal::of_table(&e))));
            return;
        }
        let positions = appended.iter().filter(|it| !it.receipt.is_duplicate).filter_map(Appended::position).collect();
        self.table.positions.committed(positions);
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
        match self.writer.take() {
            Some(writer) => Ok(writer),
            // Never a table that is not there: it may have been removed.
            None => Writer::open(&self.table.path, None, &WriterOptions::default()),
        }
    }

    /// Appends what can be; what can't is refused.
    fn append_all(&self, writer: &mut Writer, group: Vec<Batch>) -> Vec<Appended> {
        let mut appended = Vec::with_capacity(group.len());
        // Positions as they will be with this commit.
        let mut ahead: HashMap<String, Position> = HashMap::new();
        for batch in group {
            let first_row = writer.rows();
            let verdict = batch.numbered.as_ref().map(|numbered| {
                let known = ahead.get(&numbered.producer).copied();
                judge(known.or_else(|| self.table.positions.get(&numbered.producer)), numbered)
            });
            let done = match verdict {
                None | Some(Verdict::Next) => {
                    writer.append_dataset(&batch.rows).map_err(|e| Refusal::of_input(&e).logged(&e))
                }
                Some(Verdict::Duplicate(position)) => {
                    if let Some(numbered) = &batch.numbered {
                        self.table.positions.fence(&numbered.producer, numbered.epoch);
                    }
                    appended.push(Appended::duplicate(batch, position));
                    continue;
                }
                Some(refused) => Err(refusal_of(refused)),
            };
            match done {
                Ok(()) => {
                    let it = Appended::new(batch, first_row, writer.rows());
                    ahead.extend(it.position().map(|(numbered, position)| (numbered.producer, position)));
                    appended.push(it);
                }
                Err(refusal) => answer(batch.reply, Err(refusal)),
            }
        }
        appended
    }

    /// Brings to the disk what somebody waits for.
    fn sync(&self, writer: &mut Writer, waiting: &[Appended]) -> arrowwood::Result<()> {
        let end = waiting.iter().map(|it| it.end).max().unwrap_or(0);
        if writer.durable_rows() >= end {
            return Ok(());
        }
        let begun = Instant::now();
        let synced = writer.sync();
        self.writing.metrics.synced(begun.elapsed());
        synced
    }
}

impl Appended {
    fn new(batch: Batch, first_row: u64, end: u64) -> Appended {
        let rows = end - first_row;
        let receipt = Receipt { first_row: Some(first_row), rows, committed: 0, durable: 0, is_duplicate: false };
        Appended { batch, receipt, end }
    }

    /// A batch that is there already, as far as its producer's position tells.
    fn duplicate(batch: Batch, position: Position) -> Appended {
        let is_last = batch.numbered.as_ref().is_some_and(|numbered| numbered.sequence == position.sequence);
        let first_row = is_last.then_some(position.first_row);
        let rows = if is_last { position.end - position.first_row } else { 0 };
        let receipt = Receipt { first_row, rows, committed: 0, durable: 0, is_duplicate: true };
        Appended { batch, receipt, end: position.end }
    }

    /// Where the producer is with this batch.
    fn position(&self) -> Option<(Numbered, Position)> {
        let numbered = self.batch.numbered.clone()?;
        let first_row = self.receipt.first_row.unwrap_or(self.end);
        let position = Position { epoch: numbered.epoch, sequence: numbered.sequence, first_row, end: self.end };
        Some((numbered, position))
    }

    fn acknowledge(self, writer: &Writer) {
        let receipt = Receipt { committed: writer.committed_rows(), durable: writer.durable_rows(), ..self.receipt };
        answer(self.batch.reply, Ok(receipt));
    }
}

fn answer(reply: oneshot::Sender<Result<Receipt>>, answer: Result<Receipt>) {
    // A client that has gone learns nothing; it will send the batch again.
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
