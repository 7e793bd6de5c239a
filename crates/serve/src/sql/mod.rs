//! Answers SQL statements, and calls of other servers, by engines outside this crate.
//!
//! Read in this order: `state`, `engine` (what an engine must do), `blocking_engine` (an engine made of a function), `statement`
//! (running a statement within its limits), `running_statements`, `results` (rows to send), `endpoint` (the route); `worker` (an engine for
//! calls of other servers), `worker_calls`.
//!
//! It may use `http`, `ops`, `catalog`, `session` and `read`.

pub(crate) mod blocking_engine;
pub(crate) mod endpoint;
pub(crate) mod engine;
pub(crate) mod results;
pub(crate) mod running_statements;
pub(crate) mod state;
pub(crate) mod statement;
pub(crate) mod worker;
pub(crate) mod worker_calls;
