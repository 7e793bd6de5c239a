//! Defines [`WorkerEngine`], which answers a server's part of queries over several servers. The program that serves
//! provides it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrowwood::Dataset;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use crate::http::WorkerBody;

/// A received call.
pub type WorkerRequest = Request<Incoming>;
/// A response in progress.
pub type WorkerFuture = Pin<Box<dyn Future<Output = Response<WorkerBody>> + Send>>;

/// Answers calls of other servers, and of clients that query all of them.
pub trait WorkerEngine: Send + Sync + 'static {
    /// Returns true if the engine answers calls of `service`, the first part of their path.
    fn handles(&self, service: &str) -> bool;

    /// Answers a call.
    ///
    /// `caller` has a valid token if the server uses tokens, and can read only the tables that the token gives rights
    /// to.
    fn call(&self, request: WorkerRequest, caller: WorkerCaller) -> WorkerFuture;
}

/// The caller of a worker, with its session at the server.
pub(crate) trait CallerContext: Send + Sync {
    fn key(&self) -> String;
    fn is_valid(&self) -> bool;
    fn query_timeout(&self) -> Duration;
    fn rows(&self, name: &str) -> Result<Option<Dataset>, (StatusCode, String)>;
    fn directory(&self) -> Vec<u8>;
}

/// The caller of a worker, and the tables that it has the right to read.
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

    /// Returns a key that differs between callers: the token's name in hexadecimal digits.
    ///
    /// Empty without tokens.
    pub fn key(&self) -> String {
        self.0.key()
    }

    /// Returns true if the token is unchanged.
    pub fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// Returns the maximum time for one query.
    pub fn query_timeout(&self) -> Duration {
        self.0.query_timeout()
    }

    /// Returns the rows of table `name` in its newest commit, or `None` if there is no such table. Blocks.
    ///
    /// # Errors
    /// If the caller has no right to read the table, or it can't be opened. The status and the message are for the
    /// client.
    pub fn rows(&self, name: &str) -> Result<Option<Dataset>, (StatusCode, String)> {
        self.0.rows(name)
    }

    /// Returns bytes that are equal for servers of the same directory on the same machine only.
    pub fn directory(&self) -> Vec<u8> {
        self.0.directory()
    }
}
