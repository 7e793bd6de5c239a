//! Repairs a damaged table: the rows before the damage stay, the rest moves to a folder next to the table.
//!
//! ```text
//! ticks/000 ticks/100 ticks/200          ticks/000 ticks/100 (dense, rows 100 to 163)
//!           damaged              ──▶     ticks.damaged/100 ticks.damaged/200
//! ```
//! Nothing is written into a damaged file, except that a prepared commit is finished as by the next writer. The new
//! file is on the disk before anything moves, and so are the segments before it; then the segments move, the last one
//! first, so that an interrupted repair leaves a table with the same damage and fewer segments after it.
//!
//! If all rows of the damaged segment are good, up to the next one, it alone moves. Text that is not UTF-8 costs no
//! row: `?` takes the place of its bytes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use super::footer_check::has_witness;
use super::segments::{check_all_segments, newest_undamaged, schema_of};
use super::table_check::{SegmentCheck, TableCheck};
use crate::array::{Bytes, UncheckedArray, to_array};
use crate::dataset::{Batches, Dataset, order};
use crate::directory::{FileId, exists, is_directory};
use crate::error::{Error, Findings, Result, none_if_corrupt};
use crate::ipc::{IpcSource, ReadOptions, WriteOptions, count_zero_bits};
use crate::map::{DirectoryLock, FileSystem, Mapping, Mode, remove_leftovers};
use crate::rows::{Plan, PlanDictionary, PlanNode, ROWS, Storage, supports_zones};
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
    let Some(before) = check_all_segments(folder, false, progress)? else { return Ok(None) };
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
    /// The same directory, without symbolic links in its path.
    home: &'a Path,
    lock: &'a DirectoryLock,
}

impl TableRepair<'_> {
    /// Replaces damaged segments one by one, as long as the ones after them can stay, and otherwise moves those aside
    /// as well.
    fn run(&self, before: &TableCheck, progress: &mut dyn FnMut(u64, u64)) -> Result<RepairReport> {
        let parts_removed = remove_leftovers(self.lock.medium(), self.home);
        parts_removed.map_err(|e| Error::io("syncing the directory that the table is in", &e).at(self.folder))?;
        let mut repaired = RepairReport { given_up: Some(0), ..RepairReport::default() };

        // A commit is kept or given up as a whole, so the repair begins like the next writer would.
        let is_changed = finish_commit(self.lock.medium(), self.home)?;

        // Merges are finished before anything moves: a damaged leftover of a merge costs no rows, and no file may be
        // put in its place.
        let is_finished = finish_merges(self.lock.medium(), self.home, &|start| before.is_damaged(start))?;
        restore_footers(self.lock.medium(), self.home, &before.without_footers())?;
        let mut rechecked = if is_changed || is_finished { Some(self.recheck(progress)?) } else { None };
        let mut replaced = None;

        loop {
            let checked = rechecked.as_ref().unwrap_or(before);
            let Some(first) = checked.segments.iter().position(SegmentCheck::has_damage) else {
                repaired.kept = checked.rows();
                return Ok(repaired);
            };
            let start = checked.segments[first].start;
            assert!(
                replaced.is_none_or(|replaced| replaced <= start),
                "segments are replaced in the order of their rows"
            );
            let sound: Vec<u64> = checked.segments[..first].iter().map(|segment| segment.start).collect();
            sync_segments(self.lock.medium(), self.home, &sound)?;
            let (replacement, rows) = Replacement::write(self.lock.medium(), self.home, checked, first)?;
            // Each segment is replaced alone only once: behind a new file that is damaged, too, the others can't stay.
            if checked.is_whole(first, rows) && replaced != Some(start) {
                repaired.moved.extend(self.replace(replacement, start, &[start])?);
                replaced = Some(start);
                rechecked = Some(self.recheck(progress)?);
                continue;
            }
            // A folder that is gone has no segments.
            let segments = chain::list(self.folder)?;
            let moving: Vec<u64> = segments.iter().flatten().copied().filter(|&other| other >= start).collect();
            repaired.moved.extend(self.replace(replacement, start, &moving)?);
            // A dense segment before may have rows of the damaged one.
            let rows = checked.end_before(first).saturating_sub(start).max(rows);
            repaired.kept = checked.segments[..first].iter().filter_map(|segment| segment.rows).sum::<u64>() + rows;
            repaired.given_up = rows_from(checked, first).map(|rows_before| rows_before.saturating_sub(rows));
            return Ok(repaired);
        }
    }

    /// Checks the table after something in it was changed.
    fn recheck(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<TableCheck> {
        check_all_segments(self.folder, false, progress)?
            .ok_or_else(|| Error::internal("the repaired table has no segment").at(self.folder))
    }

    /// Moves the segments `moving` aside, of which `start` is the first, and puts the replacement in its place. Returns
    /// the paths to which they were moved.
    fn replace(&self, replacement: Replacement, start: u64, moving: &[u64]) -> Result<Vec<PathBuf>> {
        assert!(moving.is_sorted(), "segments are listed in order");
        let medium = self.lock.medium();
        medium.check_directory().map_err(|e| Error::io("reading the table to be repaired", &e).at(self.folder))?;

        // A segment can't be moved out of a mount point.
        let is_mount_point = !self.lock.is_replaceable();
        let aside = create_damaged_folder(self.folder, moving, is_mount_point)?;
        for &other in moving.iter().rev().filter(|&&other| other != start) {
            let from = chain::path(self.home, other);
            let to = aside.join(chain::name(other));
            // An interrupted repair may have given it both names, and a rename between them does nothing.
            let moved = if is_same_file(&from, &to)? {
                sync_folder(&aside)?;
                medium.remove(&from)
            } else {
                medium.rename(&from, &to)
            };
            moved.map_err(|e| moving_failed(&e, &from))?;
        }

        let path = chain::path(self.home, start);
        link_aside(&path, &aside.join(chain::name(start))).map_err(|e| e.at(&path))?;

        // The new names are on the disk before the damaged file loses its old one.
        sync_folder(&aside)?;
        replacement.put(medium, self.home, start).map_err(|e| e.at(&path))?;
        self.lock.sync().map_err(|e| Error::io("syncing the directory", &e).at(self.folder))?;
        if let Some(parent) = self.folder.parent().filter(|_| !is_mount_point) {
            sync_folder(parent)?;
        }
        Ok(moving.iter().map(|&other| aside.join(chain::name(other))).collect())
    }
}

