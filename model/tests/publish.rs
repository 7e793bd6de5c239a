//! What is proved of the publish protocol, and that each part of it is needed: without it the model finds what goes
//! wrong. `ARROWWOOD_MODEL=long` tries more readers and commits: see `make torture`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrowwood::publish::{LivePage, PATIENCE, Record, SharedWords, commit, newest, publish_footer, record_len, sleep};
use arrowwood_model::{Faults, LoomWords};
use loom::model::Builder;
use loom::thread;

const PAGE: LivePage = LivePage { live: 0, record: 4096 };
/// Where row `i` is; the first one is of commit 1, which is there from the start.
const ROWS: u64 = 1 << 16;

fn is_long() -> bool {
    std::env::var("ARROWWOOD_MODEL").is_ok_and(|form| form == "long")
}

/// Tries `body` in all orders, or in those with at most so many preemptions. Returns how many there were.
fn explore(name: &str, preemptions: Option<usize>, body: impl Fn() + Send + std::marker::Sync + 'static) -> usize {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (own, begin) = (count.clone(), std::time::Instant::now());
    builder.check(move || {
        own.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let tried = count.load(Ordering::Relaxed);
    let bound = preemptions.map_or("all".into(), |most| format!("with at most {most} preemptions"));
    eprintln!("  {name}: {tried} executions, {bound}, {:.1} s", begin.elapsed().as_secs_f64());
    tried
}

/// Whether the model finds fault with `body`.
fn is_refuted(name: &str, body: impl Fn() + Send + std::marker::Sync + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore(name, None, body))).is_err()
}

/// A record of the fewest words: its sequence and its rows, which are as many. No checksum helps.
#[derive(Clone, Copy)]
struct Short;
/// The record as it is, with one counter and its checksum.
#[derive(Clone, Copy)]
struct Whole;

/// How commits are told.
trait Kind: Copy + Send + std::marker::Sync + 'static {
    const LEN: usize;
    /// Places of the words that change within a record.
    const WORDS: &[u64];
    fn bytes(sequence: u64) -> Vec<u8>;
    fn rows(bytes: &[u8], sequence: u64) -> Option<u64>;
}

impl Kind for Short {
    const LEN: usize = 16;
    const WORDS: &[u64] = &[0, 8];

    fn bytes(sequence: u64) -> Vec<u8> {
        [sequence.to_le_bytes(), sequence.to_le_bytes()].concat()
    }

    fn rows(bytes: &[u8], sequence: u64) -> Option<u64> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        (word(0) == sequence).then_some(word(8))
    }
}

impl Kind for Whole {
    const LEN: usize = 72;
    const WORDS: &[u64] = &[0, 8, 64];

    fn bytes(sequence: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Record { sequence, counters: vec![sequence], ..Record::default() }.encode(&mut bytes);
        assert_eq!(bytes.len(), record_len(1, 0));
        bytes
    }

    fn rows(bytes: &[u8], sequence: u64) -> Option<u64> {
        Record::decode_as(bytes, 1, sequence).map(|record| record.rows())
    }
}

/// A segment of one commit.
fn segment<K: Kind>(commits: u64, faults: Faults) -> Arc<LoomWords> {
    let records = (0..2).flat_map(|parity| K::WORDS.iter().map(move |word| PAGE.record(parity) + word));
    let rows = (0..=commits).map(|row| ROWS + 8 * row);
    // Nobody sleeps here, so that the flag never changes.
    let model = LoomWords::new(records.chain(rows).chain([PAGE.sequence()]), &[], faults);
    append::<K>(&model, 1);
    Arc::new(model)
}

/// Commit `sequence`, which adds a row.
fn append<K: Kind>(model: &LoomWords, sequence: u64) {
    model.store_words(ROWS + 8 * (sequence - 1), &(100 + sequence).to_le_bytes());
    commit(model, PAGE, sequence, &K::bytes(sequence));
}

/// What a reader sees: the newest commit, which must be one that was made, with all its rows.
fn look<K: Kind>(model: &LoomWords) -> u64 {
    let mut bytes = vec![0; K::LEN];
    let decode = |bytes: &[u8], sequence: u64| K::rows(bytes, sequence).map(|rows| (sequence, rows));
    let (sequence, rows) = newest(model, PAGE, (&mut bytes, K::LEN), decode, PATIENCE).expect("no whole record");
    assert_eq!(rows, sequence, "a record that nobody committed");
    for row in 0..rows {
        let mut value = [0; 8];
        model.load_words(ROWS + 8 * row, &mut value);
        assert_eq!(u64::from_le_bytes(value), 101 + row, "row {row} is not there yet");
    }
    sequence
}

/// Readers that each look several times while a writer commits.
fn readers<K: Kind>(_: K, readers: usize, looks: usize, commits: u64, faults: Faults) -> impl Fn() {
    move || {
        let model = segment::<K>(commits, faults);
        let reader = move |model: Arc<LoomWords>| {
            let mut last = 0;
            for _ in 0..looks {
                let sequence = look::<K>(&model);
                assert!(sequence >= last, "commit {sequence} after {last}");
                last = sequence;
            }
        };
        let start = |model: Arc<LoomWords>| thread::spawn(move || reader(model));
        let started: Vec<_> = (0..readers).map(|_| start(model.clone())).collect();
        (2..2 + commits).for_each(|sequence| append::<K>(&model, sequence));
        started.into_iter().for_each(|reader| reader.join().unwrap());
    }
}

