//! Python's indices and slices as row numbers. The length is asked for only where it matters, since a stream must be
//! walked to know it.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use arrowwood::{Error, ErrorKind};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PySlice, PyString, PyTuple};

use crate::capsule::column_not_found;
use crate::errors::{PyArrowwoodError, Result, invalid_argument, type_error};

/// A key in square brackets: a number or a range.
pub enum Index {
    At(u64),
    Span(u64, u64),
}

/// The index `key` for a sequence of `len` items called `what`.
pub fn index(key: &Bound<'_, PyAny>, what: &str, len: impl FnOnce() -> Result<u64>) -> Result<Index> {
    match key.cast::<PySlice>() {
        Ok(slice) => span(slice, len).map(|(start, count)| Index::Span(start, count)),
        Err(_) => position(number(key, what)?, what, len).map(Index::At),
    }
}

/// Whether `key` is several indices, and not one.
pub fn is_indices(key: &Bound<'_, PyAny>) -> bool {
    key.is_instance_of::<PyList>() || (!key.is_instance_of::<PyTuple>() && key.hasattr("__len__").unwrap_or(false))
}

/// How far before the end a negative number means, 1 being the last.
pub fn from_end(key: &Bound<'_, PyAny>) -> Option<u64> {
    key.extract().ok().filter(|&at: &i64| at < 0).map(i64::unsigned_abs)
}

/// The rows `start .. end` of which a slice takes every `step`th, backwards where it is negative; `None` for what is no such
/// slice: a row, or a slice that goes forward one by one.
pub fn strided_slice(key: &Bound<'_, PyAny>, len: impl FnOnce() -> Result<u64>) -> Result<Option<(Range<u64>, i64)>> {
    let Ok(slice) = key.cast::<PySlice>() else { return Ok(None) };
    let step = slice.getattr("step")?.extract::<Option<i64>>()?.unwrap_or(1);
    if step == 1 {
        return Ok(None);
    }
    if step == 0 {
        return Err(invalid_argument("the step of a slice must not be 0"));
    }
    let found = slice.indices(len()?.try_into().unwrap_or(isize::MAX))?;
    let first = found.start.max(0) as u64;
    let count = found.slicelength as u64;
    let size = step.unsigned_abs();
    let reach = count.saturating_sub(1).saturating_mul(size);
    if count == 0 {
        return Ok(Some((0..0, step)));
    }
    // Backwards it begins with the last row of the range.
    let rows = if step > 0 { first..first + reach + 1 } else { first - reach..first + 1 };
    Ok(Some((rows, step)))
}

/// Names of columns, each an argument, or all of them one list.
pub fn names(what: &str, given: &Bound<'_, PyTuple>) -> Result<Vec<String>> {
    let mut found = Vec::with_capacity(given.len());
    for each in given {
        if each.is_instance_of::<PyString>() {
            found.push(each.extract()?);
            continue;
        }
        let wrong = |_| {
            let is_rows = each.extract::<i64>().is_ok() || each.extract::<Vec<i64>>().is_ok();
            let advice = if is_rows { "; rows are picked by number in brackets: ds[[3, 1]]" } else { "" };
            type_error(format!("{what}: expected names of columns, got {each}{advice}"))
        };
        found.extend(each.extract::<Vec<String>>().map_err(wrong)?);
    }
    Ok(found)
}

/// A column's name as text; no column has one that is no Unicode.
pub fn extract_column_name<'a>(name: &'a Bound<'_, PyString>, known: Vec<&str>) -> Result<Cow<'a, str>> {
    name.to_str()
        .map(Cow::Borrowed)
        .map_err(|_| column_not_found(name.as_any(), &known.into_iter().map(String::from).collect::<Vec<_>>()))
}

/// The index `key` of a `what`, such as a row.
pub fn number(key: &Bound<'_, PyAny>, what: &str) -> Result<i64> {
    // Python treats it as an integer, which no one intends.
    if key.is_instance_of::<PyBool>() {
        return Err(type_error(format!("{what}s are picked by number, got {key}; filter picks rows by a condition")));
    }
    key.extract().map_err(|problem: PyErr| {
        if problem.is_instance_of::<PyOverflowError>(key.py()) {
            return out_of_range(format!("{what} {key} is beyond 64 bits"));
        }
        not_picked(key, what)
    })
}

/// The hint for an invalid key.
fn not_picked(key: &Bound<'_, PyAny>, what: &str) -> PyArrowwoodError {
    let advice = if what == "row" { condition_hint(key) } else { "" };
    type_error(format!("{what}s are picked by number or slice, got {}{advice}", describe_object(key)))
}

