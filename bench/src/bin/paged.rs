//! Reads and writes of columns in pages and in one piece, see [`arrowwood_bench::paged`], beside the same column mapped
//! and opened by Arrowwood, and beside a [`GrowableBuffer`].
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin paged -- [--json]
//! ```
//! Ways take turns, medians are printed, sums are compared. Everything has been touched before.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrowwood::{Column, Dataset, GrowableBuffer, Value, WriteOptions, open, write};
use arrowwood_bench::paged::{ContiguousMemory, Memory, PAGE, PagedMemory};
use arrowwood_bench::table::{Table, median};
use multiversion::multiversion;

/// As many values as the benchmarks of 2020 read: they fit into one page.
const FEW: usize = 10_000;
/// As many longs as 32 pages hold.
const MANY: usize = 32 * PAGE / 8;
const ROUNDS: usize = 101;
/// How much is appended at a time where batches are.
const BATCH: usize = 1_000;

/// Work and its answer, where a way can do it.
type Candidate<'a> = Option<Box<dyn FnMut() -> i64 + 'a>>;
type Row = (String, Vec<Option<f64>>);

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
    let of = |row: usize, column: usize| rows[row].1[column].expect("a figure");
    let promises = vec![
        ("sum of 10,000 longs, slice : paged".to_string(), 5.0, of(1, 0) / of(1, 3)),
        ("sum of 10,000 longs, Column::sum : paged".to_string(), 5.0, of(1, 0) / of(1, 4)),
    ];
    for (_, cells) in &mut rows {
        cells.push(cells[0].zip(cells[3].or(cells[2])).map(|(paged, ours)| paged / ours));
    }
    let columns = ["paged", "whole", "ours, each", "ours, slices", "Column::sum", "Column::values", "paged : ours"];
    let columns = columns.map(String::from).into();
    let title = "Paged and contiguous columns, per value".into();
    Table { title, unit: "ns".into(), plotted: 5, columns, rows, promises }.print(json);
}

/// Nanoseconds for each of `count` values by each way, in turns; all give the same answer.
fn measure(name: &str, count: usize, mut ways: Vec<Candidate<'_>>) -> Row {
    let mut times = vec![Vec::new(); ways.len()];
    let repeats = (200_000 / count).max(1);
    let rounds = if count > FEW { ROUNDS / 5 } else { ROUNDS };
    let mut answer = None;
    for _ in 0..=rounds {
        for (way, times) in ways.iter_mut().zip(&mut times) {
            let Some(way) = way else { continue };
            let start = Instant::now();
            let sum = (0..repeats).map(|_| black_box(way())).last();
            times.push(start.elapsed().as_nanos() as f64 / (repeats * count) as f64);
            assert_eq!(*answer.get_or_insert(sum), sum, "{name}");
        }
    }
    // The first round was for the caches.
    let medians = times.iter_mut().map(|times| (times.len() > 1).then(|| median(&mut times[1..])));
    (name.to_string(), medians.collect())
}

// ---- reading ----

/// `array` as a file that is mapped.
fn mapped(array: ArrayRef) -> Column {
    let path = std::env::temp_dir().join(format!("arrowwood-paged-{}.arrow", std::process::id()));
    let batch = RecordBatch::try_from_iter([("value", array)]).expect("a batch");
    let rows = Dataset::try_from(vec![batch]).expect("a dataset");
    write(&rows, &path, &WriteOptions::default()).expect("written");
    let dataset = open(&path).expect("an Arrow file");
    std::fs::remove_file(path).expect("removed");
    dataset.column("value").expect("the column")
}

fn read_ints() -> Row {
    let (mut paged, mut whole) = (PagedMemory::new(), ContiguousMemory::default());
    put_ints(&mut paged);
    put_ints(&mut whole);
    let column = mapped(Arc::new(Int32Array::from_iter_values(0..FEW as i32)));
    let array = Int32Array::from(column.chunks().expect("one batch").remove(0));
    let ways: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| ints(black_box(&paged)))),
        Some(Box::new(|| ints(black_box(&whole)))),
        Some(Box::new(|| each_int(black_box(&array)))),
        Some(Box::new(|| slice_of_ints(black_box(&array).values()))),
        Some(Box::new(|| sum_of(&column))),
        Some(Box::new(|| one_by_one(&column))),
    ];
    measure("10,000 ints read", FEW, ways)
}

#[inline(never)]
fn ints(memory: &impl Memory) -> i64 {
    (0..FEW).map(|i| i64::from(memory.get::<i32>(4 * i))).sum()
}

