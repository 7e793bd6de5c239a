//! Aggregations that go on with a growing table: each answer beside `aggregate` of the snapshot, bit for bit but for floats
//! of very many groups, and beside a loop over all values.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::*;
use arrow_schema::SchemaRef;
use arrowwood::{
    AggregateFunction, Aggregation, CompactOptions, Dataset, ErrorKind, IncrementalAggregation, LatePolicy, Predicate,
    Writer, WriterOptions, col, compact, compact_with, open, parse_schema, write,
};

use crate::dice::Dice;
use crate::tables::unsynced;

const SCHEMA: &str = "key: category, text: utf8, small: int8, n: int64, x: float64, exact: decimal(20, 2), \
                      items: list<int64>, order: int64";
const KEYS: [&[&str]; 6] = [&[], &["key"], &["text"], &["small"], &["key", "small"], &["x"]];

fn schema() -> SchemaRef {
    Arc::new(parse_schema(SCHEMA).unwrap())
}

/// Rows with numbers from `first` on: nulls and NaN, more and more words, and floats whose sums depend on their order.
fn rows(dice: &mut Dice, first: i64, count: usize, words: u64) -> RecordBatch {
    let words: Vec<_> = (0..count).map(|_| (dice.below(8) > 0).then(|| dice.below(words))).collect();
    let numbers: Vec<_> =
        (0..count).map(|_| (dice.below(9) > 0).then(|| dice.below(1 << 40) as i64 - (1 << 39))).collect();
    let float = |n: i64| if n % 50 == 0 { f64::NAN } else { (n as f64).sin() * 10f64.powi((n % 17) as i32) };
    let word = |n: u64| if n.is_multiple_of(3) { format!("w{n}") } else { format!("a word of more letters {n}") };
    let exact = numbers.iter().map(|n| n.map(i128::from)).collect::<Decimal128Array>();
    let items = numbers.iter().map(|n| n.map(|n| (0..n.rem_euclid(3)).map(Some)));
    let columns: [ArrayRef; 8] = [
        Arc::new(
            words
                .iter()
                .map(|w| w.map(word))
                .collect::<Vec<_>>()
                .iter()
                .map(Option::as_deref)
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(words.iter().map(|w| w.map(|w| word(w / 2))).collect::<StringArray>()),
        Arc::new(words.iter().map(|w| w.map(|w| w as i8)).collect::<Int8Array>()),
        Arc::new(Int64Array::from(numbers.clone())),
        Arc::new(numbers.iter().map(|n| n.map(float)).collect::<Float64Array>()),
        Arc::new(exact.with_precision_and_scale(20, 2).unwrap()),
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(items)),
        Arc::new(Int64Array::from_iter_values(first..first + count as i64)),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
}

fn asked<'a>(dataset: &'a Dataset, by: &[&str], predicate: Option<&Predicate>) -> Aggregation<'a> {
    let mut asked = dataset.aggregate(by).count_rows("rows");
    if by == ["x"] {
        // Nearly each row is a group.
        asked = asked.column("n", AggregateFunction::Sum).column_as("least word", "text", AggregateFunction::Min);
        return asked.column_as("last", "key", AggregateFunction::Last);
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
            asked = asked.column_as(&format!("{function} of {column}"), column, function);
        }
    }
    for function in [AggregateFunction::First, AggregateFunction::Last] {
        for column in ["key", "text", "small", "x", "items"] {
            asked = asked.column_as(&format!("{function} of {column}"), column, function);
        }
    }
    asked = asked.column_as("least word", "text", AggregateFunction::Min).column_as(
        "last word",
        "key",
        AggregateFunction::Max,
    );
    match predicate {
        Some(predicate) => asked.filter(predicate.clone()),
        None => asked,
    }
}

/// All cells, floats by their bits.
fn cells(dataset: &Dataset) -> Vec<Vec<String>> {
    let row = |row: arrowwood::Row<'_>| {
        let text = |value: arrowwood::Value<'_>| match value {
            arrowwood::Value::Float64(number) if !number.is_nan() => format!("{:x}", number.to_bits()),
            other => other.to_string(),
        };
        row.iter().map(|(_, value)| text(value.unwrap())).collect()
    };
    dataset.rows().map(|found| row(found.unwrap())).collect()
}

/// Groups that `aggregate` may find in partitions: it adds up floats in other portions then.
const MANY: usize = 2048;

