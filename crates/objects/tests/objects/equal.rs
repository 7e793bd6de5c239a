//! Every type, by every operation, beside the same bytes in memory. What was not fetched is neither zeros nor data, so that
//! whoever looks at it is found.

use arrow_array::ArrayRef;
use arrowwood::{Compression, Dataset, Format, OpenOptions, Validation, WriteOptions, col, write_indexed, write_to};
use arrowwood_objects::open_with;

use super::server::{Server, options};

#[path = "../../../../tests/support/samples.rs"]
mod samples;

type Operation = fn(&Dataset) -> arrowwood::Result<String>;

fn text(rows: &Dataset) -> arrowwood::Result<String> {
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

/// What there is to do with a dataset, each thing on one that was just opened.
const OPERATIONS: &[(&str, Operation)] = &[
    ("len", |rows| Ok(rows.len()?.to_string())),
    ("rows", text),
    ("a row", |rows| {
        let row = rows.row(rows.len()? / 2)?;
        row.iter().map(|(_, value)| Ok(value?.to_string())).collect()
    }),
    ("tail", |rows| text(&rows.tail(2)?)),
    ("chunks", |rows| {
        let chunks = rows.column("c")?.chunks()?;
        Ok(format!("{:?}", chunks.into_iter().map(arrow_array::make_array).collect::<Vec<_>>()))
    }),
    ("take", |rows| text(&rows.take(&[1, 0, 2, 1])?)),
    ("take the last", |rows| text(&rows.take(&last_row(rows))?)),
    ("filter", |rows| text(&rows.filter(&col("c").is_not_null())?)),
    ("filter by value", |rows| text(&rows.filter(&col("n").gt(1))?)),
    ("null count", |rows| Ok(rows.column("c")?.null_count()?.to_string())),
    ("sum", |rows| Ok(rows.column("c")?.sum()?.to_string())),
    ("min", |rows| Ok(rows.column("c")?.min()?.to_string())),
    ("max", |rows| Ok(rows.column("c")?.max()?.to_string())),
    ("unique", |rows| text(&rows.unique(&["c"])?)),
    ("sort", |rows| text(&rows.sort(&[("n", true)])?)),
    ("describe", |rows| text(&rows.describe()?)),
    ("sample", |rows| text(&rows.sample(2, 7)?)),
    ("collect", |rows| text(&rows.collect()?)),
    ("validate", |rows| rows.validate(|_, _| ()).map(|()| String::new())),
    ("messages", |rows| Ok(format!("{:?}", rows.messages()?))),
    ("export", |rows| {
        let mut bytes = Vec::new();
        write_to(rows, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() })?;
        Ok(format!("{bytes:?}"))
    }),
];

/// The rows of a sample `times` times, with a column of numbers.
fn repeated(array: &ArrayRef, times: i64) -> Option<Dataset> {
    use arrow_array::{Int64Array, RecordBatch};
    let rows: Vec<i64> = (0..times).flat_map(|_| [0, 1, 2]).collect();
    let many = samples::dataset(array).take(&rows).and_then(|many| many.collect()).ok()?;
    let chunks = many.column("c").ok()?.chunks().ok()?;
    let [chunk] = &chunks[..] else { return None };
    let numbers = std::sync::Arc::new(Int64Array::from_iter_values(0..3 * times));
    let column = arrow_array::make_array(chunk.clone());
    Dataset::try_from(vec![RecordBatch::try_from_iter([("c", column), ("n", numbers)]).ok()?]).ok()
}

fn forms(rows: &Dataset) -> Vec<(&'static str, Vec<u8>)> {
    let plain = WriteOptions::default();
    let mut forms = Vec::new();
    for (name, options) in [
        ("file", plain),
        ("file of small batches", WriteOptions { max_rows: Some(2), ..plain }),
        ("stream", WriteOptions { format: Format::Stream, ..plain }),
        ("lz4", WriteOptions { compression: Some(Compression::Lz4), ..plain }),
        ("stream, zstd", WriteOptions { format: Format::Stream, compression: Some(Compression::Zstd), ..plain }),
    ] {
        let mut bytes = Vec::new();
        write_to(rows, &mut bytes, &options).unwrap();
        forms.push((name, bytes));
    }
    let mut bytes = Vec::new();
    write_indexed(rows, &mut bytes, 2).unwrap();
    forms.push(("indexed", bytes));
    forms
}

