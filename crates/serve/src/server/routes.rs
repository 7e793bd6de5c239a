//! Dispatches requests to their routes, and completes responses.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use arrowwood::Error;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value as Json, json};

use super::tls::Tls;
use crate::catalog::describe::kind_name;
use crate::catalog::snapshot::{self, Snapshot};
use crate::flight;
use crate::http::problem::{Problem, Result};
use crate::http::query::{Query, header_name};
use crate::http::response::{allow, empty, json_response, text, with_type};
use crate::http::response_body::ResponseBody;
use crate::ingest::decode::RequestedSchema;
use crate::ingest::endpoints;
use crate::ingest::line_endpoint::{self, LineApi};
use crate::ingest::request_body::receive;
use crate::ops::audit::AuditLine;
use crate::ops::limits::Limits;
use crate::read::follow::{self, EventStream, Follower};
use crate::read::frames::Framing;
use crate::read::rows::{self, RowFormat, Selection};
use crate::session::{Admission, Peer, ServerState, Session, Trace};
use crate::sql::results;
use crate::sql::worker_calls;
use crate::view::cells;
use crate::view::charts::downsample;
use crate::view::charts::downsample_time;
use crate::view::charts::statistics;
use crate::view::export::{self, ExportFormat};
use crate::view::file_layout;
use crate::view::groups::{self, Grouping};
use crate::view::image;
use crate::view::page;
use crate::view::search::{self, Search};
use crate::view::seek;
use crate::view::sql_panel;

/// The smallest status of a refused or failed request.
const FIRST_ERROR_STATUS: u16 = 400;
/// The maximum size in bytes of the schema of a new table.
const MAX_SCHEMA_LEN: usize = 128 << 10;

/// Answers a request. Errors become responses, too.
pub(crate) async fn answer(shared: Arc<ServerState>, peer: Peer, request: Request<Incoming>) -> Response<ResponseBody> {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let mut trace = Trace::default();
    let mut code = None;
    let mut log = None;
    let status;
    let mut response = match catch_panic(route(&shared, &peer, request, &mut trace)).await {
        Ok(response) => {
            status = response.status().as_u16();
            response
        }
        Err(refusal) => {
            let refusal = if shared.is_view { refusal.with_full_detail() } else { refusal };
            code = Some(refusal.code());
            log = refusal.log();
            status = refusal.status().as_u16();
            let is_flight = path.strip_prefix('/').is_some_and(|path| path.starts_with(flight::SERVICE));
            // The response to a refused Flight call has the status 200, too; metrics and log have the refusal's.
            if is_flight { flight::refusal_response(&refusal) } else { refusal.into_response() }
        }
    };

    shared.metrics.answered(status);
    if trace.is_write || status >= FIRST_ERROR_STATUS {
        shared.audit.write(&AuditLine {
            peer: peer.address,
            token: trace.caller.as_ref().and_then(|caller| caller.name()),
            method: &method,
            path: &path,
            status,
            rows: trace.rows,
            code,
            log: log.as_deref(),
        });
    }

    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("default-src 'none'"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header_name("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    if method == Method::HEAD {
        *response.body_mut() = ResponseBody::empty();
    }
    response
}

/// Awaits `work`. A panic in it, a failed assertion, is answered with 500, and the connection goes on with other
/// requests.
async fn catch_panic<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)))
            .unwrap_or_else(|panic| Poll::Ready(Err(Problem::from_table_error(&Error::from_panic(&*panic)))))
    })
    .await
}

/// Splits a path into its segments, and decodes them.
fn decode_segments(path: &str) -> Result<Vec<Cow<'_, str>>> {
    let mut segments = Vec::new();
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        let decoded = percent_decode_str(segment).decode_utf8();
        segments.push(decoded.map_err(|_| Problem::bad_request("the path is not UTF-8"))?);
    }
    Ok(segments)
}

