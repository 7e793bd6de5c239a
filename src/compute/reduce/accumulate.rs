//! Sums, extremes and moments of groups. A row's value is added to one of four lanes of its group, by row number, so
//! that neighbours in one group don't depend on each other; lanes are merged at the end of a block. Excluded rows go to
//! group 0.

use std::ops::Range;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use half::f16;
use multiversion::multiversion;

use crate::array::access::{Bits, dictionary_of, entry_lookup, fixed_values};
use crate::array::gather::{Pick, gather};
use crate::array::{UncheckedArray, decimal_to_f64, nulls, room_for};
use crate::compute::select::{Mask, pack_bits};
use crate::error::{Error, Result};

pub(in crate::compute) const LANES: usize = 4;

/// The group of excluded rows.
pub(in crate::compute) const OUT: u32 = 0;

/// The rows of one batch in a block: the column, its rows, their group numbers, and the first one's position.
pub(in crate::compute) struct GroupedRows<'a> {
    pub array: &'a ArrayData,
    pub rows: Range<usize>,
    pub ids: &'a [u32],
    pub lane: usize,
    /// Whether many of them are in no group.
    pub is_sparse: bool,
}

impl<'a> GroupedRows<'a> {
    pub(super) fn values<const N: usize>(&self) -> &'a [[u8; N]] {
        fixed_values(self.array).get(self.rows.clone()).unwrap_or_default()
    }

    /// Calls `work` with the rows' groups, nulls excluded.
    pub(super) fn with_ids<T>(&self, work: impl FnOnce(&[u32]) -> T) -> T {
        let Some(valid) = Mask::from_validity(self.array, &self.rows) else { return work(self.ids) };
        let masked = |(row, &id): (usize, &u32)| if valid.is_set(row) { id } else { OUT };
        work(&self.ids.iter().enumerate().map(masked).collect::<Vec<_>>())
    }
}

/// Counts the rows of each group; `counts` has `lanes` lanes of each.
pub(in crate::compute) fn count_by_group(ids: &[u32], lane: usize, lanes: usize, counts: &mut [u64]) {
    for (row, &id) in ids.iter().enumerate() {
        if let Some(count) = counts.get_mut(id as usize * lanes + (lane + row) % lanes) {
            *count += 1;
        }
    }
}

/// Adds floats and ones, in a single addition.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub(super) fn add_f64(ids: &[u32], values: &[[u8; 8]], lane: usize, sums: &mut [[f64; 2]]) {
    add_each(ids, values, lane, sums, f64::from_le_bytes);
}

#[inline(always)]
fn add_each<const N: usize>(
    ids: &[u32],
    values: &[[u8; N]],
    lane: usize,
    sums: &mut [[f64; 2]],
    number: impl Fn([u8; N]) -> f64,
) {
    let groups = sums.as_chunks_mut::<LANES>().0;
    let mut add = |id: u32, lane: usize, raw: [u8; N]| {
        if let Some(group) = groups.get_mut(id as usize) {
            group[lane] = [group[lane][0] + number(raw), group[lane][1] + 1.0];
        }
    };
    // Starts at the first lane, so that the lanes of each step are known.
    let head = ((LANES - lane) % LANES).min(ids.len()).min(values.len());
    let ((first, ids), (before, values)) = (ids.split_at(head), values.split_at(head));
    first.iter().zip(before).enumerate().for_each(|(row, (&id, &raw))| add(id, lane + row, raw));
    let ((ids, last), (values, after)) = (ids.as_chunks::<LANES>(), values.as_chunks::<LANES>());
    for (ids, values) in ids.iter().zip(values) {
        for lane in 0..LANES {
            add(ids[lane], lane, values[lane]);
        }
    }
    last.iter().zip(after).enumerate().for_each(|(lane, (&id, &raw))| add(id, lane, raw));
}

/// Adds numbers of any type as floats.
pub(in crate::compute) fn add_floats(rows: &GroupedRows<'_>, sums: &mut [[f64; 2]]) -> Result<()> {
    // Lanes shorten the wait for excluded rows: it is worth to look for the others if they are few.
    let included = || rows.ids.iter().filter(|&&id| id != OUT).count();
    if rows.array.data_type() == &DataType::Float64 && !(rows.is_sparse && included() < rows.ids.len() / 4) {
        rows.with_ids(|ids| add_f64(ids, rows.values(), rows.lane, sums));
        return Ok(());
    }
    for_each_float(rows, |id, lane, number| {
        if let Some(sum) = sums.get_mut(id as usize * LANES + lane) {
            *sum = [sum[0] + number, sum[1] + 1.0];
        }
    })
}

/// Adds squared distances from the means of the groups; `squares` has `lanes` lanes of each.
pub(in crate::compute) fn add_squares(
    rows: &GroupedRows<'_>,
    means: &[f64],
    lanes: usize,
    squares: &mut [f64],
) -> Result<()> {
    for_each_float(rows, |id, lane, number| {
        if let (Some(mean), Some(sum)) = (means.get(id as usize), squares.get_mut(id as usize * lanes + lane % lanes)) {
            *sum += (number - mean) * (number - mean);
        }
    })
}

