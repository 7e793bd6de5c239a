//! [`QueryTask`]: plans a statement, and runs its plan.

use std::path::PathBuf;
use std::sync::Arc;

use arrowwood_datafusion::CancelToken;
use arrowwood_serve::{SqlPlan, SqlQuery};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext, context::SQLOptions};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use crate::engine::answer::AnswerSender;
use crate::engine::catalog::QueryCatalogs;
use crate::engine::errors::to_sql_error;
use crate::engine::query_pool::{MAX_SPILL_FACTOR, QueryPool};
use crate::functions::ResultBudget;
use crate::plans::{constants, max_batch_rows, only_passes_rows, prepare_for_serving, slice_sort_inputs};
use crate::statements::bounded::{has_plannable_tables, is_bounded, is_bounded_plan};
use crate::statements::{parameters, size_limits};

/// The state that all queries share.
#[derive(Clone)]
pub(super) struct EngineState {
    /// Functions and optimizer rules.
    pub state: SessionState,
    pub budget: Arc<ResultBudget>,
    /// The directory for temporary files; `None` for the system's.
    pub directory: Option<PathBuf>,
}

/// The statements that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Statements whose memory and time are [known to be bounded](crate::statements::bounded).
    Bounded,
}

/// A query, with the shared state that it needs.
pub(super) struct QueryTask {
    pub shared: EngineState,
    pub query: SqlQuery,
    pub scope: Scope,
}

impl QueryTask {
    /// Plans the query. Returns `None` if it is not in scope.
    pub async fn plan(self) -> Result<Option<SqlPlan>> {
        let QueryTask { shared, query, scope } = self;
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

    /// Runs the query until its end, an error, or the drop of its receiver.
    pub async fn run(self, cancel: CancelToken, sender: AnswerSender) {
        let AnswerSender { schema, batches } = sender;
        // A failed send means that the receiver was dropped and needs no answer.
        let mut stream = match self.start(&cancel).await {
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

    /// Plans the query and starts to run it. Returns `None` if it is not in scope.
    async fn start(self, cancel: &CancelToken) -> Result<Option<SendableRecordBatchStream>> {
        let QueryTask { shared, query, scope } = self;
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
