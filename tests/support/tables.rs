//! Batches, options and helpers that many tests of tables share.
#![allow(dead_code, reason = "some test programs use only some of these")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use arrowwood::{Dataset, SyncPolicy, Value, Writer, WriterOptions};
use tempfile::TempDir;

use crate::wait::wait_until;

/// Creates a temporary directory in memory if the system has such a file system: syncs take no time there.
pub fn folder_in_memory() -> TempDir {
    let shared_memory = PathBuf::from("/dev/shm");
    let parent = if shared_memory.is_dir() { shared_memory } else { std::env::temp_dir() };
    tempfile::tempdir_in(parent).unwrap()
}

/// Returns a batch of one column `n` without nulls.
pub fn number_batch(numbers: impl IntoIterator<Item = i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

/// Returns the schema of [`number_batch`].
pub fn number_schema() -> SchemaRef {
    number_batch([]).schema()
}

/// Returns a batch of the columns `n` and `text` without nulls; `text` is `row 7` where `n` is 7.
pub fn text_batch(numbers: std::ops::Range<i64>) -> RecordBatch {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.clone().map(|n| format!("row {n}"))));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()
}

/// Returns options for segments of `segment_rows` rows that are never synced.
pub fn unsynced(segment_rows: u64) -> WriterOptions {
    WriterOptions { segment_rows: Some(segment_rows), sync: SyncPolicy::Never, ..WriterOptions::default() }
}

/// Copies the directory of a table.
pub fn copy_table(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Returns the numbers in the first column.
pub fn read_numbers(dataset: &Dataset) -> Vec<i64> {
    let mut numbers = Vec::new();
    for row in dataset.rows() {
        match row.unwrap().get(0).unwrap() {
            Value::Int(number) => numbers.push(number),
            other => panic!("{other}"),
        }
    }
    numbers
}

/// Waits until everything that is due by now in the background was done.
///
/// One thread syncs the tables of all writers in turn. When it has synced another table a few times, the others had
/// their turn, too.
pub fn wait_for_background_syncs() {
    let folder = folder_in_memory();
    let options = WriterOptions { sync: SyncPolicy::Every(Duration::from_millis(1)), ..WriterOptions::default() };
    let mut writer = Writer::open(folder.path().join("t"), Some(number_schema()), &options).unwrap();
    for n in 0..10 {
        writer.append_row(&[Value::Int(n)]).unwrap();
        writer.commit().unwrap();
        wait_until("a sync in the background", || writer.durable_rows() == writer.rows());
    }
}
