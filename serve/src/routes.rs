//! Requests to answers.

use std::borrow::Cow;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrowwood::{Error, WriterOptions, field_type_name, parse_schema, table_stat};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value as Json, json};
use tokio::sync::{Semaphore, watch};

use crate::access::{Access, Caller};
use crate::audit::{AuditLog, Line};
use crate::catalog::Catalog;
use crate::following::{self, Events, Follower};
use crate::ingest;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::outgoing::{Outgoing, blocking};
use crate::query::{Query, own};
use crate::reading::{self, Form, Selection};
use crate::receive::{Memory, receive};
use crate::refusal::{Refusal, Result};
use crate::table::{Kind, Table};
use crate::writer::Writing;

/// Routes below a table that are kept for what is not built yet.
const RESERVED: &[&str] = &["statistics", "bins", "groups", "views", "anatomy", "cell", "sql"];
/// Bytes of the text of a schema.
const SCHEMA: usize = 128 << 10;

/// What all connections share.
pub(crate) struct Shared {
    pub catalog: Catalog,
    pub access: Access,
    pub limits: Limits,
    pub memory: Memory,
    pub metrics: Arc<Metrics>,
    pub writing: Writing,
    /// Who may decode large bodies now.
    pub decoding: Semaphore,
    pub audit: AuditLog,
    pub stopping: watch::Receiver<bool>,
}

impl Shared {
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    /// Set when the connection is that of a follower, for which the system is to keep little.
    pub is_follower: Arc<AtomicBool>,
}

/// Who asks for something that takes a while.
#[derive(Clone)]
pub(crate) struct Session {
    pub shared: Arc<Shared>,
    pub caller: Arc<Caller>,
    pub peer: Peer,
}

impl Session {
    /// Whether the token still is what it was.
    pub fn is_valid(&self) -> bool {
        self.shared.access.is_valid(&self.caller)
    }

    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Waits until the server stops.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.shared.stopping.clone();
        async move {
            // Without a sender the server has stopped.
            let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
        }
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// Tells the log of an error that broke an answer off.
    pub fn failed(&self, e: &Error) {
        eprintln!("arrowwood: an answer to {} broke off: {e}", self.peer.address);
    }

    pub fn check_read(&self, name: &str) -> Result<()> {
        self.shared.access.check_read(&self.caller, name)
    }

    pub fn check_write(&self, name: &str) -> Result<()> {
        self.shared.access.check_write(&self.caller, name)
    }

    /// The table called `name`.
    pub async fn table(&self, name: &str) -> Result<Arc<Table>> {
        let name = name.to_owned();
        self.work(move |session| session.shared.catalog.get(&name)).await
    }

    /// Does blocking work.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let session = self.clone();
        blocking(move || work(&session)).await.map_err(|_| Refusal::internal("the work was given up"))?
    }
}

/// What the audit log is told of a request beside its URL.
#[derive(Default)]
pub(crate) struct Trace {
    pub caller: Option<Arc<Caller>>,
    pub is_write: bool,
    pub rows: Option<u64>,
}

/// Answers a request, whatever it is.
pub(crate) async fn answer(shared: Arc<Shared>, peer: Peer, request: Request<Incoming>) -> Response<Outgoing> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut trace = Trace::default();
    let done = route(&shared, &peer, request, &mut trace).await;
    let (code, log) = match &done {
        Ok(_) => (None, None),
        Err(refusal) => (Some(refusal.code()), refusal.log().map(str::to_owned)),
    };
    let mut response = done.unwrap_or_else(Refusal::into_response);
    let status = response.status().as_u16();
    shared.metrics.answered(status);
    if trace.is_write || status >= 400 {
        let token = trace.caller.as_ref().and_then(|caller| caller.name());
        let (peer, rows, log) = (peer.address, trace.rows, log.as_deref());
        shared.audit.write(&Line { peer, token, method: &method, path: &path, status, rows, code, log });
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    headers.insert(own("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    if method == Method::HEAD {
        *response.body_mut() = Outgoing::empty();
    }
    response
}

/// The parts of a path, percent-decoded.
fn segments(path: &str) -> Result<Vec<Cow<'_, str>>> {
    let decode = |part| percent_encoding::percent_decode_str(part).decode_utf8();
    let parts = path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect::<Result<Vec<_>, _>>();
    parts.map_err(|_| Refusal::bad_request("the path is not UTF-8"))
}

