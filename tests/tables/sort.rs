//! Rows that came late are put in order: across segments, beside a writer, under readers, and where that is cut off at any step.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp, compact_on};
use arrowwood::{
    CompactOptions, Dataset, ErrorKind, FollowFrom, LatePolicy, Writer, WriterOptions, check, col, compact_with,
    follow, follow_partitions, open,
};

use crate::dice::Dice;
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

/// A key as the types have it.
fn keys(key: &DataType, values: &[Option<i64>]) -> ArrayRef {
    match key {
        DataType::Int64 => Arc::new(Int64Array::from(values.to_vec())),
        DataType::UInt8 => Arc::new(UInt8Array::from_iter(values.iter().map(|v| v.map(|v| v.rem_euclid(256) as u8)))),
        DataType::Float64 => {
            // Some are no number.
            let float = |v: i64| if v % 11 == 0 { f64::NAN } else { v as f64 / 4.0 };
            Arc::new(Float64Array::from_iter(values.iter().map(|v| v.map(float))))
        }
        DataType::Utf8 => {
            Arc::new(StringArray::from_iter(values.iter().map(|v| v.map(|v| format!("{:05}", v + 5000)))))
        }
        other => panic!("{other}"),
    }
}

fn batch(key: &DataType, arrival: i64, values: &[Option<i64>]) -> RecordBatch {
    let arrivals: Vec<i64> = (arrival..arrival + values.len() as i64).collect();
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

/// Every row as text, by the number of its arrival.
fn by_arrival(dataset: &Dataset) -> BTreeMap<i64, String> {
    let text = |row: arrowwood::Row<'_>| {
        let cells: Vec<String> = (0..5).map(|column| row.get(column).unwrap().to_string()).collect();
        (cells[1].parse().unwrap(), cells.join(" "))
    };
    dataset.rows().map(|row| text(row.unwrap())).collect()
}

/// Arrivals in the order of the rows.
fn arrivals(dataset: &Dataset) -> Vec<i64> {
    dataset.rows().map(|row| row.unwrap().get(1).unwrap().to_string().parse().unwrap()).collect()
}

/// The order of arrivals by the values of their keys: nulls behind NaN behind all else, equal ones as they came.
fn naive(key: &DataType, values: &[Option<i64>]) -> Vec<i64> {
    let rank = |value: Option<i64>| match (key, value) {
        (_, None) => (2, 0),
        (DataType::Float64, Some(v)) if v % 11 == 0 => (1, 0),
        (DataType::UInt8, Some(v)) => (0, v.rem_euclid(256)),
        (_, Some(v)) => (0, v),
    };
    let mut order: Vec<i64> = (0..values.len() as i64).collect();
    order.sort_by_key(|&arrival| rank(values[arrival as usize]));
    order
}

/// A table whose rows are late by up to `spread`, in segments of a few rows.
fn late_table(path: &Path, key: &DataType, values: &[Option<i64>], segment_rows: u64, medium: &FileSystem) -> Writer {
    let mut writer = Writer::open(path, Some(schema(key)), &options(segment_rows, medium)).unwrap();
    for (number, values) in values.chunks(7).enumerate() {
        writer.append(&batch(key, 7 * number as i64, values)).unwrap();
        writer.commit().unwrap();
    }
    writer
}

fn values(dice: &mut Dice, rows: i64, spread: u64, nulls: bool) -> Vec<Option<i64>> {
    let value = |dice: &mut Dice, row: i64| row - dice.below(1 + spread) as i64;
    (0..rows).map(|row| (!nulls || dice.below(9) > 0).then(|| value(dice, row))).collect()
}

#[test]
fn rows_are_in_the_order_of_the_naive_sort() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let key = [DataType::Int64, DataType::UInt8, DataType::Float64, DataType::Utf8][dice.below(4) as usize].clone();
        let rows = 1 + dice.below(300) as i64;
        let spread = [0, 3, 40, 1000][dice.below(4) as usize];
        let has_nulls = dice.below(3) == 0;
        let values = values(&mut dice, rows, spread, has_nulls);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticks");
        let segment_rows = 1 + dice.below(50);
        drop(late_table(&path, &key, &values, segment_rows, &FileSystem::default()));
        let before = by_arrival(&open(&path).unwrap());
        compact_with(&path, SORT, |_, _| ()).unwrap();
        let sorted = open(&path).unwrap();
        assert_eq!(arrivals(&sorted), naive(&key, &values), "seed {seed}: {key}, {segment_rows} rows a segment");
        assert_eq!(by_arrival(&sorted), before, "seed {seed}");
        sorted.validate(|_, _| ()).unwrap();
        let report = check(&path, |_, _| ()).unwrap();
        assert!(report.is_good(), "seed {seed}: {report:?}");
        let found = sorted.filter(&col("symbol").eq("s3")).unwrap();
        assert_eq!(found.len().unwrap(), (0..rows).filter(|n| n % 5 != 1 && n % 13 == 3).count() as u64);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "seed {seed}: nothing is left beside it");
        // What is in order stays as it is.
        assert_eq!(compact_with(&path, SORT, |_, _| ()).unwrap(), 0, "seed {seed}");
        // A writer goes on behind it.
        let mut writer = Writer::open(&path, None, &WriterOptions::default()).unwrap();
        writer.append(&batch(&key, rows, &[Some(0)])).unwrap();
        writer.commit().unwrap();
        assert_eq!(sorted.refresh().unwrap().len().unwrap(), rows as u64 + 1);
    }
}

