//! Tests that a table's schema can change: new columns, wider numbers, columns that become nullable. Rows are compared
//! with lists of values that are computed independently of segments.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow_schema::{DataType, Schema, SchemaRef};
use arrowwood::simulate::FileSystem;
use arrowwood::{
    CompactOptions, Dataset, ErrorKind, FollowFrom, Row, SyncPolicy, Value, Writer, WriterOptions, alter, col, compact,
    compact_with, follow, follow_partitions, open, parse_schema, table_stat,
};

use crate::crash_snapshots::CrashSnapshots;
use crate::wait::PATIENCE;

const REWRITE: CompactOptions = CompactOptions { rewrite: true, sort: false };

fn schema(text: &str) -> SchemaRef {
    Arc::new(parse_schema(text).unwrap())
}

/// Returns the path of a new table, and the directory that is removed with it.
fn new_table() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    (folder, table)
}

fn small_segments() -> WriterOptions {
    WriterOptions { segment_rows: Some(8), ..WriterOptions::default() }
}

/// Opens a table with a schema, appends rows and closes it.
fn write_table<'a>(table: &Path, text: &str, options: &WriterOptions, rows: impl IntoIterator<Item = Vec<Value<'a>>>) {
    let mut writer = Writer::open(table, Some(schema(text)), options).unwrap();
    for row in rows {
        writer.append_row(&row).unwrap();
    }
    writer.close().unwrap();
}

fn row_text(row: &Row<'_>) -> String {
    row.iter().map(|(name, value)| format!("{name}={}", value.unwrap())).collect::<Vec<_>>().join(", ")
}

fn row_texts(dataset: &Dataset) -> Vec<String> {
    dataset.rows().map(|row| row_text(&row.unwrap())).collect()
}

/// Returns all rows as text, and checks that every way to read them gives the same.
fn read_rows(dataset: &Dataset) -> Vec<String> {
    let rows = row_texts(dataset);
    let len = dataset.len().unwrap();
    assert_eq!(rows.len() as u64, len);
    dataset.validate(|_, _| ()).unwrap();
    let reversed: Vec<i64> = (0..len as i64).rev().collect();
    let taken = row_texts(&dataset.take(&reversed).unwrap());
    assert!(taken.iter().eq(rows.iter().rev()), "{taken:?}");
    assert_eq!(row_texts(&dataset.collect().unwrap()), rows);
    if len > 0 {
        let batches: Vec<_> = dataset.to_record_batches().map(|batch| batch.unwrap()).collect();
        assert_eq!(row_texts(&Dataset::try_from(batches).unwrap()), rows);
    }
    rows
}

fn assert_good(table: &Path) {
    let report = arrowwood::check(table, |_, _| ()).unwrap();
    assert!(report.is_good() && report.findings.is_empty(), "{report:?}");
}

/// The values of a row in the columns a, b and c, as the widest type that represents them all.
#[derive(Clone, Copy)]
struct Numbers {
    a: Option<f64>,
    b: Option<f64>,
    c: Option<f64>,
}

impl Numbers {
    fn of_row(n: i64) -> Numbers {
        Numbers {
            a: (n % 3 != 1).then_some((n % 256 - 128) as f64),
            b: (n % 4 != 1).then_some((n * 977 % 65_536) as f64),
            c: (n % 5 != 1).then_some(f64::from(n as f32 / 7.0)),
        }
    }
}

fn int_value(number: Option<f64>) -> Value<'static> {
    number.map_or(Value::Null, |number| Value::Int(number as i64))
}

fn int_text(number: Option<f64>) -> String {
    number.map_or("null".into(), |number| format!("{number:.0}"))
}

/// The columns that the change of the schema adds; all of their values are null.
const NEW_COLUMNS: &str = "d: category, e: text, f: list<int32>, g: utf8_view, h: bool, i: fixed_size_list<float32>[3], \
                           j: struct<x: int8>, l: timestamp[us, UTC], m: decimal(9, 2), n: bytes";

/// Appends rows with the wider schema.
fn write_wider_rows(table: &Path, rows: std::ops::Range<i64>) {
    let schema = schema(&format!("a: int64, b: int32, c: float64, k: int64, {NEW_COLUMNS}"));
    let numbers: Vec<Numbers> = rows.clone().map(Numbers::of_row).collect();
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(numbers.iter().map(|row| row.a.map(|a| a as i64)))),
        Arc::new(Int32Array::from_iter(numbers.iter().map(|row| row.b.map(|b| b as i32)))),
        Arc::new(Float64Array::from_iter(numbers.iter().map(|row| row.c))),
        Arc::new(Int64Array::from_iter_values(rows)),
    ];
    for field in &schema.fields()[4..] {
        columns.push(new_null_array(field.data_type(), numbers.len()));
    }
    let mut writer = Writer::open(table, Some(schema.clone()), &small_segments()).unwrap();
    writer.append(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.close().unwrap();
}

