//! Groups rows by keys, and aggregates each group.
//!
//! A *key* of a group is its value in one of the columns that rows are grouped by. The *state* of a group is what one
//! or more aggregate functions need of its rows so far, such as a sum and a count; the states of parts of the rows can
//! be merged. Groups are numbered from 1 within a block of rows, as number 0 is for the rows that a filter excludes.
//!
//! The modules, each of which uses only modules before it:
//! - `interner` numbers keys, and `groups` numbers the groups of a block's rows.
//! - `bitsets` has sets of distinct integers, and `state` all running aggregates of groups.
//! - `block` aggregates a block, `table` merges blocks, and `memory` limits the memory of groups.
//! - `output` makes result columns from states.
//! - `fused_sum` filters, groups and sums in one loop.
//! - `text_views`, `chunk_order`, `key_hash` and `radix_partition` group rows in partitions, where there are very many
//!   groups.
//! - `aggregate` describes what callers ask for, `plan` chooses how to compute it, `finish` computes it, and `distinct`
//!   counts distinct values.
//! - `snapshot` and `incremental` keep states between the answers for a dataset that grows.

mod aggregate;
mod bitsets;
mod block;
mod chunk_order;
mod distinct;
mod finish;
mod fused_sum;
mod groups;
mod incremental;
mod interner;
mod key_hash;
mod memory;
mod output;
mod plan;
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
