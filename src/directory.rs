//! What is at a path, the identity of a file or a directory, and the last change of a directory's entries.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::map;

/// A file or a directory, identified independently of its name. The inode of a removed one may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    /// On file systems that have creation times.
    made: Option<SystemTime>,
}

impl FileId {
    /// Returns the file or directory at `path`.
    ///
    /// # Errors
    /// Those of the system, such as `NotFound`.
    pub fn from_path(path: &Path) -> io::Result<FileId> {
        std::fs::metadata(path).map(|found| FileId::new(&found))
    }

    /// Tells it from others of its file system, now and later; `None` where files have no creation times, so that one made later
    /// may have the same inode.
    pub fn persistent_id(&self) -> Option<String> {
        let made = self.made?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(format!("{}-{}", self.inode, made.as_nanos()))
    }

    /// Returns the file or directory at `path`; `None` if there is none.
    ///
    /// # Errors
    /// `Io`.
    pub fn find(path: &Path) -> Result<Option<FileId>> {
        Ok(metadata_at(path)?.map(|found| FileId::new(&found)))
    }

    fn new(found: &Metadata) -> FileId {
        FileId { device: found.dev(), inode: found.ino(), made: found.created().ok() }
    }
}

/// Whether there is something at `path`.
///
/// # Errors
/// `Io`: a call that fails is an error, and no absence, as it is for [`Path::exists`].
pub fn exists(path: &Path) -> Result<bool> {
    map::exists(path).map_err(|e| unseen(path, &e))
}

/// Whether there is a directory at `path`.
///
/// # Errors
/// As [`exists`].
pub fn is_directory(path: &Path) -> Result<bool> {
    map::is_directory(path).map_err(|e| unseen(path, &e))
}

/// Whether there is a regular file at `path`.
///
/// # Errors
/// As [`exists`].
pub fn is_file(path: &Path) -> Result<bool> {
    Ok(metadata_at(path)?.is_some_and(|found| found.is_file()))
}

/// Returns the metadata of the file or directory at `path`; `None` if there is none.
///
/// # Errors
/// As [`exists`].
pub fn metadata_at(path: &Path) -> Result<Option<Metadata>> {
    map::metadata_at(path).map_err(|e| unseen(path, &e))
}

/// Whether the directory at `path` has no entries.
///
/// # Errors
/// `Io`.
pub(crate) fn is_empty_directory(path: &Path) -> Result<bool> {
    let first = std::fs::read_dir(path).and_then(|mut entries| entries.next().transpose());
    first.map(|first| first.is_none()).map_err(|e| Error::io("listing the directory", &e).at(path))
}

fn unseen(path: &Path, e: &io::Error) -> Error {
    Error::io("looking for the path", e).at(path)
}

/// Tells the table in the directory at `path` from others of its file system: another one for a copy of it, and after its rows
/// were sorted. `None` where that can't be told, or where there is nothing.
///
/// # Errors
/// `Io`.
pub fn table_identity(path: impl AsRef<Path>) -> Result<Option<String>> {
    Ok(FileId::find(path.as_ref())?.and_then(|found| found.persistent_id()))
}

/// The time of the last change of a directory's names, noted before the directory is listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryMtime {
    changed: SystemTime,
    /// Whether the next change may leave the same time.
    is_recent: bool,
}

/// More than the granularity of file times: at most 10 ms on current systems.
const STEP_OF_CLOCK: Duration = Duration::from_millis(100);

impl DirectoryMtime {
    /// # Errors
    /// Those of querying the directory's times.
    pub fn read(directory: &Path) -> io::Result<DirectoryMtime> {
        let now = SystemTime::now();
        let changed = std::fs::metadata(directory)?.modified()?;
        // A time in the future may also be that of the next change.
        let is_recent = now.duration_since(changed).map_or(true, |age| age <= STEP_OF_CLOCK);
        Ok(DirectoryMtime { changed, is_recent })
    }

    /// Whether entries may have been added or removed since.
    pub fn may_have_changed(&self, directory: &Path) -> bool {
        self.is_recent || DirectoryMtime::read(directory).map_or(true, |now| now.changed != self.changed)
    }
}
