//! The rows of golden vectors, and their representation in `expected.json`.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Float32Builder, Int32Builder, LargeListBuilder, ListBuilder, MapBuilder,
    PrimitiveDictionaryBuilder, StringBuilder, StringDictionaryBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{IntervalMonthDayNano, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit, UnionMode};
use serde_json::{Value as Json, json};

/// Returns rows with a number, a nullable text and a nullable bit.
pub fn simple(rows: Range<u64>) -> RecordBatch {
    let fields = [
        Field::new("n", DataType::Int64, false),
        Field::new("s", DataType::Utf8, true),
        Field::new("b", DataType::Boolean, true),
    ];
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|n| n as i64))),
        Arc::new(StringArray::from_iter(rows.clone().map(|n| (n % 3 != 1).then(|| format!("row {}", n % 5))))),
        Arc::new(BooleanArray::from_iter(rows.map(|n| (n % 4 != 2).then_some(n % 2 == 0)))),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns.to_vec()).unwrap()
}

/// Replaces the text of the [`simple`] row with number `n` by 4,500 bytes of text.
pub fn with_long_text(batch: &RecordBatch, n: i64) -> RecordBatch {
    let numbers = batch.column(0).as_primitive::<Int64Type>();
    let texts = batch.column(1).as_string::<i32>();
    let long_text = "forty-five hundred bytes of text, ".repeat(133)[..4500].to_string();
    let new_texts = numbers.values().iter().zip(texts).map(
        |(&number, text)| {
            if number == n { Some(long_text.as_str()) } else { text }
        },
    );
    let new_texts: ArrayRef = Arc::new(new_texts.collect::<StringArray>());
    RecordBatch::try_new(batch.schema(), vec![batch.column(0).clone(), new_texts, batch.column(2).clone()]).unwrap()
}

fn nullable_field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

/// Returns true if the value of row `n` is null: every `null_step`th one, and none if that is 0.
fn is_null(n: u64, null_step: u64) -> bool {
    null_step != 0 && n % null_step == null_step - 1
}

/// Returns a column of a primitive type; every `null_step`th value is null, none if that is 0.
fn primitives<T: ArrowPrimitiveType>(
    rows: &Range<u64>,
    null_step: u64,
    value: impl Fn(u64) -> T::Native,
) -> PrimitiveArray<T> {
    rows.clone().map(|n| (!is_null(n, null_step)).then(|| value(n))).collect()
}

/// Returns texts; every `null_step`th one is null, none if that is 0.
fn texts(rows: &Range<u64>, null_step: u64, value: impl Fn(u64) -> String) -> Vec<Option<String>> {
    rows.clone().map(|n| (!is_null(n, null_step)).then(|| value(n))).collect()
}

fn to_bytes(texts: &[Option<String>]) -> Vec<Option<Vec<u8>>> {
    texts.iter().map(|text| text.clone().map(String::into_bytes)).collect()
}

/// Returns rows with a column of every type whose values have a place of their own, and of text and lists.
pub fn every_type(rows: Range<u64>) -> RecordBatch {
    let mut columns = Columns::default();
    add_primitives(&rows, &mut columns);
    add_times(&rows, &mut columns);
    add_variable_width(&rows, &mut columns);
    add_nested(&rows, &mut columns);
    columns.into_batch()
}

/// The columns of a batch in the making.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn add(&mut self, name: &str, is_nullable: bool, array: impl Array + 'static) {
        self.fields.push(Field::new(name, array.data_type().clone(), is_nullable));
        self.arrays.push(Arc::new(array));
    }

    fn into_batch(self) -> RecordBatch {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays).unwrap()
    }
}

