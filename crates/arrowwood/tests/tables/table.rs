//! Tests of growing tables: readers see exactly the committed rows, also after crashes, and so do other Arrow readers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood::{Dataset, ErrorKind, SyncPolicy, Value, Writer, WriterOptions, follow, open};

use crate::crash_snapshots::CrashSnapshots;
use crate::tables::{number_schema, unsynced};
use crate::wait::{PATIENCE, wait_until};

/// The page size of the format.
const PAGE: usize = 4096;

/// Returns a schema of ticks.
fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Int64, false),
        Field::new("symbol", DataType::Utf8, false),
        Field::new("price", DataType::Float64, true),
    ]))
}

fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(rows.clone())),
        Arc::new(StringArray::from_iter_values(rows.clone().map(|i| format!("s{}", i % 7)))),
        Arc::new(Float64Array::from_iter(rows.map(|i| (i % 10 != 3).then_some(i as f64 * 0.5)))),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
}

#[test]
fn committed_rows_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let options =
        WriterOptions { dictionary: vec!["symbol".into()], sorted_by: Some("ts".into()), ..Default::default() };
    let mut writer = Writer::open(&path, Some(schema()), &options).unwrap();
    let mut snapshots = Vec::new();
    let mut rows = 0;
    let mut dataset = open(&path).unwrap();
    for step in [1, 2, 5, 1000, 8, 7, 70_000, 3, 300_000, 1] {
        writer.append(&batch(rows..rows + step)).unwrap();
        assert_eq!(dataset.refresh().unwrap().len().unwrap(), rows as u64);
        writer.commit().unwrap();
        rows += step;
        dataset = dataset.refresh().unwrap();
        assert_eq!(dataset.len().unwrap(), rows as u64);
        snapshots.push((rows, dataset.clone()));
    }
    drop(writer);
    for (rows, dataset) in snapshots {
        dataset.validate(|_, _| ()).unwrap();
        for row in [0, rows / 2, rows - 1] {
            let cells = dataset.row(row as u64).unwrap();
            assert_eq!(cells.get(0).unwrap().to_string(), row.to_string());
            assert_eq!(cells.get(1).unwrap().to_string(), format!("s{}", row % 7));
            let price = if row % 10 == 3 { "null".into() } else { format!("{:?}", row as f64 * 0.5) };
            assert_eq!(cells.get(2).unwrap().to_string(), price);
        }
    }
}

/// Regression test: a commit that spans segments names the new ones, and then one store makes all rows visible. A
/// reader that listed the folder before the names were given, and read the last segment after the store, saw only the
/// rows in that segment.
#[test]
fn opening_never_sees_a_part_of_a_commit() {
    const STEP: i64 = 10;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let options = unsynced(64);
    let mut writer = Writer::open(&path, Some(schema()), &options).unwrap();
    let is_done = AtomicBool::new(false);
    let opened = std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut opened = 0;
            while !is_done.load(Ordering::Relaxed) {
                let rows = open(&path).unwrap().len().unwrap();
                assert_eq!(rows % STEP as u64, 0, "{rows} rows");
                opened += 1;
            }
            opened
        });
        for start in (0..20_000).step_by(STEP as usize) {
            writer.append(&batch(start..start + STEP)).unwrap();
            writer.commit().unwrap();
            if reader.is_finished() {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(opened > 0);
}

#[test]
fn an_empty_table_can_be_compacted_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let options = WriterOptions::default();
    Writer::open(&path, Some(schema()), &options).unwrap().close().unwrap();
    arrowwood::compact(&path, |_, _| ()).unwrap();
    let dataset = open(&path).unwrap();
    let mut writer = Writer::open(&path, None, &options).unwrap();
    writer.append(&batch(0..3)).unwrap();
    writer.commit().unwrap();
    assert_eq!(dataset.refresh().unwrap().len().unwrap(), 3);
}

/// Regression test: a writer that commits as fast as it can overwrites both records while one is read. The thread that
/// publishes footers gave up then, and the writer failed.
#[test]
fn readers_keep_up_with_a_writer_at_full_speed() {
    const ROWS: i64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = Writer::open(&path, Some(schema()), &WriterOptions::default()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut dataset = open(&path).unwrap();
            let mut rows_before = 0;
            while !is_done.load(Ordering::Acquire) {
                dataset = dataset.refresh().unwrap();
                let rows = dataset.len().unwrap();
                assert!(rows >= rows_before);
                rows_before = rows;
            }
            dataset.refresh().unwrap().len().unwrap()
        });
        for i in 0..ROWS {
            writer.append_row(&[Value::Int(i), Value::Str("x"), Value::Float64(0.5)]).unwrap();
            writer.commit().unwrap();
        }
        is_done.store(true, Ordering::Release);
        assert_eq!(reader.join().unwrap(), ROWS as u64);
    });
    writer.close().unwrap();
    // Opening the single files reads their footers, as other Arrow readers do.
    let files = std::fs::read_dir(&path).unwrap().map(|file| open(file.unwrap().path()).unwrap().len().unwrap());
    assert_eq!(files.sum::<u64>(), ROWS as u64);
}

