//! Every type in tables that grow: what was appended, in pieces and over the ends of segments, is read back, here and by
//! arrow-rs from the plain Arrow files.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeBinaryDictionaryBuilder, Int32Builder, MapBuilder, PrimitiveDictionaryBuilder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, FieldRef, Schema, UnionFields};
use arrowwood::{Dataset, ErrorKind, Value, Writer, WriterOptions, check, open};
use proptest::prelude::*;

use crate::columns::rows;
use crate::tables::unsynced;

fn item(array: &dyn Array) -> FieldRef {
    Arc::new(Field::new("item", array.data_type().clone(), true))
}

fn text(seed: u8) -> Option<String> {
    (!seed.is_multiple_of(5)).then(|| "ü".repeat(usize::from(seed % 11)))
}

fn numbers(seeds: &[u8]) -> Int32Array {
    seeds.iter().map(|&seed| (!seed.is_multiple_of(4)).then(|| i32::from(seed))).collect()
}

fn words(seeds: &[u8]) -> StringArray {
    seeds.iter().map(|&seed| text(seed)).collect()
}

fn maps(seeds: &[u8]) -> MapArray {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for &seed in seeds {
        for key in 0..seed % 3 {
            maps.keys().append_value(format!("{key}"));
            maps.values().append_option((seed % 2 == 0).then_some(i32::from(seed)));
        }
        maps.append(seed % 7 != 0).unwrap();
    }
    maps.finish()
}

/// Lists that overlap, in no order, with nulls that have items.
fn list_views<O: OffsetSizeTrait>(seeds: &[u8], items: ArrayRef) -> GenericListViewArray<O> {
    let len = items.len();
    let starts: Vec<usize> = seeds.iter().map(|&seed| usize::from(seed) % len).collect();
    let sizes = starts.iter().zip(seeds).map(|(start, &seed)| (len - start).min(usize::from(seed % 4)));
    let sizes: ScalarBuffer<O> = sizes.map(O::usize_as).collect();
    let starts: ScalarBuffer<O> = starts.iter().map(|&start| O::usize_as(start)).collect();
    let nulls = NullBuffer::from_iter(seeds.iter().map(|seed| seed % 6 != 0));
    GenericListViewArray::new(item(&items), starts, sizes, items, Some(nulls))
}

/// Members with type ids 4 and 2; in a dense one, rows refer to members in no order, and some twice.
fn union(seeds: &[u8], is_dense: bool) -> UnionArray {
    let children: Vec<ArrayRef> = vec![Arc::new(numbers(seeds)), Arc::new(words(seeds))];
    let fields: UnionFields = [(4, item(&children[0])), (2, item(&children[1]))].into_iter().collect();
    let ids: ScalarBuffer<i8> = seeds.iter().map(|seed| if seed % 3 == 0 { 4 } else { 2 }).collect();
    let offsets = is_dense.then(|| seeds.iter().map(|&seed| i32::from(seed) % seeds.len() as i32).collect());
    UnionArray::try_new(fields, ids, offsets, children).unwrap()
}

fn dictionary<K: ArrowDictionaryKeyType, V: ArrowPrimitiveType>(
    seeds: &[u8],
    value: impl Fn(u8) -> V::Native,
) -> ArrayRef {
    let mut keys = PrimitiveDictionaryBuilder::<K, V>::new();
    for &seed in seeds {
        keys.append_option((seed % 5 != 0).then(|| value(seed % 9)));
    }
    Arc::new(keys.finish())
}

