//! Measures aggregations over five million rows, all or one at a time for a profiler.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin groups -- [QUERY|all [RUNS]]
//! ```
//! Prints the minimum and the median time in milliseconds. `bench/rivals/grouping.py` compares the same queries with other
//! libraries.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrowwood::{AggregateFunction, Dataset, Result, col};

const ROWS: usize = 5_000_000;
const BATCH: usize = 1 << 20;
const COUNTS: [u64; 3] = [1_000, 100_000, 1_000_000];

/// A prepared query, which returns a number of rows.
type Query = Box<dyn Fn() -> Result<u64>>;

/// A query's name, and how it is prepared.
type NamedQuery = (String, Box<dyn Fn() -> Result<Query>>);

/// Returns a pseudorandom number (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*).
fn random(number: usize, seed: u64) -> u64 {
    let mut word = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(seed << 40);
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

fn dataset(keys: ArrayRef) -> Result<Dataset> {
    let all_rows = RecordBatch::try_from_iter([("key", keys), ("v", floats())]).expect("columns of one length");
    let starts = (0..ROWS).step_by(BATCH);
    Dataset::try_from(starts.map(|start| all_rows.slice(start, BATCH.min(ROWS - start))).collect::<Vec<_>>())
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

/// Returns keys of which one is in half of the rows.
fn skewed_keys(count: u64) -> ArrayRef {
    let skewed = keys(count).enumerate().map(|(row, key)| {
        let key = if random(row, 3) & 1 == 0 { 7 } else { key };
        key.wrapping_mul(1 << 40 | 1)
    });
    Arc::new(Int64Array::from_iter_values(skewed))
}

fn random_integers(count: u64, seed: u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| (random(row, seed) % count) as i64)))
}

fn mean_by(keys: ArrayRef) -> Result<Query> {
    let dataset = dataset(keys)?;
    Ok(Box::new(move || dataset.aggregate(&["key"]).column("v", AggregateFunction::Mean).finish()?.len()))
}

fn mean_by_two_keys() -> Result<Query> {
    let columns = [("a", random_integers(300, 4)), ("b", random_integers(3_000, 5)), ("v", floats())];
    let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter(columns).expect("columns of one length")])?;
    Ok(Box::new(move || dataset.aggregate(&["a", "b"]).column("v", AggregateFunction::Mean).finish()?.len()))
}

fn reduce(query: impl Fn(&Dataset) -> Result<u64> + 'static) -> Result<Query> {
    let dataset = dataset(integers(1_000, 1))?;
    Ok(Box::new(move || query(&dataset)))
}

fn filtered_mean(dataset: &Dataset) -> Result<u64> {
    dataset.aggregate(&["key"]).filter(col("v").gt(90.0)).column("v", AggregateFunction::Mean).finish()?.len()
}

fn queries() -> Vec<NamedQuery> {
    let mut queries: Vec<NamedQuery> = Vec::new();
    for count in COUNTS {
        queries.push((format!("near{count}"), Box::new(move || mean_by(integers(count, 1)))));
        queries.push((format!("far{count}"), Box::new(move || mean_by(integers(count, 0x9E37_79B9_7F4A_7C15)))));
        queries.push((format!("text{count}"), Box::new(move || mean_by(texts(count)))));
    }
    queries.push(("hot".into(), Box::new(|| mean_by(skewed_keys(1_000_000)))));
    queries.push(("two".into(), Box::new(mean_by_two_keys)));
    queries.push(("std".into(), Box::new(|| reduce(|dataset| dataset.column("v")?.std().map(|_| 1)))));
    queries.push(("sum".into(), Box::new(|| reduce(|dataset| dataset.column("v")?.sum().map(|_| 1)))));
    queries.push(("median".into(), Box::new(|| reduce(|dataset| dataset.column("v")?.quantile(0.5).map(|_| 1)))));
    queries.push(("filtered".into(), Box::new(|| reduce(filtered_mean))));
    queries
}

fn main() -> Result<()> {
    let selected = std::env::args().nth(1).filter(|name| name != "all");
    let runs = std::env::args().nth(2).map_or(7, |runs| runs.parse().expect("RUNS is a number"));
    for (name, prepare) in queries() {
        if selected.as_ref().is_some_and(|selected| *selected != name) {
            continue;
        }
        let query = prepare()?;
        black_box(query()?);
        let mut times: Vec<f64> = Vec::new();
        for _ in 0..runs {
            let start = Instant::now();
            black_box(query()?);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!("{name:14} least {:8.2}  median {:8.2}", times[0], times[times.len() / 2]);
    }
    Ok(())
}
