//! Answers Arrow Flight: gRPC calls over the same listener, tables, tokens and limits as the routes of HTTP.
//!
//! A ticket is text that a client can write by hand: a table's name, and the parameters of its route for rows after a
//! `?`, as in `ticks?from=1000&columns=ts,price&where=price > 100`, or `ticks?follow=true`. A descriptor is a path of
//! one name, or the same text as a command. Bodies are sent from the mapping in place. Commands and tickets of [Flight
//! SQL](sql) are protobuf messages, whose first bytes can't begin the name of a table.
//!
//! Messages and their frames are in the crate `arrowwood_flight`. Read in this order: `target` (tickets and
//! descriptors), `request_stream` (received messages), `status` (responses), `framing` (rows that are sent), `put` and
//! `exchange` (rows that are received), `sql`.
//!
//! It may use all rooms but `view` and `server`, and only what they re-export.

mod exchange;
mod framing;
mod put;
mod request_stream;
mod sql;
mod status;
mod target;

use std::sync::Arc;

pub(crate) use arrowwood_flight::SERVICE;
use arrowwood_flight::sql::{Any, SqlCommand};
use arrowwood_flight::{
    DescriptorType, FlightDescriptor, FlightEndpoint, FlightInfo, SchemaResult, Ticket, UNKNOWN, frame_message,
};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, Version};

use self::framing::FLIGHT_FRAMING;
use self::put::PutStream;
use self::request_stream::RequestStream;
pub(crate) use self::status::refusal_response;
use self::status::{body_response, message_response};
use self::target::{parse_descriptor, parse_ticket};
use crate::auth::password_of;
use crate::catalog::{Kind, Table};
use crate::http::{Problem, Query, ResponseBody, Result, ResultExt, allow};
use crate::ingest::{IngestSession, IngestState};
use crate::read::{Follower, Selection, follow, rows};
use crate::session::{Session, Trace};
use crate::sql::{SqlSession, SqlState};

/// The maximum number of endpoints of a flight.
const MAX_ENDPOINTS: u64 = 16;
/// The minimum number of rows of an endpoint, unless the flight has fewer.
const MIN_ENDPOINT_ROWS: u64 = 1 << 20;
/// The parameters of a ticket.
const PARAMETERS: &[&str] = &["from", "to", "columns", "column", "where", "limit", "follow", "durable", "numbering"];

/// The session of a call, with the state of the rooms that it needs.
pub(crate) struct FlightSession {
    pub session: Session,
    pub ingest: Arc<IngestState>,
    pub sql: Arc<SqlState>,
}

impl FlightSession {
    fn ingest(&self) -> IngestSession {
        IngestSession { session: self.session.clone(), state: self.ingest.clone() }
    }

    fn sql(&self) -> SqlSession {
        SqlSession { session: self.session.clone(), state: self.sql.clone() }
    }
}

/// Answers the call named `method`.
pub(crate) async fn answer(
    call: FlightSession,
    parts: &Parts,
    body: Incoming,
    method: &str,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::POST])?;
    if parts.version != Version::HTTP_2 {
        return Err(Problem::bad_request("Flight is spoken over HTTP/2"));
    }
    let mut requests = RequestStream::new(body, call.session.clone(), call.ingest.memory.clone());
    match method {
        "ListFlights" => call.session.run_blocking(list).await,
        "GetFlightInfo" => {
            let descriptor = requests.only_message::<FlightDescriptor>().await?;
            match SqlCommand::parse(&descriptor.cmd)? {
                Some(command) => sql::flight_info(call.sql(), descriptor, command).await,
                None => flight_info(call.session, descriptor).await,
            }
        }
        "GetSchema" => {
            let descriptor = requests.only_message::<FlightDescriptor>().await?;
            if let Some(command) = SqlCommand::parse(&descriptor.cmd)? {
                return sql::schema(call.sql(), command).await;
            }
            schema(call.session, &descriptor).await
        }
        "DoGet" => {
            let ticket = requests.only_message::<Ticket>().await?;
            if let Some(command) = SqlCommand::parse(&ticket.ticket)? {
                return sql::get(call.sql(), command).await;
            }
            let (name, query) = parse_ticket(&ticket, PARAMETERS)?;
            get(call.session, &name, query).await
        }
        "DoPut" => {
            let first = put::receive_first(&call.session, &mut requests).await?;
            if let Some(command) = Any::parse(&first.descriptor.cmd) {
                return sql::put(call.sql(), requests, command, first.header).await;
            }
            trace.is_write = true;
            let put = put::begin(call.ingest(), requests, first).await?;
            Ok(body_response(ResponseBody::steps(put, PutStream::step)))
        }
        "DoExchange" => exchange::begin(call.ingest(), requests).await,
        "DoAction" => {
            let action = requests.only_message().await?;
            sql::action(call.sql(), action).await
        }
        "ListActions" => Ok(sql::list_actions()),
        "Handshake" => Ok(handshake(parts)),
        _ => {
            let detail = "calls are ListFlights, GetFlightInfo, GetSchema, DoGet, DoPut, DoExchange and DoAction";
            Err(Problem::new(hyper::StatusCode::NOT_IMPLEMENTED, "not_implemented", detail))
        }
    }
}

/// Answers a handshake with a name and a password, which is the token. Returns the token in the form required by
/// further requests.
fn handshake(parts: &Parts) -> Response<ResponseBody> {
    let mut response = body_response(ResponseBody::empty());
    let token = password_of(&parts.headers).and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    if let Some(token) = token {
        response.headers_mut().insert(header::AUTHORIZATION, token);
    }
    response
}

