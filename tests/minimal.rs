//! What there is without any feature: files and streams opened, rows and columns read, handed out by the C data interface;
//! and an error that names the feature where one is missing. `make features` runs this with none, other tests with all.

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

/// A file of the batch, twice.
fn write_file(path: &Path, compression: Option<CompressionType>) {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let batch = batch();
    let mut writer = FileWriter::try_new_with_options(File::create(path).unwrap(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

fn stream() -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    writer.write(&batch()).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn files_and_directories_are_opened_and_read() {
    let folder = tempfile::tempdir().unwrap();
    // A directory is no pattern, whatever its name.
    let inside = folder.path().join("a [1]*");
    std::fs::create_dir(&inside).unwrap();
    write_file(&inside.join("b.arrow"), None);
    write_file(&inside.join("a.arrow"), None);
    std::fs::write(inside.join("notes.txt"), "not Arrow").unwrap();
    let file = open(inside.join("a.arrow")).unwrap();
    assert_eq!((file.len().unwrap(), file.num_columns()), (2000, 2));
    let row = file.row(1001).unwrap();
    assert!(matches!(row.get(0).unwrap(), Value::Int(1)));
    assert_eq!(row.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["number", "name"]);
    let directory = open(&inside).unwrap();
    assert_eq!(directory.len().unwrap(), 4000);
    let names = directory.column("name").unwrap();
    assert_eq!(names.get(3999).unwrap().to_string(), "row 999");
    assert_eq!(names.null_count().unwrap(), 0);
    assert!(directory.slice(10, 20).unwrap().to_string().starts_with("Dataset: 20 rows"));
    assert!(open(inside.join("no.arrow")).unwrap_err().path().is_some());
}

#[test]
fn streams_are_opened_and_read() {
    let opened = OpenOptions::new().bytes(Bytes::from(stream())).unwrap();
    assert_eq!(opened.len().unwrap(), 1000);
    let batches: Vec<_> = read_stream(&stream()[..]).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(batches, [batch()]);
}

#[test]
fn arrays_go_out_by_the_c_data_interface() {
    let opened = OpenOptions::new().bytes(Bytes::from(stream())).unwrap();
    let column = opened.select(&["number"]).unwrap().export_stream().unwrap();
    let batches = ArrowArrayStreamReader::try_new(column).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
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
        // Nothing of a body is needed to open it.
        let file = open(&path).unwrap();
        assert_eq!(file.len().unwrap(), 2000);
        let error = file.row(0).unwrap().get(0).unwrap_err();
        names_feature(&error, "compression");
        assert_eq!(error.path(), Some(path.as_path()));
    }
}

#[cfg(not(feature = "glob"))]
#[test]
fn patterns_need_a_feature() {
    let folder = tempfile::tempdir().unwrap();
    names_feature(&open(folder.path().join("*.arrow")).unwrap_err(), "glob");
}

#[cfg(not(feature = "table"))]
#[test]
fn tables_need_a_feature() {
    let table = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/versions/1.0")).unwrap() {
        let file = file.unwrap().path();
        let mut unpacked = File::create(table.path().join(file.file_stem().unwrap())).unwrap();
        std::io::copy(&mut flate2::read::GzDecoder::new(File::open(file).unwrap()), &mut unpacked).unwrap();
    }
    names_feature(&open(table.path()).unwrap_err(), "table");
}

#[cfg(not(all(feature = "compression", feature = "glob", feature = "table")))]
fn names_feature(error: &arrowwood::Error, feature: &str) {
    assert_eq!(error.kind(), arrowwood::ErrorKind::Unsupported, "{error}");
    assert!(error.message().contains(&format!("its feature `{feature}`")), "{error}");
}
