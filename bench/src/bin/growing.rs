//! Growing tables beside what the machine can do at best.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin growing -- FOLDER [MILLIONS [ONE]]
//! ```
//! `FOLDER` is where tables are made and removed; `MILLIONS` of rows are scanned, 56 by default; `ONE` figure alone, or all. What is compared is
//! measured in turns, and medians are printed. Answers are checked.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::{Dataset, SyncPolicy, Value, WriteOptions, Writer, WriterOptions, compact, follow, open, write};
use arrowwood_bench::processor_seconds;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--watch", path, "over", count] => watch_over(Path::new(path), count.parse().expect("a number")),
        ["--watch", path, "count", count] => count_rows(Path::new(path), count.parse().expect("a number")),
        ["--watch", path, how, count] => watch(Path::new(path), how == "spin", count.parse().expect("a number")),
        [folder] => run(Path::new(folder), 56, ""),
        [folder, millions] => run(Path::new(folder), millions.parse().expect("a number"), ""),
        [folder, millions, only] => run(Path::new(folder), millions.parse().expect("a number"), only),
        _ => {
            eprintln!("usage: growing FOLDER [MILLIONS [ONE]]");
            std::process::exit(2);
        }
    }
}

fn run(folder: &Path, millions: u64, only: &str) {
    let folder = folder.join(format!("growing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder");
    let all: [(&str, &dyn Fn()); 11] = [
        ("bulk", &|| bulk(&folder)),
        ("batches", &|| batches(&folder)),
        ("rows", &|| rows(&folder)),
        ("durable", &|| durable(&folder)),
        ("refresh", &|| refresh(&folder)),
        ("spin", &|| latency(&folder, true)),
        ("sleep", &|| latency(&folder, false)),
        ("followers", &|| followers(&folder)),
        ("scan", &|| scan(&folder, millions)),
        ("thousand", &|| thousand(&folder)),
        ("over", &|| over(&folder)),
    ];
    for (_, measure) in all.iter().filter(|(name, _)| only.is_empty() || *name == only) {
        measure();
    }
    std::fs::remove_dir_all(&folder).expect("removing the tables");
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Int64, false),
        Field::new("symbol", DataType::Utf8, false),
        Field::new("price", DataType::Float64, false),
        Field::new("qty", DataType::Int64, false),
    ]))
}

const SYMBOLS: [&str; 5] = ["MSFT", "AMZN", "IBM", "GOOG", "AAPL"];

fn batch(rows: i64) -> RecordBatch {
    let columns: [ArrayRef; 4] = [
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new(StringArray::from_iter_values((0..rows).map(|i| SYMBOLS[i as usize % 5]))),
        Arc::new(Float64Array::from_iter_values((0..rows).map(|i| i as f64 * 0.25))),
        Arc::new(Int64Array::from_iter_values((0..rows).map(|i| i % 1000))),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).expect("a batch")
}

fn never() -> WriterOptions {
    WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() }
}

fn fresh(folder: &Path) -> PathBuf {
    let path = folder.join("ticks");
    if path.exists() {
        std::fs::remove_dir_all(&path).expect("removing a table");
    }
    path
}

fn writer(folder: &Path) -> Writer {
    Writer::open(fresh(folder), Some(schema()), &never()).expect("a writer")
}

fn bytes_of(batch: &RecordBatch) -> u64 {
    let text: usize = batch.column(1).to_data().buffers()[1].len();
    (batch.num_rows() * (8 + 4 + 8 + 8) + text) as u64
}

/// Appends of large batches beside pwrite(2) of as many bytes in pieces of 64 KiB.
fn bulk(folder: &Path) {
    let batch = batch(1 << 16);
    let (count, bytes) = (256, bytes_of(&batch));
    let piece = vec![7u8; 64 << 10];
    let ours = || {
        let mut writer = writer(folder);
        let start = Instant::now();
        for _ in 0..count {
            writer.append(&batch).expect("appended");
            writer.commit().expect("committed");
        }
        seconds(start)
    };
    let limit = || {
        let path = folder.join("bare");
        let file = File::create(&path).expect("a file");
        let start = Instant::now();
        for number in 0..(count * bytes) / piece.len() as u64 {
            file.write_all_at(&piece, number * piece.len() as u64).expect("written");
        }
        let taken = seconds(start);
        std::fs::remove_file(path).expect("removed");
        taken
    };
    let (ours, limit) = in_turns(7, ours, limit);
    let gigabytes = (count * bytes) as f64 / 1e9;
    println!(
        "bulk append + commit, 64 Ki rows          {:6.2} GB/s   pwrite of 64 KiB  {:6.2} GB/s   ratio {:.2}",
        gigabytes / ours,
        gigabytes / limit,
        limit / ours
    );
}

