//! Describes in messages what was given.

use pyo3::prelude::*;
use pyo3::types::PyString;

/// The maximum number of characters of a value in a message.
const MAX_REPR_WIDTH: usize = 40;

/// Describes a value by its class and `repr`, for messages.
pub fn describe_object(object: &Bound<'_, PyAny>) -> String {
    let text = object.repr().map_or_else(|_| "?".into(), |text| arrowwood::readable::ellipsize(text, MAX_REPR_WIDTH));
    match object.get_type().name() {
        Ok(class) if !object.is_none() => format!("{class} {text}"),
        _ => text,
    }
}

/// Returns the line to write instead of `object`, if it is a condition of another library, or a function.
pub fn condition_hint(object: &Bound<'_, PyAny>) -> &'static str {
    let module = object.get_type().module().map_or_else(|_| String::new(), |module| module.to_string());
    if module.starts_with("polars") {
        "; write ds.filter(aw.col(\"x\") > 1), or aw.scan(ds).filter(pl.col(\"x\") > 1).collect()"
    } else if object.is_instance_of::<PyString>() {
        "; write ds.filter(aw.col(\"x\") > 1), or ds.sql(\"select * from self where x > 1\")"
    } else if object.is_callable() {
        "; write ds.filter(aw.col(\"x\") > 1), or ds[[f(row) for row in ds.rows()]]"
    } else {
        ""
    }
}
