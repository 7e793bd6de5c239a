//! Signals such as Ctrl-C, which end waits and loops.
//!
//! Python's handlers run only where they are asked for:
//! - waits for bytes of a store: the hook that [`install`] sets;
//! - loops over rows in Python's objects: [`stop_on_signal`];
//! - aggregations: [`with_interruptible_progress`](super::progress::with_interruptible_progress);
//! - writes and checks of whole datasets, and waits for new rows: after each batch or wait.
//!
//! Other computations over local rows end before the signal is seen.

use std::cell::RefCell;

use arrowwood::{blocking, mapping};
use pyo3::prelude::*;

use super::py_call::attach;

/// The number of rows between checks for signals.
const ROWS_PER_CHECK: u64 = 1 << 16;

thread_local! {
    /// The exception of a signal that has ended a wait, until it is raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Lets signals end waits.
pub fn install() {
    blocking::set_interrupt_hook(has_signal);
}

/// Returns true if Python has raised an exception for a signal, as it does for Ctrl-C. Only its main thread handles
/// signals, which is the first one of the process.
fn has_signal() -> bool {
    if !mapping::is_main_thread() {
        return false;
    }
    // Not borrowed while handlers run: they may wait, too.
    if RAISED.with_borrow(Option::is_none) {
        RAISED.set(attach(|py| py.check_signals()).err());
    }
    RAISED.with_borrow(Option::is_some)
}

/// Takes the exception of the signal that has ended a wait of this thread, if there is one.
pub fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// Lets Ctrl-C stop a loop over rows. Signals are checked every 65,536 rows, as a check takes as long as a row.
pub fn stop_on_signal(py: Python<'_>, row: u64) -> PyResult<()> {
    if row.is_multiple_of(ROWS_PER_CHECK) {
        return py.check_signals();
    }
    Ok(())
}
