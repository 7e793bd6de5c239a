//! Rows found by the zones of indexed columns: the same rows as without them, and only blocks that may have some are looked
//! at; while a table grows, after it was opened again, after a kill.
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

fn schema() -> SchemaRef {
    let keyed = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let types = [
        DataType::Int64,
        DataType::UInt8,
        DataType::Float64,
        DataType::Float32,
        DataType::Float16,
        DataType::Utf8,
        DataType::BinaryView,
        keyed,
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Decimal128(20, 2),
        DataType::Decimal256(50, 3),
        DataType::Boolean,
        DataType::FixedSizeBinary(40),
        DataType::Date64,
    ];
    let fields: Vec<Field> = NAMES.into_iter().zip(types).map(|(name, kind)| Field::new(name, kind, true)).collect();
    Arc::new(Schema::new(fields))
}

/// A text that is longer than what a zone holds of it, where `n` is odd.
fn text(n: i64) -> String {
    if n % 2 == 0 {
        format!("{:04}", n.rem_euclid(5000))
    } else {
        format!("the same long beginning of a text {:04}", n)
    }
}

/// Rows around the number `near`, with nulls and what is no number.
fn batch(dice: &mut Dice, near: i64, rows: usize) -> RecordBatch {
    let spread = 1 + dice.below(40) as i64;
    let nulls = [0, 5, 100][dice.below(3) as usize];
    let numbers: Vec<Option<i64>> = (0..rows)
        .map(|_| (dice.below(100) >= nulls).then(|| near + dice.below(spread as u64) as i64 - spread / 2))
        .collect();
    let odd = dice.below(4);
    let float = |n: i64| match odd {
        0 if n % 3 == 0 => f64::NAN,
        1 if n % 2 == 0 => -0.0,
        2 if n % 5 == 0 => 0.0,
        3 if n % 7 == 0 => f64::INFINITY,
        _ => n as f64 / 4.0,
    };
    let each = || numbers.iter().copied();
    let symbols: Vec<Option<String>> = each().map(|n| n.map(|n| text(n / 8))).collect();
    let mut view = BinaryViewBuilder::new();
    let mut id = FixedSizeBinaryBuilder::new(40);
    for n in each() {
        view.append_option(n.map(|n| text(n).into_bytes()));
        match n {
            Some(n) => id.append_value(format!("{:040}", n.rem_euclid(100_000))).unwrap(),
            None => id.append_null(),
        }
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(each())),
        Arc::new(UInt8Array::from_iter(each().map(|n| n.map(|n| n.rem_euclid(256) as u8)))),
        Arc::new(Float64Array::from_iter(each().map(|n| n.map(float)))),
        Arc::new(Float32Array::from_iter(each().map(|n| n.map(|n| float(n) as f32)))),
        Arc::new(Float16Array::from_iter(each().map(|n| n.map(|n| half::f16::from_f64(float(n % 1000)))))),
        Arc::new(StringArray::from_iter(each().map(|n| n.map(text)))),
        Arc::new(view.finish()),
        Arc::new(symbols.iter().map(Option::as_deref).collect::<DictionaryArray<types::Int32Type>>()),
        Arc::new(TimestampMillisecondArray::from_iter(each())),
        Arc::new(
            Decimal128Array::from_iter(each().map(|n| n.map(i128::from))).with_precision_and_scale(20, 2).unwrap(),
        ),
        Arc::new(
            Decimal256Array::from_iter(each().map(|n| n.map(|n| i256::from_i128(n.into()))))
                .with_precision_and_scale(50, 3)
                .unwrap(),
        ),
        Arc::new(BooleanArray::from_iter(each().map(|n| n.map(|n| n % 64 < 32)))),
        Arc::new(id.finish()),
        Arc::new(Date64Array::from_iter(each().map(|n| n.map(|n| n * 43_200_000)))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn literal(dice: &mut Dice, name: &str, near: i64) -> Literal {
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

fn predicate(dice: &mut Dice, near: i64, depth: u32) -> Predicate {
    if depth > 0 && dice.below(3) > 0 {
        let a = predicate(dice, near, depth - 1);
        let b = predicate(dice, near, depth - 1);
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
            let values: Vec<Literal> = (0..dice.below(4)).map(|_| literal(dice, name, near)).collect();
            col(name).is_in(values)
        }
        _ => {
            let all = [Operator::Eq, Operator::Ne, Operator::Lt, Operator::Le, Operator::Gt, Operator::Ge];
            let operator = all[dice.below(6) as usize];
            col(name).compare(operator, literal(dice, name, near))
        }
    }
}

fn options(segment_rows: u64, zone_rows: u32) -> WriterOptions {
    let index = Some(NAMES.iter().map(ToString::to_string).collect());
    WriterOptions { index, zone_rows: Some(zone_rows), ..unsynced(segment_rows) }
}

/// All rows as text.
fn rows(dataset: &Dataset) -> Vec<String> {
    let row = |row: arrowwood::Row<'_>| (0..row.len()).map(|cell| format!("{}|", row.get(cell).unwrap())).collect();
    dataset.rows().map(|found| row(found.unwrap())).collect()
}

/// What is found in the table, beside what is found in the same rows in memory.
fn compare(dice: &mut Dice, table: &Dataset, twin: &Dataset, near: i64, times: usize) -> u64 {
    let mut skipped = 0;
    for _ in 0..times {
        let near = near + dice.below(200) as i64;
        let condition = predicate(dice, near, 2);
        let found = table.filter(&condition).unwrap();
        let expected = twin.filter(&condition).unwrap();
        assert_eq!(rows(&found), rows(&expected), "{condition}");
        let groups = table.aggregate(&["flag"]).count_rows("count").filter(condition.clone()).finish().unwrap();
        let expected = twin.aggregate(&["flag"]).count_rows("count").filter(condition.clone()).finish().unwrap();
        assert_eq!(rows(&groups), rows(&expected), "{condition}");
        skipped += table.len().unwrap() - table.prune(&condition).unwrap().len().unwrap();
    }
    skipped
}

#[test]
fn conditions_find_the_rows_that_they_find_without_zones() {
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
            let batch = batch(&mut dice, step * 20, len);
            writer.append(&batch).unwrap();
            match dice.below(6) {
                0 => {
                    writer.rollback();
                    batches.clear();
                    let there = open(&table).unwrap();
                    batches.extend(there.to_record_batches().map(|batch| batch.unwrap()));
                    continue;
                }
                1 => {
                    writer.close().unwrap();
                    writer = Writer::open(&table, None, &options(50 + dice.below(200), zone_rows)).unwrap();
                }
                _ => (),
            }
            batches.push(batch);
            if dice.below(3) > 0 {
                writer.commit().unwrap();
            } else {
                let again = self::batch(&mut dice, step * 20, 3);
                writer.append(&again).unwrap();
                batches.push(again);
                writer.commit().unwrap();
            }
            let twin = Dataset::from_batches(schema(), batches.clone()).unwrap();
            let dataset = open(&table).unwrap();
            assert_eq!(dataset.len().unwrap(), twin.len().unwrap());
            skipped += compare(&mut dice, &dataset, &twin, 0, 8);
        }
        drop(writer);
        let report = check(&table, |_, _| ()).unwrap();
        assert!(report.is_good(), "{:#?}", report.findings);
    }
    assert!(skipped > 10_000, "only {skipped} rows were left out");
}

