//! Regression tests of bugs that reviews found. The comment of a test describes the former behaviour.

use std::collections::{HashMap, HashSet};
use std::path::Path;
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

/// Returns a dataset of the column `c`, with a batch for each array.
fn chunked_column(chunks: impl IntoIterator<Item = ArrayRef>) -> Dataset {
    let batch = |chunk| RecordBatch::try_from_iter_with_nullable([("c", chunk, true)]).unwrap();
    Dataset::try_from(chunks.into_iter().map(batch).collect::<Vec<_>>()).unwrap()
}

/// Returns a dataset of the column `c`, with one batch.
fn one_column(array: ArrayRef) -> Dataset {
    chunked_column([array])
}

fn encode(dataset: &Dataset, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_to(dataset, &mut bytes, &WriteOptions { format, ..WriteOptions::default() }).unwrap();
    bytes
}

/// Returns the values of the first column, or the first error.
fn read_values(dataset: &Dataset) -> Result<Vec<serde_json::Value>> {
    dataset.rows().map(|row| row?.get(0)?.to_json()).collect()
}

/// Asserts that checks, and conversions to arrays of arrow-rs, fail for the given reason.
#[track_caller]
fn assert_invalid(bytes: Vec<u8>, reason: &str) {
    let dataset = opened(bytes.clone());
    let errors = [
        dataset.validate(|_, _| ()).unwrap_err(),
        dataset.to_record_batches().find_map(|batch| batch.err()).unwrap(),
        OpenOptions::new().validate(Validation::Full).bytes(Bytes::from(bytes)).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains(reason), "{error}");
    }
}

/// Runs a task that would take minutes if it weren't linear, or more memory than there is.
///
/// The limit is on the thread's CPU time, which doesn't depend on the load of the machine.
#[track_caller]
fn run_in_bounded_time<T>(task: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let start_cpu = thread_time();
    let result = task();
    let elapsed = start.elapsed();
    let cpu_time = thread_time() - start_cpu;
    assert!(cpu_time < Duration::from_secs(5) && elapsed < PATIENCE, "took {cpu_time:?} of {elapsed:?}");
    result
}

/// arrow-rs reads values in null slots without a check, so that an invalid view read memory out of bounds.
#[test]
fn values_in_null_slots_are_validated() {
    let view = i32s(&[100, 0, 100_000_000, i32::MAX]);
    let views = Msg { variadics: vec![0], ..batch(1, &[(1, 1)], &[&[0], &view]) };
    assert_invalid(stream(&one(DataType::Utf8View), &[views]), "a view points outside");
    let text = batch(1, &[(1, 1)], &[&[0], &i32s(&[0, 2]), &[0xff, 0xfe]]);
    assert_invalid(stream(&one(DataType::Utf8), &[text]), "not UTF-8");
    let lists = batch(1, &[(1, 1), (1, 0)], &[&[0], &i32s(&[1000]), &i32s(&[1000]), &[], &[1]]);
    assert_invalid(stream(&one(list_view()), &[lists]), "a list's offset and size");
}

/// Concatenation of a dictionary and its delta followed invalid views and lists in null slots, and panicked.
#[test]
fn values_in_null_slots_of_deltas_are_validated() {
    let view = i32s(&[100, 0, -1, 0, 0, 0, 0, 0]);
    let views = Msg { variadics: vec![1], ..batch(2, &[(2, 1)], &[&[2], &view, b"xxxx"]) };
    let lists = batch(2, &[(2, 1), (1, 0)], &[&[1], &i32s(&[0, 1000]), &i32s(&[1, 1000]), &[], &[1]]);
    for (values, data_type) in [(views, DataType::Utf8View), (lists, list_view())] {
        let messages = [dictionary(0, false, values.clone()), dictionary(0, true, values), key(0)];
        assert_invalid(stream(&one(coded(data_type)), &messages), "dictionary 0");
    }
}

/// Validated text could be changed through a view of the same mapping while it was borrowed as a `&str`.
#[test]
fn from_mapping_rejects_writable_mappings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.arrow");
    write(&one_column(Arc::new(StringArray::from(vec!["a"]))), &path, &WriteOptions::default()).unwrap();
    let error = Bytes::from_mapping(Mapping::open(&path, Mode::ReadWrite).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(Bytes::from_mapping(Mapping::open(&path, Mode::Read).unwrap()).is_ok());
}

