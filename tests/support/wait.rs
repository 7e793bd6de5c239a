//! Waits of tests: each is for a condition, has an end, and says there what it awaited.

#![allow(dead_code, reason = "some programs of tests use one of these")]

use std::time::{Duration, Instant};

/// Longer than anything takes that comes at all, also on a machine with much else to do.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks: the test loses little, and what it awaits gets the processor.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until `is_so`; `what` says in a failure what that is.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Waits for what `look` finds, and returns it.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    match within_patience(look) {
        Some(found) => found,
        None => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Waits for what `look` finds; returns `None` if it finds nothing within `PATIENCE`.
pub fn within_patience<T>(look: impl FnMut() -> Option<T>) -> Option<T> {
    within(PATIENCE, look)
}

/// As `within_patience`, within `time`.
pub fn within<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        // The last look comes after the end: this process may have been stopped meanwhile.
        let is_last = begun.elapsed() >= time;
        match look() {
            None if !is_last => std::thread::sleep(PAUSE),
            found => return found,
        }
    }
}
