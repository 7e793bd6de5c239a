//! Values one after the other as an array of any type that Python values can make.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, MutableBuffer, NullBufferBuilder, ToByteSlice};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, IntervalUnit};
use arrowwood::{Error, ErrorKind, Items, Members, Value, type_name, zone_advice};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

use super::cell::{Cell, Misfit, Problem, cell, fit, in_units, plain, read};
use crate::errors::{Failure, Result, argument};

/// An array in the making.
pub struct Builder {
    field: FieldRef,
    rows: usize,
    nulls: NullBufferBuilder,
    store: Store,
}

/// The contents of an array besides its nulls.
enum Store {
    Nothing,
    Bits(BooleanBufferBuilder),
    /// Numbers of so many bytes.
    Fixed(usize, MutableBuffer),
    /// Text or bytes, and where each value ends.
    Text(Vec<i64>, MutableBuffer),
    Views(BinaryViewBuilder),
    /// Keys, their values, and the key of each value.
    Dictionary(Vec<i64>, Box<Builder>, HashMap<Vec<u8>, i64>),
    /// Where each list ends, and the items.
    List(Vec<i64>, Box<Builder>),
    FixedList(usize, Box<Builder>),
    Struct(Vec<Builder>),
}

impl Store {
    fn new(data_type: &DataType) -> Result<Store> {
        use DataType::*;
        let buffer = || MutableBuffer::new(0);
        Ok(match data_type {
            Null => Store::Nothing,
            Boolean => Store::Bits(BooleanBufferBuilder::new(0)),
            FixedSizeBinary(width) => Store::Fixed(usize::try_from(*width).unwrap_or(0), buffer()),
            Utf8 | LargeUtf8 | Binary | LargeBinary => Store::Text(vec![0], buffer()),
            Utf8View | BinaryView => Store::Views(BinaryViewBuilder::new()),
            Dictionary(_, values) => {
                let values = Builder::new(&Arc::new(Field::new("values", values.as_ref().clone(), true)))?;
                Store::Dictionary(Vec::new(), Box::new(values), HashMap::new())
            }
            List(item) | LargeList(item) | ListView(item) | LargeListView(item) | Map(item, _) => {
                Store::List(vec![0], Box::new(Builder::new(item)?))
            }
            FixedSizeList(item, size) => {
                Store::FixedList(usize::try_from(*size).unwrap_or(0), Box::new(Builder::new(item)?))
            }
            Struct(fields) => Store::Struct(fields.iter().map(Builder::new).collect::<Result<_>>()?),
            number => Store::Fixed(number.primitive_width().ok_or_else(|| unsupported(number))?, buffer()),
        })
    }
}

fn unsupported(data_type: &DataType) -> Failure {
    let message = format!("making {} of values one by one; give an Arrow array of that type", type_name(data_type));
    Error::new(ErrorKind::Unsupported, message).into()
}

impl Builder {
    /// An array of no values yet.
    pub fn new(field: &FieldRef) -> Result<Builder> {
        let store = Store::new(field.data_type())?;
        Ok(Builder { field: field.clone(), rows: 0, nulls: NullBufferBuilder::new(0), store })
    }

    /// Appends `given`. After an error the builder can't be used any more.
    pub fn push(&mut self, given: &Bound<'_, PyAny>) -> Result<(), Problem> {
        if given.is_none() {
            return self.push_null();
        }
        match &mut self.store {
            Store::List(..) | Store::FixedList(..) | Store::Struct(_) => self.push_nested(given),
            _ => self.push_scalar(given),
        }
    }

    fn push_scalar(&mut self, given: &Bound<'_, PyAny>) -> Result<(), Problem> {
        if let Ok(flag) = given.cast_exact::<PyBool>()
            && self.field.extension_type_name() == Some("arrow.bool8")
        {
            return self.push_cell(Cell::I64(flag.is_true().into()));
        }
        match cell(self.field.data_type(), given)? {
            Some(cell) => self.push_cell(cell),
            None => self.push_plain(given),
        }
    }

    fn push_plain(&mut self, given: &Bound<'_, PyAny>) -> Result<(), Problem> {
        match plain(given)? {
            Some(other) => self.push(&other),
            None => Err(Problem::misfit(Misfit::Type, self.field.data_type(), given)),
        }
    }

