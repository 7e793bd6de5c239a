//! [`MemoryShare`]: the part of the memory of all queries that a query process may use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrowwood_serve::SqlMemory;

/// A process starts with one part in so many of the free memory, so as to leave enough for many others.
const INITIAL_DIVISOR: usize = 10;
/// The minimum bytes that a process starts with.
const MIN_INITIAL_BYTES: usize = 1 << 20;
/// The time between attempts to take memory that other queries have not released yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The bytes that a process takes apart from its query.
const BASE_BYTES: u64 = 32 << 20;

/// A process gets so many times the bytes that operators may retain, for what they do not account for.
pub(super) const PROCESS_FACTOR: u64 = 2;

/// Memory that is taken while a process works on a query, and released on drop.
pub(super) struct MemoryShare {
    memory: Arc<dyn SqlMemory>,
    /// The bytes taken from `memory`. Changed only after they are taken, by the thread that answers the process.
    bytes: AtomicUsize,
}

/// Returns the maximum bytes by which a process may grow if the operators of its query may retain `share` bytes.
pub(super) fn process_limit(share: u64) -> u64 {
    share.saturating_mul(PROCESS_FACTOR).saturating_add(BASE_BYTES)
}

impl MemoryShare {
    /// Takes a part of the free memory, and waits for other queries if too little is free.
    pub async fn take(memory: Arc<dyn SqlMemory>) -> MemoryShare {
        let max_bytes = memory.max_bytes();
        loop {
            let bytes = (memory.free() / INITIAL_DIVISOR).max(MIN_INITIAL_BYTES).min(max_bytes);
            if memory.take(bytes) {
                return MemoryShare { memory, bytes: AtomicUsize::new(bytes) };
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Returns the bytes that operators of the query may retain.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// Returns the maximum of [`bytes`](Self::bytes).
    pub fn max_bytes(&self) -> u64 {
        self.memory.max_bytes() as u64
    }

    /// Takes more bytes. Returns false if they are not free or exceed the maximum of a query.
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
