//! Rows taken, filtered and shuffled are those that single cells show: every type of column there is, every golden file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date64Array, Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray,
    Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{
    AggregateFunction, Column, Dataset, ErrorKind, Format, OpenOptions, Value, WriteOptions, col, open, write_to,
};

use crate::samples::{dataset, samples};

fn cells(dataset: &Dataset) -> Vec<String> {
    dataset.rows().map(|row| cells_in(row.unwrap())).collect()
}

fn cells_in(row: arrowwood::Row<'_>) -> String {
    let values = row.iter().map(|(name, value)| format!("{name}={}", value.unwrap().to_json().unwrap()));
    values.collect::<Vec<_>>().join("|")
}

/// Rows in an order that has repetitions, gaps, and jumps between batches.
fn some_rows(len: u64) -> Vec<i64> {
    let len = len as i64;
    (0..2 * len).map(|i| (i * 7919 + i / 3) % len - if i % 3 == 0 { len } else { 0 }).collect()
}

fn check(name: &str, dataset: &Dataset) {
    let expected = cells(dataset);
    let len = expected.len();
    if len == 0 {
        assert_eq!(dataset.take(&[]).unwrap().len().unwrap(), 0, "{name}");
        return;
    }
    let rows = some_rows(len as u64);
    let taken = dataset.take(&rows).unwrap_or_else(|e| panic!("{name}: {e}"));
    taken.validate(|_, _| ()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let wanted: Vec<_> = rows.iter().map(|&row| &expected[(row.rem_euclid(len as i64)) as usize]).collect();
    assert!(cells(&taken).iter().eq(wanted.iter().copied()), "{name}");
    let numbers = rows.iter().map(|&row| row.rem_euclid(len as i64) as u64);
    let each: Vec<_> = dataset.iter_rows_at(numbers.chain([len as u64])).collect();
    let (last, each) = each.split_last().unwrap();
    assert!(each.iter().map(|row| cells_in(*row.as_ref().unwrap())).eq(wanted.into_iter().cloned()), "{name}");
    assert_eq!(last.as_ref().unwrap_err().kind(), ErrorKind::RowOutOfRange, "{name}");
    for batch in taken.to_record_batches() {
        batch.unwrap_or_else(|e| panic!("{name}: {e}")).columns().iter().for_each(|column| {
            column.to_data().validate_full().unwrap_or_else(|e| panic!("{name}: {e}"));
        });
    }
    let shuffled = dataset.shuffle(3).unwrap();
    assert_eq!(shuffled.schema(), dataset.schema());
    // Once where the rows lie, once as columns.
    let seen = cells(&Dataset::concat(&[shuffled.slice(0, u64::MAX).unwrap()]).unwrap());
    let by_row: Vec<_> = (0..len as u64).map(|row| cells_of(&shuffled, row)).collect();
    assert_eq!(seen, by_row, "{name}");
    assert!(shuffled.iter_rows_at(0..len as u64).map(|row| cells_in(row.unwrap())).eq(by_row), "{name}");
    let mut sorted = [seen, expected.clone()];
    sorted.iter_mut().for_each(|rows| rows.sort());
    assert_eq!(sorted[0], sorted[1], "{name}");
    assert_eq!(dataset.sample(len as u64, 1).unwrap().len().unwrap(), len as u64);
}

fn cells_of(dataset: &Dataset, row: u64) -> String {
    cells_in(dataset.row(row).unwrap())
}

/// Whether rows are null, asked of the predicate, is what the cells say.
fn check_nulls(name: &str, dataset: &Dataset) {
    for field in dataset.schema().fields() {
        if dataset.schema().fields().iter().filter(|other| other.name() == field.name()).count() > 1 {
            continue;
        }
        let column = dataset.column(field.name()).unwrap();
        let found = dataset.filter(&col(field.name()).is_null()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found.len().unwrap(), column.null_count().unwrap(), "{name}: {}", field.name());
        let rest = dataset.filter(&!col(field.name()).is_null()).unwrap();
        assert_eq!(rest.len().unwrap(), column.count().unwrap(), "{name}: {}", field.name());
    }
}

#[test]
fn rows_of_every_type_are_gathered() {
    for array in samples() {
        let name = array.data_type().to_string();
        let whole = dataset(&array);
        check(&name, &whole);
        check_nulls(&name, &whole);
        // Several batches, some empty, and slices of arrays.
        let len = array.len();
        let cuts = [0, len / 3, len / 3, len / 2, len];
        let batch = |array: ArrayRef| RecordBatch::try_from_iter_with_nullable([("x", array, true)]).unwrap();
        let pieces = cuts.windows(2).map(|ends| batch(array.slice(ends[0], ends[1] - ends[0]))).collect::<Vec<_>>();
        let pieces = Dataset::try_from(pieces).unwrap();
        check(&name, &pieces);
        check(&name, &pieces.slice(1, len as u64 - 1).unwrap());
        // In place, in a file.
        let mut bytes = Vec::new();
        write_to(&pieces, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
        check(&name, &OpenOptions::new().bytes(bytes.into()).unwrap().slice(1, len as u64).unwrap());
    }
}

fn golden() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/arrow-testing");
    let corpus = std::env::var_os("ARROW_TESTING").map_or(beside, PathBuf::from);
    let (mut found, mut folders) = (Vec::new(), vec![corpus.join("golden")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let wanted = path.extension().is_some_and(|e| e == "stream");
            if path.is_dir() {
                folders.push(path)
            } else if wanted {
                found.push(path)
            }
        }
    }
    found
}

#[test]
fn rows_of_golden_files_are_gathered() {
    for path in golden() {
        let name = path.display().to_string();
        let dataset = open(&path).unwrap();
        check(&name, &dataset);
        check_nulls(&name, &dataset);
    }
}

/// Twelve batches with a dictionary of twelve words each have more words than one of int8 can: what is gathered comes in
/// several batches then, and in one where the words are the same.
#[test]
fn dictionaries_are_merged_as_far_as_their_keys_reach() {
    for (apart, batches) in [(12, 2), (1, 1), (0, 1)] {
        let batch = |number: usize| {
            let words = (0..12).map(|word| format!("word {}", number * apart + word));
            let keys = Int8Array::from_iter((0..13).map(|row| (row < 12).then_some(row)));
            let array = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from_iter_values(words)));
            RecordBatch::try_from_iter_with_nullable([("c", Arc::new(array) as ArrayRef, true)]).unwrap()
        };
        let dataset = Dataset::try_from((0..12).map(batch).collect::<Vec<_>>()).unwrap();
        let taken = dataset.take(&(0..156).rev().collect::<Vec<_>>()).unwrap();
        assert_eq!(taken.num_batches().unwrap(), batches);
        assert!(cells(&taken).into_iter().rev().eq(cells(&dataset)));
        check("dictionaries", &dataset);
        let found = dataset.filter(&col("c").eq("word 11")).unwrap();
        let naive = cells(&dataset).iter().filter(|cell| cell.as_str() == "c=\"word 11\"").count();
        assert_eq!(found.len().unwrap(), naive as u64);
    }
}

