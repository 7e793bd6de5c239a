//! Makes responses to gRPC requests, whose status stands in the trailers; the status of HTTP is always 200.

use std::io;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::problem::Problem;
use crate::query::header_name;
use crate::response_body::ResponseBody;

/// The characters encoded in a header's message: the percent sign, and all but printable ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// Returns gRPC's status code for a refusal.
fn grpc_status(refusal: &Problem) -> u16 {
    match refusal.status() {
        StatusCode::UNAUTHORIZED => 16,
        StatusCode::FORBIDDEN => 7,
        StatusCode::NOT_FOUND => 5,
        StatusCode::CONFLICT => 9,
        StatusCode::GONE | StatusCode::RANGE_NOT_SATISFIABLE => 11,
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::INSUFFICIENT_STORAGE => 8,
        StatusCode::UNPROCESSABLE_ENTITY if refusal.code() == "query_memory" => 8,
        StatusCode::REQUEST_TIMEOUT | StatusCode::UNPROCESSABLE_ENTITY => 4,
        StatusCode::NOT_IMPLEMENTED => 12,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        status if status.is_client_error() => 3,
        _ => 13,
    }
}

fn trailers(number: u16, message: &str) -> HeaderMap {
    let message = utf8_percent_encode(message, ENCODED).to_string();
    let mut trailers = HeaderMap::new();
    trailers.insert(header_name("grpc-status"), HeaderValue::from(number));
    trailers
        .insert(header_name("grpc-message"), HeaderValue::try_from(message).unwrap_or(HeaderValue::from_static("")));
    trailers
}

fn refusal_trailers(refusal: &Problem) -> HeaderMap {
    trailers(grpc_status(refusal), &format!("{}: {}", refusal.code(), refusal.detail()))
}

/// Returns a response that refuses a call.
pub(crate) fn refusal_response(refusal: &Problem) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    response.headers_mut().extend(refusal_trailers(refusal));
    with_type(response)
}

/// Returns a response to a call, whose status follows `body`.
pub(crate) fn body_response(body: ResponseBody) -> Response<ResponseBody> {
    with_type(Response::new(body.with_trailers(final_trailers)))
}

/// Returns a response of one message.
pub(crate) fn message_response(frame: Bytes) -> Response<ResponseBody> {
    body_response(ResponseBody::new(frame))
}

fn with_type(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// Returns the trailers of a body that is complete or broke off.
fn final_trailers(ended: Result<(), &io::Error>) -> HeaderMap {
    let Err(e) = ended else {
        return HeaderMap::from_iter([(header_name("grpc-status"), HeaderValue::from_static("0"))]);
    };
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Problem>()) {
        Some(refusal) => refusal_trailers(refusal),
        // The error goes to the log only: it may contain paths of files.
        None => trailers(13, "the answer broke off; the server's log says more"),
    }
}
