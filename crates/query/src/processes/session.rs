//! [`ProcessSession`]: runs one query in a process, and answers the requests of the process.

use std::process::Child;
use std::sync::{Arc, Mutex};

use arrowwood::mapping::MutexExt;
use arrowwood_serve::{SqlError, SqlPlan, SqlTables};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::StreamDecoder;
use tokio::sync::{mpsc, oneshot};

use crate::engine::{to_sql_error, unfinished_error};
use crate::functions::ResultBudget;
use crate::processes::frames::{FrameHeader, FrameKind, write_message};
use crate::processes::memory_share::{MemoryShare, process_limit};
use crate::processes::messages::{
    EndMessage, ErrorMessage, PlanMessage, QueryMessage, RequestMessage, ResponseMessage, decode_schema,
};
use crate::processes::process_pool::{Process, ProcessPool, is_out_of_memory, reports_no_memory};
use crate::processes::table_messages::rows_message;

/// Kills the process of a query when the query is given up.
///
/// Two threads share a handle. The thread of the query [attaches](KillHandle::attach) the process before it sends the
/// query, and [detaches](KillHandle::detach) it before it returns the process to the pool. Whoever waits for the answer
/// [gives the query up](KillHandle::give_up) at any time. All three lock the state: so a query that is given up first
/// never starts, and a process that was detached first is not killed while it runs another query. The lock of the child
/// process is taken under the lock of the state.
#[derive(Default)]
pub(super) struct KillHandle(Mutex<KillState>);

#[derive(Default)]
struct KillState {
    is_given_up: bool,
    /// The process that works on the query; `None` before it is started and after it has finished.
    child: Option<Arc<Mutex<Child>>>,
}

impl KillHandle {
    /// Sets the process of the query. Returns false if the query was given up.
    fn attach(&self, process: &Process) -> bool {
        let mut state = self.0.lock_ignoring_poison();
        debug_assert!(state.child.is_none(), "a query has one process");
        state.child = Some(process.child());
        !state.is_given_up
    }

    /// Removes the process, which has finished the query. Returns false if the query was given up before and the
    /// process killed.
    fn detach(&self) -> bool {
        let mut state = self.0.lock_ignoring_poison();
        state.child = None;
        !state.is_given_up
    }

    /// Gives up the query and kills its process, if it has one.
    fn give_up(&self) {
        let mut state = self.0.lock_ignoring_poison();
        state.is_given_up = true;
        if let Some(child) = &state.child {
            // Fails if the process has ended by itself.
            let _ = child.lock_ignoring_poison().kill();
        }
    }
}

