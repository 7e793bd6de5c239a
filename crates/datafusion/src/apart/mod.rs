//! Queries by processes of their own, whose memory the system limits: for statements that are not
//! [known](crate::bounded_statements) to be bounded.
//!
//! ```text
//! ProcessEngine ─▶ processes ─▶ conversation ─▶ frames ─┐
//!                                                      pipes
//! query_process ─▶ limits, QueryEngine ─▶ tables ─▶ frames ─┘
//! ```
//! The process is this program again. It is told the statement and how much memory it may take, asks for each table
//! that the statement names, opens the same rows of it, and sends batches as an Arrow IPC stream. It ends with its
//! standard input, which is the end of the process that started it.

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
