//! Upper bounds for the size of a function's result, computed from its arguments before the call.
//!
//! A bound counts the [content](crate::functions::value_bytes) of the result's values, and for lists the slots of their
//! elements. It leaves out what is small for any batch: the slots of the values themselves, and the last offset of an
//! array, which has one more than values. It leaves out temporary copies, too.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, UInt64Type,
};
use datafusion::common::{exec_err, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use crate::functions::value_bytes::{
    content_bytes, count_elements, count_values, null_content_bytes, saturating_sum, slot_bytes, text_bytes,
};

/// What is checked before a function is called. The width of its result's type is checked for all functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Check {
    /// The bytes of the result, which can be much larger than the arguments.
    ResultBytes(Growth),
    /// The time, as each character or element of one argument is compared with each of the other. The result is small.
    Comparisons,
    /// Only the width of the type, which the caller chooses. Such a function is never called: it becomes a cast.
    TypeWidth,
}

/// How the size of a function's result depends on its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Growth {
    /// Arguments: a text, and the number of its repetitions.
    Repeat,
    /// Arguments: a text, and the number of characters of the result.
    Pad,
    /// Arguments: the first and the last number or time of a list, and the step.
    Series,
    /// Arguments: a value, and the number of its copies in a list.
    Fill,
    /// Arguments: a list, its new length, and the value of new elements.
    Resize,
    /// Arguments: a text, the part to replace, and the replacement.
    Replace,
    /// As [`Replace`](Growth::Replace), but by a pattern, which may match between any two characters.
    Pattern,
    /// Arguments: a text, another one, and the position and length of the part that it replaces.
    Overlay,
    /// Arguments: bytes, and how they are written as a text.
    Encode,
    /// The result consists of all arguments, which are texts.
    Concat,
    /// Arguments: a separator, and the texts between which it stands.
    ConcatWithSeparator,
    /// The result is a list of the arguments, or of the elements of those that are lists.
    Collect,
    /// Arguments: a list, a separator for the texts of its elements, and the text of a null.
    Join,
}

/// The functions that are checked before each call.
const FUNCTIONS: &[(&str, Check)] = &[
    ("repeat", Check::ResultBytes(Growth::Repeat)),
    ("lpad", Check::ResultBytes(Growth::Pad)),
    ("rpad", Check::ResultBytes(Growth::Pad)),
    ("range", Check::ResultBytes(Growth::Series)),
    ("generate_series", Check::ResultBytes(Growth::Series)),
    ("array_repeat", Check::ResultBytes(Growth::Fill)),
    ("array_resize", Check::ResultBytes(Growth::Resize)),
    ("replace", Check::ResultBytes(Growth::Replace)),
    ("regexp_replace", Check::ResultBytes(Growth::Pattern)),
    ("overlay", Check::ResultBytes(Growth::Overlay)),
    ("encode", Check::ResultBytes(Growth::Encode)),
    ("concat", Check::ResultBytes(Growth::Concat)),
    ("concat_ws", Check::ResultBytes(Growth::ConcatWithSeparator)),
    ("array_concat", Check::ResultBytes(Growth::Collect)),
    ("array_append", Check::ResultBytes(Growth::Collect)),
    ("array_prepend", Check::ResultBytes(Growth::Collect)),
    ("make_array", Check::ResultBytes(Growth::Collect)),
    ("array_to_string", Check::ResultBytes(Growth::Join)),
    ("levenshtein", Check::Comparisons),
    ("array_has_all", Check::Comparisons),
    ("array_has_any", Check::Comparisons),
    ("arrow_cast", Check::TypeWidth),
    ("arrow_try_cast", Check::TypeWidth),
];

/// Returns what is checked before a call of the function `name`; `None` if nothing is.
pub(crate) fn find_check(name: &str) -> Option<Check> {
    FUNCTIONS.iter().find(|(function, _)| *function == name).map(|(_, check)| *check)
}

/// The maximum number of comparisons in a call. They can't be interrupted, and this many take some seconds.
const MAX_COMPARISONS: u128 = 4_000_000_000;

