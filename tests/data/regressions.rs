//! Bugs that a review found, each as the smallest input that showed it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::handmade::*;
use crate::thread::thread_time;
use crate::wait::PATIENCE;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_ipc as ipc;
use arrow_schema::{DataType, Field, Fields, Schema, UnionFields};
use arrowwood::*;

/// A dataset with a batch for each of `chunks`.
fn table(chunks: impl IntoIterator<Item = ArrayRef>) -> Dataset {
    let batch = |chunk| RecordBatch::try_from_iter_with_nullable([("c", chunk, true)]).unwrap();
    Dataset::try_from(chunks.into_iter().map(batch).collect::<Vec<_>>()).unwrap()
}

fn single(array: ArrayRef) -> Dataset {
    table([array])
}

fn written(dataset: &Dataset, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    write_to(dataset, &mut out, &WriteOptions { format, ..WriteOptions::default() }).unwrap();
    out
}

/// The values of the first column, or the first error.
fn values(dataset: &Dataset) -> Result<Vec<serde_json::Value>> {
    dataset.rows().map(|row| row?.get(0)?.to_json()).collect()
}

/// Every way to the values of the first column must refuse them, and none may hand them to arrow-rs.
#[track_caller]
fn refused(bytes: Vec<u8>, reason: &str) {
    let dataset = opened(bytes.clone());
    let errors = [
        dataset.validate(|_, _| ()).unwrap_err(),
        dataset.to_record_batches().find_map(|batch| batch.err()).unwrap(),
        OpenOptions::new().validate(Validation::Full).bytes(Bytes::from(bytes)).unwrap_err(),
    ];
    errors.iter().for_each(|error| assert!(error.to_string().contains(reason), "{error}"));
}

#[track_caller]
fn soon<T>(task: impl FnOnce() -> T) -> T {
    let (clock, begin) = (Instant::now(), thread_time());
    let done = task();
    let (waited, worked) = (clock.elapsed(), thread_time() - begin);
    assert!(worked < Duration::from_secs(5) && waited < PATIENCE, "took {worked:?} of {waited:?}");
    done
}

#[test]
fn null_slots_are_checked_too() {
    // arrow-rs reads the value of a null slot without a check: a wild view there was a read of wild memory.
    let view = i32s(&[100, 0, 100_000_000, i32::MAX]);
    let views = Msg { variadics: vec![0], ..batch(1, &[(1, 1)], &[&[0], &view]) };
    refused(stream(&one(DataType::Utf8View), &[views]), "a view points outside");
    let text = batch(1, &[(1, 1)], &[&[0], &i32s(&[0, 2]), &[0xff, 0xfe]]);
    refused(stream(&one(DataType::Utf8), &[text]), "not UTF-8");
    let lists = batch(1, &[(1, 1), (1, 0)], &[&[0], &i32s(&[1000]), &i32s(&[1000]), &[], &[1]]);
    refused(stream(&one(list_view()), &[lists]), "a list's offset and size");
}

#[test]
fn null_slots_of_deltas_are_checked_too() {
    // Concatenating a dictionary with its delta followed wild views and lists in null slots, and panicked.
    let view = i32s(&[100, 0, -1, 0, 0, 0, 0, 0]);
    let views = Msg { variadics: vec![1], ..batch(2, &[(2, 1)], &[&[2], &view, b"xxxx"]) };
    let lists = batch(2, &[(2, 1), (1, 0)], &[&[1], &i32s(&[0, 1000]), &i32s(&[1, 1000]), &[], &[1]]);
    for (values, data_type) in [(views, DataType::Utf8View), (lists, list_view())] {
        let messages = [dictionary(0, false, values.clone()), dictionary(0, true, values), key(0)];
        refused(stream(&one(coded(data_type)), &messages), "dictionary 0");
    }
}

