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

#[cfg(all(test, arrowwood_portable))]
mod tests {
    use super::*;

    /// Returns how many times this thread has left its processor to others.
    fn rests() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    }

    /// The word does not change, and nobody wakes.
    #[test]
    fn waits_end_and_leave_the_processor_to_others() {
        const WAITS: u64 = 20;
        let word = AtomicU32::new(7);
        let before = rests();
        for _ in 0..WAITS {
            wait(&word, 7, Duration::from_secs(3600));
        }
        let after_waits = rests();
        assert!(after_waits >= before + WAITS, "{before}, {after_waits}");
        for _ in 0..WAITS {
            wait_for_any(&[(&word, 7)]).unwrap();
        }
        assert!(rests() >= after_waits + WAITS, "{after_waits}, {}", rests());
    }
}
