//! Numbers, and times in seconds.

use std::time::Duration;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use super::describe::describe_object;
use crate::interpreter::errors::{Result, invalid_argument, type_error};

/// Converts the argument named `name`, which must be at least 1.
pub fn positive(name: &str, argument: i64) -> Result<u64> {
    match u64::try_from(argument) {
        Ok(number @ 1..) => Ok(number),
        _ => Err(invalid_argument(format!("{name} must be at least 1, got {argument}"))),
    }
}

/// Converts the argument named `name`, which must not be negative.
pub fn count(name: &str, argument: i64) -> Result<u64> {
    u64::try_from(argument).map_err(|_| invalid_argument(format!("{name} must not be negative, got {argument}")))
}

/// Converts `object`, for `what`, such as an argument; `expected` describes the expected number.
pub fn extract_u64(what: &str, expected: &str, object: &Bound<'_, PyAny>) -> Result<u64> {
    let number = match object.extract::<i128>() {
        Ok(number) if !object.is_instance_of::<PyBool>() => u64::try_from(number).ok(),
        Err(problem) if problem.is_instance_of::<PyOverflowError>(object.py()) => None,
        _ => return Err(type_error(format!("{what}: expected {expected}, got {}", describe_object(object)))),
    };
    number.ok_or_else(|| {
        invalid_argument(format!("{what}: expected {expected}, not negative and within 64 bits, got {object}"))
    })
}

/// Converts `object`, in seconds, to a duration; `None` for None. A value too large for a clock means forever.
pub fn seconds(what: &str, object: Option<&Bound<'_, PyAny>>) -> Result<Option<Duration>> {
    let Some(object) = object else { return Ok(None) };
    let Ok(number) = object.extract::<f64>() else {
        return Err(type_error(format!("{what}: expected a number of seconds, got {}", describe_object(object))));
    };
    match Duration::try_from_secs_f64(number) {
        Ok(duration) => Ok(Some(duration)),
        Err(_) if number > 0.0 => Ok(Some(Duration::MAX)),
        Err(_) => {
            Err(invalid_argument(format!("{what}: expected a number of seconds that is not negative, got {object}")))
        }
    }
}
