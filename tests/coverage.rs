//! `docs/coverage.md` says what can be done with each type; this test makes the table anew and compares, so that the
//! page can't lie. `UPDATE_DOCS=1 cargo test --test coverage` writes it.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit, UnionFields};
use arrowwood::{Bytes, Compression, Dataset, Format, Open, Value, WriteOptions, type_name, write_to};

/// Three rows of each type, the second null where the type has validity.
fn samples() -> Vec<ArrayRef> {
    let text = || StringArray::from(vec![Some("a"), None, Some("a longer piece of text")]);
    let ints = || Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6])) as ArrayRef;
    let item = || Arc::new(Field::new("item", DataType::Int32, true));
    let fields = Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)]);
    let members =
        UnionFields::from_fields(vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)]);
    let three = || Arc::new(Int32Array::from(vec![7, 8, 9])) as ArrayRef;
    let ids = || ScalarBuffer::from(vec![0i8, 1, 0]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("k");
    map.values().append_value(1);
    map.append(true).unwrap();
    map.append(false).unwrap();
    map.append(true).unwrap();
    let mut samples: Vec<ArrayRef> = vec![
        Arc::new(NullArray::new(3)),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Float16Array::from(vec![Some(half::f16::ONE), None, Some(half::f16::PI)])),
        Arc::new(Decimal32Array::from(vec![Some(123), None, Some(-5)]).with_precision_and_scale(9, 2).unwrap()),
        Arc::new(Decimal64Array::from(vec![Some(123), None, Some(-5)]).with_precision_and_scale(18, 2).unwrap()),
        Arc::new(Decimal128Array::from(vec![Some(123), None, Some(-5)]).with_precision_and_scale(38, 2).unwrap()),
        Arc::new(
            Decimal256Array::from(vec![Some(i256::ONE), None, Some(i256::MINUS_ONE)])
                .with_precision_and_scale(76, 2)
                .unwrap(),
        ),
        Arc::new(IntervalYearMonthArray::from(vec![Some(14), None, Some(1)])),
        Arc::new(IntervalDayTimeArray::from(vec![Some(IntervalDayTime::new(1, 2)), None, Some(IntervalDayTime::ZERO)])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![
            Some(IntervalMonthDayNano::new(1, 2, 3)),
            None,
            Some(IntervalMonthDayNano::ZERO),
        ])),
        Arc::new(text()),
        Arc::new(LargeStringArray::from_iter(text().iter())),
        Arc::new(StringViewArray::from_iter(text().iter())),
        Arc::new(BinaryArray::from_iter(text().iter())),
        Arc::new(LargeBinaryArray::from_iter(text().iter())),
        Arc::new(BinaryViewArray::from_iter(text().iter())),
        Arc::new(FixedSizeBinaryArray::try_from_iter(["abc", "def", "ghi"].into_iter()).unwrap()),
        Arc::new(ListArray::new(
            item(),
            OffsetBuffer::new(vec![0, 2, 2, 6].into()),
            ints(),
            Some(vec![true, false, true].into()),
        )),
        Arc::new(LargeListArray::new(
            item(),
            OffsetBuffer::new(vec![0, 2, 2, 6].into()),
            ints(),
            Some(vec![true, false, true].into()),
        )),
        Arc::new(ListViewArray::new(
            item(),
            vec![4, 0, 1].into(),
            vec![2, 0, 3].into(),
            ints(),
            Some(vec![true, false, true].into()),
        )),
        Arc::new(LargeListViewArray::new(
            item(),
            vec![4, 0, 1].into(),
            vec![2, 0, 3].into(),
            ints(),
            Some(vec![true, false, true].into()),
        )),
        Arc::new(FixedSizeListArray::new(item(), 2, ints(), Some(vec![true, false, true].into()))),
        Arc::new(StructArray::new(fields, vec![three(), Arc::new(text())], Some(vec![true, false, true].into()))),
        Arc::new(map.finish()),
        Arc::new(UnionArray::try_new(members.clone(), ids(), None, vec![three(), Arc::new(text())]).unwrap()),
        Arc::new(
            UnionArray::try_new(members, ids(), Some(vec![0, 2, 1].into()), vec![three(), Arc::new(text())]).unwrap(),
        ),
        Arc::new(text().iter().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(DictionaryArray::<UInt32Type>::new(vec![1, 0, 1].into(), Arc::new(Int64Array::from(vec![10, 20])))),
        Arc::new(
            RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &StringArray::from(vec!["a", "b"])).unwrap(),
        ),
    ];
    samples.extend(plain_numbers());
    samples
}

