//! Parses values of CSV and JSON: finds the possible types of a text, and its value of a given type.

use std::str::FromStr;

use arrow_buffer::i256;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, TimeUnit};
use chrono::NaiveDate;

use crate::array::Value;
use crate::types::layout::{MICROS_PER_SECOND, MILLIS_PER_SECOND, NANOS_PER_SECOND, SECONDS_PER_DAY};
use crate::types::per_second;

const NANOS_PER_MICRO: i64 = 1000;
const SECONDS_PER_MINUTE: u32 = 60;
const SECONDS_PER_HOUR: u32 = 3600;
/// The maximum number of digits behind the point of a second.
const NANO_DIGITS: usize = 9;
/// The length of the end of a date, `-MM-DD`.
const MONTH_AND_DAY: usize = 6;
/// The length of a date with a year of four digits, `YYYY-MM-DD`.
const ISO_DATE: usize = MONTH_AND_DAY + YEAR_DIGITS;
/// The number of digits of the years from 1 to 9999.
const YEAR_DIGITS: usize = 4;

// ---- kinds ----

/// The types that are possible for a column, with a bit for each type that [`inferred_type`] returns.
pub(crate) type TypeSet = u16;

pub(crate) const BOOLEAN: TypeSet = 1 << 0;
pub(crate) const INT: TypeSet = 1 << 1;
pub(crate) const UINT: TypeSet = 1 << 2;
pub(crate) const FLOAT: TypeSet = 1 << 3;
pub(crate) const DATE: TypeSet = 1 << 4;
pub(crate) const MICROS: TypeSet = 1 << 5;
pub(crate) const NANOS: TypeSet = 1 << 6;
pub(crate) const UTC_MICROS: TypeSet = 1 << 7;
pub(crate) const UTC_NANOS: TypeSet = 1 << 8;
/// Strings of JSON such as `NaN`, which name floats. In a column without numbers they are texts.
pub(crate) const WORD: TypeSet = 1 << 9;
/// Numbers of JSON, which never become texts, even if no type holds all of them.
pub(crate) const NUMBER: TypeSet = 1 << 10;
/// No type but text is possible.
pub(crate) const TEXT: TypeSet = 0;
/// There are only nulls so far, so all types are possible.
pub(crate) const UNSEEN: TypeSet = TypeSet::MAX;

/// Returns the type of a column whose values have the common types `kinds`.
pub(crate) fn inferred_type(kinds: TypeSet) -> DataType {
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
        _ if kinds & UTC_MICROS != 0 => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
    }
}

/// Returns true if a field of CSV is null by default.
pub(crate) fn is_null(value: &str) -> bool {
    matches!(value.as_bytes(), b"" | b"NA" | b"N/A" | b"null" | b"NULL")
}

/// Returns the possible types of a text.
pub(crate) fn value_kinds(value: &str) -> TypeSet {
    match number_kinds(value) {
        TEXT if boolean(value).is_some() => BOOLEAN,
        TEXT if date(value).is_some() => DATE,
        TEXT => Moment::parse(value).map_or(TEXT, |moment| moment.kinds()),
        kinds => kinds,
    }
}

/// Returns the possible numeric types of a text.
pub(crate) fn number_kinds(value: &str) -> TypeSet {
    match number_form(value) {
        NumberForm::Text => TEXT,
        NumberForm::Integer => integer_kinds(value),
        NumberForm::Float => float::<f64>(value).map_or(TEXT, |_| FLOAT),
    }
}

/// The numeric form of a text.
enum NumberForm {
    /// A text, as it is padded with zeros or has a plus sign.
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

/// Parses a float; returns `None` for digits that overflow to infinity, such as `1e999`.
pub(crate) fn float<T: FromStr + Copy + Into<f64>>(value: &str) -> Option<T> {
    let number: T = value.parse().ok()?;
    let overflow = number.into().is_infinite() && value.contains(|c: char| c.is_ascii_digit());
    (!overflow).then_some(number)
}

/// Parses an integer in the form that is inferred as one. Returns `None` for other input of `FromStr`, such as a plus
/// sign and leading zeros, and for minus zero.
pub(crate) fn exact_int(value: &str) -> Option<i64> {
    let digits = value.strip_prefix('-').unwrap_or(value).as_bytes();
    match digits {
        [b'0'] if digits.len() == value.len() => Some(0),
        [b'1'..=b'9', ..] => value.parse().ok(),
        _ => None,
    }
}

/// Parses an unsigned integer, as [`exact_int`].
pub(crate) fn exact_uint(value: &str) -> Option<u64> {
    match value.as_bytes() {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] => value.parse().ok(),
        _ => None,
    }
}

