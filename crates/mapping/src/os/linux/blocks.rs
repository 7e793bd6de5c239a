//! Blocks of files: allocating and releasing them, finding holes, and syncing a part of a file.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::os::unix::errors::{check, is_unsupported, too_large};
use crate::os::unix::files::write_and_sync;

/// Allocates blocks for the bytes `offset .. offset + len` of `file`, so that a store through a mapping can't fail
/// because the disk is full. Returns false if the file system has no such call. A failed call releases its blocks.
pub fn allocate(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    match fallocate(file, libc::FALLOC_FL_KEEP_SIZE, offset, len) {
        Ok(()) => Ok(true),
        Err(e) if is_unsupported(&e) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Releases blocks; their bytes read as zeros from now on. Does nothing if the file system has no such call.
pub fn release(file: &File, offset: u64, len: u64) -> io::Result<()> {
    match fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, offset, len) {
        Err(e) if !is_unsupported(&e) => Err(e),
        _ => Ok(()),
    }
}

fn fallocate(file: &File, mode: i32, offset: u64, len: u64) -> io::Result<()> {
    let range = (libc::off_t::try_from(offset), libc::off_t::try_from(len));
    let (Ok(offset), Ok(len)) = range else { return Err(too_large()) };
    // SAFETY: takes numbers only; the descriptor is open as long as `file` lives.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) })
}

/// Writes `bytes` at `offset` and syncs them to the disk (pwritev2(2), `RWF_DSYNC`). Syncs only these pages, not other
/// writes to the file, but the whole file if the system has no such call.
pub fn write_synced(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        let rest = &bytes[written..];
        let part = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        let rest_offset = libc::off_t::try_from(offset + written as u64).map_err(|_| too_large())?;
        let parts: libc::c_long = 1;
        // The kernel takes the offset in two words, the second of which holds what 64 bits leave over.
        let upper_offset: libc::c_long = 0;
        // A direct call, as musl has no such function.
        // SAFETY: the one part is `rest`, which outlives the call and is only read by it.
        let count = unsafe {
            libc::syscall(
                libc::SYS_pwritev2,
                file.as_raw_fd(),
                &raw const part,
                parts,
                rest_offset,
                upper_offset,
                libc::RWF_DSYNC,
            )
        };
        match usize::try_from(count) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                assert!(count <= rest.len(), "the system wrote {count} bytes of {}", rest.len());
                written += count;
            }
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => (),
                e if is_unsupported(&e) => return write_and_sync(file, rest_offset as u64, rest),
                e => return Err(e),
            },
        }
    }
    Ok(())
}

/// Returns the offset of the first byte from `offset` on that is not in a hole; `None` if there is none. If the file
/// system can't report holes, no byte counts as in one.
pub fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    let start = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    // SAFETY: takes numbers only.
    let data = unsafe { libc::lseek(file.as_raw_fd(), start, libc::SEEK_DATA) };
    if let Ok(data) = u64::try_from(data) {
        return Ok(Some(data));
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        e if is_unsupported(&e) => Ok(Some(offset)),
        e => Err(e),
    }
}

/// Returns the offset of the first byte from `offset` on that is in a hole, or the end of the file; `None` if the file
/// system can't report holes, or `offset` is not before the end.
pub fn next_hole(file: &File, offset: u64) -> Option<u64> {
    let start = libc::off_t::try_from(offset).ok()?;
    // SAFETY: takes numbers only.
    u64::try_from(unsafe { libc::lseek(file.as_raw_fd(), start, libc::SEEK_HOLE) }).ok()
}
