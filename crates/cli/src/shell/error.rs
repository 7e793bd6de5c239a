//! The errors of verbs.

use std::io;
use std::path::Path;

use arrowwood::Error;
use arrowwood::readable::plural;

use super::printable::{printable_path, single_line};

/// The result of a verb.
pub(crate) type CliResult<T = ()> = Result<T, CliError>;

/// The reason why a verb failed.
pub(crate) struct CliError(Error);

impl CliError {
    pub(crate) fn new(message: &str) -> CliError {
        CliError(Error::new(arrowwood::ErrorKind::InvalidArgument, message))
    }

    /// Adds the path to the error, unless it names one.
    pub(crate) fn at(&self, path: &Path) -> CliError {
        CliError(self.0.clone().at(path))
    }

    /// Adds the input to the error, if it names none or another path.
    pub(crate) fn with_input(self, input: &Path) -> CliError {
        match self.0.path() {
            Some(path) if path != input => CliError(self.0.context(printable_path(input))),
            _ => self.at(input),
        }
    }

    /// Adds that the failed operation had appended `rows` rows.
    pub(crate) fn after_appending(self, rows: u64) -> CliError {
        match rows {
            0 => self,
            _ => CliError(self.0.context(format_args!("{} appended, then", plural(rows, "row", "rows")))),
        }
    }

    /// Returns the error on one line, even if names contain line breaks.
    pub(crate) fn to_line(&self) -> String {
        let message = single_line(self.0.message());
        match self.0.path() {
            Some(path) => format!("{}: {message}", printable_path(path)),
            None => message,
        }
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> CliError {
        CliError(error)
    }
}

impl From<arrowwood::mapping::Error> for CliError {
    fn from(error: arrowwood::mapping::Error) -> CliError {
        CliError(error.into())
    }
}

/// Converts errors of printing, which is the only direct input or output of verbs.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError(Error::io("writing to standard output", &error))
    }
}
