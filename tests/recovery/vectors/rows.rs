//! The rows of vectors, and how `expected.json` writes them.

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
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use serde_json::{Value as Json, json};

/// Rows of a number, a text that may be null, and a bit that may be null.
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

/// The rows of [`simple`], with 4,500 bytes of text in that of number `n`.
pub fn with_long_text(batch: &RecordBatch, n: i64) -> RecordBatch {
    let numbers = batch.column(0).as_primitive::<Int64Type>();
    let old = batch.column(1).as_string::<i32>();
    let long = "forty-five hundred bytes of text, ".repeat(133)[..4500].to_string();
    let text = (0..batch.num_rows()).map(|row| match numbers.value(row) == n {
        true => Some(long.as_str()),
        false => old.is_valid(row).then(|| old.value(row)),
    });
    let text: ArrayRef = Arc::new(text.collect::<StringArray>());
    RecordBatch::try_new(batch.schema(), vec![batch.column(0).clone(), text, batch.column(2).clone()]).unwrap()
}

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

/// A column of a primitive type; every `hole`th value is null, none where that is 0.
fn numbers<T: ArrowPrimitiveType>(rows: &Range<u64>, hole: u64, value: impl Fn(u64) -> T::Native) -> PrimitiveArray<T> {
    let cell = |n: u64| (hole == 0 || n % hole != hole - 1).then(|| value(n));
    rows.clone().map(cell).collect()
}

fn texts(rows: &Range<u64>, hole: u64, value: impl Fn(u64) -> String) -> Vec<Option<String>> {
    rows.clone().map(|n| (hole == 0 || n % hole != hole - 1).then(|| value(n))).collect()
}

/// Rows with a column of every type that grows.
pub fn every_type(rows: Range<u64>) -> RecordBatch {
    let mut columns: Vec<(&str, bool, ArrayRef)> = Vec::new();
    let mut add = |name, nullable, array: ArrayRef| columns.push((name, nullable, array));
    plain(&rows, &mut add);
    times(&rows, &mut add);
    variable(&rows, &mut add);
    nested(&rows, &mut add);
    let fields: Vec<Field> =
        columns.iter().map(|(name, nullable, array)| Field::new(*name, array.data_type().clone(), *nullable)).collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

type Add<'a> = &'a mut dyn FnMut(&'static str, bool, ArrayRef);

fn plain(rows: &Range<u64>, add: Add<'_>) {
    add("i8", false, Arc::new(numbers::<Int8Type>(rows, 0, |n| -(n as i8))));
    add("i16", true, Arc::new(numbers::<Int16Type>(rows, 3, |n| 1000 - n as i16)));
    add("i32", true, Arc::new(numbers::<Int32Type>(rows, 4, |n| -(n as i32) * 100_000)));
    add("i64", false, Arc::new(numbers::<Int64Type>(rows, 0, |n| -(n as i64) << 40)));
    add("u8", true, Arc::new(numbers::<UInt8Type>(rows, 5, |n| 250 + (n % 6) as u8)));
    add("u16", false, Arc::new(numbers::<UInt16Type>(rows, 0, |n| 65_000 + n as u16)));
    add("u32", true, Arc::new(numbers::<UInt32Type>(rows, 2, |n| 4_000_000_000 + n as u32)));
    add("u64", true, Arc::new(numbers::<UInt64Type>(rows, 3, |n| (1 << 52) + n)));
    add("f16", true, Arc::new(numbers::<Float16Type>(rows, 4, |n| half::f16::from_f32(n as f32 / 4.0))));
    add("f32", false, Arc::new(numbers::<Float32Type>(rows, 0, |n| n as f32 / -8.0)));
    add("f64", true, Arc::new(numbers::<Float64Type>(rows, 5, |n| n as f64 * 1e100)));
    let bits = rows.clone().map(|n| (n % 4 != 1).then_some(n % 3 == 0));
    add("bool", true, Arc::new(bits.collect::<BooleanArray>()));
    add("bool_full", false, Arc::new(BooleanArray::from_iter(rows.clone().map(|n| Some(n % 2 == 1)))));
    let small = numbers::<Decimal32Type>(rows, 3, |n| n as i32 * 1001).with_precision_and_scale(9, 2).unwrap();
    add("decimal32", true, Arc::new(small));
    let middle =
        numbers::<Decimal64Type>(rows, 0, |n| -(n as i64) * 1_000_001).with_precision_and_scale(18, 3).unwrap();
    add("decimal64", false, Arc::new(middle));
    let large = numbers::<Decimal128Type>(rows, 4, |n| (n as i128 + 1) * 10i128.pow(25));
    add("decimal128", true, Arc::new(large.with_precision_and_scale(30, 4).unwrap()));
    let huge = numbers::<Decimal256Type>(rows, 2, |n| arrow_buffer::i256::from_i128(-(n as i128) * 10i128.pow(35)));
    add("decimal256", true, Arc::new(huge.with_precision_and_scale(60, 7).unwrap()));
    let bytes = rows.clone().map(|n| (n % 3 != 0).then_some([n as u8, 0, 255]));
    add("fixed_3", true, Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 3).unwrap()));
}

