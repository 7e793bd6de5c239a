//! Tests that damage to files and tables is found and repaired.
//!
//! Each byte of metadata is changed in ten ways (every bit, two other values). Each time `open` or `check` must report it,
//! or it must be harmless: our reader returns the same rows, and arrow-rs the same rows or an error. Some of the damage
//! found is repaired: the rows kept must be a prefix, `check` must find nothing more, and the damaged file must be
//! preserved as it was.
//!
//! By default, every few bytes are changed, with a different offset each day. `ARROWWOOD_CORRUPTION=all` changes every byte
//! (see `make torture`), and `ARROWWOOD_CORRUPTION=N` begins with byte N.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow_array::*;
use arrow_schema::SchemaRef;
use arrowwood::{
    Compression, Dataset, ErrorKind, Format, OpenOptions, Report, SyncPolicy, Value, WriteOptions, Writer,
    WriterOptions, check, open, repair,
};

use crate::dice::Dice;
use crate::forger::{batch, nested, numbers, texts};
use crate::tables::{copy_table, folder_in_memory, unsynced};
use crate::thread::thread_time;
use crate::wait::PATIENCE;
use crate::without_mount_ids::are_mount_ids_off;

/// A sample changes one of this many bytes.
const SAMPLE_STEP: usize = 13;
/// One of this many findings is repaired.
const REPAIR_STEP: usize = 41;
/// The processor time that opening and checking a damaged file may take.
const MAX_CASE_TIME: Duration = Duration::from_secs(1);
const SECONDS_PER_DAY: u64 = 86_400;
/// Rows per segment, such that all rows of a table fit into one.
const ONE_SEGMENT: u64 = 64;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without printing its panics; returns `None` if it panics.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    static INSTALL_HOOK: Once = Once::new();
    INSTALL_HOOK.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                default_hook(info)
            }
        }));
    });
    IS_QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(false);
    result.ok()
}

fn open_writer(path: &Path, schema: &SchemaRef, segment_rows: u64) -> Writer {
    Writer::open(path, Some(schema.clone()), &unsynced(segment_rows)).unwrap()
}

/// The state in which a table is left before it is damaged.
#[derive(Clone, Copy, PartialEq)]
enum TableState {
    /// Committed, but neither synced nor closed.
    Live,
    /// Synced three times, with commits in between and after.
    Synced,
    Closed,
    Reopened,
    /// Compacted to ordinary Arrow files.
    Dense,
}

impl TableState {
    /// Returns the number of rows that are durable.
    fn durable_rows(self) -> u64 {
        match self {
            TableState::Live => 0,
            TableState::Synced => 41,
            TableState::Closed | TableState::Reopened | TableState::Dense => 50,
        }
    }
}

/// Creates a table of 50 rows in four commits.
fn create_table(path: &Path, schema: &SchemaRef, segment_rows: u64, state: TableState) {
    let mut writer = open_writer(path, schema, segment_rows);
    for (number, rows) in [0..9, 9..30, 30..41, 41..50].into_iter().enumerate() {
        writer.append(&batch(schema, rows)).unwrap();
        writer.commit().unwrap();
        if state == TableState::Synced && number < 3 {
            writer.sync().unwrap();
        }
    }
    match state {
        TableState::Live | TableState::Synced => drop(writer),
        TableState::Closed => writer.close().unwrap(),
        TableState::Reopened => {
            writer.close().unwrap();
            drop(open_writer(path, schema, segment_rows));
        }
        TableState::Dense => {
            writer.close().unwrap();
            assert!(arrowwood::compact(path, |_, _| ()).unwrap() > 0);
        }
    }
}

/// Reads a little-endian number of `len` bytes.
fn read_number(file: &File, offset: u64, len: usize) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes[..len], offset).unwrap();
    u64::from_le_bytes(bytes)
}

