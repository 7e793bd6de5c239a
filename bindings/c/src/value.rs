//! One value: `arrowwood_value` of the header.

use arrow_buffer::i256;
use arrow_schema::{IntervalUnit, TimeUnit};
use arrowwood::{Error, ErrorKind, Result, Value, guard};

use crate::error::invalid_argument;
use crate::ffi::{CValue, CValueIn, InPtr, OutPtr, StringOut, ZONE_WORD};

/// `arrowwood_value_kind`.
pub mod kind {
    pub const NULL: i32 = 0;
    pub const BOOL: i32 = 1;
    pub const INT64: i32 = 2;
    pub const UINT64: i32 = 3;
    pub const INT128: i32 = 4;
    pub const FLOAT32: i32 = 5;
    pub const FLOAT64: i32 = 6;
    pub const DECIMAL: i32 = 7;
    pub const TEXT: i32 = 8;
    pub const BYTES: i32 = 9;
    pub const UUID: i32 = 10;
    pub const DATE: i32 = 11;
    pub const TIME: i32 = 12;
    pub const TIMESTAMP: i32 = 13;
    pub const DURATION: i32 = 14;
    pub const INTERVAL: i32 = 15;
    pub const LIST: i32 = 16;
    pub const MAP: i32 = 17;
    pub const STRUCT: i32 = 18;
    pub const UNION: i32 = 19;
}

/// `arrowwood_unit`.
mod unit {
    pub const SECOND: i32 = 0;
    pub const MILLISECOND: i32 = 1;
    pub const MICROSECOND: i32 = 2;
    pub const NANOSECOND: i32 = 3;
}

/// The units of values of kind [`kind::INTERVAL`].
mod interval_unit {
    pub const YEAR_MONTH: i32 = 0;
    pub const DAY_TIME: i32 = 1;
    pub const MONTH_DAY_NANO: i32 = 2;
}

