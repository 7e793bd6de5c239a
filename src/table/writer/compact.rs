//! Segments rewritten as dense Arrow files, and segments dropped.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::background::make_durable;
use super::dense::{MERGED_BYTES, SealedSegments, put_dense, remove_merged, with_settings};
use super::growing::{Durably, Growing, SEALED};
use super::opening::{not_durable, take_lock};
use super::prepared;
use super::sort::sort_before;
use super::writer::Writer;
use crate::dataset::{Dataset, schema_difference};
use crate::directory::FileId;
use crate::error::{Error, ErrorKind, Result};
use crate::map::{Medium, boot_id, guard, remove_parts};
use crate::rows::Plan;
use crate::table::format::Settings;
use crate::table::reader::{chain, one_fitted_segment, one_segment, open_segment};

/// What [`compact_with`] does beside making segments dense and merging small ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compaction {
    /// Give all segments the table's schema, dense ones too: after [`Writer::alter`] other Arrow readers then read the
    /// directory as one table.
    pub rewrite: bool,
    /// First put the rows of all segments in the order of the column that the table is sorted by, across segments: late rows come
    /// where they belong, nulls behind all others, and equal values stay as they came. Rows get other numbers. Segments that
    /// are in order, and overlap with none, stay as they are; the others are written beside the table, which takes as much
    /// room on the disk again, and in memory four bytes for each of their rows at most, besides one new segment of up to
    /// 128 MiB with sixteen bytes a row.
    ///
    /// Readers see the table as it was, or sorted: never a part of it. One that has opened the table before can read on what it
    /// has mapped, and refresh where the segment that grows is still the same; else it gets `FileChanged`, never other rows. What
    /// is known by row numbers, such as splits and the places of followers, is to be made anew, but for rows of the segment
    /// that grows.
    ///
    /// `InvalidArgument` for a table that was created without `sorted_by`; `Io` where the file system can't exchange two
    /// directories.
    pub sort: bool,
}

impl Writer {
    /// Rewrites all sealed segments as dense Arrow files, small ones merged into one of up to `segment_rows` rows and 128 MiB,
    /// which are in memory meanwhile. Readers of Arrowwood go on with what they have; another Arrow reader that lists the
    /// directory while segments are merged finds rows of theirs twice. `progress(done, total)` is called after each. Returns
    /// how many were rewritten.
    ///
    /// # Errors
    /// `Io`; what was rewritten before stays so.
    pub fn compact(&mut self, progress: impl FnMut(u64, u64)) -> Result<u64> {
        self.compact_with(Compaction::default(), progress)
    }

    /// As [`Writer::compact`], with more that is done on the way.
    ///
    /// # Errors
    /// As [`Writer::compact`], and those of [`Compaction`].
    pub fn compact_with(&mut self, what: Compaction, mut progress: impl FnMut(u64, u64)) -> Result<u64> {
        // A dense file says nothing of those before it: after a power cut it counts, so they must be there.
        self.sync()?;
        let live = self.segments[0].first_row();
        let before = FileId::of(self.path());
        let sort = || sort_before(self.medium(), self.path(), live, self.background.lock(), &mut progress);
        let sorted = if what.sort { guard(sort) } else { Ok(0) };
        if let Err(e) = &sorted
            && FileId::of(self.path()) != before
        {
            // Which of the two directories is the table after a power cut is not known.
            self.give_up(format!("the table's rows were put in order, and that is not on the disk ({})", e.message()));
        }
        let sorted = sorted?;
        Ok(sorted + guard(|| compact_before(self.medium(), self.path(), (live, what.rewrite), progress))?)
    }

