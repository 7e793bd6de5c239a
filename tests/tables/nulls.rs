//! Columns that have few nulls for long, and then many: a segment's room for nulls is not guessed from the rows before.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StructBuilder};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, SchemaRef};
use arrowwood::{Value, Writer, WriterOptions, check, open};

/// More than the first segment has room for.
const VALUES: usize = 70_000;
/// More than nulls were guessed to come.
const NULLS: usize = 80_000;

fn numbers(rows: usize, is_null: bool) -> ArrayRef {
    Arc::new(Int64Array::from_iter((0..rows as i64).map(|n| (!is_null).then_some(n))))
}

/// A list of two items in each row, all of them null or none.
fn lists(rows: usize, is_null: bool) -> ArrayRef {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in 0..rows as i64 {
        lists.values().append_option((!is_null).then_some(row));
        lists.values().append_option((!is_null).then_some(-row));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn structs(rows: usize, is_null: bool) -> ArrayRef {
    let fields = Fields::from(vec![Field::new("n", DataType::Int64, true)]);
    let mut structs = StructBuilder::from_fields(fields, rows);
    for row in 0..rows as i64 {
        structs.field_builder::<Int64Builder>(0).unwrap().append_option((!is_null).then_some(row));
        structs.append(true);
    }
    Arc::new(structs.finish())
}

fn batch(rows: usize, is_null: bool) -> RecordBatch {
    let columns = [("n", numbers(rows, is_null)), ("list", lists(rows, is_null)), ("struct", structs(rows, is_null))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn writer(table: &Path, schema: SchemaRef) -> Writer {
    Writer::open(table, Some(schema), &WriterOptions::default()).unwrap()
}

fn check_all(table: &Path, expected: &[RecordBatch]) {
    let dataset = open(table).unwrap();
    let found: Vec<_> = dataset.to_record_batches().map(Result::unwrap).collect();
    let whole = |batches: &[RecordBatch], column: usize| {
        let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(column).as_ref()).collect();
        arrow_select::concat::concat(&arrays).unwrap()
    };
    for column in 0..expected[0].num_columns() {
        assert_eq!(&whole(&found, column), &whole(expected, column), "column {column}");
    }
    assert_eq!(check(table, |_, _| ()).unwrap().findings, []);
}

#[test]
fn a_column_that_turns_null_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let batches = [batch(VALUES, false), batch(NULLS, true), batch(100, false)];
    let mut writer = writer(&table, batches[0].schema());
    for batch in &batches {
        writer.append(batch).unwrap();
        writer.commit().unwrap();
        writer.sync().unwrap();
    }
    writer.close().unwrap();
    check_all(&table, &batches);
    writer_goes_on(&table);
}

fn writer_goes_on(table: &Path) {
    let rows = open(table).unwrap().len().unwrap();
    let mut writer = Writer::open(table, None, &WriterOptions::default()).unwrap();
    writer.append(&batch(10, true)).unwrap();
    writer.close().unwrap();
    assert_eq!(open(table).unwrap().len().unwrap(), rows + 10);
}

/// As a sensor does that has failed.
#[test]
fn a_column_that_turns_null_row_by_row_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let columns = RecordBatch::try_from_iter_with_nullable([("n", numbers(0, false), true)]).unwrap();
    let mut writer = writer(&table, columns.schema());
    for n in 0..VALUES + NULLS {
        let value = if n < VALUES { Value::Int(n as i64) } else { Value::Null };
        writer.append_row(&[value]).unwrap();
        writer.commit().unwrap();
    }
    drop(writer);
    let dataset = open(&table).unwrap();
    assert_eq!(dataset.len().unwrap(), (VALUES + NULLS) as u64);
    assert_eq!(dataset.column("n").unwrap().null_count().unwrap(), NULLS as u64);
}
