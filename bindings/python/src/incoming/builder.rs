//! `Builder`: rows gathered in memory.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use arrowwood::mapping::MutexExt;
use arrowwood::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::append::AppendConverter;
use crate::dataset::dataset::Dataset;
use crate::exchange::capsule::extract_schema;
use crate::interpreter::errors::{PyArrowwoodError, Result};
use crate::interpreter::py_call::guard;
use crate::types::schema::Schema;

/// Collects rows in memory, which :meth:`finish` returns as a dataset of one batch, without copying.
///
/// Columns have the types of tables. Memory grows in place: appended rows are never moved.
///
/// Args:
///     schema: names and types of the columns, anything with ``__arrow_c_schema__``.
///
/// Raises:
///     Unsupported: a column's type cannot grow; the message names the column.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct Builder {
    inner: Mutex<Option<arrowwood::DatasetBuilder>>,
    columns: AppendConverter,
}

impl Builder {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Option<arrowwood::DatasetBuilder>> {
        loop {
            match self.inner.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                // Another thread is appending, and may need the interpreter to go on.
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.inner.lock())),
            }
        }
    }
}

fn closed() -> PyArrowwoodError {
    Error::new(ErrorKind::Closed, "the builder was finished; make another one").into()
}

#[pymethods]
impl Builder {
    #[new]
    fn new(py: Python<'_>, schema: &Bound<'_, PyAny>) -> Result<Builder> {
        let inner = arrowwood::DatasetBuilder::new(Arc::new(extract_schema(schema)?))?;
        let columns = AppendConverter::new(py, inner.schema().clone());
        Ok(Builder { inner: Mutex::new(Some(inner)), columns })
    }

    /// Append rows: any data accepted by :meth:`Writer.append`.
    ///
    /// Raises:
    ///     SchemaMismatch: a column is missing, of another type, or has ordered categories in another order.
    ///     ColumnNotFound: the builder has no column of that name.
    ///     InvalidArgument: a null in a non-nullable column, or a value out of range; the message names column and
    ///         row. In all these cases nothing was appended.
    fn append(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<()> {
        let dataset = guard(|| self.columns.dataset(py, data))?;
        let done = py.detach(|| {
            let mut inner = self.inner.lock_ignoring_poison();
            inner.as_mut().map(|builder| builder.append_dataset(&dataset))
        });
        Ok(done.ok_or_else(closed)??)
    }

    /// Append one row; columns not given are null.
    ///
    /// Raises:
    ///     InvalidArgument: a value is not of its column's type, or null in a non-nullable column; nothing was
    ///         appended.
    ///     ColumnNotFound: the builder has no column of that name.
    #[pyo3(signature = (**values))]
    fn append_row(&self, py: Python<'_>, values: Option<&Bound<'_, PyDict>>) -> Result<()> {
        self.columns.append_row(
            py,
            values,
            |row| Ok(self.lock(py).as_mut().ok_or_else(closed)?.append_row(row)?),
            |rows| self.append(py, rows),
        )
    }

    /// Return the rows as a dataset, in place. This closes the builder.
    fn finish(&self, py: Python<'_>) -> Result<Dataset> {
        let inner = self.lock(py).take().ok_or_else(closed)?;
        Ok(Dataset::new(py.detach(|| inner.finish())?))
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.columns.schema.clone())
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        Ok(self.lock(py).as_ref().ok_or_else(closed)?.rows() as usize)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let rows = self.lock(py).as_ref().map(arrowwood::DatasetBuilder::rows);
        rows.map_or("<arrowwood.Builder: finished>".into(), |rows| format!("<arrowwood.Builder: {rows} rows>"))
    }
}
