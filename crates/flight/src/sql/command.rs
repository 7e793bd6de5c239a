//! Parses the requests in commands and tickets.

use arrow_schema::SchemaRef;
use bytes::Bytes;

use super::handle::StatementHandle;
use super::info::sql_info_schema;
use super::keys::KeyKind;
use super::messages::{
    Any, CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandStatementQuery, TicketStatementQuery,
};
use super::tables::{catalogs_schema, db_schemas_schema, table_types_schema, tables_schema};
use super::types::xdbc_type_info_schema;
use crate::framing::decode_message;
use crate::status::Status;

/// The request in a command or a ticket.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlCommand {
    /// A statement, sent as text or as a handle.
    Statement(StatementHandle),
    /// The names of the catalogs.
    Catalogs,
    /// The names of schemas.
    DbSchemas(CommandGetDbSchemas),
    /// The names of tables.
    Tables(CommandGetTables),
    /// The types of tables.
    TableTypes,
    /// Facts about the server.
    SqlInfo(CommandGetSqlInfo),
    /// The types of columns.
    XdbcTypeInfo(CommandGetXdbcTypeInfo),
    /// The keys of a table.
    Keys(KeyKind),
}

impl SqlCommand {
    /// Parses the request in a command or a ticket. Returns `None` if it is text, which belongs to Flight itself.
    ///
    /// # Errors
    /// `Unimplemented` for a request of Flight SQL that is no variant, the errors of [`StatementHandle::try_new`], and
    /// `InvalidArgument` for a damaged message.
    pub fn parse(bytes: &Bytes) -> Result<Option<SqlCommand>, Status> {
        let Some((name, value)) = Any::parse(bytes) else { return Ok(None) };
        Ok(Some(match name.as_str() {
            "CommandStatementQuery" => {
                let CommandStatementQuery { query, transaction_id } = decode_message(value)?;
                SqlCommand::Statement(StatementHandle::try_new(query, transaction_id.as_ref())?)
            }
            "TicketStatementQuery" => {
                let ticket: TicketStatementQuery = decode_message(value)?;
                SqlCommand::Statement(StatementHandle::parse(ticket.statement_handle)?)
            }
            "CommandPreparedStatementQuery" => {
                let command: CommandPreparedStatementQuery = decode_message(value)?;
                SqlCommand::Statement(StatementHandle::parse(command.prepared_statement_handle)?)
            }
            "CommandGetCatalogs" => SqlCommand::Catalogs,
            "CommandGetDbSchemas" => SqlCommand::DbSchemas(decode_message(value)?),
            "CommandGetTables" => SqlCommand::Tables(decode_message(value)?),
            "CommandGetTableTypes" => SqlCommand::TableTypes,
            "CommandGetSqlInfo" => SqlCommand::SqlInfo(decode_message(value)?),
            "CommandGetXdbcTypeInfo" => SqlCommand::XdbcTypeInfo(decode_message(value)?),
            "CommandGetPrimaryKeys" => SqlCommand::Keys(KeyKind::Primary),
            "CommandGetExportedKeys" | "CommandGetImportedKeys" | "CommandGetCrossReference" => {
                SqlCommand::Keys(KeyKind::Foreign)
            }
            other => return Err(unsupported(other)),
        }))
    }

    /// Returns the columns of the result; `None` for a statement, as only an engine knows them.
    pub fn schema(&self) -> Option<SchemaRef> {
        Some(match self {
            SqlCommand::Statement(_) => return None,
            SqlCommand::Catalogs => catalogs_schema(),
            SqlCommand::DbSchemas(_) => db_schemas_schema(),
            SqlCommand::Tables(request) => tables_schema(request.include_schema),
            SqlCommand::TableTypes => table_types_schema(),
            SqlCommand::SqlInfo(_) => sql_info_schema(),
            SqlCommand::XdbcTypeInfo(_) => xdbc_type_info_schema(),
            SqlCommand::Keys(kind) => kind.schema(),
        })
    }
}

/// Returns the refusal of a command or an action that servers of this crate do not have.
pub fn unsupported(name: &str) -> Status {
    Status::unimplemented(format!("{name} is not done here: the server answers statements that only read"))
}

#[cfg(test)]
mod tests {
    use prost::{Message, Name};

    use super::*;
    use crate::status::Code;

    #[test]
    fn tickets_and_handles_are_the_statement_sent_as_text() {
        let statement = CommandStatementQuery { query: "select 1".into(), transaction_id: None };
        let text = Any::pack(&statement);
        assert_eq!(text.type_url, CommandStatementQuery::type_url());
        let parsed = SqlCommand::parse(&text.encode_to_vec().into()).unwrap().unwrap();
        let SqlCommand::Statement(handle) = &parsed else { panic!("{parsed:?}") };
        assert_eq!(parsed.schema(), None);
        let prepared = CommandPreparedStatementQuery { prepared_statement_handle: handle.bytes() };
        for bytes in [handle.to_ticket().ticket, Any::pack(&prepared).encode_to_vec().into()] {
            assert_eq!(SqlCommand::parse(&bytes), Ok(Some(parsed.clone())));
        }
    }

    #[test]
    fn other_requests_of_flight_sql_are_refused() {
        let any = |name: &str, value: &'static [u8]| Any {
            type_url: format!("type.googleapis.com/arrow.flight.protocol.sql.{name}"),
            value: Bytes::from_static(value),
        };
        let code = |any: Any| SqlCommand::parse(&any.encode_to_vec().into()).unwrap_err().code;
        assert_eq!(code(any("CommandStatementUpdate", b"")), Code::Unimplemented);
        assert_eq!(code(any("CommandGetTables", b"\xff")), Code::InvalidArgument);
        let foreign = Any { type_url: "type.googleapis.com/other".into(), value: Bytes::new() };
        assert_eq!(SqlCommand::parse(&foreign.encode_to_vec().into()), Ok(None));
    }
}
