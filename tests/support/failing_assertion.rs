//! An assertion that fails in the middle of a write.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use arrowwood::simulate::{FsObserver, FsOp};

/// The text of the failed assertion.
pub const TEXT: &str = "an assertion that fails on purpose";

/// A disk that panics at one operation, as an assertion would beside it.
#[derive(Debug, Default)]
pub struct FailingAssertion {
    /// The number of operations up to the one that panics; 0 if none does.
    left: AtomicU64,
}

impl FailingAssertion {
    /// Lets operation `number` from now on panic, counted from 1.
    pub fn arm(&self, number: u64) {
        static QUIET: Once = Once::new();
        QUIET.call_once(|| {
            let print = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if panic.payload().downcast_ref::<&str>().copied() != Some(TEXT) {
                    print(panic);
                }
            }));
        });
        self.left.store(number, Ordering::SeqCst);
    }

    /// Lets no operation panic; returns whether one has since [`FailingAssertion::arm`].
    pub fn disarm(&self) -> bool {
        self.left.swap(0, Ordering::SeqCst) == 0
    }
}

impl FsObserver for FailingAssertion {
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()> {
        // A file without a name is removed when it is dropped, which may be while another panic is under way.
        if matches!(op, FsOp::Remove { .. }) {
            return Ok(());
        }
        let before = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(before != Ok(1), "{TEXT}");
        Ok(())
    }
}
