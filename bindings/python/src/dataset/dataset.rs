//! `Dataset`: a table of rows, in place.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use arrowwood::{Error, ErrorKind, Value};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString, PyTuple};

use super::column::Column;
use super::predicate::Predicate;
use super::reopen::OpenArgs;
use crate::arguments::describe::describe_object;
use crate::arguments::index::{Index, bounds, from_end, index, is_indices, number, position, strided_slice};
use crate::arguments::names::{extract_column_name, names as names_of};
use crate::convert::to_numpy::NumpyType;
use crate::convert::to_object::to_object;
use crate::convert::to_value::to_value;
use crate::exchange::buffer_protocol::Block;
use crate::exchange::capsule;
use crate::interpreter::errors::{PyArrowwoodError, Result, import_module, invalid_argument, type_error};
use crate::interpreter::py_call::{CallPy, call_function, guard};
use crate::interpreter::signals::stop_on_signal;
use crate::interpreter::waits::retry_until_fetched;
use crate::types::schema;
use crate::types::tensor::dtype_name;

/// An immutable, zero-copy table of rows over one or many record batches.
///
/// ``ds["price"]`` is a column, ``ds[7]`` a row as a dict, ``ds[10:20]`` a dataset of those rows. Iterating gives rows.
///
/// Values are Python objects: a struct is a dict, a map a list of ``(key, value)``, a union its value, a calendar
/// interval a :class:`MonthDayNano`. Values outside the range of Python's classes become ``numpy.datetime64`` or
/// ``numpy.timedelta64``: nanoseconds that are not whole microseconds, years outside of 1 to 9999, times outside of
/// a day; an instant with a time zone is then in UTC.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct Dataset {
    inner: arrowwood::Dataset,
    names: Arc<ColumnNames>,
    how: OpenArgs,
}

/// The columns' names as Python strings, made when the first row is, and shared by slices.
type ColumnNames = PyOnceLock<Vec<Py<PyString>>>;

impl Dataset {
    /// Wraps `inner` for Python.
    pub fn new(inner: arrowwood::Dataset) -> Dataset {
        Dataset::with_open_args(inner, OpenArgs::default())
    }

    /// Wraps `inner`, which was opened with the arguments `how`, for Python.
    pub fn with_open_args(inner: arrowwood::Dataset, how: OpenArgs) -> Dataset {
        Dataset { inner, names: Arc::default(), how }
    }

    /// Returns the arguments with which the dataset was opened.
    pub fn open_args(&self) -> OpenArgs {
        self.how
    }

    /// Returns the library's dataset.
    pub fn inner(&self) -> &arrowwood::Dataset {
        &self.inner
    }

    /// Wraps other rows of the same columns.
    pub fn with_rows(&self, inner: arrowwood::Dataset) -> Dataset {
        Dataset { inner, names: self.names.clone(), how: self.how }
    }

    /// Returns the number of rows that `n` means: a negative `n` means all rows but the last `-n`.
    fn rows_of(&self, n: i64) -> arrowwood::Result<u64> {
        u64::try_from(n).or_else(|_| Ok(self.inner.len()?.saturating_sub(n.unsigned_abs())))
    }

    /// Selects the columns named `names`, in that order.
    pub fn select_names(&self, names: Vec<String>) -> Result<Dataset> {
        Ok(Dataset::with_open_args(self.inner.select(&names)?, self.how))
    }

    /// Returns the number of rows. A stream is walked for it the first time, so other threads may run meanwhile.
    pub fn len(&self, py: Python<'_>) -> Result<u64> {
        Ok(py.detach(|| self.inner.len())?)
    }

    fn names(&self, py: Python<'_>) -> Result<&[Py<PyString>]> {
        self.names.get_or_try_init(py, || self.make_names(py)).map(Vec::as_slice)
    }

    fn make_names(&self, py: Python<'_>) -> Result<Vec<Py<PyString>>> {
        let fields = self.inner.schema().fields();
        let mut seen = HashSet::new();
        if let Some(twice) = fields.iter().find(|field| !seen.insert(field.name())) {
            let name = twice.name();
            let message = format!("a dict cannot hold two columns called '{name}'; use row(i), which gives tuples");
            return Err(invalid_argument(message));
        }
        Ok(fields.iter().map(|field| PyString::intern(py, field.name()).unbind()).collect())
    }