fn encoded_text<K: ArrowDictionaryKeyType>(seeds: &[u8], values: &DataType) -> ArrayRef {
    let short: DictionaryArray<K> = words(seeds).iter().collect();
    let texts = short.values().as_string::<i32>().iter();
    let values: ArrayRef = match values {
        DataType::Utf8 => short.values().clone(),
        DataType::LargeUtf8 => Arc::new(texts.collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(texts.collect::<StringViewArray>()),
        _ => Arc::new(texts.map(|text| text.map(str::as_bytes)).collect::<BinaryArray>()),
    };
    Arc::new(short.with_values(values))
}

/// A column of each type that the specification of tables has and `columns::batch` has not.
fn batch(seeds: &[u8]) -> RecordBatch {
    let n = seeds.len();
    let mut bytes = FixedSizeBinaryDictionaryBuilder::<Int32Type>::new(3);
    seeds.iter().for_each(|&seed| {
        bytes.append([seed % 7; 3]).unwrap();
    });
    let views = list_views::<i32>(seeds, Arc::new(words(seeds)));
    let inner: ArrayRef = Arc::new(union(seeds, true));
    let one_each = OffsetBuffer::from_lengths(vec![1; n]);
    let pair: Vec<ArrayRef> = vec![Arc::new(maps(seeds)), Arc::new(NullArray::new(n))];
    let fields: Vec<FieldRef> = pair.iter().map(|array| item(array)).collect();
    let nulls = Some(NullBuffer::new(BooleanBuffer::collect_bool(n, |row| !seeds[row].is_multiple_of(7))));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("null", Arc::new(NullArray::new(n))),
        ("map", Arc::new(maps(seeds))),
        ("list_view", Arc::new(views.clone())),
        ("large_list_view", Arc::new(list_views::<i64>(seeds, Arc::new(numbers(seeds))))),
        ("list of list views", Arc::new(ListArray::new(item(&views), one_each.clone(), Arc::new(views.clone()), None))),
        ("list views of dense unions", Arc::new(list_views::<i32>(seeds, inner.clone()))),
        ("dense", inner.clone()),
        ("sparse", Arc::new(union(seeds, false))),
        ("fixed list of unions", Arc::new(FixedSizeListArray::new(item(&inner), 1, inner.clone(), None))),
        ("struct", Arc::new(StructArray::new(fields.into(), pair, nulls))),
        ("i8 to text", encoded_text::<Int8Type>(seeds, &DataType::Utf8)),
        ("u16 to large text", encoded_text::<UInt16Type>(seeds, &DataType::LargeUtf8)),
        ("i64 to views", encoded_text::<Int64Type>(seeds, &DataType::Utf8View)),
        ("u8 to bytes", encoded_text::<UInt8Type>(seeds, &DataType::Binary)),
        ("i32 to i64", dictionary::<Int32Type, Int64Type>(seeds, |seed| i64::from(seed) << 40)),
        ("u32 to times", dictionary::<UInt32Type, TimestampMicrosecondType>(seeds, i64::from)),
        ("u64 to floats", dictionary::<UInt64Type, Float64Type>(seeds, f64::from)),
        ("i16 to decimals", dictionary::<Int16Type, Decimal128Type>(seeds, i128::from)),
        ("i32 to fixed bytes", Arc::new(bytes.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// The rows of all segments, as arrow-rs reads them.
fn rows_of_files(table: &Path) -> Vec<String> {
    let mut paths: Vec<_> = std::fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        for batch in FileReader::try_new(std::fs::File::open(path).unwrap(), None).unwrap() {
            found.extend(rows(&Dataset::try_from(vec![batch.unwrap()]).unwrap()));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn every_type_grows(
        batches in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), any::<prop::sample::Index>()), 1..6),
        segment_rows in 8u64..60,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let schema = batch(&[1]).schema();
        let mut expected = Vec::new();
        for (seeds, start) in &batches {
            // Each batch by a writer of its own, which reads what the one before has written.
            let mut writer = Writer::open(&path, Some(schema.clone()), &unsynced(segment_rows)).unwrap();
            let whole = batch(seeds);
            let start = start.index(seeds.len());
            let parts = [whole.slice(start, seeds.len() - start), whole.slice(0, start), whole.clone()];
            for part in parts {
                writer.append(&part).unwrap();
                writer.commit().unwrap();
                expected.extend(rows(&Dataset::try_from(vec![part]).unwrap()));
            }
            let table = open(&path).unwrap();
            table.validate(|_, _| ()).unwrap();
            prop_assert_eq!(table.schema(), &schema);
            prop_assert_eq!(rows(&table), &expected[..]);
            writer.close().unwrap();
        }
        let found = check(&path, |_, _| ()).unwrap();
        prop_assert!(found.findings.is_empty(), "{found:?}");
        prop_assert_eq!(rows_of_files(&path), expected);
    }
}

/// The same lists, or texts, in every way of storing them.
fn ways(seeds: &[u8]) -> [Vec<ArrayRef>; 2] {
    let items: ArrayRef = Arc::new(words(seeds));
    let field = item(&items);
    let lengths: Vec<usize> = seeds.iter().map(|&seed| usize::from(seed % 2)).collect();
    let small = OffsetBuffer::<i32>::from_lengths(lengths.iter().copied());
    let large = OffsetBuffer::<i64>::from_lengths(lengths.iter().copied());
    let small_sizes: ScalarBuffer<i32> = lengths.iter().map(|&len| len as i32).collect();
    let large_sizes: ScalarBuffer<i64> = lengths.iter().map(|&len| len as i64).collect();
    let starts = |end: usize| 0..end;
    let small_starts: ScalarBuffer<i32> = starts(seeds.len()).map(|row| small[row]).collect();
    let large_starts: ScalarBuffer<i64> = starts(seeds.len()).map(|row| large[row]).collect();
    let lists: Vec<ArrayRef> = vec![
        Arc::new(ListArray::new(field.clone(), small, items.clone(), None)),
        Arc::new(LargeListArray::new(field.clone(), large, items.clone(), None)),
        Arc::new(ListViewArray::new(field.clone(), small_starts, small_sizes, items.clone(), None)),
        Arc::new(LargeListViewArray::new(field, large_starts, large_sizes, items, None)),
    ];
    let texts = words(seeds);
    let texts: Vec<ArrayRef> = vec![
        Arc::new(texts.iter().collect::<LargeStringArray>()),
        Arc::new(texts.iter().collect::<StringViewArray>()),
        encoded_text::<Int8Type>(seeds, &DataType::Utf8View),
        encoded_text::<UInt64Type>(seeds, &DataType::LargeUtf8),
        Arc::new(texts),
    ];
    [lists, texts]
}

/// Whatever way lists and text are stored, they are appended to a table that stores them in another way.
#[test]
fn lists_and_text_are_appended_to_columns_that_store_them_otherwise() {
    let seeds: Vec<u8> = (0..30).collect();
    let one = |array: &ArrayRef| RecordBatch::try_from_iter_with_nullable([("x", array.clone(), true)]).unwrap();
    for ways in ways(&seeds) {
        let expected = rows(&Dataset::try_from(vec![one(&ways[0])]).unwrap());
        for to in &ways {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("table");
            let mut writer = Writer::open(&path, Some(one(to).schema()), &unsynced(16)).unwrap();
            for from in &ways {
                writer.append(&one(from)).unwrap();
                writer.commit().unwrap();
            }
            let found = rows(&open(&path).unwrap());
            assert_eq!(found, vec![expected.clone(); ways.len()].concat(), "{}", to.data_type());
        }
    }
}

/// Buffers of files are aligned to 8 bytes, and values of 16 bytes may lie between two multiples of those.
#[test]
fn values_that_lie_anywhere_in_a_file_are_appended() {
    let views = StringViewArray::from(vec![Some("a text that is longer than twelve bytes"), None, Some("b")]);
    let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(2)]);
    let encoded: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(views.clone())));
    let ends = Int32Array::from(vec![1, 3, 4]);
    let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&ends, &views).unwrap());
    let wide = Decimal128Array::from(vec![Some(1), None, Some(-7)]).with_precision_and_scale(38, 2).unwrap();
    let wide_runs = RunArray::<Int32Type>::try_new(&ends, &wide).unwrap();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 1, 1, 3, 4]));
    let lists: ArrayRef = Arc::new(ListArray::new(item(&wide_runs), offsets, Arc::new(wide_runs), None));
    let plain = Schema::new(vec![
        Field::new("encoded", encoded.data_type().clone(), true),
        Field::new("runs", DataType::Utf8View, true),
        Field::new("lists", DataType::List(item(&wide)), true),
    ]);
    for length in 0..4 {
        let schema = Schema::new(vec![
            Field::new("encoded", encoded.data_type().clone(), true),
            Field::new("runs", runs.data_type().clone(), true),
            Field::new("lists", lists.data_type().clone(), true),
        ]);
        // Another length of the schema moves all that follows.
        let schema: Arc<Schema> =
            Arc::new(schema.with_metadata([("note".to_owned(), "8 bytes ".repeat(length))].into()));
        let columns = vec![encoded.clone(), runs.clone(), lists.clone()];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let options = arrow_ipc::writer::IpcWriteOptions::try_new(8, false, arrow_ipc::MetadataVersion::V5).unwrap();
        let mut bytes = Vec::new();
        let mut stream = arrow_ipc::writer::StreamWriter::try_new_with_options(&mut bytes, &schema, options).unwrap();
        stream.write(&batch).unwrap();
        stream.finish().unwrap();
        drop(stream);
        let given = arrowwood::OpenOptions::new().bytes(arrowwood::Bytes::from(bytes)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let mut writer = Writer::open(&path, Some(Arc::new(plain.clone())), &unsynced(3)).unwrap();
        writer.append_dataset(&given).unwrap();
        writer.commit().unwrap();
        assert_eq!(rows(&open(&path).unwrap()), rows(&Dataset::try_from(vec![batch]).unwrap()));
    }
}

