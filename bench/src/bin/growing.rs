//! Compares growing tables with the limits of the machine.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin growing -- FOLDER [MILLIONS [ONE]]
//! ```
//! Creates and removes tables in `FOLDER`. Scans `MILLIONS` of rows, 56 by default. `ONE` selects a measurement. The two
//! sides of a comparison are measured alternately, and medians are printed. Results are checked.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::{Dataset, SyncPolicy, Value, WriteOptions, Writer, WriterOptions, compact, follow, open, write};
use arrowwood_bench::processor_seconds;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--watch", path, "over", count] => {
            measure_refresh_over_segments(Path::new(path), count.parse().expect("a number"))
        }
        ["--watch", path, "count", count] => follow_rows(Path::new(path), count.parse().expect("a number")),
        ["--watch", path, mode, count] => {
            measure_latency(Path::new(path), mode == "spin", count.parse().expect("a number"))
        }
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
    let measurements: [(&str, &dyn Fn()); 11] = [
        ("bulk", &|| bulk_appends(&folder)),
        ("batches", &|| batch_commits(&folder)),
        ("rows", &|| row_commits(&folder)),
        ("durable", &|| durable_commits(&folder)),
        ("refresh", &|| refreshes(&folder)),
        ("spin", &|| commit_latency(&folder, true)),
        ("sleep", &|| commit_latency(&folder, false)),
        ("followers", &|| follower_costs(&folder)),
        ("scan", &|| scans(&folder, millions)),
        ("thousand", &|| open_many_segments(&folder)),
        ("over", &|| refreshes_over_segments(&folder)),
    ];
    for (_, measure) in measurements.iter().filter(|(name, _)| only.is_empty() || *name == only) {
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

fn unsynced() -> WriterOptions {
    WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() }
}

/// Removes the table of the measurement before, and returns its path.
fn remove_table(folder: &Path) -> PathBuf {
    let path = folder.join("ticks");
    if path.exists() {
        std::fs::remove_dir_all(&path).expect("removing a table");
    }
    path
}

/// Creates a table in place of the one of the measurement before.
fn create_table(folder: &Path) -> Writer {
    Writer::open(remove_table(folder), Some(schema()), &unsynced()).expect("a writer")
}

fn append_and_commit(writer: &mut Writer, batch: &RecordBatch) {
    writer.append(batch).expect("appended");
    writer.commit().expect("committed");
}

