//! `write`: a dataset, or whatever else is a table, as an IPC file or stream.

use std::sync::Arc;

use arrowwood::{Compression, Format, WriteOptions, guard};
use pyo3::prelude::*;

use crate::errors::{Problem, Result, argument};
use crate::exchange::schema_of;
use crate::incoming::dataset_from;
use crate::index::positive;
use crate::open::path_of;
use crate::sink::{Sink, is_pipe};

/// Write a table as an Arrow IPC file or stream.
///
/// Args:
///     data: a :class:`Dataset`, a data frame (of pandas: without its index), anything else that exports Arrow data,
///         a dict of columns (lists, NumPy arrays, Arrow arrays, series; anything that can be iterated), or rows as
///         dicts.
///     target: a path, which is replaced in one step when all is written, a :class:`Buffer`, or any other object with
///         ``write(bytes)``.
///     schema: the columns, found by name, and their types; by default those that `data` has. Nothing is lost on the way
///         there, but for floats of less than 64 bits, which are rounded.
///     format: ``"file"``, with a footer for random access, or ``"stream"``.
///     compression: the codec of the data; without one it can be opened in place.
///     max_rows: the most rows of a record batch; larger ones are cut.
///
/// Raises:
///     InvalidArgument, TypeError: a value does not fit its column; the message names column and row.
///     ColumnNotFound, SchemaMismatch: the schema lacks a column that `data` has, or the reverse.
///     InvalidData: a value is damaged.
///     IoError: of the operating system. What a file object raises is passed on as it is.
#[pyfunction]
#[pyo3(signature = (data, target, *, schema = None, format = "file", compression = None, max_rows = None))]
pub fn write(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    schema: Option<&Bound<'_, PyAny>>,
    format: &str,
    compression: Option<&str>,
    max_rows: Option<i64>,
) -> Result<()> {
    let options = WriteOptions {
        format: framing(format)?,
        compression: compression.map(codec).transpose()?,
        max_rows: max_rows.map(|rows| positive("max_rows", rows)).transpose()?,
    };
    let schema = schema.map(schema_of).transpose()?.map(Arc::new);
    let dataset = guard(|| dataset_from(data, schema.as_ref()))?;
    if !target.hasattr("write")?
        && let Some(path) = path_of(target)?
        && !is_pipe(&path)
    {
        return Ok(py.detach(|| arrowwood::write(&dataset, path, &options))?);
    }
    let problem = Problem::default();
    let mut sink = Sink::of(target, &problem)?;
    problem.or(py.detach(|| arrowwood::write_to(&dataset, &mut sink, &options)))
}

fn framing(name: &str) -> Result<Format> {
    match name {
        "file" => Ok(Format::File),
        "stream" => Ok(Format::Stream),
        other => Err(argument(format!("format must be 'file' or 'stream', got '{other}'"))),
    }
}

pub fn codec(name: &str) -> Result<Compression> {
    match name {
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        other => Err(argument(format!("compression must be None, 'lz4' or 'zstd', got '{other}'"))),
    }
}
