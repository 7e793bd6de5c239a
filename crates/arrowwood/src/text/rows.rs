//! Formats rows as lines of CSV and JSON.

use std::collections::HashSet;

use arrow_schema::Schema;

use crate::array::Value;
use crate::dataset::Row;
use crate::error::{Error, Result};
use crate::map::guard;

/// Returns the line of CSV with the names of the columns.
pub fn csv_header(schema: &Schema) -> String {
    schema.fields().iter().map(|field| csv_field(field.name())).collect::<Vec<_>>().join(",")
}

/// Appends `row` to `line`, as CSV.
///
/// A null is an empty field, and an empty string is `""`. The null of a single column is an empty line, which is read
/// as a null.
///
/// # Errors
/// The error of the first damaged value.
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

/// Returns a field of CSV, quoted where it must be.
fn csv_field(cell: &str) -> String {
    if cell.is_empty() || cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_string()
}

/// A formatter of rows of one schema as JSON lines.
#[derive(Clone, Debug)]
pub struct JsonLines {
    /// The names of the columns, quoted.
    names: Vec<String>,
}

impl JsonLines {
    /// Creates a formatter of rows of `schema`.
    ///
    /// # Errors
    /// `InvalidArgument` if two columns have the same name, as readers keep only one of two members with the same name.
    pub fn new(schema: &Schema) -> Result<JsonLines> {
        let mut unique_names = HashSet::new();
        let mut names = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let name = field.name().as_str();
            if !unique_names.insert(name) {
                return Err(Error::invalid_argument(format!(
                    "writing JSON: two columns are called '{}', which an object can't tell apart; leave one out, or \
                     write CSV",
                    name.escape_debug()
                )));
            }
            names.push(serde_json::Value::from(name).to_string());
        }
        Ok(JsonLines { names })
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
