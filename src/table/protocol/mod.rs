//! The protocol between a table's writer and its readers: `publish` (making a commit visible), `footer`, `ring` and `rate_limiter`
//! (the published footer, for other Arrow readers: its bytes, its places, how often), `log` (small durable commits), `proof`
//! (whether the rows of a commit are there). Of `table`, uses `format` only.

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
