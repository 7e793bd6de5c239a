//! What is durable, by the writer's own account: rows are when a sync of them has succeeded, and after one that failed
//! nothing is, until the table is opened anew.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood::{ErrorKind, SyncPolicy, Value, Writer, WriterOptions, check, open, parse_schema, table_stat};

use crate::tables::{number_schema, wait_for_background_syncs};
use crate::thread::Thread;
use crate::wait::wait_until;

/// Which syncs a disk refuses.
#[derive(Debug, Default)]
enum Refused {
    #[default]
    None,
    /// The next one of a file.
    NextFile,
    /// The next one of the folder.
    NextFolder,
    /// Those of a thread.
    Of(ThreadId),
    /// The next one of a file, as soon as the test says so.
    Held,
}

/// A disk that counts syncs, and refuses some.
#[derive(Debug, Default)]
struct Disk {
    refused: Mutex<Refused>,
    /// Whether a held sync has begun, and whether it may end.
    has_begun: AtomicBool,
    may_end: AtomicBool,
    syncs: AtomicU64,
}

impl Disk {
    fn refuse(&self, syncs: Refused) {
        *self.refused.lock().unwrap() = syncs;
    }

    fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::SeqCst)
    }

    /// Waits until a held sync has begun.
    fn await_sync(&self) {
        wait_until("the beginning of a sync", || self.has_begun.load(Ordering::SeqCst));
    }

    /// Lets a held sync go on when this thread, which calls this before, waits for it.
    fn release_when_awaited(self: &Arc<Disk>) -> thread::JoinHandle<()> {
        let (disk, waiting) = (self.clone(), Thread::current());
        let is_there = Arc::new(AtomicBool::new(false));
        let comes = is_there.clone();
        let releasing = thread::spawn(move || {
            wait_until("a thread that waits for a sync", || comes.load(Ordering::SeqCst) && waiting.is_asleep());
            disk.may_end.store(true, Ordering::SeqCst);
        });
        is_there.store(true, Ordering::SeqCst);
        releasing
    }
}

impl FsObserver for Disk {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        let is_file = matches!(act, FsOp::Sync { .. } | FsOp::WriteSynced { .. });
        if !is_file && !matches!(act, FsOp::SyncFolder { .. }) {
            return Ok(());
        }
        self.syncs.fetch_add(1, Ordering::SeqCst);
        let mut refused = self.refused.lock().unwrap();
        let is_refused = match &*refused {
            Refused::None => false,
            Refused::NextFile | Refused::Held => is_file,
            Refused::NextFolder => !is_file,
            Refused::Of(thread) => is_file && thread::current().id() == *thread,
        };
        if !is_refused {
            return Ok(());
        }
        let syncs = std::mem::take(&mut *refused);
        drop(refused);
        if let Refused::Held = syncs {
            self.has_begun.store(true, Ordering::SeqCst);
            wait_until("the end of a held sync", || self.may_end.load(Ordering::SeqCst));
        }
        Err(std::io::Error::from_raw_os_error(libc::EIO))
    }
}

/// A table of numbers on such a disk.
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

    fn writer(&self) -> Writer {
        Writer::open(self.path(), Some(number_schema()), &self.options).unwrap()
    }

    /// The row after the last durable one, as others see it.
    fn durable_end(&self) -> u64 {
        table_stat(self.path()).unwrap().unwrap().durable_end
    }

    /// Checks that rows are durable up to `end`, both to the writer and to others.
    #[track_caller]
    fn check(&self, writer: &Writer, end: u64) {
        assert_eq!((writer.durable_rows(), self.durable_end()), (end, end));
    }
}

fn commit(writer: &mut Writer, rows: u64) {
    for _ in 0..rows {
        writer.append_row(&[Value::Int(writer.rows() as i64)]).unwrap();
    }
    writer.commit().unwrap();
}

#[track_caller]
fn refuses(done: arrowwood::Result<()>) {
    let e = done.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
    assert!(
        e.message().contains("the writer can't go on: syncing") && e.message().contains("open the table anew"),
        "{e}"
    );
}

/// A table with three durable rows and `rows` more, whose next sync is refused.
fn before_a_refused_sync(rows: u64) -> (Table, Writer) {
    let table = Table::new(SyncPolicy::Never, None);
    let mut writer = table.writer();
    commit(&mut writer, 3);
    writer.sync().unwrap();
    commit(&mut writer, rows);
    table.disk.refuse(Refused::NextFile);
    (table, writer)
}

