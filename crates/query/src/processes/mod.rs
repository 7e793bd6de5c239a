//! Runs queries in separate processes whose memory the system limits, for statements that are not
//! [known to be bounded](crate::bounded_statements).
//!
//! ```text
//! engine ─▶ process_pool ─▶ session ─▶ frames ─┐
//!                                            pipes
//! query_process ─▶ limits, QueryEngine ─▶ frames ─┘
//! ```
//! A query process runs the same program. It receives the statement and its maximum memory, requests each table that
//! the statement names, opens the same rows of it, and sends batches as an Arrow IPC stream. It exits at the end of its
//! standard input, and so with the process that started it.

mod engine;
mod frames;
mod limits;
mod memory_share;
mod messages;
mod process_pool;
mod query_process;
mod session;
mod table_messages;

pub use engine::ProcessEngine;
pub use query_process::{WORKER, run_query_process};
