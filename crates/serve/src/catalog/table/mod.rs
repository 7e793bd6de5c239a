//! Keeps the newest commit of each served [`Table`], and publishes its progress to waiting clients.

mod cached_rows;
mod identity;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrowwood::mapping::os::FileInfo;
use arrowwood::mapping::{MutexExt, exists};
use arrowwood::{Dataset, Error, ErrorKind, Result, table_stat};
use tokio::sync::watch as progress_channel;

use self::cached_rows::{CachedRows, open_mapped};
use self::identity::fingerprint_file;
pub(crate) use self::identity::{FileIdentity, Kind};
use crate::http::{Problem, ResultExt};

/// The maximum time that compacted or dropped segments stay mapped: until then they take space on the disk.
const MAX_STALE_AGE: Duration = Duration::from_secs(10);
/// The maximum age of an open file before it is checked for replacement.
const MAX_OPEN_AGE: Duration = Duration::from_secs(60);

/// The progress of a table: the numbers of its rows, where each end is the row after the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The first row that was not dropped.
    pub first_row: u64,
    /// The end of the committed rows.
    pub end: u64,
    /// The end of the rows that would survive a power cut, at most `end`.
    pub durable_end: u64,
    /// Set when the table was removed, or can't be read any more.
    pub is_lost: bool,
}

/// The number of the next table that is opened.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The number of digits in the name of a segment's file.
const SEGMENT_DIGITS: usize = 20;
/// The extension of a segment's file.
const SEGMENT_EXTENSION: &str = ".arrow";

