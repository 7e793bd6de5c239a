//! An assertion that fails in the middle of a write.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use arrowwood::simulate::{FsObserver, FsOp};

/// The message of the failed assertion.
pub const TEXT: &str = "an assertion that fails on purpose";

/// Panics before one file system operation, as a failed assertion in the writer would.
#[derive(Debug, Default)]
pub struct FailingAssertion {
    /// The number of operations up to and including the one that panics; 0 if none does.
    remaining: AtomicU64,
}

impl FailingAssertion {
    /// Makes the operation `number` from now on panic, counted from 1.
    pub fn arm(&self, number: u64) {
        static SILENCE_PANICS: Once = Once::new();
        SILENCE_PANICS.call_once(|| {
            let default_hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if panic.payload().downcast_ref::<&str>().copied() != Some(TEXT) {
                    default_hook(panic);
                }
            }));
        });
        self.remaining.store(number, Ordering::SeqCst);
    }

    /// Lets all operations succeed from now on; returns whether one panicked since [`FailingAssertion::arm`].
    pub fn disarm(&self) -> bool {
        self.remaining.swap(0, Ordering::SeqCst) == 0
    }
}

impl FsObserver for FailingAssertion {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        // An unnamed file is removed when it is dropped, possibly during another panic: a second one would abort.
        if matches!(op, FsOp::Remove { .. }) {
            return Ok(());
        }
        let before = self.remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
        assert!(before != Ok(1), "{TEXT}");
        Ok(())
    }
}
