//! Tests what the page of `view` gets for a value: its complete text, a condition for exactly the rows that have it,
//! and the identity of its file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, Value, WriteOptions, Writer, WriterOptions, parse_schema, write};
use serde_json::{Value as Json, json};

use crate::samples::samples;
use crate::support::{Reply, wait_until};
use crate::view::ViewServer;

/// The length in characters at which the text of a cell is cut off, unless it is requested by itself.
const MAX_CELL_TEXT: usize = 16 << 10;

/// Repeats an array up to `len` rows, and the result `times` times.
fn repeat_array(array: &ArrayRef, times: usize, len: usize) -> ArrayRef {
    let data = array.to_data();
    let mut repeated = MutableArrayData::new(vec![&data], true, times * len);
    for row in 0..times * len {
        let source_row = row % len % array.len();
        repeated.try_extend(0, source_row, source_row + 1).unwrap();
    }
    make_array(repeated.freeze())
}

/// Writes a file with `times` times as many rows as the longest column. Shorter columns are repeated.
fn write_file(path: &Path, columns: Vec<(String, ArrayRef)>, times: usize) {
    let len = columns.iter().map(|(_, array)| array.len()).max().unwrap();
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (name, array) in &columns {
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(repeat_array(array, times, len));
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), path, &WriteOptions::default()).unwrap();
}

/// Returns the number that a value of a float type is.
fn float_value(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Float32(x) => Some(f64::from(*x)),
        Value::Float64(x) => Some(*x),
        _ => None,
    }
}

/// Returns true if two values are the same: floats as numbers, with NaN equal to itself, and all others exactly.
fn is_same(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (float_value(left), float_value(right)) {
        (Some(left), Some(right)) => left == right || left.is_nan() && right.is_nan(),
        _ => left.is_null() == right.is_null() && left.to_json().unwrap() == right.to_json().unwrap(),
    }
}

/// Returns the rows whose value in a column is the same as in `row`.
fn rows_with_same_value(dataset: &Dataset, row: u64, column: usize) -> Vec<u64> {
    let row = dataset.row(row).unwrap();
    let value = row.get(column).unwrap();
    let mut same = Vec::new();
    for other in 0..dataset.len().unwrap() {
        if is_same(&value, &dataset.row(other).unwrap().get(column).unwrap()) {
            same.push(other);
        }
    }
    same
}

/// Returns true if conditions can compare values of a type.
fn is_comparable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::Interval(_) | DataType::RunEndEncoded(..) | DataType::Union(..) => false,
        _ => !data_type.is_nested(),
    }
}

fn url_encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Filters a table by a condition; returns the response.
fn filter(server: &ViewServer, table: &str, condition: &str) -> Json {
    server.get_last_line(&format!("/v1/tables/{table}/views?where={}", url_encode(condition)))
}

/// Returns the numbers of the rows that match a condition.
fn matching_rows(server: &ViewServer, table: &str, condition: &str) -> Vec<u64> {
    let response = filter(server, table, condition);
    let view = response["view"].as_str().unwrap_or_else(|| panic!("{condition}: {response}"));
    let cells = server.get_json(&format!("/v1/tables/{table}/cells?view={view}&at=0"));
    let rows: Vec<u64> = serde_json::from_value(cells["rows"].clone()).unwrap();
    assert_eq!(response["rows"], rows.len());
    rows
}

