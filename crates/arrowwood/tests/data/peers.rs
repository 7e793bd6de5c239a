//! Tests of input that other readers of Arrow read wrongly, reject or crash on; comments say which.
//!
//! Each input is read as a stream and as a file, from memory and mapped.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{ArrowNativeType, Buffer, IntervalDayTime, IntervalMonthDayNano, ScalarBuffer, i256};
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{self as ipc, CompressionType, MetadataVersion};
use arrow_schema::{DataType, Field, Schema, SchemaRef, UnionFields};
use arrowwood::{Bytes, Dataset, Error, Message, MessageKind, OpenOptions, Value, open};
use flatbuffers::{FlatBufferBuilder, WIPOffset};
use serde_json::{Value as Json, json};

use crate::thread::thread_time;

/// Encodes batches with arrow-rs as a stream and as a file.
fn encode_with(schema: &Schema, batches: &[RecordBatch], options: &IpcWriteOptions) -> [Vec<u8>; 2] {
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), schema, options.clone()).unwrap();
    let mut file = FileWriter::try_new_with_options(Vec::new(), schema, options.clone()).unwrap();
    for batch in batches {
        stream.write(batch).unwrap();
        file.write(batch).unwrap();
    }
    [stream.into_inner().unwrap(), file.into_inner().unwrap()]
}

/// Encodes batches of one schema with the default options.
fn encode(batches: &[RecordBatch]) -> [Vec<u8>; 2] {
    encode_with(&batches[0].schema(), batches, &IpcWriteOptions::default())
}

/// Encodes batches whose dictionaries are replaced, which files don't support, as a stream.
fn encode_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut stream = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        stream.write(batch).unwrap();
    }
    stream.into_inner().unwrap()
}

/// Opens bytes from memory and as a mapped file.
fn open_both_ways(bytes: &[u8]) -> [Result<Dataset, Error>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input.arrow");
    std::fs::write(&path, bytes).unwrap();
    [OpenOptions::new().bytes(Bytes::from(bytes.to_vec())), open(path)]
}

/// Validates and reads all rows, each as a JSON list.
fn read_rows(dataset: &Dataset) -> Result<Vec<Json>, Error> {
    dataset.validate(|_, _| ())?;
    let mut rows = Vec::new();
    for row in dataset.rows() {
        rows.push(row?.iter().map(|(_, value)| value?.to_json()).collect::<Result<Json, Error>>()?);
    }
    assert_eq!(rows.len() as u64, dataset.len()?);
    for batch in dataset.to_record_batches() {
        batch?;
    }
    Ok(rows)
}

#[track_caller]
fn assert_rows(bytes: &[u8], expected: &[Json]) {
    for dataset in open_both_ways(bytes) {
        assert_eq!(read_rows(&dataset.unwrap()).unwrap(), expected);
    }
}

/// Asserts that opening or reading fails; `what` describes the input.
#[track_caller]
fn assert_invalid(bytes: &[u8], what: &str) {
    for dataset in open_both_ways(bytes) {
        let rows = dataset.and_then(|dataset| read_rows(&dataset));
        assert!(rows.is_err(), "{what}: {rows:?}");
    }
}

fn open_in_memory(bytes: &[u8]) -> Dataset {
    OpenOptions::new().bytes(Bytes::from(bytes.to_vec())).unwrap()
}

/// Returns a batch of nullable columns, all of them called `x`.
fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<_> = columns.iter().map(|column| Field::new("x", column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Returns a batch of one dictionary-encoded column.
fn dictionary_batch(values: &[&str], keys: &[Option<i8>]) -> RecordBatch {
    let values = Arc::new(StringArray::from(values.to_vec()));
    batch(vec![Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(keys.to_vec()), values))])
}

fn text_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Utf8, true)]))
}

fn read_messages(bytes: &[u8]) -> Vec<Message> {
    open_in_memory(bytes).messages().unwrap()
}

/// Returns the message of the first record batch.
fn first_batch(bytes: &[u8]) -> Message {
    read_messages(bytes).into_iter().find(|message| message.kind == MessageKind::RecordBatch).unwrap()
}

/// Returns the position of a buffer of a message.
fn buffer_position(message: &Message, buffer: usize) -> usize {
    (message.body_offset as i64 + message.buffers[buffer].offset) as usize
}

/// Returns the range of a message with its body.
fn message_range(message: &Message) -> Range<usize> {
    message.offset as usize..(message.body_offset + message.body_length) as usize
}

/// Returns a copy of `bytes` with `patch` at `position`.
fn overwrite(bytes: &[u8], position: usize, patch: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[position..position + patch.len()].copy_from_slice(patch);
    bytes
}

