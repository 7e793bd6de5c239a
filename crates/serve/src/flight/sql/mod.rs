//! Answers Flight SQL: statements and information about tables, as Flight calls with commands and tickets of their own.
//!
//! The server keeps no state of prepared statements: their handles contain it. A running statement is cancelled by the
//! number in its ticket.

mod actions;
mod handle;
mod info;
mod keys;
pub(super) mod messages;
mod tables;
mod types;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use hyper::Response;
use prost::Message;

pub(super) use self::actions::{action, list_actions};
use self::handle::{dataset, not_spoken, schema_message};
use self::keys::KeyKind;
use self::messages::{
    Any, GetDbSchemas, GetSqlInfo, GetTables, GetXdbcTypeInfo, HandleMessage, StatementHandle, StatementText,
};
use super::framing::FLIGHT_FRAMING;
use super::messages::{
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, PutResult, SchemaResult, Ticket, UNKNOWN, frame_message,
};
use super::put::push_message;
use super::request_stream::{RequestStream, decode_message};
use super::status::{body_response, message_response};
use crate::http::{Problem, ResponseBody, Result};
use crate::read::{Framing, whole_framed_body};
use crate::session::Session;
use crate::sql::{RunningQuery, SqlEngine, SqlSession, require_engine, results, statement};

/// The request in a command or a ticket.
pub(super) enum SqlCommand {
    /// A statement, sent as text or as a handle.
    Statement(StatementHandle),
    Catalogs,
    DbSchemas(GetDbSchemas),
    Tables(GetTables),
    TableTypes,
    SqlInfo(GetSqlInfo),
    TypeInfo(GetXdbcTypeInfo),
    Keys(KeyKind),
}

impl SqlCommand {
    /// Parses the request in a command or a ticket. Returns `None` if it is text, which belongs to Flight itself.
    pub fn parse(bytes: &Bytes) -> Result<Option<SqlCommand>> {
        let Some((name, value)) = Any::parse(bytes) else { return Ok(None) };
        Ok(Some(match name.as_str() {
            "CommandStatementQuery" => {
                SqlCommand::Statement(StatementHandle::from_text(decode_message::<StatementText>(value)?)?)
            }
            "TicketStatementQuery" | "CommandPreparedStatementQuery" => {
                SqlCommand::Statement(StatementHandle::parse(decode_message::<HandleMessage>(value)?.handle)?)
            }
            "CommandGetCatalogs" => SqlCommand::Catalogs,
            "CommandGetDbSchemas" => SqlCommand::DbSchemas(decode_message(value)?),
            "CommandGetTables" => SqlCommand::Tables(decode_message(value)?),
            "CommandGetTableTypes" => SqlCommand::TableTypes,
            "CommandGetSqlInfo" => SqlCommand::SqlInfo(decode_message(value)?),
            "CommandGetXdbcTypeInfo" => SqlCommand::TypeInfo(decode_message(value)?),
            "CommandGetPrimaryKeys" => SqlCommand::Keys(KeyKind::Primary),
            "CommandGetExportedKeys" | "CommandGetImportedKeys" | "CommandGetCrossReference" => {
                SqlCommand::Keys(KeyKind::Foreign)
            }
            other => return Err(not_spoken(other)),
        }))
    }

    /// Returns the columns of the result.
    async fn schema(&self, sql: &SqlSession, engine: &dyn SqlEngine) -> Result<SchemaRef> {
        Ok(match self {
            SqlCommand::Statement(handle) => statement::plan(sql, engine, handle.statement()?).await?.schema,
            SqlCommand::Catalogs => tables::catalogs()?.schema(),
            SqlCommand::DbSchemas(request) => tables::db_schemas(request)?.schema(),
            SqlCommand::Tables(request) => tables::tables_schema(request),
            SqlCommand::TableTypes => tables::table_types()?.schema(),
            SqlCommand::SqlInfo(_) => info::schema(),
            SqlCommand::TypeInfo(_) => types::schema(),
            SqlCommand::Keys(kind) => keys::schema(*kind),
        })
    }
}

fn internal(e: ArrowError) -> Problem {
    Problem::internal(e.to_string())
}

