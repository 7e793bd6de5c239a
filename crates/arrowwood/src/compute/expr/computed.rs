//! Computes with the numbers of a few thousand rows at a time.

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

/// The numbers of some rows; the numbers of nulls are arbitrary.
#[derive(Clone, Debug)]
pub(super) enum ComputedNumbers {
    Integers(ScalarOrVec<i64>),
    Floats(ScalarOrVec<f64>),
}

/// The width of floats. Floats of 32 bits are stored in 64 bits, too, but rounded to 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloatWidth {
    F32,
    F64,
}

/// A value for each row, or one for all.
#[derive(Clone, Debug)]
pub(super) enum ScalarOrVec<T> {
    Vec(Vec<T>),
    Scalar(T),
}

impl<T: Copy> ScalarOrVec<T> {
    /// Returns the value of a row; `None` past the last.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<T> {
        match self {
            ScalarOrVec::Vec(values) => values.get(row).copied(),
            ScalarOrVec::Scalar(value) => Some(*value),
        }
    }

    /// Converts each value.
    fn map<U>(self, make: impl Fn(T) -> U) -> ScalarOrVec<U> {
        match self {
            ScalarOrVec::Vec(values) => ScalarOrVec::Vec(values.into_iter().map(make).collect()),
            ScalarOrVec::Scalar(value) => ScalarOrVec::Scalar(make(value)),
        }
    }

    /// Combines the values of each row with the values of `other`.
    #[inline(always)]
    fn zip<U>(&self, other: &ScalarOrVec<T>, mut make: impl FnMut(T, T) -> U) -> ScalarOrVec<U> {
        match (self, other) {
            (ScalarOrVec::Vec(a), ScalarOrVec::Vec(b)) => {
                assert!(a.len() == b.len(), "operands of {} and {} rows", a.len(), b.len());
                ScalarOrVec::Vec(a.iter().zip(b).map(|(&a, &b)| make(a, b)).collect())
            }
            (ScalarOrVec::Vec(a), ScalarOrVec::Scalar(b)) => ScalarOrVec::Vec(a.iter().map(|&a| make(a, *b)).collect()),
            (ScalarOrVec::Scalar(a), ScalarOrVec::Vec(b)) => ScalarOrVec::Vec(b.iter().map(|&b| make(*a, b)).collect()),
            (ScalarOrVec::Scalar(a), ScalarOrVec::Scalar(b)) => ScalarOrVec::Scalar(make(*a, *b)),
        }
    }

    /// Returns a value for each of `count` rows.
    pub(super) fn into_vec(self, count: usize) -> Vec<T> {
        match self {
            ScalarOrVec::Vec(values) => {
                assert!(values.len() == count, "{} values for {count} rows", values.len());
                values
            }
            ScalarOrVec::Scalar(value) => vec![value; count],
        }
    }
}

impl ComputedNumbers {
    /// Converts to floats of a width.
    pub(super) fn into_floats(self, width: FloatWidth) -> ScalarOrVec<f64> {
        match (self, width) {
            (ComputedNumbers::Integers(values), FloatWidth::F64) => values.map(|number| number as f64),
            (ComputedNumbers::Integers(values), FloatWidth::F32) => values.map(|number| f64::from(number as f32)),
            (ComputedNumbers::Floats(values), FloatWidth::F64) => values,
            (ComputedNumbers::Floats(values), FloatWidth::F32) => values.map(round_to_f32),
        }
    }
}

#[inline(always)]
fn round_to_f32(number: f64) -> f64 {
    f64::from(number as f32)
}

/// Returns the results of an operation on integers, and whether any of them overflows.
pub(super) fn compute_integers(
    operation: Arithmetic,
    a: &ScalarOrVec<i64>,
    b: &ScalarOrVec<i64>,
) -> (ScalarOrVec<i64>, bool) {
    match operation {
        Arithmetic::Add => zip_overflowing(a, b, i64::overflowing_add),
        Arithmetic::Subtract => zip_overflowing(a, b, i64::overflowing_sub),
        Arithmetic::Multiply => zip_overflowing(a, b, i64::overflowing_mul),
        // Integers are divided as floats, elsewhere.
        Arithmetic::Remainder | Arithmetic::Divide => (a.zip(b, remainder), false),
    }
}

#[inline(always)]
fn zip_overflowing(
    a: &ScalarOrVec<i64>,
    b: &ScalarOrVec<i64>,
    operation: impl Fn(i64, i64) -> (i64, bool),
) -> (ScalarOrVec<i64>, bool) {
    let mut has_overflow = false;
    let results = a.zip(b, |a, b| {
        let (result, overflows) = operation(a, b);
        has_overflow |= overflows;
        result
    });
    (results, has_overflow)
}

