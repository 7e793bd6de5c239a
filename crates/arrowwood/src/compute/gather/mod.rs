//! Copies rows by their numbers.
//!
//! In reading order: `fixed_width` copies columns as bytes, `row_selection` gathers all columns of selected rows, `take`
//! takes rows by number or at random, and `gathered_rows` copies rows side by side. Uses `random`, `selection` and
//! `scan`.

mod fixed_width;
mod gathered_rows;
mod row_selection;
mod take;

pub(super) use fixed_width::FixedWidthColumns;
pub use gathered_rows::GatheredRows;
pub(super) use row_selection::{BATCH, RowSelection, gather_rows, gather_selections};
pub(super) use take::{resolve_views, select_columns};
