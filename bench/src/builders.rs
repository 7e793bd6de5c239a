//! Builds 512 MiB of int64 values whose number is not known beforehand, as `BuildPrimitiveArrayNoNulls` of Arrow's own
//! benchmarks does: from an empty builder to a finished array.
//!
//! Each measurement runs in a new process, so that no method finds memory that another one has freed. It is made twice
//! there, the second time after the first array was dropped. Methods take turns in every round. The processor time of the
//! one working thread is measured, so that other work on a shared machine does not count.
//!
//! A virtual machine may return free memory to its host after a second or two. Touching it again then takes much longer
//! than the kernel needs, so as much memory is touched and freed right before each measurement.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow_array::builder::Int64Builder;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::{Bytes, Dataset, DatasetBuilder, GrowableBuffer, Value};

use crate::table::{Table, median};
use crate::{AnonymousPages, processor_seconds};

const COUNT: usize = 512 << 17;
/// Values that are copied at a time.
const PIECE: usize = 8192;
const DEFAULT_ROUNDS: usize = 7;

/// Seconds, and the array that was built.
type TimedArray = (f64, Int64Array);

/// Seconds of the first and of the second build.
type TimePair = (f64, f64);

/// A name, and the function that measures the method.
type BuildMethod = (&'static str, fn() -> TimePair);

const METHODS: [BuildMethod; 12] = [
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

/// Runs the benchmark in a program that was built with `allocator`.
///
/// Arguments are `[--json] [--rounds N]`, or `--one METHOD` in the process of a measurement.
pub fn main(allocator: &str) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [one, name] = &arguments[..]
        && one == "--one"
    {
        let (_, measure) = METHODS.iter().find(|(method, _)| method == name).expect("one of the methods");
        drop(AnonymousPages::new(12 * COUNT, true).filled());
        let (first, again) = measure();
        return println!("{first} {again}");
    }
    let json = arguments.iter().any(|argument| argument == "--json");
    let rounds_option = arguments.iter().position(|argument| argument == "--rounds");
    let rounds =
        rounds_option.map_or(DEFAULT_ROUNDS, |index| arguments[index + 1].parse().expect("a number of rounds"));
    run(allocator, rounds).print(json);
}

fn run(allocator: &str, rounds: usize) -> Table {
    let this_program = std::env::current_exe().expect("this program");
    let jemalloc_program = this_program.with_file_name("builders_jemalloc");
    let mut programs = vec![(allocator, this_program)];
    if allocator == "system" && jemalloc_program.exists() {
        programs.push(("jemalloc", jemalloc_program));
    }
    let mut times = vec![vec![[vec![], vec![]]; programs.len()]; METHODS.len()];
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for ((name, _), times) in METHODS.iter().zip(&mut times) {
            for ((_, program), times) in programs.iter().zip(times) {
                let (first, again) = measure_in_new_process(program, name);
                times[0].push(first);
                times[1].push(again);
            }
        }
    }
    table(&programs, times)
}

fn measure_in_new_process(program: &Path, method: &str) -> TimePair {
    let output =
        Command::new(program).args(["--one", method]).stderr(Stdio::inherit()).output().expect("a measurement");
    assert!(output.status.success(), "{method} failed");
    let text = String::from_utf8(output.stdout).expect("text");
    let (first, again) = text.trim().split_once(' ').expect("two numbers");
    (first.parse().expect("seconds"), again.parse().expect("seconds"))
}

/// The figures of a method, by column.
type Row = (String, Vec<Option<f64>>);

/// The columns of the first program.
const FIRST: usize = 0;
const AGAIN: usize = 1;

