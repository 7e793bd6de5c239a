//! Files of a table that others replace while they are read: readers see the rows of the newest ones, or an error.
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

const FIRST: &str = "00000000000000000000.arrow";

fn options(segment_rows: u64) -> WriterOptions {
    WriterOptions { segment_rows: Some(segment_rows), ..WriterOptions::default() }
}

fn writer(table: &Path, segment_rows: u64) -> Writer {
    let schema = Arc::new(parse_schema("n: int64, text: utf8").unwrap());
    Writer::open(table, Some(schema), &options(segment_rows)).unwrap()
}

fn fill(table: &Path, segment_rows: u64, numbers: std::ops::Range<i64>) {
    let mut writer = writer(table, segment_rows);
    writer.append(&text_batch(numbers)).unwrap();
    writer.close().unwrap();
}

fn fill_partition(table: &Path, segment_rows: u64, numbers: std::ops::Range<i64>) {
    let mut writer =
        partition_writer(table, &[("host", Value::Str("a"))], Some(text_batch(0..0).schema()), &options(segment_rows))
            .unwrap();
    writer.append(&text_batch(numbers)).unwrap();
    writer.close().unwrap();
}

fn len(dataset: &Dataset) -> u64 {
    dataset.refresh().unwrap().len().unwrap()
}

fn numbers(dataset: &Dataset) -> Vec<String> {
    dataset.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
}

/// The number of rows that come in some polls.
fn followed(follower: &mut PartitionsFollower, polls: usize) -> u64 {
    let found = (0..polls).filter_map(|_| follower.poll(Duration::from_millis(20)).unwrap());
    found.map(|(_, rows)| rows.len().unwrap()).sum()
}

/// The number of rows that have come when as many are there: a follower looks twice a second for files that were replaced.
fn awaited(follower: &mut PartitionsFollower, rows: u64) -> u64 {
    let mut found = 0;
    wait_until("rows of partitions", || {
        found += followed(follower, 1);
        found >= rows
    });
    found
}

/// The segment that compaction sealed has no name any more once it is merged with the next, whose name it hides.
#[test]
fn a_partition_refreshed_amid_a_compaction_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    fill_partition(table, 64, 0..20);
    let path = partition_path(table, &[("host", Value::Str("a"))]).unwrap();
    let mut whole = open(table).unwrap();
    let mut alone = open(&path).unwrap();
    let mut follower = follow_partitions(&whole, &FollowFrom::First).unwrap();
    compact(&path, |_, _| {
        whole = whole.refresh().unwrap();
        alone = alone.refresh().unwrap();
        followed(&mut follower, 1);
    })
    .unwrap();
    fill_partition(table, 64, 20..30);
    compact(&path, |_, _| ()).unwrap();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "merged");
    assert_eq!((len(&alone), len(&whole), awaited(&mut follower, 10)), (30, 30, 10));
}

#[test]
fn a_table_of_hard_links_refreshed_amid_a_compaction_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (table, backup) = (folder.path().join("t"), folder.path().join("backup"));
    fill(&table, 64, 0..20);
    fs::hard_link(table.join(FIRST), backup).unwrap();
    let mut dataset = open(&table).unwrap();
    compact(&table, |_, _| dataset = dataset.refresh().unwrap()).unwrap();
    fill(&table, 64, 20..30);
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(len(&dataset), 30);
}

/// A newer dataset has closed the file of the segment that both have mapped.
#[test]
fn an_older_dataset_goes_on_too() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    fill(&table, 64, 0..20);
    let mut older = open(&table).unwrap();
    compact(&table, |done, _| {
        if done == 0 {
            older = older.refresh().unwrap();
        }
    })
    .unwrap();
    fill(&table, 64, 20..30);
    assert_eq!(len(&older), 30);
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(len(&older), 30);
}

/// A larger segment replaces the empty one, with the same first row and other offsets, while the first are dropped.
#[test]
fn values_are_those_of_the_file_that_replaced_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    fill(&table, 64, 0..3);
    compact(&table, |_, _| ()).unwrap();
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    let dataset = open(&table).unwrap();
    writer.append_row(&[Value::Int(7), Value::Str(&"x".repeat(64 << 20))]).unwrap();
    writer.commit().unwrap();
    assert_eq!(writer.drop_before(3).unwrap(), 3);
    assert_eq!(numbers(&dataset.refresh().unwrap()), ["7"]);
}

/// A backup of links has the empty segment, which its writer seals when a larger one has replaced it in the table. In the
/// backup its own name is the one at which its rows would go on: a reader that looked there never came to an end.
#[test]
fn an_empty_segment_that_was_sealed_does_not_go_on_in_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (table, backup) = (folder.path().join("t"), folder.path().join("backup"));
    let mut writer = writer(&table, 4);
    fs::create_dir(&backup).unwrap();
    fs::hard_link(table.join(FIRST), backup.join(FIRST)).unwrap();
    let (dataset, linked) = (open(&table).unwrap(), open(&backup).unwrap());
    writer.append_row(&[Value::Int(7), Value::Str(&"x".repeat(64 << 20))]).unwrap();
    writer.commit().unwrap();
    assert_eq!((len(&dataset), len(&linked), len(&open(&backup).unwrap())), (1, 0, 0));
    let mut follower = follow(&linked, None, None).unwrap();
    assert!(follower.poll(Duration::from_millis(10)).unwrap().is_none());
}

/// As a writer leaves it that is killed before it can seal the segment it has replaced.
#[test]
fn an_empty_segment_that_was_replaced_unsealed_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (table, other) = (folder.path().join("t"), folder.path().join("o"));
    fill_partition(&table, 8, 0..0);
    fill_partition(&other, 64, 0..3);
    let dataset = open(&table).unwrap();
    let mut follower = follow_partitions(&dataset, &FollowFrom::First).unwrap();
    let alone = open(table.join("host=a")).unwrap();
    let mut alone_follower = follow(&alone, Some(0), None).unwrap();
    assert!(alone.is_newest());
    assert_eq!(followed(&mut follower, 2), 0);
    let segment = Path::new("host=a").join(FIRST);
    fs::rename(other.join(&segment), table.join(&segment)).unwrap();
    assert!(!alone.is_newest());
    assert_eq!((len(&dataset), len(&alone), awaited(&mut follower, 3)), (3, 3, 3));
    assert_eq!(alone_follower.poll(Duration::ZERO).unwrap().unwrap().len().unwrap(), 3);
}

/// Its follower waits for rows that others get the numbers of.
#[test]
fn a_follower_is_told_of_a_table_that_was_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    fill(&table, 8, 0..8);
    compact(&table, |_, _| ()).unwrap();
    writer(&table, 8).close().unwrap();
    let mut follower = follow(&open(&table).unwrap(), None, None).unwrap();
    assert_eq!(follower.next_row(), 8);
    assert!(follower.poll(Duration::from_millis(10)).unwrap().is_none());
    fs::remove_dir_all(&table).unwrap();
    fill(&table, 8, 100..112);
    let told = follower.poll(PATIENCE).map(|rows| rows.map(|rows| numbers(&rows)));
    assert_eq!(told.unwrap_err().kind(), ErrorKind::FileChanged);
}