/// Returns an error if the function `name` would compare for too long.
pub(super) fn check_comparisons(name: &str, args: &ScalarFunctionArgs) -> Result<()> {
    let call = Call::try_new(args)?;
    let count = call.sum_rows(|row| {
        let pairs = |pairs: u128, argument: &Argument| pairs.saturating_mul(argument.items(row));
        call.arguments.iter().fold(1, pairs)
    });
    if count > MAX_COMPARISONS {
        return exec_err!("{name} would compare {count} times; at most {MAX_COMPARISONS} are expected");
    }
    Ok(())
}

/// Returns the maximum bytes of a function's result.
pub(super) fn max_result_bytes(growth: Growth, args: &ScalarFunctionArgs) -> Result<u128> {
    let call = Call::try_new(args)?;
    match growth {
        Growth::Repeat => max_repeat_bytes(&call),
        Growth::Pad => max_pad_bytes(&call, args.number_rows),
        Growth::Series => max_series_bytes(&call),
        Growth::Fill => max_fill_bytes(&call),
        Growth::Resize => max_resize_bytes(&call, args.return_type()),
        Growth::Replace => max_replace_bytes(&call),
        Growth::Pattern => max_pattern_bytes(&call),
        Growth::Overlay => max_overlay_bytes(&call),
        Growth::Encode => max_encode_bytes(&call),
        Growth::Concat => Ok(max_concat_bytes(&call)),
        Growth::ConcatWithSeparator => max_concat_with_separator_bytes(&call),
        Growth::Collect => Ok(max_collect_bytes(&call, args.return_type())),
        Growth::Join => max_join_bytes(&call),
    }
}

// ---- arguments ----

/// The arguments of a call.
struct Call {
    arguments: Vec<Argument>,
    /// The number of values of the result: one if all arguments are scalars.
    rows: usize,
}

impl Call {
    fn try_new(args: &ScalarFunctionArgs) -> Result<Call> {
        let arguments = args.args.iter().map(Argument::try_new).collect::<Result<Vec<_>>>()?;
        let rows = if arguments.iter().all(|argument| argument.is_scalar) { 1 } else { args.number_rows };
        Ok(Call { arguments, rows })
    }

    /// Returns the sum of `bytes(row)` over all rows.
    fn sum_rows(&self, bytes: impl Fn(usize) -> u128) -> u128 {
        saturating_sum((0..self.rows).map(bytes))
    }

    /// Returns the error for a number of arguments for which there is no bound. DataFusion rejects such a call earlier.
    fn unexpected_arguments(&self) -> Result<u128> {
        internal_err!("the size of a result is not known for {} arguments", self.arguments.len())
    }
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
        content_bytes(&self.array, index..index + 1)
    }

    /// Returns the bytes that a value takes as an element of a list.
    fn element_bytes(&self, row: usize) -> u128 {
        self.bytes(row).saturating_add(slot_bytes(self.array.data_type()))
    }

    /// Returns the bytes of the texts of a list's elements.
    fn text_bytes(&self, row: usize) -> u128 {
        let index = self.index(row);
        text_bytes(&self.array, index..index + 1)
    }

    /// Returns the number of a list's elements, including lists in it and their elements.
    fn count_values(&self, row: usize) -> u128 {
        let index = self.index(row);
        count_values(&self.array, index..index + 1)
    }

    /// Returns the number of innermost elements of a list, or the number of bytes of another value.
    fn items(&self, row: usize) -> u128 {
        let index = self.index(row);
        count_elements(&self.array, index..index + 1).unwrap_or_else(|| self.bytes(row))
    }

    /// Converts the values to numbers.
    fn numbers(&self) -> Result<Numbers> {
        Ok(Numbers { values: to_integers(&self.array)?, is_scalar: self.is_scalar })
    }
}

/// The values of an argument as integers.
struct Numbers {
    values: Vec<Option<i128>>,
    is_scalar: bool,
}

impl Numbers {
    /// Returns a value; `None` for null, for which functions return null.
    fn get(&self, row: usize) -> Option<i128> {
        self.values[if self.is_scalar { 0 } else { row }]
    }

