//! The memory of a process that follows a table for long where it may have few mappings.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::{Writer, WriterOptions, follow, open, parse_schema};

/// The process's own memory, in kilobytes.
fn anonymous() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Each is a copy of 1 MiB.
#[test]
fn a_follower_lets_go_of_the_segments_it_has_returned() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let schema = Arc::new(parse_schema("n: int64").unwrap());
    let options = WriterOptions { segment_rows: Some(131_072), ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(schema.clone()), &options).unwrap();
    let dataset = open(&table).unwrap();
    let mut follower = follow(&dataset, Some(0), None).unwrap();
    drop(dataset);
    arrowwood::simulate::limit_mappings(10);
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..131_072));
    let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
    let mut sizes = Vec::new();
    let mut rows = 0;
    for number in 0..60 {
        writer.append(&batch).unwrap();
        writer.commit().unwrap();
        while let Some(found) = follower.poll(Duration::ZERO).unwrap() {
            rows += found.len().unwrap();
        }
        if number % 20 == 19 {
            sizes.push(anonymous());
        }
    }
    assert_eq!(rows, 60 * 131_072);
    assert!(sizes[2] < sizes[0] + 8_000, "{sizes:?}");
}
