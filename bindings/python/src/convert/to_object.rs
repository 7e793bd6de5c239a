//! A cell as a Python object: the result of `pyarrow`'s `as_py()`, if Python's own types can hold it.
//!
//! Two things they cannot hold: nanoseconds that are no whole microseconds, and days outside of the years 1 to 9999.
//! They become `numpy.datetime64` and `numpy.timedelta64` (instants with a time zone: in UTC, as NumPy knows no zones).

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;

use arrow_schema::TimeUnit;
use arrowwood::mapping::MutexExt;
use arrowwood::{Error, ErrorKind, Items, Members, Value};
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyType};

use crate::interpreter::errors::{Result, invalid_argument, memory_error};
use crate::interpreter::py_call::{CallPy, guard};

/// Converts `value`, which may be in a file that is truncated, to a Python object.
pub fn to_object<'py>(py: Python<'py>, value: Value<'_>) -> Result<Bound<'py, PyAny>> {
    guard(|| made_of(py, value))
}

/// The number of bytes of objects that are made until the system is asked again whether it has memory for more.
const BYTES_PER_CHECK: usize = 4 << 20;
/// The maximum size of an object, with its entry in a list or dict, without the bytes of text.
const MAX_OBJECT_SIZE: usize = 256;

/// Checks that there is memory for an object with this number of bytes, as PyO3 has no errors for objects that it
/// makes.
fn check_memory_for(bytes: usize) -> Result<()> {
    thread_local! {
        static LEFT: Cell<usize> = const { Cell::new(0) };
    }
    let wanted = bytes.saturating_add(MAX_OBJECT_SIZE);
    if let Some(left) = LEFT.get().checked_sub(wanted) {
        LEFT.set(left);
        return Ok(());
    }
    // Twice as many: they are taken in larger parts, and by other threads, too.
    if !arrowwood::mapping::can_allocate(wanted.saturating_add(BYTES_PER_CHECK).saturating_mul(2)) {
        return Err(memory_error());
    }
    LEFT.set(BYTES_PER_CHECK);
    Ok(())
}

/// Converts `value` to a Python object, under the guard of [`to_object`].
fn made_of<'py>(py: Python<'py>, value: Value<'_>) -> Result<Bound<'py, PyAny>> {
    check_memory_for(match value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    })?;
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
        Value::Int(value) => PyInt::new(py, value).into_any(),
        Value::Int128(value) => PyInt::new(py, value).into_any(),
        Value::UInt(value) => PyInt::new(py, value).into_any(),
        Value::Float32(value) => PyFloat::new(py, value.into()).into_any(),
        Value::Float64(value) => PyFloat::new(py, value).into_any(),
        Value::Decimal { digits, scale } => decimal(py, &format!("{digits}E{}", -i32::from(scale)))?,
        Value::Str(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Uuid(bytes) => uuid(py, bytes)?,
        Value::Date(days) => date(py, days)?,
        Value::Time(since, unit) => time(py, since, unit)?,
        Value::Timestamp(since, unit, None) => naive(py, since, unit)?,
        Value::Timestamp(since, unit, Some(zone)) => aware(py, since, unit, zone)?,
        Value::Duration(length, unit) => duration(py, length, unit)?,
        Value::Interval { months, days, nanoseconds, .. } => {
            cached_class(py, &INTERVAL, "arrowwood._types", "MonthDayNano")?.call_py((months, days, nanoseconds))?
        }
        Value::List(items) => list(py, items)?,
        Value::Map(items) => pairs(py, items)?,
        Value::Struct(members) => structure(py, members)?,
        Value::Union(_, value) => to_object(py, *value)?,
        other => {
            let message = format!("no Python object stands for {other:?}");
            return Err(Error::new(ErrorKind::Unsupported, message).into());
        }
    })
}

