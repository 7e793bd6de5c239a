//! Rows by number or by condition: `take`, `filter`, `shuffle`, and their helpers.
//!
//! In reading order: `random`, `literal` (values to compare with), `expression` (what is computed of columns), `predicate`
//! (conditions), `compare` (values against a literal), `categories` (against
//! one of ordered categories), `mask` (rows that pass a test), `numbers` (loops over numbers),
//! `formula` (expressions of a dataset's columns), `condition` (rows that satisfy a predicate), `compress` (copying selected rows), `plain` (rows of bytes in place), `take`,
//! `row_set` (rows that a condition has found), `view` (rows by number, in place), `filtered` (found rows, in place), `filter`,
//! `prune` (partitions that a condition leaves out), `shuffle`, `permutation` (an order
//! that is computed), `sampler` (rows for training).

mod categories;
mod compare;
mod compress;
mod condition;
mod expression;
mod filter;
mod filtered;
mod fitting;
mod formula;
mod literal;
mod mask;
mod numbers;
mod order;
mod pattern;
mod permutation;
mod plain;
mod predicate;
mod prune;
mod random;
mod row_set;
mod sampler;
mod shuffle;
mod take;
mod view;

pub(super) use categories::Categories;
pub(super) use compare::{ValuePredicate, limits};
pub(super) use condition::BoundPredicate;
pub use expression::{Expression, TimePart, col};
pub(super) use filter::check_result_memory;
pub(super) use filtered::filter_input;
pub(super) use formula::{AT_ONCE, BoundExpression, EvalContext};
pub use literal::{Literal, Operator};
pub(super) use mask::{Mask, null_mask, pack_bits};
pub(super) use order::{RowOrder, try_collect};
pub(super) use plain::FixedWidthColumns;
pub use predicate::Predicate;
pub(super) use random::SplitMix64;
pub(super) use row_set::RowSet;
pub use sampler::{EpochOrder, GatheredRows};
pub(super) use take::{RowSelection, gather_rows};
pub(super) use view::reordered_view;
