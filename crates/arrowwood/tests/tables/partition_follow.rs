//! Tests of followers of all partitions of a dataset, some of which fail or are replaced.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{Schema, SchemaRef};
use arrowwood::{
    CompactOptions, Dataset, ErrorKind, FollowFrom, LatePolicy, PartitionsFollower, Value, Writer, WriterOptions,
    alter, drop_partition, follow_partitions, open, parse_schema, partition_path, partition_writer,
};

use crate::tables::number_batch;
use crate::wait::wait_until;

fn host(name: &str) -> [(&str, Value<'_>); 1] {
    [("host", Value::Str(name))]
}

fn options(segment_rows: u64) -> WriterOptions {
    WriterOptions { segment_rows: Some(segment_rows), ..WriterOptions::default() }
}

fn schema(text: &str) -> Option<SchemaRef> {
    Some(Arc::new(parse_schema(text).unwrap()))
}

/// Appends rows to a partition.
fn write_rows(table: &Path, name: &str, range: std::ops::Range<i64>) {
    let schema = schema("n: int64");
    let mut writer = partition_writer(table, &host(name), schema, &options(8)).unwrap();
    writer.append(&number_batch(range)).unwrap();
    writer.close().unwrap();
}

/// Appends rows to a partition, even if it isn't compatible with the others.
fn write_rows_unchecked(table: &Path, name: &str, range: std::ops::Range<i64>) {
    let mut writer = Writer::open(table.join(format!("host={name}")), schema("n: int64"), &options(8)).unwrap();
    writer.append(&number_batch(range)).unwrap();
    writer.close().unwrap();
}

fn follow_from_start(table: &Path) -> PartitionsFollower {
    follow_partitions(&open(table).unwrap(), &FollowFrom::First).unwrap()
}

/// Returns the rows of a dataset with the columns `n` and `host`, as texts such as `a5`.
fn read_rows(dataset: &Dataset) -> Vec<String> {
    let mut rows = Vec::new();
    for row in dataset.select(&["host", "n"]).unwrap().rows() {
        rows.push(row.unwrap().iter().map(|(_, value)| value.unwrap().to_string()).collect());
    }
    rows
}

/// The results of several polls.
#[derive(Debug, Default, PartialEq)]
struct Polled {
    rows: Vec<String>,
    errors: Vec<ErrorKind>,
}

impl Polled {
    fn poll(&mut self, follower: &mut PartitionsFollower, count: usize) {
        for _ in 0..count {
            match follower.poll(Duration::from_millis(5)) {
                Ok(Some((_, dataset))) => self.rows.extend(read_rows(&dataset)),
                Ok(None) => (),
                Err(e) => self.errors.push(e.kind()),
            }
        }
    }

    /// Returns true if there are errors, all of one kind.
    fn has_only_errors(&self, kind: ErrorKind) -> bool {
        !self.errors.is_empty() && self.errors.iter().all(|error| *error == kind)
    }
}

/// Polls a number of times.
fn poll(follower: &mut PartitionsFollower, count: usize) -> Polled {
    let mut polled = Polled::default();
    polled.poll(follower, count);
    polled
}

/// Polls until there are at least `rows` rows, and then a few times more.
fn poll_until(follower: &mut PartitionsFollower, rows: usize) -> Polled {
    let mut polled = Polled::default();
    wait_until("rows of partitions", || {
        polled.poll(follower, 10);
        polled.rows.len() >= rows
    });
    polled.poll(follower, 10);
    polled
}

/// Returns the result of polls without errors.
fn only_rows<const N: usize>(rows: [&str; N]) -> Polled {
    Polled { rows: rows.map(String::from).to_vec(), errors: Vec::new() }
}

/// Regression test: a new partition that couldn't be opened, or was incompatible, hid all other new ones.
#[test]
fn an_unreadable_new_partition_does_not_hide_others() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    write_rows(table, "a", 0..1);
    let mut follower = follow_from_start(table);
    assert_eq!(poll(&mut follower, 2), only_rows(["a0"]));
    let dataset = open(table).unwrap();

    // Garbage, another type, and another partition column.
    fs::create_dir(table.join("host=b")).unwrap();
    fs::write(table.join("host=b/x.arrow"), "garbage").unwrap();
    Writer::open(table.join("host=c"), schema("n: utf8"), &options(8)).unwrap().close().unwrap();
    fs::create_dir(table.join("host=d")).unwrap();
    Writer::open(table.join("host=d/day=1"), schema("n: int64"), &options(8)).unwrap().close().unwrap();
    write_rows_unchecked(table, "e", 5..7);
    let polled = poll(&mut follower, 6);
    assert_eq!(polled.rows, ["e5", "e6"]);
    assert!(polled.errors.len() > 1 && polled.has_only_errors(ErrorKind::InvalidData), "{polled:?}");
    // A snapshot has all partitions, or is an error.
    assert_eq!(dataset.refresh().unwrap_err().kind(), ErrorKind::InvalidData);
    assert!(!dataset.is_newest());

    fs::remove_dir_all(table.join("host=b")).unwrap();
    let polled = poll(&mut follower, 3);
    assert!(polled.has_only_errors(ErrorKind::SchemaMismatch), "{polled:?}");

    fs::remove_dir_all(table.join("host=c")).unwrap();
    fs::remove_dir_all(table.join("host=d")).unwrap();
    write_rows(table, "b", 8..9);
    assert_eq!(poll(&mut follower, 4), only_rows(["b8"]));
    assert_eq!(dataset.refresh().unwrap().len().unwrap(), 4);
}

