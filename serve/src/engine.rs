//! [`SqlEngine`]: what answers SQL and writes Parquet, which the program that serves brings along.

use std::fmt;
use std::fs::File;
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
type ParquetFile = dyn Fn(&Dataset) -> Result<File, String> + Send + Sync;

/// What answers queries; errors are messages.
#[derive(Clone)]
pub struct SqlEngine {
    answer: Arc<SqlAnswer>,
    parquet: Option<Arc<ParquetFile>>,
}

impl SqlEngine {
    /// An engine that answers by `answer`, which may block.
    pub fn new(answer: impl Fn(&SqlQuery<'_>) -> Result<Dataset, String> + Send + Sync + 'static) -> SqlEngine {
        SqlEngine { answer: Arc::new(answer), parquet: None }
    }

    /// The same, which also writes rows as Parquet: `write` returns a file that nobody else has, and may block.
    #[must_use]
    pub fn with_parquet(self, write: impl Fn(&Dataset) -> Result<File, String> + Send + Sync + 'static) -> SqlEngine {
        SqlEngine { parquet: Some(Arc::new(write)), ..self }
    }

    pub(crate) fn answer(&self, query: &SqlQuery<'_>) -> Result<Dataset, String> {
        (self.answer)(query)
    }

    pub(crate) fn writes_parquet(&self) -> bool {
        self.parquet.is_some()
    }

    /// The rows as a file of Parquet; `None` where it writes none.
    pub(crate) fn parquet(&self, rows: &Dataset) -> Option<Result<File, String>> {
        self.parquet.as_ref().map(|write| write(rows))
    }
}

impl fmt::Debug for SqlEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqlEngine")
    }
}
