//! Error codes: `arrowwood_error_code` of the header.

use arrowwood::{Error, ErrorKind};

/// `arrowwood_error_code`.
pub mod code {
    pub const NONE: i32 = 0;
    pub const NOT_FOUND: i32 = 1;
    pub const PERMISSION_DENIED: i32 = 2;
    pub const INVALID_DATA: i32 = 3;
    pub const UNSUPPORTED: i32 = 4;
    pub const SCHEMA_MISMATCH: i32 = 5;
    pub const COLUMN_NOT_FOUND: i32 = 6;
    pub const ROW_OUT_OF_RANGE: i32 = 7;
    pub const INVALID_ARGUMENT: i32 = 8;
    pub const CLOSED: i32 = 9;
    pub const BUSY: i32 = 10;
    pub const FILE_CHANGED: i32 = 11;
    pub const COPY_NEEDED: i32 = 12;
    pub const IO: i32 = 13;
    /// A panic, or a kind of error unknown to the header.
    pub const INTERNAL: i32 = 14;
}

/// Returns the code of an error.
pub fn error_code(error: &Error) -> i32 {
    match error.kind() {
        ErrorKind::NotFound => code::NOT_FOUND,
        ErrorKind::PermissionDenied => code::PERMISSION_DENIED,
        ErrorKind::InvalidData => code::INVALID_DATA,
        ErrorKind::Unsupported => code::UNSUPPORTED,
        ErrorKind::SchemaMismatch => code::SCHEMA_MISMATCH,
        ErrorKind::ColumnNotFound => code::COLUMN_NOT_FOUND,
        ErrorKind::RowOutOfRange => code::ROW_OUT_OF_RANGE,
        ErrorKind::InvalidArgument => code::INVALID_ARGUMENT,
        ErrorKind::Closed => code::CLOSED,
        ErrorKind::Busy => code::BUSY,
        ErrorKind::FileChanged => code::FILE_CHANGED,
        ErrorKind::CopyNeeded => code::COPY_NEEDED,
        ErrorKind::Io => code::IO,
        _ => code::INTERNAL,
    }
}

/// Returns the name of a code, NUL-terminated.
pub fn error_name(code: i32) -> &'static str {
    match code {
        code::NONE => "none\0",
        code::NOT_FOUND => "not found\0",
        code::PERMISSION_DENIED => "permission denied\0",
        code::INVALID_DATA => "invalid data\0",
        code::UNSUPPORTED => "unsupported\0",
        code::SCHEMA_MISMATCH => "schema mismatch\0",
        code::COLUMN_NOT_FOUND => "column not found\0",
        code::ROW_OUT_OF_RANGE => "row out of range\0",
        code::INVALID_ARGUMENT => "invalid argument\0",
        code::CLOSED => "closed\0",
        code::BUSY => "busy\0",
        code::FILE_CHANGED => "file changed\0",
        code::COPY_NEEDED => "copy needed\0",
        code::IO => "I/O error\0",
        code::INTERNAL => "internal error\0",
        _ => "unknown\0",
    }
}

/// Returns an `InvalidArgument` error that says `message`.
pub fn invalid_argument(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
