//! Compares Arrow's integration files with their descriptions in JSON: schemas, shared dictionaries, batches and values.
//!
//! Bytes in null slots are not compared, as they are unspecified.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};
use arrowwood::{Dataset, FieldInfo, Items, MessageKind, Value, open};
use serde_json::{Value as Json, json};

use crate::corpus::golden_files;

/// The result of a comparison; the error describes the first difference.
type Comparison = Result<(), String>;

#[test]
fn golden_files_match_their_json() {
    let descriptions = golden_files(&[".json.gz"]);
    if descriptions.is_empty() {
        println!("skipped: no Arrow integration files beside the checkout, nor at ARROW_TESTING");
    }
    let mut compared = 0;
    let mut failures = Vec::new();
    for json_path in descriptions {
        for extension in ["stream", "arrow_file"] {
            // The first call removes `gz`, the second replaces `json`.
            let path = json_path.with_extension("").with_extension(extension);
            let description = Description::read(&json_path, &path);
            let comparison = open(&path).map_err(|e| e.to_string()).and_then(|dataset| description.compare(&dataset));
            compared += 1;
            failures.extend(comparison.err().map(|e| format!("{}: {e}", path.display())));
        }
    }
    println!("{} of {compared} files are what their JSON says", compared - failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A file's description in JSON.
struct Description {
    schema: Json,
    batches: Json,
    /// The values of each dictionary by its id, as a column.
    dictionaries: HashMap<i128, Json>,
}

impl Description {
    /// Reads the description of the file at `described_path`.
    fn read(path: &Path, described_path: &Path) -> Description {
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        // These streams were written with the canonical names of a map's entries, unlike their JSON.
        if described_path.ends_with("generated_map_non_canonical.stream") {
            for name in ["entries", "key", "value"] {
                text = text.replace(&format!("some_{name}"), name);
            }
        }
        let mut json: Json = serde_json::from_str(&text).unwrap();
        let dictionaries = list(&json["dictionaries"])
            .iter()
            .map(|dictionary| (number(&dictionary["id"]), dictionary["data"]["columns"][0].clone()))
            .collect();
        Description { dictionaries, schema: json["schema"].take(), batches: json["batches"].take() }
    }

    fn compare(&self, dataset: &Dataset) -> Comparison {
        self.compare_schema(dataset)?;
        let batches = list(&self.batches);
        expect("number of batches", batches.len(), dataset.num_batches().map_err(|e| e.to_string())?)?;
        for (number, (described, batch)) in batches.iter().zip(dataset.batches()).enumerate() {
            let batch = batch.map_err(|e| e.to_string())?;
            self.compare_batch(described, &batch).map_err(|e| format!("batch {number}: {e}"))?;
        }
        Ok(())
    }

    fn compare_schema(&self, dataset: &Dataset) -> Comparison {
        let fields = list(&self.schema["fields"]);
        let expected_fields: Vec<Field> = fields.iter().map(field).collect();
        let expected = Schema::new_with_metadata(expected_fields, metadata(&self.schema));
        expect("schema", &expected, dataset.schema())?;
        // Schemas of arrow-rs don't have the ids of dictionaries, so these are taken from the message.
        let messages = dataset.messages().map_err(|e| e.to_string())?;
        let message = messages.iter().find(|message| message.kind == MessageKind::Schema).ok_or("no schema message")?;
        let mut ids = HashMap::new();
        fields.iter().zip(&message.fields).try_for_each(|(field, info)| compare_encoding(field, info, &mut ids))
    }

    fn compare_batch(&self, described: &Json, batch: &Dataset) -> Comparison {
        let rows = batch.len().map_err(|e| e.to_string())?;
        expect("rows", number(&described["count"]), rows.into())?;
        let columns = list(&described["columns"]);
        expect("columns", columns.len(), batch.num_columns())?;
        for (index, row) in batch.rows().enumerate() {
            let row = row.map_err(|e| e.to_string())?;
            for (number, field) in list(&self.schema["fields"]).iter().enumerate() {
                row.get(number)
                    .map_err(|e| e.to_string())
                    .and_then(|value| self.compare_cell(field, &columns[number], index, &value))
                    .map_err(|e| format!("row {index}, column {}: {e}", field["name"]))?;
            }
        }
        Ok(())
    }

    /// Compares `value` with row `row` of `column`, which may be null or a key of a dictionary.
    fn compare_cell(&self, field: &Json, column: &Json, row: usize, value: &Value<'_>) -> Comparison {
        if column["VALIDITY"][row] == 0 {
            return expect_null(value);
        }
        let Some(encoding) = field.get("dictionary") else { return self.compare_value(field, column, row, value) };
        let key = usize::try_from(number(&column["DATA"][row])).unwrap();
        let values = self.dictionaries.get(&number(&encoding["id"])).ok_or("the JSON lacks a dictionary")?;
        if values["VALIDITY"][key] == 0 { expect_null(value) } else { self.compare_value(field, values, key, value) }
    }

    /// Compares `value` with row `row` of `column`, which is not null and not a key of a dictionary.
    fn compare_value(&self, field: &Json, column: &Json, row: usize, value: &Value<'_>) -> Comparison {
        let children = list(&field["children"]);
        match (type_name(field), value) {
            ("union", Value::Union(member, value)) => self.compare_union(field, column, row, (member, value)),
            ("struct", Value::Struct(members)) => {
                for (number, (_, value)) in members.iter().enumerate() {
                    let value = value.map_err(|e| e.to_string())?;
                    self.compare_cell(&children[number], &column["children"][number], row, &value)?;
                }
                expect("members", children.len(), members.iter().count())
            }
            ("map", Value::Map(items)) | (_, Value::List(items)) => {
                self.compare_items(&children[0], &column["children"][0], item_range(field, column, row), items)
            }
            ("runendencoded", value) => {
                let ends = list(&column["children"][0]["DATA"]);
                let run = ends.iter().position(|end| number(end) > row as i128).ok_or("more rows than runs")?;
                self.compare_cell(&children[1], &column["children"][1], run, value)
            }
            _ if is_same_scalar(field, column, row, value) => Ok(()),
            _ => Err(format!("expected {} of {}, got {value:?}", scalar(column, row), field["type"])),
        }
    }

    fn compare_items(&self, field: &Json, column: &Json, range: Range<i128>, items: &Items<'_>) -> Comparison {
        expect("items", range.end - range.start, items.len() as i128)?;
        for (row, item) in (usize::try_from(range.start).unwrap()..).zip(items.iter()) {
            self.compare_cell(field, column, row, &item.map_err(|e| e.to_string())?)?;
        }
        Ok(())
    }

    fn compare_union(
        &self,
        field: &Json,
        column: &Json,
        row: usize,
        (actual_member, value): (&FieldRef, &Value<'_>),
    ) -> Comparison {
        let ids = list(&field["type"]["typeIds"]);
        let member = ids.iter().position(|id| *id == column["TYPE_ID"][row]).ok_or("the JSON has a wrong type id")?;
        expect("member", field["children"][member]["name"].as_str().unwrap_or_default(), actual_member.name())?;
        // Only dense unions have offsets.
        let row = column.get("OFFSET").map_or(row, |offsets| usize::try_from(number(&offsets[row])).unwrap());
        self.compare_cell(&field["children"][member], &column["children"][member], row, value)
    }
}

/// Returns the rows of the child column that are the items of a list.
fn item_range(field: &Json, column: &Json, row: usize) -> Range<i128> {
    let offset = |row: usize| number(&column["OFFSET"][row]);
    match type_name(field) {
        "fixedsizelist" => {
            let size = number(&field["type"]["listSize"]);
            size * row as i128..size * (row as i128 + 1)
        }
        "listview" | "largelistview" => offset(row)..offset(row) + number(&column["SIZE"][row]),
        _ => offset(row)..offset(row + 1),
    }
}

/// Returns true if a value that isn't nested is row `row` of `column`.
fn is_same_scalar(field: &Json, column: &Json, row: usize, value: &Value<'_>) -> bool {
    let data = &column["DATA"][row];
    let is_unit = |unit: &TimeUnit| field["type"]["unit"] == format!("{unit:?}").to_uppercase();
    match (type_name(field), value) {
        ("null", Value::Null) => true,
        ("bool", Value::Bool(bool)) => data.as_bool() == Some(*bool),
        ("int", Value::Int(int)) => number(data) == (*int).into(),
        ("int", Value::UInt(int)) => number(data) == (*int).into(),
        // The JSON has fewer digits than either type can represent, so the nearest float must be equal.
        ("floatingpoint", Value::Float32(float)) => data.as_f64().is_some_and(|expected| expected as f32 == *float),
        ("floatingpoint", Value::Float64(float)) => data.as_f64() == Some(*float),
        ("decimal", Value::Decimal { digits, scale }) => {
            *data == digits.to_string() && field["type"]["scale"] == *scale
        }
        ("date", Value::Date(days)) if field["type"]["unit"] == "DAY" => number(data) == (*days).into(),
        ("date", Value::Date(days)) => number(data).div_euclid(86_400_000) == (*days).into(),
        ("time", Value::Time(time, unit)) => number(data) == (*time).into() && is_unit(unit),
        ("duration", Value::Duration(time, unit)) => number(data) == (*time).into() && is_unit(unit),
        ("timestamp", Value::Timestamp(time, unit, zone)) => {
            number(data) == (*time).into() && is_unit(unit) && field["type"]["timezone"].as_str() == *zone
        }
        ("interval", Value::Interval { months, days, nanoseconds, .. }) => match &field["type"]["unit"] {
            unit if unit == "YEAR_MONTH" => *data == *months && (*days, *nanoseconds) == (0, 0),
            unit if unit == "DAY_TIME" => {
                let milliseconds = nanoseconds / 1_000_000;
                *data == json!({"days": days, "milliseconds": milliseconds}) && *months == 0
            }
            _ => *data == json!({"months": months, "days": days, "nanoseconds": nanoseconds}),
        },
        ("utf8" | "largeutf8", Value::Str(text)) => *data == *text,
        ("utf8view", Value::Str(text)) => view_bytes(column, row, |inlined| inlined.into()) == text.as_bytes(),
        ("binaryview", Value::Bytes(bytes)) => view_bytes(column, row, decode_hex) == *bytes,
        ("binary" | "largebinary" | "fixedsizebinary", Value::Bytes(bytes)) => {
            data.as_str().map(decode_hex) == Some(bytes.to_vec())
        }
        ("fixedsizebinary", Value::Uuid(bytes)) => data.as_str().map(decode_hex) == Some(bytes.to_vec()),
        _ => false,
    }
}

/// Returns the bytes of a view, which are inlined or in one of the variadic buffers.
fn view_bytes(column: &Json, row: usize, decode_inlined: impl Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let view = &column["VIEWS"][row];
    if let Some(text) = view["INLINED"].as_str() {
        return decode_inlined(text);
    }
    let [buffer, offset, size] =
        ["BUFFER_INDEX", "OFFSET", "SIZE"].map(|key| usize::try_from(number(&view[key])).unwrap());
    decode_hex(column["VARIADIC_DATA_BUFFERS"][buffer].as_str().unwrap())[offset..offset + size].to_vec()
}

fn decode_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// Returns the JSON of a row, for error messages.
fn scalar(column: &Json, row: usize) -> &Json {
    if column["VIEWS"].is_array() { &column["VIEWS"][row] } else { &column["DATA"][row] }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, actual: T) -> Comparison {
    if expected == actual { Ok(()) } else { Err(format!("{what}: expected {expected:?}, got {actual:?}")) }
}

fn expect_null(value: &Value<'_>) -> Comparison {
    if matches!(value, Value::Null) { Ok(()) } else { Err(format!("expected null, got {value:?}")) }
}

/// Returns an integer; the JSON has those of 64 bits as strings.
fn number(json: &Json) -> i128 {
    match json.as_str() {
        Some(text) => text.parse().unwrap(),
        None => json.as_i64().map(i128::from).or(json.as_u64().map(i128::from)).unwrap(),
    }
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn type_name(field: &Json) -> &str {
    field["type"]["name"].as_str().unwrap()
}

/// Compares the dictionaries of a field and its children: key types, order, and which fields share a dictionary.
///
/// `ids` maps ids of the file to ids of the JSON. They differ, and a file may have several ids for a shared dictionary.
fn compare_encoding(field: &Json, info: &FieldInfo, ids: &mut HashMap<i64, i128>) -> Comparison {
    let expected = field
        .get("dictionary")
        .map(|encoding| (int_type(&encoding["indexType"]).to_string().to_lowercase(), encoding["isOrdered"] == true));
    let what = format!("dictionary of field '{}'", info.name);
    expect(&what, expected, info.dictionary.clone().map(|(_, index, ordered)| (index, ordered)))?;
    if let Some((id, ..)) = info.dictionary {
        let described = number(&field["dictionary"]["id"]);
        expect(&what, described, *ids.entry(id).or_insert(described))?;
    }
    let children = list(&field["children"]);
    expect("fields inside", children.len(), info.children.len())?;
    children.iter().zip(&info.children).try_for_each(|(field, info)| compare_encoding(field, info, ids))
}

fn field(json: &Json) -> Field {
    let value_type = data_type(json);
    let data_type = match json.get("dictionary") {
        Some(encoding) => DataType::Dictionary(Box::new(int_type(&encoding["indexType"])), Box::new(value_type)),
        None => value_type,
    };
    let name = json["name"].as_str().unwrap_or_default();
    Field::new(name, data_type, json["nullable"] == true).with_metadata(metadata(json))
}

fn metadata(json: &Json) -> HashMap<String, String> {
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    list(&json["metadata"]).iter().map(|pair| (text(&pair["key"]), text(&pair["value"]))).collect()
}

fn int_type(json: &Json) -> DataType {
    match (json["bitWidth"].as_u64(), json["isSigned"] == true) {
        (Some(8), true) => DataType::Int8,
        (Some(16), true) => DataType::Int16,
        (Some(32), true) => DataType::Int32,
        (Some(64), true) => DataType::Int64,
        (Some(8), false) => DataType::UInt8,
        (Some(16), false) => DataType::UInt16,
        (Some(32), false) => DataType::UInt32,
        (Some(64), false) => DataType::UInt64,
        _ => panic!("an integer of {json}"),
    }
}

fn data_type(json: &Json) -> DataType {
    let parameters = &json["type"];
    let children = || list(&json["children"]).iter().map(|child| Arc::new(field(child)));
    let child = || children().next().unwrap();
    match type_name(json) {
        "null" => DataType::Null,
        "bool" => DataType::Boolean,
        "int" => int_type(parameters),
        "floatingpoint" => match parameters["precision"].as_str() {
            Some("HALF") => DataType::Float16,
            Some("SINGLE") => DataType::Float32,
            _ => DataType::Float64,
        },
        "decimal" => decimal_type(parameters),
        "date" if parameters["unit"] == "DAY" => DataType::Date32,
        "date" => DataType::Date64,
        "time" if parameters["bitWidth"] == 32 => DataType::Time32(unit(parameters)),
        "time" => DataType::Time64(unit(parameters)),
        "timestamp" => DataType::Timestamp(unit(parameters), parameters["timezone"].as_str().map(Arc::from)),
        "duration" => DataType::Duration(unit(parameters)),
        "interval" => DataType::Interval(match parameters["unit"].as_str() {
            Some("YEAR_MONTH") => IntervalUnit::YearMonth,
            Some("DAY_TIME") => IntervalUnit::DayTime,
            _ => IntervalUnit::MonthDayNano,
        }),
        "utf8" => DataType::Utf8,
        "largeutf8" => DataType::LargeUtf8,
        "utf8view" => DataType::Utf8View,
        "binary" => DataType::Binary,
        "largebinary" => DataType::LargeBinary,
        "binaryview" => DataType::BinaryView,
        "fixedsizebinary" => DataType::FixedSizeBinary(narrow(&parameters["byteWidth"])),
        "list" => DataType::List(child()),
        "largelist" => DataType::LargeList(child()),
        "listview" => DataType::ListView(child()),
        "largelistview" => DataType::LargeListView(child()),
        "fixedsizelist" => DataType::FixedSizeList(child(), narrow(&parameters["listSize"])),
        "struct" => DataType::Struct(children().collect::<Fields>()),
        "map" => DataType::Map(child(), parameters["keysSorted"] == true),
        "union" => {
            let ids = list(&parameters["typeIds"]).iter().map(narrow::<i8>);
            let mode = if parameters["mode"] == "DENSE" { UnionMode::Dense } else { UnionMode::Sparse };
            DataType::Union(ids.zip(children()).collect::<UnionFields>(), mode)
        }
        "runendencoded" => DataType::RunEndEncoded(child(), children().nth(1).unwrap()),
        other => panic!("a type called {other}"),
    }
}

fn decimal_type(json: &Json) -> DataType {
    let (precision, scale) = (narrow(&json["precision"]), narrow(&json["scale"]));
    match json["bitWidth"].as_u64() {
        Some(32) => DataType::Decimal32(precision, scale),
        Some(64) => DataType::Decimal64(precision, scale),
        Some(256) => DataType::Decimal256(precision, scale),
        _ => DataType::Decimal128(precision, scale),
    }
}

fn unit(json: &Json) -> TimeUnit {
    match json["unit"].as_str() {
        Some("SECOND") => TimeUnit::Second,
        Some("MILLISECOND") => TimeUnit::Millisecond,
        Some("MICROSECOND") => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// Returns an integer of a narrower type.
fn narrow<T: TryFrom<i128, Error: std::fmt::Debug>>(json: &Json) -> T {
    T::try_from(number(json)).unwrap()
}