fn uuid<'py>(py: Python<'py>, bytes: &[u8; 16]) -> Result<Bound<'py, PyAny>> {
    let named = PyDict::new(py);
    named.set_item("bytes", PyBytes::new(py, bytes))?;
    Ok(cached_class(py, &UUID, "uuid", "UUID")?.call((), Some(&named))?)
}

// ---- nested ----

fn list<'py>(py: Python<'py>, items: Items<'_>) -> Result<Bound<'py, PyAny>> {
    let list = PyList::empty(py);
    for item in items.iter() {
        list.append(to_object(py, item?)?)?;
    }
    Ok(list.into_any())
}

fn structure<'py>(py: Python<'py>, members: Members<'_>) -> Result<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    for (number, (field, value)) in members.iter().enumerate() {
        dict.set_item(field.name(), to_object(py, value?)?)?;
        if dict.len() <= number {
            return Err(invalid_argument(format!(
                "a dict cannot hold a struct with two members called '{}'",
                field.name()
            )));
        }
    }
    Ok(dict.into_any())
}

fn pairs<'py>(py: Python<'py>, items: Items<'_>) -> Result<Bound<'py, PyAny>> {
    let list = PyList::empty(py);
    for item in items.iter() {
        if let Value::Struct(members) = item? {
            let pair = members.iter().map(|(_, value)| to_object(py, value?)).collect::<Result<Vec<_>>>()?;
            list.append(pyo3::types::PyTuple::new(py, pair)?)?;
        }
    }
    Ok(list.into_any())
}

// ---- time ----

const SECONDS_PER_MINUTE: i64 = 60;
const SECONDS_PER_HOUR: i64 = 3_600;
const SECONDS_PER_DAY: i64 = 86_400;
/// The number that Python's `date.toordinal` has for the first of January 1970; the first day of the year 1 has 1.
pub const ORDINAL_OF_1970: i64 = 719_163;
/// The first and the last day that Python has, in the years 1 and 9999, counted from 1970.
const FIRST_DAY: i64 = 1 - ORDINAL_OF_1970;
const LAST_DAY: i64 = 2_932_896;
/// The number of days of Python's longest duration, and one more.
const MAX_DURATION_DAYS: i64 = 1_000_000_000;

