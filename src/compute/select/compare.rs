//! Translates comparisons for a column's type: to a range of numbers, or an order of bytes.
//!
//! `x > 2.5` of integers is `3 ≤ x ≤ largest`, `x != 7` is not `7 ≤ x ≤ 7`: one loop handles all of them.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use hashbrown::HashSet;
use memchr::memmem::Finder;

use super::literal::{Literal, LiteralValue, NumberLiteral, Operator};
use super::pattern::Pattern;
use super::predicate::TextMatch;
use crate::array::{Value, access};
use crate::compute::{MILLIS_PER_DAY, MILLIS_PER_SECOND, SECONDS_PER_DAY};
use crate::error::{Error, Result};
use crate::types::layout::zones_agree;
use crate::types::{is_text_or_binary, per_second, type_name};

/// A condition on a value.
#[derive(Clone, Debug)]
pub(in crate::compute) enum ValuePredicate {
    /// Unknown for all values: a comparison with null.
    Unknown,
    /// False for all values that are not null.
    Never,
    /// An integer, or the digits of a decimal, within inclusive bounds.
    Range(i256, i256),
    /// A float within inclusive bounds.
    Floats(f64, f64),
    /// A comparison with a text or bytes.
    Text(Operator, Vec<u8>),
    /// A search in a text.
    Matches(TextMatcher),
    /// One of some texts.
    Texts(Arc<TextSet>),
    /// One of some integers, or digits of decimals, in order.
    Integers(Vec<i256>),
    /// One of some floats, in order.
    OneOfFloats(Vec<f64>),
    Not(Box<ValuePredicate>),
    /// True if one of the tests is.
    Any(Vec<ValuePredicate>),
}

/// A search for a text or a pattern in another text.
#[derive(Clone, Debug)]
pub(in crate::compute) enum TextMatcher {
    StartsWith(Vec<u8>),
    EndsWith(Vec<u8>),
    /// Found in time that is linear in both lengths.
    Contains(Arc<Finder<'static>>),
    Pattern(Pattern),
}

impl TextMatcher {
    fn try_new(kind: TextMatch, text: &str) -> Result<TextMatcher> {
        Ok(match kind {
            TextMatch::Pattern => TextMatcher::Pattern(Pattern::parse(text)?),
            TextMatch::StartsWith => TextMatcher::StartsWith(text.into()),
            TextMatch::EndsWith => TextMatcher::EndsWith(text.into()),
            TextMatch::Contains => TextMatcher::Contains(Arc::new(Finder::new(text).into_owned())),
        })
    }

    /// Returns true if `bytes`, a text, matches.
    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        match self {
            TextMatcher::StartsWith(text) => bytes.starts_with(text),
            TextMatcher::EndsWith(text) => bytes.ends_with(text),
            TextMatcher::Contains(finder) => finder.find(bytes).is_some(),
            TextMatcher::Pattern(pattern) => pattern.is_in(bytes),
        }
    }
}

/// The number of bits of a word.
const WORD: usize = u64::BITS as usize;
/// The number of bits of the bitmap of hashes for each text of a [`TextSet`], so that it rules out nearly all others.
const BITS_PER_TEXT: usize = 64;
/// The minimum number of bits of a bitmap of hashes.
const MIN_BITS: usize = 1 << 12;
/// The maximum number of bits of a bitmap of hashes, which stays in a cache.
const MAX_BITS: usize = 1 << 20;

/// A set of texts, with their lengths and hashes, which rule out nearly all other texts.
#[derive(Debug)]
pub(in crate::compute) struct TextSet {
    texts: HashSet<Vec<u8>>,
    /// The bits of the texts' lengths, by [`length_bit`](access::length_bit).
    pub(super) lengths: u32,
    /// A bitmap in which the texts' hashes are set.
    hashes: Vec<u64>,
    /// The number of bits of a product that are no part of a hash.
    shift: u32,
}

impl TextSet {
    fn build(texts: HashSet<Vec<u8>>) -> TextSet {
        let lengths = texts.iter().fold(0, |lengths, text| lengths | access::length_bit(text.len()));
        let bits = (BITS_PER_TEXT * texts.len()).next_power_of_two().clamp(MIN_BITS, MAX_BITS);
        let mut set = TextSet { texts, lengths, hashes: vec![0; bits / WORD], shift: u64::BITS - bits.ilog2() };
        for text in &set.texts {
            let hash = set.hash(text.len(), access::head(text));
            set.hashes[hash / WORD] |= 1 << (hash % WORD);
        }
        set
    }

