//! Finds the rows of an array whose values pass a test.
//!
//! A test of a value is true, false, or unknown if the value is null. A bitmap can't have three states, so functions
//! are asked for the rows of one [`Outcome`]; the rows of neither are the unknown ones.
//!
//! Rows are tested a word at a time, so that most tests are loops over 64 rows without branches.

use std::ops::Range;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;
use multiversion::multiversion;

use super::compare::has_float;
use super::compare_integers::limits;
use super::computed::{FloatWidth, load_floats, load_integers};
use super::literal::Operator;
use super::text_set::TextSet;
use super::value_predicate::{TextMatcher, ValuePredicate};
use crate::array::access::{BYTE_KEYS, Bits, Keys, MAX_SHORT_TEXT, Texts, byte_mask, dictionary_of, short};
use crate::compute::scan::{Number, values_in};
use crate::compute::selection::{Mask, pack_bits, set_bits};
use crate::error::{Error, Result};
use crate::types::type_name;

/// The number of rows whose bits are in one word of a mask.
const WORD: usize = u64::BITS as usize;

/// The outcome that rows are selected by. Rows whose outcome is unknown, as a value is null, have neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    True,
    False,
}

impl Outcome {
    /// Returns the outcome of the negation of a test with this outcome.
    pub(super) fn negated(self) -> Outcome {
        match self {
            Outcome::True => Outcome::False,
            Outcome::False => Outcome::True,
        }
    }
}

/// Returns the rows for which the test has the outcome `wanted`.
pub(super) fn test_rows(
    array: &ArrayData,
    rows: &Range<usize>,
    test: &ValuePredicate,
    wanted: Outcome,
) -> Result<Mask> {
    let mut mask = match (array.data_type(), test) {
        (_, ValuePredicate::Unknown) => return Ok(Mask::all(rows.len(), false)),
        (_, ValuePredicate::Not(test)) => return test_rows(array, rows, test, wanted.negated()),
        (DataType::Dictionary(..), _) => by_key(array, rows, test, wanted)?,
        (_, ValuePredicate::Any(tests)) => {
            let mut mask = Mask::all(rows.len(), false);
            for test in tests {
                mask.or(&passes(array, rows, test)?);
            }
            mask
        }
        _ => passes(array, rows, test)?,
    };
    // The mask of a dictionary already has the wanted rows.
    if wanted == Outcome::False && !matches!(array.data_type(), DataType::Dictionary(..)) {
        mask.flip();
    }
    if let Some(valid) = Mask::from_validity(array, rows) {
        mask.and(&valid);
    }
    Ok(mask)
}

/// Does [`test_rows`] for a dictionary: tests each of its values once, or the values of the rows if those are fewer.
/// The bits of null rows are arbitrary.
fn by_key(array: &ArrayData, rows: &Range<usize>, test: &ValuePredicate, wanted: Outcome) -> Result<Mask> {
    let dictionary = dictionary_of(array)?;
    let keys = Keys::new(array);
    if dictionary.len() > rows.len() {
        let mut mask = Mask::all(rows.len(), false);
        for row in 0..rows.len() {
            // The keys of null rows are meaningless, and may be out of range.
            if let Some(key) = keys.get(rows.start + row)
                && key < dictionary.len()
                && test_rows(dictionary, &(key..key + 1), test, wanted)?.is_set(0)
            {
                mask.set(row);
            }
        }
        return Ok(mask);
    }

    let passing = test_rows(dictionary, &(0..dictionary.len()), test, wanted)?;
    let mut table = vec![0u8; dictionary.len().max(BYTE_KEYS)];
    passing.rows().for_each(|key| table[key] = 1);
    match (keys, table.first_chunk::<BYTE_KEYS>()) {
        (Keys::Bytes(keys), Some(table)) => {
            debug_assert!(rows.end <= keys.len(), "rows {rows:?} of {} keys", keys.len());
            let mut words = vec![0; rows.len().div_ceil(WORD)];
            test_byte_keys(keys.get(rows.clone()).unwrap_or(&[]), table, &mut words);
            Ok(Mask::from_words(words, rows.len()))
        }
        (keys, _) => Ok(Mask::collect(rows.len(), |row| {
            keys.get(rows.start + row).and_then(|key| table.get(key)).is_some_and(|&passes| passes == 1)
        })),
    }
}

