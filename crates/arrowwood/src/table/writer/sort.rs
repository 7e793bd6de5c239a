//! Rewrites sealed segments in the order of the column by which the table is sorted, across segments.
//!
//! A late row is in a later segment than its neighbours. Segments whose values overlap are merged like sorted runs:
//! memory holds four bytes per row of the segments that overlap at one value (48 bytes per row of one such segment at a
//! time while it is sorted by a type other than a 64-bit number), and one new segment, with 16 bytes per row. All new
//! segments become part of the table at once: they are written to a directory next to it, where the other segments get
//! a second name, and the two directories are exchanged.
//!
//! Merging replaces files one by one, as each row keeps its number. Sorted rows get other numbers: a reader of a new
//! file and an old one would lose some rows and see others twice. The live segment is the same file in both
//! directories, so its writer and followers notice nothing.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::{DataType, FieldRef};

use super::dense::{MERGED_BYTES, SealedSegments, put_dense, with_settings};
use crate::array::access::fixed_values;
use crate::array::gather::{Pick, gather_column};
use crate::array::merge_dictionaries::collect_dictionaries;
use crate::array::{UncheckedArray, Value, value};
use crate::dataset::{BatchSlice, Dataset};
use crate::error::{Error, ErrorKind, Result};
use crate::map::{ChangeCheck, DirectoryLock, FileSystem, StagingDirectory, os};
use crate::table::format::TableSettings;
use crate::table::reader::{chain, converted_segment_dataset};

/// Sorts the rows of the segments before row `end`; returns the number of rewritten segments. The lock moves to the
/// directory that replaces the table's.
pub(super) fn sort_before(
    medium: &FileSystem,
    path: &Path,
    end: u64,
    lock: &DirectoryLock,
    progress: impl FnMut(u64, u64),
) -> Result<u64> {
    let Some(sealed) = SealedSegments::before(medium, path, end)? else { return Ok(0) };
    let SealedSegments { table, starts, known, rows } = sealed;
    let column = known.sorted_by.ok_or_else(unsorted)? as usize;

    let mut segments = Vec::with_capacity(rows.len());
    for rows in &rows {
        segments.push(converted_segment_dataset(&table, rows.start)?);
    }
    let mut ranges = Vec::with_capacity(rows.len());
    for (segment, rows) in segments.iter().zip(&rows) {
        ranges.push(SegmentBounds::try_new(segment, column, rows.clone())?);
    }
    let groups = overlapping(&ranges);
    if groups.is_empty() {
        return Ok(0);
    }

    if !os::CAN_EXCHANGE {
        let message = "sort: the sorted rows can't take the table's place, as this system exchanges no directories; sort \
                       a copy elsewhere";
        return Err(Error::unsupported(message).at(path));
    }
    if !lock.is_replaceable() {
        let message = "the sorted rows can't take the table's place: its directory is a mount point, its name is \
                       longer than 228 bytes, or nothing can be written to the directory that it is in; sort a copy \
                       elsewhere";
        return Err(Error::new(ErrorKind::Io, message).at(path));
    }

    // What is not sorted gets a second name in the new directory.
    let others = files_beside_segments(path)?;
    let newer = StagingDirectory::create_beside(medium, path)
        .map_err(|e| Error::io("making the directory that is to take the table's place", &e).at(path))?;
    for &start in &starts {
        if groups.iter().any(|group| rows_of(&ranges[group.clone()]).contains(&start)) {
            continue;
        }
        let segment = chain::path(path, start);
        newer
            .link(&segment)
            .map_err(|e| Error::io("giving a segment a second name, which stays as it is", &e).at(segment))?;
    }
    for file in others {
        newer.link(&file).map_err(|e| Error::io("giving a file beside the segments a second name", &e).at(file))?;
    }

    let positions = if end == u64::MAX { table.positions()? } else { BTreeMap::new() };
    let last_row = rows.last().map_or(0, |rows| rows.end);
    let all = groups.iter().map(|group| rows_of(&ranges[group.clone()])).map(|rows| rows.end - rows.start).sum();
    let mut output =
        SortedWriter { medium, path, target: &newer, known: &known, positions, last_row, done: 0, all, progress };
    // Values that changed in the file must not replace the originals.
    table.with_change_check(ChangeCheck::Now, || {
        groups.iter().try_for_each(|group| output.merge(&segments[group.clone()], &ranges[group.clone()]))
    })?;

    take_place(medium, path, lock, newer)?;
    Ok(groups.iter().map(|group| group.len() as u64).sum())
}