/// Asserts that a condition is refused with a message that contains `message`.
#[track_caller]
fn assert_condition_refused(server: &ViewServer, table: &str, condition: &str, message: &str) {
    server.assert_refused(&format!("/v1/tables/{table}/views?where={}", url_encode(condition)), 400, message);
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
    let doubles: Float64Array = floats.map(Some).into_iter().chain([None]).collect();
    let singles: Float32Array = floats.map(|x| Some(x as f32)).into_iter().chain([Some(0.1)]).collect();
    let mut lists = ListBuilder::new(Float64Builder::new());
    lists.append_value([Some(0.1 + 0.2)]);
    lists.append_null();
    let cents = Decimal128Array::from(vec![10i128.pow(37) + 1, 10i128.pow(37), -1]);
    let cents = cents.with_precision_and_scale(38, 2).unwrap();
    let seconds = vec![Some(0), Some(1_700_000_000), None, Some(i64::MAX), Some(i64::MIN), Some(-1)];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from(texts.clone()))),
        ("large text", Arc::new(LargeStringArray::from(texts.clone()))),
        ("view \"of\" text", Arc::new(StringViewArray::from(texts.clone()))),
        ("word", Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>())),
        ("null", Arc::new(BinaryArray::from(bytes.clone()))),
        ("NOT", Arc::new(BinaryViewArray::from(bytes))),
        ("float", Arc::new(doubles)),
        ("single", Arc::new(singles)),
        ("int", Arc::new(Int64Array::from(vec![9_007_199_254_740_993, 9_007_199_254_740_992, i64::MIN, i64::MAX]))),
        ("unsigned", Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 1, 0]))),
        ("list", Arc::new(lists.finish())),
        ("utc", Arc::new(TimestampSecondArray::from(seconds.clone()).with_timezone("UTC"))),
        ("paris", Arc::new(TimestampNanosecondArray::from(seconds.clone()).with_timezone("Europe/Paris"))),
        ("offset", Arc::new(TimestampMicrosecondArray::from(seconds.clone()).with_timezone("+05:30"))),
        ("local", Arc::new(TimestampMillisecondArray::from(seconds.clone()))),
        ("day", Arc::new(Date32Array::from(vec![0, -1, i32::MAX, i32::MIN]))),
        ("span", Arc::new(DurationNanosecondArray::from(seconds))),
        ("cents", Arc::new(cents)),
    ];
    columns.into_iter().map(|(name, array)| (name.to_owned(), array)).collect()
}

/// Writes a file with three rows of each type, and the hard columns, which come first.
fn write_all_columns(folder: &Path) -> PathBuf {
    let path = folder.join("a.arrow");
    let mut columns = hard_columns();
    for (number, array) in samples().into_iter().enumerate() {
        columns.push((format!("c{number}"), array));
    }
    write_file(&path, columns, 2);
    path
}

#[test]
fn condition_of_a_cell_matches_exactly_the_rows_with_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_all_columns(folder.path());
    let dataset = arrowwood::open(&path).unwrap();
    let server = ViewServer::open(&path);
    for (column, field) in dataset.schema().fields().iter().enumerate() {
        for row in 0..dataset.len().unwrap() {
            let cell = server.get_json(&format!("/v1/tables/a.arrow/cell?row={row}&at={column}"));
            let Some(condition) = cell["condition"].as_str() else {
                assert!(!is_comparable(field.data_type()), "{field:?}, row {row}: no condition");
                continue;
            };
            assert!(condition.len() < 300 && !condition.contains(char::is_control), "{condition:?}");
            let expected = rows_with_same_value(&dataset, row, column);
            assert!(expected.contains(&row));
            assert_eq!(matching_rows(&server, "a.arrow", condition), expected, "{field:?}, row {row}: {condition}");
        }
    }
}

/// Returns the complete text of a cell.
fn cell_text(value: &Value<'_>) -> String {
    match value {
        Value::Float64(_)
        | Value::Float32(_)
        | Value::Decimal { .. }
        | Value::Date(_)
        | Value::Time(..)
        | Value::Timestamp(..)
        | Value::Duration(..)
        | Value::Interval { .. } => value.to_string(),
        other => other.to_csv_cell().unwrap().into_owned(),
    }
}

#[test]
fn cell_text_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_all_columns(folder.path());
    let dataset = arrowwood::open(&path).unwrap();
    let server = ViewServer::open(&path);
    for column in 0..dataset.num_columns() {
        for row_number in [0, 2, 8] {
            let row = dataset.row(row_number).unwrap();
            let value = row.get(column).unwrap();
            let expected = cell_text(&value);
            let reply = server.get(&format!("/v1/tables/a.arrow/text?row={row_number}&at={column}"));
            assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
            assert_eq!(reply.text(), expected, "{row_number} {column}");

            let cell = server.get_json(&format!("/v1/tables/a.arrow/cell?row={row_number}&at={column}"));
            if value.is_null() {
                assert_eq!(cell["value"], Json::Null);
            } else {
                let beginning: String = expected.chars().take(MAX_CELL_TEXT).collect();
                assert_eq!(cell["value"], beginning);
                assert_eq!(cell["whole"], beginning == expected);
            }
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
        assert_eq!(server.get(&format!("/v1/tables/a.arrow/text?{query}")).status, status, "{query}");
    }
}

/// A group of a response.
struct Group {
    condition: Option<String>,
    row_count: usize,
}

