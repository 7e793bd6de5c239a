//! Tables pushed to a folder: goes on where it stopped, whatever is merged or dropped here meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrowwood::{Dataset, ErrorKind, Writer, WriterOptions, compact, open, parse_schema, table_stat};
use arrowwood_objects::{PushOptions, PushResult, push};

use crate::tables::{text_batch, unsynced};

/// Appends rows to a table with segments of 100 rows.
fn append(table: &Path, range: std::ops::Range<i64>) {
    let options = WriterOptions { segment_rows: Some(100), ..WriterOptions::default() };
    let schema = Arc::new(parse_schema("n: int64, text: utf8").unwrap());
    let mut writer = Writer::open(table, Some(schema), &options).unwrap();
    writer.append(&text_batch(range)).unwrap();
    writer.close().unwrap();
}

fn pushed(table: &Path, store: &Path, all: bool) -> arrowwood::Result<PushResult> {
    let options = PushOptions { all, batch_rows: Some(30), ..PushOptions::default() };
    push(table, &format!("file://{}", store.display()), &options, |_, _| ())
}

fn numbers(rows: &Dataset) -> Vec<String> {
    rows.rows().map(|row| row.unwrap().iter().map(|(_, value)| value.unwrap().to_string()).collect()).collect()
}

#[test]
fn it_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    append(&table, 0..250);
    let first = pushed(&table, &store, false).unwrap();
    assert_eq!((first.rows, first.end, first.left), (200, 200, 50));
    assert_eq!(numbers(&open(&store).unwrap()), numbers(&open(&table).unwrap())[..200]);
    let again = pushed(&table, &store, false).unwrap();
    assert_eq!((again.rows, again.objects, again.end, again.left), (0, 0, 200, 50));
    let all = pushed(&table, &store, true).unwrap();
    assert_eq!((all.rows, all.end, all.left), (50, 250, 0));
    append(&table, 250..420);
    compact(&table, |_, _| ()).unwrap();
    append(&table, 420..425);
    let more = pushed(&table, &store, false).unwrap();
    assert_eq!((more.rows, more.end, more.left), (170, 420, 5));
    assert_eq!(numbers(&open(&store).unwrap()), numbers(&open(&table).unwrap())[..420]);
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    writer.drop_before(300).unwrap();
    drop(writer);
    assert_eq!(pushed(&table, &store, true).unwrap().end, 425);
    let copied = open(&store).unwrap();
    assert_eq!(copied.len().unwrap(), 425);
    assert_eq!(
        numbers(&copied)[300..],
        numbers(&open(&table).unwrap())[300 - open(&table).unwrap().first_row() as usize..]
    );
}

