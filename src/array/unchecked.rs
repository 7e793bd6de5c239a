//! [`UncheckedArray`]: an array with unvalidated values.
//!
//! An array from a file exists as soon as its buffers are found. Their content (offsets, keys, text, null counts) is
//! foreign, and code that trusts it, such as arrow-rs and consumers of the C data interface, would read out of bounds.
//! As an [`ArrayData`] is trusted, unchecked arrays have this type instead. Its bytes can be read, each load bounded
//! (`value`), and `checked` turns it into an `ArrayData`: the only conversion without `unsafe`.
#![allow(unsafe_code)]

use std::ops::Range;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, UnionMode};

use super::buffer;
use crate::error::Result;
use crate::types::{fixed_size_or_zero, layout};

/// An array with unvalidated values.
#[derive(Clone, Debug)]
#[repr(transparent)]
pub(crate) struct UncheckedArray(ArrayData);

/// The null rows of an array, by its bitmap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity<'a>(&'a NullBuffer);

/// The null count of a bitmap that is kept although no nulls are declared: arrow-rs drops bitmaps with a count of 0.
/// Trusted arrays never have it.
const IDLE: usize = usize::MAX;

impl UncheckedArray {
    /// A checked array as an unchecked one.
    #[inline]
    pub(crate) fn from_ref(array: &ArrayData) -> &UncheckedArray {
        // SAFETY: the type is transparent, so both references are to the same value, borrowed for the same lifetime.
        unsafe { &*std::ptr::from_ref(array).cast::<UncheckedArray>() }
    }

    fn from_slice(arrays: &[ArrayData]) -> &[UncheckedArray] {
        let start = arrays.as_ptr().cast::<UncheckedArray>();
        // SAFETY: the type is transparent, so both slices have the same elements, borrowed for the same lifetime.
        unsafe { std::slice::from_raw_parts(start, arrays.len()) }
    }

    /// No rows.
    pub(crate) fn empty(data_type: &DataType) -> UncheckedArray {
        UncheckedArray(ArrayData::new_empty(data_type))
    }

    #[inline]
    pub(crate) fn data_type(&self) -> &DataType {
        self.0.data_type()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.0.offset()
    }

    #[inline]
    pub(crate) fn buffers(&self) -> &[Buffer] {
        self.0.buffers()
    }

    #[inline]
    pub(crate) fn child_data(&self) -> &[UncheckedArray] {
        UncheckedArray::from_slice(self.0.child_data())
    }

