//! Stores which rows are selected, and copies them.
//!
//! In reading order: `mask` has a bit for each of some rows of a batch, `row_set` stores a set of a dataset's rows, and
//! `compress` copies the values of selected rows. Uses `scan`.

pub(super) mod compress;
mod mask;
mod row_set;

pub(super) use mask::{Mask, SelectedRows, pack_bits, set_bits, valid_mask};
pub(super) use row_set::RowSet;
