//! Waits for words and names, by looking at them again and again.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The maximum number of words that [`wait_for_any`] takes.
pub const MAX_AWAITED: usize = 128;

/// The time between two looks at a word.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits a moment if `word` is `expected`.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    if word.load(Ordering::Acquire) == expected {
        std::thread::sleep(timeout.min(POLL_INTERVAL));
    }
}

/// Does nothing, as threads that wait look for themselves.
pub fn wake(_word: &AtomicU32) {}

/// Fails, as this system can't wait for several words.
pub fn wait_for_any(_words: &[(&AtomicU32, u32)]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Can't watch any directory.
#[derive(Debug)]
pub struct PollingNameWatcher;

impl PollingNameWatcher {
    /// Fails.
    pub fn new() -> io::Result<PollingNameWatcher> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fails.
    pub fn add(&self, _directory: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns false at once.
    pub fn wait(&self) -> bool {
        false
    }

    /// Does nothing.
    pub fn end(&self) {}
}
