//! Aggregates of groups of rows.

use arrowwood::AggregateFunction;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::dataset::Dataset;
use super::predicate::{Expression, Predicate};
use crate::arguments::describe::describe_object;
use crate::interpreter::errors::{PyArrowwoodError, Result, invalid_argument, type_error};
use crate::interpreter::progress::with_interruptible_progress;

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
        let aggregation = aggregate_by("aggregate", &rows, by, predicate)?;
        let aggregation = with_columns(aggregation, self.inner(), columns)?;
        let groups = with_interruptible_progress(py, ("aggregating", "rows"), |watch| {
            aggregation.on_progress(usize::MAX, &|progress| watch(progress.rows, progress.of)).finish()
        })?;
        Ok(Dataset::new(groups))
    }
}

/// Returns the predicate that `object`, the argument `where` of `what`, is; `None` if it is not given.
pub fn predicate_of<'a>(what: &str, object: Option<&'a Bound<'_, PyAny>>) -> Result<Option<&'a Predicate>> {
    let object = object.filter(|object| !object.is_none());
    object.map(|object| Predicate::new(&format!("{what}: where"), object)).transpose()
}

/// Returns an aggregation of the `rows` that match `predicate`, which has no columns yet.
pub fn aggregate_by<'a>(
    what: &str,
    rows: &'a arrowwood::Dataset,
    by: Option<&Bound<'_, PyAny>>,
    predicate: Option<&Predicate>,
) -> Result<arrowwood::Aggregation<'a>> {
    let aggregation = rows.aggregate(&names(what, by)?);
    Ok(match predicate {
        Some(predicate) => aggregation.filter(predicate.inner().clone()),
        None => aggregation,
    })
}

/// Extracts the names in `by`: one, several, or none.
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

/// The aggregation's input for `object`, a column's name or an expression of columns of `dataset`; `None` if it is
/// neither.
fn expression_of(
    object: &Bound<'_, PyAny>,
    dataset: &arrowwood::Dataset,
) -> Result<Option<(arrowwood::Expression, Option<String>)>> {
    if let Ok(name) = object.extract::<String>() {
        return Ok(Some((arrowwood::col(&name), Some(name))));
    }
    let Ok(expression) = object.cast::<Expression>() else { return Ok(None) };
    expression.get().bind_to(dataset)?;
    Ok(Some((expression.get().inner().clone(), None)))
}

/// The meaning of the keyword `name="given"`.
enum AggregateSpec {
    /// The number of rows.
    RowCount,
    /// A function of the column called `name`.
    OfNamedColumn(AggregateFunction),
    /// A function of the column that is given.
    OfGivenColumn(AggregateFunction),
}

fn has_column(dataset: &arrowwood::Dataset, name: &str) -> bool {
    dataset.schema().fields().iter().any(|field| field.name() == name)
}

/// Returns the error for a keyword with two meanings, `one` and `other`.
fn ambiguous(keyword: &str, cause: &str, one: &str, other: &str) -> PyArrowwoodError {
    invalid_argument(format!("{keyword} is ambiguous, {cause}: write {one}, or {other}"))
}

/// Returns the meaning of `name="given"` for the columns of `dataset`.
///
/// # Errors
/// `InvalidArgument` if there are two.
fn meaning(name: &str, given: &str, dataset: &arrowwood::Dataset) -> Result<AggregateSpec> {
    let keyword = format!("{name}=\"{given}\"");
    let function = name.parse::<AggregateFunction>().ok().filter(|_| has_column(dataset, given));
    let of_given = format!("{name}=(\"{given}\", \"{name}\") for the {name} of the column '{given}'");
    if given == "count" {
        let mut unused_name = "rows".to_string();
        let mut number = 0;
        while has_column(dataset, &unused_name) {
            number += 1;
            unused_name = format!("rows_{number}");
        }
        let rows = format!("{unused_name}=\"count\" for the number of rows");
        return match (has_column(dataset, name), function) {
            (true, _) => {
                let of_name = format!("{name}=(\"{name}\", \"count\") for the number of its values that are not null");
                Err(ambiguous(&keyword, &format!("as a column is called '{name}'"), &of_name, &rows))
            }
            (false, Some(_)) => Err(ambiguous(&keyword, "as a column is called 'count'", &of_given, &rows)),
            (false, None) => Ok(AggregateSpec::RowCount),
        };
    }
    match (given.parse::<AggregateFunction>(), function) {
        (Ok(of_name), Some(_)) if has_column(dataset, name) && name != given => {
            let cause = format!("as columns are called '{name}' and '{given}'");
            let of_name = format!("{name}=(\"{name}\", \"{of_name}\") for the {of_name} of the column '{name}'");
            Err(ambiguous(&keyword, &cause, &of_name, &of_given))
        }
        (Ok(of_name), _) if has_column(dataset, name) => Ok(AggregateSpec::OfNamedColumn(of_name)),
        (_, Some(of_given)) => Ok(AggregateSpec::OfGivenColumn(of_given)),
        (of_name, None) => Ok(AggregateSpec::OfNamedColumn(of_name?)),
    }
}

/// Adds columns to the aggregation: a function of the column of that name, a column or an expression and a function, or
/// either by the name of a function. `dataset` has the columns that have names.
pub fn with_columns<'a>(
    mut aggregation: arrowwood::Aggregation<'a>,
    dataset: &arrowwood::Dataset,
    columns: Option<&Bound<'_, PyDict>>,
) -> Result<arrowwood::Aggregation<'a>> {
    for (name, wanted) in columns.into_iter().flatten() {
        let name: String = name.extract()?;
        if let Ok((of, function)) = wanted.extract::<(Bound<'_, PyAny>, String)>()
            && let Some((of, _)) = expression_of(&of, dataset)?
        {
            aggregation = aggregation.expression_as(&name, of, function.parse()?);
            continue;
        }
        aggregation = match expression_of(&wanted, dataset)? {
            Some((of, Some(given))) => match meaning(&name, &given, dataset)? {
                AggregateSpec::RowCount => aggregation.count_rows(&name),
                AggregateSpec::OfNamedColumn(function) => aggregation.column(&name, function),
                AggregateSpec::OfGivenColumn(function) => aggregation.expression_as(&name, of, function),
            },
            Some((of, None)) => {
                let function = name.parse().map_err(|_| {
                    let pair = format!("{name}=({of}, \"mean\")");
                    invalid_argument(format!("{name} is no function; name one beside the expression: {pair}"))
                })?;
                aggregation.expression_as(&name, of, function)
            }
            None => {
                let message = format!("{name}: expected a function such as \"mean\", or (column, function)");
                return Err(type_error(format!("{message}, got {wanted}")));
            }
        };
    }
    Ok(aggregation)
}
