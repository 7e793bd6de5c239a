//! The memory that values of Arrow's arrays take: upper bounds, computed without a copy of the values.
//!
//! The memory of a value has two parts. Its *content* is what the value itself consists of: the bytes of a number or a
//! text, and for a list all that its elements take. Its *slot* is what the array has for any value of the type besides:
//! a null bit and, depending on the type, an offset, a view or a key. Functions such as `repeat` multiply the content
//! within one value; functions such as `array_repeat` multiply whole elements, with their slots.

use std::ops::Range;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, new_null_array};
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Float16Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, RunEndIndexType,
    UnionMode,
};
use datafusion::common::plan_err;
use datafusion::error::Result;

/// The maximum bytes that each value of a type may take, null or not.
pub(super) const MAX_VALUE_BYTES: u128 = 1 << 16;

/// Returns an error for types whose nulls take too much memory.
pub(super) fn check_width(data_type: &DataType) -> Result<()> {
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

/// Returns the maximum bytes of a slot, with the null bit rounded up to a byte.
pub(super) fn slot_bytes(data_type: &DataType) -> u128 {
    const NULL_BYTES: u128 = 1;
    let reference_bytes = match data_type {
        // An offset of 32 bits.
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..) => 4,
        // An offset of 64 bits.
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => 8,
        DataType::Utf8View | DataType::BinaryView => 16,
        // An offset and a length.
        DataType::ListView(_) => 8,
        DataType::LargeListView(_) => 16,
        // A key or the end of a run, of at most 64 bits.
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) => 8,
        // The number of a type and an offset.
        DataType::Union(..) => 5,
        _ => 0,
    };
    NULL_BYTES + reference_bytes
}

/// Returns the maximum bytes of the content of the values in `rows`.
pub(super) fn content_bytes(array: &ArrayRef, rows: Range<usize>) -> u128 {
    let len = rows.len() as u128;
    if let Some(width) = array.data_type().primitive_width() {
        return len.saturating_mul(width as u128);
    }
    if let Some(parts) = parts(array, &rows) {
        return saturating_sum(parts.into_iter().map(|(values, range)| {
            let slots = slot_bytes(values.data_type()).saturating_mul(range.len() as u128);
            content_bytes(&values, range).saturating_add(slots)
        }));
    }
    match array.data_type() {
        DataType::Null => 0,
        DataType::Boolean => len,
        DataType::FixedSizeBinary(_) => len.saturating_mul(width(array.data_type())),
        DataType::Utf8 => offset_range(array.as_string::<i32>().value_offsets(), &rows).len() as u128,
        DataType::LargeUtf8 => offset_range(array.as_string::<i64>().value_offsets(), &rows).len() as u128,
        DataType::Binary => offset_range(array.as_binary::<i32>().value_offsets(), &rows).len() as u128,
        DataType::LargeBinary => offset_range(array.as_binary::<i64>().value_offsets(), &rows).len() as u128,
        DataType::Utf8View => view_bytes(&array.as_string_view().views()[rows]),
        DataType::BinaryView => view_bytes(&array.as_binary_view().views()[rows]),
        // A value of a type that is not known here takes at most what all values take.
        _ => len.saturating_mul(array.get_array_memory_size() as u128),
    }
}

/// Returns the bytes of the content of a null, which for some types is as large as any value.
pub(super) fn null_content_bytes(data_type: &DataType) -> u128 {
    content_bytes(&new_null_array(data_type, 1), 0..1)
}

/// Returns the maximum bytes of the texts of the values in `rows`, as casts and `array_to_string` write them. For
/// lists, these are the texts of the elements, without separators.
///
/// The result is an estimate for structs, unions and maps, which `array_to_string` does not write.
pub(super) fn text_bytes(array: &ArrayRef, rows: Range<usize>) -> u128 {
    /// `-9223372036854775808`, or `false`.
    const MAX_INTEGER_TEXT_BYTES: u128 = 20;
    /// `+262142-12-31T23:59:59.999999999+15:13`.
    const MAX_TIME_TEXT_BYTES: u128 = 48;
    /// `-178956970 years -8 mons -2147483648 days -2562047 hours -47 mins -16.854775808 secs`.
    const MAX_INTERVAL_TEXT_BYTES: u128 = 96;
    /// The sign and the point of a decimal number, and the zero before the point.
    const DECIMAL_EXTRA_BYTES: u128 = 3;
    if let Some(parts) = parts(array, &rows) {
        return saturating_sum(parts.into_iter().map(|(values, range)| text_bytes(&values, range)));
    }
    let max_value_bytes = match array.data_type() {
        DataType::Float16 => {
            return float_text_bytes(array.as_primitive::<Float16Type>().values()[rows].iter().map(|v| v.to_f64()));
        }
        DataType::Float32 => {
            return float_text_bytes(array.as_primitive::<Float32Type>().values()[rows].iter().map(|v| f64::from(*v)));
        }
        DataType::Float64 => {
            return float_text_bytes(array.as_primitive::<Float64Type>().values()[rows].iter().copied());
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            u128::from(*precision) + u128::from(scale.unsigned_abs()) + DECIMAL_EXTRA_BYTES
        }
        DataType::Interval(_) | DataType::Duration(_) => MAX_INTERVAL_TEXT_BYTES,
        DataType::Boolean => MAX_INTEGER_TEXT_BYTES,
        other if other.is_integer() => MAX_INTEGER_TEXT_BYTES,
        other if other.is_primitive() => MAX_TIME_TEXT_BYTES,
        // Texts, and bytes that are texts.
        _ => return content_bytes(array, rows),
    };
    max_value_bytes.saturating_mul(rows.len() as u128)
}

