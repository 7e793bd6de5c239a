//! Datasets of very many files: each is mapped when its values are read, and is the file that was opened or an error.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, types::Int32Type};
use arrowwood::{
    Dataset, ErrorKind, Format, OpenOptions, Validation, WriteOptions, Writer, WriterOptions, open, write,
};

use crate::wait::wait_until;

/// More than are mapped from the start.
const FILES: usize = 300;

fn batch_of(rows: std::ops::Range<i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.clone().map(|row| format!("row {row}"))));
    let keys: Vec<_> = rows.map(|row| format!("key {}", row % 3)).collect();
    let keys: DictionaryArray<Int32Type> = keys.iter().map(String::as_str).collect();
    RecordBatch::try_from_iter([("n", numbers), ("text", texts), ("key", Arc::new(keys))]).unwrap()
}

/// Writes file number `number`, which has four batches of five rows each, or more batches than are known at once.
fn write_shard(folder: &Path, number: usize) -> PathBuf {
    let first = number as i64 * 1000;
    let batches = if number.is_multiple_of(100) { 80 } else { 4 };
    let batches = (0..batches).map(|batch| batch_of(first + batch * 5..first + batch * 5 + 5)).collect::<Vec<_>>();
    let format = if number % 2 == 1 { Format::Stream } else { Format::File };
    let path = folder.join(format!("{number:04}.arrow"));
    write(&Dataset::try_from(batches).unwrap(), &path, &WriteOptions { format, ..WriteOptions::default() }).unwrap();
    path
}

/// Files and streams in turns.
fn shards(folder: &Path) -> Vec<PathBuf> {
    (0..FILES).map(|number| write_shard(folder, number)).collect()
}

/// The number of mappings of files in `folder`, which are those that this process has of them.
fn mapped(folder: &Path) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(folder.to_str().unwrap())).count()
}

/// The number of files in `folder` that this process has open.
fn opened(folder: &Path) -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap();
    let files = files.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    files.filter(|path| path.starts_with(folder)).count()
}

#[test]
fn many_files_are_one_dataset_as_few_are() {
    let folder = tempfile::tempdir().unwrap();
    let paths = shards(folder.path());
    let each: Vec<_> = paths.iter().map(|path| open(path).unwrap()).collect();
    let twin = Dataset::concat(&each).unwrap();
    for many in [open(folder.path()).unwrap(), open(folder.path().join("*.arrow")).unwrap()] {
        assert_eq!(many.len().unwrap(), twin.len().unwrap());
        assert_eq!(many.num_batches().unwrap(), twin.num_batches().unwrap());
        assert_eq!(many.footprint(), twin.footprint());
        assert_eq!(many.file_slices().unwrap(), twin.file_slices().unwrap());
        let cell = |ds: &Dataset, row| ds.row(row).unwrap().get(1).unwrap().to_string();
        assert_eq!(cell(&many.slice(5, 3000).unwrap(), 70), cell(&twin, 75));
        let sum = |ds: &Dataset| ds.column("n").unwrap().sum().unwrap().to_string();
        assert_eq!(sum(&many), sum(&twin));
        assert_eq!(many.messages().unwrap().len(), twin.messages().unwrap().len());
        let rows = |ds: &Dataset| ds.to_record_batches().map(Result::unwrap).collect::<Vec<_>>();
        assert!(rows(&many) == rows(&twin));
        let reopened = OpenOptions::new().file_slices(&many.file_slices().unwrap()).unwrap();
        assert!(rows(&reopened) == rows(&twin));
        many.validate(|_, _| ()).unwrap();
    }
}