fn moving_failed(e: &std::io::Error, path: &Path) -> Error {
    Error::io("moving a damaged file out of the way", e).at(path)
}

/// Returns the number of rows from segment `first` on; `None` if unknown.
fn rows_from(checked: &TableCheck, first: usize) -> Option<u64> {
    let mut sum = 0;
    for (number, segment) in checked.segments.iter().enumerate().skip(first) {
        // Rows missing before the next segment are given up as well.
        sum += segment.rows.max(checked.rows_to_next(number))?;
    }
    Some(sum)
}

/// Returns `path` with `.damaged` appended, or `.damaged-2` and so on: the first name for which `is_free` returns true.
///
/// # Errors
/// Returns the errors of `is_free`.
pub(crate) fn damaged_path(path: &Path, is_free: impl Fn(&Path) -> Result<bool>) -> Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    numbered(name, is_free)
}

/// Returns `name`, or `name` with `-2` and so on appended: the first one for which `is_free` returns true.
fn numbered(name: OsString, is_free: impl Fn(&Path) -> Result<bool>) -> Result<PathBuf> {
    let mut path = PathBuf::from(&name);
    let mut number = 1;
    while !is_free(&path)? {
        number += 1;
        let mut numbered = name.clone();
        numbered.push(format!("-{number}"));
        path = numbered.into();
    }
    Ok(path)
}

