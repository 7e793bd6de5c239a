//! Makes the answer to `CommandGetSqlInfo`: facts about a server's SQL.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray};
use arrow_array::{StructArray, UInt32Array, UnionArray, new_empty_array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, UnionFields};

/// The value of a fact, as a member of the union of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlInfoValue {
    /// `string_value`.
    String(String),
    /// `bool_value`.
    Bool(bool),
    /// `bigint_value`.
    BigInt(i64),
    /// `int32_bitmask`: a set of bits, or a value of an enumeration. Each value of an enumeration has the bit with its
    /// number.
    Bitmask(i32),
    /// `string_list`.
    StringList(Vec<&'static str>),
    /// `int32_to_int32_list_map` without entries: no type is converted to another one.
    EmptyMap,
}

/// The members of the union, by their type ids.
const STRING_MEMBER: i8 = 0;
const BOOL_MEMBER: i8 = 1;
const BIGINT_MEMBER: i8 = 2;
const BITMASK_MEMBER: i8 = 3;
const LIST_MEMBER: i8 = 4;
const MAP_MEMBER: i8 = 5;

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

/// Returns the columns of the answer.
pub fn sql_info_schema() -> Arc<Schema> {
    let value = DataType::Union(fields(), arrow_schema::UnionMode::Dense);
    Arc::new(Schema::new(vec![Field::new("info_name", DataType::UInt32, false), Field::new("value", value, false)]))
}

/// Returns the answer: facts with their numbers, of which [`info_number`](crate::sql::info_number) has a list.
///
/// # Errors
/// Those of arrays and of [`RecordBatch::try_new`], which are bugs here.
pub fn sql_info(facts: &[(u32, SqlInfoValue)]) -> Result<RecordBatch, ArrowError> {
    let mut texts = Vec::new();
    let mut flags = Vec::new();
    let mut numbers = Vec::new();
    let mut bits = Vec::new();
    let mut lists: Vec<Vec<&str>> = Vec::new();
    let mut maps = 0;
    let mut types: Vec<i8> = Vec::new();
    let mut offsets: Vec<i32> = Vec::new();
    for (_, fact) in facts {
        let (type_id, offset) = match fact {
            SqlInfoValue::String(text) => (STRING_MEMBER, push(&mut texts, text.as_str())),
            SqlInfoValue::Bool(flag) => (BOOL_MEMBER, push(&mut flags, *flag)),
            SqlInfoValue::BigInt(number) => (BIGINT_MEMBER, push(&mut numbers, *number)),
            SqlInfoValue::Bitmask(value) => (BITMASK_MEMBER, push(&mut bits, *value)),
            SqlInfoValue::StringList(values) => (LIST_MEMBER, push(&mut lists, values.clone())),
            SqlInfoValue::EmptyMap => (MAP_MEMBER, std::mem::replace(&mut maps, 1)),
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
    RecordBatch::try_new(sql_info_schema(), vec![Arc::new(names), Arc::new(union)])
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

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type, UInt32Type};

    use super::*;

    #[test]
    fn values_are_members_of_their_type() {
        let facts = [
            (0, SqlInfoValue::String("name".into())),
            (3, SqlInfoValue::Bool(true)),
            (541, SqlInfoValue::BigInt(-5)),
            (522, SqlInfoValue::Bitmask(3)),
            (508, SqlInfoValue::StringList(vec!["a", "b"])),
            (509, SqlInfoValue::StringList(Vec::new())),
            (517, SqlInfoValue::EmptyMap),
            (1, SqlInfoValue::String("version".into())),
        ];
        let batch = sql_info(&facts).unwrap();
        assert_eq!(batch.schema(), sql_info_schema());
        let names = batch.column(0).as_primitive::<UInt32Type>().values().to_vec();
        assert_eq!(names, facts.iter().map(|(number, _)| *number).collect::<Vec<_>>());
        let values = batch.column(1).as_union();
        for (row, (number, value)) in facts.iter().enumerate() {
            let found = values.value(row);
            let read = match value {
                SqlInfoValue::String(_) => SqlInfoValue::String(found.as_string::<i32>().value(0).into()),
                SqlInfoValue::Bool(_) => SqlInfoValue::Bool(found.as_boolean().value(0)),
                SqlInfoValue::BigInt(_) => SqlInfoValue::BigInt(found.as_primitive::<Int64Type>().value(0)),
                SqlInfoValue::Bitmask(_) => SqlInfoValue::Bitmask(found.as_primitive::<Int32Type>().value(0)),
                SqlInfoValue::StringList(texts) => {
                    assert_eq!(found.as_list::<i32>().value(0).len(), texts.len(), "{number}");
                    continue;
                }
                SqlInfoValue::EmptyMap => {
                    assert_eq!(found.as_map().value_length(0), 0);
                    continue;
                }
            };
            assert_eq!(&read, value, "{number}");
        }
    }
}
