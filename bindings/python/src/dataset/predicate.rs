//! Predicates: which rows are asked for, made of comparisons of columns, or of their names (`col`), and of what is
//! computed of them.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use arrowwood::{Literal, Operator, TimePart, Value};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::column::Column;
use crate::arguments::describe::{condition_hint, describe_object};
use crate::convert::to_value::{to_builtin, to_value};
use crate::interpreter::errors::{PyArrowwoodError, Result, invalid_argument, type_error};
use crate::interpreter::py_call::{CallPy, guard};

/// A column by its name (:func:`col`), or a computed value for each row: ``aw.col("price") * aw.col("qty")``.
///
/// Comparing it with a value or another expression makes a :class:`Predicate`; :meth:`Dataset.aggregate` accepts it
/// in place of a column. It is computed block by block, and not stored.
///
/// ``+``, ``-``, ``*``, ``/`` and ``%`` work as in Polars: a result is null if an operand is, ``/`` is
/// floating-point division, ``%`` has the sign of its divisor and is null for an integer by 0; 32-bit floats stay
/// 32-bit with each other, with values and with integers of 8 or 16 bits. But integers of any width are computed in
/// 64 bits, and a result that does not fit raises :class:`InvalidArgument`.
#[pyclass(frozen, module = "arrowwood")]
pub struct Expression {
    inner: arrowwood::Expression,
    /// The columns that it was made of: it is about their rows.
    columns: SourceColumns,
}

/// A condition on rows: comparisons of columns (``ds["price"] > 100``) or of columns by their names (:func:`col`),
/// combined with ``&``, ``|`` and ``~``. The right side of ``&`` or ``|`` is computed only for rows that the left
/// side does not decide.
///
/// A comparison with a null is neither true nor false, and so is its negation: such a row does not match. NaN is not
/// equal to anything, and neither less nor greater. Numbers are compared by exact value, without rounding: integers
/// with 2.5, times with times of another unit. No 32-bit float equals 0.1, but one equals ``numpy.float32(0.1)``.
/// Compared with decimals, a float with a fraction means the decimal that it prints as. Integers are accepted for
/// times, in the column's unit.
///
/// A time must have a time zone if the column has one, and must not have one otherwise; NumPy's times are in UTC if
/// the column is.
#[pyclass(frozen, module = "arrowwood", name = "Predicate")]
pub struct Predicate {
    inner: arrowwood::Predicate,
    /// The columns that it was made of: it is about their rows.
    columns: SourceColumns,
}

/// A column by name, for conditions on any dataset: ``ds.filter((aw.col("price") > 100) &
/// aw.col("symbol").is_in(["A", "B"]))``.
#[pyfunction]
pub fn col(name: &Bound<'_, PyAny>) -> Result<Expression> {
    let Ok(name) = name.extract::<String>() else {
        return Err(type_error(format!("col: expected the name of a column, got {}", describe_object(name))));
    };
    Ok(Expression { inner: arrowwood::col(name), columns: SourceColumns::default() })
}

impl Expression {
    /// Creates an expression of a column object, which refers to its rows.
    pub fn from_column(column: &arrowwood::Column) -> Expression {
        Expression { inner: arrowwood::col(column.name()), columns: SourceColumns(vec![Arc::new(column.clone())]) }
    }

    /// Returns the library's expression.
    pub fn inner(&self) -> &arrowwood::Expression {
        &self.inner
    }

    /// Returns the dataset with the columns from which the expression was made, which must have the same rows.
    pub fn bind_to(&self, dataset: &arrowwood::Dataset) -> Result<arrowwood::Dataset> {
        with_columns(dataset, &self.columns, &self.inner)
    }

    /// Returns the text that messages show.
    fn describe(&self) -> String {
        self.inner.name().map_or_else(|| self.inner.to_string(), str::to_owned)
    }

    pub fn predicate(&self, make: impl FnOnce(arrowwood::Expression) -> arrowwood::Predicate) -> Predicate {
        Predicate { inner: make(self.inner.clone()), columns: self.columns.clone() }
    }

