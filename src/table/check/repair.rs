//! Repairs a damaged table: the rows before the damage stay, the rest moves to a folder beside the table.
//!
//! ```text
//! ticks/000 ticks/100 ticks/200          ticks/000 ticks/100 (dense, rows 100 to 163)
//!           damaged              ──▶     ticks.damaged/100 ticks.damaged/200
//! ```
//! Nothing is written into a damaged file, but by finishing a prepared commit as the next writer would. The new file is on
//! the disk before anything moves, and so are the segments before it; then the segments move, the last one first, so that
//! an interrupted repair leaves a table with the same damage and fewer segments after it.
//! Where all rows of the damaged segment are good, up to the next one, it alone moves. Text that is not UTF-8 costs no row:
//! `?` takes the place of its bytes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use super::footer_check::has_witness;
use super::segments::{look_at_all, schema_of, trusted};
use super::table_check::{SegmentCheck, TableCheck};
use crate::array::{Bytes, UncheckedArray, to_array};
use crate::dataset::{Batches, Dataset, order};
use crate::directory::{FileId, exists, is_directory};
use crate::error::{Error, Findings, Result, none_if_corrupt};
use crate::ipc::{IpcSource, ReadOptions, WriteOptions, count_zero_bits};
use crate::map::{DirectoryLock, FileSystem, Mapping, Mode, remove_leftovers};
use crate::rows::{Plan, PlanNode, Storage, supports_zones};
use crate::table::format::{Header, Record};
use crate::table::reader::{
    Segment, chain, dense_settings, end_of_list_views, members_of, offset_at, open_segment, without_settings,
};
use crate::table::writer::{
    LiveSegment, WriterOptions, acquire_lock, finish_commit, finish_merges, first_segment, restore_footers,
    sync_segments, with_settings, write_part,
};

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The number of rows after the repair.
    pub kept: u64,
    /// The number of rows given up; `None` if unknown.
    pub given_up: Option<u64>,
    /// The paths of the damaged files, and of those moved with them.
    pub moved: Vec<PathBuf>,
}

/// Repairs the table in `folder`, and returns the findings before the repair; `None` if there is no table.
pub(crate) fn repair_table(
    folder: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<(TableCheck, Option<RepairReport>)>> {
    let home = &fs::canonicalize(folder).map_err(|e| Error::io("finding the table's directory", &e).at(folder))?;
    let lock = &acquire_lock(&FileSystem::default(), home).map_err(|e| e.at(folder))?;
    let Some(before) = look_at_all(folder, false, progress)? else { return Ok(None) };
    if !before.has_damage() {
        restore_footers(lock.medium(), home, &before.without_footers())?;
        return Ok(Some((before, None)));
    }
    let repaired = TableRepair { folder, home, lock }.run(&before, progress)?;
    Ok(Some((before, Some(repaired))))
}

/// The repair of a locked table.
struct TableRepair<'a> {
    folder: &'a Path,
    /// The same without links.
    home: &'a Path,
    lock: &'a DirectoryLock,
}

