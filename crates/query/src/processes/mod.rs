//! [`ProcessEngine`]: runs statements in processes whose memory the system limits, for statements that are not
//! [known to be bounded](crate::statements::bounded).
//!
//! ```text
//! process_engine ─▶ process_pool ─▶ session ─▶ frames ─┐
//!                                                    pipes
//! query_process ─▶ limits, QueryEngine ─▶ frames ──────┘
//! ```
//! A query process runs the same program. It receives the statement and its maximum memory, requests each table that
//! the statement names, opens the same rows of it, and sends batches as an Arrow IPC stream. It exits at the end of its
//! standard input, and so with the process that started it.
//!
//! In reading order: `frames`, `messages` and `table_messages` are what is sent; `limits` and `memory_share` limit
//! memory; `query_process` is one side, and `process_pool`, `session` and `process_engine` the other. Uses `engine` and
//! `functions`.

mod frames;
mod limits;
mod memory_share;
mod messages;
mod process_engine;
mod process_pool;
mod query_process;
mod session;
mod table_messages;

pub use process_engine::ProcessEngine;
pub use query_process::{WORKER, run_query_process};
