//! Flight SQL: statements and information about tables, as calls of Flight with their own commands and tickets.
//!
//! The server keeps no state of prepared statements: their handles contain it. A running statement is identified by a
//! number in its ticket, by which it is cancelled.

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
use self::messages::{
    Any, GetDbSchemas, GetSqlInfo, GetTables, GetXdbcTypeInfo, HandleMessage, StatementHandle, StatementText,
};
use super::messages::{
    FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, PutResult, SchemaResult, Ticket, framed,
};
use super::put::push;
use super::request_stream::{RequestStream, decoded};
use super::status::{answered, whole};
use crate::engine::SqlEngine;
use crate::frames::Framing;
use crate::problem::{Problem, Result};
use crate::response_body::ResponseBody;
use crate::row_stream::whole_flight_body;
use crate::session::Session;
use crate::sql_results;
use crate::statement::{self, RunningQuery, engine_of};

/// The request in a command or a ticket.
pub(super) enum SqlCommand {
    /// A statement, by its text or its handle.
    Statement(StatementHandle),
    Catalogs,
    DbSchemas(GetDbSchemas),
    Tables(GetTables),
    TableTypes,
    SqlInfo(GetSqlInfo),
    TypeInfo(GetXdbcTypeInfo),
    /// Keys, primary or foreign.
    Keys(bool),
}

impl SqlCommand {
    /// The request in a command or a ticket; `None` for those that are text.
    pub fn parse(bytes: &Bytes) -> Result<Option<SqlCommand>> {
        let Some((name, value)) = Any::parse(bytes) else { return Ok(None) };
        Ok(Some(match name.as_str() {
            "CommandStatementQuery" => {
                SqlCommand::Statement(StatementHandle::from_text(decoded::<StatementText>(value)?)?)
            }
            "TicketStatementQuery" | "CommandPreparedStatementQuery" => {
                SqlCommand::Statement(StatementHandle::parse(decoded::<HandleMessage>(value)?.handle)?)
            }
            "CommandGetCatalogs" => SqlCommand::Catalogs,
            "CommandGetDbSchemas" => SqlCommand::DbSchemas(decoded(value)?),
            "CommandGetTables" => SqlCommand::Tables(decoded(value)?),
            "CommandGetTableTypes" => SqlCommand::TableTypes,
            "CommandGetSqlInfo" => SqlCommand::SqlInfo(decoded(value)?),
            "CommandGetXdbcTypeInfo" => SqlCommand::TypeInfo(decoded(value)?),
            "CommandGetPrimaryKeys" => SqlCommand::Keys(true),
            "CommandGetExportedKeys" | "CommandGetImportedKeys" | "CommandGetCrossReference" => SqlCommand::Keys(false),
            other => return Err(not_spoken(other)),
        }))
    }

    /// The columns of the result.
    async fn schema(&self, session: &Session, engine: &dyn SqlEngine) -> Result<SchemaRef> {
        Ok(match self {
            SqlCommand::Statement(handle) => statement::plan(session, engine, handle.statement()?).await?.schema,
            SqlCommand::Catalogs => tables::catalogs()?.schema(),
            SqlCommand::DbSchemas(asked) => tables::db_schemas(asked)?.schema(),
            SqlCommand::Tables(asked) => tables::tables_schema(asked),
            SqlCommand::TableTypes => tables::table_types()?.schema(),
            SqlCommand::SqlInfo(_) => info::schema(),
            SqlCommand::TypeInfo(_) => types::schema(),
            SqlCommand::Keys(is_primary) => keys::schema(*is_primary),
        })
    }
}

fn internal(e: ArrowError) -> Problem {
    Problem::internal(e.to_string())
}

/// The endpoint for the result of a command: here, by one ticket.
pub(super) async fn flight_info(
    session: Session,
    descriptor: FlightDescriptor,
    question: SqlCommand,
) -> Result<Response<ResponseBody>> {
    let engine = engine_of(&session)?;
    let schema = question.schema(&session, engine.as_ref()).await?;
    let ticket = match question {
        SqlCommand::Statement(handle) => {
            let ticket = HandleMessage { handle: handle.named()?.bytes() };
            Any::pack("TicketStatementQuery", &ticket).encode_to_vec().into()
        }
        _ => descriptor.command.clone(),
    };
    let endpoint = FlightEndpoint { ticket: Some(Ticket { ticket }) };
    Ok(whole(framed(&FlightInfo {
        schema: schema_message(&schema)?,
        descriptor: Some(descriptor),
        endpoints: vec![endpoint],
        total_records: -1,
        total_bytes: -1,
        ordered: true,
    })))
}

/// The columns of a command's result.
pub(super) async fn schema(session: Session, question: SqlCommand) -> Result<Response<ResponseBody>> {
    let engine = engine_of(&session)?;
    let schema = question.schema(&session, engine.as_ref()).await?;
    Ok(whole(framed(&SchemaResult { schema: schema_message(&schema)? })))
}

/// The result itself.
pub(super) async fn get(session: Session, question: SqlCommand) -> Result<Response<ResponseBody>> {
    let engine = engine_of(&session)?;
    if let SqlCommand::Statement(handle) = question {
        let running = RunningQuery::begin(&session, engine.as_ref(), handle.statement()?, handle.id).await?;
        return Ok(answered(sql_results::flight_body(running, session)?));
    }
    let rows = session.run_blocking(move |session| told(session, &engine, &question)).await?;
    Ok(answered(whole_flight_body(dataset(rows)?, session)?))
}

/// Information about tables and the server. Blocks.
fn told(session: &Session, engine: &Arc<dyn SqlEngine>, question: &SqlCommand) -> Result<RecordBatch> {
    match question {
        SqlCommand::Statement(_) => Err(Problem::internal("a statement is not told")),
        SqlCommand::Catalogs => tables::catalogs(),
        SqlCommand::DbSchemas(asked) => tables::db_schemas(asked),
        SqlCommand::Tables(asked) => tables::tables(session, asked),
        SqlCommand::TableTypes => tables::table_types(),
        SqlCommand::SqlInfo(asked) => {
            info::info(engine.as_ref(), &session.shared.limits, &asked.info).map_err(internal)
        }
        SqlCommand::TypeInfo(asked) => types::types(asked.data_type).map_err(internal),
        SqlCommand::Keys(is_primary) => Ok(RecordBatch::new_empty(keys::schema(*is_primary))),
    }
}

/// Binds values to the parameters of a prepared statement; returns its new handle.
pub(super) async fn put(
    session: Session,
    mut calls: RequestStream,
    command: (String, Bytes),
    header: Bytes,
) -> Result<Response<ResponseBody>> {
    engine_of(&session)?;
    let (name, value) = command;
    if name != "CommandPreparedStatementQuery" {
        return Err(not_spoken(&name));
    }
    let handle = StatementHandle::parse(decoded::<HandleMessage>(value)?.handle)?;
    let mut stream = Vec::new();
    if !header.is_empty() {
        push(&mut stream, &header, &[]);
    }
    while let Some(called) = calls.next(handle::LONGEST).await? {
        let data: FlightData = decoded(called.message)?;
        if !data.header.is_empty() {
            push(&mut stream, &data.header, &data.body);
        }
        if stream.len() > handle::LONGEST {
            return Err(Problem::too_large(format!("parameters have at most {} bytes", handle::LONGEST)));
        }
    }
    stream.extend_from_slice(Framing::Stream.end());
    let bound = session.run_blocking(move |_| handle.bound(stream)).await?;
    let told = HandleMessage { handle: bound.bytes() }.encode_to_vec().into();
    Ok(whole(framed(&PutResult { app_metadata: told })))
}
