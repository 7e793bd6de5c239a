//! Model checks of the publish protocol of growing tables.
//!
//! The first tests show that the protocol is correct: readers see whole commits with their rows, and no sleeping reader
//! misses a commit. The others show that each part of it is needed: without it, the model checker finds a failure.
//!
//! `ARROWWOOD_MODEL=long` tries more readers and commits (see `make torture`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrowwood::publish::{
    LivePage, PATIENCE, Record, SharedWords, commit, newest, publish_footer, record_len, request_wake, wait,
};
use arrowwood_model::{Faults, LoomWords};
use loom::model::Builder;
use loom::thread;

const PAGE: LivePage = LivePage { live: 0, record: 4096 };
/// The offset of the values. Row `i` has one of eight bytes.
const VALUES: u64 = 1 << 16;

const NO_FAULTS: Faults = Faults { relaxed: false, no_fence: None };

fn is_long() -> bool {
    std::env::var("ARROWWOOD_MODEL").is_ok_and(|form| form == "long")
}

/// Runs `body` in all orders of its threads' accesses, or in all with at most `max_preemptions`.
fn explore(name: &str, max_preemptions: Option<usize>, body: impl Fn() + Send + std::marker::Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = max_preemptions;
    builder.max_branches = 20_000;
    let executions = Arc::new(AtomicUsize::new(0));
    let counter = executions.clone();
    let start = Instant::now();
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let executions = executions.load(Ordering::Relaxed);
    let bound = max_preemptions.map_or("all".into(), |max| format!("with at most {max} preemptions"));
    eprintln!("  {name}: {executions} executions, {bound}, {:.1} s", start.elapsed().as_secs_f64());
}

/// Returns true if `body` fails in some order.
fn fails(name: &str, body: impl Fn() + Send + std::marker::Sync + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore(name, None, body))).is_err()
}

/// Encodes commits as records.
trait RecordFormat: Copy + Send + std::marker::Sync + 'static {
    const LEN: usize;
    /// The offsets of words in a record that differ between commits.
    const CHANGING_WORDS: &[u64];

    /// Encodes commit `sequence`, which has as many rows.
    fn encode(sequence: u64) -> Vec<u8>;

    /// Returns the number of rows; `None` if the bytes are no record of commit `sequence`.
    fn decode_rows(bytes: &[u8], sequence: u64) -> Option<u64>;
}

/// The shortest possible record: sequence and rows, without a checksum that could find torn records.
#[derive(Clone, Copy)]
struct ShortRecord;

impl RecordFormat for ShortRecord {
    const LEN: usize = 16;
    const CHANGING_WORDS: &[u64] = &[0, 8];

    fn encode(sequence: u64) -> Vec<u8> {
        [sequence.to_le_bytes(), sequence.to_le_bytes()].concat()
    }

    fn decode_rows(bytes: &[u8], sequence: u64) -> Option<u64> {
        let (words, _) = bytes.as_chunks::<8>();
        (u64::from_le_bytes(words[0]) == sequence).then(|| u64::from_le_bytes(words[1]))
    }
}

/// The real record, with one counter and its checksum.
#[derive(Clone, Copy)]
struct RealRecord;

impl RecordFormat for RealRecord {
    const LEN: usize = 72;
    const CHANGING_WORDS: &[u64] = &[0, 8, 64];

    fn encode(sequence: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Record { sequence, counters: vec![sequence], ..Record::default() }.encode(&mut bytes);
        assert_eq!(bytes.len(), record_len(1, 0));
        bytes
    }

    fn decode_rows(bytes: &[u8], sequence: u64) -> Option<u64> {
        Record::decode_as(bytes, 1, sequence).map(|record| record.rows())
    }
}

fn value_offset(row: u64) -> u64 {
    VALUES + 8 * row
}

fn value_of(row: u64) -> u64 {
    101 + row
}

/// Creates a segment with one commit, and room for `more_commits`.
fn create_segment<R: RecordFormat>(more_commits: u64, faults: Faults) -> Arc<LoomWords> {
    let records = (0..2).flat_map(|parity| R::CHANGING_WORDS.iter().map(move |word| PAGE.record(parity) + word));
    let values = (0..=more_commits).map(value_offset);
    // No reader sleeps in this model, so the `waiting` flag never changes.
    let model = LoomWords::new(records.chain(values).chain([PAGE.sequence()]), &[], faults);
    commit_row::<R>(&model, 1);
    Arc::new(model)
}