/// A part of a file, by its name in reports.
type Part = (&'static str, Range<u64>);

/// Returns the parts of a growable segment that hold metadata, as laid out in `docs/format.md`.
fn segment_parts(path: &Path) -> Vec<Part> {
    let file = File::open(path).unwrap();
    let schema_end = 16 + read_number(&file, 12, 4);
    let empty_message_end = schema_end + 8 + read_number(&file, schema_end + 4, 4);
    let header = empty_message_end.next_multiple_of(4096);
    assert_eq!(read_number(&file, header, 8).to_le_bytes(), *b"ArrwWood");
    let header_len = read_number(&file, header + 12, 4);
    let live = read_number(&file, header + 40, 8);
    let record_size = read_number(&file, header + 48, 8);
    let ring = read_number(&file, header + 56, 8);
    let tail = read_number(&file, header + 72, 8);
    let footer_len = read_number(&file, header + 80, 8);
    let buffers = read_number(&file, header + 96, 4);
    let counters = read_number(&file, header + 100, 4);
    let zones = read_number(&file, header + 108, 2);
    let shared_footers = read_number(&file, header + 128 + 16 * buffers + 8 * (counters + zones), 8);

    let record = |number: u64| {
        let start = live + 4096 + number * record_size;
        start..start + 64 + 8 * counters
    };
    let newest = read_number(&file, live, 8) & 1;
    let footer_number = read_number(&file, tail, 4) / footer_len - 1;
    let footer = tail - (footer_number + 1) * footer_len;
    let messages = read_number(&file, footer + 40, 8);
    assert!((messages - ring).is_multiple_of(64));
    vec![
        ("magic", 0..8),
        ("schema", 8..schema_end),
        ("empty message", schema_end..empty_message_end),
        ("header", header..header + header_len),
        ("sequence", live..live + 8),
        ("waiting", live + 64..live + 68),
        ("writer", live + 128..live + 132),
        ("newest commit", record(newest)),
        ("commit before", record(newest ^ 1)),
        ("durable record A", record(2)),
        ("durable record B", record(3)),
        ("messages for other readers", messages..messages + messages_len(&file, footer)),
        ("footer", footer..footer + footer_len),
        ("schema of footers", tail - shared_footers * footer_len..tail),
        ("footer length", tail..tail + 4),
        ("last magic", tail + 4..tail + 10),
    ]
}

/// Returns the length of the messages that a segment's footer points to.
fn messages_len(file: &File, footer: u64) -> u64 {
    let batch_len = read_number(file, footer + 48, 4);
    let dictionaries = read_number(file, footer + 68, 4);
    let dictionaries_len: u64 = (0..dictionaries).map(|number| read_number(file, footer + 80 + 24 * number, 4)).sum();
    batch_len + dictionaries_len
}

/// Returns the parts of an ordinary Arrow file that hold metadata.
fn file_parts(path: &Path) -> Vec<Part> {
    let mut parts = vec![("magic", 0..8)];
    for message in open(path).unwrap().messages().unwrap() {
        let name = if message.offset == 8 { "schema" } else { "message" };
        parts.push((name, message.offset..message.body_offset));
    }
    let size = fs::metadata(path).unwrap().len();
    let footer_len = read_number(&File::open(path).unwrap(), size - 10, 4);
    parts.extend([
        ("end of stream", size - 18 - footer_len..size - 10 - footer_len),
        ("footer", size - 10 - footer_len..size - 10),
        ("footer length", size - 10..size - 6),
        ("last magic", size - 6..size),
    ]);
    parts
}

fn read_valid_rows(path: &Path) -> arrowwood::Result<Vec<RecordBatch>> {
    let dataset = open(path)?;
    dataset.validate(|_, _| ())?;
    dataset.to_record_batches().collect()
}

/// Copies batches to memory, as the ones of `read_valid_rows` refer to the mapped file.
fn copy_to_memory(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    batches.into_iter().map(copy_batch_to_memory).collect()
}

fn copy_batch_to_memory(batch: RecordBatch) -> RecordBatch {
    let mut bytes = Vec::new();
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    stream.finish().unwrap();
    drop(stream);
    arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap().next().unwrap().unwrap()
}

/// Reads a file with arrow-rs; returns `None` if it fails or panics.
fn read_with_arrow_rs(path: &Path) -> Option<Vec<RecordBatch>> {
    catch_panic(|| {
        let reader = arrow_ipc::reader::FileReader::try_new(File::open(path).unwrap(), None).ok()?;
        reader.collect::<Result<Vec<_>, _>>().ok()
    })?
}

/// The outcomes of a campaign.
#[derive(Default)]
struct Counts {
    cases: usize,
    found_by_open: usize,
    found_by_check: usize,
    repaired: usize,
    harmless: BTreeMap<String, usize>,
    failures: Vec<String>,
    slowest: Duration,
}

impl Counts {
    fn found(&self) -> usize {
        self.found_by_open + self.found_by_check
    }

    fn add_harmless(&mut self, kind: String) {
        *self.harmless.entry(kind).or_default() += 1;
    }
}

/// Damages one file byte by byte, and checks what readers, `check` and `repair` make of it.
struct Campaign<'a> {
    name: String,
    /// The path that is opened and checked: the file itself, or the table that it belongs to.
    target: &'a Path,
    file: PathBuf,
    /// The rows of the target before the damage.
    expected: Vec<RecordBatch>,
    /// The rows of the file before the damage, as arrow-rs reads them.
    expected_by_arrow_rs: Vec<RecordBatch>,
    /// The number of rows that no loss of a page cache can cost.
    durable_rows: u64,
    counts: Counts,
}