/// Returns the files of the table's directory that are no segments, such as a user's note.
///
/// # Errors
/// `InvalidArgument` if it holds a directory, which can't be in two; `Io`.
fn files_beside_segments(path: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|e| listing_failed(&e, path))? {
        let entry = entry.map_err(|e| listing_failed(&e, path))?;
        if entry.file_type().map_err(|e| listing_failed(&e, path))?.is_dir() {
            let name = entry.file_name();
            let message = format!("sort: the table's directory holds another one, {name:?}; move it elsewhere");
            return Err(Error::invalid_argument(message).at(path));
        }
        files.push(entry.path());
    }
    files.retain(|file| !chain::is_segment_name(file));
    Ok(files)
}

fn listing_failed(e: &std::io::Error, path: &Path) -> Error {
    Error::io("listing the table's directory", e).at(path)
}

fn unsorted() -> Error {
    Error::invalid_argument(
        "sort: rows are put in the order of the column that a table is sorted by, and this one was created without \
         sorted_by",
    )
}

/// Replaces the table's directory by `sorted`, and removes the files that are no longer the table's.
fn take_place(medium: &FileSystem, path: &Path, lock: &DirectoryLock, sorted: StagingDirectory) -> Result<()> {
    let older = lock.replace_with(sorted).map_err(|e| {
        use std::io::ErrorKind::{CrossesDevices, InvalidInput, ResourceBusy, Unsupported};
        let failed = Error::io("giving the table's place to the sorted one", &e).at(path);
        let is_lacking = matches!(e.kind(), InvalidInput | Unsupported | CrossesDevices | ResourceBusy);
        let what = "the table's directory can't be exchanged with another one, as where it is itself mounted, or on a \
                    file system without such a call (ext4, XFS, Btrfs and tmpfs have it): sort a copy elsewhere";
        if is_lacking { failed.context(what) } else { failed }
    })?;
    match medium.sync_dir(path.parent().unwrap_or(path)) {
        Ok(()) => Ok(()),
        Err(e) => {
            // After a power cut either may be the table.
            older.keep();
            Err(Error::io("syncing the directory that the table is in", &e).at(path))
        }
    }
}

/// The sort key of a value. The variants are in the order of values: NaN after all numbers, and nulls last.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum SortValue<'a> {
    Int(i128),
    Float(f64),
    Decimal(i256),
    Bytes(&'a [u8]),
    Nan,
    Null,
}

impl Eq for SortValue<'_> {}

impl Ord for SortValue<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Any two values of a column have an order, since NaN is not stored as a float here.
        self.partial_cmp(other).unwrap_or(Ordering::Equal)
    }
}