fn batches(folder: &Path) {
    let batch = batch(10_000);
    let ours = || {
        let mut writer = writer(folder);
        let start = Instant::now();
        for _ in 0..1000 {
            writer.append(&batch).expect("appended");
            writer.commit().expect("committed");
        }
        seconds(start)
    };
    let (ours, _) = in_turns(5, ours, || 0.0);
    println!("append + commit of 10,000 rows            {:6.1} M rows/s", 10.0 / ours);
}

fn rows(folder: &Path) {
    const COUNT: i64 = 2_000_000;
    let ours = || {
        let mut writer = writer(folder);
        let start = Instant::now();
        for i in 0..COUNT {
            let row =
                [Value::Int(i), Value::Str(SYMBOLS[i as usize % 5]), Value::Float64(i as f64), Value::Int(i % 1000)];
            writer.append_row(&row).expect("appended");
            writer.commit().expect("committed");
        }
        let taken = seconds(start);
        drop(writer);
        let dataset = open(folder.join("ticks")).expect("a table");
        assert_eq!(dataset.len().expect("rows"), COUNT as u64);
        taken
    };
    let (ours, _) = in_turns(5, ours, || 0.0);
    println!("one row + commit, 4 columns               {:6.1} M rows/s", COUNT as f64 / ours / 1e6);
}

fn durable(folder: &Path) {
    const COUNT: u64 = 500;
    let options = WriterOptions { sync: SyncPolicy::Commit, ..WriterOptions::default() };
    let ours = || {
        let mut writer = Writer::open(fresh(folder), Some(schema()), &options).expect("a writer");
        let row = [Value::Int(1), Value::Str("MSFT"), Value::Float64(1.5), Value::Int(7)];
        let start = Instant::now();
        for _ in 0..COUNT {
            writer.append_row(&row).expect("appended");
            writer.commit().expect("committed");
        }
        let taken = seconds(start);
        assert_eq!(writer.durable_rows(), COUNT);
        taken
    };
    let limit = || {
        let path = folder.join("bare");
        let file = File::create(&path).expect("a file");
        file.write_all_at(&[0; 1 << 20], 0).expect("room");
        file.sync_all().expect("synced");
        let start = Instant::now();
        for number in 0..COUNT {
            file.write_all_at(&[7; 32], 32 * number).expect("written");
            file.sync_data().expect("synced");
        }
        seconds(start)
    };
    let (ours, limit) = in_turns(7, ours, limit);
    println!(
        "durable commits of one row                {:6.0} /s     pwrite + fdatasync {:6.0} /s     ratio {:.2}",
        COUNT as f64 / ours,
        COUNT as f64 / limit,
        limit / ours
    );
}

fn refresh(folder: &Path) {
    let mut writer = writer(folder);
    let row = [Value::Int(1), Value::Str("MSFT"), Value::Float64(1.5), Value::Int(7)];
    writer.append_row(&row).expect("appended");
    writer.commit().expect("committed");
    let mut dataset = open(writer.path()).expect("a table");
    let start = Instant::now();
    for _ in 0..1_000_000 {
        std::hint::black_box(dataset.refresh().expect("refreshed"));
    }
    println!("refresh with nothing new                  {:6.1} ns", start.elapsed().as_nanos() as f64 / 1e6);
    let mut times = Vec::new();
    for i in 0..20_000u64 {
        writer.append_row(&row).expect("appended");
        writer.commit().expect("committed");
        let start = Instant::now();
        dataset = dataset.refresh().expect("refreshed");
        // As far as arrays of all four columns.
        for column in 0..4 {
            std::hint::black_box(dataset.row(i + 1).expect("the row").get(column).expect("a value"));
        }
        times.push(start.elapsed().as_nanos() as f64);
    }
    println!("refresh with a new row + its 4 values      {:6.0} ns", median(&mut times));
}

