//! [`Table`]: a served table: its newest commit, and its progress for waiting clients.

use arrowwood::mapping::MutexExt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
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
use crate::problem::Problem;
use crate::producers::Producers;
use crate::queue::Queue;

/// The time after which a table that no client waits for is no longer watched.
const LINGER: Duration = Duration::from_secs(2);
/// The maximum time that compacted or dropped segments stay mapped: until then they take space on the disk.
const STALE: Duration = Duration::from_secs(10);
/// The maximum age of an open file before it is checked for replacement.
const REOPEN: Duration = Duration::from_secs(60);
/// How often a file that changes while it is opened is opened again.
const TRIES: usize = 5;
/// The interval between two checks of a table with continuous commits.
const REST: Duration = Duration::from_micros(200);
/// The interval of checks for durable rows in a table written by other processes: initially, and while nothing changes.
const DURABLE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

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
    /// The table was removed, or can't be read any more.
    pub is_lost: bool,
}

/// The newest commit seen.
struct CachedRows {
    rows: Dataset,
    /// That of a single file.
    mapping: Option<Mapping>,
    opened: Instant,
    /// The time of the last request for it.
    used: Instant,
    /// The time of the last change of the directory's entries before that.
    names: Option<SystemTime>,
    /// Identifies the files that were opened; that of a growing table is the table's own.
    state: String,
    /// The schema of rows, and what identifies both.
    id: Option<(SchemaRef, String)>,
}

impl CachedRows {
    fn open(path: &Path, kind: Kind) -> Result<CachedRows> {
        let names = names_changed(path);
        let rows = open(path)?;
        let state = if kind == Kind::Files { state_of_all(&rows)? } else { String::new() };
        Ok(CachedRows::now(rows, None, names, state))
    }

    /// Opens a file, whose mapping all requests share: its pages are entered in the process's tables once.
    fn map(path: &Path) -> Result<CachedRows> {
        for _ in 0..TRIES {
            let names = names_changed(path);
            let state = state_of(path);
            let mapping = Mapping::open(path, Mode::Read)?;
            let rows = rows_of(&mapping, path)?;
            // Else one of the two may be that of another file.
            if state == state_of(path) {
                return Ok(CachedRows::now(rows, Some(mapping), names, state));
            }
        }
        Err(Error::new(ErrorKind::FileChanged, "the file is being replaced or written").at(path))
    }

    fn now(rows: Dataset, mapping: Option<Mapping>, names: Option<SystemTime>, state: String) -> CachedRows {
        let now = Instant::now();
        CachedRows { rows, mapping, opened: now, used: now, names, state, id: None }
    }

    /// Identifies what columns and numbers of rows mean: the files, and `schema`.
    fn id(&mut self, of: &FileIdentity, schema: &SchemaRef) -> String {
        // Both are compared by their addresses first.
        if let Some((known, id)) = &self.id
            && (Arc::ptr_eq(known, schema) || known == schema)
        {
            return id.clone();
        }
        let state = if self.state.is_empty() { &of.numbering() } else { &self.state };
        let mut hash = Sha256::new();
        hash.update(state);
        hash.update(format!("{:?}", schema.fields()));
        let id = short_hex(hash);
        self.id = Some((schema.clone(), id.clone()));
        id
    }

    /// Whether it was opened longer than `age` ago, and files were added or removed since.
    fn is_outdated(&self, path: &Path, age: Duration) -> bool {
        self.opened.elapsed() > age && self.names != names_changed(path)
    }
}

/// The rows of a mapped file, with no decompressed data of earlier requests.
fn rows_of(mapping: &Mapping, path: &Path) -> Result<Dataset> {
    let bytes = Bytes::from_mapping(mapping.clone()).map_err(|e| e.at(path))?;
    OpenOptions::new().named_bytes(bytes, path)
}

/// Identifies a file as it is now, by what changes when it is replaced or written.
fn state_of(path: &Path) -> String {
    let mut hash = Sha256::new();
    note_state(path, &mut hash);
    short_hex(hash)
}