/// Calls `work` with group, lane and the result of `number` for the `N` bytes of each row.
fn each<const N: usize, T>(
    rows: &GroupedRows<'_>,
    work: &mut impl FnMut(u32, usize, T),
    number: impl Fn([u8; N]) -> T,
) {
    let lane = rows.lane;
    let mut first = 0;
    rows.with_ids(|ids| {
        for (ids, values) in ids.chunks(AT_ONCE).zip(rows.values::<N>().chunks(AT_ONCE)) {
            let mut left = if rows.is_sparse { included(ids) } else { u64::MAX };
            if left.count_ones() > FEW {
                let all = ids.iter().zip(values).enumerate();
                all.for_each(|(row, (&id, &raw))| work(id, (lane + first + row) % LANES, number(raw)));
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

/// Rows that are looked at together, a bit for each.
const AT_ONCE: usize = 64;
/// Of so many included rows among them, no excluded one is looked at.
const FEW: u32 = 48;

/// A bit for each row that is in a group.
#[inline(always)]
fn included(ids: &[u32]) -> u64 {
    let mut bytes = [0; AT_ONCE];
    bytes.iter_mut().zip(ids).for_each(|(byte, &id)| *byte = u8::from(id != OUT));
    pack_bits(&bytes)
}

/// Calls `work` with group, lane and number of each row, the number as the nearest float.
pub(in crate::compute) fn for_each_float(rows: &GroupedRows<'_>, mut work: impl FnMut(u32, usize, f64)) -> Result<()> {
    use DataType::*;
    let work = &mut work;
    let decimal = |digits: i128, scale: i8| decimal_to_f64(i256::from_i128(digits), scale);
    match rows.array.data_type() {
        Float64 => each::<8, _>(rows, work, f64::from_le_bytes),
        Float32 => each::<4, _>(rows, work, |raw| f32::from_le_bytes(raw).into()),
        Float16 => each::<2, _>(rows, work, |raw| f16::from_le_bytes(raw).to_f64()),
        Int8 => each::<1, _>(rows, work, |raw| i8::from_le_bytes(raw).into()),
        UInt8 => each::<1, _>(rows, work, |raw| raw[0].into()),
        Int16 => each::<2, _>(rows, work, |raw| i16::from_le_bytes(raw).into()),
        UInt16 => each::<2, _>(rows, work, |raw| u16::from_le_bytes(raw).into()),
        Int32 => each::<4, _>(rows, work, |raw| i32::from_le_bytes(raw).into()),
        UInt32 => each::<4, _>(rows, work, |raw| u32::from_le_bytes(raw).into()),
        Int64 => each::<8, _>(rows, work, |raw| i64::from_le_bytes(raw) as f64),
        UInt64 => each::<8, _>(rows, work, |raw| u64::from_le_bytes(raw) as f64),
        Decimal32(_, s) => each::<4, _>(rows, work, |raw| decimal(i32::from_le_bytes(raw).into(), *s)),
        Decimal64(_, s) => each::<8, _>(rows, work, |raw| decimal(i64::from_le_bytes(raw).into(), *s)),
        Decimal128(_, s) => each::<16, _>(rows, work, |raw| decimal(i128::from_le_bytes(raw), *s)),
        Decimal256(_, s) => each::<32, _>(rows, work, |raw| decimal_to_f64(i256::from_le_bytes(raw), *s)),
        Boolean => {
            let bits = Bits::new(rows.array);
            let start = rows.rows.start;
            rows.with_ids(|ids| {
                let each = ids.iter().enumerate();
                each.for_each(|(row, &id)| {
                    work(id, (rows.lane + row) % LANES, f64::from(u8::from(bits.get(start + row))));
                });
            });
        }
        other => return Err(Error::unsupported(format!("{other} is not a numeric type"))),
    }
    Ok(())
}

/// Calls `work` with group, lane and number of each row of integers, digits of decimals, times or booleans.
pub(in crate::compute) fn for_each_integer(
    rows: &GroupedRows<'_>,
    mut work: impl FnMut(u32, usize, i128),
) -> Result<()> {
    use DataType::*;
    let work = &mut work;
    match rows.array.data_type() {
        Int8 => each::<1, _>(rows, work, |raw| i8::from_le_bytes(raw).into()),
        UInt8 => each::<1, _>(rows, work, |raw| raw[0].into()),
        Int16 => each::<2, _>(rows, work, |raw| i16::from_le_bytes(raw).into()),
        UInt16 => each::<2, _>(rows, work, |raw| u16::from_le_bytes(raw).into()),
        Int32 | Date32 | Time32(_) | Decimal32(..) => each::<4, _>(rows, work, |raw| i32::from_le_bytes(raw).into()),
        UInt32 => each::<4, _>(rows, work, |raw| u32::from_le_bytes(raw).into()),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            each::<8, _>(rows, work, |raw| i64::from_le_bytes(raw).into());
        }
        UInt64 => each::<8, _>(rows, work, |raw| u64::from_le_bytes(raw).into()),
        Decimal128(..) => each::<16, _>(rows, work, i128::from_le_bytes),
        Boolean => {
            let bits = Bits::new(rows.array);
            let start = rows.rows.start;
            rows.with_ids(|ids| {
                let each = ids.iter().enumerate();
                each.for_each(|(row, &id)| work(id, (rows.lane + row) % LANES, bits.get(start + row).into()));
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
        DataType::Dictionary(..) => {
            let decoded = decoded(array, &rows)?;
            work(&decoded, 0..rows.len())
        }
        _ => work(array, rows),
    }
}

/// Rows of a dictionary column as values.
fn decoded(array: &ArrayData, rows: &Range<usize>) -> Result<ArrayData> {
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