/// Creates or finds a folder next to the table, or hidden inside, that contains none of the segments to be moved there.
fn create_damaged_folder(folder: &Path, moving: &[u64], is_inside: bool) -> Result<PathBuf> {
    let aside = if is_inside {
        numbered(folder.join(".damaged").into(), |aside| has_room_for(aside, folder, moving))
    } else {
        damaged_path(folder, |aside| has_room_for(aside, folder, moving))
    }?;
    if !is_directory(&aside)? {
        // The files must not become accessible to more users than before.
        fs::create_dir(&aside)
            .and_then(|()| fs::set_permissions(&aside, fs::metadata(folder)?.permissions()))
            .map_err(|e| Error::io("making a directory for the damaged files", &e).at(&aside))?;
    }
    // An interrupted repair may have created it without syncing its name.
    if let Some(parent) = aside.parent() {
        sync_folder(parent)?;
    }
    Ok(aside)
}

/// Returns true if the segments `moving` of the table in `folder` can be moved to the folder `aside`, or were moved
/// there.
fn has_room_for(aside: &Path, folder: &Path, moving: &[u64]) -> Result<bool> {
    if exists(aside)? && !is_directory(aside)? {
        return Ok(false);
    }
    for &start in moving {
        let path = aside.join(chain::name(start));
        if exists(&path)? && !is_same_file(&chain::path(folder, start), &path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if two names belong to the same file.
fn is_same_file(a: &Path, b: &Path) -> Result<bool> {
    let id = FileId::find(a)?;
    Ok(id.is_some() && id == FileId::find(b)?)
}

/// Returns true if the error may be that of a file system without hard links.
fn lacks_links(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied | io::ErrorKind::TooManyLinks)
}

/// Gives the file at `path` the second name `aside`, so that it stays when `path` is replaced.
pub(crate) fn link_aside(path: &Path, aside: &Path) -> Result<()> {
    if is_same_file(path, aside)? {
        return Ok(());
    }
    let linked = match fs::hard_link(path, aside) {
        // Without hard links there is a moment without a file of that name.
        Err(e) if lacks_links(&e) && !exists(aside)? => fs::rename(path, aside),
        linked => linked,
    };
    linked.map_err(|e| moving_failed(&e, path))
}

/// Syncs the names added to and removed from a folder.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    FileSystem::default().sync_dir(folder).map_err(|e| Error::io("syncing the directory", &e).at(folder))
}

/// The replacement of the damaged segment.
enum Replacement {
    /// The good rows, in a dense file without a name yet.
    Dense(PathBuf),
    /// An empty segment for the writer to continue with: the table has no rows.
    Empty(Box<LiveSegment>),
    /// No file: segments before have all rows, or none is good.
    Nothing,
}

impl Replacement {
    /// Writes the good rows of segment number `first` to the disk, and returns their number.
    fn write(medium: &FileSystem, folder: &Path, checked: &TableCheck, first: usize) -> Result<(Replacement, u64)> {
        let start = checked.segments[first].start;
        if checked.end_before(first) > start {
            // A dense segment before has these rows, and a new file with this name would hide them.
            return Ok((Replacement::Nothing, 0));
        }
        let path = chain::path(folder, start);
        let segment = none_if_corrupt(open_segment(&path))?.flatten();
        let mut other_schemas = Vec::new();

        for other in checked.segments.iter().filter(|other| other.start != start) {
            other_schemas.extend(schema_of(&chain::path(folder, other.start))?);
        }
        let good_rows = match &segment {
            // The segment's copies of its schema may disagree; another segment can decide.
            Some(segment) if !has_witness(segment)? && !has_schema(&other_schemas, &segment.plan.schema.schema) => None,
            Some(segment) => good_rows_of_growable(segment)?,
            None => good_rows_of_dense(&path, &other_schemas)?,
        };

        if let Some(dataset) = good_rows {
            let mut rows = dataset.len()?;
            if segment.is_none()
                && let Some(rows_to_next) = checked.rows_to_next(first)
            {
                // Readers take no more of a dense segment than up to the next name, and find the rest there.
                rows = rows.min(rows_to_next);
            }
            if rows > 0 {
                let dataset = dataset.slice(0, rows)?;
                let part = write_part(medium, &dataset, (folder, &path), &WriteOptions::default())?;
                return Ok((Replacement::Dense(part), rows));
            }
        }

        if first > 0 {
            return Ok((Replacement::Nothing, 0));
        }
        let schema = match other_schemas.pop() {
            Some(schema) => Some(schema),
            None => schema_of(&path)?,
        };
        let header = segment.as_ref().map(|segment| &segment.header);
        if let Some(schema) = schema
            && let Some(empty) = empty_segment(medium, folder, start, &schema, header)?
        {
            return Ok((Replacement::Empty(Box::new(empty)), 0));
        }

        // The rest of a damaged schema contains types that can't grow.
        Ok((Replacement::Nothing, 0))
    }

    /// Puts the replacement in the place of the segment that begins with row `start`.
    fn put(self, medium: &FileSystem, folder: &Path, start: u64) -> Result<()> {
        let path = chain::path(folder, start);
        let replaced = match self {
            Replacement::Dense(part) => medium.rename(&part, &path),
            Replacement::Empty(live) => live.shared.store.replace(&path),
            Replacement::Nothing if exists(&path)? => medium.remove(&path),
            Replacement::Nothing => Ok(()),
        };
        replaced.map_err(|e| Error::io("replacing the damaged segment", &e))
    }
}

/// Returns true if `schema` is one of `schemas`, apart from the table's settings in its metadata.
fn has_schema(schemas: &[SchemaRef], schema: &SchemaRef) -> bool {
    schemas.iter().any(|other| without_settings(other) == without_settings(schema))
}

/// Creates a segment without rows and without a name; `None` if the schema allows none.
fn empty_segment(
    medium: &FileSystem,
    folder: &Path,
    start: u64,
    schema: &SchemaRef,
    header: Option<&Header>,
) -> Result<Option<LiveSegment>> {
    let Ok(plan) = Plan::for_schema(&without_settings(schema)) else { return Ok(None) };
    let mut settings = match (header, dense_settings(schema)) {
        (Some(header), _) => header.settings(),
        (None, Ok(settings)) => settings,
        // Damaged settings are given up: a table without the setting is better than no table.
        (None, Err(_)) => WriterOptions::default().settings(&plan)?,
    };
    let data_type = |column: u32| Some(schema.fields().get(column as usize)?.data_type());
    settings.sorted_by = settings.sorted_by.filter(|&column| data_type(column).is_some_and(order::is_sortable));
    settings.is_late &= settings.sorted_by.is_some();
    settings.index.retain(|&column| data_type(column).is_some_and(supports_zones));
    first_segment(medium, folder, &Arc::new(plan), start, settings).map(Some)
}

/// Returns the rows before the first damaged one.
///
/// # Errors
/// Returns the errors of reading the segment, which may be sound.
fn good_rows_of_growable(segment: &Segment) -> Result<Option<Dataset>> {
    // Damaged bytes of small durable commits are still good in the log.
    let logged = none_if_corrupt(segment.with_log())?.flatten();
    let segment = logged.as_ref().unwrap_or(segment);
    let mut newest = newest_undamaged(segment)?;
    cut_dictionaries(segment, &mut newest);
    let rows = longest_prefix(newest.rows(), |rows| is_good(segment, &newest, rows));
    let Some(record) = record_with_rows(segment, &newest, rows) else { return Ok(None) };
    let mut columns = Vec::new();
    for number in 0..segment.plan.columns.len() {
        let column = segment.column(number, &record).and_then(check_and_mend);
        let Some(column) = none_if_corrupt(column)? else { return Ok(None) };
        columns.push(column);
    }
    let dataset = dataset_from_columns(&segment.plan.schema.schema, columns, rows);
    // The positions of the remaining rows are unknown.
    Ok(dataset.map(|dataset| with_settings(dataset, &segment.header.settings(), &BTreeMap::new())))
}

/// Makes a dataset of one batch; `None` if the columns don't fit the schema.
fn dataset_from_columns(schema: &SchemaRef, columns: Vec<ArrayData>, rows: u64) -> Option<Dataset> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
    let columns = columns.into_iter().map(to_array).collect();
    let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options).ok()?;
    Dataset::try_from(vec![batch]).ok()
}

