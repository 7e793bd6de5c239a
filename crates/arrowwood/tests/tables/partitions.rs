//! Tests of partitioned datasets: directories with names like `key=value`, each of which holds a table or Arrow files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::{
    ArrayRef, Date32Array, Date64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp};
use arrowwood::{
    Dataset, ErrorKind, FollowFrom, LatePolicy, OpenOptions, PartitionBy, PartitionedWriter, PartitionsFollower,
    Predicate, SyncPolicy, Value, Writer, WriterOptions, alter, col, drop_partition, follow_partitions, open,
    parse_schema, partition_path, partition_writer, table_stat,
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

/// Opens the writer of a partition, and creates its directory if necessary.
fn open_partition(table: &Path, partition: &[(&str, Value<'_>)]) -> Writer {
    let path = partition_path(table, partition).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    Writer::open(path, Some(schema()), &WriterOptions { segment_rows: Some(8), ..WriterOptions::default() }).unwrap()
}

/// Returns the key of a partition by host.
fn host(name: &str) -> [(&'static str, Value<'_>); 1] {
    [("host", Value::Str(name))]
}

/// Returns the key of a partition by day and host.
fn day_and_host(day: i64, host: &str) -> [(&'static str, Value<'_>); 2] {
    [("day", Value::Int(day)), ("host", Value::Str(host))]
}

fn append(writer: &mut Writer, numbers: std::ops::Range<i64>) {
    writer.append(&rows(numbers)).unwrap();
    writer.commit().unwrap();
}

/// Returns all rows, each as the texts of its values.
fn read_rows(dataset: &Dataset) -> Vec<String> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        let values: Vec<String> = row.unwrap().iter().map(|(_, value)| value.unwrap().to_string()).collect();
        rows.push(values.join(" "));
    }
    rows
}

/// Copies the rows to memory.
fn copy_rows(dataset: &Dataset) -> Dataset {
    let batches = dataset.to_record_batches().collect::<arrowwood::Result<Vec<_>>>().unwrap();
    Dataset::from_batches(dataset.schema().clone(), batches).unwrap()
}

fn column_types(table: &Path) -> Vec<String> {
    let dataset = open(table).unwrap();
    dataset.schema().fields().iter().map(|field| field.data_type().to_string()).collect()
}

/// Regression test: while `alter` has added a column to one of two partitions, `between` failed as if the tables
/// weren't sorted, and the index skipped no rows.
#[test]
fn late_rows_are_found_where_a_partition_lacks_a_column() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let sorted = WriterOptions { sorted_by: Some("n".into()), late: Some(LatePolicy::Accept), ..unsynced(8) };
    let options = WriterOptions { zone_rows: Some(2), ..sorted };
    for (name, first) in [("a", 0), ("b", 20)] {
        let mut writer = partition_writer(&table, &host(name), Some(schema()), &options).unwrap();
        append(&mut writer, first + 4..first + 6);
        append(&mut writer, first..first + 4);
    }
    let newer = partition_path(&table, &host("b")).unwrap();
    assert!(alter(newer, &parse_schema("x: utf8").unwrap(), &Schema::empty(), &[]).unwrap());
    let dataset = open(&table).unwrap();
    let range = dataset.between(&Value::Int(3), &Value::Int(21)).unwrap();
    let expected = ["4 row 4 null a", "5 row 5 null a", "3 row 3 null a", "20 row 20 null b", "21 row 21 null b"];
    assert_eq!(read_rows(&range), expected);
    assert_eq!(read_rows(&dataset.prune(&col("n").eq(3)).unwrap()), ["2 row 2 null a", "3 row 3 null a"]);
}

