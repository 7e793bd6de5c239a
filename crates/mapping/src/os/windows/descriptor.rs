//! Takes over descriptors of the C library.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::windows::io::{BorrowedHandle, FromRawHandle};

/// Takes over a file by the number of its descriptor, which is closed.
///
/// # Safety
/// The descriptor must be open, and have no other owner.
pub unsafe fn file_from_descriptor(number: i32) -> File {
    // SAFETY: the caller's promise.
    let handle = unsafe { libc::get_osfhandle(number) };
    // SAFETY: as above.
    let borrowed = unsafe { BorrowedHandle::borrow_raw(handle as *mut std::ffi::c_void) };
    let Ok(owned) = borrowed.try_clone_to_owned() else {
        // The process has no handles left. The descriptor stays, as closing it closes the handle.
        // SAFETY: as above.
        return unsafe { File::from_raw_handle(handle as *mut std::ffi::c_void) };
    };
    // SAFETY: as above; its handle is not used any more.
    unsafe { libc::close(number) };
    File::from(owned)
}
