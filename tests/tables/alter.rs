//! Tables whose schema changes: more columns, wider numbers, nulls where there were none. What readers see is compared with
//! a list of values that knows nothing of segments.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow_schema::{DataType, Schema, SchemaRef};
use arrowwood::simulate::FileSystem;
use arrowwood::{
    CompactOptions, Dataset, ErrorKind, FollowFrom, Row, SyncPolicy, Value, Writer, WriterOptions, alter, col, compact,
    compact_with, follow, follow_partitions, open, parse_schema, table_stat,
};

use crate::camera::Camera;
use crate::wait::PATIENCE;

const REWRITE: CompactOptions = CompactOptions { rewrite: true, sort: false };

fn schema(text: &str) -> SchemaRef {
    Arc::new(parse_schema(text).unwrap())
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    (folder, table)
}

fn small() -> WriterOptions {
    WriterOptions { segment_rows: Some(8), ..WriterOptions::default() }
}

/// Opens the table with a schema, appends rows and closes it.
fn write<'a>(table: &Path, text: &str, options: &WriterOptions, rows: impl IntoIterator<Item = Vec<Value<'a>>>) {
    let mut writer = Writer::open(table, Some(schema(text)), options).unwrap();
    rows.into_iter().for_each(|row| writer.append_row(&row).unwrap());
    writer.close().unwrap();
}

fn text(row: &Row<'_>) -> String {
    row.iter().map(|(name, value)| format!("{name}={}", value.unwrap())).collect::<Vec<_>>().join(", ")
}

/// All rows as text, by each of the ways that rows are read.
fn rows_of(dataset: &Dataset) -> Vec<String> {
    let by_row: Vec<String> = dataset.rows().map(|row| text(&row.unwrap())).collect();
    let len = dataset.len().unwrap();
    assert_eq!(by_row.len() as u64, len);
    dataset.validate(|_, _| ()).unwrap();
    let numbers: Vec<i64> = (0..len as i64).rev().collect();
    let taken: Vec<String> = dataset.take(&numbers).unwrap().rows().map(|row| text(&row.unwrap())).collect();
    assert!(taken.iter().eq(by_row.iter().rev()), "{taken:?}");
    let collected = dataset.collect().unwrap();
    assert!(collected.rows().map(|row| text(&row.unwrap())).eq(by_row.iter().cloned()));
    let batches = dataset.to_record_batches().map(|batch| batch.unwrap());
    let copied = Dataset::try_from(batches.collect::<Vec<_>>());
    if len > 0 {
        assert!(copied.unwrap().rows().map(|row| text(&row.unwrap())).eq(by_row.iter().cloned()));
    }
    by_row
}

fn is_good(table: &Path) {
    let report = arrowwood::check(table, |_, _| ()).unwrap();
    assert!(report.is_good() && report.findings.is_empty(), "{report:?}");
}

#[test]
fn old_rows_are_null_in_new_columns_and_widened_in_wider_ones() {
    let (_folder, table) = place();
    let (old, newer) =
        ("a: int8, b: uint16, c: float32, k: int64 not null", "a: int64, b: int32, c: float64, k: int64");
    let more = ", d: category, e: text, f: list<int32>, g: utf8_view, h: bool, i: fixed_size_list<float32>[3], \
                j: struct<x: int8>, l: timestamp[us, UTC], m: decimal(9, 2), n: bytes";
    let twin = |n: i64| -> [Option<f64>; 3] {
        let is = |every: i64, value: f64| (n % every != 1).then_some(value);
        [is(3, (n % 256 - 128) as f64), is(4, (n * 977 % 65_536) as f64), is(5, f64::from(n as f32 / 7.0))]
    };
    let value = |n: i64| {
        let [a, b, c] = twin(n);
        let int = |value: Option<f64>| value.map_or(Value::Null, |value| Value::Int(value as i64));
        vec![int(a), int(b), c.map_or(Value::Null, |c| Value::Float32(c as f32)), Value::Int(n)]
    };
    write(&table, old, &small(), (0..30).map(value));
    let write_wider = |rows: std::ops::Range<i64>| {
        let all = schema(&format!("{newer}{more}"));
        let float = |n: i64| twin(n)[2];
        let int = |which: usize| rows.clone().map(move |n| twin(n)[which].map(|value| value as i64));
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter(int(0))),
            Arc::new(Int32Array::from_iter(int(1).map(|b| b.map(|b| b as i32)))),
            Arc::new(Float64Array::from_iter(rows.clone().map(float))),
            Arc::new(Int64Array::from_iter_values(rows.clone())),
        ];
        let count = columns[0].len();
        columns.extend(all.fields()[4..].iter().map(|field| new_null_array(field.data_type(), count)));
        let mut writer = Writer::open(&table, Some(all.clone()), &small()).unwrap();
        writer.append(&RecordBatch::try_new(all, columns).unwrap()).unwrap();
        writer.close().unwrap();
    };
    write_wider(30..50);
    let check = |rows: i64| {
        let dataset = open(&table).unwrap();
        let found = rows_of(&dataset);
        assert_eq!(found.len() as i64, rows);
        for (n, row) in found.iter().enumerate() {
            let [a, b, c] = twin(n as i64);
            let int = |value: Option<f64>| value.map_or("null".into(), |value| format!("{value:.0}"));
            let c = c.map_or("null".into(), |c| Value::Float64(c).to_string());
            let nulls = "d=null, e=null, f=null, g=null, h=null, i=null, j=null, l=null, m=null, n=null";
            assert_eq!(*row, format!("a={}, b={}, c={c}, k={n}, {nulls}", int(a), int(b)));
        }
        // Computed, and by conditions.
        let sum: f64 = (0..rows).filter_map(|n| twin(n)[0]).sum();
        assert_eq!(dataset.column("a").unwrap().sum().unwrap().to_string(), format!("{sum:.0}"));
        assert_eq!(dataset.filter(&col("d").eq("x")).unwrap().len().unwrap(), 0);
        let above = (0..rows).filter(|&n| twin(n)[1].is_some_and(|b| b > 40_000.0)).count();
        assert_eq!(dataset.filter(&col("b").gt(40_000)).unwrap().len().unwrap() as usize, above);
        assert_eq!(dataset.column("e").unwrap().null_count().unwrap() as i64, rows);
        is_good(&table);
    };
    check(50);
    compact(&table, |_, _| ()).unwrap();
    check(50);
    write_wider(50..60);
    check(60);
}