    /// Removes the segments that hold no row from number `row` on, but never the one that grows. Readers that have mapped
    /// them keep them; a segment is mapped when one of its rows is first looked at. How many rows were removed.
    ///
    /// # Errors
    /// `Io`.
    pub fn drop_before(&mut self, row: u64) -> Result<u64> {
        // What stays must be on the disk before what was there goes.
        self.sync()?;
        let starts = chain::list(self.path())?.unwrap_or_default();
        let mut removed = 0;
        for pair in starts.windows(2).take_while(|pair| pair[1] <= row) {
            let path = chain::path(self.path(), pair[0]);
            // One after the other on the disk, too: if a later one went first, a power cut could leave a gap.
            let done = self.medium().remove(&path).and_then(|()| self.medium().sync_folder(self.path()));
            done.map_err(|e| Error::io("removing a segment", &e).at(path))?;
            removed += pair[1] - pair[0];
        }
        Ok(removed)
    }
}

/// Rewrites all segments of the table at `path`, the last one too, as dense Arrow files: see [`Writer::compact`].
///
/// # Errors
/// As [`Writer::compact`], and `Busy` while the table is being written.
pub fn compact(path: impl AsRef<Path>, progress: impl FnMut(u64, u64)) -> Result<u64> {
    compact_with(path, Compaction::default(), progress)
}

/// As [`compact`], with more that is done on the way.
///
/// # Errors
/// As [`compact`], and those of [`Compaction`].
pub fn compact_with(path: impl AsRef<Path>, what: Compaction, progress: impl FnMut(u64, u64)) -> Result<u64> {
    compact_on(&Medium::default(), path, what, progress)
}

/// As [`compact_with`], on a disk that somebody may watch.
///
/// # Errors
/// As [`compact_with`].
pub fn compact_on(
    medium: &Medium,
    path: impl AsRef<Path>,
    what: Compaction,
    progress: impl FnMut(u64, u64),
) -> Result<u64> {
    guard(|| compact_all(medium, path.as_ref(), what, progress))
}

fn compact_all(medium: &Medium, path: &Path, what: Compaction, mut progress: impl FnMut(u64, u64)) -> Result<u64> {
    let path = &std::fs::canonicalize(path).map_err(|e| Error::io("finding the table's folder", &e).at(path))?;
    let lock = take_lock(medium, path).map_err(|e| e.at(path))?;
    remove_parts(medium, path).map_err(|e| Error::io("syncing the folder that the table is in", &e).at(path))?;
    let end = seal_all(medium, path)?;
    let sorted = if what.sort { sort_before(medium, path, end, &lock, &mut progress)? } else { 0 };
    Ok(sorted + compact_before(medium, path, (end, what.rewrite), progress)?)
}

/// Seals the segment that grows, and brings all to the disk; the row before which segments are sealed.
fn seal_all(medium: &Medium, path: &Path) -> Result<u64> {
    let missing = || Error::new(ErrorKind::NotFound, "there is no table").at(path);
    let chain = prepared::open(medium, path)?.ok_or_else(missing)?;
    chain.remove_orphans(medium, path)?;
    let Some((segment, record)) = &chain.last else { return Ok(u64::MAX) };
    let plan = Arc::new(Plan::of(&segment.plan.schema.schema)?);
    // What a writer that died has not brought to the disk, names first: a dense file counts after a power cut, whatever is
    // before it.
    medium.sync_folder(path).map_err(|e| Error::io("syncing the folder", &e).at(path))?;
    let mut pending = not_durable(medium, path, &chain, &plan)?;
    let mut live = None;
    if !record.sealed && record.rows() > 0 {
        let growing = Growing::open(medium, &plan, segment, record)?;
        // What an earlier boot has left is on the disk, and what it has lost must not come back.
        if record.boot == boot_id() {
            pending.push(growing.shared.clone());
        }
        live = Some(growing);
    }
    let cut = pending.into_iter().map(|segment| Ok((segment.clone(), segment.visible()?)));
    make_durable(&cut.collect::<Result<Vec<_>>>()?, Durably::InPlace)?;
    match live {
        Some(mut live) => {
            // A writer that was killed may have left a footer behind its last commit, and a sealed segment shows all rows.
            live.shared.publish_ahead(&live.now.counters, live.sequence + 1)?;
            // Those who watch the segment must learn that it has ended, so that they look for the next one.
            live.show(SEALED);
            live.shared.make_durable(&live.shared.visible()?, Durably::InPlace)?;
            Ok(u64::MAX)
        }
        None if record.sealed => Ok(u64::MAX),
        // The next row begins where an empty one does: there is no other name for a segment behind it.
        None => Ok(segment.header.first_row),
    }
}

