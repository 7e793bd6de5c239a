//! Makes responses to gRPC requests, whose status stands in the trailers; the status of HTTP is always 200.

use std::io;

use arrowwood_flight::{CONTENT_TYPE, Code, Status};
use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use crate::http::{Problem, ResponseBody};

/// Converts the refusal of a message.
impl From<Status> for Problem {
    fn from(status: Status) -> Problem {
        match status.code {
            Code::InvalidArgument => Problem::bad_request(status.message),
            Code::ResourceExhausted => Problem::too_large(status.message),
            Code::Unimplemented => Problem::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", status.message),
            _ => Problem::internal(status.message),
        }
    }
}

/// Returns the code for a refusal.
fn code_of(refusal: &Problem) -> Code {
    match refusal.status() {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::CONFLICT => Code::FailedPrecondition,
        StatusCode::GONE | StatusCode::RANGE_NOT_SATISFIABLE => Code::OutOfRange,
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::INSUFFICIENT_STORAGE => Code::ResourceExhausted,
        StatusCode::UNPROCESSABLE_ENTITY if refusal.code() == "query_memory" => Code::ResourceExhausted,
        StatusCode::REQUEST_TIMEOUT | StatusCode::UNPROCESSABLE_ENTITY => Code::DeadlineExceeded,
        StatusCode::NOT_IMPLEMENTED => Code::Unimplemented,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        status if status.is_client_error() => Code::InvalidArgument,
        _ => Code::Internal,
    }
}

fn refusal_trailers(refusal: &Problem) -> HeaderMap {
    Status::new(code_of(refusal), format!("{}: {}", refusal.code(), refusal.detail())).trailers()
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
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response
}

/// Returns the trailers of a body that is complete or broke off.
fn final_trailers(ended: Result<(), &io::Error>) -> HeaderMap {
    let Err(e) = ended else {
        return Status::ok().trailers();
    };
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Problem>()) {
        Some(refusal) => refusal_trailers(refusal),
        // The error goes to the log only: it may contain paths of files.
        None => Status::new(Code::Internal, "the answer broke off; the server's log says more").trailers(),
    }
}
