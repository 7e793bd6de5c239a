//! Receives rows, and commits those of many requests together.
//!
//! Read in this order: `state`, `endpoints` (rows of one table, new tables), `line_endpoint` (rows of several tables);
//! `request_body`, `decode` with `size_bound` and `expanded_size`, `line_protocol` (from bytes to rows); `writers`
//! (the writer of each table), `queue`, `group_commit`, `append_batches`, `producers` (from rows to commits).
//!
//! It may use `http`, `ops`, `catalog` and `session`.

pub(crate) mod append_batches;
pub(crate) mod decode;
pub(crate) mod endpoints;
pub(crate) mod expanded_size;
pub(crate) mod group_commit;
pub(crate) mod line_endpoint;
pub(crate) mod line_protocol;
pub(crate) mod producers;
pub(crate) mod queue;
pub(crate) mod request_body;
pub(crate) mod size_bound;
pub(crate) mod state;
pub(crate) mod writers;