fn inodes(path: &Path) -> BTreeMap<String, u64> {
    let file = |entry: std::fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().ino());
    std::fs::read_dir(path).unwrap().map(|entry| file(entry.unwrap())).collect()
}

#[test]
fn segments_that_overlap_with_none_stay_the_files_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut values: Vec<Option<i64>> = (0..100).map(Some).collect();
    // Rows of the fourth and the fifth segment change places, and two of the eighth.
    values.swap(38, 41);
    values.swap(70, 73);
    let mut writer = late_table(&path, &DataType::Int64, &values, 10, &FileSystem::default());
    writer.compact(|_, _| ()).unwrap();
    let before = inodes(&path);
    assert_eq!(before.len(), 10);
    assert_eq!(writer.compact_with(SORT, |_, _| ()).unwrap(), 3);
    assert_eq!(arrivals(&open(&path).unwrap()), naive(&DataType::Int64, &values));
    let after = inodes(&path);
    let changed: Vec<&String> = before.keys().filter(|&name| after[name] != before[name]).collect();
    assert_eq!(
        changed,
        [30, 40, 70].iter().map(|row| format!("{row:020}.arrow")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
    );
    writer.append(&batch(&DataType::Int64, 100, &[Some(5)])).unwrap();
    writer.commit().unwrap();
    assert_eq!(open(&path).unwrap().len().unwrap(), 101);
    // The lock went along.
    let busy = Writer::open(&path, None, &WriterOptions::default()).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
}

/// Positions, an older schema, rows that were dropped: all that a table carries is there afterwards.
#[test]
fn what_a_table_carries_is_there_when_it_was_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let key = DataType::Int64;
    let values = values(&mut Dice::new(8), 60, 9, false);
    let mut writer = late_table(&path, &key, &values, 10, &FileSystem::default());
    let mut fields = schema(&key).fields().to_vec();
    fields.push(Arc::new(Field::new("new", DataType::Int64, true)));
    assert!(writer.alter(&Arc::new(Schema::new(fields))).unwrap());
    let more: Vec<Option<i64>> = (0..25).map(|row| Some(55 + (row * 7) % 25)).collect();
    let older = batch(&key, 60, &more);
    let columns = older.columns().iter().cloned().chain([Arc::new(Int64Array::new_null(25)) as ArrayRef]);
    let names = ["key", "arrival", "text", "symbol", "items", "new"];
    let newer = names.into_iter().zip(columns).map(|(name, array)| (name, array, true));
    writer.append(&RecordBatch::try_from_iter_with_nullable(newer).unwrap()).unwrap();
    writer.commit_with(&[("source", 85)]).unwrap();
    writer.drop_before(12).unwrap();
    writer.close().unwrap();
    let before = open(&path).unwrap();
    assert_eq!(before.first_row(), 10);
    let rows = by_arrival(&before);
    compact_with(&path, CompactOptions { rewrite: true, sort: true }, |_, _| ()).unwrap();
    let sorted = open(&path).unwrap();
    assert_eq!((sorted.first_row(), sorted.len().unwrap()), (10, 75));
    assert_eq!(by_arrival(&sorted), rows);
    let all: Vec<Option<i64>> = values.iter().chain(&more).copied().collect();
    let order: Vec<i64> = naive(&key, &all).into_iter().filter(|&arrival| arrival >= 10).collect();
    assert_eq!(arrivals(&sorted), order);
    assert_eq!(sorted.positions().unwrap(), BTreeMap::from([("source".to_string(), 85)]));
    assert_eq!(sorted.column("new").unwrap().count().unwrap(), 0);
}