impl<'a> Campaign<'a> {
    fn new(name: &str, target: &'a Path, file: PathBuf, durable_rows: u64) -> Campaign<'a> {
        let report = check(target, |_, _| ()).unwrap();
        assert!(report.findings.is_empty(), "{name}: {:?}", report.findings);
        let expected = copy_to_memory(read_valid_rows(target).unwrap());
        let expected_by_arrow_rs = read_with_arrow_rs(&file).unwrap();
        let counts = Counts::default();
        Campaign { name: name.into(), target, file, expected, expected_by_arrow_rs, durable_rows, counts }
    }

    fn run(mut self, parts: &[Part]) {
        let (step, first) = sample_from_env();
        let bytes = parts.iter().flat_map(|(part, range)| range.clone().map(move |offset| (*part, offset)));
        for (part, offset) in bytes.skip(first % step).step_by(step) {
            self.damage_byte(part, offset);
        }

        let Counts { cases, found_by_open, found_by_check, repaired, harmless, failures, slowest } = self.counts;
        let harmless_sum: usize = harmless.values().sum();
        println!(
            "{}: byte {first} of each {step}: {cases} cases, {found_by_open} found by open and by check, \
             {found_by_check} by check alone, {repaired} repaired, {harmless_sum} harmless {harmless:?}; \
             the slowest took {slowest:?}",
            self.name
        );
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), self.name, failures.join("\n"));
        assert!(cases > 0 && found_by_open + found_by_check > 0);
    }

    /// Tries all ten changes of the byte at `offset`.
    fn damage_byte(&mut self, part: &str, offset: u64) {
        let file = File::options().read(true).write(true).open(&self.file).unwrap();
        let original = read_number(&file, offset, 1) as u8;
        let mut dice = Dice::new(offset);
        let flipped_bits = (0..8).map(|bit| original ^ (1 << bit));
        let others = [dice.below(256) as u8, dice.below(256) as u8].into_iter().filter(|&other| other != original);
        for value in flipped_bits.chain(others) {
            file.write_all_at(&[value], offset).unwrap();
            let case = format!("{part}, byte {offset}: {original:#04x} became {value:#04x}");
            let found_before = self.counts.found();
            if let Err(failure) = self.classify_damage(part) {
                self.counts.failures.push(format!("{case}: {failure}"));
            }
            let found = self.counts.found();
            if found > found_before
                && found % REPAIR_STEP == 1
                && let Err(failure) = self.repair_copy()
            {
                self.counts.failures.push(format!("{case}: repair: {failure}"));
            }
            file.write_all_at(&[original], offset).unwrap();
        }
    }

    /// Opens and checks the damaged target, and counts the outcome; returns an error if the damage changes rows silently.
    fn classify_damage(&mut self, part: &str) -> Result<(), String> {
        let start = Instant::now();
        let start_of_thread = thread_time();
        let opened = catch_panic(|| read_valid_rows(self.target)).ok_or("open panicked")?;
        let checked = catch_panic(|| check(self.target, |_, _| ())).ok_or("check panicked")?;
        let report: Report = checked.map_err(|e| e.to_string())?;
        let time = thread_time() - start_of_thread;
        self.counts.cases += 1;
        self.counts.slowest = self.counts.slowest.max(time);
        if time > MAX_CASE_TIME || start.elapsed() > PATIENCE {
            return Err(format!("took {time:?}"));
        }

        match (opened, report.is_good()) {
            (Err(e), true) => return Err(format!("open says '{e}', check says nothing")),
            (Err(_), false) => self.counts.found_by_open += 1,
            (Ok(_), false) => self.counts.found_by_check += 1,
            (Ok(rows), true) if rows != self.expected && self.may_be_lost(&rows, &report) => {
                self.counts.add_harmless(format!("{part}, lost or damaged"));
            }
            (Ok(rows), true) if rows != self.expected => return Err("other rows, and nobody says so".into()),
            (Ok(_), true) => self.count_harmless(part, &report)?,
        }
        Ok(())
    }

    /// Returns true if the other rows may be lost with the page cache, and `check` says so: without ids of mounts, nothing
    /// tells that from damage. All durable rows must be there.
    fn may_be_lost(&self, rows: &[RecordBatch], report: &Report) -> bool {
        are_mount_ids_off()
            && report.findings.iter().any(|finding| finding.message.contains("lost with the page cache, or damaged"))
            && count_rows(rows) >= self.durable_rows
            && is_prefix(rows, &self.expected)
    }

    /// Counts damage that changes no rows of our reader; returns an error if it changes the rows of other readers.
    fn count_harmless(&mut self, part: &str, report: &Report) -> Result<(), String> {
        let is_noted = !report.findings.is_empty();
        // If a page cache may be lost, other readers may find anything until a writer has opened the table.
        let is_for_others =
            ["messages for other readers", "footer", "schema of footers", "footer length"].contains(&part);
        if are_mount_ids_off() && self.target.is_dir() && (is_noted || is_for_others) {
            self.counts.add_harmless(format!("{part}, lost or damaged"));
            return Ok(());
        }
        let by_arrow_rs = read_with_arrow_rs(&self.file);
        let Some(rows) = by_arrow_rs.filter(|rows| *rows != self.expected_by_arrow_rs) else {
            let suffix = if is_noted { ", noted" } else { "" };
            self.counts.add_harmless(format!("{part}{suffix}"));
            return Ok(());
        };
        // A changed footer length may select an earlier footer. Its rows are a prefix, which other readers may see at any
        // time.
        if !is_noted || part != "footer length" || !is_prefix(&rows, &self.expected_by_arrow_rs) {
            return Err(format!("other rows for other readers; {:?}", report.findings));
        }
        self.counts.add_harmless("an earlier footer, noted".into());
        Ok(())
    }

    /// Repairs a copy of the damaged target.
    fn repair_copy(&mut self) -> Result<(), String> {
        let folder = folder_in_memory();
        let copy = folder.path().join("copy");
        let is_table = self.target.is_dir();
        if is_table {
            copy_table(self.target, &copy);
        } else {
            fs::copy(self.target, &copy).unwrap();
        }
        let damaged = fs::read(&self.file).unwrap();

        let report = repair(&copy, |_, _| ()).map_err(|e| e.to_string())?;
        let repaired = report.repaired.ok_or("nothing was repaired")?;
        self.counts.repaired += 1;
        if !repaired.moved.iter().any(|path| fs::read(path).unwrap() == damaged) {
            return Err("the damaged file is not what it was".into());
        }
        let is_gone = if is_table { fs::read_dir(&copy).unwrap().next().is_none() } else { !copy.exists() };
        if is_gone {
            return if repaired.kept == 0 { Ok(()) } else { Err("rows of no file".into()) };
        }
        let report = check(&copy, |_, _| ()).map_err(|e| e.to_string())?;
        if !report.findings.is_empty() {
            return Err(format!("check says {:?}", report.findings));
        }
        let kept = read_valid_rows(&copy).map_err(|e| e.to_string())?;
        if repaired.kept > 0 && !is_prefix(&kept, &self.expected) || count_rows(&kept) != repaired.kept {
            return Err(format!("{} rows are no prefix", count_rows(&kept)));
        }
        if is_table { append_after_repair(&copy, repaired.kept) } else { Ok(()) }
    }
}

