//! `write`: a dataset, or any other table, as an IPC file or stream.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use arrowwood::{Compression, ErrorKind, FileWriter, Format, WriteOptions};
use pyo3::prelude::*;

use super::bytes::{Sink, is_pipe};
use super::path::{check_not_url, extract_path};
use crate::arguments::numbers::positive;
use crate::dataset::dataset::Dataset;
use crate::exchange::capsule::extract_schema;
use crate::incoming::from_python::convert_to_dataset;
use crate::interpreter::errors::{PendingException, PyArrowwoodError, Result, invalid_argument};
use crate::interpreter::py_call::{CallPy, guard, with_unwind_barrier};

/// Write a table as an Arrow IPC file or stream.
///
/// Args:
///     data: a :class:`Dataset`, a data frame (of pandas: without its index), anything else that exports Arrow data,
///         a dict of columns (lists, NumPy arrays, Arrow arrays, series; any iterable), rows as dicts, or a list or
///         an iterator of any of these that export Arrow data, such as record batches, which are written as they
///         arrive.
///     target: a path, which is replaced in one step when everything is written (the new file has the permissions of
///         the old one; of a link, the file it leads to is replaced), a :class:`Buffer`, or any other object with
///         ``write(bytes)``. A path that ends in ``.parquet`` becomes a Parquet file, by pyarrow.
///     schema: the columns, found by name, and their types; by default those of `data`. Conversions lose nothing,
///         except that floats of less than 64 bits are rounded.
///     format: ``"file"``, with a footer for random access, or ``"stream"``; by default a stream for a path that
///         ends in ``.arrows``, otherwise a file.
///     compression: the codec of the data; without one it can be opened in place.
///     max_rows: the maximum number of rows in a record batch; larger ones are split.
///
/// Raises:
///     InvalidArgument, TypeError: a value does not fit its column; the message names column and row.
///     ColumnNotFound, SchemaMismatch: the schema lacks a column that `data` has, or the reverse.
///     InvalidData: a value is damaged.
///     IoError: an error of the operating system. Exceptions of a file object are passed on.
#[pyfunction]
#[pyo3(signature = (data, target, *, schema = None, format = None, compression = None, max_rows = None))]
pub fn write(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    schema: Option<&Bound<'_, PyAny>>,
    format: Option<&str>,
    compression: Option<&str>,
    max_rows: Option<i64>,
) -> Result<()> {
    let path = if target.hasattr("write")? { None } else { extract_path(target)?.filter(|path| !is_pipe(path)) };
    path.iter().try_for_each(|path| check_not_url("write", path))?;
    let by_name = if path.as_deref().is_some_and(is_stream) { Format::Stream } else { Format::File };
    let options = WriteOptions {
        format: format.map_or(Ok(by_name), framing)?,
        compression: compression.map(codec).transpose()?,
        max_rows: max_rows.map(|rows| positive("max_rows", rows)).transpose()?,
    };
    let schema = schema.map(extract_schema).transpose()?.map(Arc::new);
    if let Some(path) = &path
        && is_parquet(path)
    {
        let dataset = Dataset::new(whole(data, schema.as_ref())?);
        let writer = py.import("arrowwood._engines.parquet")?.getattr("write")?;
        return guard(|| Ok(writer.call_py((dataset, path, compression, max_rows)).map(drop)?));
    }
    let helper = py.import("arrowwood._incoming")?;
    let (batches, data) = guard(|| {
        helper
            .getattr("batches")?
            .call_py((data,))?
            .extract::<(bool, Bound<'_, PyAny>)>()
            .map_err(PyArrowwoodError::from)
    })?;
    if let Some(path) = &path
        && batches
        && options.format == Format::File
        && options.max_rows.is_none()
    {
        return write_batches(&data, path, schema.as_ref(), &options);
    }
    let dataset = if batches { joined(&data, schema.as_ref())? } else { whole(&data, schema.as_ref())? };
    if let Some(path) = path {
        return Ok(py.detach(|| arrowwood::write(&dataset, path, &options))?);
    }
    let problem = PendingException::default();
    let mut sink = Sink::open(target, &problem)?;
    problem.take_or(py.detach(|| arrowwood::write_to(&dataset, &mut sink, &options)))
}

fn is_parquet(path: &Path) -> bool {
    ["parquet", "pq"].contains(&extension(path).as_str())
}

/// Returns true if the name of the file is a stream's.
fn is_stream(path: &Path) -> bool {
    extension(path) == "arrows"
}

fn extension(path: &Path) -> String {
    path.extension().and_then(|extension| extension.to_str()).map_or_else(String::new, str::to_ascii_lowercase)
}

fn whole(data: &Bound<'_, PyAny>, schema: Option<&SchemaRef>) -> Result<arrowwood::Dataset> {
    guard(|| convert_to_dataset(data, schema))
}

/// Converts several tables to one dataset.
fn joined(tables: &Bound<'_, PyAny>, schema: Option<&SchemaRef>) -> Result<arrowwood::Dataset> {
    let mut tables = tables.try_iter()?;
    let mut parts = Vec::new();
    while let Some(table) = with_unwind_barrier(|| tables.next()) {
        parts.push(whole(&table?, schema)?);
    }
    Ok(arrowwood::Dataset::concat(&parts)?)
}

/// Writes tables as they come, so that each can be dropped then. Tables with dictionaries are collected, as a file has
/// one dictionary for all batches.
fn write_batches(
    tables: &Bound<'_, PyAny>,
    path: &Path,
    schema: Option<&SchemaRef>,
    options: &WriteOptions,
) -> Result<()> {
    let py = tables.py();
    let mut writer: Option<FileWriter> = None;
    let mut collected: Vec<arrowwood::Dataset> = Vec::new();
    let mut tables = tables.try_iter()?;
    while let Some(table) = with_unwind_barrier(|| tables.next()) {
        let part = whole(&table?, schema)?;
        if writer.is_none() && collected.is_empty() {
            match FileWriter::create(path, part.schema().clone(), options.compression) {
                Err(e) if e.kind() == ErrorKind::Unsupported => {}
                begun => writer = Some(begun?),
            }
        }
        match &mut writer {
            Some(writer) => py.detach(|| writer.write(&part))?,
            None => collected.push(part),
        }
        py.check_signals()?;
    }
    match writer {
        Some(writer) => Ok(py.detach(|| writer.finish())?),
        None => Ok(py.detach(|| arrowwood::write(&arrowwood::Dataset::concat(&collected)?, path, options))?),
    }
}

fn framing(name: &str) -> Result<Format> {
    match name {
        "file" => Ok(Format::File),
        "stream" => Ok(Format::Stream),
        other => Err(invalid_argument(format!("format must be 'file' or 'stream', got '{other}'"))),
    }
}

pub fn codec(name: &str) -> Result<Compression> {
    match name {
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        other => Err(invalid_argument(format!("compression must be None, 'lz4' or 'zstd', got '{other}'"))),
    }
}
