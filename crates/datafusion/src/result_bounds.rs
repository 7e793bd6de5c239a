//! How large the results of functions can be, before they are made.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// How large a result may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Growth {
    /// A text, and how many times it is repeated.
    Repeat,
    /// A number of characters is the second argument.
    Pad,
    /// A list from one number or time to another.
    Range,
    /// A value, and how many of it.
    Fill,
    /// A list, and its new length.
    Resize,
    /// A text, what is replaced in it, and by what; or by a pattern, which may be between any two characters.
    Replace,
    Pattern,
    /// As large as the arguments together.
    Sum,
    /// The elements of a list as texts, with another between each two.
    Listed,
    /// Two characters for each byte.
    Encode,
    /// A number, after each character or element of one argument was compared with each of the other.
    Compared,
    /// A value of another type, which may have a width of its own.
    Cast,
}

pub(crate) const FUNCTIONS: &[(&str, Growth)] = &[
    ("repeat", Growth::Repeat),
    ("lpad", Growth::Pad),
    ("rpad", Growth::Pad),
    ("range", Growth::Range),
    ("generate_series", Growth::Range),
    ("array_repeat", Growth::Fill),
    ("array_resize", Growth::Resize),
    ("replace", Growth::Replace),
    ("regexp_replace", Growth::Pattern),
    ("overlay", Growth::Sum),
    ("encode", Growth::Encode),
    ("concat", Growth::Sum),
    ("concat_ws", Growth::Sum),
    ("array_concat", Growth::Sum),
    ("array_append", Growth::Sum),
    ("array_prepend", Growth::Sum),
    ("make_array", Growth::Sum),
    ("array_to_string", Growth::Listed),
    ("levenshtein", Growth::Compared),
    ("array_has_all", Growth::Compared),
    ("array_has_any", Growth::Compared),
    ("arrow_cast", Growth::Cast),
    ("arrow_try_cast", Growth::Cast),
];

/// The most bytes that each value of a type may take, null or not.
pub(crate) const WIDEST: u128 = 1 << 16;

/// Refuses types whose nulls take memory, where that is too much.
pub(crate) fn check_width(data_type: &DataType) -> Result<()> {
    match width(data_type) {
        bytes if bytes > WIDEST => {
            plan_err!("a type of {bytes} bytes for each value, {data_type}; at most {WIDEST} are expected")
        }
        _ => Ok(()),
    }
}

/// Returns the bytes that each value of a type takes, null or not; for lists of any length, the bytes of an element.
pub(crate) fn width(data_type: &DataType) -> u128 {
    /// Views and offsets, and what other types have instead of a value.
    const OTHER: u128 = 16;
    match data_type {
        DataType::FixedSizeBinary(len) => u128::from(len.max(&0).unsigned_abs()),
        DataType::FixedSizeList(field, len) => {
            field_width(field).saturating_mul(u128::from(len.max(&0).unsigned_abs()))
        }
        DataType::Struct(fields) => fields.iter().map(field_width).fold(0, u128::saturating_add),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field_width(field)).fold(0, u128::saturating_add),
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => field_width(field),
        DataType::ListView(field) | DataType::LargeListView(field) => field_width(field),
        DataType::Dictionary(_, values) => width(values),
        DataType::RunEndEncoded(_, values) => field_width(values),
        other => other.primitive_width().map_or(OTHER, |width| width as u128),
    }
}

fn field_width(field: &FieldRef) -> u128 {
    width(field.data_type())
}

/// The most comparisons of a call, which nothing interrupts: they take some seconds.
const COMPARISONS: u128 = 4_000_000_000;

/// An argument, whose values are all the same if it is a scalar.
struct Argument {
    array: ArrayRef,
    is_scalar: bool,
}

impl Argument {
    fn try_new(value: &ColumnarValue) -> Result<Argument> {
        Ok(match value {
            ColumnarValue::Array(array) => Argument { array: array.clone(), is_scalar: false },
            ColumnarValue::Scalar(value) => Argument { array: value.to_array()?, is_scalar: true },
        })
    }

    fn place(&self, row: usize) -> usize {
        if self.is_scalar { 0 } else { row }
    }

    /// Returns the bytes of a value; for a list, the bytes of its elements.
    fn bytes(&self, row: usize) -> u128 {
        let place = self.place(row);
        bytes_of(&self.array, place..place + 1)
    }

    /// Returns the number of elements of a list, counting the elements of lists in it; `None` for other values.
    fn elements(&self, row: usize) -> Option<u128> {
        let place = self.place(row);
        elements_of(&self.array, place..place + 1).map(|count| count as u128)
    }

    /// The same with values as whole numbers.
    fn counted(self) -> Result<Argument> {
        let array = if self.array.data_type().is_integer() {
            cast(&self.array, &DataType::Int64)?
        } else {
            counts(&self.array)?
        };
        Ok(Argument { array, ..self })
    }