/// Whether cells are the same, or floats that differ by rounding.
fn is_close(a: &str, b: &str) -> bool {
    let float = |text: &str| u64::from_str_radix(text, 16).map(f64::from_bits);
    let differ = |a: f64, b: f64| (a - b).abs() > 1e-9 * a.abs().max(b.abs());
    a == b || matches!((float(a), float(b)), (Ok(a), Ok(b)) if a.is_finite() && b.is_finite() && !differ(a, b))
}

/// Fails with the first row that differs.
fn assert_same(found: &Dataset, expected: &Dataset, of: &str) {
    let (found, expected) = (cells(found), cells(expected));
    let are_close = |a: &[String], b: &[String]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_close(a, b));
    let is_same = |a: &[String], b: &[String]| a == b || found.len() > MANY && are_close(a, b);
    let differs = found.iter().zip(&expected).find(|(a, b)| !is_same(a, b));
    assert_eq!(differs, None, "{of}");
    assert_eq!(found.len(), expected.len(), "{of}");
}

/// Rows, the sum of `n` and its last value for each word, by a loop.
fn naive(dataset: &Dataset) -> BTreeMap<String, (usize, i64, String)> {
    let mut groups: BTreeMap<String, (usize, i64, String)> = BTreeMap::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        let n = row.get(3).unwrap().to_string();
        let group = groups.entry(row.get(0).unwrap().to_string()).or_default();
        *group = (group.0 + 1, group.1 + n.parse::<i64>().unwrap_or(0), n);
    }
    groups
}

fn table(path: &Path, segment_rows: u64) -> Writer {
    Writer::open(path, Some(schema()), &unsynced(segment_rows)).unwrap()
}

#[test]
fn each_answer_is_that_of_all_rows_bit_for_bit() {
    for seed in 0..3 {
        let mut dice = Dice::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticks");
        let mut writer = table(&path, 1 + dice.below(30_000));
        let start = open(&path).unwrap();
        let predicates = [None, Some(col("n").gt(0) | col("x").lt(3.0)), Some(col("order").ge(5_000))];
        let mut all: Vec<_> = KEYS
            .iter()
            .flat_map(|by| predicates.iter().map(move |predicate| (by, predicate)))
            .map(|(by, predicate)| (by, predicate, asked(&start, by, predicate.as_ref()).incremental().unwrap()))
            .collect();
        let mut written = 0;
        // Rows within a block, over its end, over several, and none.
        for count in [0, 3, 2_000, 30_000, 0, 1, 15_000, 40_000, 7] {
            let words = [3, 40, 4_000][seed as usize % 3];
            writer.append(&rows(&mut dice, written, count, words)).unwrap();
            writer.commit().unwrap();
            written += count as i64;
            let snapshot = open(&path).unwrap();
            for (by, predicate, aggregation) in &mut all {
                let expected = asked(&snapshot, by, predicate.as_ref()).finish().unwrap();
                let found = aggregation.refresh().unwrap();
                assert_eq!(found.schema(), expected.schema());
                assert_same(&found, &expected, &format!("seed {seed}, {written} rows by {by:?}, {predicate:?}"));
                assert_eq!(aggregation.dataset().len().unwrap(), written as u64);
            }
        }
        let mut sums = start
            .aggregate(&["key"])
            .count_rows("rows")
            .column_as("sum", "n", AggregateFunction::Sum)
            .column_as("last", "n", AggregateFunction::Last)
            .incremental()
            .unwrap();
        let found = sums.refresh().unwrap();
        let group = |row: arrowwood::Row<'_>| {
            let cells: Vec<_> = (0..4).map(|column| row.get(column).unwrap().to_string()).collect();
            (cells[0].clone(), (cells[1].parse().unwrap(), cells[2].parse().unwrap(), cells[3].clone()))
        };
        let found: BTreeMap<_, _> = found.rows().map(|row| group(row.unwrap())).collect();
        assert_eq!(found, naive(&open(&path).unwrap()));
    }
}

#[test]
fn only_new_rows_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = table(&path, 1 << 20);
    let mut dice = Dice::new(1);
    writer.append(&rows(&mut dice, 0, 100_000, 40)).unwrap();
    writer.commit().unwrap();
    let ticks = open(&path).unwrap();
    let mut few = ticks.aggregate(&["text"]).column("x", AggregateFunction::Mean).incremental().unwrap();
    few.refresh().unwrap();
    assert_eq!(few.rows_read(), 100_000);
    for number in 0..20 {
        writer.append(&rows(&mut dice, 100_000 + 1_000 * number, 1_000, 40)).unwrap();
        writer.commit().unwrap();
        few.refresh().unwrap();
        assert!((1_000..1_000 + (1 << 14)).contains(&few.rows_read()), "{}", few.rows_read());
    }
    few.refresh().unwrap();
    assert!(few.rows_read() < 1 << 14, "nothing is new: {}", few.rows_read());
}

