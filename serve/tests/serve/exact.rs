//! Tests what the page of `view` gets for a value: its complete text, a condition for exactly the rows that have it,
//! and the identity of its file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, Value, WriteOptions, Writer, WriterOptions, parse_schema, write};
use serde_json::{Value as Json, json};

use crate::samples::samples;
use crate::view::Viewed;

/// Repeats the rows of an array `times` times, up to `len` rows.
fn repeat_array(array: &ArrayRef, times: usize, len: usize) -> ArrayRef {
    let places: UInt64Array = (0..times * len).map(|row| (row % len % array.len()) as u64).collect();
    let own = array.to_data();
    let mut data = arrow_data::transform::MutableArrayData::new(vec![&own], true, places.len());
    for &place in places.values() {
        data.try_extend(0, place as usize, place as usize + 1).unwrap();
    }
    make_array(data.freeze())
}

fn write_file(path: &Path, columns: Vec<(String, ArrayRef)>, times: usize) {
    let len = columns.iter().map(|(_, array)| array.len()).max().unwrap();
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    let arrays = columns.iter().map(|(_, array)| repeat_array(array, times, len)).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), path, &WriteOptions::default()).unwrap();
}

/// Returns true if two values are the same: floats as numbers, with NaN equal to itself, and all others exactly.
fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    let number = |value: &Value<'_>| match value {
        Value::Float32(x) => Some(f64::from(*x)),
        Value::Float64(x) => Some(*x),
        _ => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan(),
        _ => a.is_null() == b.is_null() && a.to_json().unwrap() == b.to_json().unwrap(),
    }
}

/// Returns true if conditions can compare values of a type.
fn is_comparable(data_type: &DataType) -> bool {
    let is_other = matches!(data_type, DataType::Interval(_) | DataType::RunEndEncoded(..) | DataType::Union(..));
    !is_other && (!data_type.is_nested() || matches!(data_type, DataType::Dictionary(..)))
}

fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Returns the numbers of the rows that match a condition.
fn matching_rows(viewed: &Viewed, table: &str, condition: &str) -> Vec<u64> {
    let view = viewed.view(&format!("/v1/tables/{table}/views?where={}", escaped(condition)));
    let id = view["view"].as_str().unwrap_or_else(|| panic!("{condition}: {view}"));
    let cells = viewed.json(&format!("/v1/tables/{table}/cells?view={id}&at=0"));
    let rows: Vec<u64> = cells["rows"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap()).collect();
    assert_eq!(view["rows"], rows.len());
    rows
}

/// Returns columns with values that a display, or the text of a condition, could change.
fn hard_columns() -> Vec<(String, ArrayRef)> {
    let long = "x".repeat(20_000);
    let texts = vec![
        Some("a\nb"),
        Some(r"a\nb"),
        Some("a\tb"),
        Some("it's \"so\""),
        Some("' or 1 == 1 --"),
        Some(""),
        Some("null"),
        None,
        Some(&long),
        Some(&long[1..]),
        Some("\u{202e}abc"),
        Some(" a "),
    ];
    let bytes: Vec<Option<&[u8]>> =
        vec![Some(b"\xff\x00"), Some(b""), Some(b"ff00"), None, Some(&[7; 40]), Some(&[7; 41]), Some(&[9; 3_000])];
    let floats =
        [0.1 + 0.2, 0.3, f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 1e300, 5e-324, -1.5];
    let lists = || {
        let mut lists = ListBuilder::new(Float64Builder::new());
        lists.append_value([Some(0.1 + 0.2)]);
        lists.append_null();
        lists.finish()
    };
    let seconds = vec![Some(0), Some(1_700_000_000), None, Some(i64::MAX), Some(i64::MIN), Some(-1)];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from(texts.clone()))),
        ("large text", Arc::new(LargeStringArray::from(texts.clone()))),
        ("view \"of\" text", Arc::new(StringViewArray::from(texts.clone()))),
        ("word", Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>())),
        ("null", Arc::new(BinaryArray::from(bytes.clone()))),
        ("NOT", Arc::new(BinaryViewArray::from(bytes))),
        ("float", Arc::new(Float64Array::from_iter(floats.map(Some).into_iter().chain([None])))),
        ("single", Arc::new(Float32Array::from_iter(floats.map(|x| Some(x as f32)).into_iter().chain([Some(0.1)])))),
        ("int", Arc::new(Int64Array::from(vec![9_007_199_254_740_993, 9_007_199_254_740_992, i64::MIN, i64::MAX]))),
        ("unsigned", Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 1, 0]))),
        ("list", Arc::new(lists())),
        ("utc", Arc::new(TimestampSecondArray::from(seconds.clone()).with_timezone("UTC"))),
        ("paris", Arc::new(TimestampNanosecondArray::from(seconds.clone()).with_timezone("Europe/Paris"))),
        ("offset", Arc::new(TimestampMicrosecondArray::from(seconds.clone()).with_timezone("+05:30"))),
        ("local", Arc::new(TimestampMillisecondArray::from(seconds.clone()))),
        ("day", Arc::new(Date32Array::from(vec![0, -1, i32::MAX, i32::MIN]))),
        ("span", Arc::new(DurationNanosecondArray::from(seconds))),
        (
            "cents",
            Arc::new(
                Decimal128Array::from(vec![10i128.pow(37) + 1, 10i128.pow(37), -1])
                    .with_precision_and_scale(38, 2)
                    .unwrap(),
            ),
        ),
    ];
    columns.into_iter().map(|(name, array)| (name.to_owned(), array)).collect()
}