async fn route(
    shared: &Arc<ServerState>,
    peer: &Peer,
    request: Request<Incoming>,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
    shared.access.check_target(&request)?;
    let (parts, body) = request.into_parts();
    let segments = decode_segments(parts.uri.path())?;
    let names: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let is_limited = peer.admission == Admission::HealthChecks;
    if let Some(response) = health(shared, &parts, &names).await {
        return response.map(|response| if is_limited { with_connection_close(response) } else { response });
    }
    if is_limited {
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
    if let Some(engine) = &shared.worker
        && let [service, _] = names[..]
        && engine.handles(service)
    {
        allow(&parts, &[Method::POST])?;
        return Ok(worker_calls::answer(session, engine.as_ref(), Request::from_parts(parts, body)).await);
    }
    match names[..] {
        [flight::SERVICE, method] => flight::answer(session, &parts, body, method, trace).await,
        ["metrics"] => metrics(&session, &parts),
        ["write"] => line_endpoint::line_protocol(session, &parts, body, trace, LineApi::V1).await,
        ["api", "v2", "write"] => line_endpoint::line_protocol(session, &parts, body, trace, LineApi::V2).await,
        ["v1", "sql"] => statement(session, &parts).await,
        ["v1", "tables"] => tables(session, &parts).await,
        ["v1", "tables", name] => table(session, &parts, body, name, trace).await,
        ["v1", "tables", name, "rows"] if parts.method == Method::POST => {
            endpoints::rows(session, &parts, body, name, trace).await
        }
        ["v1", "tables", name, "rows"] => rows(session, &parts, name).await,
        ["v1", "tables", name, "follow"] => follow(session, &parts, name).await,
        ["v1", "tables", name, "events"] => events(session, &parts, name).await,
        ["v1", "tables", name, "producers", producer] => endpoints::producer(session, &parts, name, producer).await,
        ["v1", "tables", name, segment] => match ViewRoute::parse(segment) {
            Some(route) => view(session, &parts, name, route).await,
            None => Err(no_route()),
        },
        _ => Err(no_route()),
    }
}

fn no_route() -> Problem {
    Problem::not_found("there is no such route; GET /v1/tables lists what is served")
}

/// Answers health checks, which need no token. Returns `None` for another path.
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

/// Answers whether the server can do its work, or why it can't.
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

/// Marks a response as the last one of its connection.
fn with_connection_close(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Runs an SQL statement over the tables that the caller may read.
async fn statement(session: Session, parts: &Parts) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    let query = Query::parse(parts.uri.query(), sql_panel::PARAMETERS)?;
    let form = RowFormat::negotiate(&query, &parts.headers)?;
    let running = sql_panel::statement(&session, &query).await?;
    let is_head = parts.method == Method::HEAD;
    let body = if is_head { ResponseBody::empty() } else { results::body(running, form, session)? };
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
    let mut tables = Vec::new();
    for entry in entries {
        if rights.may_read(&entry.name) || rights.may_write(&entry.name) {
            tables.push(json!({"name": entry.name, "kind": kind_name(entry.kind)}));
        }
    }
    Ok(json_response(StatusCode::OK, &json!({"tables": tables})))
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
    // Callers who may only write need the columns, too.
    session.check_facts(name)?;
    let table = session.table(name).await?;
    let snapshot = session.run_blocking(move |_| Snapshot::load(table)).await?;
    let id = snapshot_header(snapshot.id.clone())?;
    let facts = session.run_blocking(move |session| session.facts(&snapshot)).await?;
    let mut response = json_response(StatusCode::OK, &facts);
    response.headers_mut().insert(header_name(SNAPSHOT), id);
    Ok(response)
}

async fn create(session: Session, parts: &Parts, body: Incoming, name: &str) -> Result<Response<ResponseBody>> {
    session.check_write(name)?;
    let query = Query::parse(parts.uri.query(), endpoints::CREATE_PARAMETERS)?;
    let limits = Limits { body: MAX_SCHEMA_LEN, ..session.shared.limits.clone() };
    let received = receive(&parts.headers, body, &limits, &session.shared.memory).await?;
    // The body may have taken minutes.
    session.check_valid()?;
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let schema = RequestedSchema::parse(received.bytes, content_type)?;
    let options = endpoints::table_options(&query)?;
    let name = name.to_owned();
    let (is_new, facts) =
        session.run_blocking(move |session| endpoints::create(session, &name, &schema, &options)).await?;
    Ok(json_response(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &facts))
}

async fn rows(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
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
    let id = snapshot_header(selection.id.clone())?;
    let is_head = parts.method == Method::HEAD;
    let body = if is_head { ResponseBody::empty() } else { rows::body(selection, form, session).await? };
    let mut response = with_type(StatusCode::OK, form.media_type(), body);
    response.headers_mut().extend(range.map(|(name, row)| (name, HeaderValue::from(row))));
    response.headers_mut().insert(header_name(SNAPSHOT), id);
    Ok(response)
}

async fn follow(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), follow::PARAMETERS)?;
    let table = session.table(name).await?;
    let follower =
        session.run_blocking(move |session| Follower::open(table, &query, session.clone(), Framing::STREAM)).await?;
    let first_row = follower.next_row();
    let numbering = HeaderValue::try_from(follower.numbering()).map_err(|e| Problem::internal(e.to_string()))?;
    session.peer.mark_as_follower();
    let mut response = with_type(StatusCode::OK, RowFormat::Arrow.media_type(), follow::body(follower, &session));
    response.headers_mut().insert(header_name("arrowwood-first-row"), HeaderValue::from(first_row));
    response.headers_mut().insert(header_name("arrowwood-numbering"), numbering);
    Ok(response)
}

