//! Tables as each version wrote them, and as others may write them. `tests/versions/` has a folder of files for every
//! version of the format that was ever released; `UPDATE_VERSIONS=1` makes that of the present one where it is missing.
#![cfg(unix)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::{ErrorKind, Writer, WriterOptions, open};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

const ROWS: i64 = 20;

fn schema() -> SchemaRef {
    let fields = [
        Field::new("n", DataType::Int64, false),
        Field::new("s", DataType::Utf8, true),
        Field::new("k", DataType::Utf8, false),
    ];
    Arc::new(Schema::new(fields.to_vec()))
}

fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(rows.clone())),
        Arc::new(StringArray::from_iter(rows.clone().map(|n| (n % 3 != 1).then(|| format!("row {n}"))))),
        Arc::new(StringArray::from_iter_values(rows.map(|n| format!("k{}", n % 4)))),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
}

/// A table of three segments: dense, sealed, live.
fn make(table: &Path) {
    let options = WriterOptions { segment_rows: Some(8), dictionary: vec!["k".into()], ..WriterOptions::default() };
    let mut writer = Writer::open(table, Some(schema()), &options).unwrap();
    writer.append(&batch(0..10)).unwrap();
    writer.commit().unwrap();
    writer.compact(|_, _| ()).unwrap();
    writer.append(&batch(10..ROWS)).unwrap();
    writer.close().unwrap();
}

fn check(table: &Path, rows: i64) {
    let dataset = open(table).unwrap();
    dataset.validate(|_, _| ()).unwrap();
    assert_eq!(dataset.len().unwrap(), rows as u64);
    for (n, row) in (0..rows).zip(dataset.rows()) {
        let row = row.unwrap();
        let s = if n % 3 != 1 { format!("row {n}") } else { "null".into() };
        let found = [0, 1, 2].map(|cell| row.get(cell).unwrap().to_string());
        assert_eq!(found, [n.to_string(), s, format!("k{}", n % 4)]);
    }
}

fn versions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions")
}

/// The table of a version, unpacked.
fn unpacked(version: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(version).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = Vec::new();
        GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut bytes).unwrap();
        fs::write(folder.path().join(path.file_stem().unwrap()), bytes).unwrap();
    }
    folder
}

fn pack(table: &Path, version: &Path) {
    fs::create_dir_all(version).unwrap();
    for entry in fs::read_dir(table).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{}.gz", path.file_name().unwrap().to_str().unwrap());
        let mut into = GzEncoder::new(File::create(version.join(name)).unwrap(), Compression::best());
        into.write_all(&fs::read(path).unwrap()).unwrap();
        into.finish().unwrap();
    }
}

#[test]
fn tables_of_every_version_are_read_and_go_on() {
    if std::env::var_os("UPDATE_VERSIONS").is_some() && !versions().join("1.0").exists() {
        let folder = tempfile::tempdir().unwrap();
        make(&folder.path().join("t"));
        pack(&folder.path().join("t"), &versions().join("1.0"));
    }
    let all: Vec<PathBuf> = fs::read_dir(versions()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!all.is_empty());
    for version in all {
        let table = unpacked(&version);
        check(table.path(), ROWS);
        assert!(arrowwood::check(table.path(), |_, _| ()).unwrap().is_good(), "{}", version.display());
        let mut writer = Writer::open(table.path(), None, &WriterOptions::default()).unwrap();
        writer.append(&batch(ROWS..2 * ROWS)).unwrap();
        writer.close().unwrap();
        check(table.path(), 2 * ROWS);
    }
}

/// Changes the version in the headers of the table's segments.
fn say(table: &Path, at: usize, number: u16) {
    for entry in fs::read_dir(table).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let Some(page) = bytes.chunks(4096).position(|page| page.starts_with(b"ArrwWood")) else { continue };
        let start = 4096 * page;
        bytes[start + at..start + at + 2].copy_from_slice(&number.to_le_bytes());
        let len = u32::from_le_bytes(bytes[start + 12..start + 16].try_into().unwrap()) as usize;
        bytes[start + 16..start + 20].fill(0);
        let crc = crc32c::crc32c(&bytes[start..start + len]);
        bytes[start + 16..start + 20].copy_from_slice(&crc.to_le_bytes());
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_newer_minor_version_is_read_and_a_newer_major_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    make(&table);
    say(&table, 10, 7);
    check(&table, ROWS);
    say(&table, 8, 2);
    let refused = open(&table).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("format version 2"), "{refused}");
    let refused = Writer::open(&table, None, &WriterOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}
