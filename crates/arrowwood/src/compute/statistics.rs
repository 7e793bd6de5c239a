//! Computes statistics of columns: `any`, `all`, `var`, `std`, `n_unique`, `value_counts`, and `describe`.
//!
//! Nulls are ignored; quantiles, `min` and `max` ignore NaN as well. Among distinct values null counts as one value,
//! and so do all NaN.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use super::group::AggregateFunction;
use super::kernels::is_number;
use super::reduce::time_quantiles;
use crate::array::{Value, decimal_to_f64};
use crate::dataset::{Column, Dataset};
use crate::error::{Error, ErrorKind, Result};
use crate::types::layout::MILLIS_PER_DAY;

/// # Statistics
impl Column {
    /// Returns true if any value is true; false if there are no values.
    ///
    /// # Errors
    /// `Unsupported` for types other than booleans.
    pub fn any(&self) -> Result<bool> {
        Ok(count_true(self, "any")? > 0)
    }

    /// Returns true if no value is false; true if there are no values.
    ///
    /// # Errors
    /// `Unsupported` for types other than booleans.
    pub fn all(&self) -> Result<bool> {
        Ok(count_true(self, "all")? == i128::from(self.count()?))
    }

    /// Returns the sample variance, which divides by n − 1; `None` for fewer than two values.
    ///
    /// It is NaN if a value is NaN. The variance of integers is rounded only once, at the end.
    ///
    /// # Errors
    /// `Unsupported` for types that are no numbers.
    pub fn var(&self) -> Result<Option<f64>> {
        let whole = self.as_dataset().aggregate::<&str>(&[]).column(self.name(), AggregateFunction::Var).finish()?;
        Ok(to_float(&whole.row(0)?.get(0)?))
    }

    /// Returns the square root of the variance.
    ///
    /// # Errors
    /// `Unsupported` for types that are no numbers.
    pub fn std(&self) -> Result<Option<f64>> {
        Ok(self.var()?.map(f64::sqrt))
    }

    /// Returns the number of distinct values; null counts as one, and so do all NaN.
    ///
    /// # Errors
    /// `Unsupported` for nested types.
    pub fn n_unique(&self) -> Result<u64> {
        self.as_dataset().aggregate(&[self.name()]).finish()?.len()
    }

    /// Returns each distinct value and its number of rows, in two columns.
    ///
    /// One has the name of this column, the other is called `count`. The most frequent value comes first; equally
    /// frequent ones are in order of appearance. Null counts as a value.
    ///
    /// # Errors
    /// `Unsupported` for nested types; `InvalidArgument` for a column called `count`.
    pub fn value_counts(&self) -> Result<Dataset> {
        let groups = self.as_dataset().aggregate(&[self.name()]).count_rows(COUNT).finish()?;
        let mut counts = Vec::new();
        for count in groups.column(COUNT)?.values() {
            let Value::Int(count) = count? else { return Err(Error::internal("a count that is no integer")) };
            counts.push(count);
        }
        let mut order: Vec<i64> = (0..counts.len() as i64).collect();
        order.sort_by_key(|&row| std::cmp::Reverse(counts[row as usize]));
        groups.take(&order)
    }
}

fn count_true(column: &Column, operation: &str) -> Result<i128> {
    match (column.data_type(), column.sum()) {
        (DataType::Boolean, Ok(Value::Int128(count))) => Ok(count),
        (DataType::Boolean, Err(e)) => Err(e),
        _ => Err(column.unsupported_operation(operation)),
    }
}

/// The name of the column of counts that [`Column::value_counts`] returns.
const COUNT: &str = "count";

/// Converts a value to a float, if it is a number.
fn to_float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Int(number) => Some(*number as f64),
        Value::UInt(number) => Some(*number as f64),
        Value::Int128(number) => Some(*number as f64),
        Value::Float32(number) => Some(f64::from(*number)),
        Value::Float64(number) => Some(*number),
        Value::Decimal { digits, scale } => Some(decimal_to_f64(*digits, *scale)),
        _ => None,
    }
}

/// The rows that [`Dataset::describe`] returns, in order.
const STATISTICS: [&str; 9] = ["count", "null_count", "mean", "std", "min", "25%", "50%", "75%", "max"];

