//! Writes and reads the files with which `tests/interop/run.py` tests implementations in other languages.
//!
//! ```console
//! $ cargo run --example samples -- write FOLDER   # files, streams, and their rows in expected.json
//! $ cargo run --example samples -- read FOLDER    # prints the rows of each file as a line of JSON
//! ```
//!
//! Rows are lists of cells in a representation that every language can produce without rounding: integers, decimals,
//! dates and times are texts, with their units; floats are numbers; bytes are hexadecimal; structs and unions are
//! objects; and maps are lists of pairs.

#[path = "../../../../tests/support/samples.rs"]
mod samples;
mod shapes;

use std::path::{Path, PathBuf};

use arrow_schema::TimeUnit;
use arrowwood::{Compression, Dataset, Format, Value, WriteOptions, open, type_name, write};
use serde_json::{Map, Value as Json, json};

type BoxError = Box<dyn std::error::Error>;

fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", folder] => write_all(Path::new(folder)),
        ["read", folder] => read_all(Path::new(folder)),
        _ => Err("write FOLDER, or read FOLDER".into()),
    }
}

fn write_all(folder: &Path) -> Result<(), BoxError> {
    std::fs::create_dir_all(folder)?;
    let mut expected = Map::new();
    let types = samples::samples().into_iter().map(|array| (type_name(array.data_type()), samples::dataset(&array)));
    let shapes = shapes::shapes().into_iter().map(|(name, dataset)| (name.to_string(), dataset));
    for (name, dataset) in types.chain(shapes) {
        write_variants(folder, &name, &dataset, &mut expected)?;
    }
    std::fs::write(folder.join("expected.json"), serde_json::to_string_pretty(&expected)?)?;
    Ok(())
}

/// Writes a sample as a file and as a stream, with each codec and sliced, and adds their rows to `expected`.
fn write_variants(
    folder: &Path,
    name: &str,
    sample: &Dataset,
    expected: &mut Map<String, Json>,
) -> Result<(), BoxError> {
    let sliced = slice_batches(sample)?;
    let variants = [
        ("plain", sample, None),
        ("lz4", sample, Some(Compression::Lz4)),
        ("zstd", sample, Some(Compression::Zstd)),
        ("cut", &sliced, None),
    ];
    let file_name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    for (variant, dataset, compression) in variants {
        for (format, extension) in [(Format::File, "arrow"), (Format::Stream, "stream")] {
            let file = format!("{:04}_{file_name}_{variant}.{extension}", expected.len());
            write(dataset, folder.join(&file), &WriteOptions { format, compression, ..WriteOptions::default() })?;
            expected.insert(file, json!({ "sample": name, "rows": rows_to_json(dataset)? }));
        }
    }
    Ok(())
}

/// Returns three batches of slices, which begin and end within bytes of bitmaps, lists and runs; one is empty.
fn slice_batches(dataset: &Dataset) -> Result<Dataset, arrowwood::Error> {
    let rows = dataset.len()?;
    Dataset::concat(&[dataset.slice(rows / 3, rows)?, dataset.slice(0, 0)?, dataset.slice(0, rows - rows / 3)?])
}

fn read_all(folder: &Path) -> Result<(), BoxError> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, BoxError>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "arrow" || extension == "stream"));
    paths.sort();
    for path in paths {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let line = match open(&path).and_then(|dataset| rows_to_json(&dataset)) {
            Ok(rows) => json!({ "file": file, "rows": rows }),
            Err(e) => json!({ "file": file, "error": e.to_string() }),
        };
        println!("{line}");
    }
    Ok(())
}

fn rows_to_json(dataset: &Dataset) -> Result<Json, arrowwood::Error> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        rows.push(row?.iter().map(|(_, value)| value_to_json(&value?)).collect::<Result<Json, _>>()?);
    }
    Ok(Json::Array(rows))
}

fn value_to_json(value: &Value<'_>) -> Result<Json, arrowwood::Error> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value.to_string()),
        Value::UInt(value) => json!(value.to_string()),
        Value::Float32(value) => json!(f64::from(*value)),
        Value::Float64(value) => json!(value),
        Value::Decimal { digits, scale } => json!(format!("{digits}e-{scale}")),
        Value::Str(text) => json!(text),
        Value::Bytes(bytes) => json!(to_hex(bytes)),
        Value::Uuid(bytes) => json!(to_hex(&bytes[..])),
        Value::Date(days) => json!(format!("date {days}")),
        Value::Time(count, unit) => json!(format!("time {count}{}", unit_name(*unit))),
        Value::Timestamp(count, unit, None) => json!(format!("timestamp {count}{}", unit_name(*unit))),
        Value::Timestamp(count, unit, Some(zone)) => json!(format!("timestamp {count}{} {zone}", unit_name(*unit))),
        Value::Duration(count, unit) => json!(format!("duration {count}{}", unit_name(*unit))),
        Value::Interval { months, days, nanoseconds, .. } => json!(format!("interval {months} {days} {nanoseconds}")),
        Value::List(items) => items.iter().map(|item| value_to_json(&item?)).collect::<Result<_, _>>()?,
        Value::Map(entries) => entries.iter().map(|entry| entry_to_json(&entry?)).collect::<Result<_, _>>()?,
        Value::Struct(members) => {
            let members = members.iter().map(|(field, value)| Ok((field.name().clone(), value_to_json(&value?)?)));
            Json::Object(members.collect::<Result<_, arrowwood::Error>>()?)
        }
        Value::Union(member, value) => json!({ member.name(): value_to_json(value)? }),
        other => json!(format!("{other:?}")),
    })
}

fn to_hex(bytes: &[u8]) -> String {
    format!("0x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn entry_to_json(entry: &Value<'_>) -> Result<Json, arrowwood::Error> {
    let Value::Struct(members) = entry else { return value_to_json(entry) };
    members.iter().map(|(_, value)| value_to_json(&value?)).collect()
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
