//! ComputedNumbers of a few thousand rows at a time, and the loops over them.

use std::ops::Range;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;

use super::expression::Arithmetic;
use crate::array::access::{Bits, dictionary_of, entry_lookup, fixed_values};
use crate::array::{decimal_to_f32, decimal_to_f64};
use crate::error::{Error, Result};
use crate::types::type_name;

/// The numbers of some rows; those of nulls are any.
#[derive(Clone, Debug)]
pub(super) enum ComputedNumbers {
    Integers(ScalarOrVec<i64>),
    Floats(ScalarOrVec<f64>),
}

/// A value for each row, or one for all.
#[derive(Clone, Debug)]
pub(super) enum ScalarOrVec<T> {
    Vec(Vec<T>),
    Scalar(T),
}

impl<T: Copy> ScalarOrVec<T> {
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<T> {
        match self {
            ScalarOrVec::Vec(values) => values.get(row).copied(),
            ScalarOrVec::Scalar(value) => Some(*value),
        }
    }

    fn map<U>(self, make: impl Fn(T) -> U) -> ScalarOrVec<U> {
        match self {
            ScalarOrVec::Vec(values) => ScalarOrVec::Vec(values.into_iter().map(make).collect()),
            ScalarOrVec::Scalar(value) => ScalarOrVec::Scalar(make(value)),
        }
    }

    #[inline(always)]
    fn zip<U>(&self, other: &ScalarOrVec<T>, mut make: impl FnMut(T, T) -> U) -> ScalarOrVec<U> {
        match (self, other) {
            (ScalarOrVec::Vec(a), ScalarOrVec::Vec(b)) => {
                ScalarOrVec::Vec(a.iter().zip(b).map(|(&a, &b)| make(a, b)).collect())
            }
            (ScalarOrVec::Vec(a), ScalarOrVec::Scalar(b)) => ScalarOrVec::Vec(a.iter().map(|&a| make(a, *b)).collect()),
            (ScalarOrVec::Scalar(a), ScalarOrVec::Vec(b)) => ScalarOrVec::Vec(b.iter().map(|&b| make(*a, b)).collect()),
            (ScalarOrVec::Scalar(a), ScalarOrVec::Scalar(b)) => ScalarOrVec::Scalar(make(*a, *b)),
        }
    }

    /// One for each of `count` rows.
    pub(super) fn each(self, count: usize) -> Vec<T> {
        match self {
            ScalarOrVec::Vec(values) => values,
            ScalarOrVec::Scalar(value) => vec![value; count],
        }
    }
}

impl ComputedNumbers {
    /// As floats of 64 bits, or rounded to 32.
    pub(super) fn floats(self, is_short: bool) -> ScalarOrVec<f64> {
        let short = |number: f64| f64::from(number as f32);
        match (self, is_short) {
            (ComputedNumbers::Integers(values), false) => values.map(|number| number as f64),
            (ComputedNumbers::Integers(values), true) => values.map(|number| f64::from(number as f32)),
            (ComputedNumbers::Floats(values), false) => values,
            (ComputedNumbers::Floats(values), true) => values.map(short),
        }
    }
}

/// The results of an operation on integers, and whether any of them overflows.
pub(super) fn integers(operation: Arithmetic, a: &ScalarOrVec<i64>, b: &ScalarOrVec<i64>) -> (ScalarOrVec<i64>, bool) {
    let mut is_over = false;
    let mut note = |(result, over): (i64, bool)| {
        is_over |= over;
        result
    };
    let results = match operation {
        Arithmetic::Add => a.zip(b, |a, b| note(a.overflowing_add(b))),
        Arithmetic::Subtract => a.zip(b, |a, b| note(a.overflowing_sub(b))),
        Arithmetic::Multiply => a.zip(b, |a, b| note(a.overflowing_mul(b))),
        // Division is that of floats.
        Arithmetic::Remainder | Arithmetic::Divide => a.zip(b, remainder),
    };
    (results, is_over)
}

/// Whether the operation overflows.
pub(super) fn overflows(operation: Arithmetic, a: i64, b: i64) -> bool {
    match operation {
        Arithmetic::Add => a.checked_add(b).is_none(),
        Arithmetic::Subtract => a.checked_sub(b).is_none(),
        Arithmetic::Multiply => a.checked_mul(b).is_none(),
        Arithmetic::Remainder | Arithmetic::Divide => false,
    }
}

