//! The supported messages of Flight SQL, with the field numbers of `FlightSql.proto`.

use bytes::Bytes;
use prost::Message;

use crate::flight::messages::FlightInfo;

/// The prefix of the types of Flight SQL messages.
const TYPE: &str = "type.googleapis.com/arrow.flight.protocol.sql.";

/// A message with its type.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

impl Any {
    /// Packs a message with its name.
    pub fn pack(name: &str, message: &impl Message) -> Any {
        Any { type_url: format!("{TYPE}{name}"), value: message.encode_to_vec().into() }
    }

    /// Returns the name and the bytes of the message packed in `bytes`, if it belongs to Flight SQL. Other calls send
    /// text.
    pub fn parse(bytes: &Bytes) -> Option<(String, Bytes)> {
        let any = Any::decode(bytes.clone()).ok()?;
        Some((any.type_url.strip_prefix(TYPE)?.to_owned(), any.value))
    }
}

/// `CommandStatementQuery`, and `ActionCreatePreparedStatementRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatementText {
    #[prost(string, tag = "1")]
    pub query: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub transaction: Bytes,
}

/// Messages with only a handle: `TicketStatementQuery`, `CommandPreparedStatementQuery`,
/// `ActionClosePreparedStatementRequest` and `DoPutPreparedStatementResult`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HandleMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub handle: Bytes,
}

/// The content of a handle: the whole state of a statement, so that the server need not keep it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatementHandle {
    #[prost(string, tag = "1")]
    pub query: String,
    /// A stream of Arrow with the values of its parameters.
    #[prost(bytes = "bytes", tag = "2")]
    pub parameters: Bytes,
    /// The name by which a client cancels it.
    #[prost(fixed64, tag = "3")]
    pub id: u64,
}

/// `ActionCreatePreparedStatementResult`. Schemas are IPC messages.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PreparedStatement {
    #[prost(bytes = "bytes", tag = "1")]
    pub handle: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub dataset_schema: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub parameter_schema: Bytes,
}

/// `CommandGetDbSchemas`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetDbSchemas {
    #[prost(string, optional, tag = "1")]
    pub catalog: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub schema_pattern: Option<String>,
}

/// `CommandGetTables`. No types mean all.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetTables {
    #[prost(string, optional, tag = "1")]
    pub catalog: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub schema_pattern: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub table_pattern: Option<String>,
    #[prost(string, repeated, tag = "4")]
    pub table_types: Vec<String>,
    #[prost(bool, tag = "5")]
    pub include_schema: bool,
}

/// `CommandGetSqlInfo`. No numbers mean all facts.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetSqlInfo {
    #[prost(uint32, repeated, tag = "1")]
    pub info: Vec<u32>,
}

/// `CommandGetXdbcTypeInfo`. No number means all types.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetXdbcTypeInfo {
    #[prost(int32, optional, tag = "1")]
    pub data_type: Option<i32>,
}

/// `Action` of Flight.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Action {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub body: Bytes,
}

/// `ActionType` of Flight.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ActionType {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub description: String,
}

/// `Result` of Flight.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ActionResult {
    #[prost(bytes = "bytes", tag = "1")]
    pub body: Bytes,
}

/// `CancelFlightInfoRequest` of Flight.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CancelFlightInfo {
    #[prost(message, optional, tag = "1")]
    pub info: Option<FlightInfo>,
}

/// `ActionCancelQueryRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CancelQuery {
    #[prost(bytes = "bytes", tag = "1")]
    pub info: Bytes,
}

/// The results of `CancelFlightInfo`, `CancelQuery` and `CloseSession`, with numbers of the same meaning.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResult {
    /// 1 for done, 3 for not possible.
    #[prost(int32, tag = "1")]
    pub status: i32,
}
