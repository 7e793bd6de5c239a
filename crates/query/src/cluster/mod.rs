//! Queries over the tables of several servers: a [`Cluster`] plans them, and a [`Worker`] on each server runs its part.
//!
//! ```text
//! Cluster ─▶ messages ─▶ Worker ─▶ snapshots            each server fixes the rows of the tables of a query
//!    │
//!    └─▶ table ─▶ distribution ─▶ the engine ─▶ part    the rows of each server, which alone can read them
//! ```
//! The engine is datafusion-distributed: it cuts a plan into stages, sends them to servers, and moves rows between
//! them.
//!
//! In reading order: `hosts`, `peers` and `version` are the servers, `messages` what they send, `query` and `worker`
//! its two sides; `table`, `distribution`, `part` and `snapshots` are about the rows, and `panics` finds failed tasks.
//! Uses `functions`, `plans` and `engine`.

mod distribution;
mod hosts;
mod messages;
mod panics;
mod part;
mod peers;
mod query;
mod snapshots;
mod table;
mod version;
mod worker;

pub use query::{Cluster, ClusterAnswer};
pub use worker::{Worker, WorkerOptions};
