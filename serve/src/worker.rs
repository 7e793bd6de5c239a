//! [`WorkerEngine`]: what a server does of queries over several, where the program that serves has an engine for it.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::pin::Pin;
use std::time::Duration;

use arrowwood::Dataset;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use crate::outgoing::Outgoing;
use crate::refusal::Refusal;
use crate::session::Session;

/// A call, as it comes.
pub type WorkerRequest = Request<Incoming>;
/// The body of an answer, which may have trailers.
pub type WorkerBody = UnsyncBoxBody<Bytes, io::Error>;
/// An answer to come.
pub type WorkerFuture = Pin<Box<dyn Future<Output = Response<WorkerBody>> + Send>>;

/// Answers the calls of other servers, and of whoever asks them all.
pub trait WorkerEngine: Send + Sync + 'static {
    /// Whether it answers calls of `service`, which is the first part of their path.
    fn answers(&self, service: &str) -> bool;

    /// Answers a call. `caller` has a valid token, where there are tokens, and may read nothing but what that has rights for.
    fn call(&self, request: WorkerRequest, caller: WorkerCaller) -> WorkerFuture;
}

/// Who calls, and what that may read.
#[derive(Clone)]
pub struct WorkerCaller {
    session: Session,
}

impl fmt::Debug for WorkerCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerCaller").field("key", &self.key()).finish()
    }
}

impl WorkerCaller {
    /// Differs from that of every other caller: what the token is called, in hexadecimal digits. Empty without tokens.
    pub fn key(&self) -> String {
        let name = self.session.caller.name().unwrap_or_default();
        name.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether the token still is what it was.
    pub fn is_valid(&self) -> bool {
        self.session.is_valid() && !self.session.is_stopping()
    }

    /// How long the server works on one query.
    pub fn query_timeout(&self) -> Duration {
        // Longer than timers go.
        self.session.shared.limits.query_timeout.min(Duration::from_secs(365 * 24 * 3600))
    }

    /// The rows of table `name` as of its newest commit; `None` if there is no such table. Blocks.
    ///
    /// # Errors
    /// Where the caller may not read it, or it can't be opened.
    pub fn rows(&self, name: &str) -> Result<Option<Dataset>, (StatusCode, String)> {
        let told = |refusal: Refusal| (refusal.status(), refusal.detail().to_owned());
        self.session.check_read(name).map_err(told)?;
        let table = match self.session.shared.catalog.get(name) {
            Ok(table) => table,
            Err(refusal) if refusal.status() == StatusCode::NOT_FOUND => return Ok(None),
            Err(refusal) => return Err(told(refusal)),
        };
        let rows = table.rows().map_err(|e| told(Refusal::of_table(&e)))?;
        Ok(Some(rows))
    }

    /// Bytes that are the same for servers of one directory on one machine, and no others.
    pub fn directory(&self) -> Vec<u8> {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let directory = self.session.shared.catalog.directory();
        let place = match std::fs::metadata(directory) {
            Ok(found) => format!("{}:{}", found.dev(), found.ino()).into_bytes(),
            Err(_) => directory.as_os_str().as_bytes().to_vec(),
        };
        [boot, place].concat()
    }
}

/// Answers a call of a session.
pub(crate) async fn answer(session: Session, engine: &dyn WorkerEngine, request: WorkerRequest) -> Response<Outgoing> {
    engine.call(request, WorkerCaller { session }).await.map(Outgoing::passed)
}
