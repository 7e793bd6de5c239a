//! Tests that files which change while they are read or written cause errors, and never wrong values or crashes: files
//! are truncated, overwritten, replaced, regrown and removed.
//!
//! `ARROWWOOD_CHANGED_ROUNDS` sets the number of rounds of each event in the random tests, and `ARROWWOOD_CHANGED_SEED`
//! their seed: see `make torture`.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, DictionaryArray, Int8Array, Int32RunArray, Int64Array, RecordBatch, StringArray};
use arrowwood::{Column, Dataset, ErrorKind, Format, Mapping, Mode, WriteOptions, Writer, WriterOptions, open, write};

use crate::dice::Dice;
use crate::running::Running;
use crate::wait::wait_until;

fn write_sample(path: &Path) -> Dataset {
    let rows = 0..300_000i64;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|row| format!("row {row}"))));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), path, &WriteOptions::default()).unwrap();
    open(path).unwrap()
}

fn set_len(path: &Path, len: u64) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn every_call_reports_a_truncated_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let calls: [fn(&Dataset) -> arrowwood::Result<()>; 6] = [
        |ds| ds.column("n")?.sum().map(drop),
        |ds| ds.column("text")?.min().map(drop),
        |ds| ds.row(299_999)?.get(0).map(drop),
        |ds| ds.validate(|_, _| ()),
        |ds| ds.to_record_batches().try_for_each(|batch| batch.map(drop)),
        |ds| arrowwood::write_to(ds, &mut Vec::new(), &WriteOptions::default()),
    ];
    for (number, call) in calls.iter().enumerate() {
        let dataset = write_sample(&path);
        call(&dataset).unwrap();
        set_len(&path, 8192);
        for _ in 0..2 {
            let e = call(&dataset).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::FileChanged, "call {number}: {e}");
            assert_eq!(e.path(), Some(&*path));
        }
        assert!(dataset.to_string().contains("truncated"), "{dataset}");
    }
}

/// Regression test: a follower slept forever when its table was removed, as no commit wakes it any more.
#[test]
fn followers_of_a_removed_table_get_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = Writer::open(&table, Some(batch(0..0).schema()), &WriterOptions::default()).unwrap();
    writer.append(&batch(0..10)).unwrap();
    writer.commit().unwrap();
    let mut follower = arrowwood::follow(&open(&table).unwrap(), None, None).unwrap();
    assert!(follower.poll(Duration::from_millis(600)).unwrap().is_none());
    std::fs::remove_dir_all(&table).unwrap();
    assert_eq!(follower.next().unwrap().unwrap_err().kind(), ErrorKind::FileChanged);
}

/// Streams are checked for changes, too: appending is allowed, overwriting isn't.
#[test]
fn streams_may_grow_but_not_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stream");
    let options = WriteOptions { format: arrowwood::Format::Stream, ..WriteOptions::default() };
    write(&Dataset::try_from(batches()).unwrap(), &path, &options).unwrap();
    let dataset = open(&path).unwrap();
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    for _ in 0..3 {
        file.write_all(&[0; 4096]).unwrap();
        dataset.column("n").unwrap().sum().unwrap();
    }
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend([1; 64]);
    bytes[..8].fill(7);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(dataset.column("n").unwrap().sum().unwrap_err().kind(), ErrorKind::FileChanged);
}

/// A growing segment that is opened as a file changes with every commit, which is no error.
#[test]
fn a_live_segment_opened_as_a_file_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = Writer::open(&table, Some(batch(0..0).schema()), &WriterOptions::default()).unwrap();
    writer.append(&batch(0..10)).unwrap();
    writer.commit().unwrap();
    let dataset = open(table.join("00000000000000000000.arrow")).unwrap();
    for round in 1..5 {
        writer.append(&batch(10 * round..10 * round + 10)).unwrap();
        writer.commit().unwrap();
        dataset.column("n").unwrap().sum().unwrap();
    }
}

/// Replaces all occurrences of `before` in a file by `after`, and restores its modification time, which would reveal
/// the change.
fn overwrite(path: &Path, before: &[u8], after: &[u8]) {
    use std::os::unix::fs::FileExt;
    let bytes = std::fs::read(path).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    let mut replaced = 0;
    for position in 0..bytes.len() {
        if bytes[position..].starts_with(before) {
            file.write_all_at(after, position as u64).unwrap();
            replaced += 1;
        }
    }
    assert!(replaced > 0);
    file.set_modified(modified).unwrap();
}