impl TableRepair<'_> {
    fn run(&self, before: &TableCheck, progress: &mut dyn FnMut(u64, u64)) -> Result<RepairReport> {
        let parts_removed = remove_leftovers(self.lock.medium(), self.home);
        parts_removed.map_err(|e| Error::io("syncing the directory that the table is in", &e).at(self.folder))?;
        let mut repaired = RepairReport { given_up: Some(0), ..RepairReport::default() };
        // First what the next writer would do first: rows of a part of a commit must not stay, nor a part of its rows be
        // given up.
        let is_changed = finish_commit(self.lock.medium(), self.home)?;
        // Before anything moves: a damaged leftover of a merge costs no rows, and none may be put in its place.
        let is_finished = finish_merges(self.lock.medium(), self.home, &|start| before.is_damaged(start))?;
        restore_footers(self.lock.medium(), self.home, &before.without_footers())?;
        let mut again = if is_changed || is_finished { self.look(progress)? } else { None };
        let mut replaced = None;
        loop {
            let checked = again.as_ref().unwrap_or(before);
            let Some(first) = checked.segments.iter().position(SegmentCheck::has_damage) else {
                repaired.kept = checked.rows();
                return Ok(repaired);
            };
            let start = checked.segments[first].start;
            let sound: Vec<u64> = checked.segments[..first].iter().map(|segment| segment.start).collect();
            sync_segments(self.lock.medium(), self.home, &sound)?;
            let (replacement, rows) = Replacement::write(self.lock.medium(), self.home, checked, first)?;
            // Once: where the new file is damaged, too, the others can't stay behind it.
            if checked.is_whole(first, rows) && replaced != Some(start) {
                repaired.moved.extend(self.put(replacement, start, &[start])?);
                replaced = Some(start);
                again = self.look(progress)?;
                continue;
            }
            let all = chain::list(self.folder)?.unwrap_or_default();
            let moving: Vec<u64> = all.into_iter().filter(|&other| other >= start).collect();
            repaired.moved.extend(self.put(replacement, start, &moving)?);
            // With the rows that a dense one before has of it.
            let rows = checked.reach(first).saturating_sub(start).max(rows);
            repaired.kept = checked.segments[..first].iter().filter_map(|segment| segment.rows).sum::<u64>() + rows;
            repaired.given_up = given_up(checked, first).map(|known| known.saturating_sub(rows));
            return Ok(repaired);
        }
    }

    fn look(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Option<TableCheck>> {
        let found = look_at_all(self.folder, false, progress)?;
        found.map(Some).ok_or_else(|| Error::internal("the repaired table has no segment").at(self.folder))
    }

    /// Moves the segments `moving`, of which `start` is the first, and puts the replacement in its place. Returns where
    /// they are now.
    fn put(&self, replacement: Replacement, start: u64, moving: &[u64]) -> Result<Vec<PathBuf>> {
        let medium = self.lock.medium();
        medium.check_directory().map_err(|e| Error::io("reading the table to be repaired", &e).at(self.folder))?;
        // A segment can't be moved out of a mount point.
        let is_alone = !self.lock.is_replaceable();
        let place = place_for(self.folder, moving, is_alone)?;
        for &other in moving.iter().rev().filter(|&&other| other != start) {
            let from = chain::path(self.home, other);
            let to = place.join(chain::name(other));
            // An interrupted repair may have given it both names, and a rename between them does nothing.
            let moved = if is_same(&from, &to)? {
                sync_folder(&place)?;
                medium.remove(&from)
            } else {
                medium.rename(&from, &to)
            };
            moved.map_err(|e| moving_failed(&e, &from))?;
        }
        let own = chain::path(self.home, start);
        link_aside(&own, &place.join(chain::name(start))).map_err(|e| e.at(&own))?;
        // Before the damaged files lose the names that they had.
        sync_folder(&place)?;
        replacement.put(medium, self.home, start).map_err(|e| e.at(&own))?;
        self.lock.sync().map_err(|e| Error::io("syncing the directory", &e).at(self.folder))?;
        if !is_alone {
            self.folder.parent().map_or(Ok(()), sync_folder)?;
        }
        Ok(moving.iter().map(|&other| place.join(chain::name(other))).collect())
    }
}

fn moving_failed(e: &std::io::Error, path: &Path) -> Error {
    Error::io("moving a damaged file out of the way", e).at(path)
}

/// The number of rows from segment `first` on, as far as known.
fn given_up(checked: &TableCheck, first: usize) -> Option<u64> {
    let rest = &checked.segments[first..];
    let rows = |number: usize| {
        let next = rest.get(number + 1).map(|next| next.start - rest[number].start);
        // Rows missing before the next segment were given up as well.
        next.into_iter().chain(rest[number].rows).max()
    };
    (0..rest.len()).map(rows).sum()
}

/// `path` with `.damaged` appended, or `.damaged-2` and so on: the first name for which `is_free` returns true.
///
/// # Errors
/// Those of `is_free`.
pub(crate) fn damaged_path(path: &Path, is_free: impl Fn(&Path) -> Result<bool>) -> Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    numbered(name, is_free)
}

/// `name`, or with `-2` and so on appended: the first one for which `is_free` returns true.
fn numbered(name: OsString, is_free: impl Fn(&Path) -> Result<bool>) -> Result<PathBuf> {
    let mut path = PathBuf::from(&name);
    let mut number = 1;
    while !is_free(&path)? {
        number += 1;
        path = PathBuf::from(format!("{}-{number}", name.to_string_lossy()));
    }
    Ok(path)
}

