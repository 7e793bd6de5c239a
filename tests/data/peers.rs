//! What other readers of Arrow got wrong, crashed on or refused, each with the right answer, in both forms (stream and
//! file), from memory and mapped. Each test opens with its story.

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

/// The batches as arrow-rs writes them: a stream and a file.
fn forms_with(schema: &Schema, batches: &[RecordBatch], options: &IpcWriteOptions) -> [Vec<u8>; 2] {
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), schema, options.clone()).unwrap();
    let mut file = FileWriter::try_new_with_options(Vec::new(), schema, options.clone()).unwrap();
    for batch in batches {
        stream.write(batch).unwrap();
        file.write(batch).unwrap();
    }
    [stream.into_inner().unwrap(), file.into_inner().unwrap()]
}

fn forms(batches: &[RecordBatch]) -> [Vec<u8>; 2] {
    forms_with(&batches[0].schema(), batches, &IpcWriteOptions::default())
}

fn stream_with(batches: &[RecordBatch], options: &IpcWriteOptions) -> Vec<u8> {
    let mut stream = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options.clone()).unwrap();
    batches.iter().for_each(|batch| stream.write(batch).unwrap());
    stream.into_inner().unwrap()
}

/// The bytes opened from memory and as a mapped file.
fn ways(bytes: &[u8]) -> [Result<Dataset, Error>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input.arrow");
    std::fs::write(&path, bytes).unwrap();
    [OpenOptions::new().bytes(Bytes::from(bytes.to_vec())), open(path)]
}

/// All rows, values checked first.
fn rows(dataset: &Dataset) -> Result<Vec<Json>, Error> {
    dataset.validate(|_, _| ())?;
    let row = |row: arrowwood::Row<'_>| row.iter().map(|(_, value)| value?.to_json()).collect::<Result<Json, Error>>();
    let rows: Vec<Json> = dataset.rows().map(|found| row(found?)).collect::<Result<_, _>>()?;
    assert_eq!(rows.len() as u64, dataset.len()?);
    dataset.to_record_batches().try_for_each(|batch| batch.map(drop))?;
    Ok(rows)
}

#[track_caller]
fn expect(bytes: &[u8], expected: &[Json]) {
    for dataset in ways(bytes) {
        assert_eq!(rows(&dataset.unwrap()).unwrap(), expected);
    }
}

#[track_caller]
fn expect_error(bytes: &[u8], what: &str) {
    for dataset in ways(bytes) {
        let found = dataset.and_then(|dataset| rows(&dataset));
        assert!(found.is_err(), "{what}: {found:?}");
    }
}

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<_> = columns.iter().map(|column| Field::new("x", column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn symbols(values: &[&str], keys: &[Option<i8>]) -> RecordBatch {
    let values = Arc::new(StringArray::from(values.to_vec()));
    batch(vec![Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(keys.to_vec()), values))])
}

fn symbol_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Utf8, true)]))
}

fn messages(bytes: &[u8]) -> Vec<Message> {
    OpenOptions::new().bytes(Bytes::from(bytes.to_vec())).unwrap().messages().unwrap()
}

/// The first record batch.
fn batch_message(bytes: &[u8]) -> Message {
    messages(bytes).into_iter().find(|message| message.kind == MessageKind::RecordBatch).unwrap()
}

/// Where a buffer of a message begins.
fn body(message: &Message, buffer: usize) -> usize {
    (message.body_offset as i64 + message.buffers[buffer].offset) as usize
}

/// Where a message begins and ends.
fn span(message: &Message) -> std::ops::Range<usize> {
    message.offset as usize..(message.body_offset + message.body_length) as usize
}

