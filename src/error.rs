//! What can go wrong, in one sentence each: what was being done to which path, what was expected, what was found,
//! and, where one exists, the way out.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::visible::visible;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The class of an [`Error`]; Python has one exception class for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The path, or every path of a list or glob, is not there.
    NotFound,
    /// The operating system refused access.
    PermissionDenied,
    /// The bytes are not what the Arrow format says they must be, or not Arrow at all.
    InvalidData,
    /// Legal Arrow, but this version cannot do it yet.
    Unsupported,
    /// Two schemas that must agree do not.
    SchemaMismatch,
    /// No column of that name or number.
    ColumnNotFound,
    /// No row of that number.
    RowOutOfRange,
    /// An argument has a value that makes no sense here.
    InvalidArgument,
    /// The mapping was closed.
    Closed,
    /// Something still uses what was to be closed.
    Busy,
    /// The file changed under a mapping that relies on it staying as it was.
    FileChanged,
    /// Zero-copy was demanded, and a buffer could not be had without a copy.
    CopyNeeded,
    /// Any other failure of the operating system.
    Io,
    /// Something that this library relies on is not so: a bug in it. What was being done was stopped.
    Internal,
}

/// An error: a [kind](ErrorKind), a sentence, and the path it is about.
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
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Details { kind, message: message.into(), path: None, errno: None }))
    }

    /// What the operating system answered while `doing` something, for example `"mapping"`.
    pub fn io(doing: &str, error: &std::io::Error) -> Error {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::NotFound => ErrorKind::NotFound,
            Io::PermissionDenied => ErrorKind::PermissionDenied,
            _ => ErrorKind::Io,
        };
        let way_out = error.raw_os_error().map_or("", way_out);
        let mut built = Error::new(kind, format!("{doing}: {error}{way_out}"));
        built.0.errno = error.raw_os_error();
        built
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidData, message)
    }

    pub(crate) fn argument(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// The error of something that this library relies on and that is not so. It stops what is being done, instead of
    /// letting it go on with a value that nobody has chosen.
    #[cold]
    pub(crate) fn internal(what: impl fmt::Display) -> Error {
        let message = format!("internal error: {what}; this is a bug in arrowwood, please report it");
        Error::new(ErrorKind::Internal, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// The error of `what`, which takes a feature of the crate that it was built without.
    #[cfg_attr(
        all(feature = "table", feature = "compression", feature = "glob"),
        expect(dead_code, reason = "nothing is missing")
    )]
    pub(crate) fn missing_feature(what: &str, feature: &str) -> Error {
        Error::unsupported(format!("{what} needs arrowwood built with its feature `{feature}`"))
    }

    /// The same error with the path it is about, unless it names one already.
    pub fn at(mut self, path: impl AsRef<Path>) -> Error {
        self.0.path.get_or_insert_with(|| path.as_ref().to_path_buf());
        self
    }

    /// The same error with `context` (say, the column) put before its sentence.
    pub fn context(mut self, context: impl fmt::Display) -> Error {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without the path. Names stand in it as they are; the error itself prints what is hidden in them as
    /// escapes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The path the error is about.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Whether the system found nothing at an address that it was to read from.
    pub(crate) fn is_bad_address(&self) -> bool {
        self.0.errno == Some(libc::EFAULT)
    }

    /// The operating system's number for the error, where it came from there.
    pub fn errno(&self) -> Option<i32> {
        self.0.errno
    }
}

/// What to do about a limit of the system.
fn way_out(errno: i32) -> &'static str {
    match errno {
        libc::ENOMEM => "; raise the limit of address space (ulimit -v) or of mappings (sysctl vm.max_map_count)",
        libc::EMFILE => "; raise the limit of open files (ulimit -n)",
        libc::EFBIG => "; raise the limit of file sizes (ulimit -f), or make the table with fewer segment_rows",
        _ => "",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.path {
            Some(path) => write!(f, "{}: {}", visible(&path.to_string_lossy()), visible(&self.0.message)),
            None => f.write_str(&visible(&self.0.message)),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl std::error::Error for Error {}

/// Something that a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The file or folder it is about.
    pub path: PathBuf,
    /// The byte of the file where it stands, where one is known.
    pub offset: Option<u64>,
    /// What it is about, what was expected, and what was there instead.
    pub message: String,
    /// Whether something is damaged; else it is worth knowing, and may be what a writer leaves that was killed.
    pub is_damage: bool,
}

impl Finding {
    /// An error about the bytes of `path` as damage.
    pub fn of_error(error: &Error, path: &Path) -> Finding {
        let path = error.path().unwrap_or(path).to_path_buf();
        Finding { path, offset: None, message: error.message().into(), is_damage: true }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", visible(&self.path.to_string_lossy()))?;
        if let Some(offset) = self.offset {
            write!(f, "byte {offset}: ")?;
        }
        let what = if self.is_damage { "" } else { "note: " };
        write!(f, "{what}{}", visible(&self.message))
    }
}

/// What was found in one file, or in one folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    path: PathBuf,
    pub list: Vec<Finding>,
}

impl Findings {
    pub(crate) fn of(path: &Path) -> Findings {
        Findings { path: path.to_path_buf(), list: Vec::new() }
    }

    /// Adds a finding; it is damage or a note.
    pub(crate) fn add(&mut self, is_damage: bool, offset: impl Into<Option<u64>>, message: impl Into<String>) {
        let (path, offset, message) = (self.path.clone(), offset.into(), message.into());
        self.list.push(Finding { path, offset, message, is_damage });
    }

    pub(crate) fn damage(&mut self, offset: impl Into<Option<u64>>, message: impl Into<String>) {
        self.add(true, offset, message);
    }

    pub(crate) fn note(&mut self, offset: impl Into<Option<u64>>, message: impl Into<String>) {
        self.add(false, offset, message);
    }

    /// Whether something is damaged.
    pub(crate) fn has_damage(&self) -> bool {
        self.list.iter().any(|finding| finding.is_damage)
    }
}

impl Error {
    /// Whether the error is about what the bytes are, and not about getting at them.
    pub(crate) fn is_about_bytes(&self) -> bool {
        use ErrorKind::*;
        matches!(self.kind(), InvalidData | Unsupported | SchemaMismatch | FileChanged)
    }
}
