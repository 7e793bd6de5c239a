//! The order of values, for columns that a table keeps sorted.

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::error::{Error, ErrorKind, Result};
use crate::value::{Value, value};

/// A value in a form that can be compared and kept.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(super) enum Key {
    Int(i128),
    Float(f64),
    Decimal(i256),
    Bytes(Vec<u8>),
}

impl Key {
    /// The key of a value; `None` for nulls, NaN and what has no order.
    pub fn of(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Int(n) | Value::Date(n) | Value::Time(n, _) | Value::Timestamp(n, ..) | Value::Duration(n, _) => {
                Key::Int((*n).into())
            }
            Value::UInt(n) => Key::Int((*n).into()),
            Value::Bool(b) => Key::Int((*b).into()),
            Value::Float32(x) if !x.is_nan() => Key::Float((*x).into()),
            Value::Float64(x) if !x.is_nan() => Key::Float(*x),
            Value::Decimal { digits, .. } => Key::Decimal(*digits),
            Value::Str(text) => Key::Bytes(text.as_bytes().to_vec()),
            Value::Bytes(bytes) => Key::Bytes(bytes.to_vec()),
            _ => return None,
        })
    }
}

/// Whether columns of the type can be kept in order.
pub(super) fn has_order(data_type: &DataType) -> bool {
    use DataType::*;
    let is_text = matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView);
    is_text || data_type.is_integer() || data_type.is_floating() || data_type.is_decimal() || {
        matches!(data_type, Timestamp(..) | Date32 | Date64 | Time32(_) | Time64(_) | Duration(_) | FixedSizeBinary(_))
    }
}

/// The key of the last row, if no row of `array` comes before the one above it or before `last`.
pub(super) fn follow(name: &str, array: &ArrayData, last: Option<&Key>) -> Result<Option<Key>> {
    if array.is_empty() {
        return Ok(last.cloned());
    }
    if let Some((first, end)) = ascending_words(array) {
        let first = Key::Int(first.into());
        if last.is_none_or(|last| *last <= first) {
            return Ok(Some(Key::Int(end.into())));
        }
    }
    let mut before = last.cloned();
    for row in 0..array.len() {
        let found = value(array, row)?;
        let key = Key::of(&found).ok_or_else(|| {
            let message = format!("column '{name}', row {row}: {found} in the column that the table is sorted by");
            Error::new(ErrorKind::InvalidArgument, message)
        })?;
        if before.as_ref().is_some_and(|before| key < *before) {
            let message = format!("column '{name}', row {row}: {found} is less than the row before, and the table is sorted by it");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        before = Some(key);
    }
    Ok(before)
}

/// First and last of 64-bit numbers without nulls that never decrease; `None` where that's not what they are.
fn ascending_words(array: &ArrayData) -> Option<(i64, i64)> {
    use DataType::{Date64, Duration, Int64, Time64, Timestamp};
    let is_signed = matches!(array.data_type(), Int64 | Timestamp(..) | Date64 | Time64(_) | Duration(_));
    if !is_signed || array.null_count() > 0 {
        return None;
    }
    let bytes = array.buffers().first()?.get(8 * array.offset()..8 * (array.offset() + array.len()))?;
    let words = bytes.as_chunks::<8>().0;
    let pairs = words.iter().zip(words.iter().skip(1));
    let sorted = pairs.fold(true, |so_far, (&a, &b)| so_far & (i64::from_le_bytes(a) <= i64::from_le_bytes(b)));
    let ends = (i64::from_le_bytes(*words.first()?), i64::from_le_bytes(*words.last()?));
    sorted.then_some(ends)
}
