//! [`FollowWaker`]: ends waits for new rows from other threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::map::{Mapping, MutexExt, SharedWords};

/// Ends the wait of a [`TableFollower`](crate::TableFollower) from any thread; created by
/// [`TableFollower::waker`](crate::TableFollower::waker).
#[derive(Clone, Debug)]
pub struct FollowWaker(Arc<WakeSignal>);

/// State shared between a follower and the threads that wake it.
#[derive(Debug, Default)]
struct WakeSignal {
    is_rung: AtomicBool,
    /// Set around a sleep, in which only a wake-up is noticed.
    is_asleep: AtomicBool,
    /// The word of a file that the follower sleeps on, or slept on last.
    word: Mutex<Option<(Mapping, u64)>>,
}

/// The time between two wake-ups of a follower that may not have been asleep yet at the first.
const AGAIN: Duration = Duration::from_micros(100);

impl FollowWaker {
    pub(super) fn new() -> FollowWaker {
        FollowWaker(Arc::default())
    }

    /// Makes the current call of [`TableFollower::poll`](crate::TableFollower::poll) return at once, or the next call if none is
    /// waiting. Rows that are there are returned all the same.
    pub fn wake(&self) {
        let WakeSignal { is_rung, is_asleep, word } = &*self.0;
        is_rung.store(true, Ordering::SeqCst);
        while is_asleep.load(Ordering::SeqCst) && is_rung.load(Ordering::SeqCst) {
            let awaited = word.lock_ignoring_poison().clone();
            if let Some((words, offset)) = awaited {
                words.wake(offset);
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Returns true if it was woken since the last call.
    pub(super) fn take(&self) -> bool {
        self.0.is_rung.load(Ordering::Relaxed) && self.0.is_rung.swap(false, Ordering::SeqCst)
    }

    /// Calls `sleep`, which sleeps on the word at `offset`, unless the follower was woken before.
    pub(super) fn sleep_with(&self, words: &Mapping, offset: u64, sleep: impl FnOnce()) {
        let WakeSignal { is_rung, is_asleep, word } = &*self.0;
        *word.lock_ignoring_poison() = Some((words.clone(), offset));
        is_asleep.store(true, Ordering::SeqCst);
        if !is_rung.load(Ordering::SeqCst) {
            sleep();
        }
        is_asleep.store(false, Ordering::SeqCst);
    }
}
