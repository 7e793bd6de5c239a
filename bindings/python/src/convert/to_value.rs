//! One Python object as a value, and one value as a column of some type stores it.

use arrow_buffer::i256;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use arrowwood::readable::time_zone_advice;
use arrowwood::{Value, parse_time, type_name, zones_agree};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple};

use super::to_object::{DATE, DATETIME, DECIMAL, ORDINAL_OF_1970, TIME, TIMEDELTA, cached_class, is_beyond_years};
use crate::interpreter::errors::{PyArrowwoodError, invalid_argument, type_error};
use crate::interpreter::py_call::CallPy;

/// A value as a column stores it, so that nothing about its type is left to decide: times are numbers of the column's
/// unit, decimals of its scale, and a number is in the range of its type.
#[derive(Clone, Copy, Debug)]
pub enum StoredValue<'a> {
    Null,
    Bool(bool),
    /// A signed integer, date, time or duration.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A float of any width.
    F64(f64),
    /// A decimal of any width.
    Decimal(i256),
    Str(&'a str),
    Bytes(&'a [u8]),
    /// Months, days and nanoseconds.
    Interval(i32, i32, i64),
}

impl<'a> StoredValue<'a> {
    /// Converts the cell to a value of a column of `data_type`, for which it was made.
    pub fn value(self, data_type: &'a DataType) -> Value<'a> {
        match self {
            StoredValue::Null => Value::Null,
            StoredValue::Bool(flag) => Value::Bool(flag),
            StoredValue::I64(number) => match data_type {
                DataType::Timestamp(unit, zone) => Value::Timestamp(number, *unit, zone.as_deref()),
                DataType::Duration(unit) => Value::Duration(number, *unit),
                DataType::Time32(unit) | DataType::Time64(unit) => Value::Time(number, *unit),
                DataType::Date32 => Value::Date(number),
                _ => Value::Int(number),
            },
            StoredValue::U64(number) => Value::UInt(number),
            StoredValue::F64(number) => Value::Float64(number),
            StoredValue::Decimal(digits) => Value::Decimal { digits, scale: scale_of(data_type) },
            StoredValue::Str(text) => Value::Str(text),
            StoredValue::Bytes(bytes) => Value::Bytes(bytes),
            StoredValue::Interval(months, days, nanoseconds) => {
                Value::Interval { months, days, nanoseconds, unit: unit_of(data_type) }
            }
        }
    }
}

fn unit_of(data_type: &DataType) -> IntervalUnit {
    match data_type {
        DataType::Interval(unit) => *unit,
        DataType::Dictionary(_, values) => unit_of(values),
        _ => IntervalUnit::MonthDayNano,
    }
}

fn scale_of(data_type: &DataType) -> i8 {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Dictionary};
    match data_type {
        Dictionary(_, values) => scale_of(values),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => *scale,
        _ => 0,
    }
}

/// The maximum number of characters of a value in a message.
const MAX_REPR_WIDTH: usize = 40;

/// Why a value can't be stored as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionErrorKind {
    /// It is of another type.
    Type,
    /// It is too large, too long or too fine.
    Range,
}

/// The problem with a value, before its position is known.
pub enum ConversionError {
    Type(String),
    Range(String),
    Other(PyArrowwoodError),
}

impl ConversionError {
    /// Creates the error that `object` is no value of `expected`.
    pub fn for_object(misfit: ConversionErrorKind, expected: &DataType, object: &Bound<'_, PyAny>) -> ConversionError {
        let text =
            object.repr().map_or_else(|_| "?".into(), |text| arrowwood::readable::ellipsize(text, MAX_REPR_WIDTH));
        let class = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
        let got = if object.is_none() { text } else { format!("{class} {text}") };
        ConversionError::new(misfit, expected, &got)
    }