/// Returns all positions in `range` at which `pattern` occurs.
fn find_all(bytes: &[u8], range: Range<usize>, pattern: &[u8]) -> Vec<usize> {
    range.filter(|&position| bytes[position..].starts_with(pattern)).collect()
}

/// Encodes two integers as the metadata has them for a field node or a buffer.
fn encode_pair(first: i64, second: i64) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

/// Returns the position of a message's block in the footer: its offset, and the length of its prefix and metadata.
fn block_position(bytes: &[u8], message: &Message) -> usize {
    let head_len = (message.body_offset - message.offset) as i32;
    let block = [&(message.offset as i64).to_le_bytes()[..], &head_len.to_le_bytes()].concat();
    find_all(bytes, footer_position(bytes)..bytes.len(), &block)[0]
}

/// Returns the position of a file's footer, which is followed by its length and the magic.
fn footer_position(bytes: &[u8]) -> usize {
    let tail = bytes.len() - 10;
    tail - i32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize
}

/// The keys of [`dictionary`].
const KEYS: [Option<usize>; 5] = [Some(2), Some(0), None, Some(1), Some(2)];

fn dictionary<K: ArrowDictionaryKeyType>(values: &ArrayRef) -> ArrayRef {
    let mut keys = PrimitiveBuilder::<K>::new();
    for key in KEYS {
        keys.append_option(key.and_then(K::Native::from_usize));
    }
    Arc::new(DictionaryArray::<K>::new(keys.finish(), values.clone()))
}

/// tech.ml.dataset returned indices or zeros for values other than strings, and read large offsets as 32 bits.
#[test]
fn dictionaries_have_values_and_keys_of_any_type() {
    let values: Vec<ArrayRef> = vec![
        Arc::new(Int8Array::from(vec![7, 8, 9])),
        Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX])),
        Arc::new(UInt64Array::from(vec![1, 2, u64::MAX])),
        Arc::new(Float64Array::from(vec![0.5, -0.25, 1e300])),
        Arc::new(BooleanArray::from(vec![true, false, true])),
        Arc::new(StringArray::from(vec!["a", "né", ""])),
        Arc::new(LargeStringArray::from(vec!["a", "né", ""])),
        Arc::new(StringViewArray::from(vec!["a", "longer than twelve bytes", ""])),
        Arc::new(LargeBinaryArray::from(vec![&b"\xff"[..], b"", b"xyz"])),
        Arc::new(FixedSizeBinaryArray::try_from_iter([[1, 2], [3, 4], [5, 6]].into_iter()).unwrap()),
        Arc::new(TimestampSecondArray::from(vec![0, 1, 2])),
        Arc::new(Decimal128Array::from(vec![1, -2, 3])),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), None, Some(vec![])])),
    ];
    for values in values {
        let decoded = read_rows(&Dataset::try_from(vec![batch(vec![values.clone()])]).unwrap()).unwrap();
        let columns = vec![
            dictionary::<Int8Type>(&values),
            dictionary::<Int16Type>(&values),
            dictionary::<Int32Type>(&values),
            dictionary::<Int64Type>(&values),
            dictionary::<UInt8Type>(&values),
            dictionary::<UInt16Type>(&values),
            dictionary::<UInt32Type>(&values),
            dictionary::<UInt64Type>(&values),
        ];
        let expected = KEYS.map(|key| {
            let value = key.map_or(Json::Null, |key| decoded[key][0].clone());
            Json::Array(vec![value; columns.len()])
        });
        for bytes in encode(&[batch(columns)]) {
            assert_rows(&bytes, &expected);
        }
    }
}

/// tech.ml.dataset computed the number of rows from the padded length of a dictionary column.
#[test]
fn number_of_rows_does_not_depend_on_padding() {
    for count in 0..20 {
        let batch = dictionary_batch(&["a"], &vec![Some(0); count]);
        for bytes in encode(&[batch]) {
            assert_rows(&bytes, &vec![json!(["a"]); count]);
        }
    }
}

/// Arrow Java returned null for the values of a delta in a file.
#[test]
fn dictionaries_are_extended_and_replaced() {
    let first = dictionary_batch(&["a", "b"], &[Some(1), Some(0), None]);
    let extended = dictionary_batch(&["a", "b", "c", "d"], &[Some(3), Some(2), Some(0)]);
    let extended_again = dictionary_batch(&["a", "b", "c", "d", "e"], &[Some(4), Some(1)]);
    let deltas = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let expected = [Some("b"), Some("a"), None, Some("d"), Some("c"), Some("a"), Some("e"), Some("b")];
    let expected = expected.map(|text| json!([text]));
    let batches = [first.clone(), extended, extended_again];
    for bytes in encode_with(&first.schema(), &batches, &deltas) {
        assert_eq!(read_messages(&bytes).iter().filter(|m| m.dictionary.is_some_and(|(_, delta)| delta)).count(), 2);
        assert_rows(&bytes, &expected);
    }
    let replaced = encode_stream(&[first.clone(), dictionary_batch(&["x"], &[Some(0)]), first]);
    let expected = [Some("b"), Some("a"), None, Some("x"), Some("b"), Some("a"), None];
    assert_rows(&replaced, &expected.map(|text| json!([text])));
}

