//! [`MirrorSchema`]: a schema whose tables are written by DataFusion and read from copies in files and tables of
//! Arrowwood.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use arrowwood::{Dataset, SyncPolicy, WriteOptions, Writer, WriterOptions, write};
use arrowwood_datafusion::Table;
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::Constraints;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use tempfile::TempDir;
use tokio::runtime::Handle;

/// How often rows were copied to each kind of storage.
#[derive(Debug, Default)]
pub struct StorageCounts {
    /// Growing tables.
    pub tables: AtomicUsize,
    pub files: AtomicUsize,
    /// No copies, as a file can't have their types.
    pub none: AtomicUsize,
}

/// The tables of one test file.
#[derive(Debug, Default)]
pub struct MirrorSchema {
    inner: MemorySchemaProvider,
    counts: Arc<StorageCounts>,
}

impl MirrorSchema {
    pub fn new(counts: Arc<StorageCounts>) -> MirrorSchema {
        MirrorSchema { inner: MemorySchemaProvider::new(), counts }
    }
}

#[async_trait]
impl SchemaProvider for MirrorSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.table(name).await
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        let table = if table.table_type() == TableType::Base {
            Arc::new(MirrorTable::new(table, self.counts.clone()))
        } else {
            table
        };
        self.inner.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}

/// A table that DataFusion writes, and that is read from a copy in a table or a file of Arrowwood.
struct MirrorTable {
    original: Arc<dyn TableProvider>,
    counts: Arc<StorageCounts>,
    directory: TempDir,
    copy: Mutex<Option<RowsCopy>>,
}

/// The copy of the rows of the last scan.
struct RowsCopy {
    rows: Vec<RecordBatch>,
    /// `None` for types that a file can't have.
    table: Option<Arc<Table>>,
}

impl MirrorTable {
    fn new(original: Arc<dyn TableProvider>, counts: Arc<StorageCounts>) -> MirrorTable {
        MirrorTable { original, counts, directory: tempfile::tempdir().unwrap(), copy: Mutex::default() }
    }

    /// Reads the rows of the original.
    async fn read_original(&self, state: &dyn Session) -> Result<Vec<RecordBatch>> {
        collect(self.original.scan(state, None, &[], None).await?, state.task_ctx()).await
    }

    /// Returns the copy of `rows`, which is written again if they have changed.
    fn update_copy(&self, rows: Vec<RecordBatch>) -> Option<Arc<Table>> {
        let mut copy = self.copy.lock().unwrap();
        if copy.as_ref().is_none_or(|copy| copy.rows != rows) {
            *copy = Some(RowsCopy { table: self.write_copy(&rows), rows });
        }
        copy.as_ref()?.table.clone()
    }

    /// Writes rows to a growing table every other time, if there can be one, and to a file otherwise.
    fn write_copy(&self, rows: &[RecordBatch]) -> Option<Arc<Table>> {
        static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);
        let schema = self.original.schema();
        let number = NEXT_NUMBER.fetch_add(1, Relaxed);
        let path = self.directory.path().join(number.to_string());
        let table_path = if number.is_multiple_of(2) { write_table(rows, &schema, &path) } else { None };
        let is_table = table_path.is_some();
        let Some(path) = table_path.or_else(|| write_file(rows, &schema, &path)) else {
            self.counts.none.fetch_add(1, Relaxed);
            return None;
        };
        let table = Table::open(path).unwrap();
        assert_eq!(table.schema().fields(), schema.fields());
        let count = if is_table { &self.counts.tables } else { &self.counts.files };
        count.fetch_add(1, Relaxed);
        Some(Arc::new(table))
    }
}

/// Writes a table with the most specific options that its types allow: sorted by the first column, indexed, or neither.
/// Returns `None` for types that a table can't have.
fn write_table(rows: &[RecordBatch], schema: &SchemaRef, path: &Path) -> Option<PathBuf> {
    let flat = schema.fields().iter().filter(|field| !field.data_type().is_nested());
    let names: Vec<_> = flat.map(|field| field.name().clone()).collect();
    let default = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let sorted = WriterOptions { sorted_by: names.first().cloned(), ..default.clone() };
    let indexed = WriterOptions { index: Some(names), zone_rows: Some(64), ..default.clone() };
    for (kind, options) in [("sorted", sorted), ("indexed", indexed), ("plain", default)] {
        let path = path.with_extension(kind);
        if write_table_with(rows, schema, &path, &options).is_ok() {
            return Some(path);
        }
    }
    None
}

/// Writes a table with a commit for each batch.
fn write_table_with(
    rows: &[RecordBatch],
    schema: &SchemaRef,
    path: &Path,
    options: &WriterOptions,
) -> arrowwood::Result<()> {
    let mut writer = Writer::open(path, Some(schema.clone()), options)?;
    for batch in rows {
        writer.append(batch)?;
        writer.commit()?;
    }
    writer.close()
}

/// Writes a file. Returns `None` for types that a file can't have.
fn write_file(rows: &[RecordBatch], schema: &SchemaRef, path: &Path) -> Option<PathBuf> {
    let path = path.with_extension("arrow");
    write(&Dataset::from_batches(schema.clone(), rows.to_vec()).ok()?, &path, &WriteOptions::default()).ok()?;
    Some(path)
}

impl fmt::Debug for MirrorTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt(f)
    }
}

#[async_trait]
impl TableProvider for MirrorTable {
    fn schema(&self) -> SchemaRef {
        self.original.schema()
    }

    fn table_type(&self) -> TableType {
        self.original.table_type()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.original.constraints()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.original.get_column_default(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let state = SessionContext::new().state();
        let rows = tokio::task::block_in_place(|| Handle::current().block_on(self.read_original(&state)))?;
        match self.update_copy(rows) {
            Some(table) => table.supports_filters_pushdown(filters),
            None => Ok(vec![TableProviderFilterPushDown::Unsupported; filters.len()]),
        }
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.update_copy(self.read_original(state).await?) {
            Some(table) => table.scan(state, projection, filters, limit).await,
            None => self.original.scan(state, projection, filters, limit).await,
        }
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.original.insert_into(state, input, op).await
    }

    async fn delete_from(&self, state: &dyn Session, filters: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        self.original.delete_from(state, filters).await
    }

    async fn update(
        &self,
        state: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.original.update(state, assignments, filters).await
    }
}
