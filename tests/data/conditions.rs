//! Conditions on columns of every type that can be compared, in dictionaries, and in parts of arrays, against a loop over exact
//! fractions.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use arrowwood::{Dataset, Operator, Predicate, Value, col};
use proptest::prelude::*;

const OPERATORS: [Operator; 6] = [Operator::Eq, Operator::Ne, Operator::Lt, Operator::Le, Operator::Gt, Operator::Ge];

const UNITS: [TimeUnit; 4] = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];

fn each_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A number divided by another one, which is positive.
type Fraction = (i128, i128);

fn order(a: Fraction, b: Fraction) -> Ordering {
    (a.0 * b.1).cmp(&(b.0 * a.1))
}

/// The types of numbers and times.
fn types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![Int8, UInt8, Int16, UInt16, Int32, UInt32, Int64, UInt64, Boolean, Date32, Date64];
    types.extend([Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond)]);
    types.extend([Time64(TimeUnit::Microsecond), Time64(TimeUnit::Nanosecond)]);
    types.extend(UNITS.map(Duration));
    types.extend(UNITS.map(|unit| Timestamp(unit, None)));
    types.extend(UNITS.map(|unit| Timestamp(unit, Some("UTC".into()))));
    types.extend([Decimal32(9, 2), Decimal64(18, -2), Decimal128(38, 5), Decimal256(76, 3), Decimal128(38, 0)]);
    types
}

/// What a stored number stands for: seconds, if it is a time.
fn meant(data_type: &DataType, raw: i128) -> Fraction {
    use DataType::*;
    match data_type {
        Date32 => (raw * 86_400, 1),
        Date64 => (raw, 1_000),
        Time32(unit) | Time64(unit) | Duration(unit) | Timestamp(unit, _) => (raw, each_second(*unit)),
        Decimal32(_, s) | Decimal64(_, s) | Decimal128(_, s) | Decimal256(_, s) if *s < 0 => {
            (raw * 10i128.pow(s.unsigned_abs().into()), 1)
        }
        Decimal32(_, s) | Decimal64(_, s) | Decimal128(_, s) | Decimal256(_, s) => (raw, 10i128.pow(*s as u32)),
        _ => (raw, 1),
    }
}

/// The number that a column of the type can store.
fn stored(data_type: &DataType, raw: i64) -> i64 {
    use DataType::*;
    match data_type {
        Int8 => (raw as i8).into(),
        UInt8 => (raw as u8).into(),
        Int16 => (raw as i16).into(),
        UInt16 => (raw as u16).into(),
        Int32 | Date32 | Time32(_) => (raw as i32).into(),
        UInt32 => (raw as u32).into(),
        UInt64 => raw.wrapping_abs().max(0),
        Boolean => raw & 1,
        Decimal32(..) => raw % 1_000_000_000,
        _ => raw,
    }
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    rows: &[Option<i64>],
    native: impl Fn(i64) -> T::Native,
) -> ArrayRef {
    let array = PrimitiveArray::<T>::from_iter(rows.iter().map(|row| row.map(&native)));
    Arc::new(array.with_data_type(data_type.clone()))
}

