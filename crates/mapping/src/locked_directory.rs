//! The directory of a table for its writer: found by its descriptor, whatever it is called by now.

use crate::sync::MutexExt;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use crate::os::{DirectoryHandle, RelativePath};
use crate::unfinished_file::beside;

/// The longest name in bytes of a directory with files beside it that are called after it. File systems mostly take 255:
/// these are called `.NAME.` and up to 25 bytes more, such as `00000000000000000008.next`.
const LONGEST_NAME: usize = 228;

/// A locked directory, and the path at which it was locked. Paths inside it, and beside it, are resolved from its
/// descriptor: so they never lead into another directory that has got its name.
#[derive(Debug)]
pub(crate) struct LockedDirectory {
    path: PathBuf,
    folder: Mutex<Arc<DirectoryHandle>>,
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

    /// Goes on with another directory, which has taken the path; returns the one before.
    pub(crate) fn replace(&self, newer: Arc<DirectoryHandle>) -> Arc<DirectoryHandle> {
        std::mem::replace(&mut self.folder.lock_ignoring_poison(), newer)
    }

    /// The same place as `path`, from the directory's descriptor if it is inside or beside it.
    pub(crate) fn at(&self, path: &Path) -> RelativePath {
        let here = |inside: &Path| if inside == Path::new("") { PathBuf::from(".") } else { inside.to_path_buf() };
        if let Ok(inside) = path.strip_prefix(&self.path) {
            return RelativePath { folder: Some(self.folder()), path: here(inside) };
        }
        match self.path.parent().and_then(|parent| path.strip_prefix(parent).ok()) {
            Some(beside) => RelativePath { folder: Some(self.folder()), path: Path::new("..").join(beside) },
            None => RelativePath::new(path),
        }
    }

    /// The directory's own name beside it.
    pub(crate) fn name(&self) -> RelativePath {
        let name = self.path.file_name().unwrap_or_default();
        RelativePath { folder: Some(self.folder()), path: Path::new("..").join(name) }
    }

    /// Checks that the path still leads to the directory.
    pub(crate) fn check(&self) -> io::Result<()> {
        use io::ErrorKind::{NotADirectory, NotFound};
        let folder = self.folder();
        let own = folder.file().metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (own.dev(), own.ino()) => Ok(()),
            Err(e) if !matches!(e.kind(), NotFound | NotADirectory) => Err(e),
            _ => {
                let now = std::fs::read_link(format!("/proc/self/fd/{}", folder.file().as_raw_fd())).ok();
                let now = now.filter(|_| own.nlink() > 0);
                Err(io::Error::other(MovedDirectoryError { path: self.path.clone(), now }))
            }
        }
    }

    /// A path for a file that does not belong to the directory yet, of a name that ends in `suffix`: beside it, where
    /// listings of the directory don't show it, or inside, if files can't be moved from there into it.
    pub(crate) fn hidden(&self, suffix: &str) -> PathBuf {
        if self.is_alone() { self.path.join(format!(".{suffix}")) } else { beside(&self.path, suffix) }
    }

    /// Whether files can't be moved into the directory from beside it: it is a mount point, its parent directory can't be
    /// written to, or its name leaves no room for the names of files that are called after it.
    pub(crate) fn is_alone(&self) -> bool {
        *self.is_alone.get_or_init(|| {
            if self.path.file_name().is_some_and(|name| name.len() > LONGEST_NAME) {
                return true;
            }
            let parent = RelativePath { folder: Some(self.folder()), path: PathBuf::from("..") };
            !parent.is_writable() || !self.is_on_mount_of(&parent).unwrap_or(false)
        })
    }

    fn is_on_mount_of(&self, parent: &RelativePath) -> io::Result<bool> {
        let folder = self.folder();
        let parent = parent.open_folder()?;
        let (own, other) = (folder.file().metadata()?, parent.metadata()?);
        // A directory that is mounted twice is on one device, and on two mounts.
        let mount = |file: &std::fs::File| {
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
            text.lines().find_map(|line| Some(line.strip_prefix("mnt_id:")?.trim().to_owned()))
        };
        let is_same_directory = own.ino() == other.ino();
        Ok(own.dev() == other.dev() && mount(folder.file()) == mount(&parent) && !is_same_directory)
    }
}

/// The error of a directory that is no longer where it was locked.
#[derive(Debug)]
struct MovedDirectoryError {
    path: PathBuf,
    now: Option<PathBuf>,
}

impl fmt::Display for MovedDirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.now {
            Some(now) => write!(
                f,
                "the directory opened for writing at {path} was renamed, and is now {}; nothing was changed: open it where \
                 it is now",
                now.display()
            ),
            None => write!(f, "the directory opened for writing at {path} was removed or renamed; nothing was changed"),
        }
    }
}

impl std::error::Error for MovedDirectoryError {}

/// Whether the error is that of a locked directory which was renamed, removed or replaced.
pub fn is_moved_directory(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<MovedDirectoryError>())
}
