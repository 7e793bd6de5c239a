//! Groups of five million rows, for a profiler and for a look at one question at a time.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin groups -- [QUESTION [RUNS]]
//! ```
//! Without a question, all of them. Prints the least and the median time in milliseconds. `bench/rivals/grouping.py` asks the same
//! beside others.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrowwood::{AggregateFunction, Dataset, Result, col};

const ROWS: usize = 5_000_000;
const BATCH: usize = 1 << 20;
const COUNTS: [u64; 3] = [1_000, 100_000, 1_000_000];

/// A name, and what is asked.
type Question = (String, Box<dyn Fn() -> Result<u64>>);

/// Numbers that look random (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*).
fn random(number: usize, seed: u64) -> u64 {
    let mut word = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(seed << 40);
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

fn dataset(key: impl Fn(usize) -> ArrayRef) -> Result<Dataset> {
    let whole = [("key", key(ROWS)), ("v", floats())];
    let whole = RecordBatch::try_from_iter(whole).expect("columns of one length");
    Dataset::try_from((0..ROWS).step_by(BATCH).map(|at| whole.slice(at, BATCH.min(ROWS - at))).collect::<Vec<_>>())
}

fn floats() -> ArrayRef {
    Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| random(row, 9) as f64 / 1e17)))
}

fn keys(count: u64) -> impl Iterator<Item = i64> {
    (0..ROWS).map(move |row| (random(row, 1) % count) as i64)
}

fn integers(count: u64, scale: u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(keys(count).map(|key| (key as u64).wrapping_mul(scale) as i64)))
}

fn texts(count: u64) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(keys(count).map(|key| format!("name-{key}"))))
}

/// Half of the rows have one key.
fn hot(count: u64) -> ArrayRef {
    let key = |(row, key): (usize, i64)| if random(row, 3) & 1 == 0 { 7 } else { key };
    Arc::new(Int64Array::from_iter_values(keys(count).enumerate().map(key).map(|key| key.wrapping_mul(1 << 40 | 1))))
}

fn mean_by(key: ArrayRef) -> Result<Box<dyn Fn() -> Result<u64>>> {
    let dataset = dataset(|_| key.clone())?;
    Ok(Box::new(move || dataset.aggregate(&["key"]).column("v", AggregateFunction::Mean).finish()?.len()))
}

fn two_keys() -> Result<Box<dyn Fn() -> Result<u64>>> {
    let column = |count: u64, seed| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| (random(row, seed) % count) as i64)))
    };
    let batch = RecordBatch::try_from_iter([("a", column(300, 4)), ("b", column(3_000, 5)), ("v", floats())]);
    let dataset = Dataset::try_from(vec![batch.expect("columns of one length")])?;
    Ok(Box::new(move || dataset.aggregate(&["a", "b"]).column("v", AggregateFunction::Mean).finish()?.len()))
}

fn reduce(question: impl Fn(&Dataset) -> Result<u64> + 'static) -> Result<Box<dyn Fn() -> Result<u64>>> {
    let dataset = dataset(|_| integers(1_000, 1))?;
    Ok(Box::new(move || question(&dataset)))
}

fn questions(wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Question>> {
    let mut found: Vec<Question> = Vec::new();
    let mut add = |name: String, make: &dyn Fn() -> Result<Box<dyn Fn() -> Result<u64>>>| {
        if wanted(&name) {
            found.push((name, make()?));
        }
        Ok::<(), arrowwood::Error>(())
    };
    for count in COUNTS {
        add(format!("near{count}"), &|| mean_by(integers(count, 1)))?;
        add(format!("far{count}"), &|| mean_by(integers(count, 0x9E37_79B9_7F4A_7C15)))?;
        add(format!("text{count}"), &|| mean_by(texts(count)))?;
    }
    add("hot".into(), &|| mean_by(hot(1_000_000)))?;
    add("two".into(), &two_keys)?;
    add("std".into(), &|| reduce(|dataset| dataset.column("v")?.std().map(|_| 1)))?;
    add("sum".into(), &|| reduce(|dataset| dataset.column("v")?.sum().map(|_| 1)))?;
    add("median".into(), &|| reduce(|dataset| dataset.column("v")?.quantile(0.5).map(|_| 1)))?;
    add("filtered".into(), &|| {
        reduce(|dataset| {
            dataset.aggregate(&["key"]).filter(col("v").gt(90.0)).column("v", AggregateFunction::Mean).finish()?.len()
        })
    })?;
    Ok(found)
}

fn main() -> Result<()> {
    let only = std::env::args().nth(1);
    let runs = std::env::args().nth(2).map_or(7, |runs| runs.parse().expect("RUNS is a number"));
    for (name, ask) in questions(&|name| only.as_ref().is_none_or(|only| only == "all" || name == only))? {
        black_box(ask()?);
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..runs {
            let start = Instant::now();
            black_box(ask()?);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!("{name:14} least {:8.2}  median {:8.2}", times[0], times[times.len() / 2]);
    }
    Ok(())
}