/// Returns the step and the first byte of the sample.
fn sample_from_env() -> (usize, usize) {
    match std::env::var("ARROWWOOD_CORRUPTION") {
        Ok(value) if value == "all" => (1, 0),
        Ok(value) => (SAMPLE_STEP, value.parse().expect("ARROWWOOD_CORRUPTION is a number or \"all\"")),
        Err(_) => {
            let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / SECONDS_PER_DAY;
            (SAMPLE_STEP, day as usize % SAMPLE_STEP)
        }
    }
}

fn count_rows(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// Returns true if the rows of `batches` are the first ones of `all`. Batches and encodings may differ, and so may text
/// that is not UTF-8 any more, which is shown with question marks.
fn is_prefix(batches: &[RecordBatch], all: &[RecordBatch]) -> bool {
    let (rows, all_rows) = (format_rows(batches), format_rows(all));
    if rows.len() > all_rows.len() {
        return false;
    }
    rows.iter().zip(&all_rows).all(|(row, original)| {
        let has_invalid_text = row.contains('?') && !original.contains('?');
        row == original || has_invalid_text
    })
}

fn format_rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let dataset = Dataset::try_from(vec![batch.clone()]).unwrap();
        for row in dataset.rows() {
            rows.push(row.unwrap().iter().map(|(_, value)| format!("{} ", value.unwrap())).collect());
        }
    }
    rows
}

