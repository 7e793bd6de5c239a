//! Tells errors of the system apart, where [`io::ErrorKind`] does not.

use std::io;

/// Numbers of errors in C, for interfaces that are defined in its words.
pub mod errno {
    pub use libc::{EINVAL, EIO, ENOMEM};
}

/// Returns true if the system was passed an address that is not mapped.
pub fn is_bad_address(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

/// Returns true if this process has as many files open as it may (`ulimit -n`).
pub fn is_process_out_of_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

/// Returns true if the machine has as many files open as it can.
pub fn is_system_out_of_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENFILE)
}

/// Returns true if the system or the file system has no such call or option.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    // Two of them are the same number on Linux.
    let numbers = [libc::EOPNOTSUPP, libc::ENOTSUP, libc::ENOSYS, libc::EINVAL];
    error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

/// Returns true if the system forbids the call, whoever owns the file.
pub(crate) fn is_forbidden(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}

/// Returns true if reading a link has failed because there is none.
pub(crate) fn is_no_link(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// Returns the error of a call that a signal has ended.
pub fn interrupted() -> io::Error {
    io::Error::from_raw_os_error(libc::EINTR)
}

/// Returns the error of a file beyond the limit.
pub(crate) fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::EFBIG)
}

/// Returns the error of a full disk.
pub(crate) fn no_space() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

/// Returns the error of too little memory.
pub(crate) fn out_of_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

/// Returns the error of symbolic links that lead to each other.
pub(crate) fn too_many_links() -> io::Error {
    io::Error::from_raw_os_error(libc::ELOOP)
}

/// Converts the result of a call that returns 0, or fails.
pub(in crate::os) fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
