//! Tests of zones, the statistics of blocks of rows in indexed columns: filters give the same rows as without them, and
//! skip the blocks that can't have any, while a table grows and after it was reopened.
#![cfg(unix)]

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, FixedSizeBinaryBuilder};
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrowwood::{
    Dataset, ErrorKind, LatePolicy, Literal, Operator, Predicate, SyncPolicy, Value, Writer, WriterOptions, check, col,
    compact, open,
};

use crate::dice::Dice;
use crate::tables::unsynced;

const NAMES: [&str; 14] =
    ["n", "small", "x", "f", "h", "text", "view", "symbol", "at", "price", "wide", "flag", "id", "day"];

/// Returns a schema of every type that can be indexed.
fn schema() -> SchemaRef {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let types = [
        DataType::Int64,
        DataType::UInt8,
        DataType::Float64,
        DataType::Float32,
        DataType::Float16,
        DataType::Utf8,
        DataType::BinaryView,
        dictionary,
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Decimal128(20, 2),
        DataType::Decimal256(50, 3),
        DataType::Boolean,
        DataType::FixedSizeBinary(40),
        DataType::Date64,
    ];
    let fields: Vec<Field> =
        NAMES.into_iter().zip(types).map(|(name, data_type)| Field::new(name, data_type, true)).collect();
    Arc::new(Schema::new(fields))
}

/// Returns a text, which for odd numbers is longer than the prefix in a zone.
fn text(n: i64) -> String {
    if n % 2 == 0 {
        format!("{:04}", n.rem_euclid(5000))
    } else {
        format!("the same long beginning of a text {:04}", n)
    }
}

/// Returns a float; `special` chooses the values that some numbers have instead.
fn float(n: i64, special: u64) -> f64 {
    match special {
        0 if n % 3 == 0 => f64::NAN,
        1 if n % 2 == 0 => -0.0,
        2 if n % 5 == 0 => 0.0,
        3 if n % 7 == 0 => f64::INFINITY,
        _ => n as f64 / 4.0,
    }
}

