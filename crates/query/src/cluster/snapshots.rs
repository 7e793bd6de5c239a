//! The rows that queries have fixed on this server. All tasks of a query read the same commit of a table.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arrowwood::Dataset;
use arrowwood::mapping::MutexExt;
use datafusion::common::exec_err;
use datafusion::error::Result;

use crate::cluster::messages::PartMessage;

/// How long the tasks of a query may arrive after it started.
const MAX_AGE: Duration = Duration::from_secs(120);
/// The maximum number of queries whose tasks may still arrive.
const MAX_QUERIES: usize = 1_024;
/// The maximum number of such queries of one caller.
const MAX_CALLER_QUERIES: usize = MAX_QUERIES / 2;

/// A caller, and the number of its query.
type QueryKey = (String, Vec<u8>);

struct QuerySnapshot {
    start: Instant,
    tables: HashMap<String, Arc<Dataset>>,
}

/// The fixed rows of all queries.
pub(super) struct Snapshots {
    /// A random number that identifies this process.
    pub process: Vec<u8>,
    queries: Mutex<HashMap<QueryKey, QuerySnapshot>>,
}

impl Snapshots {
    pub fn new() -> Snapshots {
        let process = uuid::Uuid::new_v4().as_bytes().to_vec();
        Snapshots { process, queries: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueryKey, QuerySnapshot>> {
        // A panic while it was locked leaves other queries intact.
        self.queries.lock_ignoring_poison()
    }

    /// Fixes the rows of a query.
    ///
    /// # Errors
    /// If too many queries have started, or too many of this caller, or this query has before.
    pub fn fix(&self, caller: &str, query: &[u8], tables: HashMap<String, Arc<Dataset>>) -> Result<()> {
        let mut queries = self.lock();
        queries.retain(|_, query| query.start.elapsed() < MAX_AGE);
        if queries.len() >= MAX_QUERIES {
            return exec_err!("{MAX_QUERIES} queries have begun on this server within two minutes; ask again later");
        }
        let count = queries.keys().filter(|(other, _)| !caller.is_empty() && other == caller).count();
        if count >= MAX_CALLER_QUERIES {
            return exec_err!(
                "{count} queries of this token have begun on this server within two minutes; ask again later"
            );
        }
        let key = (caller.to_owned(), query.to_vec());
        if queries.contains_key(&key) {
            return exec_err!("the query has begun before");
        }
        queries.insert(key, QuerySnapshot { start: Instant::now(), tables });
        Ok(())
    }
}

/// The fixed rows that one caller may read.
#[derive(Clone)]
pub(super) struct CallerSnapshots {
    pub snapshots: Arc<Snapshots>,
    pub caller: String,
}

impl fmt::Debug for CallerSnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerSnapshots").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl CallerSnapshots {
    /// Returns the rows of the table that a part reads.
    pub fn rows(&self, part: &PartMessage) -> Result<Arc<Dataset>> {
        if part.process != self.snapshots.process {
            return exec_err!(
                "rows of table '{}' were asked of a server that does not have them, or was started again since",
                part.table
            );
        }
        let queries = self.snapshots.lock();
        let query = queries.get(&(self.caller.clone(), part.query.clone()));
        match query.and_then(|query| query.tables.get(&part.table)) {
            Some(rows) => Ok(rows.clone()),
            None => exec_err!("the query has not begun on this server, or too long ago: ask again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(snapshots: &Snapshots, caller: &str, number: usize) -> Result<()> {
        snapshots.fix(caller, &number.to_le_bytes(), HashMap::new())
    }

    #[test]
    fn a_caller_leaves_room_for_others() {
        let snapshots = Snapshots::new();
        for number in 0..MAX_CALLER_QUERIES {
            fix(&snapshots, "61", number).unwrap();
        }
        assert!(fix(&snapshots, "61", MAX_QUERIES).unwrap_err().to_string().contains("of this token"));
        for number in 0..MAX_CALLER_QUERIES {
            fix(&snapshots, "62", number).unwrap();
        }
        assert!(fix(&snapshots, "63", 0).unwrap_err().to_string().contains("on this server"));
    }
}
