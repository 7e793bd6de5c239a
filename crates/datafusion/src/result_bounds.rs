//! Upper bounds for the size of a function's result, computed from its arguments.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// How the size of a function's result depends on its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Growth {
    /// Arguments: a text, and the number of repetitions.
    Repeat,
    /// Arguments: a text, and the number of characters of the result.
    Pad,
    /// Arguments: the first and the last number or time of a list, and the step.
    Range,
    /// Arguments: a value, and the number of its copies.
    Fill,
    /// Arguments: a list, and its new length.
    Resize,
    /// Arguments: a text, the part to replace, and the replacement.
    Replace,
    /// As [`Replace`](Growth::Replace), but by a pattern, which may match between any two characters.
    Pattern,
    /// The result is as large as all arguments together.
    Sum,
    /// The result has the elements of a list as texts, with a separator.
    Join,
    /// The result has two characters for each byte.
    Encode,
    /// The result is a number, for which each character or element of one argument is compared with each of the other.
    Compare,
    /// The result has another type, whose values may have a fixed width.
    Cast,
}

/// The functions whose results can be much larger than their arguments, or that take long.
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
    ("array_to_string", Growth::Join),
    ("levenshtein", Growth::Compare),
    ("array_has_all", Growth::Compare),
    ("array_has_any", Growth::Compare),
    ("arrow_cast", Growth::Cast),
    ("arrow_try_cast", Growth::Cast),
];

/// The maximum bytes that each value of a type may take, null or not.
pub(crate) const MAX_VALUE_BYTES: u128 = 1 << 16;
/// The maximum number of comparisons in a call. They can't be interrupted, and this many take some seconds.
const MAX_COMPARISONS: u128 = 4_000_000_000;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;
/// The days of the shortest month.
const DAYS_PER_MONTH: i64 = 28;

/// Returns an error for types whose nulls take too much memory.
pub(crate) fn check_width(data_type: &DataType) -> Result<()> {
    let bytes = width(data_type);
    if bytes > MAX_VALUE_BYTES {
        return plan_err!(
            "a type of {bytes} bytes for each value, {data_type}; at most {MAX_VALUE_BYTES} are expected"
        );
    }
    Ok(())
}

/// Returns the bytes that each value of a type takes, null or not; for lists of any length, the bytes of an element.
pub(crate) fn width(data_type: &DataType) -> u128 {
    /// The maximum bytes of an offset, a view or whatever else a type has in place of values.
    const MAX_REFERENCE_BYTES: u128 = 16;
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
        other => other.primitive_width().map_or(MAX_REFERENCE_BYTES, |width| width as u128),
    }
}

fn field_width(field: &FieldRef) -> u128 {
    width(field.data_type())
}

/// An argument of a call. If it is a scalar, its array has one value for all rows.
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

    /// Returns the index in the array of the value for `row`.
    fn index(&self, row: usize) -> usize {
        if self.is_scalar { 0 } else { row }
    }

    /// Returns the bytes of a value; for a list, the bytes of its elements.
    fn bytes(&self, row: usize) -> u128 {
        let index = self.index(row);
        bytes_of(&self.array, index..index + 1)
    }

    /// Returns the number of elements of a list, including the elements of lists in it; `None` for other values.
    fn elements(&self, row: usize) -> Option<u128> {
        let index = self.index(row);
        count_elements(&self.array, index..index + 1).map(|count| count as u128)
    }

    /// Converts the values to integers: times and intervals to nanoseconds.
    fn into_integers(self) -> Result<Argument> {
        let array = if self.array.data_type().is_integer() {
            cast(&self.array, &DataType::Int64)?
        } else {
            to_nanoseconds(&self.array)?
        };
        Ok(Argument { array, ..self })
    }

    /// Returns an integer; zero for null, for which functions return null.
    fn integer(&self, row: usize) -> i128 {
        let index = self.index(row);
        if self.array.is_null(index) { 0 } else { self.array.as_primitive::<Int64Type>().value(index).into() }
    }

    /// Returns an integer as a length. Functions treat a negative one as zero.
    fn length(&self, row: usize) -> u128 {
        self.integer(row).max(0).unsigned_abs()
    }
}

