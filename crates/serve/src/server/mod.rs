//! Serves connections: listens, accepts, and dispatches requests to the other rooms.
//!
//! Read in this order: `listener` (binding, accepting, signals, periodic work), `rooms` (the state of all rooms), `tls`,
//! `connection` (one connection and its time limits), `routes` (from a request to the room that answers it).
//!
//! This room may use all others; none uses it.

pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod rooms;
pub(crate) mod routes;
pub(crate) mod tls;
