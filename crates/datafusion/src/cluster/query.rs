//! [`Cluster`]: asks a question of the tables of several servers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrowwood::{Dataset, Error, ErrorKind};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::common::{exec_datafusion_err, exec_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt, display_plan_ascii};
use futures::TryStreamExt;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http_body_util::{BodyExt, Full, Limited};
use prost::Message;
use tonic::transport::Channel;
use tower::{Service, ServiceExt};
use url::Url;

use crate::cluster::messages::{OpenRequest, OpenResponse, OpenedTable};
use crate::cluster::part::{PART_PARTITIONS, PartCodec};
use crate::cluster::peers::{PeerOptions, Peers};
use crate::cluster::plan::{self, GatherRule, PlanningState};
use crate::cluster::table::{ClusterTable, ServerShare};
use crate::cluster::version::version;
use crate::cluster::{hosts, panics, worker};
use crate::projection_rule::kept_apart;

/// The most bytes of a server's first answer.
const MOST: usize = 64 << 20;
/// The most bytes that have come from a server and were not read yet, for each connection.
const UNDER_WAY: usize = 16 << 20;
/// How long a server may take for its first answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The servers whose tables are asked as one.
///
/// A table of the cluster has the rows of the tables of that name on all servers that have one. Each reads its own.
pub struct Cluster {
    peers: Peers,
    token: Option<String>,
}

/// The answer to a query.
pub struct ClusterAnswer {
    /// How it was planned, as text.
    pub plan: String,
    /// The rows, as they come. They are whole when the stream has ended without an error.
    pub rows: SendableRecordBatchStream,
    panics: u64,
}

impl ClusterAnswer {
    /// All batches.
    ///
    /// # Errors
    /// Where a server failed, or could not be reached any more.
    pub async fn collect(self) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let schema = self.rows.schema();
        let batches = self.rows.try_collect::<Vec<_>>().await?;
        if panics::count() != self.panics {
            return exec_err!("the engine panicked; what it has found may not be whole");
        }
        Ok((schema, batches))
    }
}

impl Cluster {
    /// The servers that `file` lists, one URL a line.
    ///
    /// # Errors
    /// `Io` where the file can't be read; `InvalidArgument` for what isn't a list of servers, or may not be asked.
    pub fn open(file: impl AsRef<Path>, options: &PeerOptions) -> arrowwood::Result<Cluster> {
        Ok(Cluster { peers: Peers::new(hosts::read(file.as_ref())?, options)?, token: options.token.clone() })
    }

    /// The rows that a statement asks for. Blocks.
    ///
    /// # Errors
    /// `InvalidArgument` for a wrong statement; `Io` where a server fails.
    pub fn sql(&self, statement: &str) -> arrowwood::Result<Dataset> {
        let runtime = worker::runtime().map_err(|e| Error::io("starting threads", &e))?;
        let answered = runtime.block_on(async { self.query(statement).await?.collect().await });
        runtime.shutdown_background();
        let (schema, batches) = answered.map_err(|e| to_error(&e))?;
        Dataset::from_batches(schema, batches)
    }

    /// Plans a statement, and begins to run it.
    ///
    /// # Errors
    /// As [`Cluster::sql`].
    pub async fn query(&self, statement: &str) -> Result<ClusterAnswer> {
        panics::watch();
        let panics = panics::count();
        let planning = Arc::new(PlanningState::default());
        let context = SessionContext::new_with_state(self.state(&planning, 2)?.build());
        let dialect = context.state().config().options().sql_parser.dialect;
        let parsed = context.state().sql_to_statement(statement, &dialect)?;
        let mentioned = context.state().resolve_table_references(&parsed)?;
        let names = mentioned.iter().map(name).collect::<Result<Vec<_>>>()?;

        let query = uuid::Uuid::new_v4().as_bytes().to_vec();
        let opened = if names.is_empty() { Vec::new() } else { self.open_tables(&query, &names).await? };
        let cores = opened.iter().map(|opened| opened.cores).max().unwrap_or(2);
        let partitions = cores.clamp(2, PART_PARTITIONS);
        let context = SessionContext::new_with_state(self.state(&planning, partitions as usize)?.build());
        for (name, table) in self.tables(&query, &opened, partitions)? {
            context.register_table(TableReference::bare(name), Arc::new(table))?;
        }
        let logical = context.state().statement_to_plan(parsed).await?;
        let reading = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        reading.verify_plan(&logical)?;
        let plan = distributed(&context, &logical, &planning).await?;
        let shown = display_plan_ascii(plan.as_ref(), false);
        let rows = execute_stream(plan, context.task_ctx())?;
        Ok(ClusterAnswer { plan: shown, rows, panics })
    }

