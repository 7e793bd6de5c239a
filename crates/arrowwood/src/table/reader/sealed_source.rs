//! Reads the sealed segments of a table as a source of batches. They are opened when their rows are first needed.
//!
//! All datasets of a table share one [`SegmentList`], which only grows: a [`SealedSource`] is its first `len` entries,
//! so a refresh that finds one more sealed segment copies nothing. Three things are shared between threads:
//!
//! - The list. Entries are added under the mutex `adding`, and read without it: an [`AppendVec`] never moves an entry.
//! - The file of an entry, an `OnceLock`. Threads that need it at the same time may all open it, and the first one's
//!   file is kept. They hold no lock meanwhile.
//! - `TableInfo::dropped`, which only increases. A reader that doesn't find a segment raises it, so that the next
//!   refresh lists the directory. Relaxed order suffices: nothing else is published by it, and a reader that sees it
//!   late refreshes late.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{Schema, SchemaRef};

use super::chain;
use super::chain::{SegmentFile, open_file};
use super::segment::Segment;
use crate::append_vec::AppendVec;
use crate::array::{UncheckedArray, slice};
#[cfg(feature = "compute")]
use crate::dataset::Zones;
use crate::dataset::order::is_sortable;
use crate::dataset::{
    Batches, ConstantColumn, ConvertedColumns, Facts, Files, Footprint, SchemaConversion, Source, ViewSource, Zone,
};
use crate::directory::{FileId, exists};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{IpcSource, ReadOptions};
use crate::map::{ChangeCheck, MutexExt, mappings_are_scarce};
use crate::rows::supports_zones;
use crate::table::format::{
    ACCEPTS_LATE, DEFAULT_ROWS, INDEX, POSITIONS, Record, SEGMENT_ROWS, SORTED_BY, TableSettings, ZONE_ROWS,
};
use crate::table::zones;

/// The maximum number of attempts to find a segment merged into another one while that one is merged again.
const MAX_MERGES: usize = 64;

/// The keys in a dense segment's metadata that are not part of the schema.
const SETTINGS: [&str; 5] = [SORTED_BY, SEGMENT_ROWS, POSITIONS, ACCEPTS_LATE, INDEX];

/// The properties shared by all segments of a table.
#[derive(Debug)]
pub(super) struct TableInfo {
    pub folder: PathBuf,
    /// The directory whose segments were listed.
    pub folder_id: Option<FileId>,
    pub schema: SchemaRef,
    pub options: ReadOptions,
    /// The settings of the newest segment.
    pub settings: TableSettings,
    /// The row before which segments were found to be gone; only increases.
    pub dropped: AtomicU64,
}

/// A segment at one commit, with the columns that were needed so far.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub segment: Arc<Segment>,
    pub record: Record,
    /// Each column over the record's rows, with unchecked values.
    pub columns: Box<[OnceLock<UncheckedArray>]>,
    /// Each column, once its values were checked.
    pub checked: Box<[OnceLock<ArrayData>]>,
}

/// Returns the error for a live segment at `path` that is gone.
pub(super) fn removed(path: &Path) -> Error {
    let message = "the live segment was removed, or replaced by another table's, while it was followed";
    Error::new(ErrorKind::FileChanged, message).at(path)
}

/// Returns the error for a table whose row numbers have changed.
pub(super) fn replaced(folder: &Path) -> Error {
    let message = "the directory was replaced after the table was opened, as by compact with sort: rows have other \
                   numbers now; open the table again";
    Error::new(ErrorKind::FileChanged, message).at(folder)
}

