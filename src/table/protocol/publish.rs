//! How a commit gets from the writer to its readers: the three protocols over shared words, and nothing else.
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
//! The record of parity `next` is the one that was newest two commits ago: a slow reader may be copying it. It finds that
//! out because the record's own sequence changes before anything else of it does.
//!
//! `waiting` is cleared *before* the store that sleepers look at. Cleared behind it, it could be the flag of a reader
//! that has seen this commit already and goes to sleep until the next one, which would then not wake it.
//!
//! All of these are atomic: the words of a record are stored and loaded relaxed, one by one, so that a reader that is too
//! slow gets words of two commits, and never half a word. The crate `model` runs these functions under a model checker, in
//! all orders that the memory model allows, over words with the same orderings.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[doc(hidden)]
pub use crate::map::SharedWords;
#[doc(hidden)]
pub use crate::table::format::{MOST_POSITIONS, Page, Record, State, positions_of, record_len};

/// How often a reader looks again at a record that is not whole although no other commit comes: the writer may be in the
/// middle of one. While others come it goes on looking.
pub const PATIENCE: usize = 10_000;

/// Writes the record of commit `sequence`, which begins with that number, over the one that is not the newest. Readers
/// don't see the commit yet.
#[inline]
pub fn prepare(words: &impl SharedWords, page: Page, sequence: u64, record: &[u8]) {
    let at = page.record(sequence);
    words.store_words(at, &record[..8]);
    words.fence(Ordering::Release);
    words.store_words(at + 8, &record[8..]);
}

/// Makes commit `sequence` the newest, with the bytes of its record, which begin with that number.
#[inline]
pub fn commit(words: &impl SharedWords, page: Page, sequence: u64, record: &[u8]) {
    let was_asked = words.load32(page.waiting()) != 0;
    if was_asked {
        words.publish32(page.waiting(), 0);
    }
    prepare(words, page, sequence, record);
    words.publish64(page.sequence(), sequence);
    // Between the store of what is waited for and the look at the flag; the sleeper does the same the other way.
    words.fence(Ordering::SeqCst);
    if was_asked || words.load32(page.waiting()) != 0 {
        words.wake(page.sequence());
    }
}

/// The newest commit: what `decode` makes of the bytes of its record, of which `fixed` come before the positions; `bytes`
/// has room for all there can be. `None` where its record is damaged, or was not whole for `patience` looks.
pub fn newest<R>(
    words: &impl SharedWords,
    page: Page,
    (bytes, fixed): (&mut [u8], usize),
    decode: impl Fn(&[u8], u64) -> Option<R>,
    patience: usize,
) -> Option<R> {
    let mut last = 0;
    let mut looks = 0;
    while looks < patience {
        let sequence = words.load64(page.sequence());
        looks = if sequence == last { looks + 1 } else { 0 };
        last = sequence;
        words.load_words(page.record(sequence), &mut bytes[..fixed]);
        let len = (fixed + 8 * positions_of(&bytes[..fixed])).min(bytes.len());
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

/// Sleeps until there is a newer commit than `sequence`, for `timeout` at most; may return early. Who may not write to the
/// file can't say that it sleeps, and is woken by chance only.
pub fn sleep(words: &impl SharedWords, page: Page, sequence: u64, timeout: Duration) {
    words.publish32(page.waiting(), 1);
    words.fence(Ordering::SeqCst);
    if words.load64(page.sequence()) == sequence {
        words.wait(page.sequence(), sequence as u32, timeout);
    }
}

/// Atomically publishes a new footer for other Arrow readers: writes `slot` and `footer`, each an offset and bytes, then
/// stores `length` at `tail`, which selects the footer. No reader may be using either.
///
/// # Errors
/// Those of the disk; nothing was published then.
pub fn flip(
    words: &impl SharedWords,
    slot: (u64, &[u8]),
    footer: (u64, &[u8]),
    (tail, length): (u64, u32),
) -> io::Result<()> {
    words.write(slot.0, slot.1)?;
    words.write(footer.0, footer.1)?;
    words.publish32(tail, length);
    Ok(())
}