    fn push_nested(&mut self, given: &Bound<'_, PyAny>) -> Result<(), Problem> {
        let is_list = given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>();
        match (&self.store, given.cast::<PyDict>()) {
            (Store::Struct(_), Ok(dict)) => self.push_dict(dict),
            (Store::List(..), dict)
                if matches!(self.field.data_type(), DataType::Map(..)) && (is_list || dict.is_ok()) =>
            {
                match dict {
                    Ok(dict) => self
                        .push_list(dict.len(), dict.iter(), |entries, (key, value)| entries.push_entry(&key, &value)),
                    Err(_) => {
                        self.push_list(given.len()?, given.try_iter()?, |entries, pair| entries.push_pair(&pair?))
                    }
                }
            }
            (Store::List(..) | Store::FixedList(..), _) if is_list => {
                self.push_list(given.len()?, given.try_iter()?, |items, item| items.push(&item?))
            }
            _ => match read(self.field.data_type(), given)? {
                Some(Value::Null) => self.push_null(),
                Some(_) => Err(Problem::misfit(Misfit::Type, self.field.data_type(), given)),
                None => self.push_plain(given),
            },
        }
    }

    fn push_list<T>(
        &mut self,
        len: usize,
        list: impl Iterator<Item = T>,
        push: impl Fn(&mut Builder, T) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let items = match &mut self.store {
            Store::FixedList(size, _) if *size != len => {
                return Err(Problem::new(Misfit::Range, self.field.data_type(), &format!("a list of {len}")));
            }
            Store::FixedList(_, items) => items,
            Store::List(ends, items) => {
                ends.push((items.rows + len) as i64);
                items
            }
            _ => return Err(Problem::new(Misfit::Type, self.field.data_type(), "a list")),
        };
        list.into_iter().try_for_each(|item| push(items, item))?;
        self.one_more(true);
        Ok(())
    }

    /// Appends an entry of a map, given as a pair of key and value or as a dict of both.
    fn push_pair(&mut self, pair: &Bound<'_, PyAny>) -> Result<(), Problem> {
        let is_pair = pair.is_instance_of::<PyTuple>() || pair.is_instance_of::<PyList>();
        if is_pair && pair.len()? == 2 {
            return self.push_entry(&pair.get_item(0)?, &pair.get_item(1)?);
        }
        self.push(pair)
    }

