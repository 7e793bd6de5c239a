//! Finds the smallest and the largest value of a column.
//!
//! Nulls are ignored, and so is NaN unless there is nothing else, as in Polars and pyarrow. The extremes of no values
//! are null. Fixed-width numbers have a fast loop; other types are compared value by value.
//!
//! Functions take the order that the result has to other values as `wanted`: `Less` for the smallest value, `Greater`
//! for the largest.

use std::cmp::Ordering;

use arrow_buffer::i256;
use arrow_schema::DataType;

use crate::array::{Value, key, value};
use crate::compute::kernels;
use crate::compute::scan::{Blocks, Categories, ColumnChunk, FixedWidthBytes, Number};
use crate::dataset::Column;
use crate::error::Result;

/// # Smallest and largest value
impl Column {
    /// Returns the smallest value; text and bytes by their bytes, ordered categories by their order.
    ///
    /// # Errors
    /// `Unsupported` for types without an order.
    pub fn min(&self) -> Result<Value<'_>> {
        find_extreme(self, Ordering::Less)
    }

    /// Returns the largest value; text and bytes by their bytes, ordered categories by their order.
    ///
    /// # Errors
    /// `Unsupported` for types without an order.
    pub fn max(&self) -> Result<Value<'_>> {
        find_extreme(self, Ordering::Greater)
    }
}

fn find_extreme(column: &Column, wanted: Ordering) -> Result<Value<'_>> {
    if *column.data_type() == DataType::Null {
        return Ok(Value::Null);
    }
    if !has_order(column.data_type()) {
        return Err(column.unsupported_operation("the order"));
    }
    column.with_change_check(|| {
        if let Some(categories) = Categories::load(column.as_dataset(), 0)? {
            return find_extreme_category(column, &categories, wanted);
        }
        if let Some(blocks) = Blocks::fixed_width(column)?
            && let Some(row) = find_extreme_row(&blocks, column.data_type(), wanted)
        {
            return column.get(row);
        }
        let blocks = Blocks::build(column)?;
        match find_extreme_row(&blocks, column.data_type(), wanted) {
            Some(row) => column.get(row),
            None if *column.data_type() == DataType::FixedSizeBinary(0) => first_valid_value(&blocks),
            None => find_extreme_value(&blocks, wanted),
        }
    })
}

fn find_extreme_category<'a>(column: &'a Column, categories: &Categories, wanted: Ordering) -> Result<Value<'a>> {
    let mut best: Option<(usize, u64)> = None;
    for chunk in Blocks::build(column)?.chunks() {
        let ranks = categories.ranks_of(chunk.array)?;
        for (row, number) in chunk.rows.clone().zip(chunk.first..) {
            if let Some(rank) = ranks.rank(row)?
                && best.is_none_or(|(best, _)| rank.cmp(&best) == wanted)
            {
                best = Some((rank, number));
            }
        }
    }
    match best {
        Some((_, row)) => column.get(row),
        None => Ok(Value::Null),
    }
}

fn has_order(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Interval(_) => false,
        Dictionary(_, values) => has_order(values),
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) | Boolean => true,
        other => other.is_primitive(),
    }
}

/// Returns the row of the extreme number; `None` if there is none, or the type has no fast loop.
pub(in crate::compute) fn find_extreme_row<'a, C: FixedWidthBytes<'a>>(
    blocks: &Blocks<'a, C>,
    data_type: &DataType,
    wanted: Ordering,
) -> Option<u64> {
    use DataType::*;
    match data_type {
        Int8 => extreme::<_, i8, 1>(blocks, wanted),
        UInt8 => extreme::<_, u8, 1>(blocks, wanted),
        Int16 => extreme::<_, i16, 2>(blocks, wanted),
        UInt16 => extreme::<_, u16, 2>(blocks, wanted),
        Int32 | Date32 | Time32(_) | Decimal32(..) => extreme::<_, i32, 4>(blocks, wanted),
        UInt32 => extreme::<_, u32, 4>(blocks, wanted),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => {
            extreme::<_, i64, 8>(blocks, wanted)
        }
        UInt64 => extreme::<_, u64, 8>(blocks, wanted),
        Decimal128(..) => extreme::<_, i128, 16>(blocks, wanted),
        Decimal256(..) => extreme::<_, i256, 32>(blocks, wanted),
        Float16 => extreme::<_, half::f16, 2>(blocks, wanted),
        Float32 => extreme::<_, f32, 4>(blocks, wanted),
        Float64 => extreme::<_, f64, 8>(blocks, wanted),
        _ => None,
    }
}

/// The value that a search begins with, and the function that returns the better one of it and of more values.
type ExtremeFold<T, const N: usize> = (T, fn(T, &[[u8; N]]) -> T);

