//! Describes the results for primary and foreign keys, which are empty: tables have none.

use std::sync::Arc;

use arrow_schema::DataType::{Int32, UInt8, Utf8};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// The kind of the requested keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flight) enum KeyKind {
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

/// Returns the columns of the result for keys of a kind.
pub(super) fn schema(kind: KeyKind) -> SchemaRef {
    let columns = match kind {
        KeyKind::Primary => PRIMARY,
        KeyKind::Foreign => FOREIGN,
    };
    let mut fields = Vec::with_capacity(columns.len());
    for (name, data_type, nullable) in columns {
        fields.push(Field::new(*name, data_type.clone(), *nullable));
    }
    Arc::new(Schema::new(fields))
}
