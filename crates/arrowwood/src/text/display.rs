//! Formats values for people.
//!
//! Printing never fails and never panics: a damaged cell prints as `<error: …>`.

use std::fmt::{self, Display, Write};
use std::iter::once;

use arrow_buffer::i256;
use arrow_schema::TimeUnit;
use chrono::{DateTime, FixedOffset, NaiveDate};

use crate::array::{Items, Value};
use crate::error::{Error, Result};
use crate::escape::is_hidden;
use crate::map::guard;
use crate::types::layout::{NANOS_PER_SECOND, SECONDS_PER_DAY};
use crate::types::{per_second, unit_name};

/// Formats a count with thousands separators: `5,600,000`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of bytes in powers of 1000: `95.2 MB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    /// An amount from this one on would be rounded to 1000.0.
    const LARGEST_AMOUNT: f64 = 999.95;
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1000.0;
    let mut unit = 0;
    while amount >= LARGEST_AMOUNT && unit + 1 < UNITS.len() {
        amount /= 1000.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// Formats a count and its noun: `1 row`, `2 rows`.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", format_count(count), if count == 1 { one } else { many })
}

/// Formats `digits × 10^-scale` with every digit.
pub(super) fn decimal_text(digits: i256, scale: i8) -> String {
    let text = digits.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", &text[..]), |digits| ("-", digits));
    let places = usize::from(scale.unsigned_abs());
    if scale > 0 {
        let padded = format!("{digits:0>width$}", width = places + 1);
        let (whole, fraction) = padded.split_at(padded.len() - places);
        return format!("{sign}{whole}.{fraction}");
    }
    let zeros = if digits == "0" { 0 } else { places };
    format!("{sign}{digits}{}", "0".repeat(zeros))
}

const SECONDS_PER_MINUTE: i64 = 60;
const SECONDS_PER_HOUR: i64 = 3600;

/// Splits a time into whole seconds, rounded down, and the remaining nanoseconds.
fn split_seconds(count: i64, unit: TimeUnit) -> (i64, i64) {
    let per_second = per_second(unit);
    (count.div_euclid(per_second), count.rem_euclid(per_second) * (NANOS_PER_SECOND / per_second))
}

/// Formats a time that no calendar has.
fn count_text(count: i64, unit: TimeUnit) -> String {
    format!("{count} {}", unit_name(unit))
}

/// Returns the date of a number of days since 1970; `None` beyond chrono's calendar of a quarter of a million years.
fn civil_date(days: i64) -> Option<NaiveDate> {
    Some(DateTime::from_timestamp(days.checked_mul(SECONDS_PER_DAY)?, 0)?.date_naive())
}

fn date_text(days: i64) -> String {
    civil_date(days).map_or_else(|| format!("{days} days"), |date| date.to_string())
}

/// Formats hours, minutes and seconds, and, if not zero, a fraction of as many digits as the unit has.
fn clock_text(second: i64, nanos: i64, unit: TimeUnit) -> String {
    debug_assert!((0..SECONDS_PER_DAY).contains(&second), "second {second} of a day");
    let minute = second % SECONDS_PER_HOUR / SECONDS_PER_MINUTE;
    let time = format!("{:02}:{minute:02}:{:02}", second / SECONDS_PER_HOUR, second % SECONDS_PER_MINUTE);
    match unit {
        _ if nanos == 0 => time,
        TimeUnit::Second => time,
        TimeUnit::Millisecond => format!("{time}.{:03}", nanos / 1_000_000),
        TimeUnit::Microsecond => format!("{time}.{:06}", nanos / 1_000),
        TimeUnit::Nanosecond => format!("{time}.{nanos:09}"),
    }
}

fn time_text(count: i64, unit: TimeUnit) -> String {
    match split_seconds(count, unit) {
        (second @ 0..SECONDS_PER_DAY, nanos) => clock_text(second, nanos, unit),
        _ => count_text(count, unit),
    }
}

/// Formats a timestamp as a date and a time with `separator` between them; returns `None` for times beyond the
/// calendar.
fn date_time_text(count: i64, unit: TimeUnit, separator: char) -> Option<String> {
    let (seconds, nanos) = split_seconds(count, unit);
    let date = civil_date(seconds.div_euclid(SECONDS_PER_DAY))?;
    Some(format!("{date}{separator}{}", clock_text(seconds.rem_euclid(SECONDS_PER_DAY), nanos, unit)))
}

