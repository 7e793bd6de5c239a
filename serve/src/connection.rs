//! One connection: TLS, HTTP/1.1 or HTTP/2, and the time limits of a client.

use arrowwood::mapping::MutexExt;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

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

use crate::limits::Limits;
use crate::log;
use crate::metrics::Metrics;
use crate::response_body::ResponseBody;
use crate::routes::answer;
use crate::send_stall::SendStall;
use crate::session::{Peer, ServerState};

/// The preface of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The system's buffer of a stream whose reader is slow: rows wait in the table's files.
const FOLLOWER_BUFFER: usize = 64 << 10;

/// The observable state of a connection. Times are milliseconds since it was opened, plus one; 0 is never.
#[derive(Debug)]
struct Activity {
    opened: Instant,
    requests: AtomicUsize,
    /// The end of the last request.
    rested: AtomicU64,
    /// The arrival of a header's first byte.
    header: AtomicU64,
    /// The time since when no data was taken.
    blocked: AtomicU64,
    is_http2: bool,
    /// The answers of HTTP/2, each of which its client may take or not.
    answers: Mutex<Vec<Weak<SendStall>>>,
    is_follower: Arc<AtomicBool>,
    metrics: Arc<Metrics>,
}

impl Activity {
    fn new(metrics: Arc<Metrics>, is_http2: bool) -> Activity {
        Activity {
            opened: Instant::now(),
            requests: AtomicUsize::new(0),
            rested: AtomicU64::new(1),
            header: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            is_http2,
            answers: Mutex::default(),
            is_follower: Arc::default(),
            metrics,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Whether more than `most` has passed since `since`.
    fn is_over(&self, since: &AtomicU64, most: Duration) -> bool {
        let since = since.load(Ordering::Relaxed);
        since > 0 && u128::from(self.now().saturating_sub(since)) > most.as_millis()
    }

    fn came(&self, bytes: &[u8]) {
        self.metrics.received.add(bytes.len() as u64);
        let is_idle = self.requests.load(Ordering::Relaxed) == 0;
        if is_idle && self.header.load(Ordering::Relaxed) == 0 {
            self.header.store(self.now(), Ordering::Relaxed);
        }
    }

    fn went(&self, poll: &Poll<io::Result<usize>>) {
        match poll {
            Poll::Ready(Ok(bytes)) => {
                self.metrics.sent.add(*bytes as u64);
                self.blocked.store(0, Ordering::Relaxed);
            }
            Poll::Ready(Err(_)) => (),
            Poll::Pending if self.blocked.load(Ordering::Relaxed) == 0 => {
                self.blocked.store(self.now(), Ordering::Relaxed);
            }
            Poll::Pending => (),
        }
    }

    /// The same answer, with a record of when it is taken, if its client may take others instead.
    fn recorded(&self, answer: ResponseBody, limits: &Limits) -> ResponseBody {
        if !self.is_http2 {
            return answer;
        }
        // Another server of the same query may have to read other answers first.
        let most = if answer.is_passed() { limits.stall.max(limits.query_timeout) } else { limits.stall };
        let untaken = Arc::new(SendStall::new(most));
        let mut answers = self.answers.lock_ignoring_poison();
        if answers.len() == answers.capacity() {
            answers.retain(|answer| answer.strong_count() > 0);
        }
        answers.push(Arc::downgrade(&untaken));
        answer.counted(untaken)
    }

    /// Whether nothing of an answer was taken for too long.
    fn has_untaken(&self) -> bool {
        let answers = self.answers.lock_ignoring_poison();
        answers.iter().filter_map(Weak::upgrade).any(|answer| answer.is_over())
    }

    /// Whether the client has exceeded a time limit.
    fn is_late(&self, limits: &Limits) -> bool {
        let is_idle = self.requests.load(Ordering::Relaxed) == 0;
        is_idle && self.is_over(&self.rested, limits.idle)
            || is_idle && !self.is_http2 && self.is_over(&self.header, limits.greeting)
            || self.is_over(&self.blocked, limits.stall)
            || self.has_untaken()
    }
}

/// A request in progress.
struct Request(Arc<Activity>);

impl Request {
    fn begin(activity: &Arc<Activity>) -> Request {
        activity.requests.fetch_add(1, Ordering::Relaxed);
        activity.header.store(0, Ordering::Relaxed);
        activity.metrics.requests.add(1);
        Request(activity.clone())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.rested.store(self.0.now(), Ordering::Relaxed);
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.requests.add(-1);
    }
}

/// A stream, with TLS or without.
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
    /// Bytes read from it before.
    first: Vec<u8>,
    activity: Arc<Activity>,
    is_narrow: bool,
}

impl TrackedStream {
    /// Limits the system's buffer for a slow follower.
    fn narrow(&mut self) {
        if !self.is_narrow && self.activity.is_follower.load(Ordering::Acquire) {
            self.is_narrow = true;
            // If that fails, the system uses more memory.
            let _ = socket2::SockRef::from(self.stream.socket()).set_send_buffer_size(FOLLOWER_BUFFER);
        }
    }
}

impl AsyncRead for TrackedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        // Together with the bytes that follow: a reader that gets few bytes enlarges its buffer for the rest.
        let len = self.first.len().min(into.remaining());
        into.put_slice(self.first.get(..len).unwrap_or_default());
        self.first.drain(..len);
        let read = self.stream.either().poll_read(context, into);
        match into.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => {
                self.activity.came(bytes);
                Poll::Ready(Ok(()))
            }
            None => read,
        }
    }
}

