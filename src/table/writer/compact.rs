//! Segments rewritten as dense Arrow files, and segments dropped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};

use super::background::make_durable;
use super::growing::{Durably, Growing, SEALED};
use super::opening::{not_durable, take_lock};
use super::prepared;
use super::writer::Writer;
use crate::dataset::{Dataset, Source, schema_difference};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{WriteOptions, ZONES, write_noted};
use crate::map::{Medium, PartFile, boot_id, guard, remove_parts};
use crate::rows::{Plan, has_zones};
use crate::table::format::{ACCEPTS_LATE, INDEX, POSITIONS, SEGMENT_ROWS, SORTED_BY, Settings};
use crate::table::reader::{
    chain, one_fitted_segment, one_segment, open_newest, open_segment, open_table, settings_of, without_settings,
};
use crate::table::zones;

impl Writer {
    /// Rewrites all sealed segments as dense Arrow files, small ones merged into one of up to `segment_rows` rows and 128 MiB,
    /// which are in memory meanwhile. Readers of Arrowwood go on with what they have; another Arrow reader that lists the
    /// directory while segments are merged finds rows of theirs twice. `progress(done, total)` is called after each. Returns
    /// how many were rewritten.
    ///
    /// # Errors
    /// `Io`; what was rewritten before stays so.
    pub fn compact(&mut self, progress: impl FnMut(u64, u64)) -> Result<u64> {
        self.compact_all(false, progress)
    }

    /// As [`Writer::compact`], and gives all sealed segments the table's schema, dense ones too: after [`Writer::alter`]
    /// other Arrow readers then read the directory as one table.
    ///
    /// # Errors
    /// As [`Writer::compact`].
    pub fn rewrite(&mut self, progress: impl FnMut(u64, u64)) -> Result<u64> {
        self.compact_all(true, progress)
    }

    fn compact_all(&mut self, rewrites: bool, progress: impl FnMut(u64, u64)) -> Result<u64> {
        // A dense file says nothing of those before it: after a power cut it counts, so they must be there.
        self.sync()?;
        let live = self.segments[0].first_row();
        guard(|| compact_before(self.medium(), self.path(), (live, rewrites), progress))
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

/// As [`compact`], and gives all segments the table's schema, dense ones too: see [`Writer::rewrite`].
///
/// # Errors
/// As [`compact`].
pub fn rewrite(path: impl AsRef<Path>, progress: impl FnMut(u64, u64)) -> Result<u64> {
    guard(|| compact_all(&Medium::default(), path.as_ref(), true, progress))
}

/// As [`compact`], on a disk that somebody may watch.
///
/// # Errors
/// As [`compact`].
pub fn compact_on(medium: &Medium, path: impl AsRef<Path>, progress: impl FnMut(u64, u64)) -> Result<u64> {
    guard(|| compact_all(medium, path.as_ref(), false, progress))
}

fn compact_all(medium: &Medium, path: &Path, rewrites: bool, progress: impl FnMut(u64, u64)) -> Result<u64> {
    let path = &std::fs::canonicalize(path).map_err(|e| Error::io("finding the table's folder", &e).at(path))?;
    let _lock = take_lock(medium, path).map_err(|e| e.at(path))?;
    remove_parts(path);
    let missing = || Error::new(ErrorKind::NotFound, "there is no table").at(path);
    let chain = prepared::open(medium, path)?.ok_or_else(missing)?;
    chain.remove_orphans(medium, path)?;
    let Some((segment, record)) = &chain.last else {
        return compact_before(medium, path, (u64::MAX, rewrites), progress);
    };
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
            compact_before(medium, path, (u64::MAX, rewrites), progress)
        }
        None if record.sealed => compact_before(medium, path, (u64::MAX, rewrites), progress),
        // The next row begins where an empty one does: there is no other name for a segment behind it.
        None => compact_before(medium, path, (segment.header.first_row, rewrites), progress),
    }
}

/// The most bytes of rows that are merged into one segment, which are in memory meanwhile.
const MERGED_BYTES: u64 = 128 << 20;

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
    let missing = || Error::new(ErrorKind::NotFound, "there is no table").at(path);
    finish_merges(medium, path)?;
    let table = open_table(path, Default::default())?.ok_or_else(missing)?;
    let all = chain::list(path)?.unwrap_or_default();
    let table_end = table.first_row() + table.len()?;
    let Some(&last) = all.last() else { return Ok(0) };
    // A writer may have been opened with another number of rows than those before.
    let known = settings_at(path, last)?;
    let starts: Vec<u64> = all.into_iter().filter(|&start| start < end).collect();
    let mut done = 0;
    let mut group = Group { rewrites, ..Group::default() };
    for (number, &start) in starts.iter().enumerate() {
        progress(number as u64, starts.len() as u64);
        let rows = starts.get(number + 1).copied().unwrap_or(end.min(table_end)) - start;
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
    progress(starts.len() as u64, starts.len() as u64);
    Ok(done)
}

