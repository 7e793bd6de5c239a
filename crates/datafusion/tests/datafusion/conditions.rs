//! Tests that conditions select the same rows as DataFusion's operators do in memory, for each type, with nulls, NaN,
//! zeros of both signs, and values at the limits of blocks and types.

use std::path::Path;
use std::sync::Arc;

use arrowwood::{Value, WriterOptions, partition_writer};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::*;
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::TableProviderFilterPushDown::{Exact, Inexact, Unsupported};
use datafusion::prelude::*;

use crate::support::*;

const WORDS: [&str; 9] = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "ü",
    "the same long beginning of a text, one",
    "the same long beginning of a text, two",
    "50%",
];

fn word(n: i64) -> &'static str {
    WORDS[(n * 7 % 9) as usize]
}

/// Returns a float, which is a special value for every second `n`.
fn float(n: i64) -> f64 {
    match n % 11 {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => 0.0,
        3 => -0.0,
        4 => f64::INFINITY,
        5 => f64::NEG_INFINITY,
        _ => (n % 100) as f64 / 4.0 - 10.0,
    }
}

/// Returns false for one in `every` rows, which is null.
fn is_valid(n: i64, every: i64) -> bool {
    n % every != 1
}

/// Returns rows of many types, sorted by `ts` and numbered by `id`.
fn sample_rows(start: i64, rows: i64) -> RecordBatch {
    let numbers = start..start + rows;
    let decimals = numbers.clone().map(|n| is_valid(n, 5).then_some(i128::from(n % 1000) - 500));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "ts",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values(numbers.clone().map(|n| n / 3))
                    .with_timezone("Europe/Paris"),
            ),
        ),
        ("n", Arc::new(Int32Array::from_iter(numbers.clone().map(|n| is_valid(n, 4).then_some((n % 97) as i32 - 40))))),
        (
            "u",
            Arc::new(UInt64Array::from_iter_values(
                numbers.clone().map(|n| if n % 50 == 0 { u64::MAX } else { n as u64 }),
            )),
        ),
        ("x", Arc::new(Float64Array::from_iter(numbers.clone().map(|n| is_valid(n, 13).then(|| float(n)))))),
        ("y", Arc::new(Float32Array::from_iter(numbers.clone().map(|n| is_valid(n, 17).then(|| float(n + 5) as f32))))),
        ("flag", Arc::new(BooleanArray::from_iter(numbers.clone().map(|n| is_valid(n, 3).then_some(n % 2 == 0))))),
        ("text", Arc::new(StringArray::from_iter(numbers.clone().map(|n| is_valid(n, 6).then(|| word(n)))))),
        ("seen", Arc::new(StringViewArray::from_iter(numbers.clone().map(|n| is_valid(n, 7).then(|| word(n + 1)))))),
        (
            "key",
            Arc::new(
                numbers.clone().map(|n| is_valid(n, 8).then(|| word(n / 100))).collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        ("day", Arc::new(Date32Array::from_iter(numbers.clone().map(|n| is_valid(n, 9).then_some((n / 50) as i32))))),
        ("price", Arc::new(Decimal128Array::from_iter(decimals).with_precision_and_scale(15, 2).unwrap())),
        (
            "wall",
            Arc::new(TimestampMillisecondArray::from_iter(numbers.clone().map(|n| is_valid(n, 4).then_some(n * 1000)))),
        ),
        (
            "bytes",
            Arc::new(BinaryArray::from_iter(numbers.clone().map(|n| is_valid(n, 5).then(|| word(n + 2).as_bytes())))),
        ),
        ("id", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
    ];
    let nullable = columns.into_iter().map(|(name, array)| (name, array, name != "ts" && name != "id"));
    RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
}

fn sample_batches() -> Vec<RecordBatch> {
    vec![sample_rows(0, 12_000), sample_rows(12_000, 1), sample_rows(12_001, 9_000)]
}

const CONDITIONS: &[&str] = &[
    "n = 7",
    "n <> 7",
    "n > 50",
    "n >= 50",
    "n < -39",
    "n <= -40",
    "7 < n",
    "n between 3 and 5",
    "n not between -30 and 50",
    "n in (1, 2, 900)",
    "n not in (1, 2)",
    "n in (1, null)",
    "n not in (1, null)",
    "n is null",
    "n is not null",
    "not (n > 5)",
    "n > 5 or n is null",
    "not (n > 5 and flag)",
    "n + 1 = 8",
    "n > 5.5",
    "n = 5.0",
    "n > 3000000000",
    "n is distinct from 7",
    "u = 18446744073709551615",
    "u > 20000",
    "u < 5",
    "u >= 18446744073709551615",
    "x > 5",
    "x >= 5",
    "x < -5",
    "x <= 0",
    "x < 0.0",
    "x > -0.0",
    "x = 0.0",
    "x = -0.0",
    "x <> 0.0",
    "x = 'NaN'::double",
    "x > 'NaN'::double",
    "x >= 'inf'::double",
    "x <= '-inf'::double",
    "x between -1 and 1",
    "x in (0.0, 1.5)",
    "x not in (0.0, 1.5)",
    "not (x > 5)",
    "not (x < 5)",
    "isnan(x)",
    "x is null",
    "y > 5",
    "y = 0.1",
    "y < 1.5",
    "y <= 'nan'::float",
    "flag",
    "not flag",
    "flag = true",
    "flag <> true",
    "flag is true",
    "flag is not true",
    "flag is null",
    "flag and n > 0",
    "flag or n > 0",
    "text = 'ab'",
    "text <> 'ab'",
    "text < 'ab'",
    "text >= 'the same long beginning of a text, two'",
    "text like 'a%'",
    "text like '%b'",
    "text like '%long%'",
    "text like 'a_'",
    "text like 'the same%two'",
    "text not like 'a%'",
    "text ilike 'A%'",
    "text like '50\\%'",
    "text like 'ab'",
    "text in ('a', 'b')",
    "text = ''",
    "text is null",
    "text like 'a%' or n = 3",
    "starts_with(text, 'ab')",
    "length(text) = 2",
    "seen = 'abc'",
    "seen like 'the%'",
    "seen > 'b'",
    "seen is null",
    "seen in ('a', 'ü')",
    "key = 'abc'",
    "key <> 'abc'",
    "key in ('a', 'b')",
    "key like 'a%'",
    "key is null",
    "key is not null",
    "key > 'ab'",
    "key = text",
    "day = date '1970-03-01'",
    "day > date '1973-01-01'",
    "day between date '1970-01-05' and date '1970-01-06'",
    "day is null",
    "price = 1.25",
    "price > 4.9",
    "price < -4.999",
    "price between -0.01 and 0.01",
    "price in (0.0, 1.1)",
    "price > 1",
    "price = 1.255",
    "wall > timestamp '1970-01-01 19:00:00'",
    "wall = timestamp '1970-01-01 00:00:07'",
    "wall <= timestamp '1970-01-01 00:00:00.5'",
    "wall is null",
    "bytes = x'6162'",
    "bytes > x'61'",
    "bytes is null",
    "ts < arrow_cast(100, 'Timestamp(Microsecond, Some(\"Europe/Paris\"))')",
    "ts = arrow_cast(100, 'Timestamp(Microsecond, Some(\"Europe/Paris\"))')",
    "ts >= arrow_cast(6900, 'Timestamp(Microsecond, Some(\"Europe/Paris\"))') and n > 10",
    "ts between arrow_cast(5, 'Timestamp(Microsecond, Some(\"Europe/Paris\"))') and arrow_cast(6, 'Timestamp(Microsecond, Some(\"UTC\"))')",
    "ts > arrow_cast(6900, 'Timestamp(Microsecond, Some(\"Europe/Paris\"))') or n = 3",
    "ts <> arrow_cast(7, 'Timestamp(Microsecond, Some(\"Europe/Paris\"))')",
    "id < 10",
    "id >= 21000",
    "id = 12000",
    "id > 100000",
    "id in (1, 20999)",
    "true",
    "false",
    "n = n",
    "null",
    "n > null",
    "id % 1000 = 7 and id < 9000 and text like 'a%' and x > 1",
];

#[tokio::test]
async fn conditions_select_the_same_rows_as_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let [file, sorted, indexed] = ["rows.arrow", "sorted", "indexed"].map(|name| directory.path().join(name));
    write_file(&sample_batches(), &file);
    let options = WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(5_000), ..WriterOptions::default() };
    write_table(&sample_batches(), &sorted, options);
    let index = ["n", "u", "x", "y", "flag", "text", "seen", "key", "day", "price", "wall", "bytes", "id"];
    let options = WriterOptions {
        index: Some(index.map(str::to_owned).to_vec()),
        zone_rows: Some(512),
        ..WriterOptions::default()
    };
    write_table(&sample_batches(), &indexed, options);
    let memory = memory_context(&sample_batches());
    let copied = new_context(2);
    register(&copied, "t", Table::open(&sorted).unwrap().copied());
    let contexts = [file_context(&file), file_context(&sorted), file_context(&indexed), copied];
    let aggregates =
        "count(*), sum(id), sum(id * id % 1009), count(n), sum(n), count(x), max(key), min(seen), sum(price)";
    for condition in CONDITIONS {
        let sql = format!("select {aggregates} from t where {condition}");
        let expected = sql_lines(&memory, &sql).await;
        for context in &contexts {
            assert_eq!(sql_lines(context, &sql).await, expected, "{sql}\n{}", sql_plan(context, &sql).await);
        }
    }
}

