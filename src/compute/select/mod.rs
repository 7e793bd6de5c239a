//! Rows by number or by condition: `take`, `filter`, `shuffle`, and what they gather rows with.
//!
//! In reading order: `random`, `predicate` (conditions), `compare` (values against one), `mask` (rows that a condition
//! keeps), `compress` (rows that have bits), `plain` (rows of bytes in place), `take`, `filter`, `shuffle`.

mod compare;
mod compress;
mod filter;
mod mask;
mod plain;
mod predicate;
mod random;
mod shuffle;
mod take;

pub(super) use compare::{Test, limits};
pub(super) use mask::{Condition, Mask, nulls};
pub(super) use plain::Plains;
pub use predicate::{Col, Literal, Operator, Predicate, col};
pub(super) use random::Random;
pub(super) use take::{Picked, gather_rows};