/// Parses a float in the form that is inferred as one. Returns `None` for integers without an exact float.
pub(crate) fn exact_float(value: &str) -> Option<f64> {
    let is_float = match number_form(value) {
        NumberForm::Text => false,
        NumberForm::Integer => value.parse().is_ok_and(is_exact),
        NumberForm::Float => true,
    };
    if is_float { float(value) } else { None }
}

/// Parses a date and time in a form that is inferred as one of `kinds`.
pub(crate) fn exact_moment(value: &str, kinds: TypeSet) -> Option<Moment> {
    Moment::parse(value).filter(|moment| moment.kinds() & kinds != TEXT)
}

/// Returns true if a float holds `value` exactly.
fn is_exact(value: i64) -> bool {
    (value as f64) as i128 == i128::from(value)
}

/// Narrows the kinds of a column by its integers.
pub(crate) fn narrow_by_ints(kinds: TypeSet, values: &[i64]) -> TypeSet {
    let is_unsigned = values.iter().all(|&value| value >= 0);
    let is_float = values.iter().all(|&value| is_exact(value));
    kinds & !(if is_unsigned { 0 } else { UINT }) & !(if is_float { 0 } else { FLOAT })
}

/// Narrows the kinds of a column by its times in microseconds.
pub(crate) fn narrow_by_micros(kinds: TypeSet, values: &[i64]) -> TypeSet {
    let fit = values.iter().all(|&micros| micros.checked_mul(NANOS_PER_MICRO).is_some());
    kinds & !(if fit { 0 } else { NANOS | UTC_NANOS })
}

