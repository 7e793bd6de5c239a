//! Makes responses to gRPC requests, whose status stands in the trailers; the status of HTTP is always 200.

use std::io;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::http::{Problem, ResponseBody, header_name};

/// The characters encoded in a header's message: the percent sign, and all but printable ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The name of the trailer with the status.
const STATUS: &str = "grpc-status";

/// The status codes of gRPC that the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum GrpcStatus {
    Ok = 0,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

impl GrpcStatus {
    fn from_refusal(refusal: &Problem) -> GrpcStatus {
        match refusal.status() {
            StatusCode::UNAUTHORIZED => GrpcStatus::Unauthenticated,
            StatusCode::FORBIDDEN => GrpcStatus::PermissionDenied,
            StatusCode::NOT_FOUND => GrpcStatus::NotFound,
            StatusCode::CONFLICT => GrpcStatus::FailedPrecondition,
            StatusCode::GONE | StatusCode::RANGE_NOT_SATISFIABLE => GrpcStatus::OutOfRange,
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::INSUFFICIENT_STORAGE => GrpcStatus::ResourceExhausted,
            StatusCode::UNPROCESSABLE_ENTITY if refusal.code() == "query_memory" => GrpcStatus::ResourceExhausted,
            StatusCode::REQUEST_TIMEOUT | StatusCode::UNPROCESSABLE_ENTITY => GrpcStatus::DeadlineExceeded,
            StatusCode::NOT_IMPLEMENTED => GrpcStatus::Unimplemented,
            StatusCode::SERVICE_UNAVAILABLE => GrpcStatus::Unavailable,
            status if status.is_client_error() => GrpcStatus::InvalidArgument,
            _ => GrpcStatus::Internal,
        }
    }

    fn header_value(self) -> HeaderValue {
        HeaderValue::from(self as u16)
    }
}

fn trailers(status: GrpcStatus, message: &str) -> HeaderMap {
    let message = utf8_percent_encode(message, ENCODED).to_string();
    let mut trailers = HeaderMap::new();
    trailers.insert(header_name(STATUS), status.header_value());
    trailers
        .insert(header_name("grpc-message"), HeaderValue::try_from(message).unwrap_or(HeaderValue::from_static("")));
    trailers
}

fn refusal_trailers(refusal: &Problem) -> HeaderMap {
    trailers(GrpcStatus::from_refusal(refusal), &format!("{}: {}", refusal.code(), refusal.detail()))
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
        return HeaderMap::from_iter([(header_name(STATUS), GrpcStatus::Ok.header_value())]);
    };
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Problem>()) {
        Some(refusal) => refusal_trailers(refusal),
        // The error goes to the log only: it may contain paths of files.
        None => trailers(GrpcStatus::Internal, "the answer broke off; the server's log says more"),
    }
}
