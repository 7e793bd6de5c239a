//! Columns with one value in all rows, such as partition columns, which are not stored in files.

use std::sync::Mutex;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef};

use crate::array::{Parts, Unchecked, Value, cells, slice, value};
use crate::error::{Error, Result};
use crate::parallel;

/// A column with one value in all rows. Dictionary keys take no memory, other values that of an array as long as the
/// longest batch, once they are used.
#[derive(Debug)]
pub(crate) struct ConstantColumn {
    field: FieldRef,
    /// The value, as an array of one row.
    one: ArrayData,
    /// The longest array made so far.
    made: Mutex<ArrayData>,
}

impl ConstantColumn {
    /// A column of `value`.
    ///
    /// # Errors
    /// `InvalidArgument` if `value` is not of the field's type, or of a type that is not supported here.
    pub(crate) fn new(field: FieldRef, value: &Value<'_>) -> Result<ConstantColumn> {
        let one = repeated(field.data_type(), value, 1)?;
        Ok(ConstantColumn { field, made: Mutex::new(one.clone()), one })
    }

    pub(crate) fn field(&self) -> &FieldRef {
        &self.field
    }

    pub(crate) fn value(&self) -> Result<Value<'_>> {
        value(Unchecked::of(&self.one), 0)
    }

    /// The dictionary of its keys.
    pub(super) fn dictionary(&self) -> Option<&ArrayData> {
        self.one.child_data().first()
    }

    /// The column with `rows` rows. Shorter arrays are parts of longer ones.
    pub(super) fn of_len(&self, rows: usize) -> Result<ArrayData> {
        let mut made = parallel::lock(&self.made);
        if made.len() < rows {
            *made = repeated(self.field.data_type(), &self.value()?, rows.max(2 * made.len()))?;
        }
        Ok(slice(&made, 0, rows))
    }
}

/// An array of `rows` copies of `value`.
fn repeated(data_type: &DataType, value: &Value<'_>, rows: usize) -> Result<ArrayData> {
    let is_null = matches!(value, Value::Null);
    let wrong = || Error::argument(format!("{value} is no value of a partition column of type {data_type}"));
    let mut children = Vec::new();
    let buffers = match (data_type, value) {
        (DataType::Dictionary(keys, values), _) => {
            let width = keys.primitive_width().ok_or_else(wrong)?;
            let text = if is_null { Value::Str("") } else { value.clone() };
            children.push(Unchecked::of(&repeated(values, &text, 1)?).clone());
            vec![zeros(rows.saturating_mul(width))]
        }
        (DataType::Utf8 | DataType::LargeUtf8, Value::Str(_) | Value::Null) => {
            let text = if let Value::Str(text) = value { *text } else { "" };
            let end = |row: usize| row.checked_mul(text.len()).filter(|&end| end <= i32::MAX as usize);
            let ends = || (0..=rows).map(|row| end(row).ok_or_else(too_long));
            let offsets = if *data_type == DataType::Utf8 {
                Buffer::from_vec(ends().map(|end| end.map(|end| end as i32)).collect::<Result<Vec<_>>>()?)
            } else {
                Buffer::from_vec(ends().map(|end| end.map(|end| end as i64)).collect::<Result<Vec<_>>>()?)
            };
            vec![offsets, Buffer::from_vec(text.as_bytes().repeat(rows))]
        }
        (DataType::Boolean, Value::Bool(true)) => vec![Buffer::from_vec(vec![0xff_u8; rows.div_ceil(8)])],
        (DataType::Boolean, Value::Bool(false) | Value::Null) => vec![zeros(rows.div_ceil(8))],
        (_, Value::Null) => vec![zeros(rows.saturating_mul(data_type.primitive_width().ok_or_else(wrong)?))],
        _ => {
            let (raw, width) = cells::fixed(data_type, value).ok_or_else(wrong)?;
            vec![Buffer::from_vec(raw[..width].repeat(rows))]
        }
    };
    let validity = is_null.then(|| (zeros(rows.div_ceil(8)), rows));
    let parts = Parts { data_type: data_type.clone(), len: rows, validity, buffers, children };
    parts.assemble().checked(&[])
}

fn too_long() -> Error {
    Error::unsupported("a batch of more than 2 GiB of a partition's text; give the column a dictionary type")
}

/// Bytes of value 0, shared by all columns; the system gives them no memory as long as they are only read.
fn zeros(len: usize) -> Buffer {
    static ZEROS: Mutex<Option<Buffer>> = Mutex::new(None);
    /// Enough for small batches; no memory is touched.
    const LEAST: usize = 1 << 20;
    let mut shared = parallel::lock(&ZEROS);
    let longest = shared.as_ref().map_or(0, Buffer::len);
    if longest < len || longest == 0 {
        *shared = Some(Buffer::from_vec(vec![0_u64; len.max(2 * longest).max(LEAST).div_ceil(8)]));
    }
    shared.as_ref().map_or_else(|| Buffer::from_vec(vec![0_u8; len]), |zeros| zeros.slice_with_length(0, len))
}
