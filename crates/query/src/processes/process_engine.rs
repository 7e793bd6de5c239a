//! [`ProcessEngine`]: the SQL engine of a server, which isolates expensive statements.

use std::path::PathBuf;
use std::sync::Arc;

use arrowwood_serve::{SqlEngine, SqlError, SqlFuture, SqlPlan, SqlQuery, SqlRows};
use tokio::sync::{mpsc, oneshot};

use crate::engine::{AnswerStream, MAX_QUEUED_BATCHES, QueryEngine, to_sql_error, unfinished_error};
use crate::processes::memory_share::MemoryShare;
use crate::processes::messages::{QueryMessage, encode_batch};
use crate::processes::process_pool::ProcessPool;
use crate::processes::session::{AnswerSink, KillHandle, KillOnDrop, ProcessSession};

/// A [`QueryEngine`] for untrusted clients.
///
/// Statements that are not known to be bounded run in separate processes, whose memory the system limits and which are
/// killed when their query times out.
pub struct ProcessEngine {
    engine: Arc<QueryEngine>,
    processes: Arc<ProcessPool>,
}

impl ProcessEngine {
    /// Creates an engine that starts `program`, which calls [`run_query_process`](crate::run_query_process) if its
    /// first argument is [`WORKER`](crate::WORKER).
    pub fn new(engine: Arc<QueryEngine>, program: impl Into<PathBuf>) -> ProcessEngine {
        ProcessEngine { engine, processes: Arc::new(ProcessPool::new(program.into())) }
    }

    /// Starts to run or plan a query in a process, as the sink requires. Dropping the returned value kills the process.
    async fn start(&self, query: SqlQuery, sink: AnswerSink) -> Result<KillOnDrop, SqlError> {
        let parameters = query.parameters.as_ref().map(encode_batch).transpose().map_err(|e| to_sql_error(&e))?;
        let share = MemoryShare::take(query.memory.clone()).await;
        let message = QueryMessage {
            text: query.text,
            parameters,
            max_rows: query.most,
            is_plan: matches!(sink, AnswerSink::Plan(_)),
            max_bytes: share.max_bytes(),
            share: share.bytes(),
        };
        let kill_handle = Arc::new(KillHandle::default());
        let session = ProcessSession {
            query: message,
            tables: query.tables,
            share,
            kill_handle: kill_handle.clone(),
            budget: self.engine.result_budget(),
        };
        let processes = self.processes.clone();
        let thread = std::thread::Builder::new().name("arrowwood-sql-query".into());
        let started = thread.spawn(move || session.run(&processes, sink));
        started.map_err(|e| SqlError::Engine(format!("starting a thread for a query: {e}")))?;
        Ok(KillOnDrop(kill_handle))
    }
}

impl SqlEngine for ProcessEngine {
    fn plan(&self, query: SqlQuery) -> SqlFuture<'_, SqlPlan> {
        Box::pin(async move {
            if let Some(plan) = self.engine.plan_if_bounded(query.clone()).await? {
                return Ok(plan);
            }
            let (sender, plan) = oneshot::channel();
            let _guard = self.start(query, AnswerSink::Plan(sender)).await?;
            plan.await.map_err(|_| unfinished_error())?
        })
    }

    fn run(&self, query: SqlQuery) -> SqlFuture<'_, Box<dyn SqlRows>> {
        Box::pin(async move {
            if let Some(rows) = self.engine.run_if_bounded(query.clone()).await? {
                return Ok(rows);
            }
            let (schema_sender, schema) = oneshot::channel();
            let (batch_sender, batches) = mpsc::channel(MAX_QUEUED_BATCHES);
            let sink = AnswerSink::Rows { schema: Some(schema_sender), batches: batch_sender };
            let guard = self.start(query, sink).await?;
            let schema = schema.await.map_err(|_| unfinished_error())??;
            Ok(Box::new(AnswerStream::new(schema, batches, Box::new(guard))) as Box<dyn SqlRows>)
        })
    }

    fn name(&self) -> (String, String) {
        self.engine.name()
    }
}
