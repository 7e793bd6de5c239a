//! [`CheckedMutex`]: a mutex that returns an error where a thread would wait for itself.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use arrowwood::{Error, ErrorKind, Result};

/// A mutex that a thread can't lock twice: with a plain one, a callback that uses the handle whose call it runs in
/// would wait for its own thread, for ever.
///
/// `user` names the thread that has locked `value`. Only that thread writes it: after it has locked the mutex, and
/// before it unlocks it. A thread that compares `user` with itself therefore sees its own last store, or a number that
/// isn't its own, so that relaxed ordering suffices; what other threads store can't change the answer. The value itself
/// is guarded by the mutex alone.
#[derive(Debug)]
pub struct CheckedMutex<T> {
    value: Mutex<T>,
    /// The thread that has locked the value, as [`this_thread`] numbers it; [`NOBODY`] if none has.
    user: AtomicUsize,
    /// The name of the value in messages.
    name: &'static str,
    /// What messages advise after a panic.
    advice: &'static str,
}

/// The locked value of a [`CheckedMutex`], which dropping the guard unlocks.
pub struct CheckedMutexGuard<'a, T> {
    value: MutexGuard<'a, T>,
    user: &'a AtomicUsize,
}

/// The number of no thread.
const NOBODY: usize = 0;

/// Returns a number for this thread that no other living thread has, and that isn't [`NOBODY`].
fn this_thread() -> usize {
    thread_local! {
        static MARKER: u8 = const { 0 };
    }
    MARKER.with(|marker| std::ptr::from_ref(marker).addr())
}

impl<T> CheckedMutex<T> {
    /// Creates a mutex around `value`, which messages call `name`; after a panic they give `advice`.
    pub fn new(value: T, name: &'static str, advice: &'static str) -> CheckedMutex<T> {
        CheckedMutex { value: Mutex::new(value), user: AtomicUsize::new(NOBODY), name, advice }
    }

    /// Waits until no other thread has locked the value, and locks it.
    ///
    /// # Errors
    /// `Busy` if this thread has locked it; `Closed` if a panic has left it in an unknown state.
    pub fn lock(&self) -> Result<CheckedMutexGuard<'_, T>> {
        if self.is_locked_by_this_thread() {
            return Err(self.busy());
        }
        let value = self.value.lock().map_err(|_| self.broken())?;
        self.user.store(this_thread(), Ordering::Relaxed);
        Ok(CheckedMutexGuard { value, user: &self.user })
    }

    /// Returns true if this thread has locked the value. Other threads can't change the answer meanwhile.
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
        let message = format!("the {} can't go on after an internal error; {}", self.name, self.advice);
        Error::new(ErrorKind::Closed, message)
    }
}

impl<T> Drop for CheckedMutexGuard<'_, T> {
    fn drop(&mut self) {
        // Before the mutex is unlocked, which dropping the field `value` does.
        self.user.store(NOBODY, Ordering::Relaxed);
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
