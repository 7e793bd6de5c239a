//! What is told to the process of a query, and what it tells.

use std::process::Child;
use std::sync::{Arc, Mutex};

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
use crate::apart::process_pool::{Process, ProcessPool, is_out_of_memory, lock, says_no_memory};
use crate::apart::table_messages::told;
use crate::engine::{broken, error_of};
use crate::result_budget::ResultBudget;

/// Ends the process of a query when that is given up.
#[derive(Default)]
pub(crate) struct KillHandle(Mutex<KillState>);

#[derive(Default)]
struct KillState {
    is_given_up: bool,
    child: Option<Arc<Mutex<Child>>>,
}

impl KillHandle {
    /// The process of the query. False if that was given up.
    fn hold(&self, process: &Process) -> bool {
        let mut held = lock(&self.0);
        held.child = Some(process.child());
        !held.is_given_up
    }

    /// The process has done its work. False if the query was given up before, and the process ended.
    fn release(&self) -> bool {
        let mut held = lock(&self.0);
        held.child = None;
        !held.is_given_up
    }

    fn give_up(&self) {
        let mut held = lock(&self.0);
        held.is_given_up = true;
        if let Some(child) = &held.child {
            // It may have ended.
            let _ = lock(child).kill();
        }
    }
}

/// The query of a leash is wanted as long as this is not dropped.
pub(crate) struct KillOnDrop(pub Arc<KillHandle>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// Where the answer goes.
pub(crate) enum AnswerSink {
    Plan(oneshot::Sender<Result<SqlPlan, SqlError>>),
    Rows { schema: Option<oneshot::Sender<Result<SchemaRef, SqlError>>>, batches: mpsc::Sender<Batch> },
}

type Batch = Result<Option<RecordBatch>, SqlError>;

impl AnswerSink {
    /// An error, unless nobody listens.
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

/// A query for a process.
pub(crate) struct ProcessSession {
    pub query: QueryMessage,
    pub tables: Arc<dyn SqlTables>,
    pub share: MemoryShare,
    pub leash: Arc<KillHandle>,
    pub most: Arc<ResultBudget>,
}

/// What a process has told at the end of a query.
struct Completion {
    /// Whether it answers others.
    is_ready: bool,
    plan: Option<SqlPlan>,
}

impl ProcessSession {
    /// Has the query answered. Blocks until it is, or given up.
    pub fn run(self, processes: &ProcessPool, mut told: AnswerSink) {
        let mut process = match processes.take() {
            Ok(process) => process,
            Err(e) => {
                drop(self);
                return told.fail(SqlError::Engine(format!("starting a process for a query: {e}")));
            }
        };
        if !self.leash.hold(&process) {
            return;
        }
        let done = match tell(&mut process.input, FrameKind::Query, &self.query) {
            Ok(()) => {
                processes.prepare();
                self.listen(&mut process, &mut told)
            }
            Err(_) => Err(self.lost(&process)),
        };
        let is_wanted = self.leash.release();
        // Whoever hears of the end may ask again at once: nothing of the query is left then.
        if is_wanted && done.as_ref().is_ok_and(|done| done.is_ready) {
            processes.give_back(process);
        } else {
            drop(process);
        }
        drop(self);
        match done {
            Ok(done) => told.end(done.plan),
            Err(error) => told.fail(error),
        }
    }

    /// Why a process tells nothing any more.
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

    fn listen(&self, process: &mut Process, told: &mut AnswerSink) -> Result<Completion, SqlError> {
        let mut decoder = StreamDecoder::new();
        let mut plan = None;
        loop {
            let Ok(Some(head)) = FrameHeader::read(&mut process.output) else { return Err(self.lost(process)) };
            let _reserved = self.most.reserve(head.len.into(), "an answer").map_err(|e| error_of(&e))?;
            match head.kind {
                FrameKind::Request => {
                    let asked = head.message(&mut process.output).map_err(|_| self.lost(process))?;
                    let answer = self.answer(&asked);
                    tell(&mut process.input, FrameKind::Response, &answer).map_err(|_| self.lost(process))?;
                }
                FrameKind::Plan => {
                    let planned = head.message(&mut process.output).map_err(|_| self.lost(process))?;
                    plan = Some(plan_of(&planned)?);
                }
                FrameKind::Rows => {
                    let bytes = head.rows(&mut process.output).map_err(|_| self.lost(process))?;
                    if !pass_rows(&mut decoder, bytes, told)? {
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

    /// The error of a query. A panic where the system has refused memory is none of the engine's.
    fn error(&self, message: ErrorMessage, process: &Process) -> SqlError {
        match message.error() {
            SqlError::Engine(told) => {
                let said = process.said();
                if says_no_memory(&told) || says_no_memory(&said) {
                    return self.out_of_memory();
                }
                SqlError::Engine(if said.is_empty() { told } else { format!("{told}: {said}") })
            }
            other => other,
        }
    }

    /// What a process is told of the tables, and of memory.
    fn answer(&self, asked: &RequestMessage) -> ResponseMessage {
        if let Some(bytes) = asked.bytes {
            return ResponseMessage { is_granted: self.share.grow(bytes), ..Default::default() };
        }
        let answered = match &asked.table {
            None => self.tables.names().map(|names| ResponseMessage { names, ..Default::default() }),
            Some(name) => self.tables.rows(name).and_then(|rows| {
                let path = self.tables.path(name);
                let rows = rows.map(|rows| told(&rows, path.as_deref())).transpose()?;
                Ok(ResponseMessage { rows, ..Default::default() })
            }),
        };
        answered.unwrap_or_else(|e| ResponseMessage { error: Some(ErrorMessage::from_error(&e)), ..Default::default() })
    }
}

fn plan_of(planned: &PlanMessage) -> Result<SqlPlan, SqlError> {
    let schema = |bytes| schema_of(bytes).map_err(|e| error_of(&e));
    Ok(SqlPlan { schema: schema(&planned.schema)?, parameters: schema(&planned.parameters)? })
}

/// Passes rows on. False if nobody listens.
fn pass_rows(decoder: &mut StreamDecoder, mut bytes: Buffer, told: &mut AnswerSink) -> Result<bool, SqlError> {
    let AnswerSink::Rows { schema, batches } = told else { return Err(broken()) };
    // The first part is the columns.
    if let Some(schema) = schema.take() {
        let known = schema_of(&bytes).map_err(|e| error_of(&e))?;
        if schema.send(Ok(known)).is_err() {
            return Ok(false);
        }
    }
    while !bytes.is_empty() {
        let failed = |e| SqlError::Engine(format!("reading an answer: {e}"));
        let batch = decoder.decode(&mut bytes).map_err(failed)?;
        if let Some(batch) = batch
            && batches.blocking_send(Ok(Some(batch))).is_err()
        {
            return Ok(false);
        }
    }
    Ok(true)
}
