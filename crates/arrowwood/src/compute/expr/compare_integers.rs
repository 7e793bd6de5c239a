//! Translates comparisons of integers, decimals and times with literals: to a range of the numbers that a column
//! stores.
//!
//! A literal is first converted to the units of the column, such as cents or milliseconds. It may lie between two
//! numbers of these units, so the result is both of them.

use std::cmp::Ordering;

use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};

use super::literal::{LiteralValue, Operator};
use super::value_predicate::ValuePredicate;
use crate::types::layout::{MILLIS_PER_DAY, MILLIS_PER_SECOND, SECONDS_PER_DAY, zones_agree};
use crate::types::per_second;

/// The integers next to a literal in the units of a column: the largest not above and the smallest not below, the same
/// twice if the literal is an integer. The first is greater than the second for NaN.
pub(super) type NearestIntegers = (i256, i256);

/// Converts a literal to the units of a column; `None` if it can't be compared with the column.
pub(super) fn scale_literal(data_type: &DataType, literal: &LiteralValue) -> Option<NearestIntegers> {
    use DataType::*;
    match (data_type, literal) {
        (Boolean, LiteralValue::Bool(flag)) => Some(exactly((*flag).into())),
        (Boolean, _) => None,
        (Decimal32(_, s) | Decimal64(_, s) | Decimal128(_, s) | Decimal256(_, s), _) => decimal(literal, *s),
        (Timestamp(..) | Date32 | Date64 | Time32(_) | Time64(_) | Duration(_), LiteralValue::Int(number)) => {
            Some(exactly(*number))
        }
        (Timestamp(unit, zone), LiteralValue::Timestamp(time, literal_unit, literal_zone))
            if zones_agree(zone.as_deref(), literal_zone.as_deref()) =>
        {
            Some(ratio((*time).into(), units_per_second(*unit), units_per_second(*literal_unit)))
        }
        (Timestamp(unit, None), LiteralValue::Date(days)) => Some(exactly(i128::from(*days) * units_per_day(*unit))),
        (Date32, LiteralValue::Date(days)) => Some(exactly((*days).into())),
        (Date64, LiteralValue::Date(days)) => Some(exactly(i128::from(*days) * i128::from(MILLIS_PER_DAY))),
        (Date32, LiteralValue::Timestamp(time, literal_unit, zone)) if zones_agree(None, zone.as_deref()) => {
            Some(ratio((*time).into(), 1, units_per_day(*literal_unit)))
        }
        (Date64, LiteralValue::Timestamp(time, literal_unit, zone)) if zones_agree(None, zone.as_deref()) => {
            Some(ratio((*time).into(), MILLIS_PER_SECOND.into(), units_per_second(*literal_unit)))
        }
        (Time32(unit) | Time64(unit), LiteralValue::Time(time, literal_unit)) => {
            Some(ratio((*time).into(), units_per_second(*unit), units_per_second(*literal_unit)))
        }
        // A duration stands for the time since midnight: NumPy has no times of day, and Python's have no nanoseconds.
        (Time32(unit) | Time64(unit), LiteralValue::Duration(length, literal_unit)) => {
            if !(0..units_per_day(*literal_unit)).contains(&i128::from(*length)) {
                return None;
            }
            Some(ratio((*length).into(), units_per_second(*unit), units_per_second(*literal_unit)))
        }
        (Duration(unit), LiteralValue::Duration(length, literal_unit)) => {
            Some(ratio((*length).into(), units_per_second(*unit), units_per_second(*literal_unit)))
        }
        (other, _) if other.is_integer() => integer(literal),
        _ => None,
    }
}

/// Returns a literal that is an integer in the units of its column.
fn exactly(number: i128) -> NearestIntegers {
    (i256::from_i128(number), i256::from_i128(number))
}

/// Returns the integers next to `number × factor / divisor`.
fn ratio(number: i128, factor: i128, divisor: i128) -> NearestIntegers {
    between(i256::from_i128(number).wrapping_mul(i256::from_i128(factor)), i256::from_i128(divisor))
}

/// Returns the integers next to a fraction whose divisor is positive.
fn between(number: i256, divisor: i256) -> NearestIntegers {
    debug_assert!(divisor > i256::ZERO);
    let quotient = number.wrapping_div(divisor);
    let rest = number.wrapping_rem(divisor);
    match rest.cmp(&i256::ZERO) {
        Ordering::Equal => (quotient, quotient),
        Ordering::Greater => (quotient, quotient.wrapping_add(i256::ONE)),
        Ordering::Less => (quotient.wrapping_sub(i256::ONE), quotient),
    }
}

/// Converts a literal to the integers next to it.
fn integer(literal: &LiteralValue) -> Option<NearestIntegers> {
    match literal {
        LiteralValue::Float(number) if number.fract() != 0.0 && number.is_finite() => {
            // Floats with a fraction are less than 2^53.
            let below = i256::from_i128(number.floor() as i128);
            Some((below, below.wrapping_add(i256::ONE)))
        }
        literal => decimal(literal, 0),
    }
}

