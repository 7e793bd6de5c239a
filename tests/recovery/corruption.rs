//! Damage, byte by byte: each byte that says what the others are is changed in ten ways (every bit, two other values), and
//! each time `open` or `check` must say so, or nothing may come of it: our reader gives the same rows, and arrow-rs's reader
//! of files the same ones or an error. What is found damaged in a table is repaired now and then: what is kept must be the
//! first rows, `check` must be content, the damaged file must be as it was.
//!
//! The short form takes every few bytes, beginning with another one each day; with `ARROWWOOD_CORRUPTION=all` it is every
//! byte, and a number in its place is the first byte of a short form. `make torture` runs the long form.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow_array::*;
use arrow_schema::SchemaRef;
use arrowwood::{
    Compression, Dataset, Format, Report, Value, WriteOptions, Writer, WriterOptions, check, open, repair,
};

use crate::dice::Dice;
use crate::forger::{batch, nested, numbers, texts};
use crate::tables::{copy_table, folder_in_memory, unsynced};
use crate::thread::thread_time;
use crate::wait::PATIENCE;

/// Of how many bytes the short form takes one, and of how many findings one is repaired.
const STEP: usize = 13;
const REPAIRED: usize = 41;
/// Per case, of the processor's time.
const LONGEST: Duration = Duration::from_secs(1);

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What `work` gives, or `None` where it panics.
fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info)
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    result.ok()
}

fn writer(path: &Path, schema: &SchemaRef, segment_rows: u64) -> Writer {
    Writer::open(path, Some(schema.clone()), &unsynced(segment_rows)).unwrap()
}

/// How a table was left.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    /// Committed, and no more.
    Live,
    /// Synced twice, with commits in between and after.
    Synced,
    Closed,
    Reopened,
    Dense,
}

fn table(path: &Path, schema: &SchemaRef, segment_rows: u64, left: Left) {
    let mut writer = self::writer(path, schema, segment_rows);
    for (number, rows) in [0..9, 9..30, 30..41, 41..50].into_iter().enumerate() {
        writer.append(&batch(schema, rows)).unwrap();
        writer.commit().unwrap();
        if left == Left::Synced && number < 3 {
            writer.sync().unwrap();
        }
    }
    match left {
        Left::Live | Left::Synced => drop(writer),
        _ => writer.close().unwrap(),
    }
    match left {
        Left::Reopened => drop(self::writer(path, schema, segment_rows)),
        Left::Dense => assert!(arrowwood::compact(path, |_, _| ()).unwrap() > 0),
        _ => (),
    }
}

fn word(file: &File, at: u64, len: usize) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes[..len], at).unwrap();
    u64::from_le_bytes(bytes)
}

/// The bytes of a growable segment that say what the others are, by name, as the page of the format has them.
fn parts_of_segment(path: &Path) -> Vec<(&'static str, Range<u64>)> {
    let file = File::open(path).unwrap();
    let schema = 16 + word(&file, 12, 4);
    let empty = schema + 8 + word(&file, schema + 4, 4);
    let header = empty.next_multiple_of(4096);
    assert_eq!(word(&file, header, 8).to_le_bytes(), *b"ArrwWood");
    let at = |offset: u64, len: usize| word(&file, header + offset, len);
    let (live, record, ring) = (at(40, 8), at(48, 8), at(56, 8));
    let (tail, footer, counters) = (at(72, 8), at(80, 8), at(100, 4));
    let number = word(&file, tail, 4) / footer - 1;
    let record_at = |number: u64| live + 4096 + number * record..live + 4096 + number * record + 64 + 8 * counters;
    let newest = word(&file, live, 8) & 1;
    let shared = at(128 + 16 * at(96, 4) + 8 * (counters + at(108, 2)), 8);
    let footer_at = tail - (number + 1) * footer;
    let messages = word(&file, footer_at + 40, 8);
    assert!((messages - ring).is_multiple_of(64));
    vec![
        ("magic", 0..8),
        ("schema", 8..schema),
        ("empty message", schema..empty),
        ("header", header..header + at(12, 4)),
        ("sequence", live..live + 8),
        ("waiting", live + 64..live + 68),
        ("writer", live + 128..live + 132),
        ("newest commit", record_at(newest)),
        ("commit before", record_at(newest ^ 1)),
        ("durable record A", record_at(2)),
        ("durable record B", record_at(3)),
        ("messages for other readers", messages..messages + messages_len(&file, footer_at)),
        ("footer", footer_at..footer_at + footer),
        ("schema of footers", tail - shared * footer..tail),
        ("footer length", tail..tail + 4),
        ("last magic", tail + 4..tail + 10),
    ]
}

