//! Dispatches requests to their routes, and completes responses.

use std::borrow::Cow;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrowwood::Error;
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;

use super::app_state::AppState;
use super::tls::Tls;
use crate::http::{Problem, ResponseBody, Result, allow, empty, header_name, text, with_type};
use crate::ingest::LineApi;
use crate::ops::AuditLine;
use crate::session::{Admission, Peer, Session, Trace};
use crate::view::ViewRoute;
use crate::{flight, ingest, read, sql, view};

/// The smallest status of a refused or failed request.
const FIRST_ERROR_STATUS: u16 = 400;

/// Answers a request. Errors become responses, too.
pub(crate) async fn answer(app: &AppState, peer: Peer, request: Request<Incoming>) -> Response<ResponseBody> {
    let shared = &app.shared;
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let mut trace = Trace::default();
    let mut code = None;
    let mut log = None;
    let status;
    let mut response = match catch_panic(route(app, &peer, request, &mut trace)).await {
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
    let caught = AssertUnwindSafe(work).catch_unwind().await;
    caught.unwrap_or_else(|panic| Err(Problem::from_table_error(&Error::from_panic(&*panic))))
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
    app: &AppState,
    peer: &Peer,
    request: Request<Incoming>,
    trace: &mut Trace,
) -> Result<Response<ResponseBody>> {
    let shared = &app.shared;
    shared.access.check_target(&request)?;
    let (parts, body) = request.into_parts();
    let segments = decode_segments(parts.uri.path())?;
    let names: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let is_limited = peer.admission == Admission::HealthChecks;
    if let Some(response) = health(app, &parts, &names).await {
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
        && let Some(response) = view::page::answer(shared, &app.view, peer, &parts, &names).await?
    {
        return Ok(response);
    }
    let caller = Arc::new(shared.access.caller(&parts.method, &parts.headers)?);
    trace.caller = Some(caller.clone());
    let session = Session { shared: shared.clone(), caller, peer: peer.clone() };
    if let Some(engine) = &app.sql.worker
        && let [service, _] = names[..]
        && engine.handles(service)
    {
        allow(&parts, &[Method::POST])?;
        return Ok(sql::worker_calls::answer(session, engine.as_ref(), Request::from_parts(parts, body)).await);
    }
    match names[..] {
        [flight::SERVICE, method] => flight::answer(app.flight(session), &parts, body, method, trace).await,
        ["metrics"] => metrics(&session, &parts),
        ["write"] => ingest::line_endpoint::line_protocol(app.ingest(session), &parts, body, trace, LineApi::V1).await,
        ["api", "v2", "write"] => {
            ingest::line_endpoint::line_protocol(app.ingest(session), &parts, body, trace, LineApi::V2).await
        }
        ["v1", "sql"] => sql::endpoint::statement(app.sql(session), &parts).await,
        ["v1", "tables"] => read::endpoints::tables(session, &parts).await,
        ["v1", "tables", name] if parts.method == Method::PUT => {
            ingest::endpoints::put_table(app.ingest(session), &parts, body, name, trace).await
        }
        ["v1", "tables", name] => read::endpoints::table(session, &parts, name).await,
        ["v1", "tables", name, "rows"] if parts.method == Method::POST => {
            ingest::endpoints::rows(app.ingest(session), &parts, body, name, trace).await
        }
        ["v1", "tables", name, "rows"] => read::endpoints::rows(session, &parts, name).await,
        ["v1", "tables", name, "follow"] => read::endpoints::follow(session, &parts, name).await,
        ["v1", "tables", name, "events"] => read::endpoints::events(session, &parts, name).await,
        ["v1", "tables", name, "producers", producer] => {
            ingest::endpoints::producer(app.ingest(session), &parts, name, producer).await
        }
        ["v1", "tables", name, segment] => match ViewRoute::parse(segment) {
            Some(route) => view::endpoints::answer(app.view(session), &parts, name, route).await,
            None => Err(no_route()),
        },
        _ => Err(no_route()),
    }
}

fn no_route() -> Problem {
    Problem::not_found("there is no such route; GET /v1/tables lists what is served")
}

/// Answers health checks, which need no token. Returns `None` for another path.
async fn health(app: &AppState, parts: &Parts, names: &[&str]) -> Option<Result<Response<ResponseBody>>> {
    match names {
        ["healthz"] => Some(
            allow(parts, &[Method::GET])
                .and_then(|()| if app.shared.is_stopping() { Err(stopping()) } else { Ok(text("ok\n")) }),
        ),
        ["readyz"] => Some(readiness(app, parts).await),
        ["ping"] => Some(allow(parts, &[Method::GET, Method::POST]).map(|()| empty(StatusCode::NO_CONTENT))),
        _ => None,
    }
}

/// Answers whether the server can do its work, or why it can't.
async fn readiness(app: &AppState, parts: &Parts) -> Result<Response<ResponseBody>> {
    let shared = &app.shared;
    allow(parts, &[Method::GET])?;
    if shared.is_stopping() {
        return Err(stopping());
    }
    let mut problems: Vec<&str> = shared.readiness.problem().await.into_iter().collect();
    if app.tls.as_ref().is_some_and(Tls::is_expired) {
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