/// Writes a file with three rows of each type, and the hard columns.
fn write_all_columns(folder: &Path) -> PathBuf {
    let path = folder.join("a.arrow");
    let all = samples().into_iter().enumerate().map(|(number, array)| (format!("c{number}"), array));
    write_file(&path, hard_columns().into_iter().chain(all).collect(), 2);
    path
}

#[test]
fn condition_of_a_cell_matches_exactly_the_rows_with_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_all_columns(folder.path());
    let rows = arrowwood::open(&path).unwrap();
    let viewed = Viewed::open(&path);
    let values = |column: usize| (0..rows.len().unwrap()).map(move |row| (row, column));
    for (row, column) in (0..rows.num_columns()).flat_map(values) {
        let own = rows.row(row).unwrap();
        let value = own.get(column).unwrap();
        let field = rows.schema().field(column).clone();
        let cell = viewed.json(&format!("/v1/tables/a.arrow/cell?row={row}&at={column}"));
        let Some(condition) = cell["condition"].as_str() else {
            assert!(!is_comparable(field.data_type()), "{field:?}, row {row}: no condition");
            continue;
        };
        assert!(condition.len() < 300 && !condition.contains(char::is_control), "{condition:?}");
        let is_equal = |other: &u64| is_same(&value, &rows.row(*other).unwrap().get(column).unwrap());
        let expected: Vec<u64> = (0..rows.len().unwrap()).filter(is_equal).collect();
        assert!(expected.contains(&row));
        assert_eq!(matching_rows(&viewed, "a.arrow", condition), expected, "{field:?}, row {row}: {condition}");
    }
}

#[test]
fn cell_text_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_all_columns(folder.path());
    let rows = arrowwood::open(&path).unwrap();
    let viewed = Viewed::open(&path);
    for (row, column) in (0..rows.num_columns()).flat_map(|column| [0, 2, 8].map(|row| (row, column))) {
        let own = rows.row(row).unwrap();
        let value = own.get(column).unwrap();
        let text = viewed.get(&format!("/v1/tables/a.arrow/text?row={row}&at={column}"));
        assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
        let expected = match &value {
            Value::Float64(_) | Value::Float32(_) | Value::Decimal { .. } => value.to_string(),
            Value::Date(_) | Value::Time(..) | Value::Timestamp(..) | Value::Duration(..) | Value::Interval { .. } => {
                value.to_string()
            }
            other => other.to_csv_cell().unwrap().into_owned(),
        };
        assert_eq!(text.text(), expected, "{row} {column}");
        let cell = viewed.json(&format!("/v1/tables/a.arrow/cell?row={row}&at={column}"));
        let first: String = expected.chars().take(16 << 10).collect();
        if value.is_null() {
            assert_eq!(cell["value"], Json::Null);
        } else {
            assert_eq!((&cell["value"], &cell["whole"]), (&json!(first), &json!(first.len() == expected.len())));
        }
    }
    for (query, status) in [
        ("row=24&at=0", 404),
        ("row=18446744073709551615&at=0", 404),
        ("row=-1&at=0", 400),
        ("row=0", 400),
        ("at=0", 400),
        ("row=0&at=999", 400),
        ("row=0&at=0,1", 400),
        ("row=0&at=0&width=3", 400),
    ] {
        assert_eq!(viewed.get(&format!("/v1/tables/a.arrow/text?{query}")).status, status, "{query}");
    }
}

