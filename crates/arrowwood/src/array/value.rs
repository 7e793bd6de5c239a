//! Reads one cell of an array. Every offset, key, view and run end is loaded once and bounded before it is used, so a
//! cell can be read without a prior check of the whole column, and changing bytes yield an error or a wrong value,
//! never an access outside the buffers.

use arrow_buffer::i256;
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit, UnionMode};

use super::unchecked::UncheckedArray;
use crate::error::{Error, ErrorKind, Result};
use crate::map::guard;
use crate::types::layout::zones_agree;
use crate::types::{MAX_INLINE, MILLIS_PER_DAY, NANOS_PER_MILLI, VIEW_WIDTH, fixed_size};

/// A value of a cell, borrowed from the dataset if larger than a word.
///
/// Integers and floats of any width have few variants. Times keep the unit of their column.
///
/// ```
/// use arrowwood::Value;
///
/// fn to_float(value: &Value) -> Option<f64> {
///     match value {
///         Value::Int(number) => Some(*number as f64),
///         Value::Float64(number) => Some(*number),
///         _ => None,
///     }
/// }
/// assert_eq!(to_float(&Value::Int(3)), Some(3.0));
/// assert_eq!(Value::Str("IBM").to_string(), "IBM");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value: SQL's null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    UInt(u64),
    /// An integer wider than 64 bits: an exact sum.
    Int128(i128),
    /// A float of 16 or 32 bits.
    Float32(f32),
    /// A float of 64 bits.
    Float64(f64),
    /// `digits × 10^-scale`.
    Decimal {
        /// The unscaled number.
        digits: i256,
        /// The number of digits after the decimal point.
        scale: i8,
    },
    /// Text.
    Str(&'a str),
    /// Bytes of any length, also those of a fixed length.
    Bytes(&'a [u8]),
    /// The 16 bytes of a UUID: extension type `arrow.uuid`.
    Uuid(&'a [u8; 16]),
    /// Days since 1970-01-01.
    Date(i64),
    /// The number of units since midnight.
    Time(i64, TimeUnit),
    /// The number of units since 1970-01-01 00:00:00, in UTC if there is a time zone.
    Timestamp(i64, TimeUnit, Option<&'a str>),
    /// The number of units of a length of time.
    Duration(i64, TimeUnit),
    /// Calendar months, days and nanoseconds, with the unit of the type.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
        /// The type's unit.
        unit: IntervalUnit,
    },
    /// A list of any kind.
    List(Items<'a>),
    /// A map; the items are structs of key and value.
    Map(Items<'a>),
    /// A struct, with a value for each of its fields.
    Struct(Members<'a>),
    /// A union's value, and the name of its member.
    Union(&'a FieldRef, Box<Value<'a>>),
}

impl Value<'_> {
    /// Returns true if the value is null, or a union with a null member.
    pub fn is_null(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Union(_, member) => member.is_null(),
            _ => false,
        }
    }
}

/// Returns advice for a time with a time zone that a column of `data_type` without one refuses, or the reverse: the end
/// of an error's message, for users of Python. Empty if `value` has another problem.
///
/// ```
/// use arrow_schema::{DataType, TimeUnit};
/// use arrowwood::Value;
/// use arrowwood::readable::time_zone_advice;
///
/// let value = Value::Timestamp(0, TimeUnit::Second, None);
/// let advice = time_zone_advice(&DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), &value);
/// assert!(advice.starts_with("; the column has a time zone: "));
/// assert_eq!(time_zone_advice(&DataType::Int64, &value), "");
/// ```
pub fn time_zone_advice(data_type: &DataType, value: &Value<'_>) -> &'static str {
    let DataType::Timestamp(_, column) = data_type else { return "" };
    match (column.as_deref(), value) {
        (Some(_), Value::Timestamp(_, _, None)) => {
            "; the column has a time zone: give the value its own, as by value.replace(tzinfo=…) in Python"
        }
        (Some(_), Value::Date(_)) => {
            "; the column has a time zone: give a time that has one, as datetime(…, tzinfo=…) in Python"
        }
        (Some(zone), Value::Timestamp(_, _, Some(""))) if !zones_agree(Some(zone), Some("")) => {
            "; it has no time zone, and the column is not in UTC: give the value its own, as by \
             pandas.Timestamp(value, tz=…)"
        }
        (None, Value::Timestamp(_, _, Some(zone))) if !zone.is_empty() => {
            "; the column has no time zone: convert the value to the zone that the column is meant in, and take that \
             off, as by value.astimezone(…).replace(tzinfo=None) in Python"
        }
        _ => "",
    }
}

/// The items of a list.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    field: &'a Field,
    values: &'a UncheckedArray,
    start: usize,
    len: usize,
}

impl<'a> Items<'a> {
    fn new(
        field: &'a Field,
        values: &'a UncheckedArray,
        start: Option<usize>,
        len: Option<usize>,
    ) -> Result<Items<'a>> {
        match (start, len) {
            (Some(start), Some(len)) if start.checked_add(len).is_some_and(|end| end <= values.len()) => {
                Ok(Items { field, values, start, len })
            }
            _ => Err(Error::invalid(format!("a list's offset and size do not fit its {} values", values.len()))),
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns item number `item`, counted from 0.
    ///
    /// # Errors
    /// `RowOutOfRange` past the last; `InvalidData` if it is damaged.
    pub fn get(&self, item: usize) -> Result<Value<'a>> {
        if item >= self.len {
            let message = format!("item {item} of a list of {}", self.len);
            return Err(Error::new(ErrorKind::RowOutOfRange, message));
        }
        guard(|| field_value(self.field, self.values, self.start + item))
    }

    /// Returns the range of the items in the values of their array.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        debug_assert!(self.start + self.len <= self.values.len(), "items past the last of {}", self.values.len());
        self.start..self.start + self.len
    }

    /// Iterates over the items in order.
    ///
    /// # Errors
    /// An item is `InvalidData` if it is damaged.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>>> + use<'a> {
        let field = self.field;
        let values = self.values;
        (self.start..self.start + self.len).map(move |row| guard(|| field_value(field, values, row)))
    }
}

/// The members of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    array: &'a UncheckedArray,
    row: usize,
}

