//! Bitmaps of rows, as of those for which a test holds.

use std::ops::Range;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;
use multiversion::multiversion;

use super::compare::{TextMatcher, TextSet, ValuePredicate, has_float};
use super::computed::{load_floats, load_integers};
use super::literal::Operator;
use crate::array::access::{Bits, Keys, Texts, byte_mask, dictionary_of, fixed_values, short};
use crate::array::value;
use crate::compute::kernels::Number;
use crate::error::{Error, Result};
use crate::types::type_name;

/// A bit per row; bits after the last are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::compute) struct Mask {
    pub words: Vec<u64>,
    len: usize,
}

impl Mask {
    pub(super) fn all(len: usize, is_set: bool) -> Mask {
        let mut mask = Mask { words: vec![if is_set { u64::MAX } else { 0 }; len.div_ceil(64)], len };
        mask.trim();
        mask
    }

    /// Bit `row` as `is_set(row)`.
    pub(super) fn collect(len: usize, mut is_set: impl FnMut(usize) -> bool) -> Mask {
        let word = |start: usize| {
            (start..len.min(start + 64)).fold(0, |word, row| word | u64::from(is_set(row)) << (row - start))
        };
        Mask { words: (0..len).step_by(64).map(word).collect(), len }
    }

    /// The rows of `array` that are not null.
    pub(in crate::compute) fn from_validity(array: &ArrayData, rows: &Range<usize>) -> Option<Mask> {
        let bits = array.nulls().filter(|nulls| nulls.null_count() > 0)?.inner().slice(rows.start, rows.len());
        Some(Mask { words: bits.bit_chunks().iter_padded().take(rows.len().div_ceil(64)).collect(), len: rows.len() })
    }

    fn trim(&mut self) {
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), self.len % 64) {
            *last &= u64::MAX >> (64 - rest);
        }
    }

    pub(super) fn and(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    pub(super) fn or(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    pub(super) fn flip(&mut self) {
        self.words.iter_mut().for_each(|word| *word = !*word);
        self.trim();
    }

    #[inline(always)]
    pub(in crate::compute) fn is_set(&self, row: usize) -> bool {
        self.words[row / 64] >> (row % 64) & 1 == 1
    }

    /// Whether a bit of `rows` is set, which begin with a word.
    pub(super) fn has_any(&self, rows: Range<usize>) -> bool {
        debug_assert!(rows.start.is_multiple_of(64));
        self.words[rows.start / 64..rows.end.div_ceil(64)].iter().any(|word| *word != 0)
    }

    /// The number of set bits.
    pub(in crate::compute) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The first and the last set bit.
    pub(in crate::compute) fn first_and_last(&self) -> Option<(usize, usize)> {
        let first = self.words.iter().position(|word| *word != 0)?;
        let last = self.words.iter().rposition(|word| *word != 0)?;
        let before = self.words[first].trailing_zeros() as usize;
        let behind = self.words[last].leading_zeros() as usize;
        Some((first * 64 + before, last * 64 + 63 - behind))
    }

    /// The number of set bits before row `row`.
    pub(super) fn count_before(&self, row: usize) -> usize {
        let whole: usize = self.words[..row / 64].iter().map(|word| word.count_ones() as usize).sum();
        let rest = self.words.get(row / 64).map_or(0, |word| word & !(u64::MAX << (row % 64)));
        whole + rest.count_ones() as usize
    }

    /// The row of set bit number `number`.
    pub(super) fn nth(&self, number: usize) -> Option<usize> {
        let mut left = number;
        for (at, &word) in self.words.iter().enumerate() {
            let count = word.count_ones() as usize;
            if left < count {
                let rest = (0..left).fold(word, |word, _| word & (word - 1));
                return Some(at * 64 + rest.trailing_zeros() as usize);
            }
            left -= count;
        }
        None
    }

    pub(super) fn set(&mut self, row: usize) {
        debug_assert!(row < self.len);
        self.words[row / 64] |= 1 << (row % 64);
    }

    /// The bits of `rows`.
    pub(super) fn slice(&self, rows: Range<usize>) -> Mask {
        let (first, shift) = (rows.start / 64, rows.start % 64);
        let words = &self.words[first..rows.end.div_ceil(64).max(first)];
        let joined = |at: usize| match (shift, words.get(at + 1)) {
            (0, _) => words[at],
            (_, next) => words[at] >> shift | next.map_or(0, |next| next << (64 - shift)),
        };
        let mut mask = Mask { words: (0..rows.len().div_ceil(64)).map(joined).collect(), len: rows.len() };
        mask.trim();
        mask
    }

    /// Adds the rows of `other` behind those that there are.
    pub(super) fn append(&mut self, other: &Mask) {
        let shift = self.len % 64;
        if shift == 0 {
            self.words.extend_from_slice(&other.words);
        } else {
            for &word in &other.words {
                if let Some(last) = self.words.last_mut() {
                    *last |= word << shift;
                }
                self.words.push(word >> (64 - shift));
            }
        }
        self.len += other.len;
        self.words.truncate(self.len.div_ceil(64));
    }

    /// Adds the rows of `other`; there are whole words of those before.
    pub(super) fn extend(&mut self, other: &Mask) {
        debug_assert!(self.len.is_multiple_of(64));
        self.words.extend_from_slice(&other.words);
        self.len += other.len;
    }

    /// The rows whose bits are set.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().enumerate();
        words.flat_map(|(number, &word)| set_bits(word).map(move |bit| number * 64 + bit))
    }
}

