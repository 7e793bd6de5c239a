//! Columns of int64 whose number nobody knows beforehand, 512 MiB in the end: `BuildPrimitiveArrayNoNulls` of Arrow's
//! own benchmarks, from an empty builder to a finished array.
//!
//! Each measurement has a process of its own, in which it is made twice: for the first time, and again after what was
//! built has been dropped. So no way finds memory that another has left behind. Ways take turns in every round. What
//! is measured is the processor time of the one thread that works, so that others on a shared machine don't count.
//!
//! A virtual machine may give free memory back to its host after a second or two, and then the next to touch it waits
//! for the host, which takes much longer than the kernel. So as much memory is touched and freed right before each
//! measurement.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow_array::builder::Int64Builder;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::{Bytes, Dataset, DatasetBuilder, GrowableBuffer, Value};

use crate::table::{Table, median};
use crate::{AnonymousPages, processor_seconds};

const COUNT: usize = 512 << 17;
const PIECE: usize = 8192;

/// Seconds it took, and the column.
type TimedArray = (f64, Int64Array);

/// A name and what to do.
type BuildMethod = (&'static str, fn() -> TimePair);

const WAYS: [BuildMethod; 12] = [
    ("Vec::push", || twice(vec_push)),
    ("arrow-rs append_value", || twice(arrow_push)),
    ("arrowwood push", || twice(our_push)),
    ("limit: stores, huge pages", || limit(true, store)),
    ("limit: one store a time, huge pages", || limit(true, store_each)),
    ("limit: stores, small pages", || limit(false, store)),
    ("Vec::extend_from_slice", || twice(vec_extend)),
    ("arrow-rs append_slice", || twice(arrow_extend)),
    ("arrowwood extend", || twice(our_extend)),
    ("arrowwood Builder::append", || twice_with(batches)),
    ("limit: copies, huge pages", || limit(true, copy)),
    ("limit: copies, small pages", || limit(false, copy)),
];

/// Seconds for the first time and again.
type TimePair = (f64, f64);

/// What both programs do; `allocator` is the one this was built with.
///
/// Arguments are `[--json] [--rounds N]`, or `--one WAY`.
pub fn main(allocator: &str) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [one, name] = &arguments[..]
        && one == "--one"
    {
        let (_, way) = WAYS.iter().find(|(way, _)| way == name).expect("one of the ways");
        drop(AnonymousPages::new(12 * COUNT, true).filled());
        let (first, again) = way();
        return println!("{first} {again}");
    }
    let json = arguments.iter().any(|argument| argument == "--json");
    let at = arguments.iter().position(|argument| argument == "--rounds");
    let rounds = at.map_or(7, |at| arguments[at + 1].parse().expect("a number of rounds"));
    run(allocator, rounds).print(json);
}

fn run(allocator: &str, rounds: usize) -> Table {
    let own = std::env::current_exe().expect("this program");
    let other = own.with_file_name("builders_jemalloc");
    let mut programs = vec![(allocator, own)];
    if allocator == "system" && other.exists() {
        programs.push(("jemalloc", other));
    }
    let mut times = vec![vec![[vec![], vec![]]; programs.len()]; WAYS.len()];
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for ((name, _), times) in WAYS.iter().zip(&mut times) {
            for ((_, program), times) in programs.iter().zip(times) {
                let (first, again) = measured(program, name);
                times[0].push(first);
                times[1].push(again);
            }
        }
    }
    table(&programs, times)
}

fn measured(program: &Path, way: &str) -> TimePair {
    let output = Command::new(program).args(["--one", way]).stderr(Stdio::inherit()).output().expect("a measurement");
    assert!(output.status.success(), "{way} failed");
    let text = String::from_utf8(output.stdout).expect("text");
    let (first, again) = text.trim().split_once(' ').expect("two numbers");
    (first.parse().expect("seconds"), again.parse().expect("seconds"))
}

fn table(programs: &[(&str, PathBuf)], mut times: Vec<Vec<[Vec<f64>; 2]>>) -> Table {
    let speed = |times: &mut Vec<f64>| (8 * COUNT) as f64 / 1e9 / median(times);
    let cells = |times: &mut Vec<[Vec<f64>; 2]>| times.iter_mut().flatten().map(|times| Some(speed(times))).collect();
    let rows: Vec<(String, Vec<Option<f64>>)> =
        WAYS.iter().zip(&mut times).map(|((name, _), times)| (name.to_string(), cells(times))).collect();
    let of = |name: &str, column: usize| {
        rows.iter().find(|(row, _)| row == name).and_then(|(_, cells)| cells[column]).expect("a figure")
    };
    let promise = |what: &str, wanted, ours: f64, theirs: f64| (what.to_string(), wanted, ours / theirs);
    let ours = "arrowwood push";
    let promises = vec![
        promise("push : arrow-rs append_value, first", 2.5, of(ours, 0), of("arrow-rs append_value", 0)),
        promise("push : first touch of huge pages", 0.8, of(ours, 0), of("limit: stores, huge pages", 0)),
        promise("push, again : stores into touched memory", 0.8, of(ours, 1), of("limit: stores, huge pages", 1)),
        promise("the same : one store a time", 0.8, of(ours, 1), of("limit: one store a time, huge pages", 1)),
        promise(
            "extend, first : first touch, copies",
            0.8,
            of("arrowwood extend", 0),
            of("limit: copies, huge pages", 0),
        ),
        promise("extend, again : copies", 0.8, of("arrowwood extend", 1), of("limit: copies, huge pages", 1)),
    ];
    let columns: Vec<String> =
        programs.iter().flat_map(|(name, _)| [format!("{name}, first"), format!("{name}, again")]).collect();
    let title = "512 MiB of int64 of unknown number".to_string();
    Table { title, unit: "GB/s".into(), plotted: columns.len(), columns, rows, promises }
}

