//! Selects rows by number or by condition: `take`, `filter`, `shuffle`, and their helpers.
//!
//! The reading order is: `random`, `literal` (values to compare with), `expression` (computations on columns),
//! `predicate` (conditions), `compare` (tests of values against a literal), `categories` (tests against one of ordered
//! categories), `mask` (bitmaps of rows that pass a test), `computed` (loops over numbers), `bound_expression`
//! (expressions on a dataset's columns), `bound_predicate` (rows that satisfy a predicate), `compress` (copies of
//! selected rows), `fixed_width` (rows of bytes in place), `take`, `row_set` (the rows that a condition selects),
//! `reordered_view` (rows by number, in place), `filtered_rows` (selected rows, in place), `filter`, `prune`
//! (partitions and blocks that a condition rules out), `shuffle`, `permutation` (an order that is computed),
//! `epoch_order` (rows for training).

mod batch_size;
mod bound_expression;
mod bound_predicate;
mod categories;
mod compare;
mod compress;
mod computed;
mod epoch_order;
mod expression;
mod filter;
mod filtered_rows;
mod fixed_width;
mod literal;
mod mask;
mod pattern;
mod permutation;
mod predicate;
mod prune;
mod random;
mod reordered_view;
mod row_order;
mod row_set;
mod shuffle;
mod take;

pub(super) use bound_expression::{AT_ONCE, BoundExpression, EvalContext};
pub(super) use bound_predicate::BoundPredicate;
pub(super) use categories::Categories;
pub(super) use compare::{ValuePredicate, limits};
pub use epoch_order::{EpochOrder, GatheredRows};
pub use expression::{Expression, TimePart, col};
pub(super) use filter::check_result_memory;
pub(super) use filtered_rows::filter_input;
pub(super) use fixed_width::FixedWidthColumns;
pub use literal::{Literal, Operator};
pub(super) use mask::{Mask, null_mask, pack_bits};
pub use predicate::Predicate;
pub(super) use random::SplitMix64;
pub(super) use reordered_view::reordered_view;
pub(super) use row_order::{RowOrder, try_collect};
pub(super) use row_set::RowSet;
pub(super) use take::{RowSelection, gather_rows};