/// Requests groups by some columns; returns the condition and the row count of each.
fn groups(viewed: &Viewed, by: &str) -> Vec<(Option<String>, usize)> {
    let response = viewed.view(&format!("/v1/tables/a.arrow/groups?at={by}"));
    let keys = response["keys"].as_u64().unwrap_or_else(|| panic!("{by}: {response}")) as usize;
    let rows = response["cells"].as_array().unwrap().iter().map(|cells| cells[keys].as_str().unwrap().parse().unwrap());
    let conditions = response["conditions"].as_array().unwrap().iter().map(|text| text.as_str().map(str::to_owned));
    conditions.zip(rows).collect()
}

#[test]
fn condition_of_a_group_matches_its_row_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_all_columns(folder.path());
    let rows = arrowwood::open(&path).unwrap();
    let viewed = Viewed::open(&path);
    let count = hard_columns().len();
    let mut grouped = 0;
    for column in 0..rows.num_columns() {
        let data_type = rows.schema().field(column).data_type();
        if viewed.get(&format!("/v1/tables/a.arrow/groups?at={column}")).status != 200 {
            assert!(data_type.is_nested() || column >= count, "{data_type}");
            continue;
        }
        for (condition, rows) in groups(&viewed, &column.to_string()) {
            let Some(condition) = condition else {
                assert!(!is_comparable(data_type), "column {column} has a group without a condition");
                continue;
            };
            assert_eq!(matching_rows(&viewed, "a.arrow", &condition).len(), rows, "{condition}");
            grouped += 1;
        }
    }
    assert!(grouped > 100, "{grouped} groups");
    for (condition, rows) in groups(&viewed, "0,6,4") {
        assert_eq!(matching_rows(&viewed, "a.arrow", &condition.unwrap()).len(), rows);
    }
    // Keys are sent with all their digits.
    let response = viewed.view("/v1/tables/a.arrow/groups?at=6");
    assert_eq!(
        (&response["cells"][0][0], &response["conditions"][0]),
        (&json!("0.30000000000000004"), &json!("float == 0.30000000000000004"))
    );
    assert_eq!(viewed.view("/v1/tables/a.arrow/groups?of=sum:8")["conditions"], json!([null]));
}

#[test]
fn most_frequent_values_have_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_all_columns(folder.path());
    let viewed = Viewed::open(&path);
    let schema = arrowwood::open(&path).unwrap().schema().clone();
    let check = |viewed: &Viewed, query: &str, is_comparable: bool| {
        let response = viewed.json(&format!("/v1/tables/a.arrow/statistics?{query}"));
        for value in response["top"]["values"].as_array().into_iter().flatten() {
            let Some(condition) = value[2].as_str() else {
                assert!(!is_comparable, "{query}: {value}");
                continue;
            };
            let view = viewed.view(&format!("/v1/tables/a.arrow/views?where={}", escaped(condition)));
            assert_eq!(view["rows"], value[1], "{query}: {condition}");
        }
        response
    };
    for (column, field) in schema.fields().iter().enumerate() {
        check(&viewed, &format!("at={column}&sample=true"), is_comparable(field.data_type()));
    }
    // With more rows than a sample has, conditions name rows by their number among all.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let [text, word] = [0, 3].map(|column| hard_columns()[column].clone());
    write_file(&path, vec![text, word], 8_000);
    let viewed = Viewed::open(&path);
    for column in 0..2 {
        assert_eq!(check(&viewed, &format!("at={column}"), true)["top"]["values"].as_array().unwrap().len(), 10);
        let sample = viewed.json(&format!("/v1/tables/a.arrow/statistics?at={column}&sample=true"));
        for value in sample["top"]["values"].as_array().unwrap() {
            assert_eq!(found_rows(&viewed, value[2].as_str().unwrap()), 8_000);
        }
    }
}

fn found_rows(viewed: &Viewed, condition: &str) -> u64 {
    viewed.view(&format!("/v1/tables/a.arrow/views?where={}", escaped(condition)))["rows"].as_u64().unwrap()
}

