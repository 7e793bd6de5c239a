//! Tests of merging small segments: concurrent readers see the same rows, and an interruption at any step loses none.

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
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("symbol", dictionary, false),
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

/// Returns all rows, each as the texts of its values.
fn read_rows(dataset: &Dataset) -> Vec<String> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        rows.push([0, 1, 2].map(|column| row.get(column).unwrap().to_string()).join(" "));
    }
    rows
}

fn sum_of_numbers(dataset: &Dataset) -> String {
    dataset.column("n").unwrap().sum().unwrap().to_string()
}

fn options(segment_rows: u64, medium: &FileSystem) -> WriterOptions {
    WriterOptions { medium: medium.clone(), ..unsynced(segment_rows) }
}

/// Writes a table with `count` sealed segments of `segment_rows` rows, and a live one with one row.
///
/// Returns a writer whose segments may be large.
fn write_small_segments(path: &Path, count: u64, segment_rows: u64, medium: &FileSystem) -> Writer {
    let mut writer = Writer::open(path, Some(schema()), &options(segment_rows, medium)).unwrap();
    writer.append(&batch(0..(count * segment_rows) as i64)).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut writer = Writer::open(path, None, &options(1 << 20, medium)).unwrap();
    let end = (count * segment_rows) as i64;
    writer.append(&batch(end..end + 1)).unwrap();
    writer.commit().unwrap();
    writer
}

fn count_files(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

#[test]
fn a_hundred_segments_of_64_rows_become_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = write_small_segments(&path, 100, 64, &FileSystem::default());
    assert_eq!(count_files(&path), 101);
    let half_mapped = open(&path).unwrap();
    let first_half = read_rows(&half_mapped.slice(0, 3200).unwrap());
    let unmapped = open(&path).unwrap();
    assert_eq!(writer.compact(|_, _| ()).unwrap(), 100);
    assert_eq!(count_files(&path), 2);

    let merged = open(&path).unwrap();
    let rows = read_rows(&merged);
    assert_eq!((rows.len(), &rows[..3200]), (6401, &first_half[..]));
    for dataset in [&half_mapped, &unmapped, &merged] {
        assert_eq!(read_rows(dataset), rows);
        dataset.validate(|_, _| ()).unwrap();
        assert_eq!(dataset.filter(&col("symbol").eq("s2000")).unwrap().len().unwrap(), 3);
        assert_eq!(sum_of_numbers(dataset), sum_of_numbers(&merged));
    }

    writer.append(&batch(6401..6403)).unwrap();
    writer.commit().unwrap();
    for dataset in [half_mapped, unmapped, merged] {
        assert_eq!(dataset.refresh().unwrap().len().unwrap(), 6403);
    }
    assert_eq!(writer.compact(|_, _| ()).unwrap(), 0, "nothing is left to do");
    assert!(arrowwood::check(&path, |_, _| ()).unwrap().is_good());
}

/// A dataset expects the next rows in a segment named for its end. It must find them even if that segment was merged
/// with earlier ones before the first look.
#[test]
fn refreshing_finds_rows_of_a_segment_that_was_already_merged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let medium = FileSystem::default();
    drop(write_small_segments(&path, 3, 8, &medium));
    let opened_live = open(&path).unwrap();
    arrowwood::compact(&path, |_, _| ()).unwrap();
    let refreshed = opened_live.refresh().unwrap();
    let opened_sealed = open(&path).unwrap();
    assert!(opened_sealed.is_newest() && refreshed.len().unwrap() == 25);
    let mut writer = Writer::open(&path, None, &options(8, &medium)).unwrap();
    writer.append(&batch(25..60)).unwrap();
    writer.commit().unwrap();
    writer.close().unwrap();
    let mut writer = Writer::open(&path, None, &options(1 << 20, &medium)).unwrap();
    writer.append(&batch(60..70)).unwrap();
    writer.commit().unwrap();
    assert!(writer.compact(|_, _| ()).unwrap() > 1);
    assert!(!path.join(format!("{:020}.arrow", 25)).exists(), "it was merged");
    let rows = read_rows(&open(&path).unwrap());
    assert_eq!(rows.len(), 70);
    for dataset in [opened_live, refreshed, opened_sealed] {
        assert!(!dataset.is_newest());
        assert_eq!(read_rows(&dataset.refresh().unwrap()), rows);
    }
}

