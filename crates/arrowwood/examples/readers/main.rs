//! Measures how much readers slow down a writer: `readers [SECONDS]`.
//!
//! The writer commits single rows, at full speed and at intervals: alone, and with eight processes that read the table.
//! They follow it and poll every 100 ms (`paced`), follow it and wake up for each commit (`follow`), or refresh it in a
//! loop (`busy`). With fewer than nine processors, the readers also compete with the writer for processor time.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Value, Writer, WriterOptions, follow, open};

#[path = "../../../../tests/support/running.rs"]
mod running;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

use running::Running;

const READERS: usize = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["read", mode, table] => read_forever(mode, Path::new(table)),
        [] => measure(Duration::from_secs(3)),
        [seconds] => measure(Duration::from_secs_f64(seconds.parse().unwrap())),
        _ => {
            eprintln!("readers [SECONDS]");
            std::process::exit(2);
        }
    }
}

/// Runs a reader, until its parent process kills it.
fn read_forever(mode: &str, table: &Path) {
    let mut dataset = open(table).unwrap();
    let mut follower = follow(&dataset, None, None).unwrap();
    println!("following");
    loop {
        if mode == "busy" {
            dataset = dataset.refresh().unwrap();
        } else {
            follower.poll(Duration::from_secs(1)).unwrap();
        }
        if mode == "paced" {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Commits single rows for `time`, with a pause after each of them.
///
/// Returns the number of commits per second, not counting the pauses.
fn commit_rate(writer: &mut Writer, time: Duration, pause: Duration) -> f64 {
    let start = Instant::now();
    let mut busy_time = Duration::ZERO;
    let mut commits = 0u64;
    // Without pauses, the clock is read after many commits.
    let commits_per_round = if pause.is_zero() { 1000 } else { 1 };
    while start.elapsed() < time {
        let round_start = Instant::now();
        for _ in 0..commits_per_round {
            let row = [Value::Int(commits as i64), Value::Float64(0.5), Value::Int(1), Value::Int(2)];
            writer.append_row(&row).unwrap();
            writer.commit().unwrap();
            commits += 1;
        }
        busy_time += round_start.elapsed();
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    commits as f64 / busy_time.as_secs_f64()
}

fn start_readers(mode: &str, table: &Path) -> Vec<Running> {
    let program = std::env::current_exe().unwrap();
    let mut readers: Vec<Running> = (0..READERS)
        .map(|_| Running::start(Command::new(&program).args(["read", mode]).arg(table).stdout(Stdio::piped())))
        .collect();
    for reader in &mut readers {
        assert_eq!(reader.line(), "following");
    }
    readers
}

fn measure(time: Duration) {
    let in_memory = Path::new("/dev/shm");
    let parent = if in_memory.is_dir() { in_memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(parent).unwrap();
    let table = folder.path().join("ticks");
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("b", DataType::Float64, false),
        Field::new("c", DataType::Int64, false),
        Field::new("d", DataType::Int64, false),
    ]);
    let mut writer = Writer::open(&table, Some(Arc::new(schema)), &WriterOptions::default()).unwrap();
    writer.commit().unwrap();
    for (name, pause) in [("at full speed", Duration::ZERO), ("every 10 ms", Duration::from_millis(10))] {
        let alone = commit_rate(&mut writer, time, pause);
        println!("{name}: alone {:.2} M commits per second of its time", alone / 1e6);
        for mode in ["paced", "follow", "busy"] {
            let mut readers = start_readers(mode, &table);
            let with_readers = commit_rate(&mut writer, time, pause);
            readers.iter_mut().for_each(Running::kill);
            // The average of the rates before and after excludes a drift of the machine's speed.
            let alone_after = commit_rate(&mut writer, time / 2, pause);
            let ratio = 2.0 * with_readers / (alone + alone_after);
            println!("  beside {READERS} readers, {mode}: {:.2} M, {ratio:.2} of alone", with_readers / 1e6);
        }
    }
}
