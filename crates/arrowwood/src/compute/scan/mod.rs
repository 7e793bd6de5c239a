//! Reads the rows of a dataset in blocks of equal work.
//!
//! In reading order: `frame` finds batches and blocks of rows, `blocks` divides one column into blocks, `number` reads
//! numbers of each width, and `categories` has the order of a column's ordered categories. Uses no other room.

mod blocks;
mod categories;
mod frame;
mod number;

pub(super) use blocks::{Blocks, ColumnChunk, FixedWidthBytes, values_in};
pub(super) use categories::Categories;
pub(super) use frame::{BATCHES_AT_ONCE, BLOCK, Frame, RANDOM_ACCESS_BYTES, RowRanks, ValueOrder};
pub(super) use number::Number;