/// Files could be opened without checks and converted to arrays of arrow-rs: undefined behaviour without `unsafe`.
#[test]
fn arrays_are_validated_before_they_are_returned() {
    let bytes = stream(&one(coded(DataType::Utf8)), &[text_values(false, &[0xff]), key(0)]);
    let dataset = OpenOptions::new().bytes(Bytes::from(bytes)).unwrap();
    assert!(dataset.row(0).unwrap().get(0).is_err());
    assert!(dataset.to_record_batches().next().unwrap().unwrap_err().to_string().contains("not UTF-8"));
    assert!(dataset.column_at(0).unwrap().chunks().unwrap_err().to_string().contains("not UTF-8"));
    assert!(dataset.validate(|_, _| ()).unwrap_err().to_string().contains("not UTF-8"));
}

/// Any error of a minimum or maximum was shown as null, as if the type had no order.
#[test]
fn describe_returns_the_error_of_damaged_values() {
    let bytes = stream(&one(DataType::Utf8), &[batch(1, &[(1, 0)], &[&[], &i32s(&[0, 1]), &[0xff]])]);
    let error = opened(bytes).describe().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    let lists = DataType::List(Arc::new(Field::new("item", DataType::Int8, true)));
    let bytes = stream(&one(lists), &[batch(1, &[(1, 0), (1, 0)], &[&[], &i32s(&[0, 1]), &[], &[1]])]);
    let statistics = opened(bytes).describe().unwrap();
    assert!(statistics.row(4).unwrap().get(1).unwrap().is_null());
}

/// The writer sliced the items by the offsets of the list, and panicked.
#[test]
fn write_rejects_lists_beyond_their_items() {
    let lists = DataType::List(Arc::new(Field::new("item", DataType::Int8, true)));
    let bytes = stream(&one(lists), &[batch(1, &[(1, 0), (1, 0)], &[&[], &i32s(&[0, 1000]), &[], &[1]])]);
    let dataset = OpenOptions::new().bytes(Bytes::from(bytes)).unwrap();
    let error = write_to(&dataset, &mut std::io::sink(), &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

/// Offsets of columns without rows were passed on unchecked. They may be too short, at which arrow-rs panics, or out of
/// range.
#[test]
fn offsets_of_no_rows_are_replaced_by_zero() {
    for offsets in [&[1, 2][..], &i32s(&[0x7fff_fff0])] {
        let dataset = opened(stream(&one(DataType::Utf8), &[batch(0, &[(0, 0)], &[&[], offsets, &[]])]));
        dataset.validate(|_, _| ()).unwrap();
        let batch = dataset.to_record_batches().next().unwrap().unwrap();
        assert_eq!(batch.column(0).as_string::<i32>().value_offsets(), [0]);
    }
}

/// Slices of fixed-size lists and sparse unions of structs moved the struct but not its fields.
#[test]
fn slices_of_nested_structs_have_the_right_rows() {
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(0..8));
    let structs: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int32, true)), ints)]));
    let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
    let fields = UnionFields::from_iter([(0, item.clone())]);
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, structs.clone(), None));
    let union: ArrayRef = Arc::new(UnionArray::try_new(fields, vec![0; 8].into(), None, vec![structs]).unwrap());
    for array in [lists, union] {
        let dataset = one_column(array.clone());
        let all_values = read_values(&dataset).unwrap();
        let slice = dataset.slice(1, 3).unwrap();
        let batch = slice.to_record_batches().next().unwrap().unwrap();
        assert_eq!(batch.column(0), &array.slice(1, 3));
        for other in [one_column(batch.column(0).clone()), opened(encode(&slice, Format::File)), slice] {
            assert_eq!(read_values(&other).unwrap(), all_values[1..4]);
        }
    }
}

/// arrow-rs panics when it concatenates misaligned buffers.
#[test]
fn misaligned_dictionaries_are_extended_and_merged() {
    let schema = one(coded(DataType::Int32));
    let extended = misaligned(stream(&schema, &[int_values(false, 5), int_values(true, 6), key(1)]));
    assert_eq!(read_values(&extended).unwrap(), [6]);
    let merged = misaligned(stream(&schema, &[int_values(false, 5), key(0), int_values(false, 6), key(0)]));
    assert_eq!(read_values(&opened(encode(&merged, Format::File))).unwrap(), [5, 6]);
}

