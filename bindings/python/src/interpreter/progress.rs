//! Progress on the terminal, drawn by Python.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use arrowwood::ErrorKind;
use arrowwood::mapping::MutexExt;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::errors::{PendingException, Result};
use super::py_call::{CallPy, attach};

/// The interval between reports of progress. Each takes the interpreter's lock, which other threads may hold.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Called with the amount of work done so far, and the total.
pub type ProgressFn<'a> = &'a mut dyn FnMut(u64, u64);
/// Called with the amount of work done so far, and the total. An error stops the work.
pub type ProgressCheck<'a> = &'a (dyn Fn(u64, u64) -> Result<(), arrowwood::Error> + Sync);

/// Runs `work`, during which other Python threads run, with a progress bar of `unit`s on a terminal.
pub fn with_progress<T: Send>(
    py: Python<'_>,
    what: (&str, &str),
    work: impl FnOnce(ProgressFn) -> Result<T, arrowwood::Error> + Send,
) -> Result<T> {
    let mut bar = ProgressBar::new(py, what)?;
    let problem = PendingException::default();
    let done = py.detach(|| {
        work(&mut |done, total| {
            if bar.is_visible() && (done == total || bar.is_due()) {
                // Raised once the work is done.
                let _ = attach(|py| bar.draw(py, done, total)).map_err(|e| problem.store(e));
            }
        })
    });
    problem.take_or(done)
}

/// Like [`with_progress`]; a signal stops the work if Python raises an exception for it, as for Ctrl-C.
pub fn with_interruptible_progress<T: Send>(
    py: Python<'_>,
    what: (&str, &str),
    work: impl FnOnce(ProgressCheck) -> Result<T, arrowwood::Error> + Send,
) -> Result<T> {
    // The bar, and the last known total.
    let state = Mutex::new((ProgressBar::new(py, what)?, 0));
    let problem = PendingException::default();
    let done = py.detach(|| {
        work(&|done, total| {
            let (bar, last_total) = &mut *state.lock_ignoring_poison();
            *last_total = total;
            if !bar.is_due() {
                return Ok(());
            }
            let drawn = attach(|py| py.check_signals().and_then(|()| bar.draw(py, done, total)));
            drawn.map_err(|e| arrowwood::Error::new(ErrorKind::Io, problem.store(e).to_string()))
        })
    });
    let done = problem.take_or(done)?;
    let (bar, total) = &mut *state.lock_ignoring_poison();
    if *total > 0 {
        bar.draw(py, *total, *total)?;
    }
    Ok(done)
}

/// A bar, if standard error is a terminal.
struct ProgressBar {
    bar: Option<Py<PyAny>>,
    /// The time of the next report.
    next: Instant,
}

impl ProgressBar {
    fn new(py: Python<'_>, (doing, unit): (&str, &str)) -> Result<ProgressBar> {
        let bar = py.import("arrowwood._progress")?.call_py_method("bar", (doing, unit))?;
        Ok(ProgressBar { bar: (!bar.is_none()).then(|| bar.unbind()), next: Instant::now() + REPORT_INTERVAL })
    }

    fn is_visible(&self) -> bool {
        self.bar.is_some()
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Draws it; a bar that can't be drawn is no reason to stop the work.
    ///
    /// # Errors
    /// The exception of a signal, such as Ctrl-C, that Python handled meanwhile.
    fn draw(&mut self, py: Python<'_>, done: u64, total: u64) -> PyResult<()> {
        self.next = Instant::now() + REPORT_INTERVAL;
        match self.bar.as_ref().map(|bar| bar.bind(py).call_py((done, total))) {
            Some(Err(e)) if !e.is_instance_of::<PyException>(py) => Err(e),
            _ => Ok(()),
        }
    }
}