#[test]
fn rows_that_are_dropped_or_put_in_order_make_it_begin_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let sorted = WriterOptions { sorted_by: Some("order".into()), late: Some(LatePolicy::Accept), ..unsynced(10_000) };
    let mut writer = Writer::open(&path, Some(schema()), &sorted).unwrap();
    let mut dice = Dice::new(2);
    let mut append = |writer: &mut Writer, first: i64| {
        writer.append(&rows(&mut dice, first, 9_000, 40)).unwrap();
        writer.commit().unwrap();
    };
    [30_000, 0, 60_000, 15_000].into_iter().for_each(|first| append(&mut writer, first));
    let start = open(&path).unwrap();
    let mut aggregation = asked(&start, &["key"], None).incremental().unwrap();
    let check = |aggregation: &mut IncrementalAggregation, whole: bool| {
        let found = aggregation.refresh().unwrap();
        let snapshot = open(&path).unwrap();
        assert_same(&found, &asked(&snapshot, &["key"], None).finish().unwrap(), "after a change");
        assert_eq!(aggregation.rows_read() == snapshot.len().unwrap(), whole, "{}", aggregation.rows_read());
    };
    check(&mut aggregation, true);
    append(&mut writer, 70_000);
    check(&mut aggregation, false);
    drop(writer);
    compact(&path, |_, _| ()).unwrap();
    let mut writer = table(&path, 10_000);
    append(&mut writer, 80_000);
    check(&mut aggregation, false);
    drop(writer);
    compact_with(&path, CompactOptions { rewrite: false, sort: true }, |_, _| ()).unwrap();
    // Nobody knows which of the rows were seen.
    assert_eq!(aggregation.refresh().unwrap_err().kind(), ErrorKind::FileChanged);
    let start = open(&path).unwrap();
    let mut aggregation = asked(&start, &["key"], None).incremental().unwrap();
    check(&mut aggregation, true);
    let mut writer = table(&path, 10_000);
    append(&mut writer, 10_000);
    check(&mut aggregation, false);
    writer.drop_before(20_000).unwrap();
    append(&mut writer, 90_000);
    check(&mut aggregation, true);
    append(&mut writer, 99_000);
    check(&mut aggregation, false);
    let wider = SCHEMA.replace("small: int8", "small: int32") + ", more: int64";
    writer.alter(&Arc::new(parse_schema(&wider).unwrap())).unwrap();
    check(&mut aggregation, true);
}

#[test]
fn what_does_not_grow_or_has_several_tables_is_right_too() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    let mut dice = Dice::new(3);
    let mut writers = [table(&a, 5_000), table(&b, 5_000)];
    let mut append = |writer: &mut Writer| {
        writer.append(&rows(&mut dice, 0, 12_000, 40)).unwrap();
        writer.commit().unwrap();
    };
    writers.iter_mut().for_each(&mut append);
    let both = Dataset::concat(&[open(&a).unwrap(), open(&b).unwrap()]).unwrap();
    let twice = Dataset::concat(&[open(&a).unwrap(), open(&a).unwrap()]).unwrap();
    let file = folder.path().join("rows.arrow");
    write(&both, &file, &Default::default()).unwrap();
    let file = open(&file).unwrap();
    for dataset in [both, twice, file] {
        let mut aggregation = asked(&dataset, &["text"], None).incremental().unwrap();
        for _ in 0..3 {
            append(&mut writers[0]);
            let found = aggregation.refresh().unwrap();
            let expected = asked(&dataset.refresh().unwrap(), &["text"], None).finish().unwrap();
            assert_same(&found, &expected, "whatever it is");
        }
    }
}

#[test]
fn what_can_not_be_kept_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let writer = table(&path, 5_000);
    let ticks = open(&path).unwrap();
    for function in [AggregateFunction::Median, AggregateFunction::NUnique] {
        let error = ticks.aggregate(&["key"]).column("n", function).incremental().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    let error = ticks.aggregate(&["missing"]).count_rows("rows").incremental().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnNotFound);
    let mut aggregation = ticks.aggregate(&["key"]).count_rows("rows").incremental().unwrap();
    aggregation.refresh().unwrap();
    drop(writer);
    std::fs::remove_dir_all(&path).unwrap();
    let mut writer = table(&path, 5_000);
    writer.append(&rows(&mut Dice::new(4), 0, 10, 3)).unwrap();
    writer.commit().unwrap();
    // Another table has its place.
    assert_eq!(aggregation.refresh().unwrap_err().kind(), ErrorKind::FileChanged);
}
