//! Many small tables in one process: what each takes, and that they don't hinder one another.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood::{
    FollowFrom, PartitionsFollower, SyncPolicy, Value, Writer, WriterOptions, check, follow_partitions, open,
    partition_writer,
};

use crate::thread::Thread;
use crate::wait::{PATIENCE, wait_until};

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let ts = field("ts", DataType::Timestamp(TimeUnit::Microsecond, None));
    Arc::new(Schema::new(vec![ts, field("symbol", DataType::Utf8), field("price", DataType::Float64)]))
}

fn append(writer: &mut Writer, row: i64) {
    let ts = Value::Timestamp(row, TimeUnit::Microsecond, None);
    writer.append_row(&[ts, Value::Str("MSFT"), Value::Float64(1.5)]).unwrap();
}

/// Bytes that a table of one segment takes on the disk, with its directory.
fn disk(table: &Path) -> u64 {
    let files = fs::read_dir(table).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    512 * files.chain([fs::metadata(table).unwrap()]).map(|data| data.blocks()).sum::<u64>()
}

fn threads(name: &str) -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
        // A thread may have ended meanwhile.
        fs::read_to_string(task.unwrap().path().join("comm")).ok()
    });
    names.filter(|found| found.starts_with(name)).count()
}

#[test]
fn a_table_of_one_row_is_small_and_has_no_thread_of_its_own() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    for sync in [WriterOptions::default().sync, SyncPolicy::Commit] {
        let root =
            folder.path().join(format!("{sync:?}").chars().filter(char::is_ascii_alphabetic).collect::<String>());
        let options = WriterOptions { sync, dictionary: vec!["symbol".into()], ..WriterOptions::default() };
        let open_one = |number: i64| {
            let mut writer =
                partition_writer(&root, &[("host", Value::Int(number))], Some(schema()), &options).unwrap();
            append(&mut writer, number);
            writer.commit().unwrap();
            writer
        };
        let writers: Vec<Writer> = (0..32).map(open_one).collect();
        wait_until("the background thread alone", || threads("arrowwood-backg") == 1);
        for writer in writers {
            let table = writer.path().to_path_buf();
            let is_open = disk(&table);
            writer.close().unwrap();
            let is_closed = disk(&table);
            assert!(is_open <= 256 << 10, "{is_open} bytes while it is open, {sync:?}");
            assert!(is_closed <= 96 << 10, "{is_closed} bytes, {sync:?}");
            assert!(check(&table, |_, _| ()).unwrap().is_good());
        }
        // What was given back is taken again where it is needed.
        let mut writer = open_one(7);
        (1..5000).for_each(|row| append(&mut writer, row));
        writer.commit().unwrap();
        let table = writer.path().to_path_buf();
        writer.close().unwrap();
        assert_eq!(open(&root).unwrap().len().unwrap(), 32 + 5000);
        assert!(check(&table, |_, _| ()).unwrap().is_good());
    }
}

/// Lets the background thread wait in the sync of a table, and sees it fail.
#[derive(Debug, Default)]
struct SlowDisk {
    is_waiting: AtomicBool,
    is_slow: AtomicBool,
}

impl FsObserver for SlowDisk {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        let is_in_background = std::thread::current().name() == Some("arrowwood-background");
        if !is_in_background || !matches!(act, FsOp::Sync { .. }) {
            return Ok(());
        }
        self.is_waiting.store(true, Ordering::SeqCst);
        wait_until("the end of a slow sync", || !self.is_slow.load(Ordering::SeqCst));
        Err(std::io::Error::other("the disk is gone"))
    }
}

#[test]
fn a_table_whose_disk_is_slow_or_gone_hinders_no_other() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(SlowDisk { is_slow: true.into(), ..SlowDisk::default() });
    let sync = SyncPolicy::Every(Duration::from_millis(1));
    let options = WriterOptions { sync, ..WriterOptions::default() };
    let watched = WriterOptions { medium: FileSystem::with_observer(disk.clone()), ..options.clone() };
    let mut slow = Writer::open(folder.path().join("slow"), Some(schema()), &watched).unwrap();
    append(&mut slow, 1);
    slow.commit().unwrap();
    wait_until("a slow sync", || disk.is_waiting.load(Ordering::SeqCst));
    // The thread waits. Others open, commit durably and close.
    let mut other = Writer::open(folder.path().join("other"), Some(schema()), &options).unwrap();
    append(&mut other, 1);
    other.commit().unwrap();
    other.sync().unwrap();
    assert_eq!(other.durable_rows(), 1);
    other.close().unwrap();
    let mut other = Writer::open(folder.path().join("other"), Some(schema()), &options).unwrap();
    append(&mut other, 2);
    other.commit().unwrap();
    // Of one table alone the thread knows that its disk has gone.
    disk.is_slow.store(false, Ordering::SeqCst);
    wait_until("the error of a disk that is gone", || slow.commit().is_err());
    wait_until("a sync of the other table", || other.durable_rows() == 2);
    append(&mut other, 3);
    other.commit().unwrap();
    wait_until("another sync of it", || other.durable_rows() == 3);
    drop(slow);
    other.close().unwrap();
    // What is on that disk is known when the table is opened anew.
    let slow = Writer::open(folder.path().join("slow"), Some(schema()), &options).unwrap();
    assert_eq!(slow.rows(), 1);
}

