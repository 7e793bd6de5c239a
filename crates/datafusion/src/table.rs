//! [`Table`]: what DataFusion plans queries by.

use arrowwood::mapping::MutexExt;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use arrowwood::{Dataset, Error, ErrorKind};
use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::external;
use crate::pushdown::Condition;
use crate::scan::{Scan, ScanRequest};

/// A file, a table, partitions or files as a table of DataFusion.
///
/// Queries are of the rows that are committed when they are planned, and all mentions of the table in one query are of
/// the same. The columns are those that there were when it was made: make it again for columns that were added since.
pub struct Table {
    schema: SchemaRef,
    is_copied: bool,
    /// True if later commits are not seen.
    is_fixed: bool,
    snapshots: Mutex<Snapshots>,
}

/// The newest rows, and the rows of queries that are planned or run.
struct Snapshots {
    newest: Dataset,
    queries: Vec<(QueryKey, Weak<Dataset>)>,
}

/// A query: its session, and when it began.
type QueryKey = (String, i64);

impl Table {
    /// The table at `path`: of anything that [`arrowwood::open`] opens. New rows and new partitions are seen by later
    /// queries; the files of a pattern or a directory are those that there are now.
    ///
    /// # Errors
    /// Errors of [`arrowwood::open`]; `InvalidArgument` if two columns have one name.
    pub fn open(path: impl AsRef<Path>) -> arrowwood::Result<Table> {
        Table::new(arrowwood::open(path)?)
    }

    /// The rows of `dataset`, and those that are committed later if it is a whole table.
    ///
    /// # Errors
    /// `InvalidArgument` if two columns have one name.
    pub fn new(dataset: Dataset) -> arrowwood::Result<Table> {
        let mut names: Vec<_> = dataset.schema().fields().iter().map(|field| field.name().as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("two columns are called '{}', and DataFusion knows columns by name", twice[0]);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let schema = Arc::new(Schema::new(dataset.schema().fields().clone()));
        let snapshots = Mutex::new(Snapshots { newest: dataset, queries: Vec::new() });
        Ok(Table { schema, is_copied: false, is_fixed: false, snapshots })
    }

    /// Has rows copied before DataFusion sees them: a file that is truncated while a query runs is an error then in all
    /// cases, where the process may end otherwise.
    pub fn copied(mut self) -> Table {
        self.is_copied = true;
        self
    }

    /// Keeps to the rows that there are now, and shows no later commits.
    pub fn fixed(mut self) -> Table {
        self.is_fixed = true;
        self
    }

    fn lock(&self) -> MutexGuard<'_, Snapshots> {
        // A panic would leave older rows, which are whole.
        self.snapshots.lock_ignoring_poison()
    }

    /// The rows for the query that `state` is of.
    fn snapshot(&self, state: &dyn Session) -> Result<Arc<Dataset>> {
        if self.is_fixed {
            return Ok(Arc::new(self.lock().newest.clone()));
        }
        let begun = state.execution_props().query_execution_start_time;
        let query = begun.and_then(|time| Some((state.session_id().to_owned(), time.timestamp_nanos_opt()?)));
        let mut snapshots = self.lock();
        snapshots.queries.retain(|(_, rows)| rows.strong_count() > 0);
        let mut known = snapshots.queries.iter().filter(|(known, _)| Some(known) == query.as_ref());
        if let Some(rows) = known.find_map(|(_, rows)| rows.upgrade()) {
            return Ok(rows);
        }
        snapshots.newest = snapshots.newest.refresh().map_err(external)?;
        let rows = Arc::new(self.with_own_columns(&snapshots.newest).map_err(external)?);
        if let Some(query) = query {
            snapshots.queries.push((query, Arc::downgrade(&rows)));
        }
        Ok(rows)
    }

    /// The columns that the table was made with.
    fn with_own_columns(&self, rows: &Dataset) -> arrowwood::Result<Dataset> {
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
        let rows = self.with_own_columns(&self.lock().newest).map_err(external)?;
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
            // DataFusion checks an exact condition nowhere else: it must not be left out.
            let Some(condition) = Condition::bind(filter, &snapshot) else {
                return internal_err!("{filter} was taken over, and is no condition now");
            };
            conditions.push(condition);
        }
        let splits = state.config().target_partitions();
        let request = ScanRequest { snapshot, columns, schema, conditions, limit, splits, is_copied: self.is_copied };
        Ok(Arc::new(Scan::try_new(request)?))
    }
}
