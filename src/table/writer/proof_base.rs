//! The durable commit since which a segment's commits are proven.

use crate::map::MutexExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::table::format::Record;

/// A durable commit; the default is that of an empty segment.
#[derive(Clone, Debug, Default)]
pub(super) struct ProofBase {
    pub sequence: u64,
    /// None of the default.
    pub counters: Vec<u64>,
}

/// The newest one, set by whoever makes commits durable, for the thread that commits.
#[derive(Debug, Default)]
pub(super) struct NewestProofBase {
    base: Mutex<ProofBase>,
    /// Its sequence, for a glance.
    sequence: AtomicU64,
}

impl NewestProofBase {
    /// From now on, commits are proven since `record`, which is on the disk.
    pub fn set(&self, record: &Record) {
        let base = ProofBase { sequence: record.sequence, counters: record.counters.clone() };
        *self.base.lock_ignoring_poison() = base;
        self.sequence.store(record.sequence, Ordering::Relaxed);
        // Either the writer sees this after its next commit, or who makes that one durable sees the commit.
        fence(Ordering::SeqCst);
    }

    pub fn get(&self) -> ProofBase {
        self.base.lock_ignoring_poison().clone()
    }

    #[inline]
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }
}
