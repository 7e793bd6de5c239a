//! Resolves paths in the locked directory of a table by its descriptor, regardless of its current name.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use super::unfinished_file::beside;
use crate::os::{self, DirectoryHandle, FileInfo, RelativePath, file_identity};
use crate::sync::MutexExt;

/// The maximum length in bytes of a directory's name if files next to it are named after it. Most file systems allow
/// 255 bytes, and the names of those files are `.NAME.` and up to 25 bytes more, such as `00000000000000000008.next`.
const MAX_NAME_LEN: usize = 228;

/// A locked directory, and the path at which it was locked. Paths inside it and next to it are resolved from its
/// descriptor, so they never lead into another directory that has got its name.
#[derive(Debug)]
pub(crate) struct LockedDirectory {
    path: PathBuf,
    /// The open directory. Another one takes its place when the directory is replaced by a newer one.
    folder: Mutex<Arc<DirectoryHandle>>,
    /// See [`LockedDirectory::is_alone`], which finds it out once.
    is_alone: OnceLock<bool>,
}

impl LockedDirectory {
    pub(crate) fn new(path: &Path, folder: DirectoryHandle) -> LockedDirectory {
        LockedDirectory { path: path.to_path_buf(), folder: Mutex::new(Arc::new(folder)), is_alone: OnceLock::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self) -> Arc<DirectoryHandle> {
        self.folder.lock_ignoring_poison().clone()
    }

    /// Returns device and inode number of the directory.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        Ok(file_identity(&FileInfo::from_file(self.folder().file())?))
    }

    /// Continues with another directory, which has taken the path. Returns the previous one.
    pub(crate) fn replace(&self, newer: Arc<DirectoryHandle>) -> Arc<DirectoryHandle> {
        std::mem::replace(&mut self.folder.lock_ignoring_poison(), newer)
    }

    /// Resolves `path` from the directory's descriptor if it is inside the directory or next to it.
    pub(crate) fn at(&self, path: &Path) -> RelativePath {
        if let Ok(inside) = path.strip_prefix(&self.path) {
            let inside = if inside == Path::new("") { Path::new(".") } else { inside };
            return RelativePath { folder: Some(self.folder()), path: inside.to_path_buf() };
        }
        match self.path.parent().and_then(|parent| path.strip_prefix(parent).ok()) {
            Some(beside) => RelativePath { folder: Some(self.folder()), path: Path::new("..").join(beside) },
            None => RelativePath::new(path),
        }
    }

    /// Returns the directory's name in its parent directory; the parent directory itself if the path has no name, such
    /// as `/`.
    pub(crate) fn name(&self) -> RelativePath {
        let parent = Path::new("..");
        let path = self.path.file_name().map_or_else(|| parent.to_path_buf(), |name| parent.join(name));
        RelativePath { folder: Some(self.folder()), path }
    }

    /// Checks that the path still leads to the directory.
    pub(crate) fn check(&self) -> io::Result<()> {
        use io::ErrorKind::{NotADirectory, NotFound};
        let folder = self.folder();
        let locked = FileInfo::from_file(folder.file())?;
        match FileInfo::from_path(&self.path) {
            Ok(current) if file_identity(&current) == file_identity(&locked) => Ok(()),
            Err(e) if !matches!(e.kind(), NotFound | NotADirectory) => Err(e),
            _ => {
                let current_path = os::path_of(folder.file()).filter(|_| !os::is_removed(&locked));
                Err(io::Error::other(MovedDirectoryError { path: self.path.clone(), current_path }))
            }
        }
    }

    /// Returns a path for a file that does not belong to the directory yet, whose name ends in `suffix`. The file is
    /// next to the directory, where its listings don't show it, or inside if files can't be moved from there into it.
    pub(crate) fn hidden(&self, suffix: &str) -> PathBuf {
        if self.is_alone() { self.path.join(format!(".{suffix}")) } else { beside(&self.path, suffix) }
    }

    /// Returns true if files can't be moved into the directory from its parent directory: it is a mount point, its
    /// parent can't be written to, or its name leaves no room for names that begin with it.
    pub(crate) fn is_alone(&self) -> bool {
        *self.is_alone.get_or_init(|| {
            if self.path.file_name().is_some_and(|name| name.len() > MAX_NAME_LEN) {
                return true;
            }
            let parent = RelativePath { folder: Some(self.folder()), path: PathBuf::from("..") };
            !parent.is_writable() || !self.is_on_mount_of(&parent).unwrap_or(false)
        })
    }

    fn is_on_mount_of(&self, parent: &RelativePath) -> io::Result<bool> {
        let folder = self.folder();
        let parent = parent.open_folder()?;
        let (device, inode) = file_identity(&FileInfo::from_file(folder.file())?);
        let (parent_device, parent_inode) = file_identity(&FileInfo::from_file(&parent)?);
        let is_same_device = device == parent_device;
        // The root directory is its own parent.
        let is_same_directory = inode == parent_inode;
        // A directory that is mounted twice is on one device, and on two mounts.
        Ok(is_same_device && os::mount_id(folder.file()) == os::mount_id(&parent) && !is_same_directory)
    }
}

/// The error of a directory that is no longer where it was locked.
#[derive(Debug)]
struct MovedDirectoryError {
    path: PathBuf,
    current_path: Option<PathBuf>,
}

impl fmt::Display for MovedDirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.current_path {
            Some(current) => write!(
                f,
                "the directory opened for writing at {path} was renamed, and is now {}; nothing was changed: open it \
                 where it is now",
                current.display()
            ),
            None => write!(f, "the directory opened for writing at {path} was removed or renamed; nothing was changed"),
        }
    }
}

impl std::error::Error for MovedDirectoryError {}

/// Returns true if the cause of the error is that a locked directory was renamed, removed or replaced.
pub fn is_moved_directory(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<MovedDirectoryError>())
}
