//! Tests of computations: rows that are taken, filtered or shuffled, for all types and Arrow's golden files, and sums,
//! means, quantiles and other aggregates.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date64Array, Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray,
    Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_buffer::{Buffer, i256};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{
    AggregateFunction, Bytes, Column, Dataset, ErrorKind, Format, OpenOptions, Value, WriteOptions, col, open, write_to,
};

use crate::corpus::golden_files;
use crate::samples::{dataset, samples};

/// Returns all rows, each as a text of its cells.
fn read_rows(dataset: &Dataset) -> Vec<String> {
    dataset.rows().map(|row| format_row(row.unwrap())).collect()
}

fn format_row(row: arrowwood::Row<'_>) -> String {
    let cells = row.iter().map(|(name, value)| format!("{name}={}", value.unwrap().to_json().unwrap()));
    cells.collect::<Vec<_>>().join("|")
}

/// Returns numbers of rows in an order with repetitions, gaps and jumps between batches; some count from the end.
fn scattered_rows(len: u64) -> Vec<i64> {
    let len = len as i64;
    (0..2 * len)
        .map(|i| {
            let row = (i * 7919 + i / 3) % len;
            if i % 3 == 0 { row - len } else { row }
        })
        .collect()
}

/// Asserts that `take`, `iter_rows_at`, `shuffle` and `sample` return the rows that are read one by one.
fn check_selections(name: &str, dataset: &Dataset) {
    let all_rows = read_rows(dataset);
    if all_rows.is_empty() {
        assert_eq!(dataset.take(&[]).unwrap().len().unwrap(), 0, "{name}");
        return;
    }
    check_take(name, dataset, &all_rows);
    check_shuffle(name, dataset, all_rows);
}

