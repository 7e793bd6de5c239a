//! Serves connections: listens, accepts, and dispatches requests to the other rooms.
//!
//! Read in this order: `listener` (binding, accepting, periodic work), `app_state` (the state of the whole server),
//! `signals`, `tls`, `connection` (one connection and its time limits), `routes` (from a request to the room that answers
//! it).
//!
//! This room may use all others; none uses it.

mod app_state;
mod connection;
mod listener;
mod routes;
mod signals;
mod tls;

pub use listener::{Options, Server, Stopper};
