//! Waiting for conditions, with a timeout that names the condition.

#![allow(dead_code, reason = "some test programs use only one of these")]

use std::time::{Duration, Instant};

/// The timeout of waits, which is longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The pause between two polls, which leaves the processor to the awaited thread or process.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until `is_so` returns true; panics with `what` if it doesn't within [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Polls until `poll` returns a value, and returns it; panics with `what` if there is none within [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    match within_patience(poll) {
        Some(value) => value,
        None => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Polls until `poll` returns a value; returns `None` if there is none within [`PATIENCE`].
pub fn within_patience<T>(poll: impl FnMut() -> Option<T>) -> Option<T> {
    within(PATIENCE, poll)
}

/// Polls until `poll` returns a value; returns `None` if there is none within `timeout`.
pub fn within<T>(timeout: Duration, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        // Polls once more after the timeout, as this process may have been stopped meanwhile.
        let is_last = start.elapsed() >= timeout;
        match poll() {
            None if !is_last => std::thread::sleep(POLL_INTERVAL),
            value => return value,
        }
    }
}
