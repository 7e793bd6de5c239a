//! The identity of a file or a directory, and the last change of a directory's entries.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

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
    pub fn at(path: &Path) -> io::Result<FileId> {
        let found = std::fs::metadata(path)?;
        Ok(FileId { device: found.dev(), inode: found.ino(), made: found.created().ok() })
    }

    /// Returns the file or directory at `path`; `None` if there is none.
    pub fn of(path: &Path) -> Option<FileId> {
        FileId::at(path).ok()
    }
}

/// The time of the last change of a directory's names, noted before the directory is listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamesTime {
    changed: SystemTime,
    /// Whether the next change may leave the same time.
    is_recent: bool,
}

/// More than the granularity of file times: at most 10 ms on current systems.
const STEP_OF_CLOCK: Duration = Duration::from_millis(100);

impl NamesTime {
    /// # Errors
    /// Those of querying the directory's times.
    pub fn of(directory: &Path) -> io::Result<NamesTime> {
        let now = SystemTime::now();
        let changed = std::fs::metadata(directory)?.modified()?;
        // A time in the future may also be that of the next change.
        let is_recent = now.duration_since(changed).map_or(true, |age| age <= STEP_OF_CLOCK);
        Ok(NamesTime { changed, is_recent })
    }

    /// Whether entries may have been added or removed since.
    pub fn may_have_changed(&self, directory: &Path) -> bool {
        self.is_recent || NamesTime::of(directory).map_or(true, |now| now.changed != self.changed)
    }
}