impl TableInfo {
    /// Returns true if the directory is still the listed one. Sorting replaces it by another one.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_in_place(&self) -> Result<bool> {
        Ok(FileId::find(&self.folder)? == self.folder_id)
    }

    /// Returns the error for changed row numbers.
    pub fn replaced(&self) -> Error {
        replaced(&self.folder)
    }

    /// Returns the first row of the last current segment that begins at row `row` or before: after a merge, the dense
    /// segment that has the row.
    fn start_at_or_before(&self, row: u64) -> Result<Option<u64>> {
        let starts = chain::list_at_one_moment(&self.folder)?;
        Ok(starts.and_then(|starts| starts.into_iter().rev().find(|&start| start <= row)))
    }

    /// See [`Source::successor`].
    pub fn successor(&self, file: &Path) -> Result<Option<PathBuf>> {
        let Some(row) = file.file_name().and_then(|name| chain::first_row(name.to_str()?)) else { return Ok(None) };
        let start = self.start_at_or_before(row)?;
        if self.is_in_place()? { Ok(start.map(|start| chain::path(&self.folder, start))) } else { Err(self.replaced()) }
    }

    /// Returns the facts about all rows of the table.
    pub fn facts(&self) -> Facts<'_> {
        let late_by = self.settings.sorted_by.filter(|_| self.settings.is_late);
        Facts {
            sorted_by: self.settings.order().map(|column| column as usize),
            late_by: late_by.map(|column| column as usize),
            ..Facts::new(Some(&self.folder), None)
        }
    }

    /// Returns true if segments may have zones for a column.
    #[cfg(feature = "compute")]
    pub fn has_index(&self, column: usize) -> bool {
        self.settings.index.iter().any(|&indexed| indexed as usize == column)
    }
}

impl Snapshot {
    /// Returns the zones of a column, if there are any.
    #[cfg(feature = "compute")]
    pub fn zones(&self, column: usize) -> Result<Option<Zones>> {
        let Some(map) = self.segment.plan.zones.iter().find(|map| map.column == column) else { return Ok(None) };
        let list = self.segment.zones(map, &self.record)?;
        Ok(Some(Zones { rows: map.rows, skipped: 0, list }))
    }

    /// Creates a snapshot whose columns are made when they are needed.
    pub fn new(segment: Arc<Segment>, record: Record) -> Snapshot {
        let count = segment.plan.columns.len();
        let columns = (0..count).map(|_| OnceLock::new()).collect();
        let checked = (0..count).map(|_| OnceLock::new()).collect();
        Snapshot { segment, record, columns, checked }
    }

    /// Returns a column, whose values are unchecked.
    pub fn column(&self, column: usize) -> Result<&UncheckedArray> {
        let cell = self.columns.get(column).ok_or_else(|| no_column(column))?;
        match cell.get() {
            Some(array) => Ok(array),
            None => {
                let array = self.segment.column(column, &self.record)?;
                Ok(cell.get_or_init(|| array))
            }
        }
    }

    /// Returns a column, whose values are checked by the first call.
    ///
    /// # Errors
    /// `InvalidData` for a damaged value.
    pub fn checked(&self, column: usize) -> Result<&ArrayData> {
        if let Some(array) = self.checked.get(column).and_then(OnceLock::get) {
            return Ok(array);
        }
        let array = self.column(column)?.clone();
        let name = self.segment.plan.columns[column].field.name();
        let checked = self.segment.checked(column, array, &self.record);
        let checked = checked.map_err(|e| e.context(format_args!("column '{name}'")).at(self.segment.path()))?;
        Ok(self.checked[column].get_or_init(|| checked))
    }
}

#[cold]
fn no_column(column: usize) -> Error {
    Error::invalid_argument(format!("there is no column {column}"))
}

/// A sealed segment, or the Arrow file that replaced it. The next segment begins at `first_row + rows`.
#[derive(Debug)]
pub(super) struct SegmentEntry {
    pub first_row: u64,
    pub rows: u64,
    /// The file, once the rows were needed.
    pub opened: OnceLock<OpenedFile>,
}

/// The opened file of a segment. File and conversion are set together: if two threads open the segment, one may find
/// the file that replaced the other's, with another schema.
#[derive(Debug)]
pub(super) struct OpenedFile {
    pub file: OpenedSegment,
    /// The conversion of a file with an older schema than the table's.
    pub conversion: Option<Box<ConvertedColumns>>,
}

/// The file of a sealed segment.
#[derive(Debug)]
pub(super) enum OpenedSegment {
    /// The file as its writer has left it, at its last commit.
    Growable(Snapshot),
    /// An Arrow file with the rows of this segment alone.
    Dense(Box<IpcSource>),
    /// Some rows of a dense segment into which this one was merged.
    DenseSlice(Box<DenseSlice>),
}