#[test]
fn writers_of_several_hosts_fill_one_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut a = open_partition(&table, &host("a1"));
    let mut b = open_partition(&table, &host("b/2"));
    append(&mut a, 0..3);
    append(&mut b, 10..12);
    let first = open(&table).unwrap();
    assert_eq!(first.schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["n", "s", "host"]);
    assert_eq!(read_rows(&first), ["0 row 0 a1", "1 row 1 a1", "2 row 2 a1", "10 row 10 b/2", "11 row 11 b/2"]);
    // Both get more rows, in several segments, and a partition is added.
    append(&mut a, 3..20);
    append(&mut b, 12..13);
    let mut c = open_partition(&table, &[("host", Value::Null)]);
    append(&mut c, 20..21);
    let newer = first.refresh().unwrap();
    assert_eq!((first.len().unwrap(), newer.len().unwrap()), (5, 24));
    assert_eq!(read_rows(&newer.tail(2).unwrap()), ["12 row 12 b/2", "20 row 20 null"]);
    assert_eq!(read_rows(&newer), read_rows(&open(&table).unwrap()));
    assert_eq!(read_rows(&newer), read_rows(&copy_rows(&newer)));
    let selected = newer.select(&["host", "n"]).unwrap().refresh().unwrap();
    assert_eq!(read_rows(&selected.tail(1).unwrap()), ["null 20"]);
    let partitions = newer.partitions();
    assert_eq!(partitions.iter().map(|p| p.rows.len().unwrap()).collect::<Vec<_>>(), [20, 3, 1]);
    assert_eq!(partitions[1].keys, [("host".to_owned(), Some("b/2".to_owned()))]);
    // Another process can open the same rows by their positions in files.
    let slice = newer.slice(19, 4).unwrap();
    let file_slices = slice.file_slices().unwrap();
    assert_eq!(read_rows(&OpenOptions::new().file_slices(&file_slices).unwrap()), read_rows(&slice));
}

/// Regression test: after `alter` had changed only one of two partitions, as the disk was full, a writer that was
/// opened without a schema took the schema of the other partition, and was refused.
#[test]
fn a_writer_without_a_schema_takes_the_one_of_its_partition() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for name in ["a", "b"] {
        append(&mut open_partition(table, &host(name)), 0..2);
    }
    let more = parse_schema("more: int64").unwrap();
    for altered in ["a", "b"] {
        alter(table.join(format!("host={altered}")), &more, &Schema::empty(), &[]).unwrap();
        for name in ["a", "b"] {
            let writer = partition_writer(table, &host(name), None, &WriterOptions::default()).unwrap();
            let has_more = writer.schema().field_with_name("more").is_ok();
            assert_eq!(has_more, name <= altered, "{name} of {altered}");
        }
    }
    assert_eq!(open(table).unwrap().len().unwrap(), 4);
}

