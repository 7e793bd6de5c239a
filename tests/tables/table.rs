//! Growing tables: what is appended and committed is what readers see, ours and others.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood::{Dataset, ErrorKind, SyncPolicy, Value, Writer, WriterOptions, follow, open};

use crate::crash_snapshots::CrashSnapshots;
use crate::tables::unsynced;
use crate::wait::{PATIENCE, wait_until};

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
            let found = dataset.row(row as u64).unwrap();
            assert_eq!(found.get(0).unwrap().to_string(), row.to_string());
            assert_eq!(found.get(1).unwrap().to_string(), format!("s{}", row % 7));
            let price = if row % 10 == 3 { "null".into() } else { format!("{:?}", row as f64 * 0.5) };
            assert_eq!(found.get(2).unwrap().to_string(), price);
        }
    }
}

/// A commit goes over the end of a segment: names are given, then one store makes all its rows visible. Who listed the
/// folder before, and looked at the last segment behind that store, saw the rows up to the segment's end and no more.
#[test]
fn opening_never_sees_a_part_of_a_commit() {
    const STEP: i64 = 10;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let options = unsynced(64);
    let mut writer = Writer::open(&path, Some(schema()), &options).unwrap();
    let ended = std::sync::atomic::AtomicBool::new(false);
    let looks = std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut looks = 0;
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                let rows = open(&path).unwrap().len().unwrap();
                assert_eq!(rows % STEP as u64, 0, "{rows} rows");
                looks += 1;
            }
            looks
        });
        for start in (0..20_000).step_by(STEP as usize) {
            writer.append(&batch(start..start + STEP)).unwrap();
            writer.commit().unwrap();
            if reader.is_finished() {
                break;
            }
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(looks > 0);
}

#[test]
fn a_table_without_rows_is_compacted_and_goes_on() {
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

/// A writer that commits as fast as it can overwrites both records while somebody reads one. The thread that publishes
/// once gave up on that, and the writer with it.
#[test]
fn a_writer_at_full_speed_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = Writer::open(&path, Some(schema()), &WriterOptions::default()).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = || {
            let (mut dataset, mut seen) = (open(&path).unwrap(), 0);
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                dataset = dataset.refresh().unwrap();
                let rows = dataset.len().unwrap();
                assert!(rows >= seen);
                seen = rows;
            }
            dataset.refresh().unwrap().len().unwrap()
        };
        let reader = scope.spawn(read);
        for i in 0..1_000_000 {
            writer.append_row(&[Value::Int(i), Value::Str("x"), Value::Float64(0.5)]).unwrap();
            writer.commit().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Release);
        assert_eq!(reader.join().unwrap(), 1_000_000);
    });
    writer.close().unwrap();
    // Each file through its footer, as other readers have it.
    let files = std::fs::read_dir(&path).unwrap().map(|file| open(file.unwrap().path()).unwrap().len().unwrap());
    assert_eq!(files.sum::<u64>(), 1_000_000);
}

/// A follower gets each row once, or an error about those that were dropped before it came to them: it never goes on behind
/// a gap by itself. The writer drops as fast as it can, also between a follower's look at the directory and at a file.
/// A reader that noted more rows than there are, as after a power cut, is told so, instead of missing those that come.
#[test]
fn a_follower_begins_where_the_table_ends_at_the_latest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = Writer::open(&path, Some(schema()), &WriterOptions::default()).unwrap();
    let table = open(&path).unwrap();
    assert_eq!(follow(&table, Some(1), None).unwrap_err().kind(), ErrorKind::RowOutOfRange);
    writer.append(&batch(0..5)).unwrap();
    writer.commit().unwrap();
    // It is the newest rows that count, and not those of the dataset.
    let mut follower = follow(&table, Some(5), None).unwrap();
    assert!(follower.poll(std::time::Duration::ZERO).unwrap().is_none());
    let error = follow(&table, Some(6), None).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::RowOutOfRange, Some(&*path)));
    assert!(error.message().contains("the table has 5 rows so far, and the next one is number 5"), "{error}");
}