    /// Converts row `row` to a dict.
    pub fn row_dict<'py>(&self, py: Python<'py>, row: u64) -> Result<Bound<'py, PyDict>> {
        retry_until_fetched(py, || self.to_dict(py, self.inner.row(row)?))
    }

    /// Converts a row to a dict.
    pub fn to_dict<'py>(&self, py: Python<'py>, row: arrowwood::Row<'_>) -> Result<Bound<'py, PyDict>> {
        let names = self.names(py)?;
        let dict = PyDict::new(py);
        for (column, name) in names.iter().enumerate() {
            dict.set_item(name, to_object(py, row.get(column)?)?)?;
        }
        Ok(dict)
    }
}

/// Returns true if there are many batches, of fewer than `small` bytes each. Only the first rows are checked: checking
/// all would keep an array for each column of each batch.
fn are_many(dataset: &arrowwood::Dataset, small: u64) -> arrowwood::Result<bool> {
    const MANY: u64 = 64;
    const FIRST: u64 = 4096;
    let batches = dataset.num_batches()? as u64;
    let rows = dataset.len()?;
    if batches <= MANY || rows == 0 {
        return Ok(false);
    }
    let first = dataset.head(FIRST)?.nbytes()? as f64 / rows.min(FIRST) as f64;
    Ok(first * (rows as f64) < small as f64 * batches as f64)
}

/// Returns NumPy's type for values that it takes as they are.
fn plain(data_type: &DataType) -> Option<NumpyType> {
    match data_type {
        DataType::Boolean | DataType::Date32 => None,
        other => NumpyType::for_type(other),
    }
}

/// Converts the bound of `what`, such as `between`, to a value of the column `field`.
pub fn bound_value<'a>(what: &str, field: &FieldRef, object: &'a Bound<'_, PyAny>) -> Result<Value<'a>> {
    let value = to_value(field.data_type(), object).map_err(|problem| problem.at_row(field.name(), 0))?;
    value.ok_or_else(|| invalid_argument(format!("{what}: {object} is no value of column '{}'", field.name())))
}

#[pymethods]
impl Dataset {
    /// Names, types and metadata of the columns.
    #[getter]
    fn schema(&self) -> schema::Schema {
        schema::Schema(self.inner.schema().clone())
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        self.len(py).map(|len| len as usize)
    }

    /// The numbers of rows and columns.
    #[getter]
    fn shape(&self, py: Python<'_>) -> Result<(u64, usize)> {
        Ok((self.len(py)?, self.inner.num_columns()))
    }

    /// The columns' names, in order.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.inner.schema().fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The columns' names, in order, as pandas calls them: ``dict(ds)`` has the columns by name.
    fn keys(&self) -> Vec<&str> {
        self.columns()
    }

    /// The names of the columns' types, in order.
    #[getter]
    fn dtypes(&self) -> Vec<String> {
        self.inner.schema().fields().iter().map(|field| dtype_name(field)).collect()
    }

    /// The keys that an editor completes in ``ds["``.
    fn _ipython_key_completions_(&self) -> Vec<&str> {
        self.columns()
    }

    /// Whether there is a column of that name, as in pandas and Polars.
    fn __contains__(&self, name: &Bound<'_, PyAny>) -> Result<bool> {
        let Ok(name) = name.cast::<PyString>() else {
            let message = format!(
                "in asks a dataset for the name of a column, got {}; values are looked for in a column: 7 in \
                 ds[\"x\"], rows by a condition: ds[ds[\"x\"] == 7]",
                describe_object(name)
            );
            return Err(type_error(message));
        };
        Ok(name.to_str().is_ok_and(|name| self.inner.schema().field_with_name(name).is_ok()))
    }

    /// Libraries disagree about == of tables: a boolean, or one for each value.
    fn __richcmp__(&self, _other: &Bound<'_, PyAny>, operator: CompareOp) -> Result<bool> {
        let symbol = match operator {
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        };
        Err(type_error(format!(
            "{symbol} of datasets is not defined; compare all rows by ds.to_arrow().equals(other.to_arrow()) or \
             ds.to_polars().equals(other.to_polars()), identity by `ds is other`; pick rows by a \
             condition on a column: ds[ds[\"x\"] == 7]"
        )))
    }

