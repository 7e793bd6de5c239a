//! [`Cluster`]: runs queries over the tables of several servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrowwood::{Dataset, Error, ErrorKind};
use arrowwood_serve::ClientOptions;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{TableReference, exec_datafusion_err, exec_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{
    DistributedExt, RouteTasksEvent, ScaleUpLeafNodeEvent, SessionStateBuilderExt, display_plan_ascii,
};
use futures::TryStreamExt;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http_body_util::{BodyExt, Full, Limited};
use prost::Message;
use tonic::transport::Channel;
use tower::{Service, ServiceExt};
use url::Url;

use crate::cluster::distribution::{self, GatherRule, PlanningState};
use crate::cluster::messages::{OpenRequest, OpenResponse, OpenedTable};
use crate::cluster::part::{MAX_PART_PARTITIONS, PartCodec};
use crate::cluster::peers::Peers;
use crate::cluster::table::{ClusterTable, ServerShare};
use crate::cluster::version::version;
use crate::cluster::{hosts, panics, worker};
use crate::plans::projection_rule;

/// The maximum bytes of a server's response to an [`OpenRequest`].
const MAX_OPEN_RESPONSE_BYTES: usize = 64 << 20;
/// The maximum bytes that were received and not read yet, for each connection.
const CONNECTION_BUFFER_BYTES: usize = 16 << 20;
/// The maximum time of a server's response to an [`OpenRequest`].
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// The minimum number of partitions of a table.
const MIN_PARTITIONS: u32 = 2;

/// Servers whose tables are queried as one.
///
/// A table of the cluster has the rows of the tables of that name on all servers. Each server reads its own rows.
pub struct Cluster {
    peers: Peers,
    token: Option<String>,
}

/// The answer to a query.
pub struct ClusterAnswer {
    /// The physical plan as text.
    pub plan: String,
    /// The rows as they arrive. They are complete if the stream ends without an error.
    pub rows: SendableRecordBatchStream,
    /// The number of panics before the query.
    initial_panics: u64,
}

impl ClusterAnswer {
    /// Waits for all batches.
    ///
    /// # Errors
    /// If a server failed, or could not be reached any more.
    pub async fn collect(self) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let schema = self.rows.schema();
        let batches = self.rows.try_collect::<Vec<_>>().await?;
        if panics::count() != self.initial_panics {
            return exec_err!("the engine panicked; what it has found may not be whole");
        }
        Ok((schema, batches))
    }
}

impl Cluster {
    /// Creates a cluster of the servers that `file` lists, one URL a line.
    ///
    /// # Errors
    /// `Io` if the file can't be read; `InvalidArgument` if it is not a list of servers, or `options` do not allow
    /// connections to one of them.
    pub fn open(file: impl AsRef<Path>, options: &ClientOptions) -> arrowwood::Result<Cluster> {
        Ok(Cluster { peers: Peers::new(hosts::read_hosts(file.as_ref())?, options)?, token: options.token.clone() })
    }

    /// Runs a statement and returns its rows. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` for a wrong statement; `Io` if a server fails.
    pub fn sql(&self, statement: &str) -> arrowwood::Result<Dataset> {
        let runtime = worker::start_runtime().map_err(|e| Error::io("starting threads", &e))?;
        let answer = runtime.block_on(async { self.query(statement).await?.collect().await });
        runtime.shutdown_background();
        let (schema, batches) = answer.map_err(|e| to_error(&e))?;
        Dataset::from_batches(schema, batches)
    }

    /// Plans a statement and starts to run it.
    ///
    /// # Errors
    /// Errors of [`Cluster::sql`], as errors of DataFusion.
    pub async fn query(&self, statement: &str) -> Result<ClusterAnswer> {
        panics::watch();
        let initial_panics = panics::count();
        let planning = Arc::new(PlanningState::default());
        let context = SessionContext::new_with_state(self.session_builder(&planning, MIN_PARTITIONS)?.build());
        let dialect = context.state().config().options().sql_parser.dialect;
        let parsed = context.state().sql_to_statement(statement, &dialect)?;
        let references = context.state().resolve_table_references(&parsed)?;
        let names = references.iter().map(table_name).collect::<Result<Vec<_>>>()?;

        let query = uuid::Uuid::new_v4().as_bytes().to_vec();
        let responses = if names.is_empty() { Vec::new() } else { self.open_tables(&query, &names).await? };
        let cores = responses.iter().map(|response| response.cores).max().unwrap_or(MIN_PARTITIONS);
        let partitions = cores.clamp(MIN_PARTITIONS, MAX_PART_PARTITIONS);

        let context = SessionContext::new_with_state(self.session_builder(&planning, partitions)?.build());
        for (name, table) in self.create_tables(&query, &responses, partitions)? {
            context.register_table(TableReference::bare(name), Arc::new(table))?;
        }

        let logical = context.state().statement_to_plan(parsed).await?;
        let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        read_only.verify_plan(&logical)?;
        let physical = create_physical_plan(&context, &logical, &planning).await?;
        let plan = display_plan_ascii(physical.as_ref(), false);
        let rows = execute_stream(physical, context.task_ctx())?;
        Ok(ClusterAnswer { plan, rows, initial_panics })
    }