#[test]
fn a_writable_mapping_is_no_source() {
    // Text that was checked once could be changed through a view of the same mapping, under a &str.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.arrow");
    write(&single(Arc::new(StringArray::from(vec!["a"]))), &path, &WriteOptions::default()).unwrap();
    let error = Bytes::from_mapping(Mapping::open(&path, Mode::ReadWrite).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(Bytes::from_mapping(Mapping::open(&path, Mode::Read).unwrap()).is_ok());
}

#[test]
fn arrays_that_nobody_has_checked_are_not_handed_out() {
    // There was a way to open without checks, and from there to arrays of arrow-rs: undefined behaviour without `unsafe`.
    let bytes = stream(&one(coded(DataType::Utf8)), &[text_values(false, &[0xff]), key(0)]);
    let dataset = OpenOptions::new().bytes(Bytes::from(bytes)).unwrap();
    assert!(dataset.row(0).unwrap().get(0).is_err());
    assert!(dataset.to_record_batches().next().unwrap().unwrap_err().to_string().contains("not UTF-8"));
    assert!(dataset.column_at(0).unwrap().chunks().unwrap_err().to_string().contains("not UTF-8"));
    assert!(dataset.validate(|_, _| ()).unwrap_err().to_string().contains("not UTF-8"));
}

#[test]
fn damaged_values_do_not_make_the_writer_panic() {
    // A list that leaves its child made the writer's slices panic.
    let lists = DataType::List(Arc::new(Field::new("item", DataType::Int8, true)));
    let bytes = stream(&one(lists), &[batch(1, &[(1, 0), (1, 0)], &[&[], &i32s(&[0, 1000]), &[], &[1]])]);
    let dataset = OpenOptions::new().bytes(Bytes::from(bytes)).unwrap();
    let error = write_to(&dataset, &mut std::io::sink(), &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn no_rows_have_the_offset_zero() {
    // Offsets of no rows were handed on as found: too short, where arrow-rs panics, or pointing anywhere.
    for offsets in [&[1, 2][..], &i32s(&[0x7fff_fff0])] {
        let dataset = opened(stream(&one(DataType::Utf8), &[batch(0, &[(0, 0)], &[&[], offsets, &[]])]));
        dataset.validate(|_, _| ()).unwrap();
        let batch = dataset.to_record_batches().next().unwrap().unwrap();
        assert_eq!(batch.column(0).as_string::<i32>().value_offsets(), [0]);
    }
}

#[test]
fn slices_cut_the_structs_inside() {
    // Slices of fixed-size lists and sparse unions of structs moved the struct but not its fields: wrong rows.
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(0..8));
    let structs: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int32, true)), ints)]));
    let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
    let fields = UnionFields::from_iter([(0, item.clone())]);
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, structs.clone(), None));
    let union: ArrayRef = Arc::new(UnionArray::try_new(fields, vec![0; 8].into(), None, vec![structs]).unwrap());
    for array in [lists, union] {
        let dataset = single(array.clone());
        let all = values(&dataset).unwrap();
        let cut = dataset.slice(1, 3).unwrap();
        let batch = cut.to_record_batches().next().unwrap().unwrap();
        assert_eq!(batch.column(0), &array.slice(1, 3));
        for other in [single(batch.column(0).clone()), opened(written(&cut, Format::File)), cut] {
            assert_eq!(values(&other).unwrap(), all[1..4]);
        }
    }
}

#[test]
fn misaligned_dictionaries_grow_and_merge() {
    // arrow-rs panics where it concatenates buffers that are not aligned.
    let schema = one(coded(DataType::Int32));
    let grown = misaligned(stream(&schema, &[int_values(false, 5), int_values(true, 6), key(1)]));
    assert_eq!(values(&grown).unwrap(), [6]);
    let merged = misaligned(stream(&schema, &[int_values(false, 5), key(0), int_values(false, 6), key(0)]));
    assert_eq!(values(&opened(written(&merged, Format::File))).unwrap(), [5, 6]);
}

