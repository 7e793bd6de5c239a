//! Tests that other Arrow readers may pause between any two reads while a writer publishes new footers as often as it
//! may.
//!
//! Time is simulated, with the real constants.
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

/// The shortest interval at which a writer publishes footers.
const PUBLISH_INTERVAL: Duration = Duration::from_micros(15_640);
/// The longest pause of a reader that is guaranteed to succeed.
const PAUSE: Duration = Duration::from_secs(60);

/// The position of the footer's length in an Arrow file, in bytes from the end.
const FOOTER_LEN_FROM_END: u64 = 10;

/// Returns the value of a cell in a column of numbers.
fn number(column: usize, row: usize) -> i64 {
    (1000 * row + column) as i64
}

/// Returns the value of a cell in a dictionary column: there is a new value every seventh row.
fn text(column: usize, row: usize) -> String {
    format!("{column}: {}", row - row % 7)
}

/// A table that is written while readers pause, and its writer.
struct BusyTable {
    _folder: TempDir,
    path: PathBuf,
    columns: usize,
    has_text: bool,
    writer: Writer,
    rows: usize,
    /// The number of footers that were published.
    published: usize,
    file: File,
    footer_len: u32,
}

impl BusyTable {
    fn new(columns: usize, has_text: bool) -> BusyTable {
        let folder = folder_in_memory();
        let table = folder.path().join("ticks");
        let data_type = if has_text { DataType::Utf8 } else { DataType::Int64 };
        let names = (0..columns).map(|column| format!("column {column}"));
        let fields: Vec<_> = names.clone().map(|name| Field::new(name, data_type.clone(), true)).collect();
        let dictionary = if has_text { names.collect() } else { Vec::new() };
        // A reader reads all bytes from the first column to the last, so many columns need small segments.
        let segment_rows = (columns > 10).then_some(1 << 16);
        let options = WriterOptions { dictionary, segment_rows, sync: SyncPolicy::Never, ..WriterOptions::default() };
        let writer = Writer::open(&table, Some(Arc::new(Schema::new(fields))), &options).unwrap();
        let path = table.join(format!("{:020}.arrow", 0));
        let file = File::open(&path).unwrap();
        BusyTable { _folder: folder, path, columns, has_text, writer, rows: 0, published: 0, file, footer_len: 0 }
    }

    fn column(&self, column: usize) -> ArrayRef {
        if self.has_text {
            Arc::new(StringArray::from(vec![text(column, self.rows)]))
        } else {
            Arc::new(Int64Array::from(vec![number(column, self.rows)]))
        }
    }

    /// Commits one row, and counts a footer if one was published.
    fn commit(&mut self) {
        let columns = (0..self.columns).map(|column| (format!("column {column}"), self.column(column), true));
        self.writer.append(&RecordBatch::try_from_iter_with_nullable(columns).unwrap()).unwrap();
        self.writer.commit().unwrap();
        self.rows += 1;
        let mut footer_len = [0; 4];
        let position = self.file.metadata().unwrap().len() - FOOTER_LEN_FROM_END;
        self.file.read_exact_at(&mut footer_len, position).unwrap();
        let footer_len = u32::from_le_bytes(footer_len);
        self.published += usize::from(footer_len != self.footer_len);
        self.footer_len = footer_len;
    }

    /// Commits for a simulated time: in a burst first, as a writer may after a pause, then as often as it may publish.
    fn write_for(&mut self, time: Duration) {
        let published_before = self.published;
        let rows_before = self.rows;
        let start = Instant::now();
        let mut simulated = Duration::ZERO;
        // The real time of the commits counts, too.
        while simulated + start.elapsed() < time {
            simulate_elapsed(PUBLISH_INTERVAL);
            simulated += PUBLISH_INTERVAL;
            self.commit();
        }
        let published = self.published - published_before;
        let commits = self.rows - rows_before;
        let min_published = if self.columns <= 10 { commits * 9 / 10 } else { commits / 10 };
        assert!(published >= min_published, "{published} footers in {commits} commits");
    }

    /// Commits for a real time, as fast as possible.
    fn write_for_real(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.commit();
        }
    }

    /// Reads the file with arrow-rs, and calls `pause` before the read `number`; returns `None` if there are fewer
    /// reads.
    fn read(
        &mut self,
        number: usize,
        mut pause: impl FnMut(&mut BusyTable),
    ) -> Option<Result<Vec<RecordBatch>, String>> {
        let file = File::open(&self.path).unwrap();
        let mut reads = 0;
        let mut has_paused = false;
        let file = PausingFile {
            file,
            before_read: || {
                if reads == number {
                    has_paused = true;
                    pause(self);
                }
                reads += 1;
            },
        };
        // arrow-rs may panic when it reads bytes that were overwritten.
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let batches = FileReader::try_new(file, None).map_err(|e| e.to_string())?;
            batches.map(|batch| batch.map_err(|e| e.to_string())).collect()
        }));
        let result = result.unwrap_or_else(|_| Err("it panicked".into()));
        has_paused.then_some(result)
    }

    /// Checks every value, and returns the number of rows.
    fn check_batches(&self, batches: &[RecordBatch]) -> usize {
        assert_eq!(batches.len(), 1);
        let batch = &batches[0];
        assert_eq!(batch.num_columns(), self.columns);
        for (column, array) in batch.columns().iter().enumerate() {
            assert_eq!((array.len(), array.null_count()), (batch.num_rows(), 0));
            if self.has_text {
                let array = array.as_any_dictionary();
                let values = array.values().as_string::<i32>();
                for (row, key) in array.normalized_keys().into_iter().enumerate() {
                    assert_eq!(values.value(key), text(column, row));
                }
            } else {
                let values = array.as_primitive::<Int64Type>();
                for row in 0..values.len() {
                    assert_eq!(values.value(row), number(column, row));
                }
            }
        }
        batch.num_rows()
    }
}

