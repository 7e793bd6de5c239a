//! Bitmaps of rows, such as the rows for which a test is true.

use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::array::value;
use crate::error::Result;

/// The number of rows whose bits are in one word.
const WORD: usize = u64::BITS as usize;

/// A bit for each of some rows, which are numbered from 0. The bit of row `row` is bit `row % 64` of word `row / 64`.
/// There are no more words than the rows need, and bits behind the last row are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::compute) struct Mask {
    pub words: Vec<u64>,
    /// The number of rows.
    len: usize,
}

impl Mask {
    /// Creates a mask of `len` rows whose bits are all set, or all clear.
    pub(in crate::compute) fn all(len: usize, is_set: bool) -> Mask {
        let mut mask = Mask { words: vec![if is_set { u64::MAX } else { 0 }; len.div_ceil(WORD)], len };
        mask.trim();
        mask
    }

    /// Creates a mask in which bit `row` is `is_set(row)`.
    pub(in crate::compute) fn collect(len: usize, mut is_set: impl FnMut(usize) -> bool) -> Mask {
        let mut words = Vec::with_capacity(len.div_ceil(WORD));
        for start in (0..len).step_by(WORD) {
            let rows = start..len.min(start + WORD);
            words.push(rows.fold(0, |word, row| word | u64::from(is_set(row)) << (row - start)));
        }
        Mask { words, len }
    }

    /// Creates a mask of `len` rows from its words, in which the bits behind the last row are 0.
    #[inline]
    pub(in crate::compute) fn from_words(words: Vec<u64>, len: usize) -> Mask {
        debug_assert!(words.len() == len.div_ceil(WORD), "{} words for {len} rows", words.len());
        Mask { words, len }
    }

    /// Returns the rows among `rows` of `array` that are not null; `None` if the array has no nulls.
    pub(in crate::compute) fn from_validity(array: &ArrayData, rows: &Range<usize>) -> Option<Mask> {
        let bits = array.nulls().filter(|nulls| nulls.null_count() > 0)?.inner().slice(rows.start, rows.len());
        Some(Mask { words: bits.bit_chunks().iter_padded().take(rows.len().div_ceil(WORD)).collect(), len: rows.len() })
    }

    /// Returns the number of rows.
    pub(in crate::compute) fn len(&self) -> usize {
        self.len
    }