fn check_take(name: &str, dataset: &Dataset, all_rows: &[String]) {
    let len = all_rows.len() as u64;
    let rows = scattered_rows(len);
    let positions: Vec<u64> = rows.iter().map(|&row| row.rem_euclid(len as i64) as u64).collect();
    let expected: Vec<_> = positions.iter().map(|&row| &all_rows[row as usize]).collect();

    let taken = dataset.take(&rows).unwrap_or_else(|e| panic!("{name}: {e}"));
    taken.validate(|_, _| ()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(read_rows(&taken).iter().eq(expected.iter().copied()), "{name}");
    for batch in taken.to_record_batches() {
        for column in batch.unwrap_or_else(|e| panic!("{name}: {e}")).columns() {
            column.to_data().validate_full().unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }

    let iterated: Vec<_> = dataset.iter_rows_at(positions.into_iter().chain([len])).collect();
    let (out_of_range, iterated) = iterated.split_last().unwrap();
    assert!(iterated.iter().map(|row| format_row(*row.as_ref().unwrap())).eq(expected.into_iter().cloned()), "{name}");
    assert_eq!(out_of_range.as_ref().unwrap_err().kind(), ErrorKind::RowOutOfRange, "{name}");
}

fn check_shuffle(name: &str, dataset: &Dataset, mut all_rows: Vec<String>) {
    let len = all_rows.len() as u64;
    let shuffled = dataset.shuffle(3).unwrap();
    assert_eq!(shuffled.schema(), dataset.schema());
    // `concat` gathers columns; single rows are read in place.
    let mut gathered = read_rows(&Dataset::concat(&[shuffled.slice(0, u64::MAX).unwrap()]).unwrap());
    let by_row: Vec<_> = (0..len).map(|row| format_row(shuffled.row(row).unwrap())).collect();
    assert_eq!(gathered, by_row, "{name}");
    assert!(shuffled.iter_rows_at(0..len).map(|row| format_row(row.unwrap())).eq(by_row), "{name}");
    gathered.sort();
    all_rows.sort();
    assert_eq!(gathered, all_rows, "{name}");
    assert_eq!(dataset.sample(len, 1).unwrap().len().unwrap(), len);
}

/// Asserts that filters by `is_null` find as many rows as the columns count.
fn check_null_filters(name: &str, dataset: &Dataset) {
    let fields = dataset.schema().fields();
    for field in fields {
        // A predicate can't refer to a column whose name isn't unique.
        if fields.iter().filter(|other| other.name() == field.name()).count() > 1 {
            continue;
        }
        let column = dataset.column(field.name()).unwrap();
        let nulls = dataset.filter(&col(field.name()).is_null()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(nulls.len().unwrap(), column.null_count().unwrap(), "{name}: {}", field.name());
        let non_nulls = dataset.filter(&!col(field.name()).is_null()).unwrap();
        assert_eq!(non_nulls.len().unwrap(), column.count().unwrap(), "{name}: {}", field.name());
    }
}

#[test]
fn rows_of_every_type_are_selected() {
    for array in samples() {
        let name = array.data_type().to_string();
        let one_batch = dataset(&array);
        check_selections(&name, &one_batch);
        check_null_filters(&name, &one_batch);

        // Several batches, one of them empty, of slices of arrays.
        let len = array.len();
        let cuts = [0, len / 3, len / 3, len / 2, len];
        let batch = |array: ArrayRef| RecordBatch::try_from_iter_with_nullable([("x", array, true)]).unwrap();
        let batches = cuts.windows(2).map(|cut| batch(array.slice(cut[0], cut[1] - cut[0]))).collect::<Vec<_>>();
        let batches = Dataset::try_from(batches).unwrap();
        check_selections(&name, &batches);
        check_selections(&name, &batches.slice(1, len as u64 - 1).unwrap());

        // The same, read in place from a stream.
        let mut bytes = Vec::new();
        write_to(&batches, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
        check_selections(&name, &OpenOptions::new().bytes(bytes.into()).unwrap().slice(1, len as u64).unwrap());
    }
}

#[test]
fn rows_of_golden_files_are_selected() {
    for path in golden_files(&[".stream"]) {
        let name = path.display().to_string();
        let dataset = open(&path).unwrap();
        check_selections(&name, &dataset);
        check_null_filters(&name, &dataset);
    }
}

/// Each of twelve batches has a dictionary of twelve words. Rows of all of them are gathered into one batch if a
/// dictionary with keys of type int8 can hold their different words, and else into several.
#[test]
fn dictionaries_are_merged_if_their_keys_suffice() {
    for (new_words_per_batch, expected_batches) in [(12, 2), (1, 1), (0, 1)] {
        let batch = |number: usize| {
            let words = (0..12).map(|word| format!("word {}", number * new_words_per_batch + word));
            let keys = Int8Array::from_iter((0..13).map(|row| (row < 12).then_some(row)));
            let array = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from_iter_values(words)));
            RecordBatch::try_from_iter_with_nullable([("c", Arc::new(array) as ArrayRef, true)]).unwrap()
        };
        let dataset = Dataset::try_from((0..12).map(batch).collect::<Vec<_>>()).unwrap();
        let reversed = dataset.take(&(0..156).rev().collect::<Vec<_>>()).unwrap();
        assert_eq!(reversed.num_batches().unwrap(), expected_batches);
        assert!(read_rows(&reversed).into_iter().rev().eq(read_rows(&dataset)));
        check_selections("dictionaries", &dataset);
        let filtered = dataset.filter(&col("c").eq("word 11")).unwrap();
        let expected_len = read_rows(&dataset).iter().filter(|row| row.as_str() == "c=\"word 11\"").count();
        assert_eq!(filtered.len().unwrap(), expected_len as u64);
    }
}

#[test]
fn missing_rows_and_columns_are_errors() {
    let dataset = dataset(&samples()[0]);
    let len = dataset.len().unwrap() as i64;
    for row in [len, -len - 1, i64::MIN, i64::MAX] {
        let e = dataset.take(&[0, row, 1]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::RowOutOfRange);
        assert!(e.to_string().contains(&format!("row {row} of a dataset of {len} rows")), "{e}");
    }
    assert_eq!(dataset.sample(len as u64 + 1, 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(dataset.filter(&col("y").eq(1)).unwrap_err().kind(), ErrorKind::ColumnNotFound);
}

/// Returns a column of one array, in memory.
fn column_of(array: ArrayRef) -> Column {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    Dataset::try_from(vec![batch]).unwrap().column("c").unwrap()
}

/// Formats a float with fewer digits than it has, as different orders of summation round differently.
fn format_float(number: Option<f64>) -> String {
    number.map_or("none".into(), |number| format!("{number:.9e}"))
}

fn format_value(value: Value<'_>) -> String {
    match value {
        Value::Float64(number) => format_float(Some(number)),
        other => other.to_string(),
    }
}

/// Returns reductions and aggregates of a column of numbers, as texts.
fn summarize(column: &Column) -> Vec<String> {
    use AggregateFunction::*;
    let mut summary = vec![
        format_value(column.sum().unwrap()),
        format_value(column.min().unwrap()),
        format_value(column.max().unwrap()),
        format_float(column.mean().unwrap()),
        format_float(column.var().unwrap()),
        format_float(column.std().unwrap()),
    ];
    for share in [0.0, 0.3, 0.5, 1.0] {
        summary.push(format_float(column.quantile(share).unwrap()));
    }
    for function in [Sum, Mean, Min, Max, Count] {
        let aggregated = column.as_dataset().aggregate::<&str>(&[]).column("c", function).finish().unwrap();
        summary.push(format_value(aggregated.row(0).unwrap().get(0).unwrap()));
    }
    summary
}

#[test]
fn dictionary_encoded_numbers_are_reduced_like_others() {
    let keys = Int8Array::from_iter((0..3000).map(|i| (i % 11 != 0).then_some((i * i % 5) as i8)));
    let decimals = Decimal128Array::from(vec![Some(150), Some(-3), None, Some(7), Some(99)]);
    let values: [ArrayRef; 4] = [
        Arc::new(Int64Array::from(vec![Some(i64::MIN / 4096), Some(3), None, Some(-5), Some(1 << 40)])),
        Arc::new(Float64Array::from(vec![Some(1.5), None, Some(-2.25), Some(1e3), Some(0.0)])),
        Arc::new(BooleanArray::from(vec![true, false, true, true, false])),
        Arc::new(decimals.with_precision_and_scale(20, 2).unwrap()),
    ];
    for values in values {
        let dictionary = DictionaryArray::<Int8Type>::new(keys.clone(), values.clone());
        let decoded = arrow_select::take::take(&values, &keys, None).unwrap();
        let encoded = column_of(Arc::new(dictionary));
        assert_eq!(summarize(&encoded), summarize(&column_of(decoded)), "{}", encoded.data_type());
    }
    let text = DictionaryArray::<Int8Type>::from_iter(["a", "b"]);
    assert_eq!(column_of(Arc::new(text)).sum().unwrap_err().kind(), ErrorKind::Unsupported);
}

/// Columns of hundreds of mapped batches are reduced without an array for each batch.
#[test]
fn many_batches_are_reduced_like_one() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..20_000).map(|i| i * 7919 % 10_007 - 5000)));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..20_000).map(|i| f64::from(i).sin())));
    let nulls: ArrayRef = Arc::new(Int64Array::from_iter((0..20_000).map(|i| (i < 19_990 || i % 2 == 0).then_some(i))));
    for array in [numbers, floats, nulls] {
        let one_batch = column_of(array.clone());
        let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
        let mut cuts = vec![0];
        cuts.extend((1..300).map(|i| i * i * 20_000 / 90_000).chain([20_000]));
        let batches = cuts.windows(2).map(|cut| batch.slice(cut[0], cut[1] - cut[0])).collect::<Vec<_>>();
        let in_memory = Dataset::try_from(batches).unwrap();
        for format in [Format::File, Format::Stream] {
            let mut bytes = Vec::new();
            write_to(&in_memory, &mut bytes, &WriteOptions { format, ..WriteOptions::default() }).unwrap();
            let many_batches = OpenOptions::new().bytes(bytes.into()).unwrap();
            assert!(many_batches.num_batches().unwrap() > 100);
            assert_eq!(summarize(&many_batches.column("c").unwrap()), summarize(&one_batch));

            let slice = many_batches.slice(777, 15_000).unwrap();
            let expected = one_batch.slice(777, 15_000).unwrap();
            assert_eq!(summarize(&slice.column("c").unwrap()), summarize(&expected));
            // The second `take` uses the cached locations of the values.
            for rows in [&[14_999, 0, -1][..], &[7, 7]] {
                let taken = slice.take(rows).unwrap();
                assert_eq!(read_rows(&taken), read_rows(&expected.as_dataset().take(rows).unwrap()));
            }
        }
    }
}

