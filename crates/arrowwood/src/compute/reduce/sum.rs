//! Computes the sum and the mean of a column.
//!
//! Nulls are ignored; NaN makes both NaN. Sums of integers and decimals are exact. Without values the sum is 0, and
//! there is no mean.

use arrow_buffer::{BooleanBuffer, i256};
use arrow_schema::DataType;

use crate::array::{Value, count_ones, decimal_quotient, decimal_to_f64};
use crate::compute::kernels::{self, FloatSum, PairwiseSum, is_number};
use crate::compute::scan::{BLOCK, Blocks, ColumnChunk, FixedWidthBytes};
use crate::dataset::Column;
use crate::error::{Error, ErrorKind, Result};
use crate::types::type_name;

/// # Sum and mean
impl Column {
    /// Returns the sum of all values; nulls are left out.
    ///
    /// It is a [`Value::Int128`] for integers and booleans, a `Float64` for floats, and a `Decimal` or `Duration` for
    /// those. Floats are added pairwise, by their row in the column, so the result is the same for any number of
    /// threads and any division into batches, and its error grows with the logarithm of the number of values.
    ///
    /// # Errors
    /// `Unsupported` for other types, `InvalidArgument` if a decimal or duration overflows.
    pub fn sum(&self) -> Result<Value<'static>> {
        // Check the type first: other types may have too many rows to visit.
        match self.data_type() {
            DataType::Dictionary(_, values) if has_sum(values) => sum_by_key(self, values),
            data_type if has_sum(data_type) => self.with_change_check(|| sum_values(self)),
            _ => Err(self.unsupported_operation("the sum")),
        }
    }

    /// Returns the mean; `None` if there are no values.
    ///
    /// # Errors
    /// `Unsupported` for types other than numbers.
    pub fn mean(&self) -> Result<Option<f64>> {
        if !is_number(self.data_type()) {
            return Err(self.unsupported_operation("the mean"));
        }
        let sum = match self.sum() {
            Err(e) if e.kind() == ErrorKind::Unsupported => return Err(self.unsupported_operation("the mean")),
            // The sum of wide decimals may be too large for their type where the mean is not.
            Err(e) if e.kind() == ErrorKind::InvalidArgument => Value::Float64(sum_decimals_as_floats(self)?),
            sum => sum?,
        };
        let count = self.count()?;
        if count == 0 {
            return Ok(None);
        }
        match sum {
            Value::Float64(sum) => Ok(Some(sum / count as f64)),
            Value::Int128(sum) => Ok(Some(decimal_quotient(i256::from_i128(sum), 0, count))),
            Value::Decimal { digits, scale } => Ok(Some(decimal_quotient(digits, scale, count))),
            _ => Err(self.unsupported_operation("the mean")),
        }
    }
}

/// Sums a column that is no dictionary.
fn sum_values(column: &Column) -> Result<Value<'static>> {
    if let Some(blocks) = Blocks::fixed_width(column)? {
        return sum_blocks(column, &blocks);
    }
    let blocks = Blocks::build(column)?;
    match column.data_type() {
        DataType::Boolean => Ok(Value::Int128(count_true(&blocks))),
        _ => sum_blocks(column, &blocks),
    }
}

