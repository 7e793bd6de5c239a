//! Tests of sorting compactions: late rows are sorted across segments, while the table is written and read, and the
//! result is complete or absent if the compaction is interrupted at any step.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp, compact_on};
use arrowwood::{
    CompactOptions, Dataset, ErrorKind, FollowFrom, LatePolicy, Writer, WriterOptions, check, col, compact_with,
    follow, follow_partitions, open,
};

use crate::dice::Dice;
use crate::merge::Interruption;
use crate::tables::unsynced;
use crate::wait::{PATIENCE, wait_for};

const SORT: CompactOptions = CompactOptions { rewrite: false, sort: true };

fn schema(key: &DataType) -> SchemaRef {
    let symbol = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    Arc::new(Schema::new(vec![
        Field::new("key", key.clone(), true),
        Field::new("arrival", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
        Field::new("symbol", symbol, true),
        Field::new("items", DataType::List(item), true),
    ]))
}

/// Returns a column of keys of the given type.
fn keys(key_type: &DataType, values: &[Option<i64>]) -> ArrayRef {
    match key_type {
        DataType::Int64 => Arc::new(Int64Array::from(values.to_vec())),
        DataType::UInt8 => Arc::new(UInt8Array::from_iter(values.iter().map(|v| v.map(|v| v.rem_euclid(256) as u8)))),
        DataType::Float64 => {
            let floats = values.iter().map(|v| v.map(|v| if is_nan(v) { f64::NAN } else { v as f64 / 4.0 }));
            Arc::new(Float64Array::from_iter(floats))
        }
        DataType::Utf8 => {
            Arc::new(StringArray::from_iter(values.iter().map(|v| v.map(|v| format!("{:05}", v + 5000)))))
        }
        other => panic!("{other}"),
    }
}

/// Returns true if the key of this value is NaN in a column of floats.
fn is_nan(value: i64) -> bool {
    value % 11 == 0
}

/// Returns rows with the given values as keys; the other columns are derived from the numbers of the rows.
fn batch(key: &DataType, first_arrival: i64, values: &[Option<i64>]) -> RecordBatch {
    let arrivals: Vec<i64> = (first_arrival..first_arrival + values.len() as i64).collect();
    let texts = arrivals.iter().map(|n| (n % 7 != 2).then(|| format!("row {n}")));
    let symbols = arrivals.iter().map(|n| (n % 5 != 1).then(|| format!("s{}", n % 13)));
    let items = arrivals.iter().map(|n| (n % 3 != 0).then(|| (0..n % 4).map(Some)));
    let columns: [ArrayRef; 5] = [
        keys(key, values),
        Arc::new(Int64Array::from(arrivals.clone())),
        Arc::new(StringArray::from_iter(texts)),
        Arc::new(StringArray::from_iter(symbols)),
        Arc::new(ListArray::from_iter_primitive::<types::Int64Type, _, _>(items)),
    ];
    let names = ["key", "arrival", "text", "symbol", "items"];
    RecordBatch::try_from_iter_with_nullable(names.into_iter().zip(columns).map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn options(segment_rows: u64, medium: &FileSystem) -> WriterOptions {
    WriterOptions {
        sorted_by: Some("key".into()),
        late: Some(LatePolicy::Accept),
        index: Some(vec!["symbol".into()]),
        zone_rows: Some(5),
        medium: medium.clone(),
        ..unsynced(segment_rows)
    }
}

/// Returns every row as text, by the number of its arrival.
fn rows_by_arrival(dataset: &Dataset) -> BTreeMap<i64, String> {
    let mut rows = BTreeMap::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        let cells = [0, 1, 2, 3, 4].map(|column| row.get(column).unwrap().to_string());
        rows.insert(cells[1].parse().unwrap(), cells.join(" "));
    }
    rows
}

/// Returns the numbers of arrival in the order of the rows.
fn arrivals(dataset: &Dataset) -> Vec<i64> {
    dataset.rows().map(|row| row.unwrap().get(1).unwrap().to_string().parse().unwrap()).collect()
}

/// Returns the position of a key in the order: nulls are last, after NaN.
fn rank(key: &DataType, value: Option<i64>) -> (u8, i64) {
    match (key, value) {
        (_, None) => (2, 0),
        (DataType::Float64, Some(v)) if is_nan(v) => (1, 0),
        (DataType::UInt8, Some(v)) => (0, v.rem_euclid(256)),
        (_, Some(v)) => (0, v),
    }
}

/// Returns the numbers of arrival, sorted by keys; equal keys stay in the order of their arrival.
fn sort_naively(key: &DataType, values: &[Option<i64>]) -> Vec<i64> {
    let mut order: Vec<i64> = (0..values.len() as i64).collect();
    order.sort_by_key(|&arrival| rank(key, values[arrival as usize]));
    order
}

/// Writes a table of unsorted rows in small segments.
fn write_late_table(
    path: &Path,
    key: &DataType,
    values: &[Option<i64>],
    segment_rows: u64,
    medium: &FileSystem,
) -> Writer {
    let mut writer = Writer::open(path, Some(schema(key)), &options(segment_rows, medium)).unwrap();
    for (number, values) in values.chunks(7).enumerate() {
        writer.append(&batch(key, 7 * number as i64, values)).unwrap();
        writer.commit().unwrap();
    }
    writer
}

/// Returns a value for each row, which is late by up to `spread`.
fn random_values(dice: &mut Dice, rows: i64, spread: u64, has_nulls: bool) -> Vec<Option<i64>> {
    let mut values = Vec::new();
    for row in 0..rows {
        let is_null = has_nulls && dice.below(9) == 0;
        values.push((!is_null).then(|| row - dice.below(1 + spread) as i64));
    }
    values
}

/// Returns the number of entries in a folder: more than one if a compaction has left files next to the table.
fn count_entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn read_first_arrival(dataset: &Dataset) -> arrowwood::Result<String> {
    dataset.row(0)?.get(1).map(|value| value.to_string())
}

#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn rows_are_in_the_order_of_a_naive_sort() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let key = [DataType::Int64, DataType::UInt8, DataType::Float64, DataType::Utf8][dice.below(4) as usize].clone();
        let rows = 1 + dice.below(300) as i64;
        let spread = [0, 3, 40, 1000][dice.below(4) as usize];
        let has_nulls = dice.below(3) == 0;
        let values = random_values(&mut dice, rows, spread, has_nulls);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticks");
        let segment_rows = 1 + dice.below(50);
        drop(write_late_table(&path, &key, &values, segment_rows, &FileSystem::default()));
        let before = rows_by_arrival(&open(&path).unwrap());
        compact_with(&path, SORT, |_, _| ()).unwrap();
        let sorted = open(&path).unwrap();
        assert_eq!(arrivals(&sorted), sort_naively(&key, &values), "seed {seed}: {key}, {segment_rows} rows a segment");
        assert_eq!(rows_by_arrival(&sorted), before, "seed {seed}");
        sorted.validate(|_, _| ()).unwrap();
        let report = check(&path, |_, _| ()).unwrap();
        assert!(report.is_good(), "seed {seed}: {report:?}");
        let filtered = sorted.filter(&col("symbol").eq("s3")).unwrap();
        let expected = (0..rows).filter(|n| n % 5 != 1 && n % 13 == 3).count();
        assert_eq!(filtered.len().unwrap(), expected as u64);
        assert_eq!(count_entries(folder.path()), 1, "seed {seed}: nothing is left beside it");
        // A sorted table isn't changed again.
        assert_eq!(compact_with(&path, SORT, |_, _| ()).unwrap(), 0, "seed {seed}");
        // A writer can continue the table.
        let mut writer = Writer::open(&path, None, &WriterOptions::default()).unwrap();
        writer.append(&batch(&key, rows, &[Some(0)])).unwrap();
        writer.commit().unwrap();
        assert_eq!(sorted.refresh().unwrap().len().unwrap(), rows as u64 + 1);
    }
}

