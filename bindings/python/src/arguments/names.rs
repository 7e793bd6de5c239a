//! Names of columns.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::describe::describe_object;
use crate::interpreter::errors::{Result, column_not_found, type_error};

/// Extracts names of columns from the arguments of `what`: each a name, or a list of names.
pub fn names(what: &str, arguments: &Bound<'_, PyTuple>) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(arguments.len());
    for argument in arguments {
        if argument.is_instance_of::<PyString>() {
            names.push(argument.extract()?);
        } else if let Ok(list) = argument.extract::<Vec<String>>() {
            names.extend(list);
        } else {
            let is_rows = argument.extract::<i64>().is_ok() || argument.extract::<Vec<i64>>().is_ok();
            let advice = if is_rows { "; rows are picked by number in brackets: ds[[3, 1]]" } else { "" };
            return Err(type_error(format!("{what}: expected names of columns, got {argument}{advice}")));
        }
    }
    Ok(names)
}

/// Extracts a column's name; a text that is not Unicode names none of the `columns`.
pub fn extract_column_name<'a>(name: &'a Bound<'_, PyString>, columns: Vec<&str>) -> Result<Cow<'a, str>> {
    name.to_str()
        .map(Cow::Borrowed)
        .map_err(|_| column_not_found(name.as_any(), &columns.into_iter().map(String::from).collect::<Vec<_>>()))
}

/// Extracts the names in `object`, an argument that is a list; none if it is not given.
pub fn name_list(what: &str, object: Option<&Bound<'_, PyAny>>) -> Result<Vec<String>> {
    let Some(object) = object else { return Ok(Vec::new()) };
    object
        .extract()
        .map_err(|_| type_error(format!("{what}: expected a list of names, got {}", describe_object(object))))
}
