//! Implements the protocol between a table's writer and its readers.
//!
//! `publish` makes a commit visible. `footer`, `ring` and `rate_limiter` publish footers for other Arrow readers: their
//! bytes, their places in the file, and how often. `log` keeps small durable commits, and `proof` tells whether the rows
//! of a commit are there. Uses only `format` of `table`.

pub(super) mod footer;
pub(super) mod log;
pub(super) mod proof;
pub mod publish;
mod rate_limiter;
mod ring;

pub(super) use footer::{FooterSizes, is_published};
pub(super) use publish::PATIENCE;
pub use rate_limiter::{simulate_elapsed, simulate_rest};
pub(super) use ring::{FooterRing, ring_size};
