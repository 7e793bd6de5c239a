//! Datasets of several partitions: directories called `key=value`, each with a table or Arrow files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{
    ArrayRef, Date32Array, Date64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood::{
    Dataset, ErrorKind, FollowFrom, LatePolicy, OpenOptions, PartitionBy, PartitionedWriter, Predicate, SyncPolicy,
    Value, Writer, WriterOptions, alter, col, drop_partition, follow_partitions, open, parse_schema, partition_path,
    partition_writer, table_stat,
};
use proptest::prelude::*;

use crate::tables::unsynced;
use crate::wait::wait_until;

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![field("n", DataType::Int64), field("s", DataType::Utf8)]))
}

fn rows(numbers: std::ops::Range<i64>) -> RecordBatch {
    let texts = StringArray::from_iter_values(numbers.clone().map(|n| format!("row {n}")));
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(numbers)), Arc::new(texts)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The writer of a partition, which makes its directory.
fn writer(table: &Path, partition: &[(&str, Value<'_>)]) -> Writer {
    let path = partition_path(table, partition).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    Writer::open(path, Some(schema()), &WriterOptions { segment_rows: Some(8), ..WriterOptions::default() }).unwrap()
}

fn append(writer: &mut Writer, numbers: std::ops::Range<i64>) {
    writer.append(&rows(numbers)).unwrap();
    writer.commit().unwrap();
}

/// All rows as text.
fn shown(dataset: &Dataset) -> Vec<String> {
    let row = |row: arrowwood::Row<'_>| row.iter().map(|(_, value)| value.unwrap().to_string()).collect::<Vec<_>>();
    dataset.rows().map(|found| row(found.unwrap()).join(" ")).collect()
}

/// The same rows in memory.
fn copied(dataset: &Dataset) -> Dataset {
    let batches = dataset.to_record_batches().collect::<arrowwood::Result<Vec<_>>>().unwrap();
    Dataset::from_batches(dataset.schema().clone(), batches).unwrap()
}

/// One partition had a new column and the other one not yet, as while `alter` changes one after the other. `between` said then
/// that the tables were not made with `sorted_by`, and nothing was skipped by the index.
#[test]
fn late_rows_are_found_where_a_partition_lacks_a_column() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let sorted = WriterOptions { sorted_by: Some("n".into()), late: Some(LatePolicy::Accept), ..unsynced(8) };
    let options = WriterOptions { zone_rows: Some(2), ..sorted };
    for (host, first) in [("a", 0), ("b", 20)] {
        let mut writer = partition_writer(&table, &[("host", Value::Str(host))], Some(schema()), &options).unwrap();
        append(&mut writer, first + 4..first + 6);
        append(&mut writer, first..first + 4);
    }
    let newer = partition_path(&table, &[("host", Value::Str("b"))]).unwrap();
    assert!(alter(newer, &parse_schema("x: utf8").unwrap(), &Schema::empty(), &[]).unwrap());
    let dataset = open(&table).unwrap();
    let found = dataset.between(&Value::Int(3), &Value::Int(21)).unwrap();
    let expected = ["4 row 4 null a", "5 row 5 null a", "3 row 3 null a", "20 row 20 null b", "21 row 21 null b"];
    assert_eq!(shown(&found), expected);
    assert_eq!(shown(&dataset.prune(&col("n").eq(3)).unwrap()), ["2 row 2 null a", "3 row 3 null a"]);
}

#[test]
fn writers_of_several_hosts_make_one_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut a = writer(&table, &[("host", Value::Str("a1"))]);
    let mut b = writer(&table, &[("host", Value::Str("b/2"))]);
    append(&mut a, 0..3);
    append(&mut b, 10..12);
    let first = open(&table).unwrap();
    assert_eq!(first.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["n", "s", "host"]);
    assert_eq!(shown(&first), ["0 row 0 a1", "1 row 1 a1", "2 row 2 a1", "10 row 10 b/2", "11 row 11 b/2"]);
    // Rows of both, over ends of segments, and a partition that comes.
    append(&mut a, 3..20);
    append(&mut b, 12..13);
    let mut c = writer(&table, &[("host", Value::Null)]);
    append(&mut c, 20..21);
    let newer = first.refresh().unwrap();
    assert_eq!((first.len().unwrap(), newer.len().unwrap()), (5, 24));
    assert_eq!(shown(&newer.tail(2).unwrap()), ["12 row 12 b/2", "20 row 20 null"]);
    assert!(shown(&newer) == shown(&open(&table).unwrap()) && shown(&newer) == shown(&copied(&newer)));
    let only = newer.select(&["host", "n"]).unwrap().refresh().unwrap();
    assert_eq!(shown(&only.tail(1).unwrap()), ["null 20"]);
    let partitions = newer.partitions();
    assert_eq!(partitions.iter().map(|p| p.rows.len().unwrap()).collect::<Vec<_>>(), [20, 3, 1]);
    assert_eq!(partitions[1].keys, [("host".to_owned(), Some("b/2".to_owned()))]);
    // Another process would open the same rows.
    let places = newer.slice(19, 4).unwrap().file_slices().unwrap();
    assert_eq!(shown(&OpenOptions::new().file_slices(&places).unwrap()), shown(&newer.slice(19, 4).unwrap()));
}