// ---- the ways ----

fn twice(build: fn() -> TimedArray) -> TimePair {
    twice_with(|| {
        let (seconds, array) = build();
        (seconds, array.values().iter().sum())
    })
}

/// `build` returns seconds and the sum of what it has built, which is gone by then.
fn twice_with(build: impl Fn() -> (f64, i64)) -> TimePair {
    let times = [(); 2].map(|()| {
        let (seconds, sum) = build();
        assert!(sum == pushed() || sum == copied(), "a wrong sum: {sum}");
        seconds
    });
    (times[0], times[1])
}

/// The sum of what the pushing ways build: 0, 1, 2, …
fn pushed() -> i64 {
    (COUNT as i64 - 1) * COUNT as i64 / 2
}

/// The sum of what the copying ways build: one piece again and again.
fn copied() -> i64 {
    piece().iter().sum::<i64>() * (COUNT / PIECE) as i64
}

fn piece() -> Vec<i64> {
    std::hint::black_box((0..PIECE as i64).collect())
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = processor_seconds();
    let made = work();
    (processor_seconds() - start, made)
}

fn count() -> i64 {
    std::hint::black_box(COUNT as i64)
}

fn vec_push() -> TimedArray {
    timed(|| {
        let mut values = Vec::new();
        for number in 0..count() {
            values.push(number);
        }
        Int64Array::from(values)
    })
}

fn vec_extend() -> TimedArray {
    let piece = piece();
    timed(|| {
        let mut values = Vec::new();
        for _ in 0..COUNT / PIECE {
            values.extend_from_slice(&piece);
        }
        Int64Array::from(values)
    })
}

fn arrow_push() -> TimedArray {
    timed(|| {
        let mut builder = Int64Builder::new();
        for number in 0..count() {
            builder.append_value(number);
        }
        builder.finish()
    })
}

fn arrow_extend() -> TimedArray {
    let piece = piece();
    timed(|| {
        let mut builder = Int64Builder::new();
        for _ in 0..COUNT / PIECE {
            builder.append_slice(&piece);
        }
        builder.finish()
    })
}

fn our_push() -> TimedArray {
    timed(|| {
        let mut buffer = GrowableBuffer::new();
        for number in 0..count() {
            buffer.push(number).expect("pushed");
        }
        finished(buffer)
    })
}

fn our_extend() -> TimedArray {
    let bytes: Vec<u8> = piece().iter().flat_map(|value| value.to_le_bytes()).collect();
    timed(|| {
        let mut buffer = GrowableBuffer::new();
        for _ in 0..COUNT / PIECE {
            buffer.extend_from_slice(&bytes).expect("extended");
        }
        finished(buffer)
    })
}

fn finished(buffer: GrowableBuffer) -> Int64Array {
    let len = buffer.len();
    let values = Bytes::from(buffer).slice(0, len).expect("all bytes");
    Int64Array::new(values.into(), None)
}

/// Batches of 8,192 rows into a builder of tables' columns.
fn batches() -> (f64, i64) {
    let column: ArrayRef = Arc::new(Int64Array::from(piece()));
    let batch = RecordBatch::try_from_iter([("value", column)]).expect("a batch");
    let (seconds, dataset): (f64, Dataset) = timed(|| {
        let mut builder = DatasetBuilder::new(batch.schema()).expect("a builder");
        for _ in 0..COUNT / PIECE {
            builder.append(&batch).expect("appended");
        }
        builder.finish().expect("a dataset")
    });
    match dataset.column("value").and_then(|column| column.sum()) {
        Ok(Value::Int128(sum)) => (seconds, i64::try_from(sum).expect("a sum of 64 bits")),
        other => panic!("the sum of integers, got {other:?}"),
    }
}

// ---- the limits: the number is known, and nothing grows ----

/// `fill` over fresh memory, then again over the same.
fn limit(huge: bool, fill: fn(&mut [i64])) -> TimePair {
    let (first, mut pages) = timed(|| {
        let mut pages = AnonymousPages::new(8 * COUNT, huge);
        fill(pages.numbers());
        pages
    });
    let (again, ()) = timed(|| fill(pages.numbers()));
    let sum: i64 = pages.numbers().iter().sum();
    assert!(sum == pushed() || sum == copied(), "a wrong sum: {sum}");
    (first, again)
}

fn store(numbers: &mut [i64]) {
    for (place, number) in numbers.iter_mut().zip(0..count()) {
        *place = number;
    }
}

/// As pushes of values that only come to be known one by one: a store for each.
fn store_each(numbers: &mut [i64]) {
    for (place, number) in numbers.iter_mut().zip(0..count()) {
        // SAFETY: a reference is valid for writes.
        unsafe { std::ptr::from_mut(place).write_volatile(number) };
    }
}

fn copy(numbers: &mut [i64]) {
    let piece = piece();
    numbers.chunks_exact_mut(PIECE).for_each(|chunk| chunk.copy_from_slice(&piece));
}