/// A reader that has noted more rows than there are, for example before a power cut, must not miss the next ones.
#[test]
fn following_from_beyond_the_end_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = Writer::open(&path, Some(schema()), &WriterOptions::default()).unwrap();
    let dataset = open(&path).unwrap();
    assert_eq!(follow(&dataset, Some(1), None).unwrap_err().kind(), ErrorKind::RowOutOfRange);
    writer.append(&batch(0..5)).unwrap();
    writer.commit().unwrap();
    // The end is the newest one, not the end of the dataset.
    let mut follower = follow(&dataset, Some(5), None).unwrap();
    assert!(follower.poll(Duration::ZERO).unwrap().is_none());
    let error = follow(&dataset, Some(6), None).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::RowOutOfRange, Some(&*path)));
    assert!(error.message().contains("the table has 5 rows so far, and the next one is number 5"), "{error}");
}

/// Follows a table up to `end`, and opens a new follower when rows were dropped before they were read.
fn follow_with_gaps(path: &Path, end: u64, pause: Duration) {
    let mut next_row = 0;
    while next_row < end {
        let dataset = open(path).unwrap();
        let start = next_row.max(dataset.first_row());
        let mut follower = match follow(&dataset, Some(start), None) {
            Ok(follower) => follower,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::RowOutOfRange, "{e}");
                continue;
            }
        };
        next_row = start;
        while next_row < end {
            let rows = match follower.poll(PATIENCE) {
                Ok(rows) => rows.expect("rows"),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::RowOutOfRange, "{e}");
                    assert!(e.message().contains(&format!("following from row {next_row}:")), "{e}");
                    assert_eq!(follower.next_row(), next_row);
                    break;
                }
            };
            // Returned rows can be read even if they are dropped during the pause.
            std::thread::sleep(pause);
            for value in rows.column("ts").unwrap().values() {
                assert!(matches!(value.unwrap(), Value::Int(ts) if ts as u64 == next_row));
                next_row += 1;
            }
        }
    }
}

/// A follower returns each row once, or an error if it was dropped before; it never skips rows silently. The writer
/// drops rows as fast as it can, also while a follower lists the directory and opens files.
#[test]
fn followers_report_dropped_rows() {
    const ROWS: i64 = 4_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = Writer::open(&path, Some(schema()), &unsynced(50)).unwrap();
    let mut late_follower = follow(&open(&path).unwrap(), Some(0), None).unwrap();
    std::thread::scope(|scope| {
        for pause_micros in [0, 300, 10_000] {
            let path = &path;
            scope.spawn(move || follow_with_gaps(path, ROWS as u64, Duration::from_micros(pause_micros)));
        }
        for start in (0..ROWS).step_by(20) {
            writer.append(&batch(start..start + 20)).unwrap();
            writer.commit().unwrap();
            writer.drop_before((start as u64).saturating_sub(100)).unwrap();
        }
    });
    let error = late_follower.poll(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
    assert!(error.message().contains("following from row 0: 3,850 rows were dropped"), "{error}");
}

/// Blocks the first write to the log until all threads have committed.
#[derive(Debug, Default)]
struct FirstWriteGate {
    committed: AtomicU64,
    writes: AtomicU64,
}

const THREADS: u64 = 64;

impl FsObserver for FirstWriteGate {
    fn before_op(&self, op: FsOp<'_>) -> std::io::Result<()> {
        if matches!(op, FsOp::WriteSynced { .. }) && self.writes.fetch_add(1, Ordering::SeqCst) == 0 {
            wait_until("a commit of each thread", || self.committed.load(Ordering::SeqCst) >= THREADS);
        }
        Ok(())
    }
}

/// Several threads commit rows to one table, and each waits until its row is durable.
#[test]
fn one_sync_makes_the_commits_of_many_threads_durable() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(FirstWriteGate::default());
    let medium = FileSystem::with_observer(gate.clone());
    let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
    let writer = Writer::open(folder.path().join("t"), Some(number_schema()), &options).unwrap();
    let durability = writer.durability();
    let writer = Mutex::new(writer);
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let durability = durability.clone();
            let writer = &writer;
            let gate = &gate;
            scope.spawn(move || {
                let mut locked = writer.lock().unwrap();
                locked.append_row(&[Value::Int(n as i64)]).unwrap();
                locked.commit_with(&[(&format!("thread-{}", n % 8), n as i64)]).unwrap();
                let committed = locked.committed_rows();
                drop(locked);
                gate.committed.fetch_add(1, Ordering::SeqCst);
                durability.wait().unwrap();
                assert!(durability.rows() >= committed);
            });
        }
    });
    assert_eq!(gate.writes.load(Ordering::SeqCst), 2, "one for the first thread, one for all others");
    let writer = writer.into_inner().unwrap();
    assert_eq!((writer.durable_rows(), writer.positions().len()), (THREADS, 8));
    drop(writer);
    assert_eq!(durability.wait().unwrap(), ());
}

