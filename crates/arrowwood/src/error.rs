//! Errors. A message says what was being done to which path, what was expected and found, and what to do about it.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrowwood_mapping::{self as mapping, os};

use crate::escape::escape_hidden;
use crate::redact::{redact_url, redact_urls};

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an [`Error`]; Python has one exception class for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path, or every path of a list or glob, does not exist.
    NotFound,
    /// The operating system denied access.
    PermissionDenied,
    /// The bytes violate the Arrow format, or are not Arrow data.
    InvalidData,
    /// Valid Arrow data or a valid request that this version does not support.
    Unsupported,
    /// Two schemas that must agree differ.
    SchemaMismatch,
    /// There is no column of that name or number.
    ColumnNotFound,
    /// There is no row of that number.
    RowOutOfRange,
    /// An argument has an invalid value.
    InvalidArgument,
    /// The mapping was closed.
    Closed,
    /// The resource is in use.
    Busy,
    /// A mapped file was truncated, overwritten or replaced.
    FileChanged,
    /// Zero-copy access was required, but a buffer had to be copied.
    CopyNeeded,
    /// Any other error of the operating system.
    Io,
    /// An invariant of this library is broken, which is a bug. The operation was stopped.
    Internal,
}

/// An error: a [kind](ErrorKind), a message, and the path concerned.
#[derive(Clone)]
pub struct Error(Box<Details>);

#[derive(Clone)]
struct Details {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    errno: Option<i32>,
    is_out_of_memory: bool,
    is_limit: bool,
}

impl Error {
    /// Creates an error of `kind` with `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = public(message.into());
        Error(Box::new(Details { kind, message, path: None, errno: None, is_out_of_memory: false, is_limit: false }))
    }

    /// Creates the error of the operating system while `doing` something, for example `"mapping"`.
    pub fn io(doing: &str, error: &std::io::Error) -> Error {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::NotFound => ErrorKind::NotFound,
            Io::PermissionDenied => ErrorKind::PermissionDenied,
            _ if mapping::is_moved_directory(error) => ErrorKind::FileChanged,
            _ => ErrorKind::Io,
        };
        let way_out = error.raw_os_error().map_or("", way_out);
        let mut built = Error::new(kind, format!("{doing}: {error}{way_out}"));
        built.0.errno = error.raw_os_error();
        built.0.is_out_of_memory = error.kind() == Io::OutOfMemory;
        built
    }

    /// Creates the error for data that doesn't fit into memory.
    pub(crate) fn out_of_memory(message: impl Into<String>) -> Error {
        let mut built = Error::new(ErrorKind::Io, message);
        built.0.is_out_of_memory = true;
        built
    }

    /// Creates the error for valid data that takes more than a limit which the caller has set.
    pub fn limit(message: impl Into<String>) -> Error {
        let mut built = Error::new(ErrorKind::Unsupported, message);
        built.0.is_limit = true;
        built
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidData, message)
    }

    pub(crate) fn invalid_argument(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// Creates the error of a broken invariant. It stops the operation, which must not continue with a default value.
    #[cold]
    pub(crate) fn internal(what: impl fmt::Display) -> Error {
        let message = format!("internal error: {what}; this is a bug in arrowwood, please report it");
        Error::new(ErrorKind::Internal, message)
    }

    /// Creates the error of a panic, which is a failed assertion.
    #[cold]
    pub fn from_panic(panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("a panic without a message");
        Error::new(ErrorKind::Internal, format!("internal error, please report it: {text}"))
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Creates the error for `what`, which needs a feature that the crate was built without.
    #[cfg_attr(
        all(feature = "table", feature = "compression", feature = "glob"),
        expect(dead_code, reason = "nothing is missing")
    )]
    pub(crate) fn missing_feature(what: &str, feature: &str) -> Error {
        Error::unsupported(format!("{what} needs arrowwood built with its feature `{feature}`"))
    }

    /// Adds the path concerned, unless the error has one already. Secrets of a URL are removed.
    pub fn at(mut self, path: impl AsRef<Path>) -> Error {
        self.0.path.get_or_insert_with(|| path_without_secrets(path.as_ref()));
        self
    }

    /// Prepends `context` (for example, the column) to the message.
    pub fn context(mut self, context: impl fmt::Display) -> Error {
        self.0.message = public(format!("{context}: {}", self.0.message));
        self
    }

    /// Returns the class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message, without the path. Names in it are unescaped; `Display` escapes hidden characters.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the path concerned.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns true if the system was passed an unmapped address.
    pub(crate) fn is_bad_address(&self) -> bool {
        self.0.errno.is_some_and(|errno| os::is_bad_address(&io::Error::from_raw_os_error(errno)))
    }

    /// Returns true if the data is valid, but takes more than a limit which the caller has set.
    ///
    /// Fewer rows may fit.
    pub fn is_limit(&self) -> bool {
        self.0.is_limit
    }

    /// Returns true if memory is short.
    pub fn is_out_of_memory(&self) -> bool {
        let kind = self.0.errno.map(|errno| io::Error::from_raw_os_error(errno).kind());
        self.0.is_out_of_memory || kind == Some(io::ErrorKind::OutOfMemory)
    }

    /// Returns true if the operation may succeed for fewer rows at a time.
    #[cfg(feature = "table")]
    pub(crate) fn may_fit_fewer_rows(&self) -> bool {
        self.kind() == ErrorKind::Unsupported || self.is_out_of_memory()
    }

    /// Returns the operating system's error number, if it reported the error.
    pub fn errno(&self) -> Option<i32> {
        self.0.errno
    }
}

