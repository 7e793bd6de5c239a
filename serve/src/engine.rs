//! [`SqlEngine`]: what answers SQL, which the program that serves brings along.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrowwood::Dataset;

/// A query, as an engine is asked it.
#[derive(Clone, Debug)]
pub struct SqlQuery<'a> {
    /// One statement that only reads.
    pub text: &'a str,
    /// What it calls `self`.
    pub path: &'a Path,
    /// The most rows that are wanted.
    pub most: u64,
    /// Set when nobody waits for the answer any more.
    pub given_up: &'a Arc<AtomicBool>,
}

type SqlAnswer = dyn Fn(&SqlQuery<'_>) -> Result<Dataset, String> + Send + Sync;

/// What answers queries; errors are messages.
#[derive(Clone)]
pub struct SqlEngine(Arc<SqlAnswer>);

impl SqlEngine {
    /// An engine that answers by `answer`, which may block.
    pub fn new(answer: impl Fn(&SqlQuery<'_>) -> Result<Dataset, String> + Send + Sync + 'static) -> SqlEngine {
        SqlEngine(Arc::new(answer))
    }

    pub(crate) fn answer(&self, query: &SqlQuery<'_>) -> Result<Dataset, String> {
        (self.0)(query)
    }
}

impl fmt::Debug for SqlEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqlEngine")
    }
}