/// The number of positions that a table may have.
const MAX_POSITIONS: usize = 256;

/// Checks the positions of a table that has the greatest number of them.
fn check_positions(table: &Path) {
    let positions = open(table).unwrap().positions().unwrap();
    assert_eq!(positions.len(), MAX_POSITIONS);
    assert_eq!((positions["position 7"], positions["position 255"]), (8, i64::MIN));
    assert!(arrowwood::check(table, |_, _| ()).unwrap().is_good());
}

/// Invalid names and too many positions are refused, and leave the table unchanged.
#[test]
fn invalid_positions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    let too_long = "x".repeat(256);
    for name in ["", &too_long, "two\nlines", "\u{7f}"] {
        let error = writer.commit_with(&[("fine", 1), (name, 2)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    let names: Vec<String> = (0..=MAX_POSITIONS).map(|number| format!("position {number}")).collect();
    let too_many: Vec<(&str, i64)> = names.iter().map(|name| (&name[..], i64::MIN)).collect();
    assert_eq!(writer.commit_with(&too_many).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!((writer.committed_rows(), writer.positions().len()), (0, 0));

    writer.commit_with(&too_many[..MAX_POSITIONS]).unwrap();
    writer.commit_with(&[("position 7", 7), ("position 7", 8)]).unwrap();
    writer.close().unwrap();
    check_positions(&table);
    // The positions are kept by a compaction, and by the next live segment.
    arrowwood::compact(&table, |_, _| ()).unwrap();
    check_positions(&table);
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    check_positions(&table);
    assert_eq!(writer.positions()["position 7"], 8);
    writer.append_row(&[Value::Int(2)]).unwrap();
    writer.close().unwrap();
    check_positions(&table);
}

fn batch_numbers(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn dataset_numbers(dataset: &Dataset) -> Vec<i64> {
    dataset.to_record_batches().flat_map(|batch| batch_numbers(&batch.unwrap())).collect()
}

/// Returns the rows of a table.
fn our_rows(table: &Path) -> Vec<i64> {
    dataset_numbers(&open(table).unwrap())
}

/// Returns the rows that arrow-rs reads from the files of a table, through their footers, in the order of their names.
fn footer_rows(table: &Path) -> Vec<i64> {
    let mut paths: Vec<_> = std::fs::read_dir(table).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    let mut rows = Vec::new();
    for path in paths {
        let reader = FileReader::try_new(std::fs::File::open(path).unwrap(), None).unwrap();
        rows.extend(reader.flat_map(|batch| batch_numbers(&batch.unwrap())));
    }
    rows
}

fn segment_path(table: &Path, first_row: u64) -> PathBuf {
    table.join(format!("{first_row:020}.arrow"))
}

fn append_numbers(writer: &mut Writer, rows: std::ops::Range<i64>) {
    for n in rows {
        writer.append_row(&[Value::Int(n)]).unwrap();
    }
}

/// Returns folders with the table `ticks`, as left by a writer that was killed at one of the steps of a commit.
///
/// The rows 0..5 were committed before; the commit adds the rows up to 30, in three new segments.
fn kill_at_each_step(folder: &Path) -> Vec<PathBuf> {
    let live = folder.join("live");
    std::fs::create_dir(&live).unwrap();
    let snapshots = Arc::new(CrashSnapshots::default());
    let medium = FileSystem::with_observer(snapshots.clone());
    let options = WriterOptions { medium, ..unsynced(8) };
    let mut writer = Writer::open(live.join("ticks"), Some(number_schema()), &options).unwrap();
    append_numbers(&mut writer, 0..5);
    writer.commit_with(&[("source", 5)]).unwrap();
    append_numbers(&mut writer, 5..30);
    snapshots.start(&live, &folder.join("snapshots"));
    writer.commit_with(&[("source", 30)]).unwrap();
    snapshots.stop()
}

/// Other Arrow readers may see the first rows of a commit before our readers see any. These rows, and with them the
/// whole commit, must survive a kill of the writer: the next writer finishes the commit.
#[test]
fn rows_that_other_arrow_readers_saw_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let before: Vec<i64> = (0..5).collect();
    let after: Vec<i64> = (0..30).collect();
    let mut seen_by_others_first = 0;
    let mut finished = 0;
    let mut undone = 0;
    for (step, parent) in kill_at_each_step(folder.path()).iter().enumerate() {
        let table = parent.join("ticks");
        let ours = our_rows(&table);
        let others = footer_rows(&table);
        assert!(ours == before || ours == after, "step {step}: {ours:?}");
        seen_by_others_first += u64::from(others.len() > ours.len());

        let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        let rows = our_rows(&table);
        assert!(rows == before || rows == after, "step {step}: {rows:?} after the next writer opened the table");
        assert!(rows.starts_with(&ours) && rows.starts_with(&others), "step {step}: {others:?} were seen");
        assert_eq!(footer_rows(&table), rows, "step {step}");
        assert_eq!(writer.positions()["source"], rows.len() as i64);
        finished += u64::from(ours.len() < rows.len());
        undone += u64::from(rows == before);
        let entries = std::fs::read_dir(parent).unwrap().count();
        assert_eq!(entries, 1, "step {step}: nothing is left beside the table");

        append_numbers(&mut writer, rows.len() as i64..rows.len() as i64 + 10);
        writer.close().unwrap();
        assert_eq!(our_rows(&table).len(), rows.len() + 10);
        let report = arrowwood::check(&table, |_, _| ()).unwrap();
        assert!(report.is_good(), "step {step}: {report:?}");
    }
    let counts = [seen_by_others_first, finished, undone];
    assert!(counts.iter().all(|&count| count > 0), "seen by others first, finished, undone: {counts:?}");
}

/// If a segment of a prepared commit was removed, none of the commit is shown.
#[test]
fn a_prepared_commit_with_a_missing_segment_is_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for (step, parent) in kill_at_each_step(folder.path()).iter().enumerate() {
        let table = parent.join("ticks");
        let prepared = [8u64, 16, 24].map(|row| parent.join(format!(".ticks.{row:020}.next")));
        if our_rows(&table).len() == 5 && prepared.iter().all(|path| path.exists()) {
            std::fs::remove_file(&prepared[1 + tried % 2]).unwrap();
            let writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
            assert_eq!((writer.committed_rows(), our_rows(&table).len()), (5, 5), "step {step}");
            tried += 1;
        }
    }
    assert!(tried > 1, "{tried} steps");
}

#[test]
fn a_failed_commit_is_not_finished_by_the_next_writer() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut writer = Writer::open(&table, Some(number_schema()), &unsynced(8)).unwrap();
    append_numbers(&mut writer, 0..12);
    // A folder has the name of the second segment.
    let second_segment = segment_path(&table, 8);
    std::fs::create_dir(&second_segment).unwrap();
    assert!(writer.commit().is_err());
    std::fs::remove_dir(&second_segment).unwrap();
    drop(writer);
    let writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    assert_eq!((our_rows(&table), footer_rows(&table), writer.committed_rows()), (vec![], vec![], 0));
}

/// The removal is detected after a number of commits at the latest, even if they follow each other quickly.
#[test]
fn a_writer_detects_that_its_table_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit().unwrap();
    std::fs::remove_dir_all(&table).unwrap();
    let error = (0..64).find_map(|n| writer.append_row(&[Value::Int(n)]).and_then(|()| writer.commit()).err());
    let error = error.expect("an error");
    assert_eq!(error.kind(), ErrorKind::FileChanged);
    assert!(error.message().contains("removed"), "{error}");
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Closed);
}

