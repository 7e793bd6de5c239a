//! Values one after the other as an array of any type that Python values can make.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, MutableBuffer, NullBufferBuilder, ToByteSlice};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, IntervalUnit};
use arrowwood::readable::time_zone_advice;
use arrowwood::{Error, ErrorKind, Items, Members, Value, type_name};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

use super::to_value::{
    ConversionError, ConversionErrorKind, NANOS_PER_MILLI, StoredValue, fit_to_type, in_units, to_builtin,
    to_stored_value, to_value,
};
use crate::interpreter::errors::{PyArrowwoodError, Result, invalid_argument};

/// An array in the making.
pub struct ColumnBuilder {
    field: FieldRef,
    rows: usize,
    nulls: NullBufferBuilder,
    store: ColumnStorage,
}

/// The contents of an array besides its nulls.
enum ColumnStorage {
    Nothing,
    Bits(BooleanBufferBuilder),
    /// The width of a number in bytes, and the numbers.
    Fixed(usize, MutableBuffer),
    /// Text or bytes, and where each value ends.
    Text(Vec<i64>, MutableBuffer),
    Views(BinaryViewBuilder),
    /// Keys, their values, and the key of each value.
    Dictionary(Vec<i64>, Box<ColumnBuilder>, HashMap<Vec<u8>, i64>),
    /// Where each list ends, and the items.
    List(Vec<i64>, Box<ColumnBuilder>),
    FixedList(usize, Box<ColumnBuilder>),
    Struct(Vec<ColumnBuilder>),
}

impl ColumnStorage {
    fn new(data_type: &DataType) -> Result<ColumnStorage> {
        use DataType::*;
        Ok(match data_type {
            Null => ColumnStorage::Nothing,
            Boolean => ColumnStorage::Bits(BooleanBufferBuilder::new(0)),
            FixedSizeBinary(width) => {
                let width = usize::try_from(*width).map_err(|_| unsupported(data_type))?;
                ColumnStorage::Fixed(width, MutableBuffer::new(0))
            }
            Utf8 | LargeUtf8 | Binary | LargeBinary => ColumnStorage::Text(vec![0], MutableBuffer::new(0)),
            Utf8View | BinaryView => ColumnStorage::Views(BinaryViewBuilder::new()),
            Dictionary(_, values) => {
                let values = ColumnBuilder::new(&Arc::new(Field::new("values", values.as_ref().clone(), true)))?;
                ColumnStorage::Dictionary(Vec::new(), Box::new(values), HashMap::new())
            }
            List(item) | LargeList(item) | ListView(item) | LargeListView(item) | Map(item, _) => {
                ColumnStorage::List(vec![0], Box::new(ColumnBuilder::new(item)?))
            }
            FixedSizeList(item, size) => {
                let size = usize::try_from(*size).map_err(|_| unsupported(data_type))?;
                ColumnStorage::FixedList(size, Box::new(ColumnBuilder::new(item)?))
            }
            Struct(fields) => ColumnStorage::Struct(fields.iter().map(ColumnBuilder::new).collect::<Result<_>>()?),
            number => {
                let width = number.primitive_width().ok_or_else(|| unsupported(number))?;
                ColumnStorage::Fixed(width, MutableBuffer::new(0))
            }
        })
    }
}

fn unsupported(data_type: &DataType) -> PyArrowwoodError {
    let message = format!("making {} of values one by one; give an Arrow array of that type", type_name(data_type));
    Error::new(ErrorKind::Unsupported, message).into()
}

impl ColumnBuilder {
    /// Creates a builder without values.
    pub fn new(field: &FieldRef) -> Result<ColumnBuilder> {
        let store = ColumnStorage::new(field.data_type())?;
        Ok(ColumnBuilder { field: field.clone(), rows: 0, nulls: NullBufferBuilder::new(0), store })
    }

    /// Appends `object`. After an error the builder can't be used any more.
    pub fn push(&mut self, object: &Bound<'_, PyAny>) -> Result<(), ConversionError> {
        if object.is_none() {
            return self.push_null();
        }
        match &mut self.store {
            ColumnStorage::List(..) | ColumnStorage::FixedList(..) | ColumnStorage::Struct(_) => {
                self.push_nested(object)
            }
            _ => self.push_scalar(object),
        }
    }

