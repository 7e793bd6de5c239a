//! `Column`: one column of a dataset.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};
use arrowwood::{Error, ErrorKind, Value, blocking, escape_hidden, type_name};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};

use crate::convert::to_object::{to_object, unit_abbreviation};
use crate::exchange::buffer_protocol::ValuesBuffer;
use crate::exchange::capsule;
use crate::interpreter::errors::{PyArrowwoodError, Result, import_module, invalid_argument};
use crate::interpreter::py_call::{CallPy, attach, call_function, guard};
use crate::interpreter::signals::stop_on_signal;
use crate::interpreter::waits::retry_until_fetched;
use crate::types::schema;
use crate::types::tensor::{dtype_name, tensor_shape};

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

/// Values and nulls of a chunk.
type NumpyChunk<'py> = (ValuesBuffer, Option<Bound<'py, PyBytes>>);

/// The shape of a row of lists of one length, and the order of its dimensions, where that is not the one in memory.
type RowShape = (Option<Vec<usize>>, Option<Vec<usize>>);

/// NumPy's name of a type, the contents of the chunks, and the shape of a row.
type NumpyChunks<'py> = (Option<String>, Vec<NumpyChunk<'py>>, Option<Vec<usize>>, Option<Vec<usize>>);

/// Returns the shape of a row of `field`, whose lists have these lengths.
pub fn row_shape(field: &Field, lengths: Option<Vec<usize>>) -> RowShape {
    match tensor_shape(field) {
        Some(shape) => (Some(shape.sizes), shape.order),
        None => (lengths, None),
    }
}

/// How NumPy sees a type of fixed width.
pub struct NumpyType {
    pub dtype: String,
    pub width: usize,
    pub format: &'static CStr,
}

impl NumpyType {
    /// Returns NumPy's type for `data_type`; `None` if NumPy has none.
    pub fn for_type(data_type: &DataType) -> Option<NumpyType> {
        use DataType::*;
        let (dtype, format) = match data_type {
            Boolean => ("bool".into(), c"?"),
            Int8 => ("int8".into(), c"b"),
            Int16 => ("int16".into(), c"h"),
            Int32 => ("int32".into(), c"i"),
            Int64 => ("int64".into(), c"q"),
            UInt8 => ("uint8".into(), c"B"),
            UInt16 => ("uint16".into(), c"H"),
            UInt32 => ("uint32".into(), c"I"),
            UInt64 => ("uint64".into(), c"Q"),
            Float16 => ("float16".into(), c"e"),
            Float32 => ("float32".into(), c"f"),
            Float64 => ("float64".into(), c"d"),
            Date32 => ("datetime64[D]".into(), c"i"),
            Date64 => ("datetime64[ms]".into(), c"q"),
            Timestamp(unit, _) => (format!("datetime64[{}]", unit_abbreviation(*unit)), c"q"),
            Duration(unit) => (format!("timedelta64[{}]", unit_abbreviation(*unit)), c"q"),
            _ => return None,
        };
        Some(NumpyType { dtype, width: data_type.primitive_width().unwrap_or(1), format })
    }

    /// Returns the values of a chunk, in place; booleans have to be spread from bits to bytes.
    fn values(&self, chunk: &ArrayData) -> Result<ValuesBuffer> {
        let buffer = chunk.buffers().first().ok_or_else(|| {
            Error::new(ErrorKind::InvalidData, format!("{} has no buffer of values", chunk.data_type()))
        })?;
        let values = match chunk.data_type() {
            DataType::Boolean => spread(buffer, chunk),
            _ => cut(buffer, chunk.offset().checked_mul(self.width), chunk.len().checked_mul(self.width)),
        };
        let values = values.ok_or_else(|| {
            let message = format!("{} values in a buffer of {} bytes", chunk.len(), buffer.len());
            Error::new(ErrorKind::InvalidData, message)
        })?;
        Ok(ValuesBuffer::new(values, self.width, self.format))
    }
}

/// Returns bytes `start .. start + len` of `buffer`, or `None` if it ends before.
fn cut(buffer: &Buffer, start: Option<usize>, len: Option<usize>) -> Option<Buffer> {
    let start = start?;
    let len = len?;
    (start.checked_add(len)? <= buffer.len()).then(|| buffer.slice_with_length(start, len))
}

/// Returns true if lists of the type become rows of an array: numbers have the same layout in Arrow and NumPy.
fn is_vector(data_type: &DataType) -> bool {
    data_type.is_numeric() && NumpyType::for_type(data_type).is_some()
}

/// Returns the type of the numbers in lists of one length, which may be nested, and the lengths from the outermost list
/// on.
pub fn nested_list_shape(data_type: &DataType) -> Option<(&DataType, Vec<usize>)> {
    let mut item = data_type;
    let mut shape = Vec::new();
    while let DataType::FixedSizeList(inner, width @ 1..) = item {
        shape.push(usize::try_from(*width).ok()?);
        item = inner.data_type();
    }
    (!shape.is_empty() && is_vector(item)).then_some((item, shape))
}

/// Returns the numbers in the lists of these lengths of a chunk; `None` if some are null.
fn items(chunk: &ArrayData, shape: &[usize]) -> Option<ArrayData> {
    let mut lists = chunk.clone();
    for &width in shape {
        let start = lists.offset().checked_mul(width)?;
        let len = lists.len().checked_mul(width)?;
        let inside = lists.child_data().first().filter(|_| lists.null_count() == 0)?;
        lists = (start.checked_add(len)? <= inside.len()).then(|| inside.slice(start, len))?;
    }
    (lists.null_count() == 0).then_some(lists)
}

