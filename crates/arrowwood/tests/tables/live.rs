//! Tests of a table that one process writes at full speed while others read it.
//!
//! Each process is this program, with its task in the environment; see [`child`]. `ARROWWOOD_LIVE_SECONDS` sets the
//! duration: see `make live`.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../../../../tests/live/ticks.rs"]
mod ticks;

use crate::dice::Dice;
use crate::wait::{PATIENCE, within};
use ticks::{Journal, Report, Rows, Shape, Way};

/// The tasks of eight readers.
const EIGHT_READERS: [&str; 8] = ["refresh", "refresh", "refresh", "open", "open", "follow", "follow", "hold"];

/// The environment variable with the task of a child process and its parameters.
const TASK_VARIABLE: &str = "ARROWWOOD_LIVE_ROLE";
/// The test that the child processes run.
const CHILD_TEST: &str = "live::child";

fn test_duration() -> Duration {
    let seconds = std::env::var("ARROWWOOD_LIVE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// The files of a test.
struct TestFiles {
    _folder: tempfile::TempDir,
    table: PathBuf,
    journal: PathBuf,
}

impl TestFiles {
    fn new() -> TestFiles {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("ticks");
        let journal_path = folder.path().join("journal");
        let journal = Journal::open(&journal_path);
        for word in 0..Journal::READERS {
            journal.note(word, 0);
        }
        // Without readers, nothing keeps the writer from dropping rows.
        for word in Journal::READERS..Journal::WORDS {
            journal.note(word, u64::MAX);
        }
        TestFiles { _folder: folder, table, journal: journal_path }
    }

    /// Starts a process with a task; see [`Task::parse`].
    fn start(&self, task: &str, number: u64, shape: Shape, time: Duration) -> Process {
        let report = self.table.with_extension(format!("{task}.{number}"));
        let words = [
            task.to_string(),
            number.to_string(),
            shape.segment_rows.to_string(),
            shape.lists.to_string(),
            shape.keep.unwrap_or(0).to_string(),
            time.as_millis().to_string(),
            shape.late.to_string(),
        ];
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", CHILD_TEST, "--nocapture"]).stdout(Stdio::null());
        command.env(TASK_VARIABLE, words.join(" ")).current_dir(self.table.parent().unwrap());
        Process { name: format!("{task} {number}"), child: command.spawn().unwrap(), report }
    }
}

/// A running child process.
struct Process {
    name: String,
    child: Child,
    /// The file that it writes at its end.
    report: PathBuf,
}

impl Process {
    /// Waits until the process ends; panics if it fails or has done nothing.
    fn end(mut self) {
        let status = within(2 * test_duration() + PATIENCE, || self.child.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("{}: it does not end", self.name));
        assert!(status.success(), "{}: {status}", self.name);
        let report = std::fs::read_to_string(&self.report).unwrap();
        eprintln!("  {:10} {report}", self.name);
        let looks: u64 = report.split(' ').next().unwrap().parse().unwrap();
        assert!(looks > 0, "{}: nothing was done", self.name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The task of a child process, as parsed from the environment.
struct Task {
    name: String,
    number: u64,
    shape: Shape,
    time: Duration,
}

impl Task {
    fn parse(text: &str) -> Task {
        let words: Vec<&str> = text.split(' ').collect();
        let [number, segment_rows, keep, millis] = [1, 2, 4, 5].map(|word| words[word].parse::<u64>().unwrap());
        let keep = if keep > 0 { Some(keep) } else { None };
        let shape = Shape { segment_rows, lists: words[3] == "true", keep, late: words[6] == "true" };
        Task { name: words[0].to_string(), number, shape, time: Duration::from_millis(millis) }
    }
}

/// Runs in the child processes; without the environment variable it does nothing.
#[test]
fn child() {
    let Ok(text) = std::env::var(TASK_VARIABLE) else { return };
    let Task { name, number, shape, time } = Task::parse(&text);
    let table = Path::new("ticks");
    let journal = Journal::open(Path::new("journal"));
    let Report { looks, rows } = match name.as_str() {
        "write" => ticks::write(table, shape, &journal, number, time, |_| ()),
        "refresh" => ticks::read(table, &journal, number, Way::Refresh, time),
        "open" => ticks::read(table, &journal, number, Way::Open, time),
        "follow" => ticks::tail(table, &journal, number, time),
        "hold" => ticks::hold(table, &journal, number, time),
        "find" => ticks::find(table, &journal, number, time),
        other => panic!("no task {other}"),
    };
    std::fs::write(format!("ticks.{name}.{number}"), format!("{looks} looks, {rows} rows")).unwrap();
}

/// Runs a writer and readers, and waits until they succeed.
fn run_processes(shape: Shape, readers: &[&str]) {
    let files = TestFiles::new();
    let time = test_duration();
    let journal = Journal::open(&files.journal);
    // The writer drops no rows before all readers have started.
    for number in 0..readers.len() as u64 {
        journal.note(Journal::READERS + number, 0);
    }
    let mut processes = vec![files.start("write", 0, shape, time)];
    for (number, task) in (0..).zip(readers) {
        processes.push(files.start(task, number, shape, time));
    }
    eprintln!("segments of {} rows, lists: {}, late rows: {}", shape.segment_rows, shape.lists, shape.late);
    for process in processes {
        process.end();
    }
}

#[test]
fn eight_readers_of_small_segments() {
    run_processes(Shape { segment_rows: 1000, lists: true, keep: Some(100_000), late: false }, &EIGHT_READERS);
}

#[test]
fn eight_readers_of_large_segments() {
    run_processes(Shape { segment_rows: 4 << 20, lists: false, keep: Some(4_000_000), late: false }, &EIGHT_READERS);
}

#[test]
fn readers_find_rows_while_late_rows_arrive() {
    let readers = ["find", "find", "find", "refresh", "follow", "hold"];
    run_processes(Shape { segment_rows: 1000, lists: false, keep: Some(50_000), late: true }, &readers);
    run_processes(Shape { segment_rows: 1 << 20, lists: false, keep: Some(500_000), late: true }, &readers);
}

#[test]
fn a_killed_writer_loses_no_committed_rows() {
    let files = TestFiles::new();
    let time = test_duration();
    let journal = Journal::open(&files.journal);
    let shape = Shape { segment_rows: 2000, lists: false, keep: Some(400_000), late: false };
    for number in 0..3 {
        journal.note(Journal::READERS + number, 0);
    }
    let deadline = Instant::now() + time;
    let mut writer = files.start("write", 1, shape, 2 * time);
    let readers = [("refresh", 0), ("open", 1), ("follow", 2)];
    let readers = readers.map(|(task, number)| files.start(task, number, shape, time));
    let rows = Rows::new();
    let mut dice = Dice::new(99);
    let mut kills = 0;
    while Instant::now() < deadline {
        std::thread::sleep(Duration::from_micros(dice.below(200_000)));
        writer.child.kill().unwrap();
        writer.child.wait().unwrap();
        kills += 1;
        check_after_kill(&files.table, &journal, &rows);
        writer = files.start("write", kills + 1, shape, 2 * time);
    }
    for reader in readers {
        reader.end();
    }
    eprintln!("  {kills} kills");
}

/// Checks that the table has all rows that were committed, and none that the writer hasn't appended.
fn check_after_kill(table: &Path, journal: &Journal, rows: &Rows) {
    let intended = journal.read(Journal::INTENDED);
    let committed = journal.read(Journal::COMMITTED);
    let Ok(dataset) = arrowwood::open(table) else {
        assert_eq!(committed, 0, "there is no table");
        return;
    };
    let end = dataset.first_row() + dataset.len().unwrap();
    assert!(end >= committed, "{end} rows after a kill, and {committed} were committed");
    assert!(end <= intended.max(committed), "{end} rows after a kill, and {intended} were to be");
    let tail = dataset.tail(10_000).unwrap();
    rows.check(&tail, end - tail.len().unwrap());
    dataset.validate(|_, _| ()).unwrap();
}