#[test]
fn refreshing_removes_dropped_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for day in 1..4_i64 {
        append(&mut open_partition(table, &day_and_host(day, "a")), day..day + 1);
    }
    let dataset = open(table).unwrap();
    assert_eq!(dataset.schema().field(2).data_type(), &DataType::Int64);
    let second = day_and_host(2, "a");

    let locking_writer = open_partition(table, &second);
    let error = drop_partition(table, &second).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(locking_writer);
    assert!(drop_partition(table, &second).unwrap());
    assert!(!drop_partition(table, &second).unwrap());
    assert!(!table.join("day=2").exists());
    assert_eq!(read_rows(&dataset), ["1 row 1 1 a", "2 row 2 2 a", "3 row 3 3 a"]);
    assert_eq!(read_rows(&dataset.refresh().unwrap()), ["1 row 1 1 a", "3 row 3 3 a"]);

    // A new table with the same name is a different partition.
    append(&mut open_partition(table, &second), 7..9);
    let expected = ["1 row 1 1 a", "7 row 7 2 a", "8 row 8 2 a", "3 row 3 3 a"];
    assert_eq!(read_rows(&dataset.refresh().unwrap()), expected);
    assert_eq!(drop_partition(table, &[("day", Value::Int(1))]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn types_of_partition_columns_are_inferred_or_given() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for (number, name) in ["zip=01234/k=2024-05-01", "zip=7/k=2024-05-02"].into_iter().enumerate() {
        fs::create_dir_all(table.join(name)).unwrap();
        let file = table.join(name).join("part-0.arrow");
        let start = number as i64 * 10;
        let dataset = Dataset::try_from(vec![rows(start..start + 2)]).unwrap();
        arrowwood::write(&dataset, file, &Default::default()).unwrap();
    }
    let inferred = open(table).unwrap();
    assert_eq!(read_rows(&inferred)[0], "0 row 0 01234 2024-05-01");
    assert_eq!(inferred.schema().field(3).data_type(), &DataType::Date32);
    let types = Schema::new(vec![Field::new("zip", DataType::Int32, true)]);
    let typed = OpenOptions::new().partitions(table, &types).unwrap();
    assert_eq!(
        read_rows(&typed),
        ["10 row 10 7 2024-05-02", "11 row 11 7 2024-05-02", "0 row 0 1234 2024-05-01", "1 row 1 1234 2024-05-01"]
    );
    for (name, data_type, kind) in [
        ("zip", DataType::Int8, ErrorKind::InvalidData),
        ("zap", DataType::Int8, ErrorKind::ColumnNotFound),
        ("zip", DataType::Binary, ErrorKind::InvalidArgument),
    ] {
        let types = Schema::new(vec![Field::new(name, data_type, true)]);
        assert_eq!(OpenOptions::new().partitions(table, &types).unwrap_err().kind(), kind, "{name}");
    }
}

#[test]
fn directories_with_partitions_and_other_contents_are_refused() {
    let add_partition = |table: &Path, key| append(&mut open_partition(table, &[(key, Value::Int(1))]), 0..1);
    type AddContents<'a> = &'a dyn Fn(&Path);
    let cases: [(AddContents<'_>, ErrorKind, &[&str]); 5] = [
        (
            &|root| fs::write(root.join("other.arrow"), "").unwrap(),
            ErrorKind::InvalidData,
            &["('k=1') and 'other.arrow'"],
        ),
        (&|root| fs::create_dir(root.join("more")).unwrap(), ErrorKind::InvalidData, &["('k=1') and 'more'"]),
        (&|root| add_partition(root, "l"), ErrorKind::SchemaMismatch, &["'k'", "'l'"]),
        (&|root| add_partition(&root.join("k=2"), "l"), ErrorKind::SchemaMismatch, &["columns k"]),
        // A partition inside of a table.
        (&|root| add_partition(&root.join("k=1"), "l"), ErrorKind::InvalidData, &["l=1"]),
    ];
    for (add_contents, kind, reasons) in cases {
        let folder = tempfile::tempdir().unwrap();
        add_partition(folder.path(), "k");
        add_contents(folder.path());
        let error = open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(reasons.iter().all(|reason| error.to_string().contains(reason)), "{error}");
    }
}

/// Hidden directories belong to other programs, and an empty one to a writer that has no file yet.
#[test]
fn hidden_and_empty_directories_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    append(&mut open_partition(folder.path(), &[("k", Value::Int(1))]), 0..1);
    for name in ["_temporary", ".snapshots", "k=2"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let dataset = open(folder.path()).unwrap();
    assert_eq!(dataset.len().unwrap(), 1);
    append(&mut open_partition(folder.path(), &[("k", Value::Int(2))]), 0..2);
    assert_eq!(dataset.refresh().unwrap().len().unwrap(), 3);
}

#[test]
fn damage_in_a_partition_is_found() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        append(&mut open_partition(folder.path(), &host(name)), 0..3);
    }
    fs::create_dir(folder.path().join("host=begun")).unwrap();
    let good = arrowwood::check(folder.path(), |_, _| ()).unwrap();
    assert!(good.is_good() && good.rows == 6 && good.segments == 2, "{good:?}");
    let segment = folder.path().join("host=b/00000000000000000000.arrow");
    fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(5000).unwrap();
    let bad = arrowwood::check(folder.path(), |_, _| ()).unwrap();
    assert!(!bad.is_good() && bad.damage().all(|finding| finding.path == segment), "{bad:?}");
}

