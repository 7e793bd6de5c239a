//! Directories, which can't be locked here. Processes don't fork.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_BACKUP_SEMANTICS;

/// True if a process can lock a directory, as the one writer of a table does.
pub const CAN_LOCK_DIRECTORIES: bool = false;

/// An open directory.
#[derive(Debug)]
pub(crate) struct DirectoryHandle {
    file: File,
    path: PathBuf,
}

impl DirectoryHandle {
    pub(crate) fn open(path: &Path) -> io::Result<DirectoryHandle> {
        let file = OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
        Ok(DirectoryHandle { file, path: path.to_path_buf() })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path by which the directory was opened.
    pub(in crate::os) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails, as the system has no lock of directories.
    pub(crate) fn try_lock(&self) -> io::Result<bool> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "Windows can't lock a directory, as a writer has to"))
    }

    /// Does nothing, as nothing is locked.
    pub(crate) fn unlock(&self) {}
}

/// Returns 0, as processes don't fork.
#[inline]
pub fn fork_count() -> u64 {
    0
}
