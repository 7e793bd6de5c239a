//! Tests that growing tables store every type: rows that were appended in parts and across segments are read back, also
//! by arrow-rs from the Arrow files.

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
use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit, UnionFields};
use arrowwood::{Dataset, ErrorKind, Value, Writer, WriterOptions, check, open};
use proptest::prelude::*;

use crate::columns::rows as read_rows;
use crate::tables::unsynced;

fn item_field(array: &dyn Array) -> FieldRef {
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

/// Returns lists that overlap, in no order, with nulls that have items.
fn list_views<O: OffsetSizeTrait>(seeds: &[u8], items: ArrayRef) -> GenericListViewArray<O> {
    let len = items.len();
    let starts: Vec<usize> = seeds.iter().map(|&seed| usize::from(seed) % len).collect();
    let sizes = starts.iter().zip(seeds).map(|(start, &seed)| (len - start).min(usize::from(seed % 4)));
    let sizes: ScalarBuffer<O> = sizes.map(O::usize_as).collect();
    let starts: ScalarBuffer<O> = starts.iter().map(|&start| O::usize_as(start)).collect();
    let nulls = NullBuffer::from_iter(seeds.iter().map(|seed| seed % 6 != 0));
    GenericListViewArray::new(item_field(&items), starts, sizes, items, Some(nulls))
}

/// Returns a union with the type ids 4 and 2. In a dense one, rows refer to values in no order, and to some twice.
fn union(seeds: &[u8], is_dense: bool) -> UnionArray {
    let children: Vec<ArrayRef> = vec![Arc::new(numbers(seeds)), Arc::new(words(seeds))];
    let fields: UnionFields = [(4, item_field(&children[0])), (2, item_field(&children[1]))].into_iter().collect();
    let ids: ScalarBuffer<i8> = seeds.iter().map(|seed| if seed % 3 == 0 { 4 } else { 2 }).collect();
    let offsets = is_dense.then(|| seeds.iter().map(|&seed| i32::from(seed) % seeds.len() as i32).collect());
    UnionArray::try_new(fields, ids, offsets, children).unwrap()
}

fn dictionary<K: ArrowDictionaryKeyType, V: ArrowPrimitiveType>(
    seeds: &[u8],
    value: impl Fn(u8) -> V::Native,
) -> ArrayRef {
    let mut builder = PrimitiveDictionaryBuilder::<K, V>::new();
    for &seed in seeds {
        builder.append_option((seed % 5 != 0).then(|| value(seed % 9)));
    }
    Arc::new(builder.finish())
}

/// Returns a dictionary of texts, whose values have the given type.
fn text_dictionary<K: ArrowDictionaryKeyType>(seeds: &[u8], value_type: &DataType) -> ArrayRef {
    let utf8: DictionaryArray<K> = words(seeds).iter().collect();
    let texts = utf8.values().as_string::<i32>().iter();
    let values: ArrayRef = match value_type {
        DataType::Utf8 => utf8.values().clone(),
        DataType::LargeUtf8 => Arc::new(texts.collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(texts.collect::<StringViewArray>()),
        _ => Arc::new(texts.map(|text| text.map(str::as_bytes)).collect::<BinaryArray>()),
    };
    Arc::new(utf8.with_values(values))
}

/// Returns a column of each type that tables support and that `columns::batch` doesn't have.
fn batch(seeds: &[u8]) -> RecordBatch {
    let len = seeds.len();
    let mut fixed_bytes = FixedSizeBinaryDictionaryBuilder::<Int32Type>::new(3);
    for &seed in seeds {
        fixed_bytes.append([seed % 7; 3]).unwrap();
    }
    let views = list_views::<i32>(seeds, Arc::new(words(seeds)));
    let dense_union: ArrayRef = Arc::new(union(seeds, true));
    let one_each = OffsetBuffer::from_lengths(vec![1; len]);
    let children: Vec<ArrayRef> = vec![Arc::new(maps(seeds)), Arc::new(NullArray::new(len))];
    let fields: Vec<FieldRef> = children.iter().map(|array| item_field(array)).collect();
    let nulls = Some(NullBuffer::new(BooleanBuffer::collect_bool(len, |row| !seeds[row].is_multiple_of(7))));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("null", Arc::new(NullArray::new(len))),
        ("map", Arc::new(maps(seeds))),
        ("list_view", Arc::new(views.clone())),
        ("large_list_view", Arc::new(list_views::<i64>(seeds, Arc::new(numbers(seeds))))),
        (
            "list of list views",
            Arc::new(ListArray::new(item_field(&views), one_each.clone(), Arc::new(views.clone()), None)),
        ),
        ("list views of dense unions", Arc::new(list_views::<i32>(seeds, dense_union.clone()))),
        ("dense", dense_union.clone()),
        ("sparse", Arc::new(union(seeds, false))),
        (
            "fixed list of unions",
            Arc::new(FixedSizeListArray::new(item_field(&dense_union), 1, dense_union.clone(), None)),
        ),
        ("struct", Arc::new(StructArray::new(fields.into(), children, nulls))),
        ("i8 to text", text_dictionary::<Int8Type>(seeds, &DataType::Utf8)),
        ("u16 to large text", text_dictionary::<UInt16Type>(seeds, &DataType::LargeUtf8)),
        ("i64 to views", text_dictionary::<Int64Type>(seeds, &DataType::Utf8View)),
        ("u8 to bytes", text_dictionary::<UInt8Type>(seeds, &DataType::Binary)),
        ("i32 to i64", dictionary::<Int32Type, Int64Type>(seeds, |seed| i64::from(seed) << 40)),
        ("u32 to times", dictionary::<UInt32Type, TimestampMicrosecondType>(seeds, i64::from)),
        ("u64 to floats", dictionary::<UInt64Type, Float64Type>(seeds, f64::from)),
        ("i16 to decimals", dictionary::<Int16Type, Decimal128Type>(seeds, i128::from)),
        ("i32 to fixed bytes", Arc::new(fixed_bytes.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// Returns the rows of all segments as arrow-rs reads them.
fn read_files(table: &Path) -> Vec<String> {
    let mut paths: Vec<_> = std::fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut rows = Vec::new();
    for path in paths {
        for batch in FileReader::try_new(std::fs::File::open(path).unwrap(), None).unwrap() {
            rows.extend(read_rows(&Dataset::try_from(vec![batch.unwrap()]).unwrap()));
        }
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn rows_of_every_type_are_read_back(
        batches in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), any::<prop::sample::Index>()), 1..6),
        segment_rows in 8u64..60,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let schema = batch(&[1]).schema();
        let mut expected = Vec::new();
        for (seeds, start) in &batches {
            // Each batch has another writer, which continues the segment of the previous one.
            let mut writer = Writer::open(&path, Some(schema.clone()), &unsynced(segment_rows)).unwrap();
            let batch = batch(seeds);
            let start = start.index(seeds.len());
            let parts = [batch.slice(start, seeds.len() - start), batch.slice(0, start), batch.clone()];
            for part in parts {
                writer.append(&part).unwrap();
                writer.commit().unwrap();
                expected.extend(read_rows(&Dataset::try_from(vec![part]).unwrap()));
            }
            let dataset = open(&path).unwrap();
            dataset.validate(|_, _| ()).unwrap();
            prop_assert_eq!(dataset.schema(), &schema);
            prop_assert_eq!(read_rows(&dataset), &expected[..]);
            writer.close().unwrap();
        }
        let report = check(&path, |_, _| ()).unwrap();
        prop_assert!(report.findings.is_empty(), "{report:?}");
        prop_assert_eq!(read_files(&path), expected);
    }
}

/// Returns the same lists, and the same texts, in all of their types.
fn equivalent_arrays(seeds: &[u8]) -> [Vec<ArrayRef>; 2] {
    let items: ArrayRef = Arc::new(words(seeds));
    let field = item_field(&items);
    let lengths: Vec<usize> = seeds.iter().map(|&seed| usize::from(seed % 2)).collect();
    let small = OffsetBuffer::<i32>::from_lengths(lengths.iter().copied());
    let large = OffsetBuffer::<i64>::from_lengths(lengths.iter().copied());
    let small_sizes: ScalarBuffer<i32> = lengths.iter().map(|&len| len as i32).collect();
    let large_sizes: ScalarBuffer<i64> = lengths.iter().map(|&len| len as i64).collect();
    let small_starts: ScalarBuffer<i32> = small[..seeds.len()].iter().copied().collect();
    let large_starts: ScalarBuffer<i64> = large[..seeds.len()].iter().copied().collect();
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
        text_dictionary::<Int8Type>(seeds, &DataType::Utf8View),
        text_dictionary::<UInt64Type>(seeds, &DataType::LargeUtf8),
        Arc::new(texts),
    ];
    [lists, texts]
}

fn nullable_batch(array: &ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("x", array.clone(), true)]).unwrap()
}

