//! What tells the content of files from another one: a dataset that was opened elsewhere finds out that they were replaced.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::dataset::Dataset;
use crate::directory::metadata_at;
use crate::error::{Error, ErrorKind, Result};

impl Dataset {
    /// The version of each file and table that the rows lie in, as they were opened: of a file its size and modification time, of
    /// a table its directory. Rows in memory, and tables on file systems without creation times, have none.
    pub fn versions(&self) -> Vec<(PathBuf, String)> {
        let mut versions = BTreeMap::new();
        for piece in self.pieces() {
            let facts = piece.source.facts();
            if let (Some(path), Some(version)) = (facts.absolute_path, facts.files.and_then(|files| files.version())) {
                versions.insert(path.to_path_buf(), version);
            }
        }
        versions.into_iter().collect()
    }

    /// Checks that the files and tables have the versions `before`, of [`versions`](Dataset::versions). A stream may have grown.
    ///
    /// # Errors
    /// `FileChanged`, naming the first that has another one.
    pub fn check_versions(&self, before: &[(PathBuf, String)]) -> Result<()> {
        let now: BTreeMap<PathBuf, String> = self.versions().into_iter().collect();
        for (path, before) in before {
            let Some(now) = now.get(path) else { continue };
            if !is_later(now, before) && !is_copy(path, now, before)? {
                return Err(changed(path, before, now));
            }
        }
        Ok(())
    }
}

/// The version of a stream of `size` bytes, to which others may be added.
pub(crate) fn stream_version(size: u64) -> String {
    format!("{STREAM}{size}")
}

const STREAM: &str = "stream of ";

/// Whether version `now` has all rows of version `before`.
fn is_later(now: &str, before: &str) -> bool {
    let size = |version: &str| version.strip_prefix(STREAM)?.parse::<u64>().ok();
    now == before || size(now).zip(size(before)).is_some_and(|(now, before)| now >= before)
}

/// Whether version `now`, of the file at `path`, is that of a copy of version `before` that has kept its modification time. A file
/// that was written within the same tick of the clock may have that time, too; but a copy gets it later.
///
/// # Errors
/// Those of looking at the file.
fn is_copy(path: &Path, now: &str, before: &str) -> Result<bool> {
    let content = |version: &str| version.split_once(", inode ").map(|(content, _)| content.to_string());
    if content(now).is_none() || content(now) != content(before) {
        return Ok(false);
    }
    Ok(metadata_at(path)?.is_some_and(|found| found.ctime() > found.mtime() + SECONDS_OF_TICKS))
}

/// More than the granularity of file times, in seconds.
const SECONDS_OF_TICKS: i64 = 2;

fn changed(path: &Path, before: &str, now: &str) -> Error {
    let message = format!(
        "its rows were named when it was another version, {before}, and it is {now}: it was replaced or overwritten; open it anew"
    );
    Error::new(ErrorKind::FileChanged, message).at(path)
}
