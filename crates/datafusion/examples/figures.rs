//! What DataFusion takes over our files and tables, beside its own readers of the same rows in Arrow files and in Parquet:
//! `make bench-sql`, or `cargo run --release --features parquet --example figures -- FOLDER [--quick] [PART...]`.
//!
//! The folder takes 4 GB. Parts are `group`, `few` and `hits`, which needs the feature. Answers of all sides are compared in
//! each round, and rounds go in turns.

use std::error::Error;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrowwood::{Dataset, Mapping, Mode, SyncPolicy, WriteOptions, Writer, WriterOptions, write};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::Int8Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::options::ArrowReadOptions;
use datafusion::prelude::*;

type Outcome<T> = Result<T, Box<dyn Error>>;

const SYMBOLS: [&str; 5] = ["AAPL", "AMZN", "GOOG", "IBM", "MSFT"];
/// Rows of a batch.
const BATCH: i64 = 1 << 16;

fn ticks(start: i64, rows: i64) -> Outcome<RecordBatch> {
    let each = || start..start + rows;
    let keys = Int8Array::from_iter_values(each().map(|n| (n * 7919 % 5) as i8));
    let symbols = DictionaryArray::<Int8Type>::try_new(keys, Arc::new(StringArray::from(SYMBOLS.to_vec())))?;
    // Prices are halves, which are added exactly in whatever order.
    Ok(RecordBatch::try_from_iter([
        ("ts", Arc::new(Int64Array::from_iter_values(each())) as ArrayRef),
        ("symbol", Arc::new(symbols)),
        ("price", Arc::new(Float64Array::from_iter_values(each().map(|n| (n * 31 % 1_200) as f64 / 2.0)))),
    ])?)
}

/// A file of `rows` rows.
fn file(path: &Path, rows: i64) -> Outcome<()> {
    if !path.exists() {
        let batches = (0..rows).step_by(BATCH as usize).map(|start| ticks(start, BATCH.min(rows - start)));
        let batches = batches.collect::<Outcome<Vec<_>>>()?;
        write(&Dataset::try_from(batches)?, path, &WriteOptions::default())?;
    }
    Ok(())
}

/// A table of `rows` rows, sorted by `ts`.
fn table(path: &Path, rows: i64) -> Outcome<()> {
    if path.exists() {
        return Ok(());
    }
    let options = WriterOptions { sorted_by: Some("ts".into()), sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(path, Some(ticks(0, 1)?.schema()), &options)?;
    for start in (0..rows).step_by(BATCH as usize) {
        writer.append(&ticks(start, BATCH.min(rows - start))?)?;
    }
    writer.commit()?;
    writer.close()?;
    Ok(())
}

/// The answer of a query, with the seconds that it took and its planning.
async fn asked(context: &SessionContext, sql: &str) -> Outcome<(f64, String)> {
    let begun = Instant::now();
    let batches = context.sql(sql).await?.collect().await?;
    let taken = begun.elapsed().as_secs_f64();
    Ok((taken, pretty_format_batches(&batches)?.to_string()))
}

/// The medians of the seconds that two sides take in turns, after a round that does not count; and their answer.
async fn in_turns(sides: [(&SessionContext, &str); 2], rounds: usize) -> Outcome<([f64; 2], String)> {
    let mut taken = [Vec::new(), Vec::new()];
    let mut answer = String::new();
    for round in 0..=rounds {
        let [ours, own] = [asked(sides[0].0, sides[0].1).await?, asked(sides[1].0, sides[1].1).await?];
        assert_eq!(ours.1, own.1, "{}", sides[0].1);
        if round > 0 {
            taken[0].push(ours.0);
            taken[1].push(own.0);
        }
        answer = ours.1;
    }
    Ok((taken.map(median), answer))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Has the system forget what it holds of the files of a folder.
fn forget(folder: &Path) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let file = File::open(entry?.path())?;
        file.sync_all()?;
        // SAFETY: takes the number of an open file, and numbers.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    Ok(())
}

/// How many bytes of the files of a folder the system holds in memory. An open table knows those that it has mapped itself.
fn resident(folder: &Path) -> Outcome<usize> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        sum += Mapping::open(entry?.path(), Mode::Read)?.resident()?;
    }
    Ok(sum)
}

