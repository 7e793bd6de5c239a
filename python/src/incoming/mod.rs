//! Converts Python's tables to datasets: Arrow data, a dict of columns, rows as dicts, a data frame.
//!
//! In reading order: `convert_value` (one value), `column_builder` (values as an array), `infer` (the type of values), `numpy`.

mod column_builder;
mod convert_value;
mod infer;
mod numpy;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrowwood::{Dataset, Error, ErrorKind, type_name};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::capsule::{column_not_found, import_column};
use crate::errors::{PyArrowwoodError, Result, invalid_argument, type_error};
use crate::from_arrow::{exports_arrow, extract_dataset};
use crate::py_call::{CallPy, with_unwind_barrier};
use crate::tensor::{TensorShape, tensor_shape};
use column_builder::ColumnBuilder;
pub use convert_value::{ConversionError, to_builtin, to_stored_value, to_value};
use infer::InferredType;

/// The dataset that `data` is: one of `schema`, whose columns it has by name, or of the types that its values have.
pub fn convert_to_dataset(data: &Bound<'_, PyAny>, schema: Option<&SchemaRef>) -> Result<Dataset> {
    with_unwind_barrier(|| dataset_of_any(data, schema))
}

fn dataset_of_any(data: &Bound<'_, PyAny>, schema: Option<&SchemaRef>) -> Result<Dataset> {
    let helper = helper(data.py(), "table")?;
    let table = helper.call_py((data,))?;
    if schema.is_none() && exports_arrow(&table)? {
        return extract_dataset(&table);
    }
    let mut given = table_of(&table)?;
    let schema = match schema {
        Some(schema) => {
            given.arrange(schema)?;
            schema.clone()
        }
        None => given.schema()?,
    };
    let columns = schema.fields().iter().zip(&given.columns).map(|(field, column)| column.arrays(field, given.rows));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let schema = given.with_orders(&schema);
    let batches = batches(&schema, &columns, given.rows)?;
    Ok(Dataset::from_batches(schema, batches)?)
}

fn helper<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("arrowwood._incoming")?.getattr(name)
}

/// The given columns, of `rows` rows each.
struct InputTable<'py> {
    columns: Vec<InputColumn<'py>>,
    rows: usize,
}

struct InputColumn<'py> {
    name: String,
    values: InputValues<'py>,
}

enum InputValues<'py> {
    Arrow(Field, Vec<ArrayRef>),
    Numpy(numpy::NumpyArray),
    Objects(Vec<Bound<'py, PyAny>>),
    Missing,
}

// ---- the given columns ----

fn table_of<'py>(data: &Bound<'py, PyAny>) -> Result<InputTable<'py>> {
    if exports_arrow(data)? {
        return table_of_dataset(&extract_dataset(data)?);
    }
    if let Some(columns) = dict_of(data)? {
        return table_of_columns(&columns);
    }
    match data.try_iter() {
        Ok(mut rows) if !data.is_instance_of::<PyString>() => {
            table_of_rows(std::iter::from_fn(|| with_unwind_barrier(|| rows.next())))
        }
        _ => {
            let got = data.get_type().name()?;
            let wanted = "a dict of columns, a list of dicts, a data frame, or an object with __arrow_c_stream__ or \
                          __arrow_c_array__";
            Err(type_error(format!("expected {wanted}, got {got}")))
        }
    }
}

fn dict_of<'py>(data: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    if let Ok(dict) = data.cast::<PyDict>() {
        return Ok(Some(dict.clone()));
    }
    let Ok(mapping) = data.cast::<PyMapping>() else { return Ok(None) };
    let dict = PyDict::new(data.py());
    dict.update(mapping)?;
    Ok(Some(dict))
}

fn table_of_dataset<'py>(dataset: &Dataset) -> Result<InputTable<'py>> {
    let batches = dataset.to_record_batches().collect::<Result<Vec<_>, _>>()?;
    let column = |(number, field): (usize, &FieldRef)| {
        let arrays = batches.iter().map(|batch| batch.column(number).clone()).collect();
        InputColumn { name: field.name().clone(), values: InputValues::Arrow(field.as_ref().clone(), arrays) }
    };
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    Ok(InputTable { columns: dataset.schema().fields().iter().enumerate().map(column).collect(), rows })
}

