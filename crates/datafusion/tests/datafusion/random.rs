//! Tests random conditions on columns of many types over files, tables, indexed tables and partitions, against the same
//! rows in DataFusion's memory.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrowwood::{Value, WriterOptions, partition_writer};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::*;
use datafusion::prelude::SessionContext;

use crate::support::*;

const WORDS: [&str; 8] = ["", "a", "ab", "abc", "b", "ü", "50%", "a_c"];

/// Columns, and the literals that each is compared with.
const COLUMNS: &[(&str, &[&str])] = &[
    ("ts", &["arrow_cast(100, 'Int64')", "0", "1999", "2000", "-1", "9223372036854775807"]),
    ("tiny", &["arrow_cast(-128, 'Int8')", "arrow_cast(127, 'Int8')", "0", "5", "-129", "1.5"]),
    ("small", &["arrow_cast(255, 'UInt8')", "arrow_cast(0, 'UInt8')", "7", "-1", "256"]),
    ("x", &["0.0", "-0.0", "1.5", "'NaN'::double", "'inf'::double", "'-inf'::double", "-'NaN'::double", "1"]),
    ("y", &["0.0::float", "-0.0::float", "1.5::float", "'NaN'::float", "0.1"]),
    ("flag", &["true", "false", "null"]),
    ("text", &["'a'", "''", "'ab'", "'zz'", "'ü'"]),
    ("large", &["arrow_cast('a', 'LargeUtf8')", "''", "'b'"]),
    ("seen", &["arrow_cast('abc', 'Utf8View')", "'a'", "''"]),
    ("key", &["'a'", "'abc'", "''", "'nowhere'", "arrow_cast('b', 'Dictionary(Int32, Utf8)')"]),
    ("holes", &["'a'", "'b'", "''"]),
    ("codes", &["arrow_cast(3, 'Int64')", "3", "100"]),
    ("day", &["date '1970-01-01'", "date '1970-01-20'", "date '1969-01-01'", "timestamp '1970-01-02 12:00:00'"]),
    ("milli", &["arrow_cast(86400000, 'Date64')", "date '1970-01-05'"]),
    ("price", &["1.25", "arrow_cast(1.25, 'Decimal128(15, 2)')", "-5", "0.005", "1e30"]),
    ("wide", &["arrow_cast(1.25, 'Decimal256(50, 3)')", "2"]),
    ("wall", &["timestamp '1970-01-01 00:00:07'", "timestamp '1970-01-01 00:00:07.0005'", "date '1970-01-02'"]),
    ("zoned", &["arrow_cast(7000, 'Timestamp(Microsecond, Some(\"UTC\"))')", "timestamp '1970-01-01 00:00:00.007'"]),
    ("time", &["arrow_cast(7000, 'Time64(Microsecond)')", "time '00:00:01'"]),
    ("took", &["arrow_cast(7, 'Duration(Millisecond)')", "arrow_cast(7, 'Duration(Second)')"]),
    ("bytes", &["x'61'", "x''", "x'6162'"]),
    ("fixed", &["arrow_cast(x'61626364', 'FixedSizeBinary(4)')"]),
    ("list", &["[1, 2]"]),
    ("id", &["100", "3000", "0"]),
];
/// The columns of texts.
const TEXT_COLUMNS: [&str; 5] = ["text", "large", "seen", "key", "host"];
const PATTERNS: [&str; 14] = ["", "%", "%%", "a", "a%", "%b", "%b%", "a_", "_", "50\\%", "%\\%", "a\\_c", "%a%c", "ü%"];
/// The columns of partitions, and their literals.
const KEYS: &[(&str, &[&str])] =
    &[("host", &["'a'", "'b'", "'ab'", "''"]), ("rack", &["arrow_cast(1, 'Int64')", "0", "7", "null"])];

fn word(n: i64) -> &'static str {
    WORDS[(n * 5 % 8) as usize]
}

/// Returns a float, which is a special value for most `n`.
fn float(n: i64) -> f64 {
    match n % 9 {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => 0.0,
        3 => -0.0,
        4 => f64::INFINITY,
        5 => f64::NEG_INFINITY,
        _ => (n % 20) as f64 / 4.0 - 1.0,
    }
}

/// Returns false for one in `every` rows, which is null.
fn is_valid(n: i64, every: i64) -> bool {
    n % every != 1
}

/// Returns a key of a dictionary whose second value is null in files. Tables do not allow such values, so that the key
/// is null there.
fn nullable_key(n: i64, every: i64, key: i64, is_file: bool) -> Option<i64> {
    (is_valid(n, every) && (is_file || key != 1)).then_some(key)
}

