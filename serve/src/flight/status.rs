//! The end of a gRPC call: a status in the trailers, whatever the status of HTTP.

use std::io;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::problem::Problem;
use crate::query::own;
use crate::response_body::ResponseBody;

/// The characters encoded in a header's message: all but printable ASCII, and the percent sign.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The status code of a refusal.
fn number_of(refusal: &Problem) -> u16 {
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
    trailers.insert(own("grpc-status"), HeaderValue::from(number));
    trailers.insert(own("grpc-message"), HeaderValue::try_from(message).unwrap_or(HeaderValue::from_static("")));
    trailers
}

fn trailers_of_refusal(refusal: &Problem) -> HeaderMap {
    trailers(number_of(refusal), &format!("{}: {}", refusal.code(), refusal.detail()))
}

/// An answer that refuses a call.
pub(crate) fn refused(refusal: &Problem) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    response.headers_mut().extend(trailers_of_refusal(refusal));
    with_type(response)
}

/// An answer to a call, whose status follows `body`.
pub(crate) fn answered(body: ResponseBody) -> Response<ResponseBody> {
    with_type(Response::new(body.with_trailers(trailers_of)))
}

/// An answer of one message.
pub(crate) fn whole(frame: Bytes) -> Response<ResponseBody> {
    answered(ResponseBody::new(frame))
}

fn with_type(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The trailers of a body that ended, or broke off.
fn trailers_of(ended: Result<(), &io::Error>) -> HeaderMap {
    let Err(e) = ended else {
        return HeaderMap::from_iter([(own("grpc-status"), HeaderValue::from_static("0"))]);
    };
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Problem>()) {
        Some(refusal) => trailers_of_refusal(refusal),
        // Only the log has it; it may contain paths of files.
        None => trailers(13, "the answer broke off; the server's log says more"),
    }
}
