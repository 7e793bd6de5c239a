//! Appended rows, a table or a single one: shared by a table's writer and a builder.

use arrow_schema::{DataType, Field, SchemaRef};
use arrowwood::Value;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::from_arrow::{exports_arrow, extract_dataset};
use super::from_python::convert_to_dataset;
use crate::convert::to_value::to_stored_value;
use crate::dataset::dataset::Dataset;
use crate::interpreter::errors::{Result, column_not_found, invalid_argument};

/// The columns that rows are appended to.
pub struct AppendConverter {
    pub schema: SchemaRef,
    /// Their names as Python strings.
    names: Vec<Py<PyString>>,
}

impl AppendConverter {
    /// Creates a converter of rows to the columns of `schema`.
    pub fn new(py: Python<'_>, schema: SchemaRef) -> AppendConverter {
        let names = schema.fields().iter().map(|field| PyString::intern(py, field.name()).unbind()).collect();
        AppendConverter { schema, names }
    }

    /// Appends one row, given as keywords: by `quick`, or by `slow` as a table of one row if its columns need one.
    pub fn append_row(
        &self,
        py: Python<'_>,
        values: Option<&Bound<'_, PyDict>>,
        quick: impl FnOnce(&[Value<'_>]) -> Result<()>,
        slow: impl FnOnce(&Bound<'_, PyAny>) -> Result<()>,
    ) -> Result<()> {
        let empty = PyDict::new(py);
        let keywords = values.unwrap_or(&empty);
        let values = self.values(py, keywords)?;
        assert_eq!(values.len(), self.names.len(), "a row must have one value for each column");
        match self.row(&values)? {
            Some(row) => quick(&row),
            // Lists, structs and objects other than Python's own.
            None => slow(PyList::new(py, [keywords])?.as_any()),
        }
    }

    /// Converts `data` to rows of these columns.
    pub fn dataset(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> Result<arrowwood::Dataset> {
        // The index of a pandas frame is no column, and only `convert_to_dataset` knows.
        if !exports_arrow(data)? || data.hasattr(intern!(py, "iloc"))? {
            return convert_to_dataset(data, Some(&self.schema));
        }
        // A stream can be taken once.
        let rows = extract_dataset(data)?;
        if rows.schema().fields() == self.schema.fields() {
            Ok(rows)
        } else {
            convert_to_dataset(Bound::new(py, Dataset::new(rows))?.as_any(), Some(&self.schema))
        }
    }

    /// Converts the values of a row, one for each column; `None` if they need a table.
    fn row<'a>(&'a self, values: &'a [Bound<'_, PyAny>]) -> Result<Option<Vec<Value<'a>>>> {
        if self.schema.fields().iter().any(|field| needs_a_table(field)) {
            return Ok(None);
        }
        let mut row = Vec::with_capacity(values.len());
        for (field, given) in self.schema.fields().iter().zip(values) {
            match to_stored_value(field.data_type(), given).map_err(|problem| problem.at_row(field.name(), 0))? {
                Some(cell) => row.push(cell.value(field.data_type())),
                None => return Ok(None),
            }
        }
        Ok(Some(row))
    }

    /// Returns the value of each column, in order; `None` for columns that are not named.
    fn values<'py>(&self, py: Python<'py>, dict: &Bound<'py, PyDict>) -> Result<Vec<Bound<'py, PyAny>>> {
        let mut values = Vec::with_capacity(self.names.len());
        let mut used_keys = 0;
        for name in &self.names {
            let value = dict.get_item(name)?;
            used_keys += usize::from(value.is_some());
            values.push(value.unwrap_or_else(|| py.None().into_bound(py)));
        }
        if used_keys == dict.len() {
            return Ok(values);
        }
        let names: Vec<String> = self.schema.fields().iter().map(|field| field.name().clone()).collect();
        let unknown = dict.keys().iter().find(|name| !names.iter().any(|column| name.to_string() == *column));
        Err(unknown.map_or_else(|| invalid_argument("a column is named twice"), |name| column_not_found(&name, &names)))
    }
}

/// Returns true if a column takes values in tables only, not in single rows.
fn needs_a_table(field: &Field) -> bool {
    use DataType::{Binary, Dictionary, LargeBinary, LargeUtf8, Utf8};
    match field.data_type() {
        Dictionary(_, values) => !matches!(**values, Utf8 | LargeUtf8 | Binary | LargeBinary),
        other => other.is_nested() || field.extension_type_name() == Some("arrow.bool8"),
    }
}