/// Runs `work`. A panic in it becomes an error of kind `Internal`, since none may leave the library.
///
/// The caller must not go on with what `work` has changed: an assertion may have failed between two changes that belong
/// together.
#[inline]
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Error::from_panic(&*panic)))
}

impl From<mapping::Error> for Error {
    /// Converts the error, and adds advice.
    #[cold]
    fn from(error: mapping::Error) -> Error {
        use mapping::ErrorKind as Kind;
        let kind = match error.kind() {
            Kind::NotFound => ErrorKind::NotFound,
            Kind::PermissionDenied => ErrorKind::PermissionDenied,
            Kind::OutOfBounds => ErrorKind::InvalidData,
            Kind::NoSuchElement => ErrorKind::RowOutOfRange,
            Kind::InvalidArgument | Kind::IsPipe => ErrorKind::InvalidArgument,
            Kind::Busy => ErrorKind::Busy,
            Kind::FileChanged => ErrorKind::FileChanged,
            Kind::Internal => ErrorKind::Internal,
            _ => ErrorKind::Io,
        };
        let advice = match error.kind() {
            Kind::IsPipe => "; read_stream reads an Arrow stream as it comes out of one",
            _ => error.errno().map_or("", way_out),
        };
        let mut built = match kind {
            ErrorKind::Internal => Error::internal(error.message()),
            _ => Error::new(kind, format!("{}{advice}", error.message())),
        };
        built.0.errno = error.errno();
        built.0.path = error.path().map(path_without_secrets);
        built
    }
}

impl mapping::ChangeCheckError for Error {
    fn is_file_changed(&self) -> bool {
        self.kind() == ErrorKind::FileChanged
    }
}

/// Returns the message without the secrets of URLs in it.
fn public(message: String) -> String {
    match redact_urls(&message) {
        Cow::Borrowed(_) => message,
        Cow::Owned(public) => public,
    }
}

fn path_without_secrets(path: &Path) -> PathBuf {
    path.to_str().map_or_else(|| path.to_path_buf(), |text| redact_url(text).as_ref().into())
}

