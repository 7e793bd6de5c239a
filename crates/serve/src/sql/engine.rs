//! The interface of SQL engines, which answer SQL and write Parquet; the program that serves supplies one.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::Dataset;

/// A future of an engine.
pub type SqlFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SqlError>> + Send + 'a>>;

/// Answers read-only SQL.
///
/// Queries run on the engine's own threads, which callers wait for. Dropping a future, or the rows of a result,
/// cancels the query.
pub trait SqlEngine: Send + Sync + 'static {
    /// Returns the columns and the parameters of a statement, without running it.
    fn plan(&self, query: SqlQuery) -> SqlFuture<'_, SqlPlan>;

    /// Starts to run a statement.
    fn run(&self, query: SqlQuery) -> SqlFuture<'_, Box<dyn SqlRows>>;

    /// Returns name and version, for clients.
    fn name(&self) -> (String, String);

    /// Returns true if it supports more statements than the page of `arrowwood view` sends, and parameters.
    fn has_plans(&self) -> bool {
        true
    }

    /// Returns true if it writes Parquet.
    fn writes_parquet(&self) -> bool {
        false
    }

    /// Writes rows to an unnamed Parquet file; `None` if it can't write Parquet. May block.
    fn parquet(&self, _rows: &Dataset) -> Option<Result<File, String>> {
        None
    }
}

/// A statement, with the tables and the memory that it may use.
#[derive(Clone)]
pub struct SqlQuery {
    /// One statement.
    pub text: String,
    /// A row with the values of its parameters, one column for each.
    pub parameters: Option<RecordBatch>,
    /// The tables that it may read.
    pub tables: Arc<dyn SqlTables>,
    /// The memory that it may take.
    pub memory: Arc<dyn SqlMemory>,
    /// The maximum number of rows. An engine may produce more, which is wasted work.
    pub most: Option<u64>,
}

/// The tables that a query may read.
pub trait SqlTables: Send + Sync {
    /// Returns the names of all tables. Blocks.
    ///
    /// # Errors
    /// An error if the tables can't be listed.
    fn names(&self) -> Result<Vec<String>, SqlError>;

    /// Returns the rows of table `name` at its newest commit; `None` if the query has no such table. Blocks.
    ///
    /// # Errors
    /// An error if the table can't be opened.
    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError>;

    /// Returns the path of table `name`, for engines in the same process that open it themselves.
    fn path(&self, name: &str) -> Option<PathBuf>;
}

/// The memory of a query, shared with other queries.
pub trait SqlMemory: Send + Sync {
    /// Returns the maximum number of bytes.
    fn max_bytes(&self) -> usize;

    /// Returns the number of bytes that are free now, in the memory of all queries.
    fn free(&self) -> usize;

    /// Takes the given number of bytes; returns false if they are not free, or beyond the maximum.
    fn take(&self, bytes: usize) -> bool;

    /// Returns the given number of bytes taken before.
    fn release(&self, bytes: usize);
}

/// The properties of a statement before it runs.
#[derive(Clone, Debug)]
pub struct SqlPlan {
    /// The columns of its result.
    pub schema: SchemaRef,
    /// Its parameters in order. Parameters of unknown type have the type null.
    pub parameters: SchemaRef,
}

/// The rows of a result, batch by batch. Dropping it cancels the query.
pub trait SqlRows: Send {
    /// Returns the columns of all batches.
    fn schema(&self) -> SchemaRef;

    /// Returns the next rows, possibly none; `None` at the end.
    fn next(&mut self) -> SqlFuture<'_, Option<Dataset>>;
}

/// The reason why a query failed.
#[derive(Debug)]
pub enum SqlError {
    /// The statement is invalid, or not read-only.
    Statement(String),
    /// It needs more memory than permitted.
    Memory(String),
    /// The engine does not support it.
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
