//! The process for queries: answers one after the other, until its standard input ends.

use arrowwood::mapping::MutexExt;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufReader, Stdin, Stdout, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};

use arrowwood::{Dataset, Error, ErrorKind};
use arrowwood_serve::{SqlEngine, SqlError, SqlMemory, SqlQuery, SqlTables};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result};

use crate::apart::frames::{FrameHeader, FrameKind, tell, write};
use crate::apart::limits::{limit_data, own_data, yield_to_others};
use crate::apart::memory_share::limit_of;
use crate::apart::messages::{
    EndMessage, ErrorMessage, PlanMessage, QueryMessage, RequestMessage, ResponseMessage, batch_of, schema_bytes,
};
use crate::apart::table_messages::{is_worth_another, opened};
use crate::engine::{QueryEngine, error_of};
use crate::exact_size::BufferOrigin;
use crate::result_budget::{MemorySource, anonymous_memory};

/// The first argument of the program as such a process; the second is the directory for temporary files.
pub const WORKER: &str = "sql-worker";

/// The bytes of rows that are sent at once, about.
const SENT: usize = 1 << 20;
/// A process that keeps more than this of a query, beyond what it had, answers no other.
const KEPT: u64 = 64 << 20;
/// The bytes of memory that are asked for at once, at least.
const ASKED: usize = 4 << 20;
/// How often a table is asked for whose rows are dropped or replaced meanwhile.
const TRIES: usize = 4;

/// Answers the queries that come through standard input, with `directory` for temporary files. What
/// `arrowwood-datafusion sql-worker` does, which [`ProcessEngine`](crate::ProcessEngine) starts.
pub fn run_worker(directory: &OsStr) -> ExitCode {
    match answer_all(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Without standard error there is nobody to tell.
            let _ = writeln!(io::stderr(), "arrowwood: {e}");
            ExitCode::FAILURE
        }
    }
}

fn answer_all(directory: &Path) -> arrowwood::Result<()> {
    let failed = |e: io::Error| Error::io("preparing a process for queries", &e);
    yield_to_others().map_err(failed)?;
    let (queries, next) = sync_channel(1);
    let (answers, answered) = sync_channel(1);
    let own = directory.to_path_buf();
    let listen = move || listen(BufReader::new(io::stdin()), &own, &queries, &answers);
    std::thread::Builder::new().name("arrowwood-sql-input".into()).spawn(listen).map_err(failed)?;
    let engine = QueryEngine::for_process(directory.to_path_buf())?;
    let line = Arc::new(ParentChannel { answered: Mutex::new(answered), output: Mutex::new(io::stdout()) });
    let first = own_data();
    while let Ok(query) = next.recv() {
        let error = answer(&engine, &line, query).err();
        let is_ready = error.is_none() && own_data() <= first.saturating_add(KEPT);
        let ended = EndMessage { error: error.as_ref().map(ErrorMessage::from_error), is_ready };
        if tell(&mut *line.output(), FrameKind::End, &ended).is_err() || !is_ready {
            break;
        }
    }
    Ok(())
}

/// Passes on what comes. Its end is that of the process, whatever that is doing.
fn listen(
    mut input: BufReader<Stdin>,
    directory: &Path,
    queries: &SyncSender<QueryMessage>,
    answers: &SyncSender<ResponseMessage>,
) {
    let mut next = || -> io::Result<bool> {
        let Some(head) = FrameHeader::read(&mut input)? else { return Ok(false) };
        Ok(match head.kind {
            FrameKind::Query => queries.send(head.message(&mut input)?).is_ok(),
            FrameKind::Response => answers.send(head.message(&mut input)?).is_ok(),
            _ => false,
        })
    };
    while matches!(next(), Ok(true)) {}
    let _ = std::fs::remove_dir_all(directory);
    std::process::exit(0);
}

/// The way to whoever has started the process.
struct ParentChannel {
    answered: Mutex<Receiver<ResponseMessage>>,
    output: Mutex<Stdout>,
}

