//! Rows by number or by condition: `take`, `filter`, `shuffle`, and their helpers.
//!
//! In reading order: `random`, `literal` (values to compare with), `expression` (what is computed of columns), `predicate`
//! (conditions), `compare` (values against a literal), `mask` (rows that pass a test), `numbers` (loops over numbers),
//! `formula` (expressions of a dataset's columns), `condition` (rows that satisfy a predicate), `compress` (copying selected rows), `plain` (rows of bytes in place), `take`, `filter`,
//! `prune` (partitions that a condition leaves out), `view` (rows by number, in place), `shuffle`, `permutation` (an order
//! that is computed), `sampler` (rows for training).

mod compare;
mod compress;
mod condition;
mod expression;
mod filter;
mod formula;
mod literal;
mod mask;
mod numbers;
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
pub(super) use condition::Condition;
pub use expression::{Expression, TimePart, col};
pub(super) use formula::{AT_ONCE, Formula, FormulaRows};
pub use literal::{Literal, Operator};
pub(super) use mask::{Mask, nulls};
pub(super) use plain::Plains;
pub use predicate::Predicate;
pub(super) use random::Random;
pub use sampler::{EpochOrder, GatheredRows};
pub(super) use take::{Picked, gather_rows};
pub(super) use view::{Order, view};
