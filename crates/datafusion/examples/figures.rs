//! What DataFusion takes over our files and tables, beside its own reader over the same Arrow files: `cargo run --release
//! --example figures -- FOLDER`, which needs 2 GB of disk in the folder.

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

#[tokio::main]
async fn main() -> Outcome<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "target/figures".into());
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    filter_and_group(folder).await?;
    one_in_a_thousand(folder).await
}
