//! Tests of the library without optional features: it opens files and streams, reads rows and columns, and exports them
//! through the C data interface. What needs a missing feature is an error that names it.
//!
//! `make features` runs these tests without features; other runs have all of them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::ArrowArrayStreamReader;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrowwood::{Bytes, OpenOptions, Value, open, read_stream};

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|row| format!("row {row}"))));
    RecordBatch::try_from_iter([("number", numbers), ("name", names)]).unwrap()
}

/// Writes a file of two batches.
fn write_file(path: &Path, compression: Option<CompressionType>) {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let batch = batch();
    let mut writer = FileWriter::try_new_with_options(File::create(path).unwrap(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

fn encode_stream() -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn files_and_directories_are_opened_and_read() {
    let folder = tempfile::tempdir().unwrap();
    // An existing directory isn't a pattern, even if its name has wildcards.
    let directory = folder.path().join("a [1]*");
    std::fs::create_dir(&directory).unwrap();
    write_file(&directory.join("b.arrow"), None);
    write_file(&directory.join("a.arrow"), None);
    std::fs::write(directory.join("notes.txt"), "not Arrow").unwrap();
    let file = open(directory.join("a.arrow")).unwrap();
    assert_eq!((file.len().unwrap(), file.num_columns()), (2000, 2));
    let row = file.row(1001).unwrap();
    assert!(matches!(row.get(0).unwrap(), Value::Int(1)));
    assert_eq!(row.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["number", "name"]);
    let dataset = open(&directory).unwrap();
    assert_eq!(dataset.len().unwrap(), 4000);
    let names = dataset.column("name").unwrap();
    assert_eq!(names.get(3999).unwrap().to_string(), "row 999");
    assert_eq!(names.null_count().unwrap(), 0);
    assert!(dataset.slice(10, 20).unwrap().to_string().starts_with("Dataset: 20 rows"));
    assert!(open(directory.join("no.arrow")).unwrap_err().path().is_some());
}

#[test]
fn streams_are_opened_and_read() {
    let dataset = OpenOptions::new().bytes(Bytes::from(encode_stream())).unwrap();
    assert_eq!(dataset.len().unwrap(), 1000);
    let batches: Vec<_> = read_stream(&encode_stream()[..]).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(batches, [batch()]);
}

#[test]
fn columns_are_exported_through_the_c_data_interface() {
    let dataset = OpenOptions::new().bytes(Bytes::from(encode_stream())).unwrap();
    let exported = dataset.select(&["number"]).unwrap().export_stream().unwrap();
    let batches = ArrowArrayStreamReader::try_new(exported).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().values()[999], 999);
}

#[cfg(not(feature = "compression"))]
#[test]
fn compressed_bodies_need_a_feature() {
    let folder = tempfile::tempdir().unwrap();
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let path = folder.path().join("compressed.arrow");
        write_file(&path, Some(codec));
        // Opening a file reads no bodies.
        let file = open(&path).unwrap();
        assert_eq!(file.len().unwrap(), 2000);
        let error = file.row(0).unwrap().get(0).unwrap_err();
        assert_names_feature(&error, "compression");
        assert_eq!(error.path(), Some(path.as_path()));
    }
}

#[cfg(not(feature = "glob"))]
#[test]
fn patterns_need_a_feature() {
    let folder = tempfile::tempdir().unwrap();
    assert_names_feature(&open(folder.path().join("*.arrow")).unwrap_err(), "glob");
}

#[cfg(not(feature = "table"))]
#[test]
fn tables_need_a_feature() {
    let table = tempfile::tempdir().unwrap();
    let packed_table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/versions/1.0");
    for entry in std::fs::read_dir(packed_table).unwrap() {
        let packed = entry.unwrap().path();
        let mut unpacked = File::create(table.path().join(packed.file_stem().unwrap())).unwrap();
        std::io::copy(&mut flate2::read::GzDecoder::new(File::open(packed).unwrap()), &mut unpacked).unwrap();
    }
    assert_names_feature(&open(table.path()).unwrap_err(), "table");
}

#[cfg(not(all(feature = "compression", feature = "glob", feature = "table")))]
fn assert_names_feature(error: &arrowwood::Error, feature: &str) {
    assert_eq!(error.kind(), arrowwood::ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains(&format!("its feature `{feature}`")), "{error}");
}