/// Returns rows around the number `near`, with nulls and special floats.
fn random_batch(dice: &mut Dice, near: i64, rows: usize) -> RecordBatch {
    let spread = 1 + dice.below(40) as i64;
    let null_percent = [0, 5, 100][dice.below(3) as usize];
    let mut numbers: Vec<Option<i64>> = Vec::new();
    for _ in 0..rows {
        let is_null = dice.below(100) < null_percent;
        numbers.push((!is_null).then(|| near + dice.below(spread as u64) as i64 - spread / 2));
    }
    let special = dice.below(4);
    let numbers = numbers.iter().copied();
    let symbols: Vec<Option<String>> = numbers.clone().map(|n| n.map(|n| text(n / 8))).collect();
    let mut views = BinaryViewBuilder::new();
    let mut ids = FixedSizeBinaryBuilder::new(40);
    for n in numbers.clone() {
        views.append_option(n.map(|n| text(n).into_bytes()));
        match n {
            Some(n) => ids.append_value(format!("{:040}", n.rem_euclid(100_000))).unwrap(),
            None => ids.append_null(),
        }
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(numbers.clone())),
        Arc::new(UInt8Array::from_iter(numbers.clone().map(|n| n.map(|n| n.rem_euclid(256) as u8)))),
        Arc::new(Float64Array::from_iter(numbers.clone().map(|n| n.map(|n| float(n, special))))),
        Arc::new(Float32Array::from_iter(numbers.clone().map(|n| n.map(|n| float(n, special) as f32)))),
        Arc::new(Float16Array::from_iter(
            numbers.clone().map(|n| n.map(|n| half::f16::from_f64(float(n % 1000, special)))),
        )),
        Arc::new(StringArray::from_iter(numbers.clone().map(|n| n.map(text)))),
        Arc::new(views.finish()),
        Arc::new(symbols.iter().map(Option::as_deref).collect::<DictionaryArray<types::Int32Type>>()),
        Arc::new(TimestampMillisecondArray::from_iter(numbers.clone())),
        Arc::new(
            Decimal128Array::from_iter(numbers.clone().map(|n| n.map(i128::from)))
                .with_precision_and_scale(20, 2)
                .unwrap(),
        ),
        Arc::new(
            Decimal256Array::from_iter(numbers.clone().map(|n| n.map(|n| i256::from_i128(n.into()))))
                .with_precision_and_scale(50, 3)
                .unwrap(),
        ),
        Arc::new(BooleanArray::from_iter(numbers.clone().map(|n| n.map(|n| n % 64 < 32)))),
        Arc::new(ids.finish()),
        Arc::new(Date64Array::from_iter(numbers.clone().map(|n| n.map(|n| n * 43_200_000)))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Returns a value to compare a column with.
fn random_literal(dice: &mut Dice, name: &str, near: i64) -> Literal {
    let n = near + dice.below(60) as i64 - 30;
    if dice.below(25) == 0 {
        return Value::Null.into();
    }
    match name {
        "n" | "at" => Value::Int(n).into(),
        "small" => Value::Int(n.rem_euclid(256)).into(),
        "x" | "f" | "h" => match dice.below(6) {
            0 => f64::NAN.into(),
            1 => (-0.0).into(),
            2 => f64::INFINITY.into(),
            _ => (n as f64 / 4.0).into(),
        },
        "text" => text(n).into(),
        "symbol" => text(n / 8).into(),
        "view" => Value::Bytes(text(n).as_bytes()).into(),
        "price" => Value::Decimal { digits: i256::from_i128(n.into()), scale: 2 }.into(),
        "wide" => Value::Decimal { digits: i256::from_i128(n.into()), scale: 3 }.into(),
        "flag" => (n % 2 == 0).into(),
        "id" => Value::Bytes(format!("{:040}", n.rem_euclid(100_000)).as_bytes()).into(),
        _ => Value::Date(n / 2).into(),
    }
}

fn random_predicate(dice: &mut Dice, near: i64, depth: u32) -> Predicate {
    if depth > 0 && dice.below(3) > 0 {
        let a = random_predicate(dice, near, depth - 1);
        let b = random_predicate(dice, near, depth - 1);
        return match dice.below(3) {
            0 => a & b,
            1 => a | b,
            _ => !a,
        };
    }
    let name = NAMES[dice.below(NAMES.len() as u64) as usize];
    match dice.below(8) {
        0 => col(name).is_null(),
        1 => col(name).is_not_null(),
        2 => {
            let values: Vec<Literal> = (0..dice.below(4)).map(|_| random_literal(dice, name, near)).collect();
            col(name).is_in(values)
        }
        _ => {
            let operators = [Operator::Eq, Operator::Ne, Operator::Lt, Operator::Le, Operator::Gt, Operator::Ge];
            let operator = operators[dice.below(6) as usize];
            col(name).compare(operator, random_literal(dice, name, near))
        }
    }
}

fn options(segment_rows: u64, zone_rows: u32) -> WriterOptions {
    let index = Some(NAMES.iter().map(ToString::to_string).collect());
    WriterOptions { index, zone_rows: Some(zone_rows), ..unsynced(segment_rows) }
}

/// Returns all rows, each as the texts of its values.
fn read_rows(dataset: &Dataset) -> Vec<String> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        rows.push((0..row.len()).map(|column| format!("{}|", row.get(column).unwrap())).collect());
    }
    rows
}

/// Counts the rows in the blocks that can't be skipped for a condition.
fn count_unpruned(dataset: &Dataset, condition: &Predicate) -> u64 {
    dataset.prune(condition).unwrap().len().unwrap()
}

fn unpruned_rows(table: &Path, condition: &Predicate) -> u64 {
    count_unpruned(&open(table).unwrap(), condition)
}

/// Compares random filters and aggregations of a table with those of the same rows in memory; returns the number of
/// rows that the table skipped.
fn compare_filters(dice: &mut Dice, table: &Dataset, in_memory: &Dataset, count: usize) -> u64 {
    let mut skipped = 0;
    for _ in 0..count {
        let near = dice.below(200) as i64;
        let condition = random_predicate(dice, near, 2);
        let actual = table.filter(&condition).unwrap();
        let expected = in_memory.filter(&condition).unwrap();
        assert_eq!(read_rows(&actual), read_rows(&expected), "{condition}");
        let actual = table.aggregate(&["flag"]).count_rows("count").filter(condition.clone()).finish().unwrap();
        let expected = in_memory.aggregate(&["flag"]).count_rows("count").filter(condition.clone()).finish().unwrap();
        assert_eq!(read_rows(&actual), read_rows(&expected), "{condition}");
        skipped += table.len().unwrap() - count_unpruned(table, &condition);
    }
    skipped
}