    fn session_builder(&self, planning: &Arc<PlanningState>, partitions: u32) -> Result<SessionStateBuilder> {
        let mut config = SessionConfig::new().with_target_partitions(partitions as usize);
        // A filter that is derived from rows of one server does not hold for others.
        config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
        let scan_planning = planning.clone();
        let mut headers = HeaderMap::new();
        if let Some(authorization) = self.authorization()? {
            headers.insert(AUTHORIZATION, authorization);
        }
        let mut builder = SessionStateBuilder::new().with_default_features();
        projection_rule::install(&mut builder);
        builder
            .with_config(config)
            .with_physical_optimizer_rule(Arc::new(GatherRule(planning.clone())))
            .with_distributed_worker_resolver(self.peers.clone())
            .with_distributed_channel_resolver(self.peers.clone())
            .with_distributed_planner()
            .with_distributed_user_codec(PartCodec { snapshots: None })
            .with_distributed_desired_task_count_handler(distribution::desired_tasks)
            .with_distributed_scale_up_leaf_node_handler(move |event: ScaleUpLeafNodeEvent| {
                distribution::split_scan(&scan_planning, &event)
            })
            .with_distributed_route_tasks_handler(|event: RouteTasksEvent| distribution::route_tasks(&event))
            .with_distributed_passthrough_headers(headers)?
            .with_distributed_metrics_collection(false)?
            .with_distributed_worker_connection_buffer_budget_bytes(CONNECTION_BUFFER_BYTES)?
            // Both inputs of a union are read on each server.
            .with_distributed_children_isolator_unions(false)
    }

