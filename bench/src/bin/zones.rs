//! What is read to find rows: of a day of rows, a hundredth of which are late by up to a minute, a thousandth by its time, and
//! as many by a number and by texts that come in runs, in the order of the text and in another; with zones of several sizes,
//! and without any.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin zones -- FOLDER [MILLIONS]
//! ```
//! `FOLDER` is where tables are made and removed, `MILLIONS` of rows, 56 by default. The files' pages are dropped before each
//! question, and those that are in memory afterwards were read, with what the system reads ahead. Answers are checked.

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

/// A second in the unit of the times.
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// How many runs the text and the number come in: each is a thousandth of the rows.
const RUNS: i64 = 1000;

const BATCH: i64 = 1 << 16;

fn millions(text: &str) -> i64 {
    text.parse::<i64>().expect("a number of millions") * 1_000_000
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder] => run(Path::new(folder), 56_000_000),
        [folder, count] => run(Path::new(folder), millions(count)),
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
        let table = Table::made(&root.join("day"), rows, zone_rows);
        for question in questions(rows) {
            let (read, found) = table.read_by(&question);
            assert_eq!(found, question.rows, "{}", question.name);
            let share = 100.0 * read as f64 / table.bytes as f64;
            let zones = zone_rows.map_or("no zones".into(), |rows| format!("zones of {} Ki", rows >> 10));
            let name = format!("{}, {zones}", question.name);
            println!("{name:34}{:>12}{share:>8.2}%{found:>10}{:>9.1}", read >> 10, table.time_of(&question));
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

/// The time of a row: they arrive evenly, and every hundredth is up to a minute late.
fn time(row: i64, rows: i64) -> i64 {
    let arrival = (i128::from(row) * i128::from(DAY) / i128::from(rows)) as i64;
    let late = if row % 100 == 99 { row.wrapping_mul(0x9e37_79b9) % (60 * SECOND) } else { 0 };
    (arrival - late).max(0)
}

fn run_of(row: i64, rows: i64) -> i64 {
    (i128::from(row) * i128::from(RUNS) / i128::from(rows)) as i64
}

/// Names that sort in another order than that in which they come.
fn host(run: i64) -> String {
    format!("host-{:03}", run * 379 % RUNS)
}

/// Names that sort in the order in which they come.
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

// ---- the questions ----

struct Question {
    name: &'static str,
    condition: Predicate,
    /// The rows that it has, counted one by one.
    rows: u64,
}

fn questions(rows: i64) -> [Question; 4] {
    let from = DAY / 2;
    let to = from + DAY / 1000;
    let at = |time: i64| Value::Timestamp(time, TimeUnit::Microsecond, None);
    let count = |holds: &dyn Fn(i64) -> bool| (0..rows).filter(|&row| holds(row)).count() as u64;
    let wanted = RUNS / 3;
    let of_run = count(&|row| run_of(row, rows) == wanted);
    [
        Question {
            name: "0.1 % by time",
            condition: col("ts").ge(at(from)) & col("ts").lt(at(to)),
            rows: count(&|row| (from..to).contains(&time(row, rows))),
        },
        Question { name: "0.1 % by text", condition: col("shift").eq(shift(wanted).as_str()), rows: of_run },
        Question { name: "by unordered text", condition: col("host").eq(host(wanted).as_str()), rows: of_run },
        Question { name: "0.1 % by integer", condition: col("job").eq(wanted), rows: of_run },
    ]
}

// ---- the table ----

struct Table {
    path: PathBuf,
    /// What its files take on the disk.
    bytes: u64,
}

impl Table {
    /// A table of `rows` rows with zones of so many rows, or without any.
    fn made(path: &Path, rows: i64, zone_rows: Option<u32>) -> Table {
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

    /// The bytes that the answer reads, and its rows.
    fn read_by(&self, question: &Question) -> (u64, u64) {
        files(&self.path).for_each(|file| drop_pages(&file));
        let left = self.pages_in_memory();
        assert!(left == 0, "{left} bytes are in memory still: FOLDER is to be on a disk");
        let rows = self.answer(question);
        (self.pages_in_memory(), rows)
    }

    fn answer(&self, question: &Question) -> u64 {
        let rows = open(&self.path).expect("the table").filter(&question.condition).expect("rows");
        rows.len().expect("their number")
    }

    /// Milliseconds of an answer, with all that it reads in memory.
    fn time_of(&self, question: &Question) -> f64 {
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            self.answer(question);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        median(&mut times)
    }

    /// The bytes of the files that are in the page cache.
    fn pages_in_memory(&self) -> u64 {
        let paths = std::fs::read_dir(&self.path).expect("the table").map(|entry| entry.expect("a file").path());
        paths.map(|path| BareMapping::new(&path).resident()).sum()
    }
}

fn files(path: &Path) -> impl Iterator<Item = File> {
    let entries = std::fs::read_dir(path).expect("the table");
    entries.map(|entry| File::open(entry.expect("an entry").path()).expect("a segment"))
}

/// Has the system forget the pages of a file, which must be on the disk for that.
fn drop_pages(file: &File) {
    file.sync_all().expect("synced");
    // SAFETY: an open file.
    let refused = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(refused, 0, "dropping the pages of a file");
}