fn times(rows: &Range<u64>, add: Add<'_>) {
    let day = 86_400_000;
    add("date32", true, Arc::new(numbers::<Date32Type>(rows, 3, |n| 20_000 + n as i32)));
    add("date64", false, Arc::new(numbers::<Date64Type>(rows, 0, |n| day * (20_000 + n as i64))));
    add("time_s", true, Arc::new(numbers::<Time32SecondType>(rows, 4, |n| 3600 + n as i32)));
    add("time_ms", false, Arc::new(numbers::<Time32MillisecondType>(rows, 0, |n| 3_600_000 + n as i32)));
    add("time_us", true, Arc::new(numbers::<Time64MicrosecondType>(rows, 5, |n| 7_200_000_000 + n as i64)));
    add("time_ns", true, Arc::new(numbers::<Time64NanosecondType>(rows, 2, |n| 1000 * n as i64)));
    let at = |n: u64| 1_790_000_000_000_000 + n as i64 * 1_000_000;
    add("timestamp_utc", true, Arc::new(numbers::<TimestampMicrosecondType>(rows, 3, at).with_timezone("UTC")));
    add("timestamp_s", false, Arc::new(numbers::<TimestampSecondType>(rows, 0, |n| -(n as i64))));
    add("duration_ms", true, Arc::new(numbers::<DurationMillisecondType>(rows, 4, |n| 1500 * n as i64)));
    let interval = |n: u64| IntervalMonthDayNano::new(n as i32, -1, 1_000_000 * n as i64);
    add("interval", true, Arc::new(numbers::<IntervalMonthDayNanoType>(rows, 3, interval)));
}

fn variable(rows: &Range<u64>, add: Add<'_>) {
    let short = texts(rows, 3, |n| "é".repeat(n as usize % 4));
    let long = texts(rows, 4, |n| format!("more than twelve bytes, {n}"));
    let full = texts(rows, 0, |n| n.to_string());
    let bytes = |texts: &[Option<String>]| texts.iter().map(|t| t.clone().map(String::into_bytes)).collect::<Vec<_>>();
    add("utf8", true, Arc::new(StringArray::from_iter(short.clone())));
    add("utf8_full", false, Arc::new(StringArray::from_iter(full.clone())));
    add("large_utf8", true, Arc::new(LargeStringArray::from_iter(long.clone())));
    add("binary", true, Arc::new(BinaryArray::from_iter(bytes(&short))));
    add("large_binary", true, Arc::new(LargeBinaryArray::from_iter(bytes(&long))));
    let mixed = rows.clone().map(|n| if n % 2 == 0 { short[n as usize].clone() } else { long[n as usize].clone() });
    let mixed: Vec<Option<String>> = mixed.collect();
    add("utf8_view", true, Arc::new(StringViewArray::from_iter(mixed.clone())));
    add("binary_view", true, Arc::new(BinaryViewArray::from_iter(bytes(&mixed))));
    let keys = rows.clone().map(|n| (n % 5 != 3).then(|| ["red", "green", "blue"][n as usize % 3]));
    add("dictionary", true, Arc::new(keys.collect::<DictionaryArray<Int32Type>>()));
}

