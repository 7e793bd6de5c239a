//! [`Views`]: rows found by a condition, in their order or sorted, by number.

use arrowwood::mapping::MutexExt;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use hyper::StatusCode;

use crate::problem::{Problem, Result};
use crate::snapshot::Snapshot;

/// The maximum number of views.
const KEPT: usize = 4;

/// Rows of a table.
#[derive(Debug)]
pub(crate) struct View {
    id: String,
    table: String,
    snapshot: String,
    /// Their numbers in the table.
    pub rows: Vec<u64>,
}

/// The views of all clients; the oldest are dropped.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<(u64, VecDeque<Arc<View>>)>);

impl Views {
    /// # Errors
    /// 404 for a view that was dropped, or is one of other rows.
    pub fn get(&self, id: &str, of: &Snapshot) -> Result<Arc<View>> {
        let views = self.0.lock_ignoring_poison();
        let found =
            views.1.iter().find(|view| view.id == id && view.table == of.table.name && view.snapshot == of.id).cloned();
        found.ok_or_else(|| {
            let detail = "the rows that were found are no longer kept; search again";
            Problem::new(StatusCode::NOT_FOUND, "no_view", detail)
        })
    }

    /// Keeps the rows of a table; returns their id.
    pub fn add(&self, of: &Snapshot, rows: Vec<u64>) -> String {
        let mut views = self.0.lock_ignoring_poison();
        views.0 += 1;
        let id = views.0.to_string();
        views.1.push_back(Arc::new(View {
            id: id.clone(),
            table: of.table.name.clone(),
            snapshot: of.id.clone(),
            rows,
        }));
        while views.1.len() > KEPT {
            views.1.pop_front();
        }
        id
    }
}