/// Refreshing opens new segments by their names, without listing the folder. It must give the same rows as opening the
/// table again, whatever was appended, dropped and compacted since, also for datasets that were refreshed from the same
/// one.
#[test]
fn refreshing_gives_the_same_rows_as_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let options = unsynced(8);
    let mut writer = Writer::open(&table, Some(number_schema()), &options).unwrap();
    let mut dice = crate::dice::Dice::new(7);
    let mut datasets: Vec<Dataset> = vec![open(&table).unwrap()];
    let mut next = 0;
    for step in 0..300 {
        for _ in 0..dice.below(20) {
            writer.append_row(&[Value::Int(next)]).unwrap();
            next += 1;
        }
        writer.commit().unwrap();
        match dice.below(30) {
            0 => _ = writer.drop_before(next as u64 - 40.min(next as u64)).unwrap(),
            1 => {
                drop(writer);
                arrowwood::compact(&table, |_, _| ()).unwrap();
                writer = Writer::open(&table, None, &options).unwrap();
            }
            2 => _ = writer.compact(|_, _| ()).unwrap(),
            _ => (),
        }
        let opened = open(&table).unwrap();
        let index = dice.below(datasets.len() as u64) as usize;
        let refreshed = datasets[index].refresh().unwrap();
        assert_eq!(refreshed.len().unwrap(), opened.len().unwrap(), "step {step}");
        assert_eq!(refreshed.first_row(), opened.first_row(), "step {step}");
        assert_eq!(dataset_numbers(&refreshed), dataset_numbers(&opened), "step {step}");
        datasets.push(refreshed);
        if datasets.len() > 5 {
            datasets.remove(dice.below(5) as usize);
        }
    }
}

