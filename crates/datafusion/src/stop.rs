//! [`Stop`]: ends a query that nobody wants any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::exec_err;
use datafusion::error::Result;

/// Whether a query is given up. Tokio drops a task only where it waits; this ends what does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    #[cfg(feature = "engine")]
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { exec_err!("the query was given up") } else { Ok(()) }
    }
}