fn two_digits(tens: u8, ones: u8) -> Option<u32> {
    let are_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
    are_digits.then(|| u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
}

/// Parses exactly `width` digits. Returns `None` for more than nine, as a `u32` holds any nine.
fn digits(value: &str, width: usize) -> Option<u32> {
    const MAX_DIGITS: usize = 9;
    let mut number = 0;
    for byte in value.bytes() {
        if !byte.is_ascii_digit() || value.len() > MAX_DIGITS {
            return None;
        }
        number = number * 10 + u32::from(byte - b'0');
    }
    (value.len() == width && width > 0).then_some(number)
}

/// Parses a date, and returns the days since 1970.
pub(crate) fn date(value: &str) -> Option<i32> {
    iso_date(value).or_else(|| english_date(value))
}

fn iso_date(value: &str) -> Option<i32> {
    let &[.., b'-', m, n, b'-', d, e] = value.as_bytes() else { return None };
    days(value.get(..value.len() - MONTH_AND_DAY)?, two_digits(m, n)?, two_digits(d, e)?)
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
    let year = digits(year, YEAR_DIGITS).filter(|&year| year > 0)?;
    let date = NaiveDate::from_ymd_opt(year as i32, month, day)?;
    Some(date.to_epoch_days())
}

/// Parses a date as [`date`], or one whose year has more or less than four digits.
pub(crate) fn any_date(value: &str) -> Option<i64> {
    date(value).map(i64::from).or_else(|| far_date(value))
}

/// Parses `+12345-01-31` or `12345-01-31`, `-0044-03-15`, `0000-01-01`, and `5000000000 days` for days beyond the
/// calendar.
fn far_date(value: &str) -> Option<i64> {
    if let Some(count) = value.strip_suffix(" days") {
        return parse(count);
    }
    let &[.., b'-', m, n, b'-', d, e] = value.as_bytes() else { return None };
    let year = value.get(..value.len() - MONTH_AND_DAY)?;
    let (sign, number) = match year.as_bytes().first()? {
        b'-' => (-1, &year[1..]),
        b'+' => (1, &year[1..]),
        _ if year == "0000" || year.len() > YEAR_DIGITS => (1, year),
        _ => return None,
    };
    let number = digits(number, number.len()).filter(|_| number.len() >= YEAR_DIGITS)?;
    let date = NaiveDate::from_ymd_opt(sign * number as i32, two_digits(m, n)?, two_digits(d, e)?)?;
    Some(date.to_epoch_days().into())
}

/// Parses a count of a unit, as times beyond the calendar are written: `9223372036854775807 s`.
pub(crate) fn parse_count(value: &str, per_second: i64) -> Option<i64> {
    let unit = match per_second {
        1 => " s",
        MILLIS_PER_SECOND => " ms",
        MICROS_PER_SECOND => " us",
        _ => " ns",
    };
    parse(value.strip_suffix(unit)?)
}

fn day(value: &str) -> Option<u32> {
    digits(value, 1).or_else(|| digits(value, 2))
}

fn month(value: &str) -> Option<u32> {
    let months = "January February March April May June July August September October November December".split(' ');
    for (number, month) in (1..).zip(months) {
        if value.eq_ignore_ascii_case(month) || value.eq_ignore_ascii_case(&month[..3]) {
            return Some(number);
        }
    }
    None
}

/// A date and a time, in UTC if the value had an offset, else in an unknown zone.
pub(crate) struct Moment {
    seconds: i64,
    nanos: i64,
    pub(crate) has_offset: bool,
}

impl Moment {
    pub(crate) fn parse(value: &str) -> Option<Moment> {
        let (date, time) = value.split_at_checked(ISO_DATE)?;
        let time = time.strip_prefix(['T', ' '])?;
        Moment::parse_on_day(iso_date(date)?.into(), time)
    }

    /// Parses a date and time in a year with more or less than four digits.
    pub(crate) fn parse_far(value: &str) -> Option<Moment> {
        let (date, time) = value.split_once(['T', ' '])?;
        Moment::parse_on_day(far_date(date)?, time)
    }

    fn parse_on_day(days: i64, time: &str) -> Option<Moment> {
        let midnight = days.checked_mul(SECONDS_PER_DAY)?;
        let zone = time.bytes().position(|byte| matches!(byte, b'Z' | b'+' | b'-'));
        let (clock, zone) = time.split_at_checked(zone.unwrap_or(time.len()))?;
        let (clock, nanos) = split_nanoseconds(clock)?;
        debug_assert!((0..NANOS_PER_SECOND).contains(&nanos), "{nanos} nanoseconds of a second");
        Some(Moment {
            seconds: midnight + clock_seconds(clock)? - zone_seconds(zone)?,
            nanos,
            has_offset: !zone.is_empty(),
        })
    }

    /// Parses a date and time, or a date, whose time is midnight.
    pub(crate) fn parse_or_midnight(value: &str) -> Option<Moment> {
        if let Some(moment) = Moment::parse(value) {
            return Some(moment);
        }
        let days = date(value)?;
        Some(Moment { seconds: i64::from(days) * SECONDS_PER_DAY, nanos: 0, has_offset: false })
    }

    /// Returns the timestamp types that hold the moment exactly.
    fn kinds(&self) -> TypeSet {
        let mut kinds = TEXT;
        if self.count(MICROS_PER_SECOND).is_some() {
            kinds |= if self.has_offset { UTC_MICROS } else { MICROS };
        }
        if self.count(NANOS_PER_SECOND).is_some() {
            kinds |= if self.has_offset { UTC_NANOS } else { NANOS };
        }
        kinds
    }

    /// Returns the time since 1970 in units of which a second has `per_second`; `None` if not exact.
    pub(crate) fn count(&self, per_second: i64) -> Option<i64> {
        let unit_nanos = NANOS_PER_SECOND / per_second;
        if self.nanos % unit_nanos != 0 {
            return None;
        }
        let count = i128::from(self.seconds) * i128::from(per_second) + i128::from(self.nanos / unit_nanos);
        i64::try_from(count).ok()
    }
}

/// Splits a time into hours, minutes and seconds, and the nanoseconds behind the point.
fn split_nanoseconds(time: &str) -> Option<(&str, i64)> {
    match time.bytes().position(|byte| byte == b'.') {
        Some(point) => Some((time.get(..point)?, nanoseconds(time.get(point + 1..)?)?)),
        None => Some((time, 0)),
    }
}

fn nanoseconds(fraction: &str) -> Option<i64> {
    let number = digits(fraction, fraction.len().clamp(1, NANO_DIGITS))?;
    Some(i64::from(number) * 10_i64.pow((NANO_DIGITS - fraction.len()) as u32))
}

fn clock_seconds(clock: &str) -> Option<i64> {
    let &[h, i, b':', m, n, b':', s, t] = clock.as_bytes() else { return None };
    let hours = two_digits(h, i)?;
    let minutes = two_digits(m, n)?;
    let seconds = two_digits(s, t)?;
    let valid = hours < 24 && minutes < 60 && seconds < 60;
    valid.then_some(i64::from(hours * SECONDS_PER_HOUR + minutes * SECONDS_PER_MINUTE + seconds))
}

/// Parses the offset of a zone: an empty text, `Z`, `+05`, `+0530` or `+05:30`. Returns the seconds east of Greenwich.
fn zone_seconds(zone: &str) -> Option<i64> {
    let Some(sign) = zone.chars().next().filter(|&sign| sign != 'Z') else {
        return (zone.len() < 2).then_some(0);
    };
    let (hours, rest) = zone[1..].split_at_checked(2)?;
    let minutes = if rest.is_empty() { 0 } else { digits(rest.strip_prefix(':').unwrap_or(rest), 2)? };
    let hours = digits(hours, 2).filter(|&hours| hours < 24 && minutes < 60)?;
    let seconds = i64::from(hours * SECONDS_PER_HOUR + minutes * SECONDS_PER_MINUTE);
    Some(if sign == '-' { -seconds } else { seconds })
}

/// Parses a time of day. Returns the time since midnight in units of which a second has `per_second`; `None` if not
/// exact.
pub(crate) fn time(value: &str, per_second: i64) -> Option<i64> {
    let (clock, nanos) = split_nanoseconds(value)?;
    Moment { seconds: clock_seconds(clock)?, nanos, has_offset: false }.count(per_second)
}

/// Parses a date or time of `data_type`, in the forms that CSV may have: ISO 8601 and dates in English.
///
/// A timestamp has a zone if the text has an offset. Returns `None` for other texts and types.
pub fn parse_time(data_type: &DataType, text: &str) -> Option<Value<'static>> {
    match data_type {
        DataType::Date32 | DataType::Date64 => date(text).map(|days| Value::Date(days.into())),
        DataType::Time32(_) | DataType::Time64(_) => {
            time(text, NANOS_PER_SECOND).map(|nanos| Value::Time(nanos, TimeUnit::Nanosecond))
        }
        DataType::Timestamp(..) => {
            let moment = Moment::parse_or_midnight(text)?;
            let zone = moment.has_offset.then_some("UTC");
            // The coarsest exact unit has the largest range.
            for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
                if let Some(count) = moment.count(per_second(unit)) {
                    return Some(Value::Timestamp(count, unit, zone));
                }
            }
            None
        }
        _ => None,
    }
}