/// Generates predicates on two partition columns and a stored one.
fn predicates() -> impl Strategy<Value = Predicate> {
    let day = (0..6_i64, 0..6_usize).prop_map(|(day, operator)| match operator {
        0 => col("day").eq(day),
        1 => col("day").ne(day),
        2 => col("day").lt(day),
        3 => col("day").ge(day),
        4 => col("day").is_in([day, day + 2]),
        _ => col("day").is_null(),
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
fn filters_that_prune_partitions_match_a_scan_of_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut start = 0;
    for day in [Value::Int(0), Value::Int(3), Value::Int(4), Value::Null] {
        for host in ["a", "b", ""] {
            let key = [("day", day.clone()), ("host", Value::Str(host))];
            append(&mut open_partition(table, &key), start..start + 3);
            start += 3;
        }
    }
    let dataset = open(table).unwrap();
    let in_memory = copy_rows(&dataset);
    assert_eq!(in_memory.len().unwrap(), 36);
    proptest!(|(predicate in predicates())| {
        let filtered = dataset.filter(&predicate).unwrap();
        prop_assert_eq!(read_rows(&filtered), read_rows(&in_memory.filter(&predicate).unwrap()), "{}", predicate);
        let pruned = dataset.prune(&predicate).unwrap();
        prop_assert_eq!(read_rows(&pruned.filter(&predicate).unwrap()), read_rows(&filtered));
    });
    // Ten of the twelve partitions are skipped.
    let pruned = dataset.prune(&(col("host").eq("a") & col("day").gt(1))).unwrap();
    assert_eq!(pruned.len().unwrap(), 6);
}

/// Returns rows with the columns `key` and `n`.
fn keyed_rows(rows: &[(u8, i64)]) -> Dataset {
    let keys = StringArray::from_iter_values(rows.iter().map(|(key, _)| format!("k{key}")));
    let numbers = Int64Array::from_iter_values(rows.iter().map(|(_, n)| *n));
    let columns: [(&str, ArrayRef); 2] = [("key", Arc::new(keys)), ("n", Arc::new(numbers))];
    Dataset::try_from(vec![RecordBatch::try_from_iter(columns).unwrap()]).unwrap()
}

/// Opens a writer of [`keyed_rows`], partitioned by their keys.
fn keyed_writer(table: &Path, options: &WriterOptions) -> PartitionedWriter {
    let by: [PartitionBy; 1] = ["key".parse().unwrap()];
    PartitionedWriter::new(table, keyed_rows(&[(0, 0)]).schema().clone(), &by, options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Compares a partitioned writer with a map of lists: more partitions than may be open, commits, rollbacks,
    /// reopened writers and a follower.
    #[test]
    fn rows_are_partitioned_by_their_keys(
        steps in prop::collection::vec((prop::collection::vec(0..6_u8, 1..12), 0..5_u8), 1..12),
        max_open in 1..4_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let mut writer = keyed_writer(&table, &unsynced(8)).max_open(max_open);
        let mut committed = BTreeMap::<String, Vec<i64>>::new();
        let mut uncommitted = Vec::new();
        let mut followed = BTreeMap::<String, Vec<i64>>::new();
        let mut next_rows = BTreeMap::new();
        let mut n = 0;
        for (keys, step) in steps {
            let rows: Vec<(u8, i64)> = keys.into_iter().zip(n + 1..).collect();
            n += rows.len() as i64;
            writer.append_dataset(&keyed_rows(&rows)).unwrap();
            uncommitted.extend(rows);
            if step == 0 {
                writer.rollback();
                uncommitted.clear();
                continue;
            }
            if step == 1 {
                writer.close().unwrap();
                writer = keyed_writer(&table, &unsynced(8)).max_open(max_open);
            } else {
                writer.commit().unwrap();
            }
            for (key, n) in uncommitted.drain(..) {
                committed.entry(format!("k{key}")).or_default().push(n);
            }
            prop_assert!(writer.num_open() <= max_open);
            let dataset = open(&table).unwrap();
            let mut actual = BTreeMap::new();
            add_rows(&dataset, &mut actual);
            prop_assert_eq!(&actual, &committed);
            let start = FollowFrom::Rows(std::mem::take(&mut next_rows));
            let mut follower = follow_partitions(&dataset, &start).unwrap();
            while let Some((_, rows)) = follower.poll(std::time::Duration::ZERO).unwrap() {
                add_rows(&rows, &mut followed);
            }
            next_rows = follower.next_rows();
            prop_assert_eq!(&followed, &committed);
        }
    }
}

/// Adds the numbers in the column `n` to the list of their key.
fn add_rows(dataset: &Dataset, numbers: &mut BTreeMap<String, Vec<i64>>) {
    for row in dataset.rows() {
        let row = row.unwrap();
        let (Value::Int(n), Value::Str(key)) = (row.get(0).unwrap(), row.get(1).unwrap()) else {
            panic!("other columns")
        };
        numbers.entry(key.to_owned()).or_default().push(n);
    }
}

/// Polls until there are `count` rows, and returns all rows so far with the names of their partitions, sorted.
fn poll_rows(follower: &mut PartitionsFollower, count: usize) -> Vec<String> {
    let mut rows = Vec::new();
    wait_until("rows of partitions", || {
        while let Some((name, dataset)) = follower.poll(Duration::from_millis(100)).unwrap() {
            rows.extend(read_rows(&dataset).into_iter().map(|row| format!("{name}: {row}")));
        }
        rows.len() >= count
    });
    rows.sort();
    rows
}

/// A follower holds no segments of a compacted partition, so it can't find them any more when the partition is dropped.
#[test]
fn followers_continue_when_compacted_partitions_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for name in ["a", "b", "c", "d"] {
        append(&mut open_partition(table, &host(name)), 0..1);
        if name != "d" {
            arrowwood::compact(partition_path(table, &host(name)).unwrap(), |_, _| ()).unwrap();
        }
    }
    let mut follower = follow_partitions(&open(table).unwrap(), &FollowFrom::First).unwrap();
    assert_eq!(poll_rows(&mut follower, 4).len(), 4);
    assert!(drop_partition(table, &host("a")).unwrap());
    assert!(drop_partition(table, &host("b")).unwrap());
    append(&mut open_partition(table, &host("d")), 1..2);
    assert_eq!(poll_rows(&mut follower, 1), ["host=d: 1 row 1 d"]);

    // A new table with the same name is read from its first row.
    append(&mut open_partition(table, &host("b")), 5..7);
    assert_eq!(poll_rows(&mut follower, 2), ["host=b: 5 row 5 b", "host=b: 6 row 6 b"]);
    assert_eq!(follower.next_rows().into_keys().collect::<Vec<_>>(), ["host=b", "host=c", "host=d"]);

    // An error in one partition doesn't stop others, nor hide that one was dropped.
    let mut c = open_partition(table, &host("c"));
    append(&mut c, 1..40);
    c.drop_before(20).unwrap();
    assert!(drop_partition(table, &host("b")).unwrap());
    append(&mut open_partition(table, &host("d")), 2..3);
    let mut errors = 0;
    let mut rows = Vec::new();
    wait_until("repeated errors, and the rows of another partition", || {
        match follower.poll(Duration::ZERO) {
            Ok(Some((_, dataset))) => rows.extend(read_rows(&dataset)),
            Ok(None) => (),
            Err(e) => errors += u32::from(e.kind() == ErrorKind::RowOutOfRange),
        }
        errors > 10 && !rows.is_empty()
    });
    assert_eq!(rows, ["2 row 2 d"]);
    assert_eq!(follower.next_rows().into_keys().collect::<Vec<_>>(), ["host=c", "host=d"]);
}

#[test]
fn partitions_are_found_after_the_last_one_was_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    append(&mut open_partition(table, &day_and_host(1, "a")), 0..3);
    let mut dataset = open(table).unwrap();
    let mut follower = follow_partitions(&dataset, &FollowFrom::First).unwrap();
    assert_eq!(poll_rows(&mut follower, 3).len(), 3);
    assert!(drop_partition(table, &day_and_host(1, "a")).unwrap());
    assert_eq!(poll_rows(&mut follower, 0), Vec::<String>::new());
    dataset = dataset.refresh().unwrap();
    assert_eq!(dataset.len().unwrap(), 0);
    append(&mut open_partition(table, &day_and_host(2, "b")), 7..8);
    assert_eq!(poll_rows(&mut follower, 1), ["day=2/host=b: 7 row 7 2 b"]);
    assert_eq!(read_rows(&dataset.refresh().unwrap()), ["7 row 7 2 b"]);
}

fn text_field(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

/// Returns options that store some columns as dictionaries.
fn dictionaries(names: &[&str]) -> WriterOptions {
    WriterOptions { dictionary: names.iter().map(ToString::to_string).collect(), ..WriterOptions::default() }
}

/// A new partition must be compatible with the others, and stores texts in the same way.
#[test]
fn new_partitions_use_the_dictionaries_of_the_others() {
    for (first, second) in [(&[][..], &["symbol"][..]), (&["symbol"], &[]), (&["symbol"], &["symbol"]), (&[], &["new"])]
    {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        let fields = vec![text_field("symbol"), Field::new("price", DataType::Float64, true)];
        // There are directories without files before and after the first partition.
        for number in 0..9 {
            fs::create_dir(table.join(format!("host={number}"))).unwrap();
        }
        let schema = Arc::new(Schema::new(fields.clone()));
        partition_writer(table, &host("a"), Some(schema), &dictionaries(first)).unwrap().close().unwrap();
        for number in 10..19 {
            fs::create_dir(table.join(format!("host={number}"))).unwrap();
        }
        let types_before = column_types(table);

        let wider_fields: Vec<Field> = fields.into_iter().chain([text_field("new")]).collect();
        let schema = Arc::new(Schema::new(wider_fields));
        partition_writer(table, &host("b"), Some(schema), &dictionaries(second)).unwrap().close().unwrap();
        assert_eq!(column_types(table)[0], types_before[0], "{first:?}, then {second:?}");

        for options in [dictionaries(&[]), dictionaries(&["symbol"]), dictionaries(&["symbol", "new"])] {
            let incompatible = vec![text_field("symbol"), text_field("price"), text_field("new")];
            let schema = Arc::new(Schema::new(incompatible));
            let error = partition_writer(table, &host("c"), Some(schema), &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
            assert!(error.to_string().contains("price"), "{error}");
            assert!(!table.join("host=c").exists());
        }
        assert_eq!(open(table).unwrap().partitions().len(), 2);
    }
}

/// Directories whose names begin with an underscore belong to other programs, so the underscore is escaped.
#[test]
fn partition_columns_may_begin_with_an_underscore() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    append(&mut open_partition(table, &[("_k", Value::Str("_a"))]), 0..2);
    assert!(table.join("%5Fk=_a").is_dir());
    let dataset = open(table).unwrap();
    assert_eq!(dataset.schema().field(2).name(), "_k");
    assert_eq!(read_rows(&dataset), ["0 row 0 _a", "1 row 1 _a"]);
}

/// Opens a writer with an additional column.
fn open_with_column(table: &Path, name: &str, column: &str, dictionary_columns: &[&str]) -> arrowwood::Result<Writer> {
    let schema = parse_schema(&format!("n: int64, {column}")).unwrap();
    partition_writer(table, &host(name), Some(Arc::new(schema)), &dictionaries(dictionary_columns))
}

/// The check must not depend on which of the others is listed first.
#[test]
fn new_partitions_must_be_compatible_with_every_other() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for name in ["a", "b", "c", "d", "e", "f"] {
        append(&mut open_partition(table, &host(name)), 0..1);
    }
    for (name, column) in [("c", "x: utf8"), ("e", "y: int32")] {
        let path = partition_path(table, &host(name)).unwrap();
        assert!(alter(path, &parse_schema(column).unwrap(), &Schema::empty(), &[]).unwrap());
    }
    for name in ["g", "h", "i"] {
        let error = open_with_column(table, name, "x: int64", &[]).unwrap_err();
        assert!(error.kind() == ErrorKind::SchemaMismatch && error.to_string().contains("'x'"), "{error}");
        assert_eq!(error.path(), Some(&*table.join("host=c")));
        assert!(!table.join(format!("host={name}")).exists());
    }
    // A wider type is compatible, and texts are stored as in the other partitions.
    open_with_column(table, "g", "x: utf8, y: int64", &["x"]).unwrap().close().unwrap();
    let dataset = open(table).unwrap();
    let types = ["n", "x", "y"].map(|name| dataset.schema().field_with_name(name).unwrap().data_type().clone());
    assert_eq!(types, [DataType::Int64, DataType::Utf8, DataType::Int64]);
}

/// Opens a writer of the partition `k=value` with small segments.
fn open_value_partition(table: &Path, value: &str) -> arrowwood::Result<Writer> {
    let options = WriterOptions { segment_rows: Some(8), ..WriterOptions::default() };
    partition_writer(table, &[("k", Value::Str(value))], Some(schema()), &options)
}

/// Hidden files next to a directory have names that are longer than its own; if such a name is too long, they are
/// inside of it.
#[test]
fn names_of_partitions_may_be_as_long_as_names_of_directories() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for length in [226, 227, 253] {
        let value = "v".repeat(length);
        let mut writer = open_value_partition(table, &value).unwrap();
        for segment in 0..5 {
            append(&mut writer, segment * 8..segment * 8 + 8);
        }
        writer.rollback();
        writer.close().unwrap();
        arrowwood::compact(table.join(format!("k={value}")), |_, _| ()).unwrap();
        append(&mut open_value_partition(table, &value).unwrap(), 40..44);
        assert_eq!(open(table).unwrap().len().unwrap(), 44);
        assert!(arrowwood::check(table.join(format!("k={value}")), |_, _| ()).unwrap().is_good());
        assert!(drop_partition(table, &[("k", Value::Str(&value))]).unwrap());
    }
    let error = open_value_partition(table, &"v".repeat(254)).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("256 bytes"), "{error}");
}

