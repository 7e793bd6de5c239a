//! Tests of comparisons of columns of all comparable types, also dictionary-encoded and sliced, against loops that
//! compare exact fractions.

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

fn units_per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A numerator and a positive denominator.
type Fraction = (i128, i128);

fn compare_fractions(a: Fraction, b: Fraction) -> Ordering {
    (a.0 * b.1).cmp(&(b.0 * a.1))
}

/// Returns the types of numbers and times.
fn number_types() -> Vec<DataType> {
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

/// Returns the meaning of a stored number; for dates, times and durations in seconds.
fn meaning_of(data_type: &DataType, raw: i128) -> Fraction {
    use DataType::*;
    match data_type {
        Date32 => (raw * 86_400, 1),
        Date64 => (raw, 1_000),
        Time32(unit) | Time64(unit) | Duration(unit) | Timestamp(unit, _) => (raw, units_per_second(*unit)),
        Decimal32(_, s) | Decimal64(_, s) | Decimal128(_, s) | Decimal256(_, s) if *s < 0 => {
            (raw * 10i128.pow(s.unsigned_abs().into()), 1)
        }
        Decimal32(_, s) | Decimal64(_, s) | Decimal128(_, s) | Decimal256(_, s) => (raw, 10i128.pow(*s as u32)),
        _ => (raw, 1),
    }
}

/// Converts a number to one that a column of the type can store.
fn to_storable(data_type: &DataType, raw: i64) -> i64 {
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
    to_native: impl Fn(i64) -> T::Native,
) -> ArrayRef {
    let array = PrimitiveArray::<T>::from_iter(rows.iter().map(|row| row.map(&to_native)));
    Arc::new(array.with_data_type(data_type.clone()))
}

/// Returns an array of stored numbers.
fn create_array(data_type: &DataType, rows: &[Option<i64>]) -> ArrayRef {
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

/// A literal and its meaning.
type Literal = (Value<'static>, Fraction);

/// Returns literals that a column of the type can be compared with.
fn literals(data_type: &DataType, raw: i64, scale: i8) -> Vec<Literal> {
    use DataType::*;
    let storable = to_storable(data_type, raw);
    let stored_int = (Value::Int(storable), meaning_of(data_type, storable.into()));
    match data_type {
        Boolean => vec![(Value::Bool(storable == 1), (storable.into(), 1))],
        Date32 | Date64 | Timestamp(..) => {
            let zone = if matches!(data_type, Timestamp(_, Some(_))) { Some("UTC") } else { None };
            let mut literals = vec![stored_int];
            literals.extend(UNITS.map(|unit| (Value::Timestamp(raw, unit, zone), seconds(raw, unit))));
            if zone.is_none() {
                let days = raw % 100_000;
                literals.push((Value::Date(days), (i128::from(days) * 86_400, 1)));
            }
            literals
        }
        Time32(_) | Time64(_) => {
            let mut literals = vec![stored_int];
            literals.extend(UNITS.map(|unit| (Value::Time(raw, unit), seconds(raw, unit))));
            // A time can be given as the duration since midnight.
            let is_within_a_day = |unit: &TimeUnit| (0..86_400 * units_per_second(*unit)).contains(&i128::from(raw));
            let units = UNITS.into_iter().filter(is_within_a_day);
            literals.extend(units.map(|unit| (Value::Duration(raw, unit), seconds(raw, unit))));
            literals
        }
        Duration(_) => {
            let mut literals = vec![stored_int];
            literals.extend(UNITS.map(|unit| (Value::Duration(raw, unit), seconds(raw, unit))));
            literals
        }
        _ => {
            let quarters = raw % 1_000_000;
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
                (Value::Float64(quarters as f64 / 4.0), (quarters.into(), 4)),
                (Value::Int(storable), (storable.into(), 1)),
            ]
        }
    }
}

fn seconds(count: i64, unit: TimeUnit) -> Fraction {
    (count.into(), units_per_second(unit))
}

/// Returns a dataset whose batches begin at the given rows, modulo the number of rows.
fn create_dataset(columns: &[(&str, ArrayRef)], cuts: &[usize]) -> Dataset {
    let columns = columns.iter().map(|(name, array)| (*name, array.clone(), true));
    let all_rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let len = all_rows.num_rows();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (len + 1)).chain([0, len]).collect();
    ends.sort_unstable();
    let batches = ends.windows(2).map(|ends| all_rows.slice(ends[0], ends[1] - ends[0]));
    Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
}

/// Asserts that a predicate and its negation match the expected rows, as row numbers, as a filter and as a count.
///
/// The dataset must have a column `row` with the numbers of its rows.
fn assert_matches(dataset: &Dataset, predicate: &Predicate, expected: &[Option<bool>]) {
    for outcome in [true, false] {
        let predicate = if outcome { predicate.clone() } else { !predicate.clone() };
        let matching = (0..).zip(expected).filter(|(_, is_match)| **is_match == Some(outcome));
        let rows: Vec<u64> = matching.map(|(row, _)| row).collect();
        let field = dataset.schema().field(0);
        assert_eq!(dataset.matching_rows(&predicate).unwrap(), rows, "{predicate} of {field:?}");
        let filtered = dataset.filter(&predicate).unwrap();
        let expected_texts: Vec<_> = rows.iter().map(u64::to_string).collect();
        assert_eq!(column_texts(&filtered, "row"), expected_texts, "{predicate}");
        let counts = dataset.aggregate::<&str>(&[]).filter(predicate.clone()).count_rows("rows").finish().unwrap();
        assert_eq!(column_texts(&counts, "rows"), [rows.len().to_string()], "{predicate}");
    }
}

fn column_texts(dataset: &Dataset, name: &str) -> Vec<String> {
    dataset.column(name).unwrap().values().map(|value| value.unwrap().to_string()).collect()
}

/// Returns the result of a comparison whose operands have the given order.
fn is_true(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Eq => order.is_eq(),
        Operator::Ne => order.is_ne(),
        Operator::Lt => order.is_lt(),
        Operator::Le => order.is_le(),
        Operator::Gt => order.is_gt(),
        Operator::Ge => order.is_ge(),
    }
}

