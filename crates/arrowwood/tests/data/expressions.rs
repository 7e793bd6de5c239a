//! Tests of expressions over columns, in conditions and aggregates, against loops over rows.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_schema::DataType;
use arrowwood::{
    AggregateFunction, Aggregation, Dataset, Error, ErrorKind, Expression, Operator, Predicate, TimePart, Value, col,
};
use proptest::prelude::*;

/// The values of a row; each may be null.
#[derive(Clone, Copy, Debug, Default)]
struct TestRow {
    n: Option<i64>,
    small: Option<i16>,
    x: Option<f64>,
    short: Option<f32>,
    /// An index of [`WORDS`], modulo their number.
    word: Option<u8>,
}

const WORDS: [&str; 5] = ["", "fig", "a fig and more", "figs", "żółć"];

impl TestRow {
    fn text(&self) -> Option<&'static str> {
        self.word.map(|word| WORDS[usize::from(word) % WORDS.len()])
    }

    fn any() -> impl Strategy<Value = TestRow> {
        let columns = (
            prop::option::weighted(0.8, -1_000_000_000i64..1_000_000_000),
            prop::option::weighted(0.8, -300i16..300),
            prop::option::weighted(0.8, prop_oneof![-1e6..1e6f64, Just(f64::NAN), Just(0.0)]),
            prop::option::weighted(0.8, -1e3..1e3f32),
            prop::option::weighted(0.8, any::<u8>()),
        );
        columns.prop_map(|(n, small, x, short, word)| TestRow { n, small, x, short, word })
    }
}

