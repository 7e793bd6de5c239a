//! Kills writers at random times, and checks that no committed row is lost: `kills COUNT [TABLES [FIRST]]`.
//!
//! After each kill, all committed rows must be readable and undamaged, arrow-rs must read a prefix of the rows from the
//! segments, and the next writer must be able to open the table. Readers run the whole time. Exits with status 1 if any
//! of this fails.
//!
//! A writer is this program with other arguments, `kills write TABLE JOURNAL SEED`. It appends, commits, rolls back,
//! syncs, compacts and drops rows until it is killed, or only compacts the closed table.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_ipc::reader::FileReader;
use arrowwood::mapping::os::create_unnamed;
use arrowwood::{Dataset, Writer};

#[path = "../../../../tests/support/dice.rs"]
mod dice;
#[path = "../../../../tests/live/ticks.rs"]
#[allow(dead_code, reason = "some of it is for tests/tables/live.rs")]
mod ticks;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

use dice::Dice;
use ticks::{Journal, Rows, Shape, Way};
use wait::wait_until;

/// The number of rows that writers don't drop.
const KEPT_ROWS: u64 = 15_000;

const SEGMENT_ROWS: u64 = 1000;

/// The maximum number of rows of a commit.
const MAX_COMMIT_ROWS: u64 = 2500;

const SHAPE: Shape = Shape { segment_rows: SEGMENT_ROWS, lists: true, keep: Some(KEPT_ROWS), late: false };

/// The word of the journal in which a writer stores its process id after it has opened the table.
const OPENED_BY: u64 = Journal::WORDS;

/// The number of reader threads of each table.
const READERS: u64 = 2;

/// Every so many kills, all rows and all segments are checked instead of the newest.
const FULL_CHECK_INTERVAL: u64 = 16;

/// The totals of all tables.
#[derive(Debug, Default)]
struct Totals {
    kills: AtomicU64,
    /// Writers that were killed before their first commit.
    early_kills: AtomicU64,
    /// Checks that found committed rows missing, or rows that were never written.
    lost: AtomicU64,
    /// Checks that found damaged rows.
    torn: AtomicU64,
    /// Writers that failed to open the table.
    failed_reopens: AtomicU64,
    /// Checks that found more part files than one writer leaves behind.
    leftover_parts: AtomicU64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", table, journal, seed] => write_until_killed(Path::new(table), Path::new(journal), parse(seed)),
        [count] => run_campaign(parse(count), 2, 0),
        [count, tables] => run_campaign(parse(count), parse(tables), 0),
        [count, tables, first] => run_campaign(parse(count), parse(tables), parse(first)),
        _ => {
            eprintln!("kills COUNT [TABLES [FIRST]]");
            std::process::exit(2);
        }
    }
}

fn parse(argument: &str) -> u64 {
    argument.parse().unwrap()
}

/// Runs a writer, which its parent process kills.
fn write_until_killed(table: &Path, journal: &Path, seed: u64) {
    let journal = Journal::open(journal);
    let mut dice = Dice::new(seed);
    if dice.below(8) == 0 {
        compact_closed(table);
        return;
    }
    let rows = Rows::new();
    let schema = ticks::schema(SHAPE);
    let mut writer = Writer::open(table, Some(schema.clone()), &ticks::options(SHAPE)).unwrap();
    journal.note(OPENED_BY, std::process::id().into());
    let mut next_row = writer.rows();
    loop {
        match dice.below(40) {
            0 => {
                writer.compact(|_, _| ()).unwrap();
            }
            1..3 => {
                // Readers must not miss rows.
                let first_kept = next_row.saturating_sub(KEPT_ROWS).min(journal.slowest());
                writer.drop_before(first_kept).unwrap();
            }
            3 => writer.sync().unwrap(),
            4 => {
                writer.append(&rows.batch(&schema, next_row, 1 + dice.below(MAX_COMMIT_ROWS))).unwrap();
                writer.rollback();
            }
            _ => {
                let count = if dice.below(10) == 0 { 1 + dice.below(MAX_COMMIT_ROWS) } else { 1 + dice.below(30) };
                writer.append(&rows.batch(&schema, next_row, count)).unwrap();
                next_row += count;
                journal.note(Journal::INTENDED, next_row);
                writer.commit().unwrap();
                journal.note(Journal::COMMITTED, next_row);
            }
        }
    }
}