    /// Returns the texts in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.texts.iter()
    }

    /// Returns true if `text` is in the set.
    pub(super) fn contains(&self, text: &[u8]) -> bool {
        self.may_contain(text.len(), access::head(text)) && self.texts.contains(text)
    }

    /// Returns true if a text of `len` bytes may be in the set. `head` is its first 16 bytes as a number; if it has
    /// fewer, the bytes behind them are ignored.
    #[inline(always)]
    pub(super) fn may_contain(&self, len: usize, head: u128) -> bool {
        let hash = self.hash(len, head);
        debug_assert!(hash / WORD < self.hashes.len(), "hash {hash} of {} words", self.hashes.len());
        self.hashes.get(hash / WORD).is_some_and(|bits| bits >> (hash % WORD) & 1 != 0)
    }

    /// Returns the upper bits of products, as they depend on all bits of the text's first bytes.
    #[inline(always)]
    fn hash(&self, len: usize, head: u128) -> usize {
        let head = if len < 16 { head & access::byte_mask(len) } else { head };
        let low = (head as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let high = ((head >> 64) as u64 ^ len as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (low.wrapping_add(high) >> self.shift) as usize
    }
}

impl ValuePredicate {
    /// Creates the test that compares values of column `name` of `data_type` with `literal` by `operator`.
    ///
    /// # Errors
    /// `InvalidArgument` if the two can't be compared.
    pub(in crate::compute) fn for_comparison(
        name: &str,
        data_type: &DataType,
        operator: Operator,
        literal: &Literal,
    ) -> Result<ValuePredicate> {
        if let DataType::Dictionary(_, values) = data_type {
            return ValuePredicate::for_comparison(name, values, operator, literal);
        }
        if matches!(literal.0, LiteralValue::Null) {
            return Ok(ValuePredicate::Unknown);
        }
        let test = match data_type {
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                compare_floats(data_type, operator, &literal.0)
            }
            other if is_text_or_binary(other) => compare_text(other, operator, &literal.0),
            other => scale_literal(other, &literal.0).map(|nearest| compare_integers(other, operator, nearest)),
        };
        test.ok_or_else(|| {
            let column = type_name(data_type);
            let advice = literal.advice(data_type);
            Error::invalid_argument(format!(
                "column '{name}' of type {column} can't be compared with {literal}{advice}"
            ))
        })
    }

    /// Returns true if `value` passes the test.
    pub(super) fn holds(&self, value: &Value<'_>) -> bool {
        match self {
            ValuePredicate::Unknown | ValuePredicate::Never => false,
            ValuePredicate::Range(low, high) => {
                digits_of(value).is_some_and(|digits| *low <= digits && digits <= *high)
            }
            ValuePredicate::Floats(low, high) => match value {
                Value::Float32(number) => (*low..=*high).contains(&f64::from(*number)),
                Value::Float64(number) => (*low..=*high).contains(number),
                _ => false,
            },
            ValuePredicate::Text(operator, text) => match value {
                Value::Str(value) => operator.holds(value.as_bytes().cmp(text)),
                Value::Bytes(value) => operator.holds((*value).cmp(text)),
                Value::Uuid(value) => operator.holds(value.as_slice().cmp(text)),
                _ => false,
            },
            ValuePredicate::Matches(text) => matches!(value, Value::Str(value) if text.holds(value.as_bytes())),
            ValuePredicate::Texts(texts) => match value {
                Value::Str(value) => texts.contains(value.as_bytes()),
                Value::Bytes(value) => texts.contains(value),
                Value::Uuid(value) => texts.contains(value.as_slice()),
                _ => false,
            },
            ValuePredicate::Integers(numbers) => {
                digits_of(value).is_some_and(|digits| numbers.binary_search(&digits).is_ok())
            }
            ValuePredicate::OneOfFloats(numbers) => match value {
                Value::Float32(number) => has_float(numbers, (*number).into()),
                Value::Float64(number) => has_float(numbers, *number),
                _ => false,
            },
            ValuePredicate::Not(test) => !matches!(value, Value::Null) && !test.holds(value),
            ValuePredicate::Any(tests) => tests.iter().any(|test| test.holds(value)),
        }
    }

    /// Creates the test of whether text of column `name` contains, starts or ends with `text`, or matches it as a
    /// pattern.
    pub(super) fn for_text_match(
        name: &str,
        data_type: &DataType,
        kind: TextMatch,
        text: &str,
    ) -> Result<ValuePredicate> {
        match data_type {
            DataType::Dictionary(_, values) => ValuePredicate::for_text_match(name, values, kind, text),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Ok(ValuePredicate::Matches(TextMatcher::try_new(kind, text)?))
            }
            other => {
                let message = format!("column '{name}' of type {} is no text that {kind} {text:?}", type_name(other));
                Err(Error::invalid_argument(message))
            }
        }
    }

    /// Creates the test for equality with one of `literals`.
    pub(super) fn for_any(name: &str, data_type: &DataType, literals: &[Literal]) -> Result<ValuePredicate> {
        let mut tests = Vec::with_capacity(literals.len());
        for literal in literals.iter().filter(|literal| !matches!(literal.0, LiteralValue::Null)) {
            tests.push(ValuePredicate::for_comparison(name, data_type, Operator::Eq, literal)?);
        }
        if tests.is_empty() {
            return Ok(ValuePredicate::Any(tests));
        }
        let texts: Option<HashSet<Vec<u8>>> = tests
            .iter()
            .map(|test| match test {
                ValuePredicate::Text(Operator::Eq, text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        Ok(match texts {
            Some(texts) => ValuePredicate::Texts(Arc::new(TextSet::build(texts))),
            None if tests.len() > MAX_ALTERNATIVES => ValuePredicate::one_of_numbers(tests),
            None => ValuePredicate::Any(tests),
        })
    }

    /// Creates the test for any of many tests: a search for the number if each tests for equality with one.
    fn one_of_numbers(mut tests: Vec<ValuePredicate>) -> ValuePredicate {
        tests.retain(|test| !matches!(test, ValuePredicate::Never));
        if tests.is_empty() {
            return ValuePredicate::Never;
        }
        let integers: Option<Vec<i256>> = tests
            .iter()
            .map(|test| match test {
                ValuePredicate::Range(low, high) if low == high => Some(*low),
                _ => None,
            })
            .collect();
        if let Some(mut integers) = integers {
            integers.sort_unstable();
            integers.dedup();
            return ValuePredicate::Integers(integers);
        }
        let floats: Option<Vec<f64>> = tests
            .iter()
            .map(|test| match test {
                ValuePredicate::Floats(low, high) if low == high => Some(*low),
                _ => None,
            })
            .collect();
        if let Some(mut floats) = floats {
            floats.sort_unstable_by(f64::total_cmp);
            floats.dedup();
            return ValuePredicate::OneOfFloats(floats);
        }
        ValuePredicate::Any(tests)
    }
}

/// The maximum number of alternatives with which a value is compared one after the other.
const MAX_ALTERNATIVES: usize = 16;

/// Returns true if `number` is one of `numbers`, which are in order.
pub(super) fn has_float(numbers: &[f64], number: f64) -> bool {
    let position = numbers.partition_point(|other| *other < number);
    numbers.get(position).is_some_and(|other| *other == number)
}

/// Returns the integer, or the digits of the decimal, that is compared with a range. It is the day of a date64, as the
/// value has no more.
fn digits_of(value: &Value<'_>) -> Option<i256> {
    let number = match value {
        Value::Bool(flag) => (*flag).into(),
        Value::Int(n) | Value::Date(n) | Value::Time(n, _) | Value::Timestamp(n, ..) | Value::Duration(n, _) => {
            i128::from(*n)
        }
        Value::UInt(n) => (*n).into(),
        Value::Decimal { digits, .. } => return Some(*digits),
        _ => return None,
    };
    Some(i256::from_i128(number))
}

fn compare_text(data_type: &DataType, operator: Operator, literal: &LiteralValue) -> Option<ValuePredicate> {
    let is_utf8 = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match literal {
        LiteralValue::Str(text) if is_utf8 => Some(ValuePredicate::Text(operator, text.clone().into_bytes())),
        LiteralValue::Bytes(bytes) if !is_utf8 => Some(ValuePredicate::Text(operator, bytes.clone())),
        _ => None,
    }
}

impl Operator {
    /// Returns true if the comparison is true for two values in this order.
    #[inline]
    pub(super) fn holds(self, order: Ordering) -> bool {
        match self {
            Operator::Eq => order.is_eq(),
            Operator::Ne => order.is_ne(),
            Operator::Lt => order.is_lt(),
            Operator::Le => order.is_le(),
            Operator::Gt => order.is_gt(),
            Operator::Ge => order.is_ge(),
        }
    }
}

// ---- floats ----

fn compare_floats(data_type: &DataType, operator: Operator, literal: &LiteralValue) -> Option<ValuePredicate> {
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

fn order_of_int(float: f64, number: i128) -> Ordering {
    // 2^127 as an integer is less than as a float.
    if float >= 2f64.powi(127) { Ordering::Greater } else { (float as i128).cmp(&number) }
}

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

    fn from_float(number: f64) -> Digits {
        // No float has more digits behind its point.
        Digits::parse(&format!("{number:.1074}"), 0)
    }

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

// ---- integers, decimals, times ----

/// The integers next to a literal in the units of a column: the largest not above and the smallest not below, the same
/// twice if the literal is an integer. The first is greater than the second for NaN.
type NearestIntegers = (i256, i256);

/// Converts a literal to the units of a column; `None` if it can't be compared with the column.
fn scale_literal(data_type: &DataType, literal: &LiteralValue) -> Option<NearestIntegers> {
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
fn compare_integers(data_type: &DataType, operator: Operator, (low, high): NearestIntegers) -> ValuePredicate {
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
