//! Converts Python's tables to datasets: Arrow data, a dict of columns, rows as dicts, a data frame.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrowwood::{Dataset, Error, ErrorKind, type_name};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple};

use super::from_arrow::{exports_arrow, extract_dataset};
use crate::convert::column_builder::ColumnBuilder;
use crate::convert::from_numpy::{NumpyArray, NumpyParts, in_zone};
use crate::convert::infer::InferredType;
use crate::convert::to_value::ConversionError;
use crate::exchange::capsule::import_column;
use crate::interpreter::errors::{PyArrowwoodError, Result, column_not_found, invalid_argument, type_error};
use crate::interpreter::py_call::{CallPy, with_unwind_barrier};
use crate::types::tensor::{TensorShape, tensor_shape};

/// Converts `data` to a dataset with the columns of `schema`, found by name, or with the types of its values.
pub fn convert_to_dataset(data: &Bound<'_, PyAny>, schema: Option<&SchemaRef>) -> Result<Dataset> {
    with_unwind_barrier(|| dataset_of_any(data, schema))
}

fn dataset_of_any(data: &Bound<'_, PyAny>, schema: Option<&SchemaRef>) -> Result<Dataset> {
    let helper = helper(data.py(), "table")?;
    let table = helper.call_py((data,))?;
    if schema.is_none() && exports_arrow(&table)? {
        return extract_dataset(&table);
    }
    let mut input = table_of(&table)?;
    let schema = match schema {
        Some(schema) => {
            input.arrange(schema)?;
            schema.clone()
        }
        None => input.schema()?,
    };
    let columns = schema.fields().iter().zip(&input.columns).map(|(field, column)| column.arrays(field, input.rows));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let schema = input.with_orders(&schema);
    let batches = batches(&schema, &columns, input.rows)?;
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
    Numpy(NumpyArray),
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
    let mut columns = Vec::with_capacity(dataset.num_columns());
    for (number, field) in dataset.schema().fields().iter().enumerate() {
        let arrays = batches.iter().map(|batch| batch.column(number).clone()).collect();
        let values = InputValues::Arrow(field.as_ref().clone(), arrays);
        columns.push(InputColumn { name: field.name().clone(), values });
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    Ok(InputTable { columns, rows })
}

fn table_of_columns<'py>(dict: &Bound<'py, PyDict>) -> Result<InputTable<'py>> {
    let column = helper(dict.py(), "column")?;
    let mut columns = Vec::with_capacity(dict.len());
    for (name, values) in dict {
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

fn values_of<'py>(object: &Bound<'py, PyAny>) -> Result<InputValues<'py>> {
    if let Ok(list) = object.cast::<PyList>() {
        return Ok(InputValues::Objects(list.iter().collect()));
    }
    if object.is_instance_of::<PyTuple>() {
        let (kind, values, nulls, shape): NumpyParts<'_> = object.extract()?;
        // Times known to have no zone become Arrow times without one.
        let Some(kind) = kind.strip_prefix("naive ") else {
            return Ok(InputValues::Numpy(NumpyArray::try_new((kind, values, nulls, shape))?));
        };
        let array = NumpyArray::try_new((kind.into(), values, nulls, shape))?.array(None)?;
        return Ok(InputValues::Arrow(Field::new("", array.data_type().clone(), true), vec![array]));
    }
    import_column(object).map(|(field, arrays)| InputValues::Arrow(field, arrays))
}

