//! [`ResultBudget`]: limits the memory for results of functions, as DataFusion's memory pool accounts only for what
//! sorts, joins and groups retain.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrowwood::mapping::MutexExt;
use arrowwood::mapping::os::anonymous_memory;
use datafusion::error::{DataFusionError, Result};

/// Results of fewer bytes are allowed without a check.
const MIN_CHECKED_BYTES: u128 = 1 << 20;
/// The memory of the process that is not for queries.
const BASE_BYTES: u64 = 512 << 20;
/// The memory of the process that is for queries, as a multiple of the memory of one query.
const QUERY_MEMORY_FACTOR: u64 = 4;

/// The memory that the process is assumed to use where the system does not report it.
pub(crate) const UNKNOWN_BYTES: u64 = 0;

/// The maximum anonymous memory of the process, checked before a function makes a large result.
///
/// A result fits if its bytes, those of the results that are made at the same time, and the memory that the process
/// uses already are at most the maximum. [`reserve`](ResultBudget::reserve) adds the bytes to `reserved` in the same
/// atomic step in which it compares them with what is free, so that two threads can't take the same bytes; the dropped
/// [`Reservation`] subtracts them. The maximum and the used memory are read before that step and may be out of date, as
/// the memory of operators changes at any time. No other memory is read on the strength of these numbers, so that their
/// order is relaxed.
///
/// The maximum is set by whoever starts a query. If the budget has a source, only the source changes it from then on.
/// The lock of the source is not held during a request, which may wait for another process.
#[derive(Debug, Default)]
pub(crate) struct ResultBudget {
    /// The maximum anonymous memory of the process in bytes.
    max_process_bytes: AtomicU64,
    /// The bytes of results that are being made.
    reserved: AtomicU64,
    /// A source of more memory; `None` if the budget depends on the memory of queries alone.
    source: Mutex<Option<Arc<dyn MemorySource>>>,
}

/// A source of memory for a process.
pub(crate) trait MemorySource: fmt::Debug + Send + Sync {
    /// Requests `bytes` more, and returns the maximum memory of the process from now on. Returns `None` if refused.
    fn request(&self, bytes: u64) -> Option<u64>;
}

/// Memory reserved for a result until it is made, and then counts as memory of the process.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    reserved: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let reserved = self.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(reserved >= self.bytes, "{} bytes are released of {reserved}", self.bytes);
    }
}

impl ResultBudget {
    /// Sets the budget for queries with `bytes` of memory each, unless it has a source.
    pub fn set_query_memory(&self, bytes: usize) {
        if self.source.lock_ignoring_poison().is_some() {
            return;
        }
        let max_bytes = BASE_BYTES.saturating_add((bytes as u64).saturating_mul(QUERY_MEMORY_FACTOR));
        self.max_process_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// Sets the budget to `bytes` and a source of more, independent of the memory of queries.
    pub fn set_source(&self, bytes: u64, source: Arc<dyn MemorySource>) {
        self.max_process_bytes.store(bytes, Ordering::Relaxed);
        *self.source.lock_ignoring_poison() = Some(source);
    }

    /// Requests `bytes` more from the source. Returns false if there is no source or it refuses.
    fn grow(&self, bytes: u64) -> bool {
        let source = self.source.lock_ignoring_poison().clone();
        let Some(max_bytes) = source.and_then(|source| source.request(bytes)) else { return false };
        self.max_process_bytes.store(max_bytes, Ordering::Relaxed);
        true
    }

    /// Reserves memory for a result of the function `name`, so that results made at the same time do not rely on the
    /// same memory.
    pub fn reserve(&self, bytes: u128, name: &str) -> Result<Reservation<'_>> {
        if bytes < MIN_CHECKED_BYTES {
            return Ok(Reservation { reserved: &self.reserved, bytes: 0 });
        }
        let requested = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut reservation = self.try_reserve(requested);
        if let Err(free) = reservation {
            assert!(free < requested, "{requested} bytes were refused though {free} are free");
            if self.grow(requested - free) {
                reservation = self.try_reserve(requested);
            }
        }
        reservation.map_err(|free| {
            DataFusionError::ResourcesExhausted(format!("{name} would make {bytes} bytes, and there are {free} left"))
        })
    }

    /// Reserves `requested` bytes, or returns the number of free bytes as the error.
    fn try_reserve(&self, requested: u64) -> Result<Reservation<'_>, u64> {
        let used = anonymous_memory().unwrap_or(UNKNOWN_BYTES);
        // The process may already use more than its budget.
        let free = self.max_process_bytes.load(Ordering::Relaxed).saturating_sub(used);
        let updated = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
            (requested <= free.saturating_sub(reserved)).then(|| reserved + requested)
        });
        match updated {
            Ok(_) => Ok(Reservation { reserved: &self.reserved, bytes: requested }),
            Err(reserved) => Err(free.saturating_sub(reserved)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_results_share_the_budget() {
        let budget = ResultBudget::default();
        budget.set_query_memory(1 << 40);
        let three_fifths = u128::from(budget.max_process_bytes.load(Ordering::Relaxed)) / 5 * 3;
        let first = budget.reserve(three_fifths, "repeat").unwrap();
        let error = budget.reserve(three_fifths, "repeat").unwrap_err();
        assert!(error.to_string().contains("repeat would make"), "{error}");
        drop(first);
        drop(budget.reserve(three_fifths, "repeat").unwrap());
        assert_eq!(budget.reserved.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn missing_memory_is_requested_from_the_source() {
        #[derive(Debug)]
        struct LimitedSource {
            granted: AtomicU64,
        }

        impl MemorySource for LimitedSource {
            fn request(&self, bytes: u64) -> Option<u64> {
                let total = self.granted.load(Ordering::Relaxed) + bytes;
                if total >= 2 << 40 {
                    return None;
                }
                self.granted.store(total, Ordering::Relaxed);
                Some(total)
            }
        }

        let budget = ResultBudget::default();
        budget.set_source(1 << 40, Arc::new(LimitedSource { granted: AtomicU64::new(1 << 40) }));
        // Has no effect, as there is a source.
        budget.set_query_memory(0);
        let first = budget.reserve(1 << 40, "repeat").unwrap();
        assert!(budget.reserve(1 << 40, "repeat").is_err());
        drop(first);
        drop(budget.reserve(1 << 40, "repeat").unwrap());
    }
}
