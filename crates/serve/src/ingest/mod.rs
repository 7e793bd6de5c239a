//! Receives rows, and commits those of many requests together.
//!
//! Read in this order: `state`, `endpoints` (rows of one table, new tables), `line_endpoint` (rows of several tables);
//! `request_body`, `decode` with `size_bound` and `expanded_size`, `line_protocol` (from bytes to rows); `writers` (the
//! writer of each table), `queue`, `group_commit`, `append_batches`, `producers` (from rows to commits).
//!
//! It may use `http`, `ops`, `catalog` and `session`.

mod append_batches;
mod decode;
pub(crate) mod endpoints;
mod expanded_size;
mod group_commit;
pub(crate) mod line_endpoint;
mod line_protocol;
mod producers;
mod queue;
mod request_body;
mod size_bound;
mod state;
mod writers;

pub(crate) use endpoints::{Destination, PendingBatches, lost};
pub(crate) use line_endpoint::LineApi;
#[cfg(feature = "internal")]
pub use line_protocol::{FieldValue, Line, LineError, each_line};
pub(crate) use queue::AppendResults;
pub(crate) use request_body::{ReceivedBody, SMALL};
pub(crate) use state::{IngestSession, IngestState};
