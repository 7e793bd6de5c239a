//! [`QueryPool`]: the memory pool of one query, which takes memory from a pool of all queries; and the limit of its
//! temporary files.

use std::fmt;
use std::sync::{Arc, Mutex};

use arrowwood::mapping::MutexExt;
use arrowwood_serve::SqlMemory;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// The maximum size of a query's temporary files, as a multiple of its memory.
pub(super) const MAX_SPILL_FACTOR: u64 = 8;
/// An operator spills if it has more than one part in so many of the memory: less would free too little.
const MIN_SPILL_DIVISOR: usize = 16;
/// One part in so many of the memory is left to operators that can't spill, such as the merge of spilled rows.
const UNSPILLABLE_DIVISOR: usize = 4;

/// Shares a query's memory fairly among its operators, which spill to temporary files beyond their share, and takes the
/// bytes that they reserve from the memory of all queries.
pub(super) struct QueryPool {
    operators: FairSpillPool,
    memory: Arc<dyn SqlMemory>,
    /// The bytes taken from `memory`: fewer than operators have reserved if some could not be refused.
    taken: Mutex<usize>,
}

impl QueryPool {
    pub fn new(memory: Arc<dyn SqlMemory>) -> QueryPool {
        QueryPool { operators: FairSpillPool::new(memory.max_bytes()), memory, taken: Mutex::new(0) }
    }

    /// Returns true if an operator that can spill should do so before it takes more memory.
    fn should_spill(&self, reservation: &MemoryReservation, additional: usize) -> bool {
        let max_bytes = self.memory.max_bytes();
        let is_worth_it = reservation.consumer().can_spill() && reservation.size() > max_bytes / MIN_SPILL_DIVISOR;
        let max_spillable_bytes = max_bytes - max_bytes / UNSPILLABLE_DIVISOR;
        is_worth_it && self.operators.reserved().saturating_add(additional) > max_spillable_bytes
    }

    /// Takes bytes from the memory of all queries. Returns false if they are not free.
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
        f.debug_struct("QueryPool").field("operators", &self.operators).finish_non_exhaustive()
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
        self.operators.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.operators.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.operators.grow(reservation, additional);
        self.take(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.operators.shrink(reservation, shrink);
        let mut taken = self.taken.lock_ignoring_poison();
        // Operators may have reserved more than was taken: then there is nothing to release.
        let surplus = taken.saturating_sub(self.operators.reserved());
        *taken -= surplus;
        self.memory.release(surplus);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.should_spill(reservation, additional) {
            let consumer = reservation.consumer().name();
            return Err(DataFusionError::ResourcesExhausted(format!("{consumer} should spill what it has")));
        }
        self.operators.try_grow(reservation, additional)?;
        if self.take(additional) {
            return Ok(());
        }
        self.operators.shrink(reservation, additional);
        let consumer = reservation.consumer().name();
        Err(DataFusionError::ResourcesExhausted(format!(
            "other queries have what {additional} bytes for {consumer} would take"
        )))
    }

    fn reserved(&self) -> usize {
        self.operators.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.memory.max_bytes())
    }
}
