//! Serves a directory at an address: listens, accepts connections, handles signals, and runs periodic work.

use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError, mpsc};
use std::thread;
use std::time::Duration;

#[cfg(feature = "internal")]
use arrowwood::mapping::FileSystem;
use arrowwood::mapping::os::is_hangup_ignored;
use arrowwood::{Error, ErrorKind, Result, WriterOptions};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use super::app_state::AppState;
use super::connection;
use super::signals::{Request, Signals};
use super::tls::Tls;
use crate::auth::{Access, Tokens};
use crate::catalog::Catalog;
use crate::ingest::IngestState;
use crate::ops::{AuditLog, Limits, Memory, Metrics, Readiness, blocking, log};
use crate::session::{Admission, ServerState};
use crate::sql::{SqlEngine, SqlState, WorkerEngine};
use crate::view::ViewState;

/// The pause after an error of the system, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The number of connections beyond the limit, which are kept for health checks.
const MAX_EXTRA_CONNECTIONS: usize = 16;
/// The number of connections that the system accepts before the server does.
const BACKLOG: u32 = 1_024;
/// The bounds of the number of threads that move bytes, and the maximum number of threads for blocking work.
const MIN_WORKER_THREADS: usize = 2;
const MAX_WORKER_THREADS: usize = 4;
const MAX_BLOCKING_THREADS: usize = 64;
/// The interval at which the commit lock is looked at. A commit takes less time, unless the disk is slow.
const WAKE_INTERVAL: Duration = Duration::from_millis(100);
/// The minimum interval of periodic work.
const MIN_TICK: Duration = Duration::from_millis(10);
/// The time for connections to close after the grace for their responses is over.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum time to write the last lines of the log.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Options for serving.
#[derive(Clone)]
pub struct Options {
    /// Host and port; port 0 selects a free one.
    pub listen: String,
    /// The paths of PEM files with the certificate chain and its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The file of tokens. Without one, every client that can connect has all rights.
    pub token_file: Option<PathBuf>,
    /// Refuses all writes.
    pub read_only: bool,
    /// Permits an address other than loopback without TLS or without tokens.
    pub insecure: bool,
    /// Additional host names accepted in requests.
    pub hosts: Vec<String>,
    /// The limits of clients.
    pub limits: Limits,
    /// The destination of a line for each request that writes or is refused.
    pub audit: AuditLog,
    /// The SQL engine: for the page of [`Server::view`], and for Flight SQL.
    pub sql: Option<Arc<dyn SqlEngine>>,
    /// The engine for calls of other servers that share a query with this one: a worker of a cluster.
    pub worker: Option<Arc<dyn WorkerEngine>>,
    /// The disk, which a test can observe.
    #[cfg(feature = "internal")]
    pub medium: FileSystem,
}

impl Default for Options {
    /// Returns options for loopback, without tokens.
    fn default() -> Options {
        Options {
            listen: "127.0.0.1:7447".into(),
            tls: None,
            token_file: None,
            read_only: false,
            insecure: false,
            hosts: Vec::new(),
            limits: Limits::default(),
            audit: AuditLog::default(),
            sql: None,
            worker: None,
            #[cfg(feature = "internal")]
            medium: FileSystem::default(),
        }
    }
}

impl Options {
    /// Returns how tables are opened for writing.
    fn writer_options(&self) -> WriterOptions {
        WriterOptions {
            #[cfg(feature = "internal")]
            medium: self.medium.clone(),
            ..WriterOptions::default()
        }
    }
}

/// A server of a directory.
///
/// ```no_run
/// use arrowwood_serve::{Options, Server};
///
/// let server = Server::bind("data", &Options::default())?;
/// println!("{}", server.url());
/// server.run()?;
/// # Ok::<(), arrowwood::Error>(())
/// ```
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    app: Arc<AppState>,
    stop: Arc<watch::Sender<bool>>,
    url: String,
}

/// What a server is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To serve tables to programs.
    Serve,
    /// To show data to its owner by the page of `arrowwood view`.
    View,
}

/// Stops a server from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<watch::Sender<bool>>);

