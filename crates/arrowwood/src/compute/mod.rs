//! Computes on mapped columns: in parallel, at memory speed.
//!
//! The rooms, in the order to read them, where each uses only those before it:
//! - `random` draws random numbers and orders, and `scan` reads the rows of a dataset in blocks.
//! - `selection` stores which rows are selected, and `kernels` has loops over values.
//! - `expr` evaluates conditions and expressions, and `gather` copies rows by number.
//! - `view` shows rows that satisfy a condition, or rows in another order.
//! - `group` groups rows and aggregates groups.
//! - `reduce` reduces columns to one value, `sort` sorts rows, and `statistics` describes columns.
//!
//! Results never depend on the number of threads or on the boundaries of batches.
//!
//! Four modules are built on `dataset`, and none of them uses another: `ipc`, `compute`, `text` and `cdata`.
//!
//! What a caller computes is a method of [`Dataset`](crate::Dataset) or [`Column`](crate::Column), and stands in the
//! room that computes it.

// The documentation shows the methods of `Dataset` and `Column` in the order of these modules.
mod view;

mod sort;

mod group;

mod gather;

mod reduce;

mod statistics;

mod expr;
mod kernels;
mod random;
mod scan;
mod selection;

pub use expr::{Expression, Literal, Operator, Predicate, TimePart, col};
pub use gather::GatheredRows;
pub use group::{AggregateFunction, Aggregation, AggregationProgress, IncrementalAggregation};
pub use random::EpochOrder;

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::Arc;

    use arrow_array::*;
    use arrow_buffer::{Buffer, NullBuffer, i256};
    use arrow_data::ArrayData;
    use arrow_schema::{DataType, IntervalUnit, TimeUnit};
    use proptest::prelude::*;

    use super::reduce::extreme::{find_extreme_row, find_extreme_value};
    use super::scan::{BLOCK, Blocks};
    use crate::{Bytes, Column, Dataset, ErrorKind, Format, OpenOptions, Value, WriteOptions, write_to};

    fn column(chunks: impl IntoIterator<Item = ArrayRef>) -> Column {
        let batch = |chunk| RecordBatch::try_from_iter_with_nullable([("c", chunk, true)]).unwrap();
        let batches: Vec<_> = chunks.into_iter().map(batch).collect();
        Dataset::try_from(batches).unwrap().column("c").unwrap()
    }

    /// Returns `array` in batches that begin at `cuts`.
    pub(super) fn cut(array: &ArrayRef, cuts: &[usize]) -> Column {
        let mut ends: Vec<usize> = cuts.iter().map(|&cut| cut % (array.len() + 1)).chain([0, array.len()]).collect();
        ends.sort_unstable();
        column(ends.windows(2).map(|ends| array.slice(ends[0], ends[1] - ends[0])))
    }

    fn fixed_width() -> Vec<DataType> {
        use DataType::*;
        let unit = TimeUnit::Millisecond;
        vec![
            Int8,
            UInt8,
            Int16,
            UInt16,
            Int32,
            UInt32,
            Int64,
            UInt64,
            Float16,
            Float32,
            Float64,
            Date32,
            Date64,
            Time32(unit),
            Time64(TimeUnit::Nanosecond),
            Timestamp(unit, Some("UTC".into())),
            Duration(unit),
            Decimal32(9, 2),
            Decimal64(18, 2),
            Decimal128(38, 2),
            Decimal256(76, -2),
        ]
    }

    /// Returns numbers of any bits, many at the ends of their range, some null.
    fn numbers(data_type: &DataType, seeds: &[Option<u8>]) -> ArrayRef {
        let width = data_type.primitive_width().unwrap();
        let raw = |(row, seed): (usize, &Option<u8>)| -> Vec<u8> {
            let seed = seed.unwrap_or(0x55);
            let byte = |i: usize| match seed {
                0 => 0,
                1 if i + 1 == width => 0x7f,
                1 => 0xff,
                2 if i + 1 == width => 0x80,
                2 => 0,
                3 => 0xff,
                _ => seed.wrapping_mul(7).wrapping_add((row * 31 + i * 13) as u8),
            };
            (0..width).map(byte).collect()
        };
        let bytes: Vec<u8> = seeds.iter().enumerate().flat_map(raw).collect();
        let nulls: NullBuffer = seeds.iter().map(Option::is_some).collect();
        let data = ArrayData::builder(data_type.clone()).len(seeds.len()).nulls(Some(nulls));
        make_array(data.add_buffer(Buffer::from_vec(bytes)).align_buffers(true).build().unwrap())
    }

    fn bits(value: Value<'_>) -> u64 {
        match value {
            Value::Float64(number) => number.to_bits(),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn min_and_max_equal_a_loop_over_cells(
            seeds in prop::collection::vec(prop::option::weighted(0.8, 0u8..20), 0..300),
            cuts in prop::collection::vec(any::<usize>(), 0..6),
            start in 0u64..50,
        ) {
            for data_type in fixed_width() {
                let column = cut(&numbers(&data_type, &seeds), &cuts).slice(start, 200).unwrap();
                let blocks = Blocks::build(&column).unwrap();
                for wanted in [Ordering::Less, Ordering::Greater] {
                    let cells = format!("{:?}", find_extreme_value(&blocks, wanted).unwrap());
                    if let Some(row) = find_extreme_row(&blocks, &data_type, wanted) {
                        prop_assert_eq!(format!("{:?}", column.get(row).unwrap()), cells);
                    } else {
                        prop_assert!(cells == "Null" || cells.contains("NaN"), "{} {}", data_type, cells);
                    }
                }
            }
        }

        #[test]
        fn sums_of_integers_are_exact(
            seeds in prop::collection::vec(prop::option::weighted(0.8, 0u8..20), 0..300),
            cuts in prop::collection::vec(any::<usize>(), 0..6),
        ) {
            for data_type in fixed_width().into_iter().filter(DataType::is_integer) {
                let column = cut(&numbers(&data_type, &seeds), &cuts);
                let naive: i128 = column.values().map(|value| match value.unwrap() {
                    Value::Int(number) => number.into(),
                    Value::UInt(number) => number.into(),
                    _ => 0,
                }).sum();
                prop_assert!(matches!(column.sum().unwrap(), Value::Int128(sum) if sum == naive), "{}", data_type);
            }
        }

        #[test]
        fn min_and_max_of_dictionaries_and_texts_equal_those_of_values(
            keys in prop::collection::vec(prop::option::weighted(0.8, 0i8..6), 0..30),
            cuts in prop::collection::vec(any::<usize>(), 0..6),
        ) {
            let words = ["pear", "apple", "", "fig", "żółć"];
            let values = StringArray::from_iter(words.iter().map(|word| Some(*word)).chain([None]));
            let dictionary: ArrayRef = Arc::new(DictionaryArray::new(Int8Array::from(keys.clone()), Arc::new(values)));
            let text = keys.iter().map(|key| words.get((*key)? as usize).copied());
            let naive = format!("{:?}", text.clone().flatten().min().map_or(Value::Null, Value::Str));
            for array in [dictionary, Arc::new(StringArray::from_iter(text)) as ArrayRef] {
                prop_assert_eq!(format!("{:?}", cut(&array, &cuts).min().unwrap()), naive.clone());
            }
        }
    }

    #[test]
    fn sums_do_not_depend_on_threads_or_batches() {
        let value = |i: i32| (i % 7 != 3).then(|| f64::from(i).sin() * 1e9);
        let array: ArrayRef = Arc::new((0..400_000).map(value).collect::<Float64Array>());
        let expected = bits(column([array.clone()]).sum().unwrap());
        let naive: f64 = (0..400_000).filter_map(value).sum();
        assert!((f64::from_bits(expected) - naive).abs() < 1.0);
        let cuts: Vec<usize> = (0..700).map(|i| i * i * 7919).collect();
        assert_eq!(bits(cut(&array, &cuts).sum().unwrap()), expected);
        let few: Vec<u64> = (0..3)
            .map(|start| bits(column([array.clone()]).slice(start, BLOCK as u64).unwrap().sum().unwrap()))
            .collect();
        assert_eq!(few[1], bits(cut(&array, &cuts).slice(1, BLOCK as u64).unwrap().sum().unwrap()));
    }

    #[test]
    fn nan_affects_sums_but_not_min_and_max() {
        let c = column([Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(2.0), None, Some(-1.0)])) as ArrayRef]);
        assert!(matches!(c.sum().unwrap(), Value::Float64(sum) if sum.is_nan()));
        assert!(matches!(c.min().unwrap(), Value::Float64(-1.0)));
        let only = column([Arc::new(Float64Array::from(vec![None, Some(f64::NAN)])) as ArrayRef]);
        assert!(matches!(only.max().unwrap(), Value::Float64(v) if v.is_nan()));
        let infinite = column([Arc::new(Float64Array::from(vec![f64::NAN, f64::INFINITY])) as ArrayRef]);
        assert!(matches!(infinite.min().unwrap(), Value::Float64(f64::INFINITY)));
    }

    #[test]
    fn means_of_decimals_keep_their_sign() {
        let mean = |values: Vec<i256>, scale: i8| {
            let array = Decimal256Array::from(values).with_precision_and_scale(76, scale).unwrap();
            column([Arc::new(array) as ArrayRef]).mean().unwrap()
        };
        let small = |values: &[i128]| values.iter().map(|&value| i256::from_i128(value)).collect::<Vec<_>>();
        assert_eq!(mean(small(&[-100, -300]), 2), Some(-2.0));
        assert_eq!(mean(small(&[100, -300]), 2), Some(-1.0));
        assert_eq!(mean(small(&[300]), -2), Some(30_000.0));
        assert_eq!(mean(vec![i256::MIN], 0), Some(-(2f64.powi(255))));
        assert_eq!(mean(vec![i256::MAX], 0), Some(2f64.powi(255)));
        assert_eq!(mean(small(&[i128::MIN, i128::MIN]), 0), Some(-(2f64.powi(127))));
        assert_eq!(mean(Vec::new(), 0), None);
        let mistaken = column([Arc::new(Decimal64Array::from(vec![-1_000_000])) as ArrayRef]);
        assert_eq!(mistaken.mean().unwrap().map(f64::signum), Some(-1.0));
    }

    #[test]
    fn rows_without_bytes_take_no_memory() {
        let nulls = column([Arc::new(NullArray::new(1 << 50)) as ArrayRef]);
        assert_eq!(nulls.sum().unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(matches!(nulls.min().unwrap(), Value::Null));
        assert_eq!(nulls.n_unique().unwrap_err().kind(), ErrorKind::Unsupported);
        let sorted = nulls.as_dataset().sort(&[(nulls.name(), false)]).unwrap();
        assert_eq!(sorted.len().unwrap(), 1 << 50);
        assert_eq!((nulls.count().unwrap(), nulls.null_count().unwrap()), (0, 1 << 50));
        let empty = |rows| ArrayData::builder(DataType::FixedSizeBinary(0)).len(rows).add_buffer(Buffer::default());
        let nothing = make_array(empty(1 << 42).build().unwrap());
        assert!(matches!(column([nothing.clone()]).max().unwrap(), Value::Bytes(b"")));
        let keys = DictionaryArray::new(Int8Array::from(vec![None, Some(1)]), nothing);
        assert!(matches!(column([Arc::new(keys) as ArrayRef]).max().unwrap(), Value::Bytes(b"")));
    }

    #[test]
    fn map_reduce_takes_chunks_in_order_and_aligned() {
        let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200_000));
        let mut bytes = vec![0];
        let options = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
        write_to(cut(&array, &[70_000, 70_001]).as_dataset(), &mut bytes, &options).unwrap();
        let bytes = Bytes::from(Buffer::from_vec(bytes).slice(1));
        let column = OpenOptions::new().bytes(bytes).unwrap().column("c").unwrap();
        let values = |chunk: &ArrayData| {
            assert!(chunk.len() <= BLOCK);
            Int64Array::from(chunk.clone()).values().to_vec()
        };
        let all = column.map_reduce(values, |a, b| [a, b].concat()).unwrap().unwrap();
        assert!(all.into_iter().eq(0..200_000));
        assert_eq!(column.slice(0, 0).unwrap().map_reduce(|chunk| chunk.len(), |a, b| a + b).unwrap(), None);
    }

    #[test]
    fn text_and_intervals_have_no_sum() {
        let c = column([Arc::new(StringArray::from(vec![Some("pear"), None, Some("apple")])) as ArrayRef]);
        assert!(matches!(c.min().unwrap(), Value::Str("apple")));
        assert!(matches!(c.max().unwrap(), Value::Str("pear")));
        assert_eq!(c.sum().unwrap_err().kind(), ErrorKind::Unsupported);
        let interval = column([new_null_array(&DataType::Interval(IntervalUnit::YearMonth), 3)]);
        assert_eq!(interval.sum().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(interval.max().unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