/// The rows of a new table have numbers that were used before, so a follower can't know which of them it has returned.
#[test]
fn a_recreated_partition_is_a_lasting_error_and_others_continue() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    write_rows(table, "a", 0..5);
    let mut follower = follow_from_start(table);
    assert_eq!(poll(&mut follower, 3).rows.len(), 5);
    assert!(drop_partition(table, &host("a")).unwrap());
    write_rows(table, "a", 100..110);
    write_rows(table, "b", 7..8);
    let polled = poll(&mut follower, 10);
    assert_eq!(polled.rows, ["b7"]);
    assert!(polled.errors.len() > 5 && polled.has_only_errors(ErrorKind::FileChanged), "{polled:?}");

    write_rows(table, "a", 110..115);
    write_rows(table, "b", 8..9);
    let polled = poll(&mut follower, 10);
    assert!(polled.rows == ["b8"] && polled.errors.len() > 5, "{polled:?}");
    let next_rows: Vec<_> = follower.next_rows().into_iter().collect();
    assert_eq!(next_rows, [("host=a".to_owned(), 5), ("host=b".to_owned(), 2)]);

    // The follower has seen that the second table was dropped, so a third one is new.
    assert!(drop_partition(table, &host("a")).unwrap());
    write_rows(table, "a", 200..202);
    assert_eq!(poll(&mut follower, 10).rows, ["a200", "a201"]);
    assert_eq!(poll(&mut follower, 3), Polled::default());
}

#[test]
fn rows_of_other_partitions_are_returned_before_the_error_of_an_unreadable_one() {
    for unreadable in ["other=1", "stray", "host=c"] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        write_rows(table, "a", 0..1);
        write_rows(table, "b", 0..1);
        let mut follower = follow_from_start(table);
        assert_eq!(poll(&mut follower, 3).rows.len(), 2);
        fs::create_dir(table.join(unreadable)).unwrap();
        if unreadable == "host=c" {
            fs::write(table.join(unreadable).join("00000000000000000000.arrow"), "nonsense").unwrap();
        }
        let mut writer = Writer::open(table.join("host=a"), None, &options(8)).unwrap();
        writer.append(&number_batch(1..3)).unwrap();
        writer.close().unwrap();
        let polled = poll(&mut follower, 4);
        assert!(polled.rows == ["a1", "a2"] && polled.errors.len() == 3, "{unreadable}: {polled:?}");

        // New partitions are found when the unreadable one is gone.
        fs::remove_dir_all(table.join(unreadable)).unwrap();
        write_rows(table, "d", 5..6);
        assert_eq!(poll(&mut follower, 4), only_rows(["d5"]), "{unreadable}");
    }
}

