//! [`QueryEngine`]: answers SQL that only reads, for a server's clients and for the command.

use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use arrowwood::{Dataset, ErrorKind};
use arrowwood_datafusion::CancelToken;
use arrowwood_serve::{SqlEngine, SqlError, SqlFuture, SqlPlan, SqlQuery, SqlRows};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext, context::SQLOptions};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::engine::catalog::{CATALOG, QueryCatalogs, SCHEMA};
use crate::engine::query_pool::QueryPool;
use crate::functions::{ResultBudget, install_bounded_functions};
use crate::plans::{
    constants, max_batch_rows, only_passes_rows, prepare_for_serving, projection_rule, slice_sort_inputs,
};
use crate::statements::bounded::{has_plannable_tables, is_bounded, is_bounded_plan};
use crate::statements::{parameters, size_limits};

/// The maximum number of batches that wait for their receiver.
pub(crate) const MAX_QUEUED_BATCHES: usize = 2;
/// The stack size of a thread. Plans are processed by recursion: each nested operator can take kilobytes.
const STACK_BYTES: usize = 32 << 20;
/// The maximum size of a query's temporary files, as a multiple of its memory.
const MAX_SPILL_FACTOR: u64 = 8;
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

/// The state that all queries share.
#[derive(Clone)]
struct EngineState {
    /// Functions and optimizer rules.
    state: SessionState,
    budget: Arc<ResultBudget>,
    /// The directory for temporary files; `None` for the system's.
    directory: Option<PathBuf>,
}

/// The statements that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    /// Statements whose memory and time are [known to be bounded](crate::statements::bounded).
    Bounded,
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