/// Readers that read a file from its start, without its footer, reach the dictionary too late.
#[test]
fn a_file_may_have_a_dictionary_after_its_batches() {
    let [_, bytes] = encode(&[dictionary_batch(&["a", "b"], &[Some(1), Some(0)])]);
    let messages = read_messages(&bytes);
    let dictionary = messages.iter().find(|m| m.kind == MessageKind::DictionaryBatch).unwrap();
    // Moves the dictionary to the old position of the footer.
    let footer = footer_position(&bytes);
    let new_position = footer.next_multiple_of(64);
    let mut file = overwrite(&bytes, block_position(&bytes, dictionary), &(new_position as i64).to_le_bytes());
    file[message_range(dictionary)].fill(0);
    let footer_bytes = file.split_off(footer);
    file.resize(new_position, 0);
    file.extend_from_slice(&bytes[message_range(dictionary)]);
    file.extend(footer_bytes);
    assert_rows(&file, &[json!(["b"]), json!(["a"])]);
}

/// The specification allows a late dictionary if earlier batches are all null; few readers do.
#[test]
fn a_stream_may_have_a_dictionary_after_a_batch_of_nulls() {
    let nulls = dictionary_batch(&["a", "b"], &[None, None]);
    let [bytes, _] = encode(&[nulls, dictionary_batch(&["a", "b"], &[Some(1), Some(0)])]);
    let messages = read_messages(&bytes);
    assert_eq!(messages[1].kind, MessageKind::DictionaryBatch);
    let reordered = [0, 2, 1].iter().map(|&i| &messages[i]).chain(&messages[3..]);
    let stream: Vec<u8> = reordered.flat_map(|message| bytes[message_range(message)].to_vec()).collect();
    assert_rows(&stream, &[json!([null]), json!([null]), json!(["b"]), json!(["a"])]);
}

/// tech.ml.dataset ignores the footer, and reads messages in their order in the file.
#[test]
fn batches_of_a_file_are_in_the_order_of_its_footer() {
    const BLOCK_LEN: usize = 24;
    let one_value = |value: i64| batch(vec![Arc::new(Int64Array::from(vec![value]))]);
    let [_, bytes] = encode(&[one_value(1), one_value(2), one_value(3)]);
    let messages = read_messages(&bytes);
    let [first, third] = [1, 3].map(|i| block_position(&bytes, &messages[i]));
    let swapped = overwrite(&bytes, first, &bytes[third..third + BLOCK_LEN]);
    let swapped = overwrite(&swapped, third, &bytes[first..first + BLOCK_LEN]);
    assert_rows(&swapped, &[json!([3]), json!([2]), json!([1])]);
    for dataset in open_both_ways(&swapped) {
        assert_eq!(dataset.unwrap().num_batches().unwrap(), 3);
    }
}

/// Arrow Java ignored wrong lengths of field nodes, and allocated 2 GiB. tech.ml.dataset read out of bounds for negative
/// offsets, and crashed (SIGSEGV) for large ones. arrow-rs panicked for offsets, lengths and blocks.
#[test]
fn invalid_numbers_in_metadata_are_errors() {
    let text: LargeStringArray = (0..1013).map(|i| (i % 7 != 0).then(|| format!("text {i}"))).collect();
    let keys = (0..1013).map(|i| (i % 5 != 0).then_some((i % 2) as i8));
    let keys = DictionaryArray::<Int8Type>::new(keys.collect(), Arc::new(StringArray::from(vec!["one", "two"])));
    for bytes in encode(&[batch(vec![Arc::new(text), Arc::new(keys)])]) {
        for message in read_messages(&bytes).iter().filter(|message| message.rows.is_some()) {
            for damage in metadata_damages(&bytes, message) {
                assert_invalid(&overwrite(&bytes, damage.position, &damage.patch), &damage.what);
            }
        }
    }
}

/// Bytes that make a valid file or stream invalid.
struct Damage {
    position: usize,
    patch: Vec<u8>,
    what: String,
}

/// Returns damages by an integer of 64 bits, one for each of `values`.
fn damages_i64(position: usize, values: &[i64], what: &str) -> Vec<Damage> {
    let damage =
        |value: &i64| Damage { position, patch: value.to_le_bytes().to_vec(), what: format!("{what} = {value}") };
    values.iter().map(damage).collect()
}

