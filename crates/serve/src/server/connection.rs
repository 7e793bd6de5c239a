//! Serves one connection: TLS, HTTP/1.1 or HTTP/2, and the time limits of a client.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use arrowwood::mapping::MutexExt;
use arrowwood::{Error, guard};
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::app_state::AppState;
use super::routes::answer;
use crate::http::{ResponseBody, SendStall, set_options};
use crate::ops::{Limits, Metrics, log};
use crate::session::{Admission, Peer, ServerState};

/// The preface of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The size of the system's send buffer for a follower. If it reads slowly, rows wait in the table's files instead.
const FOLLOWER_BUFFER: usize = 64 << 10;
/// The minimum buffer for the header of an HTTP/1.1 request, which the library requires.
const MIN_HEADER_BUFFER: usize = 8 << 10;
/// The bytes that a client may send for one request over HTTP/2 before the server has read them, and for all requests.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// The maximum number of bytes of a response over HTTP/2 that are queued to be sent.
const MAX_SEND_BUFFER: usize = 256 << 10;
/// The interval at which an HTTP/2 client is asked whether it is still there, and the time in which it must answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(30);
/// The bounds of the interval at which the time limits of a connection are checked.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(10);
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The number of checks within the shortest time limit.
const CHECKS_IN_LIMIT: u32 = 4;

/// The times of an [`Activity`] that has not happened, and of the opening of the connection.
const NEVER: u64 = 0;
const OPENED: u64 = 1;

/// The observable state of a connection, by which its time limits are checked.
///
/// The stream and the requests of the connection record here what happens, and [`run`] asks regularly whether the
/// client is [late](Activity::is_late). With HTTP/2 all of this may happen on several threads. Each field is a fact by
/// itself, and a check that sees an older one is repeated at the next tick, so relaxed ordering is enough. Only
/// `is_follower`, which a request sets and the stream reads, has release and acquire.
///
/// Times are milliseconds since the connection was opened, plus one; 0 is never.
#[derive(Debug)]
struct Activity {
    opened: Instant,
    /// The number of requests in progress.
    requests: AtomicUsize,
    /// When the last request ended.
    idle_since: AtomicU64,
    /// When the first byte of a header arrived.
    header_since: AtomicU64,
    /// The time since when the client has not taken any data.
    blocked_since: AtomicU64,
    /// With HTTP/2, a request's header may arrive while others are answered: its time is not limited by this type.
    is_http2: bool,
    /// The responses of an HTTP/2 connection, each of which the client may take or leave.
    responses: Mutex<Vec<Weak<SendStall>>>,
    /// Set once a request of the connection follows a table.
    is_follower: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
}

impl Activity {
    fn new(metrics: Arc<Metrics>, is_http2: bool) -> Activity {
        Activity {
            opened: Instant::now(),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(OPENED),
            header_since: AtomicU64::new(NEVER),
            blocked_since: AtomicU64::new(NEVER),
            is_http2,
            responses: Mutex::default(),
            is_follower: Arc::default(),
            metrics,
        }
    }

    /// Returns the current time as the fields have it.
    fn clock(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - OPENED) + OPENED
    }

    /// Returns true if more than `limit` has passed since `since`.
    fn is_past(&self, since: &AtomicU64, limit: Duration) -> bool {
        let since = since.load(Ordering::Relaxed);
        // Another thread may have stored a time after this one read the clock.
        since != NEVER && u128::from(self.clock().saturating_sub(since)) > limit.as_millis()
    }

    fn on_received(&self, bytes: &[u8]) {
        self.metrics.received.add(bytes.len() as u64);
        let is_idle = self.requests.load(Ordering::Relaxed) == 0;
        if is_idle && self.header_since.load(Ordering::Relaxed) == NEVER {
            self.header_since.store(self.clock(), Ordering::Relaxed);
        }
    }

    fn on_write(&self, poll: &Poll<io::Result<usize>>) {
        match poll {
            Poll::Ready(Ok(bytes)) => {
                self.metrics.sent.add(*bytes as u64);
                self.blocked_since.store(NEVER, Ordering::Relaxed);
            }
            Poll::Ready(Err(_)) => (),
            Poll::Pending if self.blocked_since.load(Ordering::Relaxed) == NEVER => {
                self.blocked_since.store(self.clock(), Ordering::Relaxed);
            }
            Poll::Pending => (),
        }
    }

    /// Detects if the client stalls this response, on a connection that may make progress with others meanwhile.
    fn track_body(&self, response: ResponseBody, limits: &Limits) -> ResponseBody {
        if !self.is_http2 {
            return response;
        }
        // Another server of the same query may have to read other responses first.
        let timeout = if response.is_from_worker() { limits.stall.max(limits.query_timeout) } else { limits.stall };
        let stall = Arc::new(SendStall::new(timeout));
        let mut responses = self.responses.lock_ignoring_poison();
        if responses.len() == responses.capacity() {
            responses.retain(|response| response.strong_count() > 0);
        }
        responses.push(Arc::downgrade(&stall));
        response.tracked(stall)
    }

    /// Returns true if the client has not taken anything of a response for too long.
    fn has_stalled_response(&self) -> bool {
        let responses = self.responses.lock_ignoring_poison();
        responses.iter().filter_map(Weak::upgrade).any(|response| response.is_stalled())
    }

    /// Returns true if the client has exceeded a time limit.
    fn is_late(&self, limits: &Limits) -> bool {
        let is_idle = self.requests.load(Ordering::Relaxed) == 0;
        let is_unused = is_idle && self.is_past(&self.idle_since, limits.idle);
        let is_slow_header = is_idle && !self.is_http2 && self.is_past(&self.header_since, limits.greeting);
        is_unused || is_slow_header || self.is_past(&self.blocked_since, limits.stall) || self.has_stalled_response()
    }
}

