//! The folder of a table: its segments by name, and which of them are valid.

use std::path::{Path, PathBuf};

use super::recovery::{CommitDurability, open_mapping, open_newest};
use super::segment::Segment;
use crate::array::Bytes;
use crate::dataset::Batches;
use crate::directory::{DirectoryMtime, FileId, exists, is_directory};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{IpcSource, ReadOptions};
use crate::map::{FileSystem, Mapping, Mode, boot_id, hidden_files};
use crate::table::format::{Proof, Record};
use crate::table::placement::MOST_ROWS;

/// The name of the segment whose first row is `first_row`.
pub(in crate::table) fn name(first_row: u64) -> String {
    format!("{first_row:020}.arrow")
}

/// The first row of a segment named `name`; `None` if it is not the name of a segment.
pub(super) fn first_row(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".arrow")?;
    let is_name = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    is_name.then(|| digits.parse().ok())?.filter(|&row| row < MOST_ROWS)
}

/// Whether a file has the name of a segment.
pub(crate) fn is_segment_name(path: &Path) -> bool {
    path.file_name().and_then(|name| first_row(name.to_str()?)).is_some()
}

/// First rows of the segments in `folder`, in order. `None` if it is not the folder of a table: it contains other Arrow
/// files, or no segment.
pub(in crate::table) fn list(folder: &Path) -> Result<Option<Vec<u64>>> {
    let failed = |e: std::io::Error| Error::io("listing the directory", &e).at(folder);
    let mut rows = Vec::new();
    let mut partition = None;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
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

/// Whether a directory entry is a partition, as a directory of partitions is listed: a directory named `key=value`, or a
/// link to one.
fn is_partition(entry: &std::fs::DirEntry) -> Result<bool> {
    let name = entry.file_name();
    let name = name.as_encoded_bytes();
    let is_named_so = name.contains(&b'=') && !matches!(name.first(), Some(b'=' | b'.' | b'_'));
    if !is_named_so {
        return Ok(false);
    }
    let kind = entry.file_type().map_err(|e| Error::io("listing the directory", &e).at(entry.path()))?;
    Ok(kind.is_dir() || kind.is_symlink() && is_directory(&entry.path())?)
}

/// Whether `folder` is a directory that contains segments, and no other Arrow files.
pub(crate) fn is_table_directory(folder: &Path) -> Result<bool> {
    Ok(is_directory(folder)? && list(folder)?.is_some())
}

/// As [`list`], consistent at one moment: a listing during which names are added may show a later name but not an
/// earlier one. If the folder's times are the same before and after the listing, and too old for a later change to go
/// unnoticed, nothing was added or removed. Otherwise it is listed again: names are added, and removed, in the order of
/// their rows. If the first of two listings shows a name, all earlier names existed when the second one began, which
/// therefore shows them or, if they were removed, none before them.
///
/// # Errors
/// `Busy` if names change with each listing.
pub(in crate::table) fn list_at_one_moment(folder: &Path) -> Result<Option<Vec<u64>>> {
    let failed = |e: std::io::Error| Error::io("listing the directory", &e).at(folder);
    let before = DirectoryMtime::read(folder).map_err(failed)?;
    let mut found = list(folder)?;
    // For the first segment alone, the caller checks for a successor once it is sealed.
    let is_alone = found.as_deref() == Some(&[0]);
    if is_alone || !before.may_have_changed(folder) {
        return Ok(found);
    }
    for _ in 0..LISTINGS {
        let again = list(folder)?;
        if again == found {
            return Ok(found);
        }
        found = again;
    }
    let message =
        format!("segments were added or removed during each of {LISTINGS} listings of the directory; try again");
    Err(Error::new(ErrorKind::Busy, message).at(folder))
}

/// The number of listings until two are equal.
const LISTINGS: usize = 1000;

/// The path of a segment beginning with row `first_row` before it gets its name: beside the directory, where listings
/// of the directory don't show it, or inside under a hidden name, if files can't be moved in from there.
pub(in crate::table) fn prepared_path(medium: &FileSystem, folder: &Path, first_row: u64) -> PathBuf {
    medium.hidden_path(folder, &format!("{first_row:020}.next"))
}

/// The segments waiting for their names: first row and path, in order.
///
/// # Errors
/// Those of the system: what can't be listed may be a part of a commit.
pub(in crate::table) fn prepared(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let row = |rest: &str| first_row(&format!("{}.arrow", rest.strip_suffix(".next")?));
    let hidden = hidden_files(folder).map_err(|e| Error::io("looking for segments without a name", &e).at(folder))?;
    let mut found: Vec<_> = hidden.into_iter().filter_map(|(path, rest)| Some((row(&rest)?, path))).collect();
    found.sort_unstable();
    Ok(found)
}

/// The end of a table: its segments, with the last one opened.
#[derive(Debug)]
pub(in crate::table) struct SegmentChain {
    /// The directory of the segments.
    pub folder_id: Option<FileId>,
    /// The first rows of the valid segments.
    pub starts: Vec<u64>,
    /// Segments of an uncommitted transaction.
    pub orphans: Vec<u64>,
    /// The row after the last one that was committed in an orphan, and lost in a system crash.
    pub lost_end: u64,
    /// The last segment and its newest commit; `None` if it is an Arrow file that doesn't grow.
    pub last: Option<(Segment, Record)>,
}

#[cfg(test)]
thread_local! {
    /// What another process does to the table when this thread has listed its segments, or looked into the file of one.
    pub(in crate::table) static MEANWHILE: std::cell::Cell<Option<Box<dyn FnOnce()>>>
        = const { std::cell::Cell::new(None) };
}

/// The number of repeated listings while a commit crosses the end of a segment.
const LOOKS: usize = 64;

/// The number of attempts to read a table of which the same file is never there.
const TRIES: usize = 16;

/// The number of attempts to read a table whose directory is being replaced, or whose segments are being removed: each
/// finds another file gone, so that somebody else has got on.
const MOST_TRIES: usize = 4096;

/// Repeats `look`, which lists segments and then opens some by their names, if the directory was replaced meanwhile, or a
/// segment was dropped or merged with the one before it.
pub(super) fn repeated<T>(folder: &Path, look: impl Fn() -> Result<T>) -> Result<T> {
    let mut found = look();
    let mut gone = None;
    let mut same = 0;
    for _ in 1..MOST_TRIES {
        let is_passed = match found.as_ref().map_err(Error::kind) {
            Err(ErrorKind::FileChanged) => true,
            Err(ErrorKind::NotFound) => exists(folder)?,
            _ => false,
        };
        let file = found.as_ref().err().and_then(Error::path).map(Path::to_path_buf);
        same = if file == gone { same + 1 } else { 0 };
        if !is_passed || same >= TRIES {
            break;
        }
        gone = file;
        found = look();
    }
    found
}

impl SegmentChain {
    /// Finds the last valid segment. One that is marked provisional, or that was written before the last boot, is valid
    /// only if the previous one reaches up to it.
    pub fn open(folder: &Path) -> Result<Option<SegmentChain>> {
        let mut chain = SegmentChain::look(folder);
        for _ in 1..LOOKS {
            let is_over = match &chain {
                Ok(Some(chain)) => !chain.is_passed(folder)? && !chain.is_replaced(folder)?,
                // The listed segments may be gone together with a replaced directory.
                Err(e) => e.kind() != ErrorKind::NotFound || !exists(folder)?,
                Ok(None) => true,
            };
            if is_over {
                break;
            }
            chain = SegmentChain::look(folder);
        }
        #[cfg(test)]
        meanwhile();
        chain
    }

    /// Whether the commit that sealed the last segment continues in another one, which did not exist or was not valid
    /// when it was looked for: segments get their names before the previous one is sealed. The other one may be gone
    /// again, and then the last one is, too, as segments are dropped in the order of their rows.
    fn is_passed(&self, folder: &Path) -> Result<bool> {
        let Some((segment, record)) = self.last.as_ref().filter(|(_, record)| record.sealed) else { return Ok(false) };
        let Some(end) = segment.header.first_row.checked_add(record.rows()) else { return Ok(false) };
        Ok(exists(&path(folder, end))? || segment.is_removed()?)
    }

    /// Whether another directory has replaced the listed one: the last segment may belong to the new one.
    fn is_replaced(&self, folder: &Path) -> Result<bool> {
        Ok(self.folder_id != FileId::find(folder)?)
    }

    fn look(folder: &Path) -> Result<Option<SegmentChain>> {
        let folder_id = FileId::find(folder)?;
        let Some(starts) = list_at_one_moment(folder)? else { return Ok(None) };
        let mut kept = starts.len();
        let mut lost_end = 0;
        let last = loop {
            let Some((segment, record)) = open_last(&path(folder, starts[kept - 1]))? else { break None };
            if kept == starts.len() && is_copy_beside(&segment, &record)? {
                let said = |segment: &Segment, newest: Record| {
                    Ok(segment.visible()?.map_or(0, |visible| visible.rows()).max(newest.rows()))
                };
                check_copy(folder, &starts, said)?;
            }
            let is_doubtful = record.provisional || record.boot != boot_id() || segment.is_doubtful();
            if kept == 1 || !is_doubtful || is_reached(folder, &starts[..kept], (&segment, &record))? {
                break Some((segment, record));
            }
            kept -= 1;
            if record.boot != boot_id() || segment.is_doubtful() {
                lost_end = lost_end.max(starts[kept] + segment.visible()?.map_or(0, |visible| visible.rows()));
            }
        };
        if let Some((segment, _)) = &last
            && !segment.is_original_file()
        {
            check_copy(folder, &starts[..kept], |_, newest| Ok(newest.rows()))?;
        }
        let orphans = starts[kept..].to_vec();
        Ok(Some(SegmentChain { folder_id, starts: starts[..kept].to_vec(), orphans, lost_end, last }))
    }

    /// The first rows of the sealed segments.
    pub fn sealed(&self) -> &[u64] {
        // The last one, too: a compaction may have been killed right after sealing it.
        let is_sealed = self.last.as_ref().is_some_and(|(_, record)| record.sealed);
        if is_sealed { &self.starts } else { &self.starts[..self.starts.len().saturating_sub(1)] }
    }

    /// The first rows of the segments before row `row`.
    pub fn before(&self, row: u64) -> &[u64] {
        &self.starts[..self.starts.partition_point(|&start| start < row)]
    }

    /// Removes invalid segments; for the writer only.
    pub fn remove_orphans(&self, medium: &FileSystem, folder: &Path) -> Result<()> {
        let remove = |row: &u64| medium.remove(&path(folder, *row));
        if self.orphans.is_empty() {
            return Ok(());
        }
        // One that reappeared after a power cut could begin where newer rows end.
        let done = self.orphans.iter().try_for_each(remove).and_then(|()| medium.sync_dir(folder));
        done.map_err(|e| Error::io("removing an unfinished segment", &e))
    }
}

/// Those of the sealed segments `starts`, the first of which is the table's, that a power cut may lose, the last one first.
///
/// # Errors
/// Those of opening segments.
pub(in crate::table) fn non_durable_segments(folder: &Path, starts: &[u64]) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    for &start in starts.iter().rev() {
        let on_disk = match open_newest(&path(folder, start))? {
            Some((segment, record)) if record.boot == boot_id() => segment.durability(&record)?,
            // Segments that survived a system crash, or were made dense.
            _ => CommitDurability::Standalone,
        };
        if on_disk == CommitDurability::Standalone {
            break;
        }
        found.push((start, on_disk));
    }
    // A commit across several segments becomes durable as a whole: those after the first stay provisional. Those before the
    // table's first segment were durable when they were dropped.
    while found.last().is_some_and(|&(_, on_disk)| on_disk == CommitDurability::Provisional) {
        found.pop();
    }
    Ok(found.into_iter().map(|(start, _)| start).collect())
}

