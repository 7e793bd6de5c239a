//! Measures DataFusion over files and tables of Arrowwood, against DataFusion's own readers of Arrow files and Parquet.
//!
//! Run it by `make bench-sql`, or by `cargo run --release --features parquet --example figures -- FOLDER [--quick]
//! [PART...]`. The folder takes 4 GB. Parts are `group`, `few` and `hits`, which needs the feature. The two sides run
//! in turns, and their answers are compared in each round.

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
const BATCH_ROWS: i64 = 1 << 16;

fn tick_rows(start: i64, rows: i64) -> Outcome<RecordBatch> {
    let numbers = start..start + rows;
    let keys = Int8Array::from_iter_values(numbers.clone().map(|n| (n * 7919 % 5) as i8));
    let symbols = DictionaryArray::<Int8Type>::try_new(keys, Arc::new(StringArray::from(SYMBOLS.to_vec())))?;
    // Prices are multiples of a half, so that sums are exact in any order.
    Ok(RecordBatch::try_from_iter([
        ("ts", Arc::new(Int64Array::from_iter_values(numbers.clone())) as ArrayRef),
        ("symbol", Arc::new(symbols)),
        ("price", Arc::new(Float64Array::from_iter_values(numbers.clone().map(|n| (n * 31 % 1_200) as f64 / 2.0)))),
    ])?)
}

/// Writes a file of `rows` rows unless it exists.
fn write_file(path: &Path, rows: i64) -> Outcome<()> {
    if path.exists() {
        return Ok(());
    }
    let mut batches = Vec::new();
    for start in (0..rows).step_by(BATCH_ROWS as usize) {
        batches.push(tick_rows(start, BATCH_ROWS.min(rows - start))?);
    }
    write(&Dataset::try_from(batches)?, path, &WriteOptions::default())?;
    Ok(())
}

/// Writes a table of `rows` rows, sorted by `ts`, unless it exists.
fn write_table(path: &Path, rows: i64) -> Outcome<()> {
    if path.exists() {
        return Ok(());
    }
    let options = WriterOptions { sorted_by: Some("ts".into()), sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(path, Some(tick_rows(0, 1)?.schema()), &options)?;
    for start in (0..rows).step_by(BATCH_ROWS as usize) {
        writer.append(&tick_rows(start, BATCH_ROWS.min(rows - start))?)?;
    }
    writer.commit()?;
    writer.close()?;
    Ok(())
}

/// One side of a comparison: a context with a table, and the statement over it.
struct Side<'a> {
    context: &'a SessionContext,
    sql: &'a str,
}

impl Side<'_> {
    /// Plans and runs the statement. Returns the seconds that this takes, and the answer as text.
    async fn run(&self) -> Outcome<(f64, String)> {
        let start = Instant::now();
        let batches = self.context.sql(self.sql).await?.collect().await?;
        let seconds = start.elapsed().as_secs_f64();
        Ok((seconds, pretty_format_batches(&batches)?.to_string()))
    }
}

/// The result of a comparison of Arrowwood with DataFusion's own reader.
struct Comparison {
    ours_seconds: f64,
    theirs_seconds: f64,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only `hits` writes it to a file"))]
    answer: String,
}

/// Runs two sides in turns, after a round that does not count. Returns the medians of their times.
async fn compare(ours: Side<'_>, theirs: Side<'_>, rounds: usize) -> Outcome<Comparison> {
    let mut ours_times = Vec::new();
    let mut theirs_times = Vec::new();
    let mut answer = String::new();
    for round in 0..=rounds {
        let (ours_seconds, ours_answer) = ours.run().await?;
        let (theirs_seconds, theirs_answer) = theirs.run().await?;
        assert_eq!(ours_answer, theirs_answer, "{}", ours.sql);
        if round > 0 {
            ours_times.push(ours_seconds);
            theirs_times.push(theirs_seconds);
        }
        answer = ours_answer;
    }
    Ok(Comparison { ours_seconds: median(ours_times), theirs_seconds: median(theirs_times), answer })
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Removes the files of a folder from the page cache.
fn drop_from_cache(folder: &Path) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let file = File::open(entry?.path())?;
        file.sync_all()?;
        // SAFETY: the call takes the descriptor of an open file, and numbers. It accesses no memory.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
    Ok(())
}

/// Returns the bytes of the files of a folder that are in the page cache. An open table would report only the files
/// that it has mapped.
fn cached_bytes(folder: &Path) -> Outcome<usize> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        sum += Mapping::open(entry?.path(), Mode::Read)?.resident()?;
    }
    Ok(sum)
}