#[test]
fn a_follower_misses_no_row_without_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let options = unsynced(50);
    let mut writer = Writer::open(&path, Some(schema()), &options).unwrap();
    // One that looks when all is over.
    let mut late = follow(&open(&path).unwrap(), Some(0), None).unwrap();
    const ROWS: i64 = 4_000;
    std::thread::scope(|scope| {
        let read = |patience: u64| {
            let path = path.clone();
            move || {
                let mut next = 0;
                while next < ROWS as u64 {
                    let table = open(&path).unwrap();
                    let start = next.max(table.first_row());
                    let mut follower = match follow(&table, Some(start), None) {
                        Err(e) if e.kind() == ErrorKind::RowOutOfRange => continue,
                        follower => follower.unwrap(),
                    };
                    next = start;
                    while next < ROWS as u64 {
                        let rows = match follower.poll(PATIENCE) {
                            Err(e) => {
                                assert_eq!(e.kind(), ErrorKind::RowOutOfRange, "{e}");
                                assert!(e.message().contains(&format!("following from row {next}:")), "{e}");
                                assert_eq!(follower.next_row(), next);
                                break;
                            }
                            rows => rows.unwrap().expect("rows"),
                        };
                        // They can be read when they are dropped meanwhile: no wait, but the reader's slowness.
                        std::thread::sleep(std::time::Duration::from_micros(patience));
                        for value in rows.column("ts").unwrap().values() {
                            assert!(matches!(value.unwrap(), Value::Int(ts) if ts as u64 == next));
                            next += 1;
                        }
                    }
                }
            }
        };
        let readers = [0, 300, 10_000].map(|patience| scope.spawn(read(patience)));
        for start in (0..ROWS).step_by(20) {
            writer.append(&batch(start..start + 20)).unwrap();
            writer.commit().unwrap();
            writer.drop_before((start as u64).saturating_sub(100)).unwrap();
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    let error = late.poll(std::time::Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RowOutOfRange);
    assert!(error.message().contains("following from row 0: 3,850 rows were dropped"), "{error}");
}

/// Holds the first write to the log until all threads have committed.
#[derive(Debug, Default)]
struct Gate {
    committed: AtomicU64,
    writes: AtomicU64,
}

const THREADS: u64 = 64;

impl FsObserver for Gate {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        if matches!(act, FsOp::WriteSynced { .. }) && self.writes.fetch_add(1, Ordering::SeqCst) == 0 {
            wait_until("a commit of each thread", || self.committed.load(Ordering::SeqCst) >= THREADS);
        }
        Ok(())
    }
}

/// Threads that put their rows into one table, each of which goes on when its row is durable.
#[test]
fn one_sync_makes_the_commits_of_many_threads_durable() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let medium = FileSystem::with_observer(gate.clone());
    let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let writer = Writer::open(folder.path().join("t"), Some(schema), &options).unwrap();
    let (durability, writer) = (writer.durability(), Mutex::new(writer));
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (durability, writer, gate) = (durability.clone(), &writer, &gate);
            scope.spawn(move || {
                let mut own = writer.lock().unwrap();
                own.append_row(&[Value::Int(n as i64)]).unwrap();
                own.commit_with(&[(&format!("thread-{}", n % 8), n as i64)]).unwrap();
                let row = own.committed_rows();
                drop(own);
                gate.committed.fetch_add(1, Ordering::SeqCst);
                durability.wait().unwrap();
                assert!(durability.rows() >= row);
            });
        }
    });
    assert_eq!(gate.writes.load(Ordering::SeqCst), 2, "one for the first thread, one for all others");
    let writer = writer.into_inner().unwrap();
    assert_eq!((writer.durable_rows(), writer.positions().len()), (THREADS, 8));
    drop(writer);
    assert_eq!(durability.wait().unwrap(), ());
}