#[test]
fn rows_that_are_not_there_are_named() {
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

/// A column of one array, in memory.
fn of_array(array: ArrayRef) -> Column {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    Dataset::try_from(vec![batch]).unwrap().column("c").unwrap()
}

/// What there is to say of a column of numbers.
fn said(column: &Column) -> Vec<String> {
    let float = |number: Option<f64>| number.map_or("none".into(), |number| format!("{number:.9e}"));
    let value = |value: Value<'_>| match value {
        Value::Float64(number) => float(Some(number)),
        other => other.to_string(),
    };
    let quantiles = [0.0, 0.3, 0.5, 1.0].map(|q| float(column.quantile(q).unwrap()));
    let of = |function| {
        let dataset = column.as_dataset().aggregate::<&str>(&[]).column("c", function).finish().unwrap();
        value(dataset.row(0).unwrap().get(0).unwrap())
    };
    let moments = [column.mean().unwrap(), column.var().unwrap(), column.std().unwrap()].map(float);
    let mut said = vec![value(column.sum().unwrap()), value(column.min().unwrap()), value(column.max().unwrap())];
    said.extend(moments);
    said.extend(quantiles);
    said.extend(
        [
            AggregateFunction::Sum,
            AggregateFunction::Mean,
            AggregateFunction::Min,
            AggregateFunction::Max,
            AggregateFunction::Count,
        ]
        .map(of),
    );
    said
}

#[test]
fn numbers_behind_keys_count_as_often_as_they_are_there() {
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
        let plain = arrow_select::take::take(&values, &keys, None).unwrap();
        let [by_key, plain] = [Arc::new(dictionary) as ArrayRef, plain].map(of_array);
        assert_eq!(said(&by_key), said(&plain), "{}", by_key.data_type());
    }
    let text = DictionaryArray::<Int8Type>::from_iter(["a", "b"]);
    assert_eq!(of_array(Arc::new(text)).sum().unwrap_err().kind(), ErrorKind::Unsupported);
}