#[test]
fn lists_and_texts_are_converted_to_the_type_of_the_column() {
    let seeds: Vec<u8> = (0..30).collect();
    for arrays in equivalent_arrays(&seeds) {
        let expected = read_rows(&Dataset::try_from(vec![nullable_batch(&arrays[0])]).unwrap());
        for column in &arrays {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("table");
            let mut writer = Writer::open(&path, Some(nullable_batch(column).schema()), &unsynced(16)).unwrap();
            for array in &arrays {
                writer.append(&nullable_batch(array)).unwrap();
                writer.commit().unwrap();
            }
            let actual = read_rows(&open(&path).unwrap());
            assert_eq!(actual, vec![expected.clone(); arrays.len()].concat(), "{}", column.data_type());
        }
    }
}

/// Buffers in files may be aligned to only 8 bytes, and then values of 16 bytes aren't aligned to their size.
#[test]
fn values_at_any_alignment_are_appended() {
    let views = StringViewArray::from(vec![Some("a text that is longer than twelve bytes"), None, Some("b")]);
    let keys = Int32Array::from(vec![Some(0), Some(1), None, Some(2)]);
    let encoded: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(views.clone())));
    let ends = Int32Array::from(vec![1, 3, 4]);
    let runs: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&ends, &views).unwrap());
    let wide = Decimal128Array::from(vec![Some(1), None, Some(-7)]).with_precision_and_scale(38, 2).unwrap();
    let wide_runs = RunArray::<Int32Type>::try_new(&ends, &wide).unwrap();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, 1, 1, 3, 4]));
    let lists: ArrayRef = Arc::new(ListArray::new(item_field(&wide_runs), offsets, Arc::new(wide_runs), None));
    let table_schema = Arc::new(Schema::new(vec![
        Field::new("encoded", encoded.data_type().clone(), true),
        Field::new("runs", DataType::Utf8View, true),
        Field::new("lists", DataType::List(item_field(&wide)), true),
    ]));
    for length in 0..4 {
        let schema = Schema::new(vec![
            Field::new("encoded", encoded.data_type().clone(), true),
            Field::new("runs", runs.data_type().clone(), true),
            Field::new("lists", lists.data_type().clone(), true),
        ]);
        // Metadata of another length moves everything after the schema.
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
        let dataset = arrowwood::OpenOptions::new().bytes(arrowwood::Bytes::from(bytes)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let mut writer = Writer::open(&path, Some(table_schema.clone()), &unsynced(3)).unwrap();
        writer.append_dataset(&dataset).unwrap();
        writer.commit().unwrap();
        assert_eq!(read_rows(&open(&path).unwrap()), read_rows(&Dataset::try_from(vec![batch]).unwrap()));
    }
}