/// Returns year, month and day of the proleptic Gregorian calendar; `None` outside of the years that Python has.
///
/// Counting from March makes the leap day the last of a year (H. Hinnant, *chrono-Compatible Low-Level Date
/// Algorithms*).
fn civil(days: i64) -> Option<(i64, i64, i64)> {
    if !(FIRST_DAY..=LAST_DAY).contains(&days) {
        return None;
    }
    /// The days from the first of March of the year 0 to 1970.
    const MARCH_0_TO_1970: i64 = 719_468;
    const DAYS_PER_YEAR: i64 = 365;
    const DAYS_PER_4_YEARS: i64 = 1_461;
    const DAYS_PER_100_YEARS: i64 = 36_524;
    /// An era has 400 years, after which the calendar repeats.
    const DAYS_PER_ERA: i64 = 146_097;
    let since = days + MARCH_0_TO_1970;
    let era = since.div_euclid(DAYS_PER_ERA);
    let day_of_era = since.rem_euclid(DAYS_PER_ERA);
    let leap_days =
        day_of_era / (DAYS_PER_4_YEARS - 1) - day_of_era / DAYS_PER_100_YEARS + day_of_era / (DAYS_PER_ERA - 1);
    let year_of_era = (day_of_era - leap_days) / DAYS_PER_YEAR;
    let day_of_year = day_of_era - (DAYS_PER_YEAR * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Five months from March on have 153 days: 31, 30, 31, 30 and 31.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    Some((year, month, day))
}

/// Returns whole seconds, and the remaining microseconds; `None` if nanoseconds remain.
fn split(since: i64, unit: TimeUnit) -> Option<(i64, i64)> {
    let (per_second, to_micros) = match unit {
        TimeUnit::Second => (1, 1),
        TimeUnit::Millisecond => (1_000, 1_000),
        TimeUnit::Microsecond => (1_000_000, 1),
        TimeUnit::Nanosecond if since % 1_000 != 0 => return None,
        TimeUnit::Nanosecond => {
            return Some((since.div_euclid(1_000_000_000), since.rem_euclid(1_000_000_000) / 1_000));
        }
    };
    Some((since.div_euclid(per_second), since.rem_euclid(per_second) * to_micros))
}

/// Splits seconds of a day into hours, minutes and seconds.
fn clock(seconds: i64) -> (i64, i64, i64) {
    let minutes = seconds % SECONDS_PER_HOUR / SECONDS_PER_MINUTE;
    (seconds / SECONDS_PER_HOUR, minutes, seconds % SECONDS_PER_MINUTE)
}

fn date(py: Python<'_>, days: i64) -> Result<Bound<'_, PyAny>> {
    match civil(days) {
        Some(date) => Ok(cached_class(py, &DATE, "datetime", "date")?.call_py(date)?),
        None => numpy(py, "datetime64", days, "D"),
    }
}

fn time(py: Python<'_>, since: i64, unit: TimeUnit) -> Result<Bound<'_, PyAny>> {
    match split(since, unit) {
        Some((seconds @ 0..SECONDS_PER_DAY, micros)) => {
            let (hour, minute, second) = clock(seconds);
            Ok(cached_class(py, &TIME, "datetime", "time")?.call_py((hour, minute, second, micros))?)
        }
        _ => numpy(py, "timedelta64", since, unit_abbreviation(unit)),
    }
}

fn duration(py: Python<'_>, length: i64, unit: TimeUnit) -> Result<Bound<'_, PyAny>> {
    match split(length, unit) {
        Some((seconds, micros)) if seconds.div_euclid(SECONDS_PER_DAY).abs() < MAX_DURATION_DAYS => {
            let arguments = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY), micros);
            Ok(cached_class(py, &TIMEDELTA, "datetime", "timedelta")?.call_py(arguments)?)
        }
        _ => numpy(py, "timedelta64", length, unit_abbreviation(unit)),
    }
}

fn naive(py: Python<'_>, since: i64, unit: TimeUnit) -> Result<Bound<'_, PyAny>> {
    match datetime(py, since, unit, None)? {
        Some(datetime) => Ok(datetime),
        None => numpy(py, "datetime64", since, unit_abbreviation(unit)),
    }
}

fn aware<'py>(py: Python<'py>, since: i64, unit: TimeUnit, name: &str) -> Result<Bound<'py, PyAny>> {
    let (zone, is_utc) = zone(py, name)?;
    let local = match datetime(py, since, unit, Some(&zone))? {
        Some(utc) if is_utc => return Ok(utc),
        Some(utc) => zone.call_py_method(intern!(py, "fromutc"), (utc,)).ok(),
        None => None,
    };
    // Also where the zone's offset leads out of the years that Python has.
    local.map_or_else(|| numpy(py, "datetime64", since, unit_abbreviation(unit)), Ok)
}

/// Returns true if an instant is outside of the years that Python has in a zone, so that columns give it as NumPy's, in
/// UTC.
pub fn is_beyond_years(py: Python<'_>, since: i64, unit: TimeUnit, zone: &str) -> bool {
    split(since, unit).is_some() && is_datetime(py, since, unit, zone).is_ok_and(|is_datetime| !is_datetime)
}

fn is_datetime(py: Python<'_>, since: i64, unit: TimeUnit, zone: &str) -> Result<bool> {
    let instant = aware(py, since, unit, zone)?;
    Ok(instant.is_instance(cached_class(py, &DATETIME, "datetime", "datetime")?)?)
}

fn datetime<'py>(
    py: Python<'py>,
    since: i64,
    unit: TimeUnit,
    zone: Option<&Bound<'py, PyAny>>,
) -> Result<Option<Bound<'py, PyAny>>> {
    let Some((seconds, micros)) = split(since, unit) else { return Ok(None) };
    let Some((year, month, day)) = civil(seconds.div_euclid(SECONDS_PER_DAY)) else { return Ok(None) };
    let (hour, minute, second) = clock(seconds.rem_euclid(SECONDS_PER_DAY));
    let arguments = (year, month, day, hour, minute, second, micros, zone);
    Ok(Some(cached_class(py, &DATETIME, "datetime", "datetime")?.call_py(arguments)?))
}

