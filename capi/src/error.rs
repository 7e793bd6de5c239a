//! Error codes: `arrowwood_error_code` of the header.

use arrowwood::{Error, ErrorKind};

/// A panic, or a kind of error unknown to the header.
pub const INTERNAL: i32 = 14;

const NAMES: [&str; 15] = [
    "none\0",
    "not found\0",
    "permission denied\0",
    "invalid data\0",
    "unsupported\0",
    "schema mismatch\0",
    "column not found\0",
    "row out of range\0",
    "invalid argument\0",
    "closed\0",
    "busy\0",
    "file changed\0",
    "copy needed\0",
    "I/O error\0",
    "internal error\0",
];

/// Returns the code of an error.
pub fn error_code(error: &Error) -> i32 {
    match error.kind() {
        ErrorKind::NotFound => 1,
        ErrorKind::PermissionDenied => 2,
        ErrorKind::InvalidData => 3,
        ErrorKind::Unsupported => 4,
        ErrorKind::SchemaMismatch => 5,
        ErrorKind::ColumnNotFound => 6,
        ErrorKind::RowOutOfRange => 7,
        ErrorKind::InvalidArgument => 8,
        ErrorKind::Closed => 9,
        ErrorKind::Busy => 10,
        ErrorKind::FileChanged => 11,
        ErrorKind::CopyNeeded => 12,
        ErrorKind::Io => 13,
        _ => INTERNAL,
    }
}

/// Returns the name of a code, NUL-terminated.
pub fn error_name(code: i32) -> &'static str {
    usize::try_from(code).ok().and_then(|code| NAMES.get(code)).unwrap_or(&"unknown\0")
}

/// Returns an `InvalidArgument` error that says `message`.
pub fn invalid_argument(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