/// Returns the inode number of each file.
fn inodes(path: &Path) -> BTreeMap<String, u64> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().ino())).collect()
}

#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn segments_that_overlap_with_no_other_are_not_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut values: Vec<Option<i64>> = (0..100).map(Some).collect();
    // Swaps rows of the fourth and the fifth segment, and two rows of the eighth.
    values.swap(38, 41);
    values.swap(70, 73);
    let mut writer = write_late_table(&path, &DataType::Int64, &values, 10, &FileSystem::default());
    writer.compact(|_, _| ()).unwrap();
    let before = inodes(&path);
    assert_eq!(before.len(), 10);
    assert_eq!(writer.compact_with(SORT, |_, _| ()).unwrap(), 3);
    assert_eq!(arrivals(&open(&path).unwrap()), sort_naively(&DataType::Int64, &values));
    let after = inodes(&path);
    let changed: Vec<&String> = before.keys().filter(|&name| after[name] != before[name]).collect();
    assert_eq!(changed, [30, 40, 70].map(|row| format!("{row:020}.arrow")).iter().collect::<Vec<_>>());
    writer.append(&batch(&DataType::Int64, 100, &[Some(5)])).unwrap();
    writer.commit().unwrap();
    assert_eq!(open(&path).unwrap().len().unwrap(), 101);
    // The writer still holds the lock.
    let error = Writer::open(&path, None, &WriterOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn sorting_keeps_positions_schema_changes_and_dropped_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let key = DataType::Int64;
    let values = random_values(&mut Dice::new(8), 60, 9, false);
    let mut writer = write_late_table(&path, &key, &values, 10, &FileSystem::default());
    let mut fields = schema(&key).fields().to_vec();
    fields.push(Arc::new(Field::new("new", DataType::Int64, true)));
    assert!(writer.alter(&Arc::new(Schema::new(fields))).unwrap());
    let more: Vec<Option<i64>> = (0..25).map(|row| Some(55 + (row * 7) % 25)).collect();
    let mut columns = batch(&key, 60, &more).columns().to_vec();
    columns.push(Arc::new(Int64Array::new_null(25)));
    let names = ["key", "arrival", "text", "symbol", "items", "new"];
    let columns = names.into_iter().zip(columns).map(|(name, array)| (name, array, true));
    writer.append(&RecordBatch::try_from_iter_with_nullable(columns).unwrap()).unwrap();
    writer.commit_with(&[("source", 85)]).unwrap();
    writer.drop_before(12).unwrap();
    writer.close().unwrap();
    let before = open(&path).unwrap();
    assert_eq!(before.first_row(), 10);
    let rows = rows_by_arrival(&before);
    compact_with(&path, CompactOptions { rewrite: true, sort: true }, |_, _| ()).unwrap();
    let sorted = open(&path).unwrap();
    assert_eq!((sorted.first_row(), sorted.len().unwrap()), (10, 75));
    assert_eq!(rows_by_arrival(&sorted), rows);
    let all_values: Vec<Option<i64>> = values.iter().chain(&more).copied().collect();
    let order: Vec<i64> = sort_naively(&key, &all_values).into_iter().filter(|&arrival| arrival >= 10).collect();
    assert_eq!(arrivals(&sorted), order);
    assert_eq!(sorted.positions().unwrap(), BTreeMap::from([("source".to_string(), 85)]));
    assert_eq!(sorted.column("new").unwrap().count().unwrap(), 0);
}

