//! Requests to answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value as Json, json};

use crate::audit::AuditLine;
use crate::cells;
use crate::decode::RequestedSchema;
use crate::describe::{facts, kind_name};
use crate::downsample;
use crate::downsample_time;
use crate::export::{self, ExportFormat};
use crate::file_layout;
use crate::flight;
use crate::follow::{self, EventStream, Follower};
use crate::frames::Framing;
use crate::groups::{self, Grouping};
use crate::image;
use crate::ingest;
use crate::limits::Limits;
use crate::page;
use crate::problem::{Problem, Result};
use crate::query::{Query, own};
use crate::request_body::receive;
use crate::response::{allow, empty, json_response, text, with_type};
use crate::response_body::ResponseBody;
use crate::row_stream::{self, RowFormat, Selection};
use crate::search::{self, Search};
use crate::seek;
use crate::session::{Peer, ServerState, Session, Trace};
use crate::snapshot::{self, Snapshot};
use crate::sql;
use crate::sql_results;
use crate::statistics;
use crate::tls::Tls;
use crate::worker_calls;

/// Routes below a table for people who look at it.
const LOOKS: &[&str] =
    &["cells", "cell", "text", "image", "views", "groups", "save", "seek", "sql", "statistics", "bins", "messages"];
/// Bytes of a schema.
const SCHEMA: usize = 128 << 10;