fn put(bytes: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// Every place in `range` where `bytes` has `wanted`.
fn places(bytes: &[u8], range: std::ops::Range<usize>, wanted: &[u8]) -> Vec<usize> {
    range.filter(|&at| bytes[at..].starts_with(wanted)).collect()
}

fn pair(a: i64, b: i64) -> Vec<u8> {
    [a.to_le_bytes(), b.to_le_bytes()].concat()
}

/// Where the footer of a file lists `message`: by its offset and the length of its prefix and metadata.
fn block(bytes: &[u8], message: &Message) -> usize {
    let head = (message.body_offset - message.offset) as i32;
    let block = [&(message.offset as i64).to_le_bytes()[..], &head.to_le_bytes()].concat();
    places(bytes, footer(bytes)..bytes.len(), &block)[0]
}

/// The first byte of a file's footer.
fn footer(bytes: &[u8]) -> usize {
    let tail = bytes.len() - 10;
    tail - i32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize
}

fn dictionary<K: ArrowDictionaryKeyType>(values: &ArrayRef) -> ArrayRef {
    let mut keys = PrimitiveBuilder::<K>::new();
    for key in [Some(2), Some(0), None, Some(1), Some(2)] {
        keys.append_option(key.and_then(K::Native::from_usize));
    }
    Arc::new(DictionaryArray::<K>::new(keys.finish(), values.clone()))
}

#[test]
fn dictionaries_of_any_values_by_any_keys() {
    // tech.ml.dataset gave indices or zeros for values that were no strings, and read large offsets as 32 bits.
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
        let plain = rows(&Dataset::try_from(vec![batch(vec![values.clone()])]).unwrap()).unwrap();
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
        let row = |i: Option<usize>| Json::Array(vec![i.map_or(Json::Null, |i| plain[i][0].clone()); columns.len()]);
        let expected = [Some(2), Some(0), None, Some(1), Some(2)].map(row);
        forms(&[batch(columns.clone())]).iter().for_each(|bytes| expect(bytes, &expected));
    }
}

#[test]
fn rows_are_counted_by_the_batch_not_by_a_buffer() {
    // tech.ml.dataset took the padded length of a dictionary column for its number of rows.
    for count in 0..20 {
        let batch = symbols(&["a"], &vec![Some(0); count]);
        for bytes in forms(&[batch]) {
            expect(&bytes, &vec![json!(["a"]); count]);
        }
    }
}

#[test]
fn deltas_and_replacements() {
    // Arrow Java gave null for the values of a delta in a file.
    let first = symbols(&["a", "b"], &[Some(1), Some(0), None]);
    let more = symbols(&["a", "b", "c", "d"], &[Some(3), Some(2), Some(0)]);
    let again = symbols(&["a", "b", "c", "d", "e"], &[Some(4), Some(1)]);
    let delta = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let expected = ["b", "a", "", "d", "c", "a", "e", "b"].map(|v| json!([if v.is_empty() { None } else { Some(v) }]));
    let batches = [first.clone(), more, again];
    for bytes in forms_with(&first.schema(), &batches, &delta) {
        assert_eq!(messages(&bytes).iter().filter(|m| m.dictionary.is_some_and(|(_, delta)| delta)).count(), 2);
        expect(&bytes, &expected);
    }
    let replaced = stream_with(&[first.clone(), symbols(&["x"], &[Some(0)]), first], &IpcWriteOptions::default());
    expect(&replaced, &["b", "a", "", "x", "b", "a", ""].map(|v| json!([if v.is_empty() { None } else { Some(v) }])));
}

#[test]
fn a_dictionary_behind_the_batches_of_a_file() {
    // Readers that walk a file from its begin, and not from its footer, don't know this dictionary in time.
    let [_, bytes] = forms(&[symbols(&["a", "b"], &[Some(1), Some(0)])]);
    let messages = messages(&bytes);
    let dictionary = messages.iter().find(|m| m.kind == MessageKind::DictionaryBatch).unwrap();
    let (start, moved) = (footer(&bytes), bytes[span(dictionary)].to_vec());
    let at = start.next_multiple_of(64);
    let mut file = put(&bytes, block(&bytes, dictionary), &(at as i64).to_le_bytes());
    file[span(dictionary)].fill(0);
    let behind = file.split_off(start);
    file.resize(at, 0);
    file.extend(moved.into_iter().chain(behind));
    expect(&file, &[json!(["b"]), json!(["a"])]);
}

#[test]
fn a_dictionary_behind_a_batch_of_nulls() {
    // The specification lets a stream send a dictionary late where only nulls came before; few readers do.
    let nulls = symbols(&["a", "b"], &[None, None]);
    let [bytes, _] = forms(&[nulls, symbols(&["a", "b"], &[Some(1), Some(0)])]);
    let messages = messages(&bytes);
    assert_eq!(messages[1].kind, MessageKind::DictionaryBatch);
    let order = [0, 2, 1].iter().map(|&i| &messages[i]).chain(&messages[3..]);
    let stream: Vec<u8> = order.flat_map(|message| bytes[span(message)].to_vec()).collect();
    expect(&stream, &[json!([null]), json!([null]), json!(["b"]), json!(["a"])]);
}

