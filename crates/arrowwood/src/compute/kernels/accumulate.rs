//! Accumulates sums, extremes and moments of groups.
//!
//! A row's value is added to one of four lanes of its group, by row number, so that neighbours in one group don't
//! depend on each other; lanes are merged at the end of a block. Excluded rows go to group 0.

use std::ops::Range;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;
use multiversion::multiversion;

use crate::array::access::{Bits, dictionary_of, entry_lookup};
use crate::array::gather::{Pick, gather};
use crate::array::{UncheckedArray, decimal_to_f64, nulls, room_for};
use crate::compute::scan::values_in;
use crate::compute::selection::{Mask, pack_bits};
use crate::error::{Error, Result};

/// The number of lanes of a group.
pub(in crate::compute) const LANES: usize = 4;

/// The group of excluded rows.
pub(in crate::compute) const OUT: u32 = 0;

/// The group of all rows, where rows are not grouped.
pub(in crate::compute) const ONLY_GROUP: u32 = 1;

/// Rows are mostly excluded if fewer than one in so many is included.
const ROWS_PER_INCLUDED_ROW: usize = 4;

/// The rows of a block that lie in one batch, with their groups.
pub(in crate::compute) struct GroupedRows<'a> {
    pub array: &'a ArrayData,
    pub rows: Range<usize>,
    /// The group of each row: [`OUT`], or a number from 1.
    pub ids: &'a [u32],
    /// The lane of the first row, which depends on its position in the block.
    pub lane: usize,
    /// True if a condition excludes many of the rows.
    pub is_sparse: bool,
}

impl<'a> GroupedRows<'a> {
    /// Returns the values of the rows, nulls included.
    pub(super) fn values<const N: usize>(&self) -> &'a [[u8; N]] {
        values_in(self.array, self.rows.clone())
    }

    /// Calls `work` with the group of each row, which is [`OUT`] for nulls.
    pub(super) fn with_ids<T>(&self, work: impl FnOnce(&[u32]) -> T) -> T {
        debug_assert_eq!(self.ids.len(), self.rows.len());
        let Some(valid) = Mask::from_validity(self.array, &self.rows) else { return work(self.ids) };
        let mut ids = self.ids.to_vec();
        for (row, id) in ids.iter_mut().enumerate() {
            if !valid.is_set(row) {
                *id = OUT;
            }
        }
        work(&ids)
    }

    /// Returns true if most rows are known to be excluded.
    fn is_mostly_excluded(&self) -> bool {
        self.is_sparse && self.ids.iter().filter(|&&id| id != OUT).count() < self.ids.len() / ROWS_PER_INCLUDED_ROW
    }
}

/// Returns true if values of the type, or of the dictionary's values, can be added and averaged: numbers, decimals and
/// booleans.
pub(in crate::compute) fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => !matches!(**values, DataType::Dictionary(..)) && is_number(values),
        other => other.is_numeric() || *other == DataType::Boolean,
    }
}

/// Counts the rows of each group; `counts` has `lanes` lanes per group.
pub(in crate::compute) fn count_by_group(ids: &[u32], lane: usize, lanes: usize, counts: &mut [u64]) {
    debug_assert!(lanes > 0 && counts.len().is_multiple_of(lanes));
    for (row, &id) in ids.iter().enumerate() {
        if let Some(count) = counts.get_mut(id as usize * lanes + (lane + row) % lanes) {
            *count += 1;
        }
    }
}

/// Adds floats to the sums of their groups' lanes, and ones to the counts, in a single addition of two floats.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn add_f64(ids: &[u32], values: &[[u8; 8]], lane: usize, sums: &mut [[f64; 2]]) {
    add_each(ids, values, lane, sums, f64::from_le_bytes);
}

/// Does [`add_f64`] for values of `N` bytes, which `number` converts.
#[inline(always)]
fn add_each<const N: usize>(
    ids: &[u32],
    values: &[[u8; N]],
    lane: usize,
    sums: &mut [[f64; 2]],
    number: impl Fn([u8; N]) -> f64,
) {
    debug_assert!(lane < LANES && ids.len() == values.len());
    let groups = sums.as_chunks_mut::<LANES>().0;
    // Starts at the first lane, so that the lanes of each step are known.
    let head = ((LANES - lane) % LANES).min(ids.len()).min(values.len());
    let (head_ids, ids) = ids.split_at(head);
    let (head_values, values) = values.split_at(head);
    for (row, (&id, &raw)) in head_ids.iter().zip(head_values).enumerate() {
        add_to_lane(groups, id, lane + row, number(raw));
    }
    let (ids, tail_ids) = ids.as_chunks::<LANES>();
    let (values, tail_values) = values.as_chunks::<LANES>();
    for (ids, values) in ids.iter().zip(values) {
        for lane in 0..LANES {
            add_to_lane(groups, ids[lane], lane, number(values[lane]));
        }
    }
    for (lane, (&id, &raw)) in tail_ids.iter().zip(tail_values).enumerate() {
        add_to_lane(groups, id, lane, number(raw));
    }
}