fn table(programs: &[(&str, PathBuf)], times: Vec<Vec<[Vec<f64>; 2]>>) -> Table {
    let mut rows: Vec<Row> = Vec::new();
    for ((name, _), times) in METHODS.iter().zip(times) {
        let speeds = times.into_iter().flatten().map(|mut times| Some((8 * COUNT) as f64 / 1e9 / median(&mut times)));
        rows.push((name.to_string(), speeds.collect()));
    }
    let push = "arrowwood push";
    let extend = "arrowwood extend";
    let copies = "limit: copies, huge pages";
    let stores = "limit: stores, huge pages";
    let promises = vec![
        ("push : arrow-rs append_value, first".into(), 2.5, ratio(&rows, FIRST, push, "arrow-rs append_value")),
        ("push : first touch of huge pages".into(), 0.8, ratio(&rows, FIRST, push, stores)),
        ("push, again : stores into touched memory".into(), 0.8, ratio(&rows, AGAIN, push, stores)),
        ("the same : one store a time".into(), 0.8, ratio(&rows, AGAIN, push, "limit: one store a time, huge pages")),
        ("extend, first : first touch, copies".into(), 0.8, ratio(&rows, FIRST, extend, copies)),
        ("extend, again : copies".into(), 0.8, ratio(&rows, AGAIN, extend, copies)),
    ];
    let columns: Vec<String> =
        programs.iter().flat_map(|(name, _)| [format!("{name}, first"), format!("{name}, again")]).collect();
    let title = "512 MiB of int64 of unknown number".to_string();
    Table { title, unit: "GB/s".into(), columns, rows, promises }
}

/// Returns the speed of one method divided by another's.
fn ratio(rows: &[Row], column: usize, method: &str, other_method: &str) -> f64 {
    speed(rows, column, method) / speed(rows, column, other_method)
}

fn speed(rows: &[Row], column: usize, method: &str) -> f64 {
    rows.iter().find(|(name, _)| name == method).and_then(|(_, cells)| cells[column]).expect("a figure")
}

// ---- the methods ----

fn twice(build: fn() -> TimedArray) -> TimePair {
    twice_with(|| {
        let (seconds, array) = build();
        (seconds, array.values().iter().sum())
    })
}

/// Builds twice. `build` returns seconds and the sum of the values, which it has dropped.
fn twice_with(build: impl Fn() -> (f64, i64)) -> TimePair {
    let times = [(); 2].map(|()| {
        let (seconds, sum) = build();
        assert!(sum == sum_of_pushed() || sum == sum_of_copied(), "a wrong sum: {sum}");
        seconds
    });
    (times[0], times[1])
}

/// Returns the sum of the values that are pushed: 0, 1, 2, …
fn sum_of_pushed() -> i64 {
    (COUNT as i64 - 1) * COUNT as i64 / 2
}

/// Returns the sum of the values that are copied: repetitions of one piece.
fn sum_of_copied() -> i64 {
    piece().iter().sum::<i64>() * (COUNT / PIECE) as i64
}

fn piece() -> Vec<i64> {
    std::hint::black_box((0..PIECE as i64).collect())
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = processor_seconds();
    let result = work();
    (processor_seconds() - start, result)
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
        finish(buffer)
    })
}

fn our_extend() -> TimedArray {
    let bytes: Vec<u8> = piece().iter().flat_map(|value| value.to_le_bytes()).collect();
    timed(|| {
        let mut buffer = GrowableBuffer::new();
        for _ in 0..COUNT / PIECE {
            buffer.extend_from_slice(&bytes).expect("extended");
        }
        finish(buffer)
    })
}

fn finish(buffer: GrowableBuffer) -> Int64Array {
    let len = buffer.len();
    let values = Bytes::from(buffer).slice(0, len).expect("all bytes");
    Int64Array::new(values.into(), None)
}

/// Appends batches to the builder that tables' columns use.
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

// ---- the limits: the number of values is known, and nothing grows ----

/// Fills new memory, and then the same memory again.
fn limit(huge: bool, fill: fn(&mut [i64])) -> TimePair {
    let (first, mut pages) = timed(|| {
        let mut pages = AnonymousPages::new(8 * COUNT, huge);
        fill(pages.numbers());
        pages
    });
    let (again, ()) = timed(|| fill(pages.numbers()));
    let sum: i64 = pages.numbers().iter().sum();
    assert!(sum == sum_of_pushed() || sum == sum_of_copied(), "a wrong sum: {sum}");
    (first, again)
}

fn store(numbers: &mut [i64]) {
    for (place, number) in numbers.iter_mut().zip(0..count()) {
        *place = number;
    }
}

/// Stores each value on its own, as if values became known one by one. The compiler must not merge volatile writes.
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
