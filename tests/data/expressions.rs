//! What is computed of columns, beside loops over their values: in conditions and in aggregates, over any cut into batches.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_schema::DataType;
use arrowwood::{AggregateFunction, Dataset, ErrorKind, Expression, Operator, Predicate, TimePart, Value, col};
use proptest::prelude::*;

type Given = (Option<i64>, Option<i16>, Option<f64>, Option<f32>, Option<u8>);

const WORDS: [&str; 5] = ["", "fig", "a fig and more", "figs", "żółć"];

fn batch(rows: &[Given]) -> RecordBatch {
    let words = Arc::new(StringArray::from(WORDS.to_vec())) as ArrayRef;
    let keys = || rows.iter().map(|row| row.4.map(|word| word % 5));
    let by_key: Int8Array = keys().map(|key| key.map(|key| key as i8)).collect();
    let columns: [(&str, ArrayRef); 8] = [
        ("n", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())),
        ("small", Arc::new(rows.iter().map(|row| row.1).collect::<Int16Array>())),
        ("x", Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>())),
        ("short", Arc::new(rows.iter().map(|row| row.3).collect::<Float32Array>())),
        ("text", Arc::new(keys().map(|key| key.map(|key| WORDS[usize::from(key)])).collect::<StringArray>())),
        ("word", Arc::new(DictionaryArray::<Int8Type>::new(by_key, words))),
        ("ts", Arc::new(rows.iter().map(|row| row.0).collect::<TimestampMillisecondArray>())),
        ("day", Arc::new(rows.iter().map(|row| row.1.map(i32::from)).collect::<Date32Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn dataset(rows: &[Given], cuts: &[usize]) -> Dataset {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (rows.len() + 1)).chain([0, rows.len()]).collect();
    ends.sort_unstable();
    let whole = batch(rows);
    let batches = ends.windows(2).map(|ends| whole.slice(ends[0], ends[1] - ends[0]));
    Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
}

fn given() -> impl Strategy<Value = Given> {
    let of = |weight| prop::option::weighted(weight, any::<u8>());
    (
        prop::option::weighted(0.8, -1_000_000_000i64..1_000_000_000),
        prop::option::weighted(0.8, -300i16..300),
        prop::option::weighted(0.8, prop_oneof![-1e6..1e6f64, Just(f64::NAN), Just(0.0)]),
        prop::option::weighted(0.8, -1e3..1e3f32),
        of(0.8),
    )
}

/// A number as the twin computes it.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        }
    }
}

/// What the twin computes of a row; `None` is a null.
type Twin = fn(&Given) -> Option<Number>;

/// Expressions with their twins.
fn expressions() -> Vec<(Expression, Twin)> {
    vec![
        (col("n") + col("small"), |r| Some(Number::Int(r.0? + i64::from(r.1?)))),
        (col("n") - 7, |r| Some(Number::Int(r.0? - 7))),
        (Expression::from(7) - col("small"), |r| Some(Number::Int(7 - i64::from(r.1?)))),
        (col("n") * col("small") * -3, |r| Some(Number::Int(r.0? * i64::from(r.1?) * -3))),
        (-col("n"), |r| Some(Number::Int(-r.0?))),
        (col("n") / col("small"), |r| Some(Number::Float(r.0? as f64 / f64::from(r.1?)))),
        (col("n") % col("small"), |r| {
            let (a, b) = (r.0?, i64::from(r.1?));
            (b != 0).then(|| Number::Int(a - b * (a as f64 / b as f64).floor() as i64))
        }),
        (col("x") * 2.5 + col("n"), |r| Some(Number::Float(r.2? * 2.5 + r.0? as f64))),
        (col("x") % 3.0, |r| Some(Number::Float(r.2? - 3.0 * (r.2? / 3.0).floor()))),
        (col("short") * col("small"), |r| Some(Number::Float((r.3? * f32::from(r.1?)).into()))),
        (col("short") * 0.1 - col("short"), |r| Some(Number::Float((r.3? * 0.1f32 - r.3?).into()))),
        (col("short") * col("n"), |r| Some(Number::Float(f64::from(r.3?) * r.0? as f64))),
        (col("short").cast(DataType::Int64), |r| Some(Number::Int(r.3?.trunc() as i64))),
        (col("n").cast(DataType::Float64) / 2, |r| Some(Number::Float(r.0? as f64 / 2.0))),
        (col("ts").part(TimePart::Hour), |r| Some(Number::Int(r.0?.div_euclid(3_600_000).rem_euclid(24)))),
        (col("ts").part(TimePart::Second) * 2, |r| Some(Number::Int(r.0?.div_euclid(1_000).rem_euclid(60) * 2))),
        (col("ts").part(TimePart::Weekday), |r| Some(Number::Int((r.0?.div_euclid(86_400_000) + 3).rem_euclid(7) + 1))),
        (col("ts").cast(DataType::Int64) + 1, |r| Some(Number::Int(r.0? + 1))),
    ]
}

