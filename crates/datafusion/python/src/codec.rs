//! Extracts the codec of a DataFusion session, which encodes conditions. Contains the only unsafe code of this library.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::NonNull;

use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The name of a capsule that contains a codec.
const CAPSULE_NAME: &CStr = c"datafusion_logical_extension_codec";

/// Returns the codec of `session`, which is a session or the capsule of a codec.
///
/// # Errors
/// `TypeError` if it is neither, `ValueError` for a capsule of another name.
pub fn from_session(session: &Bound<'_, PyAny>) -> PyResult<FFI_LogicalExtensionCodec> {
    let method = session.getattr_opt(intern!(session.py(), "__datafusion_logical_extension_codec__"))?;
    let capsule = match method {
        Some(method) => method.call0()?,
        None => session.clone(),
    };
    let capsule = capsule.cast::<PyCapsule>()?;
    let codec: NonNull<FFI_LogicalExtensionCodec> = capsule.pointer_checked(Some(CAPSULE_NAME))?.cast();
    // SAFETY: by convention, a capsule of this name contains a codec of DataFusion's stable interface, whose layout is
    // fixed within a major version; `arrowwood` has compared the versions. The capsule keeps the codec alive while it
    // is cloned, and no other thread changes it, as this one holds the interpreter lock.
    Ok(unsafe { codec.as_ref() }.clone())
}