/// Returns the advice for a limit of the system.
fn way_out(errno: i32) -> &'static str {
    let error = io::Error::from_raw_os_error(errno);
    match error.kind() {
        io::ErrorKind::OutOfMemory => {
            "; raise the limit of address space (ulimit -v) or of mappings (sysctl vm.max_map_count)"
        }
        io::ErrorKind::FileTooLarge => {
            "; raise the limit of file sizes (ulimit -f), or make the table with fewer segment_rows"
        }
        _ if os::is_process_out_of_files(&error) => "; raise the limit of open files (ulimit -n)",
        _ => "",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.path {
            Some(path) => write!(f, "{}: {}", escape_hidden(&path.to_string_lossy()), escape_hidden(&self.0.message)),
            None => f.write_str(&escape_hidden(&self.0.message)),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {}

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The file or directory concerned.
    pub path: PathBuf,
    /// The offset in the file, in bytes, if known.
    pub offset: Option<u64>,
    /// The part of the file concerned, what was expected, and what was found.
    pub message: String,
    /// True for damage, false for a note, for example about leftovers of a killed writer.
    pub is_damage: bool,
}

impl Finding {
    /// Reports an error about the bytes of `path` as damage.
    pub fn from_error(error: &Error, path: &Path) -> Finding {
        let path = error.path().unwrap_or(path).to_path_buf();
        Finding { path, offset: None, message: error.message().into(), is_damage: true }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", escape_hidden(&self.path.to_string_lossy()))?;
        if let Some(offset) = self.offset {
            write!(f, "byte {offset}: ")?;
        }
        let what = if self.is_damage { "" } else { "note: " };
        write!(f, "{what}{}", escape_hidden(&self.message))
    }
}

/// Collects the findings in one file or directory. An error of the system takes precedence: what could not be read may
/// be sound, so then nothing is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    path: PathBuf,
    list: Vec<Finding>,
    /// An error of the system: what could not be read is not damaged.
    failure: Option<Error>,
}

impl Findings {
    pub(crate) fn new(path: &Path) -> Findings {
        Findings { path: path.to_path_buf(), ..Findings::default() }
    }

    /// Returns what was found.
    ///
    /// # Errors
    /// The first error of the system: then nothing is known.
    pub(crate) fn into_list(self) -> Result<Vec<Finding>> {
        self.failure.map_or(Ok(self.list), |e| Err(e.at(self.path)))
    }

    /// Adds what `error` says, if that is about the bytes.
    pub(crate) fn error(&mut self, offset: impl Into<Option<u64>>, error: &Error) {
        self.error_in(offset, "", error);
    }

    /// As [`Findings::error`], and the message begins with `what`.
    pub(crate) fn error_in(&mut self, offset: impl Into<Option<u64>>, what: &str, error: &Error) {
        if error.is_corruption() {
            self.damage(offset, format!("{what}{}", error.message()));
        } else {
            self.failure.get_or_insert_with(|| error.clone());
        }
    }

    /// Adds a finding.
    pub(crate) fn add(&mut self, is_damage: bool, offset: impl Into<Option<u64>>, message: impl Into<String>) {
        let path = self.path.clone();
        self.list.push(Finding { path, offset: offset.into(), message: message.into(), is_damage });
    }

    pub(crate) fn damage(&mut self, offset: impl Into<Option<u64>>, message: impl Into<String>) {
        self.add(true, offset, message);
    }

    pub(crate) fn note(&mut self, offset: impl Into<Option<u64>>, message: impl Into<String>) {
        self.add(false, offset, message);
    }

    /// Returns true if anything is damaged.
    pub(crate) fn has_damage(&self) -> bool {
        self.list.iter().any(|finding| finding.is_damage)
    }
}

impl Error {
    /// Returns true if the error is about the contents of the bytes rather than access to them.
    pub(crate) fn is_corruption(&self) -> bool {
        use ErrorKind::*;
        matches!(self.kind(), InvalidData | Unsupported | SchemaMismatch | FileChanged)
    }
}

/// Returns the value that was read; `None` if the bytes are damaged.
///
/// # Errors
/// Errors of access to the bytes, which may be sound.
#[cfg(feature = "check")]
pub(crate) fn none_if_corrupt<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(e) if e.is_corruption() => Ok(None),
        Err(e) => Err(e),
    }
}
