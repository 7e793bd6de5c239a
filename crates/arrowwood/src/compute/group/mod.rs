//! Groups rows by keys, and aggregates each group.
//!
//! A *key* of a group is its value in one of the columns that rows are grouped by. The *state* of a group is what one
//! or more aggregate functions need of its rows so far, such as a sum and a count; the states of parts of the rows can
//! be merged. Groups are numbered from 1 within a block of rows, as number 0 is for the rows that a filter excludes.
//!
//! In reading order:
//! - The rooms, each of which uses only those before it, and none of the files here: `keys` numbers groups, `state` has
//!   the states of groups, and `radix` groups rows in partitions, where there are very many groups.
//! - `fused_sum` filters, groups and sums in one loop.
//! - `aggregate` describes what callers ask for, `plan` chooses how to compute it, `distinct` counts distinct values,
//!   and `finish` computes all of it.
//! - `incremental` keeps states between the answers for a dataset that grows.
//!
//! Uses `view`, `gather`, `expr`, `kernels`, `selection` and `scan`.

mod aggregate;
mod distinct;
mod finish;
mod fused_sum;
mod incremental;
mod keys;
mod plan;
mod radix;
mod state;

pub use aggregate::{Aggregation, AggregationProgress};
pub use incremental::IncrementalAggregation;
pub(super) use keys::{KeyPart, is_key_type, key_part};
pub use state::AggregateFunction;
pub(super) use state::is_stored_as_integer;
