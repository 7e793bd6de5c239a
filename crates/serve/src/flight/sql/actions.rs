//! Answers actions: prepares and closes statements, and cancels queries.

use bytes::Bytes;
use hyper::Response;
use prost::Message;

use super::handle::{not_spoken, schema_message};
use super::messages::{
    Action, ActionResult, ActionType, Any, CancelFlightInfo, CancelQuery, HandleMessage, PreparedStatement,
    StatementHandle, StatementText, StatusResult,
};
use crate::flight::messages::{FlightInfo, frame_message};
use crate::flight::request_stream::decode_message;
use crate::flight::status::{body_response, message_response};
use crate::http::{Problem, ResponseBody, Result};
use crate::sql::{NO_ID, SqlSession, require_engine, statement};

/// The status of an action that was done.
const DONE: i32 = 1;
/// The status of an action that was not possible.
const NOT_DONE: i32 = 3;

/// The actions and their descriptions.
const ACTIONS: &[(&str, &str)] = &[
    ("CreatePreparedStatement", "Prepare a statement."),
    ("ClosePreparedStatement", "Close a statement that was prepared; the server keeps nothing of it."),
    ("CancelFlightInfo", "Cancel a query."),
    ("CancelQuery", "Cancel a query."),
    ("CloseSession", "Close a session; the server keeps none."),
];

/// Answers `ListActions`.
pub(in crate::flight) fn list_actions() -> Response<ResponseBody> {
    let mut frames = Vec::with_capacity(ACTIONS.len());
    for (kind, description) in ACTIONS {
        frames.push(frame_message(&ActionType { kind: (*kind).into(), description: (*description).into() }));
    }
    body_response(ResponseBody::several(frames))
}

/// Answers `DoAction`.
pub(in crate::flight) async fn action(sql: SqlSession, action: Action) -> Result<Response<ResponseBody>> {
    require_engine(&sql.state)?;
    match action.kind.as_str() {
        "CreatePreparedStatement" => create(&sql, message(action.body)?).await,
        "ClosePreparedStatement" => {
            message::<HandleMessage>(action.body)?;
            Ok(body_response(ResponseBody::empty()))
        }
        "CancelFlightInfo" => {
            let request: CancelFlightInfo = decode_message(action.body)?;
            let status = cancel(&sql, request.info.as_ref())?;
            Ok(result(&StatusResult { status }))
        }
        "CancelQuery" => {
            let request: CancelQuery = message(action.body)?;
            let status = cancel(&sql, Some(&decode_message(request.info)?))?;
            Ok(result(&Any::pack("ActionCancelQueryResult", &StatusResult { status })))
        }
        "CloseSession" => Ok(result(&StatusResult { status: DONE })),
        other => Err(not_spoken(other)),
    }
}

/// Decodes the message of a Flight SQL action, which is packed with its type.
fn message<M: Message + Default>(body: Bytes) -> Result<M> {
    let (_, value) = Any::parse(&body).ok_or_else(|| Problem::bad_request("a message of Flight SQL is expected"))?;
    decode_message(value)
}

fn result(message: &impl Message) -> Response<ResponseBody> {
    message_response(frame_message(&ActionResult { body: message.encode_to_vec().into() }))
}

async fn create(sql: &SqlSession, text: StatementText) -> Result<Response<ResponseBody>> {
    let engine = require_engine(&sql.state)?;
    let handle = StatementHandle::from_text(text)?;
    let plan = statement::plan(sql, engine.as_ref(), handle.statement()?).await?;
    let prepared = PreparedStatement {
        handle: handle.bytes(),
        dataset_schema: schema_message(&plan.schema)?,
        parameter_schema: schema_message(&plan.parameters)?,
    };
    Ok(result(&Any::pack("ActionCreatePreparedStatementResult", &prepared)))
}

/// Cancels the queries of a flight's tickets. Returns the status of the action.
fn cancel(sql: &SqlSession, info: Option<&FlightInfo>) -> Result<i32> {
    let tickets = info.into_iter().flat_map(|info| &info.endpoints).filter_map(|endpoint| endpoint.ticket.as_ref());
    let mut is_cancelled = false;
    for ticket in tickets {
        if let Some((name, value)) = Any::parse(&ticket.ticket)
            && name == "TicketStatementQuery"
        {
            let handle = StatementHandle::parse(decode_message::<HandleMessage>(value)?.handle)?;
            is_cancelled |= handle.id != NO_ID && sql.state.running.cancel(sql.session.caller.name(), handle.id);
        }
    }
    Ok(if is_cancelled { DONE } else { NOT_DONE })
}
