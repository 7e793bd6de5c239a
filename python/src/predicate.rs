//! Predicates: which rows are asked for, made of comparisons of columns, or of their names (`col`), with values.

use arrow_schema::{DataType, TimeUnit};
use arrowwood::{Literal, Operator, Value, guard};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::errors::{Failure, Result, argument, wrong_type};
use crate::incoming::{Problem, plain, read};
use crate::index::{by_condition, shown};

/// A column in a predicate, made by :func:`col`: compared with a value it is a :class:`Predicate`.
#[pyclass(frozen, module = "arrowwood", name = "Col")]
pub struct Col {
    name: String,
}

/// Which rows are asked for: comparisons of columns (``ds["price"] > 100``) or of columns by their names (:func:`col`), put
/// together by ``&``, ``|`` and ``~``.
///
/// A comparison with a null is neither true nor false, and so is its negation: such a row is not found. NaN is not equal
/// to anything, and neither less nor greater. Numbers are compared by their values, and nothing is rounded for it: 2.5 with
/// integers, times with times of another unit. No float of 32 bits equals 0.1; ``numpy.float32(0.1)`` is one. A float with
/// a fraction stands for the decimal that it prints as where it is compared with decimals. Integers stand for times in the
/// column's unit as well.
///
/// A time needs a time zone where the column has one, and must not have one where it has none; NumPy's times are in UTC
/// where the column is.
#[pyclass(frozen, module = "arrowwood", name = "Predicate")]
pub struct Predicate {
    inner: arrowwood::Predicate,
    /// The columns that it was made of: it is about their rows.
    columns: Vec<arrowwood::Column>,
}

/// The column called `name`, to ask for rows of any dataset by: ``ds.filter((aw.col("price") > 100) & aw.col("symbol").is_in(["A", "B"]))``.
#[pyfunction]
pub fn col(name: &Bound<'_, PyAny>) -> Result<Col> {
    let wrong = || wrong_type(format!("col: expected the name of a column, got {}", shown(name)));
    Ok(Col { name: name.extract().map_err(|_| wrong())? })
}

/// What a comparison begins with: a column, or the name of one.
pub struct Compared<'a> {
    name: &'a str,
    column: Option<&'a arrowwood::Column>,
}

impl<'a> Compared<'a> {
    /// A column itself: what is made of it is about its rows.
    pub fn column(column: &'a arrowwood::Column) -> Compared<'a> {
        Compared { name: column.name(), column: Some(column) }
    }

    pub fn predicate(&self, make: impl FnOnce(arrowwood::Col) -> arrowwood::Predicate) -> Predicate {
        Predicate { inner: make(arrowwood::col(self.name)), columns: self.column.into_iter().cloned().collect() }
    }

    pub fn compare(&self, other: &Bound<'_, PyAny>, operator: CompareOp) -> Result<Predicate> {
        let operator = match operator {
            CompareOp::Eq => Operator::Eq,
            CompareOp::Ne => Operator::Ne,
            CompareOp::Lt => Operator::Lt,
            CompareOp::Le => Operator::Le,
            CompareOp::Gt => Operator::Gt,
            CompareOp::Ge => Operator::Ge,
        };
        let literal = guard(|| literal(self.name, other))?;
        Ok(self.predicate(|column| column.compare(operator, literal)))
    }

    pub fn is_between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Predicate> {
        let least = self.compare(low, CompareOp::Ge)?;
        let most = self.compare(high, CompareOp::Le)?;
        Ok(least.with(&most, least.inner.clone() & most.inner.clone()))
    }

    pub fn is_in(&self, values: &Bound<'_, PyAny>) -> Result<Predicate> {
        if values.is_instance_of::<PyString>() {
            return Err(wrong_type(format!("is_in of column '{}' expects several values, got a text", self.name)));
        }
        if !values.hasattr("__iter__")? {
            let shown = shown(values);
            return Err(wrong_type(format!("is_in of column '{}' expects several values, got {shown}", self.name)));
        }
        let literals = || values.try_iter()?.map(|value| literal(self.name, &value?)).collect::<Result<Vec<_>>>();
        let values = guard(literals)?;
        Ok(self.predicate(|column| column.is_in(values)))
    }
}

impl Col {
    fn compared(&self) -> Compared<'_> {
        Compared { name: &self.name, column: None }
    }
}