/// Returns the bytes of the numbers, which offsets are stored as.
fn le_bytes<const N: usize>(numbers: [i32; N]) -> Vec<u8> {
    numbers.into_iter().flat_map(i32::to_le_bytes).collect()
}

/// Writes a column of two chunks to a file and opens it.
fn write_column(path: &Path, chunks: [ArrayRef; 2], format: Format) -> Column {
    let batches = chunks.map(|chunk| RecordBatch::try_from_iter_with_nullable([("c", chunk, true)]).unwrap());
    let options = WriteOptions { format, ..WriteOptions::default() };
    write(&Dataset::try_from(batches.to_vec()).unwrap(), path, &options).unwrap();
    open(path).unwrap().column("c").unwrap()
}

fn cell_texts(dataset: &Dataset) -> Vec<String> {
    dataset.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
}

fn text_dictionary(keys: &[i8], values: &[&str]) -> ArrayRef {
    let values = Arc::new(StringArray::from(values.to_vec()));
    Arc::new(DictionaryArray::new(Int8Array::from(keys.to_vec()), values))
}

/// The offsets of three texts or runs, and invalid ones that replace them.
const OFFSETS: [i32; 3] = [0, 3, 7];
const INVALID_OFFSETS: [[i32; 3]; 4] = [[0, 7, 3], [0, 1 << 30, 1 << 30], [-8, 3, 7], [0, 3, -1]];

/// Regression test: overwriting offsets or keys after their validation made arrow-rs read outside of memory, or panic.
#[test]
fn offsets_overwritten_after_their_validation_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");

    // The values of runs, which are copied into one array.
    let runs: ArrayRef = Arc::new(Int32RunArray::from_iter(["ash", "ash", "pear"]));
    for invalid in INVALID_OFFSETS {
        let column = write_column(&path, [runs.clone(), runs.clone()], Format::File);
        column.chunks().unwrap();
        assert_eq!(cell_texts(&column.as_dataset().collect().unwrap()), cell_texts(column.as_dataset()));
        overwrite(&path, &le_bytes(OFFSETS), &le_bytes(invalid));
        assert!(column.as_dataset().collect().is_err(), "{invalid:?}");
    }

    // A dictionary and a delta.
    let deltas = [text_dictionary(&[1, 0, 1], &["ash", "pear"]), text_dictionary(&[2, 1, 0], &["ash", "pear", "elm"])];
    let column = write_column(&path, deltas.clone(), Format::Stream);
    assert_eq!(column.get(3).unwrap().to_string(), "elm");
    for invalid in INVALID_OFFSETS {
        let column = write_column(&path, deltas.clone(), Format::Stream);
        column.slice(0, 3).unwrap().chunks().unwrap();
        overwrite(&path, &le_bytes(OFFSETS), &le_bytes(invalid));
        assert!(column.chunks().is_err(), "{invalid:?}");
    }

    // The keys of a dictionary of numbers.
    let keys = [1, 0, 1, 1, 0, 1, 0, 0, 1];
    let values = Arc::new(Int64Array::from(vec![10, 20]));
    let numbers: ArrayRef = Arc::new(DictionaryArray::new(Int8Array::from(keys.to_vec()), values));
    let calls: [fn(&Column) -> arrowwood::Result<()>; 3] = [
        |column| column.var().map(drop),
        |column| column.quantile(0.5).map(drop),
        |column| column.as_dataset().sort(&[("c", false)]).map(drop),
    ];
    for call in calls {
        let column = write_column(&path, [numbers.clone(), numbers.clone()], Format::File);
        column.chunks().unwrap();
        call(&column).unwrap();
        overwrite(&path, &keys.map(|key| key as u8), &[100; 9]);
        assert!(call(&column).is_err());
    }
}

// ---- random tests: a reader or writer in another process, whose files change at random moments ----

/// The environment variable that is set in the other process, to the folder of the files.
const FOLDER_VARIABLE: &str = "ARROWWOOD_CHANGED_ROLE";
/// The test that the other process runs.
const CHILD_TEST: &str = "changed::child";
/// The rows of a segment, which is large enough for columns of several segments to be mapped contiguously.
const SEGMENT_ROWS: i64 = 8192;
/// The rows of a table or file: three full segments and a live one.
const ROWS: i64 = 3 * SEGMENT_ROWS + 1000;
const BATCH_ROWS: i64 = 5000;

/// The last segment of the table, which is live.
const LIVE_SEGMENT: &str = "t/00000000000000024576.arrow";
const SEALED_SEGMENTS: [&str; 3] =
    ["t/00000000000000000000.arrow", "t/00000000000000008192.arrow", "t/00000000000000016384.arrow"];