/// `alter` had changed one of two partitions when the disk was full. A writer without a schema took that of the other one, and
/// was refused.
#[test]
fn a_partition_keeps_its_own_columns_where_others_lack_some() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for host in ["a", "b"] {
        append(&mut writer(table, &[("host", Value::Str(host))]), 0..2);
    }
    let more = parse_schema("more: int64").unwrap();
    for changed in ["a", "b"] {
        alter(table.join(format!("host={changed}")), &more, &Schema::empty(), &[]).unwrap();
        for host in ["a", "b"] {
            let writer =
                partition_writer(table, &[("host", Value::Str(host))], None, &WriterOptions::default()).unwrap();
            let has_more = writer.schema().field_with_name("more").is_ok();
            assert_eq!(has_more, host <= changed, "{host} of {changed}");
        }
    }
    assert_eq!(open(table).unwrap().len().unwrap(), 4);
}

#[test]
fn dropped_partitions_are_gone_with_the_next_refresh() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for day in 1..4_i64 {
        let keys = [("day", Value::Int(day)), ("host", Value::Str("a"))];
        append(&mut writer(table, &keys), day..day + 1);
    }
    let before = open(table).unwrap();
    assert_eq!(before.schema().field(2).data_type(), &DataType::Int64);
    let second = [("day", Value::Int(2)), ("host", Value::Str("a"))];
    let held = writer(table, &second);
    let refused = drop_partition(table, &second).unwrap_err();
    assert!(refused.kind() == ErrorKind::Busy && refused.to_string().contains(&std::process::id().to_string()));
    drop(held);
    assert!(drop_partition(table, &second).unwrap());
    assert!(!drop_partition(table, &second).unwrap());
    assert!(!table.join("day=2").exists());
    assert_eq!(shown(&before), ["1 row 1 1 a", "2 row 2 2 a", "3 row 3 3 a"]);
    assert_eq!(shown(&before.refresh().unwrap()), ["1 row 1 1 a", "3 row 3 3 a"]);
    // A table of the same name is another one.
    append(&mut writer(table, &second), 7..9);
    assert_eq!(shown(&before.refresh().unwrap()), ["1 row 1 1 a", "7 row 7 2 a", "8 row 8 2 a", "3 row 3 3 a"]);
    assert_eq!(drop_partition(table, &[("day", Value::Int(1))]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn types_are_those_of_all_values_or_given() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for (number, name) in ["zip=01234/k=2024-05-01", "zip=7/k=2024-05-02"].into_iter().enumerate() {
        fs::create_dir_all(table.join(name)).unwrap();
        let file = table.join(name).join("part-0.arrow");
        let from = number as i64 * 10;
        arrowwood::write(&Dataset::try_from(vec![rows(from..from + 2)]).unwrap(), file, &Default::default()).unwrap();
    }
    let inferred = open(table).unwrap();
    assert_eq!(shown(&inferred)[0], "0 row 0 01234 2024-05-01");
    assert_eq!(inferred.schema().field(3).data_type(), &DataType::Date32);
    let given = Schema::new(vec![Field::new("zip", DataType::Int32, true)]);
    let numbers = OpenOptions::new().partitions(table, &given).unwrap();
    assert_eq!(
        shown(&numbers),
        ["10 row 10 7 2024-05-02", "11 row 11 7 2024-05-02", "0 row 0 1234 2024-05-01", "1 row 1 1234 2024-05-01"]
    );
    for (name, data_type, kind) in [
        ("zip", DataType::Int8, ErrorKind::InvalidData),
        ("zap", DataType::Int8, ErrorKind::ColumnNotFound),
        ("zip", DataType::Binary, ErrorKind::InvalidArgument),
    ] {
        let given = Schema::new(vec![Field::new(name, data_type, true)]);
        assert_eq!(OpenOptions::new().partitions(table, &given).unwrap_err().kind(), kind, "{name}");
    }
}

#[test]
fn directories_that_mix_are_refused() {
    let refused = |make: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        append(&mut writer(folder.path(), &[("k", Value::Int(1))]), 0..1);
        make(folder.path());
        let error = open(folder.path()).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, message) = refused(&|folder| fs::write(folder.join("other.arrow"), "").unwrap());
    assert!(kind == ErrorKind::InvalidData && message.contains("('k=1') and 'other.arrow'"), "{message}");
    let (kind, message) = refused(&|folder| fs::create_dir(folder.join("more")).unwrap());
    assert!(kind == ErrorKind::InvalidData && message.contains("('k=1') and 'more'"), "{message}");
    let (kind, message) = refused(&|folder| append(&mut writer(folder, &[("l", Value::Int(1))]), 0..1));
    assert!(kind == ErrorKind::SchemaMismatch && message.contains("'k'") && message.contains("'l'"), "{message}");
    let (kind, message) = refused(&|folder| append(&mut writer(&folder.join("k=2"), &[("l", Value::Int(1))]), 0..1));
    assert!(kind == ErrorKind::SchemaMismatch && message.contains("columns k"), "{message}");
    // A table with a partition inside.
    let (kind, message) = refused(&|folder| append(&mut writer(&folder.join("k=1"), &[("l", Value::Int(1))]), 0..1));
    assert!(kind == ErrorKind::InvalidData && message.contains("l=1"), "{message}");
    // Those of programs are theirs, and a writer that has just begun has no file yet.
    let folder = tempfile::tempdir().unwrap();
    append(&mut writer(folder.path(), &[("k", Value::Int(1))]), 0..1);
    for name in ["_temporary", ".snapshots", "k=2"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let dataset = open(folder.path()).unwrap();
    assert_eq!(dataset.len().unwrap(), 1);
    append(&mut writer(folder.path(), &[("k", Value::Int(2))]), 0..2);
    assert_eq!(dataset.refresh().unwrap().len().unwrap(), 3);
}

#[test]
fn damage_in_a_partition_is_found() {
    let folder = tempfile::tempdir().unwrap();
    for host in ["a", "b"] {
        append(&mut writer(folder.path(), &[("host", Value::Str(host))]), 0..3);
    }
    fs::create_dir(folder.path().join("host=begun")).unwrap();
    let good = arrowwood::check(folder.path(), |_, _| ()).unwrap();
    assert!(good.is_good() && good.rows == 6 && good.segments == 2, "{good:?}");
    let segment = folder.path().join("host=b/00000000000000000000.arrow");
    fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(5000).unwrap();
    let bad = arrowwood::check(folder.path(), |_, _| ()).unwrap();
    assert!(!bad.is_good() && bad.damage().all(|finding| finding.path == segment), "{bad:?}");
}

/// Predicates over two partition columns and one that is stored.
fn predicate() -> impl Strategy<Value = Predicate> {
    let day = (0..6_i64, 0..6_usize).prop_map(|(day, operator)| {
        let day_of = || col("day");
        match operator {
            0 => day_of().eq(day),
            1 => day_of().ne(day),
            2 => day_of().lt(day),
            3 => day_of().ge(day),
            4 => day_of().is_in([day, day + 2]),
            _ => day_of().is_null(),
        }
    });
    let host = prop_oneof![Just("a"), Just("b"), Just("c"), Just("")].prop_map(|host| col("host").eq(host));
    let stored = (0..40_i64).prop_map(|n| col("n").lt(n));
    prop_oneof![day, host, stored].prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a & b),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a | b),
            inner.prop_map(|a| !a),
        ]
    })
}