/// Returns the quantile of sorted values, interpolated linearly.
fn interpolated_quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let low = sorted[position.floor() as usize];
    let high = sorted[position.ceil() as usize];
    low + (high - low) * position.fract()
}

/// The leading bits select a bucket of values to sort. These have one bucket, too large to sort, with many duplicates.
#[test]
fn quantiles_of_close_values_are_exact() {
    let value = |i: u32| 1.0 + f64::from(i.wrapping_mul(2_654_435_761) % 1_000_003 / 7) * 1e-12;
    let values: Vec<f64> = (0..2_300_000).map(value).collect();
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    let column = column_of(Arc::new(Float64Array::from(values)));
    let shares = [0.0, 0.25, 0.5, 0.999, 1.0];
    let expected = shares.map(|share| interpolated_quantile(&sorted, share));
    assert_eq!(column.quantiles(&shares).unwrap().unwrap(), expected);
    let constant = column_of(Arc::new(Float64Array::from(vec![0.1; 1_200_000])));
    assert_eq!(constant.quantile(0.7).unwrap(), Some(0.1));
    let rank = sorted.partition_point(|&value| value < column.approx_quantile(0.25).unwrap().unwrap());
    assert!((rank as f64 / sorted.len() as f64 - 0.25).abs() < 0.003);
}

