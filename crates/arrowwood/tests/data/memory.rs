//! Tests of rows gathered in memory: growable buffers, dataset builders, and batches collected into one.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{
    AggregateFunction, Bytes, Compression, Dataset, DatasetBuilder, ErrorKind, ExportOptions, Format, GrowableBuffer,
    OpenOptions, StreamEncoder, Value, WriteOptions, Writer, WriterOptions, write_to,
};
use proptest::prelude::*;

use crate::columns::{batch, rows};

/// Returns the columns with types that a builder supports.
fn select_growable(dataset: &Dataset) -> Dataset {
    let is_growable = |field: &Arc<Field>| DatasetBuilder::new(Arc::new(Schema::new(vec![(**field).clone()]))).is_ok();
    let fields = dataset.schema().fields().iter().filter(|field| is_growable(field));
    let names: Vec<_> = fields.map(|field| field.name().clone()).collect();
    assert!(names.len() >= 7, "{names:?}");
    dataset.select(&names).unwrap()
}

/// Returns a dataset with a batch for each list of seeds.
fn dataset_of(batches: &[Vec<u8>]) -> Dataset {
    Dataset::try_from(batches.iter().map(|seeds| batch(seeds)).collect::<Vec<_>>()).unwrap()
}

/// Returns a dataset of one batch.
fn one_batch(batch: RecordBatch) -> Dataset {
    Dataset::try_from(vec![batch]).unwrap()
}

proptest! {
    #[test]
    fn slices_are_collected_into_one_batch(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
        (start, len) in (0u64..40, 0u64..200),
    ) {
        let slice = dataset_of(&batches).slice(start, len).unwrap();
        let collected = slice.collect().unwrap();
        prop_assert_eq!(rows(&collected), rows(&slice));
        prop_assert!(collected.num_batches().unwrap() <= 1);
        collected.validate(|_, _| ()).unwrap();
        // Column 11 has no nulls; a block of numbers can't have any.
        let numbers = slice.select(&["11", "12"]).unwrap().to_column_major(8).unwrap();
        prop_assert_eq!(numbers.is_none(), slice.column("12").unwrap().null_count().unwrap() > 0);
    }

    /// Numbers of an uncompressed stream are located by the headers of its batches alone.
    #[test]
    fn slices_of_files_and_streams_are_collected_into_one_batch(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
        (start, len) in (0u64..40, 0u64..200),
        compression in prop::option::of(Just(Compression::Lz4)),
        format in prop::sample::select(vec![Format::File, Format::Stream]),
    ) {
        let original = dataset_of(&batches);
        let mut bytes = Vec::new();
        write_to(&original, &mut bytes, &WriteOptions { format, compression, ..WriteOptions::default() }).unwrap();
        let slice = OpenOptions::new().bytes(bytes.into()).unwrap().slice(start, len).unwrap();
        // The second time, columns were decoded by `validate`.
        for _ in 0..2 {
            let collected = slice.collect().unwrap();
            collected.validate(|_, _| ()).unwrap();
            prop_assert_eq!(rows(&collected), rows(&original.slice(start, len).unwrap()));

            let numbers = slice.select(&["11", "12"]).unwrap();
            let block = numbers.to_column_major(8).unwrap();
            prop_assert_eq!(block.is_none(), slice.column("12").unwrap().null_count().unwrap() > 0);
            let collected_block = numbers.collect().unwrap().to_column_major(8).unwrap();
            prop_assert_eq!(block.map(|block| block.to_vec()), collected_block.map(|block| block.to_vec()));
            slice.validate(|_, _| ()).unwrap();
        }
    }

    #[test]
    fn builders_return_appended_datasets_batches_and_rows(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
        (start, len) in (0u64..40, 0u64..200),
    ) {
        let slice = select_growable(&dataset_of(&batches).slice(start, len).unwrap());
        let mut builder = DatasetBuilder::new(slice.schema().clone()).unwrap();
        builder.append_dataset(&slice).unwrap();
        for batch in slice.to_record_batches() {
            builder.append(&batch.unwrap()).unwrap();
        }
        prop_assert_eq!(builder.rows(), 2 * slice.len().unwrap());
        let built = builder.finish().unwrap();
        built.validate(|_, _| ()).unwrap();
        prop_assert_eq!(rows(&built), [rows(&slice), rows(&slice)].concat());

        // Columns that aren't nested can also be appended by row.
        let flat = slice.select(&["0", "1", "11", "12", "13", "14"]).unwrap();
        let mut builder = DatasetBuilder::new(flat.schema().clone()).unwrap();
        for row in flat.rows() {
            let values: Vec<Value<'_>> = row.unwrap().iter().map(|(_, value)| value.unwrap()).collect();
            builder.append_row(&values).unwrap();
        }
        let built = builder.finish().unwrap();
        built.validate(|_, _| ()).unwrap();
        prop_assert_eq!(rows(&built), rows(&flat));
    }
}

