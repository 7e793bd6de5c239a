//! Reduces columns to one value.
//!
//! In reading order: `map_reduce` for functions of callers, `sum`, `extreme`, and `quantile`: each combines loops for
//! every type, over batches and nulls. Uses `group`, which counts the keys of dictionaries, `gather`, `kernels`,
//! `random` and `scan`.

// The documentation shows the methods of `Column` in the order of these modules.
mod sum;

pub(super) mod extreme;
mod quantile;

mod map_reduce;

pub(super) use quantile::time_quantiles;
