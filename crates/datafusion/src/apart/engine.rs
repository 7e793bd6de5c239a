//! [`ProcessEngine`]: the engine of a server.

use std::path::PathBuf;
use std::sync::Arc;

use arrowwood_serve::{SqlEngine, SqlError, SqlFuture, SqlPlan, SqlQuery, SqlRows};
use tokio::sync::{mpsc, oneshot};

use crate::apart::memory_share::MemoryShare;
use crate::apart::messages::{QueryMessage, batch_bytes};
use crate::apart::process_pool::ProcessPool;
use crate::apart::session::{AnswerSink, KillHandle, KillOnDrop, ProcessSession};
use crate::engine::{AHEAD, AnswerStream, QueryEngine, broken, error_of};

/// A [`QueryEngine`] for untrusted clients: statements that are not known to be bounded by what DataFusion counts are
/// answered by separate processes, whose memory the system limits, and which end with the time of their query.
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

    /// Has a process answer a query. Dropping the returned value ends the process.
    async fn begin(&self, query: SqlQuery, is_plan: bool, sink: AnswerSink) -> Result<KillOnDrop, SqlError> {
        let parameters = query.parameters.as_ref().map(batch_bytes).transpose().map_err(|e| error_of(&e))?;
        let share = MemoryShare::take(query.memory.clone()).await;
        let message = QueryMessage {
            text: query.text,
            parameters,
            most: query.most,
            is_plan,
            memory: share.most(),
            share: share.bytes(),
        };
        let leash = Arc::new(KillHandle::default());
        let budget = self.engine.result_budget();
        let session = ProcessSession { query: message, tables: query.tables, share, leash: leash.clone(), budget };
        let processes = self.processes.clone();
        let thread = std::thread::Builder::new().name("arrowwood-sql-query".into());
        let started = thread.spawn(move || session.run(&processes, sink));
        started.map_err(|e| SqlError::Engine(format!("starting a thread for a query: {e}")))?;
        Ok(KillOnDrop(leash))
    }
}

impl SqlEngine for ProcessEngine {
    fn plan(&self, query: SqlQuery) -> SqlFuture<'_, SqlPlan> {
        Box::pin(async move {
            if let Some(plan) = self.engine.plan_known(query.clone()).await? {
                return Ok(plan);
            }
            let (sender, plan) = oneshot::channel();
            let _wanted = self.begin(query, true, AnswerSink::Plan(sender)).await?;
            plan.await.map_err(|_| broken())?
        })
    }

    fn run(&self, query: SqlQuery) -> SqlFuture<'_, Box<dyn SqlRows>> {
        Box::pin(async move {
            if let Some(rows) = self.engine.run_known(query.clone()).await? {
                return Ok(rows);
            }
            let (schema, begun) = oneshot::channel();
            let (sender, batches) = mpsc::channel(AHEAD);
            let wanted = self.begin(query, false, AnswerSink::Rows { schema: Some(schema), batches: sender }).await?;
            let schema = begun.await.map_err(|_| broken())??;
            Ok(Box::new(AnswerStream::new(schema, batches, Box::new(wanted))) as Box<dyn SqlRows>)
        })
    }

    fn name(&self) -> (String, String) {
        self.engine.name()
    }
}
