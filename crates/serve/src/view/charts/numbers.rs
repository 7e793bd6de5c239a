//! Reads the numbers and times of a column as floats, for charts.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, i256};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use arrowwood::readable::ellipsize;
use arrowwood::{Value, decimal_to_f64};
use half::f16;
use multiversion::multiversion;

use crate::typed_array::typed;

/// The maximum number of characters of a number.
const MAX_NUMBER_CHARS: usize = 60;
/// The number of values that are compared at once.
const LANES: usize = 16;

/// Returns true if a column of the type can be drawn.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_integer()
        || data_type.is_floating()
        || matches!(data_type, Decimal32(..) | Decimal64(..) | Decimal128(..) | Timestamp(..) | Duration(_))
        || matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_))
}

/// Returns true if a column of the type has points in time, over which others can be drawn.
pub(crate) fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
}

/// Converts a point in time to a value of a column of the type.
pub(crate) fn time_of(data_type: &DataType, n: i64) -> Value<'_> {
    match data_type {
        DataType::Timestamp(unit, zone) => Value::Timestamp(n, *unit, zone.as_deref()),
        DataType::Date64 => Value::Timestamp(n, TimeUnit::Millisecond, None),
        _ => Value::Date(n),
    }
}

/// Converts a float to the text of a value of a column of the type.
pub(crate) fn text_of(data_type: &DataType, x: f64) -> String {
    use DataType::*;
    // The conversion saturates: floats beyond the range of the column's type are no values of it.
    let n = x as i64;
    let value = match data_type {
        Timestamp(..) | Date32 | Date64 => time_of(data_type, n),
        Duration(unit) => Value::Duration(n, *unit),
        Time32(unit) | Time64(unit) => Value::Time(n, *unit),
        // Signed integers would end at 2^63 - 1.
        UInt64 => Value::UInt(x as u64),
        integer if integer.is_integer() => Value::Int(n),
        Float16 | Float32 => Value::Float32(x as f32),
        _ => Value::Float64(x),
    };
    ellipsize(&value, MAX_NUMBER_CHARS)
}

/// Processes the values of an array of any type of number. A closure can't do so, as it can't be generic.
trait NumberVisitor {
    /// Visits `array`. `convert` keeps the order of values.
    fn visit<T: ArrowPrimitiveType<Native: Number>>(
        &mut self,
        array: &PrimitiveArray<T>,
        convert: impl Fn(T::Native) -> f64 + Copy,
    );
}