const OPERATORS: [Operator; 6] = [Operator::Eq, Operator::Ne, Operator::Lt, Operator::Le, Operator::Gt, Operator::Ge];

fn holds<T: PartialOrd>(a: T, operator: Operator, b: T) -> bool {
    match operator {
        Operator::Eq => a == b,
        Operator::Ne => a != b,
        Operator::Lt => a < b,
        Operator::Le => a <= b,
        Operator::Gt => a > b,
        Operator::Ge => a >= b,
    }
}

/// The numbers of the rows that a condition finds, and of those that its negation finds.
fn found(dataset: &Dataset, predicate: &Predicate) -> [Vec<u64>; 2] {
    [predicate.clone(), !predicate.clone()].map(|predicate| dataset.matching_rows(&predicate).unwrap())
}

/// The same by a function of each row; `None` for neither.
fn naive(rows: &[Given], holds: impl Fn(&Given) -> Option<bool>) -> [Vec<u64>; 2] {
    [true, false].map(|wanted| {
        let each = rows.iter().zip(0..);
        each.filter(|(row, _)| holds(row) == Some(wanted)).map(|(_, number)| number).collect()
    })
}

proptest! {
    #[test]
    fn conditions_are_those_of_a_loop(
        rows in prop::collection::vec(given(), 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
        limit in -100i32..100,
    ) {
        let dataset = dataset(&rows, &cuts);
        for (expression, twin) in expressions() {
            for operator in OPERATORS {
                let limit = f64::from(limit);
                let predicate = expression.clone().compare(operator, limit);
                let expected = naive(&rows, |row| Some(holds(twin(row)?.float(), operator, limit)));
                prop_assert_eq!(found(&dataset, &predicate), expected, "{}", predicate);
                let pair = expression.clone().compare(operator, col("n"));
                let expected = naive(&rows, |row| Some(match (twin(row)?, row.0?) {
                    (Number::Int(a), b) => holds(a, operator, b),
                    (Number::Float(a), b) => holds(a, operator, b as f64),
                }));
                prop_assert_eq!(found(&dataset, &pair), expected, "{}", pair);
            }
            let nulls = found(&dataset, &expression.clone().is_null());
            prop_assert_eq!(nulls, naive(&rows, |row| Some(twin(row).is_none())), "{}", expression);
        }
    }

    #[test]
    fn aggregates_are_those_of_a_loop(
        rows in prop::collection::vec(given(), 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        let dataset = dataset(&rows, &cuts);
        for (expression, twin) in expressions() {
            let values: Vec<Number> = rows.iter().filter(|row| row.1.is_none_or(|n| n > 0)).filter_map(twin).collect();
            let mut asked = dataset.aggregate::<&str>(&[]).filter(col("small").gt(0) | col("small").is_null());
            for function in [AggregateFunction::Count, AggregateFunction::Sum, AggregateFunction::Mean, AggregateFunction::Min, AggregateFunction::Max, AggregateFunction::Median] {
                asked = asked.expression_as(&function.to_string(), expression.clone(), function);
            }
            let answer = asked.finish().unwrap();
            let row = answer.row(0).unwrap();
            let cell = |column: usize| match row.get(column).unwrap() {
                Value::Int(number) => Some(number as f64),
                Value::Float32(number) => Some(number.into()),
                Value::Float64(number) => Some(number),
                Value::Null => None,
                other => panic!("{other}"),
            };
            let close = |column: usize, expected: Option<f64>| match (cell(column), expected) {
                (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()) * values.len() as f64),
                (a, b) => a.is_none() && b.is_none(),
            };
            let sum: f64 = values.iter().map(|value| value.float()).sum();
            let numbers = || values.iter().map(|value| value.float()).filter(|value| !value.is_nan());
            prop_assert_eq!(cell(0), Some(values.len() as f64));
            prop_assert!(close(1, Some(sum)), "{}: {:?} {}", expression, cell(1), sum);
            prop_assert!(close(2, (!values.is_empty()).then(|| sum / values.len() as f64)), "{}", expression);
            if numbers().next().is_some() {
                prop_assert!(close(3, numbers().reduce(f64::min)), "{}", expression);
                prop_assert!(close(4, numbers().reduce(f64::max)), "{}", expression);
            }
        }
    }

    #[test]
    fn texts_are_found_as_by_a_loop(
        rows in prop::collection::vec(given(), 0..200),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        let dataset = dataset(&rows, &cuts);
        let text = |row: &Given| row.4.map(|word| WORDS[usize::from(word % 5)]);
        for column in ["text", "word"] {
            for wanted in ["", "fig", "ig", "s", "żó", "more and more", "a fig and more"] {
                let contains = found(&dataset, &col(column).contains(wanted));
                prop_assert_eq!(contains, naive(&rows, |row| Some(text(row)?.contains(wanted))), "{}", wanted);
                let starts = found(&dataset, &col(column).starts_with(wanted));
                prop_assert_eq!(starts, naive(&rows, |row| Some(text(row)?.starts_with(wanted))), "{}", wanted);
                let ends = found(&dataset, &col(column).ends_with(wanted));
                prop_assert_eq!(ends, naive(&rows, |row| Some(text(row)?.ends_with(wanted))), "{}", wanted);
            }
        }
        for wanted in [&["fig", "figs"][..], &["", "a fig and more", "none"], &["none"], &[]] {
            for column in ["text", "word"] {
                let one = found(&dataset, &col(column).is_in(wanted.iter().copied()));
                prop_assert_eq!(one, naive(&rows, |row| Some(wanted.contains(&text(row)?))), "{:?}", wanted);
            }
        }
        let same = found(&dataset, &col("text").eq(col("word")));
        prop_assert_eq!(same, naive(&rows, |row| text(row).map(|_| true)));
    }
}

/// Thousands of rows: steps within blocks, and blocks within spans, begin at any row of a batch.
#[test]
fn steps_and_batches_change_nothing() {
    let row = |i: i64| (Some(i), Some((i % 100) as i16), Some(i as f64 / 3.0), Some(1.5), Some((i % 5) as u8));
    let rows: Vec<Given> = (0..150_000).map(row).collect();
    let predicate = (col("n") * 2 + col("small")).gt(100_000) & col("n").ne(col("small"));
    let expected = naive(&rows, |r| Some(r.0? * 2 + i64::from(r.1?) > 100_000 && r.0? != i64::from(r.1?)));
    for cuts in [vec![], vec![1, 70_000, 70_001, 140_000], (0..200).map(|i| i * 701).collect()] {
        let dataset = dataset(&rows, &cuts);
        assert_eq!(found(&dataset, &predicate), expected);
        let asked = dataset.aggregate(&["small"]).filter(predicate.clone());
        let sums = asked.expression_as("sum", col("n") * col("small"), AggregateFunction::Sum).finish().unwrap();
        for row in sums.rows() {
            let [small, sum] = [0, 1].map(|column| row.as_ref().unwrap().get(column).unwrap().to_string());
            let small: i64 = small.parse().unwrap();
            let wanted = (0..150_000i64).filter(|n| n % 100 == small && n * 2 + small > 100_000 && *n != small);
            assert_eq!(sum, wanted.map(|n| n * small).sum::<i64>().to_string());
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error_of_rows_that_are_asked_for() {
    let rows = [(Some(i64::MAX), Some(2), None, Some(f32::NAN), None), (Some(1), Some(2), None, Some(1.0), None)];
    let dataset = dataset(&rows, &[]);
    let product = col("n") * col("small");
    let error = dataset.filter(&product.clone().gt(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let expected =
        "(n * small) does not fit an integer of 64 bits in row 0; compute with floats, as by a cast to float64";
    assert_eq!(error.message(), expected);
    let sum = |dataset: &Dataset, limit: i64| {
        let asked = dataset.aggregate::<&str>(&[]).filter(col("n").lt(limit));
        asked
            .expression_as("sum", product.clone(), AggregateFunction::Sum)
            .finish()
            .map(|found| found.row(0).unwrap().get(0).unwrap().to_string())
    };
    assert_eq!(sum(&dataset, 100).unwrap(), "2");
    assert_eq!(sum(&dataset, i64::MAX).unwrap(), "2");
    let whole = dataset.aggregate::<&str>(&[]).expression_as("sum", product.clone(), AggregateFunction::Sum).finish();
    assert_eq!(whole.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let float = dataset.filter(&(col("n").cast(DataType::Float64) * col("small")).gt(1e18)).unwrap();
    assert_eq!(float.len().unwrap(), 1);
    let error = dataset.filter(&col("short").cast(DataType::Int64).gt(0)).unwrap_err();
    assert!(error.message().contains("does not fit an integer of 64 bits in row 0"), "{error}");
}

#[test]
fn what_goes_beyond_names_an_engine() {
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
    let dataset = Dataset::try_from(vec![batch.unwrap()]).unwrap();
    let beyond: [Predicate; 9] = [
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
    for predicate in beyond {
        let error = dataset.filter(&predicate).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("ask DuckDB or Polars"), "{error}");
    }
    let error = dataset.filter(&col("n").contains("a")).unwrap_err();
    assert_eq!(error.message(), "column 'n' of type int64 is no text that contains \"a\"");
    let is = |predicate: Predicate| dataset.filter(&predicate).unwrap().len().unwrap() == 1;
    assert!(is(col("time").part(TimePart::Hour).eq(1)) && is(col("time").part(TimePart::Minute).eq(2)));
    assert!(is(col("far").part(TimePart::Year).is_null()), "no calendar goes so far");
    assert!(is(col("east").part(TimePart::Minute).eq(30)) && is(col("east").part(TimePart::Hour).eq(5)));
    assert!(is((col("exact").cast(DataType::Float64) * 2).eq(2.0 * 1e-10)) && is(col("zoned").eq(col("zoned"))));
    assert!(dataset.filter(&(col("large") - 1).gt(0)).is_err());
    assert!(is((col("large").cast(DataType::Float64) - 1).gt(1e19)));
    let deep = (0..100_000).fold(col("n"), |deep, _| deep + 1);
    assert!(dataset.filter(&deep.gt(0)).unwrap_err().message().contains("at most 256 operations"));
    // Of 64 bits each, and not the same number.
    let near = RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from(vec![(1 << 53) + 1, i64::MAX])) as ArrayRef),
        ("x", Arc::new(Float64Array::from(vec![2f64.powi(53), 2f64.powi(63)]))),
    ]);
    let near = Dataset::try_from(vec![near.unwrap()]).unwrap();
    assert_eq!(near.matching_rows(&col("n").gt(col("x"))).unwrap(), [0]);
    assert_eq!(near.matching_rows(&col("x").gt(col("n"))).unwrap(), [1]);
}

/// Digits that no float has, and decimals that do not fit.
#[test]
fn decimals_become_integers_exactly() {
    let digits = [Some(900_719_925_474_099_399), None, Some(-123), Some(i128::from(i64::MAX) * 100 + 99)];
    let exact = |digits: &[Option<i128>], scale| {
        let array = Decimal128Array::from(digits.to_vec()).with_precision_and_scale(38, scale).unwrap();
        Dataset::try_from(vec![RecordBatch::try_from_iter([("d", Arc::new(array) as ArrayRef)]).unwrap()]).unwrap()
    };
    let whole = |dataset: &Dataset| {
        let asked =
            dataset.aggregate(&["d"]).expression_as("whole", col("d").cast(DataType::Int64), AggregateFunction::Max);
        let found = asked.finish()?.column("whole")?;
        found.values().map(|value| Ok(value?.to_string())).collect::<Result<Vec<_>, arrowwood::Error>>()
    };
    let expected = ["9007199254740993", "null", "-1", "9223372036854775807"];
    assert_eq!(whole(&exact(&digits, 2)).unwrap(), expected);
    assert_eq!(whole(&exact(&[Some(7), Some(-7)], -3)).unwrap(), ["7000", "-7000"]);
    let error = whole(&exact(&[Some(1), Some((i128::from(i64::MAX) + 1) * 100)], 2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("does not fit an integer of 64 bits in row 1"), "{error}");
}

#[test]
fn unsigned_integers_are_compared_by_their_values_and_rounded_once() {
    // In 64 bits a float drops the last bit, and then lies in the middle between two floats of 32.
    let near = (1 << 63) + (1 << 39) + 1;
    let batch = RecordBatch::try_from_iter([
        ("a", Arc::new(UInt64Array::from(vec![u64::MAX, 1 << 63, 5, near])) as ArrayRef),
        ("b", Arc::new(UInt64Array::from(vec![1, 1 << 63, u64::MAX, near]))),
    ]);
    let dataset = Dataset::try_from(vec![batch.unwrap()]).unwrap();
    let rows = |predicate: Predicate| dataset.matching_rows(&predicate).unwrap();
    assert_eq!(rows(col("a").gt(col("b"))), [0]);
    assert_eq!(rows(col("a").le(col("b"))), [1, 2, 3]);
    assert_eq!(rows(col("a").eq(col("b"))), [1, 3]);
    let short = Value::Float32(near as f32);
    assert_eq!(rows(col("a").cast(DataType::Float32).eq(short)), [3]);
}

/// The second of two conditions is that of rows which the first leaves open.
#[test]
fn what_another_condition_decides_may_overflow() {
    let n: Vec<i64> = (0..10_000).map(|n| if n % 3 == 0 { i64::MAX - n } else { n }).collect();
    let batch = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(n.clone())) as ArrayRef)]).unwrap();
    let dataset = Dataset::try_from(vec![batch]).unwrap();
    let square = || (col("n") * col("n")).gt(49);
    let is_small = || col("n").lt(10_000);
    let rows =
        |is: &dyn Fn(i64) -> bool| (0..).zip(&n).filter(|(_, n)| is(**n)).map(|(row, _)| row).collect::<Vec<u64>>();
    let found = |predicate: Predicate| dataset.matching_rows(&predicate).unwrap();
    assert_eq!(found(is_small() & square()), rows(&|n| n < 10_000 && n > 7));
    assert_eq!(found(!is_small() | square()), rows(&|n| n >= 10_000 || n > 7));
    assert_eq!(found(!(is_small() & square())), rows(&|n| n >= 10_000 || n <= 7));
    assert_eq!(found(!(!is_small() | square())), rows(&|n| n <= 7));
    let both = (col("n").ge(0) | square()) & (is_small() & (col("n").lt(5_000) & square()));
    assert_eq!(found(both), rows(&|n| n < 5_000 && n > 7));
    assert!(dataset.filter(&(square() & is_small())).is_err());
    let error = dataset.filter(&(col("n").gt(9_000) & square())).unwrap_err();
    assert!(error.message().contains("in row 0;"), "{error}");
}

