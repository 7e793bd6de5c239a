//! Rows by number or by condition: `take`, `filter`, `shuffle`, and their helpers.
//!
//! In reading order: `random`, `predicate` (conditions), `compare` (values against a literal), `mask` (rows that
//! satisfy a condition), `compress` (copying selected rows), `plain` (rows of bytes in place), `take`, `filter`,
//! `prune` (partitions that a condition leaves out), `view` (rows by number, in place), `shuffle`, `permutation` (an order
//! that is computed), `sampler` (rows for training).

mod compare;
mod compress;
mod filter;
mod mask;
mod permutation;
mod plain;
mod predicate;
mod prune;
mod random;
mod sampler;
mod shuffle;
mod take;
mod view;

pub(super) use compare::{Test, limits};
pub(super) use mask::{Condition, Mask, nulls};
pub(super) use plain::Plains;
pub use predicate::{Col, Literal, Operator, Predicate, col};
pub(super) use random::Random;
pub use sampler::{EpochOrder, GatheredRows};
pub(super) use take::{Picked, gather_rows};
pub(super) use view::{Order, view};