/// Returns the largest number in `0 ..= max` for which `is_good` returns true, if it does so for all smaller ones.
fn longest_prefix(max: u64, is_good: impl Fn(u64) -> bool) -> u64 {
    if is_good(max) {
        return max;
    }
    let mut good = 0;
    let mut bad = max;
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_good(middle) { good = middle } else { bad = middle }
    }
    good
}

/// Checks an array, and replaces each byte of text that is not UTF-8 by `?`: rows are not given up for invalid text.
///
/// # Errors
/// `InvalidData` for other damage.
fn check_and_mend(array: UncheckedArray) -> Result<ArrayData> {
    array.clone().checked(&[]).or_else(|e| mend_array(&array)?.checked(&[]).map_err(|_| e))
}

/// Returns the array with valid UTF-8 in all of its text.
fn mend_array(array: &UncheckedArray) -> Result<UncheckedArray> {
    let children = array.child_data().iter().map(mend_array).collect::<Result<Vec<_>>>()?;
    let mut buffers = array.buffers().to_vec();
    let width = match array.data_type() {
        DataType::Utf8 => Some(size_of::<i32>()),
        DataType::LargeUtf8 => Some(size_of::<i64>()),
        _ => None,
    };
    if let ([offsets, text], Some(width)) = (&mut buffers[..], width) {
        let mut bytes = text.to_vec();
        for row in array.offset()..array.offset() + array.len() {
            if let Some(start) = text_offset(offsets, width, row)
                && let Some(end) = text_offset(offsets, width, row + 1)
                && let Some(value) = bytes.get_mut(start..end)
            {
                mend_text(value);
            }
        }
        *text = Buffer::from_vec(bytes);
    }
    array.with_buffers(buffers, children, |bits| Ok(Buffer::from(bits)))
}

