//! Makes the answers that list catalogs, schemas and tables.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use bytes::Bytes;

use super::messages::{CommandGetDbSchemas, CommandGetTables};

fn schema_of(columns: &[(&str, bool)]) -> SchemaRef {
    let field = |(name, nullable): &(&str, bool)| Field::new(*name, DataType::Utf8, *nullable);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(super) fn catalogs_schema() -> SchemaRef {
    schema_of(&[("catalog_name", false)])
}

/// Returns the answer to `CommandGetCatalogs`: their names.
///
/// # Errors
/// Those of [`RecordBatch::try_new`], which are bugs here.
pub fn catalogs<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new(catalogs_schema(), vec![texts(names)])
}

pub(super) fn table_types_schema() -> SchemaRef {
    schema_of(&[("table_type", false)])
}

/// Returns the answer to `CommandGetTableTypes`: their names.
///
/// # Errors
/// Those of [`RecordBatch::try_new`], which are bugs here.
pub fn table_types<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new(table_types_schema(), vec![texts(names)])
}

pub(super) fn db_schemas_schema() -> SchemaRef {
    schema_of(&[("catalog_name", true), ("db_schema_name", false)])
}

/// Returns the answer to `CommandGetDbSchemas`: the catalog and the name of each.
///
/// # Errors
/// Those of [`RecordBatch::try_new`], which are bugs here.
pub fn db_schemas(schemas: &[(&str, &str)]) -> Result<RecordBatch, ArrowError> {
    let catalogs = texts(schemas.iter().map(|(catalog, _)| *catalog));
    let names = texts(schemas.iter().map(|(_, name)| *name));
    RecordBatch::try_new(db_schemas_schema(), vec![catalogs, names])
}

/// A row of the answer to `CommandGetTables`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow<'a> {
    /// The catalog.
    pub catalog: &'a str,
    /// The schema in the catalog.
    pub db_schema: &'a str,
    /// The name of the table.
    pub name: String,
    /// The type of the table.
    pub table_type: &'a str,
    /// The columns of the table as an IPC message, if they are requested.
    pub table_schema: Option<Bytes>,
}

/// Returns the columns of the answer to `CommandGetTables`.
pub fn tables_schema(include_schema: bool) -> SchemaRef {
    let mut fields = Vec::from([("catalog_name", true), ("db_schema_name", true)]);
    fields.extend([("table_name", false), ("table_type", false)]);
    let names = schema_of(&fields);
    if !include_schema {
        return names;
    }
    let table_schema = Arc::new(Field::new("table_schema", DataType::Binary, false));
    Arc::new(Schema::new(names.fields().iter().cloned().chain([table_schema]).collect::<Vec<_>>()))
}

/// Returns the answer to `CommandGetTables`.
///
/// # Errors
/// `InvalidArgumentError` if schemas are included and one is missing.
pub fn tables(rows: &[TableRow<'_>], include_schema: bool) -> Result<RecordBatch, ArrowError> {
    let mut columns = vec![
        texts(rows.iter().map(|row| row.catalog)),
        texts(rows.iter().map(|row| row.db_schema)),
        texts(rows.iter().map(|row| row.name.as_str())),
        texts(rows.iter().map(|row| row.table_type)),
    ];
    if include_schema {
        let schemas = rows.iter().map(|row| row.table_schema.as_deref());
        columns.push(Arc::new(schemas.collect::<BinaryArray>()));
    }
    RecordBatch::try_new(tables_schema(include_schema), columns)
}

impl CommandGetDbSchemas {
    /// Returns true if a schema of a catalog is requested.
    pub fn matches(&self, catalog: &str, db_schema: &str) -> bool {
        is_in(self.catalog.as_deref(), catalog) && is_like(self.db_schema_filter_pattern.as_deref(), db_schema)
    }
}

impl CommandGetTables {
    /// Returns true if tables of a type, in a schema of a catalog, are requested.
    pub fn matches_kind(&self, catalog: &str, db_schema: &str, table_type: &str) -> bool {
        let is_type = self.table_types.is_empty() || self.table_types.iter().any(|name| name == table_type);
        let is_schema = is_like(self.db_schema_filter_pattern.as_deref(), db_schema);
        is_type && is_schema && is_in(self.catalog.as_deref(), catalog)
    }

    /// Returns true if tables of a name are requested.
    pub fn matches_name(&self, name: &str) -> bool {
        is_like(self.table_name_filter_pattern.as_deref(), name)
    }
}

/// Returns true if `name` is the requested catalog, or none is requested.
fn is_in(requested: Option<&str>, name: &str) -> bool {
    requested.is_none_or(|requested| requested == name)
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

    #[test]
    fn requests_without_names_are_for_all() {
        assert!(CommandGetDbSchemas::default().matches("any", "main"));
        let request = CommandGetDbSchemas { catalog: Some("a".into()), db_schema_filter_pattern: Some("m%".into()) };
        let found =
            [("a", "main"), ("b", "main"), ("a", "other")].map(|(catalog, name)| request.matches(catalog, name));
        assert_eq!(found, [true, false, false]);
        assert!(CommandGetTables::default().matches_kind("any", "main", "VIEW"));
        let request = CommandGetTables { table_types: vec!["TABLE".into()], ..CommandGetTables::default() };
        assert_eq!(["TABLE", "VIEW"].map(|kind| request.matches_kind("a", "main", kind)), [true, false]);
        assert!(request.matches_name("t"));
    }

    #[test]
    fn answers_have_the_columns_that_were_announced() {
        let row =
            |table_schema| TableRow { catalog: "c", db_schema: "s", name: "t".into(), table_type: "T", table_schema };
        for (row, include_schema) in [(row(None), false), (row(Some("x".into())), true)] {
            let batch = tables(&[row], include_schema).unwrap();
            assert_eq!((batch.schema(), batch.num_rows()), (tables_schema(include_schema), 1));
        }
        assert!(tables(&[row(None)], true).is_err());
        assert_eq!(tables(&[], true).unwrap().num_rows(), 0);
        assert_eq!(catalogs(["c"]).unwrap().schema(), catalogs_schema());
        assert_eq!(db_schemas(&[("c", "s")]).unwrap().schema(), db_schemas_schema());
    }
}
