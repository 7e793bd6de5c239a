//! Keeps the results of searches as [`Views`]: the numbers of rows, in their order or sorted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arrowwood::mapping::MutexExt;
use hyper::StatusCode;

use crate::catalog::Snapshot;
use crate::http::{Problem, Result};

/// The maximum number of views.
const MAX_VIEWS: usize = 4;

/// The result of a search: some rows of one snapshot of a table.
#[derive(Debug)]
pub(crate) struct View {
    id: String,
    /// The name of the table.
    table: String,
    /// The id of the snapshot.
    snapshot: String,
    /// The numbers of the rows in the table.
    pub rows: Vec<u64>,
}

/// The views of all clients, of which the last [`MAX_VIEWS`] are kept.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<ViewList>);

/// The kept views, from the oldest to the newest.
#[derive(Debug, Default)]
struct ViewList {
    last_id: u64,
    views: VecDeque<Arc<View>>,
}

impl Views {
    /// Returns a view of the rows in `snapshot`.
    ///
    /// # Errors
    /// 404 for a view that was dropped, or has other rows.
    pub fn get(&self, id: &str, snapshot: &Snapshot) -> Result<Arc<View>> {
        let list = self.0.lock_ignoring_poison();
        for view in &list.views {
            if view.id == id && view.table == snapshot.table.name && view.snapshot == snapshot.id {
                return Ok(view.clone());
            }
        }
        let detail = "the rows that were found are no longer kept; search again";
        Err(Problem::new(StatusCode::NOT_FOUND, "no_view", detail))
    }

    /// Adds a view of rows in `snapshot`, and returns its id.
    pub fn add(&self, snapshot: &Snapshot, rows: Vec<u64>) -> String {
        debug_assert!(rows.iter().all(|row| *row >= snapshot.rows.first_row()), "a view has rows of another snapshot");
        let mut list = self.0.lock_ignoring_poison();
        list.last_id += 1;
        let id = list.last_id.to_string();
        list.views.push_back(Arc::new(View {
            id: id.clone(),
            table: snapshot.table.name.clone(),
            snapshot: snapshot.id.clone(),
            rows,
        }));
        while list.views.len() > MAX_VIEWS {
            list.views.pop_front();
        }
        id
    }
}