fn array(data_type: &DataType, rows: &[Option<i64>]) -> ArrayRef {
    use DataType::*;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    match data_type {
        Int8 => primitive::<Int8Type>(data_type, rows, |n| n as i8),
        UInt8 => primitive::<UInt8Type>(data_type, rows, |n| n as u8),
        Int16 => primitive::<Int16Type>(data_type, rows, |n| n as i16),
        UInt16 => primitive::<UInt16Type>(data_type, rows, |n| n as u16),
        Int32 => primitive::<Int32Type>(data_type, rows, |n| n as i32),
        UInt32 => primitive::<UInt32Type>(data_type, rows, |n| n as u32),
        Int64 => primitive::<Int64Type>(data_type, rows, |n| n),
        UInt64 => primitive::<UInt64Type>(data_type, rows, |n| n as u64),
        Date32 => primitive::<Date32Type>(data_type, rows, |n| n as i32),
        Date64 => primitive::<Date64Type>(data_type, rows, |n| n),
        Time32(Second) => primitive::<Time32SecondType>(data_type, rows, |n| n as i32),
        Time32(_) => primitive::<Time32MillisecondType>(data_type, rows, |n| n as i32),
        Time64(Microsecond) => primitive::<Time64MicrosecondType>(data_type, rows, |n| n),
        Time64(_) => primitive::<Time64NanosecondType>(data_type, rows, |n| n),
        Duration(Second) => primitive::<DurationSecondType>(data_type, rows, |n| n),
        Duration(Millisecond) => primitive::<DurationMillisecondType>(data_type, rows, |n| n),
        Duration(Microsecond) => primitive::<DurationMicrosecondType>(data_type, rows, |n| n),
        Duration(Nanosecond) => primitive::<DurationNanosecondType>(data_type, rows, |n| n),
        Timestamp(Second, _) => primitive::<TimestampSecondType>(data_type, rows, |n| n),
        Timestamp(Millisecond, _) => primitive::<TimestampMillisecondType>(data_type, rows, |n| n),
        Timestamp(Microsecond, _) => primitive::<TimestampMicrosecondType>(data_type, rows, |n| n),
        Timestamp(Nanosecond, _) => primitive::<TimestampNanosecondType>(data_type, rows, |n| n),
        Decimal32(..) => primitive::<Decimal32Type>(data_type, rows, |n| n as i32),
        Decimal64(..) => primitive::<Decimal64Type>(data_type, rows, |n| n),
        Decimal128(..) => primitive::<Decimal128Type>(data_type, rows, i128::from),
        Decimal256(..) => primitive::<Decimal256Type>(data_type, rows, |n| i256::from_i128(n.into())),
        Boolean => Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.map(|n| n == 1)))),
        other => panic!("{other}"),
    }
}

/// Literals that a column of the type can be compared with, and what they stand for.
fn literals(data_type: &DataType, raw: i64, scale: i8) -> Vec<(Value<'static>, Fraction)> {
    use DataType::*;
    let own = stored(data_type, raw);
    let int = (Value::Int(own), meant(data_type, own.into()));
    let units = |raw: i64| UNITS.map(|unit| (raw, unit, (i128::from(raw), each_second(unit))));
    match data_type {
        Boolean => vec![(Value::Bool(own == 1), (own.into(), 1))],
        Date32 | Date64 | Timestamp(..) => {
            let zone = if matches!(data_type, Timestamp(_, Some(_))) { Some("UTC") } else { None };
            let mut all = vec![int];
            all.extend(units(raw).map(|(raw, unit, meant)| (Value::Timestamp(raw, unit, zone), meant)));
            if zone.is_none() {
                let days = raw % 100_000;
                all.push((Value::Date(days), (i128::from(days) * 86_400, 1)));
            }
            all
        }
        Time32(_) | Time64(_) => {
            let times = units(raw).map(|(raw, unit, meant)| (Value::Time(raw, unit), meant));
            // The length of the day up to a time stands for it.
            let is_in_a_day = |unit: &TimeUnit| (0..86_400 * each_second(*unit)).contains(&i128::from(raw));
            let lengths = units(raw).into_iter().filter(|(_, unit, _)| is_in_a_day(unit));
            let lengths = lengths.map(|(raw, unit, meant)| (Value::Duration(raw, unit), meant));
            std::iter::once(int).chain(times).chain(lengths).collect()
        }
        Duration(_) => std::iter::once(int)
            .chain(units(raw).map(|(raw, unit, meant)| (Value::Duration(raw, unit), meant)))
            .collect(),
        _ => {
            let small = raw % 1_000_000;
            let digits = i256::from_i128(raw.into());
            let decimal = if scale < 0 {
                (i128::from(raw) * 10i128.pow(scale.unsigned_abs().into()), 1)
            } else {
                (i128::from(raw), 10i128.pow(scale as u32))
            };
            vec![
                (Value::Int(raw), (raw.into(), 1)),
                (Value::UInt(raw.unsigned_abs()), (raw.unsigned_abs().into(), 1)),
                (Value::Decimal { digits, scale }, decimal),
                (Value::Float64(small as f64 / 4.0), (small.into(), 4)),
                (Value::Int(own), (own.into(), 1)),
            ]
        }
    }
}

/// The rows of `array` in parts of it that begin anywhere, in batches.
fn dataset(columns: &[(&str, ArrayRef)], cuts: &[usize]) -> Dataset {
    let whole =
        RecordBatch::try_from_iter_with_nullable(columns.iter().map(|(name, array)| (*name, array.clone(), true)));
    let whole = whole.unwrap();
    let mut ends: Vec<usize> =
        cuts.iter().map(|cut| cut % (whole.num_rows() + 1)).chain([0, whole.num_rows()]).collect();
    ends.sort_unstable();
    let batches = ends.windows(2).map(|ends| whole.slice(ends[0], ends[1] - ends[0]));
    Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
}