/// Returns the sum of `bytes(row)` over `rows` rows.
fn sum_rows(rows: usize, bytes: impl Fn(usize) -> u128) -> u128 {
    (0..rows).map(bytes).fold(0, u128::saturating_add)
}

/// Returns the range of values or bytes that the offsets of `rows` span.
fn offset_range<O: OffsetSizeTrait>(offsets: &[O], rows: &Range<usize>) -> Range<usize> {
    debug_assert!(rows.start <= rows.end && rows.end < offsets.len(), "rows {rows:?} of {} offsets", offsets.len());
    offsets[rows.start].as_usize()..offsets[rows.end].as_usize()
}

/// Returns the elements of the lists in `rows`, as a range of an array. Returns `None` for other values, and for lists
/// whose elements are not contiguous.
fn elements_within(lists: &ArrayRef, rows: &Range<usize>) -> Option<(ArrayRef, Range<usize>)> {
    match lists.data_type() {
        DataType::List(_) => {
            let lists = lists.as_list::<i32>();
            Some((lists.values().clone(), offset_range(lists.value_offsets(), rows)))
        }
        DataType::LargeList(_) => {
            let lists = lists.as_list::<i64>();
            Some((lists.values().clone(), offset_range(lists.value_offsets(), rows)))
        }
        DataType::FixedSizeList(..) => {
            let lists = lists.as_fixed_size_list();
            let len = lists.value_length() as usize;
            Some((lists.values().clone(), rows.start * len..rows.end * len))
        }
        _ => None,
    }
}

/// Returns the number of elements of the lists in `rows`, or of the innermost lists in them; `None` for other values.
fn count_elements(array: &ArrayRef, rows: Range<usize>) -> Option<usize> {
    let (elements, range) = elements_within(array, &rows)?;
    let len = range.len();
    Some(count_elements(&elements, range).unwrap_or(len))
}

/// Returns the bytes of the values in `rows`. Where they are not known, a value counts as the mean of all values.
fn bytes_of(array: &ArrayRef, rows: Range<usize>) -> u128 {
    match array.data_type() {
        DataType::Utf8 => offset_range(array.as_string::<i32>().value_offsets(), &rows).len() as u128,
        DataType::LargeUtf8 => offset_range(array.as_string::<i64>().value_offsets(), &rows).len() as u128,
        DataType::Binary => offset_range(array.as_binary::<i32>().value_offsets(), &rows).len() as u128,
        DataType::LargeBinary => offset_range(array.as_binary::<i64>().value_offsets(), &rows).len() as u128,
        DataType::Utf8View => view_bytes(&array.as_string_view().views()[rows]),
        DataType::BinaryView => view_bytes(&array.as_binary_view().views()[rows]),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| bytes_of(column, rows.clone())).sum(),
        other => {
            if let Some((elements, range)) = elements_within(array, &rows) {
                /// The bytes of an offset or a length.
                const OFFSET_BYTES: u128 = 8;
                let count = range.len() as u128;
                return bytes_of(&elements, range).saturating_add(count.saturating_mul(OFFSET_BYTES));
            }
            let width = match other.primitive_width() {
                Some(width) => width,
                None => array.get_array_memory_size() / array.len().max(1),
            };
            (width as u128).saturating_mul(rows.len() as u128)
        }
    }
}

/// Returns the bytes of the texts that views refer to.
fn view_bytes(views: &[u128]) -> u128 {
    // The lowest 32 bits of a view are its length.
    views.iter().map(|view| u128::from(*view as u32)).sum()
}

/// Returns an error for steps whose parts have different signs. A month later and 30 days earlier may be the same day,
/// and a series of such steps would not end.
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