#[test]
fn numbers_are_encoded_for_a_dictionary_of_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let encoded = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Int64));
    let schema = Arc::new(Schema::new(vec![Field::new("n", encoded, true)]));
    let mut writer = Writer::open(&path, Some(schema), &unsynced(8)).unwrap();
    let values: ArrayRef = Arc::new(Int64Array::from_iter((0..20).map(|n| (n % 7 != 0).then_some(n % 3))));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", values, true)]).unwrap();
    writer.append(&batch).unwrap();
    writer.commit().unwrap();
    assert_eq!(read_rows(&open(&path).unwrap()), read_rows(&Dataset::try_from(vec![batch]).unwrap()));
}

fn cell_texts(dataset: &Dataset) -> Vec<String> {
    dataset.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
}

fn decimal_value(digits: i64) -> Value<'static> {
    Value::Decimal { digits: arrow_buffer::i256::from(digits), scale: 2 }
}

const UNIT: TimeUnit = TimeUnit::Microsecond;

fn utc_value(n: i64) -> Value<'static> {
    Value::Timestamp(n, UNIT, Some("UTC"))
}

/// Appends single rows to dictionaries with values of each width: new values, values that the dictionary has, and
/// nulls.
#[test]
fn rows_are_appended_to_dictionaries_of_any_values() {
    let folder = tempfile::tempdir().unwrap();
    let utc_type = DataType::Timestamp(UNIT, Some("UTC".into()));
    // A type, three values of which the first and the last are equal, and a value that doesn't fit.
    let cases = [
        (DataType::Int64, [3, i64::MIN, 3].map(Value::Int), Value::Str("x")),
        (DataType::UInt8, [Value::Int(255), Value::UInt(0), Value::UInt(255)], Value::Int(256)),
        (DataType::Float64, [-0.0, 1.5, -0.0].map(Value::Float64), Value::Bool(true)),
        (DataType::Date32, [9, -1, 9].map(Value::Date), Value::Date(1 << 40)),
        (DataType::Decimal128(10, 2), [1, -100, 1].map(decimal_value), decimal_value(1 << 40)),
        (utc_type, [1, 0, 1].map(utc_value), Value::Date(1)),
        (DataType::Duration(UNIT), [1, 2, 1].map(|n| Value::Duration(n, UNIT)), Value::Time(1, UNIT)),
        (DataType::FixedSizeBinary(3), [&b"abc"[..], b"xyz", b"abc"].map(Value::Bytes), Value::Bytes(b"four")),
    ];
    for (number, (value_type, values, unsuitable)) in cases.into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(value_type.clone()));
        let schema = Arc::new(Schema::new(vec![Field::new("x", dictionary, true)]));
        let mut writer = Writer::open(&path, Some(schema.clone()), &unsynced(2)).unwrap();
        let mut builder = arrowwood::DatasetBuilder::new(schema).unwrap();
        for value in values.iter().chain([&Value::Null]).chain(&values) {
            writer.append_row(std::slice::from_ref(value)).unwrap();
            builder.append_row(std::slice::from_ref(value)).unwrap();
        }
        let error = writer.append_row(&[unsuitable]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{value_type}: {error}");
        assert!(error.to_string().contains("or out of its range"), "{value_type}: {error}");
        writer.commit().unwrap();

        let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
        let expected = [texts.clone(), vec!["null".into()], texts].concat();
        assert_eq!(cell_texts(&open(&path).unwrap()), expected, "{value_type}");
        let built = builder.finish().unwrap();
        assert_eq!(cell_texts(&built), expected, "{value_type}");
        let batch = built.to_record_batches().next().unwrap().unwrap();
        assert_eq!(batch.column(0).as_any_dictionary().values().len(), 2, "{value_type}");
    }
}

