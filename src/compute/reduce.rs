//! `sum`, `min`, `max`, `mean`, `count` and `map_reduce` of a column.
//!
//! Nulls are left out. NaN is a number to `sum` and `mean`, which it makes NaN, and is left out of `min` and `max`
//! unless there is nothing else, as in Polars and pyarrow. Sums of integers and decimals are exact. The sum of no
//! values is 0; their minimum, maximum and mean are null.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_buffer::i256;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::kernels::{self, BLOCK, Pairs};
use super::parallel;
use crate::column::Column;
use crate::error::{Error, ErrorKind, Result};
use crate::value::{Value, key, value};

impl Column {
    /// The number of values that are not null.
    pub fn count(&self) -> Result<u64> {
        Ok(self.len()? - self.null_count()?)
    }

    /// The sum: [`Value::Int128`] of integers and booleans, `Float64` of floats, `Decimal`, or `Duration`.
    ///
    /// Floats are added in pairs inside blocks of fixed size, so the result is the same for any number of threads and
    /// its error grows with the logarithm of the number of values.
    ///
    /// # Errors
    /// `Unsupported` for other types, `InvalidArgument` where a decimal or duration overflows.
    pub fn sum(&self) -> Result<Value<'static>> {
        let chunks = self.chunks()?;
        let blocks = Blocks::new(&chunks);
        match self.data_type() {
            DataType::Float64 => Ok(Value::Float64(blocks.sum_floats(kernels::sum_f64))),
            DataType::Float32 => Ok(Value::Float64(blocks.sum_floats(kernels::sum_f32))),
            DataType::Float16 => {
                let number = |raw: [u8; 2]| half::f16::from_le_bytes(raw).to_f64();
                Ok(Value::Float64(blocks.sum_floats(|block: &[[u8; 2]]| block.iter().map(|&raw| number(raw)).sum())))
            }
            DataType::Boolean => Ok(Value::Int128(blocks.count_true())),
            DataType::Duration(unit) => i64::try_from(blocks.sum_integers(&DataType::Int64))
                .map(|sum| Value::Duration(sum, *unit))
                .map_err(|_| self.overflow()),
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
                let digits = blocks.sum_decimals(self.data_type()).ok_or_else(|| self.overflow())?;
                Ok(Value::Decimal { digits, scale: *scale })
            }
            DataType::Decimal32(_, scale) => Ok(decimal(blocks.sum_integers(&DataType::Int32), *scale)),
            DataType::Decimal64(_, scale) => Ok(decimal(blocks.sum_integers(&DataType::Int64), *scale)),
            integer if integer.is_integer() => Ok(Value::Int128(blocks.sum_integers(integer))),
            _ => Err(self.not_possible("the sum")),
        }
    }

    /// The mean in f64, `None` of no values.
    ///
    /// # Errors
    /// `Unsupported` for types that are no numbers.
    pub fn mean(&self) -> Result<Option<f64>> {
        let sum = match self.sum() {
            Ok(Value::Float64(sum)) => sum,
            Ok(Value::Int128(sum)) => sum as f64,
            Ok(Value::Decimal { digits, scale }) => decimal_to_f64(digits, scale),
            Ok(_) => return Err(self.not_possible("the mean")),
            Err(e) if e.kind() == ErrorKind::Unsupported => return Err(self.not_possible("the mean")),
            Err(e) => return Err(e),
        };
        let count = self.count()?;
        Ok((count > 0).then(|| sum / count as f64))
    }

    /// The smallest value; text and bytes by their bytes.
    ///
    /// # Errors
    /// `Unsupported` for types without an order.
    pub fn min(&self) -> Result<Value<'_>> {
        self.extreme(Ordering::Less)
    }

    /// The largest value; text and bytes by their bytes.
    ///
    /// # Errors
    /// `Unsupported` for types without an order.
    pub fn max(&self) -> Result<Value<'_>> {
        self.extreme(Ordering::Greater)
    }

    /// `map` of each chunk of at most 65,536 rows, in parallel, then `combine` of the results, in the order of rows.
    /// `None` of no rows.
    ///
    /// ```
    /// # use arrowwood::*;
    /// # use std::sync::Arc;
    /// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    /// # let batch = arrow_array::RecordBatch::try_from_iter([("n", array)]).unwrap();
    /// # let column = Dataset::try_from(vec![batch])?.column("n")?;
    /// let rows = column.map_reduce(|chunk| chunk.len(), |a, b| a + b)?;
    /// assert_eq!(rows, Some(3));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn map_reduce<R: Send>(
        &self,
        map: impl Fn(&ArrayData) -> R + Sync,
        combine: impl Fn(R, R) -> R,
    ) -> Result<Option<R>> {
        let chunks = self.chunks()?;
        let blocks = Blocks::new(&chunks);
        let mapped = blocks.each(|array, rows| map(&crate::buffer::slice(array, rows.start, rows.len())));
        Ok(mapped.into_iter().reduce(combine))
    }

    fn extreme(&self, wanted: Ordering) -> Result<Value<'_>> {
        if !has_order(self.data_type()) {
            return Err(self.not_possible("the order"));
        }
        let chunks = self.chunks()?;
        let blocks = Blocks::new(&chunks);
        if let DataType::Float64 = self.data_type() {
            if let Some(found) = blocks.extreme_f64(wanted) {
                return Ok(Value::Float64(found));
            }
        }
        let places = blocks.each(|array, rows| extreme_row(array, rows, wanted));
        let mut best: Option<(u64, Value<'_>)> = None;
        for (start, place) in blocks.starts().zip(places) {
            let Some(row) = place? else { continue };
            let row = start + row as u64;
            let found = self.get(row)?;
            if best.as_ref().is_none_or(|(_, best)| is_better(&found, best, wanted)) {
                best = Some((row, found));
            }
        }
        Ok(best.map_or(Value::Null, |(_, value)| value))
    }

    fn overflow(&self) -> Error {
        Error::argument(format!("the sum of column '{}' does not fit its type {}", self.name(), self.data_type()))
    }
}

