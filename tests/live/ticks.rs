//! A table whose values follow from row numbers, and the writer and readers that test it.
//!
//! Row `i` has the same values here as in `rows.py`, so that processes in both languages can check each other.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrowwood::{Dataset, ErrorKind, LatePolicy, SyncPolicy, Value, Writer, WriterOptions, col, follow, open};

use crate::dice::Dice;
use crate::wait::{wait_for, wait_until};

/// Symbols, texts and lists repeat after this many rows.
const PERIOD: u64 = 1 << 14;
/// The time of row 0, in microseconds.
const START_TIME_US: i64 = 1_700_000_000_000_000;
/// A late row has the time of a row that came at most this many rows before.
const MAX_LATE_ROWS: u64 = 3000;
/// A compacting writer that is this many rows ahead of a reader waits for it.
const MAX_ROWS_AHEAD: u64 = 8 << 20;
/// Rows per symbol, one after the other.
const ROWS_PER_SYMBOL: u64 = 16;

/// The layout of a table, and how it is written.
#[derive(Clone, Copy)]
pub struct Shape {
    pub segment_rows: u64,
    /// True if there is a column of lists. Rows are appended in batches then, never one by one.
    pub lists: bool,
    /// If set, the writer compacts, and drops rows before the last `keep`.
    pub keep: Option<u64>,
    /// True if one of a hundred rows is late, and rows have zones.
    pub late: bool,
}

pub fn schema(shape: Shape) -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("row", DataType::Int64, false),
        Field::new("ts", timestamp, false),
        Field::new("symbol", DataType::Utf8, false),
        Field::new("price", DataType::Float64, true),
        Field::new("text", DataType::Utf8, true),
    ];
    if shape.lists {
        fields.push(Field::new("list", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), true));
    }
    Arc::new(Schema::new(fields))
}

/// Returns the time of row `i` if it is not late.
fn time_in_order(i: u64) -> i64 {
    START_TIME_US + (i / 3 * 10) as i64
}

/// Returns the number of the symbol of row `i`.
fn symbol_number(i: u64) -> u64 {
    i % PERIOD / ROWS_PER_SYMBOL
}

fn symbol(i: u64) -> String {
    format!("S{}", symbol_number(i))
}

fn price(i: u64) -> Option<f64> {
    (i % 10 != 3).then_some(i as f64 * 0.25)
}

fn text(i: u64) -> Option<String> {
    let i = i % PERIOD;
    (i % 13 != 5).then(|| format!("{i:x}").repeat(i as usize % 4))
}

fn list_items(i: u64) -> Option<impl Iterator<Item = i32>> {
    let i = i % PERIOD;
    (i % 17 != 3).then(|| (0..i % 5).map(move |k| (i + k) as i32))
}

fn timestamp(time_us: i64) -> Value<'static> {
    Value::Timestamp(time_us, TimeUnit::Microsecond, Some("UTC"))
}

/// Creates and checks rows. Values that repeat are computed once.
pub struct Rows {
    symbols: Vec<String>,
    texts: Vec<Option<String>>,
    is_late: bool,
}

impl Rows {
    pub fn new() -> Rows {
        let symbols = (0..PERIOD).map(symbol).collect();
        Rows { symbols, texts: (0..PERIOD).map(text).collect(), is_late: false }
    }

    /// Returns the rows of a table, some of which are late if it accepts late rows.
    pub fn of(dataset: &Dataset) -> Rows {
        Rows { is_late: dataset.late_by().is_some(), ..Rows::new() }
    }

    fn time(&self, i: u64) -> i64 {
        if self.is_late && i % 100 == 77 {
            time_in_order(i.saturating_sub(i * 7919 % MAX_LATE_ROWS))
        } else {
            time_in_order(i)
        }
    }

    fn symbol(&self, i: u64) -> &str {
        &self.symbols[(i % PERIOD) as usize]
    }

    fn text(&self, i: u64) -> Option<&str> {
        self.texts[(i % PERIOD) as usize].as_deref()
    }

