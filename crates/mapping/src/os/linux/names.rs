//! Renames with conditions, and files without names.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{File, read_link};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::os::unix::errors::{check, is_forbidden, is_unsupported};
use crate::os::unix::files::{FileInfo, is_removed};
use crate::os::unix::names::RelativePath;

/// Renames a file or directory, unless something has the other name (renameat2(2)).
pub fn rename_noreplace(from: &RelativePath, to: &RelativePath) -> io::Result<()> {
    rename_with(from, to, libc::RENAME_NOREPLACE)
}

/// True if the system can exchange two names in one step. Not every file system can.
pub const CAN_EXCHANGE: bool = true;

/// Exchanges two names, atomically (renameat2(2)).
pub fn exchange(one: &RelativePath, other: &RelativePath) -> io::Result<()> {
    rename_with(one, other, libc::RENAME_EXCHANGE)
}

fn rename_with(from: &RelativePath, to: &RelativePath, flags: u32) -> io::Result<()> {
    let from_descriptor = from.descriptor();
    let to_descriptor = to.descriptor();
    let from_path = from.text()?;
    let to_path = to.text()?;
    // A direct call, as not every C library has the function.
    // SAFETY: both paths end in zero and live through the call; the descriptors are open as long as `from` and `to`.
    let result = unsafe {
        libc::syscall(libc::SYS_renameat2, from_descriptor, from_path.as_ptr(), to_descriptor, to_path.as_ptr(), flags)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Creates a file without a name, with these permissions, in the directory `folder`. Returns `None` if the file system
/// has no such files.
pub fn create_unnamed_in(folder: &RelativePath, mode: u32) -> io::Result<Option<File>> {
    match folder.open(libc::O_RDWR | libc::O_TMPFILE, mode) {
        Ok(file) => Ok(Some(file)),
        Err(e) if is_unsupported(&e) || e.raw_os_error() == Some(libc::EISDIR) => Ok(None),
        // ext4 returns this error if the directory was removed.
        Err(e) if is_forbidden(&e) && is_removed_folder(folder) => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        Err(e) => Err(e),
    }
}

/// Returns true if the directory was removed, and is still open.
fn is_removed_folder(folder: &RelativePath) -> bool {
    let opened = folder.open_folder().and_then(|folder| FileInfo::from_file(&folder));
    opened.is_ok_and(|metadata| is_removed(&metadata))
}

/// The descriptors of this process, as links to their files.
const DESCRIPTORS: &str = "/proc/self/fd";

/// Returns true if files without names can get one: if the system shows descriptors as files.
pub fn can_name_unnamed() -> bool {
    Path::new(DESCRIPTORS).exists()
}

/// Names a file that has no name, atomically; `AlreadyExists` if another file has the name.
pub fn name_unnamed(file: &File, to: &RelativePath) -> io::Result<()> {
    let from = CString::new(format!("{DESCRIPTORS}/{}", file.as_raw_fd()))?;
    let name = to.text()?;
    let follow = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: both paths end in zero and live through the call; the descriptor is open as long as `to` lives.
    check(unsafe { libc::linkat(libc::AT_FDCWD, from.as_ptr(), to.descriptor(), name.as_ptr(), follow) })
}

/// Returns the path of an open file or directory, as far as the system tells.
pub fn path_of(file: &File) -> Option<PathBuf> {
    read_link(format!("{DESCRIPTORS}/{}", file.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::os::unix::fork::DirectoryHandle;

    /// A writer whose directory was removed fails to create its next segment. On ext4, that was reported as an error of
    /// permissions.
    #[test]
    fn creating_a_file_in_a_removed_directory_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let handle = DirectoryHandle::open(folder.path()).unwrap();
        let inside = RelativePath { folder: Some(Arc::new(handle)), path: PathBuf::from(".") };
        assert!(!is_removed_folder(&inside));
        folder.close().unwrap();
        assert!(is_removed_folder(&inside));
        // Some file systems create the file, though it can't get a name.
        create_unnamed_in(&inside, 0o644).err().inspect(|e| assert_eq!(e.kind(), io::ErrorKind::NotFound, "{e}"));
    }
}
