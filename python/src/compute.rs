//! Rows by number and by predicate: `take`, `filter`, `sample`, `shuffle`, and `col`, which predicates begin with.

use std::hash::{BuildHasher, Hasher, RandomState};

use arrow_schema::DataType;
use arrowwood::{Format, Literal, Operator, Value, WriteOptions, guard, write_to};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::column::Column;
use crate::dataset::Dataset;
use crate::errors::{Result, wrong_type};
use crate::incoming::{plain, read};
use crate::index::{count, out_of_range};
use crate::memory::bytes_of;
use crate::recipe::recipe;

/// A column in a predicate, made by :func:`col`: compared with a value it is a :class:`Predicate`.
#[pyclass(frozen, module = "arrowwood", name = "Col")]
pub struct Col {
    name: String,
}

/// Which rows are asked for, made with :func:`col` and put together by ``&``, ``|`` and ``~``.
///
/// A comparison with a null is neither true nor false, and so is its negation: such a row is not found. NaN is not equal
/// to anything, and neither less nor greater. Numbers are compared by their values: 2.5 with integers, times with times
/// of another unit. Integers stand for times in the column's unit as well.
#[pyclass(frozen, module = "arrowwood", name = "Predicate")]
pub struct Predicate {
    inner: arrowwood::Predicate,
}

/// The column called `name`, to ask for rows by: ``ds.filter((aw.col("price") > 100) & aw.col("symbol").is_in(["A", "B"]))``.
#[pyfunction]
pub fn col(name: String) -> Col {
    Col { name }
}

impl Col {
    fn inner(&self) -> arrowwood::Col {
        arrowwood::col(self.name.as_str())
    }
}

#[pymethods]
impl Col {
    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operator: CompareOp) -> Result<Predicate> {
        let operator = match operator {
            CompareOp::Eq => Operator::Eq,
            CompareOp::Ne => Operator::Ne,
            CompareOp::Lt => Operator::Lt,
            CompareOp::Le => Operator::Le,
            CompareOp::Gt => Operator::Gt,
            CompareOp::Ge => Operator::Ge,
        };
        Ok(Predicate { inner: self.inner().compare(operator, literal(&self.name, other)?) })
    }

    /// Equal to one of `values`.
    fn is_in(&self, values: &Bound<'_, PyAny>) -> Result<Predicate> {
        if values.is_instance_of::<PyString>() {
            return Err(wrong_type(format!("is_in of column '{}' expects several values, got a text", self.name)));
        }
        let literals = || values.try_iter()?.map(|value| literal(&self.name, &value?)).collect::<Result<Vec<_>>>();
        let values = guard(literals)?;
        Ok(Predicate { inner: self.inner().is_in(values) })
    }

    /// Null.
    fn is_null(&self) -> Predicate {
        Predicate { inner: self.inner().is_null() }
    }

    /// Not null.
    fn is_not_null(&self) -> Predicate {
        Predicate { inner: self.inner().is_not_null() }
    }

    fn __repr__(&self) -> String {
        format!("col({:?})", self.name)
    }
}

#[pymethods]
impl Predicate {
    fn __and__(&self, other: &Bound<'_, Predicate>) -> Predicate {
        Predicate { inner: self.inner.clone() & other.get().inner.clone() }
    }

    fn __or__(&self, other: &Bound<'_, Predicate>) -> Predicate {
        Predicate { inner: self.inner.clone() | other.get().inner.clone() }
    }

    fn __invert__(&self) -> Predicate {
        Predicate { inner: !self.inner.clone() }
    }

    fn __bool__(&self) -> Result<bool> {
        Err(wrong_type(format!(
            "whether {} is known of rows only; put predicates together by &, | and ~, each in parentheses",
            self.inner
        )))
    }

    fn __repr__(&self) -> String {
        self.inner.to_string()
    }
}

