//! Other Arrow readers that pause between any two of their reads, beside a writer that publishes as often as it may: in
//! simulated time, with the constants that are real.
#![cfg(unix)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, Schema};
use arrowwood::simulate::simulate_elapsed;
use arrowwood::{SyncPolicy, Writer, WriterOptions};
use tempfile::TempDir;

use crate::tables::folder_in_memory;

/// The interval at which a writer that never rests publishes, and how long a reader may pause.
const INTERVAL: Duration = Duration::from_micros(15_640);
const PAUSE: Duration = Duration::from_secs(60);

/// The value of column `column` in row `row`: a number, or one of a dictionary that grows with the rows.
fn number(column: usize, row: usize) -> i64 {
    (1000 * row + column) as i64
}

fn text(column: usize, row: usize) -> String {
    format!("{column}: {}", row - row % 7)
}

/// A table of `columns` columns beside which readers pause, and its writer.
struct Busy {
    _folder: TempDir,
    path: PathBuf,
    columns: usize,
    has_text: bool,
    writer: Writer,
    rows: usize,
    /// The footers that were published.
    published: usize,
    tail: File,
    length: u32,
}

impl Busy {
    fn new(columns: usize, has_text: bool) -> Busy {
        let folder = folder_in_memory();
        let table = folder.path().join("ticks");
        let data_type = if has_text { DataType::Utf8 } else { DataType::Int64 };
        let names = (0..columns).map(|column| format!("column {column}"));
        let fields: Vec<_> = names.clone().map(|name| Field::new(name, data_type.clone(), true)).collect();
        let dictionary = if has_text { names.collect() } else { Vec::new() };
        // A reader takes all bytes from the first column to the last, and a hundred columns are far apart.
        let segment_rows = (columns > 10).then_some(1 << 16);
        let options = WriterOptions { dictionary, segment_rows, sync: SyncPolicy::Never, ..WriterOptions::default() };
        let writer = Writer::open(&table, Some(Arc::new(Schema::new(fields))), &options).unwrap();
        let path = table.join(format!("{:020}.arrow", 0));
        let tail = File::open(&path).unwrap();
        Busy { _folder: folder, path, columns, has_text, writer, rows: 0, published: 0, tail, length: 0 }
    }

    fn batch(&self) -> RecordBatch {
        let column = |column: usize| -> (String, ArrayRef) {
            let values: ArrayRef = if self.has_text {
                Arc::new(StringArray::from(vec![text(column, self.rows)]))
            } else {
                Arc::new(Int64Array::from(vec![number(column, self.rows)]))
            };
            (format!("column {column}"), values)
        };
        let columns = (0..self.columns).map(column).map(|(name, values)| (name, values, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    fn commit(&mut self) {
        self.writer.append(&self.batch()).unwrap();
        self.writer.commit().unwrap();
        self.rows += 1;
        let mut length = [0; 4];
        self.tail.read_exact_at(&mut length, self.tail.metadata().unwrap().len() - 10).unwrap();
        let length = u32::from_le_bytes(length);
        self.published += usize::from(length != self.length);
        self.length = length;
    }

    /// Writes for so long, in simulated time: at once as much as a writer may that has slept, then as often as it may.
    fn write_for(&mut self, time: Duration) {
        let before = (self.published, self.rows, Instant::now());
        // The commits take some time, too.
        let mut simulated = Duration::ZERO;
        while simulated + before.2.elapsed() < time {
            simulate_elapsed(INTERVAL);
            simulated += INTERVAL;
            self.commit();
        }
        let (published, commits) = (self.published - before.0, self.rows - before.1);
        let least = if self.columns <= 10 { commits * 9 / 10 } else { commits / 10 };
        assert!(published >= least, "{published} footers in {commits} commits");
    }

    /// The rows of a reader of arrow-rs that does `pause` before read `number`; `None` if it has fewer reads.
    fn read(&mut self, number: usize, pause: impl FnMut(&mut Busy)) -> Option<Result<Vec<RecordBatch>, String>> {
        let path = self.path.clone();
        let file = File::open(&path).unwrap();
        let mut reads = 0;
        let mut was_there = false;
        let mut pause = pause;
        let paused = Paused(file, |_: &mut File| {
            if reads == number {
                was_there = true;
                pause(self);
            }
            reads += 1;
        });
        let read = || {
            let batches = FileReader::try_new(paused, None).map_err(|e| e.to_string())?;
            batches.map(|batch| batch.map_err(|e| e.to_string())).collect::<Result<Vec<_>, _>>()
        };
        // It may panic at bytes that are none of its, as this one does.
        let read = std::panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("it panicked".into()));
        was_there.then_some(read)
    }

    /// Checks every value, and returns the number of rows.
    fn check(&self, batches: &[RecordBatch]) -> usize {
        assert_eq!(batches.len(), 1);
        let batch = &batches[0];
        assert_eq!(batch.num_columns(), self.columns);
        for (number_of, column) in batch.columns().iter().enumerate() {
            assert_eq!((column.len(), column.null_count()), (batch.num_rows(), 0));
            if !self.has_text {
                let values = column.as_primitive::<Int64Type>();
                (0..values.len()).for_each(|row| assert_eq!(values.value(row), number(number_of, row)));
                continue;
            }
            let column = column.as_any_dictionary();
            let (keys, values) = (column.normalized_keys(), column.values().as_string::<i32>());
            keys.iter().enumerate().for_each(|(row, &key)| assert_eq!(values.value(key), text(number_of, row)));
        }
        batch.num_rows()
    }
}

/// Does something before each read.
struct Paused<F>(File, F);

impl<F: FnMut(&mut File)> Read for Paused<F> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        (self.1)(&mut self.0);
        self.0.read(into)
    }
}