/// Whether the segments before the last of `starts` are sealed and end where the next one begins, back to one that does
/// not depend on others. Segments become durable in order, so before a durable sealed one none needs to be checked. `last` is
/// the last of them.
fn is_reached(folder: &Path, starts: &[u64], last: (&Segment, &Record)) -> Result<bool> {
    let mut is_last = true;
    for pair in starts.windows(2).rev() {
        let file = path(folder, pair[0]);
        let Some((segment, before)) = open_last(&file)? else {
            // A segment is made dense only once it and all earlier ones are on the disk. It may also contain the rows
            // of the next one.
            return Ok(pair[0] + open_dense(&file, ReadOptions::default())?.count_until(u64::MAX)? >= pair[1]);
        };
        if !before.sealed || pair[0] + before.rows() != pair[1] {
            return Ok(false);
        }
        if std::mem::take(&mut is_last) && !has_begun((&segment, &before), last) {
            return Ok(false);
        }
        // Where only its proof says that its rows are there, it need not be durable.
        if !before.provisional && (!segment.is_doubtful() || segment.is_on_disk_as(&before, true)?) {
            return Ok(true);
        }
    }
    Ok(true)
}

/// The error for a copy that is no whole one.
fn torn_copy(end: u64, next: u64) -> Error {
    Error::invalid(format!(
        "the segment has rows up to {end}, and the next one begins with row {next}: the table was copied while it was written, or in \
         part; once its writer has closed, copy it again by the same means (rsync -a, cp -u, tar), or let `arrowwood check --repair` \
         keep the rows up to {end}"
    ))
}

