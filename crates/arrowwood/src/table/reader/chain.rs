//! Lists the segments in a table's folder, and finds out which of them are valid.
//!
//! A commit may fill several segments. Its writer gives the later ones their names, with *provisional* records, before
//! it seals the first one, which makes the commit visible. So a provisional segment counts only if the one before it is
//! sealed and ends where it begins. Segments at the end of the list that don't count are *orphans*, left by a writer
//! that was killed or by a crash; the next writer removes them.

use std::path::{Path, PathBuf};

use super::page_cache_state::UNKNOWN_MOUNT;
use super::recovery::{CommitDurability, open_mapping, open_newest};
use super::segment::Segment;
use crate::array::Bytes;
use crate::dataset::Batches;
use crate::directory::{DirectoryMtime, FileId, exists, is_directory};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{IpcSource, ReadOptions};
use crate::map::{FileSystem, Mapping, Mode, boot_id, hidden_files};
use crate::table::format::Record;
use crate::table::placement::MOST_ROWS;

/// The number of digits in the name of a segment.
const NAME_DIGITS: usize = 20;

/// Returns the name of the segment whose first row is `first_row`.
pub(in crate::table) fn name(first_row: u64) -> String {
    format!("{first_row:0NAME_DIGITS$}.arrow")
}

/// Returns the first row of a segment named `name`; `None` if it is not the name of a segment.
pub(super) fn first_row(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".arrow")?;
    let is_name = digits.len() == NAME_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    is_name.then(|| digits.parse().ok())?.filter(|&row| row < MOST_ROWS)
}

/// Returns true if a file has the name of a segment.
pub(crate) fn is_segment_name(path: &Path) -> bool {
    path.file_name().and_then(|name| first_row(name.to_str()?)).is_some()
}

/// Lists the first rows of the segments in `folder`, in order. Returns `None` if it is not the folder of a table: it
/// contains other Arrow files, or no segment.
pub(in crate::table) fn list(folder: &Path) -> Result<Option<Vec<u64>>> {
    let mut rows = Vec::new();
    let mut partition = None;
    for entry in std::fs::read_dir(folder).map_err(|e| listing_failed(&e, folder))? {
        let entry = entry.map_err(|e| listing_failed(&e, folder))?;
        let name = entry.file_name();
        if partition.is_none() && is_partition(&entry)? {
            partition = Some(name.clone());
        }
        let Some(name) = name.to_str().filter(|name| name.ends_with(".arrow")) else { continue };
        match first_row(name) {
            Some(row) => rows.push(row),
            None => return Ok(None),
        }
    }
    if let Some(partition) = partition.filter(|_| !rows.is_empty()) {
        let message = format!(
            "the directory holds segments of a table and a partition ({partition:?}), so whether its rows belong to a \
             partition is unknown; move one of them"
        );
        return Err(Error::invalid(message).at(folder));
    }
    rows.sort_unstable();
    Ok(Some(rows).filter(|rows| !rows.is_empty()))
}

pub(in crate::table) fn listing_failed(e: &std::io::Error, folder: &Path) -> Error {
    Error::io("listing the directory", e).at(folder)
}

/// Returns true if a directory entry is a partition, as in a directory of partitions: a directory named `key=value`, or
/// a link to one.
fn is_partition(entry: &std::fs::DirEntry) -> Result<bool> {
    let name = entry.file_name();
    let name = name.as_encoded_bytes();
    let has_key = name.contains(&b'=') && !matches!(name.first(), Some(b'=' | b'.' | b'_'));
    if !has_key {
        return Ok(false);
    }
    let kind = entry.file_type().map_err(|e| listing_failed(&e, &entry.path()))?;
    Ok(kind.is_dir() || kind.is_symlink() && is_directory(&entry.path())?)
}

/// Returns true if `folder` is a directory that contains segments, and no other Arrow files.
pub(crate) fn is_table_directory(folder: &Path) -> Result<bool> {
    Ok(is_directory(folder)? && list(folder)?.is_some())
}

