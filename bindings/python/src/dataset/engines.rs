//! Functions of other engines on a dataset; they are implemented in Python.

use arrowwood::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::dataset::Dataset;
use super::reopen::{FileSlice, PartitionColumn, parse_partition, renamed_columns, reopen_args};
use crate::interpreter::errors::{Result, invalid_argument};
use crate::interpreter::py_call::{CallPy, with_unwind_barrier};

#[pymethods]
impl Dataset {
    /// Query the dataset, called ``self``, and others with SQL, by DuckDB: ``ds.sql("select max(price) from
    /// self")``.
    ///
    /// DuckDB reads in place, and only the columns that it needs. :func:`sql` lists what else a query may name.
    ///
    /// Args:
    ///     query: one statement or several; the rows of the last one are the result.
    ///     tables: datasets, paths, or anything that exports Arrow data, by their names in the query.
    ///
    /// Raises:
    ///     ImportError: DuckDB is not installed: ``pip install 'arrowwood[sql]'``.
    ///     duckdb.Error: the query is invalid, with DuckDB's message; or values are damaged, with ours.
    ///     NotFound, PermissionDenied, InvalidData: a table cannot be opened.
    #[pyo3(signature = (query, /, **tables))]
    fn sql<'py>(
        slf: &Bound<'py, Self>,
        query: &Bound<'py, PyAny>,
        tables: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        let all = tables.map_or_else(|| Ok(PyDict::new(slf.py())), PyDictMethods::copy)?;
        if all.contains("self")? {
            return Err(invalid_argument("sql(): self is the dataset itself; give the other table another name"));
        }
        all.set_item("self", slf)?;
        let arguments = (query,).into_pyobject(slf.py())?;
        let sql = slf.py().import("arrowwood._engines.duckdb")?.getattr("sql")?;
        Ok(with_unwind_barrier(|| sql.call(&arguments, Some(&all)))?)
    }

    /// Divide the rows into about `n` ranges of equal size, each a :class:`Split`, for other processes to open: only
    /// paths and numbers are sent. Nothing is read.
    ///
    /// There are more splits if rows are in several files, since no split crosses the end of a file, and fewer if
    /// there are fewer rows. Splits have all columns. If the table grows, or is compacted, they stay the same rows.
    ///
    /// Raises:
    ///     InvalidArgument: `n` is less than one, or rows are in memory and not in a file.
    fn splits<'py>(slf: &Bound<'py, Self>, n: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        Ok(slf.py().import("arrowwood._splits")?.call_py_method("splits", (slf, n))?)
    }

    /// The rows with the columns of a partition: names, types, and values as text.
    fn _in_partition(&self, partition: Vec<PartitionColumn>) -> Result<Dataset> {
        Ok(Dataset::with_open_args(
            self.inner().with_partition_columns(&parse_partition(partition)?)?,
            self.open_args(),
        ))
    }

    /// The rows as a table of DataFusion, in place: ``ctx.register_table("ticks", ds)``. Columns, limits and
    /// conditions reach the data. The table has the rows of the dataset; register a newer one for rows committed since.
    ///
    /// Raises:
    ///     ImportError: the package ``arrowwood-datafusion`` is not installed, or is for another version of DataFusion.
    ///     Unsupported: the rows are in memory, or in another order than in the files:
    ///         use ``ctx.from_arrow(ds, name)``.
    fn __datafusion_table_provider__<'py>(&self, session: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let py = session.py();
        let reopen = py.detach(|| match self.inner().resolve_view()? {
            Some(_) => Ok(None),
            None => reopen_args(self.inner(), self.open_args()),
        })?;
        let (places, how) = reopen.ok_or_else(|| {
            let message = "rows in memory, or in another order than in their files, can't be registered as a table of \
                           DataFusion; use ctx.from_arrow(ds, name)";
            Error::new(ErrorKind::Unsupported, message)
        })?;
        let provider = py.import("arrowwood._engines.datafusion")?.getattr("table_provider")?;
        Ok(provider.call_py((session, places, how, renamed_columns(self.inner())))?)
    }

    /// The location of the rows: paths, first rows, numbers of rows and columns; ``None`` if they are in memory.
    fn _places(&self, py: Python<'_>) -> Result<Option<Vec<FileSlice>>> {
        if self.inner().is_renamed() {
            return Err(invalid_argument(
                "the columns were renamed, and others that open the files know them by the names there; rename \
                 afterwards",
            ));
        }
        Ok(py.detach(|| reopen_args(self.inner(), self.open_args()))?.map(|(places, _)| places))
    }
}