/// Answers a request, whatever it is.
pub(crate) async fn answer(shared: Arc<ServerState>, peer: Peer, request: Request<Incoming>) -> Response<ResponseBody> {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let mut trace = Trace::default();
    let done = route(&shared, &peer, request, &mut trace).await;
    let done = done.map_err(|refusal| if shared.is_view { refusal.with_full_detail() } else { refusal });
    let (code, log) = match &done {
        Ok(_) => (None, None),
        Err(refusal) => (Some(refusal.code()), refusal.log()),
    };
    // Flight's calls are answered with 200, whatever became of them.
    let status = done.as_ref().map_or_else(Problem::status, Response::status).as_u16();
    let is_call = path.strip_prefix('/').is_some_and(|path| path.starts_with(flight::SERVICE));
    let refused = |refusal: Problem| if is_call { flight::refusal_response(&refusal) } else { refusal.into_response() };
    let mut response = done.unwrap_or_else(refused);
    shared.metrics.answered(status);
    if trace.is_write || status >= 400 {
        let token = trace.caller.as_ref().and_then(|caller| caller.name());
        let peer = peer.address;
        let rows = trace.rows;
        let log = log.as_deref();
        shared.audit.write(&AuditLine { peer, token, method: &method, path: &path, status, rows, code, log });
    }
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let nothing = HeaderValue::from_static("default-src 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(nothing);
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(own("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    if method == Method::HEAD {
        *response.body_mut() = ResponseBody::empty();
    }
    response
}

/// The parts of a path, percent-decoded.
fn segments(path: &str) -> Result<Vec<Cow<'_, str>>> {
    let decode = |part| percent_encoding::percent_decode_str(part).decode_utf8();
    let parts = path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect::<Result<Vec<_>, _>>();
    parts.map_err(|_| Problem::bad_request("the path is not UTF-8"))
}

async fn route(
    shared: &Arc<ServerState>,
    peer: &Peer,
    request: Request<Incoming>,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
    shared.access.check_target(&request)?;
    let (parts, body) = request.into_parts();
    let segments = segments(parts.uri.path())?;
    let names: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    if let Some(response) = health(shared, &parts, &names).await {
        return response.map(|response| if peer.is_kept { closing(response) } else { response });
    }
    if peer.is_kept {
        let detail = "as many connections are open as may be (--max-connections); try again, or close one";
        return Err(Problem::unavailable(detail).header(header::CONNECTION, HeaderValue::from_static("close")));
    }
    if shared.is_stopping() {
        return Err(stopping());
    }
    if shared.is_view
        && let Some(response) = page::answer(shared, peer, &parts, &names).await?
    {
        return Ok(response);
    }
    let caller = Arc::new(shared.access.caller(&parts.method, &parts.headers)?);
    trace.caller = Some(caller.clone());
    let session = Session { shared: shared.clone(), caller, peer: peer.clone() };
    if let Some(engine) = shared.worker.as_ref().filter(|engine| names.len() == 2 && engine.handles(names[0])) {
        allow(&parts, &[Method::POST])?;
        return Ok(worker_calls::answer(session, engine.as_ref(), Request::from_parts(parts, body)).await);
    }
    match names[..] {
        [flight::SERVICE, method] => flight::answer(session, &parts, body, method, trace).await,
        ["metrics"] => metrics(&session, &parts),
        ["write"] => ingest::line_protocol(session, &parts, body, trace, true).await,
        ["api", "v2", "write"] => ingest::line_protocol(session, &parts, body, trace, false).await,
        ["v1", "sql"] => statement(session, &parts).await,
        ["v1", "tables"] => tables(session, &parts).await,
        ["v1", "tables", name] => table(session, &parts, body, name, trace).await,
        ["v1", "tables", name, "rows"] if parts.method == Method::POST => {
            ingest::rows(session, &parts, body, name, trace).await
        }
        ["v1", "tables", name, "rows"] => rows(session, &parts, name).await,
        ["v1", "tables", name, "follow"] => follow(session, &parts, name).await,
        ["v1", "tables", name, "events"] => events(session, &parts, name).await,
        ["v1", "tables", name, look] if LOOKS.contains(&look) => self::look(session, &parts, name, look).await,
        ["v1", "tables", name, "producers", producer] => ingest::producer(session, &parts, name, producer).await,
        _ => Err(Problem::not_found("there is no such route; GET /v1/tables lists what is served")),
    }
}

/// The answer to whoever asks how the server is, for which no token is needed; `None` for another path.
async fn health(shared: &ServerState, parts: &Parts, names: &[&str]) -> Option<Result<Response<ResponseBody>>> {
    match names {
        ["healthz"] => Some(
            allow(parts, &[Method::GET])
                .and_then(|()| if shared.is_stopping() { Err(stopping()) } else { Ok(text("ok\n")) }),
        ),
        ["readyz"] => Some(readiness(shared, parts).await),
        ["ping"] => Some(allow(parts, &[Method::GET, Method::POST]).map(|()| empty(StatusCode::NO_CONTENT))),
        _ => None,
    }
}

/// Whether the server does its work, or why not.
async fn readiness(shared: &ServerState, parts: &Parts) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    if shared.is_stopping() {
        return Err(stopping());
    }
    let mut problems: Vec<&str> = shared.readiness.problem().await.into_iter().collect();
    if shared.tls.as_ref().is_some_and(Tls::is_expired) {
        problems.push("the certificate is expired");
    }
    if shared.access.lacks_tokens() {
        problems.push("the token file can't be read");
    }
    if problems.is_empty() {
        return Ok(text("ok\n"));
    }
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", problems.join("; ")))
}

/// The same answer, as the last one of its connection.
fn closing(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The answer to a statement of SQL over the tables that the caller may read.
async fn statement(session: Session, parts: &Parts) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    let query = Query::parse(parts.uri.query(), sql::PARAMETERS)?;
    let form = RowFormat::negotiate(&query, &parts.headers)?;
    let running = sql::statement(&session, &query).await?;
    let is_head = parts.method == Method::HEAD;
    let body = if is_head { ResponseBody::empty() } else { sql_results::body(running, form, session)? };
    Ok(with_type(StatusCode::OK, form.media_type(), body))
}

fn stopping() -> Problem {
    Problem::unavailable("the server is stopping").header(header::CONNECTION, HeaderValue::from_static("close"))
}

