//! Infers the types of partition columns from the text in directories' names, and parses their values.

use arrow_schema::{DataType, Field};
use chrono::NaiveDate;

use crate::array::{Value, value_bytes};
use crate::error::{Error, Result};
use crate::types::type_name;

/// Returns the type of partition columns of text: a dictionary, as all rows of a partition have the same value. Its
/// keys are zeros, which all columns share, and which take no memory; `utf8` would take the text's length for each row.
fn category() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Infers the type for all of `values`: integers, dates, else text. Only integers in canonical form count, so that
/// nothing is lost: `007` is text.
pub(super) fn infer<'a>(values: impl Iterator<Item = Option<&'a str>> + Clone) -> DataType {
    let mut texts = values.flatten().peekable();
    if texts.peek().is_none() {
        return category();
    }
    if texts.clone().all(|text| integer(text).is_some()) {
        DataType::Int64
    } else if texts.all(|text| date(text).is_some()) {
        DataType::Date32
    } else {
        category()
    }
}

/// Parses an integer in its canonical form.
fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The length of a date such as `2026-01-31`.
const DATE_LEN: usize = 10;

/// Parses a date in its canonical form to its day, counted from 1970.
fn date(text: &str) -> Option<i64> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    // The parser accepts spaces and signs as well.
    (text.len() == DATE_LEN && date.to_string() == text).then(|| date.to_epoch_days().into())
}

/// Returns true if columns of the type can be partition columns.
pub(super) fn is_supported(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(keys, values) => {
            keys.is_integer() && matches!(**values, DataType::Utf8 | DataType::LargeUtf8)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Boolean | DataType::Date32 => true,
        other => other.is_integer() || matches!(other, DataType::Float32 | DataType::Float64),
    }
}

/// Parses `text` as a value of the column `field`.
///
/// # Errors
/// `InvalidData` if it is not one.
pub(super) fn parse<'a>(field: &Field, text: Option<&'a str>) -> Result<Value<'a>> {
    let Some(text) = text else { return Ok(Value::Null) };
    let value = match field.data_type() {
        DataType::Dictionary(..) | DataType::Utf8 | DataType::LargeUtf8 => Some(Value::Str(text)),
        DataType::Boolean => text.parse().ok().map(Value::Bool),
        DataType::Date32 => date(text).map(Value::Date),
        DataType::Float32 | DataType::Float64 => text.parse().ok().map(Value::Float64),
        DataType::UInt64 => text.parse().ok().map(Value::UInt),
        _ => text.parse().ok().map(Value::Int),
    };
    // An integer may be out of the type's range.
    if let Some(value) = value
        && (!field.data_type().is_integer() || value_bytes::encode_fixed(field.data_type(), &value).is_some())
    {
        return Ok(value);
    }
    Err(Error::invalid(format!(
        "partition column '{}' is {}, and a directory has the value '{text}'; open the table again, or with types of \
         your own",
        field.name(),
        type_name(field.data_type())
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_inferred_without_loss() {
        let of = |values: &[Option<&str>]| infer(values.iter().copied());
        assert_eq!(of(&[Some("1"), None, Some("-7")]), DataType::Int64);
        assert_eq!(of(&[Some("2024-05-01"), Some("1970-01-01"), None]), DataType::Date32);
        for text in ["007", "+1", "1.5", "-0", "9223372036854775808", "", "2024-5-1", "2024-02-30", "true"] {
            assert_eq!(of(&[Some("1"), Some(text)]), category(), "{text}");
        }
        for text in ["2024-05- 1", " 2024-5-01", "+2024-5-01", "-202-05-01"] {
            assert_eq!(of(&[Some("2024-05-01"), Some(text)]), category(), "{text}");
        }
        assert_eq!(of(&[Some("0000-01-01"), Some("9999-12-31")]), DataType::Date32);
        assert_eq!(of(&[Some("1"), Some("2024-05-01")]), category());
        assert_eq!(of(&[None]), category());
    }
}
