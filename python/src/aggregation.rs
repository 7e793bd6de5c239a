//! Aggregates of groups: of a dataset, and of a growing table.

use arrowwood::mapping::MutexExt;
use std::sync::Mutex;

use arrowwood::{AggregateFunction, IncrementalAggregation};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::dataset::Dataset;
use crate::errors::{Result, invalid_argument, type_error};
use crate::follow::open_table;
use crate::index::describe_object;
use crate::predicate::{Expression, Predicate};
use crate::progress::with_interruptible_progress;

#[pymethods]
impl Dataset {
    /// Aggregate groups of rows, in one pass: ``ds.aggregate(by="symbol", price="mean", n="count")``.
    ///
    /// Groups come in order of first appearance. Nulls are skipped, and ``"min"`` and ``"max"`` skip NaN unless all
    /// values are NaN. Integers and decimals are summed exactly; the variance is that of a sample (divided by n −
    /// 1). The result is the same for any number of threads and any division into batches.
    ///
    /// Args:
    ///     by: the columns whose values make a group: numbers, text, times, booleans or dictionary-encoded. One
    ///         name, or several; without any, all rows are one group.
    ///     where: use only the rows for which this is true.
    ///     columns: a function for the column of that name, or ``name=(column, function)``, as in ``total=("price",
    ///         "sum")``. Functions are ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, ``"count"`` (of non-null
    ///         values), ``"n_unique"`` (null counts as one value), ``"median"`` (uses 8 bytes per row), ``"var"``,
    ///         ``"std"``, ``"first"`` and ``"last"`` (the value of that row, null or not). ``n="count"`` is the
    ///         number of rows, under a name that no column has. A function's name as keyword aggregates the given
    ///         column: ``mean="price"`` is ``mean=("price", "mean")``; what could be two things is refused. An
    ///         :class:`Expression` can replace a column: ``sum=aw.col("price") * aw.col("qty")``,
    ///         ``total=(aw.col("price") * 2, "sum")``.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    ///     Unsupported: a type can't be grouped, or lacks the function.
    ///     InvalidArgument: there is no such function, a sum does not fit its type, two columns would have the same
    ///         name, or a name means two things.
    #[pyo3(signature = (by = None, *, r#where = None, **columns))]
    fn aggregate(
        &self,
        py: Python<'_>,
        by: Option<&Bound<'_, PyAny>>,
        r#where: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyDict>>,
    ) -> Result<Dataset> {
        let predicate = predicate_of("aggregate", r#where)?;
        let rows = predicate.map_or_else(|| Ok(self.inner().clone()), |predicate| predicate.bind_to(self.inner()))?;
        let asked = asked("aggregate", &rows, by, predicate)?;
        let asked = with_columns(asked, self.inner(), columns)?;
        let groups = with_interruptible_progress(py, ("aggregating", "rows"), |watch| {
            asked.on_progress(usize::MAX, &|progress| watch(progress.rows, progress.of)).finish()
        })?;
        Ok(Dataset::new(groups))
    }
}

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
    let asked = with_columns(asked("aggregation", &rows, by, predicate)?, &rows, columns)?;
    Ok(Aggregation { state: Mutex::new(asked.incremental()?) })
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

    /// The number of rows included in the last result; before the first, those in the table at the beginning.
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

fn predicate_of<'a>(what: &str, given: Option<&'a Bound<'_, PyAny>>) -> Result<Option<&'a Predicate>> {
    let given = given.filter(|given| !given.is_none());
    given.map(|given| Predicate::new(&format!("{what}: where"), given)).transpose()
}

/// The aggregation of `rows` without columns yet.
fn asked<'a>(
    what: &str,
    rows: &'a arrowwood::Dataset,
    by: Option<&Bound<'_, PyAny>>,
    predicate: Option<&Predicate>,
) -> Result<arrowwood::Aggregation<'a>> {
    let asked = rows.aggregate(&names(what, by)?);
    Ok(match predicate {
        Some(predicate) => asked.filter(predicate.inner().clone()),
        None => asked,
    })
}

/// The names that `by` has: one, several, or none.
fn names(what: &str, by: Option<&Bound<'_, PyAny>>) -> Result<Vec<String>> {
    match by.filter(|by| !by.is_none()) {
        None => Ok(Vec::new()),
        Some(by) => match by.cast::<PyString>() {
            Ok(name) => Ok(vec![name.to_str()?.into()]),
            Err(_) => by.extract().map_err(|_| {
                type_error(format!(
                    "{what}: expected by to be the name of a column, or a list of names, got {}",
                    describe_object(by)
                ))
            }),
        },
    }
}