/// Lists the segments like [`list`], consistent at one moment: a single listing during which names are added may show a
/// later name but not an earlier one.
///
/// If the folder's times are the same before and after the listing, and too old for a later change to go unnoticed,
/// nothing was added or removed. Otherwise the folder is listed until two listings are equal. That suffices, because
/// names are added, and removed, in the order of their rows: if the first listing shows a name, all earlier names had
/// been added when the second one began. The second one shows each of them, unless it was removed, and then those
/// before it were, too.
///
/// # Errors
/// `Busy` if names change with each listing.
pub(in crate::table) fn list_at_one_moment(folder: &Path) -> Result<Option<Vec<u64>>> {
    let mtime = DirectoryMtime::read(folder).map_err(|e| listing_failed(&e, folder))?;
    let mut starts = list(folder)?;
    // A first segment may have a successor; the caller checks for one once the segment is sealed.
    let is_alone = starts.as_deref() == Some(&[0]);
    if is_alone || !mtime.may_have_changed(folder) {
        return Ok(starts);
    }
    for _ in 0..MAX_LISTINGS {
        let again = list(folder)?;
        if again == starts {
            return Ok(starts);
        }
        starts = again;
    }
    let message =
        format!("segments were added or removed during each of {MAX_LISTINGS} listings of the directory; try again");
    Err(Error::new(ErrorKind::Busy, message).at(folder))
}

/// The maximum number of listings until two are equal.
const MAX_LISTINGS: usize = 1000;

/// Returns the path of a segment beginning with row `first_row` before it gets its name: next to the directory, where
/// listings of the directory don't show it, or inside under a hidden name, if files can't be moved in from there.
pub(in crate::table) fn prepared_path(medium: &FileSystem, folder: &Path, first_row: u64) -> PathBuf {
    medium.hidden_path(folder, &format!("{first_row:0NAME_DIGITS$}.next"))
}