/// Records the names of the threads that create files.
#[derive(Debug, Default)]
struct FileCreators {
    thread_names: Mutex<Vec<String>>,
}

impl FileCreators {
    fn thread_names(&self) -> Vec<String> {
        self.thread_names.lock().unwrap().clone()
    }
}

impl FsObserver for FileCreators {
    fn before_op(&self, op: FsOp<'_>) -> std::io::Result<()> {
        if matches!(op, FsOp::Created { .. }) {
            self.thread_names.lock().unwrap().push(std::thread::current().name().unwrap_or_default().into());
        }
        Ok(())
    }
}

/// The next segment is created when the live one is half full, so that the commit that needs it doesn't wait for the
/// disk.
#[test]
fn the_next_segment_is_created_by_the_background_thread() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let creators = Arc::new(FileCreators::default());
    let medium = FileSystem::with_observer(creators.clone());
    let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(schema()), &options).unwrap();
    writer.append(&batch(0..40_000)).unwrap();
    writer.commit().unwrap();
    wait_until("the next segment", || creators.thread_names().len() >= 2);
    writer.append(&batch(40_000..80_000)).unwrap();
    writer.commit().unwrap();
    let thread_names = creators.thread_names();
    assert_eq!((thread_names.len(), &thread_names[1][..]), (2, "arrowwood-background"));
    assert_eq!(open(&table).unwrap().len().unwrap(), 80_000);
    writer.close().unwrap();
    assert_eq!(std::fs::read_dir(&table).unwrap().count(), 2);
    assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good());
}

fn append_symbols(writer: &mut Writer, symbols: Vec<String>) {
    let column: ArrayRef = Arc::new(StringArray::from(symbols));
    writer.append(&RecordBatch::try_from_iter([("symbol", column)]).unwrap()).unwrap();
    writer.commit().unwrap();
}

/// The next segment is created when the live one is half full and its dictionary may be small. When the first row after
/// the live segment refers to the dictionary, all of it has to be copied, although the row needs only one entry.
#[test]
fn a_prepared_segment_has_room_for_the_whole_dictionary() {
    const FIRST_BATCH_ROWS: usize = 65_536;
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let creators = Arc::new(FileCreators::default());
    let schema = Arc::new(arrowwood::parse_schema("symbol: category").unwrap());
    let medium = FileSystem::with_observer(creators.clone());
    let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(schema), &options).unwrap();
    // The empty segment is replaced by a larger one, which is kept.
    writer.append_row(&[Value::Str(&"x".repeat(10 << 20))]).unwrap();
    writer.rollback();
    append_symbols(&mut writer, vec!["a".into(); FIRST_BATCH_ROWS]);
    wait_until("the next segment", || creators.thread_names().len() >= 3);
    append_symbols(&mut writer, (0..40_000).map(|number| format!("{number:0120}")).collect());
    let live_segment = std::fs::read(segment_path(&table, 0)).unwrap();
    let capacity = header_word(&live_segment, 32) as u64;
    let remaining_rows = (capacity - writer.rows()) as usize;
    append_symbols(&mut writer, vec!["a".into(); remaining_rows]);
    assert_eq!(std::fs::read_dir(&table).unwrap().count(), 1, "the live segment is full");

    append_symbols(&mut writer, vec!["a".into()]);
    assert_eq!(std::fs::read_dir(&table).unwrap().count(), 2);
    let dataset = open(&table).unwrap();
    let last_long_row = FIRST_BATCH_ROWS as u64 + 39_999;
    assert_eq!(dataset.row(last_long_row).unwrap().get(0).unwrap().to_string(), format!("{:0120}", 39_999));
    assert_eq!(dataset.row(writer.rows() - 1).unwrap().get(0).unwrap().to_string(), "a");
    writer.close().unwrap();
    assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good());
}

/// Returns a number of eight bytes from the header of a segment.
fn header_word(bytes: &[u8], offset: usize) -> usize {
    let header = (0..bytes.len()).step_by(PAGE).find(|&page| bytes[page..].starts_with(b"ArrwWood")).unwrap();
    word_at(bytes, header + offset) as usize
}

fn word_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap())
}

/// Returns the positions of the commit records: two visible ones, then two durable ones.
fn record_positions(bytes: &[u8]) -> [usize; 4] {
    let live = header_word(bytes, 40);
    let record_size = header_word(bytes, 48);
    [0, 1, 2, 3].map(|number| live + PAGE + number * record_size)
}