    fn push_scalar(&mut self, object: &Bound<'_, PyAny>) -> Result<(), ConversionError> {
        if let Ok(flag) = object.cast_exact::<PyBool>()
            && self.field.extension_type_name() == Some("arrow.bool8")
        {
            return self.push_cell(StoredValue::I64(flag.is_true().into()));
        }
        match to_stored_value(self.field.data_type(), object)? {
            Some(cell) => self.push_cell(cell),
            None => self.push_plain(object),
        }
    }

    fn push_plain(&mut self, object: &Bound<'_, PyAny>) -> Result<(), ConversionError> {
        match to_builtin(object)? {
            Some(other) => self.push(&other),
            None => Err(ConversionError::for_object(ConversionErrorKind::Type, self.field.data_type(), object)),
        }
    }

    fn push_nested(&mut self, object: &Bound<'_, PyAny>) -> Result<(), ConversionError> {
        let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
        match (&self.store, object.cast::<PyDict>()) {
            (ColumnStorage::Struct(_), Ok(dict)) => self.push_dict(dict),
            (ColumnStorage::List(..), dict)
                if matches!(self.field.data_type(), DataType::Map(..)) && (is_list || dict.is_ok()) =>
            {
                match dict {
                    Ok(dict) => self
                        .push_list(dict.len(), dict.iter(), |entries, (key, value)| entries.push_entry(&key, &value)),
                    Err(_) => {
                        self.push_list(object.len()?, object.try_iter()?, |entries, pair| entries.push_pair(&pair?))
                    }
                }
            }
            (ColumnStorage::List(..) | ColumnStorage::FixedList(..), _) if is_list => {
                self.push_list(object.len()?, object.try_iter()?, |items, item| items.push(&item?))
            }
            _ => match to_value(self.field.data_type(), object)? {
                Some(Value::Null) => self.push_null(),
                Some(_) => Err(ConversionError::for_object(ConversionErrorKind::Type, self.field.data_type(), object)),
                None => self.push_plain(object),
            },
        }
    }

    fn push_list<T>(
        &mut self,
        len: usize,
        list: impl Iterator<Item = T>,
        push: impl Fn(&mut ColumnBuilder, T) -> Result<(), ConversionError>,
    ) -> Result<(), ConversionError> {
        let items = match &mut self.store {
            ColumnStorage::FixedList(size, _) if *size != len => {
                return Err(ConversionError::new(
                    ConversionErrorKind::Range,
                    self.field.data_type(),
                    &format!("a list of {len}"),
                ));
            }
            ColumnStorage::FixedList(_, items) => items,
            ColumnStorage::List(ends, items) => {
                ends.push((items.rows + len) as i64);
                items
            }
            _ => return Err(ConversionError::new(ConversionErrorKind::Type, self.field.data_type(), "a list")),
        };
        list.into_iter().try_for_each(|item| push(items, item))?;
        self.one_more(true);
        Ok(())
    }

    /// Appends an entry of a map, given as a pair of key and value or as a dict of both.
    fn push_pair(&mut self, pair: &Bound<'_, PyAny>) -> Result<(), ConversionError> {
        let is_pair = pair.is_instance_of::<PyTuple>() || pair.is_instance_of::<PyList>();
        if is_pair && pair.len()? == 2 {
            return self.push_entry(&pair.get_item(0)?, &pair.get_item(1)?);
        }
        self.push(pair)
    }

