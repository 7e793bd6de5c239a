//! `read_csv`, `read_json`: text as a dataset in memory.

use std::io::Read;
use std::sync::Arc;

use arrow_schema::{Fields, SchemaRef};
use arrowwood::{
    CsvOptions, Error, JsonOptions, TextBatches, TextFile, TextTarget, decompress_reader, read_csv_in_order,
    read_json_in_order,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::bytes::{Source, open_pipe};
use super::path::extract_path;
use crate::arguments::describe::describe_object;
use crate::dataset::dataset::Dataset;
use crate::exchange::capsule::extract_schema;
use crate::interpreter::errors::{PendingException, Result, invalid_argument, type_error};
use crate::interpreter::progress::{ProgressFn, with_progress};
use crate::interpreter::py_call::CallPy;

/// Read CSV text, whose first line names the columns, into memory. It may be compressed with gzip or zstd.
///
/// An unquoted empty field is null; a quoted one is an empty text, or null in columns of other types. Types that are
/// not given are inferred from all values: decimal fractions become ``float64``, which keeps 15 to 17 digits; for
/// money give ``schema_overrides={"m": "decimal(20, 2)"}``. Dates are recognised as ``2000-01-31``, ``Jan 31 2000`` and
/// ``31 January 2000``, times as ``2000-01-31T12:00:00``. A file is parsed by several threads, and read again if a
/// later value does not fit the types of its beginning.
///
/// Args:
///     source: a path, or an object with ``read()``.
///     schema: the columns to read, found by name, and their types; by default all, with inferred types.
///     schema_overrides: the types of single columns, as ``{"zip": "utf8"}``; the others stay as they are.
///     dictionary: the names of text columns to dictionary-encode, or the name of one.
///     delimiter: the ASCII character between fields.
///     quote: the ASCII character around fields that contain delimiters or line breaks; None for no quoting.
///     header: whether the first line has the names. Otherwise columns are those of the schema in their order, or
///         named ``column_1`` and so on.
///     null_values: the text or texts of unquoted fields that mean null. By default ``NA``, ``N/A``, ``null`` and
///         ``NULL``, in columns other than text.
///     decimal: ``"."``, or ``","`` for numbers such as 1,5.
///
/// Raises:
///     ColumnNotFound: the text has no column that the schema or ``schema_overrides`` names.
///     InvalidData: a line has too few or too many fields, or a value is not of its type; the message says where.
#[pyfunction]
#[pyo3(
    signature = (
        source, *, schema = None, schema_overrides = None, dictionary = None, delimiter = ",", quote = Some("\""),
        header = true, null_values = None, decimal = ".", **unknown
    ),
    text_signature = "(source, *, schema=None, schema_overrides=None, dictionary=None, delimiter=',', quote='\"', header=True, null_values=None, decimal='.')"
)]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
pub fn read_csv(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    schema: Option<&Bound<'_, PyAny>>,
    schema_overrides: Option<&Bound<'_, PyAny>>,
    dictionary: Option<StringOrList>,
    delimiter: &str,
    quote: Option<&str>,
    header: bool,
    null_values: Option<StringOrList>,
    decimal: &str,
    unknown: Option<&Bound<'_, PyDict>>,
) -> Result<Dataset> {
    refuse_unknown(py, "read_csv", unknown)?;
    let mut options = CsvOptions::default();
    options.schema = schema.map(extract_schema).transpose()?.map(Arc::new);
    options.schema_overrides = overrides(schema_overrides)?;
    options.dictionary = dictionary.map_or_else(Vec::new, StringOrList::list);
    options.delimiter = character("delimiter", delimiter)?;
    options.quote = quote.map(|quote| character("quote", quote)).transpose()?;
    options.header = header;
    options.null_values = null_values.map(StringOrList::list);
    options.decimal_comma = match decimal {
        "." => false,
        "," => true,
        other => return Err(invalid_argument(format!("decimal must be '.' or ',', got '{other}'"))),
    };
    read(py, source, |open, target| read_csv_in_order(open, &options, target))
}

/// Texts, or a single one.
#[derive(FromPyObject)]
pub enum StringOrList {
    One(String),
    Several(Vec<String>),
}

impl StringOrList {
    fn list(self) -> Vec<String> {
        match self {
            StringOrList::One(text) => vec![text],
            StringOrList::Several(texts) => texts,
        }
    }
}

/// Extracts the fields of `schema_overrides`.
fn overrides(object: Option<&Bound<'_, PyAny>>) -> Result<Fields> {
    Ok(object.map(extract_schema).transpose()?.map_or_else(Fields::empty, |schema| schema.fields))
}

/// Raises a `TypeError` for keywords that `function` does not have. For a keyword of another library it says what to
/// write instead.
fn refuse_unknown(py: Python<'_>, function: &str, keywords: Option<&Bound<'_, PyDict>>) -> Result<()> {
    let Some((name, _)) = keywords.and_then(|keywords| keywords.iter().next()) else { return Ok(()) };
    py.import("arrowwood._hints")?.call_method1("raise_for_keyword", (function, name))?;
    Ok(())
}