async fn filter_and_group(folder: &Path, share: i64) -> Outcome<()> {
    let rows = 5_600_000 / share;
    let path = folder.join(format!("ticks-{rows}.arrow"));
    file(&path, rows)?;
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    context.register_arrow("own", path.to_str().unwrap_or_default(), ArrowReadOptions::default()).await?;
    for what in ["symbol, avg(price) as mean", "symbol, count(*) as n"] {
        let sql = |table: &str| format!("select {what} from {table} where price > 100 group by symbol order by symbol");
        let ([ours, own], _) = in_turns([(&context, &sql("ours")), (&context, &sql("own"))], 15).await?;
        println!("{rows} rows, {what}: ours {:.1} ms, DataFusion's {:.1} ms, {:.2}", ours * 1e3, own * 1e3, ours / own);
    }
    Ok(())
}

async fn one_in_a_thousand(folder: &Path, share: i64) -> Outcome<()> {
    let rows = 56_000_000 / share;
    let path: PathBuf = folder.join(format!("ticks-{rows}"));
    table(&path, rows)?;
    let location = format!("{}/", path.display());
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    context.register_arrow("own", &location, ArrowReadOptions::default()).await?;
    let from = rows / 3;
    let to = from + rows / 1000;
    let sql = |table: &str| {
        format!(
            "select symbol, avg(price) as mean from {table} where ts >= {from} and ts < {to} group by symbol order by symbol"
        )
    };
    let ([ours, own], _) = in_turns([(&context, &sql("ours")), (&context, &sql("own"))], 7).await?;
    println!("0.1 % of {rows} rows: ours {:.2} ms, DataFusion's {:.1} ms, 1/{:.0}", ours * 1e3, own * 1e3, own / ours);
    drop(context);
    forget(&path)?;
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    let before = resident(&path)?;
    context.sql(&sql("ours")).await?.collect().await?;
    let read = resident(&path)?.saturating_sub(before);
    let all = arrowwood::open(&path)?.nbytes()?;
    println!(
        "  bytes read: {:.2} MB of {:.0} MB, {:.2} %",
        read as f64 / 1e6,
        all as f64 / 1e6,
        100.0 * read as f64 / all as f64
    );
    Ok(())
}

/// Ten questions like ClickBench's over 10 M rows of a web site's log, sorted by time: of a table of ours, and of Parquet that
/// DataFusion has written. The answers are left for `bench/hits.py`, which compares those of DuckDB with them.
#[cfg(feature = "parquet")]
mod hits {
    use datafusion::arrow::datatypes::{DataType, TimeUnit};

    use super::*;

    const QUERIES: &str = include_str!("hits.sql");