/// Counts a request as in progress, until it is dropped.
struct RequestGuard(Arc<Activity>);

impl RequestGuard {
    fn begin(activity: &Arc<Activity>) -> RequestGuard {
        activity.requests.fetch_add(1, Ordering::Relaxed);
        activity.header_since.store(NEVER, Ordering::Relaxed);
        activity.metrics.requests.add(1);
        RequestGuard(activity.clone())
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.clock(), Ordering::Relaxed);
        let requests = self.0.requests.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(requests > 0, "a request ended twice");
        self.0.metrics.requests.add(-1);
    }
}

/// A connection's stream, with TLS or without.
enum MaybeTlsStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The operations of either stream.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

impl MaybeTlsStream {
    fn either(&mut self) -> Pin<&mut dyn Duplex> {
        match self {
            MaybeTlsStream::Plain(stream) => Pin::new(stream),
            MaybeTlsStream::Tls(stream) => Pin::new(stream.as_mut()),
        }
    }

    fn socket(&self) -> &TcpStream {
        match self {
            MaybeTlsStream::Plain(stream) => stream,
            MaybeTlsStream::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// A stream that records when data is received and sent.
struct TrackedStream {
    stream: MaybeTlsStream,
    /// Bytes that were read from the stream to detect the version of HTTP, and are to be read again.
    prefix: Vec<u8>,
    activity: Arc<Activity>,
    has_small_buffer: bool,
}

impl TrackedStream {
    /// Limits the system's send buffer once the connection is a follower's.
    fn limit_send_buffer(&mut self) {
        if !self.has_small_buffer && self.activity.is_follower.load(Ordering::Acquire) {
            self.has_small_buffer = true;
            // If this fails, the system uses more memory.
            let _ = socket2::SockRef::from(self.stream.socket()).set_send_buffer_size(FOLLOWER_BUFFER);
        }
    }
}

impl AsyncRead for TrackedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        // Reads the prefix together with the bytes that follow: a reader that gets few bytes enlarges its buffer.
        let len = self.prefix.len().min(into.remaining());
        into.put_slice(&self.prefix[..len]);
        self.prefix.drain(..len);
        let poll = self.stream.either().poll_read(context, into);
        assert!(into.filled().len() >= before, "a read has removed bytes from the buffer");
        let bytes = &into.filled()[before..];
        if bytes.is_empty() {
            return poll;
        }
        self.activity.on_received(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TrackedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.limit_send_buffer();
        let written = self.stream.either().poll_write(context, bytes);
        self.activity.on_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.limit_send_buffer();
        let written = self.stream.either().poll_write_vectored(context, slices);
        self.activity.on_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.either().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.either().poll_shutdown(context)
    }
}

/// Serves a connection until it or the server ends.
pub(crate) async fn serve(app: Arc<AppState>, stream: TcpStream, tls: Option<TlsAcceptor>, admission: Admission) {
    let shared = &app.shared;
    set_options(&stream);
    let Ok(address) = stream.peer_addr() else { return };
    let mut stream = match tls {
        None => MaybeTlsStream::Plain(stream),
        // Boxes here and below keep state that only some connections need out of the memory of all.
        Some(tls) => match accept_tls(shared, tls, stream).await {
            Some(stream) => MaybeTlsStream::Tls(Box::new(stream)),
            // The client doesn't speak TLS, or is too slow: there is no way to answer.
            None => return,
        },
    };
    let Some(prefix) = read_preface(&mut stream, shared).await else { return };
    let is_http2 = prefix == PREFACE;
    let activity = Arc::new(Activity::new(shared.metrics.clone(), is_http2));
    let peer = Peer { address, is_follower: activity.is_follower.clone(), admission };
    let io = TrackedStream { stream, prefix, activity: activity.clone(), has_small_buffer: false };
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let app = app.clone();
        let peer = peer.clone();
        let request_guard = RequestGuard::begin(&activity);
        // Boxed, so that its memory is released when only the body of the response remains.
        Box::pin(async move {
            let response: Response<ResponseBody> = answer(&app, peer, request).await;
            let response =
                response.map(|body| request_guard.0.track_body(body, &app.shared.limits).holding(request_guard));
            Ok::<_, Infallible>(response)
        })
    });
    let io = TokioIo::new(io);
    if is_http2 {
        let mut connection = Box::pin(http2_builder(&shared.limits).serve_connection(io, service));
        run(shared, &activity, connection.as_mut()).await;
    } else {
        run(shared, &activity, pin!(http1_builder(&shared.limits).serve_connection(io, service))).await;
    }
}