/// What a position may be called, and how many there may be; what is refused leaves the table as it was.
#[test]
fn positions_that_are_refused_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    let long = "x".repeat(256);
    for name in ["", &long, "two\nlines", "\u{7f}"] {
        let refused = writer.commit_with(&[("fine", 1), (name, 2)]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    }
    let names: Vec<String> = (0..257).map(|number| format!("position {number}")).collect();
    let all: Vec<(&str, i64)> = names.iter().map(|name| (&name[..], i64::MIN)).collect();
    assert_eq!(writer.commit_with(&all).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!((writer.committed_rows(), writer.positions().len()), (0, 0));
    writer.commit_with(&all[..256]).unwrap();
    writer.commit_with(&[("position 7", 7), ("position 7", 8)]).unwrap();
    writer.close().unwrap();
    let check = || {
        let positions = open(&table).unwrap().positions().unwrap();
        assert_eq!((positions.len(), positions["position 7"], positions["position 255"]), (256, 8, i64::MIN));
        assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good());
    };
    check();
    // Dense, and in a segment behind it.
    arrowwood::compact(&table, |_, _| ()).unwrap();
    check();
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    check();
    assert_eq!(writer.positions()["position 7"], 8);
    writer.append_row(&[Value::Int(2)]).unwrap();
    writer.close().unwrap();
    check();
}

fn numbers(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

fn our_rows(table: &Path) -> Vec<i64> {
    open(table).unwrap().to_record_batches().flat_map(|batch| numbers(&batch.unwrap())).collect()
}

/// The rows that the files of a folder have through their footers, in the order of their names.
fn footer_rows(table: &Path) -> Vec<i64> {
    let mut paths: Vec<_> = std::fs::read_dir(table).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| FileReader::try_new(std::fs::File::open(path).unwrap(), None).unwrap();
    paths.iter().flat_map(|path| read(path).flat_map(|batch| numbers(&batch.unwrap()))).collect()
}

fn append_numbers(writer: &mut Writer, rows: std::ops::Range<i64>) {
    rows.for_each(|n| writer.append_row(&[Value::Int(n)]).unwrap());
}

/// Folders that each hold the table `ticks` as a writer leaves it that is killed at a step of a commit: rows 0 .. 5 were
/// committed before, and this one goes to row 30, over the ends of three segments.
fn killed_at_each_step(folder: &Path) -> Vec<PathBuf> {
    let live = folder.join("live");
    std::fs::create_dir(&live).unwrap();
    let snapshots = Arc::new(CrashSnapshots::default());
    let medium = FileSystem::with_observer(snapshots.clone());
    let options = WriterOptions { medium, ..unsynced(8) };
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut writer = Writer::open(live.join("ticks"), Some(schema), &options).unwrap();
    append_numbers(&mut writer, 0..5);
    writer.commit_with(&[("source", 5)]).unwrap();
    append_numbers(&mut writer, 5..30);
    snapshots.start(&live, &folder.join("snapshots"));
    writer.commit_with(&[("source", 30)]).unwrap();
    snapshots.stop()
}

/// A writer is killed at each step of a commit over the ends of three segments. Other Arrow readers see its first rows before
/// ours see any: these rows stay, and with them the whole commit, which the next writer finishes.
#[test]
fn rows_that_other_arrow_readers_saw_outlive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let shots = killed_at_each_step(folder.path());
    let (before, after): (Vec<i64>, Vec<i64>) = ((0..5).collect(), (0..30).collect());
    let (mut ahead, mut finished, mut taken_back) = (0, 0, 0);
    for (shot, parent) in shots.iter().enumerate() {
        let table = parent.join("ticks");
        let (ours, others) = (our_rows(&table), footer_rows(&table));
        assert!(ours == before || ours == after, "step {shot}: {ours:?}");
        ahead += u64::from(others.len() > ours.len());
        let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        let there = our_rows(&table);
        assert!(there == before || there == after, "step {shot}: {there:?} after the next writer came");
        assert!(there.starts_with(&ours) && there.starts_with(&others), "step {shot}: {others:?} were seen");
        assert_eq!(footer_rows(&table), there, "step {shot}");
        assert_eq!(writer.positions()["source"], there.len() as i64);
        finished += u64::from(ours.len() < there.len());
        taken_back += u64::from(there == before);
        let left = std::fs::read_dir(parent).unwrap().count();
        assert_eq!(left, 1, "step {shot}: nothing is left beside the table");
        append_numbers(&mut writer, there.len() as i64..there.len() as i64 + 10);
        writer.close().unwrap();
        assert_eq!(our_rows(&table).len(), there.len() + 10);
        let report = arrowwood::check(&table, |_, _| ()).unwrap();
        assert!(report.is_good(), "step {shot}: {report:?}");
    }
    assert!(ahead > 0 && finished > 0 && taken_back > 0, "{ahead} ahead, {finished} finished, {taken_back} taken back");
}