/// Sums a dictionary's values, each multiplied by its count.
fn sum_by_key(column: &Column, data_type: &DataType) -> Result<Value<'static>> {
    let count_name = if column.name() == "rows" { "count" } else { "rows" };
    let groups = column.as_dataset().aggregate(&[column.name()]).count_rows(count_name).finish()?;
    let mut integers = 0i128;
    let mut floats = PairwiseSum::default();
    let mut decimals = i256::ZERO;
    for row in groups.rows() {
        let row = row?;
        let Value::Int(rows) = row.get(1)? else { return Err(Error::internal("a count that is no integer")) };
        match row.get(0)? {
            Value::Bool(flag) => integers += i128::from(flag) * i128::from(rows),
            Value::Int(number) | Value::Duration(number, _) => integers += i128::from(number) * i128::from(rows),
            Value::UInt(number) => integers += i128::from(number) * i128::from(rows),
            Value::Float32(number) => floats.add(f64::from(number) * rows as f64),
            Value::Float64(number) => floats.add(number * rows as f64),
            Value::Decimal { digits, .. } => {
                let sum = digits.checked_mul(i256::from_i128(rows.into())).and_then(|n| decimals.checked_add(n));
                decimals = sum.ok_or_else(|| does_not_fit(column))?;
            }
            Value::Null => {}
            other => return Err(Error::internal(format!("a dictionary of numbers has the value {other}"))),
        }
    }

    use DataType::*;
    Ok(match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            Value::Decimal { digits: decimals, scale: *scale }
        }
        Duration(unit) => Value::Duration(i64::try_from(integers).map_err(|_| does_not_fit(column))?, *unit),
        float if float.is_floating() => Value::Float64(floats.total()),
        _ => Value::Int128(integers),
    })
}

fn does_not_fit(column: &Column) -> Error {
    let name = column.name();
    let data_type = type_name(column.data_type());
    Error::invalid_argument(format!("the sum of column '{name}' does not fit its type {data_type}"))
}

fn sum_blocks<'a, C: FixedWidthBytes<'a>>(column: &Column, blocks: &Blocks<'a, C>) -> Result<Value<'static>> {
    Ok(match column.data_type() {
        DataType::Float64 => Value::Float64(sum_floats(blocks, kernels::add_f64)),
        DataType::Float32 => Value::Float64(sum_floats(blocks, kernels::add_f32)),
        DataType::Float16 => Value::Float64(sum_floats(blocks, kernels::add_f16)),
        DataType::Duration(unit) => {
            let sum = sum_integers(blocks, &DataType::Int64);
            Value::Duration(i64::try_from(sum).map_err(|_| does_not_fit(column))?, *unit)
        }
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            let digits = sum_decimals(blocks, column.data_type()).ok_or_else(|| does_not_fit(column))?;
            Value::Decimal { digits, scale: *scale }
        }
        DataType::Decimal32(_, scale) => {
            let digits = i256::from_i128(sum_integers(blocks, &DataType::Int32));
            Value::Decimal { digits, scale: *scale }
        }
        DataType::Decimal64(_, scale) => {
            let digits = i256::from_i128(sum_integers(blocks, &DataType::Int64));
            Value::Decimal { digits, scale: *scale }
        }
        integer => Value::Int128(sum_integers(blocks, integer)),
    })
}

/// Sums decimals as floats, one after the other.
fn sum_decimals_as_floats(column: &Column) -> Result<f64> {
    column.with_change_check(|| {
        let mut sum = PairwiseSum::default();
        for value in column.values() {
            if let Value::Decimal { digits, scale } = value? {
                sum.add(decimal_to_f64(digits, scale));
            }
        }
        Ok(sum.total())
    })
}

fn has_sum(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_numeric() || matches!(data_type, Boolean | Duration(_))
}

/// The sign of a number, in its last byte.
const SIGN_BIT: u8 = 0x80;

fn sum_floats<'a, C: FixedWidthBytes<'a>, const N: usize>(
    blocks: &Blocks<'a, C>,
    add: impl Fn(&mut FloatSum, &[[u8; N]]) + Sync,
) -> f64 {
    // −0.0 is the neutral element of addition: the sign bit alone, in any width.
    let mut neutral = [0; N];
    neutral[N - 1] = SIGN_BIT;
    let sums = blocks.par_map(|pieces| {
        let mut sum = FloatSum::default();
        pieces.for_each(|piece| piece.with_values(neutral, |values| add(&mut sum, values)));
        sum.total()
    });
    let mut total = PairwiseSum::default();
    sums.into_iter().for_each(|sum| total.add(sum));
    total.total()
}