/// Creates a session for one query, and its tables.
fn create_session(shared: &EngineState, query: &SqlQuery) -> Result<(SessionState, QueryCatalogs)> {
    let max_spill_bytes = (query.memory.max_bytes() as u64).saturating_mul(MAX_SPILL_FACTOR);
    let mode = match &shared.directory {
        Some(directory) => DiskManagerMode::Directories(vec![directory.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let disk = DiskManagerBuilder::default().with_mode(mode);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(QueryPool::new(query.memory.clone())))
        .with_disk_manager_builder(disk.with_max_temp_directory_size(max_spill_bytes))
        .build_arc()?;
    let builder = SessionStateBuilder::new_from_existing(shared.state.clone()).with_runtime_env(runtime);
    let tables = QueryCatalogs::new(query.tables.clone());
    Ok((builder.with_catalog_list(Arc::new(tables.clone())).build(), tables))
}

/// Plans a statement that only reads. Returns `None` if it is not in `scope`.
async fn create_logical_plan(
    state: &SessionState,
    tables: &QueryCatalogs,
    query: &SqlQuery,
    scope: Scope,
) -> Result<Option<LogicalPlan>> {
    size_limits::check_text(&query.text)?;
    let text = parameters::number_placeholders(&query.text)?;
    let parsed = state.sql_to_statement(&text, &state.config().options().sql_parser.dialect)?;
    if scope == Scope::Bounded && !has_plannable_tables(&parsed) {
        return Ok(None);
    }
    let plan = state.statement_to_plan(parsed).await.map_err(|e| tables.take_error(e))?;
    size_limits::check_plan(&plan)?;
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    options.verify_plan(&plan)?;
    Ok(if scope == Scope::All || is_bounded(&plan)? { Some(plan) } else { None })
}

/// Plans the query of `task`. Returns `None` if it is not in scope.
async fn plan_query(task: QueryTask) -> Result<Option<SqlPlan>> {
    let QueryTask { shared, query, scope } = task;
    let (state, tables) = create_session(&shared, &query)?;
    let Some(plan) = create_logical_plan(&state, &tables, &query, scope).await? else { return Ok(None) };
    let parameters = parameters::parameter_schema(&plan)?;
    let schema = match &query.parameters {
        Some(values) => state.create_physical_plan(&parameters::bind_values(plan, values)?).await?.schema(),
        None if parameters.fields().is_empty() => state.create_physical_plan(&plan).await?.schema(),
        None => Arc::new(plan.schema().as_arrow().clone()),
    };
    Ok(Some(SqlPlan { schema, parameters }))
}

/// Plans the query of `task` and starts to run it. Returns `None` if it is not in scope.
async fn start_query(task: QueryTask, cancel: &CancelToken) -> Result<Option<SendableRecordBatchStream>> {
    let QueryTask { shared, query, scope } = task;
    let (state, tables) = create_session(&shared, &query)?;
    let Some(mut plan) = create_logical_plan(&state, &tables, &query, scope).await? else { return Ok(None) };

    let count = parameters::parameter_schema(&plan)?.fields().len();
    match &query.parameters {
        Some(values) => plan = parameters::bind_values(plan, values)?,
        None if count > 0 => {
            return Err(DataFusionError::Plan(format!("the statement's {count} parameters have no values")));
        }
        None => (),
    }

    // DataFusion supports `explain` only as the root of a plan, so it gets no limit.
    let can_be_limited = !matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    if let Some(max_rows) = query.most.filter(|_| can_be_limited) {
        plan = LogicalPlanBuilder::from(plan).limit(0, usize::try_from(max_rows).ok())?.build()?;
    }

    let physical = state.create_physical_plan(&plan).await?;
    if scope == Scope::Bounded && !is_bounded_plan(&physical)? {
        return Ok(None);
    }

    let mut config = state.config().clone();
    let max_bytes = query.memory.max_bytes();
    if !only_passes_rows(&physical)? {
        let rows = max_batch_rows(&physical, config.batch_size(), max_bytes)?;
        config = config.with_batch_size(rows);
    }
    constants::check(&physical, config.batch_size(), &shared.budget)?;

    let context = TaskContext::from(&state).with_session_config(config);
    let physical = prepare_for_serving(slice_sort_inputs(physical, max_bytes)?, cancel)?;
    execute_stream(physical, Arc::new(context)).map(Some)
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

/// Returns the error of an answer that ended without a result.
pub(crate) fn unfinished_error() -> SqlError {
    SqlError::Engine("a task of the query broke off".into())
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
        let task = self.handle().spawn(plan_query(self.new_task(query, scope)));
        let _guard = AbortOnDrop { task: task.abort_handle(), cancel: CancelToken::default() };
        task.await.map_err(|_| unfinished_error())?.map_err(|e| to_sql_error(&e))
    }

    async fn run_in_scope(&self, query: SqlQuery, scope: Scope) -> Result<Option<Box<dyn SqlRows>>, SqlError> {
        let (schema_sender, schema) = oneshot::channel();
        let (batch_sender, batches) = mpsc::channel(MAX_QUEUED_BATCHES);
        let cancel = CancelToken::default();
        let sender = AnswerSender { schema: schema_sender, batches: batch_sender };
        let task = self.handle().spawn(run_query(self.new_task(query, scope), cancel.clone(), sender));
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

/// Receives the batches of an answer, and `None` at its end.
pub(crate) type BatchReceiver = mpsc::Receiver<Result<Option<RecordBatch>, SqlError>>;

/// Sends the columns of an answer, or `None` for a statement out of scope, followed by its batches.
struct AnswerSender {
    schema: oneshot::Sender<Result<Option<SchemaRef>, SqlError>>,
    batches: mpsc::Sender<Result<Option<RecordBatch>, SqlError>>,
}

/// A query, with the shared state that it needs.
struct QueryTask {
    shared: EngineState,
    query: SqlQuery,
    scope: Scope,
}

/// Runs a query until its end, an error, or the drop of its receiver.
async fn run_query(task: QueryTask, cancel: CancelToken, sender: AnswerSender) {
    let AnswerSender { schema, batches } = sender;
    // A failed send means that the receiver was dropped and needs no answer.
    let mut stream = match start_query(task, &cancel).await {
        Ok(Some(stream)) => stream,
        Ok(None) => return drop(schema.send(Ok(None))),
        Err(e) => return drop(schema.send(Err(to_sql_error(&e)))),
    };
    if schema.send(Ok(Some(stream.schema()))).is_err() {
        return;
    }
    while let Some(batch) = stream.next().await {
        let is_error = batch.is_err();
        let is_dropped = batches.send(batch.map(Some).map_err(|e| to_sql_error(&e))).await.is_err();
        if is_error || is_dropped {
            return;
        }
    }
    let _ = batches.send(Ok(None)).await;
}

/// The rows of an answer, as they arrive.
pub(crate) struct AnswerStream {
    schema: SchemaRef,
    batches: BatchReceiver,
    is_finished: bool,
    /// Ends the query when it is dropped.
    _guard: Box<dyn Any + Send>,
}

impl AnswerStream {
    pub fn new(schema: SchemaRef, batches: BatchReceiver, guard: Box<dyn Any + Send>) -> AnswerStream {
        AnswerStream { schema, batches, is_finished: false, _guard: guard }
    }

    async fn next_batch(&mut self) -> Result<Option<Dataset>, SqlError> {
        if self.is_finished {
            return Ok(None);
        }
        let Some(batch) = self.batches.recv().await.ok_or_else(unfinished_error)?? else {
            self.is_finished = true;
            return Ok(None);
        };
        Ok(Some(Dataset::from_batches(self.schema.clone(), vec![batch])?))
    }
}

impl SqlRows for AnswerStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> SqlFuture<'_, Option<Dataset>> {
        Box::pin(self.next_batch())
    }
}

/// Converts an error of temporary files, whose cause is `message`.
fn file_error(message: &str, error: &DataFusionError) -> SqlError {
    /// Part of DataFusion's message for a full spill directory, as it has no error kind for this.
    const SPILL_LIMIT: &str = "exceeded the allowable limit";
    if message.contains(SPILL_LIMIT) {
        return SqlError::Memory(format!(
            "the query would write more than {MAX_SPILL_FACTOR} times its memory to the disk"
        ));
    }
    SqlError::Engine(error.strip_backtrace())
}

/// Converts an error of DataFusion to the error that a client gets.
pub(crate) fn to_sql_error(error: &DataFusionError) -> SqlError {
    match error.find_root() {
        DataFusionError::IoError(e) => file_error(&e.to_string(), error),
        DataFusionError::ArrowError(e, _) if matches!(**e, ArrowError::IoError(..)) => {
            file_error(&e.to_string(), error)
        }
        DataFusionError::ResourcesExhausted(message) => SqlError::Memory(message.clone()),
        DataFusionError::NotImplemented(message) => {
            SqlError::Statement(format!("DataFusion does not do this: {message}"))
        }
        DataFusionError::External(inner) => match inner.downcast_ref::<arrowwood::Error>() {
            Some(error) => SqlError::Table(error.clone()),
            None => SqlError::Engine(error.strip_backtrace()),
        },
        DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => SqlError::Engine(error.strip_backtrace()),
        _ => SqlError::Statement(error.strip_backtrace()),
    }
}
