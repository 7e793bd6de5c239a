//! Files that change under a reader: truncated, overwritten, replaced, grown again, removed. The campaign takes longer
//! with `ARROWWOOD_CHANGED_ROUNDS`, the rounds of each event; `ARROWWOOD_CHANGED_SEED` gives other moments: see `make
//! torture`.
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

fn sample(path: &Path) -> Dataset {
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
fn truncation_is_an_error_in_every_call() {
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
        let dataset = sample(&path);
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

/// A follower slept for ever when somebody removed the table: nobody wakes it any more.
#[test]
fn followers_of_a_removed_table_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = Writer::open(&table, Some(batch_of(0..0).schema()), &WriterOptions::default()).unwrap();
    writer.append(&batch_of(0..10)).unwrap();
    writer.commit().unwrap();
    let mut follow = arrowwood::follow(&open(&table).unwrap(), None, None).unwrap();
    assert!(follow.poll(Duration::from_millis(600)).unwrap().is_none());
    std::fs::remove_dir_all(&table).unwrap();
    assert_eq!(follow.next().unwrap().unwrap_err().kind(), ErrorKind::FileChanged);
}

/// A file that others may add to is watched too: a stream that only grows stays open, one that was overwritten doesn't.
#[test]
fn streams_may_grow() {
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

/// An ordinary reader of a segment that grows sees its file change all the time.
#[test]
fn a_live_segment_opened_as_a_file_may_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = Writer::open(&table, Some(batch_of(0..0).schema()), &WriterOptions::default()).unwrap();
    writer.append(&batch_of(0..10)).unwrap();
    writer.commit().unwrap();
    let dataset = open(table.join("00000000000000000000.arrow")).unwrap();
    for round in 1..5 {
        writer.append(&batch_of(10 * round..10 * round + 10)).unwrap();
        writer.commit().unwrap();
        dataset.column("n").unwrap().sum().unwrap();
    }
}

/// Overwrites all `before` in the file at `path` with `after`, and leaves its time as it was: nothing tells of the change.
fn overwrite(path: &Path, before: &[u8], after: &[u8]) {
    use std::os::unix::fs::FileExt;
    let bytes = std::fs::read(path).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    let places = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(before));
    let written = places.map(|at| file.write_all_at(after, at as u64).unwrap()).count();
    assert!(written > 0);
    file.set_modified(time).unwrap();
}

fn words<const N: usize>(words: [i32; N]) -> Vec<u8> {
    words.into_iter().flat_map(i32::to_le_bytes).collect()
}

/// Offsets and keys that were checked, and then overwritten, made arrow-rs read outside of memory, or panic.
#[test]
fn offsets_overwritten_after_they_were_checked_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let put = |columns: [ArrayRef; 2], format| {
        let batches = columns.map(|column| RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap());
        let options = WriteOptions { format, ..WriteOptions::default() };
        write(&Dataset::try_from(batches.to_vec()).unwrap(), &path, &options).unwrap();
        open(&path).unwrap().column("c").unwrap()
    };
    let texts = |texts: &[&str]| -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) };
    let broken = [[0, 7, 3], [0, 1 << 30, 1 << 30], [-8, 3, 7], [0, 3, -1]];

    // The values of runs, copied into one array.
    let runs = || -> ArrayRef { Arc::new(Int32RunArray::from_iter(["ash", "ash", "pear"])) };
    for broken in broken {
        let column = put([runs(), runs()], Format::File);
        column.chunks().unwrap();
        let shown =
            |rows: &Dataset| rows.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect::<Vec<_>>();
        assert_eq!(shown(&column.as_dataset().collect().unwrap()), shown(column.as_dataset()));
        overwrite(&path, &words([0, 3, 7]), &words(broken));
        assert!(column.as_dataset().collect().is_err(), "{broken:?}");
    }

    // A dictionary and a delta.
    let coded = |keys: &[i8], values: &[&str]| -> ArrayRef {
        Arc::new(DictionaryArray::new(Int8Array::from(keys.to_vec()), texts(values)))
    };
    let deltas = || [coded(&[1, 0, 1], &["ash", "pear"]), coded(&[2, 1, 0], &["ash", "pear", "elm"])];
    let column = put(deltas(), Format::Stream);
    assert_eq!(column.get(3).unwrap().to_string(), "elm");
    for broken in broken {
        let column = put(deltas(), Format::Stream);
        column.slice(0, 3).unwrap().chunks().unwrap();
        overwrite(&path, &words([0, 3, 7]), &words(broken));
        assert!(column.chunks().is_err(), "{broken:?}");
    }

    // Keys of numbers.
    let keys = [1, 0, 1, 1, 0, 1, 0, 0, 1];
    let numbers = || -> ArrayRef {
        let values = Arc::new(Int64Array::from(vec![10, 20]));
        Arc::new(DictionaryArray::new(Int8Array::from(keys.to_vec()), values))
    };
    let calls: [fn(&Column) -> arrowwood::Result<()>; 3] = [
        |column| column.var().map(drop),
        |column| column.quantile(0.5).map(drop),
        |column| column.as_dataset().sort(&[("c", false)]).map(drop),
    ];
    for call in calls {
        let column = put([numbers(), numbers()], Format::File);
        column.chunks().unwrap();
        call(&column).unwrap();
        overwrite(&path, &keys.map(|key| key as u8), &[100; 9]);
        assert!(call(&column).is_err());
    }
}