/// The value that a column called `name` is compared with.
fn literal(name: &str, given: &Bound<'_, PyAny>) -> Result<Literal> {
    let unfit = || wrong_type(format!("column '{name}' can't be compared with {given}"));
    // NumPy's times have no zone and fit every column.
    let any_zone = DataType::Timestamp(arrow_schema::TimeUnit::Second, Some("".into()));
    let is_numpy_time = given.get_type().name()?.to_str()? == "datetime64";
    let data_type = if is_numpy_time { any_zone } else { DataType::Null };
    if let Some(value) = read(&data_type, given).map_err(|problem| problem.at(name, 0))? {
        let value = match value {
            Value::Date(days) if is_numpy_time => {
                let seconds = days.checked_mul(86_400).ok_or_else(unfit)?;
                Value::Timestamp(seconds, arrow_schema::TimeUnit::Second, Some(""))
            }
            Value::Timestamp(time, unit, _) if is_numpy_time => Value::Timestamp(time, unit, Some("")),
            other => other,
        };
        return Ok(value.into());
    }
    let other = plain(given)?.ok_or_else(unfit)?;
    let value = read(&DataType::Null, &other).map_err(|problem| problem.at(name, 0))?;
    value.map(Literal::from).ok_or_else(unfit)
}

/// Row numbers: a list, or anything that NumPy makes an array of integers of.
fn indices(given: &Bound<'_, PyAny>) -> Result<Vec<i64>> {
    if let Ok(list) = given.cast_exact::<PyList>() {
        let beyond = |index: &Bound<'_, PyAny>| out_of_range(format!("row {index} is beyond 64 bits"));
        let number = |index: Bound<'_, PyAny>| {
            index.extract().map_err(|problem: PyErr| {
                let is_beyond = problem.is_instance_of::<pyo3::exceptions::PyOverflowError>(index.py());
                if is_beyond { beyond(&index) } else { problem.into() }
            })
        };
        return list.iter().map(number).collect();
    }
    let array = given.py().import("arrowwood._incoming")?.getattr("indices")?.call1((given,))?;
    let bytes = bytes_of(&array)?;
    let bytes = bytes.slice(0, bytes.len()).unwrap_or_default();
    Ok(bytes.as_chunks().0.iter().map(|raw| i64::from_le_bytes(*raw)).collect())
}

fn seed_or_any(seed: Option<u64>) -> u64 {
    seed.unwrap_or_else(|| RandomState::new().build_hasher().finish())
}

#[pymethods]
impl Dataset {
    /// The rows `indices`, in that order, in memory of their own; ``ds[[3, 1, -1]]`` says the same.
    ///
    /// Args:
    ///     indices: a list, a NumPy array or a column of integers. Negative ones count from the end; a row may be asked
    ///         for many times.
    ///
    /// Raises:
    ///     RowOutOfRange: naming the first index that there is no row for.
    pub fn take(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> Result<Dataset> {
        let rows = guard(|| self::indices(indices))?;
        Ok(self.with_rows(py.detach(|| self.inner().take(&rows))?))
    }

    /// The rows of which `predicate` is true, in their order, in memory of their own.
    ///
    /// Of a table that is sorted by a column, only the rows between its bounds are looked at.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    ///     InvalidArgument: a column can't be compared with a value of that type.
    ///     Unsupported: values of the column's type can't be compared.
    fn filter(&self, py: Python<'_>, predicate: &Bound<'_, Predicate>) -> Result<Dataset> {
        let predicate = &predicate.get().inner;
        Ok(self.with_rows(py.detach(|| self.inner().filter(predicate))?))
    }

    /// The rows that a predicate on the column that the table is sorted by leaves, and maybe others.
    fn _narrowed(&self, py: Python<'_>, predicate: &Bound<'_, Predicate>) -> Result<Dataset> {
        let predicate = &predicate.get().inner;
        Ok(self.with_rows(py.detach(|| self.inner().narrowed(predicate))?))
    }

    /// `n` different rows, chosen with equal chances, in the order in which they were drawn.
    ///
    /// One `seed` gives one sample, on every machine; without one it is another each time.
    ///
    /// Raises:
    ///     InvalidArgument: there are fewer rows.
    #[pyo3(signature = (n, seed = None))]
    fn sample(&self, py: Python<'_>, n: i64, seed: Option<u64>) -> Result<Dataset> {
        let (n, seed) = (count("n", n)?, seed_or_any(seed));
        Ok(self.with_rows(py.detach(|| self.inner().sample(n, seed))?))
    }

    /// All rows in a random order: a view, which copies nothing until columns are used as a whole.
    ///
    /// One `seed` gives one order, on every machine; without one it is another each time.
    #[pyo3(signature = (seed = None))]
    fn shuffle(&self, py: Python<'_>, seed: Option<u64>) -> Result<Dataset> {
        let seed = seed_or_any(seed);
        Ok(self.with_rows(py.detach(|| self.inner().shuffle(seed))?))
    }

    /// Pickling carries paths, options, rows and columns, not the data; what is in memory travels as an Arrow stream.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.get());
        let helper = py.import("arrowwood._pickling")?;
        match py.detach(|| recipe(this.inner(), this.how()))? {
            Some((places, how)) => Ok((helper.getattr("open_places")?, (places, how).into_pyobject(py)?)),
            None => {
                let mut bytes = Vec::new();
                let options = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
                py.detach(|| write_to(this.inner(), &mut bytes, &options))?;
                Ok((helper.getattr("open_bytes")?, (PyBytes::new(py, &bytes),).into_pyobject(py)?))
            }
        }
    }