    fn number(&self, row: usize) -> i128 {
        let place = self.place(row);
        if self.array.is_null(place) { 0 } else { self.array.as_primitive::<Int64Type>().value(place).into() }
    }

    /// The number as a length: a negative one makes nothing.
    fn count(&self, row: usize) -> u128 {
        self.number(row).max(0).unsigned_abs()
    }
}

/// Adds up the bytes of `rows` results.
fn sum_rows(rows: usize, bytes: impl Fn(usize) -> u128) -> u128 {
    (0..rows).map(bytes).fold(0, u128::saturating_add)
}

/// From the offset of the first of some rows to the one behind the last.
fn between<O: OffsetSizeTrait>(offsets: &[O], rows: &Range<usize>) -> Range<usize> {
    debug_assert!(rows.start <= rows.end && rows.end < offsets.len(), "rows {rows:?} of {} offsets", offsets.len());
    offsets[rows.start].as_usize()..offsets[rows.end].as_usize()
}

/// The elements of some lists, which follow each other; `None` for other values and for lists whose elements do not.
fn elements_within(lists: &ArrayRef, rows: &Range<usize>) -> Option<(ArrayRef, Range<usize>)> {
    match lists.data_type() {
        DataType::List(_) => {
            let lists = lists.as_list::<i32>();
            Some((lists.values().clone(), between(lists.value_offsets(), rows)))
        }
        DataType::LargeList(_) => {
            let lists = lists.as_list::<i64>();
            Some((lists.values().clone(), between(lists.value_offsets(), rows)))
        }
        DataType::FixedSizeList(..) => {
            let lists = lists.as_fixed_size_list();
            let len = lists.value_length() as usize;
            Some((lists.values().clone(), rows.start * len..rows.end * len))
        }
        _ => None,
    }
}

fn elements_of(array: &ArrayRef, rows: Range<usize>) -> Option<usize> {
    let (values, within) = elements_within(array, &rows)?;
    let len = within.len();
    Some(elements_of(&values, within).unwrap_or(len))
}

/// Returns the bytes of some rows. A row whose bytes are not known counts as the mean of all rows.
fn bytes_of(array: &ArrayRef, rows: Range<usize>) -> u128 {
    match array.data_type() {
        DataType::Utf8 => between(array.as_string::<i32>().value_offsets(), &rows).len() as u128,
        DataType::LargeUtf8 => between(array.as_string::<i64>().value_offsets(), &rows).len() as u128,
        DataType::Binary => between(array.as_binary::<i32>().value_offsets(), &rows).len() as u128,
        DataType::LargeBinary => between(array.as_binary::<i64>().value_offsets(), &rows).len() as u128,
        DataType::Utf8View => viewed_bytes(&array.as_string_view().views()[rows]),
        DataType::BinaryView => viewed_bytes(&array.as_binary_view().views()[rows]),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| bytes_of(column, rows.clone())).sum(),
        other => {
            if let Some((values, within)) = elements_within(array, &rows) {
                /// The bytes of an offset, a view or a length.
                const EACH: u128 = 8;
                let count = within.len() as u128;
                return bytes_of(&values, within).saturating_add(count.saturating_mul(EACH));
            }
            let width = match other.primitive_width() {
                Some(width) => width,
                None => array.get_array_memory_size() / array.len().max(1),
            };
            (width as u128).saturating_mul(rows.len() as u128)
        }
    }
}

/// The lower half of a view is its length.
fn viewed_bytes(views: &[u128]) -> u128 {
    views.iter().map(|view| u128::from(*view as u32)).sum()
}

/// Refuses steps whose parts have different signs: a month later and 30 days earlier may be the same day, and a list of
/// such days would not end.
fn check_steps(steps: &ArrayRef) -> Result<()> {
    if !matches!(steps.data_type(), DataType::Interval(_)) {
        return Ok(());
    }
    let steps = cast(steps, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    for step in steps.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
        let signs = [i64::from(step.months), i64::from(step.days), step.nanoseconds].map(i64::signum);
        if signs.contains(&1) && signs.contains(&-1) {
            return exec_err!("a step of months, days and seconds goes in one direction: got parts of different signs");
        }
    }
    Ok(())
}