/// Requests groups by some columns.
fn get_groups(server: &ViewServer, columns: &str) -> Vec<Group> {
    let response = server.get_last_line(&format!("/v1/tables/a.arrow/groups?at={columns}"));
    let key_count = response["keys"].as_u64().unwrap_or_else(|| panic!("{columns}: {response}")) as usize;
    let cells = response["cells"].as_array().unwrap();
    let conditions = response["conditions"].as_array().unwrap();
    let mut groups = Vec::new();
    for (condition, cells) in conditions.iter().zip(cells) {
        groups.push(Group {
            condition: condition.as_str().map(str::to_owned),
            // The row count follows the keys.
            row_count: cells[key_count].as_str().unwrap().parse().unwrap(),
        });
    }
    groups
}

#[test]
fn condition_of_a_group_matches_its_row_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_all_columns(folder.path());
    let dataset = arrowwood::open(&path).unwrap();
    let server = ViewServer::open(&path);
    let hard_column_count = hard_columns().len();
    let mut compared_groups = 0;
    for (column, field) in dataset.schema().fields().iter().enumerate() {
        let data_type = field.data_type();
        if server.get(&format!("/v1/tables/a.arrow/groups?at={column}")).status != 200 {
            assert!(data_type.is_nested() || column >= hard_column_count, "{data_type}");
            continue;
        }
        for group in get_groups(&server, &column.to_string()) {
            let Some(condition) = group.condition else {
                assert!(!is_comparable(data_type), "column {column} has a group without a condition");
                continue;
            };
            assert_eq!(matching_rows(&server, "a.arrow", &condition).len(), group.row_count, "{condition}");
            compared_groups += 1;
        }
    }
    assert!(compared_groups > 100, "{compared_groups} groups");
    for group in get_groups(&server, "0,6,4") {
        assert_eq!(matching_rows(&server, "a.arrow", &group.condition.unwrap()).len(), group.row_count);
    }

    // Keys are sent with all their digits.
    let response = server.get_last_line("/v1/tables/a.arrow/groups?at=6");
    assert_eq!(response["cells"][0][0], "0.30000000000000004");
    assert_eq!(response["conditions"][0], "float == 0.30000000000000004");
    // The group of all rows has no condition.
    assert_eq!(server.get_last_line("/v1/tables/a.arrow/groups?of=sum:8")["conditions"], json!([null]));
}

/// Asserts that the conditions of the most frequent values of a column match as many rows as there are with the value.
/// Returns the statistics.
fn assert_conditions_match_counts(server: &ViewServer, query: &str, is_comparable: bool) -> Json {
    let statistics = server.get_json(&format!("/v1/tables/a.arrow/statistics?{query}"));
    for value in statistics["top"]["values"].as_array().into_iter().flatten() {
        let count = &value[1];
        let Some(condition) = value[2].as_str() else {
            assert!(!is_comparable, "{query}: {value}");
            continue;
        };
        assert_eq!(filter(server, "a.arrow", condition)["rows"], *count, "{query}: {condition}");
    }
    statistics
}

#[test]
fn most_frequent_values_have_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_all_columns(folder.path());
    let server = ViewServer::open(&path);
    let schema = arrowwood::open(&path).unwrap().schema().clone();
    for (column, field) in schema.fields().iter().enumerate() {
        let query = format!("at={column}&sample=true");
        assert_conditions_match_counts(&server, &query, is_comparable(field.data_type()));
    }

    // With more rows than a sample has, conditions name rows by their number among all.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let hard_columns = hard_columns();
    let text = hard_columns[0].clone();
    let word = hard_columns[3].clone();
    write_file(&path, vec![text, word], 8_000);
    let server = ViewServer::open(&path);
    for column in 0..2 {
        let statistics = assert_conditions_match_counts(&server, &format!("at={column}"), true);
        assert_eq!(statistics["top"]["values"].as_array().unwrap().len(), 10);
        let sample = server.get_json(&format!("/v1/tables/a.arrow/statistics?at={column}&sample=true"));
        for value in sample["top"]["values"].as_array().unwrap() {
            let condition = value[2].as_str().unwrap();
            assert_eq!(filter(&server, "a.arrow", condition)["rows"], 8_000);
        }
    }
}

