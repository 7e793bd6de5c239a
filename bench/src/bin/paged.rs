//! Compares paged and contiguous memory (see [`arrowwood_bench::paged`]) with columns that Arrowwood has mapped, and with a
//! [`GrowableBuffer`].
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin paged -- [--json]
//! ```
//! Methods take turns, and medians are printed. All methods must compute the same sums. The first round, which touches all
//! memory, does not count.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrowwood::{Column, Dataset, GrowableBuffer, Value, WriteOptions, open, write};
use arrowwood_bench::paged::{ContiguousMemory, Memory, PAGE, PagedMemory};
use arrowwood_bench::table::{Table, median};
use multiversion::multiversion;

/// The number of values in QuestDB's benchmarks of 2020, which fit into one page.
const FEW: usize = 10_000;
/// The number of longs in 32 pages.
const MANY: usize = 32 * PAGE / 8;
const ROUNDS: usize = 101;
/// Values that are appended at a time by methods with batches.
const BATCH: usize = 1_000;

/// A method, which returns a sum or a length; `None` if it does not apply.
type Candidate<'a> = Option<Box<dyn FnMut() -> i64 + 'a>>;
/// A name, and the time of each method.
type Row = (String, Vec<Option<f64>>);

/// Columns of the table.
const PAGED: usize = 0;
const EACH: usize = 2;
const SLICES: usize = 3;
const COLUMN_SUM: usize = 4;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut rows: Vec<Row> = Vec::new();
    rows.extend([read_ints(), read_longs("10,000 longs read", FEW), read_longs("4 Mi longs read, 32 pages", MANY)]);
    rows.extend([read_strings("10,000 short strings read", 3), read_strings("10,000 strings of 16–32 read", 32)]);
    rows.extend([write_ints(), write_longs("10,000 longs written", FEW)]);
    rows.push(write_longs("4 Mi longs written, 32 pages", MANY));
    rows.extend([
        write_strings("10,000 short strings written", 3),
        write_strings("10,000 strings of 16–32 written", 32),
    ]);
    let (_, longs) = &rows[1];
    let promises = vec![
        ("sum of 10,000 longs, slice : paged".to_string(), 5.0, speedup(longs, SLICES)),
        ("sum of 10,000 longs, Column::sum : paged".to_string(), 5.0, speedup(longs, COLUMN_SUM)),
    ];
    for (_, times) in &mut rows {
        let ours = times[SLICES].or(times[EACH]);
        times.push(times[PAGED].zip(ours).map(|(paged, ours)| paged / ours));
    }
    let columns = ["paged", "whole", "ours, each", "ours, slices", "Column::sum", "Column::values", "paged : ours"];
    let columns = columns.map(String::from).into();
    let title = "Paged and contiguous columns, per value".into();
    Table { title, unit: "ns".into(), columns, rows, promises }.print(json);
}

fn speedup(times: &[Option<f64>], method: usize) -> f64 {
    times[PAGED].expect("a figure") / times[method].expect("a figure")
}

/// Measures the nanoseconds per value of each method. Methods take turns, and must return the same.
fn measure(name: &str, count: usize, mut methods: Vec<Candidate<'_>>) -> Row {
    let mut times = vec![Vec::new(); methods.len()];
    let repeats = (200_000 / count).max(1);
    let rounds = if count > FEW { ROUNDS / 5 } else { ROUNDS };
    let mut expected = None;
    for _ in 0..=rounds {
        for (method, times) in methods.iter_mut().zip(&mut times) {
            let Some(method) = method else { continue };
            let start = Instant::now();
            let sum = (0..repeats).map(|_| black_box(method())).last();
            times.push(start.elapsed().as_nanos() as f64 / (repeats * count) as f64);
            assert_eq!(*expected.get_or_insert(sum), sum, "{name}");
        }
    }
    // The first round warms up the caches.
    let medians = times.iter_mut().map(|times| (times.len() > 1).then(|| median(&mut times[1..])));
    (name.to_string(), medians.collect())
}

// ---- reading ----

/// Writes an array to a file, and maps it.
fn map_array(array: ArrayRef) -> Column {
    let path = std::env::temp_dir().join(format!("arrowwood-paged-{}.arrow", std::process::id()));
    let batch = RecordBatch::try_from_iter([("value", array)]).expect("a batch");
    let rows = Dataset::try_from(vec![batch]).expect("a dataset");
    write(&rows, &path, &WriteOptions::default()).expect("written");
    let dataset = open(&path).expect("an Arrow file");
    std::fs::remove_file(path).expect("removed");
    dataset.column("value").expect("the column")
}

