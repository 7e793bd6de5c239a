//! Tests of readers whose files are replaced by a writer or a compaction: they see the rows of the newest files, or an
//! error.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrowwood::{
    Dataset, ErrorKind, FollowFrom, PartitionsFollower, Value, Writer, WriterOptions, compact, follow,
    follow_partitions, open, parse_schema, partition_path, partition_writer,
};

use crate::tables::text_batch;
use crate::wait::{PATIENCE, wait_until};

/// The name of a table's first segment.
const FIRST_SEGMENT: &str = "00000000000000000000.arrow";

fn options(segment_rows: u64) -> WriterOptions {
    WriterOptions { segment_rows: Some(segment_rows), ..WriterOptions::default() }
}

fn open_writer(table: &Path, segment_rows: u64) -> Writer {
    let schema = Arc::new(parse_schema("n: int64, text: utf8").unwrap());
    Writer::open(table, Some(schema), &options(segment_rows)).unwrap()
}

fn write_rows(table: &Path, segment_rows: u64, numbers: std::ops::Range<i64>) {
    let mut writer = open_writer(table, segment_rows);
    writer.append(&text_batch(numbers)).unwrap();
    writer.close().unwrap();
}

fn write_partition(table: &Path, segment_rows: u64, numbers: std::ops::Range<i64>) {
    let schema = Some(text_batch(0..0).schema());
    let mut writer = partition_writer(table, &[("host", Value::Str("a"))], schema, &options(segment_rows)).unwrap();
    writer.append(&text_batch(numbers)).unwrap();
    writer.close().unwrap();
}

fn refreshed_len(dataset: &Dataset) -> u64 {
    dataset.refresh().unwrap().len().unwrap()
}

fn read_numbers(dataset: &Dataset) -> Vec<String> {
    dataset.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
}

/// Polls once; returns the number of rows.
fn poll_rows(follower: &mut PartitionsFollower) -> u64 {
    let polled = follower.poll(Duration::from_millis(20)).unwrap();
    polled.map_or(0, |(_, rows)| rows.len().unwrap())
}

/// Polls until there are at least `rows` rows, and returns their number. A follower checks twice a second for replaced
/// files.
fn poll_until(follower: &mut PartitionsFollower, rows: u64) -> u64 {
    let mut polled = 0;
    wait_until("rows of partitions", || {
        polled += poll_rows(follower);
        polled >= rows
    });
    polled
}

/// The segment that a compaction seals loses its name when it is merged with the next one.
#[test]
fn partitions_can_be_refreshed_during_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    write_partition(table, 64, 0..20);
    let path = partition_path(table, &[("host", Value::Str("a"))]).unwrap();
    let mut dataset = open(table).unwrap();
    let mut partition = open(&path).unwrap();
    let mut follower = follow_partitions(&dataset, &FollowFrom::First).unwrap();
    compact(&path, |_, _| {
        dataset = dataset.refresh().unwrap();
        partition = partition.refresh().unwrap();
        poll_rows(&mut follower);
    })
    .unwrap();
    write_partition(table, 64, 20..30);
    compact(&path, |_, _| ()).unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "merged");
    assert_eq!(refreshed_len(&partition), 30);
    assert_eq!(refreshed_len(&dataset), 30);
    assert_eq!(poll_until(&mut follower, 10), 10);
}

#[test]
fn tables_with_hard_links_can_be_refreshed_during_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let backup = folder.path().join("backup");
    write_rows(&table, 64, 0..20);
    fs::hard_link(table.join(FIRST_SEGMENT), backup).unwrap();
    let mut dataset = open(&table).unwrap();
    compact(&table, |_, _| dataset = dataset.refresh().unwrap()).unwrap();
    write_rows(&table, 64, 20..30);
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(refreshed_len(&dataset), 30);
}

