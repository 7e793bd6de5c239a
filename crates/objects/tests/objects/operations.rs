//! Tests every operation on every type, against the same bytes in memory. Bytes that were not fetched have a value that
//! tests notice.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch};
use arrowwood::{
    Compression, Dataset, Format, OpenOptions, StreamWriter, Validation, WriteOptions, col, write_indexed, write_to,
};
use arrowwood_objects::open_with;

use super::requests::{indexed_file, numbers};
use super::server::{Server, options};

#[path = "../../../../tests/support/samples.rs"]
mod samples;

/// An operation whose result is compared as text.
type Operation = fn(&Dataset) -> arrowwood::Result<String>;

fn rows_text(rows: &Dataset) -> arrowwood::Result<String> {
    let mut text = String::new();
    for row in rows.rows() {
        for (_, value) in row?.iter() {
            text += &format!("{};", value?);
        }
        text.push('\n');
    }
    Ok(text)
}

fn last_row(rows: &Dataset) -> Vec<i64> {
    vec![rows.len().unwrap() as i64 - 1]
}

/// The operations of a dataset. Each one runs on a dataset that was just opened.
const OPERATIONS: &[(&str, Operation)] = &[
    ("len", |rows| Ok(rows.len()?.to_string())),
    ("rows", rows_text),
    ("a row", |rows| {
        let row = rows.row(rows.len()? / 2)?;
        row.iter().map(|(_, value)| Ok(value?.to_string())).collect()
    }),
    ("tail", |rows| rows_text(&rows.tail(2)?)),
    ("chunks", |rows| {
        let chunks = rows.column("c")?.chunks()?;
        Ok(format!("{:?}", chunks.into_iter().map(arrow_array::make_array).collect::<Vec<_>>()))
    }),
    ("take", |rows| rows_text(&rows.take(&[1, 0, 2, 1])?)),
    ("take the last", |rows| rows_text(&rows.take(&last_row(rows))?)),
    ("filter", |rows| rows_text(&rows.filter(&col("c").is_not_null())?)),
    ("filter by value", |rows| rows_text(&rows.filter(&col("n").gt(1))?)),
    ("null count", |rows| Ok(rows.column("c")?.null_count()?.to_string())),
    ("sum", |rows| Ok(rows.column("c")?.sum()?.to_string())),
    ("min", |rows| Ok(rows.column("c")?.min()?.to_string())),
    ("max", |rows| Ok(rows.column("c")?.max()?.to_string())),
    ("unique", |rows| rows_text(&rows.unique(&["c"])?)),
    ("sort", |rows| rows_text(&rows.sort(&[("n", true)])?)),
    ("describe", |rows| rows_text(&rows.describe()?)),
    ("sample", |rows| rows_text(&rows.sample(2, 7)?)),
    ("collect", |rows| rows_text(&rows.collect()?)),
    ("validate", |rows| rows.validate(|_, _| ()).map(|()| String::new())),
    ("messages", |rows| Ok(format!("{:?}", rows.messages()?))),
    ("export", |rows| {
        let mut bytes = Vec::new();
        write_to(rows, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() })?;
        Ok(format!("{bytes:?}"))
    }),
];

/// Returns the three rows of a sample, repeated, as column `c`, and numbers as column `n`, so that other buffers
/// follow. Returns `None` for types that can't be repeated.
fn repeat_sample(array: &ArrayRef, times: i64) -> Option<Dataset> {
    let rows: Vec<i64> = (0..times).flat_map(|_| [0, 1, 2]).collect();
    let repeated = samples::dataset(array).take(&rows).and_then(|rows| rows.collect()).ok()?;
    let chunks = repeated.column("c").ok()?.chunks().ok()?;
    let [chunk] = &chunks[..] else { return None };
    let numbers = Arc::new(Int64Array::from_iter_values(0..3 * times));
    let column = arrow_array::make_array(chunk.clone());
    Dataset::try_from(vec![RecordBatch::try_from_iter([("c", column), ("n", numbers)]).ok()?]).ok()
}

/// Writes rows in each format.
fn write_formats(rows: &Dataset) -> Vec<(&'static str, Vec<u8>)> {
    let default = WriteOptions::default();
    let mut files = Vec::new();
    for (name, options) in [
        ("file", default),
        ("file of small batches", WriteOptions { max_rows: Some(2), ..default }),
        ("stream", WriteOptions { format: Format::Stream, ..default }),
        ("lz4", WriteOptions { compression: Some(Compression::Lz4), ..default }),
        ("stream, zstd", WriteOptions { format: Format::Stream, compression: Some(Compression::Zstd), ..default }),
    ] {
        let mut bytes = Vec::new();
        write_to(rows, &mut bytes, &options).unwrap();
        files.push((name, bytes));
    }
    let mut bytes = Vec::new();
    write_indexed(rows, &mut bytes, 2).unwrap();
    files.push(("indexed", bytes));
    files
}

