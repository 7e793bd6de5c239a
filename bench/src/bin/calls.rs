//! Measures calls in Rust. `bench/calls.py` compares them with calls from C (`bench/c/calls.c`).
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin calls -- make FOLDER    # creates the data
//! $ cargo run --release -p arrowwood-bench --bin calls -- FOLDER
//! ```

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Float64Array, Int8Array, RecordBatch, StringArray};
use arrow_array::{TimestampMillisecondArray, ffi_stream::ArrowArrayStreamReader};
use arrow_schema::TimeUnit;
use arrowwood::{
    Dataset, Format, Result, SyncPolicy, Value, WriteOptions, Writer, WriterOptions, open, parse_schema, write,
};

const ROWS: usize = 5_600_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", folder] => write_data(Path::new(folder)),
        [folder] => measure_all(Path::new(folder)),
        _ => panic!("calls [make] FOLDER"),
    }
}

/// Writes 5.6 million rows like the ones of `stocks.arrow`: in one batch, and in 5,600 batches.
fn write_data(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).expect("a folder");
    let symbols: ArrayRef = Arc::new(StringArray::from(vec!["MSFT", "AMZN", "IBM", "GOOG", "AAPL"]));
    let keys = Int8Array::from_iter_values((0..ROWS).map(|row| (row / 123 % 5) as i8));
    let dates = (0..ROWS).map(|row| 946_684_800_000 + 2_678_400_000 * (row % 123) as i64);
    let prices: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| 1.0 + (row % 560) as f64 / 4.0)));
    let columns: [(&str, ArrayRef); 3] = [
        ("symbol", Arc::new(DictionaryArray::<Int8Type>::new(keys, symbols))),
        ("date", Arc::new(TimestampMillisecondArray::from_iter_values(dates).with_timezone("UTC"))),
        ("price", prices),
    ];
    let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter(columns).expect("columns of one length")])?;
    let stream = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
    write(&dataset, folder.join("one.stream"), &stream)?;
    write(&dataset, folder.join("many.stream"), &WriteOptions { max_rows: Some(1000), ..stream })
}

/// Prints the minimum and the median time of `work` in nanoseconds. Each round repeats it `repeats` times; one more round
/// comes first and does not count.
fn measure<T>(name: &str, repeats: u32, rounds: usize, mut work: impl FnMut() -> Result<T>) -> Result<()> {
    let mut times = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        let start = Instant::now();
        for _ in 0..repeats {
            black_box(work()?);
        }
        if round > 0 {
            times.push(start.elapsed().as_nanos() as f64 / f64::from(repeats));
        }
    }
    times.sort_by(f64::total_cmp);
    println!("{name}\t{:.1}\t{:.1}", times[0], times[rounds / 2]);
    Ok(())
}

fn add_up(values: &[u8]) -> f64 {
    let (steps, rest) = values.as_chunks::<8>().0.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for step in steps {
        lanes.iter_mut().zip(step).for_each(|(lane, raw)| *lane += f64::from_le_bytes(*raw));
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|raw| f64::from_le_bytes(*raw)).sum::<f64>()
}

fn measure_all(folder: &Path) -> Result<()> {
    let (one_batch, many_batches) = (folder.join("one.stream"), folder.join("many.stream"));
    let dataset = open(&one_batch)?;
    measure("number of rows", 10_000, 101, || dataset.len())?;
    measure("column that is not there (error)", 1000, 101, || Ok(dataset.column("cost").is_err()))?;
    measure("open + rows + free", 20, 101, || open(&one_batch)?.len())?;
    measure("open + first row + free", 20, 101, || read_cells(&open(&one_batch)?, 0))?;
    measure("open + sum of 5,600,000", 1, 51, || open(&one_batch)?.column_at(2)?.sum())?;
    let mut row = 0;
    measure("any row, 3 cells", 1000, 101, || {
        row = (row + 2_654_435_761) % ROWS as u64;
        read_cells(&dataset, row)
    })?;
    let (mut writer, table) = create_table(&folder.join("rust-table"))?;
    measure("refresh, nothing new", 1000, 101, || table.refresh())?;
    measure("5,600 batches: open + stream of arrays + sum by hand", 1, 21, || {
        let reader = ArrowArrayStreamReader::try_new(open(&many_batches)?.export_stream()?).expect("a stream");
        Ok(reader.map(|batch| add_up(batch.expect("a batch").column(2).to_data().buffers()[0].as_slice())).sum::<f64>())
    })?;
    measure("5,600 batches: open + chunks + sum by hand", 1, 21, || {
        let chunks = open(&many_batches)?.column_at(2)?.chunks()?;
        Ok(chunks.iter().map(|chunk| add_up(&chunk.buffers()[0].as_slice()[..8 * chunk.len()])).sum::<f64>())
    })?;
    measure("5,600 batches: open + sum", 1, 21, || open(&many_batches)?.column_at(2)?.sum())?;
    let mut next_time = 0;
    for (rows_per_commit, description) in [(1, "a commit each"), (100, "a commit every 100"), (10_000, "one commit")] {
        let name = format!("10,000 rows appended one by one, {description}");
        measure(&name, 1, 31, || append(&mut writer, rows_per_commit, &mut next_time))?;
    }
    Ok(())
}

/// Reads each cell of a row as a value, as C does.
fn read_cells(dataset: &Dataset, row: u64) -> Result<f64> {
    let row = dataset.row(row)?;
    let mut last = 0.0;
    for column in 0..row.len() {
        if let Value::Float64(number) = black_box(row.get(column)?) {
            last = number;
        }
    }
    Ok(last)
}

fn create_table(path: &Path) -> Result<(Writer, Dataset)> {
    let schema = parse_schema("ts: timestamp[us] not null, symbol: utf8, price: float64")?;
    let options =
        WriterOptions { sync: SyncPolicy::Never, dictionary: vec!["symbol".into()], ..WriterOptions::default() };
    let writer = Writer::open(path, Some(Arc::new(schema)), &options)?;
    let table = open(path)?;
    Ok((writer, table))
}

fn append(writer: &mut Writer, rows_per_commit: usize, next_time: &mut i64) -> Result<()> {
    for i in 0..10_000 {
        let time = Value::Timestamp(*next_time, TimeUnit::Microsecond, None);
        let symbol = Value::Str(if i % 2 == 1 { "AAPL" } else { "IBM" });
        writer.append_row(&[time, symbol, Value::Float64(i as f64)])?;
        *next_time += 1;
        if i % rows_per_commit == rows_per_commit - 1 {
            writer.commit()?;
        }
    }
    Ok(())
}