/// Segments of one schema, one after the other, whose rows are to be in one.
#[derive(Default)]
struct Group {
    /// Whether they get the table's schema.
    rewrites: bool,
    schema: Option<SchemaRef>,
    /// Their first rows.
    starts: Vec<u64>,
    rows: u64,
    bytes: u64,
}

/// Compacts the segments before row `end`; whether in the table's schema or in their own, `rewrites` says.
fn compact_before(
    medium: &Medium,
    path: &Path,
    (end, rewrites): (u64, bool),
    mut progress: impl FnMut(u64, u64),
) -> Result<u64> {
    let Some(segments) = SealedSegments::before(medium, path, end)? else { return Ok(0) };
    let SealedSegments { table, known, rows: sealed, .. } = segments;
    let mut done = 0;
    let mut group = Group { rewrites, ..Group::default() };
    for (number, segment_rows) in sealed.iter().enumerate() {
        progress(number as u64, sealed.len() as u64);
        let start = segment_rows.start;
        let rows = segment_rows.end - start;
        let segment = group.segment(&table, start)?;
        let bytes = segment.nbytes()?;
        let is_full = group.rows + rows > known.segment_rows || group.bytes + bytes > MERGED_BYTES;
        let is_other = group.schema.as_ref().is_some_and(|own| schema_difference(own, segment.schema()).is_some());
        if is_full || is_other {
            let full = std::mem::replace(&mut group, Group { rewrites, ..Group::default() });
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

impl Group {
    fn segment(&self, table: &Dataset, start: u64) -> Result<Dataset> {
        if self.rewrites { one_fitted_segment(table, start) } else { one_segment(table, start) }
    }

    /// Whether the segment in `file` is to be made dense, or rewritten.
    fn has_to_change(&self, file: &Path, table: &Dataset, start: u64) -> Result<bool> {
        let is_growable = open_segment(file)?.is_some();
        let is_older = || {
            let own = one_segment(table, start)?;
            Ok::<_, Error>(own.schema().fields() != table.schema().fields())
        };
        Ok(is_growable || self.rewrites && is_older()?)
    }

    /// Makes one dense segment of them. How many were rewritten.
    fn compact(self, medium: &Medium, path: &Path, table: &Dataset, known: &Settings, is_last: bool) -> Result<u64> {
        let Some((&first, others)) = self.starts.split_first() else { return Ok(0) };
        let positions = |is_last: bool| if is_last { table.positions() } else { Ok(BTreeMap::new()) };
        if !others.is_empty() {
            let segments = self.starts.iter().map(|&start| self.segment(table, start)).collect::<Result<Vec<_>>>()?;
            match Dataset::concat(&segments)?.collect() {
                Ok(merged) if merged.num_batches()? == 1 => {
                    let dense = with_settings(merged, known, &positions(is_last)?);
                    let file = chain::path(path, first);
                    put_dense(medium, &dense, known, path, &file).map_err(|e| e.at(&file))?;
                    remove_merged(medium, path, others)?;
                    return Ok(self.starts.len() as u64);
                }
                // Text of more than 2 GiB, or dictionaries that don't merge: each stays by itself.
                Ok(_) => (),
                Err(e) if e.kind() == ErrorKind::Unsupported => (),
                Err(e) => return Err(e),
            }
        }
        let mut done = 0;
        for &start in &self.starts {
            let file = chain::path(path, start);
            if self.has_to_change(&file, table, start)? {
                let is_last = is_last && Some(&start) == self.starts.last();
                let dense = with_settings(self.segment(table, start)?, known, &positions(is_last)?);
                put_dense(medium, &dense, known, path, &file).map_err(|e| e.at(&file))?;
                done += 1;
            }
        }
        Ok(done)
    }
}
