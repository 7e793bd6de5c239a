//! [`Worker`]: runs the tasks of a cluster's queries on a server.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrowwood_serve::{WorkerBody, WorkerCaller, WorkerEngine, WorkerFuture, WorkerRequest};
use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
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

use crate::cancel_token::CancelToken;
use crate::cluster::messages::{ExecuteMessage, OpenRequest, OpenResponse, OpenedTable};
use crate::cluster::part::PartCodec;
use crate::cluster::peers::{PeerOptions, Peers};
use crate::cluster::snapshots::{CallerSnapshots, Snapshots};
use crate::cluster::version::version;
use crate::cluster::{hosts, panics, part, plan};
use crate::planners::bound;
use crate::result_budget::ResultBudget;

/// The request that fixes the rows of a query.
pub(crate) const OPEN: &str = "/arrowwood.Cluster/Open";
/// The service of the engine's own requests, and the request that has a task executed.
const ENGINE: &str = "worker.WorkerService";
const EXECUTE: &str = "/worker.WorkerService/ExecuteTask";

/// Who asks, as the server has found it.
const CALLER: HeaderName = HeaderName::from_static("arrowwood-caller");
/// The milliseconds that a query may take.
const TIMEOUT: HeaderName = HeaderName::from_static("arrowwood-query-timeout");
/// The most bytes of a small request, and of a plan.
const SMALL: usize = 1 << 20;
const PLAN: usize = 16 << 20;
/// The most tables of a query.
const TABLES: usize = 256;
/// The most bytes that are sent to others and not taken yet, for each connection.
const UNDER_WAY: usize = 32 << 20;
/// The stack of a thread: plans are trees.
const STACK: usize = 16 << 20;

type EngineService = BoxCloneSyncService<Request<tonic::body::Body>, Response<tonic::body::Body>, Infallible>;

/// The memory and files that a worker may take, and how it asks other servers.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Bytes of all queries together.
    pub memory: usize,
    /// Bytes of files that queries write to a temporary directory, beyond that.
    pub spilled: u64,
    /// How it asks the other servers. Callers' own tokens are sent, this one's is not used.
    pub peers: PeerOptions,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions { memory: 1 << 30, spilled: 16 << 30, peers: PeerOptions::default() }
    }
}

/// Answers the calls of a cluster, of callers that the server has let in.
pub struct Worker {
    // `None` when it is dropped.
    runtime: Option<Runtime>,
    snapshots: Arc<Snapshots>,
    calls: EngineService,
}

/// Threads for plans.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().thread_name("arrowwood-sql").thread_stack_size(STACK).enable_all().build()
}

impl Worker {
    /// A worker that asks no other servers than those that the file `peers` lists.
    ///
    /// # Errors
    /// As [`Cluster::open`](crate::Cluster::open); `Io` where threads can't be had.
    pub fn new(peers: impl AsRef<Path>, options: &WorkerOptions) -> arrowwood::Result<Worker> {
        panics::watch();
        let peers = Peers::new(hosts::read(peers.as_ref())?, &options.peers)?;
        let runtime = runtime().map_err(|e| arrowwood::Error::io("starting threads", &e))?;
        let snapshots = Arc::new(Snapshots::new());
        let env = environment(options)
            .map_err(|e| arrowwood::Error::new(arrowwood::ErrorKind::Internal, format!("preparing the engine: {e}")))?;
        let query_snapshots = snapshots.clone();
        let budget = Arc::new(ResultBudget::default());
        budget.set_query_memory(options.memory);
        let engine = datafusion_distributed::Worker::from_session_builder(move |context: WorkerQueryContext| {
            let built = session(context, &query_snapshots, &peers, &budget);
            async move { built }
        });
        let engine = engine.with_runtime_env(Arc::new(env));
        let service = engine.into_worker_server().max_decoding_message_size(PLAN);
        Ok(Worker { runtime: Some(runtime), snapshots, calls: BoxCloneSyncService::new(service) })
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
fn environment(options: &WorkerOptions) -> Result<RuntimeEnv> {
    let few = std::num::NonZeroUsize::MIN;
    let pool = TrackConsumersPool::new(FairSpillPool::new(options.memory), few);
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::OsTmpDirectory)
        .with_max_temp_directory_size(options.spilled);
    // A plan that names files finds none.
    let stores = DefaultObjectStoreRegistry::new();
    if let Ok(files) = Url::parse("file:///") {
        stores.deregister_store(&files)?;
    }
    let builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).with_disk_manager_builder(disk);
    builder.with_object_store_registry(Arc::new(stores)).build()
}

