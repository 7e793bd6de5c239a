//! Tests of incremental aggregations of a growing table: each result is compared with `aggregate` on a snapshot, bit
//! for bit except for floats of very many groups, and with a loop over all values.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::*;
use arrow_schema::SchemaRef;
use arrowwood::mapping::os::CAN_EXCHANGE;
use arrowwood::{
    AggregateFunction, Aggregation, CompactOptions, Dataset, ErrorKind, IncrementalAggregation, LatePolicy, Predicate,
    Value, Writer, WriterOptions, col, compact, compact_with, open, parse_schema, write,
};

use crate::dice::Dice;
use crate::tables::unsynced;

const SCHEMA: &str = "key: category, text: utf8, small: int8, n: int64, x: float64, exact: decimal(20, 2), \
                      items: list<int64>, order: int64";
/// The columns of the groups.
const KEYS: [&[&str]; 6] = [&[], &["key"], &["text"], &["small"], &["key", "small"], &["x"]];

fn schema() -> SchemaRef {
    Arc::new(parse_schema(SCHEMA).unwrap())
}

/// Returns a float, sometimes NaN, of a magnitude that makes sums depend on their order.
fn float(n: i64) -> f64 {
    if n % 50 == 0 { f64::NAN } else { (n as f64).sin() * 10f64.powi((n % 17) as i32) }
}

/// Returns a word that is short for some numbers and long for others.
fn word(n: u64) -> String {
    if n.is_multiple_of(3) { format!("w{n}") } else { format!("a word of more letters {n}") }
}

/// Returns rows with the numbers from `first` on, with nulls, and up to `max_words` different words.
fn rows(dice: &mut Dice, first: i64, count: usize, max_words: u64) -> RecordBatch {
    let word_numbers: Vec<_> = (0..count).map(|_| (dice.below(8) > 0).then(|| dice.below(max_words))).collect();
    let numbers: Vec<_> =
        (0..count).map(|_| (dice.below(9) > 0).then(|| dice.below(1 << 40) as i64 - (1 << 39))).collect();
    let keys: Vec<_> = word_numbers.iter().map(|n| n.map(word)).collect();
    let exact = numbers.iter().map(|n| n.map(i128::from)).collect::<Decimal128Array>();
    let items = numbers.iter().map(|n| n.map(|n| (0..n.rem_euclid(3)).map(Some)));
    let columns: [ArrayRef; 8] = [
        Arc::new(keys.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(word_numbers.iter().map(|n| n.map(|n| word(n / 2))).collect::<StringArray>()),
        Arc::new(word_numbers.iter().map(|n| n.map(|n| n as i8)).collect::<Int8Array>()),
        Arc::new(Int64Array::from(numbers.clone())),
        Arc::new(numbers.iter().map(|n| n.map(float)).collect::<Float64Array>()),
        Arc::new(exact.with_precision_and_scale(20, 2).unwrap()),
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(items)),
        Arc::new(Int64Array::from_iter_values(first..first + count as i64)),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
}

/// Returns an aggregation with every function, or a few for groups of about one row.
fn aggregate<'a>(dataset: &'a Dataset, by: &[&str], predicate: Option<&Predicate>) -> Aggregation<'a> {
    let mut aggregation = dataset.aggregate(by).count_rows("rows");
    if by == ["x"] {
        // Nearly every row is a group.
        aggregation =
            aggregation.column("n", AggregateFunction::Sum).column_as("least word", "text", AggregateFunction::Min);
        return aggregation.column_as("last", "key", AggregateFunction::Last);
    }
    for function in [
        AggregateFunction::Sum,
        AggregateFunction::Mean,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::Count,
        AggregateFunction::Var,
        AggregateFunction::Std,
    ] {
        for column in ["n", "x", "exact"] {
            aggregation = aggregation.column_as(&format!("{function} of {column}"), column, function);
        }
    }
    for function in [AggregateFunction::First, AggregateFunction::Last] {
        for column in ["key", "text", "small", "x", "items"] {
            aggregation = aggregation.column_as(&format!("{function} of {column}"), column, function);
        }
    }
    aggregation = aggregation.column_as("least word", "text", AggregateFunction::Min);
    aggregation = aggregation.column_as("last word", "key", AggregateFunction::Max);
    match predicate {
        Some(predicate) => aggregation.filter(predicate.clone()),
        None => aggregation,
    }
}

