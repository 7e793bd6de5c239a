//! [`WorkerEngine`]: what a server does of queries over several, where the program that serves has an engine for it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrowwood::Dataset;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

/// A call, as it comes.
pub type WorkerRequest = Request<Incoming>;
/// The body of an answer, which may have trailers.
pub type WorkerBody = UnsyncBoxBody<Bytes, io::Error>;
/// An answer to come.
pub type WorkerFuture = Pin<Box<dyn Future<Output = Response<WorkerBody>> + Send>>;

/// Answers the calls of other servers, and of whoever asks them all.
pub trait WorkerEngine: Send + Sync + 'static {
    /// Whether it answers calls of `service`, which is the first part of their path.
    fn handles(&self, service: &str) -> bool;

    /// Answers a call. `caller` has a valid token, where there are tokens, and may read nothing but what that has rights for.
    fn call(&self, request: WorkerRequest, caller: WorkerCaller) -> WorkerFuture;
}

/// Who calls, as the server knows it.
pub(crate) trait CallerContext: Send + Sync {
    fn key(&self) -> String;
    fn is_valid(&self) -> bool;
    fn query_timeout(&self) -> Duration;
    fn rows(&self, name: &str) -> Result<Option<Dataset>, (StatusCode, String)>;
    fn directory(&self) -> Vec<u8>;
}

/// Who calls, and what that may read.
#[derive(Clone)]
pub struct WorkerCaller(Arc<dyn CallerContext>);

impl fmt::Debug for WorkerCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerCaller").field("key", &self.key()).finish()
    }
}

impl WorkerCaller {
    pub(crate) fn new(caller: impl CallerContext + 'static) -> WorkerCaller {
        WorkerCaller(Arc::new(caller))
    }

    /// Differs from that of every other caller: what the token is called, in hexadecimal digits. Empty without tokens.
    pub fn key(&self) -> String {
        self.0.key()
    }

    /// Whether the token still is what it was.
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// How long the server works on one query.
    pub fn query_timeout(&self) -> Duration {
        self.0.query_timeout()
    }

    /// The rows of table `name` as of its newest commit; `None` if there is no such table. Blocks.
    ///
    /// # Errors
    /// Where the caller may not read it, or it can't be opened.
    pub fn rows(&self, name: &str) -> Result<Option<Dataset>, (StatusCode, String)> {
        self.0.rows(name)
    }

    /// Bytes that are the same for servers of one directory on one machine, and no others.
    pub fn directory(&self) -> Vec<u8> {
        self.0.directory()
    }
}
