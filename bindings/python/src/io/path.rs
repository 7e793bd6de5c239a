//! Paths that Python gives.

use std::path::{Path, PathBuf};

use arrowwood::{Error, ErrorKind, local_path};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::exchange::memory;
use crate::interpreter::errors::{Result, type_error};

/// Refuses to write to a URL: a directory of its name would be made here.
pub fn check_not_url(what: &str, path: &Path) -> Result<()> {
    if path.to_str().is_some_and(|text| text.contains("://") && !text.starts_with("file:")) {
        let message = format!("{what} writes to a path, and this is a URL; `arrowwood push` copies a table to a store");
        return Err(Error::new(ErrorKind::Unsupported, message).at(path).into());
    }
    Ok(())
}

/// Returns `source` if it is a path; `None` for bytes and lists.
pub fn extract_path(source: &Bound<'_, PyAny>) -> Result<Option<PathBuf>> {
    if let Ok(text) = source.cast::<PyString>()
        && let Ok(text) = text.to_str()
    {
        let path = PathBuf::from(text);
        return Ok(Some(local_path(&path)?.unwrap_or(path)));
    }
    if source.is_instance_of::<PyList>() || source.is_instance_of::<PyTuple>() || memory::supports_buffer(source) {
        return Ok(None);
    }
    source.extract().map(Some).map_err(|_| {
        let got = source.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
        let way_out = way_out(source);
        type_error(format!(
            "expected a path, an object with the buffer protocol, or a list of those, got {got}{way_out}"
        ))
    })
}

fn has_method(source: &Bound<'_, PyAny>, name: &str) -> bool {
    source.hasattr(name).unwrap_or(false)
}

/// Returns advice for a `source` that is no path and has no buffer.
fn way_out(source: &Bound<'_, PyAny>) -> &'static str {
    if has_method(source, "__arrow_c_stream__") {
        "; data that is in memory is a dataset by aw.from_arrow(…)"
    } else if has_method(source, "read") {
        "; open a file by its name, or what it holds as bytes, aw.open(file.read()); aw.read_stream(file) reads \
         batches as they come"
    } else {
        ""
    }
}