    pub fn compare_with(&self, other: &Bound<'_, PyAny>, operator: CompareOp) -> Result<Predicate> {
        let operator = match operator {
            CompareOp::Eq => Operator::Eq,
            CompareOp::Ne => Operator::Ne,
            CompareOp::Lt => Operator::Lt,
            CompareOp::Le => Operator::Le,
            CompareOp::Gt => Operator::Gt,
            CompareOp::Ge => Operator::Ge,
        };
        if let Some(other) = expression(other) {
            let columns = self.columns.and(&other.columns);
            return Ok(Predicate { inner: self.inner.clone().compare(operator, other.inner), columns });
        }
        let literal = guard(|| literal(&self.describe(), other))?;
        Ok(self.predicate(|expression| expression.compare(operator, literal)))
    }

    pub fn lies_between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Predicate> {
        let lower_bound = self.compare_with(low, CompareOp::Ge)?;
        let upper_bound = self.compare_with(high, CompareOp::Le)?;
        Ok(lower_bound.with(&upper_bound, lower_bound.inner.clone() & upper_bound.inner.clone()))
    }

    pub fn is_one_of(&self, values: &Bound<'_, PyAny>) -> Result<Predicate> {
        let name = self.describe();
        if values.is_instance_of::<PyString>() {
            return Err(type_error(format!("is_in of column '{name}' expects several values, got a text")));
        }
        if !values.hasattr("__iter__")? {
            let got = describe_object(values);
            return Err(type_error(format!("is_in of column '{name}' expects several values, got {got}")));
        }
        let literals = guard(|| values.try_iter()?.map(|value| literal(&name, &value?)).collect::<Result<Vec<_>>>())?;
        Ok(self.predicate(|expression| expression.is_in(literals)))
    }

    /// Returns the result of `compute` for both; `NotImplemented` if one is neither a number nor an expression.
    fn computed<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        compute: impl FnOnce(arrowwood::Expression, arrowwood::Expression) -> arrowwood::Expression,
    ) -> Result<Bound<'py, PyAny>> {
        let py = other.py();
        let other = match expression(other) {
            Some(other) => other,
            None => match guard(|| literal(&self.describe(), other)) {
                Ok(literal) => Expression { inner: literal.into(), columns: SourceColumns::default() },
                Err(_) => return Ok(py.NotImplemented().into_bound(py)),
            },
        };
        let columns = self.columns.and(&other.columns);
        let computed = Expression { inner: compute(self.inner.clone(), other.inner), columns };
        Ok(Bound::new(py, computed)?.into_any())
    }
}

/// Returns the expression `object`, or an expression of the column `object`.
fn expression(object: &Bound<'_, PyAny>) -> Option<Expression> {
    if let Ok(expression) = object.cast::<Expression>() {
        let Expression { inner, columns } = expression.get();
        return Some(Expression { inner: inner.clone(), columns: columns.clone() });
    }
    object.cast::<Column>().ok().map(|column| Expression::from_column(column.get().inner()))
}

