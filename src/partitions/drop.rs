//! Removes partitions.

use std::fs;
use std::path::Path;

use super::directory_names::partition_path;
use crate::array::Value;
use crate::directory::is_directory;
use crate::error::{Error, ErrorKind, Result};
use crate::table::remove_table;

/// Removes the partition of `table` with these values, and its files; false if there is none. Readers that have opened it
/// keep its rows until they refresh.
///
/// # Errors
/// `NotFound` if there is no directory `table`; `Busy` if the partition is being written, naming the process;
/// `InvalidArgument` as for [`partition_path`], or if not all columns are named; `Io`.
pub fn drop_partition(table: impl AsRef<Path>, partition: &[(&str, Value<'_>)]) -> Result<bool> {
    let root = table.as_ref();
    let path = partition_path(root, partition)?;
    if !is_directory(root)? {
        return Err(Error::new(ErrorKind::NotFound, "there is no directory of partitions").at(root));
    }
    if !is_directory(&path)? {
        return Ok(false);
    }
    remove_table(&path).map_err(|e| e.at(&path))?;
    // Directories of the earlier columns, if this was their last partition.
    let above = path.ancestors().skip(1).take(partition.len() - 1);
    let emptied = above.take_while(|directory| fs::remove_dir(directory).is_ok()).count();
    debug_assert!(emptied < partition.len());
    Ok(true)
}