/// The chunks of a column cut into blocks of rows.
struct Blocks<'a> {
    chunks: &'a [ArrayData],
    blocks: Vec<(usize, Range<usize>)>,
    bytes: usize,
}

impl<'a> Blocks<'a> {
    fn new(chunks: &'a [ArrayData]) -> Blocks<'a> {
        let cut = |(number, chunk): (usize, &ArrayData)| {
            let rows = chunk.len();
            (0..rows).step_by(BLOCK).map(move |start| (number, start..rows.min(start + BLOCK)))
        };
        let bytes = chunks.iter().map(|chunk| crate::buffer::bytes_of(chunk, 0..chunk.len()) as usize).sum();
        Blocks { chunks, blocks: chunks.iter().enumerate().flat_map(cut).collect(), bytes }
    }

    /// `work` on each block in parallel, results in order.
    fn each<T: Send>(&self, work: impl Fn(&ArrayData, Range<usize>) -> T + Sync) -> Vec<T> {
        parallel::map(self.blocks.len(), self.bytes, |job| {
            let (chunk, rows) = &self.blocks[job];
            work(&self.chunks[*chunk], rows.clone())
        })
    }

    /// The first row of each block, counted from the column's.
    fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().scan(0, |next, (_, rows)| {
            let start = *next;
            *next += rows.len() as u64;
            Some(start)
        })
    }

    fn sum_floats<const N: usize>(&self, kernel: impl Fn(&[[u8; N]]) -> f64 + Sync) -> f64 {
        let mut sum = Pairs::default();
        // −0.0 is the one number that changes no sum.
        let neutral = neutral_float::<N>();
        self.each(|array, rows| with_block(array, rows, neutral, &kernel)).into_iter().for_each(|part| sum.add(part));
        sum.total()
    }

    fn sum_integers(&self, data_type: &DataType) -> i128 {
        let wide = |array: &ArrayData, rows: Range<usize>| match data_type {
            DataType::Int8 => with_block(array, rows, [0], |block| small(block, |raw| i8::from_le_bytes(raw).into())),
            DataType::UInt8 => with_block(array, rows, [0], |block| small(block, |raw| u8::from_le_bytes(raw).into())),
            DataType::Int16 => {
                with_block(array, rows, [0; 2], |block| small(block, |raw| i16::from_le_bytes(raw).into()))
            }
            DataType::UInt16 => {
                with_block(array, rows, [0; 2], |block| small(block, |raw| u16::from_le_bytes(raw).into()))
            }
            DataType::Int32 => with_block(array, rows, [0; 4], |block| kernels::sum_i32(block).into()),
            DataType::UInt32 => with_block(array, rows, [0; 4], |block| kernels::sum_u32(block).into()),
            DataType::UInt64 => with_block(array, rows, [0; 8], |block: &[[u8; 8]]| {
                block.iter().map(|&raw| i128::from(u64::from_le_bytes(raw))).sum()
            }),
            _ => with_block(array, rows, [0; 8], |block| kernels::sum_i64(block)),
        };
        self.each(wide).into_iter().sum()
    }