fn add_primitives(rows: &Range<u64>, columns: &mut Columns) {
    columns.add("i8", false, primitives::<Int8Type>(rows, 0, |n| -(n as i8)));
    columns.add("i16", true, primitives::<Int16Type>(rows, 3, |n| 1000 - n as i16));
    columns.add("i32", true, primitives::<Int32Type>(rows, 4, |n| -(n as i32) * 100_000));
    columns.add("i64", false, primitives::<Int64Type>(rows, 0, |n| -(n as i64) << 40));
    columns.add("u8", true, primitives::<UInt8Type>(rows, 5, |n| 250 + (n % 6) as u8));
    columns.add("u16", false, primitives::<UInt16Type>(rows, 0, |n| 65_000 + n as u16));
    columns.add("u32", true, primitives::<UInt32Type>(rows, 2, |n| 4_000_000_000 + n as u32));
    columns.add("u64", true, primitives::<UInt64Type>(rows, 3, |n| (1 << 52) + n));
    columns.add("f16", true, primitives::<Float16Type>(rows, 4, |n| half::f16::from_f32(n as f32 / 4.0)));
    columns.add("f32", false, primitives::<Float32Type>(rows, 0, |n| n as f32 / -8.0));
    columns.add("f64", true, primitives::<Float64Type>(rows, 5, |n| n as f64 * 1e100));
    let bits = rows.clone().map(|n| (n % 4 != 1).then_some(n % 3 == 0));
    columns.add("bool", true, bits.collect::<BooleanArray>());
    columns.add("bool_full", false, BooleanArray::from_iter(rows.clone().map(|n| Some(n % 2 == 1))));
    let small = primitives::<Decimal32Type>(rows, 3, |n| n as i32 * 1001).with_precision_and_scale(9, 2).unwrap();
    columns.add("decimal32", true, small);
    let middle =
        primitives::<Decimal64Type>(rows, 0, |n| -(n as i64) * 1_000_001).with_precision_and_scale(18, 3).unwrap();
    columns.add("decimal64", false, middle);
    let large = primitives::<Decimal128Type>(rows, 4, |n| (n as i128 + 1) * 10i128.pow(25));
    columns.add("decimal128", true, large.with_precision_and_scale(30, 4).unwrap());
    let huge = primitives::<Decimal256Type>(rows, 2, |n| arrow_buffer::i256::from_i128(-(n as i128) * 10i128.pow(35)));
    columns.add("decimal256", true, huge.with_precision_and_scale(60, 7).unwrap());
    let bytes = rows.clone().map(|n| (n % 3 != 0).then_some([n as u8, 0, 255]));
    columns.add("fixed_3", true, FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 3).unwrap());
}

fn add_times(rows: &Range<u64>, columns: &mut Columns) {
    const MS_PER_DAY: i64 = 86_400_000;
    columns.add("date32", true, primitives::<Date32Type>(rows, 3, |n| 20_000 + n as i32));
    columns.add("date64", false, primitives::<Date64Type>(rows, 0, |n| MS_PER_DAY * (20_000 + n as i64)));
    columns.add("time_s", true, primitives::<Time32SecondType>(rows, 4, |n| 3600 + n as i32));
    columns.add("time_ms", false, primitives::<Time32MillisecondType>(rows, 0, |n| 3_600_000 + n as i32));
    columns.add("time_us", true, primitives::<Time64MicrosecondType>(rows, 5, |n| 7_200_000_000 + n as i64));
    columns.add("time_ns", true, primitives::<Time64NanosecondType>(rows, 2, |n| 1000 * n as i64));
    let timestamps = primitives::<TimestampMicrosecondType>(rows, 3, |n| 1_790_000_000_000_000 + n as i64 * 1_000_000);
    columns.add("timestamp_utc", true, timestamps.with_timezone("UTC"));
    columns.add("timestamp_s", false, primitives::<TimestampSecondType>(rows, 0, |n| -(n as i64)));
    columns.add("duration_ms", true, primitives::<DurationMillisecondType>(rows, 4, |n| 1500 * n as i64));
    let intervals = primitives::<IntervalMonthDayNanoType>(rows, 3, |n| {
        IntervalMonthDayNano::new(n as i32, -1, 1_000_000 * n as i64)
    });
    columns.add("interval", true, intervals);
}