/// Columns larger than the caches are copied by stores that bypass them, in words of 16 bytes at any alignment.
#[test]
fn columns_larger_than_the_caches_are_collected() {
    let number_batch = |start: i64, len: i64| -> RecordBatch {
        let wide: ArrayRef = Arc::new(Int64Array::from_iter_values(start..start + len));
        let narrow: ArrayRef = Arc::new(Int8Array::from_iter_values((start..start + len).map(|n| n as i8)));
        RecordBatch::try_from_iter([("wide", wide), ("narrow", narrow)]).unwrap()
    };
    let lens = [1, 700_001, 13, 1_000_003, 2, 2_999_999];
    let starts = lens.iter().scan(0, |next, len| Some(std::mem::replace(next, *next + len)));
    let batches: Vec<_> = starts.zip(lens).map(|(start, len)| number_batch(start, len)).collect();
    let rows: i64 = lens.iter().sum();
    let slice = Dataset::try_from(batches).unwrap().slice(1, rows as u64 - 2).unwrap();
    let collected = slice.collect().unwrap().to_record_batches().next().unwrap().unwrap();
    let expected = number_batch(1, rows - 2);
    assert!(collected.column(0) == expected.column(0) && collected.column(1) == expected.column(1));
    let block = slice.select(&["wide"]).unwrap().to_column_major(8).unwrap().unwrap();
    assert!(block[..] == expected.column(0).to_data().buffers()[0][..]);
}

#[test]
fn growable_buffers_become_bytes_without_a_copy() {
    let mut buffer = GrowableBuffer::new();
    for number in 0..1000i64 {
        buffer.push(number).unwrap();
    }
    let address = buffer.address();
    let bytes = Bytes::from(buffer);
    assert_eq!((bytes.address(), bytes.len()), (address, 8000));
}

#[test]
fn builders_finish_without_a_copy() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut builder = DatasetBuilder::new(schema.clone()).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_new(schema, vec![numbers]).unwrap();
    for _ in 0..1000 {
        builder.append(&batch).unwrap();
    }
    let column = builder.finish().unwrap().column("n").unwrap().contiguous().unwrap().unwrap();
    // Growable buffers begin at a page, which other allocations of this size don't.
    assert!((column.buffers()[0].as_ptr() as usize).is_multiple_of(4096));
}

