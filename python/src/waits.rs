//! Waits for bytes in a store: other Python threads run meanwhile, and signals such as Ctrl-C end them.

use std::cell::RefCell;

use arrowwood::{mapping, waits};
use pyo3::prelude::*;

use crate::errors::Result;

thread_local! {
    /// The exception of a signal that has ended a wait, until it is raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Does `work` with what is here, without letting other threads run, which would take longer than a value. If bytes are missing,
/// waits for them while other threads run, and does `work` again from its beginning.
pub fn present<T>(py: Python<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    if !waits::may_wait() {
        return work();
    }
    loop {
        let (done, missed) = waits::without_waiting(&mut work);
        match missed {
            Some(missed) => py.detach(|| missed.wait())?,
            None => return done,
        }
    }
}

/// Lets signals end waits.
pub fn install() {
    waits::end_waits_if(has_signal);
}

/// Whether Python has raised an exception for a signal, as it does for Ctrl-C. Only its main thread handles signals, which is the
/// first one of the process.
fn has_signal() -> bool {
    mapping::is_first_thread()
        && RAISED.with_borrow_mut(|raised| {
            if raised.is_none() {
                *raised = Python::attach(|py| py.check_signals()).err();
            }
            raised.is_some()
        })
}

/// The exception of the signal that has ended a wait of this thread, if one has.
pub fn take_raised() -> Option<PyErr> {
    RAISED.take()
}