#[test]
fn keys_of_dictionaries_go_on_and_old_rows_have_none() {
    let (_folder, table) = place();
    let mut writer = Writer::open(&table, Some(schema("s: category, n: int32")), &WriterOptions::default()).unwrap();
    let mut expected = Vec::new();
    for n in 0..5 {
        let s = ["AAPL", "IBM"][n % 2];
        writer.append_row(&[Value::Str(s), Value::Int(n as i64)]).unwrap();
        expected.push(format!("s={s}, n={n}, venue=null"));
    }
    assert!(writer.alter(&schema("venue: category, s: text, n: int64")).unwrap());
    assert!(!writer.alter(&schema("n: int64, s: text, venue: text")).unwrap(), "it has that schema");
    for n in 5..9 {
        let (s, venue) = (["IBM", "MSFT"][n % 2], ["XNAS", "XNYS"][n / 7]);
        writer.append_row(&[Value::Str(s), Value::Int(n as i64), Value::Str(venue)]).unwrap();
        expected.push(format!("s={s}, n={n}, venue={venue}"));
    }
    writer.rollback();
    writer.append_row(&[Value::Str("IBM"), Value::Null, Value::Null]).unwrap();
    expected.truncate(5);
    expected.push("s=IBM, n=null, venue=null".into());
    writer.commit().unwrap();
    let dataset = open(&table).unwrap();
    assert_eq!(rows_of(&dataset), expected);
    assert_eq!(dataset.filter(&col("s").eq("IBM")).unwrap().len().unwrap(), 3);
    drop(writer);
    is_good(&table);
}

#[test]
fn what_can_not_be_changed_is_refused_column_by_column() {
    let (_folder, table) = place();
    let old = "a: int32, b: text, c: float64 not null, d: uint8";
    let row = || vec![Value::Int(1), Value::Str("x"), Value::Float64(0.5), Value::UInt(7)];
    write(&table, old, &small(), [row()]);
    let refused = |text: &str| {
        let error = Writer::open(&table, Some(schema(text)), &small()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        error.to_string()
    };
    let all = refused("a: int16, c: float32 not null, d: int8, e: int64 not null, f: text");
    for part in [
        "column 'a' is int32 and int16, which lacks values of the first",
        "column 'b' is not in the given one",
        "column 'c' is float64 and float32, which lacks values of the first",
        "column 'd' is uint8 and int8",
        "column 'e' is new and not null",
        "append its rows to a new table",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(!all.contains("'f'"), "{all}");
    assert!(refused("a: int32 not null, b: text, c: float64, d: uint8").contains("'a' may hold nulls"));
    assert!(refused("a: float64, b: text, c: float64, d: uint8").contains("'a' is int32 and float64"));
    assert!(refused("a: int32, b: bytes, c: float64, d: uint8").contains("'b' is utf8 and binary"));
    let unsupported = format!("{old}, m: run_end_encoded<int32, int8>");
    assert_eq!(Writer::open(&table, Some(schema(&unsupported)), &small()).unwrap_err().kind(), ErrorKind::Unsupported);
    let stat = table_stat(&table).unwrap().unwrap();
    assert_eq!((stat.segments, stat.end), (1, 1), "nothing was done");
    // A writer that is refused a change goes on as it was, with what it has appended.
    let mut writer = Writer::open(&table, None, &small()).unwrap();
    writer.append_row(&row()).unwrap();
    assert_eq!(writer.alter(&schema("a: int8")).unwrap_err().kind(), ErrorKind::SchemaMismatch);
    writer.commit().unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), 2);
}

