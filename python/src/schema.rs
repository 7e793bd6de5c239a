//! `Schema` and `Field`: names and types, without pyarrow.

use std::collections::BTreeMap;
use std::collections::HashMap;

use arrow_schema::{DataType, FieldRef, IntervalUnit, SchemaRef, TimeUnit, UnionMode};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};

use crate::errors::Result;
use crate::exchange;
use crate::index::{out_of_range, position};

/// Names, types and metadata of columns.
#[pyclass(frozen, module = "arrowwood", eq)]
#[derive(PartialEq)]
pub struct Schema(pub SchemaRef);

/// Name, type and metadata of one column.
#[pyclass(frozen, module = "arrowwood", eq)]
#[derive(PartialEq)]
pub struct Field(pub FieldRef);

#[pymethods]
impl Schema {
    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> Result<Field> {
        let found = match key.cast::<PyString>() {
            Ok(name) => self.0.field_with_name(name.to_str()?).ok().map(|field| field.clone().into()),
            Err(_) => {
                let at = position(key.extract()?, "field", || Ok(self.__len__() as u64))?;
                self.0.fields().get(at as usize).cloned()
            }
        };
        found.map(Field).ok_or_else(|| match key.is_instance_of::<PyString>() {
            true => exchange::no_column(key, &self.names()),
            false => out_of_range(format!("field {key} of {}", self.__len__())),
        })
    }

    fn __iter__(&self) -> FieldIterator {
        FieldIterator { fields: self.0.fields().iter().cloned().collect::<Vec<_>>().into_iter() }
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.fields().iter().map(|field| field.name().clone()).collect()
    }

    #[getter]
    fn metadata(&self) -> BTreeMap<String, String> {
        sorted(self.0.metadata())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        exchange::schema_capsule(py, self.0.as_ref())
    }

    fn __repr__(&self) -> String {
        self.0.fields().iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[pymethods]
impl Field {
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn r#type(&self) -> String {
        type_name(self.0.data_type())
    }

    #[getter]
    fn nullable(&self) -> bool {
        self.0.is_nullable()
    }

    #[getter]
    fn metadata(&self) -> BTreeMap<String, String> {
        sorted(self.0.metadata())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>> {
        exchange::schema_capsule(py, self.0.as_ref())
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
    format!("{}: {}{not_null}", field.name(), type_name(field.data_type()))
}

/// The type in the words of the Arrow format.
pub fn type_name(data_type: &DataType) -> String {
    use DataType::*;
    let list = |kind: &str, item: &FieldRef| format!("{kind}<{}>", line(item));
    match data_type {
        Boolean => "bool".into(),
        Timestamp(time, None) => format!("timestamp[{}]", unit(*time)),
        Timestamp(time, Some(zone)) => format!("timestamp[{}, {zone}]", unit(*time)),
        Time32(time) => format!("time32[{}]", unit(*time)),
        Time64(time) => format!("time64[{}]", unit(*time)),
        Duration(time) => format!("duration[{}]", unit(*time)),
        Interval(IntervalUnit::YearMonth) => "interval[year_month]".into(),
        Interval(IntervalUnit::DayTime) => "interval[day_time]".into(),
        Interval(IntervalUnit::MonthDayNano) => "interval[month_day_nano]".into(),
        Utf8View => "utf8_view".into(),
        LargeUtf8 => "large_utf8".into(),
        LargeBinary => "large_binary".into(),
        BinaryView => "binary_view".into(),
        FixedSizeBinary(width) => format!("fixed_size_binary[{width}]"),
        Decimal32(digits, scale) => format!("decimal32({digits}, {scale})"),
        Decimal64(digits, scale) => format!("decimal64({digits}, {scale})"),
        Decimal128(digits, scale) => format!("decimal128({digits}, {scale})"),
        Decimal256(digits, scale) => format!("decimal256({digits}, {scale})"),
        List(item) => list("list", item),
        LargeList(item) => list("large_list", item),
        ListView(item) => list("list_view", item),
        LargeListView(item) => list("large_list_view", item),
        FixedSizeList(item, size) => format!("fixed_size_list<{}>[{size}]", line(item)),
        Struct(fields) => format!("struct<{}>", fields.iter().map(line).collect::<Vec<_>>().join(", ")),
        Map(entries, _) => map_name(entries.data_type()),
        Union(fields, mode) => {
            let mode = if *mode == UnionMode::Dense { "dense" } else { "sparse" };
            format!("{mode}_union<{}>", fields.iter().map(|(_, field)| line(field)).collect::<Vec<_>>().join(", "))
        }
        Dictionary(key, value) => format!("dictionary<{}, {}>", type_name(key), type_name(value)),
        RunEndEncoded(ends, values) => {
            format!("run_end_encoded<{}, {}>", type_name(ends.data_type()), type_name(values.data_type()))
        }
        plain => plain.to_string().to_lowercase(),
    }
}

fn map_name(entries: &DataType) -> String {
    match entries {
        DataType::Struct(fields) => {
            let names: Vec<_> = fields.iter().map(|field| type_name(field.data_type())).collect();
            format!("map<{}>", names.join(", "))
        }
        other => format!("map<{}>", type_name(other)),
    }
}

fn unit(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