#[test]
fn thousands_of_deltas_are_read() {
    // The values so far were copied for each delta: time and memory grew with the square, and 2000 were refused.
    let dataset = opened(deltas(5000));
    let found = soon(|| values(&dataset).unwrap());
    assert_eq!((found.len(), found[4999].as_str()), (5000, Some("value number 4999")));
}

#[test]
fn thousands_of_deltas_are_written_as_such() {
    // Each delta was written as a whole new dictionary: output and time grew with the square.
    let bytes = deltas(2000);
    for format in [Format::File, Format::Stream] {
        let out = soon(|| written(&opened(bytes.clone()), format));
        assert!(out.len() < 2 * bytes.len(), "{format:?}: {} bytes of {}", out.len(), bytes.len());
        assert_eq!(values(&opened(out)).unwrap()[1999], "value number 1999");
    }
}

#[test]
fn dictionaries_without_common_values_are_merged_in_linear_time() {
    // Merging looked at all values so far for each batch.
    let array = |k: i32| -> ArrayRef {
        let values = StringArray::from_iter_values((0..100).map(|i| format!("v{}", k * 100 + i)));
        Arc::new(DictionaryArray::new(Int32Array::from_iter_values(0..100), Arc::new(values)))
    };
    let dataset = table((0..2000).map(array));
    let back = opened(soon(|| written(&dataset, Format::File)));
    assert_eq!(back.row(199_999).unwrap().get(0).unwrap().to_json().unwrap(), "v199999");
}

#[test]
fn dictionary_states_take_linear_memory() {
    // Each delta took a copy of the states of all dictionaries.
    let k = 10_000;
    let fields: Vec<_> = (0..k).map(|i| Field::new(format!("f{i}"), coded(DataType::Null), true)).collect();
    let values = batch(1, &[(1, 0)], &[]);
    let mut messages: Vec<_> = (0..k).map(|i| dictionary(i, false, values.clone())).collect();
    (0..k).for_each(|_| messages.extend([dictionary(0, true, values.clone()), batch(1, &[], &[])]));
    let dataset = opened(stream(&Schema::new(fields), &messages));
    assert_eq!(soon(|| dataset.len().unwrap()), k as u64);
}

#[test]
fn a_damaged_delta_leaves_the_rows_before_it() {
    // All deltas of the stream were read with the first batch, so one damaged at the end took every row along.
    let schema = one(coded(DataType::Utf8));
    let messages = [text_values(false, b"a"), text_values(true, b"b"), key(1), text_values(true, &[0xff]), key(2)];
    let dataset = opened(stream(&schema, &messages));
    let value = |row| dataset.row(row).and_then(|row| row.get(0)?.to_json());
    assert_eq!(value(0).unwrap(), "b");
    assert!(value(1).is_err());
}

#[test]
fn dictionaries_of_a_file_come_in_any_order() {
    // A dictionary whose values are coded by another, later one was an error.
    let inner = Field::new("x", coded(DataType::Int32), true);
    let schema = one(coded(DataType::Struct(vec![inner].into())));
    let outer = dictionary(1, false, batch(1, &[(1, 0), (1, 0)], &[&[], &[], &[0]]));
    for messages in [[outer.clone(), int_values(false, 7), key(0)], [int_values(false, 7), outer, key(0)]] {
        assert_eq!(values(&opened(file(&schema, &messages, |_| ()))).unwrap(), [serde_json::json!({ "x": 7 })]);
    }
}

#[test]
fn dates_that_print_alike_stay_apart() {
    // Merged dictionaries were keyed by text: milliseconds of one day became one value.
    let values = |at| Arc::new(Date64Array::from(vec![at]));
    let array = |at| Arc::new(DictionaryArray::new(Int8Array::from(vec![0]), values(at))) as ArrayRef;
    let dataset = table([0, 1000].map(array));
    let first = |batch: Result<RecordBatch>| {
        let column = batch.unwrap().column(0).clone();
        column.as_dictionary::<Int8Type>().downcast_dict::<Date64Array>().unwrap().into_iter().next().unwrap()
    };
    let back = opened(written(&dataset, Format::File));
    assert_eq!(back.to_record_batches().map(first).collect::<Vec<_>>(), [Some(0), Some(1000)]);
}