/// After a failed sync, a thread that waited for its rows synced again: the system had taken the pages for written, so
/// that succeeded, and rows counted as durable that were not on the disk.
#[test]
fn no_sync_follows_one_that_has_failed() {
    for rows in [1, 20_000] {
        let (table, mut writer) = before_a_refused_sync(rows);
        assert_eq!(writer.sync().unwrap_err().kind(), ErrorKind::Io);
        let syncs = table.disk.syncs();
        let durability = writer.durability();
        thread::spawn(move || refuses(durability.wait())).join().unwrap();
        refuses(writer.sync());
        refuses(writer.commit());
        table.check(&writer, 3);
        refuses(writer.close());
        assert_eq!((table.disk.syncs(), table.durable_end()), (syncs, 3));
        // Who opens the table anew has the rows, and writes them again.
        let mut writer = table.writer();
        assert_eq!((writer.rows(), table.durable_end()), (3 + rows, 3));
        assert!(writer.durable_rows() <= 3);
        writer.sync().unwrap();
        table.check(&writer, 3 + rows);
    }
}

/// So did the background thread, within the second in which it is due.
#[test]
fn the_background_thread_does_not_sync_after_a_sync_that_has_failed() {
    let table = Table::new(SyncPolicy::Every(Duration::from_millis(1)), None);
    let mut writer = table.writer();
    table.disk.refuse(Refused::Of(thread::current().id()));
    // Until the thread has not been faster.
    loop {
        commit(&mut writer, 1);
        if writer.sync().is_err() {
            break;
        }
    }
    let syncs = table.disk.syncs();
    let end = writer.durable_rows();
    assert!(end < writer.rows());
    wait_for_background_syncs();
    table.check(&writer, end);
    assert_eq!(table.disk.syncs(), syncs);
}

/// A sync that had to wait for another one, which failed, synced again and succeeded.
#[test]
fn a_sync_that_waits_for_one_that_fails_does_not_succeed() {
    let table = Table::new(SyncPolicy::Never, None);
    let mut writer = table.writer();
    commit(&mut writer, 3);
    writer.sync().unwrap();
    commit(&mut writer, 5);
    table.disk.refuse(Refused::Held);
    let durability = writer.durability();
    let first = thread::spawn(move || durability.wait());
    table.disk.await_sync();
    let releasing = table.disk.release_when_awaited();
    refuses(writer.sync());
    assert_eq!(first.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
    releasing.join().unwrap();
    table.check(&writer, 3);
}

/// A folder that failed to sync was never synced again, and rows in segments whose names were not on the disk became
/// durable.
#[test]
fn rows_are_not_durable_behind_a_folder_that_failed_to_sync() {
    let table = Table::new(SyncPolicy::Never, Some(4));
    let mut writer = table.writer();
    commit(&mut writer, 3);
    writer.sync().unwrap();
    commit(&mut writer, 6);
    table.disk.refuse(Refused::NextFolder);
    assert_eq!(writer.sync().unwrap_err().kind(), ErrorKind::Io);
    refuses(writer.durability().wait());
    refuses(writer.sync());
    table.check(&writer, 3);
    drop(writer);
    let mut writer = table.writer();
    assert!(writer.durable_rows() <= 3);
    let syncs = table.disk.syncs();
    writer.sync().unwrap();
    // The folder, and three segments.
    assert_eq!(table.disk.syncs(), syncs + 4);
    table.check(&writer, 9);
}

/// Segments that became durable together with one before them, which was dropped since, looked as if they were not.
#[test]
fn rows_stay_durable_when_those_before_them_are_dropped() {
    let table = Table::new(SyncPolicy::Never, Some(4));
    let mut writer = table.writer();
    commit(&mut writer, 14);
    writer.sync().unwrap();
    table.check(&writer, 14);
    writer.drop_before(8).unwrap();
    table.check(&writer, 14);
    commit(&mut writer, 6);
    table.check(&writer, 14);
    drop(writer);
    let (writer, syncs) = (table.writer(), table.disk.syncs());
    writer.durability().wait().unwrap();
    // Of rows 12 to 16, and 16 to 20, and their names; none of those before.
    assert_eq!(table.disk.syncs(), syncs + 3);
    table.check(&writer, 20);
}

/// The file was synced, whose name was gone, and its rows were said to be durable.
#[test]
fn rows_of_a_table_that_was_removed_are_not_durable() {
    let remove_segment = |path: &Path| std::fs::remove_file(path.join(format!("{:020}.arrow", 4))).unwrap();
    let remove_all = |path: &Path| std::fs::remove_dir_all(path).unwrap();
    for remove in [&remove_segment as &dyn Fn(&Path), &remove_all] {
        let table = Table::new(SyncPolicy::Never, Some(4));
        let mut writer = table.writer();
        commit(&mut writer, 4);
        writer.durability().wait().unwrap();
        // Over the end of a segment.
        commit(&mut writer, 6);
        let durability = writer.durability();
        remove(&table.path());
        let told = durability.wait().unwrap_err();
        assert_eq!(told.kind(), ErrorKind::FileChanged);
        assert!(told.message().contains("removed"), "{told}");
        assert_eq!(durability.rows(), 4);
        assert!(writer.sync().is_err() && writer.commit().is_err());
    }
    let table = Table::new(SyncPolicy::Commit, None);
    let mut writer = table.writer();
    commit(&mut writer, 4);
    std::fs::remove_dir_all(table.path()).unwrap();
    writer.append_row(&[Value::Int(4)]).unwrap();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::FileChanged);
}

