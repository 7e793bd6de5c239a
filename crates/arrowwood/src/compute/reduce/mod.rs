//! Reduces columns to one value.
//!
//! `accumulate` has the loops over rows of groups; `sum`, `extreme`, `quantile` and `map_reduce` combine loops for
//! every type, over batches and nulls.

mod accumulate;
pub(super) mod extreme;
mod map_reduce;
mod quantile;
mod sum;

pub(super) use accumulate::{
    GroupedRows, LANES, ONLY_GROUP, OUT, add_floats, add_squares, count_by_group, for_each_decimal, for_each_float,
    for_each_integer, with_decoded_rows,
};
pub(super) use sum::is_number;
