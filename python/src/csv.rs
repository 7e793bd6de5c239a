//! `read_csv`, `read_json`: text as a dataset in memory.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrowwood::{CsvOptions, Error, JsonOptions, read_csv_from, read_json_from};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::dataset::Dataset;
use crate::errors::{Problem, Result, argument, wrong_type};
use crate::exchange::schema_of;
use crate::open::path_of;
use crate::progress::{Progress, Watched, watched};
use crate::sink::{Source, open_pipe};

/// Read CSV text, whose first line names the columns, into memory.
///
/// Args:
///     source: a path, or an object with ``read()``.
///     schema: the columns to read, found by name, and their types; by default all, with types that fit all values.
///     dictionary: the names of text columns to dictionary-encode.
///     delimiter: the ASCII character between fields.
///
/// Raises:
///     InvalidData: a line has too few or too many fields, or a value is not of its type; the message says where.
#[pyfunction]
#[pyo3(signature = (source, *, schema = None, dictionary = None, delimiter = ","))]
pub fn read_csv(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    schema: Option<&Bound<'_, PyAny>>,
    dictionary: Option<Vec<String>>,
    delimiter: &str,
) -> Result<Dataset> {
    let &[delimiter] = delimiter.as_bytes() else {
        return Err(argument(format!("the delimiter must be one ASCII character, got '{delimiter}'")));
    };
    let mut options = CsvOptions::default();
    options.schema = schema.map(schema_of).transpose()?.map(Arc::new);
    options.dictionary = dictionary.unwrap_or_default();
    options.delimiter = delimiter;
    if !source.hasattr("read")?
        && let Some(path) = path_of(source)?
    {
        if let Some(pipe) = open_pipe(py, &path, "O_RDONLY")? {
            let problem = Problem::default();
            let text = Source::File(pipe, problem.clone());
            let found = py.detach(|| read(text, &options)).map_err(|e| e.at(&path));
            return Ok(Dataset::new(problem.or(found)?));
        }
        let read = |progress: Progress| read_file(&path, &options, progress).map_err(|e| e.at(&path));
        return Ok(Dataset::new(watched(py, ("reading", "bytes"), read)?));
    }
    let text = whole(source)?;
    Ok(Dataset::new(py.detach(|| read(&text[..], &options))?))
}

/// Read JSON, one object on each line or an array of objects, into memory.
///
/// Args:
///     source: a path, or an object with ``read()``.
///     schema: the columns to read and their types, as for :func:`writer`; by default all, with types that fit all values.
///     dictionary: the names of text columns to dictionary-encode.
///
/// Raises:
///     InvalidData: a line is no object, or a value is not of its type; the message says where.
#[pyfunction]
#[pyo3(signature = (source, *, schema = None, dictionary = None))]
pub fn read_json(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    schema: Option<&Bound<'_, PyAny>>,
    dictionary: Option<Vec<String>>,
) -> Result<Dataset> {
    let mut options = JsonOptions::default();
    options.schema = schema.map(schema_of).transpose()?.map(Arc::new);
    options.dictionary = dictionary.unwrap_or_default();
    let read = |input: Box<dyn std::io::Read + Send>| {
        let (schema, batches) = read_json_from(input, &options)?;
        arrowwood::Dataset::from_batches(schema, batches)
    };
    if !source.hasattr("read")?
        && let Some(path) = path_of(source)?
    {
        if let Some(pipe) = open_pipe(py, &path, "O_RDONLY")? {
            let problem = Problem::default();
            let text = Source::File(pipe, problem.clone());
            let found = py.detach(|| read(Box::new(text))).map_err(|e| e.at(&path));
            return Ok(Dataset::new(problem.or(found)?));
        }
        let opened = || File::open(&path).map_err(|e| Error::io("opening the JSON file", &e));
        let found = py.detach(|| opened().and_then(|file| read(Box::new(file)))).map_err(|e| e.at(&path));
        return Ok(Dataset::new(found?));
    }
    let text = std::io::Cursor::new(whole(source)?);
    Ok(Dataset::new(py.detach(|| read(Box::new(text)))?))
}

fn read_file(path: &Path, options: &CsvOptions, progress: Progress) -> Result<arrowwood::Dataset, Error> {
    let opening = |e| Error::io("opening the CSV file", &e);
    let reader = File::open(path).map_err(opening)?;
    let total = reader.metadata().map_err(opening)?.len();
    read(Watched { reader, done: 0, total, progress }, options)
}

fn read(input: impl std::io::Read, options: &CsvOptions) -> Result<arrowwood::Dataset, Error> {
    let (schema, batches) = read_csv_from(input, options)?;
    arrowwood::Dataset::from_batches(schema, batches)
}

/// All that a file object, opened for bytes or for text, has.
fn whole(source: &Bound<'_, PyAny>) -> Result<Vec<u8>> {
    let found = source.call_method0("read")?;
    if let Ok(text) = found.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    let bytes =
        found.cast::<PyBytes>().map_err(|_| wrong_type("read() of the file object gave neither bytes nor text"));
    Ok(bytes?.as_bytes().to_vec())
}
