//! Shows some rows of a dataset, or its rows in another order, as a dataset whose columns are copied when they are used.
//!
//! In reading order:
//! - Rows by a condition: `filter` finds them, and `filtered_rows` is the dataset of them.
//! - Rows in another order: `row_order` stores their numbers, `batch_size` limits their batches, `reordered` is the
//!   dataset of them, and `shuffle` orders rows at random.
//!
//! Uses `expr`, `gather`, `random`, `selection` and `scan`.

mod batch_size;
mod filter;
mod filtered_rows;
mod reordered;
mod row_order;
mod shuffle;

pub(super) use filter::{check_result_memory, prune_inner};
pub(super) use filtered_rows::filter_input;
pub(super) use reordered::reordered_view;
pub(super) use row_order::{RowOrder, try_collect};