/// Selected rows of a batch: the batch number, the range of rows, and their bits.
#[derive(Clone, Debug)]
pub(super) struct SelectedRows {
    pub part: u32,
    pub rows: Range<usize>,
    pub mask: Mask,
}

/// The null rows, or, unless `wanted`, the others.
pub(in crate::compute) fn null_mask(array: &ArrayData, rows: &Range<usize>, wanted: bool) -> Result<Mask> {
    use DataType::{Dictionary, Null, RunEndEncoded, Union};
    let mut mask = match array.data_type() {
        Null | Dictionary(..) | RunEndEncoded(..) | Union(..) => {
            let found = rows.clone().map(|row| Ok(value(array, row)?.is_null())).collect::<Result<Vec<_>>>()?;
            Mask::collect(rows.len(), |row| found[row])
        }
        _ => {
            let mut mask = Mask::from_validity(array, rows).unwrap_or_else(|| Mask::all(rows.len(), true));
            mask.flip();
            mask
        }
    };
    if !wanted {
        mask.flip();
    }
    Ok(mask)
}

/// The rows whose value is known to pass the test, or to fail it.
pub(super) fn holds(array: &ArrayData, rows: &Range<usize>, test: &ValuePredicate, wanted: bool) -> Result<Mask> {
    let mut mask = match (array.data_type(), test) {
        (_, ValuePredicate::Unknown) => return Ok(Mask::all(rows.len(), false)),
        (_, ValuePredicate::Not(test)) => return holds(array, rows, test, !wanted),
        (DataType::Dictionary(..), _) => by_key(array, rows, test, wanted)?,
        (_, ValuePredicate::Any(tests)) => {
            let mut mask = Mask::all(rows.len(), false);
            tests.iter().try_for_each(|test| passes(array, rows, test).map(|other| mask.or(&other)))?;
            mask
        }
        _ => passes(array, rows, test)?,
    };
    if !wanted && !matches!(array.data_type(), DataType::Dictionary(..)) {
        mask.flip();
    }
    if let Some(valid) = Mask::from_validity(array, rows) {
        mask.and(&valid);
    }
    Ok(mask)
}

/// Tests each value of the dictionary once, or the rows' values if those are fewer.
fn by_key(array: &ArrayData, rows: &Range<usize>, test: &ValuePredicate, wanted: bool) -> Result<Mask> {
    let dictionary = dictionary_of(array)?;
    let keys = Keys::new(array);
    if dictionary.len() > rows.len() {
        let mut failed = None;
        let mut found = |row: usize| {
            let key = keys.get(row).filter(|&key| key < dictionary.len())?;
            holds(dictionary, &(key..key + 1), test, wanted).map_err(|e| failed = Some(e)).ok()
        };
        let mask = Mask::collect(rows.len(), |row| {
            // Keys of null rows are meaningless.
            found(rows.start + row).is_some_and(|mask| mask.words[0] & 1 == 1)
        });
        return failed.map_or(Ok(mask), Err);
    }
    let passing = holds(dictionary, &(0..dictionary.len()), test, wanted)?;
    let mut table = vec![0u8; dictionary.len().max(256)];
    passing.rows().for_each(|key| table[key] = 1);
    let mut words = vec![0; rows.len().div_ceil(64)];
    match (keys, table.first_chunk::<256>()) {
        (Keys::Bytes(keys), Some(table)) => {
            look_up(keys.get(rows.clone()).unwrap_or_default(), |[key]| table[key as usize], &mut words);
        }
        (keys, _) => {
            let passes =
                |row: usize| keys.get(rows.start + row).and_then(|key| table.get(key)).is_some_and(|&one| one == 1);
            words = Mask::collect(rows.len(), passes).words;
        }
    }
    Ok(Mask { words, len: rows.len() })
}

