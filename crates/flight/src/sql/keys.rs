//! Describes the answers to requests for primary and foreign keys.

use std::sync::Arc;

use arrow_schema::DataType::{Int32, UInt8, Utf8};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// The kind of the requested keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// The keys of a table.
    Primary,
    /// Exported and imported keys, and those between two tables.
    Foreign,
}

/// The columns of primary keys: name, type, and true if they may be null.
const PRIMARY: &[(&str, DataType, bool)] = &[
    ("catalog_name", Utf8, true),
    ("db_schema_name", Utf8, true),
    ("table_name", Utf8, false),
    ("column_name", Utf8, false),
    ("key_name", Utf8, true),
    ("key_sequence", Int32, false),
];

/// The columns of foreign keys, likewise.
const FOREIGN: &[(&str, DataType, bool)] = &[
    ("pk_catalog_name", Utf8, true),
    ("pk_db_schema_name", Utf8, true),
    ("pk_table_name", Utf8, false),
    ("pk_column_name", Utf8, false),
    ("fk_catalog_name", Utf8, true),
    ("fk_db_schema_name", Utf8, true),
    ("fk_table_name", Utf8, false),
    ("fk_column_name", Utf8, false),
    ("key_sequence", Int32, false),
    ("fk_key_name", Utf8, true),
    ("pk_key_name", Utf8, true),
    ("update_rule", UInt8, false),
    ("delete_rule", UInt8, false),
];

impl KeyKind {
    /// Returns the columns of the answer.
    pub fn schema(self) -> SchemaRef {
        let columns = match self {
            KeyKind::Primary => PRIMARY,
            KeyKind::Foreign => FOREIGN,
        };
        let mut fields = Vec::with_capacity(columns.len());
        for (name, data_type, nullable) in columns {
            fields.push(Field::new(*name, data_type.clone(), *nullable));
        }
        Arc::new(Schema::new(fields))
    }
}
