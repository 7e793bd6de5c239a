//! Builds short responses, and checks methods.

use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::Value as Json;

use super::problem::{Problem, Result};
use super::response_body::ResponseBody;

/// Refuses methods other than these; HEAD is permitted with GET.
pub(crate) fn allow(parts: &Parts, methods: &[Method]) -> Result<()> {
    let is_head = parts.method == Method::HEAD && methods.contains(&Method::GET);
    if is_head || methods.contains(&parts.method) {
        return Ok(());
    }
    let allowed = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format!("use {allowed}"));
    Err(problem.header(header::ALLOW, HeaderValue::try_from(allowed).unwrap_or(HeaderValue::from_static("GET"))))
}

/// Returns a response in JSON.
pub(crate) fn json_response(status: StatusCode, body: &Json) -> Response<ResponseBody> {
    with_type(status, "application/json", ResponseBody::new(body.to_string() + "\n"))
}

/// Returns a response without a body.
pub(crate) fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    response
}

/// Returns a short text.
pub(crate) fn text(body: &'static str) -> Response<ResponseBody> {
    with_type(StatusCode::OK, "text/plain; charset=utf-8", ResponseBody::new(body))
}

/// Returns a response with a body of the given media type.
pub(crate) fn with_type(status: StatusCode, media_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