/// Corrects the checksum of a record after a change. A record has a header of 64 bytes and then some numbers of eight
/// bytes.
fn repair_checksum(bytes: &mut [u8], record: usize, numbers: usize) {
    bytes[record + 12..record + 16].fill(0);
    let checksum = crc32c::crc32c(&bytes[record..record + 64 + 8 * numbers]);
    bytes[record + 12..record + 16].copy_from_slice(&checksum.to_le_bytes());
}

/// The names of positions have no checksum. If they are damaged, reading positions is an error, and the rows are
/// intact.
#[test]
fn damaged_names_of_positions_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.close().unwrap();
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    writer.commit_with(&[("abc", 5), ("abd", 6)]).unwrap();
    writer.close().unwrap();
    let path = segment_path(&table, 0);
    let original = std::fs::read(&path).unwrap();
    // The names are in the last buffer, after the two of the column.
    let names = header_word(&original, 128 + 2 * 16);
    assert_eq!(&original[names..names + 8], b"\x03abc\x03abd");
    // A length of 0, too large and too small; invalid UTF-8; a control character; the same name twice.
    for (offset, byte) in [(0, 0), (0, 255), (4, 2), (1, 0xff), (2, b'\n'), (7, b'c')] {
        let mut bytes = original.clone();
        bytes[names + offset] = byte;
        std::fs::write(&path, bytes).unwrap();
        let dataset = open(&table).unwrap();
        assert_eq!(dataset.len().unwrap(), 1);
        let error = dataset.positions().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.message().contains("the names of positions: expected 2"), "{error}");
        let error = Writer::open(&table, None, &WriterOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "byte {offset}");
        let report = arrowwood::check(&table, |_, _| ()).unwrap();
        let is_reported = report.damage().any(|finding| finding.message.contains("names of positions"));
        assert!(is_reported, "byte {offset}: {report:?}");

        arrowwood::repair(&table, |_, _| ()).unwrap();
        assert_eq!(our_rows(&table), [1]);
        assert!(open(&table).unwrap().positions().unwrap().is_empty());
        std::fs::remove_dir_all(&table).unwrap();
        std::fs::create_dir(&table).unwrap();
    }
}

/// Each name is compared with all earlier ones, so a forged file with one position and thousands of names must not be
/// slow.
#[test]
fn names_beyond_the_number_of_positions_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    let names: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
    let positions: Vec<(&str, i64)> = names.iter().map(|name| (&name[..], 7)).collect();
    writer.commit_with(&positions).unwrap();
    writer.close().unwrap();
    let path = segment_path(&table, 0);
    let mut bytes = std::fs::read(&path).unwrap();
    for record in record_positions(&bytes) {
        if word_at(&bytes, record) == 0 {
            continue;
        }
        bytes[record + 44..record + 48].copy_from_slice(&1u32.to_le_bytes());
        // Two counters, the rows and the bytes of names, and one position.
        repair_checksum(&mut bytes, record, 3);
    }
    std::fs::write(&path, bytes).unwrap();
    let error = open(&table).unwrap().positions().unwrap_err();
    assert!(error.message().contains("expected 1 different ones in 800 bytes, got 1 and 796 bytes"), "{error}");
}

/// Footers contain the time of their publication, so that their slots aren't reused too soon. After the clock was set
/// back, all of them seem to be from the future, which must not stop the next writer.
#[test]
fn writers_continue_after_the_clock_was_set_back() {
    for time in [u64::MAX, 4_000_000_000_000_000, 1] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("ticks");
        let mut writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
        writer.append_row(&[Value::Int(0)]).unwrap();
        writer.close().unwrap();
        let path = segment_path(&table, 0);
        let mut bytes = std::fs::read(&path).unwrap();
        let tail = header_word(&bytes, 72);
        let footer_size = header_word(&bytes, 80);
        let slots = header_word(&bytes, 16) >> 32;
        // The word after three buffers, of the column and the names of positions, and two counters.
        let shared_slots = header_word(&bytes, 128 + 3 * 16 + 2 * 8);
        for end in (shared_slots..slots).map(|slot| tail - slot * footer_size) {
            bytes[end - 8..end].copy_from_slice(&time.to_le_bytes());
        }
        std::fs::write(&path, bytes).unwrap();
        let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        for n in 1..200 {
            writer.append_row(&[Value::Int(n)]).unwrap();
            writer.commit().unwrap();
        }
        writer.close().unwrap();
        assert_eq!(our_rows(&table), (0..200).collect::<Vec<_>>());
        assert_eq!(footer_rows(&table), our_rows(&table));
        let report = arrowwood::check(&table, |_, _| ()).unwrap();
        assert!(report.is_good(), "{time}: {report:?}");
    }
}

/// Fails one operation that names a new segment: its temporary name next to the table, or its final name.
#[derive(Debug)]
struct FailingName {
    is_final: bool,
    attempts: AtomicU64,
}