async fn route(
    shared: &Arc<Shared>,
    peer: &Peer,
    request: Request<Incoming>,
    trace: &mut Trace,
) -> Result<Response<Outgoing>> {
    shared.access.check_target(&request)?;
    let (parts, body) = request.into_parts();
    let segments = segments(parts.uri.path())?;
    let names: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    if names == ["healthz"] {
        allow(&parts, &[Method::GET])?;
        return if shared.is_stopping() { Err(stopping()) } else { Ok(text("ok\n")) };
    }
    if names == ["ping"] {
        allow(&parts, &[Method::GET, Method::POST])?;
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    if shared.is_stopping() {
        return Err(stopping());
    }
    let caller = Arc::new(shared.access.caller(&parts.method, &parts.headers)?);
    trace.caller = Some(caller.clone());
    let session = Session { shared: shared.clone(), caller, peer: peer.clone() };
    match names[..] {
        ["metrics"] => metrics(&session, &parts),
        ["write"] => ingest::line_protocol(session, &parts, body, trace, true).await,
        ["api", "v2", "write"] => ingest::line_protocol(session, &parts, body, trace, false).await,
        ["v1", "tables"] => tables(session, &parts).await,
        ["v1", "tables", name] => table(session, &parts, body, name, trace).await,
        ["v1", "tables", name, "rows"] if parts.method == Method::POST => {
            ingest::rows(session, &parts, body, name, trace).await
        }
        ["v1", "tables", name, "rows"] => rows(session, &parts, name).await,
        ["v1", "tables", name, "follow"] => follow(session, &parts, name).await,
        ["v1", "tables", name, "events"] => events(session, &parts, name).await,
        ["v1", "tables", name, "producers", producer] => ingest::producer(session, &parts, name, producer).await,
        ["v1", "tables", name, other] if RESERVED.contains(&other) => {
            session.check_read(name)?;
            Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", "this is not built yet"))
        }
        _ => Err(Refusal::not_found("there is no such route")),
    }
}

fn stopping() -> Refusal {
    Refusal::unavailable("the server is stopping").header(header::CONNECTION, HeaderValue::from_static("close"))
}

/// Refuses other methods than these; HEAD goes where GET does.
pub(crate) fn allow(parts: &Parts, methods: &[Method]) -> Result<()> {
    let is_head = parts.method == Method::HEAD && methods.contains(&Method::GET);
    if is_head || methods.contains(&parts.method) {
        return Ok(());
    }
    let known = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("use {known}"));
    Err(refusal.header(header::ALLOW, HeaderValue::try_from(known).unwrap_or(HeaderValue::from_static("GET"))))
}

pub(crate) fn json_response(status: StatusCode, body: &Json) -> Response<Outgoing> {
    with_type(status, "application/json", Outgoing::of(body.to_string() + "\n"))
}

pub(crate) fn empty(status: StatusCode) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::empty());
    *response.status_mut() = status;
    response
}

fn text(body: &'static str) -> Response<Outgoing> {
    with_type(StatusCode::OK, "text/plain; charset=utf-8", Outgoing::of(body))
}

fn with_type(status: StatusCode, media_type: &'static str, body: Outgoing) -> Response<Outgoing> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn metrics(session: &Session, parts: &Parts) -> Result<Response<Outgoing>> {
    allow(parts, &[Method::GET])?;
    if !session.caller.rights().may_read_all() {
        return Err(Refusal::forbidden("metrics need a token that may read '*'"));
    }
    let body = Outgoing::of(session.metrics().text());
    Ok(with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", body))
}

async fn tables(session: Session, parts: &Parts) -> Result<Response<Outgoing>> {
    allow(parts, &[Method::GET])?;
    Query::parse(parts.uri.query(), &[])?;
    let entries = session.work(|session| session.shared.catalog.list()).await?;
    let rights = session.caller.rights();
    let entries = entries.into_iter().filter(|entry| rights.may_read(&entry.name) || rights.may_write(&entry.name));
    let listed = entries.map(|entry| json!({"name": entry.name, "kind": kind_name(entry.kind)}));
    Ok(json_response(StatusCode::OK, &json!({"tables": listed.collect::<Vec<_>>()})))
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Table => "table",
        Kind::File => "file",
    }
}

async fn table(
    session: Session,
    parts: &Parts,
    body: Incoming,
    name: &str,
    trace: &mut Trace,
) -> Result<Response<Outgoing>> {
    allow(parts, &[Method::GET, Method::PUT])?;
    if parts.method == Method::PUT {
        trace.is_write = true;
        return create(session, parts, body, name).await;
    }
    Query::parse(parts.uri.query(), &[])?;
    // Whoever may write has to know the columns.
    if session.check_write(name).is_err() {
        session.check_read(name)?;
    }
    let table = session.table(name).await?;
    let facts = session.work(move |session| facts(session, &table)).await?;
    Ok(json_response(StatusCode::OK, &facts))
}