/// Compares the results of operations on an object with those on the same bytes in memory.
fn assert_same_results(name: &str, bytes: Vec<u8>, operations: &[(&str, Operation)]) {
    let server = Server::of_bytes(bytes.clone());
    for (operation, run) in operations {
        let local = OpenOptions::new().bytes(bytes.clone().into()).and_then(|rows| run(&rows)).map_err(|e| e.kind());
        let remote = open_with(&server.url(), OpenOptions::new(), &options());
        let remote = remote.and_then(|rows| run(&rows));
        if let (Err(e), Ok(_)) = (&remote, &local) {
            panic!("{name}: {operation}: {e}");
        }
        let remote = remote.map_err(|e| e.kind());
        assert!(remote == local, "{name}: {operation}: {remote:.1000?} where {local:.1000?} is expected");
    }
}

#[test]
fn all_operations_on_all_types() {
    for array in samples::samples() {
        let Some(rows) = repeat_sample(&array, 1) else { continue };
        for (format, bytes) in write_formats(&rows) {
            assert_same_results(&format!("{}, {format}", array.data_type()), bytes, OPERATIONS);
        }
    }
}

/// Operations that take too long on all rows of large batches.
const SLOW_OPERATIONS: &[&str] =
    &["rows", "sort", "unique", "chunks", "filter", "filter by value", "collect", "export"];
/// Operations on few rows, instead.
const FEW_ROWS_OPERATIONS: [(&str, Operation); 2] = [
    ("few rows", |rows| rows_text(&rows.slice(149_990, 20)?)),
    ("few rows", |rows| rows_text(&rows.filter(&col("n").lt(9))?)),
];

/// Large batches are not fetched as a whole, but buffer by buffer.
#[test]
fn operations_on_all_types_in_large_batches() {
    let mut operations = OPERATIONS.to_vec();
    operations.retain(|(name, _)| !SLOW_OPERATIONS.contains(name));
    operations.extend(FEW_ROWS_OPERATIONS);
    let mut large = 0;
    for array in samples::samples() {
        let Some(rows) = repeat_sample(&array, 60_000) else { continue };
        let mut bytes = Vec::new();
        write_to(&rows, &mut bytes, &WriteOptions { max_rows: Some(150_000), ..WriteOptions::default() }).unwrap();
        large += usize::from(bytes.len() > 2 << 20);
        assert_same_results(&format!("{}, large", array.data_type()), bytes, &operations);
    }
    assert!(large > 20, "{large} types in large batches");
}

fn dictionary_rows(texts: &[&str]) -> Dataset {
    let column: ArrayRef = Arc::new(texts.iter().copied().collect::<DictionaryArray<Int8Type>>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..texts.len() as i64));
    Dataset::try_from(vec![RecordBatch::try_from_iter([("c", column), ("n", numbers)]).unwrap()]).unwrap()
}

#[test]
fn all_operations_on_dictionaries_and_their_deltas() {
    let parts = [
        dictionary_rows(&["ash", "elm", "ash"]),
        dictionary_rows(&["elm", "oak", "fir"]),
        dictionary_rows(&["yew", "ash", "yew"]),
    ];
    let mut writer = StreamWriter::new(Vec::new(), parts[0].schema().clone(), None).unwrap();
    for part in &parts {
        writer.write(part).unwrap();
    }
    assert_same_results("deltas", writer.finish().unwrap(), OPERATIONS);
    for (format, bytes) in write_formats(&Dataset::concat(&parts).unwrap()) {
        assert_same_results(format, bytes, OPERATIONS);
    }
}

#[test]
fn options_that_read_whole_files() {
    let rows = numbers(5000, 3);
    let server = Server::of_bytes(indexed_file(&rows, 700));
    let expected = rows_text(&rows).unwrap();
    for open_options in
        [OpenOptions::new().validate(Validation::Full), OpenOptions::new().copy(true), OpenOptions::new().strict(true)]
    {
        let remote = open_with(&server.url(), open_options, &options()).unwrap();
        assert_eq!(rows_text(&remote).unwrap(), expected);
    }
}

/// The threads need some of the same ranges at the same time.
#[test]
fn threads_fetch_each_range_once() {
    let rows = numbers(300_000, 4);
    let bytes = indexed_file(&rows, 10_000);
    let size = bytes.len() as u64;
    let server = Server::of_bytes(bytes);
    let remote = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8i64 {
            let remote = &remote;
            scope.spawn(move || {
                for step in 0..300 {
                    let row = (step * 7919 + thread * 104_729) % 300_000;
                    let value = remote.row(row as u64).unwrap().get(0).unwrap().to_string();
                    assert_eq!(value, (row * 4).to_string());
                }
            });
        }
    });
    let sent = server.take_counts().bytes;
    assert!(sent < size + size / 10, "{sent} bytes of {size}");
}
