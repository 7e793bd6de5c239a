//! The query process: runs queries one after the other, until its standard input ends.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufReader, Stdin, Stdout, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};

use arrowwood::mapping::MutexExt;
use arrowwood::mapping::os::anonymous_memory;
use arrowwood::{Dataset, Error, ErrorKind};
use arrowwood_datafusion::shrink_to_fit;
use arrowwood_serve::{SqlEngine, SqlError, SqlMemory, SqlQuery, SqlTables};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result};

use crate::engine::{QueryEngine, to_sql_error};
use crate::functions::{MemorySource, UNKNOWN_BYTES};
use crate::processes::frames::{FrameHeader, FrameKind, write_frame, write_message};
use crate::processes::limits::{data_bytes, limit_data, yield_to_others};
use crate::processes::memory_share::{PROCESS_FACTOR, process_limit};
use crate::processes::messages::{
    EndMessage, ErrorMessage, PlanMessage, QueryMessage, RequestMessage, ResponseMessage, decode_batch, encode_schema,
};
use crate::processes::table_messages::{is_retryable, open_rows};

/// The first argument of the program when it is started as a query process. The second one is the directory for
/// temporary files.
pub const WORKER: &str = "sql-worker";

/// The approximate bytes of rows in a frame.
const FRAME_BYTES: usize = 1 << 20;
/// A process that has grown by more than this after a query exits, rather than wait for another query.
const MAX_RETAINED_BYTES: u64 = 64 << 20;
/// The minimum bytes of memory to request at once, so that requests are rare.
const MIN_REQUEST_BYTES: usize = 4 << 20;
/// The maximum number of attempts to open a table whose rows are dropped or replaced meanwhile.
const MAX_OPEN_ATTEMPTS: usize = 4;

/// Runs the queries that arrive at standard input, with `directory` for temporary files. This is
/// `arrowwood-datafusion sql-worker`, which [`ProcessEngine`](crate::ProcessEngine) starts.
pub fn run_query_process(directory: &OsStr) -> ExitCode {
    match run_queries(Path::new(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // A failed write to standard error can be reported nowhere.
            let _ = writeln!(io::stderr(), "arrowwood: {e}");
            ExitCode::FAILURE
        }
    }
}

fn setup_error(error: io::Error) -> Error {
    Error::io("preparing a process for queries", &error)
}

fn run_queries(directory: &Path) -> arrowwood::Result<()> {
    yield_to_others().map_err(setup_error)?;
    let (query_sender, queries) = sync_channel(1);
    let (response_sender, responses) = sync_channel(1);
    let temporary = directory.to_path_buf();
    std::thread::Builder::new()
        .name("arrowwood-sql-input".into())
        .spawn(move || read_input(BufReader::new(io::stdin()), &temporary, &query_sender, &response_sender))
        .map_err(setup_error)?;
    let engine = QueryEngine::for_process(directory.to_path_buf())?;
    let parent = Arc::new(ParentChannel { responses: Mutex::new(responses), output: Mutex::new(io::stdout()) });
    let initial_bytes = data_bytes();
    while let Ok(query) = queries.recv() {
        let error = run_query(&engine, &parent, query).err();
        let is_ready = error.is_none() && data_bytes() <= initial_bytes.saturating_add(MAX_RETAINED_BYTES);
        let end = EndMessage { error: error.as_ref().map(ErrorMessage::from_error), is_ready };
        if write_message(&mut *parent.output(), FrameKind::End, &end).is_err() || !is_ready {
            break;
        }
    }
    Ok(())
}

/// Forwards the frames of standard input to `queries` and `responses`. Exits the process at the end of the input,
/// whatever else it is doing.
fn read_input(
    mut input: BufReader<Stdin>,
    directory: &Path,
    queries: &SyncSender<QueryMessage>,
    responses: &SyncSender<ResponseMessage>,
) {
    while matches!(forward_frame(&mut input, queries, responses), Ok(true)) {}
    let _ = std::fs::remove_dir_all(directory);
    std::process::exit(0);
}

/// Forwards the next frame. Returns false if there is none, or it is unexpected.
fn forward_frame(
    input: &mut BufReader<Stdin>,
    queries: &SyncSender<QueryMessage>,
    responses: &SyncSender<ResponseMessage>,
) -> io::Result<bool> {
    let Some(header) = FrameHeader::read(input)? else { return Ok(false) };
    Ok(match header.kind {
        FrameKind::Query => queries.send(header.read_message(input)?).is_ok(),
        FrameKind::Response => responses.send(header.read_message(input)?).is_ok(),
        _ => false,
    })
}

fn parent_gone() -> SqlError {
    SqlError::Engine("whoever asks has gone".into())
}

