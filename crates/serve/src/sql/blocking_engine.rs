//! A SQL engine made of a function that blocks, which answers the page of `arrowwood view`.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_schema::SchemaRef;
use arrowwood::Dataset;

use super::engine::{SqlEngine, SqlError, SqlFuture, SqlPlan, SqlQuery, SqlRows};
use crate::ops::blocking;

/// The name in queries of the table that the page shows.
pub(crate) const SELF: &str = "self";

/// A query for a blocking engine.
#[derive(Clone, Debug)]
pub struct BlockingQuery {
    /// A single read-only statement.
    pub text: String,
    /// The table named `self`.
    pub path: PathBuf,
    /// The maximum number of rows.
    pub most: u64,
    /// Set when the client no longer waits for the response.
    pub given_up: Arc<AtomicBool>,
}

type QueryFn = dyn Fn(&BlockingQuery) -> Result<Dataset, String> + Send + Sync;
type ParquetFn = dyn Fn(&Dataset) -> Result<File, String> + Send + Sync;

/// An engine made of functions whose errors are messages.
#[derive(Clone)]
pub struct BlockingEngine {
    answer: Arc<QueryFn>,
    parquet: Option<Arc<ParquetFn>>,
}

impl BlockingEngine {
    /// Creates an engine that answers by `answer`, which may block.
    pub fn new(answer: impl Fn(&BlockingQuery) -> Result<Dataset, String> + Send + Sync + 'static) -> BlockingEngine {
        BlockingEngine { answer: Arc::new(answer), parquet: None }
    }

    /// Adds support for Parquet: `write` returns an unnamed file, and may block.
    #[must_use]
    pub fn with_parquet(
        self,
        write: impl Fn(&Dataset) -> Result<File, String> + Send + Sync + 'static,
    ) -> BlockingEngine {
        BlockingEngine { parquet: Some(Arc::new(write)), ..self }
    }
}

/// Cancels a query when its future is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn only_the_page() -> SqlError {
    SqlError::Unsupported("this engine answers nothing but the page".into())
}

impl SqlEngine for BlockingEngine {
    fn plan(&self, _: SqlQuery) -> SqlFuture<'_, SqlPlan> {
        Box::pin(async { Err(only_the_page()) })
    }

    fn run(&self, query: SqlQuery) -> SqlFuture<'_, Box<dyn SqlRows>> {
        let cancel_on_drop = CancelOnDrop(Arc::default());
        let given_up = cancel_on_drop.0.clone();
        Box::pin(async move {
            let Some(path) = query.tables.path(SELF) else { return Err(only_the_page()) };
            let query = BlockingQuery { text: query.text, path, most: query.most.unwrap_or(u64::MAX), given_up };
            let answer = self.answer.clone();
            let result = blocking(move || answer(&query)).await;
            drop(cancel_on_drop);
            let rows = result.map_err(|e| SqlError::Engine(e.to_string()))?.map_err(SqlError::Statement)?;
            Ok(Box::new(DatasetRows { schema: rows.schema().clone(), rows: Some(rows) }) as Box<dyn SqlRows>)
        })
    }

    fn name(&self) -> (String, String) {
        ("arrowwood".into(), env!("CARGO_PKG_VERSION").into())
    }

    fn has_plans(&self) -> bool {
        false
    }

    fn writes_parquet(&self) -> bool {
        self.parquet.is_some()
    }

    fn parquet(&self, rows: &Dataset) -> Option<Result<File, String>> {
        self.parquet.as_ref().map(|write| write(rows))
    }
}

/// The complete result of a query, as its only batch.
struct DatasetRows {
    schema: SchemaRef,
    rows: Option<Dataset>,
}

impl SqlRows for DatasetRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> SqlFuture<'_, Option<Dataset>> {
        let rows = self.rows.take();
        Box::pin(async move { Ok(rows) })
    }
}
