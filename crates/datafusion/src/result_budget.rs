//! [`ResultBudget`]: the memory for results of functions, which DataFusion's pool does not know: it has what sorts,
//! joins and groups keep.

use arrowwood::mapping::MutexExt;
use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::error::{DataFusionError, Result};

/// Results below this are made without a look at the process.
const SMALL: u128 = 1 << 20;
/// The bytes that a program takes before it answers anything.
const OWN: u64 = 512 << 20;

/// The bytes that the process is taken to have where the system does not say.
pub(crate) const UNKNOWN_BYTES: u64 = 0;

/// The most memory of its own that the process may have when a large result is made.
#[derive(Debug, Default)]
pub(crate) struct ResultBudget {
    bytes: AtomicU64,
    /// The bytes of results that are being made.
    reserved: AtomicU64,
    /// A source of more memory, where the budget does not depend on queries alone.
    source: Mutex<Option<Arc<dyn MemorySource>>>,
}

/// A source of memory for a process.
pub(crate) trait MemorySource: fmt::Debug + Send + Sync {
    /// The most that the process may have, after so many more bytes were asked for. `None` if it does not get them.
    fn more(&self, bytes: u64) -> Option<u64>;
}

/// The memory for a result, until it is made and the process has it.
#[derive(Debug)]
pub(crate) struct Reservation<'a>(&'a AtomicU64, u64);

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let reserved = self.0.fetch_sub(self.1, Ordering::Relaxed);
        debug_assert!(reserved >= self.1, "{} bytes are released of {reserved}", self.1);
    }
}

impl ResultBudget {
    /// Sets the budget for queries of `bytes`, unless it has a source.
    pub fn set_query_memory(&self, bytes: usize) {
        if self.source.lock_ignoring_poison().is_some() {
            return;
        }
        self.bytes.store(OWN.saturating_add((bytes as u64).saturating_mul(4)), Ordering::Relaxed);
    }

    /// Sets the budget to `bytes`, and takes more from `source`, whatever queries may have.
    pub fn set_source(&self, bytes: u64, source: Arc<dyn MemorySource>) {
        self.bytes.store(bytes, Ordering::Relaxed);
        *self.source.lock_ignoring_poison() = Some(source);
    }

    /// Asks the source for more. Returns false if there is no more.
    fn grow(&self, bytes: u64) -> bool {
        let source = self.source.lock_ignoring_poison().clone();
        let Some(max_bytes) = source.and_then(|source| source.more(bytes)) else { return false };
        self.bytes.store(max_bytes, Ordering::Relaxed);
        true
    }

    /// Reserves memory for a result, so that several at once don't take the same.
    pub fn reserve(&self, bytes: u128, name: &str) -> Result<Reservation<'_>> {
        if bytes < SMALL {
            return Ok(Reservation(&self.reserved, 0));
        }
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut reserved = self.try_reserve(wanted);
        if let Err(left) = reserved {
            assert!(left < wanted, "{wanted} bytes were refused though {left} are left");
            if self.grow(wanted - left) {
                reserved = self.try_reserve(wanted);
            }
        }
        reserved.map_err(|left| {
            DataFusionError::ResourcesExhausted(format!("{name} would make {bytes} bytes, and there are {left} left"))
        })
    }

    /// Reserves `wanted` bytes; or returns how many are left, which are fewer.
    fn try_reserve(&self, wanted: u64) -> Result<Reservation<'_>, u64> {
        let used = anonymous_memory().unwrap_or(UNKNOWN_BYTES);
        let free = self.bytes.load(Ordering::Relaxed).saturating_sub(used);
        let updated = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
            (wanted <= free.saturating_sub(reserved)).then(|| reserved + wanted)
        });
        match updated {
            Ok(_) => Ok(Reservation(&self.reserved, wanted)),
            Err(reserved) => Err(free.saturating_sub(reserved)),
        }
    }
}

/// Returns the bytes of memory that the process has apart from files; `None` where the system does not say.
pub(crate) fn anonymous_memory() -> Option<u64> {
    status_bytes("RssAnon:")
}

/// Returns the bytes that the process has of a kind of memory; `None` where the system does not say.
pub(crate) fn status_bytes(kind: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(kind))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_made_at_the_same_time_share_the_memory() {
        let budget = ResultBudget::default();
        budget.set_query_memory(1 << 40);
        let half = u128::from(budget.bytes.load(Ordering::Relaxed)) / 5 * 3;
        let first = budget.reserve(half, "repeat").unwrap();
        let error = budget.reserve(half, "repeat").unwrap_err();
        assert!(error.to_string().contains("repeat would make"), "{error}");
        drop(first);
        drop(budget.reserve(half, "repeat").unwrap());
        assert_eq!(budget.reserved.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_source_is_asked_for_what_is_missing() {
        #[derive(Debug)]
        struct LimitedSource(AtomicU64);

        impl MemorySource for LimitedSource {
            fn more(&self, bytes: u64) -> Option<u64> {
                let all = self.0.load(Ordering::Relaxed) + bytes;
                (all < 2 << 40).then(|| {
                    self.0.store(all, Ordering::Relaxed);
                    all
                })
            }
        }

        let budget = ResultBudget::default();
        budget.set_source(1 << 40, Arc::new(LimitedSource(AtomicU64::new(1 << 40))));
        // The memory of queries does not matter next to a source.
        budget.set_query_memory(0);
        let first = budget.reserve(1 << 40, "repeat").unwrap();
        assert!(budget.reserve(1 << 40, "repeat").is_err());
        drop(first);
        drop(budget.reserve(1 << 40, "repeat").unwrap());
    }
}