/// The connection to the process that started this one.
///
/// Any thread of a query may send a request, and another one may send rows at the same time. `output` is locked for one
/// frame, and `responses` for a request until its response, which the thread of [`read_input`] hands on. A thread that
/// needs both locks takes `responses` first.
struct ParentChannel {
    responses: Mutex<Receiver<ResponseMessage>>,
    output: Mutex<Stdout>,
}

impl ParentChannel {
    fn output(&self) -> MutexGuard<'_, Stdout> {
        self.output.lock_ignoring_poison()
    }

    fn request(&self, request: &RequestMessage) -> Result<ResponseMessage, SqlError> {
        // Locked until the response arrives, so that no other thread receives it.
        let responses = self.responses.lock_ignoring_poison();
        write_message(&mut *self.output(), FrameKind::Request, request).map_err(|_| parent_gone())?;
        let response = responses.recv().map_err(|_| parent_gone())?;
        match response.error {
            Some(error) => Err(error.into_error()),
            None => Ok(response),
        }
    }
}

impl SqlTables for ParentChannel {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        Ok(self.request(&RequestMessage::default())?.names)
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError> {
        let mut last_error =
            Error::new(ErrorKind::FileChanged, "its rows are dropped as they are looked for; ask again");
        let request = RequestMessage { table: Some(name.to_owned()), ..Default::default() };
        for _ in 0..MAX_OPEN_ATTEMPTS {
            let Some(message) = self.request(&request)?.rows else { return Ok(None) };
            match open_rows(&message) {
                Ok(rows) => return Ok(Some(rows)),
                Err(e) if is_retryable(&e) => last_error = e,
                Err(e) => return Err(e.into()),
            }
        }
        Err(last_error.into())
    }

    fn path(&self, _: &str) -> Option<PathBuf> {
        None
    }
}

/// The memory of a query: its share, and what the parent grants on request.
///
/// `usage` is locked during a request for more memory, so that two threads do not request it for the same bytes; the
/// locks of [`ParentChannel`] are taken after it.
struct GrantedMemory {
    parent: Arc<ParentChannel>,
    max_bytes: usize,
    /// The data size of the process before the query.
    initial_data_bytes: u64,
    /// The part of [`Self::initial_data_bytes`] that was in use.
    initial_used_bytes: u64,
    usage: Mutex<MemoryUsage>,
}

struct MemoryUsage {
    /// The bytes that operators of the query retain.
    bytes: usize,
    /// The bytes that they may retain without another request.
    share: usize,
}

impl fmt::Debug for GrantedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantedMemory").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

impl GrantedMemory {
    /// Creates the memory of a new query, and limits the process to its share.
    fn try_new(parent: &Arc<ParentChannel>, message: &QueryMessage) -> io::Result<GrantedMemory> {
        let share = usize::try_from(message.share).unwrap_or(usize::MAX);
        let memory = GrantedMemory {
            parent: parent.clone(),
            max_bytes: usize::try_from(message.max_bytes).unwrap_or(usize::MAX),
            initial_data_bytes: data_bytes(),
            initial_used_bytes: anonymous_memory().unwrap_or(UNKNOWN_BYTES),
            usage: Mutex::new(MemoryUsage { bytes: 0, share }),
        };
        memory.limit_process(share)?;
        Ok(memory)
    }

    fn limit_process(&self, share: usize) -> io::Result<()> {
        limit_data(self.initial_data_bytes.saturating_add(process_limit(share as u64)))
    }

    fn usage(&self) -> MutexGuard<'_, MemoryUsage> {
        self.usage.lock_ignoring_poison()
    }

    /// Returns the maximum bytes that the process may use with a share.
    fn max_used_bytes(&self, share: usize) -> u64 {
        self.initial_used_bytes.saturating_add(process_limit(share as u64))
    }

    /// Grows the share by at least `bytes`. Returns false if other queries use the memory, or this one would exceed its
    /// maximum.
    fn grow(&self, usage: &mut MemoryUsage, bytes: usize) -> bool {
        assert!(usage.share <= self.max_bytes, "a share of {} bytes of {}", usage.share, self.max_bytes);
        let growth = bytes.max(MIN_REQUEST_BYTES).min(self.max_bytes - usage.share);
        if growth < bytes {
            return false;
        }
        let request = RequestMessage { bytes: Some(growth as u64), ..Default::default() };
        let is_granted = self.parent.request(&request).is_ok_and(|response| response.is_granted);
        if !is_granted || self.limit_process(usage.share + growth).is_err() {
            return false;
        }
        usage.share += growth;
        true
    }
}

impl MemorySource for GrantedMemory {
    fn request(&self, bytes: u64) -> Option<u64> {
        let mut usage = self.usage();
        // A process may use more than its share.
        let bytes = usize::try_from(bytes.div_ceil(PROCESS_FACTOR)).ok()?;
        self.grow(&mut usage, bytes).then(|| self.max_used_bytes(usage.share))
    }
}

