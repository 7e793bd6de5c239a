//! Groups and their aggregates.
//!
//! In reading order: `intern` (keys as numbers), `groups` (the group of each row), `sets` (distinct integers), `state` (running
//! aggregates of groups), `block` (those of a block), `table` (those of all blocks), `cost` (their memory), `outcome` (as
//! columns), `fused` (condition, groups and sums in one loop), `views` (texts where they are), `partition` (very many groups),
//! `aggregate`, `distinct` (numbers of distinct values), `kept` (states to go on with), `incremental` (of a dataset that
//! grows).

mod aggregate;
mod block;
mod cost;
mod distinct;
mod fused;
mod groups;
mod incremental;
mod intern;
mod kept;
mod outcome;
mod partition;
mod sets;
mod state;
mod table;
mod views;

pub use aggregate::{Aggregation, AggregationProgress};
pub(super) use groups::{key_part, is_key_type};
pub use incremental::IncrementalAggregation;
pub(super) use intern::KeyPart;
pub use outcome::AggregateFunction;
pub(super) use state::is_stored_as_integer;