#[test]
fn filters_give_the_same_rows_with_and_without_zones() {
    let mut skipped = 0;
    for seed in 0..12 {
        let mut dice = Dice::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let zone_rows = [1, 3, 16, 32][dice.below(4) as usize];
        let mut writer = Writer::open(&table, Some(schema()), &options(50 + dice.below(200), zone_rows)).unwrap();
        let mut batches = Vec::new();
        for step in 0..12 {
            let len = 1 + dice.below(70) as usize;
            let batch = random_batch(&mut dice, step * 20, len);
            writer.append(&batch).unwrap();
            match dice.below(6) {
                0 => {
                    writer.rollback();
                    batches = open(&table).unwrap().to_record_batches().map(|batch| batch.unwrap()).collect();
                    continue;
                }
                1 => {
                    writer.close().unwrap();
                    writer = Writer::open(&table, None, &options(50 + dice.below(200), zone_rows)).unwrap();
                }
                _ => (),
            }
            batches.push(batch);
            if dice.below(3) == 0 {
                let second_batch = random_batch(&mut dice, step * 20, 3);
                writer.append(&second_batch).unwrap();
                batches.push(second_batch);
            }
            writer.commit().unwrap();
            let in_memory = Dataset::from_batches(schema(), batches.clone()).unwrap();
            let dataset = open(&table).unwrap();
            assert_eq!(dataset.len().unwrap(), in_memory.len().unwrap());
            skipped += compare_filters(&mut dice, &dataset, &in_memory, 8);
        }
        drop(writer);
        let report = check(&table, |_, _| ()).unwrap();
        assert!(report.is_good(), "{:#?}", report.findings);
    }
    assert!(skipped > 10_000, "only {skipped} rows were skipped");
}

fn tick_schema() -> SchemaRef {
    let fields = [Field::new("order", DataType::Int64, false), Field::new("symbol", DataType::Utf8, false)];
    Arc::new(Schema::new(fields.to_vec()))
}

/// Returns ticks in order, of which a thousand each have the same symbol.
fn ticks(first: i64, rows: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(first..first + rows);
    let symbols = StringArray::from_iter_values((first..first + rows).map(|n| format!("symbol {:05}", n / 1000)));
    RecordBatch::try_new(tick_schema(), vec![Arc::new(numbers), Arc::new(symbols)]).unwrap()
}

fn indexed(names: &[&str]) -> WriterOptions {
    let index = Some(names.iter().map(ToString::to_string).collect());
    WriterOptions { sync: SyncPolicy::Never, index, ..WriterOptions::default() }
}

/// The number of rows in a block of the default size.
const BLOCK_ROWS: u64 = 1 << 16;

#[test]
fn filters_on_indexed_columns_skip_blocks() {
    const ROWS: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut writer = Writer::open(&table, Some(tick_schema()), &indexed(&["order", "symbol"])).unwrap();
    for step in 0..10 {
        writer.append(&ticks(step * 100_000, 100_000)).unwrap();
        writer.commit().unwrap();
    }
    for condition in [
        col("order").eq(500_000),
        col("symbol").eq("symbol 00500"),
        col("symbol").is_in(["symbol 00500", "symbol 00501"]),
        col("order").is_in([500_000, 500_001]),
    ] {
        // The rows may be in two blocks, and the incomplete last block has no zone.
        let unpruned = unpruned_rows(&table, &condition);
        assert!(unpruned <= 3 * BLOCK_ROWS, "{condition}: {unpruned}");
        assert!(open(&table).unwrap().filter(&condition).unwrap().len().unwrap() >= 1);
    }
    assert_eq!(unpruned_rows(&table, &col("order").ge(0)), ROWS);
    assert_eq!(unpruned_rows(&table, &col("order").lt(0)), ROWS % BLOCK_ROWS);
    assert_eq!(unpruned_rows(&table, &col("order").is_null()), ROWS % BLOCK_ROWS);
    let dataset = open(&table).unwrap();
    let groups = dataset.aggregate(&["symbol"]).count_rows("count").filter(col("order").lt(2000)).finish().unwrap();
    assert_eq!(groups.len().unwrap(), 2);
}

