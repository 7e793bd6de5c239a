//! Dense segments: how they are written, their copy of the table's settings, and leftover names of merged segments.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::Schema;

use crate::dataset::{Batches, Dataset};
use crate::directory::exists;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{WriteOptions, ZONES, write_with_metadata};
use crate::map::{FileSystem, StagingFile};
use crate::rows::supports_zones;
use crate::table::format::{ACCEPTS_LATE, INDEX, POSITIONS, SEGMENT_ROWS, SORTED_BY, TableSettings};
use crate::table::reader::{chain, dense_settings, open_newest, open_segment, open_table, without_settings};
use crate::table::zones;

/// The maximum size of rows merged into one segment, which are held in memory meanwhile.
pub(super) const MERGED_BYTES: u64 = 128 << 20;

/// The sealed segments of a table.
pub(super) struct SealedSegments {
    pub table: Dataset,
    /// The first rows of all segments.
    pub starts: Vec<u64>,
    /// The settings in the last segment: a writer may have been opened with another number of rows than earlier ones.
    pub known: TableSettings,
    /// The rows of each sealed segment.
    pub rows: Vec<Range<u64>>,
}

impl SealedSegments {
    /// Returns the segments before row `end`, after finishing interrupted merges; `None` for a table without a segment.
    pub fn before(medium: &FileSystem, path: &Path, end: u64) -> Result<Option<SealedSegments>> {
        finish_merges(medium, path, &|_| false)?;
        let Some(table) = open_table(path, Default::default())? else {
            return Err(Error::new(ErrorKind::NotFound, "there is no table").at(path));
        };
        let Some(starts) = chain::list(path)? else { return Ok(None) };
        let Some(&last) = starts.last() else { return Ok(None) };
        let known = settings_at(path, last)?;
        let rows = sealed_before(&table, &starts, end)?;
        Ok(Some(SealedSegments { table, starts, known, rows }))
    }
}

/// Returns the rows of each of the segments `starts` before row `end`, which are sealed.
fn sealed_before(table: &Dataset, starts: &[u64], end: u64) -> Result<Vec<Range<u64>>> {
    let end = end.min(table.first_row() + table.len()?);
    let mut sealed = Vec::new();
    for (number, &start) in starts.iter().enumerate().filter(|&(_, &start)| start < end) {
        let next = match starts.get(number + 1) {
            Some(&next) => next,
            None => end,
        };
        sealed.push(start..next);
    }
    Ok(sealed)
}

/// Removes the names of segments whose rows are in an earlier dense one, left by a killed compaction; returns whether
/// there were any.
///
/// Segments that `is_damaged` are not opened: a dense one is not relied on, and the end of another one is unknown.
pub(in crate::table) fn finish_merges(
    medium: &FileSystem,
    path: &Path,
    is_damaged: &dyn Fn(u64) -> bool,
) -> Result<bool> {
    let Some(starts) = chain::list(path)? else { return Ok(false) };
    let mut covered = 0;
    let mut is_changed = false;
    for (number, &start) in starts.iter().enumerate() {
        let Some(&next) = starts.get(number + 1) else { break };
        let file = chain::path(path, start);
        if start < covered || is_damaged(start) || open_segment(&file)?.is_some() {
            continue;
        }
        covered = start + chain::open_dense(&file, Default::default())?.count_until(u64::MAX)?;
        let inside: Vec<u64> = starts[number + 1..].iter().copied().take_while(|&name| name < covered).collect();
        if next < covered && are_merged(path, &inside, covered, is_damaged)? {
            remove_merged(medium, path, &inside)?;
            is_changed = true;
        }
    }
    Ok(is_changed)
}

