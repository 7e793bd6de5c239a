//! `Column`: one column of a dataset.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow_data::ArrayData;
use arrow_schema::DataType;
use arrowwood::readable::escape_hidden;
use arrowwood::{ErrorKind, Value, blocking};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::convert::to_numpy::{
    NumpyChunks, NumpyLists, NumpyType, array, items, nested_list_shape, nulls, ragged, row_shape, uniform,
};
use crate::convert::to_object::to_object;
use crate::exchange::capsule;
use crate::interpreter::errors::{Result, import_module, invalid_argument};
use crate::interpreter::py_call::{CallPy, attach, call_function, guard};
use crate::interpreter::signals::stop_on_signal;
use crate::interpreter::waits::retry_until_fetched;
use crate::types::schema;
use crate::types::tensor::dtype_name;

/// The number of values in a column's `repr`.
const REPR_ROWS: u64 = 10;
/// DLPack's number of the processor's memory (`kDLCPU`).
const CPU: i32 = 1;
/// The number of the only device of that kind.
const FIRST_DEVICE: i32 = 0;

/// One column of a dataset, over one or many batches. Iterating gives values.
#[pyclass(frozen, module = "arrowwood", weakref)]
pub struct Column {
    inner: arrowwood::Column,
}

impl Column {
    /// Wraps `inner` for Python.
    pub fn new(inner: arrowwood::Column) -> Column {
        Column { inner }
    }

    /// Returns the library's column.
    pub fn inner(&self) -> &arrowwood::Column {
        &self.inner
    }

    /// Returns the number of rows.
    pub fn len(&self, py: Python<'_>) -> Result<u64> {
        Ok(py.detach(|| self.inner.len())?)
    }
}

#[pymethods]
impl Column {
    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        self.len(py).map(|len| len as usize)
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// The name of the type, such as ``"timestamp[ms, UTC]"``, or ``"fixed_shape_tensor<uint8>[32, 32, 3]"``.
    #[getter]
    fn dtype(&self) -> String {
        dtype_name(self.inner.field())
    }

    /// Name, type and metadata.
    #[getter]
    fn field(&self) -> schema::Field {
        schema::Field(self.inner.field().clone())
    }

    /// The number of values that are ``None``, including nulls in dictionaries, runs and unions.
    #[getter]
    fn null_count(&self, py: Python<'_>) -> Result<u64> {
        Ok(py.detach(|| self.inner.null_count())?)
    }

