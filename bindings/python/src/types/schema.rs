//! `Schema` and `Field`: names and types, without pyarrow.

use std::collections::BTreeMap;
use std::collections::HashMap;

use arrow_schema::{FieldRef, SchemaRef};
use arrowwood::field_type_name;
use arrowwood::readable::escape_hidden;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};

use crate::arguments::index::{number, position};
use crate::exchange::capsule;
use crate::interpreter::errors::{Result, column_not_found, out_of_range};

/// Names, types and metadata of columns.
#[pyclass(frozen, module = "arrowwood")]
pub struct Schema(pub SchemaRef);

/// Name, type and metadata of one column.
#[pyclass(frozen, module = "arrowwood")]
pub struct Field(pub FieldRef);

#[pymethods]
impl Schema {
    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> Result<Field> {
        let field = match key.cast::<PyString>() {
            Ok(name) => self.0.field_with_name(name.to_str()?).ok().map(|field| field.clone().into()),
            Err(_) => {
                let number = position(number(key, "field")?, "field", || Ok(self.__len__() as u64))?;
                self.0.fields().get(number as usize).cloned()
            }
        };
        field.map(Field).ok_or_else(|| {
            if key.is_instance_of::<PyString>() {
                column_not_found(key, &self.names())
            } else {
                out_of_range(format!("field {key} of {}", self.__len__()))
            }
        })
    }

    /// Whether there is a field of that name.
    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| self.0.field_with_name(name).is_ok())
    }

    /// Whether names, types and metadata are the same, of a schema of any Arrow library.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> Result<bool> {
        if let Ok(other) = other.cast::<Schema>() {
            return Ok(is_same(&self.0, &other.get().0));
        }
        Ok(foreign(other)?.is_some_and(|other| is_same(&self.0, &other)))
    }

    fn __iter__(&self) -> FieldIterator {
        FieldIterator { fields: self.0.fields().iter().cloned().collect::<Vec<_>>().into_iter() }
    }

    /// The names, in order.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Key-value metadata.
    #[getter]
    fn metadata(&self) -> BTreeMap<String, String> {
        sorted(self.0.metadata())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, arrowwood::export_schema(&self.0)?)
    }

    fn __repr__(&self) -> String {
        self.0.fields().iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Returns true if schemas are equal, including the order of their dictionaries, which arrow-rs leaves out.
fn is_same(one: &arrow_schema::Schema, other: &arrow_schema::Schema) -> bool {
    one == other && one.fields().iter().zip(other.fields()).all(|(one, other)| is_ordered_alike(one, other))
}

fn is_ordered_alike(one: &arrow_schema::Field, other: &arrow_schema::Field) -> bool {
    one.dict_is_ordered() == other.dict_is_ordered()
}

/// Imports the schema that `other` exports; `None` if it exports none.
fn foreign(other: &Bound<'_, PyAny>) -> Result<Option<arrow_schema::Schema>> {
    let exports = other.hasattr(intern!(other.py(), "__arrow_c_schema__"))?;
    exports.then(|| capsule::extract_schema(other)).transpose()
}

#[pymethods]
impl Field {
    /// Whether name, type and metadata are the same, of a field of any Arrow library.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> Result<bool> {
        if let Ok(other) = other.cast::<Field>() {
            return Ok(self.0 == other.get().0 && is_ordered_alike(&self.0, &other.get().0));
        }
        let other = capsule::extract_field(other)?;
        Ok(other.is_some_and(|other| *self.0 == other && is_ordered_alike(&self.0, &other)))
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The name of the type, such as ``"timestamp[ms, UTC]"`` or ``"dictionary<int8, utf8>"``.
    #[getter]
    fn r#type(&self) -> String {
        field_type_name(&self.0)
    }

    /// Whether the field is nullable.
    #[getter]
    fn nullable(&self) -> bool {
        self.0.is_nullable()
    }

    /// Key-value metadata.
    #[getter]
    fn metadata(&self) -> BTreeMap<String, String> {
        sorted(self.0.metadata())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        capsule::schema_capsule(py, arrowwood::export_field(&self.0)?)
    }

    fn __repr__(&self) -> String {
        format!("<arrowwood.Field {}>", line(&self.0))
    }
}

/// The fields of a schema, one after the other.
#[pyclass(module = "arrowwood")]
pub struct FieldIterator {
    fields: std::vec::IntoIter<FieldRef>,
}

#[pymethods]
impl FieldIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> Option<Field> {
        self.fields.next().map(Field)
    }
}

fn sorted(metadata: &HashMap<String, String>) -> BTreeMap<String, String> {
    metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn line(field: &FieldRef) -> String {
    let not_null = if field.is_nullable() { "" } else { " not null" };
    format!("{}: {}{not_null}", escape_hidden(field.name()), field_type_name(field))
}
