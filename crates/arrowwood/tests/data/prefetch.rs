//! Tests that reading single rows loads no more pages of a file than these rows need.
#![cfg(feature = "write")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, StreamEncoder, Value, Writer, WriterOptions, col, open};

const ROWS: u64 = 1 << 24;

/// Writes a stream of one batch whose body is a hole in the file, so that its zeros are not in the page cache.
fn write_sparse_stream(path: &Path) {
    let zeros = Arc::new(Int64Array::from(vec![0; ROWS as usize])) as ArrayRef;
    let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", zeros)]).unwrap()]).unwrap();
    let mut encoder = StreamEncoder::new(dataset.schema().clone()).unwrap();
    let mut file = File::create(path).unwrap();
    file.write_all(&encoder.schema_message().head().unwrap()).unwrap();
    let (messages, encoded) = encoder.encode(&dataset, usize::MAX).unwrap();
    assert_eq!(encoded, ROWS);
    for message in messages {
        file.write_all(&message.head().unwrap()).unwrap();
        for buffer in message.body.iter().filter(|buffer| !buffer.is_empty()) {
            file.seek(SeekFrom::Current(buffer.len().next_multiple_of(64) as i64)).unwrap();
        }
    }
    file.write_all(&StreamEncoder::END).unwrap();
}

#[test]
#[cfg_attr(any(arrowwood_portable, windows), ignore = "touched pages are read ahead, as no call loads single ones")]
fn prefetched_rows_are_read_without_readahead() {
    const SAMPLED_ROWS: u64 = 16;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.arrows");
    write_sparse_stream(&path);
    let dataset = open(&path).unwrap();
    assert_eq!(dataset.len().unwrap(), ROWS);
    let resident_before = dataset.resident().unwrap();
    for row in (0..ROWS).step_by((ROWS / SAMPLED_ROWS) as usize).map(|row| row + 1_000) {
        dataset.slice(row, 1).unwrap().prefetch();
        assert!(matches!(dataset.row(row).unwrap().get(0).unwrap(), Value::Int(0)));
    }
    // Prefetching loads a few pages for each row; readahead would load 128 KiB or more.
    let loaded = dataset.resident().unwrap().saturating_sub(resident_before);
    assert!(loaded <= SAMPLED_ROWS * (16 << 10), "{loaded} bytes");
}

#[test]
fn prefetch_does_nothing_without_rows_or_without_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.arrows");
    write_sparse_stream(&path);
    open(&path).unwrap().slice(ROWS, 0).unwrap().prefetch();
    let in_memory = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    Dataset::try_from(vec![in_memory]).unwrap().prefetch();
}

/// Evicts the files of a table from the page cache.
fn evict(table: &Path) {
    for entry in std::fs::read_dir(table).unwrap() {
        let path = entry.unwrap().path();
        // Only clean pages can be evicted.
        File::open(&path).unwrap().sync_all().unwrap();
        let input = format!("if={}", path.display());
        let dd = Command::new("dd").args([input.as_str(), "iflag=nocache", "count=0", "status=none"]).status();
        assert!(dd.unwrap().success());
    }
}

#[test]
#[cfg_attr(any(arrowwood_portable, windows), ignore = "touched pages are read ahead, as no call loads single ones")]
fn searches_in_a_sorted_table_are_done_without_readahead() {
    const SEGMENTS: i64 = 8;
    const SEGMENT_ROWS: i64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let options = WriterOptions {
        sorted_by: Some("n".to_owned()),
        segment_rows: Some(SEGMENT_ROWS as u64),
        ..WriterOptions::default()
    };
    let mut writer = Writer::open(&path, Some(schema.clone()), &options).unwrap();
    for segment in 0..SEGMENTS {
        let numbers = Arc::new(Int64Array::from_iter_values(segment * SEGMENT_ROWS..(segment + 1) * SEGMENT_ROWS));
        writer.append(&RecordBatch::try_new(schema.clone(), vec![numbers]).unwrap()).unwrap();
    }
    writer.close().unwrap();
    evict(&path);

    let dataset = open(&path).unwrap();
    let resident_before = dataset.resident().unwrap();
    let first = 3 * SEGMENT_ROWS + 77;
    let found = dataset.between(&Value::Int(first), &Value::Int(first + 9)).unwrap();
    assert_eq!(found.len().unwrap(), 10);
    assert!(matches!(found.row(0).unwrap().get(0).unwrap(), Value::Int(n) if n == first));
    let filtered = dataset.filter(&(col("n").ge(first) & col("n").lt(first + 10))).unwrap();
    assert_eq!(filtered.len().unwrap(), 10);
    // Opening loads four pages of each segment, and two searches about forty; readahead would load 128 KiB or more for
    // each of them.
    let loaded = dataset.resident().unwrap().saturating_sub(resident_before);
    assert!(loaded <= 2 << 20, "{loaded} bytes of {}", dataset.nbytes().unwrap());
}