    /// Creates the error that `got` is no value of `expected`.
    pub fn new(misfit: ConversionErrorKind, expected: &DataType, got: &str) -> ConversionError {
        let expected = type_name(expected);
        match misfit {
            ConversionErrorKind::Type => ConversionError::Type(format!("expected {expected}, got {got}")),
            ConversionErrorKind::Range => {
                ConversionError::Range(format!("expected {expected}, got {got}, which does not fit into it"))
            }
        }
    }

    /// Adds advice to the error.
    pub fn with_advice(self, advice: &str) -> ConversionError {
        match self {
            ConversionError::Type(message) => ConversionError::Type(message + advice),
            other => other,
        }
    }

    /// Adds column and row to the error.
    pub fn at_row(self, column: &str, row: usize) -> PyArrowwoodError {
        match self {
            ConversionError::Type(message) => type_error(format!("column '{column}', row {row}: {message}")),
            ConversionError::Range(message) => invalid_argument(format!("column '{column}', row {row}: {message}")),
            ConversionError::Other(PyArrowwoodError::Library(error)) => {
                error.context(format!("column '{column}', row {row}")).into()
            }
            ConversionError::Other(failure) => failure,
        }
    }
}

impl From<PyErr> for ConversionError {
    fn from(error: PyErr) -> ConversionError {
        ConversionError::Other(error.into())
    }
}

impl From<PyArrowwoodError> for ConversionError {
    fn from(failure: PyArrowwoodError) -> ConversionError {
        ConversionError::Other(failure)
    }
}

impl From<arrowwood::Error> for ConversionError {
    fn from(error: arrowwood::Error) -> ConversionError {
        ConversionError::Other(error.into())
    }
}

/// Converts `object` to a cell of type `data_type`, which must not be nested; `None` if only [`to_builtin`] can convert
/// it.
pub fn to_stored_value<'a>(
    data_type: &DataType,
    object: &'a Bound<'_, PyAny>,
) -> Result<Option<StoredValue<'a>>, ConversionError> {
    let Some(value) = to_value(data_type, object)? else { return Ok(None) };
    let advice = time_zone_advice(data_type, &value);
    // Python's integers count the column's unit; integers of other columns don't.
    let counted = if let Value::Int(number) = value { in_units(data_type, number) } else { None };
    let stored = counted.unwrap_or_else(|| fit_to_type(data_type, &value));
    stored.map(Some).map_err(|misfit| ConversionError::for_object(misfit, data_type, object).with_advice(advice))
}

/// Converts an integer that counts the unit of a column of dates, times or durations; `None` for other columns.
pub fn in_units<'a>(data_type: &DataType, number: i64) -> Option<Result<StoredValue<'a>, ConversionErrorKind>> {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    match data_type {
        Date32 | Time32(_) if i32::try_from(number).is_err() => Some(Err(ConversionErrorKind::Range)),
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Some(Ok(StoredValue::I64(number))),
        _ => None,
    }
}

const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_SECOND: i64 = 1_000_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// The nanoseconds of a millisecond, the unit of intervals of days and time.
pub const NANOS_PER_MILLI: i64 = 1_000_000;

// ---- a Python object as a value ----

/// Converts `object` to a value of a column of `data_type`, if that is known; `None` for lists, dicts and classes that
/// are not known.
pub fn to_value<'a>(data_type: &DataType, object: &'a Bound<'_, PyAny>) -> Result<Option<Value<'a>>, ConversionError> {
    Ok(Some(if let Ok(number) = object.cast_exact::<PyFloat>() {
        Value::Float64(number.value())
    } else if let Ok(number) = object.cast_exact::<PyInt>() {
        integer(number)?
    } else if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_str().map_err(|_| no_unicode(text))?;
        parse_time(data_type, text).unwrap_or(Value::Str(text))
    } else if object.is_none() {
        Value::Null
    } else if let Ok(flag) = object.cast_exact::<PyBool>() {
        Value::Bool(flag.is_true())
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        Value::Bytes(bytes.as_bytes())
    } else {
        return read_other(data_type, object);
    }))
}

