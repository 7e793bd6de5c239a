//! The engine: a statement becomes a plan over the tables of its query, and the plan an answer.
//!
//! In reading order: `query_engine` runs queries on threads of its own, `catalog` has the tables of a query, and
//! `query_pool` its memory. Uses `functions`, `statements` and `plans`.

mod catalog;
mod query_engine;
mod query_pool;

pub use query_engine::QueryEngine;
pub(crate) use query_engine::{AnswerStream, MAX_QUEUED_BATCHES, count_processors, to_sql_error, unfinished_error};