    /// A number that looks like chance.
    fn mixed(n: i64) -> u64 {
        let mut x = (n as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Few of the small numbers below `most`, and many of the smallest.
    fn skewed(n: i64, most: u64) -> u64 {
        let x = mixed(n) % most;
        x * x / most * x / most
    }

    fn rows(start: i64, rows: i64) -> Outcome<RecordBatch> {
        let each = || start..start + rows;
        // 1 July 2013, and 31 days of it.
        let time = |n: i64| 1_372_636_800_000_000 + n * 267_840;
        let url = |n: i64| {
            let site = skewed(n ^ 11, 5_000);
            let host = if site % 400 == 7 { "google" } else { "site" };
            format!("http://{host}{site}.example/{}/page-{}.html", mixed(site as i64) % 100, skewed(n ^ 13, 20_000))
        };
        let phrase = |n: i64| {
            if mixed(n ^ 17) % 8 > 0 { String::new() } else { format!("words to look for {}", skewed(n ^ 19, 200_000)) }
        };
        let times = TimestampMicrosecondArray::from_iter_values(each().map(time));
        Ok(RecordBatch::try_from_iter([
            ("time", Arc::new(times) as ArrayRef),
            ("counter", Arc::new(Int32Array::from_iter_values(each().map(|n| skewed(n ^ 3, 6_000) as i32)))),
            ("region", Arc::new(Int32Array::from_iter_values(each().map(|n| skewed(n ^ 5, 5_000) as i32)))),
            (
                "visitor",
                Arc::new(Int64Array::from_iter_values(
                    each().map(|n| (mixed(skewed(n ^ 7, 1_500_000) as i64) >> 1) as i64),
                )),
            ),
            ("url", Arc::new(StringArray::from_iter_values(each().map(url)))),
            ("phrase", Arc::new(StringArray::from_iter_values(each().map(phrase)))),
            (
                "adv",
                Arc::new(Int16Array::from_iter_values(
                    each().map(|n| if mixed(n ^ 23) % 100 > 0 { 0 } else { (mixed(n) % 60) as i16 }),
                )),
            ),
            ("width", Arc::new(Int16Array::from_iter_values(each().map(|n| 320 + (mixed(n ^ 29) % 16) as i16 * 100)))),
        ])?)
    }

    fn make(path: &Path, all: i64) -> Outcome<()> {
        if path.exists() {
            return Ok(());
        }
        let schema = rows(0, 1)?.schema();
        assert_eq!(*schema.field(0).data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
        let options =
            WriterOptions { sorted_by: Some("time".into()), sync: SyncPolicy::Never, ..WriterOptions::default() };
        let mut writer = Writer::open(path, Some(schema), &options)?;
        for start in (0..all).step_by(BATCH as usize) {
            writer.append(&rows(start, BATCH.min(all - start))?)?;
        }
        writer.commit()?;
        writer.close()?;
        Ok(())
    }

    pub async fn ask(folder: &Path, share: i64) -> Outcome<()> {
        let folder = folder.join(format!("hits-{share}"));
        fs::create_dir_all(&folder)?;
        let path = folder.join("hits");
        make(&path, 10_000_000 / share)?;
        let parquet = folder.join("hits.parquet");
        let parquet_path = parquet.to_str().unwrap_or_default();
        let [ours, own] = [SessionContext::new(), SessionContext::new()];
        ours.register_table("hits", Arc::new(Table::open(&path)?))?;
        if !parquet.exists() {
            ours.sql(&format!("copy hits to '{parquet_path}' stored as parquet")).await?.collect().await?;
        }
        own.register_parquet("hits", parquet_path, ParquetReadOptions::default()).await?;
        let mut totals = [0.0, 0.0];
        println!("| question | ours ms | Parquet ms |\n|---|---:|---:|");
        for (number, sql) in (1..).zip(QUERIES.lines()) {
            let (taken, answer) = in_turns([(&ours, sql), (&own, sql)], 5).await?;
            fs::write(folder.join(format!("hits-{number}.txt")), answer)?;
            println!("| {number} | {:.1} | {:.1} |", taken[0] * 1e3, taken[1] * 1e3);
            totals = [totals[0] + taken[0], totals[1] + taken[1]];
        }
        println!("| all | {:.1} | {:.1} |", totals[0] * 1e3, totals[1] * 1e3);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let share = if arguments.iter().any(|argument| argument == "--quick") { 20 } else { 1 };
    let mut named = arguments.iter().filter(|argument| !argument.starts_with("--"));
    let folder = Path::new(named.next().map_or("target/figures", String::as_str));
    let parts: Vec<_> = named.collect();
    let has = |part: &str| parts.is_empty() || parts.iter().any(|named| *named == part);
    fs::create_dir_all(folder)?;
    if has("group") {
        filter_and_group(folder, share).await?;
    }
    if has("few") {
        one_in_a_thousand(folder, share).await?;
    }
    #[cfg(feature = "parquet")]
    if has("hits") {
        hits::ask(folder, share).await?;
    }
    Ok(())
}
