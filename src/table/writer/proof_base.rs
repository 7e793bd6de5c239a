//! The durable commit since which a segment's commits are proven.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::map::MutexExt;
use crate::table::format::Record;

/// A durable commit; the default is an empty segment.
#[derive(Clone, Debug, Default)]
pub(super) struct ProofBase {
    pub sequence: u64,
    /// Empty for the default.
    pub counters: Vec<u64>,
}

/// The newest durable commit, set by the thread that makes commits durable, for the thread that commits.
#[derive(Debug, Default)]
pub(super) struct NewestProofBase {
    base: Mutex<ProofBase>,
    /// Its sequence, to be compared without the lock.
    sequence: AtomicU64,
}

impl NewestProofBase {
    /// Sets the commit since which others are proven from now on. It is on the disk.
    pub fn set(&self, record: &Record) {
        let base = ProofBase { sequence: record.sequence, counters: record.counters.clone() };
        let mut newest = self.base.lock_ignoring_poison();
        assert!(newest.sequence < base.sequence, "durable commits are numbered in their order");
        *newest = base;
        drop(newest);
        self.sequence.store(record.sequence, Ordering::Relaxed);
        // Either the writer sees this after its next commit, or the thread that makes that one durable sees the commit.
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