impl<'a> Members<'a> {
    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.fields().len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of member number `member`, counted from 0.
    ///
    /// # Errors
    /// `ColumnNotFound` past the last; `InvalidData` if it is damaged.
    pub fn get(&self, member: usize) -> Result<Value<'a>> {
        let (Some(field), Some(child)) = (self.fields().get(member), self.array.child_data().get(member)) else {
            let message = format!("member {member} of a struct of {}", self.len());
            return Err(Error::new(ErrorKind::ColumnNotFound, message));
        };
        guard(|| field_value(field, child, self.row))
    }

    fn fields(&self) -> &'a [FieldRef] {
        match self.array.data_type() {
            DataType::Struct(fields) => fields,
            _ => &[],
        }
    }

    /// Iterates over the field and value of each member, in order.
    ///
    /// # Errors
    /// A value is `InvalidData` if it is damaged.
    pub fn iter(&self) -> impl Iterator<Item = (&'a FieldRef, Result<Value<'a>>)> + use<'a> {
        let row = self.row;
        let members = self.fields().iter().zip(self.array.child_data());
        members.map(move |(field, child)| (field, guard(|| field_value(field, child, row))))
    }
}

/// Returns the value of row `row` of a field, with extension types decoded.
pub(crate) fn field_value<'a>(field: &Field, array: &'a UncheckedArray, row: usize) -> Result<Value<'a>> {
    Ok(decode_extension(field, cell(array, row)?))
}

/// Returns the value of a field of fixed width that is stored as `bytes` and isn't null; `None` for other types.
pub(crate) fn stored_value<'a>(field: &'a Field, bytes: &'a [u8]) -> Result<Option<Value<'a>>> {
    Ok(fixed(field.data_type(), bytes, 0)?.map(|stored| decode_extension(field, stored)))
}

/// Returns the value that a stored value of a field represents by its extension type.
#[inline]
fn decode_extension<'a>(field: &Field, stored: Value<'a>) -> Value<'a> {
    match (field.extension_type_name(), stored) {
        (Some("arrow.uuid"), Value::Bytes(bytes)) => bytes.try_into().map_or(Value::Bytes(bytes), Value::Uuid),
        (Some("arrow.bool8"), Value::Int(byte)) => Value::Bool(byte != 0),
        // JSON is text and a tensor a list already; unknown extensions keep their storage type.
        (_, stored) => stored,
    }
}

/// Returns the value of row `row` of an array, checked or not.
#[inline]
pub(crate) fn value<A: AsRef<UncheckedArray> + ?Sized>(array: &A, row: usize) -> Result<Value<'_>> {
    cell(array.as_ref(), row)
}

#[inline]
fn cell(array: &UncheckedArray, row: usize) -> Result<Value<'_>> {
    if row >= array.len() {
        return Err(Error::invalid(format!("row {row} of an array of {} rows", array.len())));
    }
    if array.nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Ok(Value::Null);
    }
    slot(array, row)
}

