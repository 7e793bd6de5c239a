//! Rows by number and by predicate: `take`, `filter`, `sample`, `shuffle`, and columns compared with values.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;

use arrowwood::{Format, WriteOptions, blocking, write_to};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyTuple};

use super::column::Column;
use super::dataset::Dataset;
use super::predicate::{Expression, NO_TRUTH, Predicate};
use super::reopen::{renamed_columns, reopen_args};
use crate::arguments::describe::describe_object;
use crate::arguments::index::{Index, index, is_indices, strided_slice};
use crate::arguments::numbers::{count, extract_u64};
use crate::convert::to_object::to_object;
use crate::exchange::memory::arrow_buffer;
use crate::interpreter::errors::{Result, out_of_range, try_with_capacity, type_error};
use crate::interpreter::py_call::{CallPy, call_function, guard};
use crate::interpreter::waits::retry_until_fetched;

impl Column {
    fn compared(&self) -> Expression {
        Expression::from_column(self.inner())
    }
}

#[pymethods]
impl Column {
    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        if let Ok(predicate) = key.cast::<Predicate>() {
            let predicate = predicate.get();
            let rows = py.detach(|| predicate.filter(self.inner().as_dataset()))?;
            return Ok(Bound::new(py, Column::new(rows.column_at(0)?))?.into_any());
        }
        if is_indices(key) {
            let rows = Dataset::new(self.inner().as_dataset().clone()).pick_rows(py, key)?;
            return Ok(Bound::new(py, Column::new(rows.inner().column_at(0)?))?.into_any());
        }
        if let Some((rows, step)) = strided_slice(key, || self.len(py))? {
            let rows = py.detach(|| self.inner().as_dataset().slice_with_step(rows, step))?;
            return Ok(Bound::new(py, Column::new(rows.column_at(0)?))?.into_any());
        }
        match index(key, "row", || self.len(py))? {
            Index::At(at) => retry_until_fetched(py, || to_object(py, self.inner().get(at)?)),
            Index::Span(start, count) => {
                let rows = Column::new(py.detach(|| self.inner().slice(start, count))?);
                Ok(Bound::new(py, rows)?.into_any())
            }
        }
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, operator: CompareOp) -> Result<Predicate> {
        self.compared().compare_with(other, operator)
    }

    /// Neither whether there are rows, nor whether all are true: libraries don't agree about it.
    fn __bool__(&self) -> Result<bool> {
        let name = self.inner().name();
        Err(type_error(format!(
            "whether column '{name}' is true is not defined: write len(column) > 0, column.any() or column.all(); \
             {NO_TRUTH}"
        )))
    }

    /// A predicate: whether the value is one of `values`: ``ds[ds["symbol"].is_in(["A", "B"])]``.
    fn is_in(&self, values: &Bound<'_, PyAny>) -> Result<Predicate> {
        self.compared().is_one_of(values)
    }

    /// A predicate: whether the value is null: ``ds[ds["price"].is_null()]``.
    fn is_null(&self) -> Predicate {
        self.compared().predicate(arrowwood::Expression::is_null)
    }

    /// A predicate: whether the value is not null: ``ds[ds["price"].is_not_null()]``.
    fn is_not_null(&self) -> Predicate {
        self.compared().predicate(arrowwood::Expression::is_not_null)
    }

    /// NumPy's functions take the values as :meth:`to_numpy` gives them; a comparison with a scalar of NumPy's is a
    /// :class:`Predicate`, on either side.
    #[pyo3(signature = (ufunc, method, *inputs, **keywords))]
    fn __array_ufunc__<'py>(
        slf: &Bound<'py, Self>,
        ufunc: &Bound<'py, PyAny>,
        method: &Bound<'py, PyAny>,
        inputs: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> Result<Bound<'py, PyAny>> {
        let arguments = (ufunc, method, inputs, keywords);
        guard(|| call_function(slf.py(), "arrowwood._numpy", "ufunc", arguments))
    }

    /// NumPy's other functions, such as ``np.mean(column, axis=0)``,
    /// take the values as :meth:`to_numpy` gives them.
    fn __array_function__<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
        types: &Bound<'py, PyAny>,
        inputs: &Bound<'py, PyTuple>,
        keywords: &Bound<'py, PyDict>,
    ) -> Result<Bound<'py, PyAny>> {
        let _ = types;
        let arguments = (function, inputs, keywords);
        guard(|| call_function(slf.py(), "arrowwood._numpy", "function", arguments))
    }
}

/// The hint for booleans as row numbers.
const BY_CONDITION: &str = "rows are picked by a condition or a mask in brackets: ds[ds[\"x\"] > 1], ds[mask]";

