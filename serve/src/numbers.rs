//! Numbers and times of a column as floats, for pictures.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, make_array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use arrowwood::{Value, cut};

/// Characters of a number.
const WIDTH: usize = 60;

/// Whether a column of the type is drawn by its numbers.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_integer()
        || data_type.is_floating()
        || matches!(data_type, Decimal32(..) | Decimal64(..) | Decimal128(..) | Timestamp(..) | Duration(_))
        || matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_))
}

/// A float as the value of a column of the type, in words.
pub(crate) fn text_of(data_type: &DataType, x: f64) -> String {
    use DataType::*;
    // Floats beyond the numbers of a column can't be its values; the nearest is shown.
    let n = x as i64;
    let value = match data_type {
        Timestamp(unit, zone) => Value::Timestamp(n, *unit, zone.as_deref()),
        Duration(unit) => Value::Duration(n, *unit),
        Date32 => Value::Date(n),
        Date64 => Value::Timestamp(n, TimeUnit::Millisecond, None),
        Time32(unit) | Time64(unit) => Value::Time(n, *unit),
        own if own.is_integer() => Value::Int(n),
        Float16 | Float32 => Value::Float32(x as f32),
        _ => Value::Float64(x),
    };
    cut(&value, WIDTH)
}

/// Calls `seen` with runs of values, as floats, in order; null is `None`.
pub(crate) fn each_number(array: &ArrayData, mut seen: impl FnMut(Option<f64>)) {
    use DataType::*;
    let data_type = array.data_type().clone();
    let array = make_array(array.clone());
    let scaled = |scale: i8| 10f64.powi(-i32::from(scale));
    macro_rules! each {
        ($type:ty, $convert:expr) => {
            each(array.as_primitive::<$type>(), $convert, &mut seen)
        };
    }
    match data_type {
        Int8 => each!(Int8Type, f64::from),
        Int16 => each!(Int16Type, f64::from),
        Int32 => each!(Int32Type, f64::from),
        Int64 => each!(Int64Type, |n| n as f64),
        UInt8 => each!(UInt8Type, f64::from),
        UInt16 => each!(UInt16Type, f64::from),
        UInt32 => each!(UInt32Type, f64::from),
        UInt64 => each!(UInt64Type, |n| n as f64),
        Float16 => each!(Float16Type, f64::from),
        Float32 => each!(Float32Type, f64::from),
        Float64 => each!(Float64Type, |x| x),
        Decimal32(_, scale) => each!(Decimal32Type, |n| f64::from(n) * scaled(scale)),
        Decimal64(_, scale) => each!(Decimal64Type, |n| n as f64 * scaled(scale)),
        Decimal128(_, scale) => each!(Decimal128Type, |n| n as f64 * scaled(scale)),
        Date32 => each!(Date32Type, f64::from),
        Date64 => each!(Date64Type, |n| n as f64),
        Time32(TimeUnit::Second) => each!(Time32SecondType, f64::from),
        Time32(_) => each!(Time32MillisecondType, f64::from),
        Time64(TimeUnit::Microsecond) => each!(Time64MicrosecondType, |n| n as f64),
        Time64(_) => each!(Time64NanosecondType, |n| n as f64),
        Timestamp(TimeUnit::Second, _) => each!(TimestampSecondType, |n| n as f64),
        Timestamp(TimeUnit::Millisecond, _) => each!(TimestampMillisecondType, |n| n as f64),
        Timestamp(TimeUnit::Microsecond, _) => each!(TimestampMicrosecondType, |n| n as f64),
        Timestamp(TimeUnit::Nanosecond, _) => each!(TimestampNanosecondType, |n| n as f64),
        Duration(TimeUnit::Second) => each!(DurationSecondType, |n| n as f64),
        Duration(TimeUnit::Millisecond) => each!(DurationMillisecondType, |n| n as f64),
        Duration(TimeUnit::Microsecond) => each!(DurationMicrosecondType, |n| n as f64),
        Duration(TimeUnit::Nanosecond) => each!(DurationNanosecondType, |n| n as f64),
        _ => (),
    }
}

#[inline(always)]
fn each<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    convert: impl Fn(T::Native) -> f64,
    seen: &mut impl FnMut(Option<f64>),
) {
    if array.null_count() == 0 {
        array.values().iter().for_each(|&value| seen(Some(convert(value))));
    } else {
        array.iter().for_each(|value| seen(value.map(&convert)));
    }
}