fn metrics(session: &Session, parts: &Parts) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    if !session.caller.rights().may_read_all() {
        return Err(Problem::forbidden("metrics need a token that may read '*'"));
    }
    let body = ResponseBody::new(session.metrics().text());
    Ok(with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", body))
}

async fn tables(session: Session, parts: &Parts) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    Query::parse(parts.uri.query(), &[])?;
    let entries = session.run_blocking(|session| session.shared.catalog.list()).await?;
    let rights = session.caller.rights();
    let entries = entries.into_iter().filter(|entry| rights.may_read(&entry.name) || rights.may_write(&entry.name));
    let listed = entries.map(|entry| json!({"name": entry.name, "kind": kind_name(entry.kind)}));
    Ok(json_response(StatusCode::OK, &json!({"tables": listed.collect::<Vec<_>>()})))
}

async fn table(
    session: Session,
    parts: &Parts,
    body: Incoming,
    name: &str,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET, Method::PUT])?;
    if parts.method == Method::PUT {
        trace.is_write = true;
        return create(session, parts, body, name).await;
    }
    Query::parse(parts.uri.query(), &[])?;
    // Whoever may write has to know the columns.
    session.check_facts(name)?;
    let table = session.table(name).await?;
    let snapshot = session.run_blocking(move |_| Snapshot::load(table)).await?;
    let id = snapshot_header(snapshot.id.clone())?;
    let facts = session.run_blocking(move |session| facts(session, &snapshot)).await?;
    let mut response = json_response(StatusCode::OK, &facts);
    response.headers_mut().insert(own(SNAPSHOT), id);
    Ok(response)
}

async fn create(session: Session, parts: &Parts, body: Incoming, name: &str) -> Result<Response<ResponseBody>> {
    session.check_write(name)?;
    let query = Query::parse(parts.uri.query(), ingest::CREATE_PARAMETERS)?;
    let limits = Limits { body: SCHEMA, ..session.shared.limits.clone() };
    let received = receive(&parts.headers, body, &limits, &session.shared.memory).await?;
    // The body may have taken minutes.
    session.check_valid()?;
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let wanted = RequestedSchema::parse(received.bytes, content_type)?;
    let options = ingest::table_options(&query)?;
    let name = name.to_owned();
    let (is_new, facts) =
        session.run_blocking(move |session| ingest::create(session, &name, &wanted, &options)).await?;
    Ok(json_response(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &facts))
}

async fn rows(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET, Method::POST])?;
    let query = Query::parse(parts.uri.query(), row_stream::PARAMETERS);
    // No rows are the schema, which is a fact.
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
        (own("arrowwood-first-row"), selection.first_row),
        (own("arrowwood-end-row"), selection.end_row),
        (own("arrowwood-table-end"), selection.table_end),
    ];
    let id = snapshot_header(selection.id.clone())?;
    let is_head = parts.method == Method::HEAD;
    let body = if is_head { ResponseBody::empty() } else { row_stream::body(selection, form, session).await? };
    let mut response = with_type(StatusCode::OK, form.media_type(), body);
    response.headers_mut().extend(range.map(|(name, row)| (name, HeaderValue::from(row))));
    response.headers_mut().insert(own(SNAPSHOT), id);
    Ok(response)
}

async fn follow(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), follow::PARAMETERS)?;
    let table = session.table(name).await?;
    let follower =
        session.run_blocking(move |session| Follower::open(table, &query, session.clone(), Framing::Stream)).await?;
    let first_row = follower.next_row();
    let numbering = HeaderValue::try_from(follower.numbering()).map_err(|e| Problem::internal(e.to_string()))?;
    session.peer.is_follower.store(true, Ordering::Release);
    let mut response = with_type(StatusCode::OK, RowFormat::Arrow.media_type(), follow::body(follower, &session));
    response.headers_mut().insert(own("arrowwood-first-row"), HeaderValue::from(first_row));
    response.headers_mut().insert(own("arrowwood-numbering"), numbering);
    Ok(response)
}

