//! [`Problem`]: the reason why a request is refused, as `application/problem+json`.

use arrowwood::{Error, ErrorKind};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

use crate::condition::ConditionError;
use crate::response_body::ResponseBody;

/// Error numbers of the system for a full disk or quota.
const NO_SPACE: [i32; 2] = [28, 122];

/// The reason why a request is refused.
#[derive(Debug)]
pub(crate) struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    status: StatusCode,
    code: &'static str,
    detail: String,
    /// Further members of the answer's body.
    facts: Vec<(&'static str, Json)>,
    headers: HeaderMap,
    /// The error behind it, for the server's log only.
    error: Option<Error>,
}

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// Whether an error is about files, memory or the server itself. Others are about what a client sent or asked for, and may
/// quote it.
fn is_of_files(e: &Error) -> bool {
    use ErrorKind::*;
    let of_client = [Unsupported, SchemaMismatch, ColumnNotFound, RowOutOfRange, InvalidArgument, CopyNeeded];
    !of_client.contains(&e.kind())
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        let detail = detail.into();
        Problem(Box::new(Inner { status, code, detail, facts: Vec::new(), headers: HeaderMap::new(), error: None }))
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

    /// A temporary refusal, to be retried.
    pub fn unavailable(detail: impl Into<String>) -> Problem {
        let refusal = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        refusal.header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    pub fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// Adds a member to the answer's body.
    pub fn with_member(mut self, name: &'static str, value: impl Into<Json>) -> Problem {
        self.0.facts.push((name, value.into()));
        self
    }

    pub fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Problem {
        self.0.headers.insert(name, value);
        self
    }

    /// An error about rows sent by a client.
    pub fn from_input_error(e: &Error) -> Problem {
        match e.kind() {
            ErrorKind::SchemaMismatch => Problem::conflict("schema_mismatch", e.message()),
            ErrorKind::Closed | ErrorKind::FileChanged | ErrorKind::Internal => Problem::from_table_error(e),
            // Others are of rows that would take more memory than there is.
            ErrorKind::Io if e.errno().is_some() => Problem::from_table_error(e),
            _ => Problem::bad_request(e.message()),
        }
    }

    /// An error about the server's own files. The client does not get their paths.
    pub fn from_table_error(e: &Error) -> Problem {
        let server = |code, detail: &str| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail);
        let refusal = match e.kind() {
            ErrorKind::NotFound => Problem::not_found("there is no such table"),
            ErrorKind::Closed => {
                Problem::unavailable("the disk has failed to sync rows; nothing was appended, send it again")
            }
            ErrorKind::Busy => Problem::conflict("busy", e.message()),
            ErrorKind::SchemaMismatch => Problem::conflict("schema_mismatch", e.message()),
            ErrorKind::InvalidArgument | ErrorKind::ColumnNotFound => Problem::bad_request(e.message()),
            ErrorKind::Unsupported => Problem::bad_request(e.message()),
            ErrorKind::FileChanged => server("file_changed", "the table's files are not what they were"),
            ErrorKind::InvalidData => server("damaged", "the table's files are damaged; `arrowwood check` says more"),
            ErrorKind::Io if e.errno().is_some_and(|errno| NO_SPACE.contains(&errno)) => {
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, "no_space", "the disk is full")
            }
            _ => server("internal", "the server failed; its log says more"),
        };
        refusal.with_error(e)
    }

    /// Adds an error for the log.
    pub fn with_error(mut self, e: &Error) -> Problem {
        self.0.error = Some(e.clone());
        self
    }

    /// Takes over another refusal's error for the log.
    pub fn with_error_of(mut self, other: &Problem) -> Problem {
        self.0.error.clone_from(&other.0.error);
        self
    }

    /// Whether nothing was appended for certain.
    pub fn is_outcome_known(&self) -> bool {
        !["not_durable", "unknown"].contains(&self.0.code)
    }

    /// The same with the library's message, for users who may know the paths of files.
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

    /// The error behind it, which the client does not get.
    pub fn error(&self) -> Option<&Error> {
        self.0.error.as_ref()
    }

    /// The text in the server's log beyond the answer. It has no value of a row.
    pub fn log(&self) -> Option<String> {
        self.error().filter(|error| is_of_files(error)).map(Error::to_string)
    }

    pub fn into_response(self) -> Response<ResponseBody> {
        let Inner { status, code, detail, facts, headers, .. } = *self.0;
        let title = status.canonical_reason().unwrap_or("Error");
        let mut body = json!({"title": title, "status": status.as_u16(), "code": code, "detail": detail});
        for (name, value) in facts {
            body[name] = value;
        }
        let mut response = Response::new(ResponseBody::new(body.to_string() + "\n"));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem);
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

impl From<ConditionError> for Problem {
    fn from(e: ConditionError) -> Problem {
        Problem::bad_request(format!("where: {e}"))
    }
}
