//! Checks values: the properties that the content of buffers must have so that code can trust it.
//!
//! `checked` checks the structure (lengths of buffers), and turns arrays that pass both into trusted ones. Fixed-width
//! values need no check, so a sum over a mapped column touches its bytes once. Logical checks (digits of a decimal,
//! whole days of a date64) are not made here.

use arrow_schema::{DataType, UnionMode};

use super::byte_order::count_ones;
use super::unchecked::{UncheckedArray, Validity};
use super::value::{Value, key, slot, value};
use crate::error::{Error, Result};
use crate::types::{MAX_INLINE, VIEW_WIDTH};

/// Checks all values of `array`, but not of its dictionaries, which their cache checks.
pub(crate) fn check(array: &UncheckedArray) -> Result<()> {
    use DataType::*;
    check_null_count(array)?;
    match array.data_type() {
        Utf8 => check_strings(array, &offsets32(array)?),
        LargeUtf8 => check_strings(array, &offsets64(array)?),
        Binary => check_offsets(&offsets32(array)?, data_len(array)),
        LargeBinary => check_offsets(&offsets64(array)?, data_len(array)),
        Utf8View | BinaryView => check_views(array),
        ListView(_) | LargeListView(_) | Union(_, UnionMode::Dense | UnionMode::Sparse) => check_each(array),
        List(_) | Map(..) => check_offsets(&offsets32(array)?, child_len(array)),
        LargeList(_) => check_offsets(&offsets64(array)?, child_len(array)),
        Dictionary(..) => return check_keys(array),
        RunEndEncoded(..) => check_run_ends(array),
        _ => Ok(()),
    }?;
    array.child_data().iter().try_for_each(check)
}

/// Returns true if a type has no values to check, such as numbers.
pub(crate) fn is_trivial(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null | DataType::FixedSizeBinary(_))
}

/// Checks the null counts of an array and its children.
pub(crate) fn check_null_counts(array: &UncheckedArray) -> Result<()> {
    check_null_count(array)?;
    array.child_data().iter().try_for_each(check_null_counts)
}

fn check_null_count(array: &UncheckedArray) -> Result<()> {
    let Some(nulls) = array.nulls() else { return Ok(()) };
    check_declared(nulls, nulls.len() - count_ones(nulls.bits()))
}

/// Checks that the bitmap has the declared number of nulls.
pub(super) fn check_declared(nulls: Validity<'_>, counted: usize) -> Result<()> {
    let declared = nulls.declared();
    if declared == counted {
        Ok(())
    } else {
        Err(Error::invalid(format!("{declared} nulls are declared, the validity bitmap has {counted}")))
    }
}

/// The offsets of an array from its first row on, whatever their alignment.
struct ArrayOffsets<'a> {
    bytes: &'a [u8],
    /// True for offsets of 8 bytes, false for offsets of 4.
    is_wide: bool,
    count: usize,
}

fn offsets32(array: &UncheckedArray) -> Result<ArrayOffsets<'_>> {
    offsets(array, 4)
}

fn offsets64(array: &UncheckedArray) -> Result<ArrayOffsets<'_>> {
    offsets(array, 8)
}

fn offsets(array: &UncheckedArray, width: usize) -> Result<ArrayOffsets<'_>> {
    let count = if array.is_empty() { 0 } else { array.len() + 1 };
    let buffer = array.buffers().first().map_or(&[][..], |b| b.as_slice());
    let start = array.offset() * width;
    match buffer.get(start..start + count * width) {
        Some(bytes) => Ok(ArrayOffsets { bytes, is_wide: width == 8, count }),
        None => Err(Error::invalid(format!("{count} offsets in a buffer of {} bytes", buffer.len()))),
    }
}

impl ArrayOffsets<'_> {
    /// Returns offset number `i`.
    fn get(&self, i: usize) -> i64 {
        debug_assert!(i < self.count, "offset {i} of {}", self.count);
        if self.is_wide {
            self.bytes[8 * i..].first_chunk().map_or(-1, |raw| i64::from_le_bytes(*raw))
        } else {
            self.bytes[4 * i..].first_chunk().map_or(-1, |raw| i32::from_le_bytes(*raw).into())
        }
    }

    /// Returns true if no offset is smaller than the previous one.
    fn are_sorted(&self) -> bool {
        if self.is_wide {
            are_sorted(self.bytes, i64::from_le_bytes)
        } else {
            are_sorted(self.bytes, i32::from_le_bytes)
        }
    }
}

/// Returns true if numbers of `N` bytes are in order. A plain loop that the compiler vectorises.
fn are_sorted<const N: usize, T: PartialOrd>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> bool {
    let (numbers, _) = bytes.as_chunks::<N>();
    let next = numbers.iter().skip(1);
    numbers.iter().zip(next).fold(true, |so_far, (&a, &b)| so_far & (number(a) <= number(b)))
}

fn check_offsets(offsets: &ArrayOffsets<'_>, end: usize) -> Result<()> {
    if offsets.count == 0 {
        return Ok(());
    }
    let first = offsets.get(0);
    let last = offsets.get(offsets.count - 1);
    let are_bounded = first >= 0 && usize::try_from(last).is_ok_and(|last| last <= end);
    if are_bounded && offsets.are_sorted() {
        return Ok(());
    }
    for row in 0..offsets.count - 1 {
        let from = offsets.get(row);
        let to = offsets.get(row + 1);
        if from < 0 || from > to || usize::try_from(to).map_or(true, |to| to > end) {
            return Err(order_error(row, from, to, end));
        }
    }
    // Another process has changed them since, so that they are in order now: the error names any row.
    Err(order_error(0, first, offsets.get(1), end))
}

