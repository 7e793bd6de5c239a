//! Selects rows by number or by condition: `take`, `filter`, `shuffle`, and their helpers.
//!
//! The modules, in the order to read them:
//! - What a caller writes: `literal` has values to compare with, `expression` computations on columns, `predicate`
//!   conditions, and `pattern` regular expressions.
//! - What becomes of it for the columns of a dataset: `compare` has tests of values, which `compare_floats`,
//!   `compare_integers` and `text_set` translate and store by type, `categories` tests against ordered categories,
//!   `mask` bitmaps of rows that pass a test, `computed` loops over numbers, `bound_expression` expressions whose
//!   columns are known, and `bound_predicate` predicates whose columns are known.
//! - Rows by condition: `row_set` stores the rows that a condition selects, `filter` finds them, `filtered_rows` is the
//!   dataset of them, and `prune` rules out partitions and blocks beforehand.
//! - Rows by number: `compress` copies selected rows, `fixed_width` copies rows as bytes, `take` gathers rows,
//!   `row_order` stores the numbers of rows, `reordered_view` is the dataset of rows in such an order, and `batch_size`
//!   limits its batches.
//! - Rows in random order: `random` has a generator, `shuffle` shuffles, `permutation` computes an order, and
//!   `epoch_order` orders rows for training.

mod batch_size;
mod bound_expression;
mod bound_predicate;
mod categories;
mod compare;
mod compare_floats;
mod compare_integers;
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
mod text_set;
mod value_predicate;

pub(super) use bound_expression::{AT_ONCE, BoundExpression, EvalContext};
pub(super) use bound_predicate::BoundPredicate;
pub(super) use categories::Categories;
pub(super) use compare_integers::limits;
pub use epoch_order::{EpochOrder, GatheredRows};
pub use expression::{Expression, TimePart, col};
pub(super) use filter::check_result_memory;
pub(super) use filtered_rows::filter_input;
pub(super) use fixed_width::FixedWidthColumns;
pub use literal::{Literal, Operator};
pub(super) use mask::{BYTE_KEYS, MAX_SHORT_TEXT, Mask, pack_bits, valid_mask};
pub use predicate::Predicate;
pub(super) use random::SplitMix64;
pub(super) use reordered_view::reordered_view;
pub(super) use row_order::{RowOrder, try_collect};
pub(super) use row_set::RowSet;
pub(super) use take::{RowSelection, gather_rows};
pub(super) use value_predicate::ValuePredicate;
