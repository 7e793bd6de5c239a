//! Tests of the rows that a writer reports as durable: those of successful syncs. After a failed sync, no more rows
//! become durable until the table is reopened.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use arrow_schema::SchemaRef;
use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood::{ErrorKind, SyncPolicy, Value, Writer, WriterOptions, check, open, parse_schema, table_stat};

use crate::tables::{number_schema, read_numbers, wait_for_background_syncs};
use crate::thread::Thread;
use crate::wait::wait_until;

/// The sync that fails next; after it, syncs succeed again.
#[derive(Debug, Default)]
enum FailingSync {
    #[default]
    None,
    /// The next sync of a file.
    File,
    /// The next sync of the folder.
    Folder,
    /// The next sync of a file by a thread.
    ByThread(ThreadId),
    /// The next sync of a file, which first blocks until it is released.
    BlockedFile,
}

/// An observer of the file system that counts syncs, and makes one of them fail.
///
/// A sync that is to fail as [`FailingSync::BlockedFile`] sets `is_blocked` and then waits for `is_released`, in the
/// thread that syncs. The test waits for the former and sets the latter. Each is set once for each disk.
#[derive(Debug, Default)]
struct Disk {
    failing: Mutex<FailingSync>,
    is_blocked: AtomicBool,
    is_released: AtomicBool,
    /// The number of syncs so far, of files and folders.
    syncs: AtomicU64,
}

impl Disk {
    fn fail(&self, sync: FailingSync) {
        *self.failing.lock().unwrap() = sync;
    }

    fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::SeqCst)
    }

    fn wait_until_blocked(&self) {
        wait_until("the beginning of a sync", || self.is_blocked.load(Ordering::SeqCst));
    }

    /// Starts a thread that releases the blocked sync as soon as the calling thread waits for it.
    fn release_when_awaited(self: &Arc<Disk>) -> thread::JoinHandle<()> {
        let disk = self.clone();
        let caller = Thread::current();
        let has_returned = Arc::new(AtomicBool::new(false));
        let has_caller_returned = has_returned.clone();
        let releasing = thread::spawn(move || {
            // The caller may also sleep while it starts this thread.
            wait_until("a thread that waits for a sync", || {
                has_caller_returned.load(Ordering::SeqCst) && caller.is_asleep()
            });
            disk.is_released.store(true, Ordering::SeqCst);
        });
        has_returned.store(true, Ordering::SeqCst);
        releasing
    }
}

impl FsObserver for Disk {
    fn before_op(&self, op: FsOp<'_>) -> std::io::Result<()> {
        let is_file = matches!(op, FsOp::Sync { .. } | FsOp::WriteSynced { .. });
        if !is_file && !matches!(op, FsOp::SyncFolder { .. }) {
            return Ok(());
        }
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let mut failing = self.failing.lock().unwrap();
        let fails = match &*failing {
            FailingSync::None => false,
            FailingSync::File | FailingSync::BlockedFile => is_file,
            FailingSync::Folder => !is_file,
            FailingSync::ByThread(thread) => is_file && thread::current().id() == *thread,
        };
        if !fails {
            return Ok(());
        }
        let sync = std::mem::take(&mut *failing);
        drop(failing);
        if let FailingSync::BlockedFile = sync {
            self.is_blocked.store(true, Ordering::SeqCst);
            wait_until("the release of a blocked sync", || self.is_released.load(Ordering::SeqCst));
        }
        Err(std::io::Error::from_raw_os_error(libc::EIO))
    }
}

/// A table of numbers on a [`Disk`].
struct Table {
    home: tempfile::TempDir,
    disk: Arc<Disk>,
    options: WriterOptions,
}

impl Table {
    fn new(sync: SyncPolicy, segment_rows: Option<u64>) -> Table {
        let disk = Arc::new(Disk::default());
        let options = WriterOptions {
            sync,
            segment_rows,
            medium: FileSystem::with_observer(disk.clone()),
            ..WriterOptions::default()
        };
        Table { home: tempfile::tempdir().unwrap(), disk, options }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("ticks")
    }

    fn open_writer(&self) -> Writer {
        Writer::open(self.path(), Some(number_schema()), &self.options).unwrap()
    }

    /// Returns the row after the last durable one, as readers see it.
    fn durable_end(&self) -> u64 {
        table_stat(self.path()).unwrap().unwrap().durable_end
    }

    /// Checks that rows are durable up to `end`, as reported by the writer and to readers.
    #[track_caller]
    fn check_durable(&self, writer: &Writer, end: u64) {
        assert_eq!(writer.durable_rows(), end, "as reported by the writer");
        assert_eq!(self.durable_end(), end, "as seen by readers");
    }