/// Checks the rows of the table, and the results of aggregations and filters.
fn check_wider_rows(table: &Path, rows: i64) {
    let dataset = open(table).unwrap();
    let actual = read_rows(&dataset);
    assert_eq!(actual.len() as i64, rows);
    for (n, row) in actual.iter().enumerate() {
        let Numbers { a, b, c } = Numbers::of_row(n as i64);
        let c = c.map_or("null".into(), |c| Value::Float64(c).to_string());
        let nulls = "d=null, e=null, f=null, g=null, h=null, i=null, j=null, l=null, m=null, n=null";
        assert_eq!(*row, format!("a={}, b={}, c={c}, k={n}, {nulls}", int_text(a), int_text(b)));
    }
    let sum: f64 = (0..rows).filter_map(|n| Numbers::of_row(n).a).sum();
    assert_eq!(dataset.column("a").unwrap().sum().unwrap().to_string(), format!("{sum:.0}"));
    assert_eq!(dataset.filter(&col("d").eq("x")).unwrap().len().unwrap(), 0);
    let above = (0..rows).filter(|&n| Numbers::of_row(n).b.is_some_and(|b| b > 40_000.0)).count();
    assert_eq!(dataset.filter(&col("b").gt(40_000)).unwrap().len().unwrap() as usize, above);
    assert_eq!(dataset.column("e").unwrap().null_count().unwrap() as i64, rows);
    assert_good(table);
}

#[test]
fn old_rows_are_null_in_new_columns_and_widened_in_wider_ones() {
    let (_folder, table) = new_table();
    let old_rows = (0..30).map(|n| {
        let Numbers { a, b, c } = Numbers::of_row(n);
        vec![int_value(a), int_value(b), c.map_or(Value::Null, |c| Value::Float32(c as f32)), Value::Int(n)]
    });
    write_table(&table, "a: int8, b: uint16, c: float32, k: int64 not null", &small_segments(), old_rows);

    write_wider_rows(&table, 30..50);
    check_wider_rows(&table, 50);
    compact(&table, |_, _| ()).unwrap();
    check_wider_rows(&table, 50);
    write_wider_rows(&table, 50..60);
    check_wider_rows(&table, 60);
}

#[test]
fn dictionaries_continue_after_a_schema_change() {
    let (_folder, table) = new_table();
    let mut writer = Writer::open(&table, Some(schema("s: category, n: int32")), &WriterOptions::default()).unwrap();
    let mut expected = Vec::new();
    for n in 0..5 {
        let s = ["AAPL", "IBM"][n % 2];
        writer.append_row(&[Value::Str(s), Value::Int(n as i64)]).unwrap();
        expected.push(format!("s={s}, n={n}, venue=null"));
    }
    assert!(writer.alter(&schema("venue: category, s: text, n: int64")).unwrap());
    assert!(!writer.alter(&schema("n: int64, s: text, venue: text")).unwrap(), "it already has that schema");
    for n in 5..9 {
        let s = ["IBM", "MSFT"][n % 2];
        let venue = ["XNAS", "XNYS"][n / 7];
        writer.append_row(&[Value::Str(s), Value::Int(n as i64), Value::Str(venue)]).unwrap();
        expected.push(format!("s={s}, n={n}, venue={venue}"));
    }
    writer.rollback();
    writer.append_row(&[Value::Str("IBM"), Value::Null, Value::Null]).unwrap();
    expected.truncate(5);
    expected.push("s=IBM, n=null, venue=null".into());
    writer.commit().unwrap();
    let dataset = open(&table).unwrap();
    assert_eq!(read_rows(&dataset), expected);
    assert_eq!(dataset.filter(&col("s").eq("IBM")).unwrap().len().unwrap(), 3);
    drop(writer);
    assert_good(&table);
}

/// Returns the message of the error when a table is opened with an incompatible schema.
fn schema_mismatch(table: &Path, text: &str) -> String {
    let error = Writer::open(table, Some(schema(text)), &small_segments()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    error.to_string()
}

#[test]
fn incompatible_changes_are_refused_with_a_reason_for_each_column() {
    let (_folder, table) = new_table();
    let old = "a: int32, b: text, c: float64 not null, d: uint8";
    let row = vec![Value::Int(1), Value::Str("x"), Value::Float64(0.5), Value::UInt(7)];
    write_table(&table, old, &small_segments(), [row.clone()]);

    let message = schema_mismatch(&table, "a: int16, c: float32 not null, d: int8, e: int64 not null, f: text");
    for part in [
        "column 'a' is int32 and int16, which lacks values of the first",
        "column 'b' is not in the given one",
        "column 'c' is float64 and float32, which lacks values of the first",
        "column 'd' is uint8 and int8",
        "column 'e' is new and not null",
        "append its rows to a new table",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("'f'"), "{message}");
    for (text, reason) in [
        ("a: int32 not null, b: text, c: float64, d: uint8", "'a' may hold nulls"),
        ("a: float64, b: text, c: float64, d: uint8", "'a' is int32 and float64"),
        ("a: int32, b: bytes, c: float64, d: uint8", "'b' is utf8 and binary"),
    ] {
        let message = schema_mismatch(&table, text);
        assert!(message.contains(reason), "{reason}: {message}");
    }
    let unsupported = format!("{old}, m: run_end_encoded<int32, int8>");
    assert_eq!(
        Writer::open(&table, Some(schema(&unsupported)), &small_segments()).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    let stat = table_stat(&table).unwrap().unwrap();
    assert_eq!((stat.segments, stat.end), (1, 1), "the table is unchanged");

    // A writer whose change is refused keeps its schema and its uncommitted rows.
    let mut writer = Writer::open(&table, None, &small_segments()).unwrap();
    writer.append_row(&row).unwrap();
    assert_eq!(writer.alter(&schema("a: int8")).unwrap_err().kind(), ErrorKind::SchemaMismatch);
    writer.commit().unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), 2);
}