/// Numbers are appended to a dictionary of numbers as they are.
#[test]
fn numbers_are_encoded_by_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let encoded = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Int64));
    let schema = Arc::new(Schema::new(vec![Field::new("n", encoded, true)]));
    let mut writer = Writer::open(&path, Some(schema), &unsynced(8)).unwrap();
    let values: ArrayRef = Arc::new(Int64Array::from_iter((0..20).map(|n| (n % 7 != 0).then_some(n % 3))));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", values, true)]).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    assert_eq!(rows(&open(&path).unwrap()), rows(&Dataset::try_from(vec![batch]).unwrap()));
}

/// Rows one by one, of dictionaries of values of each width, with values that are there and new ones, and nulls.
#[test]
fn rows_of_dictionaries_of_any_values_are_appended_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let unit = arrow_schema::TimeUnit::Microsecond;
    let digits = |n: i64| Value::Decimal { digits: arrow_buffer::i256::from(n), scale: 2 };
    let stamp = |n: i64| Value::Timestamp(n, unit, Some("UTC"));
    let cases = [
        (DataType::Int64, [Value::Int(3), Value::Int(i64::MIN), Value::Int(3)], Value::Str("x")),
        (DataType::UInt8, [Value::Int(255), Value::UInt(0), Value::UInt(255)], Value::Int(256)),
        (DataType::Float64, [Value::Float64(-0.0), Value::Float64(1.5), Value::Float64(-0.0)], Value::Bool(true)),
        (DataType::Date32, [Value::Date(9), Value::Date(-1), Value::Date(9)], Value::Date(1 << 40)),
        (DataType::Decimal128(10, 2), [digits(1), digits(-100), digits(1)], digits(1 << 40)),
        (DataType::Timestamp(unit, Some("UTC".into())), [stamp(1), stamp(0), stamp(1)], Value::Date(1)),
        (DataType::Duration(unit), [1, 2, 1].map(|n| Value::Duration(n, unit)), Value::Time(1, unit)),
        (DataType::FixedSizeBinary(3), [&b"abc"[..], b"xyz", b"abc"].map(Value::Bytes), Value::Bytes(b"four")),
    ];
    for (number, (values, given, wrong)) in cases.into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(values.clone()));
        let schema = Arc::new(Schema::new(vec![Field::new("x", encoded.clone(), true)]));
        let mut writer = Writer::open(&path, Some(schema.clone()), &unsynced(2)).unwrap();
        let mut builder = arrowwood::DatasetBuilder::new(schema).unwrap();
        for value in given.iter().chain([&Value::Null]).chain(&given) {
            writer.append_row(std::slice::from_ref(value)).unwrap();
            builder.append_row(std::slice::from_ref(value)).unwrap();
        }
        let refused = writer.append_row(&[wrong]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{values}: {refused}");
        assert!(refused.to_string().contains("or out of its range"), "{values}: {refused}");
        writer.commit().unwrap();
        let shown = |dataset: &Dataset| -> Vec<String> {
            dataset.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
        };
        let plain = |value: &Value<'_>| match value {
            // As a column of the type shows it.
            Value::Int(n) if values == DataType::UInt8 => Value::UInt(*n as u64).to_string(),
            other => other.to_string(),
        };
        let once: Vec<String> = given.iter().map(plain).collect();
        let expected = [once.clone(), vec!["null".into()], once].concat();
        assert_eq!(shown(&open(&path).unwrap()), expected, "{values}");
        let made = builder.finish().unwrap();
        assert_eq!(shown(&made), expected, "{values}");
        let batch = made.to_record_batches().next().unwrap().unwrap();
        assert_eq!(batch.column(0).as_any_dictionary().values().len(), 2, "{values}");
    }
}

