//! Holds the state of this room, in an [`SqlState`], and adds it to sessions.

use std::sync::Arc;

use super::engine::SqlEngine;
use super::running_statements::RunningStatements;
use super::worker::WorkerEngine;
use crate::session::Session;

/// What statements share.
pub(crate) struct SqlState {
    /// The engine for SQL statements.
    pub engine: Option<Arc<dyn SqlEngine>>,
    pub running: RunningStatements,
    /// The engine for calls of other servers.
    pub worker: Option<Arc<dyn WorkerEngine>>,
}

impl SqlState {
    pub fn new(engine: Option<Arc<dyn SqlEngine>>, worker: Option<Arc<dyn WorkerEngine>>) -> SqlState {
        SqlState { engine, running: RunningStatements::default(), worker }
    }
}

/// The session of a request with a statement.
#[derive(Clone)]
pub(crate) struct SqlSession {
    pub session: Session,
    pub state: Arc<SqlState>,
}