#[test]
fn pruning_finds_what_a_filter_of_all_rows_finds() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut from = 0;
    for day in [Value::Int(0), Value::Int(3), Value::Int(4), Value::Null] {
        for host in ["a", "b", ""] {
            append(&mut writer(table, &[("day", day.clone()), ("host", Value::Str(host))]), from..from + 3);
            from += 3;
        }
    }
    let dataset = open(table).unwrap();
    let all = copied(&dataset);
    assert_eq!(all.len().unwrap(), 36);
    proptest!(|(predicate in predicate())| {
        let found = dataset.filter(&predicate).unwrap();
        prop_assert_eq!(shown(&found), shown(&all.filter(&predicate).unwrap()), "{}", predicate);
        let narrowed = dataset.prune(&predicate).unwrap();
        prop_assert_eq!(shown(&narrowed.filter(&predicate).unwrap()), shown(&found));
    });
    // Two of the twelve are looked at.
    let few = dataset.prune(&(col("host").eq("a") & col("day").gt(1))).unwrap();
    assert_eq!(few.len().unwrap(), 6);
}

/// A batch of rows with a key each.
fn keyed(rows: &[(u8, i64)]) -> Dataset {
    let keys = StringArray::from_iter_values(rows.iter().map(|(key, _)| format!("k{key}")));
    let numbers = Int64Array::from_iter_values(rows.iter().map(|(_, n)| *n));
    let columns: [(&str, ArrayRef); 2] = [("key", Arc::new(keys)), ("n", Arc::new(numbers))];
    Dataset::try_from(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Beside a map of lists: more partitions than may be open, commits, rollbacks, writers opened again, a follower.
    #[test]
    fn rows_are_split_as_a_map_of_lists_splits_them(
        steps in prop::collection::vec((prop::collection::vec(0..6_u8, 1..12), 0..5_u8), 1..12),
        most_open in 1..4_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let options = unsynced(8);
        let by: [PartitionBy; 1] = ["key".parse().unwrap()];
        let new = || {
            let writer = PartitionedWriter::new(&table, keyed(&[(0, 0)]).schema().clone(), &by, &options).unwrap();
            writer.max_open(most_open)
        };
        let mut writer = new();
        let (mut committed, mut appended) = (BTreeMap::<String, Vec<i64>>::new(), Vec::new());
        let mut followed = BTreeMap::<String, Vec<i64>>::new();
        let mut next = BTreeMap::new();
        let mut n = 0;
        for (keys, step) in steps {
            let rows: Vec<(u8, i64)> = keys.into_iter().map(|key| { n += 1; (key, n) }).collect();
            writer.append_dataset(&keyed(&rows)).unwrap();
            appended.extend(rows);
            if step == 0 {
                writer.rollback();
                appended.clear();
                continue;
            }
            if step == 1 {
                writer.close().unwrap();
                writer = new();
            } else {
                writer.commit().unwrap();
            }
            for (key, n) in appended.drain(..) {
                committed.entry(format!("k{key}")).or_default().push(n);
            }
            prop_assert!(writer.num_open() <= most_open);
            let dataset = open(&table).unwrap();
            let mut found = BTreeMap::<String, Vec<i64>>::new();
            add_rows(&dataset, &mut found);
            prop_assert_eq!(&found, &committed);
            let mut follower = follow_partitions(&dataset, &FollowFrom::Rows(std::mem::take(&mut next))).unwrap();
            while let Some((_, rows)) = follower.poll(std::time::Duration::ZERO).unwrap() {
                add_rows(&rows, &mut followed);
            }
            next = follower.next_rows();
            prop_assert_eq!(&followed, &committed);
        }
    }
}

/// Adds the numbers of `dataset`, which has the columns `n` and `key`, to those of each key.
fn add_rows(dataset: &Dataset, to: &mut BTreeMap<String, Vec<i64>>) {
    for row in dataset.rows() {
        let row = row.unwrap();
        let (Value::Int(n), Value::Str(key)) = (row.get(0).unwrap(), row.get(1).unwrap()) else {
            panic!("other columns")
        };
        to.entry(key.to_owned()).or_default().push(n);
    }
}

/// The next `count` rows, and what else comes.
fn next_rows(follower: &mut arrowwood::PartitionsFollower, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    wait_until("rows of partitions", || {
        while let Some((name, rows)) = follower.poll(std::time::Duration::from_millis(100)).unwrap() {
            found.extend(shown(&rows).into_iter().map(|row| format!("{name}: {row}")));
        }
        found.len() >= count
    });
    found.sort();
    found
}

/// The segments of a compacted partition can't be found any more once it is dropped.
#[test]
fn followers_go_on_when_compacted_partitions_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let host = |name| [("host", Value::Str(name))];
    for name in ["a", "b", "c", "d"] {
        append(&mut writer(table, &host(name)), 0..1);
        if name != "d" {
            arrowwood::compact(partition_path(table, &host(name)).unwrap(), |_, _| ()).unwrap();
        }
    }
    let mut follower = follow_partitions(&open(table).unwrap(), &FollowFrom::First).unwrap();
    assert_eq!(next_rows(&mut follower, 4).len(), 4);
    assert!(drop_partition(table, &host("a")).unwrap());
    assert!(drop_partition(table, &host("b")).unwrap());
    append(&mut writer(table, &host("d")), 1..2);
    assert_eq!(next_rows(&mut follower, 1), ["host=d: 1 row 1 d"]);
    // Another table of the same name begins with its first row.
    append(&mut writer(table, &host("b")), 5..7);
    assert_eq!(next_rows(&mut follower, 2), ["host=b: 5 row 5 b", "host=b: 6 row 6 b"]);
    assert_eq!(follower.next_rows().into_keys().collect::<Vec<_>>(), ["host=b", "host=c", "host=d"]);
    // An error of one partition is not the end of others, nor of what was dropped meanwhile.
    let mut c = writer(table, &host("c"));
    append(&mut c, 1..40);
    c.drop_before(20).unwrap();
    assert!(drop_partition(table, &host("b")).unwrap());
    append(&mut writer(table, &host("d")), 2..3);
    let mut told = 0;
    let mut found = Vec::new();
    wait_until("an error again and again, and the rows of another partition", || {
        match follower.poll(std::time::Duration::ZERO) {
            Ok(rows) => found.extend(rows.into_iter().flat_map(|(_, rows)| shown(&rows))),
            Err(e) => told += u32::from(e.kind() == ErrorKind::RowOutOfRange),
        }
        told > 10 && !found.is_empty()
    });
    assert!(told > 1 && found == ["2 row 2 d"], "{told} errors, {found:?}");
    assert_eq!(follower.next_rows().into_keys().collect::<Vec<_>>(), ["host=c", "host=d"]);
}

