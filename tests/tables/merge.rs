//! Small segments are merged: what readers of the table see meanwhile, and what is left where that is cut off at any step.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrowwood::simulate::{FileSystem, FsObserver, FsOp, compact_on};
use arrowwood::{CompactOptions, Dataset, MessageKind, Writer, WriterOptions, col, open};

use crate::tables::unsynced;

fn schema() -> SchemaRef {
    let keyed = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("symbol", keyed, false),
    ]))
}

fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("n", Arc::new(Int64Array::from_iter(rows.clone().map(|n| (n % 5 != 3).then_some(n)))), true),
        (
            "text",
            Arc::new(StringArray::from_iter(rows.clone().map(|n| (n % 7 != 2).then(|| format!("row {n}"))))),
            true,
        ),
        ("symbol", Arc::new(StringArray::from_iter_values(rows.map(|n| format!("s{}", n / 3)))), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// All rows, as text.
fn rows(dataset: &Dataset) -> Vec<String> {
    let cells = |row: arrowwood::Row<'_>| (0..3).map(|column| format!("{} ", row.get(column).unwrap())).collect();
    dataset.rows().map(|row| cells(row.unwrap())).collect()
}

fn options(segment_rows: u64, medium: &FileSystem) -> WriterOptions {
    WriterOptions { medium: medium.clone(), ..unsynced(segment_rows) }
}

/// A table of `count` sealed segments of `each` rows and, where the writer is given back, a live one of one row, whose
/// segments may become as large as they will.
fn small_segments(path: &Path, count: u64, each: u64, medium: &FileSystem) -> Writer {
    let mut writer = Writer::open(path, Some(schema()), &options(each, medium)).unwrap();
    writer.append(&batch(0..(count * each) as i64)).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut writer = Writer::open(path, None, &options(1 << 20, medium)).unwrap();
    let end = (count * each) as i64;
    writer.append(&batch(end..end + 1)).unwrap();
    writer.commit().unwrap();
    writer
}

fn files(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

#[test]
fn a_hundred_segments_of_64_rows_become_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = small_segments(&path, 100, 64, &FileSystem::default());
    assert_eq!(files(&path), 101);
    // Half of the segments of one reader are mapped, none of the other's.
    let halfway = open(&path).unwrap();
    let expected = rows(&halfway.slice(0, 3200).unwrap());
    let unopened = open(&path).unwrap();
    assert_eq!(writer.compact(|_, _| ()).unwrap(), 100);
    assert_eq!(files(&path), 2);
    let anew = open(&path).unwrap();
    let all = rows(&anew);
    assert_eq!((all.len(), &all[..3200]), (6401, &expected[..]));
    assert_eq!(rows(&halfway), all);
    assert_eq!(rows(&unopened), all);
    for dataset in [&halfway, &unopened, &anew] {
        dataset.validate(|_, _| ()).unwrap();
        let found = dataset.filter(&col("symbol").eq("s2000")).unwrap();
        assert_eq!(found.len().unwrap(), 3);
        let sum = |dataset: &Dataset| dataset.column("n").unwrap().sum().unwrap().to_string();
        assert_eq!(sum(dataset), sum(&anew));
    }
    writer.append(&batch(6401..6403)).unwrap();
    writer.commit().unwrap();
    for dataset in [halfway, unopened, anew] {
        assert_eq!(dataset.refresh().unwrap().len().unwrap(), 6403);
    }
    assert_eq!(writer.compact(|_, _| ()).unwrap(), 0, "nothing is left to do");
    assert!(arrowwood::check(&path, |_, _| ()).unwrap().is_good());
}

/// Who has the table's last row and waits for more, by the name of the segment behind it, learns of it also where that
/// segment was merged before anybody looked.
#[test]
fn who_waits_for_a_segment_that_was_merged_before_it_looked_finds_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let medium = FileSystem::default();
    drop(small_segments(&path, 3, 8, &medium));
    let sealed_later = open(&path).unwrap();
    arrowwood::compact(&path, |_, _| ()).unwrap();
    let sealed = sealed_later.refresh().unwrap();
    let ended = open(&path).unwrap();
    assert!(ended.is_newest() && sealed.len().unwrap() == 25);
    let mut writer = Writer::open(&path, None, &options(8, &medium)).unwrap();
    writer.append(&batch(25..60)).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut writer = Writer::open(&path, None, &options(1 << 20, &medium)).unwrap();
    writer.append(&batch(60..70)).unwrap();
    writer.commit().unwrap();
    assert!(writer.compact(|_, _| ()).unwrap() > 1);
    assert!(!path.join(format!("{:020}.arrow", 25)).exists(), "it was merged");
    let all = rows(&open(&path).unwrap());
    assert_eq!(all.len(), 70);
    for dataset in [sealed_later, sealed, ended] {
        assert!(!dataset.is_newest());
        assert_eq!(rows(&dataset.refresh().unwrap()), all);
    }
}

/// The rows of the batches that the messages of a dataset are of; `act` is called with the first message.
fn rows_of_messages(dataset: &Dataset, act: impl FnOnce()) -> u64 {
    let (mut act, mut rows) = (Some(act), 0);
    let visit = |message: arrowwood::Message| {
        act.take().into_iter().for_each(|act| act());
        rows += message.rows.filter(|_| message.kind == MessageKind::RecordBatch).unwrap_or(0);
        ControlFlow::Continue(())
    };
    dataset.each_message(visit).unwrap();
    rows
}

