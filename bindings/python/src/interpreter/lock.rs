//! The interpreter's lock in code that other libraries call back.
//!
//! PyO3 counts for each thread whether it holds the lock, but sees only what its own copy in this library does. Other
//! libraries give up the lock while they compute, and then call functions of ours: pyarrow and Polars read streams so,
//! and release arrays. If one of our methods has called the library, PyO3 believes that the thread still holds the lock.
//! [`hold`] asks the interpreter instead.
#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::ops::Deref;

use pyo3::ffi;

/// The lock, which this thread holds until this is dropped.
struct Held(ffi::PyGILState_STATE);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the state comes from `PyGILState_Ensure` on this thread, as `Held` never leaves `hold`. Calls nest.
        unsafe { ffi::PyGILState_Release(self.0) }
    }
}

/// Runs `work` with the interpreter's lock, for which it waits if this thread does not hold it. After the interpreter
/// has ended, runs `work` without it.
pub fn hold<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: may be called at any time.
    let is_initialized = unsafe { ffi::Py_IsInitialized() } != 0;
    let _held = is_initialized.then(|| {
        // SAFETY: the interpreter is initialized. A thread may have the lock already, or have given it up.
        Held(unsafe { ffi::PyGILState_Ensure() })
    });
    work()
}

/// Something of Python's that Rust code owns, which may drop it with or without the interpreter's lock.
#[derive(Default)]
pub struct DroppedWithLock<T>(ManuallyDrop<T>);

impl<T> DroppedWithLock<T> {
    pub fn new(value: T) -> DroppedWithLock<T> {
        DroppedWithLock(ManuallyDrop::new(value))
    }
}

impl<T> Deref for DroppedWithLock<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for DroppedWithLock<T> {
    fn drop(&mut self) {
        // SAFETY: the value is dropped only here, and not used after.
        hold(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}