#[test]
fn partitions_that_come_after_the_last_was_dropped_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let keys = |day, host| [("day", Value::Int(day)), ("host", Value::Str(host))];
    append(&mut writer(table, &keys(1, "a")), 0..3);
    let mut dataset = open(table).unwrap();
    let mut follower = follow_partitions(&dataset, &FollowFrom::First).unwrap();
    assert_eq!(next_rows(&mut follower, 3).len(), 3);
    assert!(drop_partition(table, &keys(1, "a")).unwrap());
    assert_eq!(next_rows(&mut follower, 0), Vec::<String>::new());
    dataset = dataset.refresh().unwrap();
    assert_eq!(dataset.len().unwrap(), 0);
    append(&mut writer(table, &keys(2, "b")), 7..8);
    assert_eq!(next_rows(&mut follower, 1), ["day=2/host=b: 7 row 7 2 b"]);
    assert_eq!(shown(&dataset.refresh().unwrap()), ["7 row 7 2 b"]);
}

/// A partition that others can't be read with is refused when it is made; text is stored as in the others.
#[test]
fn a_new_partition_fits_the_others_with_dictionaries_too() {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let of = |fields: Vec<Field>| Some(Arc::new(Schema::new(fields)));
    let price = |data_type| Field::new("price", data_type, true);
    let with = |names: &[&str]| WriterOptions {
        dictionary: names.iter().map(ToString::to_string).collect(),
        ..WriterOptions::default()
    };
    let host = |name| [("host", Value::Str(name))];
    let types = |table: &Path| {
        let dataset = open(table).unwrap();
        dataset.schema().fields().iter().map(|field| field.data_type().to_string()).collect::<Vec<_>>()
    };
    for (first, second) in [(&[][..], &["symbol"][..]), (&["symbol"], &[]), (&["symbol"], &["symbol"]), (&[], &["new"])]
    {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        let fields = vec![text("symbol"), price(DataType::Float64)];
        // Older and newer ones have no file yet.
        let make_empty = |number| fs::create_dir(table.join(format!("host={number}"))).unwrap();
        (0..9).for_each(make_empty);
        let made = partition_writer(table, &host("a"), of(fields.clone()), &with(first)).unwrap();
        made.close().unwrap();
        (10..19).for_each(make_empty);
        let before = types(table);
        let wider = fields.iter().cloned().chain([text("new")]).collect();
        partition_writer(table, &host("b"), of(wider), &with(second)).unwrap().close().unwrap();
        assert_eq!(types(table)[0], before[0], "{first:?}, then {second:?}");
        for options in [with(&[]), with(&["symbol"]), with(&["symbol", "new"])] {
            let other = of(vec![text("symbol"), price(DataType::Utf8), text("new")]);
            let told = partition_writer(table, &host("c"), other, &options).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::SchemaMismatch);
            assert!(told.to_string().contains("price"), "{told}");
            assert!(!table.join("host=c").exists());
        }
        assert_eq!(open(table).unwrap().partitions().len(), 2);
    }
}