fn table_of_columns<'py>(given: &Bound<'py, PyDict>) -> Result<InputTable<'py>> {
    let column = helper(given.py(), "column")?;
    let mut columns = Vec::with_capacity(given.len());
    for (name, values) in given {
        let name = name_of(&name)?;
        let values = values_of(&column.call_py((&name, values))?).map_err(|e| e.in_column(&name))?;
        columns.push(InputColumn { name, values });
    }
    let rows = columns.first().map_or(0, InputColumn::len);
    if columns.iter().any(|column| column.len() != rows) {
        let lengths: Vec<_> = columns.iter().map(|column| format!("'{}' has {}", column.name, column.len())).collect();
        return Err(invalid_argument(format!("the columns must have one number of rows: {}", lengths.join(", "))));
    }
    Ok(InputTable { columns, rows })
}

fn name_of(name: &Bound<'_, PyAny>) -> Result<String> {
    name.extract().map_err(|_| type_error(format!("a column's name must be a str, got {name}")))
}

fn values_of<'py>(given: &Bound<'py, PyAny>) -> Result<InputValues<'py>> {
    if let Ok(list) = given.cast::<PyList>() {
        return Ok(InputValues::Objects(list.iter().collect()));
    }
    if given.is_instance_of::<PyTuple>() {
        let (kind, values, nulls, shape): numpy::NumpyParts<'_> = given.extract()?;
        // Times known to have no zone become Arrow times without one.
        let Some(kind) = kind.strip_prefix("naive ") else {
            return Ok(InputValues::Numpy(numpy::NumpyArray::try_new((kind, values, nulls, shape))?));
        };
        let array = numpy::NumpyArray::try_new((kind.into(), values, nulls, shape))?.array(None)?;
        return Ok(InputValues::Arrow(Field::new("", array.data_type().clone(), true), vec![array]));
    }
    import_column(given).map(|(field, arrays)| InputValues::Arrow(field, arrays))
}

