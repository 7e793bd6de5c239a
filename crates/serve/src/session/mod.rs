//! Gives a request its caller and the state that all requests share, in a [`Session`].
//!
//! Read in this order: `state` (what requests share), `peer` (the client of a connection), then this file.
//!
//! A room with a state of its own adds it to sessions: `IngestSession`, `SqlSession`, `ViewSession`.
//!
//! It may use `http`, `ops`, `auth` and `catalog`.

mod peer;
mod state;

use std::future::Future;
use std::io;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value as Json, json};

pub(crate) use self::peer::{Admission, Peer};
pub(crate) use self::state::ServerState;
use crate::auth::Caller;
use crate::catalog::{Audience, Snapshot, Table, describe};
use crate::http::{Problem, Result};
use crate::ops::{Budget, Metrics, blocking, log};

/// The caller of a long-running request.
#[derive(Clone)]
pub(crate) struct Session {
    pub shared: Arc<ServerState>,
    pub caller: Arc<Caller>,
    pub peer: Peer,
}

impl Session {
    /// Returns true if the token is unchanged.
    pub fn is_valid(&self) -> bool {
        self.shared.access.is_valid(&self.caller)
    }

    /// Refuses a request whose token was revoked, or has got other rights.
    pub fn check_valid(&self) -> Result<()> {
        if self.is_valid() {
            Ok(())
        } else {
            Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the token was revoked"))
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Waits until the server stops.
    pub fn wait_for_stop(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopping = self.shared.stopping.clone();
        async move {
            // Without a sender the server has stopped.
            let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
        }
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// Logs why a response broke off.
    pub fn on_failure(&self, refusal: &Problem) {
        let reason = refusal.log().unwrap_or_else(|| refusal.code().to_owned());
        log::message(format_args!("an answer to {} broke off: {reason}", self.peer.address));
    }

    /// Logs why a response that has begun breaks off, and returns its error.
    pub fn break_off(&self, refusal: Problem) -> io::Error {
        self.on_failure(&refusal);
        io::Error::other(refusal)
    }

    /// Returns an error as the last line of a response in lines that has begun.
    pub fn error_line(&self, refusal: Problem) -> Json {
        let refusal = if self.shared.is_view { refusal.with_full_detail() } else { refusal };
        json!({"error": refusal.detail(), "code": refusal.code()})
    }

    /// Refuses reading of table `name` without the right to it.
    pub fn check_read(&self, name: &str) -> Result<()> {
        self.shared.access.check_read(&self.caller, name)
    }

    /// Refuses the facts about table `name` without the right to read or to write it.
    pub fn check_facts(&self, name: &str) -> Result<()> {
        self.shared.access.check_facts(&self.caller, name)
    }

    /// Refuses writing of table `name` without the right to it.
    pub fn check_write(&self, name: &str) -> Result<()> {
        self.shared.access.check_write(&self.caller, name)
    }

    /// Refuses a caller without the right to write any table.
    pub fn check_writer(&self) -> Result<()> {
        self.shared.access.check_writer(&self.caller)
    }

    /// Returns the facts about a table that the caller gets. Blocks.
    pub fn facts(&self, snapshot: &Snapshot) -> Result<Json> {
        let audience = Audience {
            may_write: self.shared.access.may_write(&self.caller, &snapshot.table.name),
            is_local: self.peer.address.ip().to_canonical().is_loopback(),
            parquet: self.shared.is_view.then_some(self.shared.writes_parquet),
        };
        describe::facts(snapshot, audience)
    }

    /// Returns the table named `name`.
    pub async fn table(&self, name: &str) -> Result<Arc<Table>> {
        // Most requests need no other thread, which would take longer than the rest of the request.
        if let Some(table) = self.shared.catalog.unchanged(name) {
            return Ok(table);
        }
        let name = name.to_owned();
        self.run_blocking(move |session| session.shared.catalog.get(&name)).await
    }

    /// Creates the budget of a request for reading rows.
    pub fn budget(&self) -> Budget {
        Budget::new(&self.shared.queries, &self.shared.limits)
    }

    /// Runs blocking work on a thread of its own.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let session = self.clone();
        blocking(move || work(&session)).await.map_err(|_| Problem::internal("the work was given up"))?
    }
}

/// The facts about a request for the audit log, in addition to its URL.
#[derive(Default)]
pub(crate) struct Trace {
    pub caller: Option<Arc<Caller>>,
    pub is_write: bool,
    pub rows: Option<u64>,
}