#[test]
fn counts_do_not_overflow() {
    // Sums of variadic counts, of values over deltas, of rows over datasets and of bytes by offsets overflowed.
    let fields: Vec<_> = ["a", "b", "c"].map(|name| Field::new(name, DataType::Utf8View, true)).into();
    let views = Msg { variadics: vec![i64::MAX; 3], ..batch(0, &[(0, 0); 3], &[&[][..]; 6]) };
    assert!(opened(stream(&Schema::new(fields), &[views])).validate(|_, _| ()).is_err());
    let nulls = |delta| dictionary(0, delta, batch(i64::MAX, &[(i64::MAX, 0)], &[]));
    let messages = [nulls(false), nulls(true), nulls(true), key(0)];
    assert!(values(&opened(stream(&one(coded(DataType::Null)), &messages))).is_err());
    let rows = opened(stream(&Schema::empty(), &[batch(i64::MAX, &[], &[])]));
    assert!(Dataset::concat(&[rows.clone(), rows.clone(), rows]).unwrap().len().is_err());
    let offsets = [0i64.to_le_bytes(), (-1i64).to_le_bytes()].concat();
    let text = opened(stream(&one(DataType::LargeUtf8), &[batch(1, &[(1, 0)], &[&[], &offsets, &[]])]));
    assert_eq!(text.nbytes().unwrap(), 16);
}

#[test]
fn values_without_bytes_are_merged_without_memory() {
    // Merging dictionaries of 2^60 nulls asked for memory by their number.
    let nulls = |n| dictionary(0, false, batch(n, &[(n, 0)], &[]));
    let messages = [nulls(1 << 60), key(0), nulls(1 << 59), key(0)];
    let dataset = opened(stream(&one(coded(DataType::Null)), &messages));
    let back = opened(soon(|| written(&dataset, Format::File)));
    assert_eq!(values(&back).unwrap(), [serde_json::Value::Null, serde_json::Value::Null]);
}

#[test]
fn a_delta_of_values_without_bytes_takes_no_memory() {
    // A null among the values before a delta had arrow-rs take a bit for each value of the delta: 800 bytes ended the process.
    let structs = DataType::Struct(Fields::empty());
    let kinds: [(DataType, &[&[u8]]); 2] = [(DataType::FixedSizeBinary(0), &[&[2], &[]]), (structs, &[&[2]])];
    for (values_type, buffers) in kinds {
        let few = dictionary(0, false, batch(2, &[(2, 1)], buffers));
        let many = dictionary(0, true, batch(1 << 60, &[(1 << 60, 0)], &vec![&[][..]; buffers.len()]));
        let bytes = stream(&one(coded(values_type)), &[few, key(1), many, key(1)]);
        let cell = |row| opened(bytes.clone()).row(row).unwrap().get(0).map(|value| value.is_null());
        assert!(!cell(0).unwrap());
        assert!(cell(1).is_err_and(|e| e.message().contains("no room in memory")));
        // As a server does with rows that anybody sends.
        assert!(opened(bytes.clone()).validate(|_, _| ()).is_err());
        let batches: Vec<_> = read_stream(&bytes[..]).unwrap().map(|batch| batch.is_ok()).collect();
        assert_eq!(batches, [true, false]);
    }
}

