//! [`SqlEngine`]: what answers SQL and writes Parquet, which the program that serves brings along.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::Dataset;

/// What an engine does while others go on.
pub type SqlFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SqlError>> + Send + 'a>>;

/// Answers SQL that only reads.
///
/// Queries run on threads of the engine's own: those that ask wait for them. What is dropped is given up: a future, and the
/// rows of an answer.
pub trait SqlEngine: Send + Sync + 'static {
    /// The columns and the parameters of a statement, which is not run.
    fn plan(&self, query: SqlQuery) -> SqlFuture<'_, SqlPlan>;

    /// Begins to run a statement.
    fn run(&self, query: SqlQuery) -> SqlFuture<'_, Box<dyn SqlRows>>;

    /// Name and version, as clients are told.
    fn name(&self) -> (String, String);

    /// Whether it knows statements beyond those that the page of `arrowwood view` asks, and their parameters.
    fn has_plans(&self) -> bool {
        true
    }

    /// Whether it writes Parquet.
    fn writes_parquet(&self) -> bool {
        false
    }

    /// Rows as a file of Parquet that nobody else has; `None` where it writes none. May block.
    fn parquet(&self, _rows: &Dataset) -> Option<Result<File, String>> {
        None
    }
}

/// A statement, and what it may read and take.
#[derive(Clone)]
pub struct SqlQuery {
    /// One statement.
    pub text: String,
    /// A row with the values of its parameters, one column for each.
    pub parameters: Option<RecordBatch>,
    /// All that it may read.
    pub tables: Arc<dyn SqlTables>,
    /// What it may take.
    pub memory: Arc<dyn SqlMemory>,
    /// The most rows that are wanted. An engine that does not stop there only does needless work.
    pub most: Option<u64>,
}

/// The tables that a query may read.
pub trait SqlTables: Send + Sync {
    /// The names of all of them. Blocks.
    ///
    /// # Errors
    /// Where they can't be listed.
    fn names(&self) -> Result<Vec<String>, SqlError>;

    /// The rows of table `name` as of its newest commit; `None` where there is no such table for the query. Blocks.
    ///
    /// # Errors
    /// Where it can't be opened.
    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError>;

    /// Where table `name` is, for engines in the same process that open it themselves.
    fn path(&self, name: &str) -> Option<PathBuf>;
}

/// The memory that a query may take, of what it shares with others.
pub trait SqlMemory: Send + Sync {
    /// The most bytes that it may have.
    fn most(&self) -> usize;

    /// Takes so many bytes; false if they are not free now, or beyond the most.
    fn take(&self, bytes: usize) -> bool;

    /// Gives so many of the bytes back that were taken.
    fn give_back(&self, bytes: usize);
}

/// What is known of a statement before it runs.
#[derive(Clone, Debug)]
pub struct SqlPlan {
    /// The columns of its answer.
    pub schema: SchemaRef,
    /// Its parameters in their order. Those of unknown type have the type null.
    pub parameters: SchemaRef,
}

/// The rows of an answer, batch by batch. Whoever drops it gives the query up.
pub trait SqlRows: Send {
    /// The columns of all batches.
    fn schema(&self) -> SchemaRef;

    /// The next rows, which may be none; `None` behind the last.
    fn next(&mut self) -> SqlFuture<'_, Option<Dataset>>;
}

/// Why a query has no answer.
#[derive(Debug)]
pub enum SqlError {
    /// The statement is wrong, or does not only read.
    Statement(String),
    /// It takes more memory than it may.
    Memory(String),
    /// The engine can't do that.
    Unsupported(String),
    /// A table can't be read.
    Table(arrowwood::Error),
    /// The engine failed.
    Engine(String),
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlError::Table(error) => error.fmt(f),
            SqlError::Statement(message) | SqlError::Memory(message) => f.write_str(message),
            SqlError::Unsupported(message) | SqlError::Engine(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for SqlError {}

impl From<arrowwood::Error> for SqlError {
    fn from(error: arrowwood::Error) -> SqlError {
        SqlError::Table(error)
    }
}