#[test]
fn the_mean_of_no_values_is_none() {
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
    let batch = RecordBatch::try_from_iter([("n", nulls)]).unwrap();
    let dataset = Dataset::try_from(vec![batch]).unwrap();
    assert_eq!(dataset.column("n").unwrap().mean().unwrap(), None);
}

fn numbers(from: i64, to: i64) -> Dataset {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    Dataset::try_from(vec![RecordBatch::try_from_iter([("n", n)]).unwrap()]).unwrap()
}

/// Appends a row to a window and filters out the oldest, thousands of times; returns the rows of the window.
fn slide_window() -> Vec<String> {
    let mut window = numbers(0, 3);
    for next in 3..3_000 {
        let extended = Dataset::concat(&[window, numbers(next, next + 1)]).unwrap();
        let filtered = extended.filter(&col("n").ge(next - 3)).unwrap();
        window = filtered.slice(1, filtered.len().unwrap() - 1).unwrap();
    }
    read_rows(&window)
}

/// The small stack would overflow if each filter referred to the previous one.
#[test]
fn repeated_filters_do_not_nest() {
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(slide_window).unwrap();
    assert_eq!(thread.join().unwrap(), ["n=2997", "n=2998", "n=2999"]);
}

#[test]
fn collected_rows_do_not_keep_other_rows_in_memory() {
    let all = Int64Array::from_iter_values(0..100_000);
    let buffer = all.values().inner().clone();
    let batch = RecordBatch::try_from_iter([("n", Arc::new(all) as ArrayRef)]).unwrap();
    let filtered = Dataset::try_from(vec![batch]).unwrap().filter(&col("n").eq(7)).unwrap();
    assert!(buffer.strong_count() > 1, "the rows are read in place");
    let collected = filtered.collect().unwrap();
    drop(filtered);
    assert_eq!(buffer.strong_count(), 1);
    assert_eq!(read_rows(&collected), ["n=7"]);
}

/// Returns the samples of all types, and dictionaries of the types that may be dictionary-encoded.
fn samples_and_dictionaries() -> Vec<ArrayRef> {
    let mut arrays = samples();
    let can_be_encoded = |array: &&ArrayRef| {
        let data_type = array.data_type();
        data_type.is_primitive() || data_type.is_string() || matches!(data_type, DataType::Binary | DataType::Boolean)
    };
    let keys = Int8Array::from(vec![Some(2), None, Some(0), Some(2), Some(1)]);
    let values: Vec<ArrayRef> = arrays.iter().filter(can_be_encoded).cloned().collect();
    for values in values {
        arrays.push(Arc::new(DictionaryArray::<Int8Type>::new(keys.clone(), values)));
    }
    arrays
}

/// Asserts that a call succeeded, or failed because the type doesn't support it.
fn assert_ok_or_unsupported(call: &str, array: &ArrayRef, error: Option<&arrowwood::Error>) {
    let is_expected = error.is_none_or(|e| matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidArgument));
    assert!(is_expected, "{call} of {}: {error:?}", array.data_type());
}