fn is_temporary_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "next")
}

impl FsObserver for FailingName {
    fn before_op(&self, op: FsOp<'_>) -> std::io::Result<()> {
        let is_naming = match op {
            FsOp::Rename { from, .. } if self.is_final => is_temporary_name(from),
            FsOp::Name { path, .. } | FsOp::Rename { to: path, .. } => !self.is_final && is_temporary_name(path),
            _ => false,
        };
        if is_naming && self.attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(std::io::Error::other("a full disk"));
        }
        Ok(())
    }
}

/// After a failed commit, neither a rollback nor the next commit may leave names of positions without values.
#[test]
fn positions_of_a_failed_commit_are_not_set() {
    for (is_rolled_back, is_final) in [(false, false), (true, false), (false, true), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("ticks");
        let medium = FileSystem::with_observer(Arc::new(FailingName { is_final, attempts: AtomicU64::new(0) }));
        let options = WriterOptions { medium, ..unsynced(8) };
        let mut writer = Writer::open(&table, Some(number_schema()), &options).unwrap();
        writer.commit_with(&[("old", 1)]).unwrap();
        append_numbers(&mut writer, 0..12);
        assert_eq!(writer.commit_with(&[("old", 2), ("new", 3)]).unwrap_err().kind(), ErrorKind::Io);
        let uncommitted = if is_rolled_back { 0 } else { 12 };
        if is_rolled_back {
            writer.rollback();
        }
        writer.append_row(&[Value::Int(uncommitted)]).unwrap();
        writer.commit().unwrap();
        let positions = open(&table).unwrap().positions().unwrap();
        assert_eq!((positions.len(), positions["old"]), (1, 1));

        writer.commit_with(&[("later", 4)]).unwrap();
        writer.close().unwrap();
        assert_eq!(our_rows(&table), (0..=uncommitted).collect::<Vec<_>>());
        let positions = open(&table).unwrap().positions().unwrap();
        assert_eq!((positions.len(), positions["old"], positions["later"]), (2, 1, 4));
        assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good());
    }
}

/// Regression test: a backup of hard links shares the live segment with its table. When the table was empty, a change
/// of its schema sealed that file for followers: the backup could still be read, but not written.
#[test]
fn a_linked_backup_can_be_written_after_the_table_changed_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let backup = folder.path().join("backup");
    let options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(number_schema()), &options).unwrap();
    writer.commit_with(&[("from", 7)]).unwrap();
    std::fs::create_dir(&backup).unwrap();
    std::fs::hard_link(segment_path(&table, 0), segment_path(&backup, 0)).unwrap();
    let wider = vec![Field::new("n", DataType::Int64, false), Field::new("m", DataType::Int64, true)];
    assert!(writer.alter(&Arc::new(Schema::new(wider))).unwrap());
    writer.close().unwrap();

    let dataset = open(&backup).unwrap();
    assert_eq!(dataset.len().unwrap(), 0);
    let mut writer = Writer::open(&backup, None, &options).unwrap();
    assert_eq!(writer.positions()["from"], 7);
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(dataset.refresh().unwrap().len().unwrap(), 1);
    writer.close().unwrap();
    assert_eq!(our_rows(&backup), [1]);
    assert_eq!(footer_rows(&backup), [1]);
    assert!(arrowwood::check(&backup, |_, _| ()).unwrap().is_good());
    // The table has another file since it was altered.
    let dataset = open(&table).unwrap();
    assert_eq!((dataset.len().unwrap(), dataset.num_columns()), (0, 2));
}

/// Returns the names and contents of the files in a directory.
fn read_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

fn sorted_by(column: &str) -> WriterOptions {
    WriterOptions { sorted_by: Some(column.into()), ..WriterOptions::default() }
}

/// Regression test: a writer with options that the table doesn't support was refused only after it had begun a segment
/// or a commit.
#[test]
fn unsupported_options_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let unsupported = [
        sorted_by("price"),
        sorted_by("nothing"),
        WriterOptions { index: Some(vec!["nothing".into()]), ..WriterOptions::default() },
        WriterOptions { late: Some(arrowwood::LatePolicy::Accept), ..WriterOptions::default() },
    ];
    // A table that can't be created leaves no directory. A new table could be sorted by the price.
    for options in &unsupported[1..] {
        Writer::open(&table, Some(schema()), options).unwrap_err();
        assert!(!table.exists(), "{options:?}");
    }
    let mut writer = Writer::open(&table, Some(schema()), &sorted_by("ts")).unwrap();
    writer.append(&batch(0..3)).unwrap();
    writer.close().unwrap();
    let mut wider_fields = schema().fields().to_vec();
    wider_fields.push(Arc::new(Field::new("more", DataType::Int64, true)));
    let wider_schema = Arc::new(Schema::new(wider_fields));
    for _state in ["live", "compacted"] {
        let files_before = read_files(&table);
        for options in &unsupported {
            for schema in [None, Some(schema()), Some(wider_schema.clone())] {
                Writer::open(&table, schema, options).unwrap_err();
                assert!(read_files(&table) == files_before, "{options:?}");
            }
        }
        arrowwood::compact(&table, |_, _| ()).unwrap();
    }
    Writer::open(&table, Some(schema()), &sorted_by("ts")).unwrap();
}

