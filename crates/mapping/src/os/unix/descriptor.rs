//! Takes over descriptors.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes the descriptor that a call has returned.
///
/// # Safety
/// The call must have opened it for the caller just now, or have failed, so that no other code knows of it.
pub(in crate::os) unsafe fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes over a file by the number of its descriptor.
///
/// # Safety
/// The descriptor must be open, and have no other owner.
pub unsafe fn file_from_descriptor(number: i32) -> File {
    // SAFETY: the caller's promise.
    unsafe { File::from_raw_fd(number) }
}