    /// Returns a value as a length. A negative one counts as zero, and so does null, for which the result is null.
    fn length(&self, row: usize) -> u128 {
        self.get(row).map_or(0, |number| number.max(0).unsigned_abs())
    }
}

/// Converts integers to a wider type. Returns an error for values of other types that are not integers.
fn to_integers(array: &ArrayRef) -> Result<Vec<Option<i128>>> {
    if *array.data_type() == DataType::UInt64 {
        return Ok(array.as_primitive::<UInt64Type>().iter().map(|value| value.map(i128::from)).collect());
    }
    // A value that is out of range is an error: as null, it would count as zero.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let integers = cast_with_options(array, &DataType::Int64, &options)?;
    Ok(integers.as_primitive::<Int64Type>().iter().map(|value| value.map(i128::from)).collect())
}

// ---- texts ----

fn max_repeat_bytes(call: &Call) -> Result<u128> {
    let [text, times] = &call.arguments[..] else { return call.unexpected_arguments() };
    let times = times.numbers()?;
    Ok(call.sum_rows(|row| text.bytes(row).saturating_mul(times.length(row))))
}

/// The result may be an array of `number_rows` rows even if all arguments are scalars.
///
/// Returns an error for a negative length in a row. DataFusion 55 takes a negative constant as zero, but panics for an
/// array with a negative length, as it reserves memory for the sum of all lengths as unsigned numbers.
fn max_pad_bytes(call: &Call, number_rows: usize) -> Result<u128> {
    /// The maximum bytes of a character in UTF-8.
    const MAX_CHAR_BYTES: u128 = 4;
    let (length, fill) = match &call.arguments[..] {
        [_, length] => (length, None),
        [_, length, fill] => (length, Some(fill)),
        _ => return call.unexpected_arguments(),
    };
    let length = length.numbers()?;

    // A constant length becomes an array unless the fill is a constant, too.
    let is_constant = length.is_scalar && fill.is_none_or(|fill| fill.is_scalar && fill.array.is_valid(0));
    let negative = length.values.iter().flatten().find(|length| **length < 0);
    if let Some(negative) = negative.filter(|_| !is_constant) {
        return exec_err!("a text is padded to a length of at least 0, got {negative}");
    }

    let chars = saturating_sum((0..number_rows).map(|row| length.length(row)));
    Ok(chars.saturating_mul(MAX_CHAR_BYTES))
}

fn max_replace_bytes(call: &Call) -> Result<u128> {
    let [text, from, to] = &call.arguments[..] else { return call.unexpected_arguments() };
    Ok(call.sum_rows(|row| {
        let max_matches = text.bytes(row) / from.bytes(row).max(1) + 1;
        text.bytes(row).saturating_add(max_matches.saturating_mul(to.bytes(row)))
    }))
}

/// A reference to a group takes two bytes of the replacement or more, and what all matches put in its place is no
/// longer than the text: so it adds less than as many other bytes of the replacement could.
fn max_pattern_bytes(call: &Call) -> Result<u128> {
    let ([text, _, to] | [text, _, to, _]) = &call.arguments[..] else { return call.unexpected_arguments() };
    Ok(call.sum_rows(|row| {
        let max_matches = text.bytes(row) + 1;
        text.bytes(row).saturating_add(max_matches.saturating_mul(to.bytes(row)))
    }))
}

/// With a negative length, the text before the position and the text after the replaced part overlap.
fn max_overlay_bytes(call: &Call) -> Result<u128> {
    let ([text, other, _] | [text, other, _, _]) = &call.arguments[..] else { return call.unexpected_arguments() };
    Ok(call.sum_rows(|row| text.bytes(row).saturating_mul(2).saturating_add(other.bytes(row))))
}

fn max_encode_bytes(call: &Call) -> Result<u128> {
    /// The characters of a byte in hexadecimal.
    const HEX_CHARS: u128 = 2;
    /// The characters of a group of at most three bytes in Base64.
    const BASE64_GROUP_CHARS: u128 = 4;
    let [bytes, _] = &call.arguments[..] else { return call.unexpected_arguments() };
    // The group that is not full may be the only one.
    Ok(call.sum_rows(|row| bytes.bytes(row).saturating_mul(HEX_CHARS).saturating_add(BASE64_GROUP_CHARS)))
}

