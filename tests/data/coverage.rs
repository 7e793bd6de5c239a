//! `docs/coverage.md` says what can be done with each type; this test makes the table anew and compares, so that the
//! page can't lie. `UPDATE_DOCS=1 cargo test --test data coverage` writes it.

use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch};
use arrowwood::{
    Bytes, Compression, Dataset, Format, OpenOptions, Value, WriteOptions, Writer, WriterOptions, open, type_name,
    write_to,
};

use crate::samples::{dataset, samples};

fn cells(dataset: &Dataset) -> Result<Vec<String>, arrowwood::Error> {
    let column = dataset.column_at(0)?;
    column.values().map(|value| Ok(value?.to_json()?.to_string())).collect()
}

/// Whether a table of one column of the type takes the rows and gives them back, ours and through its Arrow file.
fn grows(array: &ArrayRef) -> bool {
    let batch = RecordBatch::try_from_iter_with_nullable([("x", array.clone(), true)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let Ok(mut writer) = Writer::open(&path, Some(batch.schema()), &WriterOptions::default()) else { return false };
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    let segment = std::fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
    for dataset in [open(&path).unwrap(), open(&segment).unwrap()] {
        dataset.validate(|_, _| ()).unwrap();
        for row in 0..batch.num_rows() as u64 {
            let expected = Dataset::try_from(vec![batch.clone()]).unwrap();
            let value = |dataset: &Dataset| dataset.row(row).unwrap().get(0).unwrap().to_string();
            assert_eq!(value(&dataset), value(&expected), "{}", array.data_type());
        }
    }
    true
}

/// Written by Arrowwood, every framing and codec, and read back the same.
fn round_trips(array: &ArrayRef) -> bool {
    let original = dataset(array);
    let expected = cells(&original).unwrap();
    [Format::File, Format::Stream].into_iter().all(|format| {
        [None, Some(Compression::Lz4), Some(Compression::Zstd)].into_iter().all(|compression| {
            let mut bytes = Vec::new();
            write_to(&original, &mut bytes, &WriteOptions { format, compression, ..WriteOptions::default() }).unwrap();
            let again = OpenOptions::new().bytes(Bytes::from(bytes)).unwrap();
            again.validate(|_, _| ()).unwrap();
            assert_eq!(again.schema().field(0).data_type(), array.data_type());
            cells(&again).unwrap() == expected
        })
    })
}

/// Written by arrow-rs and read here in place.
fn reads(array: &ArrayRef) -> bool {
    let original = dataset(array);
    let batch = original.to_record_batches().next().unwrap().unwrap();
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    cells(&OpenOptions::new().strict(true).bytes(Bytes::from(bytes)).unwrap()).unwrap() == cells(&original).unwrap()
}

fn aggregates(array: &ArrayRef) -> String {
    let column = dataset(array).column_at(0).unwrap();
    let mut names = vec!["count"];
    if column.min().is_ok() {
        names.extend(["min", "max"]);
    }
    if column.sum().is_ok() {
        names.push("sum");
    }
    if column.mean().is_ok() {
        names.push("mean");
    }
    names.join(" ")
}

fn row_access(array: &ArrayRef) -> bool {
    let column = dataset(array).column_at(0).unwrap();
    (0..3).all(|row| {
        let value = match column.get(row).unwrap() {
            Value::Union(_, member) => *member,
            value => value,
        };
        matches!(value, Value::Null) == array.logical_nulls().is_some_and(|nulls| nulls.is_null(row as usize))
    })
}

fn table() -> String {
    let mut page = String::from(
        "# What can be done with each type\n\n\
         Made by `tests/data/coverage.rs`, which writes and reads three rows of each type, with nulls, as file and stream, \
         plain, lz4 and zstd. *In place*: written by arrow-rs and read without a copy. *Growable*: appended to a table and read back.\n\n\
         | type | in place | write | row access | reductions | growable |\n|---|---|---|---|---|---|\n",
    );
    let mark = |yes: bool| if yes { "yes" } else { "no" };
    for array in samples() {
        page += &format!(
            "| `{}` | {} | {} | {} | {} | {} |\n",
            type_name(array.data_type()),
            mark(reads(&array)),
            mark(round_trips(&array)),
            mark(row_access(&array)),
            aggregates(&array),
            mark(grows(&array))
        );
    }
    page
}

#[test]
fn the_page_on_coverage_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/coverage.md");
    let page = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/coverage.md is out of date: UPDATE_DOCS=1 cargo test --test data coverage");
}
