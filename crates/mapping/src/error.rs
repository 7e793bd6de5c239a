//! Defines the errors. A message says which operation failed, what was expected and found, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path does not exist.
    NotFound,
    /// The operating system denied access.
    PermissionDenied,
    /// Some of the requested bytes don't exist.
    OutOfBounds,
    /// There is no element of that number.
    NoSuchElement,
    /// An argument has an invalid value.
    InvalidArgument,
    /// The path is a pipe, which can't be mapped.
    IsPipe,
    /// The resource is in use.
    Busy,
    /// A mapped file was truncated, overwritten or replaced.
    FileChanged,
    /// Any other error of the operating system.
    Io,
    /// An invariant of this library is broken, which is a bug. The operation was stopped.
    Internal,
}

/// An error: a [kind](ErrorKind), a message, the path concerned, and the operating system's error number.
#[derive(Clone)]
pub struct Error(Box<Details>);

#[derive(Clone)]
struct Details {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    errno: Option<i32>,
}

impl Error {
    /// Creates an error of `kind` with `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Details { kind, message: message.into(), path: None, errno: None }))
    }

    /// Creates an error of the operating system. `doing` names the operation, for example `"mapping the file"`.
    pub fn io(doing: &str, error: &io::Error) -> Error {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::Io,
        };
        let mut result = Error::new(kind, format!("{doing}: {error}"));
        result.0.errno = error.raw_os_error();
        result
    }

    pub(crate) fn invalid_argument(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// Creates the error of a broken invariant.
    #[cold]
    pub(crate) fn internal(what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Internal, what.to_string())
    }

    /// Adds the path concerned, unless the error has one already.
    pub fn at(mut self, path: impl AsRef<Path>) -> Error {
        self.0.path.get_or_insert_with(|| path.as_ref().to_path_buf());
        self
    }

    /// Returns the class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message, without the path.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the path concerned.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the operating system's error number, if it reported the error.
    pub fn errno(&self) -> Option<i32> {
        self.0.errno
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", path.display())?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {}

/// An error type that calls [with a change check](crate::with_change_check) can return.
pub trait ChangeCheckError: From<Error> {
    /// Returns true if the error says that a mapped file has changed.
    fn is_file_changed(&self) -> bool;
}

impl ChangeCheckError for Error {
    fn is_file_changed(&self) -> bool {
        self.kind() == ErrorKind::FileChanged
    }
}
