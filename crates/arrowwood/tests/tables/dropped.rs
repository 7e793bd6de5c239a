//! Tests that refreshed datasets and aggregations don't include rows that were dropped with `drop_before`.

use std::path::{Path, PathBuf};

use arrowwood::{AggregateFunction, Dataset, ErrorKind, IncrementalAggregation, Value, Writer, open};
use tempfile::TempDir;

use crate::tables::{number_batch, number_schema, read_numbers, unsynced};

/// A table of the rows 0..92 in segments of ten.
struct Table {
    _folder: TempDir,
    path: PathBuf,
    writer: Writer,
}

fn write_table() -> Table {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let mut writer = Writer::open(&path, Some(number_schema()), &unsynced(10)).unwrap();
    append(&mut writer, 0..92);
    Table { _folder: folder, path, writer }
}

fn append(writer: &mut Writer, rows: std::ops::Range<i64>) {
    writer.append(&number_batch(rows)).unwrap();
    writer.commit().unwrap();
}

/// Aggregates the number of rows and the first row.
fn start_aggregation(path: &Path) -> IncrementalAggregation {
    let dataset = open(path).unwrap();
    dataset.aggregate::<&str>(&[]).count_rows("rows").column("n", AggregateFunction::First).incremental().unwrap()
}

#[track_caller]
fn assert_aggregates(aggregation: &mut IncrementalAggregation, rows: u64, first: u64) {
    let result = aggregation.refresh().unwrap();
    let row = result.row(0).unwrap();
    assert_eq!([0, 1].map(|column| row.get(column).unwrap().to_string()), [rows.to_string(), first.to_string()]);
}

fn first_number(dataset: &Dataset) -> arrowwood::Result<String> {
    dataset.row(0)?.get(0).map(|value| value.to_string())
}

/// Regression test: refreshing didn't detect the drop until the live segment was full, and reading dropped rows failed.
#[test]
fn refreshing_excludes_dropped_rows() {
    let Table { _folder, path, mut writer } = write_table();
    let dataset = open(&path).unwrap();
    assert_eq!(writer.drop_before(55).unwrap(), 50);
    assert!(!dataset.is_newest());
    assert_eq!(dataset.first_row(), 0, "an open dataset does not change");
    let newer = dataset.refresh().unwrap();
    assert_eq!((newer.first_row(), read_numbers(&newer)), (50, (50..92).collect()));
    assert!(newer.is_newest());

    // The number of commits between two refreshes must not matter.
    let mut datasets = Vec::new();
    for (first, commits) in [(60, 1), (70, 2), (80, 3)] {
        let dataset = open(&path).unwrap();
        assert_eq!(writer.drop_before(first).unwrap(), 10);
        for _ in 1..commits {
            let end = writer.rows() as i64;
            append(&mut writer, end..end + 1);
        }
        let newer = dataset.refresh().unwrap();
        assert_eq!(newer.first_row(), first);
        assert_eq!(read_numbers(&newer), (first as i64..writer.rows() as i64).collect::<Vec<_>>());
        datasets.push(dataset);
    }
    for dataset in &datasets {
        assert_eq!(dataset.refresh().unwrap().first_row(), 80);
    }
}

/// Regression test: a failed read of dropped rows made no difference to later refreshes.
#[test]
fn refreshing_after_a_failed_read_excludes_dropped_rows() {
    let Table { _folder, path, writer } = write_table();
    let dataset = open(&path).unwrap();
    let mut aggregation = start_aggregation(&path);
    // A writer was killed after it removed the files, and before it could commit the drop.
    for first in (0..50).step_by(10) {
        std::fs::remove_file(path.join(format!("{first:020}.arrow"))).unwrap();
    }
    assert!(dataset.is_newest());
    assert_eq!(first_number(&dataset).unwrap_err().kind(), ErrorKind::NotFound);
    let newer = dataset.refresh().unwrap();
    assert_eq!(read_numbers(&newer), (50..92).collect::<Vec<_>>());
    assert!(newer.is_newest());
    assert_eq!(first_number(&newer.refresh().unwrap()).unwrap(), "50");
    assert_aggregates(&mut aggregation, 42, 50);

    // The last segment is sealed, and a reader has it open when it is dropped.
    drop(writer);
    arrowwood::compact(&path, |_, _| ()).unwrap();
    let sealed = open(&path).unwrap();
    let mut writer = Writer::open(&path, None, &unsynced(10)).unwrap();
    assert_eq!(writer.drop_before(80).unwrap(), 30);
    assert_eq!(read_numbers(&sealed.refresh().unwrap()), (80..92).collect::<Vec<_>>());
}

#[test]
fn aggregations_exclude_dropped_rows() {
    let Table { _folder, path, mut writer } = write_table();
    let mut aggregation = start_aggregation(&path);
    assert_aggregates(&mut aggregation, 92, 0);
    writer.drop_before(55).unwrap();
    assert_aggregates(&mut aggregation, 42, 50);
    assert_aggregates(&mut aggregation, 42, 50);
    append(&mut writer, 92..93);
    assert_aggregates(&mut aggregation, 43, 50);

    // Rows may be dropped before an aggregation has read them.
    let mut unread = start_aggregation(&path);
    writer.drop_before(65).unwrap();
    append(&mut writer, 93..94);
    assert_aggregates(&mut unread, 34, 60);
    assert_aggregates(&mut aggregation, 34, 60);
}

/// Dropping rows makes a commit of its own, which must not include appended rows.
#[test]
fn dropping_rows_does_not_commit_others() {
    let Table { _folder, path, mut writer } = write_table();
    writer.commit_with(&[("source", 5)]).unwrap();
    writer.append_row(&[Value::Int(92)]).unwrap();
    assert_eq!(writer.drop_before(30).unwrap(), 30);
    assert_eq!((writer.rows(), writer.committed_rows()), (93, 92));
    let dataset = open(&path).unwrap();
    assert_eq!((dataset.len().unwrap(), dataset.positions().unwrap()["source"]), (62, 5));
    // The appended rows may also extend to the next segment.
    writer.append(&number_batch(93..115)).unwrap();
    writer.drop_before(40).unwrap();
    assert_eq!(open(&path).unwrap().len().unwrap(), 52);
    writer.rollback();
    append(&mut writer, 92..95);
    assert_eq!(read_numbers(&dataset.refresh().unwrap()), (40..95).collect::<Vec<_>>());
    assert!(arrowwood::check(&path, |_, _| ()).unwrap().is_good());
}