impl ParentChannel {
    fn output(&self) -> MutexGuard<'_, Stdout> {
        self.output.lock_ignoring_poison()
    }

    fn ask(&self, asked: &RequestMessage) -> Result<ResponseMessage, SqlError> {
        let broken = || SqlError::Engine("whoever asks has gone".into());
        // Held until the answer is there, which is that to this question then.
        let answered = self.answered.lock_ignoring_poison();
        tell(&mut *self.output(), FrameKind::Request, asked).map_err(|_| broken())?;
        let answer = answered.recv().map_err(|_| broken())?;
        match answer.error {
            Some(error) => Err(error.error()),
            None => Ok(answer),
        }
    }
}

impl SqlTables for ParentChannel {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        Ok(self.ask(&RequestMessage::default())?.names)
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError> {
        let mut last = Error::new(ErrorKind::FileChanged, "its rows are dropped as they are looked for; ask again");
        let asked = RequestMessage { table: Some(name.to_owned()), ..Default::default() };
        for _ in 0..TRIES {
            let Some(rows) = self.ask(&asked)?.rows else { return Ok(None) };
            match opened(&rows) {
                Ok(rows) => return Ok(Some(rows)),
                Err(e) if is_worth_another(&e) => last = e,
                Err(e) => return Err(e.into()),
            }
        }
        Err(last.into())
    }

    fn path(&self, _: &str) -> Option<PathBuf> {
        None
    }
}

/// The memory of the query: what it has a share of, and more if whoever has started the process has it.
struct GrantedMemory {
    line: Arc<ParentChannel>,
    most: usize,
    /// What the process had before, as the system counts it, and what of that it used.
    before: (u64, u64),
    kept: Mutex<MemoryUsage>,
}

struct MemoryUsage {
    /// What steps of the query keep.
    bytes: usize,
    share: usize,
}

impl fmt::Debug for GrantedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted").field("most", &self.most).finish_non_exhaustive()
    }
}

impl GrantedMemory {
    /// The memory of a query that begins, in a process that is limited to that.
    fn begin(line: &Arc<ParentChannel>, message: &QueryMessage) -> io::Result<GrantedMemory> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let kept = Mutex::new(MemoryUsage { bytes: 0, share: size(message.share) });
        let before = (own_data(), anonymous_memory().unwrap_or(0));
        let granted = GrantedMemory { line: line.clone(), most: size(message.memory), before, kept };
        granted.limit(size(message.share))?;
        Ok(granted)
    }

    fn limit(&self, share: usize) -> io::Result<()> {
        limit_data(self.before.0.saturating_add(limit_of(share as u64)))
    }

    fn kept(&self) -> MutexGuard<'_, MemoryUsage> {
        self.kept.lock_ignoring_poison()
    }

    /// The most memory that the process may use.
    fn all(&self, share: usize) -> u64 {
        self.before.1.saturating_add(limit_of(share as u64))
    }

    /// Has a share of at least so many bytes more. False if others have them, or the query may not.
    fn grow(&self, kept: &mut MemoryUsage, bytes: usize) -> bool {
        // Not for each batch, nor more than there may be.
        let more = bytes.max(ASKED).min(self.most.saturating_sub(kept.share));
        let asked = RequestMessage { bytes: Some(more as u64), ..Default::default() };
        let is_granted = more >= bytes && self.line.ask(&asked).is_ok_and(|answer| answer.is_granted);
        if !is_granted || self.limit(kept.share + more).is_err() {
            return false;
        }
        kept.share += more;
        true
    }
}

impl MemorySource for GrantedMemory {
    fn more(&self, bytes: u64) -> Option<u64> {
        let mut kept = self.kept();
        // A process may have twice its share.
        let bytes = usize::try_from(bytes.div_ceil(2)).ok()?;
        self.grow(&mut kept, bytes).then(|| self.all(kept.share))
    }
}

impl SqlMemory for GrantedMemory {
    fn max_bytes(&self) -> usize {
        self.most
    }

    fn free(&self) -> usize {
        self.most.saturating_sub(self.kept().bytes)
    }