async fn filter_and_group(folder: &Path, divisor: i64) -> Outcome<()> {
    let rows = 5_600_000 / divisor;
    let path = folder.join(format!("ticks-{rows}.arrow"));
    write_file(&path, rows)?;
    let path_text = path.to_str().ok_or("the path is not UTF-8")?;
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    context.register_arrow("theirs", path_text, ArrowReadOptions::default()).await?;
    for columns in ["symbol, avg(price) as mean", "symbol, count(*) as n"] {
        let condition = "where price > 100 group by symbol order by symbol";
        let ours = Side { context: &context, sql: &format!("select {columns} from ours {condition}") };
        let theirs = Side { context: &context, sql: &format!("select {columns} from theirs {condition}") };
        let Comparison { ours_seconds, theirs_seconds, .. } = compare(ours, theirs, 15).await?;
        println!(
            "{rows} rows, {columns}: ours {:.1} ms, DataFusion's {:.1} ms, {:.2}",
            ours_seconds * 1e3,
            theirs_seconds * 1e3,
            ours_seconds / theirs_seconds
        );
    }
    Ok(())
}

/// Queries a thousandth of a sorted table.
async fn one_in_a_thousand(folder: &Path, divisor: i64) -> Outcome<()> {
    let rows = 56_000_000 / divisor;
    let path: PathBuf = folder.join(format!("ticks-{rows}"));
    write_table(&path, rows)?;
    let location = format!("{}/", path.display());
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    context.register_arrow("theirs", &location, ArrowReadOptions::default()).await?;
    let start = rows / 3;
    let end = start + rows / 1000;
    let condition = format!("where ts >= {start} and ts < {end} group by symbol order by symbol");
    let ours_sql = format!("select symbol, avg(price) as mean from ours {condition}");
    let theirs_sql = format!("select symbol, avg(price) as mean from theirs {condition}");
    let ours = Side { context: &context, sql: &ours_sql };
    let theirs = Side { context: &context, sql: &theirs_sql };
    let Comparison { ours_seconds, theirs_seconds, .. } = compare(ours, theirs, 7).await?;
    println!(
        "0.1 % of {rows} rows: ours {:.2} ms, DataFusion's {:.1} ms, 1/{:.0}",
        ours_seconds * 1e3,
        theirs_seconds * 1e3,
        theirs_seconds / ours_seconds
    );

    drop(context);
    drop_from_cache(&path)?;
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    let cached_before = cached_bytes(&path)?;
    context.sql(&ours_sql).await?.collect().await?;
    // The system may have removed other pages meanwhile.
    let read_bytes = cached_bytes(&path)?.saturating_sub(cached_before);
    let table_bytes = arrowwood::open(&path)?.nbytes()?;
    println!(
        "  bytes read: {:.2} MB of {:.0} MB, {:.2} %",
        read_bytes as f64 / 1e6,
        table_bytes as f64 / 1e6,
        100.0 * read_bytes as f64 / table_bytes as f64
    );
    Ok(())
}

/// Ten queries like ClickBench's over 10 M rows of a web site's log, sorted by time: over a table, and over Parquet
/// that DataFusion has written. The answers are written to files for `bench/hits.py`, which compares them with
/// DuckDB's.
#[cfg(feature = "parquet")]
mod hits {
    use datafusion::arrow::datatypes::{DataType, TimeUnit};

    use super::*;

    const QUERIES: &str = include_str!("hits.sql");