// ---- the campaign: readers and a writer in another process, whose files change at random moments ----

const ROLE: &str = "ARROWWOOD_CHANGED_ROLE";
/// The test that plays a role.
const CHILD: &str = "changed::child";
/// Rows of a segment of the table, whose columns can then be mapped side by side, and of the table: the last is live.
const SEGMENT: i64 = 8192;
const ROWS: i64 = 3 * SEGMENT + 1000;
/// How the rows of the other tables are cut into batches.
const BATCH: i64 = 5000;

/// What is open, and so what changes.
const KINDS: [&str; 7] = ["file", "stream", "view", "live", "sealed", "contiguous", "writer"];
/// What happens to it.
const EVENTS: [&str; 5] = ["truncate", "regrow", "rewrite", "replace", "remove"];

fn rounds() -> usize {
    std::env::var("ARROWWOOD_CHANGED_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

fn seed() -> u64 {
    std::env::var("ARROWWOOD_CHANGED_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn batches() -> Vec<RecordBatch> {
    let starts = (0..ROWS).step_by(BATCH as usize);
    starts.map(|start| batch_of(start..ROWS.min(start + BATCH))).collect()
}

fn batch_of(rows: std::ops::Range<i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row + 1)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|row| format!("row {row}"))));
    RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()
}

/// All that a round may find: paths and their bytes, and which of them changes.
struct Template {
    files: Vec<(&'static str, Vec<u8>)>,
    changes: &'static str,
}

fn template(kind: &str, folder: &Path) -> Template {
    let one = |name: &'static str, bytes: Vec<u8>| Template { files: vec![(name, bytes)], changes: name };
    let encoded = |format| {
        let mut bytes = Vec::new();
        let options = WriteOptions { format, ..WriteOptions::default() };
        arrowwood::write_to(&Dataset::try_from(batches()).unwrap(), &mut bytes, &options).unwrap();
        bytes
    };
    match kind {
        "file" => one("data.arrow", encoded(arrowwood::Format::File)),
        "stream" => one("data.arrow", encoded(arrowwood::Format::Stream)),
        "view" => one("data.arrow", (1..=ROWS).flat_map(i64::to_le_bytes).collect()),
        _ => {
            let table = folder.join("template");
            let options = WriterOptions { segment_rows: Some(SEGMENT as u64), ..WriterOptions::default() };
            let mut writer = Writer::open(&table, Some(batch_of(0..0).schema()), &options).unwrap();
            batches().iter().for_each(|batch| writer.append(batch).unwrap());
            writer.close().unwrap();
            let names =
                ["t/00000000000000000000.arrow", "t/00000000000000008192.arrow", "t/00000000000000016384.arrow"];
            let live = "t/00000000000000024576.arrow";
            let read = |name: &'static str| (name, std::fs::read(table.join(&name[2..])).unwrap());
            let changes = if kind == "live" || kind == "writer" { live } else { names[1] };
            Template { files: names.into_iter().chain([live]).map(read).collect(), changes }
        }
    }
}

impl Template {
    fn lay_out(&self, folder: &Path) {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder.join("t")).unwrap();
        self.files.iter().for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
    }