/// A folder beside the table, or hidden inside, that contains none of the segments to be moved there.
fn place_for(folder: &Path, moving: &[u64], is_inside: bool) -> Result<PathBuf> {
    let is_own = |start: u64, there: &Path| is_same(&chain::path(folder, start), &there.join(chain::name(start)));
    let is_free = |there: &Path| {
        if exists(there)? && !is_directory(there)? {
            return Ok(false);
        }
        for &start in moving {
            if exists(&there.join(chain::name(start)))? && !is_own(start, there)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let place =
        if is_inside { numbered(folder.join(".damaged").into(), is_free) } else { damaged_path(folder, is_free) }?;
    let made = if is_directory(&place)? {
        Ok(())
    } else {
        // No more people may come to the files than before.
        fs::create_dir(&place).and_then(|()| fs::set_permissions(&place, fs::metadata(folder)?.permissions()))
    };
    made.map_err(|e| Error::io("making a directory for the damaged files", &e).at(&place))?;
    // Also one that an interrupted repair has made.
    place.parent().map_or(Ok(()), sync_folder)?;
    Ok(place)
}

/// Whether two names belong to the same file.
fn is_same(a: &Path, b: &Path) -> Result<bool> {
    let found = FileId::find(a)?;
    Ok(found.is_some() && found == FileId::find(b)?)
}

/// Gives the file at `path` the second name `aside`, so that it stays when `path` is replaced.
pub(crate) fn link_aside(path: &Path, aside: &Path) -> Result<()> {
    if is_same(path, aside)? {
        return Ok(());
    }
    // Without hard links there is a moment without a file of that name.
    let named = fs::hard_link(path, aside).or_else(|e| {
        let is_without =
            matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied | ErrorKind::TooManyLinks);
        if !is_without || crate::map::exists(aside)? { Err(e) } else { fs::rename(path, aside) }
    });
    named.map_err(|e| moving_failed(&e, path))
}

/// Syncs the names added to and removed from a folder.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    let synced = FileSystem::default().sync_dir(folder);
    synced.map_err(|e| Error::io("syncing the directory", &e).at(folder))
}

/// The replacement of the damaged segment.
enum Replacement {
    /// Rows, in a dense file without a name yet.
    Dense(PathBuf),
    /// No rows, and none before: an empty segment to continue with.
    Empty(Box<LiveSegment>),
    Nothing,
}

impl Replacement {
    /// Writes the good rows of segment number `first` to the disk, and returns their number.
    fn write(medium: &FileSystem, folder: &Path, checked: &TableCheck, first: usize) -> Result<(Replacement, u64)> {
        let start = checked.segments[first].start;
        if checked.reach(first) > start {
            // A dense one before has these rows, and a new file in this place would hide them.
            return Ok((Replacement::Nothing, 0));
        }
        let path = chain::path(folder, start);
        let segment = none_if_corrupt(open_segment(&path))?.flatten();
        let all = checked.segments.iter().map(|segment| chain::path(folder, segment.start));
        let others = all.filter(|other| *other != path).filter_map(|path| schema_of(&path).transpose());
        let others = others.collect::<Result<Vec<SchemaRef>>>()?;
        // The segment's copies of its schema may disagree; another segment can decide.
        let is_known =
            |schema: &SchemaRef| others.iter().any(|other| without_settings(other) == without_settings(schema));
        let has_witness = segment.as_ref().map_or(Ok(true), has_witness)?;
        let found = match &segment {
            Some(segment) if !has_witness && !is_known(&segment.plan.schema.schema) => None,
            Some(segment) => rows_of_growing(segment)?,
            None => rows_of_dense(&path, is_known)?,
        };
        // Readers take no more of a dense segment than up to the next name, and find the rest there.
        let most = checked.rows_to_next(first).filter(|_| segment.is_none()).unwrap_or(u64::MAX);
        let found = found.map(|dataset| dataset.slice(0, dataset.len()?.min(most))).transpose()?;
        if let Some(dataset) = found
            && dataset.len()? > 0
        {
            let part = write_part(medium, &dataset, (folder, &path), &WriteOptions::default())?;
            return Ok((Replacement::Dense(part), dataset.len()?));
        }
        if first > 0 {
            return Ok((Replacement::Nothing, 0));
        }
        let header = segment.as_ref().map(|segment| &segment.header);
        let schema = others.into_iter().next_back().map_or_else(|| schema_of(&path), |schema| Ok(Some(schema)))?;
        // The rest of a damaged schema may contain types that can't grow.
        let empty = schema.and_then(|schema| empty_segment(medium, folder, start, &schema, header).transpose());
        Ok((empty.transpose()?.map_or(Replacement::Nothing, |empty| Replacement::Empty(Box::new(empty))), 0))
    }

    fn put(self, medium: &FileSystem, folder: &Path, start: u64) -> Result<()> {
        let place = chain::path(folder, start);
        let failed = |e: std::io::Error| Error::io("replacing the damaged segment", &e);
        match self {
            Replacement::Dense(part) => medium.rename(&part, &place).map_err(failed),
            Replacement::Empty(live) => live.shared.store.replace(&place).map_err(failed),
            Replacement::Nothing if exists(&place)? => medium.remove(&place).map_err(failed),
            Replacement::Nothing => Ok(()),
        }
    }
}

