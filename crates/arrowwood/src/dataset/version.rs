//! Versions of files: a dataset that is opened again elsewhere detects that its files were replaced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::dataset::Dataset;
use crate::directory::metadata_at;
use crate::error::{Error, ErrorKind, Result};
use crate::map::os::{changed_time, modified_time};

/// # Versions of the files
impl Dataset {
    /// Returns the version of each file and table that the rows lie in, as they were opened.
    ///
    /// It is a file's size and modification time, or a table's directory. Rows in memory, and tables on file systems
    /// without creation times, have none.
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

    /// Checks that the files and tables have the versions `before`, which [`versions`](Dataset::versions) returned.
    ///
    /// A stream may have grown.
    ///
    /// # Errors
    /// `FileChanged`, naming the first file or table that has another version.
    pub fn check_versions(&self, before: &[(PathBuf, String)]) -> Result<()> {
        let current: BTreeMap<PathBuf, String> = self.versions().into_iter().collect();
        for (path, before) in before {
            let Some(current) = current.get(path) else { continue };
            if !has_all_rows_of(current, before) && !is_copy(path, current, before)? {
                return Err(changed(path, before, current));
            }
        }
        Ok(())
    }
}

/// Returns the version of a stream of `size` bytes, to which more may be appended.
pub(crate) fn stream_version(size: u64) -> String {
    format!("{STREAM}{size}")
}

/// The version of a stream begins with this, followed by its size.
const STREAM: &str = "stream of ";

/// Returns the number of bytes of a stream's version; `None` for other versions.
fn stream_size(version: &str) -> Option<u64> {
    version.strip_prefix(STREAM)?.parse().ok()
}

/// Returns true if version `current` has all rows of version `before`.
fn has_all_rows_of(current: &str, before: &str) -> bool {
    match (stream_size(current), stream_size(before)) {
        (Some(current), Some(before)) => current >= before,
        _ => current == before,
    }
}

/// Returns true if the file at `path`, with the version `current`, is a copy of version `before` with the same
/// modification time.
///
/// Another file that was written within the same tick of the clock may have the same time, too. A copy gets the time of
/// the original after it was written, so that its metadata changed later than its content.
///
/// # Errors
/// `Io` if the file's metadata can't be read.
fn is_copy(path: &Path, current: &str, before: &str) -> Result<bool> {
    let (Some((current, _)), Some((before, _))) = (current.split_once(INODE), before.split_once(INODE)) else {
        return Ok(false);
    };
    if current != before {
        return Ok(false);
    }
    Ok(metadata_at(path)?.is_some_and(|file| changed_time(&file).0 > modified_time(&file).0 + SECONDS_OF_TICKS))
}

/// Separates the size and modification time of a file from its inode.
const INODE: &str = ", inode ";

/// More than the granularity of file times, in seconds.
const SECONDS_OF_TICKS: i64 = 2;

fn changed(path: &Path, before: &str, current: &str) -> Error {
    let message = format!(
        "its rows were named when it was another version, {before}, and it is {current}: it was replaced or \
         overwritten; open it anew"
    );
    Error::new(ErrorKind::FileChanged, message).at(path)
}