/// Who has a table open while its rows are put in order sees what it has, goes on behind it, or is told; never other rows.
#[test]
fn readers_that_hold_the_table_are_right_or_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let key = DataType::Int64;
    let values = values(&mut Dice::new(5), 203, 20, false);
    let mut writer = late_table(&path, &key, &values, 16, &FileSystem::default());
    let came: Vec<i64> = (0..203).collect();
    let mapped = open(&path).unwrap();
    assert_eq!(arrivals(&mapped), came);
    let unmapped = open(&path).unwrap();
    let mut behind = follow(&open(&path).unwrap(), Some(0), None).unwrap();
    let mut at_the_end = follow(&open(&path).unwrap(), None, None).unwrap();
    writer.compact_with(SORT, |_, _| ()).unwrap();
    let order = arrivals(&open(&path).unwrap());
    assert_ne!(order, came);
    // What is mapped stays; what is not is not taken from another order.
    assert_eq!(arrivals(&mapped), came);
    let told = unmapped.row(0).and_then(|row| row.get(1).map(|value| value.to_string())).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::FileChanged, "{told}");
    assert!(told.to_string().contains("open the table again"), "{told}");
    let told = behind.poll(std::time::Duration::ZERO).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::FileChanged, "{told}");
    // Behind the sealed segments nothing has changed, also over the end of the one that grew.
    let more: Vec<Option<i64>> = (203..260).map(Some).collect();
    writer.append(&batch(&key, 203, &more)).unwrap();
    writer.commit().unwrap();
    let rows = at_the_end.poll(std::time::Duration::ZERO).unwrap().unwrap();
    assert_eq!(arrivals(&rows), (203..260).collect::<Vec<_>>());
    let refreshed = mapped.refresh().unwrap();
    assert_eq!(arrivals(&refreshed), arrivals(&open(&path).unwrap()));
    // Sorted again with what was the live segment: who is that far behind is told.
    writer.compact_with(SORT, |_, _| ()).unwrap();
    drop(writer);
    compact_with(&path, SORT, |_, _| ()).unwrap();
    let told = mapped.refresh().unwrap_err();
    assert_eq!(told.kind(), ErrorKind::FileChanged, "{told}");
}

/// A directory that takes the place of one which took the place of the first may have that one's number in the file system.
#[test]
fn a_reader_from_before_two_sorts_is_told() {
    // Where numbers are given again, as on ext4.
    for home in [tempfile::tempdir().unwrap(), tempfile::tempdir_in("target").or_else(|_| tempfile::tempdir()).unwrap()]
    {
        let path = home.path().join("ticks");
        let values = values(&mut Dice::new(5), 203, 20, false);
        let mut writer = late_table(&path, &DataType::Int64, &values, 16, &FileSystem::default());
        let unmapped = open(&path).unwrap();
        writer.compact_with(SORT, |_, _| ()).unwrap();
        for round in 0..4 {
            let late: Vec<Option<i64>> = (0..40).map(|row| Some((row * 37 + round) % 200)).collect();
            writer.append(&batch(&DataType::Int64, 203 + 40 * round, &late)).unwrap();
            writer.commit().unwrap();
            assert!(writer.compact_with(SORT, |_, _| ()).unwrap() > 0);
            let told = unmapped.row(0).and_then(|row| row.get(1).map(|value| value.to_string())).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::FileChanged, "{told}");
        }
    }
}

#[test]
fn followers_of_partitions_go_on_or_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let key = DataType::Int64;
    let table = folder.path().join("load");
    std::fs::create_dir(&table).unwrap();
    let values = values(&mut Dice::new(5), 103, 20, false);
    let [a, b] = ["host=a", "host=b"].map(|name| table.join(name));
    let mut writer = late_table(&a, &key, &values, 16, &FileSystem::default());
    drop(late_table(&b, &key, &values, 16, &FileSystem::default()));
    let whole = || open(&table).unwrap();
    let mut at_the_end = follow_partitions(&whole(), &FollowFrom::Now).unwrap();
    // Beside a writer, and with the segment that grows still there.
    writer.compact_with(SORT, |_, _| ()).unwrap();
    // No wait for anything: a writer looks for its files with the first commit after ten milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(120));
    writer.append(&batch(&key, 103, &[Some(1), Some(2)])).unwrap();
    writer.commit().unwrap();
    let (name, rows) = at_the_end.poll(PATIENCE).unwrap().unwrap();
    assert_eq!((name.as_str(), arrivals(&rows)), ("host=a", vec![103, 104]));
    // Without one, nothing says which rows were handed out.
    compact_with(&b, SORT, |_, _| ()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(120));
    writer.append(&batch(&key, 105, &[Some(3)])).unwrap();
    writer.commit().unwrap();
    let told = wait_for("the error of rows that may come again", || {
        let found = at_the_end.poll(std::time::Duration::from_millis(5));
        found.map(|rows| rows.map(|(name, _)| assert_eq!(name, "host=a", "rows come again"))).err()
    });
    assert_eq!(told.kind(), ErrorKind::FileChanged, "{told}");
    // Who begins anew where the other was has each row once.
    let mut anew = follow_partitions(&whole(), &FollowFrom::Rows(at_the_end.next_rows())).unwrap();
    while let Some((name, _)) = anew.poll(std::time::Duration::ZERO).unwrap() {
        assert_eq!(name, "host=a");
    }
}

