//! Catalogs, schemas and tables: one of each, and the tables that the caller may read.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;

use super::handle::schema_message;
use super::messages::{GetDbSchemas, GetTables};
use crate::problem::{Problem, Result};
use crate::session::Session;

/// The only catalog, and the schema that contains all tables.
const CATALOG: &str = "arrowwood";
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

pub(super) fn catalogs() -> Result<RecordBatch> {
    batch(vec![text("catalog_name", false)], vec![texts([CATALOG])])
}

pub(super) fn table_types() -> Result<RecordBatch> {
    batch(vec![text("table_type", false)], vec![texts([TABLE])])
}

fn is_catalog(wanted: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| wanted == CATALOG)
}

pub(super) fn db_schemas(asked: &GetDbSchemas) -> Result<RecordBatch> {
    let is_wanted = is_catalog(asked.catalog.as_deref()) && is_like(asked.schema_pattern.as_deref(), SCHEMA);
    let fields = vec![text("catalog_name", true), text("db_schema_name", false)];
    let found = is_wanted.then_some(());
    batch(fields, vec![texts(found.map(|()| CATALOG)), texts(found.map(|()| SCHEMA))])
}

/// The columns of the result for tables.
pub(super) fn tables_schema(asked: &GetTables) -> SchemaRef {
    let mut fields = vec![text("catalog_name", true), text("db_schema_name", true)];
    fields.extend([text("table_name", false), text("table_type", false)]);
    if asked.include_schema {
        fields.push(Field::new("table_schema", DataType::Binary, false));
    }
    Arc::new(Schema::new(fields))
}

/// The tables that the caller may read. Blocks.
pub(super) fn tables(session: &Session, asked: &GetTables) -> Result<RecordBatch> {
    let is_type = asked.table_types.is_empty() || asked.table_types.iter().any(|wanted| wanted == TABLE);
    let is_here = is_catalog(asked.catalog.as_deref()) && is_like(asked.schema_pattern.as_deref(), SCHEMA);
    let mut names = Vec::new();
    let mut schemas = Vec::new();
    for entry in session.shared.catalog.list()? {
        let is_wanted = is_type && is_here && is_like(asked.table_pattern.as_deref(), &entry.name);
        if !is_wanted || !session.caller.rights().may_read(&entry.name) {
            continue;
        }
        if asked.include_schema {
            // A table that can't be opened has no known columns; a query for it gets the error.
            let Some(schema) = schema_of(session, &entry.name) else { continue };
            schemas.push(schema);
        }
        names.push(entry.name);
    }
    let all = |value: &'static str| texts(names.iter().map(|_| value));
    let mut columns = vec![all(CATALOG), all(SCHEMA), texts(names.iter().map(String::as_str)), all(TABLE)];
    if asked.include_schema {
        columns.push(Arc::new(BinaryArray::from_iter_values(&schemas)));
    }
    RecordBatch::try_new(tables_schema(asked), columns).map_err(|e| Problem::internal(e.to_string()))
}

fn schema_of(session: &Session, name: &str) -> Option<Bytes> {
    let table = session.shared.catalog.get(name).ok()?;
    let rows = table.rows().ok()?;
    // Engines know only the columns of a table.
    let columns: SchemaRef = Arc::new(Schema::new(rows.schema().fields().clone()));
    schema_message(&columns).ok()
}

/// Whether `text` matches a pattern, in which `%` matches any text, `_` any character, and `\` escapes the next
/// character.
fn is_like(pattern: Option<&str>, text: &str) -> bool {
    let Some(pattern) = pattern else { return true };
    let mut wanted = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        wanted.push(match character {
            '%' => LikeToken::Any,
            '_' => LikeToken::One,
            '\\' => LikeToken::This(characters.next().unwrap_or('\\')),
            other => LikeToken::This(other),
        });
    }
    // For each number of characters of the text: whether the pattern so far matches them.
    let text: Vec<char> = text.chars().collect();
    let mut is_so = vec![false; text.len() + 1];
    is_so[0] = true;
    for wanted in wanted {
        if wanted == LikeToken::Any {
            let first = is_so.iter().position(|is_so| *is_so).unwrap_or(is_so.len());
            is_so.iter_mut().skip(first).for_each(|is_so| *is_so = true);
            continue;
        }
        for end in (1..=text.len()).rev() {
            is_so[end] = is_so[end - 1] && (wanted == LikeToken::One || wanted == LikeToken::This(text[end - 1]));
        }
        is_so[0] = false;
    }
    is_so[text.len()]
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