/// Some rows of a dense segment, whose file has one batch.
#[derive(Debug)]
pub(super) struct DenseSlice {
    ipc: IpcSource,
    /// The number in the batch of the first row.
    start: usize,
    rows: usize,
    /// The columns of the slice, once they were needed: unchecked, and checked.
    columns: Box<[OnceLock<UncheckedArray>]>,
    checked: Box<[OnceLock<ArrayData>]>,
}

impl DenseSlice {
    fn column(&self, column: usize) -> Result<&UncheckedArray> {
        let whole = self.ipc.column(0, column)?;
        let cell = self.columns.get(column).ok_or_else(|| no_column(column))?;
        Ok(cell.get_or_init(|| whole.slice(self.start, self.rows)))
    }

    fn checked(&self, column: usize) -> Result<&ArrayData> {
        let whole = self.ipc.checked_column(0, column)?;
        let cell = self.checked.get(column).ok_or_else(|| no_column(column))?;
        Ok(cell.get_or_init(|| slice(whole, self.start, self.rows)))
    }
}

/// The sealed segments of a table in the order of their rows; later ones are added.
#[derive(Debug)]
struct SegmentList {
    list: AppendVec<Arc<SegmentEntry>>,
    /// Locked while entries are added.
    adding: Mutex<()>,
}

/// All segments except the live one: the first `len` of a list shared with all newer datasets.
#[derive(Debug)]
pub(super) struct SealedSource {
    pub table: Arc<TableInfo>,
    sealed: Arc<SegmentList>,
    len: usize,
    /// If no live segment follows: the file of the last segment, noted before it was opened.
    pub last_file: Option<FileId>,
}

/// Returns a setting of the table in a dense segment's schema metadata.
///
/// # Errors
/// `InvalidData` if it is not a number.
fn parse_setting(schema: &Schema, key: &str) -> Result<Option<u64>> {
    let Some(text) = schema.metadata().get(key) else { return Ok(None) };
    let number = text.parse().map_err(|_| {
        Error::invalid(format!("the schema's metadata has '{text}' for {key}, expected a number; restore the file"))
    });
    number.map(Some)
}

/// Returns the column by which a dense segment is sorted.
///
/// # Errors
/// `InvalidData` if the schema's metadata names an impossible column.
fn parse_sorted_by(schema: &Schema) -> Result<Option<usize>> {
    let Some(number) = parse_setting(schema, SORTED_BY)? else { return Ok(None) };
    let column = usize::try_from(number).ok().and_then(|number| schema.fields().get(number));
    if !column.is_some_and(|column| is_sortable(column.data_type())) {
        return Err(Error::invalid(format!(
            "the schema's metadata has {number} for {SORTED_BY}, expected the number of a column whose values have an \
             order; restore the file"
        )));
    }
    Ok(Some(number as usize))
}

/// Returns the table's settings in a dense segment.
///
/// # Errors
/// `InvalidData` if the schema's metadata is invalid.
pub(in crate::table) fn dense_settings(schema: &Schema) -> Result<TableSettings> {
    let sorted_by = parse_sorted_by(schema)?.map(|column| column as u32);
    let is_late = parse_setting(schema, ACCEPTS_LATE)?.is_some_and(|late| late > 0) && sorted_by.is_some();
    let segment_rows = parse_setting(schema, SEGMENT_ROWS)?.unwrap_or(DEFAULT_ROWS);
    let text = schema.metadata().get(INDEX).map_or("", String::as_str);
    let Some(index) = text.split_whitespace().map(|number| parse_indexed_column(schema, number)).collect() else {
        return Err(Error::invalid(format!(
            "the schema's metadata has '{text}' for {INDEX}, expected numbers of columns whose values have an order; \
             restore the file"
        )));
    };
    Ok(TableSettings { sorted_by, is_late, segment_rows, index, zone_rows: ZONE_ROWS })
}

fn parse_indexed_column(schema: &Schema, number: &str) -> Option<u32> {
    let column = number.parse::<u16>().ok()?;
    let field = schema.fields().get(usize::from(column))?;
    supports_zones(field.data_type()).then_some(column.into())
}

