//! Values from text, for CSV and JSON: the possible types of a text, and its value for a type.

use std::str::FromStr;

use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use chrono::NaiveDate;

use crate::array::Value;

// ---- kinds ----

/// The types still possible for a column, a bit for each of [`candidate`]'s.
pub(crate) type TypeSet = u16;

pub(crate) const BOOLEAN: TypeSet = 1;
pub(crate) const INT: TypeSet = 1 << 1;
pub(crate) const UINT: TypeSet = 1 << 2;
pub(crate) const FLOAT: TypeSet = 1 << 3;
pub(crate) const DATE: TypeSet = 1 << 4;
pub(crate) const MICROS: TypeSet = 1 << 5;
pub(crate) const NANOS: TypeSet = 1 << 6;
pub(crate) const UTC_MICROS: TypeSet = 1 << 7;
pub(crate) const UTC_NANOS: TypeSet = 1 << 8;
/// Words for floats that are no numbers, of JSON: with no number beside them they are texts.
pub(crate) const WORD: TypeSet = 1 << 9;
/// Numbers of JSON: if no type holds them all, they are not to become texts.
pub(crate) const NUMBER: TypeSet = 1 << 10;
pub(crate) const TEXT: TypeSet = 0;
pub(crate) const UNSEEN: TypeSet = TypeSet::MAX;

pub(crate) fn candidate(kinds: TypeSet) -> DataType {
    let utc = || Some("UTC".into());
    match kinds {
        UNSEEN | TEXT => DataType::Utf8,
        _ if kinds & WORD != 0 => DataType::Utf8,
        _ if kinds & BOOLEAN != 0 => DataType::Boolean,
        _ if kinds & INT != 0 => DataType::Int64,
        _ if kinds & UINT != 0 => DataType::UInt64,
        _ if kinds & FLOAT != 0 => DataType::Float64,
        _ if kinds & DATE != 0 => DataType::Date32,
        _ if kinds & MICROS != 0 => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ if kinds & NANOS != 0 => DataType::Timestamp(TimeUnit::Nanosecond, None),
        _ if kinds & UTC_MICROS != 0 => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        _ => DataType::Timestamp(TimeUnit::Nanosecond, utc()),
    }
}

pub(crate) fn is_null(value: &str) -> bool {
    matches!(value.as_bytes(), b"" | b"NA" | b"N/A" | b"null" | b"NULL")
}

pub(crate) fn kinds_of(value: &str) -> TypeSet {
    match number_kinds(value) {
        TEXT if boolean(value).is_some() => BOOLEAN,
        TEXT if date(value).is_some() => DATE,
        TEXT => Moment::parse(value).map_or(TEXT, |moment| moment.kinds()),
        kinds => kinds,
    }
}

pub(crate) fn number_kinds(value: &str) -> TypeSet {
    match number_form(value) {
        NumberForm::Text => TEXT,
        NumberForm::Integer => integer_kinds(value),
        NumberForm::Float => float::<f64>(value).map_or(TEXT, |_| FLOAT),
    }
}

/// The numeric form of a text.
enum NumberForm {
    /// Padded with zeros or with a plus sign.
    Text,
    Integer,
    Float,
}

fn number_form(value: &str) -> NumberForm {
    let digits = value.strip_prefix('-').unwrap_or(value).as_bytes();
    let padded = digits.starts_with(b"0") && digits.get(1).is_some_and(u8::is_ascii_digit);
    if padded || value.starts_with('+') {
        NumberForm::Text
    } else if digits.iter().all(u8::is_ascii_digit) {
        NumberForm::Integer
    } else {
        NumberForm::Float
    }
}

fn integer_kinds(value: &str) -> TypeSet {
    let unsigned = value.parse::<u64>().map_or(TEXT, |_| UINT);
    match value.parse() {
        Ok(value) if is_exact(value) => INT | FLOAT | unsigned,
        Ok(_) => INT | unsigned,
        Err(_) => unsigned,
    }
}

// ---- values ----

