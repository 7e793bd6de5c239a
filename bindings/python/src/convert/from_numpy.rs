//! The parts of a NumPy array as an Arrow array; numbers are used in place.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, TimestampSecondType};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, TimeUnit};
use arrowwood::readable::time_zone_advice;
use arrowwood::{Value, type_name, zones_agree};
use pyo3::prelude::*;

use crate::exchange::memory::arrow_buffer;
use crate::interpreter::errors::{Result, invalid_argument, type_error};
use crate::types::tensor::{tensor_field, tensor_shape};

/// Kind, values, which of them are null, and shape (`arrowwood/_incoming.py`).
pub type NumpyParts<'py> = (String, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Vec<usize>);

/// A NumPy array: its values side by side, and the shape of a row.
pub struct NumpyArray {
    values: ArrayData,
    rows: usize,
    shape: Vec<usize>,
}

impl NumpyArray {
    /// Assembles an array from the parts that Python's helper returns.
    pub fn try_new((kind, values, nulls, shape): NumpyParts<'_>) -> Result<NumpyArray> {
        let data_type =
            data_type(&kind).ok_or_else(|| type_error(format!("NumPy arrays of {kind} cannot become Arrow")))?;
        let values = arrow_buffer(&values)?;
        let nulls = nulls.map(|nulls| arrow_buffer(&nulls)).transpose()?;
        let nulls = nulls.map(|nulls| NullBuffer::new(flags(&nulls, |byte| byte == 0)));
        let (len, buffer) = match data_type.primitive_width() {
            Some(bytes) => (values.len() / bytes.max(1), values),
            None => (values.len(), flags(&values, |byte| byte != 0).into_inner()),
        };
        let array = ArrayData::builder(data_type).len(len).nulls(nulls).add_buffer(buffer).align_buffers(true).build();
        let values = array.map_err(|e| invalid_argument(format!("reading a NumPy array: {e}")))?;
        let (rows, shape) = shape.split_first().map_or((len, &[][..]), |(rows, shape)| (*rows, shape));
        Ok(NumpyArray { values, rows, shape: shape.to_vec() })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns the column's field: of values, of fixed-size lists, or, for more dimensions without nulls, of tensors.
    pub fn field(&self, name: &str) -> Result<Field> {
        let field = Field::new(name, self.array(None)?.data_type().clone(), true);
        Ok(if self.is_tensor() { tensor_field(field, &self.shape) } else { field })
    }

    fn is_tensor(&self) -> bool {
        let has_rows = self.shape.iter().all(|size| *size > 0);
        self.shape.len() > 1 && has_rows && self.values.data_type().is_numeric() && self.values.null_count() == 0
    }

    /// The array for `field`, or for the field it has itself: tensors as one list a row, others as lists in lists. The
    /// rows of tensors may be flat.
    ///
    /// # Errors
    /// `InvalidArgument` where `field` is of tensors of another shape.
    pub fn array(&self, field: Option<&Field>) -> Result<ArrayRef> {
        let wanted = field.and_then(tensor_shape);
        if let (Some(wanted), Some(field)) = (&wanted, field)
            && (wanted.sizes != self.shape && self.shape != [wanted.items()] || wanted.order.is_some())
        {
            let NumpyArray { rows, shape, .. } = self;
            let expected = &wanted.sizes;
            let order = if wanted.order.is_some() { ", with its dimensions permuted: append Arrow data" } else { "" };
            let message = format!(
                "column '{}': expected rows of shape {expected:?}, got {shape:?} in {rows} rows{order}",
                field.name()
            );
            return Err(invalid_argument(message));
        }
        if wanted.is_some() || field.is_none() && self.is_tensor() {
            let width = self.shape.iter().try_fold(1usize, |width, size| width.checked_mul(*size));
            return Ok(make_array(rows(self.values.clone(), width.unwrap_or(usize::MAX), self.rows)?));
        }
        // The last dimension is the innermost list.
        let lists = (0..self.shape.len()).rev().try_fold(self.values.clone(), |items, dimension| {
            let outer = self.shape.iter().take(dimension).try_fold(self.rows, |len, size| len.checked_mul(*size));
            rows(items, self.shape[dimension], outer.unwrap_or(usize::MAX))
        });
        Ok(make_array(lists?))
    }
}

/// `array` in the time zone of `data_type`, where that is UTC: NumPy knows no zones, and its times are in UTC where the
/// column is.
///
/// # Errors
/// `TypeError` where the column has another zone, in which a time may be two instants or none.
pub fn in_zone(array: &ArrayRef, name: &str, data_type: &DataType) -> Result<ArrayRef> {
    let DataType::Timestamp(_, Some(zone)) = data_type else { return Ok(array.clone()) };
    let (unit, values) = match array.data_type() {
        DataType::Timestamp(unit, None) => (*unit, array.to_data()),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            let seconds = days.unary::<_, TimestampSecondType>(|days| i64::from(days) * 86_400);
            (TimeUnit::Second, seconds.to_data())
        }
        _ => return Ok(array.clone()),
    };
    if !zones_agree(Some(zone), Some("")) {
        let advice = time_zone_advice(data_type, &Value::Timestamp(0, unit, Some("")));
        let wanted = type_name(data_type);
        let got = type_name(array.data_type());
        return Err(type_error(format!("column '{name}': expected {wanted}, got NumPy's {got}{advice}")));
    }
    let zoned = values.into_builder().data_type(DataType::Timestamp(unit, Some(zone.clone()))).build();
    Ok(make_array(zoned.map_err(|e| invalid_argument(format!("reading a NumPy array: {e}")))?))
}

/// Builds `len` lists of `width` items each.
fn rows(items: ArrayData, width: usize, len: usize) -> Result<ArrayData> {
    let Ok(size) = i32::try_from(width) else {
        let message = format!("a NumPy array has {width} items in a row, more than a list of Arrow can have");
        return Err(invalid_argument(message));
    };
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    let lists = ArrayData::builder(DataType::FixedSizeList(item, size)).len(len).add_child_data(items).build();
    lists.map_err(|e| invalid_argument(format!("reading a NumPy array: {e}")))
}

fn flags(bytes: &Buffer, is: impl Fn(u8) -> bool) -> BooleanBuffer {
    BooleanBuffer::collect_bool(bytes.len(), |at| is(bytes[at]))
}

/// Returns the type for a kind of NumPy's values.
pub fn data_type(kind: &str) -> Option<DataType> {
    use DataType::*;
    Some(match kind {
        "bool" => Boolean,
        "int8" => Int8,
        "int16" => Int16,
        "int32" => Int32,
        "int64" => Int64,
        "uint8" => UInt8,
        "uint16" => UInt16,
        "uint32" => UInt32,
        "uint64" => UInt64,
        "float16" => Float16,
        "float32" => Float32,
        "float64" => Float64,
        "date32" => Date32,
        other => match other.trim_end_matches(']').split_once('[')? {
            ("timestamp", letters) => Timestamp(unit(letters)?, None),
            ("duration", letters) => Duration(unit(letters)?),
            _ => return None,
        },
    })
}

fn unit(letters: &str) -> Option<TimeUnit> {
    Some(match letters {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    })
}