/// Finds the extreme, and then the first row that has it. Nulls count as the worst value of the type; rows may have
/// this value, too, so a row is checked for null.
fn extreme<'a, C: FixedWidthBytes<'a>, T: Number<N>, const N: usize>(
    blocks: &Blocks<'a, C>,
    wanted: Ordering,
) -> Option<u64> {
    let (worst, choose): ExtremeFold<T, N> = match wanted {
        Ordering::Less => (T::MAX, kernels::min),
        _ => (T::MIN, kernels::max),
    };
    let block_extremes = blocks.par_map(|pieces| {
        pieces.fold(worst, |best, piece| piece.with_values(worst.store(), |values| choose(best, values)))
    });
    let best = block_extremes.iter().fold(worst, |best, extreme| choose(best, &[extreme.store()]));
    for (block, _) in block_extremes.iter().enumerate().filter(|(_, extreme)| **extreme == best) {
        for piece in blocks.pieces(block) {
            let mut rows = piece.rows.clone().zip(piece.values());
            if let Some((row, _)) = rows.find(|&(row, &raw)| T::load(raw) == best && piece.is_valid(row)) {
                return Some(piece.first + (row - piece.rows.start) as u64);
            }
        }
    }
    None
}

/// Returns the first value that is not null, in a column whose values have no bytes: these are all equal, and may be
/// too many to visit.
fn first_valid_value<'a>(blocks: &Blocks<'a>) -> Result<Value<'a>> {
    for chunk in blocks.chunks() {
        if let Some(row) = chunk.rows.clone().find(|&row| chunk.is_valid(row)) {
            return value(chunk.array, row);
        }
    }
    Ok(Value::Null)
}

/// Compares the values one by one, and returns the best one.
pub(in crate::compute) fn find_extreme_value<'a>(blocks: &Blocks<'a>, wanted: Ordering) -> Result<Value<'a>> {
    let block_extremes = blocks.par_map(|pieces| -> Result<Value<'a>> {
        let mut best = ExtremeValue { wanted, value: Value::Null };
        for piece in pieces {
            best.offer_chunk(&piece)?;
        }
        Ok(best.value)
    });
    let mut best = ExtremeValue { wanted, value: Value::Null };
    for extreme in block_extremes {
        best.offer(extreme?);
    }
    Ok(best.value)
}

/// The best value so far.
struct ExtremeValue<'a> {
    /// The order of a better value to this one.
    wanted: Ordering,
    /// Null before the first value.
    value: Value<'a>,
}

impl<'a> ExtremeValue<'a> {
    /// Compares the values of a chunk, by keys if there are fewer of these than rows.
    fn offer_chunk(&mut self, piece: &ColumnChunk<'a>) -> Result<()> {
        match piece.array.child_data() {
            [values] if values.len() <= piece.rows.len() => self.offer_keys(piece, values.len()),
            _ => self.offer_rows(piece, piece.rows.clone()),
        }
    }

    fn offer_rows(&mut self, piece: &ColumnChunk<'a>, rows: impl Iterator<Item = usize>) -> Result<()> {
        for row in rows {
            self.offer(value(piece.array, row)?);
        }
        Ok(())
    }

    /// Compares each of `count` dictionary values once, however many rows have it.
    fn offer_keys(&mut self, piece: &ColumnChunk<'a>, count: usize) -> Result<()> {
        let mut rows = vec![None; count];
        for row in piece.rows.clone().filter(|&row| piece.is_valid(row)) {
            rows[key(piece.array, piece.array.offset() + row)?] = Some(row);
        }
        self.offer_rows(piece, rows.into_iter().flatten())
    }

    fn offer(&mut self, value: Value<'a>) {
        if is_better(&value, &self.value, self.wanted) {
            self.value = value;
        }
    }
}

/// Returns true if the order of `a` to `b` is `wanted`. Any number is better than NaN, and any value is better than
/// null.
fn is_better(a: &Value<'_>, b: &Value<'_>, wanted: Ordering) -> bool {
    use Value::*;
    match (a, b) {
        (Null, _) => false,
        (_, Null) => true,
        (Float64(a), Float64(b)) => is_better_float(*a, *b, wanted),
        (Float32(a), Float32(b)) => is_better_float((*a).into(), (*b).into(), wanted),
        (Bool(a), Bool(b)) => a.cmp(b) == wanted,
        (Int(a), Int(b)) | (Date(a), Date(b)) => a.cmp(b) == wanted,
        (UInt(a), UInt(b)) => a.cmp(b) == wanted,
        (Time(a, _), Time(b, _)) | (Duration(a, _), Duration(b, _)) => a.cmp(b) == wanted,
        (Timestamp(a, ..), Timestamp(b, ..)) => a.cmp(b) == wanted,
        (Decimal { digits: a, .. }, Decimal { digits: b, .. }) => a.cmp(b) == wanted,
        (Str(a), Str(b)) => a.cmp(b) == wanted,
        (Bytes(a), Bytes(b)) => a.cmp(b) == wanted,
        _ => false,
    }
}

fn is_better_float(a: f64, b: f64, wanted: Ordering) -> bool {
    (b.is_nan() && !a.is_nan()) || a.partial_cmp(&b) == Some(wanted)
}