/// Readers that sleep until they have seen the last commit.
fn sleepers(readers: usize, commits: u64, faults: Faults, commit: impl Fn(&LoomWords, u64) + Copy) -> impl Fn() {
    move || {
        let model = Arc::new(LoomWords::new([PAGE.sequence()], &[PAGE.waiting()], faults));
        let reader = move |model: Arc<LoomWords>| loop {
            let seen = model.load64(PAGE.sequence());
            if seen == commits {
                break;
            }
            sleep(&*model, PAGE, seen, Duration::MAX);
        };
        let start = |model: Arc<LoomWords>| thread::spawn(move || reader(model));
        let started: Vec<_> = (0..readers).map(|_| start(model.clone())).collect();
        (1..=commits).for_each(|sequence| commit(&model, sequence));
        started.into_iter().for_each(|reader| reader.join().unwrap());
    }
}

fn by_the_book(model: &LoomWords, sequence: u64) {
    commit(model, PAGE, sequence, &Short::bytes(sequence));
}

/// As it was once: the flag is cleared behind the commit.
fn clear_behind(model: &LoomWords, sequence: u64) {
    model.publish64(PAGE.sequence(), sequence);
    model.fence(Ordering::SeqCst);
    if model.load32(PAGE.waiting()) != 0 {
        model.publish32(PAGE.waiting(), 0);
        model.wake(PAGE.sequence());
    }
}

/// A published footer: slot, footer and which footer counts.
fn footers(faults: Faults) -> impl Fn() {
    const TAIL: u64 = 1 << 12;
    let (slot, footer) = (|number: u64| 64 * number, |number: u64| 1024 + 64 * number);
    move || {
        let places = (1..3).flat_map(|number| [slot(number), footer(number)]);
        let model = Arc::new(LoomWords::new(places.chain([TAIL]), &[], faults));
        let own = model.clone();
        let reader = thread::spawn(move || {
            for _ in 0..2 {
                let number = u64::from(own.load32(TAIL));
                for place in [footer(number), slot(number)].iter().filter(|_| number > 0) {
                    let mut bytes = [0; 8];
                    own.load_words(*place, &mut bytes);
                    assert_eq!(u64::from_le_bytes(bytes), number, "a published footer that is not there yet");
                }
            }
        });
        for number in 1..3u64 {
            let bytes = number.to_le_bytes();
            publish_footer(&*model, (slot(number), &bytes), (footer(number), &bytes), (TAIL, number as u32)).unwrap();
        }
        reader.join().unwrap();
    }
}

const FINE: Faults = Faults { relaxed: false, no_fence: None };

/// Readers only load: what one of them may see it may see beside others too, so one reader in all orders says it for
/// any number.
#[test]
fn readers_see_whole_commits_with_their_rows_and_never_go_back() {
    explore("1 reader, 2 looks, 2 commits, short record", None, readers(Short, 1, 2, 2, FINE));
    explore("1 reader, 1 look, 2 commits, whole record", None, readers(Whole, 1, 1, 2, FINE));
    explore("2 readers, 1 look, 2 commits, short record", Some(2), readers(Short, 2, 1, 2, FINE));
    if is_long() {
        explore("1 reader, 2 looks, 3 commits, short record", None, readers(Short, 1, 2, 3, FINE));
        explore("1 reader, 1 look, 3 commits, whole record", None, readers(Whole, 1, 1, 3, FINE));
        explore("2 readers, 1 look, 3 commits, short record", Some(2), readers(Short, 2, 1, 3, FINE));
    }
}

#[test]
fn nobody_sleeps_through_a_commit() {
    explore("1 sleeper, 2 commits", Some(3), sleepers(1, 2, FINE, by_the_book));
    explore("2 sleepers, 2 commits", Some(2), sleepers(2, 2, FINE, by_the_book));
    if is_long() {
        explore("1 sleeper, 2 commits", None, sleepers(1, 2, FINE, by_the_book));
        explore("1 sleeper, 3 commits", Some(4), sleepers(1, 3, FINE, by_the_book));
        explore("2 sleepers, 2 commits", Some(3), sleepers(2, 2, FINE, by_the_book));
        explore("2 sleepers, 3 commits", Some(2), sleepers(2, 3, FINE, by_the_book));
    }
}

#[test]
fn other_readers_see_whole_footers() {
    explore("1 other Arrow reader, 2 looks, 2 published footers", None, footers(FINE));
}

#[test]
fn without_release_the_model_finds_rows_that_are_not_there_yet() {
    let faults = Faults { relaxed: true, ..FINE };
    assert!(is_refuted("relaxed", readers(Short, 1, 1, 1, faults)));
    assert!(is_refuted("relaxed footer", footers(faults)));
}

/// A checksum finds most torn records; these fences leave none to be found.
#[test]
fn without_either_fence_of_the_record_the_model_finds_a_torn_one() {
    for order in [Ordering::Release, Ordering::Acquire] {
        let faults = Faults { no_fence: Some(order), ..FINE };
        assert!(is_refuted("no fence", readers(Short, 1, 1, 2, faults)), "{order:?}");
    }
}

#[test]
fn without_full_fences_the_model_finds_a_sleeper_that_nobody_wakes() {
    let faults = Faults { no_fence: Some(Ordering::SeqCst), ..FINE };
    assert!(is_refuted("no full fence", sleepers(1, 1, faults, by_the_book)));
}

/// A reader that had seen a commit could go to sleep again before the writer cleared the flag; the next commit then found
/// no flag, and the reader slept until its timeout.
#[test]
fn a_flag_that_is_cleared_behind_the_commit_is_found() {
    assert!(is_refuted("cleared behind", sleepers(1, 2, FINE, clear_behind)));
}