/// Whoever had listed the segments found no file by the names of those that were merged since.
#[test]
fn messages_are_those_of_the_files_that_have_the_rows_now() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = small_segments(&path, 6, 8, &FileSystem::default());
    let before = open(&path).unwrap();
    assert_eq!(
        rows_of_messages(&before, || assert_eq!(writer.compact(|_, _| ()).unwrap(), 6)),
        49,
        "while they are visited"
    );
    assert_eq!(files(&path), 2);
    assert_eq!(rows_of_messages(&before, || ()), 49, "before they are visited");
    let batches = before.messages().unwrap().iter().filter(|message| message.kind == MessageKind::RecordBatch).count();
    assert_eq!(batches, 2, "of the merged file, and of the one that grows");
    // The one that grew is merged as well.
    writer.close().unwrap();
    arrowwood::compact(&path, |_, _| ()).unwrap();
    assert_eq!((files(&path), rows_of_messages(&before, || ())), (1, 49));
}

/// Looks at the table before each act on names, and refuses all acts from one on, as a disk does that is pulled out; what is
/// left is what a killed process leaves.
#[derive(Debug, Default)]
struct Watcher {
    path: PathBuf,
    state: Mutex<Looks>,
}

#[derive(Debug, Default)]
struct Looks {
    expected: Vec<String>,
    held: Option<Dataset>,
    /// The acts until all are refused; none are where it is not set.
    left: Option<u64>,
    acts: u64,
    listings: BTreeSet<usize>,
}

impl FsObserver for Watcher {
    fn before_op(&self, act: FsOp<'_>) -> std::io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.expected.is_empty() {
            return Ok(());
        }
        state.acts += 1;
        if let Some(left) = &mut state.left {
            if *left == 0 {
                return Err(std::io::Error::other("pulled out"));
            }
            *left -= 1;
            return Ok(());
        }
        if matches!(act, FsOp::Rename { .. } | FsOp::Remove { .. } | FsOp::SyncFolder { .. }) {
            let anew = open(&self.path).unwrap();
            assert_eq!(rows(&anew), state.expected);
            let held = state.held.get_or_insert(anew);
            assert_eq!(rows(&held.refresh().unwrap()), state.expected);
            assert!(arrowwood::check(&self.path, |_, _| ()).unwrap().is_good());
            state.listings.insert(files(&self.path));
        }
        Ok(())
    }
}

#[test]
fn no_reader_sees_fewer_or_more_rows_between_two_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(folder.path()).unwrap().join("ticks");
    let watcher = Arc::new(Watcher { path: path.clone(), ..Watcher::default() });
    let mut writer = small_segments(&path, 6, 8, &FileSystem::with_observer(watcher.clone()));
    watcher.state.lock().unwrap().expected = rows(&open(&path).unwrap());
    writer.compact(|_, _| ()).unwrap();
    let state = watcher.state.lock().unwrap();
    assert_eq!(state.listings, BTreeSet::from_iter(2..=7), "it was looked at before each name went");
}

#[test]
fn what_is_cut_off_between_any_two_steps_is_whole_and_finished_later() {
    let mut acts = 0;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let path = std::fs::canonicalize(folder.path()).unwrap().join("ticks");
        drop(small_segments(&path, 4, 8, &FileSystem::default()));
        let unopened = open(&path).unwrap();
        let expected = rows(&open(&path).unwrap());
        let watcher = Arc::new(Watcher { path: path.clone(), ..Watcher::default() });
        *watcher.state.lock().unwrap() = Looks { expected: expected.clone(), left: Some(acts), ..Looks::default() };
        let is_done =
            compact_on(&FileSystem::with_observer(watcher), &path, CompactOptions::default(), |_, _| ()).is_ok();
        assert_eq!(rows(&unopened), expected, "after {acts} acts");
        assert_eq!(rows(&open(&path).unwrap()), expected, "after {acts} acts");
        let report = arrowwood::check(&path, |_, _| ()).unwrap();
        assert!(report.is_good(), "after {acts} acts: {report:?}");
        assert_eq!(report.rows, 33);
        // A writer goes on behind it, and so does another compaction.
        let mut writer = Writer::open(&path, None, &options(1 << 20, &FileSystem::default())).unwrap();
        writer.append(&batch(33..40)).unwrap();
        writer.commit().unwrap();
        writer.compact(|_, _| ()).unwrap();
        assert_eq!(files(&path), 2, "after {acts} acts");
        assert_eq!(rows(&open(&path).unwrap())[..33], expected[..]);
        if is_done {
            break;
        }
        acts += 1;
    }
    assert!(acts > 10, "{acts} steps");
}

/// A check that had looked at the first segments left out those that were merged since, and told of fewer rows than there
/// were; or of a segment that was not found.
#[test]
fn a_check_counts_the_rows_of_segments_that_are_merged_meanwhile() {
    for (is_live, at) in [(true, 3), (false, 3), (true, 1), (false, 1), (true, 6)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticks");
        let mut writer = Some(small_segments(&path, 6, 8, &FileSystem::default()));
        if !is_live {
            drop(writer.take());
        }
        let mut is_merged = false;
        let report = arrowwood::check(&path, |done, _| {
            if done == at && !std::mem::replace(&mut is_merged, true) {
                drop(writer.take());
                arrowwood::compact(&path, |_, _| ()).unwrap();
            }
        });
        let report = report.unwrap();
        assert!(report.is_good() && is_merged, "{report:?}");
        assert_eq!((report.rows, files(&path)), (49, 1), "live {is_live}, at segment {at}");
    }
}

/// Segments that are dropped during a check are none of the table's.
#[test]
fn a_check_does_not_count_rows_that_are_dropped_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = small_segments(&path, 6, 8, &FileSystem::default());
    let report = arrowwood::check(&path, |done, _| {
        if done == 3 {
            writer.drop_before(40).unwrap();
        }
    });
    let report = report.unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!((report.rows, report.segments), (9, 2));
}