/// The line to write where `given` is a condition as other libraries have it, or a function.
pub fn condition_hint(given: &Bound<'_, PyAny>) -> &'static str {
    let module = given.get_type().module().map_or_else(|_| String::new(), |module| module.to_string());
    if module.starts_with("polars") {
        "; write ds.filter(aw.col(\"x\") > 1), or aw.scan(ds).filter(pl.col(\"x\") > 1).collect()"
    } else if given.is_instance_of::<PyString>() {
        "; write ds.filter(aw.col(\"x\") > 1), or ds.sql(\"select * from self where x > 1\")"
    } else if given.is_callable() {
        "; write ds.filter(aw.col(\"x\") > 1), or ds[[f(row) for row in ds.rows()]]"
    } else {
        ""
    }
}

/// The row number for `at`; negative results are an error, numbers past the end are left to the caller.
pub fn position(at: i64, what: &str, len: impl FnOnce() -> Result<u64>) -> Result<u64> {
    if let Ok(at) = u64::try_from(at) {
        return Ok(at);
    }
    let len = len()?;
    len.checked_sub(at.unsigned_abs()).ok_or_else(|| out_of_range(format!("{what} {at} of {len} {what}s")))
}

/// Start and number of the rows of a slice. The number may be more than there are.
fn span(slice: &Bound<'_, PySlice>, len: impl FnOnce() -> Result<u64>) -> Result<(u64, u64)> {
    let part = |name| slice.getattr(name)?.extract::<Option<i64>>();
    if !matches!(part("step")?, None | Some(1)) {
        return Err(invalid_argument("slices go forward one by one: the step must be 1"));
    }
    bounds(part("start")?.unwrap_or(0), part("stop")?, len)
}

/// Start and number of the rows `start .. stop`, where negative ones count from the end.
pub fn bounds(start: i64, stop: Option<i64>, len: impl FnOnce() -> Result<u64>) -> Result<(u64, u64)> {
    let from_end = start < 0 || stop.is_some_and(|stop| stop < 0);
    let len = if from_end { len()? } else { 0 };
    let clamp = |at: i64| u64::try_from(at).unwrap_or_else(|_| len.saturating_sub(at.unsigned_abs()));
    let start = clamp(start);
    Ok((start, stop.map_or(u64::MAX, clamp).saturating_sub(start)))
}

/// Names that `given`, an argument, is a list of.
pub fn name_list(what: &str, given: Option<&Bound<'_, PyAny>>) -> Result<Vec<String>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    given.extract().map_err(|_| type_error(format!("{what}: expected a list of names, got {}", describe_object(given))))
}

/// A number that must be at least 1, such as an argument named `name`.
pub fn positive(name: &str, given: i64) -> Result<u64> {
    let found = u64::try_from(given).ok().filter(|&found| found > 0);
    found.ok_or_else(|| invalid_argument(format!("{name} must be at least 1, got {given}")))
}

/// A number that must not be negative, such as an argument named `name`.
pub fn count(name: &str, given: i64) -> Result<u64> {
    u64::try_from(given).map_err(|_| invalid_argument(format!("{name} must not be negative, got {given}")))
}

/// Converts `given`, for `what`, such as an argument; `expected` describes the expected number.
pub fn extract_u64(what: &str, expected: &str, given: &Bound<'_, PyAny>) -> Result<u64> {
    let wrong = || type_error(format!("{what}: expected {expected}, got {}", describe_object(given)));
    if given.is_instance_of::<PyBool>() {
        return Err(wrong());
    }
    let number = match given.extract::<i128>() {
        Ok(number) => number,
        Err(problem) if problem.is_instance_of::<PyOverflowError>(given.py()) => i128::MAX,
        Err(_) => return Err(wrong()),
    };
    let unfit =
        |_| invalid_argument(format!("{what}: expected {expected}, not negative and within 64 bits, got {given}"));
    u64::try_from(number).map_err(unfit)
}

/// Converts `given`, in seconds, to a duration; `None` for None. A value too large for a clock means forever.
pub fn seconds(what: &str, given: Option<&Bound<'_, PyAny>>) -> Result<Option<Duration>> {
    let Some(given) = given else { return Ok(None) };
    let wrong = || type_error(format!("{what}: expected a number of seconds, got {}", describe_object(given)));
    let number: f64 = given.extract().map_err(|_| wrong())?;
    match Duration::try_from_secs_f64(number) {
        Ok(found) => Ok(Some(found)),
        Err(_) if number > 0.0 => Ok(Some(Duration::MAX)),
        Err(_) => {
            Err(invalid_argument(format!("{what}: expected a number of seconds that is not negative, got {given}")))
        }
    }
}

/// A value and its class, for messages.
pub fn describe_object(given: &Bound<'_, PyAny>) -> String {
    let text = given.repr().map_or_else(|_| "?".into(), |text| arrowwood::ellipsize(text, 40));
    match given.get_type().name() {
        Ok(class) if !given.is_none() => format!("{class} {text}"),
        _ => text,
    }
}

/// `RowOutOfRange`, saying `message`.
pub fn out_of_range(message: String) -> PyArrowwoodError {
    Error::new(ErrorKind::RowOutOfRange, message).into()
}

/// Lets Ctrl-C stop a loop over rows; asked every so many rows, as asking takes as long as a row.
pub fn stop_on_signal(py: Python<'_>, row: u64) -> Result<()> {
    if row.is_multiple_of(1 << 16) {
        py.check_signals()?;
    }
    Ok(())
}