fn read_ints() -> Row {
    let (mut paged, mut contiguous) = (PagedMemory::new(), ContiguousMemory::default());
    put_ints(&mut paged);
    put_ints(&mut contiguous);
    let column = map_array(Arc::new(Int32Array::from_iter_values(0..FEW as i32)));
    let array = Int32Array::from(column.chunks().expect("one batch").remove(0));
    let methods: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| ints(black_box(&paged)))),
        Some(Box::new(|| ints(black_box(&contiguous)))),
        Some(Box::new(|| each_int(black_box(&array)))),
        Some(Box::new(|| slice_of_ints(black_box(&array).values()))),
        Some(Box::new(|| sum_of(&column))),
        Some(Box::new(|| one_by_one(&column))),
    ];
    measure("10,000 ints read", FEW, methods)
}

#[inline(never)]
fn ints(memory: &impl Memory) -> i64 {
    (0..FEW).map(|i| i64::from(memory.get::<i32>(4 * i))).sum()
}

fn read_longs(name: &str, count: usize) -> Row {
    let (mut paged, mut contiguous) = (PagedMemory::new(), ContiguousMemory::default());
    put_longs(&mut paged, count);
    put_longs(&mut contiguous, count);
    let column = map_array(Arc::new(Int64Array::from_iter_values(0..count as i64)));
    let array = Int64Array::from(column.chunks().expect("one batch").remove(0));
    let methods: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| longs(black_box(&paged), count))),
        Some(Box::new(|| longs(black_box(&contiguous), count))),
        Some(Box::new(|| each_long(black_box(&array)))),
        Some(Box::new(|| slice_of_longs(black_box(&array).values()))),
        Some(Box::new(|| sum_of(&column))),
        Some(Box::new(|| one_by_one(&column))),
    ];
    measure(name, count, methods)
}

#[inline(never)]
fn longs(memory: &impl Memory, count: usize) -> i64 {
    (0..count).map(|i| memory.get::<i64>(8 * i)).sum()
}

#[inline(never)]
fn each_int(array: &Int32Array) -> i64 {
    (0..array.len()).map(|i| i64::from(array.value(i))).sum()
}

#[inline(never)]
fn each_long(array: &Int64Array) -> i64 {
    (0..array.len()).map(|i| array.value(i)).sum()
}

// Uses all vector instructions of the processor, as `Column::sum` does.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn slice_of_ints(values: &[i32]) -> i64 {
    values.iter().map(|&value| i64::from(value)).sum()
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn slice_of_longs(values: &[i64]) -> i64 {
    values.iter().sum()
}

/// Sums values of dynamic type.
fn one_by_one(column: &Column) -> i64 {
    let mut sum = 0;
    for value in black_box(column).values() {
        match value {
            Ok(Value::Int(number)) => sum += number,
            other => panic!("an integer, got {other:?}"),
        }
    }
    sum
}

fn sum_of(column: &Column) -> i64 {
    match black_box(column).sum() {
        Ok(Value::Int128(sum)) => sum as i64,
        other => panic!("a sum of integers, got {other:?}"),
    }
}

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }
}

/// Returns 10,000 strings of 1 to `max_len` characters, or of 16 to `max_len` if that is 16 at least.
fn texts(max_len: usize) -> Vec<String> {
    let mut random = Random(1);
    let min_len = if max_len < 16 { 1 } else { 16 };
    let mut texts = Vec::new();
    for _ in 0..FEW {
        let len = min_len + random.next() % (max_len + 1 - min_len);
        texts.push((0..len).map(|_| char::from(b'A' + (random.next() % 26) as u8)).collect());
    }
    texts
}

/// Strings in one memory, with their offsets in another.
#[derive(Debug, Default)]
struct Strings<M> {
    starts: M,
    characters: M,
}

impl<M: Memory> Strings<M> {
    #[inline(never)]
    fn put(&mut self, texts: &[String]) -> i64 {
        self.starts.rewind();
        self.characters.rewind();
        for text in texts {
            let start = self.characters.put_str(text);
            self.starts.put(start as i64);
        }
        texts.len() as i64
    }

    #[inline(never)]
    fn add_up(&self) -> i64 {
        (0..FEW).map(|i| self.characters.add_up_str(self.starts.get::<i64>(8 * i) as usize)).sum()
    }
}

fn read_strings(name: &str, max_len: usize) -> Row {
    let texts = texts(max_len);
    let mut paged = Strings { starts: PagedMemory::new(), characters: PagedMemory::new() };
    let mut contiguous = Strings::<ContiguousMemory>::default();
    paged.put(&texts);
    contiguous.put(&texts);
    let column = map_array(Arc::new(StringArray::from_iter_values(&texts)));
    let array = StringArray::from(column.chunks().expect("one batch").remove(0));
    let methods: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| black_box(&paged).add_up())),
        Some(Box::new(|| black_box(&contiguous).add_up())),
        Some(Box::new(|| strings(black_box(&array)))),
        Some(Box::new(|| strings_in_slices(black_box(&array)))),
        None,
        Some(Box::new(|| strings_one_by_one(&column))),
    ];
    measure(name, FEW, methods)
}

