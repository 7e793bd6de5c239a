//! [`Worker`]: the service on a server that runs tasks of a cluster's queries.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrowwood_datafusion::CancelToken;
use arrowwood_serve::{ClientOptions, WorkerBody, WorkerCaller, WorkerEngine, WorkerFuture, WorkerRequest};
use bytes::Bytes;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion_distributed::{
    DistributedExt, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
};
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, Limited};
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Sleep;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};
use url::Url;

use crate::cluster::messages::{ExecuteMessage, OpenRequest, OpenResponse, OpenedTable};
use crate::cluster::part::PartCodec;
use crate::cluster::peers::Peers;
use crate::cluster::snapshots::{CallerSnapshots, Snapshots};
use crate::cluster::version::version;
use crate::cluster::{distribution, hosts, panics, part};
use crate::engine::count_processors;
use crate::functions::{ResultBudget, install_bounded_functions};

/// The service of the request that fixes the rows of a query.
const OPEN_SERVICE: &str = "arrowwood.Cluster";
/// The path of that request.
pub(super) const OPEN_PATH: &str = "/arrowwood.Cluster/Open";
/// The path of the engine's request to execute a task.
const EXECUTE_PATH: &str = "/worker.WorkerService/ExecuteTask";
/// The service of the engine's own requests.
const ENGINE_SERVICE: &str = "worker.WorkerService";

/// The caller, as the server has authenticated it.
const CALLER_HEADER: HeaderName = HeaderName::from_static("arrowwood-caller");
/// The timeout of the query in milliseconds.
const TIMEOUT_HEADER: HeaderName = HeaderName::from_static("arrowwood-query-timeout");
/// The maximum bytes of a request without a plan.
const MAX_REQUEST_BYTES: usize = 1 << 20;
/// The maximum bytes of a request with a plan.
const MAX_PLAN_BYTES: usize = 16 << 20;
/// The bytes of the number that identifies a query.
const QUERY_NUMBER_BYTES: usize = 16;
/// The maximum number of tables of a query.
const MAX_TABLES: usize = 256;
/// The maximum bytes that are queued for sending, for each connection.
const CONNECTION_BUFFER_BYTES: usize = 32 << 20;
/// The stack size of a thread. Plans are processed by recursion.
const STACK_BYTES: usize = 16 << 20;

type EngineService = BoxCloneSyncService<Request<tonic::body::Body>, Response<tonic::body::Body>, Infallible>;

/// The memory and disk space of a worker, and its connections to other servers. By default, 1 GiB and 16 GiB.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The maximum bytes of memory that operators of all queries retain together.
    pub memory: usize,
    /// The maximum bytes of temporary files of all queries together.
    pub spilled: u64,
    /// Options of the connections to other servers. The token is not used: a worker sends the tokens of its callers.
    pub peers: ClientOptions,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions { memory: 1 << 30, spilled: 16 << 30, peers: ClientOptions::default() }
    }
}

/// Answers the requests of a cluster. The server authenticates the callers before.
pub struct Worker {
    /// `None` while the worker is dropped.
    runtime: Option<Runtime>,
    snapshots: Arc<Snapshots>,
    engine: EngineService,
}

/// Starts threads that have enough stack for plans.
pub(super) fn start_runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().thread_name("arrowwood-sql").thread_stack_size(STACK_BYTES).enable_all().build()
}