/// A file that calls a function before each read.
struct PausingFile<F> {
    file: File,
    before_read: F,
}

impl<F: FnMut()> Read for PausingFile<F> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        (self.before_read)();
        self.file.read(into)
    }
}

impl<F> Seek for PausingFile<F> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.file.seek(to)
    }
}

/// The numbers of columns of the tables, and whether they are dictionaries.
///
/// More dictionaries would take gigabytes: arrow-rs keeps the whole message of each dictionary in memory.
const SHAPES: [(usize, bool); 6] = [(1, false), (10, false), (100, false), (1, true), (10, true), (20, true)];

/// Returns the numbers of the reads that a reader pauses before: the first ones, and some later ones of many.
fn pauses(columns: usize) -> Vec<usize> {
    match columns {
        1 => (0..8).collect(),
        20 | 100 => vec![1, 2, 21],
        _ => vec![0, 1, 2, 3, 2 * columns],
    }
}

/// A little less than [`PAUSE`], for the time of the reads themselves.
const SAFE_PAUSE: Duration = Duration::from_millis(59_500);

#[test]
fn a_reader_may_pause_for_a_minute_at_any_of_its_reads() {
    alone!();
    for (columns, has_text) in SHAPES {
        let mut table = BusyTable::new(columns, has_text);
        table.write_for(if columns > 10 { PAUSE / 20 } else { PAUSE });
        let mut paused = 0;
        for number in pauses(columns) {
            let before = table.rows;
            let result = table.read(number, |table| table.write_for(SAFE_PAUSE));
            let Some(result) = result else { continue };
            let batches =
                result.unwrap_or_else(|e| panic!("{columns} columns, {has_text}, paused at read {number}: {e}"));
            let rows = table.check_batches(&batches);
            assert!(rows + 64 >= before && rows <= table.rows, "{rows} rows of {before}, then {}", table.rows);
            paused += 1;
        }
        assert!(paused >= 2, "{columns} columns, {has_text}: {paused} reads");
    }
}

#[test]
fn a_reader_that_pauses_for_longer_gets_an_error_or_the_right_rows() {
    alone!();
    // Panics of the reader count as errors, and aren't printed.
    std::panic::set_hook(Box::new(|_| ()));
    let mut errors = 0;
    for (columns, has_text) in [(1, false), (1, true), (3, true)] {
        let mut table = BusyTable::new(columns, has_text);
        // The longer pauses are enough to overwrite all messages several times.
        for factor in [1u32, 2, 4] {
            for number in pauses(columns).into_iter().filter(|&number| number < 8) {
                let pause = PAUSE * factor + PUBLISH_INTERVAL * 300 * factor;
                match table.read(number, |table| table.write_for(pause)) {
                    Some(Ok(batches)) => {
                        table.check_batches(&batches);
                    }
                    Some(Err(_)) => errors += 1,
                    None => (),
                }
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(errors > 5, "{errors} errors: these readers were not late");
}

/// Runs in real time, with a writer that commits as fast as it can, if `ARROWWOOD_PAUSES` is set.
#[test]
fn a_reader_may_really_pause_for_a_minute() {
    alone!();
    if std::env::var_os("ARROWWOOD_PAUSES").is_none() {
        return;
    }
    for (columns, has_text) in SHAPES {
        let mut table = BusyTable::new(columns, has_text);
        table.write_for_real(Duration::from_secs(10));
        let mut paused = 0;
        for number in pauses(columns).into_iter().filter(|number| *number != 0) {
            let Some(result) = table.read(number, |table| table.write_for_real(SAFE_PAUSE)) else { continue };
            let batches =
                result.unwrap_or_else(|e| panic!("{columns} columns, {has_text}, paused at read {number}: {e}"));
            table.check_batches(&batches);
            paused += 1;
        }
        println!("{columns} columns, dictionaries: {has_text}: {paused} pauses of a minute");
    }
}

/// Returns the disk space of a file in bytes, without holes.
fn disk_space(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    path.metadata().unwrap().blocks() * 512
}

/// The space for footers is bounded while they are published, and is released when fewer are needed.
#[test]
fn space_of_footers_is_bounded_and_released() {
    alone!();
    let mut table = BusyTable::new(1, false);
    let empty = disk_space(&table.path);
    table.commit();
    table.write_for(Duration::from_secs(1));
    let after_a_second = disk_space(&table.path);
    table.write_for(2 * PAUSE);
    let after_two_pauses = disk_space(&table.path);
    table.write_for(4 * PAUSE);
    let after_six_pauses = disk_space(&table.path);
    assert!(empty < 200 << 10 && after_a_second < empty + (200 << 10), "{empty}, {after_a_second}");
    // The growth between these includes the rows.
    assert!(after_two_pauses < 3 << 20, "{after_two_pauses}");
    assert!(after_six_pauses < after_two_pauses + (1 << 20), "{after_two_pauses}, {after_six_pauses}");

    // Publishing one footer each second needs less space.
    for _ in 0..3 * PAUSE.as_secs() {
        simulate_elapsed(Duration::from_secs(1));
        table.commit();
    }
    let when_quiet = disk_space(&table.path);
    // A system that can't release blocks uses those again that it has.
    let growth = if cfg!(arrowwood_portable) { 64 << 10 } else { 0 };
    assert!(when_quiet < after_six_pauses + growth, "{when_quiet}, {after_six_pauses}");

    // Closing the writer needs none.
    simulate_elapsed(2 * PAUSE);
    let path = table.path.clone();
    table.writer.close().unwrap();
    let closed = disk_space(&path);
    assert!(closed < when_quiet + growth, "{closed}, {when_quiet}");
}