/// Sealed segments have zones in their footers, also small ones, and those that were merged while a reader had them
/// open.
#[test]
fn filters_skip_compacted_segments() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let options = WriterOptions { segment_rows: Some(1000), ..indexed(&["order", "symbol"]) };
    let mut writer = Writer::open(&table, Some(tick_schema()), &options).unwrap();
    writer.append(&ticks(0, 10_000)).unwrap();
    writer.commit().unwrap();
    let opened_before = open(&table).unwrap();
    let condition = col("symbol").eq("symbol 00005");
    assert_eq!(writer.compact(|_, _| ()).unwrap(), 9);
    writer.append(&ticks(10_000, 500)).unwrap();
    writer.close().unwrap();
    for dataset in [&opened_before, &open(&table).unwrap()] {
        assert_eq!(dataset.prune(&condition).unwrap().first_row(), 5000);
        assert_eq!(dataset.filter(&condition).unwrap().len().unwrap(), 1000);
    }
    assert_eq!(unpruned_rows(&table, &condition), 1000 + 500);
    assert!(check(&table, |_, _| ()).unwrap().is_good());

    // Everything is merged into one file, of which an open dataset uses parts.
    let large = WriterOptions { segment_rows: Some(1 << 20), ..indexed(&["order", "symbol"]) };
    let mut writer = Writer::open(&table, None, &large).unwrap();
    writer.append(&ticks(10_500, 600)).unwrap();
    writer.commit().unwrap();
    let opened_before = open(&table).unwrap();
    writer.compact(|_, _| ()).unwrap();
    drop(writer);
    for dataset in [&opened_before, &open(&table).unwrap()] {
        assert_eq!(dataset.filter(&condition).unwrap().len().unwrap(), 1000);
        assert_eq!(read_rows(&dataset.filter(&col("order").ge(10_990)).unwrap()).len(), 110);
    }
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(unpruned_rows(&table, &col("order").lt(0)), 0);
    assert!(check(&table, |_, _| ()).unwrap().is_good());

    // Damaged zones are an error, never missing rows.
    let path = std::fs::read_dir(&table).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&path).unwrap();
    let key = bytes.windows(15).position(|part| part == b"arrowwood.zones").unwrap();
    // The value may be stored before its key.
    let value = (key - 20_000.min(key)..bytes.len()).find(|&i| bytes[i..].starts_with(b"65536\n0 00000000"));
    bytes[value.unwrap() + 9] = b'1';
    std::fs::write(&path, bytes).unwrap();
    let dataset = open(&table).unwrap();
    assert_eq!(dataset.len().unwrap(), 11_100);
    assert_eq!(dataset.filter(&condition).unwrap_err().kind(), ErrorKind::InvalidData);
    assert!(!check(&table, |_, _| ()).unwrap().is_good());
}

/// The live segment keeps its index when the table is opened with another one.
#[test]
fn a_new_index_applies_from_the_next_segment_on() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let [by_order, by_symbol] =
        ["order", "symbol"].map(|name| WriterOptions { segment_rows: Some(1000), ..indexed(&[name]) });
    let mut writer = Writer::open(&table, Some(tick_schema()), &by_order).unwrap();
    writer.append(&ticks(0, 1500)).unwrap();
    writer.close().unwrap();
    let mut writer = Writer::open(&table, None, &by_symbol).unwrap();
    writer.append(&ticks(1500, 3000)).unwrap();
    writer.close().unwrap();
    let condition = col("symbol").eq("symbol 00003");
    // Two segments have no zones of the symbols, one has the rows, and one isn't full.
    assert_eq!(unpruned_rows(&table, &condition), 1000 + 1000 + 1000 + 500);
    assert_eq!(open(&table).unwrap().filter(&condition).unwrap().len().unwrap(), 1000);

    // Options without an index keep it.
    let no_index = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, None, &no_index).unwrap();
    writer.append(&ticks(4500, 1500)).unwrap();
    writer.close().unwrap();
    assert_eq!(unpruned_rows(&table, &col("symbol").eq("symbol 00005")), 1000 + 1000 + 1000);
    assert!(check(&table, |_, _| ()).unwrap().is_good());
}