/// Compacts a table without a writer, which may fail if no writer has created a segment yet.
fn compact_closed(table: &Path) {
    if let Err(e) = arrowwood::compact(table, |_, _| ()) {
        let has_files = table.read_dir().is_ok_and(|mut files| files.next().is_some());
        assert!(!has_files, "{e}");
    }
}

/// Kills `count` writers in all, and exits.
///
/// `first` is the number of kills of earlier campaigns, whose random numbers are not repeated.
fn run_campaign(count: u64, tables: u64, first: u64) {
    let totals = Arc::new(Totals::default());
    let start = Instant::now();
    let in_memory = Path::new("/dev/shm");
    let parent = if in_memory.is_dir() { in_memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(parent).unwrap();
    let mut threads = Vec::new();
    for number in 0..tables {
        let totals = totals.clone();
        let table_folder = folder.path().join(number.to_string());
        threads.push(std::thread::spawn(move || {
            TableUnderTest::new(table_folder, totals).run(first / tables, count.div_ceil(tables), number + 1);
        }));
    }
    for thread in threads {
        thread.join().unwrap();
    }

    let [kills, early_kills, lost, torn, failed_reopens, leftover_parts] = [
        &totals.kills,
        &totals.early_kills,
        &totals.lost,
        &totals.torn,
        &totals.failed_reopens,
        &totals.leftover_parts,
    ]
    .map(|total| total.load(Ordering::Relaxed));
    println!(
        "{kills} kills in {:.0} s, {early_kills} of them before a commit; lost {lost}, torn {torn}, failed reopens \
         {failed_reopens}, files left behind {leftover_parts}",
        start.elapsed().as_secs_f64(),
    );
    let code = i32::from(lost + torn + failed_reopens + leftover_parts > 0);
    // `exit` runs no destructors, and ends the readers' threads.
    drop(folder);
    std::process::exit(code);
}

/// A table whose writers are killed.
struct TableUnderTest {
    table: PathBuf,
    journal: PathBuf,
    rows: Rows,
    totals: Arc<Totals>,
}

impl TableUnderTest {
    fn new(folder: PathBuf, totals: Arc<Totals>) -> TableUnderTest {
        std::fs::create_dir(&folder).unwrap();
        let table = folder.join("ticks");
        let journal_path = folder.join("journal");
        let journal = Journal::open(&journal_path);
        for word in 0..=OPENED_BY {
            // Readers that don't exist must not delay the writer.
            let is_unused = word >= Journal::READERS + READERS;
            journal.note(word, if is_unused { u64::MAX } else { 0 });
        }
        TableUnderTest { table, journal: journal_path, rows: Rows::new(), totals }
    }

    /// Kills `count` writers of the table, one after the other.
    fn run(&self, first: u64, count: u64, seed: u64) {
        for number in 0..READERS {
            self.spawn_reader(number);
        }
        let mut dice = Dice::new(seed + (first << 8));
        let journal = Journal::open(&self.journal);
        for kill in first..first + count {
            let committed_before = journal.read(Journal::COMMITTED);
            self.kill_writer(&journal, seed << 32 | kill, &mut dice);
            let is_early = journal.read(Journal::COMMITTED) == committed_before;
            self.totals.early_kills.fetch_add(u64::from(is_early), Ordering::Relaxed);
            self.check(&journal, kill);
        }
    }

    /// Starts a thread that checks new rows until the process exits; the first refreshes, the second follows.
    fn spawn_reader(&self, number: u64) {
        const FOREVER: Duration = Duration::from_secs(1 << 20);
        let table = self.table.clone();
        let journal = Journal::open(&self.journal);
        let totals = self.totals.clone();
        std::thread::spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| match number {
                0 => ticks::read(&table, &journal, number, Way::Refresh, FOREVER),
                _ => ticks::tail(&table, &journal, number, FOREVER),
            }));
            totals.torn.fetch_add(u64::from(result.is_err()), Ordering::Relaxed);
            // A reader that has failed must not delay the writer.
            journal.note(Journal::READERS + number, u64::MAX);
        });
    }

    /// Starts a writer and kills it after a random time. A writer that only compacts may exit before.
    fn kill_writer(&self, journal: &Journal, seed: u64, dice: &mut Dice) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("write").arg(&self.table).arg(&self.journal).arg(seed.to_string());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let pid = u64::from(child.id());
        // Every fourth kill may hit a writer that is opening the table.
        if dice.below(4) > 0 {
            let has_exited = |child: &mut Child| child.try_wait().unwrap().is_some();
            wait_until("a writer that has opened the table", || {
                journal.read(OPENED_BY) == pid || has_exited(&mut child)
            });
        }
        let max_delay_us = 1 + dice.below(20_000);
        std::thread::sleep(Duration::from_micros(dice.below(max_delay_us)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let was_killed = status.code().is_none();
        let has_failed = status.code().is_some_and(|code| code != 0);
        self.totals.kills.fetch_add(u64::from(was_killed), Ordering::Relaxed);
        self.totals.failed_reopens.fetch_add(u64::from(has_failed), Ordering::Relaxed);
    }

    /// Checks the table after a kill.
    fn check(&self, journal: &Journal, kill: u64) {
        let committed = journal.read(Journal::COMMITTED);
        // A writer may be killed between a commit and its note in the journal.
        let intended = journal.read(Journal::INTENDED).max(committed);
        let Ok(dataset) = arrowwood::open(&self.table) else {
            self.count_unless(committed == 0, &self.totals.lost, "the table does not open");
            return;
        };
        let end = dataset.first_row() + dataset.len().unwrap();
        let has_all_rows = (committed..=intended).contains(&end);
        let message = format!("{end} rows, {committed} to {intended} expected");
        self.count_unless(has_all_rows, &self.totals.lost, &message);

        let is_full = kill.is_multiple_of(FULL_CHECK_INTERVAL);
        let result = catch_unwind(AssertUnwindSafe(|| self.check_rows(&dataset, end, intended, is_full)));
        self.count_unless(result.is_ok(), &self.totals.torn, "rows are not what they were");

        // The next writer removes the part files of a killed one: of a compaction, or, where files can't be without names,
        // of the segments of a commit.
        let folder = self.table.parent().unwrap();
        let max_parts =
            if create_unnamed(folder).unwrap().is_some() { 1 } else { MAX_COMMIT_ROWS.div_ceil(SEGMENT_ROWS) };
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let parts = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "part"));
        let parts = parts.count() as u64;
        self.count_unless(parts <= max_parts, &self.totals.leftover_parts, &format!("{parts} part files"));
    }

    /// Increments a total and prints a message, unless a check has succeeded.
    fn count_unless(&self, is_good: bool, total: &AtomicU64, message: &str) {
        if !is_good {
            eprintln!("{}: {message}", self.table.display());
            total.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Panics unless rows and segments are valid: all of them if `is_full`, else the newest.
    fn check_rows(&self, dataset: &Dataset, end: u64, intended: u64, is_full: bool) {
        let rows = if is_full { dataset.clone() } else { dataset.tail(3000).unwrap() };
        self.rows.check(&rows, end - rows.len().unwrap());
        rows.validate(|_, _| ()).unwrap();
        self.check_segments(if is_full { usize::MAX } else { 2 }, intended);
    }

    /// Panics unless arrow-rs reads the right rows from the newest segments, and none beyond `intended`.
    fn check_segments(&self, count: usize, intended: u64) {
        let mut paths: Vec<PathBuf> = self.table.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths.iter().rev().take(count) {
            // The name of a segment is the number of its first row.
            let mut next_row: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
            for batch in FileReader::try_new(File::open(path).unwrap(), None).unwrap() {
                let batch = batch.unwrap();
                self.rows.check_batch(&batch, next_row);
                next_row += batch.num_rows() as u64;
            }
            assert!(next_row <= intended, "a stock reader sees {next_row} rows, {intended} were to be");
        }
    }
}
