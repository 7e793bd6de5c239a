//! The numbers of facts about a server: the enumeration `SqlInfo` of `FlightSql.proto`, without its prefixes.
//!
//! A fact is true or false unless its text says otherwise.

/// The name of the server: a text.
pub const SERVER_NAME: u32 = 0;
/// The version of the server: a text.
pub const SERVER_VERSION: u32 = 1;
/// The version of Arrow's columnar format: a text.
pub const ARROW_VERSION: u32 = 2;
/// Whether the server is only read from.
pub const READ_ONLY: u32 = 3;
/// Whether it answers statements of SQL.
pub const SQL: u32 = 4;
/// Whether it answers plans of Substrait.
pub const SUBSTRAIT: u32 = 5;
/// The kind of the protocol's transactions: a number of an enumeration.
pub const TRANSACTION: u32 = 8;
/// Whether queries can be cancelled.
pub const CANCEL: u32 = 9;
/// Whether rows can be sent to be inserted.
pub const BULK_INGESTION: u32 = 10;
/// Whether rows can be inserted within a transaction.
pub const INGEST_TRANSACTIONS_SUPPORTED: u32 = 11;
/// The maximum time of a statement in milliseconds: 0 for none.
pub const STATEMENT_TIMEOUT: u32 = 100;
/// The maximum time of a transaction in milliseconds: 0 for none.
pub const TRANSACTION_TIMEOUT: u32 = 101;
/// Whether catalogs can be created and dropped.
pub const DDL_CATALOG: u32 = 500;
/// Whether schemas can be created and dropped.
pub const DDL_SCHEMA: u32 = 501;
/// Whether tables can be created and dropped.
pub const DDL_TABLE: u32 = 502;
/// The case of unquoted names: a number of an enumeration.
pub const IDENTIFIER_CASE: u32 = 503;
/// The character around quoted names: a text.
pub const IDENTIFIER_QUOTE_CHAR: u32 = 504;
/// The case of quoted names: a number of an enumeration.
pub const QUOTED_IDENTIFIER_CASE: u32 = 505;
/// Whether all listed tables can be queried.
pub const ALL_TABLES_ARE_SELECTABLE: u32 = 506;
/// Where nulls are sorted: a number of an enumeration.
pub const NULL_ORDERING: u32 = 507;
/// The keywords that SQL does not have: a list of texts.
pub const KEYWORDS: u32 = 508;
/// The functions of numbers: a list of texts.
pub const NUMERIC_FUNCTIONS: u32 = 509;
/// The functions of texts: a list of texts.
pub const STRING_FUNCTIONS: u32 = 510;
/// The functions of the system: a list of texts.
pub const SYSTEM_FUNCTIONS: u32 = 511;
/// The functions of dates and times: a list of texts.
pub const DATETIME_FUNCTIONS: u32 = 512;
/// The character that escapes others in patterns: a text.
pub const SEARCH_STRING_ESCAPE: u32 = 513;
/// Further characters in unquoted names: a text.
pub const EXTRA_NAME_CHARACTERS: u32 = 514;
/// Whether columns can be renamed by `AS`.
pub const COLUMN_ALIASING: u32 = 515;
/// Whether null is the sum of two nulls.
pub const NULL_PLUS_NULL_IS_NULL: u32 = 516;
/// The conversions between types: a map from a type to types.
pub const CONVERT: u32 = 517;
/// Whether tables can be renamed by `AS`.
pub const TABLE_CORRELATION_NAMES: u32 = 518;
/// Whether these names must differ from the names of tables.
pub const DIFFERENT_TABLE_CORRELATION_NAMES: u32 = 519;
/// Whether `ORDER BY` takes expressions.
pub const EXPRESSIONS_IN_ORDER_BY: u32 = 520;
/// Whether `ORDER BY` takes columns that are not selected.
pub const ORDER_BY_UNRELATED: u32 = 521;
/// What `GROUP BY` takes: a set of bits.
pub const GROUP_BY: u32 = 522;
/// Whether `LIKE` takes `ESCAPE`.
pub const LIKE_ESCAPE_CLAUSE: u32 = 523;
/// Whether columns can be without nulls.
pub const NON_NULLABLE_COLUMNS: u32 = 524;
/// The levels of ODBC's grammar: a set of bits.
pub const GRAMMAR: u32 = 525;
/// The levels of SQL-92: a set of bits.
pub const ANSI92_LEVEL: u32 = 526;
/// Whether SQL's checks of integrity can be declared.
pub const INTEGRITY_ENHANCEMENT_FACILITY: u32 = 527;
/// The kinds of outer joins: a set of bits.
pub const OUTER_JOINS: u32 = 528;
/// The word for a schema: a text.
pub const SCHEMA_TERM: u32 = 529;
/// The word for a procedure: a text.
pub const PROCEDURE_TERM: u32 = 530;
/// The word for a catalog: a text.
pub const CATALOG_TERM: u32 = 531;
/// Whether full names begin with the catalog.
pub const CATALOG_AT_START: u32 = 532;
/// Where schemas can be named: a set of bits.
pub const SCHEMA_ACTIONS: u32 = 533;
/// Where catalogs can be named: a set of bits.
pub const CATALOG_ACTIONS: u32 = 534;
/// The commands for the row of a cursor: a set of bits.
pub const POSITIONED_COMMANDS: u32 = 535;
/// Whether `SELECT` takes `FOR UPDATE`.
pub const SELECT_FOR_UPDATE: u32 = 536;
/// Whether procedures can be called.
pub const STORED_PROCEDURES: u32 = 537;
/// Where subqueries can be: a set of bits.
pub const SUBQUERIES: u32 = 538;
/// Whether subqueries can use columns of the query around them.
pub const CORRELATED_SUBQUERIES: u32 = 539;
/// The kinds of `UNION`: a set of bits.
pub const UNIONS: u32 = 540;
/// The maximum number of bytes in a binary literal: 0 for none, as in all maxima up to [`MAX_USERNAME_LENGTH`].
pub const MAX_BINARY_LITERAL_LENGTH: u32 = 541;
/// Whether the maximum size of a row includes large values.
pub const MAX_ROW_SIZE_INCLUDES_BLOBS: u32 = 556;
/// The maximum number of bytes in a statement.
pub const MAX_STATEMENT_LENGTH: u32 = 557;
/// The maximum number of statements at once.
pub const MAX_STATEMENTS: u32 = 558;
/// The maximum number of characters in the name of a user.
pub const MAX_USERNAME_LENGTH: u32 = 561;
/// The usual isolation of transactions: a number of an enumeration.
pub const DEFAULT_TRANSACTION_ISOLATION: u32 = 562;
/// Whether SQL has transactions.
pub const TRANSACTIONS: u32 = 563;
/// The isolations of transactions: a set of bits.
pub const TRANSACTION_ISOLATION_LEVELS: u32 = 564;
/// Whether creating or dropping something commits.
pub const DDL_CAUSES_COMMIT: u32 = 565;
/// Whether it is ignored within a transaction.
pub const DDL_IGNORED_IN_TRANSACTIONS: u32 = 566;
/// The ways to move in a result: a set of bits.
pub const RESULT_SET_TYPES: u32 = 567;
/// What can be done in a result of any kind: a set of bits.
pub const CONCURRENCIES_UNSPECIFIED: u32 = 568;
/// What can be done in a result read once: a set of bits.
pub const CONCURRENCIES_FORWARD_ONLY: u32 = 569;
/// What can be done in a result that shows changes: a set of bits.
pub const CONCURRENCIES_SCROLL_SENSITIVE: u32 = 570;
/// What can be done in a result that shows none: a set of bits.
pub const CONCURRENCIES_SCROLL_INSENSITIVE: u32 = 571;
/// Whether several changes can be sent at once.
pub const BATCH_UPDATES: u32 = 572;
/// Whether transactions have savepoints.
pub const SAVEPOINTS: u32 = 573;
/// Whether parameters have names.
pub const NAMED_PARAMETERS: u32 = 574;
/// Whether changing a large value by its locator changes a copy.
pub const LOCATORS_UPDATE_COPY: u32 = 575;
/// Whether functions are called like procedures.
pub const STORED_FUNCTIONS_BY_CALL: u32 = 576;
