//! Lists catalogs, schemas and tables: one catalog with one schema, which contains the tables that the caller may read.

use std::iter;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;

use super::handle::schema_message;
use super::messages::{GetDbSchemas, GetTables};
use crate::http::{Problem, Result};
use crate::session::Session;

/// The only catalog.
const CATALOG: &str = "arrowwood";
/// The only schema, which contains all tables.
const SCHEMA: &str = "public";
/// The type of all tables.
const TABLE: &str = "TABLE";

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn batch(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|e| Problem::internal(e.to_string()))
}

/// Lists the only catalog.
pub(super) fn catalogs() -> Result<RecordBatch> {
    batch(vec![text("catalog_name", false)], vec![texts([CATALOG])])
}

/// Lists the only type of tables.
pub(super) fn table_types() -> Result<RecordBatch> {
    batch(vec![text("table_type", false)], vec![texts([TABLE])])
}

/// Returns true if `name` is the only catalog, or not given.
fn is_catalog(name: Option<&str>) -> bool {
    name.is_none_or(|name| name == CATALOG)
}

/// Lists the only schema, if it is requested.
pub(super) fn db_schemas(request: &GetDbSchemas) -> Result<RecordBatch> {
    let is_match = is_catalog(request.catalog.as_deref()) && is_like(request.schema_pattern.as_deref(), SCHEMA);
    let fields = vec![text("catalog_name", true), text("db_schema_name", false)];
    let catalogs = is_match.then_some(CATALOG);
    let schemas = is_match.then_some(SCHEMA);
    batch(fields, vec![texts(catalogs), texts(schemas)])
}

/// Returns the columns of the result for tables.
pub(super) fn tables_schema(request: &GetTables) -> SchemaRef {
    let mut fields = vec![text("catalog_name", true), text("db_schema_name", true)];
    fields.extend([text("table_name", false), text("table_type", false)]);
    if request.include_schema {
        fields.push(Field::new("table_schema", DataType::Binary, false));
    }
    Arc::new(Schema::new(fields))
}

/// Lists the requested tables that the caller may read. Blocks.
pub(super) fn tables(session: &Session, request: &GetTables) -> Result<RecordBatch> {
    let is_type = request.table_types.is_empty() || request.table_types.iter().any(|name| name == TABLE);
    let is_schema = is_catalog(request.catalog.as_deref()) && is_like(request.schema_pattern.as_deref(), SCHEMA);
    let mut names = Vec::new();
    let mut schemas = Vec::new();
    for entry in session.shared.catalog.list()? {
        let is_match = is_type && is_schema && is_like(request.table_pattern.as_deref(), &entry.name);
        if !is_match || !session.caller.rights().may_read(&entry.name) {
            continue;
        }
        if request.include_schema {
            // A table that can't be opened is omitted, as its columns are unknown; a query for it gets the error.
            let Some(schema) = encode_table_schema(session, &entry.name) else { continue };
            schemas.push(schema);
        }
        names.push(entry.name);
    }
    let mut columns = vec![
        texts(iter::repeat_n(CATALOG, names.len())),
        texts(iter::repeat_n(SCHEMA, names.len())),
        texts(names.iter().map(String::as_str)),
        texts(iter::repeat_n(TABLE, names.len())),
    ];
    if request.include_schema {
        columns.push(Arc::new(BinaryArray::from_iter_values(&schemas)));
    }
    RecordBatch::try_new(tables_schema(request), columns).map_err(|e| Problem::internal(e.to_string()))
}

fn encode_table_schema(session: &Session, name: &str) -> Option<Bytes> {
    let table = session.shared.catalog.get(name).ok()?;
    let rows = table.rows().ok()?;
    // Engines know only the columns of a table, without its metadata.
    let columns: SchemaRef = Arc::new(Schema::new(rows.schema().fields().clone()));
    schema_message(&columns).ok()
}

/// Returns true if `text` matches a pattern, in which `%` matches any text, `_` any character, and `\` escapes the next
/// character.
fn is_like(pattern: Option<&str>, text: &str) -> bool {
    let Some(pattern) = pattern else { return true };
    let mut tokens = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '%' => LikeToken::Any,
            '_' => LikeToken::One,
            '\\' => LikeToken::This(characters.next().unwrap_or('\\')),
            other => LikeToken::This(other),
        });
    }
    let text: Vec<char> = text.chars().collect();
    // `matches[len]` is true if the tokens so far match the first `len` characters.
    let mut matches = vec![false; text.len() + 1];
    matches[0] = true;
    for token in tokens {
        if token == LikeToken::Any {
            let first = matches.iter().position(|is_match| *is_match).unwrap_or(matches.len());
            matches[first..].fill(true);
            continue;
        }
        for len in (1..=text.len()).rev() {
            matches[len] = matches[len - 1] && (token == LikeToken::One || token == LikeToken::This(text[len - 1]));
        }
        matches[0] = false;
    }
    matches[text.len()]
}

/// A part of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LikeToken {
    Any,
    One,
    This(char),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_like_patterns() {
        for (pattern, text, expected) in [
            ("ticks", "ticks", true),
            ("tick", "ticks", false),
            ("t%", "ticks", true),
            ("%", "", true),
            ("%s", "ticks", true),
            ("%k_", "ticks", true),
            ("_icks", "ticks", true),
            ("_", "", false),
            ("a\\_b", "a_b", true),
            ("a\\_b", "axb", false),
            ("\\%", "x", false),
            ("%ü%", "grün", true),
            ("%a%a%a%a%a%a%b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("", "x", false),
        ] {
            assert_eq!(is_like(Some(pattern), text), expected, "{pattern} {text}");
        }
        assert!(is_like(None, "anything"));
    }
}
