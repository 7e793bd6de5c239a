//! The rows that queries have fixed on this server: each query sees one commit of a table, whatever it asks when.

use arrowwood::mapping::MutexExt;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arrowwood::Dataset;
use datafusion::common::exec_err;
use datafusion::error::Result;

use crate::cluster::messages::PartMessage;

/// How long after a query began its tasks may come.
const PATIENCE: Duration = Duration::from_secs(120);
/// The most queries whose tasks may still come.
const MOST: usize = 1_024;

/// A query of a caller.
type CallerQuery = (String, Vec<u8>);

struct QuerySnapshot {
    since: Instant,
    tables: HashMap<String, Arc<Dataset>>,
}

/// The rows of all queries.
pub(crate) struct Snapshots {
    /// This process, at random.
    pub process: Vec<u8>,
    queries: Mutex<HashMap<CallerQuery, QuerySnapshot>>,
}

impl Snapshots {
    pub fn new() -> Snapshots {
        let process = uuid::Uuid::new_v4().as_bytes().to_vec();
        Snapshots { process, queries: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallerQuery, QuerySnapshot>> {
        // A panic would leave other queries, which are whole.
        self.queries.lock_ignoring_poison()
    }

    /// Fixes the rows of a query.
    ///
    /// # Errors
    /// Where too many queries have begun, or half as many of this caller, or the query has.
    pub fn fix(&self, caller: &str, query: &[u8], tables: HashMap<String, Arc<Dataset>>) -> Result<()> {
        let mut queries = self.lock();
        queries.retain(|_, fixed| fixed.since.elapsed() < PATIENCE);
        if queries.len() >= MOST {
            return exec_err!("{MOST} queries have begun on this server within two minutes; ask again later");
        }
        let own = queries.keys().filter(|(known, _)| !caller.is_empty() && known == caller).count();
        if own >= MOST / 2 {
            return exec_err!(
                "{own} queries of this token have begun on this server within two minutes; ask again later"
            );
        }
        let key = (caller.to_owned(), query.to_vec());
        if queries.contains_key(&key) {
            return exec_err!("the query has begun before");
        }
        queries.insert(key, QuerySnapshot { since: Instant::now(), tables });
        Ok(())
    }
}

/// The rows that a caller may read.
#[derive(Clone)]
pub(crate) struct CallerSnapshots {
    pub snapshots: Arc<Snapshots>,
    pub caller: String,
}

impl fmt::Debug for CallerSnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl CallerSnapshots {
    /// The rows that a part is of.
    pub fn rows(&self, part: &PartMessage) -> Result<Arc<Dataset>> {
        if part.process != self.snapshots.process {
            return exec_err!(
                "rows of table '{}' were asked of a server that does not have them, or was started again since",
                part.table
            );
        }
        let queries = self.snapshots.lock();
        let known = queries.get(&(self.caller.clone(), part.query.clone()));
        match known.and_then(|fixed| fixed.tables.get(&part.table)) {
            Some(rows) => Ok(rows.clone()),
            None => exec_err!("the query has not begun on this server, or too long ago: ask again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_leaves_room_for_others() {
        let snapshots = Snapshots::new();
        let fix = |caller: &str, number: usize| snapshots.fix(caller, &number.to_le_bytes(), HashMap::new());
        (0..MOST / 2).for_each(|number| fix("61", number).unwrap());
        assert!(fix("61", MOST).unwrap_err().to_string().contains("of this token"));
        (0..MOST / 2).for_each(|number| fix("62", number).unwrap());
        assert!(fix("63", 0).unwrap_err().to_string().contains("on this server"));
    }
}