fn max_concat_bytes(call: &Call) -> u128 {
    call.sum_rows(|row| saturating_sum(call.arguments.iter().map(|text| text.bytes(row))))
}

fn max_concat_with_separator_bytes(call: &Call) -> Result<u128> {
    let [separator, texts @ ..] = &call.arguments[..] else { return call.unexpected_arguments() };
    let separators = texts.len().saturating_sub(1) as u128;
    Ok(call.sum_rows(|row| {
        let text_bytes = saturating_sum(texts.iter().map(|text| text.bytes(row)));
        text_bytes.saturating_add(separator.bytes(row).saturating_mul(separators))
    }))
}

fn max_join_bytes(call: &Call) -> Result<u128> {
    let (list, separator, null_text) = match &call.arguments[..] {
        [list, separator] => (list, separator, None),
        [list, separator, null_text] => (list, separator, Some(null_text)),
        _ => return call.unexpected_arguments(),
    };
    Ok(call.sum_rows(|row| {
        let null_bytes = null_text.map_or(0, |text| text.bytes(row));
        let bytes_between = separator.bytes(row).saturating_add(null_bytes);
        list.text_bytes(row).saturating_add(list.count_values(row).saturating_mul(bytes_between))
    }))
}

// ---- lists ----

fn max_fill_bytes(call: &Call) -> Result<u128> {
    let [value, times] = &call.arguments[..] else { return call.unexpected_arguments() };
    let times = times.numbers()?;
    Ok(call.sum_rows(|row| value.element_bytes(row).saturating_mul(times.length(row))))
}

fn max_resize_bytes(call: &Call, return_type: &DataType) -> Result<u128> {
    let (list, length, value) = match &call.arguments[..] {
        [list, length] => (list, length, None),
        [list, length, value] => (list, length, Some(value)),
        _ => return call.unexpected_arguments(),
    };
    let length = length.numbers()?;
    let null_bytes = null_element_bytes(return_type);
    Ok(call.sum_rows(|row| {
        let value_bytes = value.map_or(0, |value| value.element_bytes(row)).max(null_bytes);
        list.bytes(row).saturating_add(length.length(row).saturating_mul(value_bytes))
    }))
}

fn max_collect_bytes(call: &Call, return_type: &DataType) -> u128 {
    // A null without a type becomes a null of the element's type.
    let null_bytes = null_element_bytes(return_type);
    call.sum_rows(|row| {
        saturating_sum(call.arguments.iter().map(|argument| argument.element_bytes(row).max(null_bytes)))
    })
}

/// Returns the bytes of a null in a list; zero for types that are not lists, which have no elements.
fn null_element_bytes(list_type: &DataType) -> u128 {
    match list_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            null_content_bytes(field.data_type()).saturating_add(slot_bytes(field.data_type()))
        }
        _ => 0,
    }
}

// ---- series ----

const NANOS_PER_DAY: i128 = 86_400_000_000_000;
/// The days of the shortest month. Steps of months count as such ones, so as not to underestimate a series.
const MIN_DAYS_PER_MONTH: i128 = 28;

/// What the numbers of a series count.
#[derive(Clone, Copy)]
enum SeriesUnit {
    One,
    Day,
    /// Nanoseconds of instants.
    Nanosecond,
    /// Nanoseconds of instants in a time zone, where a day may have fewer than 24 hours.
    ZonedNanosecond,
}

impl SeriesUnit {
    /// Returns the unit of a series with a first or last value of the given type.
    fn for_type(data_type: &DataType) -> SeriesUnit {
        match data_type {
            DataType::Date32 | DataType::Date64 => SeriesUnit::Day,
            DataType::Timestamp(_, None) => SeriesUnit::Nanosecond,
            DataType::Timestamp(_, Some(_)) => SeriesUnit::ZonedNanosecond,
            _ => SeriesUnit::One,
        }
    }