fn commit_row(writer: &mut Writer, row: &[Value<'_>]) {
    writer.append_row(row).expect("appended");
    writer.commit().expect("committed");
}

/// Returns a row whose time is `ts`.
fn row(ts: i64) -> [Value<'static>; 4] {
    [Value::Int(ts), Value::Str("MSFT"), Value::Float64(1.5), Value::Int(7)]
}

fn len_of_buffers(batch: &RecordBatch) -> u64 {
    let text: usize = batch.column(1).to_data().buffers()[1].len();
    (batch.num_rows() * (8 + 4 + 8 + 8) + text) as u64
}

/// Compares appends of large batches with pwrite(2) of as many bytes in pieces of 64 KiB.
fn bulk_appends(folder: &Path) {
    const COMMITS: u64 = 256;
    let batch = batch(1 << 16);
    let bytes = COMMITS * len_of_buffers(&batch);
    let (ours, limit) = measure_alternately(7, || time_commits(folder, &batch, COMMITS), || time_writes(folder, bytes));
    let gigabytes = bytes as f64 / 1e9;
    println!(
        "bulk append + commit, 64 Ki rows          {:6.2} GB/s   pwrite of 64 KiB  {:6.2} GB/s   ratio {:.2}",
        gigabytes / ours,
        gigabytes / limit,
        limit / ours
    );
}

/// Returns the seconds of `commits` commits of the same batch to a new table.
fn time_commits(folder: &Path, batch: &RecordBatch, commits: u64) -> f64 {
    let mut writer = create_table(folder);
    let start = Instant::now();
    for _ in 0..commits {
        append_and_commit(&mut writer, batch);
    }
    seconds_since(start)
}

/// Returns the seconds of writing a new file in pieces of 64 KiB.
fn time_writes(folder: &Path, bytes: u64) -> f64 {
    let piece = vec![7u8; 64 << 10];
    let path = folder.join("bare");
    let file = File::create(&path).expect("a file");
    let start = Instant::now();
    for number in 0..bytes / piece.len() as u64 {
        file.write_all_at(&piece, number * piece.len() as u64).expect("written");
    }
    let seconds = seconds_since(start);
    std::fs::remove_file(path).expect("removed");
    seconds
}

fn batch_commits(folder: &Path) {
    let batch = batch(10_000);
    let mut times: Vec<f64> = (0..5).map(|_| time_commits(folder, &batch, 1000)).collect();
    println!("append + commit of 10,000 rows            {:6.1} M rows/s", 10.0 / median(&mut times));
}

fn row_commits(folder: &Path) {
    const COUNT: i64 = 2_000_000;
    let mut times: Vec<f64> = (0..5).map(|_| time_row_commits(folder, COUNT)).collect();
    println!("one row + commit, 4 columns               {:6.1} M rows/s", COUNT as f64 / median(&mut times) / 1e6);
}

fn time_row_commits(folder: &Path, count: i64) -> f64 {
    let mut writer = create_table(folder);
    let start = Instant::now();
    for i in 0..count {
        let row = [Value::Int(i), Value::Str(SYMBOLS[i as usize % 5]), Value::Float64(i as f64), Value::Int(i % 1000)];
        commit_row(&mut writer, &row);
    }
    let seconds = seconds_since(start);
    drop(writer);
    let dataset = open(folder.join("ticks")).expect("a table");
    assert_eq!(dataset.len().expect("rows"), count as u64);
    seconds
}

/// Compares durable commits with a pwrite(2) of one row's size and fdatasync(2).
fn durable_commits(folder: &Path) {
    const COUNT: u64 = 500;
    let (ours, limit) =
        measure_alternately(7, || time_durable_commits(folder, COUNT), || time_synced_writes(folder, COUNT));
    println!(
        "durable commits of one row                {:6.0} /s     pwrite + fdatasync {:6.0} /s     ratio {:.2}",
        COUNT as f64 / ours,
        COUNT as f64 / limit,
        limit / ours
    );
}

fn time_durable_commits(folder: &Path, count: u64) -> f64 {
    let options = WriterOptions { sync: SyncPolicy::Commit, ..WriterOptions::default() };
    let mut writer = Writer::open(remove_table(folder), Some(schema()), &options).expect("a writer");
    let row = row(1);
    let start = Instant::now();
    for _ in 0..count {
        commit_row(&mut writer, &row);
    }
    let seconds = seconds_since(start);
    assert_eq!(writer.durable_rows(), count);
    seconds
}

fn time_synced_writes(folder: &Path, count: u64) -> f64 {
    let file = File::create(folder.join("bare")).expect("a file");
    file.write_all_at(&[0; 1 << 20], 0).expect("room");
    file.sync_all().expect("synced");
    let start = Instant::now();
    for number in 0..count {
        file.write_all_at(&[7; 32], 32 * number).expect("written");
        file.sync_data().expect("synced");
    }
    seconds_since(start)
}

fn refreshes(folder: &Path) {
    let mut writer = create_table(folder);
    let row = row(1);
    commit_row(&mut writer, &row);
    let mut dataset = open(writer.path()).expect("a table");
    let start = Instant::now();
    for _ in 0..1_000_000 {
        std::hint::black_box(dataset.refresh().expect("refreshed"));
    }
    println!("refresh with nothing new                  {:6.1} ns", start.elapsed().as_nanos() as f64 / 1e6);

    let mut times = Vec::new();
    for i in 0..20_000u64 {
        commit_row(&mut writer, &row);
        let start = Instant::now();
        dataset = dataset.refresh().expect("refreshed");
        // Reading a value of each column also maps its array.
        for column in 0..4 {
            std::hint::black_box(dataset.row(i + 1).expect("the row").get(column).expect("a value"));
        }
        times.push(start.elapsed().as_nanos() as f64);
    }
    println!("refresh with a new row + its 4 values      {:6.0} ns", median(&mut times));
}

/// The time that readers in other processes get to open the table.
const READER_START: Duration = Duration::from_millis(300);

/// Starts this program as a reader of the table at `path`.
fn start_reader(path: &Path, mode: &str, count: u64) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.arg("--watch").arg(path).arg(mode).arg(count.to_string());
    command.stdout(Stdio::piped()).spawn().expect("a reader")
}