/// Appends to a repaired table, and checks that the new rows follow the `kept` ones.
fn append_after_repair(path: &Path, kept: u64) -> Result<(), String> {
    const MORE_ROWS: u64 = 3;
    let mut writer = Writer::open(path, None, &WriterOptions::default()).map_err(|e| e.to_string())?;
    let rows = writer.rows();
    let schema = writer.schema().clone();
    // A damaged schema may have other types, of which `batch` can't make rows.
    if let Some(more) = catch_panic(|| batch(&schema, 50..50 + MORE_ROWS as i64))
        && writer.append(&more).is_ok()
    {
        writer.close().map_err(|e| e.to_string())?;
        let new_len = open(path).and_then(|dataset| dataset.len()).map_err(|e| e.to_string())?;
        if (new_len, rows) != (kept + MORE_ROWS, kept) {
            return Err(format!("{new_len} rows after {MORE_ROWS} more than {kept}, the writer began at {rows}"));
        }
    }
    let findings = check(path, |_, _| ()).map_err(|e| e.to_string())?.findings;
    if findings.is_empty() { Ok(()) } else { Err(format!("written again, check says {findings:?}")) }
}

fn segment_path(table: &Path, number: usize) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(table).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files[number].clone()
}

/// Damages segment `number` of a table.
fn run_table_campaign(name: &str, schema: SchemaRef, segment_rows: u64, state: TableState, number: usize) {
    let folder = folder_in_memory();
    let table = folder.path().join("table");
    create_table(&table, &schema, segment_rows, state);
    let file = segment_path(&table, number);
    let parts = if state == TableState::Dense { file_parts(&file) } else { segment_parts(&file) };
    Campaign::new(name, &table, file, state.durable_rows()).run(&parts);
}