    fn change(&self, folder: &Path, event: &str, dice: &mut Dice) {
        let path = folder.join(self.changes);
        let len = self.files.iter().find(|(name, _)| *name == self.changes).unwrap().1.len() as u64;
        let junk = vec![JUNK; len as usize];
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
            // A writer may be making files there.
            _ => wait_until("a folder without files", || std::fs::remove_dir_all(folder).is_ok()),
        }
    }
}

/// Not a test of its own: what the campaign runs as another process. It answers each command by `@open`, reads until it
/// is told what has happened, and answers by `@` and what it found.
#[test]
fn child() {
    let Ok(folder) = std::env::var(ROLE) else { return };
    let (told, commands) = std::sync::mpsc::channel();
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
    let mut dice = Dice::new(7 + seed());
    while let Ok(kind) = commands.recv() {
        let subject = Subject::open(&kind, Path::new(&folder));
        println!("@open");
        let (mut looks, mut changed, mut found) = (0, 0, Ok(()));
        let event = loop {
            found = found.and_then(|()| subject.look(&mut dice, &mut looks, &mut changed));
            if let Ok(event) = commands.try_recv() {
                break event;
            }
        };
        let found = found.and_then(|()| subject.end(&event)).map(|()| format!("{looks} {changed}"));
        println!("@{}", found.unwrap_or_else(|why| format!("bad {why}")));
    }
}

/// What a child has open.
enum Subject {
    Data(Dataset),
    Joined(Dataset),
    View(arrowwood::View<i64>),
    Table(Box<std::cell::RefCell<Writer>>),
}

type Found = Result<(), String>;

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
                Subject::Table(Box::new(Writer::open(folder.join("t"), None, &options).unwrap().into()))
            }
            "contiguous" => Subject::Joined(whole(open(folder.join("t")).unwrap())),
            _ => Subject::Data(whole(open(folder.join("t")).unwrap())),
        }
    }

    /// Reads once: everything is right, or the error of a file that has changed.
    fn look(&self, dice: &mut Dice, looks: &mut u64, changed: &mut u64) -> Found {
        *looks += 1;
        let row = dice.below(ROWS as u64);
        let found = match self {
            Subject::Data(dataset) => look_at(dataset, row),
            Subject::Joined(dataset) => joined(dataset),
            Subject::View(view) => {
                view.get(row as usize).map(|n| right(is_mixed(n, row as i64 + 1))).map_err(Into::into)
            }
            Subject::Table(writer) => {
                let mut writer = writer.borrow_mut();
                let texts = [arrowwood::Value::Int(1), arrowwood::Value::Str("more")];
                writer.append_row(&texts).and_then(|()| writer.commit()).map(Ok)
            }
        };
        match found {
            Ok(found) => found,
            Err(e) if e.kind() == ErrorKind::FileChanged => {
                *changed += 1;
                Ok(())
            }
            Err(e) if self.is_told_otherwise(&e) => Ok(()),
            Err(e) => Err(format!("another error: {e:?}")),
        }
    }

    /// A writer that has failed says so from then on; where its folder has gone it can't make a segment.
    fn is_told_otherwise(&self, e: &arrowwood::Error) -> bool {
        matches!(self, Subject::Table(_)) && [ErrorKind::Closed, ErrorKind::NotFound].contains(&e.kind())
    }

    /// Whether what has happened is known by now.
    fn end(&self, event: &str) -> Found {
        let is_nowhere = event == "remove" && matches!(self, Subject::Table(_));
        let is_lost = is_nowhere || ["truncate", "regrow", "rewrite"].contains(&event);
        let found = match self {
            Subject::Data(dataset) => total(dataset),
            Subject::Joined(dataset) => joined(dataset),
            // What is stored into a file through a mapping is no change: zeros are, to a view, as good as numbers.
            Subject::View(_) if event != "truncate" => return Ok(()),
            Subject::View(view) => view.to_vec().map(|_| Ok(())).map_err(Into::into),
            Subject::Table(writer) => writer.borrow_mut().sync().map(Ok),
        };
        match (found, is_lost) {
            (Ok(found), false) => found,
            (Ok(_), true) => Err("nothing was noticed".into()),
            (Err(e), true) if e.kind() == ErrorKind::FileChanged => Ok(()),
            (Err(e), _) if self.is_told_otherwise(&e) => Ok(()),
            (Err(e), _) => Err(format!("at the end: {e:?}")),
        }
    }
}

/// What bytes of a file are that was overwritten.
const JUNK: u8 = 0xa5;