/// Formats a timestamp. A zone that is an offset shows local time and the offset: `2000-01-01 02:00:00+02:00`. The
/// offset of a zone such as `Europe/Paris` takes a database of zones, so such a zone shows UTC, marked `Z`: `2000-01-01
/// 00:00:00Z`.
fn timestamp_text(count: i64, unit: TimeUnit, tz: Option<&str>) -> String {
    let offset = tz.and_then(|tz| tz.parse::<FixedOffset>().ok());
    let offset_seconds = offset.map_or(0, |offset| i64::from(offset.local_minus_utc()));
    let local_count = count.checked_add(offset_seconds * per_second(unit));
    let local = local_count.and_then(|count| date_time_text(count, unit, ' '));
    match (local, tz, offset) {
        (None, ..) => count_text(count, unit),
        (Some(text), None, _) => text,
        (Some(text), Some(tz @ ("UTC" | "Etc/UTC")), _) => format!("{text} {tz}"),
        (Some(text), _, Some(offset)) => format!("{text}{offset}"),
        (Some(text), _, None) => format!("{text}Z"),
    }
}

pub(super) fn timestamp_iso(count: i64, unit: TimeUnit, tz: Option<&str>) -> String {
    let zone = if tz.is_some() { "Z" } else { "" };
    date_time_text(count, unit, 'T').map_or_else(|| count_text(count, unit), |text| text + zone)
}

/// A duration or an interval. Each part has its own sign, as in an Arrow interval.
pub(super) struct TimeSpan {
    months: i64,
    days: i64,
    seconds: i64,
    nanos: i64,
}

impl TimeSpan {
    pub(super) fn from_duration(count: i64, unit: TimeUnit) -> TimeSpan {
        let (mut seconds, mut nanos) = split_seconds(count, unit);
        if seconds < 0 && nanos > 0 {
            // Seconds and nanoseconds have the same sign.
            seconds += 1;
            nanos -= NANOS_PER_SECOND;
        }
        TimeSpan { months: 0, days: seconds / SECONDS_PER_DAY, seconds: seconds % SECONDS_PER_DAY, nanos }
    }

    pub(super) fn from_interval(months: i32, days: i32, nanos: i64) -> TimeSpan {
        let seconds = nanos / NANOS_PER_SECOND;
        let nanos = nanos % NANOS_PER_SECOND;
        TimeSpan { months: months.into(), days: days.into(), seconds, nanos }
    }

