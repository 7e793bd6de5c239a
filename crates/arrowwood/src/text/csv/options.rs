//! Defines the options for reading CSV.

use std::borrow::Cow;

use arrow_schema::{DataType, Fields, SchemaRef};

use crate::error::{Error, Result};
use crate::text::columns::{DEFAULT_BATCH_ROWS, check_batch_rows};
use crate::text::scalar::is_null;

/// Options for reading CSV.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CsvOptions {
    /// The columns to read, found by name in the header, and their types; `None` reads all, with types inferred from
    /// all values.
    pub schema: Option<SchemaRef>,
    /// The types of single columns, found by name.
    ///
    /// Other columns have the types of the schema, or inferred ones.
    pub schema_overrides: Fields,
    /// The names of text columns to dictionary-encode, with the smallest sufficient keys of `Int8`, `Int16` and
    /// `Int32`, and one dictionary for all batches.
    pub dictionary: Vec<String>,
    /// The field delimiter.
    pub delimiter: u8,
    /// The quote around fields with delimiters, line breaks or quotes; `None` if there is none.
    pub quote: Option<u8>,
    /// True if the first line has the names of the columns.
    ///
    /// If not, columns have the names of the schema, in that order, if it has as many columns, and otherwise `column_1`
    /// and so on.
    pub header: bool,
    /// Unquoted fields that are null in any column; `None` for an empty field and, in columns other than text, `NA`,
    /// `N/A`, `null` and `NULL`.
    pub null_values: Option<Vec<String>>,
    /// True if decimal numbers have a comma instead of a point.
    pub decimal_comma: bool,
    /// The maximum rows of a record batch.
    ///
    /// Batches may have fewer, as a batch has rows of one chunk of text.
    pub batch_rows: usize,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            schema: None,
            schema_overrides: Fields::empty(),
            dictionary: Vec::new(),
            delimiter: b',',
            quote: Some(b'"'),
            header: true,
            null_values: None,
            decimal_comma: false,
            batch_rows: DEFAULT_BATCH_ROWS,
        }
    }
}

impl CsvOptions {
    /// Returns the names of `width` columns of a text without a header.
    pub(super) fn names(&self, width: usize) -> Vec<String> {
        let numbered: Vec<String> = (1..=width).map(|number| format!("column_{number}")).collect();
        let fields = self.schema.iter().flat_map(|schema| schema.fields());
        let schema_names: Vec<String> = fields.map(|field| field.name().clone()).collect();
        // A schema that selects columns by number may have them in any order.
        let is_by_number = schema_names.iter().all(|name| numbered.contains(name));
        if schema_names.len() == width && !is_by_number { schema_names } else { numbered }
    }

    /// Checks that the options have valid values that fit together.
    pub(super) fn check(&self) -> Result<()> {
        check_batch_rows(self.batch_rows).map_err(reading)?;
        if !self.delimiter.is_ascii() || b"\"\r\n".contains(&self.delimiter) {
            let got = self.delimiter.escape_ascii();
            return Err(Error::invalid_argument(format!(
                "reading CSV: expected a delimiter in ASCII other than a quote or line break, got {got}; use a comma, \
                 semicolon or tab"
            )));
        }
        if let Some(quote) = self.quote
            && (!quote.is_ascii() || quote == self.delimiter || b"\r\n".contains(&quote))
        {
            let got = quote.escape_ascii();
            return Err(Error::invalid_argument(format!(
                "reading CSV: expected a quote in ASCII other than the delimiter or a line break, got {got}"
            )));
        }
        if self.decimal_comma && self.delimiter == b',' {
            return Err(Error::invalid_argument(
                "reading CSV: expected another delimiter where numbers have a comma, got a comma; give a semicolon, \
                 for example",
            ));
        }
        Ok(())
    }

    /// Returns true if `value` is null in a column of `data_type`. Calls `is_quoted` only if needed.
    pub(super) fn is_null(&self, value: &str, data_type: &DataType, is_quoted: impl FnOnce() -> bool) -> bool {
        if value.is_empty() {
            // An empty field is null, unless it is quoted and can be a value.
            return !can_be_empty(data_type) || !is_quoted();
        }
        let is_word = match &self.null_values {
            Some(nulls) => nulls.iter().any(|null| null == value),
            None => !is_text(data_type) && is_null(value),
        };
        is_word && !is_quoted()
    }

    /// Returns a number as the parsers expect it, with a decimal point, and other values unchanged.
    pub(super) fn with_point<'a>(&self, value: &'a str) -> Cow<'a, str> {
        if !self.decimal_comma || !value.contains([',', '.']) {
            return Cow::Borrowed(value);
        }
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.,eE".contains(&byte));
        // A decimal point is not allowed here. It is doubled, as no parser accepts a number with two points.
        if is_number { Cow::Owned(value.replace('.', "..").replace(',', ".")) } else { Cow::Borrowed(value) }
    }
}

/// Returns true if values of the type are text.
pub(super) fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_text(values),
        RunEndEncoded(_, values) => is_text(values.data_type()),
        other => matches!(other, Utf8 | LargeUtf8 | Utf8View),
    }
}

/// Returns true if values of the type may have no bytes.
fn can_be_empty(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => can_be_empty(values),
        RunEndEncoded(_, values) => can_be_empty(values.data_type()),
        other => is_text(other) || matches!(other, Binary | LargeBinary | BinaryView | FixedSizeBinary(0)),
    }
}

/// Adds to an error that CSV was being read.
pub(super) fn reading(e: Error) -> Error {
    e.context("reading CSV")
}
