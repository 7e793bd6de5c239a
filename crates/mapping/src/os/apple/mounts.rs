//! File systems.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::os::facts::FileSystemSpace;
use crate::os::unix::errors::check;

/// Returns the name of a kind of file system, such as `apfs`.
fn kind_of(statfs: &libc::statfs) -> String {
    statfs.f_fstypename.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect()
}

/// Returns the space of the file system of `file` (fstatfs(2)).
pub fn free_space(file: &File) -> io::Result<FileSystemSpace> {
    let mut statfs = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open as long as `file` lives, and `statfs` has room for the one structure the call
    // writes.
    check(unsafe { libc::fstatfs(file.as_raw_fd(), statfs.as_mut_ptr()) })?;
    // SAFETY: fstatfs(2) has succeeded, so it has filled the structure.
    let statfs = unsafe { statfs.assume_init() };
    let available = statfs.f_bavail.saturating_mul(statfs.f_bsize.into());
    Ok(FileSystemSpace { available, is_in_memory: kind_of(&statfs) == "tmpfs" })
}

/// Returns the kind of file system of `folder` if mappings on several machines are inconsistent there (statfs(2)).
///
/// # Errors
/// Errors of the system, such as `NotFound`.
pub fn remote_file_system(folder: &Path) -> io::Result<Option<&'static str>> {
    const REMOTE: [(&str, &str); 4] = [("nfs", "NFS"), ("smbfs", "SMB"), ("afpfs", "AFP"), ("webdav", "WebDAV")];
    let path = CString::new(folder.as_os_str().as_bytes())?;
    let mut statfs = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends in zero, and `statfs` has room for the one structure the call writes.
    check(unsafe { libc::statfs(path.as_ptr(), statfs.as_mut_ptr()) })?;
    // SAFETY: statfs(2) has succeeded, so it has filled the structure.
    let statfs = unsafe { statfs.assume_init() };
    let kind = kind_of(&statfs);
    if let Some((_, name)) = REMOTE.iter().find(|(remote, _)| *remote == kind) {
        return Ok(Some(name));
    }
    if kind.contains("fuse") {
        return Ok(Some("FUSE"));
    }
    let is_local = statfs.f_flags & libc::MNT_LOCAL as u32 != 0;
    Ok(if is_local { None } else { Some("network") })
}