#[test]
fn cells_that_no_condition_can_express_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let numbers = |of: [i64; 2]| Arc::new(Int64Array::from(of.to_vec())) as ArrayRef;
    let columns = [("n", [1, 2]), ("n", [3, 4]), ("a\nb", [5, 6]), ("", [7, 8]), ("n ", [9, 10])];
    write_file(&path, columns.map(|(name, of)| (name.to_owned(), numbers(of))).to_vec(), 1);
    let viewed = Viewed::open(&path);
    // A condition can't distinguish two columns of the same name.
    for (column, condition) in
        [(0, Json::Null), (1, Json::Null), (2, Json::Null), (3, json!("\"\" == 8")), (4, json!("\"n \" == 10"))]
    {
        assert_eq!(viewed.json(&format!("/v1/tables/a.arrow/cell?row=1&at={column}"))["condition"], condition);
        if let Some(condition) = condition.as_str() {
            assert_eq!(matching_rows(&viewed, "a.arrow", condition), [1]);
        }
    }
    for (condition, says) in [
        ("\"n \" is as in row 2", "there is no row 2; there are rows 0 to before 2"),
        ("\"n \" is as in row 18446744073709551616", "the number of a row"),
        ("\"n \" is as in row 1.5", "the number of a row"),
        ("m is as in row 1", "there is no column 'm'"),
        ("n is as in row 1", "both called 'n'"),
        ("\"n \" is as in row 1 2", "expected 'and', 'or' or the end"),
    ] {
        let reply = viewed.get(&format!("/v1/tables/a.arrow/views?where={}", escaped(condition)));
        assert_eq!((reply.status, reply.text().contains(says)), (400, true), "{condition}: {}", reply.text());
    }
    let lists = repeat_array(&samples()[17], 1, 3);
    let path = folder.path().join("b.arrow");
    write_file(&path, vec![("list".into(), lists)], 1);
    let viewed = Viewed::open(&path);
    let reply = viewed.get("/v1/tables/b.arrow/views?where=list+is+as+in+row+0");
    assert_eq!((reply.status, reply.text().contains("can't be compared")), (400, true), "{}", reply.text());
    assert_eq!(matching_rows(&viewed, "b.arrow", "list is as in row 1"), [1]);
}

#[test]
fn conditions_work_in_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let schema = Arc::new(parse_schema("s: utf8, n: int").unwrap());
    let options = WriterOptions { segment_rows: Some(4), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(schema), &options).unwrap();
    for n in 0..12 {
        writer.append_row(&[Value::Str(if n % 3 == 0 { "a\nb" } else { "ok" }), Value::Int(n)]).unwrap();
    }
    writer.commit().unwrap();
    writer.drop_before(4).unwrap();
    writer.close().unwrap();
    let viewed = Viewed::open(&path);
    let cell = viewed.json("/v1/tables/t/cell?row=9&at=0");
    assert_eq!(cell["condition"], "s is as in row 9");
    assert_eq!(matching_rows(&viewed, "t", "s is as in row 9"), [6, 9]);
    assert_eq!(matching_rows(&viewed, "t", "s is not as in row 9 and n > 9"), [10, 11]);
    let rows = viewed.get("/v1/tables/t/rows?where=s+is+as+in+row+9&format=csv&columns=n").text();
    assert_eq!(rows, "n\n6\n9\n");
    let groups = viewed.view("/v1/tables/t/groups?at=0&where=s+is+as+in+row+9");
    assert_eq!(groups["cells"], json!([["a\\nb", "2"]]));
    assert_eq!(groups["conditions"], json!(["s is as in row 6"]));
    let reply = viewed.get("/v1/tables/t/rows?where=s+is+as+in+row+3");
    assert_eq!((reply.status, reply.text().contains("there are rows 4 to before 12")), (400, true), "{}", reply.text());
}

/// All requests that the page makes about a file.
const ASKED: [&str; 12] = [
    "cells?at=0",
    "cell?row=0&at=0",
    "text?row=0&at=0",
    "rows?format=csv",
    "rows?where=price+%3E+0&format=csv",
    "views?where=price+%3E+0",
    "groups?at=0",
    "groups?at=0&format=csv",
    "statistics?at=0",
    "bins?at=0",
    "messages",
    "seek?value=3&at=0",
];

fn prices(path: &Path, names: [&str; 2], first: i64) {
    let column = |from: i64| Arc::new(Int64Array::from_iter_values(from..from + 100)) as ArrayRef;
    write_file(path, vec![(names[0].to_owned(), column(first)), (names[1].to_owned(), column(-first))], 1);
}