/// The rows that a predicate finds, and those that its negation finds; the same by `filter`, from a column `row`; and their
/// number.
fn check(dataset: &Dataset, predicate: &Predicate, expected: &[Option<bool>]) {
    for wanted in [true, false] {
        let asked = if wanted { predicate.clone() } else { !predicate.clone() };
        let rows: Vec<u64> = (0..).zip(expected).filter(|(_, is)| **is == Some(wanted)).map(|(row, _)| row).collect();
        assert_eq!(dataset.matching_rows(&asked).unwrap(), rows, "{asked} of {:?}", dataset.schema().field(0));
        let found = dataset.filter(&asked).unwrap().column("row").unwrap();
        let found: Vec<String> = found.values().map(|value| value.unwrap().to_string()).collect();
        assert_eq!(found, rows.iter().map(u64::to_string).collect::<Vec<_>>(), "{asked}");
        let counted = dataset.aggregate::<&str>(&[]).filter(asked.clone()).count_rows("rows").finish().unwrap();
        let counted: Vec<String> =
            counted.column("rows").unwrap().values().map(|value| value.unwrap().to_string()).collect();
        assert_eq!(counted, [rows.len().to_string()], "{asked}");
    }
}

fn holds(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Eq => order.is_eq(),
        Operator::Ne => order.is_ne(),
        Operator::Lt => order.is_lt(),
        Operator::Le => order.is_le(),
        Operator::Gt => order.is_gt(),
        Operator::Ge => order.is_ge(),
    }
}

fn numbers(count: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..count as i64))
}

/// Rows as a dictionary, of which an entry is null, and some occur twice or not at all.
fn keyed(values: ArrayRef, keys: &[Option<usize>], is_wide: bool) -> ArrayRef {
    if is_wide {
        let keys = UInt32Array::from_iter(keys.iter().map(|key| key.map(|key| key as u32)));
        Arc::new(DictionaryArray::new(keys, values))
    } else {
        let keys = Int8Array::from_iter(keys.iter().map(|key| key.map(|key| key as i8)));
        Arc::new(DictionaryArray::new(keys, values))
    }
}

fn raw() -> impl Strategy<Value = i64> {
    prop_oneof![-3i64..4, -200i64..200, -200_000i64..200_000, any::<i64>().prop_map(|n| n >> 20), Just(86_400_000)]
}

