//! Measures how much is read to find rows of a day's table, with zones of several sizes and without zones.
//!
//! A hundredth of the rows are late by up to a minute. Queries select a thousandth of the rows: by time, by an integer, and
//! by texts that come in runs, either in the order of the text or in another one.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin zones -- FOLDER [MILLIONS]
//! ```
//! Creates and removes tables in `FOLDER`, with `MILLIONS` of rows (56 by default). The pages of the files are dropped from
//! the page cache before each query; those in it afterwards were read, including the system's read-ahead. Results are
//! checked.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrowwood::{LatePolicy, Predicate, SyncPolicy, Value, Writer, WriterOptions, col, open};
use arrowwood_bench::BareMapping;
use arrowwood_bench::table::median;

/// A second in the unit of the times, microseconds.
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// The number of runs of equal texts and integers: each is a thousandth of the rows.
const RUNS: i64 = 1000;

const BATCH: i64 = 1 << 16;

fn parse_millions(text: &str) -> i64 {
    text.parse::<i64>().expect("a number of millions") * 1_000_000
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder] => run(Path::new(folder), 56_000_000),
        [folder, count] => run(Path::new(folder), parse_millions(count)),
        _ => {
            eprintln!("usage: zones FOLDER [MILLIONS]");
            std::process::exit(2);
        }
    }
}

fn run(folder: &Path, rows: i64) {
    let root = folder.join(format!("zones-{}", std::process::id()));
    std::fs::create_dir_all(&root).expect("the folder");
    println!("{} M rows; bytes read, of those of the table; times with all in memory", rows / 1_000_000);
    println!("{:34}{:>12}{:>9}{:>10}{:>9}", "", "read, KiB", "of all", "rows", "ms");
    for zone_rows in [Some(1 << 14), Some(1 << 16), Some(1 << 18), None] {
        let table = Table::create(&root.join("day"), rows, zone_rows);
        for query in queries(rows) {
            let (bytes_read, rows_found) = table.bytes_read_by(&query);
            assert_eq!(rows_found, query.rows, "{}", query.name);
            let share = 100.0 * bytes_read as f64 / table.bytes as f64;
            let zones = zone_rows.map_or("no zones".into(), |rows| format!("zones of {} Ki", rows >> 10));
            let name = format!("{}, {zones}", query.name);
            println!("{name:34}{:>12}{share:>8.2}%{rows_found:>10}{:>9.1}", bytes_read >> 10, table.time_ms_of(&query));
        }
        std::fs::remove_dir_all(root.join("day")).expect("removing the table");
    }
    std::fs::remove_dir_all(&root).expect("removing the folder");
}

// ---- the rows ----

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        Field::new("host", DataType::Utf8, false),
        Field::new("shift", DataType::Utf8, false),
        Field::new("job", DataType::Int64, false),
        Field::new("load", DataType::Float64, false),
        Field::new("bytes", DataType::Int64, false),
    ]))
}

/// Returns the time of a row. Rows arrive evenly, and every hundredth is up to a minute late.
fn time(row: i64, rows: i64) -> i64 {
    let arrival = (i128::from(row) * i128::from(DAY) / i128::from(rows)) as i64;
    let late = if row % 100 == 99 { row.wrapping_mul(0x9e37_79b9) % (60 * SECOND) } else { 0 };
    (arrival - late).max(0)
}

fn run_of(row: i64, rows: i64) -> i64 {
    (i128::from(row) * i128::from(RUNS) / i128::from(rows)) as i64
}

/// Returns the name of a run; names sort in another order than their runs.
fn host(run: i64) -> String {
    format!("host-{:03}", run * 379 % RUNS)
}

/// Returns the name of a run; names sort in the order of their runs.
fn shift(run: i64) -> String {
    format!("day-{run:03}")
}

fn batch(from: i64, to: i64, rows: i64) -> RecordBatch {
    let columns: [ArrayRef; 6] = [
        Arc::new(TimestampMicrosecondArray::from_iter_values((from..to).map(|row| time(row, rows)))),
        Arc::new(StringArray::from_iter_values((from..to).map(|row| host(run_of(row, rows))))),
        Arc::new(StringArray::from_iter_values((from..to).map(|row| shift(run_of(row, rows))))),
        Arc::new(Int64Array::from_iter_values((from..to).map(|row| run_of(row, rows)))),
        Arc::new(Float64Array::from_iter_values((from..to).map(|row| (row % 1000) as f64 * 0.25))),
        Arc::new(Int64Array::from_iter_values((from..to).map(|row| row % 10_000))),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).expect("a batch")
}