/// The aggregation's input for `given`, a column's name or an expression of columns of `dataset`; `None` if it is
/// neither.
fn expression_of(
    given: &Bound<'_, PyAny>,
    dataset: &arrowwood::Dataset,
) -> Result<Option<(arrowwood::Expression, Option<String>)>> {
    if let Ok(name) = given.extract::<String>() {
        return Ok(Some((arrowwood::col(&name), Some(name))));
    }
    let Ok(found) = given.cast::<Expression>() else { return Ok(None) };
    found.get().bind_to(dataset)?;
    Ok(Some((found.get().inner().clone(), None)))
}

/// What `name="given"` asks for.
enum AggregateSpec {
    /// The number of rows.
    RowCount,
    /// A function of the column called `name`.
    OfNamedColumn(AggregateFunction),
    /// A function of the column that is given.
    OfGivenColumn(AggregateFunction),
}

/// What `name="given"` asks for, where `is_column` knows the columns; an error if that could be two things.
fn meaning(name: &str, given: &str, is_column: impl Fn(&str) -> bool) -> Result<AggregateSpec> {
    let function = name.parse::<AggregateFunction>().ok().filter(|_| is_column(given));
    let ambiguous = |what: &str, one: &str, other: &str| {
        Err(invalid_argument(format!("{name}=\"{given}\" is ambiguous, {what}: write {one}, or {other}")))
    };
    let of_given = format!("{name}=(\"{given}\", \"{name}\") for the {name} of the column '{given}'");
    if given == "count" {
        // A name that no column has.
        let rows = (0..).map(|n| if n == 0 { "rows".to_string() } else { format!("rows_{n}") });
        let rows = rows.into_iter().find(|rows| !is_column(rows)).unwrap_or_default();
        let rows = format!("{rows}=\"count\" for the number of rows");
        return match (is_column(name), function) {
            (true, _) => {
                let of_name = format!("{name}=(\"{name}\", \"count\") for the number of its values that are not null");
                ambiguous(&format!("as a column is called '{name}'"), &of_name, &rows)
            }
            (false, Some(_)) => ambiguous("as a column is called 'count'", &of_given, &rows),
            (false, None) => Ok(AggregateSpec::RowCount),
        };
    }
    match (given.parse::<AggregateFunction>(), function) {
        (Ok(of_name), Some(_)) if is_column(name) && name != given => {
            let what = format!("as columns are called '{name}' and '{given}'");
            let of_name = format!("{name}=(\"{name}\", \"{of_name}\") for the {of_name} of the column '{name}'");
            ambiguous(&what, &of_name, &of_given)
        }
        (Ok(of_name), _) if is_column(name) => Ok(AggregateSpec::OfNamedColumn(of_name)),
        (_, Some(of_given)) => Ok(AggregateSpec::OfGivenColumn(of_given)),
        (of_name, None) => Ok(AggregateSpec::OfNamedColumn(of_name?)),
    }
}

/// The aggregation with columns: a function of the column of that name, a column or an expression and a function, or either by
/// the name of a function. `dataset` has the columns that have names.
fn with_columns<'a>(
    mut asked: arrowwood::Aggregation<'a>,
    dataset: &arrowwood::Dataset,
    columns: Option<&Bound<'_, PyDict>>,
) -> Result<arrowwood::Aggregation<'a>> {
    let is_column = |name: &str| dataset.schema().fields().iter().any(|field| field.name() == name);
    for (name, wanted) in columns.into_iter().flatten() {
        let name: String = name.extract()?;
        if let Ok((of, function)) = wanted.extract::<(Bound<'_, PyAny>, String)>()
            && let Some((of, _)) = expression_of(&of, dataset)?
        {
            asked = asked.expression_as(&name, of, function.parse()?);
            continue;
        }
        asked = match expression_of(&wanted, dataset)? {
            Some((of, Some(given))) => match meaning(&name, &given, is_column)? {
                AggregateSpec::RowCount => asked.count_rows(&name),
                AggregateSpec::OfNamedColumn(function) => asked.column(&name, function),
                AggregateSpec::OfGivenColumn(function) => asked.expression_as(&name, of, function),
            },
            Some((of, None)) => {
                let function = name.parse().map_err(|_| {
                    let pair = format!("{name}=({of}, \"mean\")");
                    invalid_argument(format!("{name} is no function; name one beside the expression: {pair}"))
                })?;
                asked.expression_as(&name, of, function)
            }
            None => {
                let message = format!("{name}: expected a function such as \"mean\", or (column, function)");
                return Err(type_error(format!("{message}, got {wanted}")));
            }
        };
    }
    Ok(asked)
}