#[test]
fn unsupported_index_columns_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    let schema = Arc::new(Schema::new(vec![Field::new("list", list, true), Field::new("n", DataType::Int64, true)]));
    for (names, kind, reason) in [
        (&["m"][..], ErrorKind::ColumnNotFound, "'m'"),
        (&["list"], ErrorKind::InvalidArgument, "index: column 'list' is"),
        (&["n", "n"], ErrorKind::InvalidArgument, "named twice"),
    ] {
        let error = Writer::open(folder.path().join("t"), Some(schema.clone()), &indexed(names)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(reason), "{error}");
    }
}

/// `check` compares zones with the rows, and readers refuse invalid ones.
#[test]
fn damaged_zones_are_detected() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let options = WriterOptions { segment_rows: Some(64), zone_rows: Some(16), ..indexed(&["order"]) };
    let mut writer = Writer::open(&table, Some(tick_schema()), &options).unwrap();
    writer.append(&ticks(0, 40)).unwrap();
    writer.close().unwrap();
    let path = table.join(format!("{:020}.arrow", 0));
    let original = std::fs::read(&path).unwrap();
    // The second zone: no nulls, some values, and the minimum and maximum in 32 bytes each.
    let zone = [&[0, 0, 0, 0, 1, 32, 32, 0, 16][..], &[0; 31], &[31], &[0; 31]].concat();
    let zone_start = original.windows(72).position(|bytes| bytes == zone).unwrap();
    let expected = read_rows(&open(&table).unwrap());
    for (offset, byte) in [(0, 17), (4, 0), (4, 2), (4, 16), (5, 33), (7, 1), (8, 99), (40, 200), (71, 0x70)] {
        let mut damaged = original.clone();
        damaged[zone_start + offset] = byte;
        std::fs::write(&path, &damaged).unwrap();
        let report = check(&table, |_, _| ()).unwrap();
        assert!(!report.is_good(), "byte {offset} = {byte}");
        let is_zone_reported =
            report.findings.iter().any(|finding| finding.message.contains("zone 1 of column 'order'"));
        assert!(is_zone_reported, "{report:?}");
        let dataset = open(&table).unwrap();
        assert_eq!(read_rows(&dataset), expected);
        match dataset.filter(&col("order").ge(0)) {
            Err(e) => assert_eq!(e.kind(), ErrorKind::InvalidData),
            // A valid zone with wrong values is only detected by a check.
            Ok(_) => assert!(offset == 40, "byte {offset} = {byte}"),
        }
    }
    std::fs::write(&path, &original).unwrap();
    assert!(check(&table, |_, _| ()).unwrap().is_good());
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(read_rows(&open(&table).unwrap()), expected);
}

// ---- late rows ----

/// Returns a schema of times, which the tables are sorted by, and numbers.
fn late_schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![Field::new("at", time, true), Field::new("n", DataType::Int64, false)]))
}

fn late_batch(times: &[Option<i64>], first: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(first..first + times.len() as i64);
    let times = TimestampMillisecondArray::from_iter(times.iter().copied());
    RecordBatch::try_new(late_schema(), vec![Arc::new(times), Arc::new(numbers)]).unwrap()
}

fn accepting_late_rows(segment_rows: u64, zone_rows: u32) -> WriterOptions {
    WriterOptions {
        sync: SyncPolicy::Never,
        sorted_by: Some("at".into()),
        late: Some(LatePolicy::Accept),
        segment_rows: Some(segment_rows),
        zone_rows: Some(zone_rows),
        ..WriterOptions::default()
    }
}

/// Returns the values of `n`, the last column.
fn read_numbers(dataset: &Dataset) -> Vec<i64> {
    let mut numbers = Vec::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        match row.get(row.len() - 1).unwrap() {
            Value::Int(n) => numbers.push(n),
            other => panic!("{other}"),
        }
    }
    numbers
}

/// Returns some times after `now`, some of which are up to 100 late, or null.
fn random_times(dice: &mut Dice, now: i64) -> Vec<Option<i64>> {
    let mut times = Vec::new();
    for _ in 0..1 + dice.below(30) {
        let delay = if dice.below(10) == 0 { dice.below(100) as i64 } else { 0 };
        let has_time = dice.below(20) > 0;
        times.push(has_time.then(|| now + dice.below(50) as i64 - delay));
    }
    times
}

