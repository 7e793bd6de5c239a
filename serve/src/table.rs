//! Keeps the newest commit of each served [`Table`], and publishes its progress to waiting clients.

use arrowwood::mapping::MutexExt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use arrow_schema::SchemaRef;
use arrowwood::{
    Bytes, Dataset, Error, ErrorKind, Mapping, Mode, OpenOptions, Result, TableFollower, exists, follow, open,
    table_stat,
};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::log;
use crate::problem::{Problem, ResultExt};
use crate::producers::Producers;
use crate::queue::Queue;

/// The time after which a table that no client waits for is no longer watched.
const WATCH_LINGER: Duration = Duration::from_secs(2);
/// The maximum time that compacted or dropped segments stay mapped: until then they take space on the disk.
const MAX_STALE_AGE: Duration = Duration::from_secs(10);
/// The maximum age of an open file before it is checked for replacement.
const MAX_OPEN_AGE: Duration = Duration::from_secs(60);
/// The maximum number of attempts to open a file that changes while it is opened.
const MAX_OPEN_ATTEMPTS: usize = 5;
/// The minimum interval between two checks of a table with continuous commits.
const CHECK_PAUSE: Duration = Duration::from_micros(200);
/// The first interval between checks for durable rows in a table written by other processes. It doubles while nothing
/// changes.
const MIN_DURABLE_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum interval between checks for durable rows.
const MAX_DURABLE_INTERVAL: Duration = Duration::from_secs(1);

/// The kind of a served entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory of segments, which may grow.
    Table,
    /// An Arrow file.
    File,
    /// Several Arrow files, concatenated: a pattern, or a directory.
    Files,
}

/// The progress of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub first_row: u64,
    pub end: u64,
    pub durable_end: u64,
    /// Set when the table was removed, or can't be read any more.
    pub is_lost: bool,
}

/// The newest commit seen.
struct CachedRows {
    rows: Dataset,
    /// The mapping of a single file.
    mapping: Option<Mapping>,
    opened: Instant,
    /// The time of the last request for the rows.
    used: Instant,
    /// The time of the last change of the directory's entries before the rows were opened.
    entries_changed: Option<SystemTime>,
    /// Identifies the opened files. Empty for a growing table, which is identified by its numbering.
    fingerprint: String,
    /// The schema of the rows, and the id for it.
    id: Option<(SchemaRef, String)>,
}

impl CachedRows {
    fn open(path: &Path, kind: Kind) -> Result<CachedRows> {
        let entries_changed = modified_time(path);
        let rows = open(path)?;
        let fingerprint = if kind == Kind::Files { fingerprint_files(&rows)? } else { String::new() };
        Ok(CachedRows::new(rows, None, entries_changed, fingerprint))
    }

    /// Opens a file, whose mapping all requests share, so that its pages are entered in the process's page tables once.
    fn map(path: &Path) -> Result<CachedRows> {
        for _ in 0..MAX_OPEN_ATTEMPTS {
            let entries_changed = modified_time(path);
            let fingerprint = fingerprint_file(path);
            let mapping = Mapping::open(path, Mode::Read)?;
            let rows = open_mapped(&mapping, path)?;
            // If the file has changed, the mapping and the fingerprint may belong to different files.
            if fingerprint == fingerprint_file(path) {
                return Ok(CachedRows::new(rows, Some(mapping), entries_changed, fingerprint));
            }
        }
        Err(Error::new(ErrorKind::FileChanged, "the file is being replaced or written").at(path))
    }

    fn new(
        rows: Dataset,
        mapping: Option<Mapping>,
        entries_changed: Option<SystemTime>,
        fingerprint: String,
    ) -> CachedRows {
        let now = Instant::now();
        CachedRows { rows, mapping, opened: now, used: now, entries_changed, fingerprint, id: None }
    }

    /// Returns the id of what columns and row numbers mean, which depends on the files and on `schema`.
    fn id(&mut self, identity: &FileIdentity, schema: &SchemaRef) -> String {
        // Comparing the addresses first is faster.
        if let Some((id_schema, id)) = &self.id
            && (Arc::ptr_eq(id_schema, schema) || id_schema == schema)
        {
            return id.clone();
        }
        let files = if self.fingerprint.is_empty() { &identity.numbering() } else { &self.fingerprint };
        let mut hash = Sha256::new();
        hash.update(files);
        hash.update(format!("{:?}", schema.fields()));
        let id = short_hex(hash);
        self.id = Some((schema.clone(), id.clone()));
        id
    }

    /// Returns true if the rows were opened longer than `age` ago, and files were added or removed since.
    fn is_outdated(&self, path: &Path, age: Duration) -> bool {
        self.opened.elapsed() > age && self.entries_changed != modified_time(path)
    }
}

/// Opens the rows of a mapped file, without the decompressed data of earlier requests.
fn open_mapped(mapping: &Mapping, path: &Path) -> Result<Dataset> {
    let bytes = Bytes::from_mapping(mapping.clone()).map_err(|e| e.at(path))?;
    OpenOptions::new().named_bytes(bytes, path)
}