#[test]
fn what_is_not_of_the_table_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    append(&table, 0..250);
    let kind = |store: &Path| pushed(&table, store, false).unwrap_err().kind();
    assert_eq!(pushed(&folder.path().join("nothing"), &store, false).unwrap_err().kind(), ErrorKind::NotFound);
    pushed(&table, &store, true).unwrap();
    let object = std::fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();
    // Rows that are missing before others.
    std::fs::copy(&object, store.join(format!("{:020}.arrow", 900))).unwrap();
    assert_eq!(kind(&store), ErrorKind::InvalidData);
    std::fs::rename(store.join(format!("{:020}.arrow", 900)), store.join("other.arrow")).unwrap();
    assert_eq!(kind(&store), ErrorKind::InvalidData);
    std::fs::remove_file(store.join("other.arrow")).unwrap();
    // Another table's.
    let other = folder.path().join("another");
    let schema = Arc::new(parse_schema("n: int32").unwrap());
    drop(Writer::open(&other, Some(schema), &WriterOptions::default()).unwrap());
    assert!(pushed(&other, &store, false).is_err());
    // Cut off.
    let bytes = std::fs::read(&object).unwrap();
    std::fs::write(&object, &bytes[..bytes.len() - 7]).unwrap();
    assert_eq!(kind(&store), ErrorKind::InvalidData);
    assert_eq!(
        push(&table, "https://example.org/x", &PushOptions::default(), |_, _| ()).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

/// A table of 250 rows of which 200 were pushed, the path of another one, and the folder of objects.
fn half_pushed(folder: &Path) -> [PathBuf; 3] {
    let paths @ [table, _, store] = &["table", "other", "store"].map(|name| folder.join(name));
    append(table, 0..250);
    assert_eq!(pushed(table, store, false).unwrap().end, 200);
    paths.clone()
}

/// A table made anew, with the same columns, went on behind the rows of the one before.
#[test]
fn another_table_with_the_same_columns_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [table, other, store] = half_pushed(folder.path());
    append(&other, 1000..1450);
    let refused = pushed(&other, &store, false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData);
    assert!(refused.to_string().contains("among the rows from 100 to 200 are others than the table's"), "{refused}");
    assert_eq!(numbers(&open(&store).unwrap()), numbers(&open(&table).unwrap())[..200]);
    // A copy has the rows.
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(&table).unwrap().map(|file| file.unwrap().path()) {
        std::fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    append(&copy, 250..310);
    assert_eq!(pushed(&copy, &store, false).unwrap().end, 300);
}

/// What is in the store may be dropped here, all of it: then what tells the table is that its directory is the same.
#[test]
fn a_table_that_has_dropped_what_was_pushed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let [table, other, store] = half_pushed(folder.path());
    for (table, rows) in [(&table, 250..310), (&other, 0..310)] {
        append(table, rows);
        let mut writer = Writer::open(table, None, &WriterOptions::default()).unwrap();
        writer.drop_before(200).unwrap();
        assert_eq!(open(table).unwrap().first_row(), 200);
    }
    let refused = pushed(&other, &store, false).unwrap_err();
    assert!(refused.to_string().contains("nothing tells that it is the same"), "{refused}");
    let options = PushOptions { unseen: true, batch_rows: Some(30), ..PushOptions::default() };
    let url = format!("file://{}", store.display());
    if arrowwood::table_identity(&table).unwrap().is_some() {
        assert_eq!(pushed(&table, &store, false).unwrap().end, 300);
    } else {
        assert_eq!(push(&table, &url, &options, |_, _| ()).unwrap().end, 300);
    }
    append(&other, 310..410);
    let mut writer = Writer::open(&other, None, &WriterOptions::default()).unwrap();
    writer.drop_before(300).unwrap();
    drop(writer);
    assert!(pushed(&other, &store, false).is_err());
    assert_eq!(push(&other, &url, &options, |_, _| ()).unwrap().end, 400);
    assert_eq!(open(&store).unwrap().len().unwrap(), 400);
}

/// The slower of two pushes replaced the longer object of the faster one, and both reported that all was done.
#[test]
fn of_two_pushes_at_once_one_makes_an_object() {
    for rows in [250, 900_000] {
        let folder = tempfile::tempdir().unwrap();
        let (table, store) = (folder.path().join("table"), folder.path().join("store"));
        let add = |range: std::ops::Range<i64>| {
            let options = WriterOptions { segment_rows: Some(rows as u64 / 2), ..WriterOptions::default() };
            let schema = Arc::new(parse_schema("n: int64, text: utf8").unwrap());
            let mut writer = Writer::open(&table, Some(schema), &options).unwrap();
            writer.append(&text_batch(range)).unwrap();
            writer.close().unwrap();
        };
        add(0..rows);
        let url = format!("file://{}", store.display());
        let options = PushOptions { all: true, batch_rows: Some(rows as u64 / 5), ..PushOptions::default() };
        let mut faster = None;
        // The slower one has looked at the store, and is about to make its first object.
        let slower = push(&table, &url, &options, |_, _| {
            if faster.is_none() {
                add(rows..2 * rows);
                faster = Some(push(&table, &url, &options, |_, _| ()).unwrap());
                add(2 * rows..3 * rows);
            }
        });
        let (slower, faster) = (slower.unwrap(), faster.unwrap());
        assert_eq!((faster.rows, faster.end), (2 * rows as u64, 2 * rows as u64));
        assert_eq!((slower.rows, slower.end, slower.left), (rows as u64, 3 * rows as u64, 0));
        let (there, here) = (open(&store).unwrap(), open(&table).unwrap());
        assert_eq!(there.len().unwrap(), 3 * rows as u64);
        let sum = |rows: &Dataset| rows.column("n").unwrap().sum().unwrap().to_string();
        assert_eq!(sum(&there), sum(&here));
        let names = std::fs::read_dir(&store).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        assert_eq!(names, [format!("{:020}.arrow", 0), format!("{:020}.arrow", 2 * rows)]);
    }
}

