//! The pages that some rows of an array lie in, and values, asked for before they are read.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_schema::{DataType, UnionMode};

use super::unchecked::{UncheckedArray, offset_range};
use crate::map;
use crate::types::{BufferRole, fixed_size_or_zero, layout};

/// Asks the system to load the pages of rows `rows`, as far as they are known by the numbers of the rows: not those of
/// dictionaries, nor what views and list views point to. Of each buffer at most `most` bytes: one value may be as long as its
/// file.
pub(crate) fn prefetch(array: &UncheckedArray, rows: Range<usize>, most: usize) {
    each_range(array, rows, &mut |buffer, bytes| {
        let end = bytes.end.min(bytes.start.saturating_add(most));
        buffer.get(bytes.start..end).into_iter().for_each(map::prefetch);
    });
}

/// Asks the processor for the value of row `row`, or for where it is, without waiting for it.
#[inline]
pub(crate) fn prefetch_value(array: &UncheckedArray, row: usize) {
    let at = array.offset() + row;
    let place = match array.data_type().primitive_width() {
        Some(width) => at.checked_mul(width),
        None => layout(array.data_type()).value_roles().next().and_then(|role| match role {
            BufferRole::Bits => Some(at / 8),
            BufferRole::Offsets { width } => at.checked_mul(width),
            other => other.bytes_for(at),
        }),
    };
    let value = array.buffers().first().zip(place).and_then(|(buffer, place)| buffer.as_slice().get(place..));
    value.into_iter().for_each(map::prefetch_line);
}

/// The same of a text or of bytes, of which the offsets are read.
#[inline]
pub(crate) fn prefetch_text(array: &UncheckedArray, row: usize) {
    if let DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary = array.data_type() {
        let text = array.buffers().get(1).and_then(|data| data.as_slice().get(inside(array, &(row..row + 1))));
        text.into_iter().for_each(map::prefetch_line);
    }
}

/// Calls `each` with the bytes of rows `rows` in each buffer. Offsets are read after `each` was called with theirs.
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
    let inside = inside(array, &rows);
    match array.data_type() {
        DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
            array.buffers().get(1).into_iter().for_each(|data| each(data, inside.clone()));
        }
        _ => array.child_data().iter().for_each(|child| each_range(child, inside.clone(), each)),
    }
}

/// What rows `rows` have of the data or of each child; nothing where that is not a range.
fn inside(array: &UncheckedArray, rows: &Range<usize>) -> Range<usize> {
    match array.data_type() {
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..) => {
            offset_range::<4>(array, rows.start, rows.end)
        }
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => {
            offset_range::<8>(array, rows.start, rows.end)
        }
        DataType::FixedSizeList(_, size) => {
            let at = |row: usize| array.offset().saturating_add(row).saturating_mul(fixed_size_or_zero(*size));
            at(rows.start)..at(rows.end)
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

    /// Where the bytes of `rows` begin and end, in order.
    fn ranges_of(array: &ArrayData, rows: Range<usize>) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        each_range(UncheckedArray::from_ref(array), rows, &mut |buffer, bytes| {
            assert!(bytes.start <= bytes.end && bytes.end <= buffer.len(), "{bytes:?} of {}", buffer.len());
            found.push((bytes.start, bytes.end));
        });
        found
    }

    #[test]
    fn bytes_are_those_of_the_rows() {
        let numbers = Int64Array::from_iter_values(0..100);
        assert_eq!(ranges(&numbers, 10..12), [(80, 96)]);
        assert_eq!(ranges_of(&numbers.to_data().slice(5, 20), 10..12), [(120, 136)]);
        assert_eq!(ranges(&numbers, 98..200), [(784, 800)]);
        assert!(ranges(&numbers, 100..200).is_empty());
        let nullable = Int64Array::from_iter((0..100).map(|n| (n % 3 > 0).then_some(n)));
        assert_eq!(ranges(&nullable, 16..17), [(2, 3), (128, 136)]);
        assert_eq!(ranges(&BooleanArray::from(vec![true; 100]), 17..33), [(2, 5)]);
        let words = StringArray::from_iter_values((0..10).map(|n| "x".repeat(n)));
        // Of rows 3 and 4: three offsets, and what lies between the first and the last.
        assert_eq!(ranges(&words, 3..5), [(12, 24), (3, 10)]);
        assert_eq!(ranges_of(&words.to_data().slice(2, 5), 1..3), [(12, 24), (3, 10)]);
    }

    #[test]
    fn bytes_of_nested_rows_are_those_of_their_values() {
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