/// The objects that are open while a file changes.
const KINDS: [&str; 7] = ["file", "stream", "view", "live", "sealed", "contiguous", "writer"];
/// The changes of the file.
const EVENTS: [&str; 5] = ["truncate", "regrow", "rewrite", "replace", "remove"];

fn rounds() -> usize {
    std::env::var("ARROWWOOD_CHANGED_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

fn seed() -> u64 {
    std::env::var("ARROWWOOD_CHANGED_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn batches() -> Vec<RecordBatch> {
    let starts = (0..ROWS).step_by(BATCH_ROWS as usize);
    starts.map(|start| batch(start..ROWS.min(start + BATCH_ROWS))).collect()
}

fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row + 1)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|row| format!("row {row}"))));
    RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()
}

/// The original files of a round.
struct Template {
    files: Vec<(&'static str, Vec<u8>)>,
    /// The name of the file that changes.
    changed_file: &'static str,
}

fn encode_rows(format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = WriteOptions { format, ..WriteOptions::default() };
    arrowwood::write_to(&Dataset::try_from(batches()).unwrap(), &mut bytes, &options).unwrap();
    bytes
}

impl Template {
    /// Creates the files for one of [`KINDS`]; `folder` is used for temporary files.
    fn new(kind: &str, folder: &Path) -> Template {
        match kind {
            "file" => Template::single_file(encode_rows(Format::File)),
            "stream" => Template::single_file(encode_rows(Format::Stream)),
            "view" => Template::single_file((1..=ROWS).flat_map(i64::to_le_bytes).collect()),
            "live" | "writer" => Template::table(folder, LIVE_SEGMENT),
            _ => Template::table(folder, SEALED_SEGMENTS[1]),
        }
    }

    fn single_file(bytes: Vec<u8>) -> Template {
        Template { files: vec![("data.arrow", bytes)], changed_file: "data.arrow" }
    }

    fn table(folder: &Path, changed_file: &'static str) -> Template {
        let table = folder.join("template");
        let options = WriterOptions { segment_rows: Some(SEGMENT_ROWS as u64), ..WriterOptions::default() };
        let mut writer = Writer::open(&table, Some(batch(0..0).schema()), &options).unwrap();
        for batch in batches() {
            writer.append(&batch).unwrap();
        }
        writer.close().unwrap();
        let names = SEALED_SEGMENTS.into_iter().chain([LIVE_SEGMENT]);
        let files = names.map(|name| (name, std::fs::read(table.join(&name["t/".len()..])).unwrap())).collect();
        Template { files, changed_file }
    }

    /// Writes the original files to `folder`, and removes all others.
    fn restore(&self, folder: &Path) {
        // Fails in the first round, where the folder doesn't exist yet.
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder.join("t")).unwrap();
        for (name, bytes) in &self.files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }

    fn change_file(&self, folder: &Path, event: &str, dice: &mut Dice) {
        let path = folder.join(self.changed_file);
        let (_, bytes) = self.files.iter().find(|(name, _)| *name == self.changed_file).unwrap();
        let len = bytes.len() as u64;
        let junk = vec![JUNK; bytes.len()];
        match event {
            "truncate" => set_len(&path, dice.below(len)),
            "regrow" => {
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                file.set_len(dice.below(len)).unwrap();
                file.set_len(len).unwrap();
            }
            "rewrite" => std::fs::write(&path, junk).unwrap(),
            "replace" => {
                std::fs::write(folder.join("other"), junk).unwrap();
                std::fs::rename(folder.join("other"), &path).unwrap();
            }
            // Fails while a writer creates files there.
            _ => wait_until("a folder without files", || std::fs::remove_dir_all(folder).is_ok()),
        }
    }
}

/// Runs in another process; without the environment variable it does nothing.
///
/// The parent sends a kind, which is opened and answered by `@open`. Then the subject is read repeatedly until the
/// parent sends the event that has happened, which is answered by `@` and the result.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER_VARIABLE) else { return };
    let (sender, commands) = std::sync::mpsc::channel();
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut dice = Dice::new(7 + seed());
    while let Ok(kind) = commands.recv() {
        let subject = Subject::open(&kind, Path::new(&folder));
        println!("@open");
        let mut looks = Looks::default();
        let mut result = Ok(());
        let event = loop {
            result = result.and_then(|()| subject.check_once(&mut dice, &mut looks));
            if let Ok(event) = commands.try_recv() {
                break event;
            }
        };
        match result.and_then(|()| subject.check_end(&event)) {
            Ok(()) => println!("@{} {}", looks.all, looks.changed),
            Err(why) => println!("@bad {why}"),
        }
    }
}