fn ticks() -> SchemaRef {
    let fields = [Field::new("order", DataType::Int64, false), Field::new("symbol", DataType::Utf8, false)];
    Arc::new(Schema::new(fields.to_vec()))
}

fn some_ticks(from: i64, rows: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(from..from + rows);
    let symbols = StringArray::from_iter_values((from..from + rows).map(|n| format!("symbol {:05}", n / 1000)));
    RecordBatch::try_new(ticks(), vec![Arc::new(numbers), Arc::new(symbols)]).unwrap()
}

fn indexed(names: &[&str]) -> WriterOptions {
    let index = Some(names.iter().map(ToString::to_string).collect());
    WriterOptions { sync: SyncPolicy::Never, index, ..WriterOptions::default() }
}

fn looked_at(table: &Path, condition: &Predicate) -> u64 {
    open(table).unwrap().prune(condition).unwrap().len().unwrap()
}

#[test]
fn a_condition_on_an_indexed_column_looks_at_the_blocks_that_may_have_rows() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let mut writer = Writer::open(&table, Some(ticks()), &indexed(&["order", "symbol"])).unwrap();
    for step in 0..10 {
        writer.append(&some_ticks(step * 100_000, 100_000)).unwrap();
        writer.commit().unwrap();
    }
    let rows = 1_000_000;
    for condition in [
        col("order").eq(500_000),
        col("symbol").eq("symbol 00500"),
        col("symbol").is_in(["symbol 00500", "symbol 00501"]),
        col("order").is_in([500_000, 500_001]),
    ] {
        // The last block is not complete yet.
        let looked = looked_at(&table, &condition);
        assert!(looked <= 3 << 16, "{condition}: {looked}");
        assert!(open(&table).unwrap().filter(&condition).unwrap().len().unwrap() >= 1);
    }
    assert_eq!(looked_at(&table, &col("order").ge(0)), rows);
    assert_eq!(looked_at(&table, &col("order").lt(0)), rows % (1 << 16));
    assert_eq!(looked_at(&table, &col("order").is_null()), rows % (1 << 16));
    let counted = open(&table).unwrap();
    let counted = counted.aggregate(&["symbol"]).count_rows("count").filter(col("order").lt(2000)).finish().unwrap();
    assert_eq!(counted.len().unwrap(), 2);
}

