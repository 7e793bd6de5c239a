//! Columns with one value in all rows, such as partition columns, which are not stored in files.

use std::fmt;
use std::sync::Mutex;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef};

use crate::array::{ArrayParts, UncheckedArray, Value, has_room, room_for, slice, value, value_bytes};
use crate::error::{Error, Result};
use crate::map::MutexExt;
use crate::types::layout;

/// A column with one value in all rows.
///
/// Dictionary keys take no memory. Other values take an array as long as the longest batch, once they are used.
pub(crate) struct ConstantColumn {
    field: FieldRef,
    /// The value, as an array of one row.
    one: ArrayData,
    /// The longest array made so far. Shorter arrays are slices of it. The mutex is held while a longer one is made,
    /// which may take the mutex of the shared zeros.
    longest: Mutex<ArrayData>,
}

/// Shows the field, not an array as long as a batch.
impl fmt::Debug for ConstantColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConstantColumn").field("field", &self.field).finish_non_exhaustive()
    }
}

impl ConstantColumn {
    /// Creates a column with `value` in all rows.
    ///
    /// # Errors
    /// `InvalidArgument` if `value` is not of the field's type, or of a type that is not supported here.
    pub(crate) fn new(field: FieldRef, value: &Value<'_>) -> Result<ConstantColumn> {
        let one = repeated(field.data_type(), value, 1)?;
        Ok(ConstantColumn { field, longest: Mutex::new(one.clone()), one })
    }

    pub(crate) fn field(&self) -> &FieldRef {
        &self.field
    }

    pub(crate) fn value(&self) -> Result<Value<'_>> {
        value(UncheckedArray::from_ref(&self.one), 0)
    }

    /// Returns the column with one row. Reading single values from it needs no array of as many rows as a file claims
    /// to have.
    pub(crate) fn one(&self) -> &UncheckedArray {
        UncheckedArray::from_ref(&self.one)
    }

    /// Returns the size in bytes of an array with `rows` rows, without its dictionary. No array is made.
    pub(super) fn nbytes(&self, rows: usize) -> u64 {
        let data_type = self.field.data_type();
        let layout = layout(data_type);
        let buffers = layout.value_roles().map(|role| role.bytes_for(rows).map_or(u64::MAX, |bytes| bytes as u64));
        let validity = if self.one.nulls().is_some() { rows.div_ceil(8) as u64 } else { 0 };
        let text = match data_type {
            DataType::Utf8 | DataType::LargeUtf8 => self.one.buffers().get(1).map_or(0, |text| text.len() as u64),
            _ => 0,
        };
        buffers.chain([validity, text.saturating_mul(rows as u64)]).fold(0, u64::saturating_add)
    }

    /// Returns the dictionary of a column of dictionary keys.
    pub(super) fn dictionary(&self) -> Option<&ArrayData> {
        self.one.child_data().first()
    }

    /// Returns the column with `rows` rows.
    ///
    /// # Errors
    /// `Io` if there is no memory for them; `Unsupported` for too much text.
    pub(super) fn array_with_len(&self, rows: usize) -> Result<ArrayData> {
        let mut longest = self.longest.lock_ignoring_poison();
        if longest.len() < rows {
            let data_type = self.field.data_type();
            let value = self.value()?;
            // Doubles the length if memory allows, so that batches that are a little longer each time need few arrays.
            let doubled = longest.len().saturating_mul(2);
            *longest = if doubled > rows {
                repeated(data_type, &value, doubled).or_else(|_| repeated(data_type, &value, rows))?
            } else {
                repeated(data_type, &value, rows)?
            };
            assert!(longest.len() >= rows, "{} rows of a constant column, not {rows}", longest.len());
        }
        Ok(slice(&longest, 0, rows))
    }
}

fn wrong_type(data_type: &DataType, value: &Value<'_>) -> Error {
    Error::invalid_argument(format!("{value} is no value of a partition column of type {data_type}"))
}

/// Creates an array of `rows` copies of `value`.
///
/// # Errors
/// `InvalidArgument` if the value is not of the type, or the type not supported here; `Io` if there is no memory;
/// `Unsupported` for more text than an array may have.
fn repeated(data_type: &DataType, value: &Value<'_>, rows: usize) -> Result<ArrayData> {
    let is_null = matches!(value, Value::Null);
    let mut children = Vec::new();
    let buffers = match (data_type, value) {
        (DataType::Dictionary(keys, values), _) => {
            let width = keys.primitive_width().ok_or_else(|| wrong_type(data_type, value))?;
            let text = if is_null { Value::Str("") } else { value.clone() };
            children.push(UncheckedArray::from_ref(&repeated(values, &text, 1)?).clone());
            vec![zeros(rows, width)?]
        }
        (DataType::Utf8 | DataType::LargeUtf8, Value::Str(_) | Value::Null) => {
            let text = if let Value::Str(text) = value { *text } else { "" };
            let width = if *data_type == DataType::Utf8 { 4 } else { 8 };
            vec![offsets(rows, text.len(), width)?, copies(text.as_bytes(), rows)?]
        }
        (DataType::Boolean, Value::Bool(true)) => vec![copies(&[0xff], rows.div_ceil(8))?],
        (DataType::Boolean, Value::Bool(false) | Value::Null) => vec![zeros(rows.div_ceil(8), 1)?],
        (_, Value::Null) => {
            let width = data_type.primitive_width().ok_or_else(|| wrong_type(data_type, value))?;
            vec![zeros(rows, width)?]
        }
        _ => {
            let encoded = value_bytes::encode_fixed(data_type, value);
            let (raw, width) = encoded.ok_or_else(|| wrong_type(data_type, value))?;
            vec![copies(&raw[..width], rows)?]
        }
    };
    let validity = if is_null { Some((zeros(rows.div_ceil(8), 1)?, rows)) } else { None };
    let parts = ArrayParts { data_type: data_type.clone(), len: rows, validity, buffers, children };
    parts.assemble().checked(&[])
}