#[tokio::test]
async fn projections_and_limits_return_the_same_rows_as_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    write_table(&sample_batches(), &path, WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() });
    let memory = memory_context(&sample_batches());
    for sql in
        ["select * from t", "select * from t where n = 5", "select id from t where flag", "select count(*) from t"]
    {
        assert_eq!(sorted_sql_lines(&file_context(&path), sql).await, sorted_sql_lines(&memory, sql).await, "{sql}");
    }
    for (sql, rows) in [
        ("select id from t limit 7", 7),
        ("select id from t where n = 5 limit 9", 9),
        ("select id from t where x > 5 limit 9", 9),
    ] {
        assert_eq!(sql_lines(&file_context(&path), sql).await.len(), rows, "{sql}");
    }
    let page = "select id from t where n = 5 order by id limit 4 offset 3";
    assert_eq!(sql_lines(&file_context(&path), page).await, sql_lines(&memory, page).await);
}

#[test]
fn pushdown_of_each_condition_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    write_table(&sample_batches(), &path, WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() });
    let table = Table::open(&path).unwrap();
    let conditions = [
        (col("n").gt(lit(5i32)), Exact),
        (col("n").gt(lit(5i64)), Unsupported),
        (col("n").is_null(), Exact),
        (col("n").gt(lit(5i32)).and(col("x").gt(lit(5.0))), Inexact),
        (col("n").gt(lit(5i32)).or(col("x").gt(lit(5.0))), Inexact),
        (col("n").gt(lit(5i32)).or(col("x").eq(col("y"))), Unsupported),
        (col("n").gt(lit(5i32)).and(col("x").eq(col("y"))), Inexact),
        (!(col("n").gt(lit(5i32)).and(col("x").eq(col("y")))), Unsupported),
        (col("x").gt(lit(5.0)), Inexact),
        (col("x").not_eq(lit(5.0)), Unsupported),
        (col("x").eq(lit(f64::NAN)), Unsupported),
        (col("text").like(lit("ab%")), Exact),
        (col("text").like(lit("a%b_c")), Inexact),
        (col("text").like(lit("%a_")), Unsupported),
        (col("text").eq(lit("a")), Exact),
        (col("text").eq(col("seen")), Unsupported),
        (col("flag"), Exact),
        (col("missing").gt(lit(5i32)), Unsupported),
    ];
    for (condition, expected) in conditions {
        assert_eq!(table.supports_filters_pushdown(&[&condition]).unwrap(), [expected], "{condition}");
    }
}

