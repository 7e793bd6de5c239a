//! Tests of pushing tables to a folder, which continues after the last row there even if segments were merged or
//! dropped.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrowwood::{Dataset, ErrorKind, Writer, WriterOptions, compact, open, parse_schema, table_stat};
use arrowwood_objects::{PushOptions, PushResult, push};

use crate::tables::{text_batch, unsynced};

/// Appends rows to a table, which seals segments of `segment_rows` rows.
fn append_segments(table: &Path, rows: Range<i64>, segment_rows: u64) {
    let options = WriterOptions { segment_rows: Some(segment_rows), ..WriterOptions::default() };
    let schema = Arc::new(parse_schema("n: int64, text: utf8").unwrap());
    let mut writer = Writer::open(table, Some(schema), &options).unwrap();
    writer.append(&text_batch(rows)).unwrap();
    writer.close().unwrap();
}

/// Appends rows to a table with segments of 100 rows.
fn append(table: &Path, rows: Range<i64>) {
    append_segments(table, rows, 100);
}

fn drop_rows_before(table: &Path, row: u64) {
    let mut writer = Writer::open(table, None, &WriterOptions::default()).unwrap();
    writer.drop_before(row).unwrap();
}

fn folder_url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

/// Pushes sealed rows or, with `all`, all durable rows.
fn push_table(table: &Path, store: &Path, all: bool) -> arrowwood::Result<PushResult> {
    let options = PushOptions { all, batch_rows: Some(30), ..PushOptions::default() };
    push(table, &folder_url(store), &options, |_, _| ())
}

/// Copies the files of a table's directory.
fn copy_table(table: &Path, copy: &Path) {
    std::fs::create_dir(copy).unwrap();
    for file in std::fs::read_dir(table).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
}

/// Returns each row as text.
fn row_texts(path: &Path) -> Vec<String> {
    let rows = open(path).unwrap();
    rows.rows().map(|row| row.unwrap().iter().map(|(_, value)| value.unwrap().to_string()).collect()).collect()
}

fn sum_of_n(rows: &Dataset) -> String {
    rows.column("n").unwrap().sum().unwrap().to_string()
}

fn object_name(first_row: u64) -> String {
    format!("{first_row:020}.arrow")
}

#[test]
fn push_continues_after_the_last_row() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    append(&table, 0..250);
    let first = push_table(&table, &store, false).unwrap();
    assert_eq!((first.rows, first.end, first.left), (200, 200, 50));
    assert_eq!(row_texts(&store), row_texts(&table)[..200]);
    let second = push_table(&table, &store, false).unwrap();
    assert_eq!((second.rows, second.objects, second.end, second.left), (0, 0, 200, 50));
    let all = push_table(&table, &store, true).unwrap();
    assert_eq!((all.rows, all.end, all.left), (50, 250, 0));

    append(&table, 250..420);
    compact(&table, |_, _| ()).unwrap();
    append(&table, 420..425);
    let third = push_table(&table, &store, false).unwrap();
    assert_eq!((third.rows, third.end, third.left), (170, 420, 5));
    assert_eq!(row_texts(&store), row_texts(&table)[..420]);

    drop_rows_before(&table, 300);
    assert_eq!(push_table(&table, &store, true).unwrap().end, 425);
    let stored = row_texts(&store);
    assert_eq!(stored.len(), 425);
    let first_row = open(&table).unwrap().first_row() as usize;
    assert_eq!(stored[300..], row_texts(&table)[300 - first_row..]);
}

