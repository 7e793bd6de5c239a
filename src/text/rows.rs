//! Rows as lines of text: CSV and JSON lines.

use std::collections::HashSet;

use arrow_schema::Schema;

use crate::array::Value;
use crate::dataset::Row;
use crate::error::{Error, Result};
use crate::map::guard;

/// The line of CSV with the names of the columns.
#[doc(hidden)]
pub fn csv_header(schema: &Schema) -> String {
    schema.fields().iter().map(|field| csv_field(field.name())).collect::<Vec<_>>().join(",")
}

/// Appends `row` to `line`, as CSV. A null is an empty field and an empty string `""`; a null in a single column is an empty
/// line, and is read as such.
///
/// # Errors
/// The error of the first damaged value.
#[doc(hidden)]
pub fn push_csv_row(row: &Row<'_>, line: &mut String) -> Result<()> {
    guard(|| {
        for (number, (_, value)) in row.iter().enumerate() {
            line.push_str(if number > 0 { "," } else { "" });
            let value = value?;
            if !matches!(value, Value::Null) {
                line.push_str(&csv_field(&value.to_csv_cell()?));
            }
        }
        Ok::<_, Error>(())
    })
}

/// A field of CSV, quoted where it must be.
fn csv_field(cell: &str) -> String {
    if cell.is_empty() || cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_string()
}

/// Rows of one schema as JSON lines.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct JsonLines {
    /// The names of the columns, quoted.
    names: Vec<String>,
}

impl JsonLines {
    /// Lines for rows of `schema`.
    ///
    /// # Errors
    /// `InvalidArgument` if two columns have one name: of two members of that name, readers keep one.
    pub fn new(schema: &Schema) -> Result<JsonLines> {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let mut seen = HashSet::new();
        if let Some(twice) = names.clone().find(|name| !seen.insert(*name)) {
            return Err(Error::invalid_argument(format!(
                "writing JSON: two columns are called '{}', which an object can't tell apart; leave one out, or write CSV",
                twice.escape_debug()
            )));
        }
        Ok(JsonLines { names: names.map(|name| serde_json::Value::from(name).to_string()).collect() })
    }

    /// Appends `row` to `line`, as an object.
    ///
    /// # Errors
    /// The error of the first damaged value.
    pub fn push(&self, row: &Row<'_>, line: &mut String) -> Result<()> {
        guard(|| {
            line.push('{');
            for (number, (name, (_, value))) in self.names.iter().zip(row.iter()).enumerate() {
                line.push_str(if number > 0 { "," } else { "" });
                line.push_str(name);
                line.push(':');
                line.push_str(&value?.to_json()?.to_string());
            }
            line.push('}');
            Ok::<_, Error>(())
        })
    }
}