/// Returns the texts of all cells; floats are shown by their bits.
fn read_cells(dataset: &Dataset) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        rows.push(row.iter().map(|(_, value)| cell_text(value.unwrap())).collect());
    }
    rows
}

fn cell_text(value: Value<'_>) -> String {
    match value {
        Value::Float64(number) if !number.is_nan() => format!("{:x}", number.to_bits()),
        other => other.to_string(),
    }
}

/// The number of groups from which on `aggregate` may use partitions, and add floats in another order.
const MANY_GROUPS: usize = 2048;

/// Returns true if the cells are the same, or floats that differ by rounding.
fn is_close(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let [Some(a), Some(b)] = [a, b].map(parse_finite) else { return false };
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn parse_finite(bits: &str) -> Option<f64> {
    let float = f64::from_bits(u64::from_str_radix(bits, 16).ok()?);
    float.is_finite().then_some(float)
}

fn are_rows_close(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_close(a, b))
}

/// Panics with the first row that differs.
fn assert_same(actual: &Dataset, expected: &Dataset, case: &str) {
    let actual = read_cells(actual);
    let expected = read_cells(expected);
    let allows_rounding = actual.len() > MANY_GROUPS;
    for (actual, expected) in actual.iter().zip(&expected) {
        if !(allows_rounding && are_rows_close(actual, expected)) {
            assert_eq!(actual, expected, "{case}");
        }
    }
    assert_eq!(actual.len(), expected.len(), "{case}");
}

/// The aggregates of one group that [`aggregate_naively`] computes.
#[derive(Debug, Default, PartialEq)]
struct Group {
    rows: usize,
    sum: i64,
    last: String,
}

/// Aggregates the column `n` for each word in a loop.
fn aggregate_naively(dataset: &Dataset) -> BTreeMap<String, Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        let n = row.get(3).unwrap();
        let group = groups.entry(row.get(0).unwrap().to_string()).or_default();
        group.rows += 1;
        if let Value::Int(n) = n {
            group.sum += n;
        }
        group.last = n.to_string();
    }
    groups
}

/// Returns the groups of an aggregation with the columns of [`Group`].
fn read_groups(dataset: &Dataset) -> BTreeMap<String, Group> {
    let mut groups = BTreeMap::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        let [key, rows, sum, last] = [0, 1, 2, 3].map(|column| row.get(column).unwrap().to_string());
        groups.insert(key, Group { rows: rows.parse().unwrap(), sum: sum.parse().unwrap(), last });
    }
    groups
}

fn open_table(path: &Path, segment_rows: u64) -> Writer {
    Writer::open(path, Some(schema()), &unsynced(segment_rows)).unwrap()
}

/// An incremental aggregation, and how it was made.
struct Case<'a> {
    by: &'a [&'a str],
    predicate: Option<&'a Predicate>,
    aggregation: IncrementalAggregation,
}

