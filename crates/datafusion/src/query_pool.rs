//! [`QueryPool`]: the memory of one query, of what it shares with others.

use arrowwood::mapping::MutexExt;
use std::fmt;
use std::sync::{Arc, Mutex};

use arrowwood_serve::SqlMemory;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// Shares a query's memory fairly among its parts, which write to temporary files what is beyond; and takes what they
/// have of the memory of all queries.
pub(crate) struct QueryPool {
    parts: FairSpillPool,
    memory: Arc<dyn SqlMemory>,
    /// Bytes that were taken: fewer than its parts have where these could not be refused.
    taken: Mutex<usize>,
}

impl QueryPool {
    pub fn new(memory: Arc<dyn SqlMemory>) -> QueryPool {
        QueryPool { parts: FairSpillPool::new(memory.max_bytes()), memory, taken: Mutex::new(0) }
    }

    /// Returns true if a part that can write to files should do so before it takes more. A quarter is left to parts
    /// that can't, as the part that merges the rows that are written.
    fn should_spill(&self, reservation: &MemoryReservation, additional: usize) -> bool {
        let most = self.memory.max_bytes();
        let is_worth_it = reservation.consumer().can_spill() && reservation.size() > most / 16;
        is_worth_it && self.parts.reserved().saturating_add(additional) > most / 4 * 3
    }

    fn take(&self, bytes: usize) -> bool {
        let is_taken = self.memory.take(bytes);
        if is_taken {
            *self.taken.lock_ignoring_poison() += bytes;
        }
        is_taken
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        self.memory.release(*self.taken.lock_ignoring_poison());
    }
}

impl fmt::Debug for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryPool").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "arrowwood({} of {} bytes)", self.reserved(), self.memory.max_bytes())
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "arrowwood"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.parts.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.parts.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.parts.grow(reservation, additional);
        self.take(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.parts.shrink(reservation, shrink);
        let mut taken = self.taken.lock_ignoring_poison();
        let more = taken.saturating_sub(self.parts.reserved());
        *taken -= more;
        self.memory.release(more);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.should_spill(reservation, additional) {
            let who = reservation.consumer().name();
            return Err(DataFusionError::ResourcesExhausted(format!("{who} should spill what it has")));
        }
        self.parts.try_grow(reservation, additional)?;
        if self.take(additional) {
            return Ok(());
        }
        self.parts.shrink(reservation, additional);
        let who = reservation.consumer().name();
        Err(DataFusionError::ResourcesExhausted(format!(
            "other queries have what {additional} bytes for {who} would take"
        )))
    }

    fn reserved(&self) -> usize {
        self.parts.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.memory.max_bytes())
    }
}
