//! Describes the client of a connection, as a [`Peer`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the client of a connection may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Everything that its token allows.
    Full,
    /// Only the server's health: the connection is beyond the limit, and is closed after one answer.
    HealthChecks,
}

/// The origin of a request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    /// Set for the connection of a follower, for which the system should buffer little.
    pub is_follower: Arc<AtomicBool>,
    pub admission: Admission,
}

impl Peer {
    /// Marks the connection as a follower's, before its response begins.
    pub fn mark_as_follower(&self) {
        self.is_follower.store(true, Ordering::Release);
    }
}