/// What is told of a table. Blocks.
fn facts(session: &Session, table: &Table) -> Result<Json> {
    let of_table = |e: Error| Refusal::of_table(&e);
    let rows = table.rows().map_err(of_table)?;
    let (first_row, end) = (rows.first_row(), rows.first_row() + rows.len().map_err(of_table)?);
    let columns = rows.schema().fields().iter();
    let columns = columns
        .map(|field| json!({"name": field.name(), "type": field_type_name(field), "nullable": field.is_nullable()}));
    let mut facts = json!({"name": table.name, "kind": kind_name(table.kind), "first_row": first_row, "end": end});
    if table.kind == Kind::Table {
        let stat = table_stat(&table.path).map_err(of_table)?.unwrap_or_default();
        let progress = table.progress().map_err(of_table)?;
        facts["durable_end"] = progress.durable_end.max(stat.durable_end).min(end).into();
        facts["sorted_by"] = stat.sorted_by.into();
        facts["segments"] = stat.segments.into();
        facts["disk_bytes"] = stat.disk.into();
        facts["writer"] = stat.writer.into();
    }
    facts["columns"] = columns.collect();
    let may_write = session.shared.access.may_write(&session.caller, &table.name);
    facts["writable"] = (table.kind == Kind::Table && may_write).into();
    if session.peer.address.ip().to_canonical().is_loopback() {
        facts["path"] = table.path.display().to_string().into();
    }
    Ok(facts)
}

async fn create(session: Session, parts: &Parts, body: Incoming, name: &str) -> Result<Response<Outgoing>> {
    session.check_write(name)?;
    let query = Query::parse(parts.uri.query(), &["dictionary", "sorted_by", "segment_rows"])?;
    let limits = Limits { body: SCHEMA, ..session.shared.limits.clone() };
    let received = receive(&parts.headers, body, &limits, &session.shared.memory).await?;
    let text = String::from_utf8(received.bytes).map_err(|_| Refusal::bad_request("the schema is not UTF-8"))?;
    let schema = parse_schema(&text).map_err(|e| Refusal::bad_request(e.message()))?;
    let dictionary = query.all("dictionary").flat_map(|list| list.split(',')).filter(|name| !name.is_empty());
    let options = WriterOptions {
        dictionary: dictionary.map(str::to_owned).collect(),
        sorted_by: query.get("sorted_by")?.map(str::to_owned),
        segment_rows: query.number("segment_rows")?,
        ..WriterOptions::default()
    };
    let name = name.to_owned();
    let (is_new, facts) = session.work(move |session| ingest::create(session, &name, schema, &options)).await?;
    Ok(json_response(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &facts))
}

/// What is told of the table called `name`. Blocks.
pub(crate) fn facts_of(session: &Session, name: &str) -> Result<Json> {
    facts(session, session.shared.catalog.get(name)?.as_ref())
}

async fn rows(session: Session, parts: &Parts, name: &str) -> Result<Response<Outgoing>> {
    allow(parts, &[Method::GET, Method::POST])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), reading::PARAMETERS)?;
    let form = Form::of(&query, &parts.headers)?;
    let table = session.table(name).await?;
    let selection = session.work(move |_| Selection::of(table, &query)).await?;
    let range = [
        (own("arrowwood-first-row"), selection.first_row),
        (own("arrowwood-end-row"), selection.end_row),
        (own("arrowwood-table-end"), selection.table_end),
    ];
    let mut response = with_type(StatusCode::OK, form.media_type(), reading::body(selection, form, session)?);
    response.headers_mut().extend(range.map(|(name, row)| (name, HeaderValue::from(row))));
    Ok(response)
}

async fn follow(session: Session, parts: &Parts, name: &str) -> Result<Response<Outgoing>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), following::PARAMETERS)?;
    let table = session.table(name).await?;
    let follower = session.work(move |session| Follower::of(table, &query, session.clone())).await?;
    let first_row = follower.first_row();
    session.peer.is_follower.store(true, Ordering::Release);
    let mut response = with_type(StatusCode::OK, Form::Arrow.media_type(), following::body(follower, &session));
    response.headers_mut().insert(own("arrowwood-first-row"), HeaderValue::from(first_row));
    Ok(response)
}

async fn events(session: Session, parts: &Parts, name: &str) -> Result<Response<Outgoing>> {
    allow(parts, &[Method::GET])?;
    session.check_read(name)?;
    let query = Query::parse(parts.uri.query(), following::EVENT_PARAMETERS)?;
    let table = session.table(name).await?;
    let events = session.work(move |session| Events::of(table, &query, session.clone())).await?;
    session.peer.is_follower.store(true, Ordering::Release);
    Ok(with_type(StatusCode::OK, "text/event-stream", following::body(events, &session)))
}
