//! Implements `arrowwood create`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use arrowwood::mapping::{exists, is_directory};
use arrowwood::{Error, LatePolicy, Writer, WriterOptions};
use clap::Args;

use crate::rows::open::open_one;
use crate::rows::text_args::parse_schema_arg;
use crate::shell::{CliError, CliResult};

/// Create a table: a directory of Arrow files, the last of which grows as rows are appended.
#[derive(Args)]
#[command(
    after_help = "Example: arrowwood create ticks --schema 'ts: timestamp[us] not null, symbol: category, price: float'"
)]
pub(crate) struct Create {
    #[command(flatten)]
    columns: SchemaSource,
    #[command(flatten)]
    making: TableArgs,
    /// The directory to create.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
}

/// The source of a new table's columns.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct SchemaSource {
    /// Columns of the table: name and type of each, and `not null` if it has no nulls.
    #[arg(long, value_name = "TEXT", value_parser = parse_schema_arg)]
    schema: Option<SchemaRef>,
    /// Take the columns of this file.
    #[arg(long, value_name = "PATH")]
    like: Option<PathBuf>,
}

/// Options of a new table.
#[derive(Args)]
pub(crate) struct TableArgs {
    /// Text columns to dictionary-encode in a new table.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    dictionary: Vec<String>,
    /// A column whose values never decrease; rows less than the last one are refused.
    #[arg(long, value_name = "COLUMN")]
    sorted_by: Option<String>,
    /// Whether to refuse rows less than the last one in the column of --sorted-by, or to accept them in order of
    /// arrival.
    #[arg(long, value_name = "accept|refuse", value_parser = parse_late)]
    late: Option<LatePolicy>,
    /// Columns to index: conditions on them read only blocks of rows that may match.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    index: Vec<String>,
    /// Maximum rows per file of the table.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    segment_rows: Option<u64>,
}

impl TableArgs {
    pub(crate) fn options(&self) -> WriterOptions {
        WriterOptions {
            dictionary: self.dictionary.clone(),
            sorted_by: self.sorted_by.clone(),
            late: self.late,
            // `Some` of no columns would remove the index of an existing table.
            index: if self.index.is_empty() { None } else { Some(self.index.clone()) },
            segment_rows: self.segment_rows,
            ..WriterOptions::default()
        }
    }
}

/// Parses the treatment of late rows on the command line.
fn parse_late(text: &str) -> Result<LatePolicy, String> {
    match text {
        "accept" => Ok(LatePolicy::Accept),
        "refuse" => Ok(LatePolicy::Refuse),
        _ => Err("expected accept or refuse".into()),
    }
}

impl Create {
    pub(crate) fn run(&self) -> CliResult {
        if is_taken(&self.table)? {
            let message = "the path exists already; append to it if it is a table, or choose another name";
            return Err(CliError::new(message).at(&self.table));
        }
        let schema = match (&self.columns.schema, &self.columns.like) {
            (Some(schema), _) => schema.clone(),
            (None, Some(path)) => table_schema(open_one(path)?.schema()),
            (None, None) => Arc::new(Schema::empty()),
        };
        Ok(Writer::open(&self.table, Some(schema), &self.making.options())?.close()?)
    }
}

/// Returns true if a path exists and is not an empty directory.
fn is_taken(path: &Path) -> CliResult<bool> {
    if !is_directory(path)? {
        return Ok(exists(path)?);
    }
    let first = fs::read_dir(path).and_then(|mut entries| entries.next().transpose());
    Ok(first.map_err(|e| Error::io("listing the directory", &e).at(path))?.is_some())
}

/// Returns the schema of a table for data with `schema`: dictionaries of text have the index type of tables.
pub(crate) fn table_schema(schema: &SchemaRef) -> SchemaRef {
    let mut fields: Vec<FieldRef> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        fields.push(match field.data_type() {
            DataType::Dictionary(_, values)
                if matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) =>
            {
                let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                Arc::new(field.as_ref().clone().with_data_type(dictionary))
            }
            _ => Arc::clone(field),
        });
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