/// Returns the abbreviation of NumPy and Arrow for a unit.
pub fn unit_abbreviation(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// Returns the time zone named `name`, and true if it is UTC.
fn zone<'py>(py: Python<'py>, name: &str) -> Result<(Bound<'py, PyAny>, bool)> {
    static UTC: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if matches!(name, "UTC" | "+00:00" | "Etc/UTC") {
        let utc = UTC.get_or_try_init(py, || utc(py).map(Bound::unbind))?;
        return Ok((utc.bind(py).clone(), true));
    }
    static ZONES: Mutex<Option<HashMap<String, Py<PyAny>>>> = Mutex::new(None);
    if let Some(zone) = ZONES.lock_ignoring_poison().as_ref().and_then(|zones| zones.get(name)) {
        return Ok((zone.bind(py).clone(), false));
    }
    // Not under the lock: making a zone runs Python code.
    let zone = find_zone(py, name)?;
    ZONES.lock_ignoring_poison().get_or_insert_default().insert(name.into(), zone.clone().unbind());
    Ok((zone, false))
}

fn utc(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("datetime")?.getattr("timezone")?.getattr("utc")
}

fn find_zone<'py>(py: Python<'py>, name: &str) -> Result<Bound<'py, PyAny>> {
    if let Some(minutes) = offset_minutes(name) {
        let offset = py.import("datetime")?.getattr("timedelta")?.call_py((0, 60 * minutes))?;
        return Ok(py.import("datetime")?.getattr("timezone")?.call_py((offset,))?);
    }
    py.import("zoneinfo")?.getattr("ZoneInfo")?.call_py((name,)).map_err(|problem| {
        let message =
            format!("the time zone '{name}' is not known here ({problem}); to_numpy() gives the times in UTC");
        Error::new(ErrorKind::Unsupported, message).into()
    })
}

/// Parses an offset such as `+05:30` as minutes.
fn offset_minutes(name: &str) -> Option<i32> {
    let (sign, rest) = match name.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':').or_else(|| rest.split_at_checked(2))?;
    let hours = hours.parse::<u8>().ok()?;
    let minutes = minutes.parse::<u8>().ok()?;
    (hours < 24 && minutes < 60).then(|| sign * (60 * i32::from(hours) + i32::from(minutes)))
}

// ---- classes ----

/// A class that is looked up once.
pub type CachedClass = PyOnceLock<Py<PyType>>;

pub static DATE: CachedClass = CachedClass::new();
pub static TIME: CachedClass = CachedClass::new();
pub static DATETIME: CachedClass = CachedClass::new();
pub static TIMEDELTA: CachedClass = CachedClass::new();
pub static DECIMAL: CachedClass = CachedClass::new();
pub static UUID: CachedClass = CachedClass::new();
static INTERVAL: CachedClass = CachedClass::new();

/// Returns the class named `name` of `module`.
pub fn cached_class<'py>(
    py: Python<'py>,
    class: &'static CachedClass,
    module: &str,
    name: &str,
) -> Result<&'py Bound<'py, PyType>> {
    Ok(class.import(py, module, name)?)
}

fn decimal<'py>(py: Python<'py>, text: &str) -> Result<Bound<'py, PyAny>> {
    Ok(cached_class(py, &DECIMAL, "decimal", "Decimal")?.call_py((text,))?)
}

fn numpy<'py>(py: Python<'py>, class: &str, value: i64, unit: &str) -> Result<Bound<'py, PyAny>> {
    Ok(py.import("numpy")?.getattr(class)?.call_py((value.into_bound_py_any(py)?, unit))?)
}
