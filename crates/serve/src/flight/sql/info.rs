//! Collects the facts about the server's SQL that drivers ask for.

use arrowwood_flight::sql::{MAX_HANDLE_LEN, SqlInfoValue, info_number};

use crate::ops::Limits;
use crate::sql::SqlEngine;

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
pub(super) fn facts(engine: &dyn SqlEngine, limits: &Limits) -> Vec<(u32, SqlInfoValue)> {
    let (name, version) = engine.name();
    let mut facts = vec![
        (info_number::SERVER_NAME, SqlInfoValue::String(name)),
        (info_number::SERVER_VERSION, SqlInfoValue::String(version)),
        (info_number::ARROW_VERSION, SqlInfoValue::String(ARROW_VERSION.into())),
        (info_number::TRANSACTION, SqlInfoValue::Bitmask(NO_TRANSACTION)),
        (info_number::STATEMENT_TIMEOUT, SqlInfoValue::Bitmask(UNLIMITED)),
        (info_number::TRANSACTION_TIMEOUT, SqlInfoValue::Bitmask(UNLIMITED)),
        (info_number::IDENTIFIER_CASE, SqlInfoValue::Bitmask(LOWER_CASE)),
        (info_number::IDENTIFIER_QUOTE_CHAR, SqlInfoValue::String("\"".into())),
        (info_number::QUOTED_IDENTIFIER_CASE, SqlInfoValue::Bitmask(QUOTED_CASE)),
        (info_number::NULL_ORDERING, SqlInfoValue::Bitmask(NULLS_LAST)),
        (info_number::SEARCH_STRING_ESCAPE, SqlInfoValue::String("\\".into())),
        (info_number::EXTRA_NAME_CHARACTERS, SqlInfoValue::String("".into())),
        (info_number::CONVERT, SqlInfoValue::EmptyMap),
        (info_number::GROUP_BY, SqlInfoValue::Bitmask(bits::ANY_GROUP_BY)),
        (info_number::GRAMMAR, SqlInfoValue::Bitmask(bits::CORE_GRAMMAR)),
        (info_number::ANSI92_LEVEL, SqlInfoValue::Bitmask(bits::INTERMEDIATE_LEVEL)),
        (info_number::OUTER_JOINS, SqlInfoValue::Bitmask(bits::FULL_OUTER_JOINS)),
        (info_number::SCHEMA_TERM, SqlInfoValue::String("schema".into())),
        (info_number::PROCEDURE_TERM, SqlInfoValue::String("".into())),
        (info_number::CATALOG_TERM, SqlInfoValue::String("catalog".into())),
        (info_number::SCHEMA_ACTIONS, SqlInfoValue::Bitmask(bits::NONE)),
        (info_number::CATALOG_ACTIONS, SqlInfoValue::Bitmask(bits::NONE)),
        (info_number::POSITIONED_COMMANDS, SqlInfoValue::Bitmask(bits::NONE)),
        (info_number::SUBQUERIES, SqlInfoValue::Bitmask(bits::SUBQUERIES)),
        (info_number::UNIONS, SqlInfoValue::Bitmask(bits::UNIONS)),
        (info_number::MAX_STATEMENT_LENGTH, SqlInfoValue::BigInt(MAX_HANDLE_LEN as i64)),
        (info_number::MAX_STATEMENTS, SqlInfoValue::BigInt(i64::try_from(limits.statements).unwrap_or(i64::MAX))),
        (info_number::DEFAULT_TRANSACTION_ISOLATION, SqlInfoValue::Bitmask(NO_TRANSACTION)),
        (info_number::TRANSACTION_ISOLATION_LEVELS, SqlInfoValue::Bitmask(bits::NO_TRANSACTIONS)),
        (info_number::RESULT_SET_TYPES, SqlInfoValue::Bitmask(bits::FORWARD_ONLY)),
        (info_number::CONCURRENCIES_UNSPECIFIED, SqlInfoValue::Bitmask(bits::NONE)),
        (info_number::CONCURRENCIES_FORWARD_ONLY, SqlInfoValue::Bitmask(bits::READ_ONLY)),
        (info_number::CONCURRENCIES_SCROLL_SENSITIVE, SqlInfoValue::Bitmask(bits::NONE)),
        (info_number::CONCURRENCIES_SCROLL_INSENSITIVE, SqlInfoValue::Bitmask(bits::NONE)),
    ];
    facts.extend(TRUE_FACTS.map(|number| (number, SqlInfoValue::Bool(true))));
    facts.extend(FALSE_FACTS.map(|number| (number, SqlInfoValue::Bool(false))));
    // Drivers get no lists of keywords and functions.
    facts.extend(LISTS.map(|number| (number, SqlInfoValue::StringList(Vec::new()))));
    let known =
        [info_number::MAX_ROW_SIZE_INCLUDES_BLOBS, info_number::MAX_STATEMENT_LENGTH, info_number::MAX_STATEMENTS];
    let sizes =
        (info_number::MAX_BINARY_LITERAL_LENGTH..=info_number::MAX_USERNAME_LENGTH).filter(|n| !known.contains(n));
    facts.extend(sizes.map(|number| (number, SqlInfoValue::BigInt(UNLIMITED.into()))));

    facts.sort_by_key(|(number, _)| *number);
    debug_assert!(facts.is_sorted_by(|(a, _), (b, _)| a < b), "two facts have one number");
    facts
}