#[pymethods]
impl Expression {
    /// Raises an error that names the method to use instead of other libraries'.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> Result<Bound<'py, PyAny>> {
        Ok(slf.py().import("arrowwood._hints")?.call_py_method("raise_for_expression", (name,))?)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operator: CompareOp) -> Result<Predicate> {
        self.compare_with(other, operator)
    }

    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| a + b)
    }

    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| b + a)
    }

    fn __sub__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| a - b)
    }

    fn __rsub__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| b - a)
    }

    fn __mul__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| a * b)
    }

    fn __rmul__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| b * a)
    }

    fn __truediv__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| a / b)
    }

    fn __rtruediv__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| b / a)
    }

    fn __mod__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| a % b)
    }

    fn __rmod__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.computed(other, |a, b| b % a)
    }

    fn __neg__(&self) -> Expression {
        Expression { inner: -self.inner.clone(), columns: self.columns.clone() }
    }

    /// Convert to ``"int64"``, ``"float32"`` or ``"float64"``: numbers, booleans (0 and 1), decimals, and dates and
    /// times as their stored numbers. Fractions are truncated; values that do not fit raise :class:`InvalidArgument`
    /// when rows are read.
    fn cast(&self, r#type: &str) -> Result<Expression> {
        let data_type = arrowwood::parse_type(r#type)?;
        Ok(Expression { inner: self.inner.clone().cast(data_type), columns: self.columns.clone() })
    }

    /// Parts of dates and times: ``aw.col("ts").dt.hour()``.
    #[getter]
    fn dt(&self) -> TimeParts {
        TimeParts { of: Expression { inner: self.inner.clone(), columns: self.columns.clone() } }
    }

    /// Conditions on text: ``aw.col("symbol").str.starts_with("A")``.
    #[getter]
    fn str(&self) -> TextConditions {
        TextConditions { of: Expression { inner: self.inner.clone(), columns: self.columns.clone() } }
    }

    /// Whether the value equals one of `values`. For nulls use :meth:`is_null`.
    fn is_in(&self, values: &Bound<'_, PyAny>) -> Result<Predicate> {
        self.is_one_of(values)
    }

    /// Whether the value is between `low` and `high`, both included.
    fn is_between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> Result<Predicate> {
        self.lies_between(low, high)
    }

    /// Whether the value is null.
    fn is_null(&self) -> Predicate {
        self.predicate(arrowwood::Expression::is_null)
    }

    /// Whether the value is not null.
    fn is_not_null(&self) -> Predicate {
        self.predicate(arrowwood::Expression::is_not_null)
    }

    /// A scalar of NumPy's on either side is a value as any other.
    #[pyo3(signature = (ufunc, method, *inputs, **keywords))]
    fn __array_ufunc__<'py>(
        slf: &Bound<'py, Self>,
        ufunc: &Bound<'py, PyAny>,
        method: &Bound<'py, PyAny>,
        inputs: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        let arguments = (ufunc, method, inputs, keywords);
        Ok(slf.py().import("arrowwood._numpy")?.call_py_method("ufunc", arguments)?)
    }

    fn __repr__(&self) -> String {
        self.inner.name().map_or_else(|| self.inner.to_string(), |name| format!("col({name:?})"))
    }
}

/// Parts of dates and times as integers; returned by :attr:`Expression.dt`. Times in UTC, with an offset, or without
/// a zone have hours; for those in zones such as ``Europe/Paris`` hours are :class:`Unsupported`.
#[pyclass(frozen, module = "arrowwood")]
pub struct TimeParts {
    of: Expression,
}

impl TimeParts {
    fn part(&self, part: TimePart) -> Expression {
        Expression { inner: self.of.inner.clone().part(part), columns: self.of.columns.clone() }
    }
}

#[pymethods]
impl TimeParts {
    /// Raises an error that names the method to use instead of other libraries'.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> Result<Bound<'py, PyAny>> {
        Ok(slf.py().import("arrowwood._hints")?.call_py_method("raise_for_time_parts", (name,))?)
    }

    /// The year.
    fn year(&self) -> Expression {
        self.part(TimePart::Year)
    }

    /// The month, from 1 to 12.
    fn month(&self) -> Expression {
        self.part(TimePart::Month)
    }

    /// The day of the month, from 1.
    fn day(&self) -> Expression {
        self.part(TimePart::Day)
    }

    /// The day of the week: Monday is 1, Sunday 7.
    fn weekday(&self) -> Expression {
        self.part(TimePart::Weekday)
    }

    /// The hour, from 0 to 23.
    fn hour(&self) -> Expression {
        self.part(TimePart::Hour)
    }

    /// The minute, from 0 to 59.
    fn minute(&self) -> Expression {
        self.part(TimePart::Minute)
    }

    /// The second, from 0 to 59, without its fraction.
    fn second(&self) -> Expression {
        self.part(TimePart::Second)
    }
}

/// Conditions on text; returned by :attr:`Expression.str`.
#[pyclass(frozen, module = "arrowwood")]
pub struct TextConditions {
    of: Expression,
}