/// Batches by the hundred are gone through without arrays of them; rows in memory have arrays.
#[test]
fn many_batches_say_what_one_says() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..20_000).map(|i| i * 7919 % 10_007 - 5000)));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..20_000).map(|i| f64::from(i).sin())));
    let nulls: ArrayRef = Arc::new(Int64Array::from_iter((0..20_000).map(|i| (i < 19_990 || i % 2 == 0).then_some(i))));
    for array in [numbers, floats, nulls] {
        let one = of_array(array.clone());
        let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
        let mut cuts = vec![0];
        cuts.extend((1..300).map(|i| i * i * 20_000 / 90_000).chain([20_000]));
        let batches = cuts.windows(2).map(|cut| batch.slice(cut[0], cut[1] - cut[0])).collect::<Vec<_>>();
        let many = Dataset::try_from(batches).unwrap();
        for format in [Format::File, Format::Stream] {
            let mut bytes = Vec::new();
            write_to(&many, &mut bytes, &WriteOptions { format, ..WriteOptions::default() }).unwrap();
            let many = OpenOptions::new().bytes(bytes.into()).unwrap();
            assert!(many.num_batches().unwrap() > 100);
            assert_eq!(said(&many.column("c").unwrap()), said(&one));
            let (cut, one) = (many.slice(777, 15_000).unwrap(), one.slice(777, 15_000).unwrap());
            assert_eq!(said(&cut.column("c").unwrap()), said(&one));
            // Where values lie is kept from the first time.
            assert_eq!(
                cells(&cut.take(&[14_999, 0, -1]).unwrap()),
                cells(&one.as_dataset().take(&[14_999, 0, -1]).unwrap())
            );
            assert_eq!(cells(&cut.take(&[7, 7]).unwrap()), cells(&one.as_dataset().take(&[7, 7]).unwrap()));
        }
    }
}