fn row_number(index: &Bound<'_, PyAny>) -> Result<i64> {
    if index.is_instance_of::<PyBool>() {
        return Err(type_error(format!("expected row numbers, got {index}; {BY_CONDITION}")));
    }
    index.extract().map_err(|problem: PyErr| {
        if problem.is_instance_of::<pyo3::exceptions::PyOverflowError>(index.py()) {
            out_of_range(format!("row {index} is beyond 64 bits"))
        } else {
            type_error(format!("expected row numbers, got {}", describe_object(index)))
        }
    })
}

/// Extracts row numbers from a list, or from anything that NumPy can convert to an array of integers.
fn indices(object: &Bound<'_, PyAny>) -> Result<Vec<i64>> {
    if let Ok(list) = object.cast_exact::<PyList>() {
        let mut rows = try_with_capacity(list.len())?;
        for index in list.iter() {
            rows.push(row_number(&index)?);
        }
        return Ok(rows);
    }
    let array = object.py().import("arrowwood._incoming")?.getattr("indices")?.call_py((object,))?;
    let bytes = arrow_buffer(&array)?;
    let (numbers, rest) = bytes.as_chunks();
    assert!(rest.is_empty(), "row numbers have 8 bytes each, got {} bytes", bytes.len());
    let mut rows = try_with_capacity(numbers.len())?;
    rows.extend(numbers.iter().map(|raw| i64::from_le_bytes(*raw)));
    Ok(rows)
}

/// Returns the rows selected by a mask of booleans, one for each of `len` rows; `None` if it is not a mask.
fn mask(object: &Bound<'_, PyAny>, len: impl FnOnce() -> Result<u64>) -> Result<Option<Vec<i64>>> {
    let helper = object.py().import("arrowwood._incoming")?;
    if !helper.getattr("is_mask")?.call_py((object,))?.is_truthy()? {
        return Ok(None);
    }
    let rows = helper.getattr("mask")?.call_py((object, len()?))?;
    indices(&rows).map(Some)
}

