//! Arrow data in and out by capsules (Arrow PyCapsule Interface), without copying.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::fmt::Display;
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, make_array};
use arrow_schema::{ArrowError, Field, Schema};
use arrowwood::{Error, ErrorKind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{Failure, Result, argument};

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// The dataset that `data` exports; `None` where it has neither ``__arrow_c_stream__`` nor ``__arrow_c_array__``.
pub fn imported(data: &Bound<'_, PyAny>) -> Result<Option<arrowwood::Dataset>> {
    if let Some(export) = data.getattr_opt(intern!(data.py(), "__arrow_c_stream__"))? {
        let stream = take_stream(&export.call0()?)?;
        return Ok(Some(data.py().detach(|| arrowwood::Dataset::import_stream(stream))?));
    }
    if let Some(export) = data.getattr_opt(intern!(data.py(), "__arrow_c_array__"))? {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = export.call0()?.extract()?;
        let (array, schema) = (take_array(&array)?, take_schema(&schema)?);
        // SAFETY: `__arrow_c_array__` gives a schema and an array that belong together (Arrow PyCapsule interface); both
        // were just moved out of its capsules.
        let imported = unsafe { arrowwood::Dataset::import_array(array, &schema) };
        return Ok(Some(imported?));
    }
    Ok(None)
}

/// The arrays that `data`, one column, exports, and their field.
pub fn arrays_of(data: &Bound<'_, PyAny>) -> Result<(Field, Vec<ArrayRef>)> {
    let py = data.py();
    if let Some(export) = data.getattr_opt(intern!(py, "__arrow_c_array__"))? {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = export.call0()?.extract()?;
        let (array, schema) = (take_array(&array)?, take_schema(&schema)?);
        let field = Field::try_from(&schema).map_err(|e| import_failed(&e))?;
        let array = import(array, &field)?;
        return Ok((field, vec![array]));
    }
    let stream = data.call_method0(intern!(py, "__arrow_c_stream__"))?;
    let stream = take_stream(&stream)?;
    py.detach(|| drain(stream))
}

/// All arrays of a stream, of whatever type.
fn drain(mut stream: FFI_ArrowArrayStream) -> Result<(Field, Vec<ArrayRef>)> {
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(argument("importing an Arrow C stream: it was taken before"));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: a live stream's own function, called with it and a place for the schema (Arrow C Stream Interface).
    let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    check(&mut stream, code)?;
    let field = Field::try_from(&schema).map_err(|e| import_failed(&e))?;
    let mut arrays = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as above, with a place for an array.
        let code = unsafe { get_next(&raw mut stream, &raw mut array) };
        check(&mut stream, code)?;
        if array.is_released() {
            return Ok((field, arrays));
        }
        arrays.push(import(array, &field)?);
    }
}

/// What the stream's last call says by its `code`.
fn check(stream: &mut FFI_ArrowArrayStream, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: a live stream's own function, called with it (Arrow C Stream Interface).
    let text = stream.get_last_error.map(|get| unsafe { get(stream) }).and_then(|text| NonNull::new(text.cast_mut()));
    // SAFETY: what is not null is text that ends in NUL and lives until the next call.
    let text = text.map(|text| unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned());
    Err(argument(format!("importing an Arrow C stream: {}", text.unwrap_or_else(|| format!("error {code}")))))
}

fn import(array: FFI_ArrowArray, field: &Field) -> Result<ArrayRef> {
    // SAFETY: the producer gave the array with this very type, and vouches for it (Arrow C data interface).
    let data = unsafe { from_ffi_and_data_type(array, field.data_type().clone()) };
    Ok(make_array(data.map_err(|e| import_failed(&e))?))
}

fn import_failed(error: &ArrowError) -> Failure {
    argument(format!("importing an Arrow C array: {error}"))
}

/// A capsule that holds `stream`, and releases it unless a consumer has moved it out.
pub fn stream_capsule<'py>(py: Python<'py>, stream: FFI_ArrowArrayStream) -> Result<Bound<'py, PyCapsule>> {
    Ok(PyCapsule::new_with_value(py, stream, STREAM)?)
}

/// A capsule that holds `schema`, a schema or a field.
pub fn schema_capsule<'py, S>(py: Python<'py>, schema: S) -> Result<Bound<'py, PyCapsule>>
where
    FFI_ArrowSchema: TryFrom<S, Error = ArrowError>,
{
    let schema = FFI_ArrowSchema::try_from(schema)
        .map_err(|e| Failure::from(Error::new(ErrorKind::Unsupported, format!("exporting the schema: {e}"))))?;
    Ok(PyCapsule::new_with_value(py, schema, SCHEMA)?)
}

/// The schema that `data` exports.
pub fn schema_of(data: &Bound<'_, PyAny>) -> Result<Schema> {
    let capsule = data.call_method0(intern!(data.py(), "__arrow_c_schema__"))?;
    let schema = Schema::try_from(&take_schema(&capsule)?);
    schema.map_err(|e| argument(format!("importing an Arrow C schema: {e}")))
}

fn take_stream(capsule: &Bound<'_, PyAny>) -> Result<FFI_ArrowArrayStream> {
    let stream = pointer::<FFI_ArrowArrayStream>(capsule, STREAM)?;
    // SAFETY: a capsule of this name holds a live C stream (PyCapsule Interface); the move leaves it marked released.
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) })
}

fn take_array(capsule: &Bound<'_, PyAny>) -> Result<FFI_ArrowArray> {
    let array = pointer::<FFI_ArrowArray>(capsule, ARRAY)?;
    // SAFETY: a capsule of this name holds a live C array (PyCapsule Interface); the move leaves it marked released.
    Ok(unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) })
}

fn take_schema(capsule: &Bound<'_, PyAny>) -> Result<FFI_ArrowSchema> {
    let schema = pointer::<FFI_ArrowSchema>(capsule, SCHEMA)?;
    // SAFETY: a capsule of this name holds a live C schema (PyCapsule Interface); the move leaves it marked released.
    Ok(unsafe { FFI_ArrowSchema::from_raw(schema.as_ptr()) })
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> Result<NonNull<T>> {
    let capsule = capsule.cast::<PyCapsule>()?;
    Ok(capsule.pointer_checked(Some(name))?.cast())
}

/// `ColumnNotFound`, naming the columns there are.
pub fn no_column(name: &impl Display, names: &[String]) -> Failure {
    Error::new(ErrorKind::ColumnNotFound, format!("no column '{name}'; there are {}", names.join(", "))).into()
}