#[test]
fn a_table_without_an_order_is_not_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let options = WriterOptions { sorted_by: None, late: None, ..options(4, &FileSystem::default()) };
    let mut writer = Writer::open(&path, Some(schema(&DataType::Int64)), &options).unwrap();
    writer.append(&batch(&DataType::Int64, 0, &[Some(2), Some(1)])).unwrap();
    writer.commit().unwrap();
    let refused = writer.compact_with(SORT, |_, _| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("sorted_by"), "{refused}");
}

/// Looks at the table before each act, and refuses all from one on, as for a process that is killed.
#[derive(Debug)]
struct Watcher {
    path: PathBuf,
    orders: [Vec<i64>; 2],
    /// The acts until all are refused.
    left: Mutex<Option<u64>>,
}

impl FsObserver for Watcher {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        let mut left = self.left.lock().unwrap();
        match &mut *left {
            Some(0) => return Err(std::io::Error::other("pulled out")),
            Some(left) => *left -= 1,
            None => (),
        }
        let is_naming =
            matches!(act, FsOp::Rename { .. } | FsOp::Remove { .. } | FsOp::Exchange { .. } | FsOp::SyncFolder { .. });
        if left.is_none() && is_naming {
            let order = arrivals(&open(&self.path).unwrap());
            assert!(self.orders.contains(&order), "a reader sees {order:?}");
        }
        Ok(())
    }
}

#[test]
fn what_is_cut_off_at_any_step_is_the_table_as_it_was_or_sorted() {
    let key = DataType::Int64;
    let values = values(&mut Dice::new(3), 33, 6, true);
    let orders = [(0..33).collect(), naive(&key, &values)];
    let mut seen = [0, 0];
    for left in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = std::fs::canonicalize(folder.path()).unwrap().join("ticks");
        drop(late_table(&path, &key, &values, 8, &FileSystem::default()));
        let rows = by_arrival(&open(&path).unwrap());
        let watcher = Watcher { path: path.clone(), orders: orders.clone(), left: Mutex::new(Some(left)) };
        let done = compact_on(&FileSystem::with_observer(Arc::new(watcher)), &path, SORT, |_, _| ());
        let found = open(&path).unwrap();
        let order = arrivals(&found);
        let which = orders.iter().position(|known| *known == order).unwrap_or_else(|| panic!("{left}: {order:?}"));
        assert_eq!(by_arrival(&found), rows);
        assert!(check(&path, |_, _| ()).unwrap().is_good(), "after {left} acts");
        // Who opens the table for writing removes what is left beside it.
        drop(Writer::open(&path, None, &WriterOptions::default()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "after {left} acts");
        assert_eq!(arrivals(&open(&path).unwrap()), order);
        if done.is_ok() {
            assert_eq!(which, 1);
            break;
        }
        seen[which] += 1;
    }
    assert!(seen[0] > 20 && seen[1] > 5, "{seen:?} were cut off before and behind the exchange");
}

/// Who opens the table while it is sorted sees it as it was or sorted, with all rows.
#[test]
fn who_opens_a_table_that_is_sorted_sees_one_order() {
    let key = DataType::Int64;
    let values = values(&mut Dice::new(3), 33, 6, true);
    let orders = [(0..33).collect(), naive(&key, &values)];
    let folder = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(folder.path()).unwrap().join("ticks");
    drop(late_table(&path, &key, &values, 8, &FileSystem::default()));
    let watcher = Watcher { path: path.clone(), orders, left: Mutex::new(None) };
    compact_on(&FileSystem::with_observer(Arc::new(watcher)), &path, SORT, |_, _| ()).unwrap();
}

/// A table's directory should hold nothing but segments, and nobody is kept from putting a note there. Sorting made
/// another directory of the segments alone, and removed the old one with all that was in it.
#[test]
fn files_that_are_no_segments_are_there_when_the_table_was_sorted() {
    let key = DataType::Int64;
    let values = values(&mut Dice::new(3), 33, 6, true);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = late_table(&path, &key, &values, 8, &FileSystem::default());
    std::fs::write(path.join("README"), "prices are in cents").unwrap();
    std::fs::create_dir(path.join("notes")).unwrap();
    let e = writer.compact_with(SORT, |_, _| ()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.to_string().contains("notes"), "{e}");
    std::fs::remove_dir(path.join("notes")).unwrap();
    assert!(writer.compact_with(SORT, |_, _| ()).unwrap() > 0);
    assert_eq!(arrivals(&open(&path).unwrap()), naive(&key, &values));
    assert_eq!(std::fs::read_to_string(path.join("README")).unwrap(), "prices are in cents");
}