    /// Returns the rows `start .. start + count`.
    pub fn batch(&self, schema: &SchemaRef, start: u64, count: u64) -> RecordBatch {
        let rows = start..start + count;
        let times = TimestampMicrosecondArray::from_iter_values(rows.clone().map(|i| self.time(i)));
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|i| i as i64))),
            Arc::new(times.with_timezone("UTC")),
            Arc::new(StringArray::from_iter_values(rows.clone().map(|i| self.symbol(i)))),
            Arc::new(Float64Array::from_iter(rows.clone().map(price))),
            Arc::new(StringArray::from_iter(rows.clone().map(|i| self.text(i)))),
        ];
        if schema.fields().len() > columns.len() {
            let lists = rows.map(|i| list_items(i).map(|items| items.map(Some)));
            columns.push(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)));
        }
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    }

    fn values(&self, i: u64) -> [Value<'_>; 5] {
        [
            Value::Int(i as i64),
            timestamp(self.time(i)),
            Value::Str(self.symbol(i)),
            price(i).map_or(Value::Null, Value::Float64),
            self.text(i).map_or(Value::Null, Value::Str),
        ]
    }

    /// Asserts that `dataset` has the rows from `start` on.
    pub fn check(&self, dataset: &Dataset, start: u64) {
        let mut next = start;
        for batch in dataset.to_record_batches() {
            let batch = batch.unwrap();
            self.check_batch(&batch, next);
            next += batch.num_rows() as u64;
        }
        assert_eq!(next - start, dataset.len().unwrap());
    }

    /// Asserts that `batch` has the rows from `start` on.
    pub fn check_batch(&self, batch: &RecordBatch, start: u64) {
        let rows = batch.column(0).as_primitive::<Int64Type>();
        let times = batch.column(1).as_primitive::<TimestampMicrosecondType>();
        let symbols = batch.column(2).as_dictionary::<Int32Type>();
        let (keys, names) = (symbols.keys(), symbols.values().as_string::<i32>());
        let prices = batch.column(3).as_primitive::<Float64Type>();
        let texts = batch.column(4).as_string::<i32>();
        let lists = batch.columns().get(5).map(|column| column.as_list::<i32>());
        for (index, i) in (0..batch.num_rows()).zip(start..) {
            assert_eq!(rows.value(index), i as i64, "row");
            assert_eq!(times.value(index), self.time(i), "ts of row {i}");
            assert_eq!(names.value(keys.value(index) as usize), self.symbol(i), "symbol of row {i}");
            assert_eq!(prices.is_valid(index).then(|| prices.value(index)), price(i), "price of row {i}");
            assert_eq!(texts.is_valid(index).then(|| texts.value(index)), self.text(i), "text of row {i}");
            if let Some(lists) = lists {
                let expected: Option<Vec<i32>> = list_items(i).map(Iterator::collect);
                let actual =
                    lists.is_valid(index).then(|| lists.value(index).as_primitive::<Int32Type>().values().to_vec());
                assert_eq!(actual, expected, "list of row {i}");
            }
        }
        for null_count in [rows.null_count(), times.null_count(), symbols.null_count()] {
            assert_eq!(null_count, 0);
        }
    }
}

/// A file of words beside the table, through which the processes share their progress.
pub struct Journal(File);

impl Journal {
    /// The number of rows after the commit that the writer tries.
    pub const INTENDED: u64 = 0;
    /// The number of rows after the last acknowledged commit.
    pub const COMMITTED: u64 = 1;
    /// The first of the readers' words: the next row that each needs, or `u64::MAX` once it has ended.
    pub const READERS: u64 = 2;
    pub const WORDS: u64 = 18;

    pub fn open(path: &Path) -> Journal {
        Journal(OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap())
    }

    pub fn note(&self, word: u64, value: u64) {
        self.0.write_all_at(&value.to_le_bytes(), 8 * word).unwrap();
    }

    pub fn read(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 8 * word).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Returns the first row that some reader needs.
    pub fn slowest(&self) -> u64 {
        (Journal::READERS..Journal::WORDS).map(|word| self.read(word)).min().unwrap()
    }
}

/// The work that a process has done.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of commits or reads.
    pub looks: u64,
    pub rows: u64,
}

pub fn options(shape: Shape) -> WriterOptions {
    WriterOptions {
        sync: SyncPolicy::Every(Duration::from_millis(500)),
        segment_rows: Some(shape.segment_rows),
        dictionary: vec!["symbol".into()],
        sorted_by: Some("ts".into()),
        late: shape.late.then_some(LatePolicy::Accept),
        index: shape.late.then(|| vec!["row".into(), "symbol".into()]),
        zone_rows: Some(100),
        ..WriterOptions::default()
    }
}