/// Whether a segment is a copy that was made in this boot, on the file system that it was written to, and what it has is
/// committed. Any other may be what a crash, or a page cache that was lost, has left: then the rows before are what counts.
fn is_copy_beside(segment: &Segment, record: &Record) -> Result<bool> {
    let mount = segment.mapping.mount_info()?.mount;
    let is_same = |proof: &Proof| proof.mount == mount && mount != 0;
    Ok(!segment.is_original_file()
        && !record.provisional
        && record.boot == boot_id()
        && record.proof.as_ref().is_some_and(is_same))
}

/// Checks that each segment of a copy, but the last, has the rows up to the next one, as `rows_of` counts them. One that was copied
/// while it grew has fewer, where those behind it were copied later.
///
/// # Errors
/// `InvalidData`, naming the segment; those of opening segments.
fn check_copy(folder: &Path, starts: &[u64], rows_of: impl Fn(&Segment, Record) -> Result<u64>) -> Result<()> {
    for pair in starts.windows(2) {
        let file = path(folder, pair[0]);
        let rows = match open_file(&file, ReadOptions::default())? {
            SegmentFile::Growable(found) => rows_of(&found.0, found.1)?,
            // Merged with those behind it, whose names are left.
            SegmentFile::Dense(ipc) => ipc.count_until(u64::MAX)?.min(pair[1] - pair[0]),
        };
        if pair[0] + rows != pair[1] {
            return Err(torn_copy(pair[0] + rows, pair[1]).at(file));
        }
    }
    Ok(())
}