/// The values of a segment's column.
#[derive(Clone, Copy, Debug)]
enum SortColumn<'a> {
    /// Signed numbers of 64 bits without nulls.
    Words(&'a [[u8; 8]]),
    Any(&'a ArrayData),
}

impl<'a> SortColumn<'a> {
    fn new(array: &'a ArrayData) -> SortColumn<'a> {
        let is_word = matches!(
            array.data_type(),
            DataType::Int64 | DataType::Timestamp(..) | DataType::Time64(_) | DataType::Duration(_)
        );
        if is_word && array.null_count() == 0 { SortColumn::Words(fixed_values(array)) } else { SortColumn::Any(array) }
    }

    /// Returns the key of a row.
    fn get(self, row: usize) -> Result<SortValue<'a>> {
        let array = match self {
            SortColumn::Words(words) => return Ok(SortValue::Int(i64::from_le_bytes(words[row]).into())),
            SortColumn::Any(array) => array,
        };
        Ok(match value(array, row)? {
            Value::Null => SortValue::Null,
            Value::Int(n) | Value::Date(n) | Value::Time(n, _) | Value::Timestamp(n, ..) | Value::Duration(n, _) => {
                SortValue::Int(n.into())
            }
            Value::UInt(n) => SortValue::Int(n.into()),
            Value::Float32(x) if x.is_nan() => SortValue::Nan,
            Value::Float64(x) if x.is_nan() => SortValue::Nan,
            Value::Float32(x) => SortValue::Float(x.into()),
            Value::Float64(x) => SortValue::Float(x),
            Value::Decimal { digits, .. } => SortValue::Decimal(digits),
            Value::Str(text) => SortValue::Bytes(text.as_bytes()),
            Value::Bytes(bytes) => SortValue::Bytes(bytes),
            other => return Err(Error::internal(format_args!("{other} in the column that a table is sorted by"))),
        })
    }

    /// Returns the row numbers in sorted order; equal rows keep their order.
    fn order(self, len: usize) -> Result<Vec<u32>> {
        let mut order: Vec<u32> = (0..len as u32).collect();
        match self {
            SortColumn::Words(words) => order.sort_by_key(|&row| i64::from_le_bytes(words[row as usize])),
            SortColumn::Any(_) => {
                let keys = (0..len).map(|row| self.get(row)).collect::<Result<Vec<_>>>()?;
                order.sort_by_key(|&row| keys[row as usize]);
            }
        }
        Ok(order)
    }
}

/// The rows of a segment, their keys, and the smallest and largest of these.
#[derive(Clone, Debug)]
struct SegmentBounds<'a> {
    rows: Range<u64>,
    keys: SortColumn<'a>,
    least: SortValue<'a>,
    most: SortValue<'a>,
    is_sorted: bool,
}

/// Returns the single batch of a segment.
fn batch_of(segment: &Dataset) -> Result<BatchSlice<'_>> {
    segment.parts().next().ok_or_else(|| Error::internal("a sealed segment without rows"))?
}