/// Converts rows to columns: the names of all rows, in order of first appearance; missing values are None.
fn table_of_rows<'py>(given: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>) -> Result<InputTable<'py>> {
    let mut columns: Vec<(String, Vec<Bound<'py, PyAny>>)> = Vec::new();
    let mut numbers = HashMap::new();
    let mut rows = 0;
    for row in given {
        let row = row?;
        let none = row.py().None().into_bound(row.py());
        let Some(dict) = dict_of(&row)? else {
            let got = row.get_type().name()?;
            return Err(type_error(format!("row {rows}: expected a dict of the row's values by column, got {got}")));
        };
        for (name, value) in dict {
            let text = name
                .cast::<PyString>()
                .map_err(|_| type_error(format!("row {rows}: a column's name must be a str, got {name}")))?;
            let text = text.to_str()?;
            let number = numbers.get(text).copied().unwrap_or(columns.len());
            if number == columns.len() {
                numbers.insert(text.to_owned(), number);
                columns.push((text.to_owned(), Vec::new()));
            }
            columns[number].1.resize(rows, none.clone());
            columns[number].1.push(value);
        }
        rows += 1;
        crate::index::stop_on_signal(row.py(), rows as u64)?;
    }
    let pad = |(name, mut values): (String, Vec<Bound<'py, PyAny>>)| {
        if let Some(none) = values.first().map(|value| value.py().None().into_bound(value.py())) {
            values.resize(rows, none);
        }
        InputColumn { name, values: InputValues::Objects(values) }
    };
    Ok(InputTable { columns: columns.into_iter().map(pad).collect(), rows })
}

// ---- the result ----

impl<'py> InputTable<'py> {
    /// The schema that the values have.
    fn schema(&self) -> Result<SchemaRef> {
        let fields = self.columns.iter().map(InputColumn::field).collect::<Result<Fields>>()?;
        Ok(Arc::new(Schema::new(fields)))
    }

    /// `schema`, whose categories are ordered only where those of the column are: others are numbered as they come.
    fn with_orders(&self, schema: &SchemaRef) -> SchemaRef {
        let field = |(field, column): (&FieldRef, &InputColumn)| {
            Arc::new(field.as_ref().clone().with_dict_is_ordered(column.is_ordered(field)))
        };
        let fields: Fields = schema.fields().iter().zip(&self.columns).map(field).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    /// Brings the columns into the order of `schema`; one that may be null need not be there.
    fn arrange(&mut self, schema: &SchemaRef) -> Result<()> {
        let is_nothing = self.rows == 0 && self.columns.is_empty();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let mut slots: Vec<_> = names.iter().map(|_| None).collect();
        for column in self.columns.drain(..) {
            let slot = names.iter().zip(&mut slots).find(|(name, slot)| **name == column.name && slot.is_none());
            let (_, slot) = slot.ok_or_else(|| column_not_found(&column.name, &names))?;
            *slot = Some(column);
        }
        for (field, slot) in schema.fields().iter().zip(slots) {
            if slot.is_none() && !field.is_nullable() && !is_nothing {
                let message = format!("column '{}' is missing, and it is not nullable", field.name());
                return Err(Error::new(ErrorKind::SchemaMismatch, message).into());
            }
            let missing = || InputColumn { name: field.name().clone(), values: InputValues::Missing };
            self.columns.push(slot.unwrap_or_else(missing));
        }
        Ok(())
    }
}

impl InputColumn<'_> {
    fn len(&self) -> usize {
        match &self.values {
            InputValues::Arrow(_, arrays) => arrays.iter().map(|array| array.len()).sum(),
            InputValues::Numpy(array) => array.len(),
            InputValues::Objects(objects) => objects.len(),
            InputValues::Missing => 0,
        }
    }

    /// Name and type that the values have.
    fn field(&self) -> Result<FieldRef> {
        let objects = match &self.values {
            InputValues::Arrow(field, _) => return Ok(Arc::new(field.clone().with_name(&self.name))),
            InputValues::Numpy(array) => return Ok(Arc::new(array.field(&self.name)?)),
            InputValues::Objects(objects) => &objects[..],
            InputValues::Missing => &[],
        };
        let mut kind = InferredType::Unknown;
        for (row, object) in objects.iter().enumerate() {
            kind.observe(object).map_err(|problem| problem.at_row(&self.name, row))?;
        }
        Ok(Arc::new(kind.field(&self.name)))
    }

    /// The values as arrays of the type of `field`.
    fn arrays(&self, field: &FieldRef, rows: usize) -> Result<Vec<ArrayRef>> {
        match &self.values {
            InputValues::Missing => Ok(vec![new_null_array(field.data_type(), rows)]),
            // Nulls are nulls of any type, also of those that no value can be made of.
            InputValues::Objects(objects) if field.is_nullable() && objects.iter().all(|object| object.is_none()) => {
                Ok(vec![new_null_array(field.data_type(), rows)])
            }
            InputValues::Objects(objects) => {
                let mut builder = ColumnBuilder::new(field).map_err(|e| e.in_column(&self.name))?;
                let shape = tensor_shape(field);
                for (row, object) in objects.iter().enumerate() {
                    let pushed = match &shape {
                        Some(shape) => push_tensor(&mut builder, shape, object),
                        None => builder.push(object),
                    };
                    pushed.map_err(|problem| problem.at_row(&self.name, row))?;
                }
                Ok(vec![builder.finish().map_err(|e| e.in_column(&self.name))?])
            }
            InputValues::Numpy(array) => {
                let array = numpy::in_zone(&array.array(Some(field))?, &self.name, field.data_type())?;
                if array.data_type().is_integer() && field.data_type().is_temporal() {
                    // Counts of the column's unit, as Python's integers are; those of Arrow are of another type.
                    return Ok(vec![converted(array.data_type(), std::slice::from_ref(&array), field, true)?]);
                }
                self.cast(array.data_type(), std::slice::from_ref(&array), field)
            }
            InputValues::Arrow(own, arrays) => self.cast(own.data_type(), arrays, field),
        }
    }

    /// `arrays` as of the type of `field`: as they are, or value by value.
    fn cast(&self, own: &DataType, arrays: &[ArrayRef], field: &FieldRef) -> Result<Vec<ArrayRef>> {
        if own != field.data_type() {
            if self.is_ordered(field) {
                return arrays.iter().map(|array| converted_categories(array, field)).collect();
            }
            return Ok(vec![converted(own, arrays, field, false)?]);
        }
        self.check_nulls(field, arrays)?;
        Ok(arrays.to_vec())
    }

    /// Whether the column has ordered categories, as `field` has.
    fn is_ordered(&self, field: &Field) -> bool {
        let is_ordered = |field: &Field| field.dict_is_ordered() == Some(true);
        matches!(&self.values, InputValues::Arrow(own, _) if is_ordered(own) && is_ordered(field))
    }

    fn check_nulls(&self, field: &FieldRef, arrays: &[ArrayRef]) -> Result<()> {
        if field.is_nullable() || arrays.iter().all(|array| array.null_count() == 0) {
            return Ok(());
        }
        let nulls = arrays.iter().flat_map(|array| (0..array.len()).map(|row| array.is_null(row)));
        let row = nulls.take_while(|is_null| !is_null).count();
        let name = type_name(field.data_type());
        Err(ConversionError::Range(format!("expected {name}, which is not nullable, got null")).at_row(&self.name, row))
    }
}

/// Pushes an array of the shape of a tensor's rows, or its items in a row.
fn push_tensor(
    builder: &mut ColumnBuilder,
    shape: &TensorShape,
    given: &Bound<'_, PyAny>,
) -> Result<(), ConversionError> {
    let sizes: Option<Vec<usize>> = given.getattr_opt(intern!(given.py(), "shape"))?.and_then(|own| own.extract().ok());
    let is_whole = shape.order.is_none() && sizes.as_ref() == Some(&shape.sizes);
    let pushed = if is_whole {
        builder.push(&given.call_py_method(intern!(given.py(), "reshape"), (-1,))?)
    } else {
        builder.push(given)
    };
    pushed.map_err(|problem| match problem {
        ConversionError::Range(message) if shape.order.is_none() => {
            let whole = &shape.sizes;
            let items = shape.items();
            ConversionError::Range(format!(
                "{message}; write a NumPy array of shape {whole:?}, or its {items} items in a row"
            ))
        }
        other => other,
    })
}

/// `arrays` of another type as one of the type of `field`, value by value; integers as counts of its unit if so asked.
fn converted(own: &DataType, arrays: &[ArrayRef], field: &FieldRef, are_counts: bool) -> Result<ArrayRef> {
    let mut builder = ColumnBuilder::new(field).map_err(|e| e.in_column(field.name()))?;
    push_values(&mut builder, (own, arrays), field, are_counts)?;
    builder.finish().map_err(|e| e.in_column(field.name()))
}

/// `array` of ordered categories as one of the type of `field`, with all of them in their order.
fn converted_categories(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    let categories = array.as_any_dictionary().values();
    let mut builder = ColumnBuilder::new(field).map_err(|e| e.in_column(field.name()))?;
    for values in [categories, array] {
        push_values(&mut builder, (values.data_type(), std::slice::from_ref(values)), field, false)?;
    }
    let whole = builder.finish().map_err(|e| e.in_column(field.name()))?;
    Ok(whole.slice(categories.len(), array.len()))
}

/// Pushes the values of `arrays`, of type `own`, to the builder of a column of `field`.
fn push_values(
    builder: &mut ColumnBuilder,
    (own, arrays): (&DataType, &[ArrayRef]),
    field: &FieldRef,
    are_counts: bool,
) -> Result<()> {
    let source = Arc::new(Schema::new(vec![Field::new(field.name(), own.clone(), true)]));
    let batch = |array: &ArrayRef| RecordBatch::try_new(source.clone(), vec![array.clone()]).map_err(|e| broken(&e));
    let batches = arrays.iter().map(batch).collect::<Result<Vec<_>>>()?;
    let dataset = Dataset::from_batches(source.clone(), batches)?;
    let column = dataset.column_at(0)?;
    for (row, value) in column.values().enumerate() {
        let value = value?;
        let pushed = if are_counts { builder.push_count(&value) } else { builder.push_value(&value) };
        pushed.map_err(|problem| problem.at_row(field.name(), row))?;
    }
    Ok(())
}

/// Batches that end where an array of any column ends.
fn batches(schema: &SchemaRef, columns: &[Vec<ArrayRef>], rows: usize) -> Result<Vec<RecordBatch>> {
    let ends = columns.iter().flat_map(|arrays| {
        arrays.iter().scan(0, |end, array| {
            *end += array.len();
            Some(*end)
        })
    });
    let ends: BTreeSet<usize> = ends.chain([rows]).filter(|end| *end > 0).collect();
    let mut start = 0;
    let batch = |end| {
        let parts = columns.iter().map(|arrays| part(arrays, start, end)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(end - start));
        start = end;
        RecordBatch::try_new_with_options(schema.clone(), parts, &options).map_err(|e| broken(&e))
    };
    ends.into_iter().map(batch).collect()
}

/// Rows `start .. end`, which are inside of one array.
fn part(arrays: &[ArrayRef], start: usize, end: usize) -> ArrayRef {
    let mut first = 0;
    for array in arrays {
        if start < first + array.len() {
            return array.slice(start - first, end - start);
        }
        first += array.len();
    }
    new_null_array(&DataType::Null, end - start)
}

fn broken(error: &arrow_schema::ArrowError) -> PyArrowwoodError {
    invalid_argument(format!("making a record batch: {error}"))
}
