//! Parquet, which an engine reads and writes.

use std::path::Path;

use arrowwood::{Error, ErrorKind};

use super::interface::Engine;
use crate::shell::{CliError, CliResult};

/// Returns true if a path has the extension of a Parquet file.
pub(crate) fn is_parquet(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("parquet") || extension.eq_ignore_ascii_case("pq"))
}

/// Returns the engine, which is required to read and write Parquet.
pub(crate) fn require_parquet(engine: Option<&dyn Engine>) -> CliResult<&dyn Engine> {
    let missing = "Parquet needs the command of the Python package: pip install 'arrowwood[parquet]'";
    engine.ok_or_else(|| CliError::new(missing))
}

/// Converts the message of an engine about `path`.
pub(crate) fn engine_error(problem: String, path: &Path) -> Error {
    Error::new(ErrorKind::InvalidArgument, problem).at(path)
}