    #[inline]
    pub(crate) fn nulls(&self) -> Option<Validity<'_>> {
        self.0.nulls().map(Validity)
    }

    /// Whether row `row` is null; false past the end.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls().is_some_and(|nulls| row < nulls.len() && nulls.is_null(row))
    }

    /// Rows `start .. start + len`, which must be in bounds, sharing the buffers; see [`slice`](buffer::slice).
    pub(crate) fn slice(&self, start: usize, len: usize) -> UncheckedArray {
        UncheckedArray(buffer::slice(&self.0, start, len))
    }

    /// Whether the array or a child has a bitmap although its null count is 0.
    pub(super) fn has_idle_bitmaps(&self) -> bool {
        self.nulls().is_some_and(Validity::is_idle) || self.child_data().iter().any(UncheckedArray::has_idle_bitmaps)
    }

    /// The array without bitmaps whose null count is 0.
    pub(super) fn without_idle_bitmaps(self) -> UncheckedArray {
        if !self.has_idle_bitmaps() {
            return self;
        }
        let nulls = self.0.nulls().filter(|nulls| !Validity(nulls).is_idle()).cloned();
        let children = self.child_data().iter().cloned().map(|child| child.without_idle_bitmaps().0).collect();
        let builder = ArrayDataBuilder::new(self.data_type().clone()).len(self.len()).offset(self.offset());
        let builder = builder.buffers(self.buffers().to_vec()).nulls(nulls).child_data(children);
        // SAFETY: the builder leaves values unchecked, as an `UncheckedArray` permits.
        UncheckedArray(unsafe { builder.build_unchecked() })
    }

    /// The array with other buffers and children, and a copy of its bitmap.
    pub(crate) fn with_buffers(
        &self,
        buffers: Vec<Buffer>,
        children: Vec<UncheckedArray>,
        copy: impl Fn(&[u8]) -> Result<Buffer>,
    ) -> Result<UncheckedArray> {
        let nulls = self.0.nulls().filter(|nulls| !Validity(nulls).is_idle());
        let copied = |nulls: &NullBuffer| -> Result<NullBuffer> {
            let first = nulls.offset() / 8;
            let end = (nulls.offset() + nulls.len()).div_ceil(8);
            let bits = BooleanBuffer::new(copy(&nulls.validity()[first..end])?, nulls.offset() % 8, nulls.len());
            // SAFETY: the count is unchecked, like other values: `checked` compares it with the bitmap.
            Ok(unsafe { NullBuffer::new_unchecked(bits, nulls.null_count()) })
        };
        let nulls = nulls.map(copied).transpose()?;
        let children = children.into_iter().map(|child| child.0).collect();
        let builder = ArrayDataBuilder::new(self.data_type().clone()).len(self.len()).offset(self.offset());
        // SAFETY: the builder leaves values unchecked, as an `UncheckedArray` permits.
        Ok(UncheckedArray(unsafe { builder.nulls(nulls).buffers(buffers).child_data(children).build_unchecked() }))
    }

    /// Whether the other array has the same type and the same rows of the same memory.
    pub(crate) fn is_same(&self, other: &UncheckedArray) -> bool {
        let nulls = |array: &UncheckedArray| array.0.nulls().map(|n| (n.buffer().as_ptr(), n.offset(), n.null_count()));
        let is_same_buffer = |(a, b): (&Buffer, &Buffer)| a.as_ptr() == b.as_ptr() && a.len() == b.len();
        std::ptr::eq(self, other)
            || self.len() == other.len()
                && self.offset() == other.offset()
                && nulls(self) == nulls(other)
                && self.data_type() == other.data_type()
                && self.buffers().len() == other.buffers().len()
                && self.buffers().iter().zip(other.buffers()).all(is_same_buffer)
                && self.child_data().len() == other.child_data().len()
                && self.child_data().iter().zip(other.child_data()).all(|(a, b)| a.is_same(b))
    }

    /// The array as a trusted one.
    ///
    /// # Safety
    /// Its values, including null counts, must be valid for its type, so that `checked` would succeed. That holds if
    /// all of its buffers were written by code that builds such arrays from checked ones.
    pub(crate) unsafe fn assume_checked(self) -> ArrayData {
        debug_assert!(!self.has_idle_bitmaps(), "bitmaps without a count");
        self.0
    }

    /// As [`UncheckedArray::assume_checked`].
    ///
    /// # Safety
    /// The same.
    pub(super) unsafe fn assume_checked_ref(&self) -> &ArrayData {
        debug_assert!(!self.has_idle_bitmaps(), "bitmaps without a count");
        &self.0
    }
}

impl From<ArrayData> for UncheckedArray {
    fn from(array: ArrayData) -> UncheckedArray {
        UncheckedArray(array)
    }
}

impl AsRef<UncheckedArray> for UncheckedArray {
    #[inline]
    fn as_ref(&self) -> &UncheckedArray {
        self
    }
}

impl AsRef<UncheckedArray> for ArrayData {
    #[inline]
    fn as_ref(&self) -> &UncheckedArray {
        UncheckedArray::from_ref(self)
    }
}

impl<'a> Validity<'a> {
    /// The number of rows.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn is_null(self, row: usize) -> bool {
        self.0.is_null(row)
    }

    #[inline]
    pub(crate) fn is_valid(self, row: usize) -> bool {
        self.0.is_valid(row)
    }

    /// The declared number of nulls.
    pub(crate) fn declared(self) -> usize {
        if self.is_idle() { 0 } else { self.0.null_count() }
    }

    /// Whether there is a bitmap although the null count is 0.
    pub(super) fn is_idle(self) -> bool {
        self.0.null_count() == IDLE
    }

    /// A bit per row, set if it is not null.
    pub(crate) fn bits(self) -> &'a BooleanBuffer {
        self.0.inner()
    }
}