/// Returns the table named in a call's message, if there is one. Used by tests, which send any bytes.
#[cfg(feature = "internal")]
pub fn parse_call_target(method: &str, message: &[u8]) -> Option<String> {
    use arrowwood_flight::decode_message;

    let message = Bytes::copy_from_slice(message);
    let target = match method {
        "DoGet" => parse_ticket(&decode_message(message).ok()?, PARAMETERS),
        "DoPut" => put::parse_first_target(message).map(|(target, _)| target),
        _ => parse_descriptor(&decode_message(message).ok()?, PARAMETERS),
    };
    target.ok().map(|(name, _)| name)
}

/// Returns the schema of the requested rows.
async fn schema(session: Session, descriptor: &FlightDescriptor) -> Result<Response<ResponseBody>> {
    let (name, query) = parse_descriptor(descriptor, PARAMETERS)?;
    session.check_facts(&name)?;
    let selection = selection(&session, &name, query).await?;
    let schema = selection.schema_message().or_table_problem()?.into();
    Ok(message_response(frame_message(&SchemaResult { schema })))
}

/// Selects the requested rows.
async fn selection(session: &Session, name: &str, query: Query) -> Result<Selection> {
    let table = session.table(name).await?;
    session.run_blocking(move |_| Selection::open(table, &query)).await
}

async fn get(session: Session, name: &str, query: Query) -> Result<Response<ResponseBody>> {
    if !query.flag("follow")? {
        if query.get("durable")?.is_some() {
            return Err(Problem::bad_request("durable goes with follow"));
        }
        session.check_read(name)?;
        let selection = selection(&session, name, query).await?;
        return Ok(body_response(rows::framed_body(selection, FLIGHT_FRAMING, session).await?));
    }
    for parameter in ["to", "where", "limit"] {
        if query.has(parameter) {
            return Err(Problem::bad_request(format!("{parameter} does not go with follow")));
        }
    }
    session.check_read(name)?;
    let table = session.table(name).await?;
    let follower =
        session.run_blocking(move |session| Follower::open(table, &query, session.clone(), FLIGHT_FRAMING)).await?;
    session.peer.mark_as_follower();
    Ok(body_response(follow::counted(ResponseBody::steps(follower, Follower::step), &session)))
}

async fn flight_info(session: Session, descriptor: FlightDescriptor) -> Result<Response<ResponseBody>> {
    let (name, query) = parse_descriptor(&descriptor, PARAMETERS)?;
    if query.flag("follow")? {
        return Err(Problem::bad_request("a stream that goes on has no end to inform of; get its ticket"));
    }
    session.check_read(&name)?;
    let table = session.table(&name).await?;
    let info = session.run_blocking(move |_| describe_flight(table, descriptor, &query)).await?;
    Ok(message_response(frame_message(&info)))
}

/// Describes the selected rows, and divides them into endpoints, all of them on this server. Blocks.
fn describe_flight(table: Arc<Table>, descriptor: FlightDescriptor, query: &Query) -> Result<FlightInfo> {
    let selection = Selection::open(table.clone(), query)?;
    let schema = selection.schema_message().or_table_problem()?.into();
    assert!(selection.first_row <= selection.end_row, "a selection ends before its first row");
    let rows = selection.end_row - selection.first_row;
    let is_counted = query.get("where")?.is_none() && query.get("limit")?.is_none();
    let endpoint_rows = if is_counted { rows.div_ceil(MAX_ENDPOINTS).max(MIN_ENDPOINT_ROWS) } else { rows.max(1) };
    let mut endpoints = Vec::new();
    let mut start = selection.first_row;
    // An empty result has one endpoint too, for its schema.
    while start < selection.end_row || endpoints.is_empty() {
        let end = (start + endpoint_rows).min(selection.end_row);
        let ticket = Ticket { ticket: format_ticket(&table, start, end, query).into() };
        endpoints.push(FlightEndpoint { ticket: Some(ticket) });
        start = end;
    }
    Ok(FlightInfo {
        schema,
        flight_descriptor: Some(descriptor),
        endpoint: endpoints,
        total_records: if is_counted { i64::try_from(rows).unwrap_or(UNKNOWN) } else { UNKNOWN },
        total_bytes: UNKNOWN,
        ordered: true,
    })
}

/// Returns the text of a ticket for the rows from `start` to before `end`.
fn format_ticket(table: &Table, start: u64, end: u64, query: &Query) -> String {
    let mut text = form_urlencoded::Serializer::new(format!("{}?", table.name));
    text.append_pair("from", &start.to_string()).append_pair("to", &end.to_string());
    if table.kind == Kind::Table {
        // The server refuses the ticket once the table's rows are in another order, as other rows have these numbers.
        text.append_pair("numbering", &table.identity.numbering());
    }
    for parameter in ["columns", "column", "where", "limit"] {
        for value in query.all(parameter) {
            text.append_pair(parameter, value);
        }
    }
    text.finish()
}

/// Lists the tables that the caller may read. Blocks.
fn list(session: &Session) -> Result<Response<ResponseBody>> {
    let mut frames = Vec::new();
    for entry in session.shared.catalog.list()? {
        if !session.caller.rights().may_read(&entry.name) {
            continue;
        }
        let descriptor =
            FlightDescriptor { r#type: DescriptorType::Path.into(), cmd: Bytes::new(), path: vec![entry.name.clone()] };
        // Tables that can't be opened are omitted: they may have been removed, and a call for them gets the error.
        let info = session.shared.catalog.get(&entry.name).and_then(|table| {
            let query = Query::parse(None, &[])?;
            describe_flight(table, descriptor, &query)
        });
        if let Ok(info) = info {
            frames.push(frame_message(&info));
        }
    }
    Ok(body_response(ResponseBody::new(frames.concat())))
}