#[test]
fn concat_is_nullable_where_any_is() {
    // The first schema counted: nulls of the second dataset were an error of arrow-rs.
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let first = Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable([("c", column, false)]).unwrap()]);
    let both = Dataset::concat(&[first.unwrap(), single(Arc::new(Int64Array::from(vec![None])))]).unwrap();
    assert!(both.schema().field(0).is_nullable());
    assert_eq!(both.to_record_batches().map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn an_empty_buffer_may_be_compressed_to_its_length() {
    // Java writes the length 0 and nothing after it where there are no bytes; that was a damaged frame.
    for codec in [ipc::CompressionType::ZSTD, ipc::CompressionType::LZ4_FRAME] {
        let offsets = [&(-1i64).to_le_bytes()[..], &i32s(&[0, 0])].concat();
        let text = Msg { codec: Some(codec), ..batch(1, &[(1, 0)], &[&[], &offsets, &[0; 8]]) };
        assert_eq!(values(&opened(stream(&one(DataType::Utf8), &[text]))).unwrap(), [""]);
    }
}

#[test]
fn one_frame_is_not_decompressed_for_many_buffers() {
    // Buffers that share a frame of 2 KB, 64 MiB of zeros each, took as many times the memory.
    let frame = [(1i64 << 26).to_le_bytes().to_vec(), zstd::encode_all(&vec![0; 1 << 26][..], 1).unwrap()].concat();
    let views = [(-1i64).to_le_bytes().to_vec(), vec![0; 16]].concat();
    let codec = Some(ipc::CompressionType::ZSTD);
    let mut bomb = Msg { variadics: vec![20], codec, ..batch(1, &[(1, 0)], &[&[], &views, &frame]) };
    bomb.buffers.resize(22, bomb.buffers[2]);
    let dataset = opened(stream(&one(DataType::BinaryView), &[bomb]));
    assert!(values(&dataset).unwrap_err().to_string().contains("overlap"));
    assert!(dataset.footprint().copied < 1 << 20);
}

#[test]
fn blocks_of_a_footer_do_not_overlap() {
    // A footer that lists two long blocks thousands of times made one small file hours of work.
    let messages = [batch(1, &[(1, 0)], &[]), batch(1, &[(1, 0)], &[]), batch(1, &[(1, 0)], &[&[0; 400_000]])];
    let bytes = file(&one(DataType::Null), &messages, |blocks| {
        let end = blocks[2].offset() + i64::from(blocks[2].metaDataLength()) + blocks[2].bodyLength();
        let long = |at: i64, end: i64| ipc::Block::new(at, (end - at) as i32, 0);
        let two = [long(blocks[0].offset(), end - 8), long(blocks[1].offset(), end)];
        *blocks = two.into_iter().cycle().take(8000).collect();
    });
    assert!(soon(|| opened(bytes).len()).is_err());
}

#[test]
fn names_of_children_do_not_repeat_a_long_parent() {
    // Every child had its parent's name in its own: a schema of 300 KB took 200 MB to list.
    let fields: Vec<_> = (0..2000).map(|i| Field::new(format!("f{i}"), DataType::Int8, true)).collect();
    let long = Field::new("x".repeat(100_000), DataType::Struct(fields.into()), true);
    let msg = Msg { nodes: vec![(0, 0); 2001], buffers: vec![(0, 0); 4001], ..Msg::default() };
    let bytes = stream(&Schema::new(vec![long]), &[msg]);
    let messages = opened(bytes.clone()).messages().unwrap();
    let nodes = &messages[1].nodes;
    assert!(nodes.iter().map(|node| node.field.len()).sum::<usize>() < 10 * bytes.len() + (1 << 20));
    assert!(nodes[2000].field.ends_with("f1999"));
}

#[test]
fn a_mean_of_decimals_keeps_its_sign_and_size() {
    // Sums below 2^75 became 0 on the way to a float.
    let decimals = Decimal128Array::from(vec![-100, -300]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(single(Arc::new(decimals)).column("c").unwrap().mean().unwrap(), Some(-2.0));
    let decimals = Decimal64Array::from(vec![-1_000_000]).with_precision_and_scale(18, 0).unwrap();
    assert_eq!(single(Arc::new(decimals)).column("c").unwrap().mean().unwrap(), Some(-1e6));
}

#[test]
fn nulls_are_counted_where_rows_are_null() {
    // Nulls among the values of runs and dictionaries were counted as values.
    let runs: Int32RunArray = [Some("a"), None, None].into_iter().collect();
    let texts = Arc::new(StringArray::from(vec![Some("a"), None]));
    let coded = DictionaryArray::new(Int8Array::from(vec![0, 1, 1]), texts);
    for array in [Arc::new(runs) as ArrayRef, Arc::new(coded)] {
        let column = single(array).column("c").unwrap();
        assert_eq!((column.count().unwrap(), column.null_count().unwrap()), (1, 2));
    }
}

#[test]
fn reductions_of_rows_without_bytes_take_no_memory() {
    // A byte for each of 2^42 values of a dictionary, and a task for each block of 2^50 nulls, were asked for: an abort.
    let many = batch(1 << 42, &[(1 << 42, 0)], &[&[], &[]]);
    let messages = [dictionary(0, false, many), key(0)];
    let dataset = opened(stream(&one(coded(DataType::FixedSizeBinary(0))), &messages));
    let max = soon(|| dataset.column("c").unwrap().max().unwrap().to_json().unwrap());
    assert_eq!(max, "");
    let nulls = opened(stream(&one(DataType::Null), &[batch(1 << 50, &[(1 << 50, 0)], &[])]));
    let column = nulls.column("c").unwrap();
    assert_eq!(soon(|| column.null_count().unwrap()), 1 << 50);
    assert!(soon(|| column.sum()).is_err());
}

#[test]
fn a_small_file_is_not_unpacked_to_any_size() {
    let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; 1 << 20]));
    let batch = RecordBatch::try_from_iter([("n", zeros)]).unwrap();
    for compression in [arrowwood::Compression::Zstd, arrowwood::Compression::Lz4] {
        let options = arrowwood::WriteOptions { compression: Some(compression), ..Default::default() };
        let mut bytes = Vec::new();
        arrowwood::write_to(&Dataset::try_from(vec![batch.clone()]).unwrap(), &mut bytes, &options).unwrap();
        assert!(bytes.len() < 1 << 17);
        let opened = |most: u64| {
            arrowwood::OpenOptions::new().max_decompressed_bytes(most).bytes(Bytes::from(bytes.clone())).unwrap()
        };
        let e = opened((8 << 20) - 1).column("n").unwrap().sum().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.message().contains("8388608 bytes"), "{e}");
        assert_eq!(opened(8 << 20).column("n").unwrap().sum().unwrap().to_string(), "0");
    }
}