    fn numbers(self, argument: &Argument) -> Result<Numbers> {
        let array = &argument.array;
        let values = match array.data_type() {
            DataType::Date32 | DataType::Date64 => to_days(array)?,
            DataType::Timestamp(unit, _) => to_nanoseconds(array, *unit)?,
            DataType::Interval(_) => self.step_lengths(array)?,
            _ => to_integers(array)?,
        };
        Ok(Numbers { values, is_scalar: argument.is_scalar })
    }

    /// Returns the minimum lengths of steps.
    fn step_lengths(self, steps: &ArrayRef) -> Result<Vec<Option<i128>>> {
        let steps = cast(steps, &DataType::Interval(IntervalUnit::MonthDayNano))?;
        let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
        let step_length = |(months, days, nanoseconds): (i32, i32, i64)| {
            let days = i128::from(months) * MIN_DAYS_PER_MONTH + i128::from(days);
            match self {
                // A date has no time: parts of a day are dropped.
                SeriesUnit::Day => days + i128::from(nanoseconds) / NANOS_PER_DAY,
                _ => days * NANOS_PER_DAY + i128::from(nanoseconds),
            }
        };
        Ok(steps.iter().map(|step| step.map(IntervalMonthDayNanoType::to_parts).map(step_length)).collect())
    }

    /// Returns the maximum number of elements of a series, whether it ends with `stop` or before.
    fn max_len(self, start: i128, stop: i128, step: i128) -> u128 {
        /// More than all changes of a zone's offset to UTC together.
        const MAX_OFFSET_CHANGE: u128 = 2 * NANOS_PER_DAY.unsigned_abs();
        if (step > 0 && start > stop) || (step < 0 && start < stop) {
            return 0;
        }
        let mut distance = start.abs_diff(stop);
        if matches!(self, SeriesUnit::ZonedNanosecond) && step.abs() >= NANOS_PER_DAY {
            distance += MAX_OFFSET_CHANGE;
        }
        distance / step.unsigned_abs().max(1) + 1
    }
}

fn to_days(dates: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let dates = cast(dates, &DataType::Date32)?;
    Ok(dates.as_primitive::<Date32Type>().iter().map(|day| day.map(i128::from)).collect())
}

fn to_nanoseconds(timestamps: &ArrayRef, unit: TimeUnit) -> Result<Vec<Option<i128>>> {
    let factor = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let values = cast(timestamps, &DataType::Int64)?;
    Ok(values.as_primitive::<Int64Type>().iter().map(|value| value.map(|value| i128::from(value) * factor)).collect())
}

