//! The routes that read: lists of tables, facts, rows, and streams that follow a table.

use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::json;

use super::follow::{self, EventStream, Follower};
use super::frames::Framing;
use super::rows::{self, RowFormat, Selection};
use crate::catalog::{Snapshot, kind_name, snapshot};
use crate::http::{Problem, Query, ResponseBody, Result, allow, header_name, json_response, with_type};
use crate::session::Session;

/// `GET /v1/tables`
pub(crate) async fn tables(session: Session, parts: &Parts) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    Query::parse(parts.uri.query(), &[])?;
    let entries = session.run_blocking(|session| session.shared.catalog.list()).await?;
    let rights = session.caller.rights();
    let mut tables = Vec::new();
    for entry in entries {
        if rights.may_read(&entry.name) || rights.may_write(&entry.name) {
            tables.push(json!({"name": entry.name, "kind": kind_name(entry.kind)}));
        }
    }
    Ok(json_response(StatusCode::OK, &json!({"tables": tables})))
}

/// `GET /v1/tables/T`
pub(crate) async fn table(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET, Method::PUT])?;
    Query::parse(parts.uri.query(), &[])?;
    // Callers who may only write need the columns, too.
    session.check_facts(name)?;
    let table = session.table(name).await?;
    let snapshot = session.run_blocking(move |_| Snapshot::load(table)).await?;
    let id = snapshot::header_value(snapshot.id.clone())?;
    let facts = session.run_blocking(move |session| session.facts(&snapshot)).await?;
    let mut response = json_response(StatusCode::OK, &facts);
    response.headers_mut().insert(header_name(snapshot::HEADER), id);
    Ok(response)
}

/// `GET /v1/tables/T/rows`
pub(crate) async fn rows(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET, Method::POST])?;
    let query = Query::parse(parts.uri.query(), rows::PARAMETERS);
    // A request for no rows gets the schema, which belongs to the facts about a table.
    if query.as_ref().is_ok_and(|query| query.get("limit").is_ok_and(|limit| limit == Some("0"))) {
        session.check_facts(name)?;
    } else {
        session.check_read(name)?;
    }
    let query = query?;
    let form = RowFormat::negotiate(&query, &parts.headers)?;
    let table = session.table(name).await?;
    let selection = session.run_blocking(move |_| Selection::open(table, &query)).await?;
    let range = [
        (header_name("arrowwood-first-row"), selection.first_row),
        (header_name("arrowwood-end-row"), selection.end_row),
        (header_name("arrowwood-table-end"), selection.table_end),
    ];
    let id = snapshot::header_value(selection.id.clone())?;
    let is_head = parts.method == Method::HEAD;
    let body = if is_head { ResponseBody::empty() } else { rows::body(selection, form, session).await? };
    let mut response = with_type(StatusCode::OK, form.media_type(), body);
    response.headers_mut().extend(range.map(|(name, row)| (name, HeaderValue::from(row))));
    response.headers_mut().insert(header_name(snapshot::HEADER), id);
    Ok(response)
}

/// `GET /v1/tables/T/follow`
pub(crate) async fn follow(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), follow::PARAMETERS)?;
    let table = session.table(name).await?;
    let follower =
        session.run_blocking(move |session| Follower::open(table, &query, session.clone(), Framing::STREAM)).await?;
    let first_row = follower.next_row();
    let numbering = HeaderValue::try_from(follower.numbering()).map_err(|e| Problem::internal(e.to_string()))?;
    session.peer.mark_as_follower();
    let body = follow::counted(ResponseBody::steps(follower, Follower::step), &session);
    let mut response = with_type(StatusCode::OK, RowFormat::Arrow.media_type(), body);
    response.headers_mut().insert(header_name("arrowwood-first-row"), HeaderValue::from(first_row));
    response.headers_mut().insert(header_name("arrowwood-numbering"), numbering);
    Ok(response)
}

/// `GET /v1/tables/T/events`
pub(crate) async fn events(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), follow::EVENT_PARAMETERS)?;
    let table = session.table(name).await?;
    let events = session.run_blocking(move |session| EventStream::open(table, &query, session.clone())).await?;
    session.peer.mark_as_follower();
    let body = follow::counted(ResponseBody::steps(events, EventStream::step), &session);
    Ok(with_type(StatusCode::OK, "text/event-stream", body))
}
