//! [`CancelToken`]: ends a query that is given up or out of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "engine")]
use std::time::Duration;
use std::time::Instant;

use datafusion::common::exec_err;
use datafusion::error::Result;

/// Ends a query that is given up, or out of time. Tokio drops a task only where it waits; this ends what does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelToken {
    is_given_up: Arc<AtomicBool>,
    latest: Option<Instant>,
}

#[cfg(feature = "engine")]
impl CancelToken {
    /// Ends the query after this time, if nothing else does.
    pub fn after(time: Duration) -> CancelToken {
        CancelToken { latest: Instant::now().checked_add(time), ..CancelToken::default() }
    }

    pub fn cancel(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

impl CancelToken {
    pub fn check(&self) -> Result<()> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return exec_err!("the query was given up");
        }
        match self.latest {
            Some(latest) if Instant::now() >= latest => {
                exec_err!("the query took longer than it may (--query-timeout)")
            }
            _ => Ok(()),
        }
    }
}