/// Converts times and intervals to nanoseconds. Months count as the shortest one, so that the
/// length of a series with such steps is not underestimated.
fn to_nanoseconds(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Interval(_) => {
            let intervals = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
            Arc::new(intervals.unary::<_, Int64Type>(|value: IntervalMonthDayNano| {
                let days = i64::from(value.months) * DAYS_PER_MONTH + i64::from(value.days);
                days.saturating_mul(NANOS_PER_DAY).saturating_add(value.nanoseconds)
            }))
        }
        DataType::Date32 | DataType::Date64 => {
            let days = cast(&cast(array, &DataType::Date32)?, &DataType::Int32)?;
            let days = cast(&days, &DataType::Int64)?;
            Arc::new(days.as_primitive::<Int64Type>().unary::<_, Int64Type>(|day| day.saturating_mul(NANOS_PER_DAY)))
        }
        DataType::Timestamp(unit, _) => {
            let factor = match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            };
            let values = cast(array, &DataType::Int64)?;
            Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int64Type>(|value| value.saturating_mul(factor)))
        }
        _ => cast(array, &DataType::Int64)?,
    })
}

/// Returns an error if the function `name` would compare for too long.
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
    if count > MAX_COMPARISONS {
        return exec_err!("{name} would compare {count} times; at most {MAX_COMPARISONS} are expected");
    }
    Ok(())
}

/// Returns the maximum bytes of a function's result.
pub(crate) fn max_result_bytes(growth: Growth, args: &ScalarFunctionArgs) -> Result<u128> {
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
        (Growth::Join, Some(list), Some(separator), null_text) => {
            /// The bytes of the longest text of a number or a time.
            const MAX_NUMBER_BYTES: u128 = 40;
            sum_rows(rows, |row| {
                let null_bytes = null_text.as_ref().map_or(0, |text| text.bytes(row));
                let element_bytes = separator.bytes(row).saturating_add(null_bytes).saturating_add(MAX_NUMBER_BYTES);
                let elements = list.elements(row).unwrap_or(1);
                list.bytes(row).saturating_add(elements.saturating_mul(element_bytes))
            })
        }
        (Growth::Range, Some(first), second, third) => {
            if let Some(step) = &third {
                check_steps(&step.array)?;
            }
            let first = first.into_integers()?;
            let second = second.map(Argument::into_integers).transpose()?;
            let step = third.map(Argument::into_integers).transpose()?;
            sum_rows(rows, |row| {
                let (start, stop) = match &second {
                    Some(second) => (first.integer(row), second.integer(row)),
                    None => (0, first.integer(row)),
                };
                let step = step.as_ref().map_or(1, |step| step.integer(row)).unsigned_abs().max(1);
                (start.abs_diff(stop) / step).saturating_mul(8)
            })
        }
        (Growth::Repeat | Growth::Fill, Some(value), Some(times), _) => {
            let times = times.into_integers()?;
            sum_rows(rows, |row| value.bytes(row).max(1).saturating_mul(times.length(row)))
        }
        (Growth::Pad, Some(_), Some(length), _) => {
            let length = length.into_integers()?;
            // A character has at most four bytes.
            sum_rows(rows, |row| length.length(row).saturating_mul(4))
        }
        (Growth::Resize, Some(_), Some(length), value) => {
            let length = length.into_integers()?;
            sum_rows(rows, |row| {
                let width = value.as_ref().map_or(8, |value| value.bytes(row)).max(8);
                length.length(row).saturating_mul(width)
            })
        }
        (Growth::Replace, Some(text), Some(from), Some(to)) => sum_rows(rows, |row| {
            let max_matches = text.bytes(row) / from.bytes(row).max(1) + 1;
            text.bytes(row) + max_matches.saturating_mul(to.bytes(row))
        }),
        (Growth::Pattern, Some(text), _, Some(to)) => sum_rows(rows, |row| {
            let max_matches = text.bytes(row) + 1;
            text.bytes(row) + max_matches.saturating_mul(to.bytes(row))
        }),
        _ => 0,
    })
}