/// Returns the fingerprint of a file, which changes when it is replaced or written.
fn fingerprint_file(path: &Path) -> String {
    let mut hash = Sha256::new();
    hash_metadata(path, &mut hash);
    short_hex(hash)
}

/// Returns the fingerprint of a dataset's files.
fn fingerprint_files(rows: &Dataset) -> Result<String> {
    let mut hash = Sha256::new();
    let slices = if rows.is_empty()? { Vec::new() } else { rows.file_slices()? };
    for slice in &slices {
        hash_metadata(&slice.path, &mut hash);
    }
    Ok(short_hex(hash))
}

fn hash_metadata(path: &Path, hash: &mut Sha256) {
    hash.update(path.as_os_str().as_encoded_bytes());
    if let Ok(data) = fs::metadata(path) {
        for number in [data.dev(), data.ino(), data.len()] {
            hash.update(number.to_le_bytes());
        }
        for number in [data.mtime(), data.mtime_nsec()] {
            hash.update(number.to_le_bytes());
        }
    }
}

fn short_hex(hash: Sha256) -> String {
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn modified_time(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Returns true if the first segment still exists. Segments are dropped from the first one on.
fn has_first_segment(path: &Path, rows: &Dataset) -> Result<bool> {
    exists(&path.join(format!("{:020}.arrow", rows.first_row())))
}

/// The identity of a directory or file. Another one of the same name may replace it, for example when rows are sorted, and
/// may have the same inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    /// The time of creation, on file systems that record it.
    created: Option<SystemTime>,
}

impl FileIdentity {
    pub fn from_metadata(data: &Metadata) -> FileIdentity {
        FileIdentity { device: data.dev(), inode: data.ino(), created: data.created().ok() }
    }

    /// Identifies the row numbering for clients: `compact` with `sort` changes it.
    pub fn numbering(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.inode.to_le_bytes());
        match self.created.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()) {
            Some(time) => hash.update(time.as_nanos().to_le_bytes()),
            // The device number may change when the machine restarts; replicas compare their rows again then.
            None => hash.update(self.device.to_le_bytes()),
        }
        short_hex(hash)
    }
}

/// A served table.
pub(crate) struct Table {
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
    progress: watch::Sender<Progress>,
    is_watched: Mutex<bool>,
    /// The row after the last one that the server itself has made durable.
    durable: AtomicU64,
    pub producers: Producers,
    pub queue: Queue,
}

