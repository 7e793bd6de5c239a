//! Keeps a local prefix of a server's table.
//!
//! Read in this order: `pull`, `client` (requests to a server).
//!
//! It may use `http`.

mod client;
mod pull;

pub use client::ClientOptions;
pub use pull::{PullProgress, pull};