/// Counts of looks at a subject, and of those that failed as the file has changed.
#[derive(Default)]
struct Looks {
    all: u64,
    changed: u64,
}

/// The object that is open in the child process.
enum Subject {
    Data(Dataset),
    /// A dataset whose columns are read as contiguous arrays.
    Contiguous(Dataset),
    View(arrowwood::View<i64>),
    Writer(Box<std::cell::RefCell<Writer>>),
}

/// An error describes the violation.
type CheckResult = Result<(), String>;

impl Subject {
    fn open(kind: &str, folder: &Path) -> Subject {
        match kind {
            "file" | "stream" => Subject::Data(open(folder.join("data.arrow")).unwrap()),
            "view" => {
                let mapping = Mapping::open(folder.join("data.arrow"), Mode::Read).unwrap();
                Subject::View(mapping.view(0, None).unwrap())
            }
            "writer" => {
                let sync = arrowwood::SyncPolicy::Never;
                let options = WriterOptions { sync, ..WriterOptions::default() };
                Subject::Writer(Box::new(Writer::open(folder.join("t"), None, &options).unwrap().into()))
            }
            "contiguous" => Subject::Contiguous(open_mapped(&folder.join("t"))),
            _ => Subject::Data(open_mapped(&folder.join("t"))),
        }
    }

    /// Reads or writes once: the values are right, or the error says that the file has changed.
    fn check_once(&self, dice: &mut Dice, looks: &mut Looks) -> CheckResult {
        looks.all += 1;
        let row = dice.below(ROWS as u64);
        let result = match self {
            Subject::Data(dataset) => check_row(dataset, row),
            Subject::Contiguous(dataset) => check_contiguous_sum(dataset),
            Subject::View(view) => match view.get(row as usize) {
                Ok(n) => Ok(check_value(is_mixed(n, row as i64 + 1))),
                Err(e) => Err(e.into()),
            },
            Subject::Writer(writer) => {
                let mut writer = writer.borrow_mut();
                let values = [arrowwood::Value::Int(1), arrowwood::Value::Str("more")];
                writer.append_row(&values).and_then(|()| writer.commit()).map(Ok)
            }
        };
        match result {
            Ok(checked) => checked,
            Err(e) if e.kind() == ErrorKind::FileChanged => {
                looks.changed += 1;
                Ok(())
            }
            Err(e) if self.is_later_error(&e) => Ok(()),
            Err(e) => Err(format!("another error: {e:?}")),
        }
    }

    /// Returns true for other errors of a writer: it stays failed, and it can't create a segment when its folder was
    /// removed.
    fn is_later_error(&self, e: &arrowwood::Error) -> bool {
        matches!(self, Subject::Writer(_)) && [ErrorKind::Closed, ErrorKind::NotFound].contains(&e.kind())
    }

    /// Checks that the event has been detected by now, if it has lost data.
    fn check_end(&self, event: &str) -> CheckResult {
        let is_writer_removed = event == "remove" && matches!(self, Subject::Writer(_));
        let must_fail = is_writer_removed || ["truncate", "regrow", "rewrite"].contains(&event);
        let result = match self {
            Subject::Data(dataset) => check_sum(dataset),
            Subject::Contiguous(dataset) => check_contiguous_sum(dataset),
            // A view accepts all values, zeros and junk, too, so only truncation is an error.
            Subject::View(_) if event != "truncate" => return Ok(()),
            Subject::View(view) => view.to_vec().map(|_| Ok(())).map_err(Into::into),
            Subject::Writer(writer) => writer.borrow_mut().sync().map(Ok),
        };
        match (result, must_fail) {
            (Ok(checked), false) => checked,
            (Ok(_), true) => Err("nothing was noticed".into()),
            (Err(e), true) if e.kind() == ErrorKind::FileChanged => Ok(()),
            (Err(e), _) if self.is_later_error(&e) => Ok(()),
            (Err(e), _) => Err(format!("at the end: {e:?}")),
        }
    }
}

/// The bytes that files are overwritten with.
const JUNK: u8 = 0xa5;

/// Returns true if each byte of `actual` is the one of `expected`, zero, or junk.
///
/// A number may be read while its file is truncated and regrown, or overwritten, which can happen in the middle of it.
fn is_mixed(actual: i64, expected: i64) -> bool {
    let mut pairs = actual.to_le_bytes().into_iter().zip(expected.to_le_bytes());
    pairs.all(|(actual, expected)| [expected, 0, JUNK].contains(&actual))
}

