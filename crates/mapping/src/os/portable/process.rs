//! What is known of this process.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

/// Returns true, as threads are not told apart.
pub fn is_main_thread() -> bool {
    true
}

/// Returns milliseconds of a monotonic clock.
pub fn millis() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// Returns `None`, as it is not known.
pub fn anonymous_memory() -> Option<u64> {
    None
}

/// Returns `None`, as it is not known.
pub fn data_size() -> Option<u64> {
    None
}

/// Returns false, as it is not known.
pub fn is_hangup_ignored() -> bool {
    false
}

/// Returns the path of this program.
pub fn current_program() -> PathBuf {
    // Without a path, the name by which it was started.
    std::env::current_exe().unwrap_or_else(|_| std::env::args_os().next().map_or_else(PathBuf::new, PathBuf::from))
}

/// Does nothing.
pub fn offer_to_be_killed() {}