/// Reads offset `number` of `width` bytes; `None` if there is none.
fn text_offset(offsets: &[u8], width: usize, number: usize) -> Option<usize> {
    let mut raw = [0; size_of::<u64>()];
    raw[..width].copy_from_slice(offsets.get(width * number..width * (number + 1))?);
    usize::try_from(u64::from_le_bytes(raw)).ok()
}

/// Replaces bytes that are not UTF-8 by `?`, so that the text keeps its length.
fn mend_text(text: &mut [u8]) {
    let mut valid = 0;
    while let Err(e) = std::str::from_utf8(&text[valid..]) {
        let start = valid + e.valid_up_to();
        let end = e.error_len().map_or(text.len(), |len| start + len);
        text[start..end].fill(b'?');
        valid = end;
    }
}

/// Returns true if the first `rows` rows of the commit of `newest` have no damage.
fn is_good(segment: &Segment, newest: &Record, rows: u64) -> bool {
    let Some(record) = record_with_rows(segment, newest, rows) else { return false };
    (0..segment.plan.columns.len()).all(|number| {
        let Ok(array) = segment.column(number, &record).and_then(check_and_mend) else { return false };
        segment.header.order() != Some(number as u32) || order::check_ascending("", &array, None).is_ok()
    })
}

/// Returns the record of a commit of the first `rows` rows, computed from the values; `None` if they are inconsistent.
fn record_with_rows(segment: &Segment, newest: &Record, rows: u64) -> Option<Record> {
    assert!(rows <= newest.rows(), "{rows} rows of a commit with {}", newest.rows());
    let mut record = newest.clone();
    record.counters[ROWS] = rows;
    for column in &segment.plan.columns {
        count(segment, column, rows, &newest.counters, &mut record.counters)?;
    }
    Some(record)
}

/// Sets the counters of a node and its children for the first `rows` rows; `None` if one would be more than in `max`.
fn count(segment: &Segment, node: &PlanNode, rows: u64, max: &[u64], counters: &mut [u64]) -> Option<()> {
    if let Some(counter) = node.nulls {
        counters[counter] =
            count_zero_bits(&segment.region_slice(node.region, 0, rows.div_ceil(8))?, rows as usize) as u64;
    }
    if let Storage::Bytes { width, counter } | Storage::List { width, counter } = node.kind {
        let (_, end) = offset_at(segment, node.values_region(), width, rows)?;
        counters[counter] = Some(end).filter(|&end| end <= max[counter])?;
    }
    if let Storage::ListViews { width, counter } = node.kind {
        let end = end_of_list_views(segment, node.region, width, rows)?;
        counters[counter] = Some(end).filter(|&end| end <= max[counter])?;
    }
    if let Storage::DenseUnion { first } = node.kind {
        counters[first..first + node.children.len()].copy_from_slice(&members_of(segment, node, rows)?);
    }
    for (number, child) in node.children.iter().enumerate() {
        let rows = node.child_rows(number, rows, counters)?;
        count(segment, child, rows, max, counters)?;
    }
    Some(())
}