/// Returns true if the operation overflows.
pub(super) fn overflows(operation: Arithmetic, a: i64, b: i64) -> bool {
    match operation {
        Arithmetic::Add => a.checked_add(b).is_none(),
        Arithmetic::Subtract => a.checked_sub(b).is_none(),
        Arithmetic::Multiply => a.checked_mul(b).is_none(),
        Arithmetic::Remainder | Arithmetic::Divide => false,
    }
}

/// Returns the remainder with the sign of the divisor; 0 for a divisor of 0, which the caller makes null.
#[inline]
fn remainder(a: i64, b: i64) -> i64 {
    let rest = if b == 0 { 0 } else { a.wrapping_rem(b) };
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
}

/// Returns the results of an operation on floats of a width.
pub(super) fn compute_floats(
    operation: Arithmetic,
    a: &ScalarOrVec<f64>,
    b: &ScalarOrVec<f64>,
    width: FloatWidth,
) -> ScalarOrVec<f64> {
    // The float of 32 bits that is nearest to the result of 64 bits is nearest to the exact result.
    match (operation, width) {
        (Arithmetic::Add, FloatWidth::F64) => a.zip(b, |a, b| a + b),
        (Arithmetic::Subtract, FloatWidth::F64) => a.zip(b, |a, b| a - b),
        (Arithmetic::Multiply, FloatWidth::F64) => a.zip(b, |a, b| a * b),
        (Arithmetic::Divide, FloatWidth::F64) => a.zip(b, |a, b| a / b),
        (Arithmetic::Remainder, FloatWidth::F64) => a.zip(b, |a, b| a - b * (a / b).floor()),
        (Arithmetic::Add, FloatWidth::F32) => a.zip(b, |a, b| round_to_f32(a + b)),
        (Arithmetic::Subtract, FloatWidth::F32) => a.zip(b, |a, b| round_to_f32(a - b)),
        (Arithmetic::Multiply, FloatWidth::F32) => a.zip(b, |a, b| round_to_f32(a * b)),
        (Arithmetic::Divide, FloatWidth::F32) => a.zip(b, |a, b| round_to_f32(a / b)),
        (Arithmetic::Remainder, FloatWidth::F32) => a.zip(b, |a, b| {
            let (a, b) = (a as f32, b as f32);
            (a - b * (a / b).floor()).into()
        }),
    }
}

/// Converts a float without its fraction to an integer; `None` if it does not fit.
pub(super) fn truncate(number: f64) -> Option<i64> {
    // 2^63 is a float, and the largest integer is not.
    let limit = 2f64.powi(63);
    let is_inside = number >= -limit && number < limit;
    is_inside.then_some(number as i64)
}

/// The indices of rows in an array of values.
enum RowIndices {
    /// Consecutive rows.
    Rows(Range<usize>),
    /// The dictionary key of each row.
    Keys(Vec<usize>),
}

/// Loads rows of numbers, booleans or times as integers.
pub(super) fn load_integers(array: &ArrayData, rows: &Range<usize>) -> Result<ScalarOrVec<i64>> {
    let (array, indices) = resolve_dictionary(array, rows)?;
    load_integers_at(array, &indices).map(ScalarOrVec::Vec)
}

/// Loads the values at `indices` of an array without a dictionary, as integers.
fn load_integers_at(array: &ArrayData, indices: &RowIndices) -> Result<Vec<i64>> {
    use DataType::*;
    Ok(match array.data_type() {
        Int8 => load_values::<1, _>(array, indices, |raw| i8::from_le_bytes(raw).into())?,
        UInt8 => load_values::<1, _>(array, indices, |raw| raw[0].into())?,
        Int16 => load_values::<2, _>(array, indices, |raw| i16::from_le_bytes(raw).into())?,
        UInt16 => load_values::<2, _>(array, indices, |raw| u16::from_le_bytes(raw).into())?,
        Int32 | Date32 | Time32(_) | Decimal32(..) => {
            load_values::<4, _>(array, indices, |raw| i32::from_le_bytes(raw).into())?
        }
        UInt32 => load_values::<4, _>(array, indices, |raw| u32::from_le_bytes(raw).into())?,
        // The caller handles unsigned integers that are too large and become negative here.
        Int64 | UInt64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            load_values::<8, _>(array, indices, i64::from_le_bytes)?
        }
        Boolean => {
            let bits = Bits::new(array);
            match indices {
                RowIndices::Rows(rows) => rows.clone().map(|row| bits.get(row).into()).collect(),
                RowIndices::Keys(keys) => keys.iter().map(|&row| bits.get(row).into()).collect(),
            }
        }
        other => return Err(Error::internal(format!("values of type {} are no integers", type_name(other)))),
    })
}

