//! [`QueryEngine`]: answers SQL that only reads, for a server's clients and for the command.

use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use arrowwood::{Dataset, ErrorKind};
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

use crate::bounded_statements::{is_known, is_known_plan, names_known_tables};
use crate::cancel_token::CancelToken;
use crate::catalog::{CATALOG, QueryCatalogs, SCHEMA};
use crate::planners::bound;
use crate::projection_rule::kept_apart;
use crate::query_pool::QueryPool;
use crate::result_budget::ResultBudget;
use crate::served_plan::{passes_rows_on, served};
use crate::sliced_sort::{rows_at_once, sliced};
use crate::{constants, parameters, statement_limits};

/// The number of batches that are made before they are taken.
pub(crate) const AHEAD: usize = 2;
/// The stack of a thread: each of the operators that a statement may have can take kilobytes.
const STACK: usize = 32 << 20;
/// How many times the memory of a query it may write to temporary files.
const SPILLED: u64 = 8;
/// The threads for blocking work of a process for queries.
const BLOCKING: usize = 8;

/// Queries by DataFusion, on threads of its own.
///
/// Statements that only read are answered: `select`, `explain`, `show tables`, `describe`. Nothing but the tables of a
/// query can be named in it, and no function reaches files.
pub struct QueryEngine {
    runtime: Option<Runtime>,
    common: EngineState,
}

/// The state that all queries share.
#[derive(Clone)]
struct EngineState {
    /// Functions and rules.
    state: SessionState,
    budget: Arc<ResultBudget>,
    /// Where temporary files are written, if not in the system's directory for them.
    directory: Option<PathBuf>,
}

/// Which statements are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    /// Statements whose memory and time are [known](crate::bounded_statements) to be bounded.
    Known,
}

impl QueryEngine {
    /// An engine with a thread for each processor.
    ///
    /// # Errors
    /// `Io` where threads can't be started.
    pub fn new() -> arrowwood::Result<QueryEngine> {
        QueryEngine::with_threads(&mut Builder::new_multi_thread(), None)
    }

    /// The engine of a process for queries whose memory is limited by the system: all its threads have their stacks
    /// before that. It writes temporary files to `directory`.
    pub(crate) fn for_process(directory: PathBuf) -> arrowwood::Result<QueryEngine> {
        let mut builder = Builder::new_multi_thread();
        builder.max_blocking_threads(BLOCKING).thread_keep_alive(Duration::from_secs(u32::MAX.into()));
        let engine = QueryEngine::with_threads(&mut builder, Some(directory))?;
        let all = Arc::new(Barrier::new(BLOCKING));
        let waits = (0..BLOCKING).map(|_| {
            let all = all.clone();
            engine.handle().spawn_blocking(move || all.wait())
        });
        let waits: Vec<_> = waits.collect();
        engine.handle().block_on(futures::future::join_all(waits));
        Ok(engine)
    }

    fn with_threads(builder: &mut Builder, directory: Option<PathBuf>) -> arrowwood::Result<QueryEngine> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        builder.worker_threads(threads).thread_name("arrowwood-sql").thread_stack_size(STACK).enable_all();
        let runtime = builder.build();
        let runtime = runtime.map_err(|e| arrowwood::Error::new(ErrorKind::Io, format!("starting threads: {e}")))?;
        let config = SessionConfig::new()
            .with_target_partitions(threads)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_information_schema(true);
        let mut builder = SessionStateBuilder::new().with_default_features().with_config(config);
        let budget = Arc::default();
        bound(&mut builder, &budget);
        kept_apart(&mut builder);
        Ok(QueryEngine { runtime: Some(runtime), common: EngineState { state: builder.build(), budget, directory } })
    }

    /// The threads that queries run on, where tasks of other services of an engine may run too.
    pub fn handle(&self) -> tokio::runtime::Handle {
        match &self.runtime {
            Some(runtime) => runtime.handle().clone(),
            // Only while it is dropped.
            None => tokio::runtime::Handle::current(),
        }
    }

    /// All rows of an answer. Blocks.
    ///
    /// # Errors
    /// As [`SqlEngine::run`].
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
        // Shut down in the background: queries that are not wanted any more are not waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A session for one query, and its tables.