/// Returns the error for text that has half of a character, such as bytes that were decoded with `surrogateescape`.
fn no_unicode(text: &Bound<'_, PyString>) -> ConversionError {
    let got = text.repr().map_or_else(|_| "?".into(), |text| arrowwood::readable::ellipsize(text, MAX_REPR_WIDTH));
    ConversionError::Range(format!(
        "expected text, got str {got}, which has lone surrogates and can't be UTF-8; decode the bytes it was made of \
         by their own encoding, or store them as binary"
    ))
}

fn integer<'a>(number: &Bound<'_, PyInt>) -> Result<Value<'a>, ConversionError> {
    if let Ok(number) = number.extract() {
        return Ok(Value::Int(number));
    }
    number.extract().map(Value::UInt).or_else(|_| number.extract().map(Value::Int128)).map_err(|_| {
        ConversionError::Range(format!(
            "{} does not fit into 128 bits",
            arrowwood::readable::ellipsize(number, MAX_REPR_WIDTH)
        ))
    })
}

fn read_other<'a>(data_type: &DataType, object: &'a Bound<'_, PyAny>) -> Result<Option<Value<'a>>, ConversionError> {
    let py = object.py();
    Ok(Some(if object.is_instance(cached_class(py, &DATETIME, "datetime", "datetime")?)? {
        datetime(object)?
    } else if object.is_instance(cached_class(py, &DATE, "datetime", "date")?)? {
        Value::Date(days(object)?)
    } else if object.is_instance(cached_class(py, &TIME, "datetime", "time")?)? {
        Value::Time(micros_of_day(object)?, TimeUnit::Microsecond)
    } else if object.is_instance(cached_class(py, &TIMEDELTA, "datetime", "timedelta")?)? {
        duration(object)?
    } else if object.is_instance(cached_class(py, &DECIMAL, "decimal", "Decimal")?)? {
        decimal(object)?
    } else if let Ok(number) = object.cast::<PyFloat>() {
        Value::Float64(number.value())
    } else if let Ok(number) = object.cast::<PyInt>() {
        integer(number)?
    } else if object.get_type().name()?.to_str()? == "NAType" {
        Value::Null
    } else if let (DataType::Interval(unit), Ok(parts)) = (data_type, object.cast::<PyTuple>()) {
        return Ok(interval(*unit, parts));
    } else {
        return numpy_time(data_type, object);
    }))
}

/// Converts months, days and nanoseconds, such as a `MonthDayNano` of arrowwood or pyarrow.
fn interval<'a>(unit: IntervalUnit, parts: &Bound<'_, PyTuple>) -> Option<Value<'a>> {
    let (months, days, nanoseconds) = parts.extract().ok()?;
    Some(Value::Interval { months, days, nanoseconds, unit })
}

fn days(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let day: i64 = object.call_py_method(intern!(object.py(), "toordinal"), ())?.extract()?;
    Ok(day - ORDINAL_OF_1970)
}

fn int_attribute(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<i64> {
    object.getattr(name)?.extract()
}

fn micros_of_day(object: &Bound<'_, PyAny>) -> Result<i64, ConversionError> {
    let py = object.py();
    if !object.getattr(intern!(py, "tzinfo"))?.is_none() {
        let text = object.repr()?;
        let message =
            format!("{text} has a time zone, and times of day in Arrow have none; take it off by replace(tzinfo=None)");
        return Err(ConversionError::Type(message));
    }
    let hours = int_attribute(object, intern!(py, "hour"))?;
    let minutes = int_attribute(object, intern!(py, "minute"))?;
    let seconds = int_attribute(object, intern!(py, "second"))?;
    let micros = int_attribute(object, intern!(py, "microsecond"))?;
    Ok(MICROS_PER_SECOND * (3_600 * hours + 60 * minutes + seconds) + micros)
}

/// Converts a `datetime` by the time since 1970, which Python computes, including the zone.
fn datetime<'a>(object: &Bound<'_, PyAny>) -> Result<Value<'a>, ConversionError> {
    static EPOCHS: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();
    let py = object.py();
    let [naive, utc] = EPOCHS.get_or_try_init(py, || epochs(py))?;
    let zone = object.getattr(intern!(py, "tzinfo"))?;
    let (epoch, zone) = if zone.is_none() { (naive, None) } else { (utc, Some("UTC")) };
    Ok(match duration(&object.sub(epoch)?)? {
        Value::Duration(since, unit) => Value::Timestamp(since, unit, zone),
        nothing => nothing,
    })
}