/// Returns rows for a table or, with dictionaries that have null values, for a file.
fn sample_rows(rows: Range<i64>, is_file: bool) -> RecordBatch {
    let decimals: Vec<Option<i128>> =
        rows.clone().map(|n| is_valid(n, 5).then_some(i128::from(n % 1000) - 500)).collect();
    let wide = decimals.iter().map(|n| n.map(|n| i256::from_i128(n * 10)));
    let holes = StringArray::from(vec![Some("a"), (!is_file).then_some("c"), Some("b"), Some("")]);
    let hole_keys = Int8Array::from_iter(rows.clone().map(|n| nullable_key(n, 7, n % 4, is_file).map(|key| key as i8)));
    let codes = Int64Array::from(vec![Some(3), (!is_file).then_some(0), Some(-3), Some(100)]);
    let code_keys =
        UInt8Array::from_iter(rows.clone().map(|n| nullable_key(n, 6, n / 10 % 4, is_file).map(|key| key as u8)));
    let fixed = rows.clone().map(|n| is_valid(n, 4).then_some(if n % 2 == 0 { *b"abcd" } else { *b"abce" }));
    let lists = rows.clone().map(|n| is_valid(n, 5).then(|| (0..n % 3).map(Some)));
    let milli = Date64Array::from_iter(rows.clone().map(|n| is_valid(n, 9).then_some(n / 50 * 86_400_000)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("ts", Arc::new(Int64Array::from_iter_values(rows.clone().map(|n| n / 3)))),
        ("tiny", Arc::new(Int8Array::from_iter(rows.clone().map(|n| is_valid(n, 4).then_some((n % 256 - 128) as i8))))),
        ("small", Arc::new(UInt8Array::from_iter(rows.clone().map(|n| is_valid(n, 5).then_some((n % 256) as u8))))),
        ("x", Arc::new(Float64Array::from_iter(rows.clone().map(|n| is_valid(n, 13).then(|| float(n)))))),
        ("y", Arc::new(Float32Array::from_iter(rows.clone().map(|n| is_valid(n, 11).then(|| float(n + 3) as f32))))),
        ("flag", Arc::new(BooleanArray::from_iter(rows.clone().map(|n| is_valid(n, 3).then_some(n % 2 == 0))))),
        ("text", Arc::new(StringArray::from_iter(rows.clone().map(|n| is_valid(n, 6).then(|| word(n)))))),
        ("large", Arc::new(LargeStringArray::from_iter(rows.clone().map(|n| is_valid(n, 6).then(|| word(n / 7)))))),
        ("seen", Arc::new(StringViewArray::from_iter(rows.clone().map(|n| is_valid(n, 7).then(|| word(n + 1)))))),
        (
            "key",
            Arc::new(
                rows.clone().map(|n| is_valid(n, 8).then(|| word(n / 100))).collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        ("holes", Arc::new(DictionaryArray::new(hole_keys, Arc::new(holes)))),
        ("codes", Arc::new(DictionaryArray::new(code_keys, Arc::new(codes)))),
        ("day", Arc::new(Date32Array::from_iter(rows.clone().map(|n| is_valid(n, 9).then_some((n / 50) as i32))))),
        ("milli", Arc::new(milli)),
        (
            "price",
            Arc::new(Decimal128Array::from_iter(decimals.iter().copied()).with_precision_and_scale(15, 2).unwrap()),
        ),
        ("wide", Arc::new(Decimal256Array::from_iter(wide).with_precision_and_scale(50, 3).unwrap())),
        (
            "wall",
            Arc::new(TimestampMillisecondArray::from_iter(rows.clone().map(|n| is_valid(n, 4).then_some(n * 1000)))),
        ),
        (
            "zoned",
            Arc::new(
                TimestampMicrosecondArray::from_iter(rows.clone().map(|n| is_valid(n, 4).then_some(n)))
                    .with_timezone("UTC"),
            ),
        ),
        ("time", Arc::new(Time64MicrosecondArray::from_iter(rows.clone().map(|n| is_valid(n, 5).then_some(n))))),
        ("took", Arc::new(DurationMillisecondArray::from_iter(rows.clone().map(|n| is_valid(n, 5).then_some(n % 20))))),
        (
            "bytes",
            Arc::new(BinaryArray::from_iter(rows.clone().map(|n| is_valid(n, 5).then(|| word(n + 2).as_bytes())))),
        ),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 4).unwrap())),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
        ("id", Arc::new(Int64Array::from_iter_values(rows.clone()))),
    ];
    let nullable = columns.into_iter().map(|(name, array)| (name, array, name != "ts" && name != "id"));
    RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
}

/// The rows of each batch.
const BATCHES: [Range<i64>; 3] = [0..3_500, 3_500..3_501, 3_501..6_000];

/// Generates random conditions, the same ones in each run.
struct Random(u64);