    fn read_numbers(&self) -> Vec<i64> {
        read_numbers(&open(self.path()).unwrap())
    }

    /// Checks that readers and the next writer see `rows` rows, and that the writer continues after them.
    #[track_caller]
    fn check_rows(&self, rows: u64) {
        assert_eq!(self.read_numbers(), (0..rows as i64).collect::<Vec<_>>());
        let mut writer = self.open_writer();
        assert_eq!(writer.rows(), rows);
        commit(&mut writer, 2);
        writer.close().unwrap();
        assert_eq!(self.read_numbers(), (0..rows as i64 + 2).collect::<Vec<_>>());
    }

    /// Returns the path of the segment whose first row is `first_row`.
    fn segment(&self, first_row: u64) -> PathBuf {
        self.path().join(format!("{first_row:020}.arrow"))
    }

    /// Changes bytes of the first segment.
    fn edit_segment(&self, edit: impl FnOnce(&mut [u8], Layout)) {
        let path = self.segment(0);
        let mut bytes = std::fs::read(&path).unwrap();
        let layout = Layout::parse(&bytes);
        edit(&mut bytes, layout);
        std::fs::write(&path, bytes).unwrap();
    }

    /// Damages the newest visible commit record.
    fn damage_record(&self) {
        self.edit_segment(|bytes, layout| {
            let newest = layout.newest_record(bytes);
            bytes[newest + RECORD_COUNTERS] ^= 1;
        });
    }

    /// Overwrites a number that is stored in the first segment.
    fn clear_number(&self, row: usize) {
        self.edit_segment(|bytes, Layout { values, .. }| {
            bytes[values + row * NUMBER_LEN..][..NUMBER_LEN].fill(0);
        });
    }
}

// Offsets in a segment, as the description of the format has them.

/// The magic bytes of the header.
const MAGIC: &[u8] = b"ArrwWood";
/// The offset in the header of the live page's offset.
const HEADER_LIVE: usize = 40;
/// The offset in the header of the number of bytes from one record to the next.
const HEADER_RECORD_LEN: usize = 48;
/// The offset in the header of its list of buffers, each of which has an offset and a capacity.
const HEADER_BUFFERS: usize = 128;
/// The size of an entry in this list.
const BUFFER_LEN: usize = 16;
/// The number of the buffer with the values of the first column, after its validity bitmap.
const VALUES_BUFFER: usize = 1;
/// The size of the live page, which begins with the number of the newest commit. Two records follow, of even and of odd
/// commits.
const LIVE_PAGE_LEN: usize = 4096;
/// The offset in a record of its first counter.
const RECORD_COUNTERS: usize = 64;
/// The size of a value of the table's column.
const NUMBER_LEN: usize = size_of::<i64>();

/// The offsets of a segment's parts, from its header.
struct Layout {
    /// The live page.
    live: usize,
    /// The number of bytes from one record to the next.
    record_len: usize,
    /// The values of the first column.
    values: usize,
}

impl Layout {
    fn parse(bytes: &[u8]) -> Layout {
        let header = bytes.windows(MAGIC.len()).position(|window| window == MAGIC).unwrap();
        let word = |offset: usize| {
            let word = bytes[header + offset..].first_chunk().unwrap();
            u64::from_le_bytes(*word) as usize
        };
        Layout {
            live: word(HEADER_LIVE),
            record_len: word(HEADER_RECORD_LEN),
            values: word(HEADER_BUFFERS + VALUES_BUFFER * BUFFER_LEN),
        }
    }

    /// Returns the offset of the newest visible record.
    fn newest_record(&self, bytes: &[u8]) -> usize {
        let is_odd = bytes[self.live] & 1 == 1;
        let records = self.live + LIVE_PAGE_LEN;
        if is_odd { records + self.record_len } else { records }
    }
}

fn schema(text: &str) -> SchemaRef {
    Arc::new(parse_schema(text).unwrap())
}

/// Commits rows that contain their own numbers.
fn commit(writer: &mut Writer, rows: u64) {
    for _ in 0..rows {
        writer.append_row(&[Value::Int(writer.rows() as i64)]).unwrap();
    }
    writer.commit().unwrap();
}

/// Checks that a call failed because of an earlier sync.
#[track_caller]
fn assert_writer_failed(result: arrowwood::Result<()>) {
    let e = result.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
    assert!(
        e.message().contains("the writer can't go on: syncing") && e.message().contains("open the table anew"),
        "{e}"
    );
}

