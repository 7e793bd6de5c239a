//! Reads keys as words, and hashes keys.
//!
//! A hash of keys decides about the partition of a row. Equal keys have equal hashes, in all batches and in each run,
//! so that results are reproducible.

use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::chunk_order::{block_spans, lost_row};
use crate::array::access::{MAX_SHORT_TEXT, Texts, fixed_values, fixed_width};
use crate::compute::group::keys::{KeyPart, LONG, key_part, pack_short_text, pack_text, word_of_2, word_of_4};
use crate::compute::group::state::is_stored_as_integer;
use crate::compute::scan::Frame;
use crate::compute::selection::Mask;
use crate::error::{Error, Result};

/// The maximum number of integers in a range for each row of a dataset, for which a table may have an entry for each
/// integer.
const MAX_WIDTH_PER_ROW: u64 = 4;

/// Returns the width of the range of the integers in the first block of column `key`. Returns `None` for other columns,
/// and if the range is too wide for a table with an entry for each integer.
pub(super) fn integers_width(frame: &Frame<'_>, key: usize) -> Result<Option<usize>> {
    let mut range: Option<(i64, i64)> = None;
    for (array, rows) in block_spans(frame, 0, key)? {
        if !is_stored_as_integer(array.data_type()) || !matches!(fixed_width(array.data_type()), Some(2 | 4 | 8)) {
            return Ok(None);
        }
        let mut numbers = vec![0; rows.len()];
        for_each_word(array, &rows, &mut numbers, |number, word| *number = word as i64)?;
        let valid = Mask::from_validity(array, &rows);
        for (row, &number) in numbers.iter().enumerate() {
            // The numbers under nulls are not keys.
            if valid.as_ref().is_none_or(|valid| valid.is_set(row)) {
                let (low, high) = range.unwrap_or((number, number));
                range = Some((low.min(number), high.max(number)));
            }
        }
    }
    let Some((low, high)) = range else { return Ok(None) };
    let width = high.wrapping_sub(low) as u64;
    Ok(if width / MAX_WIDTH_PER_ROW <= frame.num_rows() { usize::try_from(width).ok() } else { None })
}

/// Calls `work` with the element of `out` and the word of each row of integers. Nulls have arbitrary words.
pub(super) fn for_each_word<T>(
    array: &ArrayData,
    rows: &Range<usize>,
    out: &mut [T],
    work: impl Fn(&mut T, u64),
) -> Result<()> {
    match fixed_width(array.data_type()) {
        Some(2) => for_each_value(array, rows, out, work, word_of_2(array.data_type())),
        Some(4) => for_each_value(array, rows, out, work, word_of_4(array.data_type())),
        Some(8) => for_each_value(array, rows, out, work, u64::from_le_bytes),
        _ => Err(Error::internal("keys are no integers")),
    }
}

/// Does [`for_each_word`] for integers of `N` bytes, whose words `word` returns.
#[inline]
fn for_each_value<T, const N: usize>(
    array: &ArrayData,
    rows: &Range<usize>,
    out: &mut [T],
    work: impl Fn(&mut T, u64),
    word: impl Fn([u8; N]) -> u64,
) -> Result<()> {
    let values = fixed_values::<N>(array).get(rows.clone()).ok_or_else(lost_row)?;
    for (out, raw) in out.iter_mut().zip(values) {
        work(out, word(*raw));
    }
    Ok(())
}

/// Mixes hashes of a column's values, which are equal for equal keys, into the hashes of the columns before it.
pub(super) fn add_hashes(array: &ArrayData, rows: Range<usize>, hashes: &mut [u64]) -> Result<()> {
    use DataType::*;
    let has_nulls = array.nulls().is_some_and(|nulls| nulls.null_count() > 0);
    match array.data_type() {
        data_type
            if is_stored_as_integer(data_type) && matches!(fixed_width(data_type), Some(2 | 4 | 8)) && !has_nulls =>
        {
            for_each_word(array, &rows, hashes, |hash, word| *hash = mix(*hash, word))?;
        }
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView if !has_nulls => {
            let texts = Texts::try_new(array)?;
            let mut long_texts = Vec::new();
            let mut number = 0;
            texts.each_short(rows.clone(), |len, bytes| {
                match hashes.get_mut(number).filter(|_| len <= MAX_SHORT_TEXT) {
                    Some(hash) => *hash = mix_wide(*hash, pack_short_text(len, bytes)),
                    None => long_texts.push(number),
                }
                number += 1;
            })?;
            for number in long_texts {
                hashes[number] = mix_bytes(hashes[number], texts.get(rows.start + number)?);
            }
        }
        _ => {
            for (row, hash) in rows.zip(hashes) {
                *hash = match key_part(array, row)? {
                    KeyPart::Null => mix(*hash, 0),
                    KeyPart::Word(word) => mix(*hash, word),
                    KeyPart::Bytes(bytes) => mix_bytes(*hash, bytes),
                };
            }
        }
    }
    Ok(())
}

/// Mixes a word into a hash: combines both halves of a product, as its upper bits depend on all others.
#[inline(always)]
pub(super) fn mix(hash: u64, word: u64) -> u64 {
    /// The fraction of the golden ratio, so that a hash and a word of 0 are not mixed to 0.
    const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;
    /// An odd number with about as many ones as zeros.
    const FACTOR: u128 = 0xD6E8_FEB8_6659_FD93;
    let product = u128::from(hash.rotate_left(u32::BITS) ^ word ^ INCREMENT) * FACTOR;
    product as u64 ^ (product >> u64::BITS) as u64
}

/// Mixes both halves of a word of 128 bits into a hash.
#[inline(always)]
fn mix_wide(hash: u64, word: u128) -> u64 {
    mix(mix(hash, word as u64), (word >> u64::BITS) as u64)
}

/// Mixes a text into a hash: a short one as one word, like [`add_hashes`], and a long one with its length.
fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let packed = pack_text(bytes);
    let (LONG, Some(last)) = (packed, bytes.last_chunk::<8>()) else { return mix_wide(hash, packed) };
    let mut hash = mix(hash, bytes.len() as u64);
    for word in bytes.as_chunks::<8>().0 {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    // The last 8 bytes may overlap the words before them.
    mix(hash, u64::from_le_bytes(*last))
}