/// A dataset or follower that was opened before the compaction gives the old rows, continues after them, or fails.
#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn open_readers_never_see_rows_in_a_mixed_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let key = DataType::Int64;
    let values = random_values(&mut Dice::new(5), 203, 20, false);
    let mut writer = write_late_table(&path, &key, &values, 16, &FileSystem::default());
    let original_order: Vec<i64> = (0..203).collect();
    let mapped = open(&path).unwrap();
    assert_eq!(arrivals(&mapped), original_order);
    let unmapped = open(&path).unwrap();
    let mut follower_at_start = follow(&open(&path).unwrap(), Some(0), None).unwrap();
    let mut follower_at_end = follow(&open(&path).unwrap(), None, None).unwrap();
    writer.compact_with(SORT, |_, _| ()).unwrap();
    assert_ne!(arrivals(&open(&path).unwrap()), original_order);

    // Mapped segments stay as they are; others aren't read in another order.
    assert_eq!(arrivals(&mapped), original_order);
    let error = read_first_arrival(&unmapped).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileChanged, "{error}");
    assert!(error.to_string().contains("open the table again"), "{error}");
    let error = follower_at_start.poll(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileChanged, "{error}");

    // Nothing has changed after the sealed segments: followers at the end continue, also into the next segment.
    let more: Vec<Option<i64>> = (203..260).map(Some).collect();
    writer.append(&batch(&key, 203, &more)).unwrap();
    writer.commit().unwrap();
    let rows = follower_at_end.poll(Duration::ZERO).unwrap().unwrap();
    assert_eq!(arrivals(&rows), (203..260).collect::<Vec<_>>());
    let refreshed = mapped.refresh().unwrap();
    assert_eq!(arrivals(&refreshed), arrivals(&open(&path).unwrap()));

    // The next compaction includes the segment that was live.
    writer.compact_with(SORT, |_, _| ()).unwrap();
    drop(writer);
    compact_with(&path, SORT, |_, _| ()).unwrap();
    let error = mapped.refresh().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileChanged, "{error}");
}