pub(crate) fn boolean(value: &str) -> Option<bool> {
    match value {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

pub(crate) fn parse<T: FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

/// `None` for digits that overflow to infinity, such as `1e999`.
pub(crate) fn float<T: FromStr + Copy + Into<f64>>(value: &str) -> Option<T> {
    let number: T = value.parse().ok()?;
    let overflow = number.into().is_infinite() && value.contains(|c: char| c.is_ascii_digit());
    (!overflow).then_some(number)
}

/// An integer as inferred: `None` for other input of `FromStr`, such as a plus sign and leading zeros, and for minus zero.
pub(crate) fn exact_int(value: &str) -> Option<i64> {
    let digits = value.strip_prefix('-').unwrap_or(value).as_bytes();
    match digits {
        [b'0'] if digits.len() == value.len() => Some(0),
        [b'1'..=b'9', ..] => value.parse().ok(),
        _ => None,
    }
}

/// As [`exact_int`], for unsigned integers.
pub(crate) fn exact_uint(value: &str) -> Option<u64> {
    match value.as_bytes() {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] => value.parse().ok(),
        _ => None,
    }
}

/// A float as inferred: `None` for integers without an exact float.
pub(crate) fn exact_float(value: &str) -> Option<f64> {
    let is_float = match number_form(value) {
        NumberForm::Text => false,
        NumberForm::Integer => value.parse().is_ok_and(is_exact),
        NumberForm::Float => true,
    };
    is_float.then(|| float(value)).flatten()
}

/// A date and time as inferred, for columns of `kinds`.
pub(crate) fn exact_moment(value: &str, kinds: TypeSet) -> Option<Moment> {
    Moment::parse(value).filter(|moment| moment.kinds() & kinds != TEXT)
}

/// Whether `value` is a float, so that it is one of the column's kinds.
fn is_exact(value: i64) -> bool {
    (value as f64) as i128 == i128::from(value)
}

/// Narrows the kinds of a column to those of its integers.
pub(crate) fn narrowed_by_ints(kinds: TypeSet, values: &[i64]) -> TypeSet {
    let is_unsigned = values.iter().all(|&value| value >= 0);
    let is_float = values.iter().all(|&value| is_exact(value));
    kinds & !(if is_unsigned { 0 } else { UINT }) & !(if is_float { 0 } else { FLOAT })
}

/// Narrows the kinds of a column to those of its times in microseconds.
pub(crate) fn narrowed_by_micros(kinds: TypeSet, values: &[i64]) -> TypeSet {
    let fit = values.iter().all(|&micros| micros.checked_mul(1000).is_some());
    kinds & !(if fit { 0 } else { NANOS | UTC_NANOS })
}

fn two_digits(tens: u8, ones: u8) -> Option<u32> {
    let are_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
    are_digits.then(|| u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
}

/// Exactly `width` digits, at most nine.
fn digits(value: &str, width: usize) -> Option<u32> {
    let mut number = 0;
    for byte in value.bytes() {
        if !byte.is_ascii_digit() || value.len() > 9 {
            return None;
        }
        number = number * 10 + u32::from(byte - b'0');
    }
    (value.len() == width && width > 0).then_some(number)
}

/// Days since 1970.
pub(crate) fn date(value: &str) -> Option<i32> {
    iso_date(value).or_else(|| english_date(value))
}

fn iso_date(value: &str) -> Option<i32> {
    let &[.., b'-', m, n, b'-', d, e] = value.as_bytes() else { return None };
    days(value.get(..value.len() - 6)?, two_digits(m, n)?, two_digits(d, e)?)
}

fn english_date(value: &str) -> Option<i32> {
    let (first, rest) = value.split_once(' ')?;
    let (second, year) = rest.split_once(' ')?;
    match month(first) {
        Some(month) => days(year, month, day(second.strip_suffix(',').unwrap_or(second))?),
        None => days(year, month(second)?, day(first)?),
    }
}

fn days(year: &str, month: u32, day: u32) -> Option<i32> {
    let year = digits(year, 4).filter(|&year| year > 0)?;
    let date = NaiveDate::from_ymd_opt(year as i32, month, day)?;
    Some(date.to_epoch_days())
}

/// Days since 1970 of any year: as [`date`], and as dates are written whose year has not four digits.
pub(crate) fn any_date(value: &str) -> Option<i64> {
    date(value).map(i64::from).or_else(|| far_date(value))
}

/// `+12345-01-31` or `12345-01-31`, `-0044-03-15`, `0000-01-01`, and `5000000000 days` where there is no calendar.
fn far_date(value: &str) -> Option<i64> {
    if let Some(count) = value.strip_suffix(" days") {
        return parse(count);
    }
    let &[.., b'-', m, n, b'-', d, e] = value.as_bytes() else { return None };
    let year = value.get(..value.len() - 6)?;
    let (sign, number) = match year.as_bytes().first()? {
        b'-' => (-1, &year[1..]),
        b'+' => (1, &year[1..]),
        _ if year == "0000" || year.len() > 4 => (1, year),
        _ => return None,
    };
    let number = digits(number, number.len()).filter(|_| number.len() >= 4)?;
    let date = NaiveDate::from_ymd_opt(sign * number as i32, two_digits(m, n)?, two_digits(d, e)?)?;
    Some(date.to_epoch_days().into())
}

/// A count of a unit, as times are written that no calendar has: `9223372036854775807 s`.
pub(crate) fn counted(value: &str, per_second: i64) -> Option<i64> {
    let unit = match per_second {
        1 => " s",
        1_000 => " ms",
        1_000_000 => " us",
        _ => " ns",
    };
    parse(value.strip_suffix(unit)?)
}

fn day(value: &str) -> Option<u32> {
    digits(value, 1).or_else(|| digits(value, 2))
}

fn month(value: &str) -> Option<u32> {
    let mut months = "January February March April May June July August September October November December".split(' ');
    let is = |month: &str| value.eq_ignore_ascii_case(month) || value.eq_ignore_ascii_case(&month[..3]);
    months.position(is).map(|index| index as u32 + 1)
}

/// A date and a time: UTC if the value had an `offset`, else local time of an unknown zone.
pub(crate) struct Moment {
    seconds: i64,
    nanos: i64,
    pub(crate) offset: bool,
}

impl Moment {
    pub(crate) fn parse(value: &str) -> Option<Moment> {
        let (date, time) = value.split_at_checked(10)?;
        let time = time.strip_prefix(['T', ' '])?;
        Moment::parse_on_day(iso_date(date)?.into(), time)
    }

    /// Of a year that has not four digits.
    pub(crate) fn parse_far(value: &str) -> Option<Moment> {
        let (date, time) = value.split_once(['T', ' '])?;
        Moment::parse_on_day(far_date(date)?, time)
    }

    fn parse_on_day(days: i64, time: &str) -> Option<Moment> {
        let midnight = days.checked_mul(86_400)?;
        let zone = time.bytes().position(|byte| matches!(byte, b'Z' | b'+' | b'-'));
        let (clock, zone) = time.split_at_checked(zone.unwrap_or(time.len()))?;
        let (clock, nanos) = with_nanoseconds(clock)?;
        Some(Moment {
            seconds: midnight + clock_seconds(clock)? - zone_seconds(zone)?,
            nanos,
            offset: !zone.is_empty(),
        })
    }

    /// Also for a date without a time.
    pub(crate) fn parse_or_midnight(value: &str) -> Option<Moment> {
        let midnight = || date(value).map(|days| Moment { seconds: i64::from(days) * 86_400, nanos: 0, offset: false });
        Moment::parse(value).or_else(midnight)
    }

    fn kinds(&self) -> TypeSet {
        let (micros, nanos) = if self.offset { (UTC_MICROS, UTC_NANOS) } else { (MICROS, NANOS) };
        let fits = |per_second, kind| self.count(per_second).map_or(TEXT, |_| kind);
        fits(1_000_000, micros) | fits(1_000_000_000, nanos)
    }

    /// Since 1970, in the given units per second; `None` if not exact.
    pub(crate) fn count(&self, per_second: i64) -> Option<i64> {
        let nanos_each = 1_000_000_000 / per_second;
        let whole = self.nanos % nanos_each == 0;
        let count = i128::from(self.seconds) * i128::from(per_second) + i128::from(self.nanos / nanos_each);
        if whole { i64::try_from(count).ok() } else { None }
    }
}

/// A clock's time, and the nanoseconds behind its point.
fn with_nanoseconds(time: &str) -> Option<(&str, i64)> {
    match time.bytes().position(|byte| byte == b'.') {
        Some(point) => Some((time.get(..point)?, nanoseconds(time.get(point + 1..)?)?)),
        None => Some((time, 0)),
    }
}

fn nanoseconds(fraction: &str) -> Option<i64> {
    let number = digits(fraction, fraction.len().clamp(1, 9))?;
    Some(i64::from(number) * 10_i64.pow(9 - fraction.len() as u32))
}

fn clock_seconds(clock: &str) -> Option<i64> {
    let &[h, i, b':', m, n, b':', s, t] = clock.as_bytes() else { return None };
    let hours = two_digits(h, i)?;
    let minutes = two_digits(m, n)?;
    let seconds = two_digits(s, t)?;
    let valid = hours < 24 && minutes < 60 && seconds < 60;
    valid.then_some(i64::from(hours * 3600 + minutes * 60 + seconds))
}

/// Seconds east of Greenwich for an empty text, `Z`, `+05`, `+0530` and `+05:30`.
fn zone_seconds(zone: &str) -> Option<i64> {
    let Some(sign) = zone.chars().next().filter(|&sign| sign != 'Z') else {
        return (zone.len() < 2).then_some(0);
    };
    let (hours, rest) = zone[1..].split_at_checked(2)?;
    let minutes = if rest.is_empty() { 0 } else { digits(rest.strip_prefix(':').unwrap_or(rest), 2)? };
    let hours = digits(hours, 2).filter(|&hours| hours < 24 && minutes < 60)?;
    let seconds = i64::from(hours * 3600 + minutes * 60);
    Some(if sign == '-' { -seconds } else { seconds })
}

/// The time since midnight, in the given units per second; `None` if not exact.
pub(crate) fn time(value: &str, per_second: i64) -> Option<i64> {
    let (clock, nanos) = with_nanoseconds(value)?;
    Moment { seconds: clock_seconds(clock)?, nanos, offset: false }.count(per_second)
}

/// A text as a date or time of `data_type`: as in CSV, ISO 8601 and dates in English. A timestamp has a
/// zone if the text has an offset. `None` for other texts and types.
#[doc(hidden)]
pub fn parse_time(data_type: &DataType, text: &str) -> Option<Value<'static>> {
    match data_type {
        DataType::Date32 | DataType::Date64 => date(text).map(|days| Value::Date(days.into())),
        DataType::Time32(_) | DataType::Time64(_) => {
            time(text, 1_000_000_000).map(|nanos| Value::Time(nanos, TimeUnit::Nanosecond))
        }
        DataType::Timestamp(..) => {
            let moment = Moment::parse_or_midnight(text)?;
            // The coarsest exact unit has the largest range.
            let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
            let exact = |unit: TimeUnit| Some((moment.count(crate::types::per_second(unit))?, unit));
            let (count, unit) = units.into_iter().find_map(exact)?;
            Some(Value::Timestamp(count, unit, moment.offset.then_some("UTC")))
        }
        _ => None,
    }
}

/// A replacement for `text`, a time without an offset in a column of `data_type` with a time zone, or the reverse;
/// empty in all other cases.
#[doc(hidden)]
pub fn utc_offset_hint(data_type: &DataType, text: &str) -> &'static str {
    let DataType::Timestamp(_, zone) = data_type else { return "" };
    match Moment::parse_or_midnight(text) {
        Some(moment) if !moment.offset && zone.is_some() => {
            "; the column has a time zone: write the time's offset, as in 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+02:00"
        }
        Some(moment) if moment.offset && zone.is_none() => {
            "; the column has no time zone: write the time without an offset, or make the column timestamp[us, UTC]"
        }
        _ => "",
    }
}