/// Writes a time to the partition that a function of it gives; returns the name of the partition.
///
/// An error is returned with the number of directories that were created.
fn partition_name(time: &ArrayRef, function: &str) -> Result<String, (arrowwood::Error, usize)> {
    let folder = tempfile::tempdir().unwrap();
    let by: [PartitionBy; 1] = [format!("{function}(t)").parse().unwrap()];
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("t", time.clone()), ("n", numbers)]).unwrap();
    let mut writer = PartitionedWriter::new(folder.path(), batch.schema(), &by, &WriterOptions::default()).unwrap();
    let appended = writer.append_dataset(&Dataset::try_from(vec![batch]).unwrap());
    let closed = writer.close();
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    match appended.and(closed) {
        Ok(()) => Ok(names[0].to_str().unwrap().to_owned()),
        Err(e) => Err((e, names.len())),
    }
}

/// Regression test: times beyond the range of the calendar were put in partitions like `month=` and `day=106751991167
/// days`.
#[test]
fn times_beyond_the_calendar_are_refused() {
    let times: [ArrayRef; 5] = [
        Arc::new(TimestampSecondArray::from(vec![i64::MAX])),
        Arc::new(TimestampSecondArray::from(vec![i64::MIN])),
        Arc::new(TimestampMillisecondArray::from(vec![i64::MIN])),
        Arc::new(Date32Array::from(vec![i32::MAX])),
        Arc::new(Date64Array::from(vec![i64::MIN])),
    ];
    for time in &times {
        for function in ["day", "month", "year"] {
            let (e, directories) = partition_name(time, function).unwrap_err();
            assert!(e.kind() == ErrorKind::InvalidArgument && e.message().contains("calendar"), "{e}");
            assert_eq!(directories, 0);
        }
    }
    // Days before the year 0 and after the year 9999.
    for (days, expected) in [
        (-719_529, ["day=-0001-12-31", "month=-0001-12", "year=-0001"]),
        (2_932_897, ["day=+10000-01-01", "month=+10000-01", "year=+10000"]),
    ] {
        let time: ArrayRef = Arc::new(Date32Array::from(vec![days]));
        assert_eq!(["day", "month", "year"].map(|function| partition_name(&time, function).unwrap()), expected);
    }
    assert_eq!(partition_path("t", &[("d", Value::Date(i64::MAX))]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Otherwise, a link to a parent directory would be followed forever.
#[test]
fn a_partition_column_at_two_levels_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let adjacent_levels = folder.path().join("0");
    append(&mut open_partition(&adjacent_levels.join("k=1"), &[("k", Value::Int(2))]), 0..1);
    let distant_levels = folder.path().join("1");
    append(&mut open_partition(&distant_levels.join("k=1/l=1"), &[("k", Value::Int(2))]), 0..1);
    let links = folder.path().join("2");
    fs::create_dir(&links).unwrap();
    for name in ["k=a", "k=b"] {
        std::os::unix::fs::symlink(".", links.join(name)).unwrap();
    }
    for table in [adjacent_levels, distant_levels, links] {
        for error in [open(&table).unwrap_err(), arrowwood::check(&table, |_, _| ()).unwrap_err()] {
            assert!(error.kind() == ErrorKind::SchemaMismatch && error.to_string().contains("'k'"), "{error}");
            assert!(error.path().is_some_and(|path| path.starts_with(&table) && path != table), "{error}");
        }
    }
}

/// The commit fails at a partition that another writer has locked; the partitions after it keep their rows for the next
/// commit.
#[test]
fn rows_keep_their_order_after_a_failed_commit() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut writer = keyed_writer(table, &WriterOptions::default()).max_open(1);
    writer.append_dataset(&keyed_rows(&[(1, 0)])).unwrap();
    writer.commit().unwrap();
    for rows in [[(0, 1), (1, 1)], [(2, 1), (2, 2)], [(1, 2), (2, 3)]] {
        writer.append_dataset(&keyed_rows(&rows)).unwrap();
    }
    let key = [("key", Value::Str("k1"))];
    let locking_writer = partition_writer(table, &key, None, &WriterOptions::default()).unwrap();
    assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Busy);
    writer.append_dataset(&keyed_rows(&[(2, 4), (1, 3)])).unwrap();
    drop(locking_writer);
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut actual = BTreeMap::new();
    add_rows(&open(table).unwrap(), &mut actual);
    let expected = [("k0", vec![1]), ("k1", vec![0, 1, 2, 3]), ("k2", vec![1, 2, 3, 4])];
    assert_eq!(actual, expected.map(|(key, rows)| (key.to_owned(), rows)).into());
}