    fn state(&self, planning: &Arc<PlanningState>, partitions: usize) -> Result<SessionStateBuilder> {
        let mut config = SessionConfig::new().with_target_partitions(partitions);
        // A filter that is found while a query runs holds for one server only.
        config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
        let scaling = planning.clone();
        let mut headers = HeaderMap::new();
        if let Some(authorization) = self.authorization()? {
            headers.insert(AUTHORIZATION, authorization);
        }
        let mut builder = SessionStateBuilder::new().with_default_features();
        kept_apart(&mut builder);
        builder
            .with_config(config)
            .with_physical_optimizer_rule(Arc::new(GatherRule(planning.clone())))
            .with_distributed_worker_resolver(self.peers.clone())
            .with_distributed_channel_resolver(self.peers.clone())
            .with_distributed_planner()
            .with_distributed_user_codec(PartCodec { asked: None })
            .with_distributed_desired_task_count_handler(plan::desired)
            .with_distributed_scale_up_leaf_node_handler(move |event: datafusion_distributed::ScaleUpLeafNodeEvent| {
                plan::scale_up(&scaling, &event)
            })
            .with_distributed_route_tasks_handler(|event: datafusion_distributed::RouteTasksEvent| plan::route(&event))
            .with_distributed_passthrough_headers(headers)?
            .with_distributed_metrics_collection(false)?
            .with_distributed_worker_connection_buffer_budget_bytes(UNDER_WAY)?
            // A union of two tables is read where both are.
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
        let asked = self.peers.urls().iter().map(|url| self.open_at(url, &request));
        let opened = futures::future::try_join_all(asked).await?;
        for (number, one) in opened.iter().enumerate() {
            let mut before = opened.iter().zip(self.peers.urls()).take(number);
            if let Some((_, twice)) = before.find(|(other, _)| other.directory == one.directory) {
                let url = &self.peers.urls()[number];
                return plan_err!("{twice} and {url} serve the same directory: each of its rows would be there twice");
            }
        }
        Ok(opened)
    }

    async fn open_at(&self, url: &Url, request: &[u8]) -> Result<OpenResponse> {
        let response = async {
            let mut channel: Channel = self.peers.connect(url).await?;
            let target = url.join(worker::OPEN).map_err(|e| asking_error(url, e))?;
            let mut asking = http::Request::post(target.as_str());
            if let Some(authorization) = self.authorization()? {
                asking = asking.header(AUTHORIZATION, authorization);
            }
            let body = tonic::body::Body::new(Full::new(bytes::Bytes::copy_from_slice(request)));
            let asking = asking.body(body).map_err(|e| asking_error(url, e))?;
            let ready = channel.ready().await.map_err(|e| asking_error(url, e))?;
            let answer = ready.call(asking).await.map_err(|e| asking_error(url, e))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MOST).collect().await;
            let body = body.map_err(|e| asking_error(url, e))?.to_bytes();
            if status == http::StatusCode::NOT_FOUND {
                return exec_err!("asking {url}: it takes no part in such queries; start it with --worker");
            }
            if !status.is_success() {
                // A proxy may answer with anything.
                let problem = serde_json::from_slice::<serde_json::Value>(&body).ok();
                let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
                let detail = detail.or(status.canonical_reason()).unwrap_or("refused").to_owned();
                return exec_err!("asking {url}: {detail} (HTTP {})", status.as_u16());
            }
            OpenResponse::decode(body).map_err(|e| asking_error(url, e))
        };
        let Ok(opened) = tokio::time::timeout(PATIENCE, response).await else {
            return exec_err!("asking {url}: no answer within a minute");
        };
        let opened = opened?;
        let version = version()?;
        if opened.version != version {
            return exec_err!(
                "asking {url}: it is of version {}, and this program of {version}: use one program everywhere",
                opened.version
            );
        }
        Ok(opened)
    }

    /// The tables of the cluster.
    fn tables(&self, query: &[u8], opened: &[OpenResponse], partitions: u32) -> Result<BTreeMap<String, ClusterTable>> {
        let names = opened.iter().flat_map(|opened| &opened.tables).map(|table| table.name.clone());
        assert!(
            opened.is_empty() || opened.len() == self.peers.urls().len(),
            "either no server was asked, or all were"
        );
        let mut tables = BTreeMap::new();
        for name in names.collect::<std::collections::BTreeSet<_>>() {
            let mut schema = None;
            let mut shares = Vec::new();
            for (url, opened) in self.peers.urls().iter().zip(opened) {
                let table = opened.tables.iter().find(|table| table.name == name);
                if let Some(table) = table {
                    let columns = schema_of(table, url)?;
                    schema = Some(match schema {
                        None => columns,
                        Some(common) => united(&common, &columns, &name, url)?,
                    });
                }
                let (process, rows) = match table {
                    Some(table) => (opened.process.clone(), table.rows),
                    None => (Vec::new(), 0),
                };
                shares.push(ServerShare { url: url.clone(), process, rows });
            }
            // The engine distributes nothing to one server alone.
            if let [only] = shares.as_slice() {
                shares.push(ServerShare { process: Vec::new(), rows: 0, ..only.clone() });
            }
            let Some(schema) = schema.map(Arc::new) else { continue };
            let empty = Dataset::from_batches(schema.clone(), Vec::new()).map_err(crate::external)?;
            let table = ClusterTable {
                name: name.clone(),
                schema,
                sample: empty,
                query: query.to_vec(),
                shares: shares.into(),
                partitions,
            };
            tables.insert(name, table);
        }
        Ok(tables)
    }
}

