//! Limits the number of running SQL statements, and cancels them.
//!
//! Each statement takes a [`StatementSlot`] of [`RunningStatements`]. It counts until the engine has dropped all of it,
//! which may be after the end of its request, as planning can't be interrupted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arrowwood::mapping::MutexExt;
use tokio::sync::watch;

use crate::http::{Problem, Result};

/// The number of tokens that may each run their maximum of statements at once.
const TOKENS_AT_MAXIMUM: usize = 2;

/// The running statements.
///
/// A statement has two numbers: its key here, which is unique, and the id that its client has chosen or got, by which
/// it is cancelled, and which several runs of one statement may share.
#[derive(Clone, Default)]
pub(crate) struct RunningStatements {
    /// The entry of each statement, by its number.
    running: Arc<Mutex<HashMap<u64, Entry>>>,
    /// Only makes numbers unique, for which any ordering is enough.
    next_number: Arc<AtomicU64>,
}

/// What is known about a running statement.
struct Entry {
    /// The name by which clients cancel the statement.
    id: u64,
    /// The name of the caller's token, who alone may cancel the statement.
    token: Option<String>,
    /// Becomes true when the statement is cancelled.
    cancel: watch::Sender<bool>,
}

/// The entry of a running statement.
pub(crate) struct StatementSlot {
    guard: Arc<StatementGuard>,
    cancelled: watch::Receiver<bool>,
}

/// Counts a statement as running until it is dropped.
pub(crate) struct StatementGuard {
    number: u64,
    statements: RunningStatements,
}

impl StatementSlot {
    /// Returns the guard that counts the statement as running.
    pub fn guard(&self) -> Arc<StatementGuard> {
        self.guard.clone()
    }

    /// Waits until the statement is cancelled.
    pub async fn cancelled(&mut self) {
        // Without a sender, the statement can't be cancelled any more.
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

    /// Adds a statement of the caller with the token named `token`.
    ///
    /// # Errors
    /// 503 if `max_running` statements are running, or half as many with this token.
    pub fn begin(&self, token: Option<&str>, id: u64, max_running: usize) -> Result<StatementSlot> {
        let mut running = self.lock();
        let running_of_token = match token {
            Some(_) => running.values().filter(|entry| entry.token.as_deref() == token).count(),
            None => 0,
        };
        if running.len() >= max_running || running_of_token >= max_running.div_ceil(TOKENS_AT_MAXIMUM) {
            return Err(Problem::unavailable(format!("{} queries run already; try again", running.len())));
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (cancel, cancelled) = watch::channel(false);
        let replaced = running.insert(number, Entry { id, token: token.map(str::to_owned), cancel });
        assert!(replaced.is_none(), "two running statements have the number {number}");
        Ok(StatementSlot { guard: Arc::new(StatementGuard { number, statements: self.clone() }), cancelled })
    }

    /// Cancels statement `id` of the caller with the token named `token`. Returns true if it is running.
    pub fn cancel(&self, token: Option<&str>, id: u64) -> bool {
        let running = self.lock();
        let mut is_running = false;
        for entry in running.values().filter(|entry| entry.id == id && entry.token.as_deref() == token) {
            entry.cancel.send_replace(true);
            is_running = true;
        }
        is_running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_counts_until_the_engine_drops_it() {
        let statements = RunningStatements::default();
        let slot = statements.begin(None, 7, 1).unwrap();
        let guard = slot.guard();
        drop(slot);
        assert!(statements.begin(None, 8, 1).is_err(), "the engine still plans it");
        drop(guard);
        assert!(statements.begin(None, 8, 1).is_ok());
    }
}