fn character(what: &str, text: &str) -> Result<u8> {
    match text.as_bytes() {
        &[byte] => Ok(byte),
        _ => Err(invalid_argument(format!("the {what} must be one ASCII character, got '{text}'"))),
    }
}

/// Read JSON, one object on each line or an array of objects, into memory. It may be compressed with gzip or zstd.
///
/// Args:
///     source: a path, or an object with ``read()``.
///     schema: the columns to read and their types, as for :func:`writer`; by default all, with inferred types.
///     schema_overrides: the types of single columns, as ``{"zip": "utf8"}``; the others stay as they are.
///     dictionary: the names of text columns to dictionary-encode, or the name of one.
///
/// Raises:
///     ColumnNotFound: the text has no column that ``schema_overrides`` names.
///     InvalidData: a line is not an object, a value is not of its type, or no type holds all numbers of a column;
///         the message says where.
#[pyfunction]
#[pyo3(
    signature = (source, *, schema = None, schema_overrides = None, dictionary = None, **unknown),
    text_signature = "(source, *, schema=None, schema_overrides=None, dictionary=None)"
)]
pub fn read_json(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    schema: Option<&Bound<'_, PyAny>>,
    schema_overrides: Option<&Bound<'_, PyAny>>,
    dictionary: Option<StringOrList>,
    unknown: Option<&Bound<'_, PyDict>>,
) -> Result<Dataset> {
    refuse_unknown(py, "read_json", unknown)?;
    let mut options = JsonOptions::default();
    options.schema = schema.map(extract_schema).transpose()?.map(Arc::new);
    options.schema_overrides = overrides(schema_overrides)?;
    options.dictionary = dictionary.map_or_else(Vec::new, StringOrList::list);
    read(py, source, |open, target| read_json_in_order(open, &options, target))
}

/// Opens a text from its beginning.
type OpenFn<'a> = &'a dyn Fn() -> Result<Box<dyn Read + Send + 'a>, Error>;

/// Reads a text by `parse`.
fn read(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    parse: impl Fn(OpenFn<'_>, &mut dyn TextTarget) -> Result<SchemaRef, Error> + Send + Sync,
) -> Result<Dataset> {
    if !source.hasattr("read")?
        && let Some(path) = extract_path(source)?
    {
        if let Some(pipe) = open_pipe(py, &path, "O_RDONLY")? {
            let problem = PendingException::default();
            let mut text = Source::File(pipe, problem.clone());
            let mut bytes = Vec::new();
            let read = py.detach(|| text.read_to_end(&mut bytes).map_err(|e| Error::io("reading the text", &e)));
            let rows = read.and_then(|_| py.detach(|| parse_bytes(&bytes, &parse))).map_err(|e| e.at(&path));
            return Ok(Dataset::new(problem.take_or(rows)?));
        }
        let rows = with_progress(py, ("reading", "bytes"), |progress: ProgressFn<'_>| {
            let file = TextFile::new(&path)?;
            let mut on_batch = |passes| progress(file.bytes_read(), passes * file.len());
            let mut target = TextBatches::with_progress(&mut on_batch);
            let schema = parse(&|| Ok(file.open()? as Box<dyn Read + Send>), &mut target).map_err(|e| e.at(&path))?;
            arrowwood::Dataset::from_batches(schema, target.batches).map_err(|e| e.at(&path))
        })?;
        return Ok(Dataset::new(rows));
    }
    let text = whole(source)?;
    Ok(Dataset::new(py.detach(|| parse_bytes(&text, &parse))?))
}

/// Reads a text in memory, which may be compressed, by `parse`.
fn parse_bytes(
    bytes: &[u8],
    parse: impl Fn(OpenFn<'_>, &mut dyn TextTarget) -> Result<SchemaRef, Error>,
) -> Result<arrowwood::Dataset, Error> {
    let mut ignore_progress = |_| ();
    let mut target = TextBatches::with_progress(&mut ignore_progress);
    let schema = parse(&|| decompress_reader(bytes), &mut target)?;
    arrowwood::Dataset::from_batches(schema, target.batches)
}

/// Reads all of a file object, opened for bytes or for text.
fn whole(source: &Bound<'_, PyAny>) -> Result<Vec<u8>> {
    if !source.hasattr("read")? {
        let got = describe_object(source);
        let message =
            format!("expected a path or a file object, got {got}; io.BytesIO(text) makes a file object of bytes");
        return Err(type_error(message));
    }
    let content = source.call_py_method("read", ())?;
    if let Ok(text) = content.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    let bytes =
        content.cast::<PyBytes>().map_err(|_| type_error("read() of the file object gave neither bytes nor text"));
    Ok(bytes?.as_bytes().to_vec())
}