fn nested(rows: &Range<u64>, add: Add<'_>) {
    let items =
        |n: u64| (n % 4 != 2).then(|| (0..n as i32 % 4).map(|k| (k != 1).then_some(k * n as i32)).collect::<Vec<_>>());
    add("list", true, Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows.clone().map(items))));
    let mut lists = LargeListBuilder::new(ListBuilder::new(StringBuilder::new()));
    let mut triples = FixedSizeListBuilder::new(Float32Builder::new(), 3);
    let mut words = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
    for n in rows.clone() {
        for k in 0..n % 3 {
            lists.values().append_value((0..k + 1).map(|k| (k != 1).then(|| "x".repeat(k as usize))));
        }
        lists.append(n % 5 != 4);
        triples.values().append_slice(&[n as f32, 0.5, -1.0]);
        triples.append(n % 3 != 1);
        words.append_value([Some("green"), None, Some(["a", "b"][n as usize % 2])]);
    }
    add("large_list_of_lists", true, Arc::new(lists.finish()));
    add("fixed_size_list", true, Arc::new(triples.finish()));
    add("list_of_dictionary", false, Arc::new(words.finish()));
    let members = vec![Field::new("a", DataType::Int8, false), field("u", DataType::Utf8)];
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(numbers::<Int8Type>(rows, 0, |n| n as i8)),
        Arc::new(StringArray::from_iter(texts(rows, 2, |n| format!("u{n}")))),
    ];
    let valid: NullBuffer = rows.clone().map(|n| n % 6 != 5).collect::<Vec<bool>>().into();
    add("struct", true, Arc::new(StructArray::new(members.into(), arrays, Some(valid))));
    add("deep", false, Arc::new(deep(rows)));
}