/// After incompatible changes, rows of two partitions can't be in one dataset: the first ones are returned, and the
/// others must not be skipped.
#[test]
fn rows_of_incompatible_partitions_are_not_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    write_rows(table, "a", 0..5);
    write_rows(table, "b", 0..5);
    let mut follower = follow_from_start(table);
    assert_eq!(poll(&mut follower, 4).rows.len(), 10);
    for (name, column, x) in [("a", "x: utf8", Value::Str("x")), ("b", "x: int64", Value::Int(1))] {
        let path = partition_path(table, &host(name)).unwrap();
        assert!(alter(&path, &parse_schema(column).unwrap(), &Schema::empty(), &[]).unwrap());
        let mut writer = Writer::open(&path, None, &options(8)).unwrap();
        writer.append_row(&[Value::Int(9), x]).unwrap();
        writer.close().unwrap();
    }
    let polled = poll(&mut follower, 10);
    assert_eq!(polled.rows.len(), 1);
    assert!(polled.errors.len() > 3 && polled.has_only_errors(ErrorKind::SchemaMismatch), "{polled:?}");
    assert_eq!(follower.next_rows().values().sum::<u64>(), 11);
}

/// Sorting replaces the directory of a partition; the writer and the follower continue in the new one.
#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn rows_of_a_partition_that_is_sorted_before_they_are_returned_come_once() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let options = WriterOptions { sorted_by: Some("n".into()), late: Some(LatePolicy::Accept), ..options(8) };
    let [mut a, mut b] =
        ["a", "b"].map(|name| partition_writer(table, &host(name), schema("n: int64"), &options).unwrap());
    a.append(&number_batch(0..1)).unwrap();
    a.commit().unwrap();
    for range in [100..120, 50..70] {
        b.append(&number_batch(range)).unwrap();
        b.commit().unwrap();
    }
    // Reading opens all segments, so that the rows of the old directory stay readable.
    let dataset = open(table).unwrap();
    assert_eq!(read_rows(&dataset).len(), 41);
    let mut follower = follow_partitions(&dataset, &FollowFrom::First).unwrap();
    assert_eq!(poll(&mut follower, 1).rows, ["a0"]);

    assert!(b.compact_with(CompactOptions { sort: true, ..CompactOptions::default() }, |_, _| ()).unwrap() > 0);
    let sorted = read_rows(&open(table).unwrap().slice(1, 40).unwrap());
    assert!(sorted.contains(&"b50".to_owned()) && sorted.contains(&"b119".to_owned()), "{sorted:?}");
    assert_eq!(poll(&mut follower, 20), Polled { rows: sorted, errors: Vec::new() });
    b.append(&number_batch(200..201)).unwrap();
    b.commit().unwrap();
    assert_eq!(poll_until(&mut follower, 1).rows, ["b200"]);
}

/// Returns the number of files in a directory that the process has open.
fn count_open_files(directory: &Path) -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().map(|entry| fs::read_link(entry.unwrap().path()));
    descriptors.filter(|target| target.as_ref().is_ok_and(|target| target.starts_with(directory))).count()
}

#[test]
fn followers_of_many_partitions_have_few_files_open() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().canonicalize().unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("p{number}")).collect();
    for name in &names {
        write_rows(&table, name, 0..3);
    }
    let mut follower = follow_from_start(&table);
    assert_eq!(poll_until(&mut follower, 120).rows.len(), 120);
    let before = count_open_files(&table);
    for name in &names {
        write_rows(&table, name, 3..20);
    }
    assert_eq!(poll_until(&mut follower, 40 * 17).rows.len(), 40 * 17);
    let after = count_open_files(&table);
    assert!(after <= before + 4, "{before} files before, {after} after");
}
