//! Rewrites segments as dense Arrow files, and drops segments.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::dense::{MERGED_BYTES, SealedSegments, put_dense, remove_merged, with_settings};
use super::live::{LiveSegment, SEALED, SyncTarget, make_durable};
use super::open::{acquire_lock, not_durable, refuse_file};
use super::prepared_commit;
use super::sort::sort_before;
use super::writer::Writer;
use crate::dataset::{Dataset, schema_difference};
use crate::directory::FileId;
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::map::{DirectoryLock, FileSystem, boot_id, guard, remove_leftovers};
use crate::rows::Plan;
use crate::table::format::TableSettings;
use crate::table::reader::{chain, converted_segment_dataset, open_segment, segment_dataset};

/// Optional work of [`compact_with`], besides making segments dense and merging small ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompactOptions {
    /// Give all segments the table's schema, including dense ones: after [`Writer::alter`] other Arrow readers then
    /// read the directory as one table.
    pub rewrite: bool,
    /// First sort the rows of all segments by the column by which the table is sorted, across segments: late rows move
    /// to their sorted places, nulls last, and equal values keep their order.
    ///
    /// Row numbers change. Segments that are sorted and overlap with no other stay as they are. The others are written
    /// again beside the table. This takes as much disk space again, and memory for at most four bytes per row of these
    /// segments, plus one new segment of up to 128 MiB and sixteen bytes per row.
    ///
    /// Readers see the old table or the sorted one, never a part of it. A reader that had the table open can still read
    /// its mapped segments, and refresh as long as the live segment is the same file; otherwise it gets `FileChanged`,
    /// never other rows. Recreate everything that refers to rows by number, such as splits and the positions of
    /// followers, except for rows of the live segment. Other files in the table's directory are kept.
    ///
    /// `InvalidArgument` for a table created without `sorted_by`, or whose directory holds another one; `Io` if the
    /// file system can't exchange two directories.
    pub sort: bool,
}

/// # Maintenance
impl Writer {
    /// Rewrites all sealed segments as dense Arrow files, and merges small ones.
    ///
    /// A merged one has up to `segment_rows` rows and 128 MiB, and is held in memory meanwhile. Arrowwood's readers are
    /// not affected; another Arrow reader that lists the directory while segments are merged finds their rows twice.
    /// Calls `progress(done, total)` after each. Returns the number of rewritten segments.
    ///
    /// # Errors
    /// `Io`; segments rewritten before stay rewritten.
    pub fn compact(&mut self, progress: impl FnMut(u64, u64)) -> Result<u64> {
        self.compact_with(CompactOptions::default(), progress)
    }

    /// Compacts as [`Writer::compact`] does, with optional additional work.
    ///
    /// # Errors
    /// As [`Writer::compact`] and [`CompactOptions`].
    pub fn compact_with(&mut self, options: CompactOptions, progress: impl FnMut(u64, u64)) -> Result<u64> {
        // A dense file doesn't depend on earlier segments: it is valid after a power cut, so they must be on the disk.
        self.sync()?;
        self.stop_at_panic(|writer| writer.compact_synced(options, progress))
    }

    /// Compacts the segments before the live one, which are on the disk.
    fn compact_synced(&mut self, options: CompactOptions, mut progress: impl FnMut(u64, u64)) -> Result<u64> {
        let live = self.segments[0].first_row();
        let before = FileId::find(self.path())?;
        let sorted = if options.sort {
            let sorted = guard(|| sort_before(self.medium(), self.path(), live, self.background.lock(), &mut progress));
            prepared_commit::map_home_error(self.medium(), sorted)
        } else {
            Ok(0)
        };
        if let Err(e) = &sorted
            && FileId::find(self.path()).map_or(true, |now| now != before)
            && self.medium().check_directory().is_ok()
        {
            // After a power cut, either of the two directories may be the table.
            self.give_up(&format!("the table's rows were put in order, and that is not on the disk ({})", e.message()));
        }
        let sorted = sorted?;
        let compacted = guard(|| compact_before(self.medium(), self.path(), (live, options.rewrite), progress));
        Ok(sorted + prepared_commit::map_home_error(self.medium(), compacted)?)
    }

    /// Removes the segments without rows from number `row` on, but never the live one.
    ///
    /// Readers that have mapped them keep them; a segment is mapped when one of its rows is first read. Returns the
    /// number of removed rows.
    ///
    /// # Errors
    /// `Io`.
    pub fn drop_before(&mut self, row: u64) -> Result<u64> {
        // The remaining segments must be on the disk before the removed ones are gone.
        self.sync()?;
        self.stop_at_panic(|writer| writer.drop_synced(row))
    }