/// Rows with a column of each type whose parts refer to each other: list views, maps, unions, dictionaries of many kinds.
pub fn types_that_refer(rows: Range<u64>) -> RecordBatch {
    let n = (rows.end - rows.start) as usize;
    let words = || StringArray::from_iter(texts(&rows, 3, |n| format!("word {n}")));
    let item = |array: &dyn Array| Arc::new(field("item", array.data_type().clone()));
    let lens = OffsetBuffer::<i32>::from_lengths(rows.clone().map(|n| n as usize % 3));
    let starts: Vec<i32> = lens.iter().take(n).copied().collect();
    let sizes: Vec<i32> = rows.clone().map(|n| n as i32 % 3).collect();
    let items: ArrayRef = Arc::new(numbers::<Int16Type>(&(0..lens[n] as u64), 4, |n| n as i16));
    let valid: NullBuffer = rows.clone().map(|n| n % 5 != 2).collect::<Vec<bool>>().into();
    let views = ListViewArray::new(item(&items), starts.into(), sizes.into(), items, Some(valid));
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for n in rows.clone() {
        (0..n % 3).for_each(|k| {
            maps.keys().append_value(format!("key {k}"));
            maps.values().append_option((k != 1).then_some(n as i32));
        });
        maps.append(n % 4 != 3).unwrap();
    }
    let union = |is_dense: bool| {
        let children: Vec<ArrayRef> = vec![Arc::new(numbers::<Int64Type>(&rows, 4, |n| n as i64)), Arc::new(words())];
        let members = [(5, item(&children[0])), (0, item(&children[1]))].into_iter().collect();
        let ids: Vec<i8> = rows.clone().map(|n| if n % 3 == 1 { 5 } else { 0 }).collect();
        UnionArray::try_new(members, ids.into(), is_dense.then(|| (0..n as i32).collect()), children).unwrap()
    };
    let mut amounts = PrimitiveDictionaryBuilder::<UInt16Type, Int64Type>::new();
    rows.clone().for_each(|n| amounts.append_option((n % 4 != 1).then_some(n as i64 % 3 * 1_000_000_007)));
    let short = words().iter().collect::<DictionaryArray<Int8Type>>();
    let as_views = |n: u64| if n.is_multiple_of(2) { format!("{n}") } else { format!("longer than twelve bytes, {n}") };
    let mixed = StringArray::from_iter(texts(&rows, 5, as_views)).iter().collect::<DictionaryArray<Int64Type>>();
    let mixed = mixed.with_values(Arc::new(mixed.values().as_string::<i32>().iter().collect::<StringViewArray>()));
    let columns: [(&str, ArrayRef); 8] = [
        ("null", Arc::new(NullArray::new(n))),
        ("list_view", Arc::new(views)),
        ("map", Arc::new(maps.finish())),
        ("dense_union", Arc::new(union(true))),
        ("sparse_union", Arc::new(union(false))),
        ("dictionary_i8_utf8", Arc::new(short)),
        ("dictionary_u16_i64", Arc::new(amounts.finish())),
        ("dictionary_i64_utf8_view", Arc::new(mixed)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Structs of lists of structs of times, the lists and the inner structs with nulls.
fn deep(rows: &Range<u64>) -> StructArray {
    let lens: Vec<usize> = rows.clone().map(|n| n as usize % 3).collect();
    let all: u64 = lens.iter().map(|&len| len as u64).sum();
    let inner_fields: Fields = vec![field("y", DataType::Time32(TimeUnit::Second))].into();
    let inner: ArrayRef = Arc::new(numbers::<Time32SecondType>(&(0..all), 4, |n| n as i32));
    let valid: NullBuffer = (0..all).map(|n| n % 3 != 2).collect::<Vec<bool>>().into();
    let items = StructArray::new(inner_fields.clone(), vec![inner], Some(valid));
    let item = Arc::new(field("item", DataType::Struct(inner_fields)));
    let valid: NullBuffer = rows.clone().map(|n| n % 4 != 3).collect::<Vec<bool>>().into();
    let lists = ListArray::new(item, OffsetBuffer::from_lengths(lens), Arc::new(items), Some(valid));
    let fields: Fields = vec![field("x", lists.data_type().clone())].into();
    StructArray::new(fields, vec![Arc::new(lists)], None)
}

/// The rows of a batch as `expected.json` has them.
pub fn json_rows(batch: &RecordBatch) -> Vec<Json> {
    let schema = batch.schema();
    let row = |row: usize| {
        let cells = schema.fields().iter().zip(batch.columns());
        let cells = cells.map(|(field, array)| (field.name().clone(), cell(array, row)));
        Json::Object(cells.collect::<serde_json::Map<String, Json>>())
    };
    (0..batch.num_rows()).map(row).collect()
}

fn hex(bytes: &[u8]) -> Json {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn list(items: &ArrayRef) -> Json {
    (0..items.len()).map(|item| cell(items, item)).collect::<Vec<Json>>().into()
}

fn cell(array: &ArrayRef, row: usize) -> Json {
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
        // Times as the number that is stored.
        Int32 | Date32 | Time32(_) => stored(array, row, 4),
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => stored(array, row, 8),
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
        Binary => hex(array.as_binary::<i32>().value(row)),
        LargeBinary => hex(array.as_binary::<i64>().value(row)),
        BinaryView => hex(array.as_binary_view().value(row)),
        FixedSizeBinary(_) => hex(array.as_fixed_size_binary().value(row)),
        List(_) => list(&array.as_list::<i32>().value(row)),
        LargeList(_) => list(&array.as_list::<i64>().value(row)),
        FixedSizeList(..) => list(&array.as_fixed_size_list().value(row)),
        Struct(fields) => {
            let members = fields.iter().zip(array.as_struct().columns());
            let members = members.map(|(field, member)| (field.name().clone(), cell(member, row)));
            Json::Object(members.collect::<serde_json::Map<String, Json>>())
        }
        Null => Json::Null,
        ListView(_) => list(&array.as_list_view::<i32>().value(row)),
        Map(..) => {
            let entries = array.as_map().value(row);
            let pair = |entry| json!([cell(entries.column(0), entry), cell(entries.column(1), entry)]);
            (0..entries.len()).map(pair).collect::<Vec<Json>>().into()
        }
        Union(..) => cell(&array.as_union().value(row), 0),
        Dictionary(..) => {
            let keyed = array.as_any_dictionary();
            cell(keyed.values(), keyed.normalized_keys()[row])
        }
        other => unreachable!("no vector has {other}"),
    }
}

/// Value `row` of a column of whole numbers or times, as it stands in its buffer of values `width` bytes wide.
fn stored(array: &ArrayRef, row: usize, width: usize) -> Json {
    let data = array.to_data();
    let at = (data.offset() + row) * width;
    let bytes = &data.buffers()[0][at..at + width];
    match bytes.try_into() {
        Ok(four) => i32::from_le_bytes(four).into(),
        Err(_) => i64::from_le_bytes(bytes.try_into().unwrap()).into(),
    }
}
