//! Mounts and file systems.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::os::facts::{FileSystemSpace, MountInfo};
use crate::os::linux::statx::statx;
use crate::os::unix::errors::check;

/// Asks through which mount `file` was opened (statx(2), Linux 6.8).
///
/// # Errors
/// Errors of the system. One without that call, or that forbids it, tells nothing.
pub fn mount_info(file: &File) -> io::Result<MountInfo> {
    const UNIQUE_MOUNT_ID: u32 = 0x4000;
    let mask = UNIQUE_MOUNT_ID | libc::STATX_BTIME;
    let answer = statx(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH, mask)?;
    let Some(statx) = answer.filter(|statx| statx.stx_mask & UNIQUE_MOUNT_ID != 0) else {
        return Ok(MountInfo::default());
    };
    Ok(MountInfo { mount: statx.stx_mnt_id, made: (statx.stx_btime.tv_sec, statx.stx_btime.tv_nsec) })
}

/// Returns the id of the mount through which `file` was opened, if the system has a `/proc` that tells. Another mount
/// may get the id later.
pub fn mount_id(file: &File) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok())
}

/// Returns true if `file`, on the device `device`, is on an overlay file system (fstatfs(2)).
pub fn is_on_overlay(file: &File, device: u64) -> io::Result<bool> {
    // Overlays have no device of their own; most other file systems need not be asked.
    if libc::major(device) != 0 {
        return Ok(false);
    }
    Ok(file_system_kind(&file_system(file)?) == libc::OVERLAYFS_SUPER_MAGIC as u32)
}

/// Returns the file system of `file` (fstatfs(2)).
fn file_system(file: &File) -> io::Result<libc::statfs> {
    let mut statfs = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open as long as `file` lives, and `statfs` has room for the one structure the call
    // writes.
    check(unsafe { libc::fstatfs(file.as_raw_fd(), statfs.as_mut_ptr()) })?;
    // SAFETY: fstatfs(2) has succeeded, so it has filled the structure.
    Ok(unsafe { statfs.assume_init() })
}

/// Returns the number of the kind of a file system, which has a type of its own in each C library.
fn file_system_kind(statfs: &libc::statfs) -> u32 {
    statfs.f_type as u32
}

/// Returns the space of the file system of `file`.
pub fn free_space(file: &File) -> io::Result<FileSystemSpace> {
    let statfs = file_system(file)?;
    let available = statfs.f_bavail.saturating_mul(u64::try_from(statfs.f_bsize).unwrap_or(u64::MAX));
    Ok(FileSystemSpace { available, is_in_memory: file_system_kind(&statfs) == libc::TMPFS_MAGIC as u32 })
}

/// Returns the kind of file system of `folder` if mappings on several machines are inconsistent there.
///
/// # Errors
/// Errors of the system, such as `NotFound`.
pub fn remote_file_system(folder: &Path) -> io::Result<Option<&'static str>> {
    const REMOTE: [(u32, &str); 8] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "SMB"),
        (0xfe53_4d42, "SMB"),
        (0x6573_5546, "FUSE"),
        (0x0102_1997, "9p"),
        (0x5346_414f, "AFS"),
        (0x00c3_6400, "Ceph"),
    ];
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut statfs = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends in zero, and `statfs` has room for the one structure the call writes.
    check(unsafe { libc::statfs(path.as_ptr(), statfs.as_mut_ptr()) })?;
    // SAFETY: statfs(2) has succeeded, so it has filled the structure.
    let kind = file_system_kind(&unsafe { statfs.assume_init() });
    Ok(REMOTE.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name))
}