/// Dense segments have zones in their footers, small ones too, also where their rows were merged under a reader.
#[test]
fn compacted_segments_are_left_out_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let options = WriterOptions { segment_rows: Some(1000), ..indexed(&["order", "symbol"]) };
    let mut writer = Writer::open(&table, Some(ticks()), &options).unwrap();
    writer.append(&some_ticks(0, 10_000)).unwrap();
    writer.commit().unwrap();
    let before = open(&table).unwrap();
    let condition = col("symbol").eq("symbol 00005");
    assert_eq!(writer.compact(|_, _| ()).unwrap(), 9);
    writer.append(&some_ticks(10_000, 500)).unwrap();
    writer.close().unwrap();
    for dataset in [&before, &open(&table).unwrap()] {
        assert_eq!(dataset.prune(&condition).unwrap().first_row(), 5000);
        assert_eq!(dataset.filter(&condition).unwrap().len().unwrap(), 1000);
    }
    assert_eq!(looked_at(&table, &condition), 1000 + 500);
    assert!(check(&table, |_, _| ()).unwrap().is_good());
    // One file of all, of which a reader that opened the table before takes parts.
    let large = WriterOptions { segment_rows: Some(1 << 20), ..indexed(&["order", "symbol"]) };
    let mut writer = Writer::open(&table, None, &large).unwrap();
    writer.append(&some_ticks(10_500, 600)).unwrap();
    writer.commit().unwrap();
    let before = open(&table).unwrap();
    writer.compact(|_, _| ()).unwrap();
    drop(writer);
    for dataset in [&before, &open(&table).unwrap()] {
        assert_eq!(dataset.filter(&condition).unwrap().len().unwrap(), 1000);
        assert_eq!(rows(&dataset.filter(&col("order").ge(10_990)).unwrap()).len(), 110);
    }
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(looked_at(&table, &col("order").lt(0)), 0);
    assert!(check(&table, |_, _| ()).unwrap().is_good());
    // Zones that were tampered with are refused, and cost no row.
    let path = std::fs::read_dir(&table).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(15).position(|part| part == b"arrowwood.zones").unwrap();
    let at = (at - 20_000.min(at)..bytes.len()).find(|&at| bytes[at..].starts_with(b"65536\n0 00000000")).unwrap();
    bytes[at + 9] = b'1';
    std::fs::write(&path, bytes).unwrap();
    let dataset = open(&table).unwrap();
    assert_eq!(dataset.len().unwrap(), 11_100);
    assert_eq!(dataset.filter(&condition).unwrap_err().kind(), ErrorKind::InvalidData);
    assert!(!check(&table, |_, _| ()).unwrap().is_good());
}

/// A writer that goes on is asked for another index: the live segment keeps its own.
#[test]
fn another_index_holds_from_the_next_segment_on() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    let options = |names: &[&str]| WriterOptions { segment_rows: Some(1000), ..indexed(names) };
    let mut writer = Writer::open(&table, Some(ticks()), &options(&["order"])).unwrap();
    writer.append(&some_ticks(0, 1500)).unwrap();
    writer.close().unwrap();
    let mut writer = Writer::open(&table, None, &options(&["symbol"])).unwrap();
    writer.append(&some_ticks(1500, 3000)).unwrap();
    writer.close().unwrap();
    let condition = col("symbol").eq("symbol 00003");
    // Two segments without zones of it, and one that is not full.
    assert_eq!(looked_at(&table, &condition), 1000 + 1000 + 1000 + 500);
    assert_eq!(open(&table).unwrap().filter(&condition).unwrap().len().unwrap(), 1000);
    // Without a word on the index it stays as it was.
    let unsaid = WriterOptions { sync: SyncPolicy::Never, ..WriterOptions::default() };
    let mut writer = Writer::open(&table, None, &unsaid).unwrap();
    writer.append(&some_ticks(4500, 1500)).unwrap();
    writer.close().unwrap();
    assert_eq!(looked_at(&table, &col("symbol").eq("symbol 00005")), 1000 + 1000 + 1000);
    assert!(check(&table, |_, _| ()).unwrap().is_good());
}

