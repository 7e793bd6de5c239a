//! Growing tables.
//!
//! The modules, in reading order:
//! - `shared_writer`: a writer that threads share;
//! - `partitions`: rows of any partitions;
//! - `retention`: the rows that a writer keeps;
//! - `writer`: rows of one table;
//! - `follow`: new rows;
//! - `aggregation`: groups of a table, kept up to date.
//!
//! Uses `io`, `incoming`, `dataset` and lower rooms.

pub mod aggregation;
pub mod follow;
pub mod partitions;
pub mod retention;
pub mod shared_writer;
pub mod writer;
