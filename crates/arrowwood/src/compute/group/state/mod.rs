//! What aggregate functions need of the rows of groups: made from blocks of rows, merged, and turned into results.
//!
//! In reading order: `bitsets` has sets of distinct integers, `group_state` all running aggregates, `block` makes those
//! of a block, `table` merges blocks, `memory` limits the memory of groups, `output` makes result columns, and
//! `snapshot` keeps states without their dataset. Uses `keys`.

mod bitsets;
mod block;
mod group_state;
mod memory;
mod output;
mod snapshot;
mod table;

pub(super) use bitsets::IntegerRange;
pub(super) use block::{ComputedColumns, states_from_masks};
pub(in crate::compute) use group_state::is_stored_as_integer;
pub(super) use group_state::{GroupState, NeumaierSum, StateKind, ValueKind};
pub(super) use memory::MemoryEstimate;
pub use output::AggregateFunction;
pub(super) use output::{gather_group_rows, result_type, state_kind, state_to_array};
pub(super) use snapshot::StateSnapshot;
pub(super) use table::{GroupTable, OrderedGroups};
