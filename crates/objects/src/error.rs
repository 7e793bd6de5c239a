//! Converts the errors of stores to ours, each in a sentence.

use arrowwood::{Error, ErrorKind, ellipsize, escape_hidden};

use crate::client::RedirectError;

/// The operation in the errors of an object that is read.
pub(crate) const READING: &str = "reading the object";

const CREDENTIALS: &str = "credentials are taken from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, the \
                           region from AWS_REGION; for a public bucket set AWS_SKIP_SIGNATURE=true";
/// The advice for a web server.
const PASSWORD: &str = "both are given in the URL, before the host: USER:PASSWORD@HOST";

/// Returns the error of a request to a bucket, or to a web server, that failed. `doing` names the operation.
pub(crate) fn failed(doing: &str, e: &object_store::Error, is_bucket: bool) -> Error {
    use object_store::Error as Store;
    let (kind, what) = match e {
        Store::NotFound { .. } => missing(doing, is_bucket),
        Store::PermissionDenied { .. } => denied(403, is_bucket),
        Store::Unauthenticated { .. } => denied(401, is_bucket),
        Store::Precondition { .. } => return changed(),
        _ => classify_cause(e, doing, is_bucket),
    };
    Error::new(kind, format!("{doing}: {what}"))
}

fn missing(doing: &str, is_bucket: bool) -> (ErrorKind, String) {
    let what = match doing {
        READING if is_bucket => "the store has no such object, or no such bucket",
        READING => "the server has no such file (404)",
        _ => "the store has no such bucket",
    };
    (ErrorKind::NotFound, what.into())
}

fn denied(status: u16, is_bucket: bool) -> (ErrorKind, String) {
    let what = match (status, is_bucket) {
        (401, true) => format!("the store asks for credentials (401); {CREDENTIALS}"),
        (401, false) => format!("the server asks for a user and a password (401), or refuses those given; {PASSWORD}"),
        (_, true) => format!("the store denies access (403); {CREDENTIALS}"),
        (_, false) => "the server denies access (403); a signed URL may have expired".into(),
    };
    (ErrorKind::PermissionDenied, what)
}

/// Returns the kind and the message of a request's error by its text, if it has no variant of its own.
fn classify_cause(e: &object_store::Error, doing: &str, is_bucket: bool) -> (ErrorKind, String) {
    if let Some(redirect) = causes(e).find_map(|cause| cause.downcast_ref::<RedirectError>()) {
        return (ErrorKind::Unsupported, redirect.to_string());
    }
    let cause = cause(e);
    let all = format!("{e:?}");
    match () {
        () if ["non-partial response", "Range request not supported"].iter().any(|no| cause.contains(no)) => (
            ErrorKind::Unsupported,
            "the server ignores ranges, and answers with the whole object; copy it here first".into(),
        ),
        () if cause.starts_with("Requested ") => {
            (ErrorKind::InvalidData, "the store sent another range of bytes than was asked for".into())
        }
        () if cause.contains("status code: 416") => {
            (ErrorKind::InvalidData, "the store says that it has no bytes there (416)".into())
        }
        () if all.contains("169.254.169.254") => {
            (ErrorKind::PermissionDenied, format!("there are no credentials; {CREDENTIALS}"))
        }
        () if cause.contains("status code: 404") => missing(doing, is_bucket),
        () if cause.contains("status code: 403") => denied(403, is_bucket),
        () if cause.contains("status code: 401") => denied(401, is_bucket),
        () => (ErrorKind::Io, cause),
    }
}

/// Returns the error and its causes, down to the first of them.
fn causes(e: &object_store::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = e;
    std::iter::successors(Some(first), |cause| cause.source())
}

/// Returns the first cause, without URLs, which may have signatures in them.
fn cause(e: &object_store::Error) -> String {
    let text = causes(e).last().map(ToString::to_string).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let words = line.split(' ').map(|word| if word.contains("://") { "URL" } else { word });
    ellipsize(escape_hidden(&words.collect::<Vec<_>>().join(" ")), 200)
}

/// Returns the error of an object that was replaced after it was opened.
pub(crate) fn changed() -> Error {
    Error::new(ErrorKind::FileChanged, "the object was replaced after it was opened; open it again")
}
