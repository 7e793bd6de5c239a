//! [`Snapshot`]: the rows that a request is answered from, and what identifies them.

use std::sync::Arc;

use arrowwood::{Dataset, Error, ErrorKind};

use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::table::Table;

/// The parameter by which clients say which rows they mean.
pub(crate) const PARAMETER: &str = "snapshot";

/// The rows of a table as of one request.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub table: Arc<Table>,
    pub rows: Dataset,
    /// Another one where columns, or numbers of rows, may mean others. A table that grows keeps it.
    pub id: String,
}

impl Snapshot {
    /// The newest rows of `table`. Blocks.
    pub fn load(table: Arc<Table>) -> Result<Snapshot> {
        let (rows, id) = table.identified_rows().map_err(|e| match e.kind() {
            ErrorKind::FileChanged => replaced(Some(&e)),
            _ => Problem::from_table_error(&e),
        })?;
        Ok(Snapshot { table, rows, id })
    }

    /// The same, if they are those that `query` means. Blocks.
    ///
    /// # Errors
    /// 409 for others.
    pub fn load_for_query(table: Arc<Table>, query: &Query) -> Result<Snapshot> {
        let meant = query.get(PARAMETER)?;
        let snapshot = Snapshot::load(table)?;
        if meant.is_some_and(|meant| meant != snapshot.id) { Err(replaced(None)) } else { Ok(snapshot) }
    }

    /// Refuses what was read by the table's path, if another file is there by now. Blocks.
    pub fn check_current(&self) -> Result<()> {
        if Snapshot::load(self.table.clone())?.id == self.id { Ok(()) } else { Err(replaced(None)) }
    }
}

fn replaced(e: Option<&Error>) -> Problem {
    let detail = "the table or file was replaced since, or its columns have changed: open it again";
    let refusal = Problem::conflict("file_changed", detail);
    e.into_iter().fold(refusal, Problem::with_error)
}
