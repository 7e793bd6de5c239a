//! Resolves names from an open directory.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::descriptor::owned;
use super::errors::check;
use super::fork::DirectoryHandle;
use crate::os::system;

/// A path, relative to an open directory if there is one. It leads into that directory regardless of the directory's
/// name.
#[derive(Clone, Debug)]
pub(crate) struct RelativePath {
    pub folder: Option<Arc<DirectoryHandle>>,
    pub path: PathBuf,
}

impl RelativePath {
    pub(crate) fn new(path: &Path) -> RelativePath {
        RelativePath { folder: None, path: path.to_path_buf() }
    }

    pub(in crate::os) fn descriptor(&self) -> i32 {
        self.folder.as_ref().map_or(libc::AT_FDCWD, |folder| folder.file().as_raw_fd())
    }

    pub(in crate::os) fn text(&self) -> io::Result<CString> {
        Ok(CString::new(self.path.as_os_str().as_bytes())?)
    }

    /// Opens the file or directory (openat(2)), with these permissions if it is created.
    pub(in crate::os) fn open(&self, flags: i32, mode: u32) -> io::Result<File> {
        let path = self.text()?;
        loop {
            // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
            let opened = unsafe { libc::openat(self.descriptor(), path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
            // SAFETY: the result of the call above.
            match unsafe { owned(opened) } {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                opened => return opened.map(File::from),
            }
        }
    }

    /// Opens the file for reading and writing.
    pub(crate) fn open_to_write(&self) -> io::Result<File> {
        self.open(libc::O_RDWR, 0)
    }

    /// Creates a file, with these permissions; `AlreadyExists` if something has the name.
    pub(crate) fn create_new(&self, mode: u32) -> io::Result<File> {
        self.open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, mode)
    }

    /// Opens the directory.
    pub(crate) fn open_folder(&self) -> io::Result<File> {
        self.open(libc::O_RDONLY | libc::O_DIRECTORY, 0)
    }

    /// Syncs changes of the names in the directory to the disk (fsync(2)).
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        system::sync_all(&self.open_folder()?)
    }

    /// Returns device and inode number of the file or directory, or of a link's target (fstatat(2)).
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        let path = self.text()?;
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the path ends in zero and lives through the call, as does the descriptor; `stat` has room for the one
        // structure the call writes.
        check(unsafe { libc::fstatat(self.descriptor(), path.as_ptr(), stat.as_mut_ptr(), 0) })?;
        // SAFETY: fstatat(2) has succeeded, so it has filled the structure.
        let stat = unsafe { stat.assume_init() };
        // Not every system has 64 bits for both.
        #[allow(clippy::unnecessary_cast)]
        Ok((stat.st_dev as u64, stat.st_ino as u64))
    }

    /// Returns true if this process may add and remove names in the directory (faccessat(2)).
    pub(crate) fn is_writable(&self) -> bool {
        let Ok(path) = self.text() else { return false };
        let access = libc::W_OK | libc::X_OK;
        // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
        unsafe { libc::faccessat(self.descriptor(), path.as_ptr(), access, libc::AT_EACCESS) == 0 }
    }

    /// Returns true if there is nothing at the path (faccessat(2)). Unlike fstatat(2), this does not ask for the file's
    /// times, and so doesn't slow down the next write to the file.
    pub(crate) fn is_missing(&self) -> io::Result<bool> {
        let path = self.text()?;
        // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
        match check(unsafe { libc::faccessat(self.descriptor(), path.as_ptr(), libc::F_OK, 0) }) {
            Ok(()) => Ok(false),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Removes the name (unlinkat(2)).
    pub(crate) fn unlink(&self) -> io::Result<()> {
        let path = self.text()?;
        // SAFETY: the path ends in zero and lives through the call; the descriptor is open as long as `self` lives.
        check(unsafe { libc::unlinkat(self.descriptor(), path.as_ptr(), 0) })
    }

    /// Gives the file a second name (linkat(2)).
    pub(crate) fn link(&self, to: &RelativePath) -> io::Result<()> {
        let from = self.text()?;
        let name = to.text()?;
        // SAFETY: both paths end in zero and live through the call; the descriptors are open as long as `self` and
        // `to`.
        check(unsafe { libc::linkat(self.descriptor(), from.as_ptr(), to.descriptor(), name.as_ptr(), 0) })
    }

    /// Renames the file. Replaces the one at `to` (renameat(2)).
    pub(crate) fn rename(&self, to: &RelativePath) -> io::Result<()> {
        let from = self.text()?;
        let name = to.text()?;
        // SAFETY: both paths end in zero and live through the call; the descriptors are open as long as `self` and
        // `to`.
        check(unsafe { libc::renameat(self.descriptor(), from.as_ptr(), to.descriptor(), name.as_ptr()) })
    }

    pub(in crate::os) fn is_same_as(&self, other: &RelativePath) -> bool {
        matches!((self.identity(), other.identity()), (Ok(one), Ok(two)) if one == two)
    }
}