#[test]
fn cells_that_no_condition_can_express_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let mut columns = Vec::new();
    for (name, numbers) in [("n", [1, 2]), ("n", [3, 4]), ("a\nb", [5, 6]), ("", [7, 8]), ("n ", [9, 10])] {
        columns.push((name.to_owned(), Arc::new(Int64Array::from(numbers.to_vec())) as ArrayRef));
    }
    write_file(&path, columns, 1);
    let server = ViewServer::open(&path);

    // A condition can't distinguish two columns of the same name.
    let conditions = [None, None, None, Some("\"\" == 8"), Some("\"n \" == 10")];
    for (column, condition) in conditions.into_iter().enumerate() {
        let cell = server.get_json(&format!("/v1/tables/a.arrow/cell?row=1&at={column}"));
        assert_eq!(cell["condition"], Json::from(condition));
        if let Some(condition) = condition {
            assert_eq!(matching_rows(&server, "a.arrow", condition), [1]);
        }
    }
    for (condition, message) in [
        ("\"n \" is as in row 2", "there is no row 2; there are rows 0 to before 2"),
        ("\"n \" is as in row 18446744073709551616", "the number of a row"),
        ("\"n \" is as in row 1.5", "the number of a row"),
        ("m is as in row 1", "there is no column 'm'"),
        ("n is as in row 1", "both called 'n'"),
        ("\"n \" is as in row 1 2", "expected 'and', 'or' or the end"),
    ] {
        assert_condition_refused(&server, "a.arrow", condition, message);
    }

    // Lists can't be compared, but a null list is found as null.
    let lists = repeat_array(&samples()[17], 1, 3);
    let path = folder.path().join("b.arrow");
    write_file(&path, vec![("list".into(), lists)], 1);
    let server = ViewServer::open(&path);
    assert_condition_refused(&server, "b.arrow", "list is as in row 0", "can't be compared");
    assert_eq!(matching_rows(&server, "b.arrow", "list is as in row 1"), [1]);
}

#[test]
fn conditions_work_in_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let schema = Arc::new(parse_schema("s: utf8, n: int").unwrap());
    let options = WriterOptions { segment_rows: Some(4), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(schema), &options).unwrap();
    for n in 0..12 {
        let text = if n % 3 == 0 { "a\nb" } else { "ok" };
        writer.append_row(&[Value::Str(text), Value::Int(n)]).unwrap();
    }
    writer.commit().unwrap();
    writer.drop_before(4).unwrap();
    writer.close().unwrap();
    let server = ViewServer::open(&path);

    let cell = server.get_json("/v1/tables/t/cell?row=9&at=0");
    assert_eq!(cell["condition"], "s is as in row 9");
    assert_eq!(matching_rows(&server, "t", "s is as in row 9"), [6, 9]);
    assert_eq!(matching_rows(&server, "t", "s is not as in row 9 and n > 9"), [10, 11]);
    let csv = server.get("/v1/tables/t/rows?where=s+is+as+in+row+9&format=csv&columns=n").text();
    assert_eq!(csv, "n\n6\n9\n");
    let groups = server.get_last_line("/v1/tables/t/groups?at=0&where=s+is+as+in+row+9");
    assert_eq!(groups["cells"], json!([["a\\nb", "2"]]));
    assert_eq!(groups["conditions"], json!(["s is as in row 6"]));
    server.assert_refused("/v1/tables/t/rows?where=s+is+as+in+row+3", 400, "there are rows 4 to before 12");
}

