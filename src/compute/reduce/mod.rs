//! Reductions of columns to one value.
//!
//! `accumulate` has the loops over rows of groups; `sum`, `extreme`, `quantile` and `map_reduce` combine loops for
//! every type, over batches and nulls.

mod accumulate;
pub(super) mod extreme;
mod map_reduce;
mod quantile;
mod sum;

pub(super) use accumulate::{
    LANES, OUT, Rows, add_floats, add_squares, count, each_decimal, each_float, each_integer, number_rows,
};
pub(super) use sum::is_number;
