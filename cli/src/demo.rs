//! `arrowwood demo`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int8Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrowwood::{Dataset, Error, WriteOptions, bytes_text, open, write};
use clap::Args;

use crate::live;
use crate::shell::{Failure, Outcome, Stdout, width};

/// Makes a file of 5.6 million rows, opens it in place and sums a column; then follows a table that another process
/// appends to.
#[derive(Args)]
#[command(after_help = "Example: arrowwood demo --keep .")]
pub(crate) struct Demo {
    /// Leave the file in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Be the process that appends.
    #[arg(long, value_name = "TABLE", hide = true)]
    append: Option<PathBuf>,
}

impl Demo {
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome {
        if let Some(table) = &self.append {
            return live::append(table, &SYMBOLS, &prices());
        }
        let directory = match &self.keep {
            Some(directory) => Directory::kept(directory)?,
            None => Directory::temporary()?,
        };
        let path = directory.path.join("stocks.arrow");
        let dataset = stocks()?;
        let ((), took) = timed(|| write(&dataset, &path, &WriteOptions::default()))?;
        let size = fs::metadata(&path).map_or(0, |data| data.len());
        writeln!(out, "wrote {}, {}, in {took:.1?}", path.display(), bytes_text(size))?;
        show(&path, out)?;
        live::show(&directory.path, out)
    }
}

fn show(path: &Path, out: &mut Stdout) -> Outcome {
    let (dataset, took) = timed(|| open(path))?;
    writeln!(out, "opened it in {took:.1?}\n\n{}\n", dataset.preview().width(width()))?;
    let price = dataset.column("price")?;
    let (sum, took) = timed(|| price.sum())?;
    writeln!(out, "the sum of price is {sum}, found in {took:.1?}\n\nthe first messages of the file:")?;
    for message in dataset.messages()?.iter().take(2) {
        writeln!(out, "{message}")?;
    }
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> arrowwood::Result<T>) -> Outcome<(T, Duration)> {
    let start = Instant::now();
    let done = work()?;
    Ok((done, start.elapsed()))
}

/// Where the file lies, and whether it goes away.
struct Directory {
    path: PathBuf,
    temporary: bool,
}

impl Directory {
    fn kept(path: &Path) -> Outcome<Directory> {
        fs::create_dir_all(path).map_err(|e| Error::io("creating a directory", &e).at(path))?;
        Ok(Directory { path: path.into(), temporary: false })
    }

    fn temporary() -> Outcome<Directory> {
        let path = std::env::temp_dir().join(format!("arrowwood-demo-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| Error::io("creating a directory", &e).at(&path))?;
        Ok(Directory { path, temporary: true })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.temporary {
            // What can't be removed stays; the system clears its temporary directory some day.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

const SYMBOLS: [&str; 5] = ["MSFT", "AMZN", "IBM", "GOOG", "AAPL"];
const MONTHS: usize = 112;
const COPIES: usize = 10_000;

/// Monthly prices of five shares, made up, 10,000 times over.
fn stocks() -> Outcome<Dataset> {
    let keys: Vec<i8> = (0..5).flat_map(|key| [key; MONTHS]).collect();
    let dates = months().repeat(SYMBOLS.len() * COPIES);
    let keys = Int8Array::from(keys.repeat(COPIES));
    let symbols = DictionaryArray::<Int8Type>::try_new(keys, Arc::new(StringArray::from(SYMBOLS.to_vec())));
    let columns: [(&str, ArrayRef); 3] = [
        ("symbol", Arc::new(symbols.map_err(unlikely)?)),
        ("date", Arc::new(TimestampMillisecondArray::from(dates).with_timezone("UTC"))),
        ("price", Arc::new(Float64Array::from(prices().repeat(COPIES)))),
    ];
    Ok(Dataset::try_from(vec![RecordBatch::try_from_iter(columns).map_err(unlikely)?])?)
}

fn unlikely(error: arrow_schema::ArrowError) -> Failure {
    Failure::hint(&error.to_string())
}

/// The first of each month from January 2000 on, in milliseconds.
fn months() -> Vec<i64> {
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let starts = (0..MONTHS).scan(10_957, |day, month| {
        let start = *day;
        let leap = month % 48 == 1;
        *day += DAYS[month % 12] + i64::from(leap);
        Some(start * 86_400_000)
    });
    starts.collect()
}

/// A walk at random that is the same every time, in cents.
fn prices() -> Vec<f64> {
    let mut state = 1u32;
    let mut price = 50.0;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        price *= 0.9 + 0.2025 * f64::from(state >> 16) / 65_536.0;
        (price * 100.0_f64).round() / 100.0
    };
    (0..SYMBOLS.len() * MONTHS).map(next).collect()
}