/// Returns advice for `text`, if it is a time without an offset that a column of `data_type` with a time zone refuses,
/// or the reverse: the end of an error's message. Empty if the text has another problem.
///
/// ```
/// use arrow_schema::{DataType, TimeUnit};
/// use arrowwood::readable::utc_offset_advice;
///
/// let data_type = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
/// assert!(utc_offset_advice(&data_type, "2026-01-31 12:00:00").starts_with("; the column has a time zone: "));
/// assert_eq!(utc_offset_advice(&data_type, "noon"), "");
/// ```
pub fn utc_offset_advice(data_type: &DataType, text: &str) -> &'static str {
    let DataType::Timestamp(_, zone) = data_type else { return "" };
    match Moment::parse_or_midnight(text) {
        Some(moment) if !moment.has_offset && zone.is_some() => {
            "; the column has a time zone: write the time's offset, as in 2026-01-31T12:00:00Z or \
             2026-01-31T12:00:00+02:00"
        }
        Some(moment) if moment.has_offset && zone.is_none() => {
            "; the column has no time zone: write the time without an offset, or make the column timestamp[us, UTC]"
        }
        _ => "",
    }
}

/// Parses a number of `precision` digits, `scale` of them after the decimal point, and returns its digits; `None` if
/// not exact.
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
    let text_scale = i32::try_from(fraction.len()).ok()? - i32::from(exponent);
    let shift = i32::from(scale) - text_scale;
    let power = if digits == 0 { 1 } else { 10_i128.checked_pow(shift.unsigned_abs())? };
    let scaled = match shift {
        0.. => digits.checked_mul(power)?,
        _ if digits % power == 0 => digits / power,
        _ => return None,
    };
    let limit = 10_i128.checked_pow(precision.into())?;
    (-limit < scaled && scaled < limit).then_some(scaled)
}