/// Converts rows to columns: the names of all rows, in order of first appearance; missing values are None.
fn table_of_rows<'py>(object: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>) -> Result<InputTable<'py>> {
    let mut columns: Vec<(String, Vec<Bound<'py, PyAny>>)> = Vec::new();
    let mut numbers = HashMap::new();
    let mut rows = 0;
    for row in object {
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
        crate::interpreter::signals::stop_on_signal(row.py(), rows as u64)?;
    }
    let mut padded = Vec::with_capacity(columns.len());
    for (name, mut values) in columns {
        if let Some(none) = values.first().map(|value| value.py().None().into_bound(value.py())) {
            values.resize(rows, none);
        }
        assert_eq!(values.len(), rows, "each column must have a value for each row");
        padded.push(InputColumn { name, values: InputValues::Objects(values) });
    }
    Ok(InputTable { columns: padded, rows })
}

// ---- the result ----

impl<'py> InputTable<'py> {
    /// Returns the schema of the values.
    fn schema(&self) -> Result<SchemaRef> {
        let fields = self.columns.iter().map(InputColumn::field).collect::<Result<Fields>>()?;
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Returns `schema` with ordered categories only where the column's are ordered; others are numbered as they come.
    fn with_orders(&self, schema: &SchemaRef) -> SchemaRef {
        let fields = schema
            .fields()
            .iter()
            .zip(&self.columns)
            .map(|(field, column)| field.as_ref().clone().with_dict_is_ordered(column.is_ordered(field)));
        let fields: Fields = fields.collect();
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
            self.columns.push(match slot {
                Some(column) => column,
                None => InputColumn { name: field.name().clone(), values: InputValues::Missing },
            });
        }
        assert_eq!(self.columns.len(), schema.fields().len(), "each field must have one column");
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

    /// Returns the name and type of the values.
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

    /// Converts the values to arrays of the type of `field`.
    fn arrays(&self, field: &FieldRef, rows: usize) -> Result<Vec<ArrayRef>> {
        match &self.values {
            InputValues::Missing => Ok(vec![new_null_array(field.data_type(), rows)]),
            // Nulls are nulls of any type, even of one that no value can be converted to.
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
                let array = in_zone(&array.array(Some(field))?, &self.name, field.data_type())?;
                if array.data_type().is_integer() && field.data_type().is_temporal() {
                    // NumPy's integers count the column's unit, as Python's do; Arrow's integers are another type.
                    return Ok(vec![converted(array.data_type(), std::slice::from_ref(&array), field, true)?]);
                }
                self.cast(array.data_type(), std::slice::from_ref(&array), field)
            }
            InputValues::Arrow(own, arrays) => self.cast(own.data_type(), arrays, field),
        }
    }

    /// Converts `arrays` of type `data_type` to the type of `field`, value by value if it is another one.
    fn cast(&self, data_type: &DataType, arrays: &[ArrayRef], field: &FieldRef) -> Result<Vec<ArrayRef>> {
        if data_type != field.data_type() {
            if self.is_ordered(field) {
                return arrays.iter().map(|array| converted_categories(array, field)).collect();
            }
            return Ok(vec![converted(data_type, arrays, field, false)?]);
        }
        self.check_nulls(field, arrays)?;
        Ok(arrays.to_vec())
    }

    /// Returns true if both the column and `field` have ordered categories.
    fn is_ordered(&self, field: &Field) -> bool {
        match &self.values {
            InputValues::Arrow(source, _) => {
                source.dict_is_ordered() == Some(true) && field.dict_is_ordered() == Some(true)
            }
            _ => false,
        }
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
    object: &Bound<'_, PyAny>,
) -> Result<(), ConversionError> {
    let sizes: Option<Vec<usize>> =
        object.getattr_opt(intern!(object.py(), "shape"))?.and_then(|shape| shape.extract().ok());
    let is_whole = shape.order.is_none() && sizes.as_ref() == Some(&shape.sizes);
    let pushed = if is_whole {
        builder.push(&object.call_py_method(intern!(object.py(), "reshape"), (-1,))?)
    } else {
        builder.push(object)
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

/// Converts `arrays` of another type to one array of the type of `field`, value by value; with `are_counts`, integers
/// count its unit.
fn converted(data_type: &DataType, arrays: &[ArrayRef], field: &FieldRef, are_counts: bool) -> Result<ArrayRef> {
    let mut builder = ColumnBuilder::new(field).map_err(|e| e.in_column(field.name()))?;
    push_values(&mut builder, (data_type, arrays), field, are_counts)?;
    builder.finish().map_err(|e| e.in_column(field.name()))
}

/// Converts `array` of ordered categories to the type of `field`, with all categories in their order.
fn converted_categories(array: &ArrayRef, field: &FieldRef) -> Result<ArrayRef> {
    let categories = array.as_any_dictionary().values();
    let mut builder = ColumnBuilder::new(field).map_err(|e| e.in_column(field.name()))?;
    for values in [categories, array] {
        push_values(&mut builder, (values.data_type(), std::slice::from_ref(values)), field, false)?;
    }
    let whole = builder.finish().map_err(|e| e.in_column(field.name()))?;
    Ok(whole.slice(categories.len(), array.len()))
}

/// Pushes the values of `arrays`, of type `data_type`, to the builder of a column of `field`.
fn push_values(
    builder: &mut ColumnBuilder,
    (data_type, arrays): (&DataType, &[ArrayRef]),
    field: &FieldRef,
    are_counts: bool,
) -> Result<()> {
    let source = Arc::new(Schema::new(vec![Field::new(field.name(), data_type.clone(), true)]));
    let mut batches = Vec::with_capacity(arrays.len());
    for array in arrays {
        batches.push(RecordBatch::try_new(source.clone(), vec![array.clone()]).map_err(|e| broken(&e))?);
    }
    let dataset = Dataset::from_batches(source.clone(), batches)?;
    let column = dataset.column_at(0)?;
    for (row, value) in column.values().enumerate() {
        let value = value?;
        let pushed = if are_counts { builder.push_count(&value) } else { builder.push_value(&value) };
        pushed.map_err(|problem| problem.at_row(field.name(), row))?;
    }
    Ok(())
}

/// Returns batches that end where an array of any column ends.
fn batches(schema: &SchemaRef, columns: &[Vec<ArrayRef>], rows: usize) -> Result<Vec<RecordBatch>> {
    let ends = columns.iter().flat_map(|arrays| {
        arrays.iter().scan(0, |end, array| {
            *end += array.len();
            Some(*end)
        })
    });
    let ends: BTreeSet<usize> = ends.chain([rows]).filter(|end| *end > 0).collect();
    assert!(ends.last().is_none_or(|&end| end == rows), "an array ends after the last of {rows} rows");
    let mut batches = Vec::with_capacity(ends.len());
    let mut start = 0;
    for end in ends {
        let parts = columns.iter().map(|arrays| part(arrays, start, end)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(end - start));
        let batch = RecordBatch::try_new_with_options(schema.clone(), parts, &options);
        batches.push(batch.map_err(|e| broken(&e))?);
        start = end;
    }
    Ok(batches)
}

/// Returns rows `start .. end`, which must be inside of one array.
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
