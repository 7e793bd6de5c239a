//! Answers `CommandGetSqlInfo` with facts about the server's SQL.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray};
use arrow_array::{StructArray, UInt32Array, UnionArray, new_empty_array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, UnionFields};

use crate::engine::SqlEngine;
use crate::limits::Limits;

/// The value of a fact.
enum InfoValue {
    Text(String),
    Flag(bool),
    Number(i64),
    Bits(i32),
    Texts(Vec<&'static str>),
    /// No conversions.
    Conversions,
}

/// Returns the facts with their numbers in `SqlInfo`, in the order of the numbers.
///
/// They include all facts that drivers request, as some treat a missing one as a failure.
fn facts(engine: &dyn SqlEngine, limits: &Limits) -> Vec<(u32, InfoValue)> {
    let (name, version) = engine.name();
    let mut facts = vec![
        (0, InfoValue::Text(name)),
        (1, InfoValue::Text(version)),
        (2, InfoValue::Text("1.5".into())),
        (3, InfoValue::Flag(true)),
        (4, InfoValue::Flag(true)),
        (5, InfoValue::Flag(false)),
        // No transactions of the protocol; queries can be cancelled; handles don't expire.
        (8, InfoValue::Bits(0)),
        (9, InfoValue::Flag(true)),
        (10, InfoValue::Flag(false)),
        (11, InfoValue::Flag(false)),
        (100, InfoValue::Bits(0)),
        (101, InfoValue::Bits(0)),
        // Unquoted names are converted to lower case.
        (503, InfoValue::Bits(3)),
        (504, InfoValue::Text("\"".into())),
        (505, InfoValue::Bits(1)),
        (506, InfoValue::Flag(true)),
        // Nulls sort after all other values.
        (507, InfoValue::Bits(0)),
        (513, InfoValue::Text("\\".into())),
        (514, InfoValue::Text("".into())),
        (517, InfoValue::Conversions),
        // Any expressions in GROUP BY; SQL of entry and intermediate level; all outer joins.
        (522, InfoValue::Bits(3)),
        (525, InfoValue::Bits(3)),
        (526, InfoValue::Bits(3)),
        (528, InfoValue::Bits(2)),
        (529, InfoValue::Text("schema".into())),
        (530, InfoValue::Text("".into())),
        (531, InfoValue::Text("catalog".into())),
        (533, InfoValue::Bits(0)),
        (534, InfoValue::Bits(0)),
        (535, InfoValue::Bits(0)),
        // Subqueries in comparisons, EXISTS and IN; UNION and UNION ALL.
        (538, InfoValue::Bits(7)),
        (540, InfoValue::Bits(3)),
        (557, InfoValue::Number(super::handle::MAX_HANDLE_LEN as i64)),
        (558, InfoValue::Number(i64::try_from(limits.statements).unwrap_or(i64::MAX))),
        (562, InfoValue::Bits(0)),
        (564, InfoValue::Bits(1)),
        // Results are read forward, and not updated.
        (567, InfoValue::Bits(2)),
    ];
    facts.extend((508..513).map(|number| (number, InfoValue::Texts(Vec::new()))));
    let true_flags = [515, 516, 518, 520, 521, 523, 524, 532, 539, 574];
    let false_flags = [500, 501, 502, 519, 527, 536, 537, 556, 563, 565, 566, 572, 573, 575, 576];
    facts.extend(true_flags.map(|number| (number, InfoValue::Flag(true))));
    facts.extend(false_flags.map(|number| (number, InfoValue::Flag(false))));
    // Other sizes have no limits, for which 0 stands.
    facts.extend((541..=561).filter(|n| ![556, 557, 558].contains(n)).map(|number| (number, InfoValue::Number(0))));
    facts.extend((568..572).map(|number| (number, InfoValue::Bits(if number == 569 { 2 } else { 0 }))));
    facts.sort_by_key(|(number, _)| *number);
    debug_assert!(facts.is_sorted_by(|(a, _), (b, _)| a < b), "two facts have one number");
    facts
}

fn list(items: Field) -> DataType {
    DataType::List(Arc::new(items))
}

fn entries() -> Fields {
    let values = list(Field::new("$data$", DataType::Int32, true));
    vec![Field::new("key", DataType::Int32, false), Field::new("value", values, true)].into()
}

/// Returns the types of values, in the order of their numbers in the union.
fn members() -> [Field; 6] {
    let map = DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries()), false)), false);
    [
        Field::new("string_value", DataType::Utf8, true),
        Field::new("bool_value", DataType::Boolean, true),
        Field::new("bigint_value", DataType::Int64, true),
        Field::new("int32_bitmask", DataType::Int32, true),
        Field::new("string_list", list(Field::new("item", DataType::Utf8, true)), true),
        Field::new("int32_to_int32_list_map", map, true),
    ]
}

