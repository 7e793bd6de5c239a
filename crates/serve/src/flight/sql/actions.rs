//! Answers actions: prepares and closes statements, and cancels queries.

use arrowwood_flight::sql::{
    ActionCancelQueryResult, ActionCreatePreparedStatementResult, Any, CancelResult, SqlAction, StatementHandle,
};
use arrowwood_flight::{
    Action, ActionResult, ActionType, CancelFlightInfoResult, CancelStatus, CloseSessionResult, CloseSessionStatus,
    FlightInfo, frame_message, schema_message,
};
use hyper::Response;
use prost::Message;

use super::handle::statement_of;
use crate::flight::status::{body_response, message_response};
use crate::http::{ResponseBody, Result, ResultExt};
use crate::sql::{NO_ID, SqlSession, require_engine, statement};

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
        frames.push(frame_message(&ActionType { r#type: (*kind).into(), description: (*description).into() }));
    }
    body_response(ResponseBody::new(frames.concat()))
}

/// Answers `DoAction`.
pub(in crate::flight) async fn action(sql: SqlSession, action: Action) -> Result<Response<ResponseBody>> {
    require_engine(&sql.state)?;
    match SqlAction::parse(action)? {
        SqlAction::CreatePreparedStatement(handle) => create(&sql, handle).await,
        SqlAction::ClosePreparedStatement => Ok(body_response(ResponseBody::empty())),
        SqlAction::CancelFlightInfo(info) => {
            let is_cancelled = info.map_or(Ok(false), |info| cancel(&sql, &info))?;
            let status = if is_cancelled { CancelStatus::Cancelled } else { CancelStatus::NotCancellable };
            Ok(result(&CancelFlightInfoResult { status: status.into() }))
        }
        SqlAction::CancelQuery(info) => {
            let is_cancelled = cancel(&sql, &info)?;
            let outcome = if is_cancelled { CancelResult::Cancelled } else { CancelResult::NotCancellable };
            Ok(result(&Any::pack(&ActionCancelQueryResult { result: outcome.into() })))
        }
        SqlAction::CloseSession => Ok(result(&CloseSessionResult { status: CloseSessionStatus::Closed.into() })),
    }
}

fn result(message: &impl Message) -> Response<ResponseBody> {
    message_response(frame_message(&ActionResult { body: message.encode_to_vec().into() }))
}

async fn create(sql: &SqlSession, handle: StatementHandle) -> Result<Response<ResponseBody>> {
    let engine = require_engine(&sql.state)?;
    let plan = statement::plan(sql, engine.as_ref(), statement_of(&handle)?).await?;
    let prepared = ActionCreatePreparedStatementResult {
        prepared_statement_handle: handle.bytes(),
        dataset_schema: schema_message(&plan.schema).or_table_problem()?,
        parameter_schema: schema_message(&plan.parameters).or_table_problem()?,
    };
    Ok(result(&Any::pack(&prepared)))
}

/// Cancels the queries of a flight's tickets. Returns true if one was running.
fn cancel(sql: &SqlSession, info: &FlightInfo) -> Result<bool> {
    let mut is_cancelled = false;
    for ticket in info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref()) {
        if let Some(handle) = StatementHandle::from_ticket(ticket)? {
            is_cancelled |= handle.id != NO_ID && sql.state.running.cancel(sql.session.caller.name(), handle.id);
        }
    }
    Ok(is_cancelled)
}
