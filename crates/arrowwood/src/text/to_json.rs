//! Converts values to JSON and to cells of CSV, for programs. A damaged value is an error, where
//! [`display`](super::display) shows a placeholder.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Number, Value as Json};

use super::display::{TimeSpan, decimal_text, entries, hex, timestamp_iso, uuid_text};
use crate::array::Value;
use crate::error::Result;
use crate::map::guard;

impl Value<'_> {
    /// Converts the value to JSON.
    ///
    /// Numbers are numbers, except that `NaN`, `Infinity`, `-Infinity`, decimals, and integers of more than 64 bits are
    /// strings, as JSON readers would lose them; dates, times and timestamps are ISO 8601 (with `Z` if there is a time
    /// zone), durations and intervals `P1DT2H`, bytes hexadecimal digits. Structs, and maps with string keys, are
    /// objects; other maps, and structs with duplicate names, are lists of `[key, value]`.
    ///
    /// # Errors
    /// The error of the first damaged value inside.
    pub fn to_json(&self) -> Result<Json> {
        guard(|| self.json())
    }

    fn json(&self) -> Result<Json> {
        Ok(match self {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::UInt(value) => Json::from(*value),
            Value::Int128(value) => Number::from_i128(*value).map_or_else(|| value.to_string().into(), Json::Number),
            Value::Float32(value) => float_json(widen(*value)),
            Value::Float64(value) => float_json(*value),
            Value::Decimal { digits, scale } => Json::String(decimal_text(*digits, *scale)),
            Value::Str(text) => Json::String((*text).into()),
            Value::Bytes(bytes) => Json::String(hex(bytes)),
            Value::Uuid(bytes) => Json::String(uuid_text(bytes)),
            Value::Timestamp(count, unit, tz) => Json::String(timestamp_iso(*count, *unit, *tz)),
            Value::Duration(count, unit) => Json::String(TimeSpan::from_duration(*count, *unit).iso()),
            Value::Interval { months, days, nanoseconds, .. } => {
                Json::String(TimeSpan::from_interval(*months, *days, *nanoseconds).iso())
            }
            Value::Date(_) | Value::Time(..) => Json::String(self.to_string()),
            Value::List(items) => Json::Array(items.iter().map(|item| item?.json()).collect::<Result<_>>()?),
            Value::Map(items) => object(entries(*items).map(|entry| {
                let (key, value) = entry?;
                Ok((key.json()?, value.json()?))
            }))?,
            Value::Struct(members) => {
                object(members.iter().map(|(field, value)| Ok((Json::String(field.name().clone()), value?.json()?))))?
            }
            Value::Union(_, value) => value.json()?,
        })
    }

    /// Converts the value to a cell of a CSV file, not yet quoted.
    ///
    /// Null is empty; lists, structs and maps are JSON; other values are as in [`Value::to_json`].
    ///
    /// # Errors
    /// The error of the first damaged value inside.
    pub fn to_csv_cell(&self) -> Result<Cow<'_, str>> {
        if let Value::Str(text) = self {
            return Ok(Cow::Borrowed(text));
        }
        Ok(Cow::Owned(match self.to_json()? {
            Json::Null => String::new(),
            Json::String(text) => text,
            other => other.to_string(),
        }))
    }
}

/// Returns the 64-bit float with the same shortest digits: 0.1, not 0.10000000149011612.
fn widen(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(value.into())
}

