//! Tests of the names of partitions' directories: any values have directories of their own, also on file systems that
//! ignore case, and names given by earlier versions and other programs are used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{
    Dataset, ErrorKind, PartitionBy, PartitionedWriter, Value, Writer, WriterOptions, drop_partition, open,
    parse_schema, partition_path, partition_writer,
};
use proptest::prelude::*;

use crate::tables::unsynced;

/// Returns rows with the columns `k`, of the given values, and `n`, the numbers from `start` on.
fn rows(values: &[Option<&str>], start: i64) -> Dataset {
    let numbers = Int64Array::from_iter_values(start..start + values.len() as i64);
    let columns: [(&str, ArrayRef); 2] =
        [("k", Arc::new(StringArray::from(values.to_vec()))), ("n", Arc::new(numbers))];
    Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable(columns.map(|(k, c)| (k, c, true))).unwrap()])
        .unwrap()
}

fn writer_of(table: &Path) -> PartitionedWriter {
    let by: [PartitionBy; 1] = ["k".parse().unwrap()];
    PartitionedWriter::new(table, rows(&[], 0).schema().clone(), &by, &unsynced(8)).unwrap()
}

/// Opens a partition without a choice of its name, as earlier versions did.
fn open_named(table: &Path, name: &str) -> Writer {
    Writer::open(table.join(name), Some(Arc::new(parse_schema("n: int64").unwrap())), &unsynced(8)).unwrap()
}

fn append(writer: &mut Writer, n: i64) {
    writer.append_row(&[Value::Int(n)]).unwrap();
    writer.commit().unwrap();
}

/// Returns the numbers of each value.
fn read(table: &Path) -> BTreeMap<Option<String>, Vec<i64>> {
    let mut read: BTreeMap<_, Vec<i64>> = BTreeMap::new();
    for row in open(table).unwrap().rows() {
        let row = row.unwrap();
        let Value::Int(n) = row.get(0).unwrap() else { panic!("no number") };
        let key = match row.get(1).unwrap() {
            Value::Null => None,
            Value::Str(text) => Some(text.to_owned()),
            // A reader takes texts of one form for numbers or dates.
            value => Some(value.to_string()),
        };
        read.entry(key).or_default().push(n);
    }
    read
}