    /// Raises an error that names the method to use instead of other libraries'.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> Result<Bound<'py, PyAny>> {
        Ok(slf.py().import("arrowwood._hints")?.call_py_method("raise_for_column", (name,))?)
    }

    fn __iter__(slf: Bound<'_, Self>) -> ValueIterator {
        ValueIterator { column: slf.unbind(), next: 0 }
    }

    /// The sum of all non-null values, 0 if there are none; exact for integers and decimals.
    ///
    /// Floats are added pairwise, so that the result is the same for any number of threads and its error small.
    ///
    /// Raises:
    ///     Unsupported: the type has no sum.
    fn sum<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        to_object(py, py.detach(|| self.inner.sum())?)
    }

    /// The mean, ``None`` if there are no values. Raises :class:`Unsupported` for types other than numbers.
    fn mean(&self, py: Python<'_>) -> Result<Option<f64>> {
        Ok(py.detach(|| self.inner.mean())?)
    }

    /// The smallest value, ``None`` if there are no values; skips NaN unless all values are NaN.
    fn min<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        to_object(py, py.detach(|| self.inner.min())?)
    }

    /// The largest value, ``None`` if there are no values; skips NaN unless all values are NaN.
    fn max<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        to_object(py, py.detach(|| self.inner.max())?)
    }

    /// The number of non-null values.
    fn count(&self, py: Python<'_>) -> Result<u64> {
        Ok(py.detach(|| self.inner.count())?)
    }

    /// Apply `function` to each chunk of at most 65,536 rows, then `combine` to the results, from first to last.
    ///
    /// Chunks are read-only NumPy arrays in place. `function` runs in several threads at once, so it gains if NumPy
    /// releases the interpreter's lock. Returns ``None`` if there are no rows.
    ///
    /// Raises:
    ///     InvalidArgument: the column has nulls.
    ///     Unsupported: its type is not a fixed-width type of NumPy.
    fn map_reduce<'py>(
        &self,
        py: Python<'py>,
        function: Py<PyAny>,
        combine: Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        if py.detach(|| self.inner.null_count())? > 0 {
            return Err(invalid_argument(format!(
                "map_reduce of column '{}': it has nulls, which arrays cannot show",
                self.name()
            )));
        }
        let failed = AtomicBool::new(false);
        // Results come in the order of rows; `combine` is Python's and runs here, where the first error can stop it.
        let all = py.detach(|| {
            self.inner.map_reduce(
                |chunk: &ArrayData| {
                    if failed.load(Ordering::Relaxed) {
                        return Vec::new();
                    }
                    let mapped: Result<_> = attach(|py| {
                        let array = array(py, chunk)?;
                        Ok(function.bind(py).call_py((&array,))?.unbind())
                    });
                    failed.fetch_or(mapped.is_err(), Ordering::Relaxed);
                    vec![mapped]
                },
                |mut left, right| {
                    left.extend(right);
                    left
                },
            )
        })?;
        let mut results: Vec<Bound<'py, PyAny>> = Vec::new();
        for result in all.into_iter().flatten() {
            results.push(result.map(|object: Py<PyAny>| object.into_bound(py))?);
        }
        let mut results = results.into_iter();
        let Some(first) = results.next() else { return Ok(None) };
        results.try_fold(first, |left, right| Ok(combine.call_py((&left, &right))?)).map(Some)
    }

    /// The values as an array of shape ``(len(column),)``; for fixed-size lists ``(len(column), length)``, for
    /// fixed-size lists of lists ``(len(column), outer, inner)``.
    ///
    /// Numbers keep their type; integers with nulls become float64 with NaN. Timestamps become ``datetime64`` of
    /// their unit, in UTC, dates ``datetime64[D]``, durations ``timedelta64``, all with NaT for null. Booleans
    /// become ``bool``. Lists of numbers with one length become rows, lists of such lists planes, and so on. Other
    /// types, and booleans and lists with nulls, become Python objects.
    ///
    /// Args:
    ///     copy: ``None``: no copy if one chunk contains numbers, timestamps or durations without nulls; such an
    ///         array is read-only. ``True``: always a copy. ``False``: never.
    ///
    /// Raises:
    ///     CopyNeeded: `copy` is ``False`` and a copy is necessary; the message says why.
    #[pyo3(signature = (copy = None))]
    fn to_numpy<'py>(slf: &Bound<'py, Self>, copy: Option<bool>) -> Result<Bound<'py, PyAny>> {
        guard(|| call_function(slf.py(), "arrowwood._numpy", "to_numpy", (slf, copy)))
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        guard(|| call_function(slf.py(), "arrowwood._numpy", "as_array", (slf, dtype, copy)))
    }

    /// The values for another library, such as PyTorch, by the DLPack protocol, as in :meth:`to_numpy`.
    ///
    /// Values of a mapped file are in a mapping of their own: what is written to them stays in pages of this process.
    /// Values in memory are read-only, which only consumers that ask for version 1.0 or later can see; others get a
    /// copy.
    ///
    /// Raises:
    ///     BufferError: the values are not numbers, or `copy` is ``False`` and a copy is necessary.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        let wanted = (slf, stream, max_version, dl_device, copy);
        guard(|| call_function(slf.py(), "arrowwood._numpy", "dlpack", wanted))
    }

    /// The device of the values as DLPack numbers it: the processor's memory.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, FIRST_DEVICE)
    }

    /// NumPy's name of the type, the values and nulls (a byte for each row, if there are any) of each chunk, and the
    /// shape of a row of lists of one length, with the order of its dimensions where that is another.
    fn _parts<'py>(&self, py: Python<'py>) -> Result<NumpyChunks<'py>> {
        let (data_type, lengths) = match nested_list_shape(self.inner.data_type()) {
            Some((item, lengths)) => (item, Some(lengths)),
            None => (self.inner.data_type(), None),
        };
        let Some(plain) = NumpyType::for_type(data_type) else { return Ok((None, Vec::new(), None, None)) };
        let (shape, order) = row_shape(self.inner.field(), lengths.clone());
        let chunks = py.detach(|| match self.inner.contiguous()? {
            Some(whole) => Ok(vec![whole]),
            None => self.inner.chunks(),
        })?;
        // Fixed-size lists without nulls are shown as the numbers in them.
        let chunks = match lengths.as_ref().map(|shape| chunks.iter().map(|chunk| items(chunk, shape)).collect()) {
            None => chunks,
            Some(Some(items)) => items,
            Some(None) => return Ok((None, Vec::new(), None, None)),
        };
        let mut parts = Vec::with_capacity(chunks.len());
        for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
            parts.push((plain.values(chunk)?, nulls(py, chunk)));
        }
        let is_bool8 = self.inner.field().extension_type_name() == Some("arrow.bool8");
        let dtype = if is_bool8 { "bool".into() } else { plain.dtype.clone() };
        Ok((Some(dtype), parts, shape, order))
    }

    /// Of lists of numbers without nulls: NumPy's name of the numbers' type, the numbers, and either the shape of a row
    /// or, where lists have several lengths, where in the numbers the next list begins. ``None`` for others.
    fn _lists(&self, py: Python<'_>) -> Result<Option<NumpyLists>> {
        let is_list = matches!(self.inner.data_type(), DataType::List(_) | DataType::LargeList(_));
        let Some(whole) = py.detach(|| self.inner.contiguous())?.filter(|_| is_list) else { return Ok(None) };
        let (numbers, shape, ends) = match uniform(&whole) {
            Some((numbers, shape)) => (numbers, shape, None),
            None => match ragged(&whole) {
                Some((numbers, ends)) => (numbers, Vec::new(), Some(ends)),
                None => return Ok(None),
            },
        };
        let Some(plain) = NumpyType::for_type(numbers.data_type()) else { return Ok(None) };
        Ok(Some((plain.dtype.clone(), plain.values(&numbers)?, shape, ends)))
    }

    /// All values as a list.
    fn to_pylist<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        if blocking::may_block() {
            for row in 0..self.len(py)? {
                list.append(retry_until_fetched(py, || to_object(py, self.inner.get(row)?))?)?;
                stop_on_signal(py, row)?;
            }
            return Ok(list);
        }
        for (row, value) in self.inner.values().enumerate() {
            list.append(to_object(py, value?)?)?;
            stop_on_signal(py, row as u64)?;
        }
        Ok(list)
    }

    /// The column batch by batch.
    fn chunks(&self, py: Python<'_>) -> Result<Vec<Column>> {
        let batches = py.detach(|| self.inner.as_dataset().batches().collect::<Result<Vec<_>, _>>())?;
        batches.into_iter().map(|batch| Ok(Column::new(batch.column_at(0)?))).collect()
    }

    /// The column as a pyarrow chunked array, without copying.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> Result<Bound<'py, PyAny>> {
        let module = import_module(slf.py(), "pyarrow", "to_arrow()")?;
        Ok(module.call_py_method("chunked_array", (slf,))?)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        capsule::stream_capsule(py, py.detach(|| self.inner.export_stream())?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, arrowwood::export_field(self.inner.field())?)
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let name = escape_hidden(self.name());
        let dtype = self.dtype();
        let mut texts = retry_until_fetched(py, || {
            self.inner.slice(0, REPR_ROWS)?.values().map(|value| value_repr(py, value?)).collect::<Result<Vec<_>>>()
        })?;
        let len = self.len(py)?;
        if len > REPR_ROWS {
            texts.push("…".into());
        }
        Ok(format!("<arrowwood.Column '{name}': {dtype}, {len} rows>\n[{}]", texts.join(", ")))
    }
}

/// Returns the `repr` of a value. Values without a Python object, such as an instant in an unknown zone, are printed
/// all the same.
fn value_repr(py: Python<'_>, value: Value<'_>) -> Result<String> {
    match to_object(py, value.clone()) {
        Ok(object) => Ok(object.repr()?.to_string()),
        Err(_) => Ok(escape_hidden(&value.to_string()).into_owned()),
    }
}

/// Values, one after the other.
#[pyclass(module = "arrowwood")]
pub struct ValueIterator {
    column: Py<Column>,
    next: u64,
}

#[pymethods]
impl ValueIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let column = self.column.get();
        let value = retry_until_fetched(py, || match column.inner.get(self.next) {
            Ok(value) => to_object(py, value).map(Some),
            Err(e) if e.kind() == ErrorKind::RowOutOfRange => Ok(None),
            Err(e) => Err(e.into()),
        })?;
        self.next += u64::from(value.is_some());
        Ok(value)
    }
}
