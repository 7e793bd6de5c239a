//! Actions: prepare and close statements, cancel queries.

use bytes::Bytes;
use hyper::Response;
use prost::Message;

use super::handle::{not_spoken, schema_message};
use super::messages::{
    Action, ActionResult, ActionType, Any, CancelFlightInfo, CancelQuery, HandleMessage, PreparedStatement,
    StatementHandle, StatementText, StatusResult,
};
use crate::flight::messages::{FlightInfo, framed};
use crate::flight::request_stream::decoded;
use crate::flight::status::{answered, whole};
use crate::problem::{Problem, Result};
use crate::response_body::ResponseBody;
use crate::session::Session;
use crate::statement::{self, engine_of};

/// Results of actions: done, and not possible.
const DONE: i32 = 1;
const NOT_DONE: i32 = 3;

const ACTIONS: &[(&str, &str)] = &[
    ("CreatePreparedStatement", "Prepare a statement."),
    ("ClosePreparedStatement", "Close a statement that was prepared; the server keeps nothing of it."),
    ("CancelFlightInfo", "Cancel a query."),
    ("CancelQuery", "Cancel a query."),
    ("CloseSession", "Close a session; the server keeps none."),
];

pub(in crate::flight) fn list_actions() -> Response<ResponseBody> {
    let told = |(kind, description): &(&str, &str)| {
        framed(&ActionType { kind: (*kind).into(), description: (*description).into() })
    };
    answered(ResponseBody::several(ACTIONS.iter().map(told).collect()))
}

pub(in crate::flight) async fn action(session: Session, action: Action) -> Result<Response<ResponseBody>> {
    engine_of(&session)?;
    match action.kind.as_str() {
        "CreatePreparedStatement" => create(&session, message(action.body)?).await,
        "ClosePreparedStatement" => {
            message::<HandleMessage>(action.body)?;
            Ok(answered(ResponseBody::empty()))
        }
        "CancelFlightInfo" => {
            let asked: CancelFlightInfo = decoded(action.body)?;
            let status = cancel(&session, asked.info.as_ref())?;
            Ok(result(&StatusResult { status }))
        }
        "CancelQuery" => {
            let asked: CancelQuery = message(action.body)?;
            let status = cancel(&session, Some(&decoded(asked.info)?))?;
            Ok(result(&Any::pack("ActionCancelQueryResult", &StatusResult { status })))
        }
        "CloseSession" => Ok(result(&StatusResult { status: DONE })),
        other => Err(not_spoken(other)),
    }
}

/// The message of a Flight SQL action, with its type.
fn message<M: Message + Default>(body: Bytes) -> Result<M> {
    let (_, value) = Any::parse(&body).ok_or_else(|| Problem::bad_request("a message of Flight SQL is expected"))?;
    decoded(value)
}

fn result(message: &impl Message) -> Response<ResponseBody> {
    whole(framed(&ActionResult { body: message.encode_to_vec().into() }))
}

async fn create(session: &Session, text: StatementText) -> Result<Response<ResponseBody>> {
    let engine = engine_of(session)?;
    let handle = StatementHandle::from_text(text)?;
    let plan = statement::plan(session, engine.as_ref(), handle.statement()?).await?;
    let prepared = PreparedStatement {
        handle: handle.bytes(),
        dataset_schema: schema_message(&plan.schema)?,
        parameter_schema: schema_message(&plan.parameters)?,
    };
    Ok(result(&Any::pack("ActionCreatePreparedStatementResult", &prepared)))
}

/// Cancels the queries of a flight's tickets.
fn cancel(session: &Session, info: Option<&FlightInfo>) -> Result<i32> {
    let tickets = info.into_iter().flat_map(|info| &info.endpoints).filter_map(|endpoint| endpoint.ticket.as_ref());
    let mut is_cancelled = false;
    for ticket in tickets {
        if let Some((name, value)) = Any::parse(&ticket.ticket)
            && name == "TicketStatementQuery"
        {
            let handle = StatementHandle::parse(decoded::<HandleMessage>(value)?.handle)?;
            is_cancelled |= handle.id > 0 && session.shared.statements.cancel(session.caller.name(), handle.id);
        }
    }
    Ok(if is_cancelled { DONE } else { NOT_DONE })
}
