//! Data to look at, for the tests of the page and its figures.
//!
//! ```text
//! view_samples make DIRECTORY            hostile.arrow, exact.arrow, wide.arrow, walk.arrow, the table sorted, sparse.arrows (100 GB, nearly all holes)
//! view_samples walk FILE ROWS            the same as walk.arrow, longer
//! view_samples sum FILE COLUMN ROWS      milliseconds for the sum of the first rows, the best of five
//! view_samples grow TABLE ROWS SECONDS   a table that grows by ROWS a second; prints the rows appended in all
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use arrow_array::builder::{Float64Builder, Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::*;
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, StreamEncoder, WriteOptions, Writer, WriterOptions, write};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", directory] => make(Path::new(directory)),
        ["walk", file, rows] => {
            Ok(write(&Dataset::try_from(vec![walk(rows.parse()?)?])?, file, &WriteOptions::default())?)
        }
        ["sum", file, column, rows] => sum(Path::new(file), column, rows.parse()?),
        ["grow", table, rows, seconds] => grow(Path::new(table), rows.parse()?, seconds.parse()?),
        _ => Err("make, walk, sum or grow is expected, with their arguments".into()),
    }
}

fn make(directory: &Path) -> Outcome {
    std::fs::create_dir_all(directory)?;
    let save = |name: &str, batch: RecordBatch| {
        write(&Dataset::try_from(vec![batch])?, directory.join(name), &WriteOptions::default())
    };
    save("hostile.arrow", hostile()?)?;
    save("exact.arrow", exact()?)?;
    save("wide.arrow", wide()?)?;
    let walk = walk(200_000)?;
    sorted(&directory.join("sorted"), &walk)?;
    save("walk.arrow", walk)?;
    sparse(&directory.join("sparse.arrows"), 3_000_000_000)
}

/// Names and values that would be more than text if the page let them, and every kind of value.
fn hostile() -> Result<RecordBatch, Box<dyn Error>> {
    let texts = [
        Some("<img src=x onerror=\"window.hacked=1\">"),
        Some("</td><script>window.hacked=1</script>"),
        Some("null"),
        None,
        Some("it's \"quoted\" \\ and \u{202e}turned round"),
    ];
    let mut lists = ListBuilder::new(Int32Builder::new());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..5 {
        lists.append_value((0..row).map(Some));
        maps.keys().append_value(format!("k{row}"));
        maps.values().append_value(row);
        maps.append(true)?;
    }
    let times =
        TimestampNanosecondArray::from(vec![Some(1), None, Some(-1), Some(1_700_000_000_123_456_789), Some(i64::MAX)]);
    let decimals =
        Decimal128Array::from(vec![Some(-12_345), None, Some(5), Some(0), Some(i128::from(i64::MAX) * 1_000)]);
    let words: DictionaryArray<Int32Type> =
        vec![Some("a"), Some("b"), None, Some("a"), Some("<b>bold</b>")].into_iter().collect();
    let group = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4), Some(5)])) as ArrayRef,
    )]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("<img src=x onerror=\"window.hacked=1\">", Arc::new(StringArray::from(texts.to_vec()))),
        ("float", Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(f64::INFINITY), None, Some(-0.0), Some(0.1)]))),
        ("large", Arc::new(Int64Array::from(vec![i64::MAX, i64::MIN, 0, 9_007_199_254_740_993, -1]))),
        ("decimal", Arc::new(decimals.with_precision_and_scale(38, 2)?)),
        ("time", Arc::new(times.with_timezone("Europe/Paris"))),
        ("date", Arc::new(Date32Array::from(vec![Some(0), Some(20_000), None, Some(-1), Some(11_016)]))),
        ("word", Arc::new(words)),
        (
            "bytes",
            Arc::new(BinaryArray::from_opt_vec(vec![
                Some(b"\x00\xff"),
                None,
                Some(b"abc"),
                Some(b""),
                Some(b"\xde\xad"),
            ])),
        ),
        ("picture", Arc::new(BinaryArray::from_opt_vec(pictures().iter().map(|bytes| Some(&bytes[..])).collect()))),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true), Some(false)]))),
        ("list", Arc::new(lists.finish())),
        ("map", Arc::new(maps.finish())),
        ("struct", Arc::new(group)),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))?)
}