/// Converts a value to C. Text and bytes stay in place: they live as long as the owner from which `value` is borrowed.
#[inline]
pub fn to_c(value: &Value<'_>) -> Result<CValue> {
    Ok(match value {
        Value::Null => CValue::default(),
        Value::Bool(flag) => word(kind::BOOL, u64::from(*flag)),
        Value::Int(number) => word(kind::INT64, number.cast_unsigned()),
        Value::UInt(number) => word(kind::UINT64, *number),
        Value::Int128(number) => wide(kind::INT128, i256::from_i128(*number)),
        Value::Float32(number) => word(kind::FLOAT32, f64::from(*number).to_bits()),
        Value::Float64(number) => word(kind::FLOAT64, number.to_bits()),
        Value::Decimal { digits, scale } => CValue { unit: (*scale).into(), ..wide(kind::DECIMAL, *digits) },
        Value::Str(text) => at(kind::TEXT, text.as_bytes()),
        Value::Bytes(bytes) => at(kind::BYTES, bytes),
        Value::Uuid(bytes) => at(kind::UUID, &bytes[..]),
        Value::Date(days) => word(kind::DATE, days.cast_unsigned()),
        Value::Time(time, unit) => timed(kind::TIME, *time, *unit),
        Value::Timestamp(time, unit, zone) => zoned(timed(kind::TIMESTAMP, *time, *unit), *zone),
        Value::Duration(length, unit) => timed(kind::DURATION, *length, *unit),
        Value::Interval { months, days, nanoseconds, unit } => interval(*months, *days, *nanoseconds, *unit),
        Value::List(items) => CValue { kind: kind::LIST, length: items.len() as u64, ..CValue::default() },
        Value::Map(items) => CValue { kind: kind::MAP, length: items.len() as u64, ..CValue::default() },
        Value::Struct(members) => CValue { kind: kind::STRUCT, length: members.len() as u64, ..CValue::default() },
        Value::Union(member, _) => at(kind::UNION, member.name().as_bytes()),
        other => {
            let message = format!("a value that this version of the C library doesn't know: {other}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    })
}

/// Converts a float, or null, to C.
pub fn float(number: Option<f64>) -> CValue {
    number.map_or_else(CValue::default, |number| word(kind::FLOAT64, number.to_bits()))
}

/// Converts a count to C.
pub fn count(number: u64) -> CValue {
    word(kind::UINT64, number)
}

/// Converts a boolean to C.
pub fn flag(flag: bool) -> CValue {
    word(kind::BOOL, u64::from(flag))
}

fn word(kind: i32, word: u64) -> CValue {
    CValue { kind, words: [word, 0, 0, 0], ..CValue::default() }
}

fn wide(kind: i32, number: i256) -> CValue {
    let mut wide = CValue { kind, ..CValue::default() };
    let bytes = number.to_le_bytes();
    let words = bytes.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes));
    wide.words.iter_mut().zip(words).for_each(|(slot, word)| *slot = word);
    wide
}

fn at(kind: i32, bytes: &[u8]) -> CValue {
    CValue { length: bytes.len() as u64, ..word(kind, bytes.as_ptr().expose_provenance() as u64) }
}

fn timed(kind: i32, time: i64, unit: TimeUnit) -> CValue {
    CValue { unit: unit_code(unit), ..word(kind, time.cast_unsigned()) }
}

/// Adds the name of the time zone to the time.
fn zoned(mut time: CValue, zone: Option<&str>) -> CValue {
    if let Some(zone) = zone {
        time.length = zone.len() as u64;
        time.words[ZONE_WORD] = zone.as_ptr().expose_provenance() as u64;
    }
    time
}

fn interval(months: i32, days: i32, nanoseconds: i64, unit: IntervalUnit) -> CValue {
    let months_and_days = u64::from(months.cast_unsigned()) | u64::from(days.cast_unsigned()) << u32::BITS;
    let unit = match unit {
        IntervalUnit::YearMonth => interval_unit::YEAR_MONTH,
        IntervalUnit::DayTime => interval_unit::DAY_TIME,
        IntervalUnit::MonthDayNano => interval_unit::MONTH_DAY_NANO,
    };
    CValue { kind: kind::INTERVAL, unit, length: 0, words: [months_and_days, nanoseconds.cast_unsigned(), 0, 0] }
}

fn unit_code(unit: TimeUnit) -> i32 {
    match unit {
        TimeUnit::Second => unit::SECOND,
        TimeUnit::Millisecond => unit::MILLISECOND,
        TimeUnit::Microsecond => unit::MICROSECOND,
        TimeUnit::Nanosecond => unit::NANOSECOND,
    }
}

fn time_unit(value: &CValue) -> Result<TimeUnit> {
    Ok(match value.unit {
        unit::SECOND => TimeUnit::Second,
        unit::MILLISECOND => TimeUnit::Millisecond,
        unit::MICROSECOND => TimeUnit::Microsecond,
        unit::NANOSECOND => TimeUnit::Nanosecond,
        other => return Err(invalid_argument(format!("value.unit: {other} is no unit of time"))),
    })
}

/// The zone of a time that C has filled. Its count is in UTC whatever the zone's name is, which is not read. Without
/// one it is unknown whether the time has a zone: columns in UTC and without one accept it.
#[inline]
fn zone(value: &CValue) -> &'static str {
    if value.words[ZONE_WORD] == 0 { "" } else { "UTC" }
}

/// Calls `work` with the value filled by C, whose text or bytes may lie in a mapped file.
///
/// # Errors
/// `FileChanged` if the file was truncated; then the result of `work` is dropped.
pub fn with_value<T>(value: &CValueIn, work: impl FnOnce(&Value<'_>) -> Result<T>) -> Result<T> {
    guard(|| work(&from_c(value)?))
}

/// Like [`with_value`], for several values.
pub fn with_values<T>(values: &[CValueIn], work: impl FnOnce(Vec<Value<'_>>) -> Result<T>) -> Result<T> {
    guard(|| work(values.iter().map(from_c).collect::<Result<_>>()?))
}

/// Like [`with_values`], for a row as columns store it. A row of few columns needs no allocation.
#[inline]
pub fn with_row<T>(values: &[CValueIn], work: impl FnOnce(&[Value<'_>]) -> Result<T>) -> Result<T> {
    guard(|| match values.len() {
        0..=4 => with_few::<4, T>(values, work),
        5..=16 => with_few::<16, T>(values, work),
        _ => work(&values.iter().map(stored).collect::<Result<Vec<_>>>()?),
    })
}

/// Like [`with_row`], for at most `N` values.
#[inline]
fn with_few<const N: usize, T>(values: &[CValueIn], work: impl FnOnce(&[Value<'_>]) -> Result<T>) -> Result<T> {
    let mut row = [const { Value::Null }; N];
    for (cell, value) in row.iter_mut().zip(values) {
        // The most frequent kinds are constructed in place: moving a value costs more than making it.
        match value.raw() {
            CValue { kind: kind::INT64, words, .. } => *cell = Value::Int(words[0].cast_signed()),
            CValue { kind: kind::FLOAT64, words, .. } => *cell = Value::Float64(f64::from_bits(words[0])),
            CValue { kind: kind::TEXT, .. } => *cell = Value::Str(text(value.bytes()?)?),
            CValue { kind: kind::TIMESTAMP, words, .. } => {
                let value = value.raw();
                *cell = Value::Timestamp(words[0].cast_signed(), time_unit(value)?, Some(zone(value)));
            }
            _ => *cell = stored(value)?,
        }
    }
    work(&row[..values.len()])
}

/// Converts the value filled by C to the form that columns store: a UUID is bytes.
#[inline]
fn stored(value: &CValueIn) -> Result<Value<'_>> {
    Ok(match from_c(value)? {
        Value::Uuid(bytes) => Value::Bytes(bytes),
        other => other,
    })
}

/// Converts the value filled by C. Only inside of a guard, as its text or bytes may lie in a mapped file.
#[inline]
fn from_c(given: &CValueIn) -> Result<Value<'_>> {
    let value = given.raw();
    let number = value.words[0].cast_signed();
    Ok(match value.kind {
        kind::NULL => Value::Null,
        // C may have written the flag as any integer.
        kind::BOOL => Value::Bool(number != 0),
        kind::INT64 => Value::Int(number),
        kind::UINT64 => Value::UInt(value.words[0]),
        kind::INT128 => Value::Int128(i128::from(value.words[0]) | i128::from(value.words[1].cast_signed()) << 64),
        kind::FLOAT32 => Value::Float32(f64::from_bits(value.words[0]) as f32),
        kind::FLOAT64 => Value::Float64(f64::from_bits(value.words[0])),
        kind::DECIMAL => decimal(value)?,
        kind::TEXT => Value::Str(text(given.bytes()?)?),
        kind::BYTES => Value::Bytes(given.bytes()?),
        kind::UUID => {
            let bytes = given.bytes()?;
            Value::Uuid(
                bytes
                    .try_into()
                    .map_err(|_| invalid_argument(format!("a UUID has 16 bytes, this one has {}", bytes.len())))?,
            )
        }
        kind::DATE => Value::Date(number),
        kind::TIME => Value::Time(number, time_unit(value)?),
        kind::TIMESTAMP => Value::Timestamp(number, time_unit(value)?, Some(zone(value))),
        kind::DURATION => Value::Duration(number, time_unit(value)?),
        kind::INTERVAL => interval_of(value)?,
        nested @ (kind::LIST | kind::MAP | kind::STRUCT | kind::UNION) => {
            return Err(invalid_argument(format!(
                "a value of kind {nested} is nested, and can only be given as Arrow data"
            )));
        }
        other => return Err(invalid_argument(format!("value.kind: there is no kind {other}"))),
    })
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| invalid_argument(format!("a text is not UTF-8: {e}")))
}

fn decimal(value: &CValue) -> Result<Value<'static>> {
    let mut bytes = [0; 32];
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(value.words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    let Ok(scale) = i8::try_from(value.unit) else {
        return Err(invalid_argument(format!("value.unit: {} is no scale of a decimal", value.unit)));
    };
    Ok(Value::Decimal { digits: i256::from_le_bytes(bytes), scale })
}

fn interval_of(value: &CValue) -> Result<Value<'static>> {
    let unit = match value.unit {
        interval_unit::YEAR_MONTH => IntervalUnit::YearMonth,
        interval_unit::DAY_TIME => IntervalUnit::DayTime,
        interval_unit::MONTH_DAY_NANO => IntervalUnit::MonthDayNano,
        other => return Err(invalid_argument(format!("value.unit: {other} is no unit of an interval"))),
    };
    let [months_and_days, nanoseconds, ..] = value.words;
    let months = (months_and_days as u32).cast_signed();
    let days = ((months_and_days >> u32::BITS) as u32).cast_signed();
    Ok(Value::Interval { months, days, nanoseconds: nanoseconds.cast_signed(), unit })
}

/// Converts a number to a float; `None` if it is not a number.
fn to_float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Int(number) => Some(*number as f64),
        Value::UInt(number) => Some(*number as f64),
        Value::Int128(number) => Some(*number as f64),
        Value::Float32(number) => Some((*number).into()),
        Value::Float64(number) => Some(*number),
        // Digits as they are printed are read to the nearest float.
        Value::Decimal { .. } => value.to_string().parse().ok(),
        _ => None,
    }
}

export! {
    /// A number of any kind as the nearest double.
    fn arrowwood_value_double(value: InPtr<CValueIn>, number: OutPtr<f64>) {
        number.put(with_value(value, |value| {
            to_float(value).ok_or_else(|| invalid_argument(format!("{value} is no number")))
        })?);
        Ok(())
    }

    /// A value as text.
    fn arrowwood_value_text(value: InPtr<CValueIn>, text: StringOut) {
        text.put(with_value(value, |converted| {
            let Value::Timestamp(count, unit, _) = *converted else { return Ok(converted.to_string()) };
            let zone = value.zone()?.map(self::text).transpose()?;
            Ok(Value::Timestamp(count, unit, zone).to_string())
        })?);
        Ok(())
    }
}