// ---- the queries ----

struct Query {
    name: &'static str,
    condition: Predicate,
    /// The number of matching rows.
    rows: u64,
}

fn timestamp(time: i64) -> Value<'static> {
    Value::Timestamp(time, TimeUnit::Microsecond, None)
}

fn queries(rows: i64) -> [Query; 4] {
    let start_time = DAY / 2;
    let end_time = start_time + DAY / 1000;
    let run = RUNS / 3;
    let rows_in_time = (0..rows).filter(|&row| (start_time..end_time).contains(&time(row, rows))).count() as u64;
    let rows_of_run = (0..rows).filter(|&row| run_of(row, rows) == run).count() as u64;
    [
        Query {
            name: "0.1 % by time",
            condition: col("ts").ge(timestamp(start_time)) & col("ts").lt(timestamp(end_time)),
            rows: rows_in_time,
        },
        Query { name: "0.1 % by text", condition: col("shift").eq(shift(run).as_str()), rows: rows_of_run },
        Query { name: "by unordered text", condition: col("host").eq(host(run).as_str()), rows: rows_of_run },
        Query { name: "0.1 % by integer", condition: col("job").eq(run), rows: rows_of_run },
    ]
}

// ---- the table ----

struct Table {
    path: PathBuf,
    /// The bytes of its files on the disk.
    bytes: u64,
}

impl Table {
    /// Creates a table of `rows` rows, with zones of `zone_rows` rows or without zones.
    fn create(path: &Path, rows: i64, zone_rows: Option<u32>) -> Table {
        let mut options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
        if zone_rows.is_some() {
            options.sorted_by = Some("ts".into());
            options.late = Some(LatePolicy::Accept);
            options.index = Some(["host", "shift", "job"].map(String::from).to_vec());
            options.zone_rows = zone_rows;
        }
        let mut writer = Writer::open(path, Some(schema()), &options).expect("a writer");
        for from in (0..rows).step_by(BATCH as usize) {
            writer.append(&batch(from, rows.min(from + BATCH), rows)).expect("appended");
            writer.commit().expect("committed");
        }
        writer.close().expect("closed");
        let bytes = files(path).map(|file| 512 * file.metadata().expect("a file").blocks()).sum();
        Table { path: path.to_path_buf(), bytes }
    }

    /// Returns the bytes that a query reads from the disk, and the number of rows that it finds.
    fn bytes_read_by(&self, query: &Query) -> (u64, u64) {
        files(&self.path).for_each(|file| drop_pages(&file));
        let resident = self.resident_bytes();
        assert!(resident == 0, "{resident} bytes are in memory still: FOLDER is to be on a disk");
        let rows = self.run(query);
        (self.resident_bytes(), rows)
    }

    fn run(&self, query: &Query) -> u64 {
        let rows = open(&self.path).expect("the table").filter(&query.condition).expect("rows");
        rows.len().expect("their number")
    }

    /// Returns the milliseconds of a query whose pages are in memory.
    fn time_ms_of(&self, query: &Query) -> f64 {
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            self.run(query);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        median(&mut times)
    }

    /// Returns the bytes of the files in the page cache.
    fn resident_bytes(&self) -> u64 {
        let paths = std::fs::read_dir(&self.path).expect("the table").map(|entry| entry.expect("a file").path());
        paths.map(|path| BareMapping::new(&path).resident()).sum()
    }
}

fn files(path: &Path) -> impl Iterator<Item = File> {
    let entries = std::fs::read_dir(path).expect("the table");
    entries.map(|entry| File::open(entry.expect("an entry").path()).expect("a segment"))
}

/// Drops the pages of a file from the page cache. Only pages that are on the disk can be dropped.
fn drop_pages(file: &File) {
    file.sync_all().expect("synced");
    // SAFETY: an open file.
    let status = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(status, 0, "dropping the pages of a file");
}
