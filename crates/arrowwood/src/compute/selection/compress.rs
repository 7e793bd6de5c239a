//! Copies the rows that a mask selects: consecutive ones together, others one by one.

use arrow_buffer::Buffer;
use multiversion::multiversion;

use super::mask::{SelectedRows, set_bits};
use crate::array::build_buffer;
use crate::error::Result;

/// Copies the `count` values of `width` bytes that the spans select. Returns `None` for uncommon widths, and if there
/// are fewer values than bits.
pub(in crate::compute) fn values(
    width: usize,
    from: &[&[u8]],
    spans: &[SelectedRows],
    count: usize,
) -> Result<Option<Buffer>> {
    match width {
        1 => values_of::<1>(from, spans, count),
        2 => values_of::<2>(from, spans, count),
        4 => values_of::<4>(from, spans, count),
        8 => values_of::<8>(from, spans, count),
        16 => values_of::<16>(from, spans, count),
        _ => Ok(None),
    }
}

fn values_of<const N: usize>(from: &[&[u8]], spans: &[SelectedRows], count: usize) -> Result<Option<Buffer>> {
    let mut written = 0;
    let mut has_all_values = true;
    let buffer = build_buffer(count * N, |out| {
        let out = out.as_chunks_mut::<N>().0;
        assert!(out.len() == count, "a buffer for {} of {count} values", out.len());
        for span in spans {
            let values = from.get(span.part as usize).and_then(|bytes| bytes.as_chunks::<N>().0.get(span.rows.clone()));
            let Some(values) = values else {
                has_all_values = false;
                break;
            };
            written += compress(values, &span.mask.words, &mut out[written..]);
        }
        Ok(())
    })?;
    // A buffer with unwritten bytes is dropped.
    Ok((has_all_values && written == count).then_some(buffer))
}

/// Copies the values whose bits are set; returns their number.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+bmi1+bmi2", "x86_64+avx2+bmi1+bmi2", "aarch64+neon"))]
fn compress<const N: usize>(values: &[[u8; N]], words: &[u64], out: &mut [[u8; N]]) -> usize {
    debug_assert!(values.len().div_ceil(WORD) == words.len(), "{} words for {} values", words.len(), values.len());
    let mut written = 0;
    for (values, &word) in values.chunks(WORD).zip(words) {
        if word == 0 {
            continue;
        }
        let out = &mut out[written..];
        written += match (values.first_chunk::<WORD>(), out.first_chunk_mut::<WORD>()) {
            (Some(values), Some(out)) => compress_word(values, word, out),
            _ => compress_few(values, word, out),
        };
    }
    written
}

/// The number of rows whose bits are in one word of a mask.
const WORD: usize = u64::BITS as usize;
/// The maximum number of values of a word's rows that are copied one by one: the others may be in cache lines that need
/// not be read.
const MAX_SINGLE_COPIES: usize = 16;

/// Copies the selected values of a word's rows to `out`, which has space for all of them. If many are selected, each
/// value is written, and is overwritten by the next unless its bit is set.
#[inline(always)]
fn compress_word<const N: usize>(values: &[[u8; N]; WORD], word: u64, out: &mut [[u8; N]; WORD]) -> usize {
    let count = word.count_ones() as usize;
    if count <= MAX_SINGLE_COPIES {
        return compress_few(values, word, out);
    }
    let first = word.trailing_zeros() as usize;
    let end = WORD - word.leading_zeros() as usize;
    if end - first == count {
        out[..count].copy_from_slice(&values[first..end]);
        return count;
    }
    let mut written = 0;
    for (row, value) in values.iter().enumerate() {
        out[written % WORD] = *value;
        written += (word >> row & 1) as usize;
    }
    debug_assert_eq!(written, count);
    count
}

/// Copies the values whose bits are set, one by one, as far as `out` has space. Returns their number.
#[inline(always)]
fn compress_few<const N: usize>(values: &[[u8; N]], word: u64, out: &mut [[u8; N]]) -> usize {
    let set = set_bits(word).map_while(|row| values.get(row));
    set.zip(out).map(|(value, out)| *out = *value).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{Bytes, Dataset, Format, OpenOptions, WriteOptions, col, write_to};
    use arrow_array::types::UInt16Type;
    use arrow_array::*;
    use std::sync::Arc;

    /// Returns columns of every width in a stream of batches, whose values are read in place.
    fn stream(rows: &[(u16, bool)], cuts: &[usize]) -> Dataset {
        let number = || rows.iter().map(|&(number, _)| number % 5);
        let words = Arc::new(StringArray::from(vec!["a", "b", "", "fig", "pear"]));
        let columns: [(&str, ArrayRef); 7] = [
            ("keep", Arc::new(UInt8Array::from_iter_values(rows.iter().map(|&(_, keep)| u8::from(keep))))),
            ("narrow", Arc::new(Int8Array::from_iter_values(number().map(|n| n as i8)))),
            ("half", Arc::new(UInt16Array::from_iter_values(number()))),
            ("word", Arc::new(Float32Array::from_iter_values(number().map(f32::from)))),
            ("wide", Arc::new(Decimal128Array::from_iter_values(number().map(i128::from)))),
            ("key", Arc::new(DictionaryArray::<UInt16Type>::new(UInt16Array::from_iter_values(number()), words))),
            ("null", Arc::new(number().map(|n| (n > 0).then_some(i64::from(n))).collect::<Int64Array>())),
        ];
        let all_rows =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (rows.len() + 1)).chain([0, rows.len()]).collect();
        ends.sort_unstable();
        let batches = ends.windows(2).map(|ends| all_rows.slice(ends[0], ends[1] - ends[0]));
        let dataset = Dataset::try_from(batches.collect::<Vec<_>>()).unwrap();
        let mut bytes = Vec::new();
        write_to(&dataset, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
        OpenOptions::new().bytes(Bytes::from(bytes)).unwrap()
    }

    fn row(row: crate::Row<'_>) -> Vec<String> {
        row.iter().map(|(_, value)| value.unwrap().to_string()).collect()
    }

    proptest! {
        #[test]
        fn rows_copied_from_a_stream_equal_rows_read_in_place(
            runs in prop::collection::vec((any::<u16>(), any::<bool>(), 1usize..90), 1..30),
            cuts in prop::collection::vec(any::<usize>(), 0..5),
            start in 0u64..70,
        ) {
            let row_of_run = |n: u16, keep: bool, i: usize| (n.wrapping_add(i as u16 % 3), keep != (i % 40 == 7));
            let rows_of_run = |&(n, keep, count): &(u16, bool, usize)| (0..count).map(move |i| row_of_run(n, keep, i));
            let rows: Vec<_> = runs.iter().flat_map(rows_of_run).collect();
            let dataset = stream(&rows, &cuts).slice(start, rows.len() as u64).unwrap();
            let all: Vec<_> = dataset.rows().map(|found| row(found.unwrap())).collect();
            let filtered = dataset.filter(&col("keep").eq(1)).unwrap();
            filtered.validate(|_, _| ()).unwrap();
            let expected: Vec<_> = all.iter().filter(|row| row[0] == "1").cloned().collect();
            prop_assert_eq!(filtered.rows().map(|found| row(found.unwrap())).collect::<Vec<_>>(), expected);
            let places: Vec<i64> = (0..all.len() as i64).map(|i| i * 7919 % all.len() as i64).collect();
            let taken = dataset.take(&places).unwrap();
            let expected: Vec<_> = places.iter().map(|&place| all[place as usize].clone()).collect();
            prop_assert_eq!(taken.rows().map(|found| row(found.unwrap())).collect::<Vec<_>>(), expected);
        }
    }
}
