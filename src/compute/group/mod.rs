//! Groups and their aggregates.
//!
//! In reading order: `interner` (keys as numbers), `groups` (the group of each row), `bitsets` (distinct integers), `state` (running
//! aggregates of groups), `block` (those of a block), `table` (those of all blocks), `memory` (their memory), `output` (as
//! columns), `fused_sum` (condition, groups and sums in one loop), `text_views` (texts where they are), `radix_partition` (very many groups),
//! `aggregate`, `distinct` (numbers of distinct values), `snapshot` (states to go on with), `incremental` (of a dataset that
//! grows).

mod aggregate;
mod bitsets;
mod block;
mod distinct;
mod fused_sum;
mod groups;
mod incremental;
mod interner;
mod memory;
mod output;
mod radix_partition;
mod snapshot;
mod state;
mod table;
mod text_views;

pub use aggregate::{Aggregation, AggregationProgress};
pub(super) use groups::{is_key_type, key_part};
pub use incremental::IncrementalAggregation;
pub(super) use interner::KeyPart;
pub use output::AggregateFunction;
pub(super) use state::is_stored_as_integer;
