//! When the names in a directory last changed, as evidence that they are the same.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

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