#[test]
fn the_footer_says_which_batches_a_file_has() {
    // tech.ml.dataset never reads the footer and takes messages as they come.
    let of = |value: i64| batch(vec![Arc::new(Int64Array::from(vec![value]))]);
    let [_, bytes] = forms(&[of(1), of(2), of(3)]);
    let messages = messages(&bytes);
    let [a, c] = [1, 3].map(|i| block(&bytes, &messages[i]));
    let swapped = put(&put(&bytes, a, &bytes[c..c + 24]), c, &bytes[a..a + 24]);
    expect(&swapped, &[json!([3]), json!([2]), json!([1])]);
    for dataset in ways(&swapped) {
        assert_eq!(dataset.unwrap().num_batches().unwrap(), 3);
    }
}

#[test]
fn numbers_of_the_metadata_that_do_not_fit_are_errors() {
    // Arrow Java ignored wrong lengths of field nodes; tech.ml.dataset read outside of buffers for negative offsets
    // and died by SIGSEGV of far ones; arrow-rs panicked on offsets, lengths and blocks; Java asked for 2 GiB.
    let text: LargeStringArray = (0..1013).map(|i| (i % 7 != 0).then(|| format!("text {i}"))).collect();
    let keys = (0..1013).map(|i| (i % 5 != 0).then_some((i % 2) as i8));
    let keys = DictionaryArray::<Int8Type>::new(keys.collect(), Arc::new(StringArray::from(vec!["one", "two"])));
    for bytes in forms(&[batch(vec![Arc::new(text), Arc::new(keys)])]) {
        for message in messages(&bytes).iter().filter(|message| message.rows.is_some()) {
            for (at, new, what) in damages(&bytes, message) {
                expect_error(&put(&bytes, at, &new), &what);
            }
        }
    }
}

/// Places, bytes and words for everything that can be wrong with the numbers of a batch.
fn damages(bytes: &[u8], message: &Message) -> Vec<(usize, Vec<u8>, String)> {
    let mut damages = Vec::new();
    let start = message.metadata_offset as usize;
    let metadata = start..start + message.metadata_length as usize;
    let mut number = |at: usize, values: &[i64], what: &str| {
        let what = |value| format!("{what} = {value}");
        damages.extend(values.iter().map(|&value| (at, value.to_le_bytes().to_vec(), what(value))));
    };
    let rows = message.rows.unwrap() as i64;
    for node in &message.nodes {
        let at = places(bytes, metadata.clone(), &pair(node.length, node.null_count))[0];
        number(at, &[-1, rows - 1, rows + 1, i64::MIN, i64::MAX], &format!("length of {}", node.field));
        number(at + 8, &[-1, rows + 1, i64::MIN], &format!("nulls of {}", node.field));
    }
    for buffer in message.buffers.iter().filter(|buffer| buffer.length > 0) {
        let at = places(bytes, metadata.clone(), &pair(buffer.offset, buffer.length))[0];
        let what = format!("{} of {}", buffer.name, buffer.field);
        number(at, &[-1, -64, -(1 << 40), 1 << 40, i64::MAX, i64::MIN], &format!("offset of {what}"));
        number(at + 8, &[-1, 0, 1 << 40, i64::MAX, i64::MIN], &format!("length of {what}"));
    }
    for at in places(bytes, metadata.clone(), &(message.body_length as i64).to_le_bytes()) {
        number(at, &[-1, 1 << 40, i64::MAX], "body length");
    }
    let prefix = message.offset as usize + 4;
    damages.extend([-1, i32::MAX].map(|n: i32| (prefix, n.to_le_bytes().to_vec(), format!("metadata length {n}"))));
    if bytes.starts_with(b"ARROW1") {
        let block = block(bytes, message);
        let offsets = [-1i64, -64, i64::MAX, 1 << 40].map(|n| (block, n.to_le_bytes().to_vec(), format!("block {n}")));
        let lengths = [-1i32, 0, i32::MAX].map(|n| (block + 8, n.to_le_bytes().to_vec(), format!("block length {n}")));
        damages.extend(offsets.into_iter().chain(lengths));
    }
    damages
}

