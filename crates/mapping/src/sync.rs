//! Extends locks with methods that ignore poison, for data that is valid even after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex even if a thread panicked while it held the lock.
///
/// Only for data that is valid after each single assignment, so that a panic between two of them loses nothing. A
/// writer whose assertion failed refuses further calls before it locks anything.
pub trait MutexExt<T: ?Sized> {
    /// Locks the mutex, and waits for other threads that hold it.
    fn lock_ignoring_poison(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> MutexExt<T> for Mutex<T> {
    #[inline]
    fn lock_ignoring_poison(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a reader-writer lock even if a thread panicked while it held the lock; see [`MutexExt`].
pub trait RwLockExt<T: ?Sized> {
    /// Locks it for reading, which other readers may do at the same time.
    fn read_ignoring_poison(&self) -> RwLockReadGuard<'_, T>;

    /// Locks it for writing, exclusively.
    fn write_ignoring_poison(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T: ?Sized> RwLockExt<T> for RwLock<T> {
    fn read_ignoring_poison(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_ignoring_poison(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}