/// Returns the endpoint for the result of a command: one ticket, for this server.
pub(super) async fn flight_info(
    sql: SqlSession,
    descriptor: FlightDescriptor,
    command: SqlCommand,
) -> Result<Response<ResponseBody>> {
    let engine = require_engine(&sql.state)?;
    let schema = command.schema(&sql, engine.as_ref()).await?;
    let ticket = match command {
        SqlCommand::Statement(handle) => {
            let ticket = HandleMessage { handle: handle.with_unique_id()?.bytes() };
            Any::pack("TicketStatementQuery", &ticket).encode_to_vec().into()
        }
        _ => descriptor.command.clone(),
    };
    let endpoint = FlightEndpoint { ticket: Some(Ticket { ticket }) };
    Ok(message_response(frame_message(&FlightInfo {
        schema: schema_message(&schema)?,
        descriptor: Some(descriptor),
        endpoints: vec![endpoint],
        total_records: UNKNOWN,
        total_bytes: UNKNOWN,
        ordered: true,
    })))
}

/// Returns the columns of a command's result.
pub(super) async fn schema(sql: SqlSession, command: SqlCommand) -> Result<Response<ResponseBody>> {
    let engine = require_engine(&sql.state)?;
    let schema = command.schema(&sql, engine.as_ref()).await?;
    Ok(message_response(frame_message(&SchemaResult { schema: schema_message(&schema)? })))
}

/// Returns a command's result.
pub(super) async fn get(sql: SqlSession, command: SqlCommand) -> Result<Response<ResponseBody>> {
    let engine = require_engine(&sql.state)?;
    if let SqlCommand::Statement(handle) = command {
        let running = RunningQuery::begin(&sql, engine.as_ref(), handle.statement()?, handle.id).await?;
        return Ok(body_response(results::framed_body(running, FLIGHT_FRAMING, sql.session)?));
    }
    let session = sql.session;
    let rows = session.run_blocking(move |session| metadata_rows(session, &engine, &command)).await?;
    Ok(body_response(whole_framed_body(dataset(rows)?, FLIGHT_FRAMING, session)?))
}

/// Returns the result of a command that asks for information about tables or the server. Blocks.
fn metadata_rows(session: &Session, engine: &Arc<dyn SqlEngine>, command: &SqlCommand) -> Result<RecordBatch> {
    match command {
        SqlCommand::Statement(_) => Err(Problem::internal("a statement is not metadata")),
        SqlCommand::Catalogs => tables::catalogs(),
        SqlCommand::DbSchemas(request) => tables::db_schemas(request),
        SqlCommand::Tables(request) => tables::tables(session, request),
        SqlCommand::TableTypes => tables::table_types(),
        SqlCommand::SqlInfo(request) => {
            info::info(engine.as_ref(), &session.shared.limits, &request.info).map_err(internal)
        }
        SqlCommand::TypeInfo(request) => types::types(request.data_type).map_err(internal),
        SqlCommand::Keys(kind) => Ok(RecordBatch::new_empty(keys::schema(*kind))),
    }
}

/// Binds values to the parameters of a prepared statement, and returns its new handle.
pub(super) async fn put(
    sql: SqlSession,
    mut requests: RequestStream,
    command: (String, Bytes),
    header: Bytes,
) -> Result<Response<ResponseBody>> {
    require_engine(&sql.state)?;
    let (name, value) = command;
    if name != "CommandPreparedStatementQuery" {
        return Err(not_spoken(&name));
    }
    let handle = StatementHandle::parse(decode_message::<HandleMessage>(value)?.handle)?;
    let mut stream = Vec::new();
    if !header.is_empty() {
        push_message(&mut stream, &header, &[]);
    }
    while let Some(received) = requests.next(handle::MAX_HANDLE_LEN).await? {
        let data: FlightData = decode_message(received.message)?;
        if !data.header.is_empty() {
            push_message(&mut stream, &data.header, &data.body);
        }
        if stream.len() > handle::MAX_HANDLE_LEN {
            return Err(Problem::too_large(format!("parameters have at most {} bytes", handle::MAX_HANDLE_LEN)));
        }
    }
    stream.extend_from_slice(Framing::STREAM.end());
    let bound = sql.session.run_blocking(move |_| handle.with_parameters(stream)).await?;
    let app_metadata = HandleMessage { handle: bound.bytes() }.encode_to_vec().into();
    Ok(message_response(frame_message(&PutResult { app_metadata })))
}