/// Gives up the query of a [`KillHandle`] when it is dropped.
pub(super) struct KillOnDrop(pub Arc<KillHandle>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// The receiver of an answer.
pub(super) enum AnswerSink {
    /// Receives the columns and parameters of a statement that is not run.
    Plan(oneshot::Sender<Result<SqlPlan, SqlError>>),
    /// Receives the columns, and then the batches. `schema` is `None` when the columns were sent: an error is then sent
    /// in place of a batch.
    Rows { schema: Option<oneshot::Sender<Result<SchemaRef, SqlError>>>, batches: mpsc::Sender<Batch> },
}

/// A batch of an answer, or `None` at its end.
type Batch = Result<Option<RecordBatch>, SqlError>;

impl AnswerSink {
    /// Ends the answer with an error. Sending fails if the receiver was dropped and needs none.
    fn fail(self, error: SqlError) {
        match self {
            AnswerSink::Plan(plan) => drop(plan.send(Err(error))),
            AnswerSink::Rows { schema: Some(schema), .. } => drop(schema.send(Err(error))),
            AnswerSink::Rows { schema: None, batches } => drop(batches.blocking_send(Err(error))),
        }
    }

    /// Ends the answer of a successful query.
    fn finish(self, plan: Option<SqlPlan>) {
        match self {
            AnswerSink::Plan(sender) => drop(sender.send(plan.ok_or_else(unfinished_error))),
            AnswerSink::Rows { batches, .. } => drop(batches.blocking_send(Ok(None))),
        }
    }
}

/// A query for a process, with everything that the process may request.
pub(super) struct ProcessSession {
    pub query: QueryMessage,
    pub tables: Arc<dyn SqlTables>,
    pub share: MemoryShare,
    pub kill_handle: Arc<KillHandle>,
    pub budget: Arc<ResultBudget>,
}

/// The end of a query, as its process reported it.
struct Completion {
    /// True if the process can answer another query.
    is_ready: bool,
    plan: Option<SqlPlan>,
}

impl ProcessSession {
    /// Runs the query in a process of the pool. Blocks until it ends or is given up.
    pub fn run(self, processes: &ProcessPool, mut sink: AnswerSink) {
        let mut process = match processes.take() {
            Ok(process) => process,
            Err(e) => {
                drop(self);
                return sink.fail(SqlError::Engine(format!("starting a process for a query: {e}")));
            }
        };
        if !self.kill_handle.attach(&process) {
            return;
        }

        let result = match write_message(&mut process.input, FrameKind::Query, &self.query) {
            Ok(()) => {
                processes.ensure_idle();
                self.exchange(&mut process, &mut sink)
            }
            Err(_) => Err(self.lost_process(&process)),
        };

        let is_alive = self.kill_handle.detach();
        // Free the process and the memory of the query before its end is reported, as the client may send another query
        // at once.
        if is_alive && result.as_ref().is_ok_and(|completion| completion.is_ready) {
            processes.give_back(process);
        } else {
            drop(process);
        }
        drop(self);

        match result {
            Ok(completion) => sink.finish(completion.plan),
            Err(error) => sink.fail(error),
        }
    }

    /// Kills a process that can't be reached any more, and returns the reason as an error.
    fn lost_process(&self, process: &Process) -> SqlError {
        let (status, stderr) = process.kill();
        if is_out_of_memory(status, &stderr) {
            return self.out_of_memory();
        }
        let status = status.map_or("without a status".to_owned(), |status| status.to_string());
        SqlError::Engine(format!("the process of a query has ended ({status}): {stderr}"))
    }

    fn out_of_memory(&self) -> SqlError {
        let limit = process_limit(self.share.bytes());
        SqlError::Memory(format!("its process got {limit} bytes, and no more of what queries share"))
    }

    /// Answers the requests of the process and passes its answer on, until the query ends.
    fn exchange(&self, process: &mut Process, sink: &mut AnswerSink) -> Result<Completion, SqlError> {
        let mut decoder = StreamDecoder::new();
        let mut plan = None;
        loop {
            let Ok(Some(header)) = FrameHeader::read(&mut process.output) else {
                return Err(self.lost_process(process));
            };
            let _reservation = self.budget.reserve(header.len.into(), "an answer").map_err(|e| to_sql_error(&e))?;
            match header.kind {
                FrameKind::Request => {
                    let request = header.read_message(&mut process.output).map_err(|_| self.lost_process(process))?;
                    let response = self.respond(&request);
                    write_message(&mut process.input, FrameKind::Response, &response)
                        .map_err(|_| self.lost_process(process))?;
                }
                FrameKind::Plan => {
                    let message = header.read_message(&mut process.output).map_err(|_| self.lost_process(process))?;
                    plan = Some(decode_plan(&message)?);
                }
                FrameKind::Rows => {
                    let bytes = header.read_content(&mut process.output).map_err(|_| self.lost_process(process))?;
                    if !pass_rows(&mut decoder, bytes, sink)? {
                        return Ok(Completion { is_ready: false, plan: None });
                    }
                }
                FrameKind::End => {
                    let end: EndMessage =
                        header.read_message(&mut process.output).map_err(|_| self.lost_process(process))?;
                    return match end.error {
                        Some(error) => Err(self.query_error(error, process)),
                        None => Ok(Completion { is_ready: end.is_ready, plan }),
                    };
                }
                FrameKind::Query | FrameKind::Response => return Err(unfinished_error()),
            }
        }
    }

    /// Returns the error of a query. A panic after the system refused memory is reported as lack of memory.
    fn query_error(&self, message: ErrorMessage, process: &Process) -> SqlError {
        match message.into_error() {
            SqlError::Engine(message) => {
                let stderr = process.stderr();
                if reports_no_memory(&message) || reports_no_memory(&stderr) {
                    return self.out_of_memory();
                }
                SqlError::Engine(if stderr.is_empty() { message } else { format!("{message}: {stderr}") })
            }
            other => other,
        }
    }

    /// Answers a request for tables or memory.
    fn respond(&self, request: &RequestMessage) -> ResponseMessage {
        if let Some(bytes) = request.bytes {
            return ResponseMessage { is_granted: self.share.grow(bytes), ..Default::default() };
        }
        let response = match &request.table {
            None => self.tables.names().map(|names| ResponseMessage { names, ..Default::default() }),
            Some(name) => self.find_table(name),
        };
        response.unwrap_or_else(|e| ResponseMessage { error: Some(ErrorMessage::from_error(&e)), ..Default::default() })
    }

    fn find_table(&self, name: &str) -> Result<ResponseMessage, SqlError> {
        let rows = match self.tables.rows(name)? {
            Some(rows) => Some(rows_message(&rows, self.tables.path(name).as_deref())?),
            None => None,
        };
        Ok(ResponseMessage { rows, ..Default::default() })
    }
}

fn decode_plan(message: &PlanMessage) -> Result<SqlPlan, SqlError> {
    let schema = decode_schema(&message.schema).map_err(|e| to_sql_error(&e))?;
    let parameters = decode_schema(&message.parameters).map_err(|e| to_sql_error(&e))?;
    Ok(SqlPlan { schema, parameters })
}

/// Decodes a part of the answer's stream and sends its batches to the receiver. Returns false if that was dropped.
fn pass_rows(decoder: &mut StreamDecoder, mut bytes: Buffer, sink: &mut AnswerSink) -> Result<bool, SqlError> {
    let AnswerSink::Rows { schema, batches } = sink else { return Err(unfinished_error()) };
    // The first part of the stream is the schema.
    if let Some(schema) = schema.take() {
        let columns = decode_schema(&bytes).map_err(|e| to_sql_error(&e))?;
        if schema.send(Ok(columns)).is_err() {
            return Ok(false);
        }
    }
    while !bytes.is_empty() {
        let batch = decoder.decode(&mut bytes).map_err(|e| SqlError::Engine(format!("reading an answer: {e}")))?;
        if let Some(batch) = batch
            && batches.blocking_send(Ok(Some(batch))).is_err()
        {
            return Ok(false);
        }
    }
    Ok(true)
}
