//! Resolves names from an open directory, by its path: nothing that changes a table runs here.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windows_sys::Win32::Storage::FileSystem::MoveFileExW;

use super::errors::check;
use super::files::{FileInfo, file_identity};
use super::fork::DirectoryHandle;

/// A path, relative to an open directory if there is one.
#[derive(Clone, Debug)]
pub(crate) struct RelativePath {
    pub folder: Option<Arc<DirectoryHandle>>,
    pub path: PathBuf,
}

impl RelativePath {
    pub(crate) fn new(path: &Path) -> RelativePath {
        RelativePath { folder: None, path: path.to_path_buf() }
    }

    /// Returns the path of the file or directory.
    fn full(&self) -> PathBuf {
        self.folder.as_ref().map_or_else(|| self.path.clone(), |folder| folder.path().join(&self.path))
    }

    /// Opens the file for reading and writing.
    pub(crate) fn open_to_write(&self) -> io::Result<File> {
        File::options().read(true).write(true).open(self.full())
    }

    /// Creates a file; `AlreadyExists` if something has the name.
    pub(crate) fn create_new(&self, _mode: u32) -> io::Result<File> {
        File::options().read(true).write(true).create_new(true).open(self.full())
    }

    /// Opens the directory.
    pub(crate) fn open_folder(&self) -> io::Result<File> {
        DirectoryHandle::open(&self.full())?.file().try_clone()
    }

    /// Does nothing but open the directory, as the system has no sync of names.
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        self.open_folder().map(drop)
    }

    /// Returns serial number of the volume and index of the file or directory, or of a link's target.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        FileInfo::from_path(&self.full()).map(|info| file_identity(&info))
    }

    /// Returns true: lists of rights are not read.
    pub(crate) fn is_writable(&self) -> bool {
        true
    }

    /// Returns true if there is nothing at the path.
    pub(crate) fn is_missing(&self) -> io::Result<bool> {
        std::fs::exists(self.full()).map(|exists| !exists)
    }

    /// Removes the name.
    pub(crate) fn unlink(&self) -> io::Result<()> {
        std::fs::remove_file(self.full())
    }

    /// Gives the file a second name.
    pub(crate) fn link(&self, to: &RelativePath) -> io::Result<()> {
        std::fs::hard_link(self.full(), to.full())
    }

    /// Renames the file. Replaces the one at `to`.
    pub(crate) fn rename(&self, to: &RelativePath) -> io::Result<()> {
        std::fs::rename(self.full(), to.full())
    }

    /// Renames the file; `AlreadyExists` if there is one at `to`.
    pub(crate) fn rename_to_free(&self, to: &RelativePath) -> io::Result<()> {
        let [from, name] = [self.full(), to.full()].map(|path| wide(path.as_os_str()));
        // SAFETY: both names end in zero and live through the call.
        match check(unsafe { MoveFileExW(from.as_ptr(), name.as_ptr(), 0) }) {
            // Both are names of one file.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.is_same_as(to) => self.unlink(),
            renamed => renamed,
        }
    }

    /// Fails, as two names can't be exchanged in one step.
    pub(crate) fn exchange(&self, _other: &RelativePath) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn is_same_as(&self, other: &RelativePath) -> bool {
        matches!((self.identity(), other.identity()), (Ok(one), Ok(two)) if one == two)
    }
}

/// Returns a name as the system takes it.
fn wide(name: &OsStr) -> Vec<u16> {
    name.encode_wide().chain([0]).collect()
}
