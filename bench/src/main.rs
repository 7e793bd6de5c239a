//! Arrowwood beside what the machine can do at best, on one IPC file with a float64 column.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench -- stocks.arrow price
//! ```
//! Each pair is measured in turns, A B A B …, so a machine that drifts slows both. Medians are printed. The limits do
//! what has to be done and nothing else: the empty open is open, fstat, mmap, munmap, close; the bare sum adds up the
//! column's bytes, found beforehand, through a mapping of its own on two threads.

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
    let (offset, count) = place_of(path, column);
    let (ours, bare) = (sum(path, column), bare_sum(path, offset, count, 2));
    assert!((ours - bare).abs() <= 1e-9 * bare.abs(), "the sums differ: {ours} and {bare}");
    compare(
        "open + sum",
        "bare sum, fresh mapping",
        || ignore(sum(path, column)),
        || ignore(bare_sum(path, offset, count, 2)),
    );
    let dataset = open(path).expect("an Arrow file");
    let (values, mapped) = (dataset.column(column).expect("the column"), BareMapping::new(path));
    compare(
        "sum again",
        "bare sum again",
        || drop(values.sum()),
        || ignore(add_up_on(2, &mapped.bytes()[offset..offset + 8 * count])),
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

/// Where the column's values lie in a file of one batch.
fn place_of(path: &Path, column: &str) -> (usize, usize) {
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
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) || a.len() < 50 {
        a.push(time(&ours));
        b.push(time(&limit));
    }
    let skip = a.len() / 10;
    let (a, b) = (median(&mut a[skip..]), median(&mut b[skip..]));
    println!("{name:36} {:10.2} µs   {limit_name:36} {:10.2} µs   ratio {:.2}", a, b, a / b);
}

fn time(work: &impl Fn()) -> f64 {
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
