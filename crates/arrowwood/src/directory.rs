//! Metadata of paths: existence and types, the identity of a file or a directory, and the last change of a directory's
//! entries.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};
use crate::map::os::{self, FileInfo};
pub(crate) use crate::map::{exists, is_directory, metadata_at};

/// The identity of a file or a directory, independent of its name. The inode of a removed file may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    /// The creation time, on file systems that have it.
    created: Option<SystemTime>,
}

impl FileId {
    /// Identifies the file or directory at `path`.
    ///
    /// # Errors
    /// Errors of the system, such as `NotFound`.
    pub fn from_path(path: &Path) -> io::Result<FileId> {
        FileInfo::from_path(path).map(|metadata| FileId::new(&metadata))
    }

    /// Returns a text that no other file of the file system has, now or later. `None` if files have no creation times,
    /// as a file created later may have the same inode then.
    pub fn persistent_id(&self) -> Option<String> {
        let created = self.created?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(format!("{}-{}", self.inode, created.as_nanos()))
    }

    /// Identifies the file or directory at `path`; returns `None` if there is none.
    ///
    /// # Errors
    /// `Io`.
    pub fn find(path: &Path) -> Result<Option<FileId>> {
        Ok(metadata_at(path)?.map(|metadata| FileId::new(&metadata)))
    }

    fn new(metadata: &FileInfo) -> FileId {
        let (device, inode) = os::file_identity(metadata);
        FileId { device, inode, created: metadata.created() }
    }
}

/// Returns true if the directory at `path` has no entries.
///
/// # Errors
/// `Io`.
pub(crate) fn is_empty_directory(path: &Path) -> Result<bool> {
    let first = std::fs::read_dir(path).and_then(|mut entries| entries.next().transpose());
    first.map(|first| first.is_none()).map_err(|e| Error::io("listing the directory", &e).at(path))
}

/// Returns a text that distinguishes the table in the directory at `path` from others of its file system.
///
/// It differs for a copy of the table, and changes when its rows are sorted. `None` if the file system has no creation
/// times, or if there is no directory.
///
/// # Errors
/// `Io`.
pub fn table_identity(path: impl AsRef<Path>) -> Result<Option<String>> {
    Ok(FileId::find(path.as_ref())?.and_then(|id| id.persistent_id()))
}

/// The time of the last change of a directory's entries, read before the directory is listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryMtime {
    mtime: SystemTime,
    /// True if the next change may leave the same time.
    is_recent: bool,
}

/// More than the granularity of file times: at most 10 ms on current systems.
const CLOCK_GRANULARITY: Duration = Duration::from_millis(100);

impl DirectoryMtime {
    /// Reads the time of the last change of `directory`.
    ///
    /// # Errors
    /// Errors of querying the directory's times.
    pub fn read(directory: &Path) -> io::Result<DirectoryMtime> {
        let now = SystemTime::now();
        let mtime = std::fs::metadata(directory)?.modified()?;
        // If the time is in the future, the next change may have the same time.
        let is_recent = now.duration_since(mtime).map_or(true, |age| age <= CLOCK_GRANULARITY);
        Ok(DirectoryMtime { mtime, is_recent })
    }

    /// Returns true if entries may have been added or removed since.
    pub fn may_have_changed(&self, directory: &Path) -> bool {
        self.is_recent || DirectoryMtime::read(directory).map_or(true, |current| current.mtime != self.mtime)
    }
}
