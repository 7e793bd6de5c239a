//! [`AppendVec`]: a vector that grows through `&self` and never moves its items, so that readers may hold references
//! while another thread pushes.
//!
//! The crate `boxcar` also has concurrent pushes, which are not needed here. It allocates 32 slots although most files
//! have one batch, has no binary search, and would be another dependency of `open`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of chunks. They have 2³² − 1 items with the first, and no address space has room for as many
/// batches.
const MAX_CHUNKS: usize = 31;

/// A vector that grows through `&self`: the first item, often the only one, is inside it, and further ones are in
/// chunks of 2, 4, 8 … items, allocated when they are needed.
///
/// One thread at a time may push, which callers ensure by a mutex. It sets the item's slot first, and then stores `len`
/// (release). Readers load `len` (acquire) and access only slots below it, which are set for good.
#[derive(Debug)]
pub(crate) struct AppendVec<T> {
    first: OnceLock<T>,
    chunks: OnceLock<Box<[OnceLock<Slots<T>>]>>,
    len: AtomicUsize,
}

/// The items of a chunk.
type Slots<T> = Box<[OnceLock<T>]>;

impl<T> AppendVec<T> {
    pub(crate) fn new() -> AppendVec<T> {
        AppendVec { first: OnceLock::new(), chunks: OnceLock::new(), len: AtomicUsize::new(0) }
    }

    pub(crate) fn len(&self) -> usize {
        // Acquire: a thread that sees the length sees the items below it.
        self.len.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        if i < self.len() { self.item(i) } else { None }
    }

    /// Returns item `i`, which is less than a length that this thread has seen.
    #[inline]
    fn item(&self, i: usize) -> Option<&T> {
        if i == 0 {
            return self.first.get();
        }
        let (chunk, position) = Self::locate(i);
        self.chunks.get()?.get(chunk)?.get()?.get(position)?.get()
    }

    /// Appends an item; returns false if the vector is full. Only one thread may push at a time.
    pub(crate) fn push(&self, item: T) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        let slot = if len == 0 {
            &self.first
        } else {
            let (chunk, position) = Self::locate(len);
            let chunks = self.chunks.get_or_init(|| empty_slots(MAX_CHUNKS));
            let Some(slots) = chunks.get(chunk) else { return false };
            &slots.get_or_init(|| empty_slots(Self::chunk_len(chunk)))[position]
        };
        let was_empty = slot.set(item).is_ok();
        assert!(was_empty, "item {len} was pushed twice");
        self.len.store(len + 1, Ordering::Release);
        true
    }

    /// Returns the number of the first item for which `before` is false, by binary search, or `len()`.
    pub(crate) fn partition_point(&self, before: impl Fn(&T) -> bool) -> usize {
        let mut low = 0;
        let mut high = self.len();
        while low < high {
            let middle = low + (high - low) / 2;
            match self.item(middle) {
                Some(item) if before(item) => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Returns the chunk of item `i`, which is not the first, and its position there.
    #[inline]
    fn locate(i: usize) -> (usize, usize) {
        debug_assert!(i > 0, "the first item is in no chunk");
        let chunk = (i + 1).ilog2() as usize - 1;
        (chunk, i + 1 - Self::chunk_len(chunk))
    }

    /// Returns the number of items in a chunk.
    #[inline]
    fn chunk_len(chunk: usize) -> usize {
        2 << chunk
    }
}

fn empty_slots<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

#[cfg(test)]
mod tests {
    use super::AppendVec;

    #[test]
    fn items_never_move() {
        let list = AppendVec::new();
        list.push(0usize);
        let first = list.get(0).map(std::ptr::from_ref);
        for i in 1..1000 {
            list.push(i);
        }
        assert_eq!(list.get(0).map(std::ptr::from_ref), first);
        assert!((0..1000).all(|i| list.get(i) == Some(&i)));
        assert_eq!((list.len(), list.get(1000)), (1000, None));
        assert_eq!(list.partition_point(|&i| i < 617), 617);
        assert_eq!(list.partition_point(|_| true), 1000);
    }
}