/// Returns the positions, by name, in the schema metadata of a dense segment.
///
/// # Errors
/// `InvalidData` if the schema's metadata is invalid.
pub(super) fn dense_positions(schema: &Schema) -> Result<Vec<(String, i64)>> {
    let text = schema.metadata().get(POSITIONS).map_or("", String::as_str);
    let Some(positions) = text.lines().map(parse_position).collect() else {
        return Err(Error::invalid(format!(
            "the schema's metadata has '{text}' for {POSITIONS}, expected a number and a name a line"
        )));
    };
    Ok(positions)
}

fn parse_position(line: &str) -> Option<(String, i64)> {
    let (value, name) = line.split_once(' ')?;
    Some((name.to_string(), value.parse().ok()?))
}

/// Returns the schema as it was when the table was created, without the table's settings in its metadata.
pub(in crate::table) fn without_settings(schema: &SchemaRef) -> SchemaRef {
    let mut metadata = schema.metadata().clone();
    metadata.retain(|key, _| !SETTINGS.contains(&key.as_str()));
    Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata))
}

impl OpenedFile {
    /// Returns the memory that the file and its converted columns take.
    fn footprint(&self) -> Footprint {
        let mut footprint = match &self.file {
            OpenedSegment::Growable(snapshot) => {
                Footprint { mapped: snapshot.segment.used(&snapshot.record), copied: 0 }
            }
            OpenedSegment::Dense(ipc) => ipc.footprint(),
            OpenedSegment::DenseSlice(slice) => slice.ipc.footprint(),
        };
        if let Some(conversion) = &self.conversion {
            footprint.copied += conversion.copied();
        }
        footprint
    }
}

impl OpenedSegment {
    fn resident(&self) -> Result<u64> {
        match self {
            OpenedSegment::Growable(snapshot) => Ok(snapshot.segment.mapping.resident()? as u64),
            OpenedSegment::Dense(ipc) => ipc.resident(),
            OpenedSegment::DenseSlice(slice) => slice.ipc.resident(),
        }
    }

    pub fn schema(&self) -> &SchemaRef {
        match self {
            OpenedSegment::Growable(snapshot) => &snapshot.segment.plan.schema.schema,
            OpenedSegment::Dense(ipc) => ipc.schema(),
            OpenedSegment::DenseSlice(slice) => slice.ipc.schema(),
        }
    }

    fn column(&self, column: usize) -> Result<&UncheckedArray> {
        match self {
            OpenedSegment::Growable(snapshot) => snapshot.column(column),
            OpenedSegment::Dense(ipc) => ipc.column(0, column),
            OpenedSegment::DenseSlice(slice) => slice.column(column),
        }
    }

    fn checked(&self, column: usize) -> Result<&ArrayData> {
        match self {
            OpenedSegment::Growable(snapshot) => snapshot.checked(column),
            OpenedSegment::Dense(ipc) => ipc.checked_column(0, column),
            OpenedSegment::DenseSlice(slice) => slice.checked(column),
        }
    }

    /// Closes the file, which stays mapped.
    pub fn close_file(&self) {
        match self {
            OpenedSegment::Growable(snapshot) => snapshot.segment.mapping.close_file(),
            OpenedSegment::Dense(ipc) => ipc.close_file(),
            OpenedSegment::DenseSlice(slice) => slice.ipc.close_file(),
        }
    }
}

/// Returns the zones of a column of a dense segment, from its footer.
///
/// # Errors
/// `InvalidData` if they can't be zones of the column.
pub(in crate::table) fn dense_zones(ipc: &IpcSource, column: usize) -> Result<Option<(u64, Vec<Zone>)>> {
    let Some(text) = ipc.zones() else { return Ok(None) };
    let data_type = ipc.schema().field(column).data_type();
    zones::parse_zones(text, column as u32, data_type, ipc.count_until(u64::MAX)?)
        .map_err(|problem| Error::invalid(format!("{problem}; restore the file, or create the table again")))
}

