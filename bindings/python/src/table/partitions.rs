//! Partitions: their values, rows of any partitions written, partitions listed and dropped.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::SchemaRef;
use arrowwood::readable::escape_hidden;
use arrowwood::{PartitionBy, Value, WriterOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDate, PyDateTime, PyDict, PyInt, PyList, PyString};

use super::shared_writer::SharedWriter;
use crate::convert::to_object::ORDINAL_OF_1970;
use crate::incoming::append::AppendConverter;
use crate::interpreter::errors::{Result, invalid_argument};
use crate::interpreter::py_call::{CallPy, guard};
use crate::types::schema::Schema;

/// Columns of a partition and their values.
pub struct PartitionArg(Vec<(String, PartitionValue)>);

enum PartitionValue {
    Null,
    Bool(bool),
    Int(i64),
    Date(i64),
    Text(String),
}

impl PartitionArg {
    pub fn from_dict(dict: &Bound<'_, PyDict>) -> Result<PartitionArg> {
        let mut columns = Vec::with_capacity(dict.len());
        for (name, value) in dict {
            let name: String = name.extract()?;
            let value = if value.is_none() {
                PartitionValue::Null
            } else if let Ok(flag) = value.cast::<PyBool>() {
                PartitionValue::Bool(flag.is_true())
            } else if value.is_instance_of::<PyInt>() {
                PartitionValue::Int(value.extract()?)
            } else if value.is_instance_of::<PyString>() {
                PartitionValue::Text(value.extract()?)
            } else if value.is_instance_of::<PyDate>() && !value.is_instance_of::<PyDateTime>() {
                PartitionValue::Date(value.call_py_method("toordinal", ())?.extract::<i64>()? - ORDINAL_OF_1970)
            } else {
                let message = format!("partition: '{name}' is {value}, expected text, an int, a date, a bool or None");
                return Err(invalid_argument(message));
            };
            columns.push((name, value));
        }
        Ok(PartitionArg(columns))
    }

    pub fn values(&self) -> Vec<(&str, Value<'_>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_value())).collect()
    }
}

impl PartitionValue {
    fn as_value(&self) -> Value<'_> {
        match self {
            PartitionValue::Null => Value::Null,
            PartitionValue::Bool(flag) => Value::Bool(*flag),
            PartitionValue::Int(number) => Value::Int(*number),
            PartitionValue::Date(days) => Value::Date(*days),
            PartitionValue::Text(text) => Value::Str(text),
        }
    }
}

/// Remove a partition of a table, and its files: ``aw.drop_partition("ticks", {"host": "a1"})``; return whether it
/// existed.
///
/// Readers that have opened it keep its rows until they refresh.
///
/// Args:
///     table: the directory of the partitions.
///     partition: all columns of the partition with their values.
///
/// Raises:
///     Busy: the partition is being written; the message names the process.
///     NotFound: there is no such directory.
///     InvalidArgument: not all columns are named.
#[pyfunction]
pub fn drop_partition(py: Python<'_>, table: PathBuf, partition: &Bound<'_, PyDict>) -> Result<bool> {
    let partition = PartitionArg::from_dict(partition)?;
    Ok(py.detach(|| arrowwood::drop_partition(&table, &partition.values()))?)
}

/// Parses the levels of `partition_by`.
pub fn levels(object: &Bound<'_, PyAny>) -> Result<Vec<PartitionBy>> {
    let texts: Vec<String> = match object.cast::<PyString>() {
        Ok(text) => vec![text.extract()?],
        Err(_) => object.extract()?,
    };
    Ok(texts.iter().map(|text| text.parse()).collect::<arrowwood::Result<_>>()?)
}

/// Appends rows of a partitioned table, each to its partition; made by :func:`writer` with ``partition_by``.
///
/// A partition is opened when it gets rows, and is a table with one writer. A commit is atomic within one partition:
/// readers, and a crash, may see it in one and not yet in another. As a context manager it commits at the end, or
/// rolls back after an exception. Rows that are neither committed nor rolled back are a ``ResourceWarning`` when the
/// writer is gone.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct PartitionedWriter {
    inner: SharedWriter<arrowwood::PartitionedWriter>,
    columns: AppendConverter,
    /// The number of rows appended since the last commit.
    uncommitted: AtomicU64,
}

