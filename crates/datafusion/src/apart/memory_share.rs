//! [`MemoryShare`]: the part of the memory of all queries that one process takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrowwood_serve::SqlMemory;

/// The part of what is free that a process begins with: many may begin, and the first ones have more than enough.
const PART: usize = 10;
/// With less than this no process begins.
const LEAST: usize = 1 << 20;
/// The time between checks for memory that other queries have released.
const PAUSE: Duration = Duration::from_millis(20);
/// The bytes that a process takes apart from its query.
const OWN: u64 = 32 << 20;

/// Bytes that are taken for as long as a process works on a query.
pub(crate) struct MemoryShare {
    memory: Arc<dyn SqlMemory>,
    bytes: AtomicUsize,
}

/// The bytes that a process may have beyond those that it had before, if the steps of its query may keep `share`: as
/// many again for what they do not keep.
pub(crate) fn limit_of(share: u64) -> u64 {
    share.saturating_mul(2).saturating_add(OWN)
}

impl MemoryShare {
    /// Takes a part of what is free; waits for others if that is next to nothing.
    pub async fn take(memory: Arc<dyn SqlMemory>) -> MemoryShare {
        let max_bytes = memory.max_bytes();
        loop {
            let bytes = (memory.free() / PART).max(LEAST).min(max_bytes);
            if memory.take(bytes) {
                return MemoryShare { memory, bytes: AtomicUsize::new(bytes) };
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the bytes that steps of the query may keep.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// Returns the maximum of [`bytes`](Self::bytes).
    pub fn most(&self) -> u64 {
        self.memory.max_bytes() as u64
    }

    /// Takes more bytes. Returns false if they are not free, or are more than a query may have.
    pub fn grow(&self, bytes: u64) -> bool {
        let Ok(bytes) = usize::try_from(bytes) else { return false };
        let is_taken = self.memory.take(bytes);
        if is_taken {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        is_taken
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.release(*self.bytes.get_mut());
    }
}
