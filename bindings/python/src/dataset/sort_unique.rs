//! Rows in another order, unique rows, rows without nulls, and columns under other names.

use std::collections::HashMap;

use arrowwood::{Predicate, col};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::column::Column;
use super::dataset::Dataset;
use super::predicate;
use crate::arguments::describe::describe_object;
use crate::arguments::names::names;
use crate::interpreter::errors::{Result, column_not_found, invalid_argument, type_error};

/// Extracts one boolean for each of `count` columns; a single one is for all.
fn flags(object: &Bound<'_, PyAny>, count: usize) -> Result<Vec<bool>> {
    if let Ok(all) = object.extract::<bool>() {
        return Ok(vec![all; count]);
    }
    let Ok(flags) = object.extract::<Vec<bool>>() else {
        let got = describe_object(object);
        return Err(type_error(format!("sort: expected descending to be a bool or a list of them, got {got}")));
    };
    if flags.len() != count {
        return Err(invalid_argument(format!("sort: {} values of descending for {count} columns", flags.len())));
    }
    Ok(flags)
}

#[pymethods]
impl Dataset {
    /// Sort all rows by one column or several: ``ds.sort("price")``, ``ds.sort("symbol", "price")``. Returns a view
    /// of row numbers: single rows are read in place; for columns that are used, the rows are gathered in batches of
    /// 65,536.
    ///
    /// Equal rows keep their order. Nulls come last, after NaN, in either direction. Text is ordered by its bytes.
    ///
    /// Args:
    ///     by: names of columns.
    ///     descending: from the largest to the smallest; a list has one boolean for each column.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    ///     Unsupported: the type of a column has no order.
    #[pyo3(signature = (*by, descending = None))]
    fn sort(&self, py: Python<'_>, by: &Bound<'_, PyTuple>, descending: Option<&Bound<'_, PyAny>>) -> Result<Dataset> {
        let names = names("sort", by)?;
        let flags =
            descending.map_or_else(|| Ok(vec![false; names.len()]), |descending| flags(descending, names.len()))?;
        let by: Vec<(String, bool)> = names.into_iter().zip(flags).collect();
        Ok(self.with_rows(py.detach(|| self.inner().sort(&by))?))
    }

    /// Return the first row of each group of rows with equal values in the columns `names`, or in all; in their
    /// order, copied.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    ///     Unsupported: a column is nested.
    #[pyo3(signature = (*names))]
    fn unique(&self, py: Python<'_>, names: &Bound<'_, PyTuple>) -> Result<Dataset> {
        let names = crate::arguments::names::names("unique", names)?;
        Ok(self.with_rows(py.detach(|| self.inner().unique(&names))?))
    }

    /// Return the rows without a null in the columns `names`, or in all; copied, or the dataset's own rows if there
    /// is no null. NaN is not null.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    #[pyo3(signature = (*names))]
    fn drop_nulls(&self, py: Python<'_>, names: &Bound<'_, PyTuple>) -> Result<Dataset> {
        let mut names = crate::arguments::names::names("drop_nulls", names)?;
        if names.is_empty() {
            names = self.inner().schema().fields().iter().map(|field| field.name().clone()).collect();
        }
        let without_nulls = py.detach(|| {
            let mut all: Option<Predicate> = None;
            for name in &names {
                if self.inner().column(name)?.null_count()? > 0 {
                    let one = col(name).is_not_null();
                    all = Some(if let Some(all) = all { all & one } else { one });
                }
            }
            all.map_or_else(|| Ok(self.inner().clone()), |all| self.inner().filter(&all))
        });
        Ok(self.with_rows(without_nulls?))
    }

    /// Rename columns: ``ds.rename({"price": "close"})``. Nothing is copied.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    ///     InvalidArgument: two columns would have the same name.
    fn rename(&self, names: &Bound<'_, PyAny>) -> Result<Dataset> {
        let Ok(names) = names.extract::<HashMap<String, String>>() else {
            let got = describe_object(names);
            return Err(type_error(format!("rename: expected a dict of new names by the old ones, got {got}")));
        };
        let columns: Vec<String> = self.inner().schema().fields().iter().map(|field| field.name().clone()).collect();
        if let Some(unknown) = names.keys().find(|name| !columns.contains(name)) {
            return Err(column_not_found(unknown, &columns));
        }
        self._with_names(columns.into_iter().map(|name| names.get(&name).cloned().unwrap_or(name)).collect())
    }

    /// The columns under these names.
    fn _with_names(&self, names: Vec<String>) -> Result<Dataset> {
        Ok(Dataset::with_open_args(self.inner().with_names(&names)?, self.open_args()))
    }
}

#[pymethods]
impl Column {
    /// The distinct values, in order of first appearance; ``None`` is one, and all NaN are one.
    fn unique(&self, py: Python<'_>) -> Result<Column> {
        let distinct = py.detach(|| self.inner().as_dataset().unique(&[self.inner().name()]))?;
        Ok(Column::new(distinct.column_at(0)?))
    }

    /// The values in sorted order, as in :meth:`Dataset.sort`.
    #[pyo3(signature = (*, descending = false))]
    fn sort(&self, py: Python<'_>, descending: bool) -> Result<Column> {
        let sorted = py.detach(|| self.inner().as_dataset().sort(&[(self.inner().name(), descending)]))?;
        Ok(Column::new(sorted.column_at(0)?))
    }

    /// The non-null values.
    fn drop_nulls(&self, py: Python<'_>) -> Result<Column> {
        let is_not_null = col(self.inner().name()).is_not_null();
        let values = py.detach(|| self.inner().as_dataset().filter(&is_not_null))?;
        Ok(Column::new(values.column_at(0)?))
    }

    /// A predicate: whether the value lies between `low` and `high`, both included.
    fn is_between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<predicate::Predicate> {
        predicate::Expression::from_column(self.inner()).lies_between(low, high)
    }
}