fn fields() -> UnionFields {
    (0..).zip(members().map(Arc::new)).collect()
}

/// Returns the columns of the result.
pub(super) fn schema() -> Arc<Schema> {
    let value = DataType::Union(fields(), arrow_schema::UnionMode::Dense);
    Arc::new(Schema::new(vec![Field::new("info_name", DataType::UInt32, false), Field::new("value", value, false)]))
}

/// Returns the facts with the numbers `wanted`, or all facts if it is empty.
pub(super) fn info(engine: &dyn SqlEngine, limits: &Limits, wanted: &[u32]) -> Result<RecordBatch, ArrowError> {
    let mut facts = facts(engine, limits);
    facts.retain(|(number, _)| wanted.is_empty() || wanted.contains(number));
    let mut texts = Vec::new();
    let mut flags = Vec::new();
    let mut numbers = Vec::new();
    let mut bits = Vec::new();
    let mut lists: Vec<Vec<&str>> = Vec::new();
    let mut maps = 0;
    let mut types: Vec<i8> = Vec::new();
    let mut offsets: Vec<i32> = Vec::new();
    for (_, fact) in &facts {
        let (type_id, offset) = match fact {
            InfoValue::Text(text) => (0, push(&mut texts, text.as_str())),
            InfoValue::Flag(flag) => (1, push(&mut flags, *flag)),
            InfoValue::Number(number) => (2, push(&mut numbers, *number)),
            InfoValue::Bits(value) => (3, push(&mut bits, *value)),
            InfoValue::Texts(values) => (4, push(&mut lists, values.clone())),
            InfoValue::Conversions => (5, std::mem::replace(&mut maps, 1)),
        };
        types.push(type_id);
        // There are some hundred facts.
        offsets.push(offset as i32);
    }
    let children: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(flags)),
        Arc::new(Int64Array::from(numbers)),
        Arc::new(Int32Array::from(bits)),
        list_array(&lists)?,
        empty_maps(maps)?,
    ];
    let union = UnionArray::try_new(fields(), ScalarBuffer::from(types), Some(ScalarBuffer::from(offsets)), children)?;
    let names = UInt32Array::from_iter_values(facts.iter().map(|(number, _)| *number));
    RecordBatch::try_new(schema(), vec![Arc::new(names), Arc::new(union)])
}

/// Adds a value, and returns its offset.
fn push<T>(values: &mut Vec<T>, value: T) -> usize {
    values.push(value);
    values.len() - 1
}

fn list_array(lists: &[Vec<&str>]) -> Result<ArrayRef, ArrowError> {
    let items = Arc::new(StringArray::from_iter_values(lists.concat()));
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
    let field = Arc::new(Field::new("item", DataType::Utf8, true));
    Ok(Arc::new(ListArray::try_new(field, offsets, items, None)?))
}

fn empty_maps(count: usize) -> Result<ArrayRef, ArrowError> {
    let columns = entries().iter().map(|field| new_empty_array(field.data_type())).collect();
    let inner = StructArray::try_new(entries(), columns, None)?;
    let field = Arc::new(Field::new("entries", DataType::Struct(entries()), false));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(0, count));
    Ok(Arc::new(MapArray::try_new(field, offsets, inner, None, false)?))
}