proptest! {
    #[test]
    fn numbers_and_times_are_compared_by_what_they_stand_for(
        rows in prop::collection::vec(prop::option::weighted(0.8, raw()), 1..100),
        entries in prop::collection::vec(prop::option::weighted(0.8, raw()), 1..120),
        is_wide in any::<bool>(),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
        (of, literal, scale) in (any::<u8>(), raw(), -3i8..7),
        (from, to) in (0usize..10, 0usize..10),
    ) {
        let types = types();
        let data_type = &types[usize::from(of) % types.len()];
        let fit = |rows: &[Option<i64>]| rows.iter().map(|row| row.map(|raw| stored(data_type, raw))).collect::<Vec<_>>();
        let (rows, entries) = (fit(&rows), fit(&entries));
        let keys: Vec<Option<usize>> = rows.iter().map(|row| row.map(|raw| raw.unsigned_abs() as usize % entries.len())).collect();
        let by_key: Vec<Option<i64>> = keys.iter().map(|key| entries[(*key)?]).collect();
        let plain = array(data_type, &rows);
        let coded = keyed(array(data_type, &entries), &keys, is_wide);
        let from = from.min(rows.len());
        let count = (rows.len() - from).saturating_sub(to);
        for (column, values) in [(plain.clone(), &rows), (coded.clone(), &by_key)] {
            let values = &values[from..from + count];
            let dataset = dataset(&[("c", column.slice(from, count)), ("row", numbers(count))], &cuts);
            let meanings: Vec<Option<Fraction>> = values.iter().map(|raw| Some(meant(data_type, (*raw)?.into()))).collect();
            let all = literals(data_type, literal, scale);
            for (literal, other) in &all {
                for operator in OPERATORS {
                    let expected: Vec<_> = meanings.iter().map(|own| Some(holds(operator, order((*own)?, *other)))).collect();
                    check(&dataset, &col("c").compare(operator, literal.clone()), &expected);
                }
            }
            let few = all.iter().map(|(literal, _)| literal.clone());
            let expected: Vec<_> = meanings.iter().map(|own| {
                let own = (*own)?;
                Some(all.iter().any(|(_, other)| order(own, *other).is_eq()))
            }).collect();
            check(&dataset, &col("c").is_in(few), &expected);
            // More than are compared one after the other.
            let more: Vec<_> = (-10..10).flat_map(|step| literals(data_type, literal.wrapping_add(step), scale)).collect();
            let expected: Vec<_> = meanings.iter().map(|own| {
                let own = (*own)?;
                Some(more.iter().any(|(_, other)| order(own, *other).is_eq()))
            }).collect();
            check(&dataset, &col("c").is_in(more.into_iter().map(|(literal, _)| literal)), &expected);
        }
        // With another column of the same type.
        let part = |array: &ArrayRef| array.slice(from, count);
        let dataset = dataset(&[("c", part(&plain)), ("d", part(&coded)), ("row", numbers(count))], &cuts);
        if !matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..)) {
            for operator in OPERATORS {
                let pair = |row: usize| Some(holds(operator, rows[row]?.cmp(&by_key[row]?)));
                let expected: Vec<_> = (from..from + count).map(pair).collect();
                check(&dataset, &col("c").compare(operator, col("d")), &expected);
            }
        }
        let nulls: Vec<_> = by_key[from..from + count].iter().map(|value| Some(value.is_none())).collect();
        check(&dataset, &col("d").is_null(), &nulls);
    }

    #[test]
    fn texts_and_bytes_are_compared_by_their_bytes(
        rows in prop::collection::vec(prop::option::weighted(0.8, 0usize..8), 1..100),
        entries in prop::collection::vec(prop::option::weighted(0.8, 0usize..8), 1..120),
        others in prop::collection::vec(prop::option::weighted(0.8, 0usize..8), 100),
        is_wide in any::<bool>(),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
        (from, to) in (0usize..10, 0usize..10),
    ) {
        const WORDS: [&str; 8] = ["", "a", "ab", "b", "a longer piece of text", "a longer piece of text.", "żó", "żółć"];
        const PAIRS: [&[u8]; 8] = [b"aa", b"ab", b"\x80\xff", b"\x00\x00", b"\xff\xff", b"zz", b"b\x00", b"b "];
        let keys: Vec<Option<usize>> = rows.iter().map(|row| row.map(|raw| raw * 7 % entries.len())).collect();
        let by_key: Vec<Option<usize>> = keys.iter().map(|key| entries[(*key)?]).collect();
        let others = &others[..rows.len()];
        let from = from.min(rows.len());
        let count = (rows.len() - from).saturating_sub(to);
        type Make = fn(&[Option<usize>]) -> ArrayRef;
        let words: [(bool, Make); 7] = [
            (true, |rows| Arc::new(StringArray::from_iter(rows.iter().map(|row| row.map(|row| WORDS[row]))))),
            (true, |rows| Arc::new(LargeStringArray::from_iter(rows.iter().map(|row| row.map(|row| WORDS[row]))))),
            (true, |rows| Arc::new(StringViewArray::from_iter(rows.iter().map(|row| row.map(|row| WORDS[row]))))),
            (false, |rows| Arc::new(BinaryArray::from_iter(rows.iter().map(|row| row.map(|row| PAIRS[row]))))),
            (false, |rows| Arc::new(LargeBinaryArray::from_iter(rows.iter().map(|row| row.map(|row| PAIRS[row]))))),
            (false, |rows| Arc::new(BinaryViewArray::from_iter(rows.iter().map(|row| row.map(|row| PAIRS[row]))))),
            (false, |rows| {
                let rows = rows.iter().map(|row| row.map(|row| PAIRS[row]));
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(rows, 2).unwrap())
            }),
        ];
        for (number, (is_text, make)) in words.iter().enumerate() {
            let bytes = |row: usize| if *is_text { WORDS[row].as_bytes() } else { PAIRS[row] };
            let literal = |row: usize| if *is_text { Value::Str(WORDS[row]) } else { Value::Bytes(PAIRS[row]) };
            let (plain, coded) = (make(&rows), keyed(make(&entries), &keys, is_wide));
            // Another layout of the same.
            let (_, other) = words[if *is_text { (number + 1) % 3 } else { 3 + (number - 2) % 4 }];
            let other = other(others);
            for (column, values) in [(plain, &rows), (coded, &by_key)] {
                let values = &values[from..from + count];
                let columns = [("c", column.slice(from, count)), ("d", other.slice(from, count)), ("row", numbers(count))];
                let dataset = dataset(&columns, &cuts);
                for wanted in 0..WORDS.len() {
                    for operator in OPERATORS {
                        let expected: Vec<_> =
                            values.iter().map(|row| Some(holds(operator, bytes((*row)?).cmp(bytes(wanted))))).collect();
                        check(&dataset, &col("c").compare(operator, literal(wanted)), &expected);
                    }
                }
                for operator in OPERATORS {
                    let pair = |(own, other): (&Option<usize>, &Option<usize>)| {
                        Some(holds(operator, bytes((*own)?).cmp(bytes((*other)?))))
                    };
                    let expected: Vec<_> = values.iter().zip(&others[from..]).map(pair).collect();
                    check(&dataset, &col("c").compare(operator, col("d")), &expected);
                }
                let is_in = |row: &Option<usize>| Some([2, 4, 6].contains(&(*row)?));
                let expected: Vec<_> = values.iter().map(is_in).collect();
                check(&dataset, &col("c").is_in([2, 4, 6].map(literal)), &expected);
            }
        }
    }
}