/// Passes a column that can be drawn to `visitor`.
fn visit(array: &ArrayData, visitor: &mut impl NumberVisitor) {
    use DataType::*;
    let data_type = array.data_type().clone();
    let array = typed(array);
    macro_rules! each {
        ($type:ty, $convert:expr) => {
            visitor.visit(array.as_primitive::<$type>(), $convert)
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
        Decimal32(_, scale) => each!(Decimal32Type, |n| decimal(n.into(), scale)),
        Decimal64(_, scale) => each!(Decimal64Type, |n| decimal(n.into(), scale)),
        Decimal128(_, scale) => each!(Decimal128Type, |n| decimal(n, scale)),
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

fn decimal(digits: i128, scale: i8) -> f64 {
    decimal_to_f64(i256::from_i128(digits), scale)
}

/// Passes each value as a float to a function.
struct NumberCallback<F>(F);

impl<F: FnMut(Option<f64>)> NumberVisitor for NumberCallback<F> {
    #[inline(always)]
    fn visit<T: ArrowPrimitiveType<Native: Number>>(
        &mut self,
        array: &PrimitiveArray<T>,
        convert: impl Fn(T::Native) -> f64 + Copy,
    ) {
        if array.null_count() == 0 {
            array.values().iter().for_each(|&value| self.0(Some(convert(value))));
        } else {
            array.iter().for_each(|value| self.0(value.map(convert)));
        }
    }
}

/// Calls `take` with each value as a float, in order; null is `None`.
pub(crate) fn each_number(array: &ArrayData, take: impl FnMut(Option<f64>)) {
    visit(array, &mut NumberCallback(take));
}

/// Passes each value as an integer to a function.
struct TimeCallback<F>(F);

impl<F: FnMut(Option<i64>)> NumberVisitor for TimeCallback<F> {
    fn visit<T: ArrowPrimitiveType<Native: Number>>(
        &mut self,
        array: &PrimitiveArray<T>,
        _convert: impl Fn(T::Native) -> f64 + Copy,
    ) {
        array.iter().for_each(|value| self.0(value.and_then(ArrowNativeType::to_i64)));
    }
}

/// Calls `take` with each point in time of a column, in its unit, in order; null is `None`.
pub(crate) fn each_time(array: &ArrayData, take: impl FnMut(Option<i64>)) {
    visit(array, &mut TimeCallback(take));
}

/// The first, the last, the smallest and the largest of finite values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct M4Summary {
    pub first: f64,
    pub last: f64,
    pub min: f64,
    pub max: f64,
}

impl M4Summary {
    /// Creates the summary of a single value.
    pub fn new(x: f64) -> M4Summary {
        M4Summary { first: x, last: x, min: x, max: x }
    }

    /// Merges the summaries of these rows, and of rows after them.
    pub fn and(self, next: M4Summary) -> M4Summary {
        M4Summary { first: self.first, last: next.last, min: self.min.min(next.min), max: self.max.max(next.max) }
    }

    /// Summarizes values one by one.
    fn try_new(values: impl Iterator<Item = f64>) -> Option<M4Summary> {
        values.filter(|x| x.is_finite()).map(M4Summary::new).reduce(M4Summary::and)
    }

    /// Summarizes all values of an array without nulls.
    fn from_slice<N: Number>(values: &[N], convert: impl Fn(N) -> f64 + Copy) -> Option<M4Summary> {
        let first = *values.iter().find(|value| convert(**value).is_finite())?;
        let last = *values.iter().rev().find(|value| convert(**value).is_finite())?;
        let (min, max) = N::extremes(values, first);
        debug_assert!(min <= first && first <= max, "extremes are around each value");
        let [first, last, min, max] = [first, last, min, max].map(convert);
        if min.is_finite() && max.is_finite() {
            return Some(M4Summary { first, last, min, max });
        }
        M4Summary::try_new(values.iter().map(|&value| convert(value)))
    }
}

/// Returns the minimum and the maximum of `first` and all values except NaN.
#[inline(always)]
fn extremes<N: Copy + PartialOrd>(values: &[N], first: N) -> (N, N) {
    let mut min = [first; LANES];
    let mut max = [first; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in chunk.iter().enumerate() {
            min[lane] = smaller(min[lane], x);
            max[lane] = larger(max[lane], x);
        }
    }
    for (lane, &x) in rest.iter().enumerate() {
        min[lane] = smaller(min[lane], x);
        max[lane] = larger(max[lane], x);
    }
    (min.into_iter().fold(first, smaller), max.into_iter().fold(first, larger))
}

/// Returns `x` if it is smaller than `min`; comparisons with NaN are false.
#[inline(always)]
fn smaller<N: Copy + PartialOrd>(min: N, x: N) -> N {
    if x < min { x } else { min }
}

/// Returns `x` if it is larger than `max`; comparisons with NaN are false.
#[inline(always)]
fn larger<N: Copy + PartialOrd>(max: N, x: N) -> N {
    if x > max { x } else { max }
}

/// A type of numbers in arrays. The extremes of common types are compiled for several instruction sets.
trait Number: ArrowNativeType + PartialOrd {
    fn extremes(values: &[Self], first: Self) -> (Self, Self) {
        extremes(values, first)
    }
}

macro_rules! several {
    ($($type:ty),+) => {$(
        impl Number for $type {
            fn extremes(values: &[$type], first: $type) -> ($type, $type) {
                #[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
                fn inside(values: &[$type], first: $type) -> ($type, $type) {
                    extremes(values, first)
                }
                inside(values, first)
            }
        }
    )+};
}

several!(f64, f32, i64, i32);

impl Number for i8 {}
impl Number for i16 {}
impl Number for u8 {}
impl Number for u16 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for i128 {}
impl Number for f16 {}

impl NumberVisitor for Option<M4Summary> {
    fn visit<T: ArrowPrimitiveType<Native: Number>>(
        &mut self,
        array: &PrimitiveArray<T>,
        convert: impl Fn(T::Native) -> f64 + Copy,
    ) {
        *self = if array.null_count() == 0 {
            M4Summary::from_slice(array.values(), convert)
        } else {
            M4Summary::try_new(array.iter().flatten().map(convert))
        };
    }
}

/// Summarizes the finite values of a column; returns `None` if it has none.
pub(crate) fn ends(array: &ArrayData) -> Option<M4Summary> {
    let mut summary = None;
    visit(array, &mut summary);
    summary
}

/// Merges the summaries of two adjacent parts of a column.
pub(crate) fn both(a: Option<M4Summary>, b: Option<M4Summary>) -> Option<M4Summary> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.and(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Int64Array};

    use super::*;

    #[test]
    fn the_largest_unsigned_numbers_are_not_shown_as_signed() {
        assert_eq!(text_of(&DataType::UInt64, u64::MAX as f64), u64::MAX.to_string());
        assert_eq!(text_of(&DataType::UInt64, 3.0), "3");
        assert_eq!(text_of(&DataType::Int64, -3.0), "-3");
    }

    proptest::proptest! {
        #[test]
        fn bounds_are_of_finite_values(
            numbers in proptest::collection::vec(0usize..40, 0..100), start in 0usize..20, is_nullable: bool,
        ) {
            let value = |n: usize| match n {
                37 => f32::NAN,
                38 => f32::INFINITY,
                39 => f32::NEG_INFINITY,
                n => n as f32 - 20.0,
            };
            let array: Float32Array = numbers.iter().map(|&n| (!is_nullable || n % 5 > 0).then(|| value(n))).collect();
            let array = array.slice(start.min(numbers.len()), numbers.len() - start.min(numbers.len()));
            let finite: Vec<f64> = array.iter().flatten().map(f64::from).filter(|x| x.is_finite()).collect();
            let expected = finite.first().map(|&first| M4Summary {
                first,
                last: finite[finite.len() - 1],
                min: finite.iter().copied().fold(f64::INFINITY, f64::min),
                max: finite.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            });
            proptest::prop_assert_eq!(ends(&array.to_data()), expected);
        }
    }

    #[test]
    fn integers_have_bounds() {
        let array = Int64Array::from_iter_values((0..1_000).map(|n| (n * 7_919) % 1_000));
        assert_eq!(ends(&array.to_data()), Some(M4Summary { first: 0.0, last: 81.0, min: 0.0, max: 999.0 }));
        assert_eq!(ends(&Int64Array::from(vec![None::<i64>; 3]).to_data()), None);
    }
}