/// Identifies the files of a dataset as they are now.
fn state_of_all(rows: &Dataset) -> Result<String> {
    let mut hash = Sha256::new();
    let places = if rows.is_empty()? { Vec::new() } else { rows.file_slices()? };
    places.iter().for_each(|place| note_state(&place.path, &mut hash));
    Ok(short_hex(hash))
}

fn note_state(path: &Path, hash: &mut Sha256) {
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

fn names_changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Whether the first segment still exists: the first ones are dropped first.
fn has_first_segment(path: &Path, rows: &Dataset) -> Result<bool> {
    exists(&path.join(format!("{:020}.arrow", rows.first_row())))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_ignoring_poison()
}

/// The identity of a directory or file. Another one of the same name may have replaced it, also when rows were sorted,
/// and may have the same inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    /// On file systems that have creation times.
    made: Option<SystemTime>,
}

impl FileIdentity {
    pub fn from_metadata(data: &Metadata) -> FileIdentity {
        FileIdentity { device: data.dev(), inode: data.ino(), made: data.created().ok() }
    }

    /// Identifies the row numbering for clients: `compact` with `sort` changes it.
    pub fn numbering(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.inode.to_le_bytes());
        match self.made.and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok()) {
            Some(made) => hash.update(made.as_nanos().to_le_bytes()),
            // May change when the machine has restarted: then replicas compare their rows again.
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
    /// The newest commit seen, unless it was closed meanwhile; or a file as it was opened.
    newest: Mutex<Option<CachedRows>>,
    /// How often that was closed, or opened anew: files that were open before may have been removed.
    renewals: AtomicU64,
    /// The limit of decompressed data for a file that is kept open.
    keeps: u64,
    progress: watch::Sender<Progress>,
    is_watched: Mutex<bool>,
    /// The rows made durable by the server itself.
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
            keeps: 0,
            progress: watch::Sender::default(),
            is_watched: Mutex::new(false),
            durable: AtomicU64::new(0),
            producers: Producers::default(),
            queue: Queue::default(),
        })
    }

    /// The same, with a limit of decompressed data to keep.
    pub fn keeping(self, bytes: u64) -> Table {
        Table { keeps: bytes, ..self }
    }

    /// The rows as of the newest commit. For a file a separate dataset of one mapping, so that no decompressed data is
    /// kept, unless the table is one that [keeps](Table::keeping) some. Blocks.
    ///
    /// # Errors
    /// As [`Dataset::refresh`].
    pub fn rows(&self) -> Result<Dataset> {
        self.newest_rows(&mut locked(&self.newest))
    }

    /// The [rows](Table::rows), and what identifies them: another text where columns, or numbers of rows, may mean others.
    /// Blocks.
    ///
    /// # Errors
    /// As [`Table::rows`]; `FileChanged` if the table was replaced meanwhile.
    pub fn identified_rows(&self) -> Result<(Dataset, String)> {
        let mut newest = locked(&self.newest);
        let rows = self.newest_rows(&mut newest)?;
        if self.kind == Kind::Table && !self.is_same()? {
            return Err(Error::new(ErrorKind::FileChanged, "the table was replaced").at(&self.path));
        }
        let id = newest.as_mut().map(|known| known.id(&self.identity, rows.schema()));
        Ok((rows, id.unwrap_or_default()))
    }

    fn newest_rows(&self, newest: &mut Option<CachedRows>) -> Result<Dataset> {
        if self.kind != Kind::Table {
            return self.file_rows(newest);
        }
        if let Some(known) = newest.as_mut().filter(|known| !known.is_outdated(&self.path, STALE))
            && let Ok(rows) = known.rows.refresh()
            && has_first_segment(&self.path, &rows)?
        {
            (known.rows, known.used) = (rows, Instant::now());
            return Ok(known.rows.clone());
        }
        // Segments may have been dropped, or replaced by compaction or repair.
        self.renewals.fetch_add(1, Ordering::Relaxed);
        let opened = CachedRows::open(&self.path, self.kind)?;
        Ok(newest.insert(opened).rows.clone())
    }

    /// Whether the next request opens the table's files. Does not wait for the one in progress, which has them open.
    pub fn is_closed(&self) -> bool {
        self.newest.try_lock().is_ok_and(|newest| newest.is_none())
    }

    /// Notes a request that needs no newer rows; false if the table's files are not open. Does not wait either.
    pub fn touch(&self) -> bool {
        let Ok(mut newest) = self.newest.try_lock() else { return true };
        newest.as_mut().map(|known| known.used = Instant::now()).is_some()
    }

    /// The time of the last request, if the table's files are open, and nobody follows it or is being answered.
    pub fn unused_since(&self) -> Option<Instant> {
        let is_watched = self.is_watched.try_lock().map_or(true, |is_watched| *is_watched);
        let newest = self.newest.try_lock().ok().filter(|_| !is_watched)?;
        newest.as_ref().map(|known| known.used)
    }

    /// Closes the table's files, which the next request opens again, unless one is being answered.
    pub fn close_unused(&self) {
        if let Ok(mut newest) = self.newest.try_lock() {
            *newest = None;
        }
    }

    /// Whether a thread may have the table open for writing.
    pub fn is_written(&self) -> bool {
        locked(&self.queue.state).thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Closes files opened longer than `age` ago of which some may have been removed since: until then they take space on the
    /// disk. The next request opens the table anew. Blocks.
    pub fn close_outdated(&self, age: Duration) {
        let mut newest = locked(&self.newest);
        // Several files are read as they were found.
        if self.kind != Kind::Files && newest.as_ref().is_some_and(|known| known.is_outdated(&self.path, age)) {
            *newest = None;
            self.renewals.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn file_rows(&self, newest: &mut Option<CachedRows>) -> Result<Dataset> {
        let is_kept = |known: &&mut CachedRows| {
            let is_same = self.kind == Kind::Files || known.state == state_of(&self.path);
            is_same && known.rows.footprint().copied <= self.keeps && known.opened.elapsed() < REOPEN
        };
        let known = match newest.as_mut().filter(is_kept) {
            Some(known) => {
                known.used = Instant::now();
                known
            }
            None => newest.insert(match self.kind {
                Kind::File => CachedRows::map(&self.path)?,
                kind => CachedRows::open(&self.path, kind)?,
            }),
        };
        match &known.mapping {
            Some(mapping) if self.keeps == 0 => rows_of(mapping, &self.path),
            _ => Ok(known.rows.clone()),
        }
    }

    /// Whether the directory or file of that name is still the opened one. Blocks.
    ///
    /// # Errors
    /// `Io`: that it can't be told now.
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

    /// Refuses a request whose client gives another numbering. Blocks.
    pub fn check_numbering(&self, known: Option<&str>) -> Result<(), Problem> {
        let Some(known) = known else { return Ok(()) };
        if self.kind != Kind::Table {
            return Err(Problem::bad_request(
                "numbering: a file has none; its rows have numbers as long as it is the same",
            ));
        }
        if known == self.identity.numbering() && self.is_same().map_err(|e| Problem::from_table_error(&e))? {
            return Ok(());
        }
        let detail = "the table was replaced, or its rows put in order, since: rows may have other numbers now";
        Err(Problem::conflict("file_changed", detail))
    }

    /// The progress of the table. Blocks.
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

    /// The row after the last durable one, in a table that ends with row `end`.
    fn durable_end(&self, end: u64) -> Result<u64> {
        let own = self.durable.load(Ordering::Acquire);
        if own >= end {
            return Ok(end);
        }
        let stat = table_stat(&self.path)?;
        // A dense table has no records; and a reader never sees fewer rows than before.
        Ok(stat.map_or(own, |stat| stat.durable_end.max(own)).min(end))
    }

    /// Records the rows made durable by the server.
    pub fn made_durable(&self, end: u64) {
        self.durable.fetch_max(end, Ordering::AcqRel);
        self.progress.send_if_modified(|progress| {
            let durable_end = end.min(progress.end).max(progress.durable_end);
            let is_new = durable_end > progress.durable_end;
            progress.durable_end = durable_end;
            is_new
        });
    }

    /// The progress of the table, from now on. Blocks for the first check.
    ///
    /// # Errors
    /// As [`Table::rows`]; `Io` if no thread can be started.
    pub fn watch(self: &Arc<Self>) -> Result<watch::Receiver<Progress>> {
        let mut is_watched = locked(&self.is_watched);
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

    /// Publishes the table's progress until no client waits.
    fn keep_watch(&self) {
        if let Err(e) = self.watch_on() {
            if e.kind() != ErrorKind::NotFound {
                log::message(format_args!("following a table: {e}"));
            }
            let mut is_watched = locked(&self.is_watched);
            self.progress.send_modify(|progress| progress.is_lost = true);
            *is_watched = false;
        }
    }

    /// Whether rows have come, or were dropped, after at most `most`.
    fn have_come(&self, coming: &mut TableFollower, most: Duration) -> Result<bool> {
        match coming.poll(most) {
            // They were dropped faster than they were counted.
            Err(e) if e.kind() == ErrorKind::RowOutOfRange => {
                *coming = followed(&self.rows()?, None)?;
                Ok(true)
            }
            found => Ok(found?.is_some()),
        }
    }

    fn watch_on(&self) -> Result<()> {
        let mut watched = Instant::now();
        let mut patience = DURABLE.0;
        let mut asked = Instant::now();
        let mut renewals = self.renewals.load(Ordering::Relaxed);
        let mut coming = followed(&self.rows()?, Some(self.progress.borrow().end))?;
        // Rows may have come and been dropped before it began.
        let mut is_fresh = true;
        loop {
            let known = *self.progress.borrow();
            let renewals_now = self.renewals.load(Ordering::Relaxed);
            if renewals != renewals_now {
                // Without the files that were open before.
                renewals = renewals_now;
                coming = followed(&self.rows()?, Some(known.end))?;
                is_fresh = true;
            }
            let is_behind = known.durable_end < known.end;
            let was_fresh = std::mem::take(&mut is_fresh);
            let most = match is_behind {
                _ if was_fresh => Duration::ZERO,
                true => patience,
                false => LINGER / 4,
            };
            if self.have_come(&mut coming, most)? || was_fresh {
                patience = DURABLE.0;
                // Rows first: checking for durable rows at once would delay them.
                let rows = self.rows()?;
                let first_row = rows.first_row();
                let end = first_row + rows.len()?;
                let own = self.durable.load(Ordering::Acquire).min(end);
                self.progress.send_modify(|progress| {
                    (progress.first_row, progress.end) = (first_row, end);
                    progress.durable_end = progress.durable_end.max(own);
                });
                thread::sleep(REST);
            }
            // Also of a table whose rows never stop coming.
            if is_behind && asked.elapsed() >= patience {
                asked = Instant::now();
                let durable_end = self.durable_end(known.end)?;
                let is_new = durable_end > known.durable_end;
                patience = if is_new { DURABLE.0 } else { (2 * patience).min(DURABLE.1) };
                if is_new {
                    self.progress.send_modify(|progress| progress.durable_end = progress.durable_end.max(durable_end));
                }
            }
            if self.progress.receiver_count() > 0 {
                watched = Instant::now();
            } else if watched.elapsed() > LINGER {
                let mut is_watched = locked(&self.is_watched);
                // No client can be added between this check and the end.
                if self.progress.receiver_count() == 0 {
                    *is_watched = false;
                    return Ok(());
                }
            }
        }
    }
}

/// Follows rows from `start` on, or from now on if that row was dropped: only the progress matters here.
fn followed(rows: &Dataset, start: Option<u64>) -> Result<TableFollower> {
    match follow(rows, start, None) {
        Err(e) if e.kind() == ErrorKind::RowOutOfRange => follow(rows, None, None),
        found => found,
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

    /// The number of mappings of the file that this process has.
    fn mappings(path: &Path) -> usize {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.ends_with(path.to_str().unwrap())).count()
    }

    #[test]
    fn requests_for_a_file_share_its_mapping_and_nothing_that_was_decompressed() {
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
        // In place, but later than before; and another file.
        let other = folder.path().join("b.arrow");
        write_rows(&other, 5000..9000);
        let begun = Instant::now();
        let time = || fs::metadata(&path).unwrap().modified().unwrap();
        let before = time();
        // Times of files are those of the system's last tick.
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
