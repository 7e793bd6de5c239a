//! Rows that earlier writers have committed to partitions and not brought to the disk.

use std::path::{Path, PathBuf};

use super::listing::partition_directories;
use crate::directory::is_directory;
use crate::error::Result;
use crate::parallel;
use crate::table::{WriterOptions, is_durable, sync_leftovers};

/// The partitions that earlier writers may have left without a sync.
#[derive(Debug, Default)]
pub(super) struct UnsyncedPartitions {
    /// Their directories, once they were looked for.
    directories: Option<Vec<PathBuf>>,
}

impl UnsyncedPartitions {
    /// Brings to the disk what was committed to the partitions of `root` before the first call, but for those with a writer:
    /// they are looked at again by the next call.
    ///
    /// # Errors
    /// The first one of a partition, after all others were brought to the disk.
    pub fn sync(&mut self, root: &Path, options: &WriterOptions) -> Result<()> {
        let directories = match self.directories.take() {
            Some(directories) => directories,
            None => not_on_disk(root)?,
        };
        let mut left = Vec::new();
        let mut all = Ok(());
        for directory in directories {
            let synced = sync_leftovers(&directory, options);
            if !matches!(synced, Ok(true)) {
                left.push(directory.clone());
            }
            let what = "bringing to the disk what another writer has left in this partition";
            all = all.and(synced.map(drop).map_err(|e| e.at(&directory).context(what)));
        }
        self.directories = Some(left);
        all
    }
}

/// The partitions of `root` with commits that a power cut would take.
fn not_on_disk(root: &Path) -> Result<Vec<PathBuf>> {
    /// Equivalent to copying this many bytes.
    const WORK: usize = 64 << 10;
    let directories = if is_directory(root)? { partition_directories(root)? } else { Vec::new() };
    let looked = parallel::map(directories.len(), directories.len() * WORK, |number| {
        // What can't be read is looked at again, which tells the reason.
        is_durable(&directories[number]).unwrap_or(false)
    });
    let left = directories.into_iter().zip(looked).filter(|(_, is_on_disk)| !is_on_disk);
    Ok(left.map(|(directory, _)| directory).collect())
}