/// Datasets share mappings; a newer one may have closed the file of the segment.
#[test]
fn an_older_dataset_can_be_refreshed_again() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    write_rows(&table, 64, 0..20);
    let mut older = open(&table).unwrap();
    compact(&table, |done, _| {
        if done == 0 {
            older = older.refresh().unwrap();
        }
    })
    .unwrap();
    write_rows(&table, 64, 20..30);
    assert_eq!(refreshed_len(&older), 30);
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(refreshed_len(&older), 30);
}

/// A large row makes the writer replace the empty segment by a larger one, with the same first row and other offsets.
#[test]
fn readers_open_the_segment_that_replaced_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    write_rows(&table, 64, 0..3);
    compact(&table, |_, _| ()).unwrap();
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    let dataset = open(&table).unwrap();
    writer.append_row(&[Value::Int(7), Value::Str(&"x".repeat(64 << 20))]).unwrap();
    writer.commit().unwrap();
    assert_eq!(writer.drop_before(3).unwrap(), 3);
    assert_eq!(read_numbers(&dataset.refresh().unwrap()), ["7"]);
}

/// Regression test: a backup of hard links contains the empty segment, which the writer seals when it replaces it in
/// the table. The rows of a sealed segment continue in the file that is named for its end, which is the same file if it
/// is empty: readers of the backup followed it forever.
#[test]
fn a_sealed_empty_segment_is_not_its_own_successor() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let backup = folder.path().join("backup");
    let mut writer = open_writer(&table, 4);
    fs::create_dir(&backup).unwrap();
    fs::hard_link(table.join(FIRST_SEGMENT), backup.join(FIRST_SEGMENT)).unwrap();
    let dataset = open(&table).unwrap();
    let linked = open(&backup).unwrap();
    writer.append_row(&[Value::Int(7), Value::Str(&"x".repeat(64 << 20))]).unwrap();
    writer.commit().unwrap();
    assert_eq!(refreshed_len(&dataset), 1);
    assert_eq!(refreshed_len(&linked), 0);
    assert_eq!(refreshed_len(&open(&backup).unwrap()), 0);
    let mut follower = follow(&linked, None, None).unwrap();
    assert!(follower.poll(Duration::from_millis(10)).unwrap().is_none());
}

/// A writer may be killed after it has replaced a segment and before it can seal the old one.
#[test]
fn readers_detect_that_an_unsealed_empty_segment_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let other = folder.path().join("o");
    write_partition(&table, 8, 0..0);
    write_partition(&other, 64, 0..3);
    let dataset = open(&table).unwrap();
    let mut follower = follow_partitions(&dataset, &FollowFrom::First).unwrap();
    let partition = open(table.join("host=a")).unwrap();
    let mut partition_follower = follow(&partition, Some(0), None).unwrap();
    assert!(partition.is_newest());
    for _ in 0..2 {
        assert_eq!(poll_rows(&mut follower), 0);
    }
    let segment = Path::new("host=a").join(FIRST_SEGMENT);
    fs::rename(other.join(&segment), table.join(&segment)).unwrap();
    assert!(!partition.is_newest());
    assert_eq!(refreshed_len(&dataset), 3);
    assert_eq!(refreshed_len(&partition), 3);
    assert_eq!(poll_until(&mut follower, 3), 3);
    assert_eq!(partition_follower.poll(Duration::ZERO).unwrap().unwrap().len().unwrap(), 3);
}

/// The rows of the new table have the numbers that the follower waits for, so it must fail.
#[test]
fn followers_detect_that_a_table_was_recreated() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    write_rows(&table, 8, 0..8);
    compact(&table, |_, _| ()).unwrap();
    open_writer(&table, 8).close().unwrap();
    let mut follower = follow(&open(&table).unwrap(), None, None).unwrap();
    assert_eq!(follower.next_row(), 8);
    assert!(follower.poll(Duration::from_millis(10)).unwrap().is_none());
    fs::remove_dir_all(&table).unwrap();
    write_rows(&table, 8, 100..112);
    let result = follower.poll(PATIENCE).map(|rows| rows.map(|rows| read_numbers(&rows)));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::FileChanged);
}