    /// Hashes the identity of the object.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize >> 4
    }

    /// Raises an error that names the method to use instead of other libraries'.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> Result<Bound<'py, PyAny>> {
        let hints = slf.py().import("arrowwood._hints")?;
        Ok(hints.call_py_method("raise_for_dataset", (name, slf.get().columns()))?)
    }

    /// The number of columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.inner.num_columns()
    }

    /// The number of record batches with rows in the dataset.
    #[getter]
    fn num_batches(&self, py: Python<'_>) -> Result<usize> {
        Ok(py.detach(|| self.inner.num_batches())?)
    }

    /// The size in bytes of the rows in their buffers, without dictionaries.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> Result<u64> {
        Ok(py.detach(|| self.inner.nbytes())?)
    }

    /// The truncated data skipped by ``open(..., partial=True)``, as text: one entry for each cut-off file.
    #[getter]
    fn left(&self, py: Python<'_>) -> Result<Vec<String>> {
        Ok(py.detach(|| self.inner.skipped_tails())?)
    }

    /// The absolute path of the file or table directory with the rows; ``None`` for rows in memory, and for rows of
    /// several files.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.inner.path().map(PathBuf::from)
    }

    /// The partitions of a dataset opened from a directory of them, in order: each with its directory, its values as
    /// text by column, and its rows as a dataset. Empty for other datasets, and for parts of them.
    #[getter]
    fn partitions<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let class = py.import("arrowwood._types")?.getattr("Partition")?;
        let partitions = PyList::empty(py);
        for arrowwood::Partition { path, keys, rows, .. } in self.inner().partitions() {
            let values = PyDict::new(py);
            for (name, text) in keys {
                values.set_item(name, text)?;
            }
            partitions.append(class.call_py((
                path,
                values,
                Bound::new(py, Dataset::with_open_args(rows, self.open_args()))?,
            ))?)?;
        }
        Ok(partitions)
    }

    /// The number of the first row in its table: rows keep their numbers when earlier ones are dropped.
    #[getter]
    fn first_row(&self) -> u64 {
        self.inner.first_row()
    }

    /// Positions of the newest commit included in the dataset, by name: see :meth:`Writer.commit`. Empty if it is
    /// not a table.
    #[getter]
    fn positions(&self, py: Python<'_>) -> Result<std::collections::BTreeMap<String, i64>> {
        Ok(py.detach(|| self.inner.positions())?)
    }

    /// The name of the column by which the table is sorted; ``None`` if there is none, or if rows may be late.
    #[getter]
    fn sorted_by(&self) -> Option<String> {
        self.inner.sorted_by().map(|field| field.name().clone())
    }

    /// Return the dataset including rows committed since: a newer one, or this one if there are none.
    ///
    /// Slices, and data that does not grow, don't change. Older datasets stay valid.
    fn refresh<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, Self>> {
        let this = slf.get();
        if this.inner.is_newest() {
            return Ok(slf.clone());
        }
        let newer = slf.py().detach(|| this.inner.refresh())?;
        // Names are shared by rows of the same columns: the table may have others by now.
        let is_altered = newer.schema() != this.inner.schema();
        let newer = if is_altered { Dataset::with_open_args(newer, this.how) } else { this.with_rows(newer) };
        Ok(Bound::new(slf.py(), newer)?)
    }

    /// Return the rows whose value in the table's sorted column is between `low` and `high`, both included.
    ///
    /// Found by binary search; in tables that accept late rows, by the column's index, as a copy. Integers are
    /// accepted for times, in the column's unit, and so is text such as ``"2026-01-31"``. For several tables opened
    /// as one, the rows of each follow those of the previous one.
    ///
    /// Raises:
    ///     InvalidArgument: the dataset is not of tables with ``sorted_by``, or a value is of another type.
    fn between(&self, py: Python<'_>, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Dataset> {
        let Some(field) = self.inner.searched_column() else {
            return Err(invalid_argument("between needs a table created with sorted_by, or a part of one"));
        };
        let low = bound_value("between", &field, low)?;
        let high = bound_value("between", &field, high)?;
        Ok(self.with_rows(py.detach(|| self.inner.between(&low, &high))?))
    }

    /// The bytes by location: mapped, resident, copied. Queries the system about every page.
    #[getter]
    fn footprint<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let footprint = self.inner.footprint();
        let resident = py.detach(|| self.inner.resident())?;
        let class = py.import("arrowwood._types")?.getattr("Footprint")?;
        Ok(class.call_py((footprint.mapped, resident, footprint.copied))?)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        if let Ok(name) = key.cast::<PyString>() {
            let column = Column::new(self.inner.column(&extract_column_name(name, self.columns())?)?);
            return Ok(Bound::new(py, column)?.into_any());
        }
        if let Ok(predicate) = key.cast::<Predicate>() {
            return Ok(Bound::new(py, self.filter(py, predicate)?)?.into_any());
        }
        if key.is_instance_of::<PyTuple>() {
            let message = "a dataset has columns, rows and slices; several columns are ds[[\"a\", \"b\"]], and a value \
                           is ds[\"a\"][7]";
            return Err(type_error(message));
        }
        if is_indices(key) {
            if guard(|| {
                Ok::<_, PyArrowwoodError>(key.get_item(0).is_ok_and(|first| first.is_instance_of::<PyString>()))
            })? {
                return Ok(Bound::new(py, self.select_names(key.extract()?)?)?.into_any());
            }
            return Ok(Bound::new(py, self.pick_rows(py, key)?)?.into_any());
        }
        if let Some((rows, step)) = strided_slice(key, || self.len(py))? {
            let rows = self.with_rows(py.detach(|| self.inner.slice_with_step(rows, step))?);
            return Ok(Bound::new(py, rows)?.into_any());
        }
        // The last rows of a file can be read without counting all; a number before the first row is left to `index`.
        if let Some(back) = from_end(key)
            && let Some(row) = retry_until_fetched(py, || {
                self.inner.row_from_end(back).ok().map(|row| self.to_dict(py, row)).transpose()
            })?
        {
            return Ok(row.into_any());
        }
        match index(key, "row", || self.len(py))? {
            Index::At(row) => self.row_dict(py, row).map(Bound::into_any),
            Index::Span(start, count) => {
                let rows = self.with_rows(py.detach(|| self.inner.slice(start, count))?);
                Ok(Bound::new(py, rows)?.into_any())
            }
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> RowIterator {
        RowIterator { dataset: slf.unbind(), next: 0, end: u64::MAX }
    }

    /// Return rows `start` to `stop` as dicts, one after the other. The first rows of a stream are available without
    /// walking it.
    ///
    /// Raises:
    ///     InvalidArgument: several columns have the same name, which a dict cannot hold; see :meth:`row`.
    #[pyo3(signature = (start = 0, stop = None))]
    fn rows(slf: Bound<'_, Self>, start: i64, stop: Option<i64>) -> Result<RowIterator> {
        let (start, count) = bounds(start, stop, || slf.get().len(slf.py()))?;
        Ok(RowIterator { dataset: slf.unbind(), next: start, end: start.saturating_add(count) })
    }

    /// A row as a tuple, in the order of the columns. Raises :class:`RowOutOfRange`.
    fn row<'py>(&self, py: Python<'py>, index: i64) -> Result<Bound<'py, PyTuple>> {
        let number = position(index, "row", || self.len(py))?;
        retry_until_fetched(py, || {
            let row = self.inner.row(number)?;
            let values = (0..row.len()).map(|column| to_object(py, row.get(column)?)).collect::<Result<Vec<_>>>()?;
            Ok(PyTuple::new(py, values)?)
        })
    }

    /// A column by number or name. Raises :class:`ColumnNotFound`.
    fn column(&self, py: Python<'_>, column: &Bound<'_, PyAny>) -> Result<Column> {
        let _ = py;
        if let Ok(name) = column.cast::<PyString>() {
            return Ok(Column::new(self.inner.column(&extract_column_name(name, self.columns())?)?));
        }
        let number = number(column, "column")?;
        let num_columns = self.inner.num_columns();
        let from_start = if number < 0 { number + num_columns as i64 } else { number };
        let Ok(index) = usize::try_from(from_start) else {
            return Err(Error::new(ErrorKind::ColumnNotFound, format!("no column {number} of {num_columns}")).into());
        };
        Ok(Column::new(self.inner.column_at(index)?))
    }

    /// Select the columns `names`, in that order: ``ds.select("a", "b")``, ``ds.select(["a", "b"])`` and ``ds[["a",
    /// "b"]]`` are the same. Raises :class:`ColumnNotFound`.
    #[pyo3(signature = (*names))]
    fn select(&self, names: &Bound<'_, PyTuple>) -> Result<Dataset> {
        self.select_names(names_of("select", names)?)
    }

    /// The first `n` rows; all but the last `-n` if it is negative.
    #[pyo3(signature = (n = 5))]
    fn head(&self, py: Python<'_>, n: i64) -> Result<Dataset> {
        Ok(self.with_rows(py.detach(|| self.inner.head(self.rows_of(n)?))?))
    }

    /// The last `n` rows; all but the first `-n` if it is negative.
    #[pyo3(signature = (n = 5))]
    fn tail(&self, py: Python<'_>, n: i64) -> Result<Dataset> {
        Ok(self.with_rows(py.detach(|| self.inner.tail(self.rows_of(n)?))?))
    }

    /// The record batches, each as a dataset.
    fn batches(&self, py: Python<'_>) -> Result<Vec<Dataset>> {
        let batches = py.detach(|| self.inner.batches().collect::<Result<Vec<_>, _>>())?;
        Ok(batches.into_iter().map(|batch| self.with_rows(batch)).collect())
    }

    /// Check all values now.
    ///
    /// Args:
    ///     progress: called with the numbers of finished rows and of all rows after each batch; None draws a bar if
    ///         standard error is a terminal and it takes more than a second.
    ///
    /// Raises:
    ///     InvalidData: naming path, batch, column, row and the expected value.
    #[pyo3(signature = (progress = None))]
    fn validate(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> Result<()> {
        let progress = match progress {
            Some(progress) => Some(progress),
            None => {
                let bar = py.import("arrowwood._progress")?.call_py_method("bar", ("checking",))?;
                Some(bar).filter(|bar| !bar.is_none())
            }
        };
        let total = self.len(py)?;
        let mut done = 0;
        // Batch by batch, so that Ctrl-C and an exception of `progress` can stop it.
        for batch in py.detach(|| self.inner.batches().collect::<Result<Vec<_>, _>>())? {
            done += py.detach(|| batch.validate(|_, _| ()).and_then(|()| batch.len()))?;
            py.check_signals()?;
            progress.as_ref().map(|progress| progress.call_py((done, total))).transpose()?;
        }
        Ok(())
    }

    /// All rows as dicts.
    fn to_pylist<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for at in 0..self.len(py)? {
            list.append(self.row_dict(py, at)?)?;
            stop_on_signal(py, at)?;
        }
        Ok(list)
    }

    /// The dataset as a pyarrow table, without copying.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, PyAny>> {
        let module = import_module(slf.py(), "pyarrow", "to_arrow()")?;
        Ok(module.call_py_method("table", (slf,))?)
    }

    /// Combine all rows into one record batch in memory, using several threads; returns the dataset itself if it is
    /// one batch, unless it holds the rows that it was filtered from.
    ///
    /// Text of more than 2 GiB in one column takes several batches, unless its offsets have 64 bits.
    ///
    /// Raises:
    ///     InvalidData: a value is damaged.
    ///     Unsupported: the dictionaries of several batches cannot be merged.
    fn collect(&self, py: Python<'_>) -> Result<Dataset> {
        Ok(self.with_rows(py.detach(|| self.inner.collect())?))
    }

    /// Convert to a pandas data frame: like pyarrow's conversion, but faster for numbers.
    ///
    /// Its memory is its own and writable. An index recorded in the schema by pandas is restored.
    ///
    /// Args:
    ///     arrow: make columns of pandas' ``ArrowDtype``, without copying.
    #[pyo3(signature = (arrow = false))]
    fn to_pandas<'py>(slf: &Bound<'py, Self>, arrow: bool) -> Result<Bound<'py, PyAny>> {
        import_module(slf.py(), "pandas", "to_pandas()")?;
        import_module(slf.py(), "pyarrow", "to_pandas()")?;
        guard(|| call_function(slf.py(), "arrowwood._engines.pandas", "frame", (slf, arrow)))
    }

    /// Convert to an array of shape ``(len(ds), ds.num_columns)``, in its own memory.
    ///
    /// Columns of one type without nulls are stored one after the other (Fortran order). Otherwise the array has a
    /// type that holds all of them, as in :meth:`Column.to_numpy`: integers with nulls become floats. Numbers mixed
    /// with other types become Python objects.
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, PyAny>> {
        guard(|| call_function(slf.py(), "arrowwood._numpy", "matrix", (slf,)))
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        guard(|| call_function(slf.py(), "arrowwood._numpy", "matrix_of", (slf, dtype, copy)))
    }

    /// Combines many batches of fewer than the given number of bytes each; returns the dataset unchanged if that is
    /// impossible.
    fn _gathered(&self, py: Python<'_>, small: u64) -> Result<Dataset> {
        let gathered =
            py.detach(|| if are_many(&self.inner, small)? { self.inner.collect() } else { Ok(self.inner.clone()) });
        match gathered {
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(self.with_rows(self.inner.clone())),
            gathered => Ok(self.with_rows(gathered?)),
        }
    }

    /// NumPy's names of the columns' types that have Arrow's layout.
    fn _dtypes(&self) -> Vec<Option<String>> {
        let fields = self.inner.schema().fields().iter();
        fields.map(|field| plain(field.data_type()).map(|plain| plain.dtype)).collect()
    }

    /// The columns of those numbers, in that order.
    fn _pick(&self, columns: Vec<usize>) -> Result<Dataset> {
        Ok(Dataset::new(self.inner.select_at(&columns)?))
    }

    /// All columns, concatenated; ``None`` if they are not of one type, or have nulls.
    fn _block(&self, py: Python<'_>) -> Result<Option<Block>> {
        let mut fields = self.inner.schema().fields().iter().map(|field| field.data_type());
        let first = fields.next();
        let Some(NumpyType { dtype, width, format }) = first.and_then(plain) else { return Ok(None) };
        if !fields.all(|other| plain(other).is_some_and(|other| other.dtype == dtype)) {
            return Ok(None);
        }
        let block = py.detach(|| self.inner.to_column_major(width))?;
        Ok(block.map(|memory| Block::new(memory, width, format)))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>> {
        // A request is a wish (Arrow PyCapsule Interface, *Schema requests*); data in place has the schema it has.
        let _ = requested_schema;
        capsule::stream_capsule(py, py.detach(|| self.inner.export_stream())?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, arrowwood::export_schema(self.inner.schema())?)
    }

    /// The messages of the file or stream, in file order, as dicts that print as text.
    ///
    /// Raises:
    ///     Unsupported: the data is in memory and has no messages.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let class = py.import("arrowwood._types")?.getattr("Message")?;
        let loads = py.import("json")?.getattr("loads")?;
        let list = PyList::empty(py);
        for message in py.detach(|| self.inner.messages())? {
            let fields = loads.call_py((message.to_json().to_string(),))?;
            list.append(class.call_py((fields, message.to_string()))?)?;
        }
        Ok(list)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        py.detach(|| self.inner.to_string())
    }

    fn _repr_html_(&self, py: Python<'_>) -> String {
        py.detach(|| self.inner.to_html())
    }
}

/// Rows as dicts, one after the other.
#[pyclass(module = "arrowwood")]
pub struct RowIterator {
    dataset: Py<Dataset>,
    next: u64,
    end: u64,
}

#[pymethods]
impl RowIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Result<Option<Bound<'py, PyDict>>> {
        if self.next >= self.end {
            return Ok(None);
        }
        // The length is not requested, so that the first rows of a stream are available without walking it.
        match self.dataset.get().row_dict(py, self.next) {
            Ok(row) => {
                self.next += 1;
                Ok(Some(row))
            }
            Err(e) if e.is_row_out_of_range() => {
                self.end = 0;
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}
