//! Measures many small tables: the memory, disk and time that a partition of one row takes.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin small -- DIR [N [ONE]]
//! ```
//! Creates and removes `N` partitions in `DIR`, 200 by default. `ONE` selects a measurement (`writers`, `open`, `follow`).
//! `--open TABLE N` measures opening an existing table. Memory and threads are what the system counts for this process;
//! disk is the blocks of files and directories.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrowwood::{FollowFrom, Value, Writer, WriterOptions, follow_partitions, open, partition_writer};

/// The time for which a follower sleeps.
const SLEEP: Duration = Duration::from_secs(5);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--open", table, count] => measure_open(Path::new(table), parse_count(count)),
        [folder] => run(Path::new(folder), 200, ""),
        [folder, count] => run(Path::new(folder), parse_count(count), ""),
        [folder, count, only] => run(Path::new(folder), parse_count(count), only),
        _ => {
            eprintln!("usage: small DIR [N [writers|open|follow]]");
            std::process::exit(2);
        }
    }
}

fn parse_count(text: &str) -> usize {
    text.parse().expect("a number of partitions")
}

fn run(folder: &Path, count: usize, only: &str) {
    let root = folder.join(format!("small-{}", std::process::id()));
    fs::create_dir_all(&root).expect("the directory");
    let is_all = only.is_empty();
    if is_all || only == "writers" {
        measure_writers(&root.join("writers"), count);
    }
    if is_all || only == "open" || only == "follow" {
        let table = root.join("table");
        (0..count).for_each(|number| open_writer(&table, number).close().expect("closed"));
        if is_all || only == "open" {
            measure_open(&table, count);
        }
        if is_all || only == "follow" {
            measure_sleeping_follower(&table, count);
        }
    }
    fs::remove_dir_all(&root).expect("removing the tables");
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("symbol", DataType::Utf8, true),
        Field::new("price", DataType::Float64, true),
    ]))
}

/// Opens the writer of a partition, and commits one row.
fn open_writer(table: &Path, number: usize) -> Writer {
    let partition = [("host", Value::Int(number as i64))];
    let options = WriterOptions { dictionary: vec!["symbol".into()], ..WriterOptions::default() };
    let mut writer = partition_writer(table, &partition, Some(schema()), &options).expect("a partition's writer");
    let ts = Value::Timestamp(1, TimeUnit::Microsecond, None);
    writer.append_row(&[ts, Value::Str("MSFT"), Value::Float64(1.5)]).expect("appended");
    writer.commit().expect("committed");
    writer
}

fn measure_writers(table: &Path, count: usize) {
    // The first writer also creates what all share.
    let first = open_writer(table, count);
    let memory_before = resident_memory();
    let start = Instant::now();
    let writers: Vec<Writer> = (0..count).map(|number| open_writer(table, number)).collect();
    let opening = start.elapsed();
    // Work in the background has ended by then.
    std::thread::sleep(Duration::from_millis(1500));
    let memory = resident_memory().saturating_sub(memory_before);
    let threads = process_status("Threads:");
    let open_disk = disk_usage(table);
    drop(first);
    let start = Instant::now();
    writers.into_iter().for_each(|writer| writer.close().expect("closed"));
    let closing = start.elapsed();
    let count = count as u64;
    println!("{count} writers of one row each");
    println!("  disk of an open table       {:8.1} KiB", kib(open_disk / (count + 1)));
    println!("  disk of a closed table      {:8.1} KiB", kib(disk_usage(table) / (count + 1)));
    println!("  memory of a writer          {:8.1} KiB", kib(memory / count));
    println!("  threads of the process      {threads:8}");
    println!(
        "  time of opening, of closing {:8.2} ms, {:.2} ms",
        ms(opening) / count as f64,
        ms(closing) / count as f64
    );
}

fn measure_open(table: &Path, count: usize) {
    let mut times = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        let dataset = open(table).expect("the partitions");
        assert_eq!(dataset.len().expect("rows"), count as u64);
        times.push(ms(start.elapsed()));
    }
    times.sort_by(f64::total_cmp);
    println!("{count} partitions opened until the row count is known: {:.1} ms", times[times.len() / 2]);
}

fn measure_sleeping_follower(table: &Path, count: usize) {
    let dataset = open(table).expect("the partitions");
    let mut follower = follow_partitions(&dataset, &FollowFrom::Now).expect("a follower");
    // Waits until the follower has looked for the last time, and sleeps.
    let rows = follower.poll(Duration::from_millis(300)).expect("to follow");
    assert!(rows.is_none(), "nobody writes");
    let time_before = processor_time();
    let rows = follower.poll(SLEEP).expect("to follow");
    assert!(rows.is_none(), "nobody writes");
    let time = processor_time() - time_before;
    println!(
        "a follower of {count} tables sleeps for {} s: {:.2} ms of processor time ({:.3} %)",
        SLEEP.as_secs(),
        ms(time),
        100.0 * time.as_secs_f64() / SLEEP.as_secs_f64()
    );
}

/// Returns the bytes of all blocks of a directory and what is in it.
fn disk_usage(directory: &Path) -> u64 {
    const BLOCK: u64 = 512;
    let mut bytes = BLOCK * fs::metadata(directory).expect("a directory").blocks();
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_dir() {
            bytes += disk_usage(&entry.path());
        } else {
            bytes += BLOCK * entry.metadata().expect("a file").blocks();
        }
    }
    bytes
}

/// Returns the resident memory of the process in bytes.
fn resident_memory() -> u64 {
    1024 * process_status("VmRSS:")
}

fn process_status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("the process's status");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the line");
    line.split_whitespace().next().expect("a number").parse().expect("a number")
}

/// Returns the processor time of all threads of the process.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
