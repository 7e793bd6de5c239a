//! [`Table`]: a dataset as a table of DataFusion.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use arrowwood::mapping::MutexExt;
use arrowwood::{Dataset, Error, ErrorKind};
use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::error::to_external_error;
use crate::pushdown::Condition;
use crate::scan::{Scan, ScanRequest};

/// A file, a growing table, partitions or several files as a table of DataFusion.
///
/// A query reads the rows that are committed when it is planned, and the same rows for each mention of the table. The
/// columns are fixed when the `Table` is created: create it again for columns that were added since.
pub struct Table {
    schema: SchemaRef,
    is_copied: bool,
    /// True if later commits are ignored.
    is_fixed: bool,
    snapshots: Mutex<Snapshots>,
}

/// The newest rows, and the rows of queries that are being planned or run.
struct Snapshots {
    newest: Dataset,
    queries: Vec<(QueryKey, Weak<Dataset>)>,
}

/// The key of a query: the id of its session, and its start in nanoseconds. DataFusion tells a table no more when it
/// asks for a scan, which it does for each mention in a query.
type QueryKey = (String, i64);

impl Table {
    /// Opens the table at `path`, which can be anything that [`arrowwood::open`] accepts. Later queries see new rows
    /// and new partitions; the files of a pattern or a directory are listed only now.
    ///
    /// # Errors
    /// Errors of [`arrowwood::open`]; `InvalidArgument` if two columns have the same name.
    pub fn open(path: impl AsRef<Path>) -> arrowwood::Result<Table> {
        Table::new(arrowwood::open(path)?)
    }

    /// Creates a table of the rows of `dataset` and, if it is a whole table, of rows that are committed later.
    ///
    /// # Errors
    /// `InvalidArgument` if two columns have the same name.
    pub fn new(dataset: Dataset) -> arrowwood::Result<Table> {
        let mut names: Vec<_> = dataset.schema().fields().iter().map(|field| field.name().as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("two columns are called '{}', and DataFusion knows columns by name", pair[0]);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let schema = Arc::new(Schema::new(dataset.schema().fields().clone()));
        let snapshots = Mutex::new(Snapshots { newest: dataset, queries: Vec::new() });
        Ok(Table { schema, is_copied: false, is_fixed: false, snapshots })
    }

    /// Makes queries copy rows before DataFusion sees them. A file that is truncated while a query runs is then always
    /// an error; otherwise it may end the process.
    pub fn copied(mut self) -> Table {
        self.is_copied = true;
        self
    }

    /// Makes queries read the current rows and ignore later commits.
    pub fn fixed(mut self) -> Table {
        self.is_fixed = true;
        self
    }

    fn lock(&self) -> MutexGuard<'_, Snapshots> {
        // A panic while it was locked leaves complete rows of an older commit.
        self.snapshots.lock_ignoring_poison()
    }

    /// Returns the rows for the query of the session `state`.
    fn snapshot(&self, state: &dyn Session) -> Result<Arc<Dataset>> {
        if self.is_fixed {
            return Ok(Arc::new(self.lock().newest.clone()));
        }
        let start = state.execution_props().query_execution_start_time;
        let key = start.and_then(|time| Some((state.session_id().to_owned(), time.timestamp_nanos_opt()?)));
        let mut snapshots = self.lock();
        snapshots.queries.retain(|(_, rows)| rows.strong_count() > 0);
        let mut same_query = snapshots.queries.iter().filter(|(other, _)| Some(other) == key.as_ref());
        if let Some(rows) = same_query.find_map(|(_, rows)| rows.upgrade()) {
            return Ok(rows);
        }
        snapshots.newest = snapshots.newest.refresh().map_err(to_external_error)?;
        let rows = Arc::new(self.select_columns(&snapshots.newest).map_err(to_external_error)?);
        if let Some(key) = key {
            snapshots.queries.push((key, Arc::downgrade(&rows)));
        }
        Ok(rows)
    }

    /// Selects the columns that the table was created with.
    fn select_columns(&self, rows: &Dataset) -> arrowwood::Result<Dataset> {
        if rows.schema().fields() == self.schema.fields() {
            return Ok(rows.clone());
        }
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name()).collect();
        let selected = rows.select(&names)?;
        assert_eq!(selected.schema().fields().len(), names.len(), "each name selects a column");
        for (field, newest) in self.schema.fields().iter().zip(selected.schema().fields()) {
            if field.data_type() != newest.data_type() {
                let name = field.name();
                let registered = arrowwood::type_name(field.data_type());
                let newest = arrowwood::type_name(newest.data_type());
                let message = format!(
                    "column '{name}' is {newest} now, and was {registered} when the table was registered; \
                     register it again"
                );
                return Err(Error::new(ErrorKind::SchemaMismatch, message));
            }
        }
        Ok(selected)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("schema", &self.schema)
            .field("is_copied", &self.is_copied)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let rows = self.select_columns(&self.lock().newest).map_err(to_external_error)?;
        let mut supported = Vec::with_capacity(filters.len());
        for filter in filters {
            supported.push(match Condition::bind(filter, &rows) {
                Some(condition) if condition.is_exact => TableProviderFilterPushDown::Exact,
                Some(_) => TableProviderFilterPushDown::Inexact,
                None => TableProviderFilterPushDown::Unsupported,
            });
        }
        Ok(supported)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let snapshot = self.snapshot(state)?;
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let mut conditions = Vec::with_capacity(filters.len());
        for filter in filters {
            // DataFusion does not evaluate an exact condition itself, so that skipping it would return wrong rows.
            let Some(condition) = Condition::bind(filter, &snapshot) else {
                return internal_err!("{filter} was taken over, and is no condition now");
            };
            conditions.push(condition);
        }
        Ok(Arc::new(Scan::try_new(ScanRequest {
            snapshot,
            columns,
            schema,
            conditions,
            limit,
            target_splits: state.config().target_partitions(),
            is_copied: self.is_copied,
        })?))
    }
}