/// Rows that are all null, above a dictionary that has no nulls of its own, in a struct and in a list.
fn nulls_above_dictionaries(values: ArrayRef) -> Vec<ArrayRef> {
    let coded = DataType::Dictionary(DataType::Int32.into(), values.data_type().clone().into());
    let coded = Arc::new(Field::new("d", coded, false));
    // Below a null any key is as good as another: these are null, which pyarrow makes of them.
    let keys = |rows| Int32Array::from(vec![None; rows]);
    let below = |rows| Arc::new(DictionaryArray::new(keys(rows), values.slice(0, 0))) as ArrayRef;
    let nulls = arrow_buffer::NullBuffer::new_null(2);
    let structs = StructArray::new(vec![coded.clone()].into(), vec![below(2)], Some(nulls.clone()));
    let lists = FixedSizeListArray::new(coded, 3, below(6), Some(nulls));
    vec![Arc::new(structs), Arc::new(lists)]
}

#[test]
fn nulls_above_a_dictionary_without_nulls_have_keys_of_values() {
    // Their keys were 0 of a dictionary without values: a table that could not be read, and that `repair` emptied.
    let text = Arc::new(StringArray::from(vec!["a"])) as ArrayRef;
    let numbers = Arc::new(Int64Array::from(vec![7])) as ArrayRef;
    for rows in [text, numbers].into_iter().flat_map(nulls_above_dictionaries) {
        let rows = single(rows);
        let whole = |dataset: &Dataset| {
            dataset.validate(|_, _| ()).unwrap();
            for batch in dataset.to_record_batches() {
                batch.unwrap().columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            }
            assert!(values(dataset).unwrap().iter().all(serde_json::Value::is_null));
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let mut writer = Writer::open(&path, Some(rows.schema().clone()), &WriterOptions::default()).unwrap();
        writer.append_dataset(&rows).unwrap();
        writer.close().unwrap();
        let stored = open(&path).unwrap();
        whole(&stored);
        assert!(check(&path, |_, _| ()).unwrap().is_good());
        let mut builder = DatasetBuilder::new(rows.schema().clone()).unwrap();
        builder.append_dataset(&rows).unwrap();
        whole(&builder.finish().unwrap());
        whole(&Dataset::concat(&[rows.clone(), stored]).unwrap().collect().unwrap());
    }
}

#[test]
fn nothing_found_is_collected() {
    // The dictionary of the first batch was looked for, of none.
    let coded: DictionaryArray<Int8Type> = ["a", "b"].into_iter().collect();
    let rows = single(Arc::new(coded));
    let none = rows.filter(&col("c").eq("c")).unwrap();
    for found in
        [none.clone(), none.filter(&col("c").eq("a")).unwrap(), Dataset::concat(&[none.clone(), none]).unwrap()]
    {
        let collected = found.collect().unwrap();
        assert_eq!((collected.len().unwrap(), collected.schema()), (0, rows.schema()));
    }
}

#[test]
fn many_groups_have_keys_and_extremes_of_bytes_of_one_length() {
    // They were taken for texts with offsets.
    let count = 70_000_u32;
    let bytes = |n: u32, width: usize| n.to_be_bytes().into_iter().cycle().take(width).collect::<Vec<_>>();
    for width in [3, 4, 16, 20] {
        for has_nulls in [false, true] {
            let value = |n: u32| (!has_nulls || !n.is_multiple_of(1000)).then(|| bytes(n / 2, width));
            let keys =
                FixedSizeBinaryArray::try_from_sparse_iter_with_size((0..count).map(value), width as i32).unwrap();
            let numbers = Int64Array::from_iter_values((0..count).map(|n| i64::from(n / 2)));
            let columns = [("k", Arc::new(keys) as ArrayRef, true), ("n", Arc::new(numbers) as ArrayRef, true)];
            let rows = Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable(columns).unwrap()]).unwrap();
            let distinct: std::collections::HashSet<_> = (0..count).map(value).collect();
            let by_bytes = rows.aggregate(&["k"]).column("n", AggregateFunction::Sum).finish().unwrap();
            assert_eq!(by_bytes.len().unwrap(), distinct.len() as u64, "{width} bytes");
            let by_number = rows.aggregate(&["n"]).column_as("most", "k", AggregateFunction::Max).finish().unwrap();
            assert_eq!(by_number.len().unwrap(), u64::from(count / 2));
            let row = by_number.row(77).unwrap();
            let expected = bytes(77, width);
            assert!(matches!(row.get(1).unwrap(), Value::Bytes(found) if found == expected), "{width} bytes");
        }
    }
}

