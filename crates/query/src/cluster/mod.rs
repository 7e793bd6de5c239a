//! Queries over the tables of several servers: a [`Cluster`] plans them, and a [`Worker`] on each server runs its part.
//!
//! ```text
//! Cluster ─▶ messages ─▶ Worker ─▶ snapshots     each server fixes the rows of the tables that the query mentions
//!    │
//!    └─▶ table ─▶ plan ─▶ the engine ─▶ part     a part of the scan for each server, which alone can read it
//! ```
//! The engine is datafusion-distributed: it cuts a plan into stages, sends them to servers, and moves rows between
//! them.

mod hosts;
mod messages;
mod panics;
mod part;
mod peers;
mod plan;
mod query;
mod snapshots;
mod table;
mod version;
mod worker;

pub use peers::PeerOptions;
pub use query::{Cluster, ClusterAnswer};
pub use worker::{Worker, WorkerOptions};