#[pymethods]
impl TextConditions {
    /// Raises an error that names the method to use instead of other libraries'.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> Result<Bound<'py, PyAny>> {
        Ok(slf.py().import("arrowwood._hints")?.call_py_method("raise_for_text_conditions", (name,))?)
    }

    /// Whether the regular expression `pattern` matches anywhere in the value, or with `literal` whether it contains
    /// `pattern` as it is.
    ///
    /// The syntax is that of Polars, without look-around and references back.
    ///
    /// Raises:
    ///     InvalidArgument: it is no regular expression; ``literal=True`` takes it as it is.
    #[pyo3(signature = (pattern, *, literal = false))]
    fn contains(&self, pattern: &str, literal: bool) -> Result<Predicate> {
        // Without such characters it is found much faster.
        if literal || !pattern.contains(['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$']) {
            return Ok(self.of.predicate(|expression| expression.contains(pattern)));
        }
        let inner = self.of.inner.clone().matches(pattern).map_err(|e| e.context("contains"))?;
        Ok(Predicate { inner, columns: self.of.columns.clone() })
    }

    /// Whether the value starts with `text`.
    fn starts_with(&self, text: &str) -> Predicate {
        self.of.predicate(|expression| expression.starts_with(text))
    }

    /// Whether the value ends with `text`.
    fn ends_with(&self, text: &str) -> Predicate {
        self.of.predicate(|expression| expression.ends_with(text))
    }
}

/// The hint for `&`, `|` and `~` of values that are not comparisons.
const PARENTHESES: &str = "&, | and ~ put comparisons together, each in parentheses: (aw.col(\"a\") > 1) & \
     (aw.col(\"b\") == 2); a column of booleans is compared too: aw.col(\"flag\") == True";
/// The same of and, or and not.
pub const NO_TRUTH: &str = "and, or, not and if can't see into rows: put comparisons together by &, | and ~, each in \
                        parentheses: (aw.col(\"a\") > 1) & ~(aw.col(\"b\") == 2)";

#[pymethods]
impl Expression {
    fn __bool__(&self) -> Result<bool> {
        Err(type_error(NO_TRUTH))
    }

    fn __invert__(&self) -> Result<Predicate> {
        Err(type_error(PARENTHESES))
    }

    fn __and__(&self, _other: &Bound<'_, PyAny>) -> Result<Predicate> {
        Err(type_error(PARENTHESES))
    }

    fn __rand__(&self, _other: &Bound<'_, PyAny>) -> Result<Predicate> {
        Err(type_error(PARENTHESES))
    }

    fn __or__(&self, _other: &Bound<'_, PyAny>) -> Result<Predicate> {
        Err(type_error(PARENTHESES))
    }

    fn __ror__(&self, _other: &Bound<'_, PyAny>) -> Result<Predicate> {
        Err(type_error(PARENTHESES))
    }
}

impl Predicate {
    /// Returns the predicate `object`; the error for other objects shows the line to write.
    pub fn new<'a>(what: &str, object: &'a Bound<'_, PyAny>) -> Result<&'a Predicate> {
        object.cast::<Predicate>().map(|predicate| predicate.get()).map_err(|_| {
            let advice = match condition_hint(object) {
                _ if object.is_instance_of::<Expression>() => "; write aw.col(\"flag\") == True",
                "" if object.hasattr("__len__").unwrap_or(false) => {
                    "; booleans, one for each row, go into brackets: ds[mask]"
                }
                "" => "; write ds.filter(aw.col(\"x\") > 1)",
                advice => advice,
            };
            type_error(format!(
                "{what}: expected a condition such as aw.col(\"x\") > 1, got {}{advice}",
                describe_object(object)
            ))
        })
    }

    /// Returns the library's predicate.
    pub fn inner(&self) -> &arrowwood::Predicate {
        &self.inner
    }

    fn with(&self, other: &Predicate, inner: arrowwood::Predicate) -> Predicate {
        Predicate { inner, columns: self.columns.and(&other.columns) }
    }

