//! The supported messages of Flight SQL, with the field numbers of `FlightSql.proto`.

use bytes::Bytes;
use prost::{Enumeration, Message, Name};

/// The prefix of the types of Flight SQL messages.
const TYPE: &str = "type.googleapis.com/arrow.flight.protocol.sql.";

/// A message with its type.
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    /// The name of the type, as a URL.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The message.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

impl Any {
    /// Packs a message of Flight SQL with its name.
    pub fn pack<M: Message + Name>(message: &M) -> Any {
        Any { type_url: format!("{TYPE}{}", M::NAME), value: message.encode_to_vec().into() }
    }

    /// Returns the name and the bytes of the message packed in `bytes`, if it belongs to Flight SQL. Other calls send
    /// text.
    pub fn parse(bytes: &Bytes) -> Option<(String, Bytes)> {
        let any = Any::decode(bytes.clone()).ok()?;
        Some((any.type_url.strip_prefix(TYPE)?.to_owned(), any.value))
    }
}

/// Gives messages their names in `FlightSql.proto`, which are the names of the types.
macro_rules! named {
    ($($message:ident)*) => {
        $(impl Name for $message {
            const NAME: &'static str = stringify!($message);
            const PACKAGE: &'static str = "arrow.flight.protocol.sql";

            fn type_url() -> String {
                format!("{TYPE}{}", Self::NAME)
            }
        })*
    };
}

named! {
    CommandStatementQuery TicketStatementQuery CommandPreparedStatementQuery DoPutPreparedStatementResult
    CommandGetDbSchemas CommandGetTables CommandGetSqlInfo CommandGetXdbcTypeInfo
    ActionCreatePreparedStatementRequest ActionCreatePreparedStatementResult ActionClosePreparedStatementRequest
    ActionCancelQueryRequest ActionCancelQueryResult
}

/// A statement to run.
#[derive(Clone, PartialEq, Message)]
pub struct CommandStatementQuery {
    /// The text of the statement.
    #[prost(string, tag = "1")]
    pub query: String,
    /// The transaction it belongs to.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub transaction_id: Option<Bytes>,
}

/// The ticket for the rows of a statement.
#[derive(Clone, PartialEq, Message)]
pub struct TicketStatementQuery {
    /// The handle made by the server.
    #[prost(bytes = "bytes", tag = "1")]
    pub statement_handle: Bytes,
}

/// A prepared statement to run, or to bind values to.
#[derive(Clone, PartialEq, Message)]
pub struct CommandPreparedStatementQuery {
    /// The handle made by the server.
    #[prost(bytes = "bytes", tag = "1")]
    pub prepared_statement_handle: Bytes,
}

/// The answer when values were bound to a prepared statement.
#[derive(Clone, PartialEq, Message)]
pub struct DoPutPreparedStatementResult {
    /// The handle to use from now on.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub prepared_statement_handle: Option<Bytes>,
}

/// A statement to prepare.
#[derive(Clone, PartialEq, Message)]
pub struct ActionCreatePreparedStatementRequest {
    /// The text of the statement.
    #[prost(string, tag = "1")]
    pub query: String,
    /// The transaction it belongs to.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub transaction_id: Option<Bytes>,
}

/// A statement that was prepared. Schemas are IPC messages.
#[derive(Clone, PartialEq, Message)]
pub struct ActionCreatePreparedStatementResult {
    /// The handle made by the server.
    #[prost(bytes = "bytes", tag = "1")]
    pub prepared_statement_handle: Bytes,
    /// The columns of the statement's result.
    #[prost(bytes = "bytes", tag = "2")]
    pub dataset_schema: Bytes,
    /// The parameters of the statement.
    #[prost(bytes = "bytes", tag = "3")]
    pub parameter_schema: Bytes,
}

/// A prepared statement that is not needed any more.
#[derive(Clone, PartialEq, Message)]
pub struct ActionClosePreparedStatementRequest {
    /// The handle made by the server.
    #[prost(bytes = "bytes", tag = "1")]
    pub prepared_statement_handle: Bytes,
}

/// A query to cancel.
#[derive(Clone, PartialEq, Message)]
pub struct ActionCancelQueryRequest {
    /// A [`FlightInfo`](crate::FlightInfo) of the query, encoded.
    #[prost(bytes = "bytes", tag = "1")]
    pub info: Bytes,
}

/// The answer to the action `CancelQuery`.
#[derive(Clone, PartialEq, Message)]
pub struct ActionCancelQueryResult {
    /// A [`CancelResult`], which the method of this name returns.
    #[prost(enumeration = "CancelResult", tag = "1")]
    pub result: i32,
}

/// What has become of a query that was to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum CancelResult {
    /// Unknown.
    Unspecified = 0,
    /// It is cancelled.
    Cancelled = 1,
    /// It will be cancelled.
    Cancelling = 2,
    /// It can't be cancelled, as it has ended, or never ran.
    NotCancellable = 3,
}

/// The request for the names of schemas. Each pattern is one of SQL's `LIKE`.
#[derive(Clone, PartialEq, Message)]
pub struct CommandGetDbSchemas {
    /// The catalog; all without one.
    #[prost(string, optional, tag = "1")]
    pub catalog: Option<String>,
    /// The pattern of the schema's name.
    #[prost(string, optional, tag = "2")]
    pub db_schema_filter_pattern: Option<String>,
}

/// The request for the names of tables. Each pattern is one of SQL's `LIKE`.
#[derive(Clone, PartialEq, Message)]
pub struct CommandGetTables {
    /// The catalog; all without one.
    #[prost(string, optional, tag = "1")]
    pub catalog: Option<String>,
    /// The pattern of the schema's name.
    #[prost(string, optional, tag = "2")]
    pub db_schema_filter_pattern: Option<String>,
    /// The pattern of the table's name.
    #[prost(string, optional, tag = "3")]
    pub table_name_filter_pattern: Option<String>,
    /// The types of tables; all without any.
    #[prost(string, repeated, tag = "4")]
    pub table_types: Vec<String>,
    /// True if the answer has the columns of each table.
    #[prost(bool, tag = "5")]
    pub include_schema: bool,
}

/// The request for facts about the server.
#[derive(Clone, PartialEq, Message)]
pub struct CommandGetSqlInfo {
    /// The [numbers](crate::sql::info_number) of the facts; all without any.
    #[prost(uint32, repeated, tag = "1")]
    pub info: Vec<u32>,
}

/// The request for the types of columns.
#[derive(Clone, PartialEq, Message)]
pub struct CommandGetXdbcTypeInfo {
    /// The number of the type in ODBC; all without one.
    #[prost(int32, optional, tag = "1")]
    pub data_type: Option<i32>,
}
