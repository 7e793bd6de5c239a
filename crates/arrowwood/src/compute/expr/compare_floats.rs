//! Translates comparisons of floats with literals of any precision: to a range of the floats that a column can have.

use std::cmp::Ordering;

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::literal::{LiteralValue, NumberLiteral, Operator};
use super::value_predicate::ValuePredicate;

/// Translates a comparison with a literal for a column of floats; `None` if the literal is no number.
pub(super) fn compare_floats(
    data_type: &DataType,
    operator: Operator,
    literal: &LiteralValue,
) -> Option<ValuePredicate> {
    // The floats of 64 bits next to the literal: the largest not above, the smallest not below.
    let (low, high) = match literal {
        LiteralValue::Float(float) | LiteralValue::Number(NumberLiteral { float, .. }) => (*float, *float),
        LiteralValue::Int(number) => around(*number as f64, |float| order_of_int(float, *number)),
        LiteralValue::Decimal(digits, scale) => around_decimal(*digits, *scale)?,
        _ => return None,
    };
    if low.is_nan() {
        return Some(if operator == Operator::Ne {
            ValuePredicate::Not(ValuePredicate::Never.into())
        } else {
            ValuePredicate::Never
        });
    }
    let low = not_above(data_type, low);
    let high = -not_above(data_type, -high);
    debug_assert!(low <= high, "the floats next to {literal:?} are {low} and {high}");
    let equal = if low == high { ValuePredicate::Floats(low, low) } else { ValuePredicate::Never };
    let min = f64::NEG_INFINITY;
    let max = f64::INFINITY;
    Some(match operator {
        Operator::Eq => equal,
        Operator::Ne => ValuePredicate::Not(equal.into()),
        // If the literal is between two floats, strictness doesn't matter.
        Operator::Lt if low < high => ValuePredicate::Floats(min, low),
        Operator::Gt if low < high => ValuePredicate::Floats(high, max),
        Operator::Lt if low == min => ValuePredicate::Never,
        Operator::Gt if high == max => ValuePredicate::Never,
        Operator::Lt => ValuePredicate::Floats(min, below(data_type, low)),
        Operator::Gt => ValuePredicate::Floats(-below(data_type, -high), max),
        Operator::Le => ValuePredicate::Floats(min, low),
        Operator::Ge => ValuePredicate::Floats(high, max),
    })
}

/// Returns the largest float of the type not greater than `number`.
fn not_above(data_type: &DataType, number: f64) -> f64 {
    let nearest: f64 = match data_type {
        DataType::Float64 => return number,
        DataType::Float32 => (number as f32).into(),
        _ => half::f16::from_f64(number).to_f64(),
    };
    if nearest > number { below(data_type, nearest) } else { nearest }
}

/// Returns the largest float of the type less than `number`, itself a float of the type.
fn below(data_type: &DataType, number: f64) -> f64 {
    match data_type {
        DataType::Float64 => number.next_down(),
        DataType::Float32 => (number as f32).next_down().into(),
        // Without the sign, the bits of floats are in the floats' order.
        _ => match (half::f16::from_f64(number), number > 0.0) {
            (half, true) => half::f16::from_bits(half.to_bits() - 1).to_f64(),
            (_, false) if number == 0.0 => -half::f16::from_bits(1).to_f64(),
            (half, false) => half::f16::from_bits(half.to_bits() + 1).to_f64(),
        },
    }
}

/// Returns the floats on both sides of a number, or the same float twice if the number is a float. `nearest` is a float
/// near it, and `order` compares a float with the number.
fn around(nearest: f64, order: impl Fn(f64) -> Ordering) -> (f64, f64) {
    let mut low = nearest;
    let mut high = nearest;
    while order(low).is_gt() {
        (low, high) = (low.next_down(), low);
    }
    while order(high).is_lt() {
        (low, high) = (high, high.next_up());
    }
    if order(high).is_eq() { (high, high) } else { (low, high) }
}

/// Compares a float with an integer, by value.
fn order_of_int(float: f64, number: i128) -> Ordering {
    // No integer is as large as the float 2^127, to which `as` would saturate.
    if float >= 2f64.powi(127) { Ordering::Greater } else { (float as i128).cmp(&number) }
}

/// Returns the floats on both sides of a decimal, as [`around`].
fn around_decimal(digits: i256, scale: i8) -> Option<(f64, f64)> {
    let exponent = -i32::from(scale);
    // The standard library parses text to the nearest float.
    let nearest: f64 = format!("{digits}e{exponent}").parse().ok()?;
    let number = Digits::parse(&digits.to_string(), exponent);
    Some(around(nearest, |float| Digits::from_float(float).cmp(&number)))
}

/// The exact digits of a finite number.
#[derive(PartialEq, Eq)]
struct Digits {
    is_negative: bool,
    /// The digits from the first to the last that is not 0.
    digits: Vec<u8>,
    /// The number of digits before the decimal point. It may be negative, or greater than the number of digits.
    point: i32,
}

impl Digits {
    /// Parses a decimal number, and multiplies it by a power of ten.
    fn parse(text: &str, exponent: i32) -> Digits {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let all = [whole.as_bytes(), fraction.as_bytes()].concat();
        let Some(first) = all.iter().position(|&digit| digit != b'0') else {
            return Digits { is_negative: false, digits: Vec::new(), point: 0 };
        };
        let trailing = all.iter().rev().take_while(|&&digit| digit == b'0').count();
        let point = (whole.len() as i32 - first as i32) + exponent;
        Digits { is_negative, digits: all[first..all.len() - trailing].to_vec(), point }
    }

    /// Returns the digits of a float.
    fn from_float(number: f64) -> Digits {
        /// No float has more digits behind its point: the smallest one is 2^-1074.
        const MAX_FRACTION_DIGITS: usize = 1074;
        Digits::parse(&format!("{number:.MAX_FRACTION_DIGITS$}"), 0)
    }

    /// Returns −1, 0 or 1, the sign of the number.
    fn signum(&self) -> i32 {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

impl Ord for Digits {
    fn cmp(&self, other: &Digits) -> Ordering {
        let signs = self.signum().cmp(&other.signum());
        if signs.is_ne() {
            return signs;
        }
        let sizes = self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits));
        if self.is_negative { sizes.reverse() } else { sizes }
    }
}

impl PartialOrd for Digits {
    fn partial_cmp(&self, other: &Digits) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