/// Adds a number, and one to the count, if there is such a group.
#[inline(always)]
fn add_to_lane(groups: &mut [[[f64; 2]; LANES]], id: u32, lane: usize, number: f64) {
    if let Some(group) = groups.get_mut(id as usize) {
        group[lane] = [group[lane][0] + number, group[lane][1] + 1.0];
    }
}

/// Adds numbers of any type as floats.
pub(in crate::compute) fn add_floats(rows: &GroupedRows<'_>, sums: &mut [[f64; 2]]) -> Result<()> {
    // Excluded rows wait for each other less where their group has lanes. If most rows are excluded, it is faster to
    // skip them.
    if rows.array.data_type() == &DataType::Float64 && !rows.is_mostly_excluded() {
        rows.with_ids(|ids| add_f64(ids, rows.values(), rows.lane, sums));
        return Ok(());
    }
    for_each_float(rows, |id, lane, number| {
        if let Some(sum) = sums.get_mut(id as usize * LANES + lane) {
            *sum = [sum[0] + number, sum[1] + 1.0];
        }
    })
}

/// Adds squared distances from the means of the groups; `squares` has `lanes` lanes per group.
pub(in crate::compute) fn add_squares(
    rows: &GroupedRows<'_>,
    means: &[f64],
    lanes: usize,
    squares: &mut [f64],
) -> Result<()> {
    debug_assert!(squares.len() == means.len() * lanes, "{} lanes of {} groups", squares.len(), means.len());
    for_each_float(rows, |id, lane, number| {
        if let (Some(mean), Some(sum)) = (means.get(id as usize), squares.get_mut(id as usize * lanes + lane % lanes)) {
            *sum += (number - mean) * (number - mean);
        }
    })
}

/// Calls `work` with group, lane and the result of `number` for the `N` bytes of each row.
fn for_each_value<const N: usize, T>(
    rows: &GroupedRows<'_>,
    work: &mut impl FnMut(u32, usize, T),
    number: impl Fn([u8; N]) -> T,
) {
    let lane = rows.lane;
    let mut first = 0;
    rows.with_ids(|ids| {
        for (ids, values) in ids.chunks(AT_ONCE).zip(rows.values::<N>().chunks(AT_ONCE)) {
            let mut left = if rows.is_sparse { included_rows(ids) } else { u64::MAX };
            if left.count_ones() > MAX_SELECTED {
                for (row, (&id, &raw)) in ids.iter().zip(values).enumerate() {
                    work(id, (lane + first + row) % LANES, number(raw));
                }
            } else {
                // Each value of an excluded row would wait for the one before it, as both go to one group.
                while left != 0 {
                    let row = left.trailing_zeros() as usize;
                    left &= left - 1;
                    if let (Some(&id), Some(&raw)) = (ids.get(row), values.get(row)) {
                        work(id, (lane + first + row) % LANES, number(raw));
                    }
                }
            }
            first += ids.len();
        }
    });
}

/// The number of rows that are examined together, a bit for each.
const AT_ONCE: usize = u64::BITS as usize;
/// The maximum number of included rows among [`AT_ONCE`] that are picked one by one; if there are more, excluded rows
/// are added to their group as well.
const MAX_SELECTED: u32 = 48;

/// Returns a bit for each row that is in a group.
#[inline(always)]
fn included_rows(ids: &[u32]) -> u64 {
    debug_assert!(ids.len() <= AT_ONCE);
    let mut bytes = [0; AT_ONCE];
    bytes.iter_mut().zip(ids).for_each(|(byte, &id)| *byte = u8::from(id != OUT));
    pack_bits(&bytes)
}

/// Calls `work` with group, lane and number of each row, the number as the nearest float.
pub(in crate::compute) fn for_each_float(rows: &GroupedRows<'_>, mut work: impl FnMut(u32, usize, f64)) -> Result<()> {
    use DataType::*;
    let work = &mut work;
    match rows.array.data_type() {
        Float64 => for_each_value::<8, _>(rows, work, f64::from_le_bytes),
        Float32 => for_each_value::<4, _>(rows, work, |raw| f32::from_le_bytes(raw).into()),
        Float16 => for_each_value::<2, _>(rows, work, |raw| f16::from_le_bytes(raw).to_f64()),
        Int8 => for_each_value::<1, _>(rows, work, |raw| i8::from_le_bytes(raw).into()),
        UInt8 => for_each_value::<1, _>(rows, work, |raw| raw[0].into()),
        Int16 => for_each_value::<2, _>(rows, work, |raw| i16::from_le_bytes(raw).into()),
        UInt16 => for_each_value::<2, _>(rows, work, |raw| u16::from_le_bytes(raw).into()),
        Int32 => for_each_value::<4, _>(rows, work, |raw| i32::from_le_bytes(raw).into()),
        UInt32 => for_each_value::<4, _>(rows, work, |raw| u32::from_le_bytes(raw).into()),
        Int64 => for_each_value::<8, _>(rows, work, |raw| i64::from_le_bytes(raw) as f64),
        UInt64 => for_each_value::<8, _>(rows, work, |raw| u64::from_le_bytes(raw) as f64),
        Decimal32(_, s) => {
            for_each_value::<4, _>(rows, work, |raw| narrow_decimal_to_f64(i32::from_le_bytes(raw).into(), *s))
        }
        Decimal64(_, s) => {
            for_each_value::<8, _>(rows, work, |raw| narrow_decimal_to_f64(i64::from_le_bytes(raw).into(), *s))
        }
        Decimal128(_, s) => {
            for_each_value::<16, _>(rows, work, |raw| narrow_decimal_to_f64(i128::from_le_bytes(raw), *s))
        }
        Decimal256(_, s) => for_each_value::<32, _>(rows, work, |raw| decimal_to_f64(i256::from_le_bytes(raw), *s)),
        Boolean => {
            let bits = Bits::new(rows.array);
            let start = rows.rows.start;
            rows.with_ids(|ids| {
                for (row, &id) in ids.iter().enumerate() {
                    work(id, (rows.lane + row) % LANES, f64::from(u8::from(bits.get(start + row))));
                }
            });
        }
        other => return Err(Error::unsupported(format!("{other} is not a numeric type"))),
    }
    Ok(())
}

