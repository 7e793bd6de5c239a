//! Functions, operators, literals and types whose results fit into memory: a call fails before it makes a result that
//! is too large, or if it would take too long.
//!
//! In reading order: `value_bytes` measures values, `result_bounds` computes the maximum size of a call's result,
//! `result_budget` is the memory that results share, `wrapper` and `concat_op` are functions that check each call, and
//! `planners` puts them into a session. Uses no other room.

mod concat_op;
mod planners;
mod result_bounds;
mod result_budget;
mod value_bytes;
mod wrapper;

pub(crate) use concat_op::CONCAT_NAME;
pub(crate) use planners::install_bounded_functions;
pub(crate) use result_bounds::{Check, Growth, find_check};
pub(crate) use result_budget::{MemorySource, ResultBudget, UNKNOWN_BYTES};
pub(crate) use value_bytes::width;
pub(crate) use wrapper::check_bounded;