impl<'a> SegmentBounds<'a> {
    /// Reads the keys of the segment with the given rows.
    fn try_new(segment: &'a Dataset, column: usize, rows: Range<u64>) -> Result<SegmentBounds<'a>> {
        let part = batch_of(segment)?;
        let array = part.checked(part.piece.columns[column])?;
        let len = (rows.end - rows.start) as usize;
        if len == 0 || array.len() != len || u32::try_from(len).is_err() {
            return Err(Error::internal(format_args!("a sealed segment of {} rows, expected {len}", array.len())));
        }
        let keys = SortColumn::new(array);
        let first = keys.get(0)?;
        let mut range = SegmentBounds { rows, keys, least: first, most: first, is_sorted: true };
        let mut before = first;
        for row in 1..len {
            let key = keys.get(row)?;
            range.is_sorted &= before <= key;
            range.least = range.least.min(key);
            range.most = range.most.max(key);
            before = key;
        }
        Ok(range)
    }

    fn len(&self) -> usize {
        (self.rows.end - self.rows.start) as usize
    }
}

/// Returns the rows of consecutive segments.
fn rows_of(ranges: &[SegmentBounds<'_>]) -> Range<u64> {
    ranges.first().map_or(0, |first| first.rows.start)..ranges.last().map_or(0, |last| last.rows.end)
}

/// Returns the segments to rewrite, in groups whose values overlap: all values of a group are at most as large as any
/// of the next.
fn overlapping(ranges: &[SegmentBounds<'_>]) -> Vec<Range<usize>> {
    // The smallest value of all segments after each.
    let mut least_behind: Vec<Option<SortValue<'_>>> = vec![None; ranges.len()];
    for number in (1..ranges.len()).rev() {
        let own = ranges[number].least;
        least_behind[number - 1] = Some(least_behind[number].map_or(own, |least| least.min(own)));
    }

    // A group ends where all values so far are at most as large as any that follows.
    let mut groups = Vec::new();
    let mut start = 0;
    let mut most: Option<SortValue<'_>> = None;
    for (number, range) in ranges.iter().enumerate() {
        let reached = most.map_or(range.most, |most| most.max(range.most));
        most = Some(reached);
        if least_behind[number].is_some_and(|least| least < reached) {
            continue;
        }
        if number > start || !range.is_sorted {
            groups.push(start..number + 1);
        }
        start = number + 1;
    }
    groups
}

/// A segment whose rows are read in sorted order.
struct SortedRun<'a> {
    keys: SortColumn<'a>,
    /// `None` if they are already sorted.
    order: Option<Vec<u32>>,
    /// The number of rows that were taken.
    at: usize,
    len: usize,
}

impl<'a> SortedRun<'a> {
    fn try_new(range: &SegmentBounds<'a>) -> Result<SortedRun<'a>> {
        let len = range.len();
        let order = if range.is_sorted { None } else { Some(range.keys.order(len)?) };
        Ok(SortedRun { keys: range.keys, order, at: 0, len })
    }

    /// Returns the number of the next row.
    fn row(&self) -> usize {
        self.order.as_ref().map_or(self.at, |order| order[self.at] as usize)
    }
}

/// Overlapping segments, merged row by row.
struct Merge<'a, 'b> {
    ranges: &'b [SegmentBounds<'a>],
    /// The segments not begun yet, the one with the largest minimum first.
    waiting: Vec<usize>,
    /// The segments being merged, by their numbers.
    runs: Vec<Option<SortedRun<'a>>>,
    /// The next key of each of these, with the segment's number. Equal keys come in the order of the segments.
    heads: BinaryHeap<Reverse<(SortValue<'a>, usize)>>,
}

impl<'a, 'b> Merge<'a, 'b> {
    fn new(ranges: &'b [SegmentBounds<'a>]) -> Merge<'a, 'b> {
        let mut waiting: Vec<usize> = (0..ranges.len()).collect();
        waiting.sort_by_key(|&number| Reverse((ranges[number].least, number)));
        Merge { ranges, waiting, runs: ranges.iter().map(|_| None).collect(), heads: BinaryHeap::new() }
    }

    /// Returns the next row: its segment and its number there; `None` at the end.
    fn next(&mut self) -> Result<Option<Pick>> {
        while let Some(&number) = self.waiting.last() {
            if let Some(Reverse((smallest, _))) = self.heads.peek()
                && *smallest < self.ranges[number].least
            {
                break;
            }
            self.waiting.pop();
            self.runs[number] = Some(SortedRun::try_new(&self.ranges[number])?);
            self.heads.push(Reverse((self.ranges[number].least, number)));
        }

        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let (key, number) = head.0;
        let run =
            self.runs[number].as_mut().ok_or_else(|| Error::internal("a merge of a segment that was not begun"))?;
        let row = run.row();
        run.at += 1;
        if run.at < run.len {
            let next = run.keys.get(run.row())?;
            if next < key {
                return Err(Error::internal("a sort that leaves a row before a smaller one"));
            }
            *head = Reverse((next, number));
        } else {
            std::collections::binary_heap::PeekMut::pop(head);
            self.runs[number] = None;
        }
        Ok(Some((number as u32, row)))
    }
}

/// The new segments.
struct SortedWriter<'a, P> {
    medium: &'a FileSystem,
    /// The table's directory; incomplete files are written next to it.
    path: &'a Path,
    target: &'a StagingDirectory,
    known: &'a TableSettings,
    /// The positions, for the segment that ends with the table's last row.
    positions: BTreeMap<String, i64>,
    /// The number of the row after the last one to be sorted.
    last_row: u64,
    /// The number of rows that were written.
    done: u64,
    /// The number of rows to be written.
    all: u64,
    /// Called with `done` and `all` after each segment.
    progress: P,
}

impl<P: FnMut(u64, u64)> SortedWriter<'_, P> {
    /// Writes the rows of overlapping segments in sorted order.
    fn merge(&mut self, segments: &[Dataset], ranges: &[SegmentBounds<'_>]) -> Result<()> {
        let rows = rows_of(ranges);
        let bytes = segments.iter().map(Dataset::nbytes).sum::<Result<u64>>()?;
        let per_row = bytes.div_ceil(rows.end - rows.start).max(1);
        let most = self.known.segment_rows.min(MERGED_BYTES / per_row).max(1) as usize;
        let mut merge = Merge::new(ranges);
        let mut picks: Vec<Pick> = Vec::new();
        let mut first_row = rows.start;
        while let Some(pick) = merge.next()? {
            picks.push(pick);
            if picks.len() == most {
                first_row = self.put(segments, &mut picks, first_row)?;
                picks.clear();
            }
        }
        first_row = self.put(segments, &mut picks, first_row)?;
        if first_row == rows.end {
            Ok(())
        } else {
            Err(Error::internal(format_args!("rows up to {first_row} were sorted, expected {}", rows.end)))
        }
    }

    /// Writes one new segment, or several if a column can't hold the rows in one; returns the row number after it.
    fn put(&mut self, segments: &[Dataset], picks: &mut [Pick], first_row: u64) -> Result<u64> {
        if picks.is_empty() {
            return Ok(first_row);
        }
        let used = renumber(picks, segments.len());
        let used: Vec<&Dataset> = used.into_iter().map(|segment| &segments[segment]).collect();
        self.put_used(&used, picks, first_row)
    }

    /// Writes the rows `picks` of the segments that they are in; returns the row number after them.
    fn put_used(&mut self, segments: &[&Dataset], picks: &[Pick], first_row: u64) -> Result<u64> {
        let gathered = match gather(segments, picks) {
            // Text of more than 2 GiB, dictionaries that don't merge, or more than fits into memory.
            Err(e) if e.may_fit_fewer_rows() && picks.len() > 1 => {
                let (front, back) = picks.split_at(picks.len() / 2);
                let middle = self.put_used(segments, front, first_row)?;
                return self.put_used(segments, back, middle);
            }
            gathered => gathered?,
        };
        let end = first_row + picks.len() as u64;
        let none = BTreeMap::new();
        let positions = if end == self.last_row { &self.positions } else { &none };
        let dense = with_settings(gathered, self.known, positions);
        let file = chain::path(self.target.path(), first_row);
        put_dense(self.medium, &dense, self.known, self.path, &file).map_err(|e| e.at(&file))?;
        self.done += picks.len() as u64;
        (self.progress)(self.done, self.all);
        Ok(end)
    }
}

/// Renumbers the segments in `picks` from 0 on; returns the original numbers.
fn renumber(picks: &mut [Pick], segments: usize) -> Vec<usize> {
    let mut numbers: Vec<Option<u32>> = vec![None; segments];
    let mut used = Vec::new();
    for (segment, _) in picks {
        let number = numbers[*segment as usize].get_or_insert_with(|| {
            used.push(*segment as usize);
            used.len() as u32 - 1
        });
        *segment = *number;
    }
    used
}

/// Returns the rows `picks` of segments as one batch.
fn gather(segments: &[&Dataset], picks: &[Pick]) -> Result<Dataset> {
    let parts = segments.iter().map(|segment| batch_of(segment)).collect::<Result<Vec<_>>>()?;
    let schema = segments[0].schema();
    let column = |(number, field): (usize, &FieldRef)| {
        let from = parts.iter().map(|part| part.checked(part.piece.columns[number])).collect::<Result<Vec<_>>>()?;
        let unchecked: Vec<&UncheckedArray> = from.iter().map(|array| UncheckedArray::from_ref(array)).collect();
        let mut known = Vec::new();
        from.iter().for_each(|array| collect_dictionaries(array, &mut known));
        let gathered = gather_column(field, &unchecked, picks).and_then(|array| array.checked(&known));
        gathered.map_err(|e| e.context(format_args!("column '{}'", field.name())))
    };
    let arrays = schema.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
    Ok(Dataset::from_arrays(schema.clone(), vec![(picks.len(), arrays)]))
}