impl Table {
    /// Opens the table or file at `path`, to be served as `name`.
    ///
    /// # Errors
    /// As [`arrowwood::open`].
    pub fn open(name: &str, path: PathBuf, kind: Kind, identity: FileIdentity) -> Result<Table> {
        let newest = if kind == Kind::Table { Some(CachedRows::open(&path, kind)?) } else { None };
        Ok(Table {
            name: name.to_owned(),
            path,
            kind,
            identity,
            newest: Mutex::new(newest),
            renewals: AtomicU64::new(0),
            max_kept_bytes: 0,
            progress: watch::Sender::default(),
            is_watched: Mutex::new(false),
            durable: AtomicU64::new(0),
            producers: Producers::default(),
            queue: Queue::default(),
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

    /// Returns the [rows](Table::rows) and their id, which changes if columns or row numbers may mean others. Blocks.
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
        self.renewals.fetch_add(1, Ordering::Relaxed);
        let opened = CachedRows::open(&self.path, self.kind)?;
        Ok(newest.insert(opened).rows.clone())
    }

    /// Returns true if the next request will open the table's files. Does not wait for a request in progress, which has them
    /// open.
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

    /// Returns the time of the last request, if the table's files are open, and no client follows it or is being answered.
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

    /// Returns true if a thread may have the table open for writing.
    pub fn is_written(&self) -> bool {
        self.queue.state.lock_ignoring_poison().thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Closes files that were opened longer than `age` ago if some may have been removed since, as removed files take space on
    /// the disk until they are closed. The next request reopens the table. Blocks.
    pub fn close_outdated(&self, age: Duration) {
        let mut newest = self.newest.lock_ignoring_poison();
        // `Kind::Files` keeps the files that were found when it was opened.
        if self.kind != Kind::Files && newest.as_ref().is_some_and(|cached| cached.is_outdated(&self.path, age)) {
            *newest = None;
            self.renewals.fetch_add(1, Ordering::Relaxed);
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
        is_same && cached.rows.footprint().copied <= self.max_kept_bytes && cached.opened.elapsed() < MAX_OPEN_AGE
    }

    /// Returns true if the directory or file at the path is still the opened one. Blocks.
    ///
    /// # Errors
    /// `Io` if its metadata can't be read.
    pub fn is_same(&self) -> Result<bool> {
        if self.kind == Kind::Files {
            return Ok(true);
        }
        match fs::symlink_metadata(&self.path) {
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

    /// Returns the row after the last durable one, in a table that ends with row `end`.
    fn durable_end(&self, end: u64) -> Result<u64> {
        let known_end = self.durable.load(Ordering::Acquire);
        if known_end >= end {
            return Ok(end);
        }
        let durable_end = match table_stat(&self.path)? {
            // Rows that were durable once stay durable.
            Some(stat) => stat.durable_end.max(known_end),
            // A dense table has no records.
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

    /// Subscribes to the progress of the table. Blocks for the first check.
    ///
    /// # Errors
    /// As [`Table::rows`]; `Io` if no thread can be started.
    pub fn watch(self: &Arc<Self>) -> Result<watch::Receiver<Progress>> {
        let mut is_watched = self.is_watched.lock_ignoring_poison();
        let receiver = self.progress.subscribe();
        if !*is_watched {
            self.progress.send_replace(self.progress()?);
            let table = self.clone();
            let spawned = thread::Builder::new().name("arrowwood-watch".into()).spawn(move || table.keep_watch());
            spawned.map_err(|e| Error::io("starting a thread", &e))?;
            *is_watched = true;
        }
        Ok(receiver)
    }

    /// Publishes the table's progress until no client waits, or the table is lost.
    fn keep_watch(&self) {
        if let Err(e) = self.publish_progress() {
            if e.kind() != ErrorKind::NotFound {
                log::message(format_args!("following a table: {e}"));
            }
            let mut is_watched = self.is_watched.lock_ignoring_poison();
            self.progress.send_modify(|progress| progress.is_lost = true);
            *is_watched = false;
        }
    }

    /// Waits at most `timeout`. Returns true if rows were committed or dropped.
    fn wait_for_rows(&self, follower: &mut TableFollower, timeout: Duration) -> Result<bool> {
        match follower.poll(timeout) {
            // The next rows were dropped before the follower has read them.
            Err(e) if e.kind() == ErrorKind::RowOutOfRange => {
                *follower = follow_from(&self.rows()?, None)?;
                Ok(true)
            }
            rows => Ok(rows?.is_some()),
        }
    }

    fn publish_progress(&self) -> Result<()> {
        let mut last_watched = Instant::now();
        let mut durable_interval = MIN_DURABLE_INTERVAL;
        let mut last_durable_check = Instant::now();
        let mut renewals = self.renewals.load(Ordering::Relaxed);
        let mut follower = follow_from(&self.rows()?, Some(self.progress.borrow().end))?;
        // Rows may have been committed and dropped before the follower began.
        let mut is_new_follower = true;
        loop {
            let progress = *self.progress.borrow();
            let current_renewals = self.renewals.load(Ordering::Relaxed);
            if renewals != current_renewals {
                // A new follower closes the files that were open before.
                renewals = current_renewals;
                follower = follow_from(&self.rows()?, Some(progress.end))?;
                is_new_follower = true;
            }
            let is_behind = progress.durable_end < progress.end;
            let timeout = if is_new_follower {
                Duration::ZERO
            } else if is_behind {
                durable_interval
            } else {
                WATCH_LINGER / 4
            };
            if self.wait_for_rows(&mut follower, timeout)? || is_new_follower {
                is_new_follower = false;
                durable_interval = MIN_DURABLE_INTERVAL;
                // Rows are published at once: a check for durable rows would delay them.
                let rows = self.rows()?;
                let first_row = rows.first_row();
                let end = first_row + rows.len()?;
                let durable_end = self.durable.load(Ordering::Acquire).min(end);
                self.progress.send_modify(|progress| {
                    progress.first_row = first_row;
                    progress.end = end;
                    progress.durable_end = progress.durable_end.max(durable_end);
                });
                thread::sleep(CHECK_PAUSE);
            }
            // A table with continuous commits is checked for durable rows, too.
            if is_behind && last_durable_check.elapsed() >= durable_interval {
                last_durable_check = Instant::now();
                let durable_end = self.durable_end(progress.end)?;
                if durable_end > progress.durable_end {
                    durable_interval = MIN_DURABLE_INTERVAL;
                    self.progress.send_modify(|progress| progress.durable_end = progress.durable_end.max(durable_end));
                } else {
                    durable_interval = (2 * durable_interval).min(MAX_DURABLE_INTERVAL);
                }
            }
            if self.progress.receiver_count() > 0 {
                last_watched = Instant::now();
            } else if last_watched.elapsed() > WATCH_LINGER {
                let mut is_watched = self.is_watched.lock_ignoring_poison();
                // `watch` takes the same lock, so no client can subscribe between this check and the end.
                if self.progress.receiver_count() == 0 {
                    *is_watched = false;
                    return Ok(());
                }
            }
        }
    }
}

/// Follows rows from `start` on, or from the current end if that row was dropped, as only the progress matters here.
fn follow_from(rows: &Dataset, start: Option<u64>) -> Result<TableFollower> {
    match follow(rows, start, None) {
        Err(e) if e.kind() == ErrorKind::RowOutOfRange => follow(rows, None, None),
        follower => follower,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

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
        let identity = FileIdentity::from_metadata(&fs::metadata(&path).unwrap());
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
        assert_eq!(fs::metadata(&path).unwrap().ino(), identity.inode);
        assert_eq!(table.rows().unwrap().len().unwrap(), 4000);
        table.close_unused();
        drop((first, second));
        assert_eq!(mappings(&path), 0);
    }
}
