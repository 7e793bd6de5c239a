//! Tests of datasets of many files, which are mapped lazily: each when its values are first read.
//!
//! A file that has changed since the dataset was opened is an error.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, types::Int32Type};
use arrowwood::{
    Dataset, Error, ErrorKind, Format, OpenOptions, Validation, WriteOptions, Writer, WriterOptions, open, write,
};

use crate::wait::wait_until;

/// The number of files, which is larger than the number that is mapped eagerly.
const FILES: usize = 300;

fn create_batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.clone().map(|row| format!("row {row}"))));
    let keys: Vec<_> = rows.map(|row| format!("key {}", row % 3)).collect();
    let keys: DictionaryArray<Int32Type> = keys.iter().map(String::as_str).collect();
    RecordBatch::try_from_iter([("n", numbers), ("text", texts), ("key", Arc::new(keys))]).unwrap()
}

/// Writes file number `number`: a file if it is even, else a stream.
///
/// It has 4 batches of 5 rows each. Every hundredth file has 80, which are more than are counted when it is opened.
fn write_shard(folder: &Path, number: usize) -> PathBuf {
    let first = number as i64 * 1000;
    let batches = if number.is_multiple_of(100) { 80 } else { 4 };
    let batches = (0..batches).map(|batch| create_batch(first + batch * 5..first + batch * 5 + 5)).collect::<Vec<_>>();
    let format = if number % 2 == 1 { Format::Stream } else { Format::File };
    let path = folder.join(format!("{number:04}.arrow"));
    write(&Dataset::try_from(batches).unwrap(), &path, &WriteOptions { format, ..WriteOptions::default() }).unwrap();
    path
}

fn write_shards(folder: &Path) -> Vec<PathBuf> {
    (0..FILES).map(|number| write_shard(folder, number)).collect()
}

/// Returns the number of mappings of files in `folder` in this process.
fn count_mappings(folder: &Path) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(folder.to_str().unwrap())).count()
}

/// Returns the number of files in `folder` that this process has open.
fn count_open_files(folder: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    links.filter(|path| path.starts_with(folder)).count()
}

fn read_batches(dataset: &Dataset) -> Vec<RecordBatch> {
    dataset.to_record_batches().map(Result::unwrap).collect()
}

/// Returns the cell of a row in the column `text`.
fn text_at(dataset: &Dataset, row: u64) -> String {
    dataset.row(row).unwrap().get(1).unwrap().to_string()
}

/// Sums the column `n`, which reads values of every file.
fn sum_of_n(dataset: &Dataset) -> Result<String, Error> {
    dataset.column("n")?.sum().map(|sum| sum.to_string())
}

#[test]
fn many_files_are_the_concatenation_of_single_ones() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write_shards(folder.path());
    let singles: Vec<_> = paths.iter().map(|path| open(path).unwrap()).collect();
    let expected = Dataset::concat(&singles).unwrap();
    for dataset in [open(folder.path()).unwrap(), open(folder.path().join("*.arrow")).unwrap()] {
        assert_eq!(dataset.len().unwrap(), expected.len().unwrap());
        assert_eq!(dataset.num_batches().unwrap(), expected.num_batches().unwrap());
        assert_eq!(dataset.footprint(), expected.footprint());
        assert_eq!(dataset.file_slices().unwrap(), expected.file_slices().unwrap());
        assert_eq!(text_at(&dataset.slice(5, 3000).unwrap(), 70), text_at(&expected, 75));
        assert_eq!(sum_of_n(&dataset).unwrap(), sum_of_n(&expected).unwrap());
        assert_eq!(dataset.messages().unwrap().len(), expected.messages().unwrap().len());
        assert!(read_batches(&dataset) == read_batches(&expected));
        let reopened = OpenOptions::new().file_slices(&dataset.file_slices().unwrap()).unwrap();
        assert!(read_batches(&reopened) == read_batches(&expected));
        dataset.validate(|_, _| ()).unwrap();
    }
}