/// Each delta copied all previous values: time and memory were quadratic, and 2000 deltas were rejected.
#[test]
fn thousands_of_deltas_are_read_in_linear_time() {
    let dataset = opened(deltas(5000));
    let values = run_in_bounded_time(|| read_values(&dataset).unwrap());
    assert_eq!((values.len(), values[4999].as_str()), (5000, Some("value number 4999")));
}

/// Each delta was written as a new dictionary: size and time were quadratic.
#[test]
fn thousands_of_deltas_are_written_in_linear_time() {
    let bytes = deltas(2000);
    for format in [Format::File, Format::Stream] {
        let rewritten = run_in_bounded_time(|| encode(&opened(bytes.clone()), format));
        assert!(rewritten.len() < 2 * bytes.len(), "{format:?}: {} bytes of {}", rewritten.len(), bytes.len());
        assert_eq!(read_values(&opened(rewritten)).unwrap()[1999], "value number 1999");
    }
}

/// Merging compared the dictionary of each batch with all previous values.
#[test]
fn dictionaries_without_common_values_are_merged_in_linear_time() {
    let array = |batch: i32| -> ArrayRef {
        let values = StringArray::from_iter_values((0..100).map(|i| format!("v{}", batch * 100 + i)));
        Arc::new(DictionaryArray::new(Int32Array::from_iter_values(0..100), Arc::new(values)))
    };
    let dataset = chunked_column((0..2000).map(array));
    let reread = opened(run_in_bounded_time(|| encode(&dataset, Format::File)));
    assert_eq!(reread.row(199_999).unwrap().get(0).unwrap().to_json().unwrap(), "v199999");
}

/// Each delta copied the states of all dictionaries.
#[test]
fn dictionary_states_take_linear_memory() {
    let count = 10_000;
    let fields: Vec<_> = (0..count).map(|i| Field::new(format!("f{i}"), coded(DataType::Null), true)).collect();
    let values = batch(1, &[(1, 0)], &[]);
    let mut messages: Vec<_> = (0..count).map(|id| dictionary(id, false, values.clone())).collect();
    for _ in 0..count {
        messages.extend([dictionary(0, true, values.clone()), batch(1, &[], &[])]);
    }
    let dataset = opened(stream(&Schema::new(fields), &messages));
    assert_eq!(run_in_bounded_time(|| dataset.len().unwrap()), count as u64);
}

/// All deltas were read with the first batch, so that a damaged one at the end made every row unreadable.
#[test]
fn rows_before_a_damaged_delta_are_readable() {
    let schema = one(coded(DataType::Utf8));
    let messages = [text_values(false, b"a"), text_values(true, b"b"), key(1), text_values(true, &[0xff]), key(2)];
    let dataset = opened(stream(&schema, &messages));
    let value = |row| dataset.row(row).and_then(|row| row.get(0)?.to_json());
    assert_eq!(value(0).unwrap(), "b");
    assert!(value(1).is_err());
}

/// A dictionary whose values have a dictionary that follows later in the file was rejected.
#[test]
fn dictionaries_of_a_file_may_be_in_any_order() {
    let inner = Field::new("x", coded(DataType::Int32), true);
    let schema = one(coded(DataType::Struct(vec![inner].into())));
    let outer = dictionary(1, false, batch(1, &[(1, 0), (1, 0)], &[&[], &[], &[0]]));
    for messages in [[outer.clone(), int_values(false, 7), key(0)], [int_values(false, 7), outer, key(0)]] {
        assert_eq!(read_values(&opened(file(&schema, &messages, |_| ()))).unwrap(), [serde_json::json!({ "x": 7 })]);
    }
}

/// Merging compared values by their texts, which are equal for all milliseconds of a day.
#[test]
fn dates_with_the_same_text_are_not_merged() {
    let array = |milliseconds| {
        let values = Arc::new(Date64Array::from(vec![milliseconds]));
        Arc::new(DictionaryArray::new(Int8Array::from(vec![0]), values)) as ArrayRef
    };
    let dataset = chunked_column([0, 1000].map(array));
    let first_value = |batch: Result<RecordBatch>| {
        let column = batch.unwrap().column(0).clone();
        column.as_dictionary::<Int8Type>().downcast_dict::<Date64Array>().unwrap().into_iter().next().unwrap()
    };
    let reread = opened(encode(&dataset, Format::File));
    assert_eq!(reread.to_record_batches().map(first_value).collect::<Vec<_>>(), [Some(0), Some(1000)]);
}

