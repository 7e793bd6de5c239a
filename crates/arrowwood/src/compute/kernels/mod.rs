//! Loops over values: sums, extremes and moments.
//!
//! In reading order: `values` has loops over all values of a column, and `accumulate` loops over rows of groups. Uses
//! `selection` and `scan`.

mod accumulate;
mod values;

pub(super) use accumulate::{
    GroupedRows, LANES, ONLY_GROUP, OUT, add_floats, add_squares, count_by_group, for_each_decimal, for_each_float,
    for_each_integer, is_number, with_decoded_rows,
};
pub(super) use values::{
    FloatSum, LEAF, PairwiseSum, add_f16, add_f32, add_f64, max, min, moments_f64, sum_i32, sum_i64, sum_u32,
};
