//! Tests of tables that were written by every released version of the format, or with versions that don't exist yet.
//!
//! `tests/versions/` has a folder of files for each version. `UPDATE_VERSIONS=1` creates the folder of the current one
//! if it is missing.

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

/// The rows of each table in `tests/versions/`.
const ROWS: i64 = 20;

const CURRENT_VERSION: &str = "1.0";
/// The offsets of the version in the header of a segment.
const MAJOR: usize = 8;
const MINOR: usize = 10;

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

/// Writes a table of three segments: a compacted one, a sealed one and a live one.
fn write_table(table: &Path) {
    let options = WriterOptions { segment_rows: Some(8), dictionary: vec!["k".into()], ..WriterOptions::default() };
    let mut writer = Writer::open(table, Some(schema()), &options).unwrap();
    writer.append(&batch(0..10)).unwrap();
    writer.commit().unwrap();
    writer.compact(|_, _| ()).unwrap();
    writer.append(&batch(10..ROWS)).unwrap();
    writer.close().unwrap();
}

fn check_rows(table: &Path, rows: i64) {
    let dataset = open(table).unwrap();
    dataset.validate(|_, _| ()).unwrap();
    assert_eq!(dataset.len().unwrap(), rows as u64);
    for (n, row) in (0..rows).zip(dataset.rows()) {
        let row = row.unwrap();
        let s = if n % 3 != 1 { format!("row {n}") } else { "null".into() };
        let cells = [0, 1, 2].map(|column| row.get(column).unwrap().to_string());
        assert_eq!(cells, [n.to_string(), s, format!("k{}", n % 4)]);
    }
}

/// Returns the folder with a folder for each version.
fn versions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/versions")
}

/// Unpacks the table of a version to a temporary folder.
fn unpack(version: &Path) -> tempfile::TempDir {
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
        let mut encoder = GzEncoder::new(File::create(version.join(name)).unwrap(), Compression::best());
        encoder.write_all(&fs::read(path).unwrap()).unwrap();
        encoder.finish().unwrap();
    }
}

#[test]
fn tables_of_every_version_can_be_read_and_written() {
    let current = versions().join(CURRENT_VERSION);
    if std::env::var_os("UPDATE_VERSIONS").is_some() && !current.exists() {
        let folder = tempfile::tempdir().unwrap();
        write_table(&folder.path().join("t"));
        pack(&folder.path().join("t"), &current);
    }
    let versions: Vec<PathBuf> = fs::read_dir(versions()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!versions.is_empty());
    for version in versions {
        let table = unpack(&version);
        check_rows(table.path(), ROWS);
        assert!(arrowwood::check(table.path(), |_, _| ()).unwrap().is_good(), "{}", version.display());
        let opened = Writer::open(table.path(), None, &WriterOptions::default());
        if cfg!(windows) {
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::Unsupported);
            continue;
        }
        let mut writer = opened.unwrap();
        writer.append(&batch(ROWS..2 * ROWS)).unwrap();
        writer.close().unwrap();
        check_rows(table.path(), 2 * ROWS);
    }
}

/// The tables are those that another system has written, as Windows reads them.
#[test]
fn tables_written_elsewhere_are_partitions() {
    let root = tempfile::tempdir().unwrap();
    for host in ["a", "b"] {
        let partition = root.path().join(format!("host={host}"));
        fs::create_dir(&partition).unwrap();
        let unpacked = unpack(&versions().join(CURRENT_VERSION));
        for entry in fs::read_dir(unpacked.path()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, partition.join(path.file_name().unwrap())).unwrap();
        }
    }
    let dataset = open(root.path()).unwrap();
    assert_eq!(dataset.len().unwrap(), 2 * ROWS as u64);
    for (number, row) in dataset.rows().enumerate() {
        let row = row.unwrap();
        assert_eq!(row.get(0).unwrap().to_string(), (number as i64 % ROWS).to_string());
        assert_eq!(row.get(3).unwrap().to_string(), if (number as i64) < ROWS { "a" } else { "b" });
    }
    assert_eq!(dataset.refresh().unwrap().len().unwrap(), 2 * ROWS as u64);
}

/// Changes a number of the version in the headers of all segments, and corrects the checksums.
fn forge_version(table: &Path, offset: usize, number: u16) {
    for entry in fs::read_dir(table).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        // Compacted segments have no header.
        let Some(page) = bytes.chunks(4096).position(|page| page.starts_with(b"ArrwWood")) else { continue };
        let header = 4096 * page;
        bytes[header + offset..header + offset + 2].copy_from_slice(&number.to_le_bytes());
        let len = u32::from_le_bytes(bytes[header + 12..header + 16].try_into().unwrap()) as usize;
        bytes[header + 16..header + 20].fill(0);
        let checksum = crc32c::crc32c(&bytes[header..header + len]);
        bytes[header + 16..header + 20].copy_from_slice(&checksum.to_le_bytes());
        fs::write(path, bytes).unwrap();
    }
}

#[test]
#[cfg_attr(windows, ignore = "a table is written")]
fn a_newer_minor_version_is_read_and_a_newer_major_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    write_table(&table);
    forge_version(&table, MINOR, 7);
    check_rows(&table, ROWS);
    forge_version(&table, MAJOR, 2);
    let error = open(&table).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("format version 2"), "{error}");
    let error = Writer::open(&table, None, &WriterOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