/// Numbers' type, numbers, and either the shape of a row or where the next row begins.
type NumpyLists = (String, ValuesBuffer, Vec<usize>, Option<Vec<i64>>);

/// Returns the start of the items of each list, and the end of the last list.
fn offsets(lists: &ArrayData) -> Option<Vec<i64>> {
    let bytes = lists.buffers().first()?.as_slice();
    let end = lists.offset().checked_add(lists.len())?.checked_add(1)?;
    match lists.data_type() {
        DataType::List(_) => {
            let all = bytes.as_chunks::<4>().0.get(lists.offset()..end)?;
            Some(all.iter().map(|raw| i32::from_le_bytes(*raw).into()).collect())
        }
        DataType::LargeList(_) => {
            let all = bytes.as_chunks::<8>().0.get(lists.offset()..end)?;
            Some(all.iter().map(|raw| i64::from_le_bytes(*raw)).collect())
        }
        _ => None,
    }
}

/// Returns the items of `lists`, which must not be null, and their starts; `None` if they are not numbers, or some are
/// null.
fn items_of(lists: &ArrayData) -> Option<(ArrayData, Vec<i64>)> {
    let offsets = offsets(lists).filter(|_| lists.null_count() == 0)?;
    let start = usize::try_from(*offsets.first()?).ok()?;
    let end = usize::try_from(*offsets.last()?).ok()?;
    let items = lists.child_data().first().filter(|items| start <= end && end <= items.len())?;
    Some((items.slice(start, end - start), offsets))
}

/// Returns the numbers in lists of one length, which may be nested, and the shape of a row.
fn uniform(lists: &ArrayData) -> Option<(ArrayData, Vec<usize>)> {
    let (found, len) = match lists.data_type() {
        DataType::FixedSizeList(_, width) => {
            let width = usize::try_from(*width).ok()?;
            (items(lists, &[width]).or_else(|| lists_inside(lists, width))?, width)
        }
        DataType::List(_) | DataType::LargeList(_) => {
            let (items, offsets) = items_of(lists)?;
            let len = offsets.get(1)?.checked_sub(*offsets.first()?)?;
            if offsets.windows(2).any(|ends| ends[1].checked_sub(ends[0]) != Some(len)) {
                return None;
            }
            (items, usize::try_from(len).ok()?)
        }
        item => return (is_vector(item) && lists.null_count() == 0).then(|| (lists.clone(), Vec::new())),
    };
    let (numbers, inner) = uniform(&found)?;
    Some((numbers, [vec![len], inner].concat()))
}

/// Returns the items, which are lists, of lists of `width` items that are not null.
fn lists_inside(lists: &ArrayData, width: usize) -> Option<ArrayData> {
    let start = lists.offset().checked_mul(width)?;
    let len = lists.len().checked_mul(width)?;
    let inside = lists.child_data().first().filter(|_| lists.null_count() == 0)?;
    (start.checked_add(len)? <= inside.len()).then(|| inside.slice(start, len))
}

/// Returns the numbers in lists of several lengths, and the start of each list but the first.
fn ragged(lists: &ArrayData) -> Option<(ArrayData, Vec<i64>)> {
    let (items, offsets) = items_of(lists)?;
    let first = *offsets.first()?;
    let inner = offsets.get(1..offsets.len().checked_sub(1)?)?;
    let is_plain = is_vector(items.data_type()) && items.null_count() == 0;
    is_plain.then(|| (items, inner.iter().map(|offset| offset - first).collect()))
}

/// Converts the bits of a chunk of booleans to bytes.
fn spread(buffer: &Buffer, chunk: &ArrayData) -> Option<Buffer> {
    let end = chunk.offset().checked_add(chunk.len())?;
    let enough = end.div_ceil(8) <= buffer.len();
    let bits = enough.then(|| BooleanBuffer::new(buffer.clone(), chunk.offset(), chunk.len()))?;
    Some(Buffer::from_vec(bits.iter().map(u8::from).collect::<Vec<_>>()))
}

/// Returns a byte for each row, 1 for a null; `None` if there is no null.
fn nulls<'py>(py: Python<'py>, chunk: &ArrayData) -> Option<Bound<'py, PyBytes>> {
    let nulls = chunk.nulls().filter(|nulls| nulls.null_count() > 0)?;
    let bytes: Vec<u8> = nulls.iter().map(|valid| u8::from(!valid)).collect();
    Some(PyBytes::new(py, &bytes))
}

/// Converts a chunk without nulls to a NumPy array.
fn array<'py>(py: Python<'py>, chunk: &ArrayData) -> Result<Bound<'py, PyAny>, PyArrowwoodError> {
    let Some(plain) = NumpyType::for_type(chunk.data_type()) else {
        let message = format!("map_reduce of type {} is not supported", type_name(chunk.data_type()));
        return Err(Error::new(ErrorKind::Unsupported, message).into());
    };
    let dtype = py.import("numpy")?.getattr("dtype")?.call_py((&plain.dtype,))?;
    Ok(py.import("arrowwood._numpy")?.call_py_method("view_as", (plain.values(chunk)?, dtype))?)
}