#[test]
fn a_damaged_value_is_an_error_and_leaves_its_neighbours() {
    // pyarrow died by SIGSEGV of mutated offsets and views, tech.ml.dataset made U+FFFD of wrong UTF-8 and a string
    // of any bytes of the file from a negative offset.
    let long = |i: i32| format!("a string of more than twelve bytes {i}");
    let text: StringArray = (0..4).map(|i| Some(long(i))).collect();
    let large: LargeStringArray = (0..4).map(|i| Some(long(i))).collect();
    let views: StringViewArray = (0..4).map(|i| Some(long(i))).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..4).map(|i| Some(vec![Some(i); 2])));
    let list_views = ListViewArray::from(lists.clone());
    let keys = symbols(&["a", "b"], &[Some(0), Some(1), Some(0), Some(1)]).column(0).clone();
    let runs: Int32RunArray = ["a", "b", "c", "d"].into_iter().collect();
    let fields = || UnionFields::from_iter([(5, Arc::new(Field::new("int", DataType::Int32, true)))]);
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let offsets = ScalarBuffer::from(vec![0, 1, 2, 3]);
    let dense = UnionArray::try_new(fields(), vec![5; 4].into(), Some(offsets), vec![ints]).unwrap();
    let i32s = |n: i32| n.to_le_bytes().to_vec();
    let i64s = |n: i64| n.to_le_bytes().to_vec();
    // The column, the number of the buffer, the byte in it, and what is put there: row 1 or 2 is the damaged one.
    let damages: Vec<(ArrayRef, usize, usize, Vec<u8>)> = vec![
        (Arc::new(text.clone()), 1, 8, i32s(-1)),
        (Arc::new(text.clone()), 1, 8, i32s(i32::MIN)),
        (Arc::new(text.clone()), 1, 8, i32s(1 << 30)),
        (Arc::new(text), 2, 40, vec![0xff]),
        (Arc::new(large.clone()), 1, 16, i64s(-1)),
        (Arc::new(large.clone()), 1, 16, i64s(-(1 << 40))),
        (Arc::new(large), 1, 16, i64s(i64::MAX)),
        (Arc::new(views.clone()), 1, 16, i32s(-1)),
        (Arc::new(views.clone()), 1, 16, i32s(1 << 30)),
        (Arc::new(views.clone()), 1, 24, i32s(7)),
        (Arc::new(views.clone()), 1, 24, i32s(-1)),
        (Arc::new(views.clone()), 1, 28, i32s(1 << 30)),
        (Arc::new(views), 1, 28, i32s(-1)),
        (Arc::new(lists.clone()), 1, 8, i32s(-1)),
        (Arc::new(lists), 1, 8, i32s(1 << 30)),
        (Arc::new(list_views.clone()), 1, 4, i32s(-1)),
        (Arc::new(list_views.clone()), 1, 4, i32s(1 << 30)),
        (Arc::new(list_views.clone()), 2, 4, i32s(-1)),
        (Arc::new(list_views), 2, 4, i32s(1 << 30)),
        (keys.clone(), 1, 1, vec![2]),
        (keys, 1, 1, vec![0x80]),
        (Arc::new(dense.clone()), 0, 1, vec![6]),
        (Arc::new(dense.clone()), 0, 1, vec![0xff]),
        (Arc::new(dense.clone()), 1, 4, i32s(-1)),
        (Arc::new(dense), 1, 4, i32s(4)),
        (Arc::new(runs.clone()), 1, 4, i32s(-1)),
        (Arc::new(runs), 1, 12, i32s(3)),
    ];
    for (column, buffer, byte, new) in damages {
        let what = format!("{} with {new:?} at byte {byte} of buffer {buffer}", column.data_type());
        for bytes in forms(&[batch(vec![column.clone()])]) {
            let message = batch_message(&bytes);
            let at = body(&message, buffer) + byte;
            let damaged = put(&bytes, at, &new);
            expect_error(&damaged, &what);
            for dataset in ways(&damaged) {
                let dataset = dataset.unwrap();
                let value = |row| dataset.row(row).and_then(|row| row.get(0)?.to_json());
                assert!(value(1).is_err() || value(2).is_err() || value(3).is_err(), "{what}");
                assert!(dataset.to_record_batches().any(|batch| batch.is_err()), "{what}");
                if !matches!(column.data_type(), DataType::RunEndEncoded(..)) {
                    assert!(value(0).is_ok(), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_view_with_another_prefix_than_its_value_is_an_error() {
    // Kernels compare prefixes first, so a wrong one gives wrong answers in whoever takes the array over.
    let views = StringViewArray::from(vec!["a string of more than twelve bytes", "short"]);
    for bytes in forms(&[batch(vec![Arc::new(views)])]) {
        let message = batch_message(&bytes);
        let views = body(&message, 1);
        expect_error(&put(&bytes, views + 4, b"b"), "prefix");
        expect_error(&put(&bytes, views + 31, b"b"), "padding of an inlined value");
    }
}

/// The schema of the columns in `big_endian_values_are_swapped`, which arrow-rs writes as little-endian only.
fn big_endian_schema<'a>(b: &mut FlatBufferBuilder<'a>) -> WIPOffset<ipc::Schema<'a>> {
    let date = ipc::Date::create(b, &ipc::DateArgs { unit: ipc::DateUnit::DAY }).as_union_value();
    let timestamp = ipc::TimestampArgs { unit: ipc::TimeUnit::MICROSECOND, timezone: None };
    let timestamp = ipc::Timestamp::create(b, &timestamp).as_union_value();
    let mut interval = |unit| ipc::Interval::create(b, &ipc::IntervalArgs { unit }).as_union_value();
    let months = interval(ipc::IntervalUnit::MONTH_DAY_NANO);
    let days = interval(ipc::IntervalUnit::DAY_TIME);
    let decimal = ipc::DecimalArgs { precision: 60, scale: 2, bitWidth: 256 };
    let decimal = ipc::Decimal::create(b, &decimal).as_union_value();
    let text = ipc::Utf8::create(b, &ipc::Utf8Args {}).as_union_value();
    let types = [
        (ipc::Type::Date, date),
        (ipc::Type::Timestamp, timestamp),
        (ipc::Type::Interval, months),
        (ipc::Type::Interval, days),
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

/// The big-endian schema as a message, padded to 8 bytes.
fn big_endian_message() -> Vec<u8> {
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

fn big_endian_footer(block: ipc::Block) -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    let schema = Some(big_endian_schema(&mut b));
    let batches = Some(b.create_vector(&[block]));
    let args = ipc::FooterArgs { schema, recordBatches: batches, ..ipc::FooterArgs::default() };
    let root = ipc::Footer::create(&mut b, &args);
    b.finish(root, None);
    [b.finished_data(), &(b.finished_data().len() as i32).to_le_bytes(), b"ARROW1"].concat()
}

#[test]
fn big_endian_values_are_swapped() {
    // arrow-rs takes big-endian dates and intervals for little-endian ones; intervals mix words of 4 and 8 bytes.
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Date32Array::from(vec![1, -2])),
        Arc::new(TimestampMicrosecondArray::from(vec![3, -4])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, -3); 2])),
        Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, -2); 2])),
        Arc::new(Decimal256Array::from(vec![i256::from(5), i256::from(-6)]).with_precision_and_scale(60, 2).unwrap()),
        Arc::new(StringArray::from(vec!["né", "x"])),
    ];
    let [little, _] = forms(&[batch(columns)]);
    let expected = rows(&OpenOptions::new().bytes(Bytes::from(little.clone())).unwrap()).unwrap();
    let message = batch_message(&little);
    let mut swapped = little.clone();
    let words: [&[usize]; 6] = [&[4; 2], &[8; 2], &[4, 4, 8, 4, 4, 8], &[4; 4], &[32; 2], &[4; 3]];
    for (column, words) in words.into_iter().enumerate() {
        // A column has a bitmap and its values, or offsets.
        let mut at = body(&message, 2 * column + 1);
        for word in words {
            swapped[at..at + word].reverse();
            at += word;
        }
    }
    let (schema, data) = (big_endian_message(), &swapped[span(&message)]);
    expect(&[&schema[..], data].concat(), &expected);
    let offset = 8 + schema.len() as i64;
    let head = (message.body_offset - message.offset) as i32;
    let footer = big_endian_footer(ipc::Block::new(offset, head, message.body_length as i64));
    expect(&[&b"ARROW1\0\0"[..], &schema, data, &[0xff; 4], &[0; 4], &footer].concat(), &expected);
}