/// The rows whose value, null or not, passes a test.
fn passes(array: &ArrayData, rows: &Range<usize>, test: &ValuePredicate) -> Result<Mask> {
    use DataType::*;
    let mut mask = Mask::all(rows.len(), false);
    match (test, array.data_type()) {
        (ValuePredicate::Never, _) => {}
        (ValuePredicate::Text(operator, bytes), _) => return texts(&Texts::try_new(array)?, rows, *operator, bytes),
        (ValuePredicate::Texts(wanted), _) => return one_of(&Texts::try_new(array)?, rows, wanted),
        (ValuePredicate::Integers(wanted), _) => return one_integer_of(array, rows, wanted),
        (ValuePredicate::OneOfFloats(wanted), _) => {
            let found = load_floats(array, rows, false)?.each(rows.len());
            return Ok(Mask::collect(rows.len(), |row| has_float(wanted, found[row])));
        }
        (ValuePredicate::Matches(wanted), _) => return matching(&Texts::try_new(array)?, rows, wanted),
        (ValuePredicate::Range(low, high), Boolean) => {
            let bits = Bits::new(array);
            let low = *low <= i256::ZERO;
            let high = *high >= i256::ONE;
            return Ok(Mask::collect(rows.len(), |row| if bits.get(rows.start + row) { high } else { low }));
        }
        (ValuePredicate::Range(low, high), data_type) => {
            integers(array, data_type, rows, (*low, *high), &mut mask.words)?
        }
        (ValuePredicate::Floats(low, high), Float64) => inside(values(array, rows), *low, *high, &mut mask.words),
        (ValuePredicate::Floats(low, high), Float32) => {
            inside(values(array, rows), *low as f32, *high as f32, &mut mask.words)
        }
        (ValuePredicate::Floats(low, high), Float16) => {
            let low = f16::from_f64(*low);
            let high = f16::from_f64(*high);
            inside(values(array, rows), low, high, &mut mask.words);
        }
        (_, other) => return Err(unsupported(other)),
    }
    Ok(mask)
}

fn unsupported(data_type: &DataType) -> Error {
    Error::unsupported(format!("comparing values of type {} is not supported", type_name(data_type)))
}

fn values<'a, const N: usize>(array: &'a ArrayData, rows: &Range<usize>) -> &'a [[u8; N]] {
    fixed_values(array).get(rows.clone()).unwrap_or_default()
}

fn integers(
    array: &ArrayData,
    data_type: &DataType,
    rows: &Range<usize>,
    (low, high): (i256, i256),
    words: &mut [u64],
) -> Result<()> {
    use DataType::*;
    // Bounds are already clamped to the type.
    let long = |limit: i256| limit.as_i128();
    let from = long(low);
    let to = long(high);
    match data_type {
        Int8 => inside(values(array, rows), from as i8, to as i8, words),
        UInt8 => inside(values(array, rows), from as u8, to as u8, words),
        Int16 => inside(values(array, rows), from as i16, to as i16, words),
        UInt16 => inside(values(array, rows), from as u16, to as u16, words),
        Int32 | Date32 | Time32(_) | Decimal32(..) => inside(values(array, rows), from as i32, to as i32, words),
        UInt32 => inside(values(array, rows), from as u32, to as u32, words),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            inside(values(array, rows), from as i64, to as i64, words);
        }
        UInt64 => inside(values(array, rows), from as u64, to as u64, words),
        Decimal128(..) => inside(values(array, rows), from, to, words),
        Decimal256(..) => inside(values(array, rows), low, high, words),
        other => return Err(unsupported(other)),
    }
    Ok(())
}