/// Returns the number of the first row in the name of a segment's file, as [`SEGMENT_DIGITS`] digits; `None` for the
/// name of another file.
pub(crate) fn segment_digits(name: &str) -> Option<&str> {
    let digits = name.strip_suffix(SEGMENT_EXTENSION)?;
    (digits.len() == SEGMENT_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

/// Returns true if the first segment still exists. Segments are dropped from the first one on.
fn has_first_segment(path: &Path, rows: &Dataset) -> Result<bool> {
    Ok(exists(&path.join(format!("{:0SEGMENT_DIGITS$}{SEGMENT_EXTENSION}", rows.first_row())))?)
}

/// A served table, shared by all threads.
///
/// Requests read rows under the lock of `newest`, which keeps the files open. While clients follow the table, a thread
/// publishes its `progress` (see `watch`).
///
/// `newest` may be locked while `is_watched` is locked, and not the other way round. The functions for closing unused
/// tables only try to lock, as they are called with the lock of the catalog. `durable` only grows; a thread that has
/// synced rows stores their end after the sync, and whoever reads it may rely on these rows. `renewals` is a counter
/// that the watching thread compares before each wait: it reads the counter before it reads the rows, so a renewal in
/// between is noticed in the next round, and needs no ordering.
pub(crate) struct Table {
    /// Differs from the numbers of all other tables that this process has opened, whatever their names.
    pub number: u64,
    pub name: String,
    pub path: PathBuf,
    pub kind: Kind,
    pub identity: FileIdentity,
    /// The newest commit seen, or the file as it was opened; `None` while it is closed.
    newest: Mutex<Option<CachedRows>>,
    /// The number of times that the table was closed or reopened, which may mean that files were removed.
    renewals: AtomicU64,
    /// The maximum bytes of decompressed data to keep for an open file.
    max_kept_bytes: u64,
    /// The progress as published last, and its subscribers.
    progress: progress_channel::Sender<Progress>,
    /// Set while a thread publishes the progress.
    is_watched: Mutex<bool>,
    /// The row after the last one that the server itself has made durable.
    durable: AtomicU64,
}

impl Table {
    /// Opens the table or file at `path`, to be served as `name`.
    ///
    /// # Errors
    /// As [`arrowwood::open`].
    pub fn open(name: &str, path: PathBuf, kind: Kind, identity: FileIdentity) -> Result<Table> {
        let newest = if kind == Kind::Table { Some(CachedRows::open(&path, kind)?) } else { None };
        Ok(Table {
            // Only makes numbers unique, for which any ordering is enough.
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            path,
            kind,
            identity,
            newest: Mutex::new(newest),
            renewals: AtomicU64::new(0),
            max_kept_bytes: 0,
            progress: progress_channel::Sender::default(),
            is_watched: Mutex::new(false),
            durable: AtomicU64::new(0),
        })
    }

    /// Keeps up to `bytes` of decompressed data.
    pub fn keeping(self, bytes: u64) -> Table {
        Table { max_kept_bytes: bytes, ..self }
    }

    /// Returns the rows of the newest commit. Requests for a file get separate datasets of one mapping, so that no
    /// decompressed data is kept, unless the table [keeps](Table::keeping) some. Blocks.
    ///
    /// # Errors
    /// As [`Dataset::refresh`].
    pub fn rows(&self) -> Result<Dataset> {
        self.newest_rows(&mut self.newest.lock_ignoring_poison())
    }

    /// Returns the [rows](Table::rows) and their id, which changes if a column or a row number may mean another one.
    /// Blocks.
    ///
    /// # Errors
    /// As [`Table::rows`]; `FileChanged` if the table was replaced in the meantime.
    pub fn identified_rows(&self) -> Result<(Dataset, String)> {
        let mut newest = self.newest.lock_ignoring_poison();
        let rows = self.newest_rows(&mut newest)?;
        if self.kind == Kind::Table && !self.is_same()? {
            return Err(Error::new(ErrorKind::FileChanged, "the table was replaced").at(&self.path));
        }
        let cached = newest.as_mut();
        let id = cached.map(|cached| cached.id(&self.identity, rows.schema()));
        let id = id.ok_or_else(|| Error::new(ErrorKind::Internal, "the newest rows are not kept").at(&self.path))?;
        Ok((rows, id))
    }

    fn newest_rows(&self, newest: &mut Option<CachedRows>) -> Result<Dataset> {
        if self.kind != Kind::Table {
            return self.file_rows(newest);
        }
        if let Some(cached) = newest
            && !cached.is_outdated(&self.path, MAX_STALE_AGE)
            && let Ok(rows) = cached.rows.refresh()
            && has_first_segment(&self.path, &rows)?
        {
            cached.rows = rows.clone();
            cached.used = Instant::now();
            return Ok(rows);
        }
        // Segments may have been dropped, or replaced by compaction or repair.
        self.count_renewal();
        let opened = CachedRows::open(&self.path, self.kind)?;
        Ok(newest.insert(opened).rows.clone())
    }

    /// Returns true if the next request will open the table's files. Does not wait for a request in progress, which has
    /// them open.
    pub fn is_closed(&self) -> bool {
        self.newest.try_lock().is_ok_and(|newest| newest.is_none())
    }

    /// Records a request that needs no newer rows. Returns false if the table's files are not open. Does not wait for a
    /// request in progress.
    pub fn touch(&self) -> bool {
        let Ok(mut newest) = self.newest.try_lock() else { return true };
        let Some(cached) = newest.as_mut() else { return false };
        cached.used = Instant::now();
        true
    }

    /// Returns the time of the last request, if the table's files are open, and no client follows it or is being
    /// answered.
    pub fn unused_since(&self) -> Option<Instant> {
        let is_watched = self.is_watched.try_lock().map_or(true, |is_watched| *is_watched);
        let newest = self.newest.try_lock().ok().filter(|_| !is_watched)?;
        newest.as_ref().map(|cached| cached.used)
    }

    /// Closes the table's files, unless a request is being answered. The next request opens them again.
    pub fn close_unused(&self) {
        if let Ok(mut newest) = self.newest.try_lock() {
            *newest = None;
        }
    }

    /// Closes files that were opened longer than `age` ago if some may have been removed since, as removed files take
    /// space on the disk until they are closed. The next request reopens the table. Blocks.
    pub fn close_outdated(&self, age: Duration) {
        let mut newest = self.newest.lock_ignoring_poison();
        // `Kind::Files` keeps the files that were found when it was opened.
        if self.kind != Kind::Files && newest.as_ref().is_some_and(|cached| cached.is_outdated(&self.path, age)) {
            *newest = None;
            self.count_renewal();
        }
    }

    fn file_rows(&self, newest: &mut Option<CachedRows>) -> Result<Dataset> {
        let cached = match newest {
            Some(cached) if self.is_reusable(cached) => {
                cached.used = Instant::now();
                cached
            }
            _ => newest.insert(match self.kind {
                Kind::File => CachedRows::map(&self.path)?,
                kind => CachedRows::open(&self.path, kind)?,
            }),
        };
        match &cached.mapping {
            Some(mapping) if self.max_kept_bytes == 0 => open_mapped(mapping, &self.path),
            _ => Ok(cached.rows.clone()),
        }
    }

    /// Returns true if cached rows of a file are current, and don't keep too much decompressed data.
    fn is_reusable(&self, cached: &CachedRows) -> bool {
        let is_same = self.kind == Kind::Files || cached.fingerprint == fingerprint_file(&self.path);
        is_same && cached.rows.footprint().copied <= self.max_kept_bytes && cached.age() < MAX_OPEN_AGE
    }

    /// Returns true if the directory or file at the path is still the opened one. Blocks.
    ///
    /// # Errors
    /// `Io` if its metadata can't be read.
    pub fn is_same(&self) -> Result<bool> {
        if self.kind == Kind::Files {
            return Ok(true);
        }
        match FileInfo::from_link(&self.path) {
            Ok(data) => Ok(FileIdentity::from_metadata(&data) == self.identity),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("looking for the table", &e).at(&self.path)),
        }
    }

    /// Refuses a request with another numbering than the table's. Blocks.
    pub fn check_numbering(&self, numbering: Option<&str>) -> Result<(), Problem> {
        let Some(numbering) = numbering else { return Ok(()) };
        if self.kind != Kind::Table {
            return Err(Problem::bad_request(
                "numbering: a file has none; its rows have numbers as long as it is the same",
            ));
        }
        if numbering == self.identity.numbering() && self.is_same().or_table_problem()? {
            return Ok(());
        }
        let detail = "the table was replaced, or its rows put in order, since: rows may have other numbers now";
        Err(Problem::conflict("file_changed", detail))
    }

    /// Returns the progress of the table. Blocks.
    ///
    /// # Errors
    /// As [`Table::rows`].
    pub fn progress(&self) -> Result<Progress> {
        let rows = self.rows()?;
        let first_row = rows.first_row();
        let end = first_row + rows.len()?;
        let durable_end = if self.kind == Kind::Table { self.durable_end(end)? } else { end };
        Ok(Progress { first_row, end, durable_end, is_lost: false })
    }

    /// Returns the row after the last one that the server itself has made durable.
    fn known_durable_end(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Returns the progress as published last.
    fn current_progress(&self) -> Progress {
        *self.progress.borrow()
    }

    fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Relaxed)
    }

    fn count_renewal(&self) {
        self.renewals.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the row after the last durable one, in a table that ends with row `end`.
    fn durable_end(&self, end: u64) -> Result<u64> {
        let known_end = self.known_durable_end();
        if known_end >= end {
            return Ok(end);
        }
        let durable_end = match table_stat(&self.path)? {
            // Rows that were durable once stay durable.
            Some(stat) => stat.durable_end.max(known_end),
            // The table's directory was removed since.
            None => known_end,
        };
        Ok(durable_end.min(end))
    }

    /// Records that the server has made the rows before `end` durable.
    pub fn on_durable(&self, end: u64) {
        self.durable.fetch_max(end, Ordering::AcqRel);
        self.progress.send_if_modified(|progress| {
            let durable_end = end.min(progress.end).max(progress.durable_end);
            let is_new = durable_end > progress.durable_end;
            progress.durable_end = durable_end;
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrowwood::{Compression, WriteOptions, parse_schema, write};

    use super::*;

    fn write_rows(path: &Path, rows: std::ops::Range<u64>) {
        let schema = Arc::new(parse_schema("n: int64").unwrap());
        let numbers = Arc::new(arrow_array::Int64Array::from_iter_values(rows.map(|row| row as i64)));
        let batch = arrow_array::RecordBatch::try_new(schema, vec![numbers]).unwrap();
        let options = WriteOptions { compression: Some(Compression::Lz4), ..WriteOptions::default() };
        write(&Dataset::try_from(vec![batch]).unwrap(), path, &options).unwrap();
    }

    /// Returns the number of mappings of the file in this process.
    fn mappings(path: &Path) -> usize {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.ends_with(path.to_str().unwrap())).count()
    }

    #[test]
    fn requests_for_a_file_share_its_mapping_but_no_decompressed_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrow");
        write_rows(&path, 0..5000);
        let identity = FileIdentity::from_metadata(&FileInfo::from_path(&path).unwrap());
        let table = Table::open("a.arrow", path.clone(), Kind::File, identity).unwrap();
        assert!(table.is_closed());
        let first = table.rows().unwrap();
        assert_eq!(first.column("n").unwrap().sum().unwrap().to_string(), "12497500");
        assert!(first.footprint().copied > 0);
        let second = table.rows().unwrap();
        assert_eq!(second.footprint().copied, 0);
        assert_eq!(mappings(&path), 1);
        assert!(!table.is_closed() && table.unused_since().is_some());
        // Rewrites the file in place, with a later time, and then replaces it.
        let other = folder.path().join("b.arrow");
        write_rows(&other, 5000..9000);
        let begun = Instant::now();
        let time = || fs::metadata(&path).unwrap().modified().unwrap();
        let before = time();
        // File times have the resolution of the system's clock tick.
        while time() == before {
            assert!(begun.elapsed() < Duration::from_secs(120), "a file's time stays");
            fs::write(&path, fs::read(&other).unwrap()).unwrap();
        }
        assert_eq!(
            FileIdentity::from_metadata(&FileInfo::from_path(&path).unwrap()),
            identity,
            "it was not replaced yet"
        );
        assert_eq!(table.rows().unwrap().len().unwrap(), 4000);
        table.close_unused();
        drop((first, second));
        assert_eq!(mappings(&path), 0);
    }
}