fn sum_integers<'a, C: FixedWidthBytes<'a>>(blocks: &Blocks<'a, C>, data_type: &DataType) -> i128 {
    blocks.par_map(|pieces| pieces.map(|piece| sum_chunk(&piece, data_type)).sum::<i128>()).into_iter().sum()
}

/// Sums the integers of a part of a block. The sum of a block's integers of fewer than 64 bits fits an i64.
fn sum_chunk<'a, C: FixedWidthBytes<'a>>(chunk: &ColumnChunk<'a, C>, data_type: &DataType) -> i128 {
    match data_type {
        DataType::Int8 => chunk.with_values([0], |values| sum_narrow(values, |raw| i8::from_le_bytes(raw).into())),
        DataType::UInt8 => chunk.with_values([0], |values| sum_narrow(values, |raw| u8::from_le_bytes(raw).into())),
        DataType::Int16 => chunk.with_values([0; 2], |values| sum_narrow(values, |raw| i16::from_le_bytes(raw).into())),
        DataType::UInt16 => {
            chunk.with_values([0; 2], |values| sum_narrow(values, |raw| u16::from_le_bytes(raw).into()))
        }
        DataType::Int32 => chunk.with_values([0; 4], |values| kernels::sum_i32(values).into()),
        DataType::UInt32 => chunk.with_values([0; 4], |values| kernels::sum_u32(values).into()),
        DataType::UInt64 => chunk.with_values([0; 8], |values: &[[u8; 8]]| {
            values.iter().map(|&raw| i128::from(u64::from_le_bytes(raw))).sum()
        }),
        _ => chunk.with_values([0; 8], kernels::sum_i64),
    }
}

fn sum_narrow<const N: usize>(values: &[[u8; N]], number: impl Fn([u8; N]) -> i64) -> i128 {
    debug_assert!(N < size_of::<i64>() && values.len() <= BLOCK, "{} values of {N} bytes may overflow", values.len());
    values.iter().map(|&raw| number(raw)).sum::<i64>().into()
}

/// Sums decimals; `None` if 256 bits overflow.
fn sum_decimals<'a, C: FixedWidthBytes<'a>>(blocks: &Blocks<'a, C>, data_type: &DataType) -> Option<i256> {
    let is_narrow = matches!(data_type, DataType::Decimal128(..));
    let sums = blocks.par_map(|pieces| {
        checked_sum(pieces.map(|piece| {
            if is_narrow {
                piece.with_values([0; 16], |values: &[[u8; 16]]| {
                    checked_sum(values.iter().map(|&raw| Some(i256::from_i128(i128::from_le_bytes(raw)))))
                })
            } else {
                piece.with_values([0; 32], |values: &[[u8; 32]]| {
                    checked_sum(values.iter().map(|&raw| Some(i256::from_le_bytes(raw))))
                })
            }
        }))
    });
    checked_sum(sums.into_iter())
}

fn checked_sum(mut terms: impl Iterator<Item = Option<i256>>) -> Option<i256> {
    terms.try_fold(i256::ZERO, |sum, term| sum.checked_add(term?))
}

fn count_true(blocks: &Blocks<'_>) -> i128 {
    blocks.par_map(|pieces| pieces.map(|piece| count_true_in(&piece)).sum::<usize>() as i128).into_iter().sum()
}

fn count_true_in(chunk: &ColumnChunk<'_>) -> usize {
    let ColumnChunk { array, rows, .. } = chunk;
    let [bits, ..] = array.buffers() else { return 0 };
    let bits = BooleanBuffer::new(bits.clone(), array.offset(), array.len()).slice(rows.start, rows.len());
    match array.nulls() {
        Some(nulls) => {
            let valid = nulls.inner().slice(rows.start, rows.len());
            let words = bits.bit_chunks().iter_padded().zip(valid.bit_chunks().iter_padded());
            words.map(|(bits, valid)| (bits & valid).count_ones() as usize).sum()
        }
        None => count_ones(&bits),
    }
}