/// Parses a number of up to 76 digits, as [`decimal`].
pub(crate) fn wide_decimal(value: &str, precision: u8, scale: i8) -> Option<i256> {
    if let Some(digits) = decimal(value, precision.min(DECIMAL128_MAX_PRECISION), scale) {
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
    if figures.is_empty() {
        return None;
    }
    // Digits beyond the scale must be zeros.
    let num_dropped = if shift < 0 { shift.unsigned_abs() as usize } else { 0 };
    let (kept, dropped) = figures.split_at_checked(figures.len().checked_sub(num_dropped)?)?;
    if !dropped.bytes().all(|byte| byte == b'0') {
        return None;
    }
    let ten = i256::from_i128(10);
    let mut digits = i256::ZERO;
    let zeros = std::iter::repeat_n(b'0', if shift > 0 { shift.unsigned_abs() as usize } else { 0 });
    for byte in kept.bytes().chain(zeros) {
        let digit = char::from(byte).to_digit(10)?;
        digits = digits.checked_mul(ten)?.checked_add(i256::from_i128(digit.into()))?;
    }
    let limit = ten.checked_pow(precision.into())?;
    (digits < limit).then_some(if is_negative { digits.wrapping_neg() } else { digits })
}

/// Parses bytes written as two hexadecimal digits each.
pub(crate) fn bytes(value: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = value.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(pairs.len());
    for &[high, low] in pairs {
        let high = char::from(high).to_digit(16)?;
        let low = char::from(low).to_digit(16)?;
        bytes.push((high * 16 + low) as u8);
    }
    Some(bytes)
}

/// Parses bytes written as hexadecimal digits or as a UUID.
pub(crate) fn bytes_or_uuid(value: &str) -> Option<Vec<u8>> {
    /// The length of a UUID such as `01234567-89ab-cdef-0123-456789abcdef`.
    const UUID_LEN: usize = 36;
    /// The places of its dashes.
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let is_uuid = value.len() == UUID_LEN
        && value.bytes().enumerate().all(|(index, byte)| (byte == b'-') == DASHES.contains(&index));
    if is_uuid { bytes(&value.replace('-', "")) } else { bytes(value) }
}

/// A duration in the form of ISO 8601, such as `P1DT2H3M4.5S`, where each part has its own sign.
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
        // Each unit occurs at most once, in this order. There must be a unit, and a unit behind the T.
        let mut units = "YMD".chars();
        while !rest.is_empty() {
            if !is_time && let Some(time) = rest.strip_prefix('T') {
                if time.is_empty() {
                    return None;
                }
                rest = time;
                units = "HMS".chars();
                is_time = true;
            }
            let len = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let amount = rest.get(..len)?;
            let unit = rest.get(len..)?.chars().next()?;
            units.find(|&next| next == unit)?;
            span.add(amount, unit, is_time)?;
            rest = rest.get(len + 1..)?;
        }
        (value.len() > 1).then_some(span)
    }

    /// Adds an amount of a unit, such as `2` of `H`. Returns `None` if it is not a number.
    fn add(&mut self, amount: &str, unit: char, is_time: bool) -> Option<()> {
        const MONTHS_PER_YEAR: i128 = 12;
        let (number, fraction) = match amount.split_once('.') {
            Some((number, fraction)) if unit == 'S' => (number, fraction),
            _ => (amount, ""),
        };
        let digits = number.strip_prefix('-').unwrap_or(number);
        if digits.is_empty() || fraction.len() > NANO_DIGITS {
            return None;
        }
        if !digits.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        // At most 2^64 of the longest unit: nothing overflows 128 bits.
        let whole = i128::from(digits.parse::<u64>().ok()?);
        let part: i128 = format!("{fraction:0<9}").parse().ok()?;
        let sign = if number.starts_with('-') { -1 } else { 1 };
        let nanos_per_second = i128::from(NANOS_PER_SECOND);
        match (unit, is_time) {
            ('Y', _) => self.months += sign * whole * MONTHS_PER_YEAR,
            ('M', false) => self.months += sign * whole,
            ('D', _) => self.days += sign * whole,
            ('H', _) => self.nanos += sign * whole * i128::from(SECONDS_PER_HOUR) * nanos_per_second,
            ('M', true) => self.nanos += sign * whole * i128::from(SECONDS_PER_MINUTE) * nanos_per_second,
            _ => self.nanos += sign * (whole * nanos_per_second + part),
        }
        Some(())
    }

    /// Returns the months, days and nanoseconds of an interval; `None` if one of them is too large.
    pub(crate) fn parts(self) -> Option<(i32, i32, i64)> {
        Some((self.months.try_into().ok()?, self.days.try_into().ok()?, self.nanos.try_into().ok()?))
    }
}

/// Parses a duration in the form of ISO 8601 or as a whole number of units, of which a second has `per_second`. Returns
/// the number of units; `None` if not exact.
pub(crate) fn duration(value: &str, per_second: i64) -> Option<i64> {
    let Some(span) = IsoDuration::parse(value) else { return parse(value) };
    let nanos = span.days * i128::from(SECONDS_PER_DAY * NANOS_PER_SECOND) + span.nanos;
    let unit = i128::from(NANOS_PER_SECOND / per_second);
    if span.months != 0 || nanos % unit != 0 {
        return None;
    }
    i64::try_from(nanos / unit).ok()
}

/// Shortens a field for a message, as it can be as long as the file.
pub(crate) fn shorten(value: &str) -> String {
    const MAX_CHARS: usize = 60;
    let mut short: String = value.chars().take(MAX_CHARS).collect();
    if short.len() < value.len() {
        short.push('…');
    }
    short
}
