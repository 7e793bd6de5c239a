//! What the system tells about the machine.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::ptr::null_mut;

use crate::os::unix::errors::check;

/// Stores a fact about the system in `value` (sysctl(3)). Returns its number of bytes.
fn read_fact(name: &CStr, value: &mut [u8]) -> io::Result<usize> {
    let mut len = value.len();
    // SAFETY: the name ends in zero; the value has as many bytes as `len` says, and both live through the call.
    check(unsafe { libc::sysctlbyname(name.as_ptr(), value.as_mut_ptr().cast(), &raw mut len, null_mut(), 0) })?;
    Ok(len)
}

/// Returns the id of the machine's boot as text, such as a UUID; `None` if the system has none.
///
/// # Errors
/// The errors of reading it.
pub fn boot_id_text() -> io::Result<Option<String>> {
    /// More than the characters of a UUID and a zero.
    const MAX_LEN: usize = 64;
    let mut text = [0; MAX_LEN];
    match read_fact(c"kern.bootsessionuuid", &mut text) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
        Ok(_) => {
            let text = CStr::from_bytes_until_nul(&text).map_err(io::Error::other)?;
            Ok(Some(text.to_str().map_err(io::Error::other)?.to_owned()))
        }
    }
}

/// Returns the memory of the machine in bytes; `None` if the system doesn't tell.
pub fn total_memory() -> Option<u64> {
    let mut bytes = [0; size_of::<u64>()];
    let len = read_fact(c"hw.memsize", &mut bytes).ok()?;
    (len == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}