/// Creates the offsets, of `width` bytes, of `rows` texts of `len` bytes.
fn offsets(rows: usize, len: usize, width: usize) -> Result<Buffer> {
    debug_assert!(width == 4 || width == 8, "offsets of {width} bytes");
    let count = rows.saturating_add(1);
    if len == 0 {
        return zeros(count, width);
    }
    if rows.checked_mul(len).is_none_or(|end| end > i32::MAX as usize) {
        let message = "a batch of more than 2 GiB of a partition's text; give the column a dictionary type";
        return Err(Error::unsupported(message));
    }
    let ends = (0..count).map(|row| row * len);
    Ok(if width == 4 {
        let mut offsets = room_for::<i32>(count as u64, ROWS)?;
        offsets.extend(ends.map(|end| (end as i32).to_le()));
        Buffer::from_vec(offsets)
    } else {
        let mut offsets = room_for::<i64>(count as u64, ROWS)?;
        offsets.extend(ends.map(|end| (end as i64).to_le()));
        Buffer::from_vec(offsets)
    })
}

/// Names the bytes that have no room, in errors.
const ROWS: &str = "bytes of a partition column's rows";

fn no_room(rows: usize, width: usize) -> Error {
    Error::out_of_memory(format!("{rows} rows of a partition column, of {width} bytes each, have no room in memory"))
}

/// Creates a buffer with `rows` copies of the bytes `raw`.
fn copies(raw: &[u8], rows: usize) -> Result<Buffer> {
    let len = raw.len().checked_mul(rows).ok_or_else(|| no_room(rows, raw.len()))?;
    let mut all = room_for::<u8>(len as u64, ROWS)?;
    if len > 0 {
        all.extend_from_slice(raw);
    }
    while all.len() < len {
        all.extend_from_within(..all.len().min(len - all.len()));
    }
    assert_eq!(all.len(), len, "bytes of {rows} rows of {} bytes", raw.len());
    Ok(Buffer::from_vec(all))
}

/// Returns `rows` zeros of `width` bytes, from a buffer that all columns share. It takes no physical memory as long as
/// it is only read.
///
/// # Errors
/// `Io` if there is no room.
fn zeros(rows: usize, width: usize) -> Result<Buffer> {
    static ZEROS: Mutex<Option<Buffer>> = Mutex::new(None);
    /// Enough for small batches; no memory is touched.
    const MIN_BYTES: usize = 1 << 20;
    let len = rows.checked_mul(width).ok_or_else(|| no_room(rows, width))?;
    let mut shared = ZEROS.lock_ignoring_poison();
    if let Some(zeros) = shared.as_ref().filter(|zeros| zeros.len() >= len) {
        return Ok(zeros.slice_with_length(0, len));
    }
    let preferred = shared.as_ref().map_or(MIN_BYTES, |zeros| zeros.len().saturating_mul(2)).max(len);
    let longer = zeroed(preferred).or_else(|| zeroed(len)).ok_or_else(|| no_room(rows, width))?;
    assert!(longer.len() >= len, "{} zeros, not {len}", longer.len());
    let zeros = longer.slice_with_length(0, len);
    *shared = Some(longer);
    Ok(zeros)
}

/// Allocates at least `len` zeros without touching their memory; `None` if there is no room for them.
fn zeroed(len: usize) -> Option<Buffer> {
    /// The bytes of pages for which the system keeps one byte of page tables once they are read.
    const BYTES_PER_TABLE_BYTE: u64 = 512;
    if !has_room(len as u64 / BYTES_PER_TABLE_BYTE) {
        return None;
    }
    let words = len.div_ceil(8);
    // `vec!` aborts the process if there is not enough address space, so a fallible reservation tries it first.
    let mut reserved = Vec::<u64>::new();
    reserved.try_reserve_exact(words).ok()?;
    // The compiler may leave out a reservation that is not used.
    drop(std::hint::black_box(reserved));
    Some(Buffer::from_vec(vec![0_u64; words]))
}