    fn authorization(&self) -> Result<Option<HeaderValue>> {
        let Some(token) = &self.token else { return Ok(None) };
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| exec_datafusion_err!("the token has characters that no token has"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Fixes the rows of the tables on all servers.
    async fn open_tables(&self, query: &[u8], names: &[String]) -> Result<Vec<OpenResponse>> {
        let request = OpenRequest { version: version()?, query: query.to_vec(), tables: names.to_vec() };
        let request = request.encode_to_vec();
        let requests = self.peers.urls().iter().map(|url| self.open_tables_at(url, &request));
        let responses = futures::future::try_join_all(requests).await?;
        let mut servers: Vec<(&Url, &OpenResponse)> = Vec::with_capacity(responses.len());
        for (url, response) in self.peers.urls().iter().zip(&responses) {
            if let Some((other, _)) = servers.iter().find(|(_, other)| other.directory == response.directory) {
                return plan_err!("{other} and {url} serve the same directory: each of its rows would be there twice");
            }
            servers.push((url, response));
        }
        Ok(responses)
    }

    /// Fixes the rows of the tables on one server.
    async fn open_tables_at(&self, url: &Url, request: &[u8]) -> Result<OpenResponse> {
        let Ok(response) = tokio::time::timeout(OPEN_TIMEOUT, self.send_open_request(url, request)).await else {
            return exec_err!("asking {url}: no answer within a minute");
        };
        let response = response?;
        let version = version()?;
        if response.version != version {
            return exec_err!(
                "asking {url}: it is of version {}, and this program of {version}: use one program everywhere",
                response.version
            );
        }
        Ok(response)
    }

    async fn send_open_request(&self, url: &Url, request: &[u8]) -> Result<OpenResponse> {
        let mut channel: Channel = self.peers.connect(url).await?;
        let target = url.join(worker::OPEN_PATH).map_err(|e| request_error(url, e))?;
        let mut builder = http::Request::post(target.as_str());
        if let Some(authorization) = self.authorization()? {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        let body = tonic::body::Body::new(Full::new(bytes::Bytes::copy_from_slice(request)));
        let request = builder.body(body).map_err(|e| request_error(url, e))?;
        let ready = channel.ready().await.map_err(|e| request_error(url, e))?;
        let response = ready.call(request).await.map_err(|e| request_error(url, e))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_OPEN_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|e| request_error(url, e))?.to_bytes();
        if status == http::StatusCode::NOT_FOUND {
            return exec_err!("asking {url}: it takes no part in such queries; start it with --worker");
        }
        if !status.is_success() {
            // The body of a proxy's error may be anything.
            let problem = serde_json::from_slice::<serde_json::Value>(&body).ok();
            let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
            let detail = detail.or(status.canonical_reason()).unwrap_or("refused").to_owned();
            return exec_err!("asking {url}: {detail} (HTTP {})", status.as_u16());
        }
        OpenResponse::decode(body).map_err(|e| request_error(url, e))
    }

    /// Creates the tables of the cluster, by name.
    fn create_tables(
        &self,
        query: &[u8],
        responses: &[OpenResponse],
        partitions: u32,
    ) -> Result<BTreeMap<String, ClusterTable>> {
        assert!(
            responses.is_empty() || responses.len() == self.peers.urls().len(),
            "either no server was asked, or all were"
        );
        let names: BTreeSet<&String> =
            responses.iter().flat_map(|response| &response.tables).map(|table| &table.name).collect();

        let mut tables = BTreeMap::new();
        for name in names {
            let mut schema = None;
            let mut shares = Vec::new();
            for (url, response) in self.peers.urls().iter().zip(responses) {
                let Some(table) = response.tables.iter().find(|table| table.name == *name) else {
                    shares.push(ServerShare { url: url.clone(), process: Vec::new(), rows: 0 });
                    continue;
                };
                let server_schema = decode_schema(table, url)?;
                schema = Some(match schema {
                    None => server_schema,
                    Some(schema) => merge_schemas(&schema, &server_schema, name, url)?,
                });
                shares.push(ServerShare { url: url.clone(), process: response.process.clone(), rows: table.rows });
            }

            // The engine distributes nothing to a single server.
            if let [only] = shares.as_slice() {
                shares.push(ServerShare { process: Vec::new(), rows: 0, ..only.clone() });
            }
            assert!(shares.len() > 1, "the engine distributes table '{name}'");

            let Some(schema) = schema.map(Arc::new) else { continue };
            let empty = Dataset::from_batches(schema.clone(), Vec::new())
                .map_err(|e| DataFusionError::External(Box::new(e)))?;
            let table = ClusterTable {
                name: name.clone(),
                schema,
                empty,
                query: query.to_vec(),
                shares: shares.into(),
                partitions,
            };
            tables.insert(name.clone(), table);
        }
        Ok(tables)
    }
}

/// Creates a plan for all servers. If the engine would distribute an operator that it must not, creates a plan that
/// gathers the rows of all tables first.
async fn create_physical_plan(
    context: &SessionContext,
    logical: &LogicalPlan,
    planning: &PlanningState,
) -> Result<Arc<dyn ExecutionPlan>> {
    match context.state().create_physical_plan(logical).await {
        Ok(plan) if distribution::is_distributable(&plan)? => return Ok(plan),
        Err(e) if !planning.is_misplaced.load(Ordering::Relaxed) => return Err(e),
        _ => planning.is_gathered.store(true, Ordering::Relaxed),
    }
    context.state().create_physical_plan(logical).await
}

/// Returns the name of a table that a statement mentions.
fn table_name(reference: &TableReference) -> Result<String> {
    match reference {
        TableReference::Bare { table } => Ok(table.to_string()),
        TableReference::Partial { schema, table } if &**schema == "public" => Ok(table.to_string()),
        other => plan_err!("there is no table {other}: the tables of a cluster have names of one part"),
    }
}

fn request_error(url: &Url, error: impl std::fmt::Display) -> DataFusionError {
    exec_datafusion_err!("asking {url}: {error}")
}

/// Returns the columns of a server's table.
fn decode_schema(table: &OpenedTable, url: &Url) -> Result<Schema> {
    let schema = table.schema.as_ref().ok_or_else(|| exec_datafusion_err!("asking {url}: a table has no columns"))?;
    let schema = Schema::try_from(schema)?;
    // Without metadata, which may differ between servers.
    Ok(Schema::new(schema.fields().clone()))
}

/// Merges the `schema` of a table on earlier servers with the schema `other` on the server at `url`. Both must have the
/// same columns. A column is nullable if it is on any server.
fn merge_schemas(schema: &Schema, other: &Schema, table: &str, url: &Url) -> Result<Schema> {
    if let Some(surplus) = other.fields().iter().find(|field| schema.field_with_name(field.name()).is_err()) {
        let name = surplus.name();
        return plan_err!("table '{table}' of {url} has a column '{name}', which that of another server has not");
    }
    let mut fields: Vec<Field> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let name = field.name();
        let Ok(other_field) = other.field_with_name(name) else {
            return plan_err!("table '{table}' of {url} has no column '{name}', which that of another server has");
        };
        if other_field.data_type() != field.data_type() {
            return plan_err!(
                "column '{name}' of table '{table}' is {} on {url}, and {} on another server",
                other_field.data_type(),
                field.data_type()
            );
        }
        let is_nullable = field.is_nullable() || other_field.is_nullable();
        fields.push(field.as_ref().clone().with_nullable(is_nullable));
    }
    Ok(Schema::new(fields))
}

/// Converts an error of the engine to an error of Arrowwood.
fn to_error(error: &DataFusionError) -> Error {
    let kind = match error.find_root() {
        DataFusionError::SQL(..) | DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => {
            ErrorKind::InvalidArgument
        }
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.strip_backtrace())
}
