//! The state of the whole server, from which each request gets what it needs.

use std::sync::Arc;

use super::tls::Tls;
use crate::flight::FlightSession;
use crate::ingest::{IngestSession, IngestState};
use crate::session::{ServerState, Session};
use crate::sql::{SqlSession, SqlState};
use crate::view::{ViewSession, ViewState};

/// The state of the server.
pub(crate) struct AppState {
    pub shared: Arc<ServerState>,
    pub ingest: Arc<IngestState>,
    pub sql: Arc<SqlState>,
    pub view: Arc<ViewState>,
    pub tls: Option<Tls>,
}

impl AppState {
    pub fn ingest(&self, session: Session) -> IngestSession {
        IngestSession { session, state: self.ingest.clone() }
    }

    pub fn sql(&self, session: Session) -> SqlSession {
        SqlSession { session, state: self.sql.clone() }
    }

    pub fn view(&self, session: Session) -> ViewSession {
        ViewSession { session, state: self.view.clone() }
    }

    pub fn flight(&self, session: Session) -> FlightSession {
        FlightSession { session, ingest: self.ingest.clone(), sql: self.sql.clone() }
    }
}
