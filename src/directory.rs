//! Whether a file or a directory is the one that it was, and when the names in a directory last changed.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file or a directory, whatever its name. Another one that comes later may have the inode of one that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    /// Where file systems know it.
    made: Option<SystemTime>,
}

impl FileId {
    /// What is at `path`.
    ///
    /// # Errors
    /// Those of the system, such as `NotFound`.
    pub fn at(path: &Path) -> io::Result<FileId> {
        let found = std::fs::metadata(path)?;
        Ok(FileId { device: found.dev(), inode: found.ino(), made: found.created().ok() })
    }

    /// What is at `path`; `None` where there is nothing.
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

/// More than a step of the clock that files get their times from: 10 ms at most, on systems in use.
const STEP_OF_CLOCK: Duration = Duration::from_millis(100);

impl NamesTime {
    /// # Errors
    /// Those of asking for the directory's times.
    pub fn of(directory: &Path) -> io::Result<NamesTime> {
        let now = SystemTime::now();
        let changed = std::fs::metadata(directory)?.modified()?;
        // A time in the future may be that of the next change, too.
        let is_recent = now.duration_since(changed).map_or(true, |age| age <= STEP_OF_CLOCK);
        Ok(NamesTime { changed, is_recent })
    }

    /// Whether names may have come or gone since.
    pub fn may_have_changed(&self, directory: &Path) -> bool {
        self.is_recent || NamesTime::of(directory).map_or(true, |now| now.changed != self.changed)
    }
}