/// The parts from which an array is built.
#[derive(Debug)]
pub(crate) struct ArrayParts {
    pub data_type: DataType,
    pub len: usize,
    /// Validity bitmap, with a bit per row, and null count; a bitmap with a count of 0 is used nevertheless.
    pub validity: Option<(Buffer, usize)>,
    pub buffers: Vec<Buffer>,
    pub children: Vec<UncheckedArray>,
}

impl ArrayParts {
    /// Builds the array. Checks only the length of the bitmap.
    pub(crate) fn assemble(self) -> UncheckedArray {
        let nulls = self.validity.map(|(bits, count)| {
            let bits = BooleanBuffer::new(bits, 0, self.len);
            let count = if count == 0 { IDLE } else { count };
            // SAFETY: the count is unchecked, like other values: `checked` compares it with the bitmap.
            unsafe { NullBuffer::new_unchecked(bits, count) }
        });
        let children = self.children.into_iter().map(|child| child.0).collect();
        let builder = ArrayDataBuilder::new(self.data_type).len(self.len).nulls(nulls).buffers(self.buffers);
        // SAFETY: the builder leaves values unchecked, as an `UncheckedArray` permits.
        UncheckedArray(unsafe { builder.child_data(children).build_unchecked() })
    }
}

/// The bytes of rows `rows` of `array` in its buffers and its children's, without dictionaries.
pub(crate) fn byte_size(array: &UncheckedArray, rows: Range<usize>) -> u64 {
    let count = rows.len();
    let validity = if array.nulls().is_some_and(|nulls| nulls.declared() > 0) { count.div_ceil(8) } else { 0 };
    let roles = layout(array.data_type());
    let own: usize = roles.value_roles().filter_map(|role| role.bytes_for(count)).sum();
    (validity + own) as u64 + nested_bytes(array, rows)
}

fn nested_bytes(array: &UncheckedArray, rows: Range<usize>) -> u64 {
    let at = |row: usize| array.offset() + row;
    let child = |number: usize, rows: Range<usize>| {
        array.child_data().get(number).map_or(0, |c| byte_size(c, rows.start.min(c.len())..rows.end.min(c.len())))
    };
    let all = |shift: usize| {
        (0..array.child_data().len()).map(|n| child(n, rows.start + shift..rows.end + shift)).sum::<u64>()
    };
    let whole = || array.child_data().iter().map(|child| byte_size(child, 0..child.len())).sum::<u64>();
    match array.data_type() {
        DataType::Utf8 | DataType::Binary => offset_range::<4>(array, rows.start, rows.end).len() as u64,
        DataType::LargeUtf8 | DataType::LargeBinary => offset_range::<8>(array, rows.start, rows.end).len() as u64,
        DataType::Utf8View | DataType::BinaryView => array.buffers().iter().skip(1).map(|b| b.len() as u64).sum(),
        DataType::List(_) | DataType::Map(..) => child(0, offset_range::<4>(array, rows.start, rows.end)),
        DataType::LargeList(_) => child(0, offset_range::<8>(array, rows.start, rows.end)),
        DataType::FixedSizeList(_, size) => {
            let size = fixed_size_or_zero(*size);
            child(0, at(rows.start).saturating_mul(size)..at(rows.end).saturating_mul(size))
        }
        DataType::Struct(_) => all(0),
        DataType::Union(_, UnionMode::Sparse) => all(array.offset()),
        DataType::Dictionary(..) => 0,
        _ => whole(),
    }
}

/// The range between offsets number `start` and `end` of `array`; empty if they are invalid.
pub(crate) fn offset_range<const N: usize>(array: &UncheckedArray, start: usize, end: usize) -> Range<usize> {
    let offset = |row: usize| {
        let bytes = array.buffers().first()?.get((array.offset() + row) * N..)?.first_chunk::<N>()?;
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(bytes);
        usize::try_from(u64::from_le_bytes(wide)).ok()
    };
    let most =
        array.child_data().first().map_or_else(|| array.buffers().get(1).map_or(0, Buffer::len), UncheckedArray::len);
    match (offset(start), offset(end)) {
        (Some(from), Some(to)) if from <= to && to <= most => from..to,
        _ => 0..0,
    }
}