/// Returns damages by an integer of 32 bits, one for each of `values`.
fn damages_i32(position: usize, values: &[i32], what: &str) -> Vec<Damage> {
    let damage =
        |value: &i32| Damage { position, patch: value.to_le_bytes().to_vec(), what: format!("{what} = {value}") };
    values.iter().map(damage).collect()
}

/// Returns damages of every number in the metadata of a batch and, in a file, of its block in the footer.
fn metadata_damages(bytes: &[u8], message: &Message) -> Vec<Damage> {
    let mut damages = Vec::new();
    let start = message.metadata_offset as usize;
    let metadata = start..start + message.metadata_length as usize;
    let rows = message.rows.unwrap() as i64;
    for node in &message.nodes {
        let position = find_all(bytes, metadata.clone(), &encode_pair(node.length, node.null_count))[0];
        let lengths = [-1, rows - 1, rows + 1, i64::MIN, i64::MAX];
        damages.extend(damages_i64(position, &lengths, &format!("length of {}", node.field)));
        damages.extend(damages_i64(position + 8, &[-1, rows + 1, i64::MIN], &format!("nulls of {}", node.field)));
    }
    for buffer in message.buffers.iter().filter(|buffer| buffer.length > 0) {
        let position = find_all(bytes, metadata.clone(), &encode_pair(buffer.offset, buffer.length))[0];
        let name = format!("{} of {}", buffer.name, buffer.field);
        let offsets = [-1, -64, -(1 << 40), 1 << 40, i64::MAX, i64::MIN];
        damages.extend(damages_i64(position, &offsets, &format!("offset of {name}")));
        let lengths = [-1, 0, 1 << 40, i64::MAX, i64::MIN];
        damages.extend(damages_i64(position + 8, &lengths, &format!("length of {name}")));
    }
    for position in find_all(bytes, metadata, &(message.body_length as i64).to_le_bytes()) {
        damages.extend(damages_i64(position, &[-1, 1 << 40, i64::MAX], "body length"));
    }
    // The prefix is a continuation marker and the length of the metadata.
    damages.extend(damages_i32(message.offset as usize + 4, &[-1, i32::MAX], "metadata length"));
    if bytes.starts_with(b"ARROW1") {
        let position = block_position(bytes, message);
        damages.extend(damages_i64(position, &[-1, -64, i64::MAX, 1 << 40], "block offset"));
        damages.extend(damages_i32(position + 8, &[-1, 0, i32::MAX], "block length"));
    }
    damages
}

/// pyarrow crashed (SIGSEGV) for damaged offsets and views. tech.ml.dataset replaced invalid UTF-8 by U+FFFD, and
/// returned unrelated bytes of the file for negative offsets.
#[test]
fn damaged_values_are_errors_and_other_rows_are_readable() {
    for damage in value_damages() {
        let Damage { position, patch, what } = &damage.damage;
        for bytes in encode(&[batch(vec![damage.column.clone()])]) {
            let buffer = buffer_position(&first_batch(&bytes), damage.buffer);
            let damaged = overwrite(&bytes, buffer + position, patch);
            assert_invalid(&damaged, what);
            for dataset in open_both_ways(&damaged) {
                let dataset = dataset.unwrap();
                let value = |row| dataset.row(row).and_then(|row| row.get(0)?.to_json());
                assert!(value(1).is_err() || value(2).is_err() || value(3).is_err(), "{what}");
                assert!(dataset.to_record_batches().any(|batch| batch.is_err()), "{what}");
                // The run of a row is found by a search in the ends of all runs.
                if !matches!(damage.column.data_type(), DataType::RunEndEncoded(..)) {
                    assert!(value(0).is_ok(), "{what}");
                }
            }
        }
    }
}

/// A damage of a column of four rows, which doesn't affect the first.
struct ValueDamage {
    column: ArrayRef,
    buffer: usize,
    /// The position is relative to the buffer.
    damage: Damage,
}