/// Plans a query for all servers; or, where the engine would distribute what it can't, gathers the rows first.
async fn distributed(
    context: &SessionContext,
    logical: &LogicalPlan,
    planning: &PlanningState,
) -> Result<Arc<dyn ExecutionPlan>> {
    let planned = context.state().create_physical_plan(logical).await;
    match planned {
        Ok(plan) if plan::is_distributable(&plan)? => return Ok(plan),
        Err(e) if !planning.is_misplaced.load(Ordering::Relaxed) => return Err(e),
        _ => planning.is_gathered.store(true, Ordering::Relaxed),
    }
    context.state().create_physical_plan(logical).await
}

/// The name of a table that a statement mentions.
fn name(reference: &TableReference) -> Result<String> {
    match reference {
        TableReference::Bare { table } => Ok(table.to_string()),
        TableReference::Partial { schema, table } if &**schema == "public" => Ok(table.to_string()),
        other => plan_err!("there is no table {other}: the tables of a cluster have names of one part"),
    }
}

fn asking_error(url: &Url, error: impl std::fmt::Display) -> DataFusionError {
    exec_datafusion_err!("asking {url}: {error}")
}

fn schema_of(table: &OpenedTable, url: &Url) -> Result<Schema> {
    let schema = table.schema.as_ref().ok_or_else(|| exec_datafusion_err!("asking {url}: a table has no columns"))?;
    let schema = Schema::try_from(schema)?;
    let fields = schema.fields().clone();
    // The metadata of a schema may differ from server to server.
    Ok(Schema::new(fields))
}

/// The columns of both, which have to be the same; null is where it is on either.
fn united(common: &Schema, own: &Schema, table: &str, url: &Url) -> Result<Schema> {
    if let Some(more) = own.fields().iter().find(|field| common.field_with_name(field.name()).is_err()) {
        let name = more.name();
        return plan_err!("table '{table}' of {url} has a column '{name}', which that of another server has not");
    }
    let mut fields: Vec<Field> = Vec::with_capacity(common.fields().len());
    for field in common.fields() {
        let name = field.name();
        let Ok(other) = own.field_with_name(name) else {
            return plan_err!("table '{table}' of {url} has no column '{name}', which that of another server has");
        };
        if other.data_type() != field.data_type() {
            return plan_err!(
                "column '{name}' of table '{table}' is {} on {url}, and {} on another server",
                other.data_type(),
                field.data_type()
            );
        }
        let nullable = field.is_nullable() || other.is_nullable();
        fields.push(field.as_ref().clone().with_nullable(nullable));
    }
    Ok(Schema::new(fields))
}

/// An error of the engine as ours.
fn to_error(error: &DataFusionError) -> Error {
    let kind = match error.find_root() {
        DataFusionError::SQL(..) | DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => {
            ErrorKind::InvalidArgument
        }
        _ => ErrorKind::Io,
    };
    Error::new(kind, error.strip_backtrace())
}
