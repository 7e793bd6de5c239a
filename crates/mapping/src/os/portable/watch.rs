//! Waits for names, by listing directories again and again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::read_dir;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::os::{FileInfo, file_identity, modified_time};
use crate::sync::MutexExt;

/// The time between two looks at the directories.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a directory is, and what it has. A name that is removed and added again changes the time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listing {
    identity: (u64, u64),
    modified: (i64, i64),
    names: BTreeSet<OsString>,
}

impl Listing {
    fn read(directory: &Path) -> io::Result<Listing> {
        // Before the names, so that a change in between is found by the next look.
        let metadata = FileInfo::from_path(directory)?;
        let names = read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        Ok(Listing { identity: file_identity(&metadata), modified: modified_time(&metadata), names })
    }
}

/// Waits for names to be added to or removed from directories.
#[derive(Debug, Default)]
pub struct PollingNameWatcher {
    listings: Mutex<Vec<(PathBuf, Listing)>>,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

impl PollingNameWatcher {
    /// Creates a watcher of no directory.
    pub fn new() -> io::Result<PollingNameWatcher> {
        note!("PollingNameWatcher::new");
        Ok(PollingNameWatcher::default())
    }

    /// Watches `directory`, too.
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        note!("PollingNameWatcher::add");
        let listing = Listing::read(directory)?;
        self.listings.lock_ignoring_poison().push((directory.to_path_buf(), listing));
        Ok(())
    }

    /// Returns true when names were added or removed, and false after [`PollingNameWatcher::end`].
    pub fn wait(&self) -> bool {
        note!("PollingNameWatcher::wait");
        let listings = self.listings.lock_ignoring_poison().clone();
        loop {
            let has_ended = self.has_ended.lock_ignoring_poison();
            let waited = self.ended.wait_timeout_while(has_ended, POLL_INTERVAL, |has_ended| !*has_ended);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return false;
            }
            // A directory that can't be listed any more has changed.
            if listings.iter().any(|(path, before)| !Listing::read(path).is_ok_and(|current| current == *before)) {
                return true;
            }
        }
    }

    /// Ends the wait.
    pub fn end(&self) {
        note!("PollingNameWatcher::end");
        *self.has_ended.lock_ignoring_poison() = true;
        self.ended.notify_all();
    }
}

#[cfg(all(test, arrowwood_portable))]
mod tests {
    use super::*;

    #[test]
    fn an_ended_wait_reports_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let watcher = PollingNameWatcher::new().unwrap();
        watcher.add(folder.path()).unwrap();
        watcher.end();
        assert!(!watcher.wait());
    }
}
