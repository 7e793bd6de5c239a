//! Keeps a local prefix of a server's table.
//!
//! Read in this order: `pull`, `client` (requests to a server).
//!
//! It may use `http`.

pub(crate) mod client;
pub(crate) mod pull;