/// Sums of variadic counts, of values in deltas, of rows in datasets and of bytes between offsets overflowed.
#[test]
fn counts_do_not_overflow() {
    let fields: Vec<_> = ["a", "b", "c"].map(|name| Field::new(name, DataType::Utf8View, true)).into();
    let views = Msg { variadics: vec![i64::MAX; 3], ..batch(0, &[(0, 0); 3], &[&[][..]; 6]) };
    assert!(opened(stream(&Schema::new(fields), &[views])).validate(|_, _| ()).is_err());
    let nulls = |delta| dictionary(0, delta, batch(i64::MAX, &[(i64::MAX, 0)], &[]));
    let messages = [nulls(false), nulls(true), nulls(true), key(0)];
    assert!(read_values(&opened(stream(&one(coded(DataType::Null)), &messages))).is_err());
    let rows = opened(stream(&Schema::empty(), &[batch(i64::MAX, &[], &[])]));
    assert!(Dataset::concat(&[rows.clone(), rows.clone(), rows]).unwrap().len().is_err());
    let offsets = [0i64.to_le_bytes(), (-1i64).to_le_bytes()].concat();
    let text = opened(stream(&one(DataType::LargeUtf8), &[batch(1, &[(1, 0)], &[&[], &offsets, &[]])]));
    assert_eq!(text.nbytes().unwrap(), 16);
}

/// Merging dictionaries of 2^60 nulls allocated memory for each of them.
#[test]
fn huge_dictionaries_of_nulls_are_merged() {
    let nulls = |n| dictionary(0, false, batch(n, &[(n, 0)], &[]));
    let messages = [nulls(1 << 60), key(0), nulls(1 << 59), key(0)];
    let dataset = opened(stream(&one(coded(DataType::Null)), &messages));
    let reread = opened(run_in_bounded_time(|| encode(&dataset, Format::File)));
    assert_eq!(read_values(&reread).unwrap(), [serde_json::Value::Null, serde_json::Value::Null]);
}

/// After a dictionary with a null, arrow-rs allocated a bit for each value of the delta, and a stream of 800 bytes ended
/// the process.
#[test]
fn huge_deltas_of_values_without_bytes_are_errors() {
    let structs = DataType::Struct(Fields::empty());
    let kinds: [(DataType, &[&[u8]]); 2] = [(DataType::FixedSizeBinary(0), &[&[2], &[]]), (structs, &[&[2]])];
    for (values_type, buffers) in kinds {
        let small = dictionary(0, false, batch(2, &[(2, 1)], buffers));
        let huge_delta = dictionary(0, true, batch(1 << 60, &[(1 << 60, 0)], &vec![&[][..]; buffers.len()]));
        let bytes = stream(&one(coded(values_type)), &[small, key(1), huge_delta, key(1)]);
        let is_null = |row| opened(bytes.clone()).row(row).unwrap().get(0).map(|value| value.is_null());
        assert!(!is_null(0).unwrap());
        assert!(is_null(1).is_err_and(|e| e.message().contains("no room in memory")));
        // A server validates and reads the streams that it receives.
        assert!(opened(bytes.clone()).validate(|_, _| ()).is_err());
        let batches: Vec<_> = read_stream(&bytes[..]).unwrap().map(|batch| batch.is_ok()).collect();
        assert_eq!(batches, [true, false]);
    }
}

/// The schema of the first part was used, and nulls of the second were an error of arrow-rs.
#[test]
fn concat_is_nullable_if_any_part_is() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let first = Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable([("c", column, false)]).unwrap()]);
    let concatenated = Dataset::concat(&[first.unwrap(), one_column(Arc::new(Int64Array::from(vec![None])))]).unwrap();
    assert!(concatenated.schema().field(0).is_nullable());
    assert_eq!(concatenated.to_record_batches().map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>(), [1, 1]);
}

