//! Panics of this process. The engine's tasks pass rows on to each other; a task that panics would end its rows as if
//! there were no more. So an answer during which anything panicked is an error.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();

/// Counts panics from now on, before the hook that was set before.
pub(crate) fn watch() {
    WATCHED.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            COUNT.fetch_add(1, Ordering::SeqCst);
            tell(panic);
        }));
    });
}

/// Returns the number of panics since [`watch`].
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::SeqCst)
}