/// Listings leave names that begin with an underscore to other programs.
#[test]
fn partitions_of_a_column_that_begins_with_an_underscore_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    append(&mut writer(table, &[("_k", Value::Str("_a"))]), 0..2);
    assert!(table.join("%5Fk=_a").is_dir());
    let dataset = open(table).unwrap();
    assert_eq!(dataset.schema().field(2).name(), "_k");
    assert_eq!(shown(&dataset), ["0 row 0 _a", "1 row 1 _a"]);
}

/// Whichever of the others is found first.
#[test]
fn a_new_partition_fits_each_of_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let host = |name| [("host", Value::Str(name))];
    for name in ["a", "b", "c", "d", "e", "f"] {
        append(&mut writer(table, &host(name)), 0..1);
    }
    let schema = |text: &str| arrowwood::parse_schema(text).unwrap();
    for (name, more) in [("c", "x: utf8"), ("e", "y: int32")] {
        let path = partition_path(table, &host(name)).unwrap();
        assert!(arrowwood::alter(path, &schema(more), &Schema::empty(), &[]).unwrap());
    }
    let new = |name, more: &str, dictionary: &[String]| {
        let options = WriterOptions { dictionary: dictionary.to_vec(), ..WriterOptions::default() };
        partition_writer(table, &host(name), Some(Arc::new(schema(&format!("n: int64, {more}")))), &options)
    };
    for name in ["g", "h", "i"] {
        let told = new(name, "x: int64", &[]).unwrap_err();
        assert!(told.kind() == ErrorKind::SchemaMismatch && told.to_string().contains("'x'"), "{told}");
        assert_eq!(told.path(), Some(&*table.join("host=c")));
        assert!(!table.join(format!("host={name}")).exists());
    }
    // A wider type fits, and text is stored as there.
    new("g", "x: utf8, y: int64", &["x".to_owned()]).unwrap().close().unwrap();
    let dataset = open(table).unwrap();
    let type_of = |name: &str| dataset.schema().field_with_name(name).unwrap().data_type().clone();
    assert_eq!(["n", "x", "y"].map(type_of), [DataType::Int64, DataType::Utf8, DataType::Int64]);
}