/// Fails the next sync of a file if `fail_next` is set.
#[derive(Debug, Default)]
struct FailingSync {
    fail_next: AtomicBool,
}

impl FsObserver for FailingSync {
    fn before_op(&self, op: FsOp<'_>) -> std::io::Result<()> {
        let is_sync = matches!(op, FsOp::Sync { .. } | FsOp::WriteSynced { .. });
        if is_sync && self.fail_next.swap(false, Ordering::SeqCst) {
            return Err(std::io::Error::other("bad disk"));
        }
        Ok(())
    }
}

/// The numbers of rows of a table.
#[derive(Debug, PartialEq, Eq)]
struct Ends {
    durable: u64,
    committed: u64,
}

fn table_ends(table: &Path, key: &str) -> Ends {
    let stat = table_stat(table.join(format!("key={key}"))).unwrap().unwrap();
    Ends { durable: stat.durable_end, committed: stat.end }
}

/// A partition whose sync fails when it is closed stays unsynced until the next rows; `sync` reports it until then.
#[test]
fn sync_reports_a_closed_partition_that_could_not_be_synced() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let disk = Arc::new(FailingSync::default());
    let medium = FileSystem::with_observer(disk.clone());
    let options = WriterOptions { medium, sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = keyed_writer(table, &options).max_open(1);
    writer.append_dataset(&keyed_rows(&[(0, 1)])).unwrap();
    writer.commit().unwrap();
    disk.fail_next.store(true, Ordering::SeqCst);
    // Opening the second partition closes and syncs the first one.
    assert!(writer.append_dataset(&keyed_rows(&[(1, 1)])).unwrap_err().to_string().contains("bad disk"));
    writer.append_dataset(&keyed_rows(&[(1, 1)])).unwrap();
    writer.commit().unwrap();
    for _ in 0..2 {
        let error = writer.sync().unwrap_err();
        assert!(error.to_string().contains("key=k0") && error.to_string().contains("bad disk"), "{error}");
    }
    assert_eq!(table_ends(table, "k0"), Ends { durable: 0, committed: 1 });
    assert_eq!(table_ends(table, "k1"), Ends { durable: 1, committed: 1 });

    writer.append_dataset(&keyed_rows(&[(0, 2)])).unwrap();
    writer.commit().unwrap();
    writer.sync().unwrap();
    assert_eq!(table_ends(table, "k0"), Ends { durable: 2, committed: 2 });
    writer.close().unwrap();
}