/// From the writer's commit to another process's sight. Commits come seldom enough for a follower to be woken for each.
fn latency(folder: &Path, spin: bool) {
    const COUNT: u64 = 3000;
    let pause = Duration::from_micros(if spin { 100 } else { 1000 });
    let mut writer = writer(folder);
    writer.commit().expect("committed");
    let program = std::env::current_exe().expect("this program");
    let how = if spin { "spin" } else { "sleep" };
    let mut child = Command::new(program);
    let child = child.args(["--watch", &writer.path().to_string_lossy(), how, &COUNT.to_string()]);
    let child = child.stdout(Stdio::piped()).spawn().expect("a reader");
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..COUNT {
        let row = [Value::Int(clock()), Value::Str("MSFT"), Value::Float64(1.5), Value::Int(7)];
        writer.append_row(&row).expect("appended");
        writer.commit().expect("committed");
        let until = Instant::now() + pause;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
    let output = child.wait_with_output().expect("its answer");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn watch(path: &Path, spin: bool, count: u64) {
    let mut dataset = open(path).expect("a table");
    let mut times = Vec::new();
    let mut take = |dataset: &Dataset, row: u64| match dataset.row(row).expect("a row").get(0).expect("a time") {
        Value::Int(then) => times.push((clock() - then) as f64),
        other => panic!("{other}"),
    };
    if spin {
        let mut seen = 0;
        while seen < count {
            dataset = dataset.refresh().expect("refreshed");
            let rows = dataset.len().expect("rows");
            if rows > seen {
                take(&dataset, rows - 1);
                seen = rows;
            }
        }
    } else {
        let mut seen = 0;
        for rows in follow(&dataset, Some(0), Some(Duration::from_secs(5))).expect("to follow") {
            let rows = rows.expect("rows");
            seen += rows.len().expect("rows");
            take(&rows, rows.len().expect("rows") - 1);
            if seen >= count {
                break;
            }
        }
    }
    let what = if spin { "commit → a spinning reader, process to process" } else { "commit → a sleeping follower" };
    println!("{what:47}{:6.2} µs", median(&mut times) / 1e3);
}

/// What followers that see each row once cost the writer: at full speed, and at ten commits a millisecond, between which they sleep.
fn followers(folder: &Path) {
    let paced = Duration::from_micros(100);
    for (how, pause, commits) in
        [("at full speed", Duration::ZERO, 2_000_000), ("10,000 commits a second", paced, 20_000)]
    {
        let alone = beside_followers(folder, 0, pause, commits);
        for count in [1, 10] {
            let beside = beside_followers(folder, count, pause, commits);
            println!(
                "row + commit beside {count:2} followers, {how:24}{beside:8.0} ns     alone {alone:8.0} ns     ratio {:.2}",
                alone / beside
            );
        }
    }
}

/// The nanoseconds that a row and its commit take beside `count` followers, each a process, at best of three times.
fn beside_followers(folder: &Path, count: usize, pause: Duration, commits: u64) -> f64 {
    let once = || {
        let mut writer = writer(folder);
        writer.commit().expect("committed");
        let path = writer.path().to_string_lossy().into_owned();
        let program = std::env::current_exe().expect("this program");
        let follower = || Command::new(&program).args(["--watch", &path, "count", &commits.to_string()]).spawn();
        let children: Vec<_> = (0..count).map(|_| follower().expect("a follower")).collect();
        std::thread::sleep(Duration::from_millis(300));
        let row = [Value::Int(1), Value::Str("MSFT"), Value::Float64(1.5), Value::Int(7)];
        let mut spent = Duration::ZERO;
        for _ in 0..commits {
            let start = Instant::now();
            writer.append_row(&row).expect("appended");
            writer.commit().expect("committed");
            spent += start.elapsed();
            while start.elapsed() < pause {
                std::thread::sleep(pause / 2);
            }
        }
        for mut child in children {
            assert!(child.wait().expect("its end").success(), "a follower saw other rows");
        }
        spent.as_nanos() as f64 / commits as f64
    };
    (0..3).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Follows until `count` rows have been seen, each once.
fn count_rows(path: &Path, count: u64) {
    let mut seen = 0;
    for rows in follow(&open(path).expect("a table"), Some(0), Some(Duration::from_secs(5))).expect("to follow") {
        seen += rows.expect("rows").len().expect("rows");
        if seen >= count {
            break;
        }
    }
    std::process::exit(i32::from(seen != count));
}

fn clock() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A sum over a live table while it grows, beside the same rows in one dense file; and what both take on disk.
fn scan(folder: &Path, millions: u64) {
    let batch = batch(1 << 16);
    let count = millions * 1_000_000 / batch.num_rows() as u64;
    let mut writer = writer(folder);
    for _ in 0..count {
        writer.append(&batch).expect("appended");
        writer.commit().expect("committed");
    }
    let dataset = open(writer.path()).expect("a table");
    let dense = folder.join("dense.arrow");
    write(&dataset, &dense, &WriteOptions::default()).expect("written");
    let disk = |path: &Path| std::fs::metadata(path).expect("a file").blocks() * 512;
    let rows = Dataset::concat(&dataset.batches().collect::<Result<Vec<_>, _>>().expect("batches")).expect("rows");
    assert_eq!(rows.len().expect("rows"), count << 16);
    let file = open(&dense).expect("the dense file");
    let sum = |dataset: &Dataset| {
        let start = Instant::now();
        let sum = dataset.column("price").expect("the column").sum().expect("a sum");
        (seconds(start), sum.to_string())
    };
    assert_eq!(sum(&dataset).1, sum(&file).1);
    let mut live = dataset.clone();
    let small = self::batch(1);
    let ours = || {
        writer.append(&small).expect("appended");
        writer.commit().expect("committed");
        live = live.refresh().expect("refreshed");
        sum(&live).0
    };
    let (ours, limit) = in_turns(9, ours, || sum(&file).0);
    println!(
        "sum of {millions} M rows, live                      {:6.1} ms     dense file        {:6.1} ms     ratio {:.2}",
        ours * 1e3,
        limit * 1e3,
        limit / ours
    );
    let path = writer.path().to_path_buf();
    writer.close().expect("closed");
    let files: Vec<_> = std::fs::read_dir(&path).expect("segments").map(|entry| entry.expect("one").path()).collect();
    let ours: u64 = files.iter().map(|path| disk(path)).sum();
    println!(
        "bytes on disk                             {ours:>12}   dense file  {:>12}   ratio {:.4}",
        disk(&dense),
        ours as f64 / disk(&dense) as f64
    );
    compact(&path, |_, _| ()).expect("compacted");
    std::fs::remove_file(dense).expect("removed");
}

/// The writer of a table of `count` segments.
fn segments(path: &Path, count: usize) -> Writer {
    let options = WriterOptions { segment_rows: Some(10), ..never() };
    let mut writer = Writer::open(path, Some(schema()), &options).expect("a writer");
    for _ in 0..count {
        writer.append(&batch(10)).expect("appended");
        writer.commit().expect("committed");
    }
    writer
}

/// `refresh` in another process with rows that begin another segment, behind few segments and behind many.
fn over(folder: &Path) {
    const COUNT: usize = 300;
    for count in [10, 1000, 5000] {
        let path = fresh(folder);
        let mut writer = segments(&path, count);
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program);
        let child = child.args(["--watch", &path.to_string_lossy(), "over", &(10 * (count + COUNT)).to_string()]);
        let child = child.stdout(Stdio::piped()).spawn().expect("a reader");
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..COUNT {
            writer.append(&batch(10)).expect("appended");
            writer.commit().expect("committed");
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = child.wait_with_output().expect("its answer");
        print!("refresh over the end of {count:5} segments     {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// What the other process of [`over`] does.
fn watch_over(path: &Path, until: u64) {
    let mut dataset = open(path).expect("a table");
    let mut rows = dataset.len().expect("rows");
    let (mut times, mut processor_times) = (Vec::new(), Vec::new());
    while rows < until {
        if dataset.is_newest() {
            continue;
        }
        let spent = processor_seconds();
        let start = Instant::now();
        dataset = dataset.refresh().expect("refreshed");
        let taken = start.elapsed().as_nanos() as f64 / 1e3;
        let processor_time = (processor_seconds() - spent) * 1e6;
        let now = dataset.len().expect("rows");
        if now > rows {
            times.push(taken);
            processor_times.push(processor_time);
            rows = now;
        }
    }
    println!("{:6.1} µs, {:6.1} µs of them processor time", median(&mut times), median(&mut processor_times));
}

/// A table of 1,000 segments, opened, to its first row.
fn thousand(folder: &Path) {
    let path = fresh(folder);
    let _writer = segments(&path, 1000);
    let segments = std::fs::read_dir(&path).expect("segments").count();
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        let dataset = open(&path).expect("a table");
        std::hint::black_box(dataset.row(0).expect("a row").get(0).expect("a value"));
        times.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    println!("open {segments} segments, to the first row      {:6.0} µs", median(&mut times));
}

fn in_turns(rounds: usize, mut ours: impl FnMut() -> f64, mut limit: impl FnMut() -> f64) -> (f64, f64) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        a.push(ours());
        b.push(limit());
    }
    (median(&mut a), median(&mut b))
}

fn seconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
