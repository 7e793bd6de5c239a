//! Converts errors of stores to errors of Arrowwood, whose messages are one sentence without secrets.

use arrowwood::readable::{ellipsize, escape_hidden};
use arrowwood::{Error, ErrorKind};

use crate::client::RedirectError;

/// The operation in the errors of reading an object.
pub(crate) const READING: &str = "reading the object";

/// The advice for a bucket.
const CREDENTIALS: &str = "credentials are taken from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, \
                           the region from AWS_REGION; for a public bucket set AWS_SKIP_SIGNATURE=true";
/// The advice for a web server.
const PASSWORD: &str = "both are given in the URL, before the host: USER:PASSWORD@HOST";

/// The address of the service for the credentials of a machine, which is asked if there are no others.
const METADATA_SERVICE: &str = "169.254.169.254";
/// The status of a request without valid credentials.
const UNAUTHORIZED: u16 = 401;
/// The status of a request whose credentials do not suffice.
const FORBIDDEN: u16 = 403;
/// The maximum number of characters of a cause.
const MAX_CAUSE_CHARS: usize = 200;

/// Converts the error of a request to a bucket or a web server. `operation` is the beginning of the message.
pub(crate) fn request_error(operation: &str, e: &object_store::Error, is_bucket: bool) -> Error {
    use object_store::Error as Store;
    let (kind, problem) = match e {
        Store::NotFound { .. } => missing(operation, is_bucket),
        Store::PermissionDenied { .. } => denied(FORBIDDEN, is_bucket),
        Store::Unauthenticated { .. } => denied(UNAUTHORIZED, is_bucket),
        Store::Precondition { .. } => return changed_error(),
        _ => classify_cause(e, operation, is_bucket),
    };
    Error::new(kind, format!("{operation}: {problem}"))
}

/// Returns the kind and the message of the error that there is no such object.
fn missing(operation: &str, is_bucket: bool) -> (ErrorKind, String) {
    let problem = match operation {
        READING if is_bucket => "the store has no such object, or no such bucket",
        READING => "the server has no such file (404)",
        _ => "the store has no such bucket",
    };
    (ErrorKind::NotFound, problem.into())
}

/// Returns the kind and the message of a refused request.
fn denied(status: u16, is_bucket: bool) -> (ErrorKind, String) {
    let problem = match (status, is_bucket) {
        (UNAUTHORIZED, true) => format!("the store asks for credentials (401); {CREDENTIALS}"),
        (UNAUTHORIZED, false) => {
            format!("the server asks for a user and a password (401), or refuses those given; {PASSWORD}")
        }
        (_, true) => format!("the store denies access (403); {CREDENTIALS}"),
        (_, false) => "the server denies access (403); a signed URL may have expired".into(),
    };
    (ErrorKind::PermissionDenied, problem)
}

/// Returns the kind and the message of an error that has no variant of its own, by the text of its cause.
fn classify_cause(e: &object_store::Error, operation: &str, is_bucket: bool) -> (ErrorKind, String) {
    if let Some(redirect) = causes(e).find_map(|cause| cause.downcast_ref::<RedirectError>()) {
        return (ErrorKind::Unsupported, redirect.to_string());
    }
    let cause = innermost_cause(e);
    if cause.contains("non-partial response") || cause.contains("Range request not supported") {
        let problem = "the server ignores ranges, and answers with the whole object; copy it here first";
        (ErrorKind::Unsupported, problem.into())
    } else if cause.starts_with("Requested ") {
        (ErrorKind::InvalidData, "the store sent another range of bytes than was asked for".into())
    } else if cause.contains("status code: 416") {
        (ErrorKind::InvalidData, "the store says that it has no bytes there (416)".into())
    } else if format!("{e:?}").contains(METADATA_SERVICE) {
        (ErrorKind::PermissionDenied, format!("there are no credentials; {CREDENTIALS}"))
    } else if cause.contains("status code: 404") {
        missing(operation, is_bucket)
    } else if cause.contains("status code: 403") {
        denied(FORBIDDEN, is_bucket)
    } else if cause.contains("status code: 401") {
        denied(UNAUTHORIZED, is_bucket)
    } else {
        (ErrorKind::Io, cause)
    }
}

/// Returns the error and its causes, down to the innermost one.
fn causes(e: &object_store::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = e;
    std::iter::successors(Some(first), |cause| cause.source())
}

/// Returns the first line of the innermost cause, without URLs, which may have signatures in them.
fn innermost_cause(e: &object_store::Error) -> String {
    let text = causes(e).last().map_or_else(|| e.to_string(), ToString::to_string);
    let line = text.lines().next().unwrap_or("");
    let words = line.split(' ').map(|word| if word.contains("://") { "URL" } else { word });
    ellipsize(escape_hidden(&words.collect::<Vec<_>>().join(" ")), MAX_CAUSE_CHARS)
}

/// Returns the error of an object that was replaced after it was opened.
pub(crate) fn changed_error() -> Error {
    Error::new(ErrorKind::FileChanged, "the object was replaced after it was opened; open it again")
}