    /// The rows `indices` as dicts, as PyTorch's loaders fetch them.
    fn __getitems__<'py>(&self, py: Python<'py>, indices: &Bound<'py, PyAny>) -> Result<Vec<Bound<'py, PyDict>>> {
        let len = self.len(py)?;
        let row = |&index: &i64| {
            let row = match u64::try_from(index) {
                Ok(row) => Some(row).filter(|&row| row < len),
                Err(_) => len.checked_sub(index.unsigned_abs()),
            };
            self.dict(py, row.ok_or_else(|| out_of_range(format!("row {index} of a dataset of {len} rows")))?)
        };
        guard(|| self::indices(indices))?.iter().map(row).collect()
    }
}

/// The predicate that `given` is.
fn predicate(given: Option<&Bound<'_, PyAny>>) -> Result<Option<arrowwood::Predicate>> {
    let cast = |given: &Bound<'_, PyAny>| match given.cast::<Predicate>() {
        Ok(predicate) => Ok(predicate.get().inner.clone()),
        Err(_) => Err(wrong_type(format!("where: expected a predicate such as col(\"price\") > 100, got {given}"))),
    };
    given.filter(|given| !given.is_none()).map(cast).transpose()
}

/// The names that `by` has: one, several, or none.
fn names(by: Option<&Bound<'_, PyAny>>) -> Result<Vec<String>> {
    match by.filter(|by| !by.is_none()) {
        None => Ok(Vec::new()),
        Some(by) => match by.cast::<PyString>() {
            Ok(name) => Ok(vec![name.to_str()?.into()]),
            Err(_) => Ok(by.extract()?),
        },
    }
}

#[pymethods]
impl Dataset {
    /// Something of each group of rows, in one pass: ``ds.aggregate(by="symbol", price="mean", n="count")``.
    ///
    /// Groups come in the order in which they appear. Nulls are left out, NaN is left out of ``"min"`` and ``"max"`` unless
    /// there is nothing else. Integers and decimals are summed exactly; the variance is that of a sample (divided by n − 1).
    /// The result is the same for any number of threads and any cut into batches.
    ///
    /// Args:
    ///     by: the columns, numbers, text, times, booleans or dictionary-encoded, whose values make a group; all rows are
    ///         one group without any. One name, or several.
    ///     where: only rows of which this is true.
    ///     columns: a function for the column of that name, or a column's name and a function for a column to be called
    ///         so, as in ``total=("price", "sum")``: ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, ``"count"`` (of values
    ///         that are not null), ``"var"`` or ``"std"``. ``n="count"`` is the number of rows, where no column is called
    ///         ``n``.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    ///     Unsupported: a type has no groups, or not that function.
    ///     InvalidArgument: there is no such function, a sum does not fit its type, or two columns would have one name.
    #[pyo3(signature = (by = None, *, r#where = None, **columns))]
    fn aggregate(
        &self,
        py: Python<'_>,
        by: Option<&Bound<'_, PyAny>>,
        r#where: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyDict>>,
    ) -> Result<Dataset> {
        let mut asked = self.inner().aggregate(&names(by)?);
        if let Some(predicate) = predicate(r#where)? {
            asked = asked.filter(predicate);
        }
        for (name, wanted) in columns.into_iter().flatten() {
            let name: String = name.extract()?;
            let is_column = self.inner().schema().fields().iter().any(|field| *field.name() == name);
            asked = match wanted.extract::<(String, String)>() {
                Ok((column, function)) => asked.named(&name, &column, function.parse()?),
                Err(_) => match wanted.extract::<&str>() {
                    Ok("count") if !is_column => asked.rows(&name),
                    Ok(function) => asked.column(&name, function.parse()?),
                    Err(_) => {
                        let message = format!("{name}: expected a function such as \"mean\", or (column, function)");
                        return Err(wrong_type(format!("{message}, got {wanted}")));
                    }
                },
            };
        }
        Ok(Dataset::new(py.detach(|| asked.finish())?))
    }
}

