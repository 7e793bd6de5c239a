//! Waits for words, by letting the caller look at them again and again.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The maximum number of words that [`wait_for_any`] takes.
pub const MAX_AWAITED: usize = 128;

/// The time until the caller looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits a moment. Does not look at the word, as its file may have been truncated: the caller does.
pub fn wait(_word: &AtomicU32, _expected: u32, timeout: Duration) {
    note!("wait");
    std::thread::sleep(timeout.min(POLL_INTERVAL));
}

/// Does nothing, as all that wait look for themselves.
pub fn wake(_word: &AtomicU32) {
    note!("wake");
}

/// As [`wait`].
pub fn wait_for_any(_words: &[(&AtomicU32, u32)]) -> io::Result<()> {
    note!("wait_for_any");
    std::thread::sleep(POLL_INTERVAL);
    Ok(())
}
