//! The program `arrowwood-datafusion`: the command `arrowwood` with DataFusion as its SQL engine.
//!
//! `arrowwood-datafusion serve` answers SQL of clients, `sql` and `view` that of the user. The library has the parts:
//! a [`QueryEngine`] runs statements in this process, a [`ProcessEngine`] those of untrusted clients, and a
//! [`CommandEngine`] those of the command. A [`Cluster`] queries the tables of several servers, each with a
//! [`Worker`].
//!
//! Files and tables become tables of DataFusion by the crate [`arrowwood_datafusion`], which a program of your own
//! needs alone.
//!
//! # Rooms
//! Each uses only the ones above it:
//!
//! | room | what it holds |
//! |---|---|
//! | `functions` | functions, operators and types whose results fit into memory |
//! | `statements` | parameters of statements, limits of their size, and whether their memory and time are bounded |
//! | `plans` | changes and checks of plans: cancellation, sorts within memory, constants |
//! | `engine` | [`QueryEngine`]: a statement becomes a plan, and the plan an answer |
//! | `processes` | [`ProcessEngine`]: statements that are not bounded, in processes that the system limits |
//! | `cluster` | [`Cluster`] and [`Worker`]: one query over several servers |
//! | `command` | [`CommandEngine`]: all of these for the command |
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod cluster;
mod command;
mod engine;
mod functions;
mod plans;
mod processes;
mod statements;

pub use arrowwood_serve::ClientOptions;
pub use cluster::{Cluster, ClusterAnswer, Worker, WorkerOptions};
pub use command::CommandEngine;
pub use engine::QueryEngine;
pub use processes::{ProcessEngine, WORKER, run_query_process};
