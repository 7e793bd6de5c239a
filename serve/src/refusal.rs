//! [`Refusal`]: the reason why a request is refused, as `application/problem+json`.

use arrowwood::{Error, ErrorKind};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

use crate::condition::ConditionError;
use crate::outgoing::Outgoing;

/// Error numbers of the system for a full disk or quota.
const NO_SPACE: [i32; 2] = [28, 122];

/// The reason why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Inner>);

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

pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Whether an error is about files, memory or the server itself. Others are about what a client sent or asked for, and may
/// quote it.
fn is_of_files(e: &Error) -> bool {
    use ErrorKind::*;
    let of_client = [Unsupported, SchemaMismatch, ColumnNotFound, RowOutOfRange, InvalidArgument, CopyNeeded];
    !of_client.contains(&e.kind())
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Refusal {
        let detail = detail.into();
        Refusal(Box::new(Inner { status, code, detail, facts: Vec::new(), headers: HeaderMap::new(), error: None }))
    }

    pub fn bad_request(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    pub fn not_found(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub fn forbidden(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::CONFLICT, code, detail)
    }

    pub fn too_large(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    /// A temporary refusal, to be retried.
    pub fn unavailable(detail: impl Into<String>) -> Refusal {
        let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        refusal.header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    pub fn internal(detail: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// Adds a member to the answer's body.
    pub fn fact(mut self, name: &'static str, value: impl Into<Json>) -> Refusal {
        self.0.facts.push((name, value.into()));
        self
    }

    pub fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Refusal {
        self.0.headers.insert(name, value);
        self
    }

    /// An error about rows sent by a client.
    pub fn of_input(e: &Error) -> Refusal {
        match e.kind() {
            ErrorKind::SchemaMismatch => Refusal::conflict("schema_mismatch", e.message()),
            ErrorKind::Closed | ErrorKind::FileChanged | ErrorKind::Internal => Refusal::of_table(e),
            // Others are of rows that would take more memory than there is.
            ErrorKind::Io if e.errno().is_some() => Refusal::of_table(e),
            _ => Refusal::bad_request(e.message()),
        }
    }

    /// An error about the server's own files. The client does not get their paths.
    pub fn of_table(e: &Error) -> Refusal {
        let server = |code, detail: &str| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail);
        let refusal = match e.kind() {
            ErrorKind::NotFound => Refusal::not_found("there is no such table"),
            ErrorKind::Closed => {
                Refusal::unavailable("the disk has failed to sync rows; nothing was appended, send it again")
            }
            ErrorKind::Busy => Refusal::conflict("busy", e.message()),
            ErrorKind::SchemaMismatch => Refusal::conflict("schema_mismatch", e.message()),
            ErrorKind::InvalidArgument | ErrorKind::ColumnNotFound => Refusal::bad_request(e.message()),
            ErrorKind::Unsupported => Refusal::bad_request(e.message()),
            ErrorKind::FileChanged => server("file_changed", "the table's files are not what they were"),
            ErrorKind::InvalidData => server("damaged", "the table's files are damaged; `arrowwood check` says more"),
            ErrorKind::Io if e.errno().is_some_and(|errno| NO_SPACE.contains(&errno)) => {
                Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "no_space", "the disk is full")
            }
            _ => server("internal", "the server failed; its log says more"),
        };
        refusal.logged(e)
    }

    /// Adds an error for the log.
    pub fn logged(mut self, e: &Error) -> Refusal {
        self.0.error = Some(e.clone());
        self
    }

    /// Takes over another refusal's error for the log.
    pub fn logged_as(mut self, other: &Refusal) -> Refusal {
        self.0.error.clone_from(&other.0.error);
        self
    }

    /// Whether nothing was appended for certain.
    pub fn is_outcome_known(&self) -> bool {
        !["not_durable", "unknown"].contains(&self.0.code)
    }

    /// The same with the library's message, for users who may know the paths of files.
    pub fn in_full(mut self) -> Refusal {
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

    pub fn into_response(self) -> Response<Outgoing> {
        let Inner { status, code, detail, facts, headers, .. } = *self.0;
        let title = status.canonical_reason().unwrap_or("Error");
        let mut body = json!({"title": title, "status": status.as_u16(), "code": code, "detail": detail});
        for (name, value) in facts {
            body[name] = value;
        }
        let mut response = Response::new(Outgoing::of(body.to_string() + "\n"));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem);
        response
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.error() {
            Some(error) => error.fmt(f),
            None => f.write_str(self.detail()),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<ConditionError> for Refusal {
    fn from(e: ConditionError) -> Refusal {
        Refusal::bad_request(format!("where: {e}"))
    }
}
