//! Groups rows by keys, and aggregates each group.
//!
//! The modules, each of which uses only those before it:
//! - `interner` numbers keys, and `groups` numbers the groups of a block's rows.
//! - `bitsets` has sets of distinct integers, and `state` all running aggregates of groups.
//! - `block` aggregates a block, `table` merges blocks, and `memory` limits the memory of groups.
//! - `output` makes result columns from states.
//! - `fused_sum` filters, groups and sums in one loop.
//! - `text_views` and `radix_partition` group rows in partitions, where there are very many groups.
//! - `aggregate` chooses among these, and `distinct` counts distinct values.
//! - `snapshot` and `incremental` keep states between the answers for a dataset that grows.

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