/// The session in which a task of a caller runs.
fn session(
    context: WorkerQueryContext,
    snapshots: &Arc<Snapshots>,
    peers: &Peers,
    budget: &Arc<ResultBudget>,
) -> Result<SessionState> {
    let WorkerQueryContext { mut builder, headers } = context;
    bound(&mut builder, budget);
    let caller = headers.get(CALLER).and_then(|caller| caller.to_str().ok());
    let caller = caller.ok_or_else(|| DataFusionError::Internal("a call names no caller".into()))?.to_owned();
    let time = headers.get(TIMEOUT).and_then(|time| time.to_str().ok()?.parse().ok());
    let time = time.ok_or_else(|| DataFusionError::Internal("a call has no time".into()))?;
    let stop = CancelToken::after(Duration::from_millis(time));
    let mut forwarded = HeaderMap::new();
    if let Some(authorization) = headers.get(AUTHORIZATION) {
        forwarded.insert(AUTHORIZATION, authorization.clone());
    }
    // A caller may have set any size.
    let config = builder.config().get_or_insert_default();
    config.options_mut().execution.batch_size = datafusion::config::ExecutionOptions::default().batch_size;
    let state = builder
        .with_distributed_user_codec(PartCodec {
            asked: Some(CallerSnapshots { snapshots: snapshots.clone(), caller }),
        })
        .with_distributed_channel_resolver(peers.clone())
        .with_distributed_worker_connection_buffer_budget_bytes(UNDER_WAY)?
        .with_distributed_passthrough_headers(forwarded)?
        .with_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent| {
            plan::check(&event.plan)?;
            Ok(WorkerPlanRewriteEventResponse::new(part::served(event.plan, &stop)?))
        });
    Ok(state.build())
}

impl WorkerEngine for Worker {
    fn handles(&self, service: &str) -> bool {
        service == ENGINE || OPEN.split('/').nth(1) == Some(service)
    }

    fn call(&self, request: WorkerRequest, caller: WorkerCaller) -> WorkerFuture {
        let Some(runtime) = &self.runtime else {
            return Box::pin(async { refused(StatusCode::SERVICE_UNAVAILABLE, "") });
        };
        let panics = panics::count();
        let snapshots = self.snapshots.clone();
        let calls = self.calls.clone();
        // Its tasks run on the threads of the engine, and this one waits.
        let done = runtime.spawn(async move {
            if request.uri().path() == OPEN {
                return open(request, &caller, &snapshots).await;
            }
            match bounded(request).await {
                Ok(request) => engine(request, &caller, calls, panics).await,
                Err(problem) => refused(StatusCode::BAD_REQUEST, &problem),
            }
        });
        Box::pin(async move {
            match done.await {
                Ok(response) => response,
                Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "the engine panicked"),
            }
        })
    }
}

fn whole(body: impl Into<Bytes>) -> WorkerBody {
    Full::new(body.into()).map_err(|never: Infallible| -> io::Error { match never {} }).boxed_unsync()
}

fn refused(status: StatusCode, detail: &str) -> Response<WorkerBody> {
    let problem = serde_json::json!({ "detail": detail, "code": "cluster" }).to_string();
    let mut response = Response::new(whole(problem));
    *response.status_mut() = status;
    response
}

// ---- the rows of a query ----

async fn open(request: WorkerRequest, caller: &WorkerCaller, snapshots: &Arc<Snapshots>) -> Response<WorkerBody> {
    let body = match Limited::new(request.into_body(), SMALL).collect().await {
        Ok(body) => body.to_bytes(),
        Err(e) => return refused(StatusCode::BAD_REQUEST, &e.to_string()),
    };
    let own = match version() {
        Ok(version) => version,
        Err(e) => return refused(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    };
    let asked = match OpenRequest::decode(body) {
        Ok(asked) if asked.version == own => asked,
        Ok(asked) => {
            let problem = format!("this server is of version {own}, and was asked by one of {}", asked.version);
            return refused(StatusCode::BAD_REQUEST, &problem);
        }
        Err(e) => return refused(StatusCode::BAD_REQUEST, &format!("reading the request: {e}")),
    };
    if asked.query.len() != 16 || asked.tables.len() > TABLES {
        return refused(StatusCode::BAD_REQUEST, "a query has a number of 16 bytes, and at most 256 tables");
    }
    let caller = caller.clone();
    let snapshots = snapshots.clone();
    let opened = tokio::task::spawn_blocking(move || opened(&asked, &caller, &snapshots)).await;
    match opened {
        Ok(Ok(opened)) => Response::new(whole(opened.encode_to_vec())),
        Ok(Err((status, problem))) => refused(status, &problem),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "the engine panicked"),
    }
}

type Rejection = (StatusCode, String);