#[test]
fn a_file_is_mapped_when_its_values_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let paths = shards(folder.path());
    let many = open(folder.path()).unwrap();
    assert_eq!(opened(folder.path()), 0);
    assert_eq!(mapped(folder.path()), 0);
    // Three of the files have more batches than are counted when they are opened.
    many.len().unwrap();
    assert_eq!(mapped(folder.path()), 3);
    many.slice(1000, 20).unwrap().column("n").unwrap().sum().unwrap();
    let now = mapped(folder.path());
    assert!(now == 4 || now == 5, "{now} are mapped");
    drop(many);
    assert_eq!(mapped(folder.path()), 0);
    // What is to be checked, or copied, whole is read at once.
    for path in &paths {
        fs::write(path, fs::read(path).unwrap()).unwrap();
    }
    assert_eq!(OpenOptions::new().copy(true).path(folder.path()).unwrap().footprint().mapped, 0);
    OpenOptions::new().validate(Validation::Full).path(folder.path()).unwrap();
}

/// Writes the bytes of a file again, until its time shows it: that is the time of the system's last tick.
fn overwrite(path: &Path) {
    let time = || fs::metadata(path).unwrap().modified().unwrap();
    let (bytes, before) = (fs::read(path).unwrap(), time());
    wait_until("a later time of a file", || {
        fs::write(path, &bytes).unwrap();
        time() > before
    });
}

#[test]
fn a_file_that_is_another_when_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let paths = shards(folder.path());
    type Event = (&'static str, fn(&Path));
    let events: [Event; 4] = [
        ("replaced", |path| {
            let other = path.with_extension("new");
            fs::copy(path, &other).unwrap();
            fs::rename(other, path).unwrap();
        }),
        ("overwritten", |path| {
            overwrite(path);
        }),
        ("truncated", |path| fs::File::options().write(true).open(path).unwrap().set_len(64).unwrap()),
        ("removed", |path| fs::remove_file(path).unwrap()),
    ];
    for (number, (name, event)) in events.iter().enumerate() {
        let many = open(folder.path()).unwrap();
        many.len().unwrap();
        let changed = 2 * number + 2;
        let rows = 20 * (changed as u64 + 1) + 310 * (changed as u64 / 101);
        event(&paths[changed]);
        let e = many.column("n").unwrap().sum().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::FileChanged, "{name}: {e}");
        assert_eq!(e.path(), Some(&*paths[changed]), "{name}");
        assert!(e.message().contains("open them again"), "{name}: {e}");
        // The others can be read.
        many.slice(rows + 400, 20).unwrap().column("n").unwrap().sum().unwrap();
        write_shard(folder.path(), changed);
    }
}

/// Times of files are those of the system's last tick: an overwritten file may have the same, and the same size.
#[test]
fn batches_of_an_overwritten_file_are_compared_whatever_its_time_says() {
    let folder = tempfile::tempdir().unwrap();
    let paths = shards(folder.path());
    let other = |path: &Path, format| {
        let (many, few) = (batch_of(0..10), batch_of(0..10).slice(0, 5));
        let of = |batches: [&RecordBatch; 2]| Dataset::try_from(batches.map(Clone::clone).to_vec()).unwrap();
        let options = WriteOptions { format, ..WriteOptions::default() };
        let (one, two) = (path.with_extension("one"), path.with_extension("two"));
        write(&of([&many, &few]), &one, &options).unwrap();
        write(&of([&few, &many]), &two, &options).unwrap();
        (one, two)
    };
    for (number, format) in [(4, Format::File), (5, Format::Stream)] {
        let path = &paths[number];
        let (one, two) = other(path, format);
        assert_eq!(fs::metadata(&one).unwrap().len(), fs::metadata(&two).unwrap().len());
        fs::copy(one, path).unwrap();
        let time = fs::metadata(path).unwrap().modified().unwrap();
        let many = open(folder.path().join("*.arrow")).unwrap();
        many.len().unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        (&file).write_all(&fs::read(two).unwrap()).unwrap();
        file.set_modified(time).unwrap();
        let e = many.column("n").unwrap().sum().unwrap_err();
        assert_eq!((e.kind(), e.path()), (ErrorKind::FileChanged, Some(&**path)), "{e}");
    }
    // A stream that was written again has not grown.
    let many = open(folder.path().join("*.arrow")).unwrap();
    many.len().unwrap();
    overwrite(&paths[7]);
    assert_eq!(many.column("n").unwrap().sum().unwrap_err().path(), Some(&*paths[7]));
}