#[test]
fn sums_of_decimals_have_the_digits_of_their_type() {
    let of = |value: i128| {
        let decimals = Decimal128Array::from(vec![value, value]).with_precision_and_scale(38, 0).unwrap();
        let rows = single(Arc::new(decimals));
        rows.aggregate::<&str>(&[]).column("c", AggregateFunction::Sum).finish()
    };
    let most = 10_i128.pow(38) - 2;
    for value in [most / 2, -most / 2] {
        let sum = of(value).unwrap();
        assert!(
            matches!(sum.row(0).unwrap().get(0).unwrap(), Value::Decimal { digits, .. } if digits.to_i128() == Some(2 * value))
        );
        let above = of(value + value.signum()).unwrap_err();
        assert_eq!(above.kind(), ErrorKind::InvalidArgument, "{above}");
    }
}

/// For each row of a struct with nulls, the rest of a dense union in it was searched for the next row of each member.
#[test]
fn dense_unions_below_nulls_are_appended_in_linear_time() {
    let rows = 400_000;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let members = [("a", DataType::Int64), ("b", DataType::Utf8)];
    let members = members.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true)));
    let fields: UnionFields = (0..).zip(members).collect();
    let texts: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    let offsets = Some((0..rows as i32).collect());
    let union = UnionArray::try_new(fields, vec![0; rows as usize].into(), offsets, vec![numbers, texts]).unwrap();
    let inside = vec![Field::new("u", union.data_type().clone(), true)].into();
    let nulls = (0..rows).map(|row| row % 2 == 0).collect::<Vec<_>>().into();
    let structs: ArrayRef = Arc::new(StructArray::new(inside, vec![Arc::new(union)], Some(nulls)));
    let batch = RecordBatch::try_from_iter_with_nullable([("s", structs, true)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    // Each of many segments, too, searched all rows behind it.
    let options = WriterOptions { segment_rows: Some(4_000), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(batch.schema()), &options).unwrap();
    soon(|| writer.append(&batch).unwrap());
    writer.commit().unwrap();
    let dataset = open(&path).unwrap();
    let text = |row| dataset.row(row).unwrap().get(0).unwrap().to_string();
    assert_eq!([text(399_998), text(399_999)], ["{u: 399998}", "null"]);
}

/// The footers of a segment had room for 16 MiB each. A table whose schema has more was made, rows were committed to it,
/// and then every reader, and the next writer, refused it.
#[test]
fn a_schema_too_large_for_a_segment_is_refused_before_there_is_a_file() {
    let fields = || vec![Field::new("n", DataType::Int64, true)];
    let large = |name: &str| {
        Field::new(name, DataType::Int64, true).with_metadata([("doc".into(), "x".repeat(17 << 20))].into())
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let refused = |schema: Schema| {
        let refused = Writer::open(&path, Some(Arc::new(schema)), &WriterOptions::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        assert!(refused.message().contains("its schema: expected 16777216 bytes at most"), "{refused}");
    };
    let files = || path.read_dir().unwrap().count() + folder.path().read_dir().unwrap().count();
    refused(Schema::new(fields()).with_metadata([("doc".into(), "x".repeat(17 << 20))].into()));
    refused(Schema::new(vec![large("n")]));
    assert_eq!(files(), 1);
    // A change to such a schema leaves the table as it was.
    let options = WriterOptions::default();
    let mut writer = Writer::open(&path, Some(Arc::new(Schema::new(fields()))), &options).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit().unwrap();
    let wider = [fields(), vec![large("m")]].concat();
    let refused = writer.alter(&Arc::new(Schema::new(wider))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    writer.append_row(&[Value::Int(2)]).unwrap();
    writer.close().unwrap();
    assert_eq!((open(&path).unwrap().len().unwrap(), files()), (2, 2));
}

#[test]
fn the_first_row_of_none_takes_no_memory() {
    // A null of the column's type was made by arrow-rs, which takes bytes for all items of a list: more than can be counted.
    let list = |item| DataType::FixedSizeList(Arc::new(Field::new("item", item, true)), i32::MAX);
    let rows = Dataset::from_batches(Arc::new(one(list(list(DataType::Int64)))), vec![]).unwrap();
    let name = rows.schema().field(0).name().clone();
    let e =
        soon(|| rows.aggregate::<&str>(&[]).column(&name, AggregateFunction::First).finish().map(|_| ())).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
}

/// It took the product of both lengths, and half an hour for these.
#[test]
fn a_text_is_looked_for_in_linear_time() {
    let text = "a".repeat(16 << 20);
    let wanted = "a".repeat(8 << 20) + "b";
    let dataset = single(Arc::new(StringArray::from(vec![text])));
    soon(move || assert_eq!(dataset.filter(&col("c").contains(wanted)).unwrap().len().unwrap(), 0));
}
