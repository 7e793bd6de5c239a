//! [`QueryCatalogs`]: the catalog with the tables of one query.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use arrowwood::mapping::MutexExt;
use arrowwood_datafusion::Table;
use arrowwood_serve::{SqlError, SqlTables};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;

/// The name of the only catalog.
pub(super) const CATALOG: &str = "arrowwood";
/// The name of the only schema, which has all tables.
pub(super) const SCHEMA: &str = "public";

/// The tables of one query. Each is opened once, so that all mentions read the same commit.
///
/// Clones share the tables, as DataFusion asks for them from several threads. `opened` is locked while a table is
/// opened, so that two threads do not open it twice; `failure` is locked for an assignment only, and never with
/// `opened`.
#[derive(Clone)]
pub(super) struct QueryCatalogs {
    tables: Arc<dyn SqlTables>,
    opened: Arc<Mutex<HashMap<String, Arc<Table>>>>,
    /// The error of the first table that could not be opened. Such a table counts as absent, so that listing all tables
    /// does not fail.
    failure: Arc<Mutex<Option<DataFusionError>>>,
}

impl QueryCatalogs {
    pub fn new(tables: Arc<dyn SqlTables>) -> QueryCatalogs {
        QueryCatalogs { tables, opened: Arc::default(), failure: Arc::default() }
    }

    /// Returns the error of a table that could not be opened, if there is one, and the planner's `error` otherwise.
    pub fn take_error(&self, error: DataFusionError) -> DataFusionError {
        self.failure.lock_ignoring_poison().take().unwrap_or(error)
    }

    /// Opens a table. Returns `None` if there is no table of this name.
    fn open(&self, name: &str) -> Result<Option<Arc<Table>>> {
        let mut opened = self.opened.lock_ignoring_poison();
        if let Some(table) = opened.get(name) {
            return Ok(Some(table.clone()));
        }
        let Some(rows) = self.tables.rows(name).map_err(table_error)? else { return Ok(None) };
        let table = Table::new(rows).map_err(|e| DataFusionError::External(Box::new(e)))?;
        let table = Arc::new(table.fixed());
        opened.insert(name.to_owned(), table.clone());
        Ok(Some(table))
    }
}

fn table_error(error: SqlError) -> DataFusionError {
    match error {
        SqlError::Table(error) => DataFusionError::External(Box::new(error)),
        other => DataFusionError::External(Box::new(other)),
    }
}

impl fmt::Debug for QueryCatalogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryCatalogs")
    }
}

impl CatalogProviderList for QueryCatalogs {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.into()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::new(self.clone()) as Arc<dyn CatalogProvider>)
    }
}

impl CatalogProvider for QueryCatalogs {
    fn schema_names(&self) -> Vec<String> {
        vec![SCHEMA.into()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        (name == SCHEMA).then(|| Arc::new(self.clone()) as Arc<dyn SchemaProvider>)
    }
}

#[async_trait]
impl SchemaProvider for QueryCatalogs {
    fn table_names(&self) -> Vec<String> {
        // The trait can't report an error, so that a failed list is empty.
        self.tables.names().unwrap_or_else(|_| Vec::new())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let catalogs = self.clone();
        let name = name.to_owned();
        let opened = tokio::task::spawn_blocking(move || catalogs.open(&name)).await;
        let opened = opened.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
        let opened = opened.unwrap_or_else(|e| {
            self.failure.lock_ignoring_poison().get_or_insert(e);
            None
        });
        Ok(opened.map(|table| table as Arc<dyn TableProvider>))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        // Listing the names is cheaper than opening the table.
        Ok(self.table_names().iter().any(|table| table == name).then_some(TableType::Base))
    }

    fn table_exist(&self, name: &str) -> bool {
        matches!(self.open(name), Ok(Some(_)))
    }
}
