//! When a file was made, with another C library than glibc: Rust's standard library does not tell there.

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

/// As with glibc: see `unix::files::creation`.
pub fn creation(metadata: &Metadata, asked: Asked<'_>) -> io::Result<Creation> {
    let mask = libc::STATX_INO | libc::STATX_BTIME;
    let answer = match asked {
        Asked::File(file) => statx(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH, mask)?,
        Asked::Path(path) => statx(libc::AT_FDCWD, &c_path(path)?, 0, mask)?,
        Asked::Link(path) => statx(libc::AT_FDCWD, &c_path(path)?, libc::AT_SYMLINK_NOFOLLOW, mask)?,
    };
    let Some(answer) = answer else { return Ok(Creation { inode: metadata.ino(), time: None }) };
    let time = answer.stx_btime;
    let is_known = answer.stx_mask & libc::STATX_BTIME != 0;
    let time = u64::try_from(time.tv_sec).ok().filter(|_| is_known).map(|seconds| Duration::new(seconds, time.tv_nsec));
    Ok(Creation { inode: answer.stx_ino, time: time.and_then(|time| UNIX_EPOCH.checked_add(time)) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
