//! HTTP without tables: errors, parameters, and bodies of responses.
//!
//! Read in this order: `problem` (errors of the API), `query` (parameters and headers), `response_body` (bodies made step
//! by step) with `send_stall` (clients that take nothing), `response` (short responses), `socket_options`.
//!
//! This room uses no other.

pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod response;
pub(crate) mod response_body;
pub(crate) mod send_stall;
pub(crate) mod socket_options;