/// Each compaction replaces the directory. The second replacement may reuse the inode number of the original directory.
#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn readers_detect_repeated_compactions() {
    // The second directory is likely to be on ext4, which reuses inode numbers.
    for home in [tempfile::tempdir().unwrap(), tempfile::tempdir_in("target").or_else(|_| tempfile::tempdir()).unwrap()]
    {
        let path = home.path().join("ticks");
        let values = random_values(&mut Dice::new(5), 203, 20, false);
        let mut writer = write_late_table(&path, &DataType::Int64, &values, 16, &FileSystem::default());
        let unmapped = open(&path).unwrap();
        writer.compact_with(SORT, |_, _| ()).unwrap();
        for round in 0..4 {
            let late: Vec<Option<i64>> = (0..40).map(|row| Some((row * 37 + round) % 200)).collect();
            writer.append(&batch(&DataType::Int64, 203 + 40 * round, &late)).unwrap();
            writer.commit().unwrap();
            assert!(writer.compact_with(SORT, |_, _| ()).unwrap() > 0);
            let error = read_first_arrival(&unmapped).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileChanged, "{error}");
        }
    }
}

/// Longer than a writer waits until it checks at a commit whether its files were replaced.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(120);

#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn followers_of_partitions_continue_or_fail() {
    let folder = tempfile::tempdir().unwrap();
    let key = DataType::Int64;
    let table = folder.path().join("load");
    std::fs::create_dir(&table).unwrap();
    let values = random_values(&mut Dice::new(5), 103, 20, false);
    let [a, b] = ["host=a", "host=b"].map(|name| table.join(name));
    let mut writer = write_late_table(&a, &key, &values, 16, &FileSystem::default());
    drop(write_late_table(&b, &key, &values, 16, &FileSystem::default()));
    let mut follower = follow_partitions(&open(&table).unwrap(), &FollowFrom::Now).unwrap();

    // The writer of `a` compacts it and continues with the same live segment, and so does the follower.
    writer.compact_with(SORT, |_, _| ()).unwrap();
    std::thread::sleep(FILE_CHECK_INTERVAL);
    writer.append(&batch(&key, 103, &[Some(1), Some(2)])).unwrap();
    writer.commit().unwrap();
    let (name, rows) = follower.poll(PATIENCE).unwrap().unwrap();
    assert_eq!((name.as_str(), arrivals(&rows)), ("host=a", vec![103, 104]));

    // Without a writer, the compaction includes the last segment, so it is unknown which rows of `b` were returned.
    compact_with(&b, SORT, |_, _| ()).unwrap();
    std::thread::sleep(FILE_CHECK_INTERVAL);
    writer.append(&batch(&key, 105, &[Some(3)])).unwrap();
    writer.commit().unwrap();
    let error = wait_for("the error of rows that may come again", || match follower.poll(Duration::from_millis(5)) {
        Ok(Some((name, _))) => {
            assert_eq!(name, "host=a", "rows come again");
            None
        }
        Ok(None) => None,
        Err(e) => Some(e),
    });
    assert_eq!(error.kind(), ErrorKind::FileChanged, "{error}");

    // A new follower that starts at the rows of the failed one returns no row twice.
    let start = FollowFrom::Rows(follower.next_rows());
    let mut new_follower = follow_partitions(&open(&table).unwrap(), &start).unwrap();
    while let Some((name, _)) = new_follower.poll(Duration::ZERO).unwrap() {
        assert_eq!(name, "host=a");
    }
}

#[test]
fn sorting_a_table_without_a_sort_column_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let options = WriterOptions { sorted_by: None, late: None, ..options(4, &FileSystem::default()) };
    let mut writer = Writer::open(&path, Some(schema(&DataType::Int64)), &options).unwrap();
    writer.append(&batch(&DataType::Int64, 0, &[Some(2), Some(1)])).unwrap();
    writer.commit().unwrap();
    let error = writer.compact_with(SORT, |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("sorted_by"), "{error}");
}