#[test]
fn live_table_of_numbers() {
    run_table_campaign("numbers, live", numbers(), ONE_SEGMENT, TableState::Live, 0);
}

#[test]
fn synced_table_of_numbers() {
    run_table_campaign("numbers, synced", numbers(), ONE_SEGMENT, TableState::Synced, 0);
}

#[test]
fn closed_table_of_texts() {
    run_table_campaign("texts, closed", texts(), ONE_SEGMENT, TableState::Closed, 0);
}

#[test]
fn reopened_table_of_texts() {
    run_table_campaign("texts, closed and opened again", texts(), ONE_SEGMENT, TableState::Reopened, 0);
}

#[test]
fn synced_table_of_nested_columns() {
    run_table_campaign("nested, synced", nested(), ONE_SEGMENT, TableState::Synced, 0);
}

#[test]
fn sealed_segment() {
    run_table_campaign("numbers, a sealed segment of several", numbers(), 20, TableState::Live, 1);
}

#[test]
fn last_segment() {
    run_table_campaign("texts, the last segment of several", texts(), 20, TableState::Closed, 2);
}

#[test]
fn dense_segment() {
    run_table_campaign("texts, a dense segment of several", texts(), 20, TableState::Dense, 1);
}

#[test]
fn dense_table() {
    run_table_campaign("nested, dense", nested(), ONE_SEGMENT, TableState::Dense, 0);
}

fn run_file_campaign(name: &str, schema: SchemaRef, compression: Option<Compression>) {
    let folder = folder_in_memory();
    let path = folder.path().join("a.arrow");
    let batches = [0..20, 20..40, 40..50].map(|rows| batch(&schema, rows));
    let options = WriteOptions { format: Format::File, compression, ..Default::default() };
    arrowwood::write(&Dataset::try_from(batches.to_vec()).unwrap(), &path, &options).unwrap();
    let parts = file_parts(&path);
    Campaign::new(name, &path, path.clone(), 50).run(&parts);
}

#[test]
fn file_of_numbers() {
    run_file_campaign("file of numbers", numbers(), None);
}

#[test]
fn file_of_texts() {
    run_file_campaign("file of texts", texts(), None);
}

#[test]
fn file_of_nested_columns() {
    run_file_campaign("file of lists and structs", nested(), None);
}

#[test]
fn compressed_file() {
    run_file_campaign("compressed file", texts(), Some(Compression::Zstd));
}

/// Small durable commits are copied to the log, with a checksum. Only the log can find a flipped bit in a column of
/// numbers, where any bits are a valid value.
#[test]
fn check_finds_every_bit_flip_in_values_of_the_log() {
    let folder = folder_in_memory();
    let table = folder.path().join("table");
    let mut writer = open_writer(&table, &numbers(), ONE_SEGMENT);
    for rows in [0..20, 20..40] {
        writer.append(&batch(&numbers(), rows)).unwrap();
        writer.commit().unwrap();
        writer.sync().unwrap();
    }
    drop(writer);

    let segment = segment_path(&table, 0);
    let file = File::options().read(true).write(true).open(&segment).unwrap();
    let parts = segment_parts(&segment);
    let (_, header) = parts.iter().find(|(part, _)| *part == "header").unwrap();
    let values = read_number(&file, header.start + 128 + 16, 8);
    let step = if std::env::var_os("ARROWWOOD_CORRUPTION").is_some() { 1 } else { 7 };
    let expected = copy_to_memory(read_valid_rows(&table).unwrap());
    let mut found = 0;
    for offset in (values..values + 40 * 8).step_by(step) {
        let original = read_number(&file, offset, 1) as u8;
        for bit in 0..8 {
            file.write_all_at(&[original ^ (1 << bit)], offset).unwrap();
            let report = check(&table, |_, _| ()).unwrap();
            if are_mount_ids_off() {
                // The byte may be lost with the page cache: the log restores it.
                assert_eq!(read_valid_rows(&table).unwrap(), expected, "byte {offset}, bit {bit}");
                assert!(report.is_good(), "{report:?}");
            } else {
                let finding = report.damage().next().unwrap_or_else(|| panic!("byte {offset}, bit {bit}: not found"));
                assert!(finding.message.contains("the log of commit"), "{finding}");
            }
            file.write_all_at(&[original], offset).unwrap();
            found += 1;
        }
    }
    println!("values under a checksum: {found} of {found} flips found");
}

