//! Progress on the terminal, drawn by Python.

use pyo3::prelude::*;

use crate::errors::Result;

/// Does `work`, during which other Python threads run, with a bar of the pieces done where somebody looks.
pub fn watched<T: Send>(
    py: Python<'_>,
    doing: &str,
    work: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, arrowwood::Error> + Send,
) -> Result<T> {
    let bar = py.import("arrowwood._progress")?.call_method1("bar", (doing, "pieces"))?;
    let bar = (!bar.is_none()).then(|| bar.unbind());
    let mut draw = |done, total| {
        // A bar that can't be drawn is no reason to stop the work.
        let _ = bar.as_ref().map(|bar| Python::attach(|py| bar.call1(py, (done, total)).is_ok()));
    };
    Ok(py.detach(|| work(&mut draw))?)
}