#[test]
fn misaligned_buffers_are_read_in_place() {
    // arrow-rs copies every misaligned buffer without a word; here nothing needs a copy, not even in strict mode.
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from(vec![0.5, 1.5])),
        Arc::new(Decimal256Array::from(vec![i256::from(1), i256::MINUS_ONE])),
        Arc::new(StringArray::from(vec!["né", ""])),
        Arc::new(StringViewArray::from(vec!["a string of more than twelve bytes", ""])),
    ];
    let [stream, _] = forms(&[batch(columns)]);
    let expected = rows(&OpenOptions::new().bytes(Bytes::from(stream.clone())).unwrap()).unwrap();
    for shift in 1..8 {
        let shifted = [vec![0; shift], stream.clone()].concat();
        let bytes = Bytes::from(Buffer::from_vec(shifted).slice(shift));
        let size = bytes.len() as u64;
        let dataset = OpenOptions::new().strict(true).bytes(bytes).unwrap();
        assert_eq!(rows(&dataset).unwrap(), expected);
        assert_eq!(dataset.footprint().copied, size, "what was given in memory, and nothing more");
    }
}

#[test]
fn memory_is_for_what_is_there_not_for_what_is_announced() {
    // arrow-rs aborts by the declared size of an lz4 buffer and asks 2 GiB for a file of 30 bytes; Java likewise.
    let begin = thread_time();
    let big = batch(vec![Arc::new(Int64Array::from(vec![7; 10_000]))]);
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        for bytes in forms_with(&big.schema(), std::slice::from_ref(&big), &options) {
            let message = batch_message(&bytes);
            let at = body(&message, 1);
            assert_eq!(bytes[at..at + 8], 80_000i64.to_le_bytes());
            for declared in [-2, 0, 79_999, 80_001, 1 << 40, i64::MAX, i64::MIN] {
                expect_error(&put(&bytes, at, &declared.to_le_bytes()), &format!("{declared} bytes"));
            }
        }
    }
    for len in [-1, 1, i32::MAX, i32::MAX - 20] {
        let file = [&b"ARROW1\0\0"[..], &[0; 12], &len.to_le_bytes(), b"ARROW1"].concat();
        expect_error(&file, "a file of 30 bytes");
        expect_error(&[&[0xff; 4][..], &len.to_le_bytes(), &[0; 22]].concat(), "a stream of 30 bytes");
        expect_error(&[&len.to_le_bytes()[..], &[0; 26]].concat(), "a stream of 30 bytes without continuation");
    }
    assert!(thread_time() - begin < Duration::from_secs(5));
}

