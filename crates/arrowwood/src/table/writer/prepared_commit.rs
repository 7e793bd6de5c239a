//! A commit across the end of a segment is prepared before other Arrow readers see any of it: its segments wait for
//! their names, and the record that seals the previous one is written. The next writer finishes the commit of a killed
//! one, so that rows seen by other Arrow readers are never taken back. After a power cut it can't know which of these
//! files and records had reached the disk: then the durable records decide.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::live::LiveSegment;
use crate::error::{Error, Result};
use crate::map::{FileSystem, boot_id};
use crate::rows::Plan;
use crate::table::format::Record;
use crate::table::reader::{Segment, SegmentChain, chain, open_newest, without_settings};

/// Opens the chain of segments, as [`SegmentChain::open`], after finishing the prepared commit of a killed writer, or
/// removing its remains. Only for the holder of the table's lock.
pub(super) fn open(medium: &FileSystem, folder: &Path) -> Result<Option<SegmentChain>> {
    let prepared = chain::prepared(folder)?;
    let chain = map_home_error(medium, SegmentChain::open(folder))?;
    check_home(medium)?;
    if let Some(chain) = &chain
        && let Some((segment, newest)) = &chain.last
        && let Some(next) = segment.prepared(newest)?
    {
        let end = segment.header.first_row + next.rows();
        if are_all_there(folder, end, &prepared, &chain.orphans)? {
            go_forward(medium, folder, &prepared, (segment, newest, &next)).map_err(|e| e.at(folder))?;
            return SegmentChain::open(folder);
        }
    }
    for (_, path) in &prepared {
        medium.remove(path).map_err(|e| Error::io("removing a segment of a commit that was not made", &e))?;
    }
    Ok(chain)
}

/// Finishes the prepared commit of a killed writer in a table that may be damaged, or removes its remains; returns
/// whether there were any. Leaves them to the next writer where damage hides what there is to be done.
pub(in crate::table) fn finish_commit(medium: &FileSystem, folder: &Path) -> Result<bool> {
    if chain::prepared(folder)?.is_empty() && !has_orphans(folder)? {
        return Ok(false);
    }
    match open(medium, folder) {
        Err(e) if !e.is_corruption() => Err(e),
        _ => Ok(true),
    }
}

fn has_orphans(folder: &Path) -> Result<bool> {
    match SegmentChain::open(folder) {
        Ok(Some(chain)) => Ok(!chain.orphans.is_empty()),
        Ok(None) => Ok(false),
        Err(e) if e.is_corruption() => Ok(false),
        Err(e) => Err(e),
    }
}

/// Checks that what was read by its path is in the locked directory.
pub(super) fn check_home(medium: &FileSystem) -> Result<()> {
    medium.check_directory().map_err(|e| Error::io("reading the table to be written", &e))
}

/// Returns the result of work on files found by their paths. If the locked directory was renamed meanwhile, an error
/// may be about a mixture of two tables, and the renaming is the reason.
pub(super) fn map_home_error<T>(medium: &FileSystem, result: Result<T>) -> Result<T> {
    result.or_else(|e| check_home(medium).and(Err(e)))
}

/// Returns true if all segments of the commit exist, from the one that begins with row `start` to the first unsealed
/// one.
fn are_all_there(folder: &Path, mut start: u64, prepared: &[(u64, PathBuf)], named: &[u64]) -> Result<bool> {
    loop {
        let path = match prepared.iter().find(|&&(row, _)| row == start) {
            Some((_, path)) => path.clone(),
            None if named.contains(&start) => chain::path(folder, start),
            None => return Ok(false),
        };
        match open_newest(&path)? {
            // Its rows may be gone though the machine was not booted again.
            Some((_, record)) if record.boot != boot_id() => return Ok(false),
            Some((segment, record)) if segment.header.first_row == start && record.sealed && record.rows() > 0 => {
                start += record.rows();
            }
            Some((segment, _)) => return Ok(segment.header.first_row == start),
            None => return Ok(false),
        }
    }
}

/// Performs the remaining steps of the killed writer, in its order.
fn go_forward(
    medium: &FileSystem,
    folder: &Path,
    prepared: &[(u64, PathBuf)],
    (segment, newest, next): (&Segment, &Record, &Record),
) -> Result<()> {
    let plan = Arc::new(Plan::for_schema(&without_settings(&segment.plan.schema.schema))?);
    let shared = LiveSegment::open(medium, &plan, segment, newest)?.shared;
    shared.publish_ahead(&next.counters, next.sequence)?;
    for (row, path) in prepared {
        let named = medium.rename_noreplace(path, &chain::path(folder, *row));
        named.map_err(|e| Error::io("naming a segment of a prepared commit", &e))?;
    }
    let number = segment.header.page().sequence();
    shared.store.publish64(number, next.sequence);
    shared.store.wake(number);
    Ok(())
}