fn names(table: &Path) -> BTreeSet<String> {
    fs::read_dir(table).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Values of which many differ only in case, in normal form, or at the end.
fn values() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(
        0.95,
        prop_oneof![
            2 => "[aAbB]{1,3}",
            1 => "[a-zA-Z](\\.|\\. | |\\.\\.)?",
            1 => "(é|e\u{301}|É|ß|ss|ſ|K|k|İ|ı|ﬁ|\u{200d}|東){1,2}",
            1 => "(CON|nul|Com1|LPT9)(\\.txt)?",
            1 => "__(HIVE_DEFAULT_PARTITION|hive_default_partition)__",
            1 => "\\PC{0,12}",
            1 => "[\\x00-\\x7f]{0,6}",
        ],
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Rows of two writers are read as they were written, and no two names are equal on a file system that ignores
    /// case. As names are ASCII, neither are they on one that ignores normal forms.
    #[test]
    fn any_values_are_partitions_on_any_file_system(
        written in prop::collection::vec(values(), 1..12), turns in prop::collection::vec(any::<bool>(), 12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path();
        let mut writers = [writer_of(table), writer_of(table)];
        let mut expected: BTreeMap<Option<String>, Vec<i64>> = BTreeMap::new();
        for (n, (value, &turn)) in written.iter().zip(&turns).enumerate() {
            let rows = rows(&[value.as_deref()], n as i64);
            let (one, other) = writers.split_at_mut(1);
            let (first, second) = if turn { (&mut one[0], &mut other[0]) } else { (&mut other[0], &mut one[0]) };
            // The partition may be open in the other writer.
            if first.append_dataset(&rows).is_err() {
                first.rollback();
                second.append_dataset(&rows).unwrap();
            }
            writers.iter_mut().for_each(|writer| writer.commit().unwrap());
            expected.entry(value.clone()).or_default().push(n as i64);
        }
        writers.into_iter().for_each(|writer| writer.close().unwrap());
        prop_assert_eq!(read(table), expected.clone());
        let names = names(table);
        prop_assert!(names.iter().all(|name| name.is_ascii() && !name.ends_with(['.', ' '])), "{:?}", names);
        let folded: BTreeSet<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        prop_assert_eq!(folded.len(), expected.len());
    }
}

#[test]
fn values_that_differ_in_case_have_names_that_differ_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut writer = writer_of(table);
    writer.append_dataset(&rows(&[Some("AAPL"), Some("aapl"), Some("Aapl"), Some("MSFT"), None], 0)).unwrap();
    writer.close().unwrap();
    assert_eq!(
        names(table).into_iter().collect::<Vec<_>>(),
        ["k=%41apl", "k=%61apl", "k=AAPL", "k=MSFT", "k=__HIVE_DEFAULT_PARTITION__"]
    );
    // The directories are found again.
    let mut writer = writer_of(table);
    writer.append_dataset(&rows(&[Some("Aapl"), Some("aapl"), Some("AAPL")], 5)).unwrap();
    writer.close().unwrap();
    let of = |value: &str| read(table).remove(&Some(value.to_owned())).unwrap();
    assert_eq!([of("AAPL"), of("aapl"), of("Aapl")], [vec![0, 7], vec![1, 6], vec![2, 5]]);
    assert_eq!(names(table).len(), 5);
    assert!(drop_partition(table, &[("k", Value::Str("aapl"))]).unwrap());
    assert!(!names(table).contains("k=%61apl"));
}

#[test]
fn existing_directories_are_used_whatever_form_their_names_have() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let existing = ["k=Zürich", "k=%4Dalmö", "k=1.", "k=a<b", "k=x%2dy", "k=A", "k=a"];
    for name in existing {
        append(&mut open_named(table, name), 0);
    }
    let keys = ["Zürich", "Malmö", "1.", "a<b", "x-y", "A", "a"];
    for (value, name) in keys.into_iter().zip(existing) {
        assert_eq!(partition_path(table, &[("k", Value::Str(value))]).unwrap(), table.join(name));
        let mut writer = partition_writer(table, &[("k", Value::Str(value))], None, &unsynced(8)).unwrap();
        append(&mut writer, 1);
        writer.close().unwrap();
    }
    let expected = keys.map(|key| (Some(key.to_owned()), vec![0, 1]));
    assert_eq!(read(table), BTreeMap::from(expected));
    assert_eq!(names(table), existing.map(str::to_owned).into());
}

/// Two directories of one value are both read; a writer uses the one that it would create, and both are dropped.
#[test]
fn a_value_may_have_two_directories() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    for (n, name) in ["k=%61/l=1", "k=a/l=2", "k=b/l=1", "k=%62/l=1"].into_iter().enumerate() {
        fs::create_dir_all(table.join(name).parent().unwrap()).unwrap();
        append(&mut open_named(table, name), n as i64);
    }
    let key = |k, l| [("k", Value::Str(k)), ("l", Value::Int(l))];
    for (k, l, expected) in
        [("a", 1, "k=%61/l=1"), ("a", 2, "k=a/l=2"), ("a", 3, "k=a/l=3"), ("b", 1, "k=b/l=1"), ("c", 1, "k=c/l=1")]
    {
        assert_eq!(partition_path(table, &key(k, l)).unwrap(), table.join(expected));
    }
    assert_eq!(open(table).unwrap().len().unwrap(), 4);
    assert!(drop_partition(table, &key("b", 1)).unwrap());
    assert_eq!(names(table), ["k=%61", "k=a"].map(str::to_owned).into());
}

