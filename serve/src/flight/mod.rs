//! Arrow Flight: the calls of gRPC over the same listener, tables, tokens and limits as HTTP's routes.
//!
//! A ticket is text that a client can write by hand: a table's name, and the parameters of its route for rows after a
//! `?`, as in `ticks?from=1000&columns=ts,price&where=price > 100`, or `ticks?follow=true`. A descriptor is a path of
//! one name, or the same text as a command. Bodies are sent from the mapping in place. Commands and tickets of [Flight
//! SQL](sql) are messages of protobuf, whose first bytes begin no table's name.

mod exchange;
pub(crate) mod messages;
mod put;
mod request_stream;
mod sql;
mod status;
mod target;

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, Version};

pub(crate) use self::messages::SERVICE;
use self::messages::{DescriptorType, FlightDescriptor, FlightEndpoint, FlightInfo, SchemaResult, Ticket, framed};
use self::request_stream::{RequestStream, decoded};
use self::sql::SqlCommand;
use self::sql::messages::Any;
pub(crate) use self::status::refused;
use self::status::{answered, whole};
use self::target::{target_of, target_of_ticket};
use crate::access::password_of;
use crate::follow::{self, Follower};
use crate::frames::Framing;
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response::allow;
use crate::response_body::ResponseBody;
use crate::row_stream::{self, Selection};
use crate::session::{Session, Trace};
use crate::table::{Kind, Table};

/// The maximum number of endpoints of a flight, and the minimum rows of each.
const ENDPOINTS: (u64, u64) = (16, 1 << 20);
/// The parameters of a ticket.
const PARAMETERS: &[&str] = &["from", "to", "columns", "column", "where", "limit", "follow", "durable", "numbering"];

/// Answers a call.
pub(crate) async fn answer(
    session: Session,
    parts: &Parts,
    body: Incoming,
    method: &str,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::POST])?;
    if parts.version != Version::HTTP_2 {
        return Err(Problem::bad_request("Flight is spoken over HTTP/2"));
    }
    let mut calls = RequestStream::new(body, session.clone());
    match method {
        "ListFlights" => session.run_blocking(list).await,
        "GetFlightInfo" => {
            let descriptor = calls.question::<FlightDescriptor>().await?;
            match SqlCommand::parse(&descriptor.command)? {
                Some(question) => sql::flight_info(session, descriptor, question).await,
                None => flight_info(session, descriptor).await,
            }
        }
        "GetSchema" => {
            let descriptor = calls.question::<FlightDescriptor>().await?;
            if let Some(question) = SqlCommand::parse(&descriptor.command)? {
                return sql::schema(session, question).await;
            }
            let (name, query) = target_of(&descriptor, PARAMETERS)?;
            session.check_facts(&name)?;
            let selection = selection(&session, &name, query).await?;
            let schema = selection.schema_message().map_err(|e| Problem::from_table_error(&e))?.into();
            Ok(whole(framed(&SchemaResult { schema })))
        }
        "DoGet" => {
            let ticket = calls.question::<Ticket>().await?;
            if let Some(question) = SqlCommand::parse(&ticket.ticket)? {
                return sql::get(session, question).await;
            }
            let (name, query) = target_of_ticket(&ticket, PARAMETERS)?;
            get(session, &name, query).await
        }
        "DoPut" => {
            let first = put::opening(&session, &mut calls).await?;
            if let Some(command) = Any::parse(&first.descriptor.command) {
                return sql::put(session, calls, command, first.header).await;
            }
            trace.is_write = true;
            Ok(answered(ResponseBody::steps(put::begin(session, calls, first).await?)))
        }
        "DoExchange" => exchange::begin(session, calls).await,
        "DoAction" => {
            let action = calls.question().await?;
            sql::action(session, action).await
        }
        "ListActions" => Ok(sql::list_actions()),
        "Handshake" => Ok(handshake(parts)),
        _ => {
            let detail = "calls are ListFlights, GetFlightInfo, GetSchema, DoGet, DoPut, DoExchange and DoAction";
            Err(Problem::new(hyper::StatusCode::NOT_IMPLEMENTED, "not_implemented", detail))
        }
    }
}

/// Handshake with a name and a password, which is the token; returns the token in the form required by further calls.
fn handshake(parts: &Parts) -> Response<ResponseBody> {
    let mut response = answered(ResponseBody::empty());
    let token = password_of(&parts.headers).and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
    if let Some(token) = token {
        response.headers_mut().insert(header::AUTHORIZATION, token);
    }
    response
}

