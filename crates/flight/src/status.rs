//! The outcome of a call: a code and a message, in the trailers after its answer.

use std::error::Error;
use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// The media type of requests and answers.
pub const CONTENT_TYPE: &str = "application/grpc";

/// The trailers with the code and with the message.
const CODE: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The characters of a message that are encoded: the percent sign, and all but printable ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// The codes of gRPC, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Code {
    /// The call was answered.
    Ok = 0,
    /// The caller has cancelled the call.
    Cancelled = 1,
    /// The reason is unknown.
    Unknown = 2,
    /// The request is wrong, whatever the state of the server.
    InvalidArgument = 3,
    /// The call took too long.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What was to be created exists.
    AlreadyExists = 6,
    /// The caller does not have the right.
    PermissionDenied = 7,
    /// There is no memory or space for it, or it is beyond a limit.
    ResourceExhausted = 8,
    /// The server's state does not allow the call.
    FailedPrecondition = 9,
    /// The call conflicts with another one.
    Aborted = 10,
    /// A position is outside of what exists.
    OutOfRange = 11,
    /// The server does not have this call.
    Unimplemented = 12,
    /// The server failed.
    Internal = 13,
    /// The server can't answer now; try again.
    Unavailable = 14,
    /// Data is lost or damaged.
    DataLoss = 15,
    /// The caller is unknown.
    Unauthenticated = 16,
}

/// The outcome of a call. Functions of this crate return it as their error, which can be sent to the caller as it is.
///
/// ```
/// use arrowwood_flight::{Code, Status};
///
/// let status = Status::new(Code::NotFound, "there is no table 'größe'");
/// let trailers = status.trailers();
/// assert_eq!(trailers["grpc-status"], "5");
/// assert_eq!(trailers["grpc-message"], "there is no table 'gr%C3%B6%C3%9Fe'");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The kind of outcome.
    pub code: Code,
    /// The text for users; empty for [`Code::Ok`].
    pub message: String,
}

impl Status {
    /// Creates a status.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

    /// Creates the status of a call that was answered.
    pub fn ok() -> Status {
        Status::new(Code::Ok, "")
    }

    /// Creates the status for a wrong request.
    pub fn invalid_argument(message: impl Into<String>) -> Status {
        Status::new(Code::InvalidArgument, message)
    }

    /// Creates the status for a request beyond a limit.
    pub fn resource_exhausted(message: impl Into<String>) -> Status {
        Status::new(Code::ResourceExhausted, message)
    }

    /// Creates the status for what the server does not have.
    pub fn unimplemented(message: impl Into<String>) -> Status {
        Status::new(Code::Unimplemented, message)
    }

    /// Returns the trailers that end an answer. An answer without a body has them as its headers.
    pub fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        trailers.insert(CODE, HeaderValue::from(self.code as u16));
        if !self.message.is_empty() {
            let message = utf8_percent_encode(&self.message, ENCODED).to_string();
            let message = HeaderValue::try_from(message).unwrap_or(HeaderValue::from_static(""));
            trailers.insert(MESSAGE, message);
        }
        trailers
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_headers_for_any_message() {
        assert_eq!(Status::ok().trailers(), HeaderMap::from_iter([(CODE, HeaderValue::from_static("0"))]));
        for (message, sent) in [("100 %", "100 %25"), ("a\r\nb\0", "a%0D%0Ab%00"), ("ü\u{7f}", "%C3%BC%7F")] {
            let trailers = Status::invalid_argument(message).trailers();
            assert_eq!((&trailers[CODE], &trailers[MESSAGE]), (&HeaderValue::from(3), &HeaderValue::from_static(sent)));
        }
    }
}