impl Worker {
    /// Creates a worker that connects only to the servers that the file `peers` lists.
    ///
    /// # Errors
    /// Errors of [`Cluster::open`](crate::Cluster::open); `Io` if threads can't be started.
    pub fn new(peers: impl AsRef<Path>, options: &WorkerOptions) -> arrowwood::Result<Worker> {
        panics::watch();
        let peers = Peers::new(hosts::read_hosts(peers.as_ref())?, &options.peers)?;
        let runtime = start_runtime().map_err(|e| arrowwood::Error::io("starting threads", &e))?;
        let snapshots = Arc::new(Snapshots::new());

        let environment = create_environment(options)
            .map_err(|e| arrowwood::Error::new(arrowwood::ErrorKind::Internal, format!("preparing the engine: {e}")))?;
        let query_snapshots = snapshots.clone();
        let budget = Arc::new(ResultBudget::default());
        budget.set_query_memory(options.memory);

        let engine = datafusion_distributed::Worker::from_session_builder(move |context: WorkerQueryContext| {
            let session = create_session(context, &query_snapshots, &peers, &budget);
            async move { session }
        });
        let engine = engine.with_runtime_env(Arc::new(environment));
        let service = engine.into_worker_server().max_decoding_message_size(MAX_PLAN_BYTES);
        Ok(Worker { runtime: Some(runtime), snapshots, engine: BoxCloneSyncService::new(service) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Creates the environment that all queries share.
fn create_environment(options: &WorkerOptions) -> Result<RuntimeEnv> {
    // An error names one operator, the largest.
    let named_consumers = NonZeroUsize::MIN;
    let pool = TrackConsumersPool::new(FairSpillPool::new(options.memory), named_consumers);
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::OsTmpDirectory)
        .with_max_temp_directory_size(options.spilled);
    // Without a store for files, a plan can't read any.
    let stores = DefaultObjectStoreRegistry::new();
    if let Ok(files) = Url::parse("file:///") {
        stores.deregister_store(&files)?;
    }
    let builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).with_disk_manager_builder(disk);
    builder.with_object_store_registry(Arc::new(stores)).build()
}

/// Creates the session of a caller's task.
fn create_session(
    context: WorkerQueryContext,
    snapshots: &Arc<Snapshots>,
    peers: &Peers,
    budget: &Arc<ResultBudget>,
) -> Result<SessionState> {
    let WorkerQueryContext { mut builder, headers } = context;
    install_bounded_functions(&mut builder, budget);
    let Some(caller) = headers.get(CALLER_HEADER).and_then(|caller| caller.to_str().ok()) else {
        return internal_err!("a call names no caller");
    };
    let timeout = headers.get(TIMEOUT_HEADER).and_then(|timeout| timeout.to_str().ok()?.parse().ok());
    let Some(timeout) = timeout else { return internal_err!("a call has no time") };
    let cancel = CancelToken::after(Duration::from_millis(timeout));

    let mut forwarded_headers = HeaderMap::new();
    if let Some(authorization) = headers.get(AUTHORIZATION) {
        forwarded_headers.insert(AUTHORIZATION, authorization.clone());
    }

    // Undo the caller's choice of a batch size, which may be too large.
    let config = builder.config().get_or_insert_default();
    config.options_mut().execution.batch_size = datafusion::config::ExecutionOptions::default().batch_size;
    let state = builder
        .with_distributed_user_codec(PartCodec {
            snapshots: Some(CallerSnapshots { snapshots: snapshots.clone(), caller: caller.to_owned() }),
        })
        .with_distributed_channel_resolver(peers.clone())
        .with_distributed_worker_connection_buffer_budget_bytes(CONNECTION_BUFFER_BYTES)?
        .with_distributed_passthrough_headers(forwarded_headers)?
        .with_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent| {
            distribution::check_plan(&event.plan)?;
            Ok(WorkerPlanRewriteEventResponse::new(part::prepare_for_serving(event.plan, &cancel)?))
        });
    Ok(state.build())
}

impl WorkerEngine for Worker {
    fn handles(&self, service: &str) -> bool {
        service == ENGINE_SERVICE || service == OPEN_SERVICE
    }

    fn call(&self, request: WorkerRequest, caller: WorkerCaller) -> WorkerFuture {
        let Some(runtime) = &self.runtime else {
            return Box::pin(async { error_response(StatusCode::SERVICE_UNAVAILABLE, "") });
        };
        let initial_panics = panics::count();
        let snapshots = self.snapshots.clone();
        let engine = self.engine.clone();
        // Run on the threads of the engine, which have larger stacks than the server's.
        let task = runtime.spawn(async move {
            if request.uri().path() == OPEN_PATH {
                return open(request, &caller, &snapshots).await;
            }
            match check_request(request).await {
                Ok(request) => call_engine(request, &caller, engine, initial_panics).await,
                Err(problem) => error_response(StatusCode::BAD_REQUEST, &problem),
            }
        });
        Box::pin(async move {
            match task.await {
                Ok(response) => response,
                Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "the engine panicked"),
            }
        })
    }
}