async fn events(session: Session, parts: &Parts, name: &str) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), follow::EVENT_PARAMETERS)?;
    let table = session.table(name).await?;
    let events = session.run_blocking(move |session| EventStream::open(table, &query, session.clone())).await?;
    session.peer.mark_as_follower();
    Ok(with_type(StatusCode::OK, "text/event-stream", follow::body(events, &session)))
}

/// A route below a table for the page of `arrowwood view`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ViewRoute {
    Bins,
    Cell,
    Cells,
    Groups,
    Image,
    Messages,
    Save,
    Seek,
    Sql,
    Statistics,
    Text,
    Views,
}

impl ViewRoute {
    fn parse(segment: &str) -> Option<ViewRoute> {
        Some(match segment {
            "bins" => ViewRoute::Bins,
            "cell" => ViewRoute::Cell,
            "cells" => ViewRoute::Cells,
            "groups" => ViewRoute::Groups,
            "image" => ViewRoute::Image,
            "messages" => ViewRoute::Messages,
            "save" => ViewRoute::Save,
            "seek" => ViewRoute::Seek,
            "sql" => ViewRoute::Sql,
            "statistics" => ViewRoute::Statistics,
            "text" => ViewRoute::Text,
            "views" => ViewRoute::Views,
            _ => return None,
        })
    }

    fn parameters(self) -> &'static [&'static str] {
        match self {
            ViewRoute::Bins => downsample::PARAMETERS,
            ViewRoute::Cell | ViewRoute::Text => file_layout::CELL_PARAMETERS,
            ViewRoute::Cells => cells::PARAMETERS,
            ViewRoute::Groups => groups::PARAMETERS,
            ViewRoute::Image => image::PARAMETERS,
            ViewRoute::Messages => file_layout::PARAMETERS,
            ViewRoute::Save => export::PARAMETERS,
            ViewRoute::Seek => seek::PARAMETERS,
            ViewRoute::Sql => sql_panel::PARAMETERS,
            ViewRoute::Statistics => statistics::PARAMETERS,
            ViewRoute::Views => search::PARAMETERS,
        }
    }
}

