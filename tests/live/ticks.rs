//! A table whose row `i` is what `i` says, the same as in `rows.py`, and the processes that write and read it.

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

const PERIOD: u64 = 1 << 14;
const START: i64 = 1_700_000_000_000_000;
/// A late row has a time that rows had which came at most so many rows before.
const LATEST: u64 = 3000;
/// A writer that is so many rows ahead of a reader waits for it.
const AHEAD: u64 = 8 << 20;

/// What an instance of the table looks like.
#[derive(Clone, Copy)]
pub struct Shape {
    pub segment_rows: u64,
    /// Whether there is a list, which takes batches where others take rows.
    pub lists: bool,
    /// Whether the writer compacts, and drops what is behind so many rows.
    pub keep: Option<u64>,
    /// Whether each hundredth row is late, and rows are found by zones.
    pub late: bool,
}

pub fn schema(shape: Shape) -> SchemaRef {
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("row", DataType::Int64, false),
        Field::new("ts", zoned, false),
        Field::new("symbol", DataType::Utf8, false),
        Field::new("price", DataType::Float64, true),
        Field::new("text", DataType::Utf8, true),
    ];
    if shape.lists {
        fields.push(Field::new("list", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), true));
    }
    Arc::new(Schema::new(fields))
}

/// The time of a row that is in order.
fn ts(i: u64) -> i64 {
    START + (i / 3 * 10) as i64
}

fn symbol(i: u64) -> String {
    format!("S{}", i % PERIOD / 16)
}

fn price(i: u64) -> Option<f64> {
    (i % 10 != 3).then_some(i as f64 * 0.25)
}

fn text(i: u64) -> Option<String> {
    let i = i % PERIOD;
    (i % 13 != 5).then(|| format!("{i:x}").repeat(i as usize % 4))
}

fn items(i: u64) -> Option<impl Iterator<Item = i32>> {
    let i = i % PERIOD;
    (i % 17 != 3).then(|| (0..i % 5).map(move |k| (i + k) as i32))
}

/// What repeats after a period.
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

    /// Those of a table, which may accept late ones.
    pub fn of(dataset: &Dataset) -> Rows {
        Rows { is_late: dataset.late_by().is_some(), ..Rows::new() }
    }

    fn ts(&self, i: u64) -> i64 {
        ts(if self.is_late && i % 100 == 77 { i.saturating_sub(i * 7919 % LATEST) } else { i })
    }

    pub fn batch(&self, schema: &SchemaRef, start: u64, count: u64) -> RecordBatch {
        let rows = || start..start + count;
        let near = |i: u64| (i % PERIOD) as usize;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows().map(|i| i as i64))),
            Arc::new(TimestampMicrosecondArray::from_iter_values(rows().map(|i| self.ts(i))).with_timezone("UTC")),
            Arc::new(StringArray::from_iter_values(rows().map(|i| &self.symbols[near(i)]))),
            Arc::new(Float64Array::from_iter(rows().map(price))),
            Arc::new(StringArray::from_iter(rows().map(|i| self.texts[near(i)].as_ref()))),
        ];
        if schema.fields().len() > columns.len() {
            let lists = rows().map(|i| items(i).map(|items| items.map(Some)));
            columns.push(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)));
        }
        RecordBatch::try_new(schema.clone(), columns).unwrap()
    }

    fn values(&self, i: u64) -> [Value<'_>; 5] {
        let near = (i % PERIOD) as usize;
        [
            Value::Int(i as i64),
            Value::Timestamp(self.ts(i), TimeUnit::Microsecond, Some("UTC")),
            Value::Str(&self.symbols[near]),
            price(i).map_or(Value::Null, Value::Float64),
            self.texts[near].as_deref().map_or(Value::Null, Value::Str),
        ]
    }

    /// Panics unless `dataset` is rows `start ..`.
    pub fn check(&self, dataset: &Dataset, start: u64) {
        let mut at = start;
        for batch in dataset.to_record_batches() {
            let batch = batch.unwrap();
            self.check_batch(&batch, at);
            at += batch.num_rows() as u64;
        }
        assert_eq!(at - start, dataset.len().unwrap());
    }

    pub fn check_batch(&self, batch: &RecordBatch, start: u64) {
        let rows = batch.column(0).as_primitive::<Int64Type>();
        let times = batch.column(1).as_primitive::<TimestampMicrosecondType>();
        let symbols = batch.column(2).as_dictionary::<Int32Type>();
        let (keys, names) = (symbols.keys(), symbols.values().as_string::<i32>());
        let prices = batch.column(3).as_primitive::<Float64Type>();
        let texts = batch.column(4).as_string::<i32>();
        let lists = batch.columns().get(5).map(|column| column.as_list::<i32>());
        for at in 0..batch.num_rows() {
            let i = start + at as u64;
            let near = (i % PERIOD) as usize;
            assert_eq!(rows.value(at), i as i64, "row");
            assert_eq!(times.value(at), self.ts(i), "ts of row {i}");
            assert_eq!(names.value(keys.value(at) as usize), self.symbols[near], "symbol of row {i}");
            assert_eq!(prices.is_valid(at).then(|| prices.value(at)), price(i), "price of row {i}");
            assert_eq!(texts.is_valid(at).then(|| texts.value(at)), self.texts[near].as_deref(), "text of row {i}");
            if let Some(lists) = lists {
                let expected: Option<Vec<i32>> = items(i).map(Iterator::collect);
                let got = lists.is_valid(at).then(|| lists.value(at).as_primitive::<Int32Type>().values().to_vec());
                assert_eq!(got, expected, "list of row {i}");
            }
        }
        for column in [rows.null_count(), times.null_count(), symbols.null_count()] {
            assert_eq!(column, 0);
        }
    }
}

