//! What only statx(2) tells about a file.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

use crate::os::unix::errors::{is_forbidden, is_unsupported};

/// Asks about what is at `path`, seen from a directory, or about the open file itself if `path` is empty. `None` if the
/// system lacks the call or forbids it.
///
/// # Errors
/// Errors of the system.
pub(super) fn statx(directory: RawFd, path: &CStr, flags: i32, mask: u32) -> io::Result<Option<libc::statx>> {
    let mut statx = MaybeUninit::<libc::statx>::zeroed();
    // A direct call, as not every C library has the function.
    // SAFETY: the path ends in zero, a descriptor that is not open is an error, and `statx` has room for the one
    // structure that the call writes.
    let result = unsafe { libc::syscall(libc::SYS_statx, directory, path.as_ptr(), flags, mask, statx.as_mut_ptr()) };
    if result != 0 {
        let e = io::Error::last_os_error();
        return if is_unsupported(&e) || is_forbidden(&e) { Ok(None) } else { Err(e) };
    }
    // SAFETY: a structure of numbers, all of which may be zero, as they were before the call.
    Ok(Some(unsafe { statx.assume_init() }))
}
