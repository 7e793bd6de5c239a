//! Takes over descriptors of the C library.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::windows::io::FromRawHandle;

/// Takes over a file by the number of its descriptor.
///
/// # Safety
/// The descriptor must be open, and have no other owner.
pub unsafe fn file_from_descriptor(number: i32) -> File {
    // SAFETY: the caller's promise. The descriptor itself stays, as nothing can close it and not the handle.
    let handle = unsafe { libc::get_osfhandle(number) };
    // SAFETY: as above.
    unsafe { File::from_raw_handle(handle as *mut std::ffi::c_void) }
}
