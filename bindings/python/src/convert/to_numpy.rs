//! Columns as NumPy sees them: types, and chunks as memory.

use std::ffi::CStr;

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};
use arrowwood::{Error, ErrorKind, type_name};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::to_object::unit_abbreviation;
use crate::exchange::buffer_protocol::ValuesBuffer;
use crate::interpreter::errors::{PyArrowwoodError, Result};
use crate::interpreter::py_call::CallPy;
use crate::types::tensor::tensor_shape;

/// Values and nulls of a chunk.
type NumpyChunk<'py> = (ValuesBuffer, Option<Bound<'py, PyBytes>>);

/// The shape of a row of lists of one length, and the order of its dimensions, where that is not the one in memory.
type RowShape = (Option<Vec<usize>>, Option<Vec<usize>>);

/// NumPy's name of a type, the contents of the chunks, and the shape of a row.
pub type NumpyChunks<'py> = (Option<String>, Vec<NumpyChunk<'py>>, Option<Vec<usize>>, Option<Vec<usize>>);

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
    pub fn values(&self, chunk: &ArrayData) -> Result<ValuesBuffer> {
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
pub fn items(chunk: &ArrayData, shape: &[usize]) -> Option<ArrayData> {
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
pub type NumpyLists = (String, ValuesBuffer, Vec<usize>, Option<Vec<i64>>);

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
pub fn uniform(lists: &ArrayData) -> Option<(ArrayData, Vec<usize>)> {
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
pub fn ragged(lists: &ArrayData) -> Option<(ArrayData, Vec<i64>)> {
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
pub fn nulls<'py>(py: Python<'py>, chunk: &ArrayData) -> Option<Bound<'py, PyBytes>> {
    let nulls = chunk.nulls().filter(|nulls| nulls.null_count() > 0)?;
    let bytes: Vec<u8> = nulls.iter().map(|valid| u8::from(!valid)).collect();
    Some(PyBytes::new(py, &bytes))
}

/// Converts a chunk without nulls to a NumPy array.
pub fn array<'py>(py: Python<'py>, chunk: &ArrayData) -> Result<Bound<'py, PyAny>, PyArrowwoodError> {
    let Some(plain) = NumpyType::for_type(chunk.data_type()) else {
        let message = format!("map_reduce of type {} is not supported", type_name(chunk.data_type()));
        return Err(Error::new(ErrorKind::Unsupported, message).into());
    };
    let dtype = py.import("numpy")?.getattr("dtype")?.call_py((&plain.dtype,))?;
    Ok(py.import("arrowwood._numpy")?.call_py_method("view_as", (plain.values(chunk)?, dtype))?)
}
