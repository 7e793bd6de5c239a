//! Provides [`ReserveAllocator`], which has memory for the small allocations of a program that has run out of it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::MemoryRegion;

/// The number of addresses in the reserve. They take no memory, as nothing touches them.
const RESERVED: usize = 64 << 20;

/// The reserve; `None` before it was first filled, and while it is spent. No thread waits for the lock.
static RESERVE: Mutex<Option<MemoryRegion>> = Mutex::new(None);
/// True once the reserve was filled for the first time.
///
/// This flag and [`IS_SPENT`] are hints, stored and loaded without the lock (relaxed): a stale value costs a call of
/// [`try_fill`] that finds the reserve full, or fills it a call later. [`RESERVE`] alone has the memory.
static IS_FILLED: AtomicBool = AtomicBool::new(false);
/// True from the moment the reserve is spent until it is filled again.
static IS_SPENT: AtomicBool = AtomicBool::new(false);

/// The system's allocator with a reserve.
///
/// Rust ends a program whose allocation fails, unless it was made by a fallible function. Vectors of rows are allocated
/// fallibly, but a program that is short of memory also has to allocate an error's message, a path or a vector of ten
/// elements. If the system refuses memory for these, this allocator releases the addresses of its reserve to the
/// system, and tries again. Work in steps calls [`is_memory_short`] between the steps, and ends with an error while the
/// reserve is spent.
///
/// A program uses it by `#[global_allocator] static ALLOCATOR: ReserveAllocator = ReserveAllocator;`, and calls
/// [`ReserveAllocator::fill`] when it starts, and between its operations.
#[derive(Debug)]
pub struct ReserveAllocator;

impl ReserveAllocator {
    /// Fills the reserve, if it isn't filled yet or was spent.
    ///
    /// Does nothing if the system refuses the memory.
    ///
    /// Costs two loads of atomics if the reserve is full. Any thread may call it.
    pub fn fill() {
        if !IS_FILLED.load(Ordering::Relaxed) || IS_SPENT.load(Ordering::Relaxed) {
            try_fill();
        }
    }
}

/// Fills the reserve. Returns false if the system refuses the memory.
fn try_fill() -> bool {
    // If the lock is taken, another thread is filling it.
    let Ok(mut reserve) = RESERVE.try_lock() else { return true };
    if reserve.is_none() {
        *reserve = MemoryRegion::sparse(RESERVED).ok();
    }
    if reserve.is_none() {
        return false;
    }
    IS_FILLED.store(true, Ordering::Relaxed);
    IS_SPENT.store(false, Ordering::Relaxed);
    true
}

/// Returns true if the system has refused memory, so that the reserve of a [`ReserveAllocator`] was spent, and it still
/// refuses memory.
///
/// Otherwise restores the reserve. Returns false in programs with another allocator.
///
/// Costs a load of an atomic while memory is not short. Any thread may call it.
pub fn is_memory_short() -> bool {
    IS_SPENT.load(Ordering::Relaxed) && !try_fill()
}

/// Returns true if the system would grant `bytes` bytes, without the reserve of a [`ReserveAllocator`].
///
/// Call it before infallible allocations, such as objects of an interpreter. Costs some microseconds.
pub fn can_allocate(bytes: usize) -> bool {
    MemoryRegion::sparse(bytes).is_ok()
}

/// Gives the reserve back to the system. Returns true if an allocation of `size` bytes may succeed then.
fn spend_reserve(size: usize) -> bool {
    if size > RESERVED {
        return false;
    }
    // Does not wait for the lock: in a child of fork(2), the thread that held it may not exist.
    let reserve = RESERVE.try_lock().ok().and_then(|mut reserve| reserve.take());
    if reserve.is_some() {
        IS_SPENT.store(true, Ordering::Relaxed);
    }
    // If another thread has just spent it, its addresses are available to all.
    reserve.is_some() || IS_SPENT.load(Ordering::Relaxed)
}

/// Calls `allocate`, and again after spending the reserve if the system has refused the memory.
#[inline]
fn allocate_or_spend(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() && spend_reserve(size) { allocate() } else { memory }
}

// SAFETY: all memory comes from the system's allocator, which gets the same layouts as this one. Nothing here allocates
// or panics.
unsafe impl GlobalAlloc for ReserveAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the ones that the system's allocator asks for.
        allocate_or_spend(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory comes from the system's allocator.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        allocate_or_spend(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; memory whose growth was refused is unchanged.
        allocate_or_spend(size, || unsafe { System.realloc(memory, layout, size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::MutexExt;

    #[test]
    fn only_fill_makes_a_reserve() {
        // A program with another allocator may have a limit of memory that is smaller than the reserve.
        assert!(!is_memory_short());
        assert!(RESERVE.lock_ignoring_poison().is_none());
        assert!(!spend_reserve(1));

        ReserveAllocator::fill();
        assert!(spend_reserve(1));
        assert!(RESERVE.lock_ignoring_poison().is_none());
        assert!(!is_memory_short(), "the system still has memory");
        assert!(RESERVE.lock_ignoring_poison().is_some());
    }
}
