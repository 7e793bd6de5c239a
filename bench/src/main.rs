//! Compares reads of one IPC file with the limits of the machine.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench -- stocks.arrow price
//! ```
//! The two sides of a comparison are measured alternately, so that a machine whose speed drifts slows both. Medians are
//! printed. The limits do only what is unavoidable: the empty open is open, fstat, mmap, munmap and close; the bare sum
//! adds up the column's values, whose place is known, through a new mapping and on two threads.

use std::path::Path;
use std::time::{Duration, Instant};

use arrowwood::{Value, open};
use arrowwood_bench::{BareMapping, add_up_on, bare_sum};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, column] = &arguments[..] else {
        eprintln!("usage: arrowwood-bench FILE COLUMN");
        std::process::exit(2);
    };
    let path = Path::new(path);
    compare(
        "open, schema and row count known",
        "empty open + fstat + mmap + munmap",
        || count_rows(path),
        || drop(BareMapping::new(path)),
    );
    compare(
        "open + first row",
        "empty open + fstat + mmap + munmap",
        || first_row(path),
        || drop(BareMapping::new(path)),
    );
    let (offset, count) = find_values(path, column);
    let (ours, bare) = (sum(path, column), bare_sum(path, offset, count, 2));
    assert!((ours - bare).abs() <= 1e-9 * bare.abs(), "the sums differ: {ours} and {bare}");
    compare(
        "open + sum",
        "bare sum, fresh mapping",
        || ignore(sum(path, column)),
        || ignore(bare_sum(path, offset, count, 2)),
    );
    let dataset = open(path).expect("an Arrow file");
    let values = dataset.column(column).expect("the column");
    let mapping = BareMapping::new(path);
    compare(
        "sum again",
        "bare sum again",
        || drop(values.sum()),
        || ignore(add_up_on(2, &mapping.bytes()[offset..offset + 8 * count])),
    );
}

fn count_rows(path: &Path) {
    let dataset = open(path).expect("an Arrow file");
    std::hint::black_box((dataset.schema(), dataset.len().expect("its rows")));
}

fn first_row(path: &Path) {
    let dataset = open(path).expect("an Arrow file");
    for (_, value) in dataset.row(0).expect("a row").iter() {
        std::hint::black_box(value.expect("a value"));
    }
}

fn sum(path: &Path, column: &str) -> f64 {
    let dataset = open(path).expect("an Arrow file");
    let column = dataset.column(column).expect("the column");
    match column.sum().expect("a sum") {
        Value::Float64(sum) => sum,
        other => panic!("the sum of a float64 column, got {other:?}"),
    }
}

/// Returns the offset and the number of a column's values in a file of one batch.
fn find_values(path: &Path, column: &str) -> (usize, usize) {
    let messages = open(path).expect("an Arrow file").messages().expect("its messages");
    let batches: Vec<_> =
        messages.iter().filter(|message| message.rows.is_some() && message.dictionary.is_none()).collect();
    let [batch] = &batches[..] else { panic!("the bare sum needs a file of one batch, this has {}", batches.len()) };
    let values = batch.buffers.iter().find(|buffer| &*buffer.field == column && buffer.name == "values");
    let values = values.expect("the column's values");
    ((batch.body_offset as i64 + values.offset) as usize, batch.rows.unwrap_or(0) as usize)
}

/// Measures `ours` and `limit` in turns for about two seconds and prints medians and their ratio.
fn compare(name: &str, limit_name: &str, ours: impl Fn(), limit: impl Fn()) {
    let (mut our_times, mut limit_times) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) || our_times.len() < 50 {
        our_times.push(time_us(&ours));
        limit_times.push(time_us(&limit));
    }
    // The first tenth warms up the caches.
    let warmup = our_times.len() / 10;
    let (ours, limit) = (median(&mut our_times[warmup..]), median(&mut limit_times[warmup..]));
    println!("{name:36} {ours:10.2} µs   {limit_name:36} {limit:10.2} µs   ratio {:.2}", ours / limit);
}

fn time_us(work: &impl Fn()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / 1e3
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn ignore(sum: f64) {
    std::hint::black_box(sum);
}