#[test]
fn every_result_equals_the_aggregation_of_all_rows_bit_for_bit() {
    for (seed, max_words) in [(0, 3), (1, 40), (2, 4_000)] {
        let mut dice = Dice::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticks");
        let mut writer = open_table(&path, 1 + dice.below(30_000));
        let empty = open(&path).unwrap();
        let predicates = [None, Some(col("n").gt(0) | col("x").lt(3.0)), Some(col("order").ge(5_000))];
        let mut cases = Vec::new();
        for by in KEYS {
            for predicate in &predicates {
                let predicate = predicate.as_ref();
                let aggregation = aggregate(&empty, by, predicate).incremental().unwrap();
                cases.push(Case { by, predicate, aggregation });
            }
        }
        let mut written = 0;
        // The rows are in one block, cross the end of one, fill several, or there are none.
        for count in [0, 3, 2_000, 30_000, 0, 1, 15_000, 40_000, 7] {
            writer.append(&rows(&mut dice, written, count, max_words)).unwrap();
            writer.commit().unwrap();
            written += count as i64;
            let snapshot = open(&path).unwrap();
            for Case { by, predicate, aggregation } in &mut cases {
                let expected = aggregate(&snapshot, by, *predicate).finish().unwrap();
                let actual = aggregation.refresh().unwrap();
                assert_eq!(actual.schema(), expected.schema());
                assert_same(&actual, &expected, &format!("seed {seed}, {written} rows by {by:?}, {predicate:?}"));
                assert_eq!(aggregation.dataset().len().unwrap(), written as u64);
            }
        }
        let mut sums = empty
            .aggregate(&["key"])
            .count_rows("rows")
            .column_as("sum", "n", AggregateFunction::Sum)
            .column_as("last", "n", AggregateFunction::Last)
            .incremental()
            .unwrap();
        assert_eq!(read_groups(&sums.refresh().unwrap()), aggregate_naively(&open(&path).unwrap()));
    }
}

/// The rows of a block, of which the last is aggregated again when it has grown.
const BLOCK_ROWS: u64 = 1 << 14;

#[test]
fn only_new_rows_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = open_table(&path, 1 << 20);
    let mut dice = Dice::new(1);
    writer.append(&rows(&mut dice, 0, 100_000, 40)).unwrap();
    writer.commit().unwrap();
    let dataset = open(&path).unwrap();
    let mut means = dataset.aggregate(&["text"]).column("x", AggregateFunction::Mean).incremental().unwrap();
    means.refresh().unwrap();
    assert_eq!(means.rows_read(), 100_000);
    for number in 0..20 {
        writer.append(&rows(&mut dice, 100_000 + 1_000 * number, 1_000, 40)).unwrap();
        writer.commit().unwrap();
        means.refresh().unwrap();
        assert!((1_000..1_000 + BLOCK_ROWS).contains(&means.rows_read()), "{}", means.rows_read());
    }
    means.refresh().unwrap();
    assert!(means.rows_read() < BLOCK_ROWS, "nothing is new: {}", means.rows_read());
}

/// Appends 9,000 rows.
fn append_rows(writer: &mut Writer, dice: &mut Dice, first: i64) {
    writer.append(&rows(dice, first, 9_000, 40)).unwrap();
    writer.commit().unwrap();
}

/// Checks the result, and whether all rows were read for it.
fn check_refresh(aggregation: &mut IncrementalAggregation, path: &Path, reads_all: bool) {
    let actual = aggregation.refresh().unwrap();
    let snapshot = open(path).unwrap();
    assert_same(&actual, &aggregate(&snapshot, &["key"], None).finish().unwrap(), "after a change");
    assert_eq!(aggregation.rows_read() == snapshot.len().unwrap(), reads_all, "{}", aggregation.rows_read());
}