fn session(common: &EngineState, query: &SqlQuery) -> Result<(SessionState, QueryCatalogs)> {
    let most = query.memory.max_bytes();
    let spilled = (most as u64).saturating_mul(SPILLED);
    let mode = match &common.directory {
        Some(directory) => DiskManagerMode::Directories(vec![directory.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    let disk = DiskManagerBuilder::default().with_mode(mode);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(QueryPool::new(query.memory.clone())))
        .with_disk_manager_builder(disk.with_max_temp_directory_size(spilled))
        .build_arc()?;
    let builder = SessionStateBuilder::new_from_existing(common.state.clone()).with_runtime_env(runtime);
    let tables = QueryCatalogs::new(query.tables.clone());
    Ok((builder.with_catalog_list(Arc::new(tables.clone())).build(), tables))
}

/// The plan of a statement that only reads; `None` if it is not in `scope`.
async fn logical(
    state: &SessionState,
    tables: &QueryCatalogs,
    query: &SqlQuery,
    scope: Scope,
) -> Result<Option<LogicalPlan>> {
    statement_limits::check_text(&query.text)?;
    let text = parameters::numbered(&query.text)?;
    let parsed = state.sql_to_statement(&text, &state.config().options().sql_parser.dialect)?;
    if scope == Scope::Known && !names_known_tables(&parsed) {
        return Ok(None);
    }
    let plan = state.statement_to_plan(parsed).await.map_err(|e| tables.error(e))?;
    statement_limits::check_plan(&plan)?;
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    options.verify_plan(&plan)?;
    Ok(if scope == Scope::All || is_known(&plan)? { Some(plan) } else { None })
}

async fn planned(task: QueryTask) -> Result<Option<SqlPlan>> {
    let QueryTask { common, query, scope } = task;
    let (state, tables) = session(&common, &query)?;
    let Some(plan) = logical(&state, &tables, &query, scope).await? else { return Ok(None) };
    let parameters = parameters::schema(&plan)?;
    let schema = match &query.parameters {
        Some(values) => state.create_physical_plan(&parameters::bound(plan, values)?).await?.schema(),
        None if parameters.fields().is_empty() => state.create_physical_plan(&plan).await?.schema(),
        None => Arc::new(plan.schema().as_arrow().clone()),
    };
    Ok(Some(SqlPlan { schema, parameters }))
}

async fn begun(task: QueryTask, stop: &CancelToken) -> Result<Option<SendableRecordBatchStream>> {
    let QueryTask { common, query, scope } = task;
    let (state, tables) = session(&common, &query)?;
    let Some(mut plan) = logical(&state, &tables, &query, scope).await? else { return Ok(None) };
    let count = parameters::schema(&plan)?.fields().len();
    match &query.parameters {
        Some(values) => plan = parameters::bound(plan, values)?,
        None if count > 0 => {
            return Err(DataFusionError::Plan(format!("the statement's {count} parameters have no values")));
        }
        None => (),
    }
    // Explanations are no rows of another plan.
    let is_cut = !matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    if let Some(most) = query.most.filter(|_| is_cut) {
        plan = LogicalPlanBuilder::from(plan).limit(0, usize::try_from(most).ok())?.build()?;
    }
    let physical = state.create_physical_plan(&plan).await?;
    if scope == Scope::Known && !is_known_plan(&physical)? {
        return Ok(None);
    }
    let mut config = state.config().clone();
    let most = query.memory.max_bytes();
    if !passes_rows_on(&physical)? {
        let rows = rows_at_once(&physical, config.batch_size(), most)?;
        config = config.with_batch_size(rows);
    }
    constants::check(&physical, config.batch_size(), &common.budget)?;
    let context = TaskContext::from(&state).with_session_config(config);
    execute_stream(served(sliced(physical, most)?, stop)?, Arc::new(context)).map(Some)
}

/// Aborts what a future does elsewhere when that is dropped.
struct AbortOnDrop {
    task: AbortHandle,
    stop: CancelToken,
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}

/// The error of an answer that has no end.
pub(crate) fn broken() -> SqlError {
    SqlError::Engine("a task of the query broke off".into())
}

impl QueryEngine {
    fn asking(&self, query: SqlQuery, scope: Scope) -> QueryTask {
        self.common.budget.set_query_memory(query.memory.max_bytes());
        QueryTask { common: self.common.clone(), query, scope }
    }

    /// Returns the budget for results of functions.
    pub(crate) fn result_budget(&self) -> Arc<ResultBudget> {
        self.common.budget.clone()
    }

    async fn plan_in(&self, query: SqlQuery, scope: Scope) -> Result<Option<SqlPlan>, SqlError> {
        let task = self.handle().spawn(planned(self.asking(query, scope)));
        let _aborted = AbortOnDrop { task: task.abort_handle(), stop: CancelToken::default() };
        task.await.map_err(|_| broken())?.map_err(|e| error_of(&e))
    }

    async fn run_in(&self, query: SqlQuery, scope: Scope) -> Result<Option<Box<dyn SqlRows>>, SqlError> {
        let (schema, begun) = oneshot::channel();
        let (sender, batches) = mpsc::channel(AHEAD);
        let stop = CancelToken::default();
        let task = self.handle().spawn(run(self.asking(query, scope), stop.clone(), AnswerSender { schema, sender }));
        let held = Box::new(AbortOnDrop { task: task.abort_handle(), stop });
        let schema = begun.await.map_err(|_| broken())??;
        Ok(schema.map(|schema| Box::new(AnswerStream::new(schema, batches, held)) as Box<dyn SqlRows>))
    }

    /// As [`SqlEngine::plan`]; `None` for statements whose memory and time are not known to be bounded.
    pub(crate) async fn plan_known(&self, query: SqlQuery) -> Result<Option<SqlPlan>, SqlError> {
        self.plan_in(query, Scope::Known).await
    }

    /// As [`SqlEngine::run`]; `None` for statements whose memory and time are not known to be bounded.
    pub(crate) async fn run_known(&self, query: SqlQuery) -> Result<Option<Box<dyn SqlRows>>, SqlError> {
        self.run_in(query, Scope::Known).await
    }
}

impl SqlEngine for QueryEngine {
    fn plan(&self, query: SqlQuery) -> SqlFuture<'_, SqlPlan> {
        Box::pin(async move { self.plan_in(query, Scope::All).await?.ok_or_else(broken) })
    }

    fn run(&self, query: SqlQuery) -> SqlFuture<'_, Box<dyn SqlRows>> {
        Box::pin(async move { self.run_in(query, Scope::All).await?.ok_or_else(broken) })
    }

    fn name(&self) -> (String, String) {
        ("Arrowwood with DataFusion".into(), datafusion::DATAFUSION_VERSION.into())
    }
}

