//! Removes partitions.

use std::fs;
use std::path::Path;

use super::directory_names::keys_of;
use super::place::{find_partitions, root_of};
use crate::array::Value;
use crate::directory::is_directory;
use crate::error::{Error, ErrorKind, Result};
use crate::table::remove_table;

/// Removes the partition of `table` with these values, and its files; returns false if there is none.
///
/// Readers that have opened it keep its rows until they refresh. If its values are encoded in several ways, there are
/// several directories; those before one that can't be removed are gone.
///
/// # Errors
/// `NotFound` if there is no directory `table`; `Busy` if the partition is being written, naming the process;
/// `InvalidArgument` as for [`partition_path`](crate::partition_path), or if not all columns are named; `Io`.
pub fn drop_partition(table: impl AsRef<Path>, partition: &[(&str, Value<'_>)]) -> Result<bool> {
    let root = root_of(table.as_ref());
    let keys = keys_of(partition)?;
    if !is_directory(root)? {
        return Err(Error::new(ErrorKind::NotFound, "there is no directory of partitions").at(root));
    }
    let directories = find_partitions(root, &keys)?;
    for path in &directories {
        remove_table(path).map_err(|e| e.at(path))?;
        // Remove the directories of the earlier columns that are empty now. The first one that is not can't be removed.
        for parent in path.ancestors().skip(1).take(keys.len() - 1) {
            debug_assert!(parent.starts_with(root) && parent != root, "{} is not below the table", parent.display());
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
    }
    Ok(!directories.is_empty())
}