fn float_json(value: f64) -> Json {
    match Number::from_f64(value) {
        Some(number) => Json::Number(number),
        None if value.is_nan() => "NaN".into(),
        None if value > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// Returns an object, or a list of `[key, value]` unless all keys are distinct strings.
fn object(pairs: impl Iterator<Item = Result<(Json, Json)>>) -> Result<Json> {
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    if !have_distinct_names(&pairs) {
        return Ok(Json::Array(pairs.into_iter().map(|(key, value)| Json::Array(vec![key, value])).collect()));
    }

    let members = pairs.into_iter().filter_map(|(key, value)| match key {
        Json::String(name) => Some((name, value)),
        _ => None,
    });
    Ok(Json::Object(members.collect()))
}

/// Returns true if all keys are strings, and no two of them are equal.
fn have_distinct_names(pairs: &[(Json, Json)]) -> bool {
    let mut names = HashSet::new();
    pairs.iter().all(|(key, _)| key.as_str().is_some_and(|name| names.insert(name)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::*;
    use arrow_array::types::*;
    use arrow_array::*;
    use arrow_buffer::{IntervalMonthDayNano, ScalarBuffer, i256};
    use arrow_schema::{DataType, Field, TimeUnit, UnionFields};

    use super::*;
    use crate::dataset::Dataset;

    fn text_and_json(array: impl Array + 'static) -> (String, String) {
        let array: ArrayRef = Arc::new(array);
        let batch = RecordBatch::try_from_iter_with_nullable([("x", array, true)]).unwrap();
        let dataset = Dataset::try_from(vec![batch]).unwrap();
        let value = dataset.row(0).unwrap().get(0).unwrap();
        (value.to_string(), value.to_json().unwrap().to_string())
    }

    fn text_and_csv(value: Value<'_>) -> (String, String) {
        (value.to_string(), value.to_csv_cell().unwrap().into_owned())
    }

    fn texts(a: &str, b: &str) -> (String, String) {
        (a.into(), b.into())
    }

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!(text_and_csv(Value::Float64(1.0)), texts("1.0", "1.0"));
        assert_eq!(text_and_csv(Value::Float32(0.1)), texts("0.1", "0.1"));
        assert_eq!(text_and_csv(Value::Float64(f64::NEG_INFINITY)), texts("-inf", "-Infinity"));
        assert_eq!(Value::Float64(f64::NAN).to_json().unwrap(), "NaN");
        assert_eq!(Value::UInt(u64::MAX).to_json().unwrap().to_string(), "18446744073709551615");
        let sums = [i64::MAX.into(), i128::MAX].map(|sum| Value::Int128(sum).to_json().unwrap());
        assert_eq!((sums[0].is_number(), sums[1].as_str()), (true, Some("170141183460469231731687303715884105727")));
        let decimal = |digits: i128, scale| text_and_csv(Value::Decimal { digits: i256::from_i128(digits), scale }).0;
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(12345, 2), "123.45");
        assert_eq!(decimal(12345, 0), "12345");
        assert_eq!(decimal(-12, -3), "-12000");
        assert_eq!(decimal(0, -3), "0");
        assert_eq!(decimal(0, 2), "0.00");
        let smallest = Value::Decimal { digits: i256::MIN, scale: 127 }.to_string();
        assert_eq!(smallest.len(), 2 + 1 + 127);
    }

    #[test]
    fn dates_and_times_are_iso() {
        use TimeUnit::*;
        let timestamp = |count, unit, tz| text_and_csv(Value::Timestamp(count, unit, tz));
        assert_eq!(text_and_csv(Value::Date(10_957)), texts("2000-01-01", "2000-01-01"));
        assert_eq!(text_and_csv(Value::Date(-719_529)).0, "-0001-12-31");
        assert_eq!(text_and_csv(Value::Date(i64::MAX)).0, "9223372036854775807 days");
        let start = texts("2000-01-01 00:00:00 UTC", "2000-01-01T00:00:00Z");
        assert_eq!(timestamp(946_684_800_000, Millisecond, Some("UTC")), start);
        assert_eq!(timestamp(-1, Millisecond, None), texts("1969-12-31 23:59:59.999", "1969-12-31T23:59:59.999"));
        assert_eq!(timestamp(1_500_000, Microsecond, None).0, "1970-01-01 00:00:01.500000");
        assert_eq!(timestamp(0, Second, Some("Europe/Paris")).0, "1970-01-01 00:00:00Z");
        let local = texts("1969-12-31 19:00:00.001-05:00", "1970-01-01T00:00:00.001Z");
        assert_eq!(timestamp(1, Millisecond, Some("-05:00")), local);
        assert_eq!(timestamp(0, Second, Some("+0530")).0, "1970-01-01 05:30:00+05:30");
        for zone in ["", "+", "+99:00", "Ünï", "5"] {
            assert_eq!(timestamp(0, Second, Some(zone)).0, "1970-01-01 00:00:00Z");
        }
        assert_eq!(timestamp(i64::MAX, Nanosecond, Some("+01:00")).0, "9223372036854775807 ns");
        assert_eq!(timestamp(i64::MAX, Second, Some("UTC")), texts("9223372036854775807 s", "9223372036854775807 s"));
        assert_eq!(timestamp(i64::MIN, Nanosecond, None).0, "1677-09-21 00:12:43.145224192");
        assert_eq!(text_and_csv(Value::Time(86_399_000_001, Microsecond)).0, "23:59:59.000001");
        assert_eq!(text_and_csv(Value::Time(86_400, Second)).0, "86400 s");
        assert_eq!(text_and_csv(Value::Time(-1, Nanosecond)).0, "-1 ns");
    }

    #[test]
    fn durations_and_intervals_are_printed_by_units() {
        use TimeUnit::*;
        let duration = |count, unit| text_and_csv(Value::Duration(count, unit));
        assert_eq!(duration(93_784_500, Millisecond), texts("1d 2h 3m 4.5s", "P1DT2H3M4.5S"));
        assert_eq!(duration(-1_500, Millisecond), texts("-1.5s", "PT-1.5S"));
        assert_eq!(duration(-500, Millisecond), texts("-0.5s", "PT-0.5S"));
        assert_eq!(duration(-90, Second), texts("-1m -30s", "PT-1M-30S"));
        assert_eq!(duration(600, Second), texts("10m", "PT10M"));
        assert_eq!(duration(10, Second), texts("10s", "PT10S"));
        assert_eq!(duration(86_400, Second), texts("1d", "P1D"));
        assert_eq!(duration(0, Second), texts("0s", "PT0S"));
        assert_eq!(duration(i64::MIN, Second).0, "-106751991167300d -15h -30m -8s");
        let nanos = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(14, -3, 1_000_000_001)]);
        assert_eq!(text_and_json(nanos), texts("1y 2mo -3d 1.000000001s", "\"P1Y2M-3DT1.000000001S\""));
        assert_eq!(text_and_json(IntervalYearMonthArray::from(vec![-14])), texts("-1y -2mo", "\"P-1Y-2M\""));
        let smallest = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(i32::MIN, i32::MIN, i64::MIN)]);
        assert!(text_and_json(smallest).0.starts_with("-178956970y -8mo -2147483648d -2562047h"));
    }

    #[test]
    fn nested_values_show_their_parts() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]);
        assert_eq!(text_and_json(list), texts("[1, null]", "[1,null]"));
        let (b, a): (ArrayRef, ArrayRef) =
            (Arc::new(StringArray::from(vec!["x"])), Arc::new(Float64Array::from(vec![1.5])));
        let field = |name, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
        let ordered = StructArray::from(vec![(field("b", &b), b.clone()), (field("a", &a), a.clone())]);
        assert_eq!(text_and_json(ordered), texts("{b: x, a: 1.5}", "{\"b\":\"x\",\"a\":1.5}"));
        let twice = StructArray::from(vec![(field("a", &b), b), (field("a", &a), a)]);
        assert_eq!(text_and_json(twice).1, "[[\"a\",\"x\"],[\"a\",1.5]]");
        assert_eq!(text_and_json(BinaryArray::from(vec![&[0, 255, 16][..]])), texts("0x00ff10", "\"00ff10\""));
        let (long, whole) = text_and_json(BinaryArray::from(vec![&[7; 100][..]]));
        assert_eq!((long.chars().count(), whole.len()), (2 + 64 + 1, 202));
        let dictionary: DictionaryArray<Int8Type> = ["b"].into_iter().collect();
        assert_eq!(text_and_json(dictionary), texts("b", "\"b\""));
        assert_eq!(text_and_json(NullArray::new(1)), texts("null", "null"));
    }

    #[test]
    fn maps_are_objects_when_their_keys_are_text() {
        let mut of_text = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        of_text.keys().append_value("k");
        of_text.values().append_value(1);
        of_text.append(true).unwrap();
        assert_eq!(text_and_json(of_text.finish()), texts("{k: 1}", "{\"k\":1}"));
        let mut of_numbers = MapBuilder::new(None, Int32Builder::new(), Int32Builder::new());
        of_numbers.keys().append_value(1);
        of_numbers.values().append_null();
        of_numbers.append(true).unwrap();
        assert_eq!(text_and_json(of_numbers.finish()), texts("{1: null}", "[[1,null]]"));
    }

    #[test]
    fn unions_show_their_value() {
        let fields = UnionFields::from_fields(vec![Field::new("n", DataType::Int32, true)]);
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let union = UnionArray::try_new(fields, ScalarBuffer::from(vec![0i8]), None, vec![numbers]).unwrap();
        assert_eq!(text_and_json(union), texts("7", "7"));
    }
}