fn epochs(py: Python<'_>) -> PyResult<[Py<PyAny>; 2]> {
    let class = py.import("datetime")?.getattr("datetime")?;
    let utc = py.import("datetime")?.getattr("timezone")?.getattr("utc")?;
    Ok([class.call_py((1970, 1, 1))?.unbind(), class.call_py((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind()])
}

fn duration<'a>(object: &Bound<'_, PyAny>) -> Result<Value<'a>, ConversionError> {
    let py = object.py();
    // Durations of pandas have a value for nothing, and nanoseconds.
    let is_subclass = !object.get_type().is(cached_class(py, &TIMEDELTA, "datetime", "timedelta")?);
    if is_subclass && object.get_type().name()?.to_str()? == "NaTType" {
        return Ok(Value::Null);
    }
    let days = int_attribute(object, intern!(py, "days"))?;
    let seconds = SECONDS_PER_DAY * days + int_attribute(object, intern!(py, "seconds"))?;
    let micros = int_attribute(object, intern!(py, "microseconds"))?;
    let nanos = if is_subclass { object.getattr_opt(intern!(py, "nanoseconds"))? } else { None };
    let nanos = nanos.map_or(Ok(0), |nanos| nanos.extract())?;
    if nanos != 0
        && let Some(nanos) = count_units(seconds, NANOS_PER_SECOND, 1_000 * micros + nanos)
    {
        return Ok(Value::Duration(nanos, TimeUnit::Nanosecond));
    }
    if let Some(micros) = count_units(seconds, MICROS_PER_SECOND, micros) {
        return Ok(Value::Duration(micros, TimeUnit::Microsecond));
    }
    if micros == 0 {
        return Ok(Value::Duration(seconds, TimeUnit::Second));
    }
    match count_units(seconds, 1_000, micros / 1_000) {
        Some(millis) if micros % 1_000 == 0 => Ok(Value::Duration(millis, TimeUnit::Millisecond)),
        _ => Err(ConversionError::Range(format!("{object} has more microseconds than 64 bits can count"))),
    }
}

/// Returns the number of units in `seconds` and `rest` units; `None` if it has more than 64 bits, as Python's longest
/// duration of 999,999,999 days has in microseconds.
fn count_units(seconds: i64, per_second: i64, rest: i64) -> Option<i64> {
    i64::try_from(i128::from(seconds) * i128::from(per_second) + i128::from(rest)).ok()
}

fn decimal<'a>(object: &Bound<'_, PyAny>) -> Result<Value<'a>, ConversionError> {
    let (negative, figures, exponent): (u8, Vec<u8>, Bound<'_, PyAny>) =
        object.call_py_method(intern!(object.py(), "as_tuple"), ())?.extract()?;
    // The exponents of infinity and NaN are text.
    let exponent: i32 = exponent.extract().map_err(|_| unfit_decimal(object))?;
    let ten = i256::from_i128(10);
    let mut digits = i256::ZERO;
    for figure in figures {
        let shifted = digits.checked_mul(ten);
        let sum = shifted.and_then(|shifted| shifted.checked_add(i256::from_i128(i128::from(figure))));
        digits = sum.ok_or_else(|| unfit_decimal(object))?;
    }
    if negative != 0 {
        digits = digits.wrapping_neg();
    }
    let power = u32::try_from(exponent).ok().and_then(|exponent| ten.checked_pow(exponent));
    if let Some(digits) = power.and_then(|power| digits.checked_mul(power)) {
        return Ok(Value::Decimal { digits, scale: 0 });
    }
    let scale = exponent.checked_neg().and_then(|scale| i8::try_from(scale).ok());
    Ok(Value::Decimal { digits, scale: scale.ok_or_else(|| unfit_decimal(object))? })
}