/// Whether a segment without rows, of which a crash may have taken something, has what it begins with: the positions and
/// entries of the one before.
fn has_begun((before, sealed): (&Segment, &Record), (segment, record): (&Segment, &Record)) -> bool {
    let is_sure = record.boot == boot_id() && !segment.is_doubtful();
    if is_sure || record.rows() > 0 {
        return true;
    }
    let entries = |segment: &Segment, record: &Record| -> Vec<u64> {
        segment.plan.dictionaries.iter().map(|dictionary| record.counters[dictionary.entries]).collect()
    };
    let (there, expected) = (entries(segment, record), entries(before, sealed));
    record.positions.len() >= sealed.positions.len()
        && there.iter().zip(&expected).all(|(there, expected)| there >= expected)
}

/// A segment's file opened through its footer, as any Arrow file.
pub(in crate::table) fn open_dense(path: &Path, options: ReadOptions) -> Result<IpcSource> {
    let mapping = Mapping::open(path, Mode::Read)?;
    IpcSource::open(Bytes::from_mapping_or_copy(mapping)?, Some(path), options).map_err(|e| e.at(path))
}

/// The file of a segment.
#[derive(Debug)]
pub(in crate::table) enum SegmentFile {
    /// With its newest commit.
    Growable(Box<(Segment, Record)>),
    Dense(Box<IpcSource>),
}

/// Opens the file of a segment, of whichever kind it is, once: by the second time it may have lost its name to a merge.
///
/// # Errors
/// As [`open_newest`] and [`open_dense`].
pub(in crate::table) fn open_file(path: &Path, options: ReadOptions) -> Result<SegmentFile> {
    loop {
        let mapping = Mapping::open(path, Mode::Read)?;
        let found = open_mapping(mapping.clone()).map_err(|e| e.at(path))?;
        #[cfg(test)]
        meanwhile();
        let Some(segment) = found else {
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

pub(super) fn open_last(path: &Path) -> Result<Option<(Segment, Record)>> {
    let Some((segment, record)) = open_newest(path)? else { return Ok(None) };
    if Some(segment.header.first_row) != path.file_name().and_then(|name| first_row(name.to_str()?)) {
        let message = format!("the segment begins with row {}, which is not its name", segment.header.first_row);
        return Err(Error::invalid(message).at(path));
    }
    Ok(Some((segment, record)))
}

/// The path of a segment.
pub(in crate::table) fn path(folder: &Path, first_row: u64) -> PathBuf {
    folder.join(name(first_row))
}

/// The error for a folder that contains other files than segments.
pub(in crate::table) fn foreign_files_error(folder: &Path) -> Error {
    // Only for the message.
    let is_partition = |entry: &std::fs::DirEntry| is_partition(entry).is_ok_and(|is_partition| is_partition);
    let partition = std::fs::read_dir(folder).into_iter().flatten().flatten().find(is_partition);
    if let Some(partition) = partition {
        let name = partition.file_name().to_string_lossy().into_owned();
        let message = format!(
            "the directory holds partitions ('{name}'), each of which is a table: write one of them, or split rows by partition"
        );
        return Error::new(ErrorKind::InvalidArgument, message).at(folder);
    }
    let message = "the folder holds other files than a table's segments, and many readers take a folder as a whole; \
                   choose an empty one, or a new name";
    Error::new(ErrorKind::InvalidArgument, message).at(folder)
}
