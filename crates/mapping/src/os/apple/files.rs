//! Syncs files, and releases their blocks.
//!
//! From `portable` are:
//! - `allocate`, as `F_PREALLOCATE` allocates blocks behind the end of a file, and files have their lengths by then.
//! - `next_data` and `next_hole`, as `SEEK_HOLE` of APFS was seen to take bytes for holes that were not on the disk yet.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::os::unix::errors::{check, is_unsupported, too_large};

/// Syncs a file, or the names in a directory, to the disk (`F_FULLFSYNC` of fcntl(2)).
pub fn sync_all(file: &File) -> io::Result<()> {
    match file.sync_all() {
        // The file system, such as one of a network or a memory card, has no such call, but the weaker one.
        Err(e) if is_unsupported(&e) || e.raw_os_error() == Some(libc::ENOTTY) => {
            // SAFETY: takes a number; the descriptor is open as long as `file` lives.
            check(unsafe { libc::fsync(file.as_raw_fd()) })
        }
        synced => synced,
    }
}

/// Syncs the bytes of a file to the disk. Metadata can't be left out.
pub fn sync_data(file: &File) -> io::Result<()> {
    sync_all(file)
}

/// Makes the bytes of a file reach the disk before all that is written from now on (`F_BARRIERFSYNC` of fcntl(2)). The
/// drive may still have them in its cache, so that a power cut can take them, which takes a quarter of the time.
pub fn order_writes(file: &File) -> io::Result<()> {
    // SAFETY: takes numbers only; the descriptor is open as long as `file` lives.
    match check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_BARRIERFSYNC) }) {
        Err(e) if is_unsupported(&e) || e.raw_os_error() == Some(libc::ENOTTY) => sync_all(file),
        ordered => ordered,
    }
}

/// Releases blocks; their bytes read as zeros from now on (`F_PUNCHHOLE` of fcntl(2)). Does nothing if the file system
/// has no such call, or larger blocks.
pub fn release(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = (libc::off_t::try_from(offset), libc::off_t::try_from(len));
    let (Ok(fp_offset), Ok(fp_length)) = range else { return Err(too_large()) };
    let hole = libc::fpunchhole_t { fp_flags: 0, reserved: 0, fp_offset, fp_length };
    // SAFETY: `hole` is the structure that the command takes, and lives through the call; the descriptor is open as long
    // as `file` lives.
    match check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PUNCHHOLE, &raw const hole) }) {
        Err(e) if !is_unsupported(&e) && e.raw_os_error() != Some(libc::ENOTTY) => Err(e),
        _ => Ok(()),
    }
}
