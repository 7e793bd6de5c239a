//! The query process: answers queries one after the other, until its standard input ends.

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
use crate::result_budget::{MemorySource, UNKNOWN_BYTES, anonymous_memory};

/// The first argument of the program as such a process; the second is the directory for temporary files.
pub const WORKER: &str = "sql-worker";

/// The bytes of rows that are sent at once, about.
const SENT: usize = 1 << 20;
/// A process that keeps more than this of a query, beyond what it had, answers no other.
const KEPT: u64 = 64 << 20;
/// The bytes of memory that are asked for at once, at least.
const ASKED: usize = 4 << 20;
/// The number of attempts at a table whose rows are dropped or replaced meanwhile.
const TRIES: usize = 4;

/// Answers the queries that come through standard input, with `directory` for temporary files. This is
/// `arrowwood-datafusion sql-worker`, which [`ProcessEngine`](crate::ProcessEngine) starts.
pub fn run_query_process(directory: &OsStr) -> ExitCode {
    match answer_all(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // A failed write to standard error can be reported nowhere.
            let _ = writeln!(io::stderr(), "arrowwood: {e}");
            ExitCode::FAILURE
        }
    }
}

fn preparing(error: io::Error) -> Error {
    Error::io("preparing a process for queries", &error)
}

fn answer_all(directory: &Path) -> arrowwood::Result<()> {
    yield_to_others().map_err(preparing)?;
    let (queries, next) = sync_channel(1);
    let (answers, answered) = sync_channel(1);
    let temporary = directory.to_path_buf();
    std::thread::Builder::new()
        .name("arrowwood-sql-input".into())
        .spawn(move || listen(BufReader::new(io::stdin()), &temporary, &queries, &answers))
        .map_err(preparing)?;
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

/// Passes on the frames of standard input. The end of the input ends the process, whatever it is doing.
fn listen(
    mut input: BufReader<Stdin>,
    directory: &Path,
    queries: &SyncSender<QueryMessage>,
    answers: &SyncSender<ResponseMessage>,
) {
    while matches!(pass_frame(&mut input, queries, answers), Ok(true)) {}
    let _ = std::fs::remove_dir_all(directory);
    std::process::exit(0);
}

/// Passes the next frame on. Returns false if there is none, or it is unexpected.
fn pass_frame(
    input: &mut BufReader<Stdin>,
    queries: &SyncSender<QueryMessage>,
    answers: &SyncSender<ResponseMessage>,
) -> io::Result<bool> {
    let Some(head) = FrameHeader::read(input)? else { return Ok(false) };
    Ok(match head.kind {
        FrameKind::Query => queries.send(head.message(input)?).is_ok(),
        FrameKind::Response => answers.send(head.message(input)?).is_ok(),
        _ => false,
    })
}

fn parent_gone() -> SqlError {
    SqlError::Engine("whoever asks has gone".into())
}

/// The connection to the process that has started this one.
struct ParentChannel {
    answered: Mutex<Receiver<ResponseMessage>>,
    output: Mutex<Stdout>,
}

impl ParentChannel {
    fn output(&self) -> MutexGuard<'_, Stdout> {
        self.output.lock_ignoring_poison()
    }

    fn ask(&self, request: &RequestMessage) -> Result<ResponseMessage, SqlError> {
        // Held until the answer is there, so that it answers this request.
        let answered = self.answered.lock_ignoring_poison();
        tell(&mut *self.output(), FrameKind::Request, request).map_err(|_| parent_gone())?;
        let answer = answered.recv().map_err(|_| parent_gone())?;
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
        let request = RequestMessage { table: Some(name.to_owned()), ..Default::default() };
        for _ in 0..TRIES {
            let Some(rows) = self.ask(&request)?.rows else { return Ok(None) };
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

/// The memory of the query: its share, and more if the process that started this one grants it.
struct GrantedMemory {
    line: Arc<ParentChannel>,
    most: usize,
    /// The memory of the process before the query, as the system limits it.
    data_before: u64,
    /// The part of [`Self::data_before`] that the process used.
    used_before: u64,
    usage: Mutex<MemoryUsage>,
}

struct MemoryUsage {
    /// The bytes that steps of the query keep.
    bytes: usize,
    share: usize,
}

impl fmt::Debug for GrantedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted").field("most", &self.most).finish_non_exhaustive()
    }
}

impl GrantedMemory {
    /// Creates the memory of a query that begins, and limits the process to it.
    fn begin(line: &Arc<ParentChannel>, message: &QueryMessage) -> io::Result<GrantedMemory> {
        let share = usize::try_from(message.share).unwrap_or(usize::MAX);
        let granted = GrantedMemory {
            line: line.clone(),
            most: usize::try_from(message.memory).unwrap_or(usize::MAX),
            data_before: own_data(),
            used_before: anonymous_memory().unwrap_or(UNKNOWN_BYTES),
            usage: Mutex::new(MemoryUsage { bytes: 0, share }),
        };
        granted.limit(share)?;
        Ok(granted)
    }

    fn limit(&self, share: usize) -> io::Result<()> {
        limit_data(self.data_before.saturating_add(limit_of(share as u64)))
    }

    fn usage(&self) -> MutexGuard<'_, MemoryUsage> {
        self.usage.lock_ignoring_poison()
    }

    /// Returns the maximum memory that the process may use.
    fn all(&self, share: usize) -> u64 {
        self.used_before.saturating_add(limit_of(share as u64))
    }

    /// Grows the share by at least `bytes`. Returns false if other queries have them, or the query may not have them.
    fn grow(&self, usage: &mut MemoryUsage, bytes: usize) -> bool {
        // A minimum, to ask seldom, and no more than the query may have.
        let more = bytes.max(ASKED).min(self.most.saturating_sub(usage.share));
        let request = RequestMessage { bytes: Some(more as u64), ..Default::default() };
        let is_granted = more >= bytes && self.line.ask(&request).is_ok_and(|answer| answer.is_granted);
        if !is_granted || self.limit(usage.share + more).is_err() {
            return false;
        }
        usage.share += more;
        true
    }
}