/// Commits single rows and batches of random sizes at full speed. Calls `opened` with the number of rows at the start.
pub fn write(
    folder: &Path,
    shape: Shape,
    journal: &Journal,
    seed: u64,
    time: Duration,
    opened: impl FnOnce(u64),
) -> Report {
    const COMPACTION_INTERVAL: Duration = Duration::from_millis(300);
    let rows = Rows { is_late: shape.late, ..Rows::new() };
    let schema = schema(shape);
    let deadline = Instant::now() + time;
    let mut writer = Writer::open(folder, Some(schema.clone()), &options(shape)).unwrap();
    opened(writer.rows());
    let mut dice = Dice::new(seed);
    let mut next = writer.rows();
    let mut report = Report::default();
    let mut last_compaction = Instant::now();
    while Instant::now() < deadline {
        let (commits, max_rows) = match dice.below(8) {
            0 => (1, 3 * shape.segment_rows.min(2000)),
            1..4 => (20, 40),
            _ => (200, 1),
        };
        for _ in 0..commits {
            let count = 1 + dice.below(max_rows);
            if count == 1 && !shape.lists {
                writer.append_row(&rows.values(next)).unwrap();
            } else {
                writer.append(&rows.batch(&schema, next, count)).unwrap();
            }
            if dice.below(50) == 0 {
                writer.rollback();
                continue;
            }
            next += count;
            journal.note(Journal::INTENDED, next);
            writer.commit().unwrap();
            journal.note(Journal::COMMITTED, next);
            report.looks += 1;
            report.rows += count;
        }
        if let Some(keep) = shape.keep
            && last_compaction.elapsed() > COMPACTION_INTERVAL
        {
            writer.compact(|_, _| ()).unwrap();
            writer.drop_before(next.saturating_sub(keep).min(journal.slowest())).unwrap();
            wait_until("readers that come after", || journal.slowest() >= next.saturating_sub(MAX_ROWS_AHEAD));
            last_compaction = Instant::now();
        }
    }
    writer.close().unwrap();
    report
}

/// Opens the table as soon as it exists.
fn open_when_created(folder: &Path) -> Dataset {
    wait_for("a table", || match open(folder) {
        Ok(dataset) => Some(dataset),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        // The folder is created before its first segment.
        Err(_) if std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_none()) => None,
        Err(e) => panic!("{e}"),
    })
}

/// The way in which a reader gets new rows.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    Refresh,
    Open,
}

/// Looks for new rows repeatedly, and checks each of them once.
pub fn read(folder: &Path, journal: &Journal, number: u64, way: Way, time: Duration) -> Report {
    let deadline = Instant::now() + time;
    let mut dataset = open_when_created(folder);
    let rows = Rows::of(&dataset);
    let (mut next, mut first) = (0, 0);
    let mut report = Report::default();
    while Instant::now() < deadline {
        let committed = journal.read(Journal::COMMITTED);
        dataset = if way == Way::Open { open_when_created(folder) } else { dataset.refresh().unwrap() };
        let start = dataset.first_row();
        let end = start + dataset.len().unwrap();
        assert!(start >= first && start <= next, "begins with row {start} after {first}, and {next} were read");
        assert!(end >= next, "{end} rows after {next}");
        assert!(end >= committed, "{end} rows, and {committed} were committed before");
        if end > next {
            rows.check(&dataset.slice(next - start, end - next).unwrap(), next);
            report.rows += end - next;
        }
        (first, next) = (start, end);
        report.looks += 1;
        journal.note(Journal::READERS + number, next);
    }
    journal.note(Journal::READERS + number, u64::MAX);
    report
}

/// Follows the table, and checks that every row comes once.
pub fn tail(folder: &Path, journal: &Journal, number: u64, time: Duration) -> Report {
    const POLL_TIMEOUT: Duration = Duration::from_millis(700);
    let deadline = Instant::now() + time;
    let table = open_when_created(folder);
    let rows = Rows::of(&table);
    let mut follower = follow(&table, Some(0), None).unwrap();
    let mut next = 0;
    let mut report = Report::default();
    while let Some(time_left) = deadline.checked_duration_since(Instant::now()) {
        let committed = journal.read(Journal::COMMITTED);
        let Some(new_rows) = follower.poll(time_left.min(POLL_TIMEOUT)).unwrap() else {
            assert!(committed <= next, "nothing new came after row {next}, and {committed} were committed");
            continue;
        };
        assert_eq!(new_rows.first_row(), next);
        rows.check(&new_rows, next);
        next += new_rows.len().unwrap();
        assert_eq!(follower.next_row(), next);
        report = Report { looks: report.looks + 1, rows: next };
        journal.note(Journal::READERS + number, next);
    }
    journal.note(Journal::READERS + number, u64::MAX);
    report
}

/// A part of the table that a reader keeps.
struct HeldRows {
    start: u64,
    len: u64,
    dataset: Dataset,
}