/// Makes commit `sequence`, which adds a row.
fn commit_row<R: RecordFormat>(model: &LoomWords, sequence: u64) {
    let row = sequence - 1;
    model.store_words(value_offset(row), &value_of(row).to_le_bytes());
    commit(model, PAGE, sequence, &R::encode(sequence));
}

/// Reads the newest commit, and asserts that it was made and has all its rows. Returns its sequence.
fn read_newest_commit<R: RecordFormat>(model: &LoomWords) -> u64 {
    let mut bytes = vec![0; R::LEN];
    let decode = |bytes: &[u8], sequence: u64| R::decode_rows(bytes, sequence).map(|rows| (sequence, rows));
    let (sequence, rows) = newest(model, PAGE, (&mut bytes, R::LEN), decode, PATIENCE).expect("no whole record");
    assert_eq!(rows, sequence, "a record that nobody committed");
    for row in 0..rows {
        let mut value = [0; 8];
        model.load_words(value_offset(row), &mut value);
        assert_eq!(u64::from_le_bytes(value), value_of(row), "row {row} is not there yet");
    }
    sequence
}

/// The sizes of a model with readers that don't sleep.
#[derive(Clone, Copy)]
struct ReaderModel {
    readers: usize,
    reads_per_reader: usize,
    /// Commits that the writer makes meanwhile.
    commits: u64,
    faults: Faults,
}