#[test]
fn columns_that_can_not_be_indexed_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int64, true)));
    let schema = Arc::new(Schema::new(vec![Field::new("list", list, true), Field::new("n", DataType::Int64, true)]));
    let refused =
        |names: &[&str]| Writer::open(folder.path().join("t"), Some(schema.clone()), &indexed(names)).unwrap_err();
    assert_eq!(refused(&["m"]).kind(), ErrorKind::ColumnNotFound);
    let wrong = refused(&["list"]);
    assert!(
        wrong.message().contains("index: column 'list' is") && wrong.kind() == ErrorKind::InvalidArgument,
        "{wrong}"
    );
    assert!(refused(&["n", "n"]).message().contains("named twice"));
}

/// Zones are part of what is committed: `check` compares them with the rows, and a reader refuses those that can't be.
#[test]
fn damaged_zones_are_found_and_never_cost_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let options = WriterOptions { segment_rows: Some(64), zone_rows: Some(16), ..indexed(&["order"]) };
    let mut writer = Writer::open(&table, Some(ticks()), &options).unwrap();
    writer.append(&some_ticks(0, 40)).unwrap();
    writer.close().unwrap();
    let path = table.join(format!("{:020}.arrow", 0));
    let good = std::fs::read(&path).unwrap();
    // The second zone: no nulls, values, two numbers of 32 bytes.
    let zone = [&[0, 0, 0, 0, 1, 32, 32, 0, 16][..], &[0; 31], &[31], &[0; 31]].concat();
    let at = good.windows(72).position(|bytes| bytes == zone).unwrap();
    let expected = rows(&open(&table).unwrap());
    for (place, byte) in [(0, 17), (4, 0), (4, 2), (4, 16), (5, 33), (7, 1), (8, 99), (40, 200), (71, 0x70)] {
        let mut bad = good.clone();
        bad[at + place] = byte;
        std::fs::write(&path, &bad).unwrap();
        let report = check(&table, |_, _| ()).unwrap();
        assert!(!report.is_good(), "byte {place} = {byte}");
        assert!(report.findings.iter().any(|found| found.message.contains("zone 1 of column 'order'")), "{report:?}");
        let dataset = open(&table).unwrap();
        assert_eq!(rows(&dataset), expected);
        match dataset.filter(&col("order").ge(0)) {
            Err(e) => assert_eq!(e.kind(), ErrorKind::InvalidData),
            // What can be, and is not, is only found by a check.
            Ok(_) => assert!(place == 40, "byte {place} = {byte}"),
        }
    }
    std::fs::write(&path, &good).unwrap();
    assert!(check(&table, |_, _| ()).unwrap().is_good());
    compact(&table, |_, _| ()).unwrap();
    assert_eq!(rows(&open(&table).unwrap()), expected);
}

// ---- late rows ----

fn times() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Millisecond, None);
    Arc::new(Schema::new(vec![Field::new("at", time, true), Field::new("n", DataType::Int64, false)]))
}

fn some_times(times_: &[Option<i64>], from: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(from..from + times_.len() as i64);
    let at = TimestampMillisecondArray::from_iter(times_.iter().copied());
    RecordBatch::try_new(times(), vec![Arc::new(at), Arc::new(numbers)]).unwrap()
}

fn accepting(segment_rows: u64, zone_rows: u32) -> WriterOptions {
    WriterOptions {
        sync: SyncPolicy::Never,
        sorted_by: Some("at".into()),
        late: Some(LatePolicy::Accept),
        segment_rows: Some(segment_rows),
        zone_rows: Some(zone_rows),
        ..WriterOptions::default()
    }
}