    fn sum_decimals(&self, data_type: &DataType) -> Option<i256> {
        let sums = self.each(|array, rows| match data_type {
            DataType::Decimal128(..) => with_block(array, rows, [0; 16], |block: &[[u8; 16]]| {
                // At most 2^16 values of 2^127 each.
                block
                    .iter()
                    .fold(Some(i256::ZERO), |sum, &raw| sum?.checked_add(i256::from_i128(i128::from_le_bytes(raw))))
            }),
            _ => with_block(array, rows, [0; 32], |block: &[[u8; 32]]| {
                block.iter().fold(Some(i256::ZERO), |sum, &raw| sum?.checked_add(i256::from_le_bytes(raw)))
            }),
        });
        sums.into_iter().fold(Some(i256::ZERO), |sum, part| sum?.checked_add(part?))
    }

    fn count_true(&self) -> i128 {
        let counts = self.each(|array, rows| {
            let bits = arrow_buffer::BooleanBuffer::new(array.buffers()[0].clone(), array.offset(), array.len());
            let bits = bits.slice(rows.start, rows.len());
            match array.nulls() {
                Some(nulls) => (&bits & nulls.slice(rows.start, rows.len()).inner()).count_set_bits(),
                None => bits.count_set_bits(),
            }
        });
        counts.into_iter().map(|count| count as i128).sum()
    }

    /// The extreme of those values that are numbers; `None` where none is.
    fn extreme_f64(&self, wanted: Ordering) -> Option<f64> {
        let found = self.each(|array, rows| with_block(array, rows, f64::NAN.to_le_bytes(), kernels::extremes_f64));
        let (least, most) =
            found.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (c, d)| (a.min(c), b.max(d)));
        (least <= most).then_some(if wanted == Ordering::Less { least } else { most })
    }
}

/// Calls `kernel` with the values of `rows`, nulls replaced by `neutral`.
fn with_block<const N: usize, T>(
    array: &ArrayData,
    rows: Range<usize>,
    neutral: [u8; N],
    kernel: impl Fn(&[[u8; N]]) -> T,
) -> T {
    let bytes = array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
    let (values, _) = bytes.as_chunks::<N>();
    let values = &values[array.offset() + rows.start..array.offset() + rows.end];
    let Some(nulls) = array.nulls() else { return kernel(values) };
    let nulls = nulls.slice(rows.start, rows.len());
    let mut filled = Vec::with_capacity(values.len());
    for (word, values) in nulls.inner().bit_chunks().iter_padded().zip(values.chunks(64)) {
        match word {
            u64::MAX => filled.extend_from_slice(values),
            word => {
                filled.extend(values.iter().enumerate().map(|(i, &v)| if word >> i & 1 == 1 { v } else { neutral }))
            }
        }
    }
    kernel(&filled)
}

fn neutral_float<const N: usize>() -> [u8; N] {
    // The sign bit alone, in any width.
    let mut raw = [0; N];
    raw[N - 1] = 0x80;
    raw
}

fn small<const N: usize>(block: &[[u8; N]], number: impl Fn([u8; N]) -> i64) -> i128 {
    block.iter().map(|&raw| number(raw)).sum::<i64>().into()
}

fn decimal(digits: i128, scale: i8) -> Value<'static> {
    Value::Decimal { digits: i256::from_i128(digits), scale }
}

