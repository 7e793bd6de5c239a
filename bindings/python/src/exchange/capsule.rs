//! Arrow data in and out by capsules (Arrow PyCapsule Interface), without copying.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, make_array};
use arrow_schema::{Field, Schema};
use arrowwood::{import_array_and_field, import_arrays, import_schema, parse_schema};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyString};

use crate::interpreter::errors::{PyArrowwoodError, Result, type_error};
use crate::interpreter::py_call::{CallPy, with_unwind_barrier};

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// Imports the dataset that `data` exports; `None` if it has neither ``__arrow_c_stream__`` nor ``__arrow_c_array__``.
pub fn import_dataset(data: &Bound<'_, PyAny>) -> Result<Option<arrowwood::Dataset>> {
    if let Some(export) = data.getattr_opt(intern!(data.py(), "__arrow_c_stream__"))? {
        let stream = take_stream(&with_unwind_barrier(|| export.call0())?)?;
        // SAFETY: `__arrow_c_stream__` gives a stream that follows the C stream interface (Arrow PyCapsule interface);
        // it was just moved out of its capsule.
        let imported = data.py().detach(|| unsafe { arrowwood::Dataset::import_stream(stream) });
        return Ok(Some(imported?));
    }
    if let Some(export) = data.getattr_opt(intern!(data.py(), "__arrow_c_array__"))? {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            with_unwind_barrier(|| export.call0())?.extract()?;
        let array = take_array(&array)?;
        let schema = take_schema(&schema)?;
        // SAFETY: `__arrow_c_array__` gives a schema and an array that belong together (Arrow PyCapsule interface);
        // both were just moved out of its capsules.
        let imported = unsafe { arrowwood::Dataset::import_array(array, &schema) };
        return Ok(Some(imported?));
    }
    Ok(None)
}

/// Imports the arrays of one column that `data` exports, and their field.
pub fn import_column(data: &Bound<'_, PyAny>) -> Result<(Field, Vec<ArrayRef>)> {
    let py = data.py();
    if let Some(export) = data.getattr_opt(intern!(py, "__arrow_c_array__"))? {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            with_unwind_barrier(|| export.call0())?.extract()?;
        let array = take_array(&array)?;
        let schema = take_schema(&schema)?;
        // SAFETY: as in `imported`.
        let (field, array) = unsafe { import_array_and_field(array, &schema) }?;
        return Ok((field, vec![make_array(array)]));
    }
    let stream = with_unwind_barrier(|| data.call_method0(intern!(py, "__arrow_c_stream__")))?;
    let stream = take_stream(&stream)?;
    // SAFETY: as in `imported`.
    let (field, arrays) = py.detach(|| unsafe { import_arrays(stream) })?;
    Ok((field, arrays.into_iter().map(make_array).collect()))
}

/// Creates a capsule that holds `stream`, and releases it unless a consumer has moved it out.
pub fn stream_capsule<'py>(py: Python<'py>, stream: FFI_ArrowArrayStream) -> Result<Bound<'py, PyCapsule>> {
    Ok(PyCapsule::new_with_value(py, stream, STREAM)?)
}

/// Creates a capsule that holds `schema`, of columns or of one field.
pub fn schema_capsule(py: Python<'_>, schema: FFI_ArrowSchema) -> Result<Bound<'_, PyCapsule>> {
    Ok(PyCapsule::new_with_value(py, schema, SCHEMA)?)
}

/// Extracts a schema from text, from a dict of types by name, or from an object that exports one.
pub fn extract_schema(data: &Bound<'_, PyAny>) -> Result<Schema> {
    if let Ok(text) = data.cast::<PyString>() {
        return Ok(parse_schema(text.to_str()?)?);
    }
    if let Ok(types) = data.cast::<PyDict>() {
        return schema_of_dict(types);
    }
    if !data.hasattr(intern!(data.py(), "__arrow_c_schema__"))? {
        let got = data.get_type().name()?;
        return Err(type_error(format!(
            "schema: expected text such as \"ts: timestamp[us] not null, price: float64\", a dict of types by name, or \
             an object with __arrow_c_schema__, got {got}"
        )));
    }
    let capsule = data.call_py_method(intern!(data.py(), "__arrow_c_schema__"), ())?;
    Ok(import_schema(&take_schema(&capsule)?)?)
}

/// Imports the field that `data` exports; `None` if it exports none.
pub fn extract_field(data: &Bound<'_, PyAny>) -> Result<Option<Field>> {
    if !data.hasattr(intern!(data.py(), "__arrow_c_schema__"))? {
        return Ok(None);
    }
    let capsule = data.call_py_method(intern!(data.py(), "__arrow_c_schema__"), ())?;
    Ok(Field::try_from(&take_schema(&capsule)?).ok())
}

fn schema_of_dict(types: &Bound<'_, PyDict>) -> Result<Schema> {
    let mut fields = Vec::with_capacity(types.len());
    for (name, kind) in types {
        let (Ok(column), Ok(text)) = (name.extract::<String>(), kind.extract::<String>()) else {
            return Err(not_a_type(&name, &kind));
        };
        // Types of more than one column are no type.
        let parsed = parse_schema(&format!("x: {text}")).map_err(|e| e.context(format!("column '{column}'")))?;
        match &parsed.fields()[..] {
            [field] => fields.push(field.as_ref().clone().with_name(column)),
            _ => return Err(not_a_type(&name, &kind)),
        }
    }
    Ok(Schema::new(fields))
}

fn not_a_type(name: &Bound<'_, PyAny>, kind: &Bound<'_, PyAny>) -> PyArrowwoodError {
    type_error(format!("schema: expected the type of column {name} as text such as \"float64\", got {kind}"))
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