/// Arrow Java compresses an empty buffer to the length 0 without a frame, which was taken for damage.
#[test]
fn compressed_empty_buffers_may_lack_a_frame() {
    for codec in [ipc::CompressionType::ZSTD, ipc::CompressionType::LZ4_FRAME] {
        let offsets = [&(-1i64).to_le_bytes()[..], &i32s(&[0, 0])].concat();
        let text = Msg { codec: Some(codec), ..batch(1, &[(1, 0)], &[&[], &offsets, &[0; 8]]) };
        assert_eq!(read_values(&opened(stream(&one(DataType::Utf8), &[text]))).unwrap(), [""]);
    }
}

/// A frame of 2 KB with 64 MiB of zeros was decompressed for each of the buffers that refer to it.
#[test]
fn buffers_that_share_a_compressed_frame_are_rejected() {
    let frame = [(1i64 << 26).to_le_bytes().to_vec(), zstd::encode_all(&vec![0; 1 << 26][..], 1).unwrap()].concat();
    let views = [(-1i64).to_le_bytes().to_vec(), vec![0; 16]].concat();
    let codec = Some(ipc::CompressionType::ZSTD);
    let mut bomb = Msg { variadics: vec![20], codec, ..batch(1, &[(1, 0)], &[&[], &views, &frame]) };
    bomb.buffers.resize(22, bomb.buffers[2]);
    let dataset = opened(stream(&one(DataType::BinaryView), &[bomb]));
    assert!(read_values(&dataset).unwrap_err().to_string().contains("overlap"));
    assert!(dataset.footprint().copied < 1 << 20);
}

/// A small file whose footer lists two long blocks thousands of times took hours.
#[test]
fn overlapping_blocks_of_a_footer_are_rejected() {
    let messages = [batch(1, &[(1, 0)], &[]), batch(1, &[(1, 0)], &[]), batch(1, &[(1, 0)], &[&[0; 400_000]])];
    let bytes = file(&one(DataType::Null), &messages, |blocks| {
        let end = blocks[2].offset() + i64::from(blocks[2].metaDataLength()) + blocks[2].bodyLength();
        let long_block = |start: i64, end: i64| ipc::Block::new(start, (end - start) as i32, 0);
        let overlapping = [long_block(blocks[0].offset(), end - 8), long_block(blocks[1].offset(), end)];
        *blocks = overlapping.into_iter().cycle().take(8000).collect();
    });
    assert!(run_in_bounded_time(|| opened(bytes).len()).is_err());
}

/// The name of a parent was repeated in each child's: listing a schema of 300 KB took 200 MB.
#[test]
fn names_of_children_do_not_repeat_a_long_parent_name() {
    let fields: Vec<_> = (0..2000).map(|i| Field::new(format!("f{i}"), DataType::Int8, true)).collect();
    let parent = Field::new("x".repeat(100_000), DataType::Struct(fields.into()), true);
    let msg = Msg { nodes: vec![(0, 0); 2001], buffers: vec![(0, 0); 4001], ..Msg::default() };
    let bytes = stream(&Schema::new(vec![parent]), &[msg]);
    let messages = opened(bytes.clone()).messages().unwrap();
    let nodes = &messages[1].nodes;
    assert!(nodes.iter().map(|node| node.field.len()).sum::<usize>() < 10 * bytes.len() + (1 << 20));
    assert!(nodes[2000].field.ends_with("f1999"));
}

