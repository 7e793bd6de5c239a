//! [`CancelToken`]: cancels a query on request or after a timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use datafusion::common::exec_err;
use datafusion::error::Result;

/// Cancels a query that was given up or is out of time.
///
/// Tokio can abort a task only where it waits; code between such points calls [`check`](CancelToken::check). Clones
/// share the flag. A thread that sees it only stops, and reads nothing that was written before: its order is relaxed.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    is_cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl CancelToken {
    /// Creates a token that cancels its query after `timeout`.
    pub fn after(timeout: Duration) -> CancelToken {
        CancelToken { deadline: Instant::now().checked_add(timeout), ..CancelToken::default() }
    }

    /// Cancels the query.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns an error if the query was cancelled or its deadline has passed.
    ///
    /// # Errors
    /// `Execution` if so.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return exec_err!("the query was given up");
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                exec_err!("the query took longer than it may (--query-timeout)")
            }
            _ => Ok(()),
        }
    }
}