#[test]
fn expressions_have_at_most_some_thousand_operations() {
    let doubled = |times: usize| (0..times).fold(col("n"), |all, _| all.clone() + all);
    let dataset = dataset(&[(Some(3), None, None, None, None)], &[]);
    let sum = |expression| {
        let asked = dataset.aggregate::<&str>(&[]).expression_as("sum", expression, AggregateFunction::Sum);
        asked.finish().map(|found| found.row(0).unwrap().get(0).unwrap().to_string())
    };
    assert_eq!(sum(doubled(12)).unwrap(), (3 << 12).to_string());
    let error = sum(doubled(64)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("and at most 4096 of them"), "{error}");
    let least = col("n") - -Expression::from(Value::UInt(1 << 63));
    assert!(sum(least).unwrap_err().message().contains("does not fit"));
    assert_eq!(sum(-Expression::from(Value::UInt(1 << 63)) + col("n")).unwrap(), (i64::MIN + 3).to_string());
}

/// Thousands of conditions one behind the other overflowed the stack, which ended the process.
#[test]
fn any_number_of_conditions_stand_side_by_side_and_not_inside_of_one_another() {
    let numbers = Arc::new(Int64Array::from_iter_values(0..10)) as ArrayRef;
    let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", numbers)]).unwrap()]).unwrap();
    let each = || (0..5_000).map(|number| col("n").eq(number * 3));
    let any = each().reduce(|all, one| all | one).unwrap();
    assert_eq!(dataset.matching_rows(&any).unwrap(), [0, 3, 6, 9]);
    let any = each().reduce(|all, one| one | all).unwrap();
    assert_eq!(dataset.filter(&any).unwrap().len().unwrap(), 4);
    let none = each().reduce(|all, one| all & !one).unwrap();
    assert_eq!(dataset.matching_rows(&none).unwrap(), [0]);
    let three = col("n").gt(1) & col("n").lt(4) & col("n").ne(2);
    assert_eq!(three.to_string(), "(n > 1) & (n < 4) & (n != 2)");
    let inside = |depth: usize| (0..depth).fold(col("n").gt(4), |all, _| !all & col("n").lt(8));
    assert_eq!(dataset.matching_rows(&inside(4)).unwrap(), [5, 6, 7]);
    assert_eq!(dataset.matching_rows(&inside(250)).unwrap(), [5, 6, 7]);
    for deep in [inside(251), inside(100_000), each().reduce(|all, one| !(all | one)).unwrap()] {
        let error = dataset.filter(&deep).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("at most 500 deep"), "{error}");
    }
}