/// Who waited for rows of a writer that was killed did not wait: they were none of this writer's commits.
#[test]
fn who_waits_behind_a_killed_writer_has_durable_rows() {
    for rows in [1_000, 10_000] {
        let table = Table::new(SyncPolicy::Never, Some(4_000));
        let mut writer = table.writer();
        commit(&mut writer, rows);
        // As a kill does: nothing is synced.
        drop(writer);
        assert_eq!(table.durable_end(), 0);
        let writer = table.writer();
        writer.durability().wait().unwrap();
        table.check(&writer, rows);
    }
}

/// The names of a killed writer's segments, too: its last sync may have been that of an earlier commit.
#[test]
fn who_waits_behind_a_killed_writer_has_durable_names() {
    let table = Table::new(SyncPolicy::Never, Some(4));
    let mut writer = table.writer();
    commit(&mut writer, 6);
    drop(writer);
    let writer = table.writer();
    table.disk.refuse(Refused::NextFolder);
    assert_eq!(writer.durability().wait().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(table.durable_end(), 0);
}

/// Who waited behind a change of an empty table's schema did not wait for the name of the file that has the new one: nothing
/// was counted as committed, and after a power cut the old file could have the name again.
#[test]
fn who_waits_behind_a_change_of_an_empty_segments_schema_has_a_durable_name() {
    let table = Table::new(SyncPolicy::Never, None);
    let mut writer = table.writer();
    writer.sync().unwrap();
    let syncs = table.disk.syncs();
    let wider = |text: &str| Arc::new(parse_schema(text).unwrap());
    assert!(writer.alter(&wider("n: int64 not null, price: float64")).unwrap());
    // The new file was synced before it got the name.
    assert_eq!(table.disk.syncs(), syncs + 1);
    writer.durability().wait().unwrap();
    let synced = table.disk.syncs();
    assert!(synced > syncs + 1);
    writer.durability().wait().unwrap();
    assert_eq!(table.disk.syncs(), synced, "all is durable");
    assert!(writer.alter(&wider("n: int64 not null, price: float64, size: int64")).unwrap());
    table.disk.refuse(Refused::NextFolder);
    assert_eq!(writer.durability().wait().unwrap_err().kind(), ErrorKind::Io);
}

/// The places in a segment's file, from its header.
struct Places {
    live: usize,
    record: usize,
    values: usize,
}

impl Table {
    fn segment(&self, first_row: u64) -> PathBuf {
        self.path().join(format!("{first_row:020}.arrow"))
    }

    /// Changes bytes of a segment.
    fn edit(&self, first_row: u64, edit: impl FnOnce(&mut [u8], Places)) {
        let path = self.segment(first_row);
        let mut bytes = std::fs::read(&path).unwrap();
        let header = bytes.windows(8).position(|window| window == b"ArrwWood").unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[header + at..][..8].try_into().unwrap()) as usize;
        // The second buffer, behind the bitmap, has the values.
        let places = Places { live: word(40), record: word(48), values: word(128 + 16) };
        edit(&mut bytes, places);
        std::fs::write(&path, bytes).unwrap();
    }

    /// Damages the newest visible record.
    fn tear(&self, first_row: u64) {
        self.edit(first_row, |bytes, Places { live, record, .. }| {
            bytes[live + 4096 + usize::from(bytes[live] & 1) * record + 64] ^= 1;
        });
    }

    /// The numbers in the table.
    fn numbers(&self) -> Vec<i64> {
        let dataset = open(self.path()).unwrap();
        let numbers = dataset.rows().map(|row| match row.unwrap().get(0).unwrap() {
            Value::Int(number) => number,
            other => panic!("{other}"),
        });
        numbers.collect()
    }

    /// Checks that readers and the next writer find `rows` rows, and that the writer goes on behind them.
    #[track_caller]
    fn has(&self, rows: u64) {
        assert_eq!(self.numbers(), (0..rows as i64).collect::<Vec<_>>());
        let mut writer = self.writer();
        assert_eq!(writer.rows(), rows);
        commit(&mut writer, 2);
        writer.close().unwrap();
        assert_eq!(self.numbers(), (0..rows as i64 + 2).collect::<Vec<_>>());
    }
}