/// A dictionary whose keys are all taken says so, and nothing of the rows is there.
#[test]
fn keys_that_are_all_taken_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let encoded = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![Field::new("word", encoded, true)]));
    let mut writer = Writer::open(&path, Some(schema), &unsynced(1000)).unwrap();
    let words = |from: usize, to: usize| {
        let words: ArrayRef = Arc::new(StringArray::from_iter_values((from..to).map(|n| format!("w{n}"))));
        RecordBatch::try_from_iter([("word", words)]).unwrap()
    };
    writer.append(&words(0, 128)).unwrap();
    writer.commit().unwrap();
    for refused in [writer.append(&words(120, 129)).unwrap_err(), writer.append_row(&[Value::Str("w128")]).unwrap_err()]
    {
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("'word': the dictionary is full: it has 128 values"), "{refused}");
    }
    writer.append(&words(5, 9)).unwrap();
    writer.append_row(&[Value::Str("w127")]).unwrap();
    writer.commit().unwrap();
    drop(writer);
    assert_eq!(open(&path).unwrap().len().unwrap(), 133);
    // The next writer knows them all.
    let mut writer = Writer::open(&path, None, &unsynced(1000)).unwrap();
    writer.append_row(&[Value::Str("w128")]).unwrap_err();
    writer.append_row(&[Value::Str("w0")]).unwrap();
    writer.commit().unwrap();
    assert_eq!(open(&path).unwrap().len().unwrap(), 134);
}