/// The bytes of the messages that a segment's footer points to.
fn messages_len(file: &File, footer: u64) -> u64 {
    let dictionaries = word(file, footer + 68, 4);
    word(file, footer + 48, 4) + (0..dictionaries).map(|number| word(file, footer + 80 + 24 * number, 4)).sum::<u64>()
}

/// The same of an ordinary file.
fn parts_of_file(path: &Path) -> Vec<(&'static str, Range<u64>)> {
    let mut parts = vec![("magic", 0..8)];
    for message in open(path).unwrap().messages().unwrap() {
        let name = if message.offset == 8 { "schema" } else { "message" };
        parts.push((name, message.offset..message.body_offset));
    }
    let size = fs::metadata(path).unwrap().len();
    let footer = word(&File::open(path).unwrap(), size - 10, 4);
    let parts_behind = [
        ("end of stream", size - 18 - footer..size - 10 - footer),
        ("footer", size - 10 - footer..size - 10),
        ("footer length", size - 10..size - 6),
        ("last magic", size - 6..size),
    ];
    parts.extend(parts_behind);
    parts
}

fn rows(path: &Path) -> arrowwood::Result<Vec<RecordBatch>> {
    let dataset = open(path)?;
    dataset.validate(|_, _| ())?;
    dataset.to_record_batches().collect()
}

/// A copy that is in no file: those of `rows` are.
fn owned(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    let copy = |batch: RecordBatch| {
        let mut bytes = Vec::new();
        let mut stream = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        stream.finish().unwrap();
        drop(stream);
        arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap().next().unwrap().unwrap()
    };
    batches.into_iter().map(copy).collect()
}

/// The rows as arrow-rs reads them; `None` for an error or a panic.
fn stock_rows(path: &Path) -> Option<Vec<RecordBatch>> {
    caught(|| {
        let reader = arrow_ipc::reader::FileReader::try_new(File::open(path).unwrap(), None).ok()?;
        reader.collect::<Result<Vec<_>, _>>().ok()
    })?
}

/// What came of the cases.
#[derive(Default)]
struct Counts {
    cases: usize,
    at_open: usize,
    by_check: usize,
    repaired: usize,
    harmless: BTreeMap<String, usize>,
    failures: Vec<String>,
    slowest: Duration,
}

/// One thing to damage: a file, of a table or by itself.
struct Campaign<'a> {
    name: String,
    /// What is opened and checked.
    whole: &'a Path,
    file: PathBuf,
    before: Vec<RecordBatch>,
    stock: Vec<RecordBatch>,
    counts: Counts,
}