/// Performs a TLS handshake; returns `None` if it fails or takes too long.
async fn accept_tls(shared: &ServerState, tls: TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let mut stopping = shared.stopping.clone();
    tokio::select! {
        accepted = timeout(shared.limits.greeting, Box::pin(tls.accept(stream))) => accepted.ok()?.ok(),
        _ = stopping.wait_for(|is_stopping| *is_stopping) => None,
    }
}

/// Reads until the client's version of HTTP is clear; returns `None` if the client doesn't send anything in time.
async fn read_preface(stream: &mut MaybeTlsStream, shared: &ServerState) -> Option<Vec<u8>> {
    let limits = &shared.limits;
    let mut stopping = shared.stopping.clone();
    let mut deadline = Instant::now() + limits.idle;
    let mut prefix = Vec::with_capacity(PREFACE.len());
    loop {
        let mut rest = stream.either().take((PREFACE.len() - prefix.len()) as u64);
        let read = tokio::select! {
            read = timeout_at(deadline, rest.read_buf(&mut prefix)) => read,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return None,
        };
        if read.ok()?.ok()? == 0 || !PREFACE.starts_with(&prefix) || prefix.len() == PREFACE.len() {
            return Some(prefix);
        }
        deadline = deadline.min(Instant::now() + limits.greeting);
    }
}

fn http1_builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(limits.header.max(MIN_HEADER_BUFFER));
    builder
}

fn http2_builder(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// A connection of any version of HTTP.
trait Connection: Future<Output = hyper::Result<()>> {
    fn stop(self: Pin<&mut Self>);
}

impl<S, F> Connection for http1::Connection<TokioIo<TrackedStream>, S>
where
    S: Service<hyper::Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible, Future = F>,
    F: Future<Output = Result<Response<ResponseBody>, Infallible>>,
{
    fn stop(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<S, F> Connection for http2::Connection<TokioIo<TrackedStream>, S, TokioExecutor>
where
    S: Service<hyper::Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible, Future = F>,
    F: Future<Output = Result<Response<ResponseBody>, Infallible>> + Send + 'static,
{
    fn stop(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Drives a connection until it ends, its client is late, or the server has stopped.
async fn run(shared: &ServerState, activity: &Activity, mut connection: Pin<&mut impl Connection>) {
    let limits = &shared.limits;
    let shortest = limits.greeting.min(limits.idle).min(limits.stall);
    let mut ticks = interval((shortest / CHECKS_IN_LIMIT).clamp(MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopping = shared.stopping.clone();
    let mut deadline = None;
    loop {
        // Data being sent may be in a file that is truncated. TLS reads it in this process: `guard` makes it an error.
        let polled = poll_fn(|context| match guard(|| Ok::<_, Error>(connection.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(_)) => Poll::Ready(()),
            Err(e) => {
                log::message(format_args!("an answer broke off: {e}"));
                Poll::Ready(())
            }
        });
        tokio::select! {
            () = polled => return,
            _ = ticks.tick() => {
                if activity.is_late(limits) || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return;
                }
            }
            _ = stopping.wait_for(|is_stopping| *is_stopping), if deadline.is_none() => {
                deadline = Some(Instant::now() + limits.grace);
                connection.as_mut().stop();
            }
        }
    }
}
