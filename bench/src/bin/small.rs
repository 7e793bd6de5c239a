//! Many small tables: what a partition of one row takes.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin small -- DIR [N [ONE]]
//! ```
//! `DIR` is where `N` partitions are made and removed, 200 by default; `ONE` figure alone (`writers`, `open`, `follow`), or
//! all. `--open TABLE N` measures opening a table that is there. Memory and threads are those that the system counts for this process; disk is the blocks of files and directories.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrowwood::{FollowFrom, Value, Writer, WriterOptions, follow_partitions, open, partition_writer};

/// How long a follower sleeps.
const SLEEP: Duration = Duration::from_secs(5);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--open", table, count] => opening(Path::new(table), partitions(count)),
        [folder] => run(Path::new(folder), 200, ""),
        [folder, count] => run(Path::new(folder), partitions(count), ""),
        [folder, count, only] => run(Path::new(folder), partitions(count), only),
        _ => {
            eprintln!("usage: small DIR [N [writers|open|follow]]");
            std::process::exit(2);
        }
    }
}

fn partitions(text: &str) -> usize {
    text.parse().expect("a number of partitions")
}

fn run(folder: &Path, count: usize, only: &str) {
    let root = folder.join(format!("small-{}", std::process::id()));
    fs::create_dir_all(&root).expect("the directory");
    let is_all = only.is_empty();
    if is_all || only == "writers" {
        writers(&root.join("writers"), count);
    }
    if is_all || only == "open" || only == "follow" {
        let table = root.join("table");
        (0..count).for_each(|number| writer(&table, number).close().expect("closed"));
        if is_all || only == "open" {
            opening(&table, count);
        }
        if is_all || only == "follow" {
            sleeping(&table, count);
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

/// The writer of a partition, with one row committed.
fn writer(table: &Path, number: usize) -> Writer {
    let partition = [("host", Value::Int(number as i64))];
    let options = WriterOptions { dictionary: vec!["symbol".into()], ..WriterOptions::default() };
    let mut writer = partition_writer(table, &partition, Some(schema()), &options).expect("a partition's writer");
    let ts = Value::Timestamp(1, TimeUnit::Microsecond, None);
    writer.append_row(&[ts, Value::Str("MSFT"), Value::Float64(1.5)]).expect("appended");
    writer.commit().expect("committed");
    writer
}

fn writers(table: &Path, count: usize) {
    // What the first writer makes for all is no part of what one more takes.
    let first = writer(table, count);
    let before = memory();
    let start = Instant::now();
    let all: Vec<Writer> = (0..count).map(|number| writer(table, number)).collect();
    let made = start.elapsed();
    std::thread::sleep(Duration::from_millis(1500));
    let taken = memory().saturating_sub(before);
    let threads = status("Threads:");
    let open = disk(table);
    drop(first);
    let start = Instant::now();
    all.into_iter().for_each(|writer| writer.close().expect("closed"));
    let closed = start.elapsed();
    let count = count as u64;
    println!("{count} writers of one row each");
    println!("  disk of an open table       {:8.1} KiB", kib(open / (count + 1)));
    println!("  disk of a closed table      {:8.1} KiB", kib(disk(table) / (count + 1)));
    println!("  memory of a writer          {:8.1} KiB", kib(taken / count));
    println!("  threads of the process      {threads:8}");
    println!("  time of opening, of closing {:8.2} ms, {:.2} ms", ms(made) / count as f64, ms(closed) / count as f64);
}

fn opening(table: &Path, count: usize) {
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

fn sleeping(table: &Path, count: usize) {
    let dataset = open(table).expect("the partitions");
    let mut follower = follow_partitions(&dataset, &FollowFrom::Now).expect("a follower");
    // Until it has looked for the last time, and sleeps.
    let rows = follower.poll(Duration::from_millis(300)).expect("to follow");
    assert!(rows.is_none(), "nobody writes");
    let before = processor_time();
    let rows = follower.poll(SLEEP).expect("to follow");
    assert!(rows.is_none(), "nobody writes");
    let taken = processor_time() - before;
    println!(
        "a follower of {count} tables sleeps for {} s: {:.2} ms of processor time ({:.3} %)",
        SLEEP.as_secs(),
        ms(taken),
        100.0 * taken.as_secs_f64() / SLEEP.as_secs_f64()
    );
}

/// The blocks of all files and directories below `directory`.
fn disk(directory: &Path) -> u64 {
    let own = 512 * fs::metadata(directory).expect("a directory").blocks();
    let inside = fs::read_dir(directory).expect("a directory").map(|entry| {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_dir() {
            disk(&entry.path())
        } else {
            512 * entry.metadata().expect("a file").blocks()
        }
    });
    own + inside.sum::<u64>()
}

/// Bytes of memory that the process has: `VmRSS`.
fn memory() -> u64 {
    1024 * status("VmRSS:")
}

fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("the process's status");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the line");
    line.split_whitespace().next().expect("a number").parse().expect("a number")
}

/// The processor time of all threads of the process.
fn processor_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
