//! `check` and `repair`: finds damage, and keeps the good rows.

use std::path::PathBuf;

use arrowwood::Finding;
use pyo3::prelude::*;

use crate::interpreter::errors::Result;
use crate::interpreter::progress::with_progress;
use crate::interpreter::py_call::CallPy;

/// Check all metadata and values of a file or table; a table may be written at the same time.
///
/// Args:
///     path: a file, a table's directory, a glob, or a directory of ``*.arrow`` files.
///
/// Raises:
///     NotFound, PermissionDenied, IoError: it could not be read. Damage is in the report.
#[pyfunction]
pub fn check(py: Python<'_>, path: PathBuf) -> Result<Bound<'_, PyAny>> {
    let report = with_progress(py, ("checking", "pieces"), |progress| arrowwood::check(path, progress))?;
    report_of(py, &report)
}

/// Check, and if there is damage, keep the rows before it.
///
/// A damaged file is never written to: it is renamed to end in ``.damaged``; a table's damaged segment and, if rows of
/// it are lost, all later ones move to a directory of such a name beside the table. The findings describe the state
/// before, the other numbers the state after.
///
/// Args:
///     path: as for :func:`check`.
///
/// Raises:
///     Busy: the table is being written.
///     InvalidArgument: it is a single segment of a table.
///     NotFound, PermissionDenied, IoError: it could not be read.
#[pyfunction]
pub fn repair(py: Python<'_>, path: PathBuf) -> Result<Bound<'_, PyAny>> {
    let report = with_progress(py, ("repairing", "pieces"), |progress| arrowwood::repair(path, progress))?;
    report_of(py, &report)
}

fn report_of<'py>(py: Python<'py>, report: &arrowwood::Report) -> Result<Bound<'py, PyAny>> {
    let types = py.import("arrowwood._types")?;
    let finding_class = types.getattr("Finding")?;
    let mut findings = Vec::with_capacity(report.findings.len());
    for Finding { path, offset, message, is_damage, .. } in &report.findings {
        findings.push(finding_class.call_py((path.clone(), *offset, message, *is_damage))?);
    }
    let repaired = report.repaired.as_ref().map(|done| {
        let facts = (done.kept, done.given_up, done.moved.clone());
        types.getattr("Repaired")?.call_py(facts)
    });
    let facts = (report.rows, report.batches, report.segments, findings, repaired.transpose()?);
    Ok(types.getattr("Report")?.call_py(facts)?)
}
