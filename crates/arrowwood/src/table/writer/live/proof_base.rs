//! The durable commit since which a segment's visible commits are proven.
//!
//! A visible commit has a checksum of what was appended since a durable record, its base, which readers must find in
//! the file. There are two durable records, so the second one after the base is written over it. Before that, the
//! thread that makes commits durable gives the newest visible commit a later proof (`LiveFile::renew_proof`). It must
//! not miss a commit that the writer makes at this moment:
//!
//! ```text
//! writer                                       thread that makes commits durable
//! sequence of the visible commit = next        base = the durable record just written
//! ── full fence ──                             ── full fence ──
//! another base than the commit's own:          before the next durable record:
//!     commit once more, with the new base          renew the proof of the newest visible commit
//! ```
//! Because of the two fences at least one side sees what the other has stored: the writer finds the new base, or the
//! other thread finds the commit. The word compared by the writer is relaxed for that reason. It takes the base itself
//! under the lock.

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
        // Before this thread looks for the newest visible commit again.
        fence(Ordering::SeqCst);
    }

    /// Returns the commit since which others are to be proven.
    pub fn get(&self) -> ProofBase {
        self.base.lock_ignoring_poison().clone()
    }

    /// Returns the number of that commit.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }
}
