//! Translates comparisons for a column's type: to a range of numbers, or an order of bytes.
//!
//! `x > 2.5` of integers is `3 ≤ x ≤ largest`, `x != 7` is not `7 ≤ x ≤ 7`: one loop handles all of them.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_buffer::i256;
use arrow_schema::DataType;
use hashbrown::HashSet;

use super::compare_floats::compare_floats;
use super::compare_integers::{compare_integers, scale_literal};
use super::literal::{Literal, LiteralValue, Operator};
use super::predicate::TextMatch;
use super::text_set::TextSet;
use super::value_predicate::{TextMatcher, ValuePredicate};
use crate::array::Value;
use crate::error::{Error, Result};
use crate::types::layout::is_text;
use crate::types::{is_text_or_binary, type_name};

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
    pub(in crate::compute) fn holds(&self, value: &Value<'_>) -> bool {
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

/// Translates a comparison with a literal for a column of text or bytes; `None` if they can't be compared.
fn compare_text(data_type: &DataType, operator: Operator, literal: &LiteralValue) -> Option<ValuePredicate> {
    let is_utf8 = is_text(data_type);
    match literal {
        LiteralValue::Str(text) if is_utf8 => Some(ValuePredicate::Text(operator, text.clone().into_bytes())),
        LiteralValue::Bytes(bytes) if !is_utf8 => Some(ValuePredicate::Text(operator, bytes.clone())),
        _ => None,
    }
}

impl Operator {
    /// Returns true if the comparison is true for two values in this order.
    #[inline]
    pub(in crate::compute) fn holds(self, order: Ordering) -> bool {
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