fn value_damage(column: &(impl Array + Clone + 'static), buffer: usize, position: usize, patch: &[u8]) -> ValueDamage {
    let what = format!("{} with {patch:?} at byte {position} of buffer {buffer}", column.data_type());
    let damage = Damage { position, patch: patch.to_vec(), what };
    ValueDamage { column: Arc::new(column.clone()), buffer, damage }
}

fn value_damages() -> Vec<ValueDamage> {
    let long = |i: i32| format!("a string of more than twelve bytes {i}");
    let text: StringArray = (0..4).map(|i| Some(long(i))).collect();
    let large: LargeStringArray = (0..4).map(|i| Some(long(i))).collect();
    let views: StringViewArray = (0..4).map(|i| Some(long(i))).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..4).map(|i| Some(vec![Some(i); 2])));
    let list_views = ListViewArray::from(lists.clone());
    let dictionary = dictionary_batch(&["a", "b"], &[Some(0), Some(1), Some(0), Some(1)]).column(0).clone();
    let runs: Int32RunArray = ["a", "b", "c", "d"].into_iter().collect();
    let fields = || UnionFields::from_iter([(5, Arc::new(Field::new("int", DataType::Int32, true)))]);
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let offsets = ScalarBuffer::from(vec![0, 1, 2, 3]);
    let dense = UnionArray::try_new(fields(), vec![5; 4].into(), Some(offsets), vec![ints]).unwrap();
    vec![
        value_damage(&text, 1, 8, &(-1i32).to_le_bytes()),
        value_damage(&text, 1, 8, &i32::MIN.to_le_bytes()),
        value_damage(&text, 1, 8, &(1i32 << 30).to_le_bytes()),
        value_damage(&text, 2, 40, &[0xff]),
        value_damage(&large, 1, 16, &(-1i64).to_le_bytes()),
        value_damage(&large, 1, 16, &(-(1i64 << 40)).to_le_bytes()),
        value_damage(&large, 1, 16, &i64::MAX.to_le_bytes()),
        value_damage(&views, 1, 16, &(-1i32).to_le_bytes()),
        value_damage(&views, 1, 16, &(1i32 << 30).to_le_bytes()),
        value_damage(&views, 1, 24, &7i32.to_le_bytes()),
        value_damage(&views, 1, 24, &(-1i32).to_le_bytes()),
        value_damage(&views, 1, 28, &(1i32 << 30).to_le_bytes()),
        value_damage(&views, 1, 28, &(-1i32).to_le_bytes()),
        value_damage(&lists, 1, 8, &(-1i32).to_le_bytes()),
        value_damage(&lists, 1, 8, &(1i32 << 30).to_le_bytes()),
        value_damage(&list_views, 1, 4, &(-1i32).to_le_bytes()),
        value_damage(&list_views, 1, 4, &(1i32 << 30).to_le_bytes()),
        value_damage(&list_views, 2, 4, &(-1i32).to_le_bytes()),
        value_damage(&list_views, 2, 4, &(1i32 << 30).to_le_bytes()),
        value_damage(&dictionary, 1, 1, &[2]),
        value_damage(&dictionary, 1, 1, &[0x80]),
        value_damage(&dense, 0, 1, &[6]),
        value_damage(&dense, 0, 1, &[0xff]),
        value_damage(&dense, 1, 4, &(-1i32).to_le_bytes()),
        value_damage(&dense, 1, 4, &4i32.to_le_bytes()),
        value_damage(&runs, 1, 4, &(-1i32).to_le_bytes()),
        value_damage(&runs, 1, 12, &3i32.to_le_bytes()),
    ]
}

/// Kernels compare prefixes first, so that a wrong prefix leads to wrong results in other libraries.
#[test]
fn views_with_wrong_prefixes_or_padding_are_errors() {
    let views = StringViewArray::from(vec!["a string of more than twelve bytes", "short"]);
    for bytes in encode(&[batch(vec![Arc::new(views)])]) {
        let message = first_batch(&bytes);
        let views = buffer_position(&message, 1);
        assert_invalid(&overwrite(&bytes, views + 4, b"b"), "prefix");
        assert_invalid(&overwrite(&bytes, views + 31, b"b"), "padding of an inlined value");
    }
}

/// Encodes the schema of `big_endian_values_are_swapped`, as arrow-rs writes only little-endian schemas.
fn big_endian_schema<'a>(b: &mut FlatBufferBuilder<'a>) -> WIPOffset<ipc::Schema<'a>> {
    let date = ipc::Date::create(b, &ipc::DateArgs { unit: ipc::DateUnit::DAY }).as_union_value();
    let timestamp = ipc::TimestampArgs { unit: ipc::TimeUnit::MICROSECOND, timezone: None };
    let timestamp = ipc::Timestamp::create(b, &timestamp).as_union_value();
    let mut interval = |unit| ipc::Interval::create(b, &ipc::IntervalArgs { unit }).as_union_value();
    let month_day_nano = interval(ipc::IntervalUnit::MONTH_DAY_NANO);
    let day_time = interval(ipc::IntervalUnit::DAY_TIME);
    let decimal = ipc::DecimalArgs { precision: 60, scale: 2, bitWidth: 256 };
    let decimal = ipc::Decimal::create(b, &decimal).as_union_value();
    let text = ipc::Utf8::create(b, &ipc::Utf8Args {}).as_union_value();
    let types = [
        (ipc::Type::Date, date),
        (ipc::Type::Timestamp, timestamp),
        (ipc::Type::Interval, month_day_nano),
        (ipc::Type::Interval, day_time),
        (ipc::Type::Decimal, decimal),
        (ipc::Type::Utf8, text),
    ];
    let fields = types.map(|(type_type, type_)| {
        let name = Some(b.create_string("x"));
        let args = ipc::FieldArgs { name, nullable: true, type_type, type_: Some(type_), ..ipc::FieldArgs::default() };
        ipc::Field::create(b, &args)
    });
    let fields = Some(b.create_vector(&fields));
    let args = ipc::SchemaArgs { endianness: ipc::Endianness::Big, fields, ..ipc::SchemaArgs::default() };
    ipc::Schema::create(b, &args)
}