/// Returns true if each of the segments `inside` ends where the next one begins, and the last one where the merged one
/// does, at row `end`. Otherwise they are no leftovers of it, and may have other rows.
fn are_merged(path: &Path, inside: &[u64], end: u64, is_damaged: &dyn Fn(u64) -> bool) -> Result<bool> {
    let ends = inside.iter().skip(1).chain([&end]);
    for (&start, &next) in inside.iter().zip(ends).filter(|&(&start, _)| !is_damaged(start)) {
        let file = chain::path(path, start);
        let rows = match open_newest(&file)? {
            Some((_, record)) => record.rows(),
            None => chain::open_dense(&file, Default::default())?.count_until(u64::MAX)?,
        };
        if start + rows != next {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes segments whose rows are in the previous one: the first ones first, also on the disk, so that each remaining
/// one ends where the next begins.
pub(super) fn remove_merged(medium: &FileSystem, path: &Path, starts: &[u64]) -> Result<()> {
    // The file with all rows must have its name before another loses its own.
    medium.sync_dir(path).map_err(|e| Error::io("syncing the directory", &e).at(path))?;
    for &start in starts {
        let file = chain::path(path, start);
        let done = medium.remove(&file).and_then(|()| medium.sync_dir(path));
        done.map_err(|e| Error::io("removing a merged segment", &e).at(file))?;
    }
    Ok(())
}

/// Returns the settings in the segment that begins with row `start`.
fn settings_at(path: &Path, start: u64) -> Result<TableSettings> {
    let file = chain::path(path, start);
    match open_segment(&file)? {
        Some(segment) => Ok(segment.header.settings()),
        None => {
            let ipc = chain::open_dense(&file, Default::default())?;
            dense_settings(ipc.schema()).map_err(|e| e.at(&file))
        }
    }
}

/// Returns the dataset with the table's settings and the positions as metadata of its schema. Growable segments have
/// the settings in their headers.
pub(in crate::table) fn with_settings(
    dataset: Dataset,
    settings: &TableSettings,
    positions: &BTreeMap<String, i64>,
) -> Dataset {
    let schema = without_settings(dataset.schema());
    let mut metadata = schema.metadata().clone();
    if !positions.is_empty() {
        let lines: Vec<_> = positions.iter().map(|(name, value)| format!("{value} {name}")).collect();
        metadata.insert(POSITIONS.into(), lines.join("\n"));
    }
    if let Some(column) = settings.sorted_by {
        metadata.insert(SORTED_BY.into(), column.to_string());
    }
    if settings.is_late {
        metadata.insert(ACCEPTS_LATE.into(), "1".into());
    }
    let columns: Vec<_> = indexed(&schema, settings).map(|column| column.to_string()).collect();
    if !columns.is_empty() {
        metadata.insert(INDEX.into(), columns.join(" "));
    }
    metadata.insert(SEGMENT_ROWS.into(), settings.segment_rows.to_string());
    let schema = Schema::new_with_metadata(schema.fields().clone(), metadata);
    Dataset::from_slices(Arc::new(schema), dataset.pieces().to_vec())
}

/// Returns the columns of a segment with zones: one with an older schema may lack some.
fn indexed(schema: &Schema, settings: &TableSettings) -> impl Iterator<Item = u32> {
    settings.index.iter().copied().filter(move |&column| {
        let field = schema.fields().get(column as usize);
        field.is_some_and(|field| supports_zones(field.data_type()))
    })
}

/// Writes `dataset` next to the table's folder, since readers list the whole folder, and moves it to `place`.
pub(super) fn put_dense(
    medium: &FileSystem,
    dataset: &Dataset,
    settings: &TableSettings,
    folder: &Path,
    place: &Path,
) -> Result<()> {
    // The file whose permissions it gets. Sorted rows are put in a directory that has no such file yet.
    let like = match chain::list(folder)?.and_then(|starts| starts.first().copied()) {
        Some(first) if !exists(place)? => chain::path(folder, first),
        _ => place.to_path_buf(),
    };

    let zones = zones_of(dataset, settings)?;
    let notes: Vec<_> = zones.into_iter().map(|text| (ZONES, text)).collect();
    let part = write_staged(medium, dataset, (folder, &like), (&WriteOptions::default(), &notes))?;

    // Sorted rows take as much space as before: copies that compare size and second have to see another file.
    let before = place.file_name().map_or_else(|| like.clone(), |name| folder.join(name));
    part.set_modified_after(&before);
    part.replace(place).map_err(|e| Error::io("replacing the segment by its dense form", &e))
}

/// Returns the zones of a dense segment's indexed columns, encoded for its footer.
fn zones_of(dataset: &Dataset, settings: &TableSettings) -> Result<Option<String>> {
    let index: Vec<u32> = indexed(dataset.schema(), settings).collect();
    let mut parts = dataset.parts();
    let part = parts.next().transpose()?.filter(|_| !index.is_empty());
    let Some(part) = part else { return Ok(None) };
    if parts.next().is_some() {
        return Err(Error::internal("a dense segment of several batches"));
    }
    let mut columns = Vec::with_capacity(index.len());
    for &number in &index {
        columns.push((number, part.column(part.piece.columns[number as usize])?));
    }
    let columns: Vec<_> = columns.iter().map(|(number, array)| (*number, array)).collect();
    zones::noted(&columns, settings.zone_rows).map(Some)
}

/// Options for writing, and keys and values of the footer's metadata.
type PartOptions<'a> = (&'a WriteOptions, &'a [(&'a str, String)]);

/// The folder next to which a file is written, and the file whose permissions it takes over.
type PartPaths<'a> = (&'a Path, &'a Path);

/// Writes `dataset` to a file without its final name, which is removed unless it is kept or replaces another one.
fn write_staged(
    medium: &FileSystem,
    dataset: &Dataset,
    (folder, like): PartPaths<'_>,
    (options, metadata): PartOptions<'_>,
) -> Result<StagingFile> {
    let mut part = medium
        .create_staging_file(folder, like)
        .map_err(|e| Error::io("creating the new file beside it", &e).at(folder))?;
    write_with_metadata(dataset, &mut part, options, metadata)?;
    Ok(part)
}

/// Writes `dataset` next to `folder`, with the permissions of the file `like`, and brings it to the disk; returns the
/// file's name.
pub(crate) fn write_part(
    medium: &FileSystem,
    dataset: &Dataset,
    (folder, like): PartPaths<'_>,
    options: &WriteOptions,
) -> Result<PathBuf> {
    let part = write_staged(medium, dataset, (folder, like), (options, &[]))?;
    part.keep().map_err(|e| Error::io("syncing the new file", &e).at(folder))
}