impl SegmentEntry {
    /// Creates an entry for a segment that is opened when it is needed.
    pub fn new(first_row: u64, rows: u64) -> Arc<SegmentEntry> {
        Arc::new(SegmentEntry { first_row, rows, opened: OnceLock::new() })
    }

    /// Creates an entry for an open segment whose file has the table's schema.
    pub fn opened(first_row: u64, rows: u64, file: OpenedSegment) -> Arc<SegmentEntry> {
        let opened = OnceLock::from(OpenedFile { file, conversion: None });
        Arc::new(SegmentEntry { first_row, rows, opened })
    }

    /// Returns the file, if it was opened.
    pub fn file(&self) -> Option<&OpenedSegment> {
        self.opened.get().map(|opened| &opened.file)
    }

    /// Returns the segment's file, which is opened by the first call.
    ///
    /// # Errors
    /// `NotFound` if the segment was dropped, `FileChanged` if the directory was replaced, or the errors of opening the
    /// file.
    pub fn open(&self, table: &TableInfo) -> Result<&OpenedFile> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let path = chain::path(&table.folder, self.first_row);
        let file = self.open_by_name(table, &path);
        // A directory that replaced it may have other rows under the name, or none.
        if !table.is_in_place()? {
            return Err(table.replaced());
        }
        let file = file.inspect_err(|e| {
            if e.kind() == ErrorKind::NotFound {
                // So that the next refresh looks for the segments there are.
                table.dropped.fetch_max(self.first_row + self.rows, Ordering::Relaxed);
            }
        })?;
        let conversion = self.check(&file, table).map_err(|e| e.at(&path))?;
        let conversion = conversion.map(|conversion| Box::new(ConvertedColumns::new(conversion, self.rows as usize)));
        // A table may have more segments than a process may have open files.
        file.close_file();
        Ok(self.opened.get_or_init(|| OpenedFile { file, conversion }))
    }

    /// Opens the file with the segment's name, or the dense file into which the segment was merged.
    fn open_by_name(&self, table: &TableInfo, path: &Path) -> Result<OpenedSegment> {
        match open_file(path, table.options) {
            Ok(SegmentFile::Growable(opened)) => {
                let (segment, record) = *opened;
                let first_row = segment.header.first_row;
                if first_row != self.first_row {
                    let message = format!("the segment begins with row {first_row}, which is not its name");
                    return Err(Error::invalid(message).at(path));
                }
                // Rows followed by a later segment are committed, whether or not this segment is marked as sealed. Near
                // the limit of mappings, a copy of its contents is read.
                let segment = if mappings_are_scarce() { segment.copied(&record)? } else { segment };
                Ok(OpenedSegment::Growable(Snapshot::new(Arc::new(segment), record)))
            }
            Ok(SegmentFile::Dense(ipc)) => self.slice_dense(*ipc, self.first_row).map_err(|e| e.at(path)),
            Err(e) if e.kind() == ErrorKind::NotFound => self.merged(table)?.ok_or_else(|| {
                let message = "the segment was removed (drop_before) after the table was opened; refresh the dataset";
                Error::new(ErrorKind::NotFound, message).at(path)
            }),
            Err(e) => Err(e),
        }
    }

    /// Returns the rows of this segment in a dense file that begins with row `first_row` and may contain rows of its
    /// neighbours: names are removed after the file with all their rows is in place.
    fn slice_dense(&self, ipc: IpcSource, first_row: u64) -> Result<OpenedSegment> {
        assert!(first_row <= self.first_row, "a file from row {first_row} on for rows from {}", self.first_row);
        let rows = ipc.count_until(u64::MAX)?;
        let start = self.first_row - first_row;
        let reaches = start.checked_add(self.rows).is_some_and(|end| end <= rows);
        if !reaches || rows == self.rows || ipc.num_batches()? != 1 {
            return Ok(OpenedSegment::Dense(Box::new(ipc)));
        }
        let count = ipc.schema().fields().len();
        let columns = (0..count).map(|_| OnceLock::new()).collect();
        let checked = (0..count).map(|_| OnceLock::new()).collect();
        let slice = DenseSlice { ipc, start: start as usize, rows: self.rows as usize, columns, checked };
        Ok(OpenedSegment::DenseSlice(Box::new(slice)))
    }

    /// Returns the rows of this segment in the previous one by name, if the two were merged; `None` if they were
    /// dropped.
    fn merged(&self, table: &TableInfo) -> Result<Option<OpenedSegment>> {
        for _ in 0..MAX_MERGES {
            let Some(before) = table.start_at_or_before(self.first_row)? else { return Ok(None) };
            let path = chain::path(&table.folder, before);
            match open_file(&path, table.options) {
                Ok(SegmentFile::Dense(ipc)) => {
                    let opened = self.slice_dense(*ipc, before).map_err(|e| e.at(&path))?;
                    return Ok(Some(opened).filter(|opened| matches!(opened, OpenedSegment::DenseSlice(_))));
                }
                Ok(SegmentFile::Growable(_)) => return Ok(None),
                // Merged again, or dropped.
                Err(e) if e.kind() == ErrorKind::NotFound => (),
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Checks that the segment belongs to the table; returns the mapping of its columns to the table's if its schema is
    /// older.
    fn check(&self, opened: &OpenedSegment, table: &TableInfo) -> Result<Option<SchemaConversion>> {
        let (rows, batches) = match opened {
            OpenedSegment::Growable(snapshot) => (snapshot.record.rows(), 1),
            OpenedSegment::Dense(ipc) => (ipc.count_until(u64::MAX)?, ipc.num_batches()?),
            OpenedSegment::DenseSlice(slice) => (slice.rows as u64, 1),
        };
        let conversion = match SchemaConversion::try_new(&table.schema, opened.schema()) {
            // Its rows were rewritten with a newer schema than the table had when it was opened.
            Err(e) if !matches!(opened, OpenedSegment::Growable(_)) => {
                SchemaConversion::try_reverse(&table.schema, opened.schema()).map(Some).map_err(|_| e)
            }
            converted => converted,
        };
        let conversion = conversion.map_err(|e| e.context("the schemas of the table and of this segment differ"))?;
        if rows != self.rows || batches != 1 {
            let expected = self.rows;
            let message = format!("a segment of {rows} rows in {batches} batches, expected {expected} rows in 1 batch");
            return Err(Error::invalid(message));
        }
        Ok(conversion)
    }

    fn column(&self, table: &TableInfo, column: usize) -> Result<&UncheckedArray> {
        let OpenedFile { file, conversion } = self.open(table)?;
        match conversion {
            None => file.column(column),
            Some(conversion) => match conversion.unchanged_column(column) {
                Some(column) => file.column(column),
                None => conversion.checked(column, |column| file.checked(column)).map(UncheckedArray::from_ref),
            },
        }
    }

    fn checked(&self, table: &TableInfo, column: usize) -> Result<&ArrayData> {
        let OpenedFile { file, conversion } = self.open(table)?;
        match conversion {
            None => file.checked(column),
            Some(conversion) => conversion.checked(column, |column| file.checked(column)),
        }
    }
}

impl SealedSource {
    /// Creates a source of the segments `entries`, in order; `None` if there are none.
    pub fn new(
        table: &Arc<TableInfo>,
        entries: Vec<Arc<SegmentEntry>>,
        last_file: Option<FileId>,
    ) -> Option<Arc<SealedSource>> {
        let sealed = SegmentList { list: AppendVec::new(), adding: Mutex::new(()) };
        let len = entries.len();
        assert!(
            entries.is_sorted_by(|a, b| a.first_row + a.rows <= b.first_row),
            "segments are in the order of their rows, and don't overlap"
        );
        let is_added = entries.into_iter().all(|entry| sealed.list.push(entry));
        assert!(is_added, "a folder has no room for {len} segments");
        let sealed = Arc::new(sealed);
        (len > 0).then(|| Arc::new(SealedSource { table: table.clone(), sealed, len, last_file }))
    }

    /// Returns the source with `sealed` added after its segments, which stay in place. Datasets that learn of the same
    /// segments at the same time share them; `None` if another one has added different segments, and the caller has to
    /// begin a list of its own.
    pub fn with(&self, sealed: Vec<Arc<SegmentEntry>>) -> Option<Arc<SealedSource>> {
        let _adding = self.sealed.adding.lock_ignoring_poison();
        let mut len = self.len;
        for entry in sealed {
            let is_added = match self.sealed.list.get(len) {
                Some(added) => added.first_row == entry.first_row && added.rows == entry.rows,
                None => self.sealed.list.push(entry),
            };
            if !is_added {
                return None;
            }
            len += 1;
        }
        let table = self.table.clone();
        let sealed = self.sealed.clone();
        Some(Arc::new(SealedSource { table, sealed, len, last_file: None }))
    }

    /// Iterates over the segments in the order of their rows.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<SegmentEntry>> {
        (0..self.len).filter_map(|number| self.sealed.list.get(number))
    }

    /// Returns the last segment.
    pub fn last(&self) -> Option<&Arc<SegmentEntry>> {
        self.sealed.list.get(self.len.checked_sub(1)?)
    }

    /// Returns the segment whose first row is `first_row`.
    pub fn find(&self, first_row: u64) -> Option<&Arc<SegmentEntry>> {
        let number = self.sealed.list.partition_point(|entry| entry.first_row < first_row);
        self.get(number).filter(|entry| entry.first_row == first_row)
    }

    fn get(&self, number: usize) -> Option<&Arc<SegmentEntry>> {
        if number < self.len { self.sealed.list.get(number) } else { None }
    }

    /// Returns segment number `batch`.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub fn entry(&self, batch: usize) -> Result<&SegmentEntry> {
        self.get(batch).map(Arc::as_ref).ok_or_else(|| Error::invalid_argument(format!("there is no batch {batch}")))
    }

    /// Returns the path at which rows continue.
    pub fn next_path(&self) -> PathBuf {
        chain::path(&self.table.folder, self.last().map_or(0, |last| last.first_row + last.rows))
    }

    /// Returns true if the last segment is still the same file: it may have been removed together with later ones, or
    /// merged with them, and then no segment has the name of its end.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_last_file(&self) -> Result<bool> {
        let path = chain::path(&self.table.folder, self.last().map_or(0, |last| last.first_row));
        Ok(self.last_file == FileId::find(&path)?)
    }

    /// Returns true if there is no segment behind these, and none is known to be gone.
    pub fn is_newest(&self) -> Result<bool> {
        let is_last = !exists(&self.next_path())? && !self.lacks_segments();
        Ok(is_last && self.is_last_file()? && self.table.is_in_place()?)
    }

    /// Returns true if some of the segments are known to be gone.
    pub fn lacks_segments(&self) -> bool {
        self.table.dropped.load(Ordering::Relaxed) > self.start()
    }

    /// Returns the first row.
    pub fn start(&self) -> u64 {
        self.get(0).map_or(0, |entry| entry.first_row)
    }
}

