//! What the readers of other languages are tested with (`tests/interop/run.py`).
//!
//! ```console
//! $ cargo run --example samples -- write FOLDER   # files, streams, and expected.json: what their rows are
//! $ cargo run --example samples -- read FOLDER    # the rows of every file of the folder, one line of JSON each
//! ```
//!
//! Rows are lists of their cells, in a spelling that every language can make without rounding: integers, dates, times,
//! decimals and the like are text with their unit, floats are numbers, bytes are hexadecimal, structs and unions are
//! objects, maps are lists of pairs.

#[path = "../../tests/support/samples.rs"]
mod samples;
mod shapes;

use std::path::{Path, PathBuf};

use arrow_schema::TimeUnit;
use arrowwood::{Compression, Dataset, Format, Value, WriteOptions, open, type_name, write};
use serde_json::{Map, Value as Json, json};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", folder] => write_all(Path::new(folder)),
        ["read", folder] => read_all(Path::new(folder)),
        _ => Err("write FOLDER, or read FOLDER".into()),
    }
}

fn write_all(folder: &Path) -> Result<(), Failure> {
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

fn write_variants(folder: &Path, name: &str, whole: &Dataset, expected: &mut Map<String, Json>) -> Result<(), Failure> {
    let (lz4, zstd) = (Some(Compression::Lz4), Some(Compression::Zstd));
    let cut = cut(whole)?;
    let word: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    for (variant, dataset, compression) in
        [("plain", whole, None), ("lz4", whole, lz4), ("zstd", whole, zstd), ("cut", &cut, None)]
    {
        for (format, ending) in [(Format::File, "arrow"), (Format::Stream, "stream")] {
            let file = format!("{:04}_{word}_{variant}.{ending}", expected.len());
            write(dataset, folder.join(&file), &WriteOptions { format, compression, ..WriteOptions::default() })?;
            expected.insert(file, json!({ "sample": name, "rows": rows(dataset)? }));
        }
    }
    Ok(())
}

/// Slices that begin and end inside of bytes, lists and runs, each a batch of its own.
fn cut(whole: &Dataset) -> Result<Dataset, arrowwood::Error> {
    let rows = whole.len()?;
    Dataset::concat(&[whole.slice(rows / 3, rows)?, whole.slice(0, 0)?, whole.slice(0, rows - rows / 3)?])
}

fn read_all(folder: &Path) -> Result<(), Failure> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_, Failure>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "arrow" || ending == "stream"));
    paths.sort();
    for path in paths {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let line = match open(&path).and_then(|dataset| rows(&dataset)) {
            Ok(rows) => json!({ "file": file, "rows": rows }),
            Err(e) => json!({ "file": file, "error": e.to_string() }),
        };
        println!("{line}");
    }
    Ok(())
}

fn rows(dataset: &Dataset) -> Result<Json, arrowwood::Error> {
    let cells = |row: arrowwood::Row<'_>| row.iter().map(|(_, value)| spelled(&value?)).collect::<Result<Vec<_>, _>>();
    Ok(Json::Array(dataset.rows().map(|row| Ok(Json::Array(cells(row?)?))).collect::<Result<_, arrowwood::Error>>()?))
}

fn spelled(value: &Value<'_>) -> Result<Json, arrowwood::Error> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value.to_string()),
        Value::UInt(value) => json!(value.to_string()),
        Value::Float32(value) => json!(f64::from(*value)),
        Value::Float64(value) => json!(value),
        Value::Decimal { digits, scale } => json!(format!("{digits}e-{scale}")),
        Value::Str(text) => json!(text),
        Value::Bytes(bytes) => json!(hexadecimal(bytes)),
        Value::Uuid(bytes) => json!(hexadecimal(&bytes[..])),
        Value::Date(days) => json!(format!("date {days}")),
        Value::Time(count, unit) => json!(format!("time {count}{}", spelled_unit(*unit))),
        Value::Timestamp(count, unit, None) => json!(format!("timestamp {count}{}", spelled_unit(*unit))),
        Value::Timestamp(count, unit, Some(zone)) => json!(format!("timestamp {count}{} {zone}", spelled_unit(*unit))),
        Value::Duration(count, unit) => json!(format!("duration {count}{}", spelled_unit(*unit))),
        Value::Interval { months, days, nanoseconds, .. } => json!(format!("interval {months} {days} {nanoseconds}")),
        Value::List(items) => items.iter().map(|item| spelled(&item?)).collect::<Result<_, _>>()?,
        Value::Map(entries) => entries.iter().map(|entry| pair(&entry?)).collect::<Result<_, _>>()?,
        Value::Struct(members) => {
            let members = members.iter().map(|(field, value)| Ok((field.name().clone(), spelled(&value?)?)));
            Json::Object(members.collect::<Result<_, arrowwood::Error>>()?)
        }
        Value::Union(member, value) => json!({ member.name(): spelled(value)? }),
        other => json!(format!("{other:?}")),
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    format!("0x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn pair(entry: &Value<'_>) -> Result<Json, arrowwood::Error> {
    let Value::Struct(members) = entry else { return spelled(entry) };
    members.iter().map(|(_, value)| spelled(&value?)).collect()
}

fn spelled_unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