/// Each row that was refused for its second word took a key for its first one.
#[test]
fn rows_that_are_refused_take_no_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let encoded =
        |name: &str| Field::new(name, DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true);
    let schema = Arc::new(Schema::new(vec![encoded("a"), encoded("b")]));
    let mut writer = Writer::open(&path, Some(schema), &unsynced(1000)).unwrap();
    for n in 0..128 {
        writer.append_row(&[Value::Str("same"), Value::Str(&format!("b{n}"))]).unwrap();
    }
    for n in 0..127 {
        let refused = writer.append_row(&[Value::Str(&format!("refused {n}")), Value::Str("one more")]).unwrap_err();
        assert!(refused.to_string().contains("'b': the dictionary is full"), "{refused}");
    }
    for n in 0..127 {
        writer.append_row(&[Value::Str(&format!("a{n}")), Value::Str("b0")]).unwrap();
    }
    writer.commit().unwrap();
    let expected = (0..128).map(|n| format!("same b{n}")).chain((0..127).map(|n| format!("a{n} b0")));
    let found = open(&path).unwrap();
    let found =
        found.rows().map(|row| row.unwrap()).map(|row| format!("{} {}", row.get(0).unwrap(), row.get(1).unwrap()));
    assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

/// Nulls were looked for in no list view, and in dense unions before their members were in order: items that a column was
/// declared not to have became zeros.
#[test]
fn nulls_in_list_views_and_dense_unions_are_refused_where_none_are_declared() {
    let items = |values: [Option<i32>; 5]| -> ArrayRef { Arc::new(Int32Array::from_iter(values)) };
    let is_declared = || Arc::new(Field::new("item", DataType::Int32, false));
    // [3, 4], null, [1]; items 2 and 0 are of no list, or of a null.
    let views = |values| -> [ArrayRef; 2] {
        let nulls = Some(NullBuffer::from(vec![true, false, true]));
        let any = Arc::new(Field::new("item", DataType::Int32, true));
        let wide = LargeListViewArray::new(
            any.clone(),
            vec![3, 2, 1].into(),
            vec![2, 1, 1].into(),
            items(values),
            nulls.clone(),
        );
        [
            Arc::new(ListViewArray::new(any, vec![3, 2, 1].into(), vec![2, 1, 1].into(), items(values), nulls)),
            Arc::new(wide),
        ]
    };
    let unions = |values| -> ArrayRef {
        let fields: UnionFields = [(4, Arc::new(Field::new("a", DataType::Int32, true)))].into_iter().collect();
        let offsets = Some(vec![4, 1, 3].into());
        Arc::new(UnionArray::try_new(fields, vec![4; 3].into(), offsets, vec![items(values)]).unwrap())
    };
    let declared_union = || {
        let fields: UnionFields = [(4, Arc::new(Field::new("a", DataType::Int32, false)))].into_iter().collect();
        DataType::Union(fields, arrow_schema::UnionMode::Dense)
    };
    let lists = || {
        let types = [DataType::List, DataType::LargeList, DataType::ListView, DataType::LargeListView];
        types.map(|list| list(is_declared()))
    };
    let in_struct = |data_type: &DataType| DataType::Struct(vec![Field::new("inside", data_type.clone(), true)].into());
    let structs = |array: &ArrayRef| -> ArrayRef {
        let fields = vec![Field::new("inside", array.data_type().clone(), true)].into();
        Arc::new(StructArray::new(fields, vec![array.clone()], None))
    };
    let append = |data_type: DataType, array: &ArrayRef| {
        let folder = tempfile::tempdir().unwrap();
        let schema = |data_type: &DataType| Arc::new(Schema::new(vec![Field::new("c", data_type.clone(), true)]));
        let mut writer =
            Writer::open(folder.path().join("t"), Some(schema(&data_type)), &WriterOptions::default()).unwrap();
        let batch = RecordBatch::try_new(schema(array.data_type()), vec![array.clone()]).unwrap();
        let appended = writer.append(&batch);
        assert_eq!(writer.rows(), if appended.is_ok() { 3 } else { 0 });
        writer.close().unwrap();
        let dataset = open(folder.path().join("t")).unwrap();
        appended.map(|()| rows(&dataset))
    };
    let hidden = [None, Some(7), None, Some(8), Some(9)];
    let seen = [Some(0), Some(7), Some(0), Some(8), None];
    let mut cases = Vec::new();
    for (there, taken) in [(hidden, true), (seen, false)] {
        for array in views(there) {
            cases.extend(lists().map(|list| (list, array.clone(), taken)));
        }
        cases.push((declared_union(), unions(there), taken));
    }
    for (data_type, array, is_taken) in cases {
        for (data_type, array) in [(in_struct(&data_type), structs(&array)), (data_type, array)] {
            match append(data_type.clone(), &array) {
                Ok(found) => {
                    assert!(is_taken, "{data_type} of {array:?}: {found:?}");
                    assert!(
                        found[0].contains('9') && found[2].contains(if found[0].contains('[') { '7' } else { '8' })
                    );
                }
                Err(e) => {
                    assert!(!is_taken, "{data_type} of {array:?}: {e}");
                    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
                    assert!(e.message().contains("declared without nulls"), "{e}");
                }
            }
        }
    }
}