/// Regression test: a writer died before its committed rows in two partitions were durable. The next writer got rows
/// for one of them and was synced, but the other partition wasn't: a power cut lost rows that readers had seen.
#[test]
fn sync_includes_rows_of_killed_writers_in_other_partitions() {
    let sync_each_commit = WriterOptions { sync: SyncPolicy::Commit, ..unsynced(4) };
    let cases: [(WriterOptions, fn(PartitionedWriter)); 3] = [
        (unsynced(4), |mut writer| writer.sync().unwrap()),
        (unsynced(4), |writer| writer.close().unwrap()),
        (sync_each_commit, |mut writer| writer.commit().unwrap()),
    ];
    for (options, sync) in cases {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        // The table doesn't exist yet.
        sync(keyed_writer(&table, &options));

        let mut killed_writer = keyed_writer(&table, &unsynced(4));
        for n in 1..7 {
            killed_writer.append_dataset(&keyed_rows(&[(0, n), (1, n), (2, 9 * n), (2, 9 * n + 1)])).unwrap();
            killed_writer.commit().unwrap();
        }
        drop(killed_writer);
        for (key, committed) in [("k0", 6), ("k1", 6), ("k2", 12)] {
            assert_eq!(table_ends(&table, key), Ends { durable: 0, committed });
        }

        let mut writer = keyed_writer(&table, &options);
        writer.append_dataset(&keyed_rows(&[(1, 7)])).unwrap();
        writer.commit().unwrap();
        sync(writer);
        for (key, committed) in [("k0", 6), ("k1", 7), ("k2", 12)] {
            assert_eq!(table_ends(&table, key), Ends { durable: committed, committed });
        }
    }
}

/// A partition that has a writer is synced by it; others sync it when that writer has died.
#[test]
fn sync_leaves_a_partition_to_its_own_writer() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let schema = keyed_rows(&[(0, 0)]).schema().clone();
    let key = [("key", Value::Str("k1"))];
    let mut own_writer = partition_writer(table, &key, Some(schema), &unsynced(4)).unwrap();
    own_writer.append_row(&[Value::Int(1)]).unwrap();
    own_writer.commit().unwrap();
    let mut writer = keyed_writer(table, &unsynced(4));
    for _ in 0..2 {
        writer.append_dataset(&keyed_rows(&[(0, 1)])).unwrap();
        writer.commit().unwrap();
        writer.sync().unwrap();
        assert_eq!(table_ends(table, "k1").durable, 0);
    }
    drop(own_writer);
    writer.sync().unwrap();
    assert_eq!(table_ends(table, "k1").durable, 1);
}