/// Sums below 2^75 became 0 when they were converted to floats.
#[test]
fn a_mean_of_decimals_keeps_its_sign_and_size() {
    let decimals = Decimal128Array::from(vec![-100, -300]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(one_column(Arc::new(decimals)).column("c").unwrap().mean().unwrap(), Some(-2.0));
    let decimals = Decimal64Array::from(vec![-1_000_000]).with_precision_and_scale(18, 0).unwrap();
    assert_eq!(one_column(Arc::new(decimals)).column("c").unwrap().mean().unwrap(), Some(-1e6));
}

/// Rows that refer to a null value were counted as values.
#[test]
fn null_values_of_runs_and_dictionaries_count_as_nulls() {
    let runs: Int32RunArray = [Some("a"), None, None].into_iter().collect();
    let texts = Arc::new(StringArray::from(vec![Some("a"), None]));
    let dictionary = DictionaryArray::new(Int8Array::from(vec![0, 1, 1]), texts);
    for array in [Arc::new(runs) as ArrayRef, Arc::new(dictionary)] {
        let column = one_column(array).column("c").unwrap();
        assert_eq!((column.count().unwrap(), column.null_count().unwrap()), (1, 2));
    }
}

/// Reductions allocated a byte for each of 2^42 values of a dictionary, and a task for each block of 2^50 nulls, and
/// aborted.
#[test]
fn huge_columns_without_bytes_are_reduced() {
    let empty_values = batch(1 << 42, &[(1 << 42, 0)], &[&[], &[]]);
    let messages = [dictionary(0, false, empty_values), key(0)];
    let dataset = opened(stream(&one(coded(DataType::FixedSizeBinary(0))), &messages));
    let max = run_in_bounded_time(|| dataset.column("c").unwrap().max().unwrap().to_json().unwrap());
    assert_eq!(max, "");
    let nulls = opened(stream(&one(DataType::Null), &[batch(1 << 50, &[(1 << 50, 0)], &[])]));
    let column = nulls.column("c").unwrap();
    assert_eq!(run_in_bounded_time(|| column.null_count().unwrap()), 1 << 50);
    assert!(run_in_bounded_time(|| column.sum()).is_err());
}

/// Small files could decompress to any size.
#[test]
fn max_decompressed_bytes_is_enforced() {
    const DECOMPRESSED_BYTES: u64 = 8 << 20;
    let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; 1 << 20]));
    let batch = RecordBatch::try_from_iter([("n", zeros)]).unwrap();
    for compression in [Compression::Zstd, Compression::Lz4] {
        let options = WriteOptions { compression: Some(compression), ..WriteOptions::default() };
        let mut bytes = Vec::new();
        write_to(&Dataset::try_from(vec![batch.clone()]).unwrap(), &mut bytes, &options).unwrap();
        assert!(bytes.len() < 1 << 17);
        let open_with_limit =
            |limit: u64| OpenOptions::new().max_decompressed_bytes(limit).bytes(Bytes::from(bytes.clone())).unwrap();
        let e = open_with_limit(DECOMPRESSED_BYTES - 1).column("n").unwrap().sum().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.message().contains("8388608 bytes"), "{e}");
        assert_eq!(open_with_limit(DECOMPRESSED_BYTES).column("n").unwrap().sum().unwrap().to_string(), "0");
    }
}

/// Returns null structs and null lists, whose children are dictionary-encoded and not nullable.
fn nulls_with_dictionary_children(values: ArrayRef) -> Vec<ArrayRef> {
    let dictionary_type = DataType::Dictionary(DataType::Int32.into(), values.data_type().clone().into());
    let field = Arc::new(Field::new("d", dictionary_type, false));
    // Keys below a null are unspecified: pyarrow makes them null and leaves the dictionary empty.
    let children = |rows| {
        let keys = Int32Array::from(vec![None; rows]);
        Arc::new(DictionaryArray::new(keys, values.slice(0, 0))) as ArrayRef
    };
    let nulls = arrow_buffer::NullBuffer::new_null(2);
    let structs = StructArray::new(vec![field.clone()].into(), vec![children(2)], Some(nulls.clone()));
    let lists = FixedSizeListArray::new(field, 3, children(6), Some(nulls));
    vec![Arc::new(structs), Arc::new(lists)]
}

/// Asserts that a dataset is valid and that its first column has only nulls.
#[track_caller]
fn assert_valid_nulls(dataset: &Dataset) {
    dataset.validate(|_, _| ()).unwrap();
    for batch in dataset.to_record_batches() {
        for column in batch.unwrap().columns() {
            column.to_data().validate_full().unwrap();
        }
    }
    assert!(read_values(dataset).unwrap().iter().all(serde_json::Value::is_null));
}

/// Their keys were stored as 0 although the dictionary was empty: the table was unreadable, and `repair` removed its
/// rows.
#[test]
#[cfg_attr(windows, ignore = "a table is written")]
fn nulls_above_an_empty_dictionary_are_stored_with_valid_keys() {
    let texts = Arc::new(StringArray::from(vec!["a"])) as ArrayRef;
    let numbers = Arc::new(Int64Array::from(vec![7])) as ArrayRef;
    for array in [texts, numbers].into_iter().flat_map(nulls_with_dictionary_children) {
        let rows = one_column(array);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let mut writer = Writer::open(&path, Some(rows.schema().clone()), &WriterOptions::default()).unwrap();
        writer.append_dataset(&rows).unwrap();
        writer.close().unwrap();
        let stored = open(&path).unwrap();
        assert_valid_nulls(&stored);
        assert!(check(&path, |_, _| ()).unwrap().is_good());
        let mut builder = DatasetBuilder::new(rows.schema().clone()).unwrap();
        builder.append_dataset(&rows).unwrap();
        assert_valid_nulls(&builder.finish().unwrap());
        assert_valid_nulls(&Dataset::concat(&[rows.clone(), stored]).unwrap().collect().unwrap());
    }
}

