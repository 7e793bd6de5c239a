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

mod access;
mod append_batches;
mod audit;
mod blocking_engine;
mod budget;
mod catalog;
mod cells;
mod change_time;
mod client;
mod condition;
mod connection;
mod decode;
mod describe;
mod downsample;
mod downsample_time;
mod engine;
mod exact_text;
mod expanded_size;
mod export;
mod file_layout;
mod flight;
mod follow;
mod frames;
mod group_commit;
mod groups;
mod image;
mod ingest;
mod limits;
mod line_ingest;
mod line_protocol;
mod log;
mod metrics;
mod nested_value;
mod numbers;
mod page;
mod problem;
mod producers;
mod pull;
mod query;
mod queue;
mod readiness;
mod request_body;
mod response;
mod response_body;
mod rights;
mod routes;
mod row_stream;
mod running_statements;
mod search;
mod seek;
mod send_stall;
mod server;
mod session;
mod size_bound;
mod snapshot;
mod socket_options;
mod sql;
mod sql_results;
mod statement;
mod statistics;
mod table;
mod tls;
mod token;
mod value_condition;
mod views;
mod worker;
mod worker_calls;

pub use audit::AuditLog;
pub use blocking_engine::{BlockingEngine, BlockingQuery};
pub use client::ClientOptions;
pub use condition::{ConditionError, parse_condition};
pub use engine::{SqlEngine, SqlError, SqlFuture, SqlMemory, SqlPlan, SqlQuery, SqlRows, SqlTables};
#[doc(hidden)]
pub use flight::parse_call_target;
pub use limits::Limits;
#[doc(hidden)]
pub use line_protocol::{FieldValue, Line, LineError, each_line};
pub use pull::{PullProgress, pull};
pub use rights::Rights;
pub use server::{Options, Server, Stopper};
pub use token::{TokenEntry, add_token, list_tokens, revoke_token};
pub use worker::{WorkerBody, WorkerCaller, WorkerEngine, WorkerFuture, WorkerRequest};