impl MemorySource for GrantedMemory {
    fn more(&self, bytes: u64) -> Option<u64> {
        let mut usage = self.usage();
        // A process may have twice its share.
        let bytes = usize::try_from(bytes.div_ceil(2)).ok()?;
        self.grow(&mut usage, bytes).then(|| self.all(usage.share))
    }
}

impl SqlMemory for GrantedMemory {
    fn max_bytes(&self) -> usize {
        self.most
    }

    fn free(&self) -> usize {
        self.most.saturating_sub(self.usage().bytes)
    }

    fn take(&self, bytes: usize) -> bool {
        let mut usage = self.usage();
        let Some(all) = usage.bytes.checked_add(bytes).filter(|all| *all <= self.most) else { return false };
        if all > usage.share {
            let more = all - usage.share;
            if !self.grow(&mut usage, more) {
                return false;
            }
        }
        usage.bytes = all;
        true
    }

    fn release(&self, bytes: usize) {
        let mut usage = self.usage();
        debug_assert!(bytes <= usage.bytes, "{bytes} bytes are released of {}", usage.bytes);
        usage.bytes = usage.bytes.saturating_sub(bytes);
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
    engine.result_budget().set_source(memory.all(memory.usage().share), memory.clone());
    let parameters = message.parameters.as_ref().map(|row| batch_of(row)).transpose().map_err(|e| internal(&e))?;
    let query = SqlQuery { text: message.text, parameters, tables: line.clone(), memory, most: message.most };
    engine.handle().block_on(async {
        if message.is_plan {
            let plan = engine.plan(query).await?;
            let schema = schema_bytes(&plan.schema).map_err(|e| internal(&e))?;
            let parameters = schema_bytes(&plan.parameters).map_err(|e| internal(&e))?;
            let planned = PlanMessage { schema, parameters };
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
            // The writer writes all of a buffer, of which a slice has a part.
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
