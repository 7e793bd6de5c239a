//! Tests of a table that one process writes, and another one reads while it grows, in step: each tells the other through a file
//! how far it has come.
//!
//! The writer is a process of this program. `tests/port/port.py` starts it as a process of Linux, and the reader as one
//! of Windows: `ARROWWOOD_SHARED_WRITER` is the folder of a writer, `ARROWWOOD_SHARED_READER` that of a reader.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrowwood::{Dataset, SyncPolicy, Writer, WriterOptions, follow, open};

use crate::wait::{PATIENCE, wait_for, wait_until};

const WRITER: &str = "ARROWWOOD_SHARED_WRITER";
const READER: &str = "ARROWWOOD_SHARED_READER";
/// The environment variable of a writer that syncs each commit.
const SYNCS: &str = "ARROWWOOD_SHARED_SYNCS";
/// The number of times that the reader finds new rows by refreshing.
const REFRESHES: u64 = 1000;
/// The number of times that it finds them by following.
const POLLS: u64 = 200;
/// The number of rows of a segment: less than those of all commits, so that rows continue in other segments.
const SEGMENT_ROWS: u64 = 700;

/// Returns the rows of commit `number`, of which there are 1 to 3.
fn rows_of(number: u64, first: u64) -> std::ops::Range<u64> {
    first..first + 1 + number % 3
}

fn text_of(row: u64) -> Option<String> {
    (!row.is_multiple_of(5)).then(|| format!("row {row}"))
}

fn batch(rows: std::ops::Range<u64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row as i64)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter(rows.map(text_of)));
    RecordBatch::try_from_iter_with_nullable([("n", numbers, false), ("s", texts, true)]).unwrap()
}

/// A file whose length counts steps.
struct Steps(PathBuf);

impl Steps {
    fn count(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |metadata| metadata.len())
    }

    fn take(&self) {
        OpenOptions::new().create(true).append(true).open(&self.0).unwrap().write_all(b".").unwrap();
    }
}

fn read_steps(folder: &Path) -> Steps {
    Steps(folder.join("steps"))
}

/// Commits rows to a table, once for each step of the reader.
fn write_in_step(folder: &Path) {
    let mut options = WriterOptions { segment_rows: Some(SEGMENT_ROWS), ..WriterOptions::default() };
    if std::env::var_os(SYNCS).is_some() {
        options.sync = SyncPolicy::Commit;
    }
    let mut writer = Writer::open(folder.join("table"), Some(batch(0..0).schema()), &options).unwrap();
    let mut end = 0;
    for number in 0..REFRESHES + POLLS {
        wait_until("a step of the reader", || read_steps(folder).count() >= number);
        let rows = rows_of(number, end);
        end = rows.end;
        writer.append(&batch(rows)).unwrap();
        writer.commit().unwrap();
    }
    wait_until("the last step of the reader", || read_steps(folder).count() >= REFRESHES + POLLS);
    writer.close().unwrap();
}

fn assert_rows(rows: &Dataset, mut row: u64) {
    for cells in rows.rows() {
        let cells = cells.unwrap();
        assert_eq!(cells.get(0).unwrap().to_string(), row.to_string());
        assert_eq!(cells.get(1).unwrap().to_string(), text_of(row).unwrap_or_else(|| "null".into()));
        row += 1;
    }
}

/// Reads the rows of all commits, as they are made.
fn read_in_step(folder: &Path) {
    let table = folder.join("table");
    let mut dataset = wait_for("a table", || open(&table).ok().filter(|dataset| dataset.len().is_ok()));
    let mut seen = 0;
    let steps = read_steps(folder);
    for number in 0..REFRESHES {
        let end = rows_of(number, seen).end;
        wait_until("rows by a refresh", || {
            dataset = dataset.refresh().unwrap();
            dataset.len().unwrap() >= end
        });
        assert_eq!(dataset.len().unwrap(), end, "rows of a commit that was not made");
        assert_rows(&dataset.slice(seen, end - seen).unwrap(), seen);
        seen = end;
        steps.take();
    }
    assert_rows(&dataset, 0);

    let mut follower = follow(&dataset, Some(seen), None).unwrap();
    for number in REFRESHES..REFRESHES + POLLS {
        let end = rows_of(number, seen).end;
        while seen < end {
            let rows = follower.poll(PATIENCE).unwrap().expect("rows by following");
            assert_rows(&rows, seen);
            seen += rows.len().unwrap();
        }
        assert_eq!(seen, end);
        steps.take();
    }
    assert_rows(&open(&table).unwrap(), 0);
}

/// Writes a table if the environment has its folder. Passes if it is not started to do so.
#[test]
fn writer() {
    if let Some(folder) = std::env::var_os(WRITER) {
        write_in_step(Path::new(&folder));
    }
}

#[test]
fn rows_of_another_process_are_read_in_step() {
    if let Some(folder) = std::env::var_os(READER) {
        return read_in_step(Path::new(&folder));
    }
    if cfg!(windows) {
        panic!("nothing writes tables here: {READER} is the folder of a writer elsewhere");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut writer = start_writer(folder.path(), &[]);
    read_in_step(folder.path());
    assert!(writer.wait().unwrap().success());
}

/// To a reader on another machine, or in another boot, a commit counts once it was synced. Regression test: refreshing
/// failed as soon as the writer used the log, or found nothing new.
#[cfg(unix)]
#[test]
fn rows_of_another_machine_are_read_once_they_are_synced() {
    alone!();
    arrowwood::simulate::simulate_boot(Some([9; 16]));
    let folder = tempfile::tempdir().unwrap();
    let mut writer = start_writer(folder.path(), &[(SYNCS, "1")]);
    read_in_step(folder.path());
    assert!(writer.wait().unwrap().success());
}

/// Commits of another machine that are not synced are in the file, and don't count.
#[cfg(unix)]
#[test]
fn followers_find_what_another_machine_syncs() {
    alone!();
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let options = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, Some(batch(0..0).schema()), &options).unwrap();
    writer.append(&batch(0..3)).unwrap();
    writer.commit().unwrap();
    writer.sync().unwrap();
    writer.append(&batch(3..5)).unwrap();
    writer.commit().unwrap();

    arrowwood::simulate::simulate_boot(Some([9; 16]));
    let dataset = open(&table).unwrap();
    assert_eq!(dataset.len().unwrap(), 3);
    let mut follower = follow(&dataset, Some(3), None).unwrap();
    assert!(follower.poll(std::time::Duration::from_millis(50)).unwrap().is_none());

    writer.sync().unwrap();
    let rows = follower.poll(PATIENCE).unwrap().expect("synced rows");
    assert_rows(&rows, 3);
}

fn start_writer(folder: &Path, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "shared::writer"]).env(WRITER, folder).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}
