//! What DataFusion takes over our files and tables, beside its own reader over the same Arrow files: `cargo run --release
//! --example figures -- FOLDER`, which needs 2 GB of disk in the folder. With `--features parquet`, also ten questions like
//! ClickBench's over a table of ours and over the same rows in Parquet, which takes 2 GB more.

use std::error::Error;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrowwood::{Dataset, Sync, WriteOptions, Writer, WriterOptions, write};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::Int8Type;
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
    Ok(RecordBatch::try_from_iter([
        ("ts", Arc::new(Int64Array::from_iter_values(each())) as ArrayRef),
        ("symbol", Arc::new(symbols)),
        ("price", Arc::new(Float64Array::from_iter_values(each().map(|n| (n * 31 % 60_000) as f64 / 100.0)))),
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
    let options = WriterOptions { sorted_by: Some("ts".into()), sync: Sync::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(path, Some(ticks(0, 1)?.schema()), &options)?;
    for start in (0..rows).step_by(BATCH as usize) {
        writer.append(&ticks(start, BATCH.min(rows - start))?)?;
    }
    writer.commit()?;
    writer.close()?;
    Ok(())
}

/// The median of the seconds that a query takes, with its planning.
async fn seconds(context: &SessionContext, sql: &str, times: usize) -> Outcome<f64> {
    let mut taken = Vec::new();
    for _ in 0..times {
        let begun = Instant::now();
        context.sql(sql).await?.collect().await?;
        taken.push(begun.elapsed().as_secs_f64());
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken[times / 2])
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

async fn filter_and_group(folder: &Path) -> Outcome<()> {
    let path = folder.join("ticks.arrow");
    file(&path, 5_600_000)?;
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    context.register_arrow("own", path.to_str().unwrap_or_default(), ArrowReadOptions::default()).await?;
    for what in ["symbol, avg(price)", "symbol, count(*)"] {
        let sql = |table: &str| format!("select {what} from {table} where price > 100 group by symbol");
        let ours = seconds(&context, &sql("ours"), 15).await?;
        let own = seconds(&context, &sql("own"), 15).await?;
        println!("5.6 M rows, {what}: ours {:.1} ms, DataFusion's {:.1} ms, {:.2}", ours * 1e3, own * 1e3, ours / own);
    }
    Ok(())
}

async fn one_in_a_thousand(folder: &Path) -> Outcome<()> {
    const ROWS: i64 = 56_000_000;
    let path: PathBuf = folder.join("ticks");
    table(&path, ROWS)?;
    let location = format!("{}/", path.display());
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    context.register_arrow("own", &location, ArrowReadOptions::default()).await?;
    let from = ROWS / 3;
    let to = from + ROWS / 1000;
    let sql = |table: &str| {
        format!("select symbol, avg(price) from {table} where ts >= {from} and ts < {to} group by symbol")
    };
    let ours = seconds(&context, &sql("ours"), 15).await?;
    let own = seconds(&context, &sql("own"), 5).await?;
    println!("0.1 % of 56 M rows: ours {:.2} ms, DataFusion's {:.1} ms, 1/{:.0}", ours * 1e3, own * 1e3, own / ours);
    drop(context);
    forget(&path)?;
    let context = SessionContext::new();
    context.register_table("ours", Arc::new(Table::open(&path)?))?;
    let dataset = arrowwood::open(&path)?;
    let before = dataset.resident()?;
    context.sql(&sql("ours")).await?.collect().await?;
    let read = dataset.resident()?.saturating_sub(before);
    let all = dataset.nbytes()?;
    println!(
        "  bytes read: {:.2} MB of {:.0} MB, {:.2} %",
        read as f64 / 1e6,
        all as f64 / 1e6,
        100.0 * read as f64 / all as f64
    );
    Ok(())
}

/// Ten questions over 10 M rows of a web site's log, sorted by time, of ours and of Parquet: answers compared, and each
/// question's times. Those that DuckDB gives to the same are compared by `bench/hits.py`.
#[cfg(feature = "parquet")]
mod hits {
    use datafusion::arrow::datatypes::{DataType, TimeUnit};
    use datafusion::arrow::util::pretty::pretty_format_batches;

    use super::*;

    const ROWS: i64 = 10_000_000;
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

    fn make(path: &Path) -> Outcome<()> {
        if path.exists() {
            return Ok(());
        }
        let schema = rows(0, 1)?.schema();
        assert_eq!(*schema.field(0).data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
        let options = WriterOptions { sorted_by: Some("time".into()), sync: Sync::Never, ..WriterOptions::default() };
        let mut writer = Writer::open(path, Some(schema), &options)?;
        for start in (0..ROWS).step_by(BATCH as usize) {
            writer.append(&rows(start, BATCH.min(ROWS - start))?)?;
        }
        writer.commit()?;
        writer.close()?;
        Ok(())
    }

    async fn answer(context: &SessionContext, sql: &str) -> Outcome<String> {
        Ok(pretty_format_batches(&context.sql(sql).await?.collect().await?)?.to_string())
    }

    pub async fn ask(folder: &Path) -> Outcome<()> {
        let path = folder.join("hits");
        make(&path)?;
        let parquet = folder.join("hits.parquet");
        let parquet_path = parquet.to_str().unwrap_or_default();
        let [ours, theirs] = [SessionContext::new(), SessionContext::new()];
        ours.register_table("hits", Arc::new(Table::open(&path)?))?;
        if !parquet.exists() {
            ours.sql(&format!("copy hits to '{parquet_path}' stored as parquet")).await?.collect().await?;
        }
        theirs.register_parquet("hits", parquet_path, ParquetReadOptions::default()).await?;
        let mut totals = [0.0, 0.0];
        println!("question\tours ms\tParquet ms");
        for (number, sql) in (1..).zip(QUERIES.lines()) {
            let answers = [answer(&ours, sql).await?, answer(&theirs, sql).await?];
            assert_eq!(answers[0], answers[1], "{sql}");
            fs::write(folder.join(format!("hits-{number}.txt")), &answers[0])?;
            let times = [seconds(&ours, sql, 3).await?, seconds(&theirs, sql, 3).await?];
            println!("{number}\t{:.1}\t{:.1}", times[0] * 1e3, times[1] * 1e3);
            totals = [totals[0] + times[0], totals[1] + times[1]];
        }
        println!("all\t{:.1}\t{:.1}", totals[0] * 1e3, totals[1] * 1e3);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "target/figures".into());
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    filter_and_group(folder).await?;
    one_in_a_thousand(folder).await?;
    #[cfg(feature = "parquet")]
    hits::ask(folder).await?;
    Ok(())
}
