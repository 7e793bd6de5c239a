//! [`QueryCatalogs`]: the tables of one query, as DataFusion looks for them.

use arrowwood::mapping::MutexExt;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use arrowwood_serve::{SqlError, SqlTables};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;

use crate::external;
use crate::table::Table;

/// The only catalog, and the schema that has all tables.
pub(crate) const CATALOG: &str = "arrowwood";
pub(crate) const SCHEMA: &str = "public";

/// The tables of one query: each is opened once, so that all mentions are of one commit.
#[derive(Clone)]
pub(crate) struct QueryCatalogs {
    tables: Arc<dyn SqlTables>,
    known: Arc<Mutex<HashMap<String, Arc<Table>>>>,
    /// Why a table could not be opened. To a list of all tables it is none, so that others are listed.
    failure: Arc<Mutex<Option<DataFusionError>>>,
}

impl QueryCatalogs {
    pub fn new(tables: Arc<dyn SqlTables>) -> QueryCatalogs {
        QueryCatalogs { tables, known: Arc::default(), failure: Arc::default() }
    }

    /// The error of a statement for which tables were looked for: where one could not be opened, the reason.
    pub fn error(&self, error: DataFusionError) -> DataFusionError {
        self.failure.lock_ignoring_poison().take().unwrap_or(error)
    }

    fn opened(&self, name: &str) -> Result<Option<Arc<Table>>> {
        let mut known = self.known.lock_ignoring_poison();
        if let Some(table) = known.get(name) {
            return Ok(Some(table.clone()));
        }
        let Some(rows) = self.tables.rows(name).map_err(failed)? else { return Ok(None) };
        let table = Arc::new(Table::new(rows).map_err(external)?.fixed());
        known.insert(name.to_owned(), table.clone());
        Ok(Some(table))
    }
}

fn failed(error: SqlError) -> DataFusionError {
    match error {
        SqlError::Table(error) => external(error),
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
        // The trait has no error: a list that fails is empty.
        self.tables.names().unwrap_or_else(|_| Vec::new())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let catalogs = self.clone();
        let name = name.to_owned();
        let opened = tokio::task::spawn_blocking(move || catalogs.opened(&name)).await;
        let opened = opened.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?;
        let opened = opened.unwrap_or_else(|e| {
            self.failure.lock_ignoring_poison().get_or_insert(e);
            None
        });
        Ok(opened.map(|table| table as Arc<dyn TableProvider>))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        // Without opening it.
        Ok(self.table_names().iter().any(|other| other == name).then_some(TableType::Base))
    }

    fn table_exist(&self, name: &str) -> bool {
        matches!(self.opened(name), Ok(Some(_)))
    }
}
