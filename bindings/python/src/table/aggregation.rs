//! Aggregates of groups of a growing table.

use std::sync::Mutex;

use arrowwood::IncrementalAggregation;
use arrowwood::mapping::MutexExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::follow::open_table;
use crate::dataset::aggregate::{aggregate_by, predicate_of, with_columns};
use crate::dataset::dataset::Dataset;
use crate::interpreter::errors::Result;

/// Aggregates of groups of a growing table, made by :func:`aggregation`.
#[pyclass(frozen, module = "arrowwood")]
pub struct Aggregation {
    state: Mutex<IncrementalAggregation>,
}

/// Keep aggregates of groups of a growing table up to date: ``aw.aggregation("ticks", by="symbol", mean="price",
/// last="price")``.
///
/// Each :meth:`Aggregation.refresh` returns the result of :meth:`Dataset.aggregate` for all current rows, and reads
/// only the new ones.
///
/// Args:
///     table: a table's directory, or a dataset of one.
///     by: as in :meth:`Dataset.aggregate`.
///     where: likewise; a condition on columns by their names.
///     columns: likewise, except ``"median"`` and ``"n_unique"``, which would have to read all rows each time.
///
/// Raises:
///     NotFound: there is no table.
///     ColumnNotFound: there is no such column.
///     Unsupported: a type can't be grouped, or lacks the function; or the function needs all rows each time.
///     InvalidArgument: there is no such function, two columns would have the same name, or a name means two things.
#[pyfunction]
#[pyo3(signature = (table, by = None, *, r#where = None, **columns))]
pub fn aggregation(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    by: Option<&Bound<'_, PyAny>>,
    r#where: Option<&Bound<'_, PyAny>>,
    columns: Option<&Bound<'_, PyDict>>,
) -> Result<Aggregation> {
    let rows = open_table("aggregation", py, table)?;
    let predicate = predicate_of("aggregation", r#where)?;
    let rows = predicate.map_or_else(|| Ok(rows.clone()), |predicate| predicate.bind_to(&rows))?;
    let aggregation = with_columns(aggregate_by("aggregation", &rows, by, predicate)?, &rows, columns)?;
    Ok(Aggregation { state: Mutex::new(aggregation.incremental()?) })
}

#[pymethods]
impl Aggregation {
    /// Return the current groups and their aggregates: the result of :meth:`Dataset.aggregate`, bit for bit.
    ///
    /// After the first call only new rows are read, and those of the last block if it was not full: some 8,000, or
    /// 260,000 if there are thousands of groups. All rows are read again if rows were dropped or sorted, or the
    /// schema has changed; for partitions, and for several tables, at each change. Floats may differ in their last
    /// bits if `where` uses an indexed column, or if there are thousands of groups.
    ///
    /// Raises:
    ///     FileChanged: the table was replaced by another one, or unread rows were sorted; make the aggregation
    ///         again.
    ///     NotFound: the table was removed.
    ///     ColumnNotFound: a column was removed.
    ///     InvalidArgument: a sum does not fit its type.
    fn refresh(&self, py: Python<'_>) -> Result<Dataset> {
        let answer = py.detach(|| self.state.lock_ignoring_poison().refresh())?;
        Ok(Dataset::new(answer))
    }

    /// The rows included in the last result; before the first, those in the table at the beginning.
    #[getter]
    fn dataset(&self, py: Python<'_>) -> Dataset {
        let dataset = py.detach(|| self.state.lock_ignoring_poison().dataset().clone());
        Dataset::new(dataset)
    }

    /// The number of rows read for the last result.
    #[getter]
    fn rows_read(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.state.lock_ignoring_poison().rows_read())
    }
}
