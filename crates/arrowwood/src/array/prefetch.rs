//! Requests the pages of an array's rows, and single values, before they are read.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_schema::{DataType, UnionMode};

use super::unchecked::{UncheckedArray, offset_range};
use crate::map;
use crate::types::{BufferRole, fixed_size_or_zero, layout};

/// Requests the pages of rows `rows` from the system, as far as the numbers of the rows determine them: not the pages
/// of dictionaries, nor those that views and list views point to. Requests at most `max_bytes` of each buffer, as one
/// value may be as long as its file.
pub(crate) fn prefetch(array: &UncheckedArray, rows: Range<usize>, max_bytes: usize) {
    each_range(array, rows, &mut |buffer, bytes| {
        let end = bytes.end.min(bytes.start.saturating_add(max_bytes));
        if let Some(pages) = buffer.get(bytes.start..end) {
            map::prefetch(pages);
        }
    });
}

/// Loads the value of row `row`, or the offset that leads to it, into the processor's cache without waiting for it.
#[inline]
pub(crate) fn prefetch_value(array: &UncheckedArray, row: usize) {
    let index = array.offset() + row;
    let start = match array.data_type().primitive_width() {
        Some(width) => index.checked_mul(width),
        None => layout(array.data_type()).value_roles().next().and_then(|role| match role {
            BufferRole::Bits => Some(index / 8),
            BufferRole::Offsets { width } => index.checked_mul(width),
            other => other.bytes_for(index),
        }),
    };
    if let (Some(buffer), Some(start)) = (array.buffers().first(), start)
        && let Some(value) = buffer.as_slice().get(start..)
    {
        map::prefetch_line(value);
    }
}

/// Loads the beginning of a text or of bytes into the processor's cache. Reads and waits for the offsets.
#[inline]
pub(crate) fn prefetch_text(array: &UncheckedArray, row: usize) {
    if let DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary = array.data_type() {
        let text = array.buffers().get(1).and_then(|data| data.as_slice().get(inner_range(array, &(row..row + 1))));
        if let Some(text) = text {
            map::prefetch_line(text);
        }
    }
}

/// Calls `each` with the bytes of rows `rows` in each buffer. Reads offsets after `each` was called with their bytes.
fn each_range(array: &UncheckedArray, rows: Range<usize>, each: &mut dyn FnMut(&Buffer, Range<usize>)) {
    let rows = rows.start.min(array.len())..rows.end.min(array.len());
    if rows.is_empty() {
        return;
    }
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.declared() > 0) {
        let bits = nulls.bits();
        let first = bits.offset() + rows.start;
        each(bits.inner(), first / 8..(first + rows.len()).div_ceil(8));
    }
    let first = array.offset() + rows.start;
    let end = array.offset() + rows.end;
    for (role, buffer) in layout(array.data_type()).value_roles().zip(array.buffers()) {
        let start = match role {
            BufferRole::Bits => Some(first / 8),
            BufferRole::Offsets { width } => first.checked_mul(width),
            BufferRole::Data => continue,
            other => other.bytes_for(first),
        };
        if let Some((start, end)) = start.zip(role.bytes_for(end)) {
            each(buffer, start..end.min(buffer.len()));
        }
    }
    let inner = inner_range(array, &rows);
    match array.data_type() {
        DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
            array.buffers().get(1).into_iter().for_each(|data| each(data, inner.clone()));
        }
        _ => array.child_data().iter().for_each(|child| each_range(child, inner.clone(), each)),
    }
}

/// Returns the range of rows `rows` in the data or in each child; empty if they have no single range there.
fn inner_range(array: &UncheckedArray, rows: &Range<usize>) -> Range<usize> {
    match array.data_type() {
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..) => {
            offset_range::<4>(array, rows.start, rows.end)
        }
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => {
            offset_range::<8>(array, rows.start, rows.end)
        }
        DataType::FixedSizeList(_, size) => {
            let size = fixed_size_or_zero(*size);
            let start = array.offset().saturating_add(rows.start).saturating_mul(size);
            start..array.offset().saturating_add(rows.end).saturating_mul(size)
        }
        DataType::Struct(_) => rows.clone(),
        DataType::Union(_, UnionMode::Sparse) => array.offset() + rows.start..array.offset() + rows.end,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, BooleanArray, DictionaryArray, Int64Array, StringArray, StructArray};
    use arrow_data::ArrayData;
    use arrow_schema::Field;

    use super::*;

    fn ranges(array: &dyn Array, rows: Range<usize>) -> Vec<(usize, usize)> {
        ranges_of(&array.to_data(), rows)
    }

    /// Returns the start and end of the bytes of `rows` in each buffer, in order.
    fn ranges_of(array: &ArrayData, rows: Range<usize>) -> Vec<(usize, usize)> {
        let mut ranges = Vec::new();
        each_range(UncheckedArray::from_ref(array), rows, &mut |buffer, bytes| {
            assert!(bytes.start <= bytes.end && bytes.end <= buffer.len(), "{bytes:?} of {}", buffer.len());
            ranges.push((bytes.start, bytes.end));
        });
        ranges
    }

    #[test]
    fn ranges_have_only_the_bytes_of_the_rows() {
        let numbers = Int64Array::from_iter_values(0..100);
        assert_eq!(ranges(&numbers, 10..12), [(80, 96)]);
        assert_eq!(ranges_of(&numbers.to_data().slice(5, 20), 10..12), [(120, 136)]);
        assert_eq!(ranges(&numbers, 98..200), [(784, 800)]);
        assert!(ranges(&numbers, 100..200).is_empty());
        let nullable = Int64Array::from_iter((0..100).map(|n| (n % 3 > 0).then_some(n)));
        assert_eq!(ranges(&nullable, 16..17), [(2, 3), (128, 136)]);
        assert_eq!(ranges(&BooleanArray::from(vec![true; 100]), 17..33), [(2, 5)]);
        let words = StringArray::from_iter_values((0..10).map(|n| "x".repeat(n)));
        // Rows 3 and 4 have three offsets, and the text between the first and the last.
        assert_eq!(ranges(&words, 3..5), [(12, 24), (3, 10)]);
        assert_eq!(ranges_of(&words.to_data().slice(2, 5), 1..3), [(12, 24), (3, 10)]);
    }

    #[test]
    fn ranges_of_nested_rows_have_only_the_bytes_of_their_values() {
        let mut lists = ListBuilder::new(Int32Builder::new());
        (0..10).for_each(|row| lists.append_value((0..row).map(Some)));
        assert_eq!(ranges(&lists.finish(), 3..5), [(12, 24), (12, 40)]);
        let numbers = Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef;
        let field = Arc::new(Field::new("n", numbers.data_type().clone(), false));
        assert_eq!(ranges(&StructArray::from(vec![(field, numbers)]), 10..12), [(80, 96)]);
        let words: DictionaryArray<Int32Type> = vec!["a", "b", "a"].into_iter().collect();
        assert_eq!(ranges(&words, 1..2), [(4, 8)]);
    }
}
