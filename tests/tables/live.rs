//! A table that is written at full speed by one process while others read it. Each process is this program again, as
//! `child` with its role in the environment. `ARROWWOOD_LIVE_SECONDS` makes it take longer: see `make live`.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../live/ticks.rs"]
mod ticks;

use crate::dice::Dice;
use crate::wait::{PATIENCE, within};
use ticks::{Journal, Report, Rows, Shape, Way};

const EIGHT: [&str; 8] = ["refresh", "refresh", "refresh", "open", "open", "follow", "follow", "hold"];

const ROLE: &str = "ARROWWOOD_LIVE_ROLE";
/// The test that plays a role.
const CHILD: &str = "live::child";

fn time() -> Duration {
    let seconds = std::env::var("ARROWWOOD_LIVE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// Where a run has its files.
struct Place {
    _folder: tempfile::TempDir,
    table: PathBuf,
    journal: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (table, journal) = (folder.path().join("ticks"), folder.path().join("journal"));
        let words = Journal::open(&journal);
        (0..Journal::READERS).for_each(|word| words.note(word, 0));
        (Journal::READERS..Journal::WORDS).for_each(|word| words.note(word, u64::MAX));
        Place { _folder: folder, table, journal }
    }

    fn start(&self, role: &str, number: u64, shape: Shape, time: Duration) -> Process {
        let report = self.table.with_extension(format!("{role}.{number}"));
        let words = [
            role.to_string(),
            number.to_string(),
            shape.segment_rows.to_string(),
            shape.lists.to_string(),
            shape.keep.unwrap_or(0).to_string(),
            time.as_millis().to_string(),
            shape.late.to_string(),
        ];
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", CHILD, "--nocapture"]).stdout(Stdio::null());
        command.env(ROLE, words.join(" ")).current_dir(self.table.parent().unwrap());
        Process { name: format!("{role} {number}"), child: command.spawn().unwrap(), report }
    }
}

/// A role that is being played.
struct Process {
    name: String,
    child: Child,
    report: PathBuf,
}

impl Process {
    /// Waits for the end, and fails if it was a bad one.
    fn end(mut self) {
        let status = within(2 * time() + PATIENCE, || self.child.try_wait().unwrap());
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
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: what the processes of the others run.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |word: usize| words[word].parse::<u64>().unwrap();
    let keep = Some(number(4)).filter(|&keep| keep > 0);
    let shape = Shape { segment_rows: number(2), lists: words[3] == "true", keep, late: words[6] == "true" };
    let (own, time) = (number(1), Duration::from_millis(number(5)));
    let (table, journal) = (Path::new("ticks"), Journal::open(Path::new("journal")));
    let Report { looks, rows } = match words[0] {
        "write" => ticks::write(table, shape, &journal, own, time, |_| ()),
        "refresh" => ticks::read(table, &journal, own, Way::Refresh, time),
        "open" => ticks::read(table, &journal, own, Way::Open, time),
        "follow" => ticks::tail(table, &journal, own, time),
        "hold" => ticks::hold(table, &journal, own, time),
        "find" => ticks::find(table, &journal, own, time),
        other => panic!("no role {other}"),
    };
    std::fs::write(format!("ticks.{}.{own}", words[0]), format!("{looks} looks, {rows} rows")).unwrap();
}

/// Plays a writer and readers.
fn play(shape: Shape, readers: &[&str]) {
    let (place, time) = (Place::new(), time());
    let journal = Journal::open(&place.journal);
    // Nothing is dropped before all are there.
    (0..readers.len() as u64).for_each(|number| journal.note(Journal::READERS + number, 0));
    let writer = place.start("write", 0, shape, time);
    let readers = readers.iter().zip(0..).map(|(role, number)| place.start(role, number, shape, time));
    let processes: Vec<Process> = std::iter::once(writer).chain(readers.collect::<Vec<_>>()).collect();
    eprintln!("segments of {} rows, lists: {}, late rows: {}", shape.segment_rows, shape.lists, shape.late);
    processes.into_iter().for_each(Process::end);
}

#[test]
fn eight_readers_of_small_segments() {
    play(Shape { segment_rows: 1000, lists: true, keep: Some(100_000), late: false }, &EIGHT);
}

#[test]
fn eight_readers_of_large_segments() {
    play(Shape { segment_rows: 4 << 20, lists: false, keep: Some(4_000_000), late: false }, &EIGHT);
}

#[test]
fn rows_are_found_among_late_ones_while_they_come() {
    let readers = ["find", "find", "find", "refresh", "follow", "hold"];
    play(Shape { segment_rows: 1000, lists: false, keep: Some(50_000), late: true }, &readers);
    play(Shape { segment_rows: 1 << 20, lists: false, keep: Some(500_000), late: true }, &readers);
}

#[test]
fn a_killed_writer_loses_nothing_that_was_committed() {
    let (place, time) = (Place::new(), time());
    let journal = Journal::open(&place.journal);
    let shape = Shape { segment_rows: 2000, lists: false, keep: Some(400_000), late: false };
    let (mut dice, deadline, mut kills) = (Dice::new(99), Instant::now() + time, 0);
    (0..3).for_each(|number| journal.note(Journal::READERS + number, 0));
    let mut writer = place.start("write", 1, shape, 2 * time);
    let readers = ["refresh", "open", "follow"].iter().zip(0..);
    let readers: Vec<Process> = readers.map(|(role, number)| place.start(role, number, shape, time)).collect();
    let rows = Rows::new();
    while Instant::now() < deadline {
        // The moment of the kill, which is another one each time.
        std::thread::sleep(Duration::from_micros(dice.below(200_000)));
        writer.child.kill().unwrap();
        writer.child.wait().unwrap();
        kills += 1;
        check_after_kill(&place.table, &journal, &rows);
        writer = place.start("write", kills + 1, shape, 2 * time);
    }
    readers.into_iter().for_each(Process::end);
    eprintln!("  {kills} kills");
}

fn check_after_kill(table: &Path, journal: &Journal, rows: &Rows) {
    let (intended, committed) = (journal.read(Journal::INTENDED), journal.read(Journal::COMMITTED));
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