/// Keeps datasets from the first third of its time, and checks at the end that they have not changed.
pub fn hold(folder: &Path, journal: &Journal, number: u64, time: Duration) -> Report {
    /// The first datasets are kept as a whole, later ones only their last rows.
    const WHOLE_DATASETS: usize = 10;
    const MAX_HELD_ROWS: u64 = 50_000;
    let start_time = Instant::now();
    let mut dataset = open_when_created(folder);
    let rows = Rows::of(&dataset);
    let mut held: Vec<HeldRows> = Vec::new();
    while start_time.elapsed() < time {
        // Spreads the datasets over many moments.
        std::thread::sleep(time / 200);
        dataset = dataset.refresh().unwrap();
        let (first_row, len) = (dataset.first_row(), dataset.len().unwrap());
        if start_time.elapsed() < time / 3 {
            let skipped = if held.len() < WHOLE_DATASETS { 0 } else { len.saturating_sub(MAX_HELD_ROWS) };
            let part = dataset.slice(skipped, len - skipped).unwrap();
            rows.check(&part, first_row + skipped);
            held.push(HeldRows { start: first_row + skipped, len: len - skipped, dataset: part });
        }
        journal.note(Journal::READERS + number, first_row + len);
    }
    journal.note(Journal::READERS + number, u64::MAX);
    let mut report = Report::default();
    for HeldRows { start, len, dataset } in &held {
        assert_eq!(dataset.len().unwrap(), *len);
        rows.check(dataset, *start);
        dataset.validate(|_, _| ()).unwrap();
        report = Report { looks: report.looks + 1, rows: report.rows + len };
    }
    report
}

/// Filters each commit that it sees by columns with zones, and compares the result with the values of all rows.
pub fn find(folder: &Path, journal: &Journal, number: u64, time: Duration) -> Report {
    const RETAINED_ROWS: u64 = 200_000;
    let deadline = Instant::now() + time;
    let mut dice = Dice::new(number);
    let mut report = Report::default();
    let mut dataset = open_when_created(folder);
    let rows = Rows::of(&dataset);
    // Tells the writer that rows from this one on must not be dropped.
    let mut retained_from = 0;
    while Instant::now() < deadline {
        dataset = if dice.below(4) == 0 { open_when_created(folder) } else { dataset.refresh().unwrap() };
        let end = dataset.first_row() + dataset.len().unwrap();
        let start = dataset.first_row().max(retained_from);
        let len = end - start;
        if len == 0 {
            continue;
        }
        let dataset = dataset.tail(len).unwrap();
        let middle = start + dice.below(len);
        let (min_time, max_time) = (rows.time(middle), rows.time(middle) + 10 * dice.below(200) as i64);
        let (min_row, max_row) = (middle.saturating_sub(dice.below(300)), middle + dice.below(300));
        let symbol = symbol_number(middle);
        let has_time = |i: u64| (min_time..=max_time).contains(&rows.time(i));
        let has_row = |i: u64| (min_row..=max_row).contains(&i);
        let has_symbol = |i: u64| symbol_number(i) == symbol;
        let by_time = col("ts").ge(timestamp(min_time)) & col("ts").le(timestamp(max_time));
        let by_row = col("row").ge(min_row as i64) & col("row").le(max_row as i64);
        let by_symbol = col("symbol").eq(rows.symbol(middle));
        let (found, is_expected): (_, &dyn Fn(u64) -> bool) = match dice.below(5) {
            0 => (dataset.between(&timestamp(min_time), &timestamp(max_time)), &has_time),
            1 => (dataset.filter(&by_time), &has_time),
            2 => (dataset.filter(&by_symbol), &has_symbol),
            3 => (dataset.filter(&(by_time & !by_symbol)), &|i| has_time(i) && !has_symbol(i)),
            _ => (dataset.filter(&(by_row | by_time)), &|i| has_row(i) || has_time(i)),
        };
        let mut expected = (start..end).filter(|&i| is_expected(i));
        for batch in found.unwrap().to_record_batches() {
            let batch = batch.unwrap();
            for index in 0..batch.num_rows() {
                let i = expected.next().expect("no more rows than there are");
                rows.check_batch(&batch.slice(index, 1), i);
            }
        }
        assert_eq!(expected.next(), None, "a row of {start} .. {end} was not found");
        retained_from = retained_from.max(end.saturating_sub(RETAINED_ROWS));
        journal.note(Journal::READERS + number, retained_from);
        report = Report { looks: report.looks + 1, rows: report.rows + len };
    }
    journal.note(Journal::READERS + number, u64::MAX);
    report
}
