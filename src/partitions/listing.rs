//! The directories of a partitioned dataset: listing them, and detecting new ones.

use std::fs;
use std::path::{Path, PathBuf};

use super::directory_names::{PartitionKey, parse};
use crate::directory::{DirectoryMtime, exists, is_directory};
use crate::error::{Error, ErrorKind, Result};

/// A directory of partitions, at the moment it was listed.
#[derive(Clone, Debug)]
pub(super) struct DirectoryListing {
    path: PathBuf,
    names: DirectoryMtime,
}

/// A directory named `key=value`.
#[derive(Clone, Debug)]
pub(super) struct PartitionDirectory {
    pub path: PathBuf,
    pub key: PartitionKey,
}

impl PartitionDirectory {
    /// The keys of this directory, in one with `keys`.
    ///
    /// # Errors
    /// `SchemaMismatch` if its column is that of a level above. So a link to a directory above ends the search, which
    /// would find the same columns for ever.
    pub fn keys_below(&self, keys: &[PartitionKey]) -> Result<Vec<PartitionKey>> {
        let (column, _) = &self.key;
        if keys.iter().any(|(known, _)| known == column) {
            let message = format!(
                "the partition column '{column}' is at two levels of directories; rename one, or remove the link if this is \
                 one to a directory above"
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

    /// Notes the names in `directory`, before they are listed.
    pub fn read(directory: &Path) -> Result<DirectoryListing> {
        let names =
            DirectoryMtime::read(directory).map_err(|e| Error::io("reading the directory", &e).at(directory))?;
        Ok(DirectoryListing { path: directory.to_path_buf(), names })
    }

    /// Whether directories may have been added or removed since.
    pub fn may_have_changed(&self) -> bool {
        self.names.may_have_changed(&self.path)
    }
}

/// The partitions in `directory`, in no order.
///
/// # Errors
/// `InvalidData` if there are Arrow files or other directories beside them; those of reading the directory.
pub(super) fn list(directory: &Path) -> Result<(DirectoryListing, Vec<PartitionDirectory>)> {
    let failed = |e: std::io::Error| Error::io("reading the directory", &e).at(directory);
    let listed = DirectoryListing::read(directory)?;
    let mut children = Vec::new();
    let mut foreign = None;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let path = entry.path();
        // Names with these prefixes belong to programs: `_temporary`, `.snapshots`.
        if name.as_encoded_bytes().starts_with(b"_") || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type().map_err(failed)?;
        let is_directory = kind.is_dir() || kind.is_symlink() && is_directory(&path)?;
        match parse(&name).map_err(|e| e.at(directory))?.filter(|_| is_directory) {
            Some(key) => children.push(PartitionDirectory { path, key }),
            None if is_directory || name.as_encoded_bytes().ends_with(b".arrow") => foreign = Some(name),
            None => (),
        }
    }
    let Some(first) = children.first() else { return Ok((listed, children)) };
    if let Some(other) = foreign {
        return Err(mixed(&first.path, &other.to_string_lossy()).at(directory));
    }
    if let Some(other) = children.iter().find(|other| other.key.0 != first.key.0) {
        let message = format!(
            "partitions of two columns stand side by side, '{}' and '{}'; expected one column per level",
            first.key.0, other.key.0
        );
        return Err(Error::new(ErrorKind::SchemaMismatch, message).at(directory));
    }
    Ok((listed, children))
}

/// Lists the directories of all partitions below `root` in the order of their names; none if there are no partitions.
pub(crate) fn partition_directories(root: &Path) -> Result<Vec<PathBuf>> {
    directories_below(root, &[])
}

fn directories_below(directory: &Path, keys: &[PartitionKey]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let (_, mut children) = list(directory)?;
    children.sort_by(|a, b| a.path.cmp(&b.path));
    for child in children {
        match directories_below(&child.path, &child.keys_below(keys)?) {
            // It was dropped since it was listed.
            Err(e) if e.kind() == ErrorKind::NotFound && !exists(&child.path)? => (),
            Ok(inside) if inside.is_empty() => found.push(child.path),
            inside => found.extend(inside?),
        }
    }
    Ok(found)
}

/// The error for a directory with other entries beside partitions.
fn mixed(partition: &Path, other: &str) -> Error {
    let name = partition.file_name().unwrap_or_default().to_string_lossy();
    Error::invalid(format!(
        "the directory holds partitions ('{name}') and '{other}', so whether its rows belong to a partition is unknown; \
         move one of them"
    ))
}