#[test]
fn files_are_mapped_when_their_values_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write_shards(folder.path());
    let dataset = open(folder.path()).unwrap();
    assert_eq!(count_open_files(folder.path()), 0);
    assert_eq!(count_mappings(folder.path()), 0);
    // Counts the rows of the three files with 80 batches.
    dataset.len().unwrap();
    assert_eq!(count_mappings(folder.path()), 3);
    // The slice lies in one or two files.
    sum_of_n(&dataset.slice(1000, 20).unwrap()).unwrap();
    let mappings = count_mappings(folder.path());
    assert!(mappings == 4 || mappings == 5, "{mappings} are mapped");
    drop(dataset);
    assert_eq!(count_mappings(folder.path()), 0);

    // Files that are copied or validated are read eagerly.
    for path in &paths {
        fs::write(path, fs::read(path).unwrap()).unwrap();
    }
    assert_eq!(OpenOptions::new().copy(true).path(folder.path()).unwrap().footprint().mapped, 0);
    OpenOptions::new().validate(Validation::Full).path(folder.path()).unwrap();
}

/// Rewrites a file with the same bytes until its modification time changes, which has a coarse resolution.
fn rewrite(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let old_time = fs::metadata(path).unwrap().modified().unwrap();
    wait_until("a later time of a file", || {
        fs::write(path, &bytes).unwrap();
        fs::metadata(path).unwrap().modified().unwrap() > old_time
    });
}

/// Replaces a file with a copy.
fn replace(path: &Path) {
    let copy = path.with_extension("new");
    fs::copy(path, &copy).unwrap();
    fs::rename(copy, path).unwrap();
}

fn truncate(path: &Path) {
    fs::File::options().write(true).open(path).unwrap().set_len(64).unwrap();
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

#[test]
fn reading_a_changed_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write_shards(folder.path());
    type Change = (&'static str, fn(&Path));
    let changes: [Change; 4] =
        [("replaced", replace), ("overwritten", rewrite), ("truncated", truncate), ("removed", remove)];
    for (number, (name, change)) in changes.iter().enumerate() {
        let dataset = open(folder.path()).unwrap();
        dataset.len().unwrap();
        let changed = 2 * number + 2;
        let rows = 20 * (changed as u64 + 1) + 310 * (changed as u64 / 101);
        change(&paths[changed]);
        let e = sum_of_n(&dataset).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::FileChanged, "{name}: {e}");
        assert_eq!(e.path(), Some(&*paths[changed]), "{name}");
        assert!(e.message().contains("open them again"), "{name}: {e}");
        // Other files can still be read.
        sum_of_n(&dataset.slice(rows + 400, 20).unwrap()).unwrap();
        write_shard(folder.path(), changed);
    }
}

/// Writes two files of the same size, whose batches differ in their numbers of rows; returns their paths.
fn write_two_of_one_size(path: &Path, format: Format) -> (PathBuf, PathBuf) {
    let ten_rows = create_batch(0..10);
    let five_rows = ten_rows.slice(0, 5);
    let first = Dataset::try_from(vec![ten_rows.clone(), five_rows.clone()]).unwrap();
    let second = Dataset::try_from(vec![five_rows, ten_rows]).unwrap();
    let options = WriteOptions { format, ..WriteOptions::default() };
    let first_path = path.with_extension("first");
    let second_path = path.with_extension("second");
    write(&first, &first_path, &options).unwrap();
    write(&second, &second_path, &options).unwrap();
    assert_eq!(fs::metadata(&first_path).unwrap().len(), fs::metadata(&second_path).unwrap().len());
    (first_path, second_path)
}

/// Modification times have a coarse resolution: an overwritten file may have the same time, and the same size.
#[test]
fn overwritten_files_of_the_same_size_and_time_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write_shards(folder.path());
    for (number, format) in [(4, Format::File), (5, Format::Stream)] {
        let path = &paths[number];
        let (first, second) = write_two_of_one_size(path, format);
        fs::copy(first, path).unwrap();
        let time = fs::metadata(path).unwrap().modified().unwrap();
        let dataset = open(folder.path().join("*.arrow")).unwrap();
        dataset.len().unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        (&file).write_all(&fs::read(second).unwrap()).unwrap();
        file.set_modified(time).unwrap();
        let e = sum_of_n(&dataset).unwrap_err();
        assert_eq!((e.kind(), e.path()), (ErrorKind::FileChanged, Some(&**path)), "{e}");
    }
    // A rewritten stream of the same size isn't taken for one that has grown.
    let dataset = open(folder.path().join("*.arrow")).unwrap();
    dataset.len().unwrap();
    rewrite(&paths[7]);
    assert_eq!(sum_of_n(&dataset).unwrap_err().path(), Some(&*paths[7]));
}

