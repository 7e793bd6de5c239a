//! Counts the panics of this process.
//!
//! If a task of the engine panics, the task that receives its rows takes that for the end of the rows. An answer during
//! which anything panicked is therefore an error.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static HOOK: Once = Once::new();

/// Starts to count panics. The panic hook that was set before still runs.
pub(super) fn watch() {
    HOOK.call_once(|| {
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            COUNT.fetch_add(1, Ordering::SeqCst);
            previous_hook(panic);
        }));
    });
}

/// Returns the number of panics since [`watch`].
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::SeqCst)
}