fn full_body(bytes: impl Into<Bytes>) -> WorkerBody {
    Full::new(bytes.into()).map_err(|never: Infallible| -> io::Error { match never {} }).boxed_unsync()
}

fn error_response(status: StatusCode, detail: &str) -> Response<WorkerBody> {
    let problem = serde_json::json!({ "detail": detail, "code": "cluster" }).to_string();
    let mut response = Response::new(full_body(problem));
    *response.status_mut() = status;
    response
}

// ---- the rows of a query ----

/// Answers the request that fixes the rows of a query.
async fn open(request: WorkerRequest, caller: &WorkerCaller, snapshots: &Arc<Snapshots>) -> Response<WorkerBody> {
    let body = match Limited::new(request.into_body(), MAX_REQUEST_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(e) => return error_response(StatusCode::BAD_REQUEST, &e.to_string()),
    };
    let version = match version() {
        Ok(version) => version,
        Err(e) => return error_response(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    };
    let request = match OpenRequest::decode(body) {
        Ok(request) => request,
        Err(e) => return error_response(StatusCode::BAD_REQUEST, &format!("reading the request: {e}")),
    };

    if request.version != version {
        let problem = format!("this server is of version {version}, and was asked by one of {}", request.version);
        return error_response(StatusCode::BAD_REQUEST, &problem);
    }
    if request.query.len() != QUERY_NUMBER_BYTES || request.tables.len() > MAX_TABLES {
        let problem = format!("a query has a number of {QUERY_NUMBER_BYTES} bytes, and at most {MAX_TABLES} tables");
        return error_response(StatusCode::BAD_REQUEST, &problem);
    }

    let caller = caller.clone();
    let snapshots = snapshots.clone();
    let opened = tokio::task::spawn_blocking(move || open_tables(&request, &caller, &snapshots)).await;
    match opened {
        Ok(Ok(response)) => Response::new(full_body(response.encode_to_vec())),
        Ok(Err((status, problem))) => error_response(status, &problem),
        Err(_) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "the engine panicked"),
    }
}

/// The status of an error response, and its message.
type Rejection = (StatusCode, String);