/// Answers a request of the page. All of the answer comes from one [`Snapshot`].
async fn view(session: Session, parts: &Parts, name: &str, route: ViewRoute) -> Result<Response<ResponseBody>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), &[route.parameters(), &[snapshot::PARAMETER]].concat())?;
    let table = session.table(name).await?;
    let snapshot_query = query.clone();
    let snapshot = session.run_blocking(move |_| Snapshot::load_for_query(table, &snapshot_query)).await?;
    let id = snapshot.id.clone();
    let mut response = view_snapshot(session, snapshot, query, route).await?;
    response.headers_mut().insert(header_name(SNAPSHOT), snapshot_header(id)?);
    Ok(response)
}

async fn view_snapshot(
    session: Session,
    snapshot: Snapshot,
    query: Query,
    route: ViewRoute,
) -> Result<Response<ResponseBody>> {
    let json = match route {
        ViewRoute::Bins if query.has("over") => downsample_time::bins(&session, snapshot, &query).await?,
        ViewRoute::Bins => downsample::bins(&session, snapshot, &query).await?,
        ViewRoute::Cell => {
            session.run_blocking(move |_| if_current(&snapshot, file_layout::cell(&snapshot, &query))).await?
        }
        ViewRoute::Cells => session.run_blocking(move |session| cells::cells(session, &snapshot, &query)).await?,
        ViewRoute::Groups => {
            if let Some(form) = ExportFormat::from_query(&query)? {
                return groups::save(&session, snapshot, query, form).await;
            }
            let grouping =
                session.run_blocking(move |session| Grouping::from_query(snapshot, &query, session.clone())).await?;
            return Ok(json_lines(ResponseBody::steps(grouping)));
        }
        ViewRoute::Image => return session.run_blocking(move |_| image::image(&snapshot, &query)).await,
        ViewRoute::Messages => {
            session.run_blocking(move |_| if_current(&snapshot, file_layout::messages(&snapshot, &query))).await?
        }
        ViewRoute::Save => return export::save(&session, snapshot, &query).await,
        ViewRoute::Seek => seek::seek(&session, snapshot, &query).await?,
        ViewRoute::Sql => return sql_panel::sql(&session, snapshot, &query).await,
        ViewRoute::Statistics => statistics::statistics(&session, snapshot, &query).await?,
        ViewRoute::Text => {
            return session.run_blocking(move |session| file_layout::text(session, &snapshot, &query)).await;
        }
        ViewRoute::Views => {
            let search =
                session.run_blocking(move |session| Search::from_query(snapshot, &query, session.clone())).await?;
            return Ok(json_lines(ResponseBody::steps(search)));
        }
    };
    Ok(json_response(StatusCode::OK, &json))
}

fn json_lines(body: ResponseBody) -> Response<ResponseBody> {
    with_type(StatusCode::OK, RowFormat::JsonLines.media_type(), body)
}

/// Returns what was read from the files at a snapshot's path, if these are still the snapshot's. Blocks.
fn if_current(snapshot: &Snapshot, result: Result<Json>) -> Result<Json> {
    snapshot.check_current()?;
    result
}

/// The header that identifies the rows of a response.
const SNAPSHOT: &str = "arrowwood-snapshot";

fn snapshot_header(id: String) -> Result<HeaderValue> {
    HeaderValue::try_from(id).map_err(|e| Problem::internal(e.to_string()))
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::*;

    #[test]
    fn panic_is_answered_with_an_internal_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answered = runtime.block_on(catch_panic(async { Ok(5) }));
        assert_eq!(answered.unwrap(), 5);
        let panicked = runtime.block_on(catch_panic::<()>(async {
            tokio::task::yield_now().await;
            panic!("on purpose")
        }));
        let problem = panicked.unwrap_err();
        assert_eq!((problem.status(), problem.code()), (StatusCode::INTERNAL_SERVER_ERROR, "internal"));
        assert!(problem.log().is_some_and(|log| log.contains("on purpose")), "{problem}");
        assert!(!problem.detail().contains("on purpose"), "{problem}");
    }
}
