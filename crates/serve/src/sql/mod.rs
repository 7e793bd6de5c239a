//! Answers SQL statements, and calls of other servers, by engines outside this crate.
//!
//! Read in this order: `state`, `engine` (what an engine must do), `blocking_engine` (an engine made of a function),
//! `statement` (running a statement within its limits), `running_statements`, `results` (rows to send), `endpoint` (the
//! route); `worker` (an engine for calls of other servers), `worker_calls`.
//!
//! It may use `http`, `ops`, `catalog`, `session` and `read`.

mod blocking_engine;
pub(crate) mod endpoint;
mod engine;
pub(crate) mod results;
mod running_statements;
mod state;
pub(crate) mod statement;
mod worker;
pub(crate) mod worker_calls;

pub use blocking_engine::{BlockingEngine, BlockingQuery};
pub(crate) use endpoint::statement_text;
pub use engine::{SqlEngine, SqlError, SqlFuture, SqlMemory, SqlPlan, SqlQuery, SqlRows, SqlTables};
pub(crate) use state::{SqlSession, SqlState};
pub(crate) use statement::{NO_ID, RunningQuery, Statement, require_engine};
pub use worker::{WorkerCaller, WorkerEngine, WorkerFuture, WorkerRequest};
