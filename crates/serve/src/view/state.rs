//! Holds the state of this room, in a [`ViewState`], and adds it to sessions.

use std::sync::Arc;

use super::views::Views;
use crate::session::Session;
use crate::sql::{SqlSession, SqlState};

/// What requests of the page share.
pub(crate) struct ViewState {
    /// The results of searches.
    pub views: Views,
    pub sql: Arc<SqlState>,
}

impl ViewState {
    pub fn new(sql: Arc<SqlState>) -> ViewState {
        ViewState { views: Views::default(), sql }
    }
}

/// The session of a request of the page.
#[derive(Clone)]
pub(crate) struct ViewSession {
    pub session: Session,
    pub state: Arc<ViewState>,
}

impl ViewSession {
    /// Returns the session of a statement on the page.
    pub fn sql(&self) -> SqlSession {
        SqlSession { session: self.session.clone(), state: self.state.sql.clone() }
    }
}