/// Converts a literal to units of `10^-scale`.
fn decimal(literal: &LiteralValue, scale: i8) -> Option<NearestIntegers> {
    let (digits, literal_scale) = match literal {
        LiteralValue::Int(number) => (i256::from_i128(*number), 0),
        LiteralValue::Decimal(digits, scale) => (*digits, i32::from(*scale)),
        LiteralValue::Number(number) => (number.digits, number.exponent.checked_neg()?),
        LiteralValue::Float(number) if number.is_nan() => return Some((i256::MAX, i256::MIN)),
        LiteralValue::Float(number) if number.fract() == 0.0 => match float_to_integer(*number) {
            Some(digits) => (digits, 0),
            None => return Some(beyond_all(*number > 0.0)),
        },
        LiteralValue::Float(number) => match float_to_decimal(*number) {
            Some(decimal) => decimal,
            None => return Some(beyond_all(*number > 0.0)),
        },
        _ => return None,
    };
    let steps = i32::from(scale).saturating_sub(literal_scale);
    let Some(power) = i256::from_i128(10).checked_pow(steps.unsigned_abs()) else {
        // The power has more digits than any number.
        return Some(match (digits.cmp(&i256::ZERO), steps > 0) {
            (Ordering::Equal, _) => (i256::ZERO, i256::ZERO),
            (sign, true) => beyond_all(sign.is_gt()),
            (Ordering::Greater, false) => (i256::ZERO, i256::ONE),
            (_, false) => (i256::MINUS_ONE, i256::ZERO),
        });
    };
    if steps < 0 {
        Some(between(digits, power))
    } else {
        match digits.checked_mul(power) {
            Some(number) => Some((number, number)),
            None => Some(beyond_all(digits > i256::ZERO)),
        }
    }
}

/// Returns a number that is larger than all values of a column, or smaller unless `is_large`, and equal to none.
fn beyond_all(is_large: bool) -> NearestIntegers {
    if is_large {
        (i256::MAX.wrapping_sub(i256::ONE), i256::MAX)
    } else {
        (i256::MIN, i256::MIN.wrapping_add(i256::ONE))
    }
}

/// Converts a float without a fraction to an integer; `None` if it has more than 256 bits.
fn float_to_integer(number: f64) -> Option<i256> {
    /// The number of bits of a significand behind the first one.
    const SIGNIFICAND_BITS: i32 = 52;
    const EXPONENT_MASK: u64 = 0x7ff;
    const EXPONENT_BIAS: i32 = 1023;
    /// The exponent from which floats have too many bits. The limit of an integer of 256 bits itself is no value.
    const MIN_LARGE_EXPONENT: i32 = 254;
    debug_assert!(number.fract() == 0.0);
    if number.abs() < 2f64.powi(126) {
        return Some(i256::from_i128(number as i128));
    }
    let exponent = (number.to_bits() >> SIGNIFICAND_BITS & EXPONENT_MASK) as i32 - EXPONENT_BIAS;
    if exponent >= MIN_LARGE_EXPONENT {
        return None;
    }
    let significand = number.to_bits() & ((1 << SIGNIFICAND_BITS) - 1) | 1 << SIGNIFICAND_BITS;
    let size = i256::from_i128(significand.into()) << (exponent - SIGNIFICAND_BITS) as u8;
    Some(if number < 0.0 { size.wrapping_neg() } else { size })
}

/// Returns the digits and the scale of the decimal that a float prints as; `None` if it has too many digits.
fn float_to_decimal(number: f64) -> Option<(i256, i32)> {
    let text = format!("{number:e}");
    let (figures, exponent) = text.split_once('e')?;
    let (whole, fraction) = figures.split_once('.').unwrap_or((figures, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some((i256::from_i128(digits), fraction.len() as i32 - exponent.parse::<i32>().ok()?))
}

/// Translates a comparison with a literal, given as the integers next to it.
pub(super) fn compare_integers(
    data_type: &DataType,
    operator: Operator,
    (low, high): NearestIntegers,
) -> ValuePredicate {
    // NaN is neither less nor greater than anything.
    if low > high {
        return if operator == Operator::Ne {
            ValuePredicate::Not(ValuePredicate::Never.into())
        } else {
            ValuePredicate::Never
        };
    }
    let (min, max) = limits(data_type);
    let is_whole = low == high;
    let range = match operator {
        Operator::Eq | Operator::Ne if is_whole => Some((low, low)),
        Operator::Eq | Operator::Ne => None,
        Operator::Lt if is_whole => low.checked_sub(i256::ONE).map(|below| (min, below)),
        Operator::Gt if is_whole => high.checked_add(i256::ONE).map(|above| (above, max)),
        Operator::Lt | Operator::Le => Some((min, low)),
        Operator::Gt | Operator::Ge => Some((high, max)),
    };
    let test = match range.map(|(from, to)| (from.max(min), to.min(max))) {
        Some((from, to)) if from <= to => ValuePredicate::Range(from, to),
        _ => ValuePredicate::Never,
    };
    if operator == Operator::Ne { ValuePredicate::Not(test.into()) } else { test }
}

fn units_per_second(unit: TimeUnit) -> i128 {
    per_second(unit).into()
}

fn units_per_day(unit: TimeUnit) -> i128 {
    i128::from(SECONDS_PER_DAY) * units_per_second(unit)
}

/// The smallest and largest number of a column's type.
pub(in crate::compute) fn limits(data_type: &DataType) -> (i256, i256) {
    let bits = match data_type {
        DataType::Boolean => return (i256::ZERO, i256::ONE),
        DataType::Decimal256(..) => return (i256::MIN, i256::MAX),
        DataType::Decimal128(..) => return (i256::from_i128(i128::MIN), i256::from_i128(i128::MAX)),
        other => u8::BITS * other.primitive_width().unwrap_or(size_of::<i64>()) as u32,
    };
    if data_type.is_unsigned_integer() {
        (i256::ZERO, i256::from_i128(i128::MAX >> (127 - bits)))
    } else {
        (i256::from_i128(-(1 << (bits - 1))), i256::from_i128((1 << (bits - 1)) - 1))
    }
}