/// A script that creates a table opens it again every day with the same schema, although the table stores texts as the
/// type that it was created with.
#[test]
fn tables_can_be_opened_with_any_type_of_text() {
    let text_types = ["text", "large_utf8", "utf8_view", "category"];
    for stored_type in text_types {
        let (_folder, table) = new_table();
        write_table(&table, &format!("s: {stored_type}"), &WriterOptions::default(), [vec![Value::Str("x")]]);
        let mut reopens = Vec::new();
        for text_type in text_types {
            reopens.push((text_type, Vec::new()));
            reopens.push((text_type, vec!["s".to_owned()]));
        }
        // The first one has created the table.
        for (text_type, dictionary) in reopens.into_iter().skip(1) {
            let options = WriterOptions { dictionary, ..WriterOptions::default() };
            write_table(&table, &format!("s: {text_type}"), &options, [vec![Value::Str("x")]]);
        }
        let dataset = open(&table).unwrap();
        let stored_schema = schema(&format!("s: {stored_type}"));
        assert_eq!(dataset.schema().field(0).data_type(), stored_schema.field(0).data_type());
        assert_eq!(read_rows(&dataset), vec!["s=x"; 8]);
        assert_eq!(table_stat(&table).unwrap().unwrap().segments, 1);
    }
}