    fn drop_synced(&mut self, row: u64) -> Result<u64> {
        let starts = prepared_commit::map_home_error(self.medium(), chain::list(self.path()));
        let Some(starts) = starts.map_err(|e| self.note(e))? else { return Ok(0) };
        prepared_commit::check_home(self.medium()).map_err(|e| self.note(e))?;
        let mut removed = 0;
        let mut result = Ok(());
        for (start, next) in starts.iter().zip(starts.iter().skip(1)) {
            if *next > row {
                break;
            }
            let path = chain::path(self.path(), *start);
            // In this order on the disk, too: if a later one went first, a power cut could leave a gap.
            let done = self.medium().remove(&path).and_then(|()| self.medium().sync_dir(self.path()));
            removed += next - start;
            if let Err(e) = done {
                result = Err(Error::io("removing a segment", &e).at(path));
                break;
            }
        }
        if removed > 0 {
            guard(|| self.show_drop()).map_err(|e| self.note(e))?;
        }
        result.map(|()| removed)
    }
}

/// Rewrites all segments of the table at `path` as dense Arrow files, including the last one.
///
/// See [`Writer::compact`].
///
/// # Errors
/// As [`Writer::compact`], and `Busy` while the table is being written.
pub fn compact(path: impl AsRef<Path>, progress: impl FnMut(u64, u64)) -> Result<u64> {
    compact_with(path, CompactOptions::default(), progress)
}

/// Compacts as [`compact`] does, with optional additional work.
///
/// # Errors
/// As [`compact`] and [`CompactOptions`].
pub fn compact_with(path: impl AsRef<Path>, options: CompactOptions, progress: impl FnMut(u64, u64)) -> Result<u64> {
    compact_on(&FileSystem::default(), path, options, progress)
}

/// Compacts as [`compact_with`] does, on a disk that a test can observe.
///
/// # Errors
/// As [`compact_with`].
pub fn compact_on(
    medium: &FileSystem,
    path: impl AsRef<Path>,
    options: CompactOptions,
    progress: impl FnMut(u64, u64),
) -> Result<u64> {
    catch_panic(|| guard(|| compact_directory(medium, path.as_ref(), options, progress)))
}

fn compact_directory(
    medium: &FileSystem,
    path: &Path,
    options: CompactOptions,
    progress: impl FnMut(u64, u64),
) -> Result<u64> {
    let path = &std::fs::canonicalize(path).map_err(|e| Error::io("finding the table's directory", &e).at(path))?;
    refuse_file(path).map_err(|e| e.at(path))?;
    let lock = acquire_lock(medium, path).map_err(|e| e.at(path))?;
    prepared_commit::map_home_error(lock.medium(), compact_all(path, options, &lock, progress)).map_err(|e| e.at(path))
}

fn compact_all(
    path: &Path,
    options: CompactOptions,
    lock: &DirectoryLock,
    mut progress: impl FnMut(u64, u64),
) -> Result<u64> {
    let medium = lock.medium();
    remove_leftovers(medium, path).map_err(|e| Error::io("syncing the directory that the table is in", &e).at(path))?;
    let end = seal_all(medium, path)?;
    let sorted = if options.sort { sort_before(medium, path, end, lock, &mut progress)? } else { 0 };
    Ok(sorted + compact_before(medium, path, (end, options.rewrite), progress)?)
}

/// Seals the live segment, and brings everything to the disk; returns the row before which segments are sealed.
fn seal_all(medium: &FileSystem, path: &Path) -> Result<u64> {
    let Some(chain) = prepared_commit::open(medium, path)? else {
        return Err(Error::new(ErrorKind::NotFound, "there is no table").at(path));
    };
    chain.remove_orphans(medium, path)?;
    let Some((segment, record)) = &chain.last else { return Ok(u64::MAX) };
    let plan = Arc::new(Plan::for_schema(&segment.plan.schema.schema)?);
    // Everything that a dead writer left unsynced, names first: a dense file is valid after a power cut regardless of
    // earlier ones.
    medium.sync_dir(path).map_err(|e| Error::io("syncing the directory", &e).at(path))?;

    let mut pending = not_durable(medium, path, chain.sealed(), &plan)?;
    let mut live = None;
    if !record.sealed {
        let mut segment_writer = LiveSegment::resume(medium, &plan, segment, record)?;
        // Rows left by an earlier boot are on the disk, and rows lost then must not come back. An empty segment has the
        // positions, which those before it no longer have once they are durable as sealed.
        if record.boot == boot_id() {
            segment_writer.show_instead(segment.visible_within(1)?, record)?;
            pending.push(segment_writer.shared.clone());
        }
        live = Some(segment_writer).filter(|_| record.rows() > 0);
    }
    let parts = pending.into_iter().map(|segment| Ok((segment.clone(), segment.visible()?)));
    make_durable(&parts.collect::<Result<Vec<_>>>()?, SyncTarget::Columns)?;

    match live {
        Some(mut live) => {
            // A killed writer may have left a footer with more than its last commit, and a sealed segment shows all
            // rows.
            live.shared.publish_ahead(&live.now.counters, live.sequence() + 1)?;
            // Waiting followers must learn that the segment has ended, so that they look for the next one.
            live.make_visible(SEALED)?;
            live.shared.make_durable(&live.shared.visible()?, SyncTarget::Columns)?;
            Ok(u64::MAX)
        }
        None if record.sealed => Ok(u64::MAX),
        // An empty segment begins where the next row does: the segment after it would have the same name.
        None => Ok(segment.header.first_row),
    }
}

