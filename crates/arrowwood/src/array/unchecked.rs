//! [`UncheckedArray`]: an array with unvalidated values.
//!
//! An array from a file exists as soon as its buffers are found. Their content (offsets, keys, text, null counts) is
//! untrusted, and code that trusts it, such as arrow-rs and consumers of the C data interface, would read out of
//! bounds. As an [`ArrayData`] is trusted, unchecked arrays have this type instead. Its bytes can be read, each load
//! bounded (`value`), and `checked` turns it into an `ArrayData`: the only conversion without `unsafe`.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, UnionMode};

use super::buffer;
use crate::error::Result;
use crate::types::{fixed_size_or_zero, layout};

/// An array with unvalidated values.
#[derive(Clone)]
#[repr(transparent)]
pub(crate) struct UncheckedArray(ArrayData);

/// Shows the size, not the buffers, which may be a whole file.
impl fmt::Debug for UncheckedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("UncheckedArray");
        shown.field("data_type", self.0.data_type()).field("len", &self.0.len()).finish_non_exhaustive()
    }
}

/// The validity bitmap of an array.
///
/// A bitmap is *idle* if it is there although the array declares no nulls. Readers look at it, as it may have nulls
/// that are not declared. A check removes it if it has none, and fails otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity<'a>(&'a NullBuffer);

/// The null count of an idle bitmap, in place of 0: arrow-rs drops bitmaps with a count of 0. Trusted arrays never have
/// it.
const IDLE: usize = usize::MAX;

impl UncheckedArray {
    /// Returns a checked array as an unchecked one.
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

    /// Returns an array without rows.
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

    /// Returns true if row `row` is null; false past the end.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls().is_some_and(|nulls| row < nulls.len() && nulls.is_null(row))
    }

    /// Returns rows `start .. start + len`, which must be in bounds, sharing the buffers; see [`slice`](buffer::slice).
    pub(crate) fn slice(&self, start: usize, len: usize) -> UncheckedArray {
        UncheckedArray(buffer::slice(&self.0, start, len))
    }

    /// Returns true if the array or a child has an idle bitmap.
    pub(super) fn has_idle_bitmaps(&self) -> bool {
        self.nulls().is_some_and(Validity::is_idle) || self.child_data().iter().any(UncheckedArray::has_idle_bitmaps)
    }

    /// Returns the array without idle bitmaps.
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

    /// Returns the array with other buffers and children, and a copy of its bitmap.
    pub(crate) fn with_buffers(
        &self,
        buffers: Vec<Buffer>,
        children: Vec<UncheckedArray>,
        copy: impl Fn(&[u8]) -> Result<Buffer>,
    ) -> Result<UncheckedArray> {
        assert_eq!(buffers.len(), self.buffers().len(), "the array has other buffers");
        assert_eq!(children.len(), self.child_data().len(), "the array has other children");
        let nulls = match self.0.nulls().filter(|nulls| !Validity(nulls).is_idle()) {
            Some(nulls) => {
                let first = nulls.offset() / 8;
                let end = (nulls.offset() + nulls.len()).div_ceil(8);
                let bits = BooleanBuffer::new(copy(&nulls.validity()[first..end])?, nulls.offset() % 8, nulls.len());
                // SAFETY: the count is unchecked, like other values: `checked` compares it with the bitmap.
                Some(unsafe { NullBuffer::new_unchecked(bits, nulls.null_count()) })
            }
            None => None,
        };
        let children = children.into_iter().map(|child| child.0).collect();
        let builder = ArrayDataBuilder::new(self.data_type().clone()).len(self.len()).offset(self.offset());
        // SAFETY: the builder leaves values unchecked, as an `UncheckedArray` permits.
        Ok(UncheckedArray(unsafe { builder.nulls(nulls).buffers(buffers).child_data(children).build_unchecked() }))
    }

    /// Returns true if the other array has the same type and the same rows of the same memory.
    pub(crate) fn is_same(&self, other: &UncheckedArray) -> bool {
        std::ptr::eq(self, other)
            || self.len() == other.len()
                && self.offset() == other.offset()
                && self.bitmap_identity() == other.bitmap_identity()
                && self.data_type() == other.data_type()
                && self.buffers().len() == other.buffers().len()
                && self
                    .buffers()
                    .iter()
                    .zip(other.buffers())
                    .all(|(a, b)| a.as_ptr() == b.as_ptr() && a.len() == b.len())
                && self.child_data().len() == other.child_data().len()
                && self.child_data().iter().zip(other.child_data()).all(|(a, b)| a.is_same(b))
    }

    /// Returns the address and offset of the bitmap, and its null count.
    fn bitmap_identity(&self) -> Option<(*const u8, usize, usize)> {
        self.0.nulls().map(|nulls| (nulls.buffer().as_ptr(), nulls.offset(), nulls.null_count()))
    }

    /// Returns the array as a trusted one.
    ///
    /// # Safety
    /// Its values, including null counts, must be valid for its type, so that `checked` would succeed. That holds if
    /// all of its buffers were written by code that builds such arrays from checked ones.
    pub(crate) unsafe fn assume_checked(self) -> ArrayData {
        debug_assert!(!self.has_idle_bitmaps(), "bitmaps without a count");
        self.0
    }

    /// Returns a reference to the array as a trusted one.
    ///
    /// # Safety
    /// As for [`UncheckedArray::assume_checked`].
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
    /// Returns the number of rows.
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

    /// Returns the declared number of nulls.
    pub(crate) fn declared(self) -> usize {
        if self.is_idle() { 0 } else { self.0.null_count() }
    }

    /// Returns true if the bitmap is idle.
    pub(super) fn is_idle(self) -> bool {
        self.0.null_count() == IDLE
    }

    /// Returns the bitmap: a bit per row, set if it is not null.
    pub(crate) fn bits(self) -> &'a BooleanBuffer {
        self.0.inner()
    }
}

