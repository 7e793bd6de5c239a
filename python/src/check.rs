//! `check` and `repair`: what is damaged, and what can be kept.

use std::path::PathBuf;

use arrowwood::Finding;
use pyo3::prelude::*;

use crate::errors::Result;
use crate::progress::watched;

/// Check all that a file or table says about itself, and every value; a table may be written meanwhile.
///
/// Args:
///     path: a file, a table's folder, a glob, or a directory of ``*.arrow`` files.
///
/// Raises:
///     NotFound, PermissionDenied, IoError: it could not be looked at. What is damaged is in the report.
#[pyfunction]
pub fn check(py: Python<'_>, path: PathBuf) -> Result<Bound<'_, PyAny>> {
    let report = watched(py, ("checking", "pieces"), |progress| arrowwood::check(path, progress))?;
    report_of(py, &report)
}

/// Check, and keep the rows before the first damage where there is any.
///
/// A damaged file is never written to: it gets a name that ends in ``.damaged``; the damaged segment of a table and all
/// behind it go into a folder of such a name beside the table. The findings are those of before, the other numbers what
/// there is now.
///
/// Args:
///     path: as for :func:`check`.
///
/// Raises:
///     Busy: the table is being written.
///     InvalidArgument: it is a single segment of a table.
///     NotFound, PermissionDenied, IoError: it could not be looked at.
#[pyfunction]
pub fn repair(py: Python<'_>, path: PathBuf) -> Result<Bound<'_, PyAny>> {
    let report = watched(py, ("repairing", "pieces"), |progress| arrowwood::repair(path, progress))?;
    report_of(py, &report)
}

fn report_of<'py>(py: Python<'py>, report: &arrowwood::Report) -> Result<Bound<'py, PyAny>> {
    let types = py.import("arrowwood._types")?;
    let finding = |found: &Finding| {
        let facts = (found.path.clone(), found.offset, &found.message, found.is_damage);
        types.getattr("Finding")?.call1(facts)
    };
    let findings = report.findings.iter().map(finding).collect::<PyResult<Vec<_>>>()?;
    let repaired = report.repaired.as_ref().map(|done| {
        let facts = (done.kept, done.given_up, done.moved.clone());
        types.getattr("Repaired")?.call1(facts)
    });
    let facts = (report.rows, report.batches, report.segments, findings, repaired.transpose()?);
    Ok(types.getattr("Report")?.call1(facts)?)
}
