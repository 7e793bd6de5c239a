//! What many tests of tables begin with, and how they look at them.
#![allow(dead_code, reason = "some programs of tests use a part of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use arrowwood::{Dataset, SyncPolicy, Value, Writer, WriterOptions};
use tempfile::TempDir;

use crate::wait::wait_until;

/// A folder in memory, where there is a file system of it: what is synced there takes no time.
pub fn folder_in_memory() -> TempDir {
    let memory = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir());
    tempfile::tempdir_in(memory.unwrap_or_else(std::env::temp_dir)).unwrap()
}

/// Rows of one column: `n`, without nulls.
pub fn numbers(numbers: impl IntoIterator<Item = i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

pub fn schema_of_numbers() -> SchemaRef {
    numbers([]).schema()
}

/// Rows of two columns without nulls: `n`, and `text`, which is `row 7` beside 7.
pub fn texts(numbers: std::ops::Range<i64>) -> RecordBatch {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.clone().map(|n| format!("row {n}"))));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()
}

/// Segments of so many rows, which are never synced.
pub fn unsynced(segment_rows: u64) -> WriterOptions {
    WriterOptions { segment_rows: Some(segment_rows), sync: SyncPolicy::Never, ..WriterOptions::default() }
}

/// Copies the directory of a table, so that it is another one with the same rows.
pub fn copy_table(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The numbers in the first column.
pub fn numbers_of(dataset: &Dataset) -> Vec<i64> {
    let number = |row: arrowwood::Result<arrowwood::Row<'_>>| match row.unwrap().get(0).unwrap() {
        Value::Int(number) => number,
        other => panic!("{other}"),
    };
    dataset.rows().map(number).collect()
}

/// Waits until the one thread that works in the background for all writers has synced another table a few times, so that
/// what was due elsewhere has had its turn.
pub fn await_turns_in_background() {
    let folder = folder_in_memory();
    let options = WriterOptions { sync: SyncPolicy::Every(Duration::from_millis(1)), ..WriterOptions::default() };
    let mut writer = Writer::open(folder.path().join("t"), Some(schema_of_numbers()), &options).unwrap();
    for n in 0..10 {
        writer.append_row(&[Value::Int(n)]).unwrap();
        writer.commit().unwrap();
        wait_until("a sync in the background", || writer.durable_rows() == writer.rows());
    }
}