/// More values than are sorted begin with the same bits, and many are the same.
#[test]
fn quantiles_are_exact_where_values_are_close() {
    let value = |i: u32| 1.0 + f64::from(i.wrapping_mul(2_654_435_761) % 1_000_003 / 7) * 1e-12;
    let values: Vec<f64> = (0..2_300_000).map(value).collect();
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    let column = of_array(Arc::new(Float64Array::from(values)));
    let shares = [0.0, 0.25, 0.5, 0.999, 1.0];
    let expected = shares.map(|share| {
        let place = share * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        low + (high - low) * place.fract()
    });
    assert_eq!(column.quantiles(&shares).unwrap().unwrap(), expected);
    let same = of_array(Arc::new(Float64Array::from(vec![0.1; 1_200_000])));
    assert_eq!(same.quantile(0.7).unwrap(), Some(0.1));
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

/// The newest rows, filtered again and again, as a service keeps them: on a stack that a chain of filters would overflow.
#[test]
fn a_window_that_is_filtered_for_ever_does_not_grow() {
    let slide = || {
        let mut window = numbers(0, 3);
        for next in 3..3_000 {
            let all = Dataset::concat(&[window, numbers(next, next + 1)]).unwrap();
            let kept = all.filter(&col("n").ge(next - 3)).unwrap();
            window = kept.slice(1, kept.len().unwrap() - 1).unwrap();
        }
        cells(&window)
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(slide).unwrap();
    assert_eq!(thread.join().unwrap(), ["n=2997", "n=2998", "n=2999"]);
}

#[test]
fn collected_rows_hold_nothing_else() {
    let all = Int64Array::from_iter_values(0..100_000);
    let buffer = all.values().inner().clone();
    let batch = RecordBatch::try_from_iter([("n", Arc::new(all) as ArrayRef)]).unwrap();
    let few = Dataset::try_from(vec![batch]).unwrap().filter(&col("n").eq(7)).unwrap();
    assert!(buffer.strong_count() > 1, "the rows are read in place");
    let copied = few.collect().unwrap();
    drop(few);
    assert_eq!(buffer.strong_count(), 1);
    assert_eq!(cells(&copied), ["n=7"]);
}

/// Each sample, and dictionaries of those that may be in one.
fn samples_and_dictionaries() -> Vec<ArrayRef> {
    let mut all = samples();
    let is_entry = |array: &&ArrayRef| {
        let data_type = array.data_type();
        data_type.is_primitive() || data_type.is_string() || matches!(data_type, DataType::Binary | DataType::Boolean)
    };
    let keys = Int8Array::from(vec![Some(2), None, Some(0), Some(2), Some(1)]);
    let entries: Vec<ArrayRef> = all.iter().filter(is_entry).cloned().collect();
    all.extend(entries.into_iter().map(|e| Arc::new(DictionaryArray::<Int8Type>::new(keys.clone(), e)) as ArrayRef));
    all
}

#[test]
fn a_function_of_any_type_has_a_result_or_is_unsupported() {
    use AggregateFunction::*;
    let is_said = |what: &str, array: &ArrayRef, kind: Option<ErrorKind>| {
        let is_known = matches!(kind, None | Some(ErrorKind::Unsupported | ErrorKind::InvalidArgument));
        assert!(is_known, "{what} of {}: {kind:?}", array.data_type());
    };
    for array in samples_and_dictionaries() {
        let few = dataset(&array);
        let name = few.schema().field(0).name().clone();
        let many = Dataset::concat(&vec![few.clone(); 40]).unwrap();
        for function in [Count, Sum, Mean, Min, Max, Var, Std, Median, NUnique, First, Last] {
            for rows in [&few, &many] {
                for by in [&[][..], &[name.as_str()]] {
                    let found = rows.aggregate(by).column_as("found", &name, function).finish();
                    is_said(&format!("{function} by {by:?}"), &array, found.as_ref().err().map(arrowwood::Error::kind));
                    let shown = found.map(|found| cells(&found));
                    let is_not_null =
                        rows.aggregate(by).column_as("found", &name, function).filter(col(&name).is_not_null());
                    let kept = is_not_null.finish();
                    assert_eq!(shown.is_ok(), kept.is_ok(), "{function} of {}: {:?}", array.data_type(), kept.err());
                }
            }
        }
        let column = few.column(&name).unwrap();
        let kinds = [
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
            ("describe", few.describe().map(drop)),
            ("sort", few.sort(&[(&name, true)]).map(drop)),
        ];
        for (what, result) in kinds {
            is_said(what, &array, result.err().map(|e| e.kind()));
        }
    }
}

#[test]
fn the_first_and_the_last_row_of_a_condition_are_found_among_its_bits() {
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
        let asked = rows.aggregate::<&str>(&[]).filter(condition).count_rows("count");
        let asked =
            asked.column_as("first", "n", AggregateFunction::First).column_as("last", "n", AggregateFunction::Last);
        assert_eq!(cells(&asked.finish().unwrap()), [expected]);
    }
}

#[test]
fn days_of_milliseconds_are_counted_once_each() {
    let day = 86_400_000;
    let days = Date64Array::from(vec![Some(0), Some(day), None, Some(3 * day), Some(day), Some(0)]);
    let dataset = dataset(&(Arc::new(days) as ArrayRef));
    let name = dataset.schema().field(0).name().clone();
    let counted = dataset.aggregate::<&str>(&[]).column_as("n", &name, AggregateFunction::NUnique).finish().unwrap();
    assert_eq!(cells(&counted), ["n=4"]);
    assert_eq!(dataset.column(&name).unwrap().n_unique().unwrap(), 4);
}

/// The first and the last category are not the least and the greatest number.
#[test]
fn categories_of_integers_are_counted_once_each() {
    let keys = Int8Array::from(vec![Some(0), Some(1), Some(2), None, Some(1)]);
    let sizes = DictionaryArray::try_new(keys, Arc::new(Int32Array::from(vec![1, 356, 67]))).unwrap();
    let field = Field::new("size", sizes.data_type().clone(), true).with_dict_is_ordered(true);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(sizes)]).unwrap();
    let dataset = Dataset::try_from(vec![batch]).unwrap();
    let counted = dataset.aggregate::<&str>(&[]).column_as("n", "size", AggregateFunction::NUnique).finish().unwrap();
    assert_eq!(cells(&counted), ["n=4"]);
    assert_eq!(dataset.column("size").unwrap().n_unique().unwrap(), 4);
}

/// The float in the first row of a column.
fn float_of(dataset: &Dataset, name: &str) -> f64 {
    match dataset.column(name).unwrap().get(0).unwrap() {
        Value::Float64(float) => float,
        other => panic!("{other}"),
    }
}

/// A power of ten beyond the 22nd is no float, and neither are digits beyond 2^53: both were rounded before they were divided.
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
            let by = rows.aggregate::<&str>(&[]).column_as("mean", &name, AggregateFunction::Mean).column_as(
                "median",
                &name,
                AggregateFunction::Median,
            );
            let found = by.finish().unwrap();
            assert_eq!(["mean", "median"].map(|name| float_of(&found, name)), [exact, exact], "{text}");
            for (data_type, float) in
                [(DataType::Float64, exact), (DataType::Float32, text.parse::<f32>().unwrap().into())]
            {
                let is_equal = col(&name).cast(data_type).eq(float);
                assert_eq!(rows.filter(&is_equal).unwrap().len().unwrap(), 1, "{text}");
            }
        }
    }
}