fn row_numbers(count: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..count as i64))
}

/// Returns a dictionary array with keys of type uint32 or int8. Its values may be null, repeated or unused.
fn encode(values: ArrayRef, keys: &[Option<usize>], has_wide_keys: bool) -> ArrayRef {
    if has_wide_keys {
        let keys = UInt32Array::from_iter(keys.iter().map(|key| key.map(|key| key as u32)));
        Arc::new(DictionaryArray::new(keys, values))
    } else {
        let keys = Int8Array::from_iter(keys.iter().map(|key| key.map(|key| key as i8)));
        Arc::new(DictionaryArray::new(keys, values))
    }
}

/// Generates numbers of all magnitudes, and the milliseconds of a day.
fn any_raw() -> impl Strategy<Value = i64> {
    prop_oneof![-3i64..4, -200i64..200, -200_000i64..200_000, any::<i64>().prop_map(|n| n >> 20), Just(86_400_000)]
}

/// Returns the value of each key.
fn decode<T: Copy>(values: &[Option<T>], keys: &[Option<usize>]) -> Vec<Option<T>> {
    keys.iter().map(|key| values[(*key)?]).collect()
}

/// Returns the expected result of comparing values with one literal.
fn compare_each(meanings: &[Option<Fraction>], operator: Operator, literal: Fraction) -> Vec<Option<bool>> {
    meanings.iter().map(|meaning| Some(is_true(operator, compare_fractions((*meaning)?, literal)))).collect()
}

/// Returns the expected result of searching values among literals.
fn find_each(meanings: &[Option<Fraction>], literals: &[Literal]) -> Vec<Option<bool>> {
    let is_found = |meaning: Fraction| literals.iter().any(|(_, literal)| compare_fractions(meaning, *literal).is_eq());
    meanings.iter().map(|meaning| meaning.map(is_found)).collect()
}

