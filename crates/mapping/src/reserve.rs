//! [`ReserveAllocator`]: memory for the small allocations of a program that has run out of it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::MemoryRegion;

/// The addresses that are kept free. They take no memory, as nothing touches them.
const RESERVED: usize = 64 << 20;

static RESERVE: Mutex<Option<MemoryRegion>> = Mutex::new(None);
static IS_SPENT: AtomicBool = AtomicBool::new(false);

/// The system's allocator with a reserve.
///
/// Rust ends a program whose allocation fails, unless it was made by a function that may fail. Vectors of rows are made by
/// those; but a program that is short of memory also has to make an error's message, a path or a vector of ten elements.
/// Where the system refuses memory for such, this allocator gives it the addresses of its reserve. What works in steps calls
/// [`is_memory_short`] between them, and ends with an error while the reserve is spent.
///
/// A program has it by `#[global_allocator] static ALLOCATOR: ReserveAllocator = ReserveAllocator;` and a first call of
/// [`is_memory_short`].
#[derive(Debug)]
pub struct ReserveAllocator;

/// Whether the system has refused memory, so that the reserve of a [`ReserveAllocator`] was spent, and refuses it still.
/// Restores the reserve where it doesn't.
///
/// Costs a load of an atomic while memory is not short. Any thread may call it.
pub fn is_memory_short() -> bool {
    /// Set by the first call, which makes the reserve.
    static IS_MADE: AtomicBool = AtomicBool::new(false);
    let is_first = !IS_MADE.load(Ordering::Relaxed) && !IS_MADE.swap(true, Ordering::Relaxed);
    if !is_first && !IS_SPENT.load(Ordering::Relaxed) {
        return false;
    }
    // Another thread restores it just now.
    let Ok(mut reserve) = RESERVE.try_lock() else { return false };
    if reserve.is_none() {
        *reserve = MemoryRegion::sparse(RESERVED).ok();
    }
    IS_SPENT.store(reserve.is_none(), Ordering::Relaxed);
    !is_first && reserve.is_none()
}

/// Whether the system would give as many bytes now, without the reserve of a [`ReserveAllocator`].
///
/// For what is made by functions that can't fail, such as objects of an interpreter. Costs some microseconds.
pub fn can_allocate(bytes: usize) -> bool {
    MemoryRegion::sparse(bytes).is_ok()
}

/// Gives the reserve back to the system, where an allocation of `size` bytes may succeed then.
fn spend_reserve(size: usize) -> bool {
    if size > RESERVED {
        return false;
    }
    // No lock is waited for: a child of fork(2) may have a copy of one that a thread held which it does not have.
    let reserve = RESERVE.try_lock().ok().and_then(|mut reserve| reserve.take());
    if reserve.is_some() {
        IS_SPENT.store(true, Ordering::Relaxed);
    }
    // Where another thread has spent it just now, it is there for all.
    reserve.is_some() || IS_SPENT.load(Ordering::Relaxed)
}

/// What `allocate` returns, for which the reserve is spent if the system refuses it.
#[inline]
fn reserved(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() && spend_reserve(size) { allocate() } else { memory }
}

// SAFETY: all memory is that of the system's allocator, which gets the layouts that this one was given. Nothing here
// allocates or panics.
unsafe impl GlobalAlloc for ReserveAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        reserved(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory is the system's allocator's.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        reserved(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; memory whose growth was refused is as it was.
        reserved(size, || unsafe { System.realloc(memory, layout, size) })
    }
}