/// The table named in a call's message, if there is one. For tests, which send any bytes.
#[doc(hidden)]
pub fn parse_call_target(method: &str, message: &[u8]) -> Option<String> {
    let message = Bytes::copy_from_slice(message);
    let meant = match method {
        "DoGet" => target_of_ticket(&decoded(message).ok()?, PARAMETERS),
        "DoPut" => put::target_of_first(message).map(|(target, _)| target),
        _ => target_of(&decoded(message).ok()?, PARAMETERS),
    };
    meant.ok().map(|(name, _)| name)
}

/// The requested rows.
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
        return Ok(answered(row_stream::flight_body(selection, session).await?));
    }
    if let Some(other) = ["to", "where", "limit"].into_iter().find(|name| query.all(name).next().is_some()) {
        return Err(Problem::bad_request(format!("{other} does not go with follow")));
    }
    session.check_read(name)?;
    let table = session.table(name).await?;
    let follower =
        session.run_blocking(move |session| Follower::open(table, &query, session.clone(), Framing::Flight)).await?;
    session.peer.is_follower.store(true, std::sync::atomic::Ordering::Release);
    Ok(answered(follow::body(follower, &session)))
}

async fn flight_info(session: Session, descriptor: FlightDescriptor) -> Result<Response<ResponseBody>> {
    let (name, query) = target_of(&descriptor, PARAMETERS)?;
    if query.flag("follow")? {
        return Err(Problem::bad_request("a stream that goes on has no end to inform of; get its ticket"));
    }
    session.check_read(&name)?;
    let table = session.table(&name).await?;
    let info = session.run_blocking(move |_| info_of(table, descriptor, &query)).await?;
    Ok(whole(framed(&info)))
}

/// The description of rows, and their endpoints: here, in parts. Blocks.
fn info_of(table: Arc<Table>, descriptor: FlightDescriptor, query: &Query) -> Result<FlightInfo> {
    let selection = Selection::open(table.clone(), query)?;
    let schema = selection.schema_message().map_err(|e| Problem::from_table_error(&e))?.into();
    let rows = selection.end_row - selection.first_row;
    let is_whole = query.get("where")?.is_none() && query.get("limit")?.is_none();
    let part = if is_whole { rows.div_ceil(ENDPOINTS.0).max(ENDPOINTS.1) } else { rows.max(1) };
    let starts = (selection.first_row..selection.end_row).step_by(usize::try_from(part).unwrap_or(usize::MAX));
    let ticket = |start: u64| {
        let end = (start + part).min(selection.end_row);
        let ticket = Some(Ticket { ticket: ticket(&table, start, end, query).into() });
        FlightEndpoint { ticket }
    };
    // An empty result has one endpoint too, for its schema.
    let starts = if rows == 0 { vec![selection.first_row] } else { starts.collect() };
    Ok(FlightInfo {
        schema,
        descriptor: Some(descriptor),
        endpoints: starts.into_iter().map(ticket).collect(),
        total_records: if is_whole { i64::try_from(rows).unwrap_or(-1) } else { -1 },
        total_bytes: -1,
        ordered: true,
    })
}

fn ticket(table: &Table, start: u64, end: u64, query: &Query) -> String {
    let mut text = form_urlencoded::Serializer::new(format!("{}?", table.name));
    text.append_pair("from", &start.to_string()).append_pair("to", &end.to_string());
    if table.kind == Kind::Table {
        // Whose rows are put in another order has other rows by these numbers.
        text.append_pair("numbering", &table.identity.numbering());
    }
    for other in ["columns", "column", "where", "limit"] {
        query.all(other).for_each(|value| {
            text.append_pair(other, value);
        });
    }
    text.finish()
}

/// The readable tables. Blocks.
fn list(session: &Session) -> Result<Response<ResponseBody>> {
    let mut frames = Vec::new();
    for entry in session.shared.catalog.list()? {
        if !session.caller.rights().may_read(&entry.name) {
            continue;
        }
        let descriptor = FlightDescriptor {
            kind: DescriptorType::Path.into(),
            command: Bytes::new(),
            path: vec![entry.name.clone()],
        };
        // Tables that can't be opened are omitted: they may have been removed, and a call for them gets the error.
        let info = session.shared.catalog.get(&entry.name).and_then(|table| {
            let query = Query::parse(None, &[])?;
            info_of(table, descriptor, &query)
        });
        frames.extend(info.ok().map(|info| framed(&info)));
    }
    Ok(answered(ResponseBody::several(frames)))
}
