//! Lists schemas and tables: one catalog with one schema, which contains the tables that the caller may read.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrowwood_flight::schema_message;
use arrowwood_flight::sql::{self, CommandGetDbSchemas, CommandGetTables, TableRow};
use bytes::Bytes;

use crate::http::{Problem, Result};
use crate::session::Session;

/// The only catalog.
pub(super) const CATALOG: &str = "arrowwood";
/// The only schema, which contains all tables.
const SCHEMA: &str = "public";
/// The type of all tables.
pub(super) const TABLE: &str = "TABLE";

/// Lists the only schema, if it is requested.
pub(super) fn db_schemas(request: &CommandGetDbSchemas) -> Result<RecordBatch, ArrowError> {
    sql::db_schemas(if request.matches(CATALOG, SCHEMA) { &[(CATALOG, SCHEMA)] } else { &[] })
}

/// Lists the requested tables that the caller may read. Blocks.
pub(super) fn tables(session: &Session, request: &CommandGetTables) -> Result<RecordBatch> {
    let is_kind = request.matches_kind(CATALOG, SCHEMA, TABLE);
    let mut rows = Vec::new();
    for entry in session.shared.catalog.list()? {
        if !is_kind || !request.matches_name(&entry.name) || !session.caller.rights().may_read(&entry.name) {
            continue;
        }
        let mut table_schema = None;
        if request.include_schema {
            table_schema = encode_table_schema(session, &entry.name);
            // A table that can't be opened is omitted, as its columns are unknown; a query for it gets the error.
            if table_schema.is_none() {
                continue;
            }
        }
        rows.push(TableRow { catalog: CATALOG, db_schema: SCHEMA, name: entry.name, table_type: TABLE, table_schema });
    }
    sql::tables(&rows, request.include_schema).map_err(|e| Problem::internal(e.to_string()))
}

fn encode_table_schema(session: &Session, name: &str) -> Option<Bytes> {
    let table = session.shared.catalog.get(name).ok()?;
    let rows = table.rows().ok()?;
    // Engines know only the columns of a table, without its metadata.
    let columns: SchemaRef = Schema::new(rows.schema().fields().clone()).into();
    schema_message(&columns).ok()
}
