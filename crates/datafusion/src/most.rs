//! [`Most`]: the memory for results of functions, which DataFusion's pool does not know: it has what sorts, joins and groups
//! keep.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::error::{DataFusionError, Result};

/// Results below this are made without a look at the process.
const SMALL: u128 = 1 << 20;
/// What a program takes before it answers anything.
const OWN: u64 = 512 << 20;

/// The most memory of its own that the process may have when a large result is made.
#[derive(Debug, Default)]
pub(crate) struct Most {
    bytes: AtomicU64,
    /// What results that are being made will take.
    reserved: AtomicU64,
}

/// The memory for a result, until it is made and the process has it.
#[derive(Debug)]
pub(crate) struct Reserved<'a>(&'a AtomicU64, u64);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Most {
    /// That for queries of so many bytes.
    pub fn set(&self, bytes: usize) {
        self.bytes.store(OWN.saturating_add((bytes as u64).saturating_mul(4)), Ordering::Relaxed);
    }

    /// Reserves memory for a result, so that several at once don't take the same.
    pub fn reserve(&self, bytes: u128, name: &str) -> Result<Reserved<'_>> {
        if bytes < SMALL {
            return Ok(Reserved(&self.reserved, 0));
        }
        let most = self.bytes.load(Ordering::Relaxed);
        let has = own_memory().unwrap_or(0);
        let left = |reserved: u64| most.saturating_sub(has).saturating_sub(reserved);
        let wanted = u64::try_from(bytes).unwrap_or(u64::MAX);
        let more = |reserved| (wanted <= left(reserved)).then(|| reserved + wanted);
        match self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Reserved(&self.reserved, wanted)),
            Err(reserved) => {
                let message = format!("{name} would make {bytes} bytes, and there are {} left", left(reserved));
                Err(DataFusionError::ResourcesExhausted(message))
            }
        }
    }
}

/// Bytes of memory that the process has beside files.
fn own_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_made_at_the_same_time_share_the_memory() {
        let most = Most::default();
        most.set(1 << 40);
        let half = u128::from(most.bytes.load(Ordering::Relaxed)) / 5 * 3;
        let first = most.reserve(half, "repeat").unwrap();
        let error = most.reserve(half, "repeat").unwrap_err();
        assert!(error.to_string().contains("repeat would make"), "{error}");
        drop(first);
        drop(most.reserve(half, "repeat").unwrap());
        assert_eq!(most.reserved.load(Ordering::Relaxed), 0);
    }
}