impl Batches for SealedSource {
    fn schema(&self) -> &SchemaRef {
        &self.table.schema
    }

    fn count_until(&self, _until: u64) -> Result<u64> {
        Ok(self.last().map_or(0, |last| last.first_row + last.rows - self.start()))
    }

    fn num_batches(&self) -> Result<usize> {
        Ok(self.len)
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        let Some(entry) = self.get(batch) else { return Ok(None) };
        let start = entry.first_row - self.start();
        Ok(Some(start..start + entry.rows))
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        let row = row + self.start();
        let batch = self.sealed.list.partition_point(|entry| entry.first_row + entry.rows <= row);
        Ok((batch < self.len).then_some(batch))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        self.locate_by_len(back)
    }

    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray> {
        self.entry(batch)?.column(&self.table, column)
    }

    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        self.entry(batch)?.checked(&self.table, column)
    }

    fn footprint(&self) -> Footprint {
        self.entries().filter_map(|entry| entry.opened.get()).map(OpenedFile::footprint).sum()
    }

    fn check_unchanged(&self, batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        let mut entries = (batches.start..batches.end.min(self.len)).filter_map(|number| self.get(number));
        entries.try_for_each(|entry| match entry.file() {
            Some(OpenedSegment::Growable(snapshot)) => snapshot.segment.check_unchanged(when),
            Some(OpenedSegment::Dense(ipc)) => ipc.check_unchanged(0..usize::MAX, when),
            Some(OpenedSegment::DenseSlice(slice)) => slice.ipc.check_unchanged(0..usize::MAX, when),
            None => Ok(()),
        })
    }

    fn resident(&self) -> Result<u64> {
        self.entries().filter_map(|entry| entry.file()).map(OpenedSegment::resident).sum()
    }
}