async fn events(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), follow::EVENT_PARAMETERS)?;
    let table = session.table(name).await?;
    let events = session.run_blocking(move |session| EventStream::open(table, &query, session.clone())).await?;
    session.peer.is_follower.store(true, Ordering::Release);
    Ok(with_type(StatusCode::OK, "text/event-stream", follow::body(events, &session)))
}

/// What people look at: cells as text, and what is told of columns, rows and bytes. All of it is of one [`Snapshot`].
async fn look(session: Session, parts: &Parts, name: &str, look: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), &[look_parameters(look), &[snapshot::PARAMETER]].concat())?;
    let table = session.table(name).await?;
    let asked = query.clone();
    let snapshot = session.run_blocking(move |_| Snapshot::load_for_query(table, &asked)).await?;
    let id = snapshot.id.clone();
    let mut response = looked_at(session, snapshot, query, look).await?;
    response.headers_mut().insert(own(SNAPSHOT), snapshot_header(id)?);
    Ok(response)
}

fn look_parameters(look: &str) -> &'static [&'static str] {
    match look {
        "cells" => cells::PARAMETERS,
        "cell" | "text" => file_layout::CELL_PARAMETERS,
        "messages" => file_layout::PARAMETERS,
        "bins" => downsample::PARAMETERS,
        "image" => image::PARAMETERS,
        "groups" => groups::PARAMETERS,
        "sql" => sql::PARAMETERS,
        "save" => export::PARAMETERS,
        "seek" => seek::PARAMETERS,
        "statistics" => statistics::PARAMETERS,
        _ => search::PARAMETERS,
    }
}

async fn looked_at(session: Session, snapshot: Snapshot, query: Query, look: &str) -> Result<Response<ResponseBody>> {
    let lines = |steps| with_type(StatusCode::OK, RowFormat::JsonLines.media_type(), steps);
    let found = match look {
        "cells" => session.run_blocking(move |session| cells::cells(session, &snapshot, &query)).await?,
        "cell" => session.run_blocking(move |_| by_path(&snapshot, file_layout::cell(&snapshot, &query))).await?,
        "text" => return session.run_blocking(move |session| file_layout::text(session, &snapshot, &query)).await,
        "messages" => {
            session.run_blocking(move |_| by_path(&snapshot, file_layout::messages(&snapshot, &query))).await?
        }
        "bins" if query.get("over")?.is_some() => downsample_time::bins(&session, snapshot, &query).await?,
        "bins" => downsample::bins(&session, snapshot, &query).await?,
        "image" => return session.run_blocking(move |_| image::image(&snapshot, &query)).await,
        "groups" => {
            if let Some(form) = ExportFormat::from_query(&query)? {
                return groups::save(&session, snapshot, query, form).await;
            }
            let grouping =
                session.run_blocking(move |session| Grouping::from_query(snapshot, &query, session.clone())).await?;
            return Ok(lines(ResponseBody::steps(grouping)));
        }
        "sql" => return sql::sql(&session, snapshot, &query).await,
        "save" => return export::save(&session, snapshot, &query).await,
        "seek" => seek::seek(&session, snapshot, &query).await?,
        "statistics" => statistics::statistics(&session, snapshot, &query).await?,
        _ => {
            let search =
                session.run_blocking(move |session| Search::from_query(snapshot, &query, session.clone())).await?;
            return Ok(lines(ResponseBody::steps(search)));
        }
    };
    Ok(json_response(StatusCode::OK, &found))
}

/// What was read by the path of a snapshot, if that is still there.
fn by_path(snapshot: &Snapshot, found: Result<Json>) -> Result<Json> {
    snapshot.check_current()?;
    found
}

/// The header with what identifies the rows of an answer.
const SNAPSHOT: &str = "arrowwood-snapshot";

fn snapshot_header(id: String) -> Result<HeaderValue> {
    HeaderValue::try_from(id).map_err(|e| Problem::internal(e.to_string()))
}
