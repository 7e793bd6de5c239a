//! Tests that `docs/coverage.md`, which lists what is supported for each type, is up to date.
//!
//! The page is generated from what works: `UPDATE_DOCS=1 cargo test --test data coverage` writes it.

use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch};
use arrowwood::{
    Bytes, Compression, Dataset, Format, OpenOptions, Value, WriteOptions, Writer, WriterOptions, open, type_name,
    write_to,
};

use crate::samples::{dataset, samples};

/// Returns the values of the first column as JSON texts.
fn read_cells(dataset: &Dataset) -> Result<Vec<String>, arrowwood::Error> {
    let column = dataset.column_at(0)?;
    column.values().map(|value| Ok(value?.to_json()?.to_string())).collect()
}

/// Returns true if a table accepts rows of the type.
///
/// Panics unless these rows are read back from the table and, as an Arrow file, from its segment.
fn is_growable(array: &ArrayRef) -> bool {
    let batch = RecordBatch::try_from_iter_with_nullable([("x", array.clone(), true)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let Ok(mut writer) = Writer::open(&path, Some(batch.schema()), &WriterOptions::default()) else { return false };
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    let segment = std::fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
    let original = Dataset::try_from(vec![batch.clone()]).unwrap();
    for reread in [open(&path).unwrap(), open(&segment).unwrap()] {
        reread.validate(|_, _| ()).unwrap();
        for row in 0..batch.num_rows() as u64 {
            let value_of = |dataset: &Dataset| dataset.row(row).unwrap().get(0).unwrap().to_string();
            assert_eq!(value_of(&reread), value_of(&original), "{}", array.data_type());
        }
    }
    true
}

/// Returns true if Arrowwood reads back what it has written in each format and with each codec.
fn round_trips(array: &ArrayRef) -> bool {
    let original = dataset(array);
    let expected = read_cells(&original).unwrap();
    for format in [Format::File, Format::Stream] {
        for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
            let mut bytes = Vec::new();
            write_to(&original, &mut bytes, &WriteOptions { format, compression, ..WriteOptions::default() }).unwrap();
            let reread = OpenOptions::new().bytes(Bytes::from(bytes)).unwrap();
            reread.validate(|_, _| ()).unwrap();
            assert_eq!(reread.schema().field(0).data_type(), array.data_type());
            if read_cells(&reread).unwrap() != expected {
                return false;
            }
        }
    }
    true
}

/// Returns true if a stream that arrow-rs has written is read in place.
fn is_read_in_place(array: &ArrayRef) -> bool {
    let original = dataset(array);
    let batch = original.to_record_batches().next().unwrap().unwrap();
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let reread = OpenOptions::new().strict(true).bytes(Bytes::from(bytes)).unwrap();
    read_cells(&reread).unwrap() == read_cells(&original).unwrap()
}

/// Returns the names of the reductions that the type supports, separated by spaces.
fn reductions(array: &ArrayRef) -> String {
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

/// Returns true if single rows are null where the array is null.
fn has_row_access(array: &ArrayRef) -> bool {
    let column = dataset(array).column_at(0).unwrap();
    (0..3).all(|row| {
        let value = match column.get(row).unwrap() {
            Value::Union(_, member) => *member,
            value => value,
        };
        let is_null = array.logical_nulls().is_some_and(|nulls| nulls.is_null(row as usize));
        matches!(value, Value::Null) == is_null
    })
}

fn yes_or_no(is_supported: bool) -> &'static str {
    if is_supported { "yes" } else { "no" }
}

fn generate_page() -> String {
    let mut page = String::from(
        "# What can be done with each type\n\n\
         - *in place*: a stream that arrow-rs has written is read without a copy\n\
         - *write*: files and streams, plain, lz4 and zstd, are read back\n\
         - *growable*: rows are appended to a table and read back\n\n\
         `tests/data/coverage.rs` finds out with three rows of each type, with nulls, and writes this page.\n\n\
         | types | in place | write | row access | reductions | growable |\n|---|---|---|---|---|---|\n",
    );
    let mut types_by_cells: Vec<(String, Vec<String>)> = Vec::new();
    for array in samples() {
        let cells = format!(
            "{} | {} | {} | {} | {}",
            yes_or_no(is_read_in_place(&array)),
            yes_or_no(round_trips(&array)),
            yes_or_no(has_row_access(&array)),
            reductions(&array),
            yes_or_no(is_growable(&array))
        );
        let name = format!("`{}`", type_name(array.data_type()));
        match types_by_cells.iter_mut().find(|(other, _)| *other == cells) {
            Some((_, names)) => names.push(name),
            None => types_by_cells.push((cells, vec![name])),
        }
    }
    for (cells, names) in types_by_cells {
        page += &format!("| {} | {cells} |\n", names.join(", "));
    }
    page
}

#[test]
#[cfg_attr(windows, ignore = "a table is written")]
fn coverage_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coverage.md");
    let generated = generate_page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, generated, "docs/coverage.md is out of date: UPDATE_DOCS=1 cargo test --test data coverage");
}