proptest! {
    #[test]
    fn numbers_and_times_are_compared_by_their_meaning(
        rows in prop::collection::vec(prop::option::weighted(0.8, any_raw()), 1..100),
        values in prop::collection::vec(prop::option::weighted(0.8, any_raw()), 1..120),
        has_wide_keys in any::<bool>(),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
        (type_index, raw_literal, scale) in (any::<u8>(), any_raw(), -3i8..7),
        (skipped_before, skipped_after) in (0usize..10, 0usize..10),
    ) {
        let types = number_types();
        let data_type = &types[usize::from(type_index) % types.len()];
        let rows: Vec<_> = rows.iter().map(|row| row.map(|raw| to_storable(data_type, raw))).collect();
        let values: Vec<_> = values.iter().map(|value| value.map(|raw| to_storable(data_type, raw))).collect();
        let keys: Vec<_> = rows.iter().map(|row| row.map(|raw| raw.unsigned_abs() as usize % values.len())).collect();
        let decoded = decode(&values, &keys);
        let start = skipped_before.min(rows.len());
        let count = (rows.len() - start).saturating_sub(skipped_after);
        let plain = create_array(data_type, &rows).slice(start, count);
        let encoded = encode(create_array(data_type, &values), &keys, has_wide_keys).slice(start, count);

        for (column, stored) in [(plain.clone(), &rows), (encoded.clone(), &decoded)] {
            let dataset = create_dataset(&[("c", column), ("row", row_numbers(count))], &cuts);
            let stored = stored[start..start + count].iter();
            let meanings: Vec<_> = stored.map(|raw| raw.map(|raw| meaning_of(data_type, raw.into()))).collect();
            let few_literals = literals(data_type, raw_literal, scale);
            for (literal, meaning) in &few_literals {
                for operator in OPERATORS {
                    let expected = compare_each(&meanings, operator, *meaning);
                    assert_matches(&dataset, &col("c").compare(operator, literal.clone()), &expected);
                }
            }
            // Few literals are compared one by one, many are searched.
            let many_literals: Vec<_> =
                (-10..10).flat_map(|step| literals(data_type, raw_literal.wrapping_add(step), scale)).collect();
            for literals in [few_literals, many_literals] {
                let expected = find_each(&meanings, &literals);
                let is_in = col("c").is_in(literals.into_iter().map(|(literal, _)| literal));
                assert_matches(&dataset, &is_in, &expected);
            }
        }

        // Two columns of the same type.
        let dataset = create_dataset(&[("c", plain), ("d", encoded), ("row", row_numbers(count))], &cuts);
        if !matches!(data_type, DataType::Decimal128(..) | DataType::Decimal256(..)) {
            for operator in OPERATORS {
                let compare_row = |row: usize| Some(is_true(operator, rows[row]?.cmp(&decoded[row]?)));
                let expected: Vec<_> = (start..start + count).map(compare_row).collect();
                assert_matches(&dataset, &col("c").compare(operator, col("d")), &expected);
            }
        }
        let nulls: Vec<_> = decoded[start..start + count].iter().map(|value| Some(value.is_none())).collect();
        assert_matches(&dataset, &col("d").is_null(), &nulls);
    }

    #[test]
    fn texts_and_bytes_are_compared_by_their_bytes(
        rows in prop::collection::vec(prop::option::weighted(0.8, 0usize..8), 1..100),
        values in prop::collection::vec(prop::option::weighted(0.8, 0usize..8), 1..120),
        others in prop::collection::vec(prop::option::weighted(0.8, 0usize..8), 100),
        has_wide_keys in any::<bool>(),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
        (skipped_before, skipped_after) in (0usize..10, 0usize..10),
    ) {
        let keys: Vec<Option<usize>> = rows.iter().map(|row| row.map(|raw| raw * 7 % values.len())).collect();
        let decoded = decode(&values, &keys);
        let others = &others[..rows.len()];
        let start = skipped_before.min(rows.len());
        let count = (rows.len() - start).saturating_sub(skipped_after);
        for (number, layout) in LAYOUTS.iter().enumerate() {
            let plain = (layout.create)(&rows);
            let encoded = encode((layout.create)(&values), &keys, has_wide_keys);
            // Columns are compared with the next layout of the same kind: three are of texts, four of bytes.
            let other_layout = &LAYOUTS[if layout.is_text { (number + 1) % 3 } else { 3 + (number - 2) % 4 }];
            let other = (other_layout.create)(others).slice(start, count);
            for (column, words) in [(plain, &rows), (encoded, &decoded)] {
                let words = &words[start..start + count];
                let columns = [("c", column.slice(start, count)), ("d", other.clone()), ("row", row_numbers(count))];
                let dataset = create_dataset(&columns, &cuts);
                for literal in 0..WORDS.len() {
                    for operator in OPERATORS {
                        let compare_word =
                            |word: usize| is_true(operator, layout.bytes(word).cmp(layout.bytes(literal)));
                        let expected: Vec<_> = words.iter().map(|word| word.map(compare_word)).collect();
                        assert_matches(&dataset, &col("c").compare(operator, layout.literal(literal)), &expected);
                    }
                }
                for operator in OPERATORS {
                    let compare_row = |(word, other): (&Option<usize>, &Option<usize>)| {
                        Some(is_true(operator, layout.bytes((*word)?).cmp(layout.bytes((*other)?))))
                    };
                    let expected: Vec<_> = words.iter().zip(&others[start..]).map(compare_row).collect();
                    assert_matches(&dataset, &col("c").compare(operator, col("d")), &expected);
                }
                let literals = [2, 4, 6];
                let expected: Vec<_> = words.iter().map(|word| word.map(|word| literals.contains(&word))).collect();
                let is_in = col("c").is_in(literals.map(|literal| layout.literal(literal)));
                assert_matches(&dataset, &is_in, &expected);
            }
        }
    }
}