/// Cuts each dictionary in `newest` before its first damaged entry.
fn cut_dictionaries(segment: &Segment, newest: &mut Record) {
    for dictionary in &segment.plan.dictionaries {
        let entries = longest_prefix(newest.counters[dictionary.entries], |entries| {
            counters_with_entries(segment, dictionary, &newest.counters, entries).is_some()
        });
        if let Some(counters) = counters_with_entries(segment, dictionary, &newest.counters, entries) {
            newest.counters = counters;
        }
    }
}

/// Returns the counters with the first `entries` entries of a dictionary; `None` if one of them is damaged.
fn counters_with_entries(
    segment: &Segment,
    dictionary: &PlanDictionary,
    max: &[u64],
    entries: u64,
) -> Option<Vec<u64>> {
    let mut counters = max.to_vec();
    counters[dictionary.entries] = entries;
    count(segment, &dictionary.values, entries, max, &mut counters)?;
    segment.dictionary(dictionary, &counters).and_then(|array| array.check(&[])).ok()?;
    Some(counters)
}

/// Returns the rows before the first damaged one of a dense file. `other_schemas` are the schemas of other segments.
///
/// # Errors
/// Returns the errors of reading the file, which may be sound.
fn good_rows_of_dense(path: &Path, other_schemas: &[SchemaRef]) -> Result<Option<Dataset>> {
    let bytes = Bytes::from_mapping(Mapping::open(path, Mode::Read)?)?;
    // Without a footer it is read from the front.
    let options = ReadOptions { thorough: true, partial: true, ..ReadOptions::default() };
    let Some(ipc) = none_if_corrupt(IpcSource::open(bytes, Some(path), options))? else { return Ok(None) };
    let mut findings = Findings::new(path);
    let summary = ipc.check_all(&mut findings, &mut |_, _| ());
    findings.into_list()?;
    if summary.is_disputed && !has_schema(other_schemas, ipc.schema()) {
        return Ok(None);
    }
    if ipc.num_batches()? == 0 {
        return Ok(None);
    }
    let Some(arrays) = none_if_corrupt(ipc.sound_columns(0))? else { return Ok(None) };
    let sorted_by =
        dense_settings(ipc.schema()).ok().and_then(|settings| settings.order()).map(|column| column as usize);
    let Some(span) = none_if_corrupt(ipc.span(0))?.flatten() else { return Ok(None) };
    let rows = longest_prefix(span.end, |rows| {
        arrays.iter().enumerate().all(|(number, array)| {
            let Ok(array) = check_and_mend(array.slice(0, rows as usize)) else { return false };
            sorted_by != Some(number) || order::check_ascending("", &array, None).is_ok()
        })
    });

    let columns = arrays.iter().map(|array| check_and_mend(array.slice(0, rows as usize)));
    let columns = none_if_corrupt(columns.collect::<Result<_>>())?;
    Ok(columns.and_then(|columns| dataset_from_columns(ipc.schema(), columns, rows)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// Regression test: the path of a second directory was converted to UTF-8 and back, and was in another directory
    /// then.
    #[test]
    fn damaged_paths_keep_bytes_that_are_not_utf8() {
        let table = Path::new(OsStr::from_bytes(b"caf\xe9/ticks"));
        let taken = Cell::new(2_u32);
        let path = damaged_path(table, |_| Ok(taken.replace(taken.get().saturating_sub(1)) == 0)).unwrap();
        assert_eq!(path.as_os_str().as_bytes(), b"caf\xe9/ticks.damaged-3");
    }
}