/// A sum of more than 256 bits has a mean of fewer, and the sum of what is added and taken away again fits.
#[test]
fn means_of_groups_are_there_where_their_sums_overflow() {
    let most = i256::from_string(&"9".repeat(76)).unwrap();
    let less = most.wrapping_div(i256::from_i128(7));
    let up = vec![most; 40];
    let down: Vec<i256> = up.iter().map(|digits| digits.wrapping_neg()).collect();
    let mixed = [vec![less; 33], vec![most; 50], vec![less.wrapping_neg(); 3]].concat();
    for (values, has_sum) in
        [(up.clone(), false), (down.clone(), false), (mixed, false), ([up, down, vec![less]].concat(), true)]
    {
        for scale in [0, 3, 76, -5] {
            let array = Decimal256Array::from(values.clone()).with_precision_and_scale(76, scale).unwrap();
            let rows = dataset(&(Arc::new(array) as ArrayRef));
            let name = rows.schema().field(0).name().clone();
            let whole: &[&str] = &[];
            let found = rows.aggregate(whole).column_as("mean", &name, AggregateFunction::Mean).finish().unwrap();
            let mean = float_of(&found, "mean");
            // Each value by itself, as a share of the whole.
            let unit: f64 = format!("1e{}", -i32::from(scale)).parse().unwrap();
            let share = |digits: &i256| digits.to_string().parse::<f64>().unwrap() / values.len() as f64;
            let expected = values.iter().map(share).sum::<f64>() * unit;
            let near = 1e-12 * "1e76".parse::<f64>().unwrap() * unit;
            assert!((mean - expected).abs() <= near, "{mean} instead of {expected}");
            if !has_sum {
                let column = rows.column(&name).unwrap().mean().unwrap().unwrap();
                assert!((mean - column).abs() <= 1e-14 * mean.abs(), "{mean} instead of {column}");
            }
            let sum = rows.aggregate(whole).column_as("sum", &name, AggregateFunction::Sum).finish();
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
        let found = rows.aggregate::<&str>(&[]).column_as("mean", &name, AggregateFunction::Mean).finish().unwrap();
        assert_eq!(float_of(&found, "mean"), expected);
    }
}

/// As the text of the number is read: a hundredth is no float.
#[test]
fn quantiles_of_decimals_are_the_nearest_floats() {
    for (digits, expected) in [(57, "0.57"), (30, "0.3"), (-7, "-0.07"), (123_456_789, "1234567.89")] {
        let decimals = Decimal128Array::from(vec![digits]).with_precision_and_scale(20, 2).unwrap();
        let found = of_array(Arc::new(decimals)).quantile(0.5).unwrap().unwrap();
        assert_eq!(found, expected.parse::<f64>().unwrap());
    }
}

/// Of each size that is treated in another way, with and without nulls, few shares and many.
#[test]
fn quantiles_are_those_of_sorted_values_at_each_size() {
    for rows in [1, 2, 3, 1_000, 32_767, 32_768, 100_000, 200_000, 600_000, 1_048_576, 1_048_577] {
        let value = |row: u32| (!row.is_multiple_of(5)).then(|| f64::from(row.wrapping_mul(2_654_435_761) >> 8) - 5e6);
        let values: Vec<Option<f64>> = (0..rows).map(value).collect();
        let mut sorted: Vec<f64> = values.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let column = of_array(Arc::new(Float64Array::from(values)));
        for count in [1, 3, 40] {
            let shares: Vec<f64> = (0..count).map(|share| f64::from(share) / f64::from(count) + 0.01).collect();
            let expected = (!sorted.is_empty()).then(|| {
                let quantile = |share: &f64| {
                    let place = share * (sorted.len() - 1) as f64;
                    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
                    low + (high - low) * place.fract()
                };
                shares.iter().map(quantile).collect::<Vec<_>>()
            });
            assert_eq!(column.quantiles(&shares).unwrap(), expected, "{rows} rows, {count} shares");
        }
    }
}

/// An iterator may do anything after its end.
#[test]
fn numbers_of_rows_are_not_asked_for_after_their_end() {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20));
    let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", n)]).unwrap()]).unwrap();
    let mut numbers = [Some(3), Some(5), None, Some(7)].into_iter();
    let rows = dataset.iter_rows_at(std::iter::from_fn(|| numbers.next().flatten()));
    let found: Vec<_> = rows.map(|row| row.unwrap().get(0).unwrap().to_string()).collect();
    assert_eq!(found, ["3", "5"]);
}