/// Consecutive segments of one schema, to be merged into one.
#[derive(Default)]
struct MergeGroup {
    /// True if they are rewritten with the table's schema.
    rewrites: bool,
    schema: Option<SchemaRef>,
    /// Their first rows.
    starts: Vec<u64>,
    /// The number of their rows.
    rows: u64,
    /// The size of their rows in memory.
    bytes: u64,
}

/// Compacts the segments before row `end`; `rewrites` selects the table's schema instead of their own.
fn compact_before(
    medium: &FileSystem,
    path: &Path,
    (end, rewrites): (u64, bool),
    mut progress: impl FnMut(u64, u64),
) -> Result<u64> {
    let Some(segments) = SealedSegments::before(medium, path, end)? else { return Ok(0) };
    let SealedSegments { table, known, rows: sealed, .. } = segments;
    let mut done = 0;
    let mut group = MergeGroup { rewrites, ..MergeGroup::default() };
    for (number, segment_rows) in sealed.iter().enumerate() {
        progress(number as u64, sealed.len() as u64);
        let start = segment_rows.start;
        let rows = segment_rows.end - start;
        let segment = group.segment(&table, start)?;
        let bytes = segment.nbytes()?;
        let is_full = group.rows + rows > known.segment_rows || group.bytes + bytes > MERGED_BYTES;
        let is_other = group.schema.as_ref().is_some_and(|own| schema_difference(own, segment.schema()).is_some());

        if is_full || is_other {
            let full = std::mem::replace(&mut group, MergeGroup { rewrites, ..MergeGroup::default() });
            done += full.compact(medium, path, &table, &known, false)?;
        }

        group.schema.get_or_insert_with(|| segment.schema().clone());
        group.starts.push(start);
        group.rows += rows;
        group.bytes += bytes;
    }
    done += group.compact(medium, path, &table, &known, end == u64::MAX)?;
    progress(sealed.len() as u64, sealed.len() as u64);
    Ok(done)
}

impl MergeGroup {
    /// Returns the rows of the segment that begins with row `start`, with the schema that it is to have.
    fn segment(&self, table: &Dataset, start: u64) -> Result<Dataset> {
        if self.rewrites { converted_segment_dataset(table, start) } else { segment_dataset(table, start) }
    }

    /// Returns true if the segment in `file` should be made dense, or rewritten.
    fn has_to_change(&self, file: &Path, table: &Dataset, start: u64) -> Result<bool> {
        if open_segment(file)?.is_some() {
            return Ok(true);
        }
        Ok(self.rewrites && segment_dataset(table, start)?.schema().fields() != table.schema().fields())
    }

    /// Merges them into one dense segment. Returns the number of rewritten segments. If the last one `is_last` in the
    /// table, the positions are written to it.
    fn compact(
        self,
        medium: &FileSystem,
        path: &Path,
        table: &Dataset,
        known: &TableSettings,
        is_last: bool,
    ) -> Result<u64> {
        let Some((&first, others)) = self.starts.split_first() else { return Ok(0) };
        let positions_at_end = |is_last: bool| if is_last { table.positions() } else { Ok(BTreeMap::new()) };
        if !others.is_empty() {
            let segments = self.starts.iter().map(|&start| self.segment(table, start)).collect::<Result<Vec<_>>>()?;
            match Dataset::concat(&segments)?.collect() {
                Ok(merged) if merged.num_batches()? == 1 => {
                    let dense = with_settings(merged, known, &positions_at_end(is_last)?);
                    let file = chain::path(path, first);
                    put_dense(medium, &dense, known, path, &file).map_err(|e| e.at(&file))?;
                    remove_merged(medium, path, others)?;
                    return Ok(self.starts.len() as u64);
                }
                // Text of more than 2 GiB, dictionaries that don't merge, or more than fits into memory: each stays
                // separate.
                Ok(_) => (),
                Err(e) if e.may_fit_fewer_rows() => (),
                Err(e) => return Err(e),
            }
        }
        let mut done = 0;
        for &start in &self.starts {
            let file = chain::path(path, start);
            if self.has_to_change(&file, table, start)? {
                let is_last = is_last && Some(&start) == self.starts.last();
                let dense = with_settings(self.segment(table, start)?, known, &positions_at_end(is_last)?);
                put_dense(medium, &dense, known, path, &file).map_err(|e| e.at(&file))?;
                done += 1;
            }
        }
        Ok(done)
    }
}
