//! Loads the rows that a request is answered from, as a [`Snapshot`] with an identity.

use std::sync::Arc;

use arrowwood::{Dataset, ErrorKind};
use hyper::header::HeaderValue;

use super::table::Table;
use crate::http::{Problem, Query, Result};

/// The parameter with the identity of the rows that a client means.
pub(crate) const PARAMETER: &str = "snapshot";

/// The header of a response with the identity of its rows.
pub(crate) const HEADER: &str = "arrowwood-snapshot";

/// The rows of a table at the time of one request.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub table: Arc<Table>,
    pub rows: Dataset,
    /// Identifies what columns and row numbers mean. It stays the same while the table grows.
    pub id: String,
}

impl Snapshot {
    /// Loads the newest rows of `table`. Blocks.
    pub fn load(table: Arc<Table>) -> Result<Snapshot> {
        let (rows, id) = table.identified_rows().map_err(|e| match e.kind() {
            ErrorKind::FileChanged => replaced().with_error(&e),
            _ => Problem::from_table_error(&e),
        })?;
        Ok(Snapshot { table, rows, id })
    }

    /// Loads the newest rows of `table`, which must be the ones that `query` means, if it says so. Blocks.
    ///
    /// # Errors
    /// 409 for other rows.
    pub fn load_for_query(table: Arc<Table>, query: &Query) -> Result<Snapshot> {
        let expected_id = query.get(PARAMETER)?;
        let snapshot = Snapshot::load(table)?;
        if expected_id.is_some_and(|id| id != snapshot.id) { Err(replaced()) } else { Ok(snapshot) }
    }

    /// Refuses an answer that was read through the table's path, if another file is there at this time. Blocks.
    pub fn check_current(&self) -> Result<()> {
        if Snapshot::load(self.table.clone())?.id == self.id { Ok(()) } else { Err(replaced()) }
    }
}

/// Returns the value of [`HEADER`] for the identity of a snapshot.
pub(crate) fn header_value(id: String) -> Result<HeaderValue> {
    HeaderValue::try_from(id).map_err(|e| Problem::internal(e.to_string()))
}

fn replaced() -> Problem {
    let detail = "the table or file was replaced since, or its columns have changed: open it again";
    Problem::conflict("file_changed", detail)
}
