//! Removes a whole table.

use std::fs;
use std::path::Path;

use super::open::acquire_lock;
use crate::error::{Error, ErrorKind, Result};
use crate::map::FileSystem;

/// Removes a directory of files, such as a table without a writer: readers find it whole or not at all, and keep the
/// segments they have mapped.
///
/// # Errors
/// `Busy` while it is written, naming the process; `InvalidArgument` if it holds directories; `Io`.
pub(crate) fn remove_table(directory: &Path) -> Result<()> {
    let medium = FileSystem::default();
    let lock = acquire_lock(&medium, directory)?;
    for entry in fs::read_dir(directory).map_err(removing_failed)? {
        let entry = entry.map_err(removing_failed)?;
        if entry.file_type().map_err(removing_failed)?.is_dir() {
            let message = format!("the directory holds another one, {:?}; expected files alone", entry.file_name());
            return Err(Error::invalid_argument(message));
        }
    }
    let parent = directory.parent().unwrap_or(Path::new("."));
    // The next writer of a table in the same directory removes it if this process is killed.
    let hidden = parent.join(lock.removal_name().map_err(removing_failed)?);
    lock.medium().check_directory().map_err(removing_failed)?;
    medium.rename(directory, &hidden).map_err(removing_failed)?;
    if !lock.is_at(&hidden).map_err(removing_failed)? {
        // It was renamed at this moment, and another one had got its name.
        let name = hidden.display();
        let doing = format!("giving another directory its name back, which is {name} now and stays there; rename it");
        medium.rename_noreplace(&hidden, directory).map_err(|e| Error::io(&doing, &e))?;
        return Err(Error::new(
            ErrorKind::FileChanged,
            "the directory was replaced while it was to be removed; try again",
        ));
    }
    medium.sync_dir(parent).map_err(removing_failed)?;
    fs::remove_dir_all(&hidden).map_err(removing_failed)
}

fn removing_failed(e: std::io::Error) -> Error {
    Error::io("removing the directory", &e)
}