    /// Returns a pseudo-random number for `n`, by SplitMix64.
    fn mixed(n: i64) -> u64 {
        let mut x = (n as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Returns a pseudo-random number below `end`: small ones much more often than large ones.
    fn skewed(n: i64, end: u64) -> u64 {
        let x = mixed(n) % end;
        x * x / end * x / end
    }

    /// Returns a time within July 2013, in microseconds.
    fn time(n: i64) -> i64 {
        1_372_636_800_000_000 + n * 267_840
    }

    fn url(n: i64) -> String {
        let site = skewed(n ^ 11, 5_000);
        let host = if site % 400 == 7 { "google" } else { "site" };
        format!("http://{host}{site}.example/{}/page-{}.html", mixed(site as i64) % 100, skewed(n ^ 13, 20_000))
    }

    /// Returns a search phrase, which is empty in most rows.
    fn phrase(n: i64) -> String {
        if mixed(n ^ 17) % 8 > 0 { String::new() } else { format!("words to look for {}", skewed(n ^ 19, 200_000)) }
    }

    fn visitor(n: i64) -> i64 {
        (mixed(skewed(n ^ 7, 1_500_000) as i64) >> 1) as i64
    }

    /// Returns the number of a campaign, or 0 in most rows.
    fn campaign(n: i64) -> i16 {
        if mixed(n ^ 23) % 100 > 0 { 0 } else { (mixed(n) % 60) as i16 }
    }

    fn hit_rows(start: i64, rows: i64) -> Outcome<RecordBatch> {
        let numbers = start..start + rows;
        let widths = numbers.clone().map(|n| 320 + (mixed(n ^ 29) % 16) as i16 * 100);
        Ok(RecordBatch::try_from_iter([
            ("time", Arc::new(TimestampMicrosecondArray::from_iter_values(numbers.clone().map(time))) as ArrayRef),
            ("counter", Arc::new(Int32Array::from_iter_values(numbers.clone().map(|n| skewed(n ^ 3, 6_000) as i32)))),
            ("region", Arc::new(Int32Array::from_iter_values(numbers.clone().map(|n| skewed(n ^ 5, 5_000) as i32)))),
            ("visitor", Arc::new(Int64Array::from_iter_values(numbers.clone().map(visitor)))),
            ("url", Arc::new(StringArray::from_iter_values(numbers.clone().map(url)))),
            ("phrase", Arc::new(StringArray::from_iter_values(numbers.clone().map(phrase)))),
            ("adv", Arc::new(Int16Array::from_iter_values(numbers.clone().map(campaign)))),
            ("width", Arc::new(Int16Array::from_iter_values(widths))),
        ])?)
    }

    /// Writes a table of `count` rows unless it exists.
    fn write_hits(path: &Path, count: i64) -> Outcome<()> {
        if path.exists() {
            return Ok(());
        }
        let schema = hit_rows(0, 1)?.schema();
        assert_eq!(*schema.field(0).data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
        let options =
            WriterOptions { sorted_by: Some("time".into()), sync: SyncPolicy::Never, ..WriterOptions::default() };
        let mut writer = Writer::open(path, Some(schema), &options)?;
        for start in (0..count).step_by(BATCH_ROWS as usize) {
            writer.append(&hit_rows(start, BATCH_ROWS.min(count - start))?)?;
        }
        writer.commit()?;
        writer.close()?;
        Ok(())
    }

    pub async fn run(folder: &Path, divisor: i64) -> Outcome<()> {
        let folder = folder.join(format!("hits-{divisor}"));
        fs::create_dir_all(&folder)?;
        let path = folder.join("hits");
        write_hits(&path, 10_000_000 / divisor)?;
        let parquet = folder.join("hits.parquet");
        let parquet_path = parquet.to_str().ok_or("the path is not UTF-8")?;
        let ours = SessionContext::new();
        ours.register_table("hits", Arc::new(Table::open(&path)?))?;
        if !parquet.exists() {
            ours.sql(&format!("copy hits to '{parquet_path}' stored as parquet")).await?.collect().await?;
        }
        let theirs = SessionContext::new();
        theirs.register_parquet("hits", parquet_path, ParquetReadOptions::default()).await?;
        let mut ours_total = 0.0;
        let mut theirs_total = 0.0;
        println!("| question | ours ms | Parquet ms |\n|---|---:|---:|");
        for (number, sql) in (1..).zip(QUERIES.lines()) {
            let ours = Side { context: &ours, sql };
            let theirs = Side { context: &theirs, sql };
            let Comparison { ours_seconds, theirs_seconds, answer } = compare(ours, theirs, 5).await?;
            fs::write(folder.join(format!("hits-{number}.txt")), answer)?;
            println!("| {number} | {:.1} | {:.1} |", ours_seconds * 1e3, theirs_seconds * 1e3);
            ours_total += ours_seconds;
            theirs_total += theirs_seconds;
        }
        println!("| all | {:.1} | {:.1} |", ours_total * 1e3, theirs_total * 1e3);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // A quick run has a fraction of the rows.
    let divisor = if arguments.iter().any(|argument| argument == "--quick") { 20 } else { 1 };
    let mut positional = arguments.iter().filter(|argument| !argument.starts_with("--"));
    let folder = Path::new(positional.next().map_or("target/figures", String::as_str));
    let parts: Vec<&str> = positional.map(String::as_str).collect();
    fs::create_dir_all(folder)?;
    if parts.is_empty() || parts.contains(&"group") {
        filter_and_group(folder, divisor).await?;
    }
    if parts.is_empty() || parts.contains(&"few") {
        one_in_a_thousand(folder, divisor).await?;
    }
    #[cfg(feature = "parquet")]
    if parts.is_empty() || parts.contains(&"hits") {
        hits::run(folder, divisor).await?;
    }
    Ok(())
}