#[test]
fn push_rejects_other_and_damaged_objects() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    append(&table, 0..250);
    let error = push_table(&folder.path().join("nothing"), &store, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    push_table(&table, &store, true).unwrap();
    let object = std::fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();

    // A gap before the rows of an object.
    let distant = store.join(object_name(900));
    std::fs::copy(&object, &distant).unwrap();
    assert_eq!(push_table(&table, &store, false).unwrap_err().kind(), ErrorKind::InvalidData);

    // A name that is not a row.
    let other = store.join("other.arrow");
    std::fs::rename(&distant, &other).unwrap();
    assert_eq!(push_table(&table, &store, false).unwrap_err().kind(), ErrorKind::InvalidData);
    std::fs::remove_file(&other).unwrap();

    // Objects of another table.
    let other_table = folder.path().join("another");
    let schema = Arc::new(parse_schema("n: int32").unwrap());
    drop(Writer::open(&other_table, Some(schema), &WriterOptions::default()).unwrap());
    assert!(push_table(&other_table, &store, false).is_err());

    // A truncated object.
    let bytes = std::fs::read(&object).unwrap();
    std::fs::write(&object, &bytes[..bytes.len() - 7]).unwrap();
    assert_eq!(push_table(&table, &store, false).unwrap_err().kind(), ErrorKind::InvalidData);

    // A web server, which has no way to create objects.
    let error = push(&table, "https://example.org/x", &PushOptions::default(), |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// A table of 250 rows of which 200 were pushed, and the path of another table, which does not exist.
struct HalfPushed {
    table: PathBuf,
    other: PathBuf,
    store: PathBuf,
}

impl HalfPushed {
    fn new(folder: &Path) -> HalfPushed {
        let table = folder.join("table");
        let store = folder.join("store");
        append(&table, 0..250);
        assert_eq!(push_table(&table, &store, false).unwrap().end, 200);
        HalfPushed { table, other: folder.join("other"), store }
    }
}

/// A new table with the same columns must not continue after the rows of the table before.
#[test]
fn push_rejects_another_table_with_the_same_columns() {
    let folder = tempfile::tempdir().unwrap();
    let HalfPushed { table, other, store } = HalfPushed::new(folder.path());
    append(&other, 1000..1450);
    let error = push_table(&other, &store, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("among the rows from 100 to 200 are others than the table's"), "{error}");
    assert_eq!(row_texts(&store), row_texts(&table)[..200]);

    // A copy of the table has the same rows.
    let copy = folder.path().join("copy");
    copy_table(&table, &copy);
    append(&copy, 250..310);
    assert_eq!(push_table(&copy, &store, false).unwrap().end, 300);
}

/// Without common rows, only the identity of the table's directory shows that the objects are its own.
#[test]
fn push_continues_after_all_pushed_rows_were_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let HalfPushed { table, other, store } = HalfPushed::new(folder.path());
    for (table, rows) in [(&table, 250..310), (&other, 0..310)] {
        append(table, rows);
        drop_rows_before(table, 200);
        assert_eq!(open(table).unwrap().first_row(), 200);
    }
    let error = push_table(&other, &store, false).unwrap_err();
    assert!(error.to_string().contains("nothing tells that it is the same"), "{error}");
    let unseen = PushOptions { unseen: true, batch_rows: Some(30), ..PushOptions::default() };
    let url = folder_url(&store);
    // Some file systems have no identities.
    if arrowwood::table_identity(&table).unwrap().is_some() {
        assert_eq!(push_table(&table, &store, false).unwrap().end, 300);
    } else {
        assert_eq!(push(&table, &url, &unseen, |_, _| ()).unwrap().end, 300);
    }

    append(&other, 310..410);
    drop_rows_before(&other, 300);
    assert!(push_table(&other, &store, false).is_err());
    assert_eq!(push(&other, &url, &unseen, |_, _| ()).unwrap().end, 400);
    assert_eq!(open(&store).unwrap().len().unwrap(), 400);
}

/// The slower of two pushes once replaced the longer object of the faster one, and both reported success.
#[test]
fn concurrent_pushes_do_not_replace_objects() {
    for rows in [250, 900_000] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("table");
        let store = folder.path().join("store");
        let segment_rows = rows as u64 / 2;
        append_segments(&table, 0..rows, segment_rows);
        let url = folder_url(&store);
        let options = PushOptions { all: true, batch_rows: Some(rows as u64 / 5), ..PushOptions::default() };
        let mut faster = None;
        // The faster push runs after the slower one has listed the store, and before it creates its first object.
        let slower = push(&table, &url, &options, |_, _| {
            if faster.is_none() {
                append_segments(&table, rows..2 * rows, segment_rows);
                faster = Some(push(&table, &url, &options, |_, _| ()).unwrap());
                append_segments(&table, 2 * rows..3 * rows, segment_rows);
            }
        });
        let slower = slower.unwrap();
        let faster = faster.unwrap();
        let rows = rows as u64;
        assert_eq!((faster.rows, faster.end), (2 * rows, 2 * rows));
        assert_eq!((slower.rows, slower.end, slower.left), (rows, 3 * rows, 0));
        let stored = open(&store).unwrap();
        assert_eq!(stored.len().unwrap(), 3 * rows);
        assert_eq!(sum_of_n(&stored), sum_of_n(&open(&table).unwrap()));
        let files = std::fs::read_dir(&store).unwrap();
        let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, [object_name(0), object_name(2 * rows)]);
    }
}

