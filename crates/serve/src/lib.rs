//! Serves the tables and Arrow files of a directory over HTTP, to machines that can't map them.
//!
//! ```no_run
//! use arrowwood_serve::{Options, Server};
//!
//! let server = Server::bind("data", &Options { read_only: true, ..Options::default() })?;
//! println!("serving {}", server.url());
//! server.run()?; // until a Stopper stops it
//! # Ok::<(), arrowwood::Error>(())
//! ```
//! There is little between files and clients: a request for rows makes a list of their buffers, which the kernel
//! copies from the mapping. `docs/serve.md` has the routes, `SECURITY.md` what an attacker can do.
//!
//! | task | use |
//! |---|---|
//! | serve a directory | [`Server`], [`Options`], [`Limits`], [`Stopper`] |
//! | let clients in | [`add_token`], [`Rights`], [`list_tokens`], [`revoke_token`] |
//! | keep a copy of a server's table | [`pull`], [`ClientOptions`] |
//! | answer SQL by an engine of your own | [`BlockingEngine`]; [`SqlEngine`] for futures |
//! | answer for several servers | [`WorkerEngine`] |
//! | parse conditions as the server does | [`parse_condition`] |

// Each folder is a room: its `mod.rs` says what it holds. A room uses only rooms below it.
//
// server                   connections, and which room answers a request
// view   flight            the page of `arrowwood view`; the routes below as calls of Arrow Flight
// sql                      statements, by an engine outside this crate
// read   ingest            rows as they lie in their files; many requests in one commit
// session                  the caller of a request, and what all requests share
// auth   catalog           tokens and rights; the served tables and files
// ops    replica           limits, memory, logs; a local prefix of a server's table
// http                     errors, parameters, bodies
// hex, change_time, typed_array: what several rooms need, each a file

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

pub use auth::{Rights, TokenEntry, add_token, list_tokens, revoke_token};
#[cfg(feature = "internal")]
pub use flight::parse_call_target;
pub use http::WorkerBody;
#[cfg(feature = "internal")]
pub use ingest::{FieldValue, Line, LineError, each_line};
pub use ops::{AuditLog, Limits};
pub use read::{ConditionError, parse_condition};
pub use replica::{ClientOptions, PullProgress, pull};
pub use server::{Options, Server, Stopper};
pub use sql::{
    BlockingEngine, BlockingQuery, SqlEngine, SqlError, SqlFuture, SqlMemory, SqlPlan, SqlQuery, SqlRows, SqlTables,
    WorkerCaller, WorkerEngine, WorkerFuture, WorkerRequest,
};