/// Collecting looked for the dictionary of the first batch although there was none.
#[test]
fn empty_filter_results_are_collected() {
    let dictionary: DictionaryArray<Int8Type> = ["a", "b"].into_iter().collect();
    let rows = one_column(Arc::new(dictionary));
    let no_rows = rows.filter(&col("c").eq("c")).unwrap();
    let filtered_again = no_rows.filter(&col("c").eq("a")).unwrap();
    let concatenated = Dataset::concat(&[no_rows.clone(), no_rows.clone()]).unwrap();
    for empty in [no_rows, filtered_again, concatenated] {
        let collected = empty.collect().unwrap();
        assert_eq!((collected.len().unwrap(), collected.schema()), (0, rows.schema()));
    }
}

/// They were read as if they had offsets, like texts.
#[test]
fn fixed_size_bytes_are_keys_and_maxima_of_many_groups() {
    const ROWS: u32 = 70_000;
    let bytes = |n: u32, width: usize| n.to_be_bytes().into_iter().cycle().take(width).collect::<Vec<_>>();
    for width in [3, 4, 16, 20] {
        for has_nulls in [false, true] {
            let value = |n: u32| (!has_nulls || !n.is_multiple_of(1000)).then(|| bytes(n / 2, width));
            let keys =
                FixedSizeBinaryArray::try_from_sparse_iter_with_size((0..ROWS).map(value), width as i32).unwrap();
            let numbers = Int64Array::from_iter_values((0..ROWS).map(|n| i64::from(n / 2)));
            let columns = [("k", Arc::new(keys) as ArrayRef, true), ("n", Arc::new(numbers) as ArrayRef, true)];
            let rows = Dataset::try_from(vec![RecordBatch::try_from_iter_with_nullable(columns).unwrap()]).unwrap();
            let distinct: HashSet<_> = (0..ROWS).map(value).collect();
            let by_bytes = rows.aggregate(&["k"]).column("n", AggregateFunction::Sum).finish().unwrap();
            assert_eq!(by_bytes.len().unwrap(), distinct.len() as u64, "{width} bytes");
            let by_number = rows.aggregate(&["n"]).column_as("max", "k", AggregateFunction::Max).finish().unwrap();
            assert_eq!(by_number.len().unwrap(), u64::from(ROWS / 2));
            let row = by_number.row(77).unwrap();
            let expected = bytes(77, width);
            assert!(matches!(row.get(1).unwrap(), Value::Bytes(actual) if actual == expected), "{width} bytes");
        }
    }
}