impl Drop for PartitionedWriter {
    fn drop(&mut self) {
        self.inner.warn_if_uncommitted(|_| self.uncommitted.load(Ordering::Relaxed));
    }
}

impl PartitionedWriter {
    pub fn open(
        py: Python<'_>,
        path: PathBuf,
        schema: Option<SchemaRef>,
        by: &Bound<'_, PyAny>,
        options: &WriterOptions,
    ) -> Result<PartitionedWriter> {
        let schema = schema.ok_or_else(|| invalid_argument("writer: partition_by needs a schema"))?;
        let inner = arrowwood::PartitionedWriter::new(&path, schema, &levels(by)?, options)?;
        let columns = AppendConverter::new(py, inner.schema().clone());
        Ok(PartitionedWriter { inner: SharedWriter::new(inner, path), columns, uncommitted: AtomicU64::new(0) })
    }
}

#[pymethods]
impl PartitionedWriter {
    /// Append rows: Arrow data, a dict of columns, row dicts, or a data frame, matched by column names.
    ///
    /// Raises:
    ///     SchemaMismatch, ColumnNotFound, InvalidArgument: as for :meth:`Writer.append`. If rows of the same call
    ///         already went to other partitions, nothing can be committed before :meth:`rollback`.
    ///     Busy: another process writes one of the partitions; the message names it.
    fn append(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<()> {
        let dataset = guard(|| self.columns.dataset(py, data))?;
        self.inner.with(py, |writer| {
            writer.append_dataset(&dataset)?;
            self.uncommitted.fetch_add(dataset.len()?, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Append one row; columns not given are null. Appending many rows at once is much faster.
    ///
    /// Raises:
    ///     InvalidArgument: a value is not of its column's type, or null in a non-nullable column; nothing was
    ///         appended.
    ///     ColumnNotFound: the table has no column of that name.
    #[pyo3(signature = (**values))]
    fn append_row(&self, py: Python<'_>, values: Option<&Bound<'_, PyDict>>) -> Result<()> {
        let empty = PyDict::new(py);
        self.append(py, PyList::new(py, [values.unwrap_or(&empty)])?.as_any())
    }

    /// Make all appended rows visible to readers, partition by partition; with `durable`, return once they would
    /// survive a power cut, and with them all that was committed to the partitions before this writer was made, but
    /// for partitions that another process is writing now.
    ///
    /// Raises:
    ///     IoError: rows in partitions before the named one are committed.
    #[pyo3(signature = (*, durable = false))]
    fn commit(&self, py: Python<'_>, durable: bool) -> Result<()> {
        self.inner.with(py, |writer| {
            writer.commit()?;
            self.uncommitted.store(0, Ordering::Relaxed);
            if durable { writer.sync() } else { Ok(()) }
        })
    }

    /// Bring all committed rows to the disk, as ``commit(durable=True)`` does: they survive a power cut once this
    /// returns.
    fn sync(&self, py: Python<'_>) -> Result<()> {
        self.inner.with(py, arrowwood::PartitionedWriter::sync)
    }

    /// Discard the rows appended since the last commit.
    fn rollback(&self, py: Python<'_>) -> Result<()> {
        self.inner.with(py, |writer| {
            writer.rollback();
            self.uncommitted.store(0, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Commit, sync, and release the partitions to other writers; does nothing if already closed.
    fn close(&self, py: Python<'_>) -> Result<()> {
        self.inner.close(py, arrowwood::PartitionedWriter::close)
    }

    /// Names and types of all columns, including those of the partitions.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.columns.schema.clone())
    }

    /// The directory of the partitions.
    #[getter]
    fn path(&self) -> PathBuf {
        self.inner.path().to_path_buf()
    }

    /// The number of open partitions, at most 64.
    #[getter]
    fn num_open(&self, py: Python<'_>) -> Result<usize> {
        self.inner.with(py, |writer| Ok(writer.num_open()))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Result<()> {
        if !kind.is_none() && !self.inner.is_closed(py)? {
            self.rollback(py)?;
        }
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<arrowwood.PartitionedWriter {}>", escape_hidden(&self.inner.path().to_string_lossy()))
    }
}
