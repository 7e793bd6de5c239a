//! Rows that are gathered in memory: the growable buffer, the builder, many batches as one.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{
    Bytes, Compression, Dataset, DatasetBuilder, ErrorKind, Format, GrowableBuffer, OpenOptions, Value, WriteOptions,
    write_to,
};
use proptest::prelude::*;

use crate::columns::{batch, rows};

/// The columns that can grow.
fn growing(dataset: &Dataset) -> Dataset {
    let can_grow = |field: &&Arc<Field>| DatasetBuilder::new(Arc::new(Schema::new(vec![(**field).clone()]))).is_ok();
    let names: Vec<_> = dataset.schema().fields().iter().filter(can_grow).map(|field| field.name().clone()).collect();
    assert!(names.len() >= 7, "{names:?}");
    dataset.select(&names).unwrap()
}

proptest! {
    #[test]
    fn batches_become_one(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
        (start, len) in (0u64..40, 0u64..200),
    ) {
        let whole = Dataset::try_from(batches.iter().map(|seeds| batch(seeds)).collect::<Vec<_>>()).unwrap();
        let cut = whole.slice(start, len).unwrap();
        let one = cut.collect().unwrap();
        prop_assert_eq!(rows(&one), rows(&cut));
        prop_assert!(one.num_batches().unwrap() <= 1);
        one.validate(|_, _| ()).unwrap();
        let numbers = cut.select(&["11", "12"]).unwrap().to_column_major(8).unwrap();
        let second = cut.column("12").unwrap();
        prop_assert_eq!(numbers.is_none(), second.null_count().unwrap() > 0);
    }

    /// Of a stream, numbers are found by the batches' headers; of a compressed one they can't be.
    #[test]
    fn batches_of_a_stream_become_one(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
        (start, len) in (0u64..40, 0u64..200),
        compression in prop::option::of(Just(Compression::Lz4)),
        format in prop::sample::select(vec![Format::File, Format::Stream]),
    ) {
        let whole = Dataset::try_from(batches.iter().map(|seeds| batch(seeds)).collect::<Vec<_>>()).unwrap();
        let mut bytes = Vec::new();
        write_to(&whole, &mut bytes, &WriteOptions { format, compression, ..WriteOptions::default() }).unwrap();
        let cut = OpenOptions::new().bytes(bytes.into()).unwrap().slice(start, len).unwrap();
        // Once as it comes, once with columns that were decoded before.
        for _ in 0..2 {
            let one = cut.collect().unwrap();
            one.validate(|_, _| ()).unwrap();
            prop_assert_eq!(rows(&one), rows(&whole.slice(start, len).unwrap()));
            let numbers = cut.select(&["11", "12"]).unwrap();
            let block = numbers.to_column_major(8).unwrap();
            prop_assert_eq!(block.is_none(), cut.column("12").unwrap().null_count().unwrap() > 0);
            prop_assert_eq!(block.map(|block| block.to_vec()), numbers.collect().unwrap().to_column_major(8).unwrap().map(|b| b.to_vec()));
            cut.validate(|_, _| ()).unwrap();
        }
    }

    #[test]
    fn builders_keep_what_they_are_given(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
        (start, len) in (0u64..40, 0u64..200),
    ) {
        let whole = Dataset::try_from(batches.iter().map(|seeds| batch(seeds)).collect::<Vec<_>>()).unwrap();
        let cut = growing(&whole.slice(start, len).unwrap());
        let mut builder = DatasetBuilder::new(cut.schema().clone()).unwrap();
        builder.append_dataset(&cut).unwrap();
        for one in cut.to_record_batches() {
            builder.append(&one.unwrap()).unwrap();
        }
        let rest = cut.select(&["0", "1", "11", "12", "13", "14"]).unwrap();
        let mut by_row = DatasetBuilder::new(rest.schema().clone()).unwrap();
        for row in rest.rows() {
            let values: Vec<Value<'_>> = row.unwrap().iter().map(|(_, value)| value.unwrap()).collect();
            by_row.append_row(&values).unwrap();
        }
        prop_assert_eq!(builder.rows(), 2 * cut.len().unwrap());
        let built = builder.finish().unwrap();
        built.validate(|_, _| ()).unwrap();
        prop_assert_eq!(rows(&built), [rows(&cut), rows(&cut)].concat());
        let built = by_row.finish().unwrap();
        built.validate(|_, _| ()).unwrap();
        prop_assert_eq!(rows(&built), rows(&rest));
    }
}

/// More than the caches hold is copied past them, in words of 16 bytes that begin anywhere.
#[test]
fn large_columns_become_one_as_small_ones_do() {
    let numbers = |start: i64, len: i64| -> RecordBatch {
        let wide: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + len));
        let narrow: ArrayRef = Arc::new(Int8Array::from_iter_values((start..start + len).map(|n| n as i8)));
        RecordBatch::try_from_iter([("wide", wide), ("narrow", narrow)]).unwrap()
    };
    let lens = [1, 700_001, 13, 1_000_003, 2, 2_999_999];
    let starts = lens.iter().scan(0, |next, len| Some(std::mem::replace(next, *next + len)));
    let batches: Vec<_> = starts.zip(lens).map(|(start, len)| numbers(start, len)).collect();
    let rows: i64 = lens.iter().sum();
    let cut = Dataset::try_from(batches).unwrap().slice(1, rows as u64 - 2).unwrap();
    let one = cut.collect().unwrap().to_record_batches().next().unwrap().unwrap();
    let expected = numbers(1, rows - 2);
    assert!(one.column(0) == expected.column(0) && one.column(1) == expected.column(1));
    let block = cut.select(&["wide"]).unwrap().to_column_major(8).unwrap().unwrap();
    assert!(block[..] == expected.column(0).to_data().buffers()[0][..]);
}