/// The digits of a number of `precision` digits, `scale` of them after the decimal point; `None` if not exact.
pub(crate) fn decimal(value: &str, precision: u8, scale: i8) -> Option<i128> {
    let (mantissa, exponent) = match value.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?),
        None => (value, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.starts_with(['+', '-']) || !mantissa.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // "-.0" has no digits left.
    let digits: i128 = match format!("{whole}{fraction}").as_str() {
        "" | "-" | "+" => 0,
        digits => digits.parse().ok()?,
    };
    let behind = i32::try_from(fraction.len()).ok()? - i32::from(exponent);
    let shift = i32::from(scale) - behind;
    let power = if digits == 0 { Some(1) } else { 10_i128.checked_pow(shift.unsigned_abs()) }?;
    let scaled = match shift {
        0.. => digits.checked_mul(power)?,
        _ if digits % power == 0 => digits / power,
        _ => return None,
    };
    let limit = 10_i128.checked_pow(precision.into())?;
    (-limit < scaled && scaled < limit).then_some(scaled)
}

/// As [`decimal`], of up to 76 digits.
pub(crate) fn wide_decimal(value: &str, precision: u8, scale: i8) -> Option<i256> {
    if let Some(digits) = decimal(value, precision.min(38), scale) {
        return Some(i256::from_i128(digits));
    }
    let (mantissa, exponent) = match value.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?),
        None => (value, 0),
    };
    let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shift = i32::from(scale) + i32::from(exponent) - i32::try_from(fraction.len()).ok()?;
    let figures = format!("{}{fraction}", whole.trim_start_matches('0'));
    // Zeros that the scale leaves no place for are none.
    let cut = usize::try_from(-shift).unwrap_or(0);
    let (kept, lost) = figures.split_at_checked(figures.len().checked_sub(cut)?)?;
    if figures.is_empty() || !lost.bytes().all(|byte| byte == b'0') {
        return None;
    }
    let ten = i256::from_i128(10);
    let step = |sum: i256, byte: u8| {
        let digit = char::from(byte).to_digit(10)?;
        sum.checked_mul(ten)?.checked_add(i256::from_i128(digit.into()))
    };
    let zeros = std::iter::repeat_n(b'0', usize::try_from(shift).unwrap_or(0));
    let digits = kept.bytes().chain(zeros).try_fold(i256::ZERO, step)?;
    let limit = ten.checked_pow(precision.into())?;
    (digits < limit).then_some(if is_negative { digits.wrapping_neg() } else { digits })
}