impl Dataset {
    /// Returns the rows for a key in brackets: row numbers, or a mask.
    pub fn pick_rows(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<Dataset> {
        match guard(|| mask(key, || self.len(py)))? {
            Some(rows) => Ok(self.with_rows(py.detach(|| self.inner().take(&rows))?)),
            None => self.take(py, key),
        }
    }
}

fn seed_or_any(seed: Option<&Bound<'_, PyAny>>) -> Result<u64> {
    match seed {
        Some(seed) => extract_u64("seed", "an integer", seed),
        None => Ok(RandomState::new().build_hasher().finish()),
    }
}

#[pymethods]
impl Dataset {
    /// Gather the rows `indices`, in that order, as a copy; ``ds[[3, 1, -1]]`` is the same.
    ///
    /// Args:
    ///     indices: a list, a NumPy array or a column of integers. Negative ones count from the end; rows may be
    ///         repeated.
    ///
    /// Raises:
    ///     RowOutOfRange: naming the first index out of range.
    pub fn take(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> Result<Dataset> {
        let rows = guard(|| self::indices(indices))?;
        Ok(self.with_rows(py.detach(|| self.inner().take(&rows))?))
    }

    /// Return the rows for which `predicate` is true, in their order; ``ds[ds["price"] > 100]`` is the same.
    ///
    /// The predicate is computed now. A column of the rows is copied when it is first used; single rows and
    /// :meth:`aggregate` read them in place. Until the result is gone, it holds the rows that it was made from;
    /// :meth:`collect` copies what was found, and holds nothing else. In a table sorted by a column, only the rows
    /// between the predicate's bounds are read.
    ///
    /// Raises:
    ///     ColumnNotFound: there is no such column.
    ///     InvalidArgument: a column can't be compared with a value of that type, or the predicate was made from a
    ///         column of other rows.
    ///     Unsupported: values of the column's type can't be compared.
    ///     TypeError: it is not a predicate; a mask goes into brackets: ``ds[mask]``.
    pub fn filter(&self, py: Python<'_>, predicate: &Bound<'_, PyAny>) -> Result<Dataset> {
        let predicate = Predicate::new("filter", predicate)?;
        Ok(self.with_rows(py.detach(|| predicate.filter(self.inner()))?))
    }

    /// The rows that a predicate on the column that the table is sorted by leaves, and maybe others.
    fn _narrowed(&self, py: Python<'_>, predicate: &Bound<'_, Predicate>) -> Result<Dataset> {
        let predicate = predicate.get().inner();
        Ok(self.with_rows(py.detach(|| self.inner().prune(predicate))?))
    }

    /// Return `n` distinct rows, chosen with equal probability, in the order in which they were drawn.
    ///
    /// The same `seed` gives the same sample on every machine; without a seed, each sample is different.
    ///
    /// Raises:
    ///     InvalidArgument: there are fewer than `n` rows.
    #[pyo3(signature = (n, seed = None))]
    fn sample(&self, py: Python<'_>, n: i64, seed: Option<&Bound<'_, PyAny>>) -> Result<Dataset> {
        let n = count("n", n)?;
        let seed = seed_or_any(seed)?;
        Ok(self.with_rows(py.detach(|| self.inner().sample(n, seed))?))
    }

    /// Return all rows in random order, as a view. Single rows are read in place; for columns that are used, the
    /// rows are gathered in batches of 65,536, and for a slice, ``ds.shuffle(3)[:256]``, only those of the slice.
    ///
    /// The same `seed` gives the same order on every machine; without a seed, each order is different.
    #[pyo3(signature = (seed = None))]
    fn shuffle(&self, py: Python<'_>, seed: Option<&Bound<'_, PyAny>>) -> Result<Dataset> {
        let seed = seed_or_any(seed)?;
        Ok(self.with_rows(py.detach(|| self.inner().shuffle(seed))?))
    }

    /// The rows with these numbers, of 8 bytes each, as a view.
    fn _view_of(&self, py: Python<'_>, rows: &[u8]) -> Result<Dataset> {
        let rows: Vec<u64> = rows.as_chunks().0.iter().map(|raw| u64::from_le_bytes(*raw)).collect();
        Ok(self.with_rows(py.detach(|| self.inner().rows_at(&rows))?))
    }

    /// What tells each file and table that the rows lie in from another one at the same path.
    fn _versions(&self) -> Vec<(OsString, String)> {
        self.inner().versions().into_iter().map(|(path, version)| (path.into_os_string(), version)).collect()
    }

    /// Raises :class:`FileChanged` if a file or table is no longer of the version that is named here.
    fn _check_versions(&self, versions: Vec<(PathBuf, String)>) -> Result<()> {
        Ok(self.inner().check_versions(&versions)?)
    }

    /// Pickling carries paths, options, rows and columns, and what tells the files from others at the same paths, not
    /// the data; what is in memory travels as an Arrow stream. Of rows in another order, as of ``shuffle``, it carries
    /// their numbers.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Result<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let this = slf.get();
        let helper = py.import("arrowwood._pickling")?;
        if let Some((behind, rows)) = py.detach(|| this.inner().resolve_view())? {
            let rows: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
            let behind = Dataset::with_open_args(behind, this.open_args());
            return Ok((helper.getattr("open_view")?, (behind, PyBytes::new(py, &rows)).into_pyobject(py)?));
        }
        match py.detach(|| reopen_args(this.inner(), this.open_args()))? {
            Some((places, how)) => {
                let names = renamed_columns(this.inner());
                let versions = this._versions();
                Ok((helper.getattr("open_places")?, (places, how, names, versions).into_pyobject(py)?))
            }
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
        let indices = guard(|| self::indices(indices))?;
        let mut rows = Vec::with_capacity(indices.len());
        for index in indices {
            let row = match u64::try_from(index) {
                Ok(row) => Some(row).filter(|&row| row < len),
                Err(_) => len.checked_sub(index.unsigned_abs()),
            };
            rows.push(row.ok_or_else(|| out_of_range(format!("row {index} of a dataset of {len} rows")))?);
        }
        if blocking::may_block() {
            // Fetched before the interpreter is needed, so that other Python threads run meanwhile.
            py.detach(|| {
                self.inner().iter_rows_at(rows.clone()).try_for_each(|row| {
                    let row = row?;
                    (0..row.len()).try_for_each(|column| row.get(column).map(drop))
                })
            })?;
        }
        retry_until_fetched(py, || self.inner().iter_rows_at(rows.clone()).map(|row| self.to_dict(py, row?)).collect())
    }
}

#[pymethods]
impl Dataset {
    /// Summarize each column: a row for each of ``count``, ``null_count``, ``mean``, ``std``, ``min``, ``25%``,
    /// ``50%``, ``75%`` and ``max``, named in the first column, ``statistic``.
    ///
    /// Numbers and booleans are described by floats, other types by text.
    fn describe(&self, py: Python<'_>) -> Result<Dataset> {
        Ok(Dataset::new(py.detach(|| self.inner().describe())?))
    }
}

#[pymethods]
impl Column {
    /// Whether any value is true; false for no values. Raises :class:`Unsupported` for other types than booleans.
    fn any(&self, py: Python<'_>) -> Result<bool> {
        Ok(py.detach(|| self.inner().any())?)
    }

