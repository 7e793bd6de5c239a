//! Segments rewritten as dense Arrow files, and segments dropped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;

use super::background::make_durable;
use super::growing::{Durably, Growing, SEALED};
use super::opening::{not_durable, take_lock};
use super::prepared;
use super::writer::Writer;
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{WriteOptions, write_to};
use crate::map::{Medium, PartFile, boot_id, guard, remove_parts};
use crate::rows::Plan;
use crate::table::format::{Header, POSITIONS, SEGMENT_ROWS, SORTED_BY};
use crate::table::reader::{chain, one_segment, open_segment, open_table};

impl Writer {
    /// Rewrites all sealed segments as dense Arrow files, each replaced in one step. Readers go on with what they have.
    /// `progress(done, total)` is called after each. Returns how many were rewritten.
    ///
    /// # Errors
    /// `Io`; what was rewritten before stays so.
    pub fn compact(&mut self, progress: impl FnMut(u64, u64)) -> Result<u64> {
        // A dense file says nothing of those before it: after a power cut it counts, so they must be there.
        self.sync()?;
        let live = self.segments[0].first_row();
        guard(|| compact_before(self.medium(), self.path(), live, progress))
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
    compact_on(&Medium::default(), path, progress)
}

/// As [`compact`], on a disk that somebody may watch.
///
/// # Errors
/// As [`compact`].
pub fn compact_on(medium: &Medium, path: impl AsRef<Path>, progress: impl FnMut(u64, u64)) -> Result<u64> {
    guard(|| compact_all(medium, path.as_ref(), progress))
}

fn compact_all(medium: &Medium, path: &Path, progress: impl FnMut(u64, u64)) -> Result<u64> {
    let path = &std::fs::canonicalize(path).map_err(|e| Error::io("finding the table's folder", &e).at(path))?;
    let _lock = take_lock(medium, path).map_err(|e| e.at(path))?;
    remove_parts(path);
    let missing = || Error::new(ErrorKind::NotFound, "there is no table").at(path);
    let chain = prepared::open(medium, path)?.ok_or_else(missing)?;
    chain.remove_orphans(medium, path)?;
    let Some((segment, record)) = &chain.last else { return compact_before(medium, path, u64::MAX, progress) };
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
            compact_before(medium, path, u64::MAX, progress)
        }
        None if record.sealed => compact_before(medium, path, u64::MAX, progress),
        // The next row begins where an empty one does: there is no other name for a segment behind it.
        None => compact_before(medium, path, segment.header.first_row, progress),
    }
}

fn compact_before(medium: &Medium, path: &Path, end: u64, mut progress: impl FnMut(u64, u64)) -> Result<u64> {
    let missing = || Error::new(ErrorKind::NotFound, "there is no table").at(path);
    let table = open_table(path, Default::default())?.ok_or_else(missing)?;
    let starts: Vec<u64> = chain::list(path)?.unwrap_or_default().into_iter().filter(|&start| start < end).collect();
    let mut done = 0;
    for (number, &start) in starts.iter().enumerate() {
        progress(number as u64, starts.len() as u64);
        let file = chain::path(path, start);
        if let Some(segment) = open_segment(&file)? {
            let is_last = end == u64::MAX && number + 1 == starts.len();
            let positions = if is_last { table.positions()? } else { BTreeMap::new() };
            let dense = with_settings(one_segment(&table, start)?, &segment.header, &positions);
            rewrite(medium, &dense, path, &file).map_err(|e| e.at(&file))?;
            done += 1;
        }
    }
    progress(starts.len() as u64, starts.len() as u64);
    Ok(done)
}

/// The table's settings, which stand in the headers of segments that grow, as metadata of the schema.
pub(in crate::table) fn with_settings(dataset: Dataset, header: &Header, positions: &BTreeMap<String, i64>) -> Dataset {
    let schema = dataset.schema();
    let mut metadata = schema.metadata().clone();
    metadata.retain(|key, _| key != SORTED_BY && key != SEGMENT_ROWS && key != POSITIONS);
    if !positions.is_empty() {
        let lines: Vec<_> = positions.iter().map(|(name, value)| format!("{value} {name}")).collect();
        metadata.insert(POSITIONS.into(), lines.join("\n"));
    }
    if let Some(column) = header.sorted_by {
        metadata.insert(SORTED_BY.into(), column.to_string());
    }
    metadata.insert(SEGMENT_ROWS.into(), header.segment_rows.to_string());
    let schema = Schema::new_with_metadata(schema.fields().clone(), metadata);
    Dataset::of_pieces(Arc::new(schema), dataset.pieces().to_vec())
}

/// Writes `dataset` beside the folder, since readers take a folder as a whole, and moves it into the segment's place.
fn rewrite(medium: &Medium, dataset: &Dataset, folder: &Path, place: &Path) -> Result<()> {
    let part = written(medium, dataset, folder, &WriteOptions::default())?;
    part.replace(place).map_err(|e| Error::io("replacing the segment by its dense form", &e))
}

fn written(medium: &Medium, dataset: &Dataset, folder: &Path, options: &WriteOptions) -> Result<PartFile> {
    let mut part = medium.part(folder).map_err(|e| Error::io("creating the new file beside it", &e).at(folder))?;
    write_to(dataset, &mut part, options)?;
    Ok(part)
}

/// Writes `dataset` beside `folder` and brings it to the disk; the file's name.
pub(crate) fn write_part(dataset: &Dataset, folder: &Path, options: &WriteOptions) -> Result<PathBuf> {
    let part = written(&Medium::default(), dataset, folder, options)?;
    part.keep().map_err(|e| Error::io("syncing the new file", &e).at(folder))
}
