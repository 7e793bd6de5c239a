//! Following all partitions of a dataset, while some of them fail, or are replaced.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::Schema;
use arrowwood::{
    CompactOptions, Dataset, ErrorKind, FollowFrom, LatePolicy, PartitionsFollower, Value, Writer, WriterOptions,
    alter, drop_partition, follow_partitions, open, parse_schema, partition_path, partition_writer,
};

use crate::tables::number_batch;
use crate::wait::wait_until;

fn host(name: &str) -> [(&str, Value<'_>); 1] {
    [("host", Value::Str(name))]
}

fn small(segment_rows: u64) -> WriterOptions {
    WriterOptions { segment_rows: Some(segment_rows), ..WriterOptions::default() }
}

fn write(table: &Path, name: &str, range: std::ops::Range<i64>) {
    let schema = Some(Arc::new(parse_schema("n: int64").unwrap()));
    let mut writer = partition_writer(table, &host(name), schema, &small(8)).unwrap();
    writer.append(&number_batch(range)).unwrap();
    writer.close().unwrap();
}

fn follower_of(table: &Path) -> PartitionsFollower {
    follow_partitions(&open(table).unwrap(), &FollowFrom::First).unwrap()
}

/// The rows of a dataset with the columns `n` and `host`: `a5`.
fn shown(dataset: &Dataset) -> Vec<String> {
    let dataset = dataset.select(&["host", "n"]).unwrap();
    let row = |row: arrowwood::Row<'_>| row.iter().map(|(_, value)| value.unwrap().to_string()).collect::<String>();
    dataset.rows().map(|found| row(found.unwrap())).collect()
}

/// All rows that come with some polls, and the kinds of errors.
fn polled(follower: &mut PartitionsFollower, polls: usize) -> (Vec<String>, Vec<ErrorKind>) {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..polls {
        match follower.poll(Duration::from_millis(5)) {
            Ok(rows) => found.extend(rows.into_iter().flat_map(|(_, rows)| shown(&rows))),
            Err(e) => errors.push(e.kind()),
        }
    }
    (found, errors)
}

/// The same until so many rows have come, and with some polls more.
fn awaited(follower: &mut PartitionsFollower, rows: usize) -> (Vec<String>, Vec<ErrorKind>) {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    wait_until("rows of partitions", || {
        let polled = polled(follower, 10);
        found.extend(polled.0);
        errors.extend(polled.1);
        found.len() >= rows
    });
    let more = polled(follower, 10);
    ([found, more.0].concat(), [errors, more.1].concat())
}

/// New partitions that can't be opened, or don't fit the others, kept all new ones from being seen.
#[test]
fn a_new_partition_that_cannot_be_read_does_not_hide_others() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    write(table, "a", 0..1);
    let mut follower = follower_of(table);
    assert_eq!(polled(&mut follower, 2).0, ["a0"]);
    let dataset = open(table).unwrap();
    fs::create_dir(table.join("host=b")).unwrap();
    fs::write(table.join("host=b/x.arrow"), "garbage").unwrap();
    let schema = Some(Arc::new(parse_schema("n: utf8").unwrap()));
    Writer::open(table.join("host=c"), schema, &small(8)).unwrap().close().unwrap();
    fs::create_dir(table.join("host=d")).unwrap();
    let elsewhere =
        Writer::open(table.join("host=d/day=1"), Some(Arc::new(parse_schema("n: int64").unwrap())), &small(8));
    elsewhere.unwrap().close().unwrap();
    write_beside(table, "e", 5..7);
    let (found, errors) = polled(&mut follower, 6);
    assert_eq!(found, ["e5", "e6"]);
    assert!(errors.len() > 1 && errors.iter().all(|kind| *kind == ErrorKind::InvalidData), "{errors:?}");
    // A snapshot has all partitions, or is refused.
    assert_eq!(dataset.refresh().unwrap_err().kind(), ErrorKind::InvalidData);
    assert!(!dataset.is_newest());
    fs::remove_dir_all(table.join("host=b")).unwrap();
    let (_, errors) = polled(&mut follower, 3);
    assert!(errors.iter().all(|kind| *kind == ErrorKind::SchemaMismatch) && !errors.is_empty(), "{errors:?}");
    fs::remove_dir_all(table.join("host=c")).unwrap();
    fs::remove_dir_all(table.join("host=d")).unwrap();
    write(table, "b", 8..9);
    assert_eq!(polled(&mut follower, 4), (vec!["b8".to_owned()], Vec::new()));
    assert_eq!(dataset.refresh().unwrap().len().unwrap(), 4);
}

/// As `write`, whatever the other partitions are.
fn write_beside(table: &Path, name: &str, range: std::ops::Range<i64>) {
    let schema = Some(Arc::new(parse_schema("n: int64").unwrap()));
    let mut writer = Writer::open(table.join(format!("host={name}")), schema, &small(8)).unwrap();
    writer.append(&number_batch(range)).unwrap();
    writer.close().unwrap();
}