/// Every type whose values are plain little-endian numbers, made from the same bytes.
fn plain_numbers() -> Vec<ArrayRef> {
    use DataType::*;
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let mut types = vec![Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64, Date32, Date64];
    types.extend([Time32(units[0]), Time32(units[1]), Time64(units[2]), Time64(units[3])]);
    types.extend(units.map(|unit| Timestamp(unit, None)));
    types.push(Timestamp(units[1], Some("UTC".into())));
    types.extend(units.map(Duration));
    let make = |data_type: DataType| {
        let width = data_type.primitive_width().unwrap();
        let bytes: Vec<u8> =
            (0..3u8).flat_map(|i| (0..width).map(move |byte| if byte == 0 { i + 1 } else { 0 })).collect();
        let data = arrow_data::ArrayData::builder(data_type).len(3).add_buffer(Buffer::from_vec(bytes));
        make_array(data.null_bit_buffer(Some(Buffer::from_vec(vec![0b101u8]))).align_buffers(true).build().unwrap())
    };
    types.into_iter().map(make).collect()
}

fn dataset(array: &ArrayRef) -> Dataset {
    let schema = Arc::new(Schema::new(vec![Field::new("c", array.data_type().clone(), true)]));
    Dataset::from_batches(schema.clone(), vec![RecordBatch::try_new(schema, vec![array.clone()]).unwrap()]).unwrap()
}

fn cells(dataset: &Dataset) -> Result<Vec<String>, arrowwood::Error> {
    let column = dataset.column_at(0)?;
    column.values().map(|value| Ok(value?.to_json()?.to_string())).collect()
}

/// Written by Arrowwood, every framing and codec, and read back the same.
fn round_trips(array: &ArrayRef) -> bool {
    let original = dataset(array);
    let expected = cells(&original).unwrap();
    [Format::File, Format::Stream].into_iter().all(|format| {
        [None, Some(Compression::Lz4), Some(Compression::Zstd)].into_iter().all(|compression| {
            let mut bytes = Vec::new();
            write_to(&original, &mut bytes, &WriteOptions { format, compression, ..WriteOptions::default() }).unwrap();
            let again = Open::new().bytes(Bytes::from(bytes)).unwrap();
            again.validate(|_, _| ()).unwrap();
            assert_eq!(again.schema().field(0).data_type(), array.data_type());
            cells(&again).unwrap() == expected
        })
    })
}

/// Written by arrow-rs and read here in place.
fn reads(array: &ArrayRef) -> bool {
    let original = dataset(array);
    let batch = original.to_record_batches().next().unwrap().unwrap();
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    cells(&Open::new().strict(true).bytes(Bytes::from(bytes)).unwrap()).unwrap() == cells(&original).unwrap()
}

fn aggregates(array: &ArrayRef) -> String {
    let column = dataset(array).column_at(0).unwrap();
    let mut names = vec!["count"];
    if column.min().is_ok() {
        names.extend(["min", "max"]);
    }
    if column.sum().is_ok() {
        names.push("sum");
    }
    if column.mean().is_ok() {
        names.push("mean");
    }
    names.join(" ")
}

fn row_access(array: &ArrayRef) -> bool {
    let column = dataset(array).column_at(0).unwrap();
    (0..3).all(|row| {
        let value = match column.get(row).unwrap() {
            Value::Union(_, member) => *member,
            value => value,
        };
        matches!(value, Value::Null) == array.logical_nulls().is_some_and(|nulls| nulls.is_null(row as usize))
    })
}

fn table() -> String {
    let mut page = String::from(
        "# What can be done with each type\n\n\
         Made by `tests/coverage.rs`, which writes and reads three rows of each type, with nulls, as file and stream, \
         plain, lz4 and zstd. *In place*: written by arrow-rs and read without a copy. *Growable* comes with live tables.\n\n\
         | type | in place | write | row access | reductions | growable |\n|---|---|---|---|---|---|\n",
    );
    let mark = |yes: bool| if yes { "yes" } else { "no" };
    for array in samples() {
        page += &format!(
            "| `{}` | {} | {} | {} | {} | not yet |\n",
            type_name(array.data_type()),
            mark(reads(&array)),
            mark(round_trips(&array)),
            mark(row_access(&array)),
            aggregates(&array)
        );
    }
    page
}

#[test]
fn the_page_on_coverage_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/coverage.md");
    let page = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/coverage.md is out of date: UPDATE_DOCS=1 cargo test --test coverage");
}
