//! Tests that a follower's memory doesn't grow when segments are copied to memory, as the process may have no more
//! mappings.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::{Writer, WriterOptions, follow, open, parse_schema};

const SEGMENT_ROWS: i64 = 131_072;

/// Returns the anonymous memory of the process, in kilobytes.
fn anonymous_kilobytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Each segment is a copy of 1 MiB.
#[test]
fn a_follower_releases_the_segments_that_it_has_returned() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let schema = Arc::new(parse_schema("n: int64").unwrap());
    let options = WriterOptions { segment_rows: Some(SEGMENT_ROWS as u64), ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(schema.clone()), &options).unwrap();
    let dataset = open(&table).unwrap();
    let mut follower = follow(&dataset, Some(0), None).unwrap();
    drop(dataset);
    arrowwood::simulate::limit_mappings(10);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..SEGMENT_ROWS));
    let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
    let mut sizes = Vec::new();
    let mut rows = 0;
    for number in 0..60 {
        writer.append(&batch).unwrap();
        writer.commit().unwrap();
        while let Some(polled) = follower.poll(Duration::ZERO).unwrap() {
            rows += polled.len().unwrap();
        }
        if number % 20 == 19 {
            sizes.push(anonymous_kilobytes());
        }
    }
    assert_eq!(rows, 60 * SEGMENT_ROWS as u64);
    assert!(sizes[2] < sizes[0] + 8_000, "{sizes:?}");
}