/// Somebody has removed a segment of a prepared commit: none of it is shown.
#[test]
fn a_prepared_commit_of_which_a_part_is_missing_is_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let shots = killed_at_each_step(folder.path());
    let mut tried = 0;
    for (shot, parent) in shots.iter().enumerate() {
        let table = parent.join("ticks");
        let missing = [8u64, 16, 24].map(|row| parent.join(format!(".ticks.{row:020}.next")));
        if our_rows(&table).len() == 5 && missing.iter().all(|path| path.exists()) {
            std::fs::remove_file(&missing[1 + tried % 2]).unwrap();
            let writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
            assert_eq!((writer.committed_rows(), our_rows(&table).len()), (5, 5), "step {shot}");
            tried += 1;
        }
    }
    assert!(tried > 1, "{tried} steps");
}

/// A prepared commit that fails is forgotten: no later writer brings it back.
#[test]
fn a_commit_that_failed_is_not_finished_by_the_next_writer() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let options = unsynced(8);
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut writer = Writer::open(&table, Some(schema), &options).unwrap();
    (0..12).for_each(|n| writer.append_row(&[Value::Int(n)]).unwrap());
    // The name of the second segment is taken by a folder.
    let taken = table.join(format!("{:020}.arrow", 8));
    std::fs::create_dir(&taken).unwrap();
    assert!(writer.commit().is_err());
    std::fs::remove_dir(&taken).unwrap();
    drop(writer);
    let writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    assert_eq!((our_rows(&table), footer_rows(&table), writer.committed_rows()), (vec![], vec![], 0));
}

/// A writer whose table is removed is told, at the latest after some commits in a row.
#[test]
fn a_writer_whose_table_is_removed_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit().unwrap();
    std::fs::remove_dir_all(&table).unwrap();
    let told = (0..64).find_map(|n| writer.append_row(&[Value::Int(n)]).and_then(|()| writer.commit()).err());
    let told = told.expect("an error");
    assert_eq!(told.kind(), ErrorKind::FileChanged);
    assert!(told.message().contains("removed"), "{told}");
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Closed);
}

/// Refreshing finds the segments that were added by their names, without a look at the folder: it gives the same rows as
/// opening the table anew, whatever was appended, dropped and compacted meanwhile, also where datasets share their past.
#[test]
fn refreshing_over_the_ends_of_segments_is_opening_anew() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let options = unsynced(8);
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut writer = Writer::open(&table, Some(schema), &options).unwrap();
    let mut dice = crate::dice::Dice::new(7);
    let rows = |dataset: &Dataset| -> Vec<i64> {
        dataset.to_record_batches().flat_map(|batch| numbers(&batch.unwrap())).collect()
    };
    let mut held: Vec<Dataset> = vec![open(&table).unwrap()];
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
        let anew = open(&table).unwrap();
        let number = dice.below(held.len() as u64) as usize;
        let newer = held[number].refresh().unwrap();
        assert_eq!((newer.len().unwrap(), newer.first_row()), (anew.len().unwrap(), anew.first_row()), "step {step}");
        assert_eq!(rows(&newer), rows(&anew), "step {step}");
        held.push(newer);
        if held.len() > 5 {
            held.remove(dice.below(5) as usize);
        }
    }
}

/// The threads that have made files, in order.
#[derive(Debug, Default)]
struct Makers(Mutex<Vec<String>>);

