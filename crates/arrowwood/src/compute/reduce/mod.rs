//! Reduces columns to one value.
//!
//! In reading order: `map_reduce` for functions of callers, `sum`, `extreme`, and `quantile`: each combines loops for
//! every type, over batches and nulls. Uses `group`, which counts the keys of dictionaries, `gather`, `kernels`,
//! `random` and `scan`.

pub(super) mod extreme;
mod map_reduce;
mod quantile;
mod sum;

pub(super) use quantile::time_quantiles;
