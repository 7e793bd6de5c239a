//! Kills writers, again and again, while readers look on: `kills COUNT [TABLES [FIRST]]`. After each kill every row
//! that was acknowledged must be there, none may be torn, stock readers must see a prefix, and the next writer must open
//! the table as if nothing had been. Ends with 1 unless all of that was so.
//!
//! A writer is this program again, `kills write FOLDER JOURNAL SEED KEEP`: it opens the table, appends over the ends of
//! small segments, commits, rolls back, syncs, compacts and drops, for as long as it is let; or it compacts the closed
//! table.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_ipc::reader::FileReader;
use arrowwood::Writer;

#[path = "../../tests/support/dice.rs"]
mod dice;
#[path = "../../tests/live/ticks.rs"]
#[allow(dead_code, reason = "some of it is for tests/tables/live.rs")]
mod ticks;
#[path = "../../tests/support/wait.rs"]
mod wait;

use dice::Dice;
use ticks::{Journal, Rows, Shape, Way};
use wait::wait_until;

const SHAPE: Shape = Shape { segment_rows: 1000, lists: true, keep: Some(15_000), late: false };

/// The word of the journal where a writer that has opened the table leaves its process id.
const OPEN: u64 = Journal::WORDS;

/// What the campaign has found.
#[derive(Debug, Default)]
struct Score {
    kills: AtomicU64,
    early: AtomicU64,
    lost: AtomicU64,
    torn: AtomicU64,
    reopens: AtomicU64,
    parts: AtomicU64,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["write", folder, journal, seed] => churn(Path::new(folder), Path::new(journal), seed.parse().unwrap()),
        [count] => campaign(count.parse().unwrap(), 2, 0),
        [count, tables] => campaign(count.parse().unwrap(), tables.parse().unwrap(), 0),
        [count, tables, first] => {
            campaign(count.parse().unwrap(), tables.parse().unwrap(), first.parse().unwrap());
        }
        _ => {
            eprintln!("kills COUNT [TABLES [FIRST]]");
            std::process::exit(2);
        }
    }
}

/// The writer that is to be killed.
fn churn(folder: &Path, journal: &Path, seed: u64) {
    let (journal, mut dice) = (Journal::open(journal), Dice::new(seed));
    if dice.below(8) == 0 {
        return match arrowwood::compact(folder, |_, _| ()) {
            Err(e) if folder.read_dir().is_ok_and(|mut files| files.next().is_some()) => panic!("{e}"),
            _ => (),
        };
    }
    let (rows, schema) = (Rows::new(), ticks::schema(SHAPE));
    let mut writer = Writer::open(folder, Some(schema.clone()), &ticks::options(SHAPE)).unwrap();
    journal.note(OPEN, std::process::id().into());
    let mut at = writer.rows();
    loop {
        match dice.below(40) {
            0 => _ = writer.compact(|_, _| ()).unwrap(),
            1..3 => {
                let keep = SHAPE.keep.unwrap_or(0);
                writer.drop_before(at.saturating_sub(keep).min(journal.slowest())).unwrap();
            }
            3 => writer.sync().unwrap(),
            4 => {
                writer.append(&rows.batch(&schema, at, 1 + dice.below(2500))).unwrap();
                writer.rollback();
            }
            _ => {
                let count = if dice.below(10) == 0 { 1 + dice.below(2500) } else { 1 + dice.below(30) };
                writer.append(&rows.batch(&schema, at, count)).unwrap();
                at += count;
                journal.note(Journal::INTENDED, at);
                writer.commit().unwrap();
                journal.note(Journal::COMMITTED, at);
            }
        }
    }
}

/// Kills `count` writers at so many tables; `first` is the number of kills before, whose dice are not cast again.
fn campaign(count: u64, tables: u64, first: u64) {
    let (score, begin) = (Arc::new(Score::default()), Instant::now());
    let place = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(place).unwrap();
    let run = |number: u64| {
        let (score, folder) = (score.clone(), folder.path().join(number.to_string()));
        std::thread::spawn(move || Field::new(folder, score).run(first / tables, count.div_ceil(tables), number + 1))
    };
    (0..tables).map(run).collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    let said = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (lost, torn, reopens, parts) = (said(&score.lost), said(&score.torn), said(&score.reopens), said(&score.parts));
    println!(
        "{} kills in {:.0} s, {} of them before a commit; lost {lost}, torn {torn}, failed reopens {reopens}, \
         files left behind {parts}",
        said(&score.kills),
        begin.elapsed().as_secs_f64(),
        said(&score.early),
    );
    // The readers end with the process.
    let code = i32::from(lost + torn + reopens + parts > 0);
    drop(folder);
    std::process::exit(code);
}

