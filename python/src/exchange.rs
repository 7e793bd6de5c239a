//! Arrow data in and out by capsules (Arrow PyCapsule Interface), without copying.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::{ArrowError, Schema};
use arrowwood::{Error, ErrorKind};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::dataset::Dataset;
use crate::errors::{Failure, Result, argument, wrong_type};

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// A dataset of the batches of any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, without copying.
///
/// A stream is taken to its end. An array that is no struct becomes a dataset with the one column ``values``. The
/// producer vouches for the values.
#[pyfunction]
pub fn from_arrow(data: &Bound<'_, PyAny>) -> Result<Dataset> {
    dataset_of(data).map(Dataset::new)
}

/// The dataset that `data` is, or exports.
pub fn dataset_of(data: &Bound<'_, PyAny>) -> Result<arrowwood::Dataset> {
    if let Ok(dataset) = data.cast::<Dataset>() {
        return Ok(dataset.get().inner().clone());
    }
    if let Some(export) = data.getattr_opt(intern!(data.py(), "__arrow_c_stream__"))? {
        let stream = take_stream(&export.call0()?)?;
        return Ok(data.py().detach(|| arrowwood::Dataset::import_stream(stream))?);
    }
    if let Some(export) = data.getattr_opt(intern!(data.py(), "__arrow_c_array__"))? {
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = export.call0()?.extract()?;
        let (array, schema) = (take_array(&array)?, take_schema(&schema)?);
        // SAFETY: `__arrow_c_array__` gives a schema and an array that belong together (Arrow PyCapsule interface); both
        // were just moved out of its capsules.
        let imported = unsafe { arrowwood::Dataset::import_array(array, &schema) };
        return Ok(imported?);
    }
    let got = data.get_type().name()?;
    Err(wrong_type(format!("expected an object with __arrow_c_stream__ or __arrow_c_array__, got {got}")))
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
pub fn no_column(name: &Bound<'_, PyAny>, names: &[String]) -> Failure {
    Error::new(ErrorKind::ColumnNotFound, format!("no column '{name}'; there are {}", names.join(", "))).into()
}