/// Commits one row of the columns n, s and `more`.
fn commit_row(writer: &mut Writer, n: i64, more: &[Value<'_>]) {
    let row = [&[Value::Int(n), Value::Str("x")], more].concat();
    writer.append_row(&row).unwrap();
    writer.commit().unwrap();
}

#[test]
fn open_datasets_keep_the_old_schema_until_they_are_refreshed() {
    let (_folder, table) = new_table();
    let mut writer = Writer::open(&table, Some(schema("n: int32, s: text")), &small_segments()).unwrap();
    for n in 0..10 {
        commit_row(&mut writer, n, &[]);
    }
    let dataset = open(&table).unwrap();
    let selected = dataset.select(&["n"]).unwrap();
    let renamed = dataset.select(&["s", "n"]).unwrap().with_names(&["text", "number"]).unwrap();
    let slice = dataset.slice(3, 4).unwrap();
    let first_rows = read_rows(&dataset.slice(0, 2).unwrap());
    writer.alter(&schema("n: int64, s: text, vol: float64")).unwrap();
    assert_eq!(dataset.refresh().unwrap().schema().fields().len(), 3);
    for n in 10..12 {
        commit_row(&mut writer, n, &[Value::Float64(n as f64)]);
    }
    writer.compact(|_, _| ()).unwrap();

    // The old schema and rows also hold for segments that are only opened now.
    assert_eq!((dataset.schema().fields().len(), dataset.len().unwrap()), (2, 10));
    assert_eq!(dataset.schema().field(0).data_type().to_string(), "Int32");
    assert_eq!(read_rows(&dataset)[..2], first_rows);
    assert_eq!(read_rows(&slice), ["n=3, s=x", "n=4, s=x", "n=5, s=x", "n=6, s=x"]);

    let newer = dataset.refresh().unwrap();
    assert!(!dataset.is_newest() && newer.is_newest());
    let mut expected: Vec<String> = (0..10).map(|n| format!("n={n}, s=x, vol=null")).collect();
    expected.extend((10..12).map(|n| format!("n={n}, s=x, vol={n}.0")));
    assert_eq!(read_rows(&newer), expected);
    assert_eq!(newer.schema(), open(&table).unwrap().schema());
    // Refreshing keeps the selection of columns and their names.
    let selected = selected.refresh().unwrap();
    assert_eq!(read_rows(&selected)[9..], ["n=9", "n=10", "n=11"]);
    assert_eq!(selected.schema().field(0).data_type().to_string(), "Int64");
    assert_eq!(read_rows(&renamed.refresh().unwrap())[11], "text=x, number=11");
    assert_eq!(slice.refresh().unwrap().len().unwrap(), 4);
    let concatenated = Dataset::concat(&[dataset.clone(), dataset.clone()]).unwrap();
    assert_eq!(concatenated.refresh().unwrap().len().unwrap(), 24);
}

fn poll_rows(follower: &mut arrowwood::TableFollower) -> Option<Vec<String>> {
    follower.poll(Duration::from_millis(20)).unwrap().map(|rows| read_rows(&rows))
}

#[test]
fn followers_continue_after_schema_changes() {
    let (_folder, table) = new_table();
    let mut writer = Writer::open(&table, Some(schema("n: int32")), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(0)]).unwrap();
    writer.commit().unwrap();
    let mut follower = follow(&open(&table).unwrap(), Some(0), None).unwrap();
    assert_eq!(poll_rows(&mut follower), Some(vec!["n=0".into()]));
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.alter(&schema("n: int64, vol: float64")).unwrap();
    assert_eq!(poll_rows(&mut follower), Some(vec!["n=1, vol=null".into()]), "with the new schema");
    assert_eq!(poll_rows(&mut follower), None);
    writer.append_row(&[Value::Int(2), Value::Float64(0.5)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(poll_rows(&mut follower), Some(vec!["n=2, vol=0.5".into()]));
    // Two changes between two polls, without a row between them.
    writer.alter(&schema("n: int64, vol: float64, venue: text")).unwrap();
    writer.alter(&schema("n: int64, vol: float64, venue: text, flag: bool")).unwrap();
    writer.append_row(&[Value::Int(3), Value::Null, Value::Str("x"), Value::Bool(true)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(poll_rows(&mut follower), Some(vec!["n=3, vol=null, venue=x, flag=true".into()]));
}

#[test]
fn schema_changes_keep_the_sort_column_and_positions() {
    let (_folder, table) = new_table();
    let options = WriterOptions { sorted_by: Some("ts".into()), ..small_segments() };
    let mut writer = Writer::open(&table, Some(schema("ts: int32 not null, n: int64")), &options).unwrap();
    for ts in 0..20 {
        writer.append_row(&[Value::Int(ts), Value::Int(ts)]).unwrap();
    }
    writer.commit_with(&[("feed", 20)]).unwrap();
    writer.close().unwrap();
    let mut writer =
        Writer::open(&table, Some(schema("vol: float64, n: int64, ts: int64 not null")), &options).unwrap();
    assert_eq!(writer.positions()["feed"], 20);
    assert!(writer.append_row(&[Value::Int(18), Value::Null, Value::Null]).is_err(), "the row is out of order");
    for ts in 19..30 {
        writer.append_row(&[Value::Int(ts), Value::Null, Value::Float64(1.0)]).unwrap();
    }
    writer.commit().unwrap();
    let dataset = open(&table).unwrap();
    assert_eq!(dataset.sorted_by().unwrap().name(), "ts");
    assert_eq!(dataset.positions().unwrap()["feed"], 20);
    let range = dataset.between(&Value::Int(15), &Value::Int(22)).unwrap();
    let expected: Vec<String> = (15..20).chain(19..=22).map(|ts| format!("ts={ts}")).collect();
    let rows = read_rows(&range);
    let actual: Vec<&str> = rows.iter().map(|row| row.split(',').next().unwrap()).collect();
    assert_eq!(actual, expected);
    drop(writer);
    assert_good(&table);
}

#[test]
fn compaction_merges_only_segments_of_one_schema() {
    let (_folder, table) = new_table();
    let options = WriterOptions { segment_rows: Some(2), ..WriterOptions::default() };
    write_table(&table, "n: int32", &options, (0..6).map(|n| vec![Value::Int(n)]));
    let options = WriterOptions { segment_rows: Some(1000), ..options };
    write_table(&table, "n: int32, a: text", &options, (6..9).map(|n| vec![Value::Int(n), Value::Str("x")]));
    write_table(
        &table,
        "n: int32, a: text, b: text",
        &options,
        (9..11).map(|n| vec![Value::Int(n), Value::Null, Value::Null]),
    );
    let expected = read_rows(&open(&table).unwrap());
    assert_eq!((expected.len(), &expected[7][..]), (11, "n=7, a=x, b=null"));
    let opened_before = open(&table).unwrap();
    for _ in 0..2 {
        compact(&table, |_, _| ()).unwrap();
        assert_eq!(table_stat(&table).unwrap().unwrap().segments, 3);
        assert_eq!(read_rows(&open(&table).unwrap()), expected);
        assert_good(&table);
    }
    assert_eq!(read_rows(&opened_before), expected);

    // The table keeps its schema when rows are dropped.
    let mut writer = Writer::open(&table, None, &options).unwrap();
    writer.drop_before(9).unwrap();
    let rest = open(&table).unwrap();
    assert_eq!((rest.first_row(), rest.schema().fields().len()), (9, 3));
    assert_eq!(read_rows(&rest), expected[9..]);
}

/// Returns the numbers of columns that the segments of a table have.
fn segment_widths(table: &Path) -> BTreeSet<usize> {
    let files = std::fs::read_dir(table).unwrap().map(|file| file.unwrap().path());
    files.map(|path| open(&path).unwrap().schema().fields().len()).collect()
}

fn narrow_row(n: i64) -> Vec<Value<'static>> {
    vec![Value::Int(n), Value::Float32(n as f32 / 3.0)]
}

/// Datasets that were opened before also read the old schema from segments that they only open after the rewrite.
#[test]
fn rewriting_gives_all_segments_one_schema_while_readers_keep_theirs() {
    let (_folder, table) = new_table();
    let options = WriterOptions { segment_rows: Some(4), ..WriterOptions::default() };
    write_table(&table, "n: int8, x: float32", &options, (0..10).map(narrow_row));
    compact(&table, |_, _| ()).unwrap();
    write_table(&table, "n: int8, x: float32", &options, (10..13).map(narrow_row));
    let first = open(&table).unwrap();
    let wide_rows = (13..17).map(|n| vec![Value::Int(n), Value::Float64(n as f64 / 3.0), Value::Str("v")]);
    write_table(&table, "n: int32, x: float64, s: text", &options, wide_rows);
    let second = open(&table).unwrap();
    write_table(&table, "n: int64, x: float64, s: text, d: category", &options, []);
    let newest = read_rows(&open(&table).unwrap());
    assert_eq!(segment_widths(&table), [2, 3, 4].into());

    let mut writer = Writer::open(&table, None, &options).unwrap();
    assert!(writer.compact_with(REWRITE, |_, _| ()).unwrap() > 0);
    drop(writer);

    assert_eq!(segment_widths(&table), [4].into());
    assert_eq!(read_rows(&open(&table).unwrap()), newest);
    let expected: Vec<String> = (0..13).map(|n| format!("n={n}, x={}", Value::Float32(n as f32 / 3.0))).collect();
    assert_eq!(read_rows(&first), expected);
    assert_eq!(first.schema().field(0).data_type().to_string(), "Int8");
    assert_eq!(read_rows(&second)[13], format!("n=13, x={}, s=v", Value::Float64(13.0 / 3.0)));
    assert_eq!(read_rows(&first.refresh().unwrap()), newest);
    assert_good(&table);

    // There is nothing left to rewrite.
    assert_eq!(compact_with(&table, REWRITE, |_, _| ()).unwrap(), 0);
    assert_eq!(read_rows(&open(&table).unwrap()), newest);
    assert_good(&table);
}

/// Repairing a segment after a schema change keeps the segments before it, with their schema.
#[test]
fn damage_is_found_and_repaired_in_tables_of_two_schemas() {
    let (_folder, table) = new_table();
    write_table(&table, "n: int32", &small_segments(), (0..3).map(|n| vec![Value::Int(n)]));
    for n in 3..5 {
        write_table(&table, "n: int64, a: text", &small_segments(), [vec![Value::Int(n), Value::Str("text")]]);
    }
    assert_good(&table);
    let segment = table.join(format!("{:020}.arrow", 3));
    let mut bytes = std::fs::read(&segment).unwrap();
    let position = bytes.windows(8).position(|window| window == b"texttext").unwrap();
    bytes[position + 4] = 0xff;
    std::fs::write(&segment, bytes).unwrap();
    assert!(!arrowwood::check(&table, |_, _| ()).unwrap().is_good());
    arrowwood::repair(&table, |_, _| ()).unwrap();
    assert_good(&table);
    assert_eq!(
        read_rows(&open(&table).unwrap()),
        ["n=0, a=null", "n=1, a=null", "n=2, a=null", "n=3, a=text", "n=4, a=?ext"]
    );

    // A segment whose schema can't become the table's isn't part of it.
    let (_other_folder, other) = new_table();
    write_table(&other, "n: text", &small_segments(), (0..3).map(|_| vec![Value::Str("x")]));
    std::fs::copy(other.join(format!("{:020}.arrow", 0)), table.join(format!("{:020}.arrow", 0))).unwrap();
    let report = arrowwood::check(&table, |_, _| ()).unwrap();
    assert!(!report.is_good());
    let error = open(&table).unwrap().row(0).unwrap().get(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.to_string().contains("'n' is utf8"), "{error}");
}

#[test]
fn schema_changes_are_atomic_when_the_writer_is_killed() {
    for rows in [0, 3] {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live");
        std::fs::create_dir(&live).unwrap();
        let snapshots = Arc::new(CrashSnapshots::default());
        let medium = FileSystem::with_observer(snapshots.clone());
        let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
        let mut writer = Writer::open(live.join("ticks"), Some(schema("n: int32, s: category")), &options).unwrap();
        for n in 0..rows {
            writer.append_row(&[Value::Int(n), Value::Str("x")]).unwrap();
        }
        writer.commit_with(&[("feed", rows)]).unwrap();
        snapshots.start(&live, &folder.path().join("snapshots"));
        writer.alter(&schema("n: int64, s: text, vol: float64")).unwrap();
        let mut old = 0;
        let mut new = 0;
        for (step, parent) in snapshots.stop().into_iter().enumerate() {
            let table = parent.join("ticks");
            let dataset = open(&table).unwrap();
            let columns = dataset.schema().fields().len();
            let more = if columns == 3 { ", vol=null" } else { "" };
            let expected: Vec<String> = (0..rows).map(|n| format!("n={n}, s=x{more}")).collect();
            assert_eq!(read_rows(&dataset), expected, "step {step}");
            let writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
            let after = writer.schema().fields().len();
            assert!(columns <= after && [2, 3].contains(&after), "step {step}: {columns} columns, then {after}");
            if after == 2 {
                old += 1;
            } else {
                new += 1;
            }
            assert_eq!(writer.positions()["feed"], rows);
            drop(writer);
            assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 1, "step {step}: nothing is left beside the table");
            // Repeats or finishes the change.
            write_table(
                &table,
                "n: int64, s: text, vol: float64",
                &WriterOptions::default(),
                [vec![Value::Int(1 << 40), Value::Str("x"), Value::Float64(0.5)]],
            );
            assert_eq!(read_rows(&open(&table).unwrap()).len() as i64, rows + 1);
            assert_eq!(open(&table).unwrap().positions().unwrap()["feed"], rows);
            assert_good(&table);
        }
        assert!(old > 0 && new > 0, "{old} with the old schema, {new} with the new one");
    }
}

/// Returns the types of the columns, and whether they are nullable.
fn column_types(dataset: &Dataset) -> Vec<String> {
    let fields = dataset.schema().fields().iter();
    fields.map(|field| format!("{} {}", field.data_type(), field.is_nullable())).collect()
}

#[test]
fn datasets_have_the_columns_of_all_partitions() {
    let (_folder, table) = new_table();
    std::fs::create_dir(&table).unwrap();
    let [path_a, path_b, path_c, path_d] = ["a", "b", "c", "d"].map(|host| table.join(format!("host={host}")));
    let row_a = [vec![Value::Int(1), Value::Str("x")]];
    write_table(&path_a, "n: int32 not null, s: text", &small_segments(), row_a);
    let one_partition = open(&table).unwrap();
    assert_eq!(read_rows(&one_partition), ["n=1, s=x, host=a"]);

    let row_b = [vec![Value::Float32(0.5), Value::Int(1 << 40)]];
    write_table(&path_b, "vol: float32, n: int64 not null", &small_segments(), row_b);
    let two_rows = ["n=1, s=x, vol=null, host=a", "n=1099511627776, s=null, vol=0.5, host=b"];
    let two_partitions = open(&table).unwrap();
    assert_eq!(column_types(&two_partitions)[..3], ["Int64 false", "Utf8 true", "Float32 true"]);
    assert_eq!(read_rows(&two_partitions), two_rows);
    assert_eq!(read_rows(&one_partition), ["n=1, s=x, host=a"], "an open dataset is unchanged");
    assert_eq!(read_rows(&one_partition.refresh().unwrap()), two_rows);
    // The partition column has another index now, which a selection has to follow.
    let selected = one_partition.select(&["host", "n"]).unwrap().with_names(&["where", "n"]).unwrap();
    assert_eq!(read_rows(&selected.refresh().unwrap())[1], "where=b, n=1099511627776");
    assert_eq!(two_partitions.filter(&col("host").eq("b")).unwrap().len().unwrap(), 1);
    assert_eq!(two_partitions.filter(&col("vol").gt(0.25)).unwrap().len().unwrap(), 1);
    let sum = two_partitions.column("n").unwrap().sum().unwrap();
    assert_eq!(sum.to_string(), ((1_i64 << 40) + 1).to_string());

    // Followers continue when a partition's schema changes, and when a partition is added.
    let mut follower = follow_partitions(&two_partitions, &FollowFrom::Now).unwrap();
    let row_a = [vec![Value::Int(2), Value::Null, Value::Float64(0.1)]];
    write_table(&path_a, "n: int32, s: text, vol: float64", &small_segments(), row_a);
    let (name, rows) = follower.poll(PATIENCE).unwrap().unwrap();
    assert_eq!((&*name, &read_rows(&rows)[..]), ("host=a", &["n=2, s=null, vol=0.1, host=a".into()][..]));
    write_table(&path_c, "n: int8, flag: bool", &small_segments(), [vec![Value::Int(3), Value::Bool(true)]]);
    let (name, rows) = follower.poll(PATIENCE).unwrap().unwrap();
    assert_eq!((&*name, &read_rows(&rows)[..]), ("host=c", &["n=3, s=null, vol=null, flag=true, host=c".into()][..]));
    let newest = two_partitions.refresh().unwrap();
    assert_eq!(column_types(&newest)[..3], ["Int64 true", "Utf8 true", "Float64 true"]);
    assert_eq!(read_rows(&newest).len(), 4);
    assert_eq!(read_rows(&newest), read_rows(&open(&table).unwrap()));
    assert_eq!(newest.schema(), open(&table).unwrap().schema());
    assert_eq!(read_rows(&two_partitions), two_rows, "an open dataset is unchanged");

    // Incompatible partitions are both named.
    write_table(&path_d, "n: text", &small_segments(), [vec![Value::Str("x")]]);
    for error in [open(&table).unwrap_err(), newest.refresh().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        let message = error.to_string();
        assert!(message.contains("host=d") && message.contains("host=a") && message.contains("'n' is"), "{message}");
    }
}

/// Returns options with an index of some columns.
fn indexed(names: &[&str]) -> WriterOptions {
    let index = names.iter().map(ToString::to_string).collect();
    WriterOptions { index: Some(index), zone_rows: Some(4), ..small_segments() }
}

/// Checks that filters on the indexed columns n and x give the same numbers of rows as a scan of all 75 rows.
fn check_indexed_columns(table: &Path, state: &str) {
    let dataset = open(table).unwrap();
    let mut n_values = Vec::new();
    let mut x_values = Vec::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        n_values.extend(match row.get(0).unwrap() {
            Value::Int(n) => Some(n),
            _ => None,
        });
        x_values.extend(match row.get(1).unwrap() {
            Value::Float64(x) => Some(x),
            _ => None,
        });
    }
    assert_eq!(dataset.rows().count(), 75, "{state}");
    for bound in [-60_000, -50, -7, 0, 13, 49, 50, 51, 12_000, 60_000] {
        let actual = dataset.filter(&col("n").gt(bound)).unwrap().len().unwrap();
        let expected = n_values.iter().filter(|&&n| n > bound).count();
        assert_eq!(actual as usize, expected, "n > {bound}, {state}");
    }
    for bound in [-1.0, 29.5, 30.0, 52.0, 80.0] {
        let actual = dataset.filter(&col("x").le(bound)).unwrap().len().unwrap();
        let expected = x_values.iter().filter(|&&x| x <= bound).count();
        assert_eq!(actual as usize, expected, "x <= {bound}, {state}");
    }
    assert_eq!(dataset.filter(&col("x").is_null()).unwrap().len().unwrap(), 30, "{state}");
    assert_good(table);
}

/// Zones hold values in the stored type: filters must find the same rows in segments of every schema, before and after
/// the segments are merged and rewritten.
#[test]
fn indexes_include_widened_and_new_columns() {
    let (_folder, table) = new_table();
    let narrow_rows = (0..30).map(|n| vec![Value::Int(n * 37 % 101 - 50)]);
    write_table(&table, "n: int8", &indexed(&["n"]), narrow_rows);
    let wide_rows = (30..75).map(|n| vec![Value::Int((n * 37 % 101 - 50) * 1_000), Value::Float64(n as f64)]);
    write_table(&table, "n: int64, x: float64", &indexed(&["n", "x"]), wide_rows);
    check_indexed_columns(&table, "as they grew");

    compact(&table, |_, _| ()).unwrap();
    check_indexed_columns(&table, "merged");
    compact_with(&table, REWRITE, |_, _| ()).unwrap();
    check_indexed_columns(&table, "in one schema");

    write_table(&table, "n: int64, x: float64", &indexed(&["x"]), [vec![Value::Int(1), Value::Null]]);
    assert_eq!(open(&table).unwrap().filter(&col("n").eq(1)).unwrap().len().unwrap() % 2, 1);
}

/// Returns the types of the columns of one partition.
fn partition_types(path: &Path) -> Vec<String> {
    let dataset = open(path).unwrap();
    dataset.schema().fields().iter().map(|field| field.data_type().to_string()).collect()
}

/// Each partition is altered by a commit of its own. An error names the partitions that weren't, and a retry alters
/// them.
#[test]
fn alter_changes_all_partitions() {
    let (_folder, table) = new_table();
    let paths = ["host=a/day=1", "host=a/day=2", "host=b/day=1"].map(|name| table.join(name));
    for (number, path) in paths.iter().enumerate() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_table(path, "n: int32 not null", &small_segments(), [vec![Value::Int(number as i64)]]);
    }
    let opened_before = open(&table).unwrap();
    let add = parse_schema("vol: float64").unwrap();
    let widen = parse_schema("n: int64").unwrap();

    let locking_writer = Writer::open(&paths[1], None, &small_segments()).unwrap();
    let error = alter(&table, &add, &widen, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let message = error.message();
    assert!(message.contains("1 of 3 partitions") && message.contains("host=a/day=2"), "{message}");
    assert!(!message.contains("day=1"), "{message}");
    assert_eq!(partition_types(&paths[0]), ["Int64", "Float64"]);
    assert_eq!(partition_types(&paths[1]), ["Int32"]);
    assert_eq!(partition_types(&paths[2]), ["Int64", "Float64"]);
    let expected = ["n=0, vol=null, host=a, day=1", "n=1, vol=null, host=a, day=2", "n=2, vol=null, host=b, day=1"];
    assert_eq!(read_rows(&open(&table).unwrap()), expected);

    locking_writer.close().unwrap();
    assert!(alter(&table, &add, &widen, &[]).unwrap());
    assert!(!alter(&table, &add, &widen, &[]).unwrap(), "nothing is left to change");
    assert_eq!(partition_types(&paths[1]), ["Int64", "Float64"]);
    assert_eq!(read_rows(&opened_before.refresh().unwrap()), expected);
    assert_eq!(read_rows(&opened_before)[2], "n=2, host=b, day=1", "an open dataset is unchanged");

    // A new column can't have the name of a partition column, at any level.
    for column in ["host: text", "day: int64"] {
        let error = alter(&table, &parse_schema(column).unwrap(), &widen, &[]).unwrap_err();
        assert!(error.message().contains("names of directories"), "{error}");
    }
    // A change that no partition accepts.
    let error = alter(&table, &add, &parse_schema("n: int8").unwrap(), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.message().contains("3 of 3 partitions"), "{error}");
    assert_eq!(read_rows(&open(&table).unwrap()), expected);
}

/// Regression test: such a change was applied to half of the partitions, after which the dataset couldn't be opened.
#[test]
fn alter_changes_no_partition_if_one_is_incompatible() {
    let (_folder, table) = new_table();
    std::fs::create_dir(&table).unwrap();
    let paths = ["a", "b", "c"].map(|host| table.join(format!("host={host}")));
    for (number, path) in paths.iter().enumerate() {
        write_table(path, "n: int32", &small_segments(), [vec![Value::Int(number as i64)]]);
    }
    assert!(alter(&paths[1], &parse_schema("x: utf8").unwrap(), &Schema::empty(), &[]).unwrap());
    let rows_before = read_rows(&open(&table).unwrap());

    let conflicting_column = (parse_schema("x: int64").unwrap(), Schema::empty());
    let column_missing_in_others = (parse_schema("z: int64").unwrap(), parse_schema("x: int64").unwrap());
    for ((add, widen), reasons) in [
        (conflicting_column, &["1 of 3 partitions", "host=b: add"][..]),
        (column_missing_in_others, &["partitions can't have this"]),
    ] {
        let error = alter(&table, &add, &widen, &[]).unwrap_err();
        assert!(error.message().contains("no partition was changed"), "{error}");
        assert!(reasons.iter().all(|reason| error.message().contains(reason)), "{error}");
        assert_eq!(read_rows(&open(&table).unwrap()), rows_before);
        assert_eq!(open(&paths[0]).unwrap().schema().fields().len(), 1);
    }

    assert!(alter(&table, &parse_schema("x: utf8").unwrap(), &parse_schema("n: int64").unwrap(), &[]).unwrap());
    assert_eq!(open(&paths[2]).unwrap().schema().fields().len(), 2);
}

const SYMBOL_COLUMNS: &str = "symbol: utf8, text: utf8, ts: int64 not null";
const WIDER_SYMBOL_COLUMNS: &str = "symbol: utf8, text: utf8, ts: int64 not null, extra: int64";

/// Returns rows of [`WIDER_SYMBOL_COLUMNS`], one for each symbol.
fn symbol_batch(symbols: &[&str], text: &str, first_ts: i64) -> RecordBatch {
    let len = symbols.len();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(symbols.to_vec())),
        Arc::new(StringArray::from(vec![text; len])),
        Arc::new(Int64Array::from_iter_values(first_ts..first_ts + len as i64)),
        new_null_array(&DataType::Int64, len),
    ];
    RecordBatch::try_new(schema(WIDER_SYMBOL_COLUMNS), columns).unwrap()
}