    /// Clears the bits behind the last row.
    fn trim(&mut self) {
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), self.len % WORD) {
            *last &= u64::MAX >> (WORD - rest);
        }
    }

    /// Keeps the bits that are set in `other`, too.
    pub(in crate::compute) fn and(&mut self, other: &Mask) {
        assert!(self.len == other.len, "masks of {} and {} rows", self.len, other.len);
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    /// Sets the bits that are set in `other`.
    pub(in crate::compute) fn or(&mut self, other: &Mask) {
        assert!(self.len == other.len, "masks of {} and {} rows", self.len, other.len);
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    /// Sets the bits that were clear, and clears the others.
    pub(in crate::compute) fn flip(&mut self) {
        self.words.iter_mut().for_each(|word| *word = !*word);
        self.trim();
    }

    #[inline(always)]
    pub(in crate::compute) fn is_set(&self, row: usize) -> bool {
        debug_assert!(row < self.len, "row {row} of {}", self.len);
        self.words[row / WORD] >> (row % WORD) & 1 == 1
    }

    /// Returns true if a bit of `rows` is set. The first row must begin a word.
    pub(in crate::compute) fn has_any(&self, rows: Range<usize>) -> bool {
        debug_assert!(rows.start.is_multiple_of(WORD));
        self.words[rows.start / WORD..rows.end.div_ceil(WORD)].iter().any(|word| *word != 0)
    }

    /// Returns the number of set bits.
    pub(in crate::compute) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the rows of the first and the last set bit.
    pub(in crate::compute) fn first_and_last(&self) -> Option<(usize, usize)> {
        let first = self.words.iter().position(|word| *word != 0)?;
        let last = self.words.iter().rposition(|word| *word != 0)?;
        let before = self.words[first].trailing_zeros() as usize;
        let behind = self.words[last].leading_zeros() as usize;
        Some((first * WORD + before, (last + 1) * WORD - 1 - behind))
    }

    /// Returns the number of set bits before row `row`.
    pub(super) fn count_before(&self, row: usize) -> usize {
        let whole: usize = self.words[..row / WORD].iter().map(|word| word.count_ones() as usize).sum();
        let rest = self.words.get(row / WORD).map_or(0, |word| word & !(u64::MAX << (row % WORD)));
        whole + rest.count_ones() as usize
    }

    /// Returns the row of the set bit with `number` set bits before it; `None` if there is none.
    pub(super) fn nth(&self, number: usize) -> Option<usize> {
        let mut skipped = number;
        for (index, &word) in self.words.iter().enumerate() {
            let count = word.count_ones() as usize;
            if skipped < count {
                // Each step clears the lowest set bit.
                let rest = (0..skipped).fold(word, |word, _| word & (word - 1));
                return Some(index * WORD + rest.trailing_zeros() as usize);
            }
            skipped -= count;
        }
        None
    }

    /// Sets the bit of row `row`.
    pub(in crate::compute) fn set(&mut self, row: usize) {
        debug_assert!(row < self.len);
        self.words[row / WORD] |= 1 << (row % WORD);
    }

    /// Returns the bits of `rows`.
    pub(super) fn slice(&self, rows: Range<usize>) -> Mask {
        let first = rows.start / WORD;
        let shift = rows.start % WORD;
        let words = &self.words[first..rows.end.div_ceil(WORD).max(first)];
        let words = if shift == 0 {
            words.to_vec()
        } else {
            let mut shifted = Vec::with_capacity(rows.len().div_ceil(WORD));
            for index in 0..rows.len().div_ceil(WORD) {
                // Bits past the last row are trimmed below.
                let next = words.get(index + 1).map_or(0, |next| next << (WORD - shift));
                shifted.push(words[index] >> shift | next);
            }
            shifted
        };
        let mut mask = Mask { words, len: rows.len() };
        mask.trim();
        mask
    }

    /// Appends the rows of `other`.
    pub(super) fn append(&mut self, other: &Mask) {
        debug_assert_eq!(self.words.len(), self.len.div_ceil(WORD));
        let shift = self.len % WORD;
        if shift == 0 {
            self.words.extend_from_slice(&other.words);
        } else {
            for &word in &other.words {
                if let Some(last) = self.words.last_mut() {
                    *last |= word << shift;
                }
                self.words.push(word >> (WORD - shift));
            }
        }
        self.len += other.len;
        self.words.truncate(self.len.div_ceil(WORD));
    }

    /// Appends the rows of `other`. Unlike with [`append`](Mask::append), the last word of this mask must be full.
    pub(in crate::compute) fn extend(&mut self, other: &Mask) {
        assert!(self.len.is_multiple_of(WORD), "{} rows are extended", self.len);
        self.words.extend_from_slice(&other.words);
        self.len += other.len;
    }

    /// Returns the rows whose bits are set.
    pub(in crate::compute) fn rows(&self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().enumerate();
        words.flat_map(|(number, &word)| set_bits(word).map(move |bit| number * WORD + bit))
    }
}

/// Selected rows of a batch.
#[derive(Clone, Debug)]
pub(in crate::compute) struct SelectedRows {
    /// The batch, by its index in the list of the selection.
    pub part: u32,
    /// Consecutive rows of the batch.
    pub rows: Range<usize>,
    /// Which of `rows` are selected.
    pub mask: Mask,
}

/// Returns the rows that are not null.
pub(in crate::compute) fn valid_mask(array: &ArrayData, rows: &Range<usize>) -> Result<Mask> {
    use DataType::{Dictionary, Null, RunEndEncoded, Union};
    match array.data_type() {
        // Whether a row is null depends on a key, a run or a child.
        Null | Dictionary(..) | RunEndEncoded(..) | Union(..) => {
            let is_valid = rows.clone().map(|row| Ok(!value(array, row)?.is_null())).collect::<Result<Vec<_>>>()?;
            Ok(Mask::collect(rows.len(), |row| is_valid[row]))
        }
        _ => Ok(Mask::from_validity(array, rows).unwrap_or_else(|| Mask::all(rows.len(), true))),
    }
}

/// Packs 64 bytes of 0 or 1 into the bits of a word, eight at a time.
#[inline(always)]
pub(in crate::compute) fn pack_bits(bytes: &[u8; WORD]) -> u64 {
    /// The product with eight bytes of 0 or 1 has byte `i` in bit `56 + i`.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let eights = bytes.as_chunks::<8>().0.iter().enumerate();
    eights.fold(0, |word, (i, eight)| {
        let top = u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56;
        word | top << (8 * i)
    })
}

/// Returns the numbers of the set bits, from the lowest on.
#[inline(always)]
pub(in crate::compute) fn set_bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}