impl<'a> Campaign<'a> {
    fn new(name: &str, whole: &'a Path, file: PathBuf) -> Campaign<'a> {
        let report = check(whole, |_, _| ()).unwrap();
        assert!(report.findings.is_empty(), "{name}: {:?}", report.findings);
        let (before, stock) = (owned(rows(whole).unwrap()), stock_rows(&file).unwrap());
        Campaign { name: name.into(), whole, file, before, stock, counts: Counts::default() }
    }

    fn run(mut self, parts: &[(&str, Range<u64>)]) {
        let (step, first) = match std::env::var("ARROWWOOD_CORRUPTION") {
            Ok(all) if all == "all" => (1, 0),
            Ok(first) => (STEP, first.parse().expect("ARROWWOOD_CORRUPTION is a number or \"all\"")),
            Err(_) => {
                let days = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
                (STEP, days as usize % STEP)
            }
        };
        let bytes = parts.iter().flat_map(|(name, range)| range.clone().map(move |at| (*name, at)));
        for (part, at) in bytes.enumerate().filter(|(number, _)| number % step == first % step).map(|(_, b)| b) {
            self.damage(part, at);
        }
        let Counts { cases, at_open, by_check, repaired, harmless, failures, slowest } = self.counts;
        let sum: usize = harmless.values().sum();
        println!(
            "{}: byte {first} of each {step}: {cases} cases, {at_open} found by open and by check, {by_check} by check \
             alone, {repaired} repaired, {sum} harmless {harmless:?}; the slowest took {slowest:?}",
            self.name
        );
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), self.name, failures.join("\n"));
        assert!(cases > 0 && at_open + by_check > 0);
    }

    /// Each way to damage byte `at`.
    fn damage(&mut self, part: &str, at: u64) {
        let file = File::options().read(true).write(true).open(&self.file).unwrap();
        let was = word(&file, at, 1) as u8;
        let mut dice = Dice::new(at);
        let others = [dice.below(256) as u8, dice.below(256) as u8].into_iter().filter(|&other| other != was);
        for value in (0..8).map(|bit| was ^ (1 << bit)).chain(others) {
            file.write_all_at(&[value], at).unwrap();
            let before = self.counts.at_open + self.counts.by_check;
            let case = format!("{part}, byte {at}: {was:#04x} became {value:#04x}");
            if let Err(why) = self.one(part) {
                self.counts.failures.push(format!("{case}: {why}"));
            }
            let found = self.counts.at_open + self.counts.by_check;
            if found > before
                && found % REPAIRED == 1
                && let Err(why) = self.repair_copy()
            {
                self.counts.failures.push(format!("{case}: repair: {why}"));
            }
            file.write_all_at(&[was], at).unwrap();
        }
    }

    fn one(&mut self, part: &str) -> Result<(), String> {
        let (start, begin) = (Instant::now(), thread_time());
        let opened = caught(|| rows(self.whole)).ok_or("open panicked")?;
        let report: Report =
            caught(|| check(self.whole, |_, _| ())).ok_or("check panicked")?.map_err(|e| e.to_string())?;
        let took = thread_time() - begin;
        let counts = &mut self.counts;
        (counts.cases, counts.slowest) = (counts.cases + 1, counts.slowest.max(took));
        match (opened, report.is_good()) {
            _ if took > LONGEST || start.elapsed() > PATIENCE => return Err(format!("took {took:?}")),
            (Err(e), true) => return Err(format!("open says '{e}', check says nothing")),
            (Err(_), false) => counts.at_open += 1,
            (Ok(_), false) => counts.by_check += 1,
            (Ok(rows), true) if rows != self.before => return Err("other rows, and nobody says so".into()),
            (Ok(_), true) => {
                let is_noted = !report.findings.is_empty();
                let stock = stock_rows(&self.file).filter(|rows| *rows != self.stock);
                // An earlier footer of a table is what other readers may see at any time; here it's known that it is one.
                if let Some(rows) = stock {
                    if !is_noted || part != "footer length" || !is_prefix(&rows, &self.stock) {
                        return Err(format!("other rows for other readers; {:?}", report.findings));
                    }
                    *counts.harmless.entry("an earlier footer, noted".into()).or_default() += 1;
                    return Ok(());
                }
                let how = if is_noted { ", noted" } else { "" };
                *counts.harmless.entry(format!("{part}{how}")).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Repairs a copy of what is damaged now.
    fn repair_copy(&mut self) -> Result<(), String> {
        let place = folder_in_memory();
        let copy = place.path().join("copy");
        let is_table = self.whole.is_dir();
        if is_table {
            copy_table(self.whole, &copy);
        } else {
            fs::copy(self.whole, &copy).unwrap();
        }
        let damaged = fs::read(&self.file).unwrap();
        let report = repair(&copy, |_, _| ()).map_err(|e| e.to_string())?;
        let repaired = report.repaired.ok_or("nothing was repaired")?;
        self.counts.repaired += 1;
        let holds = |path: &PathBuf| fs::read(path).unwrap() == damaged;
        if !repaired.moved.iter().any(holds) {
            return Err("the damaged file is not what it was".into());
        }
        let is_gone = if is_table { fs::read_dir(&copy).unwrap().next().is_none() } else { !copy.exists() };
        if is_gone {
            return if repaired.kept == 0 { Ok(()) } else { Err("rows of no file".into()) };
        }
        let again = check(&copy, |_, _| ()).map_err(|e| e.to_string())?;
        if !again.findings.is_empty() {
            return Err(format!("check says {:?}", again.findings));
        }
        let kept = rows(&copy).map_err(|e| e.to_string())?;
        if repaired.kept > 0 && !is_prefix(&kept, &self.before) || count(&kept) != repaired.kept {
            return Err(format!("{} rows are no prefix", count(&kept)));
        }
        if is_table { goes_on(&copy, repaired.kept) } else { Ok(()) }
    }
}

fn count(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

fn is_prefix(kept: &[RecordBatch], before: &[RecordBatch]) -> bool {
    // As rows: batches and encodings may be others.
    let text = |batches: &[RecordBatch]| -> Vec<String> {
        let rows = batches.iter().flat_map(|batch| {
            let dataset = Dataset::try_from(vec![batch.clone()]).unwrap();
            let row = |row: arrowwood::Row<'_>| row.iter().map(|(_, value)| format!("{} ", value.unwrap())).collect();
            dataset.rows().map(|found| row(found.unwrap())).collect::<Vec<String>>()
        });
        rows.collect()
    };
    let (kept, before) = (text(kept), text(before));
    // Text that is not UTF-8 any more has question marks.
    let is_kept = |(kept, before): (&String, &String)| kept == before || kept.contains('?') && !before.contains('?');
    kept.len() <= before.len() && kept.iter().zip(&before).all(is_kept)
}

/// A repaired table can be written again, and rows go on behind those that were kept.
fn goes_on(path: &Path, kept: u64) -> Result<(), String> {
    let mut writer = Writer::open(path, None, &WriterOptions::default()).map_err(|e| e.to_string())?;
    let rows = writer.rows();
    let schema = writer.schema().clone();
    // A schema that was damaged may have other types.
    if let Ok(more) = caught(|| batch(&schema, 50..53)).ok_or(())
        && writer.append(&more).is_ok()
    {
        writer.close().map_err(|e| e.to_string())?;
        let now = open(path).and_then(|dataset| dataset.len()).map_err(|e| e.to_string())?;
        if (now, rows) != (kept + 3, kept) {
            return Err(format!("{now} rows after 3 more than {kept}, the writer began at {rows}"));
        }
    }
    match check(path, |_, _| ()).map_err(|e| e.to_string())?.findings {
        findings if findings.is_empty() => Ok(()),
        findings => Err(format!("written again, check says {findings:?}")),
    }
}

fn segment(path: &Path, number: usize) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(path).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files[number].clone()
}

fn campaign(name: &str, schema: SchemaRef, segment_rows: u64, left: Left, number: usize) {
    let folder = folder_in_memory();
    let path = folder.path().join("table");
    table(&path, &schema, segment_rows, left);
    let file = segment(&path, number);
    let parts = if left == Left::Dense { parts_of_file(&file) } else { parts_of_segment(&file) };
    Campaign::new(name, &path, file).run(&parts);
}

#[test]
fn numbers_live() {
    campaign("numbers, live", numbers(), 64, Left::Live, 0);
}

#[test]
fn numbers_synced() {
    campaign("numbers, synced", numbers(), 64, Left::Synced, 0);
}

#[test]
fn texts_closed() {
    campaign("texts, closed", texts(), 64, Left::Closed, 0);
}

#[test]
fn texts_reopened() {
    campaign("texts, closed and opened again", texts(), 64, Left::Reopened, 0);
}

#[test]
fn nested_synced() {
    campaign("nested, synced", nested(), 64, Left::Synced, 0);
}

#[test]
fn a_sealed_segment() {
    campaign("numbers, a sealed segment of several", numbers(), 20, Left::Live, 1);
}

#[test]
fn the_last_segment() {
    campaign("texts, the last segment of several", texts(), 20, Left::Closed, 2);
}

#[test]
fn a_dense_segment() {
    campaign("texts, a dense segment of several", texts(), 20, Left::Dense, 1);
}

#[test]
fn a_dense_table() {
    campaign("nested, dense", nested(), 64, Left::Dense, 0);
}

fn file_campaign(name: &str, schema: SchemaRef, compression: Option<Compression>) {
    let folder = folder_in_memory();
    let path = folder.path().join("a.arrow");
    let batches = [0..20, 20..40, 40..50].map(|rows| batch(&schema, rows));
    let options = WriteOptions { format: Format::File, compression, ..Default::default() };
    arrowwood::write(&Dataset::try_from(batches.to_vec()).unwrap(), &path, &options).unwrap();
    let parts = parts_of_file(&path);
    Campaign::new(name, &path, path.clone()).run(&parts);
}

#[test]
fn files_of_numbers() {
    file_campaign("file of numbers", numbers(), None);
}

#[test]
fn files_of_texts() {
    file_campaign("file of texts", texts(), None);
}

#[test]
fn files_of_lists() {
    file_campaign("file of lists and structs", nested(), None);
}

#[test]
fn compressed_files() {
    file_campaign("compressed file", texts(), Some(Compression::Zstd));
}

/// The log has what small durable commits appended: a flipped bit in a column of numbers, which can be any number, is found
/// by it and by nothing else.
#[test]
fn values_under_a_checksum() {
    let folder = folder_in_memory();
    let path = folder.path().join("table");
    let mut writer = writer(&path, &numbers(), 64);
    for rows in [0..20, 20..40] {
        writer.append(&batch(&numbers(), rows)).unwrap();
        writer.commit().unwrap();
        writer.sync().unwrap();
    }
    drop(writer);
    let name = segment(&path, 0);
    let file = File::options().read(true).write(true).open(&name).unwrap();
    let header = parts_of_segment(&name)[3].1.start;
    let values = word(&file, header + 128 + 16, 8);
    let mut found = 0;
    for at in (values..values + 40 * 8).step_by(if std::env::var_os("ARROWWOOD_CORRUPTION").is_some() { 1 } else { 7 })
    {
        for bit in 0..8 {
            let was = word(&file, at, 1) as u8;
            file.write_all_at(&[was ^ (1 << bit)], at).unwrap();
            let report = check(&path, |_, _| ()).unwrap();
            let first = report.damage().next().unwrap_or_else(|| panic!("byte {at}, bit {bit}: not found"));
            assert!(first.message.contains("the log of commit"), "{first}");
            file.write_all_at(&[was], at).unwrap();
            found += 1;
        }
    }
    println!("values under a checksum: {found} of {found} flips found");
}

/// Whoever is stopped in the middle of a repair runs it again: after some of the later segments were moved, and after the
/// damaged one got its second name.
#[test]
fn a_repair_that_was_stopped_is_run_again() {
    for stopped in 0..3 {
        let folder = folder_in_memory();
        let path = folder.path().join("table");
        table(&path, &texts(), 10, Left::Closed);
        let (before, aside) = (owned(rows(&path).unwrap()), folder.path().join("table.damaged"));
        let names: Vec<_> = (0..5).map(|number| segment(&path, number)).collect();
        let damaged = fs::read(&names[2]).map(|mut bytes| {
            let at = bytes.windows(5).rposition(|five| five == "né 25".as_bytes()[..5].as_ref()).unwrap();
            bytes[at + 1] = 0xff;
            bytes
        });
        let damaged = damaged.unwrap();
        fs::write(&names[2], &damaged).unwrap();
        if stopped > 0 {
            fs::create_dir(&aside).unwrap();
            fs::rename(&names[4], aside.join(names[4].file_name().unwrap())).unwrap();
        }
        if stopped > 1 {
            fs::rename(&names[3], aside.join(names[3].file_name().unwrap())).unwrap();
            fs::hard_link(&names[2], aside.join(names[2].file_name().unwrap())).unwrap();
        }
        let report = repair(&path, |_, _| ()).unwrap();
        assert!(report.repaired.unwrap().kept >= 20);
        let mut left: Vec<_> = fs::read_dir(&aside).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, names[2..].iter().map(|name| name.file_name().unwrap().to_owned()).collect::<Vec<_>>());
        assert_eq!(fs::read(aside.join(&left[0])).unwrap(), damaged);
        assert!(is_prefix(&rows(&path).unwrap(), &before));
        goes_on(&path, report.rows).unwrap();
        assert_eq!(repair(&path, |_, _| ()).unwrap().repaired, None);
    }
}

/// Retention, rollover and published footers of a writer at full speed are no damage, whenever they are looked at.
#[test]
fn a_table_that_is_written_is_not_damaged() {
    let folder = folder_in_memory();
    let path = folder.path().join("table");
    let done = std::sync::atomic::AtomicBool::new(false);
    let looks = AtomicU64::new(0);
    let mut writer = Writer::open(
        &path,
        Some(texts()),
        &WriterOptions {
            segment_rows: Some(3000),
            sync: arrowwood::SyncPolicy::Every(Duration::from_millis(5)),
            ..Default::default()
        },
    )
    .unwrap();
    std::thread::scope(|scope| {
        let look = || {
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let report = check(&path, |_, _| ()).unwrap();
                assert!(report.is_good(), "{looks:?} looks: {:?}", report.findings);
                looks.fetch_add(1, Ordering::SeqCst);
            }
        };
        let looker = scope.spawn(look);
        let start = Instant::now();
        let mut row = 0;
        // On a busy machine, until it was looked at a few times.
        while start.elapsed() < Duration::from_secs(2) || looks.load(Ordering::SeqCst) < 3 && !looker.is_finished() {
            assert!(start.elapsed() < PATIENCE, "nobody looks at the table");
            let values = [Value::Int(row), Value::Str("né"), Value::Str("MSFT"), Value::Str("a text of some length")];
            writer.append_row(&values).unwrap();
            writer.commit().unwrap();
            if row % 20_000 == 19_999 {
                writer.drop_before(row as u64 - 10_000).unwrap();
            }
            row += 1;
            if row % 50 == 0 {
                // No wait, but the writer's pace.
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        done.store(true, std::sync::atomic::Ordering::Release);
        looker.join().unwrap();
        println!("{looks:?} looks at a table that grew to {row} rows");
    });
}

/// A file that somebody drops into a table's directory makes it a directory of files, which no reader takes for a table:
/// it was "ok".
#[test]
fn another_file_among_segments_is_found() {
    let folder = folder_in_memory();
    let path = folder.path().join("table");
    table(&path, &numbers(), 10, Left::Closed);
    let other = Dataset::try_from(vec![batch(&texts(), 0..5)]).unwrap();
    arrowwood::write(&other, path.join("stocks.arrow"), &WriteOptions::default()).unwrap();
    let report = check(&path, |_, _| ()).unwrap();
    assert!(report.damage().any(|finding| finding.message.contains("stocks.arrow")), "{report:?}");
    let error = repair(&path, |_, _| ()).unwrap_err();
    assert!(error.message().contains("stocks.arrow"), "{error}");
    fs::remove_file(path.join("stocks.arrow")).unwrap();
    assert!(check(&path, |_, _| ()).unwrap().is_good());
}

/// Rows behind the last positions may be kept: a producer that goes on from there would send them twice.
#[test]
fn a_repair_of_a_table_with_positions_says_so() {
    for has_positions in [false, true] {
        let folder = folder_in_memory();
        let path = folder.path().join("table");
        let mut writer = writer(&path, &numbers(), 10);
        for number in 0..5 {
            writer.append(&batch(&numbers(), number * 10..number * 10 + 10)).unwrap();
            let positions: &[(&str, i64)] = if has_positions { &[("day", number)] } else { &[] };
            writer.commit_with(positions).unwrap();
        }
        writer.close().unwrap();
        let damaged = segment(&path, 3);
        let bytes = fs::read(&damaged).unwrap();
        fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
        let report = repair(&path, |_, _| ()).unwrap();
        assert!(!report.is_good() && report.repaired.is_some(), "{report:?}");
        let is_noted =
            report.findings.iter().any(|finding| !finding.is_damage && finding.message.contains("positions"));
        assert_eq!(is_noted, has_positions, "{report:?}");
    }
}