    fn seconds(&self) -> String {
        let sign = if self.seconds < 0 || self.nanos < 0 { "-" } else { "" };
        let seconds = (self.seconds % SECONDS_PER_MINUTE).abs();
        let nanos = self.nanos.abs();
        let text = format!("{sign}{seconds}.{nanos:09}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    }

    /// Returns the nonzero years, months and days.
    fn date_parts(&self) -> Vec<TimeSpanPart> {
        let years = TimeSpanPart { amount: (self.months / 12).to_string(), unit: "y", iso_unit: 'Y' };
        let months = TimeSpanPart { amount: (self.months % 12).to_string(), unit: "mo", iso_unit: 'M' };
        let days = TimeSpanPart { amount: self.days.to_string(), unit: "d", iso_unit: 'D' };
        [years, months, days].into_iter().filter(|part| part.amount != "0").collect()
    }

    /// Returns the nonzero hours, minutes and seconds.
    fn time_parts(&self) -> Vec<TimeSpanPart> {
        let hours = TimeSpanPart { amount: (self.seconds / SECONDS_PER_HOUR).to_string(), unit: "h", iso_unit: 'H' };
        let minutes = TimeSpanPart {
            amount: (self.seconds % SECONDS_PER_HOUR / SECONDS_PER_MINUTE).to_string(),
            unit: "m",
            iso_unit: 'M',
        };
        let mut parts: Vec<_> = [hours, minutes].into_iter().filter(|part| part.amount != "0").collect();
        if self.seconds % SECONDS_PER_MINUTE != 0 || self.nanos != 0 {
            parts.push(TimeSpanPart { amount: self.seconds(), unit: "s", iso_unit: 'S' });
        }
        parts
    }

    /// Formats the time for people: `1d 2h 3m 4.5s`.
    fn text(&self) -> String {
        let parts = self.date_parts().into_iter().chain(self.time_parts());
        let parts: Vec<_> = parts.map(|part| part.amount + part.unit).collect();
        if parts.is_empty() { "0s".into() } else { parts.join(" ") }
    }

    /// Formats the time as in ISO 8601: `P1DT2H3M4.5S`.
    pub(super) fn iso(&self) -> String {
        let mut text = String::from("P");
        for part in self.date_parts() {
            text.push_str(&part.amount);
            text.push(part.iso_unit);
        }
        let time = self.time_parts();
        if !time.is_empty() {
            text.push('T');
        }
        for part in time {
            text.push_str(&part.amount);
            text.push(part.iso_unit);
        }
        if text == "P" { "PT0S".into() } else { text }
    }
}

/// An amount of a [`TimeSpan`], and its unit.
struct TimeSpanPart {
    amount: String,
    unit: &'static str,
    iso_unit: char,
}

impl Display for Value<'_> {
    /// Formats the value for people. The alternate form, `{:#}`, is for cells of a table, where floats have at most six
    /// digits after the point. Times are in ISO 8601. A timestamp in a zone with a name other than UTC's shows UTC,
    /// marked `Z`, and a timestamp in an offset such as `+02:00` local time and the offset. Values beyond the calendar
    /// show as a number and its unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match guard(|| Ok::<_, Error>(self.write(f))) {
            Ok(done) => done,
            Err(e) => write!(f, "<error: {e}>"),
        }
    }
}

impl Value<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::UInt(value) => write!(f, "{value}"),
            Value::Int128(value) => write!(f, "{value}"),
            Value::Float32(value) => write_float(f, (*value).into(), format!("{value:?}")),
            Value::Float64(value) => write_float(f, *value, format!("{value:?}")),
            Value::Decimal { digits, scale } => f.write_str(&decimal_text(*digits, *scale)),
            Value::Str(text) => f.write_str(text),
            Value::Bytes(bytes) => write_bytes(f, bytes),
            Value::Uuid(bytes) => f.write_str(&uuid_text(bytes)),
            Value::Date(days) => f.write_str(&date_text(*days)),
            Value::Time(count, unit) => f.write_str(&time_text(*count, *unit)),
            Value::Timestamp(count, unit, tz) => f.write_str(&timestamp_text(*count, *unit, *tz)),
            Value::Duration(count, unit) => f.write_str(&TimeSpan::from_duration(*count, *unit).text()),
            Value::Interval { months, days, nanoseconds, .. } => {
                f.write_str(&TimeSpan::from_interval(*months, *days, *nanoseconds).text())
            }
            Value::List(items) => sequence(f, ['[', ']'], items.iter(), item),
            Value::Map(items) => sequence(f, ['{', '}'], entries(*items), |f, entry| match entry {
                Ok((key, value)) => {
                    key.fmt(f)?;
                    f.write_str(": ")?;
                    value.fmt(f)
                }
                Err(e) => write!(f, "<error: {e}>"),
            }),
            Value::Struct(members) => sequence(f, ['{', '}'], members.iter(), |f, (field, value)| {
                write!(f, "{}: ", field.name())?;
                item(f, value)
            }),
            Value::Union(_, value) => value.fmt(f),
        }
    }
}

/// Writes a float, whose text with all digits is `all_digits`.
fn write_float(f: &mut fmt::Formatter<'_>, value: f64, all_digits: String) -> fmt::Result {
    if !f.alternate() || !value.is_finite() {
        return f.write_str(&all_digits);
    }
    f.write_str(&short_float(value, all_digits))
}

/// Rounds a float to six digits behind the point, or, if it is very small or large, behind its first digit.
fn short_float(value: f64, all_digits: String) -> String {
    let magnitude = value.abs();
    let rounded = if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        let text = format!("{value:.6}");
        let text = text.trim_end_matches('0');
        if text.ends_with('.') { format!("{text}0") } else { text.to_string() }
    } else {
        let text = format!("{value:.6e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
    };
    if rounded.len() < all_digits.len() { rounded } else { all_digits }
}