/// The values of `n` in the rows.
fn numbers(dataset: &Dataset) -> Vec<i64> {
    let number = |row: arrowwood::Row<'_>| match row.get(row.len() - 1).unwrap() {
        Value::Int(n) => n,
        other => panic!("{other}"),
    };
    dataset.rows().map(|row| number(row.unwrap())).collect()
}

/// Rows arrive with a delay of up to 100; some have no time.
#[test]
fn between_finds_late_rows_where_they_arrived() {
    for seed in 0..6 {
        let mut dice = Dice::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let mut writer = Writer::open(&table, Some(times()), &accepting(60 + dice.below(100), 16)).unwrap();
        let mut all: Vec<Option<i64>> = Vec::new();
        let mut skipped = 0;
        for step in 0..30 {
            let now = 50 * step;
            let some: Vec<Option<i64>> = (0..1 + dice.below(30))
                .map(|_| {
                    let late = if dice.below(10) == 0 { dice.below(100) as i64 } else { 0 };
                    (dice.below(20) > 0).then(|| now + dice.below(50) as i64 - late)
                })
                .collect();
            writer.append(&some_times(&some, all.len() as i64)).unwrap();
            all.extend(some);
            if dice.below(4) == 0 {
                let at = now - dice.below(100) as i64;
                writer.append_row(&[Value::Int(at), Value::Int(all.len() as i64)]).unwrap();
                all.push(Some(at));
            }
            writer.commit().unwrap();
            if dice.below(8) == 0 {
                writer.close().unwrap();
                writer = Writer::open(&table, Some(times()), &accepting(100, 16)).unwrap();
            }
            let dataset = open(&table).unwrap();
            for _ in 0..5 {
                let low = dice.below(1600) as i64 - 50;
                let high = low + dice.below(120) as i64 - 10;
                let expected: Vec<i64> = (0..all.len() as i64)
                    .filter(|&n| all[n as usize].is_some_and(|at| low <= at && at <= high))
                    .collect();
                let found = dataset.between(&Value::Int(low), &Value::Int(high)).unwrap();
                assert_eq!(numbers(&found), expected);
                let narrow = dataset.select(&["n"]).unwrap();
                assert_eq!(numbers(&narrow.between(&Value::Int(low), &Value::Int(high)).unwrap()), expected);
                let condition = col("at").ge(low) & col("at").le(high);
                assert_eq!(numbers(&dataset.filter(&condition).unwrap()), expected);
                skipped += dataset.len().unwrap() - dataset.prune(&condition).unwrap().len().unwrap();
            }
        }
        assert!(skipped > 0);
        let dataset = open(&table).unwrap();
        assert!(dataset.sorted_by().is_none(), "the rows are in no order");
        assert_eq!(dataset.late_by().unwrap().name(), "at");
        drop(writer);
        assert!(check(&table, |_, _| ()).unwrap().is_good());
        compact(&table, |_, _| ()).unwrap();
        let dense = open(&table).unwrap();
        assert_eq!(numbers(&dense), (0..all.len() as i64).collect::<Vec<_>>());
        let expected: Vec<i64> =
            (0..all.len() as i64).filter(|&n| all[n as usize].is_some_and(|at| (400..=500).contains(&at))).collect();
        assert_eq!(numbers(&dense.between(&Value::Int(400), &Value::Int(500)).unwrap()), expected);
        assert!(check(&table, |_, _| ()).unwrap().is_good());
        let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        writer.append(&some_times(&[Some(-1)], all.len() as i64)).unwrap();
        writer.close().unwrap();
        assert_eq!(
            numbers(&open(&table).unwrap().between(&Value::Int(-1), &Value::Int(-1)).unwrap()),
            [all.len() as i64]
        );
    }
}

#[test]
fn a_table_that_refuses_late_rows_says_how_to_accept_them() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let refusing = WriterOptions { late: None, ..accepting(100, 16) };
    let mut writer = Writer::open(&table, Some(times()), &refusing).unwrap();
    writer.append(&some_times(&[Some(5)], 0)).unwrap();
    for refused in [
        writer.append(&some_times(&[Some(4)], 1)).unwrap_err(),
        writer.append_row(&[Value::Int(4), Value::Int(1)]).unwrap_err(),
    ] {
        assert!(refused.message().contains("create the table with late=\"accept\""), "{refused}");
    }
    writer.close().unwrap();
    let refused = Writer::open(&table, None, &accepting(100, 16)).unwrap_err();
    assert!(refused.message().contains("the table refuses late rows, as it was created"), "{refused}");
    let unsorted = WriterOptions { sorted_by: None, ..accepting(100, 16) };
    let refused = Writer::open(folder.path().join("u"), Some(times()), &unsorted).unwrap_err();
    assert!(refused.message().contains("late: rows are late in the column that sorted_by names"), "{refused}");
}