    fn push_entry(&mut self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Result<(), Problem> {
        match &mut self.store {
            Store::Struct(members) if members.len() == 2 => {
                members[0].push(key)?;
                members[1].push(value)?;
            }
            _ => return Err(Problem::new(Misfit::Type, self.field.data_type(), "a pair")),
        }
        self.one_more(true);
        Ok(())
    }

    fn push_dict(&mut self, dict: &Bound<'_, PyDict>) -> Result<(), Problem> {
        let Store::Struct(members) = &mut self.store else { return Ok(()) };
        let mut found = 0;
        for member in members.iter_mut() {
            match dict.get_item(member.field.name())? {
                Some(value) => {
                    found += 1;
                    member.push(&value)?;
                }
                None => member.push_null()?,
            }
        }
        if found < dict.len() {
            let is_known = |key: &Bound<'_, PyAny>| members.iter().any(|m| key.eq(m.field.name()).unwrap_or(false));
            let unknown = dict.keys().iter().find(|key| !is_known(key));
            let unknown = unknown.map_or_else(String::new, |key| key.to_string());
            return Err(Problem::new(Misfit::Type, self.field.data_type(), &format!("a dict with '{unknown}'")));
        }
        self.one_more(true);
        Ok(())
    }

    /// Appends a value of another array.
    pub fn push_value(&mut self, value: &Value<'_>) -> Result<(), Problem> {
        match value {
            Value::List(items) | Value::Map(items) => self.push_items(*items),
            Value::Struct(members) => self.push_members(*members),
            value => {
                let data_type = self.field.data_type();
                let problem =
                    |misfit| Problem::new(misfit, data_type, &value.to_string()).advised(zone_advice(data_type, value));
                let cell = fit(self.field.data_type(), value).map_err(problem)?;
                self.push_cell(cell)
            }
        }
    }

    /// Appends an integer as a count of the unit of times.
    pub fn push_count(&mut self, value: &Value<'_>) -> Result<(), Problem> {
        let data_type = self.field.data_type();
        let count = match value {
            Value::Int(count) => Some(*count),
            Value::UInt(count) => i64::try_from(*count).ok(),
            _ => return self.push_value(value),
        };
        let cell = count.and_then(|count| in_units(data_type, count)?.ok());
        let cell = cell.ok_or_else(|| Problem::new(Misfit::Range, data_type, &value.to_string()))?;
        self.push_cell(cell)
    }

    fn push_items(&mut self, items: Items<'_>) -> Result<(), Problem> {
        self.push_list(items.len(), items.iter(), |builder, item| builder.push_value(&item?))
    }

    fn push_members(&mut self, given: Members<'_>) -> Result<(), Problem> {
        let Store::Struct(members) = &mut self.store else {
            return Err(Problem::new(Misfit::Type, self.field.data_type(), "a struct"));
        };
        if let Some((field, _)) = given.iter().find(|(f, _)| !members.iter().any(|m| m.field.name() == f.name())) {
            let got = format!("a struct with '{}'", field.name());
            return Err(Problem::new(Misfit::Type, self.field.data_type(), &got));
        }
        for member in members {
            match given.iter().find(|(field, _)| field.name() == member.field.name()) {
                Some((_, value)) => member.push_value(&value?)?,
                None => member.push_null()?,
            }
        }
        self.one_more(true);
        Ok(())
    }

    fn push_null(&mut self) -> Result<(), Problem> {
        if !self.field.is_nullable() {
            let message = format!(
                "expected {} in '{}', which is not nullable, got None",
                type_name(self.field.data_type()),
                self.field.name()
            );
            return Err(Problem::Range(message));
        }
        self.fill();
        Ok(())
    }

    /// Appends a null even in a non-nullable field, below a null parent.
    fn fill(&mut self) {
        match &mut self.store {
            Store::Nothing => (),
            Store::Bits(bits) => bits.append(false),
            Store::Fixed(width, bytes) => bytes.extend_zeros(*width),
            Store::Text(ends, _) | Store::List(ends, _) => ends.push(ends.last().copied().unwrap_or(0)),
            Store::Views(views) => views.append_null(),
            Store::Dictionary(keys, ..) => keys.push(0),
            Store::FixedList(size, items) => (0..*size).for_each(|_| items.fill()),
            Store::Struct(members) => members.iter_mut().for_each(Builder::fill),
        }
        self.one_more(false);
    }

    fn one_more(&mut self, valid: bool) {
        self.rows += 1;
        self.nulls.append(valid);
    }

    /// Appends a cell that [`fit`] made for the builder's type.
    pub fn push_cell(&mut self, cell: Cell<'_>) -> Result<(), Problem> {
        let data_type = self.field.data_type();
        match (&mut self.store, cell) {
            (_, Cell::Null) => return self.push_null(),
            (Store::Bits(bits), Cell::Bool(flag)) => bits.append(flag),
            (Store::Fixed(_, bytes), cell) => store(bytes, data_type, cell),
            (Store::Text(ends, data), cell) => {
                data.extend_from_slice(bytes_of(&cell));
                ends.push(data.len() as i64);
            }
            (Store::Views(views), cell) => views.append_value(bytes_of(&cell)),
            (Store::Dictionary(keys, values, seen), cell) => keys.push(key(values, seen, cell)?),
            _ => return Err(Problem::new(Misfit::Type, data_type, "another value")),
        }
        self.one_more(true);
        Ok(())
    }

    /// The array.
    pub fn finish(self) -> Result<ArrayRef> {
        Ok(make_array(self.data()?))
    }

    fn data(mut self) -> Result<ArrayData> {
        let data_type = self.field.data_type().clone();
        if let Store::Views(mut views) = self.store {
            let views = views.finish().into_data().into_builder().data_type(data_type);
            return views.build().map_err(|e| broken(&e));
        }
        let (buffers, children) = parts(self.store, &data_type)?;
        let nulls = if data_type == DataType::Null { None } else { self.nulls.finish() };
        let array = ArrayData::builder(data_type).len(self.rows).nulls(nulls).buffers(buffers).child_data(children);
        array.align_buffers(true).build().map_err(|e| broken(&e))
    }
}

fn parts(store: Store, data_type: &DataType) -> Result<(Vec<Buffer>, Vec<ArrayData>)> {
    use DataType::{LargeBinary, LargeList, LargeListView, LargeUtf8, ListView};
    let is_wide = matches!(data_type, LargeUtf8 | LargeBinary | LargeList(_) | LargeListView(_));
    let offset = if is_wide { DataType::Int64 } else { DataType::Int32 };
    Ok(match store {
        Store::Nothing | Store::Views(_) => (Vec::new(), Vec::new()),
        Store::Bits(mut bits) => (vec![bits.finish().into_inner()], Vec::new()),
        Store::Fixed(_, bytes) => (vec![bytes.into()], Vec::new()),
        Store::Text(ends, data) => (vec![narrow(&ends, &offset)?, data.into()], Vec::new()),
        Store::List(ends, items) if matches!(data_type, ListView(_) | LargeListView(_)) => {
            let sizes: Vec<_> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let starts = ends.get(..sizes.len()).unwrap_or_default();
            (vec![narrow(starts, &offset)?, narrow(&sizes, &offset)?], vec![items.data()?])
        }
        Store::List(ends, items) => (vec![narrow(&ends, &offset)?], vec![items.data()?]),
        Store::FixedList(_, items) => (Vec::new(), vec![items.data()?]),
        Store::Struct(members) => (Vec::new(), members.into_iter().map(Builder::data).collect::<Result<_>>()?),
        Store::Dictionary(keys, values, _) => {
            let key_type = if let DataType::Dictionary(key, _) = data_type { key } else { &offset };
            (vec![narrow(&keys, key_type)?], vec![values.data()?])
        }
    })
}

fn broken(error: &ArrowError) -> Failure {
    argument(format!("making an array: {error}"))
}

/// `numbers`, which must not be negative, as integers of type `data_type`.
fn narrow(numbers: &[i64], data_type: &DataType) -> Result<Buffer> {
    let last = numbers.iter().copied().max().unwrap_or(0);
    if fit(data_type, &Value::Int(last)).is_err() {
        let name = type_name(data_type);
        return Err(argument(format!("{last} bytes, items or values in one batch are too many for {name}; give less")));
    }
    let mut bytes = MutableBuffer::new(0);
    numbers.iter().for_each(|number| store(&mut bytes, data_type, Cell::I64(*number)));
    Ok(bytes.into())
}

/// Stores a cell of a type of fixed width.
fn store(bytes: &mut MutableBuffer, data_type: &DataType, cell: Cell<'_>) {
    let width = data_type.primitive_width().unwrap_or(0);
    match (data_type, cell) {
        (_, Cell::I64(number)) => bytes.extend_from_slice(&number.to_le_bytes()[..width]),
        (_, Cell::U64(number)) => bytes.extend_from_slice(&number.to_le_bytes()[..width]),
        (DataType::Interval(unit), Cell::Interval(months, days, nanoseconds)) => {
            store_interval(bytes, *unit, months, days, nanoseconds);
        }
        (_, Cell::Decimal(digits)) => bytes.extend_from_slice(&digits.to_le_bytes()[..width]),
        (DataType::Float16, Cell::F64(number)) => bytes.extend_from_slice(&half::f16::from_f64(number).to_le_bytes()),
        (DataType::Float32, Cell::F64(number)) => bytes.extend_from_slice(&(number as f32).to_le_bytes()),
        (_, Cell::F64(number)) => bytes.extend_from_slice(&number.to_le_bytes()),
        (_, cell) => bytes.extend_from_slice(bytes_of(&cell)),
    }
}

/// Stores an interval that [`fit`] has found to have no more parts than `unit` has.
fn store_interval(bytes: &mut MutableBuffer, unit: IntervalUnit, months: i32, days: i32, nanoseconds: i64) {
    match unit {
        IntervalUnit::YearMonth => bytes.extend_from_slice(&months.to_le_bytes()),
        IntervalUnit::DayTime => {
            bytes.extend_from_slice(&days.to_le_bytes());
            bytes.extend_from_slice(&((nanoseconds / 1_000_000) as i32).to_le_bytes());
        }
        IntervalUnit::MonthDayNano => {
            bytes.extend_from_slice(&months.to_le_bytes());
            bytes.extend_from_slice(&days.to_le_bytes());
            bytes.extend_from_slice(&nanoseconds.to_le_bytes());
        }
    }
}

fn bytes_of<'a>(cell: &Cell<'a>) -> &'a [u8] {
    match cell {
        Cell::Str(text) => text.as_bytes(),
        Cell::Bytes(bytes) => bytes,
        _ => &[],
    }
}

/// The key of a dictionary's value, which is added if it is new.
fn key(values: &mut Builder, seen: &mut HashMap<Vec<u8>, i64>, cell: Cell<'_>) -> Result<i64, Problem> {
    let number;
    let spelled = match &cell {
        Cell::Str(_) | Cell::Bytes(_) => bytes_of(&cell),
        Cell::Bool(flag) => &[u8::from(*flag)][..],
        Cell::F64(float) => {
            number = float.to_bits();
            number.to_byte_slice()
        }
        Cell::I64(int) => int.to_byte_slice(),
        Cell::U64(int) => int.to_byte_slice(),
        Cell::Decimal(digits) => &digits.to_le_bytes().to_vec()[..],
        Cell::Interval(months, days, nanoseconds) => {
            &[&months.to_le_bytes()[..], &days.to_le_bytes(), &nanoseconds.to_le_bytes()].concat()
        }
        Cell::Null => &[],
    };
    if let Some(key) = seen.get(spelled) {
        return Ok(*key);
    }
    let key = values.rows as i64;
    seen.insert(spelled.to_vec(), key);
    values.push_cell(cell)?;
    Ok(key)
}