/// All requests that the page makes about a file.
const PAGE_REQUESTS: [&str; 12] = [
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

/// Writes a file with a hundred rows of two columns, whose first values are `first` and `-first`.
fn write_prices(path: &Path, names: [&str; 2], first: i64) {
    let mut columns = Vec::new();
    for (name, first) in names.into_iter().zip([first, -first]) {
        let numbers = Int64Array::from_iter_values(first..first + 100);
        columns.push((name.to_owned(), Arc::new(numbers) as ArrayRef));
    }
    write_file(path, columns, 1);
}

/// Returns the identity of a table's files.
fn get_snapshot(server: &ViewServer, table: &str) -> String {
    let facts = server.get_json(&format!("/v1/tables/{table}"));
    facts["snapshot"].as_str().unwrap().to_owned()
}

/// Makes a request about the file with `snapshot`, which is refused if the file has changed.
fn get_with_snapshot(server: &ViewServer, request: &str, snapshot: &str) -> Reply {
    let separator = if request.contains('?') { '&' } else { '?' };
    server.get(&format!("/v1/tables/a.arrow/{request}{separator}snapshot={snapshot}"))
}

#[test]
fn replaced_file_is_detected_by_every_route() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let replacement = folder.path().join("other");
    write_prices(&path, ["price", "qty"], 1_000);
    let server = ViewServer::open(&path);
    let mut snapshot = get_snapshot(&server, "a.arrow");
    for request in PAGE_REQUESTS {
        let reply = get_with_snapshot(&server, request, &snapshot);
        assert_eq!(reply.status, 200, "{request}");
        assert_eq!(reply.header("arrowwood-snapshot"), Some(snapshot.as_str()), "{request}");
        let reply = server.get(&format!("/v1/tables/a.arrow/{request}"));
        assert_eq!(reply.header("arrowwood-snapshot"), Some(snapshot.as_str()), "{request}");
    }
    let response = filter(&server, "a.arrow", "price > 1050");
    let view = response["view"].as_str().unwrap();

    // Replaces the file by a rename, and in place: with columns in another order, and with the same columns and size.
    for (first, is_renamed) in [(5_000, true), (6_000, true), (7_000, false)] {
        write_prices(&replacement, ["qty", "price"], first);
        if is_renamed {
            fs::rename(&replacement, &path).unwrap();
        } else {
            rewrite(&path, &fs::read(&replacement).unwrap());
        }
        for request in PAGE_REQUESTS {
            let reply = get_with_snapshot(&server, request, &snapshot);
            assert_eq!((reply.status, reply.code().as_str()), (409, "file_changed"), "{request}: {}", reply.text());
        }
        let reply = server.get(&format!("/v1/tables/a.arrow/cells?view={view}"));
        assert_eq!((reply.status, reply.code().as_str()), (404, "no_view"));

        let new_snapshot = get_snapshot(&server, "a.arrow");
        assert_ne!(new_snapshot, snapshot);
        let reply = get_with_snapshot(&server, "cells?at=0&to=1", &new_snapshot);
        assert!(reply.text().contains(&first.to_string()), "{}", reply.text());
        snapshot = new_snapshot;
    }

    assert_eq!(get_with_snapshot(&server, "cells?at=0", "nonsense").status, 409);
    assert_eq!(server.get("/v1/tables/a.arrow/cells?snapshot=a&snapshot=b").status, 400);
    fs::remove_file(&path).unwrap();
    assert_eq!(get_with_snapshot(&server, "cells?at=0", &snapshot).status, 404);
}

fn modification_time(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// Writes a file in place, until its modification time has changed. File systems take times from the last tick of a
/// clock, so that two writes can have the same one.
fn rewrite(path: &Path, bytes: &[u8]) {
    let previous = modification_time(path);
    wait_until("another time of the file", || {
        fs::write(path, bytes).unwrap();
        modification_time(path) != previous
    });
}

fn create_table(path: &Path, schema: &str) -> Writer {
    let schema = Arc::new(parse_schema(schema).unwrap());
    Writer::open(path, Some(schema), &WriterOptions::default()).unwrap()
}

#[test]
fn table_keeps_its_snapshot_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let mut writer = create_table(&path, "n: int");
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit().unwrap();
    let server = ViewServer::open(&path);
    let snapshot = get_snapshot(&server, "t");

    writer.append_row(&[Value::Int(2)]).unwrap();
    writer.commit().unwrap();
    assert_eq!(server.get_json("/v1/tables/t")["end"], 2);
    assert_eq!(get_snapshot(&server, "t"), snapshot);
    let cells = server.get_json(&format!("/v1/tables/t/cells?snapshot={snapshot}"));
    assert_eq!(cells["cells"], json!([["1"], ["2"]]));
    writer.close().unwrap();

    // After a change of the schema, column numbers may have another meaning.
    assert!(arrowwood::alter(&path, &parse_schema("m: int").unwrap(), &Schema::empty(), &[]).unwrap());
    assert_eq!(server.get(&format!("/v1/tables/t/cells?snapshot={snapshot}")).code(), "file_changed");
    let altered = get_snapshot(&server, "t");
    let cells = server.get_json(&format!("/v1/tables/t/cells?snapshot={altered}"));
    assert_eq!(cells["cells"], json!([["1", null], ["2", null]]));

    // Another table takes the name.
    fs::rename(&path, folder.path().join("old")).unwrap();
    let mut writer = create_table(&path, "n: int, m: int");
    writer.append_row(&[Value::Int(7), Value::Null]).unwrap();
    writer.close().unwrap();
    assert_eq!(server.get(&format!("/v1/tables/t/cells?snapshot={altered}")).code(), "file_changed");
}