/// Returns the message of the big-endian schema, padded to 8 bytes.
fn big_endian_schema_message() -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    let header = Some(big_endian_schema(&mut b).as_union_value());
    let header_type = ipc::MessageHeader::Schema;
    let args = ipc::MessageArgs { version: MetadataVersion::V5, header_type, header, ..ipc::MessageArgs::default() };
    let root = ipc::Message::create(&mut b, &args);
    b.finish(root, None);
    let mut metadata = b.finished_data().to_vec();
    metadata.resize(metadata.len().next_multiple_of(8), 0);
    [&[0xff; 4][..], &(metadata.len() as i32).to_le_bytes(), &metadata].concat()
}

/// Returns the footer of a big-endian file with one batch, its length and the magic.
fn big_endian_footer(block: ipc::Block) -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    let schema = Some(big_endian_schema(&mut b));
    let batches = Some(b.create_vector(&[block]));
    let args = ipc::FooterArgs { schema, recordBatches: batches, ..ipc::FooterArgs::default() };
    let root = ipc::Footer::create(&mut b, &args);
    b.finish(root, None);
    [b.finished_data(), &(b.finished_data().len() as i32).to_le_bytes(), b"ARROW1"].concat()
}

/// arrow-rs reads big-endian dates and intervals as little-endian. Intervals mix words of 4 and 8 bytes.
#[test]
fn big_endian_values_are_swapped() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Date32Array::from(vec![1, -2])),
        Arc::new(TimestampMicrosecondArray::from(vec![3, -4])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, -3); 2])),
        Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, -2); 2])),
        Arc::new(Decimal256Array::from(vec![i256::from(5), i256::from(-6)]).with_precision_and_scale(60, 2).unwrap()),
        Arc::new(StringArray::from(vec!["né", "x"])),
    ];
    let [little, _] = encode(&[batch(columns)]);
    let expected = read_rows(&open_in_memory(&little)).unwrap();
    let message = first_batch(&little);
    let mut swapped = little.clone();
    // The sizes of the words in each column's values or offsets.
    let word_sizes: [&[usize]; 6] = [&[4; 2], &[8; 2], &[4, 4, 8, 4, 4, 8], &[4; 4], &[32; 2], &[4; 3]];
    for (column, sizes) in word_sizes.into_iter().enumerate() {
        // The first buffer of each column is its bitmap.
        let mut position = buffer_position(&message, 2 * column + 1);
        for size in sizes {
            swapped[position..position + size].reverse();
            position += size;
        }
    }
    let schema = big_endian_schema_message();
    let batch = &swapped[message_range(&message)];
    let stream = [&schema[..], batch].concat();
    assert_rows(&stream, &expected);

    let magic = b"ARROW1\0\0";
    let end_of_stream = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let offset = (magic.len() + schema.len()) as i64;
    let head_len = (message.body_offset - message.offset) as i32;
    let footer = big_endian_footer(ipc::Block::new(offset, head_len, message.body_length as i64));
    let file = [&magic[..], &schema, batch, &end_of_stream, &footer].concat();
    assert_rows(&file, &expected);
}

/// arrow-rs copies misaligned buffers. Strict mode fails if a copy would be needed.
#[test]
fn misaligned_buffers_are_read_in_place() {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from(vec![0.5, 1.5])),
        Arc::new(Decimal256Array::from(vec![i256::from(1), i256::MINUS_ONE])),
        Arc::new(StringArray::from(vec!["né", ""])),
        Arc::new(StringViewArray::from(vec!["a string of more than twelve bytes", ""])),
    ];
    let [stream, _] = encode(&[batch(columns)]);
    let expected = read_rows(&open_in_memory(&stream)).unwrap();
    for shift in 1..8 {
        let shifted = [vec![0; shift], stream.clone()].concat();
        let bytes = Bytes::from(Buffer::from_vec(shifted).slice(shift));
        let size = bytes.len() as u64;
        let dataset = OpenOptions::new().strict(true).bytes(bytes).unwrap();
        assert_eq!(read_rows(&dataset).unwrap(), expected);
        assert_eq!(dataset.footprint().copied, size, "the bytes of the stream, and nothing more");
    }
}