#[test]
fn rejected_rows_leave_a_builder_unchanged() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut builder = DatasetBuilder::new(schema).unwrap();
    builder.append_row(&[Value::Int(1)]).unwrap();
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), None]));
    let with_null = RecordBatch::try_from_iter_with_nullable([("n", nulls, true)]).unwrap();
    assert_eq!(builder.append(&with_null).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(builder.append_row(&[Value::Null]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(builder.append_row(&[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    builder.append_row(&[Value::Int(3)]).unwrap();
    let built = builder.finish().unwrap();
    assert_eq!((built.len().unwrap(), rows(&built).len()), (2, 2));
}

#[test]
fn builders_reject_unsupported_types_by_column_name() {
    let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let runs = DataType::RunEndEncoded(ends, Arc::new(Field::new("values", DataType::Int8, true)));
    let dictionary = |value| DataType::Dictionary(Box::new(DataType::Int32), Box::new(value));
    let nested = dictionary(dictionary(DataType::Int8));
    for data_type in [runs, dictionary(DataType::Boolean), dictionary(DataType::Null), nested] {
        let schema = Arc::new(Schema::new(vec![Field::new("flags", data_type, true)]));
        let error = DatasetBuilder::new(schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("column 'flags'"), "{error}");
    }
}

/// arrow-rs panics when it concatenates such dictionaries, even if the rows use few of their values.
#[test]
fn dictionaries_with_more_values_than_keys_can_address_are_collected() {
    let values: ArrayRef = Arc::new((0..200).map(|value| Some(format!("value {value}"))).collect::<StringArray>());
    let batch = |start: i8| -> RecordBatch {
        let keys: Int8Array = (start..start + 50).map(|key| (key % 7 > 0).then_some(key)).collect();
        let coded: ArrayRef = Arc::new(DictionaryArray::try_new(keys, values.clone()).unwrap());
        let runs: ArrayRef =
            Arc::new(RunArray::<types::Int32Type>::try_new(&vec![50].into(), &Int64Array::from(vec![7])).unwrap());
        let members = [("coded", coded), ("runs", runs)]
            .map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
        let structs: ArrayRef = Arc::new(StructArray::from(members.to_vec()));
        RecordBatch::try_from_iter([("structs", structs)]).unwrap()
    };
    let dataset = Dataset::try_from(vec![batch(0), batch(70)]).unwrap();
    let collected = dataset.collect().unwrap();
    collected.validate(|_, _| ()).unwrap();
    assert_eq!((collected.num_batches().unwrap(), rows(&collected)), (1, rows(&dataset)));
}

/// Values of rejected rows once stayed in the dictionary, so that even a builder without rows could be full.
#[test]
fn values_of_rejected_rows_take_no_room_in_a_dictionary() {
    let numbers_as_texts = |range: std::ops::Range<i16>| -> RecordBatch {
        let values: StringArray = range.clone().map(|value| Some(value.to_string())).collect();
        let keys: Int16Array = (0..range.len() as i16).map(Some).collect();
        let column: ArrayRef = Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).unwrap());
        RecordBatch::try_from_iter([("x", column)]).unwrap()
    };
    let narrow = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
    let mut builder = DatasetBuilder::new(Arc::new(Schema::new(vec![Field::new("x", narrow, false)]))).unwrap();
    builder.append(&numbers_as_texts(0..100)).unwrap();
    // 150 values are more than keys of type int8 can address.
    let e = builder.append(&numbers_as_texts(1000..1050)).unwrap_err();
    assert_eq!((e.kind(), builder.rows()), (ErrorKind::Unsupported, 100));
    builder.append(&numbers_as_texts(2000..2028)).unwrap();
    let built = builder.finish().unwrap();
    built.validate(|_, _| ()).unwrap();
    let expected = [numbers_as_texts(0..100), numbers_as_texts(2000..2028)].map(|batch| rows(&one_batch(batch)));
    assert_eq!(rows(&built), expected.concat());
}

/// `read_all` once continued after an error, and returned rows without those of the damaged batch.
#[test]
fn streams_end_with_their_first_error() {
    let batch = |text: &str| -> RecordBatch {
        let column: ArrayRef = Arc::new(StringArray::from(vec![text]));
        RecordBatch::try_from_iter([("x", column)]).unwrap()
    };
    let dataset = Dataset::try_from(["first row", "damaged!!", "third row"].map(batch).to_vec()).unwrap();
    let mut bytes = Vec::new();
    write_to(&dataset, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
    let damaged = bytes.windows(9).position(|bytes| bytes == b"damaged!!").unwrap();
    // This byte never occurs in UTF-8.
    bytes[damaged] = 0xff;
    let mut stream = arrowwood::read_stream(&bytes[..]).unwrap();
    assert_eq!([stream.next().unwrap().is_ok(), stream.next().unwrap().is_ok()], [true, false]);
    assert_eq!(stream.read_all().unwrap().len().unwrap(), 0);
}

#[track_caller]
fn assert_is_short(name: &str, value: impl Debug) {
    let shown = format!("{value:?}");
    assert!(shown.len() < 4_000, "{name}: {} characters", shown.len());
}

/// What the types that hold rows show for `{:?}` doesn't grow with the rows. A row of a mapped file showed all its bytes.
#[test]
fn debug_output_does_not_show_the_data() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|n| n.to_string())));
    let item = Arc::new(Field::new_list_field(DataType::Int64, false));
    let offsets = OffsetBuffer::from_lengths([1; 100_000]);
    let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, numbers.clone(), None));
    let member = Arc::new(Field::new("text", DataType::Utf8, false));
    let structs: ArrayRef = Arc::new(StructArray::from(vec![(member, texts.clone())]));
    let columns = [("number", numbers), ("text", texts), ("list", lists), ("struct", structs)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let rows = one_batch(batch.clone());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.arrow");
    arrowwood::write(&rows, &file, &WriteOptions::default()).unwrap();
    let mut stream = Vec::new();
    write_to(&rows, &mut stream, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
    let stream = Bytes::from(stream);
    let mut datasets = vec![
        ("batches", rows.clone()),
        ("file", arrowwood::open(&file).unwrap()),
        ("stream", OpenOptions::new().bytes(stream.clone()).unwrap()),
    ];
    if cfg!(not(windows)) {
        let table = folder.path().join("table");
        let mut writer = Writer::open(&table, Some(rows.schema().clone()), &WriterOptions::default()).unwrap();
        writer.append(&batch).unwrap();
        writer.commit().unwrap();
        datasets.push(("table", arrowwood::open(&table).unwrap()));
        assert_is_short("writer", &writer);
    }

    for (name, dataset) in &datasets {
        assert_is_short(name, dataset);
        let row = dataset.row(5).unwrap();
        assert_is_short(name, row);
        for (column, value) in row.iter() {
            assert_is_short(column, value.unwrap());
        }
        assert_is_short(name, dataset.column("text").unwrap());
        assert_is_short(name, dataset.gather(&[5, 6]).unwrap());
        for chunk in
            dataset.column("number").unwrap().fixed_width_chunks(ExportOptions::new()).unwrap().into_iter().flatten()
        {
            assert_is_short(name, chunk);
        }
        let mut groups = dataset.aggregate(&["text"]).column("number", AggregateFunction::Sum).incremental().unwrap();
        groups.refresh().unwrap();
        assert_is_short(name, &groups);
        let mut encoder = StreamEncoder::new(dataset.schema().clone()).unwrap();
        assert_is_short(name, &encoder);
        assert_is_short(name, encoder.encode(dataset, usize::MAX).unwrap());
    }
    let mut builder = DatasetBuilder::new(rows.schema().clone()).unwrap();
    builder.append(&batch).unwrap();
    assert_is_short("builder", &builder);
    assert_is_short("bytes", &stream);
}
