//! Makes statements of handles, which contain them: the server keeps no state of a statement that does not run.

use arrowwood_flight::sql::StatementHandle;

use crate::http::{Problem, Result};
use crate::sql::{NO_ID, Statement};

/// Returns the statement of a handle, to plan or run.
pub(super) fn statement_of(handle: &StatementHandle) -> Result<Statement> {
    let parameters = handle.parameter_values()?;
    Ok(Statement { text: handle.query.clone(), parameters, max_rows: None, self_table: None })
}

/// Adds a unique name to a handle, for one run.
pub(super) fn with_unique_id(handle: StatementHandle) -> Result<StatementHandle> {
    let id = getrandom::u64().map_err(|e| Problem::internal(e.to_string()))?;
    Ok(handle.with_id(id.max(NO_ID + 1)))
}
