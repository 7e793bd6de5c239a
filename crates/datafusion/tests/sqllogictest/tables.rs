//! A schema whose tables are read from files and tables of ours, whatever made them.

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

/// How rows were stored.
#[derive(Debug, Default)]
pub struct Counts {
    /// As tables that grow, and as files.
    pub tables: AtomicUsize,
    pub files: AtomicUsize,
    /// Not at all, for types that a file can't have.
    pub none: AtomicUsize,
}

/// The tables of one test file.
#[derive(Debug, Default)]
pub struct Schema {
    known: MemorySchemaProvider,
    counts: Arc<Counts>,
}

impl Schema {
    pub fn new(counts: Arc<Counts>) -> Schema {
        Schema { known: MemorySchemaProvider::new(), counts }
    }
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        self.known.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.known.table(name).await
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        let table =
            if table.table_type() == TableType::Base { MirrorTable::wrap(table, self.counts.clone()) } else { table };
        self.known.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.known.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.known.table_exist(name)
    }
}

/// A table of DataFusion's, written as DataFusion does, and read from a copy in a table or a file of ours.
struct MirrorTable {
    theirs: Arc<dyn TableProvider>,
    counts: Arc<Counts>,
    folder: TempDir,
    stored: Mutex<Option<StoredRows>>,
}

/// The rows of the last scan.
struct StoredRows {
    rows: Vec<RecordBatch>,
    /// `None` for rows of types that a file can't have.
    table: Option<Arc<Table>>,
}

impl MirrorTable {
    fn wrap(theirs: Arc<dyn TableProvider>, counts: Arc<Counts>) -> Arc<dyn TableProvider> {
        Arc::new(MirrorTable { theirs, counts, folder: tempfile::tempdir().unwrap(), stored: Mutex::default() })
    }

    /// The rows, however they are stored, as DataFusion's own provider reads them.
    async fn rows(&self, state: &dyn Session) -> Result<Vec<RecordBatch>> {
        collect(self.theirs.scan(state, None, &[], None).await?, state.task_ctx()).await
    }

    /// The table of `rows`, stored anew if they have changed.
    fn table(&self, rows: Vec<RecordBatch>) -> Option<Arc<Table>> {
        let mut stored = self.stored.lock().unwrap();
        if stored.as_ref().is_none_or(|stored| stored.rows != rows) {
            *stored = Some(StoredRows { table: self.store(&rows), rows });
        }
        stored.as_ref()?.table.clone()
    }

    /// Stores rows: every other time as a table that grows, where there can be one.
    fn store(&self, rows: &[RecordBatch]) -> Option<Arc<Table>> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let schema = self.theirs.schema();
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = self.folder.path().join(number.to_string());
        let grown = if number.is_multiple_of(2) { grow(rows, &schema, &path) } else { None };
        let is_grown = grown.is_some();
        let Some(path) = grown.or_else(|| file(rows, &schema, &path)) else {
            self.counts.none.fetch_add(1, Relaxed);
            return None;
        };
        let table = Table::open(path).unwrap();
        assert_eq!(table.schema().fields(), schema.fields());
        if is_grown { &self.counts.tables } else { &self.counts.files }.fetch_add(1, Relaxed);
        Some(Arc::new(table))
    }
}

/// A table with a commit for each batch, sorted by the first column and indexed where that can be.
fn grow(rows: &[RecordBatch], schema: &SchemaRef, path: &Path) -> Option<PathBuf> {
    let all = |options: WriterOptions, kind: &str| -> arrowwood::Result<PathBuf> {
        let path = path.with_extension(kind);
        let mut writer = Writer::open(&path, Some(schema.clone()), &options)?;
        for batch in rows {
            writer.append(batch)?;
            writer.commit()?;
        }
        writer.close()?;
        Ok(path)
    };
    let flat = schema.fields().iter().filter(|field| !field.data_type().is_nested());
    let names: Vec<_> = flat.map(|field| field.name().clone()).collect();
    let plain = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let indexed = WriterOptions { index: Some(names.clone()), zone_rows: Some(64), ..plain.clone() };
    let sorted = WriterOptions { sorted_by: names.first().cloned(), ..plain.clone() };
    all(sorted, "sorted").or_else(|_| all(indexed, "indexed")).or_else(|_| all(plain, "plain")).ok()
}

fn file(rows: &[RecordBatch], schema: &SchemaRef, path: &Path) -> Option<PathBuf> {
    let path = path.with_extension("arrow");
    write(&Dataset::from_batches(schema.clone(), rows.to_vec()).ok()?, &path, &WriteOptions::default()).ok()?;
    Some(path)
}

impl fmt::Debug for MirrorTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.theirs.fmt(f)
    }
}

#[async_trait]
impl TableProvider for MirrorTable {
    fn schema(&self) -> SchemaRef {
        self.theirs.schema()
    }

    fn table_type(&self) -> TableType {
        self.theirs.table_type()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.theirs.constraints()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.theirs.get_column_default(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let state = SessionContext::new().state();
        let rows = tokio::task::block_in_place(|| Handle::current().block_on(self.rows(&state)))?;
        match self.table(rows) {
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
        match self.table(self.rows(state).await?) {
            Some(table) => table.scan(state, projection, filters, limit).await,
            None => self.theirs.scan(state, projection, filters, limit).await,
        }
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.theirs.insert_into(state, input, op).await
    }

    async fn delete_from(&self, state: &dyn Session, filters: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        self.theirs.delete_from(state, filters).await
    }

    async fn update(
        &self,
        state: &dyn Session,
        assignments: Vec<(String, Expr)>,
        filters: Vec<Expr>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.theirs.update(state, assignments, filters).await
    }
}
