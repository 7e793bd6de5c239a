//! Reads the values of one array by row, whatever their alignment, each loaded once and bounded.

#[cfg(feature = "compute")]
use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::DataType;
#[cfg(feature = "compute")]
use multiversion::multiversion;

use super::value::{VIEW_BUFFER, VIEW_LEN, VIEW_OFFSET, VIEW_VALUE, view_word};
use super::{UncheckedArray, is_trivial, key};
use crate::error::{Error, Result};
use crate::types::{MAX_INLINE, VIEW_WIDTH, fixed_size_or_zero, layout};

/// Returns the values of `N` bytes from the array's first row on, including nulls; as many as the bytes contain.
pub(crate) fn fixed_values<const N: usize>(array: &(impl AsRef<UncheckedArray> + ?Sized)) -> &[[u8; N]] {
    let array = array.as_ref();
    let all = buffer_bytes(array, 0).as_chunks().0;
    all.get(array.offset()..all.len().min(array.offset() + array.len())).unwrap_or(&[])
}

/// Returns the bytes of buffer `number`; none if it is missing.
fn buffer_bytes(array: &UncheckedArray, number: usize) -> &[u8] {
    array.buffers().get(number).map_or(&[], |buffer| buffer.as_slice())
}

/// The bits of booleans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Bits<'a> {
    pub(crate) fn new<A: AsRef<UncheckedArray> + ?Sized>(array: &'a A) -> Bits<'a> {
        let array = array.as_ref();
        Bits { bytes: buffer_bytes(array, 0), offset: array.offset() }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> bool {
        let bit = self.offset + row;
        self.bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }
}

/// Text or bytes of any layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts<'a> {
    array: &'a UncheckedArray,
    layout: CellLayout<'a>,
}