/// Whether each byte of `found` is the one of `expected`, zero, or junk: what may be seen for an instant where a file
/// became shorter, amid a number maybe, and grew again, or was overwritten.
fn is_mixed(found: i64, expected: i64) -> bool {
    let pairs = found.to_le_bytes().into_iter().zip(expected.to_le_bytes());
    pairs.into_iter().all(|(found, expected)| [expected, 0, JUNK].contains(&found))
}

/// The dataset with all of its segments mapped.
fn whole(dataset: Dataset) -> Dataset {
    dataset.column("n").unwrap().sum().unwrap();
    dataset
}

fn right(is_right: bool) -> Found {
    if is_right { Ok(()) } else { Err("a value is wrong".into()) }
}

fn look_at(dataset: &Dataset, row: u64) -> arrowwood::Result<Found> {
    if dataset.len()? != ROWS as u64 || dataset.num_columns() != 2 {
        return Ok(Err(format!("{} rows", dataset.len()?)));
    }
    let found = dataset.row(row)?;
    let n = found.get(0)?.to_string();
    if !n.parse().is_ok_and(|n| is_mixed(n, row as i64 + 1)) {
        return Ok(Err(format!("row {row} is {n}")));
    }
    found.get(1)?;
    dataset.refresh()?;
    match row % 3 {
        0 => total(dataset),
        1 => dataset.validate(|_, _| ()).map(Ok),
        _ => dataset.to_record_batches().try_for_each(|batch| batch.map(drop)).map(Ok),
    }
}

/// What takes a look at the file at its end has to be right.
fn total(dataset: &Dataset) -> arrowwood::Result<Found> {
    let sum = dataset.column("n")?.sum()?.to_string();
    Ok(if sum == (ROWS * (ROWS + 1) / 2).to_string() { Ok(()) } else { Err(format!("the sum is {sum}")) })
}

fn joined(dataset: &Dataset) -> arrowwood::Result<Found> {
    let Some(array) = dataset.column("n")?.contiguous()? else { return Ok(Err("not contiguous".into())) };
    let numbers = array.buffers()[0].as_chunks::<8>().0;
    let add = |sum: i64, &n: &[u8; 8]| sum.wrapping_add(i64::from_le_bytes(n));
    let sum = arrowwood::guard(|| Ok::<i64, arrowwood::Error>(numbers.iter().fold(0, add)))?;
    // Others' looks say whether these numbers are those of the file.
    let is_same = dataset.column("n")?.contiguous()?.is_some();
    Ok(right(is_same && sum == ROWS * (ROWS + 1) / 2))
}

/// Plays all events on one kind of file.
fn play(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (template, place) = (template(kind, folder.path()), folder.path().join("place"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", CHILD, "--nocapture"]).env(ROLE, &place);
    let mut child = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut dice = Dice::new(kind.len() as u64 + seed());
    for event in EVENTS {
        let (mut looks, mut changed) = (0, 0);
        for round in 0..rounds() {
            template.lay_out(&place);
            child.send(&format!("{kind}\n"));
            assert_eq!(answer(&mut child), "open", "{kind} {event} {round}");
            // The moment of the event, which is another one in each round.
            std::thread::sleep(Duration::from_micros(dice.below(3000)));
            template.change(&place, event, &mut dice);
            child.send(&format!("{event}\n"));
            let said = answer(&mut child);
            let counts: Vec<u64> = said.split(' ').filter_map(|word| word.parse().ok()).collect();
            assert!(counts.len() == 2 && !said.starts_with("bad"), "{kind} {event} {round}: {said}");
            (looks, changed) = (looks + counts[0], changed + counts[1]);
        }
        eprintln!("  {kind:10} {event:8} {} rounds, {looks} looks, {changed} of them FileChanged", rounds());
    }
    assert!(child.end().status.success());
}

/// What follows the next `@`: other lines are those of the program of tests.
fn answer(child: &mut Running) -> String {
    loop {
        if let Some((_, said)) = child.line().split_once('@') {
            return said.to_owned();
        }
    }
}

macro_rules! campaign {
    ($($name:ident $number:literal)*) => {$(
        #[test]
        fn $name() {
            play(KINDS[$number]);
        }
    )*};
}
campaign! {
    files_that_change 0
    streams_that_change 1
    views_that_change 2
    live_segments_that_change 3
    sealed_segments_that_change 4
    contiguous_columns_that_change 5
    writers_whose_segment_changes 6
}