#[test]
fn functions_of_every_type_succeed_or_are_unsupported() {
    use AggregateFunction::*;
    for array in samples_and_dictionaries() {
        let one_batch = dataset(&array);
        let name = one_batch.schema().field(0).name().clone();
        let many_batches = Dataset::concat(&vec![one_batch.clone(); 40]).unwrap();
        for function in [Count, Sum, Mean, Min, Max, Var, Std, Median, NUnique, First, Last] {
            for rows in [&one_batch, &many_batches] {
                for by in [&[][..], &[name.as_str()]] {
                    let result = rows.aggregate(by).column_as("result", &name, function).finish();
                    assert_ok_or_unsupported(&format!("{function} by {by:?}"), &array, result.as_ref().err());
                    let is_ok = result.map(|result| read_rows(&result)).is_ok();
                    let filtered = rows
                        .aggregate(by)
                        .column_as("result", &name, function)
                        .filter(col(&name).is_not_null())
                        .finish();
                    assert_eq!(is_ok, filtered.is_ok(), "{function} of {}: {:?}", array.data_type(), filtered.err());
                }
            }
        }
        let column = one_batch.column(&name).unwrap();
        let results = [
            ("sum", column.sum().map(drop)),
            ("mean", column.mean().map(drop)),
            ("min", column.min().map(drop)),
            ("max", column.max().map(drop)),
            ("var", column.var().map(drop)),
            ("std", column.std().map(drop)),
            ("quantile", column.quantile(0.5).map(drop)),
            ("any", column.any().map(drop)),
            ("all", column.all().map(drop)),
            ("n_unique", column.n_unique().map(drop)),
            ("value_counts", column.value_counts().map(drop)),
            ("describe", one_batch.describe().map(drop)),
            ("sort", one_batch.sort(&[(&name, true)]).map(drop)),
        ];
        for (call, result) in results {
            assert_ok_or_unsupported(call, &array, result.as_ref().err());
        }
    }
}

/// The bounds of batches and conditions lie at and next to word boundaries of the bitmap of matching rows.
#[test]
fn first_and_last_of_a_filter_are_its_first_and_last_match() {
    let batches = [0..1000i64, 1000..1001, 1001..70_000, 70_000..200_000];
    let batch = |rows: &std::ops::Range<i64>| {
        let numbers: Int64Array = rows.clone().map(|n| (n % 7 != 0).then_some(n)).collect();
        RecordBatch::try_from_iter_with_nullable([("n", Arc::new(numbers) as ArrayRef, true)]).unwrap()
    };
    let rows = Dataset::try_from(batches.iter().map(batch).collect::<Vec<_>>()).unwrap();
    for (condition, expected) in [
        (col("n").ge(64) & col("n").le(128), "count=56|first=64|last=128"),
        (col("n").gt(999) & col("n").lt(1003), "count=2|first=1000|last=1002"),
        (col("n").eq(199_999), "count=1|first=199999|last=199999"),
        (col("n").eq(7), "count=0|first=null|last=null"),
        (col("n").is_null() & col("n").is_null(), "count=28572|first=null|last=null"),
        (col("n").ge(0), "count=171428|first=1|last=199999"),
    ] {
        let result = rows
            .aggregate::<&str>(&[])
            .filter(condition)
            .count_rows("count")
            .column_as("first", "n", AggregateFunction::First)
            .column_as("last", "n", AggregateFunction::Last)
            .finish()
            .unwrap();
        assert_eq!(read_rows(&result), [expected]);
    }
}

#[test]
fn days_of_milliseconds_are_counted_once_each() {
    let day = 86_400_000;
    let days = Date64Array::from(vec![Some(0), Some(day), None, Some(3 * day), Some(day), Some(0)]);
    let dataset = dataset(&(Arc::new(days) as ArrayRef));
    let name = dataset.schema().field(0).name().clone();
    let counted = dataset.aggregate::<&str>(&[]).column_as("n", &name, AggregateFunction::NUnique).finish().unwrap();
    assert_eq!(read_rows(&counted), ["n=4"]);
    assert_eq!(dataset.column(&name).unwrap().n_unique().unwrap(), 4);
}