    /// Whether no value is false; true for no values. Raises :class:`Unsupported` for other types than booleans.
    fn all(&self, py: Python<'_>) -> Result<bool> {
        Ok(py.detach(|| self.inner().all())?)
    }

    /// The sample variance (divided by n − 1), ``None`` for fewer than two values; NaN if any value is NaN.
    ///
    /// Raises:
    ///     Unsupported: the type is not a number.
    fn var(&self, py: Python<'_>) -> Result<Option<f64>> {
        Ok(py.detach(|| self.inner().var())?)
    }

    /// The square root of the variance.
    fn std(&self, py: Python<'_>) -> Result<Option<f64>> {
        Ok(py.detach(|| self.inner().std())?)
    }

    /// The exact `q` quantile: the value below which a share `q` of the values lies, with linear interpolation.
    ///
    /// Numbers are converted to 64-bit floats: integers beyond 2⁵³ and decimals are rounded first. Nulls and NaN are
    /// skipped; ``None`` if there is nothing else. Takes one or two passes over the column, rarely more, and no copy.
    ///
    /// Raises:
    ///     InvalidArgument: `q` is not between 0 and 1.
    ///     Unsupported: the type is not a number.
    fn quantile(&self, py: Python<'_>, q: &Bound<'_, PyAny>) -> Result<Option<f64>> {
        let q = one_share("quantile", q)?;
        Ok(py.detach(|| self.inner().quantile(q))?)
    }

    /// The quantile of a sample of 1,048,576 rows, the same sample each time; the exact quantile if the column has
    /// no more rows, or if more than half of the sample is null or NaN.
    ///
    /// The cost does not depend on the column's size. The share of values below the result differs from `q` by more
    /// than 0.005 less than once in a hundred million columns.
    ///
    /// Raises:
    ///     InvalidArgument: `q` is not between 0 and 1.
    ///     Unsupported: the type is not a number.
    fn approx_quantile(&self, py: Python<'_>, q: &Bound<'_, PyAny>) -> Result<Option<f64>> {
        let q = one_share("approx_quantile", q)?;
        Ok(py.detach(|| self.inner().approx_quantile(q))?)
    }

    /// The median: ``quantile(0.5)``.
    fn median(&self, py: Python<'_>) -> Result<Option<f64>> {
        Ok(py.detach(|| self.inner().quantile(0.5))?)
    }

    /// The number of distinct values; ``None`` is one, and all NaN are one.
    fn n_unique(&self, py: Python<'_>) -> Result<u64> {
        Ok(py.detach(|| self.inner().n_unique())?)
    }

    /// Each distinct value and its number of occurrences, in the columns of this name and ``count``, the most
    /// frequent first.
    fn value_counts(&self, py: Python<'_>) -> Result<Dataset> {
        Ok(Dataset::new(py.detach(|| self.inner().value_counts())?))
    }
}

/// Extracts the number `q` between 0 and 1, an argument of the method `what`.
fn one_share(what: &str, q: &Bound<'_, PyAny>) -> Result<f64> {
    q.extract().map_err(|_| {
        let got = describe_object(q);
        type_error(format!(
            "{what}: expected one number between 0 and 1, got {got}; np.quantile(column, [0.1, 0.9]) takes several"
        ))
    })
}

/// Values are computed by NumPy, or block by block by an [`Expression`]: which of both is meant has to be written.
#[pymethods]
impl Column {
    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "+")
    }

    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "+")
    }

    fn __sub__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "-")
    }

    fn __rsub__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "-")
    }

    fn __mul__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "*")
    }

    fn __rmul__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "*")
    }

    fn __truediv__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "/")
    }

    fn __rtruediv__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "/")
    }

    fn __mod__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "%")
    }

    fn __rmod__<'py>(&self, other: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        self.no_arithmetic(other, "%")
    }
}

impl Column {
    /// Returns an error that names both for numbers and columns; other types may know what to do with a column.
    fn no_arithmetic<'py>(&self, other: &Bound<'py, PyAny>, sign: &str) -> Result<Bound<'py, PyAny>> {
        let is_number = other.is_exact_instance_of::<PyInt>() || other.is_exact_instance_of::<PyFloat>();
        if !is_number && !other.is_instance_of::<Column>() {
            return Ok(other.py().NotImplemented().into_bound(other.py()));
        }
        let name = self.inner().name();
        Err(type_error(format!(
            "{sign} of column '{name}': write column.to_numpy() {sign} … for an array, or aw.col({name:?}) {sign} … in \
             filter and aggregate"
        )))
    }
}
