//! Evaluates conditions and expressions on the columns of a dataset.
//!
//! In reading order:
//! - What a caller writes: `literal` has values to compare with, `expression` computations on columns, `pattern`
//!   regular expressions, and `predicate` conditions.
//! - Numbers: `computed` computes with the numbers of some rows.
//! - Tests of values: `value_predicate` has the tests, which `compare`, `compare_integers`, `compare_floats` and
//!   `compare_categories` translate by type, `text_set` has sets of texts, and `compare_kernels` finds the rows of an
//!   array that pass.
//! - What becomes of it for the columns of a dataset: `bound_expression` has expressions whose columns are known,
//!   `bound_predicate` predicates whose columns are known, and `prune` rules out partitions and blocks beforehand.
//!
//! Uses `selection` and `scan`.

mod bound_expression;
mod bound_predicate;
mod compare;
mod compare_categories;
mod compare_floats;
mod compare_integers;
mod compare_kernels;
mod computed;
mod expression;
mod literal;
mod pattern;
mod predicate;
mod prune;
mod text_set;
mod value_predicate;

pub(super) use bound_expression::{AT_ONCE, BoundExpression, EvalContext};
pub(super) use bound_predicate::BoundPredicate;
pub(super) use compare_integers::limits;
pub use expression::{Expression, TimePart, col};
pub(super) use literal::LiteralValue;
pub use literal::{Literal, Operator};
pub use predicate::Predicate;
pub(super) use prune::{prune_blocks, prune_partitions};
pub(super) use value_predicate::ValuePredicate;