/// Sums of more than 38 digits were returned, which the type can't represent.
#[test]
fn sums_of_decimals_must_fit_their_precision() {
    let sum_of_two = |value: i128| {
        let decimals = Decimal128Array::from(vec![value, value]).with_precision_and_scale(38, 0).unwrap();
        let rows = one_column(Arc::new(decimals));
        rows.aggregate::<&str>(&[]).column("c", AggregateFunction::Sum).finish()
    };
    // The largest even number of 38 digits.
    let max_sum = 10_i128.pow(38) - 2;
    for value in [max_sum / 2, -max_sum / 2] {
        let result = sum_of_two(value).unwrap();
        let row = result.row(0).unwrap();
        let Value::Decimal { digits, .. } = row.get(0).unwrap() else { panic!("{row:?}") };
        assert_eq!(digits.to_i128(), Some(2 * value));
        let e = sum_of_two(value + value.signum()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    }
}

/// For each row, the rest of the union was searched for the next row of each member; and again in each segment.
#[test]
#[cfg_attr(windows, ignore = "a table is written")]
fn dense_unions_below_nulls_are_appended_in_linear_time() {
    let rows = 400_000;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let members = [("a", DataType::Int64), ("b", DataType::Utf8)];
    let members = members.map(|(name, data_type)| Arc::new(Field::new(name, data_type, true)));
    let fields: UnionFields = (0..).zip(members).collect();
    let texts: ArrayRef = Arc::new(StringArray::from(Vec::<&str>::new()));
    let offsets = Some((0..rows as i32).collect());
    let union = UnionArray::try_new(fields, vec![0; rows as usize].into(), offsets, vec![numbers, texts]).unwrap();
    let fields = vec![Field::new("u", union.data_type().clone(), true)].into();
    let nulls = (0..rows).map(|row| row % 2 == 0).collect::<Vec<_>>().into();
    let structs: ArrayRef = Arc::new(StructArray::new(fields, vec![Arc::new(union)], Some(nulls)));
    let batch = RecordBatch::try_from_iter_with_nullable([("s", structs, true)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let options = WriterOptions { segment_rows: Some(4_000), ..WriterOptions::default() };
    let mut writer = Writer::open(&path, Some(batch.schema()), &options).unwrap();
    run_in_bounded_time(|| writer.append(&batch).unwrap());
    writer.commit().unwrap();
    let dataset = open(&path).unwrap();
    let text = |row| dataset.row(row).unwrap().get(0).unwrap().to_string();
    assert_eq!([text(399_998), text(399_999)], ["{u: 399998}", "null"]);
}

/// Returns metadata that is larger than the 16 MiB which a segment has for its schema.
fn huge_metadata() -> HashMap<String, String> {
    [("doc".into(), "x".repeat(17 << 20))].into()
}

/// Returns the number of entries in a table's directory and its parent.
fn count_files(table: &Path) -> usize {
    table.read_dir().unwrap().count() + table.parent().unwrap().read_dir().unwrap().count()
}

/// A table with such a schema was created and accepted rows, but no reader and no other writer could open it.
#[test]
#[cfg_attr(windows, ignore = "a table is written")]
fn schemas_too_large_for_a_segment_are_rejected() {
    let small_field = Field::new("n", DataType::Int64, true);
    let huge_field = Field::new("m", DataType::Int64, true).with_metadata(huge_metadata());
    let small_schema = Schema::new(vec![small_field.clone()]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let options = WriterOptions::default();
    for schema in [small_schema.clone().with_metadata(huge_metadata()), Schema::new(vec![huge_field.clone()])] {
        let e = Writer::open(&path, Some(Arc::new(schema)), &options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        assert!(e.message().contains("its schema: expected 16777216 bytes at most"), "{e}");
    }
    // There is only the table's empty directory.
    assert_eq!(count_files(&path), 1);

    // A rejected change of the schema leaves the table unchanged.
    let mut writer = Writer::open(&path, Some(Arc::new(small_schema)), &options).unwrap();
    writer.append_row(&[Value::Int(1)]).unwrap();
    writer.commit().unwrap();
    let e = writer.alter(&Arc::new(Schema::new(vec![small_field, huge_field]))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    writer.append_row(&[Value::Int(2)]).unwrap();
    writer.close().unwrap();
    assert_eq!((open(&path).unwrap().len().unwrap(), count_files(&path)), (2, 2));
}

/// arrow-rs created a null of the column's type with memory for all items, whose number overflowed.
#[test]
fn first_of_no_rows_is_unsupported_for_huge_lists() {
    let huge_list = |item| DataType::FixedSizeList(Arc::new(Field::new("item", item, true)), i32::MAX);
    let rows = Dataset::from_batches(Arc::new(one(huge_list(huge_list(DataType::Int64)))), vec![]).unwrap();
    let name = rows.schema().field(0).name().clone();
    let first = rows.aggregate::<&str>(&[]).column(&name, AggregateFunction::First);
    let e = run_in_bounded_time(|| first.finish().map(drop)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
}

/// The time was the product of both lengths: half an hour for these texts.
#[test]
fn contains_takes_linear_time() {
    let text = "a".repeat(16 << 20);
    let pattern = "a".repeat(8 << 20) + "b";
    let dataset = one_column(Arc::new(StringArray::from(vec![text])));
    let matches = run_in_bounded_time(|| dataset.filter(&col("c").contains(pattern)).unwrap());
    assert_eq!(matches.len().unwrap(), 0);
}