fn strings_one_by_one(column: &Column) -> i64 {
    let mut sum = 0;
    for value in black_box(column).values() {
        match value {
            Ok(Value::Str(text)) => sum += bytes(text),
            other => panic!("a string, got {other:?}"),
        }
    }
    sum
}

#[inline(never)]
fn strings(array: &StringArray) -> i64 {
    (0..array.len()).map(|i| bytes(array.value(i))).sum()
}

#[inline(never)]
fn strings_in_slices(array: &StringArray) -> i64 {
    let (first, last) = (array.value_offsets()[0], array.value_offsets()[array.len()]);
    array.value_data()[first as usize..last as usize].iter().map(|&byte| i64::from(byte)).sum()
}

#[inline]
fn bytes(text: &str) -> i64 {
    text.bytes().map(i64::from).sum()
}

// ---- writing, to memory that was written before ----

#[inline(never)]
fn put_ints(memory: &mut impl Memory) -> i64 {
    memory.rewind();
    (0..FEW as i32).for_each(|i| memory.put(i));
    memory.end() as i64
}

#[inline(never)]
fn put_longs(memory: &mut impl Memory, count: usize) -> i64 {
    memory.rewind();
    (0..count as i64).for_each(|i| memory.put(i));
    memory.end() as i64
}

fn write_ints() -> Row {
    let (mut paged, mut contiguous) = (PagedMemory::new(), ContiguousMemory::default());
    let (mut pushed, mut extended) = (GrowableBuffer::new(), GrowableBuffer::new());
    let methods: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| put_ints(black_box(&mut paged)))),
        Some(Box::new(|| put_ints(black_box(&mut contiguous)))),
        Some(Box::new(|| {
            pushed.truncate(0);
            (0..FEW as i32).for_each(|i| pushed.push(i).expect("pushed"));
            pushed.len() as i64
        })),
        Some(Box::new(|| append(&mut extended, FEW, |i| (i as i32).to_le_bytes()))),
        None,
        None,
    ];
    measure("10,000 ints written", FEW, methods)
}

fn write_longs(name: &str, count: usize) -> Row {
    let (mut paged, mut contiguous) = (PagedMemory::new(), ContiguousMemory::default());
    let (mut pushed, mut extended) = (GrowableBuffer::new(), GrowableBuffer::new());
    let methods: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| put_longs(black_box(&mut paged), count))),
        Some(Box::new(|| put_longs(black_box(&mut contiguous), count))),
        Some(Box::new(|| {
            pushed.truncate(0);
            (0..count as i64).for_each(|i| pushed.push(i).expect("pushed"));
            pushed.len() as i64
        })),
        Some(Box::new(|| append(&mut extended, count, |i| (i as i64).to_le_bytes()))),
        None,
        None,
    ];
    measure(name, count, methods)
}

/// Appends batches, each of which is filled before it is appended.
#[inline(never)]
fn append<const WIDTH: usize>(buffer: &mut GrowableBuffer, count: usize, value: impl Fn(usize) -> [u8; WIDTH]) -> i64 {
    buffer.truncate(0);
    let mut batch = [[0; WIDTH]; BATCH];
    for start in (0..count).step_by(BATCH) {
        let batch = &mut batch[..BATCH.min(count - start)];
        batch.iter_mut().enumerate().for_each(|(i, bytes)| *bytes = value(start + i));
        buffer.extend_from_slice(batch.as_flattened()).expect("appended");
    }
    buffer.len() as i64
}

fn write_strings(name: &str, max_len: usize) -> Row {
    let texts = texts(max_len);
    let mut paged = Strings { starts: PagedMemory::new(), characters: PagedMemory::new() };
    let mut contiguous = Strings::<ContiguousMemory>::default();
    let (mut ends, mut characters) = (GrowableBuffer::new(), GrowableBuffer::new());
    let methods: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| paged.put(black_box(&texts)))),
        Some(Box::new(|| contiguous.put(black_box(&texts)))),
        Some(Box::new(|| {
            ends.truncate(0);
            characters.truncate(0);
            for text in black_box(&texts) {
                characters.extend_from_slice(text.as_bytes()).expect("appended");
                ends.push(characters.len() as i32).expect("pushed");
            }
            (ends.len() / 4) as i64
        })),
        None,
        None,
        None,
    ];
    measure(name, FEW, methods)
}