/// The newest visible record was damaged, and readers went back to the one before it, though the rows behind that one were
/// durable, by a durable record or by the log.
#[test]
fn durable_rows_stay_behind_a_damaged_record() {
    for commits in [&[3, 5][..], &[3, 20_000], &[2, 1, 5], &[3, 20_000, 4], &[20_000, 20_000, 1, 1]] {
        let table = Table::new(SyncPolicy::Never, None);
        let mut writer = table.writer();
        for &rows in commits {
            commit(&mut writer, rows);
            writer.sync().unwrap();
        }
        drop(writer);
        table.tear(0);
        table.has(commits.iter().sum());
        // The next writer has written the record again.
        assert!(check(table.path(), |_, _| ()).unwrap().is_good());
    }
}

/// So did rows of a full segment, and all behind it.
#[test]
fn a_durable_seal_stays_behind_a_damaged_record() {
    let table = Table::new(SyncPolicy::Never, Some(4));
    let mut writer = table.writer();
    for rows in [3, 6] {
        commit(&mut writer, rows);
        writer.sync().unwrap();
    }
    drop(writer);
    table.tear(0);
    table.has(9);
}

/// Rows whose sync has failed, and rows of which a copy has a durable record and not all bytes, go with the damaged record.
#[test]
fn rows_that_are_not_durable_go_with_a_damaged_record() {
    for rows in [5, 20_000] {
        let (table, mut writer) = before_a_refused_sync(rows);
        writer.sync().unwrap_err();
        drop(writer);
        table.tear(0);
        table.has(3);

        let table = Table::new(SyncPolicy::Never, None);
        let mut writer = table.writer();
        for rows in [3, rows] {
            commit(&mut writer, rows);
            writer.sync().unwrap();
        }
        drop(writer);
        table.tear(0);
        table.edit(0, |bytes, Places { values, .. }| bytes[values + 8 * 4..][..8].fill(0));
        table.has(3);
    }
}

/// A commit was visible when its sync failed, and the writer said that it had the positions of the one before.
#[test]
fn positions_of_a_commit_whose_sync_failed_are_those_that_readers_see() {
    let table = Table::new(SyncPolicy::Commit, None);
    let mut writer = table.writer();
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit_with(&[("from", 1)]).unwrap();
    writer.append_row(&[Value::Int(2)]).unwrap();
    table.disk.refuse(Refused::NextFile);
    assert_eq!(writer.commit_with(&[("from", 2), ("to", 9)]).unwrap_err().kind(), ErrorKind::Io);
    let seen = open(table.path()).unwrap();
    assert_eq!(seen.len().unwrap(), 2);
    assert_eq!(writer.positions(), seen.positions().unwrap());
}

/// A thread that waited for durable rows kept the table's lock beyond the end of the writer, for as long as its sync took.
#[test]
fn a_table_can_be_opened_anew_when_its_writer_is_dropped() {
    let (table, writer) = before_a_refused_sync(1);
    table.disk.refuse(Refused::Held);
    let durability = writer.durability();
    let waiting = thread::spawn(move || durability.wait());
    table.disk.await_sync();
    let releasing = table.disk.release_when_awaited();
    drop(writer);
    assert_eq!(table.writer().rows(), 4);
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Io);
    releasing.join().unwrap();
}

/// Positions that were durable went back with a damaged record where a commit had no rows: a producer read its input again.
#[test]
fn durable_positions_stay_behind_a_damaged_record() {
    // By the log, and by a durable record.
    for rows in [1, 20_000] {
        for is_closed in [false, true] {
            let table = Table::new(SyncPolicy::Never, None);
            let mut writer = table.writer();
            commit(&mut writer, rows);
            for position in 1..=3 {
                writer.commit_with(&[("from", position)]).unwrap();
                writer.sync().unwrap();
            }
            if is_closed {
                writer.close().unwrap()
            } else {
                drop(writer)
            }
            table.tear(0);
            assert_eq!(open(table.path()).unwrap().positions().unwrap()["from"], 3, "{rows} {is_closed}");
            assert_eq!(table.writer().positions()["from"], 3);
            table.has(rows);
        }
    }
}

/// Positions of a commit that was not synced go with the damaged record, and those of the commit before it stay.
#[test]
fn positions_that_are_not_durable_go_with_a_damaged_record() {
    let table = Table::new(SyncPolicy::Never, None);
    let mut writer = table.writer();
    commit(&mut writer, 1);
    writer.commit_with(&[("from", 1)]).unwrap();
    writer.sync().unwrap();
    for position in 2..=4 {
        writer.commit_with(&[("from", position)]).unwrap();
    }
    drop(writer);
    table.tear(0);
    assert_eq!(open(table.path()).unwrap().positions().unwrap()["from"], 3);
    table.has(1);
}