/// A list of the folder and the table counted the rows that both have twice.
#[test]
fn rows_that_are_in_the_folder_and_in_the_table_are_refused_in_one_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    append(&path("table"), 0..250);
    append(&path("other"), 1000..1250);
    pushed(&path("table"), &path("store"), false).unwrap();
    let object = path("store").join(format!("{:020}.arrow", 0));
    let opened = |names: &[&Path]| arrowwood::OpenOptions::new().paths(names).and_then(|rows| rows.len());
    let moved = path("moved");
    std::fs::create_dir(&moved).unwrap();
    for file in std::fs::read_dir(path("table")).unwrap().map(|file| file.unwrap().path()) {
        std::fs::copy(&file, moved.join(file.file_name().unwrap())).unwrap();
    }
    for table in [path("table"), moved.clone()] {
        for names in [[object.as_path(), table.as_path()], [table.as_path(), object.as_path()]] {
            let refused = opened(&names).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.to_string().contains("rows 0 to 200 of one table are in"), "{refused}");
        }
    }
    // Other tables have rows of the same numbers.
    assert_eq!(opened(&[&object, &path("other")]).unwrap(), 450);
    let mut writer = Writer::open(path("table"), None, &WriterOptions::default()).unwrap();
    writer.drop_before(200).unwrap();
    drop(writer);
    assert_eq!(opened(&[&object, &path("table")]).unwrap(), 250);
}

/// An object without rows has the name of the next one: nothing is there to go on behind.
#[test]
fn an_object_in_the_way_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (table, store) = (folder.path().join("table"), folder.path().join("store"));
    append(&table, 0..250);
    pushed(&table, &store, false).unwrap();
    let schema = open(&table).unwrap().schema().clone();
    let name = store.join(format!("{:020}.arrow", 200));
    arrowwood::write(&Dataset::from_batches(schema, vec![]).unwrap(), &name, &arrowwood::WriteOptions::default())
        .unwrap();
    let refused = pushed(&table, &store, true).unwrap_err();
    assert!(refused.to_string().contains("there is an object of this name already"), "{refused}");
    std::fs::remove_file(name).unwrap();
    assert_eq!(pushed(&table, &store, true).unwrap().end, 250);
}

/// Larger than a part of an upload.
#[test]
fn large_objects_arrive_whole() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let store = folder.path().join("store");
    let schema = Arc::new(parse_schema("n: int64, text: utf8").unwrap());
    let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
    writer.append(&text_batch(0..1_200_000)).unwrap();
    writer.close().unwrap();
    let options = PushOptions { all: true, ..PushOptions::default() };
    let done = push(&table, &format!("file://{}", store.display()), &options, |_, _| ()).unwrap();
    assert!(done.bytes > 16 << 20, "{} bytes", done.bytes);
    let (there, here) = (open(&store).unwrap(), open(&table).unwrap());
    assert_eq!(there.len().unwrap(), 1_200_000);
    assert_eq!(
        there.column("n").unwrap().sum().unwrap().to_string(),
        here.column("n").unwrap().sum().unwrap().to_string()
    );
    let batches = there.num_batches().unwrap();
    assert!(batches > 40, "{batches} batches of some 480 KiB");
}

/// A power cut takes rows from the table that are not on the disk. Others would get their numbers, and the store would keep
/// the old ones.
#[test]
fn rows_are_pushed_once_they_are_durable() {
    let folder = tempfile::tempdir().unwrap();
    let (table, store) = (folder.path().join("table"), folder.path().join("store"));
    let options = unsynced(100);
    let mut writer =
        Writer::open(&table, Some(Arc::new(parse_schema("n: int64, text: utf8").unwrap())), &options).unwrap();
    writer.append(&text_batch(0..120)).unwrap();
    writer.sync().unwrap();
    writer.append(&text_batch(120..350)).unwrap();
    writer.commit().unwrap();
    let durable = table_stat(&table).unwrap().unwrap().durable_end;
    assert!(durable < 350, "{durable} rows are durable");
    for all in [false, true] {
        let pushed = pushed(&table, &store, all).unwrap();
        assert!(pushed.end <= durable && pushed.left == 350 - pushed.end, "{pushed:?}, and {durable} rows are durable");
    }
    writer.sync().unwrap();
    assert_eq!(pushed(&table, &store, true).unwrap().end, 350);
    assert_eq!(numbers(&open(&store).unwrap()), numbers(&open(&table).unwrap()));
}

/// Its threads must not wait for each other.
#[test]
fn a_thread_of_a_runtime_may_push() {
    let folder = tempfile::tempdir().unwrap();
    let (table, store) = (folder.path().join("table"), folder.path().join("store"));
    append(&table, 0..250);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let pushed = runtime.block_on(async { pushed(&table, &store, true) }).unwrap();
    assert_eq!((pushed.rows, pushed.left), (250, 0));
}
