//! The engine: a statement becomes a plan over the tables of its query, and the plan an answer.
//!
//! In reading order: `query_engine` runs queries on threads of its own, and `query_task` is one of them, with its
//! tables (`catalog`), its memory (`query_pool`), its rows (`answer`) and its errors (`errors`). Uses `functions`,
//! `statements` and `plans`.

mod answer;
mod catalog;
mod errors;
mod query_engine;
mod query_pool;
mod query_task;

pub(crate) use answer::{AnswerStream, MAX_QUEUED_BATCHES};
pub(crate) use errors::{to_sql_error, unfinished_error};
pub use query_engine::QueryEngine;
pub(crate) use query_engine::count_processors;
