//! [`ResultBudget`]: the memory for results of functions, which DataFusion's pool does not know: it has what sorts, joins and groups
//! keep.

use arrowwood::mapping::MutexExt;
use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::error::{DataFusionError, Result};

/// Results below this are made without a look at the process.
const SMALL: u128 = 1 << 20;
/// What a program takes before it answers anything.
const OWN: u64 = 512 << 20;

/// The most memory of its own that the process may have when a large result is made.
#[derive(Debug, Default)]
pub(crate) struct ResultBudget {
    bytes: AtomicU64,
    /// What results that are being made will take.
    reserved: AtomicU64,
    /// Where it does not depend on queries alone: gives more.
    source: Mutex<Option<Arc<dyn MemorySource>>>,
}

/// What gives a process more memory.
pub(crate) trait MemorySource: fmt::Debug + Send + Sync {
    /// The most that the process may have, after so many more bytes were asked for. `None` if it does not get them.
    fn more(&self, bytes: u64) -> Option<u64>;
}

/// The memory for a result, until it is made and the process has it.
#[derive(Debug)]
pub(crate) struct Reservation<'a>(&'a AtomicU64, u64);

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl ResultBudget {
    /// That for queries of so many bytes.
    pub fn set_query_memory(&self, bytes: usize) {
        if self.source.lock_ignoring_poison().is_some() {
            return;
        }
        self.bytes.store(OWN.saturating_add((bytes as u64).saturating_mul(4)), Ordering::Relaxed);
    }

    /// So many bytes, and more from `source`, whatever queries may have.
    pub fn set_source(&self, bytes: u64, source: Arc<dyn MemorySource>) {
        self.bytes.store(bytes, Ordering::Relaxed);
        *self.source.lock_ignoring_poison() = Some(source);
    }

    /// Asks for more. False if there is no more.
    fn grow(&self, bytes: u64) -> bool {
        let source = self.source.lock_ignoring_poison().clone();
        let most = source.and_then(|source| source.more(bytes));
        if let Some(most) = most {
            self.bytes.store(most, Ordering::Relaxed);
        }
        most.is_some()
    }

    /// Reserves memory for a result, so that several at once don't take the same.
    pub fn reserve(&self, bytes: u128, name: &str) -> Result<Reservation<'_>> {
        if bytes < SMALL {
            return Ok(Reservation(&self.reserved, 0));
        }
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut reserved = self.try_reserve(wanted);
        if let Err(left) = reserved
            && self.grow(wanted - left)
        {
            reserved = self.try_reserve(wanted);
        }
        reserved.map_err(|left| {
            DataFusionError::ResourcesExhausted(format!("{name} would make {bytes} bytes, and there are {left} left"))
        })
    }

    /// Reserves so many bytes; or returns how many are left, which are fewer.
    fn try_reserve(&self, wanted: u64) -> Result<Reservation<'_>, u64> {
        let most = self.bytes.load(Ordering::Relaxed);
        let has = anonymous_memory().unwrap_or(0);
        let left = |reserved: u64| most.saturating_sub(has).saturating_sub(reserved);
        let more = |reserved| (wanted <= left(reserved)).then(|| reserved + wanted);
        match self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Reservation(&self.reserved, wanted)),
            Err(reserved) => Err(left(reserved)),
        }
    }
}

/// Bytes of memory that the process has beside files.
pub(crate) fn anonymous_memory() -> Option<u64> {
    status_bytes("RssAnon:")
}

/// What the process has of a kind of memory, in bytes.
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
        let most = ResultBudget::default();
        most.set_query_memory(1 << 40);
        let half = u128::from(most.bytes.load(Ordering::Relaxed)) / 5 * 3;
        let first = most.reserve(half, "repeat").unwrap();
        let error = most.reserve(half, "repeat").unwrap_err();
        assert!(error.to_string().contains("repeat would make"), "{error}");
        drop(first);
        drop(most.reserve(half, "repeat").unwrap());
        assert_eq!(most.reserved.load(Ordering::Relaxed), 0);
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

        let most = ResultBudget::default();
        most.set_source(1 << 40, Arc::new(LimitedSource(AtomicU64::new(1 << 40))));
        // What a query may have is nothing beside that.
        most.set_query_memory(0);
        let first = most.reserve(1 << 40, "repeat").unwrap();
        assert!(most.reserve(1 << 40, "repeat").is_err());
        drop(first);
        drop(most.reserve(1 << 40, "repeat").unwrap());
    }
}
