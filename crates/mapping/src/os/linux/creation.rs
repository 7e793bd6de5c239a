//! When a file was made. Rust's standard library tells it with glibc only.

use std::ffi::CString;
use std::fs::Metadata;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::os::linux::statx::statx;
use crate::os::unix::files::{Asked, Creation};

/// Returns when the file or directory was made about which the system has told `metadata`.
///
/// # Errors
/// Errors of the system.
pub fn creation(metadata: &Metadata, asked: Asked<'_>) -> io::Result<Creation> {
    let mask = libc::STATX_INO | libc::STATX_BTIME;
    let answer = match asked {
        Asked::File(file) => statx(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH, mask)?,
        Asked::Path(path) => statx(libc::AT_FDCWD, &c_path(path)?, 0, mask)?,
        Asked::Link(path) => statx(libc::AT_FDCWD, &c_path(path)?, libc::AT_SYMLINK_NOFOLLOW, mask)?,
    };
    let Some(answer) = answer else { return Ok(Creation { inode: metadata.ino(), time: None }) };
    let is_known = answer.stx_mask & libc::STATX_BTIME != 0;
    let time = match u64::try_from(answer.stx_btime.tv_sec) {
        Ok(seconds) if is_known => UNIX_EPOCH.checked_add(Duration::new(seconds, answer.stx_btime.tv_nsec)),
        _ => None,
    };
    Ok(Creation { inode: answer.stx_ino, time })
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
