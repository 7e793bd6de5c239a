//! `write`: a dataset, or whatever else is a table, as an IPC file or stream.

use std::io;
use std::sync::Arc;

use arrowwood::{Compression, Format, WriteOptions, guard};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffer::{Buffer, BufferSink};
use crate::errors::{Result, argument};
use crate::exchange::schema_of;
use crate::incoming::dataset_from;
use crate::index::count;
use crate::open::path_of;

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
        max_rows: max_rows.map(|rows| count("max_rows", rows)).transpose()?,
    };
    let schema = schema.map(schema_of).transpose()?.map(Arc::new);
    let dataset = guard(|| dataset_from(data, schema.as_ref()))?;
    if let Ok(buffer) = target.cast::<Buffer>() {
        let mut sink = BufferSink { buffer: buffer.get(), problem: None };
        let done = py.detach(|| arrowwood::write_to(&dataset, &mut sink, &options));
        return Ok(sink.problem.map_or(done, Err)?);
    }
    if !target.hasattr("write")?
        && let Some(path) = path_of(target)?
    {
        return Ok(py.detach(|| arrowwood::write(&dataset, path, &options))?);
    }
    let mut sink = Sink { file: target.getattr("write")?.unbind(), problem: None };
    let done = py.detach(|| arrowwood::write_to(&dataset, &mut sink, &options));
    // What the file object raised says more than that writing failed.
    match sink.problem {
        Some(problem) => Err(problem.into()),
        None => Ok(done?),
    }
}

fn framing(name: &str) -> Result<Format> {
    match name {
        "file" => Ok(Format::File),
        "stream" => Ok(Format::Stream),
        other => Err(argument(format!("format must be 'file' or 'stream', got '{other}'"))),
    }
}

fn codec(name: &str) -> Result<Compression> {
    match name {
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        other => Err(argument(format!("compression must be None, 'lz4' or 'zstd', got '{other}'"))),
    }
}

/// A Python file object to write to.
struct Sink {
    /// Its `write` method.
    file: Py<PyAny>,
    /// What the method raised.
    problem: Option<PyErr>,
}

impl Sink {
    fn call(&self, bytes: &[u8]) -> PyResult<usize> {
        Python::attach(|py| {
            let written = self.file.bind(py).call1((PyBytes::new(py, bytes),))?;
            // Raw files write less than all and say so; others may say nothing.
            Ok(if written.is_none() { bytes.len() } else { written.extract()? })
        })
    }
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.call(bytes) {
            Ok(written) if written <= bytes.len() => Ok(written),
            Ok(_) => Err(io::Error::other("the file object says that it wrote more than it was given")),
            Err(problem) => {
                self.problem = Some(problem);
                Err(io::Error::other("the file object raised an exception"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