/// The progress of an interrupted repair of segment 2 of 5.
#[derive(Clone, Copy)]
enum RepairProgress {
    NotStarted,
    LastSegmentMoved,
    /// The later segments are moved, and the damaged one has its second name.
    DamagedSegmentLinked,
}

#[test]
fn interrupted_repair_can_be_run_again() {
    for progress in [RepairProgress::NotStarted, RepairProgress::LastSegmentMoved, RepairProgress::DamagedSegmentLinked]
    {
        let folder = folder_in_memory();
        let table = folder.path().join("table");
        create_table(&table, &texts(), 10, TableState::Closed);
        let original_rows = copy_to_memory(read_valid_rows(&table).unwrap());
        let segments: Vec<_> = (0..5).map(|number| segment_path(&table, number)).collect();
        let mut damaged = fs::read(&segments[2]).unwrap();
        let text_offset = damaged.windows(5).rposition(|window| window == &"né 25".as_bytes()[..5]).unwrap();
        damaged[text_offset + 1] = 0xff;
        fs::write(&segments[2], &damaged).unwrap();

        let aside = folder.path().join("table.damaged");
        let moved_path = |number: usize| aside.join(segments[number].file_name().unwrap());
        match progress {
            RepairProgress::NotStarted => (),
            RepairProgress::LastSegmentMoved => {
                fs::create_dir(&aside).unwrap();
                fs::rename(&segments[4], moved_path(4)).unwrap();
            }
            RepairProgress::DamagedSegmentLinked => {
                fs::create_dir(&aside).unwrap();
                fs::rename(&segments[4], moved_path(4)).unwrap();
                fs::rename(&segments[3], moved_path(3)).unwrap();
                fs::hard_link(&segments[2], moved_path(2)).unwrap();
            }
        }

        let report = repair(&table, |_, _| ()).unwrap();
        assert!(report.repaired.unwrap().kept >= 20);
        let mut moved: Vec<_> = fs::read_dir(&aside).unwrap().map(|file| file.unwrap().file_name()).collect();
        moved.sort();
        assert_eq!(moved, segments[2..].iter().map(|path| path.file_name().unwrap().to_owned()).collect::<Vec<_>>());
        assert_eq!(fs::read(aside.join(&moved[0])).unwrap(), damaged);
        assert!(is_prefix(&read_valid_rows(&table).unwrap(), &original_rows));
        append_after_repair(&table, report.rows).unwrap();
        assert_eq!(repair(&table, |_, _| ()).unwrap().repaired, None);
    }
}

/// Retention, rollover and published footers of a writer at full speed must not look like damage at any moment.
#[test]
fn check_finds_no_damage_in_a_table_being_written() {
    const ROWS_BETWEEN_DROPS: i64 = 20_000;
    const RETAINED_ROWS: u64 = 10_000;
    let folder = folder_in_memory();
    let table = folder.path().join("table");
    let options = WriterOptions {
        segment_rows: Some(3000),
        sync: SyncPolicy::Every(Duration::from_millis(5)),
        ..Default::default()
    };
    let mut writer = Writer::open(&table, Some(texts()), &options).unwrap();
    let is_done = AtomicBool::new(false);
    let checks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let checker = scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                let report = check(&table, |_, _| ()).unwrap();
                assert!(report.is_good(), "{checks:?} checks: {:?}", report.findings);
                checks.fetch_add(1, Ordering::SeqCst);
            }
        });
        let start = Instant::now();
        let mut row = 0;
        // On a busy machine, goes on until there were a few checks.
        while start.elapsed() < Duration::from_secs(2) || checks.load(Ordering::SeqCst) < 3 && !checker.is_finished() {
            assert!(start.elapsed() < PATIENCE, "nobody looks at the table");
            let values = [Value::Int(row), Value::Str("né"), Value::Str("MSFT"), Value::Str("a text of some length")];
            writer.append_row(&values).unwrap();
            writer.commit().unwrap();
            if row % ROWS_BETWEEN_DROPS == ROWS_BETWEEN_DROPS - 1 {
                writer.drop_before(row as u64 - RETAINED_ROWS).unwrap();
            }
            row += 1;
            if row % 50 == 0 {
                // Limits the pace of the writer; nothing is awaited.
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        is_done.store(true, Ordering::Release);
        checker.join().unwrap();
        println!("{checks:?} looks at a table that grew to {row} rows");
    });
}

