//! Progress on the terminal, drawn by Python.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::errors::Result;

/// The interval between reports of progress. Each takes the interpreter's lock, which other threads may hold.
const OFTEN: Duration = Duration::from_millis(100);

/// Hears how much of how much is done.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Runs `work`, during which other Python threads run, with a progress bar of `unit`s on a terminal.
pub fn watched<T: Send>(
    py: Python<'_>,
    (doing, unit): (&str, &str),
    work: impl FnOnce(Progress) -> Result<T, arrowwood::Error> + Send,
) -> Result<T> {
    let bar = py.import("arrowwood._progress")?.call_method1("bar", (doing, unit))?;
    let bar = (!bar.is_none()).then(|| bar.unbind());
    let mut next = Instant::now();
    let mut draw = |done, total| {
        let Some(bar) = &bar else { return };
        if done == total || Instant::now() >= next {
            // A bar that can't be drawn is no reason to stop the work.
            Python::attach(|py| drop(bar.call1(py, (done, total))));
            next = Instant::now() + OFTEN;
        }
    };
    Ok(py.detach(|| work(&mut draw))?)
}