/// One table, and those at it.
struct Field {
    table: PathBuf,
    journal: PathBuf,
    rows: Rows,
    score: Arc<Score>,
}

impl Field {
    fn new(folder: PathBuf, score: Arc<Score>) -> Field {
        std::fs::create_dir(&folder).unwrap();
        let (table, journal) = (folder.join("ticks"), folder.join("journal"));
        let words = Journal::open(&journal);
        (0..=OPEN).for_each(|word| words.note(word, if word < Journal::READERS + 2 { 0 } else { u64::MAX }));
        Field { table, journal, rows: Rows::new(), score }
    }

    fn run(&self, first: u64, count: u64, seed: u64) {
        for number in 0..2 {
            let (table, journal, score) = (self.table.clone(), self.journal.clone(), self.score.clone());
            std::thread::spawn(move || {
                let journal = Journal::open(&journal);
                let time = Duration::from_secs(1 << 20);
                let seen = std::panic::catch_unwind(|| match number {
                    0 => ticks::read(&table, &journal, number, Way::Refresh, time),
                    _ => ticks::tail(&table, &journal, number, time),
                });
                score.torn.fetch_add(u64::from(seen.is_err()), Ordering::Relaxed);
                journal.note(Journal::READERS + number, u64::MAX);
            });
        }
        let (mut dice, journal) = (Dice::new(seed + (first << 8)), Journal::open(&self.journal));
        for kill in first..first + count {
            let before = journal.read(Journal::COMMITTED);
            self.kill(&journal, seed << 32 | kill, &mut dice);
            self.score.early.fetch_add(u64::from(journal.read(Journal::COMMITTED) == before), Ordering::Relaxed);
            self.judge(&journal, kill);
        }
    }

    /// Starts a writer and kills it; it must not have ended by itself, unless it had only to compact.
    fn kill(&self, journal: &Journal, seed: u64, dice: &mut Dice) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("write").arg(&self.table).arg(&self.journal).arg(seed.to_string());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let pid = u64::from(child.id());
        // Some die while they open the table, most while they write. One that only compacts ends by itself.
        if dice.below(4) > 0 {
            let has_ended = |child: &mut Child| child.try_wait().unwrap().is_some();
            wait_until("a writer that has opened the table", || journal.read(OPEN) == pid || has_ended(&mut child));
        }
        // The moment of the kill, which is another one each time.
        let most = 1 + dice.below(20_000);
        std::thread::sleep(Duration::from_micros(dice.below(most)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let failed = status.code().is_some_and(|code| code != 0);
        self.score.kills.fetch_add(u64::from(status.code().is_none()), Ordering::Relaxed);
        self.score.reopens.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    fn judge(&self, journal: &Journal, kill: u64) {
        let (intended, committed) = (journal.read(Journal::INTENDED), journal.read(Journal::COMMITTED));
        let Ok(dataset) = arrowwood::open(&self.table) else {
            self.count(&self.score.lost, committed == 0, "the table does not open");
            return;
        };
        let (first, len) = (dataset.first_row(), dataset.len().unwrap());
        let is_there = (committed..=intended.max(committed)).contains(&(first + len));
        self.count(&self.score.lost, is_there, &format!("{} rows, {committed} to {intended} expected", first + len));
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let tail = if kill.is_multiple_of(16) { dataset.clone() } else { dataset.tail(3000).unwrap() };
            self.rows.check(&tail, first + len - tail.len().unwrap());
            tail.validate(|_, _| ()).unwrap();
            self.stock(if kill.is_multiple_of(16) { usize::MAX } else { 2 }, intended.max(committed));
        }));
        self.count(&self.score.torn, checked.is_ok(), "rows are not what they were");
        // What a killed compaction left is the next writer's to remove: there is never more than one.
        let parts = std::fs::read_dir(self.table.parent().unwrap()).unwrap().flatten();
        let parts = parts.filter(|entry| entry.path().extension().is_some_and(|end| end == "part")).count();
        self.count(&self.score.parts, parts <= 1, &format!("{parts} part files"));
    }

    fn count(&self, score: &AtomicU64, fine: bool, what: &str) {
        if !fine {
            eprintln!("{}: {what}", self.table.display());
            score.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What a stock reader sees of the last `most` segments: rows that are right, and none that nobody meant to commit.
    fn stock(&self, most: usize, intended: u64) {
        let mut files: Vec<PathBuf> = self.table.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for path in files.iter().rev().take(most) {
            let start: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
            let mut at = start;
            for batch in FileReader::try_new(File::open(path).unwrap(), None).unwrap() {
                let batch = batch.unwrap();
                self.rows.check_batch(&batch, at);
                at += batch.num_rows() as u64;
            }
            assert!(at <= intended, "a stock reader sees {at} rows, {intended} were to be");
        }
    }
}