/// Returns the rejection for an error that is not the caller's.
fn internal<E: std::fmt::Display>(error: E) -> Rejection {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// Fixes the rows of the requested tables that the caller may read. Blocks.
fn open_tables(request: &OpenRequest, caller: &WorkerCaller, snapshots: &Snapshots) -> Result<OpenResponse, Rejection> {
    let mut tables = Vec::new();
    let mut rows_by_name = HashMap::new();
    for name in &request.tables {
        let Some(rows) = caller.rows(name)? else { continue };
        let schema = datafusion_proto::protobuf::Schema::try_from(rows.schema().as_ref()).map_err(internal)?;
        let count = rows.len().map_err(internal)?;
        tables.push(OpenedTable { name: name.clone(), schema: Some(schema), rows: count });
        rows_by_name.insert(name.clone(), Arc::new(rows));
    }
    let fixed = snapshots.fix(&caller.key(), &request.query, rows_by_name);
    fixed.map_err(|e| (StatusCode::SERVICE_UNAVAILABLE, e.to_string()))?;
    Ok(OpenResponse {
        version: request.version.clone(),
        process: snapshots.process.clone(),
        directory: caller.directory(),
        cores: u32::try_from(count_processors()).unwrap_or(u32::MAX),
        tables,
    })
}

// ---- requests to the engine ----

/// Returns the request for the engine, unless it would execute a task with too many partitions.
async fn check_request(request: WorkerRequest) -> Result<Request<tonic::body::Body>, String> {
    /// The bytes before a message of gRPC: a flag and the length of the message.
    const PREFIX_BYTES: usize = 5;
    /// The flag of a message that is not compressed.
    const UNCOMPRESSED: u8 = 0;
    if request.uri().path() != EXECUTE_PATH {
        return Ok(request.map(tonic::body::Body::new));
    }
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await.map_err(|e| e.to_string())?.to_bytes();
    let is_uncompressed = body.first() == Some(&UNCOMPRESSED);
    let message = body.get(PREFIX_BYTES..).filter(|_| is_uncompressed).ok_or("a message in full is expected")?;
    ExecuteMessage::decode(message).map_err(|e| e.to_string())?.check()?;
    Ok(Request::from_parts(parts, tonic::body::Body::new(Full::new(body))))
}

/// Has the engine answer a request of a caller.
async fn call_engine(
    mut request: Request<tonic::body::Body>,
    caller: &WorkerCaller,
    mut engine: EngineService,
    initial_panics: u64,
) -> Response<WorkerBody> {
    let Ok(key) = caller.key().parse() else {
        return error_response(StatusCode::INTERNAL_SERVER_ERROR, "a name with odd bytes");
    };
    request.headers_mut().insert(CALLER_HEADER, key);
    let timeout_millis = u64::try_from(caller.query_timeout().as_millis()).unwrap_or(u64::MAX);
    request.headers_mut().insert(TIMEOUT_HEADER, timeout_millis.into());
    let response = match engine.ready().await {
        Ok(engine) => engine.call(request).await,
        Err(never) => match never {},
    };
    let Ok(response) = response;
    let timeout = Box::pin(tokio::time::sleep(caller.query_timeout()));
    let caller = caller.clone();
    let is_caller_valid = Box::new(move || caller.is_valid());
    response.map(|body| CheckedBody { body, initial_panics, timeout, is_caller_valid }.boxed_unsync())
}

/// The body of the engine's response. It fails after the timeout, after a panic, and when the token of the caller is
/// revoked.
struct CheckedBody {
    body: tonic::body::Body,
    /// The number of panics before the request.
    initial_panics: u64,
    timeout: Pin<Box<Sleep>>,
    is_caller_valid: Box<dyn Fn() -> bool + Send>,
}

impl CheckedBody {
    fn check_panics(&self) -> io::Result<()> {
        if panics::count() != self.initial_panics {
            return Err(io::Error::other("the engine panicked"));
        }
        Ok(())
    }
}

impl Body for CheckedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.timeout.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(io::Error::other("the query took longer than it may (--query-timeout)"))));
        }
        if let Err(e) = this.check_panics() {
            return Poll::Ready(Some(Err(e)));
        }
        let frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_ready() {
            // After a panic, this frame may lack rows, or be the end though there are more.
            if let Err(e) = this.check_panics() {
                return Poll::Ready(Some(Err(e)));
            }
            if !(this.is_caller_valid)() {
                return Poll::Ready(Some(Err(io::Error::other("the token is not valid any more"))));
            }
        }
        frame.map_err(io::Error::other)
    }

    fn is_end_stream(&self) -> bool {
        // `poll_frame` may still replace the end by an error.
        false
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a body with the content "rows".
    fn checked_body(timeout: Duration, is_caller_valid: bool) -> CheckedBody {
        CheckedBody {
            body: tonic::body::Body::new(Full::new(Bytes::from_static(b"rows"))),
            initial_panics: panics::count(),
            timeout: Box::pin(tokio::time::sleep(timeout)),
            is_caller_valid: Box::new(move || is_caller_valid),
        }
    }

    // One test, as panics of other tests in this process would count.
    #[tokio::test]
    async fn body_fails_after_timeout_panic_or_revoked_token() {
        const LONG: Duration = Duration::from_secs(60);
        panics::watch();
        assert_eq!(checked_body(LONG, true).collect().await.unwrap().to_bytes(), "rows");

        assert!(checked_body(LONG, false).collect().await.is_err());

        let late = checked_body(Duration::ZERO, true);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(late.collect().await.is_err());

        let started = checked_body(LONG, true);
        assert!(std::thread::spawn(|| panic!("as a task of the engine would")).join().is_err());
        assert!(started.collect().await.is_err());
    }
}