/// With another Arrow file in it, a table's directory is a directory of files, which no reader takes for a table. `check`
/// used to find nothing.
#[test]
fn check_finds_another_file_among_segments() {
    let folder = folder_in_memory();
    let table = folder.path().join("table");
    create_table(&table, &numbers(), 10, TableState::Closed);
    let other = Dataset::try_from(vec![batch(&texts(), 0..5)]).unwrap();
    arrowwood::write(&other, table.join("stocks.arrow"), &WriteOptions::default()).unwrap();
    let report = check(&table, |_, _| ()).unwrap();
    assert!(report.damage().any(|finding| finding.message.contains("stocks.arrow")), "{report:?}");
    let error = repair(&table, |_, _| ()).unwrap_err();
    assert!(error.message().contains("stocks.arrow"), "{error}");
    fs::remove_file(table.join("stocks.arrow")).unwrap();
    assert!(check(&table, |_, _| ()).unwrap().is_good());
}

/// The footer is enough to find all rows of a file whose first bytes are damaged.
#[test]
fn repair_keeps_all_rows_of_a_file_with_a_damaged_magic() {
    let folder = folder_in_memory();
    let written = Dataset::try_from(vec![batch(&texts(), 0..20), batch(&texts(), 20..30)]).unwrap();
    for offset in 0..6 {
        let path = folder.path().join(format!("{offset}.arrow"));
        arrowwood::write(&written, &path, &WriteOptions::default()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[offset] ^= 1;
        fs::write(&path, &bytes).unwrap();

        let error = arrowwood::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.message().contains("`arrowwood check --repair`"), "{error}");
        let partial = OpenOptions::new().partial(true).path(&path).unwrap();
        assert_eq!(partial.len().unwrap(), 30);
        drop(partial);
        let repaired = repair(&path, |_, _| ()).unwrap().repaired.unwrap();
        assert_eq!(repaired.kept, 30, "byte {offset}");
        assert_eq!(fs::read(&repaired.moved[0]).unwrap(), bytes);
        assert!(check(&path, |_, _| ()).unwrap().findings.is_empty());
        assert_eq!(read_with_arrow_rs(&path).unwrap(), [batch(&texts(), 0..20), batch(&texts(), 20..30)]);
    }
}

/// A repair may keep rows after the last positions. A producer that resumes from the positions would send them twice.
#[test]
fn repair_notes_positions_of_a_table() {
    for has_positions in [false, true] {
        let folder = folder_in_memory();
        let table = folder.path().join("table");
        let mut writer = open_writer(&table, &numbers(), 10);
        for number in 0..5 {
            writer.append(&batch(&numbers(), number * 10..number * 10 + 10)).unwrap();
            let positions: &[(&str, i64)] = if has_positions { &[("day", number)] } else { &[] };
            writer.commit_with(positions).unwrap();
        }
        writer.close().unwrap();
        let damaged = segment_path(&table, 3);
        let bytes = fs::read(&damaged).unwrap();
        fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();

        let report = repair(&table, |_, _| ()).unwrap();
        assert!(!report.is_good() && report.repaired.is_some(), "{report:?}");
        let has_note =
            report.findings.iter().any(|finding| !finding.is_damage && finding.message.contains("positions"));
        assert_eq!(has_note, has_positions, "{report:?}");
    }
}
