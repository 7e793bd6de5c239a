//! [`QueryEngine`]: answers SQL that only reads, for a server's clients and for the command.

use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use arrowwood::{Dataset, ErrorKind};
use arrowwood_datafusion::CancelToken;
use arrowwood_serve::{SqlEngine, SqlError, SqlFuture, SqlPlan, SqlQuery, SqlRows};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::engine::answer::{AnswerSender, AnswerStream, MAX_QUEUED_BATCHES};
use crate::engine::catalog::{CATALOG, SCHEMA};
use crate::engine::errors::{to_sql_error, unfinished_error};
use crate::engine::query_task::{EngineState, QueryTask, Scope};
use crate::functions::{ResultBudget, install_bounded_functions};
use crate::plans::projection_rule;

/// The stack size of a thread. Plans are processed by recursion: each nested operator can take kilobytes.
const STACK_BYTES: usize = 32 << 20;
/// The number of threads for blocking work in a query process.
const BLOCKING_THREADS: usize = 8;

/// The number of processors if the system does not report it.
const DEFAULT_PROCESSORS: usize = 2;

/// Returns the number of processors that the process may use.
pub(crate) fn count_processors() -> usize {
    std::thread::available_parallelism().map_or(DEFAULT_PROCESSORS, usize::from)
}

/// An SQL engine that runs DataFusion on its own threads.
///
/// Accepts statements that only read: `select`, `explain`, `show tables`, `describe`. A statement can name only the
/// tables of its query, and no function reaches files.
pub struct QueryEngine {
    /// `None` while the engine is dropped.
    runtime: Option<Runtime>,
    shared: EngineState,
}

impl QueryEngine {
    /// Creates an engine with a thread for each processor.
    ///
    /// # Errors
    /// `Io` if threads can't be started.
    pub fn new() -> arrowwood::Result<QueryEngine> {
        QueryEngine::with_threads(&mut Builder::new_multi_thread(), None)
    }

    /// Creates the engine of a query process, which writes temporary files to `directory`.
    ///
    /// Starts all threads now, as the process limits its memory later and their stacks would count.
    pub(crate) fn for_process(directory: PathBuf) -> arrowwood::Result<QueryEngine> {
        let mut builder = Builder::new_multi_thread();
        builder.max_blocking_threads(BLOCKING_THREADS).thread_keep_alive(Duration::from_secs(u32::MAX.into()));
        let engine = QueryEngine::with_threads(&mut builder, Some(directory))?;

        // Tasks that wait for each other need a thread each.
        let barrier = Arc::new(Barrier::new(BLOCKING_THREADS));
        let mut waiting = Vec::with_capacity(BLOCKING_THREADS);
        for _ in 0..BLOCKING_THREADS {
            let barrier = barrier.clone();
            waiting.push(engine.handle().spawn_blocking(move || barrier.wait()));
        }
        engine.handle().block_on(futures::future::join_all(waiting));
        Ok(engine)
    }

    fn with_threads(builder: &mut Builder, directory: Option<PathBuf>) -> arrowwood::Result<QueryEngine> {
        let threads = count_processors();
        builder.worker_threads(threads).thread_name("arrowwood-sql").thread_stack_size(STACK_BYTES).enable_all();
        let runtime = builder.build();
        let runtime = runtime.map_err(|e| arrowwood::Error::new(ErrorKind::Io, format!("starting threads: {e}")))?;

        let config = SessionConfig::new()
            .with_target_partitions(threads)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_information_schema(true);
        let mut builder = SessionStateBuilder::new().with_default_features().with_config(config);
        let budget = Arc::default();
        install_bounded_functions(&mut builder, &budget);
        projection_rule::install(&mut builder);
        Ok(QueryEngine { runtime: Some(runtime), shared: EngineState { state: builder.build(), budget, directory } })
    }

    /// Returns a handle to the runtime of queries, where tasks of other services may run too.
    pub fn handle(&self) -> tokio::runtime::Handle {
        match &self.runtime {
            Some(runtime) => runtime.handle().clone(),
            // Reached only while the engine is dropped.
            None => tokio::runtime::Handle::current(),
        }
    }