#[pymethods]
impl Col {
    /// Says what to write instead of what other libraries have.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> Result<Bound<'py, PyAny>> {
        Ok(slf.py().import("arrowwood._hints")?.call_method1("of_col", (name,))?)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operator: CompareOp) -> Result<Predicate> {
        self.compared().compare(other, operator)
    }

    /// Equal to one of `values`. For nulls there is :meth:`is_null`.
    fn is_in(&self, values: &Bound<'_, PyAny>) -> Result<Predicate> {
        self.compared().is_in(values)
    }

    /// Between `low` and `high`, both included.
    fn is_between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Predicate> {
        self.compared().is_between(low, high)
    }

    /// Null.
    fn is_null(&self) -> Predicate {
        self.compared().predicate(arrowwood::Col::is_null)
    }

    /// Not null.
    fn is_not_null(&self) -> Predicate {
        self.compared().predicate(arrowwood::Col::is_not_null)
    }

    /// A comparison with a scalar of NumPy's is a :class:`Predicate`, on either side.
    #[pyo3(signature = (ufunc, method, *inputs, **keywords))]
    fn __array_ufunc__<'py>(
        slf: &Bound<'py, Self>,
        ufunc: &Bound<'py, PyAny>,
        method: &Bound<'py, PyAny>,
        inputs: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        let given = (ufunc, method, inputs, keywords);
        Ok(slf.py().import("arrowwood._numpy")?.call_method1("ufunc", given)?)
    }

    fn __repr__(&self) -> String {
        format!("col({:?})", self.name)
    }
}

/// What `&`, `|` and `~` say of a column that was not compared yet.
const PARENTHESES: &str = "&, | and ~ put comparisons together, each in parentheses: (aw.col(\"a\") > 1) & (aw.col(\"b\") == 2); a column of \
     booleans is compared too: aw.col(\"flag\") == True";
/// The same of and, or and not.
pub const NO_TRUTH: &str = "and, or, not and if can't see into rows: put comparisons together by &, | and ~, each in parentheses: \
                        (aw.col(\"a\") > 1) & ~(aw.col(\"b\") == 2)";

#[pymethods]
impl Col {
    fn __bool__(&self) -> Result<bool> {
        Err(wrong_type(NO_TRUTH))
    }

    fn __invert__(&self) -> Result<Predicate> {
        Err(wrong_type(PARENTHESES))
    }

    fn __and__(&self, _other: &Bound<'_, PyAny>) -> Result<Predicate> {
        Err(wrong_type(PARENTHESES))
    }

    fn __rand__(&self, _other: &Bound<'_, PyAny>) -> Result<Predicate> {
        Err(wrong_type(PARENTHESES))
    }

    fn __or__(&self, _other: &Bound<'_, PyAny>) -> Result<Predicate> {
        Err(wrong_type(PARENTHESES))
    }

    fn __ror__(&self, _other: &Bound<'_, PyAny>) -> Result<Predicate> {
        Err(wrong_type(PARENTHESES))
    }
}

impl Predicate {
    /// The predicate that `given` is, or an error that shows the line to write.
    pub fn of<'a>(what: &str, given: &'a Bound<'_, PyAny>) -> Result<&'a Predicate> {
        given.cast::<Predicate>().map(|found| found.get()).map_err(|_| {
            let advice = match by_condition(given) {
                _ if given.is_instance_of::<Col>() => "; write aw.col(\"flag\") == True",
                "" if given.hasattr("__len__").unwrap_or(false) => {
                    "; booleans, one for each row, go into brackets: ds[mask]"
                }
                "" => "; write ds.filter(aw.col(\"x\") > 1)",
                advice => advice,
            };
            wrong_type(format!("{what}: expected a condition such as aw.col(\"x\") > 1, got {}{advice}", shown(given)))
        })
    }

    /// The library's own predicate.
    pub fn inner(&self) -> &arrowwood::Predicate {
        &self.inner
    }

