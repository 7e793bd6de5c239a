//! Tests of columns without nulls that then have many: the space of a segment must not be estimated from the first rows
//! alone.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StructBuilder};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, SchemaRef};
use arrowwood::{Value, Writer, WriterOptions, check, open};

/// The number of values, which is more than the first segment has space for.
const VALUES: usize = 70_000;
/// The number of nulls, which is more than an estimate from the values.
const NULLS: usize = 80_000;

fn numbers(rows: usize, is_null: bool) -> ArrayRef {
    Arc::new(Int64Array::from_iter((0..rows as i64).map(|n| (!is_null).then_some(n))))
}

/// Returns lists of two items, all or none of which are null.
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

fn open_writer(table: &Path, schema: SchemaRef) -> Writer {
    Writer::open(table, Some(schema), &WriterOptions::default()).unwrap()
}

/// Returns a column of several batches as one array.
fn concat_column(batches: &[RecordBatch], column: usize) -> ArrayRef {
    let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(column).as_ref()).collect();
    arrow_select::concat::concat(&arrays).unwrap()
}

fn check_rows(table: &Path, expected: &[RecordBatch]) {
    let dataset = open(table).unwrap();
    let actual: Vec<_> = dataset.to_record_batches().map(Result::unwrap).collect();
    for column in 0..expected[0].num_columns() {
        assert_eq!(&concat_column(&actual, column), &concat_column(expected, column), "column {column}");
    }
    assert_eq!(check(table, |_, _| ()).unwrap().findings, []);
}

#[test]
fn batches_of_nulls_after_values_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let batches = [batch(VALUES, false), batch(NULLS, true), batch(100, false)];
    let mut writer = open_writer(&table, batches[0].schema());
    for batch in &batches {
        writer.append(batch).unwrap();
        writer.commit().unwrap();
        writer.sync().unwrap();
    }
    writer.close().unwrap();
    check_rows(&table, &batches);

    // The next writer can continue the table.
    let rows = open(&table).unwrap().len().unwrap();
    let mut writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
    writer.append(&batch(10, true)).unwrap();
    writer.close().unwrap();
    assert_eq!(open(&table).unwrap().len().unwrap(), rows + 10);
}

/// A failed sensor gives such rows, one in each commit.
#[test]
fn single_nulls_after_values_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let empty = RecordBatch::try_from_iter_with_nullable([("n", numbers(0, false), true)]).unwrap();
    let mut writer = open_writer(&table, empty.schema());
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