#[test]
fn dropping_or_sorting_rows_restarts_the_aggregation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let sorted = WriterOptions { sorted_by: Some("order".into()), late: Some(LatePolicy::Accept), ..unsynced(10_000) };
    let mut writer = Writer::open(&path, Some(schema()), &sorted).unwrap();
    let mut dice = Dice::new(2);
    for first in [30_000, 0, 60_000, 15_000] {
        append_rows(&mut writer, &mut dice, first);
    }
    let mut aggregation = aggregate(&open(&path).unwrap(), &["key"], None).incremental().unwrap();
    check_refresh(&mut aggregation, &path, true);
    append_rows(&mut writer, &mut dice, 70_000);
    check_refresh(&mut aggregation, &path, false);

    // Merging segments changes no rows.
    drop(writer);
    compact(&path, |_, _| ()).unwrap();
    let mut writer = open_table(&path, 10_000);
    append_rows(&mut writer, &mut dice, 80_000);
    check_refresh(&mut aggregation, &path, false);

    // After sorting it is unknown which rows were aggregated.
    drop(writer);
    let sorted = compact_with(&path, CompactOptions { rewrite: false, sort: true }, |_, _| ());
    if CAN_EXCHANGE {
        assert!(sorted.unwrap() > 0);
        assert_eq!(aggregation.refresh().unwrap_err().kind(), ErrorKind::FileChanged);
    } else {
        assert_eq!(sorted.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let mut aggregation = aggregate(&open(&path).unwrap(), &["key"], None).incremental().unwrap();
    check_refresh(&mut aggregation, &path, true);
    let mut writer = open_table(&path, 10_000);
    append_rows(&mut writer, &mut dice, 10_000);
    check_refresh(&mut aggregation, &path, false);

    writer.drop_before(20_000).unwrap();
    append_rows(&mut writer, &mut dice, 90_000);
    check_refresh(&mut aggregation, &path, true);
    append_rows(&mut writer, &mut dice, 99_000);
    check_refresh(&mut aggregation, &path, false);

    let wider_schema = SCHEMA.replace("small: int8", "small: int32") + ", more: int64";
    writer.alter(&Arc::new(parse_schema(&wider_schema).unwrap())).unwrap();
    check_refresh(&mut aggregation, &path, true);
}

#[test]
fn datasets_of_several_tables_or_of_files_are_aggregated() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    let mut dice = Dice::new(3);
    let mut writers = [open_table(&a, 5_000), open_table(&b, 5_000)];
    for writer in &mut writers {
        writer.append(&rows(&mut dice, 0, 12_000, 40)).unwrap();
        writer.commit().unwrap();
    }
    let two_tables = Dataset::concat(&[open(&a).unwrap(), open(&b).unwrap()]).unwrap();
    let one_table_twice = Dataset::concat(&[open(&a).unwrap(), open(&a).unwrap()]).unwrap();
    let path = folder.path().join("rows.arrow");
    write(&two_tables, &path, &Default::default()).unwrap();
    let file = open(&path).unwrap();
    for (name, dataset) in [("two tables", two_tables), ("one table twice", one_table_twice), ("a file", file)] {
        let mut aggregation = aggregate(&dataset, &["text"], None).incremental().unwrap();
        for _ in 0..3 {
            writers[0].append(&rows(&mut dice, 0, 12_000, 40)).unwrap();
            writers[0].commit().unwrap();
            let actual = aggregation.refresh().unwrap();
            let expected = aggregate(&dataset.refresh().unwrap(), &["text"], None).finish().unwrap();
            assert_same(&actual, &expected, name);
        }
    }
}

#[test]
fn unsupported_aggregations_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let writer = open_table(&path, 5_000);
    let dataset = open(&path).unwrap();
    for function in [AggregateFunction::Median, AggregateFunction::NUnique] {
        let error = dataset.aggregate(&["key"]).column("n", function).incremental().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    let error = dataset.aggregate(&["missing"]).count_rows("rows").incremental().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnNotFound);
    let mut aggregation = dataset.aggregate(&["key"]).count_rows("rows").incremental().unwrap();
    aggregation.refresh().unwrap();
    drop(writer);
    std::fs::remove_dir_all(&path).unwrap();
    let mut writer = open_table(&path, 5_000);
    writer.append(&rows(&mut Dice::new(4), 0, 10, 3)).unwrap();
    writer.commit().unwrap();
    // Another table has the same path.
    assert_eq!(aggregation.refresh().unwrap_err().kind(), ErrorKind::FileChanged);
}
