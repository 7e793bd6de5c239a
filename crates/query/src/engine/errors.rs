//! Converts errors of DataFusion to the errors that clients get.

use arrowwood_serve::SqlError;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use crate::engine::query_pool::MAX_SPILL_FACTOR;

/// Returns the error of an answer that ended without a result.
pub(crate) fn unfinished_error() -> SqlError {
    SqlError::Engine("a task of the query broke off".into())
}

/// Converts an error of temporary files, whose cause is `message`.
fn file_error(message: &str, error: &DataFusionError) -> SqlError {
    /// Part of DataFusion's message for a full spill directory, as it has no error kind for this.
    const SPILL_LIMIT: &str = "exceeded the allowable limit";
    if message.contains(SPILL_LIMIT) {
        return SqlError::Memory(format!(
            "the query would write more than {MAX_SPILL_FACTOR} times its memory to the disk"
        ));
    }
    SqlError::Engine(error.strip_backtrace())
}

/// Converts an error of DataFusion to the error that a client gets.
pub(crate) fn to_sql_error(error: &DataFusionError) -> SqlError {
    match error.find_root() {
        DataFusionError::IoError(e) => file_error(&e.to_string(), error),
        DataFusionError::ArrowError(e, _) if matches!(**e, ArrowError::IoError(..)) => {
            file_error(&e.to_string(), error)
        }
        DataFusionError::ResourcesExhausted(message) => SqlError::Memory(message.clone()),
        DataFusionError::NotImplemented(message) => {
            SqlError::Statement(format!("DataFusion does not do this: {message}"))
        }
        DataFusionError::External(inner) => match inner.downcast_ref::<arrowwood::Error>() {
            Some(error) => SqlError::Table(error.clone()),
            None => SqlError::Engine(error.strip_backtrace()),
        },
        DataFusionError::Internal(_) | DataFusionError::ExecutionJoin(_) => SqlError::Engine(error.strip_backtrace()),
        _ => SqlError::Statement(error.strip_backtrace()),
    }
}