/// arrow-rs aborts for a large declared size of an lz4 buffer, and allocates 2 GiB for a file of 30 bytes, like Arrow
/// Java.
#[test]
fn declared_sizes_are_checked_before_memory_is_allocated() {
    let start = thread_time();
    let numbers = batch(vec![Arc::new(Int64Array::from(vec![7; 10_000]))]);
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        for bytes in encode_with(&numbers.schema(), std::slice::from_ref(&numbers), &options) {
            let message = first_batch(&bytes);
            // A compressed buffer begins with its decompressed size.
            let position = buffer_position(&message, 1);
            assert_eq!(bytes[position..position + 8], 80_000i64.to_le_bytes());
            for declared in [-2, 0, 79_999, 80_001, 1 << 40, i64::MAX, i64::MIN] {
                assert_invalid(&overwrite(&bytes, position, &declared.to_le_bytes()), &format!("{declared} bytes"));
            }
        }
    }
    for len in [-1, 1, i32::MAX, i32::MAX - 20] {
        let file = [&b"ARROW1\0\0"[..], &[0; 12], &len.to_le_bytes(), b"ARROW1"].concat();
        assert_invalid(&file, "a file of 30 bytes");
        assert_invalid(&[&[0xff; 4][..], &len.to_le_bytes(), &[0; 22]].concat(), "a stream of 30 bytes");
        assert_invalid(&[&len.to_le_bytes()[..], &[0; 26]].concat(), "a stream of 30 bytes without continuation");
    }
    assert!(thread_time() - start < Duration::from_secs(5));
}

/// Returns columns that tech.ml.dataset or Polars rejects, with their three values.
fn rarely_supported_columns() -> Vec<(ArrayRef, Json)> {
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let int_field = Arc::new(Field::new("int", DataType::Int32, true));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let text_field = Arc::new(Field::new("text", DataType::Utf8, true));
    let union_fields = || UnionFields::from_iter([(5, int_field.clone()), (9, text_field.clone())]);
    let type_ids = || ScalarBuffer::from(vec![9i8, 5, 9]);
    let lists = || [Some(vec![Some(1), None]), None, Some(vec![])];
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    maps.keys().append_value("k");
    maps.values().append_value(1);
    for is_valid in [true, false, true] {
        maps.append(is_valid).unwrap();
    }
    let runs: RunArray<Int16Type> = [Some("r"), Some("r"), None].into_iter().collect();
    let unsigned_keys = dictionary::<UInt32Type>(&texts).slice(0, 3);
    let list_view = ListViewArray::from(ListArray::from_iter_primitive::<Int32Type, _, _>(lists()));
    let half_floats = [0.5, -2.0, 65504.0].map(half::f16::from_f32).to_vec();
    let dense_offsets = Some(ScalarBuffer::from(vec![2, 0, 1]));
    let children = || vec![ints.clone(), texts.clone()];
    vec![
        (
            Arc::new(StructArray::from(vec![(int_field.clone(), ints.clone()), (text_field.clone(), texts.clone())])),
            json!([{"int": 1, "text": "a"}, {"int": 2, "text": "b"}, {"int": 3, "text": "c"}]),
        ),
        (Arc::new(maps.finish()), json!([{"k": 1}, null, {}])),
        (
            Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
                [Some([Some(1), None]), None, Some([None, Some(2)])].map(|list| list.map(Vec::from)),
                2,
            )),
            json!([[1, null], null, [null, 2]]),
        ),
        (Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(lists())), json!([[1, null], null, []])),
        (Arc::new(list_view), json!([[1, null], null, []])),
        (Arc::new(LargeBinaryArray::from(vec![Some(&b"\x01\xff"[..]), None, Some(b"")])), json!(["01ff", null, ""])),
        (Arc::new(UnionArray::try_new(union_fields(), type_ids(), None, children()).unwrap()), json!(["a", 2, "c"])),
        (
            Arc::new(UnionArray::try_new(union_fields(), type_ids(), dense_offsets, children()).unwrap()),
            json!(["c", 1, "b"]),
        ),
        (Arc::new(runs), json!(["r", "r", null])),
        (
            Arc::new(StringViewArray::from(vec![Some("in the view"), None, Some("in a buffer of its own")])),
            json!(["in the view", null, "in a buffer of its own"]),
        ),
        (
            Arc::new(DurationNanosecondArray::from(vec![1, 60_000_000_000, 0])),
            json!(["PT0.000000001S", "PT1M", "PT0S"]),
        ),
        (Arc::new(Float16Array::from(half_floats)), json!([0.5, -2.0, 65504.0])),
        (
            Arc::new(TimestampSecondArray::from(vec![0, -1, 86_400])),
            json!(["1970-01-01T00:00:00", "1969-12-31T23:59:59", "1970-01-02T00:00:00"]),
        ),
        (Arc::new(Time32SecondArray::from(vec![0, 1, 86_399])), json!(["00:00:00", "00:00:01", "23:59:59"])),
        (unsigned_keys, json!(["c", "a", null])),
        (Arc::new(IntervalYearMonthArray::from(vec![1, 12, -1])), json!(["P1M", "P1Y", "P-1M"])),
        (
            Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, 2000); 3])),
            json!(["P1DT2S", "P1DT2S", "P1DT2S"]),
        ),
        (
            Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, 3_000_000_000); 3])),
            json!(["P1M2DT3S", "P1M2DT3S", "P1M2DT3S"]),
        ),
        (
            Arc::new(
                Decimal256Array::from(vec![i256::from(1), i256::from(-250), i256::ZERO])
                    .with_precision_and_scale(60, 2)
                    .unwrap(),
            ),
            json!(["0.01", "-2.50", "0.00"]),
        ),
        (Arc::new(NullArray::new(3)), json!([null, null, null])),
    ]
}