const WORDS: [&str; 8] = ["", "a", "ab", "b", "a longer piece of text", "a longer piece of text.", "żó", "żółć"];
const PAIRS: [&[u8]; 8] = [b"aa", b"ab", b"\x80\xff", b"\x00\x00", b"\xff\xff", b"zz", b"b\x00", b"b "];

/// A memory layout of texts, which are [`WORDS`], or of bytes, which are [`PAIRS`].
struct Layout {
    is_text: bool,
    /// Creates an array, given indices of words or pairs.
    create: fn(&[Option<usize>]) -> ArrayRef,
}

impl Layout {
    fn bytes(&self, index: usize) -> &'static [u8] {
        if self.is_text { WORDS[index].as_bytes() } else { PAIRS[index] }
    }

    fn literal(&self, index: usize) -> Value<'static> {
        if self.is_text { Value::Str(WORDS[index]) } else { Value::Bytes(PAIRS[index]) }
    }
}

fn words(rows: &[Option<usize>]) -> impl Iterator<Item = Option<&'static str>> {
    rows.iter().map(|row| row.map(|row| WORDS[row]))
}

fn pairs(rows: &[Option<usize>]) -> impl Iterator<Item = Option<&'static [u8]>> {
    rows.iter().map(|row| row.map(|row| PAIRS[row]))
}

const LAYOUTS: [Layout; 7] = [
    Layout { is_text: true, create: |rows| Arc::new(StringArray::from_iter(words(rows))) },
    Layout { is_text: true, create: |rows| Arc::new(LargeStringArray::from_iter(words(rows))) },
    Layout { is_text: true, create: |rows| Arc::new(StringViewArray::from_iter(words(rows))) },
    Layout { is_text: false, create: |rows| Arc::new(BinaryArray::from_iter(pairs(rows))) },
    Layout { is_text: false, create: |rows| Arc::new(LargeBinaryArray::from_iter(pairs(rows))) },
    Layout { is_text: false, create: |rows| Arc::new(BinaryViewArray::from_iter(pairs(rows))) },
    Layout {
        is_text: false,
        create: |rows| Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(pairs(rows), 2).unwrap()),
    },
];