/// Converts a decimal of at most 128 bits to a float.
#[inline]
fn narrow_decimal_to_f64(digits: i128, scale: i8) -> f64 {
    decimal_to_f64(i256::from_i128(digits), scale)
}

/// Calls `work` with group, lane and number of each row of integers, digits of decimals, times or booleans.
pub(in crate::compute) fn for_each_integer(
    rows: &GroupedRows<'_>,
    mut work: impl FnMut(u32, usize, i128),
) -> Result<()> {
    use DataType::*;
    let work = &mut work;
    match rows.array.data_type() {
        Int8 => for_each_value::<1, _>(rows, work, |raw| i8::from_le_bytes(raw).into()),
        UInt8 => for_each_value::<1, _>(rows, work, |raw| raw[0].into()),
        Int16 => for_each_value::<2, _>(rows, work, |raw| i16::from_le_bytes(raw).into()),
        UInt16 => for_each_value::<2, _>(rows, work, |raw| u16::from_le_bytes(raw).into()),
        Int32 | Date32 | Time32(_) | Decimal32(..) => {
            for_each_value::<4, _>(rows, work, |raw| i32::from_le_bytes(raw).into())
        }
        UInt32 => for_each_value::<4, _>(rows, work, |raw| u32::from_le_bytes(raw).into()),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            for_each_value::<8, _>(rows, work, |raw| i64::from_le_bytes(raw).into());
        }
        UInt64 => for_each_value::<8, _>(rows, work, |raw| u64::from_le_bytes(raw).into()),
        Decimal128(..) => for_each_value::<16, _>(rows, work, i128::from_le_bytes),
        Boolean => {
            let bits = Bits::new(rows.array);
            let start = rows.rows.start;
            rows.with_ids(|ids| {
                for (row, &id) in ids.iter().enumerate() {
                    work(id, (rows.lane + row) % LANES, bits.get(start + row).into());
                }
            });
        }
        other => return Err(Error::unsupported(format!("{other} is not an integer type"))),
    }
    Ok(())
}

/// Calls `work` with group and digits of each row of wide decimals.
pub(in crate::compute) fn for_each_decimal(rows: &GroupedRows<'_>, mut work: impl FnMut(u32, i256)) -> Result<()> {
    match rows.array.data_type() {
        DataType::Decimal256(..) => rows.with_ids(|ids| {
            ids.iter().zip(rows.values()).for_each(|(&id, raw)| work(id, i256::from_le_bytes(*raw)));
        }),
        _ => for_each_integer(rows, |id, _, number| work(id, i256::from_i128(number)))?,
    }
    Ok(())
}

/// Calls `work` with rows of numbers; dictionary keys are looked up first.
pub(in crate::compute) fn with_decoded_rows<T>(
    array: &ArrayData,
    rows: Range<usize>,
    work: impl FnOnce(&ArrayData, Range<usize>) -> Result<T>,
) -> Result<T> {
    match array.data_type() {
        DataType::Dictionary(..) => work(&decode_dictionary(array, &rows)?, 0..rows.len()),
        _ => work(array, rows),
    }
}

/// Returns the values of some rows of a dictionary, as an array without a dictionary.
fn decode_dictionary(array: &ArrayData, rows: &Range<usize>) -> Result<ArrayData> {
    let values = dictionary_of(array)?;
    let entry = entry_lookup(array);
    let null = nulls(values.data_type(), 1)?;
    let mut picks: Vec<Pick> = room_for(rows.len() as u64, "keys to look up")?;
    for row in rows.clone() {
        picks.push(if array.is_null(row) { (1, 0) } else { (0, entry(row)?) });
    }
    gather(values.data_type(), &[UncheckedArray::from_ref(values), UncheckedArray::from_ref(&null)], &picks)?
        .checked(&[])
}