/// Opens a table and maps all of its segments.
fn open_mapped(table: &Path) -> Dataset {
    let dataset = open(table).unwrap();
    dataset.column("n").unwrap().sum().unwrap();
    dataset
}

fn check_value(is_right: bool) -> CheckResult {
    if is_right { Ok(()) } else { Err("a value is wrong".into()) }
}

fn check_row(dataset: &Dataset, number: u64) -> arrowwood::Result<CheckResult> {
    if dataset.len()? != ROWS as u64 || dataset.num_columns() != 2 {
        return Ok(Err(format!("{} rows", dataset.len()?)));
    }
    let row = dataset.row(number)?;
    let n = row.get(0)?.to_string();
    if !n.parse().is_ok_and(|n| is_mixed(n, number as i64 + 1)) {
        return Ok(Err(format!("row {number} is {n}")));
    }
    row.get(1)?;
    dataset.refresh()?;
    match number % 3 {
        0 => check_sum(dataset),
        1 => dataset.validate(|_, _| ()).map(Ok),
        _ => dataset.to_record_batches().try_for_each(|batch| batch.map(drop)).map(Ok),
    }
}

/// Checks the sum of a column. The aggregation checks the file at its end, so its result has to be exact.
fn check_sum(dataset: &Dataset) -> arrowwood::Result<CheckResult> {
    let sum = dataset.column("n")?.sum()?.to_string();
    Ok(if sum == (ROWS * (ROWS + 1) / 2).to_string() { Ok(()) } else { Err(format!("the sum is {sum}")) })
}

/// Checks the sum of a column that is read through its mapping.
fn check_contiguous_sum(dataset: &Dataset) -> arrowwood::Result<CheckResult> {
    let Some(array) = dataset.column("n")?.contiguous()? else { return Ok(Err("not contiguous".into())) };
    let numbers = array.buffers()[0].as_chunks::<8>().0;
    let sum = arrowwood::guard(|| {
        let sum = numbers.iter().fold(0i64, |sum, n| sum.wrapping_add(i64::from_le_bytes(*n)));
        Ok::<i64, arrowwood::Error>(sum)
    })?;
    // Reading through a mapping doesn't detect changes: asking again does.
    let is_unchanged = dataset.column("n")?.contiguous()?.is_some();
    Ok(check_value(is_unchanged && sum == ROWS * (ROWS + 1) / 2))
}

/// Runs all events, at random moments, on one kind of subject.
fn run_events(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let template = Template::new(kind, folder.path());
    let files = folder.path().join("place");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", CHILD_TEST, "--nocapture"]).env(FOLDER_VARIABLE, &files);
    let mut child = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut dice = Dice::new(kind.len() as u64 + seed());
    for event in EVENTS {
        let mut looks = Looks::default();
        for round in 0..rounds() {
            template.restore(&files);
            child.send(&format!("{kind}\n"));
            assert_eq!(read_answer(&mut child), "open", "{kind} {event} {round}");
            std::thread::sleep(Duration::from_micros(dice.below(3000)));
            template.change_file(&files, event, &mut dice);
            child.send(&format!("{event}\n"));
            let answer = read_answer(&mut child);
            let counts: Vec<u64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
            assert!(counts.len() == 2 && !answer.starts_with("bad"), "{kind} {event} {round}: {answer}");
            looks.all += counts[0];
            looks.changed += counts[1];
        }
        let Looks { all, changed } = looks;
        eprintln!("  {kind:10} {event:8} {} rounds, {all} looks, {changed} of them FileChanged", rounds());
    }
    assert!(child.end().status.success());
}

/// Returns the text after the next `@`, and skips what the test harness prints.
fn read_answer(child: &mut Running) -> String {
    loop {
        if let Some((_, answer)) = child.line().split_once('@') {
            return answer.to_owned();
        }
    }
}

macro_rules! event_tests {
    ($($(#[$attribute:meta])? $name:ident $number:literal)*) => {$(
        #[test]
        $(#[$attribute])?
        fn $name() {
            run_events(KINDS[$number]);
        }
    )*};
}
event_tests! {
    files_that_change 0
    streams_that_change 1
    views_that_change 2
    live_segments_that_change 3
    sealed_segments_that_change 4
    #[cfg_attr(arrowwood_portable, ignore = "memory can't be mapped twice, so a column has several chunks")]
    contiguous_columns_that_change 5
    writers_whose_segment_changes 6
}