#[test]
fn what_a_buffer_has_becomes_bytes_where_it_is() {
    let mut buffer = GrowableBuffer::new();
    (0..1000i64).for_each(|number| buffer.push(number).unwrap());
    let address = buffer.address();
    let bytes = Bytes::from(buffer);
    assert_eq!((bytes.address(), bytes.len()), (address, 8000));
}

#[test]
fn what_a_builder_has_gathered_is_not_copied() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut builder = DatasetBuilder::new(schema.clone()).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_new(schema, vec![numbers]).unwrap();
    (0..1000).for_each(|_| builder.append(&batch).unwrap());
    let column = builder.finish().unwrap().column("n").unwrap().contiguous().unwrap().unwrap();
    assert!((column.buffers()[0].as_ptr() as usize).is_multiple_of(4096));
}

#[test]
fn a_refused_batch_leaves_a_builder_as_it_was() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut builder = DatasetBuilder::new(schema).unwrap();
    builder.append_row(&[Value::Int(1)]).unwrap();
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), None]));
    let wrong = RecordBatch::try_from_iter_with_nullable([("n", nulls, true)]).unwrap();
    assert_eq!(builder.append(&wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(builder.append_row(&[Value::Null]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(builder.append_row(&[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    builder.append_row(&[Value::Int(3)]).unwrap();
    let built = builder.finish().unwrap();
    assert_eq!((built.len().unwrap(), rows(&built).len()), (2, 2));
}

#[test]
fn a_type_that_cannot_grow_is_named() {
    let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let runs = DataType::RunEndEncoded(ends, Arc::new(Field::new("values", DataType::Int8, true)));
    let encoded = |value| DataType::Dictionary(Box::new(DataType::Int32), Box::new(value));
    let keys_of_keys = encoded(encoded(DataType::Int8));
    for data_type in [runs, encoded(DataType::Boolean), encoded(DataType::Null), keys_of_keys] {
        let schema = Arc::new(Schema::new(vec![Field::new("flags", data_type, true)]));
        let error = DatasetBuilder::new(schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("column 'flags'"), "{error}");
    }
}

/// arrow-rs refuses such a dictionary by a panic, also where no row has a value that keys can't tell apart.
#[test]
fn a_dictionary_of_more_values_than_keys_can_have_is_no_obstacle() {
    let values: ArrayRef = Arc::new((0..200).map(|value| Some(format!("value {value}"))).collect::<StringArray>());
    let batch = |start: i8| -> RecordBatch {
        let keys: Int8Array = (start..start + 50).map(|key| (key % 7 > 0).then_some(key)).collect();
        let coded: ArrayRef = Arc::new(DictionaryArray::try_new(keys, values.clone()).unwrap());
        let runs: ArrayRef =
            Arc::new(RunArray::<types::Int32Type>::try_new(&vec![50].into(), &Int64Array::from(vec![7])).unwrap());
        let members = [("coded", coded), ("runs", runs)];
        let members = members.map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
        let both: ArrayRef = Arc::new(StructArray::from(members.to_vec()));
        RecordBatch::try_from_iter([("both", both)]).unwrap()
    };
    let dataset = Dataset::try_from(vec![batch(0), batch(70)]).unwrap();
    let one = dataset.collect().unwrap();
    one.validate(|_, _| ()).unwrap();
    assert_eq!((one.num_batches().unwrap(), rows(&one)), (1, rows(&dataset)));
}

/// Refused values stayed in the dictionary: a builder without a row said that it was full.
#[test]
fn values_of_refused_rows_leave_room_in_a_dictionary() {
    let coded = |range: std::ops::Range<i16>| -> RecordBatch {
        let values: StringArray = range.clone().map(|value| Some(value.to_string())).collect();
        let keys: Int16Array = (0..range.len() as i16).map(Some).collect();
        let column: ArrayRef = Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).unwrap());
        RecordBatch::try_from_iter([("x", column)]).unwrap()
    };
    let narrow = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
    let mut builder = DatasetBuilder::new(Arc::new(Schema::new(vec![Field::new("x", narrow, false)]))).unwrap();
    builder.append(&coded(0..100)).unwrap();
    let e = builder.append(&coded(1000..1050)).unwrap_err();
    assert_eq!((e.kind(), builder.rows()), (ErrorKind::Unsupported, 100));
    builder.append(&coded(2000..2028)).unwrap();
    let built = builder.finish().unwrap();
    built.validate(|_, _| ()).unwrap();
    assert_eq!(
        rows(&built),
        [
            rows(&Dataset::try_from(vec![coded(0..100)]).unwrap()),
            rows(&Dataset::try_from(vec![coded(2000..2028)]).unwrap())
        ]
        .concat()
    );
}

/// An error is the last item of a stream, and `read_all` went on behind it: the rows of one batch were missing.
#[test]
fn nothing_is_read_behind_an_error_of_a_stream() {
    let batch = |text: &str| -> RecordBatch {
        let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
        RecordBatch::try_from_iter([("x", column)]).unwrap()
    };
    let whole = Dataset::try_from(["first row", "damaged!!", "third row"].map(batch).to_vec()).unwrap();
    let mut bytes = Vec::new();
    write_to(&whole, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
    let at = bytes.windows(9).position(|bytes| bytes == b"damaged!!").unwrap();
    bytes[at] = 0xff;
    let mut stream = arrowwood::read_stream(&bytes[..]).unwrap();
    assert_eq!([stream.next().unwrap().is_ok(), stream.next().unwrap().is_ok()], [true, false]);
    assert_eq!(stream.read_all().unwrap().len().unwrap(), 0);
}
