//! [`PageCacheState`]: what an open segment knows of the page cache through which it is read. See
//! [`page_cache`](super::page_cache).

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of an unknown mount.
pub(super) const UNKNOWN_MOUNT: u64 = 0;

/// The page cache through which a segment is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageCache {
    /// It was not checked yet.
    Unknown,
    /// It is the writer's.
    Same,
    /// It may be another one than the writer's. The newest commit is known to be on the disk, with all segments before.
    Synced,
    /// It has the rows of the newest commit, and may be another one than the writer's.
    HasRows,
    /// It is another one than the writer's. The commit with this number is lost, with all earlier ones.
    Lost(u64),
}

/// A [`PageCache`] that threads share, as one word.
///
/// Threads that find it unknown each find it out from the file, and store the result. It is stored and loaded relaxed:
/// no other memory depends on it, and each of the results is right.
#[derive(Debug)]
pub(super) struct PageCacheState(AtomicU64);

// The words for all values but `Lost`, whose word is its number.
const UNKNOWN: u64 = u64::MAX;
const SAME: u64 = u64::MAX - 1;
const SYNCED: u64 = u64::MAX - 2;
const HAS_ROWS: u64 = u64::MAX - 3;

impl PageCacheState {
    #[inline]
    pub(super) fn load(&self) -> PageCache {
        match self.0.load(Ordering::Relaxed) {
            UNKNOWN => PageCache::Unknown,
            SAME => PageCache::Same,
            SYNCED => PageCache::Synced,
            HAS_ROWS => PageCache::HasRows,
            sequence => PageCache::Lost(sequence),
        }
    }

    pub(super) fn store(&self, state: PageCache) {
        let word = match state {
            PageCache::Unknown => UNKNOWN,
            PageCache::Same => SAME,
            PageCache::Synced => SYNCED,
            PageCache::HasRows => HAS_ROWS,
            // Numbers of records are less than 2⁶²; a damaged number may be any.
            PageCache::Lost(sequence) => sequence.min(HAS_ROWS - 1),
        };
        self.0.store(word, Ordering::Relaxed);
    }
}

impl Default for PageCacheState {
    fn default() -> PageCacheState {
        PageCacheState(AtomicU64::new(UNKNOWN))
    }
}

impl Clone for PageCacheState {
    fn clone(&self) -> PageCacheState {
        PageCacheState(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}