/// Hidden files beside a directory are called by its name and more; where that is too long they are inside.
#[test]
fn a_partition_has_any_name_that_a_directory_has() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let options = WriterOptions { segment_rows: Some(8), ..WriterOptions::default() };
    let new = |value: &str| partition_writer(table, &[("k", Value::Str(value))], Some(schema()), &options);
    for length in [226, 227, 253] {
        let value = "v".repeat(length);
        let mut writer = new(&value).unwrap();
        for from in 0..5 {
            append(&mut writer, from * 8..from * 8 + 8);
        }
        writer.rollback();
        writer.close().unwrap();
        arrowwood::compact(table.join(format!("k={value}")), |_, _| ()).unwrap();
        append(&mut new(&value).unwrap(), 40..44);
        assert_eq!(open(table).unwrap().len().unwrap(), 44);
        assert!(arrowwood::check(table.join(format!("k={value}")), |_, _| ()).unwrap().is_good());
        assert!(drop_partition(table, &[("k", Value::Str(&value))]).unwrap());
    }
    let told = new(&"v".repeat(254)).unwrap_err();
    assert!(told.kind() == ErrorKind::InvalidArgument && told.to_string().contains("256 bytes"), "{told}");
}

/// Times that the calendar doesn't have were rows of partitions called `month=` and `day=106751991167 days`.
#[test]
fn times_beyond_the_calendar_are_in_no_partition() {
    let by = |function: &str| -> [PartitionBy; 1] { [format!("{function}(t)").parse().unwrap()] };
    let n: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let times: [ArrayRef; 5] = [
        Arc::new(TimestampSecondArray::from(vec![i64::MAX])),
        Arc::new(TimestampSecondArray::from(vec![i64::MIN])),
        Arc::new(TimestampMillisecondArray::from(vec![i64::MIN])),
        Arc::new(Date32Array::from(vec![i32::MAX])),
        Arc::new(Date64Array::from(vec![i64::MIN])),
    ];
    let split = |time: &ArrayRef, function: &str| {
        let folder = tempfile::tempdir().unwrap();
        let batch = RecordBatch::try_from_iter([("t", time.clone()), ("n", n.clone())]).unwrap();
        let options = WriterOptions::default();
        let mut writer = PartitionedWriter::new(folder.path(), batch.schema(), &by(function), &options).unwrap();
        let appended = writer.append_dataset(&Dataset::try_from(vec![batch]).unwrap());
        let closed = writer.close();
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        appended.and(closed).map(|()| names[0].to_str().unwrap().to_owned()).map_err(|e| (e, names.len()))
    };
    for (time, function) in times.iter().flat_map(|time| ["day", "month", "year"].map(|function| (time, function))) {
        let (e, directories) = split(time, function).unwrap_err();
        assert!(e.kind() == ErrorKind::InvalidArgument && e.message().contains("calendar"), "{e}");
        assert_eq!(directories, 0);
    }
    // Days before the year 0, and behind 9999.
    for (days, expected) in [
        (-719_529, ["day=-0001-12-31", "month=-0001-12", "year=-0001"]),
        (2_932_897, ["day=+10000-01-01", "month=+10000-01", "year=+10000"]),
    ] {
        let time: ArrayRef = Arc::new(Date32Array::from(vec![days]));
        assert_eq!(["day", "month", "year"].map(|function| split(&time, function).unwrap()), expected);
    }
    assert_eq!(partition_path("t", &[("d", Value::Date(i64::MAX))]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Links to a directory above would otherwise be followed for ever.
#[test]
fn a_partition_column_at_two_levels_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..3 {
        let table = folder.path().join(number.to_string());
        match number {
            0 => append(&mut writer(&table.join("k=1"), &[("k", Value::Int(2))]), 0..1),
            1 => append(&mut writer(&table.join("k=1/l=1"), &[("k", Value::Int(2))]), 0..1),
            _ => {
                fs::create_dir(&table).unwrap();
                ["k=a", "k=b"].iter().for_each(|name| std::os::unix::fs::symlink(".", table.join(name)).unwrap());
            }
        }
        for told in [open(&table).unwrap_err(), arrowwood::check(&table, |_, _| ()).unwrap_err()] {
            assert!(told.kind() == ErrorKind::SchemaMismatch && told.to_string().contains("'k'"), "{told}");
            assert!(told.path().is_some_and(|path| path.starts_with(&table) && path != table), "{told}");
        }
    }
}

/// A partition that another process writes, and one behind it.
#[test]
fn rows_keep_their_order_after_a_failed_commit() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let options = WriterOptions::default();
    let by: [PartitionBy; 1] = ["key".parse().unwrap()];
    let all = keyed(&[(0, 0)]).schema().clone();
    let mut writer = PartitionedWriter::new(table, all, &by, &options).unwrap().max_open(1);
    writer.append_dataset(&keyed(&[(1, 0)])).unwrap();
    writer.commit().unwrap();
    for rows in [[(0, 1), (1, 1)], [(2, 1), (2, 2)], [(1, 2), (2, 3)]] {
        writer.append_dataset(&keyed(&rows)).unwrap();
    }
    let held = partition_writer(table, &[("key", Value::Str("k1"))], None, &options).unwrap();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Busy);
    writer.append_dataset(&keyed(&[(2, 4), (1, 3)])).unwrap();
    drop(held);
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut found = BTreeMap::new();
    add_rows(&open(table).unwrap(), &mut found);
    let expected = [("k0", vec![1]), ("k1", vec![0, 1, 2, 3]), ("k2", vec![1, 2, 3, 4])];
    assert_eq!(found, expected.into_iter().map(|(key, rows)| (key.to_owned(), rows)).collect());
}