/// Writes an item of a list or struct, or the error that it is.
fn item(f: &mut fmt::Formatter<'_>, value: Result<Value<'_>>) -> fmt::Result {
    match value {
        Ok(value) => value.fmt(f),
        Err(e) => write!(f, "<error: {e}>"),
    }
}

/// Formats a UUID: `01234567-89ab-cdef-0123-456789abcdef`.
pub(super) fn uuid_text(bytes: &[u8; 16]) -> String {
    let digits = hex(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// Writes the first bytes in hexadecimal digits, and an ellipsis if there are more.
fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const MAX_BYTES: usize = 32;
    write!(f, "0x{}", hex(&bytes[..bytes.len().min(MAX_BYTES)]))?;
    f.write_str(if bytes.len() > MAX_BYTES { "…" } else { "" })
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sequence<T>(
    f: &mut fmt::Formatter<'_>,
    [open, close]: [char; 2],
    items: impl Iterator<Item = T>,
    write: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    f.write_char(open)?;
    for (i, item) in items.enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        write(f, item)?;
    }
    f.write_char(close)
}

/// Returns the key and the value of each entry of a map.
pub(super) fn entries<'a>(items: Items<'a>) -> impl Iterator<Item = Result<(Value<'a>, Value<'a>)>> {
    items.iter().map(|item| {
        let Value::Struct(members) = item? else { return Err(Error::invalid("an entry of a map is null")) };
        let mut members = members.iter().map(|(_, value)| value);
        match (members.next(), members.next()) {
            (Some(key), Some(value)) => Ok((key?, value?)),
            _ => Err(Error::invalid("an entry of a map is not a key and a value")),
        }
    })
}

/// Formats `item` on one line of at most `width` characters.
pub fn ellipsize(item: impl Display, width: usize) -> String {
    let mut writer = TruncatingWriter { text: String::new(), room: width + 1 };
    if write!(writer, "{item:#}").is_ok() && writer.room > 0 {
        return writer.text;
    }
    // One character more than fits was written, or the item failed: the last one that fits becomes an ellipsis.
    writer.text.chars().take(width.saturating_sub(1)).chain(once('…')).collect()
}

/// A writer that fails when there is no more space, so that a list of a million items is not formatted to show ten.
/// Hidden characters are escaped: a cell must neither break the table nor control the terminal.
struct TruncatingWriter {
    text: String,
    /// The number of characters that may be added.
    room: usize,
}

impl Write for TruncatingWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| {
            if is_hidden(c) { c.escape_default().try_for_each(|c| self.push(c)) } else { self.push(c) }
        })
    }
}

impl TruncatingWriter {
    fn push(&mut self, c: char) -> fmt::Result {
        self.room = self.room.checked_sub(1).ok_or(fmt::Error)?;
        self.text.push(c);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_readable_floats() {
        let format_short = |value: f64| format!("{:#}", Value::Float64(value));
        for (value, text) in [
            (6.548_509_988_835_309, "6.54851"),
            (0.1 + 0.2, "0.3"),
            (100.0, "100.0"),
            (-2.5, "-2.5"),
            (1e-9, "1e-9"),
            (1.234_567_890_12e-9, "1.234568e-9"),
            (123_456_789.123_456_79, "123456789.123457"),
            (1e300, "1e300"),
            (1.0 / 3.0 * 1e20, "3.333333e19"),
            (0.999_999_999, "1.0"),
            (f64::NAN, "NaN"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(format_short(value), text);
            assert_eq!(Value::Float64(value).to_string(), format!("{value:?}"));
        }
        assert_eq!(format!("{:#}", Value::Float32(0.1)), "0.1");
    }

    #[test]
    fn counts_and_bytes_are_readable() {
        assert_eq!([0, 999, 1_000, 5_600_000].map(format_count), ["0", "999", "1,000", "5,600,000"]);
        let sizes = [0, 999, 1_000, 95_200_000, 999_999, u64::MAX].map(format_bytes);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "95.2 MB", "1.0 MB", "18.4 EB"]);
    }
}
