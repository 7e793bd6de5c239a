//! Conditions select the same rows as DataFusion's own operators over the same rows in memory: of each type, with nulls,
//! NaN, zeros of both signs and values at the ends of blocks and types.

use std::sync::Arc;

use arrowwood::{Value, WriterOptions, partition_writer};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::*;
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::TableProviderFilterPushDown::{Exact, Inexact, Unsupported};
use datafusion::prelude::*;

use crate::support::*;

/// Rows of many types. `ts` never decreases.
fn batch(start: i64, rows: i64) -> RecordBatch {
    let each = || start..start + rows;
    let some = |n: i64, every: i64| n % every != 1;
    let words = [
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
    let word = |n: i64| words[(n * 7 % 9) as usize];
    let float = |n: i64| match n % 11 {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => 0.0,
        3 => -0.0,
        4 => f64::INFINITY,
        5 => f64::NEG_INFINITY,
        _ => (n % 100) as f64 / 4.0 - 10.0,
    };
    let decimals = each().map(|n| some(n, 5).then_some(i128::from(n % 1000) - 500));
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from_iter_values(each().map(|n| n / 3)).with_timezone("Europe/Paris")),
        ),
        ("n", Arc::new(Int32Array::from_iter(each().map(|n| some(n, 4).then_some((n % 97) as i32 - 40))))),
        ("u", Arc::new(UInt64Array::from_iter_values(each().map(|n| if n % 50 == 0 { u64::MAX } else { n as u64 })))),
        ("x", Arc::new(Float64Array::from_iter(each().map(|n| some(n, 13).then(|| float(n)))))),
        ("y", Arc::new(Float32Array::from_iter(each().map(|n| some(n, 17).then(|| float(n + 5) as f32))))),
        ("flag", Arc::new(BooleanArray::from_iter(each().map(|n| some(n, 3).then_some(n % 2 == 0))))),
        ("text", Arc::new(StringArray::from_iter(each().map(|n| some(n, 6).then(|| word(n)))))),
        ("seen", Arc::new(StringViewArray::from_iter(each().map(|n| some(n, 7).then(|| word(n + 1)))))),
        ("key", Arc::new(each().map(|n| some(n, 8).then(|| word(n / 100))).collect::<DictionaryArray<Int32Type>>())),
        ("day", Arc::new(Date32Array::from_iter(each().map(|n| some(n, 9).then_some((n / 50) as i32))))),
        ("price", Arc::new(Decimal128Array::from_iter(decimals).with_precision_and_scale(15, 2).unwrap())),
        ("wall", Arc::new(TimestampMillisecondArray::from_iter(each().map(|n| some(n, 4).then_some(n * 1000))))),
        ("bytes", Arc::new(BinaryArray::from_iter(each().map(|n| some(n, 5).then(|| word(n + 2).as_bytes()))))),
        ("id", Arc::new(Int64Array::from_iter_values(each()))),
    ];
    let nullable = columns.into_iter().map(|(name, array)| (name, array, name != "ts" && name != "id"));
    RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
}

fn batches() -> Vec<RecordBatch> {
    vec![batch(0, 12_000), batch(12_000, 1), batch(12_001, 9_000)]
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
async fn conditions_select_the_rows_that_datafusion_selects() {
    let folder = tempfile::tempdir().unwrap();
    let [file, table, late] = ["rows.arrow", "table", "indexed"].map(|name| folder.path().join(name));
    write_file(&batches(), &file);
    let index: Vec<String> = ["n", "u", "x", "y", "flag", "text", "seen", "key", "day", "price", "wall", "bytes", "id"]
        .map(str::to_owned)
        .to_vec();
    let sorted = WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(5_000), ..WriterOptions::default() };
    write_table(&batches(), &table, sorted);
    let indexed = WriterOptions { index: Some(index), zone_rows: Some(512), ..WriterOptions::default() };
    write_table(&batches(), &late, indexed);
    let memory = in_memory(&batches());
    let others = [over(&file), over(&table), over(&late)];
    let copied = context(2);
    register(&copied, "t", Table::open(&table).unwrap().copied());
    let what = "count(*), sum(id), sum(id * id % 1009), count(n), sum(n), count(x), max(key), min(seen), sum(price)";
    for condition in CONDITIONS {
        let sql = format!("select {what} from t where {condition}");
        let wanted = lines(&memory, &sql).await;
        for context in others.iter().chain([&copied]) {
            assert_eq!(lines(context, &sql).await, wanted, "{sql}\n{}", plan(context, &sql).await);
        }
    }
}

#[tokio::test]
async fn whole_rows_and_parts_are_those_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    write_table(&batches(), &path, WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() });
    let memory = in_memory(&batches());
    for sql in
        ["select * from t", "select * from t where n = 5", "select id from t where flag", "select count(*) from t"]
    {
        assert_eq!(sorted_lines(&over(&path), sql).await, sorted_lines(&memory, sql).await, "{sql}");
    }
    for (sql, rows) in [
        ("select id from t limit 7", 7),
        ("select id from t where n = 5 limit 9", 9),
        ("select id from t where x > 5 limit 9", 9),
    ] {
        assert_eq!(lines(&over(&path), sql).await.len(), rows, "{sql}");
    }
    let paged = "select id from t where n = 5 order by id limit 4 offset 3";
    assert_eq!(lines(&over(&path), paged).await, lines(&memory, paged).await);
}