/// Returns the words `w5`, `w6` and so on.
fn word_batch(numbers: std::ops::Range<usize>) -> RecordBatch {
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.map(|n| format!("w{n}"))));
    RecordBatch::try_from_iter([("word", words)]).unwrap()
}

fn int8_dictionary(name: &str) -> Field {
    Field::new(name, DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true)
}

/// A batch or row that needs a new value in a full dictionary is refused as a whole.
#[test]
fn a_full_dictionary_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let schema = Arc::new(Schema::new(vec![int8_dictionary("word")]));
    let mut writer = Writer::open(&path, Some(schema), &unsynced(1000)).unwrap();
    writer.append(&word_batch(0..128)).unwrap();
    writer.commit().unwrap();
    let batch_error = writer.append(&word_batch(120..129)).unwrap_err();
    let row_error = writer.append_row(&[Value::Str("w128")]).unwrap_err();
    for error in [batch_error, row_error] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("'word': the dictionary is full: it has 128 values"), "{error}");
    }
    writer.append(&word_batch(5..9)).unwrap();
    writer.append_row(&[Value::Str("w127")]).unwrap();
    writer.commit().unwrap();
    drop(writer);
    assert_eq!(open(&path).unwrap().len().unwrap(), 133);
    // The next writer reads the dictionary.
    let mut writer = Writer::open(&path, None, &unsynced(1000)).unwrap();
    writer.append_row(&[Value::Str("w128")]).unwrap_err();
    writer.append_row(&[Value::Str("w0")]).unwrap();
    writer.commit().unwrap();
    assert_eq!(open(&path).unwrap().len().unwrap(), 134);
}

/// Regression test: a row that was refused for its second word added its first word to the dictionary.
#[test]
fn refused_rows_use_no_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let schema = Arc::new(Schema::new(vec![int8_dictionary("a"), int8_dictionary("b")]));
    let mut writer = Writer::open(&path, Some(schema), &unsynced(1000)).unwrap();
    for n in 0..128 {
        writer.append_row(&[Value::Str("same"), Value::Str(&format!("b{n}"))]).unwrap();
    }
    for n in 0..127 {
        let error = writer.append_row(&[Value::Str(&format!("refused {n}")), Value::Str("one more")]).unwrap_err();
        assert!(error.to_string().contains("'b': the dictionary is full"), "{error}");
    }
    for n in 0..127 {
        writer.append_row(&[Value::Str(&format!("a{n}")), Value::Str("b0")]).unwrap();
    }
    writer.commit().unwrap();
    let mut expected: Vec<String> = (0..128).map(|n| format!("same b{n}")).collect();
    expected.extend((0..127).map(|n| format!("a{n} b0")));
    let mut actual = Vec::new();
    for row in open(&path).unwrap().rows() {
        let row = row.unwrap();
        actual.push(format!("{} {}", row.get(0).unwrap(), row.get(1).unwrap()));
    }
    assert_eq!(actual, expected);
}