impl Source for SealedSource {
    fn facts(&self) -> Facts<'_> {
        Facts { files: Some(self), first_row: self.start(), ..self.table.facts() }
    }

    fn constants(&self) -> &[ConstantColumn] {
        &[]
    }

    fn view(&self) -> Option<&dyn ViewSource> {
        None
    }

    fn adapted(&self) -> Option<&dyn Source> {
        None
    }

    fn adapted_column(&self, _column: usize) -> Option<usize> {
        None
    }

    #[cfg(feature = "compute")]
    fn has_zones(&self, column: usize) -> bool {
        self.table.has_index(column)
    }

    #[cfg(feature = "compute")]
    fn zones(&self, batch: usize, column: usize) -> Result<Option<Zones>> {
        let OpenedFile { file, conversion } = self.entry(batch)?.open(&self.table)?;
        // Zones are of the stored values.
        let stored = conversion.as_ref().map_or(Some(column), |conversion| conversion.unchanged_column(column));
        let Some(column) = stored else { return Ok(None) };
        match file {
            OpenedSegment::Growable(snapshot) => snapshot.zones(column),
            OpenedSegment::Dense(ipc) => {
                let zones = dense_zones(ipc, column)?;
                Ok(zones.map(|(rows, list)| Zones { rows, skipped: 0, list }))
            }
            OpenedSegment::DenseSlice(slice) => {
                let zones = dense_zones(&slice.ipc, column)?;
                Ok(zones.map(|(rows, list)| Zones { rows, skipped: slice.start as u64, list }))
            }
        }
    }
}

