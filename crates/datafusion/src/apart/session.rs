//! [`ProcessSession`]: the exchange with the process that runs a query.

use std::process::Child;
use std::sync::{Arc, Mutex};

use arrowwood::mapping::MutexExt;
use arrowwood_serve::{SqlError, SqlPlan, SqlTables};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::StreamDecoder;
use tokio::sync::{mpsc, oneshot};

use crate::apart::frames::{FrameHeader, FrameKind, tell};
use crate::apart::memory_share::{MemoryShare, limit_of};
use crate::apart::messages::{
    EndMessage, ErrorMessage, PlanMessage, QueryMessage, RequestMessage, ResponseMessage, schema_of,
};
use crate::apart::process_pool::{Process, ProcessPool, is_out_of_memory, says_no_memory};
use crate::apart::table_messages::rows_message;
use crate::engine::{broken, error_of};
use crate::result_budget::ResultBudget;

/// Ends the process of a query when the query is given up.
#[derive(Default)]
pub(crate) struct KillHandle(Mutex<KillState>);

#[derive(Default)]
struct KillState {
    is_given_up: bool,
    child: Option<Arc<Mutex<Child>>>,
}

impl KillHandle {
    /// Notes the process of the query. Returns false if the query was given up.
    fn hold(&self, process: &Process) -> bool {
        let mut state = self.0.lock_ignoring_poison();
        debug_assert!(state.child.is_none(), "a query has one process");
        state.child = Some(process.child());
        !state.is_given_up
    }

    /// Forgets the process, which has done its work. Returns false if the query was given up before, and the process
    /// killed.
    fn release(&self) -> bool {
        let mut state = self.0.lock_ignoring_poison();
        state.child = None;
        !state.is_given_up
    }

    fn give_up(&self) {
        let mut state = self.0.lock_ignoring_poison();
        state.is_given_up = true;
        if let Some(child) = &state.child {
            // An error means that the process has ended.
            let _ = child.lock_ignoring_poison().kill();
        }
    }
}

