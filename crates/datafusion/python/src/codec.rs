//! The codec of a session, which conditions are sent by. The only unsafe code of this library.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::NonNull;

use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// What DataFusion calls a capsule that contains a codec.
const NAME: &CStr = c"datafusion_logical_extension_codec";

/// Returns the codec that `session` is, or that it gives.
///
/// # Errors
/// `TypeError` if it is not a capsule and gives none, `ValueError` for a capsule of another name.
pub fn from_session(session: &Bound<'_, PyAny>) -> PyResult<FFI_LogicalExtensionCodec> {
    let given = session.getattr_opt(intern!(session.py(), "__datafusion_logical_extension_codec__"))?;
    let capsule = match given {
        Some(method) => method.call0()?,
        None => session.clone(),
    };
    let capsule = capsule.cast::<PyCapsule>()?;
    let codec: NonNull<FFI_LogicalExtensionCodec> = capsule.pointer_checked(Some(NAME))?.cast();
    // SAFETY: a capsule of this name contains a codec of DataFusion's stable interface, by its convention; `arrowwood` has compared
    // the major versions, within which its layout is fixed. The capsule keeps the codec alive while it is cloned, and the interpreter
    // is held, so nobody changes it.
    Ok(unsafe { codec.as_ref() }.clone())
}