    fn with(&self, other: &Predicate, inner: arrowwood::Predicate) -> Predicate {
        Predicate { inner, columns: self.columns.iter().chain(&other.columns).cloned().collect() }
    }

    /// The dataset with the columns that the predicate was made of, which must be of its rows.
    pub fn on(&self, dataset: &arrowwood::Dataset) -> Result<arrowwood::Dataset> {
        self.columns.iter().try_fold(dataset.clone(), |dataset, column| {
            dataset.with_column(column)?.ok_or_else(|| {
                let name = column.name();
                argument(format!(
                    "the condition {} was made of the column '{name}' of other rows than those that it is to pick from; \
                     take the column of this very dataset, or the name alone: aw.col({name:?})",
                    self.inner
                ))
            })
        })
    }

    /// The rows of `dataset` of which the predicate is true.
    pub fn filter(&self, dataset: &arrowwood::Dataset) -> Result<arrowwood::Dataset> {
        let whole = self.on(dataset)?;
        let found = whole.filter(&self.inner)?;
        let own: Vec<usize> = (0..dataset.num_columns()).collect();
        Ok(if own.len() < whole.num_columns() { found.select_at(&own)? } else { found })
    }
}

#[pymethods]
impl Predicate {
    fn __and__(&self, other: &Bound<'_, Predicate>) -> Predicate {
        let other = other.get();
        self.with(other, self.inner.clone() & other.inner.clone())
    }

    fn __or__(&self, other: &Bound<'_, Predicate>) -> Predicate {
        let other = other.get();
        self.with(other, self.inner.clone() | other.inner.clone())
    }

    fn __invert__(&self) -> Predicate {
        Predicate { inner: !self.inner.clone(), columns: self.columns.clone() }
    }

    fn __bool__(&self) -> Result<bool> {
        Err(wrong_type(format!(
            "whether {} is known of rows only: ds.filter(…) and ds[…] pick those of which it is true; put predicates \
             together by &, | and ~, each in parentheses",
            self.inner
        )))
    }

    fn __repr__(&self) -> String {
        self.inner.to_string()
    }
}

/// The value that a column called `name` is compared with.
fn literal(name: &str, given: &Bound<'_, PyAny>) -> Result<Literal> {
    // Of NumPy's times it is not known whether they have a zone.
    let any_zone = DataType::Timestamp(TimeUnit::Second, Some("".into()));
    let is_numpy_time = given.get_type().name()?.to_str()? == "datetime64";
    let data_type = if is_numpy_time { any_zone } else { DataType::Null };
    let failed = |problem: Problem| problem.at(name, 0);
    if let Some(value) = read(&data_type, given).map_err(failed)? {
        return not_null(name, value);
    }
    let other = plain(given)?.ok_or_else(|| unfit(name, given))?;
    let value = read(&DataType::Null, &other).map_err(failed)?;
    not_null(name, value.ok_or_else(|| unfit(name, given))?)
}

/// Nothing is equal to a null, which nobody means who writes it.
fn not_null(name: &str, value: Value<'_>) -> Result<Literal> {
    match value {
        Value::Null => Err(wrong_type(format!(
            "column '{name}' can't be compared with None: nulls are found by is_null(), all others by is_not_null()"
        ))),
        value => Ok(value.into()),
    }
}

fn unfit(name: &str, given: &Bound<'_, PyAny>) -> Failure {
    let shown = given.repr().map_or_else(|_| "?".into(), |text| arrowwood::cut(text, 80));
    let advice = if is_column(given) {
        "; columns are compared with one another by ds.sql(\"select * from self where a > b\"), or by Polars: aw.scan(ds)"
    } else if given.hasattr("__len__").unwrap_or(false) {
        "; several values are for is_in([…]), and arrays are compared with arrays: ds[…].to_numpy()"
    } else {
        ""
    };
    wrong_type(format!("column '{name}' can't be compared with {shown}{advice}"))
}

/// Whether it is a column of ours, or the name of one.
fn is_column(given: &Bound<'_, PyAny>) -> bool {
    let name = given.get_type().fully_qualified_name();
    name.is_ok_and(|name| name == "arrowwood.Column" || name == "arrowwood.Col")
}
