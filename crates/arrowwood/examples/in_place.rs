//! The example of the article "Memory Mapping, Clojure, and Apache Arrow", in Rust.
//!
//! Converts a CSV file to an Arrow stream, maps the stream and lists its messages, reads its dictionary from the mapped
//! offsets and bytes, and measures how long it takes to open 10,000 copies of the rows, read one and sum a column.
//!
//! ```console
//! $ cargo run --release --example in_place -- stocks.csv
//! ```

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int8Array, PrimitiveArray, RecordBatch};
use arrowwood::{
    CsvOptions, Dataset, Error, Format, Mapping, Message, MessageKind, Mode, WriteOptions, open, read_csv_from, write,
};

const COPIES: usize = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let csv = std::env::args().nth(1).ok_or("which CSV file? Give the path of stocks.csv (symbol,date,price)")?;
    let folder = std::env::temp_dir().join(format!("in-place-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = run(Path::new(&csv), &folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn run(csv: &Path, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let stream_options = WriteOptions { format: Format::Stream, ..WriteOptions::default() };

    println!("── the CSV file as a dataset");
    let mut options = CsvOptions::default();
    options.dictionary = vec!["symbol".into()];
    let (schema, batches) = read_csv_from(File::open(csv)?, &options)?;
    let stocks = Dataset::from_batches(schema, batches.clone())?;
    println!("{stocks}\n");

    println!("── written as a stream, mapped, and taken apart");
    let path = folder.join("stocks.arrow");
    write(&stocks, &path, &stream_options)?;
    let messages = open(&path)?.messages()?;
    for message in &messages {
        println!("{message}");
    }

    println!("\n── the dictionary by hand, from its offsets and bytes");
    println!("{:?}\n", read_mapped_dictionary(&path, &messages)?);

    println!("── {COPIES} copies, one batch");
    let path = folder.join("big.arrow");
    write(&repeat_rows(&batches[0])?, &path, &stream_options)?;
    measure(&path)?;
    Ok(())
}

/// Returns the strings of the first dictionary batch, read from the mapped file without an Arrow reader.
fn read_mapped_dictionary(path: &Path, messages: &[Message]) -> Result<Vec<String>, Error> {
    let mapping = Mapping::open(path, Mode::Read)?;
    let Some(message) = messages.iter().find(|message| message.kind == MessageKind::DictionaryBatch) else {
        return Ok(Vec::new());
    };
    let position = |name: &str| {
        let buffer = message.buffers.iter().find(|buffer| buffer.name == name);
        buffer.map_or(0, |buffer| message.body_offset as usize + buffer.offset as usize)
    };
    let rows = message.rows.unwrap_or(0) as usize;
    let offsets = mapping.view::<i32>(position("offsets"), Some(rows + 1))?.to_vec()?;
    let mut strings = Vec::new();
    for pair in offsets.windows(2) {
        let start = pair[0] as usize;
        let len = pair[1] as usize - start;
        let bytes = mapping.view::<u8>(position("data") + start, Some(len))?.to_vec()?;
        strings.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(strings)
}

/// Returns one batch with `COPIES` times the rows, symbols with keys of type int8, and dates as timestamps.
fn repeat_rows(batch: &RecordBatch) -> Result<Dataset, Box<dyn std::error::Error>> {
    let symbols = batch.column(0).as_any_dictionary();
    let keys: Vec<i8> = symbols.normalized_keys().iter().map(|&key| key as i8).collect();
    let dates = batch.column(1).as_primitive::<Date32Type>().values();
    let timestamps: Vec<i64> = dates.iter().map(|&days| i64::from(days) * 86_400_000).collect();
    let prices = batch.column(2).as_primitive::<Float64Type>().values();
    let symbol = DictionaryArray::new(Int8Array::from(keys.repeat(COPIES)), symbols.values().clone());
    let date = PrimitiveArray::<TimestampMillisecondType>::from(timestamps.repeat(COPIES)).with_timezone("UTC");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("symbol", Arc::new(symbol)),
        ("date", Arc::new(date)),
        ("price", Arc::new(Float64Array::from(prices.repeat(COPIES)))),
    ];
    Ok(Dataset::try_from(vec![RecordBatch::try_from_iter(columns)?])?)
}

/// Measures opening alone, with reading the first row, and with summing a column.
fn measure(path: &Path) -> Result<(), Error> {
    let start = Instant::now();
    let dataset = open(path)?;
    let rows = dataset.len()?;
    println!("{rows} rows opened in      {:?}", start.elapsed());
    let start = Instant::now();
    let dataset = open(path)?;
    let first = dataset.row(0)?.iter().map(|(_, value)| Ok(value?.to_string())).collect::<Result<Vec<_>, Error>>()?;
    println!("opened, first row read in {:?}: {}", start.elapsed(), first.join(", "));
    let start = Instant::now();
    let dataset = open(path)?;
    let sum = dataset.column("price")?.sum()?;
    println!("opened, price summed in   {:?}: {sum}", start.elapsed());
    println!("\n{dataset}");
    Ok(())
}