/// To compare each value with each of many numbers took a minute.
#[test]
fn many_numbers_are_searched_for() {
    let rows = 300_000i64;
    let wanted: Vec<i64> = (0..100_000).map(|number| number * 7 - 1_000).collect();
    let is_wanted = |number: i64| (number + 1_000) % 7 == 0 && number < 100_000 * 7 - 1_000;
    let expected: Vec<_> = (0..rows).map(|number| Some(is_wanted(number))).collect();
    let floats = (0..rows).map(|number| number as f64);
    let columns: [ArrayRef; 4] = [
        numbers(rows as usize),
        Arc::new(UInt64Array::from_iter_values((0..rows).map(|number| number as u64))),
        Arc::new(Float64Array::from_iter_values(floats.clone())),
        Arc::new(Float32Array::from_iter_values(floats.map(|number| number as f32))),
    ];
    for column in columns {
        let dataset = dataset(&[("c", column), ("row", numbers(rows as usize))], &[]);
        check(&dataset, &col("c").is_in(wanted.iter().copied()), &expected);
    }
    let wanted = (0..100).map(|number| f64::from(number) / 4.0).chain([f64::NAN, -0.0]);
    let column: ArrayRef = Arc::new(Float16Array::from_iter(
        [Some(0.0), Some(-0.0), Some(f32::NAN), None, Some(24.75), Some(24.8), Some(-0.25)]
            .map(|number| number.map(half::f16::from_f32)),
    ));
    let dataset = dataset(&[("c", column), ("row", numbers(7))], &[]);
    let expected = [Some(true), Some(true), Some(false), None, Some(true), Some(false), Some(false)];
    check(&dataset, &col("c").is_in(wanted), &expected);
    let none = expected.map(|is| is.map(|_| false));
    check(&dataset, &col("c").is_in([f64::NAN; 20]), &none);
    check(&dataset, &col("c").is_in((0..20).map(|number| 4_097 + 2 * number)), &none);
}

/// Against the search of Rust's standard library: all short texts of two letters in one another.
#[test]
fn texts_stand_in_others_where_they_do() {
    let of = |length: usize| {
        (0..1 << length)
            .map(move |bits| (0..length).map(|at| if bits >> at & 1 == 1 { 'b' } else { 'a' }).collect::<String>())
    };
    let mut texts: Vec<Option<String>> = (0..=7).flat_map(of).map(Some).collect();
    texts.insert(3, None);
    texts.push(Some("ab".repeat(40) + "aab" + &"ab".repeat(40)));
    let plain: ArrayRef = Arc::new(StringArray::from(texts.clone()));
    let keys: Vec<Option<usize>> = (0..texts.len()).rev().map(Some).collect();
    let columns = [("x", plain.clone()), ("keyed", keyed(plain, &keys, true)), ("row", numbers(texts.len()))];
    let dataset = dataset(&columns, &[100]);
    for wanted in (0..=5).flat_map(of).chain(["baaba".to_owned(), "ab".repeat(41), "ü".to_owned()]) {
        let found = |text: &Option<String>| text.as_ref().map(|text| text.contains(&wanted));
        let expected: Vec<Option<bool>> = texts.iter().map(found).collect();
        check(&dataset, &col("x").contains(&wanted), &expected);
        let reversed: Vec<Option<bool>> = texts.iter().rev().map(found).collect();
        check(&dataset, &col("keyed").contains(&wanted), &reversed);
    }
}
