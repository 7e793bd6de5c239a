//! Reads rows to append: Arrow data, CSV or JSON lines, from files or pipes.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::mem;
use std::path::Path;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::{
    Bytes, CsvOptions, Dataset, Error, JsonOptions, OpenOptions, StreamReader, decompress_reader, is_directory,
    read_csv_from, read_json_from, read_stream, stream_csv, stream_json,
};
use clap::{Args, ValueEnum};

use crate::create::parse_schema_arg;
use crate::shell::{BoundedReader, CliError, CliResult, is_dash, open_one, reading_error, stdin_or_path};

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
    Ok(!is_dash(path) && arrowwood::is_file(path)?)
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

/// The format suggested by the first bytes of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetectedFormat {
    File,
    Stream,
    Csv,
    Json,
    /// Compressed by gzip or zstd.
    Compressed,
}

/// The number of bytes that are read at once to detect a format.
const HEAD_BLOCK: usize = 4096;
/// The bytes with which some programs begin a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads into `head` until the format is clear.
fn detect_format(source: &mut Source, head: &mut Vec<u8>) -> io::Result<DetectedFormat> {
    let mut block = [0; HEAD_BLOCK];
    loop {
        let len = match source.read(&mut block) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            len => len?,
        };
        head.extend_from_slice(&block[..len]);
        if let Some(format) = classify_head(head, len == 0) {
            return Ok(format);
        }
    }
}

/// Returns the format of an input that begins with `head`, or `None` if more bytes are needed, which can't be if `head`
/// is the whole input.
fn classify_head(head: &[u8], is_all: bool) -> Option<DetectedFormat> {
    const ARROW: &[u8] = b"ARROW1";
    const GZIP: &[u8] = b"\x1f\x8b";
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
    /// The first byte of a message of a stream, which text never has.
    const CONTINUATION: u8 = 0xff;
    /// More white space than a text begins with.
    const MAX_SPACE: usize = 1 << 16;
    /// Without a line break, CSV has at least so many bytes before it is told from the start of anything else.
    const MIN_CSV: usize = 4;
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head).trim_ascii_start();
    match text.first() {
        _ if head.starts_with(ARROW) => Some(DetectedFormat::File),
        _ if [GZIP, ZSTD].iter().any(|magic| head.starts_with(magic)) => Some(DetectedFormat::Compressed),
        _ if !is_all && [ARROW, GZIP, ZSTD].iter().any(|magic| magic.starts_with(head)) => None,
        // Message lengths contain zeros, or are marked by bytes that text never has.
        _ if head.first() == Some(&CONTINUATION) || head.contains(&0) => Some(DetectedFormat::Stream),
        // An empty input has no rows, and text does not begin with pages of spaces.
        None if is_all || head.len() > MAX_SPACE => Some(DetectedFormat::Json),
        None => None,
        Some(b'{' | b'[') => Some(DetectedFormat::Json),
        Some(_) if is_all || head.len() >= MIN_CSV || head.contains(&b'\n') => Some(DetectedFormat::Csv),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classify_head_detects_formats() {
        for (head, expected) in [
            (&b"ARROW1\0\0"[..], DetectedFormat::File),
            (&b"\xff\xff\xff\xff\x10\x01"[..], DetectedFormat::Stream),
            (&b"\x50\x01\0\0"[..], DetectedFormat::Stream),
            (&b"\x1f\x8b\x08\x00"[..], DetectedFormat::Compressed),
            (&b"\x28\xb5\x2f\xfd\0"[..], DetectedFormat::Compressed),
            (&b"  \n{\"a\": 1}"[..], DetectedFormat::Json),
            (&b"\xef\xbb\xbf{"[..], DetectedFormat::Json),
            (&b"a\n"[..], DetectedFormat::Csv),
            (&b"ARROW,b\n"[..], DetectedFormat::Csv),
            (&b"ts,price\n"[..], DetectedFormat::Csv),
        ] {
            assert_eq!(classify_head(head, false), Some(expected), "{head:?}");
        }
        for (head, expected) in
            [(&b"ARRO"[..], DetectedFormat::Csv), (&b"a"[..], DetectedFormat::Csv), (&b"\n"[..], DetectedFormat::Json)]
        {
            assert_eq!(classify_head(head, false), None, "{head:?}");
            assert_eq!(classify_head(head, true), Some(expected), "{head:?}");
        }
    }
}