/// Returns the value stored at row `row`, null or not.
pub(crate) fn slot(array: &UncheckedArray, row: usize) -> Result<Value<'_>> {
    use DataType::*;
    let index = array.offset() + row;
    if let Some(value) = fixed(array.data_type(), first_buffer(array), index)? {
        return Ok(value);
    }
    Ok(match array.data_type() {
        Boolean => Value::Bool(bit(array, 0, index)?),
        Utf8 | LargeUtf8 | Utf8View => Value::Str(text(bytes(array, index)?)?),
        Binary | LargeBinary | BinaryView => Value::Bytes(bytes(array, index)?),
        List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..) => {
            Value::List(items(array, index)?)
        }
        Map(..) => Value::Map(items(array, index)?),
        Struct(_) => Value::Struct(Members { array, row }),
        Union(fields, mode) => union(array, fields, *mode, index)?,
        Dictionary(..) => cell(child(array, 0)?, bounded_key(array, index)?)?,
        RunEndEncoded(..) => cell(child(array, 1)?, find_run(child(array, 0)?, index)?)?,
        Null => Value::Null,
        other => return Err(Error::internal(format!("a value of type {other}"))),
    })
}

/// Returns value `index` of `values`, the only buffer of a type of fixed width; `None` for other types.
#[inline]
fn fixed<'a>(data_type: &'a DataType, values: &'a [u8], index: usize) -> Result<Option<Value<'a>>> {
    use DataType::*;
    Ok(Some(match data_type {
        Int8 => Value::Int(i8::from_le_bytes(element(values, index)?).into()),
        Int16 => Value::Int(i16::from_le_bytes(element(values, index)?).into()),
        Int32 => Value::Int(i32::from_le_bytes(element(values, index)?).into()),
        Int64 => Value::Int(i64::from_le_bytes(element(values, index)?)),
        UInt8 => Value::UInt(u8::from_le_bytes(element(values, index)?).into()),
        UInt16 => Value::UInt(u16::from_le_bytes(element(values, index)?).into()),
        UInt32 => Value::UInt(u32::from_le_bytes(element(values, index)?).into()),
        UInt64 => Value::UInt(u64::from_le_bytes(element(values, index)?)),
        Float16 => Value::Float32(half::f16::from_le_bytes(element(values, index)?).to_f32()),
        Float32 => Value::Float32(f32::from_le_bytes(element(values, index)?)),
        Float64 => Value::Float64(f64::from_le_bytes(element(values, index)?)),
        Decimal32(_, scale) => decimal(i32::from_le_bytes(element(values, index)?), *scale),
        Decimal64(_, scale) => decimal(i64::from_le_bytes(element(values, index)?), *scale),
        Decimal128(_, scale) => decimal(i128::from_le_bytes(element(values, index)?), *scale),
        Decimal256(_, scale) => Value::Decimal { digits: i256::from_le_bytes(element(values, index)?), scale: *scale },
        Date32 => Value::Date(i32::from_le_bytes(element(values, index)?).into()),
        Date64 => Value::Date(i64::from_le_bytes(element(values, index)?).div_euclid(MILLIS_PER_DAY)),
        Time32(unit) => Value::Time(i32::from_le_bytes(element(values, index)?).into(), *unit),
        Time64(unit) => Value::Time(i64::from_le_bytes(element(values, index)?), *unit),
        Timestamp(unit, tz) => Value::Timestamp(i64::from_le_bytes(element(values, index)?), *unit, tz.as_deref()),
        Duration(unit) => Value::Duration(i64::from_le_bytes(element(values, index)?), *unit),
        Interval(unit) => interval(values, *unit, index)?,
        FixedSizeBinary(width) => Value::Bytes(fixed_bytes(values, index, *width)?),
        _ => return Ok(None),
    }))
}

fn first_buffer(array: &UncheckedArray) -> &[u8] {
    array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice())
}

/// Returns element `index` of buffer `buffer`, whatever its alignment.
#[inline]
fn load<const N: usize>(array: &UncheckedArray, buffer: usize, index: usize) -> Result<[u8; N]> {
    element(array.buffers().get(buffer).map_or(&[][..], |b| b.as_slice()), index)
}

/// Returns element `index` of `bytes`, whatever its alignment.
#[inline]
fn element<const N: usize>(bytes: &[u8], index: usize) -> Result<[u8; N]> {
    let start = index.checked_mul(N);
    let value = start.and_then(|start| bytes.get(start..)?.first_chunk());
    value.copied().ok_or_else(|| missing_element(bytes, index))
}

#[cold]
fn missing_element(bytes: &[u8], index: usize) -> Error {
    Error::invalid(format!("element {index} of a buffer of {} bytes", bytes.len()))
}