/// Values that are not what is shown of them, each of them in every sixth row.
fn exact() -> Result<RecordBatch, Box<dyn Error>> {
    let long = "x".repeat(20_000);
    let texts = ["a\nb", "a\\nb", "a\tb", "it's \"so\"", &long, &long[1..]];
    let floats = [Some(0.1 + 0.2), Some(0.3), Some(1.0 / 3.0), Some(f64::NAN), None, Some(123_456_789.123_456_79)];
    let bytes: [Option<&[u8]>; 6] = [Some(b"\xff\0"), Some(b""), None, Some(&[7; 40]), Some(&[7; 41]), Some(&[9; 300])];
    let large = [9_007_199_254_740_993, 9_007_199_254_740_992, i64::MAX, i64::MIN, 0, -1];
    let times = [0, 1_700_000_000_123_456_789, -1, i64::MAX, i64::MIN, 1];
    let mut lists = ListBuilder::new(Float64Builder::new());
    (0..600).for_each(|row| lists.append_value([floats[row % 6], Some(1.5)]));
    let cycle = || (0..600).map(|row| row % 6);
    let huge = (0..600).map(|row| if row == 0 { "line\n".repeat(1_000_000) } else { String::new() });
    let decimals = Decimal128Array::from_iter_values(cycle().map(|at| 10i128.pow(37) + at as i128));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from_iter_values(cycle().map(|at| texts[at])))),
        ("float", Arc::new(cycle().map(|at| floats[at]).collect::<Float64Array>())),
        ("bytes", Arc::new(cycle().map(|at| bytes[at]).collect::<BinaryArray>())),
        ("large", Arc::new(Int64Array::from_iter_values(cycle().map(|at| large[at])))),
        ("decimal", Arc::new(decimals.with_precision_and_scale(38, 2)?)),
        (
            "time",
            Arc::new(TimestampNanosecondArray::from_iter_values(cycle().map(|at| times[at])).with_timezone("UTC")),
        ),
        ("list", Arc::new(lists.finish())),
        ("huge", Arc::new(StringArray::from_iter_values(huge))),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))?)
}

/// A red GIF of one pixel, and bytes that look like pictures or markup and are none.
fn pictures() -> [Vec<u8>; 5] {
    let gif = b"GIF89a\x01\0\x01\0\x80\0\0\xff\0\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    [
        gif.to_vec(),
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked=1'/>".to_vec(),
        b"\x89PNG\r\n\x1a\n<script>window.hacked=1</script>".to_vec(),
        b"<html><script>window.hacked=1</script>".to_vec(),
        Vec::new(),
    ]
}

fn wide() -> Result<RecordBatch, Box<dyn Error>> {
    let column = |c: i64| Arc::new(Int64Array::from_iter_values((0..200).map(|row| c * 1_000 + row))) as ArrayRef;
    Ok(RecordBatch::try_from_iter((0..3_000).map(|c| (format!("column {c}"), column(c))))?)
}