/// A date64 is compared by its day, as in tables that are sorted by one.
#[test]
fn between_of_days_takes_whole_days() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let fields = [Field::new("day", DataType::Date64, false), Field::new("n", DataType::Int64, false)];
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let options = WriterOptions { sorted_by: Some("day".into()), ..accepting(100, 2) };
    let mut writer = Writer::open(&table, Some(schema.clone()), &options).unwrap();
    const DAY: i64 = 86_400_000;
    let days = Date64Array::from(vec![0, 3 * DAY + 5, DAY, 2 * DAY + DAY / 2, -1, 2 * DAY]);
    let numbers_ = Int64Array::from_iter_values(0..6);
    writer.append(&RecordBatch::try_new(schema, vec![Arc::new(days), Arc::new(numbers_)]).unwrap()).unwrap();
    writer.close().unwrap();
    let found = open(&table).unwrap().between(&Value::Date(1), &Value::Date(2)).unwrap();
    assert_eq!(numbers(&found), [2, 3, 5]);
}

/// Zones leave blocks out, but an error counts all rows.
#[test]
fn an_error_names_the_row_of_the_dataset_that_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("t");
    let mut writer = Writer::open(&table, Some(ticks()), &indexed(&["order"])).unwrap();
    writer.append(&some_ticks(0, 300_000)).unwrap();
    writer.commit().unwrap();
    let condition = col("order").ge(200_000) & (col("order") * i64::MAX).gt(0);
    assert!(looked_at(&table, &col("order").ge(200_000)) < 200_000);
    let dataset = open(&table).unwrap();
    let expect = |found: Result<Dataset, arrowwood::Error>, row: &str| {
        let error = found.unwrap_err();
        assert!(error.message().contains(&format!("in row {row};")), "{error}");
    };
    expect(dataset.filter(&condition), "200000");
    expect(dataset.aggregate(&["symbol"]).filter(condition.clone()).count_rows("n").finish(), "200000");
    expect(dataset.slice(1_000, 250_000).unwrap().filter(&condition), "199000");
}

/// A file of another program may have a null among the entries of a dictionary. Its rows are null; a column of them that
/// was indexed could not be compacted.
#[test]
fn a_null_among_the_entries_of_a_dictionary_is_a_null_of_the_column() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("ticks");
    std::fs::create_dir(&table).unwrap();
    let keyed = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let field = Field::new("symbol", keyed, true);
    let metadata = [("arrowwood.index".to_string(), "0".to_string())].into();
    let schema = Arc::new(Schema::new(vec![field.clone()]).with_metadata(metadata));
    let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(1), Some(2), Some(0)]);
    let entries = StringArray::from(vec![Some("a"), None, Some("c")]);
    let symbols = DictionaryArray::new(keys, Arc::new(entries));
    let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(symbols)]).unwrap();
    for first_row in [0, 6] {
        let file = std::fs::File::create(table.join(format!("{first_row:020}.arrow"))).unwrap();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &schema).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
    }
    let found = || {
        let dataset = open(&table).unwrap();
        let conditions = [col("symbol").is_null(), col("symbol").eq("a"), col("symbol").gt("a")];
        conditions.map(|condition| dataset.filter(&condition).unwrap().len().unwrap())
    };
    assert_eq!(found(), [6, 4, 2]);
    let newer = Schema::new(vec![field, Field::new("n", DataType::Int64, true)]);
    // Merged as they are, and written again with another schema.
    assert_eq!(compact(&table, |_, _| ()).unwrap(), 2);
    assert_eq!(found(), [6, 4, 2]);
    let mut writer = Writer::open(&table, Some(Arc::new(newer)), &WriterOptions::default()).unwrap();
    writer.compact_with(arrowwood::CompactOptions { rewrite: true, ..Default::default() }, |_, _| ()).unwrap();
    writer.close().unwrap();
    assert_eq!(found(), [6, 4, 2]);
    assert!(check(&table, |_, _| ()).unwrap().is_good());
}
