//! Defines the options for reading JSON.

use arrow_schema::{Fields, SchemaRef};

use crate::text::columns::DEFAULT_BATCH_ROWS;

/// Options for reading JSON lines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JsonOptions {
    /// The columns and their types; `None` reads the columns of all lines, with types inferred from all values.
    pub schema: Option<SchemaRef>,
    /// The types of single columns, found by name.
    ///
    /// Other columns have the types of the schema, or inferred ones.
    pub schema_overrides: Fields,
    /// True if a member that the schema does not have is an error. By default it is left out.
    pub refuse_unknown: bool,
    /// The names of text columns to dictionary-encode, with the smallest sufficient keys of `Int8`, `Int16` and
    /// `Int32`, and one dictionary for all batches.
    pub dictionary: Vec<String>,
    /// Rows per record batch; the last has the remainder.
    pub batch_rows: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        JsonOptions {
            schema: None,
            schema_overrides: Fields::empty(),
            refuse_unknown: false,
            dictionary: Vec::new(),
            batch_rows: DEFAULT_BATCH_ROWS,
        }
    }
}