/// The numbers of commits are below 2^62.
const MAX_COMMIT: u64 = (1 << 62) - 1;

/// Forges the number of the newest visible commit: its record has a place that depends on the number.
fn forge_visible_commit(bytes: &mut [u8], number: u64) {
    let live = header_word(bytes, 40);
    let record_size = header_word(bytes, 48);
    let records = record_positions(bytes);
    let newest = records[word_at(bytes, live) as usize & 1];
    let forged = records[number as usize & 1];
    bytes.copy_within(newest..newest + record_size, forged);
    bytes[live..live + 8].copy_from_slice(&number.to_le_bytes());
    forge_record_number(bytes, forged, number);
}

/// Forges the number of the newest durable commit.
fn forge_durable_commit(bytes: &mut [u8], number: u64) {
    let newest = record_positions(bytes)[2..].iter().copied().max_by_key(|&record| word_at(bytes, record)).unwrap();
    forge_record_number(bytes, newest, number);
}

fn forge_record_number(bytes: &mut [u8], record: usize, number: u64) {
    bytes[record..record + 8].copy_from_slice(&number.to_le_bytes());
    // Two counters, the rows and the bytes of names.
    repair_checksum(bytes, record, 2);
}

/// Regression test: a file whose last commit has the greatest number can be read. A writer that incremented the number
/// left a commit that readers refuse.
#[test]
fn a_table_whose_commit_numbers_are_exhausted_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(5)]).unwrap();
    writer.close().unwrap();
    let path = segment_path(&table, 0);
    let original = std::fs::read(&path).unwrap();
    type ForgeCommit = fn(&mut [u8], u64);
    let cases: [(ForgeCommit, u64); 3] = [
        (forge_visible_commit, MAX_COMMIT),
        (forge_visible_commit, MAX_COMMIT - 1),
        (forge_durable_commit, MAX_COMMIT),
    ];
    for (case, (forge, number)) in cases.into_iter().enumerate() {
        let mut bytes = original.clone();
        forge(&mut bytes, number);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(our_rows(&table), [5], "case {case}");
        let error = Writer::open(&table, None, &WriterOptions::default()).unwrap_err();
        assert!(error.message().contains("2^62"), "{error}");
        arrowwood::compact(&table, |_, _| ()).unwrap_err();
        assert!(std::fs::read(&path).unwrap() == bytes, "case {case}");
        assert_eq!(our_rows(&table), [5]);
    }
}

/// Regression test: new segments have temporary names that extend the name of the directory. A table with a long name
/// failed when its first segment was full, as such a name would have been too long.
#[test]
fn tables_with_long_names_grow() {
    let folder = tempfile::tempdir().unwrap();
    for len in [228, 229, 255] {
        let table = folder.path().join("x".repeat(len));
        let options = WriterOptions { segment_rows: Some(2), sorted_by: Some("n".into()), ..WriterOptions::default() };
        for start in [0, 7] {
            let mut writer = Writer::open(&table, Some(number_schema()), &options).unwrap();
            append_numbers(&mut writer, start..start + 7);
            writer.commit().unwrap();
            writer.compact(|_, _| ()).unwrap();
            writer.close().unwrap();
        }
        assert_eq!(our_rows(&table), (0..14).collect::<Vec<_>>());
        assert_eq!(footer_rows(&table), our_rows(&table));
        assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{len}");
        std::fs::remove_dir_all(&table).unwrap();
    }
}

/// Regression test: rows of the null type have no bytes, so a file of a few hundred bytes holds 2^62 of them. A writer
/// created one segment after the other for such rows, until the disk was full.
#[test]
fn the_number_of_rows_without_bytes_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("nothing");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Null, true)]));
    let mut writer = Writer::open(&table, Some(schema.clone()), &WriterOptions::default()).unwrap();
    for rows in [usize::MAX / 2, 1 << 50] {
        let nulls: ArrayRef = Arc::new(arrow_array::NullArray::new(rows));
        let batch = RecordBatch::try_new(schema.clone(), vec![nulls]).unwrap();
        let error = writer.append(&batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let dataset = Dataset::try_from(vec![batch]).unwrap();
        let error = writer.append_dataset(&dataset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(writer.rows(), 0);
    }
    writer.append_row(&[Value::Null]).unwrap();
    writer.close().unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), 1);
}