/// Where the bytes of a value are.
#[derive(Clone, Copy, Debug)]
enum CellLayout<'a> {
    /// Offsets of 4 bytes, and the data they point into.
    Small(&'a [[u8; 4]], &'a [u8]),
    /// Offsets of 8 bytes, and the data they point into.
    Large(&'a [[u8; 8]], &'a [u8]),
    Views(&'a [[u8; VIEW_WIDTH]]),
    /// All values, and the bytes of each.
    Fixed(&'a [u8], usize),
}

impl<'a> Texts<'a> {
    /// Returns the values of an array of text, bytes or fixed-width values.
    ///
    /// # Errors
    /// `Unsupported` for other arrays.
    pub(crate) fn try_new<A: AsRef<UncheckedArray> + ?Sized>(array: &'a A) -> Result<Texts<'a>> {
        use DataType::*;
        let array = array.as_ref();
        let first = buffer_bytes(array, 0);
        let layout = match array.data_type() {
            Utf8 | Binary => CellLayout::Small(skip(first.as_chunks().0, array.offset()), buffer_bytes(array, 1)),
            LargeUtf8 | LargeBinary => {
                CellLayout::Large(skip(first.as_chunks().0, array.offset()), buffer_bytes(array, 1))
            }
            Utf8View | BinaryView => CellLayout::Views(fixed_values(array)),
            FixedSizeBinary(width) => {
                let width = fixed_size_or_zero(*width);
                CellLayout::Fixed(skip(first, array.offset().saturating_mul(width)), width)
            }
            other => match other.primitive_width() {
                Some(width) => CellLayout::Fixed(skip(first, array.offset() * width), width),
                None => return Err(Error::unsupported(format!("values of type {other} are neither text nor bytes"))),
            },
        };
        Ok(Texts { array, layout })
    }

    /// Returns the bytes of row `row`, null or not.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Result<&'a [u8]> {
        let bytes = match self.layout {
            CellLayout::Small(offsets, data) => between(offsets, data, row, |raw| u32::from_le_bytes(raw) as usize),
            CellLayout::Large(offsets, data) => between(offsets, data, row, |raw| u64::from_le_bytes(raw) as usize),
            CellLayout::Views(views) => views.get(row).and_then(|view| self.view(view)),
            CellLayout::Fixed(data, width) => data.get(row * width..(row + 1) * width),
        };
        bytes.ok_or_else(outside)
    }

    /// Returns the length of row `row`, and its bytes as a number if there are at most 15.
    #[cfg(feature = "compute")]
    pub(crate) fn short(&self, row: usize) -> Result<(usize, u128)> {
        self.get(row).map(short)
    }

    /// Calls `work` with the length of each of some rows, null or not, and its bytes as a number if there are at most
    /// 15.
    #[cfg(feature = "compute")]
    #[inline(always)]
    pub(crate) fn each_short(&self, rows: Range<usize>, mut work: impl FnMut(usize, u128)) -> Result<()> {
        self.each_head(rows, |len, head| work(len, if len < 16 { head & byte_mask(len) } else { 0 }))
    }

    /// Calls `work` with the length of each of some rows, null or not, and its first 16 bytes as a number. The bytes
    /// after a shorter value are arbitrary.
    #[cfg(feature = "compute")]
    #[inline(always)]
    pub(crate) fn each_head(&self, rows: Range<usize>, mut work: impl FnMut(usize, u128)) -> Result<()> {
        match self.layout {
            CellLayout::Small(offsets, data) => {
                each_between(offsets.get(rows.start..=rows.end), data, |raw| u32::from_le_bytes(raw) as usize, work)
            }
            CellLayout::Large(offsets, data) => {
                each_between(offsets.get(rows.start..=rows.end), data, |raw| u64::from_le_bytes(raw) as usize, work)
            }
            CellLayout::Views(views) => {
                for view in views.get(rows).ok_or_else(outside)? {
                    let word = u128::from_le_bytes(*view);
                    match word as u32 as usize {
                        len @ 0..=MAX_INLINE => work(len, word >> 32),
                        len => work(len, self.view(view).map(head).ok_or_else(outside)?),
                    }
                }
                Ok(())
            }
            CellLayout::Fixed(..) => rows.into_iter().try_for_each(|row| {
                let bytes = self.get(row)?;
                work(bytes.len(), head(bytes));
                Ok(())
            }),
        }
    }

    /// Returns 1 for each of up to 64 rows, null or not, whose text has `len` bytes, and 0 for the others. Returns
    /// `None` for layouts without offsets, whose values would have to be read one by one, and for invalid offsets.
    #[cfg(feature = "compute")]
    #[inline(always)]
    pub(crate) fn rows_of_length(&self, rows: Range<usize>, len: usize) -> Option<[u8; 64]> {
        let len = u32::try_from(len).ok()?;
        self.by_length(rows, |offsets, marks| mark_each(offsets, marks, |text_len| u8::from(text_len == len)))
    }

    /// Returns 1 for each of up to 64 rows whose text has one of some lengths, like [`Texts::rows_of_length`]. The bits
    /// of `lengths` are those that [`length_bit`] returns.
    #[cfg(feature = "compute")]
    #[inline(always)]
    pub(crate) fn rows_of_lengths(&self, rows: Range<usize>, lengths: u32) -> Option<[u8; 64]> {
        self.by_length(rows, |offsets, marks| mark_lengths(offsets, marks, lengths))
    }

    /// Returns the marks that `mark` writes for the offsets of the rows. `mark` returns the last offset.
    #[cfg(feature = "compute")]
    #[inline(always)]
    fn by_length(
        &self,
        rows: Range<usize>,
        mark: impl Fn(&[[u8; 4]], &mut [u8; 64]) -> Option<u32>,
    ) -> Option<[u8; 64]> {
        let CellLayout::Small(offsets, data) = self.layout else { return None };
        debug_assert!(rows.len() <= 64, "{} rows have no room in 64 marks", rows.len());
        let mut marks = [0; 64];
        let end = mark(offsets.get(rows.start..=rows.end)?, &mut marks)?;
        (end as usize <= data.len()).then_some(marks)
    }

    /// Calls `work` with the bytes of each of some rows, null or not.
    #[cfg(feature = "compute")]
    #[inline(always)]
    pub(crate) fn each(&self, rows: Range<usize>, mut work: impl FnMut(&'a [u8])) -> Result<()> {
        match self.layout {
            CellLayout::Small(offsets, data) => {
                let offsets = offsets.get(rows.start..=rows.end).ok_or_else(outside)?;
                for pair in offsets.windows(2) {
                    let [start, end] = [pair[0], pair[1]].map(|raw| u32::from_le_bytes(raw) as usize);
                    work(data.get(start..end).ok_or_else(outside)?);
                }
                Ok(())
            }
            _ => rows.into_iter().try_for_each(|row| {
                work(self.get(row)?);
                Ok(())
            }),
        }
    }

    /// Returns the bytes of row `row`; none for a null.
    #[inline]
    pub(crate) fn get_valid(&self, row: usize) -> Result<&'a [u8]> {
        if self.is_null(row) { Ok(&[]) } else { self.get(row) }
    }

    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    /// Returns the bytes of a view: a length, then either 12 bytes of value, or 4 bytes of prefix, a buffer number and
    /// an offset in that buffer.
    fn view(&self, view: &'a [u8; VIEW_WIDTH]) -> Option<&'a [u8]> {
        let len = view_word(view, VIEW_LEN);
        if len <= MAX_INLINE {
            return view.get(VIEW_VALUE..VIEW_VALUE + len);
        }
        let buffer = view_word(view, VIEW_BUFFER);
        let start = view_word(view, VIEW_OFFSET);
        self.array.buffers().get(buffer + 1)?.as_slice().get(start..start + len)
    }
}

/// Returns the items from `start` on; none if there are fewer.
fn skip<T>(items: &[T], start: usize) -> &[T] {
    items.get(start..).unwrap_or(&[])
}

/// Returns a number with ones in its first `len` bytes, which are fewer than 16.
#[cfg(feature = "compute")]
#[inline(always)]
pub(crate) fn byte_mask(len: usize) -> u128 {
    debug_assert!(len < 16, "a mask of {len} bytes");
    (1 << (8 * len)) - 1
}

/// Calls `work` with the length of each text between two of `offsets`, and its first bytes.
#[cfg(feature = "compute")]
#[inline(always)]
fn each_between<const N: usize>(
    offsets: Option<&[[u8; N]]>,
    data: &[u8],
    offset: impl Fn([u8; N]) -> usize,
    mut work: impl FnMut(usize, u128),
) -> Result<()> {
    let (first, ends) = offsets.and_then(<[_]>::split_first).ok_or_else(outside)?;
    let mut start = offset(*first);
    for end in ends {
        let end = offset(*end);
        match (end.wrapping_sub(start), data.get(start..).and_then(<[_]>::first_chunk)) {
            (len @ 0..16, Some(raw)) => work(len, u128::from_le_bytes(*raw)),
            (len, _) => work(len, data.get(start..end).map(head).ok_or_else(outside)?),
        }
        start = end;
    }
    Ok(())
}

/// The bit of a set of lengths that stands for all texts of as many bytes or more.
#[cfg(feature = "compute")]
const LONG: u32 = u32::BITS - 1;

/// Returns the bit for texts of `len` bytes in a set of lengths. The last bit is for all longer texts.
#[cfg(feature = "compute")]
pub(crate) fn length_bit(len: usize) -> u32 {
    1 << len.min(LONG as usize)
}

/// Writes 1 for each text with one of some lengths, and 0 for the others. Returns the last offset if they ascend.
#[cfg(feature = "compute")]
#[multiversion(targets("x86_64+avx2", "aarch64+neon"))]
fn mark_lengths(offsets: &[[u8; 4]], marks: &mut [u8; 64], lengths: u32) -> Option<u32> {
    mark_each(offsets, marks, |len| (lengths >> len.min(LONG) & 1) as u8)
}

/// Writes the mark that `mark` returns for the length of each text. Returns the last offset if they ascend.
#[cfg(feature = "compute")]
#[inline(always)]
fn mark_each(offsets: &[[u8; 4]], marks: &mut [u8; 64], mark: impl Fn(u32) -> u8) -> Option<u32> {
    let (first, ends) = offsets.split_first()?;
    let mut start = u32::from_le_bytes(*first);
    let mut ascend = true;
    for (out, end) in marks.iter_mut().zip(ends) {
        let end = u32::from_le_bytes(*end);
        *out = mark(end.wrapping_sub(start));
        ascend &= start <= end;
        start = end;
    }
    ascend.then_some(start)
}

/// Returns the first 16 bytes as a number, with zeros after the last byte if there are fewer.
#[cfg(feature = "compute")]
pub(crate) fn head(bytes: &[u8]) -> u128 {
    bytes.first_chunk().map_or_else(|| short(bytes).1, |raw| u128::from_le_bytes(*raw))
}

/// The maximum length of a text whose bytes [`short`] returns as a number, which has room for another byte.
#[cfg(feature = "compute")]
pub(crate) const MAX_SHORT_TEXT: usize = size_of::<u128>() - 1;

/// Returns the length of `bytes`, and the bytes as a number if there are at most 15.
#[cfg(feature = "compute")]
pub(crate) fn short(bytes: &[u8]) -> (usize, u128) {
    let mut raw = [0; 16];
    if bytes.len() < raw.len() {
        raw[..bytes.len()].copy_from_slice(bytes);
    }
    (bytes.len(), u128::from_le_bytes(raw))
}

#[inline(always)]
fn between<'a, const N: usize>(
    offsets: &[[u8; N]],
    data: &'a [u8],
    row: usize,
    offset: impl Fn([u8; N]) -> usize,
) -> Option<&'a [u8]> {
    let [start, end] = offsets.get(row..row + 2)?.first_chunk::<2>()?;
    data.get(offset(*start)..offset(*end))
}

