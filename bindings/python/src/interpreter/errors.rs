//! Errors of the library as Python's exceptions (`arrowwood/_errors.py` has one class for each kind).

use std::fmt::Display;
use std::io;
use std::sync::{Arc, Mutex};

use arrowwood::mapping::MutexExt;
use arrowwood::readable::escape_hidden;
use arrowwood::{Error, ErrorKind, mapping};
use pyo3::prelude::*;

use super::lock::DroppedWithLock;
use super::py_call::{CallPy, attach};
use super::signals::take_raised;

/// The result of a function of this module.
pub type Result<T, E = PyArrowwoodError> = std::result::Result<T, E>;

/// An error of the library or of Python, so that `?` takes both.
pub enum PyArrowwoodError {
    /// An error of the library.
    Library(Error),
    /// An exception that is set already, or that Python's own classes are right for.
    Python(PyErr),
}

impl PyArrowwoodError {
    /// Returns true if it says that there is no such row.
    pub fn is_row_out_of_range(&self) -> bool {
        matches!(self, PyArrowwoodError::Library(error) if error.kind() == ErrorKind::RowOutOfRange)
    }

    /// Adds the column's name to an error of the library.
    pub fn in_column(self, name: &str) -> PyArrowwoodError {
        match self {
            PyArrowwoodError::Library(error) => error.context(format_args!("column '{name}'")).into(),
            failure => failure,
        }
    }
}

impl From<Error> for PyArrowwoodError {
    fn from(error: Error) -> PyArrowwoodError {
        PyArrowwoodError::Library(error)
    }
}

impl From<mapping::Error> for PyArrowwoodError {
    fn from(error: mapping::Error) -> PyArrowwoodError {
        PyArrowwoodError::Library(error.into())
    }
}

impl From<PyErr> for PyArrowwoodError {
    fn from(error: PyErr) -> PyArrowwoodError {
        PyArrowwoodError::Python(error)
    }
}

impl<'a, 'py> From<pyo3::CastError<'a, 'py>> for PyArrowwoodError {
    fn from(error: pyo3::CastError<'a, 'py>) -> PyArrowwoodError {
        PyArrowwoodError::Python(error.into())
    }
}

impl From<PyArrowwoodError> for PyErr {
    fn from(failure: PyArrowwoodError) -> PyErr {
        match failure {
            PyArrowwoodError::Python(error) => error,
            PyArrowwoodError::Library(error) => {
                take_raised().unwrap_or_else(|| attach(|py| exception(py, &error).unwrap_or_else(|problem| problem)))
            }
        }
    }
}

/// The exception raised while a file object was used, which is more precise than the error of using it.
#[derive(Clone, Default)]
pub struct PendingException(Arc<DroppedWithLock<Mutex<Option<PyErr>>>>);

impl PendingException {
    /// Stores the exception, and returns the error to fail with meanwhile.
    pub fn store(&self, error: PyErr) -> io::Error {
        *self.0.lock_ignoring_poison() = Some(error);
        io::Error::other("the file object raised an exception")
    }

    /// Returns the stored exception, if there is one; otherwise `done`.
    pub fn take_or<T>(&self, done: Result<T, Error>) -> Result<T> {
        match self.0.lock_ignoring_poison().take() {
            Some(error) => Err(error.into()),
            None => Ok(done?),
        }
    }

    /// Returns `done`, unless a signal has arrived for which Python raises an exception.
    pub fn check_interrupt<T>(&self, done: io::Result<T>) -> io::Result<T> {
        match &done {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                attach(|py| py.check_signals()).map_err(|e| self.store(e))?;
                done
            }
            _ => done,
        }
    }
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let name = if error.is_out_of_memory() { "OutOfMemory" } else { class_name(error.kind()) };
    let class = py.import("arrowwood._errors")?.getattr(name)?;
    let path = error.path().map(|path| path.as_os_str());
    Ok(PyErr::from_value(class.call_py((error.to_string(), path, error.errno()))?))
}

fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NotFound",
        ErrorKind::PermissionDenied => "PermissionDenied",
        ErrorKind::InvalidData => "InvalidData",
        ErrorKind::Unsupported => "Unsupported",
        ErrorKind::SchemaMismatch => "SchemaMismatch",
        ErrorKind::ColumnNotFound => "ColumnNotFound",
        ErrorKind::RowOutOfRange => "RowOutOfRange",
        ErrorKind::InvalidArgument => "InvalidArgument",
        ErrorKind::Closed => "Closed",
        ErrorKind::Busy => "Busy",
        ErrorKind::FileChanged => "FileChanged",
        ErrorKind::CopyNeeded => "CopyNeeded",
        ErrorKind::Io => "IoError",
        ErrorKind::Internal => "InternalError",
        _ => "Error",
    }
}

/// Creates an empty vector with room for `len` values; `MemoryError` if there is no memory for them.
pub fn try_with_capacity<T>(len: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|_| memory_error())?;
    Ok(room)
}

/// Returns a `MemoryError`, for objects of the interpreter and of this extension.
pub fn memory_error() -> PyArrowwoodError {
    PyArrowwoodError::Python(pyo3::exceptions::PyMemoryError::new_err("no memory is left"))
}

/// Returns an `InvalidArgument` error that says `message`.
pub fn invalid_argument(message: impl Into<String>) -> PyArrowwoodError {
    Error::new(ErrorKind::InvalidArgument, message).into()
}

/// Returns a `TypeError` that says `message`; names of columns and values in it may hold any characters.
pub fn type_error(message: impl AsRef<str>) -> PyArrowwoodError {
    PyArrowwoodError::Python(pyo3::exceptions::PyTypeError::new_err(escape_hidden(message.as_ref()).into_owned()))
}

/// Returns a `ColumnNotFound` error that names the existing columns.
pub fn column_not_found(name: &impl Display, names: &[String]) -> PyArrowwoodError {
    Error::new(ErrorKind::ColumnNotFound, format!("no column '{name}'; there are {}", names.join(", "))).into()
}

/// Returns a `RowOutOfRange` error that says `message`.
pub fn out_of_range(message: String) -> PyArrowwoodError {
    Error::new(ErrorKind::RowOutOfRange, message).into()
}

/// Imports `package`; an `ImportError` says how to install it.
pub fn import_module<'py>(py: Python<'py>, package: &str, what_for: &str) -> Result<Bound<'py, PyModule>> {
    py.import(package).map_err(|problem| {
        if !problem.is_instance_of::<pyo3::exceptions::PyModuleNotFoundError>(py) {
            return problem.into();
        }
        let message = format!("{what_for} needs {package}; install it: pip install {package}");
        PyArrowwoodError::Python(pyo3::exceptions::PyImportError::new_err(message))
    })
}
