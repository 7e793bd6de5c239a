//! Engines: SQL and Parquet, which this library has not.
//!
//! The modules, in reading order:
//! - `interface`: what an engine does;
//! - `parquet`: whether a path needs an engine for Parquet, and its errors.
//!
//! Uses `shell`.

mod interface;
mod parquet;

#[cfg(feature = "serve")]
pub use interface::ClusterOptions;
pub use interface::Engine;
#[cfg(feature = "serve")]
pub(crate) use interface::NO_CLUSTER;
pub(crate) use parquet::{engine_error, is_parquet, require_parquet};
