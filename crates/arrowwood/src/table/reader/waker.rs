//! [`FollowWaker`]: ends waits for new rows from other threads.
//!
//! A follower sleeps in the kernel on a word of a segment's file, which its writer changes. Another thread of the
//! follower's process can't change that word. It sets a flag, and makes the kernel wake all that sleep on the word:
//!
//! ```text
//! waker                                   follower
//! is_woken = true                         word = the word to sleep on
//! is_asleep, and is_woken still set:      is_asleep = true
//!     wake those that sleep on `word`     is_woken not set: sleep on `word`
//!     wait, and look again                is_asleep = false
//!                                         returns from `poll`: is_woken = false
//! ```
//! Both store one flag and then load the other, sequentially consistent, so at least one of them sees the other's
//! store: the follower doesn't begin to sleep, or the waker finds it asleep. In the second case the follower may still
//! be on its way into the kernel, where the first wake-up doesn't find it. So the waker repeats it until the follower
//! has left the sleep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::map::{Mapping, MutexExt, SharedWords};

/// The time between two wake-ups of a follower that may not have been asleep yet at the first.
const RETRY_INTERVAL: Duration = Duration::from_micros(100);

/// A handle that ends the wait of a [`TableFollower`](crate::TableFollower) from any thread.
///
/// [`TableFollower::waker`](crate::TableFollower::waker) returns it.
#[derive(Clone, Debug)]
pub struct FollowWaker(Arc<WakeSignal>);

/// The state shared by a follower and the threads that wake it.
#[derive(Debug, Default)]
struct WakeSignal {
    /// True if the follower was woken and has not returned since.
    is_woken: AtomicBool,
    /// True from before the follower checks `is_woken` until it has left the sleep on `word`.
    is_asleep: AtomicBool,
    /// The word of a file that the follower sleeps on, or slept on last: its mapping and offset.
    word: Mutex<Option<(Mapping, u64)>>,
}

impl FollowWaker {
    pub(super) fn new() -> FollowWaker {
        FollowWaker(Arc::default())
    }

    /// Makes the current call of [`TableFollower::poll`](crate::TableFollower::poll) return at once, or the next call
    /// if none is waiting.
    ///
    /// Rows that are there are returned all the same.
    ///
    /// Blocks until a waiting call has left its sleep, which takes a fraction of a millisecond on an idle machine. It
    /// may not have returned yet.
    pub fn wake(&self) {
        let WakeSignal { is_woken, is_asleep, word } = &*self.0;
        is_woken.store(true, Ordering::SeqCst);
        while is_asleep.load(Ordering::SeqCst) && is_woken.load(Ordering::SeqCst) {
            let awaited = word.lock_ignoring_poison().clone();
            if let Some((words, offset)) = awaited {
                words.wake(offset);
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Returns true if it was woken since the last call.
    pub(super) fn take(&self) -> bool {
        self.0.is_woken.load(Ordering::Relaxed) && self.0.is_woken.swap(false, Ordering::SeqCst)
    }

    /// Calls `sleep`, which sleeps on the word at `offset`, unless the follower was woken before. For the follower
    /// alone.
    pub(super) fn sleep_with(&self, words: &Mapping, offset: u64, sleep: impl FnOnce()) {
        let signal = &*self.0;
        *signal.word.lock_ignoring_poison() = Some((words.clone(), offset));
        let _asleep = Asleep::new(&signal.is_asleep);
        if !signal.is_woken.load(Ordering::SeqCst) {
            sleep();
        }
    }
}

/// Sets the flag of a sleeping follower while it exists. A panic in the sleep clears it as well: otherwise
/// [`FollowWaker::wake`] would wait forever.
struct Asleep<'a>(&'a AtomicBool);

impl Asleep<'_> {
    fn new(is_asleep: &AtomicBool) -> Asleep<'_> {
        is_asleep.store(true, Ordering::SeqCst);
        Asleep(is_asleep)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;

    use super::*;
    use crate::map::Mode;

    /// After a panic in the sleep the flag stayed set, and `wake` never returned.
    #[test]
    fn wake_returns_after_a_panic_in_the_sleep() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let words = Mapping::open(file.path(), Mode::ReadWrite).unwrap();
        let waker = FollowWaker::new();

        let slept = catch_unwind(AssertUnwindSafe(|| waker.sleep_with(&words, 0, || panic!("on purpose"))));
        assert!(slept.is_err());

        let (has_woken, woken) = channel();
        let other = waker.clone();
        std::thread::spawn(move || {
            other.wake();
            has_woken.send(()).unwrap();
        });
        woken.recv_timeout(Duration::from_secs(60)).expect("wake returns");
        assert!(waker.take());
    }
}
