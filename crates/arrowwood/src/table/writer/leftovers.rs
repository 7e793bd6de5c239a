//! Brings the commits that a table's last writer has left to the disk.

use std::path::Path;

use super::options::{SyncPolicy, WriterOptions};
use super::writer::Writer;
use crate::directory::exists;
use crate::error::{ErrorKind, Result};
use crate::table::reader::{is_durable, is_locked, is_table_directory};

/// Brings all commits to the table in `folder` to the disk, which a writer may have left before that was done. Returns
/// false if the table has a writer, which does it itself. Does nothing if there is no table.
///
/// # Errors
/// As [`Writer::open`] and [`Writer::close`].
pub(crate) fn sync_leftovers(folder: &Path, options: &WriterOptions) -> Result<bool> {
    let synced = sync_unlocked(folder, options);
    match synced.as_ref().map_err(|e| e.kind()) {
        Err(ErrorKind::Busy) => Ok(false),
        // It was dropped, or is about to be made.
        Err(ErrorKind::NotFound) if !exists(folder)? || !is_table_directory(folder)? => Ok(true),
        _ => synced,
    }
}

fn sync_unlocked(folder: &Path, options: &WriterOptions) -> Result<bool> {
    if is_locked(folder)? {
        return Ok(false);
    }
    if !is_durable(folder)? {
        let options = WriterOptions { sync: SyncPolicy::Never, ..options.for_same_disk() };
        Writer::open(folder, None, &options)?.close()?;
    }
    Ok(true)
}