/// The facts that are lists of words.
const LISTS: [u32; 5] = [
    info_number::KEYWORDS,
    info_number::NUMERIC_FUNCTIONS,
    info_number::STRING_FUNCTIONS,
    info_number::SYSTEM_FUNCTIONS,
    info_number::DATETIME_FUNCTIONS,
];

/// The facts that are true.
const TRUE_FACTS: [u32; 14] = [
    info_number::READ_ONLY,
    info_number::SQL,
    info_number::CANCEL,
    info_number::ALL_TABLES_ARE_SELECTABLE,
    info_number::COLUMN_ALIASING,
    info_number::NULL_PLUS_NULL_IS_NULL,
    info_number::TABLE_CORRELATION_NAMES,
    info_number::EXPRESSIONS_IN_ORDER_BY,
    info_number::ORDER_BY_UNRELATED,
    info_number::LIKE_ESCAPE_CLAUSE,
    info_number::NON_NULLABLE_COLUMNS,
    info_number::CATALOG_AT_START,
    info_number::CORRELATED_SUBQUERIES,
    info_number::NAMED_PARAMETERS,
];

/// The facts that are false.
const FALSE_FACTS: [u32; 18] = [
    info_number::SUBSTRAIT,
    info_number::BULK_INGESTION,
    info_number::INGEST_TRANSACTIONS_SUPPORTED,
    info_number::DDL_CATALOG,
    info_number::DDL_SCHEMA,
    info_number::DDL_TABLE,
    info_number::DIFFERENT_TABLE_CORRELATION_NAMES,
    info_number::INTEGRITY_ENHANCEMENT_FACILITY,
    info_number::SELECT_FOR_UPDATE,
    info_number::STORED_PROCEDURES,
    info_number::MAX_ROW_SIZE_INCLUDES_BLOBS,
    info_number::TRANSACTIONS,
    info_number::DDL_CAUSES_COMMIT,
    info_number::DDL_IGNORED_IN_TRANSACTIONS,
    info_number::BATCH_UPDATES,
    info_number::SAVEPOINTS,
    info_number::LOCATORS_UPDATE_COPY,
    info_number::STORED_FUNCTIONS_BY_CALL,
];

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
            Some((_, SqlInfoValue::Bitmask(bits))) => Some(*bits),
            _ => None,
        };
        // As in FlightSql.proto.
        for (number, bits) in [(503, 3), (505, 1), (507, 0), (522, 3), (528, 2), (538, 7), (564, 1), (567, 2), (569, 2)]
        {
            assert_eq!(bits_of(number), Some(bits), "{number}");
        }
    }
}