impl Files for SealedSource {
    fn list(&self) -> Vec<PathBuf> {
        self.entries().map(|entry| chain::path(&self.table.folder, entry.first_row)).collect()
    }

    fn version(&self) -> Option<String> {
        self.table.folder_id?.persistent_id().map(|made| format!("table {made}"))
    }

    fn are_merged(&self) -> bool {
        true
    }

    fn successor(&self, file: &Path) -> Result<Option<PathBuf>> {
        self.table.successor(file)
    }
}

#[cfg(test)]
mod tests {
    use crate::table::reader::chain::MEANWHILE;
    use crate::table::{Writer, WriterOptions, compact};
    use crate::{Value, open, parse_schema};

    /// A dense segment was merged between two steps of a reader that opened it by name, and its rows were reported as
    /// dropped.
    #[test]
    fn rows_of_a_segment_merged_during_open_are_read_from_the_merged_file() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let options = |rows| WriterOptions { segment_rows: Some(rows), ..WriterOptions::default() };
        let mut writer = Writer::open(&table, Some(parse_schema("n: int64").unwrap().into()), &options(4)).unwrap();
        for number in 0..12 {
            writer.append_row(&[Value::Int(number)]).unwrap();
        }
        writer.close().unwrap();
        compact(&table, |_, _| ()).unwrap();
        let count_files = || std::fs::read_dir(&table).unwrap().count();
        assert_eq!(count_files(), 3, "each is full, and none was merged");
        let unopened = open(&table).unwrap();
        let mut writer = Writer::open(&table, None, &options(1 << 20)).unwrap();
        MEANWHILE.set(Some(Box::new(move || _ = writer.compact(|_, _| ()).unwrap())));
        let rows = unopened.slice(4, 4).unwrap();
        assert_eq!(rows.column("n").unwrap().sum().unwrap().to_string(), "22");
        assert_eq!(count_files(), 2, "the three were merged, and one grows");
        assert_eq!(unopened.column("n").unwrap().sum().unwrap().to_string(), "66");
    }
}