/// # Statistics of all columns
impl Dataset {
    /// Returns statistics of each column: a row per statistic, which the first column names.
    ///
    /// Numbers and booleans are described by floats, other types by text.
    ///
    /// # Errors
    /// `InvalidData` if a value is damaged.
    pub fn describe(&self) -> Result<Dataset> {
        let mut fields = vec![Field::new("statistic", DataType::Utf8, false)];
        let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(STATISTICS.to_vec()))];
        for index in 0..self.num_columns() {
            let column = self.column_at(index)?;
            let array =
                if is_number(column.data_type()) { describe_numbers(&column)? } else { describe_as_text(&column)? };
            fields.push(Field::new(column.name(), array.data_type().clone(), true));
            columns.push(array);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        Dataset::try_from(vec![batch.map_err(|e| Error::invalid(e.to_string()))?])
    }
}

/// The quantiles among the [`STATISTICS`].
const QUARTILES: [f64; 3] = [0.25, 0.5, 0.75];

/// Returns the [`STATISTICS`] of a column of numbers or booleans.
fn describe_numbers(column: &Column) -> Result<ArrayRef> {
    let quartiles = column.quantiles(&QUARTILES)?;
    let [first, second, third] = match quartiles {
        Some(quartiles) => exactly_three(quartiles)?.map(Some),
        None => [None; 3],
    };
    let statistics = vec![
        Some(column.count()? as f64),
        Some(column.null_count()? as f64),
        column.mean()?,
        column.std()?,
        to_float(&column.min()?),
        first,
        second,
        third,
        to_float(&column.max()?),
    ];
    Ok(Arc::new(Float64Array::from(statistics)))
}

/// Returns the [`STATISTICS`] of a column of another type.
fn describe_as_text(column: &Column) -> Result<ArrayRef> {
    let [first, second, third] = quartiles_of_times(column)?;
    let statistics = vec![
        Some(column.count()?.to_string()),
        Some(column.null_count()?.to_string()),
        None,
        None,
        extreme_to_text(column.min())?,
        first,
        second,
        third,
        extreme_to_text(column.max())?,
    ];
    Ok(Arc::new(StringArray::from(statistics)))
}