fn max_series_bytes(call: &Call) -> Result<u128> {
    /// The maximum bytes of a number or a time. No element is null.
    const MAX_ELEMENT_BYTES: u128 = 8;
    let (start, stop, step) = match &call.arguments[..] {
        [stop] => (None, stop, None),
        [start, stop] => (Some(start), stop, None),
        [start, stop, step] => (Some(start), stop, Some(step)),
        _ => return call.unexpected_arguments(),
    };
    if let Some(step) = step {
        check_steps(&step.array)?;
    }

    let unit = SeriesUnit::for_type(start.unwrap_or(stop).array.data_type());
    let start = start.map(|start| unit.numbers(start)).transpose()?;
    let stop = unit.numbers(stop)?;
    let step = step.map(|step| unit.numbers(step)).transpose()?;

    Ok(call.sum_rows(|row| {
        let start = start.as_ref().map_or(Some(0), |start| start.get(row));
        let step = step.as_ref().map_or(Some(1), |step| step.get(row));
        match (start, stop.get(row), step) {
            (Some(start), Some(stop), Some(step)) => unit.max_len(start, stop, step).saturating_mul(MAX_ELEMENT_BYTES),
            // The series is null.
            _ => 0,
        }
    }))
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

#[cfg(test)]
mod tests {
    use std::hash::{Hash, Hasher};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::arrow::array::{StringArray, UInt64Array};
    use datafusion::arrow::datatypes::{Field, FieldRef};
    use datafusion::logical_expr::{ReturnFieldArgs, ScalarUDF, ScalarUDFImpl, Signature};
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    /// A function that compares the bytes of its results with their bound.
    #[derive(Debug)]
    struct Probe {
        inner: Arc<dyn ScalarUDFImpl>,
        growth: Growth,
        /// The number of results whose bytes were compared.
        results: Arc<AtomicUsize>,
    }

    impl PartialEq for Probe {
        fn eq(&self, other: &Probe) -> bool {
            self.inner.name() == other.inner.name()
        }
    }

    impl Eq for Probe {}

    impl Hash for Probe {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.inner.name().hash(state);
        }
    }

    impl ScalarUDFImpl for Probe {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn signature(&self) -> &Signature {
            self.inner.signature()
        }

        fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
            self.inner.return_type(arg_types)
        }

        fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
            self.inner.return_field_from_args(args)
        }

        fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
            self.inner.coerce_types(arg_types)
        }

        fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
            let bound = max_result_bytes(self.growth, &args)?;
            let result = self.inner.invoke_with_args(args)?;
            let array = match &result {
                ColumnarValue::Array(array) => array.clone(),
                ColumnarValue::Scalar(value) => value.to_array()?,
            };
            let bytes = actual_bytes(&array);
            if bytes > bound {
                return exec_err!("the result has {bytes} bytes: more than {bound}");
            }
            self.results.fetch_add(1, Ordering::Relaxed);
            Ok(result)
        }
    }

    /// Returns the bytes of the last offsets of an array and of the arrays in it, which bounds leave out.
    fn last_offset_bytes(data_type: &DataType) -> usize {
        match data_type {
            DataType::Utf8 => size_of::<i32>(),
            DataType::List(field) => size_of::<i32>() + last_offset_bytes(field.data_type()),
            _ => 0,
        }
    }

    /// Returns the bytes of texts, or of the elements of lists with offsets and null bits.
    fn actual_bytes(array: &ArrayRef) -> u128 {
        let bytes = match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().iter().flatten().map(str::len).sum(),
            DataType::LargeUtf8 => array.as_string::<i64>().iter().flatten().map(str::len).sum(),
            DataType::Utf8View => array.as_string_view().iter().flatten().map(str::len).sum(),
            DataType::List(field) => {
                let bytes = array.as_list::<i32>().values().to_data().get_slice_memory_size().unwrap();
                bytes - last_offset_bytes(field.data_type())
            }
            DataType::Null => 0,
            other => panic!("no function returns {other}"),
        };
        bytes as u128
    }

    /// A session whose functions compare the bytes of their results with the bounds.
    struct ProbeSession {
        context: SessionContext,
        runtime: tokio::runtime::Runtime,
        results: Arc<AtomicUsize>,
    }

    impl ProbeSession {
        fn new() -> ProbeSession {
            let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
            let results = Arc::new(AtomicUsize::new(0));
            for (name, check) in FUNCTIONS {
                if let Check::ResultBytes(growth) = *check {
                    let inner = context.state().scalar_functions()[*name].inner().clone();
                    let probe = Probe { inner, growth, results: results.clone() };
                    context.register_udf(ScalarUDF::new_from_impl(probe));
                }
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            ProbeSession { context, runtime, results }
        }

        /// Runs a statement. Returns an error if it fails, makes a result that exceeds its bound, or makes none.
        fn check(&self, sql: &str) -> std::result::Result<(), String> {
            let results_before = self.results.load(Ordering::Relaxed);
            let answer = self.runtime.block_on(async { self.context.sql(sql).await?.collect().await });
            answer.map_err(|error| format!("{sql}: {}", error.strip_backtrace()))?;
            if self.results.load(Ordering::Relaxed) == results_before {
                return Err(format!("{sql}: no checked function was called"));
            }
            Ok(())
        }

        /// Runs all statements, and panics with the errors of those that failed.
        fn check_all(&self, statements: impl IntoIterator<Item = String>) {
            let errors: Vec<String> = statements.into_iter().filter_map(|sql| self.check(&sql).err()).collect();
            assert!(errors.is_empty(), "{}", errors.join("\n"));
        }
    }

    /// The rows that functions are called with: texts, lengths, lists of numbers and of texts, floats, and nulls.
    const ROWS: &str = "(select column1 as s, column2 as n, column3 as numbers, column4 as texts, column5 as x \
        from (values \
        ('', 0, [1, 2, 3], ['', ''], 0.0), \
        ('abc', 9, [9223372036854775807, -9223372036854775808], ['a longer text than a view has', 'b'], 1e300), \
        ('äöü€𝄞', 50, [null, 4], [null, 'c'], -5e-324), \
        (null, 1000, null, null, null), \
        ('a', -3, [5], ['d'], -1.7976931348623157e308), \
        ('aaaaaaaaaaaaaaaaaaaa', null, [6, 7, 8, 9], ['e', 'f', null], 2.2250738585072014e-308)))";

    #[test]
    fn results_do_not_exceed_their_bounds() {
        let calls = [
            "repeat(s, n)",
            "repeat(arrow_cast(s, 'LargeUtf8'), 7)",
            "repeat('x', n)",
            "lpad(s, abs(n))",
            "rpad(s, abs(n), '𝄞')",
            "lpad(s, 20, '')",
            "range(n)",
            "generate_series(n)",
            "generate_series(n, n)",
            "generate_series(-3, n, 7)",
            "range(n, -20, -1)",
            "array_repeat(n, n)",
            "array_repeat(s, n)",
            "array_repeat('', n)",
            "array_repeat(arrow_cast(s, 'Utf8View'), n)",
            "array_repeat(null, n)",
            "array_repeat(texts, n)",
            "array_repeat(arrow_cast(s, 'Dictionary(Int32, Utf8)'), n)",
            "array_repeat(struct(s, n, x), n)",
            "array_repeat(arrow_cast(x'61626364', 'FixedSizeBinary(4)'), n)",
            "array_resize(numbers, abs(n))",
            "array_resize(texts, abs(n))",
            "array_resize(texts, abs(n), s)",
            "array_resize(['a longer text than a view has', 'another long text of the list'], abs(n), s)",
            "array_resize([arrow_cast(null, 'FixedSizeBinary(100)')], abs(n))",
            "replace(s, 'a', 'xyz')",
            "replace(s, '', 'xyz')",
            "replace(s, s, repeat(s, 9))",
            "regexp_replace(s, '', 'xyz', 'g')",
            "regexp_replace(s, '(.)', '\\1\\1\\1', 'g')",
            "regexp_replace(s, '((a+))', '$1$2-\\1', 'g')",
            "regexp_replace(s, '.*', s)",
            "overlay(s, 'xyz', 2)",
            "overlay(s, 'xyz', 21, -20)",
            "encode(s, 'hex')",
            "encode(s, 'base64')",
            "encode(s, 'base64pad')",
            "concat(s, 'x', s, n)",
            "concat_ws('a long separator', s, s, s, n)",
            "concat_ws(s, 'a', 'b', 'c', 'd')",
            "array_concat(texts, texts, [s])",
            "array_concat(numbers, [n])",
            "array_concat([numbers], [[1, 2]])",
            "array_append(arrow_cast(texts, 'List(Utf8View)'), arrow_cast(s, 'Utf8View'))",
            "array_append(numbers, n)",
            "array_prepend(s, texts)",
            "make_array(s, s, s)",
            "make_array(n, null, n)",
            "make_array(numbers, numbers)",
            "array_to_string(numbers, ', ')",
            "array_to_string(texts, s, 'the text of a null')",
            "array_to_string([x, -x], '')",
            "array_to_string([arrow_cast('-1e-45', 'Float32'), arrow_cast('-3.4e38', 'Float32')], '')",
            "array_to_string([numbers, null], ',', 'the text of a null')",
            "array_to_string([arrow_cast('-1234567890.5', 'Decimal256(76, 60)')], '')",
            "array_to_string([n > 0, n < 0], '')",
            "array_to_string([interval '-99 years -11 months -99 days -23 hours -59 minutes -59.123456789 secs'], '')",
            "array_to_string([arrow_cast(n, 'Timestamp(Nanosecond, Some(\"+05:30\"))')], '')",
        ];
        // One row may be computed as a constant, and some bounds depend on the rows of a batch.
        let statements = calls.iter().flat_map(|call| {
            ["", " where n = 50"].map(|condition| format!("select {call} as result from {ROWS}{condition}"))
        });
        ProbeSession::new().check_all(statements);
    }

    #[test]
    fn series_of_dates_do_not_exceed_their_bounds() {
        let ranges = [
            ("1970-01-01", "1969-07-01"),
            ("1970-01-01", "1970-01-01"),
            ("2024-01-31", "2024-03-31"),
            ("2024-03-31", "2024-01-31"),
            // These dates have no time in nanoseconds of 64 bits.
            ("2300-01-01", "2301-01-01"),
            ("9999-12-31", "9998-12-31"),
        ];
        let steps = ["1 day", "1 month", "-1 month", "1 day 86399 seconds", "-40 days", "1 month 3 days"];
        let mut statements = Vec::new();
        for (start, stop) in ranges {
            for step in steps {
                let arguments = format!("date '{start}', date '{stop}', interval '{step}'");
                statements.push(format!("select range({arguments})"));
                statements.push(format!("select generate_series({arguments})"));
            }
        }
        ProbeSession::new().check_all(statements);
    }

    #[test]
    fn series_of_times_do_not_exceed_their_bounds() {
        // A day of 23 hours in Paris, and a day that Apia left out.
        let ranges =
            [("2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z"), ("2011-12-28T10:00:00Z", "2012-01-02T10:00:00Z")];
        let mut statements = Vec::new();
        for zone in ["None", "Some(\"Europe/Paris\")", "Some(\"Pacific/Apia\")"] {
            for (start, stop) in ranges {
                for step in ["1 day", "1 hour", "-1 day", "1 month", "1 day 1 hour"] {
                    let [start, stop] =
                        [start, stop].map(|time| format!("arrow_cast('{time}', 'Timestamp(Second, {zone})')"));
                    statements.push(format!("select range({start}, {stop}, interval '{step}')"));
                    statements.push(format!("select generate_series({start}, {stop}, interval '{step}')"));
                }
            }
        }
        ProbeSession::new().check_all(statements);
    }

    #[test]
    fn empty_and_null_series_have_no_bytes() {
        assert_eq!(SeriesUnit::One.max_len(1 << 40, 0, 1), 0);
        assert_eq!(SeriesUnit::One.max_len(0, 1 << 40, -1), 0);
        assert_eq!(SeriesUnit::One.max_len(5, 5, 1), 1);
        // Counts to more than a series can have, without an overflow.
        assert_eq!(SeriesUnit::One.max_len(i64::MIN.into(), i64::MAX.into(), 1), 1 << 64);
        ProbeSession::new().check("select range(null, 1000000000000)").unwrap();
    }

    #[test]
    fn negative_lengths_of_padded_rows_are_errors() {
        let session = ProbeSession::new();
        for call in ["lpad(s, n)", "rpad(s, n)", "lpad(s, n, 'x')", "rpad(s, -1, s)"] {
            let error = session.check(&format!("select {call} as result from {ROWS}")).unwrap_err();
            assert!(error.contains("at least 0"), "{call}: {error}");
        }
        session.check(&format!("select lpad(s, -1) as result from {ROWS}")).unwrap();
    }

    #[test]
    fn large_unsigned_numbers_are_not_zero() {
        let array: ArrayRef = Arc::new(UInt64Array::from(vec![Some(u64::MAX), None]));
        assert_eq!(to_integers(&array).unwrap(), [Some(u64::MAX.into()), None]);
        let text: ArrayRef = Arc::new(StringArray::from(vec!["many"]));
        assert!(to_integers(&text).is_err());
    }

    #[test]
    fn unexpected_arguments_are_an_error() {
        for (_, check) in FUNCTIONS {
            let Check::ResultBytes(growth) = *check else { continue };
            if matches!(growth, Growth::Concat | Growth::Collect) {
                continue;
            }
            let args = ScalarFunctionArgs {
                args: Vec::new(),
                arg_fields: Vec::new(),
                number_rows: 1,
                return_field: Arc::new(Field::new("result", DataType::Utf8, true)),
                config_options: Arc::default(),
            };
            assert!(max_result_bytes(growth, &args).is_err(), "{growth:?}");
        }
    }
}
