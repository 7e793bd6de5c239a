//! Runs blocking work beside the threads that move bytes.

use std::io;

/// Runs blocking work on a thread of its own.
///
/// # Errors
/// If the work panicked, or the runtime is shut down.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| io::Error::other("the work was given up"))
}
