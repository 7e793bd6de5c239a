//! Serves the tables and Arrow files of a directory over HTTP, to machines that can't map them.
//!
//! ```text
//! server ─▶ connection ─▶ routes ─┬▶ row_stream, follow ─▶ frames ─▶ response_body   rows as they lie in their files
//!                                 ├▶ flight: the same, as calls of Arrow Flight
//!                                 └▶ ingest, line_ingest ─▶ request_body, decode, line_protocol
//!                                           └▶ queue, group_commit, append_batches   many requests in one commit
//! session, access, token, rights, tls                   authentication and rights
//! limits, budget, statement, running_statements         limits of requests and queries
//! send_stall, readiness, metrics, audit, log            operation
//! catalog, table, snapshot, describe, producers         the served tables and their state
//! engine, blocking_engine, sql_results, worker          SQL by an engine outside this crate
//! pull ─▶ client                                        a local prefix of a server's table
//! page, views, cells, groups, search, statistics, …     the page of `arrowwood view`
//! ```
//! There is little between files and clients: a request for rows makes a list of their buffers, which the kernel
//! copies from the mapping. `docs/serve.md` has the routes, `SECURITY.md` what an attacker can do.

// Printing waits for the reader of the pipe, and panics if it fails: `log` does neither.
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::disallowed_methods)]

mod auth;
mod catalog;
mod change_time;
mod flight;
mod hex;
mod http;
mod ingest;
mod ops;
mod read;
mod replica;
mod server;
mod session;
mod sql;
mod typed_array;
mod view;

pub use auth::rights::Rights;
pub use auth::token::{TokenEntry, add_token, list_tokens, revoke_token};
#[doc(hidden)]
pub use flight::parse_call_target;
pub use http::response_body::WorkerBody;
#[doc(hidden)]
pub use ingest::line_protocol::{FieldValue, Line, LineError, each_line};
pub use ops::audit::AuditLog;
pub use ops::limits::Limits;
pub use read::condition::{ConditionError, parse_condition};
pub use replica::client::ClientOptions;
pub use replica::pull::{PullProgress, pull};
pub use server::listener::{Options, Server, Stopper};
pub use sql::blocking_engine::{BlockingEngine, BlockingQuery};
pub use sql::engine::{SqlEngine, SqlError, SqlFuture, SqlMemory, SqlPlan, SqlQuery, SqlRows, SqlTables};
pub use sql::worker::{WorkerCaller, WorkerEngine, WorkerFuture, WorkerRequest};