/// Bytes written as two hexadecimal digits each.
pub(crate) fn bytes(value: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = value.as_bytes().as_chunks::<2>();
    let bytes =
        pairs.iter().map(|&[high, low]| Some((digit(high)? * 16 + digit(low)?) as u8)).collect::<Option<_>>()?;
    rest.is_empty().then_some(bytes)
}

/// Bytes, also written as a UUID.
pub(crate) fn bytes_or_uuid(value: &str) -> Option<Vec<u8>> {
    let is_uuid = value.len() == 36
        && value.bytes().enumerate().all(|(at, byte)| (byte == b'-') == [8, 13, 18, 23].contains(&at));
    if is_uuid { bytes(&value.replace('-', "")) } else { bytes(value) }
}

/// A length of time as in ISO 8601: `P1DT2H3M4.5S`, each part with a sign of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IsoDuration {
    months: i128,
    days: i128,
    nanos: i128,
}

impl IsoDuration {
    pub(crate) fn parse(value: &str) -> Option<IsoDuration> {
        let mut rest = value.strip_prefix('P')?;
        let mut span = IsoDuration::default();
        let mut is_time = false;
        // Each unit at most once, in this order; one at least, and one behind the T.
        let mut units = "YMD".chars();
        while !rest.is_empty() {
            if let Some(time) = rest.strip_prefix('T').filter(|_| !is_time) {
                (rest, units, is_time) = (time, "HMS".chars(), true);
                if rest.is_empty() {
                    return None;
                }
            }
            let len = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let (amount, unit) = (rest.get(..len)?, rest.get(len..)?.chars().next()?);
            units.find(|&next| next == unit)?;
            span.add(amount, unit, is_time)?;
            rest = rest.get(len + 1..)?;
        }
        (value.len() > 1).then_some(span)
    }