/// A segment without rows and without a name; `None` if the schema allows none.
fn empty_segment(
    medium: &FileSystem,
    folder: &Path,
    start: u64,
    schema: &SchemaRef,
    header: Option<&Header>,
) -> Result<Option<LiveSegment>> {
    let Ok(plan) = Plan::for_schema(&without_settings(schema)) else { return Ok(None) };
    // Damaged settings are given up: a table without the setting is better than no table.
    let default = || WriterOptions::default().settings(&plan);
    let mut settings = match header.map(Header::settings).or_else(|| dense_settings(schema).ok()) {
        Some(settings) => settings,
        None => default()?,
    };
    let type_of = |column: u32| schema.fields().get(column as usize).map(|field| field.data_type());
    settings.sorted_by = settings.sorted_by.filter(|&column| type_of(column).is_some_and(order::is_sortable));
    settings.is_late &= settings.sorted_by.is_some();
    settings.index.retain(|&column| type_of(column).is_some_and(supports_zones));
    first_segment(medium, folder, &Arc::new(plan), start, settings).map(Some)
}

/// The rows before the first damaged one.
///
/// # Errors
/// Those of reading the segment, which may be sound.
fn rows_of_growing(segment: &Segment) -> Result<Option<Dataset>> {
    // Damaged bytes of small durable commits are still good in the log.
    let logged = none_if_corrupt(segment.with_log())?.flatten();
    let segment = logged.as_ref().unwrap_or(segment);
    let mut newest = trusted(segment)?;
    cut_dictionaries(segment, &mut newest);
    let rows = longest(newest.rows(), |rows| is_good(segment, &newest, rows));
    let Some(record) = record_of(segment, &newest, rows) else { return Ok(None) };
    let column = |number: usize| sound(segment.column(number, &record)?);
    let columns = (0..segment.plan.columns.len()).map(column);
    let Some(columns) = none_if_corrupt(columns.collect::<Result<Vec<_>>>())? else { return Ok(None) };
    let dataset = dataset_of(&segment.plan.schema.schema, columns, rows);
    // The positions of the remaining rows are unknown.
    Ok(dataset.map(|dataset| with_settings(dataset, &segment.header.settings(), &BTreeMap::new())))
}

fn dataset_of(schema: &SchemaRef, columns: Vec<ArrayData>, rows: u64) -> Option<Dataset> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
    let columns = columns.into_iter().map(to_array).collect();
    let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options).ok()?;
    Dataset::try_from(vec![batch]).ok()
}

/// The greatest of `0 ..= most` that is good, if everything before a good one is good.
fn longest(most: u64, is_good: impl Fn(u64) -> bool) -> u64 {
    if is_good(most) {
        return most;
    }
    let mut good = 0;
    let mut bad = most;
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_good(middle) { good = middle } else { bad = middle }
    }
    good
}

/// The values of an array, with `?` for each byte of text that is not UTF-8: a value that is none is not worth the rows
/// behind it.
///
/// # Errors
/// `InvalidData` for other damage.
fn sound(array: UncheckedArray) -> Result<ArrayData> {
    array.clone().checked(&[]).or_else(|e| mended(&array)?.checked(&[]).map_err(|_| e))
}

fn mended(array: &UncheckedArray) -> Result<UncheckedArray> {
    let children = array.child_data().iter().map(mended).collect::<Result<Vec<_>>>()?;
    let mut buffers = array.buffers().to_vec();
    let width = match array.data_type() {
        DataType::Utf8 => 4,
        DataType::LargeUtf8 => 8,
        _ => 0,
    };
    if let ([offsets, text], 1..) = (&mut buffers[..], width) {
        let offset = |row: usize| {
            let mut raw = [0; 8];
            raw[..width].copy_from_slice(offsets.get(width * row..width * (row + 1))?);
            usize::try_from(u64::from_le_bytes(raw)).ok()
        };
        let mut bytes = text.to_vec();
        for row in array.offset()..array.offset() + array.len() {
            let range = offset(row).zip(offset(row + 1)).map(|(from, to)| from..to);
            range.and_then(|range| bytes.get_mut(range)).into_iter().for_each(mend);
        }
        *text = Buffer::from_vec(bytes);
    }
    array.with_buffers(buffers, children, |bits| Ok(Buffer::from(bits)))
}

