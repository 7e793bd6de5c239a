//! Rows are dropped before a row: what datasets and aggregations of the table show once they are refreshed.

use std::path::{Path, PathBuf};

use arrowwood::{AggregateFunction, Dataset, ErrorKind, IncrementalAggregation, Value, Writer, open};
use tempfile::TempDir;

use crate::tables::{number_batch, number_schema, read_numbers, unsynced};

/// A table of rows 0 to 92, in segments of ten.
fn table() -> (TempDir, PathBuf, Writer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let mut writer = Writer::open(&path, Some(number_schema()), &unsynced(10)).unwrap();
    append(&mut writer, 0..92);
    (folder, path, writer)
}

fn append(writer: &mut Writer, rows: std::ops::Range<i64>) {
    writer.append(&number_batch(rows)).unwrap();
    writer.commit().unwrap();
}

fn aggregation(path: &Path) -> IncrementalAggregation {
    let all = open(path).unwrap();
    all.aggregate::<&str>(&[]).count_rows("rows").column("n", AggregateFunction::First).incremental().unwrap()
}

/// The number of rows, and the first one.
fn answer(aggregation: &mut IncrementalAggregation) -> (String, String) {
    let answer = aggregation.refresh().unwrap();
    let row = answer.row(0).unwrap();
    (row.get(0).unwrap().to_string(), row.get(1).unwrap().to_string())
}

fn expected(rows: u64, first: u64) -> (String, String) {
    (rows.to_string(), first.to_string())
}

/// A refresh noticed nothing until the live segment was full: rows that had been dropped were read, and not found.
#[test]
fn a_refresh_leaves_out_what_was_dropped() {
    let (_folder, path, mut writer) = table();
    let (idle, mut behind) = (open(&path).unwrap(), Vec::new());
    assert_eq!(writer.drop_before(55).unwrap(), 50);
    assert!(!idle.is_newest());
    assert_eq!(idle.first_row(), 0, "an older dataset does not change");
    let newer = idle.refresh().unwrap();
    assert_eq!((newer.first_row(), read_numbers(&newer)), (50, (50..92).collect()));
    assert!(newer.is_newest());
    // However many commits come between two refreshes.
    for (number, commits) in [1, 2, 3].into_iter().enumerate() {
        behind.push((open(&path).unwrap(), commits));
        let first = 60 + 10 * number as u64;
        assert_eq!(writer.drop_before(first).unwrap(), 10);
        for _ in 1..commits {
            let end = writer.rows() as i64;
            append(&mut writer, end..end + 1);
        }
        let (before, _) = &behind[number];
        let newer = before.refresh().unwrap();
        assert_eq!(newer.first_row(), first);
        assert_eq!(read_numbers(&newer), (first as i64..writer.rows() as i64).collect::<Vec<_>>());
    }
    for (before, _) in &behind {
        assert_eq!(before.refresh().unwrap().first_row(), 80);
    }
}

/// What was not found made no difference to later refreshes.
#[test]
fn a_refresh_behind_rows_that_were_not_found_has_none_of_them() {
    let (_folder, path, writer) = table();
    let (before, mut counted) = (open(&path).unwrap(), aggregation(&path));
    // Of a writer that was killed before it could say so.
    for first in (0..50).step_by(10) {
        std::fs::remove_file(path.join(format!("{first:020}.arrow"))).unwrap();
    }
    let gone = |dataset: &Dataset| dataset.row(0).unwrap().get(0).map(|value| value.to_string()).unwrap_err();
    assert!(before.is_newest());
    assert_eq!(gone(&before).kind(), ErrorKind::NotFound);
    let newer = before.refresh().unwrap();
    assert_eq!(read_numbers(&newer), (50..92).collect::<Vec<_>>());
    assert!(newer.is_newest());
    assert_eq!(newer.refresh().unwrap().row(0).unwrap().get(0).unwrap().to_string(), "50");
    assert_eq!(answer(&mut counted), expected(42, 50));
    drop(writer);
    // The table has ended, and one reader still knows the segment that is dropped then.
    arrowwood::compact(&path, |_, _| ()).unwrap();
    let (ended, mut writer) = (open(&path).unwrap(), Writer::open(&path, None, &unsynced(10)).unwrap());
    assert_eq!(writer.drop_before(80).unwrap(), 30);
    assert_eq!(read_numbers(&ended.refresh().unwrap()), (80..92).collect::<Vec<_>>());
}

#[test]
fn an_aggregation_is_of_the_rows_that_are_there_when_it_is_refreshed() {
    let (_folder, path, mut writer) = table();
    let mut counted = aggregation(&path);
    assert_eq!(answer(&mut counted), expected(92, 0));
    writer.drop_before(55).unwrap();
    assert_eq!(answer(&mut counted), expected(42, 50));
    assert_eq!(answer(&mut counted), expected(42, 50));
    append(&mut writer, 92..93);
    assert_eq!(answer(&mut counted), expected(43, 50));
    // Of rows that it has not read yet.
    let mut unread = aggregation(&path);
    writer.drop_before(65).unwrap();
    append(&mut writer, 93..94);
    assert_eq!(answer(&mut unread), expected(34, 60));
    assert_eq!(answer(&mut counted), expected(34, 60));
}

/// The commit that tells of the drop is one of no rows.
#[test]
fn rows_that_are_not_committed_stay_so_when_others_are_dropped() {
    let (_folder, path, mut writer) = table();
    writer.commit_with(&[("source", 5)]).unwrap();
    writer.append_row(&[Value::Int(92)]).unwrap();
    assert_eq!(writer.drop_before(30).unwrap(), 30);
    assert_eq!((writer.rows(), writer.committed_rows()), (93, 92));
    let seen = open(&path).unwrap();
    assert_eq!((seen.len().unwrap(), seen.positions().unwrap()["source"]), (62, 5));
    // Over the end of the live segment, too.
    writer.append(&number_batch(93..115)).unwrap();
    writer.drop_before(40).unwrap();
    assert_eq!(open(&path).unwrap().len().unwrap(), 52);
    writer.rollback();
    append(&mut writer, 92..95);
    assert_eq!(read_numbers(&seen.refresh().unwrap()), (40..95).collect::<Vec<_>>());
    assert!(arrowwood::check(&path, |_, _| ()).unwrap().is_good());
}