/// Gives up the query of a [`KillHandle`] when it is dropped.
pub(crate) struct KillOnDrop(pub Arc<KillHandle>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// The receiver of an answer.
pub(crate) enum AnswerSink {
    Plan(oneshot::Sender<Result<SqlPlan, SqlError>>),
    Rows { schema: Option<oneshot::Sender<Result<SchemaRef, SqlError>>>, batches: mpsc::Sender<Batch> },
}

type Batch = Result<Option<RecordBatch>, SqlError>;

impl AnswerSink {
    /// Sends an error; an answer that was dropped needs none.
    fn fail(self, error: SqlError) {
        match self {
            AnswerSink::Plan(plan) => drop(plan.send(Err(error))),
            AnswerSink::Rows { schema: Some(schema), .. } => drop(schema.send(Err(error))),
            AnswerSink::Rows { schema: None, batches } => drop(batches.blocking_send(Err(error))),
        }
    }

    fn end(self, plan: Option<SqlPlan>) {
        match self {
            AnswerSink::Plan(sender) => drop(sender.send(plan.ok_or_else(broken))),
            AnswerSink::Rows { batches, .. } => drop(batches.blocking_send(Ok(None))),
        }
    }
}

/// A query for a process, and what the process needs for it.
pub(crate) struct ProcessSession {
    pub query: QueryMessage,
    pub tables: Arc<dyn SqlTables>,
    pub share: MemoryShare,
    pub leash: Arc<KillHandle>,
    pub budget: Arc<ResultBudget>,
}

/// The end of a query, as its process reported it.
struct Completion {
    /// True if the process can answer another query.
    is_ready: bool,
    plan: Option<SqlPlan>,
}

impl ProcessSession {
    /// Has a process answer the query. Blocks until it has, or the query is given up.
    pub fn run(self, processes: &ProcessPool, mut sink: AnswerSink) {
        let mut process = match processes.take() {
            Ok(process) => process,
            Err(e) => {
                drop(self);
                return sink.fail(SqlError::Engine(format!("starting a process for a query: {e}")));
            }
        };
        if !self.leash.hold(&process) {
            return;
        }
        let done = match tell(&mut process.input, FrameKind::Query, &self.query) {
            Ok(()) => {
                processes.prepare();
                self.listen(&mut process, &mut sink)
            }
            Err(_) => Err(self.lost(&process)),
        };
        let is_wanted = self.leash.release();
        // A client that hears of the end may send another query at once: nothing of this one may be left then.
        if is_wanted && done.as_ref().is_ok_and(|done| done.is_ready) {
            processes.give_back(process);
        } else {
            drop(process);
        }
        drop(self);
        match done {
            Ok(done) => sink.end(done.plan),
            Err(error) => sink.fail(error),
        }
    }

    /// Ends a process that cannot be reached any more, and returns the reason as an error.
    fn lost(&self, process: &Process) -> SqlError {
        let (status, said) = process.end();
        if is_out_of_memory(status, &said) {
            return self.out_of_memory();
        }
        let status = status.map_or("without a status".to_owned(), |status| status.to_string());
        SqlError::Engine(format!("the process of a query has ended ({status}): {said}"))
    }

    fn out_of_memory(&self) -> SqlError {
        let limit = limit_of(self.share.bytes());
        SqlError::Memory(format!("its process got {limit} bytes, and no more of what queries share"))
    }

    fn listen(&self, process: &mut Process, sink: &mut AnswerSink) -> Result<Completion, SqlError> {
        let mut decoder = StreamDecoder::new();
        let mut plan = None;
        loop {
            let Ok(Some(head)) = FrameHeader::read(&mut process.output) else { return Err(self.lost(process)) };
            let _reserved = self.budget.reserve(head.len.into(), "an answer").map_err(|e| error_of(&e))?;
            match head.kind {
                FrameKind::Request => {
                    let request = head.message(&mut process.output).map_err(|_| self.lost(process))?;
                    let answer = self.answer(&request);
                    tell(&mut process.input, FrameKind::Response, &answer).map_err(|_| self.lost(process))?;
                }
                FrameKind::Plan => {
                    let planned = head.message(&mut process.output).map_err(|_| self.lost(process))?;
                    plan = Some(plan_of(&planned)?);
                }
                FrameKind::Rows => {
                    let bytes = head.rows(&mut process.output).map_err(|_| self.lost(process))?;
                    if !pass_rows(&mut decoder, bytes, sink)? {
                        return Ok(Completion { is_ready: false, plan: None });
                    }
                }
                FrameKind::End => {
                    let ended: EndMessage = head.message(&mut process.output).map_err(|_| self.lost(process))?;
                    return match ended.error {
                        Some(error) => Err(self.error(error, process)),
                        None => Ok(Completion { is_ready: ended.is_ready, plan }),
                    };
                }
                FrameKind::Query | FrameKind::Response => return Err(broken()),
            }
        }
    }

    /// Returns the error of a query. A panic after the system refused memory is not an error of the engine.
    fn error(&self, message: ErrorMessage, process: &Process) -> SqlError {
        match message.error() {
            SqlError::Engine(message) => {
                let said = process.said();
                if says_no_memory(&message) || says_no_memory(&said) {
                    return self.out_of_memory();
                }
                SqlError::Engine(if said.is_empty() { message } else { format!("{message}: {said}") })
            }
            other => other,
        }
    }

    /// Answers a request for tables or memory.
    fn answer(&self, request: &RequestMessage) -> ResponseMessage {
        if let Some(bytes) = request.bytes {
            return ResponseMessage { is_granted: self.share.grow(bytes), ..Default::default() };
        }
        let answered = match &request.table {
            None => self.tables.names().map(|names| ResponseMessage { names, ..Default::default() }),
            Some(name) => self.tables.rows(name).and_then(|rows| {
                let path = self.tables.path(name);
                let rows = rows.map(|rows| rows_message(&rows, path.as_deref())).transpose()?;
                Ok(ResponseMessage { rows, ..Default::default() })
            }),
        };
        answered.unwrap_or_else(|e| ResponseMessage { error: Some(ErrorMessage::from_error(&e)), ..Default::default() })
    }
}

fn plan_of(planned: &PlanMessage) -> Result<SqlPlan, SqlError> {
    let schema = schema_of(&planned.schema).map_err(|e| error_of(&e))?;
    let parameters = schema_of(&planned.parameters).map_err(|e| error_of(&e))?;
    Ok(SqlPlan { schema, parameters })
}

/// Passes rows on. Returns false if the receiver was dropped.
fn pass_rows(decoder: &mut StreamDecoder, mut bytes: Buffer, sink: &mut AnswerSink) -> Result<bool, SqlError> {
    let AnswerSink::Rows { schema, batches } = sink else { return Err(broken()) };
    // The first part is the columns.
    if let Some(schema) = schema.take() {
        let columns = schema_of(&bytes).map_err(|e| error_of(&e))?;
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