/// Returns the numbers of the rows whose times are in a range.
fn rows_between(times: &[Option<i64>], low: i64, high: i64) -> Vec<i64> {
    let mut rows = Vec::new();
    for (n, time) in (0..).zip(times) {
        if time.is_some_and(|time| low <= time && time <= high) {
            rows.push(n);
        }
    }
    rows
}

#[test]
fn between_includes_late_rows() {
    for seed in 0..6 {
        let mut dice = Dice::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let options = accepting_late_rows(60 + dice.below(100), 16);
        let mut writer = Writer::open(&table, Some(late_schema()), &options).unwrap();
        let mut times: Vec<Option<i64>> = Vec::new();
        let mut skipped = 0;
        for step in 0..30 {
            let now = 50 * step;
            let new_times = random_times(&mut dice, now);
            writer.append(&late_batch(&new_times, times.len() as i64)).unwrap();
            times.extend(new_times);
            if dice.below(4) == 0 {
                let time = now - dice.below(100) as i64;
                writer.append_row(&[Value::Int(time), Value::Int(times.len() as i64)]).unwrap();
                times.push(Some(time));
            }
            writer.commit().unwrap();
            if dice.below(8) == 0 {
                writer.close().unwrap();
                writer = Writer::open(&table, Some(late_schema()), &accepting_late_rows(100, 16)).unwrap();
            }
            let dataset = open(&table).unwrap();
            for _ in 0..5 {
                let low = dice.below(1600) as i64 - 50;
                let high = low + dice.below(120) as i64 - 10;
                let expected = rows_between(&times, low, high);
                let range = dataset.between(&Value::Int(low), &Value::Int(high)).unwrap();
                assert_eq!(read_numbers(&range), expected);
                let selected = dataset.select(&["n"]).unwrap();
                let range = selected.between(&Value::Int(low), &Value::Int(high)).unwrap();
                assert_eq!(read_numbers(&range), expected);
                let condition = col("at").ge(low) & col("at").le(high);
                assert_eq!(read_numbers(&dataset.filter(&condition).unwrap()), expected);
                skipped += dataset.len().unwrap() - count_unpruned(&dataset, &condition);
            }
        }
        assert!(skipped > 0);
        let dataset = open(&table).unwrap();
        assert!(dataset.sorted_by().is_none(), "the rows are in no order");
        assert_eq!(dataset.late_by().unwrap().name(), "at");
        drop(writer);
        assert!(check(&table, |_, _| ()).unwrap().is_good());

        // Compaction keeps the order of arrival.
        compact(&table, |_, _| ()).unwrap();
        let compacted = open(&table).unwrap();
        assert_eq!(read_numbers(&compacted), (0..times.len() as i64).collect::<Vec<_>>());
        let range = compacted.between(&Value::Int(400), &Value::Int(500)).unwrap();
        assert_eq!(read_numbers(&range), rows_between(&times, 400, 500));
        assert!(check(&table, |_, _| ()).unwrap().is_good());

        // Late rows are still accepted.
        let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        writer.append(&late_batch(&[Some(-1)], times.len() as i64)).unwrap();
        writer.close().unwrap();
        let range = open(&table).unwrap().between(&Value::Int(-1), &Value::Int(-1)).unwrap();
        assert_eq!(read_numbers(&range), [times.len() as i64]);
    }
}

#[test]
fn errors_about_late_rows_say_how_to_accept_them() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let refusing_late_rows = WriterOptions { late: None, ..accepting_late_rows(100, 16) };
    let mut writer = Writer::open(&table, Some(late_schema()), &refusing_late_rows).unwrap();
    writer.append(&late_batch(&[Some(5)], 0)).unwrap();
    for error in [
        writer.append(&late_batch(&[Some(4)], 1)).unwrap_err(),
        writer.append_row(&[Value::Int(4), Value::Int(1)]).unwrap_err(),
    ] {
        assert!(error.message().contains("create the table with late=\"accept\""), "{error}");
    }
    writer.close().unwrap();
    let error = Writer::open(&table, None, &accepting_late_rows(100, 16)).unwrap_err();
    assert!(error.message().contains("the table refuses late rows, as it was created"), "{error}");
    let unsorted = WriterOptions { sorted_by: None, ..accepting_late_rows(100, 16) };
    let error = Writer::open(folder.path().join("u"), Some(late_schema()), &unsorted).unwrap_err();
    assert!(error.message().contains("late: rows are late in the column that sorted_by names"), "{error}");
}

