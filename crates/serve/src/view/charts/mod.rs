//! Summarizes columns for charts.
//!
//! Read in this order: `numbers` (values as floats), `downsample` (bins of rows), `downsample_time` (bins of time),
//! `statistics` (columns at a glance).

pub(crate) mod downsample;
pub(crate) mod downsample_time;
pub(crate) mod numbers;
pub(crate) mod statistics;
