//! [`CheckedMutex`]: a value that one thread uses at a time, and that no thread waits for itself to give back.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use arrowwood::{Error, ErrorKind, Result};

/// A mutex that finds out when the thread that asks for it has it already, in a callback of the call that uses the
/// value: such a thread would wait for ever.
#[derive(Debug)]
pub struct CheckedMutex<T> {
    value: Mutex<T>,
    /// The thread that uses it; 0 for none. Only compared with the thread that asks.
    user: AtomicUsize,
    /// The name of the value in messages.
    name: &'static str,
    /// The advice to callers after a panic.
    way_out: &'static str,
}

/// The use of an [`CheckedMutex`] value, until it is dropped.
pub struct CheckedMutexGuard<'a, T> {
    value: MutexGuard<'a, T>,
    user: &'a AtomicUsize,
}

/// Returns a number for this thread that no other living thread has.
fn this_thread() -> usize {
    thread_local! {
        static MARKER: u8 = const { 0 };
    }
    MARKER.with(|marker| std::ptr::from_ref(marker).addr())
}

impl<T> CheckedMutex<T> {
    /// Creates a mutex around `value`, which messages call `name`; after a panic they advise `way_out`.
    pub fn new(value: T, name: &'static str, way_out: &'static str) -> CheckedMutex<T> {
        CheckedMutex { value: Mutex::new(value), user: AtomicUsize::new(0), name, way_out }
    }

    /// Waits until no other thread uses the value, and locks it.
    ///
    /// # Errors
    /// `Busy` if this thread uses it; `Closed` if a panic has left it in an unknown state.
    pub fn lock(&self) -> Result<CheckedMutexGuard<'_, T>> {
        if self.is_locked_by_this_thread() {
            return Err(self.busy());
        }
        let value = self.value.lock().map_err(|_| self.broken())?;
        self.user.store(this_thread(), Ordering::Relaxed);
        Ok(CheckedMutexGuard { value, user: &self.user })
    }

    /// Returns true if this thread uses the value. Other threads can't change the answer meanwhile.
    pub fn is_locked_by_this_thread(&self) -> bool {
        self.user.load(Ordering::Relaxed) == this_thread()
    }

    /// Returns the value itself.
    ///
    /// # Errors
    /// `Closed` as for [`CheckedMutex::lock`].
    pub fn into_inner(self) -> Result<T> {
        let broken = self.broken();
        self.value.into_inner().map_err(|_| broken)
    }

    fn busy(&self) -> Error {
        let message =
            format!("a callback can't use the {0} whose call it is: return first, or use another {0}", self.name);
        Error::new(ErrorKind::Busy, message)
    }

    fn broken(&self) -> Error {
        let message = format!("the {} can't go on after an internal error; {}", self.name, self.way_out);
        Error::new(ErrorKind::Closed, message)
    }
}

impl<T> Drop for CheckedMutexGuard<'_, T> {
    fn drop(&mut self) {
        // Before the mutex is given back.
        self.user.store(0, Ordering::Relaxed);
    }
}

impl<T> Deref for CheckedMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for CheckedMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