/// With the sign of the divisor; 0 for a divisor of 0, which the caller makes null.
#[inline]
fn remainder(a: i64, b: i64) -> i64 {
    let rest = if b == 0 { 0 } else { a.wrapping_rem(b) };
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
}

/// The results of an operation on floats, rounded to 32 bits if they are short.
pub(super) fn floats(
    operation: Arithmetic,
    a: &ScalarOrVec<f64>,
    b: &ScalarOrVec<f64>,
    is_short: bool,
) -> ScalarOrVec<f64> {
    // The nearest float of 32 bits to the result of 64 bits is the one nearest to the exact result.
    let short = |number: f64| f64::from(number as f32);
    match (operation, is_short) {
        (Arithmetic::Add, false) => a.zip(b, |a, b| a + b),
        (Arithmetic::Subtract, false) => a.zip(b, |a, b| a - b),
        (Arithmetic::Multiply, false) => a.zip(b, |a, b| a * b),
        (Arithmetic::Divide, false) => a.zip(b, |a, b| a / b),
        (Arithmetic::Remainder, false) => a.zip(b, |a, b| a - b * (a / b).floor()),
        (Arithmetic::Add, true) => a.zip(b, |a, b| short(a + b)),
        (Arithmetic::Subtract, true) => a.zip(b, |a, b| short(a - b)),
        (Arithmetic::Multiply, true) => a.zip(b, |a, b| short(a * b)),
        (Arithmetic::Divide, true) => a.zip(b, |a, b| short(a / b)),
        (Arithmetic::Remainder, true) => a.zip(b, |a, b| {
            let (a, b) = (a as f32, b as f32);
            (a - b * (a / b).floor()).into()
        }),
    }
}

/// The integer that a float is without its fraction; `None` if that does not fit.
pub(super) fn truncated(number: f64) -> Option<i64> {
    // 2^63 is a float, and the largest integer is not.
    let limit = 2f64.powi(63);
    let is_inside = number >= -limit && number < limit;
    is_inside.then_some(number as i64)
}

/// Where rows are in an array.
enum RowIndices {
    Rows(Range<usize>),
    Keys(Vec<usize>),
}

/// The values of rows of numbers, booleans or times as integers.
pub(super) fn load_integers(array: &ArrayData, rows: &Range<usize>) -> Result<ScalarOrVec<i64>> {
    let (array, places) = places(array, rows)?;
    load_integers_at(array, &places).map(ScalarOrVec::Vec)
}

fn load_integers_at(array: &ArrayData, places: &RowIndices) -> Result<Vec<i64>> {
    use DataType::*;
    Ok(match array.data_type() {
        Int8 => each::<1, _>(array, places, |raw| i8::from_le_bytes(raw).into())?,
        UInt8 => each::<1, _>(array, places, |raw| raw[0].into())?,
        Int16 => each::<2, _>(array, places, |raw| i16::from_le_bytes(raw).into())?,
        UInt16 => each::<2, _>(array, places, |raw| u16::from_le_bytes(raw).into())?,
        Int32 | Date32 | Time32(_) | Decimal32(..) => {
            each::<4, _>(array, places, |raw| i32::from_le_bytes(raw).into())?
        }
        UInt32 => each::<4, _>(array, places, |raw| u32::from_le_bytes(raw).into())?,
        // Of unsigned ones too large, which are negative here, the caller takes care.
        Int64 | UInt64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            each::<8, _>(array, places, i64::from_le_bytes)?
        }
        Boolean => {
            let bits = Bits::new(array);
            match places {
                RowIndices::Rows(rows) => rows.clone().map(|row| bits.get(row).into()).collect(),
                RowIndices::Keys(keys) => keys.iter().map(|&row| bits.get(row).into()).collect(),
            }
        }
        other => return Err(Error::internal(format!("values of type {} are no integers", type_name(other)))),
    })
}