fn order_error(row: usize, from: i64, to: i64, end: usize) -> Error {
    Error::invalid(format!("row {row}: offsets {from} to {to} are not in order inside 0 to {end}"))
}

/// Checks all text at once, then that no string begins inside a character.
fn check_strings(array: &UncheckedArray, offsets: &ArrayOffsets<'_>) -> Result<()> {
    let data = array.buffers().get(1).map_or(&[][..], |b| b.as_slice());
    check_offsets(offsets, data.len())?;
    if offsets.count == 0 {
        return Ok(());
    }

    let first = bounded_offset(offsets, 0, data);
    let last = bounded_offset(offsets, offsets.count - 1, data).max(first);
    let used = &data[first..last];
    if used.is_ascii() {
        return Ok(());
    }
    if let Ok(text) = std::str::from_utf8(used)
        && (0..offsets.count).all(|i| {
            bounded_offset(offsets, i, data).checked_sub(first).is_some_and(|start| text.is_char_boundary(start))
        })
    {
        return Ok(());
    }

    // Finds the row, slowly.
    check_each(array)
}

/// Returns offset number `i`, bounded by the data: it was checked before, but another process may have changed it
/// since.
#[inline]
fn bounded_offset(offsets: &ArrayOffsets<'_>, i: usize, data: &[u8]) -> usize {
    usize::try_from(offsets.get(i)).map_or(0, |offset| offset.min(data.len()))
}

/// Checks every slot by reading it. Includes null rows, as code that trusts an array may read them.
fn check_each(array: &UncheckedArray) -> Result<()> {
    for row in 0..array.len() {
        slot(array, row).map_err(|e| e.context(format_args!("row {row}")))?;
    }
    Ok(())
}

/// Reads every value, and compares it with its view's prefix: kernels compare views before values.
fn check_views(array: &UncheckedArray) -> Result<()> {
    let views = array.buffers().first().map_or(&[][..], |b| b.as_slice()).as_chunks::<VIEW_WIDTH>().0;
    let is_text = matches!(array.data_type(), DataType::Utf8View);
    for row in 0..array.len() {
        // A view that contains its bytes can only have wrong padding.
        if !is_text && views.get(array.offset() + row).is_some_and(is_padded) {
            continue;
        }
        let bytes = match slot(array, row).map_err(|e| e.context(format_args!("row {row}")))? {
            Value::Str(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            _ => continue,
        };
        let [_, _, _, _, inline @ ..] = views.get(array.offset() + row).unwrap_or(&[0; VIEW_WIDTH]);
        let agrees = if bytes.len() > inline.len() {
            inline[..4] == bytes[..4]
        } else {
            inline[bytes.len()..].iter().all(|&padding| padding == 0)
        };
        if !agrees {
            return Err(Error::invalid(format!("row {row}: the view's prefix or padding is not that of its value")));
        }
    }
    Ok(())
}

/// Returns true if a view contains its bytes itself, with zeros after them.
fn is_padded(view: &[u8; VIEW_WIDTH]) -> bool {
    let word = u128::from_le_bytes(*view);
    let len = word as u32;
    len <= MAX_INLINE as u32 && word.checked_shr(32 + 8 * len).is_none_or(|rest| rest == 0)
}

fn check_keys(array: &UncheckedArray) -> Result<()> {
    let DataType::Dictionary(index, _) = array.data_type() else { return Ok(()) };
    let width = index.primitive_width().unwrap_or(8);
    let keys = array.buffers().first().map_or(&[][..], |b| b.as_slice());
    let keys = keys.get(array.offset() * width..(array.offset() + array.len()) * width);
    let keys = keys.ok_or_else(|| Error::invalid("fewer keys than rows"))?;

    // Negative keys are huge unsigned ones, so one maximum finds both errors.
    let max_key = match width {
        1 => keys.iter().copied().max().map(u64::from),
        2 => keys.as_chunks().0.iter().map(|&raw| u16::from_le_bytes(raw)).max().map(u64::from),
        4 => keys.as_chunks().0.iter().map(|&raw| u32::from_le_bytes(raw)).max().map(u64::from),
        _ => keys.as_chunks().0.iter().map(|&raw| u64::from_le_bytes(raw)).max(),
    };
    // The largest key of the type.
    let limit = u64::MAX >> (64 - 8 * width.clamp(1, 8)) >> u32::from(index.is_signed_integer());
    let values = child_len(array) as u64;
    if max_key.is_none_or(|max_key| max_key < values && max_key <= limit) {
        return Ok(());
    }

    for row in 0..array.len() {
        // The keys of null rows are arbitrary.
        if array.nulls().is_none_or(|nulls| nulls.is_valid(row)) {
            key(array, array.offset() + row).map_err(|e| e.context(format_args!("row {row}")))?;
        }
    }
    Ok(())
}

fn check_run_ends(array: &UncheckedArray) -> Result<()> {
    let Some(run_ends) = array.child_data().first() else { return Ok(()) };
    // An array of arrow-rs without rows has one run that ends at 0, which is never read.
    if array.offset() + array.len() == 0 {
        return Ok(());
    }
    let mut before = 0;
    for run in 0..run_ends.len() {
        match value(run_ends, run)? {
            Value::Int(end) if end > before => before = end,
            other => return Err(Error::invalid(format!("run {run} ends at {other:?}, the one before it at {before}"))),
        }
    }
    let rows = array.offset() + array.len();
    if usize::try_from(before).is_ok_and(|covered| covered >= rows) {
        return Ok(());
    }
    Err(Error::invalid(format!("the runs cover {before} rows of {rows}")))
}

fn data_len(array: &UncheckedArray) -> usize {
    array.buffers().get(1).map_or(0, |b| b.len())
}

fn child_len(array: &UncheckedArray) -> usize {
    array.child_data().first().map_or(0, UncheckedArray::len)
}