#[test]
fn replaced_file_is_detected_by_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let other = folder.path().join("other");
    prices(&path, ["price", "qty"], 1_000);
    let viewed = Viewed::open(&path);
    let snapshot = viewed.json("/v1/tables/a.arrow")["snapshot"].as_str().unwrap().to_owned();
    let ask = |asked: &str, snapshot: &str| {
        let sign = if asked.contains('?') { '&' } else { '?' };
        viewed.get(&format!("/v1/tables/a.arrow/{asked}{sign}snapshot={snapshot}"))
    };
    for asked in ASKED {
        let reply = ask(asked, &snapshot);
        assert_eq!((reply.status, reply.header("arrowwood-snapshot")), (200, Some(snapshot.as_str())), "{asked}");
        assert_eq!(
            viewed.get(&format!("/v1/tables/a.arrow/{asked}")).header("arrowwood-snapshot"),
            Some(snapshot.as_str())
        );
    }
    let view = viewed.view("/v1/tables/a.arrow/views?where=price+%3E+1050")["view"].as_str().unwrap().to_owned();
    let mut before = snapshot;
    // Replaces the file by a rename, and in place: with columns in another order, and with the same columns and size.
    for (names, first, is_renamed) in
        [(["qty", "price"], 5_000, true), (["qty", "price"], 6_000, true), (["qty", "price"], 7_000, false)]
    {
        prices(&other, names, first);
        if is_renamed {
            fs::rename(&other, &path).unwrap();
        } else {
            rewrite(&path, &fs::read(&other).unwrap());
        }
        for asked in ASKED {
            let reply = ask(asked, &before);
            assert_eq!((reply.status, reply.code().as_str()), (409, "file_changed"), "{asked}: {}", reply.text());
        }
        let reply = viewed.get(&format!("/v1/tables/a.arrow/cells?view={view}"));
        assert_eq!((reply.status, reply.code().as_str()), (404, "no_view"));
        let now = viewed.json("/v1/tables/a.arrow")["snapshot"].as_str().unwrap().to_owned();
        assert_ne!(now, before);
        let reply = ask("cells?at=0&to=1", &now);
        assert!(reply.text().contains(&first.to_string()), "{}", reply.text());
        before = now;
    }
    assert_eq!(ask("cells?at=0", "nonsense").status, 409);
    assert_eq!(viewed.get("/v1/tables/a.arrow/cells?snapshot=a&snapshot=b").status, 400);
    fs::remove_file(&path).unwrap();
    assert_eq!(ask("cells?at=0", &before).status, 404);
}

/// Writes a file in place, at another time than it had. Times of files are those of the system's last tick.
fn rewrite(path: &Path, bytes: &[u8]) {
    let time = || fs::metadata(path).unwrap().modified().unwrap();
    let before = time();
    crate::wait::wait_until("another time of the file", || {
        fs::write(path, bytes).unwrap();
        time() != before
    });
}

#[test]
fn table_keeps_its_snapshot_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let open = |schema: &str| {
        let schema = Arc::new(parse_schema(schema).unwrap());
        Writer::open(&path, Some(schema), &WriterOptions::default()).unwrap()
    };
    let mut writer = open("n: int");
    let mut append = |n: i64| {
        writer.append_row(&[Value::Int(n)]).unwrap();
        writer.commit().unwrap();
    };
    append(1);
    let viewed = Viewed::open(&path);
    let facts = || viewed.json("/v1/tables/t");
    let snapshot = facts()["snapshot"].as_str().unwrap().to_owned();
    append(2);
    assert_eq!((&facts()["end"], &facts()["snapshot"]), (&json!(2), &json!(snapshot)));
    let cells = format!("/v1/tables/t/cells?snapshot={snapshot}");
    assert_eq!(viewed.json(&cells)["cells"], json!([["1"], ["2"]]));
    writer.close().unwrap();
    // After a change of the schema, column numbers may have another meaning.
    assert!(arrowwood::alter(&path, &parse_schema("m: int").unwrap(), &Schema::empty(), &[]).unwrap());
    assert_eq!(viewed.get(&cells).code(), "file_changed");
    let altered = facts()["snapshot"].as_str().unwrap().to_owned();
    assert_eq!(
        viewed.json(&format!("/v1/tables/t/cells?snapshot={altered}"))["cells"],
        json!([["1", null], ["2", null]])
    );
    // Another table takes the name.
    fs::rename(&path, folder.path().join("old")).unwrap();
    let mut writer = open("n: int, m: int");
    writer.append_row(&[Value::Int(7), Value::Null]).unwrap();
    writer.close().unwrap();
    assert_eq!(viewed.get(&format!("/v1/tables/t/cells?snapshot={altered}")).code(), "file_changed");
}