/// The decimal as the nearest f64 or one next to it.
fn decimal_to_f64(digits: i256, scale: i8) -> f64 {
    let (low, high) = digits.to_parts();
    let digits = high as f64 * 2f64.powi(128) + low as f64;
    digits / 10f64.powi(scale.into())
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

/// The row, counted from the array's first, of the extreme value of `rows`; `None` where all are null.
fn extreme_row(array: &ArrayData, rows: Range<usize>, wanted: Ordering) -> Result<Option<usize>> {
    if let DataType::Dictionary(..) = array.data_type() {
        return extreme_of_keys(array, rows, wanted);
    }
    let mut best: Option<(usize, Value<'_>)> = None;
    for row in rows.clone() {
        let found = value(array, row)?;
        if !matches!(found, Value::Null) && best.as_ref().is_none_or(|(_, best)| is_better(&found, best, wanted)) {
            best = Some((row - rows.start, found));
        }
    }
    Ok(best.map(|(row, _)| row))
}

/// Compares dictionary values once each, however many rows have them.
fn extreme_of_keys(array: &ArrayData, rows: Range<usize>, wanted: Ordering) -> Result<Option<usize>> {
    let mut first = vec![None; array.child_data()[0].len()];
    for row in rows.clone() {
        if array.nulls().is_none_or(|nulls| nulls.is_valid(row)) {
            first[key(array, array.offset() + row)?].get_or_insert(row);
        }
    }
    let mut best: Option<(usize, Value<'_>)> = None;
    for row in first.into_iter().flatten() {
        let found = value(array, row)?;
        if !matches!(found, Value::Null) && best.as_ref().is_none_or(|(_, best)| is_better(&found, best, wanted)) {
            best = Some((row - rows.start, found));
        }
    }
    Ok(best.map(|(row, _)| row))
}

/// Whether `a` comes before (`Less`) or after (`Greater`) `b`; a NaN only ever gives way to a number.
fn is_better(a: &Value<'_>, b: &Value<'_>, wanted: Ordering) -> bool {
    use Value::*;
    let floats = |a: f64, b: f64| (b.is_nan() && !a.is_nan()) || a.partial_cmp(&b) == Some(wanted);
    match (a, b) {
        (Float64(a), Float64(b)) => floats(*a, *b),
        (Float32(a), Float32(b)) => floats((*a).into(), (*b).into()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn column(chunks: Vec<ArrayRef>) -> Column {
        let batches =
            chunks.into_iter().map(|chunk| RecordBatch::try_from_iter_with_nullable([("c", chunk, true)]).unwrap());
        Dataset::try_from(batches.collect::<Vec<_>>()).unwrap().column("c").unwrap()
    }

    proptest! {
        #[test]
        fn floats_agree_with_a_naive_twin(values in prop::collection::vec(prop::option::weighted(0.9, -1e6..1e6f64), 0..5000), cut in 0usize..5000) {
            let (a, b) = values.split_at(cut.min(values.len()));
            let c = column(vec![Arc::new(Float64Array::from(a.to_vec())), Arc::new(Float64Array::from(b.to_vec()))]);
            let valid: Vec<f64> = values.iter().flatten().copied().collect();
            let naive: f64 = valid.iter().sum();
            let Value::Float64(sum) = c.sum().unwrap() else { panic!() };
            prop_assert!((sum - naive).abs() <= 1e-9 * valid.iter().map(|v| v.abs()).sum::<f64>().max(1.0));
            let least = valid.iter().copied().min_by(f64::total_cmp);
            match (c.min().unwrap(), least) {
                (Value::Float64(found), Some(least)) => prop_assert_eq!(found, least),
                (Value::Null, None) => {}
                other => prop_assert!(false, "{:?}", other),
            }
            prop_assert_eq!(c.count().unwrap(), valid.len() as u64);
        }

        #[test]
        fn integers_are_exact(values in prop::collection::vec(prop::option::weighted(0.9, any::<i64>()), 0..3000)) {
            let c = column(vec![Arc::new(Int64Array::from(values.clone()))]);
            let naive: i128 = values.iter().flatten().map(|&v| i128::from(v)).sum();
            prop_assert!(matches!(c.sum().unwrap(), Value::Int128(sum) if sum == naive));
            let most = values.iter().flatten().max();
            match (c.max().unwrap(), most) {
                (Value::Int(found), Some(&most)) => prop_assert_eq!(found, most),
                (Value::Null, None) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn threads_do_not_change_a_sum() {
        let values: Vec<f64> = (0..400_000).map(|i| f64::from(i).sin() * 1e9).collect();
        let c = column(vec![Arc::new(Float64Array::from(values))]);
        let chunks = c.chunks().unwrap();
        let (many, mut one) = (Blocks::new(&chunks), Blocks::new(&chunks));
        one.bytes = 0;
        assert_eq!(many.sum_floats(kernels::sum_f64).to_bits(), one.sum_floats(kernels::sum_f64).to_bits());
    }

    #[test]
    fn nan_counts_in_sums_and_not_in_extremes() {
        let c = column(vec![Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(2.0), None, Some(-1.0)]))]);
        assert!(matches!(c.sum().unwrap(), Value::Float64(sum) if sum.is_nan()));
        assert!(matches!(c.min().unwrap(), Value::Float64(-1.0)));
        let only = column(vec![Arc::new(Float64Array::from(vec![f64::NAN]))]);
        assert!(matches!(only.max().unwrap(), Value::Float64(v) if v.is_nan()));
    }

    #[test]
    fn text_has_an_order_and_no_sum() {
        let c = column(vec![Arc::new(StringArray::from(vec![Some("pear"), None, Some("apple")]))]);
        assert!(matches!(c.min().unwrap(), Value::Str("apple")));
        assert!(matches!(c.max().unwrap(), Value::Str("pear")));
        assert_eq!(c.sum().unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