/// Returns the first column as text, after checking all rows.
fn read_symbols(table: &Path) -> Vec<String> {
    let dataset = open(table).unwrap();
    read_rows(&dataset);
    dataset.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
}

/// Regression test: a batch that didn't fit into the empty segment after a schema change made the writer replace it by
/// a larger one, and was then refused. The writer continued as if the new file had the dictionary of the old one: rows
/// were read with other values, or as damage.
#[test]
fn a_refused_append_keeps_the_dictionary_of_a_replaced_segment() {
    for appended in [&["AAPL", "IBM", "MSFT"][..], &["AAPL", "IBM", "INTC"]] {
        let (_folder, table) = new_table();
        let options = WriterOptions {
            sorted_by: Some("ts".into()),
            dictionary: vec!["symbol".into()],
            segment_rows: Some(65_536),
            ..WriterOptions::default()
        };
        let rows = [("AAPL", "a", 1), ("IBM", "b", 2), ("MSFT", "c", 3)];
        let rows = rows.map(|(symbol, text, ts)| vec![Value::Str(symbol), Value::Str(text), Value::Int(ts)]);
        write_table(&table, SYMBOL_COLUMNS, &options, rows);
        let mut writer = Writer::open(&table, Some(schema(WIDER_SYMBOL_COLUMNS)), &options).unwrap();
        let large_text = "x".repeat(6 << 20);
        let batches = vec![symbol_batch(&["IBM"], &large_text, 4), symbol_batch(&["IBM"], "late", 1)];
        let error = writer.append_dataset(&Dataset::try_from(batches).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");

        writer.append(&symbol_batch(appended, "d", 5)).unwrap();
        writer.commit().unwrap();
        let expected = [&["AAPL", "IBM", "MSFT"][..], appended].concat();
        assert_eq!(read_symbols(&table), expected);
        writer.close().unwrap();
        assert_good(&table);
        let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        writer.append(&symbol_batch(&["MSFT"], "e", 8)).unwrap();
        writer.close().unwrap();
        assert_eq!(read_symbols(&table), [&expected[..], &["MSFT"]].concat());
    }
}