impl FsObserver for Makers {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        if matches!(act, FsOp::Created { .. }) {
            self.0.lock().unwrap().push(std::thread::current().name().unwrap_or_default().into());
        }
        Ok(())
    }
}

/// When a segment is half full the next one is made, so that the commit that needs it does not wait for the disk.
#[test]
fn the_next_segment_is_made_by_the_background_thread() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let makers = Arc::new(Makers::default());
    let medium = FileSystem::with_observer(makers.clone());
    let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(schema()), &options).unwrap();
    writer.append(&batch(0..40_000)).unwrap();
    writer.commit().unwrap();
    wait_until("the next segment", || makers.0.lock().unwrap().len() >= 2);
    writer.append(&batch(40_000..80_000)).unwrap();
    writer.commit().unwrap();
    let named = makers.0.lock().unwrap().clone();
    assert_eq!((named.len(), &named[1][..]), (2, "arrowwood-background"));
    assert_eq!(open(&table).unwrap().len().unwrap(), 80_000);
    writer.close().unwrap();
    assert_eq!(std::fs::read_dir(&table).unwrap().count(), 2);
    assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good());
}

/// The next segment was made when the live one was half full, with a dictionary of half the size. A row behind the end of the
/// live one needs one of its entries, but all of them go along.
#[test]
fn a_segment_made_ahead_has_room_for_the_whole_dictionary() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let makers = Arc::new(Makers::default());
    let schema = Arc::new(arrowwood::parse_schema("symbol: category").unwrap());
    let medium = FileSystem::with_observer(makers.clone());
    let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(schema), &options).unwrap();
    // A segment that has room for more than a first guess takes the place of the empty one, and keeps it.
    writer.append_row(&[Value::Str(&"x".repeat(10 << 20))]).unwrap();
    writer.rollback();
    let append = |writer: &mut Writer, symbols: Vec<String>| {
        let column: ArrayRef = Arc::new(StringArray::from(symbols));
        writer.append(&RecordBatch::try_from_iter([("symbol", column)]).unwrap()).unwrap();
        writer.commit().unwrap();
    };
    append(&mut writer, vec!["a".into(); 65_536]);
    wait_until("the next segment", || makers.0.lock().unwrap().len() >= 3);
    append(&mut writer, (0..40_000).map(|number| format!("{number:0120}")).collect());
    let live = std::fs::read(table.join(format!("{:020}.arrow", 0))).unwrap();
    let rest = of_header(&live, 32) as u64 - writer.rows();
    append(&mut writer, vec!["a".into(); rest as usize]);
    assert_eq!(std::fs::read_dir(&table).unwrap().count(), 1, "the live segment is full");
    append(&mut writer, vec!["a".into()]);
    assert_eq!(std::fs::read_dir(&table).unwrap().count(), 2);
    let dataset = open(&table).unwrap();
    let symbol = |row: u64| dataset.row(row).unwrap().get(0).unwrap().to_string();
    assert_eq!((symbol(65_536 + 39_999), symbol(writer.rows() - 1)), (format!("{:0120}", 39_999), "a".into()));
    writer.close().unwrap();
    assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good());
}

/// The eight bytes at `at` in the header of the segment in `bytes`.
fn of_header(bytes: &[u8], at: usize) -> usize {
    let start = (0..bytes.len()).step_by(4096).find(|&at| bytes[at..].starts_with(b"ArrwWood")).unwrap();
    u64::from_le_bytes(bytes[start + at..start + at + 8].try_into().unwrap()) as usize
}

