//! Answers `CommandGetSqlInfo` with facts about the server's SQL.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray};
use arrow_array::{StructArray, UInt32Array, UnionArray, new_empty_array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, UnionFields};

use crate::ops::Limits;
use crate::sql::SqlEngine;

/// The value of a fact, as a member of the union of values.
enum InfoValue {
    Text(String),
    Flag(bool),
    Number(i64),
    /// A set of bits, or a value of an enumeration.
    Bits(i32),
    Texts(Vec<&'static str>),
    /// The supported conversions between types: none.
    Conversions,
}

/// The members of the union, by their type ids.
const STRING_MEMBER: i8 = 0;
const BOOL_MEMBER: i8 = 1;
const BIGINT_MEMBER: i8 = 2;
const BITMASK_MEMBER: i8 = 3;
const LIST_MEMBER: i8 = 4;
const MAP_MEMBER: i8 = 5;

/// The numbers of facts in the enumeration `SqlInfo` of FlightSql.proto, without its prefixes.
mod number {
    pub const SERVER_NAME: u32 = 0;
    pub const SERVER_VERSION: u32 = 1;
    pub const ARROW_VERSION: u32 = 2;
    pub const READ_ONLY: u32 = 3;
    pub const SQL: u32 = 4;
    pub const SUBSTRAIT: u32 = 5;
    pub const TRANSACTION: u32 = 8;
    pub const CANCEL: u32 = 9;
    pub const BULK_INGESTION: u32 = 10;
    pub const INGEST_TRANSACTIONS_SUPPORTED: u32 = 11;
    pub const STATEMENT_TIMEOUT: u32 = 100;
    pub const TRANSACTION_TIMEOUT: u32 = 101;
    pub const DDL_CATALOG: u32 = 500;
    pub const DDL_SCHEMA: u32 = 501;
    pub const DDL_TABLE: u32 = 502;
    pub const IDENTIFIER_CASE: u32 = 503;
    pub const IDENTIFIER_QUOTE_CHAR: u32 = 504;
    pub const QUOTED_IDENTIFIER_CASE: u32 = 505;
    pub const ALL_TABLES_ARE_SELECTABLE: u32 = 506;
    pub const NULL_ORDERING: u32 = 507;
    pub const KEYWORDS: u32 = 508;
    pub const NUMERIC_FUNCTIONS: u32 = 509;
    pub const STRING_FUNCTIONS: u32 = 510;
    pub const SYSTEM_FUNCTIONS: u32 = 511;
    pub const DATETIME_FUNCTIONS: u32 = 512;
    pub const SEARCH_STRING_ESCAPE: u32 = 513;
    pub const EXTRA_NAME_CHARACTERS: u32 = 514;
    pub const COLUMN_ALIASING: u32 = 515;
    pub const NULL_PLUS_NULL_IS_NULL: u32 = 516;
    pub const CONVERT: u32 = 517;
    pub const TABLE_CORRELATION_NAMES: u32 = 518;
    pub const DIFFERENT_TABLE_CORRELATION_NAMES: u32 = 519;
    pub const EXPRESSIONS_IN_ORDER_BY: u32 = 520;
    pub const ORDER_BY_UNRELATED: u32 = 521;
    pub const GROUP_BY: u32 = 522;
    pub const LIKE_ESCAPE_CLAUSE: u32 = 523;
    pub const NON_NULLABLE_COLUMNS: u32 = 524;
    pub const GRAMMAR: u32 = 525;
    pub const ANSI92_LEVEL: u32 = 526;
    pub const INTEGRITY_ENHANCEMENT_FACILITY: u32 = 527;
    pub const OUTER_JOINS: u32 = 528;
    pub const SCHEMA_TERM: u32 = 529;
    pub const PROCEDURE_TERM: u32 = 530;
    pub const CATALOG_TERM: u32 = 531;
    pub const CATALOG_AT_START: u32 = 532;
    pub const SCHEMA_ACTIONS: u32 = 533;
    pub const CATALOG_ACTIONS: u32 = 534;
    pub const POSITIONED_COMMANDS: u32 = 535;
    pub const SELECT_FOR_UPDATE: u32 = 536;
    pub const STORED_PROCEDURES: u32 = 537;
    pub const SUBQUERIES: u32 = 538;
    pub const CORRELATED_SUBQUERIES: u32 = 539;
    pub const UNIONS: u32 = 540;
    pub const MAX_BINARY_LITERAL_LENGTH: u32 = 541;
    pub const MAX_ROW_SIZE_INCLUDES_BLOBS: u32 = 556;
    pub const MAX_STATEMENT_LENGTH: u32 = 557;
    pub const MAX_STATEMENTS: u32 = 558;
    pub const MAX_USERNAME_LENGTH: u32 = 561;
    pub const DEFAULT_TRANSACTION_ISOLATION: u32 = 562;
    pub const TRANSACTIONS: u32 = 563;
    pub const TRANSACTION_ISOLATION_LEVELS: u32 = 564;
    pub const DDL_CAUSES_COMMIT: u32 = 565;
    pub const DDL_IGNORED_IN_TRANSACTIONS: u32 = 566;
    pub const RESULT_SET_TYPES: u32 = 567;
    pub const CONCURRENCIES_UNSPECIFIED: u32 = 568;
    pub const CONCURRENCIES_FORWARD_ONLY: u32 = 569;
    pub const CONCURRENCIES_SCROLL_SENSITIVE: u32 = 570;
    pub const CONCURRENCIES_SCROLL_INSENSITIVE: u32 = 571;
    pub const BATCH_UPDATES: u32 = 572;
    pub const SAVEPOINTS: u32 = 573;
    pub const NAMED_PARAMETERS: u32 = 574;
    pub const LOCATORS_UPDATE_COPY: u32 = 575;
    pub const STORED_FUNCTIONS_BY_CALL: u32 = 576;
}

/// The bits of sets in FlightSql.proto: each value of an enumeration has the bit with its number.
mod bits {
    pub const NONE: i32 = 0;
    /// `SQL_GROUP_BY_UNRELATED` and `SQL_GROUP_BY_BEYOND_SELECT`.
    pub const ANY_GROUP_BY: i32 = 0b11;
    /// The minimum and the core grammar.
    pub const CORE_GRAMMAR: i32 = 0b11;
    /// The entry and the intermediate level of SQL-92.
    pub const INTERMEDIATE_LEVEL: i32 = 0b11;
    /// `SQL_FULL_OUTER_JOINS`.
    pub const FULL_OUTER_JOINS: i32 = 0b10;
    /// Subqueries in comparisons, `EXISTS` and `IN`.
    pub const SUBQUERIES: i32 = 0b111;
    /// `UNION` and `UNION ALL`.
    pub const UNIONS: i32 = 0b11;
    /// Only `SQL_TRANSACTION_NONE`.
    pub const NO_TRANSACTIONS: i32 = 0b1;
    /// `SQL_RESULT_SET_TYPE_FORWARD_ONLY`.
    pub const FORWARD_ONLY: i32 = 0b10;
    /// `SQL_RESULT_SET_CONCURRENCY_READ_ONLY`.
    pub const READ_ONLY: i32 = 0b10;
}

/// `SQL_CASE_SENSITIVITY_LOWERCASE`: unquoted names are converted to lower case.
const LOWER_CASE: i32 = 3;
/// `SQL_CASE_SENSITIVITY_CASE_INSENSITIVE`, of quoted names.
const QUOTED_CASE: i32 = 1;
/// `SQL_NULLS_SORTED_HIGH`: nulls sort after all other values.
const NULLS_LAST: i32 = 0;
/// `SQL_SUPPORTED_TRANSACTION_NONE`: the protocol's transactions are not supported.
const NO_TRANSACTION: i32 = 0;
/// The version of Arrow's columnar format.
const ARROW_VERSION: &str = "1.5";
/// A time or a size without a limit.
const UNLIMITED: i32 = 0;

/// Returns the facts with their numbers, in the order of the numbers.
///
/// They include all facts that drivers request, as some treat a missing one as a failure.
fn facts(engine: &dyn SqlEngine, limits: &Limits) -> Vec<(u32, InfoValue)> {
    let (name, version) = engine.name();
    let mut facts = vec![
        (number::SERVER_NAME, InfoValue::Text(name)),
        (number::SERVER_VERSION, InfoValue::Text(version)),
        (number::ARROW_VERSION, InfoValue::Text(ARROW_VERSION.into())),
        (number::TRANSACTION, InfoValue::Bits(NO_TRANSACTION)),
        (number::STATEMENT_TIMEOUT, InfoValue::Bits(UNLIMITED)),
        (number::TRANSACTION_TIMEOUT, InfoValue::Bits(UNLIMITED)),
        (number::IDENTIFIER_CASE, InfoValue::Bits(LOWER_CASE)),
        (number::IDENTIFIER_QUOTE_CHAR, InfoValue::Text("\"".into())),
        (number::QUOTED_IDENTIFIER_CASE, InfoValue::Bits(QUOTED_CASE)),
        (number::NULL_ORDERING, InfoValue::Bits(NULLS_LAST)),
        (number::SEARCH_STRING_ESCAPE, InfoValue::Text("\\".into())),
        (number::EXTRA_NAME_CHARACTERS, InfoValue::Text("".into())),
        (number::CONVERT, InfoValue::Conversions),
        (number::GROUP_BY, InfoValue::Bits(bits::ANY_GROUP_BY)),
        (number::GRAMMAR, InfoValue::Bits(bits::CORE_GRAMMAR)),
        (number::ANSI92_LEVEL, InfoValue::Bits(bits::INTERMEDIATE_LEVEL)),
        (number::OUTER_JOINS, InfoValue::Bits(bits::FULL_OUTER_JOINS)),
        (number::SCHEMA_TERM, InfoValue::Text("schema".into())),
        (number::PROCEDURE_TERM, InfoValue::Text("".into())),
        (number::CATALOG_TERM, InfoValue::Text("catalog".into())),
        (number::SCHEMA_ACTIONS, InfoValue::Bits(bits::NONE)),
        (number::CATALOG_ACTIONS, InfoValue::Bits(bits::NONE)),
        (number::POSITIONED_COMMANDS, InfoValue::Bits(bits::NONE)),
        (number::SUBQUERIES, InfoValue::Bits(bits::SUBQUERIES)),
        (number::UNIONS, InfoValue::Bits(bits::UNIONS)),
        (number::MAX_STATEMENT_LENGTH, InfoValue::Number(super::handle::MAX_HANDLE_LEN as i64)),
        (number::MAX_STATEMENTS, InfoValue::Number(i64::try_from(limits.statements).unwrap_or(i64::MAX))),
        (number::DEFAULT_TRANSACTION_ISOLATION, InfoValue::Bits(NO_TRANSACTION)),
        (number::TRANSACTION_ISOLATION_LEVELS, InfoValue::Bits(bits::NO_TRANSACTIONS)),
        (number::RESULT_SET_TYPES, InfoValue::Bits(bits::FORWARD_ONLY)),
        (number::CONCURRENCIES_UNSPECIFIED, InfoValue::Bits(bits::NONE)),
        (number::CONCURRENCIES_FORWARD_ONLY, InfoValue::Bits(bits::READ_ONLY)),
        (number::CONCURRENCIES_SCROLL_SENSITIVE, InfoValue::Bits(bits::NONE)),
        (number::CONCURRENCIES_SCROLL_INSENSITIVE, InfoValue::Bits(bits::NONE)),
    ];
    facts.extend(TRUE_FACTS.map(|number| (number, InfoValue::Flag(true))));
    facts.extend(FALSE_FACTS.map(|number| (number, InfoValue::Flag(false))));
    // Drivers get no lists of keywords and functions.
    facts.extend(LISTS.map(|number| (number, InfoValue::Texts(Vec::new()))));
    let known = [number::MAX_ROW_SIZE_INCLUDES_BLOBS, number::MAX_STATEMENT_LENGTH, number::MAX_STATEMENTS];
    let sizes = (number::MAX_BINARY_LITERAL_LENGTH..=number::MAX_USERNAME_LENGTH).filter(|n| !known.contains(n));
    facts.extend(sizes.map(|number| (number, InfoValue::Number(UNLIMITED.into()))));

    facts.sort_by_key(|(number, _)| *number);
    debug_assert!(facts.is_sorted_by(|(a, _), (b, _)| a < b), "two facts have one number");
    facts
}

/// The facts that are lists of words.
const LISTS: [u32; 5] = [
    number::KEYWORDS,
    number::NUMERIC_FUNCTIONS,
    number::STRING_FUNCTIONS,
    number::SYSTEM_FUNCTIONS,
    number::DATETIME_FUNCTIONS,
];

/// The facts that are true.
const TRUE_FACTS: [u32; 14] = [
    number::READ_ONLY,
    number::SQL,
    number::CANCEL,
    number::ALL_TABLES_ARE_SELECTABLE,
    number::COLUMN_ALIASING,
    number::NULL_PLUS_NULL_IS_NULL,
    number::TABLE_CORRELATION_NAMES,
    number::EXPRESSIONS_IN_ORDER_BY,
    number::ORDER_BY_UNRELATED,
    number::LIKE_ESCAPE_CLAUSE,
    number::NON_NULLABLE_COLUMNS,
    number::CATALOG_AT_START,
    number::CORRELATED_SUBQUERIES,
    number::NAMED_PARAMETERS,
];

/// The facts that are false.
const FALSE_FACTS: [u32; 18] = [
    number::SUBSTRAIT,
    number::BULK_INGESTION,
    number::INGEST_TRANSACTIONS_SUPPORTED,
    number::DDL_CATALOG,
    number::DDL_SCHEMA,
    number::DDL_TABLE,
    number::DIFFERENT_TABLE_CORRELATION_NAMES,
    number::INTEGRITY_ENHANCEMENT_FACILITY,
    number::SELECT_FOR_UPDATE,
    number::STORED_PROCEDURES,
    number::MAX_ROW_SIZE_INCLUDES_BLOBS,
    number::TRANSACTIONS,
    number::DDL_CAUSES_COMMIT,
    number::DDL_IGNORED_IN_TRANSACTIONS,
    number::BATCH_UPDATES,
    number::SAVEPOINTS,
    number::LOCATORS_UPDATE_COPY,
    number::STORED_FUNCTIONS_BY_CALL,
];

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
            InfoValue::Text(text) => (STRING_MEMBER, push(&mut texts, text.as_str())),
            InfoValue::Flag(flag) => (BOOL_MEMBER, push(&mut flags, *flag)),
            InfoValue::Number(number) => (BIGINT_MEMBER, push(&mut numbers, *number)),
            InfoValue::Bits(value) => (BITMASK_MEMBER, push(&mut bits, *value)),
            InfoValue::Texts(values) => (LIST_MEMBER, push(&mut lists, values.clone())),
            InfoValue::Conversions => (MAP_MEMBER, std::mem::replace(&mut maps, 1)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::BlockingEngine;

    #[test]
    fn every_fact_that_drivers_request_has_a_value_of_its_type() {
        let engine = BlockingEngine::new(|_| Err("no answer".into()));
        let facts = facts(&engine, &Limits::default());
        let numbers: Vec<u32> = facts.iter().map(|(number, _)| *number).collect();
        let expected: Vec<u32> = [0..=5, 8..=11, 100..=101, 500..=576].into_iter().flatten().collect();
        assert_eq!(numbers, expected);
        let bits_of = |wanted: u32| match facts.iter().find(|(number, _)| *number == wanted) {
            Some((_, InfoValue::Bits(bits))) => Some(*bits),
            _ => None,
        };
        // As in FlightSql.proto.
        for (number, bits) in [(503, 3), (505, 1), (507, 0), (522, 3), (528, 2), (538, 7), (564, 1), (567, 2), (569, 2)]
        {
            assert_eq!(bits_of(number), Some(bits), "{number}");
        }
    }
}
