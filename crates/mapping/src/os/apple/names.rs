//! Renames with conditions, and paths of open files.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::os::unix::errors::check;
use crate::os::unix::names::RelativePath;

/// Renames a file or directory, unless something has the other name (renameatx_np(2)).
pub fn rename_noreplace(from: &RelativePath, to: &RelativePath) -> io::Result<()> {
    rename_with(from, to, libc::RENAME_EXCL)
}

/// True if the system can exchange two names in one step. Not every file system can.
pub const CAN_EXCHANGE: bool = true;

/// Exchanges two names, atomically (renameatx_np(2)).
pub fn exchange(one: &RelativePath, other: &RelativePath) -> io::Result<()> {
    rename_with(one, other, libc::RENAME_SWAP)
}

fn rename_with(from: &RelativePath, to: &RelativePath, flags: u32) -> io::Result<()> {
    let from_path = from.text()?;
    let to_path = to.text()?;
    // SAFETY: both paths end in zero and live through the call; the descriptors are open as long as `from` and `to`.
    check(unsafe {
        libc::renameatx_np(from.descriptor(), from_path.as_ptr(), to.descriptor(), to_path.as_ptr(), flags)
    })
}

/// Returns the path of an open file or directory, as far as the system tells (`F_GETPATH` of fcntl(2)).
pub fn path_of(file: &File) -> Option<PathBuf> {
    let mut path = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the command writes at most PATH_MAX bytes, for which there is room; the descriptor is open as long as
    // `file` lives.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETPATH, path.as_mut_ptr()) }).ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}