/// Converts a minimum or maximum to text; `None` for types without an order, which have no extremes.
fn extreme_to_text(extreme: Result<Value<'_>>) -> Result<Option<String>> {
    match extreme {
        Ok(Value::Null) => Ok(None),
        Ok(value) => Ok(Some(value.to_string())),
        Err(e) if e.kind() == ErrorKind::Unsupported && !e.is_limit() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the quartiles of dates, times and durations as text; none for other types.
fn quartiles_of_times(column: &Column) -> Result<[Option<String>; 3]> {
    let data_type = column.data_type();
    if time_from_number(data_type, 0).is_none() {
        return Ok([None, None, None]);
    }
    let Some(times) = time_quantiles(column, &QUARTILES)? else { return Ok([None, None, None]) };
    Ok(exactly_three(times)?.map(|time| time_from_number(data_type, time).map(|time| time.to_string())))
}

fn exactly_three<T>(quartiles: Vec<T>) -> Result<[T; 3]> {
    quartiles.try_into().map_err(|other: Vec<T>| Error::internal(format!("{} quartiles", other.len())))
}

/// Converts the number that is stored for a date, time or duration to a value; `None` for other types.
fn time_from_number(data_type: &DataType, number: i64) -> Option<Value<'_>> {
    use DataType::*;
    match data_type {
        Date32 => Some(Value::Date(number)),
        Date64 => Some(Value::Date(number.div_euclid(MILLIS_PER_DAY))),
        Time32(unit) | Time64(unit) => Some(Value::Time(number, *unit)),
        Timestamp(unit, zone) => Some(Value::Timestamp(number, *unit, zone.as_deref())),
        Duration(unit) => Some(Value::Duration(number, *unit)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::*;
    use arrow_buffer::i256;
    use proptest::prelude::*;

    use super::*;
    use crate::array::{Value, decimal_to_f64};
    use crate::compute::AggregateFunction;
    use crate::compute::tests::cut;

    /// Quantiles are located by a sample, except in columns with few values or many nulls.
    #[test]
    fn quantiles_of_large_columns_equal_sorted_values() {
        const ROWS: u64 = 1_200_000;
        let random =
            |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let kinds: [&dyn Fn(u64) -> Option<f64>; 5] = [
            &|row| Some(random(row) as f64 - 9e18),
            &|row| Some(row as f64),
            &|row| Some((random(row) % 3) as f64 - 1.0),
            &|row| (row % 5 > 0).then_some(if row % 7 == 0 { f64::NAN } else { random(row) as f64 }),
            &|row| (row % 50 == 0).then_some(-(row as f64)),
        ];
        for (number, kind) in kinds.iter().enumerate() {
            let batch = |rows: std::ops::Range<u64>| {
                let values: ArrayRef = Arc::new(rows.map(kind).collect::<Float64Array>());
                RecordBatch::try_from_iter_with_nullable([("v", values, true)]).unwrap()
            };
            let dataset = Dataset::try_from(vec![batch(0..70_001), batch(70_001..ROWS)]).unwrap();
            let mut sorted: Vec<f64> = (0..ROWS).filter_map(kind).filter(|value| !value.is_nan()).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let shares = [0.0, 0.1, 0.5, 0.999, 1.0];
            let quantiles = dataset.column("v").unwrap().quantiles(&shares).unwrap().unwrap();
            for (share, quantile) in shares.iter().zip(quantiles) {
                let position = share * (sorted.len() - 1) as f64;
                let [low, high] = [position.floor(), position.ceil()].map(|position| sorted[position as usize]);
                assert_eq!(quantile, low + (high - low) * position.fract(), "{share} of {number}");
            }
        }
    }

    /// Medians were once computed in two ways, and some differed in the last bit.
    #[test]
    fn medians_of_columns_and_groups_are_equal() {
        let pairs = [[0.1, 0.7], [-1e16, 3.0], [1e-320, 3e-323], [f64::MAX, f64::MAX / 3.0], [1.0, f64::INFINITY]];
        for pair in pairs {
            let values: ArrayRef = Arc::new(Float64Array::from(pair.to_vec()));
            let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("v", values)]).unwrap()]).unwrap();
            let median = dataset.column("v").unwrap().quantile(0.5).unwrap().unwrap();
            let group = dataset.aggregate::<&str>(&[]).column("v", AggregateFunction::Median).finish().unwrap();
            let actual = group.row(0).unwrap().get(0).unwrap();
            assert!(matches!(actual, Value::Float64(of_group) if of_group == median), "{pair:?}: {median}, {actual}");
            assert_eq!(median, pair[0].midpoint(pair[1]), "{pair:?}");
        }
    }

    proptest! {
        #[test]
        fn quantiles_equal_sorted_values(
            values in prop::collection::vec(prop::option::weighted(0.8, -100i32..100), 1..200),
            share in prop_oneof![Just(0.0), Just(1.0), Just(0.5), 0.0..1.0f64],
        ) {
            let array = Arc::new(Int32Array::from(values.clone())) as ArrayRef;
            let column = cut(&array, &[3, 70]);
            let mut sorted: Vec<f64> = values.iter().flatten().map(|&v| f64::from(v)).collect();
            sorted.sort_by(f64::total_cmp);
            let expected = (!sorted.is_empty()).then(|| {
                let position = share * (sorted.len() - 1) as f64;
                let low = sorted[position.floor() as usize];
                let high = sorted[position.ceil() as usize];
                low + (high - low) * position.fract()
            });
            prop_assert_eq!(column.quantile(share).unwrap(), expected);
            let mut counts: Vec<(Option<i32>, i64)> = Vec::new();
            for value in &values {
                match counts.iter_mut().find(|known| known.0 == *value) {
                    Some(known) => known.1 += 1,
                    None => counts.push((*value, 1)),
                }
            }
            counts.sort_by_key(|known| -known.1);
            let actual = column.value_counts().unwrap();
            prop_assert_eq!(column.n_unique().unwrap(), counts.len() as u64);
            for (row, (value, count)) in counts.iter().enumerate() {
                let row = actual.row(row as u64).unwrap();
                prop_assert_eq!(row.get(0).unwrap().to_string(), value.map_or("null".into(), |v| v.to_string()));
                prop_assert_eq!(row.get(1).unwrap().to_string(), count.to_string());
            }
        }
    }

    proptest! {
        /// Nanoseconds have more digits than floats can hold.
        #[test]
        fn quartiles_of_times_are_exact(
            times in prop::collection::vec(prop::option::weighted(0.8, any::<i64>()), 1..200),
        ) {
            let array = Arc::new(TimestampNanosecondArray::from(times.clone()).with_timezone("UTC")) as ArrayRef;
            let mut sorted: Vec<i64> = times.iter().flatten().copied().collect();
            sorted.sort_unstable();
            let quarter = |numerator: usize| {
                let position = numerator * (sorted.len() - 1);
                let [low, high] = [sorted[position / 4], sorted[position.div_ceil(4)]].map(i128::from);
                // The largest distances have more digits than a float; they are never passed.
                let exact = low + (high - low) * (position % 4) as i128 / 4;
                (exact as i64, (high - low) >> 50)
            };
            let quartiles = time_quantiles(&cut(&array, &[3, 70]), &[0.25, 0.5, 0.75]).unwrap();
            prop_assert_eq!(quartiles.is_some(), !sorted.is_empty());
            for (number, quartile) in quartiles.into_iter().flatten().enumerate() {
                let (expected, slack) = quarter(number + 1);
                prop_assert!(quartile.abs_diff(expected) as i128 <= slack, "{} {}", quartile, expected);
            }
        }
    }

    /// Returns arrays of all types of integers and decimals, and the divisor of each.
    ///
    /// Their values lie at the given distances from an origin with more digits than a float has.
    fn shifted(origin: i64, distances: &[Option<i64>]) -> Vec<(ArrayRef, f64)> {
        let wide = |distance: i64| 10i128.pow(36) + i128::from(origin) + i128::from(distance);
        let widest = |distance: i64| i256::from_i128(10).wrapping_pow(70).wrapping_add(i256::from_i128(wide(distance)));
        let unsigned = |distance: i64| origin.cast_unsigned().wrapping_add(1 << 63).wrapping_add_signed(distance);
        let narrow = distances.iter().map(|distance| distance.map(|distance| origin + distance));
        let narrow: Int64Array = narrow.collect();
        let unsigned: UInt64Array = distances.iter().map(|distance| distance.map(unsigned)).collect();
        let cents: Decimal64Array = narrow.iter().collect();
        let wide: Decimal128Array = distances.iter().map(|distance| distance.map(wide)).collect();
        let widest: Decimal256Array = distances.iter().map(|distance| distance.map(widest)).collect();
        vec![
            (Arc::new(narrow) as ArrayRef, 1.0),
            (Arc::new(unsigned), 1.0),
            (Arc::new(cents.with_precision_and_scale(18, 2).unwrap()), 100.0),
            (Arc::new(wide.with_precision_and_scale(38, 2).unwrap()), 100.0),
            (Arc::new(widest.with_precision_and_scale(76, 2).unwrap()), 100.0),
        ]
    }

    /// Computes the variance as the mean of half the squared distances of all pairs.
    fn variance_of_pairs(numbers: &[i64]) -> Option<f64> {
        let mut squares = i256::ZERO;
        for (at, &number) in numbers.iter().enumerate() {
            for &other in &numbers[at + 1..] {
                let distance = i256::from_i128(i128::from(number) - i128::from(other));
                squares = squares.wrapping_add(distance.wrapping_mul(distance));
            }
        }
        let pairs = numbers.len() * numbers.len().saturating_sub(1);
        (pairs > 0).then(|| decimal_to_f64(squares, 0) / pairs as f64)
    }

    fn is_near(actual: Option<f64>, expected: Option<f64>) -> bool {
        actual.zip(expected).map_or(actual == expected, |(a, b)| (a - b).abs() <= 1e-13 * b.abs())
    }

    proptest! {
        #[test]
        fn var_of_large_integers_equals_var_of_their_distances(
            origin in -900_000_000_000_000_000i64..900_000_000_000_000_000,
            distances in prop::collection::vec(prop::option::weighted(0.8, -1000i64..1000), 0..80),
        ) {
            let expected = variance_of_pairs(&distances.iter().flatten().copied().collect::<Vec<_>>());
            for (array, unit) in shifted(origin, &distances) {
                let column = cut(&array, &[3, 30]);
                let [var, std] = [column.var().unwrap(), column.std().unwrap()];
                let [expected, root] = [expected.map(|var| var / unit / unit), expected.map(|var| var.sqrt() / unit)];
                prop_assert!(is_near(var, expected), "{:?} {:?} {:?}", array.data_type(), var, expected);
                prop_assert!(is_near(std, root), "{:?} {:?} {:?}", array.data_type(), std, root);
            }
        }

        #[test]
        fn var_of_integers_equals_var_of_their_pairs(
            numbers in prop::collection::vec(prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX)], 0..40),
        ) {
            let variance = cut(&(Arc::new(Int64Array::from(numbers.clone())) as ArrayRef), &[5]).var().unwrap();
            let expected = variance_of_pairs(&numbers);
            prop_assert!(is_near(variance, expected), "{:?} {:?}", variance, expected);
        }
    }

    #[test]
    fn var_of_the_largest_integers_does_not_overflow() {
        let numbers = [u64::MAX; 200].into_iter().chain([0; 200]);
        let variance = cut(&(Arc::new(UInt64Array::from_iter_values(numbers)) as ArrayRef), &[5]).var().unwrap();
        assert!(is_near(variance, Some(2f64.powi(128) * 100.0 / 399.0)), "{variance:?}");
    }

    #[test]
    fn var_of_groups_equals_var_of_their_distances() {
        let rows = 200_000;
        let distances: Vec<Option<i64>> = (0..rows).map(|row| Some(row * row % 1001)).collect();
        let keys = Arc::new(Int8Array::from_iter_values((0..rows).map(|row| (row % 3) as i8))) as ArrayRef;
        let expected = [0, 1, 2].map(|key| {
            let group: Vec<i64> = distances.iter().flatten().copied().skip(key).step_by(3).collect();
            let [n, sum, squares] =
                group.iter().fold([0, 0, 0], |[n, sum, squares], x| [n + 1, sum + x, squares + x * x]);
            let [n, sum, squares] = [n, sum, squares].map(i128::from);
            ((n * squares - sum * sum) as f64 / (n * (n - 1)) as f64).sqrt()
        });
        for (array, unit) in shifted(1_700_000_000_000_000_000 / 2, &distances) {
            let results = [[].as_slice(), &[70_000, 131_072], &[1]].map(|cuts| {
                let batch = |start: usize, stop: usize| {
                    let columns =
                        [("key", &keys), ("x", &array)].map(|(name, all)| (name, all.slice(start, stop - start)));
                    RecordBatch::try_from_iter(columns).unwrap()
                };
                let ends: Vec<usize> = [0].iter().chain(cuts).chain(&[rows as usize]).copied().collect();
                let batches: Vec<_> = ends.windows(2).map(|ends| batch(ends[0], ends[1])).collect();
                let dataset = Dataset::try_from(batches).unwrap();
                let groups = dataset.aggregate(&["key"]).column("x", AggregateFunction::Std).finish().unwrap();
                [0, 1, 2].map(|row| to_float(&groups.row(row).unwrap().get(1).unwrap()).unwrap())
            });
            for (result, expected) in results[0].iter().zip(expected) {
                assert!(is_near(Some(*result), Some(expected / unit)), "{} {result} {expected}", array.data_type());
            }
            assert!(results.iter().all(|other| other.map(f64::to_bits) == results[0].map(f64::to_bits)));
        }
    }

    #[test]
    fn columns_of_nulls_are_described_grouped_and_sorted() {
        let nulls = Arc::new(NullArray::new(5)) as ArrayRef;
        let column = cut(&nulls, &[2]);
        assert_eq!((column.n_unique().unwrap(), column.value_counts().unwrap().len().unwrap()), (1, 1));
        assert!(matches!((column.min().unwrap(), column.max().unwrap()), (Value::Null, Value::Null)));
        let dataset = column.as_dataset();
        assert_eq!(dataset.unique::<&str>(&[]).unwrap().len().unwrap(), 1);
        assert_eq!(dataset.sort(&[(column.name(), true)]).unwrap().len().unwrap(), 5);
        let error = column.sum().unwrap_err();
        assert!(error.message().ends_with("of type null is not supported"), "{error}");
    }

    #[test]
    fn nulls_and_nan_are_ignored_as_documented() {
        let floats =
            Arc::new(Float64Array::from(vec![Some(1.0), None, Some(f64::NAN), Some(3.0), Some(-0.0)])) as ArrayRef;
        let column = cut(&floats, &[2]);
        assert_eq!(column.quantile(0.5).unwrap(), Some(1.0));
        assert!(column.var().unwrap().is_some_and(f64::is_nan));
        assert_eq!(column.n_unique().unwrap(), 5);
        let flags = |flags: &[Option<bool>]| cut(&(Arc::new(BooleanArray::from(flags.to_vec())) as ArrayRef), &[1]);
        let of = |column: Column| (column.any().unwrap(), column.all().unwrap());
        assert_eq!(of(flags(&[Some(true), None])), (true, true));
        assert_eq!(of(flags(&[Some(false), Some(true)])), (true, false));
        assert_eq!(of(flags(&[None, None])), (false, true));
        assert!(
            column.any().is_err() && column.quantile(1.5).is_err() && flags(&[None]).quantile(0.5).unwrap().is_none()
        );
    }
}