fn add_variable_width(rows: &Range<u64>, columns: &mut Columns) {
    let short = texts(rows, 3, |n| "é".repeat(n as usize % 4));
    let long = texts(rows, 4, |n| format!("more than twelve bytes, {n}"));
    let full = texts(rows, 0, |n| n.to_string());
    columns.add("utf8", true, StringArray::from_iter(short.clone()));
    columns.add("utf8_full", false, StringArray::from_iter(full));
    columns.add("large_utf8", true, LargeStringArray::from_iter(long.clone()));
    columns.add("binary", true, BinaryArray::from_iter(to_bytes(&short)));
    columns.add("large_binary", true, LargeBinaryArray::from_iter(to_bytes(&long)));
    // Views have short texts inline, and refer to long ones.
    let mut mixed = Vec::new();
    for n in rows.clone() {
        let texts = if n % 2 == 0 { &short } else { &long };
        mixed.push(texts[n as usize].clone());
    }
    columns.add("utf8_view", true, StringViewArray::from_iter(mixed.clone()));
    columns.add("binary_view", true, BinaryViewArray::from_iter(to_bytes(&mixed)));
    let colors = rows.clone().map(|n| (n % 5 != 3).then(|| ["red", "green", "blue"][n as usize % 3]));
    columns.add("dictionary", true, colors.collect::<DictionaryArray<Int32Type>>());
}

fn add_nested(rows: &Range<u64>, columns: &mut Columns) {
    let int_lists = rows.clone().map(|n| {
        let items = (0..n as i32 % 4).map(|k| (k != 1).then_some(k * n as i32));
        (n % 4 != 2).then(|| items.collect::<Vec<_>>())
    });
    columns.add("list", true, ListArray::from_iter_primitive::<Int32Type, _, _>(int_lists));
    let mut lists_of_lists = LargeListBuilder::new(ListBuilder::new(StringBuilder::new()));
    let mut triples = FixedSizeListBuilder::new(Float32Builder::new(), 3);
    let mut words = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
    for n in rows.clone() {
        for len in 1..n % 3 + 1 {
            lists_of_lists.values().append_value((0..len).map(|k| (k != 1).then(|| "x".repeat(k as usize))));
        }
        lists_of_lists.append(n % 5 != 4);
        triples.values().append_slice(&[n as f32, 0.5, -1.0]);
        triples.append(n % 3 != 1);
        words.append_value([Some("green"), None, Some(["a", "b"][n as usize % 2])]);
    }
    columns.add("large_list_of_lists", true, lists_of_lists.finish());
    columns.add("fixed_size_list", true, triples.finish());
    columns.add("list_of_dictionary", false, words.finish());
    let fields = vec![Field::new("a", DataType::Int8, false), nullable_field("u", DataType::Utf8)];
    let members: Vec<ArrayRef> = vec![
        Arc::new(primitives::<Int8Type>(rows, 0, |n| n as i8)),
        Arc::new(StringArray::from_iter(texts(rows, 2, |n| format!("u{n}")))),
    ];
    let validity: NullBuffer = rows.clone().map(|n| n % 6 != 5).collect::<Vec<bool>>().into();
    columns.add("struct", true, StructArray::new(fields.into(), members, Some(validity)));
    columns.add("deep", false, structs_of_lists_of_structs(rows));
}

/// Returns structs of lists of structs of times; the lists and the inner structs have nulls.
fn structs_of_lists_of_structs(rows: &Range<u64>) -> StructArray {
    let lens: Vec<usize> = rows.clone().map(|n| n as usize % 3).collect();
    let item_count: u64 = lens.iter().map(|&len| len as u64).sum();
    let inner_fields: Fields = vec![nullable_field("y", DataType::Time32(TimeUnit::Second))].into();
    let times: ArrayRef = Arc::new(primitives::<Time32SecondType>(&(0..item_count), 4, |n| n as i32));
    let inner_validity: NullBuffer = (0..item_count).map(|n| n % 3 != 2).collect::<Vec<bool>>().into();
    let items = StructArray::new(inner_fields.clone(), vec![times], Some(inner_validity));
    let item_field = Arc::new(nullable_field("item", DataType::Struct(inner_fields)));
    let list_validity: NullBuffer = rows.clone().map(|n| n % 4 != 3).collect::<Vec<bool>>().into();
    let lists = ListArray::new(item_field, OffsetBuffer::from_lengths(lens), Arc::new(items), Some(list_validity));
    let fields: Fields = vec![nullable_field("x", lists.data_type().clone())].into();
    StructArray::new(fields, vec![Arc::new(lists)], None)
}

