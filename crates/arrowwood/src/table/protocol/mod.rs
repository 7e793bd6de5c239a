//! Implements the protocol between a table's writer and its readers.
//!
//! - `publish` makes a commit visible to readers of this library, and wakes those that wait for one.
//! - `footer`, `ring` and `rate_limiter` publish footers for other Arrow readers: `footer` encodes them, `ring` finds a
//!   place in the file that no reader can be using, and `rate_limiter` limits how often, so that there always is one.
//! - `log` encodes and decodes small durable commits.
//! - `proof` computes the checksum that tells whether the rows of a visible commit are there.
//!
//! Uses only `format` of `table`.

pub(super) mod footer;
pub(super) mod log;
pub(super) mod proof;
pub mod publish;
mod rate_limiter;
mod ring;

pub(super) use footer::{FooterSizes, is_published};
pub(super) use publish::PATIENCE;
#[cfg(feature = "internal")]
pub use rate_limiter::{simulate_elapsed, simulate_rest};
pub(super) use ring::{FooterRing, ring_size};
