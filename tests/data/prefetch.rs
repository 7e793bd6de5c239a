//! Rows that are asked for load nothing around them.
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

/// A stream of one batch whose body is a hole: zeros that take no space, and are in no cache.
fn hollow(path: &Path) {
    let zeros = Arc::new(Int64Array::from(vec![0; ROWS as usize])) as ArrayRef;
    let rows = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", zeros)]).unwrap()]).unwrap();
    let mut encoder = StreamEncoder::new(rows.schema().clone()).unwrap();
    let mut file = File::create(path).unwrap();
    file.write_all(&encoder.schema_message().head().unwrap()).unwrap();
    let (messages, encoded) = encoder.encode(&rows, usize::MAX).unwrap();
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
fn a_row_that_was_asked_for_loads_nothing_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hollow.arrows");
    hollow(&path);
    let rows = open(&path).unwrap();
    assert_eq!(rows.len().unwrap(), ROWS);
    let before = rows.resident().unwrap();
    for row in (0..ROWS).step_by(ROWS as usize / 16).map(|row| row + 1_000) {
        rows.slice(row, 1).unwrap().prefetch();
        assert!(matches!(rows.row(row).unwrap().get(0).unwrap(), Value::Int(0)));
    }
    // A page for each of them, or a few; without being asked for, 128 KiB or more around each.
    let loaded = rows.resident().unwrap().saturating_sub(before);
    assert!(loaded <= 16 * (16 << 10), "{loaded} bytes");
    // What is in no file has no pages to ask for.
    rows.slice(ROWS, 0).unwrap().prefetch();
    let memory = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    Dataset::try_from(vec![memory]).unwrap().prefetch();
}

/// Has the system forget the pages of a table's files.
fn forget(table: &Path) {
    for entry in std::fs::read_dir(table).unwrap() {
        let path = entry.unwrap().path();
        File::open(&path).unwrap().sync_all().unwrap();
        let input = format!("if={}", path.display());
        let dd = Command::new("dd").args([input.as_str(), "iflag=nocache", "count=0", "status=none"]).status();
        assert!(dd.unwrap().success());
    }
}

#[test]
fn a_search_in_a_sorted_table_loads_nothing_around_the_rows_that_it_looks_at() {
    const SEGMENTS: i64 = 8;
    const EACH: i64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let options =
        WriterOptions { sorted_by: Some("n".to_owned()), segment_rows: Some(EACH as u64), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(schema.clone()), &options).unwrap();
    for segment in 0..SEGMENTS {
        let numbers = Arc::new(Int64Array::from_iter_values(segment * EACH..(segment + 1) * EACH));
        writer.append(&RecordBatch::try_new(schema.clone(), vec![numbers]).unwrap()).unwrap();
    }
    writer.close().unwrap();
    forget(&path);

    let rows = open(&path).unwrap();
    let before = rows.resident().unwrap();
    let wanted = 3 * EACH + 77;
    let found = rows.between(&Value::Int(wanted), &Value::Int(wanted + 9)).unwrap();
    assert_eq!(found.len().unwrap(), 10);
    assert!(matches!(found.row(0).unwrap().get(0).unwrap(), Value::Int(n) if n == wanted));
    let same = rows.filter(&(col("n").ge(wanted) & col("n").lt(wanted + 10))).unwrap();
    assert_eq!(same.len().unwrap(), 10);
    // Four pages of each segment, and some forty of two searches; without being asked for, 128 KiB or more around each.
    let loaded = rows.resident().unwrap().saturating_sub(before);
    assert!(loaded <= 2 << 20, "{loaded} bytes of {}", rows.nbytes().unwrap());
}
