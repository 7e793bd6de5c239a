//! Python's indices and slices as row numbers. The length is asked for only where it matters, since a stream must be
//! walked to know it.

use std::ops::Range;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PySlice, PyTuple};

use super::describe::{condition_hint, describe_object};
use crate::interpreter::errors::{PyArrowwoodError, Result, invalid_argument, out_of_range, type_error};

/// The start of a slice without a start.
const FIRST_ROW: i64 = 0;

/// A key in square brackets: a number or a range.
pub enum Index {
    At(u64),
    Span(u64, u64),
}

/// Parses the index `key` of a sequence of `len` items called `what`.
pub fn index(key: &Bound<'_, PyAny>, what: &str, len: impl FnOnce() -> Result<u64>) -> Result<Index> {
    match key.cast::<PySlice>() {
        Ok(slice) => span(slice, len).map(|(start, count)| Index::Span(start, count)),
        Err(_) => position(number(key, what)?, what, len).map(Index::At),
    }
}

/// Returns true if `key` is several indices, and not one.
pub fn is_indices(key: &Bound<'_, PyAny>) -> bool {
    key.is_instance_of::<PyList>() || (!key.is_instance_of::<PyTuple>() && key.hasattr("__len__").unwrap_or(false))
}

/// Returns the distance from the end that a negative number means: 1 is the last.
pub fn from_end(key: &Bound<'_, PyAny>) -> Option<u64> {
    key.extract().ok().filter(|&index: &i64| index < 0).map(i64::unsigned_abs)
}

/// Returns the rows `start .. end` and the `step` of a slice that takes every `step`th row, backwards if it is
/// negative; `None` if `key` is a row, or a slice that goes forward one by one.
pub fn strided_slice(key: &Bound<'_, PyAny>, len: impl FnOnce() -> Result<u64>) -> Result<Option<(Range<u64>, i64)>> {
    let Ok(slice) = key.cast::<PySlice>() else { return Ok(None) };
    let step = slice.getattr("step")?.extract::<Option<i64>>()?.unwrap_or(1);
    if step == 1 {
        return Ok(None);
    }
    if step == 0 {
        return Err(invalid_argument("the step of a slice must not be 0"));
    }
    let indices = slice.indices(len()?.try_into().unwrap_or(isize::MAX))?;
    let count = indices.slicelength as u64;
    if count == 0 {
        return Ok(Some((0..0, step)));
    }
    let first = indices.start.max(0) as u64;
    let reach = (count - 1).saturating_mul(step.unsigned_abs());
    if step > 0 {
        return Ok(Some((first..first + reach + 1, step)));
    }
    // A backward slice begins with the last row of the range.
    assert!(reach <= first, "a backward slice reaches {reach} rows before row {first}");
    Ok(Some((first - reach..first + 1, step)))
}

/// Extracts the index `key` of a `what`, such as a row.
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

/// Returns the error for an invalid key.
fn not_picked(key: &Bound<'_, PyAny>, what: &str) -> PyArrowwoodError {
    let advice = if what == "row" { condition_hint(key) } else { "" };
    type_error(format!("{what}s are picked by number or slice, got {}{advice}", describe_object(key)))
}

/// Returns the row number for `index`, which may count from the end. A number before the first row is an error; numbers
/// past the end are left to the caller.
pub fn position(index: i64, what: &str, len: impl FnOnce() -> Result<u64>) -> Result<u64> {
    if let Ok(number) = u64::try_from(index) {
        return Ok(number);
    }
    let len = len()?;
    len.checked_sub(index.unsigned_abs()).ok_or_else(|| out_of_range(format!("{what} {index} of {len} {what}s")))
}

/// Returns start and number of the rows of a slice. The number may be more than there are.
fn span(slice: &Bound<'_, PySlice>, len: impl FnOnce() -> Result<u64>) -> Result<(u64, u64)> {
    let step: Option<i64> = slice.getattr("step")?.extract()?;
    if !matches!(step, None | Some(1)) {
        return Err(invalid_argument("slices go forward one by one: the step must be 1"));
    }
    let start: Option<i64> = slice.getattr("start")?.extract()?;
    let stop: Option<i64> = slice.getattr("stop")?.extract()?;
    bounds(start.unwrap_or(FIRST_ROW), stop, len)
}

/// Returns start and number of the rows `start .. stop`, where negative ones count from the end.
pub fn bounds(start: i64, stop: Option<i64>, len: impl FnOnce() -> Result<u64>) -> Result<(u64, u64)> {
    let from_end = start < 0 || stop.is_some_and(|stop| stop < 0);
    let len = if from_end { len()? } else { 0 };
    let start = clamp(start, len);
    let stop = stop.map_or(u64::MAX, |stop| clamp(stop, len));
    // A slice that stops before it starts is empty, as in Python.
    Ok((start, stop.saturating_sub(start)))
}

/// Returns the bound of a slice of `len` rows as a row number; a bound before the first row is 0.
fn clamp(bound: i64, len: u64) -> u64 {
    u64::try_from(bound).unwrap_or_else(|_| len.saturating_sub(bound.unsigned_abs()))
}