    fn take(&self, bytes: usize) -> bool {
        let mut kept = self.kept();
        let Some(all) = kept.bytes.checked_add(bytes).filter(|all| *all <= self.most) else { return false };
        let more = all.saturating_sub(kept.share);
        let is_there = more == 0 || self.grow(&mut kept, more);
        if is_there {
            kept.bytes = all;
        }
        is_there
    }

    fn release(&self, bytes: usize) {
        let mut kept = self.kept();
        kept.bytes = kept.bytes.saturating_sub(bytes);
    }
}

fn internal(error: &DataFusionError) -> SqlError {
    SqlError::Engine(format!("passing an answer on: {error}"))
}

fn gone(error: &io::Error) -> SqlError {
    SqlError::Engine(format!("telling whoever asks: {error}"))
}

fn answer(engine: &QueryEngine, line: &Arc<ParentChannel>, message: QueryMessage) -> Result<(), SqlError> {
    let memory = GrantedMemory::begin(line, &message);
    let memory = memory.map_err(|e| SqlError::Engine(format!("limiting the memory of a process: {e}")))?;
    let memory = Arc::new(memory);
    engine.result_budget().set_source(memory.all(memory.kept().share), memory.clone());
    let parameters = message.parameters.as_ref().map(|row| batch_of(row)).transpose().map_err(|e| internal(&e))?;
    let query = SqlQuery { text: message.text, parameters, tables: line.clone(), memory, most: message.most };
    engine.handle().block_on(async {
        if message.is_plan {
            let plan = engine.plan(query).await?;
            let bytes = |schema| schema_bytes(schema).map_err(|e| internal(&e));
            let planned = PlanMessage { schema: bytes(&plan.schema)?, parameters: bytes(&plan.parameters)? };
            return tell(&mut *line.output(), FrameKind::Plan, &planned).map_err(|e| gone(&e));
        }
        let mut rows = engine.run(query).await?;
        let mut sent = AnswerWriter::begin(line, &rows.schema())?;
        while let Some(batch) = rows.next().await? {
            for batch in batch.to_record_batches() {
                sent.send(&batch?)?;
            }
        }
        sent.finish()
    })
}

/// An answer on its way.
struct AnswerWriter<'a> {
    line: &'a ParentChannel,
    writer: StreamWriter<Vec<u8>>,
}

impl AnswerWriter<'_> {
    fn begin<'a>(
        line: &'a ParentChannel,
        schema: &datafusion::arrow::datatypes::Schema,
    ) -> Result<AnswerWriter<'a>, SqlError> {
        let writer = StreamWriter::try_new(Vec::new(), schema).map_err(|e| unsupported(&e))?;
        let mut sent = AnswerWriter { line, writer };
        sent.pass()?;
        Ok(sent)
    }

    /// Sends what was written.
    fn pass(&mut self) -> Result<(), SqlError> {
        let bytes = std::mem::take(self.writer.get_mut());
        write(&mut *self.line.output(), FrameKind::Rows, &bytes).map_err(|e| gone(&e))
    }

    /// Sends the end of the stream: without it, a last batch of no bytes would be none.
    fn finish(mut self) -> Result<(), SqlError> {
        self.writer.finish().map_err(|e| unsupported(&e))?;
        self.pass()
    }

    fn send(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let rows = batch.num_rows();
        let parts = batch.get_array_memory_size().div_ceil(SENT).clamp(1, rows.max(1));
        let size = rows.div_ceil(parts).max(1);
        for start in (0..rows).step_by(size) {
            let part = batch.slice(start, size.min(rows - start));
            // Of a slice alone, and not of all that it is of.
            let part = if parts > 1 { BufferOrigin::Owned.counted(&part).map_err(|e| unsupported(&e))? } else { part };
            self.writer.write(&part).map_err(|e| unsupported(&e))?;
            self.pass()?;
        }
        Ok(())
    }
}

fn unsupported(error: &ArrowError) -> SqlError {
    error_of(&DataFusionError::External(Box::new(Error::new(
        ErrorKind::Unsupported,
        format!("passing an answer on: {error}"),
    ))))
}
