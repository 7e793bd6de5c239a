//! Answers Flight SQL: statements and information about tables, as Flight calls with commands and tickets of their own.
//!
//! The server keeps no state of prepared statements: their handles contain it. A running statement is cancelled by the
//! number in its ticket.

mod actions;
mod handle;
mod info;
mod tables;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use arrowwood::Dataset;
use arrowwood_flight::sql::{
    CommandPreparedStatementQuery, DoPutPreparedStatementResult, MAX_HANDLE_LEN, SqlCommand, StatementHandle, catalogs,
    sql_info, table_types, unsupported, xdbc_type_info,
};
use arrowwood_flight::{
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, PutResult, SchemaResult, Ticket, UNKNOWN, decode_message,
    frame_message, push_message, schema_message,
};
use bytes::Bytes;
use hyper::Response;
use prost::Message;

pub(super) use self::actions::{action, list_actions};
use self::handle::{statement_of, with_unique_id};
use super::framing::FLIGHT_FRAMING;
use super::request_stream::RequestStream;
use super::status::{body_response, message_response};
use crate::http::{Problem, ResponseBody, Result, ResultExt};
use crate::read::{Framing, whole_framed_body};
use crate::session::Session;
use crate::sql::{RunningQuery, SqlEngine, SqlSession, require_engine, results, statement};

fn internal(e: ArrowError) -> Problem {
    Problem::internal(e.to_string())
}

/// Returns the columns of a command's result.
async fn schema_of(command: &SqlCommand, sql: &SqlSession, engine: &dyn SqlEngine) -> Result<SchemaRef> {
    match command {
        SqlCommand::Statement(handle) => Ok(statement::plan(sql, engine, statement_of(handle)?).await?.schema),
        _ => command.schema().ok_or_else(|| Problem::internal("a command without columns")),
    }
}

/// Returns the endpoint for the result of a command: one ticket, for this server.
pub(super) async fn flight_info(
    sql: SqlSession,
    descriptor: FlightDescriptor,
    command: SqlCommand,
) -> Result<Response<ResponseBody>> {
    let engine = require_engine(&sql.state)?;
    let schema = schema_of(&command, &sql, engine.as_ref()).await?;
    let ticket = match command {
        SqlCommand::Statement(handle) => with_unique_id(handle)?.to_ticket(),
        _ => Ticket { ticket: descriptor.cmd.clone() },
    };
    Ok(message_response(frame_message(&FlightInfo {
        schema: schema_message(&schema).or_table_problem()?,
        flight_descriptor: Some(descriptor),
        endpoint: vec![FlightEndpoint { ticket: Some(ticket) }],
        total_records: UNKNOWN,
        total_bytes: UNKNOWN,
        ordered: true,
    })))
}

/// Returns the columns of a command's result.
pub(super) async fn schema(sql: SqlSession, command: SqlCommand) -> Result<Response<ResponseBody>> {
    let engine = require_engine(&sql.state)?;
    let schema = schema_of(&command, &sql, engine.as_ref()).await?;
    let schema = schema_message(&schema).or_table_problem()?;
    Ok(message_response(frame_message(&SchemaResult { schema })))
}

/// Returns a command's result.
pub(super) async fn get(sql: SqlSession, command: SqlCommand) -> Result<Response<ResponseBody>> {
    let engine = require_engine(&sql.state)?;
    if let SqlCommand::Statement(handle) = command {
        let running = RunningQuery::begin(&sql, engine.as_ref(), statement_of(&handle)?, handle.id).await?;
        return Ok(body_response(results::framed_body(running, FLIGHT_FRAMING, sql.session)?));
    }
    let session = sql.session;
    let rows = session.run_blocking(move |session| metadata_rows(session, &engine, &command)).await?;
    let rows = Dataset::from_batches(rows.schema(), vec![rows]).map_err(|e| Problem::internal(e.to_string()))?;
    Ok(body_response(whole_framed_body(rows, FLIGHT_FRAMING, session)?))
}

/// Returns the result of a command that asks for information about tables or the server. Blocks.
fn metadata_rows(session: &Session, engine: &Arc<dyn SqlEngine>, command: &SqlCommand) -> Result<RecordBatch> {
    match command {
        SqlCommand::Statement(_) => Err(Problem::internal("a statement is not metadata")),
        SqlCommand::Tables(request) => tables::tables(session, request),
        SqlCommand::Catalogs => catalogs([tables::CATALOG]).map_err(internal),
        SqlCommand::DbSchemas(request) => tables::db_schemas(request).map_err(internal),
        SqlCommand::TableTypes => table_types([tables::TABLE]).map_err(internal),
        SqlCommand::SqlInfo(request) => {
            let mut facts = info::facts(engine.as_ref(), &session.shared.limits);
            facts.retain(|(number, _)| request.info.is_empty() || request.info.contains(number));
            sql_info(&facts).map_err(internal)
        }
        SqlCommand::XdbcTypeInfo(request) => xdbc_type_info(request.data_type).map_err(internal),
        // Tables have no keys.
        SqlCommand::Keys(kind) => Ok(RecordBatch::new_empty(kind.schema())),
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
        return Err(unsupported(&name).into());
    }
    let command: CommandPreparedStatementQuery = decode_message(value)?;
    let handle = StatementHandle::parse(command.prepared_statement_handle)?;
    let mut stream = Vec::new();
    if !header.is_empty() {
        push_message(&mut stream, &header, &[]);
    }
    while let Some(received) = requests.next(MAX_HANDLE_LEN).await? {
        let data: FlightData = decode_message(received.message)?;
        if !data.data_header.is_empty() {
            push_message(&mut stream, &data.data_header, &data.data_body);
        }
        if stream.len() > MAX_HANDLE_LEN {
            return Err(Problem::too_large(format!("parameters have at most {} bytes", MAX_HANDLE_LEN)));
        }
    }
    stream.extend_from_slice(Framing::STREAM.end());
    let bound = sql.session.run_blocking(move |_| Ok(handle.with_parameters(stream)?)).await?;
    let result = DoPutPreparedStatementResult { prepared_statement_handle: Some(bound.bytes()) };
    let app_metadata = result.encode_to_vec().into();
    Ok(message_response(frame_message(&PutResult { app_metadata })))
}