/// Loads the whole parts of rows of decimals; `None` for whole parts that do not fit.
pub(super) fn load_whole_parts(array: &ArrayData, rows: &Range<usize>) -> Result<Vec<Option<i64>>> {
    use DataType::*;
    let (array, indices) = resolve_dictionary(array, rows)?;
    match array.data_type() {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            load_decimals(array, &indices, |digits| whole_part(digits, *scale))
        }
        other => Err(Error::internal(format!("values of type {} are no decimals", type_name(other)))),
    }
}

/// Loads rows of decimals as the result of `number` for their digits.
#[inline(always)]
fn load_decimals<T: Default>(array: &ArrayData, indices: &RowIndices, number: impl Fn(i256) -> T) -> Result<Vec<T>> {
    use DataType::*;
    match array.data_type() {
        Decimal32(..) => {
            load_values::<4, _>(array, indices, |raw| number(i256::from_i128(i32::from_le_bytes(raw).into())))
        }
        Decimal64(..) => {
            load_values::<8, _>(array, indices, |raw| number(i256::from_i128(i64::from_le_bytes(raw).into())))
        }
        Decimal128(..) => load_values::<16, _>(array, indices, |raw| number(i256::from_i128(i128::from_le_bytes(raw)))),
        Decimal256(..) => load_values::<32, _>(array, indices, |raw| number(i256::from_le_bytes(raw))),
        other => Err(Error::internal(format!("values of type {} are no decimals", type_name(other)))),
    }
}

/// Returns a decimal without its fraction; `None` if it does not fit.
fn whole_part(digits: i256, scale: i8) -> Option<i64> {
    let power = i256::from_i128(10).checked_pow(scale.unsigned_abs().into());
    let whole = match power {
        Some(power) if scale >= 0 => digits.checked_div(power)?,
        Some(power) => digits.checked_mul(power)?,
        // The power has more digits than any decimal.
        None if scale >= 0 || digits == i256::ZERO => i256::ZERO,
        None => return None,
    };
    whole.to_i128().and_then(|whole| whole.try_into().ok())
}

/// Loads rows of numbers as floats of a width. Numbers that would be rounded twice, to 64 and then to 32 bits, are
/// rounded to 32 bits at once.
pub(super) fn load_floats(array: &ArrayData, rows: &Range<usize>, width: FloatWidth) -> Result<ScalarOrVec<f64>> {
    use DataType::*;
    let (array, indices) = resolve_dictionary(array, rows)?;
    let indices = &indices;
    let is_short = width == FloatWidth::F32;
    Ok(ScalarOrVec::Vec(match array.data_type() {
        Float64 => load_values::<8, _>(array, indices, f64::from_le_bytes)?,
        Float32 => load_values::<4, _>(array, indices, |raw| f32::from_le_bytes(raw).into())?,
        Float16 => load_values::<2, _>(array, indices, |raw| f16::from_le_bytes(raw).to_f64())?,
        UInt64 if is_short => load_values::<8, _>(array, indices, |raw| f64::from(u64::from_le_bytes(raw) as f32))?,
        UInt64 => load_values::<8, _>(array, indices, |raw| u64::from_le_bytes(raw) as f64)?,
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) if is_short => {
            load_decimals(array, indices, |digits| decimal_to_f32(digits, *scale).into())?
        }
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            load_decimals(array, indices, |digits| decimal_to_f64(digits, *scale))?
        }
        _ => load_integers_at(array, indices)?.into_iter().map(|number| number as f64).collect(),
    }))
}

/// Returns the array that has the values of rows, and their indices in it. The indices of nulls are arbitrary.
fn resolve_dictionary<'a>(array: &'a ArrayData, rows: &Range<usize>) -> Result<(&'a ArrayData, RowIndices)> {
    let DataType::Dictionary(..) = array.data_type() else { return Ok((array, RowIndices::Rows(rows.clone()))) };
    let entry = entry_lookup(array);
    let mut keys = Vec::with_capacity(rows.len());
    for row in rows.clone() {
        keys.push(if array.nulls().is_some_and(|nulls| nulls.is_null(row)) { 0 } else { entry(row)? });
    }
    Ok((dictionary_of(array)?, RowIndices::Keys(keys)))
}

/// Loads the values of `N` bytes at `indices`, which `number` converts.
fn load_values<const N: usize, T: Default>(
    array: &ArrayData,
    indices: &RowIndices,
    number: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>> {
    let values = fixed_values::<N>(array);
    match indices {
        RowIndices::Rows(rows) => {
            let values = values.get(rows.clone()).ok_or_else(|| Error::invalid("fewer values than rows"))?;
            Ok(values.iter().map(|raw| number(*raw)).collect())
        }
        // The keys of nulls may be out of range.
        RowIndices::Keys(keys) => {
            Ok(keys.iter().map(|&key| values.get(key).map_or_else(T::default, |raw| number(*raw))).collect())
        }
    }
}