/// Comparing each value with each literal took a minute.
#[test]
fn values_are_searched_among_many_numbers() {
    const ROWS: i64 = 300_000;
    const LITERALS: i64 = 100_000;
    let literals: Vec<i64> = (0..LITERALS).map(|number| number * 7 - 1_000).collect();
    let is_literal = |number: i64| (number + 1_000) % 7 == 0 && number < LITERALS * 7 - 1_000;
    let expected: Vec<_> = (0..ROWS).map(|number| Some(is_literal(number))).collect();
    let floats = (0..ROWS).map(|number| number as f64);
    let columns: [ArrayRef; 4] = [
        row_numbers(ROWS as usize),
        Arc::new(UInt64Array::from_iter_values((0..ROWS).map(|number| number as u64))),
        Arc::new(Float64Array::from_iter_values(floats.clone())),
        Arc::new(Float32Array::from_iter_values(floats.map(|number| number as f32))),
    ];
    for column in columns {
        let dataset = create_dataset(&[("c", column), ("row", row_numbers(ROWS as usize))], &[]);
        assert_matches(&dataset, &col("c").is_in(literals.iter().copied()), &expected);
    }
}

/// NaN isn't found, zeros of both signs are equal, and literals that aren't exact in half precision match nothing.
#[test]
fn half_floats_are_searched_among_many_numbers() {
    let values = [Some(0.0), Some(-0.0), Some(f32::NAN), None, Some(24.75), Some(24.8), Some(-0.25)];
    let column: ArrayRef = Arc::new(Float16Array::from_iter(values.map(|value| value.map(half::f16::from_f32))));
    let dataset = create_dataset(&[("c", column), ("row", row_numbers(values.len()))], &[]);
    let quarters = (0..100).map(|number| f64::from(number) / 4.0);
    let expected = [Some(true), Some(true), Some(false), None, Some(true), Some(false), Some(false)];
    assert_matches(&dataset, &col("c").is_in(quarters.chain([f64::NAN, -0.0])), &expected);
    let nothing = expected.map(|is_match| is_match.map(|_| false));
    assert_matches(&dataset, &col("c").is_in([f64::NAN; 20]), &nothing);
    assert_matches(&dataset, &col("c").is_in((0..20).map(|number| 4_097 + 2 * number)), &nothing);
}

/// Returns all texts of the letters a and b of a length.
fn texts_of_two_letters(length: usize) -> impl Iterator<Item = String> {
    (0..1 << length).map(move |bits| (0..length).map(|i| if bits >> i & 1 == 1 { 'b' } else { 'a' }).collect())
}

/// Searches all short texts of two letters in one another; the standard library gives the expected results.
#[test]
fn contains_matches_the_standard_library() {
    let mut texts: Vec<Option<String>> = (0..=7).flat_map(texts_of_two_letters).map(Some).collect();
    texts.insert(3, None);
    texts.push(Some("ab".repeat(40) + "aab" + &"ab".repeat(40)));
    let plain: ArrayRef = Arc::new(StringArray::from(texts.clone()));
    let reversed_keys: Vec<Option<usize>> = (0..texts.len()).rev().map(Some).collect();
    let reversed = encode(plain.clone(), &reversed_keys, true);
    let columns = [("plain", plain), ("reversed", reversed), ("row", row_numbers(texts.len()))];
    let dataset = create_dataset(&columns, &[100]);
    let longer_patterns = ["baaba".to_owned(), "ab".repeat(41), "ü".to_owned()];
    for pattern in (0..=5).flat_map(texts_of_two_letters).chain(longer_patterns) {
        let mut expected: Vec<Option<bool>> =
            texts.iter().map(|text| text.as_ref().map(|text| text.contains(&pattern))).collect();
        assert_matches(&dataset, &col("plain").contains(&pattern), &expected);
        expected.reverse();
        assert_matches(&dataset, &col("reversed").contains(&pattern), &expected);
    }
}