/// Puts `?` in place of what is not UTF-8, so that the text stays as long as it is.
fn mend(text: &mut [u8]) {
    let mut at = 0;
    while let Err(e) = std::str::from_utf8(&text[at..]) {
        let start = at + e.valid_up_to();
        let end = e.error_len().map_or(text.len(), |len| start + len);
        text[start..end].fill(b'?');
        at = end;
    }
}

fn is_good(segment: &Segment, newest: &Record, rows: u64) -> bool {
    let Some(record) = record_of(segment, newest, rows) else { return false };
    (0..segment.plan.columns.len()).all(|number| {
        let Ok(array) = segment.column(number, &record).and_then(sound) else { return false };
        segment.header.order() != Some(number as u32) || order::check_ascending("", &array, None).is_ok()
    })
}

/// The record of a commit of the first `rows` rows, computed from the values; `None` if they are inconsistent.
fn record_of(segment: &Segment, newest: &Record, rows: u64) -> Option<Record> {
    let mut record = newest.clone();
    record.counters[0] = rows;
    for column in &segment.plan.columns {
        count(segment, column, rows, &newest.counters, &mut record.counters)?;
    }
    Some(record)
}

fn count(segment: &Segment, node: &PlanNode, rows: u64, most: &[u64], counters: &mut [u64]) -> Option<()> {
    if let Some(counter) = node.nulls {
        counters[counter] =
            count_zero_bits(&segment.region_slice(node.region, 0, rows.div_ceil(8))?, rows as usize) as u64;
    }
    if let Storage::Bytes { width, counter } | Storage::List { width, counter } = node.kind {
        let (_, end) = offset_at(segment, node.region + 1, width, rows)?;
        counters[counter] = Some(end).filter(|&end| end <= most[counter])?;
    }
    if let Storage::ListViews { width, counter } = node.kind {
        let end = end_of_list_views(segment, node.region, width, rows)?;
        counters[counter] = Some(end).filter(|&end| end <= most[counter])?;
    }
    if let Storage::DenseUnion { first } = node.kind {
        counters[first..first + node.children.len()].copy_from_slice(&members_of(segment, node, rows)?);
    }
    for (number, child) in node.children.iter().enumerate() {
        let rows = node.child_rows(number, rows, counters)?;
        count(segment, child, rows, most, counters)?;
    }
    Some(())
}

/// Dictionaries up to the first damaged text.
fn cut_dictionaries(segment: &Segment, newest: &mut Record) {
    for dictionary in &segment.plan.dictionaries {
        let of = |entries: u64| {
            let mut counters = newest.counters.clone();
            counters[dictionary.entries] = entries;
            count(segment, &dictionary.values, entries, &newest.counters, &mut counters)?;
            let array = segment.dictionary(dictionary, &counters).ok()?;
            array.check(&[]).ok().map(|()| counters)
        };
        let entries = longest(newest.counters[dictionary.entries], |entries| of(entries).is_some());
        if let Some(counters) = of(entries) {
            newest.counters = counters;
        }
    }
}

/// The same for a dense file: the good part of its batch.
fn rows_of_dense(path: &Path, is_known: impl Fn(&SchemaRef) -> bool) -> Result<Option<Dataset>> {
    let bytes = Bytes::from_mapping(Mapping::open(path, Mode::Read)?)?;
    // Without a footer it is read from the front.
    let options = ReadOptions { thorough: true, partial: true, ..ReadOptions::default() };
    let Some(ipc) = none_if_corrupt(IpcSource::open(bytes, Some(path), options))? else { return Ok(None) };
    let mut found = Findings::new(path);
    let whole = ipc.check_all(&mut found, &mut |_, _| ());
    found.into_list()?;
    if whole.is_disputed && !is_known(ipc.schema()) {
        return Ok(None);
    }
    if ipc.num_batches()? == 0 {
        return Ok(None);
    }
    let Some(arrays) = none_if_corrupt(ipc.sound_columns(0))? else { return Ok(None) };
    let sorted_by =
        dense_settings(ipc.schema()).ok().and_then(|settings| settings.order()).map(|column| column as usize);
    let is_good = |rows: u64| {
        arrays.iter().enumerate().all(|(number, array)| {
            let Ok(array) = sound(array.slice(0, rows as usize)) else { return false };
            sorted_by != Some(number) || order::check_ascending("", &array, None).is_ok()
        })
    };
    let Some(span) = none_if_corrupt(ipc.span(0))?.flatten() else { return Ok(None) };
    let rows = longest(span.end, is_good);
    let columns = arrays.iter().map(|array| sound(array.slice(0, rows as usize)));
    let columns = none_if_corrupt(columns.collect::<Result<_>>())?;
    Ok(columns.and_then(|columns| dataset_of(ipc.schema(), columns, rows)))
}
