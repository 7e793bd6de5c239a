//! Arguments about CSV, JSON and the types of columns.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use arrowwood::{CsvOptions, JsonOptions, parse_schema};
use clap::Args;

/// The syntax of CSV and JSON, and the types of their columns.
#[derive(Args)]
pub(crate) struct TextArgs {
    /// Name and type of each column, as for `create`. By default the table's columns; for a new table they are inferred
    /// from all values, for which text is read to its end.
    #[arg(long, value_name = "TEXT", value_parser = parse_schema_arg)]
    pub schema: Option<SchemaRef>,
    /// Delimiter of CSV fields: a character, or tab. By default a comma, or a tab for files named .tsv.
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// The quote of CSV fields: a character, or none.
    #[arg(long, value_name = "CHARACTER", default_value = "\"", value_parser = parse_quote)]
    quote: Quote,
    /// The CSV has no header: columns are those of the schema in their order, or named column_1 and so on.
    #[arg(long)]
    no_header: bool,
    /// A CSV field that means null; may be repeated. By default empty fields, and in columns of other types than text
    /// also NA, N/A, null and NULL.
    #[arg(long, value_name = "TEXT")]
    null: Vec<String>,
    /// The CSV has decimal commas, as in 1,5.
    #[arg(long)]
    decimal_comma: bool,
}

impl TextArgs {
    /// Returns the options for the CSV at `path`.
    pub(crate) fn csv(&self, path: &Path) -> CsvOptions {
        let mut options = CsvOptions::default();
        options.schema = self.schema.clone();
        options.delimiter = self.delimiter.unwrap_or(if extension(path) == "tsv" { b'\t' } else { b',' });
        options.quote = self.quote.0;
        options.header = !self.no_header;
        options.null_values = Some(self.null.clone()).filter(|nulls| !nulls.is_empty());
        options.decimal_comma = self.decimal_comma;
        options
    }

    /// Returns the options for JSON.
    pub(crate) fn json(&self) -> JsonOptions {
        let mut options = JsonOptions::default();
        options.schema = self.schema.clone();
        options
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("expected one ASCII character, or tab".into()),
    }
}

/// The quote of fields, if there is one.
#[derive(Clone, Copy)]
struct Quote(Option<u8>);

fn parse_quote(text: &str) -> Result<Quote, String> {
    match text.as_bytes() {
        b"none" => Ok(Quote(None)),
        [byte] if byte.is_ascii() => Ok(Quote(Some(*byte))),
        _ => Err("expected one ASCII character, or none".into()),
    }
}

/// Returns the extension of a file's name in lower case, before an extension for compression. It is empty if there is
/// none.
pub(crate) fn extension(path: &Path) -> String {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return String::new() };
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    name.rsplit_once('.').map_or_else(String::new, |(_, extension)| extension.to_string())
}

/// Parses a schema on the command line.
pub(crate) fn parse_schema_arg(text: &str) -> Result<SchemaRef, String> {
    parse_schema(text).map(Arc::new).map_err(|e| e.message().to_string())
}