/// The parts from which an array is built.
#[derive(Debug)]
pub(crate) struct ArrayParts {
    pub data_type: DataType,
    pub len: usize,
    /// The validity bitmap, with a bit per row, and the null count. A bitmap with a count of 0 becomes an idle one.
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

/// Returns the number of bytes of rows `rows` in the buffers of `array` and its children, without dictionaries.
pub(crate) fn byte_size(array: &UncheckedArray, rows: Range<usize>) -> u64 {
    let count = rows.len();
    let validity = if array.nulls().is_some_and(|nulls| nulls.declared() > 0) { count.div_ceil(8) } else { 0 };
    let layout = layout(array.data_type());
    let values: usize = layout.value_roles().filter_map(|role| role.bytes_for(count)).sum();
    (validity + values) as u64 + nested_bytes(array, rows)
}

/// Returns the number of bytes of the data and the children that rows `rows` lead to.
fn nested_bytes(array: &UncheckedArray, rows: Range<usize>) -> u64 {
    let start = array.offset() + rows.start;
    let end = array.offset() + rows.end;
    match array.data_type() {
        DataType::Utf8 | DataType::Binary => offset_range::<4>(array, rows.start, rows.end).len() as u64,
        DataType::LargeUtf8 | DataType::LargeBinary => offset_range::<8>(array, rows.start, rows.end).len() as u64,
        DataType::Utf8View | DataType::BinaryView => array.buffers().iter().skip(1).map(|b| b.len() as u64).sum(),
        DataType::List(_) | DataType::Map(..) => children_bytes(array, offset_range::<4>(array, rows.start, rows.end)),
        DataType::LargeList(_) => children_bytes(array, offset_range::<8>(array, rows.start, rows.end)),
        DataType::FixedSizeList(_, size) => {
            let size = fixed_size_or_zero(*size);
            children_bytes(array, start.saturating_mul(size)..end.saturating_mul(size))
        }
        DataType::Struct(_) => children_bytes(array, rows),
        DataType::Union(_, UnionMode::Sparse) => children_bytes(array, start..end),
        DataType::Dictionary(..) => 0,
        _ => array.child_data().iter().map(|child| byte_size(child, 0..child.len())).sum(),
    }
}

/// Returns the number of bytes of rows `rows` of all children, as far as the children have them.
fn children_bytes(array: &UncheckedArray, rows: Range<usize>) -> u64 {
    let mut bytes = 0;
    for child in array.child_data() {
        bytes += byte_size(child, rows.start.min(child.len())..rows.end.min(child.len()));
    }
    bytes
}

/// Returns the range between offsets number `start` and `end` of `array`; empty if they are invalid.
pub(crate) fn offset_range<const N: usize>(array: &UncheckedArray, start: usize, end: usize) -> Range<usize> {
    let max_offset =
        array.child_data().first().map_or_else(|| array.buffers().get(1).map_or(0, Buffer::len), UncheckedArray::len);
    match (read_offset::<N>(array, start), read_offset::<N>(array, end)) {
        (Some(from), Some(to)) if from <= to && to <= max_offset => from..to,
        _ => 0..0,
    }
}

/// Returns offset number `row` of `N` bytes; `None` if it is missing.
#[inline]
fn read_offset<const N: usize>(array: &UncheckedArray, row: usize) -> Option<usize> {
    let bytes = array.buffers().first()?.get((array.offset() + row) * N..)?.first_chunk::<N>()?;
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(bytes);
    usize::try_from(u64::from_le_bytes(wide)).ok()
}