#[test]
#[cfg(arrowwood_portable)]
fn sorting_is_unsupported_if_directories_cannot_be_exchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let values = [Some(5), Some(1), Some(4), Some(2), Some(3)];
    let mut writer = Writer::open(&path, Some(schema(&DataType::Int64)), &options(2, &FileSystem::default())).unwrap();
    writer.append(&batch(&DataType::Int64, 0, &values)).unwrap();
    writer.commit().unwrap();
    let error = writer.compact_with(SORT, |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(arrivals(&open(&path).unwrap()), [0, 1, 2, 3, 4]);
    assert_eq!(count_entries(folder.path()), 1, "nothing is left beside the table");
}

/// Opens the table before each operation on names, and checks that its rows are in one of two orders.
#[derive(Debug)]
struct ConcurrentReader {
    path: PathBuf,
    orders: [Vec<i64>; 2],
}

impl FsObserver for ConcurrentReader {
    fn before_op(&self, op: FsOp<'_>) -> std::io::Result<()> {
        let is_naming =
            matches!(op, FsOp::Rename { .. } | FsOp::Remove { .. } | FsOp::Exchange { .. } | FsOp::SyncFolder { .. });
        if is_naming {
            let order = arrivals(&open(&self.path).unwrap());
            assert!(self.orders.contains(&order), "a reader sees {order:?}");
        }
        Ok(())
    }
}

#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn an_interrupted_compaction_leaves_the_original_or_the_sorted_table() {
    let key = DataType::Int64;
    let values = random_values(&mut Dice::new(3), 33, 6, true);
    let original: Vec<i64> = (0..33).collect();
    let sorted = sort_naively(&key, &values);
    let mut interrupted_before = 0;
    let mut interrupted_after = 0;
    for operations in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = std::fs::canonicalize(folder.path()).unwrap().join("ticks");
        drop(write_late_table(&path, &key, &values, 8, &FileSystem::default()));
        let rows = rows_by_arrival(&open(&path).unwrap());
        let interruption = Interruption { remaining: Mutex::new(operations) };
        let result = compact_on(&FileSystem::with_observer(Arc::new(interruption)), &path, SORT, |_, _| ());

        let dataset = open(&path).unwrap();
        let order = arrivals(&dataset);
        assert!(order == original || order == sorted, "after {operations} operations: {order:?}");
        assert_eq!(rows_by_arrival(&dataset), rows);
        assert!(check(&path, |_, _| ()).unwrap().is_good(), "after {operations} operations");
        // The next writer removes the unfinished files next to the table.
        drop(Writer::open(&path, None, &WriterOptions::default()).unwrap());
        assert_eq!(count_entries(folder.path()), 1, "after {operations} operations");
        assert_eq!(arrivals(&open(&path).unwrap()), order);
        if result.is_ok() {
            assert_eq!(order, sorted);
            break;
        }
        if order == original {
            interrupted_before += 1;
        } else {
            interrupted_after += 1;
        }
    }
    assert!(
        interrupted_before > 20 && interrupted_after > 5,
        "{interrupted_before} were interrupted before the exchange, {interrupted_after} after it"
    );
}

#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn concurrent_readers_see_the_original_or_the_sorted_table() {
    let key = DataType::Int64;
    let values = random_values(&mut Dice::new(3), 33, 6, true);
    let orders = [(0..33).collect(), sort_naively(&key, &values)];
    let folder = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(folder.path()).unwrap().join("ticks");
    drop(write_late_table(&path, &key, &values, 8, &FileSystem::default()));
    let reader = ConcurrentReader { path: path.clone(), orders };
    compact_on(&FileSystem::with_observer(Arc::new(reader)), &path, SORT, |_, _| ()).unwrap();
}

/// Regression test: sorting created another directory with only the segments, and removed the old one with all other
/// files. A table's directory should have no other files, but nothing prevents them.
#[test]
#[cfg_attr(arrowwood_portable, ignore = "directories can't be exchanged")]
fn sorting_keeps_other_files() {
    let key = DataType::Int64;
    let values = random_values(&mut Dice::new(3), 33, 6, true);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = write_late_table(&path, &key, &values, 8, &FileSystem::default());
    std::fs::write(path.join("README"), "prices are in cents").unwrap();
    std::fs::create_dir(path.join("notes")).unwrap();
    let e = writer.compact_with(SORT, |_, _| ()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.to_string().contains("notes"), "{e}");
    std::fs::remove_dir(path.join("notes")).unwrap();
    assert!(writer.compact_with(SORT, |_, _| ()).unwrap() > 0);
    assert_eq!(arrivals(&open(&path).unwrap()), sort_naively(&key, &values));
    assert_eq!(std::fs::read_to_string(path.join("README")).unwrap(), "prices are in cents");
}
