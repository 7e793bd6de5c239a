//! Tells errors of the system apart, where [`io::ErrorKind`] does not.

use std::io;

use windows_sys::Win32::Foundation::{
    ERROR_CANT_RESOLVE_FILENAME, ERROR_DISK_FULL, ERROR_FILE_NOT_FOUND, ERROR_FILE_TOO_LARGE, ERROR_INVALID_FUNCTION,
    ERROR_INVALID_NAME, ERROR_NOACCESS, ERROR_NOT_A_REPARSE_POINT, ERROR_NOT_ENOUGH_MEMORY, ERROR_TOO_MANY_OPEN_FILES,
};
use windows_sys::core::BOOL;

/// Numbers of errors in C, for interfaces that are defined in its words.
pub mod errno {
    pub use libc::{EINVAL, EIO, ENOMEM};
}

fn is(error: &io::Error, number: u32) -> bool {
    error.raw_os_error() == Some(number as i32)
}

fn error(number: u32) -> io::Error {
    io::Error::from_raw_os_error(number as i32)
}

/// Returns true if the system was passed an address that is not mapped.
pub fn is_bad_address(error: &io::Error) -> bool {
    is(error, ERROR_NOACCESS)
}

/// Returns true if this process has as many files open as it may.
pub fn is_process_out_of_files(error: &io::Error) -> bool {
    is(error, ERROR_TOO_MANY_OPEN_FILES)
}

/// Returns false, as the system has no number for it.
pub fn is_system_out_of_files(_error: &io::Error) -> bool {
    false
}

/// Returns true if files can't have a name.
pub(super) fn is_invalid_name(error: &io::Error) -> bool {
    is(error, ERROR_INVALID_NAME)
}

/// Returns the error of a file that is not there.
pub(super) fn not_found() -> io::Error {
    error(ERROR_FILE_NOT_FOUND)
}

/// Returns true if reading a link has failed because there is none.
pub(crate) fn is_no_link(error: &io::Error) -> bool {
    is(error, ERROR_NOT_A_REPARSE_POINT) || is(error, ERROR_INVALID_FUNCTION)
}

/// Returns the error of a call that was ended from outside.
pub fn interrupted() -> io::Error {
    io::ErrorKind::Interrupted.into()
}

/// Returns the error of a file beyond the limit.
pub(crate) fn too_large() -> io::Error {
    error(ERROR_FILE_TOO_LARGE)
}

/// Returns the error of a full disk.
pub(crate) fn no_space() -> io::Error {
    error(ERROR_DISK_FULL)
}

/// Returns the error of too little memory.
pub(crate) fn out_of_memory() -> io::Error {
    error(ERROR_NOT_ENOUGH_MEMORY)
}

/// Returns the error of symbolic links that lead to each other.
pub(crate) fn too_many_links() -> io::Error {
    error(ERROR_CANT_RESOLVE_FILENAME)
}

/// Converts the result of a call that returns another number than 0, or fails.
pub(in crate::os) fn check(result: BOOL) -> io::Result<()> {
    if result != 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