fn compare(name: &str, bytes: Vec<u8>, operations: &[(&str, Operation)]) {
    let server = Server::of_bytes(bytes.clone());
    for (operation, work) in operations {
        let local = OpenOptions::new().bytes(bytes.clone().into()).and_then(|rows| work(&rows)).map_err(|e| e.kind());
        let remote = open_with(&server.url(), OpenOptions::new(), &options());
        let remote = remote.and_then(|rows| work(&rows));
        if let (Err(e), Ok(_)) = (&remote, &local) {
            panic!("{name}: {operation}: {e}");
        }
        let remote = remote.map_err(|e| e.kind());
        assert!(remote == local, "{name}: {operation}: {remote:.1000?} where {local:.1000?} is expected");
    }
}

#[test]
fn every_type_and_operation() {
    for array in samples::samples() {
        // Numbers beside it, so that its buffers are not the only ones.
        let Some(rows) = repeated(&array, 1) else { continue };
        for (form, bytes) in forms(&rows) {
            compare(&format!("{}, {form}", array.data_type()), bytes, OPERATIONS);
        }
    }
}

/// Bodies that are not fetched whole: each buffer is asked for alone.
#[test]
fn every_type_in_large_batches() {
    let cheap: Vec<_> =
        OPERATIONS.iter().filter(|(name, _)| !["rows", "sort", "unique", "chunks"].contains(name)).collect();
    let operations: Vec<(&str, Operation)> = cheap.into_iter().copied().collect();
    let mut large = 0;
    for array in samples::samples() {
        let Some(rows) = repeated(&array, 60_000) else { continue };
        let mut bytes = Vec::new();
        write_to(&rows, &mut bytes, &WriteOptions { max_rows: Some(150_000), ..WriteOptions::default() }).unwrap();
        large += usize::from(bytes.len() > 2 << 20);
        // Text of all rows takes a while.
        let few: &[Operation] = &[|rows| text(&rows.slice(149_990, 20)?), |rows| text(&rows.filter(&col("n").lt(9))?)];
        let few: Vec<_> = few.iter().map(|work| ("few rows", *work)).collect();
        let short = |name: &&str| ["filter", "filter by value", "collect", "export"].contains(name);
        let operations: Vec<_> = operations.iter().copied().filter(|(name, _)| !short(name)).chain(few).collect();
        compare(&format!("{}, large", array.data_type()), bytes, &operations);
    }
    assert!(large > 20, "{large} types in large batches");
}

#[test]
fn dictionaries_and_their_deltas() {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{DictionaryArray, RecordBatch};
    use arrowwood::StreamWriter;
    let batch = |texts: &[&str]| {
        let column: ArrayRef = Arc::new(texts.iter().copied().collect::<DictionaryArray<Int8Type>>());
        let numbers: ArrayRef = Arc::new(arrow_array::Int64Array::from_iter_values(0..texts.len() as i64));
        Dataset::try_from(vec![RecordBatch::try_from_iter([("c", column), ("n", numbers)]).unwrap()]).unwrap()
    };
    let parts = [batch(&["ash", "elm", "ash"]), batch(&["elm", "oak", "fir"]), batch(&["yew", "ash", "yew"])];
    let mut writer = StreamWriter::new(Vec::new(), parts[0].schema().clone(), None).unwrap();
    parts.iter().for_each(|part| writer.write(part).unwrap());
    compare("deltas", writer.finish().unwrap(), OPERATIONS);
    for (form, bytes) in forms(&Dataset::concat(&parts).unwrap()) {
        compare(form, bytes, OPERATIONS);
    }
}

#[test]
fn whole_files_are_checked_and_copied() {
    let rows = super::requests::numbers(5000, 3);
    let server = Server::of_bytes(super::requests::indexed(&rows, 700));
    let expected = text(&rows).unwrap();
    for how in
        [OpenOptions::new().validate(Validation::Full), OpenOptions::new().copy(true), OpenOptions::new().strict(true)]
    {
        assert_eq!(text(&open_with(&server.url(), how, &options()).unwrap()).unwrap(), expected);
    }
}

/// Threads that ask for the same and for other parts.
#[test]
fn threads_fetch_each_part_once() {
    let rows = super::requests::numbers(300_000, 4);
    let bytes = super::requests::indexed(&rows, 10_000);
    let size = bytes.len() as u64;
    let server = Server::of_bytes(bytes);
    let remote = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8i64 {
            let remote = &remote;
            scope.spawn(move || {
                for step in 0..300 {
                    let row = (step * 7919 + thread * 104_729) % 300_000;
                    let found = remote.row(row as u64).unwrap().get(0).unwrap().to_string();
                    assert_eq!(found, (row * 4).to_string());
                }
            });
        }
    });
    let (_, sent) = server.counted();
    assert!(sent < size + size / 10, "{sent} bytes of {size}");
}