    fn push_entry(&mut self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Result<(), ConversionError> {
        match &mut self.store {
            ColumnStorage::Struct(members) if members.len() == 2 => {
                members[0].push(key)?;
                members[1].push(value)?;
            }
            _ => return Err(ConversionError::new(ConversionErrorKind::Type, self.field.data_type(), "a pair")),
        }
        self.one_more(true);
        Ok(())
    }

    fn push_dict(&mut self, dict: &Bound<'_, PyDict>) -> Result<(), ConversionError> {
        let ColumnStorage::Struct(members) = &mut self.store else { return Ok(()) };
        let mut used_keys = 0;
        for member in members.iter_mut() {
            match dict.get_item(member.field.name())? {
                Some(value) => {
                    used_keys += 1;
                    member.push(&value)?;
                }
                None => member.push_null()?,
            }
        }
        if used_keys < dict.len() {
            let unknown = dict
                .keys()
                .iter()
                .find(|key| !members.iter().any(|member| key.eq(member.field.name()).unwrap_or(false)));
            let unknown = unknown.map_or_else(String::new, |key| key.to_string());
            return Err(ConversionError::new(
                ConversionErrorKind::Type,
                self.field.data_type(),
                &format!("a dict with '{unknown}'"),
            ));
        }
        self.one_more(true);
        Ok(())
    }

    /// Appends a value of another array.
    pub fn push_value(&mut self, value: &Value<'_>) -> Result<(), ConversionError> {
        match value {
            Value::List(items) | Value::Map(items) => self.push_items(*items),
            Value::Struct(members) => self.push_members(*members),
            value => {
                let data_type = self.field.data_type();
                let cell = fit_to_type(data_type, value).map_err(|misfit| {
                    ConversionError::new(misfit, data_type, &value.to_string())
                        .with_advice(time_zone_advice(data_type, value))
                })?;
                self.push_cell(cell)
            }
        }
    }

    /// Appends an integer as a count of the unit of times.
    pub fn push_count(&mut self, value: &Value<'_>) -> Result<(), ConversionError> {
        let data_type = self.field.data_type();
        let count = match value {
            Value::Int(count) => Some(*count),
            Value::UInt(count) => i64::try_from(*count).ok(),
            _ => return self.push_value(value),
        };
        let cell = count.and_then(|count| in_units(data_type, count)?.ok());
        let cell =
            cell.ok_or_else(|| ConversionError::new(ConversionErrorKind::Range, data_type, &value.to_string()))?;
        self.push_cell(cell)
    }

    fn push_items(&mut self, items: Items<'_>) -> Result<(), ConversionError> {
        self.push_list(items.len(), items.iter(), |builder, item| builder.push_value(&item?))
    }

    fn push_members(&mut self, source: Members<'_>) -> Result<(), ConversionError> {
        let ColumnStorage::Struct(members) = &mut self.store else {
            return Err(ConversionError::new(ConversionErrorKind::Type, self.field.data_type(), "a struct"));
        };
        if let Some((field, _)) = source.iter().find(|(f, _)| !members.iter().any(|m| m.field.name() == f.name())) {
            let got = format!("a struct with '{}'", field.name());
            return Err(ConversionError::new(ConversionErrorKind::Type, self.field.data_type(), &got));
        }
        for member in members {
            match source.iter().find(|(field, _)| field.name() == member.field.name()) {
                Some((_, value)) => member.push_value(&value?)?,
                None => member.push_null()?,
            }
        }
        self.one_more(true);
        Ok(())
    }

    fn push_null(&mut self) -> Result<(), ConversionError> {
        if !self.field.is_nullable() {
            let message = format!(
                "expected {} in '{}', which is not nullable, got None",
                type_name(self.field.data_type()),
                self.field.name()
            );
            return Err(ConversionError::Range(message));
        }
        self.fill();
        Ok(())
    }

    /// Appends a null even in a non-nullable field, below a null parent.
    fn fill(&mut self) {
        match &mut self.store {
            ColumnStorage::Nothing => (),
            ColumnStorage::Bits(bits) => bits.append(false),
            ColumnStorage::Fixed(width, bytes) => bytes.extend_zeros(*width),
            ColumnStorage::Text(ends, _) | ColumnStorage::List(ends, _) => {
                assert!(!ends.is_empty(), "offsets begin with 0");
                ends.push(ends[ends.len() - 1]);
            }
            ColumnStorage::Views(views) => views.append_null(),
            ColumnStorage::Dictionary(keys, ..) => keys.push(0),
            ColumnStorage::FixedList(size, items) => (0..*size).for_each(|_| items.fill()),
            ColumnStorage::Struct(members) => members.iter_mut().for_each(ColumnBuilder::fill),
        }
        self.one_more(false);
    }

    /// Counts a value, which is a null unless it is `valid`.
    fn one_more(&mut self, valid: bool) {
        self.rows += 1;
        self.nulls.append(valid);
    }

    /// Appends a cell that [`fit_to_type`] made for the builder's type.
    pub fn push_cell(&mut self, cell: StoredValue<'_>) -> Result<(), ConversionError> {
        let data_type = self.field.data_type();
        match (&mut self.store, cell) {
            (_, StoredValue::Null) => return self.push_null(),
            (ColumnStorage::Bits(bits), StoredValue::Bool(flag)) => bits.append(flag),
            (ColumnStorage::Fixed(_, bytes), cell) => store(bytes, data_type, cell),
            (ColumnStorage::Text(ends, data), cell) => {
                data.extend_from_slice(bytes_of(&cell));
                ends.push(data.len() as i64);
            }
            (ColumnStorage::Views(views), cell) => views.append_value(bytes_of(&cell)),
            (ColumnStorage::Dictionary(keys, values, seen), cell) => keys.push(key(values, seen, cell)?),
            _ => return Err(ConversionError::new(ConversionErrorKind::Type, data_type, "another value")),
        }
        self.one_more(true);
        Ok(())
    }

    /// Builds the array.
    pub fn finish(self) -> Result<ArrayRef> {
        Ok(make_array(self.data()?))
    }

    fn data(mut self) -> Result<ArrayData> {
        let data_type = self.field.data_type().clone();
        if let ColumnStorage::Views(mut views) = self.store {
            let views = views.finish().into_data().into_builder().data_type(data_type);
            return views.build().map_err(|e| broken(&e));
        }
        let (buffers, children) = parts(self.store, &data_type)?;
        let nulls = if data_type == DataType::Null { None } else { self.nulls.finish() };
        assert!(nulls.as_ref().is_none_or(|nulls| nulls.len() == self.rows), "each row must have one validity bit");
        let array = ArrayData::builder(data_type).len(self.rows).nulls(nulls).buffers(buffers).child_data(children);
        array.align_buffers(true).build().map_err(|e| broken(&e))
    }
}

fn parts(store: ColumnStorage, data_type: &DataType) -> Result<(Vec<Buffer>, Vec<ArrayData>)> {
    use DataType::{LargeBinary, LargeList, LargeListView, LargeUtf8, ListView};
    let is_wide = matches!(data_type, LargeUtf8 | LargeBinary | LargeList(_) | LargeListView(_));
    let offset = if is_wide { DataType::Int64 } else { DataType::Int32 };
    Ok(match store {
        ColumnStorage::Nothing | ColumnStorage::Views(_) => (Vec::new(), Vec::new()),
        ColumnStorage::Bits(mut bits) => (vec![bits.finish().into_inner()], Vec::new()),
        ColumnStorage::Fixed(_, bytes) => (vec![bytes.into()], Vec::new()),
        ColumnStorage::Text(ends, data) => (vec![narrow(&ends, &offset)?, data.into()], Vec::new()),
        ColumnStorage::List(ends, items) if matches!(data_type, ListView(_) | LargeListView(_)) => {
            let sizes: Vec<_> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(ends.len(), sizes.len() + 1, "offsets begin with 0");
            let starts = &ends[..sizes.len()];
            (vec![narrow(starts, &offset)?, narrow(&sizes, &offset)?], vec![items.data()?])
        }
        ColumnStorage::List(ends, items) => (vec![narrow(&ends, &offset)?], vec![items.data()?]),
        ColumnStorage::FixedList(_, items) => (Vec::new(), vec![items.data()?]),
        ColumnStorage::Struct(members) => {
            (Vec::new(), members.into_iter().map(ColumnBuilder::data).collect::<Result<_>>()?)
        }
        ColumnStorage::Dictionary(keys, values, _) => {
            let key_type = if let DataType::Dictionary(key, _) = data_type { key } else { &offset };
            (vec![narrow(&keys, key_type)?], vec![values.data()?])
        }
    })
}

fn broken(error: &ArrowError) -> PyArrowwoodError {
    invalid_argument(format!("making an array: {error}"))
}

/// Converts `numbers`, which must not be negative, to integers of type `data_type`.
fn narrow(numbers: &[i64], data_type: &DataType) -> Result<Buffer> {
    debug_assert!(numbers.iter().all(|&number| number >= 0), "offsets, sizes and keys are not negative");
    if let Some(&max) = numbers.iter().max()
        && fit_to_type(data_type, &Value::Int(max)).is_err()
    {
        let name = type_name(data_type);
        return Err(invalid_argument(format!(
            "{max} bytes, items or values in one batch are too many for {name}; give less"
        )));
    }
    let mut bytes = MutableBuffer::new(0);
    numbers.iter().for_each(|number| store(&mut bytes, data_type, StoredValue::I64(*number)));
    Ok(bytes.into())
}

/// Stores a cell of a type of fixed width.
fn store(bytes: &mut MutableBuffer, data_type: &DataType, cell: StoredValue<'_>) {
    // Bytes of fixed width have no width of a number, and are stored whole.
    let width = match data_type.primitive_width() {
        Some(width) => width,
        None => return bytes.extend_from_slice(bytes_of(&cell)),
    };
    match (data_type, cell) {
        (_, StoredValue::I64(number)) => {
            debug_assert!(matches!(width, 1..=8), "an integer is stored as {data_type}");
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        (_, StoredValue::U64(number)) => {
            debug_assert!(matches!(width, 1..=8), "an integer is stored as {data_type}");
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        (DataType::Interval(unit), StoredValue::Interval(months, days, nanoseconds)) => {
            store_interval(bytes, *unit, months, days, nanoseconds);
        }
        (_, StoredValue::Decimal(digits)) => bytes.extend_from_slice(&digits.to_le_bytes()[..width]),
        (DataType::Float16, StoredValue::F64(number)) => {
            bytes.extend_from_slice(&half::f16::from_f64(number).to_le_bytes())
        }
        (DataType::Float32, StoredValue::F64(number)) => bytes.extend_from_slice(&(number as f32).to_le_bytes()),
        (_, StoredValue::F64(number)) => bytes.extend_from_slice(&number.to_le_bytes()),
        (_, cell) => bytes.extend_from_slice(bytes_of(&cell)),
    }
}

/// Stores an interval, which [`fit_to_type`] has made for `unit`.
fn store_interval(bytes: &mut MutableBuffer, unit: IntervalUnit, months: i32, days: i32, nanoseconds: i64) {
    match unit {
        IntervalUnit::YearMonth => bytes.extend_from_slice(&months.to_le_bytes()),
        IntervalUnit::DayTime => {
            bytes.extend_from_slice(&days.to_le_bytes());
            bytes.extend_from_slice(&((nanoseconds / NANOS_PER_MILLI) as i32).to_le_bytes());
        }
        IntervalUnit::MonthDayNano => {
            bytes.extend_from_slice(&months.to_le_bytes());
            bytes.extend_from_slice(&days.to_le_bytes());
            bytes.extend_from_slice(&nanoseconds.to_le_bytes());
        }
    }
}

fn bytes_of<'a>(cell: &StoredValue<'a>) -> &'a [u8] {
    match cell {
        StoredValue::Str(text) => text.as_bytes(),
        StoredValue::Bytes(bytes) => bytes,
        _ => &[],
    }
}

/// Returns the key of a dictionary's value, which is added if it is new.
fn key(
    values: &mut ColumnBuilder,
    seen: &mut HashMap<Vec<u8>, i64>,
    cell: StoredValue<'_>,
) -> Result<i64, ConversionError> {
    let number;
    let spelled = match &cell {
        StoredValue::Str(_) | StoredValue::Bytes(_) => bytes_of(&cell),
        StoredValue::Bool(flag) => &[u8::from(*flag)][..],
        StoredValue::F64(float) => {
            number = float.to_bits();
            number.to_byte_slice()
        }
        StoredValue::I64(int) => int.to_byte_slice(),
        StoredValue::U64(int) => int.to_byte_slice(),
        StoredValue::Decimal(digits) => &digits.to_le_bytes().to_vec()[..],
        StoredValue::Interval(months, days, nanoseconds) => {
            &[&months.to_le_bytes()[..], &days.to_le_bytes(), &nanoseconds.to_le_bytes()].concat()
        }
        StoredValue::Null => &[],
    };
    if let Some(key) = seen.get(spelled) {
        return Ok(*key);
    }
    let key = values.rows as i64;
    seen.insert(spelled.to_vec(), key);
    values.push_cell(cell)?;
    Ok(key)
}