/// What is said of each condition, on a table sorted by `ts`.
#[test]
fn what_is_said_of_conditions_is_true() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    write_table(&batches(), &path, WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() });
    let table = Table::open(&path).unwrap();
    let flat = |name: &str| col(name);
    let conditions = [
        (flat("n").gt(lit(5i32)), Exact),
        (flat("n").gt(lit(5i64)), Unsupported),
        (flat("n").is_null(), Exact),
        (flat("n").gt(lit(5i32)).and(flat("x").gt(lit(5.0))), Inexact),
        (flat("n").gt(lit(5i32)).or(flat("x").gt(lit(5.0))), Inexact),
        (flat("n").gt(lit(5i32)).or(flat("x").eq(flat("y"))), Unsupported),
        (flat("n").gt(lit(5i32)).and(flat("x").eq(flat("y"))), Inexact),
        (!(flat("n").gt(lit(5i32)).and(flat("x").eq(flat("y")))), Unsupported),
        (flat("x").gt(lit(5.0)), Inexact),
        (flat("x").not_eq(lit(5.0)), Unsupported),
        (flat("x").eq(lit(f64::NAN)), Unsupported),
        (flat("text").like(lit("ab%")), Exact),
        (flat("text").like(lit("a%b_c")), Inexact),
        (flat("text").like(lit("%a_")), Unsupported),
        (flat("text").eq(lit("a")), Exact),
        (flat("text").eq(flat("seen")), Unsupported),
        (flat("flag"), Exact),
        (flat("missing").gt(lit(5i32)), Unsupported),
    ];
    for (condition, wanted) in conditions {
        assert_eq!(table.supports_filters_pushdown(&[&condition]).unwrap(), [wanted], "{condition}");
    }
}

#[tokio::test]
async fn partitions_that_a_condition_excludes_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts");
    let mut all = Vec::new();
    for (number, host) in ["a", "b", "c d", "e"].into_iter().enumerate() {
        let options = WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() };
        let rows = batch(10_000 * number as i64, 10_000);
        let keys = [("host", Value::Str(host)), ("rack", Value::Int(number as i64 / 2))];
        let mut writer = partition_writer(&path, &keys, Some(rows.schema()), &options).unwrap();
        writer.append(&rows).unwrap();
        writer.commit().unwrap();
        let hosts: ArrayRef = Arc::new(StringArray::from(vec![host; 10_000]));
        let racks: ArrayRef = Arc::new(Int64Array::from(vec![number as i64 / 2; 10_000]));
        let columns = rows.schema_ref().fields().iter().map(|field| field.name().clone()).zip(rows.columns().to_vec());
        let columns = columns.chain([("host".into(), hosts), ("rack".into(), racks)]);
        all.push(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap());
    }
    let context = over(&path);
    let memory = in_memory(&all);
    for (condition, left) in [
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
        assert_eq!(sorted_lines(&context, &sql).await, sorted_lines(&memory, &sql).await, "{sql}");
        let plan = plan(&context, &format!("select id from t where {condition}")).await;
        assert!(
            plan.contains(&format!("rows={left} of 40000")) || left == 0 && plan.contains("Empty"),
            "{condition}: {plan}"
        );
        assert_eq!(plan.contains("where="), condition.contains("n ="), "{condition}: {plan}");
        assert!(!plan.contains("FilterExec"), "{condition}: {plan}");
    }
    // A partition that comes later is in the next query.
    let rows = batch(40_000, 5);
    let keys = [("host", Value::Str("f")), ("rack", Value::Int(7))];
    let mut writer = partition_writer(&path, &keys, Some(rows.schema()), &WriterOptions::default()).unwrap();
    writer.append(&rows).unwrap();
    writer.commit().unwrap();
    assert_eq!(number(&context, "select count(*) from t where rack = 7").await, 5);
}

/// A column may have the name that another had when the partitions were opened.
#[tokio::test]
async fn conditions_on_renamed_columns_of_partitions_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    for (number, host) in [7, 8].into_iter().enumerate() {
        let rows = batch(100 * number as i64, 100);
        let keys = [("host", Value::Int(host))];
        let mut writer =
            partition_writer(folder.path(), &keys, Some(rows.schema()), &WriterOptions::default()).unwrap();
        writer.append(&rows).unwrap();
        writer.commit().unwrap();
    }
    let rows = arrowwood::open(folder.path()).unwrap().select(&["id", "host"]).unwrap();
    for names in [["id", "host"], ["host", "id"]] {
        let context = context(2);
        register(&context, "t", Table::new(rows.with_names(&names).unwrap()).unwrap());
        for (shown, count) in [(names[0], 1), (names[1], 100)] {
            assert_eq!(
                number(&context, &format!("select count(*) from t where {shown} = 7")).await,
                count,
                "{names:?}"
            );
            assert_eq!(number(&context, &format!("select count({}) from t where {shown} = 7", names[1])).await, count);
        }
    }
}
