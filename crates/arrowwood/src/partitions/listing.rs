//! Lists the directories of a partitioned dataset, and detects new ones.

use std::path::{Path, PathBuf};

use super::directory_names::{PartitionKey, is_foreign, parse};
use crate::directory::{DirectoryMtime, exists, is_directory};
use crate::error::{Error, ErrorKind, Result};

/// A directory of partitions, with the time of its last change before it was listed.
#[derive(Clone, Debug)]
pub(super) struct DirectoryListing {
    path: PathBuf,
    mtime: DirectoryMtime,
}

/// A directory named `key=value`.
#[derive(Clone, Debug)]
pub(super) struct PartitionDirectory {
    pub path: PathBuf,
    pub key: PartitionKey,
}

impl PartitionDirectory {
    /// Returns the name of the partition column.
    fn column(&self) -> &str {
        let (column, _) = &self.key;
        column
    }

    /// Returns the keys of this directory, if `keys` are the keys of its parent.
    ///
    /// # Errors
    /// `SchemaMismatch` if a level above has the same column. Without this check, a link to a directory above would be
    /// followed without end.
    pub fn keys_below(&self, keys: &[PartitionKey]) -> Result<Vec<PartitionKey>> {
        let column = self.column();
        if keys.iter().any(|(other, _)| other == column) {
            let message = format!(
                "the partition column '{column}' is at two levels of directories; rename one, or remove the link if \
                 this is one to a directory above"
            );
            return Err(Error::new(ErrorKind::SchemaMismatch, message).at(&self.path));
        }
        Ok(keys.iter().chain([&self.key]).cloned().collect())
    }
}

impl DirectoryListing {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the time of the last change of `directory`. Must be called before the directory is listed.
    pub fn read(directory: &Path) -> Result<DirectoryListing> {
        let mtime = DirectoryMtime::read(directory).map_err(|e| unreadable(directory, &e))?;
        Ok(DirectoryListing { path: directory.to_path_buf(), mtime })
    }

    /// Returns true if directories may have been added or removed since.
    pub fn may_have_changed(&self) -> bool {
        self.mtime.may_have_changed(&self.path)
    }
}

pub(super) fn unreadable(directory: &Path, e: &std::io::Error) -> Error {
    Error::io("reading the directory", e).at(directory)
}

/// Lists the partitions in `directory`, in no order.
///
/// # Errors
/// `InvalidData` if it contains Arrow files or other directories as well; `Io` if the directory can't be read.
pub(super) fn list(directory: &Path) -> Result<(DirectoryListing, Vec<PartitionDirectory>)> {
    let listing = DirectoryListing::read(directory)?;
    let mut children = Vec::new();
    let mut foreign = None;
    for entry in std::fs::read_dir(directory).map_err(|e| unreadable(directory, &e))? {
        let entry = entry.map_err(|e| unreadable(directory, &e))?;
        let name = entry.file_name();
        let path = entry.path();
        if is_foreign(&name) {
            continue;
        }
        let kind = entry.file_type().map_err(|e| unreadable(directory, &e))?;
        let is_directory = kind.is_dir() || kind.is_symlink() && is_directory(&path)?;
        match parse(&name).map_err(|e| e.at(directory))?.filter(|_| is_directory) {
            Some(key) => children.push(PartitionDirectory { path, key }),
            None if is_directory || name.as_encoded_bytes().ends_with(b".arrow") => foreign = Some(name),
            None => (),
        }
    }

    let Some(first) = children.first() else { return Ok((listing, children)) };
    if let Some(other) = foreign {
        return Err(mixed(&first.path, &other.to_string_lossy()).at(directory));
    }
    let (first_column, _) = &first.key;
    if let Some(other_column) = children.iter().map(PartitionDirectory::column).find(|&column| column != first_column) {
        let message = format!(
            "partitions of two columns stand side by side, '{first_column}' and '{other_column}'; expected one column \
             per level"
        );
        return Err(Error::new(ErrorKind::SchemaMismatch, message).at(directory));
    }

    Ok((listing, children))
}

/// Lists the directories of all partitions below `root` in the order of their names.
pub(crate) fn partition_directories(root: &Path) -> Result<Vec<PathBuf>> {
    directories_below(root, &[])
}

fn directories_below(directory: &Path, keys: &[PartitionKey]) -> Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    let (_, mut children) = list(directory)?;
    children.sort_by(|a, b| a.path.cmp(&b.path));
    for child in children {
        match directories_below(&child.path, &child.keys_below(keys)?) {
            // The directory was dropped since it was listed.
            Err(e) if e.kind() == ErrorKind::NotFound && !exists(&child.path)? => (),
            Err(e) => return Err(e),
            Ok(below) if below.is_empty() => directories.push(child.path),
            Ok(below) => directories.extend(below),
        }
    }
    Ok(directories)
}

/// Returns the error for a directory that contains more than partitions.
fn mixed(partition: &Path, other: &str) -> Error {
    let name = partition.file_name().unwrap_or(partition.as_os_str()).to_string_lossy();
    Error::invalid(format!(
        "the directory holds partitions ('{name}') and '{other}', so whether its rows belong to a partition is \
         unknown; move one of them"
    ))
}