/// Times as nanoseconds, about. An interval has months of 28 days.
fn counts(array: &ArrayRef) -> Result<ArrayRef> {
    const DAY: i64 = 86_400_000_000_000;
    Ok(match array.data_type() {
        DataType::Interval(_) => {
            let intervals = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
            Arc::new(intervals.unary::<_, Int64Type>(|value: IntervalMonthDayNano| {
                let days = i64::from(value.months) * 28 + i64::from(value.days);
                days.saturating_mul(DAY).saturating_add(value.nanoseconds)
            }))
        }
        DataType::Date32 | DataType::Date64 => {
            let days = cast(&cast(array, &DataType::Date32)?, &DataType::Int32)?;
            let days = cast(&days, &DataType::Int64)?;
            Arc::new(days.as_primitive::<Int64Type>().unary::<_, Int64Type>(|day| day.saturating_mul(DAY)))
        }
        DataType::Timestamp(unit, _) => {
            let factor = match unit {
                datafusion::arrow::datatypes::TimeUnit::Second => 1_000_000_000,
                datafusion::arrow::datatypes::TimeUnit::Millisecond => 1_000_000,
                datafusion::arrow::datatypes::TimeUnit::Microsecond => 1_000,
                datafusion::arrow::datatypes::TimeUnit::Nanosecond => 1,
            };
            let values = cast(array, &DataType::Int64)?;
            Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int64Type>(|value| value.saturating_mul(factor)))
        }
        _ => cast(array, &DataType::Int64)?,
    })
}

/// Refuses a function that would compare for longer than a query may take.
pub(crate) fn check_comparisons(name: &str, args: &ScalarFunctionArgs) -> Result<()> {
    let arguments = args.args.iter().map(Argument::try_new).collect::<Result<Vec<_>>>()?;
    let rows = if arguments.iter().all(|argument| argument.is_scalar) { 1 } else { args.number_rows };
    let mut count = 0_u128;
    for row in 0..rows {
        let mut pairs = 1_u128;
        for argument in &arguments {
            pairs = pairs.saturating_mul(argument.elements(row).unwrap_or_else(|| argument.bytes(row)));
        }
        count = count.saturating_add(pairs);
    }
    if count > COMPARISONS {
        return exec_err!("{name} would compare {count} times; at most {COMPARISONS} are expected");
    }
    Ok(())
}

/// How many bytes a function's result will have, at most.
pub(crate) fn predicted(growth: Growth, args: &ScalarFunctionArgs) -> Result<u128> {
    let arguments = args.args.iter().map(Argument::try_new).collect::<Result<Vec<_>>>()?;
    let is_scalar = arguments.iter().all(|argument| argument.is_scalar);
    let rows = if is_scalar { 1 } else { args.number_rows };
    let mut arguments = arguments.into_iter();
    Ok(match (growth, arguments.next(), arguments.next(), arguments.next()) {
        (Growth::Sum, first, second, third) => {
            let all: Vec<_> = [first, second, third].into_iter().flatten().chain(arguments).collect();
            sum_rows(rows, |row| all.iter().map(|argument| argument.bytes(row)).sum())
        }
        (Growth::Encode, Some(bytes), ..) => sum_rows(rows, |row| bytes.bytes(row).saturating_mul(2)),
        (Growth::Listed, Some(list), Some(between), other) => {
            /// The longest text of a number or a time.
            const LONGEST: u128 = 40;
            sum_rows(rows, |row| {
                let other = other.as_ref().map_or(0, |other| other.bytes(row));
                let each = between.bytes(row).saturating_add(other).saturating_add(LONGEST);
                list.bytes(row).saturating_add(list.elements(row).unwrap_or(1).saturating_mul(each))
            })
        }
        (Growth::Range, Some(first), second, third) => {
            third.iter().try_for_each(|third| check_steps(&third.array))?;
            let first = first.counted()?;
            let second = second.map(Argument::counted).transpose()?;
            let third = third.map(Argument::counted).transpose()?;
            sum_rows(rows, |row| {
                let (start, stop) = match &second {
                    Some(second) => (first.number(row), second.number(row)),
                    None => (0, first.number(row)),
                };
                let step = third.as_ref().map_or(1, |third| third.number(row)).unsigned_abs().max(1);
                (start.abs_diff(stop) / step).saturating_mul(8)
            })
        }
        (Growth::Repeat | Growth::Fill, Some(value), Some(times), _) => {
            let times = times.counted()?;
            sum_rows(rows, |row| value.bytes(row).max(1).saturating_mul(times.count(row)))
        }
        (Growth::Pad, Some(_), Some(length), _) => {
            let length = length.counted()?;
            sum_rows(rows, |row| length.count(row).saturating_mul(4))
        }
        (Growth::Resize, Some(_), Some(length), value) => {
            let length = length.counted()?;
            sum_rows(rows, |row| {
                let width = value.as_ref().map_or(8, |value| value.bytes(row)).max(8);
                length.count(row).saturating_mul(width)
            })
        }
        (Growth::Replace, Some(text), Some(from), Some(to)) => sum_rows(rows, |row| {
            let places = text.bytes(row) / from.bytes(row).max(1) + 1;
            text.bytes(row) + places.saturating_mul(to.bytes(row))
        }),
        (Growth::Pattern, Some(text), _, Some(to)) => {
            sum_rows(rows, |row| text.bytes(row) + (text.bytes(row) + 1).saturating_mul(to.bytes(row)))
        }
        _ => 0,
    })
}