/// Five items, of which views and unions refer to some.
type Items = [Option<i32>; 5];

fn item_array(items: Items) -> ArrayRef {
    Arc::new(Int32Array::from_iter(items))
}

/// Returns the rows [3, 4], null and [1] as indices of items. The items 2 and 0 are part of a null, or of no list.
fn list_view_arrays(items: Items) -> [ArrayRef; 2] {
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let field = Arc::new(Field::new("item", DataType::Int32, true));
    let array = item_array(items);
    let small =
        ListViewArray::new(field.clone(), vec![3, 2, 1].into(), vec![2, 1, 1].into(), array.clone(), nulls.clone());
    let large = LargeListViewArray::new(field, vec![3, 2, 1].into(), vec![2, 1, 1].into(), array, nulls);
    [Arc::new(small), Arc::new(large)]
}

/// Returns a dense union of the items 4, 1 and 3.
fn union_array(items: Items) -> ArrayRef {
    let fields: UnionFields = [(4, Arc::new(Field::new("a", DataType::Int32, true)))].into_iter().collect();
    let offsets = Some(vec![4, 1, 3].into());
    Arc::new(UnionArray::try_new(fields, vec![4; 3].into(), offsets, vec![item_array(items)]).unwrap())
}

/// Returns the types of lists whose items are declared to have no nulls.
fn list_types_without_nulls() -> [DataType; 4] {
    let types = [DataType::List, DataType::LargeList, DataType::ListView, DataType::LargeListView];
    types.map(|list| list(Arc::new(Field::new("item", DataType::Int32, false))))
}

fn union_type_without_nulls() -> DataType {
    let fields: UnionFields = [(4, Arc::new(Field::new("a", DataType::Int32, false)))].into_iter().collect();
    DataType::Union(fields, arrow_schema::UnionMode::Dense)
}

fn struct_of(array: &ArrayRef) -> ArrayRef {
    let fields = vec![Field::new("inside", array.data_type().clone(), true)].into();
    Arc::new(StructArray::new(fields, vec![array.clone()], None))
}

fn single_column(data_type: &DataType) -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("c", data_type.clone(), true)]))
}

/// Appends three rows to a table with a column of the given type; returns its rows.
fn append_to_column(data_type: &DataType, array: &ArrayRef) -> arrowwood::Result<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let mut writer = Writer::open(&path, Some(single_column(data_type)), &WriterOptions::default()).unwrap();
    let batch = RecordBatch::try_new(single_column(array.data_type()), vec![array.clone()]).unwrap();
    let appended = writer.append(&batch);
    assert_eq!(writer.rows(), if appended.is_ok() { 3 } else { 0 });
    writer.close().unwrap();
    let dataset = open(&path).unwrap();
    appended.map(|()| read_rows(&dataset))
}

/// Regression test: the check for nulls ignored list views, and didn't follow the offsets of dense unions. Nulls in
/// columns that are declared to have none became zeros.
#[test]
fn nulls_in_list_views_and_dense_unions_are_refused_if_declared_without_nulls() {
    const UNUSED_NULLS: Items = [None, Some(7), None, Some(8), Some(9)];
    const USED_NULL: Items = [Some(0), Some(7), Some(0), Some(8), None];
    for (items, is_valid) in [(UNUSED_NULLS, true), (USED_NULL, false)] {
        let mut cases = Vec::new();
        for array in list_view_arrays(items) {
            cases.extend(list_types_without_nulls().map(|data_type| (data_type, array.clone())));
        }
        cases.push((union_type_without_nulls(), union_array(items)));
        let in_structs: Vec<_> = cases
            .iter()
            .map(|(data_type, array)| {
                let field = Field::new("inside", data_type.clone(), true);
                (DataType::Struct(vec![field].into()), struct_of(array))
            })
            .collect();
        for (data_type, array) in in_structs.into_iter().chain(cases) {
            match append_to_column(&data_type, &array) {
                Ok(rows) => {
                    assert!(is_valid, "{data_type} of {array:?}: {rows:?}");
                    let is_list = rows[0].contains('[');
                    assert!(rows[0].contains('9') && rows[2].contains(if is_list { '7' } else { '8' }));
                }
                Err(e) => {
                    assert!(!is_valid, "{data_type} of {array:?}: {e}");
                    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
                    assert!(e.message().contains("declared without nulls"), "{e}");
                }
            }
        }
    }
}