impl Random {
    /// Returns a random number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    fn comparison(&mut self, columns: &[(&str, &[&str])]) -> String {
        let (name, literals) = *self.choose(columns);
        let literal = *self.choose(literals);
        let other = *self.choose(literals);
        let not = *self.choose(&["", "not "]);
        match self.below(12) {
            0 => format!("{name} is {not}null"),
            1 => format!("{name} {not}between {literal} and {other}"),
            2 => format!("{name} {not}in ({literal}, {other})"),
            3 => format!("{name} {not}in ({literal}, null)"),
            4 => format!("{name} is {not}distinct from {literal}"),
            5 if name == "flag" => format!("{not}flag"),
            5 | 6 if TEXT_COLUMNS.contains(&name) => format!("{name} {not}like '{}'", self.choose(&PATTERNS)),
            7 => format!("{literal} {} {name}", self.choose(&["=", "<>", "<", "<=", ">", ">="])),
            _ => format!("{name} {} {literal}", self.choose(&["=", "<>", "<", "<=", ">", ">="])),
        }
    }

    fn condition(&mut self, columns: &[(&str, &[&str])], depth: usize) -> String {
        match if depth == 0 { 0 } else { self.below(6) } {
            0 | 1 => self.comparison(columns),
            2 => format!("not ({})", self.condition(columns, depth - 1)),
            3 => format!("({} or {})", self.condition(columns, depth - 1), self.condition(columns, depth - 1)),
            _ => format!("({} and {})", self.condition(columns, depth - 1), self.condition(columns, depth - 1)),
        }
    }
}

async fn try_sql_lines(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let batches = run_sql(context, sql).await.map_err(|e| e.to_string())?;
    Ok(format_rows(&batches))
}

/// Compares the answers of all contexts to random conditions.
async fn compare(memory: &SessionContext, contexts: &[SessionContext], columns: &[(&str, &[&str])], seed: u64) {
    let mut random = Random(seed);
    let mut answered = 0;
    for _ in 0..120 {
        let condition = random.condition(columns, 3);
        let limit = random.below(50);
        for sql in [
            format!("select count(*), sum(id), sum(id * id % 1009), min(ts), max(ts) from t where {condition}"),
            format!("select id, ts from t where {condition} order by ts desc, id limit {limit}"),
            format!("select ts, count(*) from t where {condition} group by ts order by ts nulls first limit {limit}"),
        ] {
            // Skip comparisons that DataFusion does not support.
            let Ok(expected) = try_sql_lines(memory, &sql).await else { continue };
            answered += 1;
            for context in contexts {
                let actual = try_sql_lines(context, &sql).await;
                assert_eq!(actual.as_ref(), Ok(&expected), "{sql}\n{}", sql_plan(context, &sql).await);
            }
        }
    }
    assert!(answered > 180, "{answered} of 360 statements have an answer");
}

fn table_context(path: &Path, options: WriterOptions) -> SessionContext {
    write_table(&BATCHES.map(|rows| sample_rows(rows, false)), path, options);
    file_context(path)
}

#[tokio::test]
async fn random_conditions_select_the_same_rows_as_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let [file, by_ts, indexed, by_id] =
        ["rows.arrow", "by_ts", "indexed", "by_id"].map(|name| directory.path().join(name));
    write_file(&BATCHES.map(|rows| sample_rows(rows, true)), &file);
    let by_ts_options =
        WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(1_500), ..WriterOptions::default() };
    let indexable = COLUMNS.iter().map(|(name, _)| *name).filter(|name| !["list", "codes"].contains(name));
    let index = Some(indexable.map(str::to_owned).collect());
    let indexed_options = WriterOptions { index, zone_rows: Some(64), ..WriterOptions::default() };
    let by_id_options =
        WriterOptions { sorted_by: Some("id".into()), segment_rows: Some(2_000), ..indexed_options.clone() };
    let contexts = [
        file_context(&file),
        table_context(&by_ts, by_ts_options),
        table_context(&indexed, indexed_options),
        table_context(&by_id, by_id_options),
    ];
    let memory = memory_context(&BATCHES.map(|rows| sample_rows(rows, true)));
    compare(&memory, &contexts, COLUMNS, 1).await;
}

#[tokio::test]
async fn random_conditions_on_partitions_select_the_same_rows_as_in_memory() {
    const PARTITION_ROWS: i64 = 400;
    let directory = tempfile::tempdir().unwrap();
    let partitions =
        [(Some("a"), Some(1)), (Some("ab"), Some(0)), (None, Some(1)), (Some("50%"), None), (Some("ü"), Some(7))];
    let mut batches = Vec::new();
    for (number, (host, rack)) in (0..).zip(partitions) {
        let start = number * PARTITION_ROWS;
        let rows = sample_rows(start..start + PARTITION_ROWS, false);
        let keys = [("host", host.map_or(Value::Null, Value::Str)), ("rack", rack.map_or(Value::Null, Value::Int))];
        let options = WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() };
        let mut writer = partition_writer(directory.path(), &keys, Some(rows.schema()), &options).unwrap();
        writer.append(&rows).unwrap();
        writer.commit().unwrap();
        batches.push(with_keys(&rows, host, rack));
    }
    let memory = memory_context(&batches);
    let contexts = [file_context(directory.path())];
    compare(&memory, &contexts, KEYS, 2).await;
    compare(&memory, &contexts, &[KEYS, COLUMNS].concat(), 3).await;
}