#[cold]
fn outside() -> Error {
    Error::invalid("an offset or a view points outside of its buffers")
}

/// The number of keys of one byte.
#[cfg(feature = "compute")]
pub(crate) const BYTE_KEYS: usize = 1 << u8::BITS;

/// The keys of a dictionary-encoded array from its first row on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys<'a> {
    Bytes(&'a [[u8; 1]]),
    Halves(&'a [[u8; 2]]),
    Words(&'a [[u8; 4]]),
    Longs(&'a [[u8; 8]]),
}

impl<'a> Keys<'a> {
    pub(crate) fn new<A: AsRef<UncheckedArray> + ?Sized>(array: &'a A) -> Keys<'a> {
        let array = array.as_ref();
        let index = match array.data_type() {
            DataType::Dictionary(index, _) => index.primitive_width(),
            other => other.primitive_width(),
        };
        match index {
            Some(1) => Keys::Bytes(fixed_values(array)),
            Some(2) => Keys::Halves(fixed_values(array)),
            Some(4) => Keys::Words(fixed_values(array)),
            _ => Keys::Longs(fixed_values(array)),
        }
    }

    /// Returns the key of row `row`. A negative key becomes larger than any dictionary.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<usize> {
        Some(match self {
            Keys::Bytes(keys) => keys.get(row)?[0].into(),
            Keys::Halves(keys) => u16::from_le_bytes(*keys.get(row)?).into(),
            Keys::Words(keys) => u32::from_le_bytes(*keys.get(row)?) as usize,
            Keys::Longs(keys) => u64::from_le_bytes(*keys.get(row)?) as usize,
        })
    }
}

/// Returns a function that looks up the dictionary entry of a row. The entry of a null is arbitrary. Faster than
/// [`key`] for many rows, as the type of the keys is determined once.
///
/// # Errors
/// The function returns the errors of [`key`].
#[inline]
pub(crate) fn entry_lookup(array: &ArrayData) -> impl Fn(usize) -> Result<usize> {
    let keys = Keys::new(array);
    let len = array.child_data().first().map_or(0, ArrayData::len);
    move |row| match keys.get(row).filter(|&key| key < len) {
        Some(key) => Ok(key),
        // Returns the error, which names the type.
        None => key(array, array.offset() + row),
    }
}

/// Returns the bytes per row of a type of unconstrained values; `None` for other types.
pub(crate) fn fixed_width(data_type: &DataType) -> Option<usize> {
    layout(data_type).plain_width().filter(|&width| width > 0 && is_trivial(data_type))
}

/// Returns the bytes per row of a column of fixed-width values, or of fixed-size lists of them, nested or not.
#[cfg(feature = "compute")]
pub(crate) fn row_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeList(item, len @ 1..) => {
            row_width(item.data_type())?.checked_mul(usize::try_from(*len).ok()?)
        }
        other => fixed_width(other),
    }
}

/// Returns the dictionary of `array`.
pub(crate) fn dictionary_of(array: &ArrayData) -> Result<&ArrayData> {
    array.child_data().first().ok_or_else(|| Error::invalid("keys without a dictionary"))
}