fn unfit_decimal(object: &Bound<'_, PyAny>) -> ConversionError {
    ConversionError::Range(format!("{object} is no number that a decimal of Arrow can hold"))
}

/// Converts a `numpy.datetime64` or `numpy.timedelta64`; `None` for other objects.
fn numpy_time<'a>(data_type: &DataType, object: &Bound<'_, PyAny>) -> Result<Option<Value<'a>>, ConversionError> {
    let py = object.py();
    if !matches!(object.get_type().name()?.to_str()?, "datetime64" | "timedelta64") {
        return Ok(None);
    }
    let parts = py.import("arrowwood._incoming")?.getattr("scalar")?.call_py((object,))?;
    let Some((kind, number)) = parts.extract::<Option<(String, i64)>>()? else { return Ok(Some(Value::Null)) };
    let zone = if let DataType::Timestamp(_, zone) = data_type { zone.as_deref() } else { None };
    Ok(match super::from_numpy::data_type(&kind) {
        Some(DataType::Date32) if zone.is_some() => {
            let unit = TimeUnit::Second;
            number
                .checked_mul(SECONDS_PER_DAY)
                .map(|seconds| Value::Timestamp(seconds, unit, zone_of(py, seconds, unit, zone)))
        }
        Some(DataType::Date32) => Some(Value::Date(number)),
        // Times of day that Python's class does not hold, as columns give them.
        Some(DataType::Duration(unit)) if is_time_of_day(data_type, number, unit) => Some(Value::Time(number, unit)),
        Some(DataType::Timestamp(unit, _)) => Some(Value::Timestamp(number, unit, zone_of(py, number, unit, zone))),
        Some(DataType::Duration(unit)) => Some(Value::Duration(number, unit)),
        _ => None,
    })
}

/// Returns the zone of NumPy's time for a column in `zone`. NumPy knows no zones, so that the time may or may not be an
/// instant; only columns give instants outside of Python's years.
fn zone_of(py: Python<'_>, number: i64, unit: TimeUnit, zone: Option<&str>) -> Option<&'static str> {
    zone.map(|zone| if is_beyond_years(py, number, unit, zone) { "UTC" } else { "" })
}

fn is_time_of_day(data_type: &DataType, number: i64, unit: TimeUnit) -> bool {
    let is_in_a_day = (0..DAY_NANOS).contains(&(i128::from(number) * nanos(unit)));
    is_in_a_day && matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

/// Converts `object` to one of Python's own classes, if it is a scalar or array of NumPy, a UUID, or has the buffer
/// protocol.
pub fn to_builtin<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let class = object.get_type();
    let module = class.module()?;
    let name = class.name()?;
    let other = match (module.to_str()?, name.to_str()?) {
        ("uuid", "UUID") => Some(object.getattr("bytes")?),
        ("numpy", _) if object.hasattr("dtype")? => {
            let plain = py.import("arrowwood._incoming")?.getattr("to_python")?.call_py((object,))?;
            Some(plain).filter(|plain| !plain.is_none())
        }
        ("builtins", "bytearray" | "memoryview") => Some(py.get_type::<PyBytes>().call_py((object,))?),
        _ => None,
    };
    // Where NumPy knows nothing better it gives the same again.
    Ok(other.filter(|other: &Bound<'_, PyAny>| !other.get_type().is(&class)))
}

// ---- a value as a cell ----

/// The width of a UUID in bytes.
const UUID_WIDTH: i32 = 16;

/// Converts `value` to what a column of `data_type` stores, which must not be nested. Nothing is lost, except that
/// floats of less than 64 bits are rounded.
pub fn fit_to_type<'a>(data_type: &DataType, value: &Value<'a>) -> Result<StoredValue<'a>, ConversionErrorKind> {
    use DataType::*;
    match (data_type, value) {
        (_, Value::Null) => Ok(StoredValue::Null),
        (Int64, Value::Int(number)) => Ok(StoredValue::I64(*number)),
        (Float64, Value::Float64(number)) => Ok(StoredValue::F64(*number)),
        (Boolean, Value::Bool(flag)) => Ok(StoredValue::Bool(*flag)),
        (Utf8 | LargeUtf8 | Utf8View, Value::Str(text)) => Ok(StoredValue::Str(text)),
        (Binary | LargeBinary | BinaryView, Value::Bytes(bytes)) => Ok(StoredValue::Bytes(bytes)),
        (Binary | LargeBinary | BinaryView, Value::Uuid(bytes)) => Ok(StoredValue::Bytes(*bytes)),
        (FixedSizeBinary(width), Value::Bytes(bytes)) if usize::try_from(*width) != Ok(bytes.len()) => {
            Err(ConversionErrorKind::Range)
        }
        (FixedSizeBinary(_), Value::Bytes(bytes)) => Ok(StoredValue::Bytes(bytes)),
        (FixedSizeBinary(UUID_WIDTH), Value::Uuid(bytes)) => Ok(StoredValue::Bytes(*bytes)),
        (Dictionary(_, values), _) => fit_to_type(values, value),
        (Interval(unit), Value::Interval { months, days, nanoseconds, .. }) => {
            calendar(*unit, *months, *days, *nanoseconds)
        }
        (Float16 | Float32 | Float64, _) => float(data_type, value),
        (Decimal32(precision, scale), _) => scaled(value, *precision, *scale),
        (Decimal64(precision, scale), _) => scaled(value, *precision, *scale),
        (Decimal128(precision, scale), _) => scaled(value, *precision, *scale),
        (Decimal256(precision, scale), _) => scaled(value, *precision, *scale),
        (Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_), _) => time(data_type, value),
        _ => whole(data_type, value),
    }
}