/// A price that wanders, with a symbol, a time and the number of the row.
fn walk(rows: i64) -> Result<RecordBatch, Box<dyn Error>> {
    let mut state = 7u64;
    let mut price = 100.0;
    let mut prices = Vec::new();
    let symbols = ["AAPL", "IBM", "MSFT", "NVDA"];
    let mut keys = Vec::new();
    for _ in 0..rows {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        price = (price + ((state >> 40) as f64 / 16_777_216.0 - 0.5) * 0.8_f64).max(1.0);
        prices.push(price);
        keys.push((state >> 33) as i32 & 3);
    }
    let words = Arc::new(StringArray::from(symbols.to_vec())) as ArrayRef;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from_iter_values(0..rows))),
        (
            "time",
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                (0..rows).map(|row| 1_700_000_000_000_000 + row * 250_000),
            )),
        ),
        ("symbol", Arc::new(DictionaryArray::new(Int32Array::from(keys), words))),
        ("price", Arc::new(Float64Array::from(prices))),
        ("volume", Arc::new(Int32Array::from_iter_values((0..rows).map(|row| (row * 7_919 % 1_000) as i32)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// A table whose rows are sorted by time.
fn sorted(table: &Path, walk: &RecordBatch) -> Outcome {
    let options = WriterOptions { sorted_by: Some("time".into()), ..WriterOptions::default() };
    let mut writer = Writer::open(table, Some(walk.schema()), &options)?;
    writer.append(walk)?;
    Ok(writer.close()?)
}

/// A stream of holes: zeros that take no space. The last row of all has 7 and 0.5.
fn sparse(path: &Path, rows: usize) -> Outcome {
    const BATCH: usize = 1 << 26;
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let int = |name: &str| field(name, DataType::Int64);
    let float = |name: &str| field(name, DataType::Float64);
    let schema = Arc::new(Schema::new(vec![int("a"), float("b"), int("c"), float("d"), field("e", DataType::Int32)]));
    let mut encoder = StreamEncoder::new(schema.clone())?;
    let mut file = File::create(path)?;
    file.write_all(&encoder.schema_message().head()?)?;
    let mut left = rows;
    while left > 0 {
        let count = left.min(BATCH);
        let zeros = Buffer::from_vec(vec![0u8; count * 8]);
        let ints =
            Arc::new(PrimitiveArray::<Int64Type>::new(ScalarBuffer::new(zeros.clone(), 0, count), None)) as ArrayRef;
        let floats =
            Arc::new(PrimitiveArray::<Float64Type>::new(ScalarBuffer::new(zeros.clone(), 0, count), None)) as ArrayRef;
        let short = Arc::new(PrimitiveArray::<Int32Type>::new(ScalarBuffer::new(zeros, 0, count), None)) as ArrayRef;
        let batch = RecordBatch::try_new(schema.clone(), vec![ints.clone(), floats.clone(), ints, floats, short])?;
        left -= count;
        let (messages, encoded) = encoder.encode(&Dataset::try_from(vec![batch])?, usize::MAX)?;
        assert_eq!(encoded, count as u64);
        for message in messages {
            file.write_all(&message.head()?)?;
            for (number, buffer) in message.body.iter().filter(|buffer| !buffer.is_empty()).enumerate() {
                let end = file.stream_position()? + buffer.len() as u64;
                let last = [7i64.to_le_bytes(), 0.5f64.to_le_bytes()];
                if let Some(bytes) = last.get(number).filter(|_| left == 0) {
                    file.seek(SeekFrom::Start(end - 8))?;
                    file.write_all(bytes)?;
                }
                file.seek(SeekFrom::Start(end.next_multiple_of(64)))?;
            }
        }
    }
    file.write_all(&StreamEncoder::END)?;
    Ok(())
}

fn sum(file: &Path, column: &str, rows: u64) -> Outcome {
    let column = arrowwood::open(file)?.column(column)?.slice(0, rows)?;
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        column.sum()?;
        best = best.min(begun.elapsed());
    }
    println!("{:.1}", best.as_secs_f64() * 1e3);
    Ok(())
}

fn grow(table: &Path, rows: u64, seconds: f64) -> Outcome {
    const COMMITS: u64 = 50;
    let batch = walk(i64::try_from((rows / COMMITS).max(1))?)?;
    let mut writer = Writer::open(table, Some(batch.schema()), &WriterOptions::default())?;
    let begun = Instant::now();
    let mut appended = 0;
    let mut commits = 0;
    while begun.elapsed().as_secs_f64() < seconds {
        writer.append(&batch)?;
        writer.commit()?;
        appended += batch.num_rows();
        commits += 1;
        let due = Duration::from_secs_f64(commits as f64 / COMMITS as f64);
        sleep(due.saturating_sub(begun.elapsed()));
    }
    writer.close()?;
    println!("{appended}");
    Ok(())
}