#[test]
fn a_stream_that_has_grown_keeps_the_rows_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let paths = shards(folder.path());
    // Its writer has not written the mark of its end yet.
    let growing = fs::File::options().append(true).open(&paths[1]).unwrap();
    let len = growing.metadata().unwrap().len();
    growing.set_len(len - 8).unwrap();
    let many = open(folder.path()).unwrap();
    let schema_len = |bytes: &[u8]| bytes.windows(4).skip(4).position(|word| word == [0xff; 4]).unwrap() + 4;
    let other = fs::read(&paths[3]).unwrap();
    (&growing).write_all(&other[schema_len(&other)..]).unwrap();
    assert_eq!(open(&paths[1]).unwrap().len().unwrap(), 40);
    assert_eq!(many.slice(400, 20).unwrap().row(3).unwrap().get(0).unwrap().to_string(), "1003");
    assert_eq!(many.len().unwrap(), 3 * 400 + 297 * 20);
    assert_eq!(many.slice(420, 1).unwrap().row(0).unwrap().get(0).unwrap().to_string(), "2000");
}

/// Their writer changes them while they are open.
#[test]
fn segments_of_a_live_table_are_mapped_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let options = WriterOptions { segment_rows: Some(8), ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(batch_of(0..0).schema()), &options).unwrap();
    writer.append(&batch_of(0..8 * FILES as i64 + 3)).unwrap();
    writer.commit().unwrap();
    let many = open(table.join("*.arrow")).unwrap();
    let rows = many.len().unwrap();
    assert_eq!(rows, 8 * FILES as u64 + 3);
    writer.append(&batch_of(0..2)).unwrap();
    writer.commit().unwrap();
    assert_eq!(many.column("n").unwrap().len().unwrap(), rows);
    many.column("n").unwrap().sum().unwrap();
    // Dropping the writer waits for its thread, which may close the last synced file after `sync` has returned.
    writer.sync().unwrap();
    drop(writer);
    let left = opened(&table);
    drop(many);
    assert_eq!(opened(&table), left, "there may be more of them than files that a process may open");
}

#[test]
fn what_is_wrong_with_one_of_many_is_told_when_they_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let paths = shards(folder.path());
    let good = fs::read(&paths[7]).unwrap();
    fs::write(&paths[7], &good[..good.len() / 2]).unwrap();
    let alone = open(&paths[7]).and_then(|ds| ds.len()).unwrap_err();
    let e = open(folder.path()).and_then(|ds| ds.len()).unwrap_err();
    assert_eq!((e.kind(), e.path(), e.message()), (alone.kind(), alone.path(), alone.message()));
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("n", column)]).unwrap();
    write(&Dataset::try_from(vec![other]).unwrap(), &paths[7], &WriteOptions::default()).unwrap();
    let e = open(folder.path()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::SchemaMismatch);
    assert!(e.message().contains("0007.arrow"), "{e}");
    fs::write(&paths[7], "no Arrow file").unwrap();
    assert_eq!(open(folder.path()).unwrap_err().path(), Some(&*paths[7]));
    fs::remove_file(&paths[7]).unwrap();
    let list: Vec<_> = paths.iter().collect();
    assert_eq!(OpenOptions::new().paths(&list).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn very_many_partitions_of_plain_files_are_mapped_as_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..FILES + 100 {
        let partition = folder.path().join(format!("part={number}"));
        fs::create_dir(&partition).unwrap();
        fs::rename(write_shard(folder.path(), number), partition.join("rows.arrow")).unwrap();
    }
    let many = open(folder.path()).unwrap();
    assert_eq!(many.len().unwrap(), 4 * 400 + 396 * 20);
    let before = mapped(folder.path());
    assert!(before < FILES, "{before} are mapped");
    many.column("n").unwrap().sum().unwrap();
    assert_eq!(mapped(folder.path()), FILES + 100);
}