/// Returns the minimum and the maximum of an integer type.
fn range(data_type: &DataType) -> Option<(i128, i128)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

fn whole<'a>(data_type: &DataType, value: &Value<'_>) -> Result<StoredValue<'a>, ConversionErrorKind> {
    let (min, max) = range(data_type).ok_or(ConversionErrorKind::Type)?;
    let number = match value {
        Value::Float64(number) => exact(*number)?,
        Value::Float32(number) => exact((*number).into())?,
        other => int(other).ok_or(ConversionErrorKind::Type)?,
    };
    match number {
        number if number < min || number > max => Err(ConversionErrorKind::Range),
        number if min == 0 => Ok(StoredValue::U64(number as u64)),
        number => Ok(StoredValue::I64(number as i64)),
    }
}

fn int(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(number) => Some((*number).into()),
        Value::UInt(number) => Some((*number).into()),
        Value::Int128(number) => Some(*number),
        _ => None,
    }
}

/// Converts a float to an integer, if it is a whole number.
fn exact(number: f64) -> Result<i128, ConversionErrorKind> {
    /// Floats below it fit into 128 bits.
    const MAX_EXACT: f64 = 1e38;
    let is_whole = number.fract() == 0.0 && number.abs() < MAX_EXACT;
    if is_whole { Ok(number as i128) } else { Err(ConversionErrorKind::Range) }
}

fn float<'a>(data_type: &DataType, value: &Value<'_>) -> Result<StoredValue<'a>, ConversionErrorKind> {
    let (number, whole) = match value {
        Value::Float64(number) => (*number, None),
        Value::Float32(number) => (f64::from(*number), None),
        other => int(other).map(|whole| (whole as f64, Some(whole))).ok_or(ConversionErrorKind::Type)?,
    };
    let stored = match data_type {
        DataType::Float16 => half::f16::from_f64(number).to_f64(),
        DataType::Float32 => (number as f32).into(),
        _ => number,
    };
    let is_lost = stored.is_infinite() != number.is_infinite() || whole.is_some_and(|whole| stored as i128 != whole);
    if is_lost { Err(ConversionErrorKind::Range) } else { Ok(StoredValue::F64(stored)) }
}