/// A disk that fails at one sync.
#[derive(Debug, Default)]
struct FailingOnce(AtomicBool);

impl FsObserver for FailingOnce {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        let is_sync = matches!(act, FsOp::Sync { .. } | FsOp::WriteSynced { .. });
        if is_sync && self.0.swap(false, Ordering::SeqCst) {
            return Err(std::io::Error::other("bad disk"));
        }
        Ok(())
    }
}

#[test]
fn sync_tells_of_a_closed_partition_that_is_not_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let disk = Arc::new(FailingOnce::default());
    let medium = FileSystem::with_observer(disk.clone());
    let options = WriterOptions { medium, sync: arrowwood::SyncPolicy::Never, ..WriterOptions::default() };
    let by: [PartitionBy; 1] = ["key".parse().unwrap()];
    let all = keyed(&[(0, 0)]).schema().clone();
    let mut writer = PartitionedWriter::new(table, all, &by, &options).unwrap().max_open(1);
    writer.append_dataset(&keyed(&[(0, 1)])).unwrap();
    writer.commit().unwrap();
    disk.0.store(true, Ordering::SeqCst);
    // It is closed for the second one.
    assert!(writer.append_dataset(&keyed(&[(1, 1)])).unwrap_err().to_string().contains("bad disk"));
    writer.append_dataset(&keyed(&[(1, 1)])).unwrap();
    writer.commit().unwrap();
    for _ in 0..2 {
        let told = writer.sync().unwrap_err();
        assert!(told.to_string().contains("key=k0") && told.to_string().contains("bad disk"), "{told}");
    }
    let durable = |key: &str| {
        let stat = arrowwood::table_stat(table.join(key)).unwrap().unwrap();
        (stat.end, stat.durable_end)
    };
    assert_eq!([durable("key=k0"), durable("key=k1")], [(1, 0), (1, 1)]);
    writer.append_dataset(&keyed(&[(0, 2)])).unwrap();
    writer.commit().unwrap();
    writer.sync().unwrap();
    assert_eq!(durable("key=k0"), (2, 2));
    writer.close().unwrap();
}