impl<F> Seek for Paused<F> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

/// More dictionaries would take gigabytes: arrow-rs keeps all bytes from a message to its values for each of them.
const SHAPES: [(usize, bool); 6] = [(1, false), (10, false), (100, false), (1, true), (10, true), (20, true)];

/// Which reads a reader pauses at: of many, the first ones and some others.
fn pauses(columns: usize) -> Vec<usize> {
    match columns {
        1 => (0..8).collect(),
        20 | 100 => vec![1, 2, 21],
        _ => vec![0, 1, 2, 3, 2 * columns],
    }
}

#[test]
fn a_reader_may_pause_for_a_minute_at_any_of_its_reads() {
    alone!();
    for (columns, has_text) in SHAPES {
        let mut busy = Busy::new(columns, has_text);
        busy.write_for(if columns > 10 { PAUSE / 20 } else { PAUSE });
        let mut paused = 0;
        for number in pauses(columns) {
            let before = busy.rows;
            let read = busy.read(number, |busy| busy.write_for(PAUSE - Duration::from_millis(500)));
            let Some(read) = read else { continue };
            let batches =
                read.unwrap_or_else(|e| panic!("{columns} columns, {has_text}, paused at read {number}: {e}"));
            let rows = busy.check(&batches);
            assert!(rows + 64 >= before && rows <= busy.rows, "{rows} rows of {before}, then {}", busy.rows);
            paused += 1;
        }
        assert!(paused >= 2, "{columns} columns, {has_text}: {paused} reads");
    }
}

#[test]
fn a_reader_that_pauses_for_longer_gets_an_error_or_the_right_rows() {
    alone!();
    // A panic of the reader is one of its errors here.
    std::panic::set_hook(Box::new(|_| ()));
    let mut errors = 0;
    for (columns, has_text) in [(1, false), (1, true), (3, true)] {
        let mut busy = Busy::new(columns, has_text);
        // In some of these times all messages are written over several times.
        for times in [1u32, 2, 4] {
            for number in pauses(columns).into_iter().filter(|&number| number < 8) {
                let read = busy.read(number, |busy| busy.write_for(PAUSE * times + INTERVAL * 300 * times));
                match read {
                    Some(Ok(batches)) => drop(busy.check(&batches)),
                    Some(Err(_)) => errors += 1,
                    None => (),
                }
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(errors > 5, "{errors} errors: these readers were not late");
}

/// The same with a clock that is real: `ARROWWOOD_PAUSES=minute`, and a writer that commits as fast as it can.
#[test]
fn a_reader_may_really_pause_for_a_minute() {
    alone!();
    if std::env::var_os("ARROWWOOD_PAUSES").is_none() {
        return;
    }
    for (columns, has_text) in SHAPES {
        let mut busy = Busy::new(columns, has_text);
        let write_for = |busy: &mut Busy, time: Duration| {
            let start = Instant::now();
            while start.elapsed() < time {
                busy.commit();
            }
        };
        write_for(&mut busy, Duration::from_secs(10));
        let mut paused = 0;
        for number in pauses(columns).into_iter().filter(|number| *number != 0) {
            let Some(read) = busy.read(number, |busy| write_for(busy, PAUSE - Duration::from_millis(500))) else {
                continue;
            };
            let batches =
                read.unwrap_or_else(|e| panic!("{columns} columns, {has_text}, paused at read {number}: {e}"));
            busy.check(&batches);
            paused += 1;
        }
        println!("{columns} columns, dictionaries: {has_text}: {paused} pauses of a minute");
    }
}

/// Blocks of a file that are not in a hole, in bytes.
fn blocks(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    path.metadata().unwrap().blocks() * 512
}

/// Footers for other readers take the space of those that are in use.
#[test]
fn space_of_footers_is_bounded_and_given_back() {
    alone!();
    let mut busy = Busy::new(1, false);
    let at_first = blocks(&busy.path);
    busy.commit();
    busy.write_for(Duration::from_secs(1));
    let of_a_second = blocks(&busy.path);
    busy.write_for(2 * PAUSE);
    let of_minutes = blocks(&busy.path);
    busy.write_for(4 * PAUSE);
    let of_more = blocks(&busy.path);
    assert!(at_first < 200 << 10 && of_a_second < at_first + (200 << 10), "{at_first}, {of_a_second}");
    // Its rows take some of that.
    assert!(of_minutes < 3 << 20 && of_more < of_minutes + (1 << 20), "{of_minutes}, {of_more}");
    // In a minute, one footer each second.
    for _ in 0..3 * PAUSE.as_secs() {
        simulate_elapsed(Duration::from_secs(1));
        busy.commit();
    }
    let quiet = blocks(&busy.path);
    assert!(quiet < of_more, "{quiet}, {of_more}");
    simulate_elapsed(2 * PAUSE);
    let path = busy.path.clone();
    busy.writer.close().unwrap();
    assert!(blocks(&path) < quiet, "{}, {quiet}", blocks(&path));
}
