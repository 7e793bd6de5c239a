//! Groups and their aggregates.
//!
//! In reading order: `intern` (keys as numbers), `groups` (the group of each row), `state` (running aggregates of
//! groups), `outcome` (as columns), `fused` (condition, groups and sums in one loop), `aggregate`, `kept` (states to go on with),
//! `incremental` (of a dataset that grows).

mod aggregate;
mod fused;
mod groups;
mod incremental;
mod intern;
mod kept;
mod outcome;
mod state;

pub use aggregate::{Aggregation, AggregationProgress};
pub(super) use groups::{cell, is_key};
pub use incremental::IncrementalAggregation;
pub(super) use intern::Cell;
pub use outcome::Function;
pub(super) use state::is_integer;
