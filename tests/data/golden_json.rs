//! Arrow's own integration files against their descriptions in JSON, where a copy of both lies beside the checkout:
//! schema, shared dictionaries, number and rows of the batches, and every value.
//!
//! What a null stands on is not compared: writers put there what they like.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};
use arrowwood::{Dataset, FieldInfo, Items, MessageKind, Value, open};
use serde_json::{Value as Json, json};

type Outcome = Result<(), String>;

/// The descriptions of the corpus; none where there is no corpus.
fn descriptions() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/arrow-testing");
    let corpus = std::env::var_os("ARROW_TESTING").map_or(beside, PathBuf::from);
    let mut found = Vec::new();
    let mut folders = vec![corpus.join("golden")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
            match path.to_string_lossy().ends_with(".json.gz") {
                true => found.push(path),
                false if path.is_dir() => folders.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

#[test]
fn golden_files_hold_what_their_json_says() {
    let descriptions = descriptions();
    if descriptions.is_empty() {
        println!("skipped: no Arrow integration files beside the checkout, nor at ARROW_TESTING");
    }
    let (mut compared, mut failures) = (0, Vec::new());
    for path in descriptions {
        for extension in ["stream", "arrow_file"] {
            let twin = PathBuf::from(path.to_string_lossy().replace("json.gz", extension));
            let golden = Golden::read(&path, &twin);
            let outcome = open(&twin).map_err(|e| e.to_string()).and_then(|dataset| golden.check(&dataset));
            compared += 1;
            failures.extend(outcome.err().map(|e| format!("{}: {e}", twin.display())));
        }
    }
    println!("{} of {compared} files are what their JSON says", compared - failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A description.
struct Golden {
    schema: Json,
    batches: Json,
    /// The one column of each dictionary by its id.
    dictionaries: HashMap<i128, Json>,
}

impl Golden {
    fn read(path: &Path, twin: &Path) -> Golden {
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        // These streams were written with the usual names for the entries of a map, whatever their JSON says.
        if twin.ends_with("generated_map_non_canonical.stream") {
            text =
                ["entries", "key", "value"].iter().fold(text, |text, name| text.replace(&format!("some_{name}"), name));
        }
        let mut json: Json = serde_json::from_str(&text).unwrap();
        let dictionaries = list(&json["dictionaries"]).iter();
        let dictionaries = dictionaries.map(|one| (number(&one["id"]), one["data"]["columns"][0].clone())).collect();
        Golden { dictionaries, schema: json["schema"].take(), batches: json["batches"].take() }
    }

    fn check(&self, dataset: &Dataset) -> Outcome {
        self.check_schema(dataset)?;
        let batches = list(&self.batches);
        expect("number of batches", batches.len(), dataset.num_batches().map_err(|e| e.to_string())?)?;
        for (number, (described, batch)) in batches.iter().zip(dataset.batches()).enumerate() {
            let batch = batch.map_err(|e| e.to_string())?;
            self.check_batch(described, &batch).map_err(|e| format!("batch {number}: {e}"))?;
        }
        Ok(())
    }

    fn check_schema(&self, dataset: &Dataset) -> Outcome {
        let fields = list(&self.schema["fields"]);
        let expected: Vec<Field> = fields.iter().map(field).collect();
        let expected = Schema::new_with_metadata(expected, metadata(&self.schema));
        expect("schema", &expected, dataset.schema())?;
        // Which fields share a dictionary arrow-rs does not say, so it is taken from the message itself.
        let messages = dataset.messages().map_err(|e| e.to_string())?;
        let message = messages.iter().find(|message| message.kind == MessageKind::Schema).ok_or("no schema message")?;
        let mut ids = HashMap::new();
        fields.iter().zip(&message.fields).try_for_each(|(field, info)| check_encoding(field, info, &mut ids))
    }

    fn check_batch(&self, described: &Json, batch: &Dataset) -> Outcome {
        let rows = batch.len().map_err(|e| e.to_string())?;
        expect("rows", number(&described["count"]), rows.into())?;
        let columns = list(&described["columns"]);
        expect("columns", columns.len(), batch.num_columns())?;
        for (index, row) in batch.rows().enumerate() {
            let row = row.map_err(|e| e.to_string())?;
            for (number, field) in list(&self.schema["fields"]).iter().enumerate() {
                let value = row.get(number).map_err(|e| e.to_string());
                let outcome = value.and_then(|value| self.check_cell(field, &columns[number], index, &value));
                outcome.map_err(|e| format!("row {index}, column {}: {e}", field["name"]))?;
            }
        }
        Ok(())
    }

    /// Whether `value` is what row `row` of `column` says, nulls and dictionaries included.
    fn check_cell(&self, field: &Json, column: &Json, row: usize, value: &Value<'_>) -> Outcome {
        if column["VALIDITY"][row] == 0 {
            return expect_null(value);
        }
        let Some(encoding) = field.get("dictionary") else { return self.check_value(field, column, row, value) };
        let key = usize::try_from(number(&column["DATA"][row])).unwrap();
        let values = self.dictionaries.get(&number(&encoding["id"])).ok_or("the JSON lacks a dictionary")?;
        match values["VALIDITY"][key] == 0 {
            true => expect_null(value),
            false => self.check_value(field, values, key, value),
        }
    }

    /// The same for a row that is not null, with no regard to the field's dictionary.
    fn check_value(&self, field: &Json, column: &Json, row: usize, value: &Value<'_>) -> Outcome {
        let children = list(&field["children"]);
        match (kind(field), value) {
            ("union", Value::Union(member, value)) => self.check_union(field, column, row, (member, value)),
            ("struct", Value::Struct(members)) => {
                for (number, (_, value)) in members.iter().enumerate() {
                    let value = value.map_err(|e| e.to_string())?;
                    self.check_cell(&children[number], &column["children"][number], row, &value)?;
                }
                expect("members", children.len(), members.iter().count())
            }
            ("map", Value::Map(items)) | (_, Value::List(items)) => {
                self.check_items(&children[0], &column["children"][0], span(field, column, row), items)
            }
            ("runendencoded", value) => {
                let ends = list(&column["children"][0]["DATA"]);
                let run = ends.iter().position(|end| number(end) > row as i128).ok_or("more rows than runs")?;
                self.check_cell(&children[1], &column["children"][1], run, value)
            }
            _ if agrees(field, column, row, value) => Ok(()),
            _ => Err(format!("expected {} of {}, got {value:?}", scalar(column, row), field["type"])),
        }
    }

    fn check_items(&self, field: &Json, column: &Json, span: (i128, i128), items: &Items<'_>) -> Outcome {
        let (start, len) = span;
        expect("items", len, items.len() as i128)?;
        for (row, item) in (usize::try_from(start).unwrap()..).zip(items.iter()) {
            self.check_cell(field, column, row, &item.map_err(|e| e.to_string())?)?;
        }
        Ok(())
    }

    fn check_union(&self, field: &Json, column: &Json, row: usize, got: (&FieldRef, &Value<'_>)) -> Outcome {
        let ids = list(&field["type"]["typeIds"]);
        let member = ids.iter().position(|id| *id == column["TYPE_ID"][row]).ok_or("the JSON has a wrong type id")?;
        expect("member", field["children"][member]["name"].as_str().unwrap_or_default(), got.0.name())?;
        // Only dense unions have offsets.
        let row = column.get("OFFSET").map_or(row, |offsets| usize::try_from(number(&offsets[row])).unwrap());
        self.check_cell(&field["children"][member], &column["children"][member], row, got.1)
    }
}

/// First item and number of items of a list.
fn span(field: &Json, column: &Json, row: usize) -> (i128, i128) {
    let offset = |row: usize| number(&column["OFFSET"][row]);
    match kind(field) {
        "fixedsizelist" => {
            let size = number(&field["type"]["listSize"]);
            (size * row as i128, size)
        }
        "listview" | "largelistview" => (offset(row), number(&column["SIZE"][row])),
        _ => (offset(row), offset(row + 1) - offset(row)),
    }
}

/// Whether a value without parts is what the JSON says.
fn agrees(field: &Json, column: &Json, row: usize, value: &Value<'_>) -> bool {
    let data = &column["DATA"][row];
    let is_unit = |unit: &TimeUnit| field["type"]["unit"] == format!("{unit:?}").to_uppercase();
    match (kind(field), value) {
        ("null", Value::Null) => true,
        ("bool", Value::Bool(bool)) => data.as_bool() == Some(*bool),
        ("int", Value::Int(int)) => number(data) == (*int).into(),
        ("int", Value::UInt(int)) => number(data) == (*int).into(),
        // The JSON rounds to fewer digits than either has, so the nearest float is the one.
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
        ("utf8view", Value::Str(text)) => view(column, row, |inlined| inlined.into()) == text.as_bytes(),
        ("binaryview", Value::Bytes(bytes)) => view(column, row, unhex) == *bytes,
        ("binary" | "largebinary" | "fixedsizebinary", Value::Bytes(bytes)) => {
            data.as_str().map(unhex) == Some(bytes.to_vec())
        }
        ("fixedsizebinary", Value::Uuid(bytes)) => data.as_str().map(unhex) == Some(bytes.to_vec()),
        _ => false,
    }
}

/// The bytes of a view, inlined or in one of the variadic buffers.
fn view(column: &Json, row: usize, inlined: impl Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let view = &column["VIEWS"][row];
    if let Some(text) = view["INLINED"].as_str() {
        return inlined(text);
    }
    let [buffer, offset, size] =
        ["BUFFER_INDEX", "OFFSET", "SIZE"].map(|key| usize::try_from(number(&view[key])).unwrap());
    unhex(column["VARIADIC_DATA_BUFFERS"][buffer].as_str().unwrap())[offset..offset + size].to_vec()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// What the JSON has for a row, for messages.
fn scalar(column: &Json, row: usize) -> &Json {
    if column["VIEWS"].is_array() { &column["VIEWS"][row] } else { &column["DATA"][row] }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, got: T) -> Outcome {
    if expected == got { Ok(()) } else { Err(format!("{what}: expected {expected:?}, got {got:?}")) }
}

fn expect_null(value: &Value<'_>) -> Outcome {
    if matches!(value, Value::Null) { Ok(()) } else { Err(format!("expected null, got {value:?}")) }
}

/// Integers of 64 bits stand as strings.
fn number(json: &Json) -> i128 {
    match json.as_str() {
        Some(text) => text.parse().unwrap(),
        None => json.as_i64().map(i128::from).or(json.as_u64().map(i128::from)).unwrap(),
    }
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn kind(field: &Json) -> &str {
    field["type"]["name"].as_str().unwrap()
}

/// Type of the keys, order, and which fields share a dictionary, down to the last child. `ids` maps ids of the file to
/// those of the JSON: writers choose their own, and may give a shared dictionary several.
fn check_encoding(field: &Json, info: &FieldInfo, ids: &mut HashMap<i64, i128>) -> Outcome {
    let expected = field
        .get("dictionary")
        .map(|encoding| (integer(&encoding["indexType"]).to_string().to_lowercase(), encoding["isOrdered"] == true));
    let what = format!("dictionary of field '{}'", info.name);
    expect(&what, expected, info.dictionary.clone().map(|(_, index, ordered)| (index, ordered)))?;
    if let Some((id, ..)) = info.dictionary {
        let described = number(&field["dictionary"]["id"]);
        expect(&what, described, *ids.entry(id).or_insert(described))?;
    }
    let children = list(&field["children"]);
    expect("fields inside", children.len(), info.children.len())?;
    children.iter().zip(&info.children).try_for_each(|(field, info)| check_encoding(field, info, ids))
}

fn field(json: &Json) -> Field {
    let plain = data_type(json);
    let data_type = match json.get("dictionary") {
        Some(encoding) => DataType::Dictionary(Box::new(integer(&encoding["indexType"])), Box::new(plain)),
        None => plain,
    };
    let name = json["name"].as_str().unwrap_or_default();
    Field::new(name, data_type, json["nullable"] == true).with_metadata(metadata(json))
}

fn metadata(json: &Json) -> HashMap<String, String> {
    let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
    list(&json["metadata"]).iter().map(|pair| (text(&pair["key"]), text(&pair["value"]))).collect()
}

fn integer(json: &Json) -> DataType {
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
    let of = &json["type"];
    let children = || list(&json["children"]).iter().map(|child| Arc::new(field(child)));
    let child = || children().next().unwrap();
    match kind(json) {
        "null" => DataType::Null,
        "bool" => DataType::Boolean,
        "int" => integer(of),
        "floatingpoint" => match of["precision"].as_str() {
            Some("HALF") => DataType::Float16,
            Some("SINGLE") => DataType::Float32,
            _ => DataType::Float64,
        },
        "decimal" => decimal(of),
        "date" if of["unit"] == "DAY" => DataType::Date32,
        "date" => DataType::Date64,
        "time" if of["bitWidth"] == 32 => DataType::Time32(unit(of)),
        "time" => DataType::Time64(unit(of)),
        "timestamp" => DataType::Timestamp(unit(of), of["timezone"].as_str().map(Arc::from)),
        "duration" => DataType::Duration(unit(of)),
        "interval" => DataType::Interval(match of["unit"].as_str() {
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
        "fixedsizebinary" => DataType::FixedSizeBinary(small(&of["byteWidth"])),
        "list" => DataType::List(child()),
        "largelist" => DataType::LargeList(child()),
        "listview" => DataType::ListView(child()),
        "largelistview" => DataType::LargeListView(child()),
        "fixedsizelist" => DataType::FixedSizeList(child(), small(&of["listSize"])),
        "struct" => DataType::Struct(children().collect::<Fields>()),
        "map" => DataType::Map(child(), of["keysSorted"] == true),
        "union" => {
            let ids = list(&of["typeIds"]).iter().map(small::<i8>);
            let mode = if of["mode"] == "DENSE" { UnionMode::Dense } else { UnionMode::Sparse };
            DataType::Union(ids.zip(children()).collect::<UnionFields>(), mode)
        }
        "runendencoded" => DataType::RunEndEncoded(child(), children().nth(1).unwrap()),
        other => panic!("a type called {other}"),
    }
}

fn decimal(json: &Json) -> DataType {
    let (precision, scale) = (small(&json["precision"]), small(&json["scale"]));
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

fn small<T: TryFrom<i128, Error: std::fmt::Debug>>(json: &Json) -> T {
    T::try_from(number(json)).unwrap()
}