/// Batches on their way; `None` is the end.
pub(crate) type BatchReceiver = mpsc::Receiver<Result<Option<RecordBatch>, SqlError>>;

/// Receives a query's columns, or `None` for a statement out of scope, and then its batches.
struct AnswerSender {
    schema: oneshot::Sender<Result<Option<SchemaRef>, SqlError>>,
    sender: mpsc::Sender<Result<Option<RecordBatch>, SqlError>>,
}

/// A query, and what all queries have.
struct QueryTask {
    common: EngineState,
    query: SqlQuery,
    scope: Scope,
}

async fn run(task: QueryTask, stop: CancelToken, answer: AnswerSender) {
    let AnswerSender { schema, sender } = answer;
    // A receiver that was dropped needs nothing.
    let mut stream = match begun(task, &stop).await {
        Ok(Some(stream)) => stream,
        Ok(None) => return drop(schema.send(Ok(None))),
        Err(e) => return drop(schema.send(Err(error_of(&e)))),
    };
    if schema.send(Ok(Some(stream.schema()))).is_err() {
        return;
    }
    while let Some(batch) = stream.next().await {
        let is_last = batch.is_err();
        if sender.send(batch.map(Some).map_err(|e| error_of(&e))).await.is_err() || is_last {
            return;
        }
    }
    let _ = sender.send(Ok(None)).await;
}

/// An answer under way.
pub(crate) struct AnswerStream {
    schema: SchemaRef,
    batches: BatchReceiver,
    is_whole: bool,
    /// Ends the query when it is dropped.
    _held: Box<dyn Any + Send>,
}

impl AnswerStream {
    pub fn new(schema: SchemaRef, batches: BatchReceiver, held: Box<dyn Any + Send>) -> AnswerStream {
        AnswerStream { schema, batches, is_whole: false, _held: held }
    }

    async fn step(&mut self) -> Result<Option<Dataset>, SqlError> {
        if self.is_whole {
            return Ok(None);
        }
        let Some(batch) = self.batches.recv().await.ok_or_else(broken)?? else {
            self.is_whole = true;
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
        Box::pin(self.step())
    }
}

/// Returns an error of temporary files, of which `message` is the cause.
fn file_error(message: &str, error: &DataFusionError) -> SqlError {
    /// The engine has no kind of error of its own for this.
    const SPILLED_ALL: &str = "exceeded the allowable limit";
    if message.contains(SPILLED_ALL) {
        return SqlError::Memory(format!("the query would write more than {SPILLED} times its memory to the disk"));
    }
    SqlError::Engine(error.strip_backtrace())
}

/// Returns an error of DataFusion as the error that a client gets.
pub(crate) fn error_of(error: &DataFusionError) -> SqlError {
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