fn bit(array: &UncheckedArray, buffer: usize, index: usize) -> Result<bool> {
    let [byte] = load(array, buffer, index / 8)?;
    Ok(byte >> (index % 8) & 1 == 1)
}

fn child(array: &UncheckedArray, number: usize) -> Result<&UncheckedArray> {
    array
        .child_data()
        .get(number)
        .ok_or_else(|| Error::invalid(format!("{} without child {number}", array.data_type())))
}

fn decimal<'a>(digits: impl Into<i128>, scale: i8) -> Value<'a> {
    Value::Decimal { digits: i256::from_i128(digits.into()), scale }
}

fn interval<'a>(values: &[u8], unit: IntervalUnit, index: usize) -> Result<Value<'a>> {
    let mut months = 0;
    let mut days = 0;
    let mut nanoseconds = 0;
    match unit {
        IntervalUnit::YearMonth => months = i32::from_le_bytes(element(values, index)?),
        IntervalUnit::DayTime => {
            days = i32::from_le_bytes(element(values, 2 * index)?);
            nanoseconds = i64::from(i32::from_le_bytes(element(values, 2 * index + 1)?)) * NANOS_PER_MILLI;
        }
        IntervalUnit::MonthDayNano => {
            months = i32::from_le_bytes(element(values, 4 * index)?);
            days = i32::from_le_bytes(element(values, 4 * index + 1)?);
            nanoseconds = i64::from_le_bytes(element(values, 2 * index + 1)?);
        }
    }
    Ok(Value::Interval { months, days, nanoseconds, unit })
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| Error::invalid(format!("a string is not UTF-8: {e}")))
}

fn fixed_bytes(values: &[u8], index: usize, width: i32) -> Result<&[u8]> {
    let width = fixed_size(width)?;
    let range = index.checked_mul(width).and_then(|start| Some(start..start.checked_add(width)?));
    range
        .and_then(|range| values.get(range))
        .ok_or_else(|| Error::invalid(format!("value {index} of {width} bytes in a buffer of {} bytes", values.len())))
}

/// Returns the bytes of a string or binary value.
fn bytes(array: &UncheckedArray, index: usize) -> Result<&[u8]> {
    if let DataType::Utf8View | DataType::BinaryView = array.data_type() {
        return view(array, index);
    }
    let (start, end) = offsets(array, index)?;
    let data = array.buffers().get(1).map_or(&[][..], |b| b.as_slice());
    start
        .zip(end)
        .and_then(|(start, end)| data.get(start..end))
        .ok_or_else(|| Error::invalid(format!("offsets {start:?} to {end:?} in data of {} bytes", data.len())))
}

/// Returns offsets `index` and `index + 1`; `None` for a negative one.
fn offsets(array: &UncheckedArray, index: usize) -> Result<(Option<usize>, Option<usize>)> {
    use DataType::*;
    match array.data_type() {
        LargeUtf8 | LargeBinary | LargeList(_) => Ok((start64(array, 0, index)?, start64(array, 0, index + 1)?)),
        _ => Ok((start32(array, 0, index)?, start32(array, 0, index + 1)?)),
    }
}

fn start32(array: &UncheckedArray, buffer: usize, index: usize) -> Result<Option<usize>> {
    Ok(usize::try_from(i32::from_le_bytes(load(array, buffer, index)?)).ok())
}

fn start64(array: &UncheckedArray, buffer: usize, index: usize) -> Result<Option<usize>> {
    Ok(usize::try_from(i64::from_le_bytes(load(array, buffer, index)?)).ok())
}

/// Returns the bytes of a view: a length, then either 12 bytes of value, or 4 bytes of prefix, a buffer number and an
/// offset in that buffer.
fn view(array: &UncheckedArray, index: usize) -> Result<&[u8]> {
    let views = array.buffers().first().map_or(&[][..], |b| b.as_slice());
    let view: &[u8; VIEW_WIDTH] =
        views.get(index.saturating_mul(VIEW_WIDTH)..).and_then(<[u8]>::first_chunk).ok_or_else(bad_view)?;
    let len = view_word(view, VIEW_LEN);
    if len <= MAX_INLINE {
        return Ok(&view[VIEW_VALUE..VIEW_VALUE + len]);
    }
    let number = view_word(view, VIEW_BUFFER);
    let start = view_word(view, VIEW_OFFSET);
    let data = array.buffers().get(number.saturating_add(1)).ok_or_else(bad_view)?;
    data.get(start..start + len).ok_or_else(bad_view)
}

