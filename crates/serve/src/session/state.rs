//! Holds the [`ServerState`], which requests of all kinds share.

use std::sync::Arc;

use tokio::sync::watch;

use crate::auth::Access;
use crate::catalog::Catalog;
use crate::ops::{AuditLog, Limits, Memory, Metrics, Readiness};

/// The state that requests of all kinds share.
pub(crate) struct ServerState {
    pub catalog: Catalog,
    pub access: Access,
    pub limits: Limits,
    /// Memory for reading rows in queries.
    pub queries: Memory,
    pub metrics: Arc<Metrics>,
    pub readiness: Arc<Readiness>,
    pub audit: AuditLog,
    /// Set for `arrowwood view`: the page is served, and errors are shown in full.
    pub is_view: bool,
    /// True if rows can be saved as Parquet, which the page asks for.
    pub writes_parquet: bool,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

impl ServerState {
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }
}
