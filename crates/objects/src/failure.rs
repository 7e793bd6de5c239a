//! What went wrong in a store, in a sentence.

use arrowwood::{Error, ErrorKind, cut, visible};

/// The error of a request that failed while `doing`.
pub(crate) fn failed(doing: &str, e: &object_store::Error) -> Error {
    use object_store::Error as Store;
    const CREDENTIALS: &str = "credentials are taken from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, the \
                               region from AWS_REGION; for a public bucket set AWS_SKIP_SIGNATURE=true";
    let (kind, what) = match e {
        Store::NotFound { .. } => (ErrorKind::NotFound, "the store has no such object".into()),
        Store::PermissionDenied { .. } => {
            (ErrorKind::PermissionDenied, format!("the store denies access (403); {CREDENTIALS}"))
        }
        Store::Unauthenticated { .. } => {
            (ErrorKind::PermissionDenied, format!("the store asks for credentials (401); {CREDENTIALS}"))
        }
        Store::Precondition { .. } => return changed(),
        _ => {
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
                () => (ErrorKind::Io, cause),
            }
        }
    };
    Error::new(kind, format!("{doing}: {what}"))
}

/// The first cause, without the URL, which may have a signature in it.
fn cause(e: &object_store::Error) -> String {
    let mut first: &dyn std::error::Error = e;
    while let Some(source) = first.source() {
        first = source;
    }
    let text = first.to_string();
    let line = text.lines().next().unwrap_or_default();
    let words = line.split(' ').map(|word| if word.contains("://") { "URL" } else { word });
    cut(visible(&words.collect::<Vec<_>>().join(" ")), 200)
}

/// The error for an object that is another one than was opened.
pub(crate) fn changed() -> Error {
    Error::new(ErrorKind::FileChanged, "the object was replaced after it was opened; open it again")
}
