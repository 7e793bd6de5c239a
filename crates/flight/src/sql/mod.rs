//! Flight SQL: statements, and information about tables, as Flight calls with commands and tickets of their own.
//!
//! A command or a ticket is a message with its type ([`Any`]), whose first bytes can't begin the name of a table. So a
//! server can tell it from the text of Flight's own [`Target`](crate::Target):
//! ```
//! use arrowwood_flight::sql::{Any, CommandStatementQuery, SqlCommand};
//! use prost::Message;
//!
//! let statement = CommandStatementQuery { query: "select 1".into(), transaction_id: None };
//! let command = Any::pack(&statement).encode_to_vec().into();
//! let Some(SqlCommand::Statement(handle)) = SqlCommand::parse(&command)? else { panic!("a statement is expected") };
//! assert_eq!(handle.query, "select 1");
//! assert!(SqlCommand::parse(&"ticks?from=10".into())?.is_none());
//! # Ok::<(), arrowwood_flight::Status>(())
//! ```
//! Servers need to keep nothing of a prepared statement: its [handle](StatementHandle) contains it.
//!
//! Read in this order: `messages`, `handle` (statements), `tables`, `keys`, `types`, `info`, `info_number` (answers),
//! `command` and `action` (requests).

mod action;
mod command;
mod handle;
mod info;
pub mod info_number;
mod keys;
mod messages;
mod tables;
mod types;

pub use action::SqlAction;
pub use command::{SqlCommand, unsupported};
pub use handle::{MAX_HANDLE_LEN, StatementHandle};
pub use info::{SqlInfoValue, sql_info, sql_info_schema};
pub use keys::KeyKind;
pub use messages::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, CancelResult, CommandGetDbSchemas,
    CommandGetSqlInfo, CommandGetTables, CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandStatementQuery,
    DoPutPreparedStatementResult, TicketStatementQuery,
};
pub use tables::{TableRow, catalogs, db_schemas, table_types, tables, tables_schema};
pub use types::{xdbc_type_info, xdbc_type_info_schema};