/// Returns the maximum bytes of the texts of floating-point numbers, which are written without an exponent.
fn float_text_bytes(values: impl Iterator<Item = f64>) -> u128 {
    /// The significant digits, and the sign, the point and the zero before the point.
    const MAX_DIGIT_BYTES: u128 = 17 + 3;
    const EXPONENT_BIAS: u64 = 1023;
    saturating_sum(values.map(|value| {
        let exponent = value.abs().to_bits() >> (f64::MANTISSA_DIGITS - 1);
        // A decimal digit is more than three powers of two.
        let zeros = exponent.abs_diff(EXPONENT_BIAS).div_ceil(3);
        MAX_DIGIT_BYTES + u128::from(zeros)
    }))
}

/// Returns the number of elements of the lists in `rows`, or of the innermost lists in them; `None` for other values.
pub(super) fn count_elements(array: &ArrayRef, rows: Range<usize>) -> Option<u128> {
    let is_list = matches!(
        array.data_type(),
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
    );
    if !is_list {
        return None;
    }
    let lists = parts(array, &rows)?.into_iter();
    Some(saturating_sum(lists.map(|(elements, range)| {
        let len = range.len() as u128;
        count_elements(&elements, range).unwrap_or(len)
    })))
}

/// Returns the number of the values in `rows` and of all values in them, at every level of nesting.
pub(super) fn count_values(array: &ArrayRef, rows: Range<usize>) -> u128 {
    let len = rows.len() as u128;
    // Values that aren't nested have no parts.
    let parts = parts(array, &rows).into_iter().flatten();
    len.saturating_add(saturating_sum(parts.map(|(values, range)| count_values(&values, range))))
}

pub(super) fn saturating_sum(values: impl Iterator<Item = u128>) -> u128 {
    values.fold(0, u128::saturating_add)
}

/// A range of the values of a nested array's child.
type Part = (ArrayRef, Range<usize>);

/// Returns the values of children that the values in `rows` consist of or refer to; `None` for types without children.
fn parts(array: &ArrayRef, rows: &Range<usize>) -> Option<Vec<Part>> {
    let rows = rows.clone();
    Some(match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            vec![(lists.values().clone(), offset_range(lists.value_offsets(), &rows))]
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            vec![(lists.values().clone(), offset_range(lists.value_offsets(), &rows))]
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let range = offset_range(maps.value_offsets(), &rows);
            maps.entries().columns().iter().map(|column| (column.clone(), range.clone())).collect()
        }
        DataType::FixedSizeList(..) => {
            let lists = array.as_fixed_size_list();
            let len = lists.value_length() as usize;
            vec![(lists.values().clone(), rows.start * len..rows.end * len)]
        }
        DataType::ListView(_) => list_view_parts::<i32>(array, rows),
        DataType::LargeListView(_) => list_view_parts::<i64>(array, rows),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| (column.clone(), rows.clone())).collect()
        }
        DataType::Union(fields, UnionMode::Sparse) => {
            let union = array.as_union();
            fields.iter().map(|(type_id, _)| (union.child(type_id).clone(), rows.clone())).collect()
        }
        DataType::Union(_, UnionMode::Dense) => {
            let union = array.as_union();
            rows.map(|row| one_value(union.child(union.type_id(row)), union.value_offset(row))).collect()
        }
        DataType::Dictionary(..) => dictionary_parts(array, rows),
        DataType::RunEndEncoded(run_ends, _) => match run_ends.data_type() {
            DataType::Int16 => run_parts::<Int16Type>(array, rows),
            DataType::Int32 => run_parts::<Int32Type>(array, rows),
            _ => run_parts::<Int64Type>(array, rows),
        },
        _ => return None,
    })
}

fn one_value(values: &ArrayRef, index: usize) -> Part {
    (values.clone(), index..index + 1)
}

fn list_view_parts<O: OffsetSizeTrait>(array: &ArrayRef, rows: Range<usize>) -> Vec<Part> {
    let lists = array.as_list_view::<O>();
    let list_range = |row: usize| {
        let start = lists.value_offsets()[row].as_usize();
        start..start + lists.value_sizes()[row].as_usize()
    };
    rows.map(|row| (lists.values().clone(), list_range(row))).collect()
}

fn dictionary_parts(array: &ArrayRef, rows: Range<usize>) -> Vec<Part> {
    let slice = array.slice(rows.start, rows.len());
    let dictionary = slice.as_any_dictionary();
    let values = dictionary.values();
    if values.is_empty() {
        return Vec::new();
    }
    dictionary.normalized_keys().into_iter().map(|key| one_value(values, key)).collect()
}

fn run_parts<R: RunEndIndexType>(array: &ArrayRef, rows: Range<usize>) -> Vec<Part> {
    let runs = array.as_run::<R>();
    rows.map(|row| one_value(runs.values(), runs.get_physical_index(row))).collect()
}

/// Returns the range of values or bytes that the offsets of `rows` span.
fn offset_range<O: OffsetSizeTrait>(offsets: &[O], rows: &Range<usize>) -> Range<usize> {
    debug_assert!(rows.start <= rows.end && rows.end < offsets.len(), "rows {rows:?} of {} offsets", offsets.len());
    offsets[rows.start].as_usize()..offsets[rows.end].as_usize()
}

/// Returns the bytes of the texts that views refer to.
fn view_bytes(views: &[u128]) -> u128 {
    // The lowest 32 bits of a view are its length.
    views.iter().map(|view| u128::from(*view as u32)).sum()
}