/// Measures the time from a commit until a reader in another process has seen it.
fn commit_latency(folder: &Path, is_spinning: bool) {
    const COUNT: u64 = 3000;
    // A sleeping follower gets enough time to fall asleep between commits, so that each commit wakes it.
    let pause = Duration::from_micros(if is_spinning { 100 } else { 1000 });
    let mut writer = create_table(folder);
    writer.commit().expect("committed");
    let reader = start_reader(writer.path(), if is_spinning { "spin" } else { "sleep" }, COUNT);
    std::thread::sleep(READER_START);
    for _ in 0..COUNT {
        commit_row(&mut writer, &row(clock_ns()));
        let pause_end = Instant::now() + pause;
        while Instant::now() < pause_end {
            std::hint::spin_loop();
        }
    }
    let output = reader.wait_with_output().expect("the reader's output");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

/// Runs the reader of [`commit_latency`].
fn measure_latency(path: &Path, is_spinning: bool, count: u64) {
    let mut dataset = open(path).expect("a table");
    let mut times = Vec::new();
    let mut seen = 0;
    if is_spinning {
        while seen < count {
            dataset = dataset.refresh().expect("refreshed");
            let rows = dataset.len().expect("rows");
            if rows > seen {
                times.push(age_ns(&dataset, rows - 1));
                seen = rows;
            }
        }
    } else {
        for rows in follow(&dataset, Some(0), Some(Duration::from_secs(5))).expect("to follow") {
            let rows = rows.expect("rows");
            let len = rows.len().expect("rows");
            seen += len;
            times.push(age_ns(&rows, len - 1));
            if seen >= count {
                break;
            }
        }
    }
    let name =
        if is_spinning { "commit → a spinning reader, process to process" } else { "commit → a sleeping follower" };
    println!("{name:47}{:6.2} µs", median(&mut times) / 1e3);
}

/// Returns the nanoseconds since the time that is stored in a row.
fn age_ns(dataset: &Dataset, row: u64) -> f64 {
    match dataset.row(row).expect("a row").get(0).expect("a time") {
        Value::Int(time) => (clock_ns() - time) as f64,
        other => panic!("{other}"),
    }
}

/// Measures what followers, which see each row once, cost the writer: at full speed, and at a pace at which they sleep between
/// commits.
fn follower_costs(folder: &Path) {
    let pause = Duration::from_micros(100);
    for (pace, pause, commits) in
        [("at full speed", Duration::ZERO, 2_000_000), ("10,000 commits a second", pause, 20_000)]
    {
        let alone = min_commit_ns(folder, 0, pause, commits);
        for count in [1, 10] {
            let beside = min_commit_ns(folder, count, pause, commits);
            println!(
                "row + commit beside {count:2} followers, {pace:24}{beside:8.0} ns     alone {alone:8.0} ns     ratio {:.2}",
                alone / beside
            );
        }
    }
}

/// Returns the nanoseconds that a row and its commit take beside followers in other processes; the best of three runs.
fn min_commit_ns(folder: &Path, followers: usize, pause: Duration, commits: u64) -> f64 {
    (0..3).map(|_| commit_ns(folder, followers, pause, commits)).fold(f64::INFINITY, f64::min)
}

fn commit_ns(folder: &Path, followers: usize, pause: Duration, commits: u64) -> f64 {
    let mut writer = create_table(folder);
    writer.commit().expect("committed");
    let followers: Vec<_> = (0..followers).map(|_| start_reader(writer.path(), "count", commits)).collect();
    std::thread::sleep(READER_START);
    let row = row(1);
    let mut time = Duration::ZERO;
    for _ in 0..commits {
        let start = Instant::now();
        commit_row(&mut writer, &row);
        time += start.elapsed();
        while start.elapsed() < pause {
            std::thread::sleep(pause / 2);
        }
    }
    for mut follower in followers {
        assert!(follower.wait().expect("its end").success(), "a follower saw other rows");
    }
    time.as_nanos() as f64 / commits as f64
}

/// Runs a follower of [`commit_ns`], until it has seen `count` rows, each once.
fn follow_rows(path: &Path, count: u64) {
    let mut seen = 0;
    for rows in follow(&open(path).expect("a table"), Some(0), Some(Duration::from_secs(5))).expect("to follow") {
        seen += rows.expect("rows").len().expect("rows");
        if seen >= count {
            break;
        }
    }
    std::process::exit(i32::from(seen != count));
}

/// Returns the time of a clock that all processes share.
fn clock_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Compares sums over a live table while it grows with sums over the same rows in one dense file, and the sizes of both.
fn scans(folder: &Path, millions: u64) {
    let batch = batch(1 << 16);
    let count = millions * 1_000_000 / batch.num_rows() as u64;
    let mut writer = create_table(folder);
    for _ in 0..count {
        append_and_commit(&mut writer, &batch);
    }
    let dataset = open(writer.path()).expect("a table");
    let dense = folder.join("dense.arrow");
    write(&dataset, &dense, &WriteOptions::default()).expect("written");
    let rows = Dataset::concat(&dataset.batches().collect::<Result<Vec<_>, _>>().expect("batches")).expect("rows");
    assert_eq!(rows.len().expect("rows"), count << 16);
    let file = open(&dense).expect("the dense file");
    assert_eq!(sum_prices(&dataset), sum_prices(&file));

    let mut live = dataset.clone();
    let one_row = self::batch(1);
    let time_live_sum = || {
        append_and_commit(&mut writer, &one_row);
        live = live.refresh().expect("refreshed");
        time_sum(&live)
    };
    let (ours, limit) = measure_alternately(9, time_live_sum, || time_sum(&file));
    println!(
        "sum of {millions} M rows, live                      {:6.1} ms     dense file        {:6.1} ms     ratio {:.2}",
        ours * 1e3,
        limit * 1e3,
        limit / ours
    );

    let path = writer.path().to_path_buf();
    writer.close().expect("closed");
    let segments = std::fs::read_dir(&path).expect("segments").map(|entry| entry.expect("one").path());
    let table_size: u64 = segments.map(|segment| size_on_disk(&segment)).sum();
    let dense_size = size_on_disk(&dense);
    println!(
        "bytes on disk                             {table_size:>12}   dense file  {dense_size:>12}   ratio {:.4}",
        table_size as f64 / dense_size as f64
    );
    compact(&path, |_, _| ()).expect("compacted");
    std::fs::remove_file(dense).expect("removed");
}

fn sum_prices(dataset: &Dataset) -> String {
    dataset.column("price").expect("the column").sum().expect("a sum").to_string()
}

fn time_sum(dataset: &Dataset) -> f64 {
    let start = Instant::now();
    std::hint::black_box(dataset.column("price").expect("the column").sum().expect("a sum"));
    seconds_since(start)
}

fn size_on_disk(path: &Path) -> u64 {
    std::fs::metadata(path).expect("a file").blocks() * 512
}

/// Rows per segment of tables with many segments.
const SMALL_SEGMENT: u64 = 10;

/// Creates a table of `count` segments.
fn create_segments(path: &Path, count: u64) -> Writer {
    let options = WriterOptions { segment_rows: Some(SMALL_SEGMENT), ..unsynced() };
    let mut writer = Writer::open(path, Some(schema()), &options).expect("a writer");
    for _ in 0..count {
        append_and_commit(&mut writer, &batch(SMALL_SEGMENT as i64));
    }
    writer
}

/// Measures refreshes in another process with rows that begin another segment, behind few segments and behind many.
fn refreshes_over_segments(folder: &Path) {
    const COMMITS: u64 = 300;
    for count in [10, 1000, 5000] {
        let path = remove_table(folder);
        let mut writer = create_segments(&path, count);
        let reader = start_reader(&path, "over", SMALL_SEGMENT * (count + COMMITS));
        std::thread::sleep(READER_START);
        for _ in 0..COMMITS {
            append_and_commit(&mut writer, &batch(SMALL_SEGMENT as i64));
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = reader.wait_with_output().expect("the reader's output");
        print!("refresh over the end of {count:5} segments     {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Runs the reader of [`refreshes_over_segments`].
fn measure_refresh_over_segments(path: &Path, end: u64) {
    let mut dataset = open(path).expect("a table");
    let mut rows = dataset.len().expect("rows");
    let (mut times_us, mut processor_times_us) = (Vec::new(), Vec::new());
    while rows < end {
        if dataset.is_newest() {
            continue;
        }
        let processor_start = processor_seconds();
        let start = Instant::now();
        dataset = dataset.refresh().expect("refreshed");
        let time_us = start.elapsed().as_nanos() as f64 / 1e3;
        let processor_time_us = (processor_seconds() - processor_start) * 1e6;
        let new_rows = dataset.len().expect("rows");
        if new_rows > rows {
            times_us.push(time_us);
            processor_times_us.push(processor_time_us);
            rows = new_rows;
        }
    }
    println!("{:6.1} µs, {:6.1} µs of them processor time", median(&mut times_us), median(&mut processor_times_us));
}

/// Opens a table of 1,000 segments, and reads its first row.
fn open_many_segments(folder: &Path) {
    let path = remove_table(folder);
    let _writer = create_segments(&path, 1000);
    let segments = std::fs::read_dir(&path).expect("segments").count();
    let mut times_us = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        let dataset = open(&path).expect("a table");
        std::hint::black_box(dataset.row(0).expect("a row").get(0).expect("a value"));
        times_us.push(start.elapsed().as_nanos() as f64 / 1e3);
    }
    println!("open {segments} segments, to the first row      {:6.0} µs", median(&mut times_us));
}

/// Measures two works in turns; returns the medians of the times that they return.
fn measure_alternately(rounds: usize, mut first: impl FnMut() -> f64, mut second: impl FnMut() -> f64) -> (f64, f64) {
    let (mut first_times, mut second_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        first_times.push(first());
        second_times.push(second());
    }
    (median(&mut first_times), median(&mut second_times))
}

fn seconds_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