/// The names of positions have no checksum. Where they are damaged nobody is told wrong positions; the rows are there.
#[test]
fn damaged_names_of_positions_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.close().unwrap();
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    writer.commit_with(&[("abc", 5), ("abd", 6)]).unwrap();
    writer.close().unwrap();
    let path = table.join(format!("{:020}.arrow", 0));
    let good = std::fs::read(&path).unwrap();
    // The last buffer: of column n there are two.
    let names = of_header(&good, 128 + 2 * 16);
    assert_eq!(&good[names..names + 8], b"\x03abc\x03abd");
    // A length of 0, too large and too small; no UTF-8; a control character; the same name twice.
    for (at, byte) in [(0, 0), (0, 255), (4, 2), (1, 0xff), (2, b'\n'), (7, b'c')] {
        let mut bytes = good.clone();
        bytes[names + at] = byte;
        std::fs::write(&path, bytes).unwrap();
        let dataset = open(&table).unwrap();
        assert_eq!(dataset.len().unwrap(), 1);
        let refused = dataset.positions().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
        assert!(refused.message().contains("the names of positions: expected 2"), "{refused}");
        let refused = Writer::open(&table, None, &WriterOptions::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData, "byte {at}");
        let report = arrowwood::check(&table, |_, _| ()).unwrap();
        assert!(report.damage().any(|found| found.message.contains("names of positions")), "byte {at}: {report:?}");
        arrowwood::repair(&table, |_, _| ()).unwrap();
        assert_eq!(our_rows(&table), [1]);
        assert!(open(&table).unwrap().positions().unwrap().is_empty());
        std::fs::remove_dir_all(&table).unwrap();
        std::fs::create_dir(&table).unwrap();
    }
}