/// Returns a table with three durable rows and `rows` more, whose next sync fails.
fn prepare_failing_sync(rows: u64) -> (Table, Writer) {
    let table = Table::new(SyncPolicy::Never, None);
    let mut writer = table.open_writer();
    commit(&mut writer, 3);
    writer.sync().unwrap();
    commit(&mut writer, rows);
    table.disk.fail(FailingSync::File);
    (table, writer)
}

/// Regression test: after a failed sync, a thread that waited for its rows synced again. The system treats the pages of
/// a failed sync as written, so the second one succeeded, and rows were reported as durable that weren't on the disk.
#[test]
fn a_failed_sync_is_not_repeated() {
    for rows in [1, 20_000] {
        let (table, mut writer) = prepare_failing_sync(rows);
        assert_eq!(writer.sync().unwrap_err().kind(), ErrorKind::Io);
        let syncs = table.disk.syncs();
        let durability = writer.durability();
        thread::spawn(move || assert_writer_failed(durability.wait())).join().unwrap();
        assert_writer_failed(writer.sync());
        assert_writer_failed(writer.commit());
        table.check_durable(&writer, 3);
        assert_writer_failed(writer.close());
        assert_eq!(table.disk.syncs(), syncs);
        assert_eq!(table.durable_end(), 3);
        // The next writer still reads the rows from the page cache, and writes them again.
        let mut writer = table.open_writer();
        assert_eq!(writer.rows(), 3 + rows);
        assert_eq!(table.durable_end(), 3);
        assert!(writer.durable_rows() <= 3);
        writer.sync().unwrap();
        table.check_durable(&writer, 3 + rows);
    }
}

/// The maximum number of commits until one is synced by its own thread.
const MAX_COMMITS: usize = 10_000;

/// Regression test: after a failed sync, the background thread synced again. The second sync succeeded, as in
/// [`a_failed_sync_is_not_repeated`].
#[test]
fn the_background_thread_does_not_sync_after_a_failed_sync() {
    let table = Table::new(SyncPolicy::Every(Duration::from_millis(1)), None);
    let mut writer = table.open_writer();
    table.disk.fail(FailingSync::ByThread(thread::current().id()));
    // The sync succeeds if the background thread has already synced the row.
    let has_failed = (0..MAX_COMMITS).any(|_| {
        commit(&mut writer, 1);
        writer.sync().is_err()
    });
    assert!(has_failed, "the background thread has synced each of {MAX_COMMITS} commits first");
    let syncs = table.disk.syncs();
    let end = writer.durable_rows();
    assert!(end < writer.rows());
    wait_for_background_syncs();
    table.check_durable(&writer, end);
    assert_eq!(table.disk.syncs(), syncs);
}

/// Regression test: a sync that waited for another one repeated it after it failed, and succeeded.
#[test]
fn a_sync_that_waits_for_a_failing_one_fails_too() {
    let table = Table::new(SyncPolicy::Never, None);
    let mut writer = table.open_writer();
    commit(&mut writer, 3);
    writer.sync().unwrap();
    commit(&mut writer, 5);
    table.disk.fail(FailingSync::BlockedFile);
    let durability = writer.durability();
    let first = thread::spawn(move || durability.wait());
    table.disk.wait_until_blocked();
    let releasing = table.disk.release_when_awaited();
    assert_writer_failed(writer.sync());
    assert_eq!(first.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
    releasing.join().unwrap();
    table.check_durable(&writer, 3);
}

/// Regression test: after a failed sync of the folder, rows in segments whose names weren't on the disk were reported
/// as durable.
#[test]
fn rows_are_not_durable_if_syncing_their_folder_failed() {
    let table = Table::new(SyncPolicy::Never, Some(4));
    let mut writer = table.open_writer();
    commit(&mut writer, 3);
    writer.sync().unwrap();
    commit(&mut writer, 6);
    table.disk.fail(FailingSync::Folder);
    assert_eq!(writer.sync().unwrap_err().kind(), ErrorKind::Io);
    assert_writer_failed(writer.durability().wait());
    assert_writer_failed(writer.sync());
    table.check_durable(&writer, 3);
    drop(writer);
    let mut writer = table.open_writer();
    assert!(writer.durable_rows() <= 3);
    let syncs = table.disk.syncs();
    writer.sync().unwrap();
    // It syncs the folder and three segments.
    assert_eq!(table.disk.syncs(), syncs + 4);
    table.check_durable(&writer, 9);
}

/// Regression test: rows that were synced together with earlier segments were no longer reported as durable when those
/// were dropped.
#[test]
fn rows_stay_durable_when_earlier_ones_are_dropped() {
    let table = Table::new(SyncPolicy::Never, Some(4));
    let mut writer = table.open_writer();
    commit(&mut writer, 14);
    writer.sync().unwrap();
    table.check_durable(&writer, 14);
    writer.drop_before(8).unwrap();
    table.check_durable(&writer, 14);
    commit(&mut writer, 6);
    table.check_durable(&writer, 14);
    drop(writer);
    let writer = table.open_writer();
    let syncs = table.disk.syncs();
    writer.durability().wait().unwrap();
    // It syncs the segments of the rows 12..16 and 16..20, and their names.
    assert_eq!(table.disk.syncs(), syncs + 3);
    table.check_durable(&writer, 20);
}

/// Regression test: the file of a removed segment was synced, and its rows were reported as durable.
#[test]
fn rows_of_a_removed_table_are_not_durable() {
    let removals: [fn(&Table); 2] = [
        |table| std::fs::remove_file(table.segment(4)).unwrap(),
        |table| std::fs::remove_dir_all(table.path()).unwrap(),
    ];

    for remove in removals {
        let table = Table::new(SyncPolicy::Never, Some(4));
        let mut writer = table.open_writer();
        commit(&mut writer, 4);
        writer.durability().wait().unwrap();
        // These rows are in the next segments.
        commit(&mut writer, 6);
        let durability = writer.durability();
        remove(&table);
        let error = durability.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileChanged);
        assert!(error.message().contains("removed"), "{error}");
        assert_eq!(durability.rows(), 4);
        assert!(writer.sync().is_err() && writer.commit().is_err());
    }

    let table = Table::new(SyncPolicy::Commit, None);
    let mut writer = table.open_writer();
    commit(&mut writer, 4);
    std::fs::remove_dir_all(table.path()).unwrap();
    writer.append_row(&[Value::Int(4)]).unwrap();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::FileChanged);
}