/// A script that makes a table opens it again each day: the text types that it names are other names of those there.
#[test]
fn a_script_opens_its_table_again_whatever_type_its_text_has() {
    let texts = ["text", "large_utf8", "utf8_view", "category"];
    for there in texts {
        let (_folder, table) = place();
        for given in texts {
            for dictionary in [Vec::new(), vec!["s".to_owned()]] {
                let options = WriterOptions { dictionary, ..WriterOptions::default() };
                let own = if table.exists() { options } else { WriterOptions::default() };
                let given = if table.exists() { given } else { there };
                write(&table, &format!("s: {given}"), &own, [vec![Value::Str("x")]]);
            }
        }
        let dataset = open(&table).unwrap();
        let there = schema(&format!("s: {there}"));
        assert_eq!(dataset.schema().field(0).data_type(), there.field(0).data_type());
        assert_eq!(rows_of(&dataset), vec!["s=x"; 8]);
        assert_eq!(table_stat(&table).unwrap().unwrap().segments, 1);
    }
}

#[test]
fn datasets_stay_what_they_are_and_refresh_has_the_new_schema() {
    let (_folder, table) = place();
    let mut writer = Writer::open(&table, Some(schema("n: int32, s: text")), &small()).unwrap();
    let row = |writer: &mut Writer, n: i64, more: &[Value<'_>]| {
        let row = [&[Value::Int(n), Value::Str("x")], more].concat();
        writer.append_row(&row).unwrap();
        writer.commit().unwrap();
    };
    (0..10).for_each(|n| row(&mut writer, n, &[]));
    let held = open(&table).unwrap();
    let chosen = held.select(&["n"]).unwrap();
    let renamed = held.select(&["s", "n"]).unwrap().with_names(&["text", "number"]).unwrap();
    let part = held.slice(3, 4).unwrap();
    let before = rows_of(&held.slice(0, 2).unwrap());
    writer.alter(&schema("n: int64, s: text, vol: float64")).unwrap();
    assert_eq!(held.refresh().unwrap().schema().fields().len(), 3);
    (10..12).for_each(|n| row(&mut writer, n, &[Value::Float64(n as f64)]));
    writer.compact(|_, _| ()).unwrap();
    // Of the schema and the rows that they were, also where segments are opened now.
    assert_eq!((held.schema().fields().len(), held.len().unwrap()), (2, 10));
    assert_eq!(held.schema().field(0).data_type().to_string(), "Int32");
    assert_eq!(rows_of(&held)[..2], before);
    assert_eq!(rows_of(&part), ["n=3, s=x", "n=4, s=x", "n=5, s=x", "n=6, s=x"]);
    let newer = held.refresh().unwrap();
    assert!(!held.is_newest() && newer.is_newest());
    let all: Vec<String> =
        (0..12).map(|n| format!("n={n}, s=x, vol={}", if n < 10 { "null".into() } else { format!("{n}.0") })).collect();
    assert_eq!(rows_of(&newer), all);
    assert_eq!(newer.schema(), open(&table).unwrap().schema());
    // Columns that were chosen stay chosen, with their names.
    let chosen = chosen.refresh().unwrap();
    assert_eq!(rows_of(&chosen)[9..], ["n=9", "n=10", "n=11"]);
    assert_eq!(chosen.schema().field(0).data_type().to_string(), "Int64");
    assert_eq!(rows_of(&renamed.refresh().unwrap())[11], "text=x, number=11");
    assert_eq!(part.refresh().unwrap().len().unwrap(), 4);
    // Two tables of one schema, of which one is changed.
    let two = Dataset::concat(&[held.clone(), held.clone()]).unwrap();
    assert_eq!(two.refresh().unwrap().len().unwrap(), 24);
}

