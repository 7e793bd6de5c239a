//! Publishes commits from the writer to its readers: three protocols over the shared words of a segment's live page.
//!
//! - *Commit and read*: the writer stores a record, then its number in the word `sequence`; readers load the number,
//!   then the record. No reader takes parts of two records for one.
//! - *Sleep and wake*: a reader sets the word `waiting` and sleeps on `sequence`; the writer makes a system call to
//!   wake it only if the flag is set. No reader sleeps through a commit.
//! - *Footers* for other Arrow readers, which take no part in any protocol: see [`publish_footer`].
//!
//! There is one writer, and any number of readers in any processes. No lock is shared. The first two protocols:
//!
//! ```text
//! writer                                            reader
//! waiting = 0, if it was not                        load sequence (acquire)
//! record[next & 1].sequence = next                  copy record[sequence & 1]
//! ── release fence ──                               ── acquire fence ──
//! the record's other bytes                          is its sequence still that one? else again
//! sequence = next (release)
//! ── full fence ──                                  waiting = 1
//! waiting was or is not 0: wake                     ── full fence ──
//!                                                   sequence still the known one: sleep on it
//! ```
//! There are two records. The one of parity `next` belongs to the commit before the newest one: a slow reader may be
//! copying it. It notices, because the record's own sequence changes before the rest of the record.
//!
//! `waiting` is cleared *before* the store that sleepers watch. Cleared after it, it could be the flag of a reader that
//! has already seen this commit and goes to sleep until the next one. That commit would not wake the reader.
//!
//! All accesses are atomic: the words of a record are stored and loaded relaxed, one by one, so that a slow reader gets
//! words of two commits, but never half a word. The crate `model` runs these functions under a model checker, in all
//! orders that the memory model allows, over words with the same orderings.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub use crate::map::SharedWords;
#[cfg(feature = "internal")]
pub use crate::table::format::{CommitState, MOST_POSITIONS, Record, record_len};
pub use crate::table::format::{LivePage, positions_of};

/// The number of times a reader rereads a torn record while no other commit is made. While commits are made it continues.
///
/// A writer overwrites a record only after the next commit was made, so a second attempt would do in shared memory. A
/// file of another machine may show the writer's stores later, and in another order.
pub const PATIENCE: usize = 100;

/// The size in bytes of the number that begins a record.
const NUMBER: usize = size_of::<u64>();
/// The size in bytes of each position at the end of a record.
const POSITION: usize = size_of::<i64>();

/// Writes the record of commit `sequence`, which begins with that number, over the record that is not the newest. The
/// commit is not visible to readers yet.
#[inline]
pub fn prepare(words: &impl SharedWords, page: LivePage, sequence: u64, record: &[u8]) {
    let (number, rest) = record.split_at(NUMBER);
    debug_assert_eq!(number, sequence.to_le_bytes(), "a record begins with its number");
    debug_assert!(record.len() as u64 <= page.record, "a record must not reach into the next one");
    let offset = page.record(sequence);
    words.store_words(offset, number);
    words.fence(Ordering::Release);
    words.store_words(offset + NUMBER as u64, rest);
}

/// Makes commit `sequence` the newest, with the bytes of its record, which begin with that number.
#[inline]
pub fn commit(words: &impl SharedWords, page: LivePage, sequence: u64, record: &[u8]) {
    let was_asked = words.load32(page.waiting()) != 0;
    if was_asked {
        words.publish32(page.waiting(), 0);
    }
    prepare(words, page, sequence, record);
    words.publish64(page.sequence(), sequence);
    // The sequence is stored before the flag is loaded; the sleeper does the same in reverse order.
    words.fence(Ordering::SeqCst);
    if was_asked || words.load32(page.waiting()) != 0 {
        words.wake(page.sequence());
    }
}

/// Returns the newest commit, or `None` if its record is damaged, or was torn in each of `patience` attempts.
///
/// `bytes` has room for the longest record, `fixed` is the number of a record's bytes before the positions, and
/// `decode` decodes the record of a commit with a given number.
pub fn newest<R>(
    words: &impl SharedWords,
    page: LivePage,
    (bytes, fixed): (&mut [u8], usize),
    decode: impl Fn(&[u8], u64) -> Option<R>,
    patience: usize,
) -> Option<R> {
    debug_assert!(fixed <= bytes.len(), "the buffer has room for a record");
    let mut last_sequence = 0;
    let mut attempts = 0;
    while attempts < patience {
        let sequence = words.load64(page.sequence());
        attempts = if sequence == last_sequence { attempts + 1 } else { 0 };
        last_sequence = sequence;
        words.load_words(page.record(sequence), &mut bytes[..fixed]);
        let len = (fixed + POSITION * positions_of(&bytes[..fixed])).min(bytes.len());
        words.load_words(page.record(sequence) + fixed as u64, &mut bytes[fixed..len]);
        words.fence(Ordering::Acquire);
        let is_whole = words.load64(page.record(sequence)) == sequence;
        if let Some(record) = decode(bytes, sequence).filter(|_| is_whole) {
            return Some(record);
        }
        words.pause();
    }
    None
}

/// Sets the flag of sleeping readers, before the caller loads the number of the newest commit once more. Stores nothing
/// if the flag is set: a store would change the modification time of a file that may have no writer.
pub fn request_wake(words: &impl SharedWords, page: LivePage) {
    if words.load32(page.waiting()) == 0 {
        words.publish32(page.waiting(), 1);
    }
    words.fence(Ordering::SeqCst);
}

/// Sleeps until there is a newer commit than `sequence`, for at most `timeout`, in a reader that has set the flag by
/// [`request_wake`]; may return early. A reader without write permission for the file can't set the flag, and is woken
/// only by chance.
pub fn wait(words: &impl SharedWords, page: LivePage, sequence: u64, timeout: Duration) {
    if words.load64(page.sequence()) == sequence {
        words.wait(page.sequence(), sequence as u32, timeout);
    }
}

/// Atomically publishes a new footer for other Arrow readers: writes its messages and the footer, each at an offset,
/// then stores `length` at `tail`, which selects the footer. No reader may be using the bytes that are overwritten.
///
/// # Errors
/// Returns the errors of the disk. Nothing was published then.
pub fn publish_footer(
    words: &impl SharedWords,
    (messages_start, messages): (u64, &[u8]),
    (footer_start, footer): (u64, &[u8]),
    (tail, length): (u64, u32),
) -> io::Result<()> {
    words.write(messages_start, messages)?;
    words.write(footer_start, footer)?;
    words.publish32(tail, length);
    Ok(())
}