impl Stopper {
    /// Stops the server as SIGTERM does.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Opens the directory and the address.
    ///
    /// # Errors
    /// `InvalidArgument` for an address other than loopback without TLS and tokens; `NotFound`, `InvalidData` for
    /// invalid files; `Io` if the address is not available.
    pub fn bind(directory: impl AsRef<Path>, options: &Options) -> Result<Server> {
        let tokens = options.token_file.as_deref().map(Tokens::open).transpose()?;
        Server::start(Catalog::open(directory.as_ref())?, tokens, Purpose::Serve, options)
    }

    /// Opens one file, table, pattern or directory of files, read-only, for the page that shows it.
    ///
    /// [`Server::url`] has a token created for this server; nothing is shown without it.
    ///
    /// # Errors
    /// As [`Server::bind`] and [`arrowwood::open`].
    pub fn view(path: impl AsRef<Path>, options: &Options) -> Result<Server> {
        if addresses(&Options { insecure: true, ..options.clone() })?.iter().any(is_foreign) {
            let message = format!("{} can be reached from other machines; use an address of this one", options.listen);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let catalog = Catalog::single(path.as_ref())?;
        let (tokens, token) = Tokens::temporary()?;
        // Users view their own data, and can wait as long as they like.
        let limits = Limits { query_timeout: Duration::MAX, ..options.limits.clone() };
        let options = Options { read_only: true, limits, ..options.clone() };
        let mut server = Server::start(catalog, Some(tokens), Purpose::View, &options)?;
        server.url += &format!("/?token={token}");
        Ok(server)
    }

    fn start(catalog: Catalog, tokens: Option<Tokens>, purpose: Purpose, options: &Options) -> Result<Server> {
        let is_view = purpose == Purpose::View;
        let addresses = addresses(options)?;
        log::begin();
        let tls = options.tls.as_ref().map(|(cert, key)| Tls::open(cert, key)).transpose()?;
        let mut hosts = options.hosts.clone();
        if let Some(tls) = &tls {
            hosts.extend(tls.names());
        }

        let runtime = runtime()?;
        let listener = runtime.block_on(async { listen(&addresses, &options.listen) })?;
        let port = listener.local_addr().map_err(|e| Error::io("asking for the port", &e))?.port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let host = options.listen.rsplit_once(':').map_or("localhost", |(host, _)| host);
        let url = format!("{scheme}://{host}:{port}");

        let (stop, stopping) = watch::channel(false);
        let metrics = Arc::new(Metrics::default());
        let limits = options.limits.clone().clamped();
        let written_folder = if options.read_only { None } else { Some(catalog.directory().to_path_buf()) };
        let readiness = Readiness::new(written_folder);
        let ingest = IngestState::new(&limits, metrics.clone(), readiness.clone(), options.writer_options(), cores());
        let sql = Arc::new(SqlState::new(options.sql.clone(), options.worker.clone().filter(|_| !is_view)));
        let shared = ServerState {
            catalog: catalog.opening(limits.tables),
            access: Access::new(tokens, options.read_only, hosts, port),
            queries: Memory::new(limits.query_memory),
            readiness,
            audit: options.audit.clone(),
            is_view,
            writes_parquet: sql.engine.as_ref().is_some_and(|engine| engine.writes_parquet()),
            limits,
            metrics,
            stopping,
        };
        let app = AppState {
            shared: Arc::new(shared),
            ingest: Arc::new(ingest),
            view: Arc::new(ViewState::new(sql.clone())),
            sql,
            tls,
        };
        Ok(Server { runtime, listener, app: Arc::new(app), stop: Arc::new(stop), url })
    }

    /// Returns the server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a handle that stops the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Serves until it is [stopped](Stopper::stop). All acknowledged rows are on the disk when this returns.
    ///
    /// # Errors
    /// `Io` if tables could not be closed, or a thread not started.
    pub fn run(self) -> Result<()> {
        let Server { runtime, listener, app, stop, .. } = self;
        let wake_thread = keep_awake(runtime.handle().clone(), app.ingest.writers.inline_commit())?;
        runtime.spawn(close_outdated(app.clone()));
        runtime.spawn(renew_certificate(app.clone()));
        runtime.block_on(accept(&app, listener));
        app.ingest.writers.close();
        log::flush(LOG_FLUSH_TIMEOUT);
        drop(wake_thread);
        // Threads that watch tables without followers end by themselves.
        runtime.shutdown_background();
        drop(stop);
        Ok(())
    }

    /// Handles signals: SIGTERM and SIGINT end [`run`](Server::run), and SIGHUP reads the tokens and the certificate
    /// again. On Windows, Ctrl-C, Ctrl-Break and closing the console end it.
    ///
    /// SIGHUP ends the server of [`view`](Server::view), as it means that the terminal is gone. Call this before the
    /// URL is made known, since signals end the process until then.
    ///
    /// # Errors
    /// `Io` if signals can't be handled.
    pub fn handle_signals(&self) -> Result<()> {
        // A program that lets the server handle signals is there for the server, so its panics belong in the log.
        log::note_panics();
        let is_view = self.app.shared.is_view;
        let in_runtime = self.runtime.enter();
        // `nohup` makes the programs that it starts ignore SIGHUP.
        let signals = Signals::listen(is_view && is_hangup_ignored());
        let mut signals = signals.map_err(|e| Error::io("waiting for signals", &e))?;
        let stopper = self.stopper();
        let app = self.app.clone();
        self.runtime.spawn(async move {
            while let Request::Reload = signals.recv().await
                && !is_view
            {
                let app = app.clone();
                // After a panic the files are read again at the next signal.
                let _ = blocking(move || reload(&app)).await;
            }
            stopper.stop();
        });
        drop(in_runtime);
        Ok(())
    }
}

/// Reads tokens and certificate again. Blocks.
fn reload(app: &AppState) {
    log::message("SIGHUP: reading the tokens and the certificate again");
    app.shared.access.reload();
    if let Some(tls) = &app.tls {
        tls.renew();
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(MIN_WORKER_THREADS, usize::from)
}

fn runtime() -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    // Threads for blocking work read and encode rows; these threads only move bytes.
    let worker_threads = cores().clamp(MIN_WORKER_THREADS, MAX_WORKER_THREADS);
    builder.worker_threads(worker_threads).max_blocking_threads(MAX_BLOCKING_THREADS).thread_name("arrowwood-serve");
    builder.enable_all().build().map_err(|e| Error::io("starting threads", &e))
}

/// Wakes a thread of `runtime` at each [`WAKE_INTERVAL`] while `commit_lock` is locked. Returns a sender that ends this
/// when dropped.
///
/// A locked `commit_lock` means that a thread of the runtime is blocked in a commit, for as long as the disk does not
/// answer. That thread may be the one that polls for requests, and no other one takes over the polling unless it is
/// woken.
fn keep_awake(runtime: Handle, commit_lock: Arc<Mutex<()>>) -> Result<mpsc::Sender<()>> {
    let (sender, receiver) = mpsc::channel();
    let spawned = thread::Builder::new().name("arrowwood-wake".into()).spawn(move || {
        while receiver.recv_timeout(WAKE_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
            if matches!(commit_lock.try_lock(), Err(TryLockError::WouldBlock)) {
                runtime.spawn(async {});
            }
        }
    });
    spawned.map_err(|e| Error::io("starting a thread", &e))?;
    Ok(sender)
}

/// Resolves the addresses to listen on, and checks that they are permitted.
fn addresses(options: &Options) -> Result<Vec<SocketAddr>> {
    let listen = &options.listen;
    let addresses: Vec<SocketAddr> = match listen.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(e) => return Err(Error::io(&format!("'{listen}' is not an address; HOST:PORT is expected"), &e)),
    };
    let is_reachable = addresses.iter().any(is_foreign);
    let missing = match (&options.tls, &options.token_file) {
        (Some(_), Some(_)) => None,
        (None, Some(_)) => Some("TLS (--tls-cert, --tls-key)"),
        (Some(_), None) => Some("tokens (--token-file)"),
        (None, None) => Some("TLS (--tls-cert, --tls-key) and tokens (--token-file)"),
    };
    match missing.filter(|_| is_reachable && !options.insecure) {
        Some(missing) => {
            let message = format!("{listen} can be reached from other machines: that needs {missing}, or --insecure");
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
        None => Ok(addresses),
    }
}

/// Returns true if other machines can reach an address.
fn is_foreign(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// Listens on the first available address.
fn listen(addresses: &[SocketAddr], text: &str) -> Result<TcpListener> {
    let mut result = Err(std::io::Error::from(std::io::ErrorKind::AddrNotAvailable));
    for &address in addresses {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        result = socket.and_then(|socket| {
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        });
        if result.is_ok() {
            break;
        }
    }
    result.map_err(|e| {
        let hint = if e.kind() == std::io::ErrorKind::AddrInUse { " (port 0 takes a free one)" } else { "" };
        Error::io(&format!("listening on {text}{hint}"), &e)
    })
}

/// Counts a connection as open.
struct ConnectionGuard(Arc<Metrics>);

impl ConnectionGuard {
    fn new(metrics: &Arc<Metrics>) -> ConnectionGuard {
        metrics.connections.add(1);
        ConnectionGuard(metrics.clone())
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.connections.add(-1);
    }
}

/// Accepts connections until the server stops, and then waits for the open ones.
async fn accept(app: &Arc<AppState>, listener: TcpListener) {
    let shared = &app.shared;
    let mut stopping = shared.stopping.clone();
    let permits = Arc::new(Semaphore::new(shared.limits.connections));
    let mut connections = JoinSet::new();
    let mut extra = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => break,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let acceptor = app.tls.as_ref().map(Tls::acceptor);

        if let Ok(permit) = permits.clone().try_acquire_owned() {
            let guard = ConnectionGuard::new(&shared.metrics);
            let served = connection::serve(app.clone(), stream, acceptor, Admission::Full);
            connections.spawn(async move {
                served.await;
                drop((guard, permit));
            });
            continue;
        }

        shared.metrics.refused_connections.add(1);
        make_room(&mut extra);
        let served = connection::serve(app.clone(), stream, acceptor, Admission::HealthChecks);
        let time_limit = shared.limits.greeting;
        extra.push_back(connections.spawn(async move {
            let _ = tokio::time::timeout(time_limit, served).await;
        }));
        assert!(extra.len() <= MAX_EXTRA_CONNECTIONS, "{} connections are beyond the limit", extra.len());
    }

    // The system refuses further connections, instead of letting them wait for nothing.
    drop(listener);
    let all_closed = async { while connections.join_next().await.is_some() {} };
    // Connections end by themselves within the time limit; what is left after it is abandoned.
    let _ = tokio::time::timeout(shared.limits.grace + CLOSE_TIMEOUT, all_closed).await;
}

/// Makes room for another connection beyond the limit. The oldest one is aborted, as health checks take little time.
fn make_room(extra: &mut VecDeque<AbortHandle>) {
    extra.retain(|connection| !connection.is_finished());
    while extra.len() >= MAX_EXTRA_CONNECTIONS {
        if let Some(oldest) = extra.pop_front() {
            oldest.abort();
        }
    }
}

/// Checks periodically if the certificate was renewed.
async fn renew_certificate(app: Arc<AppState>) {
    if app.tls.is_some() {
        let interval = app.shared.limits.renewal;
        repeat(app, interval, |app| app.tls.iter().for_each(Tls::renew)).await;
    }
}

/// Closes periodically files of tables that have been removed.
async fn close_outdated(app: Arc<AppState>) {
    let age = app.shared.limits.removed;
    let close = move |app: &AppState| {
        let writers = &app.ingest.writers;
        app.shared.catalog.close_outdated(age, |table| writers.is_written(table));
        writers.forget_dropped();
    };
    repeat(app, age / 2, close).await;
}

/// Does blocking work at an interval, until the runtime ends.
async fn repeat(app: Arc<AppState>, interval: Duration, work: impl Fn(&AppState) + Clone + Send + 'static) {
    let mut ticks = tokio::time::interval(interval.max(MIN_TICK));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (app, work) = (app.clone(), work.clone());
        // After a panic the next tick tries again.
        let _ = blocking(move || work(&app)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Calls the handler of SIGHUP without the signal, which would reach the whole process.
    #[test]
    fn certificate_is_reloaded_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let certify = |name: &str| {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
            fs::write(&cert, made.cert.pem()).unwrap();
            fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        };
        certify("first");
        let tls = Some((cert.clone(), key.clone()));
        let options = Options { listen: "127.0.0.1:0".into(), tls, ..Options::default() };
        let server = Server::bind(folder.path(), &options).unwrap();
        let names = || server.app.tls.as_ref().unwrap().names();
        certify("second");
        assert_eq!(names(), ["first"], "not reloaded yet");
        reload(&server.app);
        assert_eq!(names(), ["second"]);
        // A file that can't be used does not replace the certificate in use.
        fs::write(&cert, "nothing").unwrap();
        reload(&server.app);
        assert_eq!(names(), ["second"]);
    }
}