fn read_longs(name: &str, count: usize) -> Row {
    let (mut paged, mut whole) = (PagedMemory::new(), ContiguousMemory::default());
    put_longs(&mut paged, count);
    put_longs(&mut whole, count);
    let column = mapped(Arc::new(Int64Array::from_iter_values(0..count as i64)));
    let array = Int64Array::from(column.chunks().expect("one batch").remove(0));
    let ways: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| longs(black_box(&paged), count))),
        Some(Box::new(|| longs(black_box(&whole), count))),
        Some(Box::new(|| each_long(black_box(&array)))),
        Some(Box::new(|| slice_of_longs(black_box(&array).values()))),
        Some(Box::new(|| sum_of(&column))),
        Some(Box::new(|| one_by_one(&column))),
    ];
    measure(name, count, ways)
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

// With the vectors that the processor has, as in `Column::sum`.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn slice_of_ints(values: &[i32]) -> i64 {
    values.iter().map(|&value| i64::from(value)).sum()
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn slice_of_longs(values: &[i64]) -> i64 {
    values.iter().sum()
}

/// Through values of any type.
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

/// 10,000 strings of 1 to 3 characters, or of 16 to `longest`.
fn texts(longest: usize) -> Vec<String> {
    let mut state = 1u64;
    let mut dice = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let shortest = if longest < 16 { 1 } else { 16 };
    let mut text = || {
        let len = shortest + dice() % (longest + 1 - shortest);
        (0..len).map(|_| char::from(b'A' + (dice() % 26) as u8)).collect()
    };
    (0..FEW).map(|_| text()).collect()
}

/// Strings in one memory, where they begin in another.
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

fn read_strings(name: &str, longest: usize) -> Row {
    let texts = texts(longest);
    let mut paged = Strings { starts: PagedMemory::new(), characters: PagedMemory::new() };
    let mut whole = Strings::<ContiguousMemory>::default();
    paged.put(&texts);
    whole.put(&texts);
    let column = mapped(Arc::new(StringArray::from_iter_values(&texts)));
    let array = StringArray::from(column.chunks().expect("one batch").remove(0));
    let ways: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| black_box(&paged).add_up())),
        Some(Box::new(|| black_box(&whole).add_up())),
        Some(Box::new(|| strings(black_box(&array)))),
        Some(Box::new(|| strings_in_slices(black_box(&array)))),
        None,
        Some(Box::new(|| strings_one_by_one(&column))),
    ];
    measure(name, FEW, ways)
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

// ---- writing, over what was written before ----

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
    let (mut paged, mut whole) = (PagedMemory::new(), ContiguousMemory::default());
    let (mut one, mut many) = (GrowableBuffer::new(), GrowableBuffer::new());
    let ways: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| put_ints(black_box(&mut paged)))),
        Some(Box::new(|| put_ints(black_box(&mut whole)))),
        Some(Box::new(|| {
            one.truncate(0);
            (0..FEW as i32).for_each(|i| one.push(i).expect("pushed"));
            one.len() as i64
        })),
        Some(Box::new(|| append(&mut many, FEW, |i| (i as i32).to_le_bytes()))),
        None,
        None,
    ];
    measure("10,000 ints written", FEW, ways)
}

fn write_longs(name: &str, count: usize) -> Row {
    let (mut paged, mut whole) = (PagedMemory::new(), ContiguousMemory::default());
    let (mut one, mut many) = (GrowableBuffer::new(), GrowableBuffer::new());
    let ways: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| put_longs(black_box(&mut paged), count))),
        Some(Box::new(|| put_longs(black_box(&mut whole), count))),
        Some(Box::new(|| {
            one.truncate(0);
            (0..count as i64).for_each(|i| one.push(i).expect("pushed"));
            one.len() as i64
        })),
        Some(Box::new(|| append(&mut many, count, |i| (i as i64).to_le_bytes()))),
        None,
        None,
    ];
    measure(name, count, ways)
}

/// Batches of values that are made first and appended then.
#[inline(never)]
fn append<const WIDTH: usize>(buffer: &mut GrowableBuffer, count: usize, value: impl Fn(usize) -> [u8; WIDTH]) -> i64 {
    buffer.truncate(0);
    let mut batch = [[0; WIDTH]; BATCH];
    for start in (0..count).step_by(BATCH) {
        let batch = &mut batch[..BATCH.min(count - start)];
        batch.iter_mut().enumerate().for_each(|(i, place)| *place = value(start + i));
        buffer.extend_from_slice(batch.as_flattened()).expect("appended");
    }
    buffer.len() as i64
}

fn write_strings(name: &str, longest: usize) -> Row {
    let texts = texts(longest);
    let mut paged = Strings { starts: PagedMemory::new(), characters: PagedMemory::new() };
    let mut whole = Strings::<ContiguousMemory>::default();
    let (mut ends, mut characters) = (GrowableBuffer::new(), GrowableBuffer::new());
    let ways: Vec<Candidate<'_>> = vec![
        Some(Box::new(|| paged.put(black_box(&texts)))),
        Some(Box::new(|| whole.put(black_box(&texts)))),
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
    measure(name, FEW, ways)
}