/// The word of a view with the length of its value.
pub(super) const VIEW_LEN: usize = 0;
/// The word of a view of a long value with the number of the value's buffer.
pub(super) const VIEW_BUFFER: usize = 2;
/// The word of a view of a long value with the value's offset in its buffer.
pub(super) const VIEW_OFFSET: usize = 3;
/// The byte of a view at which a short value, or the prefix of a long one, begins.
pub(super) const VIEW_VALUE: usize = 4;

/// Returns word `word` of a view as a number.
#[inline(always)]
pub(super) fn view_word(view: &[u8; VIEW_WIDTH], word: usize) -> usize {
    u32::from_le_bytes(view.as_chunks::<4>().0[word]) as usize
}

#[cold]
fn bad_view() -> Error {
    Error::invalid("a view points outside of its buffers")
}

fn items(array: &UncheckedArray, index: usize) -> Result<Items<'_>> {
    let values = child(array, 0)?;
    let (start, len) = match array.data_type() {
        DataType::ListView(_) => (start32(array, 0, index)?, start32(array, 1, index)?),
        DataType::LargeListView(_) => (start64(array, 0, index)?, start64(array, 1, index)?),
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).ok();
            (size.and_then(|size| index.checked_mul(size)), size)
        }
        _ => {
            let (start, end) = offsets(array, index)?;
            (start, end.zip(start).and_then(|(end, start)| end.checked_sub(start)))
        }
    };
    Items::new(item_field(array.data_type())?, values, start, len)
}

fn item_field(data_type: &DataType) -> Result<&Field> {
    use DataType::*;
    match data_type {
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => Ok(field),
        FixedSizeList(field, _) | Map(field, _) => Ok(field),
        other => Err(Error::invalid(format!("{other} has no items"))),
    }
}

fn union<'a>(
    array: &'a UncheckedArray,
    fields: &'a arrow_schema::UnionFields,
    mode: UnionMode,
    index: usize,
) -> Result<Value<'a>> {
    let id = i8::from_le_bytes(load(array, 0, index)?);
    let member = fields.iter().enumerate().find(|(_, (member, _))| *member == id);
    let (number, (_, field)) = member.ok_or_else(|| Error::invalid(format!("type id {id} is not in the union")))?;
    let row = match mode {
        UnionMode::Sparse => Some(index),
        UnionMode::Dense => start32(array, 1, index)?,
    };
    let row = row.ok_or_else(|| Error::invalid("a dense union's offset is negative"))?;
    Ok(Value::Union(field, Box::new(field_value(field, child(array, number)?, row)?)))
}

/// Returns the key of a dictionary-encoded row of an array, checked or not.
#[inline]
pub(crate) fn key<A: AsRef<UncheckedArray> + ?Sized>(array: &A, index: usize) -> Result<usize> {
    bounded_key(array.as_ref(), index)
}

#[inline]
fn bounded_key(array: &UncheckedArray, index: usize) -> Result<usize> {
    let DataType::Dictionary(key_type, _) = array.data_type() else {
        return Err(Error::invalid("not a dictionary"));
    };
    let key = match **key_type {
        DataType::Int8 => i8::from_le_bytes(load(array, 0, index)?).into(),
        DataType::Int16 => i16::from_le_bytes(load(array, 0, index)?).into(),
        DataType::Int32 => i32::from_le_bytes(load(array, 0, index)?).into(),
        DataType::Int64 => i64::from_le_bytes(load(array, 0, index)?),
        DataType::UInt8 => u8::from_le_bytes(load(array, 0, index)?).into(),
        DataType::UInt16 => u16::from_le_bytes(load(array, 0, index)?).into(),
        DataType::UInt32 => u32::from_le_bytes(load(array, 0, index)?).into(),
        _ => u64::from_le_bytes(load(array, 0, index)?).cast_signed(),
    };
    let len = child(array, 0)?.len();
    let row = usize::try_from(key).ok().filter(|&row| row < len);
    row.ok_or_else(|| Error::invalid(format!("key {key} of a dictionary of {len} values")))
}

/// Returns the run that contains row `index`: the first with a greater end.
pub(crate) fn find_run(run_ends: &UncheckedArray, index: usize) -> Result<usize> {
    let mut low = 0;
    let mut high = run_ends.len();
    while low < high {
        let middle = low + (high - low) / 2;
        let end = match cell(run_ends, middle) {
            Ok(Value::Int(end)) => usize::try_from(end).ok(),
            _ => None,
        };
        match end {
            Some(end) if end <= index => low = middle + 1,
            Some(_) => high = middle,
            None => return Err(Error::invalid("a run end is negative or null")),
        }
    }
    Ok(low)
}