#[test]
fn a_follower_goes_on_over_a_change() {
    let (_folder, table) = place();
    let mut writer = Writer::open(&table, Some(schema("n: int32")), &WriterOptions::default()).unwrap();
    writer.append_row(&[Value::Int(0)]).unwrap();
    writer.commit().unwrap();
    let mut followed = follow(&open(&table).unwrap(), Some(0), None).unwrap();
    let mut next = || followed.poll(Duration::from_millis(20)).unwrap().map(|rows| rows_of(&rows));
    assert_eq!(next(), Some(vec!["n=0".into()]));
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.alter(&schema("n: int64, vol: float64")).unwrap();
    assert_eq!(next(), Some(vec!["n=1, vol=null".into()]), "with the schema that the table has now");
    assert_eq!(next(), None);
    writer.append_row(&[Value::Int(2), Value::Float64(0.5)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(next(), Some(vec!["n=2, vol=0.5".into()]));
    // Over two changes, the second before any row of the first, at once.
    writer.alter(&schema("n: int64, vol: float64, venue: text")).unwrap();
    writer.alter(&schema("n: int64, vol: float64, venue: text, flag: bool")).unwrap();
    writer.append_row(&[Value::Int(3), Value::Null, Value::Str("x"), Value::Bool(true)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(next(), Some(vec!["n=3, vol=null, venue=x, flag=true".into()]));
}

#[test]
fn a_sorted_table_stays_sorted_and_positions_stay() {
    let (_folder, table) = place();
    let options = WriterOptions { sorted_by: Some("ts".into()), ..small() };
    let mut writer = Writer::open(&table, Some(schema("ts: int32 not null, n: int64")), &options).unwrap();
    for ts in 0..20 {
        writer.append_row(&[Value::Int(ts), Value::Int(ts)]).unwrap();
    }
    writer.commit_with(&[("feed", 20)]).unwrap();
    writer.close().unwrap();
    let mut writer =
        Writer::open(&table, Some(schema("vol: float64, n: int64, ts: int64 not null")), &options).unwrap();
    assert_eq!(writer.positions()["feed"], 20);
    assert!(writer.append_row(&[Value::Int(18), Value::Null, Value::Null]).is_err(), "it is late");
    for ts in 19..30 {
        writer.append_row(&[Value::Int(ts), Value::Null, Value::Float64(1.0)]).unwrap();
    }
    writer.commit().unwrap();
    let dataset = open(&table).unwrap();
    assert_eq!(dataset.sorted_by().unwrap().name(), "ts");
    assert_eq!(dataset.positions().unwrap()["feed"], 20);
    let found = dataset.between(&Value::Int(15), &Value::Int(22)).unwrap();
    let expected = (15..20).chain(19..=22).collect::<Vec<i64>>();
    let ts = |row: &String| row.split(&['=', ','][..]).nth(1).unwrap().parse::<i64>().unwrap();
    assert_eq!(rows_of(&found).iter().map(ts).collect::<Vec<_>>(), expected);
    drop(writer);
    is_good(&table);
}

/// Segments before and behind a change are not made one, and others are.
#[test]
fn compacting_keeps_the_schema_of_each_segment_and_dropping_the_table() {
    let (_folder, table) = place();
    let number = |n: i64| vec![Value::Int(n)];
    let options = WriterOptions { segment_rows: Some(2), ..WriterOptions::default() };
    write(&table, "n: int32", &options, (0..6).map(number));
    let options = WriterOptions { segment_rows: Some(1000), ..options };
    write(&table, "n: int32, a: text", &options, (6..9).map(|n| vec![Value::Int(n), Value::Str("x")]));
    write(
        &table,
        "n: int32, a: text, b: text",
        &options,
        (9..11).map(|n| vec![Value::Int(n), Value::Null, Value::Null]),
    );
    let expected = rows_of(&open(&table).unwrap());
    assert_eq!((expected.len(), &expected[7][..]), (11, "n=7, a=x, b=null"));
    let held = open(&table).unwrap();
    for _ in 0..2 {
        compact(&table, |_, _| ()).unwrap();
        assert_eq!(table_stat(&table).unwrap().unwrap().segments, 3);
        assert_eq!(rows_of(&open(&table).unwrap()), expected);
        is_good(&table);
    }
    assert_eq!(rows_of(&held), expected);
    let mut writer = Writer::open(&table, None, &options).unwrap();
    writer.drop_before(9).unwrap();
    let rest = open(&table).unwrap();
    assert_eq!((rest.first_row(), rest.schema().fields().len()), (9, 3));
    assert_eq!(rows_of(&rest), expected[9..]);
}

/// Rewritten, all segments have one schema, and who opened the table before reads the rows as they were: in segments that it
/// opens only now, too.
#[test]
fn rewriting_gives_all_segments_one_schema_beside_readers() {
    let (_folder, table) = place();
    let options = WriterOptions { segment_rows: Some(4), ..WriterOptions::default() };
    let first = |n: i64| vec![Value::Int(n), Value::Float32(n as f32 / 3.0)];
    write(&table, "n: int8, x: float32", &options, (0..10).map(first));
    compact(&table, |_, _| ()).unwrap();
    write(&table, "n: int8, x: float32", &options, (10..13).map(first));
    let held = open(&table).unwrap();
    let second = |n: i64| vec![Value::Int(n), Value::Float64(n as f64 / 3.0), Value::Str("v")];
    write(&table, "n: int32, x: float64, s: text", &options, (13..17).map(second));
    let between = open(&table).unwrap();
    write(&table, "n: int64, x: float64, s: text, d: category", &options, []);
    let newest = rows_of(&open(&table).unwrap());
    let schemas = || {
        let files = std::fs::read_dir(&table).unwrap().map(|file| file.unwrap().path());
        let of_file = |path: PathBuf| open(&path).unwrap().schema().fields().len();
        files.map(of_file).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(schemas(), [2, 3, 4].into());
    let mut writer = Writer::open(&table, None, &options).unwrap();
    assert!(writer.compact_with(REWRITE, |_, _| ()).unwrap() > 0);
    drop(writer);
    assert_eq!(schemas(), [4].into());
    assert_eq!(rows_of(&open(&table).unwrap()), newest);
    let cell = |n: i64| Value::Float32(n as f32 / 3.0).to_string();
    let expected: Vec<String> = (0..13).map(|n| format!("n={n}, x={}", cell(n))).collect();
    assert_eq!(rows_of(&held), expected);
    assert_eq!(held.schema().field(0).data_type().to_string(), "Int8");
    assert_eq!(rows_of(&between)[13], format!("n=13, x={}, s=v", Value::Float64(13.0 / 3.0)));
    assert_eq!(rows_of(&held.refresh().unwrap()), newest);
    is_good(&table);
    assert_eq!(compact_with(&table, REWRITE, |_, _| ()).unwrap(), 0);
    assert_eq!(rows_of(&open(&table).unwrap()), newest);
    is_good(&table);
}

/// The segment behind a change is damaged: what is before it stays, in the schema that it has.
#[test]
fn damage_is_found_and_repaired_in_tables_of_two_schemas() {
    let (_folder, table) = place();
    write(&table, "n: int32", &small(), (0..3).map(|n| vec![Value::Int(n)]));
    for n in 3..5 {
        write(&table, "n: int64, a: text", &small(), [vec![Value::Int(n), Value::Str("text")]]);
    }
    is_good(&table);
    let segment = table.join(format!("{:020}.arrow", 3));
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(8).position(|at| at == b"texttext").unwrap();
    bytes[at + 4] = 0xff;
    std::fs::write(&segment, bytes).unwrap();
    assert!(!arrowwood::check(&table, |_, _| ()).unwrap().is_good());
    arrowwood::repair(&table, |_, _| ()).unwrap();
    is_good(&table);
    assert_eq!(
        rows_of(&open(&table).unwrap()),
        ["n=0, a=null", "n=1, a=null", "n=2, a=null", "n=3, a=text", "n=4, a=?ext"]
    );
    // A segment with a schema that no change leads to is none of the table.
    let (_other, other) = place();
    write(&other, "n: text", &small(), (0..3).map(|_| vec![Value::Str("x")]));
    std::fs::copy(other.join(format!("{:020}.arrow", 0)), table.join(format!("{:020}.arrow", 0))).unwrap();
    let report = arrowwood::check(&table, |_, _| ()).unwrap();
    assert!(!report.is_good());
    let error = open(&table).unwrap().row(0).unwrap().get(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.to_string().contains("'n' is utf8"), "{error}");
}

#[test]
fn a_writer_killed_at_any_step_of_a_change_leaves_the_old_schema_or_the_new_one() {
    for rows in [0, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (live, shots) = (folder.path().join("live"), folder.path().join("shots"));
        std::fs::create_dir(&live).unwrap();
        let camera = Arc::new(Camera::default());
        let medium = FileSystem::with_observer(camera.clone());
        let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
        let mut writer = Writer::open(live.join("ticks"), Some(schema("n: int32, s: category")), &options).unwrap();
        (0..rows).for_each(|n| writer.append_row(&[Value::Int(n), Value::Str("x")]).unwrap());
        writer.commit_with(&[("feed", rows)]).unwrap();
        *camera.folders.lock().unwrap() = Some((live, shots.clone()));
        writer.alter(&schema("n: int64, s: text, vol: float64")).unwrap();
        *camera.folders.lock().unwrap() = None;
        let (mut old, mut new) = (0, 0);
        for shot in 0..camera.shots.load(Ordering::SeqCst) {
            let parent = shots.join(shot.to_string());
            let table = parent.join("ticks");
            let seen = open(&table).unwrap();
            let columns = seen.schema().fields().len();
            let more = if columns == 3 { ", vol=null" } else { "" };
            let expected: Vec<String> = (0..rows).map(|n| format!("n={n}, s=x{more}")).collect();
            assert_eq!(rows_of(&seen), expected, "step {shot}");
            let writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
            let after = writer.schema().fields().len();
            assert!(columns <= after && [2, 3].contains(&after), "step {shot}: {columns} columns, then {after}");
            *(if after == 2 { &mut old } else { &mut new }) += 1;
            assert_eq!(writer.positions()["feed"], rows);
            drop(writer);
            assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 1, "step {shot}: nothing is left beside the table");
            // The same change, again or at last.
            write(
                &table,
                "n: int64, s: text, vol: float64",
                &WriterOptions::default(),
                [vec![Value::Int(1 << 40), Value::Str("x"), Value::Float64(0.5)]],
            );
            assert_eq!(rows_of(&open(&table).unwrap()).len() as i64, rows + 1);
            assert_eq!(open(&table).unwrap().positions().unwrap()["feed"], rows);
            is_good(&table);
        }
        assert!(old > 0 && new > 0, "{old} with the old schema, {new} with the new one");
    }
}

/// A partition has a schema of its own: the dataset of all has the columns of each.
#[test]
fn partitions_of_several_schemas_are_one_dataset() {
    let (_folder, table) = place();
    std::fs::create_dir(&table).unwrap();
    let at = |host: &str| table.join(format!("host={host}"));
    write(&at("a"), "n: int32 not null, s: text", &small(), [vec![Value::Int(1), Value::Str("x")]]);
    let a = [String::from("n=1, s=x, host=a")];
    let alone = open(&table).unwrap();
    assert_eq!(rows_of(&alone), a);
    write(&at("b"), "vol: float32, n: int64 not null", &small(), [vec![Value::Float32(0.5), Value::Int(1 << 40)]]);
    let all = ["n=1, s=x, vol=null, host=a", "n=1099511627776, s=null, vol=0.5, host=b"];
    let two = open(&table).unwrap();
    let schema_of = |dataset: &Dataset| {
        let field = |field: &arrow_schema::FieldRef| format!("{} {}", field.data_type(), field.is_nullable());
        dataset.schema().fields().iter().map(field).collect::<Vec<_>>()
    };
    assert_eq!(schema_of(&two)[..3], ["Int64 false", "Utf8 true", "Float32 true"]);
    assert_eq!(rows_of(&two), all);
    assert_eq!(rows_of(&alone), a, "it stays");
    assert_eq!(rows_of(&alone.refresh().unwrap()), all);
    // Columns that were chosen, one of them that of partitions, which is another number now.
    let chosen = alone.select(&["host", "n"]).unwrap().with_names(&["where", "n"]).unwrap();
    assert_eq!(rows_of(&chosen.refresh().unwrap())[1], "where=b, n=1099511627776");
    assert_eq!(two.filter(&col("host").eq("b")).unwrap().len().unwrap(), 1);
    assert_eq!(two.filter(&col("vol").gt(0.25)).unwrap().len().unwrap(), 1);
    assert_eq!(two.column("n").unwrap().sum().unwrap().to_string(), ((1_i64 << 40) + 1).to_string());
    // A follower of all goes on when one of them changes, and when one comes.
    let mut followed = follow_partitions(&two, &FollowFrom::Now).unwrap();
    let mut next = || followed.poll(PATIENCE).unwrap().map(|(name, rows)| (name, rows_of(&rows)));
    write(
        &at("a"),
        "n: int32, s: text, vol: float64",
        &small(),
        [vec![Value::Int(2), Value::Null, Value::Float64(0.1)]],
    );
    assert_eq!(next(), Some(("host=a".into(), vec!["n=2, s=null, vol=0.1, host=a".into()])));
    write(&at("c"), "n: int8, flag: bool", &small(), [vec![Value::Int(3), Value::Bool(true)]]);
    assert_eq!(next(), Some(("host=c".into(), vec!["n=3, s=null, vol=null, flag=true, host=c".into()])));
    let newest = two.refresh().unwrap();
    assert_eq!(schema_of(&newest)[..3], ["Int64 true", "Utf8 true", "Float64 true"]);
    assert_eq!(rows_of(&newest).len(), 4);
    assert_eq!(rows_of(&newest), rows_of(&open(&table).unwrap()));
    assert_eq!(newest.schema(), open(&table).unwrap().schema());
    assert_eq!(rows_of(&two), all, "it stays");
    // What does not go together names both.
    write(&at("d"), "n: text", &small(), [vec![Value::Str("x")]]);
    for error in [open(&table).unwrap_err(), newest.refresh().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        let message = error.to_string();
        assert!(message.contains("host=d") && message.contains("host=a") && message.contains("'n' is"), "{message}");
    }
}

/// Zones are of values as they are stored: a condition finds the same rows in segments of each schema, before and after they
/// are merged and rewritten.
#[test]
fn indexed_columns_are_widened_and_new_ones_are_indexed() {
    let (_folder, table) = place();
    let indexed = |names: &[&str]| WriterOptions {
        index: Some(names.iter().map(ToString::to_string).collect()),
        zone_rows: Some(4),
        ..small()
    };
    let number = |n: i64| Value::Int(n * 37 % 101 - 50);
    write(&table, "n: int8", &indexed(&["n"]), (0..30).map(|n| vec![number(n)]));
    let more = (30..75).map(|n| vec![Value::Int((n * 37 % 101 - 50) * 1_000), Value::Float64(n as f64)]);
    write(&table, "n: int64, x: float64", &indexed(&["n", "x"]), more);
    let check = |state: &str| {
        let dataset = open(&table).unwrap();
        let all: Vec<(Option<i64>, Option<f64>)> = dataset
            .rows()
            .map(|row| {
                let row = row.unwrap();
                let n = match row.get(0).unwrap() {
                    Value::Int(n) => Some(n),
                    _ => None,
                };
                let x = match row.get(1).unwrap() {
                    Value::Float64(x) => Some(x),
                    _ => None,
                };
                (n, x)
            })
            .collect();
        assert_eq!(all.len(), 75, "{state}");
        for bound in [-60_000, -50, -7, 0, 13, 49, 50, 51, 12_000, 60_000] {
            let found = dataset.filter(&col("n").gt(bound)).unwrap().len().unwrap();
            let expected = all.iter().filter(|(n, _)| n.is_some_and(|n| n > bound)).count();
            assert_eq!(found as usize, expected, "n > {bound}, {state}");
        }
        for bound in [-1.0, 29.5, 30.0, 52.0, 80.0] {
            let found = dataset.filter(&col("x").le(bound)).unwrap().len().unwrap();
            let expected = all.iter().filter(|(_, x)| x.is_some_and(|x| x <= bound)).count();
            assert_eq!(found as usize, expected, "x <= {bound}, {state}");
        }
        assert_eq!(dataset.filter(&col("x").is_null()).unwrap().len().unwrap(), 30, "{state}");
        is_good(&table);
    };
    check("as they grew");
    compact(&table, |_, _| ()).unwrap();
    check("merged");
    compact_with(&table, REWRITE, |_, _| ()).unwrap();
    check("in one schema");
    write(&table, "n: int64, x: float64", &indexed(&["x"]), [vec![Value::Int(1), Value::Null]]);
    assert_eq!(open(&table).unwrap().filter(&col("n").eq(1)).unwrap().len().unwrap() % 2, 1);
}

/// Each partition is changed by a commit of its own. One that can't be is named, and changed when it is done again.
#[test]
fn all_partitions_of_a_directory_are_altered() {
    let (_folder, table) = place();
    let at = |host: &str, day: i32| table.join(format!("host={host}/day={day}"));
    for (number, (host, day)) in [("a", 1), ("a", 2), ("b", 1)].into_iter().enumerate() {
        std::fs::create_dir_all(table.join(format!("host={host}"))).unwrap();
        write(&at(host, day), "n: int32 not null", &small(), [vec![Value::Int(number as i64)]]);
    }
    let before = open(&table).unwrap();
    let (add, widen) = (parse_schema("vol: float64").unwrap(), parse_schema("n: int64").unwrap());
    let change = || alter(&table, &add, &widen, &[]);
    let busy = Writer::open(at("a", 2), None, &small()).unwrap();
    let error = change().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let said = error.message();
    assert!(said.contains("1 of 3 partitions") && said.contains("host=a/day=2") && !said.contains("day=1"), "{said}");
    let types = |host: &str, day: i32| {
        let dataset = open(at(host, day)).unwrap();
        dataset.schema().fields().iter().map(|field| field.data_type().to_string()).collect::<Vec<_>>()
    };
    assert_eq!([types("a", 1), types("b", 1)], [["Int64", "Float64"], ["Int64", "Float64"]]);
    assert_eq!(types("a", 2), ["Int32"]);
    let all = |n: usize, host: &str, day: usize| format!("n={n}, vol=null, host={host}, day={day}");
    let all = [all(0, "a", 1), all(1, "a", 2), all(2, "b", 1)];
    assert_eq!(rows_of(&open(&table).unwrap()), all);
    busy.close().unwrap();
    assert!(change().unwrap());
    assert!(!change().unwrap(), "they are so already");
    assert_eq!(types("a", 2), ["Int64", "Float64"]);
    assert_eq!(rows_of(&before.refresh().unwrap()), all);
    assert_eq!(rows_of(&before)[2], "n=2, host=b, day=1", "it stays");
    // The name of a partition column, at any level.
    for key in ["host: text", "day: int64"] {
        let error = alter(&table, &parse_schema(key).unwrap(), &widen, &[]).unwrap_err();
        assert!(error.message().contains("names of directories"), "{error}");
    }
    // What none of them takes is said of each, and nothing is changed.
    let error = alter(&table, &add, &parse_schema("n: int8").unwrap(), &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.message().contains("3 of 3 partitions"), "{error}");
    assert_eq!(rows_of(&open(&table).unwrap()), all);
}

/// After half of such a change the dataset of all could not be opened any more.
#[test]
fn a_change_that_one_partition_can_not_have_changes_none() {
    let (_folder, table) = place();
    std::fs::create_dir(&table).unwrap();
    let at = |host: &str| table.join(format!("host={host}"));
    for (number, host) in ["a", "b", "c"].into_iter().enumerate() {
        write(&at(host), "n: int32", &small(), [vec![Value::Int(number as i64)]]);
    }
    let nothing = Schema::empty();
    assert!(alter(at("b"), &parse_schema("x: utf8").unwrap(), &nothing, &[]).unwrap());
    let before = rows_of(&open(&table).unwrap());
    let refused = |add: &str, widen: &str| {
        let widen = if widen.is_empty() { Schema::empty() } else { parse_schema(widen).unwrap() };
        let error = alter(&table, &parse_schema(add).unwrap(), &widen, &[]).unwrap_err();
        assert!(error.message().contains("no partition was changed"), "{error}");
        assert_eq!(rows_of(&open(&table).unwrap()), before);
        assert_eq!(open(at("a")).unwrap().schema().fields().len(), 1);
        error.message().to_owned()
    };
    let said = refused("x: int64", "");
    assert!(said.contains("1 of 3 partitions") && said.contains("host=b: add"), "{said}");
    // Of the others, which lack the column to be widened.
    assert!(refused("z: int64", "x: int64").contains("partitions can't have this"));
    assert!(alter(&table, &parse_schema("x: utf8").unwrap(), &parse_schema("n: int64").unwrap(), &[]).unwrap());
    assert_eq!(open(at("c")).unwrap().schema().fields().len(), 2);
}

/// A batch that did not fit into the empty segment behind a change of the schema had a larger one take its place, and was
/// then refused. The writer went on as if the new file had the dictionary of the old one: rows were read back with other
/// values, or as damage.
#[test]
fn a_refused_append_leaves_the_dictionary_of_a_segment_that_was_replaced() {
    for known in [&["AAPL", "IBM", "MSFT"][..], &["AAPL", "IBM", "INTC"]] {
        let (_folder, table) = place();
        let options = WriterOptions {
            sorted_by: Some("ts".into()),
            dictionary: vec!["symbol".into()],
            segment_rows: Some(65_536),
            ..WriterOptions::default()
        };
        let columns = "symbol: utf8, text: utf8, ts: int64 not null";
        let wider = "symbol: utf8, text: utf8, ts: int64 not null, extra: int64";
        let row = |symbol, text, ts| vec![Value::Str(symbol), Value::Str(text), Value::Int(ts)];
        write(&table, columns, &options, [row("AAPL", "a", 1), row("IBM", "b", 2), row("MSFT", "c", 3)]);
        let mut writer = Writer::open(&table, Some(schema(wider)), &options).unwrap();
        let large = "x".repeat(6 << 20);
        let rows = |symbols: &[&str], text: &str, first: i64| {
            let count = symbols.len();
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from(symbols.to_vec())),
                Arc::new(StringArray::from(vec![text; count])),
                Arc::new(Int64Array::from_iter_values(first..first + count as i64)),
                new_null_array(&DataType::Int64, count),
            ];
            RecordBatch::try_new(schema(wider), columns).unwrap()
        };
        let batches = vec![rows(&["IBM"], &large, 4), rows(&["IBM"], "late", 1)];
        let refused = writer.append_dataset(&Dataset::try_from(batches).unwrap()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        writer.append(&rows(known, "d", 5)).unwrap();
        writer.commit().unwrap();
        let symbols = || -> Vec<String> {
            let dataset = open(&table).unwrap();
            rows_of(&dataset);
            let rows = dataset.rows();
            rows.map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
        };
        let expected = [&["AAPL", "IBM", "MSFT"][..], known].concat();
        assert_eq!(symbols(), expected);
        writer.close().unwrap();
        is_good(&table);
        let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        writer.append(&rows(&["MSFT"], "e", 8)).unwrap();
        writer.close().unwrap();
        assert_eq!(symbols(), [&expected[..], &["MSFT"]].concat());
    }
}