/// Removes the names of segments whose rows are in a dense one before them: who merged them was killed before.
fn finish_merges(medium: &Medium, path: &Path) -> Result<()> {
    let starts = chain::list(path)?.unwrap_or_default();
    let mut covered = 0;
    for (number, &start) in starts.iter().enumerate() {
        let Some(&next) = starts.get(number + 1) else { break };
        let file = chain::path(path, start);
        if start < covered || open_segment(&file)?.is_some() {
            continue;
        }
        covered = start + chain::open_dense(&file, Default::default())?.walk(u64::MAX)?;
        let inside: Vec<u64> = starts[number + 1..].iter().copied().take_while(|&name| name < covered).collect();
        if next < covered && ends_at(path, &starts, &inside, covered)? {
            remove_merged(medium, path, &inside)?;
        }
    }
    Ok(())
}

/// Whether the last of the segments `inside` ends where the merged one does, at row `end`.
fn ends_at(path: &Path, starts: &[u64], inside: &[u64], end: u64) -> Result<bool> {
    if starts.contains(&end) {
        return Ok(true);
    }
    let Some(&last) = inside.last() else { return Ok(false) };
    let file = chain::path(path, last);
    let rows = match open_newest(&file)? {
        Some((_, record)) => record.rows(),
        None => chain::open_dense(&file, Default::default())?.walk(u64::MAX)?,
    };
    Ok(last + rows == end)
}

/// Removes segments whose rows are in the one before them: the first ones first, also on the disk, so that each that is left
/// ends where the next begins.
fn remove_merged(medium: &Medium, path: &Path, starts: &[u64]) -> Result<()> {
    // The file with all rows must have its name before another loses its own.
    medium.sync_folder(path).map_err(|e| Error::io("syncing the folder", &e).at(path))?;
    for &start in starts {
        let file = chain::path(path, start);
        let done = medium.remove(&file).and_then(|()| medium.sync_folder(path));
        done.map_err(|e| Error::io("removing a merged segment", &e).at(file))?;
    }
    Ok(())
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
                    put_dense(medium, &dense, known, &file).map_err(|e| e.at(&file))?;
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
                put_dense(medium, &dense, known, &file).map_err(|e| e.at(&file))?;
                done += 1;
            }
        }
        Ok(done)
    }
}

/// The settings as the segment that begins with row `start` has them.
fn settings_at(path: &Path, start: u64) -> Result<Settings> {
    let file = chain::path(path, start);
    match open_segment(&file)? {
        Some(segment) => Ok(segment.header.settings()),
        None => {
            let ipc = chain::open_dense(&file, Default::default())?;
            settings_of(ipc.schema()).map_err(|e| e.at(&file))
        }
    }
}

/// The table's settings, which stand in the headers of segments that grow, as metadata of the schema.
pub(in crate::table) fn with_settings(
    dataset: Dataset,
    settings: &Settings,
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
    Dataset::of_pieces(Arc::new(schema), dataset.pieces().to_vec())
}

/// The columns of a segment that have zones: one of an older schema may lack some.
fn indexed(schema: &Schema, settings: &Settings) -> impl Iterator<Item = u32> {
    let field = |column: u32| schema.fields().get(column as usize);
    settings
        .index
        .iter()
        .copied()
        .filter(move |&column| field(column).is_some_and(|field| has_zones(field.data_type())))
}

/// Writes `dataset` beside the folder, since readers take a folder as a whole, and moves it into the segment's place.
fn put_dense(medium: &Medium, dataset: &Dataset, settings: &Settings, place: &Path) -> Result<()> {
    let folder = place.parent().ok_or_else(|| Error::internal("a segment outside of a folder"))?;
    let zones = zones_of(dataset, settings)?;
    let notes: Vec<_> = zones.into_iter().map(|text| (ZONES, text)).collect();
    let part = written(medium, dataset, folder, (&WriteOptions::default(), &notes))?;
    part.replace(place).map_err(|e| Error::io("replacing the segment by its dense form", &e))
}

/// The zones of a dense segment's indexed columns, as its footer has them.
fn zones_of(dataset: &Dataset, settings: &Settings) -> Result<Option<String>> {
    let index: Vec<u32> = indexed(dataset.schema(), settings).collect();
    let mut parts = dataset.parts();
    let part = parts.next().transpose()?.filter(|_| !index.is_empty());
    let Some(part) = part else { return Ok(None) };
    if parts.next().is_some() {
        return Err(Error::internal("a dense segment of several batches"));
    }
    let column = |&number: &u32| Ok((number, part.column(part.piece.columns[number as usize])?));
    let columns = index.iter().map(column).collect::<Result<Vec<_>>>()?;
    let columns: Vec<_> = columns.iter().map(|(number, array)| (*number, array)).collect();
    zones::noted(&columns, settings.zone_rows).map(Some)
}

/// Options of writing, and metadata of the footer.
type HowToWrite<'a> = (&'a WriteOptions, &'a [(&'a str, String)]);

fn written(medium: &Medium, dataset: &Dataset, folder: &Path, how: HowToWrite<'_>) -> Result<PartFile> {
    let mut part = medium.part(folder).map_err(|e| Error::io("creating the new file beside it", &e).at(folder))?;
    write_noted(dataset, &mut part, how.0, how.1)?;
    Ok(part)
}

/// Writes `dataset` beside `folder` and brings it to the disk; the file's name.
pub(crate) fn write_part(dataset: &Dataset, folder: &Path, options: &WriteOptions) -> Result<PathBuf> {
    let part = written(&Medium::default(), dataset, folder, (options, &[]))?;
    part.keep().map_err(|e| Error::io("syncing the new file", &e).at(folder))
}