/// Lists the segments waiting for their names: first row and path, in order.
///
/// # Errors
/// Returns the errors of the system: segments that can't be listed may be a part of a commit.
pub(in crate::table) fn prepared(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let hidden = hidden_files(folder).map_err(|e| Error::io("looking for segments without a name", &e).at(folder))?;
    let mut segments = Vec::new();
    for (path, name) in hidden {
        if let Some(digits) = name.strip_suffix(".next")
            && let Some(row) = first_row(&format!("{digits}.arrow"))
        {
            segments.push((row, path));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// The segments of a table, with the last one opened.
#[derive(Debug)]
pub(in crate::table) struct SegmentChain {
    /// The directory of the segments.
    pub folder_id: Option<FileId>,
    /// The first rows of the valid segments.
    pub starts: Vec<u64>,
    /// The first rows of the segments after them that are not valid: parts of a commit that was never made, or was
    /// lost.
    pub orphans: Vec<u64>,
    /// The row after the last one that was committed in an orphan and lost in a system crash; 0 if none was.
    pub lost_end: u64,
    /// The last segment and its newest commit; `None` if it is an Arrow file that doesn't grow.
    pub last: Option<(Segment, Record)>,
}

#[cfg(test)]
thread_local! {
    /// Simulates another process that changes the table when this thread has listed its segments, or opened one.
    pub(in crate::table) static MEANWHILE: std::cell::Cell<Option<Box<dyn FnOnce()>>>
        = const { std::cell::Cell::new(None) };
}

/// The maximum number of attempts while commits go on in new segments.
const MAX_CHAIN_ATTEMPTS: usize = 64;

/// The maximum number of attempts to read a table in which the same file is missing each time.
const MAX_SAME_FILE_ATTEMPTS: usize = 16;

/// The maximum number of attempts to read a table whose directory is being replaced, or whose segments are being
/// removed: each finds another file gone, so another process makes progress.
const MAX_ATTEMPTS: usize = 4096;

/// Repeats `read`, which lists segments and then opens some by their names, if the directory was replaced meanwhile, or
/// a segment was dropped or merged with the one before it.
pub(super) fn repeated<T>(folder: &Path, read: impl Fn() -> Result<T>) -> Result<T> {
    let mut last_missing = None;
    let mut repetitions = 0;
    let mut attempts = 1;
    loop {
        let error = match read() {
            Ok(value) => return Ok(value),
            Err(e) => e,
        };
        let has_changed = match error.kind() {
            ErrorKind::FileChanged => true,
            ErrorKind::NotFound => exists(folder)?,
            _ => false,
        };
        let missing = error.path().map(Path::to_path_buf);
        repetitions = if missing == last_missing { repetitions + 1 } else { 0 };
        if !has_changed || repetitions >= MAX_SAME_FILE_ATTEMPTS || attempts == MAX_ATTEMPTS {
            return Err(error);
        }
        last_missing = missing;
        attempts += 1;
    }
}

impl SegmentChain {
    /// Finds the last valid segment. One that is marked provisional, or that was written before the last boot, is valid
    /// only if the previous one reaches up to it.
    pub fn open(folder: &Path) -> Result<Option<SegmentChain>> {
        let mut chain = SegmentChain::open_once(folder);
        for _ in 1..MAX_CHAIN_ATTEMPTS {
            let is_current = match &chain {
                Ok(Some(chain)) => !chain.is_passed(folder)? && !chain.is_replaced(folder)?,
                // The listed segments may be gone together with a replaced directory.
                Err(e) => e.kind() != ErrorKind::NotFound || !exists(folder)?,
                Ok(None) => true,
            };
            if is_current {
                break;
            }
            chain = SegmentChain::open_once(folder);
        }
        #[cfg(test)]
        meanwhile();
        chain
    }

    /// Returns true if the commit that sealed the last segment continues in another one, which did not exist or was not
    /// valid when the folder was listed: segments get their names before the previous one is sealed. The other one may
    /// be gone again, and then the last one is, too, as segments are dropped in the order of their rows.
    fn is_passed(&self, folder: &Path) -> Result<bool> {
        let Some((segment, record)) = self.last.as_ref().filter(|(_, record)| record.sealed) else { return Ok(false) };
        let Some(end) = segment.header.first_row.checked_add(record.rows()) else { return Ok(false) };
        Ok(exists(&path(folder, end))? || segment.is_removed()?)
    }

    /// Returns true if another directory has replaced the listed one: the last segment may belong to the new one.
    fn is_replaced(&self, folder: &Path) -> Result<bool> {
        Ok(self.folder_id != FileId::find(folder)?)
    }

    /// Lists the segments once, and finds the last valid one.
    fn open_once(folder: &Path) -> Result<Option<SegmentChain>> {
        let folder_id = FileId::find(folder)?;
        let Some(starts) = list_at_one_moment(folder)? else { return Ok(None) };
        assert!(!starts.is_empty(), "a listed table has segments");
        assert!(starts.is_sorted(), "segments are listed in the order of their rows");
        let mut count = starts.len();
        let mut lost_end = 0;
        let last = loop {
            let Some((segment, record)) = open_last(&path(folder, starts[count - 1]))? else { break None };
            if count == starts.len() && is_copy_of_this_boot(&segment, &record)? {
                check_copy(folder, &starts, |segment, newest| Ok(segment.visible_rows()?.max(newest.rows())))?;
            }
            let is_doubtful = record.provisional || record.boot != boot_id() || segment.is_doubtful();
            if count == 1 || !is_doubtful || is_reached(folder, &starts[..count], (&segment, &record))? {
                break Some((segment, record));
            }
            count -= 1;
            if record.boot != boot_id() || segment.is_doubtful() {
                lost_end = lost_end.max(starts[count] + segment.visible_rows()?);
            }
        };

        if let Some((segment, _)) = &last
            && !segment.is_original_file()
        {
            check_copy(folder, &starts[..count], |_, newest| Ok(newest.rows()))?;
        }
        let orphans = starts[count..].to_vec();
        Ok(Some(SegmentChain { folder_id, starts: starts[..count].to_vec(), orphans, lost_end, last }))
    }

    /// Returns the first rows of the sealed segments.
    pub fn sealed(&self) -> &[u64] {
        match (&self.last, &self.starts[..]) {
            // The last segment, too: a compaction may have been killed right after sealing it.
            (Some((_, record)), starts) if record.sealed => starts,
            (_, [sealed @ .., _]) => sealed,
            (_, []) => &[],
        }
    }

    /// Returns the first rows of the segments before row `row`.
    pub fn before(&self, row: u64) -> &[u64] {
        &self.starts[..self.starts.partition_point(|&start| start < row)]
    }

    /// Removes invalid segments; for the writer only.
    pub fn remove_orphans(&self, medium: &FileSystem, folder: &Path) -> Result<()> {
        if self.orphans.is_empty() {
            return Ok(());
        }
        assert!(self.orphans.iter().all(|orphan| !self.starts.contains(orphan)), "only invalid segments are removed");
        // The removal is synced: a segment that reappeared after a power cut could begin where newer rows end.
        let mut orphans = self.orphans.iter().map(|&orphan| path(folder, orphan));
        let removed = orphans.try_for_each(|orphan| medium.remove(&orphan)).and_then(|()| medium.sync_dir(folder));
        removed.map_err(|e| Error::io("removing an unfinished segment", &e))
    }
}

/// Returns the sealed segments that a power cut may lose, the last one first. `starts` are all sealed segments of a
/// table.
///
/// # Errors
/// Returns the errors of opening segments.
pub(in crate::table) fn non_durable_segments(folder: &Path, starts: &[u64]) -> Result<Vec<u64>> {
    let mut non_durable = Vec::new();
    for &start in starts.iter().rev() {
        let durability = match open_newest(&path(folder, start))? {
            Some((segment, record)) if record.boot == boot_id() => segment.durability(&record)?,
            // Segments that survived a system crash, or were made dense.
            _ => CommitDurability::Standalone,
        };
        if durability == CommitDurability::Standalone {
            break;
        }
        non_durable.push((start, durability));
    }
    // A commit across several segments becomes durable as a whole, and its segments after the first stay provisional.
    // Segments before the table's first one were durable when they were dropped.
    while non_durable.last().is_some_and(|&(_, durability)| durability == CommitDurability::Provisional) {
        non_durable.pop();
    }
    Ok(non_durable.into_iter().map(|(start, _)| start).collect())
}

/// Returns true if the segments before the last of `starts`, which is `last`, are sealed and end where the next one
/// begins, back to one that does not depend on others. Segments become durable in order, so none needs to be checked
/// before a durable sealed one.
fn is_reached(folder: &Path, starts: &[u64], last: (&Segment, &Record)) -> Result<bool> {
    let mut is_last = true;
    for (start, next) in with_next(starts).rev() {
        let file = path(folder, start);
        let Some((segment, before)) = open_last(&file)? else {
            // A segment is made dense only once it and all earlier ones are on the disk. It may also contain the rows
            // of the next one.
            return Ok(start + open_dense(&file, ReadOptions::default())?.count_until(u64::MAX)? >= next);
        };
        if !before.sealed || start + before.rows() != next {
            return Ok(false);
        }
        if std::mem::take(&mut is_last) && !has_begun((&segment, &before), last) {
            return Ok(false);
        }
        // If only its proof shows that its rows are there, it may not be durable.
        if !before.provisional && (!segment.is_doubtful() || segment.is_on_disk_alone(&before)?) {
            return Ok(true);
        }
    }
    Ok(true)
}

/// Iterates over the first rows of segments, each with the first row of the next segment. The last one has none, and is
/// left out.
pub(super) fn with_next(starts: &[u64]) -> impl DoubleEndedIterator<Item = (u64, u64)> {
    starts.iter().copied().zip(starts.iter().copied().skip(1))
}

/// Returns the error for an incomplete copy of a table.
fn torn_copy(end: u64, next: u64) -> Error {
    Error::invalid(format!(
        "the segment has rows up to {end}, and the next one begins with row {next}: the table was copied while it was \
         written, or in part; once its writer has closed, copy it again by the same means (rsync -a, cp -u, tar), or \
         let `arrowwood check --repair` keep the rows up to {end}"
    ))
}

/// Returns true if a segment is a copy that was made in this boot, on the file system that it was written to, and its
/// newest record is committed. Any other copy may have been left by a crash or a lost page cache: then the rows before
/// count.
fn is_copy_of_this_boot(segment: &Segment, record: &Record) -> Result<bool> {
    let mount = segment.mapping.mount_info()?.mount;
    let is_same_mount = record.proof.is_some_and(|proof| proof.mount == mount && mount != UNKNOWN_MOUNT);
    Ok(!segment.is_original_file() && !record.provisional && record.boot == boot_id() && is_same_mount)
}

/// Checks that each segment of a copy, except the last, has the rows up to the next one, as `count_rows` counts them. A
/// segment that was copied while it grew has fewer, if later ones were copied later.
///
/// # Errors
/// `InvalidData`, naming the segment, or the errors of opening segments.
fn check_copy(folder: &Path, starts: &[u64], count_rows: impl Fn(&Segment, Record) -> Result<u64>) -> Result<()> {
    for (start, next) in with_next(starts) {
        let file = path(folder, start);
        let rows = match open_file(&file, ReadOptions::default())? {
            SegmentFile::Growable(opened) => {
                let (segment, newest) = *opened;
                count_rows(&segment, newest)?
            }
            // Merged with later segments, whose names are still there.
            SegmentFile::Dense(ipc) => ipc.count_until(u64::MAX)?.min(next - start),
        };
        if start + rows != next {
            return Err(torn_copy(start + rows, next).at(file));
        }
    }
    Ok(())
}

/// Returns true if `segment` has what it must begin with: the positions and the dictionary entries of the segment
/// before it. Only a segment without rows that may have lost bytes in a crash can lack them.
fn has_begun((before, sealed): (&Segment, &Record), (segment, record): (&Segment, &Record)) -> bool {
    let is_sure = record.boot == boot_id() && !segment.is_doubtful();
    if is_sure || record.rows() > 0 {
        return true;
    }
    let dictionaries = segment.plan.dictionaries.iter().zip(&before.plan.dictionaries);
    record.positions.len() >= sealed.positions.len()
        && dictionaries.into_iter().all(|(dictionary, dictionary_before)| {
            record.counters[dictionary.entries] >= sealed.counters[dictionary_before.entries]
        })
}

/// Opens a segment's file through its footer, as any Arrow file.
pub(in crate::table) fn open_dense(path: &Path, options: ReadOptions) -> Result<IpcSource> {
    let mapping = Mapping::open(path, Mode::Read)?;
    IpcSource::open(Bytes::from_mapping_or_copy(mapping)?, Some(path), options).map_err(|e| e.at(path))
}

/// The file of a segment.
#[derive(Debug)]
pub(in crate::table) enum SegmentFile {
    /// A growable segment with its newest commit.
    Growable(Box<(Segment, Record)>),
    Dense(Box<IpcSource>),
}

/// Opens the file of a segment of either kind. The file is opened only once, as a merge may remove its name.
///
/// # Errors
/// Returns the errors of [`open_newest`] and [`open_dense`].
pub(in crate::table) fn open_file(path: &Path, options: ReadOptions) -> Result<SegmentFile> {
    // Repeated for the same reason as in `open_newest`.
    loop {
        let mapping = Mapping::open(path, Mode::Read)?;
        let segment = open_mapping(mapping.clone()).map_err(|e| e.at(path))?;
        #[cfg(test)]
        meanwhile();
        let Some(segment) = segment else {
            let ipc = IpcSource::open(Bytes::from_mapping_or_copy(mapping)?, Some(path), options);
            return ipc.map(|ipc| SegmentFile::Dense(Box::new(ipc))).map_err(|e| e.at(path));
        };
        let record = segment.newest()?;
        if !segment.is_outdated(&record) {
            return Ok(SegmentFile::Growable(Box::new((segment, record))));
        }
    }
}

#[cfg(test)]
fn meanwhile() {
    if let Some(act) = MEANWHILE.take() {
        act();
    }
}

/// Opens a growable segment with its newest commit, and checks that the file has its name; `None` for another Arrow
/// file.
pub(super) fn open_last(path: &Path) -> Result<Option<(Segment, Record)>> {
    let Some((segment, record)) = open_newest(path)? else { return Ok(None) };
    if Some(segment.header.first_row) != path.file_name().and_then(|name| first_row(name.to_str()?)) {
        let message = format!("the segment begins with row {}, which is not its name", segment.header.first_row);
        return Err(Error::invalid(message).at(path));
    }
    Ok(Some((segment, record)))
}

/// Returns the path of a segment.
pub(in crate::table) fn path(folder: &Path, first_row: u64) -> PathBuf {
    folder.join(name(first_row))
}

/// Returns the error for a folder that contains other files than segments.
pub(in crate::table) fn foreign_files_error(folder: &Path) -> Error {
    // Entries that can't be read are skipped: a partition is only needed for the message.
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    if let Some(partition) = entries.find(|entry| matches!(is_partition(entry), Ok(true))) {
        let name = partition.file_name().to_string_lossy().into_owned();
        let message = format!(
            "the directory holds partitions ('{name}'), each of which is a table: write one of them, or split rows by \
             partition"
        );
        return Error::new(ErrorKind::InvalidArgument, message).at(folder);
    }
    let message = "the folder holds other files than a table's segments, and many readers take a folder as a whole; \
                   choose an empty one, or a new name";
    Error::new(ErrorKind::InvalidArgument, message).at(folder)
}
