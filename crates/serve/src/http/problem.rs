//! Errors of the HTTP API, as `application/problem+json`.
//!
//! Handlers return [`Result`]; [`ResultExt`] converts the library's errors, by their kind and never by their text.

use std::io;

use arrowwood::{Error, ErrorKind};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

use super::response_body::ResponseBody;

/// The errors of a full disk and an exhausted quota.
const NO_SPACE: [io::ErrorKind; 2] = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];

/// The reason why a request is refused, with its status code.
#[derive(Debug)]
pub(crate) struct Problem(Box<Inner>);

/// The fields of a [`Problem`], which is boxed to keep results small.
#[derive(Debug)]
struct Inner {
    status: StatusCode,
    code: &'static str,
    detail: String,
    /// Further members of the response's body.
    members: Vec<(&'static str, Json)>,
    headers: HeaderMap,
    /// The cause, for the server's log only.
    error: Option<Error>,
}

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// Conversions of the library's errors to a [`Problem`].
pub(crate) trait ResultExt<T> {
    /// Converts an error about the server's own tables; see [`Problem::from_table_error`].
    fn or_table_problem(self) -> Result<T>;

    /// Converts an error about rows that a client sent; see [`Problem::from_input_error`].
    fn or_input_problem(self) -> Result<T>;
}

impl<T> ResultExt<T> for arrowwood::Result<T> {
    fn or_table_problem(self) -> Result<T> {
        self.map_err(|e| Problem::from_table_error(&e))
    }

    fn or_input_problem(self) -> Result<T> {
        self.map_err(|e| Problem::from_input_error(&e))
    }
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        let detail = detail.into();
        Problem(Box::new(Inner { status, code, detail, members: Vec::new(), headers: HeaderMap::new(), error: None }))
    }

    pub fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, code, detail)
    }

    pub fn too_large(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    /// Creates a temporary refusal: the client is told to retry after a second.
    pub fn unavailable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
            .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    pub fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// Adds a member to the response's body.
    pub fn with_member(mut self, name: &'static str, value: impl Into<Json>) -> Problem {
        self.0.members.push((name, value.into()));
        self
    }

    pub fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Problem {
        self.0.headers.insert(name, value);
        self
    }

    /// Converts an error about rows that a client sent. Rows beyond a limit have a status of their own, 413: the client
    /// can split them.
    pub fn from_input_error(e: &Error) -> Problem {
        match e.kind() {
            _ if e.is_limit() => Problem::too_large(e.message()),
            ErrorKind::SchemaMismatch => Problem::conflict("schema_mismatch", e.message()),
            ErrorKind::Closed | ErrorKind::FileChanged | ErrorKind::Internal => Problem::from_table_error(e),
            // The system failed. An `Io` error without a number means rows that need more memory than there is.
            ErrorKind::Io if e.errno().is_some() => Problem::from_table_error(e),
            _ => Problem::bad_request(e.message()),
        }
    }

    /// Converts an error about the server's own tables. The client does not get the paths of their files.
    pub fn from_table_error(e: &Error) -> Problem {
        const SERVER_ERROR: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
        let problem = match e.kind() {
            ErrorKind::NotFound => Problem::not_found("there is no such table"),
            ErrorKind::Closed => {
                Problem::unavailable("the disk has failed to sync rows; nothing was appended, send it again")
            }
            ErrorKind::Busy => Problem::conflict("busy", e.message()),
            ErrorKind::SchemaMismatch => Problem::conflict("schema_mismatch", e.message()),
            ErrorKind::InvalidArgument | ErrorKind::ColumnNotFound => Problem::bad_request(e.message()),
            ErrorKind::Unsupported => Problem::bad_request(e.message()),
            ErrorKind::FileChanged => {
                Problem::new(SERVER_ERROR, "file_changed", "the table's files are not what they were")
            }
            ErrorKind::InvalidData => {
                Problem::new(SERVER_ERROR, "damaged", "the table's files are damaged; `arrowwood check` says more")
            }
            ErrorKind::Io
                if e.errno().is_some_and(|errno| NO_SPACE.contains(&io::Error::from_raw_os_error(errno).kind())) =>
            {
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, "no_space", "the disk is full")
            }
            _ => Problem::internal("the server failed; its log says more"),
        };
        problem.with_error(e)
    }

    /// Adds an error for the log.
    pub fn with_error(mut self, e: &Error) -> Problem {
        self.0.error = Some(e.clone());
        self
    }

    /// Takes over the error of `other` for the log.
    pub fn with_error_of(mut self, other: &Problem) -> Problem {
        self.0.error.clone_from(&other.0.error);
        self
    }

    /// Returns true if it is certain that nothing was appended.
    pub fn is_outcome_known(&self) -> bool {
        !["not_durable", "unknown"].contains(&self.0.code)
    }

    /// Replaces the detail by the library's whole message, for users who may know the paths of files.
    pub fn with_full_detail(mut self) -> Problem {
        if let Some(error) = self.error() {
            self.0.detail = error.to_string();
        }
        self
    }

    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    pub fn code(&self) -> &'static str {
        self.0.code
    }

    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the cause, which the client does not get.
    pub fn error(&self) -> Option<&Error> {
        self.0.error.as_ref()
    }

    /// Returns the text for the server's log, if there is more to say than the response says.
    ///
    /// Errors about what a client sent or asked for may quote values of rows, so they are left out.
    pub fn log(&self) -> Option<String> {
        use ErrorKind::*;
        let error = self.error()?;
        match error.kind() {
            Unsupported | SchemaMismatch | ColumnNotFound | RowOutOfRange | InvalidArgument | CopyNeeded => None,
            _ => Some(error.to_string()),
        }
    }

    pub fn into_response(self) -> Response<ResponseBody> {
        let Inner { status, code, detail, members, headers, .. } = *self.0;
        let title = status.canonical_reason().unwrap_or("Error");
        let mut body = json!({"title": title, "status": status.as_u16(), "code": code, "detail": detail});
        for (name, value) in members {
            body[name] = value;
        }
        let mut response = Response::new(ResponseBody::new(body.to_string() + "\n"));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        let content_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.error() {
            Some(error) => error.fmt(f),
            None => f.write_str(self.detail()),
        }
    }
}

impl std::error::Error for Problem {}
