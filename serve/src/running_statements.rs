//! [`RunningStatements`]: the SQL statements that are running, each in a [`StatementSlot`] by which it can be cancelled.
//!
//! A statement counts until the engine has dropped all of it, which may be after the end of its request: planning can't be
//! interrupted.

use arrowwood::mapping::MutexExt;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::problem::{Problem, Result};

/// The running statements.
#[derive(Clone, Default)]
pub(crate) struct RunningStatements {
    running: Arc<Mutex<HashMap<u64, Entry>>>,
    last: Arc<AtomicU64>,
}

struct Entry {
    /// Its name for clients.
    id: u64,
    token: Option<String>,
    cancel: watch::Sender<bool>,
}

/// The entry of a running statement.
pub(crate) struct StatementSlot {
    held: Arc<StatementGuard>,
    cancelled: watch::Receiver<bool>,
}

/// Keeps a statement among those that are running.
pub(crate) struct StatementGuard {
    number: u64,
    statements: RunningStatements,
}

impl StatementSlot {
    /// What keeps the statement counted until it is dropped.
    pub fn held(&self) -> Arc<StatementGuard> {
        self.held.clone()
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&mut self) {
        if self.cancelled.wait_for(|is_cancelled| *is_cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for StatementGuard {
    fn drop(&mut self) {
        self.statements.lock().remove(&self.number);
    }
}

impl RunningStatements {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.running.lock_ignoring_poison()
    }

    /// Adds a statement, of the caller with this token.
    ///
    /// # Errors
    /// 503 if `most` statements are running, or half as many of this token.
    pub fn begin(&self, token: Option<&str>, id: u64, most: usize) -> Result<StatementSlot> {
        let mut running = self.lock();
        let own = running.values().filter(|entry| token.is_some() && entry.token.as_deref() == token).count();
        if running.len() >= most || own >= most.div_ceil(2) {
            return Err(Problem::unavailable(format!("{} queries run already; try again", running.len())));
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (cancel, cancelled) = watch::channel(false);
        running.insert(number, Entry { id, token: token.map(str::to_owned), cancel });
        Ok(StatementSlot { held: Arc::new(StatementGuard { number, statements: self.clone() }), cancelled })
    }

    /// Cancels statement `id` of the caller with this token; returns whether it is running.
    pub fn cancel(&self, token: Option<&str>, id: u64) -> bool {
        let running = self.lock();
        let found = running.values().filter(|entry| entry.id == id && entry.token.as_deref() == token);
        found.fold(false, |_, entry| {
            entry.cancel.send_replace(true);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_counts_until_the_engine_has_dropped_it() {
        let statements = RunningStatements::default();
        let place = statements.begin(None, 7, 1).unwrap();
        let held = place.held();
        drop(place);
        assert!(statements.begin(None, 8, 1).is_err(), "the engine still plans it");
        drop(held);
        assert!(statements.begin(None, 8, 1).is_ok());
    }
}