impl AsyncWrite for TrackedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.narrow();
        let written = self.stream.either().poll_write(context, bytes);
        self.activity.went(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.narrow();
        let written = self.stream.either().poll_write_vectored(context, slices);
        self.activity.went(&written);
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

/// Serves a connection until it, or the server, ends. One that `is_kept` may only ask how the server is.
pub(crate) async fn serve(shared: Arc<ServerState>, stream: TcpStream, tls: Option<TlsAcceptor>, is_kept: bool) {
    // Without these an answer may be delayed, and a vanished client is noticed later.
    let _ = stream.set_nodelay(true);
    let alive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(45)).with_interval(Duration::from_secs(15));
    let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&alive.with_retries(3));
    let Ok(address) = stream.peer_addr() else { return };
    let mut stream = match tls {
        None => MaybeTlsStream::Plain(stream),
        // Here and below, memory that is needed for a while, or by some, is not part of each connection's own.
        Some(tls) => match greeted(&shared, tls, stream).await {
            Some(stream) => MaybeTlsStream::Tls(Box::new(stream)),
            // No TLS, or too slow: there is no one to answer.
            None => return,
        },
    };
    let Some(first) = first_bytes(&mut stream, &shared).await else { return };
    let is_http2 = first == PREFACE;
    let activity = Arc::new(Activity::new(shared.metrics.clone(), is_http2));
    let peer = Peer { address, is_follower: activity.is_follower.clone(), is_kept };
    let io = TrackedStream { stream, first, activity: activity.clone(), is_narrow: false };
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let shared = shared.clone();
        let peer = peer.clone();
        let under_way = Request::begin(&activity);
        // In its own memory, which is released when only the body of the request remains.
        Box::pin(async move {
            let response: Response<ResponseBody> = answer(shared.clone(), peer, request).await;
            Ok::<_, Infallible>(response.map(|body| under_way.0.recorded(body, &shared.limits).holding(under_way)))
        })
    });
    let io = TokioIo::new(io);
    if is_http2 {
        let mut connection = Box::pin(http2_of(&shared.limits).serve_connection(io, service));
        run(&shared, &activity, connection.as_mut()).await;
    } else {
        run(&shared, &activity, pin!(http1_of(&shared.limits).serve_connection(io, service))).await;
    }
}

/// The stream behind a TLS handshake, if that succeeds in time.
async fn greeted(shared: &ServerState, tls: TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let mut stopping = shared.stopping.clone();
    tokio::select! {
        greeted = timeout(shared.limits.greeting, Box::pin(tls.accept(stream))) => greeted.ok()?.ok(),
        _ = stopping.wait_for(|is_stopping| *is_stopping) => None,
    }
}

/// Reads until the client's version of HTTP is clear; `None` if the client sends nothing in time.
async fn first_bytes(stream: &mut MaybeTlsStream, shared: &ServerState) -> Option<Vec<u8>> {
    let limits = &shared.limits;
    let mut stopping = shared.stopping.clone();
    let mut latest = Instant::now() + limits.idle;
    let mut first = Vec::with_capacity(PREFACE.len());
    loop {
        let mut rest = stream.either().take((PREFACE.len() - first.len()) as u64);
        let read = tokio::select! {
            read = timeout_at(latest, rest.read_buf(&mut first)) => read,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return None,
        };
        if read.ok()?.ok()? == 0 || !PREFACE.starts_with(&first) || first.len() == PREFACE.len() {
            return Some(first);
        }
        latest = latest.min(Instant::now() + limits.greeting);
    }
}

fn http1_of(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(limits.header.max(8 << 10));
    builder
}

fn http2_of(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header).unwrap_or(u32::MAX))
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .max_send_buf_size(256 << 10)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(30));
    builder
}

/// hyper's types of connections.
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

async fn run(shared: &ServerState, activity: &Activity, mut connection: Pin<&mut impl Connection>) {
    let limits = &shared.limits;
    let shortest = limits.greeting.min(limits.idle).min(limits.stall);
    let mut ticks = interval((shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(2)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopping = shared.stopping.clone();
    let mut last = None;
    loop {
        // Data being sent may be in a file that is truncated: TLS, which reads it, is shut down then.
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
                if activity.is_late(limits) || last.is_some_and(|last| Instant::now() >= last) {
                    return;
                }
            }
            _ = stopping.wait_for(|is_stopping| *is_stopping), if last.is_none() => {
                last = Some(Instant::now() + limits.grace);
                connection.as_mut().stop();
            }
        }
    }
}