/// Visits all messages; returns the number of rows in their batches. `on_first` is called at the first message.
fn count_message_rows(dataset: &Dataset, on_first: impl FnOnce()) -> u64 {
    let mut on_first = Some(on_first);
    let mut rows = 0;
    dataset
        .each_message(|message| {
            if let Some(on_first) = on_first.take() {
                on_first();
            }
            if message.kind == MessageKind::RecordBatch {
                rows += message.rows.unwrap();
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    rows
}

/// Regression test: visiting messages failed if segments were merged after they had been listed.
#[test]
fn messages_are_read_from_merged_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = write_small_segments(&path, 6, 8, &FileSystem::default());
    let dataset = open(&path).unwrap();
    let merged_while_visiting = count_message_rows(&dataset, || assert_eq!(writer.compact(|_, _| ()).unwrap(), 6));
    assert_eq!(merged_while_visiting, 49);
    assert_eq!(count_files(&path), 2);
    assert_eq!(count_message_rows(&dataset, || ()), 49, "merged before");
    let messages = dataset.messages().unwrap();
    let batches = messages.iter().filter(|message| message.kind == MessageKind::RecordBatch).count();
    assert_eq!(batches, 2, "one of the merged file and one of the live segment");

    // The live segment is merged as well.
    writer.close().unwrap();
    arrowwood::compact(&path, |_, _| ()).unwrap();
    assert_eq!((count_files(&path), count_message_rows(&dataset, || ())), (1, 49));
}

/// Reads the table before each operation on names, once the expected rows are set.
#[derive(Debug)]
struct ConcurrentReader {
    path: PathBuf,
    state: Mutex<ReaderState>,
}

#[derive(Debug, Default)]
struct ReaderState {
    expected: Vec<String>,
    /// The first dataset that was opened.
    dataset: Option<Dataset>,
    /// The numbers of files that were seen.
    file_counts: BTreeSet<usize>,
}

impl FsObserver for ConcurrentReader {
    fn before_op(&self, op: FsOp<'_>) -> std::io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let is_naming = matches!(op, FsOp::Rename { .. } | FsOp::Remove { .. } | FsOp::SyncFolder { .. });
        if is_naming && !state.expected.is_empty() {
            let opened = open(&self.path).unwrap();
            assert_eq!(read_rows(&opened), state.expected);
            let dataset = state.dataset.get_or_insert(opened);
            let refreshed = dataset.refresh().unwrap();
            assert_eq!(read_rows(&refreshed), state.expected);
            assert!(arrowwood::check(&self.path, |_, _| ()).unwrap().is_good());
            state.file_counts.insert(count_files(&self.path));
        }
        Ok(())
    }
}

/// Fails all operations after a number of them, and so leaves what a killed process would leave.
#[derive(Debug)]
pub struct Interruption {
    /// The number of operations that still succeed.
    pub remaining: Mutex<u64>,
}

impl FsObserver for Interruption {
    fn before_op(&self, _op: FsOp<'_>) -> std::io::Result<()> {
        let mut remaining = self.remaining.lock().unwrap();
        *remaining = remaining.checked_sub(1).ok_or_else(|| std::io::Error::other("pulled out"))?;
        Ok(())
    }
}

#[test]
fn concurrent_readers_see_all_rows_at_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(folder.path()).unwrap().join("ticks");
    let reader = Arc::new(ConcurrentReader { path: path.clone(), state: Mutex::default() });
    let mut writer = write_small_segments(&path, 6, 8, &FileSystem::with_observer(reader.clone()));
    reader.state.lock().unwrap().expected = read_rows(&open(&path).unwrap());
    writer.compact(|_, _| ()).unwrap();
    let state = reader.state.lock().unwrap();
    assert_eq!(state.file_counts, BTreeSet::from_iter(2..=7), "the table was read before each file was removed");
}

#[test]
fn an_interrupted_compaction_loses_no_rows_and_can_be_repeated() {
    for operations in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = std::fs::canonicalize(folder.path()).unwrap().join("ticks");
        drop(write_small_segments(&path, 4, 8, &FileSystem::default()));
        let unmapped = open(&path).unwrap();
        let expected = read_rows(&open(&path).unwrap());
        let interruption = Arc::new(Interruption { remaining: Mutex::new(operations) });
        let medium = FileSystem::with_observer(interruption);
        let result = compact_on(&medium, &path, CompactOptions::default(), |_, _| ());

        assert_eq!(read_rows(&unmapped), expected, "after {operations} operations");
        assert_eq!(read_rows(&open(&path).unwrap()), expected, "after {operations} operations");
        let report = arrowwood::check(&path, |_, _| ()).unwrap();
        assert!(report.is_good(), "after {operations} operations: {report:?}");
        assert_eq!(report.rows, 33);

        // The next writer continues the table, and compacts it.
        let mut writer = Writer::open(&path, None, &options(1 << 20, &FileSystem::default())).unwrap();
        writer.append(&batch(33..40)).unwrap();
        writer.commit().unwrap();
        writer.compact(|_, _| ()).unwrap();
        assert_eq!(count_files(&path), 2, "after {operations} operations");
        assert_eq!(read_rows(&open(&path).unwrap())[..33], expected[..]);
        if result.is_ok() {
            assert!(operations > 10, "{operations} operations");
            break;
        }
    }
}

/// Regression test: a check that had read the first segments didn't count those that were merged since, or reported a
/// missing segment.
#[test]
fn a_check_counts_the_rows_of_segments_that_are_merged_meanwhile() {
    for (is_live, merge_at) in [(true, 3), (false, 3), (true, 1), (false, 1), (true, 6)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticks");
        let mut writer = Some(write_small_segments(&path, 6, 8, &FileSystem::default()));
        if !is_live {
            drop(writer.take());
        }
        let mut is_merged = false;
        let report = arrowwood::check(&path, |done, _| {
            if done == merge_at && !is_merged {
                is_merged = true;
                drop(writer.take());
                arrowwood::compact(&path, |_, _| ()).unwrap();
            }
        });
        let report = report.unwrap();
        assert!(report.is_good() && is_merged, "{report:?}");
        assert_eq!((report.rows, count_files(&path)), (49, 1), "live {is_live}, at segment {merge_at}");
    }
}

#[test]
fn a_check_does_not_count_rows_that_are_dropped_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let mut writer = write_small_segments(&path, 6, 8, &FileSystem::default());
    let report = arrowwood::check(&path, |done, _| {
        if done == 3 {
            writer.drop_before(40).unwrap();
        }
    });
    let report = report.unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!((report.rows, report.segments), (9, 2));
}
