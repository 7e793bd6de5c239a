//! Reads rows to append: Arrow data, CSV or JSON lines, from files or pipes.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::mem;
use std::path::Path;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::mapping::is_directory;
use arrowwood::{
    Bytes, CsvOptions, Dataset, Error, JsonOptions, OpenOptions, StreamReader, decompress_reader, read_csv_from,
    read_json_from, read_stream, stream_csv, stream_json,
};
use clap::ValueEnum;

use super::detect_format::{DetectedFormat, detect_format};
use super::open::open_one;
use super::text_args::{TextArgs, extension};
use crate::shell::{BoundedReader, CliError, CliResult, is_dash, reading_error, stdin_or_path};

fn is_compressed(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gz") || extension.eq_ignore_ascii_case("zst"))
}

/// The format of rows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// An Arrow IPC file or stream.
    Ipc,
    /// CSV with column names in its first line.
    Csv,
    /// JSON with one object per line.
    Json,
}

/// A reader of an input, whose format may be unknown.
pub(crate) type Source = Box<dyn Read + Send>;

/// Batches as they arrive.
pub(crate) type Batches = Box<dyn Iterator<Item = arrowwood::Result<RecordBatch>> + Send>;

/// An input, read as far as needed to detect its format.
pub(crate) enum Input {
    Dataset(Dataset),
    Stream(StreamReader<Source>),
    Csv(Source, CsvOptions),
    Json(Source, JsonOptions),
}

/// Rows of a known schema.
pub(crate) enum InputRows {
    Dataset(Dataset),
    Batches(Batches),
}

impl Input {
    /// Opens a path, or standard input. Without a format, it is detected from the name, or from the first bytes.
    /// Compressed text is decompressed.
    pub(crate) fn open(path: &Path, format: Option<Format>, form: &TextArgs) -> CliResult<Input> {
        let named_format = format.or_else(|| format_from_name(path));
        let is_file = is_file(path)?;
        if is_directory(path)? || is_file && named_format == Some(Format::Ipc) {
            return Ok(Input::Dataset(open_one(path)?));
        }
        let name = stdin_or_path(path);
        let mut source = open_source(path).map_err(|e| reading_error(&e, path))?;
        // The bytes read to detect the format.
        let mut head = Vec::new();
        let mut detected = match named_format {
            Some(Format::Csv) => DetectedFormat::Csv,
            Some(Format::Json) => DetectedFormat::Json,
            Some(Format::Ipc) | None => detect_format(&mut source, &mut head).map_err(|e| reading_error(&e, path))?,
        };
        if matches!(named_format, Some(Format::Csv | Format::Json)) {
            source = decompress_reader(source).map_err(|e| e.at(name))?;
        } else if detected == DetectedFormat::Compressed {
            let compressed = Box::new(Cursor::new(mem::take(&mut head)).chain(source));
            source = decompress_reader(compressed).map_err(|e| e.at(name))?;
            detected = detect_format(&mut source, &mut head).map_err(|e| reading_error(&e, path))?;
        }
        if named_format == Some(Format::Ipc) && detected != DetectedFormat::File {
            detected = DetectedFormat::Stream;
        }
        let mut source: Source = Box::new(Cursor::new(head).chain(source));
        let input = match detected {
            DetectedFormat::Stream if is_file => Input::Dataset(open_one(path)?),
            DetectedFormat::Stream | DetectedFormat::Compressed => {
                Input::Stream(read_stream(source).map_err(|e| e.at(name))?)
            }
            DetectedFormat::File => Input::Dataset(read_file(&mut source).map_err(|e| e.at(name))?),
            DetectedFormat::Csv => Input::Csv(source, form.csv(path)),
            DetectedFormat::Json => {
                let mut options = form.json();
                options.refuse_unknown = true;
                Input::Json(source, options)
            }
        };
        Ok(input)
    }

    /// Returns the input with its schema. Text is read to its end, as types are inferred from all values.
    pub(crate) fn with_schema(self) -> CliResult<(SchemaRef, Input)> {
        let (schema, batches) = match self {
            Input::Csv(source, options) => read_csv_from(BoundedReader::new(source), &options)?,
            Input::Json(source, options) => read_json_from(BoundedReader::new(source), &options)?,
            Input::Dataset(dataset) => return Ok((dataset.schema().clone(), Input::Dataset(dataset))),
            Input::Stream(stream) => return Ok((stream.schema().clone(), Input::Stream(stream))),
        };
        if schema.fields().is_empty() {
            return Err(CliError::new("the input is empty, so no schema can be inferred; give one with --schema"));
        }
        Ok((schema.clone(), Input::Dataset(Dataset::from_batches(schema, batches)?)))
    }

    /// Returns the rows, parsed from text by `schema`: at most `batch_rows` in a batch, none later than `max_delay`
    /// after its arrival.
    pub(crate) fn rows(self, schema: &SchemaRef, batch_rows: usize, max_delay: Duration) -> CliResult<InputRows> {
        Ok(match self {
            Input::Dataset(dataset) => InputRows::Dataset(dataset),
            Input::Stream(stream) => InputRows::Batches(Box::new(stream)),
            Input::Csv(source, mut options) => {
                options.schema = Some(schema.clone());
                options.batch_rows = batch_rows;
                InputRows::Batches(Box::new(stream_csv(source, &options, max_delay)?))
            }
            Input::Json(source, mut options) => {
                options.schema = Some(schema.clone());
                options.batch_rows = batch_rows;
                InputRows::Batches(Box::new(stream_json(source, &options, max_delay)?))
            }
        })
    }
}

/// Returns true if `path` is a regular file, which has an end.
pub(crate) fn is_file(path: &Path) -> CliResult<bool> {
    Ok(!is_dash(path) && arrowwood::mapping::is_file(path)?)
}

fn format_from_name(path: &Path) -> Option<Format> {
    match extension(path).as_str() {
        // Compressed text can't be mapped as a file.
        "arrow" | "arrows" | "feather" | "ipc" if !is_compressed(path) => Some(Format::Ipc),
        "csv" | "tsv" => Some(Format::Csv),
        "json" | "jsonl" | "ndjson" => Some(Format::Json),
        _ => None,
    }
}

fn open_source(path: &Path) -> io::Result<Source> {
    if is_dash(path) { Ok(Box::new(io::stdin())) } else { Ok(Box::new(File::open(path)?)) }
}

/// Reads an Arrow file into memory.
fn read_file(source: &mut Source) -> arrowwood::Result<Dataset> {
    let mut bytes = Vec::new();
    BoundedReader::new(source).read_to_end(&mut bytes).map_err(|e| Error::io("reading", &e))?;
    OpenOptions::new().bytes(Bytes::from(bytes))
}