/// Writers that begin at once don't choose names that are equal without case.
#[test]
fn concurrent_writers_choose_different_names() {
    for _ in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let values = ["abc", "ABC", "Abc", "aBc"];
        let barrier = Barrier::new(values.len());
        std::thread::scope(|scope| {
            for (n, value) in values.into_iter().enumerate() {
                let (table, barrier) = (&table, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let mut writer = writer_of(table);
                    writer.append_dataset(&rows(&[Some(value)], n as i64)).unwrap();
                    writer.close().unwrap();
                });
            }
        });
        let expected = (0..).zip(values).map(|(n, value)| (Some(value.to_owned()), vec![n]));
        assert_eq!(read(&table), expected.collect());
        let folded: BTreeSet<String> = names(&table).iter().map(|name| name.to_ascii_lowercase()).collect();
        assert_eq!(folded.len(), values.len());
    }
}

/// A value that is too long for a name is refused with the whole append, and the writer can go on.
#[test]
fn long_values_are_refused_before_rows_are_appended() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let mut writer = writer_of(table);
    let long = "x".repeat(254);
    let error = writer.append_dataset(&rows(&[Some("a"), Some(&long)], 0)).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("256 bytes"), "{error}");
    // Characters beyond ASCII are kept if they don't fit otherwise.
    let city = "東".repeat(84);
    writer.append_dataset(&rows(&[Some("a"), Some(&city)], 0)).unwrap();
    writer.close().unwrap();
    assert_eq!(read(table), BTreeMap::from([(Some("a".to_owned()), vec![0]), (Some(city.clone()), vec![1])]));
    assert!(table.join(format!("k={city}")).is_dir());
}

/// A file of the name takes its place as well.
#[test]
fn files_take_names() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    fs::write(table.join("K=A"), "").unwrap();
    fs::write(table.join("k=b"), "").unwrap();
    let path = |value| partition_path(table, &[("k", Value::Str(value))]).unwrap();
    assert_eq!([path("a"), path("b")], [table.join("k=%61"), table.join("k=%62")]);
    assert_eq!(partition_path(table.join("none"), &[("k", Value::Str("ü"))]).unwrap(), table.join("none/k=%C3%BC"));
    let options = WriterOptions::default();
    let schema = Some(Arc::new(parse_schema("n: int64").unwrap()));
    let writer = partition_writer(table, &[("k", Value::Str("a"))], schema, &options).unwrap();
    writer.close().unwrap();
    assert!(table.join("k=%61").is_dir());
}

/// Names that begin with an underscore belong to other programs, whatever they would mean as partitions.
#[test]
fn directories_of_other_programs_are_no_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let foreign = table.join("_k=1/part-0.parquet");
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::write(&foreign, "rows").unwrap();

    let key = [("_k", Value::Int(1))];
    assert_eq!(partition_path(table, &key).unwrap(), table.join("%5Fk=1"));
    assert!(!drop_partition(table, &key).unwrap());
    assert_eq!(fs::read(&foreign).unwrap(), b"rows");
}

/// Earlier versions encoded fewer characters, so that a name that is full may have no room to be written now.
#[test]
fn existing_directories_are_found_although_their_names_would_be_too_long_now() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let value = format!("{}.", "x".repeat(252));
    append(&mut open_named(table, &format!("k={value}")), 0);

    let mut writer = writer_of(table);
    writer.append_dataset(&rows(&[Some(&value)], 1)).unwrap();
    let error = writer.append_dataset(&rows(&[Some(&format!("y{value}"))], 2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    writer.close().unwrap();
    assert_eq!(read(table), BTreeMap::from([(Some(value.clone()), vec![0, 1])]));
    assert!(drop_partition(table, &[("k", Value::Str(&value))]).unwrap());
}

#[test]
fn a_file_in_the_way_of_a_partition_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("k=1"), "").unwrap();
    let error = partition_path(folder.path(), &[("k", Value::Int(1))]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("'k=1' is no directory"), "{error}");
}

/// A schema that a table can't have leaves no directory behind.
#[test]
fn a_partition_that_can_not_be_made_leaves_no_directory() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path();
    let schema =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("a", DataType::Int64, true)]));
    partition_writer(table, &[("k", Value::Int(1))], Some(schema), &unsynced(8)).unwrap_err();
    assert_eq!(names(table).len(), 0);
}
