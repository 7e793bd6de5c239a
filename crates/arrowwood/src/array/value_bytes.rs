//! Encodes a value as the bytes that its column stores.

use arrow_buffer::i256;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::value::Value;
use crate::types::layout::zones_agree;
use crate::types::{MAX_INLINE, MILLIS_PER_DAY, NANOS_PER_MILLI, VIEW_WIDTH, per_second};

/// The number of bytes of the widest fixed-width value.
pub(crate) const WIDEST: usize = 32;

/// Returns true if the type is stored as a signed 64-bit integer.
#[inline]
pub(crate) fn is_signed_word(data_type: &DataType) -> bool {
    use DataType::{Date64, Duration, Int64, Time64, Timestamp};
    matches!(data_type, Int64 | Timestamp(..) | Date64 | Time64(_) | Duration(_))
}

/// Returns the bytes of a fixed-width value, in the front of an array, and their number; `None` if a column of the type
/// can't store the value.
#[inline]
pub(crate) fn encode_fixed(data_type: &DataType, value: &Value<'_>) -> Option<([u8; WIDEST], usize)> {
    use DataType::*;
    let number = match value {
        Value::Float64(x) => return float(data_type, *x),
        Value::Float32(x) => return float(data_type, (*x).into()),
        Value::Int(n) => i128::from(*n),
        Value::UInt(n) => i128::from(*n),
        Value::Int128(n) => *n,
        Value::Date(days) => match data_type {
            Date32 => i128::from(*days),
            Date64 => i128::from(*days) * i128::from(MILLIS_PER_DAY),
            _ => return None,
        },
        Value::Time(n, unit) => match data_type {
            Time32(target) | Time64(target) => rescale(*n, *unit, *target)?,
            _ => return None,
        },
        Value::Timestamp(n, unit, zone) => match data_type {
            Timestamp(target, column) if zones_agree(column.as_deref(), *zone) => rescale(*n, *unit, *target)?,
            _ => return None,
        },
        Value::Duration(n, unit) => match data_type {
            Duration(target) => rescale(*n, *unit, *target)?,
            _ => return None,
        },
        Value::Decimal { digits, scale } => return decimal(data_type, *digits, *scale),
        Value::Interval { months, days, nanoseconds, .. } => return interval(data_type, *months, *days, *nanoseconds),
        _ => return None,
    };
    integer(data_type, number)
}

fn bytes<const N: usize>(raw: [u8; N]) -> Option<([u8; WIDEST], usize)> {
    let mut wide = [0; WIDEST];
    wide[..N].copy_from_slice(&raw);
    Some((wide, N))
}

#[inline]
fn integer(data_type: &DataType, n: i128) -> Option<([u8; WIDEST], usize)> {
    use DataType::*;
    match data_type {
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => bytes(i64::try_from(n).ok()?.to_le_bytes()),
        Int32 | Date32 | Time32(_) => bytes(i32::try_from(n).ok()?.to_le_bytes()),
        UInt64 => bytes(u64::try_from(n).ok()?.to_le_bytes()),
        UInt32 => bytes(u32::try_from(n).ok()?.to_le_bytes()),
        Int16 => bytes(i16::try_from(n).ok()?.to_le_bytes()),
        UInt16 => bytes(u16::try_from(n).ok()?.to_le_bytes()),
        Int8 => bytes(i8::try_from(n).ok()?.to_le_bytes()),
        UInt8 => bytes(u8::try_from(n).ok()?.to_le_bytes()),
        Float16 | Float32 | Float64 => {
            // Integers that the float represents exactly.
            let exact = n as f64;
            let stored = narrowed(data_type, n as f64);
            if exact as i128 == n && stored == exact { float(data_type, exact) } else { None }
        }
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => decimal(data_type, i256::from_i128(n), 0),
        _ => None,
    }
}

/// Returns the float that a column stores for `x`.
fn narrowed(data_type: &DataType, x: f64) -> f64 {
    match data_type {
        DataType::Float32 => (x as f32).into(),
        DataType::Float16 => half::f16::from_f64(x).to_f64(),
        _ => x,
    }
}

/// Encodes a float, rounded to the column's precision, but not to infinity.
fn float(data_type: &DataType, x: f64) -> Option<([u8; WIDEST], usize)> {
    if x.is_finite() && narrowed(data_type, x).is_infinite() {
        return None;
    }
    match data_type {
        DataType::Float64 => bytes(x.to_le_bytes()),
        DataType::Float32 => bytes((x as f32).to_le_bytes()),
        DataType::Float16 => bytes(half::f16::from_f64(x).to_le_bytes()),
        _ => None,
    }
}

fn decimal(data_type: &DataType, digits: i256, scale: i8) -> Option<([u8; WIDEST], usize)> {
    use DataType::*;
    let (Decimal32(precision, column_scale)
    | Decimal64(precision, column_scale)
    | Decimal128(precision, column_scale)
    | Decimal256(precision, column_scale)) = data_type
    else {
        return None;
    };
    let more_digits = u32::try_from(i32::from(*column_scale) - i32::from(scale)).ok()?;
    let ten = i256::from(10i64);
    let digits = digits.checked_mul(ten.checked_pow(more_digits)?)?;
    let limit = ten.checked_pow((*precision).into());
    if limit.is_some_and(|limit| digits >= limit || digits <= -limit) {
        return None;
    }
    let (wide, width) = bytes(digits.to_le_bytes())?;
    Some((wide, data_type.primitive_width().unwrap_or(width)))
}

fn interval(data_type: &DataType, months: i32, days: i32, nanoseconds: i64) -> Option<([u8; WIDEST], usize)> {
    let DataType::Interval(unit) = data_type else { return None };
    match unit {
        IntervalUnit::YearMonth if days == 0 && nanoseconds == 0 => bytes(months.to_le_bytes()),
        IntervalUnit::DayTime if months == 0 && nanoseconds % NANOS_PER_MILLI == 0 => {
            let millis = i32::try_from(nanoseconds / NANOS_PER_MILLI).ok()?;
            let mut raw = [0; 8];
            raw[..4].copy_from_slice(&days.to_le_bytes());
            raw[4..].copy_from_slice(&millis.to_le_bytes());
            bytes(raw)
        }
        IntervalUnit::MonthDayNano => {
            let mut raw = [0; 16];
            raw[..4].copy_from_slice(&months.to_le_bytes());
            raw[4..8].copy_from_slice(&days.to_le_bytes());
            raw[8..].copy_from_slice(&nanoseconds.to_le_bytes());
            bytes(raw)
        }
        _ => None,
    }
}

/// Converts `n` of `unit` to `target` units, if the result is a whole number.
pub(crate) fn rescale(n: i64, unit: TimeUnit, target: TimeUnit) -> Option<i128> {
    if unit == target {
        return Some(n.into());
    }
    let product = i128::from(n) * i128::from(per_second(target));
    let divisor = i128::from(per_second(unit));
    (product % divisor == 0).then(|| product / divisor)
}

/// Returns the view of a text. A long text is at `offset` of buffer 0.
#[inline]
pub(crate) fn encode_view(text: &[u8], offset: u64) -> [u8; VIEW_WIDTH] {
    debug_assert!(text.len() <= MAX_INLINE || u32::try_from(offset).is_ok(), "a view can't point to byte {offset}");
    let mut view = [0; VIEW_WIDTH];
    view[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    match text.len() {
        0..=MAX_INLINE => view[4..4 + text.len()].copy_from_slice(text),
        _ => {
            view[4..8].copy_from_slice(&text[..4]);
            view[12..].copy_from_slice(&(offset as u32).to_le_bytes());
        }
    }
    view
}