/// Each name is compared with those before it, so a file that says that it has one position must not make anybody compare
/// the thousands of names that fit beside it.
#[test]
fn no_more_names_are_compared_than_there_are_positions() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    let names: Vec<String> = (0..200).map(|number| format!("{number:03}")).collect();
    let positions: Vec<(&str, i64)> = names.iter().map(|name| (&name[..], 7)).collect();
    writer.commit_with(&positions).unwrap();
    writer.close().unwrap();
    let path = table.join(format!("{:020}.arrow", 0));
    let mut bytes = std::fs::read(&path).unwrap();
    let (live, record) = (of_header(&bytes, 40), of_header(&bytes, 48));
    // Counters: rows, and bytes of names.
    for at in (0..4).map(|number| live + 4096 + number * record) {
        if bytes[at..at + 8] == [0; 8] {
            continue;
        }
        bytes[at + 44..at + 48].copy_from_slice(&1u32.to_le_bytes());
        bytes[at + 12..at + 16].fill(0);
        let crc = crc32c::crc32c(&bytes[at..at + 64 + 8 * (2 + 1)]);
        bytes[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    let refused = open(&table).unwrap().positions().unwrap_err();
    assert!(refused.message().contains("expected 1 different ones in 800 bytes, got 1 and 796 bytes"), "{refused}");
}

/// A footer says when it was published, so that its place is not used again too soon. Where the clock was set back since,
/// each of them seems to be of a time to come: the next writer goes on all the same.
#[test]
fn a_clock_that_goes_backwards_costs_nothing() {
    for time in [u64::MAX, 4_000_000_000_000_000, 1] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("ticks");
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
        writer.append_row(&[Value::Int(0)]).unwrap();
        writer.close().unwrap();
        let path = table.join(format!("{:020}.arrow", 0));
        let mut bytes = std::fs::read(&path).unwrap();
        let tail = of_header(&bytes, 72);
        let footer = of_header(&bytes, 80);
        let slots = of_header(&bytes, 16) >> 32;
        // Of one column that is not nullable, with the names of positions: three buffers, two counters, no zones.
        let shared = of_header(&bytes, 128 + 3 * 16 + 2 * 8);
        for end in (shared..slots).map(|slot| tail - slot * footer) {
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

/// Refuses one name of a segment: that beside the table, or its own.
#[derive(Debug)]
struct NoName {
    is_own: bool,
    asked: AtomicU64,
}

impl FsObserver for NoName {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        let waits = |path: &Path| path.extension().is_some_and(|end| end == "next");
        let is_it = match act {
            FsOp::Rename { from, .. } if self.is_own => waits(from),
            FsOp::Name { path, .. } | FsOp::Rename { to: path, .. } => !self.is_own && waits(path),
            _ => false,
        };
        match is_it && self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            true => Err(std::io::Error::other("a full disk")),
            false => Ok(()),
        }
    }
}

/// A commit that fails sets no positions: neither a rollback nor the next commit finds names without values.
#[test]
fn positions_of_a_failed_commit_are_forgotten() {
    for (is_rolled_back, is_own) in [(false, false), (true, false), (false, true), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("ticks");
        let medium = FileSystem::with_observer(Arc::new(NoName { is_own, asked: AtomicU64::new(0) }));
        let options = WriterOptions { medium, ..unsynced(8) };
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let mut writer = Writer::open(&table, Some(schema), &options).unwrap();
        writer.commit_with(&[("old", 1)]).unwrap();
        (0..12).for_each(|n| writer.append_row(&[Value::Int(n)]).unwrap());
        assert_eq!(writer.commit_with(&[("old", 2), ("new", 3)]).unwrap_err().kind(), ErrorKind::Io);
        let kept = if is_rolled_back { 0 } else { 12 };
        if is_rolled_back {
            writer.rollback();
        }
        writer.append_row(&[Value::Int(kept)]).unwrap();
        writer.commit().unwrap();
        let there = open(&table).unwrap().positions().unwrap();
        assert_eq!((there.len(), there["old"]), (1, 1));
        writer.commit_with(&[("later", 4)]).unwrap();
        writer.close().unwrap();
        assert_eq!(our_rows(&table), (0..=kept).collect::<Vec<_>>());
        let there = open(&table).unwrap().positions().unwrap();
        assert_eq!((there.len(), there["old"], there["later"]), (2, 1, 4));
        assert!(arrowwood::check(&table, |_, _| ()).unwrap().is_good());
    }
}

/// A backup made of hard links shares the live segment with its table. That one was empty, got another schema, and sealed
/// the file for its followers: the backup could still be read, and no writer could open it.
#[test]
fn a_backup_of_an_empty_table_is_written_after_its_segment_was_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let backup = folder.path().join("backup");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(schema), &options).unwrap();
    writer.commit_with(&[("from", 7)]).unwrap();
    std::fs::create_dir(&backup).unwrap();
    let name = format!("{:020}.arrow", 0);
    std::fs::hard_link(table.join(&name), backup.join(&name)).unwrap();
    let newer = vec![Field::new("n", DataType::Int64, false), Field::new("m", DataType::Int64, true)];
    assert!(writer.alter(&Arc::new(Schema::new(newer))).unwrap());
    writer.close().unwrap();

    let before = open(&backup).unwrap();
    assert_eq!(before.len().unwrap(), 0);
    let mut writer = Writer::open(&backup, None, &options).unwrap();
    assert_eq!(writer.positions()["from"], 7);
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(before.refresh().unwrap().len().unwrap(), 1);
    writer.close().unwrap();
    assert_eq!(our_rows(&backup), [1]);
    assert_eq!(footer_rows(&backup), [1]);
    assert!(arrowwood::check(&backup, |_, _| ()).unwrap().is_good());
    // The table has a file of its own.
    let dataset = open(&table).unwrap();
    assert_eq!((dataset.len().unwrap(), dataset.num_columns()), (0, 2));
}