fn power_of_ten(exponent: u32) -> Result<i256, ConversionErrorKind> {
    i256::from_i128(10).checked_pow(exponent).ok_or(ConversionErrorKind::Range)
}

fn scaled<'a>(value: &Value<'_>, precision: u8, scale: i8) -> Result<StoredValue<'a>, ConversionErrorKind> {
    let (digits, from) = match value {
        Value::Decimal { digits, scale } => (*digits, *scale),
        other => (i256::from_i128(int(other).ok_or(ConversionErrorKind::Type)?), 0),
    };
    let shift = i32::from(scale) - i32::from(from);
    let factor = power_of_ten(shift.unsigned_abs())?;
    let digits = if shift >= 0 {
        digits.checked_mul(factor).ok_or(ConversionErrorKind::Range)?
    } else if digits.checked_rem(factor) == Some(i256::ZERO) {
        digits.wrapping_div(factor)
    } else {
        return Err(ConversionErrorKind::Range);
    };
    let limit = power_of_ten(precision.into())?;
    if digits >= limit || digits <= limit.wrapping_neg() {
        Err(ConversionErrorKind::Range)
    } else {
        Ok(StoredValue::Decimal(digits))
    }
}

/// Converts an interval for a column of `unit`, which may lack a part of it.
fn calendar<'a>(
    unit: IntervalUnit,
    months: i32,
    days: i32,
    nanoseconds: i64,
) -> Result<StoredValue<'a>, ConversionErrorKind> {
    let fits = match unit {
        IntervalUnit::YearMonth => days == 0 && nanoseconds == 0,
        IntervalUnit::DayTime => {
            months == 0 && nanoseconds % NANOS_PER_MILLI == 0 && i32::try_from(nanoseconds / NANOS_PER_MILLI).is_ok()
        }
        IntervalUnit::MonthDayNano => true,
    };
    if fits { Ok(StoredValue::Interval(months, days, nanoseconds)) } else { Err(ConversionErrorKind::Range) }
}

const DAY_NANOS: i128 = 86_400_000_000_000;

fn nanos(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn time<'a>(data_type: &DataType, value: &Value<'_>) -> Result<StoredValue<'a>, ConversionErrorKind> {
    use DataType::*;
    // The units of the value's and the column's numbers in nanoseconds; both must have a zone, or neither.
    let (number, from, to) = match (data_type, value) {
        (Date32, Value::Date(days)) => (*days, DAY_NANOS, DAY_NANOS),
        (Date64, Value::Date(days)) => (*days, DAY_NANOS, nanos(TimeUnit::Millisecond)),
        (Date32, Value::Timestamp(since, unit, None)) => (*since, nanos(*unit), DAY_NANOS),
        // Only midnights, as a day is one.
        (Date64, Value::Timestamp(since, unit, None)) if i128::from(*since) * nanos(*unit) % DAY_NANOS == 0 => {
            (*since, nanos(*unit), nanos(TimeUnit::Millisecond))
        }
        (Date64, Value::Timestamp(_, _, None)) => return Err(ConversionErrorKind::Range),
        (Time32(to) | Time64(to), Value::Time(since, unit)) => (*since, nanos(*unit), nanos(*to)),
        (Timestamp(to, None), Value::Date(days)) => (*days, DAY_NANOS, nanos(*to)),
        (Timestamp(to, zone), Value::Timestamp(since, unit, other)) if zones_agree(zone.as_deref(), *other) => {
            (*since, nanos(*unit), nanos(*to))
        }
        (Duration(to), Value::Duration(length, unit)) => (*length, nanos(*unit), nanos(*to)),
        _ => return Err(ConversionErrorKind::Type),
    };
    let all = i128::from(number) * from;
    let narrow = matches!(data_type, Date32 | Time32(_));
    match i64::try_from(all / to) {
        Ok(number) if all % to == 0 && !(narrow && i32::try_from(number).is_err()) => Ok(StoredValue::I64(number)),
        _ => Err(ConversionErrorKind::Range),
    }
}