/// Writes rows as a partition.
fn write_partition(path: &Path, keys: &[(&str, Value)], rows: &RecordBatch, options: &WriterOptions) {
    let mut writer = partition_writer(path, keys, Some(rows.schema()), options).unwrap();
    writer.append(rows).unwrap();
    writer.commit().unwrap();
}

#[tokio::test]
async fn conditions_skip_partitions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hosts");
    let options = WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() };
    let mut batches = Vec::new();
    for (number, host) in (0..).zip(["a", "b", "c d", "e"]) {
        let rows = sample_rows(10_000 * number, 10_000);
        let rack = number / 2;
        write_partition(&path, &[("host", Value::Str(host)), ("rack", Value::Int(rack))], &rows, &options);
        batches.push(with_keys(&rows, Some(host), Some(rack)));
    }
    let context = file_context(&path);
    let memory = memory_context(&batches);
    for (condition, scanned_rows) in [
        ("host = 'a'", 10_000),
        ("host > 'b'", 20_000),
        ("host in ('a', 'e') and rack = 1", 10_000),
        ("rack = 0 or host = 'c d'", 30_000),
        ("host like 'c%'", 10_000),
        ("host like '%d'", 10_000),
        ("host like '%c%' and rack = 1", 10_000),
        ("host not like 'a%'", 30_000),
        ("host not like '%d' or rack = 0", 30_000),
        ("host <> 'a'", 30_000),
        ("rack > 7", 0),
        ("host = 'b' and n = 7", 10_000),
    ] {
        let sql = format!("select host, count(*), sum(id) from t where {condition} group by host");
        assert_eq!(sorted_sql_lines(&context, &sql).await, sorted_sql_lines(&memory, &sql).await, "{sql}");
        let plan = sql_plan(&context, &format!("select id from t where {condition}")).await;
        assert!(
            plan.contains(&format!("rows={scanned_rows} of 40000")) || scanned_rows == 0 && plan.contains("Empty"),
            "{condition}: {plan}"
        );
        assert_eq!(plan.contains("where="), condition.contains("n ="), "{condition}: {plan}");
        assert!(!plan.contains("FilterExec"), "{condition}: {plan}");
    }
    // The next query reads a partition that was added.
    let keys = [("host", Value::Str("f")), ("rack", Value::Int(7))];
    write_partition(&path, &keys, &sample_rows(40_000, 5), &WriterOptions::default());
    assert_eq!(sql_number(&context, "select count(*) from t where rack = 7").await, 5);
}

/// A column may have the name that a column of the partitions had before it was renamed.
#[tokio::test]
async fn conditions_on_renamed_columns_of_partitions_are_applied() {
    let directory = tempfile::tempdir().unwrap();
    for (start, host) in [(0, 7), (100, 8)] {
        let keys = [("host", Value::Int(host))];
        write_partition(directory.path(), &keys, &sample_rows(start, 100), &WriterOptions::default());
    }
    let rows = arrowwood::open(directory.path()).unwrap().select(&["id", "host"]).unwrap();
    for names in [["id", "host"], ["host", "id"]] {
        let context = new_context(2);
        register(&context, "t", Table::new(rows.with_names(&names).unwrap()).unwrap());
        for (name, expected) in [(names[0], 1), (names[1], 100)] {
            for counted in ["*", names[1]] {
                let sql = format!("select count({counted}) from t where {name} = 7");
                assert_eq!(sql_number(&context, &sql).await, expected, "{names:?}: {sql}");
            }
        }
    }
}