fn count_rows_of(paths: &[&Path]) -> arrowwood::Result<u64> {
    arrowwood::OpenOptions::new().paths(paths)?.len()
}

/// A dataset of the folder and the table would count the rows that are in both twice.
#[test]
fn datasets_reject_rows_that_are_in_table_and_object() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let other = folder.path().join("other");
    let store = folder.path().join("store");
    append(&table, 0..250);
    append(&other, 1000..1250);
    push_table(&table, &store, false).unwrap();
    let object = store.join(object_name(0));
    let copy = folder.path().join("moved");
    copy_table(&table, &copy);
    for table in [&table, &copy] {
        for paths in [[object.as_path(), table.as_path()], [table.as_path(), object.as_path()]] {
            let error = count_rows_of(&paths).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("rows 0 to 200 of one table are in"), "{error}");
        }
    }
    // Rows of other tables may have the same numbers.
    assert_eq!(count_rows_of(&[&object, &other]).unwrap(), 450);
    drop_rows_before(&table, 200);
    assert_eq!(count_rows_of(&[&object, &table]).unwrap(), 250);
}

/// An object without rows has the name of the next object, and no rows to continue after.
#[test]
fn push_names_an_object_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    append(&table, 0..250);
    push_table(&table, &store, false).unwrap();
    let schema = open(&table).unwrap().schema().clone();
    let empty = Dataset::from_batches(schema, vec![]).unwrap();
    let object = store.join(object_name(200));
    arrowwood::write(&empty, &object, &arrowwood::WriteOptions::default()).unwrap();
    let error = push_table(&table, &store, true).unwrap_err();
    assert!(error.to_string().contains("there is an object of this name already"), "{error}");
    std::fs::remove_file(object).unwrap();
    assert_eq!(push_table(&table, &store, true).unwrap().end, 250);
}

#[test]
fn objects_larger_than_a_part_of_an_upload_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    let schema = Arc::new(parse_schema("n: int64, text: utf8").unwrap());
    let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
    writer.append(&text_batch(0..1_200_000)).unwrap();
    writer.close().unwrap();
    let options = PushOptions { all: true, ..PushOptions::default() };
    let result = push(&table, &folder_url(&store), &options, |_, _| ()).unwrap();
    assert!(result.bytes > 16 << 20, "{} bytes", result.bytes);
    let stored = open(&store).unwrap();
    assert_eq!(stored.len().unwrap(), 1_200_000);
    assert_eq!(sum_of_n(&stored), sum_of_n(&open(&table).unwrap()));
    let batches = stored.num_batches().unwrap();
    assert!(batches > 40, "{batches} batches of some 480 KiB");
}

/// After a power cut, other rows could get the numbers of rows that were not durable, and the store would have the old
/// ones.
#[test]
fn only_durable_rows_are_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    let schema = Arc::new(parse_schema("n: int64, text: utf8").unwrap());
    let mut writer = Writer::open(&table, Some(schema), &unsynced(100)).unwrap();
    writer.append(&text_batch(0..120)).unwrap();
    writer.sync().unwrap();
    writer.append(&text_batch(120..350)).unwrap();
    writer.commit().unwrap();
    let durable_end = table_stat(&table).unwrap().unwrap().durable_end;
    assert!(durable_end < 350, "{durable_end} rows are durable");
    for all in [false, true] {
        let result = push_table(&table, &store, all).unwrap();
        assert!(result.end <= durable_end, "{result:?}, and {durable_end} rows are durable");
        assert_eq!(result.left, 350 - result.end);
    }
    writer.sync().unwrap();
    assert_eq!(push_table(&table, &store, true).unwrap().end, 350);
    assert_eq!(row_texts(&store), row_texts(&table));
}

/// The thread of a runtime must not be blocked by its own tasks.
#[test]
fn push_works_on_a_thread_of_a_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    append(&table, 0..250);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let result = runtime.block_on(async { push_table(&table, &store, true) }).unwrap();
    assert_eq!((result.rows, result.left), (250, 0));
}