fn internal<E: std::fmt::Display>(error: E) -> Rejection {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

fn opened(asked: &OpenRequest, caller: &WorkerCaller, snapshots: &Snapshots) -> Result<OpenResponse, Rejection> {
    let mut tables = Vec::new();
    let mut fixed = HashMap::new();
    for name in &asked.tables {
        let Some(rows) = caller.rows(name)? else { continue };
        let schema = datafusion_proto::protobuf::Schema::try_from(rows.schema().as_ref()).map_err(internal)?;
        let count = rows.len().map_err(internal)?;
        tables.push(OpenedTable { name: name.clone(), schema: Some(schema), rows: count });
        fixed.insert(name.clone(), Arc::new(rows));
    }
    snapshots.fix(&caller.key(), &asked.query, fixed).map_err(|e| (StatusCode::SERVICE_UNAVAILABLE, e.to_string()))?;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    Ok(OpenResponse {
        version: asked.version.clone(),
        process: snapshots.process.clone(),
        directory: caller.directory(),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        tables,
    })
}

// ---- the engine's calls ----

/// The request, if what it has the engine make is not too large.
async fn bounded(request: WorkerRequest) -> Result<Request<tonic::body::Body>, String> {
    if request.uri().path() != EXECUTE {
        return Ok(request.map(tonic::body::Body::new));
    }
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, SMALL).collect().await.map_err(|e| e.to_string())?.to_bytes();
    // A flag and a length come before the message.
    let message = body.get(5..).filter(|_| body.first() == Some(&0)).ok_or("a message in full is expected")?;
    let asked = ExecuteMessage::decode(message).map_err(|e| e.to_string())?;
    asked.check()?;
    Ok(Request::from_parts(parts, tonic::body::Body::new(Full::new(body))))
}

async fn engine(
    mut request: Request<tonic::body::Body>,
    caller: &WorkerCaller,
    mut calls: EngineService,
    panics: u64,
) -> Response<WorkerBody> {
    let Ok(key) = caller.key().parse() else {
        return refused(StatusCode::INTERNAL_SERVER_ERROR, "a name with odd bytes");
    };
    request.headers_mut().insert(CALLER, key);
    let time = u64::try_from(caller.query_timeout().as_millis()).unwrap_or(u64::MAX);
    request.headers_mut().insert(TIMEOUT, time.into());
    let response = match calls.ready().await {
        Ok(ready) => ready.call(request).await,
        Err(never) => match never {},
    };
    let Ok(response) = response;
    let latest = Box::pin(tokio::time::sleep(caller.query_timeout()));
    let asking = caller.clone();
    let is_valid = Box::new(move || asking.is_valid());
    response.map(|body| CheckedBody { body, panics, latest, is_valid }.boxed_unsync())
}

/// The body of an engine's answer: an error if it takes too long, or the engine has panicked meanwhile.
struct CheckedBody {
    body: tonic::body::Body,
    panics: u64,
    latest: Pin<Box<Sleep>>,
    is_valid: Box<dyn Fn() -> bool + Send>,
}

impl Body for CheckedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.latest.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(io::Error::other("the query took longer than it may (--query-timeout)"))));
        }
        if panics::count() != this.panics {
            return Poll::Ready(Some(Err(io::Error::other("the engine panicked"))));
        }
        let frame = Pin::new(&mut this.body).poll_frame(context);
        match frame {
            // The rows of this frame may not be all.
            Poll::Ready(_) if panics::count() != this.panics => {
                Poll::Ready(Some(Err(io::Error::other("the engine panicked"))))
            }
            Poll::Ready(_) if !(this.is_valid)() => {
                Poll::Ready(Some(Err(io::Error::other("the token is not valid any more"))))
            }
            other => other.map_err(io::Error::other),
        }
    }

    fn is_end_stream(&self) -> bool {
        // The end may still turn out to be none.
        false
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(seconds: u64, is_valid: bool) -> CheckedBody {
        let latest = Box::pin(tokio::time::sleep(Duration::from_secs(seconds)));
        let body = tonic::body::Body::new(Full::new(Bytes::from_static(b"rows")));
        CheckedBody { body, panics: panics::count(), latest, is_valid: Box::new(move || is_valid) }
    }

    #[tokio::test]
    async fn an_answer_is_none_after_a_panic_or_too_long_or_without_a_token() {
        panics::watch();
        assert_eq!(watched(60, true).collect().await.unwrap().to_bytes(), "rows");
        assert!(watched(60, false).collect().await.is_err());
        let late = watched(0, true);
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(late.collect().await.is_err());
        let begun = watched(60, true);
        assert!(std::thread::spawn(|| panic!("as a task of the engine would")).join().is_err());
        assert!(begun.collect().await.is_err());
    }
}