/// The whole parts of rows of decimals; `None` for those that do not fit.
pub(super) fn load_whole_parts(array: &ArrayData, rows: &Range<usize>) -> Result<Vec<Option<i64>>> {
    use DataType::*;
    let (array, places) = places(array, rows)?;
    let places = &places;
    let narrow = |digits: i128, scale: i8| whole_part(i256::from_i128(digits), scale);
    match array.data_type() {
        Decimal32(_, s) => each::<4, _>(array, places, |raw| narrow(i32::from_le_bytes(raw).into(), *s)),
        Decimal64(_, s) => each::<8, _>(array, places, |raw| narrow(i64::from_le_bytes(raw).into(), *s)),
        Decimal128(_, s) => each::<16, _>(array, places, |raw| narrow(i128::from_le_bytes(raw), *s)),
        Decimal256(_, s) => each::<32, _>(array, places, |raw| whole_part(i256::from_le_bytes(raw), *s)),
        other => Err(Error::internal(format!("values of type {} are no decimals", type_name(other)))),
    }
}

/// A decimal without its fraction; `None` if that does not fit.
fn whole_part(digits: i256, scale: i8) -> Option<i64> {
    let power = i256::from_i128(10).checked_pow(scale.unsigned_abs().into());
    let whole = match power {
        Some(power) if scale >= 0 => digits.checked_div(power)?,
        Some(power) => digits.checked_mul(power)?,
        // Beyond any number of digits.
        None if scale >= 0 || digits == i256::ZERO => i256::ZERO,
        None => return None,
    };
    whole.to_i128().and_then(|whole| whole.try_into().ok())
}

/// The values of rows of numbers as floats; those that may be rounded twice to 32 bits, at once if they are short.
pub(super) fn load_floats(array: &ArrayData, rows: &Range<usize>, is_short: bool) -> Result<ScalarOrVec<f64>> {
    use DataType::*;
    let (array, places) = places(array, rows)?;
    let places = &places;
    let wide_decimal = |digits: i256, scale: i8| {
        if is_short { decimal_to_f32(digits, scale).into() } else { decimal_to_f64(digits, scale) }
    };
    let decimal = |digits: i128, scale: i8| wide_decimal(i256::from_i128(digits), scale);
    Ok(ScalarOrVec::Vec(match array.data_type() {
        Float64 => each::<8, _>(array, places, f64::from_le_bytes)?,
        Float32 => each::<4, _>(array, places, |raw| f32::from_le_bytes(raw).into())?,
        Float16 => each::<2, _>(array, places, |raw| f16::from_le_bytes(raw).to_f64())?,
        UInt64 if is_short => each::<8, _>(array, places, |raw| f64::from(u64::from_le_bytes(raw) as f32))?,
        UInt64 => each::<8, _>(array, places, |raw| u64::from_le_bytes(raw) as f64)?,
        Decimal32(_, s) => each::<4, _>(array, places, |raw| decimal(i32::from_le_bytes(raw).into(), *s))?,
        Decimal64(_, s) => each::<8, _>(array, places, |raw| decimal(i64::from_le_bytes(raw).into(), *s))?,
        Decimal128(_, s) => each::<16, _>(array, places, |raw| decimal(i128::from_le_bytes(raw), *s))?,
        Decimal256(_, s) => each::<32, _>(array, places, |raw| wide_decimal(i256::from_le_bytes(raw), *s))?,
        _ => load_integers_at(array, places)?.into_iter().map(|number| number as f64).collect(),
    }))
}

/// The array that has the values of rows, and where they are in it.
fn places<'a>(array: &'a ArrayData, rows: &Range<usize>) -> Result<(&'a ArrayData, RowIndices)> {
    let DataType::Dictionary(..) = array.data_type() else { return Ok((array, RowIndices::Rows(rows.clone()))) };
    let entry = entry_lookup(array);
    let key = |row: usize| if array.nulls().is_some_and(|nulls| nulls.is_null(row)) { Ok(0) } else { entry(row) };
    Ok((dictionary_of(array)?, RowIndices::Keys(rows.clone().map(key).collect::<Result<_>>()?)))
}

fn each<const N: usize, T: Default>(
    array: &ArrayData,
    places: &RowIndices,
    number: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>> {
    let values = fixed_values::<N>(array);
    match places {
        RowIndices::Rows(rows) => {
            let values = values.get(rows.clone()).ok_or_else(|| Error::invalid("fewer values than rows"))?;
            Ok(values.iter().map(|raw| number(*raw)).collect())
        }
        // Nulls have any key.
        RowIndices::Keys(keys) => {
            Ok(keys.iter().map(|&key| values.get(key).map_or_else(T::default, |raw| number(*raw))).collect())
        }
    }
}