/// The first and the last category are not the smallest and the largest number.
#[test]
fn categories_of_integers_are_counted_once_each() {
    let keys = Int8Array::from(vec![Some(0), Some(1), Some(2), None, Some(1)]);
    let sizes = DictionaryArray::try_new(keys, Arc::new(Int32Array::from(vec![1, 356, 67]))).unwrap();
    let field = Field::new("size", sizes.data_type().clone(), true).with_dict_is_ordered(true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(sizes)]).unwrap();
    let dataset = Dataset::try_from(vec![batch]).unwrap();
    let counted = dataset.aggregate::<&str>(&[]).column_as("n", "size", AggregateFunction::NUnique).finish().unwrap();
    assert_eq!(read_rows(&counted), ["n=4"]);
    assert_eq!(dataset.column("size").unwrap().n_unique().unwrap(), 4);
}

/// Regression test: comparing unaligned categories panicked.
#[test]
fn categories_of_unaligned_days_are_compared() {
    let day = 86_400_000;
    let keys = Int8Array::from(vec![Some(0), Some(1), Some(2), None, Some(1)]);
    let days = Date64Array::from(vec![3 * day, day, 2 * day]);
    let dates = DictionaryArray::try_new(keys, Arc::new(days)).unwrap();
    let field = Field::new("day", dates.data_type().clone(), true).with_dict_is_ordered(true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(dates)]).unwrap();
    let mut stream = vec![0];
    let options = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
    write_to(&Dataset::try_from(vec![batch]).unwrap(), &mut stream, &options).unwrap();
    let dataset = OpenOptions::new().bytes(Bytes::from(Buffer::from_vec(stream).slice(1))).unwrap();
    // Categories are compared by their positions: the third day is the first of them.
    let filtered = dataset.filter(&col("day").le(Value::Date(1))).unwrap();
    assert_eq!(filtered.len().unwrap(), 3);
}

/// Returns the float in the first row of a column.
fn first_float(dataset: &Dataset, name: &str) -> f64 {
    match dataset.column(name).unwrap().get(0).unwrap() {
        Value::Float64(float) => float,
        other => panic!("{other}"),
    }
}

/// Powers of ten above 10^22 and integers above 2^53 may not be exact floats. Decimals of such digits and scales were
/// once rounded before the division.
#[test]
fn decimals_of_any_scale_become_the_nearest_floats() {
    for (text, scale) in [("0.5", 37), ("0.1", 25), ("0.3", 38), ("-1.7", 30), ("12345678901234567.8", 20), ("3", 38)] {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction:0<width$}", width = scale as usize).parse::<i128>();
        let Ok(digits) = digits else { continue };
        let exact = text.parse::<f64>().unwrap();
        let narrow = Decimal128Array::from(vec![digits]).with_precision_and_scale(38, scale).unwrap();
        let wide = Decimal256Array::from(vec![i256::from_i128(digits)]).with_precision_and_scale(76, scale).unwrap();
        for decimals in [Arc::new(narrow) as ArrayRef, Arc::new(wide)] {
            let rows = dataset(&decimals);
            let name = rows.schema().field(0).name().clone();
            let column = rows.column(&name).unwrap();
            assert_eq!(column.mean().unwrap(), Some(exact), "{text}");
            assert_eq!(column.quantile(0.5).unwrap(), Some(exact), "{text}");
            let result = rows
                .aggregate::<&str>(&[])
                .column_as("mean", &name, AggregateFunction::Mean)
                .column_as("median", &name, AggregateFunction::Median)
                .finish()
                .unwrap();
            assert_eq!(["mean", "median"].map(|name| first_float(&result, name)), [exact, exact], "{text}");
            for (data_type, float) in
                [(DataType::Float64, exact), (DataType::Float32, text.parse::<f32>().unwrap().into())]
            {
                let is_equal = col(&name).cast(data_type).eq(float);
                assert_eq!(rows.filter(&is_equal).unwrap().len().unwrap(), 1, "{text}");
            }
        }
    }
}