/// The rows whose number is one of `wanted`, which are in order.
fn one_integer_of(array: &ArrayData, rows: &Range<usize>, wanted: &[i256]) -> Result<Mask> {
    let is_wanted = |number: i256| wanted.binary_search(&number).is_ok();
    let narrow = |number: i128| is_wanted(i256::from_i128(number));
    let of_raw = |is: &dyn Fn(usize) -> Option<bool>| Mask::collect(rows.len(), |row| is(row).unwrap_or(false));
    Ok(match array.data_type() {
        DataType::Decimal256(..) => of_raw(&|row| Some(is_wanted(i256::load(*values(array, rows).get(row)?)))),
        DataType::Decimal128(..) => of_raw(&|row| Some(narrow(i128::load(*values(array, rows).get(row)?)))),
        DataType::UInt64 => of_raw(&|row| Some(narrow(u64::load(*values(array, rows).get(row)?).into()))),
        _ => {
            let found = load_integers(array, rows)?.each(rows.len());
            Mask::collect(rows.len(), |row| narrow(found[row].into()))
        }
    })
}

/// The rows whose number is within inclusive bounds, a bit each.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn inside<T: Number<N>, const N: usize>(values: &[[u8; N]], low: T, high: T, words: &mut [u64]) {
    let is_inside = |raw: [u8; N]| {
        let value = T::load(raw);
        u8::from(value >= low) & u8::from(value <= high)
    };
    let (whole, rest) = values.as_chunks::<64>();
    for (values, word) in whole.iter().zip(words.iter_mut()) {
        let mut bytes = [0u8; 64];
        for row in 0..64 {
            bytes[row] = is_inside(values[row]);
        }
        *word = pack_bits(&bytes);
    }
    if let Some(last) = words.get_mut(whole.len()) {
        *last = rest.iter().enumerate().fold(0, |word, (row, raw)| word | u64::from(is_inside(*raw)) << row);
    }
}

fn look_up(keys: &[[u8; 1]], passes: impl Fn([u8; 1]) -> u8, words: &mut [u64]) {
    let mut bytes = [0u8; 64];
    for (keys, word) in keys.chunks(64).zip(words) {
        bytes[keys.len()..].fill(0);
        bytes.iter_mut().zip(keys).for_each(|(byte, key)| *byte = passes(*key));
        *word = pack_bits(&bytes);
    }
}

/// Packs the lowest bits of 64 bytes of 0 or 1, eight at a time: the multiplication moves each to the top.
#[inline(always)]
pub(in crate::compute) fn pack_bits(bytes: &[u8; 64]) -> u64 {
    let eights = bytes.as_chunks::<8>().0.iter().enumerate();
    eights.fold(0, |word, (i, eight)| {
        let top = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word | top << (8 * i)
    })
}

fn texts(texts: &Texts<'_>, rows: &Range<usize>, operator: Operator, wanted: &[u8]) -> Result<Mask> {
    match operator {
        Operator::Eq => equal(texts, rows, wanted),
        Operator::Ne => equal(texts, rows, wanted).map(|mut mask| {
            mask.flip();
            mask
        }),
        other => each_text(texts, rows, |bytes| other.holds(bytes.cmp(wanted))),
    }
}

/// Texts of a wanted length that are looked at one by one, of 64.
const FEW: u32 = 16;

fn equal(texts: &Texts<'_>, rows: &Range<usize>, wanted: &[u8]) -> Result<Mask> {
    let is_equal = |bytes: &[u8]| bytes == wanted;
    let ((wanted_len, number), all) = (short(wanted), byte_mask(wanted.len().min(15)));
    let word = |rows: Range<usize>| match texts.rows_of_length(rows.clone(), wanted_len).map(|found| pack_bits(&found))
    {
        Some(same) if same.count_ones() <= FEW => some_texts(texts, rows.start, same, is_equal),
        _ if wanted_len < 16 => head_word(texts, rows, |len, head| len == wanted_len && head & all == number),
        _ => text_word(texts, rows, is_equal),
    };
    in_words(texts, rows, word, is_equal)
}

/// The numbers of the set bits, from the lowest on.
#[inline(always)]
pub(super) fn set_bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