impl SqlMemory for GrantedMemory {
    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn free(&self) -> usize {
        self.max_bytes.saturating_sub(self.usage().bytes)
    }

    fn take(&self, bytes: usize) -> bool {
        let mut usage = self.usage();
        let Some(total) = usage.bytes.checked_add(bytes).filter(|total| *total <= self.max_bytes) else {
            return false;
        };
        if total > usage.share {
            let missing = total - usage.share;
            if !self.grow(&mut usage, missing) {
                return false;
            }
        }
        assert!(total <= usage.share, "{total} bytes are taken of a share of {}", usage.share);
        usage.bytes = total;
        true
    }

    fn release(&self, bytes: usize) {
        let mut usage = self.usage();
        debug_assert!(bytes <= usage.bytes, "{bytes} bytes are released of {}", usage.bytes);
        usage.bytes = usage.bytes.saturating_sub(bytes);
    }
}

fn encoding_error(error: &DataFusionError) -> SqlError {
    SqlError::Engine(format!("passing an answer on: {error}"))
}

fn write_error(error: &io::Error) -> SqlError {
    SqlError::Engine(format!("telling whoever asks: {error}"))
}

/// Runs a query and sends its answer to the parent, apart from its end.
fn run_query(engine: &QueryEngine, parent: &Arc<ParentChannel>, message: QueryMessage) -> Result<(), SqlError> {
    let memory = GrantedMemory::try_new(parent, &message);
    let memory = memory.map_err(|e| SqlError::Engine(format!("limiting the memory of a process: {e}")))?;
    let memory = Arc::new(memory);
    engine.result_budget().set_source(memory.max_used_bytes(memory.usage().share), memory.clone());
    let parameters =
        message.parameters.as_ref().map(|row| decode_batch(row)).transpose().map_err(|e| encoding_error(&e))?;
    let query = SqlQuery { text: message.text, parameters, tables: parent.clone(), memory, most: message.max_rows };
    engine.handle().block_on(async {
        if message.is_plan {
            let plan = engine.plan(query).await?;
            let message = PlanMessage {
                schema: encode_schema(&plan.schema).map_err(|e| encoding_error(&e))?,
                parameters: encode_schema(&plan.parameters).map_err(|e| encoding_error(&e))?,
            };
            return write_message(&mut *parent.output(), FrameKind::Plan, &message).map_err(|e| write_error(&e));
        }
        let mut rows = engine.run(query).await?;
        let mut writer = AnswerWriter::start(parent, &rows.schema())?;
        while let Some(batch) = rows.next().await? {
            for batch in batch.to_record_batches() {
                writer.write(&batch?)?;
            }
        }
        writer.finish()
    })
}

/// Writes the rows of an answer to the parent, as an Arrow IPC stream in frames.
struct AnswerWriter<'a> {
    parent: &'a ParentChannel,
    stream: StreamWriter<Vec<u8>>,
}

impl AnswerWriter<'_> {
    fn start<'a>(
        parent: &'a ParentChannel,
        schema: &datafusion::arrow::datatypes::Schema,
    ) -> Result<AnswerWriter<'a>, SqlError> {
        let stream = StreamWriter::try_new(Vec::new(), schema).map_err(|e| unsupported_error(&e))?;
        let mut writer = AnswerWriter { parent, stream };
        writer.send_frame()?;
        Ok(writer)
    }

    /// Sends the buffered part of the stream as a frame.
    fn send_frame(&mut self) -> Result<(), SqlError> {
        let bytes = std::mem::take(self.stream.get_mut());
        write_frame(&mut *self.parent.output(), FrameKind::Rows, &bytes).map_err(|e| write_error(&e))
    }

    /// Sends the end of the stream. The decoder needs it to return a last batch without data.
    fn finish(mut self) -> Result<(), SqlError> {
        self.stream.finish().map_err(|e| unsupported_error(&e))?;
        self.send_frame()
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let rows = batch.num_rows();
        let count = batch.get_array_memory_size().div_ceil(FRAME_BYTES).clamp(1, rows.max(1));
        let slice_rows = rows.div_ceil(count).max(1);
        for start in (0..rows).step_by(slice_rows) {
            let mut slice = batch.slice(start, slice_rows.min(rows - start));
            if count > 1 {
                // Copy the slice, as the writer would write whole buffers.
                slice = shrink_to_fit(&slice).map_err(|e| unsupported_error(&e))?;
            }
            self.stream.write(&slice).map_err(|e| unsupported_error(&e))?;
            self.send_frame()?;
        }
        Ok(())
    }
}

fn unsupported_error(error: &ArrowError) -> SqlError {
    to_sql_error(&DataFusionError::External(Box::new(Error::new(
        ErrorKind::Unsupported,
        format!("passing an answer on: {error}"),
    ))))
}