    /// Runs a query and returns all of its rows. Blocks.
    ///
    /// # Errors
    /// Errors of [`SqlEngine::run`].
    pub fn collect(&self, query: SqlQuery) -> Result<Dataset, SqlError> {
        let handle = self.handle();
        handle.block_on(async {
            let mut rows = self.run(query).await?;
            let mut batches = Vec::new();
            while let Some(batch) = rows.next().await? {
                batches.push(batch);
            }
            if batches.is_empty() {
                return Ok(Dataset::from_batches(rows.schema(), Vec::new())?);
            }
            Ok(Dataset::concat(&batches)?)
        })
    }
}

impl Drop for QueryEngine {
    fn drop(&mut self) {
        // Does not wait for abandoned queries.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Aborts a query when the future or stream that waits for it is dropped.
struct AbortOnDrop {
    task: AbortHandle,
    cancel: CancelToken,
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.task.abort();
    }
}

impl QueryEngine {
    fn new_task(&self, query: SqlQuery, scope: Scope) -> QueryTask {
        self.shared.budget.set_query_memory(query.memory.max_bytes());
        QueryTask { shared: self.shared.clone(), query, scope }
    }

    /// Returns the budget for results of functions.
    pub(crate) fn result_budget(&self) -> Arc<ResultBudget> {
        self.shared.budget.clone()
    }

    async fn plan_in_scope(&self, query: SqlQuery, scope: Scope) -> Result<Option<SqlPlan>, SqlError> {
        let task = self.handle().spawn(self.new_task(query, scope).plan());
        let _guard = AbortOnDrop { task: task.abort_handle(), cancel: CancelToken::default() };
        task.await.map_err(|_| unfinished_error())?.map_err(|e| to_sql_error(&e))
    }

    async fn run_in_scope(&self, query: SqlQuery, scope: Scope) -> Result<Option<Box<dyn SqlRows>>, SqlError> {
        let (schema_sender, schema) = oneshot::channel();
        let (batch_sender, batches) = mpsc::channel(MAX_QUEUED_BATCHES);
        let cancel = CancelToken::default();
        let sender = AnswerSender { schema: schema_sender, batches: batch_sender };
        let task = self.handle().spawn(self.new_task(query, scope).run(cancel.clone(), sender));
        let guard = Box::new(AbortOnDrop { task: task.abort_handle(), cancel });
        let schema = schema.await.map_err(|_| unfinished_error())??;
        Ok(schema.map(|schema| Box::new(AnswerStream::new(schema, batches, guard)) as Box<dyn SqlRows>))
    }

    /// Acts as [`SqlEngine::plan`], but returns `None` for statements that are not known to be bounded.
    pub(crate) async fn plan_if_bounded(&self, query: SqlQuery) -> Result<Option<SqlPlan>, SqlError> {
        self.plan_in_scope(query, Scope::Bounded).await
    }

    /// Acts as [`SqlEngine::run`], but returns `None` for statements that are not known to be bounded.
    pub(crate) async fn run_if_bounded(&self, query: SqlQuery) -> Result<Option<Box<dyn SqlRows>>, SqlError> {
        self.run_in_scope(query, Scope::Bounded).await
    }
}

impl SqlEngine for QueryEngine {
    fn plan(&self, query: SqlQuery) -> SqlFuture<'_, SqlPlan> {
        Box::pin(async move { self.plan_in_scope(query, Scope::All).await?.ok_or_else(unfinished_error) })
    }

    fn run(&self, query: SqlQuery) -> SqlFuture<'_, Box<dyn SqlRows>> {
        Box::pin(async move { self.run_in_scope(query, Scope::All).await?.ok_or_else(unfinished_error) })
    }

    fn name(&self) -> (String, String) {
        ("Arrowwood with DataFusion".into(), datafusion::DATAFUSION_VERSION.into())
    }
}