/// Its numbers are used again: whoever goes on can't know which rows those are.
#[test]
fn a_partition_that_was_made_again_is_an_error_that_stays_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    write(table, "a", 0..5);
    let mut follower = follower_of(table);
    assert_eq!(polled(&mut follower, 3).0.len(), 5);
    assert!(drop_partition(table, &host("a")).unwrap());
    write(table, "a", 100..110);
    write(table, "b", 7..8);
    let (found, errors) = polled(&mut follower, 10);
    assert_eq!(found, ["b7"]);
    assert!(errors.len() > 5 && errors.iter().all(|&kind| kind == ErrorKind::FileChanged), "{errors:?}");
    write(table, "a", 110..115);
    write(table, "b", 8..9);
    let (found, errors) = polled(&mut follower, 10);
    assert!(found == ["b8"] && errors.len() > 5, "{found:?} {errors:?}");
    let next: Vec<_> = follower.next_rows().into_iter().collect();
    assert_eq!(next, [("host=a".to_owned(), 5), ("host=b".to_owned(), 2)]);
    // A third one is told from it.
    assert!(drop_partition(table, &host("a")).unwrap());
    write(table, "a", 200..202);
    assert_eq!(polled(&mut follower, 10).0, ["a200", "a201"]);
    assert_eq!(polled(&mut follower, 3), (Vec::new(), Vec::new()));
}

#[test]
fn a_partition_that_can_not_be_opened_is_told_after_the_rows_of_others() {
    for bad in ["other=1", "stray", "host=c"] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        write(table, "a", 0..1);
        write(table, "b", 0..1);
        let mut follower = follower_of(table);
        assert_eq!(polled(&mut follower, 3).0.len(), 2);
        fs::create_dir(table.join(bad)).unwrap();
        if bad == "host=c" {
            fs::write(table.join(bad).join("00000000000000000000.arrow"), "nonsense").unwrap();
        }
        let mut writer = Writer::open(table.join("host=a"), None, &small(8)).unwrap();
        writer.append(&number_batch(1..3)).unwrap();
        writer.close().unwrap();
        let (found, errors) = polled(&mut follower, 4);
        assert!(found == ["a1", "a2"] && errors.len() == 3, "{bad}: {found:?} {errors:?}");
        // It is tried again.
        fs::remove_dir_all(table.join(bad)).unwrap();
        write(table, "d", 5..6);
        assert_eq!(polled(&mut follower, 4), (vec!["d5".to_owned()], Vec::new()), "{bad}");
    }
}

/// Rows of two partitions can't be in one dataset. Those that come first have their place in it, and the others stay.
#[test]
fn rows_that_do_not_fit_are_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    write(table, "a", 0..5);
    write(table, "b", 0..5);
    let mut follower = follower_of(table);
    assert_eq!(polled(&mut follower, 4).0.len(), 10);
    for (name, column, x) in [("a", "x: utf8", Value::Str("x")), ("b", "x: int64", Value::Int(1))] {
        let path = partition_path(table, &host(name)).unwrap();
        assert!(alter(&path, &parse_schema(column).unwrap(), &Schema::empty(), &[]).unwrap());
        let mut writer = Writer::open(&path, None, &small(8)).unwrap();
        writer.append_row(&[Value::Int(9), x]).unwrap();
        writer.close().unwrap();
    }
    let (found, errors) = polled(&mut follower, 10);
    assert_eq!(found.len(), 1);
    assert!(errors.len() > 3 && errors.iter().all(|&kind| kind == ErrorKind::SchemaMismatch), "{errors:?}");
    assert_eq!(follower.next_rows().values().sum::<u64>(), 11);
}

/// Sorting puts another directory in its place, and the writer goes on in that.
#[test]
fn a_partition_sorted_before_its_rows_were_returned_is_followed_once() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let options = WriterOptions { sorted_by: Some("n".into()), late: Some(LatePolicy::Accept), ..small(8) };
    let open_partition = |name| {
        let schema = Some(Arc::new(parse_schema("n: int64").unwrap()));
        partition_writer(table, &host(name), schema, &options).unwrap()
    };
    let mut a = open_partition("a");
    a.append(&number_batch(0..1)).unwrap();
    a.commit().unwrap();
    let mut b = open_partition("b");
    for range in [100..120, 50..70] {
        b.append(&number_batch(range)).unwrap();
        b.commit().unwrap();
    }
    // With all segments opened: the older directory's rows can still be read then.
    let dataset = open(table).unwrap();
    assert_eq!(shown(&dataset).len(), 41);
    let mut follower = follow_partitions(&dataset, &FollowFrom::First).unwrap();
    assert_eq!(polled(&mut follower, 1).0, ["a0"]);
    assert!(b.compact_with(CompactOptions { sort: true, ..CompactOptions::default() }, |_, _| ()).unwrap() > 0);
    let sorted = shown(&open(table).unwrap().slice(1, 40).unwrap());
    assert!(sorted.contains(&"b50".to_owned()) && sorted.contains(&"b119".to_owned()), "{sorted:?}");
    assert_eq!(polled(&mut follower, 20), (sorted, Vec::new()));
    b.append(&number_batch(200..201)).unwrap();
    b.commit().unwrap();
    assert_eq!(awaited(&mut follower, 1).0, ["b200"]);
}

#[test]
fn followers_of_many_partitions_have_few_files_open() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().canonicalize().unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("p{number}")).collect();
    names.iter().for_each(|name| write(&table, name, 0..3));
    let mut follower = follower_of(&table);
    assert_eq!(awaited(&mut follower, 120).0.len(), 120);
    let files = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| fs::read_link(entry.unwrap().path()));
        open.filter(|to| to.as_ref().is_ok_and(|to| to.starts_with(&table))).count()
    };
    let before = files();
    names.iter().for_each(|name| write(&table, name, 3..20));
    assert_eq!(awaited(&mut follower, 40 * 17).0.len(), 40 * 17);
    assert!(files() <= before + 4, "{before} files before, {} after", files());
}