/// tech.ml.dataset or Polars rejects each of these columns, or panics; also duplicate names, bodies compressed by zstd,
/// and the framing before version 0.15.
#[test]
fn all_types_codecs_and_framings_are_supported() {
    let (columns, values): (Vec<_>, Vec<_>) = rarely_supported_columns().into_iter().unzip();
    let expected: Vec<Json> = (0..3).map(|row| values.iter().map(|column| column[row].clone()).collect()).collect();
    let batch = batch(columns);
    let legacy_framing = IpcWriteOptions::try_new(8, true, MetadataVersion::V4).unwrap();
    let mut options = vec![IpcWriteOptions::default(), legacy_framing];
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        options.push(IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap());
    }
    for options in options {
        for bytes in encode_with(&batch.schema(), &[batch.slice(0, 0), batch.clone(), batch.slice(0, 0)], &options) {
            assert_rows(&bytes, &expected);
            for dataset in open_both_ways(&bytes) {
                assert_eq!(dataset.unwrap().num_batches().unwrap(), 3);
            }
        }
    }
}

/// Other readers reject files without batches, batches without rows or rows without columns, or count 0 rows.
#[test]
fn batches_rows_and_columns_are_optional() {
    let schema = text_schema();
    for bytes in encode_with(&schema, &[], &IpcWriteOptions::default()) {
        assert_rows(&bytes, &[]);
    }
    let [stream, _] = encode_with(&schema, &[], &IpcWriteOptions::default());
    // Without the end-of-stream marker.
    assert_rows(&stream[..stream.len() - 8], &[]);
    let empty = RecordBatch::new_empty(schema.clone());
    for bytes in encode(&[empty.clone(), empty]) {
        assert_rows(&bytes, &[]);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let no_columns = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    for bytes in encode(&[no_columns]) {
        assert_rows(&bytes, &[json!([]), json!([]), json!([])]);
    }
}

/// Old writers leave the offsets of an empty column empty, but some readers require one offset.
#[test]
fn empty_columns_may_lack_offsets() {
    for bytes in encode(&[RecordBatch::new_empty(text_schema())]) {
        let message = first_batch(&bytes);
        let offsets = &message.buffers[1];
        assert!(offsets.length > 0, "arrow-rs writes one offset");
        let metadata = message.metadata_offset as usize..message.body_offset as usize;
        for position in find_all(&bytes, metadata, &encode_pair(offsets.offset, offsets.length)) {
            // Sets the length to zero.
            assert_rows(&overwrite(&bytes, position + 8, &[0; 8]), &[]);
        }
    }
}

/// pyarrow can't convert such rows to Python objects.
#[test]
fn dates_and_times_may_have_any_value() {
    let extremes = batch(vec![
        Arc::new(Date32Array::from(vec![i32::MIN, i32::MAX])),
        Arc::new(TimestampSecondArray::from(vec![i64::MIN, i64::MAX])),
    ]);
    for dataset in encode(&[extremes]).iter().flat_map(|bytes| open_both_ways(bytes)) {
        let dataset = dataset.unwrap();
        assert_eq!(read_rows(&dataset).unwrap().len(), 2);
        let row = dataset.row(1).unwrap();
        assert!(matches!(row.get(0), Ok(Value::Date(days)) if days == i64::from(i32::MAX)));
        assert!(matches!(row.get(1), Ok(Value::Timestamp(i64::MAX, ..))));
    }
}