/// Columns that one reader or another refuses, and their three values.
fn refused() -> Vec<(ArrayRef, Json)> {
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let int = Arc::new(Field::new("int", DataType::Int32, true));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let member = Arc::new(Field::new("text", DataType::Utf8, true));
    let fields = || UnionFields::from_iter([(5, int.clone()), (9, member.clone())]);
    let ids = || ScalarBuffer::from(vec![9i8, 5, 9]);
    let lists = || [Some(vec![Some(1), None]), None, Some(vec![])];
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    maps.keys().append_value("k");
    maps.values().append_value(1);
    (0..3).for_each(|row| maps.append(row != 1).unwrap());
    let runs: RunArray<Int16Type> = [Some("r"), Some("r"), None].into_iter().collect();
    let unsigned = dictionary::<UInt32Type>(&text).slice(0, 3);
    let list_view = ListViewArray::from(ListArray::from_iter_primitive::<Int32Type, _, _>(lists()));
    let half = [0.5, -2.0, 65504.0].map(half::f16::from_f32).to_vec();
    let dense = Some(ScalarBuffer::from(vec![2, 0, 1]));
    let children = || vec![ints.clone(), text.clone()];
    vec![
        (
            Arc::new(StructArray::from(vec![(int.clone(), ints.clone()), (member.clone(), text.clone())])),
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
        (Arc::new(UnionArray::try_new(fields(), ids(), None, children()).unwrap()), json!(["a", 2, "c"])),
        (Arc::new(UnionArray::try_new(fields(), ids(), dense, children()).unwrap()), json!(["c", 1, "b"])),
        (Arc::new(runs), json!(["r", "r", null])),
        (
            Arc::new(StringViewArray::from(vec![Some("in the view"), None, Some("in a buffer of its own")])),
            json!(["in the view", null, "in a buffer of its own"]),
        ),
        (
            Arc::new(DurationNanosecondArray::from(vec![1, 60_000_000_000, 0])),
            json!(["PT0.000000001S", "PT1M", "PT0S"]),
        ),
        (Arc::new(Float16Array::from(half)), json!([0.5, -2.0, 65504.0])),
        (
            Arc::new(TimestampSecondArray::from(vec![0, -1, 86_400])),
            json!(["1970-01-01T00:00:00", "1969-12-31T23:59:59", "1970-01-02T00:00:00"]),
        ),
        (Arc::new(Time32SecondArray::from(vec![0, 1, 86_399])), json!(["00:00:00", "00:00:01", "23:59:59"])),
        (unsigned, json!(["c", "a", null])),
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

#[test]
fn legal_types_compressions_and_framings_open() {
    // Each of these columns is refused, or answered with a panic, by tech.ml.dataset or Polars; so are duplicate
    // names, zstd bodies, and the framing from before 0.15.
    let (columns, expected): (Vec<_>, Vec<_>) = refused().into_iter().unzip();
    let expected: Vec<Json> = (0..3).map(|row| expected.iter().map(|column| column[row].clone()).collect()).collect();
    let batch = batch(columns);
    let mut options = vec![IpcWriteOptions::default(), IpcWriteOptions::try_new(8, true, MetadataVersion::V4).unwrap()];
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        options.push(IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap());
    }
    for options in options {
        for bytes in forms_with(&batch.schema(), &[batch.slice(0, 0), batch.clone(), batch.slice(0, 0)], &options) {
            expect(&bytes, &expected);
            for dataset in ways(&bytes) {
                assert_eq!(dataset.unwrap().num_batches().unwrap(), 3);
            }
        }
    }
}

#[test]
fn nothing_is_a_legal_amount() {
    // No batches, batches without rows, and rows without columns are errors or 0 rows elsewhere.
    let schema = symbol_schema();
    for bytes in forms_with(&schema, &[], &IpcWriteOptions::default()) {
        expect(&bytes, &[]);
    }
    let [stream, _] = forms_with(&schema, &[], &IpcWriteOptions::default());
    expect(&stream[..stream.len() - 8], &[]);
    let empty = RecordBatch::new_empty(schema.clone());
    forms(&[empty.clone(), empty]).iter().for_each(|bytes| expect(bytes, &[]));
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let bare = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    forms(&[bare]).iter().for_each(|bytes| expect(bytes, &[json!([]), json!([]), json!([])]));
}

#[test]
fn an_offset_for_no_rows_may_be_left_out() {
    // Old writers leave the offsets of an empty column empty; others are known to look for the one they expect.
    for bytes in forms(&[RecordBatch::new_empty(symbol_schema())]) {
        let message = batch_message(&bytes);
        let offsets = &message.buffers[1];
        assert!(offsets.length > 0, "or there is nothing to leave out");
        let metadata = message.metadata_offset as usize..message.body_offset as usize;
        for at in places(&bytes, metadata, &pair(offsets.offset, offsets.length)) {
            expect(&put(&bytes, at + 8, &[0; 8]), &[]);
        }
    }
}

#[test]
fn dates_beyond_every_calendar_are_values() {
    // pyarrow can't give such a row to Python at all.
    let days = batch(vec![
        Arc::new(Date32Array::from(vec![i32::MIN, i32::MAX])),
        Arc::new(TimestampSecondArray::from(vec![i64::MIN, i64::MAX])),
    ]);
    for dataset in forms(&[days]).iter().flat_map(|bytes| ways(bytes)) {
        let dataset = dataset.unwrap();
        assert_eq!(rows(&dataset).unwrap().len(), 2);
        let row = dataset.row(1).unwrap();
        assert!(matches!(row.get(0), Ok(Value::Date(days)) if days == i64::from(i32::MAX)));
        assert!(matches!(row.get(1), Ok(Value::Timestamp(i64::MAX, ..))));
    }
}