fn create_batch(rows: &[TestRow]) -> RecordBatch {
    let words = Arc::new(StringArray::from(WORDS.to_vec())) as ArrayRef;
    let keys: Int8Array = rows.iter().map(|row| row.word.map(|word| (word % 5) as i8)).collect();
    let columns: [(&str, ArrayRef); 8] = [
        ("n", Arc::new(rows.iter().map(|row| row.n).collect::<Int64Array>())),
        ("small", Arc::new(rows.iter().map(|row| row.small).collect::<Int16Array>())),
        ("x", Arc::new(rows.iter().map(|row| row.x).collect::<Float64Array>())),
        ("short", Arc::new(rows.iter().map(|row| row.short).collect::<Float32Array>())),
        ("text", Arc::new(rows.iter().map(TestRow::text).collect::<StringArray>())),
        ("word", Arc::new(DictionaryArray::<Int8Type>::new(keys, words))),
        ("ts", Arc::new(rows.iter().map(|row| row.n).collect::<TimestampMillisecondArray>())),
        ("day", Arc::new(rows.iter().map(|row| row.small.map(i32::from)).collect::<Date32Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Returns a dataset whose batches begin at the given rows, modulo the number of rows.
fn create_dataset(rows: &[TestRow], cuts: &[usize]) -> Dataset {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (rows.len() + 1)).chain([0, rows.len()]).collect();
    ends.sort_unstable();
    let all_rows = create_batch(rows);
    let batches = ends.windows(2).map(|ends| all_rows.slice(ends[0], ends[1] - ends[0]));
    Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
}

fn one_batch(batch: RecordBatch) -> Dataset {
    Dataset::try_from(vec![batch]).unwrap()
}

/// A result of the naive computation.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn to_f64(self) -> f64 {
        match self {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        }
    }
}

/// Computes the value of an expression in a row; `None` is null.
type RowFunction = fn(&TestRow) -> Option<Number>;

/// Returns expressions, each with a function that computes the same.
fn expressions() -> Vec<(Expression, RowFunction)> {
    use Number::{Float, Int};
    vec![
        (col("n") + col("small"), |r| Some(Int(r.n? + i64::from(r.small?)))),
        (col("n") - 7, |r| Some(Int(r.n? - 7))),
        (Expression::from(7) - col("small"), |r| Some(Int(7 - i64::from(r.small?)))),
        (col("n") * col("small") * -3, |r| Some(Int(r.n? * i64::from(r.small?) * -3))),
        (-col("n"), |r| Some(Int(-r.n?))),
        (col("n") / col("small"), |r| Some(Float(r.n? as f64 / f64::from(r.small?)))),
        (col("n") % col("small"), |r| {
            let (a, b) = (r.n?, i64::from(r.small?));
            (b != 0).then(|| Int(a - b * (a as f64 / b as f64).floor() as i64))
        }),
        (col("x") * 2.5 + col("n"), |r| Some(Float(r.x? * 2.5 + r.n? as f64))),
        (col("x") % 3.0, |r| Some(Float(r.x? - 3.0 * (r.x? / 3.0).floor()))),
        (col("short") * col("small"), |r| Some(Float((r.short? * f32::from(r.small?)).into()))),
        (col("short") * 0.1 - col("short"), |r| Some(Float((r.short? * 0.1f32 - r.short?).into()))),
        (col("short") * col("n"), |r| Some(Float(f64::from(r.short?) * r.n? as f64))),
        (col("short").cast(DataType::Int64), |r| Some(Int(r.short?.trunc() as i64))),
        (col("n").cast(DataType::Float64) / 2, |r| Some(Float(r.n? as f64 / 2.0))),
        (col("ts").part(TimePart::Hour), |r| Some(Int(r.n?.div_euclid(3_600_000).rem_euclid(24)))),
        (col("ts").part(TimePart::Second) * 2, |r| Some(Int(r.n?.div_euclid(1_000).rem_euclid(60) * 2))),
        (col("ts").part(TimePart::Weekday), |r| Some(Int((r.n?.div_euclid(86_400_000) + 3).rem_euclid(7) + 1))),
        (col("ts").cast(DataType::Int64) + 1, |r| Some(Int(r.n? + 1))),
    ]
}

const OPERATORS: [Operator; 6] = [Operator::Eq, Operator::Ne, Operator::Lt, Operator::Le, Operator::Gt, Operator::Ge];

fn compare<T: PartialOrd>(a: T, operator: Operator, b: T) -> bool {
    match operator {
        Operator::Eq => a == b,
        Operator::Ne => a != b,
        Operator::Lt => a < b,
        Operator::Le => a <= b,
        Operator::Gt => a > b,
        Operator::Ge => a >= b,
    }
}

/// Returns the rows that a predicate matches, and the rows that its negation matches.
fn matches(dataset: &Dataset, predicate: &Predicate) -> [Vec<u64>; 2] {
    [predicate.clone(), !predicate.clone()].map(|predicate| dataset.matching_rows(&predicate).unwrap())
}

/// Returns the rows for which a function returns true, and the rows for which it returns false.
fn naive_matches(rows: &[TestRow], function: impl Fn(&TestRow) -> Option<bool>) -> [Vec<u64>; 2] {
    [true, false].map(|outcome| {
        let matching = (0..).zip(rows).filter(|(_, row)| function(row) == Some(outcome));
        matching.map(|(number, _)| number).collect()
    })
}

/// Returns true if two results are null, or equal but for rounding in a sum of `count` values.
fn is_close(actual: Option<f64>, expected: Option<f64>, count: usize) -> bool {
    let (Some(actual), Some(expected)) = (actual, expected) else { return actual.is_none() && expected.is_none() };
    let tolerance = 1e-9 * (1.0 + actual.abs().max(expected.abs()) * count as f64);
    actual == expected || actual.is_nan() && expected.is_nan() || (actual - expected).abs() <= tolerance
}

fn value_to_f64(value: &Value<'_>) -> Option<f64> {
    match *value {
        Value::Int(number) => Some(number as f64),
        Value::Float32(number) => Some(number.into()),
        Value::Float64(number) => Some(number),
        Value::Null => None,
        ref other => panic!("{other}"),
    }
}

proptest! {
    #[test]
    fn conditions_match_a_loop(
        rows in prop::collection::vec(TestRow::any(), 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
        limit in -100i32..100,
    ) {
        let dataset = create_dataset(&rows, &cuts);
        let limit = f64::from(limit);
        for (expression, function) in expressions() {
            for operator in OPERATORS {
                let with_literal = expression.clone().compare(operator, limit);
                let expected = naive_matches(&rows, |row| Some(compare(function(row)?.to_f64(), operator, limit)));
                prop_assert_eq!(matches(&dataset, &with_literal), expected, "{}", with_literal);

                let with_column = expression.clone().compare(operator, col("n"));
                let expected = naive_matches(&rows, |row| Some(match (function(row)?, row.n?) {
                    (Number::Int(a), b) => compare(a, operator, b),
                    (Number::Float(a), b) => compare(a, operator, b as f64),
                }));
                prop_assert_eq!(matches(&dataset, &with_column), expected, "{}", with_column);
            }
            let nulls = matches(&dataset, &expression.clone().is_null());
            prop_assert_eq!(nulls, naive_matches(&rows, |row| Some(function(row).is_none())), "{}", expression);
        }
    }

    #[test]
    fn aggregates_match_a_loop(
        rows in prop::collection::vec(TestRow::any(), 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        use AggregateFunction::*;
        let dataset = create_dataset(&rows, &cuts);
        for (expression, function) in expressions() {
            let mut aggregation = dataset.aggregate::<&str>(&[]).filter(col("small").gt(0) | col("small").is_null());
            for aggregate in [Count, Sum, Mean, Min, Max, Median] {
                aggregation = aggregation.expression_as(&aggregate.to_string(), expression.clone(), aggregate);
            }
            let result = aggregation.finish().unwrap();
            let cells: Vec<Option<f64>> =
                result.row(0).unwrap().iter().map(|(_, value)| value_to_f64(&value.unwrap())).collect();
            let [count, sum, mean, min, max, _median] = cells[..] else { panic!("{cells:?}") };

            let matching = rows.iter().filter(|row| row.small.is_none_or(|small| small > 0));
            let values: Vec<f64> = matching.filter_map(function).map(Number::to_f64).collect();
            let expected_sum: f64 = values.iter().sum();
            let expected_mean = (!values.is_empty()).then(|| expected_sum / values.len() as f64);
            prop_assert_eq!(count, Some(values.len() as f64));
            prop_assert!(is_close(sum, Some(expected_sum), values.len()), "{}: {:?} {}", expression, sum, expected_sum);
            prop_assert!(is_close(mean, expected_mean, values.len()), "{}", expression);
            let comparable: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
            if !comparable.is_empty() {
                let expected_min = comparable.iter().copied().reduce(f64::min);
                let expected_max = comparable.iter().copied().reduce(f64::max);
                prop_assert!(is_close(min, expected_min, values.len()), "{}", expression);
                prop_assert!(is_close(max, expected_max, values.len()), "{}", expression);
            }
        }
    }

    #[test]
    fn text_conditions_match_a_loop(
        rows in prop::collection::vec(TestRow::any(), 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        let dataset = create_dataset(&rows, &cuts);
        for column in ["text", "word"] {
            for pattern in ["", "fig", "ig", "s", "żó", "more and more", "a fig and more"] {
                let contains = matches(&dataset, &col(column).contains(pattern));
                prop_assert_eq!(contains, naive_matches(&rows, |row| Some(row.text()?.contains(pattern))), "{}", pattern);
                let starts = matches(&dataset, &col(column).starts_with(pattern));
                prop_assert_eq!(starts, naive_matches(&rows, |row| Some(row.text()?.starts_with(pattern))), "{}", pattern);
                let ends = matches(&dataset, &col(column).ends_with(pattern));
                prop_assert_eq!(ends, naive_matches(&rows, |row| Some(row.text()?.ends_with(pattern))), "{}", pattern);
            }
            for words in [&["fig", "figs"][..], &["", "a fig and more", "none"], &["none"], &[]] {
                let is_in = matches(&dataset, &col(column).is_in(words.iter().copied()));
                prop_assert_eq!(is_in, naive_matches(&rows, |row| Some(words.contains(&row.text()?))), "{:?}", words);
            }
        }
        let equal = matches(&dataset, &col("text").eq(col("word")));
        prop_assert_eq!(equal, naive_matches(&rows, |row| row.text().map(|_| true)));
    }
}

/// Batches are longer than the blocks in which expressions are evaluated, and begin at any row of a block.
#[test]
fn results_do_not_depend_on_the_bounds_of_batches() {
    let row = |i: i64| TestRow {
        n: Some(i),
        small: Some((i % 100) as i16),
        x: Some(i as f64 / 3.0),
        short: Some(1.5),
        word: Some((i % 5) as u8),
    };
    let rows: Vec<TestRow> = (0..150_000).map(row).collect();
    let is_match = |n: i64, small: i64| n * 2 + small > 100_000 && n != small;
    let predicate = (col("n") * 2 + col("small")).gt(100_000) & col("n").ne(col("small"));
    let expected = naive_matches(&rows, |row| Some(is_match(row.n?, row.small?.into())));
    for cuts in [vec![], vec![1, 70_000, 70_001, 140_000], (0..200).map(|i| i * 701).collect()] {
        let dataset = create_dataset(&rows, &cuts);
        assert_eq!(matches(&dataset, &predicate), expected);

        let sums = dataset
            .aggregate(&["small"])
            .filter(predicate.clone())
            .expression_as("sum", col("n") * col("small"), AggregateFunction::Sum)
            .finish()
            .unwrap();
        for row in sums.rows() {
            let [small, sum] = [0, 1].map(|column| row.as_ref().unwrap().get(column).unwrap().to_string());
            let small: i64 = small.parse().unwrap();
            let group = (0..150_000i64).filter(|&n| n % 100 == small && is_match(n, small));
            assert_eq!(sum, group.map(|n| n * small).sum::<i64>().to_string());
        }
    }
}

/// Returns the result of an aggregation without keys.
fn single_cell(aggregation: Aggregation<'_>) -> Result<String, Error> {
    let result = aggregation.finish()?;
    result.row(0)?.get(0).map(|value| value.to_string())
}

#[test]
fn overflow_is_an_error_only_in_selected_rows() {
    let rows = [
        TestRow { n: Some(i64::MAX), small: Some(2), short: Some(f32::NAN), ..TestRow::default() },
        TestRow { n: Some(1), small: Some(2), short: Some(1.0), ..TestRow::default() },
    ];
    let dataset = create_dataset(&rows, &[]);
    let product = col("n") * col("small");
    let error = dataset.filter(&product.clone().gt(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let expected =
        "(n * small) does not fit an integer of 64 bits in row 0; compute with floats, as by a cast to float64";
    assert_eq!(error.message(), expected);
    let sum = dataset.aggregate::<&str>(&[]).expression_as("sum", product, AggregateFunction::Sum);
    assert_eq!(single_cell(sum.clone().filter(col("n").lt(100))).unwrap(), "2");
    assert_eq!(single_cell(sum.clone().filter(col("n").lt(i64::MAX))).unwrap(), "2");
    assert_eq!(sum.finish().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let as_floats = dataset.filter(&(col("n").cast(DataType::Float64) * col("small")).gt(1e18)).unwrap();
    assert_eq!(as_floats.len().unwrap(), 1);
    let error = dataset.filter(&col("short").cast(DataType::Int64).gt(0)).unwrap_err();
    assert!(error.message().contains("does not fit an integer of 64 bits in row 0"), "{error}");
}

#[test]
fn errors_of_unsupported_expressions_recommend_an_engine() {
    let dataset = one_row_of_many_types();
    let unsupported: [Predicate; 9] = [
        (col("text") + 1).gt(0),
        col("zoned").part(TimePart::Hour).gt(0),
        col("time").part(TimePart::Year).gt(0),
        (col("n") + 1).part(TimePart::Year).gt(0),
        col("text").cast(DataType::Int64).gt(0),
        col("n").cast(DataType::Utf8).eq(1),
        col("text").gt(col("n")),
        (col("exact") * 2).gt(1),
        (col("n") + 1).contains("a"),
    ];
    for predicate in unsupported {
        let error = dataset.filter(&predicate).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("ask DuckDB or Polars"), "{error}");
    }
    let error = dataset.filter(&col("n").contains("a")).unwrap_err();
    assert_eq!(error.message(), "column 'n' of type int64 is no text that contains \"a\"");
    assert!(dataset.filter(&(col("large") - 1).gt(0)).is_err());
    let too_deep = (0..100_000).fold(col("n"), |deep, _| deep + 1);
    assert!(dataset.filter(&too_deep.gt(0)).unwrap_err().message().contains("at most 256 operations"));
}

#[test]
fn expressions_of_many_types_are_evaluated() {
    let dataset = one_row_of_many_types();
    let matches = |predicate: Predicate| dataset.filter(&predicate).unwrap().len().unwrap() == 1;
    assert!(matches(col("time").part(TimePart::Hour).eq(1)));
    assert!(matches(col("time").part(TimePart::Minute).eq(2)));
    assert!(matches(col("far").part(TimePart::Year).is_null()), "the year is out of range");
    assert!(matches(col("east").part(TimePart::Minute).eq(30)));
    assert!(matches(col("east").part(TimePart::Hour).eq(5)));
    assert!(matches((col("exact").cast(DataType::Float64) * 2).eq(2.0 * 1e-10)));
    assert!(matches(col("zoned").eq(col("zoned"))));
    assert!(matches((col("large").cast(DataType::Float64) - 1).gt(1e19)));
}

/// Returns a row whose columns have types that expressions support partly.
fn one_row_of_many_types() -> Dataset {
    let zoned = TimestampSecondArray::from(vec![0]).with_timezone("Europe/Paris");
    let batch = RecordBatch::try_from_iter([
        ("zoned", Arc::new(zoned) as ArrayRef),
        ("text", Arc::new(StringArray::from(vec!["a"]))),
        ("n", Arc::new(Int64Array::from(vec![1]))),
        ("exact", Arc::new(Decimal128Array::from(vec![1]))),
        ("time", Arc::new(Time32SecondArray::from(vec![3_723]))),
        ("far", Arc::new(TimestampSecondArray::from(vec![i64::MAX]))),
        ("east", Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("+05:30"))),
        ("large", Arc::new(UInt64Array::from(vec![u64::MAX]))),
    ]);
    one_batch(batch.unwrap())
}

/// Each pair of numbers would be equal after a conversion of the integer to a float.
#[test]
fn integers_and_floats_are_compared_exactly() {
    let batch = RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from(vec![(1 << 53) + 1, i64::MAX])) as ArrayRef),
        ("x", Arc::new(Float64Array::from(vec![2f64.powi(53), 2f64.powi(63)]))),
    ]);
    let dataset = one_batch(batch.unwrap());
    assert_eq!(dataset.matching_rows(&col("n").gt(col("x"))).unwrap(), [0]);
    assert_eq!(dataset.matching_rows(&col("x").gt(col("n"))).unwrap(), [1]);
}

/// Casts decimals of precision 38 to integers, by an aggregation.
fn cast_to_int64(digits: &[Option<i128>], scale: i8) -> Result<Vec<String>, Error> {
    let array = Decimal128Array::from(digits.to_vec()).with_precision_and_scale(38, scale).unwrap();
    let dataset = one_batch(RecordBatch::try_from_iter([("d", Arc::new(array) as ArrayRef)]).unwrap());
    let cast = col("d").cast(DataType::Int64);
    let result = dataset.aggregate(&["d"]).expression_as("cast", cast, AggregateFunction::Max).finish()?;
    result.column("cast")?.values().map(|value| Ok(value?.to_string())).collect()
}

/// The integers have more digits than a float; one doesn't fit 64 bits.
#[test]
fn decimals_are_cast_to_integers_exactly() {
    let digits = [Some(900_719_925_474_099_399), None, Some(-123), Some(i128::from(i64::MAX) * 100 + 99)];
    let expected = ["9007199254740993", "null", "-1", "9223372036854775807"];
    assert_eq!(cast_to_int64(&digits, 2).unwrap(), expected);
    assert_eq!(cast_to_int64(&[Some(7), Some(-7)], -3).unwrap(), ["7000", "-7000"]);
    let error = cast_to_int64(&[Some(1), Some((i128::from(i64::MAX) + 1) * 100)], 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("does not fit an integer of 64 bits in row 1"), "{error}");
}

#[test]
fn unsigned_integers_are_compared_exactly_and_rounded_once() {
    // As a float64 the number loses its last bit, and then lies halfway between two values of float32.
    let above_halfway = (1 << 63) + (1 << 39) + 1;
    let batch = RecordBatch::try_from_iter([
        ("a", Arc::new(UInt64Array::from(vec![u64::MAX, 1 << 63, 5, above_halfway])) as ArrayRef),
        ("b", Arc::new(UInt64Array::from(vec![1, 1 << 63, u64::MAX, above_halfway]))),
    ]);
    let dataset = one_batch(batch.unwrap());
    let matching = |predicate: Predicate| dataset.matching_rows(&predicate).unwrap();
    assert_eq!(matching(col("a").gt(col("b"))), [0]);
    assert_eq!(matching(col("a").le(col("b"))), [1, 2, 3]);
    assert_eq!(matching(col("a").eq(col("b"))), [1, 3]);
    let rounded = Value::Float32(above_halfway as f32);
    assert_eq!(matching(col("a").cast(DataType::Float32).eq(rounded)), [3]);
}

/// The second of two conditions is evaluated only for rows that the first doesn't decide.
#[test]
fn conditions_may_overflow_in_rows_that_are_already_decided() {
    // The square of every third number overflows.
    let numbers: Vec<i64> = (0..10_000).map(|n| if n % 3 == 0 { i64::MAX - n } else { n }).collect();
    let column = Arc::new(Int64Array::from(numbers.clone())) as ArrayRef;
    let dataset = one_batch(RecordBatch::try_from_iter([("n", column)]).unwrap());
    let square = || (col("n") * col("n")).gt(49);
    let is_small = || col("n").lt(10_000);
    let assert_matches = |predicate: Predicate, is_match: &dyn Fn(i64) -> bool| {
        let expected: Vec<u64> = (0..).zip(&numbers).filter(|(_, n)| is_match(**n)).map(|(row, _)| row).collect();
        assert_eq!(dataset.matching_rows(&predicate).unwrap(), expected, "{predicate}");
    };
    assert_matches(is_small() & square(), &|n| n < 10_000 && n > 7);
    assert_matches(!is_small() | square(), &|n| n >= 10_000 || n > 7);
    assert_matches(!(is_small() & square()), &|n| n >= 10_000 || n <= 7);
    assert_matches(!(!is_small() | square()), &|n| n <= 7);
    let nested = (col("n").ge(0) | square()) & (is_small() & (col("n").lt(5_000) & square()));
    assert_matches(nested, &|n| n < 5_000 && n > 7);
    assert!(dataset.filter(&(square() & is_small())).is_err());
    let error = dataset.filter(&(col("n").gt(9_000) & square())).unwrap_err();
    assert!(error.message().contains("in row 0;"), "{error}");
}

#[test]
fn expressions_have_a_limited_number_of_operations() {
    // 2^depth - 1 additions.
    let doubled = |depth: usize| (0..depth).fold(col("n"), |sum, _| sum.clone() + sum);
    let dataset = create_dataset(&[TestRow { n: Some(3), ..TestRow::default() }], &[]);
    let sum_of = |expression| {
        single_cell(dataset.aggregate::<&str>(&[]).expression_as("sum", expression, AggregateFunction::Sum))
    };
    assert_eq!(sum_of(doubled(12)).unwrap(), (3 << 12).to_string());
    let error = sum_of(doubled(64)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("and at most 4096 of them"), "{error}");
}

#[test]
fn literals_may_be_the_smallest_integer() {
    let dataset = create_dataset(&[TestRow { n: Some(3), ..TestRow::default() }], &[]);
    let sum_of = |expression| {
        single_cell(dataset.aggregate::<&str>(&[]).expression_as("sum", expression, AggregateFunction::Sum))
    };
    let minimum = || -Expression::from(Value::UInt(1 << 63));
    assert!(sum_of(col("n") - minimum()).unwrap_err().message().contains("does not fit"));
    assert_eq!(sum_of(minimum() + col("n")).unwrap(), (i64::MIN + 3).to_string());
}

/// A chain of thousands of conditions once overflowed the stack, which ended the process.
#[test]
fn chains_of_conditions_may_be_long_but_not_deeply_nested() {
    let numbers = Arc::new(Int64Array::from_iter_values(0..10)) as ArrayRef;
    let dataset = one_batch(RecordBatch::try_from_iter([("n", numbers)]).unwrap());
    let conditions = || (0..5_000).map(|number| col("n").eq(number * 3));
    let left_nested = conditions().reduce(|chain, next| chain | next).unwrap();
    assert_eq!(dataset.matching_rows(&left_nested).unwrap(), [0, 3, 6, 9]);
    let right_nested = conditions().reduce(|chain, next| next | chain).unwrap();
    assert_eq!(dataset.filter(&right_nested).unwrap().len().unwrap(), 4);
    let negated = conditions().reduce(|chain, next| chain & !next).unwrap();
    assert_eq!(dataset.matching_rows(&negated).unwrap(), [0]);
    let three = col("n").gt(1) & col("n").lt(4) & col("n").ne(2);
    assert_eq!(three.to_string(), "(n > 1) & (n < 4) & (n != 2)");

    let nested = |depth: usize| (0..depth).fold(col("n").gt(4), |inner, _| !inner & col("n").lt(8));
    assert_eq!(dataset.matching_rows(&nested(4)).unwrap(), [5, 6, 7]);
    assert_eq!(dataset.matching_rows(&nested(250)).unwrap(), [5, 6, 7]);
    for too_deep in [nested(251), nested(100_000), conditions().reduce(|chain, next| !(chain | next)).unwrap()] {
        let error = dataset.filter(&too_deep).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("at most 500 deep"), "{error}");
    }
}