#[test]
fn a_stream_that_has_grown_keeps_its_original_rows() {
    const END_OF_STREAM_LEN: u64 = 8;
    let folder = tempfile::tempdir().unwrap();
    let paths = write_shards(folder.path());
    // Its writer has not finished the stream.
    let growing = fs::File::options().append(true).open(&paths[1]).unwrap();
    let len = growing.metadata().unwrap().len();
    growing.set_len(len - END_OF_STREAM_LEN).unwrap();
    let dataset = open(folder.path()).unwrap();
    // Appends the batches of another stream, which begin at the second continuation marker.
    let other = fs::read(&paths[3]).unwrap();
    let schema_len = other.windows(4).skip(4).position(|word| word == [0xff; 4]).unwrap() + 4;
    (&growing).write_all(&other[schema_len..]).unwrap();
    assert_eq!(open(&paths[1]).unwrap().len().unwrap(), 40);
    assert_eq!(dataset.slice(400, 20).unwrap().row(3).unwrap().get(0).unwrap().to_string(), "1003");
    assert_eq!(dataset.len().unwrap(), 3 * 400 + 297 * 20);
    assert_eq!(dataset.slice(420, 1).unwrap().row(0).unwrap().get(0).unwrap().to_string(), "2000");
}

/// Their writer changes them while they are open, so they couldn't be compared with what was opened.
#[test]
fn segments_of_a_live_table_are_mapped_eagerly() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let options = WriterOptions { segment_rows: Some(8), ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(create_batch(0..0).schema()), &options).unwrap();
    writer.append(&create_batch(0..8 * FILES as i64 + 3)).unwrap();
    writer.commit().unwrap();
    let dataset = open(table.join("*.arrow")).unwrap();
    let rows = dataset.len().unwrap();
    assert_eq!(rows, 8 * FILES as u64 + 3);
    writer.append(&create_batch(0..2)).unwrap();
    writer.commit().unwrap();
    assert_eq!(dataset.column("n").unwrap().len().unwrap(), rows);
    sum_of_n(&dataset).unwrap();
    // Dropping the writer waits for its thread, which may close the last synced file after `sync` has returned.
    writer.sync().unwrap();
    drop(writer);
    let open_files = count_open_files(&table);
    drop(dataset);
    assert_eq!(count_open_files(&table), open_files, "there may be more of them than files that a process may open");
}

#[test]
fn open_rejects_one_invalid_file_of_many() {
    let folder = tempfile::tempdir().unwrap();
    let paths = write_shards(folder.path());

    // A truncated file has the same error as if it were opened alone.
    let bytes = fs::read(&paths[7]).unwrap();
    fs::write(&paths[7], &bytes[..bytes.len() / 2]).unwrap();
    let expected = open(&paths[7]).and_then(|ds| ds.len()).unwrap_err();
    let e = open(folder.path()).and_then(|ds| ds.len()).unwrap_err();
    assert_eq!((e.kind(), e.path(), e.message()), (expected.kind(), expected.path(), expected.message()));

    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other_schema = RecordBatch::try_from_iter([("n", column)]).unwrap();
    write(&Dataset::try_from(vec![other_schema]).unwrap(), &paths[7], &WriteOptions::default()).unwrap();
    let e = open(folder.path()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::SchemaMismatch);
    assert!(e.message().contains("0007.arrow"), "{e}");

    fs::write(&paths[7], "no Arrow file").unwrap();
    assert_eq!(open(folder.path()).unwrap_err().path(), Some(&*paths[7]));

    fs::remove_file(&paths[7]).unwrap();
    let all_paths: Vec<_> = paths.iter().collect();
    assert_eq!(OpenOptions::new().paths(&all_paths).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn partitions_of_single_files_are_mapped_when_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..FILES + 100 {
        let partition = folder.path().join(format!("part={number}"));
        fs::create_dir(&partition).unwrap();
        fs::rename(write_shard(folder.path(), number), partition.join("rows.arrow")).unwrap();
    }
    let dataset = open(folder.path()).unwrap();
    assert_eq!(dataset.len().unwrap(), 4 * 400 + 396 * 20);
    let mappings = count_mappings(folder.path());
    assert!(mappings < FILES, "{mappings} are mapped");
    sum_of_n(&dataset).unwrap();
    assert_eq!(count_mappings(folder.path()), FILES + 100);
}