/// Values of Date64 are compared by their days, as in sorted tables.
#[test]
fn between_includes_whole_days() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let fields = [Field::new("day", DataType::Date64, false), Field::new("n", DataType::Int64, false)];
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let options = WriterOptions { sorted_by: Some("day".into()), ..accepting_late_rows(100, 2) };
    let mut writer = Writer::open(&table, Some(schema.clone()), &options).unwrap();
    const DAY: i64 = 86_400_000;
    let days = Date64Array::from(vec![0, 3 * DAY + 5, DAY, 2 * DAY + DAY / 2, -1, 2 * DAY]);
    let numbers = Int64Array::from_iter_values(0..6);
    writer.append(&RecordBatch::try_new(schema, vec![Arc::new(days), Arc::new(numbers)]).unwrap()).unwrap();
    writer.close().unwrap();
    let range = open(&table).unwrap().between(&Value::Date(1), &Value::Date(2)).unwrap();
    assert_eq!(read_numbers(&range), [2, 3, 5]);
}

/// Errors of conditions count all rows of the dataset, including skipped ones.
#[test]
fn errors_name_the_row_in_the_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let mut writer = Writer::open(&table, Some(tick_schema()), &indexed(&["order"])).unwrap();
    writer.append(&ticks(0, 300_000)).unwrap();
    writer.commit().unwrap();
    assert!(unpruned_rows(&table, &col("order").ge(200_000)) < 200_000);
    let overflowing = col("order").ge(200_000) & (col("order") * i64::MAX).gt(0);
    let dataset = open(&table).unwrap();
    let slice = dataset.slice(1_000, 250_000).unwrap();
    let aggregation = dataset.aggregate(&["symbol"]).filter(overflowing.clone()).count_rows("n");
    for (result, row) in [
        (dataset.filter(&overflowing), "200000"),
        (aggregation.finish(), "200000"),
        (slice.filter(&overflowing), "199000"),
    ] {
        let error = result.unwrap_err();
        assert!(error.message().contains(&format!("in row {row};")), "{error}");
    }
}

/// Returns the numbers of symbols that are null, equal to `a`, and greater.
fn count_symbols(table: &Path) -> [u64; 3] {
    let dataset = open(table).unwrap();
    let conditions = [col("symbol").is_null(), col("symbol").eq("a"), col("symbol").gt("a")];
    conditions.map(|condition| dataset.filter(&condition).unwrap().len().unwrap())
}

/// Regression test: files of other programs may have dictionaries with a null among their values, which makes rows
/// null. If such a column was indexed, the table couldn't be compacted.
#[test]
fn null_values_of_dictionaries_are_nulls_of_the_column() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    std::fs::create_dir(&table).unwrap();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let field = Field::new("symbol", dictionary, true);
    let metadata = [("arrowwood.index".to_string(), "0".to_string())].into();
    let schema = Arc::new(Schema::new(vec![field.clone()]).with_metadata(metadata));
    let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(1), Some(2), Some(0)]);
    let values = StringArray::from(vec![Some("a"), None, Some("c")]);
    let symbols = DictionaryArray::new(keys, Arc::new(values));
    let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(symbols)]).unwrap();
    for first_row in [0, 6] {
        let file = std::fs::File::create(table.join(format!("{first_row:020}.arrow"))).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &schema).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
    }
    assert_eq!(count_symbols(&table), [6, 4, 2]);
    assert_eq!(compact(&table, |_, _| ()).unwrap(), 2);
    assert_eq!(count_symbols(&table), [6, 4, 2]);

    // Rewriting with another schema encodes the symbols again.
    let wider_schema = Schema::new(vec![field, Field::new("n", DataType::Int64, true)]);
    let mut writer = Writer::open(&table, Some(Arc::new(wider_schema)), &WriterOptions::default()).unwrap();
    writer.compact_with(arrowwood::CompactOptions { rewrite: true, ..Default::default() }, |_, _| ()).unwrap();
    writer.close().unwrap();
    assert_eq!(count_symbols(&table), [6, 4, 2]);
    assert!(check(&table, |_, _| ()).unwrap().is_good());
}