/// Returns rows with a column of each type whose values refer to other arrays: list views, maps, unions and dictionaries.
pub fn referencing_types(rows: Range<u64>) -> RecordBatch {
    let short_dictionary = words(&rows).iter().collect::<DictionaryArray<Int8Type>>();
    let mut amounts = PrimitiveDictionaryBuilder::<UInt16Type, Int64Type>::new();
    for n in rows.clone() {
        amounts.append_option((n % 4 != 1).then_some(n as i64 % 3 * 1_000_000_007));
    }
    let columns: [(&str, ArrayRef); 8] = [
        ("null", Arc::new(NullArray::new((rows.end - rows.start) as usize))),
        ("list_view", Arc::new(list_views(&rows))),
        ("map", Arc::new(maps(&rows))),
        ("dense_union", Arc::new(unions(&rows, UnionMode::Dense))),
        ("sparse_union", Arc::new(unions(&rows, UnionMode::Sparse))),
        ("dictionary_i8_utf8", Arc::new(short_dictionary)),
        ("dictionary_u16_i64", Arc::new(amounts.finish())),
        ("dictionary_i64_utf8_view", Arc::new(dictionary_of_views(&rows))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn words(rows: &Range<u64>) -> StringArray {
    StringArray::from_iter(texts(rows, 3, |n| format!("word {n}")))
}

fn item_field(array: &ArrayRef) -> Arc<Field> {
    Arc::new(nullable_field("item", array.data_type().clone()))
}

fn list_views(rows: &Range<u64>) -> ListViewArray {
    let row_count = (rows.end - rows.start) as usize;
    let offsets = OffsetBuffer::<i32>::from_lengths(rows.clone().map(|n| n as usize % 3));
    let starts: Vec<i32> = offsets.iter().take(row_count).copied().collect();
    let sizes: Vec<i32> = rows.clone().map(|n| n as i32 % 3).collect();
    let items: ArrayRef = Arc::new(primitives::<Int16Type>(&(0..offsets[row_count] as u64), 4, |n| n as i16));
    let validity: NullBuffer = rows.clone().map(|n| n % 5 != 2).collect::<Vec<bool>>().into();
    ListViewArray::new(item_field(&items), starts.into(), sizes.into(), items, Some(validity))
}

fn maps(rows: &Range<u64>) -> MapArray {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for n in rows.clone() {
        for k in 0..n % 3 {
            maps.keys().append_value(format!("key {k}"));
            maps.values().append_option((k != 1).then_some(n as i32));
        }
        maps.append(n % 4 != 3).unwrap();
    }
    maps.finish()
}

/// Returns unions of numbers (type id 5) and words (type id 0).
fn unions(rows: &Range<u64>, mode: UnionMode) -> UnionArray {
    let children: Vec<ArrayRef> = vec![Arc::new(primitives::<Int64Type>(rows, 4, |n| n as i64)), Arc::new(words(rows))];
    let fields = [(5, item_field(&children[0])), (0, item_field(&children[1]))].into_iter().collect();
    let type_ids: Vec<i8> = rows.clone().map(|n| if n % 3 == 1 { 5 } else { 0 }).collect();
    let offsets = match mode {
        UnionMode::Dense => Some((0..type_ids.len() as i32).collect()),
        UnionMode::Sparse => None,
    };
    UnionArray::try_new(fields, type_ids.into(), offsets, children).unwrap()
}

/// Returns a dictionary whose entries are inline views and references to longer texts.
fn dictionary_of_views(rows: &Range<u64>) -> DictionaryArray<Int64Type> {
    let texts =
        texts(rows, 5, |n| if n.is_multiple_of(2) { format!("{n}") } else { format!("longer than twelve bytes, {n}") });
    let dictionary = StringArray::from_iter(texts).iter().collect::<DictionaryArray<Int64Type>>();
    let views = dictionary.values().as_string::<i32>().iter().collect::<StringViewArray>();
    dictionary.with_values(Arc::new(views))
}

/// Converts the rows of a batch to objects, as `expected.json` has them.
pub fn json_rows(batch: &RecordBatch) -> Vec<Json> {
    let schema = batch.schema();
    (0..batch.num_rows()).map(|row| json_object(schema.fields(), batch.columns(), row)).collect()
}

fn json_object(fields: &Fields, arrays: &[ArrayRef], row: usize) -> Json {
    let mut object = serde_json::Map::new();
    for (field, array) in fields.iter().zip(arrays) {
        object.insert(field.name().clone(), json_cell(array, row));
    }
    Json::Object(object)
}

fn hex_string(bytes: &[u8]) -> Json {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn json_list(items: &ArrayRef) -> Json {
    (0..items.len()).map(|item| json_cell(items, item)).collect::<Vec<Json>>().into()
}

fn json_cell(array: &ArrayRef, row: usize) -> Json {
    use DataType::*;
    if array.is_null(row) {
        return Json::Null;
    }
    match array.data_type() {
        Boolean => array.as_boolean().value(row).into(),
        Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        Float16 => array.as_primitive::<Float16Type>().value(row).to_f64().into(),
        Float32 => f64::from(array.as_primitive::<Float32Type>().value(row)).into(),
        Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        // Times are shown as the stored number.
        Int32 | Date32 | Time32(_) => stored_integer(array, row, 4),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => stored_integer(array, row, 8),
        Interval(_) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            json!([value.months, value.days, value.nanoseconds])
        }
        Decimal32(..) => array.as_primitive::<Decimal32Type>().value_as_string(row).into(),
        Decimal64(..) => array.as_primitive::<Decimal64Type>().value_as_string(row).into(),
        Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row).into(),
        Decimal256(..) => array.as_primitive::<Decimal256Type>().value_as_string(row).into(),
        Utf8 => array.as_string::<i32>().value(row).into(),
        LargeUtf8 => array.as_string::<i64>().value(row).into(),
        Utf8View => array.as_string_view().value(row).into(),
        Binary => hex_string(array.as_binary::<i32>().value(row)),
        LargeBinary => hex_string(array.as_binary::<i64>().value(row)),
        BinaryView => hex_string(array.as_binary_view().value(row)),
        FixedSizeBinary(_) => hex_string(array.as_fixed_size_binary().value(row)),
        List(_) => json_list(&array.as_list::<i32>().value(row)),
        LargeList(_) => json_list(&array.as_list::<i64>().value(row)),
        FixedSizeList(..) => json_list(&array.as_fixed_size_list().value(row)),
        Struct(fields) => json_object(fields, array.as_struct().columns(), row),
        Null => Json::Null,
        ListView(_) => json_list(&array.as_list_view::<i32>().value(row)),
        Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pairs = (0..entries.len()).map(|entry| json!([json_cell(keys, entry), json_cell(values, entry)]));
            pairs.collect::<Vec<Json>>().into()
        }
        Union(..) => json_cell(&array.as_union().value(row), 0),
        Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            json_cell(dictionary.values(), dictionary.normalized_keys()[row])
        }
        other => unreachable!("no vector has {other}"),
    }
}

/// Returns value `row` of a column of integers or times, read from its buffer of values with `width` bytes each.
fn stored_integer(array: &ArrayRef, row: usize, width: usize) -> Json {
    let data = array.to_data();
    let offset = (data.offset() + row) * width;
    let bytes = &data.buffers()[0][offset..offset + width];
    if width == 4 {
        i32::from_le_bytes(bytes.try_into().unwrap()).into()
    } else {
        i64::from_le_bytes(bytes.try_into().unwrap()).into()
    }
}