    /// Returns the dataset with the columns from which the predicate was made, which must have the same rows.
    pub fn bind_to(&self, dataset: &arrowwood::Dataset) -> Result<arrowwood::Dataset> {
        with_columns(dataset, &self.columns, &self.inner)
    }

    /// Returns the rows of `dataset` for which the predicate is true.
    pub fn filter(&self, dataset: &arrowwood::Dataset) -> Result<arrowwood::Dataset> {
        let whole = self.bind_to(dataset)?;
        let matching = whole.filter(&self.inner)?;
        if whole.num_columns() == dataset.num_columns() {
            return Ok(matching);
        }
        assert!(whole.num_columns() > dataset.num_columns(), "binding a predicate removed columns");
        Ok(matching.select_at(&(0..dataset.num_columns()).collect::<Vec<_>>())?)
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
        Err(type_error(format!(
            "whether {} is known of rows only: ds.filter(…) and ds[…] pick those of which it is true; put predicates \
             together by &, | and ~, each in parentheses",
            self.inner
        )))
    }

    fn __repr__(&self) -> String {
        self.inner.to_string()
    }
}

/// Columns that something was made of, each once.
#[derive(Clone, Default)]
struct SourceColumns(Vec<Arc<arrowwood::Column>>);

impl SourceColumns {
    fn and(&self, others: &SourceColumns) -> SourceColumns {
        let mut columns = self.0.clone();
        for other in &others.0 {
            if !self.0.iter().any(|column| Arc::ptr_eq(column, other)) {
                columns.push(other.clone());
            }
        }
        SourceColumns(columns)
    }
}

/// Returns the dataset with the columns from which `condition` was made, which must have the same rows.
fn with_columns(
    dataset: &arrowwood::Dataset,
    columns: &SourceColumns,
    condition: &dyn std::fmt::Display,
) -> Result<arrowwood::Dataset> {
    columns.0.iter().try_fold(dataset.clone(), |dataset, column| {
        dataset.with_column(column)?.ok_or_else(|| {
            let name = column.name();
            invalid_argument(format!(
                "the condition {condition} was made of the column '{name}' of other rows than those that it is to pick \
                 from; take the column of this very dataset, or the name alone: aw.col({name:?})"
            ))
        })
    })
}

/// Converts `object`, with which `name`, a column or an expression, is compared.
fn literal(name: &str, object: &Bound<'_, PyAny>) -> Result<Literal> {
    // NumPy's times don't say whether they have a zone.
    let any_zone = DataType::Timestamp(TimeUnit::Second, Some("".into()));
    let is_numpy_time = object.get_type().name()?.to_str()? == "datetime64";
    let data_type = if is_numpy_time { any_zone } else { DataType::Null };
    if let Some(value) = to_value(&data_type, object).map_err(|problem| problem.at_row(name, 0))? {
        return not_null(name, value);
    }
    let other = to_builtin(object)?.ok_or_else(|| unfit(name, object))?;
    let value = to_value(&DataType::Null, &other).map_err(|problem| problem.at_row(name, 0))?;
    not_null(name, value.ok_or_else(|| unfit(name, object))?)
}

/// Refuses a null: nothing equals it, so the comparison is a mistake.
fn not_null(name: &str, value: Value<'_>) -> Result<Literal> {
    match value {
        Value::Null => Err(type_error(format!(
            "column '{name}' can't be compared with None: nulls are found by is_null(), all others by is_not_null()"
        ))),
        value => Ok(value.into()),
    }
}

/// Returns the error for an object that no column can be compared with.
fn unfit(name: &str, object: &Bound<'_, PyAny>) -> PyArrowwoodError {
    const MAX_REPR_WIDTH: usize = 80;
    let text = object.repr().map_or_else(|_| "?".into(), |text| arrowwood::readable::ellipsize(text, MAX_REPR_WIDTH));
    let advice = if object.hasattr("__len__").unwrap_or(false) {
        "; several values are for is_in([…]), and arrays are compared with arrays: ds[…].to_numpy()"
    } else {
        ""
    };
    type_error(format!("column '{name}' can't be compared with {text}{advice}"))
}