/// Returns the rows whose value passes a test. The bits of null rows are arbitrary.
fn passes(array: &ArrayData, rows: &Range<usize>, test: &ValuePredicate) -> Result<Mask> {
    use DataType::*;
    let mut mask = Mask::all(rows.len(), false);
    match (test, array.data_type()) {
        (ValuePredicate::Never, _) => {}
        (ValuePredicate::Text(operator, bytes), _) => return texts(&Texts::try_new(array)?, rows, *operator, bytes),
        (ValuePredicate::Texts(wanted), _) => return one_of(&Texts::try_new(array)?, rows, wanted),
        (ValuePredicate::Integers(wanted), _) => return one_integer_of(array, rows, wanted),
        (ValuePredicate::OneOfFloats(wanted), _) => {
            let numbers = load_floats(array, rows, FloatWidth::F64)?.into_vec(rows.len());
            return Ok(Mask::collect(rows.len(), |row| has_float(wanted, numbers[row])));
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
    values_in(array, rows.clone())
}

fn integers(
    array: &ArrayData,
    data_type: &DataType,
    rows: &Range<usize>,
    (low, high): (i256, i256),
    words: &mut [u64],
) -> Result<()> {
    use DataType::*;
    debug_assert!(limits(data_type).0 <= low && high <= limits(data_type).1, "the bounds are not clamped to the type");
    let from = low.as_i128();
    let to = high.as_i128();
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

/// Returns the rows whose number is one of `wanted`, which are in order.
fn one_integer_of(array: &ArrayData, rows: &Range<usize>, wanted: &[i256]) -> Result<Mask> {
    debug_assert!(wanted.is_sorted());
    Ok(match array.data_type() {
        DataType::Decimal256(..) => one_value_of(values(array, rows), wanted, i256::load),
        DataType::Decimal128(..) => one_value_of(values(array, rows), wanted, |raw| i256::from_i128(i128::load(raw))),
        DataType::UInt64 => one_value_of(values(array, rows), wanted, |raw| i256::from_i128(u64::load(raw).into())),
        _ => {
            let numbers = load_integers(array, rows)?.into_vec(rows.len());
            Mask::collect(rows.len(), |row| wanted.binary_search(&i256::from_i128(numbers[row].into())).is_ok())
        }
    })
}

fn one_value_of<const N: usize>(values: &[[u8; N]], wanted: &[i256], number: impl Fn([u8; N]) -> i256) -> Mask {
    Mask::collect(values.len(), |row| wanted.binary_search(&number(values[row])).is_ok())
}

/// Sets a bit for each number within inclusive bounds, and clears the others.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn inside<T: Number<N>, const N: usize>(values: &[[u8; N]], low: T, high: T, words: &mut [u64]) {
    debug_assert!(values.len().div_ceil(WORD) == words.len(), "{} words for {} values", words.len(), values.len());
    let (whole, rest) = values.as_chunks::<WORD>();
    for (values, word) in whole.iter().zip(words.iter_mut()) {
        let mut bytes = [0u8; WORD];
        for row in 0..WORD {
            bytes[row] = is_inside(T::load(values[row]), low, high);
        }
        *word = pack_bits(&bytes);
    }
    if let Some(last) = words.get_mut(whole.len()) {
        *last = rest
            .iter()
            .enumerate()
            .fold(0, |word, (row, raw)| word | u64::from(is_inside(T::load(*raw), low, high)) << row);
    }
}

/// Returns 1 if a number is within inclusive bounds, and 0 if not; without a branch.
#[inline(always)]
fn is_inside<T: PartialOrd>(value: T, low: T, high: T) -> u8 {
    u8::from(value >= low) & u8::from(value <= high)
}

/// Sets a bit for each key whose byte in `table` is 1.
fn test_byte_keys(keys: &[[u8; 1]], table: &[u8; BYTE_KEYS], words: &mut [u64]) {
    let mut bytes = [0u8; WORD];
    for (keys, word) in keys.chunks(WORD).zip(words) {
        bytes[keys.len()..].fill(0);
        bytes.iter_mut().zip(keys).for_each(|(byte, [key])| *byte = table[usize::from(*key)]);
        *word = pack_bits(&bytes);
    }
}

/// Returns the rows whose text compares as `operator` says with `wanted`.
fn texts(texts: &Texts<'_>, rows: &Range<usize>, operator: Operator, wanted: &[u8]) -> Result<Mask> {
    match operator {
        Operator::Eq => equal_texts(texts, rows, wanted),
        Operator::Ne => {
            let mut mask = equal_texts(texts, rows, wanted)?;
            mask.flip();
            Ok(mask)
        }
        other => test_texts(texts, rows, |bytes| other.holds(bytes.cmp(wanted))),
    }
}

/// The maximum number of texts of a wanted length, among the rows of a word, that are compared one by one.
const MAX_SINGLE_TEXTS: u32 = 16;

/// Returns the rows whose text is `wanted`.
fn equal_texts(texts: &Texts<'_>, rows: &Range<usize>, wanted: &[u8]) -> Result<Mask> {
    let (wanted_len, wanted_head) = short(wanted);
    let head_mask = byte_mask(wanted.len().min(MAX_SHORT_TEXT));
    collect_words(
        texts,
        rows,
        |rows| match texts.rows_of_length(rows.clone(), wanted_len).map(|is_of_length| pack_bits(&is_of_length)) {
            Some(of_length) if of_length.count_ones() <= MAX_SINGLE_TEXTS => {
                test_some_texts(texts, rows.start, of_length, |bytes| bytes == wanted)
            }
            _ if wanted_len <= MAX_SHORT_TEXT => {
                test_heads(texts, rows, |len, head| len == wanted_len && head & head_mask == wanted_head)
            }
            _ => test_word_of_texts(texts, rows, |bytes| bytes == wanted),
        },
        |bytes| bytes == wanted,
    )
}

/// Returns the rows whose text matches `wanted`.
fn matching(texts: &Texts<'_>, rows: &Range<usize>, wanted: &TextMatcher) -> Result<Mask> {
    match wanted {
        TextMatcher::StartsWith(text) if text.len() <= MAX_SHORT_TEXT => {
            let (wanted_len, wanted_head) = short(text);
            let head_mask = byte_mask(text.len());
            collect_words(
                texts,
                rows,
                |rows| test_heads(texts, rows, |len, head| len >= wanted_len && head & head_mask == wanted_head),
                |bytes| bytes.starts_with(text),
            )
        }
        TextMatcher::StartsWith(text) => test_texts(texts, rows, |bytes| bytes.starts_with(text)),
        TextMatcher::EndsWith(text) => test_texts(texts, rows, |bytes| bytes.ends_with(text)),
        TextMatcher::Contains(finder) => test_texts(texts, rows, |bytes| finder.find(bytes).is_some()),
        TextMatcher::Pattern(pattern) => test_texts(texts, rows, |bytes| pattern.is_in(bytes)),
    }
}

/// Returns the rows whose text is one of `wanted`.
fn one_of(texts: &Texts<'_>, rows: &Range<usize>, wanted: &TextSet) -> Result<Mask> {
    collect_words(
        texts,
        rows,
        |rows| {
            let of_lengths =
                texts.rows_of_lengths(rows.clone(), wanted.lengths).map(|is_of_length| pack_bits(&is_of_length));
            let possible = match of_lengths {
                Some(of_lengths) if of_lengths.count_ones() <= MAX_SINGLE_TEXTS => of_lengths,
                _ => test_heads(texts, rows.clone(), |len, head| wanted.may_contain(len, head))?,
            };
            test_some_texts(texts, rows.start, possible, |bytes| wanted.contains(bytes))
        },
        |bytes| wanted.contains(bytes),
    )
}

/// Returns the bits of `possible`, for the rows from `start` on, whose texts pass.
fn test_some_texts(texts: &Texts<'_>, start: usize, possible: u64, passes: impl Fn(&[u8]) -> bool) -> Result<u64> {
    let mut word = 0;
    for bit in set_bits(possible) {
        word |= u64::from(passes(texts.get(start + bit)?)) << bit;
    }
    Ok(word)
}

/// Returns the rows whose text passes; the bits of nulls are arbitrary.
#[inline(always)]
fn test_texts(texts: &Texts<'_>, rows: &Range<usize>, passes: impl Fn(&[u8]) -> bool) -> Result<Mask> {
    collect_words(texts, rows, |rows| test_word_of_texts(texts, rows, &passes), &passes)
}

/// Returns a bit for each of up to 64 rows, by the bytes of its text.
#[inline(always)]
fn test_word_of_texts(texts: &Texts<'_>, rows: Range<usize>, passes: impl Fn(&[u8]) -> bool) -> Result<u64> {
    debug_assert!(rows.len() <= WORD);
    let (mut word, mut bit) = (0, 0);
    texts.each(rows, |bytes| {
        word |= u64::from(passes(bytes)) << bit;
        bit += 1;
    })?;
    Ok(word)
}

/// Returns a bit for each of up to 64 rows, by the length of its text and its first bytes.
#[inline(always)]
fn test_heads(texts: &Texts<'_>, rows: Range<usize>, passes: impl Fn(usize, u128) -> bool) -> Result<u64> {
    debug_assert!(rows.len() <= WORD);
    let (mut word, mut bit) = (0, 0);
    texts.each_head(rows, |len, head| {
        word |= u64::from(passes(len, head)) << bit;
        bit += 1;
    })?;
    Ok(word)
}

/// Returns the bits of `rows`, which `word` computes for 64 rows at a time. If it fails, as nulls may have bytes that
/// are no text, `passes` tests the texts that are not null.
#[inline(always)]
fn collect_words(
    texts: &Texts<'_>,
    rows: &Range<usize>,
    word: impl Fn(Range<usize>) -> Result<u64>,
    passes: impl Fn(&[u8]) -> bool,
) -> Result<Mask> {
    let mut words = Vec::with_capacity(rows.len().div_ceil(64));
    for start in rows.clone().step_by(64) {
        let word_rows = start..rows.end.min(start + 64);
        words.push(match word(word_rows.clone()) {
            Ok(word) => word,
            Err(_) => test_valid_texts(texts, word_rows, &passes)?,
        });
    }
    Ok(Mask::from_words(words, rows.len()))
}

/// Returns a bit for each of up to 64 rows, by the bytes of its text; false for nulls.
fn test_valid_texts(texts: &Texts<'_>, rows: Range<usize>, passes: impl Fn(&[u8]) -> bool) -> Result<u64> {
    let mut word = 0;
    for (bit, row) in rows.enumerate() {
        if !texts.is_null(row) {
            word |= u64::from(passes(texts.get(row)?)) << bit;
        }
    }
    Ok(word)
}
