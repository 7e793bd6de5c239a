//! Syncs rows that earlier writers have committed to partitions without a sync.
//!
//! A producer that restarts continues after the rows that it finds, and confirms them to its source together with its
//! own. So the first durable commit covers these rows in all partitions, also in those that it doesn't write. The
//! search takes 50 to 90 µs for each partition; later commits look only at partitions that had a writer then.

use std::path::{Path, PathBuf};

use super::listing::partition_directories;
use crate::directory::is_directory;
use crate::error::Result;
use crate::parallel;
use crate::table::{WriterOptions, is_durable, sync_leftovers};

/// The partitions that earlier writers may have left without a sync.
#[derive(Debug, Default)]
pub(super) struct UnsyncedPartitions {
    /// The directories of these partitions; `None` until they were searched for.
    directories: Option<Vec<PathBuf>>,
}

impl UnsyncedPartitions {
    /// Syncs the rows that were committed to the partitions of `root` before the first call. Partitions that have a
    /// writer are left to the next call.
    ///
    /// # Errors
    /// The first error of a partition, after all others were synced.
    pub fn sync(&mut self, root: &Path, options: &WriterOptions) -> Result<()> {
        let directories = match self.directories.take() {
            Some(directories) => directories,
            None => find_unsynced(root)?,
        };
        let mut unsynced = Vec::new();
        let mut result = Ok(());
        for directory in directories {
            match sync_leftovers(&directory, options) {
                Ok(true) => (),
                Ok(false) => unsynced.push(directory),
                Err(e) => {
                    let what = "bringing to the disk what another writer has left in this partition";
                    result = result.and(Err(e.at(&directory).context(what)));
                    unsynced.push(directory);
                }
            }
        }
        self.directories = Some(unsynced);
        result
    }
}

/// The number of bytes whose copying takes as long as checking a partition.
const CHECKING_WORK: usize = 64 << 10;

/// Returns the partitions of `root` with commits that would not survive a power cut.
fn find_unsynced(root: &Path) -> Result<Vec<PathBuf>> {
    let mut directories = if is_directory(root)? { partition_directories(root)? } else { Vec::new() };
    let are_durable = parallel::map(directories.len(), directories.len() * CHECKING_WORK, |number| {
        // A partition that can't be read is synced later, which reports the error.
        is_durable(&directories[number]).unwrap_or(false)
    });
    assert_eq!(are_durable.len(), directories.len(), "a result for each partition");
    let mut are_durable = are_durable.into_iter();
    directories.retain(|_| are_durable.next() == Some(false));
    Ok(directories)
}