    fn add(&mut self, amount: &str, unit: char, is_time: bool) -> Option<()> {
        let (number, fraction) = match amount.split_once('.') {
            Some((number, fraction)) if unit == 'S' => (number, fraction),
            _ => (amount, ""),
        };
        let digits = number.strip_prefix('-').unwrap_or(number);
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if digits.is_empty() || !is_number(digits) || !is_number(fraction) || fraction.len() > 9 {
            return None;
        }
        // At most 2^64 of the longest unit: nothing overflows 128 bits.
        let whole = i128::from(digits.parse::<u64>().ok()?);
        let part: i128 = format!("{fraction:0<9}").parse().ok()?;
        let sign = if number.starts_with('-') { -1 } else { 1 };
        match (unit, is_time) {
            ('Y', _) => self.months += sign * whole * 12,
            ('M', false) => self.months += sign * whole,
            ('D', _) => self.days += sign * whole,
            ('H', _) => self.nanos += sign * whole * 3_600_000_000_000,
            ('M', true) => self.nanos += sign * whole * 60_000_000_000,
            _ => self.nanos += sign * (whole * 1_000_000_000 + part),
        }
        Some(())
    }

    /// Months, days and nanoseconds, as intervals have them.
    pub(crate) fn parts(self) -> Option<(i32, i32, i64)> {
        Some((self.months.try_into().ok()?, self.days.try_into().ok()?, self.nanos.try_into().ok()?))
    }
}

/// A duration in units of which a second has `per_second`: as in ISO 8601, or a whole number of the units.
pub(crate) fn duration(value: &str, per_second: i64) -> Option<i64> {
    let Some(span) = IsoDuration::parse(value) else { return parse(value) };
    let nanos = span.days * 86_400_000_000_000 + span.nanos;
    let unit = i128::from(1_000_000_000 / per_second);
    i64::try_from(nanos / unit).ok().filter(|_| span.months == 0 && nanos % unit == 0)
}

/// Shortens fields for messages: a field can be as long as the file.
pub(crate) fn shorten(value: &str) -> String {
    let mut short: String = value.chars().take(60).collect();
    if short.len() < value.len() {
        short.push('…');
    }
    short
}