/// Returns a model in which readers read while a writer commits.
fn readers<R: RecordFormat>(_: R, sizes: ReaderModel) -> impl Fn() {
    move || {
        let model = create_segment::<R>(sizes.commits, sizes.faults);
        let mut threads = Vec::new();
        for _ in 0..sizes.readers {
            let model = model.clone();
            threads.push(thread::spawn(move || read_repeatedly::<R>(&model, sizes.reads_per_reader)));
        }
        for sequence in 2..2 + sizes.commits {
            commit_row::<R>(&model, sequence);
        }
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

fn read_repeatedly<R: RecordFormat>(model: &LoomWords, reads: usize) {
    let mut last = 0;
    for _ in 0..reads {
        let sequence = read_newest_commit::<R>(model);
        assert!(sequence >= last, "commit {sequence} after {last}");
        last = sequence;
    }
}

/// Returns a model of readers that sleep until they have seen the last commit.
fn sleepers(readers: usize, commits: u64, faults: Faults, commit: fn(&LoomWords, u64)) -> impl Fn() {
    move || {
        let model = Arc::new(LoomWords::new([PAGE.sequence()], &[PAGE.waiting()], faults));
        let mut threads = Vec::new();
        for _ in 0..readers {
            let model = model.clone();
            threads.push(thread::spawn(move || sleep_until_commit(&model, commits)));
        }
        for sequence in 1..=commits {
            commit(&model, sequence);
        }
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

fn sleep_until_commit(model: &LoomWords, last_sequence: u64) {
    loop {
        let sequence = model.load64(PAGE.sequence());
        if sequence == last_sequence {
            break;
        }
        request_wake(model, PAGE);
        wait(model, PAGE, sequence, Duration::MAX);
    }
}

fn commit_short_record(model: &LoomWords, sequence: u64) {
    commit(model, PAGE, sequence, &ShortRecord::encode(sequence));
}

/// Commits as an early version did: it cleared the `waiting` flag after the commit.
fn commit_and_clear_flag_late(model: &LoomWords, sequence: u64) {
    model.publish64(PAGE.sequence(), sequence);
    model.fence(Ordering::SeqCst);
    if model.load32(PAGE.waiting()) != 0 {
        model.publish32(PAGE.waiting(), 0);
        model.wake(PAGE.sequence());
    }
}

/// The word that selects the published footer.
const FOOTER_SELECTOR: u64 = 1 << 12;
const FOOTER_COUNT: u64 = 2;

fn slot_offset(footer: u64) -> u64 {
    64 * footer
}

fn footer_offset(footer: u64) -> u64 {
    1024 + 64 * footer
}

/// Returns a model of another Arrow reader, which reads the selected footer and its slot while a writer publishes footers.
fn footer_readers(faults: Faults) -> impl Fn() {
    move || {
        let words = (1..=FOOTER_COUNT).flat_map(|number| [slot_offset(number), footer_offset(number)]);
        let model = Arc::new(LoomWords::new(words.chain([FOOTER_SELECTOR]), &[], faults));
        let readers_model = model.clone();
        let reader = thread::spawn(move || {
            for _ in 0..2 {
                read_selected_footer(&readers_model);
            }
        });
        for number in 1..=FOOTER_COUNT {
            let bytes = number.to_le_bytes();
            let slot = (slot_offset(number), &bytes[..]);
            let footer = (footer_offset(number), &bytes[..]);
            publish_footer(&*model, slot, footer, (FOOTER_SELECTOR, number as u32)).unwrap();
        }
        reader.join().unwrap();
    }
}

fn read_selected_footer(model: &LoomWords) {
    let number = u64::from(model.load32(FOOTER_SELECTOR));
    if number == 0 {
        return;
    }
    for offset in [footer_offset(number), slot_offset(number)] {
        let mut bytes = [0; 8];
        model.load_words(offset, &mut bytes);
        assert_eq!(u64::from_le_bytes(bytes), number, "a published footer that is not there yet");
    }
}

/// Readers that don't sleep only load, so they don't influence each other: one reader in all orders stands for any number.
#[test]
fn readers_see_whole_commits_in_order() {
    let sizes = ReaderModel { readers: 1, reads_per_reader: 1, commits: 2, faults: NO_FAULTS };
    let two_reads = ReaderModel { reads_per_reader: 2, ..sizes };
    let two_readers = ReaderModel { readers: 2, ..sizes };
    explore("1 reader, 2 looks, 2 commits, short record", None, readers(ShortRecord, two_reads));
    explore("1 reader, 1 look, 2 commits, whole record", None, readers(RealRecord, sizes));
    explore("2 readers, 1 look, 2 commits, short record", Some(2), readers(ShortRecord, two_readers));
    if is_long() {
        let commits = 3;
        let two_reads = ReaderModel { commits, ..two_reads };
        let two_readers = ReaderModel { commits, ..two_readers };
        explore("1 reader, 2 looks, 3 commits, short record", None, readers(ShortRecord, two_reads));
        explore(
            "1 reader, 1 look, 3 commits, whole record",
            None,
            readers(RealRecord, ReaderModel { commits, ..sizes }),
        );
        explore("2 readers, 1 look, 3 commits, short record", Some(2), readers(ShortRecord, two_readers));
    }
}

#[test]
fn no_reader_sleeps_through_a_commit() {
    explore("1 sleeper, 2 commits", Some(3), sleepers(1, 2, NO_FAULTS, commit_short_record));
    explore("2 sleepers, 2 commits", Some(2), sleepers(2, 2, NO_FAULTS, commit_short_record));
    if is_long() {
        explore("1 sleeper, 2 commits", None, sleepers(1, 2, NO_FAULTS, commit_short_record));
        explore("1 sleeper, 3 commits", Some(4), sleepers(1, 3, NO_FAULTS, commit_short_record));
        explore("2 sleepers, 2 commits", Some(3), sleepers(2, 2, NO_FAULTS, commit_short_record));
        explore("2 sleepers, 3 commits", Some(2), sleepers(2, 3, NO_FAULTS, commit_short_record));
    }
}

#[test]
fn other_arrow_readers_see_whole_footers() {
    explore("1 other Arrow reader, 2 looks, 2 published footers", None, footer_readers(NO_FAULTS));
}

#[test]
fn model_finds_missing_rows_without_release_stores() {
    let faults = Faults { relaxed: true, ..NO_FAULTS };
    let sizes = ReaderModel { readers: 1, reads_per_reader: 1, commits: 1, faults };
    assert!(fails("relaxed", readers(ShortRecord, sizes)));
    assert!(fails("relaxed footer", footer_readers(faults)));
}

/// A checksum finds most torn records. With these fences, there are none to be found.
#[test]
fn model_finds_torn_records_without_either_fence() {
    for order in [Ordering::Release, Ordering::Acquire] {
        let faults = Faults { no_fence: Some(order), ..NO_FAULTS };
        let sizes = ReaderModel { readers: 1, reads_per_reader: 1, commits: 2, faults };
        assert!(fails("no fence", readers(ShortRecord, sizes)), "{order:?}");
    }
}

#[test]
fn model_finds_lost_wakeups_without_full_fences() {
    let faults = Faults { no_fence: Some(Ordering::SeqCst), ..NO_FAULTS };
    assert!(fails("no full fence", sleepers(1, 1, faults, commit_short_record)));
}

/// A reader that had seen a commit could go to sleep again before the writer cleared the flag. The next commit found no flag
/// then, and the reader slept until its timeout.
#[test]
fn model_finds_lost_wakeups_if_the_flag_is_cleared_after_the_commit() {
    assert!(fails("cleared behind", sleepers(1, 2, NO_FAULTS, commit_and_clear_flag_late)));
}