/// A file beside the table: how far the writer is with its commit, what it has committed, how far each reader is.
pub struct Journal(File);

impl Journal {
    pub const INTENDED: u64 = 0;
    pub const COMMITTED: u64 = 1;
    /// The first of the readers' words.
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

    pub fn slowest(&self) -> u64 {
        (Journal::READERS..Journal::WORDS).map(|word| self.read(word)).min().unwrap()
    }
}

/// What a process has done.
#[derive(Debug, Default)]
pub struct Report {
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

/// Commits single rows and batches of random sizes at full speed. `opened` hears with how many rows it begins.
pub fn write(
    folder: &Path,
    shape: Shape,
    journal: &Journal,
    seed: u64,
    time: Duration,
    opened: impl FnOnce(u64),
) -> Report {
    let rows = Rows { is_late: shape.late, ..Rows::new() };
    let (schema, deadline) = (schema(shape), Instant::now() + time);
    let mut writer = Writer::open(folder, Some(schema.clone()), &options(shape)).unwrap();
    opened(writer.rows());
    let mut dice = Dice::new(seed);
    let (mut at, mut report, mut tidied) = (writer.rows(), Report::default(), Instant::now());
    while Instant::now() < deadline {
        let (burst, most) = match dice.below(8) {
            0 => (1, 3 * shape.segment_rows.min(2000)),
            1..4 => (20, 40),
            _ => (200, 1),
        };
        for _ in 0..burst {
            let count = 1 + dice.below(most);
            match (count, shape.lists) {
                (1, false) => writer.append_row(&rows.values(at)).unwrap(),
                _ => writer.append(&rows.batch(&schema, at, count)).unwrap(),
            }
            if dice.below(50) == 0 {
                writer.rollback();
                continue;
            }
            at += count;
            journal.note(Journal::INTENDED, at);
            writer.commit().unwrap();
            journal.note(Journal::COMMITTED, at);
            (report.looks, report.rows) = (report.looks + 1, report.rows + count);
        }
        if let Some(keep) = shape.keep.filter(|_| tidied.elapsed() > Duration::from_millis(300)) {
            writer.compact(|_, _| ()).unwrap();
            writer.drop_before(at.saturating_sub(keep).min(journal.slowest())).unwrap();
            // Readers that have ended are at u64::MAX.
            wait_until("readers that come after", || journal.slowest() >= at.saturating_sub(AHEAD));
            tidied = Instant::now();
        }
    }
    writer.close().unwrap();
    report
}

/// Opens the table, which may not be there yet.
fn opened(folder: &Path) -> Dataset {
    wait_for("a table", || match open(folder) {
        Ok(dataset) => Some(dataset),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        // A folder without a segment is no table yet.
        Err(_) if std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_none()) => None,
        Err(e) => panic!("{e}"),
    })
}

/// How a reader gets to know of new rows.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    Refresh,
    Open,
}

/// Looks for new rows again and again, and checks each of them once.
pub fn read(folder: &Path, journal: &Journal, number: u64, way: Way, time: Duration) -> Report {
    let deadline = Instant::now() + time;
    let mut dataset = opened(folder);
    let rows = Rows::of(&dataset);
    let (mut next, mut first, mut report) = (0, 0, Report::default());
    while Instant::now() < deadline {
        let committed = journal.read(Journal::COMMITTED);
        dataset = if way == Way::Open { opened(folder) } else { dataset.refresh().unwrap() };
        let (start, len) = (dataset.first_row(), dataset.len().unwrap());
        let end = start + len;
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
    let deadline = Instant::now() + time;
    let table = opened(folder);
    let rows = Rows::of(&table);
    let mut following = follow(&table, Some(0), None).unwrap();
    let (mut next, mut report) = (0, Report::default());
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        let committed = journal.read(Journal::COMMITTED);
        let Some(found) = following.poll(left.min(Duration::from_millis(700))).unwrap() else {
            assert!(committed <= next, "nothing new came after row {next}, and {committed} were committed");
            continue;
        };
        assert_eq!(found.first_row(), next);
        rows.check(&found, next);
        next += found.len().unwrap();
        assert_eq!(following.next_row(), next);
        report = Report { looks: report.looks + 1, rows: next };
        journal.note(Journal::READERS + number, next);
    }
    journal.note(Journal::READERS + number, u64::MAX);
    report
}