/// The next rows and their partition, as numbers.
fn next(follower: &mut PartitionsFollower) -> (String, u64) {
    let (partition, rows) = follower.poll(PATIENCE).unwrap().expect("rows");
    (partition, rows.len().unwrap())
}

/// More tables than one thread can wait for. Whatever comes while the follower sleeps wakes it.
#[test]
fn a_follower_of_many_tables_that_sleeps_misses_nothing() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ticks");
    let options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let open_one =
        |host: i64| partition_writer(&root, &[("host", Value::Int(host))], Some(schema()), &options).unwrap();
    let mut writers: Vec<Writer> = (0..300).map(open_one).collect();
    let mut follower = follow_partitions(&open(&root).unwrap(), &FollowFrom::Now).unwrap();
    let asleep = || threads("arrowwood-wait");
    let fall_asleep = |follower: &mut PartitionsFollower| {
        wait_until("the threads of a follower that sleeps", || {
            assert!(follower.poll(Duration::from_millis(300)).unwrap().is_none());
            asleep() >= 3
        });
    };
    fall_asleep(&mut follower);
    for host in [0, 126, 127, 128, 299] {
        let following = Thread::current();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_until("a follower that sleeps", || following.is_asleep());
                append(&mut writers[host], 1);
                writers[host].commit().unwrap();
            });
            assert_eq!(next(&mut follower), (format!("host={host}"), 1));
        });
        fall_asleep(&mut follower);
    }
    // A new partition.
    let late = std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            let mut late = open_one(300);
            append(&mut late, 1);
            late.commit().unwrap();
            late
        });
        assert_eq!(next(&mut follower), ("host=300".into(), 1));
        late.join().unwrap()
    });
    fall_asleep(&mut follower);
    // A writer that ends, a table that doesn't grow any more, and the next writer.
    let path = late.path().to_path_buf();
    late.close().unwrap();
    arrowwood::compact(&path, |_, _| ()).unwrap();
    fall_asleep(&mut follower);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut again = open_one(300);
            append(&mut again, 2);
            again.commit().unwrap();
        });
        assert_eq!(next(&mut follower), ("host=300".into(), 1));
    });
    fall_asleep(&mut follower);
    // One that goes, and comes again.
    fs::remove_dir_all(&path).unwrap();
    fall_asleep(&mut follower);
    let mut again = open_one(300);
    append(&mut again, 3);
    again.commit().unwrap();
    assert_eq!(next(&mut follower), ("host=300".into(), 1));
    // The follower sleeps in threads, which end with it.
    fall_asleep(&mut follower);
    assert!(asleep() >= 4, "{} threads", asleep());
    drop(follower);
    wait_until("the end of its threads", || asleep() == 0);
}

/// How many files below `root` the process has open.
fn open_files(root: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    links.filter(|path| path.starts_with(root)).count()
}

/// A process may have a thousand open files, and there are more partitions.
#[test]
fn partitions_that_are_read_take_no_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("ticks");
    let add = |host: i64, row: i64| {
        let options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
        let mut writer = partition_writer(&root, &[("host", Value::Int(host))], Some(schema()), &options).unwrap();
        append(&mut writer, row);
        writer.close().unwrap();
    };
    (0..40).for_each(|host| add(host, 1));
    let dataset = open(&root).unwrap();
    assert_eq!((dataset.len().unwrap(), open_files(&root)), (40, 0));
    let mut follower = follow_partitions(&dataset, &FollowFrom::Now).unwrap();
    assert!(follower.poll(Duration::from_millis(200)).unwrap().is_none());
    (0..40).step_by(3).for_each(|host| add(host, 2));
    let newer = dataset.refresh().unwrap();
    assert_eq!((newer.len().unwrap(), dataset.len().unwrap()), (54, 40));
    assert!(newer.column("price").unwrap().values().all(|value| matches!(value, Ok(Value::Float64(1.5)))));
    assert_eq!(open_files(&root), 0);
    assert_eq!((0..14).map(|_| next(&mut follower).1).sum::<u64>(), 14);
}

/// What asks for one table, as the libraries for C and Java do, is told of the partitions.
#[test]
fn a_directory_of_partitions_is_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ticks");
    let options = WriterOptions::default();
    let mut writer = partition_writer(&root, &[("host", Value::Int(1))], Some(schema()), &options).unwrap();
    append(&mut writer, 1);
    writer.close().unwrap();
    let error = Writer::open(&root, Some(schema()), &options).unwrap_err();
    assert!(error.message().contains("holds partitions ('host=1')"), "{error}");
    let dataset = open(&root).unwrap();
    let error = arrowwood::follow(&dataset, Some(0), None).unwrap_err();
    assert!(error.message().contains("the dataset has partitions"), "{error}");
    assert_eq!(dataset.refresh().unwrap().len().unwrap(), 1);
}