/// A writer committed rows to two partitions, and died before they were on the disk. The next one got rows of one of them, and was
/// told to bring all to the disk. The other one stayed as it was: a power cut took rows that everybody had seen before.
#[test]
fn what_earlier_writers_have_left_in_other_partitions_is_on_the_disk_after_a_sync() {
    let by: [PartitionBy; 1] = ["key".parse().unwrap()];
    let each_commit = WriterOptions { sync: SyncPolicy::Commit, ..unsynced(4) };
    type FsOp = fn(PartitionedWriter);
    let syncs: [(WriterOptions, FsOp); 3] = [
        (unsynced(4), |mut writer| writer.sync().unwrap()),
        (unsynced(4), |writer| writer.close().unwrap()),
        (each_commit, |mut writer| writer.commit().unwrap()),
    ];
    for (options, sync) in syncs {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let all = keyed(&[(0, 0)]).schema().clone();
        let new = |options: &WriterOptions| PartitionedWriter::new(&table, all.clone(), &by, options).unwrap();
        // There is nothing yet.
        sync(new(&options));
        let mut killed = new(&unsynced(4));
        for n in 1..7 {
            killed.append_dataset(&keyed(&[(0, n), (1, n), (2, 9 * n), (2, 9 * n + 1)])).unwrap();
            killed.commit().unwrap();
        }
        drop(killed);
        let ends = || {
            ["k0", "k1", "k2"].map(|key| {
                let path = partition_path(&table, &[("key", Value::Str(key))]).unwrap();
                let stat = table_stat(path).unwrap().unwrap();
                (stat.durable_end, stat.end)
            })
        };
        assert_eq!(ends(), [(0, 6), (0, 6), (0, 12)]);
        let mut writer = new(&options);
        writer.append_dataset(&keyed(&[(1, 7)])).unwrap();
        writer.commit().unwrap();
        sync(writer);
        assert_eq!(ends(), [(6, 6), (7, 7), (12, 12)]);
    }
}

/// Whoever writes a partition brings it to the disk, and others do once that writer has died.
#[test]
fn a_partition_with_a_writer_is_left_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let by: [PartitionBy; 1] = ["key".parse().unwrap()];
    let values = [("key", Value::Str("k1"))];
    let path = partition_path(table, &values).unwrap();
    let all = keyed(&[(0, 0)]).schema().clone();
    let mut other = partition_writer(table, &values, Some(all.clone()), &unsynced(4)).unwrap();
    other.append_row(&[Value::Int(1)]).unwrap();
    other.commit().unwrap();
    let durable_end = || table_stat(&path).unwrap().unwrap().durable_end;
    let mut writer = PartitionedWriter::new(table, all, &by, &unsynced(4)).unwrap();
    for _ in 0..2 {
        writer.append_dataset(&keyed(&[(0, 1)])).unwrap();
        writer.commit().unwrap();
        writer.sync().unwrap();
        assert_eq!(durable_end(), 0);
    }
    drop(other);
    writer.sync().unwrap();
    assert_eq!(durable_end(), 1);
}