/// A sum may exceed 256 bits although the mean doesn't. The sum of values that cancel out fits, even if partial sums
/// don't.
#[test]
fn means_are_computed_even_if_sums_overflow() {
    let max = i256::from_string(&"9".repeat(76)).unwrap();
    let seventh = max.wrapping_div(i256::from_i128(7));
    let positive = vec![max; 40];
    let negative = vec![max.wrapping_neg(); 40];
    let mixed = [vec![seventh; 33], vec![max; 50], vec![seventh.wrapping_neg(); 3]].concat();
    let cancelling = [positive.clone(), negative.clone(), vec![seventh]].concat();
    for (values, has_sum) in [(positive, false), (negative, false), (mixed, false), (cancelling, true)] {
        for scale in [0, 3, 76, -5] {
            let array = Decimal256Array::from(values.clone()).with_precision_and_scale(76, scale).unwrap();
            let rows = dataset(&(Arc::new(array) as ArrayRef));
            let name = rows.schema().field(0).name().clone();
            let no_keys: &[&str] = &[];
            let result = rows.aggregate(no_keys).column_as("mean", &name, AggregateFunction::Mean).finish().unwrap();
            let mean = first_float(&result, "mean");
            // The naive mean: the sum of each value's share, in floats.
            let unit: f64 = format!("1e{}", -i32::from(scale)).parse().unwrap();
            let share = |digits: &i256| digits.to_string().parse::<f64>().unwrap() / values.len() as f64;
            let expected = values.iter().map(share).sum::<f64>() * unit;
            let tolerance = 1e-12 * 1e76 * unit;
            assert!((mean - expected).abs() <= tolerance, "{mean} instead of {expected}");
            if !has_sum {
                let column = rows.column(&name).unwrap().mean().unwrap().unwrap();
                assert!((mean - column).abs() <= 1e-14 * mean.abs(), "{mean} instead of {column}");
            }
            let sum = rows.aggregate(no_keys).column_as("sum", &name, AggregateFunction::Sum).finish();
            assert_eq!(sum.is_ok(), has_sum);
        }
    }
}

#[test]
fn means_of_exact_sums_are_rounded_once() {
    let tenths = Decimal64Array::from(vec![1, 2, 3]).with_precision_and_scale(10, 1).unwrap();
    let large = Int64Array::from(vec![3 << 53, 0, 1]);
    for (array, expected) in [(Arc::new(tenths) as ArrayRef, 0.2), (Arc::new(large), 2f64.powi(53))] {
        let rows = dataset(&array);
        let name = rows.schema().field(0).name().clone();
        assert_eq!(rows.column(&name).unwrap().mean().unwrap(), Some(expected));
        let result = rows.aggregate::<&str>(&[]).column_as("mean", &name, AggregateFunction::Mean).finish().unwrap();
        assert_eq!(first_float(&result, "mean"), expected);
    }
}

/// A multiplication of the digits by 0.01, which isn't an exact float, would round twice.
#[test]
fn quantiles_of_decimals_are_the_nearest_floats() {
    for (digits, expected) in [(57, "0.57"), (30, "0.3"), (-7, "-0.07"), (123_456_789, "1234567.89")] {
        let decimals = Decimal128Array::from(vec![digits]).with_precision_and_scale(20, 2).unwrap();
        let median = column_of(Arc::new(decimals)).quantile(0.5).unwrap().unwrap();
        assert_eq!(median, expected.parse::<f64>().unwrap());
    }
}

/// The algorithm depends on the number of rows and of shares.
#[test]
fn quantiles_equal_a_naive_computation() {
    for rows in [1, 2, 3, 1_000, 32_767, 32_768, 100_000, 200_000, 600_000, 1_048_576, 1_048_577] {
        let value = |row: u32| (!row.is_multiple_of(5)).then(|| f64::from(row.wrapping_mul(2_654_435_761) >> 8) - 5e6);
        let values: Vec<Option<f64>> = (0..rows).map(value).collect();
        let mut sorted: Vec<f64> = values.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let column = column_of(Arc::new(Float64Array::from(values)));
        for count in [1, 3, 40] {
            let shares: Vec<f64> = (0..count).map(|share| f64::from(share) / f64::from(count) + 0.01).collect();
            let expected = if sorted.is_empty() {
                None
            } else {
                Some(shares.iter().map(|&share| interpolated_quantile(&sorted, share)).collect::<Vec<_>>())
            };
            assert_eq!(column.quantiles(&shares).unwrap(), expected, "{rows} rows, {count} shares");
        }
    }
}

/// An iterator that isn't fused may return more items after its end.
#[test]
fn iter_rows_at_ends_with_its_first_none() {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20));
    let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", n)]).unwrap()]).unwrap();
    let mut numbers = [Some(3), Some(5), None, Some(7)].into_iter();
    let rows = dataset.iter_rows_at(std::iter::from_fn(|| numbers.next().flatten()));
    let values: Vec<_> = rows.map(|row| row.unwrap().get(0).unwrap().to_string()).collect();
    assert_eq!(values, ["3", "5"]);
}