#[pymethods]
impl Dataset {
    /// What there is to say of each column: a row for each of ``count``, ``null_count``, ``mean``, ``std``, ``min``,
    /// ``25%``, ``50%``, ``75%`` and ``max``, which the first column, ``statistic``, names.
    ///
    /// Numbers and booleans are described by floats, all else by text.
    fn describe(&self, py: Python<'_>) -> Result<Dataset> {
        Ok(Dataset::new(py.detach(|| self.inner().describe())?))
    }
}

#[pymethods]
impl Column {
    /// Whether any value is true; false of none. Raises :class:`Unsupported` for types other than booleans.
    fn any(&self, py: Python<'_>) -> Result<bool> {
        Ok(py.detach(|| self.inner().any())?)
    }

    /// Whether no value is false; true of none. Raises :class:`Unsupported` for types other than booleans.
    fn all(&self, py: Python<'_>) -> Result<bool> {
        Ok(py.detach(|| self.inner().all())?)
    }

    /// The variance of a sample (divided by n − 1), ``None`` of fewer than two values; NaN makes it NaN.
    ///
    /// Raises:
    ///     Unsupported: the type is no number.
    fn var(&self, py: Python<'_>) -> Result<Option<f64>> {
        Ok(py.detach(|| self.inner().var())?)
    }

    /// The square root of the variance.
    fn std(&self, py: Python<'_>) -> Result<Option<f64>> {
        Ok(py.detach(|| self.inner().std())?)
    }

    /// The value that a share `q` of the values lies below, exactly; between two values it lies on the line between them.
    ///
    /// Nulls and NaN are left out; ``None`` of nothing else. Takes two passes of the column, seldom more, and no copy.
    ///
    /// Raises:
    ///     InvalidArgument: `q` does not lie between 0 and 1.
    ///     Unsupported: the type is no number.
    fn quantile(&self, py: Python<'_>, q: f64) -> Result<Option<f64>> {
        Ok(py.detach(|| self.inner().quantile(q))?)
    }

    /// The quantile of a sample of 1,048,576 rows, the same each time; the quantile itself of a column of no more rows, or
    /// where more than half of the sample is null or NaN.
    ///
    /// Costs the same however large the column is. The share of values below what is found differs from `q` by more than
    /// 0.005 less than once in a hundred million columns.
    ///
    /// Raises:
    ///     InvalidArgument: `q` does not lie between 0 and 1.
    ///     Unsupported: the type is no number.
    fn approx_quantile(&self, py: Python<'_>, q: f64) -> Result<Option<f64>> {
        Ok(py.detach(|| self.inner().approx_quantile(q))?)
    }

    /// How many different values there are; ``None`` is one, and all NaN are one.
    fn n_unique(&self, py: Python<'_>) -> Result<u64> {
        Ok(py.detach(|| self.inner().n_unique())?)
    }

    /// Each value and how often it is there, in the columns of this name and ``count``: the most frequent first.
    fn value_counts(&self, py: Python<'_>) -> Result<Dataset> {
        Ok(Dataset::new(py.detach(|| self.inner().value_counts())?))
    }
}