/// Regression test: waiting for durability had no effect on rows that an earlier writer had committed before it was
/// killed.
#[test]
fn waiting_for_durability_includes_rows_of_a_killed_writer() {
    for rows in [1_000, 10_000] {
        let table = Table::new(SyncPolicy::Never, Some(4_000));
        let mut writer = table.open_writer();
        commit(&mut writer, rows);
        // Dropping the writer syncs nothing, as a kill.
        drop(writer);
        assert_eq!(table.durable_end(), 0);
        let writer = table.open_writer();
        writer.durability().wait().unwrap();
        table.check_durable(&writer, rows);
    }
}

/// The segments of a killed writer may have no durable names yet: waiting for durability syncs the folder as well.
#[test]
fn waiting_for_durability_includes_names_of_a_killed_writer() {
    let table = Table::new(SyncPolicy::Never, Some(4));
    let mut writer = table.open_writer();
    commit(&mut writer, 6);
    drop(writer);
    let writer = table.open_writer();
    table.disk.fail(FailingSync::Folder);
    assert_eq!(writer.durability().wait().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(table.durable_end(), 0);
}

/// Regression test: a schema change of an empty table replaces its file, but waiting for durability didn't sync the new
/// name, as no rows were committed. After a power cut, the table could have the old schema again.
#[test]
fn waiting_for_durability_includes_a_schema_change_of_an_empty_table() {
    let table = Table::new(SyncPolicy::Never, None);
    let mut writer = table.open_writer();
    writer.sync().unwrap();
    let syncs = table.disk.syncs();
    assert!(writer.alter(&schema("n: int64 not null, price: float64")).unwrap());
    // The new file is synced before it gets its name.
    assert_eq!(table.disk.syncs(), syncs + 1);
    writer.durability().wait().unwrap();
    let syncs_after_wait = table.disk.syncs();
    assert!(syncs_after_wait > syncs + 1);
    writer.durability().wait().unwrap();
    assert_eq!(table.disk.syncs(), syncs_after_wait, "everything is durable");
    assert!(writer.alter(&schema("n: int64 not null, price: float64, size: int64")).unwrap());
    table.disk.fail(FailingSync::Folder);
    assert_eq!(writer.durability().wait().unwrap_err().kind(), ErrorKind::Io);
}

/// Regression test: if the newest visible record was damaged, readers fell back to the previous one, although later
/// rows were durable according to a durable record or the log.
#[test]
fn durable_rows_survive_a_damaged_record() {
    for commits in [&[3, 5][..], &[3, 20_000], &[2, 1, 5], &[3, 20_000, 4], &[20_000, 20_000, 1, 1]] {
        let table = Table::new(SyncPolicy::Never, None);
        let mut writer = table.open_writer();
        for &rows in commits {
            commit(&mut writer, rows);
            writer.sync().unwrap();
        }
        drop(writer);
        table.damage_record();
        table.check_rows(commits.iter().sum());
        // The next writer has replaced the record.
        assert!(check(table.path(), |_, _| ()).unwrap().is_good());
    }
}

/// Regression test: if the newest visible record of a full segment was damaged, readers fell back to the previous one,
/// and the segment's last rows and all later segments were lost.
#[test]
fn durable_rows_of_a_full_segment_survive_a_damaged_record() {
    let table = Table::new(SyncPolicy::Never, Some(4));
    let mut writer = table.open_writer();
    for rows in [3, 6] {
        commit(&mut writer, rows);
        writer.sync().unwrap();
    }
    drop(writer);
    table.damage_record();
    table.check_rows(9);
}

/// Rows are lost with a damaged record if their sync failed, or if a copy of the table has their durable record but not
/// all of their bytes.
#[test]
fn rows_that_are_not_durable_are_lost_with_a_damaged_record() {
    for rows in [5, 20_000] {
        let (table, mut writer) = prepare_failing_sync(rows);
        writer.sync().unwrap_err();
        drop(writer);
        table.damage_record();
        table.check_rows(3);

        let table = Table::new(SyncPolicy::Never, None);
        let mut writer = table.open_writer();
        for rows in [3, rows] {
            commit(&mut writer, rows);
            writer.sync().unwrap();
        }
        drop(writer);
        table.damage_record();
        table.clear_number(4);
        table.check_rows(3);
    }
}

/// Regression test: a commit is visible although its sync failed, but the writer still reported the positions of the
/// previous one.
#[test]
fn a_writer_reports_the_positions_that_readers_see_after_a_failed_sync() {
    let table = Table::new(SyncPolicy::Commit, None);
    let mut writer = table.open_writer();
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit_with(&[("from", 1)]).unwrap();
    writer.append_row(&[Value::Int(2)]).unwrap();
    table.disk.fail(FailingSync::File);
    assert_eq!(writer.commit_with(&[("from", 2), ("to", 9)]).unwrap_err().kind(), ErrorKind::Io);
    let dataset = open(table.path()).unwrap();
    assert_eq!(dataset.len().unwrap(), 2);
    assert_eq!(writer.positions(), dataset.positions().unwrap());
}

/// Regression test: a thread that waited for durable rows kept the table locked after its writer was dropped, until the
/// sync ended.
#[test]
fn a_table_can_be_reopened_during_a_sync_of_a_dropped_writer() {
    let (table, writer) = prepare_failing_sync(1);
    table.disk.fail(FailingSync::BlockedFile);
    let durability = writer.durability();
    let waiting = thread::spawn(move || durability.wait());
    table.disk.wait_until_blocked();
    let releasing = table.disk.release_when_awaited();
    drop(writer);
    assert_eq!(table.open_writer().rows(), 4);
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
    releasing.join().unwrap();
}

/// Regression test: durable positions of commits without rows were lost with a damaged record, and the producer
/// repeated its input.
#[test]
fn durable_positions_survive_a_damaged_record() {
    // Few rows are durable by the log, many by a durable record.
    for rows in [1, 20_000] {
        for is_closed in [false, true] {
            let table = Table::new(SyncPolicy::Never, None);
            let mut writer = table.open_writer();
            commit(&mut writer, rows);
            for position in 1..=3 {
                writer.commit_with(&[("from", position)]).unwrap();
                writer.sync().unwrap();
            }
            if is_closed {
                writer.close().unwrap();
            } else {
                drop(writer);
            }
            table.damage_record();
            assert_eq!(open(table.path()).unwrap().positions().unwrap()["from"], 3, "{rows} rows, closed: {is_closed}");
            assert_eq!(table.open_writer().positions()["from"], 3);
            table.check_rows(rows);
        }
    }
}

/// Positions that were not synced are lost with the newest visible record; those of the commit before it are kept,
/// which are in the other record.
#[test]
fn positions_that_are_not_durable_are_lost_with_a_damaged_record() {
    let table = Table::new(SyncPolicy::Never, None);
    let mut writer = table.open_writer();
    commit(&mut writer, 1);
    writer.commit_with(&[("from", 1)]).unwrap();
    writer.sync().unwrap();
    for position in 2..=4 {
        writer.commit_with(&[("from", position)]).unwrap();
    }
    drop(writer);
    table.damage_record();
    assert_eq!(open(table.path()).unwrap().positions().unwrap()["from"], 3);
    table.check_rows(1);
}