/// The names and bytes of the files in a directory.
fn files_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.map(|path| (name(&path), std::fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

/// A writer with options that the table can't have was refused only after it had begun a segment, or a commit.
#[test]
fn wrong_options_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let default = WriterOptions::default;
    let by = |name: &str| WriterOptions { sorted_by: Some(name.into()), ..default() };
    let wrong = [
        by("price"),
        by("nothing"),
        WriterOptions { index: Some(vec!["nothing".into()]), ..default() },
        WriterOptions { late: Some(arrowwood::LatePolicy::Accept), ..default() },
    ];
    // A table that can't be made leaves no directory behind.
    for options in &wrong[1..] {
        Writer::open(&table, Some(schema()), options).unwrap_err();
        assert!(!table.exists(), "{options:?}");
    }
    let mut writer = Writer::open(&table, Some(schema()), &by("ts")).unwrap();
    writer.append(&batch(0..3)).unwrap();
    writer.close().unwrap();
    let mut more = schema().fields().to_vec();
    more.push(Arc::new(Field::new("more", DataType::Int64, true)));
    let more = Arc::new(Schema::new(more));
    for _ in ["a live segment", "dense ones"] {
        let before = files_of(&table);
        for options in &wrong {
            for schema in [None, Some(schema()), Some(more.clone())] {
                Writer::open(&table, schema, options).unwrap_err();
                assert!(files_of(&table) == before, "{options:?}");
            }
        }
        arrowwood::compact(&table, |_, _| ()).unwrap();
    }
    Writer::open(&table, Some(schema()), &by("ts")).unwrap();
}

/// Commits are numbered below 2^62. A file that says it is at the last number can be read; a writer that counted on left a
/// commit that readers refuse.
#[test]
fn a_table_without_numbers_for_commits_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(5)]).unwrap();
    writer.close().unwrap();
    let path = table.join(format!("{:020}.arrow", 0));
    let good = std::fs::read(&path).unwrap();
    let live = of_header(&good, 40);
    let record = of_header(&good, 48);
    for (number, last) in [(0, (1 << 62) - 1), (0, (1 << 62) - 2), (1, (1u64 << 62) - 1)] {
        let mut bytes = good.clone();
        // The newest visible record, then the newest durable one.
        let at = if number == 0 {
            let sequence = u64::from_le_bytes(bytes[live..live + 8].try_into().unwrap());
            let from = live + 4096 + (sequence as usize & 1) * record;
            bytes.copy_within(from..from + record, live + 4096 + (last as usize & 1) * record);
            bytes[live..live + 8].copy_from_slice(&last.to_le_bytes());
            live + 4096 + (last as usize & 1) * record
        } else {
            let sequence = |at: usize| u64::from_le_bytes(good[at..at + 8].try_into().unwrap());
            (2..4).map(|number| live + 4096 + number * record).max_by_key(|&at| sequence(at)).unwrap()
        };
        bytes[at..at + 8].copy_from_slice(&last.to_le_bytes());
        bytes[at + 12..at + 16].fill(0);
        // Two counters: rows, and bytes of names.
        let crc = crc32c::crc32c(&bytes[at..at + 64 + 8 * 2]);
        bytes[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(our_rows(&table), [5], "{number} {last}");
        let refused = Writer::open(&table, None, &WriterOptions::default()).unwrap_err();
        assert!(refused.message().contains("2^62"), "{refused}");
        arrowwood::compact(&table, |_, _| ()).unwrap_err();
        assert!(std::fs::read(&path).unwrap() == bytes, "{number} {last}");
        assert_eq!(our_rows(&table), [5]);
    }
}

/// Files of a table are called after its directory until they belong to it. One with too long a name for that took rows,
/// and failed when its first segment was full.
#[test]
fn a_directory_whose_name_leaves_no_room_for_others_grows() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    for len in [228, 229, 255] {
        let table = folder.path().join("x".repeat(len));
        let options = WriterOptions { segment_rows: Some(2), sorted_by: Some("n".into()), ..WriterOptions::default() };
        for from in [0, 7] {
            let mut writer = Writer::open(&table, Some(schema.clone()), &options).unwrap();
            append_numbers(&mut writer, from..from + 7);
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

/// Rows of the null type have no bytes, so a file of a few hundred holds 2^62 of them: a writer began one segment after
/// the other for these, until nothing was left.
#[test]
fn rows_without_bytes_have_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("nothing");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Null, true)]));
    let mut writer = Writer::open(&table, Some(schema.clone()), &WriterOptions::default()).unwrap();
    for rows in [usize::MAX / 2, 1 << 50] {
        let nulls: ArrayRef = Arc::new(arrow_array::NullArray::new(rows));
        let batch = RecordBatch::try_new(schema.clone(), vec![nulls]).unwrap();
        let refused = writer.append(&batch).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        let dataset = Dataset::try_from(vec![batch]).unwrap();
        let refused = writer.append_dataset(&dataset).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert_eq!(writer.rows(), 0);
    }
    writer.append_row(&[Value::Null]).unwrap();
    writer.close().unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), 1);
}