/// Holds what it sees in the first third of its time, and looks at it again at the end.
pub fn hold(folder: &Path, journal: &Journal, number: u64, time: Duration) -> Report {
    let begin = Instant::now();
    let mut dataset = opened(folder);
    let rows = Rows::of(&dataset);
    let mut held: Vec<(u64, u64, Dataset)> = Vec::new();
    while begin.elapsed() < time {
        // So that what it holds is of many moments.
        std::thread::sleep(time / 200);
        dataset = dataset.refresh().unwrap();
        let (start, len) = (dataset.first_row(), dataset.len().unwrap());
        if begin.elapsed() < time / 3 {
            let from = if held.len() < 10 { 0 } else { len.saturating_sub(50_000) };
            let part = dataset.slice(from, len - from).unwrap();
            rows.check(&part, start + from);
            held.push((start + from, len - from, part));
        }
        journal.note(Journal::READERS + number, start + len);
    }
    journal.note(Journal::READERS + number, u64::MAX);
    let mut report = Report::default();
    for (start, len, dataset) in &held {
        assert_eq!(dataset.len().unwrap(), *len);
        rows.check(dataset, *start);
        dataset.validate(|_, _| ()).unwrap();
        report = Report { looks: report.looks + 1, rows: report.rows + len };
    }
    report
}

/// Asks each commit that it sees for rows by columns with zones, and compares the answer with a look at all of them.
pub fn find(folder: &Path, journal: &Journal, number: u64, time: Duration) -> Report {
    let (deadline, mut dice, mut report) = (Instant::now() + time, Dice::new(number), Report::default());
    let mut dataset = opened(folder);
    let rows = Rows::of(&dataset);
    let at = |ts: i64| Value::Timestamp(ts, TimeUnit::Microsecond, Some("UTC"));
    // Rows from this one on are not dropped.
    let mut kept = 0;
    while Instant::now() < deadline {
        dataset = if dice.below(4) == 0 { opened(folder) } else { dataset.refresh().unwrap() };
        let end = dataset.first_row() + dataset.len().unwrap();
        let start = dataset.first_row().max(kept);
        let len = end - start;
        if len == 0 {
            continue;
        }
        let dataset = dataset.tail(len).unwrap();
        let near = start + dice.below(len);
        let (low, high) = (rows.ts(near), rows.ts(near) + 10 * dice.below(200) as i64);
        let (least, most) = (near.saturating_sub(dice.below(300)), near + dice.below(300));
        let symbol = near % PERIOD / 16;
        let is_between = |i: u64| (low..=high).contains(&rows.ts(i));
        let is_near = |i: u64| (least..=most).contains(&i);
        let has_symbol = |i: u64| i % PERIOD / 16 == symbol;
        let by_time = col("ts").ge(at(low)) & col("ts").le(at(high));
        let by_row = col("row").ge(least as i64) & col("row").le(most as i64);
        let by_symbol = col("symbol").eq(rows.symbols[(near % PERIOD) as usize].as_str());
        let (found, holds): (_, &dyn Fn(u64) -> bool) = match dice.below(5) {
            0 => (dataset.between(&at(low), &at(high)), &is_between),
            1 => (dataset.filter(&by_time), &is_between),
            2 => (dataset.filter(&by_symbol), &has_symbol),
            3 => (dataset.filter(&(by_time & !by_symbol)), &|i| is_between(i) && !has_symbol(i)),
            _ => (dataset.filter(&(by_row | by_time)), &|i| is_near(i) || is_between(i)),
        };
        let mut expected = (start..end).filter(|&i| holds(i));
        for batch in found.unwrap().to_record_batches() {
            let batch = batch.unwrap();
            for at in 0..batch.num_rows() {
                let i = expected.next().expect("no more rows than there are");
                rows.check_batch(&batch.slice(at, 1), i);
            }
        }
        assert_eq!(expected.next(), None, "a row of {start} .. {end} was not found");
        kept = kept.max(end.saturating_sub(200_000));
        journal.note(Journal::READERS + number, kept);
        report = Report { looks: report.looks + 1, rows: report.rows + len };
    }
    journal.note(Journal::READERS + number, u64::MAX);
    report
}