fn matching(texts: &Texts<'_>, rows: &Range<usize>, wanted: &TextMatcher) -> Result<Mask> {
    match wanted {
        TextMatcher::StartsWith(text) if text.len() < 16 => {
            let ((wanted_len, number), all) = (short(text), byte_mask(text.len()));
            let starts = |len: usize, head: u128| len >= wanted_len && head & all == number;
            in_words(texts, rows, |rows| head_word(texts, rows, starts), |bytes| bytes.starts_with(text))
        }
        TextMatcher::StartsWith(text) => each_text(texts, rows, |bytes| bytes.starts_with(text)),
        TextMatcher::EndsWith(text) => each_text(texts, rows, |bytes| bytes.ends_with(text)),
        TextMatcher::Contains(finder) => each_text(texts, rows, |bytes| finder.find(bytes).is_some()),
        TextMatcher::Pattern(pattern) => each_text(texts, rows, |bytes| pattern.is_in(bytes)),
    }
}

/// The rows whose text is one of `wanted`.
fn one_of(texts: &Texts<'_>, rows: &Range<usize>, wanted: &TextSet) -> Result<Mask> {
    let is_wanted = |bytes: &[u8]| wanted.contains(bytes);
    let word = |rows: Range<usize>| {
        let possible = match texts.rows_of_lengths(rows.clone(), wanted.lengths).map(|found| pack_bits(&found)) {
            Some(same) if same.count_ones() <= FEW => same,
            _ => head_word(texts, rows.clone(), |len, head| wanted.may_contain(len, head))?,
        };
        some_texts(texts, rows.start, possible, is_wanted)
    };
    in_words(texts, rows, word, is_wanted)
}

/// The bits of `possible`, of the rows from `start` on, whose texts pass.
fn some_texts(texts: &Texts<'_>, start: usize, possible: u64, passes: impl Fn(&[u8]) -> bool) -> Result<u64> {
    set_bits(possible).try_fold(0, |word, bit| {
        let is_set = texts.get(start + bit).map(&passes)?;
        Ok(word | u64::from(is_set) << bit)
    })
}

/// The rows whose text passes; of nulls any.
#[inline(always)]
fn each_text(texts: &Texts<'_>, rows: &Range<usize>, passes: impl Fn(&[u8]) -> bool) -> Result<Mask> {
    in_words(texts, rows, |rows| text_word(texts, rows, &passes), &passes)
}

/// A bit for each of up to 64 rows, by the bytes of its text.
#[inline(always)]
fn text_word(texts: &Texts<'_>, rows: Range<usize>, passes: impl Fn(&[u8]) -> bool) -> Result<u64> {
    let (mut word, mut bit) = (0, 0);
    texts.each(rows, |bytes| {
        word |= u64::from(passes(bytes)) << bit;
        bit += 1;
    })?;
    Ok(word)
}

/// The same by the length of each text and its first bytes.
#[inline(always)]
fn head_word(texts: &Texts<'_>, rows: Range<usize>, passes: impl Fn(usize, u128) -> bool) -> Result<u64> {
    let (mut word, mut bit) = (0, 0);
    texts.each_head(rows, |len, head| {
        word |= u64::from(passes(len, head)) << bit;
        bit += 1;
    })?;
    Ok(word)
}

/// The bits of `rows`, 64 at a time by `word`. It fails where something under nulls is no text, of which `passes` is not asked.
#[inline(always)]
fn in_words(
    texts: &Texts<'_>,
    rows: &Range<usize>,
    word: impl Fn(Range<usize>) -> Result<u64>,
    passes: impl Fn(&[u8]) -> bool,
) -> Result<Mask> {
    let one_by_one = |rows: Range<usize>| {
        let is_set = |row| if texts.is_null(row) { Ok(false) } else { texts.get(row).map(&passes) };
        rows.enumerate().try_fold(0, |word, (bit, row)| Ok(word | u64::from(is_set(row)?) << bit))
    };
    let part = |start: usize| start..rows.end.min(start + 64);
    let found = |start| word(part(start)).or_else(|_| one_by_one(part(start)));
    Ok(Mask { words: rows.clone().step_by(64).map(found).collect::<Result<_>>()?, len: rows.len() })
}
